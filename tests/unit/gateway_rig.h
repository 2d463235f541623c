/* A gateway over a real store in one process, everything delivered at once and in order: for tests that look at one thing.
 * Faults, delays and many seeds are the world's business (tests/world). */
#ifndef GATEWAY_RIG_H
#define GATEWAY_RIG_H

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/util.h"
#include "core/wire.h"
#include "htcsched/gateway.h"
#include "htcsched/kv_server.h"
#include "kvs/wire/kv_wire.h"
#include "roles/runtime/agent_wire.h"
#include "htcsched/calls.h"

#define RIG_STORE 1u /* the gateway's number of the store; the store knows the gateway by the same */
#define RIG_UID 1000u

typedef struct rig_message {
    uint32_t peer;
    uint16_t type;
    uint64_t id;
    size_t   len;
    uint8_t *bytes; /* the payload */
} rig_message;

typedef struct rig {
    htc_env        env, gw_env; /* the store's; the gateway's */
    htc_rng        rng, gw_rng;
    htc_kv_engine  engine;
    htc_kv_server *server;
    htc_gateway   *gateway;
    htc_output    *gw_out, *kv_out;
    htc_ns         now, wall;
    uint64_t       starts;
    uint32_t store_as; /* the number by which the store knows the gateway; 0: RIG_STORE. What it says to others nobody hears */
    uint16_t speaks; /* what connections announce; 0: HTC_WIRE_VERSION */
    htc_wire_machine machine; /* that agents and hosts say they are on; "": they do not */
    uint32_t       last_peer;
    rig_message    inbox[256]; /* to others than the store */
    size_t         n_inbox;
    struct {
        uint64_t agent;
        uint32_t slot, place, uid, gid, slots;
        char     user[64];
    } launched[64];
    size_t     n_launched;
    uint32_t   closed; /* the peer that was closed last */
    uint32_t   calls[80];
    uint64_t   asked, told; /* messages from the gateway to the store; bytes from the store to the gateway */
    uint64_t   killed; /* the agent of the handle that was asked to be ended first */
    uint32_t   live_slot; /* of the last LIVE_READ, and its site */
    char       live_site[32];
    htc_buf    swept; /* the body of the last CONTENT_SWEEP */
    uint32_t   disk_fails; /* uploads cannot be read */
    struct {   /* what ann's uploads come to, as her host knows it */
        int      counted; /* it is told */
        uint64_t number, stored, unfinished;
        uint32_t break_next; /* the next piece is not what was announced: its upload is forgotten */
    } uploads;
    uint32_t   mails;  /* that the host was asked to send, the last to whom and about what, */
    char       mail_to[300], mail_subject[256], mail_text[2048];
    htc_status mail_status; /* and what it answers */
    htc_status stopped;
    int        has_stopped;
    uint32_t   prefetch; /* 0: 1 */
    htc_bytes  manifest; /* of every attempt's outputs; none: not found */
    void (*change)(htc_gateway_options *o); /* what a test wants otherwise, from the next start on */
    struct rig_post *posts;
    int              busy;
    const char      *lost;    /* what the gateway says to the store with this in it does not arrive */
    uint32_t         unknown; /* so many answers to changes say that their outcome is not known */
} rig;

/* What is under way, in order: inputs of the gateway and of the store. */
typedef struct rig_post {
    int              to_store;
    htc_input        in; /* its body is a copy */
    struct rig_post *next;
} rig_post;

static void rig_post_input(rig *r, int to_store, const htc_input *in)
{
    rig_post *p = calloc(1, sizeof *p), **end = &r->posts;
    uint8_t  *bytes = malloc(in->body.len + 1);
    p->to_store = to_store;
    p->in = *in;
    if (in->body.len)
        memcpy(bytes, in->body.data, in->body.len);
    p->in.body.data = bytes;
    while (*end)
        end = &(*end)->next;
    *end = p;
}

static void rig_run(rig *r);

static inline uint32_t rig_store_as(const rig *r)
{
    return r->store_as ? r->store_as : RIG_STORE;
}

static void rig_gateway(rig *r, const htc_input *in)
{
    rig_post_input(r, 0, in);
    if (!r->busy)
        rig_run(r);
}

static void rig_store(rig *r, const htc_input *in)
{
    rig_post_input(r, 1, in);
    if (!r->busy)
        rig_run(r);
}

/* An answer of the store; of changes that were made nothing is known. */
static inline void rig_unknown(rig *r, htc_buf *b, htc_bytes body)
{
    uint16_t            type;
    uint64_t            serial;
    htc__kv_answer_head head;
    int                 some = 0;
    htc_reader          in = htc_wire_open(body, &type, &serial);
    if (type != HTC_WIRE_KV_ANSWER)
        return;
    htc__kv_answer_read(&in, &head);
    htc__kv_answer_begin(b, serial, &head);
    for (uint32_t i = 0; i < head.count; i++) {
        htc_kv_result one = { .size = sizeof one };
        htc__kv_result_read(&in, &one);
        if (one.status == HTC_OK && one.version && !one.value.data) { /* op is not said: nothing was read */
            one = (htc_kv_result){ .size = sizeof one, .status = HTC_EUNKNOWN };
            some = 1;
        }
        htc__kv_result_write(b, &one);
    }
    htc__kv_answer_end(b, head.count, head.more & HTC__KV_MORE);
    r->unknown -= (uint32_t)some;
}

static void rig_store_step(rig *r, const htc_input *in)
{
    htc_output_clear(r->kv_out);
    if (htc_kv_server_ops()->step(r->server, in, r->kv_out) != HTC_OK)
        abort();
    for (size_t i = 0; i < htc_output_count(r->kv_out); i++) {
        htc_effect e;
        htc_output_get(r->kv_out, i, &e);
        if (e.kind == HTC_OUT_COMMIT)
            rig_store(r, &(htc_input){ .size = sizeof(htc_input), .now = r->now, .wall = r->wall, .kind = HTC_IN_STORED, .tag = e.tag,
                                       .status = r->engine.ops->apply(r->engine.ctx, e.body) });
        else if (e.kind == HTC_OUT_MESSAGE && e.peer == rig_store_as(r)) {
            htc_buf other;
            htc_buf_init(&other, NULL, 0);
            if (r->unknown)
                rig_unknown(r, &other, e.body);
            if (other.len)
                e.body = htc_buf_bytes(&other);
            r->told += e.body.len;
            rig_gateway(r, &(htc_input){ .size = sizeof(htc_input), .now = r->now, .wall = r->wall, .kind = HTC_IN_MESSAGE, .peer = RIG_STORE, .body = e.body });
            htc_buf_free(&other);
        }
    }
}

static void rig_answer(rig *r, const htc_effect *e, htc_status status, const htc_buf *body)
{
    rig_gateway(r, &(htc_input){ .size = sizeof(htc_input), .now = r->now, .wall = r->wall, .kind = HTC_IN_RESULT, .op = e->op, .tag = e->tag,
                                 .status = status, .body = body ? htc_buf_bytes(body) : (htc_bytes){ NULL, 0 } });
}

static void rig_put_handle(htc_buf *b, uint64_t agent)
{
    char text[32];
    snprintf(text, sizeof text, "agent %llu", (unsigned long long)agent);
    htc_put_str(b, text);
}

static inline void rig_put_uploads(rig *r, htc_buf *b)
{
    htc_put_u64(b, ++r->uploads.number);
    htc_put_u64(b, r->uploads.stored);
    htc_put_u64(b, r->uploads.unfinished);
}

static inline htc_status rig_upload(rig *r, htc_bytes body, htc_buf *b)
{
    char       user[64];
    htc_reader in = htc_reader_of(body);
    htc_get_str(&in, user, sizeof user);
    htc_get_raw(&in, 32);
    uint64_t size = htc_get_u64(&in), offset = htc_get_u64(&in), len = htc_get_bytes(&in).len;
    uint64_t most = htc_reader_left(&in) ? htc_get_u64(&in) : UINT64_MAX, taken = r->uploads.stored + r->uploads.unfinished;
    if (r->uploads.break_next) {
        r->uploads.break_next = 0;
        r->uploads.unfinished -= size;
        return HTC_EINPUT;
    }
    if (offset == 0 && (taken > most || size > most - taken)) {
        char text[64];
        snprintf(text, sizeof text, "%llu bytes are left", (unsigned long long)(taken < most ? most - taken : 0));
        htc_put_raw(b, htc_bytes_of(text));
        return HTC_EDENIED;
    }
    r->uploads.unfinished += offset == 0 ? size : 0;
    if (offset + len == size) {
        r->uploads.unfinished -= size;
        r->uploads.stored += size;
    }
    rig_put_uploads(r, b);
    return HTC_OK;
}

static void rig_call(rig *r, const htc_effect *e)
{
    htc_reader in = htc_reader_of(e->body);
    htc_buf    b;
    char       text[256], other[256];
    htc_buf_init(&b, NULL, 0);
    r->calls[e->op]++;
    switch (e->op) {
    case HTC_CALL_LAUNCH:
        htc_get_str(&in, text, sizeof text);
        r->launched[r->n_launched].agent = htc_get_u64(&in);
        r->launched[r->n_launched].slot = htc_get_u32(&in);
        htc_get_str(&in, r->launched[r->n_launched].user, 64);
        r->launched[r->n_launched].place = htc_get_u8(&in);
        r->launched[r->n_launched].uid = htc_get_u32(&in);
        r->launched[r->n_launched].gid = htc_get_u32(&in);
        r->launched[r->n_launched].slots = htc_reader_left(&in) ? htc_get_u32(&in) : 1;
        rig_put_handle(&b, r->launched[r->n_launched].agent);
        htc_put_str(&b, "rig");
        r->n_launched++;
        rig_answer(r, e, HTC_OK, &b);
        break;
    case HTC_CALL_KILL_AGENT:
        htc_get_u64(&in);
        htc_get_str(&in, text, sizeof text);
        r->killed = r->killed ? r->killed : strtoull(text + 6, NULL, 10);
        break;
    case HTC_CALL_WATCH_AGENT:
        rig_put_handle(&b, htc_get_u64(&in));
        htc_put_str(&b, "rig");
        rig_answer(r, e, HTC_OK, &b);
        break;
    case HTC_CALL_HASH_PASSWORD: {
        htc_bytes password = htc_get_bytes(&in);
        snprintf(text, sizeof text, "plain:%.*s", (int)password.len, (const char *)password.data);
        htc_put_str(&b, text);
        rig_answer(r, e, HTC_OK, &b);
        break;
    }
    case HTC_CALL_VERIFY_PASSWORD: {
        htc_get_str(&in, text, sizeof text);
        htc_bytes password = htc_get_bytes(&in);
        snprintf(other, sizeof other, "plain:%.*s", (int)password.len, (const char *)password.data);
        rig_answer(r, e, strcmp(text, other) == 0 ? HTC_OK : HTC_EAUTH, NULL);
        break;
    }
    case HTC_CALL_RANDOM: {
        uint32_t n = htc_get_u32(&in);
        for (uint32_t i = 0; i < n; i++)
            htc_put_u8(&b, (uint8_t)htc_rng_next(&r->rng));
        rig_answer(r, e, HTC_OK, &b);
        break;
    }
    case HTC_CALL_FILE_READ: {
        (void)htc_get_u64(&in), (void)htc_get_u64(&in), (void)htc_get_u32(&in);
        htc_get_str(&in, text, sizeof text);
        uint64_t at = htc_get_u64(&in), len = htc_get_u32(&in), left = at < r->manifest.len ? r->manifest.len - at : 0;
        htc_put_u64(&b, r->manifest.len);
        htc_put_bytes(&b, (htc_bytes){ left ? (const uint8_t *)r->manifest.data + at : NULL, left < len ? left : len });
        rig_answer(r, e, r->manifest.data && !text[0] ? HTC_OK : HTC_ENOTFOUND, &b);
        break;
    }
    case HTC_CALL_LIVE_READ:
        htc_get_str(&in, r->live_site, sizeof r->live_site);
        r->live_slot = htc_get_u32(&in);
        rig_answer(r, e, HTC_ENOTFOUND, NULL);
        break;
    case HTC_CALL_CONTENT_SWEEP:
        htc_buf_free(&r->swept);
        htc_buf_init(&r->swept, NULL, 0);
        htc_put_raw(&r->swept, e->body);
        htc_put_u64(&b, 0);
        htc_put_u64(&b, 0);
        rig_answer(r, e, HTC_OK, &b);
        break;
    case HTC_CALL_CONTENT_ADOPT:
        htc_put_u64(&b, 0);
        rig_answer(r, e, HTC_OK, &b);
        break;
    case HTC_CALL_CONTENT_TOUCH: /* olga has uploaded "hello" under each hash that begins with 1, and ada has put "howdy" there under them */
        htc_get_str(&in, text, sizeof text);
        while (htc_reader_left(&in)) {
            htc_bytes hash = htc_get_raw(&in, 32);
            if (in.status != HTC_OK || (strcmp(text, "olga") != 0 && strcmp(text, "ada") != 0) || *(const uint8_t *)hash.data != 1)
                continue;
            htc_put_raw(&b, hash);
            htc_put_u64(&b, 5);
        }
        rig_answer(r, e, HTC_OK, &b);
        break;
    case HTC_CALL_BLOB_READ: {
        htc_get_str(&in, text, sizeof text);
        (void)htc_get_raw(&in, 32);
        uint64_t  at = htc_get_u64(&in);
        uint32_t  len = htc_get_u32(&in);
        htc_put_raw(&b, htc_get_bytes(&in));
        htc_put_u64(&b, at);
        htc_put_u64(&b, 5);
        htc_put_bytes(&b, (htc_bytes){ strcmp(text, "olga") == 0 ? &"hello"[at] : &"howdy"[at], len });
        if (r->disk_fails)
            htc_buf_clear(&b);
        rig_answer(r, e, r->disk_fails ? HTC_EIO : strcmp(text, "olga") == 0 || strcmp(text, "ada") == 0 ? HTC_OK : HTC_ENOTFOUND, &b);
        break;
    }
    case HTC_CALL_MAIL: {
        htc_get_str(&in, r->mail_to, sizeof r->mail_to);
        htc_get_str(&in, r->mail_subject, sizeof r->mail_subject);
        htc_bytes content = htc_get_bytes(&in);
        snprintf(r->mail_text, sizeof r->mail_text, "%.*s", (int)content.len, (const char *)content.data);
        r->mails++;
        rig_answer(r, e, r->mail_status, NULL);
        break;
    }
    case HTC_CALL_CONTENT_SUM:
        htc_put_u64(&b, htc_reader_left(&in) ? 0 : ++r->uploads.number); /* of one user: nothing is said of others */
        htc_put_str(&b, "ann");
        rig_put_uploads(r, &b);
        rig_answer(r, e, r->uploads.counted ? HTC_OK : HTC_EUNSUPPORTED, &b);
        break;
    case HTC_CALL_BLOB_WRITE: {
        htc_status status = r->uploads.counted ? rig_upload(r, e->body, &b) : HTC_OK;
        rig_answer(r, e, status, &b);
        break;
    }
    case HTC_CALL_DROP_JOB:
        if (e->tag)
            rig_answer(r, e, HTC_OK, NULL);
        break;
    default:
        if (e->tag)
            rig_answer(r, e, HTC_ENOTFOUND, NULL);
    }
    htc_buf_free(&b);
}

static void rig_keep(rig *r, const htc_effect *e)
{
    rig_message *m = &r->inbox[r->n_inbox++ % 256];
    free(m->bytes);
    htc_reader in = htc_wire_open(e->body, &m->type, &m->id);
    m->peer = e->peer;
    m->len = htc_reader_left(&in);
    m->bytes = malloc(m->len + 1);
    if (m->len)
        memcpy(m->bytes, in.p, m->len);
}

static void rig_gateway_step(rig *r, const htc_input *in)
{
    if (!r->gateway || r->has_stopped)
        return;
    htc_output *out = NULL;
    htc_output_create(NULL, 0, &out);
    htc_status status = htc_gateway_ops()->step(r->gateway, in, out);
    if (status != HTC_OK) {
        r->has_stopped = 1;
        r->stopped = status;
    }
    for (size_t i = 0; i < htc_output_count(out); i++) {
        htc_effect e;
        htc_output_get(out, i, &e);
        if (e.kind == HTC_OUT_MESSAGE && e.peer == RIG_STORE) {
            r->asked++;
            if (r->lost && memmem(e.body.data, e.body.len, r->lost, strlen(r->lost)))
                continue;
            rig_store(r, &(htc_input){ .size = sizeof(htc_input), .now = r->now, .wall = r->wall, .kind = HTC_IN_MESSAGE, .peer = rig_store_as(r), .body = e.body });
        }
        else if (e.kind == HTC_OUT_MESSAGE)
            rig_keep(r, &e);
        else if (e.kind == HTC_OUT_CALL)
            rig_call(r, &e);
        else if (e.kind == HTC_OUT_CLOSE)
            r->closed = e.peer;
        else if (e.kind == HTC_OUT_STOP) {
            r->has_stopped = 1;
            r->stopped = e.status;
        }
    }
    htc_output_destroy(out);
}

static void rig_run(rig *r)
{
    r->busy = 1;
    while (r->posts) {
        rig_post *p = r->posts;
        r->posts = p->next;
        if (p->to_store)
            rig_store_step(r, &p->in);
        else
            rig_gateway_step(r, &p->in);
        free((void *)(uintptr_t)p->in.body.data);
        free(p);
    }
    r->busy = 0;
}

/* Let span pass, waking the gateway whenever it wants to be woken. */
static void rig_pass(rig *r, htc_ns span)
{
    if (!r->gateway)
        return;
    htc_ns end = r->now + span;
    while (!r->has_stopped) {
        htc_ns at = htc_gateway_ops()->deadline(r->gateway);
        if (at > end)
            break;
        if (at > r->now) {
            r->wall += at - r->now;
            r->now = at;
        }
        rig_gateway(r, &(htc_input){ .size = sizeof(htc_input), .now = r->now, .wall = r->wall, .kind = HTC_IN_TIMEOUT });
    }
    r->wall += end - r->now;
    r->now = end;
}

static uint32_t rig_open(rig *r, uint32_t uid, uint8_t role)
{
    htc_buf  b;
    uint32_t peer = ++r->last_peer;
    htc_buf_init(&b, NULL, 0);
    htc_peer_info_write(&b, &(htc_peer_info){ .transport = HTC_TRANSPORT_UNIX, .uid = uid, .pid = 4000 + peer });
    rig_gateway(r, &(htc_input){ .size = sizeof(htc_input), .now = r->now, .wall = r->wall, .kind = HTC_IN_OPENED, .peer = peer, .body = htc_buf_bytes(&b) });
    htc_wire_hello_machine(&b, role, r->speaks ? r->speaks : HTC_WIRE_VERSION, &r->machine);
    rig_gateway(r, &(htc_input){ .size = sizeof(htc_input), .now = r->now, .wall = r->wall, .kind = HTC_IN_MESSAGE, .peer = peer, .body = htc_buf_bytes(&b) });
    htc_buf_free(&b);
    return peer;
}

static void rig_say(rig *r, uint32_t peer, const htc_buf *b)
{
    rig_gateway(r, &(htc_input){ .size = sizeof(htc_input), .now = r->now, .wall = r->wall, .kind = HTC_IN_MESSAGE, .peer = peer, .body = htc_buf_bytes(b) });
}

static void rig_start(rig *r)
{
    static const htc_site_options site = { .size = sizeof site, .name = "local", .cores = 4, .memory = UINT64_C(8) << 30 };
    htc_gateway_options o = { .size = sizeof o, .store_peer = RIG_STORE, .store_client_id = 77 + ++r->starts,
                              .owner_uid = RIG_UID, .owner_name = "olga", .apart = HTC_APART_CONFINED, .sites = &site, .n_sites = 1, .prefetch_max = r->prefetch ? r->prefetch : 1 };
    htc_buf b;
    if (r->change)
        r->change(&o);
    r->has_stopped = 0;
    r->stopped = htc_gateway_create(&r->gw_env, &o, &r->gateway);
    if (r->stopped != HTC_OK) {
        r->has_stopped = 1;
        return;
    }
    rig_gateway(r, &(htc_input){ .size = sizeof(htc_input), .now = r->now, .wall = r->wall, .kind = HTC_IN_START });
    htc_buf_init(&b, NULL, 0);
    htc_peer_info_write(&b, &(htc_peer_info){ .transport = HTC_TRANSPORT_SIM });
    rig_store(r, &(htc_input){ .size = sizeof(htc_input), .now = r->now, .wall = r->wall, .kind = HTC_IN_OPENED, .peer = rig_store_as(r), .body = htc_buf_bytes(&b) });
    rig_gateway(r, &(htc_input){ .size = sizeof(htc_input), .now = r->now, .wall = r->wall, .kind = HTC_IN_OPENED, .peer = RIG_STORE, .body = htc_buf_bytes(&b) });
    htc_buf_free(&b);
    rig_pass(r, HTC_SECOND);
}

/* Like kill -9: what the store holds is all that the next one knows. */
static inline void rig_kill(rig *r)
{
    htc_gateway_ops()->destroy(r->gateway);
    r->gateway = NULL;
    rig_store(r, &(htc_input){ .size = sizeof(htc_input), .now = r->now, .wall = r->wall, .kind = HTC_IN_CLOSED, .peer = rig_store_as(r), .status = HTC_ECLOSED });
}

/* alloc: the gateway's; NULL: malloc. */
static void rig_begin_with(rig *r, const htc_alloc *alloc)
{
    memset(r, 0, sizeof *r);
    r->rng.state = 7;
    r->gw_rng.state = 8;
    r->env = (htc_env){ .size = sizeof r->env, .rng = &r->rng };
    r->gw_env = (htc_env){ .size = sizeof r->env, .rng = &r->gw_rng, .alloc = alloc };
    r->now = 100 * HTC_SECOND;
    r->wall = UINT64_C(1700000000) * HTC_SECOND;
    r->last_peer = 100;
    htc_output_create(NULL, 0, &r->kv_out);
    if (htc_kv_memory_create(NULL, &r->engine) != HTC_OK)
        abort();
    htc_kv_server_options o = { .size = sizeof o, .engine = r->engine };
    if (htc_kv_server_create(&r->env, &o, &r->server) != HTC_OK)
        abort();
    rig_store(r, &(htc_input){ .size = sizeof(htc_input), .now = r->now, .wall = r->wall, .kind = HTC_IN_START });
    rig_start(r);
}

static inline void rig_begin(rig *r)
{
    rig_begin_with(r, NULL);
}

static void rig_end(rig *r)
{
    htc_gateway_ops()->destroy(r->gateway);
    htc_kv_server_destroy(r->server);
    r->engine.ops->destroy(r->engine.ctx);
    htc_buf_free(&r->swept);
    htc_output_destroy(r->kv_out);
    for (size_t i = 0; i < 256; i++)
        free(r->inbox[i].bytes);
}

/* The newest message of this type to peer; NULL if there is none. */
static inline const rig_message *rig_newest(rig *r, uint32_t peer, uint16_t type)
{
    for (size_t i = r->n_inbox; i > 0 && r->n_inbox - i < 256; i--) {
        const rig_message *m = &r->inbox[(i - 1) % 256];
        if (m->peer == peer && m->type == type)
            return m;
    }
    return NULL;
}

/* How many of them there are, of the newest messages. */
static inline size_t rig_count(const rig *r, uint32_t peer, uint16_t type)
{
    size_t n = 0;
    for (size_t i = r->n_inbox; i > 0 && r->n_inbox - i < 256; i--)
        n += r->inbox[(i - 1) % 256].peer == peer && r->inbox[(i - 1) % 256].type == type;
    return n;
}

/* Ask as peer; the answer is the caller's to json_decref, NULL if there is none yet. */
static inline json_t *rig_ask(rig *r, uint32_t peer, const char *json)
{
    static uint64_t id;
    htc_buf         b;
    htc_buf_init(&b, NULL, 0);
    htc_wire_begin(&b, HTC_WIRE_USER_REQUEST, ++id);
    htc_put_raw(&b, htc_bytes_of(json));
    rig_say(r, peer, &b);
    htc_buf_free(&b);
    const rig_message *m = rig_newest(r, peer, HTC_WIRE_USER_ANSWER);
    return m && m->id == id ? json_loadb((const char *)m->bytes, m->len, 0, NULL) : NULL;
}

#endif
