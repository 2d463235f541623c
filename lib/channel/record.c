/* Sealed records: filled and sealed in the buffer that goes out, opened in the one that came in. */
#include <sodium.h>
#include <string.h>

#include "channel/channel_private.h"

/* Only counting can fail, and 2^64 records are not reached: what would be sent unsealed is cut off then. */
static void seal(htc_channel *c, size_t at, size_t text_len)
{
    uint8_t *head = c->out.data + at, *text = head + HTC__FRAME_HEAD;
    size_t   len = text_len + HTC__NOISE_TAG;
    c->records++;
    c->bytes += text_len;
    int next = c->records >= c->rekey_records || c->bytes >= c->rekey_bytes;
    if (next)
        text[0] |= HTC__RECORD_REKEY;
    head[0] = (uint8_t)len;
    head[1] = (uint8_t)(len >> 8);
    if (htc__noise_seal(&c->send, (htc_bytes){ NULL, 0 }, text, text_len, text) != HTC_OK) {
        c->record_at = at;
        htc__channel_fail(c, HTC_EFULL, "the numbers of the records are used up");
        return;
    }
    c->out.len = at + HTC__FRAME_HEAD + len;
    if (next) {
        htc__noise_rekey(&c->send);
        c->records = 0;
        c->bytes = 0;
    }
}

void htc__record_finish(htc_channel *c)
{
    size_t at = c->record_at;
    if (at == SIZE_MAX)
        return;
    c->record_at = SIZE_MAX;
    seal(c, at, c->out.len - at - HTC__FRAME_HEAD);
}

static void start(htc_channel *c, uint8_t flags)
{
    c->record_at = c->out.len;
    c->out.data[c->out.len + HTC__FRAME_HEAD] = flags;
    c->out.len += HTC__FRAME_HEAD + 1;
}

void htc__record_append(htc_channel *c, const uint8_t *bytes, size_t len)
{
    while (len) {
        if (c->record_at == SIZE_MAX)
            start(c, 0);
        size_t used = c->out.len - c->record_at - HTC__FRAME_HEAD - 1;
        size_t n = HTC_CHANNEL_RECORD_MAX - used < len ? HTC_CHANNEL_RECORD_MAX - used : len;
        memcpy(c->out.data + c->out.len, bytes, n);
        c->out.len += n;
        bytes += n;
        len -= n;
        if (used + n == HTC_CHANNEL_RECORD_MAX)
            htc__record_finish(c);
    }
}

void htc__record_put(htc_channel *c, uint8_t flags, const void *bytes, size_t len)
{
    htc__record_finish(c);
    start(c, flags);
    if (len)
        memcpy(c->out.data + c->out.len, bytes, len);
    c->out.len += len;
    htc__record_finish(c);
}

static htc_status broken(htc_channel *c, const char *reason)
{
    return htc__channel_fail(c, HTC_EPROTO, reason);
}

static htc_status closed(htc_channel *c, const uint8_t *bytes, size_t len, htc_channel_event *event)
{
    if (len > 1)
        return broken(c, "a last record carries too much");
    if (len == 1)
        return htc__channel_fail(c, HTC_EDENIED,
                                 bytes[0] == HTC__REFUSED_DENIED
                                     ? "the peer does not know our key, or does not let it in"
                                     : "the peer does not let us in");
    if (c->state == HTC__CHANNEL_PROOF)
        return htc__channel_fail(c, HTC_ECLOSED, "the peer closed in the handshake");
    c->peer_closed = 1;
    event->kind = HTC_CHANNEL_CLOSED;
    return HTC_OK;
}

/* The first record where one is due: whoever sealed it took part in this very handshake, and in an enrolment knows the secret. */
static htc_status proven(htc_channel *c, const uint8_t *bytes, size_t len)
{
    int enrols = c->pattern == HTC__NOISE_XXPSK3, caller = c->side == HTC_CHANNEL_CALLER;
    if (!(enrols && caller)) {
        if (len)
            return broken(c, "a first record carries something");
    } else {
        if (len < 2 || bytes[0] != c->role || !htc__key_name_ok((const char *)bytes + 1, len - 1))
            return broken(c, "a first record does not give a name and our role");
        memcpy(c->own_name, bytes + 1, len - 1);
    }
    if (enrols) {
        htc_status status = htc__channel_pin(c);
        if (status != HTC_OK)
            return status;
    }
    htc__channel_opened(c);
    if (enrols && caller)
        htc__record_put(c, HTC__RECORD_PROOF, NULL, 0);
    return HTC_OK;
}

htc_status htc__record_take(htc_channel *c, uint8_t *sealed, size_t len, htc_channel_event *event)
{
    if (htc__noise_open(&c->receive, (htc_bytes){ NULL, 0 }, sealed, len, sealed) != HTC_OK)
        return broken(c, c->state == HTC__CHANNEL_PROOF
                             ? "the first record does not open: the peer did not take part in this handshake"
                             : "a record does not open: changed, lost, repeated or out of its place");
    uint8_t        flags = sealed[0], kind = flags & (uint8_t)~HTC__RECORD_REKEY;
    const uint8_t *bytes = sealed + 1;
    len -= HTC__NOISE_TAG + 1;
    if (flags & HTC__RECORD_REKEY)
        htc__noise_rekey(&c->receive);
    if (kind == HTC__RECORD_CLOSE)
        return closed(c, bytes, len, event);
    if ((kind == HTC__RECORD_PROOF) != (c->state == HTC__CHANNEL_PROOF))
        return broken(c, "a record comes where it has no place");
    switch (kind) {
    case HTC__RECORD_PROOF:
        return proven(c, bytes, len);
    case HTC__RECORD_NEXT:
        if (len != HTC_KEY_BYTES)
            return broken(c, "an announced key has not the length of one");
        *event = (htc_channel_event){ HTC_CHANNEL_NEXT_KEY, 0, { bytes, len } };
        return HTC_OK;
    case 0:
        if (len == 0)
            return broken(c, "a record carries nothing");
        *event = (htc_channel_event){ HTC_CHANNEL_DATA, 0, { bytes, len } };
        return HTC_OK;
    default:
        return broken(c, "a record is of no known kind");
    }
}
