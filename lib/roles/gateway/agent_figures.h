/* What agents of a site have come to, for monitors: sums over the attempts whose result was counted. Pure. An agent may be the user's own process
 * and say what it likes, so that each figure of an attempt is bounded before it is added. */
#ifndef HTC_ROLES_GATEWAY_AGENT_FIGURES_H
#define HTC_ROLES_GATEWAY_AGENT_FIGURES_H

#include "roles/runtime/agent_wire.h"

typedef enum figures_end {
    FIGURES_DONE = 0,
    FIGURES_FAILED,    /* by itself: an exit code, a signal */
    FIGURES_LIMIT,     /* its memory, its wall time */
    FIGURES_STAGING,   /* an input or an output */
    FIGURES_REFUSED,   /* it could not be started there */
    FIGURES_CANCELLED,
    FIGURES_STOPPED,   /* from outside, on its node */
    FIGURES_LOST,      /* with its agent */
    FIGURES_OTHER,
    FIGURES_ENDS
} figures_end;

#define FIGURES_BOUNDS 7u

typedef struct agent_figures {
    uint64_t ended[FIGURES_ENDS];
    uint64_t output_files, output_bytes;
    htc_ns   run, cpu; /* of all attempts */
    uint64_t durations[FIGURES_BOUNDS + 1];
} agent_figures;

extern const htc_ns      htc__figures_bounds[FIGURES_BOUNDS];
extern const char *const htc__figures_names[FIGURES_ENDS]; /* for labels */

/* An attempt has ended; outcome->ended is not before started. cores: of its node, at least 1. Cost: O(1). */
void htc__figures_add(agent_figures *f, const htc_outcome *outcome, uint32_t cores);

#endif
