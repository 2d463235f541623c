/* The inside of a worker. One file a duty:
 *
 *   worker.c          connections, the lease, time
 *   worker_ledgers.c  the ledgers that it owns: one change under way each, read again after any other answer; the survey of all
 *   worker_tasks.c    what is ready, what runs, what has ended and is not counted yet
 *   worker_steal.c    thief and victim; notes on their way
 *
 * What the outside may rely on is said when the ledger that holds it is stored. */
#ifndef HTC_ROLES_WORKER_PRIVATE_H
#define HTC_ROLES_WORKER_PRIVATE_H

#include <utlist.h>

#include "core/util.h"
#include "htcsched/runtime.h"
#include "roles/attempt/attempt.h"
#include "roles/worker/flow.h"
#include "roles/worker/worker.h"
#include "roles/worker/worker_wire.h"

#define SLOTS_MAX   128
#define ENDED_MAX   256 /* of one ledger, not counted yet: beyond, nothing new begins */
#define ASKS_MAX    16  /* thieves that wait for one ledger */
#define GROUP_MAX   1024
#define ROUND_NS    (200 * HTC_MS)  /* a thief waits for loads, */
#define GIVEN_NS    (2 * HTC_SECOND) /* and for what it was given */

typedef struct ended_task {
    uint64_t id;
    uint8_t  failed;
} ended_task;

/* A thief who waits for a ledger's next change. */
typedef struct thief_ask {
    uint32_t peer;
    uint64_t seq, to;
    uint64_t note, tasks; /* what it gets with the change that is under way; note 0: nothing yet */
} thief_ask;

/* A ledger that this worker owns, as far as it knows. */
typedef struct own {
    uint64_t    number, version;
    ledger      now;   /* as it is stored at that version */
    ledger      next;  /* on its way there */
    ledger_ids  ready; /* live, not begun */
    uint8_t     writing, reading; /* a change, or a look at it, is under way */
    uint8_t     holds;            /* no change: a note is being read for it */
    uint8_t     wanted;           /* a change, though no task has ended */
    htc_ns      write_at;         /* not before */
    uint32_t    n_ended, ended_sent; /* of these, how many are in next */
    ended_task  ended[ENDED_MAX];
    uint32_t    n_asks, asks_sent;
    thief_ask   asks[ASKS_MAX];
    uint32_t    n_accepted; /* notes of now.out that are known to be accepted, and with whom to share that they are cleared */
    struct {
        uint64_t note;
        uint32_t peer;
    } accepted[LEDGER_OUT_MAX];
    uint32_t    n_cleared;  /* pairs of now.in that are known to be cleared */
    ledger_pair cleared[LEDGER_IN_MAX];
    ledger_pair accept;     /* a note to accept; ledger and note, note 0: none */
    ledger      accept_from; /* where it stands, read while nothing was under way here */
    uint8_t     accept_read;
    uint64_t    read_of; /* the ledger that accept_from was read of last */
    uint32_t    accept_peer;
    uint64_t    accept_tasks; /* in next */
    struct own *prev, *next_own;
} own;

typedef struct running {
    attempt         attempt; /* first: its functions are given that */
    uint64_t        ledger, id;
    struct running *prev, *next;
} running;

struct htc__worker {
    attempt_holder       holder; /* first */
    htc_env              env;
    htc__worker_options  options;
    uint32_t             peers[GROUP_MAX];
    htc_runtime         *runtime;
    htc_ns               now;
    uint64_t             id, epoch;
    uint8_t              joining, joined, registering, stopped, ended; /* ended: the flow */
    htc_ns               renew_at, lease_until, survey_at, tick_at;
    htc_buf              header_bytes; /* of the flow, as it was read; flow.task lies in there */
    flow                 flow;
    uint64_t             header_version;
    own                 *owns;
    running             *runs;
    uint32_t             n_runs;
    uint64_t             last_run;
    struct survey       *survey;
    htc_steal_thief      thief;
    struct {
        uint8_t  loads, stealing; /* a round: loads are asked for; a victim is asked */
        uint64_t seq;
        htc_ns   until;
        uint32_t n, answered, asked[GROUP_MAX], victim;
        uint64_t load[GROUP_MAX];
    } round;
    htc__worker_figures  figures;
    htc_buf              buf;
};

/* worker.c */
void htc__worker_say(htc__worker *w, uint32_t peer, uint16_t type, const worker_message *m);
void htc__worker_stop(htc__worker *w, htc_status status);
uint32_t htc__worker_peer(const htc__worker *w, uint64_t id); /* the connection to a worker; 0: none */

/* worker_ledgers.c */
own *htc__worker_own(const htc__worker *w, uint64_t number);
void htc__worker_survey(htc__worker *w); /* of all ledgers and workers: take what is nobody's, look for the end */
void htc__worker_flush(htc__worker *w);  /* every ledger that is due is changed */
htc_ns htc__worker_ledgers_deadline(const htc__worker *w);
void htc__worker_ledgers_tick(htc__worker *w);  /* notes that nobody has answered for */
void htc__worker_ledgers_free(htc__worker *w);
int  htc__worker_peer_lives(const htc__worker *w, const ledger *l);
void htc__worker_read_again(htc__worker *w, own *o); /* after an answer that says nothing sure */

/* worker_tasks.c */
extern const attempt_holder_ops htc__worker_holder;
void     htc__worker_ready_anew(htc__worker *w, own *o); /* from now.live, what runs and what has ended */
void     htc__worker_begin(htc__worker *w);
void     htc__worker_drop_runs(htc__worker *w, uint64_t number); /* of a ledger that is not ours any more */
uint64_t htc__worker_waiting(const htc__worker *w);
uint32_t htc__worker_idle(const htc__worker *w);
void     htc__worker_counted(htc__worker *w, own *o); /* the first ended_sent are stored */
void     htc__worker_tasks_free(htc__worker *w);

/* worker_steal.c */
void   htc__worker_heard(htc__worker *w, uint32_t peer, uint16_t type, const worker_message *m);
void   htc__worker_steal(htc__worker *w);
htc_ns htc__worker_steal_deadline(const htc__worker *w);
void   htc__worker_give(htc__worker *w, own *o);  /* puts notes for who asks into next */
void   htc__worker_given(htc__worker *w, own *o, int stored); /* tells them */
void   htc__worker_accept(htc__worker *w, own *o, uint64_t from, uint64_t note, uint32_t peer);
void   htc__worker_read_note(htc__worker *w, own *o); /* o->accept, where it stands */
void   htc__worker_settle(htc__worker *w, uint64_t got); /* of the round under way */

#endif
