#include "roles/joined/joined_content.h"

#include <stdio.h>
#include <string.h>

#include <utlist.h>

#include "core/util.h"
#include "htcsched/calls.h"
#include "roles/objects/objects.h"

#define ASKS_MAX 4096
#define GATEWAY  1                 /* as the objects know who has what */
#define KEPT     (60 * HTC_SECOND) /* what was brought is kept for those who asked; they stage it in meanwhile. */
#define KEPT_LEAST (2 * HTC_SECOND) /* When others wait for the room */
#define NOBODY   (60 * HTC_SECOND) /* after its connection is gone, what was asked for is brought no longer */

/*   BRINGS ──here──▶ GIVES ──given, answered──▶ KEPT ──time──▶ freed
 *      └── it cannot be: answered, freed */
typedef enum fetch_state { FETCH_BRINGS = 1, FETCH_GIVES, FETCH_KEPT } fetch_state;

typedef struct fetch {
    joined_content *of;
    uint64_t     want;
    uint32_t     connection, tag, state, n, given;
    htc_status   status;
    htc_ns       since; /* KEPT; BRINGS: that its connection is gone, HTC_NEVER: it is not */
    char         user[64];
    struct fetch *prev, *next;
    uint8_t      hashes[]; /* of each: the name that the gateway knows it by for this user, and its hash */
} fetch;

#define PAIR  64        /* of these */
#define ENTRY (PAIR + 8) /* with its size: in CONTENT_FETCH */

struct joined_content {
    htc_env                env;
    joined_content_options options;
    htc_runtime           *runtime;
    htc__objects          *objects;
    fetch                 *fetches; /* in the order they came */
    uint32_t               n;
    uint64_t               wants;
    htc_ns                 now;
    int                    in;
    htc_buf                buf;
};

static void answer(joined_content *c, const fetch *f, htc_status status, const char *text)
{
    c->options.answer(c->options.role, f->connection, f->tag, status, htc_bytes_of(text));
}

static void fetch_free(joined_content *c, fetch *f)
{
    htc__objects_release(c->objects, f->want, 0);
    DL_DELETE(c->fetches, f);
    c->n--;
    htc_runtime_context_free(c->runtime, f);
}

/* ---- given ---- */

static void given(void *role, void *ctx, htc_status status, htc_bytes body)
{
    fetch          *f = ctx;
    joined_content *c = f->of;
    (void)role, (void)body;
    if (status != HTC_OK && f->status == HTC_OK)
        f->status = status;
    if (++f->given < f->n)
        return;
    if (f->status != HTC_OK) {
        answer(c, f, f->status == HTC_ENOTFOUND ? HTC_EUNREACHABLE : f->status, "what was brought here could not be given to the task's user");
        fetch_free(c, f);
        return;
    }
    answer(c, f, HTC_OK, "");
    f->state = FETCH_KEPT;
    f->since = c->now;
}

static void give(joined_content *c, fetch *f)
{
    f->state = FETCH_GIVES;
    for (uint32_t i = 0; i < f->n; i++) {
        htc_buf_clear(&c->buf);
        htc_put_raw(&c->buf, (htc_bytes){ f->hashes + PAIR * i, 32 });
        htc_put_str(&c->buf, f->user);
        htc_put_raw(&c->buf, (htc_bytes){ f->hashes + PAIR * i + 32, 32 });
        if (c->buf.status != HTC_OK)
            htc_runtime_break(c->runtime, c->buf.status, "giving an upload to its user");
        htc_runtime_call(c->runtime, HTC_CALL_OBJECT_GIVE, htc_buf_bytes(&c->buf), given, f);
    }
}

static fetch *fetch_of(const joined_content *c, uint64_t want)
{
    fetch *f;
    DL_FOREACH(c->fetches, f)
    if (f->want == want)
        return f;
    return NULL;
}

static void ready(void *ctx, uint64_t want, htc_status status, uint32_t which)
{
    joined_content *c = ctx;
    fetch          *f = fetch_of(c, want);
    char            text[200], hex[65];
    if (!f)
        return;
    if (status == HTC_OK) {
        give(c, f);
        return;
    }
    for (size_t i = 0; i < 32; i++)
        snprintf(hex + 2 * i, 3, "%02x", f->hashes[PAIR * (which < f->n ? which : 0) + 32 + i]);
    snprintf(text, sizeof text, status == HTC_ELOST ? "the upload %.64s did not come from the gateway" : "the upload %.64s could not be kept here", hex);
    htc__log_with(&c->env, HTC_LOG_WARN, HTC__FIELDS(HTC__STATUS(status)), "%s (%s) -> tell the gateway", text, htc_strerror(status));
    answer(c, f, status == HTC_ELOST ? HTC_EUNREACHABLE : status, text);
    fetch_free(c, f);
}

/* ---- asked for ---- */

static uint32_t peer_of(void *ctx, uint64_t worker)
{
    const joined_content *c = ctx;
    return worker == GATEWAY && c->in ? c->options.peer : 0;
}

/* Who has read it says that it is another content: it is brought anew. Those who have it are not harmed, those who are about to are. */
static void forget_all(joined_content *c, htc_bytes entries)
{
    htc_reader r = htc_reader_of(entries);
    fetch     *f, *next;
    while (htc_reader_left(&r) >= ENTRY) {
        htc_bytes name = htc_get_raw(&r, 32);
        htc_get_raw(&r, ENTRY - 32);
        DL_FOREACH_SAFE(c->fetches, f, next)
        for (uint32_t i = 0; f->state == FETCH_KEPT && i < f->n; i++)
            if (memcmp(f->hashes + PAIR * i, name.data, 32) == 0) {
                fetch_free(c, f);
                break;
            }
        htc__objects_forget(c->objects, name.data);
    }
}

/* Of all its objects there is one source. HTC_ETOOBIG: they never have room together. */
static htc_status want_all(joined_content *c, fetch *f, htc_reader *r)
{
    static const uint64_t gateway = GATEWAY;
    htc__object          *objects = htc__alloc(&c->env, f->n * sizeof *objects);
    uint64_t              sum = 0;
    if (!objects)
        return HTC_ENOMEM;
    for (uint32_t i = 0; i < f->n; i++) {
        htc_bytes pair = htc_get_raw(r, PAIR);
        objects[i] = (htc__object){ .size = htc_get_u64(r), .content = f->hashes + PAIR * i + 32, .workers = &gateway, .n_workers = 1 };
        if (r->status != HTC_OK)
            break;
        memcpy(objects[i].hash, pair.data, 32);
        memcpy(f->hashes + PAIR * i, pair.data, PAIR);
        sum += objects[i].size < OBJECT_SIZE_MAX ? objects[i].size : OBJECT_SIZE_MAX;
    }
    htc_status status = r->status != HTC_OK                 ? HTC_EPROTO
                        : sum > c->options.cache_bytes      ? HTC_ETOOBIG
                                                            : htc__objects_want(c->objects, f->want, objects, f->n);
    htc__free(&c->env, objects, f->n * sizeof *objects);
    return status;
}

/* Of those that are kept for who may stage them in: it asks again if it was too slow. */
static int drop_oldest(joined_content *c)
{
    fetch *f;
    DL_FOREACH(c->fetches, f)
    if (f->state == FETCH_KEPT) {
        fetch_free(c, f);
        return 1;
    }
    return 0;
}

void htc__joined_content_fetch(joined_content *c, uint32_t connection, uint32_t tag, htc_bytes body)
{
    char       user[64], text[120] = "";
    htc_reader r = htc_reader_of(body);
    htc_get_str(&r, user, sizeof user);
    uint8_t    spoilt = htc_get_u8(&r);
    size_t     n = htc_reader_left(&r) / ENTRY;
    htc_status status = r.status != HTC_OK || n == 0 || n > OBJECT_INPUTS_MAX || htc_reader_left(&r) % ENTRY ? HTC_EPROTO : c->n >= ASKS_MAX && !drop_oldest(c) ? HTC_EBUSY : HTC_OK;
    fetch     *f = status == HTC_OK ? htc_runtime_context(c->runtime, sizeof *f + PAIR * n) : NULL;
    if (f) {
        *f = (fetch){ .of = c, .want = ++c->wants, .connection = connection, .tag = tag, .state = FETCH_BRINGS, .n = (uint32_t)n, .since = HTC_NEVER };
        memcpy(f->user, user, sizeof f->user);
        DL_APPEND(c->fetches, f);
        c->n++;
        if (spoilt)
            forget_all(c, (htc_bytes){ r.p, htc_reader_left(&r) });
        status = want_all(c, f, &r);
    } else if (status == HTC_OK) {
        return; /* the runtime is broken */
    }
    if (status == HTC_OK)
        return;
    if (status == HTC_ETOOBIG)
        snprintf(text, sizeof text, "what it reads is more than %llu bytes, which is all that is kept at the site (data.cache_max)",
                 (unsigned long long)c->options.cache_bytes);
    c->options.answer(c->options.role, connection, tag, status == HTC_ETOOBIG || status == HTC_EINVAL ? HTC_EINPUT : status, htc_bytes_of(text));
    if (f)
        fetch_free(c, f);
}

void htc__joined_content_heard(joined_content *c, uint16_t type, htc_reader *r)
{
    htc__objects_heard(c->objects, c->options.peer, type, r);
}

/* What was asked for on it goes on for a while: it is asked for again, and what has come of it by then is of use. */
void htc__joined_content_closed(joined_content *c)
{
    fetch *f;
    DL_FOREACH(c->fetches, f)
    if (f->state == FETCH_BRINGS && f->since == HTC_NEVER)
        f->since = c->now;
    htc__objects_closed(c->objects, c->options.peer);
}

/* ---- time ---- */

static htc_ns over_at(const joined_content *c, const fetch *f)
{
    if (f->state == FETCH_BRINGS)
        return f->since == HTC_NEVER ? HTC_NEVER : f->since + NOBODY;
    if (f->state != FETCH_KEPT)
        return HTC_NEVER;
    return f->since + (htc__objects_waits(c->objects) ? KEPT_LEAST : KEPT);
}

void htc__joined_content_run(joined_content *c, htc_ns now, int in)
{
    fetch *f, *next;
    c->now = now;
    c->in = in;
    DL_FOREACH_SAFE(c->fetches, f, next)
    if (now >= over_at(c, f))
        fetch_free(c, f);
    htc__objects_run(c->objects, now);
}

htc_ns htc__joined_content_deadline(const joined_content *c)
{
    htc_ns       at = htc__objects_deadline(c->objects);
    const fetch *f;
    DL_FOREACH(c->fetches, f)
    {
        htc_ns over = over_at(c, f);
        at = over < at ? over : at;
    }
    return at;
}

/* ---- create and destroy ---- */

htc_status htc__joined_content_create(const htc_env *env, htc_runtime *runtime, const joined_content_options *options, joined_content **out)
{
    joined_content *c = htc__alloc(env, sizeof *c);
    if (!c)
        return HTC_ENOMEM;
    c->env = *env;
    c->options = *options;
    c->options.cache_bytes = options->cache_bytes ? options->cache_bytes : (uint64_t)1 << 30;
    c->runtime = runtime;
    htc_buf_init(&c->buf, &c->env, 0);
    htc__objects_options o = { .runtime = runtime, .role = c, .peer_of = peer_of, .ready = ready, .cache_bytes = c->options.cache_bytes,
                               .fetches = options->fetches };
    htc_status status = htc__objects_create(&c->env, &o, &c->objects);
    if (status != HTC_OK) {
        htc__joined_content_destroy(c);
        return status;
    }
    *out = c;
    return HTC_OK;
}

void htc__joined_content_destroy(joined_content *c)
{
    if (!c)
        return;
    htc_env env = c->env;
    htc__objects_destroy(c->objects);
    htc_buf_free(&c->buf);
    htc__free(&env, c, sizeof *c);
}

void htc__joined_content_start(joined_content *c)
{
    htc__objects_start(c->objects);
}
