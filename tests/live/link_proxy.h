/* Streams that pass through a process of ours: it delays what is said, holds it back in one direction or both, and cuts connections after
 * any byte. It knows where frames of the native protocol end (doc/protocol.md), and lets some come twice, later than those behind them,
 * or both. All by one seed; when it is told to (SIGUSR1) it only forwards.
 *
 * Both happen to no stream, but every message has a number that rises: a copy is passed over, and so is one that others have overtaken,
 * which is a loss that its sender has to make good. Only the greetings, the first frame each way, are left as they are: a connection that
 * begins with anything else is closed. */
#ifndef HTC_TESTS_LINK_PROXY_H
#define HTC_TESTS_LINK_PROXY_H

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include "htcsched/env.h"

#define LINKS_MAX 16
#define CONNS_MAX 128
#define CHUNK     (64 << 10)
#define LATE_MAX  (8 << 10)

typedef struct proxy_link {
    char   from[108], to[108]; /* sockets: it listens at the first */
    int    listener;
    htc_ns cut_until, held_until[2], delay; /* held: what is said by whoever dialled, by the other */
    int    disorder;                        /* of a hundred frames so many come twice or late */
} proxy_link;

/* One direction of a connection: what was read of a frame that is not whole; what is to be written, and not before `at`; a frame that comes
 * after so many others, or when its time has come. */
typedef struct proxy_pipe {
    char     in[CHUNK], bytes[2 * CHUNK + LATE_MAX], late[LATE_MAX];
    size_t   in_len, len, late_len, passing; /* passing: bytes to come of a frame that is longer than `in` */
    htc_ns   at, late_at;
    uint32_t frames, late_after;
} proxy_pipe;

/* What it has done, for the process that has started it. */
typedef struct proxy_deeds {
    uint32_t cuts, holds, delays, copies, overtaken, frames;
} proxy_deeds;

typedef struct proxy_conn {
    int        fd[2];
    int        link;
    proxy_pipe pipe[2]; /* from fd[0] to fd[1], and back */
} proxy_conn;

static proxy_link            proxy_links[LINKS_MAX];
static int                   proxy_count;
static proxy_conn           *proxy_conns[CONNS_MAX];
static proxy_deeds          *proxy_done;
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

static void proxy_say(proxy_pipe *p, const char *frame, size_t len)
{
    memcpy(p->bytes + p->len, frame, len);
    p->len += len;
}

static void proxy_say_late(proxy_pipe *p)
{
    proxy_say(p, p->late, p->late_len);
    p->late_len = 0;
}

/* A whole frame: at once, twice, or (a copy of it, or itself) behind others. */
static void proxy_frame(htc_rng *rng, proxy_pipe *p, const char *frame, size_t len, int disorder)
{
    uint64_t draw = htc_rng_below(rng, 100);
    int      disturbed = p->frames++ > 0 && len <= LATE_MAX && !p->late_len && draw < (uint64_t)disorder;
    proxy_done->frames++;
    if (p->late_len && p->frames > p->late_after) {
        proxy_say(p, frame, len);
        proxy_say_late(p);
        return;
    }
    proxy_done->copies += disturbed && draw % 3 != 0;
    proxy_done->overtaken += disturbed && draw % 3 == 0;
    if (!disturbed || draw % 3 != 0)
        proxy_say(p, frame, len);
    if (disturbed && draw % 3 == 1)
        proxy_say(p, frame, len);
    else if (disturbed) {
        memcpy(p->late, frame, len);
        p->late_len = len;
        p->late_after = p->frames + (uint32_t)htc_rng_below(rng, 3);
        p->late_at = proxy_now() + (1 + htc_rng_below(rng, 50)) * HTC_MS;
    }
}

/* Of what came in, all that are whole frames; there is room for as many again, and one that was late. */
static void proxy_sort(htc_rng *rng, proxy_pipe *p, int disorder)
{
    size_t at = 0;
    while (at < p->in_len) {
        size_t   left = p->in_len - at;
        uint32_t length;
        if (!p->passing) {
            if (left < sizeof length)
                break;
            memcpy(&length, p->in + at, sizeof length); /* low byte first, as this machine's */
            if (length + sizeof length <= left) {
                proxy_frame(rng, p, p->in + at, length + sizeof length, disorder);
                at += length + sizeof length;
                continue;
            }
            if (length + sizeof length <= sizeof p->in)
                break;
            p->passing = length + sizeof length;
            p->frames++;
        }
        left = left < p->passing ? left : p->passing;
        proxy_say(p, p->in + at, left);
        p->passing -= left;
        at += left;
    }
    memmove(p->in, p->in + at, p->in_len - at);
    p->in_len -= at;
}

/* 0: the connection has ended. */
static int proxy_forward(htc_rng *rng, proxy_conn *x, int way, short revents)
{
    const proxy_link *l = &proxy_links[x->link];
    proxy_pipe       *p = &x->pipe[way];
    if (p->len == 0 && revents) {
        ssize_t n = read(x->fd[way], p->in + p->in_len, sizeof p->in - p->in_len);
        if (n == 0 || (n < 0 && errno != EAGAIN))
            return 0;
        p->in_len += n > 0 ? (size_t)n : 0;
        proxy_sort(rng, p, l->disorder);
        p->at = proxy_now() + l->delay;
    }
    htc_ns now = proxy_now();
    if (p->len == 0 && p->late_len && !p->passing && (now >= p->late_at || proxy_calm))
        proxy_say_late(p);
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
    proxy_done->cuts++;
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

static void proxy_trouble(htc_rng *rng)
{
    int         l = (int)htc_rng_below(rng, (uint64_t)proxy_count);
    proxy_link *x = &proxy_links[l];
    htc_ns      until = proxy_now() + (50 + htc_rng_below(rng, 700)) * HTC_MS;
    switch (htc_rng_below(rng, 6)) {
    case 0:
        x->cut_until = until;
        proxy_cut(rng, l);
        return;
    case 1:
        proxy_cut(rng, l);
        return;
    case 2:
        proxy_done->holds++;
        x->held_until[htc_rng_below(rng, 2)] = until;
        return;
    case 3: /* one of them, whoever speaks: all that it dials */
        proxy_done->holds++;
        for (int i = 0; i < proxy_count; i++)
            if (strncmp(proxy_links[i].from, x->from, strlen(x->from) - 6) == 0)
                proxy_links[i].held_until[0] = proxy_links[i].held_until[1] = until;
        return;
    case 4:
        x->disorder = (int)htc_rng_below(rng, 8);
        return;
    default:
        proxy_done->delays++;
        x->delay = htc_rng_below(rng, 2) * htc_rng_below(rng, 30) * HTC_MS;
        return;
    }
}

static void proxy_wait(htc_rng *rng, int timeout_ms)
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
        if (proxy_conns[c] && !proxy_forward(rng, proxy_conns[c], way, fds[i].revents))
            proxy_end(c);
    }
    for (int l = 0; l < proxy_count; l++)
        if (fds[l].revents)
            proxy_accept(l);
}

/* Before it is forked: what it does is counted here. */
static void proxy_prepare(void)
{
    proxy_done = mmap(NULL, sizeof *proxy_done, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (proxy_done == MAP_FAILED) {
        perror("mmap");
        exit(1);
    }
}

static int proxy_waits_to_say(const proxy_pipe *p)
{
    return p->len || p->late_len;
}

/* Never returns; its listeners were made before. */
static void proxy_run(uint64_t seed, htc_ns pause)
{
    htc_rng rng = { seed };
    htc_ns  next = proxy_now() + pause;
    signal(SIGUSR1, proxy_be_calm);
    for (int l = 0; l < proxy_count; l++)
        proxy_links[l].disorder = 5;
    for (;;) {
        int waiting = 0;
        for (int c = 0; c < CONNS_MAX; c++)
            waiting |= proxy_conns[c] && (proxy_waits_to_say(&proxy_conns[c]->pipe[0]) || proxy_waits_to_say(&proxy_conns[c]->pipe[1]));
        proxy_wait(&rng, waiting ? 1 : 20);
        if (proxy_calm)
            for (int l = 0; l < proxy_count; l++) {
                proxy_link *x = &proxy_links[l];
                x->cut_until = x->held_until[0] = x->held_until[1] = x->delay = 0;
                x->disorder = 0;
            }
        else if (proxy_now() >= next) {
            proxy_trouble(&rng);
            next = proxy_now() + pause / 2 + htc_rng_below(&rng, pause);
        }
    }
}

#endif
