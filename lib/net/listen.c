/* Listeners: who may come in, and what happens when there is no descriptor left for them. */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sodium.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "net/host_private.h"

#define ACCEPT_AT_ONCE 32
#define PAUSE (100 * HTC_MS) /* of a listener, when accepting failed for want of descriptors or memory */

struct htc__listener {
    htc_host      *host;
    int            fd;
    uint32_t       port;
    char          *path; /* Unix: removed at the end if it is still ours */
    dev_t          dev;
    ino_t          ino;
    char           token[HTC_HOST_TOKEN_LEN + 1]; /* TCP */
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
    sodium_memzero(l->token, sizeof l->token);
    htc__free(l->host->env, l, sizeof *l);
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
            close(fd);
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
        if (h->incoming >= h->options.connections_max) {
            htc__log(h->env, HTC_LOG_WARN, "%u connections are open -> refuse one more", h->incoming);
            refuse_busy(fd);
            continue;
        }
        htc_peer_info info = { .transport = HTC_TRANSPORT_UNIX, .uid = UINT32_MAX, .port = l->port };
        if (!l->path) {
            int one = 1;
            info.transport = HTC_TRANSPORT_TCP;
            setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
        }
        htc__conn_accept(h, fd, &info, l->path ? NULL : l->token);
    }
}

static void on_again(evutil_socket_t fd, short what, void *arg)
{
    htc__listener *l = arg;
    (void)fd, (void)what;
    event_add(l->event, NULL);
}

static htc_status listener_add(htc_host *host, htc__listener *l)
{
    l->event = event_new(host->base, l->fd, EV_READ | EV_PERSIST, on_accept, l);
    l->again = evtimer_new(host->base, on_again, l);
    if (!l->event || !l->again || event_add(l->event, NULL) != 0) {
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

htc_status htc_host_listen_unix(htc_host *host, const char *path, uint32_t mode, uint32_t port, htc_error *error)
{
    struct stat st;
    int         in_use = 0;
    if (!host || !path || !*path || (mode & ~0777u))
        return htc__error(error, HTC_EINVAL, "a socket needs a path and a mode of permission bits");
    htc__listener *l = listener_new(host, port);
    if (!l || !(l->path = htc__strdup(host->env, path))) {
        if (l)
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
    return listener_add(host, l);
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

/* Made once, 0600, and read by everybody who is meant to come in. */
static htc_status make_token(const char *path, char token[HTC_HOST_TOKEN_LEN + 1], htc_error *error)
{
    uint8_t secret[HTC_HOST_TOKEN_LEN / 2];
    int     fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (fd < 0 && errno == EEXIST) {
        if (read_token(path, token) == 0)
            return HTC_OK;
        return htc__error(error, HTC_EDENIED, "%s is not a token of 64 hex digits that only its owner can read", path);
    }
    if (fd < 0)
        return htc__error(error, HTC_EIO, "cannot create %s: %s", path, strerror(errno));
    randombytes_buf(secret, sizeof secret);
    sodium_bin2hex(token, HTC_HOST_TOKEN_LEN + 1, secret, sizeof secret);
    sodium_memzero(secret, sizeof secret);
    ssize_t n = write(fd, token, HTC_HOST_TOKEN_LEN);
    int     why = errno;
    if (close(fd) == 0 && n == HTC_HOST_TOKEN_LEN)
        return HTC_OK;
    unlink(path);
    return htc__error(error, HTC_EIO, "cannot write %s: %s", path, strerror(why));
}

/* 1 and the address if it is loopback, 0 if it is another one, -1 if it is none. */
static int loopback(const char *text, uint16_t port, struct sockaddr_storage *out, socklen_t *len)
{
    struct sockaddr_in  v4 = { .sin_family = AF_INET, .sin_port = htons(port) };
    struct sockaddr_in6 v6 = { .sin6_family = AF_INET6, .sin6_port = htons(port) };
    memset(out, 0, sizeof *out);
    if (inet_pton(AF_INET, text, &v4.sin_addr) == 1) {
        memcpy(out, &v4, *len = sizeof v4);
        return ntohl(v4.sin_addr.s_addr) >> 24 == 127;
    }
    if (inet_pton(AF_INET6, text, &v6.sin6_addr) == 1) {
        memcpy(out, &v6, *len = sizeof v6);
        return IN6_IS_ADDR_LOOPBACK(&v6.sin6_addr);
    }
    return -1;
}

int htc__is_loopback(const char *address)
{
    struct sockaddr_storage where;
    socklen_t               len;
    return loopback(address, 0, &where, &len) == 1;
}

htc_status htc_host_listen_tcp(htc_host *host, const char *address, uint16_t tcp_port, const char *token_path,
                               uint32_t port, uint16_t *bound, htc_error *error)
{
    struct sockaddr_storage where;
    socklen_t               len = 0;
    int                     one = 1;
    if (!host || !address || !token_path)
        return htc__error(error, HTC_EINVAL, "an address and a token file are needed");
    switch (loopback(address, tcp_port, &where, &len)) {
    case 1:
        break;
    case 0:
        return htc__error(error, HTC_EUNSUPPORTED,
                          "%s is beyond loopback: that needs the secure channel, which is not there yet; use 127.0.0.1",
                          address);
    default:
        return htc__error(error, HTC_EINVAL, "%s is not an IP address", address);
    }
    htc__listener *l = listener_new(host, port);
    if (!l)
        return htc__error(error, HTC_ENOMEM, "out of memory");
    htc_status status = make_token(token_path, l->token, error);
    if (status != HTC_OK) {
        listener_free(l);
        return status;
    }
    l->fd = socket(where.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (l->fd < 0 || setsockopt(l->fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one) != 0 ||
        bind(l->fd, (const struct sockaddr *)&where, len) != 0 || listen(l->fd, 128) != 0 ||
        getsockname(l->fd, (struct sockaddr *)&where, &len) != 0) {
        int why = errno;
        listener_free(l);
        return htc__error(error, why == EADDRINUSE ? HTC_ELOCKED : HTC_EIO, "cannot listen on %s port %u: %s", address,
                          (unsigned)tcp_port, strerror(why));
    }
    if (bound)
        *bound = ntohs(where.ss_family == AF_INET ? ((const struct sockaddr_in *)&where)->sin_port
                                                  : ((const struct sockaddr_in6 *)&where)->sin6_port);
    return listener_add(host, l);
}

void htc__listeners_free(htc_host *host)
{
    while (host->listeners) {
        htc__listener *l = host->listeners;
        host->listeners = l->next;
        listener_free(l);
    }
}
