/**
 * @file htcsched/metrics.h
 * @brief A writer of OpenMetrics text: what Prometheus and its kin read.
 *
 *     htc_metrics_family(m, HTC_METRIC_COUNTER, "demo_requests", "", "Requests that were answered.");
 *     htc_metrics_value(m, &(htc_metric_label){ "outcome", htc_bytes_of("ok") }, 1, 7);
 *     status = htc_metrics_end(m, &text);
 *
 * writes
 *
 *     # TYPE demo_requests counter
 *     # HELP demo_requests Requests that were answered.
 *     demo_requests_total{outcome="ok"} 7
 *     # EOF
 *
 * The writer keeps the rules of OpenMetrics 1.0: names and their suffixes, units, escapes, buckets that add up, one block for each
 * family. It is sticky: after the first mistake every call is harmless, and htc_metrics_end says what it was. Two values of one
 * family with the same labels are the caller's to avoid. Numbers are written alike in every locale.
 *
 * Threads: owner.   Allocation: through env, at most bytes_max.
 */
#ifndef HTCSCHED_METRICS_H
#define HTCSCHED_METRICS_H

#include "htcsched/env.h"

#ifdef __cplusplus
extern "C" {
#endif

/** What the text is called in HTTP. */
#define HTC_METRICS_CONTENT_TYPE "application/openmetrics-text; version=1.0.0; charset=utf-8"

/** What the values of a family are. */
typedef enum htc_metric_kind {
    HTC_METRIC_COUNTER = 1, /**< only grows; its values end in _total */
    HTC_METRIC_GAUGE,       /**< as it is now */
    HTC_METRIC_HISTOGRAM,   /**< how many durations were how long: htc_metrics_histogram */
    HTC_METRIC_INFO         /**< labels that say something, of value 1; its values end in _info */
} htc_metric_kind;

/** One label of a value. */
typedef struct htc_metric_label {
    const char
        *name; /**< letters, digits and _, not a digit first, not __ first; le is the writer's own in a histogram */
    htc_bytes value; /**< any bytes: what is no UTF-8 or a control character is written as ? */
} htc_metric_label;

/** Durations, counted by how long they were. */
typedef struct htc_metric_durations {
    const htc_ns   *bounds; /**< of the buckets, inclusive, growing; the bucket above all of them has none */
    const uint64_t *counts; /**< bounds + 1 of them: those in each bucket, and not in one before */
    size_t          count;  /**< how many bounds */
    htc_ns          sum;    /**< of all durations */
} htc_metric_durations;

/** A text that is being written. */
typedef struct htc_metrics htc_metrics;

/**
 * Create an empty text.
 *
 * @param[in]  env        kept; NULL: malloc
 * @param[in]  bytes_max  a longer text is HTC_EFULL; 0: 1 MiB
 * @param[out] out        gives the writer: htc_metrics_destroy
 * @return HTC_OK; HTC_EINVAL; HTC_ENOMEM
 *
 * Cost: one allocation.   Since: 0.2
 */
HTC_API htc_status htc_metrics_create(const htc_env *env, size_t bytes_max, htc_metrics **out);

/**
 * Free a writer and its text.
 *
 * @param[in] metrics  NULL is fine
 *
 * Cost: O(1).   Since: 0.2
 */
HTC_API void htc_metrics_destroy(htc_metrics *metrics);

/**
 * Forget the text, keep its memory: the next one begins.
 *
 * @param[in,out] metrics  the writer
 *
 * Cost: O(1).   Since: 0.2
 */
HTC_API void htc_metrics_clear(htc_metrics *metrics);

/**
 * Begin a family; values come next. One without values is fine.
 *
 * @param[in,out] metrics  the writer; HTC_EINVAL to it if a parameter is not as said here
 * @param[in]     kind     htc_metric_kind
 * @param[in]     name     letters, digits and _, not a digit first; of no other family of this text; without the suffix of its
 *                         kind, nor that of any other (_total, _created, _count, _sum, _bucket, _info); it ends in _ and its unit
 * @param[in]     unit     plural base unit ("seconds", "bytes"); "": none. A histogram's is "seconds", an info has none
 * @param[in]     help     one sentence; any bytes, as of a label
 *
 * Cost: O(families + length).   Since: 0.2
 */
HTC_API void htc_metrics_family(htc_metrics *metrics, uint32_t kind, const char *name, const char *unit,
                                const char *help);

/**
 * A value of the family: a whole number. Not of a histogram; of an info it is 1.
 *
 * @param[in,out] metrics  the writer
 * @param[in]     labels   borrowed; NULL if there are none
 * @param[in]     count    of labels, at most 16
 * @param[in]     value    the number
 *
 * Cost: O(length).   Since: 0.2
 */
HTC_API void htc_metrics_value(htc_metrics *metrics, const htc_metric_label *labels, size_t count, uint64_t value);

/**
 * A value of the family: a duration, written in seconds. The family is a counter or a gauge with the unit "seconds".
 *
 * @param[in,out] metrics  the writer
 * @param[in]     labels   borrowed; NULL if there are none
 * @param[in]     count    of labels, at most 16
 * @param[in]     value    the duration
 *
 * Cost: O(length).   Since: 0.2
 */
HTC_API void htc_metrics_duration(htc_metrics *metrics, const htc_metric_label *labels, size_t count, htc_ns value);

/**
 * The values of a histogram: buckets, sum and count.
 *
 * @param[in,out] metrics    the writer
 * @param[in]     labels     borrowed; NULL if there are none; none is called le
 * @param[in]     count      of labels, at most 16
 * @param[in]     durations  borrowed
 *
 * Cost: O(length).   Since: 0.2
 */
HTC_API void htc_metrics_histogram(htc_metrics *metrics, const htc_metric_label *labels, size_t count,
                                   const htc_metric_durations *durations);

/**
 * Write several texts as one: each family once, with the values of all texts one after the other, each with a label that says which text
 * it is of. What several shards of one process show becomes one page.
 *
 * @param[in,out] metrics  the writer; HTC_EINVAL to it if a text has a family that this one has already, or is none
 * @param[in]     label    a name that is no label in any of them
 * @param[in]     texts    of other writers, as htc_metrics_end lends them; borrowed. The nth, from 1, has the label's value n; an empty one is
 *                         passed over
 * @param[in]     count    how many
 *
 * Cost: O(families * count + length) where all have the same families in the same order.   Since: 0.2
 */
HTC_API void htc_metrics_join(htc_metrics *metrics, const char *label, const htc_bytes *texts, size_t count);

/**
 * End the text.
 *
 * @param[in,out] metrics  the writer
 * @param[out]    text     lent until the next call of any function with this writer; empty unless HTC_OK
 * @return HTC_OK; HTC_EINVAL: something was not as said here; HTC_EFULL: it is longer than bytes_max; HTC_ENOMEM
 *
 * Cost: O(1).   Since: 0.2
 */
HTC_API htc_status htc_metrics_end(htc_metrics *metrics, htc_bytes *text);

#ifdef __cplusplus
}
#endif
#endif
