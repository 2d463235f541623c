/* The life of one attempt.
 *
 *   WAITING ──▶ STAGING_IN ──▶ RUNNING ──▶ STAGING_OUT ──▶ ENDED
 *                 │   ▲                      │   ▲           ▲
 *                 ▼   │ retry                ▼   │ retry     └── did not begin, could not be staged in
 *               PAUSED_IN                  PAUSED_OUT
 *   A staging waits in PAUSED_IN or PAUSED_OUT as well while others have all turns, or while the holder's staging pauses (io_pace.h).
 *   WAITING, or a phase in which the node failed or the holder was told to stop ──▶ RETURNED
 *
 * What an order does in each phase is the table below. An order that comes while the host works is noted and obeyed
 * when the host has answered; the host's answer alone says how a process ended. */
#include <assert.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "roles/attempt/attempt.h"

#define AHEAD_MAX 8 /* of each slot */
#define STAGE_OUT_PATIENCE (60 * HTC_SECOND) /* for storage that takes no outputs: what a task has made is worth a wait */
#define AHEAD_FOR (200 * HTC_MS) /* an attempt that was asked for ahead of its slot waits no longer */

typedef enum action {
    IGNORE, /* too late, or nothing to do */
    REPORT, /* it ends here, with that order as its outcome */
    DROP,
    RETURN,
    NOTE, /* obeyed when the host has answered; what it fetches or sends meanwhile it may leave */
    UNSEND, /* if outputs are stored, and sending them is all that is left, it ends here; else they are stored, and not sent */
    TERM, /* SIGTERM, and SIGKILL after kill_after */
    KILL
} action;

/* clang-format off */
static const uint8_t on_order[ORDER_COUNT][ATTEMPT_PHASES] = {
    /*                    WAITING  STAGING_IN  PAUSED_IN  RUNNING  STAGING_OUT  PAUSED_OUT  ENDED   RETURNED */
    [ORDER_NONE]      = { IGNORE,  IGNORE,     IGNORE,    IGNORE,  IGNORE,      IGNORE,     IGNORE, IGNORE },
    [ORDER_CANCEL]    = { REPORT,  NOTE,       REPORT,    TERM,    NOTE,        UNSEND,     IGNORE, IGNORE },
    [ORDER_WALL]      = { IGNORE,  IGNORE,     IGNORE,    TERM,    IGNORE,      IGNORE,     IGNORE, IGNORE },
    [ORDER_SUSPENDED] = { IGNORE,  IGNORE,     IGNORE,    KILL,    IGNORE,      IGNORE,     IGNORE, IGNORE },
    /* One that has ended waits until its outcome is known even when it is revoked: who revokes it may not have heard of the
     * commit yet, and dropping the outputs of a committed attempt would lose them. */
    [ORDER_REVOKE]    = { DROP,    NOTE,       DROP,      KILL,    NOTE,        DROP,       IGNORE, IGNORE },
    [ORDER_STOP]      = { RETURN,  NOTE,       RETURN,    KILL,    NOTE,        UNSEND,     IGNORE, IGNORE },
    [ORDER_DRAIN]     = { RETURN,  IGNORE,     IGNORE,    IGNORE,  IGNORE,      IGNORE,     IGNORE, IGNORE },
};

static const struct {
    uint8_t told;  /* how a heartbeat names it */
    uint8_t wants; /* holds a slot or waits for one */
    uint8_t has;   /* holds a slot */
    uint8_t begun; /* its process or its result would be missed */
} phases[ATTEMPT_PHASES] = {
    [ATTEMPT_WAITING]     = { HTC_HELD_WAITING,     1, 0, 0 },
    [ATTEMPT_STAGING_IN]  = { HTC_HELD_STAGING_IN,  1, 1, 1 },
    [ATTEMPT_PAUSED_IN]   = { HTC_HELD_STAGING_IN,  1, 1, 1 },
    [ATTEMPT_RUNNING]     = { HTC_HELD_RUNNING,     1, 1, 1 },
    [ATTEMPT_STAGING_OUT] = { HTC_HELD_STAGING_OUT, 1, 1, 1 },
    [ATTEMPT_PAUSED_OUT]  = { HTC_HELD_STAGING_OUT, 1, 1, 1 },
    [ATTEMPT_ENDED]       = { HTC_HELD_REPORTING,   0, 0, 1 },
    [ATTEMPT_RETURNED]    = { HTC_HELD_WAITING,     0, 0, 0 },
};

static const htc_status why[ORDER_COUNT] = {
    [ORDER_CANCEL] = HTC_ECANCELLED, [ORDER_WALL] = HTC_EWALLTIME, [ORDER_SUSPENDED] = HTC_EKILLED,
    [ORDER_REVOKE] = HTC_EKILLED,    [ORDER_STOP] = HTC_EKILLED,
};
/* clang-format on */

int htc__attempt_is(const attempt *t, const htc_attempt *id)
{
    return t->id.job == id->job && t->id.task == id->task && t->id.attempt == id->attempt;
}

int htc__attempt_is_over(const attempt *t)
{
    return t->phase == ATTEMPT_ENDED || t->phase == ATTEMPT_RETURNED;
}

int htc__attempt_has_begun(const attempt *t)
{
    return phases[t->phase].begun;
}

int htc__attempt_wants_slot(const attempt *t)
{
    return phases[t->phase].wants;
}

int htc__attempt_has_slot(const attempt *t)
{
    return phases[t->phase].has;
}

uint8_t htc__attempt_told(const attempt *t)
{
    /* What waits at the host for a slot has not run, whatever was asked of the host; and what is returned has run or not. */
    if (t->phase == ATTEMPT_RETURNED || (t->phase == ATTEMPT_RUNNING && !t->started))
        return t->started ? HTC_HELD_RUNNING : HTC_HELD_WAITING;
    return phases[t->phase].told;
}

htc_ns htc__attempt_backoff(const attempt_holder *h, uint32_t *tries)
{
    uint32_t n = *tries < ATTEMPT_DOUBLINGS ? *tries : ATTEMPT_DOUBLINGS;
    ++*tries;
    return h->retry_ns << n;
}

/* ---- calls of the host ---- */

static void call(attempt_holder *h, uint32_t op, attempt *t)
{
    if (h->ops->carries_out && h->ops->carries_out(h, t, op, htc_buf_bytes(&h->buf)))
        return;
    htc_status status = htc_output_add(h->out, &(htc_effect){ .kind = HTC_OUT_CALL, .op = op, .tag = t->run, .body = htc_buf_bytes(&h->buf) });
    if (h->buf.status != HTC_OK)
        status = h->buf.status;
    if (status != HTC_OK && h->failed == HTC_OK)
        h->failed = status;
}

static void call_of_run(attempt_holder *h, uint32_t op, attempt *t)
{
    htc_buf_clear(&h->buf);
    htc_put_u64(&h->buf, t->run);
    call(h, op, t);
}

/* why of no order is HTC_OK: a signal that is no end of it. */
static void send_signal(attempt_holder *h, attempt *t, uint32_t number)
{
    htc_buf_clear(&h->buf);
    htc_put_u64(&h->buf, t->run);
    htc_put_u32(&h->buf, number);
    htc_put_u32(&h->buf, (uint32_t)why[t->order]);
    call(h, HTC_CALL_SIGNAL, t);
}

/* Differs between attempts, and between the tries of one. */
static uint64_t salt_of(const attempt *t)
{
    return (t->id.task * UINT64_C(0x9e3779b97f4a7c15)) ^ (t->id.job << 40) ^ ((uint64_t)t->tries << 16) ^ t->waits;
}

/* 1: the holder's staging pauses, and this one waits for the end of that. */
static int holds_off(const attempt_holder *h, attempt *t, attempt_phase phase)
{
    htc_ns from = htc__io_pace_from(&h->pace, h->now, salt_of(t));
    if (from <= h->now)
        return 0;
    t->phase = (uint8_t)phase;
    t->retry_at = from;
    return 1;
}

static void stage_in(attempt_holder *h, attempt *t)
{
    assert(t->phase == ATTEMPT_WAITING || t->phase == ATTEMPT_PAUSED_IN);
    if (holds_off(h, t, ATTEMPT_PAUSED_IN))
        return;
    t->phase = ATTEMPT_STAGING_IN;
    t->staged = 1;
    htc_buf_clear(&h->buf);
    htc_put_u64(&h->buf, t->run);
    htc_write_attempt(&h->buf, &t->id);
    htc_put_str(&h->buf, t->user);
    htc_put_u64(&h->buf, t->count);
    htc_put_u32(&h->buf, t->compat);
    htc_put_bytes(&h->buf, t->task);
    call(h, HTC_CALL_STAGE_IN, t);
}

static void take_back(attempt_holder *h, attempt *t)
{
    if (t->phase != ATTEMPT_RUNNING || t->back_at == HTC_NEVER)
        return; /* one that is staged in yet is taken back when it has been */
    call_of_run(h, HTC_CALL_TAKE_BACK, t);
    t->back_at = HTC_NEVER;
}

static void stage_out(attempt_holder *h, attempt *t)
{
    assert(t->phase == ATTEMPT_RUNNING || t->phase == ATTEMPT_PAUSED_OUT);
    if (holds_off(h, t, ATTEMPT_PAUSED_OUT))
        return;
    t->phase = ATTEMPT_STAGING_OUT;
    call_of_run(h, HTC_CALL_STAGE_OUT, t);
    if (t->unwanted) /* anew for each try: STAGE_OUT forgets that an earlier one was taken back */
        call_of_run(h, HTC_CALL_TAKE_BACK, t);
}

/* ---- its beginning ---- */

htc_status htc__attempt_init(attempt_holder *h, attempt *t, const htc_granted *granted, uint64_t run)
{
    uint8_t *task = htc__alloc(h->env, granted->task.len);
    if (!task)
        return HTC_ENOMEM;
    if (granted->task.len)
        memcpy(task, granted->task.data, granted->task.len);
    *t = (attempt){ .id = granted->attempt, .run = run, .count = granted->count, .compat = granted->compat, .signal = granted->signal, .signal_s = granted->signal_s, .signal_at = HTC_NEVER, .cores = 1, .task = { task, granted->task.len },
                    .wall_at = HTC_NEVER, .kill_at = HTC_NEVER, .retry_at = HTC_NEVER, .back_at = HTC_NEVER };
    memcpy(t->user, granted->user, sizeof t->user);
    return HTC_OK;
}

void htc__attempt_free(attempt_holder *h, attempt *t, int drop)
{
    if (t->staged && h->out) {
        htc_buf_clear(&h->buf);
        htc_put_u64(&h->buf, t->run);
        htc_put_u8(&h->buf, drop != 0);
        call(h, HTC_CALL_CLEAN, t);
    }
    htc__free(h->env, (void *)(uintptr_t)t->task.data, t->task.len);
    t->task = (htc_bytes){ 0 };
}

htc_ns htc__attempt_lately(htc_ns lately, const htc_outcome *o)
{
    htc_ns span = o->ended > o->started ? o->ended - o->started : 0;
    if (!o->started)
        return lately;
    return lately ? lately - lately / 4 + span / 4 : span + 1;
}

uint32_t htc__attempt_most(htc_ns lately, uint32_t slots)
{
    uint64_t each = lately && lately <= ATTEMPT_AHEAD_SPAN ? ATTEMPT_AHEAD_SPAN / lately : 0;
    return slots + slots * (uint32_t)(each < AHEAD_MAX ? each : AHEAD_MAX);
}

void htc__attempt_begin(attempt_holder *h, attempt *t, int ahead)
{
    assert(t->phase == ATTEMPT_WAITING);
    t->back_at = ahead ? h->now + AHEAD_FOR : HTC_NEVER;
    stage_in(h, t);
}

void htc__attempt_stage_again(attempt_holder *h, attempt *t)
{
    assert(t->phase == ATTEMPT_STAGING_IN);
    t->phase = ATTEMPT_PAUSED_IN;
    stage_in(h, t);
}

int htc__attempt_recall(const attempt_holder *h, attempt *t)
{
    if (t->back_at == HTC_NEVER)
        return 0;
    t->back_at = h->now;
    if ((t->phase == ATTEMPT_STAGING_IN || t->phase == ATTEMPT_PAUSED_IN) && t->order == ORDER_NONE)
        t->order = ORDER_STOP;
    return 1;
}

/* ---- its three ends ---- */

static void give_back(attempt_holder *h, attempt *t)
{
    assert(!htc__attempt_is_over(t));
    t->phase = ATTEMPT_RETURNED;
    h->ops->returned(h, t);
}

static void end(attempt_holder *h, attempt *t)
{
    assert(!htc__attempt_is_over(t));
    t->phase = ATTEMPT_ENDED;
    htc__attempt_outcome_words(t);
    htc__log_with(h->env, t->outcome.status == HTC_OK ? HTC_LOG_DEBUG : HTC_LOG_INFO, /* thousands a second go well */
                  HTC__FIELDS(HTC__NUMBER("job", t->id.job), HTC__NUMBER("task", t->id.task), HTC__NUMBER("attempt", t->id.attempt),
                              HTC__STATUS(t->outcome.status)),
                  "task %llu.%llu attempt %u ended: %s %s -> report", (unsigned long long)t->id.job, (unsigned long long)t->id.task,
                  (unsigned)t->id.attempt, htc_status_name(t->outcome.status), t->outcome.reason);
    h->ops->ended(h, t);
}

/* Its outputs are stored, and are not sent any more. The first order stands: where that was the limit, which it was faster than, it is not noted
 * which of cancel and stop came after it. It is given back then, and whoever cancelled it knows. */
static void end_unsent(attempt_holder *h, attempt *t)
{
    if (t->order != ORDER_CANCEL) {
        give_back(h, t);
        return;
    }
    htc__attempt_outcome_set(h, t, HTC_ECANCELLED, "cancelled while its outputs were sent to their URLs");
    end(h, t);
}

/* By an order, and not by its process. */
static void end_by_order(attempt_holder *h, attempt *t)
{
    if (t->order == ORDER_SUSPENDED && t->idle)
        htc__attempt_outcome_set(h, t, HTC_ESTOPPED, "it used no CPU time and wrote nothing for monitor.stall_s, and was ended to run again");
    else if (t->order == ORDER_SUSPENDED)
        htc__attempt_outcome_set(h, t, HTC_ESTOPPED, "its process was stopped by a signal such as SIGSTOP, and ended");
    else
        htc__attempt_outcome_set(h, t, HTC_ECANCELLED, "cancelled before it started");
    end(h, t);
}

/* Limits are this machine's to watch; a task that cannot be read is refused at once. */
void htc__attempt_read(attempt_holder *h, attempt *t)
{
    htc_task  *task = NULL;
    htc_status status = htc_task_from_bytes(h->env, t->task, &task);
    if (status == HTC_ENOMEM) {
        h->failed = status;
        return;
    }
    if (status != HTC_OK) {
        htc__attempt_outcome_set(h, t, HTC_EREFUSED, "the task cannot be read: %s", htc_strerror(status));
        end(h, t);
        return;
    }
    t->wall = task->limits.wall;
    t->memory = task->limits.memory;
    t->cores = task->limits.cores > 1 ? task->limits.cores : 1;
    htc_task_destroy(task);
}

htc_status htc__attempt_task(attempt_holder *h, attempt *t, htc_bytes task)
{
    uint8_t *copy = htc__alloc(h->env, task.len);
    assert(t->phase == ATTEMPT_WAITING);
    if (!copy)
        return HTC_ENOMEM;
    memcpy(copy, task.data, task.len);
    htc__free(h->env, (void *)(uintptr_t)t->task.data, t->task.len);
    t->task = (htc_bytes){ copy, task.len };
    return HTC_OK;
}

void htc__attempt_refuse(attempt_holder *h, attempt *t, htc_status status, int final, const char *format, ...)
{
    char    reason[200];
    va_list ap;
    assert(t->phase == ATTEMPT_WAITING);
    va_start(ap, format);
    vsnprintf(reason, sizeof reason, format, ap);
    va_end(ap);
    htc__attempt_outcome_set(h, t, status, "%s", reason);
    t->outcome.final = final != 0;
    end(h, t);
}

/* ---- orders ---- */

void htc__attempt_order(attempt_holder *h, attempt *t, attempt_order order)
{
    action what = (action)on_order[order][t->phase];
    t->unwanted |= order == ORDER_CANCEL || order == ORDER_STOP;
    if (order == ORDER_DRAIN)
        take_back(h, t);
    if (what == IGNORE)
        return;
    /* The first reason stands; only a revoked attempt is nobody's, whatever else was wanted of it. */
    if (t->order == ORDER_NONE || order == ORDER_REVOKE)
        t->order = (uint8_t)order;
    switch (what) {
    case IGNORE:
        break;
    case NOTE:
        call_of_run(h, HTC_CALL_TAKE_BACK, t); /* an input that takes hours to fetch is waited for no longer, nor an output that is sent */
        break;
    case UNSEND:
        if (t->sends)
            end_unsent(h, t);
        break;
    case REPORT:
        end_by_order(h, t);
        break;
    case DROP:
        h->ops->dropped(h, t);
        break;
    case RETURN:
        give_back(h, t);
        break;
    case TERM:
        if (t->kill_at == HTC_NEVER && t->order == order) {
            send_signal(h, t, SIGTERM);
            t->kill_at = h->now + h->kill_after_ns;
            t->wall_at = HTC_NEVER;
        }
        break;
    case KILL:
        send_signal(h, t, SIGKILL);
        t->kill_at = t->wall_at = HTC_NEVER;
        break;
    }
}

/* ---- what the host answers ---- */

/* The node, not the task, is at fault: somebody else shall run it. */
static void node_failed(attempt_holder *h, attempt *t, const htc_input *in, const char *doing)
{
    char reason[200];
    int  n = in->body.len < 150 ? (int)in->body.len : 150;
    snprintf(reason, sizeof reason, "%s: %s: %.*s", doing, htc_strerror(in->status), n, n ? (const char *)in->body.data : "");
    give_back(h, t);
    h->ops->node_failed(h, HTC_ENOSPC, reason);
}

static int is_transient(htc_status status)
{
    return status == HTC_EBUSY || status == HTC_ETIMEDOUT || status == HTC_EUNREACHABLE || status == HTC_ECLOSED;
}

/* No space in staging in is the node's own disk: there is nothing to wait for. All else may be storage that many use at once. */
static int is_overload(htc_status status, attempt_phase phase)
{
    return htc__io_pace_is_trouble(status) && (phase == ATTEMPT_PAUSED_OUT || status != HTC_ENOSPC);
}

static int has_patience(const attempt_holder *h, const attempt *t, attempt_phase phase)
{
    return phase == ATTEMPT_PAUSED_IN ? t->tries < h->stage_retry : !t->trouble_at || h->now - t->trouble_at < STAGE_OUT_PATIENCE;
}

static void back_off(attempt_holder *h, attempt *t, htc_status status, attempt_phase phase)
{
    htc_ns before = h->pace.pause, own;
    t->trouble_at = t->trouble_at ? t->trouble_at : h->now;
    t->retry_at = htc__io_pace_trouble(&h->pace, h->now, t->tries, salt_of(t));
    own = h->now + htc__attempt_backoff(h, &t->tries);
    if (phase == ATTEMPT_PAUSED_IN && own > t->retry_at) /* few tries, so that each has to be worth one */
        t->retry_at = own;
    if (h->pace.pause > before)
        htc__log_with(h->env, HTC_LOG_WARN, HTC__FIELDS(HTC__NUMBER("job", t->id.job), HTC__NUMBER("task", t->id.task), HTC__STATUS(status)),
                      "%s in staging -> all staging here pauses for %llu ms", htc_status_name(status), (unsigned long long)(h->pace.pause / HTC_MS));
}

/* 1 if the failure is worth another try; then it pauses in that phase. */
static int pause_staging(attempt_holder *h, attempt *t, htc_status status, attempt_phase phase)
{
    if (status == HTC_AGAIN)
        t->retry_at = htc__io_pace_turn(&h->pace, h->now, t->waits++, salt_of(t));
    else if (is_overload(status, phase) && has_patience(h, t, phase))
        back_off(h, t, status, phase);
    else if (is_transient(status) && !htc__io_pace_is_trouble(status) && t->tries < h->stage_retry)
        t->retry_at = h->now + htc__attempt_backoff(h, &t->tries);
    else
        return 0;
    t->phase = (uint8_t)phase;
    return 1;
}

static void went_well(attempt_holder *h, attempt *t)
{
    htc__io_pace_success(&h->pace);
    t->tries = t->waits = 0;
    t->trouble_at = 0;
}

static void staged_in(attempt_holder *h, attempt *t, const htc_input *in)
{
    if (t->order == ORDER_REVOKE)
        h->ops->dropped(h, t);
    else if (t->order == ORDER_STOP)
        give_back(h, t);
    else if (t->order == ORDER_CANCEL)
        end_by_order(h, t);
    else if (in->status == HTC_OK) {
        t->phase = ATTEMPT_RUNNING;
        went_well(h, t);
        call_of_run(h, HTC_CALL_RUN, t);
    } else if (pause_staging(h, t, in->status, ATTEMPT_PAUSED_IN))
        return;
    else if (in->status == HTC_ENOSPC || in->status == HTC_EIO)
        node_failed(h, t, in, "staging in");
    else {
        int        missing = in->status == HTC_EINPUT || in->status == HTC_ENOTFOUND;
        htc_status status = is_transient(in->status) || in->status == HTC_ECORRUPT || (missing && h->missing_is_final) ? HTC_ESTAGEIN
                            : missing                                                                                  ? HTC_EINPUT
                                                                                                                       : in->status;
        htc__attempt_outcome_set(h, t, status, "%.*s", (int)(in->body.len < 200 ? in->body.len : 200),
                                 in->body.len ? (const char *)in->body.data : "");
        t->outcome.final = missing && h->missing_is_final;
        end(h, t);
    }
}

/* It was taken back before it began. */
static void not_begun(attempt_holder *h, attempt *t)
{
    if (t->order == ORDER_REVOKE)
        h->ops->dropped(h, t);
    else if (t->order == ORDER_CANCEL)
        end_by_order(h, t);
    else
        give_back(h, t);
}

static void ran(attempt_holder *h, attempt *t, const htc_input *in)
{
    t->wall_at = t->kill_at = t->back_at = t->signal_at = HTC_NEVER;
    if (in->status == HTC_AGAIN) {
        not_begun(h, t);
        return;
    }
    if ((in->status == HTC_ENOSPC || in->status == HTC_EIO) && t->order == ORDER_NONE) {
        node_failed(h, t, in, "running");
        return;
    }
    htc__attempt_outcome_read(h, t, in);
    int killed = t->outcome.status == HTC_ESIGNAL || t->outcome.status == HTC_EKILLED;
    if (t->order == ORDER_REVOKE)
        h->ops->dropped(h, t);
    else if (t->order == ORDER_STOP && killed)
        give_back(h, t);
    else if (t->order == ORDER_SUSPENDED && killed)
        end_by_order(h, t);
    else
        stage_out(h, t); /* a failed task's files are what its user looks at */
}

/* All that can be stored is; what goes to URLs may have met trouble on its way there. */
static void took_outputs(attempt_holder *h, attempt *t, htc_stored *s)
{
    int unsent = s->status == HTC_ECANCELLED || is_transient(s->status);
    t->sends = unsent != 0;
    t->outcome.outputs = s->outputs;
    if (s->status == HTC_ECANCELLED || (unsent && t->unwanted)) {
        end_unsent(h, t);
        return;
    }
    if (unsent && pause_staging(h, t, s->status, ATTEMPT_PAUSED_OUT))
        return;
    if (unsent)
        s->status = HTC_ESTAGEOUT;
    went_well(h, t);
    htc__attempt_outcome_stored(t, s);
    end(h, t);
}

static void staged_out(attempt_holder *h, attempt *t, const htc_input *in)
{
    htc_reader r = htc_reader_of(in->body);
    htc_stored stored;
    htc_status status = in->status;
    if (t->order == ORDER_REVOKE) {
        h->ops->dropped(h, t);
        return;
    }
    if (status == HTC_OK)
        status = htc_stored_read(&r, &stored);
    if (status == HTC_OK) {
        took_outputs(h, t, &stored);
    } else if (pause_staging(h, t, status, ATTEMPT_PAUSED_OUT))
        return;
    else if (status == HTC_ENOSPC || status == HTC_EIO)
        node_failed(h, t, in, "staging out");
    else {
        /* A task that failed keeps its own reason: what was wrong with its outputs is the smaller news. */
        if (t->outcome.status == HTC_OK)
            htc__attempt_outcome_set(h, t, HTC_ESTAGEOUT, "%.*s", (int)(in->body.len < 200 ? in->body.len : 200),
                                     in->status != HTC_OK && in->body.len ? (const char *)in->body.data : "");
        end(h, t);
    }
}

void htc__attempt_result(attempt_holder *h, attempt *t, const htc_input *in)
{
    if (in->op == HTC_CALL_STAGE_IN && t->phase == ATTEMPT_STAGING_IN)
        staged_in(h, t, in);
    else if (in->op == HTC_CALL_RUN && t->phase == ATTEMPT_RUNNING)
        ran(h, t, in);
    else if (in->op == HTC_CALL_STAGE_OUT && t->phase == ATTEMPT_STAGING_OUT)
        staged_out(h, t, in);
}

int htc__attempt_started(attempt_holder *h, attempt *t)
{
    if (t->phase != ATTEMPT_RUNNING)
        return 0;
    t->started = 1;
    t->back_at = HTC_NEVER;
    if (t->wall && t->wall_at == HTC_NEVER && t->order == ORDER_NONE)
        t->wall_at = t->wall > HTC_NEVER - h->now ? HTC_NEVER : h->now + t->wall;
    if (t->signal && t->wall_at != HTC_NEVER && t->signal_at == HTC_NEVER) {
        htc_ns before = t->signal_s * HTC_SECOND;
        t->signal_at = before < t->wall ? t->wall_at - before : h->now;
    }
    return 1;
}

void htc__attempt_stopped(attempt_holder *h, attempt *t, int idle)
{
    if (t->order == ORDER_NONE)
        t->idle = idle != 0;
    htc__attempt_order(h, t, ORDER_SUSPENDED);
}

/* ---- time ---- */

void htc__attempt_timer(attempt_holder *h, attempt *t)
{
    if (t->phase == ATTEMPT_RUNNING && h->now >= t->signal_at) {
        uint32_t number = t->signal;
        t->signal = 0; /* once, however often its start is told */
        t->signal_at = HTC_NEVER;
        if (t->order == ORDER_NONE)
            send_signal(h, t, number);
    }
    if (t->phase == ATTEMPT_RUNNING && h->now >= t->wall_at)
        htc__attempt_order(h, t, ORDER_WALL);
    if (t->phase == ATTEMPT_RUNNING && h->now >= t->kill_at) {
        send_signal(h, t, SIGKILL);
        t->kill_at = HTC_NEVER;
    }
    if (h->now >= t->back_at)
        take_back(h, t);
    if (h->now < t->retry_at)
        return;
    if (t->phase == ATTEMPT_PAUSED_IN)
        stage_in(h, t);
    else if (t->phase == ATTEMPT_PAUSED_OUT)
        stage_out(h, t);
}

htc_ns htc__attempt_deadline(const attempt *t)
{
    if (t->phase == ATTEMPT_RUNNING) {
        htc_ns limit = t->wall_at < t->kill_at ? t->wall_at : t->kill_at;
        limit = limit < t->signal_at ? limit : t->signal_at;
        return limit < t->back_at ? limit : t->back_at;
    }
    return t->phase == ATTEMPT_PAUSED_IN || t->phase == ATTEMPT_PAUSED_OUT ? t->retry_at : HTC_NEVER;
}
