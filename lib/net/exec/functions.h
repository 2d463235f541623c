/* Function tasks: spans of them, as the executor was asked, and the helper processes that run them.
 *
 *     span:     WAITS --a process--> CHECKS --its hash--> OPENS --OPENED--> RUNS --all settled, or given up--> answered
 *                                      ^                                     |
 *                                      +----------- the process died --------+
 *     process:  none --the first span--> runs --it dies--> none; with spans left another one is started
 *
 * A process is for the spans of one user whose tasks have the same limits and environment. */
#ifndef HTC_NET_EXEC_FUNCTIONS_H
#define HTC_NET_EXEC_FUNCTIONS_H

#include "net/exec/exec_private.h"
#include "net/functions/fn_shared.h"
#include "roles/functions/fn_frames.h"
#include "roles/functions/span_book.h"
#include "roles/runtime/span_wire.h"

#define HTC__FN_PROCESSES 4

typedef struct htc__fn_process htc__fn_process;

typedef enum htc__span_phase { SPAN_WAITS = 1, SPAN_CHECKS, SPAN_OPENS, SPAN_RUNS } htc__span_phase;

typedef struct htc__span {
    struct htc__span *next;
    htc_agent_host   *agent;
    uint64_t          run, tag, from, to;
    uint32_t          phase;
    char              user[64];
    htc_task         *task; /* malloc'd: read by a worker thread while CHECKS */
    htc_buf           key;  /* equal: may share a process */
    htc__fn_process  *process; /* NULL while it waits */
    uint32_t          id;      /* in that */
    htc__span_book   *book;
    uint8_t          *input;
    size_t            input_bytes;
    size_t           *input_at; /* of each number; NULL: there are none */
    uint64_t          alone; /* the suspect that is out, if alone_is_out */
    int               alone_is_out;
    uint64_t          killed_alone; /* that number was, once */
    int               killed_once;
    htc_buf           failed, outputs;
    uint64_t          n_failed, n_outputs;
    htc_ns            begin, opened_since;
    int               stopping; /* why and reason say so */
    int               killed;   /* those under way have failed with why */
    int               in_work, abandoned; /* CHECKS is on a worker thread; and nobody waits for it */
    int               object_fd;
    htc_status        why, checked;
    char              reason[HTC__SPAN_REASON_MAX];
} htc__span;

/* What a thread was at when it was looked at last. */
typedef struct htc__fn_watch {
    uint64_t begun;
    uint32_t where;
    htc_ns   since;
} htc__fn_watch;

struct htc__fn_process {
    htc_agent_host *agent;
    htc__run       *run; /* NULL: there is no process */
    htc_buf         key;
    uint32_t        threads;
    int             socket, event_fd;
    htc__fn_shared *shared;
    uint32_t        tails[HTC__FN_THREADS_MAX]; /* as far as was read: what is in the memory anybody can change */
    htc__fn_watch   watch[HTC__FN_THREADS_MAX];
    struct event   *readable, *writable, *told, *tick;
    htc_buf         unsent; /* frames that the socket had no room for, each behind its u32 length */
    htc__span      *spans[HTC__FN_SPANS_MAX];
    uint32_t        n_spans, opens;
    uint64_t        settled, settled_before; /* tasks that have ended, ever and when it was started */
    uint32_t        deaths; /* in a row, without one */
    int             starting, ending;
    /* a thread whose task is over its limit: it was there when the process was killed */
    uint32_t        over_where, over_at;
    htc_ns          over_limit;
    htc_ns          idle_since, quiet_since;
    uint64_t        quiet_settled;
    htc_outcome     outcome; /* of one that did not start */
};

typedef struct htc__functions {
    htc__span      *spans; /* in the order in which they came */
    uint32_t        n_spans;
    htc__fn_process process[HTC__FN_PROCESSES];
    char           *program; /* NULL: there are no functions here */
    struct event   *attend;
    uint8_t        *records; /* one ring, in line */
    uint64_t        serial;
} htc__functions;

/* functions.c, for exec.c */
htc_status htc__functions_open(htc_agent_host *a, const char *program); /* HTC_OK, HTC_ENOMEM */
void       htc__functions_close(htc_agent_host *a); /* nothing is answered any more; processes are ended by whoever ends the runs */
void       htc__functions_slots(htc_agent_host *a); /* there are more of them now, or fewer */
htc_status htc__functions_run(htc_agent_host *a, uint64_t tag, htc_bytes body);
/* 1: the number is a span's, and it was done. */
int htc__functions_signal(htc_agent_host *a, uint64_t run, uint32_t signal, htc_status why);
int htc__functions_take_back(htc_agent_host *a, uint64_t run);

/* for functions_process.c and functions_judge.c */
void htc__span_answer_error(htc__span *s, htc_status status, const char *reason); /* nothing of it was run; frees it */
/* It can go no further: what is known is told. */
void htc__span_give_up(htc__span *s, htc_status why, const char *reason);
void htc__span_failed(htc__span *s, uint64_t number, htc_status status, const char *reason);
void htc__span_stop(htc__span *s, htc_status why, const char *reason); /* nothing further of it is begun */
/* What became of it is known, or nothing more will be: answers and frees it. 1: so it was. */
int  htc__span_settle(htc__span *s);
void htc__functions_attend(htc_agent_host *a); /* soon: spans that wait, processes that have room */

/* functions_process.c */
void htc__process_attend(htc__fn_process *p);                 /* starts it if there is a reason, opens spans and feeds them */
void htc__process_take(htc__fn_process *p, htc__span *s);     /* has room for it */
void htc__process_leave(htc__fn_process *p, htc__span *s);    /* and is told */
void htc__process_stop(htc__fn_process *p, const htc__span *s); /* the span is not gone on with */
void htc__process_kill(htc__fn_process *p);
void htc__process_slots(htc__fn_process *p); /* as many threads work as there are slots */
void htc__process_end(htc__fn_process *p); /* nobody needs it: it ends by itself */
void htc__process_free(htc__fn_process *p); /* all but the process itself */

/* for functions_judge.c */
int        htc__process_read(htc__fn_process *p); /* all that threads have told: 0, or -1: it cannot be */
htc__span *htc__process_span_at(const htc__fn_process *p, uint32_t where); /* that a thread says it is at; NULL: none */
/* A task that is out has failed, or waits again where an answer has no room for it. */
htc_status htc__process_failed(htc__span *s, uint32_t index, uint32_t offset, htc_status why, const char *reason);

/* functions_judge.c: for a process that cannot be had */
void htc__process_give_up_all(htc__fn_process *p, const htc_outcome *o);

#endif
