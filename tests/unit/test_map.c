/* The cluster map: its steps, and its bytes. */
#include "expect.h"
#include <string.h>

#include "alloc_fail.h"
#include "kvs/map/map.h"
#include "property.h"

static htc__kv_map_member member(uint64_t id)
{
    htc__kv_map_member m = { .id = id, .weight = 1 + (uint32_t)(id % 3) };
    snprintf(m.address, sizeof m.address, "tcp:127.0.0.1:%u", 7000 + (unsigned)id);
    return m;
}

static htc__kv_map *map_of(const htc_env *env, uint32_t members, uint32_t owners)
{
    htc__kv_map       *map = NULL;
    htc__kv_map_member m = member(1);
    if (htc__kv_map_create(env, 7, 6, owners, &m, 1, &map) != HTC_OK)
        return NULL;
    for (uint64_t id = 2; id <= members; id++) {
        uint64_t number;
        m = member(id);
        if (htc__kv_map_begin_join(map, &m) != HTC_OK) {
            htc__kv_map_destroy(map);
            return NULL;
        }
        while (htc__kv_map_take(map, 5, &number) == HTC_OK)
            cr_assert(htc__kv_map_activate(map, number) == HTC_OK);
    }
    return map;
}

static void bytes_of(const htc__kv_map *map, htc_buf *b)
{
    htc_buf_clear(b);
    htc__kv_map_encode(b, map);
    cr_assert(b->status == HTC_OK);
}

static int same_owners(const htc__kv_map *a, const htc__kv_map *b)
{
    for (uint32_t i = 0; i < htc_ring_buckets(a->before); i++) {
        uint64_t x[HTC_RING_OWNERS_MAX], y[HTC_RING_OWNERS_MAX];
        uint32_t n = htc__kv_map_owners(a, i, x), m = htc__kv_map_owners(b, i, y);
        if (n != m || memcmp(x, y, n * sizeof *x) != 0 || a->bucket[i].epoch != b->bucket[i].epoch ||
            a->bucket[i].image != b->bucket[i].image)
            return 0;
    }
    return 1;
}

static htc_status some_change(htc__kv_map *map, htc_rng *rng, uint64_t *fresh)
{
    uint64_t           id = map->member[htc_rng_below(rng, map->members)].id;
    htc__kv_map_member m = member(++*fresh);
    switch (htc_rng_below(rng, 4)) {
    case 0:
        return htc__kv_map_begin_join(map, &m);
    case 1:
        return htc__kv_map_begin_leave(map, id);
    case 2:
        return htc__kv_map_begin_replace(map, id, &m);
    }
    return htc__kv_map_begin_reweight(map, id, 1 + (uint32_t)htc_rng_below(rng, 5));
}

/* The buckets of the mover's batch, as bits. */
static uint64_t batch_of(const htc__kv_map *map)
{
    htc__kv_map_move move;
    uint64_t         bits = 0;
    for (uint32_t from = 0; htc__kv_map_batch(map, from, &move); from = move.bucket + 1) {
        bits |= UINT64_C(1) << move.bucket;
        HOLDS(move.mover == map->mover && move.epoch == map->bucket[move.bucket].epoch);
    }
    return bits;
}

/* Which buckets have another epoch. */
static uint64_t renumbered(const htc__kv_map *map, const htc__kv_map *was)
{
    uint64_t bits = 0;
    for (uint32_t b = 0; b < 64; b++)
        bits |= (uint64_t)(map->bucket[b].epoch != was->bucket[b].epoch) << b;
    return bits;
}

static int count(uint64_t bits)
{
    return __builtin_popcountll(bits);
}

static htc__kv_map *copy_of(const htc__kv_map *map)
{
    htc__kv_map *copy = NULL;
    htc_buf      b, again;
    htc_buf_init(&b, NULL, 0);
    htc_buf_init(&again, NULL, 0);
    bytes_of(map, &b);
    HOLDS(htc__kv_map_decode(NULL, htc_buf_bytes(&b), &copy) == HTC_OK);
    bytes_of(copy, &again);
    HOLDS(htc_bytes_equal(htc_buf_bytes(&b), htc_buf_bytes(&again)));
    HOLDS(same_owners(map, copy));
    htc_buf_free(&b);
    htc_buf_free(&again);
    return copy;
}

/* Each bucket's owners and image are these. */
static void all_are(const htc__kv_map *map, const htc__kv_map *was, const htc__kv_map_move *moves, uint64_t bits, int moved, uint64_t number)
{
    uint64_t owners[HTC_RING_OWNERS_MAX];
    for (uint32_t b = 0; b < 64; b++) {
        if (!(bits >> b & 1))
            continue;
        uint32_t n = htc__kv_map_owners(map, b, owners), want = moved ? moves[b].to_n : moves[b].from_n;
        HOLDS(n == want && memcmp(owners, moved ? moves[b].to : moves[b].from, n * sizeof *owners) == 0);
        HOLDS(map->bucket[b].epoch > was->bucket[b].epoch);
        HOLDS(map->bucket[b].image == (moved ? number : was->bucket[b].image));
    }
}

/* Any steps by anybody: numbers only grow and are never used twice, each bucket's epoch only grows, a batch changes hands a
 * step and nothing beside it, who moves it knows exactly its old and new owners, and the bytes are the map. */
Test(map, steps)
{
    unsigned left_over = 0, backwards = 0;
    PROPERTY(rng, 300)
    {
        htc__kv_map *map = map_of(NULL, 2 + (uint32_t)htc_rng_below(&rng, 4), 3);
        uint64_t     fresh = 100, last = map->numbers;
        int          ended = 0;
        for (int i = 0; i < 300 && ended < 4; i++) {
            htc__kv_map_move next, moves[64] = { { 0 } };
            uint64_t         number;
            htc__kv_map     *was = copy_of(map), *taken;
            if (!htc__kv_map_next(map, &next)) {
                HOLDS(map->after == NULL && htc__kv_map_take(map, 1, &number) == HTC_ENOTFOUND && batch_of(map) == 0);
                ended++;
                some_change(map, &rng, &fresh);
                HOLDS(renumbered(map, was) == 0); /* to begin a change moves nothing but orders */
                htc__kv_map_destroy(was);
                continue;
            }
            uint32_t most = 1 + (uint32_t)htc_rng_below(&rng, 8);
            HOLDS(some_change(map, &rng, &fresh) == HTC_EBUSY);
            HOLDS(htc__kv_map_take(map, most, &number) == HTC_OK && number > last);
            HOLDS(renumbered(map, was) == 0 && batch_of(map) >> next.bucket & 1);
            HOLDS(count(batch_of(map)) >= 1 && count(batch_of(map)) <= (int)most);
            if (htc_rng_below(&rng, 5) == 0) { /* somebody takes over, and lets go what it does not take */
                uint64_t dead = number, had = batch_of(map);
                uint32_t fewer = 1 + (uint32_t)htc_rng_below(&rng, 8);
                taken = copy_of(map);
                HOLDS(htc__kv_map_take(map, fewer, &number) == HTC_OK && number > dead);
                HOLDS(htc__kv_map_activate(map, dead) == HTC_MISMATCH && htc__kv_map_roll_back(map, dead) == HTC_MISMATCH);
                HOLDS(renumbered(map, taken) == (had & ~batch_of(map)) && same_owners(taken, was));
                left_over += (had & ~batch_of(map)) != 0;
                for (uint32_t b = 0; b < 64; b++)
                    if ((had & ~batch_of(map)) >> b & 1)
                        HOLDS(map->bucket[b].epoch == number && map->bucket[b].image == was->bucket[b].image);
                htc__kv_map_destroy(taken);
            }
            uint64_t batch = batch_of(map);
            for (uint32_t b = 0; b < 64; b++)
                if (batch >> b & 1)
                    HOLDS(htc__kv_map_batch(map, b, &moves[b]) == 1 && moves[b].bucket == b);
            all_are(map, was, moves, 0, 0, 0);
            taken = copy_of(map);
            int back = htc_rng_below(&rng, 12) == 0;
            backwards += map->back;
            htc_status status = back ? htc__kv_map_roll_back(map, number) : htc__kv_map_activate(map, number);
            HOLDS(status == HTC_OK);
            HOLDS(htc__kv_map_activate(map, number) == HTC_MISMATCH && batch_of(map) == 0);
            all_are(map, taken, moves, batch, !back, number);
            HOLDS(renumbered(map, taken) == batch);
            last = map->numbers > last ? map->numbers : last;
            htc__kv_map_destroy(taken);
            htc__kv_map_destroy(was);
        }
        htc__kv_map_destroy(map);
    }
    cr_expect(getenv("HTC_TEST_SEED") || (left_over > property_times(100) && backwards > property_times(100)), "%u left over, %u backwards", left_over, backwards);
}

/* A member of so little weight that nothing moves to it is in at once, and out again: that has taken numbers, as any change does. */
Test(map, a_change_that_moves_nothing_takes_a_number)
{
    htc__kv_map       *map;
    htc__kv_map_member heavy = { .id = 1, .weight = 1000 }, light = { .id = 2, .weight = 1 };
    cr_assert(htc__kv_map_create(NULL, 7, 1, 1, &heavy, 1, &map) == HTC_OK);
    uint64_t before = map->numbers;
    cr_assert(htc__kv_map_begin_join(map, &light) == HTC_OK && map->after == NULL && map->members == 2);
    cr_expect(map->numbers > before);
    before = map->numbers;
    cr_assert(htc__kv_map_begin_leave(map, light.id) == HTC_OK && map->after == NULL && map->members == 1);
    cr_expect(map->numbers > before);
    htc__kv_map_destroy(map);
}

/* Of a change over all buckets, by eights: as many steps as that, and the table at rest says it in a few bytes. */
Test(map, a_batch_is_one_step)
{
    htc__kv_map       *map = map_of(NULL, 3, 3);
    htc__kv_map_member m = member(9);
    uint64_t           number;
    htc_buf            b;
    cr_assert(htc__kv_map_begin_replace(map, 2, &m) == HTC_OK);
    int steps = 0;
    for (; htc__kv_map_take(map, 8, &number) == HTC_OK; steps++)
        cr_assert(count(batch_of(map)) == 8 && htc__kv_map_activate(map, number) == HTC_OK);
    cr_expect(steps == 64 / 8);
    htc_buf_init(&b, NULL, 0);
    bytes_of(map, &b);
    cr_expect(b.len < 64 * 4 + 400, "%zu bytes", b.len);
    htc_buf_free(&b);
    htc__kv_map_destroy(map);
}

Test(map, a_change_that_is_rolled_back_leaves_the_old_table)
{
    htc__kv_map       *map = map_of(NULL, 4, 3), *was = NULL;
    htc__kv_map_member m = member(9);
    uint64_t           number, ids[2][HTC_RING_OWNERS_MAX];
    htc_buf            b;
    htc_buf_init(&b, NULL, 0);
    bytes_of(map, &b);
    cr_assert(htc__kv_map_decode(NULL, htc_buf_bytes(&b), &was) == HTC_OK);
    cr_assert(htc__kv_map_begin_join(map, &m) == HTC_OK);
    for (int i = 0; i < 5; i++) {
        htc__kv_map_take(map, 1, &number);
        htc__kv_map_activate(map, number);
    }
    htc__kv_map_take(map, 3, &number);
    cr_assert(htc__kv_map_roll_back(map, number) == HTC_OK);
    int steps = 0;
    for (; htc__kv_map_take(map, 1, &number) == HTC_OK; steps++)
        htc__kv_map_activate(map, number);
    cr_expect(eq(int, steps, 5));
    cr_expect(map->members == 4 && htc__kv_map_find(map, 9) == NULL);
    for (uint32_t i = 0; i < 64; i++) {
        uint32_t n = htc__kv_map_owners(map, i, ids[0]);
        cr_expect(n == htc__kv_map_owners(was, i, ids[1]) && memcmp(ids[0], ids[1], n * sizeof(uint64_t)) == 0);
    }
    htc__kv_map_destroy(map);
    htc__kv_map_destroy(was);
    htc_buf_free(&b);
}

Test(map, its_own_owners)
{
    htc__kv_map    *map = map_of(NULL, 3, 3);
    htc__kv_map_own next = { .n = 3, .id = { 1, 2, 3 } }, other = { .n = 1, .id = { 2 } },
                    twice = { .n = 2, .id = { 2, 2 } };
    uint64_t epoch = map->own_epoch;
    cr_expect(htc__kv_map_name_next(map, &twice) == HTC_EINVAL);
    cr_expect(htc__kv_map_name_next(map, &next) == HTC_OK);
    cr_expect(htc__kv_map_name_next(map, &next) == HTC_OK); /* the same again */
    cr_expect(htc__kv_map_name_next(map, &other) == HTC_EBUSY);
    cr_expect(htc__kv_map_begin_leave(map, 2) == HTC_EBUSY); /* and nothing else */
    cr_expect(htc__kv_map_settle(map) == HTC_OK);
    cr_expect(map->own_epoch == epoch + 1 && map->own.n == 3 && map->own_next.n == 0);
    cr_expect(htc__kv_map_settle(map) == HTC_ENOTFOUND);
    htc__kv_map_destroy(map);
}

/* Buckets are renewed among their owners: each gets a new epoch and image, no other does, and nobody else owns anything. */
Test(map, buckets_are_renewed)
{
    static const uint32_t none[1], some[] = { 3, 9, 63 }, twice[] = { 3, 3 }, beyond[] = { 64 };
    htc__kv_map          *map = map_of(NULL, 4, 3), *before, *again;
    htc__kv_map_move      move;
    uint64_t              number;
    uint32_t              moved, of;
    htc_buf               b;
    htc_buf_init(&b, NULL, 0);
    bytes_of(map, &b);
    cr_assert(htc__kv_map_decode(NULL, htc_buf_bytes(&b), &before) == HTC_OK);
    cr_expect(htc__kv_map_begin_renew(map, 2, none, 0) == HTC_EINVAL && htc__kv_map_begin_renew(map, 2, twice, 2) == HTC_EINVAL);
    cr_expect(htc__kv_map_begin_renew(map, 2, beyond, 1) == HTC_EINVAL && htc__kv_map_begin_renew(map, 9, some, 3) == HTC_ENOTFOUND);
    cr_expect(same_owners(map, before) && map->renewed == 0);
    cr_assert(htc__kv_map_begin_renew(map, 2, some, 3) == HTC_OK);
    cr_expect(htc__kv_map_begin_renew(map, 2, some, 3) == HTC_EBUSY && htc__kv_map_begin_leave(map, 1) == HTC_EBUSY);
    cr_assert(htc__kv_map_take(map, 2, &number) == HTC_OK);
    cr_expect(batch_of(map) == (UINT64_C(1) << 3 | UINT64_C(1) << 9));
    cr_assert(htc__kv_map_batch(map, 0, &move) && move.from_n == 3 && move.to_n == 3);
    cr_expect(memcmp(move.from, move.to, sizeof move.from) == 0);
    bytes_of(map, &b); /* and whoever reads it goes on */
    for (size_t n = 0; n < b.len; n++)
        cr_expect(htc__kv_map_decode(NULL, (htc_bytes){ b.data, n }, &again) != HTC_OK);
    cr_assert(htc__kv_map_decode(NULL, htc_buf_bytes(&b), &again) == HTC_OK);
    htc__kv_map_destroy(map);
    map = again;
    cr_assert(htc__kv_map_activate(map, number) == HTC_OK);
    htc__kv_map_progress(map, &moved, &of);
    cr_expect(moved == 2 && of == 3 && map->kind == HTC__KV_RENEW);
    cr_assert(htc__kv_map_take(map, 2, &number) == HTC_OK);
    cr_assert(htc__kv_map_roll_back(map, number) == HTC_OK); /* what is renewed stays so */
    cr_expect(map->after == NULL && map->kind == HTC__KV_STAY && map->renewed == 0);
    for (uint32_t i = 0; i < 64; i++) {
        int epoch = map->bucket[i].epoch != before->bucket[i].epoch, image = map->bucket[i].image != before->bucket[i].image;
        cr_expect(epoch == (i == 3 || i == 9 || i == 63) && image == (i == 3 || i == 9), "bucket %u", i);
        map->bucket[i] = before->bucket[i];
    }
    cr_expect(same_owners(map, before));
    htc__kv_map_destroy(map);
    htc__kv_map_destroy(before);
    htc_buf_free(&b);
}

Test(map, damaged_bytes_are_refused)
{
    htc__kv_map          *map = map_of(NULL, 3, 3), *out;
    htc__kv_map_member    m = member(9);
    htc__kv_map_namespace s = { .name = "records", .n = 3, .durability = HTC__KV_SYNC };
    uint64_t              number;
    htc_buf               b;
    htc_buf_init(&b, NULL, 0);
    cr_assert(htc__kv_map_add_namespace(map, &s) == HTC_OK);
    cr_expect(htc__kv_map_add_namespace(map, &s) == HTC_EEXISTS);
    htc__kv_map_begin_join(map, &m);
    htc__kv_map_take(map, 1, &number);
    htc__kv_map_activate(map, number);
    htc__kv_map_take(map, 2, &number);
    bytes_of(map, &b);
    for (size_t n = 0; n < b.len; n++)
        cr_expect(htc__kv_map_decode(NULL, (htc_bytes){ b.data, n }, &out) != HTC_OK);
    b.data[0]++;
    cr_expect(htc__kv_map_decode(NULL, htc_buf_bytes(&b), &out) == HTC_EVERSION);
    htc__kv_map_destroy(map);
    htc_buf_free(&b);
}

Test(map, memory_runs_out_anywhere)
{
    htc__kv_map *full = map_of(NULL, 3, 3);
    htc_buf      b;
    htc_buf_init(&b, NULL, 0);
    bytes_of(full, &b);
    ALLOC_FAIL_EVERY(f, 4000)
    {
        htc_env            env = alloc_fail_env(&f);
        htc__kv_map       *map = NULL;
        htc__kv_map_member m = member(9);
        htc_status         status = htc__kv_map_decode(&env, htc_buf_bytes(&b), &map);
        cr_expect(status == HTC_OK || (status == HTC_ENOMEM && f.refused));
        if (map) {
            status = htc__kv_map_begin_join(map, &m);
            cr_expect(status == HTC_OK ||
                      (status == HTC_ENOMEM && f.refused && map->after == NULL && map->members == 3));
            if (status != HTC_OK) {
                status = htc__kv_map_begin_renew(map, 2, &(uint32_t){ 7 }, 1);
                cr_expect(status == HTC_OK || (status == HTC_ENOMEM && map->after == NULL && map->renewed == 0));
            }
        }
        htc__kv_map_destroy(map);
        cr_expect(f.live == 0 && f.wrong_sizes == 0);
    }
    htc__kv_map_destroy(full);
    htc_buf_free(&b);
}

/* ---- what a version of the format looks like ---- */

static const char golden_map[] =
    "02070000000000000015f001010602400003030300020201000000000000000000000103020000000000000000000000010300000000000000000040"
    "000201000201000201000201000201000102000102000102000102000102000102000102000102000102000102000102010100010100010100010100"
    "010100010100010100010100010100010100010100010100010100010100010100010100010100010100010100010100010100010100000201000201"
    "000201000201000201010001010001010001010001010001010001010001010001010001010001010001010001010001010001010001010001010001"
    "010001010001010001010001021414030f0f051010051111011212040505050606050707050808030909041212011313020a0a050b0b050c0c050d0d"
    "040e0e01000000000000000000090000000000000005000000000000004d0000000000000001127463703a3132372e302e302e313a37303039021505"
    "3c0401000000000000000000000000000000000000000000000002127463703a3132372e302e302e313a373030310200000000000000000000000000"
    "0000000000000000000003127463703a3132372e302e302e313a3730303203000000000000000000000000000000000000000000000001127463703a"
    "3132372e302e302e313a37303033090000000000000005000000000000004d0000000000000001127463703a3132372e302e302e313a373030390204"
    "6a6f6273000202000080c2d72f047365656e0101020102000101010000000000000000";

static htc_bytes from_hex(const char *hex, uint8_t *bytes)
{
    size_t   n = strlen(hex) / 2;
    unsigned byte;
    for (size_t i = 0; i < n; i++) {
        cr_assert(sscanf(hex + 2 * i, "%2x", &byte) == 1);
        bytes[i] = (uint8_t)byte;
    }
    return (htc_bytes){ bytes, n };
}

/* Three members and a fourth that joins, with a mover at work, a rate, and a namespace of each kind. */
static htc__kv_map *golden_made(void)
{
    htc__kv_map           *map = map_of(NULL, 3, 2);
    htc__kv_map_member     m = member(9);
    htc__kv_map_namespace  strong = { .name = "jobs", .durability = HTC__KV_INTERVAL, .n = 2, .interval = 100 * HTC_MS };
    htc__kv_map_namespace  eventual = { .name = "seen", .eventual = 1, .durability = HTC__KV_SYNC, .n = 2, .r = 1, .w = 2 };
    uint64_t               number;
    m.process = 5;
    m.domain = 77;
    cr_assert(map && htc__kv_map_add_namespace(map, &strong) == HTC_OK && htc__kv_map_add_namespace(map, &eventual) == HTC_OK);
    cr_assert(htc__kv_map_begin_join(map, &m) == HTC_OK && htc__kv_map_take(map, 2, &number) == HTC_OK);
    cr_assert(htc__kv_map_activate(map, number) == HTC_OK && htc__kv_map_take(map, 3, &number) == HTC_OK);
    map->rate = 60;
    return map;
}

/* A map that another version of the program has written is read as what it is, and this version writes the same. */
Test(map, golden_bytes)
{
    uint8_t      bytes[sizeof golden_map / 2];
    htc_bytes    golden = from_hex(golden_map, bytes);
    htc__kv_map *map = golden_made(), *read = NULL;
    htc_buf      b;
    htc_buf_init(&b, NULL, 0);
    bytes_of(map, &b);
    cr_expect(htc_bytes_equal(htc_buf_bytes(&b), golden), "this version writes something else");
    cr_assert(htc__kv_map_decode(NULL, golden, &read) == HTC_OK);
    cr_expect(same_owners(map, read) && read->members == 4 && read->comer.id == 9 && read->comer.domain == 77 && read->rate == 60);
    cr_expect(read->mover == map->mover && read->moved == map->moved && read->until == map->until);
    cr_expect(read->namespaces == 2 && !read->space[0].eventual && read->space[0].interval == 100 * HTC_MS && read->space[1].w == 2);
    htc__kv_map_destroy(map);
    htc__kv_map_destroy(read);
    htc_buf_free(&b);
}
