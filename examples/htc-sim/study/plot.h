/* Files of a picture, in a folder that is made if it is not there. */
#ifndef HTC_SIM_STUDY_PLOT_H
#define HTC_SIM_STUDY_PLOT_H

#include <stdio.h>

#include "../../htc/chart.h"
#include "htcsched/status.h"

/* The folder can be written. 1; 0: error. */
int plot_folder(const char *folder, htc_error *error);
/* FOLDER/NAME SUFFIX.EXTENSION; suffix: "" or "-3". NULL: it cannot be written, and that is said. */
FILE *plot_open(const char *folder, const char *name, const char *suffix, const char *extension);
int   plot_close(FILE *out); /* 0; -1 and it is said. NULL: -1 */

/* A curve of n samples, each of which holds until the next one, over `to` seconds. The caller frees it. NULL: no memory. */
chart *plot_chart(const char *name, double to, const double *at, const uint64_t *values, size_t n);

#endif
