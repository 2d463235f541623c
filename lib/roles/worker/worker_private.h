/* The inside of a worker. One file a duty:
 *
 *   worker.c          the machine: connections, the lease, time, leaving
 *   worker_group.c    who else is there, what the header says, who looks for the end
 *   worker_gone.c     whose process has ended: others need not wait for its lease
 *   worker_survey.c   the look at all ledgers: what is nobody's is taken
 *   worker_ledgers.c  the ledgers that it owns: one change under way each, read again after any other answer
 *   worker_log.c      how the tasks of a bag ended: a ledger's log goes into blocks
 *   worker_tasks.c    what is ready, what runs, what has ended and is not counted yet
 *   worker_graph.c    tasks with a record each: read, ended, cancelled
 *   worker_tell.c     children are told how a task ended, and owners that a task has news
 *   worker_together.c what a step asks of single records goes to the store in few requests
 *   worker_steal.c    thief and victim; notes on their way
 *   worker_places.c   where a ready task waits, where tasks read files (locality.h)
 *   worker_data.c     what a task reads is brought, what it makes is kept (objects.h)
 *   worker_remake.c   what was lost is made again
 *   worker_add.c      tasks that add tasks, or stand where others are added from outside
 *
 * What the outside may rely on is said when the record that holds it is stored. */
#ifndef HTC_ROLES_WORKER_PRIVATE_H
#define HTC_ROLES_WORKER_PRIVATE_H

#define HASH_NONFATAL_OOM 1
#include <uthash.h>
#include <utlist.h>

#include "core/util.h"
#include "htcsched/calls.h"
#include "htcsched/runtime.h"
#include "roles/attempt/attempt.h"
#include "roles/worker/flow.h"
#include "roles/worker/graph_task.h"
#include "htcsched/worker.h"
#include "roles/worker/worker_wire.h"

#define SLOTS_MAX  HTC_WORKER_SLOTS_MAX
#define ENDED_FULL 256 /* of one ledger, not counted yet: beyond, nothing new begins */
#define ENDED_MAX  2600 /* and as many more as one answer about functions may bring */
#define ASKS_MAX   16  /* thieves that wait for one ledger */
#define NOTES_KEPT 8   /* beyond, who gave one reminds us */
#define GROUP_MAX  1024
#define READS_MAX  64  /* records in one request */
#define TOGETHER   64  /* changes of records, likewise */
#define GRAPH_LIVE 65536 /* tasks of a graph that are live in one ledger: LEDGER_HOME, and what may be given to it, are far fewer */
#define ROUND_NS   (200 * HTC_MS)   /* a thief waits for loads, */
#define GIVEN_NS   (2 * HTC_SECOND) /* and for what it was given */
#define AGAIN_NS   (100 * HTC_MS)   /* after a store that did not answer */
#define FULL_NS    (10 * HTC_MS)    /* where a ledger had no room for what has ended */
#define NOTES_NS   HTC_SECOND       /* a note that is not answered for: look; doubled up to GAP_MAX */
#define GAP_MAX    (64 * HTC_SECOND)
#define NEWS_NS    (2 * HTC_SECOND) /* without news of what waits: look; doubled up to */
#define NEWS_MAX   (600 * HTC_SECOND)
#define NEWS_AFTER (64 * HTC_SECOND) /* and after some it begins with no more than that */

/* ---- a ledger that this worker owns, as far as it knows ---- */

typedef struct ended_task {
    uint64_t id, to; /* of a bag also several */
    uint8_t  how; /* graph_state */
    uint8_t  signal;   /* of a bag, as the rest: for the log */
    uint16_t exit_code;
    int32_t  status;
    uint32_t attempt;
    htc_ns   began, ended;           /* wall clock; 0: it never ran */
    uint32_t n_added;                /* of a graph: so many are live in its stead, from added_from on, */
    uint64_t added_from, added_home; /* in that ledger */
    uint64_t added_note;             /* to which this note carries them; 0: it is the same */
} ended_task;

/* A thief who waits for a ledger's next change. */
typedef struct thief_ask {
    uint32_t peer;
    uint64_t seq, to;
    uint64_t note, tasks; /* what it gets with the change that is under way; note 0: nothing yet */
    uint64_t push;        /* nobody has asked: a worker that has what tasks read; 0: a thief */
} thief_ask;

typedef struct own {
    uint64_t       number, version;
    ledger         now;   /* as it is stored at that version */
    ledger         next;  /* on its way there */
    ledger_ids     ready; /* live, to be begun */
    uint8_t        writing, reading; /* a change, or a look at it, is under way */
    uint8_t        unsure;           /* it is to be read before anything else */
    uint8_t        holds;            /* no change: a note is being read for it */
    uint64_t       logging;          /* the version whose log is being stored as a block; 0: none is */
    uint64_t       logged;           /* the version whose log is in a block */
    uint32_t       in_block;         /* for one of the mistakes: so many of ended are in that block too */
    uint8_t        handing;          /* the change under way gives it to nobody */
    uint8_t        marked;           /* some of it may be marked: cancelled with the next change */
    htc_ns         write_at;         /* not before */
    uint32_t       n_ended, ended_sent; /* of these, how many are in next */
    ended_task     ended[ENDED_MAX];
    uint32_t       n_again;    /* of a bag: failed, to be tried again, not noted yet */
    uint64_t       again[SLOTS_MAX];
    uint32_t       n_asks, asks_sent;
    thief_ask      asks[ASKS_MAX];
    uint32_t       n_accepted; /* notes of now.out that are known to be accepted, and with whom to share that they are cleared */
    struct {
        uint64_t note;
        uint32_t peer;
    } accepted[LEDGER_OUT_MAX];
    uint32_t       n_cleared;  /* pairs of now.in that are known to be cleared */
    ledger_pair    cleared[LEDGER_IN_MAX];
    ledger_pair    accept;      /* a note to accept; ledger and note, note 0: none */
    ledger         accept_from; /* where it stands, read while nothing was under way here */
    uint8_t        accept_read;
    uint64_t       read_of; /* the ledger that accept_from was read of last */
    uint32_t       accept_peer;
    uint8_t        accept_pushed; /* its tasks are pushed here */
    uint64_t       accept_tasks; /* in next */
    uint32_t       n_notes; /* that others gave while something was under way here: accepted next */
    struct {
        ledger_pair pair;
        uint32_t    peer;
        uint8_t     pushed;
    } notes[NOTES_KEPT];
    htc_ns         notes_at, notes_gap; /* look after notes that nobody has answered for */
    htc_ns         news_at, news_gap;   /* of a graph: read again what waits */
    ledger_counts  counted;             /* as who looks for the end has said to know */
    htc_ns         counts_at, counts_gap;
    uint32_t       n_additions; /* tasks of its that add others, and are not counted */
    struct node   *told_first; /* ended, and their children know; to be counted */
    struct node   *nodes;      /* of a graph: all that are live in it */
    UT_hash_handle hh;
} own;

/* ---- a task of a graph that is live in a ledger of ours ---- */

/* How function tasks ended, all those of one answer that ended alike. Of a command its attempt says so, which is a hundred times as large. */
typedef struct function_end {
    uint64_t   nodes; /* that end like this, and for which END is asked */
    uint32_t   attempt;
    htc_status status;
    uint8_t    final;
    htc_ns     began, ended; /* wall clock, of the tasks with these numbers, one behind the other: each has a share of it */
    uint64_t   from, to;
    uint8_t   *added;        /* of one that adds tasks, and so of that alone: their text */
    size_t     added_len;
    uint32_t   n_added;
    size_t     size;         /* of this */
    char       reason[];
} function_end;

typedef enum node_phase {
    NODE_UNREAD, /* its record is to be read */
    NODE_WAITING, /* for parents */
    NODE_LACKING, /* what it reads is lost, and is being made again */
    NODE_READY,
    NODE_GIVEN, /* in a note that is being stored */
    NODE_RUNNING,
    NODE_ENDING, /* END or CANCEL is under way, or its answer was none */
    NODE_TELLING, /* terminal; its children are told */
    NODE_TOLD /* to be counted */
} node_phase;

typedef enum node_place { PLACE_SHARED = 0, PLACE_LOCAL } node_place; /* SReadyQ, LReadyQ */
typedef enum node_came { CAME_HERE = 0, CAME_STOLEN, CAME_PUSHED } node_came;

typedef struct node {
    uint64_t       id, ledger, version;
    uint8_t        phase;
    uint8_t        reading, queued; /* its record is asked for; it is in the row of those to be */
    uint8_t        stale;           /* there was news while it was read */
    uint32_t       untold;
    uint64_t       telling; /* the number of what its children are told in this life of the node */
    uint64_t       run;   /* NODE_RUNNING, NODE_ENDING: the attempt; 0: it is being cancelled */
    function_end  *end; /* NODE_ENDING: of a function task; else run's attempt says how it ended */
    uint32_t       failures; /* of the record that the attempt began with */
    uint64_t       lacks;    /* NODE_LACKING: who made it */
    uint8_t        hopeless; /* that task could not make it again */
    uint8_t        held;     /* NODE_TOLD: not to be counted yet */
    uint8_t        place, came; /* node_place, node_came */
    size_t         heap;     /* NODE_READY: its place in the queues, from 1; 0: none */
    uint64_t       push;     /* the worker that it is to go to; 0: it stays */
    uint8_t        spoilt;   /* times that what it reads could not be staged in */
    uint8_t       *bytes; /* the record */
    size_t         len;
    graph_task     task; /* lies in bytes */
    struct node   *prev, *next; /* those to be read; or those of a ledger to be counted */
    own           *of;          /* ledger */
    struct node   *of_prev, *of_next; /* all of it */
} node;

/* A task that is somebody's child, and what it is to be told. */
typedef struct tell {
    uint64_t     parent_id, telling;
    uint32_t     parent; /* which of the child's */
    uint8_t      bit, sent;
    struct tell *next;
} tell;

typedef struct child {
    uint64_t       id, version;
    uint8_t        busy, queued, known;
    uint8_t       *bytes;
    size_t         len;
    tell          *tells;
    struct child  *prev, *next; /* those to be told */
    struct child  *all_prev, *all_next; /* all, in the order that they came */
} child;

/* Tasks whose numbers differ in their last bits alone: numbers come in long rows, so that a look-up finds its page in the cache. */
#define PAGE_TASKS 256
typedef struct task_page {
    UT_hash_handle hh;
    uint64_t       number;
    uint32_t       n; /* nodes and children in it */
    node          *nodes[PAGE_TASKS];
    child         *children[PAGE_TASKS];
} task_page;

typedef struct run_data run_data; /* worker_data.c */
typedef struct places   places;   /* worker_places.c */
typedef struct addition addition; /* worker_add.c */

/* A task that is done and runs once more, for what it made is lost. */
typedef enum remake_phase {
    REMAKE_READ,    /* its record is to be read, then claimed */
    REMAKE_THEIRS,  /* somebody else has claimed it */
    REMAKE_READY,   /* claimed: to be run */
    REMAKE_RUNNING,
    REMAKE_LACKING, /* what it reads is lost too */
    REMAKE_WRITE,   /* made: to be stored */
    REMAKE_GIVE_UP  /* the claim is to be given back */
} remake_phase;

typedef struct remake {
    uint64_t       id, version, run, lacks; /* run: 0: none; lacks: REMAKE_LACKING */
    uint8_t        phase, asked; /* asked: a request for its record is under way */
    uint8_t        spoilt;       /* as of a node */
    uint8_t        unsure, failed; /* it is to be read first; it could not be made */
    uint32_t       tries;
    htc_ns         at, gap; /* not before */
    uint8_t       *bytes; /* the record */
    size_t         len;
    graph_task     task; /* lies in bytes */
    graph_object   lost; /* of what it made */
    htc_buf        made; /* REMAKE_WRITE */
    UT_hash_handle hh;
} remake;

typedef struct running {
    attempt         attempt; /* first: its functions are given that; of function tasks its numbers and outcome alone */
    uint64_t        ledger, id, to; /* to: behind the last of several, of a bag of functions */
    uint32_t        slots;
    uint8_t         function; /* RUN_SPAN is asked for */
    uint8_t         dropped;  /* what becomes of it is nobody's affair */
    uint8_t         remake;   /* of a task that was done: no ledger's */
    run_data       *data;     /* NULL: it reads nothing that is brought, and has not made anything yet */
    uint8_t        *added;    /* the text of tasks that it adds */
    size_t          added_len;
    uint32_t        n_added;
    uint8_t        *answer;   /* of a span, for which there was no room */
    size_t          answer_len;
    htc_ns          begun;
    uint8_t         over;    /* it has ended, and END is under way: it holds no slot */
    struct running *prev, *next;
    UT_hash_handle  hh; /* by attempt.run */
} running;

typedef struct member {
    uint64_t id, epoch;
    uint32_t peer; /* 0: not yet */
    uint32_t pid;  /* that listens there; 0: not known */
    htc_ns   gone_at; /* it is gone: when its lease is to be revoked */
    uint8_t  stale;
} member;

/* A ledger that was seen in the store. Who owns it, and how many tasks are live there, are hints. */
typedef struct owner {
    uint64_t       ledger, worker, live;
    UT_hash_handle hh;
} owner;

/* What is known of a ledger's counts, by who looks for the end. */
typedef struct sum {
    uint64_t       ledger;
    ledger_counts  counts;
    UT_hash_handle hh;
} sum;

/* That a task has news, for whoever owns its ledger. */
typedef struct word {
    uint64_t ledger, id, seq; /* seq: how often it was sent on */
} word;

#define WORDS_MAX 256

/* What is asked of single records in one step: together_add, then together_send. */
typedef struct together {
    uint32_t           n;
    size_t             bytes;
    struct asked_with *who; /* a context of the runtime; NULL: n is 0 */
    flow_key           keys[TOGETHER];
    htc_kv_request     requests[TOGETHER];
} together;

struct htc_worker {
    attempt_holder       holder; /* first */
    htc_env              env;
    htc_worker_options   options; /* without pointers */
    htc_steal_options    steal;
    uint8_t              steal_given; /* by the host: what the header says does not count */
    char                 steal_named[32]; /* as the header said it last */
    htc_registry        *registry;    /* NULL: no name was looked for, or options have one */
    char                 address[256];
    char                 user[64]; /* as the flow's, where that says none */
    htc_runtime         *runtime;
    htc_ns               now;
    uint64_t             id, epoch;
    uint8_t              joining, joined, registering, stopped;
    uint8_t              stopping; /* 1: it is to stop; 2: what runs was told so */
    htc_status           stop_status;
    uint8_t              cancel_wanted; /* all of the flow */
    uint8_t              ahead;         /* the host keeps what has no slot yet */
    uint8_t              poked;         /* from outside a step: there is something to do */
    uint8_t              watching, members_known, collector_known;
    uint8_t              leaving, left; /* told to go: what runs ends, then all is handed over */
    uint8_t              ended;         /* the flow */
    htc_ns               renew_at, survey_at, rest_at;
    uint8_t              survey_caused; /* the next one: something has happened */
    uint8_t              more;          /* the last one left ledgers that are nobody's, since there was something to do here */
    uint32_t             appetite;      /* it takes at most so many of them at a time when nothing is left to do here */
    htc_buf              header_bytes; /* of the flow, as it was read; flow.task lies in there */
    flow                 flow;
    uint64_t             header_version;
    uint8_t              header_known, ending; /* ending: the header's last change is under way */
    uint64_t             collector, collector_epoch; /* who looks for the end; 0: nobody */
    htc_ns               collect_at;
    uint32_t             n_members;
    member               members[GROUP_MAX]; /* the others that live, by id */
    htc_ns               gone_at;            /* the first of theirs */
    own                 *owns;
    owner               *owners;
    sum                 *sums;
    ledger_counts        total; /* of sums */
    task_page           *pages;
    node                *to_read;
    uint32_t             reads; /* requests under way */
    uint32_t             look_ups; /* likewise: is there such a ledger? */
    htc_ns               read_at;
    child               *children, *to_tell;
    uint32_t             n_children, tells; /* tells: changes under way */
    uint64_t             last_telling;
    htc_ns               tell_at;
    running             *runs;     /* that the host has */
    running             *over_runs;
    running             *by_run;   /* both */
    uint64_t             ends;     /* nodes with an end */
    uint32_t             n_runs; /* slots that they hold */
    uint64_t             last_run;
    htc_ns               lasts; /* a command, as of late; 0: not known */
    uint64_t             span;      /* of a bag of functions: so many in one call, as it went of late */
    struct survey       *survey;
    struct htc__objects *objects; /* NULL: the flow has none, or is not known yet */
    remake              *remakes;
    addition            *additions;
    uint32_t             n_noted;
    uint64_t             noted[FLOW_DRAWN_MAX]; /* tasks whose records say what they have drawn, and the header does too */
    htc_ns               draw_at;               /* no draw before */
    uint8_t              wants_ledger;          /* one more of ours */
    places              *places; /* NULL: tasks begin in the order of their numbers */
    htc_steal_thief      thief;
    htc_ns               nudge_at;
    struct {
        uint8_t  loads, stealing; /* a round: loads are asked for; a victim is asked */
        uint8_t  warned;          /* that the policy does not fit this group */
        uint64_t seq;
        htc_ns   until;
        uint32_t n, answered, asked[GROUP_MAX], peers[GROUP_MAX], victim;
        uint64_t load[GROUP_MAX];
    } round;
    htc_worker_figures   figures; /* what has been done */
    together             together;
    uint32_t             n_words; /* whose ledgers are to be looked up */
    word                 words[WORDS_MAX];
    htc_buf              buf;
};

#define EACH_OWN(w, o)           for ((o) = (w)->owns; (o); (o) = (o)->hh.next)
#define EACH_NODE(o, n)          for ((n) = (o)->nodes; (n); (n) = (n)->of_next)
#define EACH_OWN_SAFE(w, o, nx)  for ((o) = (w)->owns; (o) && ((nx) = (o)->hh.next, 1); (o) = (nx))

/* worker.c */
int  htc__worker_written(htc_worker *w, const char *what); /* 1: what is in buf is whole; 0: the runtime is broken */
void htc__worker_say(htc_worker *w, uint32_t peer, uint16_t type, const worker_message *m);
void htc__worker_stop(htc_worker *w, htc_status status);

/* worker_group.c */
void     htc__worker_watch(htc_worker *w); /* once */
void     htc__worker_header_is(htc_worker *w, htc_bytes value, uint64_t version);
uint32_t htc__worker_place_of_self(const htc_worker *w); /* so many of the others have lower ids */
uint32_t htc__worker_peer(const htc_worker *w, uint64_t id);                 /* the connection to a worker; 0: none */
int      htc__worker_lives(const htc_worker *w, uint64_t id, uint64_t epoch); /* as far as is known */
int      htc__worker_collects(const htc_worker *w);
void     htc__worker_group_timers(htc_worker *w);
htc_ns   htc__worker_group_deadline(const htc_worker *w);
void     htc__worker_sum(htc_worker *w, uint64_t number, const ledger_counts *c); /* counts that were seen, however stale */
void     htc__worker_counts_changed(htc_worker *w, own *o);
void     htc__worker_counts_heard(htc_worker *w, uint32_t peer, uint16_t type, const worker_message *m);
void     htc__worker_hang_up_all(htc_worker *w);
void     htc__worker_group_free(htc_worker *w);
int      htc__worker_runs_flow(const htc_worker *w); /* it is running, and all that has to be known is */

/* worker_gone.c */
void htc__worker_refused(htc_worker *w, uint32_t peer); /* nobody listens at the other end any more */
int  htc__worker_was_here(htc_worker *w, member *m, const char *address); /* its address is our own: it was a life before, and that is said. Else 0 */
int  htc__worker_member_opened(htc_worker *w, const htc_input *in); /* 1: it is the connection to one of the others that this worker asked for */
void htc__worker_gone_timers(htc_worker *w);

/* worker_survey.c */
void htc__worker_survey(htc_worker *w);
void htc__worker_survey_starved(htc_worker *w); /* at once, if nothing is left to do here, and ledgers of nobody were seen */
void htc__worker_survey_soon(htc_worker *w, htc_ns in);
htc_ns htc__worker_survey_deadline(const htc_worker *w);

/* worker_ledgers.c */
/* HTC_ECORRUPT also where it has tasks that the flow has not. */
htc_status htc__worker_ledger_read(const htc_worker *w, htc_bytes bytes, ledger *l);
own   *htc__worker_own(const htc_worker *w, uint64_t number);
own   *htc__worker_take_up(htc_worker *w, uint64_t number, const ledger *l, uint64_t version);
void   htc__worker_flush(htc_worker *w);  /* every ledger that is due is changed */
htc_ns htc__worker_ledgers_deadline(const htc_worker *w);
void   htc__worker_ledgers_timers(htc_worker *w); /* notes that nobody has answered for */
void   htc__worker_ledgers_free(htc_worker *w);
void   htc__worker_read_again(htc_worker *w, own *o); /* after an answer that says nothing sure */
void   htc__worker_marked(htc_worker *w); /* the header's marks have changed */

/* worker_log.c */
int  htc__worker_log_waits(htc_worker *w, own *o); /* 1: a block is to be stored before the next change, and is on its way */
void htc__worker_log_begin(own *o); /* next is made of now: what is in a block is not in its record */
/* Counted, and of a bag noted in the log. HTC_AGAIN: the log is full, with the next change; as htc__ledger_commit. It changes nothing then. */
htc_status htc__worker_count(const htc_worker *w, uint64_t number, ledger *l, ended_task *e, int log);

/* worker_functions.c: function tasks, which the host calls in batches (HTC_CALL_RUN_SPAN) */
uint64_t htc__worker_span(const htc_worker *w, uint32_t kind, uint64_t ready); /* of a bag: how many at once */
int      htc__worker_can_call(const htc_worker *w); /* one more */
htc_status htc__worker_call_function(htc_worker *w, running *x, htc_bytes task);
void     htc__worker_answers(htc_worker *w); /* those that waited for room */
void     htc__worker_function_result(htc_worker *w, running *x, const htc_input *in);
void     htc__worker_function_order(htc_worker *w, running *x, attempt_order order);

/* worker_tasks.c */
extern const attempt_holder_ops htc__worker_holder;
void     htc__worker_ready_anew(htc_worker *w, own *o); /* of a bag: from now.live, what runs and what has ended */
void     htc__worker_untouched(const htc_worker *w, const own *o, ledger_ids *ids); /* of a bag: live, and neither runs nor has ended */
void     htc__worker_begin(htc_worker *w);
void     htc__worker_drop_runs(htc_worker *w, uint64_t number); /* of a ledger that is not ours any more */
void     htc__worker_order(htc_worker *w, uint64_t number, uint64_t id, attempt_order order);
uint64_t htc__worker_waiting(const htc_worker *w); /* tasks that could be given */
uint32_t htc__worker_idle(const htc_worker *w);
void     htc__worker_forget_counted(own *o);
running *htc__worker_run(const htc_worker *w, uint64_t run);
int      htc__worker_add_run(htc_worker *w, running *x); /* 0: out of memory, which has been said */
void     htc__worker_run_over(htc_worker *w, running *x);
void     htc__worker_run_kept(htc_worker *w, running *x); /* over, and what it adds is known: what it makes is kept, then END */
void     htc__worker_forget_run(htc_worker *w, running *x, int drop);
int      htc__worker_quiet(const htc_worker *w); /* nothing runs, and no END of what ran is under way */
void     htc__worker_ended(own *o, const ended_task *e);
void     htc__worker_give_up(htc_worker *w, running *x); /* it has not run, and is to be begun again */
void     htc__worker_begin_remake(htc_worker *w, remake *r); /* as r->run, if that does not end at once */
void     htc__worker_tasks_free(htc_worker *w);

/* worker_data.c */
void htc__worker_objects(htc_worker *w); /* made, if the flow has any */
void htc__worker_objects_heard(htc_worker *w, uint32_t peer, uint16_t type, htc_reader *r);
void htc__worker_objects_end(htc_worker *w); /* the flow has ended */
void htc__worker_data_begin(htc_worker *w, running *x, const graph_task *t); /* the attempt, when all is here that it reads */
int  htc__worker_data_staged(htc_worker *w, running *x, const htc_input *in); /* 1: in vain, and the run is gone */
void htc__worker_data_read(const running *x, uint64_t *needed, uint64_t *moved); /* bytes */
int  htc__worker_data_keep(htc_worker *w, running *x, const graph_task *t);   /* 0: it made nothing. Else its end comes when that is kept */
void htc__worker_data_put_made(const running *x, htc_buf *b);
void htc__worker_data_free(htc_worker *w, running *x);

/* worker_places.c: of a worker without places all of it does nothing */
void     htc__worker_places(htc_worker *w); /* by the header */
void     htc__worker_places_free(htc_worker *w);
int      htc__worker_place(htc_worker *w, node *n); /* it is ready. 0: it is nobody else's, or on its way: not in own.ready */
void     htc__worker_place_left(htc_worker *w, node *n); /* it is not, any more */
uint64_t htc__worker_local(const htc_worker *w); /* tasks that wait and are nobody else's */
void     htc__worker_move_excess(htc_worker *w); /* of what is nobody else's: what the policy makes anybody's now */
node    *htc__worker_next_node(const htc_worker *w); /* to be begun; it stays. NULL: there is none */
uint32_t htc__worker_cheapest(htc_worker *w, const own *o, uint64_t amount, ledger_span *ids); /* LEDGER_NOTE_MAX; how many spans */
int      htc__worker_pushes(const htc_worker *w, const own *o); /* some of it is to go to others */
void     htc__worker_push_asks(htc_worker *w, own *o);
uint32_t htc__worker_pushed(htc_worker *w, const own *o, uint64_t to, ledger_span *ids);
void     htc__worker_pushes_over(htc_worker *w, own *o); /* what is still here of it stays */
void     htc__worker_place_learn(htc_worker *w, const graph_task *t, const htc_outcome *o, uint64_t needed, uint64_t moved);
void     htc__worker_place_steal_failed(htc_worker *w);
void     htc__worker_place_progress(htc_worker *w, uint64_t done); /* of all tasks */

/* worker_remake.c */
void   htc__worker_lacks(htc_worker *w, running *x, uint64_t maker, const graph_object *lost); /* the run is gone */
void   htc__worker_remake_ended(htc_worker *w, running *x);
void   htc__worker_remake_not_run(htc_worker *w, const running *x);
void   htc__worker_remade(htc_worker *w, running *x); /* and kept, or not: as its outcome says. The run is gone */
uint8_t *htc__worker_remake_spoilt(const htc_worker *w, const running *x); /* NULL: it is not one that counts any more */
void   htc__worker_redo_heard(htc_worker *w, const worker_message *m);
void   htc__worker_remakes(htc_worker *w);
htc_ns htc__worker_remakes_deadline(const htc_worker *w);
void   htc__worker_remakes_free(htc_worker *w);

/* worker_add.c */
int    htc__worker_addition_text(htc_worker *w, running *x, const graph_task *t); /* 1: what it printed is read, and then htc__worker_run_kept */
/* Of a function that has succeeded and adds tasks, with its output: so it ends, or has failed if that is no tasks. */
void   htc__worker_addition_output(htc_worker *w, node *n, const running *x, htc_bytes output, htc_ns began, htc_ns ended);
void   htc__worker_addition(htc_worker *w, const node *n); /* it is done, and adds tasks */
void   htc__worker_addition_left(htc_worker *w, const node *n);
int    htc__worker_addition_waits(const htc_worker *w, const node *n); /* what it adds is not all there */
void   htc__worker_addition_counts(const htc_worker *w, const node *n, ended_task *e); /* with what it adds */
void   htc__worker_added(htc_worker *w, own *o, const ended_task *e); /* it is counted */
void   htc__worker_additions(htc_worker *w);
htc_ns htc__worker_additions_deadline(const htc_worker *w);
void   htc__worker_additions_free(htc_worker *w);

/* worker_graph.c */
task_page *htc__worker_page(const htc_worker *w, uint64_t id);   /* NULL: nothing of it is known */
task_page *htc__worker_page_enter(htc_worker *w, uint64_t id);   /* for one more in it. NULL: no memory */
void       htc__worker_page_leave(htc_worker *w, task_page *p);  /* for one less: it may be gone */
node  *htc__worker_node(const htc_worker *w, uint64_t id);
void   htc__worker_nodes_anew(htc_worker *w, own *o);  /* from now.live, whatever was thought */
void   htc__worker_nodes_add(htc_worker *w, own *o, ledger_span ids);
void   htc__worker_nodes_came(htc_worker *w, ledger_span ids, node_came how);
void   htc__worker_nodes_gone(htc_worker *w, own *o, ledger_span ids);
void   htc__worker_nodes_lost(htc_worker *w, own *o); /* all of a ledger that is not ours any more */
void   htc__worker_node_news(htc_worker *w, node *n);
void   htc__worker_node_record(htc_worker *w, node *n, htc_bytes value, uint64_t version);
void   htc__worker_node_ended(htc_worker *w, node *n); /* its attempt is over: END */
function_end *htc__worker_function_end(htc_worker *w, const running *x, htc_status status, const char *reason, htc_ns began, htc_ns ended); /* NULL: broken */
void   htc__worker_function_ended(htc_worker *w, node *n, function_end *end); /* likewise */
void   htc__worker_function_end_free(htc_worker *w, function_end *end); /* if it is no node's */
void   htc__worker_node_told(htc_worker *w, node *n);
void   htc__worker_node_cancel(htc_worker *w, node *n);
void   htc__worker_count_told(htc_worker *w, own *o);
void   htc__worker_graph(htc_worker *w);
htc_ns htc__worker_graph_deadline(const htc_worker *w);
void   htc__worker_graph_free(htc_worker *w);

/* worker_tell.c */
void htc__worker_tell(htc_worker *w, uint64_t id, const node *parent, uint32_t which, graph_bit bit);
void htc__worker_tells(htc_worker *w);
void htc__worker_find_owners(htc_worker *w); /* of words: at the end of a step, or before */
void htc__worker_told_heard(htc_worker *w, uint32_t peer, uint16_t type, const worker_message *m);
int  htc__worker_is_ledger(const htc_worker *w, uint64_t number); /* it was seen in the store: they stay */
/* One that this worker owns and that has room for so many tasks more, as far as is known: LEDGER_HOME together. 0: none. */
int  htc__worker_ledger_of(htc_worker *w, uint64_t worker, uint32_t tasks, uint64_t *number);
void htc__worker_ledger_is(htc_worker *w, uint64_t number, const ledger *l); /* as it was read */
void htc__worker_tell_free(htc_worker *w);

/* worker_together.c */
/* One request of a record. value stays as it is until fn has been called, as does ctx. It leaves at the end of this step, or before. */
void htc__worker_ask_together(htc_worker *w, const flow_key *key, uint32_t op, htc_bytes value, uint64_t version, htc_runtime_store_fn fn, void *ctx);
void htc__worker_send_together(htc_worker *w);

/* worker_steal.c */
void   htc__worker_heard(htc_worker *w, uint32_t peer, uint16_t type, const worker_message *m);
void   htc__worker_steal(htc_worker *w);
htc_ns htc__worker_steal_deadline(const htc_worker *w);
int    htc__worker_rests(const htc_worker *w); /* it has nothing to begin, and has given up asking */
void   htc__worker_group_changed(htc_worker *w);
void   htc__worker_steal_policy(htc_worker *w); /* by the header */
void   htc__worker_give(htc_worker *w, own *o);  /* puts notes for who asks into next */
void   htc__worker_given(htc_worker *w, own *o, int stored); /* tells them */
void   htc__worker_accept(htc_worker *w, own *o, uint64_t from, uint64_t note, uint32_t peer, int pushed);
void   htc__worker_read_note(htc_worker *w, own *o); /* o->accept, where it stands */
void   htc__worker_accept_next(htc_worker *w, own *o); /* one of o->notes, if nothing is under way */
void   htc__worker_settle(htc_worker *w, uint64_t got); /* of the round under way */
void   htc__worker_nudge(htc_worker *w); /* others, if there is more here than can run */

#endif
