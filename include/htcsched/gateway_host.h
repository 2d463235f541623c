/**
 * @file htcsched/gateway_host.h
 * @brief Carries out what a gateway asks of its host: agents to launch, passwords to hash, files to keep and read.
 *
 * Threads: owner (the host's).
 */
#ifndef HTCSCHED_GATEWAY_HOST_H
#define HTCSCHED_GATEWAY_HOST_H

#include "htcsched/host.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct htc_gateway_host htc_gateway_host;

typedef struct htc_gateway_host_options {
    size_t      size;       /* sizeof(htc_gateway_host_options) */
    const char *state_dir;
    const char *agent_path; /* the program htc-agent: started as agent_path --dir D --agent ID --slot N --user U --site S */
    const char *config_path; /* passed on as --config; NULL: not */
    const char *const *environ; /* for the agents; NULL at the end */
    uint32_t    durable;    /* 1: uploads are synced */
    uint64_t    blob_bytes_max; /* of one upload; 0: 2^40 */
} htc_gateway_host_options;

/** Takes over the calls of host. Strings are copied, environ is kept. Gives it: htc_gateway_host_destroy, after the host. */
HTC_API htc_status htc_gateway_host_create(const htc_env *env, htc_host *host, const htc_gateway_host_options *options,
                                           htc_gateway_host **out, htc_error *error);
/** Agents go on without it. */
HTC_API void htc_gateway_host_destroy(htc_gateway_host *gateway);

#ifdef __cplusplus
}
#endif
#endif
