/* A flow as its store has it, seen batch by batch as they become durable, and what has to hold of it after each: every task is in exactly one
 * place, live in one ledger, in one note that is not accepted yet, or counted; of a graph no task runs before its parents have ended as it
 * asks, what has ended stays as it ended, and a task is counted when its children know. What a task has made is made again by who has claimed
 * that alone. In the end each task is as a plain loop leaves it, and of a bag the logs say so of each task once. */
#ifndef HTC_SIM_FLOW_AUDIT_H
#define HTC_SIM_FLOW_AUDIT_H

#include "htcsched/flow.h"
#include "htcsched/sim.h"
#include "roles/worker/bag_resumption.h"
#include "roles/worker/flow.h"
#include "roles/worker/graph_task.h"

/* What becomes of a task when it runs. */
typedef enum flow_fate { FLOW_GOES_WELL = 0, FLOW_FAILS_ONCE, FLOW_FAILS_ALWAYS, FLOW_DONE_BEFORE /* it must not run */ } flow_fate;

typedef struct audited_task {
    uint64_t worker; /* how it ended, as stored: whose attempt, */
    uint32_t attempt;
    uint8_t  state;  /* and graph_state; 0: no record yet */
    uint8_t  named;  /* of a bag: by a log */
    uint8_t  placed; /* it is in a place; one that was and is in none is counted */
    uint8_t  fate, expected; /* flow_fate; graph_state in the end */
    uint32_t runs;
    uint64_t content; /* what its files hold follows from this; 0: it has not run */
    uint64_t made_by, redo_worker; /* as stored */
    uint64_t added_from, added_home; /* of what it adds, as it was noted; added_from 0: it was not */
    uint8_t *bits; /* what it was told of each parent: graph_bit */
} audited_task;

typedef struct audited_block audited_block;

/* Tasks that one has added. */
typedef struct audited_added {
    uint64_t  task, from;
    uint32_t  n;
    htc_flow *flow;
    size_t    n_bits;
    uint8_t  *bits;
} audited_added;

/* What was taken in. */
typedef struct audited_intake {
    uint64_t task, nonce;
    htc_buf  text;
} audited_intake;

typedef struct flow_audit {
    htc_env         env;
    htc_sim        *sim; /* fails when something does not hold */
    const htc_flow *given; /* a bag, or a graph in which no task has a count */
    uint64_t        number, tasks;
    uint32_t        tries;
    int             graph, has_header, ended;
    int             functions; /* set before it begins: of tasks that are added, and add tasks, some are functions */
    int             stopped; /* a process was, which counts as a failure of its task: how tasks end is not known then */
    flow            header; /* without its task */
    audited_task   *task;
    uint8_t        *bits;
    size_t          n_bits;
    uint64_t        cap_tasks;
    int             few, commands; /* no task adds hundreds; what is added is commands alone */
    uint64_t        stirred; /* a task that has drawn numbers for what it adds, or noted them, by the last batch; UINT64_MAX: none has */
    uint32_t        n_added;
    audited_added  *added;
    uint32_t        n_intakes;
    audited_intake *intakes;
    ledger        **ledgers;
    uint64_t        n_ledgers, cap_ledgers;
    audited_block  *blocks; /* of logs */
    uint64_t        moving; /* tasks in notes that are not accepted */
    uint64_t        remade; /* tasks that were made again */
    uint64_t        before; /* tasks that were done before the flow began */
    ledger_counts   counts, expected; /* of the flow that has ended; as a plain loop leaves it */
} flow_audit;

/* sim and flow are kept. Fates: all go well. HTC_ENOMEM. */
htc_status htc__flow_audit_create(const htc_env *env, htc_sim *sim, const htc_flow *given, uint64_t number, uint32_t tries, flow_audit **out);
void       htc__flow_audit_destroy(flow_audit *a);
void       htc__flow_audit_fates(flow_audit *a, htc_rng *rng); /* one task in forty fails always, one in twenty once */
/* The flow is a bag that goes on: some of its tasks, in runs, were done before. What goes on is added to bag, and settled. HTC_ENOMEM. */
htc_status htc__flow_audit_goes_on(flow_audit *a, htc_rng *rng, bag_resumption *bag);
/* A batch of the store has become durable. 1: a ledger or the header was among it; 0: none was; HTC_ENOMEM. */
int htc__flow_audit_batch(flow_audit *a, htc_bytes batch);
/* A task is about to run: how it will go, HTC_OK or HTC_EEXIT. */
htc_status htc__flow_audit_begins(flow_audit *a, uint64_t task);
/* What a file holds; b is cleared. 0: its task has not succeeded, so there is none. */
int  htc__flow_audit_content(const flow_audit *a, const char *file, htc_buf *b);
void htc__flow_audit_makes(flow_audit *a, uint64_t task); /* it runs, and has read what there is: its content is known */
void htc__flow_audit_made(const flow_audit *a, const char *file, htc_buf *b); /* likewise, though its end is not stored */
const htc_flow_task *htc__flow_audit_task(const flow_audit *a, uint64_t task);
void htc__flow_audit_text(const flow_audit *a, uint64_t task, htc_buf *b); /* what it prints, or leaves as its output, if it adds tasks */
/* A client was told that this was added through that intake. */
void htc__flow_audit_taken_in(flow_audit *a, uint64_t task, uint64_t nonce);
/* Of a flow that has ended. */
void htc__flow_audit_end(flow_audit *a);
uint64_t htc__flow_audit_ledgers(const flow_audit *a); /* how many there are */
/* Every task ran as often as it had to and no more: without faults that is so, but that what was lost with an agent that ended is made again. */
void htc__flow_audit_runs(flow_audit *a);
void htc__flow_audit_print(const flow_audit *a, void (*print)(void *ctx, const char *line), void *ctx);

/* What the tasks of a flow are: of a builtin, and functions of an object where they add tasks, commands, or commands that read files of each other. */
typedef enum flow_work { FLOW_FUNCTIONS = 1, FLOW_COMMANDS, FLOW_FILES } flow_work;

/* A flow to be audited. shape 0: fan-out, 1: chains, 2: levels, else at random; rules of all kinds. Of a bag FLOW_FILES is FLOW_COMMANDS. adds: 1: some
 * tasks of a graph add tasks; 2: every second one does. */
htc_status htc__flow_draw(const htc_env *env, htc_rng *rng, uint64_t tasks, int graph, uint64_t shape, flow_work work, int adds, htc_flow **out);

#endif
