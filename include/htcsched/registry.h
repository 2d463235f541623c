/**
 * @file htcsched/registry.h
 * @brief Policies by name: whoever runs a scheduler picks one in a configuration file, whoever studies one adds their own.
 *
 * A registry is created by the program and passed to what looks names up; there is no hidden one. Entries are typed by
 * their kind. The module that owns a kind has typed calls (htc_steal_register, htc_steal_find): use those, so that a
 * policy of one kind cannot be taken for one of another.
 *
 * Threads: owner; any number of threads may find and list while none adds.   Allocation: through env, a few words a name.
 * Source: doc/architecture.md, "Policies have names".
 */
#ifndef HTCSCHED_REGISTRY_H
#define HTCSCHED_REGISTRY_H

#include "htcsched/env.h"

#ifdef __cplusplus
extern "C" {
#endif

/** Names are 1 to this many bytes of a-z, 0-9, '-', '_' and '.'. */
#define HTC_REGISTRY_NAME_MAX 63
/** A registry holds at most this many entries. */
#define HTC_REGISTRY_ENTRIES_MAX 4096

/** What an entry is; a name means something within its kind only. Kinds from HTC_REGISTRY_USER on are the program's own. */
typedef enum htc_registry_kind {
    HTC_REGISTRY_STEAL = 1, /**< htc_steal_policy: whom to rob, how many, when again */
    HTC_REGISTRY_WEIGHT,    /**< htc_allot_weigher: what a user's weight is made of */
    HTC_REGISTRY_BALANCE,   /**< htc_balance_policy: where to look for free nodes */
    HTC_REGISTRY_LOCALITY,  /**< htc_locality_policy: where a ready task waits */
    HTC_REGISTRY_PROVISION, /**< htc_provision_policy: when to ask for nodes and when to give them back */
    HTC_REGISTRY_FIT,       /**< htc_fit_policy: which parallel job starts next */
    HTC_REGISTRY_GRANT,     /**< htc_provision_granter: whose request for nodes is granted */
    HTC_REGISTRY_SETUP,     /**< htc_provision_setup: what is done to a node that changes hands */
    HTC_REGISTRY_USER = 1000
} htc_registry_kind;

/** Policies by kind and name. */
typedef struct htc_registry htc_registry;

/**
 * Create an empty registry.
 *
 * @param[in]  env  kept; NULL: malloc
 * @param[out] out  gives the registry: htc_registry_destroy
 * @return HTC_OK; HTC_EINVAL if out is NULL; HTC_ENOMEM
 *
 * Cost: one allocation.   Since: 0.2
 */
HTC_API htc_status htc_registry_create(const htc_env *env, htc_registry **out);

/**
 * Free a registry; the entries it named are the caller's and stay.
 *
 * @param[in] registry  NULL is fine
 *
 * Cost: O(entries).   Since: 0.2
 */
HTC_API void htc_registry_destroy(htc_registry *registry);

/**
 * Add every policy that the library brings, of all kinds.
 *
 * @param[in,out] registry  as it was on failure
 * @return HTC_OK; HTC_EINVAL if registry is NULL; HTC_EEXISTS if one of the names is taken; HTC_EFULL; HTC_ENOMEM
 *
 * Cost: O(entries).   Since: 0.2
 */
HTC_API htc_status htc_registry_add_builtin(htc_registry *registry);

/**
 * Add one entry.
 *
 * @param[in,out] registry  as it was on failure
 * @param[in]     kind      htc_registry_kind, or from HTC_REGISTRY_USER on; not 0
 * @param[in]     name      copied; see HTC_REGISTRY_NAME_MAX
 * @param[in]     entry     kept: outlives the registry; not NULL
 * @return HTC_OK; HTC_EINVAL; HTC_EEXISTS if the kind has this name; HTC_EFULL; HTC_ENOMEM
 *
 * Cost: O(entries).   Since: 0.2
 */
HTC_API htc_status htc_registry_add(htc_registry *registry, uint32_t kind, const char *name, const void *entry);

/**
 * Find an entry.
 *
 * @param[in]  registry  borrowed
 * @param[in]  kind      as in htc_registry_add
 * @param[in]  name      borrowed
 * @param[out] entry     what was added; untouched on failure
 * @return HTC_OK; HTC_EINVAL if a pointer is NULL; HTC_ENOTFOUND
 *
 * Cost: O(log entries).   Since: 0.2
 */
HTC_API htc_status htc_registry_find(const htc_registry *registry, uint32_t kind, const char *name, const void **entry);

/**
 * The i-th name of a kind, in alphabetical order: for a list to choose from.
 *
 * @param[in] registry  borrowed
 * @param[in] kind      as in htc_registry_add
 * @param[in] i         from 0
 * @return lends the name until the registry changes; NULL behind the last
 *
 * Cost: O(log entries).   Since: 0.2
 */
HTC_API const char *htc_registry_name(const htc_registry *registry, uint32_t kind, size_t i);

#ifdef __cplusplus
}
#endif
#endif
