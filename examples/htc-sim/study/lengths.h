/* Lengths of tasks from a file: one in each line, as spans. */
#ifndef HTC_SIM_STUDY_LENGTHS_H
#define HTC_SIM_STUDY_LENGTHS_H

#include <stddef.h>

#include "htcsched/sim_scale.h"

/* 1, and *lengths (to be freed) has *n of them, at least one; 0: error says why, with the line. */
int lengths_read(const char *file, htc_ns **lengths, size_t *n, htc_error *error);

#endif
