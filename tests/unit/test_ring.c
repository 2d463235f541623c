/* The ring: what it promises (ring_model.h) after any history, the fewest moves, shares, and no memory. Bytes from anybody are in
 * test_ring_bytes.c. */
#include "expect.h"
#include <math.h>
#include <string.h>

#include "alloc_fail.h"
#include "htcsched/ring.h"
#include "property.h"
#include "ring_hand.h"

/* The largest load over the mean, of first places or of all. */
static double worst(const htc_ring *r, int first)
{
    double highest = 0, weights = 0, count = 0;
    for (uint32_t s = 0; s < htc_ring_seats(r); s++) {
        htc_ring_member m;
        htc_ring_share  share;
        if (htc_ring_member_at(r, s, &m) != HTC_OK)
            continue;
        htc_ring_share_at(r, s, &share);
        double own = first ? share.first : share.total;
        highest = fmax(highest, own / m.weight);
        weights += m.weight;
        count += own;
    }
    return highest / (count / weights);
}

/* ---- histories ---- */

typedef struct history {
    htc_ring *ring;
    uint64_t  next_id;
    uint32_t  wanted;
    uint32_t  racks, processes, weights; /* what newcomers are made of */
} history;

static htc_ring_member newcomer(history *h, htc_rng *rng)
{
    htc_ring_member m = { .id = h->next_id++, .weight = 1 + (uint32_t)htc_rng_below(rng, h->weights) };
    m.process = h->processes ? htc_rng_below(rng, h->processes) : 0;
    /* A process stays in its rack. */
    m.domain = h->racks ? (m.process ? m.process * 7 : htc_rng_next(rng)) % (h->racks + 1) : 0;
    return m;
}

static history random_history(htc_rng *rng, uint32_t wanted)
{
    history         h = { .next_id = 1, .wanted = wanted };
    htc_ring_member m[24];
    size_t          n = htc_rng_below(rng, 3) ? htc_rng_below(rng, 24) : 0;
    h.racks = htc_rng_below(rng, 2) ? (uint32_t)htc_rng_below(rng, 7) : 0;
    h.processes = htc_rng_below(rng, 3) ? 0 : 2 + (uint32_t)htc_rng_below(rng, 12);
    h.weights = htc_rng_below(rng, 2) ? 1 : 1 + (uint32_t)htc_rng_below(rng, 20);
    for (size_t i = 0; i < n; i++)
        m[i] = newcomer(&h, rng);
    htc_ring_options o = options(5 + (uint32_t)htc_rng_below(rng, 5), wanted, 32);
    h.ring = ring_of(&o, m, n);
    return h;
}

static uint64_t somebody(const htc_ring *r, htc_rng *rng)
{
    ring_crowd crowd = ring_crowd_of(r);
    return crowd.n ? crowd.m[htc_rng_below(rng, crowd.n)].id : 0;
}

/* One change. Answers its member, and whether that grew (1), shrank (0), or this was neither (-1). */
static uint64_t random_change(history *h, htc_rng *rng, int *grew)
{
    uint64_t        id = somebody(h->ring, rng);
    htc_ring_member m;
    uint64_t        what = htc_rng_below(rng, 10);
    *grew = -1;
    if (id == 0 || (what < 4 && htc_ring_members(h->ring) < 30)) {
        m = newcomer(h, rng);
        cr_assert(eq(int, htc_ring_join(h->ring, &m), HTC_OK));
        *grew = 1;
        return m.id;
    }
    if (what < 7) {
        cr_assert(eq(int, htc_ring_leave(h->ring, id), HTC_OK));
        *grew = 0;
    } else if (what < 9) {
        uint32_t weight = 1 + (uint32_t)htc_rng_below(rng, 2 * h->weights);
        cr_assert(eq(int, htc_ring_member_at(h->ring, htc_ring_seat(h->ring, id), &m), HTC_OK));
        cr_assert(eq(int, htc_ring_reweight(h->ring, id, weight), HTC_OK));
        *grew = weight > m.weight;
    } else
        cr_assert(eq(int, htc_ring_replace(h->ring, id, h->next_id++), HTC_OK));
    return id;
}

Test(ring, keeps_its_promises_and_moves_nothing_needlessly)
{
    PROPERTY(rng, 1500)
    {
        history h = random_history(&rng, 1 + (uint32_t)htc_rng_below(&rng, 4));
        SAME(ring_check(h.ring, h.wanted));
        for (int step = 0; step < 12; step++) {
            htc_ring *before = copy_of(h.ring);
            int       grew;
            uint64_t  m = random_change(&h, &rng, &grew);
            SAME(ring_check(h.ring, h.wanted));
            if (grew >= 0)
                SAME(ring_check_moves(before, h.ring, m, grew));
            htc_ring_destroy(before);
        }
        htc_ring_destroy(h.ring);
    }
}

/* With one owner the number of moves is exact, and so is the division, whatever came before. */
Test(ring, moves_exactly_as_many_as_the_model_with_one_owner)
{
    PROPERTY(rng, 1500)
    {
        history h = random_history(&rng, 1);
        h.racks = h.processes = 0;
        SAME(ring_check_dhondt(h.ring, 0));
        for (int step = 0; step < 12; step++) {
            htc_ring  *before = copy_of(h.ring);
            int        grew;
            uint64_t   m = random_change(&h, &rng, &grew);
            ring_crowd old = ring_crowd_of(before);
            uint32_t   count[257] = { 0 }, weight[257] = { 0 }, n = old.n, at = n, moves = 0;
            SAME(ring_check_dhondt(h.ring, 0));
            for (uint32_t i = 0; i < n; i++) {
                htc_ring_share share;
                htc_ring_share_at(before, old.seat[i], &share);
                count[i] = share.first;
                weight[i] = old.m[i].weight;
                at = old.m[i].id == m ? i : at;
            }
            htc_ring_member now = { 0 };
            int             there = htc_ring_member_at(h.ring, htc_ring_seat(h.ring, m), &now) == HTC_OK;
            weight[at] = there ? now.weight : weight[at];
            n += at == n;
            htc_ring_move move;
            for (uint32_t b = 0; htc_ring_move_next(before, h.ring, b, &move) == HTC_OK; b = move.bucket + 1)
                moves++;
            uint32_t expected = old.n == 0           ? htc_ring_buckets(h.ring)
                                : grew < 0 || !there ? count[at]
                                : grew               ? ring_model_gain(count, weight, n, at)
                                                     : ring_model_loss(count, weight, n, at);
            HOLDS(moves == expected);
            htc_ring_destroy(before);
        }
        htc_ring_destroy(h.ring);
    }
}

/* Without racks first places stay exact with several owners too, once they are so. */
Test(ring, divides_first_places_exactly_without_racks)
{
    PROPERTY(rng, 500)
    {
        htc_ring_options o = options(6 + (uint32_t)htc_rng_below(&rng, 4), 2 + (uint32_t)htc_rng_below(&rng, 2), 32);
        history          h = { .ring = ring_of(&o, NULL, 0), .next_id = 1, .weights = 9 };
        for (int step = 0; step < 20; step++) {
            int grew;
            random_change(&h, &rng, &grew);
            SAME(ring_check_dhondt(h.ring, 0));
        }
        htc_ring_destroy(h.ring);
    }
}

/* ---- shares ---- */

/* The largest load within 2 % of the mean at equal weights, 5 % at weights of 1 to 10, with 50
 * buckets a member; before and after a fifth of the members has been exchanged. */
Test(ring, is_even_with_fifty_buckets_a_member)
{
    for (uint32_t heavy = 1; heavy <= 10; heavy += 9)
        for (uint32_t wanted = 1; wanted <= 3; wanted += 2) {
            htc_ring_member  m[640];
            htc_rng          rng = { wanted };
            htc_ring_options o = options(15, wanted, 0);
            double           bound = heavy == 1 ? 1.02 : 1.05;
            for (uint32_t i = 0; i < 640; i++)
                m[i] = (htc_ring_member){ .id = i + 1, .weight = 1 + (uint32_t)htc_rng_below(&rng, heavy) };
            htc_ring *r = ring_of(&o, m, 640);
            cr_expect(worst(r, 1) <= bound && worst(r, 0) <= bound, "%u: %f %f", heavy, worst(r, 1), worst(r, 0));
            for (uint32_t i = 0; i < 128; i++) {
                m[i].id += 1000;
                cr_assert(eq(int, htc_ring_leave(r, 5 * i + 1), HTC_OK));
                cr_assert(eq(int, htc_ring_join(r, &m[i]), HTC_OK));
            }
            cr_expect(worst(r, 1) <= bound && worst(r, 0) <= bound, "%u later: %f %f", heavy, worst(r, 1), worst(r, 0));
            htc_ring_destroy(r);
        }
}

/* The same after every fifth member has been weighed anew, heavier or lighter: nobody keeps what others have a better claim to. */
Test(ring, is_even_after_weights_have_changed)
{
    for (uint32_t wanted = 1; wanted <= 3; wanted += 2) {
        htc_ring_member  m[640];
        htc_rng          rng = { wanted };
        htc_ring_options o = options(15, wanted, 0);
        for (uint32_t i = 0; i < 640; i++)
            m[i] = (htc_ring_member){ .id = i + 1, .weight = 1 + (uint32_t)htc_rng_below(&rng, 10) };
        htc_ring *r = ring_of(&o, m, 640);
        for (uint32_t i = 0; i < 640; i += 5)
            cr_assert(eq(int, htc_ring_reweight(r, m[i].id, 1 + (uint32_t)htc_rng_below(&rng, 10)), HTC_OK));
        cr_expect(worst(r, 1) <= 1.05 && worst(r, 0) <= 1.05, "%u owners: %f %f", wanted, worst(r, 1), worst(r, 0));
        htc_ring_destroy(r);
    }
}

/* As many members as buckets, each first in one: whoever takes over has two then, and among equals it is an owner, who has the data. */
Test(ring, an_owner_that_has_the_data_succeeds)
{
    for (uint32_t wanted = 2; wanted <= 4; wanted++)
        for (uint64_t gone = 1; gone <= 32; gone++) {
            htc_ring_member  m[32];
            htc_ring_options o = options(5, wanted, 32);
            uint32_t         before[HTC_RING_OWNERS_MAX], after[HTC_RING_OWNERS_MAX], b = 0;
            for (uint32_t i = 0; i < 32; i++)
                m[i] = (htc_ring_member){ .id = i + 1, .weight = 1 };
            htc_ring *r = ring_of(&o, m, 32);
            uint32_t  seat = htc_ring_seat(r, gone), n = htc_ring_owners(r, 0, before);
            while (before[0] != seat)
                htc_ring_owners(r, ++b, before);
            cr_assert(eq(int, htc_ring_leave(r, gone), HTC_OK));
            cr_assert(htc_ring_owners(r, b, after) == n && n == wanted);
            uint32_t rank = 1;
            while (rank < n && before[rank] != after[0])
                rank++;
            cr_expect(rank < n, "%u owners, without %u", wanted, (unsigned)gone);
            htc_ring_destroy(r);
        }
}

/* Racks of unlike size: no member beyond what its rack allows, and within a rack all alike. */
Test(ring, is_even_as_far_as_racks_allow)
{
    static const struct {
        uint32_t racks[6]; /* members of each */
        double   total[6]; /* of a member, in tables: what must come out of three owners */
    } rows[] = {
        { { 10, 10, 10 }, { 0.1, 0.1, 0.1 } },
        { { 10, 10, 1 }, { 0.1, 0.1, 1 } },
        { { 20, 1, 1 }, { 0.05, 1, 1 } },
        { { 8, 8, 2, 2 }, { 0.125, 0.125, 0.25, 0.25 } },
        { { 4, 4, 4, 4, 4, 4 }, { 0.125, 0.125, 0.125, 0.125, 0.125, 0.125 } },
    };
    for (size_t row = 0; row < sizeof rows / sizeof *rows; row++) {
        htc_ring_member  m[64];
        uint32_t         n = 0;
        htc_ring_options o = options(12, 3, 64);
        for (uint32_t rack = 0; rack < 6; rack++)
            for (uint32_t i = 0; i < rows[row].racks[rack]; i++, n++)
                m[n] = (htc_ring_member){ .id = n + 1, .weight = 1, .domain = rack + 1 };
        htc_ring *made = ring_of(&o, m, n), *grown = ring_of(&o, NULL, 0);
        for (uint32_t i = 0; i < n; i++) /* one of each rack, then the next of each: 7 has no factor in common with n */
            cr_assert(eq(int, htc_ring_join(grown, &m[i * 17 % n]), HTC_OK), "17 %% %u", n);
        for (uint32_t i = 0; i < n; i++) {
            htc_ring_share a, b;
            double         expected = rows[row].total[m[i].domain - 1] * 4096;
            htc_ring_share_at(made, htc_ring_seat(made, m[i].id), &a);
            htc_ring_share_at(grown, htc_ring_seat(grown, m[i].id), &b);
            cr_expect(fabs(a.total - expected) <= 1.5, "row %zu member %u made: %u of %f", row, i, a.total, expected);
            cr_expect(fabs(b.total - expected) <= 0.05 * expected, "row %zu member %u grown: %u of %f", row, i, b.total,
                      expected);
            cr_expect(fabs(a.first - 4096.0 / n) <= 2, "row %zu member %u made: first of %u", row, i, a.first);
        }
        SAME(ring_check(made, 3));
        SAME(ring_check(grown, 3));
        htc_ring_destroy(made);
        htc_ring_destroy(grown);
    }
}

/* A member that fails hands its work to many: with 100 members and three owners its 246 buckets are shared with at
 * least half of the others, not with two neighbours as on a circle with one point each. */
Test(ring, mixes_who_stands_beside_whom)
{
    htc_ring *r = even_ring(13, 3, 100);
    int       beside[128] = { 0 }, n = 0;
    for (uint32_t b = 0; b < htc_ring_buckets(r); b++) {
        uint32_t owners[HTC_RING_OWNERS_MAX];
        htc_ring_owners(r, b, owners);
        if (owners[0] == 7 || owners[1] == 7 || owners[2] == 7)
            beside[owners[0]] = beside[owners[1]] = beside[owners[2]] = 1;
    }
    for (int i = 0; i < 128; i++)
        n += beside[i];
    cr_expect(n > 50, "%d", n);
    htc_ring_destroy(r);
}

/* The specification: owners are distinct, over racks while there are enough, shards of one process are one domain, N is
 * at most the number of members, 1/n of the keys move for one of n. */
Test(ring, does_as_the_specification_says)
{
    htc_ring_options o = options(12, 3, 0);
    htc_ring        *r = ring_of(&o, NULL, 0);
    uint32_t         owners[HTC_RING_OWNERS_MAX];
    cr_expect(eq(u32, htc_ring_buckets(r), 4096));
    cr_expect(eq(u32, htc_ring_find(r, 42), HTC_RING_NONE));
    for (uint32_t n = 1; n <= 81; n++) {
        htc_ring       *before = copy_of(r);
        htc_ring_member m = { .id = n * 11, .weight = 3, .process = (n + 1) / 2 };
        htc_ring_move   move;
        uint32_t        gained = 0;
        cr_assert(eq(int, htc_ring_join(r, &m), HTC_OK));
        cr_expect(eq(u32, htc_ring_owners(r, 5, owners), n < 3 ? n : 3));
        for (uint32_t b = 0; htc_ring_move_next(before, r, b, &move) == HTC_OK; b = move.bucket + 1)
            gained += move.came_n == 1 && move.came[0] == m.id;
        /* Two shards of one process each, so that each has about one half of what a process may. */
        if (n > 6)
            cr_expect(gained <= 3 * 4096 / n + n && gained + n >= 3 * 4096 / n, "%u gained %u", n, gained);
        htc_ring_destroy(before);
    }
    cr_expect(eq(u32, htc_ring_epoch(r), 82));
    htc_ring_member one_more = { .id = 5, .weight = 1 };
    cr_expect(eq(int, htc_ring_join(r, &one_more), HTC_EFULL), "50 buckets a member");
    SAME(ring_check(r, 3));
    htc_ring_destroy(r);
}

Test(ring, gives_the_same_table_for_the_same_members_in_any_order)
{
    PROPERTY(rng, 200)
    {
        htc_ring_member  m[20];
        htc_ring_options o = options(9, 3, 20);
        for (uint32_t i = 0; i < 20; i++)
            m[i] = (htc_ring_member){ .id = i + 1, .domain = htc_rng_below(&rng, 5), .weight = 1 + i % 3 };
        htc_ring *a = ring_of(&o, m, 20);
        for (uint32_t i = 19; i > 0; i--) {
            uint32_t        j = (uint32_t)htc_rng_below(&rng, i + 1);
            htc_ring_member swap = m[i];
            m[i] = m[j];
            m[j] = swap;
        }
        htc_ring *b = ring_of(&o, m, 20);
        for (uint32_t k = 0; k < 512; k++) {
            uint64_t p[HTC_RING_OWNERS_MAX], q[HTC_RING_OWNERS_MAX];
            ring_ids(a, k, p);
            ring_ids(b, k, q);
            HOLDS(memcmp(p, q, 3 * sizeof *p) == 0);
        }
        htc_ring_destroy(a);
        htc_ring_destroy(b);
    }
}

/* ---- the classic circle, as a model only ---- */

typedef struct point {
    uint64_t at;
    uint32_t member;
} point;

static int by_place(const void *a, const void *b)
{
    const point *x = a, *y = b;
    return (x->at > y->at) - (x->at < y->at);
}

/* The owner of a key among members 0..n-1 without gone, each with 100 points on the circle. */
static uint32_t circle_find(const point *circle, size_t n, uint64_t hash)
{
    size_t low = 0, high = n;
    while (low < high) {
        size_t mid = (low + high) / 2;
        if (circle[mid].at < hash)
            low = mid + 1;
        else
            high = mid;
    }
    return circle[low == n ? 0 : low].member;
}

static size_t circle_of(point *circle, uint32_t members, uint32_t gone)
{
    size_t n = 0;
    for (uint32_t m = 0; m < members; m++)
        for (uint32_t k = 0; m != gone && k < 100; k++) {
            uint32_t words[2] = { m, k };
            circle[n++] = (point){ htc_hash64((htc_bytes){ words, sizeof words }, 1), m };
        }
    qsort(circle, n, sizeof *circle, by_place);
    return n;
}

/* Like the circle of points it replaces, the ring moves the leaver's keys and no others; unlike it, it is even. */
Test(ring, moves_no_more_than_the_classic_circle_and_is_more_even)
{
    static point circle[10000], smaller[10000];
    size_t       n = circle_of(circle, 100, 100), less = circle_of(smaller, 100, 50);
    htc_ring    *before = even_ring(13, 1, 100), *after = copy_of(before);
    uint32_t     on_circle[100] = { 0 }, in_ring[100] = { 0 }, circle_max = 0, ring_max = 0;
    cr_assert(eq(int, htc_ring_leave(after, 51), HTC_OK));
    for (uint64_t key = 0; key < 200000; key++) {
        uint64_t hash = htc_hash64((htc_bytes){ &key, sizeof key }, 0);
        uint32_t c = circle_find(circle, n, hash), r = htc_ring_find(before, hash);
        int moves_on_circle = circle_find(smaller, less, hash) != c, moves_in_ring = htc_ring_find(after, hash) != r;
        cr_assert(eq(int, moves_on_circle, c == 50));
        cr_assert(eq(int, moves_in_ring, r == 50));
        circle_max = circle_max > ++on_circle[c] ? circle_max : on_circle[c];
        ring_max = ring_max > ++in_ring[r] ? ring_max : in_ring[r];
    }
    cr_expect(lt(dbl, worst(before, 1), 1.02));
    cr_expect(circle_max > 2400 && ring_max < 2200, "of 2000 expected: %u, %u", circle_max, ring_max);
    htc_ring_destroy(before);
    htc_ring_destroy(after);
}

/* ---- epochs and bytes ---- */

/* Someone who hears of a change now and then, as a difference from what they have or from before that, has the same
 * ring. */
Test(ring, followers_have_the_same_ring)
{
    PROPERTY(rng, 500)
    {
        history   h = random_history(&rng, 1 + (uint32_t)htc_rng_below(&rng, 4));
        htc_ring *follower = through_bytes(h.ring), *rolled_back = copy_of(h.ring);
        SAME(ring_check_equal(h.ring, follower));
        for (int step = 0; step < 10; step++) {
            int grew;
            if (htc_rng_below(&rng, 8) == 0)
                HOLDS(htc_ring_revert(h.ring, rolled_back) == HTC_OK);
            else
                random_change(&h, &rng, &grew);
            if (htc_rng_below(&rng, 4) == 0) {
                htc_ring_destroy(rolled_back);
                rolled_back = copy_of(h.ring);
            }
            if (htc_rng_below(&rng, 3))
                continue;
            uint32_t since = (uint32_t)htc_rng_below(&rng, htc_ring_epoch(follower) + 1);
            HOLDS(apply_from(follower, h.ring, since) == HTC_OK);
            SAME(ring_check_equal(h.ring, follower));
            SAME(ring_check(follower, h.wanted));
        }
        htc_ring_destroy(h.ring);
        htc_ring_destroy(follower);
        htc_ring_destroy(rolled_back);
    }
}

/* ---- wrong use, and no memory ---- */

Test(ring, refuses_wrong_use)
{
    static const htc_ring_member bad[] = {
        { .id = 0, .weight = 1 },
        { .id = 5, .weight = 0 },
        { .id = 5, .weight = HTC_RING_WEIGHT_MAX + 1 },
        { .id = 5, .weight = 1, .reserved = 1 },
        { .id = 5, .weight = 1, .process = 7, .domain = 2 }, /* its process is in domain 1 */
    };
    static const htc_ring_member good = { .id = 1, .weight = 1, .process = 7, .domain = 1 };
    htc_ring                    *r = NULL, *none = NULL;
    htc_ring_options             o = options(HTC_RING_BITS_MAX + 1, 0, 0);
    htc_ring_move                move;
    htc_ring_member              m;
    htc_ring_share               share;
    uint32_t                     seats[HTC_RING_OWNERS_MAX];
    uint8_t                      byte;
    size_t                       len;
    cr_expect(eq(int, htc_ring_create(NULL, &o, NULL, 0, &none), HTC_EINVAL));
    o = options(0, HTC_RING_OWNERS_MAX + 1, 0);
    cr_expect(eq(int, htc_ring_create(NULL, &o, NULL, 0, &none), HTC_EINVAL));
    o = options(4, 0, 17);
    cr_expect(eq(int, htc_ring_create(NULL, &o, NULL, 0, &none), HTC_EINVAL));
    o = options(4, 2, 2);
    o.reserved = 1;
    cr_expect(eq(int, htc_ring_create(NULL, &o, NULL, 0, &none), HTC_EINVAL));
    o.reserved = 0;
    o.size = 3;
    cr_expect(eq(int, htc_ring_create(NULL, &o, NULL, 0, &none), HTC_EINVAL));
    struct {
        htc_ring_options o;
        uint64_t         newer;
    } big = { options(4, 2, 2), 1 };
    big.o.size = sizeof big;
    cr_expect(eq(int, htc_ring_create(NULL, &big.o, NULL, 0, &none), HTC_EABI));
    cr_expect(eq(int, htc_ring_create(NULL, NULL, NULL, 1, &none), HTC_EINVAL));
    cr_expect(eq(int, htc_ring_create(NULL, NULL, NULL, 0, NULL), HTC_EINVAL));
    o = options(4, 2, 2);
    htc_ring_member twice[3] = { good, good, good };
    cr_expect(eq(int, htc_ring_create(NULL, &o, twice, 2, &none), HTC_EEXISTS));
    cr_expect(eq(int, htc_ring_create(NULL, &o, twice, 3, &none), HTC_EFULL));
    twice[1].id = 2;
    twice[1].domain = 9;
    cr_expect(eq(int, htc_ring_create(NULL, &o, twice, 2, &none), HTC_EINVAL), "one process in two domains");
    cr_expect(none == NULL);

    r = ring_of(&o, &good, 1);
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        cr_expect(eq(int, htc_ring_join(r, &bad[i]), HTC_EINVAL), "%zu", i);
    cr_expect(eq(int, htc_ring_join(r, &good), HTC_EEXISTS));
    cr_expect(eq(int, htc_ring_join(r, NULL), HTC_EINVAL));
    cr_expect(eq(int, htc_ring_join(NULL, &good), HTC_EINVAL));
    cr_expect(eq(int, htc_ring_leave(r, 2), HTC_ENOTFOUND));
    cr_expect(eq(int, htc_ring_leave(r, 0), HTC_ENOTFOUND));
    cr_expect(eq(int, htc_ring_leave(NULL, 1), HTC_EINVAL));
    cr_expect(eq(int, htc_ring_reweight(r, 1, 0), HTC_EINVAL));
    cr_expect(eq(int, htc_ring_reweight(r, 1, HTC_RING_WEIGHT_MAX + 1), HTC_EINVAL));
    cr_expect(eq(int, htc_ring_reweight(r, 2, 1), HTC_ENOTFOUND));
    cr_expect(eq(int, htc_ring_reweight(NULL, 1, 1), HTC_EINVAL));
    cr_expect(eq(int, htc_ring_replace(r, 1, 0), HTC_EINVAL));
    cr_expect(eq(int, htc_ring_replace(r, 1, 1), HTC_EEXISTS));
    cr_expect(eq(int, htc_ring_replace(r, 2, 3), HTC_ENOTFOUND));
    cr_expect(eq(int, htc_ring_replace(NULL, 2, 3), HTC_EINVAL));
    htc_ring *other = even_ring(5, 2, 1);
    cr_expect(eq(int, htc_ring_revert(r, other), HTC_EINVAL));
    cr_expect(eq(int, htc_ring_revert(r, NULL), HTC_EINVAL));
    cr_expect(eq(int, htc_ring_revert(NULL, r), HTC_EINVAL));
    cr_expect(eq(int, htc_ring_move_next(r, other, 0, &move), HTC_EINVAL));
    cr_expect(eq(int, htc_ring_move_next(r, r, 0, NULL), HTC_EINVAL));
    cr_expect(eq(int, htc_ring_move_next(r, r, UINT32_MAX, &move), HTC_ENOTFOUND));
    cr_expect(eq(int, htc_ring_copy(NULL, NULL, &none), HTC_EINVAL));
    cr_expect(eq(int, htc_ring_copy(r, NULL, NULL), HTC_EINVAL));
    cr_expect(eq(u32, htc_ring_epoch(r), 1), "nothing changed");
    cr_expect(eq(int, htc_ring_reweight(r, 1, 1), HTC_OK));
    cr_expect(eq(u32, htc_ring_epoch(r), 1), "the weight it has");

    cr_expect(eq(u32, htc_ring_find(NULL, 1), HTC_RING_NONE));
    cr_expect(eq(u32, htc_ring_bucket(NULL, 1), 0));
    cr_expect(eq(u32, htc_ring_owners(NULL, 0, seats), 0));
    cr_expect(eq(u32, htc_ring_owners(r, 16, seats), 0));
    cr_expect(eq(u32, htc_ring_owners(r, 0, NULL), 0));
    cr_expect(
        eq(u32, htc_ring_epoch(NULL) + htc_ring_buckets(NULL) + htc_ring_members(NULL) + htc_ring_seats(NULL), 0));
    cr_expect(eq(u32, htc_ring_bucket_epoch(r, 16), 0));
    cr_expect(eq(u32, htc_ring_seat(NULL, 1), HTC_RING_NONE));
    cr_expect(eq(int, htc_ring_member_at(r, 1, &m), HTC_ENOTFOUND));
    cr_expect(eq(int, htc_ring_member_at(r, 0, NULL), HTC_EINVAL));
    cr_expect(eq(int, htc_ring_share_at(NULL, 0, &share), HTC_EINVAL));
    cr_expect(eq(sz, htc_ring_encoded_size(NULL, 0), 0));
    cr_expect(eq(int, htc_ring_encode(r, 0, &byte, 1, &len), HTC_EFULL));
    cr_expect(eq(int, htc_ring_encode(r, 0, NULL, 0, &len), HTC_EINVAL));
    cr_expect(eq(int, htc_ring_decode(NULL, (htc_bytes){ NULL, 0 }, &none), HTC_EPROTO));
    cr_expect(eq(int, htc_ring_decode(NULL, (htc_bytes){ &byte, 1 }, NULL), HTC_EINVAL));
    cr_expect(eq(int, htc_ring_apply(NULL, (htc_bytes){ &byte, 1 }), HTC_EINVAL));
    htc_ring_destroy(r);
    htc_ring_destroy(other);
    htc_ring_destroy(NULL);
}

/* Seats of three bytes: more members than two can tell apart. */
Test(ring, has_room_for_more_than_65534_members)
{
    uint32_t         n = 70000;
    htc_ring_member *m = calloc(n, sizeof *m), late = { .id = 1000000, .weight = 1 };
    htc_ring_options o = options(17, 2, n + 1);
    for (uint32_t i = 0; i < n; i++)
        m[i] = (htc_ring_member){ .id = i + 1, .weight = 1 };
    htc_ring *r = ring_of(&o, m, n), *before = copy_of(r);
    uint32_t  moves = 0, owners[HTC_RING_OWNERS_MAX];
    for (uint32_t b = 0; b < htc_ring_buckets(r); b++) {
        cr_assert(eq(u32, htc_ring_owners(r, b, owners), 2));
        cr_assert(owners[0] < n && owners[1] < n && owners[0] != owners[1]);
    }
    cr_expect(lt(dbl, worst(r, 1), 1.1));
    cr_assert(eq(int, htc_ring_leave(r, 69999), HTC_OK));
    cr_assert(eq(int, htc_ring_join(r, &late), HTC_OK));
    htc_ring_move move;
    for (uint32_t b = 0; htc_ring_move_next(before, r, b, &move) == HTC_OK; b = move.bucket + 1)
        moves++;
    cr_expect(moves > 2 && moves < 12, "%u", moves);
    free(m);
    htc_ring_destroy(r);
    htc_ring_destroy(before);
}

static void scenario(const htc_env *env, alloc_fail *f)
{
    static const htc_ring_member first[] = { { .id = 1, .weight = 1 },
                                             { .id = 2, .weight = 2 },
                                             { .id = 3, .weight = 3 } };
    static const htc_ring_member late[] = { { .id = 4, .process = 9, .weight = 1 },
                                            { .id = 5, .process = 9, .weight = 1 },
                                            { .id = 6, .weight = 9 } };
    htc_ring_options             o = options(6, 2, 20);
    htc_ring                    *r = NULL, *before = NULL, *out = NULL;
    htc_status                   status = htc_ring_create(env, &o, first, 3, &r);
    cr_assert(status == HTC_OK || (status == HTC_ENOMEM && r == NULL));
    if (!r)
        return;
    uint8_t  bytes[4096];
    size_t   len, old_len;
    uint8_t *old = bytes_of(r, 0, &old_len);
    for (int step = 0; step < 11; step++) {
        htc_ring *was = copy_of(r);
        size_t    refused = f->refused;
        switch (step) {
        case 0:
        case 1:
        case 2:
            status = htc_ring_join(r, &late[step]);
            break;
        case 3:
            status = htc_ring_reweight(r, 1, 7);
            break;
        case 4:
            status = htc_ring_reweight(r, 2, 1);
            break;
        case 5:
            status = htc_ring_leave(r, 3);
            break;
        case 6:
            status = htc_ring_copy(r, env, &before);
            cr_assert(status == HTC_OK ? ring_check_equal(r, before) == NULL : before == NULL);
            break;
        case 7:
            status = htc_ring_replace(r, 1, 100);
            break;
        case 8:
            status = before ? htc_ring_revert(r, before) : HTC_ENOMEM;
            break;
        case 9: /* a stranger's ring of a later epoch, then all of it */
            cr_assert(eq(int, htc_ring_leave(was, 2), HTC_OK));
            cr_assert(eq(int, htc_ring_encode(was, htc_ring_epoch(r), bytes, sizeof bytes, &len), HTC_OK));
            htc_ring_destroy(was);
            was = copy_of(r);
            status = htc_ring_apply(r, (htc_bytes){ bytes, len });
            break;
        case 10:
            status = htc_ring_decode(env, (htc_bytes){ old, old_len }, &out);
            cr_assert(status == HTC_OK ? ring_check(out, 2) == NULL : out == NULL);
            break;
        }
        cr_assert(status == HTC_OK || (status == HTC_ENOMEM && (f->refused > refused || (step == 8 && !before))));
        if (status != HTC_OK)
            SAME(ring_check_equal(r, was));
        SAME(ring_check(r, 2));
        htc_ring_destroy(was);
    }
    free(old);
    htc_ring_destroy(r);
    htc_ring_destroy(before);
    htc_ring_destroy(out);
}

Test(ring, stays_as_it_was_without_memory)
{
    ALLOC_FAIL_EVERY(f, 200)
    {
        htc_env env = alloc_fail_env(&f);
        scenario(&env, &f);
        cr_expect(eq(sz, f.live, 0));
        cr_expect(eq(sz, f.wrong_sizes, 0));
    }
    ALLOC_FAIL_ONCE(f, 200)
    {
        htc_env env = alloc_fail_env(&f);
        scenario(&env, &f);
        cr_expect(eq(sz, f.live, 0));
        cr_expect(eq(sz, f.wrong_sizes, 0));
    }
}

/* ---- the stateless form ---- */

Test(ring, dx_moves_only_what_was_gained_or_lost)
{
    PROPERTY(rng, 300)
    {
        uint32_t slots[256], before[256], units[20] = { 0 };
        for (int i = 0; i < 256; i++)
            slots[i] = HTC_RING_NONE;
        for (int step = 0; step < 30; step++) {
            uint32_t member = (uint32_t)htc_rng_below(&rng, 20), want = (uint32_t)htc_rng_below(&rng, 12);
            memcpy(before, slots, sizeof slots);
            HOLDS(htc_ring_dx_set(slots, 8, member, want) == HTC_OK);
            for (int key = 0; key < 200; key++) {
                uint64_t hash = htc_rng_next(&rng);
                uint32_t old = htc_ring_dx_find(before, 8, hash), new = htc_ring_dx_find(slots, 8, hash);
                HOLDS(old == new || (want > units[member] ? new == member : old == member));
            }
            units[member] = want;
        }
    }
}

Test(ring, dx_gives_shares_by_weight_and_distinct_owners)
{
    uint32_t slots[64], hits[10] = { 0 };
    for (int i = 0; i < 64; i++)
        slots[i] = HTC_RING_NONE;
    for (uint32_t m = 0; m < 8; m++)
        cr_assert(eq(int, htc_ring_dx_set(slots, 6, m, m + 1), HTC_OK));
    cr_expect(eq(int, htc_ring_dx_set(slots, 6, 9, 29), HTC_EFULL));
    cr_expect(eq(int, htc_ring_dx_set(slots, 6, HTC_RING_NONE, 1), HTC_EINVAL));
    /* 36 000 keys: member m expects 1000 (m + 1); six standard deviations are at most 6 sqrt(8000). */
    for (uint64_t key = 0; key < 36000; key++) {
        uint32_t owners[HTC_RING_OWNERS_MAX];
        uint64_t hash = htc_hash64((htc_bytes){ &key, sizeof key }, 3);
        cr_assert(eq(u32, htc_ring_dx_owners(slots, 6, hash, 8, owners), 8));
        cr_assert(eq(u32, owners[0], htc_ring_dx_find(slots, 6, hash)));
        for (int i = 0; i < 8; i++)
            for (int j = 0; j < i; j++)
                cr_assert(ne(u32, owners[i], owners[j]));
        hits[owners[0]]++;
    }
    for (uint32_t m = 0; m < 8; m++)
        cr_expect(fabs(hits[m] - 1000.0 * (m + 1)) < 540, "member %u: %u keys", m, hits[m]);
}

/* "It takes the lowest empty slots or gives up its highest": who makes the same changes has the same list. */
Test(ring, dx_takes_the_lowest_slots_and_gives_up_the_highest)
{
    static const struct {
        uint32_t member, units, slots[8];
    } rows[] = {
#define O HTC_RING_NONE
        { 1, 3, { 1, 1, 1, O, O, O, O, O } }, { 2, 2, { 1, 1, 1, 2, 2, O, O, O } },
        { 1, 1, { 1, O, O, 2, 2, O, O, O } }, { 3, 3, { 1, 3, 3, 2, 2, 3, O, O } },
        { 2, 1, { 1, 3, 3, 2, O, 3, O, O } }, { 3, 0, { 1, O, O, 2, O, O, O, O } },
#undef O
    };
    uint32_t slots[8];
    for (int i = 0; i < 8; i++)
        slots[i] = HTC_RING_NONE;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        cr_assert(eq(int, htc_ring_dx_set(slots, 3, rows[i].member, rows[i].units), HTC_OK));
        cr_expect(memcmp(slots, rows[i].slots, sizeof slots) == 0, "row %zu", i);
    }
}

/* A walk is cut off after eight rounds, and the slots are gone through in order then. With one of 16 taken a walk misses it with a
 * chance of (15/16)^128, 1 in 3900: of 100 000 keys some 26 come to that. */
Test(ring, dx_finds_a_lonely_slot_also_where_the_walk_misses_it)
{
    for (uint32_t taken = 0; taken < 16; taken += 15) {
        uint32_t slots[16], owners[HTC_RING_OWNERS_MAX], missed = 0;
        for (int i = 0; i < 16; i++)
            slots[i] = HTC_RING_NONE;
        slots[taken] = 7;
        for (uint64_t key = 0; key < 100000; key++) {
            htc_rng walk = { key };
            int     steps = 0;
            while (steps < 128 && (htc_rng_next(&walk) >> 32 & 15) != taken)
                steps++;
            missed += steps == 128;
            cr_assert(eq(u32, htc_ring_dx_find(slots, 4, key), 7));
            cr_assert(eq(u32, htc_ring_dx_owners(slots, 4, key, 3, owners), 1));
        }
        cr_expect(missed > 5, "%u walks were in vain", missed);
    }
}

Test(ring, dx_ends_on_an_empty_or_nearly_empty_list)
{
    uint32_t slots[1024], owners[HTC_RING_OWNERS_MAX];
    for (int i = 0; i < 1024; i++)
        slots[i] = HTC_RING_NONE;
    cr_expect(eq(u32, htc_ring_dx_find(slots, 10, 5), HTC_RING_NONE));
    cr_expect(eq(u32, htc_ring_dx_owners(slots, 10, 5, 3, owners), 0));
    slots[1000] = 7;
    for (uint64_t hash = 0; hash < 1000; hash++) {
        cr_assert(eq(u32, htc_ring_dx_find(slots, 10, hash), 7));
        cr_assert(eq(u32, htc_ring_dx_owners(slots, 10, hash, 3, owners), 1));
    }
    cr_expect(eq(u32, htc_ring_dx_find(NULL, 10, 5), HTC_RING_NONE));
    cr_expect(eq(u32, htc_ring_dx_find(slots, HTC_RING_DX_BITS_MAX + 1, 5), HTC_RING_NONE));
    cr_expect(eq(u32, htc_ring_dx_find(slots + 1000, 0, 5), 7));
    cr_expect(eq(u32, htc_ring_dx_owners(slots, 10, 5, 0, owners), 0));
    cr_expect(eq(u32, htc_ring_dx_owners(slots, 10, 5, HTC_RING_OWNERS_MAX + 1, owners), 0));
    cr_expect(eq(int, htc_ring_dx_set(NULL, 10, 1, 1), HTC_EINVAL));
}
