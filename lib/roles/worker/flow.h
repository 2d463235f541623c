/* What the store has of a flow beside its ledgers and tasks: the header, and the keys. */
#ifndef HTC_ROLES_FLOW_H
#define HTC_ROLES_FLOW_H

#include "core/codec.h"
#include "roles/worker/ledger.h"

typedef enum flow_state { FLOW_BUILDING = 1, FLOW_RUNNING, FLOW_ENDED, FLOW_ABORTED } flow_state;

/* A bag: tasks that wait for nothing, without records of their own. A graph: each task has one (graph_task.h). */
typedef enum flow_kind { FLOW_BAG = 1, FLOW_GRAPH } flow_kind;

#define FLOW_MARKS_MAX 256 /* spans of tasks that are to be cancelled */
#define FLOW_DRAWN_MAX 64 /* tasks that add others, and have drawn their numbers lately */

/* Numbers that a task has drawn for those that it adds (addition.h). They stand here until the task's record says so. */
typedef struct flow_drawn {
    uint64_t task, from;
    uint32_t n;
    uint8_t  cancelled; /* 1: the task is, as it draws, and what it adds is too */
} flow_drawn;

/* Where ready tasks wait that read files: htc_locality_options; zeros are its defaults. */
typedef struct flow_places {
    uint8_t  rule, tt_rule; /* htc_locality_rule, htc_locality_tt_rule */
    htc_ns   tt_ns;
    uint64_t ratio, bytes_per_s;
} flow_places;

typedef struct flow {
    uint8_t       state, kind; /* flow_state, flow_kind */
    uint64_t      tasks;
    uint64_t      job;       /* by which outputs are stored; of a gateway's flows its own number */
    uint32_t      tries;     /* how often a task is run, at most; from 1 */
    uint8_t       data;      /* 1: some of its tasks read what others make */
    uint64_t      max_fails; /* beyond so many failed tasks all is cancelled; UINT64_MAX: never */
    char          user[64];
    flow_places   places;
    char          steal[32]; /* the policy of stealing by its name; "": the default */
    htc_bytes     task;   /* htc_task_to_bytes: that of every task but for its index; lies in the bytes that were read */
    uint32_t      n_marks;
    ledger_span   marks[FLOW_MARKS_MAX];
    ledger_counts counts; /* of one that has ended */
    uint64_t      inserted; /* of those that were submitted the last so many: empty ones that stand between others (htc_flow_narrow) */
    uint8_t       adds;     /* 1: some of its tasks add others */
    uint64_t      added;    /* of tasks the last so many: they were added */
    htc_bytes     inputs;   /* where added tasks find what no task makes (htc_flows_options); empty: nowhere. Lies in the bytes that were read */
    uint64_t      intake;   /* the open intake (intake.h), from 1; 0: there is none. What was taken in last may be on its way here */
    uint64_t      news;     /* the intake that was given tasks last, from 1 */
    uint32_t      n_drawn;
    flow_drawn    drawn[FLOW_DRAWN_MAX];
    uint64_t      from;     /* the flow that this one goes on; 0: it was submitted */
} flow;

void       htc__flow_write(htc_buf *b, const flow *f);
htc_status htc__flow_read(htc_bytes bytes, flow *f); /* HTC_ECORRUPT */
/* These tasks are to be cancelled. HTC_OK: that is new; HTC_EEXISTS: it was so; HTC_EFULL: FLOW_MARKS_MAX spans that do not touch are marked. All tasks
 * can always be marked. */
htc_status htc__flow_mark(flow *f, ledger_span ids);
int htc__flow_is_marked(const flow *f, uint64_t id);
int htc__flow_all_marked(const flow *f, ledger_span ids); /* by one mark */
/* Numbers for n tasks that a task adds. *from: the first of them. HTC_OK: the flow has changed; HTC_EEXISTS: it
 * has drawn before; HTC_EFULL: FLOW_DRAWN_MAX others have. */
htc_status htc__flow_draw_numbers(flow *f, uint64_t task, uint32_t n, uint64_t *from);
const flow_drawn *htc__flow_drawn(const flow *f, uint64_t task); /* NULL: it is not there */
/* An intake has drawn its numbers. next: the last of them is the next intake. */
void       htc__flow_intake_has_drawn(flow *f, uint64_t task, int next);
void       htc__flow_draw_is_noted(flow *f, uint64_t task); /* its record says what it has drawn */

/* Tasks have numbers in the store, and others for people: those that were inserted come last there, in the store those that were added. */
uint64_t htc__flow_submitted(const flow *f); /* tasks that were submitted, none inserted */
uint64_t htc__flow_shown(const flow *f, uint64_t id);
uint64_t htc__flow_stored(const flow *f, uint64_t number); /* the other way */
int      htc__flow_is_inserted(const flow *f, uint64_t id);

typedef struct flow_key {
    char   text[64];
    size_t len;
} flow_key;

flow_key  htc__flow_key_header(uint64_t id);               /* f/ID/h */
flow_key  htc__flow_key_ledger(uint64_t id, uint64_t number); /* f/ID/l/NUMBER */
flow_key  htc__flow_key_ledgers(uint64_t id);              /* what the keys of all begin with */
flow_key  htc__flow_key_task(uint64_t id, uint64_t task);  /* f/ID/t/TASK */
flow_key  htc__flow_key_tasks(uint64_t id);
flow_key  htc__flow_key_block(uint64_t id, uint64_t of, uint64_t number); /* f/ID/o/LEDGER/NUMBER: of a ledger's log */
flow_key  htc__flow_key_blocks(uint64_t id, uint64_t of);
flow_key  htc__flow_key_logs(uint64_t id);                 /* what the keys of all blocks begin with */
flow_key  htc__flow_key_collector(uint64_t id);            /* f/ID/c: bound to a lease: who looks for the end */
flow_key  htc__flow_key_worker(uint64_t group, uint64_t worker); /* w/GROUP/WORKER: bound to a lease: this epoch lives */
flow_key  htc__flow_key_workers(uint64_t group);
htc_bytes htc__flow_key_bytes(const flow_key *k);
int       htc__flow_key_number(htc_bytes key, const flow_key *prefix, uint64_t *number); /* 1: what stands behind the prefix */

int       htc__flow_key_is_block(htc_bytes key, uint64_t id, uint64_t *of, uint64_t *number);

/* What stands under a worker's key. */
typedef struct flow_worker {
    uint64_t epoch;
    uint32_t slots;
    char     address[256]; /* where the others reach it */
    char     node[64];     /* the name of its host; "": not known */
} flow_worker;

void       htc__flow_worker_write(htc_buf *b, const flow_worker *w);
htc_status htc__flow_worker_read(htc_bytes bytes, flow_worker *w); /* HTC_ECORRUPT */

#endif
