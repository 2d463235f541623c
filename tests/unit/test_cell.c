/* The stored form of a key. */
#include "expect.h"
#include <stdlib.h>
#include <string.h>

#include "cell_before.h"
#include "core/codec.h"
#include "kvs/cell/cell.h"
#include "property.h"

static htc__kv_ballot some_ballot(htc_rng *rng)
{
    return (htc__kv_ballot){ htc_rng_below(rng, 3), htc_rng_below(rng, 1000), htc_rng_next(rng) | 1 };
}

/* Clients from 1 on, sometimes one of them twice, as nobody writes them but somebody may send them. */
static void some_list(htc__kv_cell *c, htc_rng *rng)
{
    uint64_t before = c->version, wide = htc_rng_below(rng, 2) ? UINT64_MAX : 300;
    for (size_t n = htc_rng_below(rng, HTC__KV_CLIENTS + 1); c->count < n;) {
        before -= htc_rng_below(rng, 3) ? htc_rng_below(rng, before / 4 + 1) : 0;
        c->seen[c->count++] = (htc__kv_seen){ 1 + htc_rng_below(rng, 30), htc_rng_below(rng, wide), before,
                                              (int64_t)(htc_rng_below(rng, wide) - wide / 2) };
    }
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
        some_list(&c, rng);
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
    int has_list = ((const uint8_t *)bytes.data)[1] & 128;
    if (htc__kv_cell_read(bytes, NULL, &cell) != HTC_OK) {
        HOLDS(has_list);
        return;
    }
    ++*plain;
    HOLDS(cell.present && !cell.deleted && !cell.lease && !cell.ttl);
    HOLDS(cell.version == version && htc_bytes_equal(cell.value, value));
}

/* What is read without a look at the list is what a look at all of it shows, also of cells that are cut or damaged; but for a list that
 * is none. */
Test(cell, what_is_read_quickly_is_there)
{
    htc_buf b;
    size_t  whole = 0, other = 0;
    htc_buf_init(&b, NULL, 0);
    PROPERTY_ALL(rng, 1000)
    {
        htc__kv_cell cell = { .present = 1, .version = 1 + htc_rng_below(&rng, 1000), .value = { "value", 5 } };
        cell.forgot = htc_rng_below(&rng, 2) * htc_rng_below(&rng, cell.version);
        some_list(&cell, &rng);
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
    cr_expect(whole == property_behind(1000, 0) - property_first() && other > whole, "%zu, %zu", whole, other);
    htc_buf_free(&b);
}

static void written(htc_buf *b, const htc__kv_cell *cell)
{
    htc_buf_clear(b);
    htc__kv_cell_write(b, cell);
}

/* A list that stays where it is stored is, for one client, the one that is taken apart: who is found in it, what is written when a change
 * of that client is noted, or none, and which bytes are no cell. */
Test(cell, a_list_may_stay_where_it_is)
{
    htc_buf b, one, other;
    htc_buf_init(&b, NULL, 0);
    htc_buf_init(&one, NULL, 0);
    htc_buf_init(&other, NULL, 0);
    size_t found = 0, full = 0, left = 0, refused = 0;
    PROPERTY_ALL(rng, 10000)
    {
        htc__kv_cell cell = some_cell(&rng), apart, there;
        uint64_t     client = htc_rng_below(&rng, 20);
        written(&b, &cell);
        HOLDS(htc__kv_cell_read_own(htc_buf_bytes(&b), &there) == htc__kv_cell_read(htc_buf_bytes(&b), NULL, &apart));
        written(&other, &there);
        HOLDS(htc_bytes_equal(htc_buf_bytes(&b), htc_buf_bytes(&other)));
        if (b.len && htc_rng_below(&rng, 4) == 0)
            b.data[htc_rng_below(&rng, b.len)] ^= (uint8_t)(1 + htc_rng_below(&rng, 255));
        htc_status status = htc__kv_cell_read(htc_buf_bytes(&b), NULL, &apart);
        HOLDS(htc__kv_cell_read_for(htc_buf_bytes(&b), NULL, client, &there) == status);
        refused += status != HTC_OK;
        if (status != HTC_OK || b.data[0] != HTC__KV_CELL_FORMAT) /* damaged into the format before */
            continue;
        HOLDS(there.count == 0 && there.version == apart.version && htc_bytes_equal(there.value, apart.value));
        written(&other, &there);
        HOLDS(htc_bytes_equal(htc_buf_bytes(&b), htc_buf_bytes(&other)));
        const htc__kv_seen *seen = client ? htc__kv_cell_find(&apart, client) : NULL,
                           *same = client ? htc__kv_cell_find(&there, client) : NULL;
        HOLDS(!seen == !same && (!seen || memcmp(seen, same, sizeof *seen) == 0));
        found += seen != NULL;
        full += apart.count == HTC__KV_CLIENTS && !seen;
        left += there.listed.bytes.len > 0;
        if (!apart.present)
            continue;
        apart.version += 1 + htc_rng_below(&rng, 100000);
        htc__kv_seen now = { client, htc_rng_next(&rng), apart.version, (int64_t)htc_rng_next(&rng) };
        apart.version += htc_rng_below(&rng, 2);
        there.version = apart.version;
        if (client) {
            htc__kv_cell_note(&apart, &now);
            htc__kv_cell_copy(&cell, &there);
            htc__kv_cell_note(&cell, &now);
            HOLDS(memcmp(htc__kv_cell_find(&cell, client), &now, sizeof now) == 0);
            htc__kv_cell_copy(&there, &cell);
        }
        written(&one, &apart);
        written(&other, &there);
        HOLDS(there.forgot == apart.forgot && htc_bytes_equal(htc_buf_bytes(&one), htc_buf_bytes(&other)));
    }
    cr_expect(found > 100 && full > 100 && left > 1000 && refused > 100, "%zu, %zu, %zu, %zu", found, full, left,
              refused);
    htc_buf_free(&b);
    htc_buf_free(&one);
    htc_buf_free(&other);
}

/* All that is read of these bytes of format 2 is read of what is written of them now. */
static void is_read_alike(htc_bytes before, const htc__kv_cell *cell, htc_buf *b)
{
    htc__kv_cell read, head, now;
    htc_buf      again;
    htc_buf_init(&again, NULL, 0);
    written(b, cell);
    HOLDS(b->data[0] == 3 && htc__kv_cell_read(htc_buf_bytes(b), NULL, &now) == HTC_OK);
    HOLDS(htc__kv_cell_read(before, NULL, &read) == HTC_OK && htc__kv_cell_same(&read, &now));
    HOLDS(htc__kv_ballot_compare(&read.promise, &now.promise) == 0);
    HOLDS(htc__kv_cell_head(before, NULL, &head) == HTC_OK && head.count == 0 && head.version == now.version);
    uint64_t  version;
    htc_bytes value;
    if (htc__kv_cell_plain(before, &version, &value))
        HOLDS(version == now.version && htc_bytes_equal(value, now.value));
    now.promise = now.accepted;
    written(&again, &now);
    htc_buf_clear(b);
    htc__kv_cell_write_unpromised(b, before, &read);
    HOLDS(htc_bytes_equal(htc_buf_bytes(&again), htc_buf_bytes(b)));
    htc_buf_free(&again);
}

static void is_changed_alike(htc_bytes before, const htc__kv_cell *cell, uint64_t client, htc_buf *b)
{
    htc__kv_cell there, now;
    htc__kv_cell_copy(&now, cell);
    htc__kv_seen seen = { client, 1000, ++now.version, -1 };
    HOLDS(htc__kv_cell_read_for(before, NULL, client, &there) == HTC_OK && ++there.version == now.version);
    HOLDS(!htc__kv_cell_find(&there, client) == !htc__kv_cell_find(&now, client));
    htc__kv_cell_note(&now, &seen);
    htc__kv_cell_note(&there, &seen);
    written(b, &now);
    htc_buf other;
    htc_buf_init(&other, NULL, 0);
    htc__kv_cell_write(&other, &there);
    HOLDS(now.forgot == there.forgot && htc_bytes_equal(htc_buf_bytes(b), htc_buf_bytes(&other)));
    htc_buf_free(&other);
}

/* What builds before this one have stored is read, and what becomes of it is written in the form of today; cut, or with a list that is out of
 * order, it is no cell. */
Test(cell, the_format_before_is_read)
{
    htc_buf before, b;
    size_t  lists = 0, cut = 0;
    htc_buf_init(&before, NULL, 0);
    htc_buf_init(&b, NULL, 0);
    PROPERTY_ALL(rng, 5000)
    {
        htc__kv_cell cell = some_cell(&rng), read;
        htc_buf_clear(&before);
        cell_before(&before, &cell);
        is_read_alike(htc_buf_bytes(&before), &cell, &b);
        if (!cell.present)
            continue;
        is_changed_alike(htc_buf_bytes(&before), &cell, 1 + htc_rng_below(&rng, 20), &b);
        if (cell.count == 0)
            continue;
        lists++;
        size_t n = before.len - cell.value.len - 1 - htc_rng_below(&rng, 3);
        cut += htc__kv_cell_read((htc_bytes){ before.data, n }, NULL, &read) != HTC_OK;
        htc__kv_seen newest = cell.seen[0];
        cell.seen[0] = cell.seen[cell.count - 1];
        cell.seen[cell.count - 1] = newest;
        htc_buf_clear(&before);
        cell_before(&before, &cell);
        HOLDS((htc__kv_cell_read(htc_buf_bytes(&before), NULL, &read) == HTC_OK) == (newest.version == cell.seen[0].version));
    }
    cr_expect(lists > 1000 && cut == lists, "%zu, %zu", lists, cut);
    htc_buf_free(&before);
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
    cr_expect(eq(u64, cell.seen[0].client, 3));
}
