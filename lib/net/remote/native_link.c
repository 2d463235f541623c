/* The connections of a client: the one to the place that was named, which goes round several if there are several, and those to members that
 * the client calls. A lost one is dialled again. Who is called is never waited for: neither for a connection nor, after the first time, for a name. */
#include <errno.h>
#include <fcntl.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "core/util.h"
#include "core/wire.h"
#include "net/loop/host_private.h"
#include "net/remote/native.h"

#define READ_SIZE    ((size_t)64 << 10)
#define REDIAL       (50 * HTC_MS)
#define REDIAL_MAX   (2 * HTC_SECOND)
#define RECALL_MAX   (30 * HTC_SECOND)
#define HANDSHAKE    (5 * HTC_SECOND)
#define ADDRESS_ROOM 320

static int is_home(const htc__native_link *l)
{
    return l->number == HTC__NATIVE_HOME;
}

static void put_frame(htc__native_link *l, htc_bytes message)
{
    htc_put_u32(&l->out, (uint32_t)message.len);
    htc_put_raw(&l->out, message);
}

/* ---- what the client wants ---- */

static void drop(htc__native_link *l)
{
    if (l->fd >= 0)
        close(l->fd);
    l->fd = -1;
    l->connecting = l->open = 0;
    htc_buf_clear(&l->in);
    htc_buf_clear(&l->out);
    if (l->sealed)
        htc__sealed_end(l->sealed);
}

static void forget(htc__native_link *l)
{
    drop(l);
    htc__strfree(&l->native->env, l->place.path);
    htc__sealed_close(l->sealed);
    l->place.path = NULL;
    l->sealed = NULL;
    l->called = 0;
}

/* Whoever is behind a Unix socket is on this machine, as home is then; whoever is not shows a key, as home did. HTC_ENOTFOUND: none of these. */
static htc_status find_place(htc__native_link *l, const char *text)
{
    htc__native *c = l->native;
    if (strncmp(text, "unix:", 5) == 0 && text[5] == '/' && c->places[0].path)
        return (l->place.path = htc__strdup(&c->env, text + 5)) ? HTC_OK : HTC_ENOMEM;
    if (strncmp(text, "tcp://", 6) != 0 || !c->links[0].sealed || !c->ring_path)
        return HTC_ENOTFOUND;
    char        name[HTC__HOST_NAME_MAX];
    const char *rest = text + 6, *at = strchr(rest, '@');
    snprintf(name, sizeof name, "%.*s", at ? (int)(at - rest) : 0, rest);
    htc_store_options o = { .size = sizeof o,
                            .address = text,
                            .timeout_ns = HANDSHAKE,
                            .key_path = c->key_path,
                            .ring_path = c->ring_path,
                            .server = at ? name : NULL,
                            .role = c->role };
    if (!htc__address_split(at ? at + 1 : rest, l->place.host, &l->place.port) || l->place.port == 0)
        return HTC_ENOTFOUND;
    return htc__sealed_open(&c->env, &o, &l->sealed, NULL);
}

static void call(htc__native_link *l, htc_bytes address)
{
    char text[ADDRESS_ROOM];
    forget(l);
    snprintf(text, sizeof text, "%.*s", (int)address.len, (const char *)address.data);
    if (address.len >= sizeof text || find_place(l, text) != HTC_OK) {
        forget(l);
        return;
    }
    l->called = 1;
    l->redial = htc_host_now();
    l->pause = REDIAL;
}

void htc__native_carry_out(htc__native *c)
{
    htc_effect e;
    for (size_t i = 0; htc_output_get(c->effects, i, &e) == HTC_OK; i++) {
        uint32_t          at = (e.kind == HTC_OUT_CALL ? (uint32_t)e.tag : e.peer) - HTC__NATIVE_HOME;
        htc__native_link *l = &c->links[at <= HTC__NATIVE_MEMBERS ? at : 0];
        if (e.kind == HTC_OUT_MESSAGE && l->fd >= 0 && !l->connecting)
            put_frame(l, e.body);
        else if (e.kind == HTC_OUT_CALL && e.op == HTC_KV_CLIENT_DIAL && at > 0)
            call(l, e.body);
        else if (e.kind == HTC_OUT_CLOSE && at > 0)
            forget(l);
    }
    htc_output_clear(c->effects);
}

static htc_status step(htc__native_link *l, uint32_t kind, htc_bytes body)
{
    htc__native *c = l->native;
    htc_input    in = { .size = sizeof in, .now = htc_host_now(), .wall = htc_host_wall(), .kind = kind, .peer = l->number, .body = body
    };
    htc_status status = htc_kv_client_step(c->client, &in, c->effects);
    if (status != HTC_OK) {
        htc_output_clear(c->effects);
        return status;
    }
    htc__native_carry_out(c);
    return l->out.status;
}

/* ---- a connection ---- */

/* The next place is dialled at once, unless all had their turn. */
static void move_on(htc__native *c)
{
    htc__native_link *home = &c->links[0];
    c->at = (c->at + 1) % c->count;
    home->redial = htc_host_now();
    if (++c->misses % c->count != 0)
        return;
    home->redial += home->pause;
    home->pause = home->pause * 2 > REDIAL_MAX ? REDIAL_MAX : home->pause * 2;
}

static void put_off(htc__native_link *l)
{
    if (is_home(l)) {
        move_on(l->native);
        return;
    }
    l->redial = htc_host_now() + l->pause;
    l->pause = l->pause * 2 > RECALL_MAX ? RECALL_MAX : l->pause * 2;
}

htc_status htc__native_hang_up(htc__native_link *l)
{
    if (l->fd < 0)
        return HTC_OK;
    int told = !l->connecting && (!l->sealed || l->open);
    drop(l);
    put_off(l);
    return told ? step(l, HTC_IN_CLOSED, (htc_bytes){ NULL, 0 }) : HTC_OK;
}

/* The token is the first frame on TCP. 0, or -1 with errno. */
static int show_token(htc__native_link *l)
{
    const htc__native *c = l->native;
    char               token[HTC_HOST_TOKEN_LEN];
    int                fd = c->token_path ? open(c->token_path, O_RDONLY | O_CLOEXEC) : -1;
    ssize_t            n = fd >= 0 ? read(fd, token, sizeof token) : -1;
    int                why = errno;
    if (fd >= 0)
        close(fd);
    if (n != (ssize_t)sizeof token) {
        errno = c->token_path && n < 0 ? why : EACCES;
        return -1;
    }
    put_frame(l, (htc_bytes){ token, sizeof token });
    explicit_bzero(token, sizeof token);
    return 0;
}

static int connected_well(int fd)
{
    int       why = 0;
    socklen_t len = sizeof why;
    if (getsockopt(fd, SOL_SOCKET, SO_ERROR, &why, &len) != 0)
        why = errno;
    errno = why;
    return why == 0;
}

/* A host that is away would have connect wait for minutes. */
static int connected_in_time(int fd, htc_ns patience)
{
    struct pollfd p = { fd, POLLOUT, 0 };
    htc_ns        ms = patience / HTC_MS + 1;
    int           n;
    do
        n = poll(&p, 1, ms > 3600000 ? 3600000 : (int)ms);
    while (n < 0 && errno == EINTR);
    if (n == 0)
        errno = ETIMEDOUT;
    return n > 0 && connected_well(fd);
}

/* Without patience it may not be there yet (*connecting). */
static int connect_to(const struct sockaddr_storage *to, socklen_t len, htc_ns patience, int *connecting)
{
    int one = 1, fd = socket(to->ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0)
        return -1;
    *connecting = 0;
    int made = connect(fd, (const struct sockaddr *)to, len) == 0;
    if (!made && errno == EINPROGRESS) {
        *connecting = patience == 0;
        made = patience == 0 || connected_in_time(fd, patience);
    }
    if (!made) {
        int why = errno;
        close(fd);
        errno = why;
        return -1;
    }
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    htc__socket_watch(fd, HTC__SILENT_S, 1);
    return fd;
}

/* Whichever address of the host answers; they share the patience. */
static int connect_tcp(const htc__place *where, htc_ns patience, int *connecting)
{
    struct sockaddr_storage to;
    socklen_t               len = 0;
    int                     fd = -1;
    for (uint32_t nth = 0, count = 1; fd < 0 && nth < count; nth++) {
        if (htc__address_find(where->host, where->port, nth, &to, &len, &count)) {
            errno = EHOSTUNREACH;
            return -1;
        }
        fd = connect_to(&to, len, patience / count, connecting);
    }
    return fd;
}

/* 0: it may be used, or its handshake begins; -1 with errno. */
static int begin(htc__native_link *l, int token)
{
    int why = 0;
    fcntl(l->fd, F_SETFL, fcntl(l->fd, F_GETFL) | O_NONBLOCK);
    if (l->sealed)
        why = htc__sealed_begin(l->sealed) == HTC_OK ? 0 : EACCES;
    else if (token && show_token(l) != 0)
        why = errno;
    if (!why)
        return 0;
    drop(l);
    errno = why;
    return -1;
}

int htc__native_dial(htc__native *c)
{
    htc__native_link *home = &c->links[0];
    const htc__place *where = &c->places[c->at];
    int               connecting = 0;
    c->dials++;
    home->fd = where->path ? htc__unix_connect(where->path, 0) : connect_tcp(where, c->patience ? c->patience : HTC_MS, &connecting);
    return home->fd < 0 ? -1 : begin(home, !where->path);
}

/* Connected: the client may speak, once the other side is known. */
static htc_status greet(htc__native_link *l)
{
    return l->sealed ? HTC_OK : step(l, HTC_IN_OPENED, (htc_bytes){ NULL, 0 });
}

htc_status htc__native_greet(htc__native *c)
{
    return greet(&c->links[0]);
}

static htc_status begin_called(htc__native_link *l)
{
    if (begin(l, 0) == 0)
        return greet(l);
    put_off(l);
    return HTC_OK;
}

static htc_status dial_called(htc__native_link *l)
{
    struct sockaddr_storage to;
    socklen_t               len;
    uint32_t                count;
    l->native->dials++;
    if (l->place.path) {
        l->fd = htc__unix_connect(l->place.path, SOCK_NONBLOCK);
    } else if (htc__address_find(l->place.host, l->place.port, 0, &to, &len, &count)) {
        forget(l); /* to look for a name takes time: not again */
        return HTC_OK;
    } else {
        l->fd = connect_to(&to, len, 0, &l->connecting);
    }
    if (l->fd < 0) {
        put_off(l);
        return HTC_OK;
    }
    return l->connecting ? HTC_OK : begin_called(l);
}

static htc_status redial(htc__native_link *l)
{
    if (l->fd >= 0 || htc_host_now() < l->redial)
        return HTC_OK;
    if (!is_home(l))
        return l->called ? dial_called(l) : HTC_OK;
    if (htc__native_dial(l->native) == 0)
        return greet(l);
    move_on(l->native);
    return HTC_OK;
}

/* ---- bytes ---- */

/* What one turn has said is sealed together. */
static htc_status write_sealed(htc__native_link *l)
{
    if (l->open && htc__sealed_give(l->sealed, &l->out) == HTC_ENOMEM)
        return HTC_ENOMEM;
    for (htc_bytes b = htc__sealed_output(l->sealed); b.len > 0; b = htc__sealed_output(l->sealed)) {
        ssize_t n = send(l->fd, b.data, b.len, MSG_NOSIGNAL);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return errno == EAGAIN ? HTC_OK : htc__native_hang_up(l);
        htc__sealed_sent(l->sealed, (size_t)n);
        if (l->open && htc__sealed_give(l->sealed, &l->out) == HTC_ENOMEM)
            return HTC_ENOMEM;
    }
    return HTC_OK;
}

static htc_status write_out(htc__native_link *l)
{
    if (l->fd < 0 || l->connecting)
        return HTC_OK;
    if (l->sealed)
        return write_sealed(l);
    while (l->fd >= 0 && l->out.len > 0) {
        ssize_t n = send(l->fd, l->out.data, l->out.len, MSG_NOSIGNAL);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return errno == EAGAIN ? HTC_OK : htc__native_hang_up(l);
        htc_buf_consume(&l->out, (size_t)n);
    }
    return HTC_OK;
}

static void note_refusal(htc__native_link *l, htc_bytes message)
{
    uint16_t   type;
    uint64_t   id;
    htc_reader r = htc_wire_open(message, &type, &id);
    if (is_home(l) && r.status == HTC_OK && type == HTC_WIRE_ERROR)
        l->native->refused = (htc_status)(int32_t)htc_get_u32(&r);
}

static htc_status take_frames(htc__native_link *l)
{
    size_t     at = 0;
    htc_status status = HTC_OK;
    while (status == HTC_OK && l->fd >= 0 && l->in.len - at >= 4) {
        const uint8_t *p = l->in.data + at;
        size_t         len = p[0] | (size_t)p[1] << 8 | (size_t)p[2] << 16 | (size_t)p[3] << 24;
        if (len > HTC_WIRE_MESSAGE_MAX)
            return htc__native_hang_up(l); /* none of ours */
        if (l->in.len - at - 4 < len)
            break;
        note_refusal(l, (htc_bytes){ p + 4, len });
        status = step(l, HTC_IN_MESSAGE, (htc_bytes){ p + 4, len });
        at += 4 + len;
    }
    if (l->fd >= 0)
        htc_buf_consume(&l->in, at);
    return status;
}

/* What the channel makes of the bytes; the client hears of the connection when the other side is known. */
static htc_status take_sealed(htc__native_link *l, htc_bytes bytes)
{
    int        opened = 0;
    htc_status status = htc__sealed_take(l->sealed, bytes, &l->in, &opened);
    if (status == HTC_ENOMEM)
        return status;
    if (opened && !l->open) {
        l->open = 1;
        htc_status first = step(l, HTC_IN_OPENED, (htc_bytes){ NULL, 0 });
        if (first != HTC_OK)
            return first;
    }
    htc_status taken = take_frames(l);
    if (status == HTC_OK || taken != HTC_OK)
        return taken;
    if (l->fd >= 0)
        (void)write_sealed(l); /* it is told why, if that can be */
    if (status != HTC_ECLOSED && is_home(l))
        l->native->refused = status;
    return htc__native_hang_up(l);
}

static htc_status take_bytes(htc__native_link *l, size_t before, size_t n)
{
    uint8_t bytes[READ_SIZE];
    if (!l->sealed)
        return take_frames(l);
    memcpy(bytes, l->in.data + before, n);
    l->in.len = before;
    return take_sealed(l, (htc_bytes){ bytes, n });
}

static htc_status read_in(htc__native_link *l)
{
    for (int i = 0; i < 16 && l->fd >= 0; i++) {
        size_t   before = l->in.len;
        uint8_t *room = htc_buf_extend(&l->in, READ_SIZE);
        if (!room)
            return l->in.status == HTC_ENOMEM ? HTC_ENOMEM : htc__native_hang_up(l);
        ssize_t n = recv(l->fd, room, READ_SIZE, 0);
        l->in.len = before + (n > 0 ? (size_t)n : 0);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0 && errno == EAGAIN)
            return HTC_OK;
        htc_status status = n > 0 ? take_bytes(l, before, (size_t)n) : htc__native_hang_up(l);
        if (status != HTC_OK || (size_t)n < READ_SIZE)
            return status;
    }
    return HTC_OK;
}

/* ---- a turn ---- */

/* Is there something that the socket did not take? */
static int has_output(const htc__native_link *l)
{
    return l->connecting || (l->sealed ? htc__sealed_output(l->sealed).len > 0 : l->out.len > 0);
}

static htc_ns link_deadline(const htc__native_link *l)
{
    if (l->fd < 0)
        return is_home(l) || l->called ? l->redial : HTC_NEVER;
    return l->sealed && !l->connecting ? htc__sealed_deadline(l->sealed) : HTC_NEVER;
}

static short waits_for(const htc__native_link *l)
{
    return (short)((l->connecting ? 0 : POLLIN) | (has_output(l) ? POLLOUT : 0));
}

uint32_t htc__native_sockets(const htc__native *c, htc__poll_socket *sockets)
{
    _Static_assert(1 + HTC__NATIVE_MEMBERS <= HTC__POLL_SET_MAX, "each link has its place");
    _Static_assert((uint32_t)POLLIN == (uint32_t)EPOLLIN && (uint32_t)POLLOUT == (uint32_t)EPOLLOUT, "one set of bits");
    uint32_t n = 0;
    for (uint32_t i = 0; i <= HTC__NATIVE_MEMBERS; i++) {
        const htc__native_link *l = &c->links[i];
        if (l->fd >= 0)
            sockets[n++] = (htc__poll_socket){ l->fd, (uint32_t)waits_for(l) };
    }
    return n;
}

htc_ns htc__native_deadline(const htc__native *c)
{
    htc_ns until = htc_kv_client_deadline(c->client);
    for (uint32_t i = 0; i <= HTC__NATIVE_MEMBERS; i++) {
        htc_ns one = link_deadline(&c->links[i]);
        until = one < until ? one : until;
    }
    return until;
}

static htc_status connected(htc__native_link *l)
{
    l->connecting = 0;
    if (connected_well(l->fd))
        return begin_called(l);
    drop(l);
    put_off(l);
    return HTC_OK;
}

static htc_status take_events(htc__native_link *l, short events)
{
    htc_status status = HTC_OK;
    if (l->connecting)
        return events ? connected(l) : HTC_OK;
    if (events & (POLLIN | POLLERR | POLLHUP))
        status = read_in(l);
    if (status == HTC_OK && l->fd >= 0 && l->sealed && htc_host_now() >= htc__sealed_deadline(l->sealed))
        status = take_sealed(l, (htc_bytes){ NULL, 0 });
    return status;
}

static htc_status write_all(htc__native *c)
{
    htc_status status = HTC_OK;
    for (uint32_t i = 0; i <= HTC__NATIVE_MEMBERS && status == HTC_OK; i++)
        status = write_out(&c->links[i]);
    return status;
}

htc_status htc__native_turn(htc__native *c, htc_ns end)
{
    struct pollfd     p[1 + HTC__NATIVE_MEMBERS];
    htc__native_link *of[1 + HTC__NATIVE_MEMBERS];
    nfds_t            count = 0;
    htc_status        status = HTC_OK;
    for (uint32_t i = 0; i <= HTC__NATIVE_MEMBERS && status == HTC_OK; i++)
        status = redial(&c->links[i]);
    if (status == HTC_OK)
        status = write_all(c);
    if (status != HTC_OK)
        return status;
    htc_ns now = htc_host_now(), until = htc__native_deadline(c);
    for (uint32_t i = 0; i <= HTC__NATIVE_MEMBERS; i++) {
        htc__native_link *l = &c->links[i];
        if (l->fd < 0)
            continue;
        of[count] = l;
        p[count++] = (struct pollfd){ l->fd, waits_for(l), 0 };
    }
    until = end < until ? end : until;
    htc_ns          span = until <= now ? 0 : until - now > 3600 * HTC_SECOND ? 3600 * HTC_SECOND : until - now;
    struct timespec wait = { (time_t)(span / HTC_SECOND), (long)(span % HTC_SECOND) };
    int             n = ppoll(p, count, &wait, NULL);
    for (nfds_t i = 0; i < count && status == HTC_OK; i++) /* one may have been closed, or called elsewhere, by what another one said */
        if (of[i]->fd == p[i].fd)
            status = take_events(of[i], n > 0 ? p[i].revents : 0);
    if (status == HTC_OK && htc_host_now() >= htc_kv_client_deadline(c->client))
        status = step(&c->links[0], HTC_IN_TIMEOUT, (htc_bytes){ NULL, 0 });
    return status == HTC_OK ? write_all(c) : status;
}

void htc__native_answered(htc__native *c)
{
    c->links[0].pause = REDIAL;
    c->misses = 0;
    for (uint32_t i = 1; i <= HTC__NATIVE_MEMBERS; i++)
        if (c->links[i].fd >= 0 && !c->links[i].connecting)
            c->links[i].pause = REDIAL;
}

/* ---- life ---- */

void htc__native_init(htc__native *c)
{
    for (uint32_t i = 0; i <= HTC__NATIVE_MEMBERS; i++) {
        htc__native_link *l = &c->links[i];
        *l = (htc__native_link){ .native = c, .number = HTC__NATIVE_HOME + i, .fd = -1, .pause = REDIAL };
        htc_buf_init(&l->in, &c->env, 2 * (size_t)HTC_WIRE_MESSAGE_MAX);
        htc_buf_init(&l->out, &c->env, 0);
    }
}

void htc__native_end(htc__native *c)
{
    for (uint32_t i = 0; i <= HTC__NATIVE_MEMBERS; i++) {
        htc__native_link *l = &c->links[i];
        if (l->fd >= 0 && l->open) { /* or the other end takes this for a cut */
            htc_bytes last = htc__sealed_last(l->sealed);
            (void)!send(l->fd, last.data, last.len, MSG_NOSIGNAL);
        }
        forget(l);
        htc_buf_free(&l->in);
        htc_buf_free(&l->out);
    }
}
