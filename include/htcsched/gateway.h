/**
 * @file htcsched/gateway.h
 * @brief The gateway: accounts, jobs, one queue for each user, fair shares, agents and results.
 *
 * A state machine (htcsched/machine.h) that keeps all that matters in the store: a gateway that is killed and started
 * again goes on where it was. Users talk to it in JSON (doc/api.md), agents in lib/roles/agent_wire.h, its host carries
 * out lib/roles/calls.h.
 *
 * Threads: owner.
 */
#ifndef HTCSCHED_GATEWAY_H
#define HTCSCHED_GATEWAY_H

#include "htcsched/machine.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct htc_site_options {
    const char *name;    /* copied */
    uint32_t    cores;   /* slots */
    uint64_t    memory;  /* of a node, bytes; 0: not known */
    uint32_t    node_cores; /* the largest task, in cores; 0: cores */
} htc_site_options;

typedef struct htc_gateway_options {
    size_t      size; /* sizeof(htc_gateway_options) */
    uint32_t    store_peer;  /* the driver's number of the connection to the store */
    uint64_t    store_client_id; /* 64 random bits, new at each start */
    uint32_t    owner_uid;   /* a Unix peer with this uid is the operator: may add users and act for any of them */
    const char *owner_name;  /* that uid's own user name, created at the first start; copied */
    const htc_site_options *sites; /* copied */
    size_t      n_sites;
    const char *policy;      /* fair.policy: eq1 (NULL), static, maxmin, fcfs */
    const char *const *fair_users; /* of static; NULL at the end; copied */
    htc_ns   tick_ns, heartbeat_ns, lost_after_ns, launch_timeout_ns, relaunch_backoff_ns; /* 0: 5, 10, 30, 600, 5 s */
    uint32_t max_relaunch;   /* 0: 5 */
    uint32_t max_attempts;   /* task.max_attempts; 0: 3 */
    uint32_t max_lost;       /* task.max_lost; 0: 20 */
    htc_ns   retry_backoff_ns, retry_backoff_max_ns; /* 0: 1 s, 300 s */
    uint64_t tasks_max;      /* split.max_tasks; 0: 2^40 */
    htc_ns   token_life_ns;  /* 0: 7 days */
    htc_ns   idle_linger_ns;
    uint32_t prefetch_max;   /* agent.prefetch: tasks in one grant; 0: auto (to 64), 1: one by one */
    uint32_t min_agents;     /* fair.min_agents; UINT32_MAX: none; 0: 1 */
    htc_ns   task_wall_max_ns; /* longest wall time a site allows; 0: any */
    uint32_t weight_profiled; /* fair.weight: 1: a user's weight counts what his unfinished tasks will take */
    double   gamma;           /* fair.gamma: -1 to 1, see htc_allot_profiled */
} htc_gateway_options;

typedef struct htc_gateway htc_gateway;

/** Create a gateway that waits for HTC_IN_START. Gives it: ops->destroy. env is kept. */
HTC_API htc_status htc_gateway_create(const htc_env *env, const htc_gateway_options *options, htc_gateway **out);
HTC_API const htc_machine_ops *htc_gateway_ops(void);

#ifdef __cplusplus
}
#endif
#endif
