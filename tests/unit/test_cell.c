/* The stored form of a key. */
#include "expect.h"
#include <stdlib.h>
#include <string.h>

#include "core/codec.h"
#include "kvs/cell.h"
#include "property.h"

static htc__kv_ballot some_ballot(htc_rng *rng)
{
    return (htc__kv_ballot){ htc_rng_below(rng, 3), htc_rng_below(rng, 1000), htc_rng_next(rng) | 1 };
}

static htc__kv_cell some_cell(htc_rng *rng)
{
    static const char text[] = "the value of a key";
    htc__kv_cell      c = { .present = htc_rng_below(rng, 4) != 0 };
    if (c.present) {
        c.deleted = htc_rng_below(rng, 3) == 0;
        c.version = 1 + htc_rng_below(rng, 100000);
        c.forgot = htc_rng_below(rng, 2) * htc_rng_below(rng, c.version);
        if (htc_rng_below(rng, 2))
            c.accepted = some_ballot(rng);
        if (!c.deleted) {
            c.value = (htc_bytes){ text, htc_rng_below(rng, sizeof text) };
            c.lease = htc_rng_below(rng, 2) * htc_rng_next(rng);
            c.ttl = htc_rng_below(rng, 2) * htc_rng_next(rng);
            c.term = c.ttl ? c.version : 0;
        }
        for (size_t n = htc_rng_below(rng, HTC__KV_CLIENTS + 1); c.count < n;)
            c.seen[c.count++] = (htc__kv_seen){ htc_rng_next(rng), htc_rng_next(rng), htc_rng_below(rng, c.version + 1),
                                                (int64_t)htc_rng_next(rng) };
    }
    c.promise = c.accepted;
    if (c.present && !htc__kv_ballot_none(&c.accepted) && htc_rng_below(rng, 2))
        c.promise = htc__kv_ballot_next(c.accepted);
    else if (htc_rng_below(rng, 2))
        c.promise = htc__kv_ballot_max(c.accepted, some_ballot(rng));
    return c;
}

Test(cell, what_is_written_is_read)
{
    htc_buf b;
    htc_buf_init(&b, NULL, 0);
    PROPERTY(rng, 5000)
    {
        htc__kv_floors floors = { .version = 9 };
        htc__kv_cell   cell = some_cell(&rng), again;
        htc_buf_clear(&b);
        htc__kv_cell_write(&b, &cell);
        HOLDS(htc__kv_cell_read(htc_buf_bytes(&b), &floors, &again) == HTC_OK);
        HOLDS(again.version == (cell.present ? cell.version : 9) && again.forgot == (cell.present ? cell.forgot : 9));
        HOLDS(htc__kv_ballot_compare(&again.promise, &cell.promise) == 0);
        if (cell.present)
            HOLDS(htc__kv_cell_same(&cell, &again));
        /* Cut off anywhere but in the value it is no cell, or another. */
        for (size_t n = 0; n < b.len; n++)
            if (htc__kv_cell_read((htc_bytes){ b.data, n }, NULL, &again) == HTC_OK)
                HOLDS(cell.present && again.value.len < cell.value.len);
    }
    htc_buf_free(&b);
}

/* Who replaces a cell sees all of it but list and value. */
Test(cell, a_head_is_that_of_the_cell)
{
    htc_buf b;
    htc_buf_init(&b, NULL, 0);
    PROPERTY(rng, 5000)
    {
        htc__kv_floors floors = { .version = 9 };
        htc__kv_cell   cell = some_cell(&rng), head;
        htc_buf_clear(&b);
        htc__kv_cell_write(&b, &cell);
        HOLDS(htc__kv_cell_read(htc_buf_bytes(&b), &floors, &cell) == HTC_OK);
        HOLDS(htc__kv_cell_head(htc_buf_bytes(&b), &floors, &head) == HTC_OK && head.value.len == 0 && head.count == 0);
        HOLDS(head.present == cell.present && head.deleted == cell.deleted && head.version == cell.version);
        HOLDS(head.forgot == cell.forgot && head.lease == cell.lease && head.ttl == cell.ttl && head.term == cell.term);
        HOLDS(htc__kv_ballot_compare(&head.accepted, &cell.accepted) == 0);
        HOLDS(htc__kv_ballot_compare(&head.promise, &cell.promise) == 0);
    }
    htc_buf_free(&b);
}

/* The bytes with another promise are those of the cell with it. */
Test(cell, a_promise_is_left_out)
{
    htc_buf b, expected, written;
    htc_buf_init(&b, NULL, 0);
    htc_buf_init(&expected, NULL, 0);
    htc_buf_init(&written, NULL, 0);
    PROPERTY(rng, 5000)
    {
        htc__kv_cell cell = some_cell(&rng);
        htc_buf_clear(&b);
        htc_buf_clear(&expected);
        htc_buf_clear(&written);
        htc__kv_cell_write(&b, &cell);
        htc__kv_cell_write_unpromised(&written, htc_buf_bytes(&b), &cell);
        cell.promise = cell.accepted;
        htc__kv_cell_write(&expected, &cell);
        HOLDS(htc_bytes_equal(htc_buf_bytes(&written), htc_buf_bytes(&expected)));
        htc_buf_clear(&written);
        htc__kv_cell_write_unpromised(&written, (htc_bytes){ NULL, 0 }, &cell);
        HOLDS(htc_bytes_equal(htc_buf_bytes(&written), htc_buf_bytes(&expected)));
    }
    htc_buf_free(&b);
    htc_buf_free(&expected);
    htc_buf_free(&written);
}

static void read_quickly(htc_bytes bytes, size_t *plain)
{
    htc__kv_cell cell;
    uint64_t     version;
    htc_bytes    value;
    if (!htc__kv_cell_plain(bytes, &version, &value))
        return;
    ++*plain;
    HOLDS(htc__kv_cell_read(bytes, NULL, &cell) == HTC_OK && cell.present && !cell.deleted && !cell.lease && !cell.ttl);
    HOLDS(cell.version == version && htc_bytes_equal(cell.value, value));
}

/* What is read without a look at the list is what a look at all of it shows, also of cells that are cut or damaged. */
Test(cell, what_is_read_quickly_is_there)
{
    htc_buf b;
    size_t  whole = 0, other = 0;
    htc_buf_init(&b, NULL, 0);
    PROPERTY_ALL(rng, 1000)
    {
        htc__kv_cell cell = { .present = 1, .version = 1 + htc_rng_below(&rng, 1000), .value = { "value", 5 } };
        cell.forgot = htc_rng_below(&rng, 2) * htc_rng_below(&rng, cell.version);
        for (size_t n = htc_rng_below(&rng, HTC__KV_CLIENTS + 1); cell.count < n;)
            cell.seen[cell.count++] = (htc__kv_seen){ htc_rng_next(&rng), htc_rng_below(&rng, 1000),
                                                      htc_rng_below(&rng, cell.version + 1),
                                                      (int64_t)htc_rng_below(&rng, 1000) - 500 };
        htc_buf_clear(&b);
        htc__kv_cell_write(&b, &cell);
        read_quickly(htc_buf_bytes(&b), &whole);
        for (size_t n = 0; n < b.len; n++) {
            uint8_t *damaged = memcpy(malloc(b.len), b.data, b.len);
            read_quickly((htc_bytes){ damaged, n }, &other);
            damaged[n] ^= (uint8_t)(1 + htc_rng_below(&rng, 255));
            read_quickly((htc_bytes){ damaged, b.len }, &other);
            free(damaged);
        }
    }
    cr_expect(whole == 1000 && other > 1000, "%zu, %zu", whole, other);
    htc_buf_free(&b);
}

/* Bytes beyond key and value. */
static size_t overhead(const htc__kv_cell *cell)
{
    htc_buf b;
    htc_buf_init(&b, NULL, 0);
    htc__kv_cell_write(&b, cell);
    size_t n = b.len - cell->value.len;
    htc_buf_free(&b);
    return n;
}

/* What is damaged is shown without bytes. */
Test(cell, nothing_is_no_cell)
{
    uint64_t     version;
    htc_bytes    value, nothing = { NULL, 0 };
    htc__kv_cell cell;
    cr_expect(eq(int, htc__kv_cell_plain(nothing, &version, &value), 0));
    cr_expect(ne(int, htc__kv_cell_read(nothing, NULL, &cell), HTC_OK));
}

Test(cell, costs_a_few_bytes)
{
    htc__kv_cell cell = { .present = 1, .version = 1000000000, .value = { "value", 5 } };
    cr_expect(le(sz, overhead(&cell), 7));
    cell.accepted = (htc__kv_ballot){ 1000, 1000000000, UINT64_MAX };
    cell.promise = htc__kv_ballot_next(cell.accepted);
    cr_expect(le(sz, overhead(&cell), 24));
    htc__kv_cell_note(&cell, &(htc__kv_seen){ UINT64_MAX, 100, cell.version, 0 });
    cr_expect(le(sz, overhead(&cell), 24 + 13));
}

Test(cell, a_full_list_forgets_its_oldest)
{
    htc__kv_cell cell = { .present = 1 };
    for (uint64_t i = 1; i <= HTC__KV_CLIENTS + 2; i++) {
        cell.version = i * 10;
        htc__kv_cell_note(&cell, &(htc__kv_seen){ i, i, cell.version, 0 });
    }
    cr_expect(eq(int, cell.count, HTC__KV_CLIENTS));
    cr_expect(eq(u64, cell.forgot, 20));
    cr_expect(htc__kv_cell_find(&cell, 2) == NULL);
    cr_assert(htc__kv_cell_find(&cell, 3) != NULL);
    /* A client's newer change takes the place of its own. */
    htc__kv_cell_note(&cell, &(htc__kv_seen){ 3, 30, 500, 0 });
    cr_expect(eq(u64, cell.forgot, 20));
    cr_expect(eq(u64, htc__kv_cell_find(&cell, 3)->sequence, 30));
    cr_expect(eq(u64, cell.seen[HTC__KV_CLIENTS - 1].client, 3));
}
