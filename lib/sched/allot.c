/* RA(U): the division of slots among users. */
#include "htcsched/allot.h"

#include <string.h>

#include "allot_private.h"
#include "core/util.h"

static uint64_t demand_of(const htc_allot_user *u)
{
    return u->queued > UINT64_MAX - u->running ? UINT64_MAX : u->queued + u->running;
}

static uint64_t min64(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

static uint64_t sum_of_weights(const htc__division *d)
{
    uint64_t sum = 0;
    for (size_t i = 0; i < d->n; i++)
        sum += d->entries[i].weight;
    return sum;
}

/* Among equal remainders the poorest first, so that a slot short of enough for everybody goes round. But whoever has
 * agents starting keeps what he was just given: a slot is not to move on before it has run a task. Marked agents count
 * as held, or he who is to give back would look poorer for it and the marks would wander about. */
static int before_remainder(const htc__division *d, const htc__entry *x, const htc__entry *y)
{
    if (x->remainder != y->remainder)
        return x->remainder > y->remainder;
    const htc_allot_user *u = &d->users[x->at], *v = &d->users[y->at];
    if ((u->starting > 0) != (v->starting > 0))
        return u->starting > 0;
    int held = htc__compare_ratio(u->agents + u->draining, u->weight, v->agents + v->draining, v->weight);
    if (held)
        return u->starting > 0 ? held > 0 : held < 0;
    return htc__before_tie(u, v);
}

static int before_room(const htc__division *d, const htc__entry *x, const htc__entry *y)
{
    int c = htc__compare_ratio(htc__room_of(d, x), x->weight, htc__room_of(d, y), y->weight);
    return c ? c < 0 : htc__before_tie(&d->users[x->at], &d->users[y->at]);
}

static int before_arrival(const htc__division *d, const htc__entry *x, const htc__entry *y)
{
    const htc_allot_user *u = &d->users[x->at], *v = &d->users[y->at];
    return u->arrival != v->arrival ? u->arrival < v->arrival : u->id < v->id;
}

/* Those at the front are gathered in what order they come. */
static void to_front(htc__division *d, size_t from, size_t to)
{
    htc__entry keep = d->entries[to];
    d->entries[to] = d->entries[from];
    d->entries[from] = keep;
}

/* Equation 1 rounded down, with the exact remainder A * weight mod W. */
static void equation_1(htc__division *d)
{
    uint64_t whole = sum_of_weights(d);
    d->left = d->slots;
    for (size_t i = 0; i < d->n; i++) {
        htc__entry *e = &d->entries[i];
        htc_u128    share = (htc_u128)d->slots * e->weight;
        uint64_t    rounded = (uint64_t)(share / whole);
        e->ra = min64(e->demand, rounded);
        e->remainder = (uint64_t)(share - (htc_u128)rounded * whole);
        d->left -= e->ra;
    }
}

static int enough_by_weight(const htc__division *d, const htc__entry *last, htc_u128 rooms, uint64_t weights)
{
    return rooms <= d->left &&
           (htc_u128)htc__room_of(d, last) * (d->whole - weights) <= (d->left - rooms) * last->weight;
}

/* Hand out what is left in proportion to weight, nobody beyond his room. Those with the least room for their weight are
 * filled first; once one has room for his share, so have all after him, and each gets his share rounded down. */
static void fill(htc__division *d, int keep_remainders)
{
    d->whole = sum_of_weights(d);
    size_t   filled = htc__entries_row(d, before_room, enough_by_weight);
    uint64_t whole = d->whole, amount = d->left, left = d->left;
    for (size_t i = 0; i < filled; i++) {
        amount -= htc__room_of(d, &d->entries[i]);
        whole -= d->entries[i].weight;
    }
    for (size_t i = 0; i < d->n; i++) {
        htc__entry *e = &d->entries[i];
        htc_u128    share = (htc_u128)amount * e->weight;
        uint64_t    give = i < filled ? htc__room_of(d, e) : (uint64_t)(share / whole);
        e->ra += give;
        left -= give;
        if (!keep_remainders)
            e->remainder = i < filled ? 0 : (uint64_t)(share - (htc_u128)give * whole);
    }
    d->left = left;
}

/* What min_agents promises him. */
static uint64_t floor_of(const htc__entry *e, uint32_t min_agents)
{
    return min64(e->demand, min_agents);
}

static uint64_t above(const htc__entry *e, uint64_t level, uint32_t min_agents)
{
    uint64_t floor = floor_of(e, min_agents), keep = level > floor ? level : floor;
    return e->ra > keep ? e->ra - keep : 0;
}

/* Take amount from the largest: lower them to one level, the last slots from those who would be served last. */
static void take_from_largest(htc__division *d, uint64_t amount, uint32_t min_agents)
{
    uint64_t low = 0, high = 0;
    for (size_t i = 0; i < d->n; i++)
        high = d->entries[i].ra > high ? d->entries[i].ra : high;
    while (low < high) {
        uint64_t level = low + (high - low) / 2, sum = 0;
        for (size_t i = 0; i < d->n; i++)
            sum += above(&d->entries[i], level, min_agents);
        if (sum <= amount)
            high = level;
        else
            low = level + 1;
    }
    for (size_t i = 0; i < d->n; i++) {
        uint64_t give = above(&d->entries[i], low, min_agents);
        d->entries[i].ra -= give;
        amount -= give;
    }
    size_t n = 0;
    for (size_t i = 0; i < d->n; i++)
        if (d->entries[i].ra == low && low > floor_of(&d->entries[i], min_agents))
            to_front(d, i, n++);
    size_t keep = n - (size_t)min64(n, amount);
    htc__entries_select(d, d->entries, n, keep, before_remainder);
    for (size_t i = keep; i < n; i++)
        d->entries[i].ra--;
}

/* fair.min_agents: from what rounding left, else from the largest. */
static void raise_to_minimum(htc__division *d, uint32_t min_agents)
{
    uint64_t promised = 0, missing = 0;
    for (size_t i = 0; i < d->n; i++)
        promised += floor_of(&d->entries[i], min_agents);
    if (promised > d->slots)
        return;
    for (size_t i = 0; i < d->n; i++) {
        htc__entry *e = &d->entries[i];
        uint64_t    floor = floor_of(e, min_agents);
        if (e->ra < floor) {
            missing += floor - e->ra;
            e->ra = floor;
            e->raised = 1;
        }
    }
    uint64_t from_left = min64(missing, d->left);
    d->left -= from_left;
    if (missing > from_left)
        take_from_largest(d, missing - from_left, min_agents);
}

/* One slot each, largest remainder first, to those below their demand. */
static void largest_remainders(htc__division *d, int every_one)
{
    size_t n = 0;
    for (size_t i = 0; i < d->n; i++) {
        const htc__entry *e = &d->entries[i];
        if (e->ra < e->demand && (every_one || (e->remainder > 0 && !e->raised)))
            to_front(d, i, n++);
    }
    size_t take = (size_t)min64(n, d->left);
    htc__entries_select(d, d->entries, n, take, before_remainder);
    for (size_t i = 0; i < take; i++)
        d->entries[i].ra++;
    d->left -= take;
}

static void divide_eq1(htc__division *d, uint32_t min_agents)
{
    equation_1(d);
    raise_to_minimum(d, min_agents);
    largest_remainders(d, 0);
    for (size_t i = 0; i < d->n; i++)
        d->entries[i].base = d->entries[i].ra;
    /* All with a remainder have had their slot if anything is left here: equal users are equal still. */
    if (d->left > 0) {
        fill(d, 1);
        largest_remainders(d, 1);
    }
}

static void divide_maxmin(htc__division *d, uint32_t min_agents)
{
    d->left = d->slots;
    fill(d, 0);
    raise_to_minimum(d, min_agents);
    largest_remainders(d, 0);
    for (size_t i = 0; i < d->n; i++)
        d->entries[i].base = d->entries[i].ra;
}

static void divide_static(htc__division *d, uint64_t fixed_users)
{
    for (size_t i = 0; i < d->n; i++) {
        htc__entry *e = &d->entries[i];
        e->base = e->ra = d->users[e->at].fixed ? min64(e->demand, d->slots / fixed_users) : 0;
    }
}

static int enough_in_full(const htc__division *d, const htc__entry *last, htc_u128 rooms, uint64_t weights)
{
    (void)last, (void)weights;
    return rooms <= d->left;
}

static void divide_fcfs(htc__division *d)
{
    d->left = d->slots;
    size_t served = htc__entries_row(d, before_arrival, enough_in_full);
    for (size_t i = 0; i <= served && i < d->n; i++) {
        htc__entry *e = &d->entries[i];
        e->base = e->ra = min64(e->demand, d->left);
        d->left -= e->ra;
    }
}

int htc__allot_divided_for(const htc_allot_options *options, const htc_allot_user *user)
{
    return options->policy == HTC_ALLOT_EQ1 ? user->queued > 0 : demand_of(user) > 0;
}

htc_status htc__allot_check(const htc_allot_options *in, const htc_allot_user *users, size_t n, uint64_t slots,
                            const void *result, htc_allot_options *out)
{
    *out = (htc_allot_options){ .size = sizeof *out };
    htc_status status = htc__options_copy(out, sizeof *out, in, in ? in->size : 0, sizeof in->size);
    if (status != HTC_OK)
        return status;
    out->min_agents = out->min_agents == 0 ? 1 : out->min_agents == HTC_ALLOT_NO_MINIMUM ? 0 : out->min_agents;
    if ((n > 0 && (!users || !result)) || n > HTC_ALLOT_USERS_MAX || slots > HTC_ALLOT_SLOTS_MAX ||
        out->policy > HTC_ALLOT_FCFS || (out->policy == HTC_ALLOT_STATIC && out->fixed_users == 0))
        return HTC_EINVAL;
    for (size_t i = 0; i < n; i++)
        if (users[i].weight == 0 || users[i].weight > HTC_ALLOT_WEIGHT_MAX || users[i].agents > HTC_ALLOT_SLOTS_MAX ||
            users[i].draining > HTC_ALLOT_SLOTS_MAX || users[i].starting > users[i].agents)
            return HTC_EINVAL;
    return HTC_OK;
}

static void divide(htc__division *d, const htc_allot_options *options)
{
    switch (options->policy) {
    case HTC_ALLOT_STATIC:
        divide_static(d, options->fixed_users);
        break;
    case HTC_ALLOT_MAXMIN:
        divide_maxmin(d, options->min_agents);
        break;
    case HTC_ALLOT_FCFS:
        divide_fcfs(d);
        break;
    default:
        divide_eq1(d, options->min_agents);
    }
}

void htc_allot_options_init(htc_allot_options *options)
{
    if (options)
        *options = (htc_allot_options)HTC_ALLOT_OPTIONS_INIT;
}

htc_status htc_allot(const htc_env *env, const htc_allot_options *options, const htc_allot_user *users, size_t n,
                     uint64_t slots, htc_allot_share *out)
{
    htc_allot_options o;
    htc_status        status = htc__allot_check(options, users, n, slots, out, &o);
    if (status != HTC_OK || n == 0)
        return status;
    htc__division d = { .users = users, .slots = slots };
    d.entries = htc__alloc(env, n * sizeof *d.entries);
    if (!d.entries)
        status = HTC_ENOMEM;
    for (size_t i = 0; status == HTC_OK && i < n; i++)
        if (htc__allot_divided_for(&o, &users[i]))
            d.entries[d.n++] =
                (htc__entry){ .at = (uint32_t)i, .weight = users[i].weight, .demand = demand_of(&users[i]) };
    if (status == HTC_OK) {
        if (d.n > 0)
            divide(&d, &o);
        memset(out, 0, n * sizeof *out);
        for (size_t i = 0; i < d.n; i++)
            out[d.entries[i].at] = (htc_allot_share){ d.entries[i].ra, d.entries[i].base };
    }
    htc__free(env, d.entries, n * sizeof *d.entries);
    return status;
}

uint64_t htc_allot_weight(double weight)
{
    double units = weight * (double)HTC_ALLOT_WEIGHT_ONE + 0.5;
    if (!(units >= 1.0))
        return 1;
    return units >= (double)HTC_ALLOT_WEIGHT_MAX ? HTC_ALLOT_WEIGHT_MAX : (uint64_t)units;
}

htc_status htc_allot_policy_from_name(const char *name, uint32_t *policy)
{
    static const char *const names[] = { "eq1", "static", "maxmin", "fcfs" };
    for (uint32_t i = 0; name && i < sizeof names / sizeof *names; i++)
        if (strcmp(name, names[i]) == 0) {
            if (policy)
                *policy = i;
            return HTC_OK;
        }
    return HTC_ENOTFOUND;
}
