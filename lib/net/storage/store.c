/* A whole store: an engine or a log, the server over it, and where what it asks for is carried out. */
#include <errno.h>
#include <pthread.h>
#include <string.h>
#include <time.h>

#include "core/util.h"
#include "htcsched/kv_store.h"
#include "kvs/replica/cluster.h"
#include "net/storage/lmdb.h"
#include "net/storage/store_log.h"

struct htc_kv_store {
    htc_env              env;
    htc_kv_store_options options;
    htc_kv_engine        engine; /* LMDB */
    htc__store_log       log;
    htc_kv_server       *server;
    int                  several; /* members */

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
    if (s->options.engine != HTC_KV_LMDB || s->options.durability != HTC_KV_INTERVAL)
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

/* One of several members would break its promises if it came back without what it had acknowledged. */
static htc_status may_come_back(htc_kv_store *s, htc_error *error)
{
    char       boot[HTC_HOST_BOOT_MAX] = "";
    int        lost;
    htc__store_boot(boot);
    htc_status status = htc__lmdb_runs(&s->engine, s->options.durability, boot, &lost);
    if (status == HTC_OK && !lost)
        return HTC_OK;
    s->engine.ops->destroy(s->engine.ctx);
    s->engine.ops = NULL;
    if (status != HTC_OK)
        return htc__error(error, status, "store %s: %s", s->options.dir, htc_strerror(status));
    return htc__error(error, HTC_ECORRUPT, "store %s: the machine has started anew, and what was not synced may be gone: let it join as a new member",
                      s->options.dir);
}

static htc_status engine_open(htc_kv_store *s, htc_kv_server_options *so, htc_error *error)
{
    if (s->options.engine == HTC_KV_IN_MEMORY)
        return HTC_OK; /* the server's own table */
    htc_status status = htc__store_engine_check(s->options.dir, s->options.engine, error);
    if (status != HTC_OK)
        return status;
    if (s->options.engine == HTC_KV_LOG)
        return htc__store_log_open(&s->log, &s->env, &s->options, so, error);
    htc_kv_lmdb_options o = {
        .size = sizeof o, .dir = s->options.dir, .durability = s->options.durability, .bytes_max = s->options.bytes_max
    };
    status = htc_kv_lmdb_open(&s->env, &o, &s->engine, error);
    return status == HTC_OK && so->self && !htc__kv_cluster_alone(so) ? may_come_back(s, error) : status;
}

htc_status htc_kv_store_open(const htc_env *env, const htc_kv_store_options *options, htc_kv_store **out,
                             htc_error *error)
{
    htc_kv_store_options o = { 0 };
    if (!env || !options || !out)
        return htc__error(error, HTC_EINVAL, "no options");
    htc_status status =
        htc__options_copy(&o, sizeof o, options, options->size, offsetof(htc_kv_store_options, interval_ns));
    o.durability = o.durability ? o.durability : HTC_KV_SYNC;
    o.interval_ns = o.interval_ns ? o.interval_ns : 100 * HTC_MS;
    o.engine = o.engine ? o.engine : o.durability == HTC_KV_MEMORY ? HTC_KV_IN_MEMORY : HTC_KV_LMDB;
    if (status == HTC_OK && (o.durability > HTC_KV_MEMORY || o.interval_ns > 3600 * HTC_SECOND || o.engine > HTC_KV_LOG ||
                             (o.engine == HTC_KV_IN_MEMORY && o.durability != HTC_KV_MEMORY)))
        status = HTC_EINVAL;
    htc_kv_server_options so = { .size = sizeof so };
    if (status == HTC_OK && o.server)
        status = htc__options_copy(&so, sizeof so, o.server, o.server->size,
                                   offsetof(htc_kv_server_options, connections_max));
    so.size = sizeof so;
    so.tell_serving = so.self != 0;
    if (status != HTC_OK)
        return htc__error(error, status, "store: %s", htc_strerror(status));
    htc_kv_store *s = htc__alloc(env, sizeof *s);
    if (!s)
        return htc__error(error, HTC_ENOMEM, "store: %s", htc_strerror(HTC_ENOMEM));
    s->env = *env;
    s->options = o;
    if ((status = engine_open(s, &so, error)) != HTC_OK) {
        htc__free(env, s, sizeof *s);
        return status;
    }
    status = syncer_start(s);
    so.engine = s->engine;
    so.engine_durability = o.engine == HTC_KV_LMDB ? o.durability : 0;
    so.memory_max = o.engine == HTC_KV_LMDB ? 0 : (size_t)o.bytes_max;
    s->options.server = NULL; /* it was the caller's */
    s->several = so.self != 0;
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

/* One of several members is ready when it serves with the others. */
static htc_status call(void *ctx, htc_host *host, uint32_t op, uint64_t tag, htc_bytes body)
{
    const htc_kv_store *s = ctx;
    htc_status          status;
    if (htc__store_member_call(&s->options, host, op, tag, body, &status))
        return status;
    if (op == HTC_KV_SERVER_SERVING && s->options.ready)
        s->options.ready(s->options.ready_ctx);
    return op == HTC_KV_SERVER_SERVING ? HTC_OK : HTC_EUNSUPPORTED;
}

void htc_kv_store_attach(htc_kv_store *store, htc_host *host)
{
    const htc_kv_store_options *o = &store->options;
    if (o->engine == HTC_KV_LOG) {
        htc__store_log_attach(&store->log, store->server, host);
        return;
    }
    if (o->engine == HTC_KV_LMDB)
        htc_host_on_commit(host, commit, store, o->durability == HTC_KV_SYNC);
    if (store->several)
        htc_host_on_call(host, call, store);
    else if (o->ready)
        o->ready(o->ready_ctx);
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
    if (s->engine.ops)
        s->engine.ops->destroy(s->engine.ctx);
    if (s->log.disk)
        htc__store_log_close(&s->log);
    htc__free(&env, s, sizeof *s);
}
