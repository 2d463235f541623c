/**
 * @file htcsched/policy_file.h
 * @brief Policies in a shared object: for people who write one, and for programs that load it.
 *
 * The whole of a file with a steal policy:
 *
 *     #include <htcsched/policy_file.h>
 *     #include <htcsched/steal.h>
 *
 *     HTC_POLICY_FILE;
 *
 *     static htc_status choose(void *ctx, const htc_steal_view *view, htc_rng *rng, uint32_t cap, uint32_t *out, uint32_t *count)
 *     {
 *         (void)ctx;
 *         *count = cap < 2 || view->n < 3 ? 1 : 2;
 *         return htc_steal_pick(rng, view->n, view->self, *count, out);
 *     }
 *
 *     static const htc_steal_policy mine = { .size = sizeof mine, .name = "pair", .choose = choose };
 *
 *     htc_status htc_policy_register(htc_registry *registry)
 *     {
 *         return htc_steal_register(registry, &mine);
 *     }
 *
 *     cc -shared -fPIC -o pair.so pair.c $(pkg-config --cflags --libs htcsched)
 *
 * htc-sim loads such files (--policy-from), and so does any program that calls htc_policy_load. A file may add policies of all kinds. Its code
 * runs in the program with the program's rights.
 *
 * Threads: owner of the registry.   Allocation: through the registry's environment.   Source: doc/policies.md.   Since: 0.2
 */
#ifndef HTCSCHED_POLICY_FILE_H
#define HTCSCHED_POLICY_FILE_H

#include "htcsched/registry.h"

#ifdef __cplusplus
extern "C" {
#endif

/** The version of this interface. A file of another version is refused. Structs of policies grow by their size, without a new number. */
#define HTC_POLICY_ABI UINT32_C(1)

/** A name that C and C++ write the same way, seen from outside of the file; for what is below. */
#ifdef __cplusplus
#define HTC_POLICY_C extern "C" __attribute__((visibility("default")))
#else
#define HTC_POLICY_C extern __attribute__((visibility("default")))
#endif

/** Once in each file: its version, which is looked at before a function of it is called. */
#define HTC_POLICY_FILE                                                                                                \
    HTC_POLICY_C const uint32_t htc_policy_abi;                                                                        \
    const uint32_t htc_policy_abi = HTC_POLICY_ABI

/**
 * What the file defines: add its policies, by htc_steal_register and the like.
 *
 * It is called once for each registry. A program that simulates makes a registry for each run: what a policy has learnt is to be forgotten here,
 * so that the same run comes to the same end.
 *
 * @param[in,out] registry  what is in it already can be found and asked; its address is not kept
 * @return HTC_OK; anything else: the file is refused, and nothing of it is added
 */
htc_status htc_policy_register(htc_registry *registry) __attribute__((visibility("default")));

/** htc_policy_load: the file and its folder belong to root or to the process's effective user, and nobody else can write to them. */
#define HTC_POLICY_TRUSTED 1u

/**
 * Load a file and add its policies. The file stays loaded until the process ends, for policies outlive registries.
 *
 * @param[in,out] registry  as it was on failure
 * @param[in]     path      of the file; one without a slash is in the working directory; borrowed
 * @param[in]     how       0, or HTC_POLICY_TRUSTED: what daemons say
 * @param[out]    error     where: the file; text: why; hint: the next step; NULL is fine
 * @return HTC_OK; HTC_EINVAL if a pointer is NULL or how has an unknown bit; HTC_EINPUT: there is no such file, it cannot be loaded, or it adds
 *         nothing; HTC_EVERSION: it has no htc_policy_abi, or another one, or it brings another copy of this library; HTC_ENOTFOUND: no
 *         htc_policy_register; HTC_EDENIED: it is not trusted; HTC_EEXISTS: a name is taken; HTC_ENOMEM; what htc_policy_register answers
 *
 * Cost: that of dlopen, the first time.   Since: 0.2
 */
HTC_API htc_status htc_policy_load(htc_registry *registry, const char *path, uint32_t how, htc_error *error);

#ifdef __cplusplus
}
#endif
#endif
