/* htc kv watch: what a key is, or all keys with a prefix, and what becomes of it, line by line. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "kv.h"

#define SILENCE (10 * HTC_SECOND)

static const char *word_of(uint32_t kind)
{
    switch ((htc_kv_event_kind)kind) {
    case HTC_KV_EVENT_VALUE:
        return "value";
    case HTC_KV_EVENT_DELETED:
        return "deleted";
    case HTC_KV_EVENT_CURRENT:
        return "current";
    case HTC_KV_EVENT_START_OVER:
        return "start_over";
    case HTC_KV_EVENT_ENDED:
        return "ended";
    }
    return "?";
}

static int has_key(const htc_kv_event *e)
{
    return e->kind == HTC_KV_EVENT_VALUE || e->kind == HTC_KV_EVENT_DELETED;
}

/* One object a line, so that whoever reads need not know where it ends. */
static void show_json(cli *c, const htc_kv_event *e)
{
    json_t *o = json_object();
    json_object_set_new(o, "event", json_string(word_of(e->kind)));
    if (has_key(e)) {
        kv_put_bytes(o, "key", e->key);
        json_object_set_new(o, "version", json_integer((json_int_t)e->version));
    }
    if (e->kind == HTC_KV_EVENT_VALUE)
        kv_put_bytes(o, "value", e->value);
    json_dumpf(o, stdout, JSON_COMPACT);
    putchar('\n');
    json_decref(o);
    c->json_done = 1;
}

static void put_clean(htc_bytes bytes)
{
    char *text = must(malloc(bytes.len + 1));
    memcpy(text, bytes.len ? bytes.data : "", bytes.len);
    text[bytes.len] = 0;
    htc_text_show(text);
    printf("\t%s", text);
    free(text);
}

static void show(cli *c, const htc_kv_event *e)
{
    if (c->json) {
        show_json(c, e);
    } else {
        printf("%s", word_of(e->kind));
        if (has_key(e)) {
            put_clean(e->key);
            printf("\t%" PRIu64, e->version);
        }
        if (e->kind == HTC_KV_EVENT_VALUE)
            put_clean(e->value);
        putchar('\n');
    }
    fflush(stdout);
}

static htc_status ended(kv_call *k, htc_status why)
{
    if (why == HTC_EUNSUPPORTED)
        return cli_error(k->c, why, "", "", "this store has no watches");
    return cli_error(k->c, why, "", "", "the watch has ended: %s", htc_strerror(why));
}

/* A watch is as silent where nothing changes as where nobody is left that could tell. */
static htc_ns silence(const kv_call *k)
{
    return k->timeout > 0 ? (htc_ns)(k->timeout * HTC_SECOND) : SILENCE;
}

static void say_whether_it_answers(int *away, int now)
{
    if (now != *away)
        fputs(now ? "htc: no answer: the watch goes on when the store is back\n" : "htc: the store answers again\n", stderr);
    *away = now;
}

/* Whether the key is there does not matter: somebody knows. */
static htc_status look_whether_it_answers(kv_call *k, htc_bytes key, int *away)
{
    htc_kv_request q = { .size = sizeof q, .op = HTC_KV_GET, .key = key.len ? key : htc_bytes_of("?") };
    htc_kv_result  r = { .size = sizeof r };
    htc_status     s = htc_store_ask(k->store, &q, &r, &k->c->error);
    if (s != HTC_OK)
        return s;
    say_whether_it_answers(away, r.status == HTC_ETIMEDOUT);
    k->c->error = (htc_error){ .status = HTC_OK };
    return HTC_OK;
}

htc_status kv_watch(kv_call *k)
{
    htc_kv_watch watch = { .size = sizeof watch, .tag = 1, .prefix = k->prefix != NULL };
    htc_kv_event e;
    int          away = 0;
    if ((k->w.count == 1) == (k->prefix != NULL))
        return cli_error(k->c, HTC_EUSAGE, "", "", "watch needs either KEY or --prefix P");
    if (k->prefix && k->from >= 0)
        return cli_error(k->c, HTC_EUSAGE, "--from", "", "the version is one of a single key");
    htc_status s = k->prefix ? HTC_OK : kv_key(k, k->w.at[0], &watch.key);
    if (k->prefix)
        watch.key = htc_bytes_of(k->prefix);
    if (watch.key.len > HTC_KV_KEY_MAX)
        return cli_error(k->c, HTC_EUSAGE, "--prefix", "", "a key has at most %d bytes", HTC_KV_KEY_MAX);
    watch.version = k->from > 0 ? (uint64_t)k->from : 0;
    if (s == HTC_OK && (s = htc_store_watch(k->store, &watch)) != HTC_OK)
        return ended(k, s);
    for (int64_t told = 0; s == HTC_OK && (k->count < 0 || told < k->count);) {
        s = htc_store_event(k->store, silence(k), &e);
        if (s == HTC_ETIMEDOUT) {
            s = look_whether_it_answers(k, watch.key, &away);
            continue;
        }
        if (s != HTC_OK)
            return cli_error(k->c, s, "", "", "%s", htc_strerror(s));
        if (e.kind == HTC_KV_EVENT_ENDED)
            return ended(k, e.status);
        say_whether_it_answers(&away, 0);
        show(k->c, &e);
        told += has_key(&e);
    }
    return s;
}
