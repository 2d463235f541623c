/* What a request of a Redis client takes from the bytes that came in to the bytes that go out, at one member whose records are in
 * memory: everything but the sockets. 50 connections speak in turns, each 1 or 16 requests at once; keys of 16 bytes drawn at random,
 * values of 128. ns of CPU an operation.
 *
 *     face [--quick] [RECORDS [CASE]]      CASE: a row, from 0
 *
 * On a busy machine count instructions instead: valgrind --tool=callgrind --toggle-collect='turns*' kv_face --quick 10000 1 */
#include "bench.h"
#include "core/codec.h"
#include "core/wire.h"
#include "htcsched/kv_server.h"

enum { CONNS = 50, VALUE = 128, RESP_PORT = 1, ROUNDS = 400 };

typedef enum op { GET, SET, CAS, INCR, OPS } op;

typedef struct member {
    htc_kv_server *server;
    htc_output    *out;
    size_t         answered; /* bytes, as a check that there were any */
} member;

static void step(member *m, const htc_input *in)
{
    htc_effect e;
    htc_output_clear(m->out);
    bench_must(htc_kv_server_ops()->step(m->server, in, m->out) == HTC_OK, "a step");
    for (size_t i = 0; htc_output_get(m->out, i, &e) == HTC_OK; i++)
        m->answered += e.kind == HTC_OUT_BYTES ? e.body.len : 0;
}

static void put_bulk(htc_buf *b, const char *bytes, int n)
{
    htc_put_text(b, "$%d\r\n", n);
    htc_put_raw(b, (htc_bytes){ bytes, (size_t)n });
    htc_put_text(b, "\r\n");
}

static void request(htc_buf *b, op what, uint64_t key)
{
    char value[VALUE + 1], name[24];
    memset(value, 'x', VALUE);
    snprintf(name, sizeof name, "k%015llu", (unsigned long long)key);
    static const int words[OPS] = { 2, 3, 5, 3 };
    htc_put_text(b, "*%d\r\n", words[what]);
    put_bulk(b, what == GET ? "GET" : what == INCR ? "INCRBY" : "SET", what == INCR ? 6 : 3);
    put_bulk(b, what == INCR ? "counter000000000" : name, 16);
    if (what == INCR)
        put_bulk(b, "1", 1);
    if (what == SET || what == CAS)
        put_bulk(b, value, VALUE);
    if (what == CAS) {
        put_bulk(b, "IFEQ", 4);
        put_bulk(b, value, VALUE);
    }
}

__attribute__((noinline)) static void turns(member *m, const htc_buf *said, int n)
{
    for (int i = 0; i < n; i++) {
        uint32_t peer = (uint32_t)(1 + i % CONNS);
        step(m, &(htc_input){ .size = sizeof(htc_input), .kind = HTC_IN_BYTES, .peer = peer, .body = htc_buf_bytes(&said[i]) });
        if (i % CONNS == CONNS - 1)
            step(m, &(htc_input){ .size = sizeof(htc_input), .kind = HTC_IN_TURN });
    }
}

/* n operations; what was said is written down before the clock starts. */
static double run(member *m, op what, uint64_t records, int depth, htc_rng *rng)
{
    static htc_buf said[ROUNDS * CONNS];
    int            pieces = ROUNDS * CONNS / depth, n = pieces * depth;
    pieces -= pieces % CONNS;
    for (int i = 0; i < pieces; i++) {
        said[i].max = HTC_BUF_MAX;
        htc_buf_clear(&said[i]);
        for (int k = 0; k < depth; k++)
            request(&said[i], what, htc_rng_below(rng, records));
    }
    m->answered = 0;
    double begin = bench_cpu_seconds();
    turns(m, said, pieces);
    double ns = (bench_cpu_seconds() - begin) * 1e9 / (pieces * depth);
    bench_must(m->answered > (size_t)n / 2 * 4, "answers");
    return ns;
}

static void open_member(member *m, htc_env *env)
{
    htc_kv_server_options o = { .size = sizeof o, .resp_port = RESP_PORT };
    htc_buf               info;
    bench_must(htc_output_create(NULL, 0, &m->out) == HTC_OK && htc_kv_server_create(env, &o, &m->server) == HTC_OK,
               "a server");
    step(m, &(htc_input){ .size = sizeof(htc_input), .kind = HTC_IN_START });
    step(m, &(htc_input){ .size = sizeof(htc_input), .kind = HTC_IN_TURN });
    htc_buf_init(&info, NULL, 0);
    htc_peer_info_write(&info, &(htc_peer_info){ HTC_TRANSPORT_TCP, 0, 0, RESP_PORT });
    for (uint32_t peer = 1; peer <= CONNS; peer++)
        step(m, &(htc_input){ .size = sizeof(htc_input), .kind = HTC_IN_OPENED, .peer = peer, .body = htc_buf_bytes(&info) });
    htc_buf_free(&info);
}

static void measure(const bench *b, uint64_t records, int only)
{
    static const char *const names[2 * OPS] = { "GET",      "GET, 16 at once",      "SET",    "SET, 16 at once",
                                                "SET IFEQ", "SET IFEQ, 16 at once", "INCRBY", "INCRBY, 16 at once" };
    htc_rng                  rng = { 1 };
    htc_env                  env = { .size = sizeof env, .rng = &rng };
    member                   m = { 0 };
    htc_buf                  fill;
    open_member(&m, &env);
    htc_buf_init(&fill, NULL, 0);
    for (uint64_t i = 0; i < records; i++) {
        request(&fill, SET, i);
        if (i % 64 < 63 && i < records - 1)
            continue;
        step(&m, &(htc_input){ .size = sizeof(htc_input), .kind = HTC_IN_BYTES, .peer = 1, .body = htc_buf_bytes(&fill) });
        step(&m, &(htc_input){ .size = sizeof(htc_input), .kind = HTC_IN_TURN });
        htc_buf_clear(&fill);
    }
    htc_buf_free(&fill);
    for (int row = 0; row < 2 * OPS; row++) {
        double least = 0;
        for (int i = 0; (only < 0 || only == row) && i < (b->quick ? 3 : 20); i++) {
            double ns = run(&m, (op)(row / 2), records, row % 2 ? 16 : 1, &rng);
            least = i == 0 || ns < least ? ns : least;
        }
        if (only < 0 || only == row)
            bench_row(b, &(bench_figure){ names[row], records, "ns", least, 0, 0 });
    }
    htc_kv_server_destroy(m.server);
    htc_output_destroy(m.out);
}

int main(int argc, char **argv)
{
    int      numbers = 0, only = -1;
    uint64_t records = 0;
    while (numbers < argc - 1 && argv[argc - 1 - numbers][0] != '-')
        numbers++;
    if (numbers > 0)
        records = strtoull(argv[argc - numbers], NULL, 10);
    if (numbers > 1)
        only = atoi(argv[argc - numbers + 1]);
    bench b = bench_open("face", argc - numbers, argv);
    if (records) {
        measure(&b, records, only);
        return bench_close(&b);
    }
    for (records = 10000; records <= (b.quick ? 100000u : 1000000u); records *= 10)
        measure(&b, records, -1);
    return bench_close(&b);
}
