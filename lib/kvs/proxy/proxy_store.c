/* The store behind the proxy: of those that are named the first that greets, until it is lost. */
#include <assert.h>
#include <string.h>

#include "core/util.h"
#include "kvs/proxy/proxy.h"

/* Of one message with several requests. A longer request goes alone. */
#define PACK_BYTES ((size_t)1 << 20)
#define PACK_COUNT 1024u

static htc_ns later(htc_ns now, htc_ns pause)
{
    return pause > HTC_NEVER - now ? HTC_NEVER : now + pause;
}

htc__proxy_store *htc__proxy_store_of(htc_kv_proxy *p, uint32_t peer)
{
    for (uint32_t i = 0; i < p->options.store_count; i++)
        if (p->stores[i].peer == peer)
            return &p->stores[i];
    return NULL;
}

/* ---- which one ---- */

/* Greet, or ask for the session's name: whatever the store has not answered yet. */
static htc_status greet(htc_kv_proxy *p, htc__proxy_store *s, htc_output *out)
{
    if (s->welcomed) {
        htc_wire_begin(&p->message, HTC_WIRE_KV_REQUEST, ++s->serial);
        htc__kv_head_write(&p->message, &(htc__kv_head){ .client = s->serial });
    } else {
        htc_wire_hello(&p->message, HTC_WIRE_ROLE_STORE_PROXY, HTC_WIRE_VERSION);
    }
    s->greet_due = later(p->now, p->options.retry_ns);
    return htc__proxy_send(p, s->peer, out);
}

static void ring_clear(htc_kv_proxy *p)
{
    p->sent_at = p->sent_count = p->sent_bytes = p->unanswered = 0;
    p->newest_open = 0;
    p->doubted = 0;
}

static void choose(htc_kv_proxy *p)
{
    for (uint32_t i = 0; i < p->options.store_count && !p->store; i++)
        if (p->stores[i].session) {
            p->store = &p->stores[i];
            htc__log_with(&p->env, HTC_LOG_INFO, HTC__FIELDS(HTC__NUMBER("peer", p->store->peer)),
                          "the store at peer %u answers -> pass everything on to it", p->store->peer);
        }
}

/* What was passed on over this connection may have been done or not: only its clients can ask again. */
static htc_status lose(htc_kv_proxy *p, htc__proxy_store *s, htc_output *out)
{
    s->session = 0;
    s->greet_due = HTC_NEVER;
    if (s != p->store)
        return HTC_OK;
    p->store = NULL;
    p->stats.lost++;
    ring_clear(p);
    htc__log_with(&p->env, HTC_LOG_WARN, HTC__FIELDS(HTC__NUMBER("peer", s->peer)), "the store at peer %u is lost -> close all clients", s->peer);
    htc_status status = htc__proxy_clients_close(p, out);
    choose(p);
    return status;
}

static htc_status lost(htc_kv_proxy *p, htc__proxy_store *s, htc_output *out)
{
    s->connected = s->welcomed = 0;
    return lose(p, s, out);
}

/* ---- what leaves ---- */

static htc__proxy_sent *sent_of(const htc_kv_proxy *p, uint64_t serial)
{
    uint64_t i = serial - p->sent_first;
    return p->sent_count && serial >= p->sent_first && i < p->sent_count ? &p->sent[(p->sent_at + i) % p->sent_cap] : NULL;
}

/* It is answered, or forgotten. */
static void sent_close(htc_kv_proxy *p, htc__proxy_sent *e, uint64_t serial)
{
    htc__proxy_client *c = htc__proxy_client_of(p, e->peer);
    if (c && c->session == e->session) {
        assert(c->held > 0);
        c->held--;
    }
    if (e->session) {
        assert(p->unanswered > 0 && p->sent_bytes >= e->len);
        p->unanswered--;
        p->sent_bytes -= e->len;
        p->newest_open -= serial >= p->newest && p->newest_open > 0;
    }
    e->open = 0;
    while (p->sent_count && !p->sent[p->sent_at].open) {
        p->sent_at = (p->sent_at + 1) % p->sent_cap;
        p->sent_first++;
        p->sent_count--;
    }
}

static int sent_make_room(htc_kv_proxy *p)
{
    size_t cap = p->sent_cap ? p->sent_cap * 2 : 64;
    if (p->sent_count < p->sent_cap)
        return 1;
    htc__proxy_sent *more = htc__alloc(&p->env, cap * sizeof *more);
    if (!more)
        return 0;
    for (size_t i = 0; i < p->sent_count; i++)
        more[i] = p->sent[(p->sent_at + i) % p->sent_cap];
    htc__free(&p->env, p->sent, p->sent_cap * sizeof *p->sent);
    p->sent = more;
    p->sent_cap = cap;
    p->sent_at = 0;
    return 1;
}

static void sent_push(htc_kv_proxy *p, const htc__proxy_sent *e)
{
    assert(p->sent_count < p->sent_cap);
    if (p->sent_count == 0)
        p->sent_first = p->store->serial + 1;
    p->store->serial++;
    assert(p->store->serial == p->sent_first + p->sent_count); /* the ring has no gaps */
    p->sent[(p->sent_at + p->sent_count++) % p->sent_cap] = *e;
}

static void sent_add(htc_kv_proxy *p, uint32_t peer, const htc__proxy_request *q)
{
    const htc__proxy_client *c = htc__proxy_client_of(p, peer);
    assert(c);
    sent_push(p, &(htc__proxy_sent){ .session = c->session, .serial = q->serial, .at = p->now, .len = q->len, .peer = peer, .open = 1 });
    p->unanswered++;
    p->sent_bytes += q->len;
    p->newest_open++;
}

/* So many may leave at once. 0: a message is under way, or the store has enough to do. */
static size_t may_leave(const htc_kv_proxy *p)
{
    if (!p->store || p->waiting == 0 || (p->newest_open && p->now < later(p->newest_at, p->options.linger_ns)))
        return 0;
    if (p->sent_bytes >= p->options.sent_max || p->sent_count >= p->options.inflight_all)
        return 0;
    size_t room = p->options.inflight_all - p->sent_count;
    return room < PACK_COUNT ? room : PACK_COUNT;
}

static htc_status leave(htc_kv_proxy *p, size_t most, htc_output *out)
{
    uint64_t first = p->store->serial + 1;
    uint32_t peer = 0;
    size_t   count = 0, next = htc__proxy_request_next(p);
    int      alone = most == 1 || p->waiting == 1 || next > PACK_BYTES;
    if (alone) {
        htc_wire_begin(&p->message, HTC_WIRE_KV_REQUEST, first);
        htc_put_u64(&p->message, p->store->session);
    } else {
        htc__kv_pack_begin(&p->message, first, p->store->session);
    }
    p->newest = first;
    p->newest_open = 0;
    p->newest_at = p->now;
    while (next && count < most && (count == 0 || (!alone && p->message.len + next <= PACK_BYTES))) {
        if (!sent_make_room(p))
            return HTC_ENOMEM;
        htc__proxy_request *q = htc__proxy_request_take(p, &peer);
        htc_bytes           bytes = { q->bytes, q->len };
        if (alone)
            htc_put_raw(&p->message, bytes);
        else
            htc_put_bytes(&p->message, bytes);
        sent_add(p, peer, q);
        htc__proxy_request_free(p, q);
        count++;
        next = htc__proxy_request_next(p);
    }
    p->stats.messages++;
    p->stats.requests += count;
    return htc__proxy_send(p, p->store->peer, out);
}

static void forget(htc_kv_proxy *p)
{
    while (p->sent_count && p->now >= later(p->sent[p->sent_at].at, p->options.forget_ns))
        sent_close(p, &p->sent[p->sent_at], p->sent_first);
}

/* ---- a store that says nothing ---- */

/* Another one that answers; after: since then. */
static const htc__proxy_store *another(const htc_kv_proxy *p, htc_ns after)
{
    for (uint32_t i = 0; i < p->options.store_count; i++)
        if (&p->stores[i] != p->store && p->stores[i].session && p->stores[i].heard >= after)
            return &p->stores[i];
    return NULL;
}

/* When the store is asked whether it is there, or is left. */
static htc_ns doubt_due(const htc_kv_proxy *p)
{
    if (!p->store || !p->unanswered || !another(p, 0))
        return HTC_NEVER;
    if (p->doubted)
        return p->doubt_due;
    htc_ns sent = p->sent[p->sent_at].at;
    return later(sent > p->store->heard ? sent : p->store->heard, p->options.retry_ns);
}

/* It answers that at once, whether it hears the others or not. */
static htc_status ask(htc_kv_proxy *p, htc_output *out)
{
    if (!sent_make_room(p))
        return HTC_ENOMEM;
    sent_push(p, &(htc__proxy_sent){ .at = p->now, .open = 1 });
    htc_wire_begin(&p->message, HTC_WIRE_KV_REQUEST, p->store->serial);
    htc__kv_head_write(&p->message, &(htc__kv_head){ .client = p->store->serial });
    return htc__proxy_send(p, p->store->peer, out);
}

/* It, and others that are as silent: each has to connect again. */
static htc_status leave_silent(htc_kv_proxy *p, htc_output *out)
{
    htc_status status = HTC_OK;
    htc_ns     since = p->doubted;
    for (uint32_t i = 0; i < p->options.store_count && status == HTC_OK; i++) {
        htc__proxy_store *s = &p->stores[i];
        if (s == p->store || !s->session || s->heard >= since)
            continue;
        status = htc_output_add(out, &(htc_effect){ .kind = HTC_OUT_CLOSE, .peer = s->peer, .status = HTC_ETIMEDOUT });
        status = status == HTC_OK ? lost(p, s, out) : status;
    }
    htc__log_with(&p->env, HTC_LOG_WARN, HTC__FIELDS(HTC__NUMBER("peer", p->store->peer)), "the store at peer %u is silent, and another one answers -> leave it",
                  p->store->peer);
    if (status == HTC_OK)
        status = htc_output_add(out, &(htc_effect){ .kind = HTC_OUT_CLOSE, .peer = p->store->peer, .status = HTC_ETIMEDOUT });
    return status == HTC_OK ? lost(p, p->store, out) : status;
}

/* Its host may be cut off without a word, or it may stand still: all are asked, and where another one answers it is left. A proxy that stood still itself has not
 * read yet what has come meanwhile: it asks once more. */
static htc_status doubt(htc_kv_proxy *p, htc_output *out)
{
    htc_status status = HTC_OK;
    int        awake = p->now < later(p->doubt_due, p->options.retry_ns);
    if (p->doubted && p->now >= later(p->doubted, p->options.silent_ns) && another(p, p->doubted) && awake)
        return leave_silent(p, out);
    if (!p->doubted)
        p->doubted = p->now;
    p->doubt_due = later(p->now, p->options.retry_ns);
    for (uint32_t i = 0; i < p->options.store_count && status == HTC_OK; i++)
        if (&p->stores[i] == p->store)
            status = ask(p, out);
        else if (p->stores[i].session)
            status = greet(p, &p->stores[i], out);
    return status;
}

htc_status htc__proxy_store_turn(htc_kv_proxy *p, htc_output *out)
{
    htc_status status = HTC_OK;
    size_t     most;
    for (uint32_t i = 0; i < p->options.store_count && status == HTC_OK; i++) {
        htc__proxy_store *s = &p->stores[i];
        if (s->connected && !s->session && p->now >= s->greet_due)
            status = greet(p, s, out);
    }
    forget(p);
    if (!p->unanswered)
        p->doubted = 0;
    if (status == HTC_OK && p->now >= doubt_due(p))
        status = doubt(p, out);
    if (status == HTC_OK && (most = may_leave(p)) > 0)
        status = leave(p, most, out);
    return status;
}

htc_ns htc__proxy_store_deadline(const htc_kv_proxy *p)
{
    htc_ns due = doubt_due(p);
    for (uint32_t i = 0; i < p->options.store_count; i++)
        if (p->stores[i].connected && !p->stores[i].session && p->stores[i].greet_due < due)
            due = p->stores[i].greet_due;
    if (p->sent_count) {
        htc_ns end = later(p->sent[p->sent_at].at, p->options.forget_ns);
        due = end < due ? end : due;
    }
    int room = p->sent_bytes < p->options.sent_max && p->sent_count < p->options.inflight_all;
    if (p->store && p->waiting && room) {
        htc_ns at = p->newest_open ? later(p->newest_at, p->options.linger_ns) : 0;
        due = at < due ? at : due;
    }
    return due;
}

/* ---- what comes back ---- */

static htc_status answer(htc_kv_proxy *p, htc__proxy_store *s, uint64_t serial, htc_reader r, htc_bytes body, htc_output *out)
{
    htc__kv_answer_head head;
    htc__kv_answer_read(&r, &head);
    if (r.status != HTC_OK || head.session == 0 || !s->welcomed || serial < s->serial_first || serial > s->serial)
        return HTC_OK; /* as if it had been lost */
    if (head.clock > p->clock)
        p->clock = head.clock;
    if (head.session != s->session) { /* it is named; or what was passed on in another one is not executed */
        htc_status status = s->session ? lose(p, s, out) : HTC_OK;
        s->session = head.session;
        choose(p);
        return status;
    }
    htc__proxy_sent *e = s == p->store ? sent_of(p, serial) : NULL;
    if (!e || !e->open)
        return HTC_OK;
    htc__proxy_client *c = htc__proxy_client_of(p, e->peer);
    htc_status         status = HTC_OK;
    if (c && c->session == e->session) {
        htc_buf_clear(&p->message);
        htc_put_raw(&p->message, body);
        if (p->message.status == HTC_OK) {
            htc__kv_answer_rename(p->message.data, e->serial, e->session);
            htc__kv_answer_end(&p->message, head.count, head.more & HTC__KV_MORE);
        }
        status = htc__proxy_send(p, e->peer, out);
        p->stats.answers++;
    }
    if (!(head.more & HTC__KV_MORE))
        sent_close(p, e, serial);
    return status;
}

static htc_status message(htc_kv_proxy *p, htc__proxy_store *s, htc_bytes body, htc_output *out)
{
    uint16_t   type, version;
    uint64_t   id;
    htc_reader r = htc_wire_open(body, &type, &id);
    if (r.status != HTC_OK || !s->connected)
        return HTC_OK;
    s->heard = p->now;
    if (s == p->store)
        p->doubted = 0;
    if (type == HTC_WIRE_KV_ANSWER)
        return answer(p, s, id, r, body, out);
    if (type == HTC_WIRE_WELCOME && !s->welcomed && htc_wire_read_welcome(&r, HTC_WIRE_VERSION, &version) == HTC_OK) {
        s->welcomed = 1;
        return greet(p, s, out);
    }
    if (type == HTC_WIRE_ERROR) {
        htc_status why = (htc_status)(int32_t)htc_get_u32(&r);
        htc__log_with(&p->env, HTC_LOG_WARN, HTC__FIELDS(HTC__NUMBER("peer", s->peer), HTC__STATUS(why)),
                      "the store at peer %u says: %s%s -> wait for a new connection", s->peer, htc_strerror(why),
                      why == HTC_EPROTO && !s->welcomed ? " (is it older than this proxy, or a proxy?)" : "");
    }
    return HTC_OK;
}

htc_status htc__proxy_store_input(htc_kv_proxy *p, htc__proxy_store *s, const htc_input *in, htc_output *out)
{
    htc_status status = HTC_OK;
    htc_reader r = htc_reader_of(in->body);
    switch (in->kind) {
    case HTC_IN_OPENED:
        status = lost(p, s, out);
        s->connected = 1;
        s->serial_first = s->serial + 1;
        return status == HTC_OK ? greet(p, s, out) : status;
    case HTC_IN_CLOSED:
        return lost(p, s, out);
    case HTC_IN_MESSAGE:
        return message(p, s, in->body, out);
    case HTC_IN_FRAMES:
        while (status == HTC_OK && htc_reader_left(&r)) {
            htc_bytes frame = htc_get_raw(&r, htc_get_u32(&r));
            status = r.status == HTC_OK ? message(p, s, frame, out) : HTC_OK;
        }
        return status;
    default:
        return HTC_OK;
    }
}
