/* RA(U) against the tables of the specification, against a slow model of it, and against wrong use. */
#include "expect.h"
#include <math.h>

#include "alloc_fail.h"
#include "htcsched/allot.h"
#include "sched/allot/allot_private.h"

__extension__ typedef unsigned __int128 u128;

#define CASES     100000
#define USERS_MAX 9

typedef struct row {
    uint64_t weight, demand, expected;
} row;

static void divide(const row *rows, size_t n, uint64_t slots, htc_allot_share *out)
{
    htc_allot_user users[16];
    for (size_t i = 0; i < n; i++)
        users[i] = (htc_allot_user){ .weight = rows[i].weight, .queued = rows[i].demand, .arrival = i, .id = i };
    cr_assert(eq(int, htc_allot(NULL, NULL, users, n, slots, out), HTC_OK));
}

#define TABLE(slots, ...)                                                                                              \
    do {                                                                                                               \
        const row       rows[] = { __VA_ARGS__ };                                                                      \
        size_t          n = sizeof rows / sizeof *rows;                                                                \
        htc_allot_share got[16];                                                                                       \
        divide(rows, n, slots, got);                                                                                   \
        for (size_t i = 0; i < n; i++)                                                                                 \
            cr_expect(eq(u64, got[i].ra, rows[i].expected), "A=%d user %zu", (int)(slots), i);                         \
    } while (0)

/* The tables of the specification, section 3.5. */
Test(allot, worked_tables)
{
    TABLE(10, { 1, 100, 4 }, { 1, 100, 3 }, { 1, 100, 3 });
    TABLE(3, { 1, 9, 1 }, { 1, 9, 1 }, { 1, 9, 1 }, { 1, 9, 0 }, { 1, 9, 0 });
    TABLE(10, { 2, 100, 5 }, { 1, 100, 3 }, { 1, 100, 2 });
    TABLE(10, { 1, 1, 1 }, { 1, 100, 5 }, { 1, 100, 4 });
    TABLE(10, { 3, 4, 4 }, { 1, 100, 6 });
    TABLE(0, { 1, 5, 0 }, { 7, 5, 0 });
    TABLE(10, { 1, 0, 0 }, { 1, 0, 0 });
}

/* Everybody gets one if there is one for everybody, taken from the largest if rounding left none; a share below one
 * that was raised to one counts as rounded up. */
Test(allot, minimum_of_one)
{
    TABLE(4, { 1000, 50, 1 }, { 1, 50, 1 }, { 1, 50, 1 }, { 1, 50, 1 });
    TABLE(10, { 1, 50, 1 }, { 1, 50, 1 }, { 998, 50, 8 });
    TABLE(20, { 9, 50, 1 }, { 18, 50, 2 }, { 173, 50, 17 });
    TABLE(2, { 1, 50, 0 }, { 1, 50, 0 }, { 998, 50, 2 });
    TABLE(10, { 1000, 50, 4 }, { 1000, 50, 3 }, { 1, 50, 1 }, { 1, 50, 1 }, { 1, 50, 1 }); /* one of two as large */
}

/* Of equals who want the odd slot: the poorest; but of those with agents starting the richest, who was just given it. */
Test(allot, the_odd_slot_stays_where_agents_are_starting)
{
    htc_allot_user  users[] = { { .weight = 1, .queued = 50, .agents = 1, .id = 1 },
                                { .weight = 1, .queued = 50, .agents = 2, .id = 2 } };
    htc_allot_share got[2];
    cr_assert(eq(int, htc_allot(NULL, NULL, users, 2, 3, got), HTC_OK));
    cr_expect(got[0].ra == 2 && got[1].ra == 1);
    users[0].starting = users[1].starting = 1;
    cr_assert(eq(int, htc_allot(NULL, NULL, users, 2, 3, got), HTC_OK));
    cr_expect(got[0].ra == 1 && got[1].ra == 2);
}

/* ---- who is served of a row ---- */

/* The order by remainder as one reads it: largest remainder, agents starting, what is held for the weight, ties. */
static int stands_before(const htc_allot_user *x, const htc__entry *ex, const htc_allot_user *y, const htc__entry *ey)
{
    u128 p = (u128)(x->agents + x->draining) * y->weight, q = (u128)(y->agents + y->draining) * x->weight;
    if (ex->remainder != ey->remainder)
        return ex->remainder > ey->remainder;
    if ((x->starting > 0) != (y->starting > 0))
        return x->starting > 0;
    if (p != q)
        return x->starting > 0 ? p > q : p < q;
    if (x->last_served != y->last_served)
        return x->last_served < y->last_served;
    return x->arrival != y->arrival ? x->arrival < y->arrival : x->id < y->id;
}

enum { ROW = 40 };

/* Numbers that are alike or all but alike: 1 / 2^42 and 1 / (2^42 - 1) differ behind the 84th bit. */
static htc_allot_user one_of_many_alike(htc_rng *rng, uint64_t id)
{
    uint64_t w = HTC_ALLOT_WEIGHT_MAX - htc_rng_below(rng, 2), agents = htc_rng_below(rng, 3);
    if (htc_rng_below(rng, 2))
        agents += w * htc_rng_below(rng, 3);
    return (htc_allot_user){ .weight = w,
                             .agents = agents,
                             .draining = htc_rng_below(rng, 2),
                             .starting = htc_rng_below(rng, 2),
                             .last_served = htc_rng_below(rng, 2) << htc_rng_below(rng, 64),
                             .arrival = htc_rng_below(rng, 2),
                             .id = id };
}

/* Against going through a row that is sorted; who gets a part, too. */
Test(allot, serves_a_row_in_its_order)
{
    const uint64_t seed = 20260102;
    htc_rng        rng = { seed };
    cr_log_info("seed %llu", (unsigned long long)seed);
    for (int k = 0; k < 20000; k++) {
        size_t          n = htc_rng_below(&rng, ROW) + 1;
        int             by_arrival = k % 2;
        uint64_t        most = by_arrival ? UINT64_MAX : htc_rng_below(&rng, 3) + 1, left, expected;
        htc_allot_user  u[ROW];
        htc_allot_share shares[ROW] = { 0 };
        htc__entry      e[ROW] = { 0 };
        htc__candidate  stood[ROW];
        htc__division   d = { .users = u, .shares = shares, .entries = e, .n = n, .row = stood };
        d.left = left = htc_rng_below(&rng, 2 * n + 1);
        for (size_t i = 0; i < n; i++) {
            u[i] = one_of_many_alike(&rng, (n - i) * 1000003 % 65536);
            e[i].demand = htc_rng_below(&rng, 4);
            e[i].remainder = htc_rng_below(&rng, 2) << (k % 62);
            stood[i].user = (uint32_t)i;
        }
        htc__row_serve(&d, n, most, by_arrival ? htc__row_by_arrival : htc__row_by_remainder);
        for (size_t i = 0; i < n; i++) {
            uint64_t before = 0;
            for (size_t j = 0; j < n; j++)
                if (by_arrival ? u[j].arrival < u[i].arrival || (u[j].arrival == u[i].arrival && u[j].id < u[i].id)
                               : stands_before(&u[j], &e[j], &u[i], &e[i]))
                    before += e[j].demand < most ? e[j].demand : most;
            expected = e[i].demand < most ? e[i].demand : most;
            expected = before >= left ? 0 : expected < left - before ? expected : left - before;
            cr_assert(eq(u64, shares[i].ra, expected), "case %d user %zu of %zu", k, i, n);
        }
    }
}

/* Whoever chose the numbers: needs that are powers of two for weights that are, so that one after the other is filled.
 * Taking them out one by one would take a round each. */
Test(allot, finds_the_level_in_few_rounds)
{
    enum { N = 4096 };
    static htc__need needs[N], left[N];
    uint32_t         most = 0;
    htc_rng          rng = { 20260103 };
    for (uint64_t slots = 1; slots <= HTC_ALLOT_SLOTS_MAX; slots += slots / 3 + 1)
        for (unsigned down = 0; down < 4; down++) {
            uint64_t weights = 0, filled = 0, rising = 0;
            for (size_t i = 0; i < N; i++) {
                uint64_t at = i * 42 / N, away = htc_rng_below(&rng, 3);
                needs[i].room = ((UINT64_C(1) << at) + away) >> (down == 1 ? at / 2 : 0);
                needs[i].weight = down == 2   ? HTC_ALLOT_WEIGHT_MAX >> at
                                  : down == 3 ? (UINT64_C(1) << at / 2) + away
                                              : 1;
                weights += needs[i].weight;
                left[i] = needs[i];
            }
            htc__fill level = htc__fill_level(left, N, slots, weights);
            for (size_t i = 0; i < N; i++)
                if ((u128)needs[i].room * level.weight <= (u128)level.slots * needs[i].weight)
                    filled += needs[i].room;
                else
                    rising += needs[i].weight;
            cr_assert(eq(u64, rising, level.weight));
            cr_assert(level.weight == 0 ? filled <= slots : filled + level.slots == slots);
            most = level.rounds > most ? level.rounds : most;
        }
    cr_expect(most < 90, "%u rounds", most);
}

Test(allot, no_minimum_when_told_so)
{
    htc_allot_options o = { .size = sizeof o, .min_agents = HTC_ALLOT_NO_MINIMUM };
    htc_allot_user    u[] = { { .weight = 1, .queued = 50, .id = 0 }, { .weight = 999, .queued = 50, .id = 1 } };
    htc_allot_share   s[2];
    cr_assert(eq(int, htc_allot(NULL, &o, u, 2, 10, s), HTC_OK));
    cr_expect(eq(u64, s[0].ra, 0));
    cr_expect(eq(u64, s[1].ra, 10));
    o.min_agents = 3;
    cr_assert(eq(int, htc_allot(NULL, &o, u, 2, 10, s), HTC_OK));
    cr_expect(eq(u64, s[0].ra, 3));
    cr_expect(eq(u64, s[1].ra, 7));
}

/* What a filling adds is no entitlement: base stays, so nobody is drained for it. */
Test(allot, base_is_before_filling)
{
    htc_allot_user  u[] = { { .weight = 1, .queued = 50, .running = 50, .agents = 50, .id = 1 },
                            { .weight = 1, .running = 50, .agents = 50, .id = 2 },
                            { .weight = 1, .queued = 20, .id = 3 } };
    htc_allot_share s[3];
    cr_assert(eq(int, htc_allot(NULL, NULL, u, 3, 100, s), HTC_OK));
    cr_expect(s[0].base == 50 && s[0].ra == 80);
    cr_expect(s[1].base == 0 && s[1].ra == 0); /* satisfied: not divided for */
    cr_expect(s[2].base == 20 && s[2].ra == 20);
}

Test(allot, other_policies)
{
    htc_allot_options o = { .size = sizeof o, .fixed_users = 4 };
    htc_allot_user    u[] = {
           { .weight = 1, .queued = 50, .running = 50, .agents = 50, .arrival = 2, .id = 1, .fixed = 1 },
           { .weight = 1, .running = 50, .agents = 50, .arrival = 1, .id = 2, .fixed = 1 },
           { .weight = 1, .queued = 20, .arrival = 3, .id = 3 }
    };
    const uint64_t    expected[][3] = { [HTC_ALLOT_EQ1] = { 80, 0, 20 },
                                        [HTC_ALLOT_STATIC] = { 25, 25, 0 },
                                        [HTC_ALLOT_MAXMIN] = { 40, 40, 20 },
                                        [HTC_ALLOT_FCFS] = { 50, 50, 0 } };
    const char *const names[] = { "eq1", "static", "maxmin", "fcfs" };
    for (uint32_t p = 0; p < 4; p++) {
        htc_allot_share s[3];
        cr_assert(eq(int, htc_allot_policy_from_name(names[p], &o.policy), HTC_OK));
        cr_assert(eq(u32, o.policy, p));
        cr_assert(eq(int, htc_allot(NULL, &o, u, 3, 100, s), HTC_OK));
        for (size_t i = 0; i < 3; i++)
            cr_expect(eq(u64, s[i].ra, expected[p][i]), "%s user %zu", names[p], i);
    }
    cr_expect(eq(int, htc_allot_policy_from_name("simple", &o.policy), HTC_ENOTFOUND));
    cr_expect(eq(int, htc_allot_policy_from_name(NULL, &o.policy), HTC_ENOTFOUND));
}

Test(allot, weights_in_units_of_1_1024)
{
    cr_expect(eq(u64, htc_allot_weight(1.0), HTC_ALLOT_WEIGHT_ONE));
    cr_expect(eq(u64, htc_allot_weight(0.125), 128));
    cr_expect(eq(u64, htc_allot_weight(1.00048), 1024));
    cr_expect(eq(u64, htc_allot_weight(1.00049), 1025));
    cr_expect(eq(u64, htc_allot_weight(0.0), 1));
    cr_expect(eq(u64, htc_allot_weight(-4.0), 1));
    cr_expect(eq(u64, htc_allot_weight(NAN), 1));
    cr_expect(eq(u64, htc_allot_weight(INFINITY), HTC_ALLOT_WEIGHT_MAX));
    cr_expect(eq(u64, htc_allot_weight(4294967296.0), HTC_ALLOT_WEIGHT_MAX));
}

/* ---- random users, and the specification written down slowly ---- */

static htc_allot_user random_user(htc_rng *rng, uint64_t id, int equal)
{
    static const uint64_t scale[] = { 1, 4, 50, 1000, UINT64_C(1) << 40 };
    uint64_t              span = scale[htc_rng_below(rng, 5)];
    return (htc_allot_user){ .weight = equal ? 3 : htc_rng_below(rng, scale[htc_rng_below(rng, 5)]) + 1,
                             .queued = htc_rng_below(rng, span + 1),
                             .running = htc_rng_below(rng, 40),
                             .agents = htc_rng_below(rng, 40),
                             .draining = htc_rng_below(rng, 5),
                             .last_served = htc_rng_below(rng, 3),
                             .arrival = htc_rng_below(rng, 3),
                             .id = id };
}

static uint64_t demand(const htc_allot_user *u)
{
    return u->queued + u->running;
}

/* Does x come before y where a remainder is left to give? A * weight mod W is the remainder of both. */
static int model_before(const htc_allot_user *x, const htc_allot_user *y, uint64_t slots, u128 whole)
{
    u128 a = (u128)slots * x->weight % whole, b = (u128)slots * y->weight % whole;
    if (a != b)
        return a > b;
    u128 p = (u128)(x->agents + x->draining) * y->weight, q = (u128)(y->agents + y->draining) * x->weight;
    if (p != q)
        return p < q;
    if (x->last_served != y->last_served)
        return x->last_served < y->last_served;
    return x->arrival != y->arrival ? x->arrival < y->arrival : x->id < y->id;
}

/* Section 3.2 up to its step 1, in the order it is written, without fair.min_agents. */
static void model_base(const htc_allot_user *u, size_t n, uint64_t slots, uint64_t *base)
{
    u128     whole = 0;
    uint64_t left = slots;
    int      served[USERS_MAX] = { 0 };
    for (size_t i = 0; i < n; i++)
        whole += u[i].queued ? u[i].weight : 0;
    for (size_t i = 0; i < n; i++) {
        u128 x = u[i].queued ? (u128)slots * u[i].weight / whole : 0;
        base[i] = x < demand(&u[i]) ? (uint64_t)x : demand(&u[i]);
        left -= base[i];
    }
    for (size_t round = 0; round < n && left > 0; round++) {
        size_t first = n;
        for (size_t i = 0; i < n; i++)
            if (u[i].queued && !served[i] && (first == n || model_before(&u[i], &u[first], slots, whole)))
                first = i;
        if (first == n)
            break;
        served[first] = 1;
        if (base[first] < demand(&u[first]) && (u128)slots * u[first].weight % whole > 0) {
            base[first]++;
            left--;
        }
    }
}

/* What filling added is in proportion: no user got more for the weight than one that still has room, except for one slot. */
static void expect_filled_fairly(const htc_allot_user *u, const htc_allot_share *s, size_t n)
{
    for (size_t i = 0; i < n; i++)
        for (size_t j = 0; j < n; j++)
            if (u[i].queued && s[i].ra < demand(&u[i]) && s[j].ra > s[j].base) {
                int fair =
                    (u128)(s[j].ra - s[j].base - 1) * u[i].weight < (u128)(s[i].ra - s[i].base + 1) * u[j].weight;
                cr_assert(eq(int, fair, 1));
            }
}

static void expect_invariants(const htc_allot_user *u, const htc_allot_share *s, size_t n, uint64_t slots, int equal)
{
    u128 sum = 0, wanted = 0;
    for (size_t i = 0; i < n; i++) {
        sum += s[i].ra;
        wanted += u[i].queued ? demand(&u[i]) : 0;
        cr_assert(s[i].ra <= demand(&u[i]) && s[i].base <= s[i].ra && (u[i].queued || s[i].ra == 0));
    }
    cr_assert(sum == (wanted < slots ? wanted : slots));
    for (size_t i = 0; equal && i < n; i++)
        for (size_t j = 0; j < n; j++)
            if (u[i].queued && s[i].ra < demand(&u[i]))
                cr_assert(s[j].ra <= s[i].ra + 1);
}

Test(allot, random_users_against_the_model, .timeout = 120)
{
    const uint64_t seed = 20260101;
    htc_rng        rng = { seed };
    cr_log_info("seed %llu", (unsigned long long)seed);
    for (int k = 0; k < CASES; k++) {
        size_t            n = htc_rng_below(&rng, USERS_MAX) + 1;
        int               equal = htc_rng_below(&rng, 4) == 0;
        uint64_t          slots = htc_rng_below(&rng, k % 16 ? 64 : HTC_ALLOT_SLOTS_MAX + 1), base[USERS_MAX];
        htc_allot_user    u[USERS_MAX], scaled[USERS_MAX];
        htc_allot_share   s[USERS_MAX], t[USERS_MAX];
        htc_allot_options none = { .size = sizeof none, .min_agents = HTC_ALLOT_NO_MINIMUM };
        for (size_t i = 0; i < n; i++) {
            scaled[i] = u[i] = random_user(&rng, i, equal);
            scaled[i].weight *= 3;
        }
        cr_assert(eq(int, htc_allot(NULL, NULL, u, n, slots, s), HTC_OK));
        expect_invariants(u, s, n, slots, equal);
        expect_filled_fairly(u, s, n);
        cr_assert(eq(int, htc_allot(NULL, NULL, scaled, n, slots, t), HTC_OK));
        for (size_t i = 0; i < n; i++)
            cr_assert(s[i].ra == t[i].ra && s[i].base == t[i].base, "case %d: weights times 3 change user %zu", k, i);
        cr_assert(eq(int, htc_allot(NULL, &none, u, n, slots, t), HTC_OK));
        model_base(u, n, slots, base);
        for (size_t i = 0; i < n; i++)
            cr_assert(eq(u64, t[i].base, base[i]), "case %d user %zu of %zu", k, i, n);
        expect_invariants(u, t, n, slots, equal);
    }
}

/* The order of the array is no matter. */
Test(allot, order_of_users_changes_nothing)
{
    htc_rng rng = { 7 };
    for (int k = 0; k < 2000; k++) {
        size_t          n = htc_rng_below(&rng, USERS_MAX) + 1;
        htc_allot_user  u[USERS_MAX], back[USERS_MAX];
        htc_allot_share s[USERS_MAX], t[USERS_MAX];
        for (size_t i = 0; i < n; i++)
            back[n - 1 - i] = u[i] = random_user(&rng, i, k & 1);
        uint64_t slots = htc_rng_below(&rng, 64);
        cr_assert(eq(int, htc_allot(NULL, NULL, u, n, slots, s), HTC_OK));
        cr_assert(eq(int, htc_allot(NULL, NULL, back, n, slots, t), HTC_OK));
        for (size_t i = 0; i < n; i++)
            cr_assert(eq(u64, s[i].ra, t[n - 1 - i].ra));
    }
}

/* A thousand users and 2^48 slots cost what a thousand users and ten slots cost: this would not end otherwise. */
Test(allot, cost_does_not_depend_on_slots, .timeout = 60)
{
    enum { N = 1000 };
    static htc_allot_user  u[N];
    static htc_allot_share s[N];
    uint64_t               sum = 0;
    for (uint64_t i = 0; i < N; i++)
        u[i] = (htc_allot_user){
            .weight = i % 2 ? HTC_ALLOT_WEIGHT_MAX : i + 1, .queued = UINT64_MAX, .running = i, .id = i
        };
    cr_assert(eq(int, htc_allot(NULL, NULL, u, N, HTC_ALLOT_SLOTS_MAX, s), HTC_OK));
    for (size_t i = 0; i < N; i++)
        sum += s[i].ra;
    cr_expect(eq(u64, sum, HTC_ALLOT_SLOTS_MAX));
}

Test(allot, wrong_use)
{
    htc_allot_user  u = { .weight = 1, .queued = 1 };
    htc_allot_share s = { 77, 77 };
    struct {
        htc_allot_options known;
        uint64_t          newer;
    } o = { .known.size = sizeof o };
    cr_expect(eq(int, htc_allot(NULL, NULL, NULL, 0, 5, NULL), HTC_OK));
    cr_expect(eq(int, htc_allot(NULL, NULL, NULL, 1, 5, &s), HTC_EINVAL));
    cr_expect(eq(int, htc_allot(NULL, NULL, &u, 1, 5, NULL), HTC_EINVAL));
    cr_expect(eq(int, htc_allot(NULL, NULL, &u, 1, HTC_ALLOT_SLOTS_MAX + 1, &s), HTC_EINVAL));
    cr_expect(eq(int, htc_allot(NULL, NULL, &u, HTC_ALLOT_USERS_MAX + 1, 5, &s), HTC_EINVAL));
    u.weight = 0;
    cr_expect(eq(int, htc_allot(NULL, NULL, &u, 1, 5, &s), HTC_EINVAL));
    u.weight = HTC_ALLOT_WEIGHT_MAX + 1;
    cr_expect(eq(int, htc_allot(NULL, NULL, &u, 1, 5, &s), HTC_EINVAL));
    u.weight = 1;
    u.starting = 1;
    cr_expect(eq(int, htc_allot(NULL, NULL, &u, 1, 5, &s), HTC_EINVAL));
    u.starting = 0;
    o.known.policy = 4;
    cr_expect(eq(int, htc_allot(NULL, &o.known, &u, 1, 5, &s), HTC_EINVAL));
    o.known.policy = HTC_ALLOT_STATIC;
    cr_expect(eq(int, htc_allot(NULL, &o.known, &u, 1, 5, &s), HTC_EINVAL)); /* no K */
    o.known.policy = HTC_ALLOT_EQ1;
    o.newer = 1;
    cr_expect(eq(int, htc_allot(NULL, &o.known, &u, 1, 5, &s), HTC_EABI));
    o.known.size = 0;
    cr_expect(eq(int, htc_allot(NULL, &o.known, &u, 1, 5, &s), HTC_EINVAL));
    cr_expect(s.ra == 77 && s.base == 77, "untouched on failure");
    o.newer = 0;
    o.known.size = sizeof o;
    cr_expect(eq(int, htc_allot(NULL, &o.known, &u, 1, 5, &s), HTC_OK));
    cr_expect(eq(u64, s.ra, 1));
}

static void divide_without_memory(alloc_fail *f)
{
    htc_allot_user   u[3] = { { .weight = 1, .queued = 1 },
                              { .weight = 2, .queued = 9, .id = 1 },
                              { .weight = 1, .queued = 9, .id = 2 } };
    htc_env          env = alloc_fail_env(f);
    htc_allot_share  s[3] = { { 77, 77 }, { 77, 77 }, { 77, 77 } };
    htc_allot_change c[3] = { { .grant = 77 }, { .grant = 77 }, { .grant = 77 } };
    htc_status       status = htc_allot(&env, NULL, u, 3, 5, s);
    size_t           refused = f->refused;
    cr_expect(eq(int, status, refused ? HTC_ENOMEM : HTC_OK));
    cr_expect(eq(u64, s[0].ra, refused ? 77 : 1));
    cr_expect(eq(u64, s[2].base, refused ? 77 : 1));
    status = htc_allot_plan(&env, NULL, u, 3, 5, 5, c);
    refused = f->refused - (f->once ? refused : 0);
    cr_expect(eq(int, status, refused ? HTC_ENOMEM : HTC_OK));
    const double   work[3] = { 100, 200, 400 };
    const uint64_t priority[3] = { 1, 1, 1 };
    uint64_t       weight[3] = { 77, 77, 77 };
    size_t         so_far = f->refused;
    htc_status     weighed = htc_allot_profiled(&env, priority, work, 3, 1, weight);
    cr_expect(eq(int, weighed, f->refused > so_far ? HTC_ENOMEM : HTC_OK));
    cr_expect(weighed == HTC_OK ? weight[0] == 512 && weight[2] == 2048 : weight[0] == 77 && weight[2] == 77);
    for (int i = 0; i < 3; i++)
        cr_expect(refused ? c[i].grant == 77 : c[i].grant <= 3, "%d: %llu", i, (unsigned long long)c[i].grant);
    cr_expect(f->live == 0 && f->wrong_sizes == 0);
}

Test(allot, out_of_memory)
{
    ALLOC_FAIL_EVERY(f, 20)
    divide_without_memory(&f);
    ALLOC_FAIL_ONCE(f, 20)
    divide_without_memory(&f);
}

/* The specification's 3.8: weight = priority * clamp((work / median)^gamma, 1/8, 8), in 1/1024. */
Test(allot, weights_from_profiles)
{
    static const struct {
        double   gamma, work[3];
        uint64_t priority[3], weight[3];
    } table[] = {
        { 0, { 100, 200, 400 }, { 1, 1, 1 }, { 1024, 1024, 1024 } },
        { 0, { 100, 200, 400 }, { 1, 3, UINT64_C(1) << 32 }, { 1024, 3072, UINT64_C(1) << 42 } },
        { 1, { 100, 200, 400 }, { 1, 1, 1 }, { 512, 1024, 2048 } },
        { -1, { 100, 200, 400 }, { 1, 1, 2 }, { 2048, 1024, 1024 } },
        { -0.5, { 50, 200, 800 }, { 1, 1, 1 }, { 2048, 1024, 512 } },
        { 1, { 1, 1000, 1e9 }, { 1, 1, 1 }, { 128, 1024, 8192 } }, /* the clamps */
        { 1, { 0, 100, 200 }, { 5, 1, 1 }, { 5120, 683, 1365 } },  /* unknown: 1; the median is 150 */
        { 1, { 0, 0, 0 }, { 1, 2, 3 }, { 1024, 2048, 3072 } },
    };
    uint64_t weight[3];
    for (size_t i = 0; i < sizeof table / sizeof table[0]; i++) {
        cr_assert(
            eq(int, htc_allot_profiled(NULL, table[i].priority, table[i].work, 3, table[i].gamma, weight), HTC_OK));
        for (int k = 0; k < 3; k++)
            cr_expect(eq(u64, weight[k], table[i].weight[k]), "row %zu, user %d", i, k);
    }
    cr_expect(eq(int, htc_allot_profiled(NULL, table[0].priority, table[0].work, 3, 1.5, weight), HTC_EINVAL));
    cr_expect(eq(int, htc_allot_profiled(NULL, (uint64_t[]){ 0 }, table[0].work, 1, 0, weight), HTC_EINVAL));
    cr_expect(eq(int, htc_allot_profiled(NULL, NULL, NULL, 0, 0, NULL), HTC_OK));
    cr_expect(eq(int, htc_allot_profiled(NULL, NULL, table[0].work, 1, 0, weight), HTC_EINVAL));
    cr_expect(eq(int, htc_allot_profiled(NULL, table[0].priority, NULL, 1, 0, weight), HTC_EINVAL));
    cr_expect(eq(int, htc_allot_profiled(NULL, table[0].priority, table[0].work, 1, 0, NULL), HTC_EINVAL));
}
