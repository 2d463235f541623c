/* The live loop over real sockets: an echo machine in a thread of its own, strangers and friends outside. */
#include <criterion/criterion.h>
#include <criterion/new/assert.h>

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
#include "net/host_private.h"
#include "roles/calls.h"

enum { CALL_QUICK = 1000, CALL_WORK, CALL_REFUSED };

/* Welcomes whoever says hello, answers a request with its own text; "big" with 1 MiB, "stop" ends it, "quick", "work" and
 * "refused" go through the host's calls, "commit" through a commit. */
typedef struct echo {
    uint32_t      opened, closed, uid, port;
    uint32_t      last_peer;
    htc_status    last_why;
    htc_ns        deadline;
    uint32_t      timeouts;
    uint64_t      ids[64];
    uint32_t      peers[64];
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
            htc_wire_welcome(&b, id);
            send_message(out, in->peer, &b);
        } else if (type == HTC_WIRE_USER_REQUEST) {
            on_request(e, in->peer, id, (htc_bytes){ r.p, htc_reader_left(&r) }, out);
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
    }
    return HTC_OK;
}

static htc_ns echo_deadline(const void *self)
{
    return ((const echo *)self)->deadline;
}

static const htc_machine_ops echo_ops = { sizeof echo_ops, echo_step, echo_deadline, NULL };

typedef struct world {
    char       dir[256];
    char       path[4096];
    htc_host  *host;
    echo       echo;
    pthread_t  thread;
    htc_status ended;
    uint16_t   tcp_port;
    int        commits;
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
    w->ended = htc_host_run(w->host, &echo_ops, &w->echo);
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
