/* Means of runs with other seeds, and how sure they are. */
#ifndef HTC_SIM_STUDY_STATISTICS_H
#define HTC_SIM_STUDY_STATISTICS_H

#include <stddef.h>

typedef struct estimate {
    double mean, half; /* half: of the interval that has the true mean in it with 95 % (Student's t); 0 of one run */
} estimate;

estimate estimate_of(const double *values, size_t n);

#endif
