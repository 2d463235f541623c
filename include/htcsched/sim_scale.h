/**
 * @file htcsched/sim_scale.h
 * @brief The engine of the scale models: an event queue on arrays, lengths of tasks from a hash, and checks of conservation.
 *
 * Library htcsched-sim (`pkg-config --libs htcsched-sim`).
 *
 * Where htcsched/sim.h drives the machines that run live, message by message, a scale model is compact: an event is 8 bytes, a moment and
 * the id of the thing that it happens to (a core, a node, a timer), and what the thing is the model keeps in arrays of its own. Decisions are
 * those of the library: a model calls htc_allot_plan, htc_steal_pick and so on.
 *
 * A farm of cores that work off a bag of tasks, whole:
 *
 *     static void next(htc_scale *scale, struct farm *f, uint32_t core)
 *     {
 *         if (f->next < f->tasks)
 *             htc_scale_start(scale, core, 0, htc_scale_length(scale, &f->law, 0, f->next++));
 *     }
 *
 *     static void event(htc_scale *scale, void *ctx, uint32_t core)
 *     {
 *         htc_scale_end(scale);
 *         next(scale, ctx, core);
 *     }
 *
 *     htc_scale_options o = { .size = sizeof o, .ids = 1000000, .cores = 1000000, .event = event, .ctx = &farm };
 *     htc_scale_create(NULL, &o, &scale, NULL);
 *     htc_scale_submit(scale, farm.tasks);
 *     for (uint32_t core = 0; core < 1000000; core++)
 *         next(scale, &farm, core);
 *     htc_scale_run(scale);
 *     htc_scale_report_get(scale, &report);
 *
 * Order: events happen by (tick, id); the same seed is the same run, whatever the compiler, and htc_scale_report.hash says so. Randomness is
 * htc_scale_hash of (seed, stream, counter): it has no state, so that no draw depends on the order of others, and no length is stored.
 *
 * Conservation, checked by htc_scale_report_get: tasks ended = submitted, busy core time = sum of the lengths, makespan no shorter than the
 * longest task or all work divided by the cores, messages sent = received + lost.
 *
 * Threads: owner; a part belongs to the thread that runs its window (htc_scale_host.parallel).   Allocation: through env, in htc_scale_create; with
 * several parts also 8 bytes for each message that is sent to another part in a window.   Source: doc/simulation.md.
 */
#ifndef HTCSCHED_SIM_SCALE_H
#define HTCSCHED_SIM_SCALE_H

#include "htcsched/env.h"
#include "htcsched/status.h"

#ifdef __cplusplus
extern "C" {
#endif

/** A run. */
typedef struct htc_scale htc_scale;

/** The most ids of a run. */
#define HTC_SCALE_IDS_MAX (UINT64_C(1) << 32)

/** And the most parts. */
#define HTC_SCALE_PARTS_MAX 256

/** How a run goes, for people who wait for it. */
typedef struct htc_scale_progress {
    size_t   size;    /**< sizeof(htc_scale_progress) */
    uint64_t done;    /**< tasks that have ended */
    uint64_t total;   /**< that are submitted, or are expected to be */
    uint64_t events;  /**< that have happened */
    htc_ns   at;      /**< virtual time */
    htc_ns   spent;   /**< by the host's clock, since htc_scale_run */
    double   rate;    /**< tasks a second of the host's clock; 0: not known */
    htc_ns   left;    /**< at this rate, by the host's clock; 0: not known */
} htc_scale_progress;

/** What surrounds a run: every field's zero is a default. */
typedef struct htc_scale_host {
    size_t   size;       /**< sizeof(htc_scale_host) */
    uint64_t memory_max; /**< a run that needs more bytes is refused before it begins; 0: any */
    const volatile int *stop; /**< kept; not 0: the run stops as soon as it looks: with a clock within some 20 ms, else 1024 events. A signal's handler may set it. NULL: nothing stops it */
    /**
     * The host's clock, for rates alone: no decision depends on it. NULL: rates are not known, and progress is called by events.
     *
     * @param[in] ctx  of the host
     * @return nanoseconds since any moment
     */
    htc_ns (*clock)(void *ctx);
    /**
     * Be told how the run goes. NULL: nobody is.
     *
     * @param[in] ctx       of the host
     * @param[in] progress  lent for the call
     */
    void (*progress)(void *ctx, const htc_scale_progress *progress);
    void  *ctx;          /**< handed to both */
    htc_ns progress_ns;  /**< between two calls of progress by the host's clock; 0: 200 ms */
    /**
     * Do n pieces of work, in any order and at the same time if the host has threads, and return when all are done. The run is the same. Memory is then
     * asked of env in these threads. NULL: one after the other.
     *
     * @param[in] ctx   of the host
     * @param[in] n     pieces
     * @param[in] work  to be called once for each i below n
     * @param[in] arg   handed to it
     */
    void (*parallel)(void *ctx, uint32_t n, void (*work)(void *arg, uint32_t i), void *arg);
    uint64_t stop_after; /**< the run stops by itself after so many events from where it began or went on, one of several parts at the end of their window; 0: it does not */
} htc_scale_host;

/** What a run is. */
typedef struct htc_scale_options {
    size_t   size;       /**< sizeof(htc_scale_options) */
    uint64_t seed;       /**< of everything that is drawn */
    uint64_t ids;        /**< things that events happen to are numbered 0 to ids - 1; 1 to HTC_SCALE_IDS_MAX */
    uint64_t events_max; /**< that are pending at once, in each part; 0: part_ids */
    uint64_t cores;      /**< whose time the tasks share, for the bound of the makespan; 0: not known, the longest task alone is one */
    htc_ns   tick_ns;    /**< virtual time passes in such steps; 0: 1 ms. Times below 2^64 / ids ticks can be reached */
    uint64_t tasks;      /**< expected in all, for the progress; 0: what is submitted */
    /**
     * It happens now: htc_scale_now.
     *
     * @param[in] scale  may be asked for more events
     * @param[in] ctx    of the options
     * @param[in] id     to what
     */
    void (*event)(htc_scale *scale, void *ctx, uint32_t id);
    void *ctx;                  /**< handed to event */
    const htc_scale_host *host; /**< borrowed; NULL: every default */
    /**
     * A part has so many ids, 0 to part_ids - 1, part_ids to 2 part_ids - 1 and so on, each with its queue; at most HTC_SCALE_PARTS_MAX parts. Parts run
     * at the same time, in windows of window_ns: event is given its own part, may touch what belongs to that part's ids, and may ask for events of
     * other parts that are due after the window, which lasts no longer than window_ns from now. 0: one part, without windows.
     */
    uint64_t part_ids;
    htc_ns   window_ns; /**< of several parts: the least time in which things of two parts act on each other, at least a tick */
    /**
     * It will probably happen some ten events later: fetch what belongs to it into the cache (__builtin_prefetch), and change nothing. A model of a
     * million things is otherwise as slow as memory. NULL: nothing is done.
     *
     * @param[in] ctx  of the options
     * @param[in] id   to what
     */
    void (*soon)(const void *ctx, uint32_t id);
    /**
     * It will probably happen some five events later: what soon() fetched is there by now, and what that points to can be fetched. Changes nothing either.
     * NULL, or soon is: nothing is done.
     *
     * @param[in] ctx  of the options
     * @param[in] id   to what
     */
    void (*next)(const void *ctx, uint32_t id);
} htc_scale_options;

/** What became of a run; an interrupted one says what it had. */
typedef struct htc_scale_report {
    size_t   size;        /**< sizeof(htc_scale_report), set by the caller */
    uint32_t finished;    /**< 1: nothing is pending */
    uint32_t reserved;    /**< 0 */
    uint64_t memory;      /**< bytes of the engine */
    uint64_t events;      /**< that have happened */
    uint64_t submitted;   /**< tasks */
    uint64_t ended;       /**< of these */
    uint64_t sent;        /**< messages */
    uint64_t received;    /**< of these */
    uint64_t lost;        /**< of these */
    uint64_t hash;        /**< of all events and marks: the same for the same seed */
    htc_ns   span;        /**< virtual time */
    htc_ns   makespan;    /**< from the first submission to the last end of a task */
    htc_ns   longest;     /**< of the tasks that were started */
    double   work_s;      /**< the lengths of these in seconds, all together */
    double   busy_s;      /**< core time that was busy, in core seconds */
    double   bound_s;     /**< no makespan is shorter: the larger of longest and work / cores */
    char     wrong[160];  /**< what is not conserved, a line; "": nothing */
    uint64_t events_here; /**< of the events, those since the last call of htc_scale_run began */
    uint64_t ended_here;  /**< of the tasks that have ended, the same */
} htc_scale_report;

/** Where a checkpoint goes, or comes from. */
typedef htc_tape htc_scale_tape;

/** How long things take. */
typedef enum htc_scale_kind {
    HTC_SCALE_CONSTANT = 0, /**< always the mean */
    HTC_SCALE_UNIFORM,      /**< any from mean_ns - spread to mean_ns + spread, spread in parts of mean_ns, 0 to 1 */
    HTC_SCALE_EXPONENTIAL,  /**< with this mean */
    HTC_SCALE_LOGNORMAL,    /**< with this mean and the coefficient of variation spread, 0 to 10 */
    HTC_SCALE_MTC,          /**< as the 34.8 million tasks of many applications on a Blue Gene/P, stretched to this mean: theirs is HTC_SCALE_MTC_MEAN_NS, with a
                                 deviation of 188.08 s, a median of 30 s, a tenth below 1 s and a maximum of 1469.62 s. A law fitted to these numbers, as a table */
    HTC_SCALE_MTC_SUBSECOND, /**< as those of them that take less than a second, stretched to this mean: theirs is HTC_SCALE_MTC_SUBSECOND_MEAN_NS, with a
                                 deviation of 265.98 ms */
    HTC_SCALE_GAMMA         /**< the Gamma distribution with this mean and the coefficient of variation spread, 0 to 10: its shape is 1 / spread^2. Since 0.2 */
} htc_scale_kind;

/** The mean of the trace's tasks. */
#define HTC_SCALE_MTC_MEAN_NS 95.2e9
/** And of those that take less than a second. */
#define HTC_SCALE_MTC_SUBSECOND_MEAN_NS 343.99e6

/** A distribution of lengths. */
typedef struct htc_scale_law {
    uint32_t kind;     /**< htc_scale_kind */
    uint32_t reserved; /**< 0 */
    double   mean_ns;  /**< 0 or more */
    double   spread;   /**< as the kind has it, else 0 */
} htc_scale_law;

/** When things come. Every field's zero is a default: all come at once. */
typedef struct htc_scale_arrivals {
    size_t        size;      /**< sizeof(htc_scale_arrivals) */
    htc_scale_law gap;       /**< from one to the next; HTC_SCALE_EXPONENTIAL: a Poisson process */
    double        burst;     /**< 1 or more: they come in bursts of so many on average, with geometric sizes; 0: they do not */
    htc_scale_law burst_gap; /**< from the last one of a burst to the first of the next */
    double        swing;     /**< the rate rises evenly from 1 - swing of the mean to 1 + swing and falls again, once a day; 0 to 0.99. Gaps are then those of the mean rate */
    htc_ns        day_ns;    /**< length of a day; 0: 24 hours */
    htc_ns        peak_ns;   /**< when in the day most come; the run begins at its beginning */
} htc_scale_arrivals;

/**
 * What a run needs, before it is begun.
 *
 * @param[in]  options  borrowed
 * @param[out] bytes    of memory that htc_scale_create asks env for; untouched on failure
 * @return HTC_OK; HTC_EINVAL if a pointer is NULL or a number out of range; HTC_EABI
 *
 * Cost: O(1).   Since: 0.2
 */
HTC_API htc_status htc_scale_memory(const htc_scale_options *options, uint64_t *bytes);

/**
 * Create a run at tick 0 with no events.
 *
 * @param[in]  env      its allocator alone is looked at (NULL: malloc); kept
 * @param[in]  options  copied; ctx, the host's stop, ctx and functions are kept
 * @param[out] out      gives the run: htc_scale_destroy; untouched on failure
 * @param[out] error    why, with what is needed and what is allowed; NULL is fine
 * @return HTC_OK; HTC_EINVAL if something is missing or out of range; HTC_ETOOBIG: it needs more than host.memory_max; HTC_EABI; HTC_ENOMEM
 *
 * Cost: three allocations, 8.2 bytes an event and 230 KiB; what is not used yet is not touched.   Since: 0.2
 */
HTC_API htc_status htc_scale_create(const htc_env *env, const htc_scale_options *options, htc_scale **out, htc_error *error);

/**
 * Free a run.
 *
 * @param[in] scale  NULL is fine
 *
 * Cost: O(1).   Since: 0.2
 */
HTC_API void htc_scale_destroy(htc_scale *scale);

/**
 * Let an event happen. A first mistake is kept, and htc_scale_run answers it: what is returned here need not be looked at.
 *
 * @param[in,out] scale  as it was on failure
 * @param[in]     tick   when: now or later; events of one tick happen by id
 * @param[in]     id     to what
 * @return HTC_OK; HTC_EINVAL if it is past, there is no such id, or it is of another part and due before the window ends; HTC_ETOOBIG if ticks do not reach so far; HTC_EFULL if events_max are pending
 *
 * Cost: 10 to 20 ns together with taking it, whatever number is pending.   Since: 0.2
 */
HTC_API htc_status htc_scale_at(htc_scale *scale, uint64_t tick, uint32_t id);

/**
 * The present tick, of this part.
 *
 * @param[in] scale  borrowed
 * @return ticks since the beginning
 *
 * Cost: O(1).   Since: 0.2
 */
HTC_API uint64_t htc_scale_now(const htc_scale *scale);

/**
 * How many ticks a time is.
 *
 * @param[in] scale  borrowed
 * @param[in] span   nanoseconds
 * @return the nearest number of ticks
 *
 * Cost: O(1).   Since: 0.2
 */
HTC_API uint64_t htc_scale_ticks(const htc_scale *scale, htc_ns span);

/**
 * 64 random bits that follow from these numbers alone (SplitMix64 by counter).
 *
 * @param[in] scale    borrowed: its seed
 * @param[in] stream   who draws: a new consumer takes a number of its own
 * @param[in] counter  which draw of the stream
 * @return the bits, all equally likely
 *
 * Cost: 2 ns.   Since: 0.2
 */
HTC_API uint64_t htc_scale_hash(const htc_scale *scale, uint64_t stream, uint64_t counter);

/**
 * A length of this distribution that follows from these numbers alone. No function of the system's mathematical library is used: every
 * machine with IEEE 754 answers the same.
 *
 * @param[in] scale    borrowed: its seed and tick
 * @param[in] law      borrowed; htc_scale_law_check holds
 * @param[in] stream   as htc_scale_hash
 * @param[in] counter  as htc_scale_hash
 * @return the nearest number of ticks, from 0
 *
 * Cost: 3 ns if constant or uniform, 0.2 to 3 us if Gamma, 10 to 30 ns else.   Since: 0.2
 */
HTC_API uint64_t htc_scale_length(const htc_scale *scale, const htc_scale_law *law, uint64_t stream, uint64_t counter);

/**
 * When the next one comes: it follows from these numbers alone, as htc_scale_length.
 *
 * @param[in] scale     borrowed: its seed and tick
 * @param[in] arrivals  borrowed; htc_scale_arrivals_check holds
 * @param[in] stream    as htc_scale_hash; bursts take another one beside it
 * @param[in] counter   how many came before
 * @param[in] before    the tick at which the last one came, or that after which the first one comes
 * @return a tick, not before that
 *
 * Cost: as htc_scale_length, and 20 ns with a swing.   Since: 0.2
 */
HTC_API uint64_t htc_scale_arrival(const htc_scale *scale, const htc_scale_arrivals *arrivals, uint64_t stream, uint64_t counter, uint64_t before);

/**
 * Can things come so?
 *
 * @param[in] arrivals  borrowed
 * @return HTC_OK; HTC_EINVAL; HTC_EABI
 *
 * Cost: O(1).   Since: 0.2
 */
HTC_API htc_status htc_scale_arrivals_check(const htc_scale_arrivals *arrivals);

/**
 * Is this a distribution?
 *
 * @param[in] law  borrowed
 * @return HTC_OK; HTC_EINVAL
 *
 * Cost: O(1).   Since: 0.2
 */
HTC_API htc_status htc_scale_law_check(const htc_scale_law *law);

/**
 * Count tasks that exist from now on.
 *
 * @param[in,out] scale  the run
 * @param[in]     tasks  how many
 *
 * Cost: O(1).   Since: 0.2
 */
HTC_API void htc_scale_submit(htc_scale *scale, uint64_t tasks);

/**
 * Start a task: count it, and let its end be an event of id.
 *
 * @param[in,out] scale   as it was on failure
 * @param[in]     id      where it runs
 * @param[in]     delay   ticks before it begins, in which the core is not busy with it
 * @param[in]     length  ticks
 * @return as htc_scale_at
 *
 * Cost: as htc_scale_at.   Since: 0.2
 */
HTC_API htc_status htc_scale_start(htc_scale *scale, uint32_t id, uint64_t delay, uint64_t length);

/**
 * Count the end of a task, at its end.
 *
 * @param[in,out] scale  the run
 *
 * Cost: O(1).   Since: 0.2
 */
HTC_API void htc_scale_end(htc_scale *scale);

/**
 * Count messages.
 *
 * @param[in,out] scale     the run
 * @param[in]     sent      that were sent now
 * @param[in]     received  that have arrived now
 * @param[in]     lost      that never will
 *
 * Cost: O(1).   Since: 0.2
 */
HTC_API void htc_scale_messages(htc_scale *scale, uint64_t sent, uint64_t received, uint64_t lost);

/**
 * Let the run's hash depend on a decision. The order of marks at one tick does not count.
 *
 * @param[in,out] scale  the run
 * @param[in]     word   what was decided
 *
 * Cost: 3 ns.   Since: 0.2
 */
HTC_API void htc_scale_mark(htc_scale *scale, uint64_t word);

/**
 * End a run that cannot go on: htc_scale_run answers this.
 *
 * @param[in,out] scale   the run
 * @param[in]     status  why; the first one is kept
 *
 * Cost: O(1).   Since: 0.2
 */
HTC_API void htc_scale_fail(htc_scale *scale, htc_status status);

/**
 * Run until nothing is pending, or the host stops it.
 *
 * @param[in,out] scale  the run
 * @return HTC_OK: nothing is pending; HTC_AGAIN: the host has stopped it, and another call goes on; what a mistake was (htc_scale_at, htc_scale_fail)
 *
 * Cost: that of the events.   Since: 0.2
 */
HTC_API htc_status htc_scale_run(htc_scale *scale);

/**
 * Write the state of a run that does not run, or read it into one that was created with the same options. A run that goes on from there comes to
 * the same end. The form is that of this machine and this version of the library.
 *
 * @param[in,out] scale  read: as it was on failure before the first piece of state, else good for htc_scale_destroy alone
 * @param[in]     tape   borrowed
 * @return HTC_OK; HTC_EINVAL; HTC_EFORMAT: what is read is not of a run with these options; HTC_ECORRUPT; what the tape answers; HTC_EABI
 *
 * Cost: 8.2 bytes for each event that was ever pending at once.   Since: 0.2
 */
HTC_API htc_status htc_scale_move(htc_scale *scale, const htc_scale_tape *tape);

/**
 * How the run is, and what is wrong with it.
 *
 * @param[in]  scale   borrowed
 * @param[out] report  filled as far as its size says
 * @return HTC_OK; HTC_EINVAL
 *
 * Cost: O(1).   Since: 0.2
 */
HTC_API htc_status htc_scale_report_get(const htc_scale *scale, htc_scale_report *report);

#ifdef __cplusplus
}
#endif
#endif
