/* Streams that pass through a process of ours, one for each pair of members: it delays what is said, holds it back in one direction
 * or both, and cuts connections after any byte. All by one seed; when it is told to (SIGUSR1) it only forwards. */
#ifndef HTC_TESTS_LINK_PROXY_H
#define HTC_TESTS_LINK_PROXY_H

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include "htcsched/env.h"

#define LINKS_MAX 16
#define CONNS_MAX 64
#define CHUNK     (64 << 10)

typedef struct proxy_link {
    char   from[108], to[108]; /* sockets: it listens at the first */
    int    listener;
    htc_ns cut_until, held_until[2], delay; /* held: what is said by whoever dialled, by the other */
} proxy_link;

/* One direction of a connection: what was read and not yet written, and not before `at`. */
typedef struct proxy_pipe {
    char   bytes[CHUNK];
    size_t len;
    htc_ns at;
} proxy_pipe;

typedef struct proxy_conn {
    int        fd[2];
    int        link;
    proxy_pipe pipe[2]; /* from fd[0] to fd[1], and back */
} proxy_conn;

static proxy_link            proxy_links[LINKS_MAX];
static int                   proxy_count;
static proxy_conn           *proxy_conns[CONNS_MAX];
static volatile sig_atomic_t proxy_calm;

static inline htc_ns proxy_now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (htc_ns)t.tv_sec * HTC_SECOND + (htc_ns)t.tv_nsec;
}

static void proxy_be_calm(int signal)
{
    (void)signal;
    proxy_calm = 1;
}

static struct sockaddr_un proxy_address(const char *path)
{
    struct sockaddr_un a = { .sun_family = AF_UNIX };
    snprintf(a.sun_path, sizeof a.sun_path, "%s", path);
    return a;
}

static int proxy_listen(const char *path)
{
    struct sockaddr_un a = proxy_address(path);
    int                fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    unlink(path);
    if (bind(fd, (struct sockaddr *)&a, sizeof a) != 0 || listen(fd, 64) != 0) {
        perror(path);
        exit(1);
    }
    return fd;
}

static void proxy_end(int c)
{
    close(proxy_conns[c]->fd[0]);
    close(proxy_conns[c]->fd[1]);
    free(proxy_conns[c]);
    proxy_conns[c] = NULL;
}

static void proxy_accept(int l)
{
    struct sockaddr_un a = proxy_address(proxy_links[l].to);
    int                in = accept4(proxy_links[l].listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK), c = 0;
    if (in < 0)
        return;
    int out = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    while (c < CONNS_MAX && proxy_conns[c])
        c++;
    /* Nobody there, or no way to them. */
    if (c == CONNS_MAX || proxy_now() < proxy_links[l].cut_until ||
        connect(out, (struct sockaddr *)&a, sizeof a) != 0) {
        close(in);
        close(out);
        return;
    }
    fcntl(out, F_SETFL, O_NONBLOCK);
    proxy_conns[c] = calloc(1, sizeof(proxy_conn));
    proxy_conns[c]->fd[0] = in;
    proxy_conns[c]->fd[1] = out;
    proxy_conns[c]->link = l;
}

/* 0: the connection has ended. */
static int proxy_forward(proxy_conn *x, int way, short revents)
{
    const proxy_link *l = &proxy_links[x->link];
    proxy_pipe       *p = &x->pipe[way];
    if (p->len == 0 && revents) {
        ssize_t n = read(x->fd[way], p->bytes, sizeof p->bytes);
        if (n == 0 || (n < 0 && errno != EAGAIN))
            return 0;
        p->len = n > 0 ? (size_t)n : 0;
        p->at = proxy_now() + l->delay;
    }
    htc_ns now = proxy_now();
    if (p->len == 0 || now < p->at || now < l->held_until[way])
        return 1;
    ssize_t n = send(x->fd[!way], p->bytes, p->len, MSG_NOSIGNAL);
    if (n < 0)
        return errno == EAGAIN;
    memmove(p->bytes, p->bytes + n, p->len - (size_t)n);
    p->len -= (size_t)n;
    return 1;
}

/* In the middle of whatever was on its way. */
static void proxy_cut(htc_rng *rng, int l)
{
    for (int c = 0; c < CONNS_MAX; c++) {
        proxy_conn *x = proxy_conns[c];
        if (!x || x->link != l)
            continue;
        for (int way = 0; way < 2; way++)
            if (x->pipe[way].len)
                (void)!send(x->fd[!way], x->pipe[way].bytes, htc_rng_below(rng, x->pipe[way].len), MSG_NOSIGNAL);
        proxy_end(c);
    }
}

/* Returns how many troubles it has made. */
static int proxy_trouble(htc_rng *rng)
{
    int         l = (int)htc_rng_below(rng, (uint64_t)proxy_count);
    proxy_link *x = &proxy_links[l];
    htc_ns      until = proxy_now() + (50 + htc_rng_below(rng, 700)) * HTC_MS;
    switch (htc_rng_below(rng, 5)) {
    case 0:
        x->cut_until = until;
        proxy_cut(rng, l);
        return 1;
    case 1:
        proxy_cut(rng, l);
        return 1;
    case 2:
        x->held_until[htc_rng_below(rng, 2)] = until;
        return 1;
    case 3: /* one member, whoever speaks: all that it dials */
        for (int i = 0; i < proxy_count; i++)
            if (strncmp(proxy_links[i].from, x->from, strlen(x->from) - 6) == 0)
                proxy_links[i].held_until[0] = proxy_links[i].held_until[1] = until;
        return 1;
    default:
        x->delay = htc_rng_below(rng, 30) * HTC_MS;
        return 1;
    }
}

static void proxy_wait(int timeout_ms)
{
    struct pollfd fds[LINKS_MAX + 2 * CONNS_MAX];
    int           who[2 * CONNS_MAX], n = 0, first;
    for (int l = 0; l < proxy_count; l++)
        fds[n++] = (struct pollfd){ proxy_links[l].listener, POLLIN, 0 };
    first = n;
    for (int c = 0; c < CONNS_MAX; c++)
        for (int way = 0; proxy_conns[c] && way < 2; way++) {
            who[n - first] = 2 * c + way;
            fds[n++] = (struct pollfd){ proxy_conns[c]->fd[way], proxy_conns[c]->pipe[way].len ? 0 : POLLIN, 0 };
        }
    poll(fds, (nfds_t)n, timeout_ms);
    for (int i = first; i < n; i++) {
        int c = who[i - first] / 2, way = who[i - first] % 2;
        if (proxy_conns[c] && !proxy_forward(proxy_conns[c], way, fds[i].revents))
            proxy_end(c);
    }
    for (int l = 0; l < proxy_count; l++)
        if (fds[l].revents)
            proxy_accept(l);
}

/* Never returns; its listeners were made before. */
static void proxy_run(uint64_t seed, htc_ns pause)
{
    htc_rng rng = { seed };
    htc_ns  next = proxy_now() + pause;
    signal(SIGUSR1, proxy_be_calm);
    for (;;) {
        int waiting = 0;
        for (int c = 0; c < CONNS_MAX; c++)
            waiting |= proxy_conns[c] && (proxy_conns[c]->pipe[0].len || proxy_conns[c]->pipe[1].len);
        proxy_wait(waiting ? 1 : 20);
        if (proxy_calm)
            for (int l = 0; l < proxy_count; l++)
                proxy_links[l].cut_until = proxy_links[l].held_until[0] = proxy_links[l].held_until[1] =
                    proxy_links[l].delay = 0;
        else if (proxy_now() >= next) {
            proxy_trouble(&rng);
            next = proxy_now() + pause / 2 + htc_rng_below(&rng, pause);
        }
    }
}

#endif
