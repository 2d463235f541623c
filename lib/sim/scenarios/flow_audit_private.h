/* What the files of an audit share. */
#ifndef HTC_SIM_FLOW_AUDIT_PRIVATE_H
#define HTC_SIM_FLOW_AUDIT_PRIVATE_H

#include "sim/scenarios/flow_audit.h"

void __attribute__((format(printf, 2, 3))) htc__flow_audit_fail(flow_audit *a, const char *format, ...);

/* flow_audit_added.c */
const htc_flow *htc__flow_audit_flow(const flow_audit *a, uint64_t id, uint64_t *base); /* which it is of, and its first number */
int      htc__flow_audit_drawn(flow_audit *a); /* of a header that was stored. 0; HTC_ENOMEM */
uint64_t htc__flow_audit_not_live(flow_audit *a); /* tasks that are added by such as are not counted */
void     htc__flow_audit_added_counted(flow_audit *a, uint64_t id); /* it has just been: all is there that it adds */
int      htc__flow_audit_is_intake(const flow_audit *a, uint64_t id);
int      htc__flow_audit_see_intake(flow_audit *a, uint64_t id, const graph_task *t); /* it is done. 0; HTC_ENOMEM */
void     htc__flow_audit_added_free(flow_audit *a);

/* flow_audit_log.c */
int  htc__flow_audit_block(flow_audit *a, uint64_t number_of_ledger, uint64_t number, htc_bytes value); /* it is stored. 0; HTC_ENOMEM */
void htc__flow_audit_logs(flow_audit *a); /* of a bag that has ended: each task once, and as counted */
void htc__flow_audit_blocks_free(flow_audit *a);

#endif
