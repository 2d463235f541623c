/* The bytes of a backup: what was written is read again, and nothing else is. */
#include "expect.h"

#include "alloc_fail.h"
#include "htcsched/kv_backup.h"

#define ITEMS 40

static const htc_kv_backup_item some[] = {
    { .size = sizeof(htc_kv_backup_item), .key = { "greeting", 8 }, .value = { "hello", 5 }, .version = 7 },
    { .size = sizeof(htc_kv_backup_item), .key = { "a\0b", 3 }, .value = { "", 0 }, .version = UINT64_MAX, .ttl = 5000 },
    { .size = sizeof(htc_kv_backup_item), .key = { "l", 1 }, .value = { "of a lease", 10 }, .version = 1, .leased = 1 },
    { .size = sizeof(htc_kv_backup_item), .space = { "cart", 4 }, .key = { "k\0", 2 }, .value = { "one", 3 } },
    { .size = sizeof(htc_kv_backup_item), .space = { "cart", 4 }, .key = { "k\0", 2 }, .value = { "two", 3 } },
};
#define SOME (sizeof some / sizeof some[0])

static void write_items(htc_buf *b, const htc_kv_backup_item *item, size_t n)
{
    htc_kv_backup_counts counts = { .size = sizeof counts, .items = 99 };
    htc_buf_init(b, NULL, 0);
    cr_assert(eq(int, htc_kv_backup_begin(b, &counts), HTC_OK));
    for (size_t i = 0; i < n; i++)
        cr_assert(eq(int, htc_kv_backup_put(b, &counts, &item[i]), HTC_OK));
    cr_assert(eq(int, htc_kv_backup_end(b, &counts), HTC_OK));
    cr_assert(eq(u64, counts.items, n));
}

static void expect_same(const htc_kv_backup_item *a, const htc_kv_backup_item *b)
{
    cr_assert(htc_bytes_equal(a->space, b->space) && htc_bytes_equal(a->key, b->key) && htc_bytes_equal(a->value, b->value));
    cr_assert(a->version == b->version && a->ttl == b->ttl && a->leased == b->leased);
}

/* Read it to its end, given no more than it asks for each time; the items that are there are compared. */
static htc_kv_backup_reader read_as_asked(htc_bytes all, const htc_kv_backup_item *item, size_t n)
{
    htc_kv_backup_reader r = { .size = sizeof r };
    htc_kv_backup_item   found = { .size = sizeof found };
    htc_status           s;
    size_t               have = 0;
    int                  last = 0;
    for (;;) {
        uint64_t at = r.at;
        s = htc_kv_backup_read(&r, (htc_bytes){ (const uint8_t *)all.data + r.at, have }, last, &found);
        if (s == HTC_OK) {
            cr_assert(r.taken == have && r.at == at + have && r.items <= n);
            expect_same(&found, &item[r.items - 1]);
            have = 0;
        } else if (s == HTC_AGAIN) {
            cr_assert(!last && r.need > have && r.need <= HTC_KV_BACKUP_NEED_MAX && r.at == at);
            last = r.need > all.len - r.at;
            have = last ? all.len - r.at : r.need;
        } else {
            return r;
        }
    }
}

/* All that it answers for bytes that stand there at once. */
static htc_kv_backup_reader read_at_once(htc_bytes all)
{
    htc_kv_backup_reader r = { .size = sizeof r };
    htc_kv_backup_item   found = { .size = sizeof found };
    while (htc_kv_backup_read(&r, (htc_bytes){ (const uint8_t *)all.data + r.at, all.len - r.at }, 1, &found) == HTC_OK)
        cr_assert(found.key.len > 0);
    return r;
}

static void expect_refused(htc_bytes all)
{
    htc_kv_backup_reader r = read_at_once(all);
    cr_assert(r.status == HTC_ECORRUPT || r.status == HTC_EINPUT || r.status == HTC_EFORMAT);
    cr_assert(r.wrong && r.wrong_at <= all.len);
}

Test(kv_backup, what_is_written_is_read)
{
    htc_buf b;
    write_items(&b, some, SOME);
    htc_kv_backup_reader r = read_as_asked(htc_buf_bytes(&b), some, SOME);
    cr_assert(r.status == HTC_EMPTY && r.items == SOME && r.at == b.len && r.format == 2 && !r.wrong);
    r = read_at_once(htc_buf_bytes(&b));
    cr_assert(r.status == HTC_EMPTY && r.items == SOME);
    htc_buf_free(&b);
    write_items(&b, NULL, 0);
    r = read_as_asked(htc_buf_bytes(&b), NULL, 0);
    cr_assert(r.status == HTC_EMPTY && r.items == 0);
    htc_buf_free(&b);
}

static htc_bytes draw(htc_rng *rng, uint8_t *at, size_t min, size_t max)
{
    size_t n = min + htc_rng_below(rng, max - min + 1);
    for (size_t i = 0; i < n; i++)
        at[i] = (uint8_t)htc_rng_below(rng, 256);
    return (htc_bytes){ at, n };
}

Test(kv_backup, whatever_is_drawn_is_read_as_it_was_written)
{
    static uint8_t     text[ITEMS][3][HTC_KV_KEY_MAX];
    htc_kv_backup_item item[ITEMS];
    for (uint64_t seed = 1; seed <= 50; seed++) {
        htc_rng rng;
        htc_buf b;
        rng.state = seed;
        for (size_t i = 0; i < ITEMS; i++) {
            uint64_t kind = htc_rng_below(&rng, 4);
            item[i] = (htc_kv_backup_item){ .size = sizeof item[i], .version = htc_rng_below(&rng, UINT64_MAX), .leased = kind == 1 };
            item[i].ttl = kind == 2 ? htc_rng_below(&rng, UINT64_MAX) : 0;
            if (kind == 3)
                item[i].space = draw(&rng, text[i][0], 1, HTC_KV_SPACE_MAX);
            for (size_t c = 0; c < item[i].space.len; c++)
                text[i][0][c] |= 1;
            item[i].key = draw(&rng, text[i][1], 1, HTC_KV_KEY_MAX - HTC_KV_SPACE_MAX - 1);
            item[i].value = draw(&rng, text[i][2], 0, HTC_KV_KEY_MAX);
        }
        write_items(&b, item, ITEMS);
        htc_kv_backup_reader r = read_as_asked(htc_buf_bytes(&b), item, ITEMS);
        cr_assert(eq(int, r.status, HTC_EMPTY), "seed %d", (int)seed);
        htc_buf_free(&b);
    }
}

Test(kv_backup, every_beginning_of_one_is_refused)
{
    htc_buf b;
    write_items(&b, some, SOME);
    for (size_t n = 0; n < b.len; n++) {
        expect_refused((htc_bytes){ b.data, n });
        htc_kv_backup_reader r = read_as_asked((htc_bytes){ b.data, n }, some, SOME);
        cr_assert(r.status == (n < 8 ? HTC_EINPUT : HTC_ECORRUPT));
        cr_assert(eq(str, r.wrong, n < 8 ? "this is no backup" : "it ends too early"));
    }
    htc_buf_free(&b);
}

Test(kv_backup, every_byte_that_is_another_is_seen)
{
    htc_buf b;
    write_items(&b, some, SOME);
    for (size_t i = 0; i < b.len; i++)
        for (unsigned flip = 1; flip < 256; flip++) {
            b.data[i] ^= (uint8_t)flip;
            expect_refused(htc_buf_bytes(&b));
            b.data[i] ^= (uint8_t)flip;
        }
    htc_buf_free(&b);
}

Test(kv_backup, what_stands_behind_it_or_is_missing_is_seen)
{
    htc_buf              b, shorter;
    htc_kv_backup_item   found = { .size = sizeof found };
    htc_kv_backup_reader r;
    write_items(&b, some, SOME);
    htc_put_u8(&b, 0);
    expect_refused(htc_buf_bytes(&b));
    b.len--;
    /* The first entry is gone, the number of entries is not. */
    size_t first = 8 + 25 + 13 + 8;
    htc_buf_init(&shorter, NULL, 0);
    htc_put_raw(&shorter, (htc_bytes){ b.data, 8 });
    htc_put_raw(&shorter, (htc_bytes){ b.data + first, b.len - first });
    r = read_at_once(htc_buf_bytes(&shorter));
    cr_assert(eq(str, r.wrong, "keys are missing or added"));
    cr_assert(eq(u64, r.wrong_at, shorter.len - 33));
    /* It stays so. */
    cr_assert(eq(int, htc_kv_backup_read(&r, htc_buf_bytes(&b), 1, &found), HTC_ECORRUPT));
    htc_buf_free(&shorter);
    htc_buf_free(&b);
}

/* An entry with a right checksum, whatever it says, and an end. */
static htc_kv_backup_reader read_entry(uint32_t key_len, uint32_t value_len, uint8_t kind, htc_bytes key, uint64_t end_ttl)
{
    htc_buf b;
    htc_buf_init(&b, NULL, 0);
    htc_put_raw(&b, htc_bytes_of("HTCKVB02"));
    htc_put_u32(&b, key_len);
    htc_put_u32(&b, value_len);
    htc_put_u64(&b, 1);
    htc_put_u64(&b, 0);
    htc_put_u8(&b, kind);
    htc_put_raw(&b, key);
    htc_put_u64(&b, htc_hash64((htc_bytes){ b.data + 8, b.len - 8 }, 0));
    size_t end = b.len;
    htc_put_u64(&b, 0);
    htc_put_u64(&b, 1);
    htc_put_u64(&b, end_ttl);
    htc_put_u8(&b, 0);
    htc_put_u64(&b, htc_hash64((htc_bytes){ b.data + end, b.len - end }, 0));
    htc_kv_backup_reader r = read_at_once(htc_buf_bytes(&b));
    htc_buf_free(&b);
    return r;
}

Test(kv_backup, an_entry_that_no_writer_writes_is_refused)
{
    static char long_key[HTC_KV_KEY_MAX + 1];
    cr_assert(eq(int, read_entry(1, 0, 0, htc_bytes_of("k"), 0).status, HTC_EMPTY));
    cr_assert(eq(int, read_entry(1, 0, 0, htc_bytes_of("k"), 1).status, HTC_ECORRUPT));
    cr_assert(eq(int, read_entry(1, 0, 3, htc_bytes_of("k"), 0).status, HTC_ECORRUPT));
    cr_assert(eq(int, read_entry(HTC_KV_KEY_MAX + 1, 0, 0, (htc_bytes){ long_key, sizeof long_key }, 0).status, HTC_ECORRUPT));
    cr_assert(eq(int, read_entry(1, HTC_KV_VALUE_MAX + 1, 0, htc_bytes_of("k"), 0).status, HTC_ECORRUPT));
    cr_assert(eq(int, read_entry(3, 0, 2, (htc_bytes){ "n\0k", 3 }, 0).status, HTC_EMPTY));
    cr_assert(eq(int, read_entry(2, 0, 2, (htc_bytes){ "n\0", 2 }, 0).status, HTC_ECORRUPT));
    cr_assert(eq(int, read_entry(2, 0, 2, (htc_bytes){ "\0k", 2 }, 0).status, HTC_ECORRUPT));
    cr_assert(eq(int, read_entry(2, 0, 2, htc_bytes_of("nk"), 0).status, HTC_ECORRUPT));
    cr_assert(eq(int, read_entry(34, 0, 2, (htc_bytes){ "a name that has thirty-two letters\0" "k", 34 }, 0).status, HTC_ECORRUPT));
}

/* As 0.1 wrote them. */
Test(kv_backup, the_first_format_is_read)
{
    htc_buf                  b;
    const htc_kv_backup_item item = { .size = sizeof item, .key = { "greeting", 8 }, .value = { "hello", 5 }, .version = 7 };
    htc_buf_init(&b, NULL, 0);
    htc_put_raw(&b, htc_bytes_of("HTCKVB01"));
    htc_put_u32(&b, 8);
    htc_put_u32(&b, 5);
    htc_put_u64(&b, 7);
    htc_put_raw(&b, htc_bytes_of("greetinghello"));
    htc_put_u64(&b, htc_hash64((htc_bytes){ b.data + 8, 29 }, 0));
    htc_put_u64(&b, 0);
    htc_put_u64(&b, 1);
    htc_put_u64(&b, htc_hash64((htc_bytes){ b.data + 45, 16 }, 0));
    htc_kv_backup_reader r = read_as_asked(htc_buf_bytes(&b), &item, 1);
    cr_assert(r.status == HTC_EMPTY && r.items == 1 && r.format == 1);
    for (size_t n = 0; n < b.len; n++)
        expect_refused((htc_bytes){ b.data, n });
    for (size_t i = 0; i < b.len; i++) {
        b.data[i] ^= 4;
        expect_refused(htc_buf_bytes(&b));
        b.data[i] ^= 4;
    }
    htc_buf_free(&b);
    r = read_at_once(htc_bytes_of("HTCKVB03 and what comes"));
    cr_assert(eq(int, r.status, HTC_EFORMAT));
}

Test(kv_backup, what_is_no_item_is_not_written)
{
    static char    text[HTC_KV_VALUE_MAX + 1];
    const size_t   full = sizeof(htc_kv_backup_item);
    const htc_bytes n = { "n", 1 }, k = { "k", 1 };
    const struct {
        htc_status         status;
        htc_kv_backup_item item;
    } wrong[] = {
        { HTC_EINVAL, { .size = 0, .key = k } },
        { HTC_EINVAL, { .size = full - 8, .key = k } },
        { HTC_EINVAL, { .size = full } },
        { HTC_EINVAL, { .size = full, .key = { NULL, 1 } } },
        { HTC_EINVAL, { .size = full, .key = k, .leased = 2 } },
        { HTC_EINVAL, { .size = full, .key = k, .leased = 1, .space = n } },
        { HTC_EINVAL, { .size = full, .key = k, .space = { "n\0", 2 } } },
        { HTC_ETOOBIG, { .size = full, .key = { text, HTC_KV_KEY_MAX + 1 } } },
        { HTC_ETOOBIG, { .size = full, .key = { text, HTC_KV_KEY_MAX - 1 }, .space = n } },
        { HTC_ETOOBIG, { .size = full, .key = k, .space = { text, HTC_KV_SPACE_MAX + 1 } } },
        { HTC_ETOOBIG, { .size = full, .key = k, .value = { text, HTC_KV_VALUE_MAX + 1 } } },
    };
    const htc_kv_backup_item most = { .size = full, .space = n, .key = { text, HTC_KV_KEY_MAX - 2 }, .value = { text, HTC_KV_VALUE_MAX } };
    htc_kv_backup_counts     counts = { .size = sizeof counts };
    htc_buf                  b;
    htc_buf_init(&b, NULL, 0);
    cr_assert(eq(int, htc_kv_backup_begin(&b, &counts), HTC_OK));
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        cr_assert(eq(int, htc_kv_backup_put(&b, &counts, &wrong[i].item), wrong[i].status), "item %d", (int)i);
        cr_assert(b.len == 8 && counts.items == 0 && b.status == HTC_OK);
    }
    cr_assert(eq(int, htc_kv_backup_put(&b, &counts, &most), HTC_OK));
    cr_assert(eq(int, htc_kv_backup_end(&b, &counts), HTC_OK));
    cr_assert(eq(int, read_as_asked(htc_buf_bytes(&b), &most, 1).status, HTC_EMPTY));
    htc_buf_free(&b);
}

Test(kv_backup, a_struct_without_its_size_is_refused)
{
    htc_kv_backup_counts counts = { .size = 0 };
    htc_kv_backup_reader r = { .size = 0 };
    htc_kv_backup_item   item = { .size = sizeof item };
    htc_buf              b;
    htc_buf_init(&b, NULL, 0);
    cr_assert(eq(int, htc_kv_backup_begin(&b, &counts), HTC_EINVAL));
    cr_assert(eq(int, htc_kv_backup_end(&b, &counts), HTC_EINVAL));
    cr_assert(eq(int, htc_kv_backup_put(&b, &counts, &item), HTC_EINVAL));
    cr_assert(eq(int, htc_kv_backup_read(&r, (htc_bytes){ NULL, 0 }, 0, &item), HTC_EINVAL));
    r.size = sizeof r;
    item.size = 0;
    cr_assert(eq(int, htc_kv_backup_read(&r, (htc_bytes){ NULL, 0 }, 0, &item), HTC_EINVAL));
    cr_assert(eq(sz, b.len, 0));
    htc_buf_free(&b);
}

/* An item is appended whole or not at all. */
Test(kv_backup, without_room_nothing_is_written)
{
    htc_kv_backup_counts counts = { .size = sizeof counts };
    htc_buf              b;
    htc_buf_init(&b, NULL, 8 + 25 + 13 + 7);
    cr_assert(eq(int, htc_kv_backup_begin(&b, &counts), HTC_OK));
    cr_assert(eq(int, htc_kv_backup_put(&b, &counts, &some[0]), HTC_EFULL));
    cr_assert(b.len == 8 && counts.items == 0);
    htc_buf_free(&b);
    ALLOC_FAIL_EVERY (f, 20) {
        htc_env    env = alloc_fail_env(&f);
        htc_status s;
        htc_buf_init(&b, &env, 0);
        s = htc_kv_backup_begin(&b, &counts);
        size_t before = b.len;
        if (s == HTC_OK)
            s = htc_kv_backup_put(&b, &counts, &some[0]);
        cr_assert(s == HTC_OK || (s == HTC_ENOMEM && b.len == before && counts.items == 0));
        htc_buf_free(&b);
        cr_assert(f.live == 0 && f.wrong_sizes == 0);
    }
}
