#include "kvs/front/native.h"

#include <assert.h>
#include <string.h>

#include "core/fault.h"
#include "core/util.h"
#include "kvs/cell/change.h"
#include "kvs/front/reach.h"
#include "kvs/wire/owners_wire.h"

/* Bytes of answers a step hands over, so that it has room for a commit too. */
#define FLUSH_MAX ((size_t)8 << 20)
/* Operations of one request executed at a time: what is kept for each is bounded before it is read. */
#define OPS_MAX 16384
/* What an answer takes beside the bytes it carries. */
#define RESULT_MAX 64
/* Operations whose keys the backend is told of together. */
#define HINT 16
/* A piece in body: the length of its frame, its head, its answers. */
#define FRAME      4
#define PIECE_HEAD (FRAME + HTC__KV_ANSWER_HEAD)
/* Answers to frames that came together are handed over when they are so many bytes, and at the latest behind the last of these frames;
 * and of the frames no more is taken once they had so many bytes of answers, for it is to be seen first whether these are read. */
#define GATHER_MAX ((size_t)128 << 10)
#define FRAMES_MAX ((size_t)1 << 20)
/* So many bytes of answers, and the one that exceeds it, leave in the step that a pack comes in. The rest of it is to be sent again: its clients do that
 * when they have read. */
#define PACK_MAX ((size_t)4 << 20)

typedef struct conn {
    uint64_t session;
    uint64_t serial; /* the highest executed */
    size_t   held, held_bytes;
    uint32_t peer;
    uint16_t welcomed; /* the version that both speak; 0: not yet */
    uint32_t routes;   /* its client has asked who has which key */
    uint32_t proxy;    /* it speaks for several clients */
    uint64_t alone; /* the message that was asked with nothing beside it, the newest */
    htc_kv_reach *reach; /* NULL: everything */
} conn;

typedef struct part {
    size_t at, len;
} part;

struct htc__kv_native_message {
    htc__kv_native_message *next; /* of those that are ready */
    uint64_t                id, session, serial;
    uint32_t                elsewhere; /* HTC__KV_ELSEWHERE, or 0 */
    uint32_t                peer, current; /* current 0: only "send again", and the session's name */
    size_t                  count, left, told;
    size_t                  charged; /* to the connection's output */
    htc_buf                 results;
    size_t                  parts_cap;
    part                    parts[];
};

static conn *conn_of(const htc__kv_native *n, uint32_t peer)
{
    htc__node *node = htc__table_find(&n->conns, (htc_bytes){ &peer, sizeof peer });
    return node ? htc__node_value(node) : NULL;
}

static htc_status send(htc_output *out, uint32_t peer, htc_bytes body)
{
    return htc_output_add(out, &(htc_effect){ .kind = HTC_OUT_MESSAGE, .peer = peer, .body = body });
}

/* ---------------------------------------------------------------- connections */

/* Say what is wrong, and close. */
static htc_status refuse_peer(htc__kv_native *n, uint32_t peer, uint64_t id, htc_status why, const char *text,
                              htc_output *out)
{
    htc_wire_error(&n->body, id, why, text);
    htc_status status = n->body.status == HTC_OK ? send(out, peer, htc_buf_bytes(&n->body)) : n->body.status;
    htc__kv_native_closed(n, peer);
    htc__log_with(&n->env, HTC_LOG_WARN, HTC__FIELDS(HTC__NUMBER("peer", peer), HTC__STATUS(why)),
                  "peer %u: %s -> close it", peer, text);
    if (status == HTC_OK)
        status = htc_output_add(out, &(htc_effect){ .kind = HTC_OUT_CLOSE, .peer = peer, .status = why });
    return status;
}

htc_status htc__kv_native_opened(htc__kv_native *n, uint32_t peer, htc_output *out)
{
    htc_bytes key = { &peer, sizeof peer };
    htc__kv_native_closed(n, peer);
    if (n->conns.count >= n->connections_max)
        return refuse_peer(n, peer, 0, HTC_EBUSY, "too many connections", out);
    htc__node *node = htc__table_make(&n->conns, key, sizeof(conn));
    if (!node)
        return HTC_ENOMEM;
    conn *c = htc__node_value(node);
    c->peer = peer;
    do
        c->session = htc_rng_next(n->env.rng);
    while (c->session == 0);
    htc__table_link(&n->conns, node);
    return HTC_OK;
}

htc_status htc__kv_native_confine(htc__kv_native *n, uint32_t peer, const htc_kv_reach *reach)
{
    conn *c = conn_of(n, peer);
    if (!c || reach->all)
        return HTC_OK;
    c->reach = htc__alloc(&n->env, sizeof *c->reach);
    if (!c->reach)
        return HTC_ENOMEM;
    *c->reach = *reach;
    return HTC_OK;
}

void htc__kv_native_closed(htc__kv_native *n, uint32_t peer)
{
    conn *c = conn_of(n, peer);
    if (c)
        htc__free(&n->env, c->reach, sizeof *c->reach);
    htc__kv_watches_closed(&n->watches, peer);
    htc__table_remove(&n->conns, (htc_bytes){ &peer, sizeof peer });
}

static htc_status hello(htc__kv_native *n, uint32_t peer, uint64_t id, htc_reader *r, htc_output *out)
{
    uint8_t    role;
    uint16_t   version;
    htc_status status = htc_wire_read_hello(r, n->speaks, &role, &version);
    if (status != HTC_OK)
        return refuse_peer(n, peer, id, status, status == HTC_EVERSION ? "another version" : "no greeting", out);
    if (HTC__BROKEN(version_not_lowered))
        version = n->speaks;
    if (role != HTC_WIRE_ROLE_STORE_CLIENT && role != HTC_WIRE_ROLE_STORE_PROXY)
        return refuse_peer(n, peer, id, HTC_EPROTO, "not a client of the store", out);
    if (!conn_of(n, peer) && n->admits)
        return refuse_peer(n, peer, id, HTC_EDENIED, "it is not known who this is", out);
    if (!conn_of(n, peer)) /* its OPENED was lost or is late: who greets is there */
        status = htc__kv_native_opened(n, peer, out);
    conn *c = conn_of(n, peer);
    if (status != HTC_OK || !c)
        return status;
    c->welcomed = version;
    c->proxy = role == HTC_WIRE_ROLE_STORE_PROXY;
    uint64_t member = 0, have = n->backend.have ? n->backend.have(n->backend.ctx, &member) : 0;
    htc__kv_welcome(&n->body, id, version, have, member);
    return n->body.status == HTC_OK ? send(out, peer, htc_buf_bytes(&n->body)) : n->body.status;
}

/* ---------------------------------------------------------------- messages that wait */

static size_t message_size(size_t parts)
{
    return sizeof(htc__kv_native_message) + parts * sizeof(part);
}

static void message_free(htc__kv_native *n, htc__kv_native_message *m)
{
    htc_buf_free(&m->results);
    htc__slot_map_remove(&n->messages, m->id);
    htc__free(&n->env, m, message_size(m->parts_cap));
}

static htc__kv_native_message *message_make(htc__kv_native *n, const conn *c, uint64_t serial, size_t parts)
{
    htc__kv_native_message *m = htc__alloc(&n->env, message_size(parts));
    if (!m)
        return NULL;
    *m = (htc__kv_native_message){
        .id = htc__slot_map_next(&n->messages), .session = c->session, .serial = serial, .peer = c->peer, .parts_cap = parts
    };
    if (!htc__slot_map_add(&n->messages, m)) {
        htc__free(&n->env, m, message_size(parts));
        return NULL;
    }
    /* Results of reads may be large, and many. */
    htc_buf_init(&m->results, &n->env, (size_t)1 << 40);
    return m;
}

static void message_ready(htc__kv_native *n, htc__kv_native_message *m)
{
    m->next = NULL;
    *n->ready_last = m;
    n->ready_last = &m->next;
}

static void charge(htc__kv_native *n, htc__kv_native_message *m, size_t bytes)
{
    conn *c = conn_of(n, m->peer);
    m->charged += bytes;
    if (c && c->session == m->session)
        c->held_bytes += bytes;
}

/* To users what does not exist has no version. */
static void write_result(htc_buf *b, const htc_kv_result *result)
{
    if (result->status != HTC_ENOTFOUND || result->op != HTC_KV_GET) {
        htc__kv_result_write(b, result);
        return;
    }
    htc_kv_result nothing = *result;
    nothing.version = 0;
    htc__kv_result_write(b, &nothing);
}

static void message_result(htc__kv_native *n, htc__kv_native_message *m, size_t i, const htc_kv_result *result)
{
    m->parts[i].at = m->results.len;
    write_result(&m->results, result);
    m->parts[i].len = m->results.len - m->parts[i].at;
    charge(n, m, m->parts[i].len);
    if (m->results.status != HTC_OK)
        n->broken = m->results.status;
}

/* The backend's word. */
static void answered(void *ctx, uint64_t id, uint64_t slot, const htc_kv_result *result)
{
    htc__kv_native         *n = ctx;
    htc__kv_native_message *m = htc__slot_map_find(&n->messages, id);
    if (!m)
        return;
    message_result(n, m, (size_t)slot, result);
    if (--m->left == 0)
        message_ready(n, m);
}

static void elsewhere(void *ctx, uint64_t id)
{
    htc__kv_native         *n = ctx;
    htc__kv_native_message *m = htc__slot_map_find(&n->messages, id);
    if (m)
        m->elsewhere = HTC__KV_ELSEWHERE;
}

static int gone(void *ctx, uint64_t id)
{
    const htc__kv_native        *n = ctx;
    const htc__kv_native_message *m = htc__slot_map_find(&n->messages, id);
    const conn                  *c = m ? conn_of(n, m->peer) : NULL;
    return !c || c->session != m->session;
}

/* ---------------------------------------------------------------- requests */

static void piece_begin(htc__kv_native *n, uint64_t serial, uint64_t session, size_t first)
{
    if (!n->gathering)
        htc_buf_clear(&n->body);
    n->piece = n->body.len;
    htc_put_u32(&n->body, 0);
    htc__kv_answer_append(&n->body, serial, &(htc__kv_answer_head){ n->clock, session, 0, (uint32_t)first, 0 });
}

static size_t piece_len(const htc__kv_native *n)
{
    return n->body.len - n->piece - FRAME;
}

/* The answers in the piece that was begun. */
static htc_bytes piece_answers(const htc__kv_native *n)
{
    return (htc_bytes){ n->body.data + n->piece + PIECE_HEAD, n->body.len - n->piece - PIECE_HEAD };
}

static htc_status gathered_send(htc__kv_native *n, uint32_t peer, htc_output *out)
{
    if (n->body.status != HTC_OK || n->body.len == 0)
        return n->body.status;
    n->gathered += n->body.len;
    htc_status status =
        htc_output_add(out, &(htc_effect){ .kind = HTC_OUT_FRAMES, .peer = peer, .body = htc_buf_bytes(&n->body) });
    htc_buf_clear(&n->body);
    return status;
}

static htc_status piece_send(htc__kv_native *n, uint32_t peer, size_t count, uint32_t more, htc_output *out)
{
    if (n->body.status != HTC_OK)
        return n->body.status;
    size_t len = piece_len(n);
    htc__kv_answer_end_at(&n->body, n->piece + FRAME, (uint32_t)count, more);
    n->sent += len;
    if (!n->gathering)
        return send(out, peer, (htc_bytes){ n->body.data + FRAME, len });
    htc_patch_u32(&n->body, n->piece, (uint32_t)len);
    return n->body.len > GATHER_MAX ? gathered_send(n, peer, out) : HTC_OK;
}

/* Read the whole request before anything of it is executed: a broken one changes nothing. Of few operations all are kept. */
static int ops_well_formed(const htc_reader *r, htc__kv_head *head, htc_kv_request read[HINT], size_t *known)
{
    size_t room = head->count <= HINT ? HINT : 0, len;
    int    well = htc__kv_ops_check(*r, head, room ? read : NULL, &len);
    *known = room && !head->unknown ? head->count : 0;
    return well;
}

static int well_formed(htc_reader *r, htc__kv_head *head, htc_kv_request read[HINT], size_t *known)
{
    htc__kv_head_read(r, head);
    return ops_well_formed(r, head, read, known);
}

typedef struct asking {
    htc__kv_native         *n;
    conn                   *c;
    uint64_t                serial;
    size_t                  limit;       /* operations at most */
    size_t                  done, first; /* asked for; the first of the piece in body */
    uint32_t                alone;
    size_t                  size;        /* of all answers, as far as is known */
    htc__kv_native_message *m;           /* NULL as long as every answer came at once */
} asking;

/* The first operation that has to wait: what was answered before it is kept with it. */
static htc_status begin_waiting(asking *a)
{
    htc__kv_native *n = a->n;
    a->m = message_make(n, a->c, a->serial, a->limit);
    if (!a->m)
        return HTC_ENOMEM;
    a->m->current = 1;
    a->m->told = a->first;
    if (a->done > a->first) {
        htc_bytes answers = piece_answers(n);
        a->m->parts[a->first].len = answers.len;
        htc_put_raw(&a->m->results, answers);
        charge(n, a->m, answers.len);
    }
    n->body.len = n->piece; /* it is told later */
    return a->m->results.status;
}

static htc_status answered_at_once(asking *a, const htc_kv_result *result, size_t size, htc_output *out)
{
    htc__kv_native *n = a->n;
    htc_status      status = HTC_OK;
    if (a->m) {
        message_result(n, a->m, a->done, result);
        return n->broken;
    }
    if (piece_len(n) + size > HTC__KV_ANSWER_MAX && a->done > a->first) {
        status = piece_send(n, a->c->peer, a->done - a->first, HTC__KV_MORE, out);
        a->first = a->done;
        piece_begin(n, a->serial, a->c->session, a->first);
    }
    write_result(&n->body, result);
    return status;
}

/* The keys that are asked for next, so that their records are not waited for one after the other. */
static void hint_keys(const htc__kv_native *n, const htc_bytes *keys, size_t known)
{
    if (known > 1 && n->backend.hint)
        n->backend.hint(n->backend.ctx, keys, known);
}

/* Of operations that were read, or are still to be. */
static void hint(const htc__kv_native *n, const htc_kv_request *read, htc_reader ops, size_t left)
{
    htc_bytes      keys[HINT];
    htc_kv_request q = { .size = sizeof q };
    size_t         known = 0;
    for (size_t i = 0; i < left && i < HINT; i++) {
        if (!read)
            htc__kv_op_read(&ops, &q);
        keys[known] = read ? read[i].key : q.key;
        known += keys[known].len > 0;
    }
    hint_keys(n, keys, known);
}

/* Watches have no answer of their own that would say so. */
static int may_watch(const conn *c, htc_reader r)
{
    uint64_t           session, taken;
    int                repeated;
    htc__kv_watch_wish wish;
    if (!c->reach)
        return 1;
    htc__kv_watch_read(&r, &session, &repeated, &taken);
    while (htc__kv_watch_wish_next(&r, &wish))
        if (wish.kind != HTC__KV_WISH_END && !htc__kv_reach_has(c->reach, wish.key))
            return 0;
    return 1;
}

static int is_out_of_reach(const asking *a, const htc_kv_request *q, htc_kv_result *result)
{
    if (!a->c->reach || htc__kv_reach_allows(a->c->reach, q))
        return 0;
    *result = (htc_kv_result){ .size = sizeof(htc_kv_result), .op = q->op, .status = HTC_EDENIED,
                               .value = htc_bytes_of("this connection may not reach that key") };
    return 1;
}

/* A user's key opens the store to requests; who keeps it is the members' own affair. */
static int may_ask(const asking *a, const htc__kv_head *head, const htc_kv_request *q, htc_kv_result *result)
{
    const htc__kv_backend *b = &a->n->backend;
    if (is_out_of_reach(a, q, result))
        return 0;
    if (head->since > HTC__KV_LEAP_MAX && head->since - HTC__KV_LEAP_MAX > a->n->clock && q->op != HTC_KV_GET && q->op != HTC_KV_SCAN) {
        *result = (htc_kv_result){ .size = sizeof(htc_kv_result), .op = q->op,
                                   .status = HTC_EINVAL,
                                   .value = htc_bytes_of("its client says that it has seen a version far above all of this store") };
        return 0;
    }
    if (q->op != HTC_KV_CHANGE || (!a->c->proxy && (!b->may_change || b->may_change(b->ctx, a->c->peer))))
        return 1;
    *result = (htc_kv_result){ .size = sizeof(htc_kv_result), .op = q->op,
                               .status = HTC_EDENIED,
                               .value = htc_bytes_of(a->c->proxy ? "it comes through a proxy: ask a member itself"
                                                                 : "only a member's key may, or who asks a member on its own machine") };
    return 0;
}

/* Too much is in work, and its client is to send it again. */
static int must_wait(const htc__kv_native *n, const htc_kv_request *q)
{
    const htc__kv_backend *b = &n->backend;
    int                    changes = q->op != HTC_KV_GET && q->op != HTC_KV_SCAN;
    if (changes && b->busy(b->ctx))
        return 1;
    return b->full && b->full(b->ctx, q->op == HTC_KV_GET ? b->read(b->ctx, q->key) : q->value.len);
}

/* read: the operations, if they were read already. */
static htc_status ask_all(asking *a, const htc__kv_head *head, htc_reader *ops, const htc_kv_request *read,
                          htc_output *out)
{
    htc__kv_native *n = a->n;
    htc_status      status = HTC_OK;
    for (; status == HTC_OK && a->done < a->limit && a->size <= HTC__KV_ANSWER_MAX; a->done++) {
        htc__kv_stamp  stamp = { .client = head->client,
                                 .sequence = head->sequence + a->done,
                                 .since = head->since,
                                 .fresh = !(head->flags & HTC__KV_REPEATED),
                                 .alone = a->alone };
        htc_kv_request q = { .size = sizeof q };
        htc_kv_result  result = { .size = sizeof result };
        if (a->done % HINT == 0 && a->limit - a->done > 1)
            hint(n, read, *ops, a->limit - a->done);
        if (read)
            q = read[a->done];
        else
            htc__kv_op_read(ops, &q);
        if (must_wait(n, &q))
            break;
        int at_once =
            !may_ask(a, head, &q, &result) ||
            n->backend.ask(n->backend.ctx, &q, &stamp, &n->face, a->m ? a->m->id : htc__slot_map_next(&n->messages), a->done, &result);
        size_t size = RESULT_MAX + result.value.len + result.cursor.len + result.items_bytes.len;
        a->size += size;
        if (at_once) {
            status = answered_at_once(a, &result, size, out);
            continue;
        }
        if (!a->m)
            status = begin_waiting(a);
        if (status == HTC_OK)
            a->m->left++;
    }
    return status;
}

/* Nothing is done, now or ever: that may be said however much waits. */
static htc_status unknown(htc__kv_native *n, conn *c, uint64_t serial, htc_output *out)
{
    c->serial = serial;
    piece_begin(n, serial, c->session, 0);
    htc__kv_result_write(&n->body, &(htc_kv_result){ .size = sizeof(htc_kv_result), .status = HTC_EUNSUPPORTED });
    return piece_send(n, c->peer, 1, 0, out);
}

static htc_status request(htc__kv_native *n, conn *c, uint64_t serial, const htc__kv_head *head, htc_reader *ops,
                          const htc_kv_request *read, htc_output *out)
{
    int current = head->session == c->session;
    if (current && serial <= c->serial)
        return HTC_OK; /* a copy, or overtaken by a later one: whoever sent it will ask again */
    n->received++;
    if (current && head->unknown)
        return unknown(n, c, serial, out);
    int busy = c->held >= n->inflight_max || c->held_bytes >= n->output_max || n->sent >= n->sent_until || n->stopping;
    piece_begin(n, serial, c->session, 0);
    if (!current || busy || head->count == 0) {
        n->pushed_back += current && busy;
        return piece_send(n, c->peer, 0, 0, out);
    }
    c->serial = serial;
    if (c->held && c->alone && n->backend.hurry) /* what it asks for next is executed behind that */
        n->backend.hurry(n->backend.ctx, &n->face, c->alone);
    asking     a = { .n = n, .c = c, .serial = serial, .limit = head->count < OPS_MAX ? head->count : OPS_MAX };
    a.alone = head->count == 1 && c->held == 0;
    c->alone = a.alone ? htc__slot_map_next(&n->messages) : 0;
    htc_status status = ask_all(&a, head, ops, read, out);
    if (status != HTC_OK)
        return status;
    if (!a.m)
        return piece_send(n, c->peer, a.done - a.first, 0, out);
    a.m->count = a.done;
    c->held++;
    return HTC_OK;
}

/* ---------------------------------------------------------------- packs */

static int pack_well_formed(htc_reader r)
{
    htc_bytes      one;
    htc_kv_request read[HINT];
    htc__kv_head   head = { .session = htc_get_u64(&r) };
    size_t         known, count = 0;
    for (; htc__kv_pack_next(&r, &one); count++) {
        htc_reader in = htc_reader_of(one);
        htc__kv_head_read_packed(&in, &head);
        if (!ops_well_formed(&in, &head, read, &known))
            return 0;
    }
    return htc_reader_done(&r) == HTC_OK && count > 0;
}

/* The keys of the next requests, if each has but one. */
static void hint_pack(const htc__kv_native *n, htc_reader r)
{
    htc_bytes      keys[HINT], one;
    htc_kv_request q = { .size = sizeof q };
    htc__kv_head   head = { 0 };
    size_t         known = 0;
    for (size_t i = 0; i < HINT && htc__kv_pack_next(&r, &one); i++) {
        htc_reader in = htc_reader_of(one);
        htc__kv_head_read_packed(&in, &head);
        if (head.count == 0 || htc__kv_op_unknown(in))
            continue;
        htc__kv_op_read(&in, &q);
        keys[known] = q.key;
        known += keys[known].len > 0;
    }
    hint_keys(n, keys, known);
}

/* What clients of a proxy have asked for, each with its own stamps. Nothing is executed of a pack with a broken request: whoever made it has not read
 * what it passes on. */
static htc_status pack(htc__kv_native *n, conn *c, uint64_t serial, htc_reader r, htc_output *out)
{
    htc__kv_head   head = { 0 };
    htc_kv_request read[HINT];
    htc_bytes      one;
    size_t         known;
    htc_status     status = HTC_OK;
    uint32_t       peer = c->peer;
    if (!pack_well_formed(r))
        return refuse_peer(n, peer, serial, HTC_EPROTO, "broken pack", out);
    uint64_t session = htc_get_u64(&r), received = n->received;
    n->sent_until = n->sent + PACK_MAX;
    for (size_t i = 0; status == HTC_OK; i++) {
        if (i % HINT == 0 && n->backend.hint)
            hint_pack(n, r);
        if (!htc__kv_pack_next(&r, &one))
            break;
        htc_reader in = htc_reader_of(one);
        head.session = session;
        htc__kv_head_read_packed(&in, &head);
        (void)ops_well_formed(&in, &head, read, &known);
        status = request(n, c, serial + i, &head, &in, known ? read : NULL, out);
    }
    n->sent_until = UINT64_MAX;
    n->packs++;
    n->packed += n->received - received;
    return status;
}

static htc_status tell_owners(htc__kv_native *n, conn *c, uint64_t id, htc_reader r, htc_output *out)
{
    uint64_t member, known = htc_get_varint(&r);
    if (htc_reader_done(&r) != HTC_OK || !n->backend.have || !n->backend.have(n->backend.ctx, &member))
        return refuse_peer(n, c->peer, id, HTC_EPROTO, "there are no other owners", out);
    c->routes = 1;
    htc_status status = n->backend.owners(n->backend.ctx, id, known, &n->body);
    return status == HTC_OK ? send(out, c->peer, htc_buf_bytes(&n->body)) : status;
}

htc_status htc__kv_native_input(htc__kv_native *n, const htc_input *in, htc_output *out)
{
    uint16_t   type;
    uint64_t   id;
    htc_reader r = htc_wire_open(in->body, &type, &id);
    conn      *c = conn_of(n, in->peer);
    if (r.status == HTC_OK && type == HTC_WIRE_HELLO)
        return hello(n, in->peer, id, &r, out);
    if (!c || !c->welcomed)
        return refuse_peer(n, in->peer, id, HTC_EPROTO, "no greeting", out);
    if (r.status == HTC_OK && type == HTC_WIRE_KV_WATCH && !may_watch(c, r))
        return refuse_peer(n, in->peer, id, HTC_EDENIED, "it watches keys that it may not reach", out);
    if (r.status == HTC_OK && type == HTC_WIRE_KV_WATCH) {
        htc_status status = htc__kv_watches_input(&n->watches, in->peer, c->session, id, r);
        return status == HTC_EPROTO ? refuse_peer(n, in->peer, id, status, "broken watch", out) : status;
    }
    if (r.status == HTC_OK && type == HTC_WIRE_KV_OWNERS_ASK && c->welcomed >= HTC_WIRE_VERSION_OWNERS)
        return tell_owners(n, c, id, r, out);
    if (r.status == HTC_OK && type == HTC_WIRE_KV_PACK && c->proxy)
        return pack(n, c, id, r, out);
    if (r.status != HTC_OK || type != HTC_WIRE_KV_REQUEST)
        return refuse_peer(n, in->peer, id, HTC_EPROTO, "unknown message", out);
    htc__kv_head   head;
    htc_kv_request read[HINT];
    size_t         known;
    if (!well_formed(&r, &head, read, &known))
        return refuse_peer(n, in->peer, id, HTC_EPROTO, "broken request", out);
    return request(n, c, id, &head, &r, known ? read : NULL, out);
}

/* ---------------------------------------------------------------- frames that came together */

/* A request of one operation, read but not executed. */
typedef struct ahead {
    uint64_t       serial;
    htc__kv_head   head;
    htc_kv_request q;
    size_t         frame; /* its length */
} ahead;

/* Of the frames that come next those before the first that is anything else. */
static size_t read_ahead(htc_reader r, ahead *list)
{
    size_t known = 0;
    for (; known < HINT && htc_reader_left(&r); known++) {
        ahead     *a = &list[known];
        uint16_t   type;
        htc_bytes  frame = htc_get_raw(&r, htc_get_u32(&r));
        htc_reader f = htc_wire_open(frame, &type, &a->serial);
        a->frame = frame.len;
        if (type != HTC_WIRE_KV_REQUEST)
            break;
        htc__kv_head_read(&f, &a->head);
        if (a->head.count != 1)
            break;
        htc__kv_op_read(&f, &a->q);
        if (r.status != HTC_OK || htc_reader_done(&f) != HTC_OK)
            break;
    }
    return known;
}

/* Requests of one operation each: their records are fetched at once, their answers leave in one piece of memory. */
static htc_status ask_ahead(htc__kv_native *n, uint32_t peer, const ahead *list, size_t known, htc_output *out)
{
    conn      *c = conn_of(n, peer);
    htc_bytes  keys[HINT];
    size_t     many = 0;
    htc_status status = HTC_OK;
    for (size_t i = 0; i < known; i++) {
        keys[many] = list[i].q.key;
        many += keys[many].len > 0;
    }
    hint_keys(n, keys, many);
    for (size_t i = 0; status == HTC_OK && i < known; i++)
        status = request(n, c, list[i].serial, &list[i].head, NULL, &list[i].q, out);
    return status;
}

/* One that is something else, as if it had come alone; its answers are gathered too if it is a request. */
static htc_status one_frame(htc__kv_native *n, const htc_input *in, htc_bytes frame, htc_output *out)
{
    htc_input one = *in;
    one.kind = HTC_IN_MESSAGE;
    one.body = frame;
    uint16_t       type;
    uint64_t       id;
    htc__kv_head   head;
    htc_kv_request read[HINT];
    size_t         known;
    conn          *c = conn_of(n, in->peer);
    htc_reader     r = htc_wire_open(frame, &type, &id);
    if (c && c->welcomed && r.status == HTC_OK && type == HTC_WIRE_KV_REQUEST && well_formed(&r, &head, read, &known))
        return request(n, c, id, &head, &r, known ? read : NULL, out);
    htc_status status = gathered_send(n, in->peer, out);
    n->gathering = 0;
    if (status == HTC_OK)
        status = htc__kv_native_input(n, &one, out);
    n->gathering = 1;
    htc_buf_clear(&n->body);
    return status;
}

htc_status htc__kv_native_frames(htc__kv_native *n, const htc_input *in, htc_output *out)
{
    htc_reader r = htc_reader_of(in->body);
    htc_status status = HTC_OK;
    htc_buf_clear(&n->body);
    n->gathering = 1;
    n->gathered = 0;
    while (status == HTC_OK && htc_reader_left(&r) && n->gathered + n->body.len <= FRAMES_MAX) {
        ahead       list[HINT];
        const conn *c = conn_of(n, in->peer);
        size_t      known = c && c->welcomed ? read_ahead(r, list) : 0;
        for (size_t i = 0; i < known; i++)
            n->heard += htc_get_raw(&r, FRAME + list[i].frame).len - FRAME;
        if (known) {
            status = ask_ahead(n, in->peer, list, known, out);
            continue;
        }
        htc_bytes frame = htc_get_raw(&r, htc_get_u32(&r));
        if (r.status != HTC_OK)
            break; /* not whole: no driver hands that over */
        n->heard += frame.len;
        status = one_frame(n, in, frame, out);
        if (!conn_of(n, in->peer)) /* it was told why, and nothing more of it is heard */
            r.p = r.end;
    }
    if (status == HTC_OK)
        status = gathered_send(n, in->peer, out);
    n->gathering = 0;
    size_t left = htc_reader_left(&r);
    if (status == HTC_OK && left)
        status = htc_output_add(out, &(htc_effect){ .kind = HTC_OUT_LEFT, .peer = in->peer, .tag = left });
    return status;
}

/* ---------------------------------------------------------------- answers */

/* Send pieces of a message until it is told or the step is full. */
static htc_status tell(htc__kv_native *n, htc__kv_native_message *m, size_t *sent, htc_output *out)
{
    while (m->told < m->count && *sent < FLUSH_MAX) {
        size_t i = m->told;
        const conn *c = conn_of(n, m->peer);
        uint32_t    flags = c && c->routes ? m->elsewhere : 0;
        piece_begin(n, m->serial, m->session, m->told);
        for (; i < m->count && (i == m->told || piece_len(n) + m->parts[i].len <= HTC__KV_ANSWER_MAX); i++)
            htc_put_raw(&n->body, (htc_bytes){ m->results.data + m->parts[i].at, m->parts[i].len });
        *sent += piece_len(n);
        htc_status status = piece_send(n, m->peer, i - m->told, flags | (i < m->count ? HTC__KV_MORE : 0u), out);
        if (status != HTC_OK)
            return status;
        m->told = i;
    }
    return HTC_OK;
}

htc_status htc__kv_native_flush(htc__kv_native *n, htc_output *out)
{
    htc_status status = n->broken;
    for (size_t sent = 0; status == HTC_OK && n->ready && sent < FLUSH_MAX;) {
        htc__kv_native_message *m = n->ready;
        conn                   *c = conn_of(n, m->peer);
        if (c && c->session == m->session) {
            status = tell(n, m, &sent, out);
            if (status != HTC_OK || m->told < m->count)
                break;
            assert(c->held > 0);
            c->held--;
            assert(c->held_bytes >= m->charged);
            c->held_bytes -= m->charged;
        }
        if (!(n->ready = m->next))
            n->ready_last = &n->ready;
        message_free(n, m);
    }
    return status;
}

htc_status htc__kv_native_tell(htc__kv_native *n, htc_ns now, htc_output *out)
{
    return n->stopping ? HTC_OK : htc__kv_watches_flush(&n->watches, now, out);
}

/* ---------------------------------------------------------------- life */

void htc__kv_native_init(htc__kv_native *n)
{
    n->speaks = n->speaks ? n->speaks : HTC_WIRE_VERSION;
    n->sent_until = UINT64_MAX;
    n->watches.env = n->env;
    n->watches.backend = n->backend;
    htc__kv_watches_init(&n->watches);
    n->face = (htc__kv_face){ .answer = answered, .ctx = n, .gone = gone, .elsewhere = elsewhere };
    n->ready_last = &n->ready;
    htc__table_init(&n->conns, &n->env);
    n->messages = (htc__slot_map){ .env = &n->env };
    htc_buf_init(&n->body, &n->env, 0);
}

void htc__kv_native_free(htc__kv_native *n)
{
    for (htc__kv_native_message *m; (m = htc__slot_map_any(&n->messages)) != NULL;)
        message_free(n, m);
    htc__kv_watches_free(&n->watches);
    for (htc__node *node = n->conns.head[0]; node; node = node->next[0])
        htc__free(&n->env, ((conn *)htc__node_value(node))->reach, sizeof(htc_kv_reach));
    htc__table_free(&n->conns);
    htc__slot_map_free(&n->messages);
    htc_buf_free(&n->body);
}
