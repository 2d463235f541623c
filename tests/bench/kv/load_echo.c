/* The least that a server can cost: what comes in goes out, and nothing is looked at. One thread, epoll, the sockets that the
 * clients' other ends are. */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/tcp.h>
#include <sched.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "kv/load.h"

static void must(int ok, const char *what)
{
    if (!ok)
        load_fatal(what, strerror(errno));
}

static void echo(int *fds, unsigned n)
{
    static uint8_t     bytes[256 << 10];
    struct epoll_event events[256];
    int                epoll = epoll_create1(EPOLL_CLOEXEC);
    for (unsigned i = 0; i < n; i++) {
        struct epoll_event e = { .events = EPOLLIN, .data.fd = fds[i] };
        must(epoll_ctl(epoll, EPOLL_CTL_ADD, fds[i], &e) == 0, "epoll");
    }
    for (;;) {
        int ready = epoll_wait(epoll, events, 256, -1);
        for (int i = 0; i < ready; i++) {
            ssize_t got = recv(events[i].data.fd, bytes, sizeof bytes, 0);
            if (got <= 0)
                _exit(0);
            for (ssize_t at = 0, sent = 0; at < got; at += sent)
                must((sent = send(events[i].data.fd, bytes + at, (size_t)(got - at), MSG_NOSIGNAL)) > 0, "send");
        }
    }
}

static void pair_tcp(int listener, int pair[2])
{
    struct sockaddr_in at;
    socklen_t          len = sizeof at;
    int                one = 1;
    must(getsockname(listener, (struct sockaddr *)&at, &len) == 0, "the echo's port");
    pair[0] = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    must(pair[0] >= 0 && connect(pair[0], (struct sockaddr *)&at, len) == 0, "connect");
    must((pair[1] = accept4(listener, NULL, NULL, SOCK_CLOEXEC)) >= 0, "accept");
    for (int i = 0; i < 2; i++)
        setsockopt(pair[i], IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
}

static void move_to(int cpu)
{
    cpu_set_t set;
    CPU_ZERO(&set);
    CPU_SET((size_t)cpu, &set);
    must(sched_setaffinity(0, sizeof set, &set) == 0, "the echo's CPU");
}

pid_t load_echo_start(const char *how, int cpu, load_conn *conns, unsigned n)
{
    struct sockaddr_in at = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
    int tcp = strcmp(how, "tcp") == 0, listener = tcp ? socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0) : -1;
    int ends[LOAD_CONNECTIONS_MAX];
    if (!tcp && strcmp(how, "unix") != 0)
        load_fatal(how, "an echo is asked over tcp or unix");
    if (tcp)
        must(bind(listener, (struct sockaddr *)&at, sizeof at) == 0 && listen(listener, 16) == 0, "the echo's port");
    for (unsigned i = 0; i < n; i++) {
        int pair[2];
        if (tcp)
            pair_tcp(listener, pair);
        else
            must(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) == 0, "socketpair");
        conns[i].link.fd = pair[0];
        ends[i] = pair[1];
        htc_buf_init(&conns[i].link.in, NULL, 0);
        htc_buf_init(&conns[i].link.out, NULL, 0);
    }
    pid_t child = fork();
    must(child >= 0, "fork");
    if (child == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        if (cpu >= 0)
            move_to(cpu);
        echo(ends, n);
    }
    for (unsigned i = 0; i < n; i++) {
        close(ends[i]);
        fcntl(conns[i].link.fd, F_SETFL, O_NONBLOCK);
    }
    if (tcp)
        close(listener);
    return child;
}
