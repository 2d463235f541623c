/* Two ends of a channel, and a wire that does what the bytes say: carries, withholds, changes, and says things of its own. What is
 * handed over is what was written, from its beginning; an end opens once, and nothing comes before. */
#include <string.h>

#include "check.h"
#include "htcsched/channel.h"

#define WIRE (1 << 16)

typedef struct end {
    htc_identity *identity;
    htc_keyring  *ring;
    htc_channel  *channel;
    uint8_t       secret[32], public[32];
    uint8_t       wire[WIRE]; /* what it has said and the other end has not heard */
    size_t        wire_len;
    size_t        said, heard; /* bytes of data: the nth is n * 7 */
    int           opened, closed;
} end;

static void hear(end *e, const end *from, const uint8_t *data, size_t size)
{
    htc_bytes         in = { data, size };
    htc_channel_event event;
    while (htc_channel_read(e->channel, 1, &in, &event) == HTC_OK && event.kind) {
        CHECK(!e->closed);
        if (event.kind == HTC_CHANNEL_OPEN)
            CHECK(!e->opened++);
        CHECK(e->opened);
        if (event.kind == HTC_CHANNEL_CLOSED)
            e->closed = 1;
        for (size_t i = 0; event.kind == HTC_CHANNEL_DATA && i < event.bytes.len; i++, e->heard++)
            CHECK(((const uint8_t *)event.bytes.data)[i] == (uint8_t)(e->heard * 7));
        CHECK(e->heard <= from->said);
    }
}

static void say(end *e)
{
    htc_bytes out;
    htc_channel_output(e->channel, &out);
    size_t n = out.len < WIRE - e->wire_len ? out.len : WIRE - e->wire_len;
    memcpy(e->wire + e->wire_len, out.data, n);
    e->wire_len += n;
    htc_channel_sent(e->channel, n);
}

static void carry(end *from, end *to, size_t n)
{
    say(from);
    n = n < from->wire_len ? n : from->wire_len;
    hear(to, from, from->wire, n);
    memmove(from->wire, from->wire + n, from->wire_len - n);
    from->wire_len -= n;
}

static void speak(end *e, size_t n)
{
    uint8_t bytes[256];
    for (size_t i = 0; i < n; i++)
        bytes[i] = (uint8_t)((e->said + i) * 7);
    if (htc_channel_write(e->channel, (htc_bytes){ bytes, n }) == HTC_OK)
        e->said += n;
}

static void open_end(end *e, uint8_t number)
{
    memset(e->secret, number, sizeof e->secret);
    htc_key_public(e->secret, e->public);
    CHECK(htc_identity_create(NULL, e->secret, 1, &e->identity) == HTC_OK);
    CHECK(htc_keyring_create(NULL, 0, &e->ring) == HTC_OK);
}

static void open_pair(end e[2], htc_enrolment *enrolment, htc_gate *gate, uint8_t how)
{
    static const uint8_t once[32] = { 3 };
    htc_channel_options  o = { .size = sizeof o, .side = HTC_CHANNEL_CALLER, .role = HTC_KEY_HOST, .peer = "a" };
    int                  enrols = how % 3 == 2;
    open_end(&e[0], 1);
    open_end(&e[1], 2);
    CHECK(htc_enrolment_open(enrolment, 0, once, "b", HTC_KEY_HOST, 100) == HTC_OK);
    if (!enrols) {
        htc_keyring_set(e[0].ring, "a", HTC_KEY_MEMBER, HTC_KEY_CURRENT, e[1].public);
        htc_keyring_set(e[1].ring, "b", HTC_KEY_HOST, HTC_KEY_CURRENT, e[0].public);
    }
    o.identity = e[0].identity;
    o.ring = e[0].ring;
    o.secret = enrols ? once : NULL;
    o.only_xx = how % 3;
    o.rekey_records = 2;
    memset(o.random, 5, sizeof o.random);
    CHECK(htc_channel_create(NULL, &o, 0, &e[0].channel) == HTC_OK);
    o = (htc_channel_options){ .size = sizeof o,
                               .side = HTC_CHANNEL_ANSWERER,
                               .identity = e[1].identity,
                               .ring = e[1].ring,
                               .enrolment = enrolment,
                               .gate = how & 64 ? gate : NULL,
                               .source = { "s", 1 } };
    memset(o.random, 6, sizeof o.random);
    CHECK(htc_channel_create(NULL, &o, 0, &e[1].channel) == HTC_OK);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static end       e[2];
    htc_gate_options g = { .size = sizeof g, .secret = { 1 }, .sources = 4 };
    htc_enrolment   *enrolment = NULL;
    htc_gate        *gate = NULL;
    if (size < 1)
        return 0;
    memset(e, 0, sizeof e);
    CHECK(htc_enrolment_create(NULL, 2, &enrolment) == HTC_OK && htc_gate_create(NULL, &g, &gate) == HTC_OK);
    open_pair(e, enrolment, gate, data[0]);
    /* Two bytes an operation: what, to which end; how much. */
    for (size_t i = 1; i + 1 < size; i += 2) {
        end   *to = &e[data[i] & 1], *from = &e[1 - (data[i] & 1)];
        size_t n = data[i + 1];
        switch (data[i] >> 1 & 7) {
        case 0:
            carry(from, to, WIRE);
            break;
        case 1:
            carry(from, to, n);
            break;
        case 2:
            speak(to, n);
            break;
        case 3: /* the wire says something */
            n = n < size - i - 2 ? n : size - i - 2;
            hear(to, from, data + i + 2, n);
            i += n;
            break;
        case 4: /* and changes something */
            say(from);
            if (from->wire_len)
                from->wire[n % from->wire_len] ^= (uint8_t)(1u << (data[i] >> 4 & 7));
            break;
        case 5:
            htc_channel_close(to->channel);
            break;
        case 6:
            htc_channel_announce(to->channel, to->public);
            break;
        default:
            if (n & 1)
                htc_keyring_revoke(to->ring, from->public);
            else
                htc_channel_end(to->channel);
        }
    }
    for (int i = 0; i < 2; i++) {
        htc_channel_destroy(e[i].channel);
        htc_identity_destroy(e[i].identity);
        htc_keyring_destroy(e[i].ring);
    }
    htc_gate_counts counts;
    htc_gate_count(gate, &counts);
    CHECK(counts.inflight == 0);
    htc_gate_destroy(gate);
    htc_enrolment_destroy(enrolment);
    return 0;
}
