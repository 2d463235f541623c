/* A task of a graph: one record of the store, and the steps by which it changes. The ledger says who must drive a task to its end, the
 * record what happened to it.
 *
 *     END     the record is open and its parents let it run: done or failed; tries left: open still, one try less
 *     TELL    a parent is terminal: its bit here says how it ended. A bit that the edge's rule forbids cancels the task by the same change
 *     CANCEL  the record is open: cancelled
 *     NOTE    of one that is done and adds tasks: their first number (addition.h)
 *     INTAKE  of an open intake: done, and the text of what it adds (intake.h)
 *
 * Of a task that is done, whose objects nobody has any more:
 *
 *     CLAIM   nobody makes them again, or a dead worker does: this one does
 *     REDO    whoever has claimed it has made them again
 *     UNCLAIM it makes them no more
 *
 * What is done, failed or cancelled stays so: the first END wins, whoever's it is, since each change is a compare-and-swap on the version
 * that its author read. Told twice, a bit changes nothing.
 *
 * Functions of what is passed in: no store, no clock, no allocation. */
#ifndef HTC_ROLES_GRAPH_TASK_H
#define HTC_ROLES_GRAPH_TASK_H

#include "core/codec.h"

#define GRAPH_PARENTS_MAX  1024 /* of a task; a submitter puts a tree of empty tasks before one that has more */
#define GRAPH_CHILDREN_MAX 4096 /* likewise behind it */
#define GRAPH_BYTES_MAX    (256 * 1024)
#define GRAPH_READS_MAX    2048 /* objects that a task reads, and as many that it makes */
#define GRAPH_NOBODY       UINT64_MAX /* makes what a task reads: a task that had ended otherwise than well before the flow was resumed */
#define GRAPH_KNOWN_MAX    64   /* of these a record says where they are; of more it is looked up where they were made */

typedef enum graph_state { GRAPH_OPEN = 1, GRAPH_DONE, GRAPH_FAILED, GRAPH_CANCELLED } graph_state;
typedef enum graph_rule { GRAPH_RULE_OK = 0, GRAPH_RULE_ANY, GRAPH_RULE_FAILED } graph_rule; /* how a parent has to end for a child to run */
/* How a task adds tasks to its flow. */
typedef enum graph_adds {
    GRAPH_ADDS_NOTHING = 0,
    GRAPH_ADDS_PRINTED,   /* what it prints, or as a function leaves as its output */
    GRAPH_ADDS_INTAKE = 3 /* what is taken in (intake.h): nobody runs it */
} graph_adds;
typedef enum graph_bit { GRAPH_NOT_TOLD = 0, GRAPH_ENDED_OK, GRAPH_ENDED_BAD } graph_bit;

/* How a task ended. */
typedef struct graph_outcome {
    uint64_t worker, epoch; /* whose attempt it was; 0: nobody's, it never ran */
    uint32_t attempt;       /* its number: of the outputs */
    uint32_t status, exit_code, signal; /* as in htc_outcome */
    uint64_t began, ended;  /* wall clock */
    char     reason[256];
} graph_outcome;

/* What a task has made and others read. */
typedef struct graph_object {
    uint8_t  hash[32];
    uint64_t size;
    uint64_t worker; /* who has it */
} graph_object;

/* As read; slices lie in the bytes that were read. */
typedef struct graph_task {
    uint8_t       state; /* graph_state */
    uint64_t      home;  /* the ledger that it waits in */
    uint32_t      failures; /* attempts that failed and left it open */
    graph_outcome outcome;  /* of one that is terminal; of an open one the last attempt that failed */
    htc_bytes     name;
    htc_bytes     parents;  /* a byte for each: graph_rule * 4 + graph_bit */
    htc_bytes     children; /* for each u64 task, u32 which of its parents this is */
    htc_bytes     task;     /* htc_task_to_bytes; empty: as the header says */
    htc_bytes     kind;     /* which program or step it is; empty: not known */
    htc_bytes     reads;    /* for each object u64 the task that makes it, str its name */
    htc_bytes     makes;    /* for each object str its name */
    htc_bytes     known;    /* of reads, as parents have told: for each u32 which, the object */
    uint64_t      data;     /* bytes of all that it was told of, known or not */
    uint64_t      moved;    /* of data: bytes that came from other workers for the attempt that has ended */
    htc_bytes     made;     /* of one that is done: for each of makes u8[32] hash, u64 size */
    uint64_t      made_by;  /* the worker that has them */
    uint64_t      redo_worker, redo_epoch; /* who makes them again; 0: nobody */
    uint8_t       adds;     /* graph_adds */
    htc_bytes     added;    /* of one that is done: their text; empty: none */
    uint32_t      n_added;
    uint64_t      added_from; /* their first number; 0: it is not noted yet */
    uint64_t      added_home; /* the ledger that they wait in */
    uint8_t       added_cancelled; /* 1: they are, as they are added */
    uint8_t       added_intake;    /* of an intake: 1: the last of them is the next intake */
    uint64_t      added_to;        /* likewise: the worker that is to begin with them; 0: any */
} graph_task;

#define GRAPH_CHILD_BYTES 12
#define GRAPH_MADE_BYTES  40
#define GRAPH_KNOWN_BYTES 52
#define GRAPH_EDGE(rule)  ((uint8_t)((rule) * 4)) /* a byte of parents that nobody has told yet */

void       htc__graph_write(htc_buf *b, const graph_task *t);
htc_status htc__graph_read(htc_bytes bytes, graph_task *t); /* HTC_ECORRUPT */

uint32_t htc__graph_n_children(const graph_task *t);
void     htc__graph_child(const graph_task *t, uint32_t i, uint64_t *task, uint32_t *parent);

int htc__graph_is_ready(const graph_task *t);    /* open, and every parent has ended as its rule asks */
int htc__graph_is_terminal(const graph_task *t);
/* How a terminal task is told to its children. */
graph_bit htc__graph_told_as(const graph_task *t);
/* parents: GRAPH_PARENTS_MAX bytes that are the task's from now on. HTC_OK: it has changed; HTC_EEXISTS: told before, or terminal; HTC_EINVAL:
 * there is no such parent. */
htc_status htc__graph_tell(graph_task *t, uint8_t *parents, uint32_t parent, graph_bit bit);
/* HTC_OK: it has changed; HTC_EEXISTS: terminal, HTC_EINVAL: it may not run yet, or has failed meanwhile. tries: how often it may be run. */
htc_status htc__graph_end(graph_task *t, int done, uint32_t failures, uint32_t tries, const graph_outcome *outcome);
htc_status htc__graph_cancel(graph_task *t, const char *reason); /* HTC_EEXISTS */
/* children: as in the record, with those that it adds, and the task's from now on. HTC_OK: it has changed; HTC_EEXISTS: noted before; HTC_EINVAL: it has
 * added nothing. */
htc_status htc__graph_note_added(graph_task *t, uint64_t from, uint64_t home, int cancelled, htc_bytes children);
/* text: none, n 0: it is done, and adds nothing. HTC_OK: it has changed; HTC_EEXISTS: it is terminal; HTC_EINVAL: it is no intake. */
htc_status htc__graph_take_in(graph_task *t, htc_bytes text, uint32_t n, int intake, uint64_t to, const graph_outcome *outcome);
int htc__graph_has_added(const graph_task *t, uint64_t id); /* 1: that task */

/* ---- objects (graph_data.c) ---- */

/* The next of reads; r: htc_reader_of(t->reads). 0: there is none. */
int      htc__graph_next_read(htc_reader *r, uint64_t *maker, htc_bytes *name);
uint32_t htc__graph_n_makes(const graph_task *t);
/* What a task that is done has made under that name. HTC_ENOTFOUND: no such thing. */
htc_status htc__graph_made(const graph_task *t, htc_bytes name, graph_object *object);
void       htc__graph_put_made(htc_buf *b, const graph_object *object);
/* Of what it reads: as it was told. HTC_ENOTFOUND: it was not. */
htc_status htc__graph_known(const graph_task *t, uint32_t which, graph_object *object);
/* It is told of what a parent that is done has made. room: GRAPH_KNOWN_MAX * GRAPH_KNOWN_BYTES, the task's from now on. */
void       htc__graph_inform(graph_task *t, uint8_t *room, uint64_t maker, const graph_task *parent);
/* HTC_OK: it has changed; HTC_EEXISTS: it is claimed; HTC_EINVAL: it is not done. dead: whoever claimed it is. */
htc_status htc__graph_claim(graph_task *t, uint64_t worker, uint64_t epoch, int dead);
int        htc__graph_is_claimed_by(const graph_task *t, uint64_t worker, uint64_t epoch);
/* made: as in the record, and the task's from now on. HTC_EINVAL: it is not this worker's. */
htc_status htc__graph_redo(graph_task *t, uint64_t worker, uint64_t epoch, htc_bytes made);
htc_status htc__graph_unclaim(graph_task *t, uint64_t worker, uint64_t epoch);

#endif
