/**
 * @file htcsched/sim_store.h
 * @brief A whole replicated store in virtual time: members, clients, faults drawn from a seed, and a judgement of every answer.
 *
 * Library htcsched-sim (`pkg-config --libs htcsched-sim`).
 *
 * One run is one seed: it draws how many members and clients there are, over which cells they stand, how patient everybody is,
 * which faults exist and how often (htcsched/sim_faults.h). Real servers and real clients then talk over the simulated network
 * while there is trouble; nothing they answer may be wrong. Then all is healed, and they have to go on within a bound. What
 * clients were told is a history, and every rule of htcsched/history.h that speaks of strong keys is held against it. Some seeds have an
 * eventual namespace too, whose copies have to agree in the end, without a loss of what was acknowledged.
 *
 *     htc_sim_store_report report = { .size = sizeof report };
 *     htc_sim_store_run(NULL, &(htc_sim_store_options){ .size = sizeof(htc_sim_store_options), .seed = 7 }, &report);
 *     if (report.failed)
 *         puts(report.text);
 *
 * `htc-sim fuzz` runs many.
 *
 * Threads: pure: runs share nothing.   Allocation: through env; given back when the run is over.
 */
#ifndef HTCSCHED_SIM_STORE_H
#define HTCSCHED_SIM_STORE_H

#include "htcsched/kv.h"
#include "htcsched/sim_faults.h"

#ifdef __cplusplus
extern "C" {
#endif

/** Where a member keeps its records. */
typedef enum htc_sim_store_cells {
    HTC_SIM_STORE_DRAWN = 0, /**< as the seed says */
    HTC_SIM_STORE_MEMORY,    /**< a table that keeps what was committed: disks without faults of their own */
    HTC_SIM_STORE_LOG        /**< the engine `log` on a simulated disk */
} htc_sim_store_cells;

/** What went wrong in a run, by kind: indices of htc_sim_store_report.faults. */
typedef enum htc_sim_store_fault {
    HTC_SIM_STORE_LOST = 0,   /**< messages that never arrived */
    HTC_SIM_STORE_DOUBLED,    /**< messages that arrived twice */
    HTC_SIM_STORE_REORDERED,  /**< messages that others could overtake */
    HTC_SIM_STORE_DELAYED,    /**< messages that took longer */
    HTC_SIM_STORE_BROKEN,     /**< connections that broke */
    HTC_SIM_STORE_CLOGS,      /**< links that stopped, and let everything through later */
    HTC_SIM_STORE_PARTITIONS, /**< members and clients cut off, one way or both */
    HTC_SIM_STORE_CRASHES,    /**< members killed */
    HTC_SIM_STORE_POWER,      /**< of these by a power failure */
    HTC_SIM_STORE_WIPES,      /**< disks lost */
    HTC_SIM_STORE_PAUSES,     /**< processes stopped */
    HTC_SIM_STORE_JUMPS,      /**< wall clocks that jumped */
    HTC_SIM_STORE_FULL,       /**< disks full for a while */
    HTC_SIM_STORE_ERRORS,     /**< disk requests that failed */
    HTC_SIM_STORE_SECTORS,    /**< sectors lost or torn at a power failure */
    HTC_SIM_STORE_ROT,        /**< places damaged on a disk */
    HTC_SIM_STORE_REFUSED,    /**< allocations of members refused */
    HTC_SIM_STORE_ENDED,      /**< members that ended by themselves, for what their disk or their memory said */
    HTC_SIM_STORE_OLDER,      /**< members and clients that spoke the previous version of the protocol from the beginning */
    HTC_SIM_STORE_TURNED,     /**< of both that changed to the other version: a member is started anew, a client does when it starts next */
    HTC_SIM_STORE_SUPERS,     /**< superblocks of a log damaged on a disk */
    HTC_SIM_STORE_FAULTS      /**< how many kinds there are */
} htc_sim_store_fault;

/** What a run is; every field's zero is its default. */
typedef struct htc_sim_store_options {
    size_t   size;       /**< sizeof(htc_sim_store_options) */
    uint64_t seed;       /**< of everything */
    uint32_t cells;      /**< htc_sim_store_cells */
    uint32_t members;    /**< 3 to 7; 0: drawn */
    uint32_t operations; /**< asked while there is trouble, at most 10000; 0: drawn, 40 to 160 */
    uint32_t search;     /**< 1: every key is searched as well (htc_history_search), however short its history */
    /**
     * Take one line of the trace: htc_sim_options.trace.
     *
     * @param[in] ctx   trace_ctx
     * @param[in] line  no newline; borrowed
     */
    void (*trace)(void *ctx, const char *line);
    /**
     * Take one line of the history (htc_history_line), when the run is over.
     *
     * @param[in] ctx   trace_ctx
     * @param[in] line  no newline; borrowed
     */
    void (*history)(void *ctx, const char *line);
    void *trace_ctx; /**< handed to both */
} htc_sim_store_options;

/** What became of a run. */
typedef struct htc_sim_store_report {
    size_t   size;                         /**< sizeof(htc_sim_store_report), set by the caller */
    uint32_t failed;                       /**< 1: text says what is wrong */
    uint32_t undecided;                    /**< rules that were not decided: a checker ran out of steps. If nothing has failed, text says of which key */
    uint64_t hash;                         /**< htc_sim_hash, all that was asked and answered, and the verdict: the same for the same seed */
    uint64_t events;                       /**< delivered */
    uint64_t operations;                   /**< in the history: asked by clients, and key by key what pages and watches told them */
    uint64_t known;                        /**< requests that were answered, with an outcome that is known */
    uint64_t asked[HTC_KV_COUNT + 1];      /**< requests that were answered somehow, by htc_kv_op */
    htc_ns   span;                         /**< of virtual time */
    uint64_t faults[HTC_SIM_STORE_FAULTS]; /**< how often each kind took place */
    char     text[2048];                   /**< what is wrong, a line or some */
    uint64_t watches;                      /**< of keys and prefixes that clients have begun */
    uint64_t told;                         /**< what these watches told, all kinds of it together */
    uint64_t eventual_reads;               /**< of eventual keys, that were answered */
    uint64_t eventual_writes;              /**< of eventual keys, that were acknowledged */
    uint64_t siblings;                     /**< of these reads those that showed several values beside each other */
    uint64_t conflicts;                    /**< of eventual keys: writes refused, for there were too many such values */
    uint64_t changes;                      /**< of the members: joins, leaves, replacements and new weights that have ended. Since: 0.2 */
    uint64_t moved;                        /**< buckets that have other owners for them. Since: 0.2 */
    uint64_t proxied;                      /**< messages of clients that proxies passed on. Since: 0.2 */
    uint64_t packs;                        /**< messages to members in which they went. Since: 0.2 */
} htc_sim_store_report;

/**
 * Run one seed from its beginning to its judgement.
 *
 * @param[in]  env      its allocator alone is looked at (NULL: malloc)
 * @param[in]  options  borrowed; NULL: the defaults, seed 0
 * @param[out] report   filled as far as its size says
 * @return HTC_OK, whatever became of the run; HTC_EINVAL; HTC_EABI; HTC_ENOMEM
 *
 * Cost: some 10 to 100 ms and some MiB.   Since: 0.2
 */
HTC_API htc_status htc_sim_store_run(const htc_env *env, const htc_sim_store_options *options,
                                     htc_sim_store_report *report);

/**
 * What a kind of fault is called.
 *
 * @param[in] fault  htc_sim_store_fault
 * @return lends a word or two; "" if there is no such kind
 *
 * Cost: O(1).   Since: 0.2
 */
HTC_API const char *htc_sim_store_fault_name(uint32_t fault);

#ifdef __cplusplus
}
#endif
#endif
