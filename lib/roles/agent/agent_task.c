/* The life of one held task.
 *
 *   WAITING ──▶ STAGING_IN ──▶ RUNNING ──▶ STAGING_OUT ──▶ REPORTING ──verdict──▶ forgotten
 *                 │   ▲                      │   ▲             ▲
 *                 ▼   │ retry                ▼   │ retry       └── did not begin, could not be staged in
 *               PAUSED_IN                  PAUSED_OUT
 *   WAITING, or a phase in which the node failed or the agent was told to stop ──▶ RETURNING ──verdict──▶ forgotten
 *
 * What an order does in each phase is the table below. An order that comes while the host works is noted and obeyed
 * when the host has answered; the host's answer alone says how a process ended. */
#include <signal.h>
#include <string.h>

#include "roles/agent/agent_private.h"

typedef enum action {
    IGNORE, /* too late, or nothing to do */
    REPORT, /* it ends here, with that order as its outcome */
    FORGET,
    RETURN,
    NOTE, /* obeyed when the host has answered */
    TERM, /* SIGTERM, and SIGKILL after kill_after */
    KILL
} action;

/* clang-format off */
static const uint8_t on_order[ORDER_COUNT][PHASE_COUNT] = {
    /*                    WAITING  STAGING_IN  PAUSED_IN  RUNNING  STAGING_OUT  PAUSED_OUT  REPORTING  RETURNING */
    [ORDER_NONE]      = { IGNORE,  IGNORE,     IGNORE,    IGNORE,  IGNORE,      IGNORE,     IGNORE,    IGNORE },
    [ORDER_CANCEL]    = { REPORT,  NOTE,       REPORT,    TERM,    IGNORE,      IGNORE,     IGNORE,    IGNORE },
    [ORDER_WALL]      = { IGNORE,  IGNORE,     IGNORE,    TERM,    IGNORE,      IGNORE,     IGNORE,    IGNORE },
    [ORDER_SUSPENDED] = { IGNORE,  IGNORE,     IGNORE,    KILL,    IGNORE,      IGNORE,     IGNORE,    IGNORE },
    /* A reported attempt waits for its verdict even when a heartbeat's answer revokes it: that answer may be older than
     * the commit, and dropping the outputs of a committed attempt would lose them. */
    [ORDER_REVOKE]    = { FORGET,  NOTE,       FORGET,    KILL,    NOTE,        FORGET,     IGNORE,    IGNORE },
    [ORDER_STOP]      = { RETURN,  NOTE,       RETURN,    KILL,    IGNORE,      IGNORE,     IGNORE,    IGNORE },
    [ORDER_DRAIN]     = { RETURN,  IGNORE,     IGNORE,    IGNORE,  IGNORE,      IGNORE,     IGNORE,    IGNORE },
};

static const struct {
    uint8_t told;   /* how a heartbeat names it */
    uint8_t active; /* holds a slot or waits for one */
    uint8_t busy;   /* holds a slot */
} phases[PHASE_COUNT] = {
    [PHASE_WAITING]     = { HTC_HELD_WAITING,     1, 0 },
    [PHASE_STAGING_IN]  = { HTC_HELD_STAGING_IN,  1, 1 },
    [PHASE_PAUSED_IN]   = { HTC_HELD_STAGING_IN,  1, 1 },
    [PHASE_RUNNING]     = { HTC_HELD_RUNNING,     1, 1 },
    [PHASE_STAGING_OUT] = { HTC_HELD_STAGING_OUT, 1, 1 },
    [PHASE_PAUSED_OUT]  = { HTC_HELD_STAGING_OUT, 1, 1 },
    [PHASE_REPORTING]   = { HTC_HELD_REPORTING,   0, 0 },
    [PHASE_RETURNING]   = { HTC_HELD_REPORTING,   0, 0 },
};

static const htc_status why[ORDER_COUNT] = {
    [ORDER_CANCEL] = HTC_ECANCELLED, [ORDER_WALL] = HTC_EWALLTIME, [ORDER_SUSPENDED] = HTC_EKILLED,
    [ORDER_REVOKE] = HTC_EKILLED,    [ORDER_STOP] = HTC_EKILLED,
};
/* clang-format on */

uint8_t htc__agent_told(const agent_held *t)
{
    return phases[t->phase].told;
}

uint32_t htc__agent_active(const htc_agent *a)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < a->count; i++)
        n += phases[a->held[i]->phase].active;
    return n;
}

static uint32_t busy(const htc_agent *a)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < a->count; i++)
        n += phases[a->held[i]->phase].busy;
    return n;
}

uint32_t htc__agent_begun(const htc_agent *a)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < a->count; i++)
        n += a->held[i]->phase != PHASE_WAITING && a->held[i]->phase != PHASE_RETURNING;
    return n;
}

agent_held *htc__agent_find(htc_agent *a, const htc_attempt *attempt)
{
    for (uint32_t i = 0; i < a->count; i++) {
        const htc_attempt *x = &a->held[i]->attempt;
        if (x->job == attempt->job && x->task == attempt->task && x->attempt == attempt->attempt)
            return a->held[i];
    }
    return NULL;
}

static agent_held *find_run(htc_agent *a, uint64_t run)
{
    for (uint32_t i = 0; i < a->count; i++)
        if (a->held[i]->run == run)
            return a->held[i];
    return NULL;
}

static void held_free(const htc_env *env, agent_held *t)
{
    htc__free(env, (void *)(uintptr_t)t->task.data, t->task.len);
    htc__free(env, t, sizeof *t);
}

void htc__agent_free_all(htc_agent *a)
{
    for (uint32_t i = 0; i < a->count; i++)
        held_free(&a->env, a->held[i]);
    a->count = 0;
}

static void call(htc_agent *a, uint32_t op, const agent_held *t)
{
    htc__agent_emit(a, &(htc_effect){ .kind = HTC_OUT_CALL, .op = op, .tag = t->run, .body = htc_buf_bytes(&a->buf) });
    if (a->buf.status != HTC_OK && a->failed == HTC_OK)
        a->failed = a->buf.status;
}

static void call_of_run(htc_agent *a, uint32_t op, const agent_held *t)
{
    htc_buf_clear(&a->buf);
    htc_put_u64(&a->buf, t->run);
    call(a, op, t);
}

static void send_signal(htc_agent *a, const agent_held *t, uint32_t number)
{
    htc_buf_clear(&a->buf);
    htc_put_u64(&a->buf, t->run);
    htc_put_u32(&a->buf, number);
    htc_put_u32(&a->buf, (uint32_t)why[t->order]);
    call(a, HTC_CALL_SIGNAL, t);
}

void htc__agent_remove(htc_agent *a, agent_held *t, int drop)
{
    uint32_t i = 0;
    if (t->staged) {
        htc_buf_clear(&a->buf);
        htc_put_u64(&a->buf, t->run);
        htc_put_u8(&a->buf, drop != 0);
        call(a, HTC_CALL_CLEAN, t);
    }
    while (a->held[i] != t)
        i++;
    memmove(&a->held[i], &a->held[i + 1], (--a->count - i) * sizeof *a->held);
    held_free(&a->env, t);
    if (htc__agent_begun(a) == 0)
        a->idle_at = a->now;
}

static void give_back(htc_agent *a, agent_held *t)
{
    t->phase = PHASE_RETURNING;
    t->tries = 0;
    t->timer_at = a->now; /* said when the step ends, all at once */
}

static void report(htc_agent *a, agent_held *t)
{
    t->phase = PHASE_REPORTING;
    t->tries = 0;
    t->timer_at = a->now;
    htc__agent_outcome_words(t);
    htc__log_with(&a->env, HTC_LOG_INFO,
                  HTC__FIELDS(HTC__NUMBER("job", t->attempt.job), HTC__NUMBER("task", t->attempt.task),
                              HTC__NUMBER("attempt", t->attempt.attempt),
                              HTC__STATUS(t->outcome.status)),
                  "task %llu.%llu attempt %u ended: %s %s -> report",
                  (unsigned long long)t->attempt.job, (unsigned long long)t->attempt.task, (unsigned)t->attempt.attempt,
                  htc_status_name(t->outcome.status), t->outcome.reason);
    if (a->registered)
        htc__agent_say_result(a, t);
}

/* The outcome of a task that is ended by an order and not by its process. */
static void report_order(htc_agent *a, agent_held *t)
{
    if (t->order == ORDER_SUSPENDED)
        htc__agent_outcome_set(a, t, HTC_ESTOPPED, "its process was stopped by a signal such as SIGSTOP, and ended");
    else
        htc__agent_outcome_set(a, t, HTC_ECANCELLED, "cancelled before it started");
    report(a, t);
}

void htc__agent_order(htc_agent *a, agent_held *t, agent_order order)
{
    action what = (action)on_order[order][t->phase];
    if (what == IGNORE)
        return;
    /* The first reason stands; only a revoked attempt is nobody's, whatever else was wanted of it. */
    if (t->order == ORDER_NONE || order == ORDER_REVOKE)
        t->order = (uint8_t)order;
    switch (what) {
    case IGNORE:
    case NOTE:
        break;
    case REPORT:
        report_order(a, t);
        break;
    case FORGET:
        htc__agent_remove(a, t, 1);
        break;
    case RETURN:
        give_back(a, t);
        break;
    case TERM:
        if (t->kill_at == HTC_NEVER && t->order == order) {
            send_signal(a, t, SIGTERM);
            t->kill_at = a->now + a->kill_after_ns;
            t->wall_at = HTC_NEVER;
        }
        break;
    case KILL:
        send_signal(a, t, SIGKILL);
        t->kill_at = t->wall_at = HTC_NEVER;
        break;
    }
}

void htc__agent_order_all(htc_agent *a, agent_order order)
{
    for (uint32_t i = a->count; i > 0; i--)
        htc__agent_order(a, a->held[i - 1], order);
}

/* Limits are the machine's to watch; a task that cannot be read is refused at once. */
static void read_limits(htc_agent *a, agent_held *t)
{
    htc_task  *task = NULL;
    htc_status status = htc_task_from_bytes(&a->env, t->task, &task);
    if (status != HTC_OK) {
        htc__agent_outcome_set(a, t, HTC_EREFUSED, "the task cannot be read: %s", htc_strerror(status));
        report(a, t);
        return;
    }
    t->wall = task->limits.wall;
    t->memory = task->limits.memory;
    htc_task_destroy(task);
}

void htc__agent_take(htc_agent *a, const htc_granted *granted)
{
    if (htc__agent_find(a, &granted->attempt) || a->count == HTC_AGENT_HELD_MAX)
        return;
    agent_held *t = htc__alloc(&a->env, sizeof *t);
    uint8_t    *task = htc__alloc(&a->env, granted->task.len);
    if (!t || !task) {
        htc__free(&a->env, t, sizeof *t);
        htc__free(&a->env, task, granted->task.len);
        a->failed = HTC_ENOMEM;
        return;
    }
    if (granted->task.len)
        memcpy(task, granted->task.data, granted->task.len);
    t->attempt = granted->attempt;
    t->run = ++a->last_run;
    t->count = granted->count;
    t->compat = granted->compat;
    memcpy(t->user, granted->user, sizeof t->user);
    t->task = (htc_bytes){ task, granted->task.len };
    t->wall_at = t->kill_at = t->timer_at = HTC_NEVER;
    a->held[a->count++] = t;
    read_limits(a, t);
    if (t->phase == PHASE_WAITING && htc__agent_ending(a))
        htc__agent_order(a, t, ORDER_DRAIN);
}

static void stage_in(htc_agent *a, agent_held *t)
{
    t->phase = PHASE_STAGING_IN;
    t->staged = 1;
    htc_buf_clear(&a->buf);
    htc_put_u64(&a->buf, t->run);
    htc_write_attempt(&a->buf, &t->attempt);
    htc_put_str(&a->buf, t->user);
    htc_put_u64(&a->buf, t->count);
    htc_put_u32(&a->buf, t->compat);
    htc_put_bytes(&a->buf, t->task);
    call(a, HTC_CALL_STAGE_IN, t);
}

static void stage_out(htc_agent *a, agent_held *t)
{
    t->phase = PHASE_STAGING_OUT;
    call_of_run(a, HTC_CALL_STAGE_OUT, t);
}

void htc__agent_start_waiting(htc_agent *a)
{
    uint32_t running = busy(a);
    for (uint32_t i = 0; i < a->count && running < a->slots; i++)
        if (a->held[i]->phase == PHASE_WAITING) {
            stage_in(a, a->held[i]);
            running++;
        }
}

/* The node, not the task, is at fault: somebody else shall run it, and this agent leaves the node. */
static void node_failed(htc_agent *a, agent_held *t, const htc_input *in, const char *doing)
{
    char      reason[200];
    htc_bytes text = in->body;
    if (text.len > 150)
        text.len = 150;
    htc_buf_clear(&a->buf);
    htc_put_text(&a->buf, "%s: %s: %.*s", doing, htc_strerror(in->status), (int)text.len,
                 text.len ? (const char *)text.data : "");
    size_t n = a->buf.len < sizeof reason ? a->buf.len : sizeof reason - 1;
    memcpy(reason, a->buf.data ? (const char *)a->buf.data : "", a->buf.data ? n : 0);
    reason[a->buf.data ? n : 0] = '\0';
    give_back(a, t);
    htc__agent_leave(a, HTC_ENOSPC, reason);
}

static int is_transient(htc_status status)
{
    return status == HTC_AGAIN || status == HTC_EBUSY || status == HTC_ETIMEDOUT || status == HTC_EUNREACHABLE ||
           status == HTC_ECLOSED;
}

/* 1 if the failure is worth another try; then the task pauses in that phase. */
static int pause_staging(htc_agent *a, agent_held *t, htc_status status, agent_phase phase)
{
    if (!is_transient(status) || t->tries >= a->stage_retry)
        return 0;
    t->timer_at = a->now + htc__agent_backoff(a, &t->tries);
    t->phase = (uint8_t)phase;
    return 1;
}

static void staged_in(htc_agent *a, agent_held *t, const htc_input *in)
{
    if (t->order == ORDER_REVOKE)
        htc__agent_remove(a, t, 1);
    else if (t->order == ORDER_STOP)
        give_back(a, t);
    else if (t->order == ORDER_CANCEL)
        report_order(a, t);
    else if (in->status == HTC_OK) {
        t->phase = PHASE_RUNNING;
        t->tries = 0;
        call_of_run(a, HTC_CALL_RUN, t);
    } else if (in->status == HTC_ENOSPC || in->status == HTC_EIO)
        node_failed(a, t, in, "staging in");
    else if (!pause_staging(a, t, in->status, PHASE_PAUSED_IN)) {
        htc_status status = is_transient(in->status) ? HTC_ESTAGEIN : in->status;
        htc__agent_outcome_set(a, t, status, "%.*s", (int)(in->body.len < 200 ? in->body.len : 200),
                               in->body.len ? (const char *)in->body.data : "");
        report(a, t);
    }
}

static void ran(htc_agent *a, agent_held *t, const htc_input *in)
{
    t->wall_at = t->kill_at = HTC_NEVER;
    htc__agent_outcome_read(a, t, in);
    int killed = t->outcome.status == HTC_ESIGNAL || t->outcome.status == HTC_EKILLED;
    if (t->order == ORDER_REVOKE)
        htc__agent_remove(a, t, 1);
    else if (t->order == ORDER_STOP && killed)
        give_back(a, t);
    else if (t->order == ORDER_SUSPENDED && killed)
        report_order(a, t);
    else
        stage_out(a, t); /* a failed task's files are what its user looks at */
}

static void staged_out(htc_agent *a, agent_held *t, const htc_input *in)
{
    htc_reader r = htc_reader_of(in->body);
    htc_stored stored;
    htc_status status = in->status;
    if (t->order == ORDER_REVOKE) {
        htc__agent_remove(a, t, 1);
        return;
    }
    if (status == HTC_OK)
        status = htc_stored_read(&r, &stored);
    if (status == HTC_ENOSPC || status == HTC_EIO)
        node_failed(a, t, in, "staging out");
    else if (status == HTC_OK) {
        htc__agent_outcome_stored(t, &stored);
        report(a, t);
    } else if (!pause_staging(a, t, status, PHASE_PAUSED_OUT)) {
        /* A task that failed keeps its own reason: what was wrong with its outputs is the smaller news. */
        if (t->outcome.status == HTC_OK)
            htc__agent_outcome_set(a, t, HTC_ESTAGEOUT, "%.*s", (int)(in->body.len < 200 ? in->body.len : 200),
                                   in->status != HTC_OK && in->body.len ? (const char *)in->body.data : "");
        report(a, t);
    }
}

void htc__agent_result(htc_agent *a, const htc_input *in)
{
    agent_held *t = find_run(a, in->tag);
    if (!t)
        return;
    if (in->op == HTC_CALL_STAGE_IN && t->phase == PHASE_STAGING_IN)
        staged_in(a, t, in);
    else if (in->op == HTC_CALL_RUN && t->phase == PHASE_RUNNING)
        ran(a, t, in);
    else if (in->op == HTC_CALL_STAGE_OUT && t->phase == PHASE_STAGING_OUT)
        staged_out(a, t, in);
}

static void started(htc_agent *a, agent_held *t)
{
    if (t->wall && t->wall_at == HTC_NEVER && t->order == ORDER_NONE)
        t->wall_at = t->wall > HTC_NEVER - a->now ? HTC_NEVER : a->now + t->wall;
    if (a->registered)
        htc__agent_say_started(a, t);
}

static void shut_down(htc_agent *a, htc_status status)
{
    htc__log(&a->env, HTC_LOG_INFO, "asked to end %s -> give tasks back", status == HTC_OK ? "gently" : "now");
    a->finishing = 1;
    if (status == HTC_OK)
        htc__agent_order_all(a, ORDER_DRAIN);
    else
        htc__agent_stop(a);
}

void htc__agent_event(htc_agent *a, const htc_input *in)
{
    if (in->op == HTC_EVENT_SHUTDOWN) {
        shut_down(a, in->status);
        return;
    }
    htc_reader  r = htc_reader_of(in->body);
    agent_held *t = find_run(a, htc_get_u64(&r));
    if (!t || htc_reader_done(&r) != HTC_OK || t->phase != PHASE_RUNNING)
        return;
    if (in->op == HTC_EVENT_STARTED)
        started(a, t);
    else if (in->op == HTC_EVENT_TASK_STOPPED)
        htc__agent_order(a, t, ORDER_SUSPENDED);
}

void htc__agent_verdict(htc_agent *a, const htc_task_verdict *verdict)
{
    agent_held *t = htc__agent_find(a, &verdict->attempt);
    if (!t)
        return;
    if (t->phase == PHASE_REPORTING)
        htc__agent_remove(a, t, verdict->status != HTC_OK);
    else if (t->phase == PHASE_RETURNING)
        htc__agent_remove(a, t, 1);
}

void htc__agent_timers(htc_agent *a)
{
    for (uint32_t i = a->count; i > 0; i--) {
        agent_held *t = a->held[i - 1];
        if (t->phase == PHASE_RUNNING && a->now >= t->wall_at)
            htc__agent_order(a, t, ORDER_WALL);
        if (t->phase == PHASE_RUNNING && a->now >= t->kill_at) {
            send_signal(a, t, SIGKILL);
            t->kill_at = HTC_NEVER;
        }
        if (a->now < t->timer_at)
            continue;
        if (t->phase == PHASE_PAUSED_IN)
            stage_in(a, t);
        else if (t->phase == PHASE_PAUSED_OUT)
            stage_out(a, t);
        else if (t->phase == PHASE_REPORTING && a->registered)
            htc__agent_say_result(a, t);
    }
}

htc_ns htc__agent_tasks_deadline(const htc_agent *a)
{
    htc_ns at = HTC_NEVER;
    for (uint32_t i = 0; i < a->count; i++) {
        const agent_held *t = a->held[i];
        int               paused = t->phase == PHASE_PAUSED_IN || t->phase == PHASE_PAUSED_OUT;
        int               telling = t->phase == PHASE_REPORTING || t->phase == PHASE_RETURNING;
        if (t->phase == PHASE_RUNNING && t->wall_at < at)
            at = t->wall_at;
        if (t->phase == PHASE_RUNNING && t->kill_at < at)
            at = t->kill_at;
        if ((paused || (telling && a->registered)) && t->timer_at < at)
            at = t->timer_at;
    }
    return at;
}
