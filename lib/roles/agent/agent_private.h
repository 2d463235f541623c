/* What the files of the agent share. agent.c: who it is to the gateway, and when it leaves. agent_task.c: the life of
 * one held task. agent_talk.c: messages. agent_outcome.c: how an attempt ended, in words. */
#ifndef HTC_ROLES_AGENT_PRIVATE_H
#define HTC_ROLES_AGENT_PRIVATE_H

#include "core/codec.h"
#include "core/util.h"
#include "htcsched/agent.h"
#include "htcsched/work.h"
#include "roles/runtime/agent_wire.h"
#include "roles/runtime/calls.h"

/* Where a held task stands; agent_task.c has the transitions. */
typedef enum agent_phase {
    PHASE_WAITING,     /* prefetched */
    PHASE_STAGING_IN,  /* the host was asked */
    PHASE_PAUSED_IN,   /* staging in failed for now; tried again at pause_until */
    PHASE_RUNNING,     /* the host was asked; the process runs or is about to */
    PHASE_STAGING_OUT, /* the host was asked */
    PHASE_PAUSED_OUT,
    PHASE_REPORTING, /* TASK_RESULT is repeated until the verdict */
    PHASE_RETURNING, /* GIVE_BACK is repeated until the verdict */
    PHASE_COUNT
} agent_phase;

/* Why a task has to end before it ends by itself. */
typedef enum agent_order {
    ORDER_NONE,
    ORDER_CANCEL,    /* its user wants it no more */
    ORDER_WALL,      /* its wall-time limit */
    ORDER_SUSPENDED, /* somebody stopped its process: end it, it is to run again */
    ORDER_REVOKE,    /* the attempt is not leased to this agent: drop it */
    ORDER_STOP,      /* the agent ends now: give it back */
    ORDER_DRAIN,     /* the agent ends soon: give back what has not begun */
    ORDER_COUNT
} agent_order;

typedef struct agent_held {
    htc_attempt attempt;
    uint64_t    run; /* this agent's number for the attempt, in calls */
    uint8_t     phase, order;
    uint8_t     staged;   /* the host has been asked for something: CLEAN is owed */
    uint8_t     reported; /* a TASK_RESULT left: it may have been committed, its outputs are not ours to drop */
    uint32_t    compat;
    uint32_t    tries; /* of the staging under way, or of the message that is repeated */
    uint64_t    count; /* tasks of the job */
    char        user[64];
    htc_bytes   task;                  /* own copy */
    htc_ns      wall;                  /* limit; 0: none */
    uint64_t    memory;                /* limit, for the words of an outcome */
    htc_ns wall_at, kill_at, timer_at; /* limit reached; SIGKILL; pause over or message due. HTC_NEVER: no such time */
    htc_outcome outcome;
    uint8_t     tail[HTC_STDERR_TAIL_MAX];
} agent_held;

struct htc_agent {
    htc_env  env;
    uint64_t id;
    uint32_t peer, slots, cores, stage_retry;
    uint64_t memory;
    char     node[64];
    htc_ns   retry_ns, kill_after_ns, orphan_after_ns;
    htc_ns   heartbeat_ns, lost_after_ns; /* as the gateway said last */

    htc_ns      now, wall; /* of the step under way, or of the last one */
    htc_output *out;       /* of the step under way */
    htc_status  failed;    /* an effect could not be added: the step answers this */
    htc_buf     buf;

    uint8_t    begun, connected, registered, ended;
    uint8_t    draining;    /* the gateway says so */
    uint8_t    finishing;   /* the host says so: as draining, but nobody calls it off */
    uint8_t    stopping;    /* end all now */
    uint8_t    disowned;    /* the gateway does not know this agent */
    uint8_t    exit;        /* the gateway has nothing more for this agent */
    uint8_t    pulling;     /* a pull is not answered yet */
    uint8_t    nudged;      /* a NUDGE came while a pull was under way */
    uint64_t   reconciling; /* start nothing before the heartbeat with this seq is answered; 0: free to start */
    htc_status leave;       /* why it leaves by itself; HTC_OK: it does not */
    char       leave_reason[256];

    htc_ns   heard_at; /* last word of the gateway */
    htc_ns   idle_at;  /* since when nothing is held that has begun */
    htc_ns   hello_at, beat_at, pull_at, wait_until, stop_at;
    uint32_t hello_tries, pull_tries;
    uint64_t beat_seq, beat_answered, pull_seq, last_grant, last_run;

    uint32_t    count;
    agent_held *held[HTC_AGENT_HELD_MAX]; /* in the order they came */

    union { /* room for what is read or written in one step */
        htc_agent_hello      hello;
        htc_heartbeat        beat;
        htc_heartbeat_answer answer;
        htc_grant            grant;
        htc_give_back        back;
    } m;
};

/* agent.c */
void htc__agent_emit(htc_agent *a, const htc_effect *effect);
void htc__agent_leave(htc_agent *a, htc_status why, const char *reason);
void htc__agent_stop(htc_agent *a);
void htc__agent_drain(htc_agent *a, int on);
/* 1 if nothing new may begin: draining, finishing, stopping or leaving. */
int    htc__agent_ending(const htc_agent *a);
htc_ns htc__agent_backoff(const htc_agent *a, uint32_t *tries);

/* agent_task.c */
agent_held *htc__agent_find(htc_agent *a, const htc_attempt *attempt);
void        htc__agent_take(htc_agent *a, const htc_granted *granted);
void        htc__agent_order(htc_agent *a, agent_held *t, agent_order order);
void        htc__agent_order_all(htc_agent *a, agent_order order);
void        htc__agent_verdict(htc_agent *a, const htc_task_verdict *verdict);
void        htc__agent_result(htc_agent *a, const htc_input *in);
void        htc__agent_event(htc_agent *a, const htc_input *in);
void        htc__agent_timers(htc_agent *a);
void        htc__agent_start_waiting(htc_agent *a);
void        htc__agent_remove(htc_agent *a, agent_held *t, int drop);
htc_ns      htc__agent_tasks_deadline(const htc_agent *a);
uint8_t     htc__agent_told(const agent_held *t);
/* Tasks whose processes or results would be missed. */
uint32_t htc__agent_begun(const htc_agent *a);
/* Tasks that hold a slot or wait for one. */
uint32_t htc__agent_active(const htc_agent *a);
void     htc__agent_free_all(htc_agent *a);

/* agent_talk.c */
void htc__agent_say_hello(htc_agent *a);
void htc__agent_say_heartbeat(htc_agent *a);
void htc__agent_say_pull(htc_agent *a);
void htc__agent_say_started(htc_agent *a, const agent_held *t);
void htc__agent_say_bye(htc_agent *a, htc_status status, const char *reason);
void htc__agent_say_result(htc_agent *a, agent_held *t);
/* One message for all that are being given back and whose turn it is. */
void htc__agent_say_give_back(htc_agent *a);
void htc__agent_heard(htc_agent *a, htc_bytes message);

/* agent_outcome.c */
/* How the run ended, from the host's answer alone; then staged or reported. */
void htc__agent_outcome_read(htc_agent *a, agent_held *t, const htc_input *in);
void htc__agent_outcome_stored(agent_held *t, const htc_stored *s);
void       htc__agent_outcome_set(htc_agent *a, agent_held *t, htc_status status, const char *format, ...)
    __attribute__((format(printf, 4, 5)));
void htc__agent_outcome_words(agent_held *t);

#endif
