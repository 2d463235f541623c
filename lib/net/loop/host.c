/* The live loop: stamps inputs, steps the machine, carries out its effects in order. */
#include <assert.h>
#include <fcntl.h>
#include <signal.h>
#include <sodium.h>
#include <stddef.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/timerfd.h>
#include <time.h>
#include <unistd.h>

#include "net/loop/guest.h"
#include "net/loop/host_private.h"
#include "htcsched/calls.h"
#include "roles/runtime/agent_wire.h"

/* Of one step, in all: a batch, messages to other members and answers, each bounded by itself and as large as the largest values make them. */
#define OUTPUT_MAX    ((size_t)256 << 20)
#define SAID_MAX      ((size_t)64 << 10)
#define SPEAKS_MAX    (500 * HTC_US)
#define STOP_PATIENCE HTC_SECOND /* what was sent before the end may take this long to leave */

/* An input that came while the machine was in a step. */
struct htc__queued {
    htc_input    in;
    htc__queued *next;
    uint8_t      body[];
};

htc_ns htc_host_now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (htc_ns)t.tv_sec * HTC_SECOND + (htc_ns)t.tv_nsec;
}

htc_ns htc_host_wall(void)
{
    struct timespec t;
    clock_gettime(CLOCK_REALTIME, &t);
    return (htc_ns)t.tv_sec * HTC_SECOND + (htc_ns)t.tv_nsec;
}

void htc_host_random(void *bytes, size_t n)
{
    if (sodium_init() >= 0)
        randombytes_buf(bytes, n);
}

void htc__host_pump(htc_host *host)
{
    event_active(host->pump, EV_TIMEOUT, 0);
}

void htc__host_hook(htc_host *host, htc__hook *hook)
{
    hook->next = host->hooks;
    host->hooks = hook;
}

void htc_host_stop(htc_host *host, htc_status status)
{
    if (host->stopped)
        return;
    host->stopped = 1;
    host->status = status;
    event_base_loopbreak(host->base);
}

/* --- commits --- */

static void tell_stored(htc_host *h, htc_bytes batches, htc_status status)
{
    htc_reader r = htc_reader_of(batches);
    while (htc_reader_left(&r)) {
        uint64_t tag = htc_get_u64(&r);
        (void)htc_get_bytes(&r);
        htc__host_deliver(h, &(htc_input){ .size = sizeof(htc_input), .kind = HTC_IN_STORED, .tag = tag, .status = status });
    }
}

static void commit_work(void *ctx)
{
    htc_host  *h = ctx;
    htc_reader r = htc_reader_of(htc_buf_bytes(&h->commit_active));
    h->commit_status = HTC_OK;
    while (h->commit_status == HTC_OK && htc_reader_left(&r)) {
        (void)htc_get_u64(&r);
        h->commit_status = h->commit(h->commit_ctx, htc_get_bytes(&r));
    }
}

static void commit_start(htc_host *h);

static void commit_done(void *ctx)
{
    htc_host *h = ctx;
    assert(h->commit_running);
    /* Running still: the machine, told, may ask for the next one at once, which must not take this buffer's place yet. */
    tell_stored(h, htc_buf_bytes(&h->commit_active), h->commit_status);
    htc_buf_clear(&h->commit_active);
    h->commit_running = 0;
    commit_start(h);
}

/* What was asked for while a commit ran comes next. */
static void commit_start(htc_host *h)
{
    if (h->commit_running || h->commit_waiting.len == 0)
        return;
    assert(h->commit_active.len == 0); /* all of the commit before is told */
    htc_buf swap = h->commit_active;
    h->commit_active = h->commit_waiting;
    h->commit_waiting = swap;
    h->commit_running = 1;
    htc_status status = htc_host_work(h, commit_work, commit_done, h);
    if (status != HTC_OK) {
        h->commit_status = status;
        commit_done(h);
    }
}

static void commit(htc_host *h, uint64_t tag, htc_bytes batch)
{
    if (!h->commit || !h->commit_threaded) {
        htc_status status = h->commit ? h->commit(h->commit_ctx, batch) : HTC_EUNSUPPORTED;
        htc__host_deliver(h, &(htc_input){ .size = sizeof(htc_input), .kind = HTC_IN_STORED, .tag = tag, .status = status });
        return;
    }
    htc_put_u64(&h->commit_waiting, tag);
    htc_put_bytes(&h->commit_waiting, batch);
    if (h->commit_waiting.status != HTC_OK)
        htc_host_stop(h, HTC_ENOMEM);
    else
        commit_start(h);
}

/* --- effects --- */

static void call(htc_host *h, const htc_effect *e)
{
    htc_status status = h->call ? h->call(h->call_ctx, h, e->op, e->tag, e->body) : HTC_EUNSUPPORTED;
    if (status != HTC_OK)
        htc_host_answer(h, e->op, e->tag, status, (htc_bytes){ 0 });
}

static void carry_out(htc_host *h)
{
    htc_effect e;
    for (size_t i = 0; htc_output_get(h->out, i, &e) == HTC_OK; i++) {
        htc__conn *c = e.peer ? htc__conn_find(h, e.peer) : NULL;
        if (!c && e.peer && h->guests && htc__guest_effect(h, &e))
            continue;
        switch ((htc_effect_kind)e.kind) {
        case HTC_OUT_MESSAGE:
            h->said += e.body.len;
            if (c)
                htc__conn_send(c, e.body);
            break;
        case HTC_OUT_FRAMES:
            h->said += e.body.len;
            if (c)
                htc__conn_send_frames(c, e.body);
            break;
        case HTC_OUT_LEFT:
            h->left = e.tag;
            break;
        case HTC_OUT_CLOSE:
            if (c)
                htc__conn_close(c, e.status);
            break;
        case HTC_OUT_CALL:
            call(h, &e);
            break;
        case HTC_OUT_COMMIT:
            commit(h, e.tag, e.body);
            break;
        case HTC_OUT_STOP:
            htc_host_stop(h, e.status);
            break;
        case HTC_OUT_BYTES:
            h->said += e.body.len;
            if (c)
                htc__stream_send(c, e.body, e.tag);
            break;
        case HTC_OUT_HOLD:
            if (c)
                htc__stream_hold(c, e.op == 1);
            break;
        }
    }
}

/* --- inputs --- */

/* A timer of the kernel's own, set only for a moment that is nearer than what it is set to, as a rule once for many deadlines: one of libevent's
 * is told to the kernel with each wait, which costs a virtual machine an exit or two, and rings at whole milliseconds. Rung too early it is
 * set again. */
static void arm(htc_host *h)
{
    htc_ns deadline = h->ops->deadline(h->machine);
    if (deadline >= h->armed || h->stopped)
        return;
    h->armed = deadline;
    struct itimerspec at = { .it_value = { (time_t)(deadline / HTC_SECOND), (long)(deadline % HTC_SECOND) } };
    if (deadline == 0 || timerfd_settime(h->timer_fd, TFD_TIMER_ABSTIME, &at, NULL) != 0)
        event_active(h->timer, EV_TIMEOUT, 0);
}

static void write_out(htc_host *h)
{
    h->said = 0;
    htc__streams_settle(h, 1);
}

/* A machine with turns speaks until its turn ends; one without until the loop waits again, but no longer than a moment and no more than
 * so many bytes: what it says in many steps is one write, and the other end need not wait for all of them. */
static int speaks_on(htc_host *h, htc_ns now, size_t said)
{
    if (h->stopped)
        return 0;
    if (h->turns)
        return h->turn_open;
    if (said == 0)
        h->said_at = now;
    return h->said < SAID_MAX && now - h->said_at < SPEAKS_MAX;
}

static void step(htc_host *h, const htc_input *in)
{
    size_t    said = h->said;
    htc_input stamped = *in;
    stamped.now = htc_host_now();
    stamped.wall = htc_host_wall();
    assert(!h->stepping); /* what comes during a step is queued */
    h->stepping = 1;
    h->turn_open = h->turns && in->kind != HTC_IN_TURN;
    htc_output_clear(h->out);
    htc_status status = h->ops->step(h->machine, &stamped, h->out);
    if (status < 0) {
        htc__log(h->env, HTC_LOG_ERROR, "the machine broke: %s -> end the loop", htc_status_name(status));
        htc_host_stop(h, status);
    } else {
        carry_out(h);
    }
    if (h->dirty && !speaks_on(h, stamped.now, said))
        write_out(h);
    else if (h->dirty && h->lent)
        htc__streams_settle(h, 0);
    htc__output_settle(h);
    h->stepping = 0;
}

static void enqueue(htc_host *h, const htc_input *in)
{
    htc__queued *q = htc__alloc_raw(h->env, sizeof *q + in->body.len);
    if (!q) {
        htc_host_stop(h, HTC_ENOMEM);
        return;
    }
    q->in = *in;
    if (in->body.len)
        memcpy(q->body, in->body.data, in->body.len);
    q->in.body.data = q->body;
    q->next = NULL;
    *h->queue_last = q;
    h->queue_last = &q->next;
}

static void pop(htc_host *h)
{
    htc__queued *q = h->queue_first;
    h->queue_first = q->next;
    if (!h->queue_first)
        h->queue_last = &h->queue_first;
    htc__free(h->env, q, sizeof *q + q->in.body.len);
}

/* What queued up during steps, but not for ever: sockets want their turn too. */
static void drain(htc_host *h)
{
    for (int i = 0; i < 1024 && h->queue_first && !h->stopped; i++) {
        step(h, &h->queue_first->in);
        pop(h);
    }
    if (h->queue_first)
        htc__host_pump(h);
    if (!h->turn_open)
        arm(h); /* else when the turn ends */
}

void htc__host_deliver(htc_host *host, const htc_input *in)
{
    if (host->stopped || !host->running)
        return;
    if (host->stepping || host->queue_first) {
        enqueue(host, in);
        htc__host_pump(host);
        return;
    }
    step(host, in);
    drain(host);
}

size_t htc__host_deliver_frames(htc_host *host, const htc_input *in)
{
    if (!host->frames || host->stepping || host->queue_first || host->stopped || !host->running)
        return 0;
    host->left = 0;
    step(host, in);
    size_t left = host->left < in->body.len ? host->left : 0;
    drain(host);
    return in->body.len - left;
}

/* All that was ready has been handed over: the machine may do at once what is cheaper for many. What comes of it (a
 * commit in this thread is over at once) opens the next turn, but not for ever: sockets want theirs too. */
static void end_turn(htc_host *h)
{
    for (int i = 0; i < 16 && h->turn_open && !h->stopped; i++) {
        step(h, &(htc_input){ .size = sizeof(htc_input), .kind = HTC_IN_TURN });
        drain(h);
    }
    if (h->turn_open)
        htc__host_pump(h);
}

static void on_pump(evutil_socket_t fd, short what, void *arg)
{
    htc_host *h = arg;
    (void)fd, (void)what;
    htc__conn_reap(h);
    if (h->queue_first)
        drain(h);
}

static void on_deadline(evutil_socket_t fd, short what, void *arg)
{
    htc_host *h = arg;
    uint64_t  rung;
    if (what & EV_READ && read(fd, &rung, sizeof rung) < 0)
        return; /* it was set again meanwhile */
    h->armed = HTC_NEVER;
    if (h->ops->deadline(h->machine) <= htc_host_now())
        htc__host_deliver(h, &(htc_input){ .size = sizeof(htc_input), .kind = HTC_IN_TIMEOUT });
    else
        arm(h);
}

static void on_signal(evutil_socket_t number, short what, void *arg)
{
    htc_host *h = arg;
    (void)what;
    int at_once = number == SIGQUIT || h->signals_seen > 0;
    h->signals_seen++;
    htc__log(h->env, HTC_LOG_INFO, "signal %d -> %s", number, at_once ? "end at once" : "end");
    htc_host_event(h, HTC_EVENT_SHUTDOWN, at_once ? HTC_EKILLED : HTC_OK, (htc_bytes){ 0 });
}

/* --- the public door --- */

void htc_host_on_call(htc_host *host, htc_host_call_fn fn, void *ctx)
{
    host->call = fn;
    host->call_ctx = ctx;
}

void htc_host_on_commit(htc_host *host, htc_host_commit_fn fn, void *ctx, uint32_t threaded)
{
    host->commit = fn;
    host->commit_ctx = ctx;
    host->commit_threaded = threaded;
}

/* Always in turn, never at once: the caller may hold what the machine, stepped now, would ask it to give up. */
static htc_status later(htc_host *h, const htc_input *in)
{
    if (h->stopped || !h->running)
        return HTC_ECLOSED;
    enqueue(h, in);
    htc__host_pump(h);
    return HTC_OK;
}

htc_status htc_host_answer(htc_host *host, uint32_t op, uint64_t tag, htc_status status, htc_bytes body)
{
    return later(host,
                 &(htc_input){ .size = sizeof(htc_input), .kind = HTC_IN_RESULT, .op = op, .tag = tag, .status = status, .body = body });
}

htc_status htc_host_event(htc_host *host, uint32_t op, htc_status status, htc_bytes body)
{
    return later(host, &(htc_input){ .size = sizeof(htc_input), .kind = HTC_IN_EVENT, .op = op, .status = status, .body = body });
}

htc_status htc_host_work(htc_host *host, void (*work)(void *ctx), void (*done)(void *ctx), void *ctx)
{
    if (!host || !work)
        return HTC_EINVAL;
    return htc__pool_add(host->pool, work, done, ctx);
}

htc_status htc_host_post(htc_host *host, void (*fn)(void *ctx), void *ctx)
{
    return host && fn ? htc__pool_post(host->pool, fn, ctx) : HTC_EINVAL;
}

static void on_hangup(evutil_socket_t number, short what, void *arg)
{
    htc_host *h = arg;
    (void)number, (void)what;
    h->on_hangup(h->hangup_ctx);
}

htc_status htc_host_on_hangup(htc_host *host, void (*fn)(void *ctx), void *ctx)
{
    if (!host || !fn || host->hangup || !host->options.handle_signals)
        return HTC_EINVAL;
    host->on_hangup = fn;
    host->hangup_ctx = ctx;
    host->hangup = evsignal_new(host->base, SIGHUP, on_hangup, host);
    return host->hangup && event_add(host->hangup, NULL) == 0 ? HTC_OK : HTC_ENOMEM;
}

static void set_defaults(htc_host_options *o)
{
    struct rlimit files;
    if (!o->connections_max)
        o->connections_max = 1024;
    /* The rest is for what the host itself opens: files, pipes, processes. */
    if (getrlimit(RLIMIT_NOFILE, &files) == 0 && files.rlim_cur != RLIM_INFINITY) {
        rlim_t room = files.rlim_cur > 80 ? files.rlim_cur - 64 : 16;
        if (o->connections_max > room)
            o->connections_max = (uint32_t)room;
    }
    o->workers = o->workers ? o->workers : 4;
    o->output_bytes_max = o->output_bytes_max ? o->output_bytes_max : (size_t)64 << 20;
    o->output_bytes_low = o->output_bytes_low ? o->output_bytes_low : (size_t)4 << 20;
    o->output_bytes_all = o->output_bytes_all ? o->output_bytes_all : (size_t)64 << 20;
    o->handshake_ns = o->handshake_ns ? o->handshake_ns : 30 * HTC_SECOND;
    o->redial_ns = o->redial_ns ? o->redial_ns : 20 * HTC_MS;
    o->redial_max_ns = o->redial_max_ns ? o->redial_max_ns : 2 * HTC_SECOND;
}

static htc_status open_base(htc_host *h)
{
    struct event_config *config = event_config_new();
    if (!config)
        return HTC_ENOMEM;
    /* No cached time: the machine's clock and the timers' must not drift apart within a turn of the loop. */
    event_config_set_flag(config, EVENT_BASE_FLAG_NO_CACHE_TIME | EVENT_BASE_FLAG_IGNORE_ENV);
    h->base = event_base_new_with_config(config);
    event_config_free(config);
    if (!h->base)
        return HTC_ENOMEM;
    h->timer_fd = timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC);
    h->timer = h->timer_fd < 0 ? NULL : event_new(h->base, h->timer_fd, EV_READ | EV_PERSIST, on_deadline, h);
    h->pump = evtimer_new(h->base, on_pump, h);
    return h->timer && h->pump && event_add(h->timer, NULL) == 0 ? HTC_OK : HTC_ENOMEM;
}

static htc_status open_signals(htc_host *h)
{
    static const int numbers[3] = { SIGTERM, SIGINT, SIGQUIT };
    for (int i = 0; i < 3; i++) {
        h->signals[i] = evsignal_new(h->base, numbers[i], on_signal, h);
        if (!h->signals[i] || event_add(h->signals[i], NULL) != 0)
            return HTC_ENOMEM;
    }
    return HTC_OK;
}

htc_status htc_host_create(const htc_env *env, const htc_host_options *options, htc_host **out)
{
    if (!out)
        return HTC_EINVAL;
    if (sodium_init() < 0)
        return HTC_EINTERNAL;
    htc_host *h = htc__alloc(env, sizeof *h);
    if (!h)
        return HTC_ENOMEM;
    h->env = env;
    h->armed = HTC_NEVER;
    h->timer_fd = -1;
    h->dirty_last = &h->dirty;
    h->queue_last = &h->queue_first;
    h->outside_last = &h->outside;
    htc_buf_init(&h->commit_waiting, env, 0);
    htc_buf_init(&h->commit_active, env, 0);
    h->spare_fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
    if (env && env->rng)
        h->rng = htc_rng_fork(env->rng, "host");
    else
        randombytes_buf(&h->rng, sizeof h->rng);
    htc_status status =
        options ? htc__options_copy(&h->options, sizeof h->options, options, options->size, sizeof(size_t)) : HTC_OK;
    set_defaults(&h->options);
    if (status == HTC_OK)
        status = open_base(h);
    if (status == HTC_OK)
        status = htc_output_create(env, OUTPUT_MAX, &h->out);
    if (status == HTC_OK)
        status = htc__pool_create(h, h->options.workers, &h->pool);
    if (status == HTC_OK && h->options.handle_signals)
        status = open_signals(h);
    if (status != HTC_OK) {
        htc_host_destroy(h);
        return status;
    }
    *out = h;
    return HTC_OK;
}

void htc_host_destroy(htc_host *h)
{
    if (!h)
        return;
    h->stopped = 1;
    htc__pool_destroy(h->pool);
    while (h->hooks) {
        htc__hook *hook = h->hooks;
        h->hooks = hook->next;
        hook->fn(hook->ctx);
    }
    htc__listeners_free(h);
    htc__accept_balancer_free(h);
    htc__conns_free(h);
    while (h->hooks_late) {
        htc__hook *hook = h->hooks_late;
        h->hooks_late = hook->next;
        hook->fn(hook->ctx);
    }
    htc__free(h->env, h->stream_in, HTC_HOST_STREAM_IN);
    while (h->queue_first)
        pop(h);
    htc_buf_free(&h->commit_waiting);
    htc_buf_free(&h->commit_active);
    htc_output_destroy(h->out);
    struct event *events[] = { h->timer, h->pump, h->hangup, h->look, h->signals[0], h->signals[1], h->signals[2] };
    for (size_t i = 0; i < sizeof events / sizeof *events; i++)
        if (events[i])
            event_free(events[i]);
    if (h->base)
        event_base_free(h->base);
    if (h->timer_fd >= 0)
        close(h->timer_fd);
    if (h->spare_fd >= 0)
        close(h->spare_fd);
    htc__free(h->env, h, sizeof *h);
}

htc_status htc_host_run(htc_host *host, const htc_machine_ops *ops, void *machine)
{
    if (!host || !ops || !ops->step || !ops->deadline || host->running)
        return HTC_EINVAL;
    /* A peer that is gone is an error of the write, not a signal. Children get the default back (exec.c). */
    signal(SIGPIPE, SIG_IGN);
    host->ops = ops;
    host->machine = machine;
    uint32_t flags = ops->size >= offsetof(htc_machine_ops, flags) + sizeof ops->flags ? ops->flags : 0;
    host->turns = (flags & HTC_MACHINE_TURNS) != 0;
    host->frames = (flags & HTC_MACHINE_FRAMES) != 0;
    host->running = 1;
    htc__conn_start_dialling(host);
    htc__host_deliver(host, &(htc_input){ .size = sizeof(htc_input), .kind = HTC_IN_START });
    do {
        end_turn(host);
        if (host->dirty && !host->turns)
            write_out(host);
    } while (!host->stopped && event_base_loop(host->base, EVLOOP_ONCE) == 0);
    host->stopped = 1;
    htc__conns_flush_all(host, STOP_PATIENCE);
    return host->status;
}
