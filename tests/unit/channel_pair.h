/* Two ends of a secure channel and the wire between them: what one lends goes into `wire`, from where a test takes it whole, in
 * pieces, or damaged. Keys and random bytes come from a seed. */
#ifndef HTC_TESTS_CHANNEL_PAIR_H
#define HTC_TESTS_CHANNEL_PAIR_H

#include "expect.h"
#include <stdlib.h>
#include <string.h>

#include "channel/channel_private.h"
#include "htcsched/channel.h"

enum { CALLER, SERVER };

typedef struct wire {
    uint8_t *data;
    size_t   len, at; /* taken up to at */
} wire;

typedef struct end {
    htc_identity *identity;
    htc_keyring  *ring;
    htc_channel  *channel;
    uint8_t       secret[HTC_KEY_BYTES], public[HTC_KEY_BYTES];
    wire          out; /* what this end has said */
    uint8_t      *got; /* data that it was handed */
    size_t        got_len;
    uint32_t      opened, closed, pinned;
    uint8_t       next[HTC_KEY_BYTES]; /* announced by the peer */
    char          given[HTC_KEY_NAME_MAX + 1];
    htc_status    status;
} end;

typedef struct pair {
    htc_rng             rng;
    htc_ns              now;
    end                 e[2];
    htc_enrolment      *enrolment;
    htc_gate           *gate;
    htc_channel_options o[2];
} pair;

static inline void pair_draw(htc_rng *rng, void *out, size_t n)
{
    for (size_t i = 0; i < n; i++)
        ((uint8_t *)out)[i] = (uint8_t)htc_rng_next(rng);
}

static inline void pair_new_key(pair *p, int which, const htc_env *env)
{
    end *e = &p->e[which];
    pair_draw(&p->rng, e->secret, sizeof e->secret);
    htc_key_public(e->secret, e->public);
    if (e->identity)
        cr_assert(eq(int, htc_identity_set(e->identity, e->secret, 1), HTC_OK));
    else
        cr_assert(eq(int, htc_identity_create(env, e->secret, 1, &e->identity), HTC_OK));
}

/* Everything but the channels. The server is the member "store-1", the caller the host "agent-7"; known: they have pinned each other. */
static inline void pair_open(pair *p, uint64_t seed, int known)
{
    *p = (pair){ .rng = { seed }, .now = 1000 * HTC_SECOND };
    for (int i = 0; i < 2; i++) {
        pair_new_key(p, i, NULL);
        cr_assert(eq(int, htc_keyring_create(NULL, 0, &p->e[i].ring), HTC_OK));
    }
    if (known) {
        htc_keyring_set(p->e[CALLER].ring, "store-1", HTC_KEY_MEMBER, HTC_KEY_CURRENT, p->e[SERVER].public);
        htc_keyring_set(p->e[SERVER].ring, "agent-7", HTC_KEY_HOST, HTC_KEY_CURRENT, p->e[CALLER].public);
    }
    p->o[CALLER] = (htc_channel_options){
        .size = sizeof(htc_channel_options), .side = HTC_CHANNEL_CALLER, .role = HTC_KEY_HOST, .peer = "store-1"
    };
    p->o[SERVER] = (htc_channel_options){ .size = sizeof(htc_channel_options),
                                          .side = HTC_CHANNEL_ANSWERER,
                                          .source = { "127.0.0.1", 9 } };
}

static inline void pair_hang_up(pair *p)
{
    for (int i = 0; i < 2; i++) {
        end *e = &p->e[i];
        htc_channel_destroy(e->channel);
        free(e->out.data);
        free(e->got);
        e->channel = NULL;
        e->out = (wire){ NULL, 0, 0 };
        e->got = NULL;
        e->got_len = 0;
        e->opened = e->closed = e->pinned = 0;
        e->status = HTC_OK;
    }
}

static inline void pair_close(pair *p)
{
    pair_hang_up(p);
    for (int i = 0; i < 2; i++) {
        htc_identity_destroy(p->e[i].identity);
        htc_keyring_destroy(p->e[i].ring);
    }
    htc_enrolment_destroy(p->enrolment);
    htc_gate_destroy(p->gate);
}

static inline htc_status pair_begin(pair *p, int which, const htc_env *env)
{
    htc_channel_options *o = &p->o[which];
    o->identity = p->e[which].identity;
    o->ring = p->e[which].ring;
    if (which == SERVER) {
        o->enrolment = p->enrolment;
        o->gate = p->gate;
    }
    pair_draw(&p->rng, o->random, sizeof o->random);
    return p->e[which].status = htc_channel_create(env, o, p->now, &p->e[which].channel);
}

static inline void pair_dial(pair *p)
{
    cr_assert(eq(int, pair_begin(p, CALLER, NULL), HTC_OK));
    cr_assert(eq(int, pair_begin(p, SERVER, NULL), HTC_OK));
}

static inline void wire_put(wire *w, htc_bytes bytes)
{
    if (!bytes.len)
        return;
    w->data = realloc(w->data, w->len + bytes.len);
    memcpy(w->data + w->len, bytes.data, bytes.len);
    w->len += bytes.len;
}

/* What an end has to say, onto its wire; all of it, or up to max bytes. */
static inline void pair_say(pair *p, int which, size_t max)
{
    htc_bytes bytes;
    htc_channel_output(p->e[which].channel, &bytes);
    if (bytes.len > max)
        bytes.len = max;
    wire_put(&p->e[which].out, bytes);
    htc_channel_sent(p->e[which].channel, bytes.len);
}

/* Hand bytes to an end and note what comes of them. */
static inline htc_status pair_hear(pair *p, int which, htc_bytes bytes)
{
    end              *e = &p->e[which];
    htc_channel_event event;
    while ((e->status = htc_channel_read(e->channel, p->now, &bytes, &event)) == HTC_OK && event.kind) {
        switch (event.kind) {
        case HTC_CHANNEL_OPEN:
            e->opened++;
            e->pinned = event.pinned;
            memcpy(e->given, event.bytes.data, event.bytes.len);
            e->given[event.bytes.len] = 0;
            break;
        case HTC_CHANNEL_DATA:
            cr_assert(e->opened == 1, "data before who it is from");
            e->got = realloc(e->got, e->got_len + event.bytes.len);
            memcpy(e->got + e->got_len, event.bytes.data, event.bytes.len);
            e->got_len += event.bytes.len;
            break;
        case HTC_CHANNEL_NEXT_KEY:
            memcpy(e->next, event.bytes.data, event.bytes.len);
            break;
        default:
            e->closed++;
        }
    }
    cr_assert(e->status != HTC_OK || bytes.len == 0, "all is taken");
    return e->status;
}

/* Up to max bytes of what the other end has said. */
static inline htc_status pair_carry(pair *p, int to, size_t max)
{
    wire  *w = &p->e[1 - to].out;
    size_t n = w->len - w->at < max ? w->len - w->at : max;
    w->at += n;
    return pair_hear(p, to, (htc_bytes){ n ? w->data + w->at - n : NULL, n });
}

/* To and fro until both are silent or have failed. */
static inline void pair_pump(pair *p)
{
    for (int i = 0; i < 20; i++)
        for (int k = 0; k < 2; k++) {
            if (!p->e[k].channel)
                continue;
            pair_say(p, k, SIZE_MAX);
            if (p->e[1 - k].channel && p->e[1 - k].status == HTC_OK)
                pair_carry(p, 1 - k, SIZE_MAX);
        }
}

static inline void pair_connect(pair *p)
{
    pair_dial(p);
    pair_pump(p);
    for (int i = 0; i < 2; i++)
        cr_assert(p->e[i].status == HTC_OK && p->e[i].opened == 1, "end %d: %s", i,
                  htc_channel_reason(p->e[i].channel));
}

static inline void pair_write(pair *p, int which, const char *text)
{
    cr_assert(eq(int, htc_channel_write(p->e[which].channel, htc_bytes_of(text)), HTC_OK));
}

static inline int pair_got(const pair *p, int which, const char *text)
{
    return p->e[which].got_len == strlen(text) &&
           memcmp(p->e[which].got ? (char *)p->e[which].got : "", text, strlen(text)) == 0;
}

#endif
