/* Clients that watch keys and prefixes while they ask: what they are told is judged, and in the end it has to be what is there. */
#include <stdio.h>
#include <string.h>

#include "sim/scenarios/store_private.h"

#define PROCESS 1000 /* of a watch, in the history: this and its number */

static int is_under(const store_view *v, const store_key *k)
{
    size_t len = strlen(v->what);
    return k->used && (v->prefix ? strncmp(k->name, v->what, len) == 0 : strcmp(k->name, v->what) == 0);
}

static void note(store_client *c, const store_view *v, const store_key *k, uint32_t kind, uint64_t version, htc_history_value observed)
{
    htc_history_op op = HTC_HISTORY_OP_INIT;
    op.kind = kind;
    op.outcome = HTC_HISTORY_DONE;
    op.key = k->number;
    op.process = PROCESS + v->tag;
    op.invoked = op.returned = htc_sim_now(c->s->sim);
    op.version = version;
    op.observed = observed;
    if (htc_history_add(c->s->history, &op, NULL) != HTC_OK)
        htc__store_fail(c->s, "no room in the history");
}

/* Keys that come up later are watched from then on: nothing was there before. */
static void note_all(store_client *c, const store_view *v, uint32_t kind)
{
    htc_history_value nothing = { 0, HTC_HISTORY_UNSAID, HTC_HISTORY_NO_NUMBER };
    for (uint32_t i = 0; i < STORE_KEYS; i++)
        if (is_under(v, &c->s->keys[i]) && (v->known[i].noted || kind == HTC_HISTORY_WATCH))
            note(c, v, &c->s->keys[i], kind, 0, nothing);
}

static void note_key(store_client *c, store_view *v, uint32_t i)
{
    if (v->known[i].noted)
        return;
    v->known[i].noted = 1;
    note(c, v, &c->s->keys[i], HTC_HISTORY_WATCH, 0, (htc_history_value){ 0, HTC_HISTORY_UNSAID, HTC_HISTORY_NO_NUMBER });
}

/* ---- beginning and ending ---- */

static void name_it(store_client *c, store_view *v)
{
    const store *s = c->s;
    uint32_t     first = (uint32_t)htc_rng_below(&c->rng, STORE_KEYS), used = STORE_NONE;
    for (uint32_t i = 0; i < STORE_KEYS && used == STORE_NONE; i++)
        if (s->keys[(first + i) % STORE_KEYS].used)
            used = (first + i) % STORE_KEYS;
    v->prefix = used == STORE_NONE || htc_rng_below(&c->rng, 2);
    snprintf(v->what, sizeof v->what, "%s", used == STORE_NONE ? "" : s->keys[used].name);
    if (v->prefix && used != STORE_NONE)
        v->what[htc_rng_below(&c->rng, strlen(v->what))] = '\0';
}

static htc_status begin(store_client *c, store_view *v)
{
    htc_kv_watch w = { .size = sizeof w };
    *v = (store_view){ .used = 1, .tag = ++c->s->watches };
    name_it(c, v);
    w.key = htc_bytes_of(v->what);
    w.prefix = (uint32_t)v->prefix;
    w.tag = v->tag;
    for (uint32_t i = 0; i < STORE_KEYS; i++)
        if (is_under(v, &c->s->keys[i]))
            note_key(c, v, i);
    return htc_kv_client_watch(c->kv, c->now, &w, c->inner);
}

static void forget(store_client *c, store_view *v)
{
    if (v->used)
        note_all(c, v, HTC_HISTORY_UNWATCH);
    v->used = 0;
}

void htc__store_views_forget(store_client *c)
{
    for (uint32_t i = 0; i < STORE_VIEWS; i++)
        forget(c, &c->views[i]);
}

htc_status htc__store_views_change(store_client *c)
{
    const store *s = c->s;
    store_view  *v = &c->views[0];
    if (c->redis || c->keeper || htc__store_is_behind(s, c->at) || !s->setting.watches_ppm || s->phase > STORE_WELL || htc_rng_below(&c->rng, 1000000) >= s->setting.watches_ppm)
        return HTC_OK;
    v += htc_rng_below(&c->rng, STORE_VIEWS);
    if (!v->used)
        return begin(c, v);
    uint64_t tag = v->tag;
    forget(c, v);
    return htc_kv_client_unwatch(c->kv, c->now, tag, c->inner);
}

/* ---- what is told ---- */

static void told_of_key(store_client *c, store_view *v, uint32_t i, const htc_kv_event *e)
{
    store_known      *n = &v->known[i];
    int               deleted = e->kind == HTC_KV_EVENT_DELETED;
    htc_history_value value = { 0, HTC_HISTORY_ABSENT, HTC_HISTORY_NO_NUMBER };
    note_key(c, v, i);
    if (e->version <= n->version && !(deleted && e->version == 0 && n->version == 0 && !n->there))
        htc__store_fail(c->s, "client %u is told version %llu of %s behind %llu", c->at, (unsigned long long)e->version,
                        c->s->keys[i].name, (unsigned long long)n->version);
    n->version = e->version;
    n->there = !deleted;
    if (!deleted)
        value = htc_history_value_of(e->value);
    n->value = value;
    if (e->version)
        note(c, v, &c->s->keys[i], HTC_HISTORY_EVENT, e->version, value);
}

static void told(store_client *c, store_view *v, const htc_kv_event *e)
{
    if (e->kind == HTC_KV_EVENT_ENDED) {
        htc__store_fail(c->s, "client %u: the watch of %s has ended: %s", c->at, v->what, htc_status_name(e->status));
    } else if (e->kind == HTC_KV_EVENT_START_OVER) {
        note_all(c, v, HTC_HISTORY_RESTART);
        for (uint32_t i = 0; i < STORE_KEYS; i++)
            v->known[i] = (store_known){ .noted = v->known[i].noted };
        v->current = 0;
    } else if (e->kind == HTC_KV_EVENT_CURRENT) {
        v->current = 1;
        if (v->prefix)
            note_all(c, v, HTC_HISTORY_CURRENT);
    } else {
        for (uint32_t i = 0; i < STORE_KEYS; i++)
            if (is_under(v, &c->s->keys[i]) && htc_bytes_equal(e->key, htc_bytes_of(c->s->keys[i].name)))
                told_of_key(c, v, i, e);
    }
}

void htc__store_views_look(store_client *c)
{
    htc_kv_event e;
    while (!c->redis && htc_kv_client_event(c->kv, &e)) {
        c->s->told++;
        for (uint32_t i = 0; i < STORE_VIEWS; i++)
            if (c->views[i].used && c->views[i].tag == e.tag)
                told(c, &c->views[i], &e);
    }
}

/* ---- the end ---- */

/* As it was read last; a version may have risen since without a change (a write-back above a floor). */
static int is_last(const store_key *k, const store_known *n)
{
    if (!k->there || !n->there)
        return k->there == n->there;
    return n->version >= k->last && n->value.hash == k->value.hash && n->value.length == k->value.length;
}

static int knows(const store *s, const store_view *v)
{
    for (uint32_t i = 0; i < STORE_KEYS; i++)
        if (is_under(v, &s->keys[i]) && !is_last(&s->keys[i], &v->known[i]))
            return 0;
    return v->current;
}

int htc__store_views_know(void *ctx)
{
    const store *s = ctx;
    for (uint32_t c = 0; c < s->setting.clients; c++)
        for (uint32_t i = 0; i < STORE_VIEWS; i++)
            if (s->clients[c].views[i].used && !knows(s, &s->clients[c].views[i]))
                return 0;
    return 1;
}
