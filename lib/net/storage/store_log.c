#include "net/storage/store_log.h"

#include <dirent.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "core/util.h"
#include "kvs/storage/log_format.h"
#include "net/files/proc.h"

/* Renewals of leases and other members must never wait for a disk; nobody else minds for as long as a batch takes. */
static int may_wait(const htc__store_log *l)
{
    htc_kv_server_stats stats = { .size = sizeof stats };
    return !l->several && htc_kv_server_stats_get(l->server, &stats) == HTC_OK && stats.leases == 0;
}

static htc_status dial(const htc_kv_store_options *o, htc_host *host, uint64_t tag, htc_bytes body)
{
    char     address[512];
    uint8_t  number[4];
    uint32_t peer = 0;
    if (!o->dial || body.len == 0 || body.len >= sizeof address)
        return HTC_EUNSUPPORTED;
    memcpy(address, body.data, body.len);
    address[body.len] = 0;
    htc_status status = o->dial(o->member_ctx, address, &peer);
    for (int i = 0; i < 4; i++)
        number[i] = (uint8_t)(peer >> 8 * i);
    return status == HTC_OK ? htc_host_answer(host, HTC_KV_SERVER_DIAL, tag, HTC_OK, (htc_bytes){ number, sizeof number }) : status;
}

static void refused(const htc_kv_store_options *o, uint64_t tag, htc_bytes body)
{
    char   reason[256] = { 0 };
    size_t len = body.len < sizeof reason ? body.len : sizeof reason - 1;
    memcpy(reason, body.data, len);
    o->refused(o->member_ctx, (htc_status)-(int64_t)tag, reason);
}

int htc__store_member_call(const htc_kv_store_options *o, htc_host *host, uint32_t op, uint64_t tag, htc_bytes body, htc_status *status)
{
    if (op == HTC_KV_SERVER_DIAL) {
        *status = dial(o, host, tag, body);
        return 1;
    }
    if (op != HTC_KV_SERVER_LEFT && op != HTC_KV_SERVER_REFUSED)
        return 0;
    *status = HTC_OK;
    if (op == HTC_KV_SERVER_LEFT && o->left)
        o->left(o->member_ctx);
    else if (op == HTC_KV_SERVER_REFUSED && o->refused)
        refused(o, tag, body);
    else
        *status = htc_host_event(host, HTC_KV_SERVER_SHUTDOWN, HTC_OK, (htc_bytes){ NULL, 0 });
    return 1;
}

static htc_status call(void *ctx, htc_host *host, uint32_t op, uint64_t tag, htc_bytes body)
{
    htc__store_log *l = ctx;
    htc_status      status;
    if (htc__store_member_call(&l->members, host, op, tag, body, &status))
        return status;
    if (op != HTC_KV_SERVER_READY && op != HTC_KV_SERVER_SERVING)
        return may_wait(l) ? htc_disk_dir_call_here(l->disk, host, op, tag, body)
                           : htc_disk_dir_call(l->disk, host, op, tag, body);
    if (op == HTC_KV_SERVER_READY)
        htc_host_accept(host, 1);
    if (l->ready && l->several == (op == HTC_KV_SERVER_SERVING))
        l->ready(l->ready_ctx);
    return HTC_OK;
}

/* One line: what is wrong, where, why, and what to do. */
static void problem(void *ctx, htc_status status, const char *file, uint64_t offset, const char *text)
{
    const htc__store_log *l = ctx;
    htc_error             why = { 0 };
    if (status == HTC_EIO) {
        htc_disk_dir_failure(l->disk, &why);
        htc__log_with(l->env, HTC_LOG_ERROR, HTC__FIELDS(HTC__TEXT("dir", l->dir), HTC__TEXT("file", file)),
                      "store %s/%s: %s (%s): what is on the disk is not known -> end; look at the disk, then "
                      "start again: what was acknowledged is there", l->dir, file, text, why.text[0] ? why.text : "input/output error");
        return;
    }
    htc__log_with(l->env, HTC_LOG_ERROR, HTC__FIELDS(HTC__TEXT("dir", l->dir), HTC__TEXT("file", file), HTC__NUMBER("offset", offset)),
                  "store %s/%s, byte %llu: %s -> htc kv fsck %s shows what can be read, htc kv dump saves it",
                  l->dir, file, (unsigned long long)offset, text, l->dir);
}

/* Which start this is may not be known: then no other is the same. */
void htc__store_boot(char boot[HTC_HOST_BOOT_MAX])
{
    if (htc_host_boot(boot) != HTC_OK)
        htc_host_random(boot, HTC_HOST_BOOT_MAX);
}

/* A segment alone makes it a log, too: its superblocks may be what was lost. */
static int has_segment(const char *dir)
{
    DIR                 *d = dir ? opendir(dir) : NULL;
    const struct dirent *e;
    int                  found = 0;
    while (d && !found && (e = readdir(d)))
        found = htc__log_segment_number(htc_bytes_of(e->d_name)) != 0;
    if (d)
        closedir(d);
    return found;
}

uint32_t htc__store_engine_of(const char *dir)
{
    static const char *const files[] = { "data.mdb", "super.0", "super.1" };
    char                     path[4200];
    for (int i = 0; dir && i < 3; i++) {
        snprintf(path, sizeof path, "%s/%s", dir, files[i]);
        if (access(path, F_OK) == 0)
            return i ? HTC_KV_LOG : HTC_KV_LMDB;
    }
    return has_segment(dir) ? HTC_KV_LOG : 0;
}

htc_status htc__store_engine_check(const char *dir, uint32_t engine, htc_error *error)
{
    uint32_t made = htc__store_engine_of(dir);
    if (!made || made == engine)
        return HTC_OK;
    const char *was = made == HTC_KV_LOG ? "log" : "lmdb";
    htc__error(error, HTC_EINVAL, "store %s was made with engine %s, not %s", dir, was, made == HTC_KV_LOG ? "lmdb" : "log");
    if (error)
        snprintf(error->hint, sizeof error->hint, "take engine %s, or another directory", was);
    return HTC_EINVAL;
}

htc_status htc__store_log_open(htc__store_log *l, const htc_env *env, const htc_kv_store_options *options,
                               htc_kv_server_options *so, htc_error *error)
{
    if (!options->dir || !options->dir[0])
        return htc__error(error, HTC_EINVAL, "store: the log needs a directory");
    *l = (htc__store_log){ .env = env, .ready = options->ready, .ready_ctx = options->ready_ctx };
    l->members = (htc_kv_store_options){ .dial = options->dial, .left = options->left, .refused = options->refused, .member_ctx = options->member_ctx };
    l->several = so->self != 0;
    l->dir = htc__strdup(env, options->dir);
    htc_status status = l->dir ? htc_disk_dir_open(options->dir, &l->disk, error) : htc__error(error, HTC_ENOMEM, "store");
    if (status != HTC_OK) {
        htc__strfree(env, l->dir);
        return status;
    }
    htc__store_boot(l->boot);
    so->log_durability = options->durability;
    so->log_interval_ns = options->interval_ns;
    so->log_segment_bytes = options->segment_bytes;
    so->log_boot = (htc_bytes){ l->boot, sizeof l->boot };
    so->log_problem = problem;
    so->log_problem_ctx = l;
    return HTC_OK;
}

void htc__store_log_attach(htc__store_log *l, const htc_kv_server *server, htc_host *host)
{
    l->server = server;
    htc_host_accept(host, 0);
    htc_host_on_call(host, call, l);
}

void htc__store_log_close(htc__store_log *l)
{
    htc_disk_dir_close(l->disk);
    htc__strfree(l->env, l->dir);
}
