/* What the files of the agent share. agent.c: who it is to the gateway, and when it leaves. agent_held.c: the
 * attempts that it holds (roles/attempt). agent_content.c: uploads that an attempt reads and its site lacks. agent_talk.c: messages. */
#ifndef HTC_ROLES_AGENT_PRIVATE_H
#define HTC_ROLES_AGENT_PRIVATE_H

#include "core/codec.h"
#include "core/util.h"
#include "htcsched/agent.h"
#include "htcsched/work.h"
#include "roles/attempt/attempt.h"
#include "htcsched/worker.h"
#include "roles/runtime/gang_wire.h"

typedef struct agent_held {
    attempt  attempt;  /* first: its holder's functions are given that */
    uint8_t  reported; /* a TASK_RESULT left: it may have been committed, its outputs are not ours to drop */
    uint32_t tries;    /* of the message that is repeated until the gateway's verdict: TASK_RESULT or GIVE_BACK */
    htc_ns   say_at;   /* when it is due */
    uint64_t flow;     /* it is a seat at this flow: as long as it runs, this agent is a worker there; 0: a task */
    uint8_t  seat;     /* seat_phase */
    uint8_t  content;  /* it waits for uploads that it reads: CONTENT_WANT is said until it is answered */
    uint8_t  contents; /* how often it did */
    uint8_t  spoilt;   /* what is at the site is not what it should be */
    uint32_t content_tries;
    htc_ns   content_at, content_since; /* the next CONTENT_WANT, the first */
    uint8_t  member;   /* of a gang, which another agent leads: its number in it; it holds its slots, and begins what the leader asks for */
    struct agent_gang *gang; /* NULL: nothing was begun on other nodes, nor for another node */
} agent_held;

typedef struct gang_start   gang_start;
typedef struct gang_process gang_process;

/* What is asked of the host for a task, this agent does itself for a seat. */
typedef enum seat_phase {
    SEAT_NONE,    /* nothing is asked */
    SEAT_ENTERED, /* STAGE_IN */
    SEAT_WANTED,  /* RUN: when there is a worker it is one slot of that */
    SEAT_AT_WORK,
    SEAT_LEFT,    /* to be given back, when the worker runs no more than it has slots without it */
    SEAT_OVER     /* STAGE_OUT */
} seat_phase;

struct agent_flow;

struct htc_agent {
    attempt_holder holder; /* first: its functions are given that. The step under way: now, out, failed */

    htc_env  env;
    uint64_t id;
    uint32_t peer, cores;
    uint32_t slots;    /* that it may fill now */
    uint32_t occupied; /* that, or those that are filled still, if these are more: as the gateway was told last */
    uint64_t slots_seq; /* of the newest SLOTS */
    uint64_t memory;
    htc_ns   orphan_after_ns;
    htc_ns   heartbeat_ns, lost_after_ns; /* as the gateway said last */
    htc_buf  buf;                         /* of a message */

    uint8_t    begun, connected, registered, ended;
    uint8_t    draining;    /* the gateway says so */
    uint8_t    finishing;   /* the host says so: as draining, but nobody calls it off */
    uint8_t    stopping;    /* end all now */
    uint8_t    disowned;    /* the gateway does not know this agent */
    uint8_t    exit;        /* the gateway has nothing more for this agent */
    uint8_t    pulling;     /* a pull is not answered yet */
    uint8_t    nudged;      /* a NUDGE came while a pull was under way */
    uint8_t    waits_busy;  /* wait_until was said while it held tasks: it is over with the last of them */
    uint64_t   reconciling; /* start nothing before the heartbeat with this seq is answered; 0: free to start */
    htc_status leave;       /* why it leaves by itself; HTC_OK: it does not */
    char       leave_reason[256];

    htc_ns   heard_at; /* last word of the gateway */
    htc_ns   opened_at; /* the connection */
    htc_ns   idle_at;  /* since when nothing is held that has begun */
    htc_ns   hello_at, beat_at, pull_at, wait_until, stop_at;
    htc_ns   beat_gap; /* before beat_at */
    htc_ns   asked_at; /* the first heartbeat after heard_at, if it is later */
    uint32_t hello_tries, pull_tries;
    htc_ns   span; /* that tasks run, as of late; 0: not known */
    uint32_t batch; /* tasks of the last grant */
    uint8_t  turns;
    uint64_t beat_seq, beat_answered, pull_seq, last_grant, last_run;

    uint32_t    count;
    agent_held *held[HTC_AGENT_HELD_MAX]; /* in the order they came */

    char     store[256], address[256]; /* "": it works at no flow */
    uint64_t cache_bytes; /* of the objects of its flows; 0: by default */
    const htc_registry *policies; /* of their workers; NULL: the library's */
    uint8_t  brings; /* uploads that tasks read are asked for */
    struct { /* where outputs are stored: agent_outputs.c */
        uint8_t    shares, asked, told; /* the host is asked; the gateway has been told status and text */
        char       path[HTC_AGENT_OUTPUTS_MAX]; /* here; "": as the gateway says */
        char       dir[HTC_AGENT_OUTPUTS_MAX], id[65];
        htc_ns     at; /* the host is asked again; HTC_NEVER: it is not */
        htc_status status;
        char       text[256];
    } outputs;
    uint64_t last_flow;
    htc_ns   wall; /* of the step under way */
    struct agent_flow *flows; /* where it is a worker */
    gang_start   *gang_starts;    /* of gangs that it leads */
    gang_process *gang_processes; /* of gangs that others lead */
    htc_wire_machine machine; /* that it is on */
    uint16_t      gateway_speaks; /* the number of the protocol, HTC_WIRE_VERSION; 0: not known yet */
    union { /* room for what is read or written in one step */
        htc_agent_hello      hello;
        htc_heartbeat        beat;
        htc_heartbeat_answer answer;
        htc_grant            grant;
        htc_give_back        back;
        htc_content_here     here;
        htc_gang_word        word;
    } m;
};

/* agent.c */
void htc__agent_emit(htc_agent *a, const htc_effect *effect);
void htc__agent_leave(htc_agent *a, htc_status why, const char *reason);
void htc__agent_stop(htc_agent *a);
void htc__agent_drain(htc_agent *a, int on);
/* 1 if nothing new may begin: draining, finishing, stopping or leaving. */
int  htc__agent_ending(const htc_agent *a);
void htc__agent_set_slots(htc_agent *a, const htc_slots *slots);

/* agent_held.c */
extern const attempt_holder_ops htc__agent_holder;
agent_held *htc__agent_find(htc_agent *a, const htc_attempt *id);
void        htc__agent_take(htc_agent *a, const htc_granted *granted);
void        htc__agent_order(htc_agent *a, agent_held *t, attempt_order order);
void        htc__agent_order_all(htc_agent *a, attempt_order order);
void        htc__agent_verdict(htc_agent *a, const htc_task_verdict *verdict);
void        htc__agent_result(htc_agent *a, const htc_input *in);
void        htc__agent_event(htc_agent *a, const htc_input *in);
void        htc__agent_timers(htc_agent *a);
void        htc__agent_start_waiting(htc_agent *a);
void        htc__agent_remove(htc_agent *a, agent_held *t, int drop);
htc_ns      htc__agent_tasks_deadline(const htc_agent *a);
/* Tasks whose processes or results would be missed. */
uint32_t htc__agent_begun(const htc_agent *a);
/* Slots that tasks hold or wait for. */
uint32_t htc__agent_active(const htc_agent *a);
/* Slots that tasks hold, begun ahead of a free one or not. */
uint32_t htc__agent_filled(const htc_agent *a);
/* Of what has not begun, no more is kept than there are slots for. */
void     htc__agent_return_excess(htc_agent *a);
/* So many more than there are slots are wanted here, so that none is ever without a task. */
uint32_t htc__agent_ahead(const htc_agent *a);
void     htc__agent_free_all(htc_agent *a);

/* agent_talk.c */
void htc__agent_say_hello(htc_agent *a);
void htc__agent_say_heartbeat(htc_agent *a);
void htc__agent_say_pull(htc_agent *a);
void htc__agent_say_started(htc_agent *a, const attempt *t);
void htc__agent_say_slots_held(htc_agent *a);
void htc__agent_say_bye(htc_agent *a, htc_status status, const char *reason);
void htc__agent_say_result(htc_agent *a, agent_held *t);
void htc__agent_say_outputs(htc_agent *a);
void htc__agent_say_content_want(htc_agent *a, const agent_held *t, htc_bytes hashes);
/* One message for all that are being given back and whose turn it is. */
void htc__agent_say_give_back(htc_agent *a);
void htc__agent_heard(htc_agent *a, htc_bytes message);

/* agent_content.c */
int    htc__agent_content_ask(htc_agent *a, agent_held *t, htc_status status); /* STAGE_IN lacks an upload, or found it spoilt. 1: it is asked for */
void   htc__agent_content_heard(htc_agent *a, const htc_content_here *m);
void   htc__agent_content_give_up(htc_agent *a, agent_held *t); /* an order is to be obeyed */
void   htc__agent_content_repeat(htc_agent *a); /* what is due; all: at a new connection */

/* agent_outputs.c */
void   htc__agent_outputs_welcome(htc_agent *a, const htc_agent_welcome *m);
int    htc__agent_outputs_result(htc_agent *a, const htc_input *in); /* 1: it was the answer to what it asks */
void   htc__agent_outputs_run(htc_agent *a); /* what is due */

/* agent_gang.c: processes on the nodes of a gang */
int      htc__agent_gang_event(htc_agent *a, const htc_input *in);  /* 1: it was one of a gang's */
int      htc__agent_gang_result(htc_agent *a, const htc_input *in); /* 1: it was */
void     htc__agent_gang_heard(htc_agent *a, const htc_gang_word *m);
void     htc__agent_gang_step(htc_agent *a); /* what may begin, is to end, or is due to be said */
htc_ns   htc__agent_gang_deadline(const htc_agent *a);
void     htc__agent_gang_repeat(htc_agent *a); /* at a new connection */
uint32_t htc__agent_gang_runs(const htc_agent *a, const agent_held *t); /* processes here for its leader */
void     htc__agent_gang_forget(htc_agent *a, agent_held *t);

/* agent_flow.c */
int         htc__agent_is_seat(htc_agent *a, agent_held *t); /* by what it was granted; then its flow is noted */
int         htc__agent_carries_out(attempt_holder *h, attempt *t, uint32_t op, htc_bytes body);
/* 1: the input was for a worker, or from one, and nobody else's. */
int         htc__agent_flows_input(htc_agent *a, const htc_input *in);
void        htc__agent_flows_run(htc_agent *a);
void        htc__agent_flows_take_back(htc_agent *a); /* what was given to the host ahead of a slot */
htc_ns      htc__agent_flows_deadline(const htc_agent *a);
int         htc__agent_has_seat(const htc_agent *a);
int         htc__agent_rests(const htc_agent *a); /* it has seats alone, and nothing runs in them or could */
void        htc__agent_flows_free(htc_agent *a);

#endif
