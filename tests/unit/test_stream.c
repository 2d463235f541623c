/* Streams in the live loop: a machine that shouts back, and clients that behave badly. */
#include "expect.h"

#include <arpa/inet.h>
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include "core/wire.h"
#include "net/loop/host_private.h"

#define REFUSAL "-ERR full\r\n"

/* What comes in goes back in capitals when the turn ends. "big N;" is answered with N bytes and, when they have left, "sent";
 * "hold;" holds its peer until somebody says "release;"; "close;" and "stop;" end a connection and the host. */
typedef struct shouter {
    int        turns; /* wants HTC_IN_TURN */
    htc_buf    said;  /* in this turn by one peer */
    uint32_t   said_peer;
    uint32_t   opened, closed, turns_seen, bytes_in, sent_seen, held, port, transport;
    htc_status last_why;
} shouter;

static void say(htc_output *out, uint32_t peer, htc_bytes bytes, uint64_t tag)
{
    cr_assert(htc_output_add(out, &(htc_effect){ .kind = HTC_OUT_BYTES, .peer = peer, .tag = tag, .body = bytes }) ==
              HTC_OK);
}

static void say_big(htc_output *out, uint32_t peer, size_t n)
{
    char *big = malloc(n);
    memset(big, 'x', n);
    say(out, peer, (htc_bytes){ big, n }, 7);
    free(big);
}

static void turn_end(shouter *s, htc_output *out)
{
    /* In two pieces: they leave as one. */
    size_t half = s->said.len / 2;
    if (s->said.len == 0)
        return;
    say(out, s->said_peer, (htc_bytes){ s->said.data, half }, 0);
    say(out, s->said_peer, (htc_bytes){ s->said.data + half, s->said.len - half }, 0);
    htc_buf_clear(&s->said);
}

static void heard(shouter *s, const htc_input *in, htc_output *out)
{
    const char *p = in->body.data;
    size_t      n = in->body.len;
    htc_effect  e = { .kind = HTC_OUT_CLOSE, .peer = in->peer, .status = HTC_ECLOSED };
    s->bytes_in += (uint32_t)n;
    if (s->said_peer != in->peer)
        turn_end(s, out);
    s->said_peer = in->peer;
    if (n == 0 || (n == 6 && memcmp(p, "close;", 6) == 0)) {
        turn_end(s, out);
        say(out, in->peer, htc_bytes_of("bye"), 0);
        htc_output_add(out, &e);
    } else if (n > 4 && memcmp(p, "big ", 4) == 0) {
        say_big(out, in->peer, (size_t)atol(p + 4));
    } else if (n == 5 && memcmp(p, "hold;", 5) == 0) {
        s->held = in->peer;
        say(out, in->peer, htc_bytes_of("held"), 0);
        htc_output_add(out, &(htc_effect){ .kind = HTC_OUT_HOLD, .peer = in->peer, .op = 1 });
    } else if (n == 8 && memcmp(p, "release;", 8) == 0) {
        htc_output_add(out, &(htc_effect){ .kind = HTC_OUT_HOLD, .peer = s->held, .op = 0 });
    } else if (n == 5 && memcmp(p, "stop;", 5) == 0) {
        say(out, in->peer, htc_bytes_of("stopping"), 0);
        htc_output_add(out, &(htc_effect){ .kind = HTC_OUT_STOP, .status = HTC_ETASKS });
    } else {
        for (size_t i = 0; i < n; i++)
            htc_put_u8(&s->said, p[i] >= 'a' && p[i] <= 'z' ? (uint8_t)(p[i] - 32) : (uint8_t)p[i]);
    }
}

static htc_status shouter_step(void *self, const htc_input *in, htc_output *out)
{
    shouter      *s = self;
    htc_peer_info info;
    switch ((htc_input_kind)in->kind) {
    case HTC_IN_OPENED:
        cr_assert(htc_peer_info_read(in->body, &info) == HTC_OK);
        s->port = info.port;
        s->transport = info.transport;
        s->opened++;
        break;
    case HTC_IN_CLOSED:
        s->closed++;
        s->last_why = in->status;
        break;
    case HTC_IN_BYTES:
        heard(s, in, out);
        break;
    case HTC_IN_SENT:
        cr_assert(in->tag == 7);
        s->sent_seen++;
        say(out, in->peer, htc_bytes_of("sent"), 0);
        break;
    case HTC_IN_TURN:
        s->turns_seen++;
        turn_end(s, out);
        break;
    case HTC_IN_FRAMES:
    case HTC_IN_START:
    case HTC_IN_MESSAGE:
    case HTC_IN_TIMEOUT:
    case HTC_IN_STORED:
    case HTC_IN_RESULT:
    case HTC_IN_EVENT:
        break;
    }
    if (!s->turns)
        turn_end(s, out);
    return HTC_OK;
}

static htc_ns never(const void *self)
{
    (void)self;
    return HTC_NEVER;
}

static const htc_machine_ops with_turns = { sizeof with_turns, shouter_step, never, NULL, HTC_MACHINE_TURNS };
static const htc_machine_ops without_turns = { offsetof(htc_machine_ops, flags), shouter_step, never, NULL,
                                               HTC_MACHINE_TURNS /* behind its size: not looked at */ };

typedef struct world {
    char       dir[64], unix_address[104], unix_path[96];
    htc_host  *host;
    shouter    s;
    pthread_t  thread;
    htc_status ended;
    uint16_t   tcp_port;
} world;

static void *run_world(void *arg)
{
    world *w = arg;
    w->ended = htc_host_run(w->host, w->s.turns ? &with_turns : &without_turns, &w->s);
    return NULL;
}

static void world_open(world *w, int turns, const htc_host_options *options)
{
    htc_error error;
    memset(w, 0, sizeof *w);
    w->s.turns = turns;
    htc_buf_init(&w->s.said, NULL, 0);
    snprintf(w->dir, sizeof w->dir, "/tmp/htc-test-stream-XXXXXX");
    cr_assert(mkdtemp(w->dir) != NULL);
    snprintf(w->unix_path, sizeof w->unix_path, "%s/s", w->dir);
    snprintf(w->unix_address, sizeof w->unix_address, "unix:%s", w->unix_path);
    cr_assert(htc_host_create(NULL, options, &w->host) == HTC_OK);
    htc_host_stream_options tcp = { .size = sizeof tcp, .address = "127.0.0.1:0", .port = 9, .refusal = REFUSAL };
    htc_host_stream_options local = { .size = sizeof local, .address = w->unix_address, .port = 8, .refusal = REFUSAL };
    cr_assert(htc_host_listen_stream(w->host, &tcp, &w->tcp_port, &error) == HTC_OK, "%s", error.text);
    cr_assert(htc_host_listen_stream(w->host, &local, NULL, &error) == HTC_OK, "%s", error.text);
    pthread_create(&w->thread, NULL, run_world, w);
}

static int dial_tcp(const world *w)
{
    struct sockaddr_in a = { .sin_family = AF_INET, .sin_port = htons(w->tcp_port) };
    a.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    cr_assert(fd >= 0 && connect(fd, (struct sockaddr *)&a, sizeof a) == 0);
    return fd;
}

static int dial_unix(const world *w)
{
    int fd = htc__unix_connect(w->unix_path, 0);
    cr_assert(fd >= 0);
    return fd;
}

static void put(int fd, const char *text)
{
    cr_assert(send(fd, text, strlen(text), MSG_NOSIGNAL) == (ssize_t)strlen(text));
}

static void expect(int fd, const char *text)
{
    char    got[256] = { 0 };
    ssize_t n = recv(fd, got, strlen(text), MSG_WAITALL);
    cr_assert(n == (ssize_t)strlen(text) && strcmp(got, text) == 0, "\"%s\" instead of \"%s\"", got, text);
}

static void expect_end(int fd)
{
    char c;
    cr_expect(recv(fd, &c, 1, 0) <= 0);
    close(fd);
}

static void world_close(world *w)
{
    char command[128];
    int  fd = dial_unix(w);
    put(fd, "stop;");
    expect(fd, "stopping");
    close(fd);
    pthread_join(w->thread, NULL);
    cr_expect(w->ended == HTC_ETASKS);
    htc_host_destroy(w->host);
    htc_buf_free(&w->s.said);
    snprintf(command, sizeof command, "rm -rf '%s'", w->dir);
    cr_assert(system(command) == 0);
}

Test(stream, bytes_come_back_over_both_transports)
{
    for (int turns = 0; turns < 2; turns++) {
        world w;
        world_open(&w, turns, NULL);
        int a = dial_tcp(&w);
        put(a, "hello");
        expect(a, "HELLO");
        cr_expect(w.s.port == 9 && w.s.transport == HTC_TRANSPORT_STREAM);
        int b = dial_unix(&w);
        put(b, "there");
        put(a, "again");
        expect(b, "THERE");
        expect(a, "AGAIN");
        cr_expect(w.s.port == 8 && w.s.transport == HTC_TRANSPORT_UNIX);
        close(a);
        close(b);
        world_close(&w);
        cr_expect(turns ? w.s.turns_seen > 0 : w.s.turns_seen == 0);
        cr_expect(w.s.opened == 3 && w.s.closed >= 2);
    }
}

/* Who has closed its half is answered all the same. */
Test(stream, a_half_closed_peer_is_answered)
{
    for (int turns = 0; turns < 2; turns++) {
        world w;
        world_open(&w, turns, NULL);
        int fds[2] = { dial_tcp(&w), dial_unix(&w) };
        for (int i = 0; i < 2; i++) {
            put(fds[i], "last words");
            cr_assert(shutdown(fds[i], SHUT_WR) == 0);
            expect(fds[i], "LAST WORDSbye");
            expect_end(fds[i]);
        }
        world_close(&w);
        cr_expect(w.s.closed >= 2);
    }
}

Test(stream, a_closing_connection_gets_its_last_bytes)
{
    world w;
    world_open(&w, 1, NULL);
    for (int i = 0; i < 50; i++) {
        int fd = i % 2 ? dial_tcp(&w) : dial_unix(&w);
        put(fd, "close;");
        expect(fd, "bye");
        expect_end(fd);
    }
    world_close(&w);
}

/* A reset in the middle of a large answer is the end of that connection alone. */
Test(stream, a_reset_ends_that_connection_alone)
{
    world         w;
    struct linger at_once = { 1, 0 };
    world_open(&w, 1, NULL);
    for (int i = 0; i < 20; i++) {
        int fd = dial_tcp(&w);
        put(fd, i % 2 ? "big 3000000;" : "x");
        setsockopt(fd, SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once);
        close(fd);
    }
    int fd = dial_tcp(&w);
    put(fd, "still");
    expect(fd, "STILL");
    close(fd);
    world_close(&w);
}

static size_t drain(int fd, size_t n)
{
    static char buffer[65536];
    size_t      got = 0;
    while (got < n) {
        ssize_t r = recv(fd, buffer, n - got < sizeof buffer ? n - got : sizeof buffer, 0);
        if (r <= 0)
            break;
        got += (size_t)r;
    }
    return got;
}

/* What a write does not take waits, and the machine is told when all of it has left. */
Test(stream, a_large_answer_waits_for_its_reader)
{
    world w;
    world_open(&w, 1, NULL);
    int fd = dial_tcp(&w), other = dial_unix(&w);
    put(fd, "big 20000000;");
    put(other, "meanwhile");
    expect(other, "MEANWHILE");
    cr_expect(drain(fd, 20000000) == 20000000);
    expect(fd, "sent");
    put(fd, "after");
    expect(fd, "AFTER");
    close(fd);
    close(other);
    world_close(&w);
    cr_expect(w.s.sent_seen == 1);
}

/* Above output_bytes_low nothing more is read from it; above output_bytes_max it is closed. */
Test(stream, a_slow_reader_is_not_read_from_and_then_closed)
{
    world            w;
    htc_host_options o = { .size = sizeof o, .output_bytes_max = 8 << 20, .output_bytes_low = 1 << 20 };
    world_open(&w, 1, &o);
    int fd = dial_unix(&w), other = dial_unix(&w);
    put(fd, "big 6000000;");
    put(other, "x");
    expect(other, "X"); /* the answer waits now */
    put(fd, "not yet");
    put(other, "y");
    expect(other, "Y");
    cr_expect(w.s.bytes_in == strlen("big 6000000;xy"), "%u", w.s.bytes_in);
    cr_expect(drain(fd, 6000000) == 6000000);
    char rest[32] = { 0 };
    cr_expect(recv(fd, rest, 11, MSG_WAITALL) == 11 && strstr(rest, "NOT YET") && strstr(rest, "sent"));
    put(fd, "big 9000000;");
    drain(fd, 9000000);
    expect_end(fd);
    put(other, "z");
    expect(other, "Z");
    close(other);
    world_close(&w);
}

/* Of those who take nothing of their answers they are ended who hold most, when there is too much of it in all; who reads is not, nor who comes. */
Test(stream, who_does_not_take_its_answers_is_ended_and_not_who_comes)
{
    world            w;
    htc_host_options o = { .size = sizeof o, .output_bytes_all = 4 << 20 };
    int              holder[5];
    world_open(&w, 1, &o);
    int reader = dial_unix(&w);
    for (int i = 0; i < 5; i++) {
        holder[i] = dial_unix(&w);
        put(holder[i], "big 3000000;");
    }
    put(reader, "x");
    expect(reader, "X");
    put(reader, "big 3000000;");
    cr_expect(drain(reader, 3000000) == 3000000, "who reads is not ended");
    expect(reader, "sent");
    while (__atomic_load_n(&w.s.closed, __ATOMIC_RELAXED) < 4)
        usleep(1000);
    int lost = 0;
    for (int i = 0; i < 5; i++) { /* what has not left for them is lost */
        lost += drain(holder[i], 3000000) < 3000000;
        close(holder[i]);
    }
    cr_expect(lost >= 4, "%d are ended", lost);
    close(reader);
    world_close(&w);
}

Test(stream, who_is_held_is_not_read_from)
{
    world w;
    world_open(&w, 1, NULL);
    int fd = dial_tcp(&w), other = dial_unix(&w);
    put(fd, "hold;");
    expect(fd, "held");
    put(fd, "waits");
    for (int i = 0; i < 20; i++) {
        put(other, "x");
        expect(other, "X");
    }
    cr_expect(w.s.bytes_in == 25, "%u", w.s.bytes_in);
    put(other, "release;");
    expect(fd, "WAITS");
    close(fd);
    close(other);
    world_close(&w);
}

Test(stream, who_is_too_many_is_told)
{
    world            w;
    htc_host_options o = { .size = sizeof o, .connections_max = 2 };
    world_open(&w, 1, &o);
    int a = dial_tcp(&w), b = dial_tcp(&w);
    put(a, "a");
    expect(a, "A");
    put(b, "b");
    expect(b, "B");
    int c = dial_tcp(&w);
    expect(c, REFUSAL);
    expect_end(c);
    put(a, "a");
    expect(a, "A");
    close(a);
    close(b);
    int  d;
    char byte = 0;
    do { /* until the places are free */
        d = dial_tcp(&w);
        cr_assert(send(d, "d", 1, MSG_NOSIGNAL) == 1);
        if (recv(d, &byte, 1, 0) != 1 || byte != 'D')
            close(d);
    } while (byte != 'D');
    close(d);
    struct timespec moment = { 0, 1000000 };
    while (__atomic_load_n(&w.s.closed, __ATOMIC_RELAXED) < 3)
        nanosleep(&moment, NULL);
    world_close(&w);
}

/* Without a descriptor left a stranger is told, and those who are there are served. */
Test(stream, descriptors_run_out)
{
    world         w;
    struct rlimit before, few;
    world_open(&w, 1, NULL);
    int a = dial_unix(&w);
    put(a, "a");
    expect(a, "A");
    int strangers[40], n = 0;
    for (; n < 40; n++)
        strangers[n] = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    int highest = dup(a);
    close(highest);
    getrlimit(RLIMIT_NOFILE, &before);
    few = before;
    few.rlim_cur = (rlim_t)highest; /* all below are taken */
    cr_assert(setrlimit(RLIMIT_NOFILE, &few) == 0);
    struct sockaddr_in at = { .sin_family = AF_INET, .sin_port = htons(w.tcp_port) };
    at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    for (int i = 0; i < 3; i++) {
        cr_assert(connect(strangers[i], (struct sockaddr *)&at, sizeof at) == 0);
        expect(strangers[i], REFUSAL);
        put(a, "a");
        expect(a, "A");
    }
    setrlimit(RLIMIT_NOFILE, &before);
    for (int i = 0; i < n; i++)
        close(strangers[i]);
    close(a);
    world_close(&w);
}

Test(stream, addresses_that_are_refused)
{
    static const struct {
        const char *address;
        htc_status  status;
    } cases[] = {
        { "0.0.0.0:6379", HTC_EDENIED },
        { "192.0.2.1:6379", HTC_EDENIED },
        { "[2001:db8::1]:1", HTC_EDENIED },
        { "[::]:6379", HTC_EDENIED },
        { "localhost:6379", HTC_EINVAL },
        { "127.0.0.1", HTC_EINVAL },
        { "127.0.0.1:", HTC_EINVAL },
        { "127.0.0.1:65536", HTC_EINVAL },
        { "127.0.0.1:-1", HTC_EINVAL },
        { "127.0.0.1:1x", HTC_EINVAL },
        { "[::1:5", HTC_EINVAL },
        { "unix:", HTC_EINVAL },
        { "", HTC_EINVAL },
        { ":5", HTC_EINVAL },
        { "[]:5", HTC_EINVAL },
        { "[:5", HTC_EINVAL },
    };
    htc_host *host;
    htc_error error;
    cr_assert(htc_host_create(NULL, NULL, &host) == HTC_OK);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        htc_host_stream_options o = { .size = sizeof o, .address = cases[i].address };
        cr_expect(htc_host_listen_stream(host, &o, NULL, &error) == cases[i].status, "%s: %s", cases[i].address,
                  error.text);
    }
    uint16_t                bound = 0;
    char                    taken[32];
    htc_host_stream_options o = { .size = sizeof o, .address = "127.0.0.1:0" };
    cr_assert(htc_host_listen_stream(host, &o, &bound, &error) == HTC_OK);
    snprintf(taken, sizeof taken, "127.0.0.1:%u", bound);
    o.address = taken;
    cr_expect(htc_host_listen_stream(host, &o, NULL, &error) == HTC_ELOCKED);
    cr_expect(strstr(error.text, taken) != NULL, "%s", error.text);
    o.size = offsetof(htc_host_stream_options, mode) - 1;
    cr_expect(htc_host_listen_stream(host, &o, NULL, &error) == HTC_EINVAL);
    htc_host_destroy(host);
}
