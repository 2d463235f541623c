/* What an old owner shows a mover, from anybody: a page is refused or becomes part of an image whose keys are in order. */
#include "kvs/migrate/bucket_migration.h"
#include "check.h"
#include "kvs/map/bucket_state.h"

static void seal(void *ctx, uint64_t to, uint32_t bucket, uint64_t epoch, htc_bytes after)
{
    (void)ctx;
    (void)to;
    (void)bucket;
    (void)epoch;
    CHECK(after.len == 0 || after.data);
}

static void install(void *ctx, uint64_t to, uint32_t bucket, uint64_t number, uint32_t page, int last,
                    const htc__kv_floors *floors, htc_bytes entries)
{
    htc_reader   r = htc_reader_of(entries);
    htc_bytes    key, bytes, before = { NULL, 0 };
    htc__kv_cell cell;
    (void)ctx;
    (void)to;
    (void)bucket;
    (void)number;
    (void)page;
    (void)last;
    (void)floors;
    while (htc__kv_entry_read(&r, &key, &bytes, &cell)) {
        CHECK(cell.present && htc_bytes_compare(before, key) < 0);
        before = key;
    }
    CHECK(r.status == HTC_OK);
}

static void activate(void *ctx, uint64_t number)
{
    (void)ctx;
    (void)number;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    htc__kv_migration        *m;
    htc__kv_migration_options options = { .page_max = 64 };
    htc__kv_migration_host    host = { seal, install, activate, NULL };
    htc__kv_map_move      move = { .epoch = 5, .from_n = 2, .from = { 1, 2 }, .to_n = 1, .to = { 3 } };
    htc__kv_floors        floors = { 0 };
    htc__kv_bucket_state          hold;
    size_t                half = size ? data[0] * (size - 1) / 255 : 0;
    htc__kv_bucket_state_read((htc_bytes){ data, size }, &hold);
    CHECK(htc__kv_migration_create(NULL, &options, &host, &move, 9, 0, &m) == HTC_OK);
    if (size) {
        htc__kv_migration_shown(m, 1, 1, (htc_bytes){ NULL, 0 }, &floors, (htc_bytes){ data + 1, half }, 1);
        htc__kv_migration_shown(m, 1, 2, (htc_bytes){ NULL, 0 }, &floors, (htc_bytes){ data + 1 + half, size - 1 - half },
                            1);
    }
    for (uint32_t i = 1; i < 4; i++)
        htc__kv_migration_installed(m, 2, 3, 9, i);
    htc__kv_migration_destroy(m);
    return 0;
}
