/* One try of one task: staged in, run, staged out, with limits and orders on the way. It asks its host for what takes time
 * (HTC_CALL_STAGE_IN, RUN, SIGNAL, STAGE_OUT, CLEAN), and tells its holder the three ways in which it can end. */
#ifndef HTC_ROLES_ATTEMPT_H
#define HTC_ROLES_ATTEMPT_H

#include "core/codec.h"
#include "core/util.h"
#include "htcsched/work.h"
#include "roles/attempt/io_pace.h"
#include "roles/runtime/agent_wire.h"
#include "htcsched/calls.h"

/* Where it stands; attempt.c has the transitions. */
typedef enum attempt_phase {
    ATTEMPT_WAITING,     /* held, not begun */
    ATTEMPT_STAGING_IN,  /* the host was asked */
    ATTEMPT_PAUSED_IN,   /* staging in failed for now; tried again */
    ATTEMPT_RUNNING,     /* the host was asked; the process runs or is about to */
    ATTEMPT_STAGING_OUT, /* the host was asked */
    ATTEMPT_PAUSED_OUT,
    ATTEMPT_ENDED,    /* the outcome is final: the holder tells it until it is known */
    ATTEMPT_RETURNED, /* to be run by somebody else: the holder says so until it is known */
    ATTEMPT_PHASES
} attempt_phase;

/* Why it has to end before it ends by itself. */
typedef enum attempt_order {
    ORDER_NONE,
    ORDER_CANCEL,    /* its user wants it no more */
    ORDER_WALL,      /* its wall-time limit */
    ORDER_SUSPENDED, /* somebody stopped its process, or it does nothing: end it, it is to run again */
    ORDER_REVOKE,    /* it is not this holder's: drop it */
    ORDER_STOP,      /* the holder ends now: return it */
    ORDER_DRAIN,     /* the holder ends soon: return it if it has not begun */
    ORDER_COUNT
} attempt_order;

typedef struct attempt {
    htc_attempt id;
    uint64_t    run; /* the holder's number for it, in calls */
    uint8_t     phase, order;
    uint8_t     idle;   /* ORDER_SUSPENDED: because it did nothing */
    uint8_t     started; /* its process ran, or runs */
    uint8_t     staged; /* the host has been asked for something: CLEAN is owed */
    uint8_t     sends;  /* its outputs are stored, and some have not come to their URLs yet */
    uint8_t     unwanted; /* ORDER_CANCEL or ORDER_STOP has come, first or later: its outputs are stored, and not sent */
    uint32_t    compat;
    uint32_t    cores; /* slots that it takes; at least 1 */
    uint32_t    tries; /* of the staging under way */
    uint32_t    waits; /* how often it has found no turn to stage */
    htc_ns      trouble_at; /* the first trouble of the staging under way; 0: none */
    uint64_t    count; /* tasks of the job */
    uint32_t    signal, signal_s; /* sent so many seconds ahead of the limit; 0: none */
    char        user[64];
    htc_bytes   task;                /* own copy */
    htc_ns      wall;                /* limit; 0: none */
    uint64_t    memory;              /* limit, for the words of an outcome */
    htc_ns signal_at;
    htc_ns wall_at, kill_at, retry_at, back_at; /* limit reached; SIGKILL; pause over; not begun for too long. HTC_NEVER: no such time */
    htc_outcome outcome;
    uint8_t     tail[HTC_STDERR_TAIL_MAX];
} attempt;

typedef struct attempt_holder attempt_holder;

typedef struct attempt_holder_ops {
    void (*ended)(attempt_holder *h, attempt *t);
    void (*returned)(attempt_holder *h, attempt *t);
    void (*dropped)(attempt_holder *h, attempt *t); /* it calls htc__attempt_free */
    /* The node cannot run tasks: those that come get no better. Called behind returned(). */
    void (*node_failed)(attempt_holder *h, htc_status status, const char *reason);
    /* What would be asked of the host (htcsched/calls.h). 1: the holder does it itself, and answers with htc__attempt_result, later. NULL:
     * it never does. */
    int (*carries_out)(attempt_holder *h, attempt *t, uint32_t op, htc_bytes body);
} attempt_holder_ops;

/* What the attempts of one holder share: the first member of a struct of the holder's own. */
struct attempt_holder {
    const htc_env            *env;
    const attempt_holder_ops *ops;
    htc_ns                    now;    /* of the step under way, */
    htc_output               *out;    /* and where its calls go */
    htc_status                failed; /* a call could not be added: the step answers this */
    htc_buf                   buf;
    uint32_t                  stage_retry;
    io_pace                   pace; /* of all their staging */
    uint8_t                   missing_is_final; /* nobody makes an input that is not there: the next try would not find it either */
    htc_ns                    retry_ns, kill_after_ns;
    char                      node[64];
};

/* attempt.c */

/* A copy of what was granted. HTC_ENOMEM (of read: holder.failed). Once it is on the holder's list, htc__attempt_read looks at it: what cannot be
 * read has ended. */
htc_status htc__attempt_init(attempt_holder *h, attempt *t, const htc_granted *granted, uint64_t run);
void       htc__attempt_read(attempt_holder *h, attempt *t);
/* Asks the host to forget what it keeps of it, with what it has stored if drop is 1; t's own memory is the holder's. out may
 * be NULL when all ends: then nothing is asked. */
void htc__attempt_free(attempt_holder *h, attempt *t, int drop);

/* How long commands run lately, with one more that has ended; 0: not known. */
htc_ns htc__attempt_lately(htc_ns lately, const htc_outcome *o);
/* Slots that a host which keeps what has none may be asked to fill, of so many: more than there are where commands are so short that one is free
 * soon, so that none waits for a message. Beyond ATTEMPT_AHEAD_SPAN none are. */
#define ATTEMPT_AHEAD_SPAN (100 * HTC_MS)
uint32_t htc__attempt_most(htc_ns lately, uint32_t slots);
/* ATTEMPT_WAITING only: another form of its task, copied; HTC_ENOMEM. */
htc_status htc__attempt_task(attempt_holder *h, attempt *t, htc_bytes task);
/* ATTEMPT_WAITING only: it ends without having begun. final: it would end like that every time. */
void htc__attempt_refuse(attempt_holder *h, attempt *t, htc_status status, int final, const char *format, ...) __attribute__((format(printf, 5, 6)));
/* ATTEMPT_WAITING only. ahead: a slot is about to be free; if it is not soon, the attempt is returned. 0: there is one. */
void htc__attempt_begin(attempt_holder *h, attempt *t, int ahead);
/* ATTEMPT_STAGING_IN only: STAGE_IN has been answered, and is asked once more instead of being judged. */
void htc__attempt_stage_again(attempt_holder *h, attempt *t);
/* One that was begun ahead, and has not started: no slot is to be expected any more. It is taken back with the next htc__attempt_timer, or returned when it is
 * staged in. 1: so it is; 0: it has one. */
int htc__attempt_recall(const attempt_holder *h, attempt *t);
void htc__attempt_order(attempt_holder *h, attempt *t, attempt_order order);
void htc__attempt_result(attempt_holder *h, attempt *t, const htc_input *in); /* the host's answer to a call */
/* Its process runs, at once or after a pause. 0: it is not asked to. */
int    htc__attempt_started(attempt_holder *h, attempt *t);
/* HTC_EVENT_TASK_STOPPED: its process was stopped by a signal, or (idle) has done nothing for too long. It is ended to run again. */
void   htc__attempt_stopped(attempt_holder *h, attempt *t, int idle);
void   htc__attempt_timer(attempt_holder *h, attempt *t);
htc_ns htc__attempt_deadline(const attempt *t);

int     htc__attempt_is(const attempt *t, const htc_attempt *id);
int     htc__attempt_is_over(const attempt *t); /* ended or returned */
int     htc__attempt_has_begun(const attempt *t); /* its process or its result would be missed */
int     htc__attempt_wants_slot(const attempt *t); /* has one or waits for one */
int     htc__attempt_has_slot(const attempt *t);
uint8_t htc__attempt_told(const attempt *t); /* as a heartbeat names it: HTC_HELD_... */

/* The pause before the next try of anything: retry_ns, doubling to 8 times. */
#define ATTEMPT_DOUBLINGS 3
htc_ns htc__attempt_backoff(const attempt_holder *h, uint32_t *tries);

/* outcome.c */

/* How the run ended, from the host's answer alone. */
void htc__attempt_outcome_read(const attempt_holder *h, attempt *t, const htc_input *in);
void htc__attempt_outcome_stored(attempt *t, const htc_stored *s);
void htc__attempt_outcome_set(const attempt_holder *h, attempt *t, htc_status status, const char *format, ...)
    __attribute__((format(printf, 4, 5)));
void htc__attempt_outcome_words(attempt *t); /* the sentence for an outcome that has none yet */

#endif
