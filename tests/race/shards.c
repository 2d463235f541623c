/* Hosts that each run in a thread of their own and share nothing: what is posted to them from everywhere, connections that one of them
 * accepts and the others serve, stores that begin, work and end side by side. */
#include <netinet/in.h>
#include <stdatomic.h>
#include <sys/socket.h>

#include "htcsched/kv_store.h"
#include "htcsched/metrics_host.h"
#include "race.h"

enum { SHARDS = 4, POSTERS = 4, POSTS = 500, CLIENTS = 40, EVENT = 1000 };

/* ---- what is posted is done once, in order, in the loop's thread ---- */

typedef struct counter {
    htc_host *host;
    pthread_t thread;
    int       started;
    uint64_t  seen[POSTERS], done; /* the loop's thread alone */
} counter;

typedef struct letter {
    counter *to;
    uint64_t from, number;
} letter;

static void counted(void *ctx)
{
    letter  *l = ctx;
    counter *c = l->to;
    race_check(!c->started || pthread_equal(c->thread, pthread_self()), "another thread");
    race_check(l->number == c->seen[l->from] + 1, "%lu after %lu", (unsigned long)l->number, (unsigned long)c->seen[l->from]);
    c->seen[l->from]++;
    if (++c->done == POSTERS * POSTS && c->started)
        htc_host_stop(c->host, HTC_OK);
    free(l);
}

static htc_status count_step(void *self, const htc_input *in, htc_output *out)
{
    counter *c = self;
    (void)out;
    if (in->kind == HTC_IN_START) {
        c->thread = pthread_self();
        c->started = 1;
    }
    return HTC_OK;
}

static const htc_machine_ops count_ops = { sizeof count_ops, count_step, race_never, NULL, 0 };

static counter counters[SHARDS];

static void *count_all(void *ctx)
{
    counter *c = ctx;
    race_check(htc_host_run(c->host, &count_ops, c) == HTC_OK, "run");
    return NULL;
}

static void *post_all(void *ctx)
{
    uint64_t from = *(uint64_t *)ctx;
    for (uint64_t i = 1; i <= POSTS; i++)
        for (int s = 0; s < SHARDS; s++) {
            letter *l = malloc(sizeof *l);
            race_check(l != NULL, "memory");
            *l = (letter){ &counters[s], from, i };
            race_check(htc_host_post(counters[s].host, counted, l) == HTC_OK, "post");
        }
    return NULL;
}

static void posts(void)
{
    pthread_t loops[SHARDS], posters[POSTERS];
    uint64_t  from[POSTERS] = { 0, 1, 2, 3 };
    for (int i = 0; i < SHARDS; i++)
        race_check(htc_host_create(NULL, NULL, &counters[i].host) == HTC_OK, "a host");
    race_threads(loops, SHARDS - 1, count_all, counters, sizeof *counters); /* the last one never runs: its destruction does it all */
    race_threads(posters, POSTERS, post_all, from, sizeof *from);
    race_threads_join(posters, POSTERS);
    race_threads_join(loops, SHARDS - 1);
    for (int i = 0; i < SHARDS; i++) {
        htc_host_destroy(counters[i].host);
        race_check(counters[i].done == POSTERS * POSTS, "%lu done", (unsigned long)counters[i].done);
    }
    race_said("what is posted is done once, in order, in the loop's thread");
}

/* ---- stores side by side ---- */

typedef struct shard {
    htc_env               env;
    htc_rng               rng;
    htc_host             *host;
    htc_kv_store         *store;
    htc_kv_member         members[SHARDS];
    htc_kv_server_options server;
    htc_kv_store_options  options;
    char                  dir[RACE_DIR + 16], path[RACE_DIR + 32];
    htc_status            status;
} shard;

static shard shards[SHARDS];
static char  top[RACE_DIR];

typedef struct front {
    htc_host *host;
    uint32_t  ended;
    uint16_t  port;
} front;

static front f;

static void one_ended(void *ctx)
{
    (void)ctx;
    if (++f.ended == SHARDS)
        htc_host_stop(f.host, HTC_OK);
}

static void *serve(void *ctx)
{
    shard *x = ctx;
    x->status = htc_host_run(x->host, htc_kv_server_ops(), htc_kv_store_server(x->store));
    race_check(htc_host_post(f.host, one_ended, NULL) == HTC_OK, "post");
    return NULL;
}

static void end_it(void *ctx)
{
    shard *x = ctx;
    htc_host_event(x->host, HTC_KV_SERVER_SHUTDOWN, HTC_OK, (htc_bytes){ 0 });
}

static htc_status front_step(void *self, const htc_input *in, htc_output *out)
{
    (void)self, (void)out;
    if (in->kind == HTC_IN_EVENT && in->op == EVENT)
        for (int i = 0; i < SHARDS; i++)
            race_check(htc_host_post(shards[i].host, end_it, &shards[i]) == HTC_OK, "post");
    return HTC_OK;
}

static const htc_machine_ops front_ops = { sizeof front_ops, front_step, race_never, NULL, 0 };

static void *serve_front(void *ctx)
{
    race_check(htc_host_run(f.host, &front_ops, ctx) == HTC_OK, "the front");
    return NULL;
}

static void wants_an_end(void *ctx)
{
    (void)ctx;
    htc_host_event(f.host, EVENT, HTC_OK, (htc_bytes){ 0 });
}

static void open_shard(int i)
{
    shard *x = &shards[i];
    htc_host_random(&x->rng.state, sizeof x->rng.state);
    x->env = (htc_env){ .size = sizeof x->env, .rng = &x->rng };
    snprintf(x->dir, sizeof x->dir, "%s/%d", top, i);
    snprintf(x->path, sizeof x->path, "%s/%d.sock", top, i);
    race_check(htc_host_create(&x->env, NULL, &x->host) == HTC_OK, "a host");
    race_check(htc_host_listen_unix(x->host, x->path, 0600, 1, NULL) == HTC_OK, "listen");
}

static void meet(int i)
{
    shard *x = &shards[i];
    for (int j = 0; j < SHARDS; j++) {
        x->members[j] = (htc_kv_member){ .id = (uint64_t)j + 1, .process = 1 };
        if (j != i)
            race_check(htc_host_dial_unix(x->host, shards[j].path, 3, &x->members[j].peer, NULL) == HTC_OK, "dial");
    }
    x->server = (htc_kv_server_options){ .size = sizeof x->server, .resp_port = 2, .self = (uint64_t)i + 1 };
    x->server.members = x->members;
    x->server.member_count = SHARDS;
    x->options = (htc_kv_store_options){ .size = sizeof x->options, .dir = x->dir, .durability = HTC_KV_INTERVAL };
    x->options.engine = HTC_KV_LOG;
    x->options.segment_bytes = 1 << 20;
    x->options.server = &x->server;
    race_check(htc_kv_store_open(&x->env, &x->options, &x->store, NULL) == HTC_OK, "a store");
    htc_kv_store_attach(x->store, x->host);
}

static size_t ask(int fd, const char *line, char *answer, size_t cap)
{
    race_check(write(fd, line, strlen(line)) == (ssize_t)strlen(line), "write");
    ssize_t n = read(fd, answer, cap - 1);
    race_check(n > 0, "an answer to %s", line);
    answer[n] = 0;
    return (size_t)n;
}

/* Adds one to each of its keys, and to the one of all. */
static void *client(void *ctx)
{
    struct sockaddr_in at = { .sin_family = AF_INET, .sin_port = htons(f.port), .sin_addr = { htonl(INADDR_LOOPBACK) } };
    char               line[64], answer[256];
    int                fd = socket(AF_INET, SOCK_STREAM, 0);
    (void)ctx;
    race_check(fd >= 0 && connect(fd, (struct sockaddr *)&at, sizeof at) == 0, "connect");
    for (int i = 0; i < 20; i++) {
        snprintf(line, sizeof line, "INCR key%d\r\n", i);
        ask(fd, line, answer, sizeof answer);
        race_check(answer[0] == ':', "INCR: %s", answer);
    }
    ask(fd, "INCR all\r\n", answer, sizeof answer);
    close(fd);
    return NULL;
}

static uint64_t count_of(const char *key)
{
    struct sockaddr_in at = { .sin_family = AF_INET, .sin_port = htons(f.port), .sin_addr = { htonl(INADDR_LOOPBACK) } };
    char               line[64], answer[256];
    int                fd = socket(AF_INET, SOCK_STREAM, 0);
    race_check(fd >= 0 && connect(fd, (struct sockaddr *)&at, sizeof at) == 0, "connect");
    snprintf(line, sizeof line, "GET %s\r\n", key);
    ask(fd, line, answer, sizeof answer);
    close(fd);
    const char *number = strchr(answer, '\n');
    return answer[0] == '$' && number ? strtoull(number + 1, NULL, 10) : 0;
}

/* The front's thread accepts and deals, each shard's serves; all end when the front is told to. */
static void stores(int life)
{
    pthread_t               threads[SHARDS], front_thread, clients[CLIENTS];
    htc_host               *to[SHARDS];
    htc_host_stream_options so = { .size = sizeof so, .address = "127.0.0.1:0", .port = 2 };
    f = (front){ 0 };
    race_check(htc_host_create(NULL, NULL, &f.host) == HTC_OK, "a host");
    race_check(htc_host_listen_stream(f.host, &so, &f.port, NULL) == HTC_OK, "listen");
    for (int i = 0; i < SHARDS; i++)
        open_shard(i);
    for (int i = 0; i < SHARDS; i++) {
        meet(i);
        to[i] = shards[i].host;
    }
    race_check(htc_host_deal(f.host, to, SHARDS) == HTC_OK, "deal");
    race_threads(threads, SHARDS, serve, shards, sizeof *shards);
    race_check(pthread_create(&front_thread, NULL, serve_front, NULL) == 0, "a thread");
    race_threads(clients, CLIENTS, client, shards, 0);
    race_threads_join(clients, CLIENTS);
    uint64_t want = (uint64_t)CLIENTS * ((uint64_t)life + 1);
    race_check(count_of("all") == want && count_of("key7") == want, "%lu of %lu", (unsigned long)count_of("all"), (unsigned long)want);
    race_check(htc_host_post(f.host, wants_an_end, NULL) == HTC_OK, "post");
    race_check(pthread_join(front_thread, NULL) == 0, "join");
    race_threads_join(threads, SHARDS);
    htc_host_destroy(f.host);
    for (int i = 0; i < SHARDS; i++) {
        race_check(shards[i].status == HTC_OK, "%s", htc_strerror(shards[i].status));
        htc_host_destroy(shards[i].host);
        htc_kv_store_close(shards[i].store);
    }
    race_said("shards of one process serve, end, and begin again with what they had");
}

int main(void)
{
    posts();
    race_dir(top);
    for (int life = 0; life < 3; life++)
        stores(life);
    race_dir_end(top);
    return 0;
}
