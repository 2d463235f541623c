/* Watches: what the server is asked for, in each session anew, and what of that which it tells is news.
 *
 * A message of events is asked for when the one before has been looked at to its end, so a user who does not look holds one message
 * and the server merges the rest. A state may be told twice, by a server that does not know what has arrived: versions decide. */
#include <assert.h>
#include <string.h>

#include "core/fault.h"
#include "core/util.h"
#include "kvs/client/client.h"
#include "kvs/wire/watch_wire.h"

/* Messages that came and were not looked at: one, and what a repeated question brought. */
#define TOLD_MAX 4
/* A question that nobody answers, for there is no news, is repeated after so many times retry_ns at most: on a connection that loses nothing
 * for nothing. */
#define PAUSE_MAX 128
/* Deleted keys of a prefix whose versions are remembered. */
#define GRAVES_MAX 4096

static htc__kv_watched *find(const htc_kv_client *c, uint64_t id)
{
    htc__kv_watched *v = c->watched.first;
    while (v && v->id != id)
        v = v->next;
    return v;
}

static htc__kv_watched *find_tag(const htc_kv_client *c, uint64_t tag)
{
    htc__kv_watched *v = c->watched.first;
    while (v && (v->ended || v->tag != tag))
        v = v->next;
    return v;
}

static void forget_known(htc__kv_watched *v)
{
    htc__table_free(&v->known);
    v->oldest = v->newest = NULL;
    v->graves = 0;
}

static void take_out(htc_kv_client *c, htc__kv_watched *v)
{
    htc__kv_watched_all *all = &c->watched;
    htc__kv_watched    **at = &all->first;
    while (*at != v)
        at = &(*at)->next;
    if (!(*at = v->next))
        all->last = at;
    assert(all->unsaid > 0 || v->first_in);
    all->unsaid -= v->first_in == 0;
    assert(all->unheard >= (v->first_in && !v->heard));
    all->unheard -= v->first_in && !v->heard;
}

static void release(htc_kv_client *c, htc__kv_watched *v)
{
    forget_known(v);
    htc__free(&c->env, v, sizeof *v + v->key_len);
}

static void drop(htc_kv_client *c, htc__kv_watched *v)
{
    take_out(c, v);
    release(c, v);
}

/* To the end of the list, so that what the server has not heard yet is said in the order in which it was first said. */
static void add(htc_kv_client *c, htc__kv_watched *v)
{
    v->next = NULL;
    *c->watched.last = v;
    c->watched.last = &v->next;
    v->first_in = v->heard = 0;
    c->watched.unsaid++;
}

/* It tells nothing any more; the server is told so if it may know it. */
static void end(htc_kv_client *c, htc__kv_watched *v)
{
    assert(c->watched.count > 0);
    c->watched.count--;
    forget_known(v);
    int unsaid = v->first_in == 0;
    take_out(c, v);
    if (unsaid) {
        release(c, v);
        return;
    }
    v->ended = 1;
    add(c, v);
}

/* ---------------------------------------------------------------- asking */

static void free_told(htc_kv_client *c, htc__kv_told *t)
{
    if (t)
        htc__free(&c->env, t, sizeof *t + t->len);
}

static void drop_told(htc_kv_client *c)
{
    htc__kv_told *t = c->watched.told;
    c->watched.told = t->next;
    assert(c->watched.told_count > 0);
    c->watched.told_count--;
    c->watched.taken = t->number;
    free_told(c, c->watched.lent);
    c->watched.lent = t; /* what the newest event points to */
}

void htc__kv_watched_session(htc_kv_client *c)
{
    htc__kv_watched_all *all = &c->watched;
    while (all->told)
        drop_told(c);
    all->serial = all->received = all->taken = 0;
    all->asked = 0;
    all->due = HTC_NEVER;
    all->pause = c->options.retry_ns;
    for (htc__kv_watched *v = all->first, *next; v; v = next) {
        next = v->next;
        if (v->ended) {
            drop(c, v); /* the server knows nothing of it */
            continue;
        }
        v->start_over |= v->prefix && v->first_in;
        all->unsaid += v->first_in != 0;
        v->first_in = v->heard = 0;
    }
    all->unheard = 0;
}

/* Not while a message would say nothing but what the last one said. */
static int must_ask(const htc_kv_client *c)
{
    const htc__kv_watched_all *all = &c->watched;
    int                        may_say = all->unsaid && all->unheard < HTC__KV_WISHES_MAX;
    return c->links[HTC__KV_HOME].session && all->first && ((!all->asked && !all->told) || may_say);
}

static htc_status ask(htc_kv_client *c, htc_ns now, int repeated, htc_output *out)
{
    htc__kv_watched_all *all = &c->watched;
    size_t               wishes = 0;
    htc__kv_watch_begin(&c->message, all->serial + 1, c->links[HTC__KV_HOME].session, repeated, all->taken);
    for (const htc__kv_watched *v = all->first; v && wishes < HTC__KV_WISHES_MAX; v = v->next) {
        if (v->heard)
            continue;
        htc__kv_watch_wish wish = { .watch = v->id, .kind = HTC__KV_WISH_END };
        if (!v->ended)
            wish = (htc__kv_watch_wish){ v->id, v->version, v->prefix ? HTC__KV_WISH_PREFIX : HTC__KV_WISH_KEY,
                                         { v->key, v->key_len } };
        htc__kv_watch_wish_write(&c->message, &wish);
        wishes++;
    }
    if (c->message.status != HTC_OK)
        return c->message.status;
    htc_status status = htc_output_add(
        out, &(htc_effect){ .kind = HTC_OUT_MESSAGE, .peer = c->options.peer, .body = htc_buf_bytes(&c->message) });
    if (status != HTC_OK)
        return status;
    all->serial++;
    for (htc__kv_watched *v = all->first; v && wishes; v = v->next) {
        if (v->heard)
            continue;
        assert(all->unsaid > 0 || v->first_in);
        all->unsaid -= v->first_in == 0;
        all->unheard += v->first_in == 0;
        v->first_in = v->first_in ? v->first_in : all->serial;
        wishes--;
    }
    if (all->told)
        return HTC_OK;
    all->pause = !repeated ? c->options.retry_ns : all->pause < PAUSE_MAX / 2 * c->options.retry_ns ? all->pause * 2 : PAUSE_MAX * c->options.retry_ns;
    all->due = all->pause > HTC_NEVER - now ? HTC_NEVER : now + all->pause;
    all->asked = 1;
    return HTC_OK;
}

htc_status htc__kv_watched_send(htc_kv_client *c, htc_ns now, htc_output *out)
{
    int        repeated = c->watched.asked && c->links[HTC__KV_HOME].session && c->watched.first && now >= c->watched.due;
    htc_status status = repeated || must_ask(c) ? ask(c, now, repeated, out) : HTC_OK;
    return status == HTC_EFULL && htc_output_count(out) > 0 ? HTC_OK : status; /* in the next step */
}

/* A repeat that will be due goes with what leaves anyhow, so that a client that asks now and then is not woken for it. */
void htc__kv_watched_along(htc_kv_client *c, htc_ns now, htc_output *out)
{
    const htc__kv_watched_all *all = &c->watched;
    if (all->asked && c->links[HTC__KV_HOME].session && all->first && all->due - now <= all->pause / 2)
        (void)ask(c, now, 1, out); /* else it is due by itself */
}

htc_ns htc__kv_watched_deadline(const htc_kv_client *c)
{
    return must_ask(c) ? 0 : c->watched.asked && c->links[HTC__KV_HOME].session && c->watched.first ? c->watched.due : HTC_NEVER;
}

/* ---------------------------------------------------------------- what the server tells */

static int readable(htc_reader r)
{
    htc_kv_event e;
    while (htc__kv_event_next(&r, &e)) {
    }
    return htc_reader_done(&r) == HTC_OK;
}

void htc__kv_watched_events(htc_kv_client *c, uint64_t number, htc_reader r)
{
    htc__kv_watched_all *all = &c->watched;
    uint64_t             session, heard;
    htc__kv_events_read(&r, &session, &heard);
    if (r.status != HTC_OK || c->links[HTC__KV_HOME].session == 0 || session != c->links[HTC__KV_HOME].session || number <= all->received || heard > all->serial ||
        all->told_count == TOLD_MAX || !readable(r))
        return; /* as if it had been lost */
    size_t        len = htc_reader_left(&r);
    htc__kv_told *t = htc__alloc(&c->env, sizeof *t + len), **at = &all->told;
    if (!t)
        return; /* it is asked for again */
    t->number = number;
    t->len = len;
    if (len)
        memcpy(t->bytes, r.p, len);
    while (*at)
        at = &(*at)->next;
    *at = t;
    all->told_count++;
    all->received = number;
    all->asked = 0;
    all->due = HTC_NEVER;
    for (htc__kv_watched *v = all->first, *next; v; v = next) {
        next = v->next;
        int now_heard = !v->heard && v->first_in && v->first_in <= heard;
        assert(all->unheard >= (size_t)now_heard);
        all->unheard -= now_heard;
        v->heard |= now_heard;
        if (v->ended && v->heard)
            drop(c, v);
    }
    if (len == 0 && all->told == t)
        drop_told(c); /* it only says what was heard */
}

/* ---------------------------------------------------------------- what is news */

static void grave_remove(htc__kv_watched *v, htc__kv_known *k)
{
    *(k->older ? &k->older->newer : &v->oldest) = k->newer;
    *(k->newer ? &k->newer->older : &v->newest) = k->older;
    k->older = k->newer = NULL;
    k->deleted = 0;
    assert(v->graves > 0);
    v->graves--;
}

static void grave_add(htc__kv_watched *v, htc__kv_known *k)
{
    k->deleted = 1;
    k->newer = NULL;
    k->older = v->newest;
    *(v->newest ? &v->newest->newer : &v->oldest) = k;
    v->newest = k;
    v->graves++;
}

static void forget_oldest(htc__kv_watched *v)
{
    htc__kv_known *k = v->oldest;
    grave_remove(v, k);
    htc__table_remove(&v->known, htc__node_key(k->node));
}

static htc_status known_of(const htc_kv_client *c, htc__kv_watched *v, htc_bytes key, htc__kv_known **out)
{
    htc__node *node = htc__table_find(&v->known, key);
    if (!node) {
        if (v->known.count >= c->options.watch_keys_max && v->graves)
            forget_oldest(v);
        if (v->known.count >= c->options.watch_keys_max)
            return HTC_EFULL;
        if (!(node = htc__table_make(&v->known, key, sizeof(htc__kv_known))))
            return HTC_ENOMEM;
        htc__table_link(&v->known, node);
        ((htc__kv_known *)htc__node_value(node))->node = node;
    }
    *out = htc__node_value(node);
    return HTC_OK;
}

static int is_news_of_prefix(const htc_kv_client *c, htc__kv_watched *v, const htc_kv_event *e)
{
    htc__kv_known *k;
    v->why = known_of(c, v, e->key, &k);
    if (v->why != HTC_OK || (e->version <= k->version && !HTC__BROKEN(state_told_twice)))
        return v->why != HTC_OK;
    k->version = e->version;
    if (k->deleted)
        grave_remove(v, k);
    if (e->kind == HTC_KV_EVENT_DELETED) {
        grave_add(v, k);
        if (v->graves > GRAVES_MAX)
            forget_oldest(v);
    }
    return 1;
}

static int is_news_of_key(htc__kv_watched *v, htc_kv_event *e)
{
    int nothing = e->version == 0 && v->version == 0 && !v->begun && e->kind == HTC_KV_EVENT_DELETED;
    if (e->version <= v->version && !nothing)
        return 0;
    v->version = e->version;
    e->key = (htc_bytes){ v->key, v->key_len };
    return 1;
}

/* The watch ends, and says so. */
static void say_end(htc_kv_client *c, htc__kv_watched *v, htc_kv_event *e)
{
    *e = (htc_kv_event){ .tag = v->tag, .kind = HTC_KV_EVENT_ENDED, .status = v->why };
    end(c, v);
}

/* 1: it is told. */
static int is_news(htc_kv_client *c, htc__kv_watched *v, htc_kv_event *e)
{
    int under = e->key.len >= v->key_len && (v->key_len == 0 || memcmp(e->key.data, v->key, v->key_len) == 0);
    e->tag = v->tag;
    switch ((htc_kv_event_kind)e->kind) {
    case HTC_KV_EVENT_VALUE:
    case HTC_KV_EVENT_DELETED:
        if (!v->prefix)
            return is_news_of_key(v, e);
        if (!under || e->key.len == 0 || !is_news_of_prefix(c, v, e))
            return 0;
        if (v->why != HTC_OK)
            say_end(c, v, e);
        return 1;
    case HTC_KV_EVENT_CURRENT: {
        int first = !v->begun || v->prefix;
        v->begun = 1;
        return first;
    }
    case HTC_KV_EVENT_START_OVER:
        forget_known(v);
        return v->prefix != 0;
    case HTC_KV_EVENT_ENDED:
        v->why = e->status;
        say_end(c, v, e);
        return 1;
    }
    return 0;
}

static int say_start_over(htc_kv_client *c, htc_kv_event *e)
{
    for (htc__kv_watched *v = c->watched.first; v; v = v->next) {
        if (!v->start_over || v->ended)
            continue;
        v->start_over = 0;
        forget_known(v);
        *e = (htc_kv_event){ .tag = v->tag, .kind = HTC_KV_EVENT_START_OVER };
        return 1;
    }
    return 0;
}

int htc_kv_client_event(htc_kv_client *c, htc_kv_event *event)
{
    htc_kv_event  e;
    htc__kv_told *t;
    if (!c || !event)
        return 0;
    if (say_start_over(c, event))
        return 1;
    for (; (t = c->watched.told); drop_told(c)) {
        htc_reader r = htc_reader_of((htc_bytes){ t->bytes + t->at, t->len - t->at });
        while (htc__kv_event_next(&r, &e)) {
            t->at = t->len - htc_reader_left(&r);
            htc__kv_watched *v = find(c, e.tag);
            if (v && !v->ended && is_news(c, v, &e)) {
                *event = e;
                return 1;
            }
        }
    }
    return 0;
}

int htc__kv_client_tells(const htc_kv_client *c)
{
    if (c->answers || (c->lent && c->lent->told < c->lent->count))
        return 1;
    for (const htc__kv_told *t = c->watched.told; t; t = t->next) {
        if (t->at < t->len)
            return 1;
    }
    for (const htc__kv_watched *v = c->watched.first; v; v = v->next) {
        if (v->start_over && !v->ended)
            return 1;
    }
    return 0;
}

/* ---------------------------------------------------------------- beginning and ending */

htc_status htc_kv_client_watch(htc_kv_client *c, htc_ns now, const htc_kv_watch *watch, htc_output *out)
{
    htc_kv_watch w = { 0 };
    if (!c || !watch || !out)
        return HTC_EINVAL;
    htc_status status = htc__options_copy(&w, sizeof w, watch, watch->size, offsetof(htc_kv_watch, prefix));
    if (status != HTC_OK)
        return status;
    if (w.key.len > HTC_KV_KEY_MAX || w.prefix > 1 || (w.prefix ? w.version != 0 : w.key.len == 0))
        return HTC_EINVAL;
    if (find_tag(c, w.tag))
        return HTC_EEXISTS;
    if (c->watched.count >= c->options.watches_max)
        return HTC_EFULL;
    htc__kv_watched *v = htc__alloc(&c->env, sizeof *v + w.key.len);
    if (!v)
        return HTC_ENOMEM;
    v->id = ++c->watched.last_id;
    v->tag = w.tag;
    v->prefix = w.prefix;
    v->version = w.version;
    v->key_len = w.key.len;
    if (w.key.len)
        memcpy(v->key, w.key.data, w.key.len);
    htc__table_init(&v->known, &c->env);
    add(c, v);
    c->watched.count++;
    /* Taken. If it cannot be said now, for want of memory or room, it is said later: deadline says at once. */
    (void)htc__kv_watched_send(c, now, out);
    return HTC_OK;
}

htc_status htc_kv_client_unwatch(htc_kv_client *c, htc_ns now, uint64_t tag, htc_output *out)
{
    if (!c || !out)
        return HTC_EINVAL;
    htc__kv_watched *v = find_tag(c, tag);
    if (!v)
        return HTC_ENOTFOUND;
    end(c, v);
    (void)htc__kv_watched_send(c, now, out);
    return HTC_OK;
}

void htc__kv_watched_init(htc_kv_client *c)
{
    c->watched.last = &c->watched.first;
    c->watched.due = HTC_NEVER;
    c->watched.pause = c->options.retry_ns;
}

void htc__kv_watched_free(htc_kv_client *c)
{
    while (c->watched.first)
        drop(c, c->watched.first);
    while (c->watched.told)
        drop_told(c);
    free_told(c, c->watched.lent);
    c->watched.lent = NULL;
}
