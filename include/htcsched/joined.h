/**
 * @file htcsched/joined.h
 * @brief A host that has joined a system on another machine: it launches agents there for the gateway.
 *
 * A state machine (htcsched/machine.h). It keeps one connection to the gateway, says what the host has and which agents there are, and asks
 * its own host to launch and to end agents with the calls that a gateway makes on its own machine (HTC_CALL_LAUNCH, HTC_CALL_KILL_AGENT:
 * htcsched/calls.h; htc_gateway_host_create carries them out). Agents speak with the gateway by themselves. Uploads that their tasks read it
 * brings from the gateway, once for all of them, and keeps while there is room (HTC_CALL_OBJECT_ROOM and those after it, HTC_CALL_OBJECT_GIVE).
 *
 * HTC_EVENT_SHUTDOWN lets its agents finish what runs, and it ends with them; a second one, or one whose status is not HTC_OK, ends them at
 * once. While the gateway is away, agents go on, and so does it.
 *
 * Threads: owner.   Allocation: through env.
 */
#ifndef HTCSCHED_JOINED_H
#define HTCSCHED_JOINED_H

#include "htcsched/machine.h"
#include "htcsched/work.h"

#ifdef __cplusplus
extern "C" {
#endif

/** What the host has; every field's zero is its default but for those that say otherwise. */
typedef struct htc_joined_options {
    size_t      size;     /**< sizeof(htc_joined_options) */
    uint32_t    peer;     /**< the driver's number of the connection to the gateway, not 0 */
    uint32_t    slots;    /**< tasks run at once; 0: cores */
    uint32_t    cores;    /**< of the node; 0: 1 */
    uint64_t    memory;   /**< of the node, bytes */
    const char *node;     /**< host name, at most 63 bytes; copied; NULL: none is told */
    const char *data;     /**< where its agents store outputs, absolute, at most 255 bytes; copied; NULL: it is not told */
    htc_ns      retry_ns; /**< repeat an unanswered message after this; 0: 1 s */
    /**
     * Called once, in a step, when the gateway has let it in. NULL: nobody is told.
     *
     * @param[in] ctx  let_in_ctx
     */
    void (*let_in)(void *ctx);
    void *let_in_ctx; /**< kept */
    /**
     * Called in a step when the gateway tells the public keys of all hosts. NULL: nobody is told.
     *
     * @param[in] ctx   keys_ctx
     * @param[in] ring  a ring's text (htc_keyring_load); borrowed
     * @return HTC_OK; else they are told again
     */
    htc_status (*keys)(void *ctx, htc_bytes ring);
    void *keys_ctx; /**< kept */
    uint32_t    agent_slots; /**< slots of one agent at most, which it has from its start to its end, as a batch job has cores; 0: an agent takes more and
                                  gives some back while it runs */
    const uint64_t *agents; /**< copied: agents of an earlier process that may be there still, as its host knows (htcsched/gateway_host.h); NULL */
    uint32_t        count;  /**< how many, at most 1024 */
    const htc_resource *resources; /**< n_resources that it counts (htc_site_options.resources), at most 16; copied; NULL. Since: 0.2 */
    size_t          n_resources; /**< of resources. Since: 0.2 */
    uint32_t    fetches;     /**< uploads that are brought from the gateway at once; 0: 8. Since: 0.2 */
    uint64_t    cache_bytes; /**< of the uploads that are kept here for tasks; 0: 1 GiB. Since: 0.2 */
    const char *system;  /**< of this machine, as uname(2) calls it ("Linux"), at most 31 bytes; copied; NULL: not known. Since: 0.2 */
    const char *machine; /**< likewise, its hardware ("x86_64"). Since: 0.2 */
} htc_joined_options;

/** A host that has joined, as a machine: self of htc_joined_ops. */
typedef struct htc_joined htc_joined;

/**
 * Create one that waits for HTC_IN_START.
 *
 * @param[in]  env      kept; not NULL
 * @param[in]  options  borrowed; strings are copied; not NULL
 * @param[out] out      gives it: htc_joined_ops()->destroy
 * @return HTC_OK; HTC_EINVAL; HTC_EABI; HTC_ENOMEM
 *
 * Cost: one allocation.   Since: 0.2
 */
HTC_API htc_status htc_joined_create(const htc_env *env, const htc_joined_options *options, htc_joined **out);

/**
 * It as a machine, for a driver. It stops with HTC_OK when it has left, or with the reason that the gateway has given for sending it away.
 *
 * @return lends a constant
 *
 * Cost: O(1).   Since: 0.2
 */
HTC_API const htc_machine_ops *htc_joined_ops(void);

/**
 * Why the gateway has sent it away, and what to do.
 *
 * @param[in] joined  borrowed
 * @return lends one sentence; "" if it has not
 *
 * Cost: O(1).   Since: 0.2
 */
HTC_API const char *htc_joined_reason(const htc_joined *joined);

#ifdef __cplusplus
}
#endif
#endif
