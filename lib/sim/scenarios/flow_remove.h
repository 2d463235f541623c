/* Who removes a flow that does not run, as htc_flows_remove does: a client of the store that takes back a submission which is still being built,
 * deletes its records, and last the header. Records that a submitter still writes then have no header: they are deleted too, with a later look. */
#ifndef HTC_SIM_FLOW_REMOVE_H
#define HTC_SIM_FLOW_REMOVE_H

#include "htcsched/kv.h"
#include "htcsched/machine.h"

typedef struct flow_remove flow_remove;

/* number: the flow's; peer: the connection to the store. HTC_ENOMEM. */
htc_status             htc__flow_remove_create(const htc_env *env, uint64_t number, uint32_t peer, uint64_t client_id, flow_remove **out);
const htc_machine_ops *htc__flow_remove_ops(void);
void                   htc__flow_remove_look(flow_remove *r); /* with the next step: once more, if it has done what it could */
int                    htc__flow_remove_rests(const flow_remove *r); /* it has done what it could */

#endif
