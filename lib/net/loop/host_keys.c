/* The keys of a host's connections: files, and what a change of them means for who is connected. */
#include "htcsched/host_keys.h"

#include <signal.h>
#include <sodium.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "channel/keyring.h"
#include "htcsched/keys.h"
#include "net/loop/keys_private.h"
#include "net/loop/secure.h"

#define TURN (120 * HTC_SECOND) /* a cookie is good for one to two of them */

/* ---- files that are written ---- */

/* Written on a worker: a sync may take its time. */
typedef struct change {
    htc_host_keys *keys;
    char           name[HTC_KEY_NAME_MAX + 1];
    uint32_t       role, state, enrolled;
    uint8_t        key[HTC_KEY_BYTES];
    htc_status     status;
    htc_error      error;
} change;

static htc_status set_key(void *ctx, htc_keyring *ring)
{
    change           *c = ctx;
    htc_keyring_entry e;
    /* What the operator has said about this key meanwhile counts more. */
    if (htc_keyring_find(ring, c->key, &e) == HTC_OK)
        return HTC_EMPTY;
    return htc_keyring_set(ring, c->name, c->role, c->state, c->key);
}

static void write_change(void *ctx)
{
    change        *c = ctx;
    htc_host_keys *k = c->keys;
    c->status = htc_keys_change_ring(k->ring_path, set_key, c, &c->error);
    if (c->enrolled && k->once_path) {
        htc_status status = htc_keys_once_drop(k->once_path, c->name, c->role, NULL, &c->error);
        c->status = c->status == HTC_OK ? status : c->status;
    }
}

static void load_and_say(htc_host_keys *k)
{
    htc_error  error = { .status = 0 };
    htc_status status = htc_host_keys_load(k, &error);
    if (status < 0)
        htc__log(k->host->env, HTC_LOG_ERROR, "keys: %s%s%s -> go on with those there were", error.where,
                 *error.where ? ": " : "", error.text);
    else if (status == HTC_OK) /* else it is for later */
        htc__log(k->host->env, HTC_LOG_INFO, "the keys were read anew");
}

static void written(void *ctx)
{
    change        *c = ctx;
    htc_host_keys *k = c->keys;
    if (c->status != HTC_OK)
        htc__log(k->host->env, HTC_LOG_WARN, "the key of %s is known until the next start only: %s", c->name,
                 c->error.text[0] ? c->error.text : htc_strerror(c->status));
    htc__free(k->host->env, c, sizeof *c);
    if (--k->changing > 0 || !k->load_wanted || k->host->stopped)
        return;
    k->load_wanted = 0;
    load_and_say(k);
}

void htc__host_keys_pinned(htc_host_keys *k, const char *name, uint32_t role, uint32_t state, const uint8_t *key,
                           int enrolled)
{
    change *c = htc__alloc(k->host->env, sizeof *c);
    htc__log(k->host->env, HTC_LOG_INFO, "%s: %s", name,
             state == HTC_KEY_NEXT ? "it has announced its next key -> pin it" : "it is enrolled -> pin its key");
    if (c) {
        *c = (change){ .keys = k, .role = role, .state = state, .enrolled = enrolled != 0 };
        memcpy(c->name, name, strlen(name) + 1);
        memcpy(c->key, key, sizeof c->key);
        k->changing++;
        if (htc_host_work(k->host, write_change, written, c) == HTC_OK)
            return;
        k->changing--;
        htc__free(k->host->env, c, sizeof *c);
    }
    htc__log(k->host->env, HTC_LOG_WARN, "the key of %s is known until the next start only: out of memory", name);
}

/* ---- files that are read ---- */

static int same_keys(const htc_identity *identity, const uint8_t *secrets, size_t n)
{
    uint8_t has[HTC_KEY_BYTES], wants[HTC_KEY_BYTES];
    for (size_t i = 0; i < n; i++) {
        htc_key_public(secrets + i * HTC_KEY_BYTES, wants);
        if (htc_identity_public(identity, i, has) != HTC_OK || memcmp(has, wants, sizeof has) != 0)
            return 0;
    }
    return htc_identity_public(identity, n, has) == HTC_ENOTFOUND;
}

/* All files, or nothing of them: what can fail comes first, the exchange of the rings and the secrets at the end cannot. */
static htc_status load(htc_host_keys *k, int *new_keys, htc_error *error)
{
    uint8_t      secrets[HTC_IDENTITY_MAX * HTC_KEY_BYTES];
    size_t       n;
    htc_ns       now = htc_host_now(), wall = htc_host_wall();
    htc__secrets once = { .at = NULL };
    htc_keyring *ring = NULL;
    htc_status   status = htc_keys_read(k->key_path, secrets, &n, error);
    if (status == HTC_OK && k->once_path)
        status = htc__secrets_load(k->once_path, wall, &once, error);
    if (status == HTC_OK && (status = htc_keyring_create(k->host->env, 0, &ring)) != HTC_OK)
        htc__error(error, status, "out of memory");
    if (status == HTC_OK)
        status = htc_keys_load_ring(k->ring_path, ring, error);
    if (status == HTC_OK && k->identity)
        *new_keys = !same_keys(k->identity, secrets, n);
    if (status == HTC_OK && (!k->identity || *new_keys)) {
        status = k->identity ? htc_identity_set(k->identity, secrets, n)
                             : htc_identity_create(k->host->env, secrets, n, &k->identity);
        if (status != HTC_OK)
            htc__error(error, status, "%s: %s", k->key_path, htc_strerror(status));
    }
    if (status == HTC_OK)
        htc__keyring_swap(k->ring, ring);
    if (status == HTC_OK && k->once_path)
        status = htc__secrets_open(&once, k->enrolment, now, wall, k->once_path, error);
    htc_keyring_destroy(ring);
    htc__secrets_free(&once);
    sodium_memzero(secrets, sizeof secrets);
    return status;
}

static void look_again(htc_host_keys *k, htc__conn *c, int new_keys)
{
    htc_bytes         none = { NULL, 0 };
    htc_channel_event event;
    uint8_t           key[HTC_KEY_BYTES];
    if (c->state != CONN_OPEN)
        return; /* a handshake looks at the ring as it is at its end */
    htc_status status = htc_channel_read(c->secure->channel, htc_host_now(), &none, &event);
    if (status != HTC_OK) {
        htc__secure_fail(c, status, htc_channel_reason(c->secure->channel));
        return;
    }
    for (size_t i = 1; new_keys && htc_identity_public(k->identity, i, key) == HTC_OK; i++)
        (void)htc_channel_announce(c->secure->channel, key);
    htc__conn_flush(c);
}

htc_status htc_host_keys_load(htc_host_keys *k, htc_error *error)
{
    int new_keys = 0;
    if (!k)
        return htc__error(error, HTC_EINVAL, "keys are needed");
    if (k->changing) {
        /* A secret that is used up may still stand in its file. */
        k->load_wanted = 1;
        return HTC_AGAIN;
    }
    htc_status status = load(k, &new_keys, error);
    if (status != HTC_OK)
        return status;
    for (htc__conn *c = htc__conn_after(k->host, 0); c; c = htc__conn_after(k->host, c->peer))
        if (c->secure && c->secure->keys == k)
            look_again(k, c, new_keys);
    return HTC_OK;
}

static htc__keys_seen see(const char *path)
{
    struct stat st;
    if (!path || stat(path, &st) != 0)
        return (htc__keys_seen){ 0 };
    return (htc__keys_seen){ st.st_mtim.tv_sec, st.st_mtim.tv_nsec, (uint64_t)st.st_size, st.st_ino };
}

/* Before they are read: what is written meanwhile is seen the next time. 1: one has changed. */
static int see_all(htc_host_keys *k)
{
    const char *const paths[] = { k->key_path, k->ring_path, k->once_path };
    int               changed = 0;
    for (size_t i = 0; i < 3; i++) {
        htc__keys_seen now = see(paths[i]);
        changed |= memcmp(&now, &k->seen[i], sizeof now) != 0;
        k->seen[i] = now;
    }
    return changed;
}

static void on_look(evutil_socket_t fd, short what, void *arg)
{
    (void)fd, (void)what;
    if (see_all(arg))
        load_and_say(arg);
}

static void on_hangup(evutil_socket_t number, short what, void *arg)
{
    (void)number, (void)what;
    load_and_say(arg);
}

static void on_turn(evutil_socket_t fd, short what, void *arg)
{
    uint8_t secret[32];
    (void)fd, (void)what;
    randombytes_buf(secret, sizeof secret);
    htc_gate_turn(((htc_host_keys *)arg)->gate, secret);
    sodium_memzero(secret, sizeof secret);
}

void htc__host_keys_say(htc_host_keys *k, const htc__secure *s, const char *reason)
{
    htc_ns now = htc_host_now();
    if (s->conn->told) { /* of somebody who is known there are not many */
        htc__log(k->host->env, HTC_LOG_WARN, "peer %u, %s at %s: %s -> %s", s->conn->peer, s->peer, s->where, reason,
                 s->conn->dialled ? "try again" : "close");
        return;
    }
    if (k->said && now - k->said < HTC_SECOND) {
        k->unsaid++;
        return;
    }
    htc__log(k->host->env, HTC_LOG_WARN, "peer %u, %s%s%s: %s -> %s (and %u others)", s->conn->peer,
             s->name[0] ? s->name : "", s->name[0] ? " at " : "", s->where, reason,
             s->conn->dialled ? "try again" : "close", k->unsaid);
    k->said = now;
    k->unsaid = 0;
}

/* ---- opening ---- */

static void keys_free(void *ctx)
{
    htc_host_keys *k = ctx;
    const htc_env *env = k->host->env;
    if (k->hangup)
        event_free(k->hangup);
    if (k->turn)
        event_free(k->turn);
    if (k->look)
        event_free(k->look);
    htc_identity_destroy(k->identity);
    htc_keyring_destroy(k->ring);
    htc_enrolment_destroy(k->enrolment);
    htc_gate_destroy(k->gate);
    htc__strfree(env, k->key_path);
    htc__strfree(env, k->ring_path);
    htc__strfree(env, k->once_path);
    sodium_memzero(k->places, sizeof k->places);
    htc__free(env, k, sizeof *k);
}

static htc_status make(htc_host_keys *k, const htc_host_keys_options *o)
{
    htc_host        *h = k->host;
    struct timeval   every = htc__timeval(TURN);
    htc_gate_options gate = {
        .size = sizeof gate, .rate = o->rate, .burst = o->burst, .inflight_max = k->options.strangers_max
    };
    k->key_path = htc__strdup(h->env, o->key_path);
    k->ring_path = htc__strdup(h->env, o->ring_path);
    k->once_path = o->once_path ? htc__strdup(h->env, o->once_path) : NULL;
    if (!k->key_path || !k->ring_path || (o->once_path && !k->once_path))
        return HTC_ENOMEM;
    if (!h->stream_in && !(h->stream_in = htc__alloc(h->env, HTC_HOST_STREAM_IN)))
        return HTC_ENOMEM;
    randombytes_buf(k->places, sizeof k->places);
    randombytes_buf(gate.secret, sizeof gate.secret);
    htc_status status = htc_gate_create(h->env, &gate, &k->gate);
    sodium_memzero(gate.secret, sizeof gate.secret);
    if (status == HTC_OK)
        status = htc_keyring_create(h->env, 0, &k->ring);
    if (status == HTC_OK && k->once_path)
        status = htc_enrolment_create(h->env, HTC__SECRETS_MAX, &k->enrolment);
    k->turn = event_new(h->base, -1, EV_PERSIST, on_turn, k);
    if (o->look_ns) {
        struct timeval look = htc__timeval(o->look_ns);
        k->look = event_new(h->base, -1, EV_PERSIST, on_look, k);
        if (status == HTC_OK && (!k->look || event_add(k->look, &look) != 0))
            status = HTC_ENOMEM;
    }
    if (h->options.handle_signals)
        k->hangup = evsignal_new(h->base, SIGHUP, on_hangup, k);
    if (status == HTC_OK && (!k->turn || event_add(k->turn, &every) != 0 ||
                             (h->options.handle_signals && (!k->hangup || event_add(k->hangup, NULL) != 0))))
        status = HTC_ENOMEM;
    return status;
}

htc_status htc_host_keys_open(htc_host *host, const htc_host_keys_options *options, htc_host_keys **out,
                              htc_error *error)
{
    htc_host_keys_options o = { .size = 0 };
    int                   new_keys = 0;
    if (!host || !options || !out)
        return htc__error(error, HTC_EINVAL, "a host and options are needed");
    htc_status status =
        htc__options_copy(&o, sizeof o, options, options->size, offsetof(htc_host_keys_options, once_path));
    if (status != HTC_OK)
        return htc__error(error, status, "options of keys: %s", htc_strerror(status));
    if (!o.key_path || !*o.key_path || !o.ring_path || !*o.ring_path || o.role > HTC_KEY_USER)
        return htc__error(error, HTC_EINVAL, "keys need a key file, a ring file and a role that there is");
    htc_host_keys *k = htc__alloc(host->env, sizeof *k);
    if (!k)
        return htc__error(error, HTC_ENOMEM, "out of memory");
    k->host = host;
    k->options = o;
    k->options.role = o.role ? o.role : HTC_KEY_MEMBER;
    k->options.handshake_ns = o.handshake_ns ? o.handshake_ns : 10 * HTC_SECOND;
    k->options.strangers_max = o.strangers_max ? o.strangers_max : 256;
    /* So that there is always room for those who are known. */
    if (k->options.strangers_max > host->options.connections_max / 2)
        k->options.strangers_max = host->options.connections_max / 2 ? host->options.connections_max / 2 : 1;
    status = make(k, &o);
    if (status != HTC_OK)
        htc__error(error, status, "keys: %s", htc_strerror(status));
    else {
        (void)see_all(k);
        status = load(k, &new_keys, error);
    }
    if (status != HTC_OK) {
        keys_free(k);
        return status;
    }
    k->hook = (htc__hook){ keys_free, k, host->hooks_late };
    host->hooks_late = &k->hook;
    *out = k;
    return HTC_OK;
}

/* ---- coming in, going out ---- */

htc_status htc_host_keys_listen(htc_host_keys *k, const htc_host_keys_listen_options *options, uint16_t *bound,
                                htc_error *error)
{
    htc_host_keys_listen_options o = { .size = 0 };
    if (!k || !options)
        return htc__error(error, HTC_EINVAL, "keys and options are needed");
    htc_status status =
        htc__options_copy(&o, sizeof o, options, options->size, offsetof(htc_host_keys_listen_options, accept));
    if (status != HTC_OK)
        return htc__error(error, status, "options of a listener: %s", htc_strerror(status));
    if (!o.address)
        return htc__error(error, HTC_EINVAL, "an address is needed");
    return htc__listen_secure(k, o.address, o.port, o.accept, bound, error);
}

htc_status htc_host_keys_dial(htc_host_keys *k, const htc_host_keys_dial_options *options, uint32_t *peer,
                              htc_error *error)
{
    htc_host_keys_dial_options o = { .size = 0 };
    if (!k || !options || !peer)
        return htc__error(error, HTC_EINVAL, "keys, options and a place for the number are needed");
    htc_status status =
        htc__options_copy(&o, sizeof o, options, options->size, offsetof(htc_host_keys_dial_options, only_xx));
    if (status != HTC_OK)
        return htc__error(error, status, "options of a connection: %s", htc_strerror(status));
    if (o.peer_role > HTC_KEY_USER || (o.name && !htc__key_name_ok(o.name, strlen(o.name))))
        return htc__error(error, HTC_EINVAL, "\"%s\" is no name of a key", o.name ? o.name : "");
    htc__secure *s = htc__alloc(k->host->env, sizeof *s);
    char        *copy = htc__strdup(k->host->env, o.address ? o.address : "");
    int          good = s && copy;
    if (good) {
        s->addresses = copy;
        do
            good = htc__secure_turn(s);
        while (good && s->next);
        good = good && htc__secure_turn(s);
    }
    if (s && copy && !good) {
        htc__free(k->host->env, s, sizeof *s);
        htc__strfree(k->host->env, copy);
        return htc__error(error, HTC_EINVAL, "\"%s\" is no HOST:PORT", o.address ? o.address : "");
    }
    status = s && copy ? htc__conn_dial(k->host, "", o.port, peer) : HTC_ENOMEM;
    if (status != HTC_OK) {
        htc__free(k->host->env, s, sizeof *s);
        htc__strfree(k->host->env, copy);
        return htc__error(error, status, "cannot dial %s: %s", o.address, htc_strerror(status));
    }
    htc__conn *c = htc__conn_find(k->host, *peer);
    s->keys = k;
    s->conn = c;
    s->peer_role = o.peer_role ? o.peer_role : HTC_KEY_MEMBER;
    s->only_xx = o.only_xx;
    s->refused = o.refused;
    s->refused_ctx = o.refused_ctx;
    if (o.name)
        memcpy(s->name, o.name, strlen(o.name) + 1);
    c->secure = s;
    c->info.transport = HTC_TRANSPORT_SECURE;
    c->info.uid = UINT32_MAX;
    return HTC_OK;
}

void htc_host_keys_count(const htc_host_keys *k, htc_host_keys_counts *counts)
{
    htc_gate_counts gate;
    htc_gate_count(k->gate, &gate);
    *counts = k->counts;
    counts->busy = gate.busy + gate.cookies;
    counts->rate_limited = gate.rate_limited;
}

size_t htc_host_keys_text(const htc_host_keys *k, uint32_t role, char *out, size_t room)
{
    htc_keyring      *some = NULL;
    htc_keyring_entry e;
    size_t            len = 0;
    htc_status        status = htc_keyring_create(k->host->env, 0, &some);
    for (size_t i = 0; status == HTC_OK && htc_keyring_at(k->ring, i, &e) == HTC_OK; i++)
        if (!role || e.role == role)
            status = htc_keyring_set(some, e.name, e.role, e.state, e.key);
    if (status == HTC_OK)
        len = htc_keyring_text(some, out, room);
    htc_keyring_destroy(some);
    return len;
}
