/* A run of a scale model (htcsched/sim_scale.h): what it is made of, events, lengths, and what is counted. */
#include <string.h>

#include "sim/scale/scale_private.h"

/* ---- options ---- */

static uint32_t bits_for(uint64_t ids)
{
    uint32_t bits = 0;
    while (bits < 32 && UINT64_C(1) << bits < ids)
        bits++;
    return bits;
}

static uint64_t parts_of(const htc_scale_options *o)
{
    return (o->ids + o->part_ids - 1) / o->part_ids;
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
    o->part_ids = o->part_ids && o->part_ids < o->ids ? o->part_ids : o->ids;
    o->events_max = o->events_max ? o->events_max : o->part_ids;
    o->tick_ns = o->tick_ns ? o->tick_ns : HTC_MS;
    host->progress_ns = host->progress_ns ? host->progress_ns : 200 * HTC_MS;
    if (o->ids == 0 || o->ids > HTC_SCALE_IDS_MAX || o->events_max >= UINT32_MAX || parts_of(o) > HTC_SCALE_PARTS_MAX)
        return HTC_EINVAL;
    return parts_of(o) > 1 && o->window_ns < o->tick_ns ? HTC_EINVAL : HTC_OK;
}

uint64_t htc__scale_memory(const htc_scale_options *o, uint32_t parts)
{
    return sizeof(run) + parts * (sizeof(htc_scale) + parts * sizeof(outbox) + htc__ladder_memory(o->events_max));
}

htc_status htc__scale_memory_shared(const htc_scale_options *options, uint32_t parts, uint64_t *bytes)
{
    htc_scale_options o;
    htc_scale_host    host;
    htc_status        status = bytes ? known(options, &o, &host) : HTC_EINVAL;
    if (status == HTC_OK)
        *bytes = htc__scale_memory(&o, parts ? parts : (uint32_t)parts_of(&o));
    return status;
}

htc_status htc_scale_memory(const htc_scale_options *options, uint64_t *bytes)
{
    return htc__scale_memory_shared(options, 0, bytes);
}

/* ---- a run ---- */

static void close_run(run *r)
{
    htc_env env = r->env;
    for (uint32_t i = 0; r->part && i < r->parts; i++) {
        for (uint32_t k = 0; r->part[i].out && k < r->parts; k++)
            htc__free(&env, r->part[i].out[k].key, r->part[i].out[k].room * sizeof(uint64_t));
        htc__free(&env, r->part[i].out, r->parts * sizeof(outbox));
        htc__ladder_destroy(&env, r->part[i].queue);
    }
    htc__free(&env, r->part, r->parts * sizeof *r->part);
    htc__free(&env, r, sizeof *r);
}

static htc_status open_part(run *r, uint32_t i)
{
    const htc_scale_options *o = &r->options;
    htc_scale               *p = &r->part[i];
    uint64_t                 first = r->shared ? 0 : i * o->part_ids;
    *p = (htc_scale){ .run = r, .first_id = first, .ids = o->ids - first < o->part_ids ? o->ids - first : o->part_ids, .seed_state = htc__scale_mix(o->seed),
                      .id_bits = bits_for(o->ids), .ledger.first_submit = UINT64_MAX };
    p->tick_max = LADDER_KEY_MAX >> p->id_bits;
    p->out = htc__alloc(&r->env, r->parts * sizeof(outbox));
    return p->out ? htc__ladder_create(&r->env, o->events_max, p->id_bits, &p->queue) : HTC_ENOMEM;
}

htc_status htc__scale_create_shared(const htc_env *env, const htc_scale_options *options, uint32_t parts, int (*turn)(run *r, uint64_t events), htc_scale **out, htc_error *error)
{
    htc_scale_options o;
    htc_scale_host    host;
    htc_status        status = out ? known(options, &o, &host) : HTC_EINVAL;
    if (status == HTC_OK && !o.event)
        status = HTC_EINVAL;
    if (status != HTC_OK)
        return htc__error(error, status, "the options of the run are out of range");
    uint32_t shared = parts;
    parts = shared ? shared : (uint32_t)parts_of(&o);
    uint64_t bytes = htc__scale_memory(&o, parts);
    if (host.memory_max && bytes > host.memory_max)
        return htc__error(error, HTC_ETOOBIG, "%llu event%s at once need %llu MiB, and %llu MiB are allowed", (unsigned long long)(o.events_max * parts),
                          htc__plural(o.events_max * parts), (unsigned long long)(bytes >> 20), (unsigned long long)(host.memory_max >> 20));
    run *r = htc__alloc(env, sizeof *r);
    if (!r)
        return htc__error(error, HTC_ENOMEM, "no memory for the run");
    if (env)
        r->env = *env;
    r->options = o;
    r->host = host;
    r->parts = parts;
    r->shared = shared;
    r->turn = turn;
    r->window = o.window_ns / o.tick_ns;
    r->part = htc__alloc(env, r->parts * sizeof *r->part);
    status = r->part ? HTC_OK : HTC_ENOMEM;
    for (uint32_t i = 0; i < r->parts && status == HTC_OK; i++)
        status = open_part(r, i);
    if (status != HTC_OK) {
        close_run(r);
        return htc__error(error, status, "no memory for %llu events: %llu MiB", (unsigned long long)(o.events_max * parts), (unsigned long long)(bytes >> 20));
    }
    *out = &r->part[0];
    return HTC_OK;
}

htc_status htc_scale_create(const htc_env *env, const htc_scale_options *options, htc_scale **out, htc_error *error)
{
    return htc__scale_create_shared(env, options, 0, NULL, out, error);
}

void htc_scale_destroy(htc_scale *scale)
{
    if (scale)
        close_run(scale->run);
}

/* ---- events ---- */

void htc_scale_fail(htc_scale *scale, htc_status status)
{
    if (scale->status == HTC_OK)
        scale->status = status;
}

static htc_status fails(htc_scale *s, htc_status status)
{
    htc_scale_fail(s, status);
    return status;
}

static htc_status put_out(htc_scale *s, outbox *box, uint64_t key)
{
    if (box->n == box->room) {
        size_t    room = box->room ? 2 * box->room : 256;
        uint64_t *more = htc__resize_raw(&s->run->env, box->key, box->room * sizeof *more, room * sizeof *more);
        if (!more)
            return fails(s, HTC_ENOMEM);
        box->key = more;
        box->room = room;
    }
    box->key[box->n++] = key;
    return HTC_OK;
}

/* In a window other parts are as they were at its beginning: what is for them waits, and is not due before the end. */
static htc_status at_other(htc_scale *s, uint64_t tick, uint32_t id)
{
    const htc_scale_options *o = &s->run->options;
    if (id >= o->ids)
        return fails(s, HTC_EINVAL);
    htc_scale *other = &s->run->part[id / o->part_ids];
    if (!s->running) {
        htc_status status = htc_scale_at(other, tick, id);
        return status == HTC_OK ? HTC_OK : fails(s, status);
    }
    if (tick < s->window_end || tick > s->tick_max)
        return fails(s, tick < s->window_end ? HTC_EINVAL : HTC_ETOOBIG);
    return put_out(s, &s->out[id / o->part_ids], tick << s->id_bits | id);
}

/* Its own event, but one that may not be: why not. */
static htc_status refuse(htc_scale *s, uint64_t tick)
{
    return fails(s, tick < s->now ? HTC_EINVAL : tick > s->tick_max ? HTC_ETOOBIG : HTC_EFULL);
}

static inline htc_status at(htc_scale *s, uint64_t tick, uint32_t id)
{
    ladder *q = s->queue;
    if (id - s->first_id >= s->ids)
        return at_other(s, tick, id);
    if (tick < s->now || tick > s->tick_max || q->count >= q->count_max)
        return refuse(s, tick);
    htc__ladder_push(q, tick << s->id_bits | id);
    return HTC_OK;
}

htc_status htc_scale_at(htc_scale *scale, uint64_t tick, uint32_t id)
{
    return at(scale, tick, id);
}

uint64_t htc_scale_now(const htc_scale *scale)
{
    return scale->now;
}

uint64_t htc_scale_ticks(const htc_scale *scale, htc_ns span)
{
    return htc__scale_rounded(span, scale->run->options.tick_ns);
}

uint64_t htc_scale_hash(const htc_scale *scale, uint64_t stream, uint64_t counter)
{
    return htc__scale_draw(htc__scale_stream(scale->run->options.seed, stream), counter);
}

uint64_t htc_scale_length(const htc_scale *scale, const htc_scale_law *law, uint64_t stream, uint64_t counter)
{
    htc__scale_drawer d = htc__scale_drawer_of(law, scale->run->options.tick_ns);
    return htc__scale_drawer_ticks(&d, htc_scale_hash(scale, stream, counter));
}

/* A sum, so that it does not depend on the order in which parts are gone through. */
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
        status = at(scale, begin + length, id);
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

void htc__scale_began(htc_scale *scale)
{
    scale->ledger.started++;
    scale->ledger.begins += scale->now;
}

void htc_scale_end(htc_scale *scale)
{
    htc__scale_end(scale);
}

void htc_scale_messages(htc_scale *scale, uint64_t sent, uint64_t received, uint64_t lost)
{
    htc__scale_messages(scale, sent, received, lost);
}

static uint64_t larger(uint64_t a, uint64_t b)
{
    return a > b ? a : b;
}

ledger htc__scale_ledger(const run *r)
{
    ledger all = { .first_submit = UINT64_MAX };
    for (uint32_t i = 0; i < r->parts; i++) {
        const ledger *l = &r->part[i].ledger;
        all.submitted += l->submitted;
        all.started += l->started;
        all.ended += l->ended;
        all.sent += l->sent;
        all.received += l->received;
        all.lost += l->lost;
        all.begins += l->begins;
        all.ends += l->ends;
        all.overflow |= l->overflow | (all.work > UINT64_MAX - l->work);
        all.work += l->work;
        all.longest = larger(all.longest, l->longest);
        all.first_submit = l->first_submit < all.first_submit ? l->first_submit : all.first_submit;
        all.last_end = larger(all.last_end, l->last_end);
    }
    return all;
}

uint64_t htc__scale_events(const run *r)
{
    uint64_t events = 0;
    for (uint32_t i = 0; i < r->parts; i++)
        events += r->part[i].events;
    return events;
}

uint64_t htc__scale_now(const run *r)
{
    uint64_t now = 0;
    for (uint32_t i = 0; i < r->parts; i++)
        now = larger(now, r->part[i].now);
    return now;
}

htc_status htc__scale_status(const run *r)
{
    for (uint32_t i = 0; i < r->parts; i++)
        if (r->part[i].status != HTC_OK)
            return r->part[i].status;
    return HTC_OK;
}

int htc__scale_more_now(htc_scale *scale)
{
    uint64_t key;
    return htc__ladder_peek(scale->queue, &key) && key >> scale->id_bits == scale->now;
}

int htc__scale_pending(const run *r)
{
    for (uint32_t i = 0; i < r->parts; i++)
        if (r->part[i].queue->count)
            return 1;
    return 0;
}
