/* htc flow: what its files share. flow.c finds the command, flow_read.c has the flow that is named, flow_run.c runs one, flow_show.c looks;
 * flow_gather.c has all tasks, of which flow_report.c, flow_render.c, flow_why.c and flow_logs.c tell. */
#ifndef HTC_EXAMPLES_FLOW_H
#define HTC_EXAMPLES_FLOW_H

#include "htc.h"

#include "flow_tasks.h"

#include "htcsched/flows.h"

typedef struct flow_call {
    cli        *c;
    words       w; /* behind the subcommand */
    /* which flow */
    const char *format, *shape, *length, *data, *out, *to, *svg, *policy, *steal, *layout, *tt;
    words       programs; /* KIND=PROGRAM */
    double      time_scale, size_scale;
    int64_t     tasks, degree, seed;
    /* how it is run */
    int64_t     agents, tries, max_fails, slots, limit;
    uint32_t    open, close, detach, watch, scratch, keep, failed, tiles, errors, all, mute;
    htc_store  *store;
    htc_registry *policies; /* names that --steal may be; NULL: those of the library */
} flow_call;

/* A number with ns, us, ms, s, m, h or d; alone it is in seconds. 0: it is none. */
int flow_time(const char *text, htc_ns *ns);

/* flow_read.c: the file that is named, or what --shape asks for. Checked. */
htc_status flow_read(flow_call *k, htc_flow **out);
htc_status flow_convert(flow_call *k);
htc_status flow_check(flow_call *k);

/* flow_run.c */
htc_status flow_run(flow_call *k);
htc_status flow_resume(flow_call *k);

/* flow_add.c */
htc_status flow_add(flow_call *k);
htc_status flow_close(flow_call *k);
htc_status flow_workers(flow_call *k);

/* flow_show.c */
htc_status flow_status(flow_call *k);
htc_status flow_tasks(flow_call *k);
htc_status flow_cancel(flow_call *k);
htc_status flow_set(flow_call *k);
htc_status flow_rm(flow_call *k);
htc_status flow_open_store(flow_call *k);
htc_status flow_policies(flow_call *k); /* DIR/htc.ini may name files that add some to --steal */
htc_status flow_number(flow_call *k, const char *word, uint64_t *id);
const char *flow_state_name(const htc_flows_view *v);
json_t    *flow_view_json(uint64_t id, const htc_flows_view *v);

/* flow_gather.c: the tasks of a flow of the store; none of a bag, and of one that is not whole. Then flow_graph_free. */
htc_status  flow_gather(flow_call *k, uint64_t id, htc_flows_view *view, flow_graph *g);
#define FLOW_BAG_MAX 2000000 /* tasks of a bag that are looked at together: some 300 MB */
/* Those of a bag that have ended. HTC_ETOOBIG */
htc_status  flow_gather_bag(flow_call *k, uint64_t id, const htc_flows_view *view, flow_graph *g);
/* One task of a bag, by its number; g has it if it has ended, and else none. *id and *view become those of the flow in which it was done, where
 * this one went on from there. */
htc_status  flow_gather_ended(flow_call *k, uint64_t *id, htc_flows_view *view, const char *task, flow_graph *g, uint64_t *number);
void        flow_gather_read(const htc_flow *flow, flow_graph *g); /* of one that was read */
void        flow_graph_free(flow_graph *g);
const char *flow_task_state_name(uint32_t state);
/* "7": a flow; "7.3", "7.NAME": a task of it, given. */
htc_status  flow_which(flow_call *k, const char *word, uint64_t *id, char **task);
htc_status  flow_find_task(flow_call *k, uint64_t id, const flow_graph *g, const char *task, uint32_t *number);
void        flow_put_json(flow_call *k, json_t *value); /* takes it */

/* flow_kinds.c */
typedef struct flow_kind {
    const char *name; /* the graph's */
    uint64_t    tasks, ran, failed, data, moved;
    double      run_s, longest_s;
} flow_kind;

typedef struct flow_kinds {
    flow_kind *kinds; /* by name */
    uint32_t   n;
    uint64_t   data, moved; /* bytes that tasks read of each other; of these, that came from other workers */
} flow_kinds;

void    flow_kinds_of(const flow_graph *g, flow_kinds *k); /* flow_kinds_free, before the graph goes */
void    flow_kinds_free(flow_kinds *k);
json_t *flow_kinds_json(const flow_kinds *k);
void    flow_kinds_print(flow_call *c, const flow_kinds *k);

/* flow_fetch.c. task: NULL: of all; to: a directory, made if it is not there. */
htc_status flow_fetch(flow_call *k);
htc_status flow_fetch_to(flow_call *k, uint64_t id, const htc_flows_view *v, const char *task, const char *to, uint64_t *files, uint64_t *bytes);

/* flow_report.c, flow_render.c, flow_why.c, flow_logs.c */
htc_status flow_report(flow_call *k);
htc_status flow_render(flow_call *k);
htc_status flow_why(flow_call *k);
htc_status flow_logs(flow_call *k);
/* How a failed task ended, "exit code 1: last line of its standard error"; gives. */
char      *flow_failure(flow_call *k, uint64_t job, const htc_flows_task *t);
void       flow_put_xml(FILE *out, const char *text); /* as text of an element, or within quotes */

#endif
