/* Stored bytes of a key: one cell has one form, or one more where it is of the format before, and whatever is taken for a cell keeps the
 * promises of one. */
#include <string.h>

#include "check.h"
#include "kvs/cell/change.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    htc__kv_floors floors = { .version = 7 };
    htc__kv_cell   cell, again;
    uint64_t       version;
    htc_bytes      value;
    int            plain = htc__kv_cell_plain((htc_bytes){ data, size }, &version, &value);
    htc__kv_cell   there;
    htc_status     status = htc__kv_cell_read_for((htc_bytes){ data, size }, &floors, 1, &there);
    CHECK(htc__kv_cell_read((htc_bytes){ data, size }, &floors, &cell) == status);
    if (status != HTC_OK) {
        CHECK(!plain || data[1] & 128); /* a list is stepped over */
        return 0;
    }
    CHECK(!plain || (cell.present && !cell.deleted && !cell.lease && !cell.ttl && version == cell.version &&
                     htc_bytes_equal(value, cell.value)));
    htc_buf b, scratch;
    htc_buf_init(&b, NULL, 0);
    htc_buf_init(&scratch, NULL, 0);
    htc__kv_cell_write(&b, &cell);
    CHECK(b.data[0] == HTC__KV_CELL_FORMAT && (data[0] != b.data[0] || (b.len == size && memcmp(b.data, data, size) == 0)));
    CHECK(htc__kv_cell_read(htc_buf_bytes(&b), &floors, &again) == HTC_OK && htc__kv_cell_same(&cell, &again));
    CHECK(cell.count <= HTC__KV_CLIENTS && htc__kv_ballot_compare(&cell.promise, &cell.accepted) >= 0);
    /* A change of it can be stored and read again. */
    htc_kv_request  q = { .size = sizeof q, .op = HTC_KV_APPEND, .value = { "x", 1 } };
    htc__kv_stamp   stamp = { .client = 1, .sequence = UINT64_MAX, .since = cell.forgot };
    htc__kv_changed out;
    htc__kv_change(&cell, &q, &stamp, 0, &scratch, &out);
    if (out.effect == HTC__KV_CHANGED) {
        CHECK(out.to.version > cell.version && out.to.forgot >= cell.forgot && htc__kv_cell_find(&out.to, 1));
        htc_buf_clear(&b);
        htc__kv_cell_write(&b, &out.to);
        CHECK(htc__kv_cell_read(htc_buf_bytes(&b), NULL, &again) == HTC_OK && htc__kv_cell_same(&out.to, &again));
        /* The same where the list stays as it is stored. */
        htc_buf left;
        htc_buf_init(&left, NULL, 0);
        htc__kv_change(&there, &q, &stamp, 0, &scratch, &out);
        CHECK(out.effect == HTC__KV_CHANGED);
        htc__kv_cell_write(&left, &out.to);
        CHECK(htc_bytes_equal(htc_buf_bytes(&left), htc_buf_bytes(&b)));
        htc_buf_free(&left);
    }
    htc_buf_free(&b);
    htc_buf_free(&scratch);
    return 0;
}
