/* The server as a machine: peers and their sessions, commits, and answers held back until what they rest on is stored.
 */
#include "htcsched/kv_server.h"

#include <string.h>

#include "core/util.h"
#include "kvs/server.h"

/* What an answer rests on is kept with it: if its batch fails, the request is executed again without its changes. */
struct htc__kv_held {
    htc__kv_held *next;
    uint64_t      session, serial;
    uint32_t      peer;
    htc_buf       answer;
    size_t        charged; /* to the connection's output */
    size_t        request_len;
    uint8_t       request[];
};

/* Where the count of answers stands in a KV_ANSWER: behind type, id, clock and session. */
#define ANSWER_COUNT 26
#define FLUSH_MAX    ((size_t)8 << 20)

static void list_init(htc__kv_list *list)
{
    list->first = NULL;
    list->last = &list->first;
}

static void list_add(htc__kv_list *list, htc__kv_held *held)
{
    held->next = NULL;
    *list->last = held;
    list->last = &held->next;
}

static void list_move(htc__kv_list *from, htc__kv_list *to)
{
    if (!from->first)
        return;
    *to->last = from->first;
    to->last = from->last;
    list_init(from);
}

static htc__kv_held *list_take(htc__kv_list *list)
{
    htc__kv_held *held = list->first;
    if (held && !(list->first = held->next))
        list->last = &list->first;
    return held;
}

static void held_free(htc_kv_server *s, htc__kv_held *held)
{
    htc_buf_free(&held->answer);
    htc__free(&s->env, held, sizeof *held + held->request_len);
}

static void list_free(htc_kv_server *s, htc__kv_list *list)
{
    for (htc__kv_held *held; (held = list_take(list));)
        held_free(s, held);
}

static htc__kv_conn *conn_of(const htc_kv_server *s, uint32_t peer)
{
    htc__node *node = htc__table_find(&s->conns, (htc_bytes){ &peer, sizeof peer });
    return node ? htc__node_value(node) : NULL;
}

static htc_status send(htc_output *out, uint32_t peer, htc_bytes body)
{
    return htc_output_add(out, &(htc_effect){ .kind = HTC_OUT_MESSAGE, .peer = peer, .body = body });
}

/* Say what is wrong, and close. */
static htc_status refuse_peer(htc_kv_server *s, uint32_t peer, uint64_t id, htc_status why, const char *text,
                              htc_output *out)
{
    htc_buf b;
    htc_buf_init(&b, &s->env, 0);
    htc_wire_error(&b, id, why, text);
    htc_status status = b.status == HTC_OK ? send(out, peer, htc_buf_bytes(&b)) : b.status;
    htc_buf_free(&b);
    htc__table_remove(&s->conns, (htc_bytes){ &peer, sizeof peer });
    htc__log(&s->env, HTC_LOG_WARN, "peer %u: %s -> close it", peer, text);
    if (status == HTC_OK)
        status = htc_output_add(out, &(htc_effect){ .kind = HTC_OUT_CLOSE, .peer = peer, .status = why });
    return status;
}

static htc_status open_peer(htc_kv_server *s, uint32_t peer, htc_output *out)
{
    htc_bytes key = { &peer, sizeof peer };
    htc__table_remove(&s->conns, key);
    if (s->conns.count >= s->options.connections_max)
        return refuse_peer(s, peer, 0, HTC_EBUSY, "too many connections", out);
    htc__node *node = htc__table_make(&s->conns, key, sizeof(htc__kv_conn));
    if (!node)
        return HTC_ENOMEM;
    htc__kv_conn *conn = htc__node_value(node);
    conn->peer = peer;
    do
        conn->session = htc_rng_next(s->env.rng);
    while (conn->session == 0);
    htc__table_link(&s->conns, node);
    return HTC_OK;
}

static htc_status hello(htc_kv_server *s, uint32_t peer, uint64_t id, htc_reader *r, htc_output *out)
{
    uint8_t    role;
    htc_status status = htc_wire_read_hello(r, &role);
    if (status != HTC_OK)
        return refuse_peer(s, peer, id, status, status == HTC_EVERSION ? "another version" : "no greeting", out);
    if (role != HTC_WIRE_ROLE_STORE_CLIENT)
        return refuse_peer(s, peer, id, HTC_EPROTO, "not a client of the store", out);
    if (!conn_of(s, peer)) /* its OPENED was lost or is late: who greets is there */
        status = open_peer(s, peer, out);
    htc__kv_conn *conn = conn_of(s, peer);
    if (status != HTC_OK || !conn)
        return status;
    conn->welcomed = 1;
    htc_buf b;
    htc_buf_init(&b, &s->env, 0);
    htc_wire_welcome(&b, id);
    status = b.status == HTC_OK ? send(out, peer, htc_buf_bytes(&b)) : b.status;
    htc_buf_free(&b);
    return status;
}

static void answer_begin(htc_buf *b, uint64_t serial, uint64_t session, size_t count)
{
    htc_wire_begin(b, HTC_WIRE_KV_ANSWER, serial);
    htc_put_u64(b, 0); /* the clock: known when the answer leaves */
    htc_put_u64(b, session);
    htc_put_u32(b, (uint32_t)count);
}

/* Execute a request into held->answer. */
static htc_status execute(htc_kv_server *s, htc__kv_held *held, int fresh_session)
{
    htc_reader   r = htc_reader_of((htc_bytes){ held->request, held->request_len });
    htc__kv_head head;
    size_t       done = 0;
    htc__kv_head_read(&r, &head);
    answer_begin(&held->answer, held->serial, held->session, 0);
    s->touched = 0;
    htc_status status =
        htc__kv_execute(s, &head, &r, &held->answer, &done, fresh_session && !(head.flags & HTC__KV_REPEATED));
    htc_patch_u32(&held->answer, ANSWER_COUNT, (uint32_t)done);
    return status != HTC_OK ? status : held->answer.status;
}

/* Read the whole request before anything of it is executed: a broken one changes nothing. */
static int well_formed(htc_reader r)
{
    htc__kv_head   head;
    htc_kv_request q;
    htc__kv_head_read(&r, &head);
    for (size_t i = 0; r.status == HTC_OK && i < head.count; i++)
        htc__kv_op_read(&r, &q);
    return htc_reader_done(&r) == HTC_OK;
}

static htc_status request(htc_kv_server *s, htc__kv_conn *conn, uint64_t serial, htc_reader r)
{
    htc_bytes    body = { r.p, htc_reader_left(&r) };
    htc__kv_head head;
    htc__kv_head_read(&r, &head);
    int current = head.session == conn->session;
    if (current && serial <= conn->serial)
        return HTC_OK; /* a copy, or overtaken by a later one: whoever sent it will ask again */
    int    busy = conn->held >= s->options.inflight_max || conn->held_bytes >= s->options.output_max || s->stopping;
    size_t keep = current && !busy ? body.len : 0;
    htc__kv_held *held = htc__alloc(&s->env, sizeof *held + keep);
    if (!held)
        return HTC_ENOMEM;
    htc_buf_init(&held->answer, &s->env, 3 * (size_t)HTC_WIRE_MESSAGE_MAX);
    held->session = conn->session;
    held->serial = serial;
    held->peer = conn->peer;
    held->request_len = keep;
    s->stats.messages++;
    if (keep == 0) {
        s->stats.pushed_back += current;
        answer_begin(&held->answer, serial, conn->session, 0);
        list_add(&s->ready, held);
        return held->answer.status;
    }
    memcpy(held->request, body.data, body.len);
    conn->serial = serial;
    htc_status status = execute(s, held, 1);
    conn->held++;
    held->charged = held->answer.len;
    conn->held_bytes += held->charged;
    list_add(s->touched >= s->open                       ? &s->waiting_open
             : s->in_flight && s->touched + 1 == s->open ? &s->waiting_flight
                                                         : &s->ready,
             held);
    return status;
}

static htc_status message(htc_kv_server *s, const htc_input *in, htc_output *out)
{
    uint16_t      type;
    uint64_t      id;
    htc_reader    r = htc_wire_open(in->body, &type, &id);
    htc__kv_conn *conn = conn_of(s, in->peer);
    if (r.status == HTC_OK && type == HTC_WIRE_HELLO)
        return hello(s, in->peer, id, &r, out);
    if (!conn || !conn->welcomed)
        return refuse_peer(s, in->peer, id, HTC_EPROTO, "no greeting", out);
    if (r.status != HTC_OK || type != HTC_WIRE_KV_REQUEST)
        return refuse_peer(s, in->peer, id, HTC_EPROTO, "unknown message", out);
    if (!well_formed(r))
        return refuse_peer(s, in->peer, id, HTC_EPROTO, "broken request", out);
    return request(s, conn, id, r);
}

/* A batch has failed: what rested on it or came after it is executed again on what is stored, its changes refused. */
static htc_status repeat_without(htc_kv_server *s, htc_status why)
{
    htc__kv_list again;
    htc_status   status = HTC_OK;
    list_init(&again);
    list_move(&s->waiting_flight, &again);
    list_move(&s->waiting_open, &again);
    htc__kv_batch_undone(s);
    s->refuse = why;
    for (htc__kv_held *held; (held = list_take(&again));) {
        list_add(&s->ready, held);
        if (status == HTC_OK)
            status = execute(s, held, 0);
    }
    s->refuse = HTC_OK;
    return status;
}

static htc_status stop(htc_kv_server *s, htc_status why, htc_output *out)
{
    s->stopped = 1;
    return htc_output_add(out, &(htc_effect){ .kind = HTC_OUT_STOP, .status = why });
}

static htc_status stored(htc_kv_server *s, const htc_input *in, htc_output *out)
{
    if (!s->in_flight || in->tag != s->open - 1)
        return HTC_OK; /* of a batch that is long settled */
    if (in->status == HTC_OK) {
        s->stats.commits++;
        htc__kv_batch_stored(s);
        list_move(&s->waiting_flight, &s->ready);
        return HTC_OK;
    }
    s->stats.commits_failed++;
    htc__log(&s->env, HTC_LOG_ERROR, "commit failed: %s -> %s", htc_strerror(in->status),
             in->status == HTC_EIO || in->status == HTC_ECORRUPT ? "stop: what is stored is not known"
                                                                 : "refuse its changes, go on reading");
    if (in->status == HTC_EIO || in->status == HTC_ECORRUPT)
        return stop(s, in->status, out);
    return repeat_without(s, in->status);
}

static htc_status commit(htc_kv_server *s, htc_output *out)
{
    if (s->in_flight || s->staged == 0)
        return HTC_OK;
    htc_status status = htc__kv_collect(s);
    if (status == HTC_OK)
        status = htc__kv_batch_close(s);
    if (status != HTC_OK)
        return status;
    list_move(&s->waiting_open, &s->waiting_flight);
    return htc_output_add(out,
                          &(htc_effect){ .kind = HTC_OUT_COMMIT, .tag = s->open - 1, .body = htc_buf_bytes(&s->body) });
}

/* Send what is ready, about FLUSH_MAX bytes of it, so that the step has room for a commit too; the rest leaves in the
 * next one, which deadline asks for at once. */
static htc_status flush(htc_kv_server *s, htc_output *out)
{
    for (size_t sent = 0; s->ready.first && sent < FLUSH_MAX;) {
        htc__kv_held *held = s->ready.first;
        htc__kv_conn *conn = conn_of(s, held->peer);
        if (conn && conn->session == held->session) {
            htc_patch_u32(&held->answer, HTC__KV_ANSWER_CLOCK, (uint32_t)s->clock_stored);
            htc_patch_u32(&held->answer, HTC__KV_ANSWER_CLOCK + 4, (uint32_t)(s->clock_stored >> 32));
            htc_status status = send(out, held->peer, htc_buf_bytes(&held->answer));
            if (status != HTC_OK)
                return status;
            sent += held->answer.len;
            if (held->request_len) {
                conn->held--;
                conn->held_bytes -= held->charged;
            }
        }
        held_free(s, list_take(&s->ready));
    }
    return HTC_OK;
}

static htc_status dispatch(htc_kv_server *s, const htc_input *in, htc_output *out)
{
    switch ((htc_input_kind)in->kind) {
    case HTC_IN_START:
        if (s->started)
            return HTC_OK;
        s->started = 1;
        return htc__kv_state_load(s);
    case HTC_IN_MESSAGE:
        return message(s, in, out);
    case HTC_IN_STORED:
        return stored(s, in, out);
    case HTC_IN_OPENED:
        return open_peer(s, in->peer, out);
    case HTC_IN_CLOSED:
        htc__table_remove(&s->conns, (htc_bytes){ &in->peer, sizeof in->peer });
        return HTC_OK;
    case HTC_IN_EVENT:
        s->stopping |= in->op == HTC_KV_SERVER_SHUTDOWN;
        return HTC_OK;
    case HTC_IN_TIMEOUT:
    case HTC_IN_RESULT:
        return HTC_OK;
    }
    return HTC_EUNSUPPORTED;
}

static htc_status server_step(void *self, const htc_input *in, htc_output *out)
{
    htc_kv_server *s = self;
    if (!s || !in || !out)
        return HTC_EINVAL;
    if (s->stopped)
        return HTC_OK;
    s->now = in->now;
    if (!s->started && in->kind != HTC_IN_START)
        return HTC_EINVAL;
    htc_status status = dispatch(s, in, out);
    if (status == HTC_ECORRUPT || status == HTC_EFORMAT || status == HTC_EIO) {
        htc__log(&s->env, HTC_LOG_ERROR, "reading the store: %s -> stop", htc_strerror(status));
        return stop(s, status, out);
    }
    if (status != HTC_OK || s->stopped)
        return status;
    status = s->stopping ? HTC_OK : htc__kv_leases_tick(s);
    if (status == HTC_OK)
        status = flush(s, out);
    if (status == HTC_OK)
        status = commit(s, out);
    if (status == HTC_OK && s->stopping && !s->in_flight && !s->ready.first)
        status = stop(s, HTC_OK, out);
    return status;
}

static htc_ns server_deadline(const void *self)
{
    const htc_kv_server *s = self;
    if (s->stopped)
        return HTC_NEVER;
    return s->ready.first ? 0 : s->lease_next;
}

static void server_destroy(void *self)
{
    htc_kv_server_destroy(self);
}

const htc_machine_ops *htc_kv_server_ops(void)
{
    static const htc_machine_ops ops = { sizeof ops, server_step, server_deadline, server_destroy };
    return &ops;
}

static uint32_t or32(uint32_t given, uint32_t otherwise)
{
    return given ? given : otherwise;
}

htc_status htc_kv_server_create(const htc_env *env, const htc_kv_server_options *options, htc_kv_server **out)
{
    htc_kv_server_options o = { 0 };
    if (!env || !env->rng || !options || !out)
        return HTC_EINVAL;
    htc_status status =
        htc__options_copy(&o, sizeof o, options, options->size, offsetof(htc_kv_server_options, connections_max));
    if (status != HTC_OK)
        return status;
    if (!o.engine.ops || o.engine.ops->size < sizeof *o.engine.ops)
        return HTC_EINVAL;
    o.connections_max = or32(o.connections_max, 256);
    o.inflight_max = or32(o.inflight_max, 8192);
    o.output_max = o.output_max ? o.output_max : (size_t)32 << 20;
    o.leases_max = or32(o.leases_max, 65536);
    o.tombstones_max = or32(o.tombstones_max, 10000);
    o.lease_ttl_min = o.lease_ttl_min ? o.lease_ttl_min : HTC_MS;
    o.lease_ttl_max = o.lease_ttl_max ? o.lease_ttl_max : 3600 * HTC_SECOND;
    if (o.lease_ttl_min > o.lease_ttl_max)
        return HTC_EINVAL;
    htc_kv_server *s = htc__alloc(env, sizeof *s);
    if (!s)
        return HTC_ENOMEM;
    s->env = *env;
    s->options = o;
    s->open = 2;
    s->lease_next = HTC_NEVER;
    htc__table_init(&s->conns, env);
    htc__table_init(&s->overlay, env);
    htc__table_init(&s->leases, env);
    list_init(&s->waiting_flight);
    list_init(&s->waiting_open);
    list_init(&s->ready);
    htc_buf_init(&s->body, env, 0);
    htc_buf_init(&s->scratch, env, 0);
    htc_buf_init(&s->scratch_items, env, 0);
    *out = s;
    return HTC_OK;
}

void htc_kv_server_destroy(htc_kv_server *s)
{
    if (!s)
        return;
    htc_env env = s->env;
    list_free(s, &s->waiting_flight);
    list_free(s, &s->waiting_open);
    list_free(s, &s->ready);
    htc__table_free(&s->conns);
    htc__table_free(&s->overlay);
    htc__table_free(&s->leases);
    htc_buf_free(&s->body);
    htc_buf_free(&s->scratch);
    htc_buf_free(&s->scratch_items);
    htc__free(&env, s, sizeof *s);
}

htc_status htc_kv_server_stats_get(const htc_kv_server *s, htc_kv_server_stats *stats)
{
    if (!s || !stats || stats->size == 0)
        return HTC_EINVAL;
    htc_kv_server_stats all = s->stats;
    all.size = stats->size;
    all.clock = s->clock_stored;
    all.leases = s->leases.count;
    all.tombstones = s->tombstones;
    all.connections = s->conns.count;
    memcpy(stats, &all, stats->size < sizeof all ? stats->size : sizeof all);
    return HTC_OK;
}
