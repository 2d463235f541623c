/* What a study keeps of a run itself, in the run's checkpoint. */
#ifndef HTC_SIM_STUDY_COURSE_H
#define HTC_SIM_STUDY_COURSE_H

#include <stddef.h>
#include <stdint.h>

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

/* An array with an element for each sample that is kept. */
typedef struct course_row {
    void  *of;
    size_t each; /* bytes of an element */
} course_row;

/* Of the samples of a run one in *every (0: 1) is kept. Once there is no more room, every other one that is kept goes, and of the next ones too. 1: the one that
 * comes now, number *seen, is kept, at place *n, which the caller counts. */
int course_keeps(size_t *n, size_t room, uint64_t *every, uint64_t *seen, const course_row *rows, size_t n_rows);

#endif
