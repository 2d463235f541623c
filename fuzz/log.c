/* A log that anybody wrote: segments and superblocks of any bytes, as they are or with their checksums put right so that what lies behind
 * these is reached. It is opened or refused; what is opened takes a change, and has it the next time. */
#include <string.h>

#include "../tests/unit/log_disk.h"
#include "check.h"
#include "kvs/storage/log.h"

enum { MEMBER = 7, SEGMENT = 8192 };

static htc_status drive(const htc__cells *cells, log_disk *disk, htc_output *out, int start)
{
    int        ready = 0;
    htc_input  in = { .size = sizeof in, .kind = HTC_IN_START, .now = 1 };
    htc_status status = start ? cells->ops->step(cells->ctx, &in, out, &ready) : HTC_OK;
    log_disk_take(disk, out);
    while (status == HTC_OK && disk->waiting_count) {
        log_disk_request w = log_disk_pick(disk, 0);
        in = (htc_input){ .size = sizeof(htc_input), .kind = HTC_IN_RESULT, .now = 1, .op = w.op, .tag = w.tag };
        in.status = log_disk_do(disk, (htc_bytes){ w.body, w.len });
        in.body = (htc_bytes){ disk->answer, in.status == HTC_OK ? disk->answer_len : 0 };
        status = cells->ops->step(cells->ctx, &in, out, &ready);
        free(w.body);
        log_disk_take(disk, out);
    }
    CHECK(status != HTC_OK || ready);
    return status;
}

/* Where a frame's head seems to stand, its sums are made to fit. */
static void put_right(uint8_t *bytes, size_t size)
{
    for (size_t at = 0; at + HTC__LOG_SECTOR <= size; at += HTC__LOG_SECTOR) {
        uint8_t       *p = bytes + at;
        htc__log_frame f;
        if (memcmp(p, "HTCF", 4) != 0)
            continue;
        memcpy(&f.type, p + 4, 4);
        memcpy(&f.length, p + 8, 4);
        memcpy(&f.count, p + 12, 4);
        memcpy(&f.epoch, p + 16, 8);
        memcpy(&f.sequence, p + 24, 8);
        memcpy(&f.synced, p + 32, 8);
        memcpy(&f.previous, p + 40, 8);
        if (HTC__LOG_HEAD + (uint64_t)f.length <= size - at)
            htc__log_frame_seal(p, &f, MEMBER);
    }
}

static void put_file(log_disk *disk, const char *name, const uint8_t *data, size_t size)
{
    CHECK(log_disk_create(disk, htc_bytes_of(name), size) == HTC_OK);
    memcpy(log_disk_find(disk, htc_bytes_of(name))->data, data, size);
}

/* The first byte: 1 the superblock is a good one, 2 sums are put right, 4 there are two segments. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static uint8_t bytes[2 * SEGMENT], super[HTC_DISK_SECTOR];
    log_disk       disk = { .room = 1 << 20 };
    htc_output    *out;
    htc__cells     cells;
    htc_bytes      key = htc_bytes_of("key"), value;
    uint64_t       batch;
    if (size < 1 || size > sizeof bytes)
        return 0;
    uint8_t flags = data[0];
    memset(bytes, 0, sizeof bytes);
    memcpy(bytes, data + 1, size - 1);
    if (flags & 2)
        put_right(bytes, sizeof bytes);
    if (flags & 1)
        htc__log_super_write(
            &(htc__log_super){ .generation = 1, .member = MEMBER, .epoch = 1, .first = 1, .first_sequence = 1 }, super);
    else
        memcpy(super, bytes + sizeof bytes - HTC__LOG_SECTOR, HTC__LOG_SECTOR);
    put_file(&disk, "super.0", super, sizeof super);
    put_file(&disk, "log-0000000000000001", bytes, SEGMENT);
    if (flags & 4)
        put_file(&disk, "log-0000000000000002", bytes + SEGMENT, SEGMENT);
    htc__log_options o = { .durability = HTC__LOG_SYNC, .segment_bytes = SEGMENT, .member = MEMBER, .ordered = 1 };
    CHECK(htc_output_create(NULL, 0, &out) == HTC_OK && htc__log_create(NULL, &o, &cells) == HTC_OK);
    htc_status status = drive(&cells, &disk, out, 1);
    CHECK(status == HTC_OK || status == HTC_ECORRUPT || status == HTC_EFORMAT || status == HTC_ETOOBIG ||
          status == HTC_ENOTFOUND);
    if (status == HTC_OK) {
        CHECK(cells.ops->put(cells.ctx, key, key) == HTC_OK && cells.ops->commit(cells.ctx, out) == HTC_OK);
        CHECK(drive(&cells, &disk, out, 0) == HTC_OK);
        size_t count = cells.ops->count(cells.ctx);
        cells.ops->destroy(cells.ctx);
        CHECK(htc__log_create(NULL, &o, &cells) == HTC_OK && drive(&cells, &disk, out, 1) == HTC_OK);
        CHECK(cells.ops->get(cells.ctx, key, &value, &batch) == HTC_OK && htc_bytes_equal(value, key));
        CHECK(cells.ops->count(cells.ctx) == count);
    }
    cells.ops->destroy(cells.ctx);
    htc_output_destroy(out);
    log_disk_free(&disk);
    return 0;
}
