/* One connection: frames in, frames out, both bounded; dialled ones come back after growing pauses. */
#include <assert.h>
#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <sodium.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "net/loop/secure.h"

#define TURN_PAUSE (100 * HTC_MS)

#define HEADER    4
#define FRAME_MIN 10u /* a type and an id */
/* The most that lies in c->in: one frame that is not whole, and what one reading brings, opened, behind it. */
#define IN_MAX ((size_t)HTC_WIRE_MESSAGE_MAX + ((size_t)512 << 10))

static void on_read(evutil_socket_t fd, short what, void *arg);
static void on_write(evutil_socket_t fd, short what, void *arg);
static void on_timer(evutil_socket_t fd, short what, void *arg);

void htc__conn_tell(htc__conn *c, uint32_t kind, htc_status status, uint64_t tag, htc_bytes body)
{
    htc__host_deliver(c->host,
                      &(htc_input){ .size = sizeof(htc_input), .kind = kind, .peer = c->peer, .status = status, .tag = tag, .body = body });
}

static void put_identity(htc_buf *body, const htc__conn *c)
{
    htc_channel_peer_info peer;
    htc_peer_identity     identity = { .role = 0 };
    if (htc_channel_peer(c->secure->channel, &peer) != HTC_OK)
        return;
    memcpy(identity.name, peer.name, strlen(peer.name) + 1);
    identity.role = peer.role;
    memcpy(identity.key, peer.key, sizeof identity.key);
    htc_peer_identity_write(body, &identity);
}

void htc__conn_tell_opened(htc__conn *c)
{
    htc_buf body;
    htc_buf_init(&body, c->host->env, 256);
    htc_peer_info_write(&body, &c->info);
    if (c->secure)
        put_identity(&body, c);
    assert(!c->told && c->state == CONN_OPEN); /* the machine hears OPENED and CLOSED in turn */
    c->told = 1;
    if (c->dialled)
        c->opened_at = htc_host_now();
    if (body.status == HTC_OK)
        htc__conn_tell(c, HTC_IN_OPENED, HTC_OK, 0, htc_buf_bytes(&body));
    else
        htc_host_stop(c->host, HTC_ENOMEM);
    htc_buf_free(&body);
}

static uint32_t frame_max(const htc__conn *c)
{
    if (c->state == CONN_TOKEN)
        return HTC_HOST_TOKEN_LEN;
    return c->dialled || c->welcomed ? HTC_WIRE_MESSAGE_MAX : HTC_HOST_STRANGER_MAX;
}

/* Bytes that are to go out. */
static size_t waiting_of(const htc__conn *c)
{
    if (c->secure)
        return c->secure->channel ? htc_channel_waiting(c->secure->channel) : 0;
    return htc__stream_waiting(c);
}

/* An incoming connection that does not read is not read from. A dialled one always is: if both sides of a connection
 * waited for the other to read first, neither ever would. */
static int is_heard(const htc__conn *c)
{
    return (c->state == CONN_OPEN || c->state == CONN_TOKEN || c->state == CONN_SHAKE) &&
           (c->dialled || waiting_of(c) <= c->host->options.output_bytes_low);
}

void htc__conn_wait_for(htc__conn *c, int reading, int writing)
{
    if (reading != c->reading && (reading ? event_add(c->read, NULL) : event_del(c->read)) == 0)
        c->reading = reading;
    if (writing != c->writing && (writing ? event_add(c->write, NULL) : event_del(c->write)) == 0)
        c->writing = writing;
}

static void set_interest(htc__conn *c)
{
    size_t waiting = waiting_of(c);
    htc__output_note(c, waiting);
    int    writing = waiting > 0 && !c->dirty; /* a dirty one is written to when the turn ends */
    if (c->state == CONN_DEAD || c->state == CONN_IDLE || c->state == CONN_CONNECTING)
        return;
    /* A closing one is read once all was sent, for its end alone. */
    if (c->state == CONN_FLUSHING ? waiting > 0 : !is_heard(c)) {
        htc__conn_wait_for(c, 0, writing);
        c->deaf = 1;
        return;
    }
    htc__conn_wait_for(c, 1, writing);
    if (c->deaf && c->in.len > 0)
        event_active(c->read, EV_READ, 0); /* whole frames may wait here that no new byte would wake */
    c->deaf = 0;
}

void htc__conn_set_timer(htc__conn *c, htc_ns after)
{
    struct timeval tv = htc__timeval(after);
    if (!c->timer)
        c->timer = evtimer_new(c->host->base, on_timer, c);
    if (c->timer)
        event_add(c->timer, &tv);
}

static void events_free(htc__conn *c)
{
    if (c->read)
        event_free(c->read);
    if (c->write)
        event_free(c->write);
    c->read = c->write = NULL;
    c->reading = c->writing = 0;
}

/* The place of the first connection whose number is not below this one. */
static size_t place_of(const htc_host *host, uint32_t peer)
{
    size_t low = 0, high = host->conns_count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (host->conns[middle]->peer < peer)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

htc__conn *htc__conn_after(htc_host *host, uint32_t peer)
{
    size_t i = peer == UINT32_MAX ? host->conns_count : place_of(host, peer + 1);
    return i < host->conns_count ? host->conns[i] : NULL;
}

static void remove_from_table(htc__conn *c)
{
    htc_host *h = c->host;
    size_t    i = place_of(h, c->peer);
    if (h->recent[c->peer % HTC_HOST_RECENT] == c)
        h->recent[c->peer % HTC_HOST_RECENT] = NULL;
    if (i < h->conns_count && h->conns[i] == c) {
        memmove(&h->conns[i], &h->conns[i + 1], (h->conns_count - i - 1) * sizeof *h->conns);
        h->conns_count--;
    }
}

/* Nobody names it any more; its memory goes when the step is over. */
static void bury(htc__conn *c)
{
    htc_host *h = c->host;
    c->state = CONN_DEAD;
    remove_from_table(c);
    c->next_dead = h->dead;
    h->dead = c;
}

/* Of several addresses, which are dialled in turn. */
static int has_turns(const htc__conn *c)
{
    return c->secure && strchr(c->secure->addresses, ',') != NULL;
}

static htc_ns longer(const htc__conn *c)
{
    return c->pause * 2 > c->host->options.redial_max_ns ? c->host->options.redial_max_ns : c->pause * 2;
}

/* Short again after a connection that has lasted. Who is not let in, or is sent away, is told so at once, after a handshake or in a message of its
 * own. Of several addresses one may send us to the other for a while. */
static htc_ns next_pause(const htc__conn *c, htc_status why)
{
    int    turns = has_turns(c);
    int    lasted = c->told && why != HTC_EDENIED && (turns ? htc__secure_spoke(c) : htc_host_now() - c->opened_at >= c->host->options.redial_max_ns);
    htc_ns pause = lasted ? c->host->options.redial_ns : longer(c);
    return turns && pause < TURN_PAUSE ? TURN_PAUSE : pause;
}

/* The socket is gone: forget it, tell the machine, and either wait for the next try or end. */
void htc__conn_drop(htc__conn *c, htc_status why)
{
    htc_host *h = c->host;
    if (c->state == CONN_DEAD || c->state == CONN_IDLE)
        return;
    events_free(c);
    if (c->fd >= 0)
        close(c->fd);
    c->fd = -1;
    if (c->dialled)
        c->pause = next_pause(c, why);
    if (c->secure)
        htc__secure_gone(c);
    if (c->dialled && has_turns(c))
        (void)htc__secure_turn(c->secure);
    htc__stream_gone(c);
    htc__output_note(c, 0);
    htc_buf_free(&c->in);
    if (c->timer)
        event_del(c->timer);
    if (c->dialled && c->hung_up) {
        bury(c);
    } else if (c->dialled) {
        c->state = CONN_IDLE;
        htc__conn_set_timer(c, c->pause / 2 + htc_rng_below(&h->rng, c->pause / 2 + 1));
    } else {
        assert(h->incoming > 0);
        h->incoming--;
        bury(c);
        htc__output_flooded(h);
        htc__host_pump(h);
    }
    if (c->told) {
        c->told = 0;
        htc__conn_tell(c, HTC_IN_CLOSED, why, 0, (htc_bytes){ 0 });
    }
}

htc_status htc__conn_attach(htc__conn *c, int fd)
{
    htc_host          *h = c->host;
    struct event_base *base = h->base;
    assert(c->fd < 0 && !c->read && !c->write); /* the socket before is closed, its events freed */
    if (!h->stream_in && !(h->stream_in = htc__alloc(h->env, HTC_HOST_STREAM_IN)))
        return HTC_ENOMEM;
    c->read = event_new(base, fd, EV_READ | EV_PERSIST, on_read, c);
    c->write = event_new(base, fd, EV_WRITE | EV_PERSIST, on_write, c);
    if (!c->read || !c->write || event_add(c->read, NULL) != 0) {
        events_free(c);
        return HTC_ENOMEM;
    }
    c->reading = 1;
    c->fd = fd;
    return HTC_OK;
}

void htc__conn_credentials(int fd, htc_peer_info *info)
{
    struct ucred who;
    socklen_t    len = sizeof who;
    info->transport = HTC_TRANSPORT_UNIX;
    info->uid = UINT32_MAX;
    if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &who, &len) == 0) {
        info->uid = who.uid;
        info->pid = who.pid > 0 ? (uint32_t)who.pid : 0;
    }
}

static void conn_free(htc__conn *c)
{
    if (!c)
        return;
    events_free(c);
    if (c->timer)
        event_free(c->timer);
    if (c->fd >= 0)
        close(c->fd);
    htc_buf_free(&c->in);
    htc_buf_free(&c->waiting);
    htc__secure_free(c);
    htc__strfree(c->host->env, c->path);
    htc__free(c->host->env, c, sizeof *c);
}

void htc__conn_forget(htc__conn *c)
{
    remove_from_table(c);
    conn_free(c);
}

/* A connection with the next peer number, at the end of the table. A stream costs no more than it has to: there may be
 * tens of thousands. */
htc__conn *htc__conn_new(htc_host *h, int stream)
{
    if (h->peer_next == UINT32_MAX)
        return NULL;
    if (h->conns_count == h->conns_cap) {
        size_t      cap = h->conns_cap ? h->conns_cap * 2 : 16;
        htc__conn **grown = htc__resize(h->env, h->conns, h->conns_cap * sizeof *grown, cap * sizeof *grown);
        if (!grown)
            return NULL;
        h->conns = grown;
        h->conns_cap = cap;
    }
    htc__conn *c = htc__alloc(h->env, sizeof *c);
    if (!c)
        return NULL;
    c->host = h;
    c->fd = -1;
    c->stream = stream;
    htc_buf_init(&c->in, h->env, IN_MAX);
    /* What has left may lie in front of what waits, and is no more than that. */
    htc_buf_init(&c->waiting, h->env, stream ? h->options.output_bytes_max : 2 * h->options.output_bytes_max);
    if (!stream && !(c->timer = evtimer_new(h->base, on_timer, c))) {
        conn_free(c);
        return NULL;
    }
    c->peer = ++h->peer_next;
    assert(h->conns_count == 0 || h->conns[h->conns_count - 1]->peer < c->peer); /* they are found by halving */
    h->conns[h->conns_count++] = c;
    return c;
}

htc_status htc__conn_accept(htc_host *host, int fd, const htc_peer_info *info, int stranger, const char *token)
{
    htc__conn *c = htc__conn_new(host, 0);
    if (!c || htc__conn_attach(c, fd) != HTC_OK) {
        if (c)
            htc__conn_forget(c);
        close(fd);
        return HTC_ENOMEM;
    }
    c->info = *info;
    if (info->transport == HTC_TRANSPORT_UNIX)
        htc__conn_credentials(fd, &c->info);
    c->token = token;
    c->stranger = stranger;
    c->state = token ? CONN_TOKEN : CONN_OPEN;
    host->incoming++;
    htc__conn_set_timer(c, host->options.handshake_ns);
    if (!token)
        htc__conn_tell_opened(c);
    return HTC_OK;
}

htc_status htc__conn_dial(htc_host *host, const char *path, uint32_t port, uint32_t *peer)
{
    char      *copy = htc__strdup(host->env, path);
    htc__conn *c = copy ? htc__conn_new(host, 0) : NULL;
    if (!c) {
        htc__strfree(host->env, copy);
        return HTC_ENOMEM;
    }
    c->dialled = 1;
    c->path = copy;
    c->info.port = port;
    c->state = CONN_IDLE;
    c->pause = host->options.redial_ns;
    if (host->running)
        htc__conn_set_timer(c, 0);
    *peer = c->peer;
    return HTC_OK;
}

htc_status htc_host_dial_unix(htc_host *host, const char *path, uint32_t port, uint32_t *peer, htc_error *error)
{
    htc_status status = host && path && peer ? htc__conn_dial(host, path, port, peer) : HTC_EINVAL;
    return status == HTC_OK ? HTC_OK : htc__error(error, status, "cannot dial %s: %s", path ? path : "", htc_strerror(status));
}

htc_status htc_host_hang_up(htc_host *host, uint32_t peer)
{
    htc__conn *c = host ? htc__conn_find(host, peer) : NULL;
    if (!host)
        return HTC_EINVAL;
    if (!c || !c->dialled || c->state == CONN_DEAD)
        return HTC_ENOTFOUND;
    c->hung_up = 1;
    if (c->state == CONN_OPEN && c->secure) { /* what was said leaves, and the other end does not take it for a cut */
        (void)htc_channel_close(c->secure->channel);
        htc__conn_flush(c);
    }
    if (c->state == CONN_DEAD)
        return HTC_OK;
    if (c->state != CONN_IDLE) {
        htc__conn_drop(c, HTC_ECLOSED);
        return HTC_OK;
    }
    if (c->timer)
        event_del(c->timer);
    bury(c);
    return HTC_OK;
}

htc_status htc_host_tell_refused(htc_host *host, uint32_t peer, uint32_t op)
{
    htc__conn *c = host ? htc__conn_find(host, peer) : NULL;
    if (!host)
        return HTC_EINVAL;
    if (!c || !c->dialled || c->state == CONN_DEAD)
        return HTC_ENOTFOUND;
    c->refused_op = op;
    return HTC_OK;
}

/* Its address may be missing because somebody removed it: that says something only of one who was seen there. */
void htc__conn_tell_refused(htc__conn *c, int why)
{
    uint8_t number[4];
    if (!c->refused_op || c->refused_told || !(why == ECONNREFUSED || (why == ENOENT && c->was_open)))
        return;
    c->refused_told = 1;
    htc__le32_put(number, c->peer);
    htc__host_deliver(c->host, &(htc_input){ .size = sizeof(htc_input), .kind = HTC_IN_EVENT, .op = c->refused_op, .body = { number, sizeof number } });
}

static void dial(htc__conn *c)
{
    htc_host *h = c->host;
    int       fd = htc__unix_connect(c->path, SOCK_NONBLOCK), why = fd < 0 ? errno : 0;
    if (fd >= 0 && htc__conn_attach(c, fd) != HTC_OK) {
        close(fd);
        fd = -1;
    }
    if (fd < 0) {
        c->pause = longer(c);
        htc__conn_set_timer(c, c->pause / 2 + htc_rng_below(&h->rng, c->pause / 2 + 1));
        htc__conn_tell_refused(c, why);
        return;
    }
    c->was_open = 1;
    c->refused_told = 0;
    htc__conn_credentials(fd, &c->info);
    c->state = CONN_OPEN;
    htc__conn_tell_opened(c);
}

void htc__conn_start_dialling(htc_host *host)
{
    for (size_t i = 0; i < host->conns_count; i++)
        if (host->conns[i]->dialled && host->conns[i]->state == CONN_IDLE)
            htc__conn_set_timer(host->conns[i], 0);
}

static void on_timer(evutil_socket_t fd, short what, void *arg)
{
    htc__conn *c = arg;
    (void)fd, (void)what;
    if (c->state == CONN_IDLE && c->secure)
        htc__secure_dial(c);
    else if (c->state == CONN_IDLE)
        dial(c);
    else if (c->state == CONN_CONNECTING || c->state == CONN_SHAKE)
        htc__secure_late(c);
    else if (c->state == CONN_FLUSHING)
        htc__conn_drop(c, c->why);
    else if (!c->dialled && !c->stream && !c->welcomed)
        htc__conn_refuse(c, HTC_ETIMEDOUT, "no hello in time");
}

htc__conn *htc__conn_find(htc_host *host, uint32_t peer)
{
    htc__conn *c = host->recent[peer % HTC_HOST_RECENT];
    if (c && c->peer == peer)
        return c;
    size_t i = place_of(host, peer);
    if (i == host->conns_count || host->conns[i]->peer != peer)
        return NULL;
    return host->recent[peer % HTC_HOST_RECENT] = host->conns[i];
}

/* The token is compared in constant time; a stranger learns nothing but "denied". */
static void take_token(htc__conn *c, htc_bytes frame)
{
    if (frame.len != HTC_HOST_TOKEN_LEN || sodium_memcmp(frame.data, c->token, HTC_HOST_TOKEN_LEN) != 0) {
        htc__log_with(c->host->env, HTC_LOG_WARN, HTC__FIELDS(HTC__NUMBER("peer", c->peer), HTC__STATUS(HTC_EDENIED)),
                      "peer %u: wrong token over TCP -> close", c->peer);
        htc__conn_refuse(c, HTC_EDENIED, "the first frame has to be the token of the state directory");
        return;
    }
    c->state = CONN_OPEN;
    htc__conn_tell_opened(c);
}

/* How long the frame is that these bytes begin with, its header included. 0: they do not hold all of it; SIZE_MAX: it may not be so long. */
static size_t frame_look(const htc__conn *c, htc_bytes bytes)
{
    htc_reader r = htc_reader_of(bytes);
    if (bytes.len < HEADER)
        return 0;
    uint32_t len = htc_get_u32(&r), min = c->state == CONN_TOKEN ? 0 : FRAME_MIN;
    if (len < min || len > frame_max(c))
        return SIZE_MAX;
    return bytes.len - HEADER < len ? 0 : HEADER + (size_t)len;
}

/* The same; 0 also where the connection is at its end by it. */
static size_t frame_of(htc__conn *c, htc_bytes bytes)
{
    char   text[128];
    size_t len = frame_look(c, bytes);
    if (len != SIZE_MAX)
        return len;
    htc_reader r = htc_reader_of(bytes);
    evutil_snprintf(text, sizeof text, "a frame of %u bytes: %u to %u are allowed here", htc_get_u32(&r),
                    c->state == CONN_TOKEN ? 0 : FRAME_MIN, frame_max(c));
    htc__log(c->host->env, HTC_LOG_WARN, "peer %u: %s -> close", c->peer, text);
    htc__conn_refuse(c, HTC_EPROTO, text);
    return 0;
}

/* Those that these bytes begin with handed over together: how much of them was taken, 0 if each is wanted by itself. */
static size_t take_together(htc__conn *c, htc_bytes bytes)
{
    size_t at = 0, len;
    if (!c->host->frames || c->state != CONN_OPEN)
        return 0;
    while ((len = frame_look(c, (htc_bytes){ (const uint8_t *)bytes.data + at, bytes.len - at })) != 0 && len != SIZE_MAX)
        at += len;
    htc_input in = { .size = sizeof in, .kind = HTC_IN_FRAMES, .peer = c->peer, .body = { bytes.data, at } };
    return at ? htc__host_deliver_frames(c->host, &in) : 0;
}

/* The whole frames that these bytes begin with, as far as they are heard: so many bytes. The connection may be at its end then. */
static size_t take_frames(htc__conn *c, htc_bytes bytes)
{
    size_t at = 0, len;
    while (!c->host->stopped && is_heard(c)) {
        const uint8_t *frame = (const uint8_t *)bytes.data + at;
        if ((len = take_together(c, (htc_bytes){ frame, bytes.len - at })) != 0) {
            at += len;
            continue;
        }
        if ((len = frame_of(c, (htc_bytes){ frame, bytes.len - at })) == 0)
            break;
        at += len;
        if (c->state == CONN_TOKEN)
            take_token(c, (htc_bytes){ frame + HEADER, len - HEADER });
        else
            htc__conn_tell(c, HTC_IN_MESSAGE, HTC_OK, 0, (htc_bytes){ frame + HEADER, len - HEADER });
    }
    return at;
}

/* Those in c->in. */
static void take_kept(htc__conn *c)
{
    size_t n = take_frames(c, htc_buf_bytes(&c->in));
    if (c->in.len == 0) /* it is at its end, or there was nothing */
        return;
    htc_buf_consume(&c->in, n);
    if (c->in.len == 0 && c->in.cap > HTC_HOST_KEPT)
        htc_buf_free(&c->in);
}

/* As htc__secure_read; what came and could be taken at once was. */
static int read_in(htc__conn *c)
{
    htc_bytes bytes = { c->host->stream_in, 0 };
    ssize_t   n = recv(c->fd, c->host->stream_in, HTC_HOST_STREAM_IN, 0);
    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return c->state == CONN_FLUSHING ? -1 : 1;
    if (n <= 0) {
        htc__conn_drop(c, c->state == CONN_FLUSHING ? c->why : n == 0 || errno == ECONNRESET ? HTC_ECLOSED : HTC_EIO);
        return -1;
    }
    if (c->state == CONN_FLUSHING)
        return -1;
    bytes.len = (size_t)n;
    size_t taken = c->in.len == 0 ? take_frames(c, bytes) : 0;
    if (c->state != CONN_OPEN && c->state != CONN_TOKEN)
        return -1;
    htc_put_raw(&c->in, (htc_bytes){ c->host->stream_in + taken, bytes.len - taken });
    if (c->in.status == HTC_OK)
        return 1;
    htc__conn_drop(c, HTC_ENOMEM);
    return -1;
}

static void on_read(evutil_socket_t fd, short what, void *arg)
{
    htc__conn *c = arg;
    (void)fd, (void)what;
    /* What was not heard when it came goes first; only then there is room for more. */
    int how = is_heard(c) && frame_of(c, htc_buf_bytes(&c->in)) > 0 ? 1 : c->secure ? htc__secure_read(c) : read_in(c);
    if (how < 0)
        return;
    if (c->in.len > 0)
        take_kept(c);
    if (how == 0 && (c->state == CONN_OPEN || c->state == CONN_SHAKE))
        htc__conn_drop(c, HTC_ECLOSED);
    set_interest(c);
}

static void on_write(evutil_socket_t fd, short what, void *arg)
{
    htc__conn *c = arg;
    (void)fd, (void)what;
    if (c->state == CONN_CONNECTING)
        htc__secure_connected(c);
    else
        htc__conn_flush(c);
}

/* All is sent. Over TCP the other side has to close first: our close with unread input would throw away what it has not
 * read yet. The timer ends the waiting. */
static void finish(htc__conn *c)
{
    if (c->info.transport == HTC_TRANSPORT_UNIX || shutdown(c->fd, SHUT_WR) != 0) {
        htc__conn_drop(c, c->why);
        return;
    }
    htc__conn_wait_for(c, 1, 0);
}

/* As write: what is waiting, sealed. */
static ssize_t write_sealed(htc__conn *c)
{
    htc_bytes bytes;
    (void)htc_channel_output(c->secure->channel, &bytes); /* after a failure it lends what tells the peer why */
    ssize_t n = bytes.len ? send(c->fd, bytes.data, bytes.len, MSG_NOSIGNAL) : 0;
    if (n > 0)
        htc_channel_sent(c->secure->channel, (size_t)n);
    return n;
}

/* As write: what is waiting, as it is. */
static ssize_t write_plain(htc__conn *c)
{
    ssize_t n = send(c->fd, c->waiting.data + c->waiting_at, c->waiting.len - c->waiting_at, MSG_NOSIGNAL);
    c->waiting_at += n > 0 ? (size_t)n : 0;
    if (c->waiting_at < c->waiting.len)
        return n;
    c->waiting_at = 0;
    htc_buf_clear(&c->waiting);
    if (c->waiting.cap > HTC_HOST_KEPT)
        htc_buf_free(&c->waiting);
    return n;
}

void htc__conn_flush(htc__conn *c)
{
    if (c->fd < 0 || c->state == CONN_CONNECTING)
        return;
    while (waiting_of(c) > 0) {
        ssize_t n = c->secure ? write_sealed(c) : write_plain(c);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0 && errno == EAGAIN)
            break;
        if (n <= 0) {
            htc__conn_drop(c, c->state == CONN_FLUSHING ? c->why : HTC_ECLOSED);
            return;
        }
    }
    if (c->state == CONN_FLUSHING && waiting_of(c) == 0)
        finish(c);
    else
        set_interest(c);
}

/* Sealed when the turn ends. A channel that has failed meanwhile says so at its next reading. */
static htc_status send_sealed(htc__conn *c, htc_bytes header, htc_bytes message)
{
    htc_status status = header.len ? htc_channel_write(c->secure->channel, header) : HTC_OK;
    if (status == HTC_OK)
        status = htc_channel_write(c->secure->channel, message);
    return status == HTC_EFULL || status == HTC_ENOMEM ? status : HTC_OK;
}

static htc_status send_plain(htc__conn *c, htc_bytes header, htc_bytes message)
{
    if (c->waiting_at > 0 && c->waiting_at >= c->waiting.len / 2) {
        htc_buf_consume(&c->waiting, c->waiting_at);
        c->waiting_at = 0;
    }
    htc_put_raw(&c->waiting, header);
    htc_put_raw(&c->waiting, message);
    return c->waiting.status;
}

/* 0: there is no room for it, and the connection is at its end. */
static int send_bytes(htc__conn *c, htc_bytes header, htc_bytes bytes)
{
    htc_status status = HTC_EFULL;
    if (waiting_of(c) + header.len + bytes.len <= c->host->options.output_bytes_max)
        status = (c->secure ? send_sealed : send_plain)(c, header, bytes);
    if (status == HTC_OK) {
        htc__conn_spoken_to(c);
        return 1;
    }
    htc__log(c->host->env, HTC_LOG_WARN, "peer %u: %zu bytes wait for it and %zu more are to come -> close", c->peer,
             waiting_of(c), bytes.len);
    htc__conn_drop(c, HTC_EFULL);
    return 0;
}

void htc__conn_send(htc__conn *c, htc_bytes message)
{
    uint8_t  header[HEADER];
    uint32_t len = (uint32_t)message.len;
    if (c->stream || (c->state != CONN_OPEN && c->state != CONN_TOKEN))
        return;
    for (int i = 0; i < HEADER; i++)
        header[i] = (uint8_t)(len >> (8 * i));
    if (message.len > HTC_WIRE_MESSAGE_MAX) {
        htc__conn_drop(c, HTC_EFULL);
        return;
    }
    if (send_bytes(c, (htc_bytes){ header, HEADER }, message) && !c->dialled && !c->welcomed && message.len >= 2 &&
        ((const uint8_t *)message.data)[0] + (((const uint8_t *)message.data)[1] << 8) == HTC_WIRE_WELCOME) {
        c->welcomed = 1;
        event_del(c->timer);
    }
}

void htc__conn_send_frames(htc__conn *c, htc_bytes frames)
{
    if (!c->stream && c->state == CONN_OPEN)
        (void)send_bytes(c, (htc_bytes){ NULL, 0 }, frames);
}

void htc__conn_close(htc__conn *c, htc_status why)
{
    if (c->state != CONN_OPEN && c->state != CONN_TOKEN)
        return;
    if (c->stream) {
        htc__stream_close(c, why);
        return;
    }
    c->why = why;
    c->state = CONN_FLUSHING;
    htc__conn_set_timer(c, HTC_HOST_FLUSH_PATIENCE);
    if (c->secure)
        (void)htc_channel_close(c->secure->channel); /* without it the other end would call this a cut */
    htc__conn_flush(c);
}

void htc__conn_refuse(htc__conn *c, htc_status why, const char *text)
{
    htc_buf message;
    htc_buf_init(&message, c->host->env, 4096);
    htc_wire_error(&message, 0, why, text);
    if (message.status == HTC_OK)
        htc__conn_send(c, htc_buf_bytes(&message));
    htc_buf_free(&message);
    htc__conn_close(c, why);
}

void htc__conn_reap(htc_host *host)
{
    while (host->dead) {
        htc__conn *c = host->dead;
        host->dead = c->next_dead;
        assert(c->state == CONN_DEAD && c->fd < 0 && !c->dirty); /* no list and no event names it */
        conn_free(c);
    }
}

void htc__conns_flush_all(htc_host *host, htc_ns patience)
{
    htc_ns end = htc_host_now() + patience;
    for (htc__conn *c = htc__conn_after(host, 0); c; c = htc__conn_after(host, c->peer))
        if (c->secure && c->state == CONN_OPEN)
            (void)htc_channel_close(c->secure->channel);
    for (size_t i = 0; i < host->conns_count;) {
        htc__conn *c = host->conns[i];
        htc_ns     now = htc_host_now();
        size_t     waiting = waiting_of(c);
        if (c->fd < 0 || waiting == 0 || now >= end) {
            i++;
            continue;
        }
        struct pollfd p = { c->fd, POLLOUT, 0 };
        if (poll(&p, 1, (int)((end - now) / HTC_MS) + 1) <= 0)
            continue;
        if (c->stream)
            htc__stream_flush(c);
        else
            htc__conn_flush(c);
        if (i >= host->conns_count || host->conns[i] != c)
            continue; /* it closed */
    }
}

void htc__conns_free(htc_host *host)
{
    htc__conn_reap(host);
    for (size_t i = 0; i < host->conns_count; i++)
        conn_free(host->conns[i]);
    htc__free(host->env, host->conns, host->conns_cap * sizeof *host->conns);
    host->conns = NULL;
    host->conns_count = host->conns_cap = 0;
}
