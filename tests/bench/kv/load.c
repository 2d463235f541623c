/* A closed loop of requests to any store that htcsched/store.h opens: so many connections, so many submissions on their way on each,
 * so many requests in each submission; whoever is answered asks again. One JSON line: operations a second, p50 and p99 of a
 * submission from its beginning to its last answer, CPU of the servers an operation.
 *
 *     kv_load [-o get|put|cas|add] [-c CONNECTIONS] [-d DEPTH] [-b BATCH] [-s SECONDS] [-k KEYS] [-p PID[,PID...]]
 *             [-K KEY_FILE -R RING_FILE] [-n NAME] ADDRESS...
 *
 * Connections are dealt to the addresses in turn. Keys of 16 bytes drawn at random, values of 128; a compare-and-swap expects the value
 * that is there. native.sh asks for the rows. */
#include "bench.h"

#include <dirent.h>
#include <unistd.h>

#include "htcsched/host.h"
#include "htcsched/store.h"

enum { CONNECTIONS_MAX = 1024, DEPTH_MAX = 64, BATCH_MAX = 256, VALUE = 128, KEY = 16, SAMPLES_MAX = 4000000 };

typedef struct conn {
    htc_store *store;
    htc_ns     sent[DEPTH_MAX]; /* of each submission on its way */
} conn;

typedef struct load {
    const char *name, *op_name, *pids;
    uint32_t    op;
    unsigned    connections, depth, batch;
    uint64_t    keys;
    double      seconds;
    conn       *conn;
    htc_rng     rng;
    uint32_t   *samples; /* ns */
    size_t      sample_count;
    uint64_t    done;
    int         over;
} load;

static void fatal(const char *what, const char *why)
{
    fprintf(stderr, "%s: %s\n", what, why);
    exit(1);
}

static char value[VALUE];

static void draw(load *l, htc_kv_request *q, char key[KEY + 1], uint64_t number)
{
    snprintf(key, KEY + 1, "%c%015llu", l->op == HTC_KV_ADD ? 'n' : 'k', (unsigned long long)number % 1000000000000000);
    *q = (htc_kv_request){ .op = l->op, .key = { key, KEY }, .delta = 1 };
    if (l->op == HTC_KV_PUT || l->op == HTC_KV_CAS_VALUE)
        q->value = (htc_bytes){ value, VALUE };
    if (l->op == HTC_KV_CAS_VALUE)
        q->seen = q->value;
}

static void submit(load *l, conn *c, unsigned slot)
{
    static htc_kv_request q[BATCH_MAX];
    static char           keys[BATCH_MAX][KEY + 1];
    for (unsigned i = 0; i < l->batch; i++)
        draw(l, &q[i], keys[i], htc_rng_below(&l->rng, l->keys));
    c->sent[slot] = htc_host_now();
    htc_status status = htc_store_submit(c->store, q, l->batch, slot);
    if (status != HTC_OK)
        fatal("submit", htc_strerror(status));
}

static void note(load *l, conn *c, const htc_kv_result *r)
{
    if (r->status != HTC_OK)
        fatal(l->op_name, htc_strerror(r->status));
    l->done++;
    if (!r->last)
        return;
    htc_ns took = htc_host_now() - c->sent[r->tag];
    if (l->sample_count < SAMPLES_MAX)
        l->samples[l->sample_count++] = took > UINT32_MAX ? UINT32_MAX : (uint32_t)took;
    if (!l->over)
        submit(l, c, (unsigned)r->tag);
}

/* Every answer that is there; wait: for the first of them. How many. */
static unsigned take(load *l, conn *c, htc_ns wait)
{
    htc_kv_result r;
    unsigned      n = 0;
    htc_status    status;
    while ((status = htc_store_next(c->store, n ? 0 : wait, &r)) == HTC_OK) {
        note(l, c, &r);
        n++;
        if (n >= l->depth * l->batch)
            break; /* the others' turn */
    }
    if (status != HTC_OK && status != HTC_ETIMEDOUT && status != HTC_EMPTY)
        fatal("next", htc_strerror(status));
    return n;
}

/* Round after round; where nobody had an answer, the one whose turn it is is waited for. */
static void run(load *l, double seconds)
{
    htc_ns end = htc_host_now() + (htc_ns)(seconds * 1e9);
    l->over = 0;
    l->done = l->sample_count = 0;
    for (unsigned i = 0; i < l->connections; i++) {
        for (unsigned slot = 0; slot < l->depth; slot++)
            submit(l, &l->conn[i], slot);
    }
    for (unsigned i = 0, idle = 0; htc_host_now() < end; i = (i + 1) % l->connections)
        idle = take(l, &l->conn[i], idle >= l->connections ? HTC_SECOND : 0) ? 0 : idle + 1;
}

static void finish(load *l)
{
    l->over = 1;
    for (unsigned i = 0; i < l->connections; i++) {
        while (take(l, &l->conn[i], HTC_NEVER)) {
        }
    }
}

/* ---- what the servers use ---- */

static uint64_t cpu_of(long pid)
{
    char           path[64];
    uint64_t       sum = 0;
    struct dirent *d;
    snprintf(path, sizeof path, "/proc/%ld/task", pid);
    DIR *tasks = opendir(path);
    if (!tasks)
        fatal(path, "there is no such process");
    while ((d = readdir(tasks))) {
        char               file[512];
        unsigned long long ns = 0;
        snprintf(file, sizeof file, "%s/%s/schedstat", path, d->d_name);
        FILE *f = fopen(file, "re");
        if (f && fscanf(f, "%llu", &ns) == 1)
            sum += ns;
        if (f)
            fclose(f);
    }
    closedir(tasks);
    return sum;
}

static uint64_t cpu_of_all(const char *pids)
{
    uint64_t sum = 0;
    for (const char *p = pids; p && *p; p += strspn(p, ",")) {
        char *end;
        sum += cpu_of(strtol(p, &end, 10));
        p = end;
    }
    return sum;
}

/* ---- the row ---- */

static void fill(load *l)
{
    load           filler = *l;
    htc_kv_request q[100];
    char           keys[100][KEY + 1];
    filler.op = l->op == HTC_KV_ADD ? HTC_KV_ADD : HTC_KV_PUT;
    for (uint64_t at = 0; at < l->keys;) {
        htc_kv_result r;
        unsigned      n = 0;
        for (; n < 100 && at < l->keys; n++)
            draw(&filler, &q[n], keys[n], at++);
        bench_must(htc_store_submit(l->conn[0].store, q, n, 0) == HTC_OK, "filling");
        while (htc_store_next(l->conn[0].store, HTC_NEVER, &r) == HTC_OK)
            bench_must(r.status == HTC_OK, "filling");
    }
}

static int by_length(const void *a, const void *b)
{
    uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    return (x > y) - (x < y);
}

static void measure(load *l)
{
    fill(l);
    run(l, l->seconds / 4); /* warm */
    finish(l);
    uint64_t cpu = cpu_of_all(l->pids);
    htc_ns   begun = htc_host_now();
    run(l, l->seconds);
    double   seconds = (double)(htc_host_now() - begun) * 1e-9;
    uint64_t done = l->done;
    cpu = cpu_of_all(l->pids) - cpu;
    finish(l);
    if (done == 0 || l->sample_count == 0)
        fatal(l->name, "nothing was answered");
    qsort(l->samples, l->sample_count, sizeof *l->samples, by_length);
    printf("{\"bench\":\"kv_native\",\"case\":\"%s\",\"op\":\"%s\",\"connections\":%u,\"depth\":%u,\"batch\":%u,\"per_"
           "s\":%.0f,"
           "\"p50_us\":%.1f,\"p99_us\":%.1f",
           l->name, l->op_name, l->connections, l->depth, l->batch, (double)done / seconds,
           l->samples[l->sample_count / 2] * 1e-3, l->samples[l->sample_count / 100 * 99] * 1e-3);
    if (l->pids)
        printf(",\"server_cpu_us\":%.3f", (double)cpu * 1e-3 / (double)done);
    printf("}\n");
}

static void set_op(load *l, const char *name)
{
    static const struct {
        const char *name;
        uint32_t    op;
    } ops[] = { { "get", HTC_KV_GET }, { "put", HTC_KV_PUT }, { "cas", HTC_KV_CAS_VALUE }, { "add", HTC_KV_ADD } };
    l->op_name = name;
    for (size_t i = 0; i < sizeof ops / sizeof *ops; i++) {
        if (strcmp(ops[i].name, name) == 0)
            l->op = ops[i].op;
    }
    if (!l->op)
        fatal(name, "get, put, cas or add is expected");
}

static unsigned number(const char *text, unsigned max)
{
    unsigned long n = strtoul(text, NULL, 10);
    if (n == 0 || n > max)
        fatal(text, "too many, or none");
    return (unsigned)n;
}

static void connect_all(load *l, htc_store_options *o, char **addresses, unsigned n)
{
    l->conn = calloc(l->connections, sizeof *l->conn);
    l->samples = malloc(SAMPLES_MAX * sizeof *l->samples);
    bench_must(l->conn && l->samples, "memory");
    for (unsigned i = 0; i < l->connections; i++) {
        htc_error error = { 0 };
        o->address = addresses[i % n];
        if (htc_store_open(NULL, o, &l->conn[i].store, &error) != HTC_OK)
            fatal("open", error.text);
    }
}

int main(int argc, char **argv)
{
    load              l = { .name = "native",
                            .op_name = "get",
                            .op = HTC_KV_GET,
                            .connections = 1,
                            .depth = 1,
                            .batch = 1,
                            .keys = 50000,
                            .seconds = 1 };
    htc_store_options o = { .size = sizeof o, .timeout_ns = 60 * HTC_SECOND };
    int               c;
    htc_host_random(&l.rng, sizeof l.rng);
    memset(value, 'x', sizeof value);
    while ((c = getopt(argc, argv, "o:c:d:b:s:k:p:K:R:n:")) > 0) {
        switch (c) {
        case 'o':
            set_op(&l, optarg);
            break;
        case 'c':
            l.connections = number(optarg, CONNECTIONS_MAX);
            break;
        case 'd':
            l.depth = number(optarg, DEPTH_MAX);
            break;
        case 'b':
            l.batch = number(optarg, BATCH_MAX);
            break;
        case 'k':
            l.keys = number(optarg, 100000000);
            break;
        case 's':
            l.seconds = strtod(optarg, NULL);
            break;
        case 'p':
            l.pids = optarg;
            break;
        case 'K':
            o.key_path = optarg;
            break;
        case 'R':
            o.ring_path = optarg;
            break;
        case 'n':
            l.name = optarg;
            break;
        default:
            return 2;
        }
    }
    if (optind == argc)
        fatal(argv[0], "which ADDRESS?");
    connect_all(&l, &o, argv + optind, (unsigned)(argc - optind));
    measure(&l);
    for (unsigned i = 0; i < l.connections; i++)
        htc_store_close(l.conn[i].store);
    free(l.conn);
    free(l.samples);
    return 0;
}
