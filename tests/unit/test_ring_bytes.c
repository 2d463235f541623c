/* The ring and its epochs as bytes: differences in any order, roll backs, and bytes from anybody. */
#include "expect.h"
#include <string.h>

#include "alloc_fail.h"
#include "htcsched/ring.h"
#include "property.h"
#include "ring_hand.h"

Test(ring_bytes, late_repeated_and_early_differences_are_harmless)
{
    htc_ring *r = even_ring(8, 3, 9), *follower = through_bytes(r), *old = copy_of(r);
    cr_assert(eq(int, htc_ring_leave(r, 3), HTC_OK));
    htc_ring *middle = copy_of(r);
    cr_assert(eq(int, htc_ring_leave(r, 4), HTC_OK));
    cr_expect(eq(int, apply_from(follower, r, 2), HTC_MISMATCH), "it begins after what the follower has");
    SAME(ring_check_equal(follower, old));
    cr_expect(eq(int, apply_from(follower, r, 1), HTC_OK));
    cr_expect(eq(int, apply_from(follower, r, 1), HTC_OK));
    cr_expect(eq(int, apply_from(follower, middle, 1), HTC_OK));
    cr_expect(eq(int, apply_from(follower, middle, 0), HTC_OK));
    SAME(ring_check_equal(follower, r));
    cr_expect(eq(int, apply_from(follower, r, 99), HTC_OK), "nothing is newer than the ring");
    size_t size = htc_ring_encoded_size(r, 1);
    cr_expect(size < htc_ring_encoded_size(r, 0) && size > htc_ring_encoded_size(r, 2));
    htc_ring_destroy(r);
    htc_ring_destroy(follower);
    htc_ring_destroy(old);
    htc_ring_destroy(middle);
}

/* After a roll back the old owners go on under a new epoch, in what had changed and nowhere else. */
Test(ring_bytes, reverts_to_an_earlier_epoch)
{
    htc_ring       *r = even_ring(9, 3, 10), *first = copy_of(r), *second;
    htc_ring_member m = { .id = 99, .weight = 2 };
    htc_ring_move   move;
    cr_assert(eq(int, htc_ring_join(r, &m), HTC_OK));
    second = copy_of(r);
    cr_assert(eq(int, htc_ring_revert(r, first), HTC_OK));
    cr_expect(eq(u32, htc_ring_epoch(r), 3));
    cr_expect(eq(int, htc_ring_move_next(first, r, 0, &move), HTC_ENOTFOUND));
    cr_expect(eq(u32, htc_ring_seat(r, 99), HTC_RING_NONE));
    cr_expect(eq(u32, htc_ring_seats(r), 11), "a seat that was given is known for good");
    for (uint32_t b = 0; b < 512; b++)
        cr_expect(eq(u32, htc_ring_bucket_epoch(r, b), htc_ring_bucket_epoch(second, b) == 2 ? 3 : 1));
    SAME(ring_check(r, 3));
    htc_ring_destroy(r);
    htc_ring_destroy(first);
    htc_ring_destroy(second);
}

/* A seat that two members had, one after the other, is not the same owner twice: going back moves its buckets back, and says so. */
Test(ring_bytes, takes_back_a_replacement)
{
    htc_ring     *r = even_ring(6, 2, 5), *first = copy_of(r), *second;
    htc_ring_move move = { 0 };
    uint32_t      owned = 0, told = 0, owners[HTC_RING_OWNERS_MAX], seat = htc_ring_seat(r, 3);
    cr_assert(eq(int, htc_ring_replace(r, 3, 77), HTC_OK));
    second = copy_of(r);
    cr_assert(eq(int, htc_ring_revert(r, first), HTC_OK));
    for (uint32_t b = 0; b < 64; b++) {
        htc_ring_owners(r, b, owners);
        int own = owners[0] == seat || owners[1] == seat;
        cr_expect(eq(u32, htc_ring_bucket_epoch(r, b), own ? 3 : 1), "bucket %u", b);
        owned += (uint32_t)own;
    }
    for (uint32_t b = 0; htc_ring_move_next(second, r, b, &move) == HTC_OK; b = move.bucket + 1, told++)
        cr_expect(move.came_n == 1 && move.came[0] == 3 && move.went_n == 1 && move.went[0] == 77, "bucket %u", b);
    cr_expect(told == owned && owned > 0);
    htc_ring_destroy(r);
    htc_ring_destroy(first);
    htc_ring_destroy(second);
}

/* "What is not newer than the ring changes nothing", be it another history's. */
Test(ring_bytes, what_is_as_old_changes_nothing)
{
    htc_ring *r = even_ring(5, 2, 6), *was = copy_of(r), *other = even_ring(5, 2, 7), *same_room = NULL;
    /* Of the same options, in the same epoch. */
    htc_ring_options      o = options(5, 2, 32);
    const htc_ring_member m[] = { { .id = 50, .weight = 1 }, { .id = 51, .weight = 1 } };
    same_room = ring_of(&o, m, 2);
    cr_expect(eq(int, apply_from(r, same_room, 0), HTC_OK));
    SAME(ring_check_equal(r, was));
    cr_expect(eq(int, apply_from(r, other, 0), HTC_OK));
    SAME(ring_check_equal(r, was));
    htc_ring_destroy(r);
    htc_ring_destroy(was);
    htc_ring_destroy(other);
    htc_ring_destroy(same_room);
}

/* Two buckets, one owner each, two seats: byte by byte, and what may not stand there. */
Test(ring_bytes, refuses_what_no_ring_would_write)
{
#define MEMBER(id) 0, 0, 1, id, 0, 0, 0, 0, 0, 0, 0, 0, 0 /* gap, age, weight, id, process, domain */
#define NOBODY     0, 0, 0                                /* gap, age, weight */
    static const struct {
        const char *what;
        htc_status  status;
        size_t      len;
        uint8_t     bytes[64];
    } rows[] = {
        { "a ring", HTC_OK, 39, { 1, 1, 1, 2, 0, 1, 2, 2, MEMBER(5), MEMBER(6), 2, 0, 0, 0, 1 } },
        { "one who has nothing", HTC_OK, 39, { 1, 1, 1, 2, 0, 1, 2, 2, MEMBER(5), MEMBER(6), 2, 0, 1, 0, 1 } },
        { "an empty seat", HTC_OK, 29, { 1, 1, 1, 2, 0, 1, 2, 2, MEMBER(5), NOBODY, 2, 0, 0, 0, 0 } },
        { "a bucket of an empty seat", HTC_EPROTO, 29, { 1, 1, 1, 2, 0, 1, 2, 2, MEMBER(5), NOBODY, 2, 0, 0, 0, 1 } },
        { "a bucket of no seat", HTC_EPROTO, 39, { 1, 1, 1, 2, 0, 1, 2, 2, MEMBER(5), MEMBER(6), 2, 0, 0, 0, 2 } },
        { "a seat beyond two bytes",
          HTC_EPROTO,
          41,
          { 1, 1, 1, 2, 0, 1, 2, 2, MEMBER(5), MEMBER(6), 2, 0, 0, 0, 0x81, 0x80, 4 } },
        { "a bucket is missing", HTC_EPROTO, 38, { 1, 1, 1, 2, 0, 1, 2, 2, MEMBER(5), MEMBER(6), 1, 0, 0, 0 } },
        { "a bucket too many", HTC_EPROTO, 41, { 1, 1, 1, 2, 0, 1, 2, 2, MEMBER(5), MEMBER(6), 3, 0, 0, 0, 1, 0, 1 } },
        { "a seat is missing", HTC_EPROTO, 26, { 1, 1, 1, 2, 0, 1, 2, 1, MEMBER(5), 2, 0, 0, 0, 0 } },
        { "a seat too many", HTC_EPROTO, 39, { 1, 1, 1, 2, 0, 1, 1, 2, MEMBER(5), MEMBER(6), 2, 0, 0, 0, 0 } },
        { "one id twice", HTC_EPROTO, 39, { 1, 1, 1, 2, 0, 1, 2, 2, MEMBER(5), MEMBER(5), 2, 0, 0, 0, 1 } },
        { "an id of 0", HTC_EPROTO, 39, { 1, 1, 1, 2, 0, 1, 2, 2, MEMBER(5), MEMBER(0), 2, 0, 0, 0, 1 } },
        { "older than the beginning", HTC_EPROTO, 39, { 1, 1, 1, 2, 0, 1, 2, 2, MEMBER(5), MEMBER(6), 2, 1, 0, 0, 1 } },
        { "epoch 0", HTC_EPROTO, 39, { 1, 1, 1, 2, 0, 0, 2, 2, MEMBER(5), MEMBER(6), 2, 0, 0, 0, 1 } },
        { "no owners wanted", HTC_EPROTO, 39, { 1, 1, 0, 2, 0, 1, 2, 2, MEMBER(5), MEMBER(6), 2, 0, 0, 0, 1 } },
        { "no room for members", HTC_EPROTO, 39, { 1, 1, 1, 0, 0, 1, 2, 2, MEMBER(5), MEMBER(6), 2, 0, 0, 0, 1 } },
        { "no buckets", HTC_EPROTO, 39, { 1, 0, 1, 2, 0, 1, 2, 2, MEMBER(5), MEMBER(6), 2, 0, 0, 0, 1 } },
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        htc_ring *r = NULL;
        cr_expect(eq(int, htc_ring_decode(NULL, (htc_bytes){ rows[i].bytes, rows[i].len }, &r), rows[i].status), "%s",
                  rows[i].what);
        cr_expect(rows[i].status == HTC_OK ? r != NULL : r == NULL, "%s", rows[i].what);
        if (r)
            SAME(ring_check(r, 1));
        htc_ring_destroy(r);
    }
}

/* In a difference a seat that is new is among those that are told: else nobody knows who sits there. */
Test(ring_bytes, refuses_a_new_seat_that_is_not_told)
{
    htc_ring_options      o = options(2, 1, 4);
    const htc_ring_member m[] = { { .id = 5, .weight = 1 }, { .id = 6, .weight = 1 } };
    htc_ring             *r = ring_of(&o, m, 2), *was = copy_of(r);
    uint8_t               told[] = { 1, 2, 1, 4, 1, 2, 3, 1, 2, 0, 1, 7, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0 };
    const size_t          gap = 8;
    told[gap] = 0; /* seat 0 instead of 2, under another id */
    cr_expect(eq(int, htc_ring_apply(r, (htc_bytes){ told, sizeof told }), HTC_EPROTO));
    SAME(ring_check_equal(r, was));
    told[gap] = 2;
    cr_expect(eq(int, htc_ring_apply(r, (htc_bytes){ told, sizeof told }), HTC_OK));
    cr_expect(htc_ring_members(r) == 3 && htc_ring_seat(r, 7) == 2);
    htc_ring_destroy(r);
    htc_ring_destroy(was);
}

/* A few bytes that tell of 2^28 buckets get no memory for them: not even the attempt is made. */
Test(ring_bytes, believes_no_size_that_cannot_be_there)
{
    static const uint8_t bytes[] = { 1, HTC_RING_BITS_MAX, 8, 2, 0, 1, 1, 1, MEMBER(5), 1, 0, 0 };
    alloc_fail           f = alloc_fail_at(1);
    htc_env              env = alloc_fail_env(&f);
    htc_ring            *r = NULL;
    cr_expect(eq(int, htc_ring_decode(&env, (htc_bytes){ bytes, sizeof bytes }, &r), HTC_EPROTO));
    cr_expect(r == NULL && f.calls == 0);
}

/* Bytes are held to what options are: a ring with room for more members than buckets cannot be made either. */
Test(ring_bytes, refuses_bytes_with_room_for_more_members_than_buckets)
{
    htc_ring_options      o = options(3, 2, 8);
    const htc_ring_member m[] = { { .id = 1, .weight = 1 }, { .id = 2, .weight = 1 } };
    htc_ring             *r = ring_of(&o, m, 2), *out = NULL;
    size_t                len;
    uint8_t              *bytes = bytes_of(r, 0, &len);
    cr_assert(eq(u8, bytes[3], 8), "members_max");
    cr_expect(eq(int, htc_ring_decode(NULL, (htc_bytes){ bytes, len }, &out), HTC_OK));
    htc_ring_destroy(out);
    out = NULL;
    bytes[3] = 9;
    cr_expect(eq(int, htc_ring_decode(NULL, (htc_bytes){ bytes, len }, &out), HTC_EPROTO));
    cr_expect(out == NULL);
    free(bytes);
    htc_ring_destroy(r);
}

/* Members of one process are in one place: in bytes as in what one is told. */
Test(ring_bytes, refuses_bytes_with_a_process_in_two_domains)
{
    htc_ring_options      o = options(3, 2, 8);
    const htc_ring_member m[] = { { .id = 1, .process = 5, .domain = 77, .weight = 1 },
                                  { .id = 2, .process = 5, .domain = 77, .weight = 1 } };
    htc_ring             *r = ring_of(&o, m, 2), *out = NULL;
    size_t                len, at[3], n = 0;
    uint8_t              *bytes = bytes_of(r, 0, &len);
    for (size_t i = 0; i < len && n < 3; i++)
        if (bytes[i] == 77)
            at[n++] = i;
    cr_assert(eq(sz, n, 2), "both domains");
    bytes[at[0]] = 78;
    cr_expect(eq(int, htc_ring_decode(NULL, (htc_bytes){ bytes, len }, &out), HTC_EPROTO));
    bytes[at[1]] = 78;
    cr_expect(eq(int, htc_ring_decode(NULL, (htc_bytes){ bytes, len }, &out), HTC_OK), "both moved");
    htc_ring_destroy(out);
    free(bytes);
    htc_ring_destroy(r);
}

Test(ring_bytes, refuses_bytes_that_are_not_a_ring)
{
    htc_ring *r = even_ring(5, 2, 6), *out = NULL;
    size_t    len;
    uint8_t  *bytes = bytes_of(r, 0, &len);
    for (size_t n = 0; n < len; n++)
        cr_expect(eq(int, htc_ring_decode(NULL, (htc_bytes){ bytes, n }, &out), HTC_EPROTO), "%zu bytes", n);
    uint8_t *longer = calloc(1, len + 1);
    memcpy(longer, bytes, len);
    cr_expect(eq(int, htc_ring_decode(NULL, (htc_bytes){ longer, len + 1 }, &out), HTC_EPROTO));
    free(longer);
    bytes[0] = 2;
    cr_expect(eq(int, htc_ring_decode(NULL, (htc_bytes){ bytes, len }, &out), HTC_EVERSION));
    cr_expect(eq(int, htc_ring_apply(r, (htc_bytes){ bytes, len }), HTC_EVERSION));
    free(bytes);
    cr_assert(eq(int, htc_ring_leave(r, 1), HTC_OK));
    bytes = bytes_of(r, 1, &len);
    cr_expect(eq(int, htc_ring_decode(NULL, (htc_bytes){ bytes, len }, &out), HTC_MISMATCH), "a difference is no ring");
    htc_ring *other = even_ring(6, 2, 6);
    cr_expect(eq(int, htc_ring_apply(other, (htc_bytes){ bytes, len }), HTC_MISMATCH));
    cr_expect(out == NULL);
    free(bytes);
    htc_ring_destroy(r);
    htc_ring_destroy(other);
}

/* One byte changed anywhere: refused, or a ring that keeps its promises. */
Test(ring_bytes, makes_no_broken_ring_of_broken_bytes)
{
    PROPERTY(rng, 3000)
    {
        htc_ring_member m[6];
        for (uint32_t i = 0; i < 6; i++)
            m[i] = (htc_ring_member){ .id = i + 1, .process = i / 2 + 1, .domain = i / 4 + 1, .weight = 1 };
        htc_ring_options o = options(3, 2, 6);
        htc_ring        *r = ring_of(&o, m, 6), *out = NULL;
        size_t           len;
        uint8_t         *bytes = bytes_of(r, 0, &len);
        bytes[htc_rng_below(&rng, len)] = (uint8_t)htc_rng_below(&rng, htc_rng_below(&rng, 2) ? 8 : 256);
        if (htc_ring_decode(NULL, (htc_bytes){ bytes, len }, &out) == HTC_OK) {
            SAME(ring_check(out, bytes[2]));
            htc_ring_destroy(out);
        }
        free(bytes);
        htc_ring_destroy(r);
    }
}
