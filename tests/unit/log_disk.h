/* A disk in memory with the promises of htcsched/disk.h and not one more: requests on their way take effect in any order, what was not
 * synced is lost, kept or torn sector by sector when the power goes, and every request can be refused. */
#ifndef HTC_TESTS_LOG_DISK_H
#define HTC_TESTS_LOG_DISK_H

#include <stdlib.h>
#include <string.h>

#include "htcsched/disk.h"

#define LOG_DISK_FILES   64
#define LOG_DISK_WAITING 32

typedef struct log_disk_file {
    char     name[HTC_DISK_NAME_MAX + 1];
    uint64_t length;
    uint8_t *data, *durable; /* as it is read; as it surely lasts */
    uint8_t *dirty;          /* a byte a sector: not synced */
} log_disk_file;

typedef struct log_disk_request {
    uint32_t op;
    uint64_t tag;
    uint8_t *body;
    size_t   len;
} log_disk_request;

typedef struct log_disk {
    log_disk_file    files[LOG_DISK_FILES];
    size_t           count;
    log_disk_request waiting[LOG_DISK_WAITING];
    size_t           waiting_count;
    uint64_t         room;    /* bytes that can still be made into files */
    uint64_t         done;    /* requests carried out */
    uint64_t         fail_at; /* this one is answered fail_with; 0: none */
    htc_status       fail_with;
    int              sync_failed;
    uint8_t         *answer;
    size_t           answer_len;
} log_disk;

static inline log_disk_file *log_disk_find(log_disk *d, htc_bytes name)
{
    for (size_t i = 0; i < d->count; i++)
        if (htc_bytes_equal(htc_bytes_of(d->files[i].name), name))
            return &d->files[i];
    return NULL;
}

static inline void log_disk_drop(log_disk *d, log_disk_file *f)
{
    d->room += f->length;
    free(f->data);
    free(f->durable);
    free(f->dirty);
    *f = d->files[--d->count];
}

static inline htc_status log_disk_create(log_disk *d, htc_bytes name, uint64_t length)
{
    if (log_disk_find(d, name))
        return HTC_EEXISTS;
    if (d->count == LOG_DISK_FILES || length > d->room)
        return HTC_ENOSPC;
    log_disk_file *f = &d->files[d->count++];
    memset(f, 0, sizeof *f);
    memcpy(f->name, name.data, name.len);
    f->length = length;
    f->data = calloc(1, length + 1);
    f->durable = calloc(1, length + 1);
    f->dirty = calloc(1, length / HTC_DISK_SECTOR + 1);
    d->room -= length;
    return HTC_OK;
}

static inline void log_disk_sync(log_disk_file *f)
{
    memcpy(f->durable, f->data, f->length);
    memset(f->dirty, 0, f->length / HTC_DISK_SECTOR + 1);
}

static inline htc_status log_disk_write(log_disk_file *f, const htc_disk_request *q)
{
    if (q->offset > f->length || q->data.len > f->length - q->offset)
        return HTC_EINVAL;
    memcpy(f->data + q->offset, q->data.data, q->data.len);
    for (uint64_t s = q->offset / HTC_DISK_SECTOR; s * HTC_DISK_SECTOR < q->offset + q->data.len; s++)
        f->dirty[s] = 1;
    if (q->sync)
        log_disk_sync(f);
    return HTC_OK;
}

static inline void log_disk_list(log_disk *d)
{
    free(d->answer);
    d->answer = malloc(d->count * HTC_DISK_HEAD_MAX + 1);
    d->answer_len = 0;
    for (size_t i = 0; i < d->count; i++)
        d->answer_len += htc_disk_file_encode(&(htc_disk_file){ htc_bytes_of(d->files[i].name), d->files[i].length },
                                              d->answer + d->answer_len, HTC_DISK_HEAD_MAX);
}

static inline htc_status log_disk_read(log_disk *d, const log_disk_file *f, const htc_disk_request *q)
{
    uint64_t n = q->offset >= f->length ? 0 : f->length - q->offset < q->length ? f->length - q->offset : q->length;
    free(d->answer);
    d->answer = malloc(n + 1);
    d->answer_len = n;
    memcpy(d->answer, f->data + (n ? q->offset : 0), n);
    return HTC_OK;
}

/* Carry one request out; its answer is in d->answer. */
static inline htc_status log_disk_do(log_disk *d, htc_bytes body)
{
    htc_disk_request q;
    d->answer_len = 0;
    d->done++;
    if (htc_disk_decode(body, &q) != HTC_OK)
        return HTC_EINVAL;
    if (d->fail_at && d->done == d->fail_at)
        return d->fail_with;
    log_disk_file *f = q.op == HTC_DISK_LIST || q.op == HTC_DISK_CREATE ? NULL : log_disk_find(d, q.name);
    switch (q.op) {
    case HTC_DISK_LIST:
        log_disk_list(d);
        return HTC_OK;
    case HTC_DISK_CREATE:
        return log_disk_create(d, q.name, q.length);
    case HTC_DISK_READ:
        return f ? log_disk_read(d, f, &q) : HTC_ENOTFOUND;
    case HTC_DISK_WRITE:
        return f ? log_disk_write(f, &q) : HTC_ENOTFOUND;
    case HTC_DISK_SYNC:
        if (f)
            log_disk_sync(f);
        return f ? HTC_OK : HTC_ENOTFOUND;
    case HTC_DISK_REMOVE:
        if (f)
            log_disk_drop(d, f);
        return f ? HTC_OK : HTC_ENOTFOUND;
    default:
        return HTC_EINVAL;
    }
}

/* Requests that a machine has asked for and that are not carried out yet. */
static inline void log_disk_take(log_disk *d, htc_output *out)
{
    for (size_t i = 0; i < htc_output_count(out); i++) {
        htc_effect e;
        htc_output_get(out, i, &e);
        if (e.kind != HTC_OUT_CALL || d->waiting_count == LOG_DISK_WAITING)
            abort();
        log_disk_request *w = &d->waiting[d->waiting_count++];
        *w = (log_disk_request){ e.op, e.tag, malloc(e.body.len), e.body.len };
        memcpy(w->body, e.body.data, e.body.len);
    }
    htc_output_clear(out);
}

static inline log_disk_request log_disk_pick(log_disk *d, size_t i)
{
    log_disk_request w = d->waiting[i];
    d->waiting[i] = d->waiting[--d->waiting_count];
    return w;
}

/* Whoever asked is gone: what is on its way takes place or not. */
static inline void log_disk_kill(log_disk *d, htc_rng *rng)
{
    while (d->waiting_count) {
        log_disk_request w = log_disk_pick(d, htc_rng_below(rng, d->waiting_count));
        if (htc_rng_below(rng, 2))
            log_disk_do(d, (htc_bytes){ w.body, w.len });
        free(w.body);
    }
}

/* The power goes. */
static inline void log_disk_cut(log_disk *d, htc_rng *rng)
{
    /* What is on its way has begun or not; a file that was being made has any length. */
    while (d->waiting_count) {
        log_disk_request w = log_disk_pick(d, htc_rng_below(rng, d->waiting_count));
        htc_disk_request q;
        if (htc_rng_below(rng, 2) && htc_disk_decode((htc_bytes){ w.body, w.len }, &q) == HTC_OK) {
            if (q.op == HTC_DISK_WRITE && q.sync) {
                uint8_t *p = w.body;
                p[1] = 0; /* begun, and not synced */
            }
            if (q.op == HTC_DISK_CREATE && htc_rng_below(rng, 2))
                log_disk_create(d, q.name, htc_rng_below(rng, q.length + 1));
            else if (q.op != HTC_DISK_SYNC)
                log_disk_do(d, (htc_bytes){ w.body, w.len });
        }
        free(w.body);
    }
    for (size_t i = 0; i < d->count; i++) {
        log_disk_file *f = &d->files[i];
        for (uint64_t s = 0; s * HTC_DISK_SECTOR < f->length; s++) {
            uint64_t at = s * HTC_DISK_SECTOR, n = f->length - at < HTC_DISK_SECTOR ? f->length - at : HTC_DISK_SECTOR;
            uint64_t fate = htc_rng_below(rng, 10);
            if (!f->dirty[s])
                continue;
            if (fate < 4)
                memcpy(f->data + at, f->durable + at, n);
            else if (fate == 4)
                for (uint64_t j = 0; j < n; j++)
                    f->data[at + j] = (uint8_t)htc_rng_next(rng);
            else if (fate == 5)
                memcpy(f->data + at, f->durable + at, htc_rng_below(rng, n));
        }
        log_disk_sync(f);
    }
}

static inline void log_disk_free(log_disk *d)
{
    while (d->waiting_count)
        free(log_disk_pick(d, 0).body);
    while (d->count)
        log_disk_drop(d, &d->files[0]);
    free(d->answer);
    d->answer = NULL;
}

#endif
