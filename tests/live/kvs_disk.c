/* The store on a real disk: killed with SIGKILL while it commits, full, taken twice, damaged.
 *
 * HTC_TEST_FULL=1 in the environment: hundreds of kills instead of a few dozen. */
#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "core/codec.h"
#include "htcsched/kv_store.h"
#include "kvs/storage/batch.h"
#include "kvs_local.h"
#include "net/storage/lmdb.h"

#define COUNTERS 8

static char dir[64];
static int  passed;

static void check(int ok, const char *what)
{
    if (!ok) {
        fprintf(stderr, "FAILED: %s (in %s)\n", what, dir);
        exit(1);
    }
}

static void remove_dir(void)
{
    static const char *const files[] = { "data.mdb", "lock.mdb", "lock" };
    char                     path[128];
    for (size_t i = 0; i < 3; i++) {
        snprintf(path, sizeof path, "%s/%s", dir, files[i]);
        unlink(path);
    }
    rmdir(dir);
}

static void fresh_dir(void)
{
    snprintf(dir, sizeof dir, "/tmp/htc-kvs-XXXXXX");
    check(mkdtemp(dir) != NULL, "a directory");
}

static htc_status open_engine(htc_kv_engine *engine, uint64_t bytes_max)
{
    htc_kv_lmdb_options o = { .size = sizeof o, .dir = dir, .bytes_max = bytes_max };
    htc_error           error = { 0 };
    htc_status          status = htc_kv_lmdb_open(NULL, &o, engine, &error);
    check(status == HTC_OK || (error.status == status && error.text[0]), "an error says what");
    return status;
}

static htc_bytes name(int i)
{
    static const char *const names[COUNTERS] = { "c0", "c1", "c2", "c3", "c4", "c5", "c6", "c7" };
    return htc_bytes_of(names[i]);
}

/* Add to all counters for ever, several a commit; every acknowledged addition is one byte in the pipe. */
static void child_commits(int pipe_end, uint64_t seed)
{
    htc_kv_engine engine;
    kvs_local     l;
    htc_kv_result r = { .size = sizeof r };
    kvs_local_must(open_engine(&engine, 0), "open");
    kvs_local_open(&l, engine, seed);
    for (;;) {
        int n = 1 + (int)htc_rng_below(&l.rng, COUNTERS);
        for (int i = 0; i < n; i++) {
            htc_kv_request q = { .size = sizeof q, .op = HTC_KV_ADD, .key = name(i), .delta = 1 };
            kvs_local_must(htc_kv_client_submit(l.client, 0, &q, 1, (uint64_t)i, l.to_server), "submit");
        }
        kvs_local_pump(&l);
        while (htc_kv_client_next(l.client, &r)) {
            uint8_t which = (uint8_t)r.tag;
            kvs_local_must(r.status, "add");
            if (write(pipe_end, &which, 1) != 1)
                _exit(0);
        }
    }
}

static void kill_rounds(int rounds)
{
    int64_t acknowledged[COUNTERS] = { 0 }, before[COUNTERS] = { 0 };
    htc_rng rng = { 42 };
    fresh_dir();
    for (int round = 0; round < rounds; round++) {
        int     ends[2];
        uint8_t bytes[4096];
        ssize_t n;
        check(pipe(ends) == 0, "pipe");
        pid_t pid = fork();
        check(pid >= 0, "fork");
        if (pid == 0) {
            prctl(PR_SET_PDEATHSIG, SIGKILL);
            close(ends[0]);
            child_commits(ends[1], 1000 + (uint64_t)round);
        }
        close(ends[1]);
        /* After so many answers, at whatever point of the next commit it is. */
        uint64_t until = htc_rng_below(&rng, 30), got = 0;
        while (got < until && (n = read(ends[0], bytes, 1)) > 0)
            for (ssize_t i = 0; i < n; i++, got++)
                acknowledged[bytes[i]]++;
        usleep((useconds_t)htc_rng_below(&rng, 2000));
        kill(pid, SIGKILL);
        while ((n = read(ends[0], bytes, sizeof bytes)) > 0)
            for (ssize_t i = 0; i < n; i++)
                acknowledged[bytes[i]]++;
        close(ends[0]);
        int status;
        check(waitpid(pid, &status, 0) == pid && WIFSIGNALED(status), "the child was killed, it did not fail");

        htc_kv_engine engine;
        kvs_local     l;
        kvs_local_must(open_engine(&engine, 0), "open after the kill");
        kvs_local_open(&l, engine, 500000 + (uint64_t)round);
        for (int i = 0; i < COUNTERS; i++) {
            htc_kv_result r = kvs_local_ask(&l, (htc_kv_request){ .size = sizeof(htc_kv_request), .op = HTC_KV_GET, .key = name(i) });
            char          text[24] = "0";
            if (r.status == HTC_OK)
                memcpy(text, r.value.data, r.value.len < 23 ? r.value.len : 23);
            int64_t value = atoll(text);
            /* One addition to it may have been stored and not told. */
            if (value < acknowledged[i] || value > acknowledged[i] + 1 || value < before[i]) {
                fprintf(stderr, "round %d counter %d: %lld stored, %lld acknowledged\n", round, i, (long long)value,
                        (long long)acknowledged[i]);
                exit(1);
            }
            acknowledged[i] = before[i] = value;
        }
        kvs_local_close(&l);
        engine.ops->destroy(engine.ctx);
    }
    remove_dir();
    printf("ok - %d kills, %lld additions to the first counter\n", rounds, (long long)acknowledged[0]);
    passed++;
}

/* Write until it is full; then reads go on, deletions too, and nothing acknowledged is missing. */
static void fill(const char *how, uint64_t bytes_max)
{
    htc_kv_engine engine;
    kvs_local     l;
    char          key[16], *value = calloc(1, 50000);
    int           n = 0;
    htc_kv_result r = { .size = sizeof r };
    kvs_local_must(open_engine(&engine, bytes_max), "open");
    kvs_local_open(&l, engine, 7);
    do {
        snprintf(key, sizeof key, "k%05d", n++);
        r = kvs_local_ask(&l,
                          (htc_kv_request){ .size = sizeof(htc_kv_request), .op = HTC_KV_PUT, .key = htc_bytes_of(key), .value = { value, 50000 } });
    } while (r.status == HTC_OK && n < 10000);
    check(r.status == HTC_ENOSPC, "a full disk says so");
    check(n > 5, "something fitted");
    for (int i = 0; i < n; i++) {
        snprintf(key, sizeof key, "k%05d", i);
        r = kvs_local_ask(&l, (htc_kv_request){ .size = sizeof(htc_kv_request), .op = HTC_KV_GET, .key = htc_bytes_of(key) });
        check(r.status == (i < n - 1 ? HTC_OK : HTC_ENOTFOUND), "reads go on, and say what was acknowledged");
    }
    kvs_local_close(&l);
    engine.ops->destroy(engine.ctx);
    kvs_local_must(open_engine(&engine, bytes_max), "open again");
    kvs_local_open(&l, engine, 8);
    r = kvs_local_ask(&l, (htc_kv_request){ .size = sizeof(htc_kv_request), .op = HTC_KV_GET, .key = htc_bytes_of("k00000") });
    check(r.status == HTC_OK && r.value.len == 50000, "it is there after opening it again");
    kvs_local_close(&l);
    engine.ops->destroy(engine.ctx);
    free(value);
    printf("ok - full by %s after %d values\n", how, n - 1);
    passed++;
}

/* In a child, for the limit and the mount end with it. */
static void in_child(int (*body)(void), const char *what)
{
    fflush(stdout);
    pid_t pid = fork();
    check(pid >= 0, "fork");
    if (pid == 0) {
        int rc = body();
        fflush(stdout);
        _exit(rc);
    }
    int status;
    check(waitpid(pid, &status, 0) == pid && WIFEXITED(status) && WEXITSTATUS(status) != 1, what);
    passed += WEXITSTATUS(status) == 0;
}

static int full_by_limit(void)
{
    struct rlimit limit = { 4 << 20, 4 << 20 };
    signal(SIGXFSZ, SIG_IGN);
    if (setrlimit(RLIMIT_FSIZE, &limit) != 0) {
        printf("skip - RLIMIT_FSIZE: %s\n", strerror(errno));
        return 77;
    }
    fresh_dir();
    fill("a limit on the file", 0);
    remove_dir();
    return 0;
}

static int full_by_tmpfs(void)
{
    fresh_dir();
    if (unshare(CLONE_NEWNS) != 0 || mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) != 0 ||
        mount("tmpfs", dir, "tmpfs", 0, "size=4m") != 0) {
        printf("skip - a small file system of our own: %s\n", strerror(errno));
        remove_dir();
        return 77;
    }
    fill("the file system", 0);
    umount2(dir, MNT_DETACH);
    remove_dir();
    return 0;
}

static void one_process_only(void)
{
    htc_kv_engine engine, second;
    fresh_dir();
    kvs_local_must(open_engine(&engine, 0), "open");
    check(open_engine(&second, 0) == HTC_ELOCKED, "a second one is refused");
    engine.ops->destroy(engine.ctx);
    check(open_engine(&engine, 0) == HTC_OK, "the first is gone");
    engine.ops->destroy(engine.ctx);
    remove_dir();
    printf("ok - one process at a time\n");
    passed++;
}

static void overwrite(off_t length, const char *with)
{
    char path[128];
    snprintf(path, sizeof path, "%s/data.mdb", dir);
    check(truncate(path, length) == 0, "truncate");
    FILE *f = with ? fopen(path, "r+b") : NULL;
    if (f) {
        fputs(with, f);
        fclose(f);
    }
}

static int count_item(void *visitor, htc_bytes key, htc_bytes value)
{
    (void)key;
    (void)value;
    ++*(int *)visitor;
    return 1;
}

/* Cut short, overwritten, written by another version: an error that says so, never a signal. */
static void damage_is_told(void)
{
    for (int how = 0; how < 4; how++) {
        htc_kv_engine engine;
        kvs_local     l;
        char          key[16], value[3000] = { 1 };
        fresh_dir();
        kvs_local_must(open_engine(&engine, 0), "open");
        kvs_local_open(&l, engine, 9);
        for (int i = 0; i < 300; i++) {
            snprintf(key, sizeof key, "k%d", i);
            htc_kv_request q = { .size = sizeof q, .op = HTC_KV_PUT, .key = htc_bytes_of(key), .value = { value, sizeof value } };
            check(kvs_local_ask(&l, q).status == HTC_OK, "put");
        }
        kvs_local_close(&l);
        if (how == 3) {
            htc_buf b;
            htc_buf_init(&b, NULL, 0);
            htc__kv_batch_put(&b, htc_bytes_of("f"), htc_bytes_of("htcsched-store 99"));
            check(engine.ops->apply(engine.ctx, htc_buf_bytes(&b)) == HTC_OK, "another format");
            htc_buf_free(&b);
        }
        engine.ops->destroy(engine.ctx);
        if (how < 3)
            overwrite(how == 0   ? 40960
                      : how == 1 ? 100
                                 : 400000,
                      how == 2 ? "this is not what it was, not any more, and "
                                 "it is long enough to cover what stood at the beginning"
                               : NULL);
        htc_status status = open_engine(&engine, 0);
        int        seen = 0;
        if (status == HTC_OK) {
            status = engine.ops->scan(engine.ctx, htc_bytes_of("a"), count_item, &seen);
            engine.ops->destroy(engine.ctx);
        }
        check(status == (how == 3 ? HTC_EFORMAT : HTC_ECORRUPT) || (how == 1 && status == HTC_EIO), "damage is told");
        remove_dir();
    }
    printf("ok - damage is told\n");
    passed++;
}

/* Opened with this durability in this start of the machine: may something be lost? */
static int is_lost(uint32_t durability, char boot)
{
    char                text[HTC_HOST_BOOT_MAX] = { boot };
    htc_kv_lmdb_options o = { .size = sizeof o, .dir = dir, .durability = durability };
    htc_kv_engine       engine;
    int                 lost = -1;
    check(htc_kv_lmdb_open(NULL, &o, &engine, NULL) == HTC_OK, "open");
    check(htc__lmdb_runs(&engine, durability, text, &lost) == HTC_OK, "how it runs");
    engine.ops->destroy(engine.ctx);
    return lost;
}

/* A member that did not sync each change, and whose machine has started anew, may have lost some: by how it ran, not by how it is
 * asked to run now; and it says so again. */
static void restarts_are_noticed(void)
{
    fresh_dir();
    check(!is_lost(HTC_KV_SYNC, 'a') && !is_lost(HTC_KV_SYNC, 'b'), "synced: nothing is lost");
    check(!is_lost(HTC_KV_INTERVAL, 'c') && !is_lost(HTC_KV_MEMORY, 'c'), "it was synced before");
    check(!is_lost(HTC_KV_SYNC, 'c') && !is_lost(HTC_KV_SYNC, 'd'), "opened in the same start, all is synced");
    check(!is_lost(HTC_KV_INTERVAL, 'd'), "it was synced before");
    check(is_lost(HTC_KV_SYNC, 'e') && is_lost(HTC_KV_INTERVAL, 'f'), "what was not synced is lost, for ever");
    check(!is_lost(HTC_KV_SYNC, 'd'), "the same start");
    remove_dir();
    passed++;
}

int main(void)
{
    const char *full = getenv("HTC_TEST_FULL");
    setvbuf(stdout, NULL, _IOLBF, 0);
    one_process_only();
    damage_is_told();
    restarts_are_noticed();
    fresh_dir();
    fill("its own ceiling", 4 << 20);
    remove_dir();
    in_child(full_by_limit, "full by a limit");
    in_child(full_by_tmpfs, "full file system");
    kill_rounds(full && full[0] == '1' ? 400 : 24);
    printf("%d passed\n", passed);
    return 0;
}
