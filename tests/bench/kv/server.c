/* What the backend takes for a request, whatever face asks it: GET and SET of keys of 16 bytes and values of 128 at one member
 * whose records are in memory, keys drawn at random. */
#include "kvs/server/server.h"
#include "bench.h"

enum { KEY = 16, VALUE = 128, ROUND = 1 << 20 };

static uint64_t mix(uint64_t i)
{
    return (i ^ i >> 31) * UINT64_C(0x9e3779b97f4a7c15);
}

static htc_bytes key_of(uint64_t i, uint64_t key[2])
{
    key[0] = mix(i + 1);
    key[1] = i;
    return (htc_bytes){ key, KEY };
}

static void unexpected(void *ctx, uint64_t conn, uint64_t slot, const htc_kv_result *result)
{
    (void)ctx, (void)conn, (void)slot, (void)result;
    bench_must(0, "an answer that had to wait");
}

static double round_of(htc_kv_server *s, uint32_t op, uint64_t records, uint64_t stride, const char *value)
{
    static const htc__kv_stamp nobody = { 0 };
    const htc__kv_face         face = { .answer = unexpected };
    htc__kv_backend            backend = htc__kv_backend_of(s);
    uint64_t                   n = op == HTC_KV_PUT && stride == 1 ? records : ROUND, sum = 0;
    double                     begin = bench_cpu_seconds();
    for (uint64_t i = 0; i < n; i++) {
        uint64_t       key[2];
        htc_kv_result  r = { .size = sizeof r };
        htc_kv_request q = { .size = sizeof q, .op = op, .key = key_of(i * stride % records, key) };
        if (op == HTC_KV_PUT)
            q.value = (htc_bytes){ value, VALUE };
        bench_must(backend.ask(backend.ctx, &q, &nobody, &face, 0, 0, &r) && r.status == HTC_OK, "answered at once");
        sum += r.value.len;
    }
    double ns = (bench_cpu_seconds() - begin) * 1e9 / (double)n;
    bench_must(op != HTC_KV_GET || sum == n * VALUE, "every value");
    return ns;
}

int main(void)
{
    char value[VALUE] = { 1 };
    printf("%10s %12s %12s %12s\n", "records", "fill ns", "GET ns", "SET ns");
    for (uint64_t records = 10000; records <= 1000000; records *= 10) {
        htc_rng               rng = { 1 };
        htc_env               env = { .size = sizeof env, .rng = &rng };
        htc_kv_server_options o = { .size = sizeof o };
        htc_kv_server        *s = NULL;
        htc_output           *out;
        htc_input             in = { .size = sizeof in, .kind = HTC_IN_START };
        bench_must(htc_output_create(NULL, 0, &out) == HTC_OK && htc_kv_server_create(&env, &o, &s) == HTC_OK &&
                       htc_kv_server_ops()->step(s, &in, out) == HTC_OK,
                   "a server");
        double fill = round_of(s, HTC_KV_PUT, records, 1, value);
        double get = round_of(s, HTC_KV_GET, records, 7919, value), set = round_of(s, HTC_KV_PUT, records, 7919, value);
        printf("%10llu %12.0f %12.0f %12.0f\n", (unsigned long long)records, fill, get, set);
        htc_kv_server_destroy(s);
        htc_output_destroy(out);
    }
    return 0;
}
