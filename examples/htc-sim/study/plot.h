/* Files of a picture, in a folder that is made if it is not there. */
#ifndef HTC_SIM_STUDY_PLOT_H
#define HTC_SIM_STUDY_PLOT_H

#include <stdio.h>

#include "htcsched/status.h"

/* FOLDER/NAME SUFFIX.EXTENSION; suffix: "" or "-3". NULL: it cannot be written, and that is said. */
/* The folder can be written. 1; 0: error. */
int plot_folder(const char *folder, htc_error *error);
FILE *plot_open(const char *folder, const char *name, const char *suffix, const char *extension);
int   plot_close(FILE *out); /* 0; -1 and it is said. NULL: -1 */

#endif
