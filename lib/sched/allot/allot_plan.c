/* From entitlements to actions: who gets the free slots, who gives back after a task, which marks come off. */
#include <assert.h>
#include <string.h>

#include "sched/allot/allot_private.h"
#include "core/util.h"

/* One user while the plan is made: the numbers as they will be. */
typedef struct entry {
    const htc_allot_user *user;
    htc_allot_change      change;
    uint64_t              agents, draining, starting;
    int                   divided_for;
} entry;

typedef struct plan {
    entry   *entries;
    size_t  *order;
    size_t   n;
    uint64_t free_slots;
} plan;

static uint64_t min64(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

static uint64_t over(uint64_t a, uint64_t b)
{
    return a > b ? a - b : 0;
}

/* The one who was served longest ago, then who came first, then the smallest id. */
static int before_tie(const htc_allot_user *a, const htc_allot_user *b)
{
    if (a->last_served != b->last_served)
        return a->last_served < b->last_served;
    if (a->arrival != b->arrival)
        return a->arrival < b->arrival;
    return a->id < b->id;
}

/* The same of sums, as far as 64 bits tell. */
static uint64_t excess(htc_u128 a, htc_u128 b)
{
    return a <= b ? 0 : a - b > UINT64_MAX ? UINT64_MAX : (uint64_t)(a - b);
}

/* How many more slots the user lacks to target and has tasks for: an agent that is starting will take one of them. */
static uint64_t wants(const entry *e, uint64_t target)
{
    return e->divided_for ? min64(over(target, e->agents), over(e->user->queued, e->starting)) : 0;
}

static void undrain(entry *e, uint64_t k)
{
    e->change.undrain += k;
    assert(e->draining >= k);
    e->draining -= k;
    e->agents += k;
}

/* A user below the own entitlement has nothing to give back: that costs no slot. */
static void keep_own(plan *p)
{
    for (size_t i = 0; i < p->n; i++) {
        entry *e = &p->entries[i];
        undrain(e, min64(wants(e, e->change.share.base), e->draining));
    }
}

static int before_poorer(const void *ctx, size_t a, size_t b)
{
    const entry *x = &((const entry *)ctx)[a], *y = &((const entry *)ctx)[b];
    int          c = htc__compare_ratio(x->agents, x->user->weight, y->agents, y->user->weight);
    return c ? c < 0 : before_tie(x->user, y->user);
}

/* Free slots, one at a time, to the one with the fewest agents for its weight among those below the target. */
static void grant(plan *p, int to_base)
{
    size_t n = 0;
    for (size_t i = 0; i < p->n && p->free_slots > 0; i++) {
        const htc_allot_share *s = &p->entries[i].change.share;
        if (wants(&p->entries[i], to_base ? s->base : s->ra) > 0)
            p->order[n++] = i;
    }
    htc__order_heap(p->order, n, before_poorer, p->entries);
    while (p->free_slots > 0 && n > 0) {
        entry *e = &p->entries[p->order[0]];
        if (e->draining > 0) {
            undrain(e, 1);
        } else {
            e->change.grant++;
            e->agents++;
            e->starting++;
            assert(p->free_slots > 0);
            p->free_slots--;
        }
        if (wants(e, to_base ? e->change.share.base : e->change.share.ra) == 0)
            p->order[0] = p->order[--n];
        htc__order_sink(p->order, n, 0, before_poorer, p->entries);
    }
}

static int before_richer(const void *ctx, size_t a, size_t b)
{
    const entry *x = &((const entry *)ctx)[a], *y = &((const entry *)ctx)[b];
    int          c = htc__compare_ratio(over(x->agents, x->change.share.base), x->user->weight,
                                        over(y->agents, y->change.share.base), y->user->weight);
    return c ? c > 0 : before_tie(x->user, y->user);
}

static void sort_by(plan *p, htc__order_before *before)
{
    for (size_t i = 0; i < p->n; i++)
        p->order[i] = i;
    htc__order_sort(p->order, p->n, before, p->entries);
}

/* Slots that users below their entitlement could use are marked with those above theirs; marks nobody waits for come
 * off. */
static void release(plan *p)
{
    htc_u128 owed = 0, marked = 0; /* a million users may have 2^48 marks each */
    for (size_t i = 0; i < p->n; i++) {
        owed += wants(&p->entries[i], p->entries[i].change.share.base);
        marked += p->entries[i].draining;
    }
    uint64_t more = excess(owed, marked + p->free_slots), fewer = marked ? excess(marked + p->free_slots, owed) : 0;
    if (more == 0 && fewer == 0)
        return;
    sort_by(p, more ? before_richer : before_poorer);
    for (size_t i = 0; i < p->n && more > 0; i++) {
        entry   *e = &p->entries[p->order[i]];
        uint64_t k = e->divided_for ? min64(more, over(e->agents, e->change.share.base)) : 0;
        e->change.drain = k;
        more -= k;
    }
    for (size_t i = 0; i < p->n && fewer > 0; i++) {
        entry   *e = &p->entries[p->order[i]];
        uint64_t k = min64(fewer, e->draining);
        undrain(e, k);
        fewer -= k;
    }
}

static void decide(plan *p, const htc_allot_options *options)
{
    keep_own(p);
    grant(p, 1);
    grant(p, 0);
    if (options->policy != HTC_ALLOT_FCFS)
        release(p);
}

htc_status htc_allot_plan(const htc_env *env, const htc_allot_options *options, const htc_allot_user *users, size_t n,
                          uint64_t slots, uint64_t free_slots, htc_allot_change *out)
{
    htc_allot_options o;
    htc_status        status = htc__allot_check(options, users, n, slots, out, &o);
    if (status == HTC_OK && free_slots > slots)
        status = HTC_EINVAL;
    if (status != HTC_OK || n == 0)
        return status;
    plan             p = { .n = n, .free_slots = free_slots };
    htc_allot_share *shares = htc__alloc(env, n * sizeof *shares);
    p.entries = htc__alloc(env, n * sizeof *p.entries);
    p.order = htc__alloc(env, n * sizeof *p.order);
    if (!shares || !p.entries || !p.order)
        status = HTC_ENOMEM;
    else
        status = htc_allot(env, options, users, n, slots, shares);
    if (status == HTC_OK) {
        for (size_t i = 0; i < n; i++)
            p.entries[i] = (entry){ .user = &users[i],
                                    .change.share = shares[i],
                                    .agents = users[i].agents,
                                    .draining = users[i].draining,
                                    .starting = users[i].starting,
                                    .divided_for = htc__allot_divided_for(&o, &users[i]) };
        decide(&p, &o);
        for (size_t i = 0; i < n; i++)
            out[i] = p.entries[i].change;
    }
    htc__free(env, shares, n * sizeof *shares);
    htc__free(env, p.entries, n * sizeof *p.entries);
    htc__free(env, p.order, n * sizeof *p.order);
    return status;
}
