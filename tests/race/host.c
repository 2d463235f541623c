/* The live host under many connections at once: answers that come through its worker threads, commits on one of them,
 * clients that come and go, and an end in the middle of it all. */
#include <sys/socket.h>

#include "core/wire.h"
#include "htcsched/client.h"
#include "net/loop/host_private.h"
#include "race.h"

enum {
    CALL_HASH = 1000,
    CLIENTS = 6,
    LIVES = 6,
    REQUESTS = 40,
    CHAIN = 3,
    BURST = 20,
    WORK = 100 /* else a piece is done before anybody else has looked */,
    SLOTS = 1024
};

/* Hashes what it is asked, on a worker thread, or commits it first: "h…" and "c…". Anything else comes back as it is.
 */
typedef struct hasher {
    htc_host *host;
    uint64_t  tag, stop_after, answers;
    struct {
        uint32_t peer;
        uint64_t id;
    } asked[SLOTS];
    uint64_t opened, closed;
    /* the loop's thread */
    uint64_t accepted, done;
    /* the commits' thread, whichever that is: one at a time, so plain numbers do */
    uint64_t commits, commit_bytes;
} hasher;

typedef struct piece {
    hasher  *h;
    uint64_t tag;
    uint32_t left; /* how often it comes back to the threads */
    char     hex[65];
    size_t   len;
    uint8_t  body[64];
} piece;

static void answer(htc_output *out, hasher *h, uint64_t tag, htc_bytes text)
{
    htc_buf b;
    htc_buf_init(&b, NULL, 0);
    htc_wire_begin(&b, HTC_WIRE_USER_ANSWER, h->asked[tag % SLOTS].id);
    htc_put_raw(&b, text);
    htc_output_add(
        out, &(htc_effect){ .kind = HTC_OUT_MESSAGE, .peer = h->asked[tag % SLOTS].peer, .body = htc_buf_bytes(&b) });
    htc_buf_free(&b);
    if (++h->answers == h->stop_after)
        htc_output_add(out, &(htc_effect){ .kind = HTC_OUT_STOP });
}

static void on_message(hasher *h, const htc_input *in, htc_output *out)
{
    uint16_t   type;
    uint64_t   id;
    htc_reader r = htc_wire_open(in->body, &type, &id);
    htc_bytes  text = { r.p, htc_reader_left(&r) };
    if (type == HTC_WIRE_HELLO) {
        htc_buf b;
        htc_buf_init(&b, NULL, 0);
        htc_wire_welcome(&b, id, HTC_WIRE_VERSION);
        htc_output_add(out, &(htc_effect){ .kind = HTC_OUT_MESSAGE, .peer = in->peer, .body = htc_buf_bytes(&b) });
        htc_buf_free(&b);
        return;
    }
    uint64_t tag = ++h->tag;
    h->asked[tag % SLOTS].peer = in->peer;
    h->asked[tag % SLOTS].id = id;
    int first = text.len ? *(const char *)text.data : 0;
    if (first == 'h')
        htc_output_add(out, &(htc_effect){ .kind = HTC_OUT_CALL, .op = CALL_HASH, .tag = tag, .body = text });
    else if (first == 'c')
        htc_output_add(out, &(htc_effect){ .kind = HTC_OUT_COMMIT, .tag = tag, .body = text });
    else
        answer(out, h, tag, text);
}

static htc_status hasher_step(void *self, const htc_input *in, htc_output *out)
{
    hasher *h = self;
    if (in->kind == HTC_IN_MESSAGE)
        on_message(h, in, out);
    else if (in->kind == HTC_IN_OPENED)
        h->opened++;
    else if (in->kind == HTC_IN_CLOSED)
        h->closed++;
    else if (in->kind == HTC_IN_RESULT)
        answer(out, h, in->tag, in->body);
    else if (in->kind == HTC_IN_STORED)
        answer(out, h, in->tag, htc_bytes_of(htc_status_name(in->status)));
    return HTC_OK;
}

static const htc_machine_ops hasher_ops = { sizeof hasher_ops, hasher_step, race_never, NULL, 0 };

static void hex_of(htc_bytes text, char hex[65])
{
    uint8_t hash[32];
    htc_content_hash(text, hash);
    htc_content_hex(hash, hex);
}

static void work(void *ctx)
{
    piece *p = ctx;
    for (uint32_t i = 0; i < WORK; i++)
        hex_of((htc_bytes){ p->body, p->len }, p->hex);
}

static void done(void *ctx)
{
    piece  *p = ctx;
    hasher *h = p->h;
    h->done++;
    /* Also while the host is being destroyed: what done asks for is still done. */
    if (--p->left > 0 && htc_host_work(h->host, work, done, p) == HTC_OK) {
        h->accepted++;
        return;
    }
    htc_status status = htc_host_answer(h->host, CALL_HASH, p->tag, HTC_OK, htc_bytes_of(p->hex));
    race_check(status == HTC_OK || status == HTC_ECLOSED, "an answer: %s", htc_status_name(status));
    free(p);
}

static htc_status on_call(void *ctx, htc_host *host, uint32_t op, uint64_t tag, htc_bytes body)
{
    hasher *h = ctx;
    piece  *p = calloc(1, sizeof *p);
    (void)op;
    race_check(p != NULL, "memory");
    p->h = h;
    p->tag = tag;
    p->left = CHAIN;
    p->len = body.len < sizeof p->body ? body.len : sizeof p->body;
    memcpy(p->body, body.data, p->len);
    htc_status status = htc_host_work(host, work, done, p);
    if (status == HTC_OK)
        h->accepted++;
    else
        free(p);
    return status;
}

static htc_status on_commit(void *ctx, htc_bytes batch)
{
    hasher *h = ctx;
    h->commits++;
    h->commit_bytes += batch.len;
    return HTC_OK;
}

/* --- clients, each on a thread --- */

typedef struct customer {
    const char *path;
    uint32_t    number, lives, requests;
    int         until_closed; /* the host ends first: no failure */
    uint64_t    answered, commits, commit_bytes;
} customer;

static int ask(customer *c, htc_client *client, uint32_t life, uint32_t i)
{
    char        text[64], want[65];
    const char *got;
    htc_error   error = { 0 };
    size_t      n = (size_t)snprintf(text, sizeof text, "%c %u.%u.%u", "hce"[i % 3], c -> number, life, i);
    htc_status  status = htc_client_request(client, text, HTC_NEVER, &got, &error);
    if (status != HTC_OK && c->until_closed)
        return 0;
    race_check(status == HTC_OK, "client %u: %s", c->number, error.text);
    if (text[0] == 'h')
        hex_of((htc_bytes){ text, n }, want);
    else
        snprintf(want, sizeof want, "%s", text[0] == 'c' ? "HTC_OK" : text);
    race_check(strcmp(got, want) == 0, "client %u asked \"%s\" and got \"%s\"", c->number, text, got);
    c->answered++;
    if (text[0] == 'c') {
        c->commits++;
        c->commit_bytes += n;
    }
    return 1;
}

/* A peer that goes away within its first frame. */
static void stranger(const char *path)
{
    int fd = htc__unix_connect(path, 0);
    if (fd < 0)
        return;
    if (send(fd, "\x20\0\0\0half", 8, MSG_NOSIGNAL) < 0) {
        /* The host is gone already: that is what it may be. */
    }
    close(fd);
}

static void *customer_lives(void *arg)
{
    customer *c = arg;
    for (uint32_t life = 0; life < c->lives; life++) {
        htc_client_options o = { .size = sizeof o, .path = c->path };
        htc_client        *client;
        htc_error          error = { 0 };
        htc_status         status = htc_client_open(NULL, &o, &client, &error);
        if (status != HTC_OK && c->until_closed)
            return NULL;
        race_check(status == HTC_OK, "client %u: %s", c->number, error.text);
        int open = 1;
        for (uint32_t i = 0; open && i < c->requests; i++)
            open = ask(c, client, life, i);
        htc_client_close(client);
        stranger(c->path);
    }
    return NULL;
}

static void *run_host(void *arg)
{
    hasher *h = arg;
    race_check(htc_host_run(h->host, &hasher_ops, h) == HTC_OK, "the host");
    return NULL;
}

/* After stop_after answers the host ends, whoever still waits. */
static void scene(uint64_t stop_after, int until_closed, const char *what)
{
    char      dir[RACE_DIR], path[RACE_DIR + 8];
    hasher    h = { .stop_after = stop_after };
    pthread_t loop, threads[CLIENTS];
    customer  customers[CLIENTS];
    htc_error error = { 0 };
    race_dir(dir);
    snprintf(path, sizeof path, "%s/s", dir);
    htc_host_options o = { .size = sizeof o, .workers = 3 };
    race_check(htc_host_create(NULL, &o, &h.host) == HTC_OK, "a host");
    htc_host_on_call(h.host, on_call, &h);
    htc_host_on_commit(h.host, on_commit, &h, 1);
    race_check(htc_host_listen_unix(h.host, path, 0, 1, &error) == HTC_OK, "%s", error.text);
    race_check(pthread_create(&loop, NULL, run_host, &h) == 0, "a thread");
    for (uint32_t i = 0; i < CLIENTS; i++)
        customers[i] =
            (customer){ .path = path, .number = i, .lives = LIVES, .requests = REQUESTS, .until_closed = until_closed };
    race_threads(threads, CLIENTS, customer_lives, customers, sizeof *customers);
    race_check(pthread_join(loop, NULL) == 0, "join");
    htc_host_destroy(h.host);
    race_threads_join(threads, CLIENTS);
    uint64_t answered = 0, commits = 0, bytes = 0;
    for (uint32_t i = 0; i < CLIENTS; i++) {
        answered += customers[i].answered;
        commits += customers[i].commits;
        bytes += customers[i].commit_bytes;
    }
    race_check(h.accepted == h.done, "%lu pieces of work accepted, %lu done", (unsigned long)h.accepted,
               (unsigned long)h.done);
    race_check(commits <= h.commits && bytes <= h.commit_bytes, "%lu commits answered, %lu done",
               (unsigned long)commits, (unsigned long)h.commits);
    race_check(until_closed || (answered == stop_after && commits == h.commits && bytes == h.commit_bytes),
               "%lu of %lu answered", (unsigned long)answered, (unsigned long)stop_after);
    printf("%lu requests answered, %lu pieces of work, %lu commits, %lu connections\n", (unsigned long)answered,
           (unsigned long)h.done, (unsigned long)h.commits, (unsigned long)h.opened);
    race_said(what);
    race_dir_end(dir);
}

/* A host that is destroyed with work on its threads, each piece of which asks for more when it is done. (Once the
 * threads' lock was gone while the last of them, started by such a piece, still worked.) */
static void burst(int rounds)
{
    uint64_t pieces = 0;
    for (int round = 0; round < rounds; round++) {
        hasher           h = { 0 };
        htc_host_options o = { .size = sizeof o, .workers = 3 };
        race_check(htc_host_create(NULL, &o, &h.host) == HTC_OK, "a host");
        for (uint64_t i = 0; i < BURST; i++)
            race_check(on_call(&h, h.host, CALL_HASH, i, htc_bytes_of("burst")) == HTC_OK, "work");
        htc_host_destroy(h.host);
        race_check(h.accepted == h.done && h.done == BURST * CHAIN, "%lu pieces of work accepted, %lu done",
                   (unsigned long)h.accepted, (unsigned long)h.done);
        pieces += h.done;
    }
    printf("%d hosts destroyed, %lu pieces of work\n", rounds, (unsigned long)pieces);
    race_said("a host that is destroyed finishes its work");
}

int main(void)
{
    burst(30);
    scene(CLIENTS * LIVES * REQUESTS, 0, "every request of every client is answered, and with its own answer");
    for (int i = 0; i < 3; i++)
        scene(100 + 50 * (uint64_t)i, 1, "an end in the middle: what was accepted is done");
    return 0;
}
