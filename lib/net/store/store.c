/* A whole store: an engine, the server over it, and where its commits are carried out. */
#include <errno.h>
#include <pthread.h>
#include <string.h>
#include <time.h>

#include "core/util.h"
#include "htcsched/kv_store.h"

struct htc_kv_store {
    htc_env              env;
    htc_kv_store_options options;
    htc_kv_engine        engine;
    htc_kv_server       *server;

    /* HTC_KV_INTERVAL: a thread that syncs what was committed, at most interval_ns after it was. */
    pthread_t       syncer;
    int             syncing; /* the thread runs */
    pthread_mutex_t lock;    /* over what follows */
    pthread_cond_t  wake;
    int             dirty, ending;
    htc_status      sync_status; /* not HTC_OK: the next commit answers it, and the server ends */
};

static void wait_interval(htc_kv_store *s)
{
    struct timespec until;
    clock_gettime(CLOCK_MONOTONIC, &until);
    htc_ns ns = (htc_ns)until.tv_nsec + s->options.interval_ns;
    until.tv_sec += (time_t)(ns / HTC_SECOND);
    until.tv_nsec = (long)(ns % HTC_SECOND);
    while (!s->ending && pthread_cond_timedwait(&s->wake, &s->lock, &until) != ETIMEDOUT)
        continue;
}

static void *sync_loop(void *arg)
{
    htc_kv_store *s = arg;
    pthread_mutex_lock(&s->lock);
    while (!s->ending || s->dirty) {
        if (!s->dirty) {
            pthread_cond_wait(&s->wake, &s->lock);
            continue;
        }
        wait_interval(s);
        s->dirty = 0;
        pthread_mutex_unlock(&s->lock);
        htc_status status = htc_kv_lmdb_sync(&s->engine);
        pthread_mutex_lock(&s->lock);
        if (status != HTC_OK)
            s->sync_status = HTC_EIO; /* whatever the reason: what is on the disk is not known any more */
    }
    pthread_mutex_unlock(&s->lock);
    return NULL;
}

static htc_status syncer_start(htc_kv_store *s)
{
    pthread_condattr_t attr;
    pthread_condattr_init(&attr);
    pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    pthread_mutex_init(&s->lock, NULL);
    pthread_cond_init(&s->wake, &attr);
    pthread_condattr_destroy(&attr);
    if (s->options.durability != HTC_KV_INTERVAL)
        return HTC_OK;
    s->syncing = pthread_create(&s->syncer, NULL, sync_loop, s) == 0;
    return s->syncing ? HTC_OK : HTC_ENOMEM;
}

static htc_status commit(void *ctx, htc_bytes batch)
{
    htc_kv_store *s = ctx;
    pthread_mutex_lock(&s->lock);
    htc_status status = s->sync_status;
    pthread_mutex_unlock(&s->lock);
    if (status != HTC_OK)
        return status;
    status = s->engine.ops->apply(s->engine.ctx, batch);
    if (s->syncing && status == HTC_OK) {
        pthread_mutex_lock(&s->lock);
        s->dirty = 1;
        pthread_cond_signal(&s->wake);
        pthread_mutex_unlock(&s->lock);
    }
    return status;
}

static htc_status engine_open(htc_kv_store *s, htc_error *error)
{
    if (s->options.durability == HTC_KV_MEMORY)
        return htc_kv_memory_create(&s->env, &s->engine);
    htc_kv_lmdb_options o = { .size = sizeof o,
                              .dir = s->options.dir,
                              .durability = s->options.durability,
                              .bytes_max = s->options.bytes_max };
    return htc_kv_lmdb_open(&s->env, &o, &s->engine, error);
}

htc_status htc_kv_store_open(const htc_env *env, const htc_kv_store_options *options, htc_kv_store **out,
                             htc_error *error)
{
    htc_kv_store_options o = { 0 };
    if (!env || !options || !out)
        return htc__error(error, HTC_EINVAL, "no options");
    htc_status status = htc__options_copy(&o, sizeof o, options, options->size, offsetof(htc_kv_store_options, interval_ns));
    o.durability = o.durability ? o.durability : HTC_KV_SYNC;
    o.interval_ns = o.interval_ns ? o.interval_ns : 100 * HTC_MS;
    if (status == HTC_OK && (o.durability > HTC_KV_MEMORY || o.interval_ns > 3600 * HTC_SECOND))
        status = HTC_EINVAL;
    if (status != HTC_OK)
        return htc__error(error, status, "store: %s", htc_strerror(status));
    htc_kv_store *s = htc__alloc(env, sizeof *s);
    if (!s)
        return htc__error(error, HTC_ENOMEM, "store: %s", htc_strerror(HTC_ENOMEM));
    s->env = *env;
    s->options = o;
    if ((status = engine_open(s, error)) != HTC_OK) {
        htc__free(env, s, sizeof *s);
        return status;
    }
    htc_kv_server_options so = { .size = sizeof so, .engine = s->engine };
    if (o.durability == HTC_KV_MEMORY)
        so.memory_max = (size_t)o.bytes_max;
    status = syncer_start(s);
    if (status == HTC_OK)
        status = htc_kv_server_create(&s->env, &so, &s->server);
    if (status != HTC_OK) {
        htc_kv_store_close(s);
        return htc__error(error, status, "store: %s", htc_strerror(status));
    }
    s->options.dir = NULL; /* it was the caller's */
    *out = s;
    return HTC_OK;
}

void htc_kv_store_attach(htc_kv_store *store, htc_host *host)
{
    /* The table in memory is read by the loop's thread: it is changed there too. */
    htc_host_on_commit(host, commit, store, store->options.durability == HTC_KV_SYNC);
}

htc_kv_server *htc_kv_store_server(htc_kv_store *store)
{
    return store->server;
}

void htc_kv_store_close(htc_kv_store *s)
{
    if (!s)
        return;
    htc_env env = s->env;
    if (s->syncing) {
        pthread_mutex_lock(&s->lock);
        s->ending = 1;
        pthread_cond_signal(&s->wake);
        pthread_mutex_unlock(&s->lock);
        pthread_join(s->syncer, NULL);
    }
    pthread_mutex_destroy(&s->lock);
    pthread_cond_destroy(&s->wake);
    htc_kv_server_destroy(s->server);
    s->engine.ops->destroy(s->engine.ctx);
    htc__free(&env, s, sizeof *s);
}
