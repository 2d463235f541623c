/* A client that adds tasks to an open flow while it runs (roles/worker/intake.h), some at a time, beside others who do the same. */
#ifndef HTC_SIM_FLOW_INTAKE_H
#define HTC_SIM_FLOW_INTAKE_H

#include "htcsched/machine.h"
#include "sim/scenarios/flow_audit.h"

typedef struct flow_intake_options {
    flow_audit *audit; /* of the flow; kept, as rng */
    htc_rng    *rng;
    flow_work   work;
    uint32_t    peer; /* the connection to the store */
    uint64_t    client_id;
    uint32_t    additions; /* so many times */
    uint32_t    workers;   /* one in two is wished to begin at one of so many */
    htc_ns      gap;       /* between two, at most */
    int (*closes)(void *ctx); /* 1: it closes the flow, when it has added all of them. NULL: never */
    void       *ctx;
} flow_intake_options;

typedef struct flow_intake flow_intake;

htc_status             htc__flow_intake_create(const htc_env *env, const flow_intake_options *options, flow_intake **out);
const htc_machine_ops *htc__flow_intake_ops(void);
int                    htc__flow_intake_done(const flow_intake *s); /* it has added all, or the flow takes no more */
uint32_t               htc__flow_intake_added(const flow_intake *s); /* times that it was told so */

#endif
