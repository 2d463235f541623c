/* A closed loop of requests to the store in its own protocol: so many connections, so many requests on their way on each, so many
 * operations in each request; whoever is answered asks again. One JSON line: operations a second, p50 and p99 of a request from its
 * sending to its last answer, what an operation cost the servers (CPU time, and where the processor's counters may be read cycles and
 * instructions, which a busy machine changes less), CPU time of this program, and what failed.
 *
 *     kv_load [-o get|put|cas|add|hot|new] [-O] [-c CONNECTIONS] [-d DEPTH] [-b BATCH] [-s SECONDS] [-w WARM_UP_SECONDS] [-m OPERATIONS]
 *             [-k KEYS] [-a FIRST_NEW_KEY] [-F] [-p PID[,PID...]] [-T TOKEN_FILE | -K KEY_FILE -R RING_FILE] [-n NAME] ADDRESS...
 *     kv_load -o echo [-c CONNECTIONS] [-d DEPTH] [-s SECONDS] [-e CPU] [-n NAME] tcp|unix
 *
 *   get, put, add  a key drawn at random
 *   cas            by version, keys of one's own      hot  by version, one key for all; an operation is a try that won
 *   new            a key that was never there, from FIRST_NEW_KEY on
 *   echo           a process of its own that looks at nothing, asked with a put
 *   -O  each of CONNECTIONS is a client that has one to each address, and asks the owner of the key (one operation a request)
 *   -m  ends after so many operations, SECONDS at the latest      -F  the KEYS are there already
 *
 * Connections are dealt to the addresses in turn. Keys of 16 bytes, values of 128. native.sh and cluster.sh ask for the rows. */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/wait.h>
#include <unistd.h>

#include "htcsched/host.h"
#include "kv/load.h"

/* Steps of a histogram: each power of two in 64 parts. */
enum { PARTS = 64, STEPS = 64 * PARTS };

typedef struct load {
    load_asker  asker;
    const char *name, *op_name, *pids, *token, *key, *ring;
    double      seconds, warm_up;
    uint64_t    most; /* operations; 0: no bound */
    int         filled, owners;
    load_conn  *conns;
    int         epoll, over;
    uint64_t    steps[STEPS], samples;
    pid_t       echo;
    int         echo_cpu; /* -1: any */
    char        echo_pid[24];
} load;

void load_fatal(const char *what, const char *why)
{
    fprintf(stderr, "%s: %s\n", what, why);
    exit(1);
}

/* ---- how long it took ---- */

static unsigned step_of(uint64_t ns)
{
    if (ns < PARTS)
        return (unsigned)ns;
    unsigned e = 63u - (unsigned)__builtin_clzll(ns) - 6;
    return (e + 1) * PARTS + (unsigned)((ns >> e) & (PARTS - 1));
}

static double us_of(unsigned step)
{
    uint64_t ns = step < PARTS ? step : (uint64_t)(PARTS + step % PARTS) << (step / PARTS - 1);
    return (double)ns * 1e-3;
}

static double percentile(const load *l, double share)
{
    uint64_t seen = 0, wanted = (uint64_t)((double)l->samples * share);
    for (unsigned i = 0; i < STEPS; i++) {
        if ((seen += l->steps[i]) > wanted)
            return us_of(i);
    }
    return 0;
}

/* ---- the loop ---- */

static void flush(load *l, load_conn *c)
{
    load_link_write(&c->link);
    if (c->link.blocked == c->wants_write)
        return;
    struct epoll_event e = { .events = EPOLLIN | (c->link.blocked ? EPOLLOUT : 0u), .data.ptr = c };
    c->wants_write = c->link.blocked;
    if (epoll_ctl(l->epoll, EPOLL_CTL_MOD, c->link.fd, &e) != 0)
        load_fatal("epoll", strerror(errno));
}

/* What goes by the same connection is sent together, by whoever called. */
static void ask_anew(load *l, load_conn *c, load_slot *s, uint64_t now)
{
    load_conn *to = load_ask(&l->asker, c, s, now);
    if (to != c)
        flush(l, to);
}

static void take_frames(load *l, load_conn *c)
{
    htc_reader r = htc_reader_of(htc_buf_bytes(&c->link.in));
    uint64_t   now = htc_host_now();
    size_t     used = 0;
    while (htc_reader_left(&r) >= 4) {
        uint32_t len = htc_get_u32(&r);
        if (len > htc_reader_left(&r))
            break;
        load_slot *s = load_answer(&l->asker, c, htc_get_raw(&r, len));
        used += 4 + (size_t)len;
        if (!s)
            continue;
        l->steps[step_of(now - s->begun)]++;
        l->samples++;
        if (!l->over)
            ask_anew(l, c, s, now);
    }
    if (used == c->link.in.len)
        htc_buf_clear(&c->link.in);
    else
        htc_buf_consume(&c->link.in, used);
}

static void turn(load *l)
{
    struct epoll_event events[256];
    int                n = epoll_wait(l->epoll, events, 256, 30000);
    if (n == 0)
        load_fatal(l->name, "no answer for 30 s");
    for (int i = 0; i < n; i++) {
        load_conn *c = events[i].data.ptr;
        if (events[i].events & (EPOLLIN | EPOLLHUP | EPOLLERR) && load_link_read(&c->link))
            take_frames(l, c);
        flush(l, c);
    }
}

static void run(load *l, double seconds)
{
    htc_ns begun = htc_host_now(), end = begun + (htc_ns)(seconds * 1e9);
    while (htc_host_now() < end && (!l->most || l->asker.done < l->most))
        turn(l);
}

static void ask_all(load *l)
{
    for (unsigned i = 0; i < l->asker.connections; i++) {
        load_conn *c = &l->conns[i * l->asker.links];
        for (unsigned k = 0; k < l->asker.depth; k++)
            ask_anew(l, c, &c->slots[k], htc_host_now());
        flush(l, c);
    }
}

static void finish(load *l)
{
    l->over = 1;
    for (unsigned i = 0; i < l->asker.connections; i++) {
        while (l->conns[i * l->asker.links].active > 0)
            turn(l);
    }
}

/* ---- the row ---- */

static void measure(load *l)
{
    load_asker *a = &l->asker;
    ask_all(l);
    if (l->warm_up > 0)
        run(l, l->warm_up);
    memset(l->steps, 0, sizeof l->steps);
    l->samples = a->done = a->lost = a->again = a->failed = 0;
    load_cost servers, ours;
    load_cost_begin(&servers, l->pids);
    load_cost_begin(&ours, NULL);
    htc_ns begun = htc_host_now();
    run(l, l->seconds);
    double   took = (double)(htc_host_now() - begun) * 1e-9;
    uint64_t done = a->done, samples = l->samples;
    load_cost_end(&servers, l->pids);
    load_cost_end(&ours, NULL);
    finish(l);
    if (a->failed)
        fprintf(stderr, "%s: %llu failed: %s\n", l->name, (unsigned long long)a->failed, htc_strerror(a->why));
    if (done == 0 || samples == 0)
        load_fatal(l->name, "nothing was answered");
    printf("{\"bench\":\"kv_load\",\"case\":\"%s\",\"op\":\"%s\",\"connections\":%u,\"depth\":%u,\"batch\":%u,\"keys\":"
           "%llu,"
           "\"operations\":%llu,\"per_s\":%.0f,\"p50_us\":%.1f,\"p99_us\":%.1f",
           l->name, l->op_name, a->connections, a->depth, a->batch, (unsigned long long)a->keys,
           (unsigned long long)done, (double)done / took, percentile(l, .5), percentile(l, .99));
    if (l->pids)
        printf(",\"server_cpu_us\":%.3f", (double)servers.ns * 1e-3 / (double)done);
    if (servers.counted)
        printf(",\"server_cycles\":%.0f,\"server_instructions\":%.0f", (double)servers.cycles / (double)done,
               (double)servers.instructions / (double)done);
    printf(",\"client_cpu_us\":%.3f,\"lost\":%llu,\"again\":%llu,\"failed\":%llu}\n",
           (double)ours.ns * 1e-3 / (double)done, (unsigned long long)a->lost, (unsigned long long)a->again,
           (unsigned long long)a->failed);
}

static void connect_all(load *l, char **addresses, unsigned n)
{
    load_asker *a = &l->asker;
    load_keys  *keys = l->key ? load_keys_read(l->key, l->ring ? l->ring : "") : NULL;
    a->links = l->owners ? n : 1;
    if (a->links > UINT8_MAX || (l->owners && a->batch != 1))
        load_fatal("-O", "fewer addresses, and one operation a request");
    l->conns = calloc((size_t)a->connections * a->links, sizeof *l->conns);
    l->epoll = epoll_create1(EPOLL_CLOEXEC);
    if (!l->conns || l->epoll < 0)
        load_fatal("connections", strerror(errno));
    if (a->op == LOAD_ECHO) {
        l->echo = load_echo_start(addresses[0], l->echo_cpu, l->conns, a->connections);
        snprintf(l->echo_pid, sizeof l->echo_pid, "%ld", (long)l->echo);
        l->pids = l->echo_pid;
    }
    for (unsigned i = 0; i < a->connections * a->links; i++) {
        load_conn         *c = &l->conns[i];
        struct epoll_event e = { .events = EPOLLIN, .data.ptr = c };
        c->number = i / a->links;
        c->first = &l->conns[c->number * a->links];
        c->client = c->first == c ? htc_rng_next(&a->rng) : c->first->client;
        c->slots = c->first == c ? malloc(a->depth * sizeof *c->slots) : c->first->slots;
        if (!c->slots)
            load_fatal("connections", "no memory");
        memset(c->slots, 0xff, a->depth * sizeof *c->slots);
        if (!l->echo) {
            load_link_open(&c->link, addresses[i % n], l->token, keys);
            load_conn_greet(c);
        }
        if (epoll_ctl(l->epoll, EPOLL_CTL_ADD, c->link.fd, &e) != 0)
            load_fatal("epoll", strerror(errno));
    }
    if (a->links > 1)
        load_learn_owners(a, l->conns);
}

static void prepare(load *l)
{
    load_asker *a = &l->asker;
    uint64_t    least = (uint64_t)a->connections * a->depth * a->batch;
    if (a->op == LOAD_HOT)
        a->keys = 1;
    else if (a->op == LOAD_CAS && a->keys < least)
        a->keys = least;
    if (a->op == LOAD_CAS || a->op == LOAD_HOT)
        a->versions = calloc(a->keys, sizeof *a->versions);
    if (a->op == LOAD_HOT && a->batch != 1)
        load_fatal("hot", "one try a request");
    if (a->op == LOAD_ECHO)
        return;
    if (!l->filled && a->op != LOAD_NEW)
        load_fill(a, &l->conns[0]);
    else if (a->versions)
        load_learn(a, &l->conns[0]);
}

/* ---- options ---- */

static void set_op(load *l, const char *name)
{
    static const struct {
        const char *name;
        load_op     op;
    } ops[] = { { "get", LOAD_GET }, { "put", LOAD_PUT }, { "cas", LOAD_CAS },  { "add", LOAD_ADD },
                { "hot", LOAD_HOT }, { "new", LOAD_NEW }, { "echo", LOAD_ECHO } };
    l->op_name = name;
    l->asker.op = 0;
    for (size_t i = 0; i < sizeof ops / sizeof *ops; i++) {
        if (strcmp(ops[i].name, name) == 0)
            l->asker.op = ops[i].op;
    }
    if (!l->asker.op)
        load_fatal(name, "get, put, cas, add, hot, new or echo is expected");
}

static uint64_t number(const char *text, uint64_t max)
{
    unsigned long long n = strtoull(text, NULL, 10);
    if (n == 0 || n > max)
        load_fatal(text, "too many, or none");
    return n;
}

static void take_option(load *l, int option, const char *text)
{
    load_asker *a = &l->asker;
    switch (option) {
    case 'o':
        set_op(l, text);
        break;
    case 'c':
        a->connections = (unsigned)number(text, LOAD_CONNECTIONS_MAX);
        break;
    case 'd':
        a->depth = (unsigned)number(text, LOAD_DEPTH_MAX);
        break;
    case 'b':
        a->batch = (unsigned)number(text, LOAD_BATCH_MAX);
        break;
    case 'k':
        a->keys = number(text, 1000000000);
        break;
    case 'a':
        a->fresh = number(text, 1000000000000);
        break;
    case 'm':
        l->most = number(text, UINT64_MAX);
        break;
    case 's':
        l->seconds = strtod(text, NULL);
        break;
    case 'w':
        l->warm_up = strtod(text, NULL);
        break;
    case 'e':
        l->echo_cpu = atoi(text);
        break;
    case 'F':
        l->filled = 1;
        break;
    case 'O':
        l->owners = 1;
        break;
    case 'p':
        l->pids = text;
        break;
    case 'T':
        l->token = text;
        break;
    case 'K':
        l->key = text;
        break;
    case 'R':
        l->ring = text;
        break;
    case 'n':
        l->name = text;
        break;
    default:
        exit(2);
    }
}

int main(int argc, char **argv)
{
    static load l = { .name = "native", .op_name = "get", .seconds = 1, .warm_up = 0.1, .echo_cpu = -1 };
    int         option;
    l.asker = (load_asker){ .op = LOAD_GET, .connections = 1, .depth = 1, .batch = 1, .keys = 50000, .fresh = 1 };
    htc_host_random(&l.asker.rng, sizeof l.asker.rng);
    while ((option = getopt(argc, argv, "o:Oc:d:b:e:s:w:m:k:a:Fp:T:K:R:n:")) > 0)
        take_option(&l, option, optarg);
    if (optind == argc)
        load_fatal(argv[0], "which ADDRESS?");
    connect_all(&l, argv + optind, (unsigned)(argc - optind));
    prepare(&l);
    measure(&l);
    if (l.echo > 0) {
        kill(l.echo, SIGKILL);
        waitpid(l.echo, NULL, 0);
    }
    return l.asker.failed != 0;
}
