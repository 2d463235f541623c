/* Listeners: who may come in, and what happens when there is no descriptor left for them. */
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sodium.h>
#include <stddef.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "net/loop/admit.h"
#include "net/loop/keys_private.h"
#include "net/loop/secure.h"

#define ACCEPT_AT_ONCE 32
#define STREAM_BACKLOG 1024 /* a thousand clients may begin at once; who finds it full waits a second */
/* What to do about an address beyond this machine. A stream has no frames, and so no secure channel. */
#define KEYLESS "without keys anybody could come in; make some (htc keys new) and listen with them, or listen on 127.0.0.1"
#define BARE "what goes over it is not encrypted; listen on 127.0.0.1 or unix:PATH, and let others in by a tunnel of your own"
#define PAUSE (100 * HTC_MS) /* of a listener, when accepting failed for want of descriptors or memory */

struct htc__listener {
    htc_host      *host;
    int            fd;
    uint32_t       port;
    char          *path; /* Unix: removed at the end if it is still ours */
    dev_t          dev;
    ino_t          ino;
    char           token[HTC_HOST_TOKEN_LEN + 1]; /* TCP, framed */
    int            stream;
    htc_host_keys *keys; /* through secure channels */
    uint32_t       accept;
    char          *refusal; /* of a stream: said to whom there is no room for */
    htc__visit_fn  visit;   /* who comes is none of the machine's business */
    void          *visit_ctx;
    struct event  *event, *again;
    htc__listener *next;
};

static void listener_free(htc__listener *l)
{
    struct stat st;
    if (l->event)
        event_free(l->event);
    if (l->again)
        event_free(l->again);
    if (l->path && l->ino && lstat(l->path, &st) == 0 && st.st_dev == l->dev && st.st_ino == l->ino)
        unlink(l->path);
    if (l->fd >= 0)
        close(l->fd);
    htc__strfree(l->host->env, l->path);
    htc__strfree(l->host->env, l->refusal);
    sodium_memzero(l->token, sizeof l->token);
    htc__free(l->host->env, l, sizeof *l);
}

static void refuse_stream(int fd, const char *text)
{
    if (text && send(fd, text, strlen(text), MSG_DONTWAIT | MSG_NOSIGNAL) < 0) {
        /* It will see the end anyway. */
    }
    close(fd);
}

/* Somebody waits in the backlog and there is no descriptor for them: without accepting, the loop would spin on them. The
 * spare one is given up for a moment, so that they see the end at once. */
static void turn_away(htc__listener *l)
{
    htc_host      *h = l->host;
    struct timeval pause = htc__timeval(PAUSE);
    htc__log(h->env, HTC_LOG_WARN, "no descriptor left for a connection -> turn it away");
    if (h->spare_fd >= 0) {
        close(h->spare_fd);
        int fd = accept4(l->fd, NULL, NULL, SOCK_CLOEXEC);
        if (fd >= 0)
            refuse_stream(fd, l->refusal);
        h->spare_fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
    }
    event_del(l->event);
    event_add(l->again, &pause);
}

static void refuse_busy(int fd)
{
    htc_buf message, frame;
    htc_buf_init(&message, NULL, 4096);
    htc_buf_init(&frame, NULL, 4096);
    htc_wire_error(&message, 0, HTC_EBUSY, "too many connections");
    htc_put_u32(&frame, (uint32_t)message.len);
    htc_put_raw(&frame, htc_buf_bytes(&message));
    if (frame.status == HTC_OK && send(fd, frame.data, frame.len, MSG_DONTWAIT | MSG_NOSIGNAL) < 0) {
        /* It will see the end anyway. */
    }
    htc_buf_free(&message);
    htc_buf_free(&frame);
    close(fd);
}

void htc__no_room(int fd, int stream, const char *text)
{
    if (stream)
        refuse_stream(fd, text);
    else
        refuse_busy(fd);
}

static void on_accept(evutil_socket_t listen_fd, short what, void *arg)
{
    htc__listener *l = arg;
    htc_host      *h = l->host;
    (void)what;
    for (int i = 0; i < ACCEPT_AT_ONCE && !h->stopped; i++) {
        int fd = accept4(listen_fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
        if (fd < 0 && (errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM)) {
            turn_away(l);
            return;
        }
        if (fd < 0 && (errno == EINTR || errno == ECONNABORTED))
            continue;
        if (fd < 0)
            return;
        if (l->visit) {
            l->visit(l->visit_ctx, fd);
            continue;
        }
        htc_peer_info info = { .transport = HTC_TRANSPORT_UNIX, .uid = UINT32_MAX, .port = l->port };
        if (!l->path) {
            int one = 1;
            info.transport = l->stream ? HTC_TRANSPORT_STREAM : HTC_TRANSPORT_TCP;
            setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
            htc__socket_watch(fd, HTC__SILENT_S, !l->stream); /* a browser may pause a download */
        }
        if (h->dealt_count && !l->keys && (l->stream || l->path)) {
            htc__accept_balancer(h, fd, &info, l->stream, l->refusal);
            continue;
        }
        int stranger = 0;
        if (!l->stream && !l->keys) {
            if (l->path)
                htc__conn_credentials(fd, &info);
            if (!htc__host_admits(h, &info, &stranger)) {
                htc__no_room(fd, 0, NULL);
                continue;
            }
        } else if (h->incoming >= h->options.connections_max && !(l->keys && htc__secure_crowd_out(l->keys))) {
            htc__log(h->env, HTC_LOG_WARN, "%u connections are open -> refuse one more", h->incoming);
            htc__no_room(fd, l->stream || l->keys, l->refusal);
            continue;
        }
        htc_status status = l->stream ? htc__stream_accept(h, fd, &info)
                            : l->keys ? htc__secure_accept(l->keys, fd, &info, l->accept)
                                      : htc__conn_accept(h, fd, &info, stranger, l->path ? NULL : l->token);
        if (status != HTC_OK)
            htc__log(h->env, HTC_LOG_WARN, "a connection: %s -> turn it away", htc_strerror(status));
    }
}

static void on_again(evutil_socket_t fd, short what, void *arg)
{
    htc__listener *l = arg;
    (void)fd, (void)what;
    if (!l->host->closed_doors || l->visit)
        event_add(l->event, NULL);
}

void htc_host_accept(htc_host *host, uint32_t yes)
{
    host->closed_doors = !yes;
    for (htc__listener *l = host->listeners; l; l = l->next)
        if (yes || l->visit)
            event_add(l->event, NULL);
        else
            event_del(l->event);
    if (yes)
        htc__accept_balancer_doors_open(host);
}

static htc_status listener_add(htc_host *host, htc__listener *l)
{
    l->event = event_new(host->base, l->fd, EV_READ | EV_PERSIST, on_accept, l);
    l->again = evtimer_new(host->base, on_again, l);
    if (!l->event || !l->again || ((!host->closed_doors || l->visit) && event_add(l->event, NULL) != 0)) {
        listener_free(l);
        return HTC_ENOMEM;
    }
    l->next = host->listeners;
    host->listeners = l;
    return HTC_OK;
}

static htc__listener *listener_new(htc_host *host, uint32_t port)
{
    htc__listener *l = htc__alloc(host->env, sizeof *l);
    if (l) {
        l->host = host;
        l->fd = -1;
        l->port = port;
    }
    return l;
}

/* On failure the listener is gone. */
static htc_status bind_unix(htc__listener *l, const char *path, uint32_t mode, htc_error *error)
{
    struct stat st;
    int         in_use = 0;
    if (!(l->path = htc__strdup(l->host->env, path))) {
        listener_free(l);
        return htc__error(error, HTC_ENOMEM, "out of memory");
    }
    l->fd = htc__unix_listen(path, mode ? mode : 0600, &in_use);
    if (l->fd < 0) {
        int why = errno;
        listener_free(l);
        if (in_use)
            return htc__error(error, HTC_ELOCKED, "another process listens on %s", path);
        return htc__error(error, HTC_EIO, "cannot listen on %s: %s", path, strerror(why));
    }
    if (lstat(path, &st) == 0) {
        l->dev = st.st_dev;
        l->ino = st.st_ino;
    }
    return HTC_OK;
}

htc_status htc_host_listen_unix(htc_host *host, const char *path, uint32_t mode, uint32_t port, htc_error *error)
{
    if (!host || !path || !*path || (mode & ~0777u))
        return htc__error(error, HTC_EINVAL, "a socket needs a path and a mode of permission bits");
    htc__listener *l = listener_new(host, port);
    if (!l)
        return htc__error(error, HTC_ENOMEM, "out of memory");
    htc_status status = bind_unix(l, path, mode, error);
    return status == HTC_OK ? listener_add(host, l) : status;
}

static int read_token(const char *path, char token[HTC_HOST_TOKEN_LEN + 1])
{
    struct stat st;
    char        more;
    int         fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    if (fd < 0)
        return -1;
    ssize_t n = -1;
    if (fstat(fd, &st) == 0 && S_ISREG(st.st_mode) && (st.st_mode & 077) == 0)
        n = read(fd, token, HTC_HOST_TOKEN_LEN);
    if (n == HTC_HOST_TOKEN_LEN && read(fd, &more, 1) == 1 && more != '\n')
        n = -1;
    close(fd);
    token[HTC_HOST_TOKEN_LEN] = 0;
    if (n != HTC_HOST_TOKEN_LEN || strspn(token, "0123456789abcdef") != HTC_HOST_TOKEN_LEN) {
        errno = EPERM;
        return -1;
    }
    return 0;
}

/* Made once, 0600, complete or not at all, and read by everybody who is meant to come in. */
htc_status htc__token_file(const char *path, char token[HTC_HOST_TOKEN_LEN + 1], htc_error *error)
{
    uint8_t secret[HTC_HOST_TOKEN_LEN / 2];
    char    line[HTC_HOST_TOKEN_LEN + 1];
    if (read_token(path, token) == 0)
        return HTC_OK;
    randombytes_buf(secret, sizeof secret);
    sodium_bin2hex(line, sizeof line, secret, sizeof secret);
    htc_status status = htc__keys_put(path, 1, 0600, line, sizeof line - 1, error);
    sodium_memzero(secret, sizeof secret);
    sodium_memzero(line, sizeof line);
    /* There already: somebody made it just now, or it is not what it should be. */
    if (status != HTC_OK && status != HTC_EEXISTS)
        return status;
    if (read_token(path, token) == 0)
        return HTC_OK;
    return htc__error(error, HTC_EDENIED, "%s is not a token of 64 hex digits that only its owner can read", path);
}

int htc__is_loopback(const char *address)
{
    struct sockaddr_storage where;
    socklen_t               len;
    return htc__address_ip(address, 0, &where, &len) && htc__address_is_loopback(&where);
}

/* HTC_OK and the address, if it is one that a machine may listen on without keys. next: what to do if it is not. */
static htc_status local_address(const char *address, uint16_t tcp_port, struct sockaddr_storage *where, socklen_t *len,
                                const char *next, htc_error *error)
{
    if (!htc__address_ip(address, tcp_port, where, len)) {
        htc__error(error, HTC_EINVAL, "%s is not an IP address", address);
        if (error && strcmp(address, "localhost") == 0) /* a name may be several addresses, and one is listened on */
            snprintf(error->hint, sizeof error->hint, "take 127.0.0.1");
        return HTC_EINVAL;
    }
    if (htc__address_is_loopback(where))
        return HTC_OK;
    htc__error(error, HTC_EDENIED, "%s port %u is beyond loopback: %s", address, (unsigned)tcp_port, next);
    return HTC_EDENIED;
}

/* On failure the listener is gone. */
static htc_status bind_tcp(htc__listener *l, struct sockaddr_storage *where, socklen_t len, int backlog, const char *name,
                           uint16_t *bound, htc_error *error)
{
    int one = 1;
    l->fd = socket(where->ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (l->fd < 0 || setsockopt(l->fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one) != 0 ||
        bind(l->fd, (const struct sockaddr *)where, len) != 0 || listen(l->fd, backlog) != 0 ||
        getsockname(l->fd, (struct sockaddr *)where, &len) != 0) {
        int why = errno;
        listener_free(l);
        return htc__error(error, why == EADDRINUSE ? HTC_ELOCKED : HTC_EIO, "cannot listen on %s: %s", name, strerror(why));
    }
    if (bound)
        *bound = ntohs(where->ss_family == AF_INET ? ((const struct sockaddr_in *)where)->sin_port
                                                   : ((const struct sockaddr_in6 *)where)->sin6_port);
    return HTC_OK;
}

htc_status htc_host_listen_tcp(htc_host *host, const char *address, uint16_t tcp_port, const char *token_path,
                               uint32_t port, uint16_t *bound, htc_error *error)
{
    struct sockaddr_storage where;
    socklen_t               len = 0;
    char                    name[80];
    if (!host || !address || !token_path)
        return htc__error(error, HTC_EINVAL, "an address and a token file are needed");
    htc_status status = local_address(address, tcp_port, &where, &len, KEYLESS, error);
    if (status != HTC_OK)
        return status;
    htc__listener *l = listener_new(host, port);
    if (!l)
        return htc__error(error, HTC_ENOMEM, "out of memory");
    status = htc__token_file(token_path, l->token, error);
    if (status != HTC_OK) {
        listener_free(l);
        return status;
    }
    evutil_snprintf(name, sizeof name, "%s port %u", address, (unsigned)tcp_port);
    status = bind_tcp(l, &where, len, 128, name, bound, error);
    return status == HTC_OK ? listener_add(host, l) : status;
}

htc_status htc__listen_secure(htc_host_keys *keys, const char *address, uint32_t port, uint32_t accept, uint16_t *bound,
                              htc_error *error)
{
    struct sockaddr_storage where;
    socklen_t               len = 0;
    char                    node[HTC__HOST_NAME_MAX];
    uint16_t                tcp_port = 0;
    if (!htc__address_split(address, node, &tcp_port) || !htc__address_ip(node, tcp_port, &where, &len))
        return htc__error(error, HTC_EINVAL, "\"%s\" is none of 0.0.0.0:PORT, [::]:PORT and the like", address);
    htc__listener *l = listener_new(keys->host, port);
    if (!l)
        return htc__error(error, HTC_ENOMEM, "out of memory");
    l->keys = keys;
    l->accept = accept;
    htc_status status = bind_tcp(l, &where, len, STREAM_BACKLOG, address, bound, error);
    return status == HTC_OK ? listener_add(keys->host, l) : status;
}

/* Streams and visitors: both without frames. On failure the listener is gone. */
static htc_status listen_plain(htc__listener *l, const char *address, uint32_t mode, uint16_t *bound, htc_error *error)
{
    struct sockaddr_storage where;
    socklen_t               len = 0;
    char                    node[HTC__HOST_NAME_MAX];
    uint16_t                tcp_port = 0;
    htc_host               *host = l->host;
    htc_status              status = HTC_OK;
    int                     by_path = strncmp(address, "unix:", 5) == 0 && address[5];
    if ((!by_path && !htc__address_split(address, node, &tcp_port)) || (mode & ~0777u))
        status = htc__error(error, HTC_EINVAL, "\"%s\" is none of 127.0.0.1:PORT, [::1]:PORT and unix:PATH", address);
    else if (!by_path)
        status = local_address(node, tcp_port, &where, &len, BARE, error);
    if (status != HTC_OK) {
        listener_free(l);
        return status;
    }
    status = by_path ? bind_unix(l, address + 5, mode, error)
                     : bind_tcp(l, &where, len, STREAM_BACKLOG, address, bound, error);
    return status == HTC_OK ? listener_add(host, l) : status;
}

htc_status htc_host_listen_stream(htc_host *host, const htc_host_stream_options *options, uint16_t *bound, htc_error *error)
{
    htc_host_stream_options o = { 0 };
    if (!host || !options || !options->address)
        return htc__error(error, HTC_EINVAL, "an address is needed");
    htc_status status =
        htc__options_copy(&o, sizeof o, options, options->size, offsetof(htc_host_stream_options, mode));
    if (status != HTC_OK)
        return htc__error(error, status, "options of a stream listener: %s", htc_strerror(status));
    htc__listener *l = listener_new(host, o.port);
    if (!l || (o.refusal && !(l->refusal = htc__strdup(host->env, o.refusal)))) {
        if (l)
            listener_free(l);
        return htc__error(error, HTC_ENOMEM, "out of memory");
    }
    l->stream = 1;
    return listen_plain(l, o.address, o.mode, bound, error);
}

htc_status htc__listen_visitors(htc_host *host, const char *address, uint32_t mode, htc__visit_fn visit, void *ctx,
                                uint16_t *bound, htc_error *error)
{
    htc__listener *l = listener_new(host, 0);
    if (!l)
        return htc__error(error, HTC_ENOMEM, "out of memory");
    l->visit = visit;
    l->visit_ctx = ctx;
    return listen_plain(l, address, mode, bound, error);
}

void htc__listeners_free(htc_host *host)
{
    while (host->listeners) {
        htc__listener *l = host->listeners;
        host->listeners = l->next;
        listener_free(l);
    }
}
