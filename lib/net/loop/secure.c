/* A connection whose bytes go through a secure channel: the channel's part of conn.c. */
#include "net/loop/secure.h"

#include <assert.h>
#include <errno.h>
#include <netinet/tcp.h>
#include <sodium.h>
#include <string.h>
#include <unistd.h>

/* ---- strangers ---- */

static void stranger_enter(htc__secure *s)
{
    htc_host_keys *k = s->keys;
    uint64_t       hash;
    assert(!s->stranger && !s->older && !s->younger);
    crypto_shorthash((uint8_t *)&hash, s->source, s->source_len, k->places);
    s->slot = (uint32_t)(hash % HTC__SLOTS);
    s->stranger = 1;
    s->older = k->youngest;
    s->younger = NULL;
    if (k->youngest)
        k->youngest->younger = s;
    else
        k->oldest = s;
    k->youngest = s;
    k->slots[s->slot]++;
    if (++k->counts.strangers > k->counts.strangers_top)
        k->counts.strangers_top = k->counts.strangers;
}

static void stranger_leave(htc__secure *s)
{
    htc_host_keys *k = s->keys;
    if (!s->stranger)
        return;
    s->stranger = 0;
    if (s->older)
        s->older->younger = s->younger;
    else
        k->oldest = s->younger;
    if (s->younger)
        s->younger->older = s->older;
    else
        k->youngest = s->older;
    s->older = s->younger = NULL;
    assert(k->slots[s->slot] > 0 && k->counts.strangers > 0);
    k->slots[s->slot]--;
    k->counts.strangers--;
}

/* The oldest of those from where most come: who comes from elsewhere is not crowded out by them. */
int htc__secure_crowd_out(htc_host_keys *k)
{
    htc__secure *victim = k->oldest;
    for (htc__secure *s = k->oldest; s; s = s->younger)
        if (k->slots[s->slot] > k->slots[victim->slot])
            victim = s;
    if (!victim)
        return 0;
    k->counts.crowded_out++;
    htc__conn_drop(victim->conn, HTC_EBUSY);
    return 1;
}

/* ---- the beginning ---- */

static htc_status begin(htc__conn *c, uint32_t side)
{
    htc__secure        *s = c->secure;
    htc_host_keys      *k = s->keys;
    htc_channel_options o = { .size = sizeof o,
                              .side = side,
                              .role = k->options.role,
                              .identity = k->identity,
                              .ring = k->ring,
                              .peer = s->name[0] ? s->name : NULL,
                              .peer_role = s->peer_role,
                              .accept = s->accept,
                              .enrolment = k->enrolment,
                              .gate = k->gate,
                              .source = { s->source, s->source_len },
                              .cookie = s->has_cookie ? s->cookie : NULL,
                              .handshake_ns = k->options.handshake_ns,
                              .queue_max = c->host->options.output_bytes_max,
                              .only_xx = s->only_xx };
    assert(!s->channel && c->fd >= 0); /* a channel is of one socket: its keys are not used for another */
    randombytes_buf(o.random, sizeof o.random);
    htc_status status = htc_channel_create(c->host->env, &o, htc_host_now(), &s->channel);
    sodium_memzero(o.random, sizeof o.random);
    s->has_cookie = 0;
    if (status != HTC_OK)
        return status;
    c->state = CONN_SHAKE;
    htc__conn_set_timer(c, k->options.handshake_ns);
    return HTC_OK;
}

htc_status htc__secure_accept(htc_host_keys *k, int fd, const htc_peer_info *info, uint32_t accept)
{
    struct sockaddr_storage from;
    socklen_t               len = sizeof from;
    htc_host               *h = k->host;
    memset(&from, 0, sizeof from);
    while (k->counts.strangers >= k->options.strangers_max)
        htc__secure_crowd_out(k);
    htc__secure *s = htc__alloc(h->env, sizeof *s);
    htc__conn   *c = s ? htc__conn_new(h, 0) : NULL;
    if (!c) {
        htc__free(h->env, s, sizeof *s);
        close(fd);
        return HTC_ENOMEM;
    }
    *s = (htc__secure){ .keys = k, .conn = c, .accept = accept };
    c->secure = s;
    c->info = *info;
    c->info.transport = HTC_TRANSPORT_SECURE;
    if (getpeername(fd, (struct sockaddr *)&from, &len) == 0) {
        s->source_len = htc__address_source(&from, s->source);
        htc__address_text(&from, s->where);
    }
    if (htc__conn_attach(c, fd) != HTC_OK) {
        htc__conn_forget(c);
        close(fd);
        return HTC_ENOMEM;
    }
    htc_status status = begin(c, HTC_CHANNEL_ANSWERER);
    if (status != HTC_OK) {
        htc__conn_forget(c); /* and its socket */
        return status;
    }
    h->incoming++;
    stranger_enter(s);
    return HTC_OK;
}

/* ---- dialling ---- */

/* A name that somebody else has to be asked for. */
typedef struct question {
    htc_host_keys          *keys;
    uint32_t                peer;
    uint16_t                port;
    uint32_t                nth;
    char                    node[HTC__HOST_NAME_MAX];
    const char             *fault;
    struct sockaddr_storage to;
    socklen_t               len;
} question;

static void tell_refused(const htc__secure *s, htc_status why, const char *reason)
{
    if (s->refused)
        s->refused(s->refused_ctx, why, reason);
}

static void not_reached(htc__conn *c, const char *reason)
{
    htc__log_with(c->host->env, HTC_LOG_INFO,
                  HTC__FIELDS(HTC__NUMBER("peer", c->peer), HTC__TEXT("address", c->secure->node),
                              HTC__NUMBER("port", c->secure->tcp_port)),
                  "peer %u: %s port %u: %s -> try again", c->peer, c->secure->node,
                  (unsigned)c->secure->tcp_port, reason);
    tell_refused(c->secure, HTC_EUNREACHABLE, reason);
    htc__conn_drop(c, HTC_EUNREACHABLE);
}

static void connect_to(htc__conn *c, const struct sockaddr_storage *to, socklen_t len)
{
    int one = 1, fd = socket(to->ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd >= 0) {
        setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
        htc__socket_watch(fd, HTC__SILENT_S, 1);
    }
    if (fd < 0 || (connect(fd, (const struct sockaddr *)to, len) != 0 && errno != EINPROGRESS)) {
        int why = errno;
        if (fd >= 0)
            close(fd);
        not_reached(c, strerror(why));
        return;
    }
    htc__address_text(to, c->secure->where);
    if (htc__conn_attach(c, fd) != HTC_OK) {
        close(fd);
        not_reached(c, "out of memory");
        return;
    }
    htc__conn_wait_for(c, 0, 1);
}

static void ask(void *ctx)
{
    question *q = ctx;
    uint32_t  count;
    q->fault = htc__address_find(q->node, q->port, q->nth, &q->to, &q->len, &count);
}

static void answered(void *ctx);

static htc__conn *waiting_after(const htc_host_keys *k, uint32_t peer)
{
    htc__conn *c = htc__conn_after(k->host, peer);
    while (c && !(c->secure && c->secure->keys == k && c->secure->waiting && c->state == CONN_CONNECTING))
        c = htc__conn_after(k->host, c->peer);
    return c;
}

int htc__secure_turn(htc__secure *s)
{
    char        one[HTC__HOST_NAME_MAX + 16];
    const char *at = s->addresses + s->next;
    size_t      len = strcspn(at, ",");
    if (len >= sizeof one)
        return 0;
    memcpy(one, at, len);
    one[len] = '\0';
    s->next = at[len] ? s->next + len + 1 : 0;
    s->has_cookie = 0; /* it was the other one's */
    return htc__address_split(one, s->node, &s->tcp_port) && s->tcp_port != 0;
}

/* One question at a time, each in turn: a resolver that is away would take all workers, and syncs want those too. */
static void ask_next(htc_host_keys *k)
{
    while (!k->asking) {
        htc__conn *c = waiting_after(k, k->asked);
        c = c ? c : waiting_after(k, 0);
        if (!c)
            return;
        htc__secure *s = c->secure;
        question    *q = htc__alloc(k->host->env, sizeof *q);
        s->waiting = 0;
        k->asked = c->peer;
        htc__conn_set_timer(c, k->options.handshake_ns);
        if (q) {
            *q = (question){ .keys = k, .peer = c->peer, .port = s->tcp_port, .nth = s->tries++ };
            memcpy(q->node, s->node, strlen(s->node) + 1);
            k->asking = htc_host_work(k->host, ask, answered, q) == HTC_OK;
        }
        if (k->asking)
            return;
        htc__free(k->host->env, q, sizeof *q);
        not_reached(c, "out of memory");
    }
}

static void answered(void *ctx)
{
    question      *q = ctx;
    htc_host_keys *k = q->keys;
    htc__conn     *c = k->host->stopped ? NULL : htc__conn_find(k->host, q->peer);
    assert(k->asking);
    k->asking = 0;
    if (c && c->state == CONN_CONNECTING && c->fd < 0) {
        if (c->secure->waiting) /* it had waited too long, and is to ask again */
            htc__conn_set_timer(c, k->options.handshake_ns);
        c->secure->waiting = 0;
        if (q->fault)
            not_reached(c, q->fault);
        else
            connect_to(c, &q->to, q->len);
    }
    htc__free(k->host->env, q, sizeof *q);
    if (!k->host->stopped)
        ask_next(k);
}

void htc__secure_dial(htc__conn *c)
{
    htc__secure            *s = c->secure;
    struct sockaddr_storage to;
    socklen_t               len;
    assert(c->state == CONN_IDLE && c->fd < 0 && !s->channel);
    c->state = CONN_CONNECTING;
    if (htc__address_ip(s->node, s->tcp_port, &to, &len)) {
        htc__conn_set_timer(c, s->keys->options.handshake_ns);
        connect_to(c, &to, len);
        return;
    }
    s->waiting = 1;
    ask_next(s->keys);
}

void htc__secure_connected(htc__conn *c)
{
    int       why = 0;
    socklen_t len = sizeof why;
    if (getsockopt(c->fd, SOL_SOCKET, SO_ERROR, &why, &len) != 0)
        why = errno;
    if (why) {
        htc__conn_tell_refused(c, why);
        not_reached(c, strerror(why));
        return;
    }
    htc_status status = begin(c, HTC_CHANNEL_CALLER);
    if (status != HTC_OK) {
        const char *reason = status == HTC_ENOTFOUND ? "no key of the one that is called is in the ring" : htc_strerror(status);
        htc__host_keys_say(c->secure->keys, c->secure, reason);
        tell_refused(c->secure, status == HTC_ENOTFOUND ? HTC_EDENIED : status, reason);
        htc__conn_drop(c, status);
        return;
    }
    htc__conn_wait_for(c, 1, 1);
    htc__conn_flush(c);
}

/* ---- bytes ---- */

void htc__secure_fail(htc__conn *c, htc_status why, const char *reason)
{
    htc__secure *s = c->secure;
    if (c->state != CONN_SHAKE && c->state != CONN_OPEN)
        return;
    if (c->told && why == HTC_EDENIED)
        s->keys->counts.disowned++;
    if (!c->told)
        s->keys->counts.refused++;
    htc__host_keys_say(s->keys, s, reason);
    if (c->dialled && !c->told)
        s->has_cookie = htc_channel_cookie(s->channel, s->cookie) != 0;
    if (c->dialled && (!c->told || why == HTC_EDENIED)) /* a caller thinks it open before it is told that it is not let in */
        tell_refused(s, why, reason);
    c->why = why;
    c->state = CONN_FLUSHING;
    htc__conn_set_timer(c, HTC_HOST_FLUSH_PATIENCE);
    if (c->dialled && htc_channel_waiting(s->channel) == 0)
        htc__conn_drop(c, why);
    else
        htc__conn_flush(c);
}

void htc__secure_late(htc__conn *c)
{
    htc__secure *s = c->secure;
    if (c->state == CONN_CONNECTING) {
        not_reached(c, "no answer");
        return;
    }
    /* The timer may be a moment early: the channel's own clock counts. */
    htc_ns     deadline = htc_channel_deadline(s->channel), now = htc_host_now();
    htc_status status = htc_channel_timeout(s->channel, now > deadline ? now : deadline);
    if (status != HTC_OK)
        htc__secure_fail(c, status, htc_channel_reason(s->channel));
}

/* Both ends have shown a key that the other one knows. */
static void opened(htc__conn *c, const htc_channel_event *event)
{
    htc__secure          *s = c->secure;
    htc_channel_peer_info peer;
    uint8_t               key[HTC_KEY_BYTES];
    assert(c->state == CONN_SHAKE);
    stranger_leave(s);
    s->keys->counts.opened++;
    if (htc_channel_peer(s->channel, &peer) == HTC_OK)
        memcpy(s->peer, peer.name, strlen(peer.name) + 1);
    if (event->pinned)
        htc__host_keys_pinned(s->keys, peer.name, peer.role, HTC_KEY_CURRENT, peer.key, !c->dialled);
    c->state = CONN_OPEN;
    c->was_open = 1;
    c->refused_told = 0;
    event_del(c->timer);
    if (!c->dialled)
        htc__conn_set_timer(c, c->host->options.handshake_ns);
    /* What is not in use yet will be. One that does not leave is announced the next time. */
    for (size_t i = 1; htc_identity_public(s->keys->identity, i, key) == HTC_OK; i++)
        (void)htc_channel_announce(s->channel, key);
    htc__conn_spoken_to(c);
    htc__conn_tell_opened(c);
}

static void next_key(htc__conn *c, const uint8_t *key)
{
    htc__secure          *s = c->secure;
    htc_channel_peer_info peer;
    htc_keyring_entry     e;
    if (htc_keyring_find(s->keys->ring, key, &e) == HTC_OK || htc_channel_peer(s->channel, &peer) != HTC_OK)
        return; /* known, or revoked: an announcement changes neither */
    htc_status status = htc_keyring_set(s->keys->ring, peer.name, peer.role, HTC_KEY_NEXT, key);
    if (status == HTC_OK)
        htc__host_keys_pinned(s->keys, peer.name, peer.role, HTC_KEY_NEXT, key, 0);
    else
        htc__log(c->host->env, HTC_LOG_WARN, "%s announces a key that cannot be pinned: %s -> go on with the others",
                 peer.name, htc_strerror(status));
}

/* 1: go on; 0: the peer has said all; -1: the connection is at its end. */
static int take(htc__conn *c, htc_bytes in)
{
    htc__secure      *s = c->secure;
    htc_channel_event event;
    for (;;) {
        htc_status status = htc_channel_read(s->channel, htc_host_now(), &in, &event);
        if (status == HTC_ENOMEM) {
            htc__conn_drop(c, HTC_ENOMEM);
            return -1;
        }
        if (status != HTC_OK) {
            htc__secure_fail(c, status, htc_channel_reason(s->channel));
            return -1;
        }
        switch ((htc_channel_event_kind)event.kind) {
        case HTC_CHANNEL_MORE:
            return 1;
        case HTC_CHANNEL_OPEN:
            opened(c, &event);
            break;
        case HTC_CHANNEL_DATA:
            s->spoke = 1;
            htc_put_raw(&c->in, event.bytes);
            if (c->in.status != HTC_OK) {
                htc__conn_drop(c, HTC_ENOMEM);
                return -1;
            }
            break;
        case HTC_CHANNEL_NEXT_KEY:
            next_key(c, event.bytes.data);
            break;
        case HTC_CHANNEL_CLOSED:
            return 0;
        }
        if (c->state != CONN_SHAKE && c->state != CONN_OPEN)
            return -1; /* the machine, told, closed it */
    }
}

int htc__secure_read(htc__conn *c)
{
    htc_host *h = c->host;
    ssize_t   n = recv(c->fd, h->stream_in, HTC_HOST_STREAM_IN, 0);
    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return c->state == CONN_FLUSHING ? -1 : 1;
    if (c->state == CONN_FLUSHING) {
        if (n <= 0)
            htc__conn_drop(c, c->why);
        return -1;
    }
    if (n <= 0) {
        htc_status status = htc_channel_end(c->secure->channel);
        if (!c->told)
            c->secure->keys->counts.refused++;
        if (status != HTC_OK && c->told)
            htc__host_keys_say(c->secure->keys, c->secure, htc_channel_reason(c->secure->channel));
        htc__conn_drop(c, HTC_ECLOSED);
        return -1;
    }
    int how = take(c, (htc_bytes){ h->stream_in, (size_t)n });
    /* Handshake frames, and what was announced; what the machine has said leaves with its turn. */
    if (how >= 0 && !c->dirty && htc_channel_waiting(c->secure->channel) > 0)
        htc__conn_flush(c);
    return c->fd < 0 || c->state == CONN_FLUSHING ? -1 : how;
}

int htc__secure_spoke(const htc__conn *c)
{
    return c->secure->spoke != 0;
}

void htc__secure_gone(htc__conn *c)
{
    htc__secure *s = c->secure;
    stranger_leave(s);
    htc_channel_destroy(s->channel);
    s->channel = NULL;
    s->spoke = 0;
}

void htc__secure_free(htc__conn *c)
{
    htc__secure *s = c->secure;
    if (!s)
        return;
    htc__secure_gone(c);
    htc__strfree(c->host->env, s->addresses);
    htc__free(c->host->env, s, sizeof *s);
    c->secure = NULL;
}
