/**
 * @file htcsched/locality.h
 * @brief Where a ready task waits: here for anybody, here for us alone, or with the worker that has its data.
 *
 * Algorithm 3 of data-aware work stealing weighs the time to move a task's input against the time the task runs, and
 * four policies differ in how much they mind: MLB (balance only), MDL (locality only), RLDS (by the ratio) and FLDS (the
 * same, but what a worker cannot do in time becomes free to be stolen). The pure functions are the equations alone; an
 * htc_locality keeps what a worker's policy needs to remember, and its policy may change while it runs; an
 * htc_locality_lengths estimates how long a task will run from those of its kind that have run.
 *
 * All of it is integers: bytes, nanoseconds, tasks, and ratios in millionths. Comparisons are exact.
 *
 * Threads: pure (htc_locality_decide, _excess and _advised), else owner.   Allocation: through env; only
 * htc_locality_lengths grows, up to kinds_max.   Source: doc/papers.md#locality, Algorithm 3.
 */
#ifndef HTCSCHED_LOCALITY_H
#define HTCSCHED_LOCALITY_H

#include "htcsched/registry.h"

#ifdef __cplusplus
extern "C" {
#endif

/** The ratio 1: moving the data may take as long as the task. */
#define HTC_LOCALITY_ONE UINT64_C(1000000)
/** The ratio infinity: data never binds a task. */
#define HTC_LOCALITY_ALWAYS UINT64_MAX
/** A task has at most this many inputs. */
#define HTC_LOCALITY_INPUTS_MAX ((size_t)1 << 20)

/** The queues of Algorithm 3. */
typedef enum htc_locality_queue {
    HTC_LOCALITY_SHARED = 0, /**< SReadyQ of this worker: others may steal it */
    HTC_LOCALITY_LOCAL,      /**< LReadyQ of this worker: nobody steals it */
    HTC_LOCALITY_PUSH        /**< LReadyQ of another worker; if that one does not answer, keep the task in SHARED */
} htc_locality_queue;

/** One object that a task reads: what a finished parent made, or anything else whose place is known. */
typedef struct htc_locality_input {
    uint64_t bytes;  /**< size(p) */
    uint32_t worker; /**< who has it */
} htc_locality_input;

/** A task whose parents have finished. Borrowed. */
typedef struct htc_locality_task {
    const htc_locality_input *inputs;   /**< the sum of their bytes is all_data_size */
    size_t                    inputs_n; /**< 0 to HTC_LOCALITY_INPUTS_MAX; inputs may be NULL if there are none */
    htc_ns                    est_ns;   /**< est_task_length: htc_locality_estimate, or what the caller knows better */
} htc_locality_task;

/** What is decided for one task. */
typedef struct htc_locality_place {
    uint32_t queue;       /**< htc_locality_queue */
    uint32_t worker;      /**< whose queue: the caller's number, or where to push */
    uint64_t fetch_bytes; /**< input that this worker does not have and has to fetch */
} htc_locality_place;

/**
 * Algorithm 3, alone: place one task.
 *
 *     all_data_size / band / est <= t                      SHARED
 *     else, p the largest input: size(p) / band / est <= t SHARED
 *     else p's worker is self                              LOCAL
 *     else                                                 PUSH to p's worker
 *
 * As size(p) is part of all_data_size, a task with one large input or many small ones stays where it became ready unless
 * the largest alone is worth a journey. Of equally large inputs one that self has counts as the largest, then the first.
 * A task without bytes is SHARED whatever t; one of est_ns = 0 with bytes never is, unless t is HTC_LOCALITY_ALWAYS.
 *
 * @param[in]  ratio        t in millionths: 0 (every byte binds) to HTC_LOCALITY_ALWAYS
 * @param[in]  bytes_per_s  band, from 1
 * @param[in]  self         the caller's number
 * @param[in]  task         borrowed
 * @param[out] out          untouched on failure
 * @return HTC_OK; HTC_EINVAL if a pointer is NULL, bytes_per_s is 0, there are too many inputs or their bytes exceed 2^64 - 1
 *
 * Cost: O(inputs).   Since: 0.2
 */
HTC_API htc_status htc_locality_decide(uint64_t ratio, uint64_t bytes_per_s, uint32_t self,
                                       const htc_locality_task *task, htc_locality_place *out);

/**
 * The moving rule of FLDS, alone: how many of the waiting tasks cannot be done within tt.
 *
 *     est_run_time = waiting / (done / in_ns);   excess = waiting * (est_run_time - tt) / est_run_time, or 0 if below 0
 *
 * Exactly, what stays is floor(tt * done / in_ns): as many as are done within tt. While nothing is done yet, one task
 * counts as just about done; over no time at all nothing is known, and nothing moves.
 *
 * @param[in]  waiting  length of LReadyQ
 * @param[in]  done     tasks finished in the last in_ns
 * @param[in]  in_ns    how long that was
 * @param[in]  tt_ns    the time threshold; HTC_NEVER: nothing moves
 * @return 0 to waiting; move those with the least input first, they are the cheapest to carry
 *
 * Cost: O(1).   Since: 0.2
 */
HTC_API uint64_t htc_locality_excess(uint64_t waiting, uint64_t done, htc_ns in_ns, htc_ns tt_ns);

/** The policies of the paper. Their names in a registry are "mlb", "mdl", "rlds" and "flds". */
typedef enum htc_locality_rule {
    HTC_LOCALITY_FLDS = 0, /**< as RLDS, and the excess of LReadyQ moves to SReadyQ */
    HTC_LOCALITY_RLDS,     /**< 0 < t < infinity; what is in LReadyQ stays */
    HTC_LOCALITY_MDL,      /**< t = 0 */
    HTC_LOCALITY_MLB       /**< t = infinity; whatever LReadyQ holds moves */
} htc_locality_rule;

/** What data moved, or would have, in a span of time. */
typedef struct htc_locality_traffic {
    uint64_t needed_bytes; /**< input of the tasks that finished */
    uint64_t moved_bytes;  /**< the part of it that was fetched from other workers; at most needed_bytes */
    htc_ns   in_ns;        /**< how long that was */
} htc_locality_traffic;

/**
 * Which policy suits what was measured: too much data moved calls for MDL, little data for MLB, else FLDS.
 *
 * As shares of what bytes_per_s can carry in in_ns: MLB if needed <= low (2 low while MLB is in force, so that it does not
 * flap); else MDL if moved > high, or if MDL is in force and needed > high (little moves just because it is in force); else FLDS.
 *
 * @param[in] rule         htc_locality_rule in force
 * @param[in] traffic      borrowed
 * @param[in] bytes_per_s  from 1
 * @param[in] low          in millionths
 * @param[in] high         in millionths, above low, at most 2^32
 * @return htc_locality_rule; rule itself if nothing was measured (in_ns is 0) or an argument is out of range
 *
 * Cost: O(1).   Since: 0.2
 */
HTC_API uint32_t htc_locality_advised(uint32_t rule, const htc_locality_traffic *traffic, uint64_t bytes_per_s, uint64_t low,
                                      uint64_t high);

/** What a policy sees of its worker. */
typedef struct htc_locality_view {
    size_t   size;        /**< sizeof(htc_locality_view) */
    uint32_t self;        /**< the worker's number */
    uint32_t reserved;    /**< 0 */
    uint64_t ratio;       /**< the option: t of RLDS and FLDS, in millionths */
    uint64_t bytes_per_s; /**< band */
    htc_ns   tt_ns;       /**< the time threshold as it is now; HTC_NEVER: nothing is to move */
    uint64_t waiting;     /**< length of LReadyQ (move) */
    uint64_t done;        /**< tasks finished in the last in_ns (move) */
    htc_ns   in_ns;       /**< how long the measurement of done lasted (move) */
} htc_locality_view;

/**
 * A policy: two decisions. Functions keep nothing between calls but in ctx. While one is called, every call that would change
 * the worker is HTC_EINVAL, and htc_locality_destroy does nothing.
 */
typedef struct htc_locality_policy {
    size_t      size; /**< sizeof(htc_locality_policy) */
    const char *name; /**< kept; as htc_registry_add wants it; NULL is fine for a policy that is in no registry */
    void       *ctx;  /**< kept; handed to both functions */
    uint32_t    rule; /**< htc_locality_rule it counts as when a better one is sought; a policy of your own: the nearest */
    /** Place a task. Answers as htc_locality_decide; anything but HTC_OK is passed on. */
    htc_status (*place)(void *ctx, const htc_locality_view *view, const htc_locality_task *task, htc_locality_place *out);
    /** How many of view->waiting go to SReadyQ; more than waiting is taken for waiting. NULL: none ever. */
    uint64_t (*move)(void *ctx, const htc_locality_view *view);
} htc_locality_policy;

/**
 * A policy of the paper.
 *
 * @param[in] rule  htc_locality_rule
 * @return lends a constant; NULL for another number
 *
 * Cost: O(1).   Since: 0.2
 */
HTC_API const htc_locality_policy *htc_locality_builtin(uint32_t rule);

/**
 * Add a policy under its name, beside those of htc_registry_add_builtin.
 *
 * @param[in,out] registry  as it was on failure
 * @param[in]     policy    kept: outlives the registry; has size, name and place
 * @return as htc_registry_add; HTC_EABI if the policy is of a newer library
 *
 * Cost: as htc_registry_add.   Since: 0.2
 */
HTC_API htc_status htc_locality_register(htc_registry *registry, const htc_locality_policy *policy);

/**
 * Find a policy by name.
 *
 * @param[in]  registry  borrowed
 * @param[in]  name      borrowed
 * @param[out] policy    what was registered; untouched on failure
 * @return HTC_OK; HTC_EINVAL; HTC_ENOTFOUND
 *
 * Cost: as htc_registry_find.   Since: 0.2
 */
HTC_API htc_status htc_locality_find(const htc_registry *registry, const char *name, const htc_locality_policy **policy);

/** How tt changes while a policy of rule FLDS is in force. */
typedef enum htc_locality_tt_rule {
    HTC_LOCALITY_TT_FIXED = 0, /**< it stays */
    HTC_LOCALITY_TT_STEAL,     /**< doubles when tasks move, halves when a steal of this worker fails */
    HTC_LOCALITY_TT_MOVE       /**< nothing moves until the tail of all tasks; from then on tt halves when tasks move */
} htc_locality_tt_rule;

/** How a worker decides; the zero of each field is its default. */
typedef struct htc_locality_options {
    size_t                     size;         /**< sizeof(htc_locality_options) */
    const htc_locality_policy *policy;       /**< to begin with; kept; NULL: FLDS */
    uint32_t                   self;         /**< the worker's number */
    uint32_t                   tt_rule;      /**< htc_locality_tt_rule */
    uint64_t                   bytes_per_s;  /**< band; 0: 125,000,000 (1 Gb/s) */
    uint64_t                   ratio;        /**< t of RLDS and FLDS in millionths; 0: 500,000. (t = 0 is MDL, infinity MLB.) */
    htc_ns                     tt_ns;        /**< where tt begins; 0: 10 s, with HTC_LOCALITY_TT_MOVE 20 s */
    htc_ns                     tt_ns_min;    /**< tt never falls below; 0: 10 ms, or tt_ns if that is less */
    htc_ns                     tt_ns_max;    /**< nor rises above; 0: an hour, or tt_ns if that is more */
    htc_ns                     tt_ns_small;  /**< at or below this tt is small: who has stopped stealing starts again; 0: 1 s */
    htc_ns                     window_ns;    /**< throughput and traffic are measured over the last one to two of these; 0: 10 s */
    uint64_t                   tail;         /**< HTC_LOCALITY_TT_MOVE: share of all tasks that is done before, in millionths; 0: 800,000 */
    uint64_t                   traffic_low;  /**< htc_locality_advise: little data, share of band in millionths; 0: 10,000 */
    uint64_t                   traffic_high; /**< too much data; 0: 800,000 */
} htc_locality_options;

/** An options struct with every default. */
#define HTC_LOCALITY_OPTIONS_INIT { sizeof(htc_locality_options), NULL, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0 }

/**
 * HTC_LOCALITY_OPTIONS_INIT, for bindings.
 *
 * @param[out] options  every field's default; NULL is fine
 * @param[in]  size     sizeof *options as the caller was built: no more than this is written; 0: nothing
 *
 * Cost: O(1).   Since: 0.2
 */
HTC_API void htc_locality_options_init(htc_locality_options *options, size_t size);

/** The policy of one worker and what it remembers. */
typedef struct htc_locality htc_locality;

/**
 * Create a worker's policy.
 *
 * @param[in]  env      kept; NULL: malloc
 * @param[in]  options  copied; NULL: every default
 * @param[out] out      gives: htc_locality_destroy; untouched on failure
 * @return HTC_OK; HTC_EINVAL if a field is out of range (an unknown rule, min above tt_ns, low not below high, a policy without
 *         place); HTC_EABI; HTC_ENOMEM
 *
 * Cost: one allocation, the only one.   Since: 0.2
 */
HTC_API htc_status htc_locality_create(const htc_env *env, const htc_locality_options *options, htc_locality **out);

/**
 * Free it.
 *
 * @param[in] locality  NULL is fine
 *
 * Cost: O(1).   Since: 0.2
 */
HTC_API void htc_locality_destroy(htc_locality *locality);

/**
 * Place a ready task by the policy in force.
 *
 * @param[in,out] locality  nothing of it changes but what the policy keeps in its ctx
 * @param[in]     task      borrowed
 * @param[out]    out       untouched on failure
 * @return as htc_locality_decide; from a policy of your own, its answer; HTC_EINTERNAL if that names no queue
 *
 * Cost: O(inputs).   Since: 0.2
 */
HTC_API htc_status htc_locality_place_task(htc_locality *locality, const htc_locality_task *task, htc_locality_place *out);

/**
 * Note that this worker has finished a task.
 *
 * @param[in,out] locality      as it was on failure
 * @param[in]     now           the caller's clock; never runs backwards
 * @param[in]     needed_bytes  the task's input
 * @param[in]     moved_bytes   what of it was fetched; at most needed_bytes
 * @return HTC_OK; HTC_EINVAL if now is before an earlier one, or more was moved than needed
 *
 * Cost: O(1).   Since: 0.2
 */
HTC_API htc_status htc_locality_finished(htc_locality *locality, htc_ns now, uint64_t needed_bytes, uint64_t moved_bytes);

/**
 * How many tasks are to go from LReadyQ to SReadyQ now; ask when an executor looks for work, or every so often.
 *
 * By the policy in force, for built-in FLDS htc_locality_excess over the last one to two windows. tt changes as the rule
 * says if the answer is not 0. An empty LReadyQ begins the measurement anew: a worker that had nothing to do is not slow.
 *
 * @param[in,out] locality  as it was on failure
 * @param[in]     now       the caller's clock; never runs backwards
 * @param[in]     waiting   length of LReadyQ
 * @param[out]    move      0 to waiting: move those with the least input; untouched on failure
 * @return HTC_OK; HTC_EINVAL if a pointer is NULL or now is before an earlier one
 *
 * Cost: O(1).   Since: 0.2
 */
HTC_API htc_status htc_locality_move(htc_locality *locality, htc_ns now, uint64_t waiting, uint64_t *move);

/**
 * Note that a steal of this worker came back with nothing (HTC_LOCALITY_TT_STEAL: tt halves).
 *
 * @param[in,out] locality  as it was on failure
 * @return HTC_OK; HTC_AGAIN if tt has become small just now: whoever has stopped stealing is to start again (htc_steal's
 *         nudge); HTC_EINVAL if locality is NULL
 *
 * Cost: O(1).   Since: 0.2
 */
HTC_API htc_status htc_locality_steal_failed(htc_locality *locality);

/**
 * Say how much of all the work is done (HTC_LOCALITY_TT_MOVE waits for its tail).
 *
 * @param[in,out] locality  as it was on failure
 * @param[in]     done      tasks
 * @param[in]     all       tasks, at least done; once the tail has begun it does not end when this grows
 * @return HTC_OK; HTC_EINVAL if done is above all
 *
 * Cost: O(1).   Since: 0.2
 */
HTC_API htc_status htc_locality_progress(htc_locality *locality, uint64_t done, uint64_t all);

/**
 * Put another policy in force. What was measured stays, and so does tt; tasks already placed stay where they are, unless the
 * new policy moves them.
 *
 * @param[in,out] locality  as it was on failure
 * @param[in]     policy    kept: outlives locality
 * @return HTC_OK; HTC_EINVAL if the policy has no place; HTC_EABI if it is of a newer library
 *
 * Cost: O(1).   Since: 0.2
 */
HTC_API htc_status htc_locality_switch(htc_locality *locality, const htc_locality_policy *policy);

/**
 * Is another policy of the paper better for what was measured over the last whole window? See htc_locality_advised.
 *
 * It only answers; htc_locality_switch does it. A policy just switched to is left alone until a whole window has passed, counted
 * from the first call after the switch that tells the time.
 *
 * @param[in,out] locality  as it was on failure
 * @param[in]     now       the caller's clock; never runs backwards
 * @param[out]    better    lends a constant; untouched unless HTC_OK
 * @return HTC_OK: better is not of the rule in force; HTC_AGAIN: keep it, or not enough is known; HTC_EINVAL
 *
 * Cost: O(1).   Since: 0.2
 */
HTC_API htc_status htc_locality_advise(htc_locality *locality, htc_ns now, const htc_locality_policy **better);

/**
 * The policy in force.
 *
 * @param[in] locality  borrowed
 * @return lends what was passed in; NULL if locality is NULL
 *
 * Cost: O(1).   Since: 0.2
 */
HTC_API const htc_locality_policy *htc_locality_in_force(const htc_locality *locality);

/**
 * The time threshold as it is now.
 *
 * @param[in] locality  borrowed
 * @return nanoseconds; HTC_NEVER while HTC_LOCALITY_TT_MOVE waits for the tail, or if locality is NULL
 *
 * Cost: O(1).   Since: 0.2
 */
HTC_API htc_ns htc_locality_tt(const htc_locality *locality);

/**
 * Write what has been learned, or read it into one that was created with the same options and has a policy of the same rule in force: it goes on from
 * there. What a policy of one's own remembers is the caller's.
 *
 * @param[in,out] locality  read: as it was if the first piece is not of these options; on any later failure good for htc_locality_destroy alone
 * @param[in]     tape      borrowed
 * @return HTC_OK; HTC_EINVAL, also from inside the policy; HTC_EFORMAT: what is read is not of these options; HTC_ECORRUPT; what the tape answers; HTC_EABI
 *
 * Cost: O(1), some 250 bytes.   Since: 0.2
 */
HTC_API htc_status htc_locality_tape(htc_locality *locality, const htc_tape *tape);

/** What est_task_length is made of. */
typedef enum htc_locality_estimator {
    HTC_LOCALITY_MEAN = 0,    /**< the mean of those of the kind, rounded to nearest, halves up: exact */
    HTC_LOCALITY_QUANTILE,    /**< the length that a given share of them does not exceed: within 1/64 of it */
    HTC_LOCALITY_DISTRIBUTION /**< a length drawn as they are distributed, each as likely as it was seen: within 1/64 */
} htc_locality_estimator;

/** How lengths are estimated; the zero of each field is its default. */
typedef struct htc_locality_lengths_options {
    size_t   size;       /**< sizeof(htc_locality_lengths_options) */
    uint32_t estimator;  /**< htc_locality_estimator */
    uint32_t kinds_max;  /**< kinds remembered, at most 65,536; 0: 1024. Each takes 48 bytes, but with MEAN 15 KiB more */
    uint64_t quantile;   /**< HTC_LOCALITY_QUANTILE: 1 to 1,000,000 millionths; 0: 500,000, the median */
    htc_ns   unknown_ns; /**< the estimate for a kind of which nothing has run; 0: 1 s */
} htc_locality_lengths_options;

/** An options struct with every default. */
#define HTC_LOCALITY_LENGTHS_OPTIONS_INIT { sizeof(htc_locality_lengths_options), 0, 0, 0, 0 }

/**
 * HTC_LOCALITY_LENGTHS_OPTIONS_INIT, for bindings.
 *
 * @param[out] options  every field's default; NULL is fine
 * @param[in]  size     sizeof *options as the caller was built: no more than this is written; 0: nothing
 *
 * Cost: O(1).   Since: 0.2
 */
HTC_API void htc_locality_lengths_options_init(htc_locality_lengths_options *options, size_t size);

/** How long tasks have run, by kind. */
typedef struct htc_locality_lengths htc_locality_lengths;

/**
 * Create an estimator that knows of no kind.
 *
 * @param[in]  env      kept; NULL: malloc
 * @param[in]  options  copied; NULL: every default
 * @param[out] out      gives: htc_locality_lengths_destroy; untouched on failure
 * @return HTC_OK; HTC_EINVAL if a field is out of range; HTC_EABI; HTC_ENOMEM
 *
 * Cost: one allocation.   Since: 0.2
 */
HTC_API htc_status htc_locality_lengths_create(const htc_env *env, const htc_locality_lengths_options *options,
                                               htc_locality_lengths **out);

/**
 * Free it.
 *
 * @param[in] lengths  NULL is fine
 *
 * Cost: O(kinds).   Since: 0.2
 */
HTC_API void htc_locality_lengths_destroy(htc_locality_lengths *lengths);

/**
 * Note that tasks of a kind ran this long: one that has finished, or as many as a known distribution says.
 *
 * A law from elsewhere (a fit, the last run's histogram) is given point by point, with weights for times.
 *
 * @param[in,out] lengths  as it was on failure
 * @param[in]     kind     any number of the caller's: an application, a stage of a workflow
 * @param[in]     run_ns   how long each ran
 * @param[in]     times    how many, from 1
 * @return HTC_OK; HTC_EINVAL; HTC_EFULL if there are kinds_max others, or 2^64 - 1 tasks of this one; HTC_ENOMEM
 *
 * Cost: O(log kinds), for a new kind O(kinds).   Since: 0.2
 */
HTC_API htc_status htc_locality_learn(htc_locality_lengths *lengths, uint64_t kind, htc_ns run_ns, uint64_t times);

/**
 * est_task_length: how long a task of this kind will run.
 *
 * @param[in]     lengths  borrowed
 * @param[in]     kind     as in htc_locality_learn
 * @param[in,out] rng      HTC_LOCALITY_DISTRIBUTION draws from it; otherwise not touched, may be NULL
 * @param[out]    est_ns   untouched on failure
 * @return HTC_OK; HTC_AGAIN: nothing of this kind has run, est_ns is unknown_ns; HTC_EINVAL
 *
 * Cost: O(log kinds); QUANTILE and DISTRIBUTION look at up to 1920 counters more.   Since: 0.2
 */
HTC_API htc_status htc_locality_estimate(const htc_locality_lengths *lengths, uint64_t kind, htc_rng *rng, htc_ns *est_ns);

/**
 * How many tasks of a kind have been noted.
 *
 * @param[in] lengths  borrowed
 * @param[in] kind     as in htc_locality_learn
 * @return tasks; 0 for an unknown kind or NULL
 *
 * Cost: O(log kinds).   Since: 0.2
 */
HTC_API uint64_t htc_locality_known(const htc_locality_lengths *lengths, uint64_t kind);

/**
 * Write the lengths that were noted, or read them where there are none yet, with the same options: estimates are then the same.
 *
 * @param[in,out] lengths  read: as it was if the first piece is not of these options; on any later failure good for htc_locality_lengths_destroy alone
 * @param[in]     tape     borrowed
 * @return HTC_OK; HTC_EINVAL, also if what is to be read into has kinds; HTC_EFORMAT: what is read is not of these options; HTC_ECORRUPT; what the tape
 *         answers; HTC_EABI; HTC_ENOMEM
 *
 * Cost: O(kinds), 32 bytes a kind; QUANTILE and DISTRIBUTION have 15 KiB a kind more.   Since: 0.2
 */
HTC_API htc_status htc_locality_lengths_tape(htc_locality_lengths *lengths, const htc_tape *tape);

#ifdef __cplusplus
}
#endif
#endif
