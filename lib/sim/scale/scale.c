/* A run of a scale model (htcsched/sim_scale.h): the loop, the ledger of what must be conserved, and what the host is told. */
#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "core/util.h"
#include "sim/scale/draw.h"
#include "sim/scale/ladder.h"

/* Events between two looks at the host, and how long these may take by its clock: what an event costs is the model's affair. */
#define LOOK_FIRST 1024u
#define LOOK_MOST  65536u
#define LOOK_NS    (20 * HTC_MS)

#define FORM UINT64_C(0x31656c6163737468) /* of a checkpoint; in another order of bytes it is another number */

/* What is counted, so that nothing is lost or made. Sums of ticks are modulo 2^64, which their differences do not notice. */
typedef struct ledger {
    uint64_t submitted, started, ended;
    uint64_t sent, received, lost;
    uint64_t begins, ends;          /* sums of the ticks at which tasks begin and end */
    uint64_t work, longest;         /* of those that were started */
    uint64_t first_submit, last_end;
    int      overflow;              /* work is beyond 2^64 ticks */
} ledger;

struct htc_scale {
    htc_env           env;
    htc_scale_options options;
    htc_scale_host    host;
    ladder           *queue;
    uint32_t          id_bits;
    uint64_t          tick_max, seed_state;
    htc_status        status;
    htc_ns            begun, told, looked; /* by the host's clock */
    uint32_t          look_every;
    uint64_t          done_before; /* tasks that had ended when this call began */
    /* From here on, and in the queue, is what a checkpoint has. */
    uint64_t          now, events, hash;
    ledger            ledger;
};

static uint32_t bits_for(uint64_t ids)
{
    uint32_t bits = 0;
    while (bits < 32 && UINT64_C(1) << bits < ids)
        bits++;
    return bits;
}

/* Checks and fills in what has a default. */
static htc_status known(const htc_scale_options *in, htc_scale_options *o, htc_scale_host *host)
{
    *o = (htc_scale_options){ .size = sizeof *o };
    *host = (htc_scale_host){ .size = sizeof *host };
    htc_status status = in ? htc__options_copy(o, sizeof *o, in, in->size, offsetof(htc_scale_options, host)) : HTC_EINVAL;
    if (status == HTC_OK && o->host)
        status = htc__options_copy(host, sizeof *host, o->host, o->host->size, offsetof(htc_scale_host, memory_max));
    if (status != HTC_OK)
        return status;
    o->host = NULL;
    o->events_max = o->events_max ? o->events_max : o->ids;
    o->tick_ns = o->tick_ns ? o->tick_ns : HTC_MS;
    host->progress_ns = host->progress_ns ? host->progress_ns : 200 * HTC_MS;
    return o->ids && o->ids <= HTC_SCALE_IDS_MAX && o->events_max < UINT32_MAX ? HTC_OK : HTC_EINVAL;
}

htc_status htc_scale_memory(const htc_scale_options *options, uint64_t *bytes)
{
    htc_scale_options o;
    htc_scale_host    host;
    htc_status        status = bytes ? known(options, &o, &host) : HTC_EINVAL;
    if (status == HTC_OK)
        *bytes = sizeof(htc_scale) + htc__ladder_memory(o.events_max);
    return status;
}

htc_status htc_scale_create(const htc_env *env, const htc_scale_options *options, htc_scale **out, htc_error *error)
{
    htc_scale_options o;
    htc_scale_host    host;
    uint64_t          bytes = 0;
    htc_status        status = out ? known(options, &o, &host) : HTC_EINVAL;
    if (status == HTC_OK && !o.event)
        status = HTC_EINVAL;
    if (status != HTC_OK)
        return htc__error(error, status, "the options of the run are out of range");
    (void)htc_scale_memory(&o, &bytes);
    if (host.memory_max && bytes > host.memory_max)
        return htc__error(error, HTC_ETOOBIG, "%llu events at once need %llu MiB, and %llu MiB are allowed", (unsigned long long)o.events_max,
                          (unsigned long long)(bytes >> 20), (unsigned long long)(host.memory_max >> 20));
    htc_scale *s = htc__alloc(env, sizeof *s);
    if (!s)
        return htc__error(error, HTC_ENOMEM, "no memory for the run");
    if (env)
        s->env = *env;
    s->options = o;
    s->host = host;
    s->id_bits = bits_for(o.ids);
    s->tick_max = LADDER_KEY_MAX >> s->id_bits;
    s->seed_state = htc__scale_mix(o.seed);
    s->ledger.first_submit = UINT64_MAX;
    status = htc__ladder_create(&s->env, o.events_max, s->id_bits, &s->queue);
    if (status != HTC_OK) {
        htc__free(env, s, sizeof *s);
        return htc__error(error, status, "no memory for %llu events: %llu MiB", (unsigned long long)o.events_max, (unsigned long long)(bytes >> 20));
    }
    *out = s;
    return HTC_OK;
}

void htc_scale_destroy(htc_scale *scale)
{
    if (!scale)
        return;
    htc_env env = scale->env;
    htc__ladder_destroy(&env, scale->queue);
    htc__free(&env, scale, sizeof *scale);
}

/* ---- events ---- */

void htc_scale_fail(htc_scale *scale, htc_status status)
{
    if (scale->status == HTC_OK)
        scale->status = status;
}

htc_status htc_scale_at(htc_scale *scale, uint64_t tick, uint32_t id)
{
    htc_status status = tick < scale->now || id >= scale->options.ids ? HTC_EINVAL
                        : tick > scale->tick_max                     ? HTC_ETOOBIG
                        : scale->queue->count >= scale->queue->count_max ? HTC_EFULL
                                                                         : HTC_OK;
    if (status != HTC_OK) {
        htc_scale_fail(scale, status);
        return status;
    }
    htc__ladder_push(scale->queue, tick << scale->id_bits | id);
    return HTC_OK;
}

uint64_t htc_scale_now(const htc_scale *scale)
{
    return scale->now;
}

uint64_t htc_scale_ticks(const htc_scale *scale, htc_ns span)
{
    htc_ns tick = scale->options.tick_ns;
    return span / tick + (span % tick >= tick - tick / 2);
}

uint64_t htc_scale_hash(const htc_scale *scale, uint64_t stream, uint64_t counter)
{
    return htc__scale_draw(htc__scale_stream(scale->options.seed, stream), counter);
}

uint64_t htc_scale_length(const htc_scale *scale, const htc_scale_law *law, uint64_t stream, uint64_t counter)
{
    htc__scale_drawer d = htc__scale_drawer_of(law, scale->options.tick_ns);
    return htc__scale_drawer_ticks(&d, htc_scale_hash(scale, stream, counter));
}

/* A sum, so that it does not depend on the order in which parts of a run are gone through. */
void htc_scale_mark(htc_scale *scale, uint64_t word)
{
    scale->hash += htc__scale_mix(htc__scale_mix(scale->seed_state + scale->now) ^ word);
}

/* ---- the ledger ---- */

void htc_scale_submit(htc_scale *scale, uint64_t tasks)
{
    ledger *l = &scale->ledger;
    l->submitted += tasks;
    if (tasks && scale->now < l->first_submit)
        l->first_submit = scale->now;
}

htc_status htc_scale_start(htc_scale *scale, uint32_t id, uint64_t delay, uint64_t length)
{
    ledger    *l = &scale->ledger;
    uint64_t   begin = scale->now + delay;
    htc_status status = delay > scale->tick_max || length > scale->tick_max ? HTC_ETOOBIG : HTC_OK;
    if (status == HTC_OK)
        status = htc_scale_at(scale, begin + length, id);
    if (status != HTC_OK) {
        htc_scale_fail(scale, status);
        return status;
    }
    l->started++;
    l->begins += begin;
    l->overflow |= l->work > UINT64_MAX - length;
    l->work += length;
    l->longest = length > l->longest ? length : l->longest;
    return HTC_OK;
}

void htc_scale_end(htc_scale *scale)
{
    ledger *l = &scale->ledger;
    l->ended++;
    l->ends += scale->now;
    l->last_end = scale->now;
}

void htc_scale_messages(htc_scale *scale, uint64_t sent, uint64_t received, uint64_t lost)
{
    scale->ledger.sent += sent;
    scale->ledger.received += received;
    scale->ledger.lost += lost;
}

/* ---- the loop ---- */

static uint64_t total_of(const htc_scale *s)
{
    return s->options.tasks > s->ledger.submitted ? s->options.tasks : s->ledger.submitted;
}

static void tell(htc_scale *s, htc_ns now)
{
    htc_scale_progress p = { .size = sizeof p, .done = s->ledger.ended, .total = total_of(s), .events = s->events,
                             .at = (htc_ns)s->now * s->options.tick_ns, .spent = now - s->begun };
    uint64_t           here = p.done - s->done_before;
    if (p.spent)
        p.rate = (double)here * 1e9 / (double)p.spent;
    if (p.rate > 0 && p.total > p.done)
        p.left = (htc_ns)((double)(p.total - p.done) * 1e9 / p.rate);
    s->told = now;
    s->host.progress(s->host.ctx, &p);
}

/* 1: the host stops the run. */
static int look_at_host(htc_scale *s)
{
    htc_ns now = s->host.clock ? s->host.clock(s->host.ctx) : 0;
    if (s->host.clock && now - s->looked > LOOK_NS)
        s->look_every = s->look_every > 1 ? s->look_every / 2 : 1;
    else if (s->host.clock && now - s->looked < LOOK_NS / 4 && s->look_every < LOOK_MOST)
        s->look_every *= 2;
    s->looked = now;
    if (s->host.progress && (!s->host.clock || now - s->told >= s->host.progress_ns))
        tell(s, now);
    return s->host.stop && *s->host.stop;
}

htc_status htc_scale_run(htc_scale *s)
{
    uint64_t id_mask = (UINT64_C(1) << s->id_bits) - 1, key;
    s->look_every = LOOK_FIRST;
    s->begun = s->told = s->looked = s->host.clock ? s->host.clock(s->host.ctx) : 0;
    s->done_before = s->ledger.ended;
    while (s->status == HTC_OK) {
        for (uint32_t left = s->look_every; left && s->status == HTC_OK; left--) {
            if (!htc__ladder_pop(s->queue, &key))
                return s->status;
            assert(key >> s->id_bits >= s->now); /* time does not run backwards */
            s->now = key >> s->id_bits;
            s->hash += htc__scale_mix(key ^ s->seed_state);
            s->events++;
            s->options.event(s, s->options.ctx, (uint32_t)(key & id_mask));
        }
        if (s->status == HTC_OK && look_at_host(s))
            return s->queue->count ? HTC_AGAIN : HTC_OK;
    }
    return s->status;
}

/* ---- a checkpoint ---- */

htc_status htc_scale_move(htc_scale *s, const htc_scale_tape *tape)
{
    htc_scale_tape t = { .size = sizeof t };
    htc_status     status = s && tape ? htc__options_copy(&t, sizeof t, tape, tape->size, offsetof(htc_scale_tape, ctx)) : HTC_EINVAL;
    uint64_t       head[] = { FORM, sizeof *s, sizeof *s->queue, s ? s->options.seed : 0, s ? s->options.ids : 0, s ? s->options.events_max : 0,
                              s ? s->options.cores : 0, s ? s->options.tick_ns : 0 };
    uint64_t       found[sizeof head / sizeof *head];
    if (status != HTC_OK || !t.move)
        return status != HTC_OK ? status : HTC_EINVAL;
    memcpy(found, head, sizeof head);
    status = t.move(t.ctx, found, sizeof found);
    if (status == HTC_OK && memcmp(found, head, sizeof head) != 0)
        status = HTC_EFORMAT;
    if (status == HTC_OK)
        status = t.move(t.ctx, &s->now, sizeof *s - offsetof(struct htc_scale, now));
    return status == HTC_OK ? htc__ladder_move(s->queue, &t) : status;
}

/* ---- the report ---- */

static double seconds(const htc_scale *s, uint64_t ticks)
{
    return (double)ticks * (double)s->options.tick_ns / 1e9;
}

static void check(const htc_scale *s, htc_scale_report *r)
{
    const ledger *l = &s->ledger;
    uint64_t      span = l->ended ? l->last_end - l->first_submit : 0;
    if (l->ended > l->started || l->started > l->submitted)
        snprintf(r->wrong, sizeof r->wrong, "%llu tasks were submitted, %llu started and %llu ended", (unsigned long long)l->submitted,
                 (unsigned long long)l->started, (unsigned long long)l->ended);
    else if (l->received + l->lost > l->sent)
        snprintf(r->wrong, sizeof r->wrong, "%llu messages were sent, %llu received and %llu lost", (unsigned long long)l->sent,
                 (unsigned long long)l->received, (unsigned long long)l->lost);
    else if (!r->finished)
        return;
    else if (l->ended != l->submitted)
        snprintf(r->wrong, sizeof r->wrong, "%llu tasks were submitted and %llu ended", (unsigned long long)l->submitted, (unsigned long long)l->ended);
    else if (l->received + l->lost != l->sent)
        snprintf(r->wrong, sizeof r->wrong, "of %llu messages %llu were received and %llu lost", (unsigned long long)l->sent,
                 (unsigned long long)l->received, (unsigned long long)l->lost);
    else if (l->ends - l->begins != l->work)
        snprintf(r->wrong, sizeof r->wrong, "cores were busy for %llu ticks, and the tasks have %llu", (unsigned long long)(l->ends - l->begins),
                 (unsigned long long)l->work);
    else if (l->ended && !l->overflow && s->options.cores && (span < l->longest || span < l->work / s->options.cores))
        snprintf(r->wrong, sizeof r->wrong, "a makespan of %llu ticks, where %llu cores have %llu ticks of work and one task %llu",
                 (unsigned long long)span, (unsigned long long)s->options.cores, (unsigned long long)l->work, (unsigned long long)l->longest);
}

htc_status htc_scale_report_get(const htc_scale *s, htc_scale_report *report)
{
    if (!s || !report)
        return HTC_EINVAL;
    const ledger    *l = &s->ledger;
    uint64_t         running = l->started - l->ended;
    htc_scale_report r = { .size = sizeof r,
                           .finished = s->queue->count == 0 && s->status == HTC_OK,
                           .memory = sizeof *s + htc__ladder_memory(s->options.events_max),
                           .events = s->events,
                           .submitted = l->submitted,
                           .ended = l->ended,
                           .sent = l->sent,
                           .received = l->received,
                           .lost = l->lost,
                           .hash = htc__scale_mix(s->hash + s->events),
                           .span = (htc_ns)s->now * s->options.tick_ns,
                           .longest = (htc_ns)l->longest * s->options.tick_ns,
                           .work_s = seconds(s, l->work),
                           /* those that run have been busy until now, but for their delay */
                           .busy_s = seconds(s, l->ends + running * s->now - l->begins) };
    r.makespan = l->ended ? (l->last_end - l->first_submit) * s->options.tick_ns : 0;
    r.bound_s = s->options.cores ? r.work_s / (double)s->options.cores : 0;
    r.bound_s = r.bound_s > seconds(s, l->longest) ? r.bound_s : seconds(s, l->longest);
    check(s, &r);
    return htc__options_give(report, &r, sizeof r, offsetof(htc_scale_report, wrong));
}
