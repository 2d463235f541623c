/* What a study keeps of a run itself, in the run's checkpoint. */
#ifndef HTC_SIM_STUDY_COURSE_H
#define HTC_SIM_STUDY_COURSE_H

#include "htcsched/sim_scale.h"

/* It stands in front of the state of model and engine, as it is when the run is stopped. */
typedef struct course_tape {
    htc_scale_tape        tape;
    const htc_scale_tape *under;
    void                 *course;
    size_t                n;
    int                   kept;
} course_tape;

const htc_scale_tape *course_tape_open(course_tape *c, const htc_scale_tape *under, void *course, size_t n); /* under NULL: NULL */

#endif
