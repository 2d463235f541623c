/* The live loop over real sockets: an echo machine in a thread of its own, strangers and friends outside. */
#include "expect.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "core/wire.h"
#include "htcsched/client.h"
#include "net/loop/host_private.h"
#include "htcsched/calls.h"
#include "roles/runtime/agent_wire.h"

enum { CALL_QUICK = 1000, CALL_WORK, CALL_REFUSED };

/* Welcomes whoever says hello, answers a request with its own text; "big" with 1 MiB, "stop" ends it, "quick", "work" and
 * "refused" go through the host's calls, "commit" through a commit, "twice" as two frames at once. */
typedef struct echo {
    uint32_t      opened, closed, uid, port;
    uint32_t      last_peer;
    htc_status    last_why;
    htc_ns        deadline;
    uint32_t      timeouts, together; /* together: HTC_IN_FRAMES seen */
    uint64_t      ids[64];
    uint32_t      peers[64];
    struct {
        uint64_t id;
        char     name[32];
    } wanted[3]; /* downloads */
    size_t        n_wanted;
} echo;

static void send_message(htc_output *out, uint32_t peer, htc_buf *b)
{
    htc_output_add(out, &(htc_effect){ .kind = HTC_OUT_MESSAGE, .peer = peer, .body = htc_buf_bytes(b) });
}

static void answer(htc_output *out, uint32_t peer, uint64_t id, const char *text)
{
    htc_buf b;
    htc_buf_init(&b, NULL, 0);
    htc_wire_begin(&b, HTC_WIRE_USER_ANSWER, id);
    htc_put_raw(&b, htc_bytes_of(text));
    send_message(out, peer, &b);
    htc_buf_free(&b);
}

static void on_request(echo *e, uint32_t peer, uint64_t id, htc_bytes text, htc_output *out)
{
    char word[64];
    snprintf(word, sizeof word, "%.*s", (int)(text.len > 63 ? 63 : text.len), text.len ? (const char *)text.data : "");
    uint64_t tag = id % 64;
    e->ids[tag] = id;
    e->peers[tag] = peer;
    if (strcmp(word, "big") == 0) {
        char *big = malloc((1 << 20) + 1);
        memset(big, 'x', 1 << 20);
        big[1 << 20] = 0;
        answer(out, peer, id, big);
        free(big);
    } else if (strcmp(word, "stop") == 0) {
        answer(out, peer, id, "stopping");
        htc_output_add(out, &(htc_effect){ .kind = HTC_OUT_STOP, .status = HTC_ETASKS });
    } else if (strcmp(word, "quick") == 0 || strcmp(word, "work") == 0 || strcmp(word, "refused") == 0) {
        uint32_t op = *word == 'q' ? CALL_QUICK : *word == 'w' ? CALL_WORK : CALL_REFUSED;
        htc_output_add(out, &(htc_effect){ .kind = HTC_OUT_CALL, .op = op, .tag = tag, .body = htc_bytes_of("body") });
    } else if (strcmp(word, "twice") == 0) {
        htc_buf b;
        htc_buf_init(&b, NULL, 0);
        for (int i = 0; i < 2; i++) {
            htc_put_u32(&b, 11);
            htc_put_u16(&b, HTC_WIRE_USER_ANSWER);
            htc_put_u64(&b, id);
            htc_put_u8(&b, 0);
        }
        htc_output_add(out, &(htc_effect){ .kind = HTC_OUT_FRAMES, .peer = peer, .body = htc_buf_bytes(&b) });
        htc_buf_free(&b);
    } else if (strcmp(word, "commit") == 0) {
        htc_output_add(out, &(htc_effect){ .kind = HTC_OUT_COMMIT, .tag = tag });
    } else if (strcmp(word, "break") == 0) {
        e->last_why = HTC_ECORRUPT;
    } else if (strcmp(word, "timer") == 0) {
        e->deadline = 1; /* in the past: the machine wants to be woken at once */
    } else {
        answer(out, peer, id, word);
    }
}

static htc_status some_frames(echo *e, const htc_input *in, htc_output *out);

/* Downloads are answered when there are three of them, the last one first: what is in an output is its name. */
static void on_download(echo *e, uint32_t peer, uint64_t id, htc_reader *r, htc_output *out)
{
    char    user[64], token[80];
    htc_buf b;
    htc_get_str(r, user, sizeof user);
    htc_get_str(r, token, sizeof token);
    (void)htc_get_u64(r), (void)htc_get_u64(r), (void)htc_get_u32(r);
    htc_get_str(r, e->wanted[e->n_wanted].name, sizeof e->wanted[0].name);
    e->wanted[e->n_wanted].id = id;
    if (++e->n_wanted < 3)
        return;
    htc_buf_init(&b, NULL, 0);
    while (e->n_wanted) {
        htc_bytes name = htc_bytes_of(e->wanted[--e->n_wanted].name);
        htc_wire_begin(&b, HTC_WIRE_FILE_BYTES, e->wanted[e->n_wanted].id);
        htc_put_u64(&b, 0);
        htc_put_u64(&b, name.len);
        htc_put_u32(&b, 1);
        htc_put_bytes(&b, name);
        send_message(out, peer, &b);
    }
    htc_buf_free(&b);
}

static htc_status echo_step(void *self, const htc_input *in, htc_output *out)
{
    echo         *e = self;
    uint16_t      type;
    uint64_t      id;
    htc_peer_info info;
    switch ((htc_input_kind)in->kind) {
    case HTC_IN_START:
        break;
    case HTC_IN_OPENED:
        cr_assert(eq(int, htc_peer_info_read(in->body, &info), HTC_OK));
        cr_assert(in->peer > e->last_peer, "peer %u after %u", in->peer, e->last_peer);
        e->last_peer = in->peer;
        e->opened++;
        e->uid = info.uid;
        e->port = info.port;
        break;
    case HTC_IN_CLOSED:
        e->closed++;
        e->last_why = in->status;
        break;
    case HTC_IN_MESSAGE: {
        htc_reader r = htc_wire_open(in->body, &type, &id);
        htc_buf    b;
        htc_buf_init(&b, NULL, 0);
        if (type == HTC_WIRE_HELLO) {
            htc_wire_welcome(&b, id, HTC_WIRE_VERSION);
            send_message(out, in->peer, &b);
        } else if (type == HTC_WIRE_USER_REQUEST) {
            on_request(e, in->peer, id, (htc_bytes){ r.p, htc_reader_left(&r) }, out);
        } else if (type == HTC_WIRE_DOWNLOAD) {
            on_download(e, in->peer, id, &r, out);
        }
        htc_buf_free(&b);
        if (e->last_why == HTC_ECORRUPT)
            return HTC_ECORRUPT;
        break;
    }
    case HTC_IN_TIMEOUT:
        e->timeouts++;
        e->deadline = HTC_NEVER;
        break;
    case HTC_IN_RESULT:
    case HTC_IN_STORED: {
        char text[128];
        snprintf(text, sizeof text, "%s %.*s", htc_status_name(in->status), (int)in->body.len,
                 in->body.len ? (const char *)in->body.data : "");
        answer(out, e->peers[in->tag], e->ids[in->tag], text);
        break;
    }
    case HTC_IN_EVENT:
        if (in->op == HTC_EVENT_SHUTDOWN)
            htc_output_add(out, &(htc_effect){ .kind = HTC_OUT_STOP, .status = in->status });
        break;
    case HTC_IN_BYTES:
    case HTC_IN_SENT:
    case HTC_IN_TURN:
        break;
    case HTC_IN_FRAMES:
        return some_frames(e, in, out);
    }
    return HTC_OK;
}

/* Two at most: the others are to be handed over again. */
static htc_status some_frames(echo *e, const htc_input *in, htc_output *out)
{
    htc_reader r = htc_reader_of(in->body);
    htc_input  one = *in;
    htc_status status = HTC_OK;
    e->together++;
    one.kind = HTC_IN_MESSAGE;
    for (int i = 0; status == HTC_OK && i < 2 && htc_reader_left(&r); i++) {
        one.body = htc_get_raw(&r, htc_get_u32(&r));
        cr_assert(r.status == HTC_OK && one.body.len >= 10);
        status = echo_step(e, &one, out);
    }
    if (htc_reader_left(&r))
        htc_output_add(out, &(htc_effect){ .kind = HTC_OUT_LEFT, .peer = in->peer, .tag = htc_reader_left(&r) });
    return status;
}

static htc_ns echo_deadline(const void *self)
{
    return ((const echo *)self)->deadline;
}

static const htc_machine_ops echo_ops = { sizeof echo_ops, echo_step, echo_deadline, NULL, 0 };
static const htc_machine_ops echo_frames_ops = { sizeof echo_frames_ops, echo_step, echo_deadline, NULL,
                                                 HTC_MACHINE_FRAMES };

typedef struct world {
    char       dir[256];
    char       path[4096];
    htc_host  *host;
    echo       echo;
    pthread_t  thread;
    htc_status ended;
    uint16_t   tcp_port;
    int        commits, frames; /* frames: it takes HTC_IN_FRAMES */
} world;

typedef struct slow_call {
    htc_host *host;
    uint64_t  tag;
    char      text[32];
} slow_call;

static void slow_work(void *ctx)
{
    slow_call *s = ctx;
    snprintf(s->text, sizeof s->text, "from a thread");
}

static void slow_done(void *ctx)
{
    slow_call *s = ctx;
    htc_host_answer(s->host, CALL_WORK, s->tag, HTC_OK, htc_bytes_of(s->text));
    free(s);
}

static htc_status on_call(void *ctx, htc_host *host, uint32_t op, uint64_t tag, htc_bytes body)
{
    (void)ctx;
    if (op == CALL_QUICK)
        return htc_host_answer(host, op, tag, HTC_OK, body);
    if (op == CALL_REFUSED)
        return HTC_EBUSY;
    slow_call *s = calloc(1, sizeof *s);
    s->host = host;
    s->tag = tag;
    return htc_host_work(host, slow_work, slow_done, s);
}

static htc_status on_commit(void *ctx, htc_bytes batch)
{
    (void)batch;
    __atomic_add_fetch(&((world *)ctx)->commits, 1, __ATOMIC_RELAXED);
    return HTC_OK;
}

static void *run_world(void *arg)
{
    world *w = arg;
    w->ended = htc_host_run(w->host, w->frames ? &echo_frames_ops : &echo_ops, &w->echo);
    return NULL;
}

static void world_make(world *w, const htc_host_options *options)
{
    memset(w, 0, sizeof *w);
    snprintf(w->dir, sizeof w->dir, "/tmp/htc-test-net-XXXXXX");
    cr_assert(mkdtemp(w->dir) != NULL);
    snprintf(w->path, sizeof w->path, "%s/s.sock", w->dir);
    w->echo.deadline = HTC_NEVER;
    cr_assert(eq(int, htc_host_create(NULL, options, &w->host), HTC_OK));
    htc_host_on_call(w->host, on_call, w);
    htc_host_on_commit(w->host, on_commit, w, 1);
}

static void world_open(world *w, const htc_host_options *options)
{
    htc_error error;
    world_make(w, options);
    cr_assert(eq(int, htc_host_listen_unix(w->host, w->path, 0, 7, &error), HTC_OK), "%s", error.text);
    pthread_create(&w->thread, NULL, run_world, w);
}

static htc_client *friend_of(const world *w)
{
    htc_client_options o = { .size = sizeof o, .path = w->path };
    htc_client        *c = NULL;
    htc_error          error = { 0 };
    cr_assert(eq(int, htc_client_open(NULL, &o, &c, &error), HTC_OK), "%s", error.text);
    return c;
}

static void ask(htc_client *c, const char *question, const char *expected)
{
    const char *got = NULL;
    htc_error   error = { 0 };
    cr_assert(eq(int, htc_client_request(c, question, 20 * HTC_SECOND, &got, &error), HTC_OK), "%s", error.text);
    cr_expect(eq(str, (char *)got, (char *)expected));
}

/* The world still works, and ends when it is asked to. */
static void world_close(world *w)
{
    htc_client *c = friend_of(w);
    char        command[512];
    ask(c, "stop", "stopping");
    htc_client_close(c);
    pthread_join(w->thread, NULL);
    cr_expect(eq(int, w->ended, HTC_ETASKS));
    htc_host_destroy(w->host);
    snprintf(command, sizeof command, "rm -rf '%s'", w->dir);
    cr_assert(eq(int, system(command), 0));
}

Test(net, answers_calls_and_commits_come_back)
{
    world w;
    world_open(&w, NULL);
    htc_client *c = friend_of(&w);
    ask(c, "hello", "hello");
    ask(c, "quick", "HTC_OK body");
    ask(c, "work", "HTC_OK from a thread");
    ask(c, "refused", "HTC_EBUSY ");
    ask(c, "commit", "HTC_OK ");
    cr_expect(eq(int, w.commits, 1));
    htc_client_close(c);
    world_close(&w);
    cr_expect(eq(u32, w.echo.uid, (uint32_t)getuid()));
    cr_expect(eq(u32, w.echo.port, 7));
    cr_expect(eq(u32, w.echo.opened, 2));
}

/* Outputs that are asked for ahead come in any order, one of them by itself, and beside other requests. */
Test(net, outputs_that_are_asked_for_ahead)
{
    static const char *const names[] = { "second", "first", "third" };
    world                    w;
    htc_bytes                bytes;
    htc_error                error = { 0 };
    world_open(&w, NULL);
    htc_client *c = friend_of(&w);
    for (int i = 0; i < 2; i++)
        cr_assert(eq(int, htc_client_ahead(c, 1, 2, 3, names[i], &error), HTC_OK), "%s", error.text);
    cr_assert(eq(int, htc_client_ahead(c, 1, 2, 3, names[0], &error), HTC_OK), "it is asked for once");
    ask(c, "hello", "hello");
    for (int i = 2; i >= 0; i--) { /* the third one is asked for only now, and so are the answers */
        uint64_t size = 0;
        cr_assert(eq(int, htc_client_read(c, 1, 2, 3, names[i], 0, &bytes, &size, &error), HTC_OK), "%s", error.text);
        cr_expect(htc_bytes_equal(bytes, htc_bytes_of(names[i])) && size == bytes.len, "%s", names[i]);
    }
    cr_expect(eq(int, htc_client_ahead(c, 1, 2, 3, NULL, &error), HTC_EINVAL));
    cr_expect(eq(int, htc_client_ahead(c, 1, 2, 3, "not taken", &error), HTC_OK));
    htc_client_close(c);
    world_close(&w);
}

/* --- strangers --- */

static int dial(const world *w)
{
    int fd = htc__unix_connect(w->path, 0);
    cr_assert(fd >= 0);
    return fd;
}

static void put_frame(int fd, uint32_t len, const void *bytes, size_t n)
{
    uint8_t header[4] = { (uint8_t)len, (uint8_t)(len >> 8), (uint8_t)(len >> 16), (uint8_t)(len >> 24) };
    cr_assert(send(fd, header, 4, MSG_NOSIGNAL) == 4);
    if (n)
        cr_assert(send(fd, bytes, n, MSG_NOSIGNAL) == (ssize_t)n);
}

/* Reads one frame; its length, 0 at the end. */
static size_t get_frame(int fd, uint8_t *out, size_t room)
{
    uint8_t header[4];
    if (recv(fd, header, 4, MSG_WAITALL) != 4)
        return 0;
    size_t len = header[0] | (size_t)header[1] << 8 | (size_t)header[2] << 16 | (size_t)header[3] << 24;
    cr_assert(len <= room);
    cr_assert(recv(fd, out, len, MSG_WAITALL) == (ssize_t)len);
    return len;
}

/* The answer is an ERROR of this status, and then the end. */
static void expect_refusal(int fd, htc_status status, const char *words)
{
    uint8_t    frame[4096];
    char       text[256];
    uint16_t   type;
    uint64_t   id;
    size_t     n = get_frame(fd, frame, sizeof frame);
    htc_reader r = htc_wire_open((htc_bytes){ frame, n }, &type, &id);
    cr_assert(eq(u16, type, HTC_WIRE_ERROR));
    cr_expect(eq(int, (int32_t)htc_get_u32(&r), status));
    htc_get_str(&r, text, sizeof text);
    cr_expect(strstr(text, words) != NULL, "%s", text);
    cr_expect(get_frame(fd, frame, sizeof frame) == 0);
    close(fd);
}

/* A stranger may not send more than 64 KiB in a frame, nobody a frame without room for a header; both are told. */
Test(net, hostile_lengths_are_refused_and_told)
{
    static const uint32_t lengths[] = { 0, 9, (64u << 10) + 1, HTC_WIRE_MESSAGE_MAX + 1, 0x80000000u, 0xffffffffu };
    world w;
    world_open(&w, NULL);
    for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++) {
        int fd = dial(&w);
        put_frame(fd, lengths[i], NULL, 0);
        expect_refusal(fd, HTC_EPROTO, "are allowed here");
    }
    world_close(&w);
    cr_expect(eq(u32, w.echo.opened, 7));
}

/* Once welcomed, a long frame is fine. */
Test(net, a_friend_may_send_long_frames)
{
    world       w;
    char       *text = malloc((1 << 20) + 1);
    const char *got;
    world_open(&w, NULL);
    memset(text, 'y', 1 << 20);
    text[1 << 20] = 0;
    htc_client *c = friend_of(&w);
    cr_assert(eq(int, htc_client_request(c, text, 20 * HTC_SECOND, &got, NULL), HTC_OK));
    cr_expect(eq(sz, strlen(got), 63));
    ask(c, "after", "after");
    cr_assert(eq(int, htc_client_request(c, "big", 20 * HTC_SECOND, &got, NULL), HTC_OK));
    cr_expect(eq(sz, strlen(got), (size_t)1 << 20));
    htc_client_close(c);
    free(text);
    world_close(&w);
}

/* Frames cut at every byte are the same frames. */
Test(net, frames_arrive_whole_however_they_are_cut)
{
    world    w;
    uint8_t  frame[256];
    htc_buf  hello;
    world_open(&w, NULL);
    htc_buf_init(&hello, NULL, 0);
    htc_wire_hello(&hello, HTC_WIRE_ROLE_USER, HTC_WIRE_VERSION);
    int     fd = dial(&w);
    uint8_t all[512];
    size_t  n = 0;
    for (int k = 0; k < 3; k++) {
        for (int i = 0; i < 4; i++)
            all[n++] = (uint8_t)(hello.len >> (8 * i));
        memcpy(all + n, hello.data, hello.len);
        n += hello.len;
    }
    for (size_t i = 0; i < n; i++)
        cr_assert(send(fd, all + i, 1, MSG_NOSIGNAL) == 1);
    for (int k = 0; k < 3; k++)
        cr_expect(get_frame(fd, frame, sizeof frame) == 12);
    close(fd);
    htc_buf_free(&hello);
    world_close(&w);
}

/* Messages in one piece, to a machine that takes several at once and leaves some; what is no frame is refused behind the answers to those
 * before it. */
Test(net, frames_that_come_together)
{
    world   w;
    htc_buf all, b;
    uint8_t frame[256];
    world_make(&w, NULL);
    w.frames = 1;
    htc_error error;
    cr_assert(eq(int, htc_host_listen_unix(w.host, w.path, 0, 7, &error), HTC_OK), "%s", error.text);
    pthread_create(&w.thread, NULL, run_world, &w);
    htc_buf_init(&all, NULL, 0);
    htc_buf_init(&b, NULL, 0);
    htc_wire_hello(&b, HTC_WIRE_ROLE_USER, HTC_WIRE_VERSION);
    for (uint64_t i = 0; i < 8; i++) {
        if (i > 0) {
            htc_wire_begin(&b, HTC_WIRE_USER_REQUEST, i);
            htc_put_raw(&b, htc_bytes_of(i == 3 ? "twice" : "word"));
        }
        htc_put_u32(&all, (uint32_t)b.len);
        htc_put_raw(&all, htc_buf_bytes(&b));
    }
    htc_put_u32(&all, 3); /* shorter than any message */
    int fd = dial(&w);
    cr_assert(send(fd, all.data, all.len, MSG_NOSIGNAL) == (ssize_t)all.len);
    cr_expect(get_frame(fd, frame, sizeof frame) == 12);
    for (int i = 1; i < 8; i++)
        for (int k = 0; k < (i == 3 ? 2 : 1); k++) {
            cr_assert(get_frame(fd, frame, sizeof frame) == (i == 3 ? 11u : 14u));
            cr_expect(frame[2] == i);
        }
    expect_refusal(fd, HTC_EPROTO, "are allowed here");
    htc_buf_free(&all);
    htc_buf_free(&b);
    world_close(&w);
    cr_expect(w.echo.together >= 4); /* the closing one came alone, and was one too */
}

/* Random bytes on many connections: all are refused or dropped, the machine goes on. Seed printed. */
Test(net, garbage_is_survived)
{
    world   w;
    htc_rng rng = { 20240607 };
    world_open(&w, NULL);
    for (int i = 0; i < 200; i++) {
        uint8_t bytes[600];
        size_t  n = 1 + htc_rng_below(&rng, sizeof bytes);
        for (size_t k = 0; k < n; k++)
            bytes[k] = (uint8_t)htc_rng_next(&rng);
        if (htc_rng_below(&rng, 2))
            bytes[2] = bytes[3] = 0; /* a believable length */
        int fd = dial(&w);
        cr_assert(send(fd, bytes, n, MSG_NOSIGNAL) == (ssize_t)n, "seed 20240607, case %d", i);
        close(fd);
    }
    htc_client *c = friend_of(&w);
    ask(c, "still there", "still there");
    htc_client_close(c);
    world_close(&w);
    /* each opened connection is closed exactly once; the one that said stop is still open then */
    cr_expect(eq(u32, w.echo.opened, w.echo.closed + 1));
}

/* Who asks and does not read is not read from any more, so that the waiting answers stay bounded; and others are served. */
Test(net, a_slow_reader_is_not_read_from)
{
    world            w;
    htc_host_options o = { .size = sizeof o, .output_bytes_low = 1 << 20, .output_bytes_max = 8 << 20 };
    uint8_t         *frame = malloc(2 << 20);
    htc_buf          b;
    world_open(&w, &o);
    int fd = dial(&w);
    htc_buf_init(&b, NULL, 0);
    htc_wire_hello(&b, HTC_WIRE_ROLE_USER, HTC_WIRE_VERSION);
    put_frame(fd, (uint32_t)b.len, b.data, b.len);
    cr_assert(get_frame(fd, frame, 2 << 20) == 12);
    /* 64 answers of 1 MiB would be 64 MiB, far beyond the hard limit of 8: only not being read from keeps us alive. They
     * are sent one by one, and no more than fit the socket while the other side does not read. */
    uint32_t sent = 0, got = 0;
    while (got < 64) {
        struct pollfd p = { fd, (short)(POLLIN | (sent < 64 ? POLLOUT : 0)), 0 };
        cr_assert(poll(&p, 1, 20000) > 0);
        if (sent < 64 && (p.revents & POLLOUT)) {
            htc_wire_begin(&b, HTC_WIRE_USER_REQUEST, ++sent);
            htc_put_raw(&b, htc_bytes_of("big"));
            put_frame(fd, (uint32_t)b.len, b.data, b.len);
            if (sent == 64) {
                htc_client *c = friend_of(&w);
                ask(c, "others", "others");
                htc_client_close(c);
            }
            continue;
        }
        cr_assert(get_frame(fd, frame, 2 << 20) == 10 + (1 << 20), "after %u answers", got);
        got++;
    }
    close(fd);
    free(frame);
    htc_buf_free(&b);
    world_close(&w);
}

Test(net, too_many_connections_are_refused_kindly)
{
    world            w;
    int              fds[8];
    htc_host_options o = { .size = sizeof o, .connections_max = 5 };
    world_open(&w, &o);
    for (int i = 0; i < 5; i++)
        fds[i] = dial(&w);
    expect_refusal(dial(&w), HTC_EBUSY, "too many connections");
    for (int i = 0; i < 5; i++)
        close(fds[i]);
    /* The loop sees the ends in its own time: ask until there is room. */
    htc_client_options co = { .size = sizeof co, .path = w.path };
    htc_client        *c = NULL;
    for (int i = 0; i < 10000 && !c; i++)
        htc_client_open(NULL, &co, &c, NULL);
    cr_assert(c != NULL);
    htc_client_close(c);
    for (c = NULL; !c;)
        htc_client_open(NULL, &co, &c, NULL);
    ask(c, "stop", "stopping");
    htc_client_close(c);
    pthread_join(w.thread, NULL);
    htc_host_destroy(w.host);
    rmdir(w.dir);
}

/* No descriptor is left in the whole process: connections are turned away, and accepted again when there are some. */
Test(net, running_out_of_descriptors_is_survived)
{
    world w;
    int   fds[256], n = 0, fd;
    world_open(&w, NULL);
    struct rlimit r = { 64, 64 };
    cr_assert(eq(int, setrlimit(RLIMIT_NOFILE, &r), 0));
    int client = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    while ((fd = open("/dev/null", O_RDONLY)) >= 0)
        fds[n++] = fd;
    cr_assert(eq(int, errno, EMFILE));
    struct sockaddr_un a = { .sun_family = AF_UNIX };
    snprintf(a.sun_path, sizeof a.sun_path, "%.100s", w.path);
    cr_assert(eq(int, connect(client, (struct sockaddr *)&a, sizeof a), 0));
    char byte;
    cr_expect(recv(client, &byte, 1, 0) <= 0, "it should have been turned away");
    close(client);
    while (n)
        close(fds[--n]);
    world_close(&w);
}

/* --- places --- */

Test(net, paths_longer_than_a_socket_address_work)
{
    world     w;
    char      name[101], again[4096];
    htc_error error = { 0 };
    world_make(&w, NULL);
    memset(name, 'd', 100);
    name[100] = 0;
    snprintf(w.path, sizeof w.path, "%s", w.dir);
    for (int i = 0; i < 4; i++) {
        size_t n = strlen(w.path);
        snprintf(w.path + n, sizeof w.path - n, "/%s", name);
        cr_assert(eq(int, mkdir(w.path, 0700), 0));
    }
    size_t n = strlen(w.path);
    snprintf(w.path + n, sizeof w.path - n, "/with space.sock");
    cr_assert(eq(int, htc_host_listen_unix(w.host, w.path, 0, 7, &error), HTC_OK), "%s", error.text);
    struct stat st;
    cr_assert(eq(int, stat(w.path, &st), 0));
    cr_expect(eq(u32, st.st_mode & 0777, 0600));
    pthread_create(&w.thread, NULL, run_world, &w);
    snprintf(again, sizeof again, "%s", w.path);
    world_close(&w);
}

Test(net, a_second_listener_is_refused_and_a_stale_socket_replaced)
{
    world     w;
    htc_host *second;
    htc_error error = { 0 };
    world_open(&w, NULL);
    cr_assert(eq(int, htc_host_create(NULL, NULL, &second), HTC_OK));
    cr_expect(eq(int, htc_host_listen_unix(second, w.path, 0, 1, &error), HTC_ELOCKED));
    cr_expect(strstr(error.text, w.path) != NULL, "%s", error.text);
    char other[300];
    snprintf(other, sizeof other, "%s/stale.sock", w.dir);
    int in_use, fd = htc__unix_listen(other, 0600, &in_use);
    cr_assert(fd >= 0);
    close(fd); /* the file stays, nobody answers */
    cr_assert(eq(int, access(other, F_OK), 0));
    cr_expect(eq(int, htc_host_listen_unix(second, other, 0666, 1, &error), HTC_OK), "%s", error.text);
    struct stat st;
    cr_assert(eq(int, stat(other, &st), 0));
    cr_expect(eq(u32, st.st_mode & 0777, 0666));
    /* what is no socket is not touched */
    char file[300];
    snprintf(file, sizeof file, "%s/file", w.dir);
    fclose(fopen(file, "w"));
    cr_expect(eq(int, htc_host_listen_unix(second, file, 0, 1, &error), HTC_EIO));
    cr_expect(eq(int, access(file, F_OK), 0));
    htc_host_destroy(second);
    cr_expect(access(other, F_OK) != 0, "the socket file is removed");
    world_close(&w);
}

Test(net, nobody_there_is_unreachable_with_the_name)
{
    htc_client_options o = { .size = sizeof o, .path = "/tmp/htc-test-nobody.sock" };
    htc_client        *c;
    htc_error          error = { 0 };
    cr_expect(eq(int, htc_client_open(NULL, &o, &c, &error), HTC_EUNREACHABLE));
    cr_expect(strstr(error.text, o.path) != NULL, "%s", error.text);
}

/* --- TCP --- */

static int dial_tcp(uint16_t port)
{
    struct sockaddr_in to = { .sin_family = AF_INET, .sin_port = htons(port) };
    to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    cr_assert(eq(int, connect(fd, (struct sockaddr *)&to, sizeof to), 0));
    return fd;
}

Test(net, tcp_wants_the_token_first_and_stays_on_loopback)
{
    world       w;
    char        token[300], wrong[65];
    htc_error   error = { 0 };
    struct stat st;
    world_make(&w, NULL);
    snprintf(token, sizeof token, "%s/tcp-token", w.dir);
    static const char *const beyond[] = { "0.0.0.0", "192.168.1.1", "::", "8.8.8.8" };
    for (size_t i = 0; i < 4; i++) {
        cr_expect(eq(int, htc_host_listen_tcp(w.host, beyond[i], 0, token, 1, NULL, &error), HTC_EDENIED));
        cr_expect(strstr(error.text, beyond[i]) != NULL && strstr(error.text, "htc keys new") != NULL, "%s", error.text);
    }
    cr_expect(eq(int, htc_host_listen_tcp(w.host, "localhost", 0, token, 1, NULL, &error), HTC_EINVAL));
    cr_assert(eq(int, htc_host_listen_tcp(w.host, "127.0.0.1", 0, token, 9, &w.tcp_port, &error), HTC_OK), "%s",
              error.text);
    cr_assert(eq(int, htc_host_listen_unix(w.host, w.path, 0, 7, &error), HTC_OK));
    cr_assert(eq(int, stat(token, &st), 0));
    cr_expect(eq(u32, st.st_mode & 0777, 0600));
    cr_expect(eq(int, st.st_size, 64));
    pthread_create(&w.thread, NULL, run_world, &w);
    memset(wrong, 'a', 64);
    int fd = dial_tcp(w.tcp_port);
    put_frame(fd, 64, wrong, 64);
    expect_refusal(fd, HTC_EDENIED, "token");
    fd = dial_tcp(w.tcp_port);
    put_frame(fd, 65, NULL, 0);
    expect_refusal(fd, HTC_EPROTO, "are allowed here");
    fd = dial_tcp(w.tcp_port);
    put_frame(fd, 0, NULL, 0);
    expect_refusal(fd, HTC_EDENIED, "token");
    htc_client_options o = { .size = sizeof o, .tcp_port = w.tcp_port, .token_path = token };
    htc_client        *c;
    cr_assert(eq(int, htc_client_open(NULL, &o, &c, &error), HTC_OK), "%s", error.text);
    ask(c, "over tcp", "over tcp");
    htc_client_close(c);
    world_close(&w);
    cr_expect(eq(u32, w.echo.opened, 2)); /* those without the token were never shown to the machine */
    /* a token that others can read is none */
    htc_host *second;
    cr_assert(eq(int, htc_host_create(NULL, NULL, &second), HTC_OK));
    cr_assert(eq(int, mkdir(w.dir, 0700), 0));
    fd = open(token, O_WRONLY | O_CREAT, 0644);
    cr_assert(write(fd, wrong, 64) == 64);
    close(fd);
    cr_expect(eq(int, htc_host_listen_tcp(second, "127.0.0.1", 0, token, 1, NULL, &error), HTC_EDENIED));
    htc_host_destroy(second);
    unlink(token);
    rmdir(w.dir);
}

Test(net, who_says_nothing_is_sent_away)
{
    world            w;
    htc_host_options o = { .size = sizeof o, .handshake_ns = 30 * HTC_MS };
    world_open(&w, &o);
    expect_refusal(dial(&w), HTC_ETIMEDOUT, "hello");
    world_close(&w);
}

/* --- the loop --- */

Test(net, a_step_that_fails_ends_the_loop_with_its_status)
{
    world   w;
    htc_buf b;
    world_open(&w, NULL);
    int fd = dial(&w);
    htc_buf_init(&b, NULL, 0);
    htc_wire_begin(&b, HTC_WIRE_USER_REQUEST, 1);
    htc_put_raw(&b, htc_bytes_of("break"));
    put_frame(fd, (uint32_t)b.len, b.data, b.len);
    pthread_join(w.thread, NULL);
    cr_expect(eq(int, w.ended, HTC_ECORRUPT));
    htc_host_destroy(w.host);
    htc_buf_free(&b);
    close(fd);
    rmdir(w.dir);
}

Test(net, a_deadline_in_the_past_wakes_once)
{
    world w;
    world_open(&w, NULL);
    htc_client *c = friend_of(&w);
    const char *got;
    cr_expect(eq(int, htc_client_request(c, "timer", 50 * HTC_MS, &got, NULL), HTC_ETIMEDOUT));
    ask(c, "next", "next");
    htc_client_close(c);
    world_close(&w);
    cr_expect(eq(u32, w.echo.timeouts, 1));
}

/* A machine that dials: it is told of every opening and closing, and its number stays the same while the other side comes
 * and goes. */
typedef struct dialler {
    uint32_t peer, opened, closed, wanted;
} dialler;

static htc_status dialler_step(void *self, const htc_input *in, htc_output *out)
{
    dialler *d = self;
    htc_buf  b;
    if (in->kind == HTC_IN_OPENED) {
        cr_assert(eq(u32, in->peer, d->peer));
        d->opened++;
        htc_buf_init(&b, NULL, 0);
        htc_wire_hello(&b, HTC_WIRE_ROLE_USER, HTC_WIRE_VERSION);
        send_message(out, d->peer, &b);
        htc_buf_free(&b);
    } else if (in->kind == HTC_IN_MESSAGE) {
        /* welcomed: hang up, and be dialled again */
        if (d->opened == d->wanted)
            htc_output_add(out, &(htc_effect){ .kind = HTC_OUT_STOP, .status = HTC_OK });
        else
            htc_output_add(out, &(htc_effect){ .kind = HTC_OUT_CLOSE, .peer = d->peer, .status = HTC_OK });
    } else if (in->kind == HTC_IN_CLOSED) {
        d->closed++;
    }
    return HTC_OK;
}

static htc_ns never(const void *self)
{
    (void)self;
    return HTC_NEVER;
}

Test(net, a_dialled_connection_comes_back)
{
    static const htc_machine_ops ops = { sizeof ops, dialler_step, never, NULL, 0 };
    world    w;
    dialler  d = { .wanted = 5 };
    htc_host *h;
    world_open(&w, NULL);
    cr_assert(eq(int, htc_host_create(NULL, NULL, &h), HTC_OK));
    cr_assert(eq(int, htc_host_dial_unix(h, w.path, 3, &d.peer, NULL), HTC_OK));
    cr_expect(eq(int, htc_host_run(h, &ops, &d), HTC_OK));
    cr_expect(eq(u32, d.opened, 5));
    cr_expect(eq(u32, d.closed, 4));
    htc_host_destroy(h);
    world_close(&w);
}

/* One that hangs up for good: it is told that the connection has ended, and it is not dialled again. */
typedef struct leaver {
    htc_host *host;
    uint32_t  peer, opened, closed;
    htc_ns    stop_at;
} leaver;

static htc_status leaver_step(void *self, const htc_input *in, htc_output *out)
{
    leaver *l = self;
    htc_buf b;
    if (in->kind == HTC_IN_OPENED) {
        l->opened++;
        htc_buf_init(&b, NULL, 0);
        htc_wire_hello(&b, HTC_WIRE_ROLE_USER, HTC_WIRE_VERSION);
        send_message(out, l->peer, &b);
        htc_buf_free(&b);
    } else if (in->kind == HTC_IN_MESSAGE) {
        cr_expect(eq(int, htc_host_hang_up(l->host, l->peer), HTC_OK));
        cr_expect(eq(int, htc_host_hang_up(l->host, l->peer), HTC_ENOTFOUND));
        l->stop_at = in->now + 100 * HTC_MS; /* five times the pause before it would be dialled again */
    } else if (in->kind == HTC_IN_CLOSED) {
        l->closed++;
    }
    if (in->now >= l->stop_at)
        htc_output_add(out, &(htc_effect){ .kind = HTC_OUT_STOP, .status = HTC_OK });
    return HTC_OK;
}

static htc_ns leaver_deadline(const void *self)
{
    return ((const leaver *)self)->stop_at;
}

Test(net, who_hangs_up_is_not_dialled_again)
{
    static const htc_machine_ops ops = { sizeof ops, leaver_step, leaver_deadline, NULL, 0 };
    world    w;
    leaver   l = { .stop_at = HTC_NEVER };
    uint32_t nobody;
    world_open(&w, NULL);
    cr_assert(eq(int, htc_host_create(NULL, NULL, &l.host), HTC_OK));
    cr_assert(eq(int, htc_host_dial_unix(l.host, w.path, 3, &l.peer, NULL), HTC_OK));
    cr_assert(eq(int, htc_host_dial_unix(l.host, "/nowhere/at/all", 3, &nobody, NULL), HTC_OK));
    cr_expect(eq(int, htc_host_hang_up(l.host, nobody), HTC_OK), "one that was never open");
    cr_expect(eq(int, htc_host_hang_up(l.host, 12345), HTC_ENOTFOUND));
    cr_expect(eq(int, htc_host_hang_up(NULL, 1), HTC_EINVAL));
    cr_expect(eq(int, htc_host_run(l.host, &ops, &l), HTC_OK));
    cr_expect(l.opened == 1 && l.closed == 1);
    htc_host_destroy(l.host);
    world_close(&w);
}
