/* Streams: connections whose bytes are the machine's own business. The hot path of the store's RESP listener: readiness
 * from libevent, then one read into a buffer that all share, and one write a turn. */
#include <assert.h>
#include <errno.h>
#include <sys/socket.h>
#include <unistd.h>

#include "net/loop/host_private.h"

static void on_read(evutil_socket_t fd, short what, void *arg);
static void on_write(evutil_socket_t fd, short what, void *arg);

size_t htc__stream_waiting(const htc__conn *c)
{
    return c->waiting.len - c->waiting_at + c->lent.len;
}

/* Read while it reads: not from who is held, has said all, or has more to read than it should. A closing one is read
 * once all was sent, for its end alone. */
static void set_interest(htc__conn *c)
{
    size_t waiting = htc__stream_waiting(c);
    htc__output_note(c, waiting);
    int    reading = c->state == CONN_FLUSHING ? waiting == 0
                                               : !c->held && !c->ended && waiting <= c->host->options.output_bytes_low;
    if (c->fd < 0)
        return;
    if (reading != c->reading && (reading ? event_add(c->read, NULL) : event_del(c->read)) == 0)
        c->reading = reading;
    if (waiting > 0 && !c->write)
        c->write = event_new(c->host->base, c->fd, EV_WRITE | EV_PERSIST, on_write, c);
    if (waiting > 0 && !c->write) {
        htc__conn_drop(c, HTC_ENOMEM);
        return;
    }
    if ((waiting > 0) != c->writing && (waiting > 0 ? event_add(c->write, NULL) : event_del(c->write)) == 0)
        c->writing = waiting > 0;
}

htc_status htc__stream_accept(htc_host *host, int fd, const htc_peer_info *info)
{
    if (!host->stream_in && !(host->stream_in = htc__alloc(host->env, HTC_HOST_STREAM_IN))) {
        close(fd);
        return HTC_ENOMEM;
    }
    htc__conn *c = htc__conn_new(host, 1);
    if (c)
        c->read = event_new(host->base, fd, EV_READ | EV_PERSIST, on_read, c);
    if (!c || !c->read || event_add(c->read, NULL) != 0) {
        if (c)
            htc__conn_forget(c);
        close(fd);
        return HTC_ENOMEM;
    }
    c->fd = fd;
    c->reading = 1;
    c->info = *info;
    if (info->transport == HTC_TRANSPORT_UNIX)
        htc__conn_credentials(fd, &c->info);
    c->state = CONN_OPEN;
    host->incoming++;
    htc__conn_tell_opened(c);
    return HTC_OK;
}

static void on_read(evutil_socket_t fd, short what, void *arg)
{
    htc__conn *c = arg;
    (void)what;
    ssize_t n = recv(fd, c->host->stream_in, HTC_HOST_STREAM_IN, 0);
    if (n < 0) {
        if (errno != EAGAIN && errno != EINTR)
            htc__conn_drop(c, c->state == CONN_FLUSHING ? c->why : errno == ECONNRESET ? HTC_ECLOSED : HTC_EIO);
        return;
    }
    if (c->state == CONN_FLUSHING) {
        if (n == 0)
            htc__conn_drop(c, c->why);
        return;
    }
    if (n == 0) {
        /* It may still read what it has asked for: the machine closes it then. */
        c->ended = 1;
        set_interest(c);
    }
    htc__conn_tell(c, HTC_IN_BYTES, HTC_OK, 0, (htc_bytes){ c->host->stream_in, (size_t)n });
}

static void on_write(evutil_socket_t fd, short what, void *arg)
{
    (void)fd, (void)what;
    htc__stream_flush(arg);
}

/* Copy what is lent behind what waits. */
static int keep(htc__conn *c)
{
    if (c->lent.len == 0)
        return 1;
    if (c->waiting_at > 0 && c->waiting_at >= c->waiting.len / 2) {
        htc_buf_consume(&c->waiting, c->waiting_at);
        c->waiting_at = 0;
    }
    htc_put_raw(&c->waiting, c->lent);
    c->lent = (htc_bytes){ NULL, 0 };
    if (c->waiting.status == HTC_OK)
        return 1;
    htc__log_with(c->host->env, HTC_LOG_WARN,
                  HTC__FIELDS(HTC__NUMBER("peer", c->peer), HTC__NUMBER("bytes", c->waiting.len - c->waiting_at)),
                  "peer %u: %zu bytes wait for it and more are to come -> close", c->peer,
                  c->waiting.len - c->waiting_at);
    htc__conn_drop(c, c->waiting.status);
    return 0;
}

/* -1: the connection is gone; else how much the socket took of these bytes. */
static ssize_t push(htc__conn *c, const uint8_t *bytes, size_t n)
{
    ssize_t sent;
    do
        sent = send(c->fd, bytes, n, MSG_NOSIGNAL);
    while (sent < 0 && errno == EINTR);
    if (sent >= 0)
        return sent;
    if (errno == EAGAIN)
        return 0;
    htc__conn_drop(c, c->state == CONN_FLUSHING ? c->why : HTC_ECLOSED);
    return -1;
}

/* All is sent. Over TCP the other side has to close first: our close with unread input would throw away what it has not
 * read yet. The timer ends the waiting. */
static void finish(htc__conn *c)
{
    if (c->ended || c->info.transport == HTC_TRANSPORT_UNIX || shutdown(c->fd, SHUT_WR) != 0)
        htc__conn_drop(c, c->why);
    else
        set_interest(c);
}

void htc__stream_flush(htc__conn *c)
{
    if (c->fd < 0)
        return;
    assert(c->lent.len == 0 || c->host->stepping); /* the output that it lies in is cleared by the next step */
    if (c->waiting.len > 0 && !keep(c))
        return;
    if (c->waiting.len > 0) {
        ssize_t n = push(c, c->waiting.data + c->waiting_at, c->waiting.len - c->waiting_at);
        if (n < 0)
            return;
        c->waiting_at += (size_t)n;
        if (c->waiting_at == c->waiting.len) {
            c->waiting_at = 0;
            htc_buf_free(&c->waiting);
            htc_buf_init(&c->waiting, c->host->env, c->host->options.output_bytes_max);
        }
    } else if (c->lent.len > 0) {
        ssize_t n = push(c, c->lent.data, c->lent.len);
        if (n < 0)
            return;
        c->lent = (htc_bytes){ (const uint8_t *)c->lent.data + n, c->lent.len - (size_t)n };
        if (!keep(c))
            return;
    }
    size_t waiting = htc__stream_waiting(c);
    if (waiting == 0 && c->sent_tag) {
        uint64_t tag = c->sent_tag;
        c->sent_tag = 0;
        htc__conn_tell(c, HTC_IN_SENT, HTC_OK, tag, (htc_bytes){ NULL, 0 });
    }
    if (waiting == 0 && c->state == CONN_FLUSHING)
        finish(c);
    else
        set_interest(c);
}

void htc__conn_spoken_to(htc__conn *c)
{
    assert(c->state != CONN_DEAD && c->state != CONN_IDLE);
    if (c->dirty)
        return;
    c->dirty = 1;
    c->next_dirty = NULL;
    *c->host->dirty_last = c;
    c->host->dirty_last = &c->next_dirty;
}

void htc__stream_send(htc__conn *c, htc_bytes bytes, uint64_t tag)
{
    if (!c->stream || c->state != CONN_OPEN)
        return;
    assert(c->host->stepping);
    if (tag)
        c->sent_tag = tag;
    if (c->lent.len && (const uint8_t *)c->lent.data + c->lent.len == (const uint8_t *)bytes.data) {
        c->lent.len += bytes.len;
    } else if (keep(c)) {
        c->lent = bytes;
        c->host->lent = 1;
    } else {
        return;
    }
    htc__conn_spoken_to(c);
}

void htc__stream_hold(htc__conn *c, int hold)
{
    if (!c->stream)
        return;
    c->held = hold;
    if (c->state == CONN_OPEN)
        set_interest(c);
}

void htc__stream_close(htc__conn *c, htc_status why)
{
    c->why = why;
    c->state = CONN_FLUSHING;
    htc__conn_set_timer(c, HTC_HOST_FLUSH_PATIENCE);
    htc__conn_spoken_to(c);
}

void htc__stream_gone(htc__conn *c)
{
    htc__conn **at = &c->host->dirty;
    while (c->dirty && *at != c)
        at = &(*at)->next_dirty;
    if (c->dirty && !(*at = c->next_dirty))
        c->host->dirty_last = at;
    c->dirty = 0;
    c->lent = (htc_bytes){ NULL, 0 };
    htc_buf_free(&c->waiting);
    c->waiting_at = 0;
}

void htc__streams_settle(htc_host *host, int now)
{
    host->lent = 0;
    if (now) {
        while (host->dirty) {
            htc__conn *c = host->dirty;
            if (!(host->dirty = c->next_dirty))
                host->dirty_last = &host->dirty;
            c->dirty = 0;
            if (c->stream)
                htc__stream_flush(c);
            else
                htc__conn_flush(c);
        }
        return;
    }
    for (htc__conn *c = host->dirty, *next; c; c = next) {
        next = c->next_dirty;
        (void)keep(c); /* the output it lies in is about to be cleared */
    }
}
