/* A log over a disk in memory, and what its keys are to be. */
#ifndef HTC_TESTS_LOG_RIG_H
#define HTC_TESTS_LOG_RIG_H

#include "expect.h"
#include <stdio.h>
#include <string.h>

#include "core/util.h"
#include "kvs/storage/log.h"
#include "kvs/storage/log_format.h"
#include "log_disk.h"
#include "property.h"

#define KEYS    24
#define BATCHES 4096

/* The state after each batch since this member was opened: which stamp each key has, 0: none. */
typedef struct state {
    uint32_t stamp[KEYS];
} state;

typedef struct rig {
    log_disk         disk;
    htc__log_options options;
    htc_env         *env;
    htc__cells       cells;
    htc_output      *out;
    htc_rng          rng;
    htc_ns           now;
    htc_status       status; /* of the last step */
    int              ready;
    state            states[BATCHES]; /* by batch; 0: as it was opened */
    uint64_t         batches;         /* the open one, whose state is states[batches] */
    uint32_t         stamp;
    uint64_t         area, area_asked, area_stored, area_ticket;
    size_t           problems;
    char             where[64];
    uint64_t         where_offset;
} rig;

static inline void on_problem(void *ctx, htc_status status, const char *file, uint64_t offset, const char *text)
{
    rig *r = ctx;
    (void)status;
    if (getenv("HTC_TEST_TRACE"))
        fprintf(stderr, "%s at %llu: %s\n", file, (unsigned long long)offset, text);
    r->problems++;
    snprintf(r->where, sizeof r->where, "%s", file);
    r->where_offset = offset;
}

static inline htc_bytes key_of(size_t i, char text[8])
{
    return (htc_bytes){ text, (size_t)snprintf(text, 8, "key%02zu", i) };
}

static inline htc_bytes value_of(uint32_t stamp, uint8_t bytes[4096])
{
    size_t n = 4 + (stamp % 37 == 0 ? stamp % 3000 : stamp % 150);
    for (size_t i = 0; i < n; i++)
        bytes[i] = (uint8_t)(stamp >> 8 * (i % 4));
    return (htc_bytes){ bytes, n };
}

static inline void input(rig *r, htc_input in)
{
    in.now = r->now;
    r->status = r->cells.ops->step(r->cells.ctx, &in, r->out, &r->ready);
    log_disk_take(&r->disk, r->out);
}

static inline void answer_one_of(rig *r, size_t at)
{
    log_disk_request w = log_disk_pick(&r->disk, at);
    htc_status       status = log_disk_do(&r->disk, (htc_bytes){ w.body, w.len });
    htc_bytes        body = { r->disk.answer, status == HTC_OK ? r->disk.answer_len : 0 };
    input(r, (htc_input){ .size = sizeof(htc_input), .kind = HTC_IN_RESULT, .op = w.op, .tag = w.tag, .status = status, .body = body });
    free(w.body);
}

static inline void answer_one(rig *r)
{
    answer_one_of(r, htc_rng_below(&r->rng, r->disk.waiting_count));
}

static inline htc_status start(rig *r)
{
    r->ready = 0;
    cr_assert(eq(int, htc__log_create(r->env, &r->options, &r->cells), HTC_OK));
    input(r, (htc_input){ .size = sizeof(htc_input), .kind = HTC_IN_START });
    while (r->status == HTC_OK && !r->ready && r->disk.waiting_count)
        answer_one(r);
    return r->status;
}

static inline void stop(rig *r)
{
    r->cells.ops->destroy(r->cells.ctx);
    while (r->disk.waiting_count)
        free(log_disk_pick(&r->disk, 0).body);
}

static inline void rig_init(rig *r, uint64_t seed, uint32_t durability)
{
    memset(r, 0, sizeof *r);
    r->rng = (htc_rng){ seed };
    r->now = 1;
    r->disk.room = 1 << 20;
    r->options = (htc__log_options){ .durability = durability,
                                     .interval_ns = 10 * HTC_MS,
                                     .segment_bytes = 8192,
                                     .ratio = 2,
                                     .member = 7,
                                     .seed = 99,
                                     .ordered = 1,
                                     .problem = on_problem,
                                     .problem_ctx = r };
    cr_assert(eq(int, htc_output_create(NULL, 0, &r->out), HTC_OK));
}

static inline void rig_free(rig *r)
{
    log_disk_free(&r->disk);
    htc_output_destroy(r->out);
}

static inline int is_state(rig *r, const state *s)
{
    size_t n = 0;
    for (size_t i = 0; i < KEYS; i++) {
        char       text[8];
        uint8_t    bytes[4096];
        uint64_t   batch;
        htc_bytes  value;
        htc_status status = r->cells.ops->get(r->cells.ctx, key_of(i, text), &value, &batch);
        if (status != (s->stamp[i] ? HTC_OK : HTC_ENOTFOUND))
            return 0;
        if (status == HTC_OK && !htc_bytes_equal(value, value_of(s->stamp[i], bytes)))
            return 0;
        n += s->stamp[i] != 0;
    }
    return r->cells.ops->count(r->cells.ctx) == n;
}

static inline void change(rig *r)
{
    size_t     i = htc_rng_below(&r->rng, KEYS);
    char       text[8];
    uint8_t    bytes[4096];
    htc_status status;
    uint32_t   stamp = ++r->stamp;
    int        drop = htc_rng_below(&r->rng, 4) == 0;
    if (r->batches != r->cells.ops->open(r->cells.ctx)) {
        r->states[r->batches + 1] = r->states[r->batches];
        r->batches++;
        HOLDS(r->batches == r->cells.ops->open(r->cells.ctx));
    }
    if (drop)
        status = r->cells.ops->drop(r->cells.ctx, key_of(i, text));
    else
        status = r->cells.ops->put(r->cells.ctx, key_of(i, text), value_of(stamp, bytes));
    HOLDS(status == HTC_OK || status == HTC_EBUSY || status == HTC_ENOSPC);
    if (status == HTC_OK)
        r->states[r->batches].stamp[i] = drop ? 0 : stamp;
    uint64_t  rests;
    htc_bytes value;
    r->cells.ops->get(r->cells.ctx, key_of(i, text), &value, &rests);
    HOLDS(status != HTC_OK || rests == r->batches || (drop && rests <= r->batches));
}

static inline void pump(rig *r)
{
    for (int i = 0; r->status == HTC_OK && r->disk.waiting_count && i < 10000; i++)
        answer_one(r);
}

/* Write so many batches of one record each, all acknowledged. */
static inline void fill(rig *r, int batches)
{
    for (int i = 0; i < batches && r->status == HTC_OK; i++) {
        change(r);
        cr_assert(eq(int, r->cells.ops->commit(r->cells.ctx, r->out), HTC_OK));
        log_disk_take(&r->disk, r->out);
        pump(r);
    }
}

static inline void begin(rig *r)
{
    cr_assert(start(r) == HTC_OK && r->ready);
    r->states[1] = r->states[0];
    r->batches = 1;
}

/* The frame with the highest sequence: its bytes, and how many. */
static inline uint8_t *last_frame(rig *r, size_t *length)
{
    htc__log_frame f, last = { 0 };
    uint8_t       *at = NULL;
    for (size_t i = 0; i < r->disk.count; i++)
        for (uint64_t k = 0; k + HTC__LOG_SECTOR <= r->disk.files[i].length; k += HTC__LOG_SECTOR)
            if (htc__log_frame_read(r->disk.files[i].data + k, r->options.member, &f) && f.sequence > last.sequence) {
                last = f;
                at = r->disk.files[i].data + k;
            }
    *length = HTC__LOG_HEAD + last.length;
    return at;
}

#endif
