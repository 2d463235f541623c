/* The host is told how a run goes: how long it has taken by its clock, at which rate, and what is left. */
#ifndef HTC_SIM_SCENARIOS_PROGRESS_H
#define HTC_SIM_SCENARIOS_PROGRESS_H

#include "htcsched/sim_scale.h"

typedef struct progress {
    htc_ns begun, told; /* by the host's clock */
} progress;

/* A run begins. */
void htc__progress_begin(progress *p, const htc_scale_host *host);
/* One that has a clock is told as often as it wants: one without, at each call. how has done, total, events and at. */
void htc__progress_tell(progress *p, const htc_scale_host *host, htc_scale_progress how);

#endif
