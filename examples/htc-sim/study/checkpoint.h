/* A file with an interrupted run: the settings as text, the course, and the state of model and engine, with a checksum at the end. */
#ifndef HTC_SIM_STUDY_CHECKPOINT_H
#define HTC_SIM_STUDY_CHECKPOINT_H

#include <stdio.h>

#include "settings.h"

typedef struct checkpoint {
    FILE          *file;
    char          *path, *draft; /* draft: it is written there, and takes the place of path when it is whole */
    unsigned char *block;
    size_t         filled;
    uint64_t       sum;
    htc_scale_tape tape;
} checkpoint;

/* Each: 1; 0: error says why. */
int checkpoint_write(checkpoint *c, const char *path, const settings *s, htc_error *error);
int checkpoint_written(checkpoint *c, htc_error *error); /* all is there: it takes its place */
/* The file is whole, and its settings are set in s. */
int checkpoint_read(checkpoint *c, const char *path, settings *s, htc_error *error);
void checkpoint_close(checkpoint *c); /* what is half written goes */

#endif
