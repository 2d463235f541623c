/**
 * @file htcsched/agent_host.h
 * @brief The executor: carries out what an agent asks of its host. Processes, limits, files in and out.
 *
 * Every task runs in a session and process group of its own, with its own scratch directory (0700), a clean environment,
 * rlimits and no_new_privs. The agent's process is the subreaper of all that a task starts: when a task's first process
 * has ended, what is left of its tree is killed.
 *
 * Threads: owner (the host's); files are moved on the host's worker threads.
 */
#ifndef HTCSCHED_AGENT_HOST_H
#define HTCSCHED_AGENT_HOST_H

#include "htcsched/host.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct htc_agent_host htc_agent_host;

typedef struct htc_agent_host_options {
    size_t      size;     /* sizeof(htc_agent_host_options) */
    const char *slot_dir; /* slots/N: scratch directories and the record of process groups; created */
    const char *data_dir; /* data: uploads in, outputs out */
    uint64_t    agent;
    const char *node;     /* host name */
    const char *site;
    const char *const *env_pass; /* task.env_pass: names passed on from environ; NULL at the end, or NULL */
    const char *const *environ;  /* of this program, for HOME, PATH and env_pass; NULL at the end */
    uint32_t    durable;  /* 1: outputs are synced before they are reported */
    uint64_t    outputs_bytes_max; /* of one attempt; 0: no limit */
} htc_agent_host_options;

/** Takes over the calls of host, and makes this process a subreaper. Strings are copied; environ is copied as far as used.
 *  Gives it: htc_agent_host_destroy, after the host. Call htc_agent_host_recover first. */
HTC_API htc_status htc_agent_host_create(const htc_env *env, htc_host *host, const htc_agent_host_options *options,
                                         htc_agent_host **out, htc_error *error);
/** Ends all processes still running. */
HTC_API void htc_agent_host_destroy(htc_agent_host *agent);

/** End the process groups that a killed agent recorded in slot_dir (a pid is only touched if its start time matches) and
 *  remove its scratch directories. HTC_ELOCKED if another agent lives in slot_dir. *ended may be NULL. */
HTC_API htc_status htc_agent_host_recover(const htc_env *env, const char *slot_dir, uint32_t *ended, htc_error *error);

/** What this machine has, for htc_agent_options: memory in bytes, cores this process may use, host name. */
HTC_API void htc_agent_host_node(uint64_t *memory, uint32_t *cores, char node[64]);

#ifdef __cplusplus
}
#endif
#endif
