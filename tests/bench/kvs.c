/* How much the store does in a second. One JSON line a figure:
 *   memory  get, put, cas: through client, server and the memory engine in one process, so many in flight at once
 *   lmdb    put, synced, at 1 and 64 a commit, beside a loop over LMDB alone in the same run: the ratio is what counts
 *
 * --quick: fewer of everything. No goal is a pass or a failure here: a slower disk is not a bug. */
#include <lmdb.h>
#include <time.h>
#include <unistd.h>

#include "htcsched/kv_store.h"
#include "kvs_local.h"

static double seconds(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static void say(const char *which, size_t n, const char *unit, double value, double goal)
{
    printf("{\"bench\":\"kvs\",\"case\":\"%s\",\"n\":%zu,\"unit\":\"%s\",\"value\":%.4g,\"goal\":%.4g,\"better\":"
           "\"more\"}\n",
           which, n, unit, value, goal);
}

static htc_bytes key_of(char *text, uint64_t i)
{
    int n = snprintf(text, 24, "task/%010llu", (unsigned long long)i);
    return (htc_bytes){ text, (size_t)n };
}

#define TOGETHER_MAX 64

/* n requests, `together` of them handed over at once: as one submission, which is one commit, or each for itself.
 * Answers the number a second. */
static double run(kvs_local *l, uint32_t op, size_t n, size_t records, size_t together, int one)
{
    static const char value[100];
    char              text[TOGETHER_MAX][24];
    htc_kv_request    rq[TOGETHER_MAX];
    double            start = seconds();
    for (size_t done = 0; done < n; done += together) {
        htc_kv_result r = { .size = sizeof r };
        for (size_t i = 0; i < together; i++) {
            uint64_t which = op == HTC_KV_PUT ? (done + i) % records : htc_rng_below(&l->rng, records);
            rq[i] = (htc_kv_request){ .size = sizeof(htc_kv_request), .op = op,
                                      .key = key_of(text[i], which),
                                      .value = { value, sizeof value },
                                      .seen = { value, sizeof value } };
            if (!one)
                kvs_local_submit(l, rq[i]);
        }
        if (one)
            kvs_local_must(htc_kv_client_submit(l->client, 0, rq, together, 0, l->to_server), "submit");
        kvs_local_pump(l);
        while (htc_kv_client_next(l->client, &r))
            kvs_local_must(r.status, "request");
    }
    return (double)n / (seconds() - start);
}

static void memory(size_t n)
{
    htc_kv_engine engine;
    kvs_local     l;
    for (size_t together = 1; together <= 64; together *= 64) {
        kvs_local_must(htc_kv_memory_create(NULL, &engine), "engine");
        kvs_local_open(&l, engine, 1);
        say(together == 1 ? "memory put, 1 in flight" : "memory put, 64 in flight", n, "1/s",
            run(&l, HTC_KV_PUT, n, n, together, 0), 0);
        say(together == 1 ? "memory get, 1 in flight" : "memory get, 64 in flight", n, "1/s",
            run(&l, HTC_KV_GET, n, n, together, 0), 0);
        say(together == 1 ? "memory cas, 1 in flight" : "memory cas, 64 in flight", n, "1/s",
            run(&l, HTC_KV_CAS_VALUE, n, n, together, 0), 0);
        say("memory bytes a record of 100", n, "B", (double)engine.ops->used(engine.ctx) / (double)n, 0);
        kvs_local_close(&l);
        engine.ops->destroy(engine.ctx);
    }
}

static void must_rc(int rc)
{
    if (rc == 0)
        return;
    fprintf(stderr, "lmdb: %s\n", mdb_strerror(rc));
    exit(1);
}

static double raw(const char *dir, size_t n, size_t together)
{
    static char value[140]; /* a record: the value, and what stands around it */
    MDB_env    *env;
    MDB_txn    *txn;
    MDB_dbi     dbi = 0;
    char        text[24];
    must_rc(mdb_env_create(&env));
    must_rc(mdb_env_set_mapsize(env, (size_t)1 << 30));
    must_rc(mdb_env_open(env, dir, 0, 0600));
    double start = seconds();
    for (size_t done = 0; done < n; done += together) {
        must_rc(mdb_txn_begin(env, NULL, 0, &txn));
        if (done == 0)
            must_rc(mdb_dbi_open(txn, NULL, 0, &dbi));
        for (size_t i = 0; i < together; i++) {
            htc_bytes key = key_of(text, done + i);
            MDB_val   k = { key.len, (void *)(uintptr_t)key.data }, v = { sizeof value, value };
            must_rc(mdb_put(txn, dbi, &k, &v, 0));
        }
        must_rc(mdb_txn_commit(txn));
    }
    double rate = (double)n / (seconds() - start);
    mdb_env_close(env);
    return rate;
}

static void remove_files(const char *dir)
{
    static const char *const files[] = { "data.mdb", "lock.mdb", "lock" };
    char                     path[128];
    for (size_t i = 0; i < 3; i++) {
        snprintf(path, sizeof path, "%s/%s", dir, files[i]);
        unlink(path);
    }
}

/* In turns, in slices, so that what else the disk does falls on both. */
static void disk(size_t commits, size_t together)
{
    char          dir[] = "/tmp/htc-bench-XXXXXX", alone[] = "/tmp/htc-bench-XXXXXX";
    htc_kv_engine engine;
    kvs_local     l;
    double        ours = 0, theirs = 0;
    const int     slices = 5;
    if (!mkdtemp(dir) || !mkdtemp(alone))
        exit(1);
    for (int i = 0; i < slices; i++) {
        htc_kv_lmdb_options o = { .size = sizeof o, .dir = dir };
        size_t              n = commits * together;
        kvs_local_must(htc_kv_lmdb_open(NULL, &o, &engine, NULL), "open");
        kvs_local_open(&l, engine, 1 + (uint64_t)i);
        ours += run(&l, HTC_KV_PUT, n, n, together, 1) / slices;
        kvs_local_close(&l);
        engine.ops->destroy(engine.ctx);
        theirs += raw(alone, n, together) / slices;
    }
    say(together == 1 ? "lmdb put, 1 a commit" : "lmdb put, 64 a commit", commits * together, "1/s", ours, 0);
    say(together == 1 ? "LMDB alone, 1 a commit" : "LMDB alone, 64 a commit", commits * together, "1/s", theirs, 0);
    say(together == 1 ? "ratio, 1 a commit" : "ratio, 64 a commit", commits * together, "1", ours / theirs, 0.5);
    remove_files(dir);
    remove_files(alone);
    rmdir(dir);
    rmdir(alone);
}

int main(int argc, char **argv)
{
    int quick = argc > 1 && strcmp(argv[1], "--quick") == 0;
    memory(quick ? 20032 : 1000000);
    disk(quick ? 20 : 200, 1);
    disk(quick ? 20 : 200, 64);
    return 0;
}
