/* Two members and a client of an eventual namespace, with each of their allocations refused in turn: two damaged records that are taken from the other
 * one, a put, one beside it, a get, a delete of both, comparing, and the end of the deletion. */
#include <stdio.h>

#include "expect.h"

#include "alloc_fail.h"
#include "kvs/storage/batch.h"
#include "kvs/eventual/eventual.h"
#include "kvs/cell/record.h"

enum { DIALLED = 100, CALLED = 200, USER = 300, STORE = 1, CLIENT = 2 };

typedef struct message {
    struct message *next;
    int             to; /* 0, 1: members; CLIENT */
    uint32_t        peer, kind;
    uint64_t        tag;
    size_t          len;
    uint8_t         bytes[];
} message;

typedef struct rig {
    htc_ns         now;
    htc_kv_engine  engine[2];
    htc_kv_server *server[2];
    htc_kv_client *client;
    htc_output    *out;
    message       *first, **last;
    htc_status     status;
    uint8_t        context[HTC_KV_CONTEXT_MAX];
    size_t         context_len, answers;
} rig;

static void send(rig *r, int to, uint32_t peer, uint32_t kind, uint64_t tag, htc_bytes body)
{
    message *m = malloc(sizeof *m + body.len);
    *m = (message){ .to = to, .peer = peer, .kind = kind, .tag = tag, .len = body.len };
    if (body.len)
        memcpy(m->bytes, body.data, body.len);
    *r->last = m;
    r->last = &m->next;
}

static void carry_out(rig *r, int at)
{
    htc_effect e;
    for (size_t i = 0; r->status == HTC_OK && htc_output_get(r->out, i, &e) == HTC_OK; i++) {
        if (e.kind == HTC_OUT_COMMIT) {
            cr_assert(eq(int, r->engine[at].ops->apply(r->engine[at].ctx, e.body), HTC_OK));
            send(r, at, 0, HTC_IN_STORED, e.tag, (htc_bytes){ NULL, 0 });
        } else if (e.kind == HTC_OUT_MESSAGE && at == CLIENT) {
            send(r, 0, USER, HTC_IN_MESSAGE, 0, e.body);
        } else if (e.kind == HTC_OUT_MESSAGE && e.peer == USER) {
            send(r, CLIENT, STORE, HTC_IN_MESSAGE, 0, e.body);
        } else if (e.kind == HTC_OUT_MESSAGE) {
            send(r, 1 - at, e.peer == DIALLED ? CALLED : DIALLED, HTC_IN_MESSAGE, 0, e.body);
        }
    }
    htc_output_clear(r->out);
}

static void input(rig *r, int at, const htc_input *in)
{
    if (r->status != HTC_OK)
        return;
    r->status =
        at == CLIENT ? htc_kv_client_step(r->client, in, r->out) : htc_kv_server_ops()->step(r->server[at], in, r->out);
    carry_out(r, at);
}

static void ask(rig *r, uint32_t op, const char *value)
{
    htc_kv_request q = { .size = sizeof q, .op = op, .space = htc_bytes_of("e"), .key = htc_bytes_of("k"), .value = htc_bytes_of(value) };
    if (op == HTC_KV_DELETE)
        q.context = (htc_bytes){ r->context, r->context_len };
    r->status = htc_kv_client_submit(r->client, r->now, &q, 1, 1, r->out);
    carry_out(r, CLIENT);
}

static void answered(rig *r)
{
    static const struct {
        uint32_t    op;
        const char *value;
    } next[] = { { HTC_KV_PUT, "a" }, { HTC_KV_PUT, "b" }, { HTC_KV_GET, "" }, { HTC_KV_DELETE, "" } };
    htc_kv_result a = { .size = sizeof a };
    if (r->answers && !htc_kv_client_next(r->client, &a))
        return;
    if (r->answers)
        cr_assert(a.status == HTC_OK || a.status == HTC_ENOMEM || a.status == HTC_ETIMEDOUT, "%s",
                  htc_status_name(a.status));
    if (r->answers == 3) {
        cr_assert(a.status != HTC_OK || a.items == 2);
        r->context_len = a.context.len;
        if (a.context.len)
            memcpy(r->context, a.context.data, a.context.len);
    }
    if (r->answers < 4)
        ask(r, next[r->answers].op, next[r->answers].value);
    r->answers++;
}

static size_t damaged(const rig *r)
{
    const htc__kv_cluster *c = r->server[0]->cluster;
    return c && c->eventual ? c->eventual->damaged.count : 0;
}

/* The engine has that under the name of an eventual key; no state: bytes that no seal fits. */
static void begin_with(htc_kv_engine *engine, const char *key, const htc__siblings *state)
{
    char         full[8];
    htc__kv_name name = htc__kv_name_of('n', NULL, (htc_bytes){ full, (size_t)snprintf(full, sizeof full, "e%c%s", 0, key) });
    htc_buf      b, value;
    htc_buf_init(&b, NULL, 0);
    htc_buf_init(&value, NULL, 0);
    htc_put_u8(&value, HTC__KV_EVENTUAL_FORMAT);
    if (state) {
        htc__siblings_write(&value, state);
        htc__kv_seal(&value, htc__kv_name_bytes(&name), 0);
    }
    htc__kv_batch_put(&b, htc__kv_name_bytes(&name), htc_buf_bytes(&value));
    cr_assert(engine->ops->apply(engine->ctx, htc_buf_bytes(&b)) == HTC_OK);
    htc_buf_free(&b);
    htc_buf_free(&value);
}

/* What has been said, then a millisecond. */
static void turn(rig *r)
{
    for (message *m; (m = r->first);) {
        if (!(r->first = m->next))
            r->last = &r->first;
        input(r, m->to,
              &(htc_input){ .size = sizeof(htc_input), .now = r->now, .kind = m->kind, .peer = m->peer, .tag = m->tag, .body = { m->bytes, m->len } });
        free(m);
    }
    r->now += HTC_MS;
    for (int at = 0; at <= CLIENT; at++)
        input(r, at, &(htc_input){ .size = sizeof(htc_input), .now = r->now, .kind = HTC_IN_TIMEOUT });
    if (r->status == HTC_OK && (r->answers || (r->server[0]->serving && damaged(r) == 0)))
        answered(r);
}

static htc_status create(rig *r, const htc_env *env)
{
    htc_kv_namespace      space = { .size = sizeof space, .name = htc_bytes_of("e") };
    htc_kv_member         members[2] = { { .id = 11, .peer = DIALLED }, { .id = 22, .peer = DIALLED } };
    htc_kv_client_options co = { .size = sizeof co, .client_id = 9, .peer = STORE };
    htc_status            status = htc_kv_client_create(env, &co, &r->client);
    for (int i = 0; i < 2 && status == HTC_OK; i++) {
        htc_kv_server_options o = { .size = sizeof o,
                                    .engine = r->engine[i],
                                    .self = members[i].id,
                                    .members = members,
                                    .member_count = 2,
                                    .bits = 4,
                                    .suspect_ns = 20 * HTC_MS,
                                    .request_ns = 20 * HTC_MS,
                                    .compare_ns = HTC_MS,
                                    .deleted_ns = 1, /* twice request_ns */
                                    .namespaces = &space,
                                    .namespace_count = 1 };
        status = htc_kv_server_create(env, &o, &r->server[i]);
    }
    return status;
}

/* 1: everything was done. */
static int scenario(rig *r, const htc_env *env)
{
    htc_buf info;
    int     done = 0;
    *r = (rig){ .now = 1 };
    r->last = &r->first;
    htc_buf_init(&info, NULL, 0);
    htc_peer_info_write(&info, &(htc_peer_info){ HTC_TRANSPORT_SIM, 0, 0, 0 });
    cr_assert(eq(int, htc_output_create(NULL, 0, &r->out), HTC_OK));
    for (int i = 0; i < 2; i++)
        cr_assert(eq(int, htc_kv_memory_create(NULL, &r->engine[i]), HTC_OK));
    static const htc__siblings kept = { .lines = 1, .values = 1, .line = { { 22, 1, 0, 1 } }, .value = { { .client = 5, .sequence = 1 } } };
    begin_with(&r->engine[0], "d", NULL);
    begin_with(&r->engine[0], "g", NULL); /* nobody else has anything of it */
    begin_with(&r->engine[1], "d", &kept);
    r->status = create(r, env);
    for (int i = 0; i < 2; i++)
        input(r, i, &(htc_input){ .size = sizeof(htc_input), .now = r->now, .kind = HTC_IN_START });
    for (int i = 0; i < 2; i++) {
        send(r, 1 - i, CALLED, HTC_IN_OPENED, 0, htc_buf_bytes(&info));
        send(r, i, DIALLED, HTC_IN_OPENED, 0, htc_buf_bytes(&info));
    }
    send(r, 0, USER, HTC_IN_OPENED, 0, htc_buf_bytes(&info));
    send(r, CLIENT, STORE, HTC_IN_OPENED, 0, htc_buf_bytes(&info));
    for (int turns = 0; turns < 300 && r->status == HTC_OK && !done; turns++) {
        turn(r);
        done = r->status == HTC_OK && r->answers == 5 && r->server[0]->cluster->eventual->index.count == 1 &&
               r->server[1]->cluster->eventual->index.count == 1 && r->server[0]->cluster->eventual->floor > UINT64_C(1) << 40;
    }
    cr_assert(r->status == HTC_OK || r->status == HTC_ENOMEM, "%s", htc_status_name(r->status));
    for (message *m; (m = r->first);) {
        r->first = m->next;
        free(m);
    }
    htc_kv_client_destroy(r->client);
    for (int i = 0; i < 2; i++) {
        htc_kv_server_destroy(r->server[i]);
        r->engine[i].ops->destroy(r->engine[i].ctx);
    }
    htc_output_destroy(r->out);
    htc_buf_free(&info);
    return done;
}

Test(kvs_eventual_alloc, every_allocation_may_be_refused)
{
    static rig r;
    ALLOC_FAIL_EVERY(f, 20000)
    {
        htc_rng rng = { 3 };
        htc_env env = alloc_fail_env(&f);
        env.rng = &rng;
        int done = scenario(&r, &env);
        cr_assert(f.refused || done, "%zu answers", r.answers);
        cr_assert(eq(sz, f.live, 0), "allocation %zu: leak", f.fail_at);
        cr_assert(eq(sz, f.wrong_sizes, 0));
    }
}
