/* What exact twins of scale models have in common: their memory, the host, the first failure, and the course of a run. */
#ifndef HTC_SIM_SCENARIOS_TWIN_H
#define HTC_SIM_SCENARIOS_TWIN_H

#include "htcsched/sim.h"
#include "htcsched/sim_scale.h"
#include "sim/scenarios/counted.h"
#include "sim/scenarios/progress.h"

typedef struct twin {
    counted        memory;
    htc_scale_host host;
    progress       progress; /* that the host is told */
    htc_sim       *w;
    htc_ns         begin;  /* by the clock of the engine, where time begins to count; HTC_NEVER: not known yet */
    htc_error      why;    /* of the first failure */
    const char    *answer; /* what a policy has answered that it may not; "" or NULL: nothing */
} twin;

/* It stays where it is until the run is over. */
void       htc__twin_open(twin *t, const htc_env *env);
/* As far as its size goes; NULL: every default. */
htc_status htc__twin_host(twin *t, const htc_scale_host *host);
void       htc__twin_fail(twin *t, htc_status status, const char *format, ...) __attribute__((format(printf, 3, 4)));
htc_status htc__twin_refuse(twin *t, htc_status status, const char *format, ...) __attribute__((format(printf, 3, 4))); /* the same; status */
static inline int htc__twin_is_good(const twin *t)
{
    return t->why.status == HTC_OK;
}
htc_ns htc__twin_now(const twin *t); /* since it has begun; 0 before */
/* One event of the engine. 0: nothing is left to happen, or it has failed, which is told. */
int htc__twin_step(twin *t);
/* Before the event with this number: the host is told now and then how it goes, and may stop it. 1: it does. */
int htc__twin_is_stopped(twin *t, uint64_t events, uint64_t done, uint64_t total);

#endif
