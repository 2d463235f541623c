/* Objects that are not here: asked for in pieces, of all who have them, written in order, and checked. */
#include <assert.h>
#include <string.h>

#include "core/fault.h"
#include "roles/objects/objects_private.h"

static slot *slot_of(fetch *f, uint64_t piece)
{
    return &f->slots[piece % WINDOW];
}

static uint64_t offset_of(const fetch *f, uint64_t piece)
{
    return f->start + piece * OBJECT_PIECE_MAX;
}

static uint32_t length_of(const entry *e, uint64_t piece)
{
    uint64_t left = e->size - offset_of(e->fetch, piece);
    return left < OBJECT_PIECE_MAX ? (uint32_t)left : OBJECT_PIECE_MAX;
}

/* ---- who has it ---- */

static void add_source(fetch *f, uint64_t worker)
{
    for (uint32_t i = 0; i < f->n_sources; i++)
        if (f->sources[i].worker == worker) {
            if (f->sources[i].state == SOURCE_GONE)
                f->sources[i] = (source){ .worker = worker, .silent_since = HTC_NEVER };
            return;
        }
    if (f->n_sources < OBJECT_SOURCES_MAX)
        f->sources[f->n_sources++] = (source){ .worker = worker, .silent_since = HTC_NEVER };
}

htc_status htc__fetch_sources(htc__objects *o, entry *e, const htc__object *from)
{
    if (!e->fetch && !(e->fetch = htc__alloc(&o->env, sizeof *e->fetch)))
        return HTC_ENOMEM;
    for (uint32_t i = 0; i < from->n_workers; i++)
        if (from->workers[i] != o->options.self)
            add_source(e->fetch, from->workers[i]);
    return HTC_OK;
}

static int has_source(const fetch *f)
{
    for (uint32_t i = 0; i < f->n_sources; i++)
        if (f->sources[i].state == SOURCE_GOOD)
            return 1;
    return 0;
}

/* ---- slots ---- */

static void slot_free(htc__objects *o, fetch *f, slot *s)
{
    if (s->state == SLOT_ASKED) {
        assert(f->sources[s->source].asks && o->asks);
        f->sources[s->source].asks--;
        o->asks--;
    }
    s->state = SLOT_FREE;
}

static void slots_free(htc__objects *o, fetch *f)
{
    for (uint32_t i = 0; i < WINDOW; i++)
        slot_free(o, f, &f->slots[i]);
}

static void source_gone(htc__objects *o, fetch *f, uint32_t i, source_state state)
{
    for (uint32_t k = 0; k < WINDOW; k++)
        if (f->slots[k].state == SLOT_ASKED && f->slots[k].source == i)
            slot_free(o, f, &f->slots[k]);
    if (f->sources[i].state != SOURCE_BAD)
        f->sources[i].state = (uint8_t)state;
}

/* ---- begin and end ---- */

static void go_to(htc__objects *o, entry *e, entry_state state, entry **list)
{
    o->n_active -= e->list == &o->active;
    o->n_active += list == &o->active;
    e->state = state;
    if (e->list != list)
        htc__objects_move(list, e);
}

void htc__fetch_end(htc__objects *o, entry *e)
{
    if (e->state < ENTRY_QUEUED || e->state > ENTRY_FINISH)
        return;
    slots_free(o, e->fetch);
    go_to(o, e, ENTRY_IDLE, NULL);
    e->life = ++o->lives;
}

void htc__fetch_cancel(htc__objects *o, entry *e)
{
    if (e->state < ENTRY_QUEUED || e->state > ENTRY_FINISH)
        return;
    htc__fetch_end(o, e);
    if (!e->adopting) /* else what is made here takes its place, and is not to be removed */
        htc__objects_drop_file(o, e);
}

/* What is on the disk stays, and the next try goes on from there. */
void htc__fetch_again(htc__objects *o, entry *e)
{
    htc__fetch_end(o, e);
    go_to(o, e, ENTRY_QUEUED, &o->queue);
}

/* What nobody uses makes room. Else several may have taken it from each other: then one at a time is fetched, until one has come. One that was
 * alone has no room. */
static void no_space(htc__objects *o, entry *e, htc_status why)
{
    if (why != HTC_ENOSPC) {
        htc__objects_failed(o, e, HTC_EIO);
    } else if (o->dropping || htc__objects_evict(o)) {
        htc__fetch_again(o, e);
    } else if (!e->fetch->tight) {
        o->tight = 1;
        htc__fetch_again(o, e);
    } else {
        htc__objects_failed(o, e, HTC_ENOSPC);
    }
}

static void come(htc__objects *o, entry *e, int fetched)
{
    o->tight = 0;
    o->figures.fetched += fetched != 0;
    o->figures.fetched_bytes += fetched ? e->size : 0;
    slots_free(o, e->fetch);
    go_to(o, e, ENTRY_HERE, NULL);
    htc__objects_arrived(o, e);
}

/* ---- a wrong hash ---- */

static void blame(htc__objects *o, entry *e, uint32_t i)
{
    source *s = &e->fetch->sources[i];
    htc__log_with(&o->env, HTC_LOG_WARN, HTC__FIELDS(HTC__NUMBER("worker", s->worker), HTC__NUMBER("bytes", e->size)),
                  "an object of %llu bytes from worker %llu is another than was asked for -> dropped; it is not asked of it again",
                  (unsigned long long)e->size, (unsigned long long)s->worker);
    source_gone(o, e->fetch, i, SOURCE_BAD);
    s->state = SOURCE_BAD;
}

/* One source alone is to blame. Of several nobody knows which: then they are asked one at a time. */
static void wrong(htc__objects *o, entry *e)
{
    fetch *f = e->fetch;
    int    one = f->from && !(f->from & (f->from - 1)) && (!f->resumed || HTC__BROKEN(object_part_blamed));
    o->figures.wrong++;
    f->wrongs++;
    for (uint32_t i = 0; i < f->n_sources; i++)
        if ((f->from & 1u << i) && (one || f->wrongs > WRONGS_MAX))
            blame(o, e, i);
    f->alone = !HTC__BROKEN(object_sources_mixed);
    f->from = 0;
    htc__fetch_again(o, e);
}

static void finished(void *role, void *ctx, htc_status status, htc_bytes body)
{
    htc__objects *o;
    entry        *e = htc__objects_answered(ctx, &o, NULL);
    (void)role, (void)body;
    if (!e || e->state != ENTRY_FINISH)
        return;
    if (status == HTC_OK)
        come(o, e, 1);
    else if (status == HTC_EINPUT)
        wrong(o, e);
    else if (status != HTC_ENOTFOUND || !e->adopting) /* else what was made here has its place, or will not: that answer says so */
        no_space(o, e, status);
}

static void finish(htc__objects *o, entry *e)
{
    go_to(o, e, ENTRY_FINISH, &o->active);
    htc__objects_call(o, e, HTC_CALL_OBJECT_FINISH, htc__objects_names(o, e), finished, 0);
}

/* ---- room ---- */

static void roomed(void *role, void *ctx, htc_status status, htc_bytes body)
{
    htc__objects *o;
    htc_reader    r = htc_reader_of(body);
    entry        *e = htc__objects_answered(ctx, &o, NULL);
    (void)role;
    if (!e || e->state != ENTRY_ROOM)
        return;
    uint64_t have = status == HTC_OK ? htc_get_u64(&r) : 0;
    if (status == HTC_EEXISTS) {
        come(o, e, 0);
    } else if (status != HTC_OK || htc_reader_done(&r) != HTC_OK || have > e->size) {
        no_space(o, e, status == HTC_OK ? HTC_EIO : status);
    } else {
        fetch *f = e->fetch;
        f->start = have;
        f->base = 0;
        f->pieces = (e->size - have + OBJECT_PIECE_MAX - 1) / OBJECT_PIECE_MAX;
        f->resumed = have > 0 && (f->resumed || !f->from);
        if (have == 0)
            f->from = 0;
        go_to(o, e, ENTRY_FETCH, &o->active);
        if (f->pieces == 0)
            finish(o, e);
    }
}

static void begin(htc__objects *o, entry *e)
{
    e->fetch->tight = o->tight;
    go_to(o, e, ENTRY_ROOM, &o->active);
    htc_buf_clear(&o->buf);
    htc_put_raw(&o->buf, (htc_bytes){ e->hash, sizeof e->hash });
    htc_put_u64(&o->buf, e->size);
    if (o->buf.status != HTC_OK)
        htc_runtime_break(o->runtime, o->buf.status, "making room for an object");
    htc__objects_call(o, e, HTC_CALL_OBJECT_ROOM, htc_buf_bytes(&o->buf), roomed, 0);
}

/* ---- pieces ---- */

static void written(void *role, void *ctx, htc_status status, htc_bytes body)
{
    htc__objects *o;
    uint64_t      piece;
    entry        *e = htc__objects_answered(ctx, &o, &piece);
    (void)role, (void)body;
    if (!e || e->state != ENTRY_FETCH || piece < e->fetch->base || piece - e->fetch->base >= WINDOW)
        return;
    fetch *f = e->fetch;
    if (slot_of(f, piece)->state != SLOT_WRITING || (status != HTC_OK && e->adopting))
        return; /* or what is made here takes its place, or not: then it begins again */
    if (status != HTC_OK) {
        no_space(o, e, status);
        return;
    }
    slot_of(f, piece)->state = SLOT_WRITTEN;
    while (f->base < f->pieces && slot_of(f, f->base)->state == SLOT_WRITTEN)
        slot_of(f, f->base++)->state = SLOT_FREE;
    if (f->base == f->pieces)
        finish(o, e);
}

/* The piece at this offset, if it is asked of this connection now. */
static entry *asked_of(htc__objects *o, uint32_t peer, const object_message *m, uint64_t *piece)
{
    entry *e = htc__objects_find(o, m->hash);
    if (!e || e->state != ENTRY_FETCH || m->offset < e->fetch->start)
        return NULL;
    fetch *f = e->fetch;
    *piece = (m->offset - f->start) / OBJECT_PIECE_MAX;
    if (*piece < f->base || *piece >= f->pieces || *piece - f->base >= WINDOW || offset_of(f, *piece) != m->offset)
        return NULL;
    const slot *s = slot_of(f, *piece);
    return s->state == SLOT_ASKED && (s->peer == peer || HTC__BROKEN(object_from_anybody)) ? e : NULL;
}

void htc__fetch_bytes(htc__objects *o, uint32_t peer, const object_message *m, htc_bytes payload)
{
    uint64_t piece;
    entry   *e = asked_of(o, peer, m, &piece);
    if (!e)
        return;
    fetch  *f = e->fetch;
    slot   *s = slot_of(f, piece);
    source *from = &f->sources[s->source];
    if (m->size != e->size || m->bytes.len != length_of(e, piece)) {
        blame(o, e, s->source);
        return;
    }
    from->misses = 0;
    from->silent_since = HTC_NEVER;
    f->from |= 1u << s->source;
    slot_free(o, f, s);
    s->state = SLOT_WRITING;
    htc__objects_call(o, e, HTC_CALL_OBJECT_WRITE, payload, written, piece);
}

void htc__fetch_none(htc__objects *o, uint32_t peer, const object_message *m)
{
    uint64_t piece;
    entry   *e = asked_of(o, peer, m, &piece);
    if (!e)
        return;
    slot   *s = slot_of(e->fetch, piece);
    source *from = &e->fetch->sources[s->source];
    if (m->status == HTC_EBUSY) {
        from->not_before = o->now + BUSY_NS;
        from->silent_since = HTC_NEVER;
        slot_free(o, e->fetch, s);
    } else {
        source_gone(o, e->fetch, s->source, SOURCE_GONE);
    }
}

void htc__fetch_closed(htc__objects *o, uint32_t peer)
{
    entry *e;
    DL_FOREACH(o->active, e)
    for (uint32_t i = 0; i < WINDOW; i++)
        if (e->fetch->slots[i].state == SLOT_ASKED && e->fetch->slots[i].peer == peer) {
            e->fetch->sources[e->fetch->slots[i].source].silent_since = HTC_NEVER;
            slot_free(o, e->fetch, &e->fetch->slots[i]);
        }
}

void htc__fetch_gone(htc__objects *o, uint64_t worker)
{
    for (entry *e = o->entries; e; e = e->hh.next)
        for (uint32_t i = 0; e->fetch && i < e->fetch->n_sources; i++)
            if (e->fetch->sources[i].worker == worker)
                source_gone(o, e->fetch, i, SOURCE_GONE);
}

/* ---- whom to ask ---- */

static int is_asked(const fetch *f, uint32_t i)
{
    return f->sources[i].state == SOURCE_GOOD && (!f->alone || f->turn == i);
}

/* The one that answers, and has least to do for us; of equals another one each time. */
static int choose(htc__objects *o, fetch *f, uint32_t *peer)
{
    int best = -1;
    for (uint32_t k = 0; k < f->n_sources; k++) {
        uint32_t i = (f->turn + k) % f->n_sources;
        source  *s = &f->sources[i];
        if (!is_asked(f, i) || s->asks >= SOURCE_ASKS || o->now < s->not_before)
            continue;
        uint32_t to = o->options.peer_of(o->options.role, s->worker);
        if (!to && s->silent_since == HTC_NEVER)
            s->silent_since = o->now;
        if (to && (best < 0 || s->misses < f->sources[best].misses ||
                   (s->misses == f->sources[best].misses && s->asks < f->sources[best].asks))) {
            best = (int)i;
            *peer = to;
        }
    }
    return best;
}

static int ask(htc__objects *o, entry *e, uint64_t piece)
{
    fetch   *f = e->fetch;
    uint32_t peer = 0;
    int      i = choose(o, f, &peer);
    if (i < 0)
        return 0;
    *slot_of(f, piece) = (slot){ SLOT_ASKED, (uint8_t)i, peer, o->now };
    f->sources[i].asks++;
    if (f->sources[i].silent_since == HTC_NEVER)
        f->sources[i].silent_since = o->now;
    o->asks++;
    o->figures.asked++;
    if (!f->alone)
        f->turn = (uint32_t)i + 1;
    object_message m = { .scope = o->options.scope, .offset = offset_of(f, piece), .len = length_of(e, piece) };
    memcpy(m.hash, e->hash, sizeof m.hash);
    htc__object_write(&o->buf, HTC_WIRE_OBJECT_ASK, &m);
    htc_runtime_send(o->runtime, peer, &o->buf);
    return 1;
}

static void pump(htc__objects *o, entry *e)
{
    fetch *f = e->fetch;
    if (f->alone) /* who is asked alone: the first that is left */
        for (f->turn = 0; f->turn < f->n_sources && f->sources[f->turn].state != SOURCE_GOOD;)
            f->turn++;
    for (uint64_t p = f->base; p < f->pieces && p - f->base < WINDOW && o->asks < ASKS_MAX; p++)
        if (slot_of(f, p)->state == SLOT_FREE && !ask(o, e, p))
            return;
}

/* ---- time ---- */

static void look_at_slots(htc__objects *o, fetch *f)
{
    for (uint32_t i = 0; i < WINDOW; i++) {
        slot *s = &f->slots[i];
        if (s->state == SLOT_ASKED && o->now - s->asked_at >= o->options.piece_ns) {
            f->sources[s->source].misses++;
            slot_free(o, f, s);
        }
    }
    for (uint32_t i = 0; i < f->n_sources; i++) {
        const source *s = &f->sources[i];
        if (s->state == SOURCE_GOOD && s->silent_since != HTC_NEVER && o->now - s->silent_since >= o->options.patience_ns)
            source_gone(o, f, i, SOURCE_GONE);
    }
}

static void go_on(htc__objects *o, entry *e)
{
    if (e->state == ENTRY_FETCH) {
        look_at_slots(o, e->fetch);
        pump(o, e);
    }
    int writes = 0; /* what is on its way to the disk may have been the rest */
    for (uint64_t p = e->fetch->base; e->state == ENTRY_FETCH && p < e->fetch->pieces; p++) {
        if (p - e->fetch->base >= WINDOW || slot_of(e->fetch, p)->state < SLOT_WRITING)
            break;
        writes = p + 1 == e->fetch->pieces;
    }
    if (e->state == ENTRY_FETCH && !writes && !has_source(e->fetch) && !e->adopting)
        htc__objects_failed(o, e, HTC_ELOST);
}

void htc__fetch_run(htc__objects *o)
{
    entry *e, *next;
    DL_FOREACH_SAFE(o->active, e, next)
    go_on(o, e);
    while (o->queue && !o->dropping && o->n_active < (o->tight ? 1 : o->options.fetches))
        begin(o, o->queue);
}

static htc_ns earlier(htc_ns a, htc_ns b)
{
    return a < b ? a : b;
}

htc_ns htc__fetch_deadline(const htc__objects *o)
{
    htc_ns       at = HTC_NEVER;
    const entry *e;
    DL_FOREACH(o->active, e)
    {
        const fetch *f = e->fetch;
        for (uint32_t i = 0; i < WINDOW; i++)
            if (f->slots[i].state == SLOT_ASKED)
                at = earlier(at, f->slots[i].asked_at + o->options.piece_ns);
        for (uint32_t i = 0; e->state == ENTRY_FETCH && i < f->n_sources; i++) {
            const source *s = &f->sources[i];
            if (s->state == SOURCE_GOOD && s->silent_since != HTC_NEVER)
                at = earlier(at, s->silent_since + o->options.patience_ns);
            if (s->state == SOURCE_GOOD && s->not_before > o->now)
                at = earlier(at, s->not_before);
        }
    }
    return at;
}
