/**
 * @file htcsched/fit.h
 * @brief Which parallel job starts next on a set of equal nodes: first come first served, first fit, EASY and
 * conservative backfill, and policies of your own.
 *
 * A fit holds the jobs that wait and those that run. It is told what happens (a job arrives, ends, is changed, nodes come
 * or go) and asked after each event what starts now:
 *
 *     htc_fit_submit(fit, now, &(htc_fit_job){ .id = 7, .nodes = 16, .estimate = 3600 * HTC_SECOND });
 *     while (htc_fit_next(fit, now, &job) == HTC_OK)
 *         start(job.id);
 *
 * A policy is what it promises to those that wait (htc_fit_promise), and perhaps a choice of its own among the jobs that
 * may start without breaking the promise. The library keeps the promise, whatever the policy chooses. Jobs wait in order of
 * priority, or of a key of the policy's own, then of arrival; a reservation is as good as the estimates: where they are upper bounds and no node is lost,
 * nobody starts later than was promised. A job past its estimate counts as ending in a second, again and again. A job
 * wider than the nodes that are up is set aside until they come back and holds up nobody but under HTC_FIT_PROMISE_ORDER.
 *
 * Time is the caller's: nanoseconds of one clock that does not run backwards; HTC_EINVAL for a moment before the last one
 * or HTC_NEVER. Report what ended at a moment before you ask what starts at it.
 *
 * Threads: owner.   Allocation: through env; 130 to 260 bytes a job; where all have reservations
 * 120 to 240 more, and 67 KiB. Only htc_fit_create, htc_fit_submit, htc_fit_when and htc_fit_forecast allocate.
 * Source: doc/papers.md#fit; Lifka 1995 and Mu'alem, Feitelson 2001 (backfilling), DawningCloud section 4.4 (first fit, FCFS).
 */
#ifndef HTCSCHED_FIT_H
#define HTCSCHED_FIT_H

#include "htcsched/env.h"
#include "htcsched/registry.h"

#ifdef __cplusplus
extern "C" {
#endif

/** A fit never holds more jobs than this, waiting and running. */
#define HTC_FIT_JOBS_MAX ((size_t)1 << 24)
/** A job past its estimate counts as ending this much later, in nanoseconds. */
#define HTC_FIT_OVERDUE_NS HTC_SECOND

/** What a policy promises to the jobs that wait; each value is one of the four policies that the library brings. */
typedef enum htc_fit_promise {
    HTC_FIT_PROMISE_NOTHING = 1, /**< whatever fits may start; wide jobs may starve ("first_fit") */
    HTC_FIT_PROMISE_ORDER,       /**< nobody starts before one in front of it, not even if that one is set aside ("fcfs") */
    HTC_FIT_PROMISE_HEAD,        /**< the first job that is not set aside is not delayed by those behind it ("easy") */
    HTC_FIT_PROMISE_ALL          /**< each job has a reservation from the moment it is submitted ("conservative") */
} htc_fit_promise;

/** Where a job is. */
typedef enum htc_fit_state {
    HTC_FIT_WAITING = 1, /**< submitted, not started */
    HTC_FIT_RUNNING      /**< holds its nodes */
} htc_fit_state;

/** Why a job waits. */
typedef enum htc_fit_why {
    HTC_FIT_WHY_NOTHING = 1, /**< nothing is in its way: it starts when it is the policy's choice */
    HTC_FIT_WHY_TOO_WIDE,    /**< asks for more nodes than are up */
    HTC_FIT_WHY_NODES,       /**< fewer nodes are free than it asks for; blocker: the running job whose end frees enough */
    HTC_FIT_WHY_TURN,        /**< would fit, but nobody may overtake; blocker: the first in the queue */
    HTC_FIT_WHY_DELAY        /**< would fit, but would delay a reserved start; blocker: the job that has the reservation */
} htc_fit_why;

/** A parallel job. */
typedef struct htc_fit_job {
    uint64_t id;       /**< the caller's; differs from all others in the fit */
    htc_ns   estimate; /**< how long it says it will run at most: above 0; HTC_NEVER: it does not say */
    uint32_t nodes;    /**< how many nodes it holds while it runs: above 0 */
    uint32_t priority; /**< the higher waits in front; 0 for all: first come first */
} htc_fit_job;

/** What is known of a job. */
typedef struct htc_fit_info {
    htc_fit_job job;       /**< as submitted or changed */
    htc_ns      submitted; /**< when */
    htc_ns      started;   /**< when; HTC_NEVER: it waits */
    htc_ns      ends;      /**< started + estimate; HTC_NEVER: it waits, or nobody knows */
    uint32_t    state;     /**< htc_fit_state */
} htc_fit_info;

/** A fit in numbers: what a provision policy needs to know, for one. */
typedef struct htc_fit_counts {
    uint64_t waiting_nodes; /**< the sum over the jobs that wait */
    uint32_t nodes;         /**< that are up */
    uint32_t busy;          /**< nodes that running jobs hold; more than are up while a removal waits for them */
    uint32_t free;          /**< nodes - busy, or 0 */
    uint32_t waiting;       /**< jobs */
    uint32_t running;       /**< jobs */
    uint32_t widest;        /**< the most nodes that a waiting job asks for */
} htc_fit_counts;

/** Why a job waits, as data and as a sentence. */
typedef struct htc_fit_reason {
    htc_ns   start;       /**< its reserved start; HTC_NEVER: it has none, htc_fit_when estimates one */
    uint64_t blocker;     /**< id of the job it waits for, if has_blocker */
    uint32_t why;         /**< htc_fit_why */
    uint32_t has_blocker; /**< 1 if blocker says something, else 0 */
    uint32_t before;      /**< how many jobs wait in front of it */
    uint32_t free;        /**< nodes that are free */
    char     text[208];   /**< one sentence, no full stop, no newline */
} htc_fit_reason;

/** Jobs on nodes, and the order they start in. */
typedef struct htc_fit htc_fit;

/**
 * How jobs are chosen. Zero a policy but for size and promise for one of the four that the library brings. While one of its
 * functions is called, every call that would change the fit is HTC_EINVAL, and htc_fit_destroy does nothing.
 */
typedef struct htc_fit_policy {
    size_t      size; /**< sizeof(htc_fit_policy) */
    const char *name; /**< kept; as htc_registry_add wants it; NULL is fine for a policy that is in no registry */
    void       *ctx;     /**< kept; handed to each of the functions */
    uint32_t    promise; /**< htc_fit_promise; the library sees to it that it is kept */
    /**
     * Choose the job that starts now, among those that htc_fit_candidate tells; NULL: the first of them.
     *
     * Called by htc_fit_next, and about imagined moments with an imagined fit by htc_fit_when and htc_fit_forecast. It
     * may ask the fit anything but what depends on its own answers: there htc_fit_when and htc_fit_forecast answer
     * HTC_EINVAL unless all that is asked for is reserved. It has to answer the same to the same.
     *
     * @param[in]  ctx  of the policy
     * @param[in]  fit  borrowed
     * @param[in]  now  the moment of the decision
     * @param[out] id   the job
     * @return HTC_OK; HTC_AGAIN if nothing is to start now; anything else is handed to the caller of htc_fit_next
     */
    htc_status (*choose)(void *ctx, const htc_fit *fit, htc_ns now, uint64_t *id);
    /**
     * Where a job waits in the queue: the least key in front, of equal keys who was submitted first. NULL: by priority.
     *
     * The queue is kept in this order, so "shortest first" costs htc_fit_next no more than first come first served does;
     * with choose the same costs a walk over all candidates. Called once by htc_fit_submit, htc_fit_requeue and
     * htc_fit_change of a job that waits, never by htc_fit_next. If a key depends on more than the job and that has changed,
     * htc_fit_change to what the job is already asks for it again. Who waits longer is to move to the front? That is the key
     * "submitted, less a bonus": two jobs that wait age alike.
     *
     * @param[in] ctx  of the policy
     * @param[in] job  as it is about to wait
     * @return the key
     */
    uint64_t (*key)(void *ctx, const htc_fit_info *job);
} htc_fit_policy;

/** How to make a fit; every field's zero is its default. */
typedef struct htc_fit_options {
    size_t                size;     /**< sizeof(htc_fit_options) */
    const htc_fit_policy *policy;   /**< kept; NULL: HTC_FIT_PROMISE_HEAD ("easy") */
    size_t                jobs_max; /**< waiting and running at a time, at most HTC_FIT_JOBS_MAX; 0: 2^20 */
    uint32_t              nodes;    /**< that are up at the start */
} htc_fit_options;

/** All options at their defaults: EASY, no nodes yet. */
#define HTC_FIT_OPTIONS_INIT { sizeof(htc_fit_options), NULL, 0, 0 }

/**
 * All options at their defaults, for languages without macros.
 *
 * @param[out] options  HTC_FIT_OPTIONS_INIT; NULL is fine
 * @param[in]  size     sizeof *options as the caller was built: no more than this is written; 0: nothing
 *
 * Cost: O(1).   Since: 0.2
 */
HTC_API void htc_fit_options_init(htc_fit_options *options, size_t size);

/**
 * Create a fit without jobs.
 *
 * @param[in]  env      kept; NULL: malloc
 * @param[in]  options  borrowed; NULL: the defaults
 * @param[out] out      gives the fit: htc_fit_destroy
 * @return HTC_OK; HTC_EINVAL if out is NULL, the policy's promise is unknown or jobs_max too high; HTC_EABI; HTC_ENOMEM
 *
 * Cost: O(1).   Since: 0.2
 */
HTC_API htc_status htc_fit_create(const htc_env *env, const htc_fit_options *options, htc_fit **out);

/**
 * Free a fit.
 *
 * @param[in] fit  NULL is fine
 *
 * Cost: O(1).   Since: 0.2
 */
HTC_API void htc_fit_destroy(htc_fit *fit);

/**
 * A job has arrived: it waits, behind all of its priority or key.
 *
 * Under HTC_FIT_PROMISE_ALL it gets the earliest start that delays no reservation.
 *
 * @param[in,out] fit  as it was on failure
 * @param[in]     now  the moment
 * @param[in]     job  copied
 * @return HTC_OK; HTC_EINVAL; HTC_EEXISTS if the fit has a job with this id; HTC_EFULL at jobs_max; HTC_ENOMEM
 *
 * Cost: O(log jobs), amortised; a reservation O(log jobs) for each gap in the plan that is too short.   Since: 0.2
 */
HTC_API htc_status htc_fit_submit(htc_fit *fit, htc_ns now, const htc_fit_job *job);

/**
 * Decide: which job starts now? Call it until HTC_AGAIN after each event, or after several of one moment.
 *
 * The job runs from now on. Nothing starts by the passing of time alone that would not start at the next event, so no timer is
 * needed; calling at any time is harmless.
 *
 * @param[in,out] fit  as it was unless HTC_OK, but that its clock stands at now
 * @param[in]     now  the moment
 * @param[out]    job  the job to start; untouched unless HTC_OK; NULL is fine
 * @return HTC_OK; HTC_AGAIN if nothing starts; HTC_EINVAL, also if the policy chose a job that may not start; what the
 *         policy answered
 *
 * Cost: O(log jobs); EASY O(waiting) at worst, where each narrow job is too long and each short one too wide.
 * HTC_FIT_PROMISE_ALL: O(log jobs) while everything goes as estimated, else the plan is made again: about 2 us a waiting
 * job.   Since: 0.2
 */
HTC_API htc_status htc_fit_next(htc_fit *fit, htc_ns now, htc_fit_job *job);

/**
 * Start a waiting job whatever the policy says: an operator's wish, or what ran before a restart. It may delay others.
 *
 * @param[in,out] fit  as it was on failure
 * @param[in]     now  the moment
 * @param[in]     id   a waiting job
 * @return HTC_OK; HTC_AGAIN if fewer nodes are free; HTC_EINVAL, also if it runs; HTC_ENOTFOUND
 *
 * Cost: O(log jobs).   Since: 0.2
 */
HTC_API htc_status htc_fit_start(htc_fit *fit, htc_ns now, uint64_t id);

/**
 * A job is over, be it done, failed or cancelled, and whether it ran or waited. Its nodes are free.
 *
 * Under HTC_FIT_PROMISE_ALL what is left of its time is given to others at the next decision: in order of their reserved
 * starts each moves to the earliest that is free, and none to a later one.
 *
 * @param[in,out] fit  as it was on failure
 * @param[in]     now  the moment
 * @param[in]     id   forgotten
 * @return HTC_OK; HTC_EINVAL; HTC_ENOTFOUND
 *
 * Cost: O(log jobs).   Since: 0.2
 */
HTC_API htc_status htc_fit_end(htc_fit *fit, htc_ns now, uint64_t id);

/**
 * A running job lost its nodes and waits again, at its old place in the queue unless the policy gives it another key.
 *
 * @param[in,out] fit  as it was on failure
 * @param[in]     now  the moment
 * @param[in]     id   a running job
 * @return HTC_OK; HTC_EINVAL, also if it waits; HTC_ENOTFOUND
 *
 * Cost: O(log jobs).   Since: 0.2
 */
HTC_API htc_status htc_fit_requeue(htc_fit *fit, htc_ns now, uint64_t id);

/**
 * Change a job's estimate (of a running one: counted from its start), priority, or, while it waits, nodes.
 *
 * Who asks for more time or nodes gives up a reservation and gets the earliest start that delays nobody else's.
 *
 * @param[in,out] fit  as it was on failure
 * @param[in]     now  the moment
 * @param[in]     job  the job with this id is to be so; copied
 * @return HTC_OK; HTC_EINVAL, also if nodes differ from those that a running job holds; HTC_ENOTFOUND
 *
 * Cost: O(log jobs).   Since: 0.2
 */
HTC_API htc_status htc_fit_change(htc_fit *fit, htc_ns now, const htc_fit_job *job);

/**
 * Nodes have come up.
 *
 * @param[in,out] fit    as it was on failure
 * @param[in]     now    the moment
 * @param[in]     nodes  how many; no more than UINT32_MAX together with those that are up
 * @return HTC_OK; HTC_EINVAL
 *
 * Cost: O(1).   Since: 0.2
 */
HTC_API htc_status htc_fit_add_nodes(htc_fit *fit, htc_ns now, uint32_t nodes);

/**
 * Nodes have gone down or are being drained: idle ones go at once, others as running jobs release them.
 *
 * If a job died with its node, say so first: htc_fit_end or htc_fit_requeue. Reservations that cannot be kept are made again, in
 * the order of the queue.
 *
 * @param[in,out] fit    as it was on failure
 * @param[in]     now    the moment
 * @param[in]     nodes  how many, at most those that are up
 * @return HTC_OK; HTC_EINVAL
 *
 * Cost: O(1).   Since: 0.2
 */
HTC_API htc_status htc_fit_remove_nodes(htc_fit *fit, htc_ns now, uint32_t nodes);

/**
 * Nodes and jobs in numbers.
 *
 * @param[in]  fit  borrowed; NULL: all zero
 * @param[out] out  caller-allocated; NULL is fine
 *
 * Cost: O(1).   Since: 0.2
 */
HTC_API void htc_fit_count(const htc_fit *fit, htc_fit_counts *out);

/**
 * What is known of a job.
 *
 * @param[in]  fit  borrowed
 * @param[in]  id   any
 * @param[out] out  untouched on failure
 * @return HTC_OK; HTC_EINVAL if a pointer is NULL; HTC_ENOTFOUND
 *
 * Cost: O(1).   Since: 0.2
 */
HTC_API htc_status htc_fit_get(const htc_fit *fit, uint64_t id, htc_fit_info *out);

/**
 * The i-th waiting job.
 *
 * @param[in]  fit  borrowed
 * @param[in]  i    from 0, the head of the queue
 * @param[out] out  untouched on failure
 * @return HTC_OK; HTC_EINVAL if a pointer is NULL; HTC_ENOTFOUND behind the last
 *
 * Cost: O(log jobs).   Since: 0.2
 */
HTC_API htc_status htc_fit_at(const htc_fit *fit, size_t i, htc_fit_job *out);

/**
 * The first job in the queue, or behind another, that may start now under the promise: what a policy chooses from.
 *
 * EASY: its nodes are free, and its estimate ends before the head's reserved start or it leaves the head enough.
 * Under HTC_FIT_PROMISE_ALL the answer is that of the last plan: current in a policy, else after htc_fit_next.
 *
 * @param[in]  fit    borrowed
 * @param[in]  now    the moment
 * @param[in]  after  look behind this one; not a waiting job, or NULL: from the head
 * @param[out] out    untouched unless HTC_OK; may be where after points
 * @return HTC_OK; HTC_AGAIN if there is none; HTC_EINVAL
 *
 * Cost: as htc_fit_next.   Since: 0.2
 */
HTC_API htc_status htc_fit_candidate(const htc_fit *fit, htc_ns now, const htc_fit_job *after, htc_fit_job *out);

/**
 * The shadow time: when so many nodes will be free if nothing else starts, by the estimates of what runs.
 *
 * @param[in]  fit    borrowed
 * @param[in]  now    the moment
 * @param[in]  nodes  how many
 * @param[out] when   now if they are free; HTC_NEVER if a job without an estimate has to end first; untouched on failure
 * @param[out] spare  how many more will be free then; untouched on failure
 * @return HTC_OK; HTC_EINVAL; HTC_ENOFIT if fewer nodes are up
 *
 * Cost: O(log running).   Since: 0.2
 */
HTC_API htc_status htc_fit_shadow(const htc_fit *fit, htc_ns now, uint32_t nodes, htc_ns *when, uint32_t *spare);

/**
 * The earliest start of a waiting job as things stand.
 *
 * Reserved starts (all under HTC_FIT_PROMISE_ALL, the head's under HTC_FIT_PROMISE_HEAD) are told as they are. Others
 * are found by going on in imagination: jobs end at their estimates, nobody new arrives, the policy decides. It decides
 * first as things stand: a job that is due at this very moment, and has not ended, holds its nodes in that decision.
 *
 * @param[in]  fit       borrowed
 * @param[in]  now       the moment
 * @param[in]  id        a waiting job
 * @param[out] start     now or later; HTC_NEVER: not before something changes; untouched on failure
 * @param[out] reserved  1: a reservation, 0: an estimate; untouched on failure; NULL is fine
 * @return HTC_OK; HTC_EINVAL, also if it runs; HTC_ENOTFOUND; HTC_ENOMEM; what the policy answered
 *
 * Cost: a reservation O(log jobs); else O(jobs) memory and a decision for each job that starts before.   Since: 0.2
 */
HTC_API htc_status htc_fit_when(const htc_fit *fit, htc_ns now, uint64_t id, htc_ns *start, uint32_t *reserved);

/**
 * The earliest starts of all waiting jobs, found at once: for a listing.
 *
 * @param[in]  fit     borrowed
 * @param[in]  now     the moment
 * @param[out] starts  starts[i] is that of htc_fit_at(fit, i), as in htc_fit_when; untouched on failure
 * @param[in]  n       room in starts: as many as wait
 * @return HTC_OK; HTC_EINVAL, also if another number of jobs waits; HTC_ENOMEM; what the policy answered
 *
 * Cost: O(jobs) memory and a decision for each waiting job.   Since: 0.2
 */
HTC_API htc_status htc_fit_forecast(const htc_fit *fit, htc_ns now, htc_ns *starts, size_t n);

/**
 * Why a waiting job waits.
 *
 * @param[in]  fit  borrowed
 * @param[in]  now  the moment
 * @param[in]  id   a waiting job
 * @param[out] out  untouched on failure
 * @return HTC_OK; HTC_EINVAL, also if it runs; HTC_ENOTFOUND
 *
 * Cost: as htc_fit_next without a new plan.   Since: 0.2
 */
HTC_API htc_status htc_fit_explain(const htc_fit *fit, htc_ns now, uint64_t id, htc_fit_reason *out);

/**
 * Write the state, or read it into a fit that was created with the same options: it goes on from there. The policy has no state of its own.
 *
 * @param[in,out] fit   read: as it was if the first piece is not of these options; on any later failure good for htc_fit_destroy alone
 * @param[in]     tape  borrowed
 * @return HTC_OK; HTC_EINVAL, also from inside the policy; HTC_EFORMAT: what is read is not of these options; HTC_ECORRUPT; what the tape answers;
 *         HTC_EABI; HTC_ENOMEM
 *
 * Cost: some 150 bytes for each job that there was ever room for; a policy that plans for all has twice as much.   Since: 0.2
 */
HTC_API htc_status htc_fit_tape(htc_fit *fit, const htc_tape *tape);

/**
 * Add a policy under its name, for those who choose by name. The library's own are "fcfs", "first_fit", "easy" and "conservative".
 *
 * @param[in,out] registry  as it was on failure
 * @param[in]     policy    kept: outlives the registry
 * @return as htc_registry_add; HTC_EINVAL also if the policy's promise is unknown; HTC_EABI
 *
 * Cost: O(entries).   Since: 0.2
 */
HTC_API htc_status htc_fit_register(htc_registry *registry, const htc_fit_policy *policy);

/**
 * The policy of a name.
 *
 * @param[in]  registry  borrowed
 * @param[in]  name      borrowed
 * @param[out] policy    lends the policy, as long as the registry's entry lives; untouched on failure
 * @return HTC_OK; HTC_EINVAL if a pointer is NULL; HTC_ENOTFOUND
 *
 * Cost: O(log entries).   Since: 0.2
 */
HTC_API htc_status htc_fit_find(const htc_registry *registry, const char *name, const htc_fit_policy **policy);

#ifdef __cplusplus
}
#endif
#endif
