#include "htcsched/channel.h"

#include <sodium.h>
#include <string.h>

#include "channel/channel_private.h"
#include "core/util.h"

#define OUT_FIRST 512 /* all frames of a handshake, so that none of them needs memory */
#define IN_FIRST  (HTC__FRAME_HEAD + HTC__FRAME_SHAKE_MAX)
#define KEPT      4096 /* of an empty store: what is longer is given back, for a channel may be idle for long, and there may be many */

htc_status htc__store_grow(const htc_env *env, htc__store *s, size_t cap)
{
    if (cap <= s->cap)
        return HTC_OK;
    /* A new piece, not a resized one: the old one may hold what was to be secret. */
    uint8_t *data = htc__alloc(env, cap);
    if (!data)
        return HTC_ENOMEM;
    if (s->len)
        memcpy(data, s->data, s->len);
    if (s->cap)
        sodium_memzero(s->data, s->cap);
    htc__free(env, s->data, s->cap);
    s->data = data;
    s->cap = cap;
    return HTC_OK;
}

static void store_free(const htc_env *env, htc__store *s)
{
    if (s->cap)
        sodium_memzero(s->data, s->cap);
    htc__free(env, s->data, s->cap);
    *s = (htc__store){ NULL, 0, 0 };
}

/* An empty store that has grown begins anew. Without memory for that it stays as it is. */
static void store_rest(const htc_env *env, htc__store *s, size_t first)
{
    uint8_t *data = s->len == 0 && s->cap > KEPT ? htc__alloc(env, first) : NULL;
    if (!data)
        return;
    store_free(env, s);
    s->data = data;
    s->cap = first;
}

static void leave_gate(htc_channel *c)
{
    if (c->in_gate)
        htc__gate_leave(c->gate);
    c->in_gate = 0;
}

static void wipe(htc_channel *c)
{
    leave_gate(c);
    if (c->secret_taken)
        htc__enrolment_release(c->enrolment, c->secret_hint);
    c->secret_taken = 0;
    htc__noise_wipe(&c->noise);
    sodium_memzero(&c->send, sizeof c->send);
    sodium_memzero(&c->receive, sizeof c->receive);
    sodium_memzero(c->random, sizeof c->random);
    sodium_memzero(c->secret, sizeof c->secret);
}

htc_status htc__channel_fail(htc_channel *c, htc_status status, const char *reason)
{
    if (c->state == HTC__CHANNEL_FAILED)
        return c->status;
    if (c->record_at != SIZE_MAX) {
        c->out.len = c->record_at;
        c->record_at = SIZE_MAX;
    }
    c->state = HTC__CHANNEL_FAILED;
    c->status = status;
    c->reason = reason;
    c->deadline = HTC_NEVER;
    wipe(c);
    store_free(&c->env, &c->in);
    return status;
}

void htc__channel_opened(htc_channel *c)
{
    leave_gate(c);
    c->state = HTC__CHANNEL_IS_OPEN;
    c->opening = 1;
    c->deadline = HTC_NEVER;
    sodium_memzero(c->random, sizeof c->random);
    sodium_memzero(c->secret, sizeof c->secret);
}

htc_status htc__channel_room(htc_channel *c, size_t n)
{
    size_t waiting = c->out.len - c->out_at;
    if (n > c->queue_max || waiting > c->queue_max - n)
        return HTC_EFULL;
    /* Not more moved than has left: a reader that is slow must not make each write move all that waits. */
    if (c->out_at >= waiting && c->out.len + n > c->out.cap) {
        memmove(c->out.data, c->out.data + c->out_at, waiting);
        c->record_at -= c->record_at == SIZE_MAX ? 0 : c->out_at;
        c->out_at = 0;
        c->out.len = waiting;
    }
    if (c->out.len + n <= c->out.cap)
        return HTC_OK;
    size_t cap = c->out.cap ? c->out.cap : OUT_FIRST;
    while (cap < c->out.len + n)
        cap *= 2;
    return htc__store_grow(&c->env, &c->out, cap);
}

static htc_status options_check(const htc_channel_options *o)
{
    int caller = o->side == HTC_CHANNEL_CALLER;
    if ((!caller && o->side != HTC_CHANNEL_ANSWERER) || !o->identity || !o->ring ||
        sodium_is_zero(o->random, sizeof o->random) || o->source.len > HTC_CHANNEL_SOURCE_MAX ||
        (o->source.len && !o->source.data))
        return HTC_EINVAL;
    if (!caller)
        return HTC_OK;
    if (o->role < HTC_KEY_MEMBER || o->role > HTC_KEY_USER || o->peer_role > HTC_KEY_USER ||
        (o->peer && !htc__key_name_ok(o->peer, strlen(o->peer))) || (o->secret && !o->peer) ||
        (o->secret && sodium_is_zero(o->secret, HTC_KEY_BYTES)))
        return HTC_EINVAL;
    return HTC_OK;
}

static void fill(htc_channel *c, const htc_channel_options *o, htc_ns now)
{
    htc_ns patience = o->handshake_ns ? o->handshake_ns : 10 * HTC_SECOND;
    c->side = o->side;
    c->role = o->role;
    c->accept = o->accept ? o->accept : UINT32_MAX;
    c->peer_role = o->peer_role ? o->peer_role : HTC_KEY_MEMBER;
    c->only_xx = o->only_xx != 0;
    c->identity = o->identity;
    c->ring = o->ring;
    c->enrolment = o->enrolment;
    c->gate = o->gate;
    c->deadline = patience < HTC_NEVER - now ? now + patience : HTC_NEVER;
    memcpy(c->random, o->random, sizeof c->random);
    if (o->secret)
        memcpy(c->secret, o->secret, sizeof c->secret);
    c->has_secret = o->secret != NULL;
    if (o->cookie)
        memcpy(c->cookie, o->cookie, sizeof c->cookie);
    c->has_cookie = o->cookie != NULL;
    if (o->source.len)
        memcpy(c->source, o->source.data, o->source.len);
    c->source_len = o->source.len;
    if (o->peer)
        memcpy(c->wanted, o->peer, strlen(o->peer) + 1);
    c->queue_max = o->queue_max ? o->queue_max : (size_t)16 << 20;
    c->queue_max = c->queue_max > OUT_FIRST ? c->queue_max : OUT_FIRST;
    c->rekey_bytes = o->rekey_bytes ? o->rekey_bytes : (uint64_t)1 << 30;
    c->rekey_records = o->rekey_records ? o->rekey_records : 65536;
    c->record_at = SIZE_MAX;
    c->reason = "";
    c->state = HTC__CHANNEL_HELLO;
}

static htc_status begin(htc_channel *c)
{
    uint32_t          pattern = c->has_secret ? HTC__NOISE_XXPSK3 : HTC__NOISE_XX;
    htc_keyring_entry e;
    if (c->has_secret || !c->wanted[0])
        return htc__channel_hello(c, pattern);
    for (size_t i = 0; htc_keyring_of(c->ring, c->wanted, i, &e) == HTC_OK; i++) {
        if (e.state == HTC_KEY_REVOKED || e.role != c->peer_role)
            continue;
        pattern = 0; /* found; the newest current key is the one to try first */
        if (e.state == HTC_KEY_CURRENT && !c->only_xx)
            memcpy(c->noise.peer, e.key, HTC_KEY_BYTES);
    }
    if (pattern)
        return HTC_ENOTFOUND;
    return htc__channel_hello(c, sodium_is_zero(c->noise.peer, HTC_KEY_BYTES) ? HTC__NOISE_XX : HTC__NOISE_IK);
}

htc_status htc_channel_create(const htc_env *env, const htc_channel_options *options, htc_ns now, htc_channel **out)
{
    htc_channel_options o = { .side = 0 };
    if (!options || !out)
        return HTC_EINVAL;
    htc_status status = htc__options_copy(&o, sizeof o, options, options->size, sizeof o);
    if (status == HTC_OK)
        status = options_check(&o);
    if (status != HTC_OK)
        return status;
    htc_channel *c = htc__alloc(env, sizeof *c);
    if (!c)
        return HTC_ENOMEM;
    c->env = (htc_env){ .size = sizeof c->env, .alloc = env ? env->alloc : NULL };
    fill(c, &o, now);
    sodium_memzero(&o, sizeof o);
    status = htc__store_grow(&c->env, &c->out, OUT_FIRST);
    if (status == HTC_OK)
        status = htc__store_grow(&c->env, &c->in, IN_FIRST);
    if (status == HTC_OK && c->side == HTC_CHANNEL_CALLER)
        status = begin(c);
    if (status != HTC_OK)
        htc_channel_destroy(c);
    else
        *out = c;
    return status;
}

void htc_channel_destroy(htc_channel *c)
{
    if (!c)
        return;
    htc_env env = c->env;
    wipe(c);
    store_free(&env, &c->in);
    store_free(&env, &c->out);
    sodium_memzero(c, sizeof *c);
    htc__free(&env, c, sizeof *c);
}

/* An open channel comes to its end, and the peer hears so under seal. */
static htc_status disown(htc_channel *c, const char *reason)
{
    uint8_t why = HTC__REFUSED_DENIED;
    if (!c->we_closed && htc__channel_room(c, HTC__NOISE_TAG + HTC__RECORD_MORE + 1) == HTC_OK)
        htc__record_put(c, HTC__RECORD_CLOSE, &why, 1);
    return htc__channel_fail(c, HTC_EDENIED, reason);
}

/* The ring has changed: does it still know the peer as it did? */
static htc_status still_trusted(htc_channel *c)
{
    htc_keyring_entry e;
    if (c->state != HTC__CHANNEL_IS_OPEN || c->ring_epoch == htc_keyring_epoch(c->ring))
        return HTC_OK;
    if (htc_keyring_find(c->ring, c->noise.peer, &e) != HTC_OK)
        return disown(c, "the peer's key is not pinned any more");
    if (e.state == HTC_KEY_REVOKED)
        return disown(c, "the peer's key was revoked");
    if (strcmp(e.name, c->peer_name) != 0 || e.role != c->peer_is)
        return disown(c, "the peer's key is pinned for somebody else now");
    c->ring_epoch = htc_keyring_epoch(c->ring);
    return HTC_OK;
}

/* A stranger who has said nothing of ours is told so; to others it would be one fault more. */
static htc_status misframed(htc_channel *c, const char *reason)
{
    return c->state == HTC__CHANNEL_HELLO ? htc__channel_refuse(c, HTC__REFUSED_PROTOCOL, HTC_EPROTO, reason)
                                          : htc__channel_fail(c, HTC_EPROTO, reason);
}

/* Bytes of the frame that is coming in, as many as there are. HTC_AGAIN: more are needed. */
static htc_status gather(htc_channel *c, htc_bytes *in)
{
    const uint8_t *p = in->data;
    if (c->in_done) {
        c->in.len = c->in_need = 0;
        c->in_done = 0;
        if (in->len == 0)
            store_rest(&c->env, &c->in, IN_FIRST);
    }
    while (c->in.len < HTC__FRAME_HEAD && in->len) {
        c->in.data[c->in.len++] = *p++;
        *in = (htc_bytes){ p, in->len - 1 };
    }
    if (c->in.len < HTC__FRAME_HEAD)
        return HTC_AGAIN;
    if (!c->in_need) {
        size_t len = (size_t)c->in.data[0] | (size_t)c->in.data[1] << 8;
        int    sealed = c->state == HTC__CHANNEL_PROOF || c->state == HTC__CHANNEL_IS_OPEN;
        if (sealed ? len < 1 + HTC__NOISE_TAG : len < 1)
            return misframed(c, "a frame is shorter than any can be");
        if (c->state != HTC__CHANNEL_IS_OPEN && len > HTC__FRAME_SHAKE_MAX)
            return misframed(c, "a frame is longer than any of a handshake");
        size_t cap = len > HTC__FRAME_SHAKE_MAX ? 4096 : 0;
        while (cap && cap < len + HTC__FRAME_HEAD)
            cap *= 2;
        htc_status status = htc__store_grow(&c->env, &c->in, cap);
        if (status != HTC_OK)
            return status;
        c->in_need = len + HTC__FRAME_HEAD;
    }
    size_t n = c->in_need - c->in.len < in->len ? c->in_need - c->in.len : in->len;
    if (n)
        memcpy(c->in.data + c->in.len, p, n);
    c->in.len += n;
    *in = (htc_bytes){ n ? p + n : p, in->len - n };
    return c->in.len == c->in_need ? HTC_OK : HTC_AGAIN;
}

static htc_status take(htc_channel *c, htc_ns now, htc_channel_event *event)
{
    uint8_t *frame = c->in.data + HTC__FRAME_HEAD;
    size_t   len = c->in_need - HTC__FRAME_HEAD;
    int      sealed = c->state == HTC__CHANNEL_PROOF || c->state == HTC__CHANNEL_IS_OPEN;
    /* So that pinning, which comes after the record is opened, cannot fail for want of memory. */
    if (c->state == HTC__CHANNEL_PROOF && c->pattern == HTC__NOISE_XXPSK3 && htc__keyring_reserve(c->ring) != HTC_OK)
        return HTC_ENOMEM;
    if (c->peer_closed)
        return htc__channel_fail(c, HTC_EPROTO, "something came behind the peer's last record");
    c->in_done = 1;
    return sealed ? htc__record_take(c, frame, len, event) : htc__channel_shake(c, now, frame, len);
}

static int open_event(htc_channel *c, htc_channel_event *event)
{
    if (!c->opening)
        return 0;
    c->opening = 0;
    *event = (htc_channel_event){ HTC_CHANNEL_OPEN, c->pinned, { c->own_name, strlen(c->own_name) } };
    return 1;
}

htc_status htc_channel_read(htc_channel *c, htc_ns now, htc_bytes *in, htc_channel_event *event)
{
    if (!c || !in || !event || (in->len && !in->data))
        return HTC_EINVAL;
    *event = (htc_channel_event){ .kind = HTC_CHANNEL_MORE };
    if (c->state == HTC__CHANNEL_FAILED)
        return c->status;
    htc_status status = c->state == HTC__CHANNEL_IS_OPEN ? HTC_OK : htc_channel_timeout(c, now);
    while (status == HTC_OK && event->kind == HTC_CHANNEL_MORE) {
        status = still_trusted(c); /* it may have been revoked during the handshake */
        if (status != HTC_OK || open_event(c, event))
            break;
        if (c->peer_closed && in->len == 0)
            break;
        status = gather(c, in);
        if (status == HTC_AGAIN)
            return HTC_OK;
        if (status == HTC_OK)
            status = take(c, now, event);
    }
    if (status != HTC_OK)
        *event = (htc_channel_event){ .kind = HTC_CHANNEL_MORE };
    return status;
}

/* May this side say something now? */
static htc_status writable(htc_channel *c)
{
    if (c->state == HTC__CHANNEL_FAILED)
        return c->status;
    if (c->state != HTC__CHANNEL_IS_OPEN || c->we_closed)
        return HTC_EINVAL;
    return still_trusted(c);
}

htc_status htc_channel_write(htc_channel *c, htc_bytes bytes)
{
    if (!c || (bytes.len && !bytes.data))
        return HTC_EINVAL;
    htc_status status = writable(c);
    if (status != HTC_OK || bytes.len == 0)
        return status;
    size_t more = (bytes.len / HTC_CHANNEL_RECORD_MAX + 2) * HTC__RECORD_MORE;
    if (bytes.len > SIZE_MAX - more)
        return HTC_EFULL;
    status = htc__channel_room(c, bytes.len + more);
    if (status == HTC_OK)
        htc__record_append(c, bytes.data, bytes.len);
    return status;
}

static htc_status put(htc_channel *c, uint8_t flags, const void *bytes, size_t len)
{
    /* The tag of the record that is being filled, and this one. */
    htc_status status = htc__channel_room(c, HTC__NOISE_TAG + HTC__RECORD_MORE + len);
    if (status == HTC_OK)
        htc__record_put(c, flags, bytes, len);
    return status;
}

htc_status htc_channel_announce(htc_channel *c, const uint8_t *key)
{
    if (!c || !key)
        return HTC_EINVAL;
    htc_status status = writable(c);
    return status == HTC_OK ? put(c, HTC__RECORD_NEXT, key, HTC_KEY_BYTES) : status;
}

htc_status htc_channel_close(htc_channel *c)
{
    if (!c)
        return HTC_EINVAL;
    if (c->we_closed && c->state == HTC__CHANNEL_IS_OPEN)
        return HTC_OK;
    htc_status status = writable(c);
    if (status == HTC_OK)
        status = put(c, HTC__RECORD_CLOSE, NULL, 0);
    c->we_closed |= status == HTC_OK;
    return status;
}

htc_status htc_channel_output(htc_channel *c, htc_bytes *bytes)
{
    if (!c || !bytes)
        return HTC_EINVAL;
    still_trusted(c);
    if (c->state == HTC__CHANNEL_IS_OPEN)
        htc__record_finish(c);
    *bytes = (htc_bytes){ c->out.data + c->out_at, c->out.len - c->out_at };
    return c->state == HTC__CHANNEL_FAILED ? c->status : HTC_OK;
}

void htc_channel_sent(htc_channel *c, size_t n)
{
    size_t waiting = c->out.len - c->out_at;
    c->out_at += n < waiting ? n : waiting;
    if (c->out_at < c->out.len)
        return;
    c->out_at = c->out.len = 0;
    store_rest(&c->env, &c->out, OUT_FIRST);
}

size_t htc_channel_waiting(const htc_channel *c)
{
    return c->out.len - c->out_at;
}

htc_status htc_channel_end(htc_channel *c)
{
    if (!c)
        return HTC_EINVAL;
    if (c->state == HTC__CHANNEL_FAILED)
        return c->status;
    if (c->peer_closed)
        return HTC_OK;
    return htc__channel_fail(c, HTC_ECLOSED,
                             c->state == HTC__CHANNEL_IS_OPEN ? "the stream was cut off: it ended without a last record"
                                                              : "the stream ended in the handshake");
}

htc_ns htc_channel_deadline(const htc_channel *c)
{
    return c ? c->deadline : HTC_NEVER;
}

htc_status htc_channel_timeout(htc_channel *c, htc_ns now)
{
    if (!c)
        return HTC_EINVAL;
    if (c->state == HTC__CHANNEL_FAILED)
        return c->status;
    if (now < c->deadline)
        return HTC_OK;
    if (c->state == HTC__CHANNEL_HELLO)
        return htc__channel_refuse(c, HTC__REFUSED_LATE, HTC_ETIMEDOUT, "the handshake took too long");
    return htc__channel_fail(c, HTC_ETIMEDOUT, "the handshake took too long");
}

htc_status htc_channel_peer(const htc_channel *c, htc_channel_peer_info *peer)
{
    if (!c || !peer)
        return HTC_EINVAL;
    if (c->state != HTC__CHANNEL_IS_OPEN)
        return HTC_EMPTY;
    *peer = (htc_channel_peer_info){ c->peer_name, c->peer_is, c->noise.peer, c->noise.hash };
    return HTC_OK;
}

int htc_channel_cookie(const htc_channel *c, uint8_t *out)
{
    if (!c || !out || c->side != HTC_CHANNEL_CALLER || c->state != HTC__CHANNEL_FAILED || c->status != HTC_EBUSY ||
        !c->has_cookie)
        return 0;
    memcpy(out, c->cookie, sizeof c->cookie);
    return 1;
}

const char *htc_channel_reason(const htc_channel *c)
{
    return c ? c->reason : "";
}
