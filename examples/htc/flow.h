/* htc flow: what its files share. flow.c finds the command, flow_read.c has the flow that is named, flow_run.c runs one, flow_show.c looks. */
#ifndef HTC_EXAMPLES_FLOW_H
#define HTC_EXAMPLES_FLOW_H

#include "htc.h"

#include "htcsched/flows.h"

typedef struct flow_call {
    cli        *c;
    words       w; /* behind the subcommand */
    /* which flow */
    const char *format, *shape, *length, *data, *out, *to;
    words       programs; /* KIND=PROGRAM */
    double      time_scale, size_scale;
    int64_t     tasks, degree, seed;
    /* how it is run */
    int64_t     agents, tries, max_fails, slots, limit;
    uint32_t    detach, watch, scratch, keep, failed;
    htc_store  *store;
} flow_call;

/* flow_read.c: the file that is named, or what --shape asks for. Checked. */
htc_status flow_read(flow_call *k, htc_flow **out);
htc_status flow_convert(flow_call *k);
htc_status flow_check(flow_call *k);

/* flow_run.c */
htc_status flow_run(flow_call *k);

/* flow_show.c */
htc_status flow_status(flow_call *k);
htc_status flow_tasks(flow_call *k);
htc_status flow_cancel(flow_call *k);
htc_status flow_rm(flow_call *k);
htc_status flow_open_store(flow_call *k);
htc_status flow_number(flow_call *k, const char *word, uint64_t *id);
const char *flow_state_name(const htc_flows_view *v);
json_t    *flow_view_json(uint64_t id, const htc_flows_view *v);

#endif
