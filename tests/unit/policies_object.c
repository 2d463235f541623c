/* A file of policies, in the forms that test_policy_file.c and tests/live/policies.sh load. */
#include <stdlib.h>

#include "htcsched/allot.h"
#include "htcsched/balance.h"
#include "htcsched/fit.h"
#include "htcsched/policy_file.h"
#include "htcsched/provision.h"
#include "htcsched/steal.h"

#ifdef NO_ABI
#elif defined OTHER_ABI
HTC_POLICY_C const uint32_t htc_policy_abi;
const uint32_t htc_policy_abi = HTC_POLICY_ABI + 1;
#else
HTC_POLICY_FILE;
#endif

#ifdef OTHER_LIBRARY
/* As a file that is linked with an archive of the library. */
__attribute__((visibility("default"))) htc_status htc_registry_add(htc_registry *registry, uint32_t kind, const char *name, const void *entry)
{
    (void)registry;
    (void)kind;
    (void)name;
    (void)entry;
    abort();
}
#endif

static uint64_t asked;

static htc_status choose(void *ctx, const htc_steal_view *view, htc_rng *rng, uint32_t cap, uint32_t *out, uint32_t *count)
{
    uint64_t *n = ctx;
    (void)rng;
    *count = cap > 0;
    out[0] = (view->self + 1 + (uint32_t)(++*n % (view->n - 1))) % view->n;
    return HTC_OK;
}

static const htc_steal_policy first = { .size = sizeof first, .name = "counting", .ctx = &asked, .choose = choose };
#ifdef TAKEN
static const htc_steal_policy second = { .size = sizeof second, .name = "random", .ctx = &asked, .choose = choose };
#elif defined NEWER
static const htc_steal_policy second = { .size = sizeof second + 64, .name = "newer", .ctx = &asked, .choose = choose };
#else
static const htc_steal_policy second = { .size = sizeof second, .name = "counting.too", .ctx = &asked, .choose = choose };
#endif

/* Partitions in turn, from one's own on. */
static htc_status open_turn(void *ctx, const htc_env *env, const htc_balance_options *options, void **state)
{
    uint32_t *next = malloc(sizeof *next);
    (void)env;
    (void)ctx;
    if (!next)
        return HTC_ENOMEM;
    *next = options->own == HTC_BALANCE_NONE ? 0 : options->own;
    *state = next;
    return HTC_OK;
}

static htc_status pick_next(void *state, const htc_balance_view *view, htc_rng *rng, uint32_t *partition)
{
    uint32_t *next = state;
    (void)rng;
    *partition = *next;
    *next = (*next + 1) % view->partitions;
    return HTC_OK;
}

static const htc_balance_policy turn = { .size = sizeof turn, .name = "in-turn", .tries = 4, .waits = 1, .open = open_turn, .close = free, .pick = pick_next };

static uint64_t widest_first(void *ctx, const htc_fit_info *job)
{
    (void)ctx;
    return UINT32_MAX - job->job.nodes;
}

static const htc_fit_policy widest = { .size = sizeof widest, .name = "widest", .promise = HTC_FIT_PROMISE_HEAD, .key = widest_first };

/* A user with twice the priority weighs half as much. */
static double one_by(void *ctx, const htc_allot_facts *user, double amount, double typical, const htc_allot_weighing *how)
{
    (void)ctx;
    (void)amount;
    (void)typical;
    (void)how;
    return 16.0 / (double)(user->priority ? user->priority : 1);
}

static const htc_allot_weigher inverse = { .size = sizeof inverse, .name = "inverse", .weight = one_by };

#ifndef NO_REGISTER
htc_status htc_policy_register(htc_registry *registry)
{
    const htc_steal_policy *there;
    asked = 0;
#ifdef NOTHING
    return htc_steal_find(registry, "random", &there);
#else
    if (htc_steal_find(registry, "random", &there) != HTC_OK) /* what is there already can be asked */
        return HTC_ENOTFOUND;
    htc_status status = htc_steal_register(registry, &first);
    if (status == HTC_OK)
        status = htc_balance_register(registry, &turn);
    if (status == HTC_OK)
        status = htc_fit_register(registry, &widest);
    if (status == HTC_OK)
        status = htc_allot_register(registry, &inverse);
    return status == HTC_OK ? htc_steal_register(registry, &second) : status;
#endif
}
#endif
