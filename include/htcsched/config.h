/**
 * @file htcsched/config.h
 * @brief htc.ini: every key has a working default, an unknown key or a bad value is an error naming file, line and key.
 *
 * A name written a.b.c is key c of section [a.b]. Keys are listed by htc_config_key.
 *
 * Threads: owner; any number of threads may read while none sets.   Allocation: through env.
 */
#ifndef HTCSCHED_CONFIG_H
#define HTCSCHED_CONFIG_H

#include "htcsched/gateway.h"
#include "htcsched/registry.h"

#ifdef __cplusplus
extern "C" {
#endif

/** All keys with their values. */
typedef struct htc_config htc_config;

/**
 * Read a configuration file.
 *
 * @param[in]  env    kept; NULL: malloc
 * @param[in]  path   at most 1 MiB; borrowed; NULL: the defaults alone
 * @param[out] out    gives the configuration: htc_config_destroy; untouched on failure
 * @param[out] error  why, its where is "FILE:LINE"; NULL is fine
 * @return HTC_OK; HTC_EINVAL if out is NULL; HTC_ECONFIG; HTC_EINPUT if the file cannot be read; HTC_ENOMEM
 *
 * Cost: O(size).   Since: 0.1
 */
HTC_API htc_status htc_config_load(const htc_env *env, const char *path, htc_config **out, htc_error *error);

/**
 * The same from bytes.
 *
 * @param[in]  env    kept; NULL: malloc
 * @param[in]  text   borrowed
 * @param[in]  name   stands in errors for the file; borrowed; NULL: "htc.ini"
 * @param[out] out    gives the configuration: htc_config_destroy; untouched on failure
 * @param[out] error  why; NULL is fine
 * @return HTC_OK; HTC_EINVAL if out is NULL; HTC_ECONFIG; HTC_ENOMEM
 *
 * Cost: O(size).   Since: 0.1
 */
HTC_API htc_status htc_config_parse(const htc_env *env, htc_bytes text, const char *name, htc_config **out,
                                    htc_error *error);

/**
 * Free a configuration and what it lent.
 *
 * @param[in] config  NULL is fine
 *
 * Cost: O(keys).   Since: 0.1
 */
HTC_API void htc_config_destroy(htc_config *config);

/**
 * Set one key as a line of the file would.
 *
 * @param[in,out] config  as it was on failure
 * @param[in]     key     as "fair.policy"; borrowed
 * @param[in]     value   as "static"; copied
 * @param[out]    error   why; NULL is fine
 * @return HTC_OK; HTC_EINVAL if a pointer is NULL; HTC_ECONFIG if there is no such key or it may not have this value;
 *         HTC_ENOMEM
 *
 * Cost: O(keys).   Since: 0.1
 */
HTC_API htc_status htc_config_set(htc_config *config, const char *key, const char *value, htc_error *error);

/**
 * A value as text.
 *
 * @param[in] config  borrowed
 * @param[in] key     borrowed
 * @return lends the text until this key is set; "" for a key without value and one that does not exist
 *
 * Cost: O(keys).   Since: 0.1
 */
HTC_API const char *htc_config_text(const htc_config *config, const char *key);

/**
 * A value as number.
 *
 * @param[in] config  borrowed
 * @param[in] key     borrowed
 * @return the number; on is 1, off 0, a choice its place in the list of allowed values; 0 for a key without value and one that
 *         does not exist
 *
 * Cost: O(keys).   Since: 0.1
 */
HTC_API uint64_t htc_config_number(const htc_config *config, const char *key);

/**
 * A value as duration.
 *
 * @param[in] config  borrowed
 * @param[in] key     one that ends in _s or _ms; borrowed
 * @return nanoseconds; 0 for any other key
 *
 * Cost: O(keys).   Since: 0.1
 */
HTC_API htc_ns htc_config_ns(const htc_config *config, const char *key);

/**
 * One word of a list: of fair.users or task.env_pass, separated by commas or blanks.
 *
 * @param[in] config  borrowed
 * @param[in] key     borrowed
 * @param[in] i       from 0
 * @return lends the word until this key is set; NULL behind the last
 *
 * Cost: O(keys).   Since: 0.1
 */
HTC_API const char *htc_config_item(const htc_config *config, const char *key, size_t i);

/**
 * All words of a list.
 *
 * @param[in] config  borrowed
 * @param[in] key     borrowed
 * @return lends the words, NULL at the end, until this key is set; an empty or missing list is just that NULL
 *
 * Cost: O(keys).   Since: 0.1
 */
HTC_API const char *const *htc_config_list(const htc_config *config, const char *key);

/**
 * The table of keys, for documents and tests.
 *
 * @param[in]  i         from 0
 * @param[out] allowed   lends a constant: what values there are; NULL is fine
 * @param[out] fallback  lends a constant: the default; NULL is fine
 * @return lends a constant: the key; NULL behind the last
 *
 * Cost: O(1).   Since: 0.1
 */
HTC_API const char *htc_config_key(size_t i, const char **allowed, const char **fallback);

/** One [site.NAME]; without any there is one site "local" with the machine's cores. */
typedef struct htc_config_site {
    size_t      size;    /**< sizeof(htc_config_site), set by the caller */
    const char *name;    /**< lent by the configuration */
    const char *adapter; /**< "fork": this machine, "join": the host whose key has the site's name; "slurm", "sge", "ssh", "emu": this system starts the site's broker */
    uint32_t    cores;   /**< slots; of a host that joins the most that it may have, 0 in the file: 64. Else 0 in the file: a share of max(4, cores of this machine) less what other sites name */
    uint32_t    node_cores; /**< the largest task, in cores */
    uint64_t    memory;  /**< that its tasks may reserve, bytes; 0 in the file: this machine's, or 0 of a host that joins; sites that name none divide what is left */
    uint64_t    task_memory; /**< reserved for a task that names no figure, bytes; 0 in the file: memory / cores */
    const char *const *users; /**< of a host that joins the users that it serves, NULL at the end, none: the owner alone; else NULL. Since: 0.2 */
    double      speed; /**< of its cores, relative to other sites'. Since: 0.2 */
    const char *org;  /**< label of its organisation, "": none. Since: 0.2 */
    const char *type; /**< of its kind of machine. Since: 0.2 */
    const char *os;   /**< of its operating system. Since: 0.2 */
    uint32_t    broker; /**< 1: this system starts the site's broker (htc_config_batch_get). Since: 0.2 */
    const htc_resource *resources; /**< n_resources that it counts (site.NAME.gpus, site.NAME.res.RESOURCE); lent. Since: 0.2 */
    size_t      n_resources; /**< of resources. Since: 0.2 */
    const char *container; /**< what runs its containers, as htc_agent_host_options.container; lent. Since: 0.2 */
} htc_config_site;

/** Agents as jobs of a batch system: [batch], or what a site of this system says. */
typedef struct htc_config_batch {
    size_t      size;    /**< sizeof(htc_config_batch), set by the caller */
    const char *system;  /**< "none", "slurm", "sge", "ssh", "emu"; lent, as all strings here, by the configuration */
    const char *options; /**< more words for the command that submits */
    const char *hosts;   /**< the file of a list of hosts, or "" */
    const char *dir;     /**< of the site's broker, or "" */
    uint32_t    slots;   /**< of a site: its cores; of [batch]: 0 */
    uint32_t    cores;   /**< of one job */
    uint32_t    steps;   /**< agents that are submitted together, at most */
    uint32_t    submits_per_s; /**< at most */
    uint32_t    running_max;   /**< jobs that run or wait, at most; 0: any number */
    uint32_t    queued_max;    /**< jobs that wait, at most; 0: any number */
    htc_ns      time_ns;   /**< wall time that is asked for; 0: none */
    htc_ns      drain_ns;  /**< ahead of its end; 0: a tenth of it */
    htc_ns      period_ns; /**< between two looks */
    const char *const *emu_clusters; /**< of the emulated batch system: NAME:CORES, NULL at the end; NULL: one cluster */
    uint32_t    emu_by_queue;   /**< emu.cluster_metric is queue */
    htc_ns      emu_service_ns; /**< for each job */
    double      emu_hold;       /**< probability that a job is held, */
    double      emu_hold_rate;  /**< and what each start or end of the last second adds */
    double      emu_fail;       /**< probability that an agent's start fails */
    uint64_t    emu_seed;       /**< of these */
    const char *credentials;    /**< the file of the site's credentials, or "". Since: 0.2 */
    const char *jobcomp;        /**< "slurm": the file of ended jobs that it keeps, or "". Since: 0.2 */
} htc_config_batch;

/**
 * How many sites there are.
 *
 * @param[in] config  borrowed
 * @return at least 1
 *
 * Cost: O(1).   Since: 0.1
 */
HTC_API size_t htc_config_sites(const htc_config *config);

/**
 * One site.
 *
 * @param[in]  config  borrowed
 * @param[in]  i       from 0
 * @param[out] site    with its size set; its strings are lent until a key is set; untouched on failure
 * @return HTC_OK; HTC_EINVAL if a pointer is NULL, there is no such site, or site has no size
 *
 * Cost: some system calls.   Since: 0.1
 */
HTC_API htc_status htc_config_site_get(const htc_config *config, size_t i, htc_config_site *site);

/**
 * How agents are jobs of a batch system.
 *
 * @param[in]  config  borrowed
 * @param[in]  site    NULL: as [batch] says; else a site whose broker this system starts
 * @param[out] batch   with its size set; untouched on failure
 * @return HTC_OK; HTC_EINVAL if a pointer is NULL or batch has no size; HTC_ENOTFOUND: there is no such site, or its adapter is fork or join
 *
 * Cost: O(sites + keys).   Since: 0.2
 */
HTC_API htc_status htc_config_batch_get(const htc_config *config, const char *site, htc_config_batch *batch);

/** What "stored" means: see htc_kv_durability. */
typedef enum htc_durability {
    HTC_DURABLE_SYNC = 1, /**< HTC_KV_SYNC */
    HTC_DURABLE_INTERVAL, /**< HTC_KV_INTERVAL */
    HTC_DURABLE_MEMORY    /**< HTC_KV_MEMORY */
} htc_durability;

/**
 * db.mode: sync (on), interval (batch), memory (off).
 *
 * @param[in] config  borrowed
 * @return htc_durability
 *
 * Cost: O(keys).   Since: 0.1
 */
HTC_API uint32_t htc_config_durability(const htc_config *config);

/**
 * The policies of the library and those of the files that agent.policy_from names, which are to be trusted (HTC_POLICY_TRUSTED).
 *
 * @param[in]  config  borrowed; its environment is that of the registry, and outlives it
 * @param[out] out     gives: htc_registry_destroy; untouched on failure
 * @param[out] error   where: the file; NULL is fine
 * @return HTC_OK; HTC_EINVAL if a pointer is NULL; as htc_policy_load
 *
 * Cost: that of loading them, the first time.   Since: 0.2
 */
HTC_API htc_status htc_config_policies(const htc_config *config, htc_registry **out, htc_error *error);

/**
 * Fill the policy part of a gateway's options: sites, fair, agent, task, split.
 *
 * @param[in,out] config   keeps what it lends
 * @param[in,out] options  size, store_peer, store_client_id and owner_* stay the caller's; what the rest points to is lent
 *                         until a key is set or this is called again
 * @return HTC_OK; HTC_ENOMEM
 *
 * Cost: O(keys).   Since: 0.1
 */
HTC_API htc_status htc_config_gateway(htc_config *config, htc_gateway_options *options);

#ifdef __cplusplus
}
#endif
#endif
