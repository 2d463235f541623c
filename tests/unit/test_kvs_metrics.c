/* What a server shows to monitors: readable by a strict reader, and a count of the answers that its client was given. */
#include "expect.h"

#include "kvs/server/server.h"
#include "kvs_world.h"
#include "openmetrics.h"
#include "property.h"

static void look(const htc_kv_server *s, om *t)
{
    htc_metrics *m;
    htc_bytes    text;
    cr_assert(eq(int, htc_metrics_create(NULL, 64 << 10, &m), HTC_OK));
    htc_kv_server_metrics(s, m);
    cr_assert(eq(int, htc_metrics_end(m, &text), HTC_OK));
    cr_assert(om_read(t, text), "line %zu: %s", t->line, t->wrong);
    htc_metrics_destroy(m);
}

static const char *const names[] = { "", "get", "put", "delete", "append", "cas_version", "cas_value", "add" };

static const char *outcome(htc_status status)
{
    return status == HTC_OK          ? "ok"
           : status == HTC_ENOTFOUND ? "not_found"
           : status == HTC_MISMATCH  ? "mismatch"
           : status == HTC_EFULL     ? "memory_full"
                                     : "error";
}

Test(kvs_metrics, answers_are_counted)
{
    PROPERTY(rng, 20)
    {
        world    w;
        uint64_t told[8][HTC__KV_FATES] = { { 0 } };
        world_open(&w, htc_rng_next(&rng), 1, calm);
        for (int i = 0; i < 200; i++) {
            char           key[2] = { (char)('a' + htc_rng_below(&rng, 4)), 0 };
            htc_kv_request q = { .size = sizeof q, .op = 1 + (uint32_t)htc_rng_below(&rng, 7), .key = B(key) };
            if (q.op == HTC_KV_ADD)
                q.delta = 1;
            else if (q.op != HTC_KV_GET && q.op != HTC_KV_DELETE)
                q.value = B(htc_rng_below(&rng, 2) ? "7" : "x");
            if (q.op == HTC_KV_CAS_VALUE)
                q.seen = B("7");
            htc_kv_result r = ask(&w, 0, q, NULL, 0);
            told[q.op][htc__kv_fate_of(r.status)]++;
        }
        om t;
        look(w.server, &t);
        for (uint32_t op = 1; op < 8; op++)
            for (uint32_t f = 0; f < HTC__KV_FATES; f++) {
                static const htc_status of[] = { HTC_OK, HTC_ENOTFOUND, HTC_MISMATCH, HTC_EFULL };
                char                    id[128];
                if (f >= sizeof of / sizeof *of && told[op][f] == 0)
                    continue;
                snprintf(id, sizeof id, "htc_kv_operations_total{operation=\"%s\",outcome=\"%s\"}", names[op],
                         outcome(f < sizeof of / sizeof *of ? of[f] : HTC_EINVAL));
                uint64_t shown = om_number(&t, id);
                cr_expect(shown == told[op][f] || (shown == UINT64_MAX && told[op][f] == 0), "%s: %llu of %llu", id,
                          (unsigned long long)shown, (unsigned long long)told[op][f]);
            }
        htc_kv_server_stats stats = { .size = sizeof stats };
        cr_assert(eq(int, htc_kv_server_stats_get(w.server, &stats), HTC_OK));
        cr_expect(eq(u64, om_number(&t, "htc_kv_batches_total"), stats.commits));
        cr_expect(eq(u64, om_number(&t, "htc_kv_commit_seconds_count"), stats.commits));
        cr_expect(eq(u64, om_number(&t, "htc_kv_keys"), w.server->keys));
        cr_expect(om_number(&t, "htc_kv_batches_bytes_total") > stats.commits);
        om_free(&t);
        world_close(&w);
    }
}

/* Before it has begun there is nothing to count, and something to show. */
Test(kvs_metrics, of_a_server_that_has_not_started)
{
    htc_rng               rng = { 1 };
    htc_env               env = { .size = sizeof env, .rng = &rng };
    htc_kv_server_options o = { .size = sizeof o };
    htc_kv_server        *s;
    om                    t;
    cr_assert(eq(int, htc_kv_server_create(&env, &o, &s), HTC_OK));
    look(s, &t);
    cr_expect(eq(u64, om_number(&t, "htc_kv_serving"), 0));
    cr_expect(eq(u64, om_number(&t, "htc_kv_operations_total{operation=\"get\",outcome=\"ok\"}"), 0));
    om_free(&t);
    htc_kv_server_destroy(s);
}

/* Redis' clients are told since when the store runs, whenever the first of them comes. */
Test(kvs_metrics, uptime_counts_from_the_start)
{
    htc_rng               rng = { 1 };
    htc_env               env = { .size = sizeof env, .rng = &rng };
    htc_kv_server_options o = { .size = sizeof o, .resp_port = 2 };
    htc_kv_server        *s;
    htc_output           *out;
    htc_buf               hello, said;
    htc_effect            e;
    htc_buf_init(&hello, NULL, 0);
    htc_buf_init(&said, NULL, 0);
    htc_peer_info_write(&hello, &(htc_peer_info){ .port = 2 });
    cr_assert(eq(int, htc_kv_server_create(&env, &o, &s), HTC_OK));
    cr_assert(eq(int, htc_output_create(&env, 0, &out), HTC_OK));
    const htc_input in[] = { { .size = sizeof(htc_input), .now = 5 * HTC_SECOND, .kind = HTC_IN_START },
                             { .size = sizeof(htc_input), .now = 5 * HTC_SECOND, .kind = HTC_IN_TURN },
                             { .size = sizeof(htc_input), .now = 104 * HTC_SECOND, .kind = HTC_IN_OPENED, .peer = 1, .body = htc_buf_bytes(&hello) },
                             { .size = sizeof(htc_input), .now = 104 * HTC_SECOND, .kind = HTC_IN_BYTES, .peer = 1, .body = B("INFO server\r\n") },
                             { .size = sizeof(htc_input), .now = 104 * HTC_SECOND, .kind = HTC_IN_TURN } };
    for (size_t i = 0; i < sizeof in / sizeof *in; i++) {
        cr_assert(eq(int, htc_kv_server_ops()->step(s, &in[i], out), HTC_OK));
        for (size_t k = 0; htc_output_get(out, k, &e) == HTC_OK; k++)
            if (e.kind == HTC_OUT_BYTES)
                htc_put_raw(&said, e.body);
        htc_output_clear(out);
    }
    htc_put_u8(&said, 0);
    cr_expect(strstr((const char *)said.data, "\r\nuptime_in_seconds:99\r\n"), "%s", (const char *)said.data);
    htc_buf_free(&hello);
    htc_buf_free(&said);
    htc_output_destroy(out);
    htc_kv_server_destroy(s);
}

/* A duration that is a bound is in its bucket, one more is in the next. */
Test(kvs_metrics, times_of_commits)
{
    htc__kv_counts c = { .begun = 0 };
    for (size_t i = 0; i < HTC__KV_COMMIT_BOUNDS; i++) {
        c.begun = 1000;
        htc__kv_count_commit(&c, 1000 + htc__kv_commit_bounds[i]);
        cr_expect(eq(u64, c.commits[i], i ? 2 : 1));
        htc__kv_count_commit(&c, 1001 + htc__kv_commit_bounds[i]);
        cr_expect(eq(u64, c.commits[i + 1], 1));
    }
}
