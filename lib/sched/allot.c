/* RA(U): the division of slots among users. */
#include "htcsched/allot.h"

#include <string.h>

#include "allot_private.h"
#include "core/util.h"

/* One user who is divided for. */
typedef struct entry {
    const htc_allot_user *user;
    size_t                at; /* place in the caller's arrays */
    uint64_t              demand, ra, base;
    uint64_t              floor;     /* what min_agents promises him */
    uint64_t              remainder; /* of his exact share, in parts of the same whole for everybody */
    uint64_t              room;      /* how much more he could use; of a filling */
    int                   raised;    /* by min_agents: that was his remainder */
} entry;

typedef struct division {
    entry   *entries;
    size_t  *order;
    size_t   n;
    uint64_t slots, left;
} division;

static uint64_t demand_of(const htc_allot_user *u)
{
    return u->queued > UINT64_MAX - u->running ? UINT64_MAX : u->queued + u->running;
}

static uint64_t min64(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

static uint64_t sum_of_weights(const division *d)
{
    uint64_t sum = 0;
    for (size_t i = 0; i < d->n; i++)
        sum += d->entries[i].user->weight;
    return sum;
}

/* Among equal remainders the poorest first, so that a slot short of enough for everybody goes round. But whoever has
 * agents starting keeps what he was just given: a slot is not to move on before it has run a task. Marked agents count
 * as held, or he who is to give back would look poorer for it and the marks would wander about. */
static int before_remainder(const void *ctx, size_t a, size_t b)
{
    const entry          *x = &((const entry *)ctx)[a], *y = &((const entry *)ctx)[b];
    const htc_allot_user *u = x->user, *v = y->user;
    if (x->remainder != y->remainder)
        return x->remainder > y->remainder;
    if ((u->starting > 0) != (v->starting > 0))
        return u->starting > 0;
    int held = htc__compare_ratio(u->agents + u->draining, u->weight, v->agents + v->draining, v->weight);
    if (held)
        return u->starting > 0 ? held > 0 : held < 0;
    return htc__before_tie(u, v);
}

static int before_room(const void *ctx, size_t a, size_t b)
{
    const entry *x = &((const entry *)ctx)[a], *y = &((const entry *)ctx)[b];
    int          c = htc__compare_ratio(x->room, x->user->weight, y->room, y->user->weight);
    return c ? c < 0 : htc__before_tie(x->user, y->user);
}

static int before_arrival(const void *ctx, size_t a, size_t b)
{
    const htc_allot_user *x = ((const entry *)ctx)[a].user, *y = ((const entry *)ctx)[b].user;
    return x->arrival != y->arrival ? x->arrival < y->arrival : x->id < y->id;
}

static void sort_by(division *d, htc_before *before)
{
    for (size_t i = 0; i < d->n; i++)
        d->order[i] = i;
    htc__sort(d->order, d->n, before, d->entries);
}

/* Equation 1 rounded down, with the exact remainder A * weight mod W. */
static void equation_1(division *d)
{
    uint64_t whole = sum_of_weights(d);
    d->left = d->slots;
    for (size_t i = 0; i < d->n; i++) {
        entry   *e = &d->entries[i];
        htc_u128 share = (htc_u128)d->slots * e->user->weight;
        e->ra = min64(e->demand, (uint64_t)(share / whole));
        e->remainder = (uint64_t)(share % whole);
        d->left -= e->ra;
    }
}

/* Hand out what is left in proportion to weight, nobody beyond his room. Those with the least room for their weight are
 * filled first; once one has room for his share, so have all after him, and each gets his share rounded down. */
static void fill(division *d, int keep_remainders)
{
    uint64_t whole = sum_of_weights(d), amount = d->left;
    int      proportional = 0;
    for (size_t i = 0; i < d->n; i++)
        d->entries[i].room = min64(d->entries[i].demand - d->entries[i].ra, d->left);
    sort_by(d, before_room);
    for (size_t i = 0; i < d->n; i++) {
        entry   *e = &d->entries[d->order[i]];
        htc_u128 share = (htc_u128)amount * e->user->weight;
        uint64_t give = e->room, remainder = 0;
        if (proportional || (htc_u128)e->room * whole > share) {
            proportional = 1;
            give = (uint64_t)(share / whole);
            remainder = (uint64_t)(share % whole);
        } else {
            amount -= e->room;
            whole -= e->user->weight;
        }
        e->ra += give;
        d->left -= give;
        if (!keep_remainders)
            e->remainder = remainder;
    }
}

static uint64_t above(const entry *e, uint64_t level)
{
    uint64_t keep = level > e->floor ? level : e->floor;
    return e->ra > keep ? e->ra - keep : 0;
}

/* Take amount from the largest: lower them to one level, the last slots from those who would be served last. */
static void take_from_largest(division *d, uint64_t amount)
{
    uint64_t low = 0, high = d->slots;
    while (low < high) {
        uint64_t level = low + (high - low) / 2, sum = 0;
        for (size_t i = 0; i < d->n; i++)
            sum += above(&d->entries[i], level);
        if (sum <= amount)
            high = level;
        else
            low = level + 1;
    }
    for (size_t i = 0; i < d->n; i++) {
        uint64_t give = above(&d->entries[i], low);
        d->entries[i].ra -= give;
        amount -= give;
    }
    sort_by(d, before_remainder);
    for (size_t i = d->n; i > 0 && amount > 0; i--) {
        entry *e = &d->entries[d->order[i - 1]];
        if (e->ra == low && e->ra > e->floor) {
            e->ra--;
            amount--;
        }
    }
}

/* fair.min_agents: from what rounding left, else from the largest. */
static void raise_to_minimum(division *d, uint32_t min_agents)
{
    uint64_t promised = 0, missing = 0;
    for (size_t i = 0; i < d->n; i++) {
        d->entries[i].floor = min64(d->entries[i].demand, min_agents);
        promised += d->entries[i].floor;
    }
    if (promised > d->slots)
        return;
    for (size_t i = 0; i < d->n; i++) {
        entry *e = &d->entries[i];
        if (e->ra < e->floor) {
            missing += e->floor - e->ra;
            e->ra = e->floor;
            e->raised = 1;
        }
    }
    uint64_t from_left = min64(missing, d->left);
    d->left -= from_left;
    if (missing > from_left)
        take_from_largest(d, missing - from_left);
}

/* One slot each, largest remainder first, to those below their demand. */
static void largest_remainders(division *d, int every_one)
{
    sort_by(d, before_remainder);
    for (size_t i = 0; i < d->n && d->left > 0; i++) {
        entry *e = &d->entries[d->order[i]];
        if (e->ra < e->demand && (every_one || (e->remainder > 0 && !e->raised))) {
            e->ra++;
            d->left--;
        }
    }
}

static void divide_eq1(division *d, uint32_t min_agents)
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

static void divide_maxmin(division *d, uint32_t min_agents)
{
    d->left = d->slots;
    fill(d, 0);
    raise_to_minimum(d, min_agents);
    largest_remainders(d, 0);
    for (size_t i = 0; i < d->n; i++)
        d->entries[i].base = d->entries[i].ra;
}

static void divide_static(division *d, uint64_t fixed_users)
{
    for (size_t i = 0; i < d->n; i++) {
        entry *e = &d->entries[i];
        e->base = e->ra = e->user->fixed ? min64(e->demand, d->slots / fixed_users) : 0;
    }
}

static void divide_fcfs(division *d)
{
    d->left = d->slots;
    sort_by(d, before_arrival);
    for (size_t i = 0; i < d->n; i++) {
        entry *e = &d->entries[d->order[i]];
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

static void divide(division *d, const htc_allot_options *options)
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

htc_status htc_allot(const htc_env *env, const htc_allot_options *options, const htc_allot_user *users, size_t n,
                     uint64_t slots, htc_allot_share *out)
{
    htc_allot_options o;
    htc_status        status = htc__allot_check(options, users, n, slots, out, &o);
    if (status != HTC_OK || n == 0)
        return status;
    division d = { .slots = slots };
    d.entries = htc__alloc(env, n * sizeof *d.entries);
    d.order = htc__alloc(env, n * sizeof *d.order);
    if (!d.entries || !d.order)
        status = HTC_ENOMEM;
    for (size_t i = 0; status == HTC_OK && i < n; i++)
        if (htc__allot_divided_for(&o, &users[i]))
            d.entries[d.n++] = (entry){ .user = &users[i], .at = i, .demand = demand_of(&users[i]) };
    if (status == HTC_OK) {
        if (d.n > 0)
            divide(&d, &o);
        memset(out, 0, n * sizeof *out);
        for (size_t i = 0; i < d.n; i++)
            out[d.entries[i].at] = (htc_allot_share){ d.entries[i].ra, d.entries[i].base };
    }
    htc__free(env, d.entries, n * sizeof *d.entries);
    htc__free(env, d.order, n * sizeof *d.order);
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
