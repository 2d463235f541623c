/* The compiler's state, shared by the template's half (compile.c) and the sweeps' half (compile_sweep.c). */
#ifndef HTC_WORK_COMPILE_PRIVATE_H
#define HTC_WORK_COMPILE_PRIVATE_H

#include "work/xml_private.h"

typedef struct htc__compiler {
    const htc_env *env;
    htc_error     *error; /* never NULL */
    uint64_t       tasks_max, count, work;
    htc__element  *elements;
    size_t         n_elements, cap_elements;
    htc_buf        slots, lines, tree, warnings;
    size_t         n_slots, n_warnings;
    size_t         n_sweeps, n_assignments, n_params, n_values, n_exceptions, n_matches;
    /* Places that the sweeps around the one at work already replace. */
    htc__param    *active;
    size_t         n_active, cap_active;
    const xmlNode *job_name, *job_project, *submission;
    int            has_application;
} htc__compiler;

htc_status htc__compile_refuse(htc__compiler *c, htc_status status, const xmlNode *at, const char *why);
/* An element of a namespace that is not its place's own: a warning, or refused where it would change the meaning. */
htc_status htc__compile_foreign(htc__compiler *c, const xmlNode *node);
/* Looking costs: HTC_ETOOBIG when a document makes us look too often. */
htc_status htc__compile_spend(htc__compiler *c, const xmlNode *at, uint64_t n);
htc_status htc__compile_sweep(htc__compiler *c, const xmlNode *sweep, uint32_t depth, uint64_t *size);

#endif
