/* Clients of the proxy, as of a store: front/native.h says what a store makes of the same messages. */
#include "kvs/proxy/proxy.h"

#include <assert.h>
#include <string.h>

#include "core/fault.h"
#include "core/util.h"
#include "kvs/wire/watch_wire.h"

/* Messages above this leave room for those that are not. */
#define LONG ((size_t)64 << 10)

htc__proxy_client *htc__proxy_client_of(const htc_kv_proxy *p, uint32_t peer)
{
    htc__node *node = htc__table_find(&p->clients, (htc_bytes){ &peer, sizeof peer });
    return node ? htc__node_value(node) : NULL;
}

htc_status htc__proxy_send(htc_kv_proxy *p, uint32_t peer, htc_output *out)
{
    if (p->message.status != HTC_OK)
        return p->message.status;
    return htc_output_add(out, &(htc_effect){ .kind = HTC_OUT_MESSAGE, .peer = peer, .body = htc_buf_bytes(&p->message) });
}

/* ---- what waits ---- */

static void turn_add(htc_kv_proxy *p, htc__proxy_client *c)
{
    c->next = NULL;
    *(p->turn ? &p->turn_last->next : &p->turn) = c;
    p->turn_last = c;
}

static void turn_remove(htc_kv_proxy *p, htc__proxy_client *c)
{
    htc__proxy_client *before = NULL, *at = p->turn;
    for (; at && at != c; at = at->next)
        before = at;
    if (!at)
        return;
    *(before ? &before->next : &p->turn) = c->next;
    if (p->turn_last == c)
        p->turn_last = before;
}

void htc__proxy_request_free(htc_kv_proxy *p, htc__proxy_request *q)
{
    htc__free(&p->env, q, sizeof *q + q->len);
}

size_t htc__proxy_request_next(const htc_kv_proxy *p)
{
    return p->turn ? p->turn->first->len : 0;
}

static htc__proxy_request *take(htc_kv_proxy *p, htc__proxy_client *c)
{
    htc__proxy_request *q = c->first;
    c->first = q->next;
    assert(p->waiting > 0 && p->waiting_bytes >= q->len && c->bytes >= q->len);
    p->waiting--;
    p->waiting_bytes -= q->len;
    c->bytes -= q->len;
    return q;
}

htc__proxy_request *htc__proxy_request_take(htc_kv_proxy *p, uint32_t *peer)
{
    htc__proxy_client *c = p->turn;
    if (!c)
        return NULL;
    htc__proxy_request *q = take(p, c);
    *peer = c->peer;
    p->turn = c->next;
    if (c->first)
        turn_add(p, c);
    return q;
}

/* A client has a quarter of the room, and always one message; long ones leave a quarter of it to the others. */
static int fits(const htc_kv_proxy *p, const htc__proxy_client *c, size_t len)
{
    size_t room = p->options.bytes_max, all = len > LONG ? room / 4 * 3 : room;
    return c->held < p->options.inflight_max && p->waiting_bytes + len <= all && (c->bytes == 0 || c->bytes + len <= room / 4);
}

static htc_status keep(htc_kv_proxy *p, htc__proxy_client *c, uint64_t serial, const htc__kv_head *head, htc_bytes ops)
{
    htc_buf_clear(&p->message);
    htc__kv_head_write_packed(&p->message, head);
    htc_put_raw(&p->message, ops);
    if (p->message.status != HTC_OK)
        return p->message.status;
    htc__proxy_request *q = htc__alloc_raw(&p->env, sizeof *q + p->message.len);
    if (!q)
        return HTC_ENOMEM;
    *q = (htc__proxy_request){ .serial = serial, .len = p->message.len };
    memcpy(q->bytes, p->message.data, q->len);
    if (!c->first)
        turn_add(p, c);
    *(c->first ? &c->last->next : &c->first) = q;
    c->last = q;
    c->held++;
    c->bytes += q->len;
    p->waiting++;
    p->waiting_bytes += q->len;
    return HTC_OK;
}

/* ---- connections ---- */

static void closed(htc_kv_proxy *p, uint32_t peer)
{
    htc__proxy_client *c = htc__proxy_client_of(p, peer);
    if (!c)
        return;
    turn_remove(p, c);
    while (c->first)
        htc__proxy_request_free(p, take(p, c));
    htc__table_remove(&p->clients, (htc_bytes){ &peer, sizeof peer });
}

static htc_status refuse(htc_kv_proxy *p, uint32_t peer, uint64_t id, htc_status why, const char *text, htc_output *out)
{
    htc_wire_error(&p->message, id, why, text);
    htc_status status = htc__proxy_send(p, peer, out);
    closed(p, peer);
    htc__log_with(&p->env, why == HTC_EUNREACHABLE ? HTC_LOG_DEBUG : HTC_LOG_WARN, HTC__FIELDS(HTC__NUMBER("peer", peer), HTC__STATUS(why)),
                  "peer %u: %s -> close it", peer, text);
    return status == HTC_OK ? htc_output_add(out, &(htc_effect){ .kind = HTC_OUT_CLOSE, .peer = peer, .status = why }) : status;
}

htc_status htc__proxy_clients_close(htc_kv_proxy *p, htc_output *out)
{
    htc_status status = HTC_OK;
    while (p->clients.head[0] && status == HTC_OK) {
        const htc__proxy_client *c = htc__node_value(p->clients.head[0]);
        htc_effect               close = { .kind = HTC_OUT_CLOSE, .peer = c->peer, .status = HTC_ECLOSED };
        status = htc_output_add(out, &close);
        closed(p, c->peer);
    }
    return status;
}

static htc_status opened(htc_kv_proxy *p, uint32_t peer, htc_output *out)
{
    closed(p, peer);
    if (p->clients.count >= p->options.connections_max)
        return refuse(p, peer, 0, HTC_EBUSY, "too many connections", out);
    htc__node *node = htc__table_make(&p->clients, (htc_bytes){ &peer, sizeof peer }, sizeof(htc__proxy_client));
    if (!node)
        return HTC_ENOMEM;
    htc__proxy_client *c = htc__node_value(node);
    c->peer = peer;
    do
        c->session = htc_rng_next(p->env.rng);
    while (c->session == 0);
    htc__table_link(&p->clients, node);
    return HTC_OK;
}

static htc_status hello(htc_kv_proxy *p, uint32_t peer, uint64_t id, htc_reader *r, htc_output *out)
{
    uint8_t    role;
    uint16_t   version;
    htc_status status = htc_wire_read_hello(r, HTC_WIRE_VERSION, &role, &version);
    if (status != HTC_OK)
        return refuse(p, peer, id, status, status == HTC_EVERSION ? "another version" : "no greeting", out);
    if (role != HTC_WIRE_ROLE_STORE_CLIENT)
        return refuse(p, peer, id, HTC_EPROTO, "not a client of the store", out);
    if (!p->store)
        return refuse(p, peer, id, HTC_EUNREACHABLE, "the store behind this proxy does not answer", out);
    if (!htc__proxy_client_of(p, peer)) /* its OPENED was lost or is late: who greets is there */
        status = opened(p, peer, out);
    htc__proxy_client *c = htc__proxy_client_of(p, peer);
    if (status != HTC_OK || !c)
        return status;
    c->welcomed = version;
    htc_wire_welcome(&p->message, id, version);
    return htc__proxy_send(p, peer, out);
}

/* ---- requests ---- */

/* The session's name, or "send again": nothing of it was passed on. */
static htc_status not_executed(htc_kv_proxy *p, const htc__proxy_client *c, uint64_t serial, htc_output *out)
{
    htc__kv_answer_begin(&p->message, serial, &(htc__kv_answer_head){ .clock = p->clock, .session = c->session });
    return htc__proxy_send(p, c->peer, out);
}

static htc_status unknown(htc_kv_proxy *p, const htc__proxy_client *c, uint64_t serial, htc_output *out)
{
    htc__kv_answer_begin(&p->message, serial, &(htc__kv_answer_head){ .clock = p->clock, .session = c->session, .count = 1 });
    htc__kv_result_write(&p->message, &(htc_kv_result){ .size = sizeof(htc_kv_result), .status = HTC_EUNSUPPORTED });
    return htc__proxy_send(p, c->peer, out);
}

static htc_status request(htc_kv_proxy *p, htc__proxy_client *c, uint64_t serial, htc_reader *r, htc_output *out)
{
    htc__kv_head head;
    size_t       len = 0;
    htc__kv_head_read(r, &head);
    if (r->status != HTC_OK || !htc__kv_ops_check(*r, &head, NULL, &len)) /* the store would close the proxy for it, and all others with it */
        return refuse(p, c->peer, serial, HTC_EPROTO, "broken request", out);
    if (head.session != c->session)
        return not_executed(p, c, serial, out);
    if (serial <= c->serial)
        return HTC_OK; /* a copy, or overtaken by a later one: whoever sent it will ask again */
    c->serial = serial;
    if (head.unknown)
        return unknown(p, c, serial, out);
    if (head.count == 0)
        return not_executed(p, c, serial, out);
    if (!fits(p, c, len)) {
        p->stats.pushed_back++;
        return not_executed(p, c, serial, out);
    }
    if (HTC__BROKEN(proxy_restamps))
        head.client ^= c->session;
    return keep(p, c, serial, &head, (htc_bytes){ r->p, len });
}

/* Nobody watches through a proxy: each wish is answered that it has ended. */
static htc_status watch(htc_kv_proxy *p, htc__proxy_client *c, uint64_t serial, htc_reader *r, htc_output *out)
{
    uint64_t           session, taken;
    int                repeated;
    size_t             wishes = 0;
    htc__kv_watch_wish wish;
    htc__kv_watch_read(r, &session, &repeated, &taken);
    htc__kv_events_begin(&p->message, c->events + 1, c->session, serial);
    for (; htc__kv_watch_wish_next(r, &wish) && wishes <= HTC__KV_WISHES_MAX; wishes++)
        if (wish.kind != HTC__KV_WISH_END)
            htc__kv_event_write(&p->message, &(htc_kv_event){ .tag = wish.watch, .kind = HTC_KV_EVENT_ENDED, .status = HTC_EUNSUPPORTED });
    if (r->status != HTC_OK || wishes > HTC__KV_WISHES_MAX)
        return refuse(p, c->peer, serial, HTC_EPROTO, "broken watch", out);
    if (session != c->session || wishes == 0)
        return HTC_OK;
    c->events++;
    return htc__proxy_send(p, c->peer, out);
}

static htc_status message(htc_kv_proxy *p, uint32_t peer, htc_bytes body, htc_output *out)
{
    uint16_t           type;
    uint64_t           id;
    htc_reader         r = htc_wire_open(body, &type, &id);
    htc__proxy_client *c = htc__proxy_client_of(p, peer);
    if (r.status == HTC_OK && type == HTC_WIRE_HELLO)
        return hello(p, peer, id, &r, out);
    if (!c || !c->welcomed)
        return refuse(p, peer, id, HTC_EPROTO, "no greeting", out);
    if (r.status == HTC_OK && type == HTC_WIRE_KV_REQUEST)
        return request(p, c, id, &r, out);
    if (r.status == HTC_OK && type == HTC_WIRE_KV_WATCH)
        return watch(p, c, id, &r, out);
    return refuse(p, peer, id, HTC_EPROTO, "unknown message", out);
}

static htc_status frames(htc_kv_proxy *p, const htc_input *in, htc_output *out)
{
    htc_reader r = htc_reader_of(in->body);
    htc_status status = HTC_OK;
    while (status == HTC_OK && htc_reader_left(&r)) {
        htc_bytes frame = htc_get_raw(&r, htc_get_u32(&r));
        if (r.status != HTC_OK)
            break;
        status = message(p, in->peer, frame, out);
        if (!htc__proxy_client_of(p, in->peer)) /* it was told why, and nothing more of it is heard */
            break;
    }
    return status;
}

/* ---- the machine ---- */

static htc_status client_input(htc_kv_proxy *p, const htc_input *in, htc_output *out)
{
    switch ((htc_input_kind)in->kind) {
    case HTC_IN_OPENED:
        return opened(p, in->peer, out);
    case HTC_IN_CLOSED:
        closed(p, in->peer);
        return HTC_OK;
    case HTC_IN_MESSAGE:
        return message(p, in->peer, in->body, out);
    case HTC_IN_FRAMES:
        return frames(p, in, out);
    case HTC_IN_EVENT:
        if (in->op != HTC_KV_PROXY_SHUTDOWN)
            return HTC_OK;
        p->stopped = 1;
        return htc_output_add(out, &(htc_effect){ .kind = HTC_OUT_STOP, .status = HTC_OK });
    case HTC_IN_START:
    case HTC_IN_TIMEOUT:
    case HTC_IN_STORED:
    case HTC_IN_RESULT:
    case HTC_IN_BYTES:
    case HTC_IN_SENT:
    case HTC_IN_TURN:
        return HTC_OK;
    }
    return HTC_EUNSUPPORTED;
}

static htc_status proxy_step(void *self, const htc_input *given, htc_output *out)
{
    htc_kv_proxy *p = self;
    htc_input     room;
    htc_status    status;
    if (!p || !out)
        return HTC_EINVAL;
    const htc_input *in = htc__input_known(given, &room, &status);
    if (!in)
        return status;
    if (p->stopped)
        return HTC_OK;
    p->now = in->now;
    p->turns |= in->kind == HTC_IN_TURN;
    htc__proxy_store *s = in->peer ? htc__proxy_store_of(p, in->peer) : NULL;
    status = s ? htc__proxy_store_input(p, s, in, out) : client_input(p, in, out);
    if (status == HTC_OK && !p->stopped && (!p->turns || in->kind == HTC_IN_TURN))
        status = htc__proxy_store_turn(p, out);
    return status;
}

static htc_ns proxy_deadline(const void *self)
{
    const htc_kv_proxy *p = self;
    return p->stopped ? HTC_NEVER : htc__proxy_store_deadline(p);
}

static void proxy_destroy(void *self)
{
    htc_kv_proxy_destroy(self);
}

const htc_machine_ops *htc_kv_proxy_ops(void)
{
    static const htc_machine_ops ops = { sizeof ops, proxy_step, proxy_deadline, proxy_destroy, HTC_MACHINE_TURNS | HTC_MACHINE_FRAMES };
    return &ops;
}

/* ---- life ---- */

static int stores_fit(const htc_kv_proxy_options *o)
{
    if (!o->stores || o->store_count == 0 || o->store_count > HTC_KV_PROXY_STORES_MAX)
        return 0;
    for (uint32_t i = 0; i < o->store_count; i++)
        for (uint32_t j = 0; j <= i; j++)
            if (o->stores[i] == 0 || (j < i && o->stores[i] == o->stores[j]))
                return 0;
    return 1;
}

htc_status htc_kv_proxy_create(const htc_env *env, const htc_kv_proxy_options *options, htc_kv_proxy **out)
{
    htc_kv_proxy_options o = { 0 };
    if (!env || !env->rng || !options || !out)
        return HTC_EINVAL;
    htc_status status = htc__options_copy(&o, sizeof o, options, options->size, offsetof(htc_kv_proxy_options, connections_max));
    if (status != HTC_OK)
        return status;
    o.connections_max = o.connections_max ? o.connections_max : 1024;
    o.inflight_max = o.inflight_max ? o.inflight_max : 1024;
    o.inflight_all = o.inflight_all ? o.inflight_all : 8192;
    o.bytes_max = o.bytes_max ? o.bytes_max : (size_t)64 << 20;
    o.sent_max = o.sent_max ? o.sent_max : (size_t)32 << 20;
    o.linger_ns = o.linger_ns ? o.linger_ns : 10 * HTC_MS;
    o.retry_ns = o.retry_ns ? o.retry_ns : HTC_SECOND;
    o.forget_ns = o.forget_ns ? o.forget_ns : 60 * HTC_SECOND;
    o.silent_ns = o.silent_ns ? o.silent_ns : 3 * HTC_SECOND;
    if (!stores_fit(&o) || o.bytes_max < (size_t)32 << 20)
        return HTC_EINVAL;
    htc_kv_proxy *p = htc__alloc(env, sizeof *p);
    if (!p)
        return HTC_ENOMEM;
    p->env = *env;
    p->options = o;
    for (uint32_t i = 0; i < o.store_count; i++)
        p->stores[i] = (htc__proxy_store){ .peer = o.stores[i], .greet_due = HTC_NEVER };
    p->options.stores = NULL; /* they were the caller's */
    htc__table_init(&p->clients, env);
    htc_buf_init(&p->message, env, HTC_WIRE_MESSAGE_MAX);
    *out = p;
    return HTC_OK;
}

void htc_kv_proxy_destroy(htc_kv_proxy *p)
{
    if (!p)
        return;
    while (p->clients.head[0])
        closed(p, ((htc__proxy_client *)htc__node_value(p->clients.head[0]))->peer);
    htc_env env = p->env;
    htc__table_free(&p->clients);
    htc_buf_free(&p->message);
    htc__free(&env, p->sent, p->sent_cap * sizeof *p->sent);
    htc__free(&env, p, sizeof *p);
}

htc_status htc_kv_proxy_stats_get(const htc_kv_proxy *p, htc_kv_proxy_stats *stats)
{
    if (!p || !stats || stats->size == 0)
        return HTC_EINVAL;
    htc_kv_proxy_stats all = p->stats;
    all.size = stats->size;
    all.connections = p->clients.count;
    all.waiting = p->waiting;
    all.unanswered = p->unanswered;
    all.store = p->store != NULL;
    memcpy(stats, &all, stats->size < sizeof all ? stats->size : sizeof all);
    return HTC_OK;
}

static void family(htc_metrics *m, uint32_t kind, const char *name, const char *help, uint64_t value)
{
    htc_metrics_family(m, kind, name, "", help);
    htc_metrics_value(m, NULL, 0, value);
}

void htc_kv_proxy_metrics(const htc_kv_proxy *p, htc_metrics *m)
{
    htc_kv_proxy_stats s = { .size = sizeof s };
    if (!m || htc_kv_proxy_stats_get(p, &s) != HTC_OK)
        return;
    family(m, HTC_METRIC_GAUGE, "htc_kv_proxy_store", "1: a store answers behind this proxy.", s.store);
    family(m, HTC_METRIC_GAUGE, "htc_kv_proxy_connections", "Clients that are connected.", s.connections);
    family(m, HTC_METRIC_GAUGE, "htc_kv_proxy_waiting", "Messages of clients that wait to be passed on.", s.waiting);
    family(m, HTC_METRIC_GAUGE, "htc_kv_proxy_unanswered", "Messages of clients that were passed on and are not answered.", s.unanswered);
    family(m, HTC_METRIC_COUNTER, "htc_kv_proxy_requests", "Messages of clients that were passed on.", s.requests);
    family(m, HTC_METRIC_COUNTER, "htc_kv_proxy_messages", "Messages to the store in which they went.", s.messages);
    family(m, HTC_METRIC_COUNTER, "htc_kv_proxy_answers", "Messages that were handed back to clients.", s.answers);
    family(m, HTC_METRIC_COUNTER, "htc_kv_proxy_pushed_back", "Messages of clients that were to be sent again: too much at once.", s.pushed_back);
    family(m, HTC_METRIC_COUNTER, "htc_kv_proxy_stores_lost", "Times that the store was lost, and all clients closed.", s.lost);
}
