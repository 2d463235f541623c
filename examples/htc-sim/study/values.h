/* Values of settings: numbers with K, M or G, spans with a unit, ranges, distributions. Each answers 1; 0: it is none. */
#ifndef HTC_SIM_STUDY_VALUES_H
#define HTC_SIM_STUDY_VALUES_H

#include "htcsched/sim_scale.h"

int value_count(const char *text, uint64_t *out);               /* 1000, 10K, 1e6 */
int value_counts(const char *text, uint64_t *min, uint64_t *max); /* the same, or A..B */
int value_real(const char *text, double *out);
int value_size(const char *text, uint64_t *out);                /* bytes: 512M, 8G, in powers of 1024 */
int value_span(const char *text, htc_ns *out);                  /* seconds, or 250us, 64ms, 2s, 10min, 3h */
int value_law(const char *text, htc_scale_law *out);            /* as LAW_WORDS have it */
size_t value_distance(const char *a, const char *b); /* how many letters two words differ by */

#define LAW_WORDS "SPAN, A..B, exponential SPAN, lognormal SPAN CV, gamma SPAN CV, mtc [SPAN] or mtc-subsecond [SPAN]"

#endif
