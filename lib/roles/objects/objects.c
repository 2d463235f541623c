/* What is here, who wants it, and what is kept. */
#include <assert.h>
#include <string.h>

#include "roles/objects/objects_private.h"

#define CACHE_BYTES ((uint64_t)1 << 30)
#define FETCHES     8
#define PIECE_NS    (10 * HTC_SECOND)
#define PATIENCE_NS (60 * HTC_SECOND)

/* ---- entries ---- */

entry *htc__objects_find(const htc__objects *o, const uint8_t hash[32])
{
    entry *e;
    HASH_FIND(hh, o->entries, hash, 32, e);
    return e;
}

static entry *entry_of(htc__objects *o, const uint8_t hash[32])
{
    entry *e = htc__objects_find(o, hash);
    if (e)
        return e;
    e = htc__alloc(&o->env, sizeof *e);
    if (!e)
        return NULL;
    memcpy(e->hash, hash, sizeof e->hash);
    e->state = ENTRY_IDLE;
    e->life = ++o->lives;
    HASH_ADD(hh, o->entries, hash, sizeof e->hash, e);
    if (e->hh.tbl)
        return e;
    htc__free(&o->env, e, sizeof *e);
    return NULL;
}

/* A hash has one size. */
static int has_size(entry *e, uint64_t size)
{
    if (size > OBJECT_SIZE_MAX || (e->sized && e->size != size))
        return 0;
    e->sized = 1;
    e->size = size;
    return 1;
}

/* And so has a name its content. */
static int has_content(entry *e, const uint8_t *content)
{
    if (!content)
        return !e->named;
    if (e->named && memcmp(e->content, content, sizeof e->content) != 0)
        return 0;
    memcpy(e->content, content, sizeof e->content);
    e->named = 1;
    return 1;
}

static void pins_free(htc__objects *o, entry *e)
{
    while (e->pins) {
        pin *p = e->pins;
        e->pins = p->next;
        htc__free(&o->env, p, sizeof *p);
    }
}

static void fetch_free(htc__objects *o, entry *e)
{
    htc__free(&o->env, e->fetch, sizeof *e->fetch);
    e->fetch = NULL;
}

static void entry_free(htc__objects *o, entry *e)
{
    htc__objects_move(NULL, e);
    pins_free(o, e);
    fetch_free(o, e);
    HASH_DEL(o->entries, e);
    htc__free(&o->env, e, sizeof *e);
}

void htc__objects_move(entry **list, entry *e)
{
    if (e->list)
        DL_DELETE(*e->list, e);
    e->list = list;
    if (list)
        DL_APPEND(*list, e);
}

static int is_on_disk(const entry *e)
{
    return e->state == ENTRY_HERE || e->state == ENTRY_PART;
}

static int is_unused(const entry *e)
{
    return is_on_disk(e) && !e->reserved && !e->pins && !e->adopting;
}

static void count(htc__objects *o, entry *e)
{
    uint64_t counts = e->pins                                 ? 0
                      : e->reserved || e->state == ENTRY_HERE ? e->size
                      : e->state == ENTRY_PART                ? e->part
                                                              : 0;
    int      was = e->list == &o->unused, is = is_unused(e);
    assert(o->cached >= e->counted && o->cached >= o->unused_bytes);
    if (was)
        o->unused_bytes -= e->counted;
    if (is)
        o->unused_bytes += counts;
    o->roomier |= counts < e->counted || (is && !was);
    o->cached = o->cached - e->counted + counts;
    e->counted = counts;
    if (was != is) {
        htc__objects_move(is ? &o->unused : NULL, e);
        o->n_unused = o->n_unused - (uint32_t)was + (uint32_t)is;
    }
}

void htc__objects_settle(htc__objects *o, entry *e)
{
    count(o, e);
    if (!e->links)
        fetch_free(o, e);
    if (e->state == ENTRY_IDLE && !e->links && !e->pins && !e->adopting)
        entry_free(o, e);
}

/* What is there already may be more than there is to be. */
static void keep_bounds(htc__objects *o)
{
    while ((o->n_unused > CACHED_MAX || o->cached > o->options.cache_bytes) && htc__objects_evict(o))
        ;
}

static void dropped(void *role, void *ctx, htc_status status, htc_bytes body)
{
    htc__objects *o = ctx;
    (void)role, (void)status, (void)body;
    assert(o->dropping);
    o->dropping--;
}

htc_bytes htc__objects_names(htc__objects *o, const entry *e)
{
    htc_buf_clear(&o->buf);
    htc_put_raw(&o->buf, (htc_bytes){ e->hash, sizeof e->hash });
    if (e->named)
        htc_put_raw(&o->buf, (htc_bytes){ e->content, sizeof e->content });
    if (o->buf.status != HTC_OK)
        htc_runtime_break(o->runtime, o->buf.status, "naming an object");
    return htc_buf_bytes(&o->buf);
}

void htc__objects_drop_file(htc__objects *o, const entry *e)
{
    o->dropping++;
    htc_runtime_call(o->runtime, HTC_CALL_OBJECT_DROP, htc__objects_names(o, e), dropped, o);
}

/* Its file goes, here or not: what is read of it at this moment is read first. */
static void drop(htc__objects *o, entry *e)
{
    htc__objects_drop_file(o, e);
    e->state = ENTRY_IDLE;
    e->life = ++o->lives;
    htc__objects_settle(o, e);
}

void htc__objects_vanished(htc__objects *o, entry *e)
{
    if (e->state == ENTRY_HERE && !e->reserved && !e->adopting) {
        pins_free(o, e);
        drop(o, e);
    } else {
        htc__objects_settle(o, e);
    }
}

int htc__objects_evict(htc__objects *o)
{
    entry *e = o->unused;
    if (!e)
        return 0;
    assert(is_unused(e));
    o->figures.evicted++;
    drop(o, e);
    return 1;
}

/* ---- calls ---- */

void htc__objects_call(htc__objects *o, const entry *e, uint32_t op, htc_bytes body, htc_runtime_call_fn fn, uint64_t number)
{
    object_asked *a = htc_runtime_context(o->runtime, sizeof *a);
    if (!a)
        return; /* the runtime is broken */
    *a = (object_asked){ .o = o, .life = e->life, .number = number };
    memcpy(a->hash, e->hash, sizeof a->hash);
    htc_runtime_call(o->runtime, op, body, fn, a);
}

entry *htc__objects_answered(void *ctx, htc__objects **o, uint64_t *number)
{
    object_asked a = *(object_asked *)ctx;
    *o = a.o;
    if (number)
        *number = a.number;
    htc_runtime_context_free(a.o->runtime, ctx);
    entry *e = htc__objects_find(a.o, a.hash);
    return e && e->life == a.life ? e : NULL;
}

/* ---- wants ---- */

static want **list_of(htc__objects *o, uint32_t state)
{
    return state == WANT_WAITING ? &o->waiting : state == WANT_FETCHING ? &o->fetching : state == WANT_DECIDED ? &o->decided : &o->told;
}

static void want_move(htc__objects *o, want *w, uint32_t state)
{
    if (w->state)
        DL_DELETE(*list_of(o, w->state), w);
    w->state = state;
    if (state)
        DL_APPEND(*list_of(o, state), w);
}

static void decide(htc__objects *o, want *w, htc_status status, uint32_t which)
{
    w->status = status;
    w->which = which;
    want_move(o, w, WANT_DECIDED);
}

static void unreserve(htc__objects *o, entry *e, int spoilt)
{
    assert(e->reserved);
    if (--e->reserved > 0)
        return;
    if (e->state >= ENTRY_QUEUED && e->state <= ENTRY_FINISH) {
        htc__fetch_cancel(o, e);
    } else if (spoilt && e->state == ENTRY_HERE) {
        htc__objects_vanished(o, e);
        return;
    }
    htc__objects_settle(o, e);
}

/* Over: nothing is held any more. */
static void want_end(htc__objects *o, want *w, int spoilt)
{
    want_move(o, w, 0);
    HASH_DEL(o->wants, w);
    for (uint32_t i = 0; i < w->n; i++) {
        entry *e = w->links[i].e;
        DL_DELETE(e->links, &w->links[i]);
        if (w->let_in)
            unreserve(o, e, spoilt);
        else
            htc__objects_settle(o, e);
    }
    o->roomier = 1; /* the next one may be the first now */
    htc__free(&o->env, w, sizeof *w + w->n_links * sizeof *w->links);
}

static want *want_numbered(const htc__objects *o, uint64_t id)
{
    want *w;
    HASH_FIND(hh, o->wants, &id, sizeof id, w);
    return w;
}

static htc_status link_one(htc__objects *o, want *w, const htc__object *from)
{
    entry     *e = entry_of(o, from->hash);
    htc_status status = !e ? HTC_ENOMEM : !has_size(e, from->size) || !has_content(e, from->content) ? HTC_EINVAL : htc__fetch_sources(o, e, from);
    if (status == HTC_OK) {
        w->links[w->n] = (want_link){ .of = w, .e = e };
        DL_APPEND(e->links, &w->links[w->n]);
        w->n++;
    } else if (e) {
        htc__objects_settle(o, e); /* a new one is of no use to anybody */
    }
    return status;
}

htc_status htc__objects_want(htc__objects *o, uint64_t id, const htc__object *objects, uint32_t n)
{
    if (n > OBJECT_INPUTS_MAX || (n && !objects))
        return HTC_EINVAL;
    if (want_numbered(o, id))
        return HTC_EEXISTS;
    want *w = htc__alloc(&o->env, sizeof *w + n * sizeof *w->links);
    if (!w)
        return HTC_ENOMEM;
    w->id = id;
    w->n_links = n;
    HASH_ADD(hh, o->wants, id, sizeof w->id, w);
    if (!w->hh.tbl) {
        htc__free(&o->env, w, sizeof *w + n * sizeof *w->links);
        return HTC_ENOMEM;
    }
    want_move(o, w, WANT_WAITING);
    o->roomier = 1;
    htc_status status = HTC_OK;
    for (uint32_t i = 0; i < n && status == HTC_OK; i++)
        status = link_one(o, w, &objects[i]);
    if (status != HTC_OK)
        want_end(o, w, 0);
    return status;
}

void htc__objects_release(htc__objects *o, uint64_t id, int spoilt)
{
    want *w = want_numbered(o, id);
    if (w)
        want_end(o, w, spoilt);
}

void htc__objects_forget(htc__objects *o, const uint8_t hash[32])
{
    entry *e = htc__objects_find(o, hash);
    if (e && e->state == ENTRY_HERE)
        htc__objects_vanished(o, e);
}

/* ---- letting in ---- */

/* All of it, or nothing. */
static int reserve(htc__objects *o, want *w)
{
    for (uint32_t i = 0; i < w->n; i++) {
        w->links[i].e->reserved++;
        count(o, w->links[i].e);
    }
    if (o->cached - o->unused_bytes <= o->options.cache_bytes) {
        keep_bounds(o);
        return 1;
    }
    for (uint32_t i = 0; i < w->n; i++) {
        w->links[i].e->reserved--;
        count(o, w->links[i].e);
    }
    return 0;
}

static void let_in(htc__objects *o, want *w)
{
    w->let_in = 1;
    for (uint32_t i = 0; i < w->n; i++) {
        entry *e = w->links[i].e;
        w->missing += e->state != ENTRY_HERE;
        if (e->state == ENTRY_IDLE || e->state == ENTRY_PART) {
            e->state = ENTRY_QUEUED;
            e->life = ++o->lives;
            htc__objects_move(&o->queue, e);
        }
    }
    if (w->missing)
        want_move(o, w, WANT_FETCHING);
    else
        decide(o, w, HTC_OK, 0);
}

static void admit(htc__objects *o)
{
    while (o->listed && o->roomier && o->waiting) {
        want *w = o->waiting;
        if (reserve(o, w))
            let_in(o, w);
        else if (!o->fetching && !o->decided && !o->told)
            decide(o, w, HTC_ENOSPC, 0); /* there is nobody to wait for */
        else
            o->roomier = 0;
    }
}

void htc__objects_arrived(htc__objects *o, entry *e)
{
    want_link *l;
    e->state = ENTRY_HERE;
    e->life = ++o->lives;
    DL_FOREACH(e->links, l)
    if (l->of->state == WANT_FETCHING && --l->of->missing == 0)
        decide(o, l->of, HTC_OK, 0);
    htc__objects_settle(o, e);
}

void htc__objects_failed(htc__objects *o, entry *e, htc_status why)
{
    want_link *l;
    o->figures.lost += why == HTC_ELOST;
    DL_FOREACH(e->links, l)
    if (l->of->state == WANT_FETCHING)
        decide(o, l->of, why, (uint32_t)(l - l->of->links));
    htc__fetch_cancel(o, e);
}

static void report(htc__objects *o)
{
    for (want *w; (w = o->decided) != NULL;) {
        uint64_t   id = w->id;
        htc_status status = w->status;
        uint32_t   which = w->which;
        if (status == HTC_OK)
            want_move(o, w, WANT_TOLD);
        else
            want_end(o, w, 0);
        o->options.ready(o->options.role, id, status, which);
    }
}

/* ---- made here ---- */

static int pin_for(htc__objects *o, entry *e, uint64_t job)
{
    for (pin *p = e->pins; p; p = p->next)
        if (p->job == job)
            return 1;
    pin *p = htc__alloc(&o->env, sizeof *p);
    if (p) {
        *p = (pin){ job, e->pins };
        e->pins = p;
    }
    return p != NULL;
}

static void unpin(htc__objects *o, entry *e, uint64_t job)
{
    for (pin **at = &e->pins; *at; at = &(*at)->next)
        if ((*at)->job == job) {
            pin *p = *at;
            *at = p->next;
            htc__free(&o->env, p, sizeof *p);
            return;
        }
}

static void adopted(void *role, void *ctx, htc_status status, htc_bytes body)
{
    object_asked  a = *(object_asked *)ctx;
    htc__objects *o = a.o;
    entry        *e = htc__objects_find(o, a.hash);
    (void)role, (void)body;
    htc_runtime_context_free(o->runtime, ctx);
    assert(e && e->adopting);
    e->adopting--;
    if (status == HTC_OK && e->state != ENTRY_HERE) {
        htc__fetch_end(o, e);
        htc__objects_arrived(o, e);
    } else if (status != HTC_OK && e->state != ENTRY_HERE) {
        unpin(o, e, a.number);
        if (e->state == ENTRY_ROOM || e->state == ENTRY_FETCH || e->state == ENTRY_FINISH)
            htc__fetch_again(o, e);
        if (e->state == ENTRY_IDLE && !e->adopting)
            htc__objects_drop_file(o, e); /* of what was given up meanwhile */
    }
    htc__objects_settle(o, e);
    keep_bounds(o);
    o->figures.made += status == HTC_OK;
    if (o->options.made)
        o->options.made(o->options.role, a.hash, status);
}

htc_status htc__objects_made(htc__objects *o, const htc_attempt *attempt, const char *name, const uint8_t hash[32], uint64_t size)
{
    entry     *e = entry_of(o, hash);
    htc_status status = !e ? HTC_ENOMEM : !has_size(e, size) ? HTC_EINVAL : !pin_for(o, e, attempt->job) ? HTC_ENOMEM : HTC_OK;
    if (status != HTC_OK) {
        if (e)
            htc__objects_settle(o, e);
        return status;
    }
    e->adopting++;
    htc__objects_settle(o, e);
    htc_buf_clear(&o->buf);
    htc_put_raw(&o->buf, (htc_bytes){ hash, 32 });
    htc_put_u64(&o->buf, size);
    htc_write_attempt(&o->buf, attempt);
    htc_put_str(&o->buf, name);
    if (o->buf.status != HTC_OK)
        htc_runtime_break(o->runtime, o->buf.status, "keeping an object");
    htc__objects_call(o, e, HTC_CALL_OBJECT_ADOPT, htc_buf_bytes(&o->buf), adopted, attempt->job);
    return HTC_OK;
}

void htc__objects_unpin(htc__objects *o, uint64_t job)
{
    entry *e, *next;
    HASH_ITER(hh, o->entries, e, next)
    {
        unpin(o, e, job);
        htc__objects_settle(o, e);
    }
    keep_bounds(o);
}

/* ---- what is left from a life before ---- */

static htc_status take_over(htc__objects *o, htc_bytes hash, uint64_t bytes, int whole)
{
    entry *e = entry_of(o, hash.data);
    if (!e)
        return HTC_ENOMEM;
    if (e->state == ENTRY_IDLE && !e->adopting) {
        int fits = whole ? has_size(e, bytes) : 1;
        if (fits) {
            e->state = whole ? ENTRY_HERE : ENTRY_PART;
            e->part = bytes;
        } else {
            htc__objects_drop_file(o, e);
        }
    }
    htc__objects_settle(o, e);
    return HTC_OK;
}

static void listed(void *role, void *ctx, htc_status status, htc_bytes body)
{
    htc__objects *o = ctx;
    htc_reader    r = htc_reader_of(body);
    (void)role;
    o->listed = 1;
    if (status != HTC_OK) {
        htc__log_with(&o->env, HTC_LOG_WARN, HTC__FIELDS(HTC__STATUS(status)),
                      "which objects are here cannot be told (%s) -> none", htc_strerror(status));
        return;
    }
    while (htc_reader_left(&r) && status == HTC_OK) {
        htc_bytes hash = htc_get_raw(&r, 32);
        uint64_t  bytes = htc_get_u64(&r);
        int       whole = htc_get_u8(&r) != 0;
        status = r.status == HTC_OK ? take_over(o, hash, bytes, whole) : r.status;
    }
    if (status != HTC_OK)
        htc_runtime_break(o->runtime, status, "reading which objects are here");
    keep_bounds(o);
}

void htc__objects_start(htc__objects *o)
{
    htc_runtime_call(o->runtime, HTC_CALL_OBJECT_LIST, (htc_bytes){ 0 }, listed, o);
}

/* ---- the owner's side ---- */

void htc__objects_heard(htc__objects *o, uint32_t peer, uint16_t type, htc_reader *r)
{
    object_message m;
    htc_bytes      payload = { r->p, htc_reader_left(r) };
    if (htc__object_read(r, type, &m) != HTC_OK)
        return;
    if (type == HTC_WIRE_OBJECT_ASK && m.scope != o->options.scope)
        return; /* of a worker beside this one */
    if (type == HTC_WIRE_OBJECT_ASK)
        htc__serve_ask(o, peer, &m);
    else if (type == HTC_WIRE_OBJECT_BYTES)
        htc__fetch_bytes(o, peer, &m, payload);
    else
        htc__fetch_none(o, peer, &m);
}

void htc__objects_closed(htc__objects *o, uint32_t peer)
{
    htc__serve_closed(o, peer);
    htc__fetch_closed(o, peer);
}

void htc__objects_worker_gone(htc__objects *o, uint64_t worker)
{
    htc__fetch_gone(o, worker);
}

void htc__objects_run(htc__objects *o, htc_ns now)
{
    o->now = now;
    for (;;) {
        admit(o);
        htc__fetch_run(o);
        if (!o->decided)
            return;
        report(o);
    }
}

htc_ns htc__objects_deadline(const htc__objects *o)
{
    return htc__fetch_deadline(o);
}

int htc__objects_has(const htc__objects *o, const uint8_t hash[32])
{
    const entry *e = htc__objects_find(o, hash);
    return e && e->state == ENTRY_HERE;
}

int htc__objects_waits(const htc__objects *o)
{
    return o->waiting != NULL;
}

void htc__objects_look(const htc__objects *o, htc__objects_figures *f)
{
    const entry *e;
    const want  *w;
    *f = o->figures;
    f->cached_bytes = o->cached;
    for (e = o->entries; e; e = e->hh.next)
        f->here += e->state == ENTRY_HERE;
    f->fetching = o->n_active;
    DL_FOREACH(o->waiting, w)
    f->waiting++;
}

htc_status htc__objects_create(const htc_env *env, const htc__objects_options *options, htc__objects **out)
{
    if (!options || !out || !options->runtime || !options->peer_of || !options->ready)
        return HTC_EINVAL;
    htc__objects *o = htc__alloc(env, sizeof *o);
    if (!o)
        return HTC_ENOMEM;
    if (env)
        o->env = *env;
    o->options = *options;
    o->runtime = options->runtime;
    if (!o->options.cache_bytes)
        o->options.cache_bytes = CACHE_BYTES;
    if (!o->options.fetches)
        o->options.fetches = FETCHES;
    if (!o->options.piece_ns)
        o->options.piece_ns = PIECE_NS;
    if (!o->options.patience_ns)
        o->options.patience_ns = PATIENCE_NS;
    htc_buf_init(&o->buf, &o->env, 0);
    *out = o;
    return HTC_OK;
}

void htc__objects_destroy(htc__objects *o)
{
    want  *w, *next_want;
    entry *e, *next_entry;
    serve *s, *next;
    if (!o)
        return;
    htc_env env = o->env;
    HASH_ITER(hh, o->wants, w, next_want)
    {
        HASH_DEL(o->wants, w);
        htc__free(&env, w, sizeof *w + w->n_links * sizeof *w->links);
    }
    HASH_ITER(hh, o->entries, e, next_entry)
    entry_free(o, e);
    DL_FOREACH_SAFE(o->serves, s, next)
    htc__free(&env, s, sizeof *s);
    htc_buf_free(&o->buf);
    htc__free(&env, o, sizeof *o);
}
