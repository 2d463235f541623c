/* A backup from anybody: read at once and as its reader asks it says the same, and what was read is written back as the same bytes. An odd
 * first byte mends the checksums first, which nobody guesses. */
#include "htcsched/kv_backup.h"
#include "check.h"

#include <string.h>

/* Each entry gets the checksum that it should have; the first that makes no sense ends it. */
static void mend(uint8_t *bytes, size_t size)
{
    size_t head = size > 7 && bytes[7] == '1' ? 16 : 25;
    for (size_t at = 8; at < size && size - at >= head;) {
        htc_reader r = htc_reader_of((htc_bytes){ bytes + at, 8 });
        size_t     len = head + htc_get_u32(&r);
        uint32_t   value_len = htc_get_u32(&r);
        if (len > size - at || value_len > size - at - len || size - at - len - value_len < 8)
            return;
        uint64_t sum = htc_hash64((htc_bytes){ bytes + at, len + value_len }, 0);
        at += len + value_len;
        for (unsigned i = 0; i < 8; i++)
            bytes[at++] = (uint8_t)(sum >> 8 * i);
    }
}

static htc_kv_backup_reader read_at_once(const uint8_t *bytes, size_t size, htc_buf *again)
{
    htc_kv_backup_reader r = { .size = sizeof r };
    htc_kv_backup_item   item = { .size = sizeof item };
    htc_kv_backup_counts counts = { .size = sizeof counts };
    CHECK(htc_kv_backup_begin(again, &counts) == HTC_OK);
    while (htc_kv_backup_read(&r, (htc_bytes){ bytes + r.at, size - r.at }, 1, &item) == HTC_OK) {
        CHECK(r.at <= size);
        CHECK(htc_kv_backup_put(again, &counts, &item) == HTC_OK);
    }
    CHECK(r.status != HTC_OK && r.status != HTC_AGAIN && r.status != HTC_EINVAL);
    CHECK(counts.items == r.items && htc_kv_backup_end(again, &counts) == HTC_OK);
    return r;
}

static htc_kv_backup_reader read_as_asked(const uint8_t *bytes, size_t size)
{
    htc_kv_backup_reader r = { .size = sizeof r };
    htc_kv_backup_item   item = { .size = sizeof item };
    size_t               have = 0;
    int                  last = 0;
    for (;;) {
        htc_status s = htc_kv_backup_read(&r, (htc_bytes){ bytes + r.at, have }, last, &item);
        if (s == HTC_AGAIN) {
            CHECK(!last && r.need > have && r.need <= HTC_KV_BACKUP_NEED_MAX);
            last = r.need > size - r.at;
            have = last ? size - r.at : r.need;
        } else if (s == HTC_OK) {
            CHECK(r.taken == have);
            have = 0;
        } else {
            return r;
        }
    }
}

static void check(const uint8_t *bytes, size_t size)
{
    htc_buf again;
    htc_buf_init(&again, NULL, 0);
    htc_kv_backup_reader a = read_at_once(bytes, size, &again), b = read_as_asked(bytes, size);
    CHECK(a.status == b.status && a.items == b.items && a.at == b.at && a.wrong == b.wrong && a.wrong_at == b.wrong_at);
    CHECK((a.status == HTC_EMPTY) == !a.wrong);
    if (a.status == HTC_EMPTY && a.format == 2)
        CHECK(again.len == size && memcmp(again.data, bytes, size) == 0);
    htc_buf_free(&again);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size < 1)
        return 0;
    uint8_t *bytes = malloc(size);
    CHECK(bytes);
    memcpy(bytes, data + 1, size - 1);
    if (data[0] & 1)
        mend(bytes, size - 1);
    check(bytes, size - 1);
    free(bytes);
    return 0;
}
