/* The lengths of tasks of a large many-task trace, as a table. */
#ifndef HTC_SIM_SCALE_MTC_H
#define HTC_SIM_SCALE_MTC_H

#include <stdint.h>

#define HTC__SCALE_MTC_STEPS     1000
#define HTC__SCALE_MTC_SUBSECOND 100 /* so many of them are the tasks below a second */

/* Means of the table with straight lines between its points, in microseconds. */
#define HTC__SCALE_MTC_MEAN_US           95206196.908
#define HTC__SCALE_MTC_SUBSECOND_MEAN_US 344065.26

extern const uint32_t htc__scale_mtc_us[HTC__SCALE_MTC_STEPS + 1];

#endif
