/* Where to look: at random (Algorithm 5), or where the monitor says it fits best (Algorithms 7 and 8). */
#include <string.h>

#include "core/util.h"
#include "sched/balance/balance_private.h"

/* ---- Random ---- */

typedef struct chance {
    const htc_env *env;
    uint32_t      *near;
    uint32_t       near_count;
} chance;

static void chance_close(void *state)
{
    chance *c = state;
    if (!c)
        return;
    htc__free(c->env, c->near, c->near_count * sizeof *c->near);
    htc__free(c->env, c, sizeof *c);
}

static htc_status chance_open(void *ctx, const htc_env *env, const htc_balance_options *options, void **state)
{
    chance *c = htc__alloc(env, sizeof *c);
    (void)ctx;
    if (!c)
        return HTC_ENOMEM;
    c->env = env;
    for (uint32_t i = 0; i < options->near_count; i++)
        c->near_count += options->near[i] != options->own;
    c->near = htc__alloc(env, c->near_count * sizeof *c->near);
    if (!c->near) {
        c->near_count = 0;
        chance_close(c);
        return HTC_ENOMEM;
    }
    for (uint32_t i = 0, k = 0; i < options->near_count; i++)
        if (options->near[i] != options->own)
            c->near[k++] = options->near[i];
    *state = c;
    return HTC_OK;
}

/* Anybody but oneself. Near ones in the first half of a round's tries; distant ones have to wait until those were in
 * vain. */
static htc_status chance_pick(void *state, const htc_balance_view *view, htc_rng *rng, uint32_t *partition)
{
    const chance *c = state;
    if (c->near_count && 2 * (uint64_t)view->fruitless < view->tries) {
        *partition = c->near[htc_rng_below(rng, c->near_count)];
        return HTC_OK;
    }
    uint32_t others = view->partitions - (view->own != HTC_BALANCE_NONE);
    if (others == 0)
        return HTC_AGAIN;
    uint32_t p = (uint32_t)htc_rng_below(rng, others);
    *partition = p + (view->own != HTC_BALANCE_NONE && p >= view->own);
    return HTC_OK;
}

/* What it knows never changes. */
static htc_status chance_tape(void *state, const htc_tape *tape)
{
    (void)state;
    (void)tape;
    return HTC_OK;
}

static const htc_balance_policy balance_random = { .size = sizeof(htc_balance_policy),
                                                   .name = "random",
                                                   .tries = 5,
                                                   .waits = 1,
                                                   .open = chance_open,
                                                   .close = chance_close,
                                                   .pick = chance_pick,
                                                   .tape = chance_tape };

/* ---- Monitored ---- */

/* A partition is in the tree of its kind, near or distant, or in none: not known, or being tried by a request of ours.
 */
typedef struct watched {
    const htc_env    *env;
    htc_balance_tree *tree[2]; /* near, distant */
    uint8_t          *distant; /* which of them, for each partition */
    uint8_t          *tried;
    uint32_t          partitions;
    uint32_t         *census; /* the last one; waits: it is not in the trees yet, into which its partitions go from this one on */
    uint32_t          from, waits;
} watched;

static void watched_close(void *state)
{
    watched *w = state;
    if (!w)
        return;
    htc_balance_tree_destroy(w->tree[0]);
    htc_balance_tree_destroy(w->tree[1]);
    htc__free(w->env, w->distant, w->partitions);
    htc__free(w->env, w->tried, w->partitions);
    htc__free(w->env, w->census, w->partitions * sizeof *w->census);
    htc__free(w->env, w, sizeof *w);
}

static htc_status watched_open(void *ctx, const htc_env *env, const htc_balance_options *options, void **state)
{
    watched *w = htc__alloc(env, sizeof *w);
    (void)ctx;
    if (!w)
        return HTC_ENOMEM;
    w->env = env;
    w->partitions = options->partitions;
    w->distant = htc__alloc(env, w->partitions);
    w->tried = htc__alloc(env, w->partitions);
    w->census = htc__alloc(env, w->partitions * sizeof *w->census);
    htc_status status = htc_balance_tree_create(env, w->partitions, &w->tree[0]);
    if (status == HTC_OK && options->near_count)
        status = htc_balance_tree_create(env, w->partitions, &w->tree[1]);
    if (status != HTC_OK || !w->distant || !w->tried || !w->census) {
        watched_close(w);
        return HTC_ENOMEM;
    }
    if (options->near_count)
        memset(w->distant, 1, w->partitions);
    for (uint32_t i = 0; i < options->near_count; i++)
        w->distant[options->near[i]] = 0;
    *state = w;
    return HTC_OK;
}

/* All out, new ones in. Of equal partitions the first one in is the first to be tried: controllers that begin at
 * different places do not all run to the same one. */
static void take_over(watched *w)
{
    if (!w->waits)
        return;
    w->waits = 0;
    htc_balance_tree_clear(w->tree[0]);
    htc_balance_tree_clear(w->tree[1]);
    for (uint32_t i = 0, p = w->from; i < w->partitions; i++, p = p + 1 < w->partitions ? p + 1 : 0)
        if (!w->tried[p] && w->census[p] != HTC_BALANCE_UNKNOWN)
            htc__balance_tree_enter(w->tree[w->distant[p]], p, w->census[p]);
}

/* Near ones as long as any of them has something. The entry is taken out until the request tells what became of it, so
 * that a controller's own requests do not compete. */
static htc_status watched_pick(void *state, const htc_balance_view *view, htc_rng *rng, uint32_t *partition)
{
    watched *w = state;
    uint32_t p = 0;
    (void)rng;
    take_over(w);
    htc_status status = htc_balance_tree_best(w->tree[0], view->missing, &p, NULL);
    if (status == HTC_AGAIN && w->tree[1])
        status = htc_balance_tree_best(w->tree[1], view->missing, &p, NULL);
    if (status != HTC_OK)
        return status;
    htc_balance_tree_remove(w->tree[w->distant[p]], p);
    w->tried[p] = 1;
    *partition = p;
    return HTC_OK;
}

/* Without memory for a count larger than any before, the partition is not known until the next census. */
static void enter(watched *w, uint32_t partition, uint32_t free)
{
    htc_balance_tree *tree = w->tree[w->distant[partition]];
    if (free == HTC_BALANCE_UNKNOWN || htc_balance_tree_set(tree, partition, free) != HTC_OK)
        htc_balance_tree_remove(tree, partition);
}

static void watched_learn(void *state, uint32_t partition, uint32_t free)
{
    watched *w = state;
    take_over(w);
    w->tried[partition] = 0;
    enter(w, partition, free);
}

/* Many controllers pull more often than they look: what a census changes is done when it is looked at. */
static htc_status watched_pull(void *state, const uint32_t *free, uint32_t n, htc_rng *rng)
{
    watched *w = state;
    uint32_t most[2] = { 0, 0 };
    for (uint32_t p = 0; p < n; p++)
        if (free[p] != HTC_BALANCE_UNKNOWN && free[p] > most[w->distant[p]])
            most[w->distant[p]] = free[p];
    for (int i = 0; i < 2; i++)
        if (w->tree[i] && htc__balance_tree_reserve(w->tree[i], most[i]) != HTC_OK)
            return HTC_ENOMEM;
    w->from = (uint32_t)htc_rng_below(rng, n);
    w->waits = 1;
    memcpy(w->census, free, n * sizeof *free);
    return HTC_OK;
}

static htc_status watched_tape(void *state, const htc_tape *tape)
{
    watched   *w = state;
    take_over(w);
    htc_status status = tape->move(tape->ctx, w->tried, w->partitions);
    for (int i = 0; i < 2 && status == HTC_OK; i++)
        status = w->tree[i] ? htc__balance_tree_tape(w->tree[i], tape) : HTC_OK;
    return status;
}

const htc_balance_policy htc__balance_monitored = { .size = sizeof(htc_balance_policy),
                                                    .name = "monitored",
                                                    .tries = 10,
                                                    .open = watched_open,
                                                    .close = watched_close,
                                                    .pick = watched_pick,
                                                    .learn = watched_learn,
                                                    .pull = watched_pull,
                                                    .tape = watched_tape };

/* ---- By name ---- */

const htc__builtin htc__balance_builtin[] = {
    { HTC_REGISTRY_BALANCE, "monitored", &htc__balance_monitored },
    { HTC_REGISTRY_BALANCE, "random", &balance_random },
    { 0, NULL, NULL },
};

htc_status htc_balance_register(htc_registry *registry, const htc_balance_policy *policy)
{
    htc_balance_policy known = { .size = 0 };
    if (!policy)
        return HTC_EINVAL;
    htc_status status = htc__options_copy(&known, sizeof known, policy, policy->size, offsetof(htc_balance_policy, tape));
    if (status != HTC_OK)
        return status;
    if (!known.pick || known.tries == 0 || (known.open && !known.close))
        return HTC_EINVAL;
    return htc_registry_add(registry, HTC_REGISTRY_BALANCE, known.name, policy);
}

htc_status htc_balance_find(const htc_registry *registry, const char *name, const htc_balance_policy **policy)
{
    const void *found;
    if (!policy)
        return HTC_EINVAL;
    htc_status status = htc_registry_find(registry, HTC_REGISTRY_BALANCE, name, &found);
    if (status == HTC_OK)
        *policy = found;
    return status;
}
