/* When jobs of a study come: the keys burst, burst_gap, daily and peak beside that of the gap. */
#ifndef HTC_SIM_STUDY_ARRIVALS_H
#define HTC_SIM_STUDY_ARRIVALS_H

#include "settings.h"
#include "values.h"

/* Rows of a table of settings; SECTION as "workload" or "tre.*". */
#define ARRIVAL_SETTINGS(SECTION)                                                                        \
    { SECTION ".burst", SET_REAL, "1", 1, 1e9, "jobs of a burst, on average, from 1" },                  \
    { SECTION ".burst_gap", SET_LAW, "exponential 1h", 0, 0, LAW_WORDS },                                \
    { SECTION ".daily", SET_REAL, "0", 0, 0.99, "a number from 0 to 0.99: by so much the rate rises and falls each day" }, \
    { SECTION ".peak", SET_SPAN, "14h", 0, 0, "a span of at most a day" }

/* section: as "workload" or "tre.nasa"; gap: its key. 1; 0: error says why. */
int arrivals_read(const settings *s, const char *section, const char *gap, htc_scale_arrivals *out, htc_error *error);

#endif
