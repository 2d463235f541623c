/* Handshake frames: who calls, with which pattern, and whether the other end is who it has to be. */
#include <sodium.h>
#include <string.h>

#include "channel/channel_private.h"

static const uint8_t magic[3] = { 'h', 't', 'c' };
static const char    prologue_text[16] = {
       'h', 't', 'c', 's', 'c', 'h', 'e', 'd', ' ', 'c', 'h', 'a', 'n', 'n', 'e', 'l'
};

/* The room is there: htc_channel_create saw to it. */
static uint8_t *frame_start(htc_channel *c, size_t len)
{
    uint8_t *p = c->out.data + c->out.len;
    p[0] = (uint8_t)len;
    p[1] = (uint8_t)(len >> 8);
    c->out.len += HTC__FRAME_HEAD + len;
    return p + HTC__FRAME_HEAD;
}

htc_status htc__channel_refuse(htc_channel *c, uint8_t why, htc_status status, const char *reason)
{
    uint8_t *p = frame_start(c, 2);
    p[0] = HTC__FRAME_REFUSED;
    p[1] = why;
    return htc__channel_fail(c, status, reason);
}

/* A handshake of this pattern with what this side has; header is HELLO's. */
static htc_status noise_start(htc_channel *c, uint32_t pattern, const htc__pair *own, const uint8_t *peer,
                              const uint8_t *header)
{
    uint8_t         prologue[sizeof prologue_text + HTC__HELLO_HEAD];
    htc__noise_keys keys = { .own = own->secret,
                             .own_public = own->public,
                             .ephemeral = c->random + (c->retried ? HTC__NOISE_KEY : 0),
                             .peer = peer,
                             .psk = pattern == HTC__NOISE_XXPSK3 ? c->secret : NULL };
    memcpy(prologue, prologue_text, sizeof prologue_text);
    memcpy(prologue + sizeof prologue_text, header, HTC__HELLO_HEAD);
    c->pattern = pattern;
    return htc__noise_start(&c->noise, pattern, c->side == HTC_CHANNEL_CALLER, (htc_bytes){ prologue, sizeof prologue },
                            &keys);
}

static htc_status noise_write(htc_channel *c, uint8_t frame)
{
    uint8_t *p = frame_start(c, 1 + htc__noise_overhead(&c->noise));
    p[0] = frame;
    return htc__noise_write(&c->noise, (htc_bytes){ NULL, 0 }, p + 1);
}

/* A handshake message carries nothing: one that could is too long. */
static htc_status noise_read(htc_channel *c, const uint8_t *message, size_t len)
{
    uint8_t none[1];
    if (len != htc__noise_overhead(&c->noise))
        return HTC_EPROTO;
    return htc__noise_read(&c->noise, (htc_bytes){ message, len }, none);
}

static htc_status damaged(htc_channel *c)
{
    return htc__channel_fail(c, HTC_EPROTO,
                             "a handshake message is damaged, or made with other keys than it should be");
}

htc_status htc__channel_hello(htc_channel *c, uint32_t pattern)
{
    uint8_t          header[HTC__HELLO_HEAD] = { HTC__FRAME_HELLO }, peer[HTC_KEY_BYTES];
    int              cookie = c->has_cookie && !c->retried;
    const htc__pair *own = htc__identity_pair(c->identity, NULL);
    memcpy(header + HTC__HELLO_MAGIC, magic, sizeof magic);
    memcpy(peer, c->noise.peer, sizeof peer);
    header[HTC__HELLO_VERSION] = HTC__CHANNEL_VERSION;
    header[HTC__HELLO_PATTERN] = (uint8_t)pattern;
    header[HTC__HELLO_ROLE] = (uint8_t)c->role;
    header[HTC__HELLO_FLAGS] = (uint8_t)((c->retried ? HTC__HELLO_RETRIED : 0) | (cookie ? HTC__HELLO_COOKIE : 0));
    if (pattern == HTC__NOISE_IK)
        htc__key_hint(peer, header + HTC__HELLO_HINT);
    if (pattern == HTC__NOISE_XXPSK3)
        htc__once_hint(c->secret, header + HTC__HELLO_HINT);
    htc_status status = noise_start(c, pattern, own, pattern == HTC__NOISE_IK ? peer : NULL, header);
    if (status != HTC_OK)
        return status;
    size_t   len = htc__noise_overhead(&c->noise);
    uint8_t *p = frame_start(c, HTC__HELLO_HEAD + len + (cookie ? HTC_CHANNEL_COOKIE : 0));
    memcpy(p, header, HTC__HELLO_HEAD);
    status = htc__noise_write(&c->noise, (htc_bytes){ NULL, 0 }, p + HTC__HELLO_HEAD);
    if (cookie)
        memcpy(p + HTC__HELLO_HEAD + len, c->cookie, HTC_CHANNEL_COOKIE);
    c->state = HTC__CHANNEL_ANSWER;
    return status;
}

/* The peer's key must be pinned, for this name if it is not "", with this role. NULL: it is, and peer_name is set; else why not. */
static const char *identify(htc_channel *c, const char *name, uint32_t role)
{
    htc_keyring_entry e;
    if (htc_keyring_find(c->ring, c->noise.peer, &e) != HTC_OK)
        return "the peer's key is not pinned";
    if (e.state == HTC_KEY_REVOKED)
        return "the peer's key was revoked";
    if (e.role != role)
        return "the peer's key is pinned with another role";
    if (*name && strcmp(e.name, name) != 0)
        return "the peer's key is pinned for another name";
    memcpy(c->peer_name, e.name, strlen(e.name) + 1);
    c->peer_is = e.role;
    c->ring_epoch = htc_keyring_epoch(c->ring);
    return NULL;
}

/* Could the peer's key be pinned so? */
static const char *may_pin(htc_channel *c, const char *name, uint32_t role)
{
    htc_keyring_entry e;
    if (htc_keyring_find(c->ring, c->noise.peer, &e) == HTC_OK) {
        if (e.state == HTC_KEY_REVOKED)
            return "the peer's key was revoked";
        if (strcmp(e.name, name) != 0 || e.role != role)
            return "the peer's key is pinned for another name or role";
    }
    return NULL;
}

htc_status htc__channel_pin(htc_channel *c)
{
    const htc__once *once = NULL;
    const char      *name = c->wanted;
    uint32_t         role = c->peer_role;
    if (c->side == HTC_CHANNEL_ANSWERER) {
        once = htc__enrolment_taken(c->enrolment, c->secret_hint);
        if (!once)
            return htc__channel_fail(c, HTC_EDENIED, "the secret was cancelled");
        name = once->name;
        role = once->role;
    }
    htc_status status = htc_keyring_set(c->ring, name, role, HTC_KEY_CURRENT, c->noise.peer);
    if (status == HTC_EFULL)
        return htc__channel_fail(c, status, "the ring has no room for the peer's key");
    if (status != HTC_OK)
        return htc__channel_fail(c, HTC_EDENIED, "the peer's key cannot be pinned: revoked, or somebody else's");
    memcpy(c->peer_name, name, strlen(name) + 1);
    c->peer_is = role;
    c->pinned = 1;
    c->ring_epoch = htc_keyring_epoch(c->ring);
    if (once)
        htc__enrolment_burn(c->enrolment, c->secret_hint);
    c->secret_taken = 0;
    return HTC_OK;
}

static const char *hello_fault(const htc_channel *c, const uint8_t *f, size_t len)
{
    static const size_t lengths[] = { 0, 32, 96, 48 }; /* of the first messages */
    if (len < HTC__HELLO_HEAD || f[0] != HTC__FRAME_HELLO || memcmp(f + HTC__HELLO_MAGIC, magic, sizeof magic) != 0)
        return "this is no secure channel's first frame";
    if (f[HTC__HELLO_VERSION] != HTC__CHANNEL_VERSION)
        return NULL;
    uint8_t pattern = f[HTC__HELLO_PATTERN], flags = f[HTC__HELLO_FLAGS];
    if (pattern < HTC__NOISE_XX || pattern > HTC__NOISE_XXPSK3 || f[HTC__HELLO_ROLE] < HTC_KEY_MEMBER ||
        f[HTC__HELLO_ROLE] > HTC_KEY_USER || (flags & ~(HTC__HELLO_RETRIED | HTC__HELLO_COOKIE)))
        return "the first frame asks for what does not exist";
    if ((flags & HTC__HELLO_RETRIED) != (c->retried ? HTC__HELLO_RETRIED : 0) ||
        (c->retried && pattern != HTC__NOISE_XX))
        return "the first frame is not the one that was asked for";
    if (pattern == HTC__NOISE_XX && !sodium_is_zero(f + HTC__HELLO_HINT, HTC__KEY_HINT))
        return "the first frame has a hint where none belongs";
    if (len != HTC__HELLO_HEAD + lengths[pattern] + (flags & HTC__HELLO_COOKIE ? HTC_CHANNEL_COOKIE : 0))
        return "the first frame has not the length of its pattern";
    return NULL;
}

static htc_status enter_gate(htc_channel *c, htc_ns now, const uint8_t *f, size_t len)
{
    uint8_t        fresh[HTC_CHANNEL_COOKIE];
    const uint8_t *cookie = f[HTC__HELLO_FLAGS] & HTC__HELLO_COOKIE ? f + len - HTC_CHANNEL_COOKIE : NULL;
    if (!c->gate || c->in_gate)
        return HTC_OK;
    switch (htc__gate_enter(c->gate, now, (htc_bytes){ c->source, c->source_len }, cookie, fresh)) {
    case HTC_OK:
        c->in_gate = 1;
        return HTC_OK;
    case HTC_AGAIN: {
        uint8_t *p = frame_start(c, 1 + HTC_CHANNEL_COOKIE);
        p[0] = HTC__FRAME_COOKIE;
        memcpy(p + 1, fresh, HTC_CHANNEL_COOKIE);
        return htc__channel_fail(c, HTC_EBUSY,
                                 "many handshakes are in flight: the caller has to come back with a cookie");
    }
    default:
        return htc__channel_refuse(c, HTC__REFUSED_BUSY, HTC_EBUSY, "too many handshakes at once, or from this source");
    }
}

/* The pair that the caller means; of an enrolment, the secret too. */
static htc_status prepare(htc_channel *c, htc_ns now, const uint8_t *f, const htc__pair **own)
{
    uint8_t pattern = f[HTC__HELLO_PATTERN];
    *own = htc__identity_pair(c->identity, pattern == HTC__NOISE_IK ? f + HTC__HELLO_HINT : NULL);
    if (pattern == HTC__NOISE_XXPSK3) {
        const htc__once *once = c->enrolment ? htc__enrolment_find(c->enrolment, now, f + HTC__HELLO_HINT) : NULL;
        if (!once || once->role != c->role)
            return htc__channel_refuse(c, HTC__REFUSED_SECRET, HTC_EDENIED,
                                       "the one-time secret is unknown, used, expired or for another role");
        memcpy(c->secret_hint, once->hint, sizeof c->secret_hint);
        memcpy(c->secret, once->secret, sizeof c->secret);
    }
    return HTC_OK;
}

static htc_status on_hello(htc_channel *c, htc_ns now, const uint8_t *f, size_t len)
{
    const htc__pair *own;
    const char      *fault = hello_fault(c, f, len);
    if (fault)
        return htc__channel_refuse(c, HTC__REFUSED_PROTOCOL, HTC_EPROTO, fault);
    if (f[HTC__HELLO_VERSION] != HTC__CHANNEL_VERSION)
        return htc__channel_refuse(c, HTC__REFUSED_VERSION, HTC_EVERSION, "the caller speaks another version");
    c->role = f[HTC__HELLO_ROLE];
    if (!(c->accept & 1u << c->role))
        return htc__channel_refuse(c, HTC__REFUSED_DENIED, HTC_EDENIED, "the caller's role is not let in here");
    htc_status status = enter_gate(c, now, f, len);
    if (status == HTC_OK)
        status = prepare(c, now, f, &own);
    if (status != HTC_OK)
        return status;
    if (!own) {
        frame_start(c, 1)[0] = HTC__FRAME_RETRY;
        c->retried = 1;
        return HTC_OK;
    }
    size_t message = len - HTC__HELLO_HEAD - (f[HTC__HELLO_FLAGS] & HTC__HELLO_COOKIE ? HTC_CHANNEL_COOKIE : 0);
    if (noise_start(c, f[HTC__HELLO_PATTERN], own, NULL, f) != HTC_OK ||
        noise_read(c, f + HTC__HELLO_HEAD, message) != HTC_OK)
        return damaged(c);
    if (c->pattern == HTC__NOISE_IK) {
        fault = identify(c, "", c->role);
        if (fault)
            return htc__channel_refuse(c, HTC__REFUSED_DENIED, HTC_EDENIED, fault);
    }
    size_t before = c->out.len;
    if (noise_write(c, HTC__FRAME_ANSWER) != HTC_OK) {
        c->out.len = before;
        return damaged(c);
    }
    c->state = HTC__CHANNEL_FINISH;
    if (c->pattern == HTC__NOISE_IK) {
        c->state = HTC__CHANNEL_PROOF;
        htc__noise_split(&c->noise, &c->send, &c->receive);
    }
    return HTC_OK;
}

/* The handshake is done and the caller knows it: a refusal has to be sealed. */
static htc_status refuse_sealed(htc_channel *c, const char *reason)
{
    uint8_t why = HTC__REFUSED_DENIED;
    htc__record_put(c, HTC__RECORD_CLOSE, &why, 1);
    return htc__channel_fail(c, HTC_EDENIED, reason);
}

/* An enrolment's caller knows the secret: tell it who it is, and see whether it was really this one. */
static htc_status enrol(htc_channel *c, htc_ns now)
{
    uint8_t    given[1 + HTC_KEY_NAME_MAX];
    htc__once *once = htc__enrolment_find(c->enrolment, now, c->secret_hint);
    if (!once)
        return refuse_sealed(c, "the one-time secret was used, cancelled or has expired meanwhile");
    const char *fault = may_pin(c, once->name, once->role);
    if (fault)
        return refuse_sealed(c, fault);
    size_t len = strlen(once->name);
    htc__enrolment_take(once);
    c->secret_taken = 1;
    given[0] = (uint8_t)once->role;
    memcpy(given + 1, once->name, len);
    htc__record_put(c, HTC__RECORD_PROOF, given, 1 + len);
    c->state = HTC__CHANNEL_PROOF;
    return HTC_OK;
}

static htc_status on_finish(htc_channel *c, htc_ns now, const uint8_t *f, size_t len)
{
    if (f[0] != HTC__FRAME_FINISH || noise_read(c, f + 1, len - 1) != HTC_OK)
        return damaged(c);
    htc__noise_split(&c->noise, &c->send, &c->receive);
    if (c->pattern == HTC__NOISE_XXPSK3)
        return enrol(c, now);
    const char *fault = identify(c, "", c->role);
    if (fault)
        return refuse_sealed(c, fault);
    htc__channel_opened(c);
    return HTC_OK;
}

static htc_status refused(htc_channel *c, uint8_t why)
{
    switch (why) {
    case HTC__REFUSED_DENIED:
        return htc__channel_fail(c, HTC_EDENIED, "the peer says that it does not know our key, or does not let it in");
    case HTC__REFUSED_VERSION:
        return htc__channel_fail(c, HTC_EVERSION, "the peer says that it speaks another version");
    case HTC__REFUSED_BUSY:
        return htc__channel_fail(c, HTC_EBUSY, "the peer says that it has too many callers");
    case HTC__REFUSED_SECRET:
        return htc__channel_fail(c, HTC_EDENIED, "the peer says that it knows no such one-time secret");
    case HTC__REFUSED_PROTOCOL:
        return htc__channel_fail(c, HTC_EPROTO, "the peer says that what we said is no secure channel");
    case HTC__REFUSED_LATE:
        return htc__channel_fail(c, HTC_ETIMEDOUT, "the peer says that our handshake took too long");
    default:
        return htc__channel_fail(c, HTC_EPROTO, "the peer refuses for no known reason");
    }
}

/* The server's part of the handshake: is it the one that was called? Before it learns who calls. */
static htc_status on_server(htc_channel *c, const uint8_t *f, size_t len)
{
    if (noise_read(c, f + 1, len - 1) != HTC_OK)
        return damaged(c);
    int         enrols = c->pattern == HTC__NOISE_XXPSK3;
    const char *fault = enrols ? may_pin(c, c->wanted, c->peer_role) : identify(c, c->wanted, c->peer_role);
    if (fault)
        return htc__channel_fail(c, HTC_EDENIED, fault);
    size_t before = c->out.len;
    if (c->pattern != HTC__NOISE_IK && noise_write(c, HTC__FRAME_FINISH) != HTC_OK) {
        c->out.len = before;
        return damaged(c);
    }
    htc__noise_split(&c->noise, &c->send, &c->receive);
    if (enrols) {
        c->state = HTC__CHANNEL_PROOF;
        return HTC_OK;
    }
    htc__channel_opened(c);
    if (c->pattern == HTC__NOISE_IK)
        htc__record_put(c, HTC__RECORD_PROOF, NULL, 0);
    return HTC_OK;
}

static htc_status on_answer(htc_channel *c, const uint8_t *f, size_t len)
{
    switch (f[0]) {
    case HTC__FRAME_ANSWER:
        return on_server(c, f, len);
    case HTC__FRAME_RETRY:
        if (len != 1 || c->pattern != HTC__NOISE_IK)
            break;
        c->retried = 1;
        return htc__channel_hello(c, HTC__NOISE_XX) == HTC_OK ? HTC_OK : damaged(c);
    case HTC__FRAME_COOKIE:
        if (len != 1 + HTC_CHANNEL_COOKIE)
            break;
        memcpy(c->cookie, f + 1, HTC_CHANNEL_COOKIE);
        c->has_cookie = 1;
        return htc__channel_fail(c, HTC_EBUSY, "the peer has many callers, and gave a cookie for the next try");
    case HTC__FRAME_REFUSED:
        if (len == 2)
            return refused(c, f[1]);
        break;
    default:
        break;
    }
    return htc__channel_fail(c, HTC_EPROTO, "the answer is none of this protocol");
}

htc_status htc__channel_shake(htc_channel *c, htc_ns now, const uint8_t *frame, size_t len)
{
    switch (c->state) {
    case HTC__CHANNEL_HELLO:
        return on_hello(c, now, frame, len);
    case HTC__CHANNEL_FINISH:
        return on_finish(c, now, frame, len);
    case HTC__CHANNEL_ANSWER:
        return on_answer(c, frame, len);
    default:
        return HTC_EINTERNAL;
    }
}
