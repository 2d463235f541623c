/**
 * @file htcsched/sim_faults.h
 * @brief Which faults exist in a run, drawn from its seed, and who brings them about: the swarm.
 *
 * Library htcsched-sim (`pkg-config --libs htcsched-sim`).
 *
 * A run in which everything fails at once finds little: faults hide one another. So each seed draws first which kinds exist at
 * all, then at what rates; then a trouble brings them about in virtual time, until it is told to heal.
 *
 *     htc_rng        rng = htc_sim_rng(sim, "faults");
 *     htc_sim_faults faults;
 *     htc_sim_faults_draw(&rng, &faults);
 *     htc_sim_trouble_start(sim, &faults, targets, n, &trouble);
 *     htc_sim_run(sim, 30 * HTC_SECOND);                                        phase one: nothing wrong may happen
 *     htc_sim_trouble_heal(trouble);
 *     htc_sim_settle(sim, 10 * HTC_SECOND, "all answered", all_answered, &me);  phase two: everything has to go on
 *
 * Threads: owner, that of the simulation.   Allocation: through the simulation's env.
 */
#ifndef HTCSCHED_SIM_FAULTS_H
#define HTCSCHED_SIM_FAULTS_H

#include "htcsched/sim_disk.h"

#ifdef __cplusplus
extern "C" {
#endif

/** What goes wrong. A gap is the mean time between two faults of a kind, all targets together; 0: there are none of it. A span is
 *  the longest time that one lasts. */
typedef struct htc_sim_faults {
    size_t              size;              /**< sizeof(htc_sim_faults) */
    htc_sim_net         net;               /**< of all links, while there is trouble */
    htc_ns              clog_gap_ns;       /**< a link between two targets stops */
    htc_ns              clog_span_ns;      /**< and lets everything through */
    htc_ns              partition_gap_ns;  /**< some targets are cut off from everybody else */
    htc_ns              partition_span_ns; /**< until then */
    uint32_t            one_way_ppm;       /**< of partitions: one way alone */
    htc_ns              break_gap_ns;      /**< the connections between two targets break */
    htc_ns              crash_gap_ns;      /**< a target is killed */
    htc_ns              crash_span_ns;     /**< and started again */
    uint32_t            power_ppm;         /**< of crashes: a power failure, what is not synced is damaged */
    uint32_t            wipe_ppm; /**< of crashes of targets that may be damaged: it comes back with an empty disk */
    htc_ns              pause_gap_ns;  /**< a target is stopped */
    htc_ns              pause_span_ns; /**< and goes on */
    htc_ns              jump_gap_ns;   /**< a target's wall clock jumps */
    htc_ns              jump_span_ns;  /**< by up to this, either way; at most INT64_MAX */
    uint32_t            drift_ppm;     /**< every target's clocks run faster or slower by up to this */
    htc_ns              full_gap_ns;   /**< a target's disk is full */
    htc_ns              full_span_ns;  /**< until then */
    htc_sim_disk_faults disk;     /**< of every target's disk; the lasting kinds of those alone that may be damaged */
    uint32_t            down_max; /**< targets that are down at once; 0: as many as there are */
} htc_sim_faults;

/** Somebody whom faults may hit. */
typedef struct htc_sim_target {
    htc_sim_node *node; /**< not NULL */
    htc_sim_disk *disk; /**< told of its crashes; NULL: none */
    uint32_t
        damage; /**< 1: its disk may be damaged for good, or wiped. Give it to so few that enough good copies survive */
    uint32_t safe; /**< 1: it is never killed or stopped */
} htc_sim_target;

/** What brings faults about. */
typedef struct htc_sim_trouble htc_sim_trouble;

/**
 * Draw which kinds of faults exist, each with one chance in two, and at what rates.
 *
 * The ranges: loss up to 30 %, duplication up to 50 %, reordering and delay up to 20 %, breaking up to 0.1 %, cutting of streams
 * 50 to 100 %; reads, writes and syncs that fail up to 1 %, slow requests up to 10 %, flipped, lost and misdirected writes up to
 * 1 %, 80 to 100 % of unsynced sectors damaged; gaps from 0.2 to 20 s, spans up to 5 s; drift up to 1000 ppm, jumps up to an hour.
 *
 * @param[in,out] rng     the stream; goes on by the same amount whatever is drawn
 * @param[out]    faults  filled
 * @return HTC_OK; HTC_EINVAL
 *
 * Cost: O(1).   Since: 0.2
 */
HTC_API htc_status htc_sim_faults_draw(htc_rng *rng, htc_sim_faults *faults);

/**
 * Begin.
 *
 * @param[in,out] sim      the run; its net becomes that of the faults
 * @param[in]     faults   copied
 * @param[in]     targets  copied
 * @param[in]     count    of targets, at least 1
 * @param[out]    out      gives the trouble: htc_sim_trouble_destroy; untouched on failure
 * @return HTC_OK; HTC_EINVAL; HTC_EABI; HTC_ENOMEM
 *
 * Cost: O(targets).   Since: 0.2
 */
HTC_API htc_status htc_sim_trouble_start(htc_sim *sim, const htc_sim_faults *faults, const htc_sim_target *targets,
                                         size_t count, htc_sim_trouble **out);

/**
 * End it: no more faults; links are let through and joined, disks are well again, clocks run true, who is stopped goes on, who is
 * down is started. What is damaged for good stays so.
 *
 * @param[in,out] trouble  the trouble
 * @return HTC_OK; HTC_EINVAL; what a boot answered
 *
 * Cost: O(targets^2).   Since: 0.2
 */
HTC_API htc_status htc_sim_trouble_heal(htc_sim_trouble *trouble);

/**
 * How often each kind of fault took place: clogs, partitions, breaks, crashes, power failures, wipes, pauses, jumps, full disks.
 *
 * @param[in]  trouble  the trouble
 * @param[out] counts   nine numbers in that order
 * @return HTC_OK; HTC_EINVAL
 *
 * Cost: O(1).   Since: 0.2
 */
HTC_API htc_status htc_sim_trouble_counts(const htc_sim_trouble *trouble, uint64_t counts[9]);

/**
 * Free it.
 *
 * @param[in] trouble  its simulation is destroyed; NULL is fine
 *
 * Cost: O(1).   Since: 0.2
 */
HTC_API void htc_sim_trouble_destroy(htc_sim_trouble *trouble);

#ifdef __cplusplus
}
#endif
#endif
