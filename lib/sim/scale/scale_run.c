/* The loop of a scale run: events one after the other, or in windows in which parts do not hear of each other; and its host. */
#include <assert.h>
#include <string.h>

#include "sim/scale/scale_private.h"

/* Events between two looks at the host, and how long these may take by its clock: what an event costs is the model's affair. */
#define LOOK_FIRST 1024u
#define LOOK_MOST  65536u
#define LOOK_NS    (20 * HTC_MS)
#define AHEAD      12u /* events between htc_scale_options.soon and the event */
#define NEAR       5u  /* and between next and the event */

/* ---- the host ---- */

static htc_ns clock_of(const run *r)
{
    return r->host.clock ? r->host.clock(r->host.ctx) : 0;
}

static void tell(run *r, htc_ns now)
{
    ledger             l = htc__scale_ledger(r);
    uint64_t           total = r->options.tasks > l.submitted ? r->options.tasks : l.submitted;
    htc_scale_progress p = { .size = sizeof p, .done = l.ended, .total = total, .events = htc__scale_events(r),
                             .at = (htc_ns)htc__scale_now(r) * r->options.tick_ns, .spent = now - r->begun };
    if (p.spent)
        p.rate = (double)(p.done - r->done_before) * 1e9 / (double)p.spent;
    if (p.rate > 0 && p.total > p.done)
        p.left = (htc_ns)((double)(p.total - p.done) * 1e9 / p.rate);
    r->told = now;
    r->host.progress(r->host.ctx, &p);
}

static void begin(run *r)
{
    r->look_every = LOOK_FIRST;
    r->look_events = r->events_before = htc__scale_events(r);
    r->stop_at = r->host.stop_after && r->host.stop_after < UINT64_MAX - r->events_before ? r->events_before + r->host.stop_after : UINT64_MAX;
    r->begun = r->told = r->looked = clock_of(r);
    r->done_before = htc__scale_ledger(r).ended;
}

/* 1: the host stops the run. */
static int look_at_host(run *r)
{
    htc_ns now = clock_of(r);
    if (r->host.clock && now - r->looked > LOOK_NS)
        r->look_every = r->look_every > 1 ? r->look_every / 2 : 1;
    else if (r->host.clock && now - r->looked < LOOK_NS / 4 && r->look_every < LOOK_MOST)
        r->look_every *= 2;
    r->looked = now;
    if (r->host.progress && (!r->host.clock || now - r->told >= r->host.progress_ns))
        tell(r, now);
    return r->host.stop && *r->host.stop;
}

/* ---- events ---- */

/* What the loops need of the options at hand: they do not change. */
typedef struct calls {
    void (*event)(htc_scale *scale, void *ctx, uint32_t id);
    void (*soon)(const void *ctx, uint32_t id);
    void (*next)(const void *ctx, uint32_t id);
    void    *ctx;
    uint64_t id_mask;
} calls;

static calls calls_of(const htc_scale *s)
{
    const htc_scale_options *o = &s->run->options;
    return (calls){ o->event, o->soon, o->next, o->ctx, (UINT64_C(1) << s->id_bits) - 1 };
}

static inline uint32_t id_behind(const ladder *q, uint32_t n, const calls *c)
{
    return (uint32_t)(q->bottom[q->bottom_n - 1 - n] & c->id_mask);
}

static void look_at_first(ladder *q, const calls *c)
{
    for (uint32_t i = 0; i <= AHEAD && i < q->bottom_n; i++)
        c->soon(c->ctx, id_behind(q, i, c));
    for (uint32_t i = 0; c->next && i < NEAR && i < q->bottom_n; i++)
        c->next(c->ctx, id_behind(q, i, c));
}

/* The next keys are known while they are sorted; others may come between. */
static inline void look_ahead(ladder *q, const calls *c)
{
    if (q->bottom_n > AHEAD)
        c->soon(c->ctx, id_behind(q, AHEAD, c));
    else if (q->bottom_n == 0 && q->side_n == 0 && htc__ladder_refill(q))
        look_at_first(q, c);
    if (c->next && q->bottom_n > NEAR)
        c->next(c->ctx, id_behind(q, NEAR, c));
}

static inline void happen(htc_scale *s, uint64_t key, const calls *c)
{
    assert(key >> s->id_bits >= s->now); /* time does not run backwards */
    htc__scale_take(s, key);
    c->event(s, c->ctx, (uint32_t)(key & c->id_mask));
}

static htc_status run_alone(run *r)
{
    htc_scale  *s = &r->part[0];
    const calls c = calls_of(s);
    uint64_t    key;
    while (s->status == HTC_OK) {
        uint64_t most = r->stop_at - s->events;
        for (uint64_t left = r->look_every < most ? r->look_every : most; left && s->status == HTC_OK; left--) {
            if (c.soon)
                look_ahead(s->queue, &c);
            if (!htc__ladder_pop(s->queue, &key))
                return HTC_OK;
            happen(s, key, &c);
        }
        if (s->status == HTC_OK && (s->events == r->stop_at || look_at_host(r)))
            return htc__scale_pending(r) ? HTC_AGAIN : HTC_OK;
    }
    return s->status;
}

/* ---- windows ---- */

static void run_window(void *arg, uint32_t i)
{
    htc_scale  *s = &((run *)arg)->part[i];
    const calls c = calls_of(s);
    uint64_t    key;
    s->running = 1;
    while (s->status == HTC_OK && htc__ladder_peek(s->queue, &key) && key >> s->id_bits < s->window_end && htc__ladder_pop(s->queue, &key)) {
        if (c.soon)
            look_ahead(s->queue, &c);
        happen(s, key, &c);
    }
    s->running = 0;
}

/* What others have for this part. The queue puts it in order. */
static void take_messages(void *arg, uint32_t i)
{
    run       *r = arg;
    htc_scale *s = &r->part[i];
    for (uint32_t k = 0; k < r->parts; k++) {
        outbox *box = &r->part[k].out[i];
        if (box->n > s->queue->count_max - s->queue->count)
            htc_scale_fail(s, HTC_EFULL);
        for (size_t m = 0; m < box->n && s->status == HTC_OK; m++)
            htc__ladder_push(s->queue, box->key[m]);
        box->n = 0;
    }
}

void htc__scale_each_part(run *r, void (*work)(void *arg, uint32_t i))
{
    if (r->host.parallel)
        r->host.parallel(r->host.ctx, r->parts, work, r);
    else
        for (uint32_t i = 0; i < r->parts; i++)
            work(r, i);
}

/* The next window begins at the earliest event: time in which nothing happens costs nothing. 0: nothing is pending. */
static int next_window(run *r)
{
    uint64_t first = UINT64_MAX, key;
    for (uint32_t i = 0; i < r->parts; i++)
        if (htc__ladder_peek(r->part[i].queue, &key) && key >> r->part[i].id_bits < first)
            first = key >> r->part[i].id_bits;
    for (uint32_t i = 0; i < r->parts; i++)
        r->part[i].window_end = first + r->window;
    return first != UINT64_MAX;
}

static htc_status run_windows(run *r)
{
    while (htc__scale_status(r) == HTC_OK && next_window(r)) {
        htc__scale_each_part(r, run_window);
        htc__scale_each_part(r, take_messages);
        if (htc__scale_events(r) >= r->stop_at && htc__scale_status(r) == HTC_OK)
            return htc__scale_pending(r) ? HTC_AGAIN : HTC_OK;
        if (htc__scale_events(r) - r->look_events < r->look_every)
            continue;
        r->look_events = htc__scale_events(r);
        if (htc__scale_status(r) == HTC_OK && look_at_host(r))
            return htc__scale_pending(r) ? HTC_AGAIN : HTC_OK;
    }
    return htc__scale_status(r);
}

/* Parts whose ids the model knows: it lets them happen, some at a time. What is settled together may go beyond where the run is to stop. */
static htc_status run_turns(run *r)
{
    for (int more = 1; more && htc__scale_status(r) == HTC_OK;) {
        uint64_t now = htc__scale_events(r), most = r->stop_at > now ? r->stop_at - now : 0;
        more = most && r->turn(r, r->look_every < most ? r->look_every : most);
        if (htc__scale_status(r) == HTC_OK && (htc__scale_events(r) >= r->stop_at || (more && look_at_host(r))))
            return htc__scale_pending(r) ? HTC_AGAIN : HTC_OK;
    }
    return htc__scale_status(r);
}

htc_status htc_scale_run(htc_scale *scale)
{
    run *r = scale->run;
    begin(r);
    if (r->shared)
        return run_turns(r);
    return r->parts == 1 ? run_alone(r) : run_windows(r);
}
