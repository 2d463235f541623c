/* A file of policies, in the forms that test_policy_file.c loads. */
#include <stdlib.h>

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
    return status == HTC_OK ? htc_steal_register(registry, &second) : status;
#endif
}
#endif
