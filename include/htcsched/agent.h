/**
 * @file htcsched/agent.h
 * @brief The pulling agent: takes tasks of one user from the gateway, runs them through its host, reports them, leaves.
 *
 * A state machine (htcsched/machine.h). It decides when to pull, what to start, when a limit is reached, how an attempt
 * ended and when its outputs may be forgotten; its host starts processes and moves files when asked
 * (htcsched/calls.h lists the calls, doc/protocol.md the messages).
 *
 * Threads: owner.   Allocation: through env.
 */
#ifndef HTCSCHED_AGENT_H
#define HTCSCHED_AGENT_H

#include "htcsched/machine.h"
#include "htcsched/registry.h"

#ifdef __cplusplus
extern "C" {
#endif

/** How an agent works; every field's zero is its default. */
typedef struct htc_agent_options {
    size_t      size;    /**< sizeof(htc_agent_options) */
    uint64_t    agent;   /**< id drawn by the gateway, not 0 */
    uint32_t    peer;    /**< the driver's number of the connection to the gateway, not 0 */
    uint32_t    slots;   /**< tasks run at once; 0: 1 */
    const char *node;    /**< host name; copied */
    uint64_t    memory;  /**< of the node, bytes */
    uint32_t    cores;   /**< of the node */
    htc_ns      retry_ns;        /**< repeat an unanswered message after this, doubling to 8 times; 0: 1 s */
    htc_ns      kill_after_ns;   /**< from SIGTERM to SIGKILL; 0: 10 s */
    htc_ns      orphan_after_ns; /**< idle and no gateway for this long: leave; 0: 60 s */
    uint32_t    stage_retry;     /**< transient stage-in errors; 0: 3 */
    const char *store;   /**< where the store is (HTC_CALL_DIAL), for flows; copied; NULL: it works at none. Since: 0.2 */
    const char *address; /**< where other workers of a flow reach this agent: connections to there are this machine's; copied; NULL: as
                              store. Since: 0.2 */
    uint64_t    cache_bytes; /**< htc_worker_options.cache_bytes of its flows; 0: 1 GiB. Since: 0.2 */
    const htc_registry *policies; /**< htc_worker_options.policies of its flows; kept; NULL: those of the library. Since: 0.2 */
    uint32_t    brings;  /**< 1: uploads that its tasks read are not all where it runs, and are brought there when the gateway is asked. Since: 0.2 */
    htc_ns   io_backoff_ns; /**< the first pause of all staging after no space in staging out, an input or output error or a time-out; it doubles up to 30 s
                                 and shrinks with what goes well; 0: 50 ms. Since: 0.2 */
    const char *system;  /**< of the node, as uname(2) calls it ("Linux"), at most 31 bytes; copied; NULL: not known. Since: 0.2 */
    const char *machine; /**< likewise, its hardware ("x86_64"). Since: 0.2 */
    uint32_t shares; /**< 1: outputs are stored in the gateway's directory, where the gateway offers that and it is seen here. Since: 0.2 */
    const char *outputs; /**< with shares: the path of that directory here, at most 1023 bytes, copied; NULL, "": the one that the gateway says. Since: 0.2 */
} htc_agent_options;

/** An agent, as a machine: self of htc_agent_ops. */
typedef struct htc_agent htc_agent;

/**
 * Create an agent that waits for HTC_IN_START.
 *
 * @param[in]  env      kept; not NULL
 * @param[in]  options  borrowed; strings are copied; not NULL
 * @param[out] out      gives the agent: htc_agent_ops()->destroy
 * @return HTC_OK; HTC_EINVAL; HTC_EABI; HTC_ENOMEM
 *
 * Cost: some allocations.   Since: 0.1
 */
HTC_API htc_status htc_agent_create(const htc_env *env, const htc_agent_options *options, htc_agent **out);

/**
 * The agent as a machine, for a driver.
 *
 * @return lends a constant
 *
 * Cost: O(1).   Since: 0.1
 */
HTC_API const htc_machine_ops *htc_agent_ops(void);

#ifdef __cplusplus
}
#endif
#endif
