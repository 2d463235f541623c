/* A host with keys in a thread, whose machine echoes, and callers with channels of their own on blocking sockets: what they
 * send can be cut, kept and said again. */
#ifndef HTC_TESTS_HOST_KEYS_RIG_H
#define HTC_TESTS_HOST_KEYS_RIG_H

#include <arpa/inet.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "expect.h"

#include "core/wire.h"
#include "htcsched/channel.h"
#include "htcsched/host_keys.h"
#include "htcsched/keys.h"
#include "htcsched/calls.h"
#include "roles/runtime/agent_wire.h"

enum { CALL_LOAD = 1000, TYPE_ECHO = 400 };

typedef struct rig {
    char           dir[64], key[96], ring[96], once[96];
    htc_host      *host;
    htc_host_keys *keys;
    pthread_t      thread;
    uint16_t       port;
    uint8_t public[HTC_KEY_BYTES];
    htc_status loaded;
    /* the machine's; read when the thread has ended, or atomically */
    uint32_t          opened, closed, messages;
    htc_status        why; /* of the last that was closed */
    htc_peer_identity last;
    uint32_t          dialled;         /* greets this peer when it opens */
    uint32_t          greeted, enough; /* answers from it; it ends after so many */
} rig;

static inline void rig_say(htc_output *out, uint32_t peer, uint64_t id, htc_bytes text)
{
    htc_buf b;
    htc_buf_init(&b, NULL, 0);
    htc_wire_begin(&b, TYPE_ECHO, id);
    htc_put_raw(&b, text);
    htc_output_add(out, &(htc_effect){ .kind = HTC_OUT_MESSAGE, .peer = peer, .body = htc_buf_bytes(&b) });
    htc_buf_free(&b);
}

static inline htc_status rig_step(void *self, const htc_input *in, htc_output *out)
{
    rig       *r = self;
    uint16_t   type;
    uint64_t   id;
    htc_reader p;
    switch ((htc_input_kind)in->kind) {
    case HTC_IN_OPENED:
        cr_assert(eq(int, htc_peer_identity_read(in->body, &r->last), HTC_OK));
        __atomic_add_fetch(&r->opened, 1, __ATOMIC_SEQ_CST);
        if (in->peer == r->dialled)
            rig_say(out, in->peer, 77, htc_bytes_of("hello"));
        break;
    case HTC_IN_CLOSED:
        r->why = in->status;
        __atomic_add_fetch(&r->closed, 1, __ATOMIC_SEQ_CST);
        break;
    case HTC_IN_MESSAGE:
        p = htc_wire_open(in->body, &type, &id);
        __atomic_add_fetch(&r->messages, 1, __ATOMIC_SEQ_CST);
        if (in->peer == r->dialled) {
            if (__atomic_add_fetch(&r->greeted, 1, __ATOMIC_SEQ_CST) == r->enough)
                htc_output_add(out, &(htc_effect){ .kind = HTC_OUT_STOP });
        } else if (id == 1) { /* stop */
            htc_output_add(out, &(htc_effect){ .kind = HTC_OUT_STOP });
        } else if (id == 2) { /* load the keys anew */
            htc_output_add(out, &(htc_effect){ .kind = HTC_OUT_CALL, .op = CALL_LOAD, .tag = in->peer });
        } else if (id == 3) { /* say so, and hang up */
            rig_say(out, in->peer, 3, htc_bytes_of("go"));
            htc_output_add(out, &(htc_effect){ .kind = HTC_OUT_CLOSE, .peer = in->peer, .status = HTC_EBUSY });
        } else {
            rig_say(out, in->peer, id, (htc_bytes){ p.p, htc_reader_left(&p) });
        }
        break;
    case HTC_IN_RESULT:
        rig_say(out, (uint32_t)in->tag, 2, htc_bytes_of(htc_status_name(in->status)));
        break;
    default:
        break;
    }
    return HTC_OK;
}

static inline htc_ns rig_never(const void *self)
{
    (void)self;
    return HTC_NEVER;
}

static const htc_machine_ops rig_ops = { sizeof rig_ops, rig_step, rig_never, NULL, 0 };

static inline htc_status rig_call(void *ctx, htc_host *host, uint32_t op, uint64_t tag, htc_bytes body)
{
    rig *r = ctx;
    (void)body;
    htc_status status = htc_host_keys_load(r->keys, NULL);
    return htc_host_answer(host, op, tag, status, (htc_bytes){ NULL, 0 });
}

static inline void *rig_run(void *arg)
{
    rig *r = arg;
    cr_assert(eq(int, htc_host_run(r->host, &rig_ops, r), HTC_OK));
    return NULL;
}

/* Everything but running. */
static inline void rig_make(rig *r, htc_host_keys_options *o, const htc_host_options *ho)
{
    htc_error error = { 0 };
    memset(r, 0, sizeof *r);
    snprintf(r->dir, sizeof r->dir, "/tmp/htc-rig-XXXXXX");
    cr_assert(mkdtemp(r->dir) != NULL);
    snprintf(r->key, sizeof r->key, "%s/own.key", r->dir);
    snprintf(r->ring, sizeof r->ring, "%s/ring", r->dir);
    snprintf(r->once, sizeof r->once, "%s/once", r->dir);
    cr_assert(eq(int, htc_keys_create(r->key, r->public, &error), HTC_OK), "%s", error.text);
    htc_keyring *empty;
    cr_assert(eq(int, htc_keyring_create(NULL, 0, &empty), HTC_OK));
    cr_assert(eq(int, htc_keys_save_ring(r->ring, empty, &error), HTC_OK), "%s", error.text);
    htc_keyring_destroy(empty);
    cr_assert(eq(int, htc_host_create(NULL, ho, &r->host), HTC_OK));
    htc_host_on_call(r->host, rig_call, r);
    o->size = sizeof *o;
    o->key_path = r->key;
    o->ring_path = r->ring;
}

static inline void rig_listen(rig *r, const htc_host_keys_options *o)
{
    htc_error                    error = { 0 };
    htc_host_keys_listen_options lo = { .size = sizeof lo, .address = "127.0.0.1:0", .port = 5 };
    cr_assert(eq(int, htc_host_keys_open(r->host, o, &r->keys, &error), HTC_OK), "%s", error.text);
    cr_assert(eq(int, htc_host_keys_listen(r->keys, &lo, &r->port, &error), HTC_OK), "%s", error.text);
}

static inline void rig_start(rig *r)
{
    cr_assert(eq(int, pthread_create(&r->thread, NULL, rig_run, r), 0));
}

typedef struct pin {
    const char    *name;
    uint32_t       role, state;
    const uint8_t *key;
} pin;

static inline htc_status rig_pin_change(void *ctx, htc_keyring *ring)
{
    const pin *p = ctx;
    return htc_keyring_set(ring, p->name, p->role, p->state, p->key);
}

static inline void rig_pin(rig *r, const char *name, uint32_t role, uint32_t state, const uint8_t *key)
{
    htc_error error = { 0 };
    cr_assert(eq(int, htc_keys_change_ring(r->ring, rig_pin_change, &(pin){ name, role, state, key }, &error), HTC_OK),
              "%s", error.text);
}

/* ---- callers ---- */

typedef struct caller {
    int           fd;
    htc_identity *identity;
    htc_keyring  *ring;
    htc_channel  *channel;
    uint8_t public[HTC_KEY_BYTES];
    uint32_t   opened;
    htc_status status;
    uint8_t   *sent; /* all bytes, as they went */
    size_t     sent_len;
    htc_buf    in; /* frames */
} caller;

static inline void caller_make(caller *c)
{
    uint8_t secret[HTC_KEY_BYTES];
    memset(c, 0, sizeof *c);
    c->fd = -1;
    cr_assert(eq(int, htc_keys_random(secret, sizeof secret), HTC_OK));
    cr_assert(eq(int, htc_identity_create(NULL, secret, 1, &c->identity), HTC_OK));
    htc_key_public(secret, c->public);
    cr_assert(eq(int, htc_keyring_create(NULL, 0, &c->ring), HTC_OK));
    htc_buf_init(&c->in, NULL, 0);
}

static inline void caller_hang_up(caller *c)
{
    if (c->fd >= 0)
        close(c->fd);
    c->fd = -1;
    htc_channel_destroy(c->channel);
    c->channel = NULL;
    free(c->sent);
    c->sent = NULL;
    c->sent_len = 0;
    c->opened = 0;
    c->status = HTC_OK;
    htc_buf_clear(&c->in);
}

static inline void caller_end(caller *c)
{
    caller_hang_up(c);
    htc_identity_destroy(c->identity);
    htc_keyring_destroy(c->ring);
    htc_buf_free(&c->in);
}

/* A socket from 127.0.0.n. */
static inline int rig_socket(const rig *r, unsigned n)
{
    struct sockaddr_in to = { .sin_family = AF_INET, .sin_port = htons(r->port) }, from = { .sin_family = AF_INET };
    int                fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    from.sin_addr.s_addr = htonl((127u << 24) + n);
    cr_assert(fd >= 0 && bind(fd, (struct sockaddr *)&from, sizeof from) == 0);
    cr_assert(eq(int, connect(fd, (struct sockaddr *)&to, sizeof to), 0));
    return fd;
}

static inline void caller_flush(caller *c)
{
    htc_bytes bytes;
    htc_channel_output(c->channel, &bytes);
    if (!bytes.len)
        return;
    c->sent = realloc(c->sent, c->sent_len + bytes.len);
    memcpy(c->sent + c->sent_len, bytes.data, bytes.len);
    c->sent_len += bytes.len;
    for (size_t done = 0; done < bytes.len;) {
        ssize_t n = send(c->fd, (const uint8_t *)bytes.data + done, bytes.len - done, MSG_NOSIGNAL);
        if (n <= 0)
            break; /* it closed: reading says why */
        done += (size_t)n;
    }
    htc_channel_sent(c->channel, bytes.len);
}

static inline void caller_dial(caller *c, const rig *r, unsigned from, htc_channel_options *o)
{
    c->fd = rig_socket(r, from);
    o->size = sizeof *o;
    o->side = HTC_CHANNEL_CALLER;
    o->role = o->role ? o->role : HTC_KEY_HOST;
    o->identity = c->identity;
    o->ring = c->ring;
    o->peer = o->peer ? o->peer : "server";
    cr_assert(eq(int, htc_keys_random(o->random, sizeof o->random), HTC_OK));
    cr_assert(eq(int, htc_channel_create(NULL, o, htc_host_now(), &c->channel), HTC_OK));
    caller_flush(c);
}

/* One reading. 0: the stream has ended, or the channel has. */
static inline int caller_read(caller *c)
{
    uint8_t           bytes[65536];
    htc_channel_event event;
    struct pollfd     p = { c->fd, POLLIN, 0 };
    cr_assert(poll(&p, 1, 30000) == 1, "an answer");
    ssize_t n = recv(c->fd, bytes, sizeof bytes, 0);
    if (n <= 0) {
        if (c->status == HTC_OK)
            c->status = htc_channel_end(c->channel);
        return 0;
    }
    htc_bytes in = { bytes, (size_t)n };
    while ((c->status = htc_channel_read(c->channel, htc_host_now(), &in, &event)) == HTC_OK && event.kind) {
        c->opened += event.kind == HTC_CHANNEL_OPEN;
        if (event.kind == HTC_CHANNEL_DATA)
            htc_put_raw(&c->in, event.bytes);
    }
    caller_flush(c);
    return c->status == HTC_OK;
}

static inline int caller_open(caller *c)
{
    while (!c->opened && caller_read(c))
        ;
    return c->opened;
}

static inline void caller_say(caller *c, uint64_t id, htc_bytes text)
{
    htc_buf b;
    uint8_t header[4];
    htc_buf_init(&b, NULL, 0);
    htc_wire_begin(&b, TYPE_ECHO, id);
    htc_put_raw(&b, text);
    for (int i = 0; i < 4; i++)
        header[i] = (uint8_t)(b.len >> (8 * i));
    cr_assert(eq(int, htc_channel_write(c->channel, (htc_bytes){ header, 4 }), HTC_OK));
    cr_assert(eq(int, htc_channel_write(c->channel, htc_buf_bytes(&b)), HTC_OK));
    htc_buf_free(&b);
    caller_flush(c);
}

/* The next frame: 1 and its text in *text, lent until the next; 0: there is none, and none will come. */
static inline int caller_hear(caller *c, uint64_t *id, htc_bytes *text)
{
    static uint8_t frame[4 << 20];
    uint16_t       type;
    for (;;) {
        const uint8_t *p = c->in.data;
        size_t         len = c->in.len >= 4 ? p[0] | (size_t)p[1] << 8 | (size_t)p[2] << 16 | (size_t)p[3] << 24 : 0;
        if (c->in.len >= 4 && c->in.len - 4 >= len) {
            cr_assert(len <= sizeof frame);
            memcpy(frame, p + 4, len);
            htc_buf_consume(&c->in, 4 + len);
            htc_reader r = htc_wire_open((htc_bytes){ frame, len }, &type, id);
            *text = (htc_bytes){ r.p, htc_reader_left(&r) };
            return 1;
        }
        if (!caller_read(c))
            return 0;
    }
}

static inline void caller_ask(caller *c, const char *text)
{
    uint64_t  id = 0;
    htc_bytes got;
    caller_say(c, 10, htc_bytes_of(text));
    cr_assert(caller_hear(c, &id, &got), "%s", htc_channel_reason(c->channel));
    cr_expect(id == 10 && got.len == strlen(text) && memcmp(got.data, text, got.len) == 0, "\"%s\"", text);
}

/* Known to the server, and connected. */
static inline void caller_friend(caller *c, rig *r, const char *name)
{
    caller_make(c);
    rig_pin(r, name, HTC_KEY_HOST, HTC_KEY_CURRENT, c->public);
    cr_assert(eq(int, htc_keyring_set(c->ring, "server", HTC_KEY_MEMBER, HTC_KEY_CURRENT, r->public), HTC_OK));
}

static inline void caller_connect(caller *c, const rig *r)
{
    caller_dial(c, r, 1, &(htc_channel_options){ .size = 0 });
    cr_assert(caller_open(c), "%s", htc_channel_reason(c->channel));
}

/* The server still serves; end it and remove what it had. operator: known to it, not connected. */
static inline void rig_close(rig *r, caller *operator)
{
    char command[128];
    caller_hang_up(operator);
    caller_connect(operator, r);
    caller_ask(operator, "still there?");
    caller_say(operator, 1, htc_bytes_of("stop"));
    cr_assert(eq(int, pthread_join(r->thread, NULL), 0));
    caller_end(operator);
    htc_host_destroy(r->host);
    snprintf(command, sizeof command, "rm -rf '%.63s'", r->dir);
    cr_assert(eq(int, system(command), 0));
}

#endif
