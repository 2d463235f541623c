#include "net/loop/sealed.h"

#include <sodium.h>
#include <string.h>

#include "core/util.h"
#include "htcsched/host.h"
#include "htcsched/keys.h"

#define PINNED "server" /* the name of a key that was given as text */
#define QUEUE  ((size_t)64 << 20)

struct htc__sealed {
    htc_env       env;
    htc_identity *identity;
    htc_keyring  *ring;
    htc_channel  *channel; /* of the present connection */
    char         *ring_path;
    char          server[HTC_KEY_NAME_MAX + 1]; /* "": any member */
    uint32_t      role, has_cookie, has_once;
    uint8_t       cookie[HTC_CHANNEL_COOKIE];
    uint8_t       once[HTC_KEY_BYTES];
    htc_ns        patience;
    const char   *reason;
    char          given[HTC_KEY_NAME_MAX + 1];
};

static htc_status read_identity(htc__sealed *s, const char *path, htc_error *error)
{
    uint8_t    secrets[HTC_IDENTITY_MAX * HTC_KEY_BYTES];
    size_t     n;
    htc_status status = htc_keys_read(path, secrets, &n, error);
    if (status == HTC_OK && (status = htc_identity_create(&s->env, secrets, n, &s->identity)) != HTC_OK)
        htc__error(error, status, "%s: %s", path, htc_strerror(status));
    sodium_memzero(secrets, sizeof secrets);
    return status;
}

/* Whom to trust: a key that the caller names, or those of a file. An enrolment pins the first one. */
static htc_status read_ring(htc__sealed *s, const htc_store_options *o, htc_error *error)
{
    uint8_t    key[HTC_KEY_BYTES];
    int        by_key = o->server && strncmp(o->server, "pub-", 4) == 0;
    htc_status status = htc_keyring_create(&s->env, 0, &s->ring);
    if (status != HTC_OK)
        return htc__error(error, status, "out of memory");
    if (by_key && (o->ring_path || o->once))
        return htc__error(error, HTC_EINVAL, "%s: the server's key, or its name and a ring file, but not both",
                          o->address);
    if (by_key) {
        memcpy(s->server, PINNED, sizeof PINNED);
        status = htc_key_read(HTC_KEY_PUBLIC, htc_bytes_of(o->server), key, error);
        return status == HTC_OK ? htc_keyring_set(s->ring, PINNED, HTC_KEY_MEMBER, HTC_KEY_CURRENT, key) : status;
    }
    if (!o->ring_path || (o->once && !o->server))
        return htc__error(error, HTC_EINVAL, "%s: whose key is it? its public key, or a ring file, is needed%s",
                          o->address, o->once ? ", and with a one-time secret its name" : "");
    if (o->server && strlen(o->server) > HTC_KEY_NAME_MAX)
        return htc__error(error, HTC_EINVAL, "%s: the name of the server is too long", o->address);
    if (o->server)
        memcpy(s->server, o->server, strlen(o->server) + 1);
    if (!(s->ring_path = htc__strdup(&s->env, o->ring_path)))
        return htc__error(error, HTC_ENOMEM, "out of memory");
    status = htc_keys_load_ring(o->ring_path, s->ring, error);
    return status == HTC_ENOTFOUND && o->once ? HTC_OK : status;
}

htc_status htc__sealed_open(const htc_env *env, const htc_store_options *o, htc__sealed **out, htc_error *error)
{
    if (o->role > HTC_KEY_USER)
        return htc__error(error, HTC_EINVAL, "%s: there is no such role", o->address);
    htc__sealed *s = htc__alloc(env, sizeof *s);
    if (!s)
        return htc__error(error, HTC_ENOMEM, "out of memory");
    s->env = *env;
    s->reason = "";
    s->role = o->role ? o->role : HTC_KEY_USER;
    s->patience = o->timeout_ns;
    if (o->once)
        memcpy(s->once, o->once, sizeof s->once);
    s->has_once = o->once != NULL;
    htc_status status = read_identity(s, o->key_path, error);
    if (status == HTC_OK)
        status = read_ring(s, o, error);
    if (status != HTC_OK) {
        htc__sealed_close(s);
        return status;
    }
    *out = s;
    return HTC_OK;
}

void htc__sealed_close(htc__sealed *s)
{
    if (!s)
        return;
    htc_env env = s->env;
    htc_channel_destroy(s->channel);
    htc_identity_destroy(s->identity);
    htc_keyring_destroy(s->ring);
    htc__strfree(&env, s->ring_path);
    sodium_memzero(s, sizeof *s);
    htc__free(&env, s, sizeof *s);
}

htc_status htc__sealed_begin(htc__sealed *s)
{
    htc_channel_options o = { .size = sizeof o,
                              .side = HTC_CHANNEL_CALLER,
                              .role = s->role,
                              .identity = s->identity,
                              .ring = s->ring,
                              .peer = s->server[0] ? s->server : NULL,
                              .secret = s->has_once ? s->once : NULL,
                              .cookie = s->has_cookie ? s->cookie : NULL,
                              .handshake_ns = s->patience,
                              .queue_max = 2 * QUEUE };
    htc__sealed_end(s);
    htc_status status = htc_keys_random(o.random, sizeof o.random);
    if (status == HTC_OK)
        status = htc_channel_create(&s->env, &o, htc_host_now(), &s->channel);
    sodium_memzero(o.random, sizeof o.random);
    s->has_cookie = 0;
    s->reason = status == HTC_ENOTFOUND ? "the ring has no key under that name" : "";
    return status;
}

void htc__sealed_end(htc__sealed *s)
{
    htc_channel_destroy(s->channel);
    s->channel = NULL;
}

typedef struct pin {
    htc_channel_peer_info peer;
    const uint8_t        *key;
    uint32_t              state;
} pin;

static htc_status set_key(void *ctx, htc_keyring *ring)
{
    const pin        *p = ctx;
    htc_keyring_entry e;
    /* What its owner has said about this key counts more. */
    if (htc_keyring_find(ring, p->key, &e) == HTC_OK)
        return HTC_EMPTY;
    return htc_keyring_set(ring, p->peer.name, p->peer.role, p->state, p->key);
}

/* The server will use another key. A ring that cannot be written is a matter of the next start. */
static void next_key(htc__sealed *s, const uint8_t *key)
{
    pin p = { .key = key, .state = HTC_KEY_NEXT };
    if (htc_channel_peer(s->channel, &p.peer) == HTC_OK && set_key(&p, s->ring) == HTC_OK && s->ring_path)
        (void)htc_keys_change_ring(s->ring_path, set_key, &p, NULL);
}

static htc_status opened(htc__sealed *s, const htc_channel_event *event)
{
    if (!event->pinned)
        return HTC_OK;
    s->has_once = 0;
    sodium_memzero(s->once, sizeof s->once);
    memcpy(s->given, event->bytes.data, event->bytes.len);
    s->given[event->bytes.len] = 0;
    pin        p = { .state = HTC_KEY_CURRENT };
    htc_status status = htc_channel_peer(s->channel, &p.peer);
    p.key = p.peer.key;
    if (status == HTC_OK)
        status = htc_keys_change_ring(s->ring_path, set_key, &p, NULL);
    s->reason = status == HTC_OK ? "" : "enrolled, but the server's key could not be written to the ring file";
    return status;
}

htc_status htc__sealed_take(htc__sealed *s, htc_bytes bytes, htc_buf *in, int *is_open)
{
    htc_channel_event event;
    htc_status        status;
    while ((status = htc_channel_read(s->channel, htc_host_now(), &bytes, &event)) == HTC_OK && event.kind) {
        if (event.kind == HTC_CHANNEL_DATA)
            htc_put_raw(in, event.bytes);
        else if (event.kind == HTC_CHANNEL_OPEN && (*is_open = 1) && (status = opened(s, &event)) != HTC_OK)
            return status;
        else if (event.kind == HTC_CHANNEL_NEXT_KEY)
            next_key(s, event.bytes.data);
        else if (event.kind == HTC_CHANNEL_CLOSED)
            return HTC_ECLOSED;
        if (in->status != HTC_OK)
            return in->status;
    }
    if (status != HTC_OK) {
        s->reason = htc_channel_reason(s->channel);
        s->has_cookie = htc_channel_cookie(s->channel, s->cookie) != 0;
    }
    return status;
}

htc_status htc__sealed_give(htc__sealed *s, htc_buf *out)
{
    if (out->len == 0 || htc_channel_waiting(s->channel) > QUEUE)
        return HTC_OK;
    htc_status status = htc_channel_write(s->channel, htc_buf_bytes(out));
    if (status == HTC_OK)
        htc_buf_clear(out);
    else if (status != HTC_ENOMEM)
        s->reason = htc_channel_reason(s->channel);
    return status;
}

htc_bytes htc__sealed_output(htc__sealed *s)
{
    htc_bytes bytes = { NULL, 0 };
    (void)htc_channel_output(s->channel, &bytes); /* after a failure it lends what tells the peer why */
    return bytes;
}

htc_bytes htc__sealed_last(htc__sealed *s)
{
    (void)htc_channel_close(s->channel);
    return htc__sealed_output(s);
}

void htc__sealed_sent(htc__sealed *s, size_t n)
{
    htc_channel_sent(s->channel, n);
}

htc_ns htc__sealed_deadline(const htc__sealed *s)
{
    return htc_channel_deadline(s->channel);
}

const char *htc__sealed_reason(const htc__sealed *s)
{
    return s->reason;
}

const char *htc__sealed_given(const htc__sealed *s)
{
    return s->given;
}
