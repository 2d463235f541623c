/* Members of ours behind sockets: the client machine in a small loop of its own. A lost connection is dialled again, at the next
 * member if there are several, and the client repeats what was not answered: the members of a store know a repetition, whoever of
 * them had the first. */
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "core/util.h"
#include "core/wire.h"
#include "net/address.h"
#include "net/host_private.h"
#include "net/stores/sealed.h"
#include "net/stores/stores.h"

#define PEER       1
#define READ_SIZE  ((size_t)64 << 10)
#define REDIAL     (50 * HTC_MS)
#define REDIAL_MAX (2 * HTC_SECOND)
#define PLACES_MAX 16

/* Where a member answers. */
typedef struct place {
    char    *path; /* Unix socket; NULL: TCP */
    char     host[HTC__HOST_NAME_MAX];
    uint16_t port;
} place;

typedef struct native {
    htc_env        env;
    htc_kv_client *client;
    htc_output    *effects;
    htc_buf        in, out; /* bytes of frames: not taken apart yet, not written yet */
    int            fd;      /* -1: no connection */
    htc_ns         redial, pause;
    htc_status     refused; /* what the other side said before it closed */
    char          *token_path;
    place          places[PLACES_MAX];
    uint32_t       count, at; /* of places; the one whose turn it is */
    uint32_t       misses;    /* connections that were lost or not made since the last answer */
    htc__sealed   *sealed;    /* TCP with keys; else NULL */
    int            open;      /* of that: the handshake is done */
    htc_ns         patience;
} native;

static htc_input input_of(uint32_t kind, htc_bytes body)
{
    return (htc_input){ .now = htc_host_now(), .wall = htc_host_wall(), .kind = kind, .peer = PEER, .body = body };
}

static void put_frame(native *c, htc_bytes message)
{
    htc_put_u32(&c->out, (uint32_t)message.len);
    htc_put_raw(&c->out, message);
}

static htc_status step(native *c, uint32_t kind, htc_bytes body)
{
    htc_input  in = input_of(kind, body);
    htc_effect e;
    htc_status status = htc_kv_client_step(c->client, &in, c->effects);
    for (size_t i = 0; status == HTC_OK && htc_output_get(c->effects, i, &e) == HTC_OK; i++) {
        if (e.kind == HTC_OUT_MESSAGE && c->fd >= 0)
            put_frame(c, e.body);
    }
    htc_output_clear(c->effects);
    return status == HTC_OK ? c->out.status : status;
}

/* ---- the connection ---- */

/* The next member is dialled at once, unless all had their turn. */
static void move_on(native *c)
{
    c->at = (c->at + 1) % c->count;
    c->redial = htc_host_now();
    if (++c->misses % c->count != 0)
        return;
    c->redial += c->pause;
    c->pause = c->pause * 2 > REDIAL_MAX ? REDIAL_MAX : c->pause * 2;
}

static htc_status hang_up(native *c)
{
    if (c->fd < 0)
        return HTC_OK;
    close(c->fd);
    c->fd = -1;
    htc_buf_clear(&c->in);
    htc_buf_clear(&c->out);
    move_on(c);
    int told = !c->sealed || c->open;
    c->open = 0;
    if (c->sealed)
        htc__sealed_end(c->sealed);
    return told ? step(c, HTC_IN_CLOSED, (htc_bytes){ NULL, 0 }) : HTC_OK;
}

/* The token is the first frame on TCP. 0, or -1 with errno. */
static int show_token(native *c)
{
    char    token[HTC_HOST_TOKEN_LEN];
    int     fd = c->token_path ? open(c->token_path, O_RDONLY | O_CLOEXEC) : -1;
    ssize_t n = fd >= 0 ? read(fd, token, sizeof token) : -1;
    int     why = errno;
    if (fd >= 0)
        close(fd);
    if (n != (ssize_t)sizeof token) {
        errno = c->token_path && n < 0 ? why : EACCES;
        return -1;
    }
    put_frame(c, (htc_bytes){ token, sizeof token });
    explicit_bzero(token, sizeof token);
    return 0;
}

/* A host that is away would have connect wait for minutes. */
static int connected_in_time(int fd, htc_ns patience)
{
    struct pollfd p = { fd, POLLOUT, 0 };
    int           why = 0;
    socklen_t     len = sizeof why;
    htc_ns        ms = patience / HTC_MS + 1;
    int           n;
    do
        n = poll(&p, 1, ms > 3600000 ? 3600000 : (int)ms);
    while (n < 0 && errno == EINTR);
    if (n <= 0 || getsockopt(fd, SOL_SOCKET, SO_ERROR, &why, &len) != 0)
        why = n == 0 ? ETIMEDOUT : errno;
    errno = why;
    return why == 0;
}

static int connect_to(const struct sockaddr_storage *to, socklen_t len, htc_ns patience)
{
    int one = 1, fd = socket(to->ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0)
        return -1;
    if (connect(fd, (const struct sockaddr *)to, len) != 0 &&
        (errno != EINPROGRESS || !connected_in_time(fd, patience))) {
        int why = errno;
        close(fd);
        errno = why;
        return -1;
    }
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    return fd;
}

/* Whichever address of the host answers; they share the patience. */
static int connect_tcp(const native *c, const place *where)
{
    struct sockaddr_storage to;
    socklen_t               len = 0;
    int                     fd = -1;
    for (uint32_t nth = 0, count = 1; fd < 0 && nth < count; nth++) {
        if (htc__address_find(where->host, where->port, nth, &to, &len, &count)) {
            errno = EHOSTUNREACH;
            return -1;
        }
        fd = connect_to(&to, len, c->patience / count);
    }
    return fd;
}

/* 0, or -1 with errno. */
static int dial(native *c)
{
    const place *where = &c->places[c->at];
    c->fd = where->path ? htc__unix_connect(where->path, 0) : connect_tcp(c, where);
    if (c->fd < 0)
        return -1;
    fcntl(c->fd, F_SETFL, fcntl(c->fd, F_GETFL) | O_NONBLOCK);
    int why = 0;
    if (c->sealed)
        why = htc__sealed_begin(c->sealed) == HTC_OK ? 0 : EACCES;
    else if (!where->path && show_token(c) != 0)
        why = errno;
    if (!why)
        return 0;
    close(c->fd);
    c->fd = -1;
    errno = why;
    return -1;
}

/* Connected: the client may speak, once the other side is known. */
static htc_status greet(native *c)
{
    return c->sealed ? HTC_OK : step(c, HTC_IN_OPENED, (htc_bytes){ NULL, 0 });
}

static htc_status redial(native *c)
{
    if (c->fd >= 0 || htc_host_now() < c->redial)
        return HTC_OK;
    if (dial(c) == 0)
        return greet(c);
    move_on(c);
    return HTC_OK;
}

/* ---- bytes ---- */

/* What one turn has said is sealed together. */
static htc_status write_sealed(native *c)
{
    if (c->open && htc__sealed_give(c->sealed, &c->out) == HTC_ENOMEM)
        return HTC_ENOMEM;
    for (htc_bytes b = htc__sealed_output(c->sealed); b.len > 0; b = htc__sealed_output(c->sealed)) {
        ssize_t n = send(c->fd, b.data, b.len, MSG_NOSIGNAL);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return errno == EAGAIN ? HTC_OK : hang_up(c);
        htc__sealed_sent(c->sealed, (size_t)n);
        if (c->open && htc__sealed_give(c->sealed, &c->out) == HTC_ENOMEM)
            return HTC_ENOMEM;
    }
    return HTC_OK;
}

static htc_status write_out(native *c)
{
    if (c->sealed)
        return c->fd >= 0 ? write_sealed(c) : HTC_OK;
    while (c->fd >= 0 && c->out.len > 0) {
        ssize_t n = send(c->fd, c->out.data, c->out.len, MSG_NOSIGNAL);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return errno == EAGAIN ? HTC_OK : hang_up(c);
        htc_buf_consume(&c->out, (size_t)n);
    }
    return HTC_OK;
}

static void note_refusal(native *c, htc_bytes message)
{
    uint16_t   type;
    uint64_t   id;
    htc_reader r = htc_wire_open(message, &type, &id);
    if (r.status == HTC_OK && type == HTC_WIRE_ERROR)
        c->refused = (htc_status)(int32_t)htc_get_u32(&r);
}

static htc_status take_frames(native *c)
{
    size_t     at = 0;
    htc_status status = HTC_OK;
    while (status == HTC_OK && c->fd >= 0 && c->in.len - at >= 4) {
        const uint8_t *p = c->in.data + at;
        size_t         len = p[0] | (size_t)p[1] << 8 | (size_t)p[2] << 16 | (size_t)p[3] << 24;
        if (len > HTC_WIRE_MESSAGE_MAX)
            return hang_up(c); /* none of ours */
        if (c->in.len - at - 4 < len)
            break;
        note_refusal(c, (htc_bytes){ p + 4, len });
        status = step(c, HTC_IN_MESSAGE, (htc_bytes){ p + 4, len });
        at += 4 + len;
    }
    if (c->fd >= 0)
        htc_buf_consume(&c->in, at);
    return status;
}

/* What the channel makes of the bytes; the client hears of the connection when the other side is known. */
static htc_status take_sealed(native *c, htc_bytes bytes)
{
    int        opened = 0;
    htc_status status = htc__sealed_take(c->sealed, bytes, &c->in, &opened);
    if (status == HTC_ENOMEM)
        return status;
    if (opened && !c->open) {
        c->open = 1;
        htc_status first = step(c, HTC_IN_OPENED, (htc_bytes){ NULL, 0 });
        if (first != HTC_OK)
            return first;
    }
    htc_status taken = take_frames(c);
    if (status == HTC_OK || taken != HTC_OK)
        return taken;
    if (c->fd >= 0)
        (void)write_sealed(c); /* it is told why, if that can be */
    if (status != HTC_ECLOSED)
        c->refused = status;
    return hang_up(c);
}

static htc_status take_bytes(native *c, size_t before, size_t n)
{
    uint8_t bytes[READ_SIZE];
    if (!c->sealed)
        return take_frames(c);
    memcpy(bytes, c->in.data + before, n);
    c->in.len = before;
    return take_sealed(c, (htc_bytes){ bytes, n });
}

static htc_status read_in(native *c)
{
    for (int i = 0; i < 16 && c->fd >= 0; i++) {
        size_t   before = c->in.len;
        uint8_t *room = htc_buf_extend(&c->in, READ_SIZE);
        if (!room)
            return c->in.status == HTC_ENOMEM ? HTC_ENOMEM : hang_up(c);
        ssize_t n = recv(c->fd, room, READ_SIZE, 0);
        c->in.len = before + (n > 0 ? (size_t)n : 0);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0 && errno == EAGAIN)
            return HTC_OK;
        htc_status status = n > 0 ? take_bytes(c, before, (size_t)n) : hang_up(c);
        if (status != HTC_OK || (size_t)n < READ_SIZE)
            return status;
    }
    return HTC_OK;
}

/* Is there something that the socket did not take? */
static int has_output(native *c)
{
    return c->sealed ? c->fd >= 0 && htc__sealed_output(c->sealed).len > 0 : c->out.len > 0;
}

/* One turn: until something can be read or written, or the moment has come. */
static htc_status turn(native *c, htc_ns end)
{
    htc_status status = redial(c);
    if (status == HTC_OK)
        status = write_out(c);
    if (status != HTC_OK)
        return status;
    htc_ns now = htc_host_now(), until = htc_kv_client_deadline(c->client);
    if (c->fd < 0 && c->redial < until)
        until = c->redial;
    if (c->fd >= 0 && c->sealed && htc__sealed_deadline(c->sealed) < until)
        until = htc__sealed_deadline(c->sealed);
    if (end < until)
        until = end;
    htc_ns          span = until <= now ? 0 : until - now > 3600 * HTC_SECOND ? 3600 * HTC_SECOND : until - now;
    struct pollfd   p = { c->fd, (short)(POLLIN | (has_output(c) ? POLLOUT : 0)), 0 };
    struct timespec wait = { (time_t)(span / HTC_SECOND), (long)(span % HTC_SECOND) };
    int             n = ppoll(&p, 1, &wait, NULL);
    if (n > 0 && p.revents & (POLLIN | POLLERR | POLLHUP))
        status = read_in(c);
    if (status == HTC_OK && c->fd >= 0 && c->sealed && htc_host_now() >= htc__sealed_deadline(c->sealed))
        status = take_sealed(c, (htc_bytes){ NULL, 0 });
    if (status == HTC_OK && htc_host_now() >= htc_kv_client_deadline(c->client))
        status = step(c, HTC_IN_TIMEOUT, (htc_bytes){ NULL, 0 });
    return status == HTC_OK ? write_out(c) : status;
}

/* ---- the kind ---- */

static void close_native(void *ctx)
{
    native *c = ctx;
    htc_env env = c->env;
    if (c->fd >= 0 && c->open) { /* or the other end takes this for a cut */
        htc_bytes last = htc__sealed_last(c->sealed);
        (void)!send(c->fd, last.data, last.len, MSG_NOSIGNAL);
    }
    if (c->fd >= 0)
        close(c->fd);
    htc_kv_client_destroy(c->client);
    htc_output_destroy(c->effects);
    htc_buf_free(&c->in);
    htc_buf_free(&c->out);
    htc__sealed_close(c->sealed);
    for (uint32_t i = 0; i < c->count; i++)
        htc__strfree(&env, c->places[i].path);
    htc__strfree(&env, c->token_path);
    htc__free(&env, c, sizeof *c);
}

static htc_status not_there(const native *c, const htc_store_options *options, int why, htc_error *error)
{
    const char *reason = c->sealed ? htc__sealed_reason(c->sealed) : "";
    htc_status  status = why == EACCES || why == EPERM ? HTC_EDENIED : HTC_EUNREACHABLE;
    htc__error(error, status, "%s: %s", options->address,
               *reason         ? reason
               : why == ENOENT ? "nobody listens there"
                               : strerror(why));
    if (error && status == HTC_EUNREACHABLE)
        snprintf(error->hint, sizeof error->hint, "is it running? htc up, or htc-kvd --dir DIR, starts one");
    return status;
}

static htc_status turned_away(const native *c, const htc_store_options *options, htc_error *error)
{
    const char *reason = c->sealed ? htc__sealed_reason(c->sealed) : "";
    htc__error(error, c->refused ? c->refused : HTC_ECLOSED, "%s: %s", options->address,
               *reason      ? reason
               : c->refused ? htc_strerror(c->refused)
                            : "it hangs up without a word");
    if (error && c->sealed && c->refused == HTC_EDENIED)
        snprintf(error->hint, sizeof error->hint, "%s",
                 options->once
                     ? "htc keys enrol prints a secret over there, good once and for its time"
                     : "each side's ring needs the other's key; htc keys show prints one's own, htc keys add pins it");
    return c->refused ? c->refused : HTC_ECLOSED;
}

static htc_status greeted_by(native *c, const htc_store_options *options, htc_error *error)
{
    htc_ns end = htc__store_end(c->patience);
    c->redial = htc_host_now();
    if (dial(c) != 0)
        return not_there(c, options, errno, error);
    htc_status status = greet(c);
    while (status == HTC_OK && !htc_kv_client_connected(c->client)) {
        /* Who has too many callers at the moment may have given a cookie for the next try. */
        if (c->fd < 0 && (c->refused != HTC_EBUSY || c->count > 1))
            return turned_away(c, options, error);
        if (htc_host_now() >= end)
            return c->fd < 0 ? turned_away(c, options, error)
                             : htc__error(error, HTC_ETIMEDOUT, "%s: does not answer in time", options->address);
        status = turn(c, end);
    }
    c->refused = HTC_OK;
    return status == HTC_OK ? HTC_OK : htc__error(error, status, "%s: %s", options->address, htc_strerror(status));
}

/* Whichever member answers first, in their order; they share the patience. */
static htc_status greeted(native *c, const htc_store_options *options, htc_error *error)
{
    htc_status status = HTC_EUNREACHABLE;
    for (uint32_t i = 0; i < c->count && status != HTC_OK && status != HTC_ENOMEM; i++) {
        if (hang_up(c) != HTC_OK)
            return htc__error(error, HTC_ENOMEM, "out of memory");
        c->at = i;
        c->refused = HTC_OK;
        status = greeted_by(c, options, error);
    }
    return status;
}

static htc_status prepare(native *c, const htc_store_options *options)
{
    htc_kv_client_options o = { .size = sizeof o, .peer = PEER, .timeout_ns = options->timeout_ns };
    htc_host_random(&o.client_id, sizeof o.client_id);
    htc_status status = htc_kv_client_create(&c->env, &o, &c->client);
    if (status == HTC_OK)
        status = htc_output_create(&c->env, 0, &c->effects);
    if (status == HTC_OK && options->token_path && !(c->token_path = htc__strdup(&c->env, options->token_path)))
        status = HTC_ENOMEM;
    return status;
}

/* Takes the place of c, also on failure; status: of what was done to it so far. */
static htc_status open_native(native *c, const htc_store_options *options, htc_status status, void **ctx,
                              htc_error *error)
{
    if (status == HTC_OK && (status = prepare(c, options)) != HTC_OK)
        htc__error(error, status, "out of memory");
    if (status == HTC_OK && !c->places[0].path && options->key_path)
        status = htc__sealed_open(&c->env, options, &c->sealed, error);
    if (status == HTC_OK)
        status = greeted(c, options, error);
    if (status != HTC_OK) {
        close_native(c);
        return status;
    }
    *ctx = c;
    return HTC_OK;
}

static native *new_native(const htc_env *env, htc_error *error)
{
    native *c = htc__alloc(env, sizeof *c);
    if (!c) {
        htc__error(error, HTC_ENOMEM, "out of memory");
        return NULL;
    }
    c->env = *env;
    c->fd = -1;
    c->pause = REDIAL;
    htc_buf_init(&c->in, env, 2 * (size_t)HTC_WIRE_MESSAGE_MAX);
    htc_buf_init(&c->out, env, 0);
    return c;
}

/* One address of several: up to the next, which begins behind a comma with the scheme again (a path may have commas of its own). */
static size_t one_of(const char *list, const char *between)
{
    const char *next = strstr(list, between);
    return next ? (size_t)(next - list) : strlen(list);
}

static htc_status open_unix(const htc_env *env, const htc_store_options *options, const char *rest, void **ctx,
                            htc_error *error)
{
    static const char between[] = ",unix:";
    native           *c = new_native(env, error);
    htc_status        status = HTC_OK;
    if (!c)
        return HTC_ENOMEM;
    for (int more = 1; more && status == HTC_OK;) {
        size_t len = one_of(rest, between);
        char  *path = c->count < PLACES_MAX ? htc__alloc(env, len + 1) : NULL;
        if (!path) {
            status = c->count < PLACES_MAX ? HTC_ENOMEM : HTC_EINVAL;
            htc__error(error, status, "%s: %s", options->address, htc_strerror(status));
            break;
        }
        memcpy(path, rest, len);
        c->places[c->count++].path = path;
        more = rest[len] != 0;
        rest += len + (more ? sizeof between - 1 : 0);
    }
    c->patience = c->count ? options->timeout_ns / c->count : 0;
    return open_native(c, options, status, ctx, error);
}

static htc_status tcp_place(const htc_store_options *options, const char *text, place *p, htc_error *error)
{
    struct sockaddr_storage where;
    socklen_t               len;
    if (!htc__address_split(text, p->host, &p->port) || p->port == 0)
        return htc__error(error, HTC_EINVAL, "%s: tcp://HOST:PORT is expected, or tcp://HOST:PORT,HOST:PORT",
                          options->address);
    if (strcmp(p->host, "localhost") == 0)
        snprintf(p->host, sizeof p->host, "127.0.0.1");
    if (!options->key_path && !(htc__address_ip(p->host, p->port, &where, &len) && htc__address_is_loopback(&where))) {
        htc__error(error, HTC_EDENIED, "%s: another machine is reached with keys alone", options->address);
        if (error)
            snprintf(error->hint, sizeof error->hint, "htc keys new makes one; then --key FILE and --ring FILE");
        return HTC_EDENIED;
    }
    return HTC_OK;
}

static htc_status open_tcp(const htc_env *env, const htc_store_options *options, const char *rest, void **ctx,
                           htc_error *error)
{
    char       one[HTC__HOST_NAME_MAX + 8];
    native    *c = new_native(env, error);
    htc_status status = HTC_OK;
    if (!c)
        return HTC_ENOMEM;
    for (int more = 1; more && status == HTC_OK;) {
        size_t len = strcspn(rest, ",");
        if (len >= sizeof one || c->count == PLACES_MAX) {
            status =
                htc__error(error, HTC_EINVAL, "%s: too long, or more than %d members", options->address, PLACES_MAX);
            break;
        }
        snprintf(one, sizeof one, "%.*s", (int)len, rest);
        status = tcp_place(options, one, &c->places[c->count++], error);
        more = rest[len] != 0;
        rest += len + (size_t)more;
    }
    c->patience = c->count ? options->timeout_ns / c->count : 0;
    return open_native(c, options, status, ctx, error);
}

/* An output belongs to a step: what was submitted leaves at once. What does not fit into the buffer is as lost as on a broken
 * line: the client sends it again. */
static void leave(native *c)
{
    htc_effect e;
    for (size_t i = 0; htc_output_get(c->effects, i, &e) == HTC_OK; i++) {
        if (e.kind == HTC_OUT_MESSAGE && c->fd >= 0)
            put_frame(c, e.body);
    }
    htc_output_clear(c->effects);
}

static htc_status submit(void *ctx, const htc_kv_request *requests, size_t n, uint64_t tag)
{
    native    *c = ctx;
    htc_status status = htc_kv_client_submit(c->client, htc_host_now(), requests, n, tag, c->effects);
    leave(c);
    return status;
}

static htc_status watch(void *ctx, const htc_kv_watch *w)
{
    native    *c = ctx;
    htc_status status = htc_kv_client_watch(c->client, htc_host_now(), w, c->effects);
    leave(c);
    return status;
}

static htc_status unwatch(void *ctx, uint64_t tag)
{
    native    *c = ctx;
    htc_status status = htc_kv_client_unwatch(c->client, htc_host_now(), tag, c->effects);
    leave(c);
    return status;
}

/* Turns until there is a result, or else an event. */
static htc_status until_told(native *c, htc_ns end, htc_kv_result *result, htc_kv_event *event)
{
    htc_status status = HTC_OK;
    for (int first = 1; status == HTC_OK; first = 0) {
        if (c->out.status != HTC_OK)
            status = hang_up(c);
        if (result ? htc_kv_client_next(c->client, result) : htc_kv_client_event(c->client, event)) {
            c->pause = REDIAL;
            c->misses = 0;
            return status;
        }
        if (!first && htc_host_now() >= end)
            return HTC_ETIMEDOUT;
        if (status == HTC_OK)
            status = turn(c, end);
    }
    return status;
}

static htc_status next(void *ctx, htc_ns end, htc_kv_result *result)
{
    return until_told(ctx, end, result, NULL);
}

static htc_status next_event(void *ctx, htc_ns end, htc_kv_event *event)
{
    return until_told(ctx, end, NULL, event);
}

#define EVERYTHING                                                                                                     \
    (HTC_STORE_LINEARIZABLE | HTC_STORE_SAFE_RETRIES | HTC_STORE_LEASES | HTC_STORE_ORDERED_SCAN |                     \
     HTC_STORE_FINE_LEASES | HTC_STORE_LARGE_VALUES | HTC_STORE_WATCHES)

const htc__store_kind htc__store_unix = { "unix:", EVERYTHING, open_unix, submit, next, close_native, watch, unwatch, next_event };
const htc__store_kind htc__store_tcp = { "tcp://", EVERYTHING, open_tcp, submit, next, close_native, watch, unwatch, next_event };
