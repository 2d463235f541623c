/* Processes on the nodes of a gang: what the leader of one asks for, and what a member begins (roles/runtime/gang_wire.h has the words).
 *
 *   of the leader:  START is said until RUNS or ENDED comes; STOP, when whoever asked is gone, until ENDED comes. ENDED is always answered by
 *                   SEEN, whether that start is still known or not.
 *   of a member:    WAITS ──▶ RUNS ──▶ ENDED (said until SEEN comes) ──▶ forgotten; which numbers have begun is kept as long as the attempt is.
 *                   One that was stopped before it was heard of has ended.
 *
 * They run in the member's scratch directory, beside each other, in its slots: none is waited for. When the member is revoked they are
 * killed, and only then its slots are given back. */
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <utlist.h>

#include "htcsched/calls.h"
#include "roles/agent/agent_private.h"
#include "roles/runtime/gang_wire.h"

struct agent_gang {
    uint32_t given[HTC_TASK_NODES_MAX];        /* of the leader: numbers, to each member */
    uint8_t  begun[HTC_GANG_STARTS_MAX / 8 + 1]; /* of a member: which numbers it has heard of */
};

struct gang_start {
    htc_attempt attempt;
    uint64_t    run, request; /* request 0: nobody waits for its end */
    uint32_t    member, number, tries;
    uint8_t     stop;
    htc_ns      say_at;
    htc_bytes   words; /* own copy */
    gang_start *prev, *next;
};

typedef enum gang_phase { GANG_WAITS, GANG_RUNS, GANG_OVER } gang_phase;

struct gang_process {
    htc_attempt   attempt;
    uint64_t      run; /* our number in calls; 0: not begun */
    uint32_t      member, number, tries;
    uint8_t       phase, stopped;
    htc_ns        say_at, kill_at;
    htc_bytes     bytes; /* own copy: the words while it waits, its end when it is over */
    gang_process *prev, *next;
};

static int same(const htc_attempt *a, const htc_attempt *b)
{
    return a->job == b->job && a->task == b->task && a->attempt == b->attempt;
}

static int copy(htc_agent *a, htc_bytes *to, htc_bytes from)
{
    uint8_t *own = from.len ? htc__alloc(&a->env, from.len) : NULL;
    if (from.len && !own) {
        a->holder.failed = HTC_ENOMEM;
        return 0;
    }
    if (own)
        memcpy(own, from.data, from.len);
    htc__free(&a->env, (void *)(uintptr_t)to->data, to->len);
    *to = (htc_bytes){ own, from.len };
    return 1;
}

static struct agent_gang *gang_of(htc_agent *a, agent_held *t)
{
    if (!t->gang && !(t->gang = htc__alloc(&a->env, sizeof *t->gang)))
        a->holder.failed = HTC_ENOMEM;
    return t->gang;
}

static void say_word(htc_agent *a, const htc_attempt *at, uint32_t member, uint32_t number, htc_gang_kind kind, htc_bytes body)
{
    if (!a->registered)
        return;
    htc_gang_word_write(&a->buf, &(htc_gang_word){ .agent = a->id, .attempt = *at, .member = member, .start = number, .kind = (uint8_t)kind, .body = body });
    if (a->buf.status != HTC_OK)
        a->holder.failed = a->buf.status;
    else
        htc__agent_emit(a, &(htc_effect){ .kind = HTC_OUT_MESSAGE, .peer = a->peer, .body = htc_buf_bytes(&a->buf) });
}

/* ---- of the leader ---- */

static void start_free(htc_agent *a, gang_start *s)
{
    DL_DELETE(a->gang_starts, s);
    htc__free(&a->env, (void *)(uintptr_t)s->words.data, s->words.len);
    htc__free(&a->env, s, sizeof *s);
}

static void answer_bytes(htc_agent *a, uint64_t run, uint64_t request, htc_bytes end)
{
    htc_buf_clear(&a->buf);
    htc_put_u64(&a->buf, run);
    htc_put_u64(&a->buf, request);
    htc_put_raw(&a->buf, end);
    if (a->buf.status != HTC_OK)
        a->holder.failed = a->buf.status;
    else
        htc__agent_emit(a, &(htc_effect){ .kind = HTC_OUT_CALL, .op = HTC_CALL_GANG_ANSWER, .tag = run, .body = htc_buf_bytes(&a->buf) });
}

static void answer(htc_agent *a, uint64_t run, uint64_t request, const htc_gang_end *e)
{
    htc_buf b;
    htc_buf_init(&b, &a->env, 0);
    htc_gang_end_write(&b, e);
    if (b.status != HTC_OK)
        a->holder.failed = b.status;
    else
        answer_bytes(a, run, request, htc_buf_bytes(&b));
    htc_buf_free(&b);
}

static void __attribute__((format(printf, 5, 6))) refuse(htc_agent *a, uint64_t run, uint64_t request, htc_status status, const char *format, ...)
{
    htc_gang_end e = { .status = status };
    va_list      args;
    va_start(args, format);
    vsnprintf(e.reason, sizeof e.reason, format, args);
    va_end(args);
    answer(a, run, request, &e);
}

static void say_start(htc_agent *a, gang_start *s)
{
    say_word(a, &s->attempt, s->member, s->number, s->stop ? HTC_GANG_STOP : HTC_GANG_START, s->stop ? (htc_bytes){ 0 } : s->words);
    s->say_at = a->holder.now + htc__attempt_backoff(&a->holder, &s->tries);
}

/* The member whose node that is. HTC_GANG_NONE: it was answered. */
static uint32_t choose(htc_agent *a, const agent_held *t, uint64_t request, const htc_gang_command *c)
{
    htc_task         *task = NULL;
    const gang_start *s;
    uint32_t          busy[HTC_TASK_NODES_MAX] = { 0 }, at_once = 0, member = HTC_GANG_NONE;
    htc_status        status = htc_task_from_bytes(&a->env, t->attempt.task, &task);
    DL_FOREACH(a->gang_starts, s)
    if (same(&s->attempt, &t->attempt.id))
        busy[s->member]++;
    if (status == HTC_ENOMEM)
        a->holder.failed = status;
    if (status == HTC_OK && task->nodes)
        member = htc_gang_member(task->nodes, c->node, busy, HTC_TASK_NODES_MAX);
    if (member == HTC_GANG_NONE)
        refuse(a, t->attempt.run, request, HTC_ENOTFOUND, "%.80s is no node of this task: %.120s", c->node, status == HTC_OK && task->nodes ? task->nodes : "it has one node");
    htc_task_destroy(task);
    at_once = member != HTC_GANG_NONE ? busy[member] : 0;
    if (member == HTC_GANG_NONE || at_once < HTC_GANG_AT_ONCE)
        return member;
    refuse(a, t->attempt.run, request, HTC_EFULL, "%u processes that were started on %.80s have not ended: no more are begun there", at_once, c->node);
    return HTC_GANG_NONE;
}

static void begin_start(htc_agent *a, agent_held *t, uint64_t request, uint32_t member, htc_bytes words)
{
    struct agent_gang *g = gang_of(a, t);
    gang_start        *s = g ? htc__alloc(&a->env, sizeof *s) : NULL;
    if (!s || !copy(a, &s->words, words)) {
        a->holder.failed = HTC_ENOMEM;
        htc__free(&a->env, s, sizeof *s);
        return;
    }
    s->attempt = t->attempt.id;
    s->run = t->attempt.run;
    s->request = request;
    s->member = member;
    s->number = ++g->given[member];
    DL_APPEND(a->gang_starts, s);
    say_start(a, s);
}

static void asked(htc_agent *a, uint64_t run, uint64_t request, htc_bytes bytes)
{
    htc_gang_command c;
    agent_held      *t = NULL;
    for (uint32_t i = 0; i < a->count; i++)
        t = a->held[i]->attempt.run == run ? a->held[i] : t;
    if (!t || t->member || t->attempt.phase != ATTEMPT_RUNNING || t->attempt.order != ORDER_NONE) {
        refuse(a, run, request, HTC_ENOTFOUND, "the task that asks has ended");
    } else if (htc_gang_command_read(bytes, &c) != HTC_OK) {
        refuse(a, run, request, HTC_EPROTO, "that is no command");
    } else {
        uint32_t member = choose(a, t, request, &c);
        if (member == 0)
            answer(a, run, request, &(htc_gang_end){ .here = 1 });
        else if (member != HTC_GANG_NONE && a->gateway_speaks < HTC_WIRE_VERSION_GANGS)
            refuse(a, run, request, HTC_EUNSUPPORTED, "the gateway is of an earlier version, and passes nothing on to %.80s", c.node);
        else if (member != HTC_GANG_NONE && t->gang && t->gang->given[member] == HTC_GANG_STARTS_MAX)
            refuse(a, run, request, HTC_EFULL, "%u processes were started on %.80s: a task starts no more on one node", HTC_GANG_STARTS_MAX, c.node);
        else if (member != HTC_GANG_NONE)
            begin_start(a, t, request, member, c.words);
    }
}

static void left(htc_agent *a, uint64_t run, uint64_t request)
{
    gang_start *s;
    DL_FOREACH(a->gang_starts, s)
    if (s->run == run && s->request == request && !s->stop) {
        s->stop = 1;
        s->request = 0;
        s->tries = 0;
        say_start(a, s);
        return;
    }
}

int htc__agent_gang_event(htc_agent *a, const htc_input *in)
{
    htc_reader r = htc_reader_of(in->body);
    if (in->op != HTC_EVENT_GANG_ASKED && in->op != HTC_EVENT_GANG_LEFT)
        return 0;
    uint64_t run = htc_get_u64(&r), request = htc_get_u64(&r);
    if (in->op == HTC_EVENT_GANG_LEFT && htc_reader_done(&r) == HTC_OK)
        left(a, run, request);
    else if (in->op == HTC_EVENT_GANG_ASKED && r.status == HTC_OK)
        asked(a, run, request, htc_get_raw(&r, htc_reader_left(&r)));
    return 1;
}

static void heard_by_leader(htc_agent *a, const htc_gang_word *m)
{
    gang_start  *s;
    htc_gang_end e;
    DL_FOREACH(a->gang_starts, s)
    if (same(&s->attempt, &m->attempt) && s->member == m->member && s->number == m->start)
        break;
    if (m->kind == HTC_GANG_RUNS) {
        if (s && !s->stop)
            s->say_at = HTC_NEVER;
        return;
    }
    if (s && htc_gang_end_read(m->body, &e) != HTC_OK)
        refuse(a, s->run, s->request, HTC_EPROTO, "how it ended cannot be read");
    else if (s && s->request)
        answer_bytes(a, s->run, s->request, m->body);
    if (s)
        start_free(a, s);
    say_word(a, &m->attempt, m->member, m->start, HTC_GANG_SEEN, (htc_bytes){ 0 });
}

/* ---- of a member ---- */

static void process_free(htc_agent *a, gang_process *p)
{
    DL_DELETE(a->gang_processes, p);
    htc__free(&a->env, (void *)(uintptr_t)p->bytes.data, p->bytes.len);
    htc__free(&a->env, p, sizeof *p);
}

static void call_of(htc_agent *a, gang_process *p, uint32_t op, uint32_t number)
{
    htc_buf_clear(&a->buf);
    htc_put_u64(&a->buf, p->run);
    if (op == HTC_CALL_SIGNAL) {
        htc_put_u32(&a->buf, number);
        htc_put_u32(&a->buf, (uint32_t)HTC_EKILLED);
    } else {
        htc_put_u8(&a->buf, 0);
    }
    htc__agent_emit(a, &(htc_effect){ .kind = HTC_OUT_CALL, .op = op, .tag = p->run, .body = htc_buf_bytes(&a->buf) });
}

static void over(htc_agent *a, gang_process *p, htc_bytes end)
{
    if (!copy(a, &p->bytes, end))
        return;
    p->phase = GANG_OVER;
    p->kill_at = HTC_NEVER;
    p->tries = 0;
    p->say_at = a->holder.now;
}

static void over_with(htc_agent *a, gang_process *p, htc_status status, const char *reason)
{
    htc_gang_end e = { .status = status };
    htc_buf      b;
    snprintf(e.reason, sizeof e.reason, "%s", reason);
    htc_buf_init(&b, &a->env, 0);
    htc_gang_end_write(&b, &e);
    if (b.status != HTC_OK)
        a->holder.failed = b.status;
    else
        over(a, p, htc_buf_bytes(&b));
    htc_buf_free(&b);
}

/* As the gang's task, but for what it runs. */
static htc_status process_task(htc_agent *a, const agent_held *t, htc_bytes words, htc_bytes *out)
{
    size_t       n = htc_gang_words(words), i = 0;
    const char **args = htc__alloc(&a->env, n * sizeof *args), *at = (const char *)words.data;
    htc_task    *task = NULL;
    htc_status   status = args ? htc_task_from_bytes(&a->env, t->attempt.task, &task) : HTC_ENOMEM;
    if (status == HTC_OK) {
        htc_task of = *task;
        of.executable = at;
        for (at += strlen(at) + 1; i + 1 < n; at += strlen(at) + 1)
            args[i++] = at;
        of.args = args; /* the last place is NULL */
        of.n_args = i;
        of.input = of.output = of.error = NULL;
        of.n_in = of.n_out = 0;
        of.limits.wall = 0;
        status = htc_task_to_bytes(&a->env, &of, out);
    }
    htc_task_destroy(task);
    htc__free(&a->env, args, n * sizeof *args);
    return status;
}

static void process_begin(htc_agent *a, const agent_held *t, gang_process *p)
{
    htc_bytes  task = { 0 };
    htc_status status = process_task(a, t, p->bytes, &task);
    if (status == HTC_ENOMEM) {
        a->holder.failed = status;
        return;
    }
    if (status != HTC_OK) {
        over_with(a, p, status, "its command is no task's");
        return;
    }
    p->run = ++a->last_run;
    p->phase = GANG_RUNS;
    htc_buf_clear(&a->buf);
    htc_put_u64(&a->buf, t->attempt.run);
    htc_put_u64(&a->buf, p->run);
    htc_put_bytes(&a->buf, task);
    htc_work_free(&a->env, task);
    htc__agent_emit(a, &(htc_effect){ .kind = HTC_OUT_CALL, .op = HTC_CALL_GANG_RUN, .tag = p->run, .body = htc_buf_bytes(&a->buf) });
}

static gang_process *process_new(htc_agent *a, const htc_gang_word *m)
{
    gang_process *p = htc__alloc(&a->env, sizeof *p);
    if (!p || !copy(a, &p->bytes, m->body)) {
        a->holder.failed = HTC_ENOMEM;
        htc__free(&a->env, p, sizeof *p);
        return NULL;
    }
    p->attempt = m->attempt;
    p->member = m->member;
    p->number = m->start;
    p->say_at = p->kill_at = HTC_NEVER;
    DL_APPEND(a->gang_processes, p);
    return p;
}

static void stop(htc_agent *a, gang_process *p)
{
    if (p->phase == GANG_WAITS) {
        over_with(a, p, HTC_ECANCELLED, "stopped before it began");
    } else if (p->phase == GANG_RUNS && !p->stopped) {
        p->stopped = 1;
        p->kill_at = a->holder.now + a->holder.kill_after_ns;
        call_of(a, p, HTC_CALL_SIGNAL, SIGTERM);
    }
}

static void heard_by_member(htc_agent *a, agent_held *t, const htc_gang_word *m)
{
    struct agent_gang *g = gang_of(a, t);
    gang_process      *p;
    uint32_t           at_once = 0;
    DL_FOREACH(a->gang_processes, p)
    at_once += same(&p->attempt, &m->attempt);
    DL_FOREACH(a->gang_processes, p)
    if (same(&p->attempt, &m->attempt) && p->number == m->start)
        break;
    if (!g || (t->attempt.order != ORDER_NONE && !p))
        return;
    int known = g->begun[m->start / 8] >> (m->start % 8) & 1;
    if (m->kind == HTC_GANG_SEEN && p && p->phase == GANG_OVER) {
        process_free(a, p);
        return;
    }
    if (m->kind == HTC_GANG_SEEN || (known && !p))
        return;
    if (!p && !(p = process_new(a, m)))
        return;
    g->begun[m->start / 8] |= (uint8_t)(1u << m->start % 8);
    if (!known && at_once >= HTC_GANG_AT_ONCE + HTC_GANG_AT_ONCE / 2) /* some may have ended, and the leader has not heard of it */
        over_with(a, p, HTC_EFULL, "too many processes of its gang on this node");
    if (m->kind == HTC_GANG_STOP)
        stop(a, p);
    if (p->phase == GANG_OVER)
        p->say_at = a->holder.now;
    else if (m->kind == HTC_GANG_START)
        say_word(a, &p->attempt, p->member, p->number, HTC_GANG_RUNS, (htc_bytes){ 0 });
}

int htc__agent_gang_result(htc_agent *a, const htc_input *in)
{
    gang_process *p;
    htc_gang_end  e;
    char          text[200];
    if (in->op != HTC_CALL_GANG_RUN)
        return 0;
    DL_SEARCH_SCALAR(a->gang_processes, p, run, in->tag);
    if (!p || p->phase != GANG_RUNS)
        return 1;
    call_of(a, p, HTC_CALL_CLEAN, 0);
    snprintf(text, sizeof text, "%.*s", in->body.len < 180 ? (int)in->body.len : 180, in->body.len && in->status != HTC_OK ? (const char *)in->body.data : "");
    if (in->status != HTC_OK)
        over_with(a, p, in->status < 0 ? in->status : HTC_EREFUSED, text);
    else if (htc_gang_end_read(in->body, &e) != HTC_OK)
        over_with(a, p, HTC_EPROTO, "how it ended cannot be read");
    else
        over(a, p, in->body);
    return 1;
}

uint32_t htc__agent_gang_runs(const htc_agent *a, const agent_held *t)
{
    const gang_process *p;
    uint32_t            n = 0;
    DL_FOREACH(a->gang_processes, p)
    n += same(&p->attempt, &t->attempt.id) && p->phase == GANG_RUNS;
    return n;
}

/* ---- both ---- */

void htc__agent_gang_heard(htc_agent *a, const htc_gang_word *m)
{
    agent_held *t = htc__agent_find(a, &m->attempt);
    if (m->kind == HTC_GANG_RUNS || m->kind == HTC_GANG_ENDED)
        heard_by_leader(a, m);
    else if (t && t->member == m->member)
        heard_by_member(a, t, m);
}

void htc__agent_gang_step(htc_agent *a)
{
    gang_process *p, *next;
    gang_start   *s;
    DL_FOREACH_SAFE(a->gang_processes, p, next)
    {
        agent_held *t = htc__agent_find(a, &p->attempt);
        if (t && t->seat == SEAT_LEFT && p->phase != GANG_RUNS) {
            process_free(a, p);
            continue;
        }
        if (t && t->seat == SEAT_LEFT && p->stopped < 2) {
            p->stopped = 2; /* nobody waits for what it would still do */
            p->kill_at = HTC_NEVER;
            call_of(a, p, HTC_CALL_SIGNAL, SIGKILL);
        }
        if (t && t->seat == SEAT_WANTED && p->phase == GANG_WAITS)
            process_begin(a, t, p);
        if (a->holder.now >= p->kill_at) {
            p->kill_at = HTC_NEVER;
            call_of(a, p, HTC_CALL_SIGNAL, SIGKILL);
        }
        if (p->phase == GANG_OVER && a->registered && a->holder.now >= p->say_at) {
            say_word(a, &p->attempt, p->member, p->number, HTC_GANG_ENDED, p->bytes);
            p->say_at = a->holder.now + htc__attempt_backoff(&a->holder, &p->tries);
        }
    }
    DL_FOREACH(a->gang_starts, s)
    if (a->registered && a->holder.now >= s->say_at)
        say_start(a, s);
}

htc_ns htc__agent_gang_deadline(const htc_agent *a)
{
    const gang_process *p;
    const gang_start   *s;
    htc_ns              at = HTC_NEVER;
    DL_FOREACH(a->gang_processes, p)
    {
        at = p->kill_at < at ? p->kill_at : at;
        at = p->phase == GANG_OVER && a->registered && p->say_at < at ? p->say_at : at;
    }
    DL_FOREACH(a->gang_starts, s)
    at = a->registered && s->say_at < at ? s->say_at : at;
    return at;
}

void htc__agent_gang_repeat(htc_agent *a)
{
    gang_process *p;
    gang_start   *s;
    DL_FOREACH(a->gang_processes, p)
    {
        p->tries = 0;
        p->say_at = a->holder.now;
    }
    DL_FOREACH(a->gang_starts, s)
    {
        s->tries = 0;
        s->say_at = a->holder.now; /* one that runs is told of again, which does no harm */
    }
}

void htc__agent_gang_forget(htc_agent *a, agent_held *t)
{
    gang_process *p, *next;
    gang_start   *s, *after;
    DL_FOREACH_SAFE(a->gang_processes, p, next)
    if (same(&p->attempt, &t->attempt.id)) {
        if (p->phase == GANG_RUNS && a->holder.out)
            call_of(a, p, HTC_CALL_CLEAN, 0); /* which ends it */
        process_free(a, p);
    }
    DL_FOREACH_SAFE(a->gang_starts, s, after)
    if (same(&s->attempt, &t->attempt.id))
        start_free(a, s);
    htc__free(&a->env, t->gang, sizeof *t->gang);
    t->gang = NULL;
}
