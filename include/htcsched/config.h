/**
 * @file htcsched/config.h
 * @brief htc.ini: every key has a working default, an unknown key or a bad value is an error naming file, line and key.
 *
 * A name written a.b.c is key c of section [a.b]. Keys are listed by htc_config_key.
 *
 * Threads: a loaded htc_config may be read by any thread.
 */
#ifndef HTCSCHED_CONFIG_H
#define HTCSCHED_CONFIG_H

#include "htcsched/gateway.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct htc_config htc_config;

/** Read path; NULL: the defaults alone. Gives it: htc_config_destroy. HTC_ECONFIG with where = "FILE:LINE", HTC_EINPUT if
 *  the file cannot be read. */
HTC_API htc_status htc_config_load(const htc_env *env, const char *path, htc_config **out, htc_error *error);
/** The same from bytes; name stands in errors for the file. */
HTC_API htc_status htc_config_parse(const htc_env *env, htc_bytes text, const char *name, htc_config **out,
                                    htc_error *error);
HTC_API void       htc_config_destroy(htc_config *config);

/** Set one key as a line of the file would ("fair.policy", "static"). */
HTC_API htc_status htc_config_set(htc_config *config, const char *key, const char *value, htc_error *error);

/** The value as text, as number (on 1, off 0; choices: their place in the list of allowed values), as duration. Keys
 *  without value are "", 0. A key that does not exist: "", 0. Lent as long as the config lives and is not set. */
HTC_API const char *htc_config_text(const htc_config *config, const char *key);
HTC_API uint64_t    htc_config_number(const htc_config *config, const char *key);
HTC_API htc_ns      htc_config_ns(const htc_config *config, const char *key); /* keys ending in _s or _ms */

/** Item i of a list (fair.users, task.env_pass: words separated by commas or blanks); NULL beyond its end. Lent. */
HTC_API const char *htc_config_item(const htc_config *config, const char *key, size_t i);
/** All items, NULL at the end; lent. An empty or missing list is just that NULL. */
HTC_API const char *const *htc_config_list(const htc_config *config, const char *key);

/** Key i of the table, what is allowed and the default, for documents and tests; NULL beyond its end. */
HTC_API const char *htc_config_key(size_t i, const char **allowed, const char **fallback);

/** One [site.NAME]; without any there is one site "local" with the machine's cores. */
typedef struct htc_config_site {
    const char *name;
    const char *adapter; /* "fork" */
    uint32_t    cores;   /* slots; 0 in the file: max(4, cores of this machine) */
    uint32_t    node_cores;
    uint64_t    memory;  /* of this machine, bytes */
} htc_config_site;
HTC_API size_t     htc_config_sites(const htc_config *config);
HTC_API htc_status htc_config_site_get(const htc_config *config, size_t i, htc_config_site *site);

typedef enum htc_durability { HTC_DURABLE_SYNC = 1, HTC_DURABLE_INTERVAL, HTC_DURABLE_MEMORY } htc_durability;
/** db.mode: sync (on), interval (batch), memory (off). */
HTC_API uint32_t htc_config_durability(const htc_config *config);

/** Fill the policy part of a gateway's options (sites, fair, agent, task, split). store_peer, store_client_id, owner_* stay
 *  the caller's. What it points to is lent as long as the config lives and is not set. */
HTC_API htc_status htc_config_gateway(htc_config *config, htc_gateway_options *options);

#ifdef __cplusplus
}
#endif
#endif
