/* A connection of kv_load: a socket of its own, and what seals it. */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "htcsched/channel.h"
#include "htcsched/host.h"
#include "htcsched/keys.h"
#include "kv/load.h"

#define READ_SIZE ((size_t)64 << 10)

struct load_keys {
    htc_identity *identity;
    htc_keyring  *ring;
};

load_keys *load_keys_read(const char *key_path, const char *ring_path)
{
    uint8_t    secrets[HTC_IDENTITY_MAX * HTC_KEY_BYTES];
    size_t     n;
    htc_error  error = { 0 };
    load_keys *k = calloc(1, sizeof *k);
    if (!k || htc_keys_read(key_path, secrets, &n, &error) != HTC_OK ||
        htc_identity_create(NULL, secrets, n, &k->identity) != HTC_OK ||
        htc_keyring_create(NULL, 0, &k->ring) != HTC_OK || htc_keys_load_ring(ring_path, k->ring, &error) != HTC_OK)
        load_fatal("keys", error.text);
    return k;
}

static int connect_unix(const char *path)
{
    struct sockaddr_un to = { .sun_family = AF_UNIX };
    int                fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (strlen(path) >= sizeof to.sun_path)
        load_fatal(path, "too long for a socket");
    memcpy(to.sun_path, path, strlen(path));
    if (fd < 0 || connect(fd, (struct sockaddr *)&to, sizeof to) != 0)
        load_fatal(path, strerror(errno));
    return fd;
}

static int connect_tcp(const char *where)
{
    struct sockaddr_in to = { .sin_family = AF_INET };
    const char        *colon = strrchr(where, ':');
    char               host[64] = "";
    int                one = 1, fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (colon && colon - where < (ptrdiff_t)sizeof host)
        memcpy(host, where, (size_t)(colon - where));
    to.sin_port = htons((uint16_t)(colon ? strtoul(colon + 1, NULL, 10) : 0));
    if (inet_pton(AF_INET, host, &to.sin_addr) != 1)
        load_fatal(where, "tcp://A.B.C.D:PORT is expected");
    if (fd < 0 || connect(fd, (struct sockaddr *)&to, sizeof to) != 0)
        load_fatal(where, strerror(errno));
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    return fd;
}

static void show_token(load_link *l, const char *path)
{
    char   token[256];
    FILE  *f = fopen(path, "re");
    size_t n = f ? fread(token, 1, sizeof token, f) : 0;
    if (n == 0)
        load_fatal(path, "no token");
    fclose(f);
    htc_put_u32(&l->out, (uint32_t)n);
    htc_put_raw(&l->out, (htc_bytes){ token, n });
}

void load_link_wait(const load_link *l)
{
    struct pollfd p = { l->fd, POLLIN, 0 };
    if (poll(&p, 1, 30000) == 0)
        load_fatal("a connection", "no answer for 30 s");
}

/* 1: the channel is open now. */
static int take_sealed(load_link *l, htc_bytes bytes)
{
    htc_channel_event event;
    htc_status        status;
    int               opened = 0;
    while ((status = htc_channel_read(l->channel, htc_host_now(), &bytes, &event)) == HTC_OK && event.kind) {
        opened |= event.kind == HTC_CHANNEL_OPEN;
        if (event.kind == HTC_CHANNEL_DATA)
            htc_put_raw(&l->in, event.bytes);
        if (event.kind == HTC_CHANNEL_CLOSED)
            load_fatal("a connection", "closed by the server");
    }
    if (status != HTC_OK)
        load_fatal("a channel", htc_channel_reason(l->channel));
    return opened;
}

static void open_channel(load_link *l, const load_keys *keys)
{
    htc_channel_options o = { .size = sizeof o,
                              .side = HTC_CHANNEL_CALLER,
                              .role = HTC_KEY_USER,
                              .identity = keys->identity,
                              .ring = keys->ring };
    uint8_t             bytes[4096];
    if (htc_keys_random(o.random, sizeof o.random) != HTC_OK ||
        htc_channel_create(NULL, &o, htc_host_now(), &l->channel) != HTC_OK)
        load_fatal("a channel", "cannot begin");
    for (int open = 0; !open;) {
        load_link_write(l);
        load_link_wait(l);
        ssize_t n = recv(l->fd, bytes, sizeof bytes, 0);
        if (n <= 0)
            load_fatal("a channel", "closed in the handshake");
        open = take_sealed(l, (htc_bytes){ bytes, (size_t)n });
    }
}

void load_link_open(load_link *l, const char *address, const char *token_path, const load_keys *keys)
{
    htc_buf_init(&l->in, NULL, (size_t)256 << 20);
    htc_buf_init(&l->out, NULL, (size_t)256 << 20);
    if (strncmp(address, "unix:", 5) == 0)
        l->fd = connect_unix(address + 5);
    else if (strncmp(address, "tcp://", 6) == 0)
        l->fd = connect_tcp(address + 6);
    else
        load_fatal(address, "unix:PATH or tcp://A.B.C.D:PORT is expected");
    fcntl(l->fd, F_SETFL, fcntl(l->fd, F_GETFL) | O_NONBLOCK);
    if (keys)
        open_channel(l, keys);
    if (token_path)
        show_token(l, token_path);
}

int load_link_read(load_link *l)
{
    static uint8_t sealed[READ_SIZE];
    size_t         before = l->in.len;
    uint8_t       *room = l->channel ? sealed : htc_buf_extend(&l->in, READ_SIZE);
    if (!room)
        load_fatal("memory", "an answer without end");
    ssize_t n = recv(l->fd, room, READ_SIZE, 0);
    if (!l->channel)
        l->in.len = before + (n > 0 ? (size_t)n : 0);
    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return 0;
    if (n <= 0)
        load_fatal("a connection", n ? strerror(errno) : "closed by the server");
    if (l->channel)
        take_sealed(l, (htc_bytes){ sealed, (size_t)n });
    return 1;
}

static htc_bytes what_leaves(load_link *l)
{
    htc_bytes bytes = htc_buf_bytes(&l->out);
    if (!l->channel)
        return bytes;
    if (bytes.len > 0 && htc_channel_write(l->channel, bytes) != HTC_OK)
        load_fatal("a channel", htc_channel_reason(l->channel));
    htc_buf_clear(&l->out);
    htc_channel_output(l->channel, &bytes);
    return bytes;
}

void load_link_write(load_link *l)
{
    htc_bytes bytes;
    l->blocked = 0;
    while ((bytes = what_leaves(l)).len > 0) {
        ssize_t n = send(l->fd, bytes.data, bytes.len, MSG_NOSIGNAL);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0 && errno == EAGAIN) {
            l->blocked = 1;
            return;
        }
        if (n <= 0)
            load_fatal("a connection", strerror(errno));
        if (l->channel)
            htc_channel_sent(l->channel, (size_t)n);
        else if ((size_t)n == l->out.len)
            htc_buf_clear(&l->out);
        else
            htc_buf_consume(&l->out, (size_t)n);
    }
}
