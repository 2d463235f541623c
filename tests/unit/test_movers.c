/* The movers of one batch: each hears of its own bucket, the map is told once, and how many buckets the next batch has. */
#include "expect.h"

#include "alloc_fail.h"
#include "kvs/migrate/migration_batch.h"

#define BUCKETS 5

typedef struct host {
    unsigned sealed[64], installed[64], activated;
    uint64_t number;
    char     image[256]; /* of the newest page: copied, for its keys */
    size_t   image_len;
} host;

static void seal(void *ctx, uint64_t to, uint32_t bucket, uint64_t epoch, htc_bytes after)
{
    host *h = ctx;
    (void)after;
    cr_assert(to >= 1 && to <= 3 && epoch == 100 + bucket);
    h->sealed[bucket]++;
}

static void install(void *ctx, uint64_t to, uint32_t bucket, uint64_t number, uint32_t page, int last,
                    const htc__kv_floors *floors, htc_bytes entries)
{
    host *h = ctx;
    (void)page;
    (void)last;
    (void)floors;
    cr_assert(to >= 2 && to <= 4 && number == h->number);
    h->image_len = entries.len <= sizeof h->image ? entries.len : 0;
    if (h->image_len)
        memcpy(h->image, entries.data, h->image_len);
    h->installed[bucket]++;
}

static void activate(void *ctx, uint64_t number)
{
    host *h = ctx;
    cr_assert(number == h->number);
    h->activated++;
}

static htc_status make(const htc_env *env, host *h, uint32_t count, htc__kv_migration_batch **out)
{
    htc__kv_map_move      moves[BUCKETS];
    htc__kv_migration_batch        *m = NULL;
    htc__kv_migration_host    ours = { seal, install, activate, h };
    htc__kv_migration_options o = { .retry_ns = 10 };
    for (uint32_t i = 0; i < count; i++)
        moves[i] = (htc__kv_map_move){ .bucket = 10 + 7 * i, .epoch = 110 + 7 * i, .from_n = 3, .to_n = 3,
                                       .from = { 1, 2, 3 }, .to = { 2, 3, 4 } };
    *h = (host){ .number = 9 };
    htc_status status = htc__kv_migration_batch_create(env, &o, &ours, moves, count, 9, 5, &m);
    if (status == HTC_OK)
        *out = m;
    return status;
}

static htc_status show(htc__kv_migration_batch *m, uint64_t from, uint32_t bucket, htc_bytes entries)
{
    htc__kv_floors none = { 0 };
    return htc__kv_migration_batch_shown(m, 6, from, bucket, (htc_bytes){ NULL, 0 }, &none, entries, 1);
}

/* Empty buckets, shown and installed in any order: all of them have to be at a majority before the map hears of it, once. */
Test(movers, the_map_hears_once)
{
    htc__kv_migration_batch *m = NULL;
    host            h;
    cr_assert(make(NULL, &h, BUCKETS, &m) == HTC_OK);
    cr_expect(htc__kv_migration_batch_count(m) == BUCKETS && htc__kv_migration_batch_deadline(m) == 5);
    htc__kv_migration_batch_timeout(m, 5);
    for (uint32_t i = 0; i < BUCKETS; i++)
        cr_expect(h.sealed[10 + 7 * i] == 3 && h.installed[10 + 7 * i] == 0);
    cr_expect(htc__kv_migration_batch_deadline(m) == 15);
    for (uint32_t i = BUCKETS; i-- > 0;)
        for (uint64_t from = 1; from <= 2; from++)
            cr_assert(show(m, from, 10 + 7 * i, (htc_bytes){ NULL, 0 }) == HTC_OK);
    cr_expect(show(m, 1, 11, (htc_bytes){ NULL, 0 }) == HTC_OK); /* of no bucket here */
    for (uint32_t i = 0; i < BUCKETS; i++) {
        uint32_t bucket = 10 + 7 * i;
        cr_expect(h.installed[bucket] == 3 && h.activated == 0);
        htc__kv_migration_batch_installed(m, 7, 4, bucket, 9, 1);
        htc__kv_migration_batch_installed(m, 7, 4, bucket, 9, 1);
        htc__kv_migration_batch_installed(m, 7, 3, bucket, 8, 1); /* of another number */
        htc__kv_migration_batch_installed(m, 7, 3, 11, 9, 1);
        cr_expect(h.activated == 0);
        htc__kv_migration_batch_installed(m, 7, 2, bucket, 9, 1);
    }
    cr_expect(h.activated == 1);
    htc__kv_migration_batch_installed(m, 8, 3, 10, 9, 1);
    cr_expect(h.activated == 1);
    htc__kv_migration_batch_destroy(m);
}

/* What `from` holds of the key "k": a value, a tombstone, or nothing of it, behind the version floor. */
static htc_status show_cell(htc__kv_migration_batch *m, uint64_t from, const htc__kv_cell *cell, uint64_t floor)
{
    htc__kv_floors floors = { .version = floor };
    htc_buf        b;
    htc_buf_init(&b, NULL, 0);
    if (cell)
        htc__kv_entry_write(&b, htc_bytes_of("k"), cell);
    htc_status status = htc__kv_migration_batch_shown(m, 6, from, 10, (htc_bytes){ NULL, 0 }, &floors, htc_buf_bytes(&b), 1);
    htc_buf_free(&b);
    return status;
}

static htc__kv_cell image_of(const htc__kv_cell *one, uint64_t one_floor, const htc__kv_cell *other,
                             uint64_t other_floor)
{
    htc__kv_migration_batch *m = NULL;
    host            h;
    htc__kv_cell    cell;
    htc_bytes       key, bytes;
    cr_assert(make(NULL, &h, 1, &m) == HTC_OK);
    cr_assert(show_cell(m, 1, one, one_floor) == HTC_OK && show_cell(m, 2, other, other_floor) == HTC_OK);
    htc_reader r = htc_reader_of((htc_bytes){ h.image, h.image_len });
    cr_assert(htc__kv_entry_read(&r, &key, &bytes, &cell) && htc_reader_left(&r) == 0);
    htc__kv_migration_batch_destroy(m);
    return cell;
}

/* A majority has answered that a key is not there in version 4, another owner has accepted it in version 1: if the image makes that final, then
 * above what was answered, and as something that no proposer has made. */
Test(movers, the_image_is_above_what_was_answered)
{
    htc__kv_cell value = { .present = 1, .version = 1, .accepted = { 3, 7, 1 }, .promise = { 3, 7, 1 } }, gone = value,
                 later = value, is;
    gone.deleted = 1;
    later.version = 5;
    is = image_of(&value, 4, NULL, 4);
    cr_expect(is.present && is.version == 5 && is.accepted.epoch == 9 && is.accepted.counter == 0 &&
              is.accepted.proposer == 0);
    is = image_of(&gone, 2, NULL, 4);
    cr_expect(is.deleted && is.version == 4 && is.accepted.epoch == 9);
    is = image_of(NULL, 4, &value, 6);
    cr_expect(is.version == 5 && is.accepted.epoch == 9);
    /* Nobody has said that it is not there, or only below its version. */
    is = image_of(&value, 4, &value, 4);
    cr_expect(is.version == 1 && is.accepted.epoch == 3 && is.accepted.counter == 7);
    is = image_of(&later, 6, NULL, 4);
    cr_expect(is.version == 5 && is.accepted.counter == 7);
}

/* One that is too large for its company is told; alone it is moved. */
Test(movers, too_much_at_once)
{
    static uint8_t value[HTC__KV_MOVERS_BYTES];
    htc_buf        entries;
    host           h;
    htc__kv_cell   cell = { .present = 1, .version = 1, .value = { value, sizeof value } };
    cell.accepted = cell.promise = (htc__kv_ballot){ 1, 1, 1 };
    htc_buf_init(&entries, NULL, 0);
    htc__kv_entry_write(&entries, htc_bytes_of("k"), &cell);
    for (uint32_t count = 1; count <= 2; count++) {
        htc__kv_migration_batch *m = NULL;
        htc_status      status = HTC_OK;
        cr_assert(make(NULL, &h, count, &m) == HTC_OK);
        for (int i = 0; i < 5 && status == HTC_OK; i++)
            status = show(m, 1 + (uint64_t)i % 3, 10, htc_buf_bytes(&entries));
        cr_expect(status == (count == 1 ? HTC_OK : HTC_EFULL));
        cr_expect(htc__kv_migration_batch_bytes(m) > HTC__KV_MOVERS_MOST);
        htc__kv_migration_batch_destroy(m);
    }
    htc_buf_free(&entries);
}

/* Twice as many while there is little in them, and never more than what fits; a store of empty buckets is moved in some twenty steps. */
Test(movers, how_many_come_next)
{
    cr_expect(eq(u32, htc__kv_migration_batch_next(1, 0), 2));
    cr_expect(eq(u32, htc__kv_migration_batch_next(HTC__KV_MOVERS_BUCKETS, 0), HTC__KV_MOVERS_BUCKETS));
    cr_expect(eq(u32, htc__kv_migration_batch_next(200, 1), HTC__KV_MOVERS_BUCKETS));
    cr_expect(eq(u32, htc__kv_migration_batch_next(8, HTC__KV_MOVERS_BYTES), 8));
    cr_expect(eq(u32, htc__kv_migration_batch_next(8, 4 * HTC__KV_MOVERS_BYTES), 2));
    cr_expect(eq(u32, htc__kv_migration_batch_next(8, 3 * HTC__KV_MOVERS_BYTES / 4), 10));
    cr_expect(eq(u32, htc__kv_migration_batch_next(1, SIZE_MAX / 2), 1));
    int steps = 0;
    for (uint32_t left = 4096, n = 1; left > 0; steps++) {
        left -= n < left ? n : left;
        n = htc__kv_migration_batch_next(n, 0);
    }
    cr_expect(steps <= 24, "%d steps", steps);
}

Test(movers, memory_runs_out_anywhere)
{
    ALLOC_FAIL_EVERY(f, 200)
    {
        htc_env         env = alloc_fail_env(&f);
        htc__kv_migration_batch *m = NULL;
        host            h;
        htc_status      status = make(&env, &h, BUCKETS, &m);
        cr_expect(status == HTC_OK || (status == HTC_ENOMEM && f.refused && !m));
        htc__kv_migration_batch_destroy(m);
        cr_expect(f.live == 0 && f.wrong_sizes == 0);
    }
}
