/* RA(U): the division of slots among users, in passes over all of them from end to end. */
#include "htcsched/allot.h"

#include <string.h>

#include "sched/allot/allot_private.h"
#include "core/fault.h"
#include "core/util.h"

static uint64_t demand_of(const htc_allot_user *u)
{
    return u->queued > UINT64_MAX - u->running ? UINT64_MAX : u->queued + u->running;
}

static uint64_t min64(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

/* How much more the user could use of what is left. */
static uint64_t room_of(const htc__division *d, size_t i)
{
    return min64(d->entries[i].demand - d->shares[i].ra, d->left);
}

static void note_base(htc__division *d)
{
    for (size_t i = 0; i < d->n; i++)
        d->shares[i].base = d->shares[i].ra;
}

/* Equation 1 rounded down, with the exact remainder A * weight mod W. */
static void equation_1(htc__division *d)
{
    d->left = d->slots;
    for (size_t i = 0; i < d->n; i++) {
        htc__entry *e = &d->entries[i];
        htc_u128    share = (htc_u128)d->slots * e->weight;
        uint64_t    rounded = (uint64_t)(share / d->whole);
        e->remainder = (uint64_t)(share - (htc_u128)rounded * d->whole);
        d->shares[i].ra = min64(e->demand, rounded);
        d->left -= d->shares[i].ra;
    }
}

/* Hand out what is left in proportion to weight, none beyond its room: up to one level for all who have room for it,
 * rounded down. */
static void fill(htc__division *d, int keep_remainders)
{
    for (size_t i = 0; i < d->n; i++)
        d->needs[i] = (htc__need){ room_of(d, i), d->entries[i].weight };
    htc__fill level = htc__fill_level(d->needs, d->n, d->left, d->whole);
    uint64_t  left = d->left;
    for (size_t i = 0; i < d->n; i++) {
        htc__entry *e = &d->entries[i];
        htc_u128    share = (htc_u128)level.slots * e->weight;
        uint64_t    give = room_of(d, i);
        int         filled = (htc_u128)give * level.weight <= share;
        if (!filled)
            give = (uint64_t)(share / level.weight);
        if (!keep_remainders)
            e->remainder = filled ? 0 : (uint64_t)(share - (htc_u128)give * level.weight);
        d->shares[i].ra += give;
        left -= give;
    }
    d->left = left;
}

/* What min_agents promises the user. */
static uint64_t floor_of(const htc__division *d, size_t i, uint32_t min_agents)
{
    return min64(d->entries[i].demand, min_agents);
}

static uint64_t above(const htc__division *d, size_t i, uint64_t level, uint32_t min_agents)
{
    uint64_t floor = floor_of(d, i, min_agents), keep = level > floor ? level : floor, ra = d->shares[i].ra;
    return ra > keep ? ra - keep : 0;
}

/* Take amount from the largest: lower them to one level, the last slots from those who would be served last. */
static void take_from_largest(htc__division *d, uint64_t amount, uint32_t min_agents)
{
    uint64_t low = 0, high = 0, left = d->left;
    size_t   n = 0;
    for (size_t i = 0; i < d->n; i++)
        high = d->shares[i].ra > high ? d->shares[i].ra : high;
    while (low < high) {
        uint64_t level = low + (high - low) / 2, sum = 0;
        for (size_t i = 0; i < d->n; i++)
            sum += above(d, i, level, min_agents);
        if (sum <= amount)
            high = level;
        else
            low = level + 1;
    }
    for (size_t i = 0; i < d->n; i++) {
        uint64_t give = above(d, i, low, min_agents);
        d->shares[i].ra -= give;
        amount -= give;
        if (d->shares[i].ra == low && low > floor_of(d, i, min_agents))
            d->row[n++].user = (uint32_t)i;
    }
    /* One from each, and back to those for whom one is left. */
    for (size_t i = 0; i < n; i++)
        d->shares[d->row[i].user].ra--;
    d->left = n - min64(n, amount);
    htc__row_serve(d, n, 1, htc__row_by_remainder);
    d->left = left;
}

/* fair.min_agents: from what rounding left, else from the largest. */
static void raise_to_minimum(htc__division *d, uint32_t min_agents)
{
    uint64_t promised = 0, missing = 0;
    for (size_t i = 0; i < d->n; i++)
        promised += floor_of(d, i, min_agents);
    if (promised > d->slots)
        return;
    for (size_t i = 0; i < d->n; i++) {
        uint64_t floor = floor_of(d, i, min_agents);
        if (d->shares[i].ra < floor) {
            missing += floor - d->shares[i].ra;
            d->shares[i].ra = floor;
            d->entries[i].raised = 1;
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
        d->row[n].user = (uint32_t)i;
        n += d->shares[i].ra < e->demand && (every_one || (e->remainder > 0 && !e->raised));
    }
    htc__row_serve(d, n, 1, htc__row_by_remainder);
}

static void divide_eq1(htc__division *d, uint32_t min_agents)
{
    equation_1(d);
    raise_to_minimum(d, min_agents);
    largest_remainders(d, 0);
    note_base(d);
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
    note_base(d);
}

static void divide_static(htc__division *d, uint64_t fixed_users)
{
    for (size_t i = 0; i < d->n; i++)
        d->shares[i].ra = d->users[i].fixed ? min64(d->entries[i].demand, d->slots / fixed_users) : 0;
    note_base(d);
}

static void divide_fcfs(htc__division *d)
{
    d->left = d->slots;
    for (size_t i = 0; i < d->n; i++)
        d->row[i].user = (uint32_t)i;
    htc__row_serve(d, d->n, UINT64_MAX, htc__row_by_arrival);
    note_base(d);
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

void htc_allot_options_init(htc_allot_options *options, size_t size)
{
    htc__options_init(options, size);
}

htc_status htc_allot(const htc_env *env, const htc_allot_options *options, const htc_allot_user *users, size_t n,
                     uint64_t slots, htc_allot_share *out)
{
    htc_allot_options o;
    htc_status        status = htc__allot_check(options, users, n, slots, out, &o);
    if (status != HTC_OK || n == 0)
        return status;
    htc__division d = { .users = users, .shares = out, .n = n, .slots = slots };
    d.entries = htc__alloc_raw(env, n * sizeof *d.entries);
    d.row = htc__alloc_raw(env, n * sizeof *d.row);
    _Static_assert(sizeof *d.row >= 2 * sizeof(uint64_t), "room to sort ids");
    if (!d.entries || !d.row)
        status = HTC_ENOMEM;
    else if (!htc__allot_ids_differ(users, n, d.row))
        status = HTC_EINVAL;
    for (size_t i = 0; status == HTC_OK && i < n; i++) {
        htc__entry e = { 0 };
        if (htc__allot_divided_for(&o, &users[i]))
            e = (htc__entry){ .weight = HTC__BROKEN(weights_ignored) ? HTC_ALLOT_WEIGHT_ONE : users[i].weight & HTC__ENTRY_WEIGHT, .demand = demand_of(&users[i]) };
        d.entries[i] = e;
        d.whole += e.weight;
        out[i] = (htc_allot_share){ 0 };
    }
    if (d.whole > 0)
        divide(&d, &o);
    htc__free(env, d.entries, n * sizeof *d.entries);
    htc__free(env, d.row, n * sizeof *d.row);
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
