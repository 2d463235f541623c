/* What encryption costs a member of the store: CPU of its process for an operation asked for over loopback TCP, through a secure
 * channel against in the clear, 50 connections, one or 16 operations on the way at a time. Two servers run side by side, and
 * are asked in turns; a row is the median of the rounds. */
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "bench.h"
#include "htcsched/host_keys.h"
#include "htcsched/keys.h"
#include "htcsched/kv_store.h"
#include "htcsched/store.h"

enum { CONNECTIONS = 50, KEYS = 1000, KEY = 16, VALUE = 128, DEPTH_MAX = 16 };

static char dir[64], key[96], ring[96], mine[96], theirs[96], token[96];

typedef struct server {
    pid_t      pid;
    clockid_t  clock;
    htc_store *stores[CONNECTIONS];
} server;

static void must(htc_status status, const char *what)
{
    bench_must(status == HTC_OK, what);
}

/* ---- the server ---- */

static void serve(int secure, int ready)
{
    htc_rng               rng;
    htc_env               env = { .size = sizeof env, .rng = &rng };
    htc_kv_store         *store;
    htc_host             *host;
    htc_host_keys        *keys;
    uint16_t              port = 0;
    htc_host_options      ho = { .size = sizeof ho };
    htc_kv_store_options  so = { .size = sizeof so, .durability = HTC_KV_MEMORY };
    htc_host_keys_options ko = {
        .size = sizeof ko, .key_path = key, .ring_path = ring, .rate = 1000000, .burst = 1000000
    };
    htc_host_keys_listen_options lo = { .size = sizeof lo, .address = "127.0.0.1:0", .port = 1 };
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    htc_host_random(&rng.state, sizeof rng.state);
    must(htc_kv_store_open(&env, &so, &store, NULL), "a store");
    must(htc_host_create(&env, &ho, &host), "a host");
    if (secure) {
        must(htc_host_keys_open(host, &ko, &keys, NULL), "keys");
        must(htc_host_keys_listen(keys, &lo, &port, NULL), "a port");
    } else {
        must(htc_host_listen_tcp(host, "127.0.0.1", 0, token, 1, &port, NULL), "a port");
    }
    htc_kv_store_attach(store, host);
    bench_must(write(ready, &port, sizeof port) == sizeof port, "ready");
    htc_host_run(host, htc_kv_server_ops(), htc_kv_store_server(store));
    _exit(0);
}

static void start(server *s, int secure)
{
    int      ready[2];
    uint16_t port;
    char     address[64];
    bench_must(pipe(ready) == 0, "pipe");
    fflush(stdout);
    s->pid = fork();
    bench_must(s->pid >= 0, "fork");
    if (s->pid == 0)
        serve(secure, ready[1]);
    bench_must(read(ready[0], &port, sizeof port) == sizeof port, "a server");
    close(ready[0]);
    close(ready[1]);
    bench_must(clock_getcpuclockid(s->pid, &s->clock) == 0, "its clock");
    snprintf(address, sizeof address, "tcp://127.0.0.1:%u", port);
    for (int i = 0; i < CONNECTIONS; i++) {
        htc_store_options o = { .size = sizeof o, .address = address, .token_path = token };
        o.key_path = secure ? mine : NULL;
        o.ring_path = secure ? theirs : NULL;
        must(htc_store_open(NULL, &o, &s->stores[i], NULL), "a connection");
    }
}

static double cpu_of(const server *s)
{
    struct timespec t;
    bench_must(clock_gettime(s->clock, &t) == 0, "its clock");
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* ---- the clients: each has depth operations on its way, in one request ---- */

static uint64_t drawn = 88172645463325252u;

static void ask(htc_store *store, uint32_t op, int depth)
{
    static const char value[VALUE] = { 1 };
    char              names[DEPTH_MAX][KEY + 1];
    htc_kv_request    q[DEPTH_MAX];
    for (int i = 0; i < depth; i++) {
        drawn ^= drawn << 13, drawn ^= drawn >> 7, drawn ^= drawn << 17;
        snprintf(names[i], sizeof names[i], "key-%012u", (unsigned)(drawn % KEYS));
        q[i] = (htc_kv_request){ .size = sizeof(htc_kv_request), .op = op, .key = { names[i], KEY } };
        if (op == HTC_KV_PUT)
            q[i].value = (htc_bytes){ value, VALUE };
    }
    must(htc_store_submit(store, q, (size_t)depth, 0), "a request");
}

static htc_status one_answer(htc_store *store, htc_ns wait)
{
    htc_kv_result r = { .size = sizeof r };
    htc_status    status = htc_store_next(store, wait, &r);
    bench_must(status != HTC_OK || r.status == HTC_OK, "an answer");
    return status;
}

static void answers(htc_store *store)
{
    htc_status status;
    while ((status = one_answer(store, 10 * HTC_SECOND)) == HTC_OK)
        ;
    bench_must(status == HTC_EMPTY, "all answers");
}

static double round_of(server *s, uint32_t op, int depth, int turns)
{
    double begin = cpu_of(s);
    for (int t = 0; t < turns; t++) {
        for (int i = 0; i < CONNECTIONS; i++)
            ask(s->stores[i], op, depth);
        for (int i = 0; i < CONNECTIONS; i++)
            one_answer(s->stores[i], 0); /* it leaves for all before one is waited for */
        for (int i = 0; i < CONNECTIONS; i++)
            answers(s->stores[i]);
    }
    return (cpu_of(s) - begin) * 1e9 / ((double)turns * CONNECTIONS * depth);
}

static void fill(server *s)
{
    static const char value[VALUE] = { 1 };
    for (unsigned i = 0; i < KEYS; i++) {
        char          name[KEY + 1];
        htc_kv_result r = { .size = sizeof r };
        snprintf(name, sizeof name, "key-%012u", i);
        must(htc_store_ask(s->stores[0],
                           &(htc_kv_request){ .size = sizeof(htc_kv_request), .op = HTC_KV_PUT, .key = { name, KEY }, .value = { value, VALUE } }, &r,
                           NULL),
             "a record");
    }
}

static void compare(const bench *b, server *plain, server *secure, uint32_t op, const char *name, int depth,
                    double goal)
{
    enum { ROUNDS = 11 };
    double a[ROUNDS], c[ROUNDS], ratio[ROUNDS];
    char   what[96];
    int    turns = (b->quick ? 40 : 400) / (depth > 1 ? 4 : 1);
    for (int i = 0; i < ROUNDS; i++) {
        a[i] = round_of(plain, op, depth, turns);
        c[i] = round_of(secure, op, depth, turns);
        ratio[i] = c[i] / a[i];
    }
    snprintf(what, sizeof what, "server CPU, %s at depth %d, in the clear", name, depth);
    bench_row(b, &(bench_figure){ .what = what, .n = CONNECTIONS, .unit = "ns", .value = bench_median(a, ROUNDS) });
    snprintf(what, sizeof what, "server CPU, %s at depth %d, encrypted", name, depth);
    bench_row(b, &(bench_figure){ .what = what, .n = CONNECTIONS, .unit = "ns", .value = bench_median(c, ROUNDS) });
    snprintf(what, sizeof what, "ratio, %s at depth %d", name, depth);
    bench_row(b, &(bench_figure){
                     .what = what, .n = CONNECTIONS, .unit = "1", .value = bench_median(ratio, ROUNDS), .goal = goal });
}

typedef struct pin {
    const char *name;
    uint32_t    role;
    uint8_t     key[HTC_KEY_BYTES];
} pin;

static htc_status set(void *ctx, htc_keyring *r)
{
    const pin *p = ctx;
    return htc_keyring_set(r, p->name, p->role, HTC_KEY_CURRENT, p->key);
}

int main(int argc, char **argv)
{
    bench  b = bench_open("kv_secure", argc, argv);
    server plain = { .pid = 0 }, secure = { .pid = 0 };
    char   command[128];
    pin server_pin = { .name = "store", .role = HTC_KEY_MEMBER }, user_pin = { .name = "user", .role = HTC_KEY_USER };
    snprintf(dir, sizeof dir, "/tmp/htc-bench-XXXXXX");
    bench_must(mkdtemp(dir) != NULL, "a directory");
    snprintf(key, sizeof key, "%s/server.key", dir);
    snprintf(ring, sizeof ring, "%s/server.ring", dir);
    snprintf(mine, sizeof mine, "%s/own.key", dir);
    snprintf(theirs, sizeof theirs, "%s/own.ring", dir);
    snprintf(token, sizeof token, "%s/token", dir);
    must(htc_keys_create(key, server_pin.key, NULL), "a key");
    must(htc_keys_create(mine, user_pin.key, NULL), "a key");
    must(htc_keys_change_ring(ring, set, &user_pin, NULL), "a ring");
    must(htc_keys_change_ring(theirs, set, &server_pin, NULL), "a ring");
    start(&plain, 0);
    start(&secure, 1);
    fill(&plain);
    fill(&secure);
    for (int depth = 1; depth <= DEPTH_MAX; depth *= DEPTH_MAX) {
        compare(&b, &plain, &secure, HTC_KV_GET, "GET", depth, depth == 1 ? 1.3 : 1.7);
        compare(&b, &plain, &secure, HTC_KV_PUT, "SET", depth, depth == 1 ? 1.3 : 1.7);
    }
    server *all[] = { &plain, &secure };
    for (int i = 0; i < 2; i++) {
        for (int k = 0; k < CONNECTIONS; k++)
            htc_store_close(all[i]->stores[k]);
        kill(all[i]->pid, SIGKILL);
        waitpid(all[i]->pid, NULL, 0);
    }
    snprintf(command, sizeof command, "rm -rf '%s'", dir);
    bench_must(system(command) == 0, "removed");
    return bench_close(&b);
}
