/**
 * @file htcsched/worker.h
 * @brief A worker of a flow: runs its tasks, takes some from other workers when it has none, and gives to those that ask.
 *
 * A state machine (htcsched/machine.h) for a program of one's own. A flow (htcsched/flows.h) is records in a store; whoever knows its number
 * can work at it. Workers of one flow find each other in the store, call each other, and steal by the rules of htcsched/steal.h. A worker
 * may come and go at any time, be killed, and be cut off: no task is lost, and none is counted twice (doc/design/workers.md). A task may be
 * run more than once where its worker was thought dead.
 *
 * What a driver has to do for it:
 *
 *     connections  one to the store, made before, numbered store_peer, again after it was lost. Others when it asks for them
 *                  (HTC_CALL_DIAL, HTC_CALL_HANG_UP), and those that other workers make to this one's address
 *     tasks        HTC_CALL_STAGE_IN, _RUN, _TAKE_BACK, _SIGNAL, _STAGE_OUT and _CLEAN, as htcsched/calls.h says
 *     functions    HTC_CALL_RUN_SPAN, of flows with builtins or functions. Its answer has the outputs of the tasks that are done: they are
 *                  what functions add to the flow (adds of htc_flow_task). With a driver that leaves outputs out those add nothing, and all
 *                  else is as before. What commands add is read by HTC_CALL_OUTPUT_READ
 *     objects      HTC_CALL_OBJECT_ROOM and those behind it, for flows whose tasks read what others make; never for others
 *     events       HTC_EVENT_STARTED and HTC_EVENT_TASK_STOPPED where there are processes; HTC_EVENT_REFUSED where it can be told, so that
 *                  the tasks of a worker that was killed begin again at once; HTC_EVENT_SHUTDOWN: finish what runs, hand over
 *                  the rest, end. With HTC_EKILLED: hand over what runs too
 *
 * htcsched/host.h with htcsched/agent_host.h is such a driver, htcsched/sim.h one in virtual time, and examples/embed/worker.c one of its
 * own. The worker ends (HTC_OUT_STOP) with HTC_OK when the flow has ended or was removed, and when it was asked to end; with HTC_ELOST
 * when its lease is gone, so that the others have given it up: a new one goes on, with a new store_client_id. With a record that
 * cannot be read a step answers HTC_ECORRUPT.
 *
 * Whoever can send messages to a worker as a worker of its flow is believed in what it says of notes and counts. The driver lets in no
 * others.
 *
 * Threads: owner.   Allocation: through env: 300 KiB, 104 KiB for each ledger that it answers for, and of a flow with dependencies 0.5 KiB and the record
 * for each task that it answers for.   Since: 0.2
 */
#ifndef HTCSCHED_WORKER_H
#define HTCSCHED_WORKER_H

#include "htcsched/env.h"
#include "htcsched/machine.h"
#include "htcsched/steal.h"

#ifdef __cplusplus
extern "C" {
#endif

/** Slots of one worker, at most. */
#define HTC_WORKER_SLOTS_MAX 128

/** How a worker works; every field's zero from slots on is its default. */
typedef struct htc_worker_options {
    size_t      size;            /**< sizeof(htc_worker_options) */
    uint64_t    flow;            /**< number of the flow, not 0; it need not be there yet */
    uint64_t    id;              /**< of this worker, not 0; of the workers of a flow that live no two share one. May be used again */
    const char *address;         /**< where other workers reach it (as in HTC_CALL_DIAL), at most 255 bytes; copied; not NULL */
    uint64_t    store_client_id; /**< 64 random bits, new at each start, not 0 */
    uint32_t    store_peer;      /**< the driver's number of the connection to the store, not 0 */
    uint32_t    slots;           /**< tasks run at once, counted in cores, at most HTC_WORKER_SLOTS_MAX; 0: 1 */
    const char *node;            /**< host name, for outcomes, at most 63 bytes; copied; NULL: none */
    htc_ns      lease_ns;        /**< not heard of for this long the worker is thought dead, and what it answers for is others'; 0: 80 s. It is
                                      renewed 20 s before its end, or after a third of it. That a process has ended is seen at once
                                      (HTC_EVENT_REFUSED) */
    htc_ns      commit_gap_ns;   /**< between two changes of a ledger, at least: more ends of tasks fit into each; 0: 1 ms */
    const htc_steal_options *steal; /**< copied, its policy is kept; NULL: every default. Where it does not fit a group, as a mesh with fewer
                                         points than workers, and where its policy answers an error, others are asked by "random" */
    uint64_t    calls_from;      /**< its calls of the host bear tags above this and up to 2^56 more: where several roles share a host,
                                      no two share any */
    uint32_t    within;          /**< 1: it is part of another machine, whose step calls its own with the same output: at its end there
                                      is no HTC_OUT_STOP, and htc_worker_stopped says so */
    uint64_t    cache_bytes;     /**< of what tasks read, kept here beside what they make while the flow runs; 0: 1 GiB */
    const char *user;            /**< whose tasks they are, where the flow does not say it (htc_flows_options.user), at most 63 bytes; copied; NULL: "" */
    const htc_registry *policies; /**< of stealing, by the names that flows have; kept. NULL: those of the library */
} htc_worker_options;

/** Options with every default; flow, id, address, store_client_id and store_peer are to be set. */
#define HTC_WORKER_OPTIONS_INIT { sizeof(htc_worker_options), 0, 0, NULL, 0, 0, 0, NULL, 0, 0, NULL, 0, 0, 0, NULL, NULL }

/** What a worker has done, and where it stands. */
typedef struct htc_worker_figures {
    size_t   size;       /**< sizeof(htc_worker_figures) */
    uint64_t run;        /**< tasks that ran to their end here, well or not */
    uint64_t stolen;     /**< tasks taken from others */
    uint64_t given;      /**< tasks given to others */
    uint64_t taken;      /**< ledgers taken that were nobody's, or a dead worker's */
    uint64_t ends;       /**< tasks with records whose end was stored */
    uint64_t tells;      /**< dependencies of which a child was told how they ended */
    uint64_t cancels;    /**< tasks with records that were cancelled before they ran */
    uint64_t ready;      /**< tasks that could begin now */
    uint64_t waiting;    /**< tasks that wait for others now */
    uint32_t running;    /**< slots in use now */
    uint32_t ledgers;    /**< that it answers for now */
    uint32_t members;    /**< workers of the flow that live, this one among them */
    uint32_t flow_ended; /**< 1: the flow has ended, and the three counts are its own */
    uint64_t done;       /**< tasks of the flow; 0 before its end */
    uint64_t failed;     /**< tasks of the flow; 0 before its end */
    uint64_t cancelled;  /**< tasks of the flow; 0 before its end */
    uint64_t made;       /**< objects that tasks made here */
    uint64_t fetched;    /**< objects that came from other workers */
    uint64_t fetched_bytes; /**< of these */
    uint64_t served;     /**< pieces of objects sent to other workers */
    uint64_t remade;     /**< tasks run once more, for what they had made was lost */
    uint64_t pushed;     /**< tasks given to workers that have what they read */
    uint64_t local;      /**< of ready: that wait here for what they read is here, and are not stolen */
    uint64_t added;      /**< tasks that tasks which ran here have added to the flow */
} htc_worker_figures;

/** A worker, as a machine: self of htc_worker_ops. */
typedef struct htc_worker htc_worker;

/**
 * Fill in every default, for languages that cannot use HTC_WORKER_OPTIONS_INIT.
 *
 * @param[out] options  NULL is fine
 * @param[in]  size     sizeof *options as the caller was built: no more than this is written; 0: nothing
 *
 * Cost: O(1).   Since: 0.2
 */
HTC_API void htc_worker_options_init(htc_worker_options *options, size_t size);

/**
 * Create a worker that waits for HTC_IN_START.
 *
 * @param[in]  env      copied; allocator, log and rng are kept; not NULL, and with an rng
 * @param[in]  options  borrowed; strings are copied; not NULL
 * @param[out] out      gives the worker: htc_worker_ops()->destroy; untouched on failure; not NULL
 * @return HTC_OK; HTC_EINVAL if a field is out of range, and what htc_steal_ask says of options->steal; HTC_EABI; HTC_ENOMEM
 *
 * Cost: some allocations.   Since: 0.2
 */
HTC_API htc_status htc_worker_create(const htc_env *env, const htc_worker_options *options, htc_worker **out);

/**
 * The worker as a machine, for a driver.
 *
 * @return lends a constant
 *
 * Cost: O(1).   Since: 0.2
 */
HTC_API const htc_machine_ops *htc_worker_ops(void);

/**
 * Change how many tasks are run at once. With more the deadline has passed at once, so that a step begins them; with fewer what runs goes
 * on.
 *
 * @param[in,out] worker  not NULL
 * @param[in]     slots   0: nothing begins here any more; above HTC_WORKER_SLOTS_MAX counts as that
 *
 * Cost: O(1).   Since: 0.2
 */
HTC_API void htc_worker_slots(htc_worker *worker, uint32_t slots);

/**
 * Say whether the host keeps what it is asked to run until a slot of its own is free, as htcsched/agent_host.h does, and has as many slots as
 * this worker, all for it. Then it is given some short commands ahead of a free slot, so that none waits for a message. At first not: what is
 * asked for begins at once.
 *
 * @param[in,out] worker  not NULL
 * @param[in]     ahead   0: no; what was given ahead is taken back with the next step, for which the deadline has passed, or when it has been staged in.
 *                        Else yes
 *
 * Cost: O(runs).   Since: 0.2
 */
HTC_API void htc_worker_ahead(htc_worker *worker, int ahead);

/**
 * Nobody wants the flow any more: with the next step, for which the deadline has passed at once, or as soon as the flow runs, it is stored that
 * all its tasks are cancelled, and the workers end it. htc_flows_cancel does so from outside, also for some tasks.
 *
 * @param[in,out] worker  not NULL
 *
 * Cost: O(1).   Since: 0.2
 */
HTC_API void htc_worker_cancel(htc_worker *worker);

/**
 * Has the worker ended?
 *
 * @param[in]  worker  not NULL
 * @param[out] status  as HTC_OUT_STOP says it; untouched if it has not ended; NULL is fine
 * @return 1: it has; 0: it goes on
 *
 * Cost: O(1).   Since: 0.2
 */
HTC_API int htc_worker_stopped(const htc_worker *worker, htc_status *status);

/**
 * What a worker has done, and where it stands.
 *
 * @param[in]  worker   not NULL
 * @param[out] figures  filled as far as its size says; untouched on failure; not NULL
 * @return HTC_OK; HTC_EINVAL if figures has no size
 *
 * Cost: O(ledgers and tasks that it answers for).   Since: 0.2
 */
HTC_API htc_status htc_worker_look(const htc_worker *worker, htc_worker_figures *figures);

#ifdef __cplusplus
}
#endif
#endif
