/**
 * @file htcsched/sim_system.h
 * @brief A whole system in virtual time: store, gateway, agents and users, faults drawn from a seed, and checks after every event.
 *
 * Library htcsched-sim (`pkg-config --libs htcsched-sim`).
 *
 * One run is one seed: it draws sites, users, jobs and how their tasks go, how long the disk and launches take, and which faults
 * exist. A seed that 4 divides has none, the next one faults of messages alone, the one behind it kills and stops of agents, gateway and store
 * and full disks, the fourth all of these. The real gateway, store and agents run under them.
 *
 * After every event: no result is committed twice or without its outputs, no slot is held by two living agents, the gateway's
 * books add up (htc_gateway_audit), no slot is free for longer than 50 ms while somebody who could use it waits, and no task begins before the
 * jobs that its job waits for have ended as they should. In the end, when the faults have stopped: every task of every accepted job has
 * exactly one committed result, but of jobs that were cancelled or that waited in vain, every agent has left, of jobs that were removed
 * nothing is left, and users are told exactly the run time that is stored.
 *
 * With two gateways one is active and one waits; they and the store are stopped, killed and cut off from each other for longer than every lease.
 * With three members of the store, what counts as stored is what a majority of them holds durably.
 *
 * With flows, some jobs are seats at a flow, which a user has written into the store: agents are workers of it, and reach each other. After every
 * commit of the store each of its tasks is in one place, none has begun before its parents ended as they should, what has ended stays so, and no seat
 * is done before the flow has ended. In the end each task is as a plain loop leaves it.
 *
 *     htc_sim_system_report report = { .size = sizeof report };
 *     htc_sim_system_run(NULL, &(htc_sim_system_options){ .size = sizeof(htc_sim_system_options), .seed = 7 }, &report);
 *     if (report.failed)
 *         puts(report.text);
 *
 * `htc-sim fuzz --scenario system` runs many.
 *
 * Threads: pure: runs share nothing.   Allocation: through env, and malloc for JSON; given back when the run is over.
 */
#ifndef HTCSCHED_SIM_SYSTEM_H
#define HTCSCHED_SIM_SYSTEM_H

#include "htcsched/env.h"
#include "htcsched/status.h"

#ifdef __cplusplus
extern "C" {
#endif

/** What a run is; every field's zero is its default. */
typedef struct htc_sim_system_options {
    size_t   size; /**< sizeof(htc_sim_system_options) */
    uint64_t seed; /**< of everything */
    /**
     * Take one line of the trace: htc_sim_options.trace.
     *
     * @param[in] ctx   trace_ctx
     * @param[in] line  no newline; borrowed
     */
    void (*trace)(void *ctx, const char *line);
    void    *trace_ctx; /**< handed to it */
    uint32_t flows;     /**< 1: one or two flows are among the jobs, and agents work at them. Since: 0.2 */
    uint32_t gateways;  /**< 2: one is active and one waits, with leases shorter than the longest pauses. Since: 0.2 */
    uint32_t members;   /**< 3: of the store, with a proxy for each gateway; killed, stopped and cut off too. Needs two gateways, and takes no flows.
                             0, 1: the store is one server. Since: 0.2 */
} htc_sim_system_options;

/** What became of a run. */
typedef struct htc_sim_system_report {
    size_t   size;         /**< sizeof(htc_sim_system_report), set by the caller */
    uint32_t failed;       /**< 1: text says what is wrong */
    uint32_t crashes;      /**< of gateway and store */
    uint32_t agents;       /**< that were launched */
    uint64_t tasks;        /**< submitted */
    uint64_t hash;         /**< htc_sim_hash: the same for the same seed */
    uint64_t events;       /**< delivered */
    htc_ns   span;         /**< of virtual time, until all jobs had ended */
    htc_ns   idle_longest; /**< how long a slot was free while somebody who could use it waited */
    char     text[1024];   /**< what is wrong, a line */
} htc_sim_system_report;

/**
 * Run one seed from its beginning to its judgement.
 *
 * @param[in]  env      its allocator alone is looked at (NULL: malloc)
 * @param[in]  options  borrowed; NULL: the defaults, seed 0
 * @param[out] report   filled as far as its size says
 * @return HTC_OK, whatever became of the run; HTC_EINVAL; HTC_EABI; HTC_ENOMEM
 *
 * Cost: some 5 ms and a MiB.   Since: 0.2
 */
HTC_API htc_status htc_sim_system_run(const htc_env *env, const htc_sim_system_options *options, htc_sim_system_report *report);

#ifdef __cplusplus
}
#endif
#endif
