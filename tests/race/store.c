/* A whole store on disk under several clients, each a host on a thread of its own: while a worker (or the thread of the
 * interval) commits and syncs, the loop reads; clients come and go; the store is ended by a signal in the middle of
 * everything and opened again. */
#include <signal.h>

#include "htcsched/kv_store.h"
#include "kvs_adder.h"
#include "race.h"

enum { ADDERS = 4, LIVES = 3, ADDITIONS = 150, ENDLESS = 1 << 20 };

typedef struct store {
    char          dir[RACE_DIR], socket_path[RACE_DIR + 16];
    uint32_t      durability;
    htc_rng       rng;
    htc_env       env;
    htc_kv_store *store;
    htc_host     *host;
    pthread_t     thread;
} store;

static void *run_store(void *arg)
{
    store *s = arg;
    race_check(htc_host_run(s->host, htc_kv_server_ops(), htc_kv_store_server(s->store)) == HTC_OK, "the store");
    return NULL;
}

static void store_open(store *s)
{
    char                 dir[RACE_DIR + 16];
    htc_error            error = { 0 };
    htc_kv_store_options so = { .size = sizeof so, .dir = dir, .durability = s->durability, .interval_ns = HTC_MS };
    htc_host_options     ho = { .size = sizeof ho, .handle_signals = 1 };
    snprintf(dir, sizeof dir, "%s/store", s->dir);
    snprintf(s->socket_path, sizeof s->socket_path, "%s/s", s->dir);
    s->env = (htc_env){ .size = sizeof s->env, .rng = &s->rng };
    htc_host_random(&s->rng.state, sizeof s->rng.state);
    race_check(htc_kv_store_open(&s->env, &so, &s->store, &error) == HTC_OK, "%s", error.text);
    race_check(htc_host_create(&s->env, &ho, &s->host) == HTC_OK, "host");
    race_check(htc_host_listen_unix(s->host, s->socket_path, 0600, 1, &error) == HTC_OK, "%s", error.text);
    htc_kv_store_attach(s->store, s->host);
    race_check(pthread_create(&s->thread, NULL, run_store, s) == 0, "a thread");
}

/* As htc down ends it. */
static void store_end(store *s)
{
    race_check(kill(getpid(), SIGTERM) == 0, "a signal");
    race_check(pthread_join(s->thread, NULL) == 0, "join");
    htc_host_destroy(s->host);
    htc_kv_store_close(s->store);
}

static int64_t sum_of(const store *s)
{
    kvs_adder a = { 0 };
    kvs_adder_run(&a, s->socket_path);
    return a.sum;
}

typedef struct caller {
    const store *s;
    kvs_adder    adder; /* of its last life */
    uint32_t     lives;
    uint64_t     additions;
    int          until_closed;
} caller;

static void *caller_lives(void *arg)
{
    caller *c = arg;
    for (uint32_t i = 0; i < c->lives; i++) {
        c->adder = (kvs_adder){ .additions = c->additions, .until_closed = c->until_closed };
        kvs_adder_run(&c->adder, c->s->socket_path);
    }
    return NULL;
}

static void scene(uint32_t durability, const char *name)
{
    store     s = { .durability = durability };
    caller    callers[ADDERS];
    pthread_t threads[ADDERS];
    uint64_t  answered = 0, submitted = 0;
    race_dir(s.dir);
    store_open(&s);
    for (size_t i = 0; i < ADDERS; i++)
        callers[i] = (caller){ .s = &s, .lives = LIVES, .additions = ADDITIONS };
    race_threads(threads, ADDERS, caller_lives, callers, sizeof *callers);
    race_threads_join(threads, ADDERS);
    int64_t sum = sum_of(&s), all = ADDERS * LIVES * ADDITIONS;
    race_check(sum == all, "%s: the sum is %lld, not %lld", name, (long long)sum, (long long)all);
    store_end(&s);

    /* Now the store ends while they add: what was answered is there, what was not submitted is not. */
    store_open(&s);
    for (size_t i = 0; i < ADDERS; i++)
        callers[i] = (caller){ .s = &s, .lives = 1, .additions = ENDLESS, .until_closed = 1 };
    race_threads(threads, ADDERS, caller_lives, callers, sizeof *callers);
    /* One more that is done when the others are at work. */
    kvs_adder a = { .additions = ADDITIONS };
    kvs_adder_run(&a, s.socket_path);
    store_end(&s);
    race_threads_join(threads, ADDERS);
    for (size_t i = 0; i < ADDERS; i++) {
        answered += callers[i].adder.answered;
        submitted += callers[i].adder.submitted;
    }
    store_open(&s);
    int64_t more = sum_of(&s) - all - ADDITIONS;
    store_end(&s);
    race_check(more >= (int64_t)answered && more <= (int64_t)submitted,
               "%s: %llu answered, %lld stored, %llu submitted", name, (unsigned long long)answered, (long long)more,
               (unsigned long long)submitted);
    race_dir_end(s.dir);
    printf("%s: %lld additions, then %lld in the life that was ended, %llu of them answered\n", name, (long long)all,
           (long long)more, (unsigned long long)answered);
    race_said(name);
}

int main(void)
{
    scene(HTC_KV_SYNC, "sync");
    scene(HTC_KV_INTERVAL, "interval");
    return 0;
}
