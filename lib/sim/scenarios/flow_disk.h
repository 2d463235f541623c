/* The disk of a simulated worker's node: objects, as the calls HTC_CALL_OBJECT_* find and leave them, and the files of the tasks that run
 * there. What a file holds follows from its task and from what that has read (htc__flow_audit_content), so a run that reads anything else
 * than a plain loop would is seen at once. */
#ifndef HTC_SIM_FLOW_DISK_H
#define HTC_SIM_FLOW_DISK_H

#include "htcsched/sim.h"
#include "sim/scenarios/flow_audit.h"

typedef struct flow_disk flow_disk;

flow_disk *htc__flow_disk_create(htc_sim *sim, const htc_env *env); /* NULL: out of memory. Both are kept */
void       htc__flow_disk_destroy(flow_disk *d);                    /* NULL is fine */

/* 1: it is one of HTC_CALL_OBJECT_*, and will be answered. */
int htc__flow_disk_call(flow_disk *d, htc_sim_node *node, const htc_effect *call, htc_ns after);

/* Of a task's run; a: its flow's. */
htc_status htc__flow_disk_stage_in(flow_disk *d, const htc_effect *call); /* HTC_ENOTFOUND: an input is not here; HTC_ENOMEM */
void       htc__flow_disk_run(flow_disk *d, flow_audit *a, uint64_t run); /* its inputs are what they have to be, or the simulation fails */
void       htc__flow_disk_stage_out(flow_disk *d, const flow_audit *a, uint64_t run);
void       htc__flow_disk_clean(flow_disk *d, const htc_effect *call);

void     htc__flow_disk_crash(flow_disk *d);             /* the node ends: what was on its way waits for nothing */
void     htc__flow_disk_lose(flow_disk *d, htc_rng *rng); /* some of its objects, or all */
uint64_t htc__flow_disk_lost(const flow_disk *d);         /* in all */

#endif
