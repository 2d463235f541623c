/* Where to look for free nodes: the tree against an array, requests step by step, whole machines of many controllers.
 */
#include "expect.h"
#include <math.h>
#include <string.h>

#include "alloc_fail.h"
#include "balance_hand.h"
#include "property.h"

/* ---- The tree ---- */

enum { PARTITIONS = 24 };

typedef struct entry {
    uint32_t free; /* HTC_BALANCE_UNKNOWN: not in the tree */
    uint64_t since;
} entry;

/* Of those with enough the fewest, else the most; of equals the one set first. */
static int model_best(const entry *m, uint64_t need, uint32_t *best)
{
    int found = 0;
    for (uint32_t i = 0; i < PARTITIONS; i++) {
        if (m[i].free == HTC_BALANCE_UNKNOWN || m[i].free == 0)
            continue;
        const entry *a = &m[i], *b = &m[*best];
        int          better = !found                                   ? 1
                              : (a->free >= need) != (b->free >= need) ? a->free >= need
                              : a->free != b->free                     ? (a->free < b->free) == (a->free >= need)
                                                                       : a->since < b->since;
        *best = better ? i : *best;
        found = 1;
    }
    return found;
}

/* Mostly few different ones, and some around where a word, a level, or all of them end. Large ones cost megabytes: one
 * seed in 16. */
static uint32_t draw_count(htc_rng *rng)
{
    uint32_t most = property_seed % 16 == 0 ? HTC_BALANCE_FREE_MAX : 4500;
    uint64_t kind = htc_rng_below(rng, 8);
    return (uint32_t)(kind == 0   ? most - htc_rng_below(rng, 3)
                      : kind == 1 ? htc_rng_below(rng, most)
                      : kind == 2 ? 4094 + htc_rng_below(rng, 5)
                      : kind < 5  ? 62 + htc_rng_below(rng, 5)
                                  : htc_rng_below(rng, 6));
}

Test(balance, the_tree_agrees_with_an_array)
{
    PROPERTY(rng, 3000)
    {
        htc_balance_tree *t = NULL;
        entry             m[PARTITIONS];
        uint32_t          inside = 0, p, free;
        HOLDS(htc_balance_tree_create(NULL, PARTITIONS, &t) == HTC_OK);
        for (uint32_t i = 0; i < PARTITIONS; i++)
            m[i] = (entry){ HTC_BALANCE_UNKNOWN, 0 };
        for (uint64_t step = 1; step <= 60; step++) {
            p = (uint32_t)htc_rng_below(&rng, PARTITIONS);
            uint64_t op = htc_rng_below(&rng, 40), need = 1 + draw_count(&rng);
            if (op < 25) {
                free = draw_count(&rng);
                HOLDS(htc_balance_tree_set(t, p, free) == HTC_OK);
                if (m[p].free != free)
                    m[p] = (entry){ free, step };
            } else if (op < 39) {
                HOLDS(htc_balance_tree_remove(t, p) == (m[p].free != HTC_BALANCE_UNKNOWN ? HTC_OK : HTC_ENOTFOUND));
                m[p].free = HTC_BALANCE_UNKNOWN;
            } else {
                htc_balance_tree_clear(t);
                for (uint32_t i = 0; i < PARTITIONS; i++)
                    m[i].free = HTC_BALANCE_UNKNOWN;
            }
            uint32_t best = 0, got = 77, count = 77;
            int      found = model_best(m, need, &best);
            HOLDS(htc_balance_tree_best(t, need, &got, &count) == (found ? HTC_OK : HTC_AGAIN));
            HOLDS(found ? got == best && count == m[best].free : got == 77 && count == 77);
            HOLDS(htc_balance_tree_get(t, p, &count) == (m[p].free != HTC_BALANCE_UNKNOWN ? HTC_OK : HTC_ENOTFOUND));
            HOLDS(m[p].free == HTC_BALANCE_UNKNOWN || count == m[p].free);
        }
        for (uint32_t i = 0; i < PARTITIONS; i++)
            inside += m[i].free != HTC_BALANCE_UNKNOWN;
        HOLDS(htc_balance_tree_count(t) == inside);
        htc_balance_tree_destroy(t);
    }
}

/* "Of those with enough free, the one with the fewest; if none has enough, the one with the most" (Algorithm 8). */
Test(balance, best_fit_is_the_smallest_that_is_enough)
{
    const uint32_t    counts[] = { 10, 50, 0, 30, 50 };
    htc_balance_tree *t;
    uint32_t          p;
    static const struct {
        uint64_t need;
        uint32_t partition;
    } table[] = { { 1, 0 }, { 10, 0 }, { 11, 3 }, { 30, 3 }, { 31, 1 }, { 50, 1 }, { 51, 1 }, { UINT64_MAX, 1 } };
    cr_assert(eq(int, htc_balance_tree_create(NULL, 5, &t), HTC_OK));
    cr_expect(eq(int, htc_balance_tree_best(t, 1, &p, NULL), HTC_AGAIN));
    for (uint32_t i = 0; i < 5; i++)
        cr_assert(eq(int, htc_balance_tree_set(t, i, counts[i]), HTC_OK));
    for (size_t i = 0; i < sizeof table / sizeof *table; i++) {
        cr_assert(eq(int, htc_balance_tree_best(t, table[i].need, &p, NULL), HTC_OK));
        cr_expect(eq(u32, p, table[i].partition), "need %llu", (unsigned long long)table[i].need);
    }
    htc_balance_tree_destroy(t);
}

/* ---- Requests, step by step ---- */

/* What the request is to do, and what came of it. */
typedef struct line {
    uint32_t kind, partition, nodes; /* expected */
    uint32_t taken, free;            /* answered */
} line;

static void expect_lines(htc_balance_request *r, const line *lines, size_t n)
{
    htc_rng            rng = { 1 };
    htc_balance_answer answer = HTC_BALANCE_ANSWER_INIT;
    htc_balance_action a = { .kind = 0 };
    htc_ns             now = 1000;
    for (size_t i = 0; i < n; i++) {
        cr_assert(eq(int, htc_balance_step(r, now, &rng, &answer, &a), HTC_OK), "line %zu", i);
        cr_assert(eq(u32, a.kind, lines[i].kind), "line %zu", i);
        if (a.kind == HTC_BALANCE_TAKE) {
            cr_expect(eq(u32, a.partition, lines[i].partition), "line %zu", i);
            cr_expect(eq(u32, a.nodes, lines[i].nodes), "line %zu", i);
        }
        if (a.kind == HTC_BALANCE_WAIT) {
            htc_balance_action again;
            cr_expect(a.until > now, "line %zu", i);
            cr_assert(eq(int, htc_balance_step(r, a.until - 1, &rng, NULL, &again), HTC_OK));
            cr_expect(again.kind == a.kind && again.until == a.until, "a step too early is harmless");
            now = a.until;
        }
        answer = (htc_balance_answer){ lines[i].taken, lines[i].free };
    }
}

#define T HTC_BALANCE_TAKE
#define R HTC_BALANCE_RELEASE
#define W HTC_BALANCE_WAIT
#define D HTC_BALANCE_DONE

Test(balance, the_monitored_request_follows_algorithm_8)
{
    const uint32_t       census[] = { 5, 40, 20, 70, 0, 30 };
    htc_balance_options  o = options_of(6, 0);
    htc_balance_request *r;
    o.tries = 2;
    htc_balance *b = open_balance(&o);
    cr_assert(eq(int, htc_balance_begin(b, 100, &r), HTC_OK));
    give_census(b, census, 6);
    const line lines[] = {
        { T, 0, 100, 5, 0 }, /* own partition first */
        { T, 3, 95, 70, 0 }, /* none has 95: the one with the most */
        { T, 5, 25, 10, 0 }, /* 30 would be enough, but somebody was faster */
        { T, 2, 15, 0, 3 },  /* 20 is the smallest that is enough; not 1 with its 40. Its three were gone meanwhile */
        { T, 1, 15, 0, 0 },  /* the second fruitless try in a row */
        { R, 0, 0, 0, 0 },   /* everything back */
        { W, 0, 0, 0, 0 },   { T, 0, 100, 5, 0 }, /* and from the start */
        { T, 2, 95, 0, 40 }, /* three were known of it; it has got 40 since, but somebody took them first */
        { T, 2, 95, 40, 0 }, { R, 0, 0, 0, 0 }, /* nobody is known to have a node: no wait with 45 of them held */
        { W, 0, 0, 0, 0 },
    };
    expect_lines(r, lines, sizeof lines / sizeof *lines);
    htc_balance_end(r);
    htc_balance_destroy(b);
}

/* One partition beside the own one, so that chance has no choice. */
Test(balance, the_random_request_follows_algorithm_5)
{
    htc_balance_options  o = options_of(2, 1);
    htc_balance_request *r;
    htc_balance_progress p;
    o.policy = policy_called("random");
    o.tries = 3;
    htc_balance *b = open_balance(&o);
    cr_assert(eq(int, htc_balance_begin(b, 10, &r), HTC_OK));
    const line lines[] = {
        { T, 1, 10, 4, 0 },  { T, 0, 6, 0, 0 }, { W, 0, 0, 0, 0 }, { T, 0, 6, 0, 0 },
        { W, 0, 0, 0, 0 },   { T, 0, 6, 1, 0 }, /* a success resets the counter */
        { T, 0, 5, 0, 0 },   { W, 0, 0, 0, 0 }, { T, 0, 5, 0, 0 }, { W, 0, 0, 0, 0 },
        { T, 0, 5, 0, 0 },   { R, 0, 0, 0, 0 }, { W, 0, 0, 0, 0 }, { T, 1, 10, 0, 0 },
        { T, 0, 10, 10, 0 }, { D, 0, 0, 0, 0 }, { D, 0, 0, 0, 0 },
    };
    expect_lines(r, lines, sizeof lines / sizeof *lines);
    cr_assert(eq(int, htc_balance_progress_of(r, &p), HTC_OK));
    cr_expect(p.need == 10 && p.taken == 10 && p.steals == 7 && p.rounds == 1 && p.fruitless == 0);
    htc_balance_end(r);
    htc_balance_destroy(b);
}

/* With nothing held there is nothing to give back. */
Test(balance, a_request_that_holds_nothing_only_waits)
{
    htc_balance_options  o = options_of(1, 0);
    htc_balance_request *r;
    o.tries = 1;
    htc_balance *b = open_balance(&o);
    cr_assert(eq(int, htc_balance_begin(b, 1, &r), HTC_OK));
    const line lines[] = { { T, 0, 1, 0, 0 }, { W, 0, 0, 0, 0 }, { T, 0, 1, 0, 0 },
                           { W, 0, 0, 0, 0 }, { T, 0, 1, 1, 0 }, { D, 0, 0, 0, 0 } };
    expect_lines(r, lines, sizeof lines / sizeof *lines);
    htc_balance_end(r);
    htc_balance_destroy(b);
}

/* "Take its entry out of the tree, so that this controller's parallel allocations do not compete", whatever is pulled
 * meanwhile. */
Test(balance, requests_of_one_controller_do_not_compete)
{
    const uint32_t       census[] = { 50, 50, 50 };
    htc_balance_options  o = options_of(3, HTC_BALANCE_NONE);
    htc_balance         *b = open_balance(&o);
    htc_balance_request *r[4];
    htc_balance_action   a[4];
    htc_balance_answer   none = HTC_BALANCE_ANSWER_INIT;
    htc_rng              rng = { 9 };
    int                  seen[3] = { 0 };
    give_census(b, census, 3);
    for (int i = 0; i < 4; i++) {
        cr_assert(eq(int, htc_balance_begin(b, 10, &r[i]), HTC_OK));
        cr_assert(eq(int, htc_balance_step(r[i], 0, &rng, &none, &a[i]), HTC_OK));
        if (i < 3)
            seen[a[i].partition]++;
        give_census(b, census, 3);
    }
    cr_expect(seen[0] == 1 && seen[1] == 1 && seen[2] == 1);
    cr_expect(eq(u32, a[3].kind, HTC_BALANCE_WAIT), "all are being tried");
    /* One ends in the middle of it: its partition is unknown, and known again with the next census. */
    uint32_t last = a[2].partition;
    htc_balance_end(r[2]);
    give_census(b, census, 3);
    cr_assert(eq(int, htc_balance_step(r[3], HTC_SECOND, &rng, &none, &a[3]), HTC_OK));
    cr_expect(a[3].kind == HTC_BALANCE_TAKE && a[3].partition == last);
    for (int i = 0; i < 4; i++)
        if (i != 2)
            htc_balance_end(r[i]);
    htc_balance_destroy(b);
}

/* Two controllers with one census and one rule would run to one partition; where they begin among equals is drawn. 64
 * equal partitions and 32 controllers: if all draws are fair, fewer than 16 different first choices have a chance below
 * 1e-4. */
Test(balance, controllers_prefer_different_ones_among_equals)
{
    uint32_t             different = 0;
    int                  seen[64] = { 0 };
    htc_balance_options  o = options_of(64, HTC_BALANCE_NONE);
    htc_balance_monitor *m;
    htc_balance_action   published = { .kind = 0 }, a;
    htc_balance_answer   answer = { 0, 5 };
    htc_rng              root = { 11 };
    cr_assert(htc_balance_monitor_create(NULL, 64, 0, &m) == HTC_OK);
    while (published.kind != HTC_BALANCE_PUBLISH)
        cr_assert(htc_balance_monitor_step(m, 0, &answer, &published) == HTC_OK);
    for (int i = 0; i < 32; i++) {
        htc_balance         *b = open_balance(&o);
        htc_balance_request *r;
        htc_rng              rng = { htc_rng_next(&root) };
        cr_assert(htc_balance_pull(b, 0, &rng, published.body) == HTC_OK);
        cr_assert(htc_balance_begin(b, 3, &r) == HTC_OK && htc_balance_step(r, 0, &rng, NULL, &a) == HTC_OK);
        different += seen[a.partition]++ == 0;
        htc_balance_end(r);
        htc_balance_destroy(b);
    }
    cr_expect(different >= 16, "%u", different);
    htc_balance_monitor_destroy(m);
}

/* "Near ones are robbed first." */
Test(balance, near_partitions_are_robbed_first)
{
    const uint32_t       census[] = { 9, 9, 20, 9, 30 }, near[] = { 1, 3, 0 };
    htc_balance_options  o = options_of(5, 0);
    htc_balance_request *r;
    o.near = near;
    o.near_count = 3;
    htc_balance *b = open_balance(&o);
    give_census(b, census, 5);
    cr_assert(eq(int, htc_balance_begin(b, 40, &r), HTC_OK));
    const line lines[] = { { T, 0, 40, 9, 0 },  { T, 1, 31, 0, 0 },  { T, 3, 31, 9, 0 },
                           { T, 4, 22, 11, 0 }, { T, 2, 11, 11, 9 }, { D, 0, 0, 0, 0 } };
    /* Which of the near ones with 9 is first depends on where the census began. */
    htc_rng            rng = { 1 };
    htc_balance_action a;
    htc_balance_answer answer = HTC_BALANCE_ANSWER_INIT;
    for (int i = 0; i < 6; i++) {
        cr_assert(eq(int, htc_balance_step(r, 0, &rng, &answer, &a), HTC_OK));
        cr_expect(eq(u32, a.kind, lines[i].kind));
        cr_expect(i == 1 || i == 2 ? a.partition == 1 || a.partition == 3
                                   : a.kind == HTC_BALANCE_DONE || a.partition == lines[i].partition);
        answer = (htc_balance_answer){ lines[i].taken, lines[i].free };
    }
    htc_balance_end(r);
    htc_balance_destroy(b);
    /* By chance: the first half of the tries is theirs. */
    o.policy = policy_called("random");
    o.tries = 6;
    b = open_balance(&o);
    cr_assert(eq(int, htc_balance_begin(b, 40, &r), HTC_OK));
    answer = (htc_balance_answer){ 0, 0 };
    htc_ns now = 0;
    int    distant[6] = { 0 };
    for (int round = 0; round < 50; round++)
        for (int tries = -1; tries < 6;) {
            cr_assert(eq(int, htc_balance_step(r, now, &rng, &answer, &a), HTC_OK));
            now = a.kind == HTC_BALANCE_WAIT ? a.until : now;
            if (a.kind == HTC_BALANCE_TAKE) {
                cr_expect(tries < 0 ? a.partition == 0 : a.partition != 0);
                int is_near = a.partition == 1 || a.partition == 3;
                cr_expect(tries < 0 || tries >= 3 || is_near);
                distant[tries < 0 ? 0 : tries] += tries >= 0 && !is_near;
                tries++;
            }
        }
    /* Of the second half each try is at one of all four: that none of 50 is distant has a chance of 2^-50. */
    cr_expect(distant[3] && distant[4] && distant[5]);
    htc_balance_end(r);
    htc_balance_destroy(b);
}

/* Doubled, at most the ceiling, drawn from the upper half, every value of it. */
Test(balance, pauses_double_up_to_the_ceiling)
{
    PROPERTY(rng, 1000)
    {
        htc_ns   first = 1 + htc_rng_below(&rng, 5000), max = first + htc_rng_below(&rng, 100000);
        uint32_t n = (uint32_t)htc_rng_below(&rng, 70);
        htc_ns   full = n < 20 && first << n < max ? first << n : max;
        HOLDS(htc_balance_pause(first, max, n, NULL) == full);
        htc_ns drawn = htc_balance_pause(first, max, n, &rng);
        HOLDS(drawn <= full && drawn >= full - full / 2);
    }
    htc_rng rng = { 1 };
    cr_expect(htc_balance_pause(1, HTC_NEVER, 1000, NULL) == HTC_NEVER);
    cr_expect(htc_balance_pause(HTC_NEVER, HTC_NEVER, 3, &rng) == HTC_NEVER);
    cr_expect(eq(u64, htc_balance_pause(0, 10, 3, &rng), 0));
    int seen[3] = { 0 };
    for (int i = 0; i < 100; i++)
        seen[htc_balance_pause(4, 4, 0, &rng) - 2]++;
    cr_expect(seen[0] && seen[1] && seen[2]);
}

/* p = product of held / nodes (section 6.3.2.3); the second value is 10!/10^10. */
Test(balance, a_second_full_scale_job_is_blocked_at_every_step)
{
    uint64_t held[10], far[8000];
    double   p = 7;
    cr_assert(eq(int, htc_balance_blocked(NULL, 0, 10, &p), HTC_OK));
    cr_expect(fabs(p - 1) < 1e-15, "%.17g", p);
    for (uint64_t i = 0; i < 10; i++)
        held[i] = i + 1;
    cr_assert(eq(int, htc_balance_blocked(held, 10, 10, &p), HTC_OK));
    cr_expect(fabs(p / 3628800e-10 - 1) < 1e-12);
    held[0] = 0;
    cr_assert(eq(int, htc_balance_blocked(held, 10, 10, &p), HTC_OK));
    cr_expect(eq(dbl, p, 0));
    held[0] = 11;
    cr_expect(eq(int, htc_balance_blocked(held, 10, 10, &p), HTC_EINVAL));
    cr_expect(eq(int, htc_balance_blocked(NULL, 1, 10, &p), HTC_EINVAL));
    cr_expect(eq(int, htc_balance_blocked(held, 1, 0, &p), HTC_EINVAL));
    /* "p = 1/2^m, m = k/10 the steps until job 1 holds half": with k = 8000 and what is held growing as random stealing
     * lets it, ever more slowly, half after 800 steps; the product is within a factor of 2^(k/10), in the exponent too.
     */
    for (int i = 0; i < 8000; i++)
        far[i] = (uint64_t)(1e6 * (1 - exp2(-(i + 1) / 800.0)));
    cr_assert(eq(int, htc_balance_blocked(far, 8000, 1000000, &p), HTC_OK));
    cr_expect(p == 0 || log2(p) < -800, "hopeless");
}

/* How far below its full length a wait was drawn is chance, its full length is not: that doubles from one to the next up to the
 * ceiling, between tries and between rounds. A success sets the waits between tries back, and so does a new round; those between
 * rounds go on growing. One partition beside the own one; ten tries in vain are a round. */
Test(balance, waits_grow_from_one_to_the_next)
{
    htc_balance_options  o = options_of(2, 0);
    htc_balance_request *r;
    htc_balance_answer   answer = HTC_BALANCE_ANSWER_INIT;
    htc_balance_action   a;
    htc_balance_progress p;
    htc_rng              rng = { 5 };
    htc_ns               now = 0;
    o.policy = policy_called("random");
    o.tries = 10;
    o.wait_ns = 1000;
    o.wait_ns_max = 100000;
    htc_balance *b = open_balance(&o);
    cr_assert(eq(int, htc_balance_begin(b, 1000, &r), HTC_OK));
    for (uint32_t round = 0; round < 9; round++) {
        uint32_t pauses = 0, takes = 0;
        for (;;) {
            cr_assert(eq(int, htc_balance_step(r, now, &rng, &answer, &a), HTC_OK));
            cr_assert(htc_balance_progress_of(r, &p) == HTC_OK);
            if (a.kind == HTC_BALANCE_TAKE) {
                /* In the second round something is there once, after four waits. */
                int there = round == 1 && pauses == 4 && takes++ == 0;
                answer = (htc_balance_answer){ (uint32_t)there, 0 };
                pauses = there ? 0 : pauses;
            } else if (a.kind == HTC_BALANCE_WAIT) {
                uint32_t nth = p.fruitless == 10 || p.rounds > round ? round : pauses++;
                htc_ns   full = nth < 7 ? o.wait_ns << nth : o.wait_ns_max, wait = a.until - now;
                cr_expect(wait <= full && wait >= full - full / 2, "round %u, wait %u: %u of %u", round, nth,
                          (unsigned)wait, (unsigned)full);
                now = a.until;
                if (p.rounds > round)
                    break;
            } else
                cr_assert(a.kind == HTC_BALANCE_RELEASE && round == 1);
        }
        cr_expect(eq(u32, pauses, 9), "each of ten tries but the last");
    }
    htc_balance_end(r);
    htc_balance_destroy(b);
}

/* What cannot be read is tried by nobody until it is known again. */
Test(balance, a_partition_that_cannot_be_read_is_not_tried)
{
    const uint32_t       census[] = { 8, 9 };
    htc_balance_options  o = options_of(2, HTC_BALANCE_NONE);
    htc_balance         *b = open_balance(&o);
    htc_balance_request *r;
    htc_balance_action   a;
    htc_balance_answer   answer = HTC_BALANCE_ANSWER_INIT;
    htc_rng              rng = { 1 };
    give_census(b, census, 2);
    cr_assert(eq(int, htc_balance_learn(b, 0, HTC_BALANCE_UNKNOWN), HTC_OK));
    cr_assert(eq(int, htc_balance_begin(b, 20, &r), HTC_OK));
    cr_assert(eq(int, htc_balance_step(r, 0, &rng, NULL, &a), HTC_OK));
    cr_expect(a.kind == HTC_BALANCE_TAKE && a.partition == 1);
    answer.taken = 9; /* nor is this one any more: the answer does not say what is left */
    cr_assert(eq(int, htc_balance_step(r, 0, &rng, &answer, &a), HTC_OK));
    cr_expect(eq(u32, a.kind, HTC_BALANCE_RELEASE), "nine nodes are held, and nobody is known to have another one");
    cr_assert(eq(int, htc_balance_step(r, 0, &rng, NULL, &a), HTC_OK));
    cr_expect(eq(u32, a.kind, HTC_BALANCE_WAIT));
    cr_assert(eq(int, htc_balance_learn(b, 0, 4), HTC_OK));
    cr_assert(eq(int, htc_balance_step(r, a.until, &rng, NULL, &a), HTC_OK));
    cr_expect(a.kind == HTC_BALANCE_TAKE && a.partition == 0 && a.nodes == 20);
    htc_balance_end(r);
    htc_balance_destroy(b);
}

/* Waits that would end after all time end at the last moment there is. */
Test(balance, time_does_not_turn_round)
{
    const uint8_t        nobody[] = { 1, 0 };
    htc_balance_options  o = options_of(1, HTC_BALANCE_NONE);
    htc_balance         *b = open_balance(&o);
    htc_balance_request *r;
    htc_balance_monitor *m;
    htc_balance_action   a;
    htc_balance_answer   answer = { 0, 0 };
    htc_rng              rng = { 1 };
    htc_ns               last = HTC_NEVER - 1;
    cr_assert(eq(int, htc_balance_pull(b, last, &rng, (htc_bytes){ nobody, sizeof nobody }), HTC_OK));
    cr_expect(eq(u64, htc_balance_pull_due(b), last));
    cr_assert(eq(int, htc_balance_begin(b, 1, &r), HTC_OK));
    cr_assert(eq(int, htc_balance_step(r, last - 5, &rng, NULL, &a), HTC_OK));
    cr_expect(a.kind == HTC_BALANCE_WAIT && a.until == last);
    cr_assert(eq(int, htc_balance_monitor_create(NULL, 1, 50, &m), HTC_OK));
    for (int i = 0; i < 3; i++)
        cr_assert(eq(int, htc_balance_monitor_step(m, last - 5, &answer, &a), HTC_OK));
    cr_expect(a.kind == HTC_BALANCE_WAIT && a.until == last);
    htc_balance_monitor_destroy(m);
    htc_balance_end(r);
    htc_balance_destroy(b);
}

/* ---- Census and monitor ---- */

Test(balance, the_monitor_looks_at_each_publishes_and_waits)
{
    htc_balance_monitor *m;
    htc_balance_action   a = { .kind = 0 };
    htc_balance_answer   answer = HTC_BALANCE_ANSWER_INIT;
    cr_assert(eq(int, htc_balance_monitor_create(NULL, 3, 50, &m), HTC_OK));
    const uint32_t free[] = { 7, HTC_BALANCE_UNKNOWN, 300 };
    const uint8_t  census[] = { 1, 3, 8, 0, 0xad, 2 };
    for (htc_ns now = 100; now <= 300; now += 100) {
        for (uint32_t p = 0; p < 3; p++) {
            cr_assert(eq(int, htc_balance_monitor_step(m, now, &answer, &a), HTC_OK));
            cr_expect(a.kind == HTC_BALANCE_LOOK && a.partition == p);
            cr_expect(eq(int, htc_balance_monitor_step(m, now, NULL, &a), HTC_EINVAL), "a look has an answer");
            answer.free = free[p];
        }
        cr_assert(eq(int, htc_balance_monitor_step(m, now, &answer, &a), HTC_OK));
        cr_expect(a.kind == HTC_BALANCE_PUBLISH && htc_bytes_equal(a.body, (htc_bytes){ census, sizeof census }));
        cr_assert(eq(int, htc_balance_monitor_step(m, now + 10, NULL, &a), HTC_OK));
        cr_expect(a.kind == HTC_BALANCE_WAIT && a.until == now + 60);
        cr_assert(eq(int, htc_balance_monitor_step(m, now + 59, NULL, &a), HTC_OK));
        cr_expect(a.kind == HTC_BALANCE_WAIT && a.until == now + 60);
    }
    htc_balance_monitor_destroy(m);
}

Test(balance, a_census_may_come_from_anybody)
{
    static const struct {
        const char *what;
        htc_status  status;
        size_t      len;
        uint8_t     bytes[8];
    } table[] = {
        { "three", HTC_OK, 5, { 1, 3, 1, 2, 3 } },
        { "fewer: the others are unknown", HTC_OK, 3, { 1, 1, 6 } },
        { "more: not looked at", HTC_OK, 6, { 1, 4, 1, 2, 3, 4 } },
        { "none", HTC_OK, 2, { 1, 0 } },
        { "nothing", HTC_ECORRUPT, 0, { 0 } },
        { "cut off", HTC_ECORRUPT, 4, { 1, 3, 1, 2 } },
        { "a byte too many", HTC_ECORRUPT, 6, { 1, 3, 1, 2, 3, 4 } },
        { "too large a count", HTC_ECORRUPT, 5, { 1, 1, 0x82, 0x80, 0x40 } },
        { "the largest count", HTC_OK, 5, { 1, 1, 0x81, 0x80, 0x40 } },
        { "no format", HTC_ECORRUPT, 2, { 0, 0 } },
        { "a later format", HTC_EVERSION, 2, { 2, 0 } },
    };
    htc_balance_options o = options_of(3, 0);
    htc_rng             rng = { 1 };
    for (size_t i = 0; i < sizeof table / sizeof *table; i++) {
        htc_balance *b = open_balance(&o);
        cr_expect(eq(u64, htc_balance_pull_due(b), 0), "at once");
        htc_status status = htc_balance_pull(b, 5, &rng, (htc_bytes){ table[i].bytes, table[i].len });
        cr_expect(eq(int, status, table[i].status), "%s", table[i].what);
        cr_expect(eq(u64, htc_balance_pull_due(b), status == HTC_OK ? 5 + 100 * HTC_MS : 0), "%s", table[i].what);
        htc_balance_destroy(b);
    }
}

/* ---- Policies of one's own ---- */

static htc_status next_pick(void *state, const htc_balance_view *view, htc_rng *rng, uint32_t *partition)
{
    (void)rng;
    if (state)
        ++*(int *)state;
    *partition = view->fruitless + 1;
    return view->fruitless == 7 ? HTC_EBUSY : HTC_OK;
}

Test(balance, a_policy_of_ones_own_is_found_by_name)
{
    int                      picks = 0;
    const htc_balance_policy in_turn = {
        .size = sizeof in_turn, .name = "in-turn", .ctx = &picks, .tries = 9, .pick = next_pick
    };
    const htc_balance_policy *found = NULL;
    htc_balance_policy        bad = in_turn;
    htc_registry             *registry;
    htc_balance_request      *r;
    htc_balance_action        a;
    htc_balance_answer        answer = { 0, 0 };
    htc_rng                   rng = { 1 };
    cr_assert(htc_registry_create(NULL, &registry) == HTC_OK && htc_registry_add_builtin(registry) == HTC_OK);
    cr_expect(eq(str, (char *)htc_registry_name(registry, HTC_REGISTRY_BALANCE, 0), "monitored"));
    cr_expect(eq(str, (char *)htc_registry_name(registry, HTC_REGISTRY_BALANCE, 1), "random"));
    cr_assert(eq(int, htc_balance_register(registry, &in_turn), HTC_OK));
    cr_expect(eq(int, htc_balance_register(registry, &in_turn), HTC_EEXISTS));
    bad.name = NULL;
    cr_expect(eq(int, htc_balance_register(registry, &bad), HTC_EINVAL));
    bad = in_turn;
    bad.pick = NULL;
    cr_expect(eq(int, htc_balance_register(registry, &bad), HTC_EINVAL));
    bad = in_turn;
    bad.tries = 0;
    cr_expect(eq(int, htc_balance_register(registry, &bad), HTC_EINVAL));
    bad = in_turn;
    bad.size = 8;
    cr_expect(eq(int, htc_balance_register(registry, &bad), HTC_EINVAL));
    cr_expect(eq(int, htc_balance_register(registry, NULL), HTC_EINVAL));
    cr_expect(eq(int, htc_balance_find(registry, "other", &found), HTC_ENOTFOUND));
    cr_expect(eq(int, htc_balance_find(registry, "in-turn", NULL), HTC_EINVAL));
    cr_assert(eq(int, htc_balance_find(registry, "in-turn", &found), HTC_OK));
    htc_balance_options o = options_of(6, HTC_BALANCE_NONE);
    o.policy = found;
    htc_balance *b = open_balance(&o);
    cr_expect(eq(u64, htc_balance_pull_due(b), HTC_NEVER));
    cr_expect(eq(int, htc_balance_pull(b, 0, &rng, htc_bytes_of("\1")), HTC_EUNSUPPORTED));
    cr_assert(eq(int, htc_balance_begin(b, 1, &r), HTC_OK));
    for (uint32_t p = 1; p < 6; p++) {
        cr_assert(eq(int, htc_balance_step(r, 0, &rng, &answer, &a), HTC_OK));
        cr_expect(a.kind == HTC_BALANCE_TAKE && a.partition == p);
    }
    cr_expect(eq(int, htc_balance_step(r, 0, &rng, &answer, &a), HTC_EINVAL), "there is no partition 6");
    cr_expect(eq(int, htc_balance_step(r, 0, &rng, &answer, &a), HTC_EINVAL), "nor later");
    cr_expect(eq(int, picks, 7), "without open ctx is the state");
    htc_balance_end(r);
    htc_balance_destroy(b);
    htc_registry_destroy(registry);
}

/* What the latest pick was told. */
static htc_status noting_pick(void *state, const htc_balance_view *view, htc_rng *rng, uint32_t *partition)
{
    *(htc_balance_view *)state = *view;
    *partition = 3 + (uint32_t)htc_rng_below(rng, 2);
    return HTC_OK;
}

static htc_balance_view noted;

static htc_status open_notes(void *ctx, const htc_env *env, const htc_balance_options *options, void **state)
{
    (void)ctx;
    (void)env;
    noted.tries = options->tries; /* the options are complete: the policy's own number of tries among them */
    *state = &noted;
    return HTC_OK;
}

static void close_notes(void *state)
{
    ((htc_balance_view *)state)->partitions = 0;
}

Test(balance, a_policy_is_told_how_far_the_request_has_come)
{
    const htc_balance_policy p = {
        .size = sizeof p, .name = "notes", .tries = 7, .open = open_notes, .close = close_notes, .pick = noting_pick
    };
    htc_balance_options  o = options_of(6, 2);
    htc_balance_request *r;
    htc_balance_action   a;
    htc_balance_answer   answer = { 4, 0 };
    htc_rng              rng = { 1 };
    o.policy = &p;
    htc_balance *b = open_balance(&o);
    cr_expect(eq(u32, noted.tries, 7));
    cr_assert(eq(int, htc_balance_begin(b, 10, &r), HTC_OK));
    cr_assert(htc_balance_step(r, 0, &rng, NULL, &a) == HTC_OK && a.kind == HTC_BALANCE_TAKE && a.partition == 2);
    cr_assert(htc_balance_step(r, 0, &rng, &answer, &a) == HTC_OK && a.kind == HTC_BALANCE_TAKE && a.nodes == 6);
    cr_expect(noted.missing == 6 && noted.taken == 4 && noted.partitions == 6 && noted.own == 2);
    cr_expect(noted.fruitless == 0 && noted.tries == 7);
    answer.taken = 0;
    cr_assert(htc_balance_step(r, 0, &rng, &answer, &a) == HTC_OK && a.kind == HTC_BALANCE_TAKE);
    cr_expect(noted.missing == 6 && noted.taken == 4 && noted.fruitless == 1);
    htc_balance_end(r);
    htc_balance_destroy(b);
    cr_expect(eq(u32, noted.partitions, 0), "closed");
}

static htc_status open_nothing(void *ctx, const htc_env *env, const htc_balance_options *options, void **state)
{
    (void)ctx, (void)env, (void)options;
    *state = NULL;
    return HTC_OK;
}

Test(balance, refuses_wrong_use)
{
    htc_balance_options  o = options_of(4, 0), bad;
    htc_balance         *b = open_balance(&o), *other = NULL;
    htc_balance_request *r, *none = NULL;
    htc_balance_tree    *t = NULL;
    htc_balance_monitor *m = NULL;
    htc_balance_action   a;
    htc_balance_answer   answer = HTC_BALANCE_ANSWER_INIT;
    htc_balance_progress p;
    htc_rng              rng = { 1 };
    uint32_t             n, twice[] = { 1, 1 }, outside[] = { 4 };
#define BAD(...)                                                                                                       \
    bad = o;                                                                                                           \
    __VA_ARGS__;                                                                                                       \
    cr_expect(eq(int, htc_balance_create(NULL, &bad, &other), HTC_EINVAL), #__VA_ARGS__)
    BAD(bad.size = 0);
    BAD(bad.partitions = 0);
    BAD(bad.partitions = HTC_BALANCE_PARTITIONS_MAX + 1);
    BAD(bad.own = 4);
    BAD(bad.near_count = 1);
    BAD(bad.near = twice; bad.near_count = 2);
    BAD(bad.near = outside; bad.near_count = 1);
    BAD(bad.near = twice; bad.near_count = UINT32_MAX);
    BAD(bad.wait_ns = 10; bad.wait_ns_max = 9);
    /* A policy that was never registered is looked at as closely: without a pick, without a try, opened for ever. */
    const htc_balance_policy good = { .size = sizeof good, .name = "good", .tries = 1, .pick = next_pick };
    htc_balance_policy       blind = good, idle = good, leaking = good;
    blind.pick = NULL;
    idle.tries = 0;
    leaking.open = open_nothing;
    BAD(bad.policy = &blind);
    BAD(bad.policy = &idle);
    BAD(bad.policy = &leaking);
    struct {
        htc_balance_options options;
        uint64_t            newer;
    } later = { o, 1 };
    later.options.size = sizeof later;
    cr_expect(eq(int, htc_balance_create(NULL, &later.options, &other), HTC_EABI));
    cr_expect(eq(int, htc_balance_create(NULL, NULL, &other), HTC_EINVAL));
    cr_expect(eq(int, htc_balance_create(NULL, &o, NULL), HTC_EINVAL));
    cr_expect(other == NULL);
    cr_expect(eq(int, htc_balance_begin(b, 0, &none), HTC_EINVAL));
    cr_expect(eq(int, htc_balance_begin(b, UINT64_MAX, &none), HTC_EINVAL));
    cr_expect(eq(int, htc_balance_begin(NULL, 1, &none), HTC_EINVAL));
    cr_expect(eq(int, htc_balance_begin(b, 1, NULL), HTC_EINVAL));
    cr_assert(eq(int, htc_balance_begin(b, 5, &r), HTC_OK));
    cr_expect(eq(int, htc_balance_step(NULL, 0, &rng, &answer, &a), HTC_EINVAL));
    cr_expect(eq(int, htc_balance_step(r, 0, NULL, &answer, &a), HTC_EINVAL));
    cr_expect(eq(int, htc_balance_step(r, 0, &rng, &answer, NULL), HTC_EINVAL));
    cr_assert(eq(int, htc_balance_step(r, 0, &rng, NULL, &a), HTC_OK));
    cr_expect(eq(int, htc_balance_step(r, 0, &rng, NULL, &a), HTC_EINVAL), "a taking has an answer");
    answer.taken = 6;
    cr_expect(eq(int, htc_balance_step(r, 0, &rng, &answer, &a), HTC_EINVAL), "more than was asked for");
    answer = (htc_balance_answer){ 0, HTC_BALANCE_FREE_MAX + 1 };
    cr_expect(eq(int, htc_balance_step(r, 0, &rng, &answer, &a), HTC_EINVAL));
    answer = (htc_balance_answer){ 5, 0 };
    cr_assert(eq(int, htc_balance_step(r, HTC_NEVER, &rng, &answer, &a), HTC_OK));
    cr_expect(eq(u32, a.kind, HTC_BALANCE_DONE));
    cr_expect(eq(int, htc_balance_progress_of(r, NULL), HTC_EINVAL));
    cr_expect(eq(int, htc_balance_progress_of(NULL, &p), HTC_EINVAL));
    cr_expect(eq(int, htc_balance_learn(b, 4, 1), HTC_EINVAL));
    cr_expect(eq(int, htc_balance_learn(b, 1, HTC_BALANCE_FREE_MAX + 1), HTC_EINVAL));
    cr_expect(eq(int, htc_balance_learn(NULL, 1, 1), HTC_EINVAL));
    cr_expect(eq(int, htc_balance_pull(b, 0, NULL, htc_bytes_of("")), HTC_EINVAL));
    cr_expect(eq(int, htc_balance_pull(b, 0, &rng, (htc_bytes){ NULL, 3 }), HTC_EINVAL));
    cr_expect(eq(u64, htc_balance_pull_due(NULL), HTC_NEVER));
    cr_expect(eq(int, htc_balance_tree_create(NULL, 0, &t), HTC_EINVAL));
    cr_expect(eq(int, htc_balance_tree_create(NULL, HTC_BALANCE_PARTITIONS_MAX + 1, &t), HTC_EINVAL));
    cr_expect(eq(int, htc_balance_tree_create(NULL, 1, NULL), HTC_EINVAL));
    cr_assert(eq(int, htc_balance_tree_create(NULL, 2, &t), HTC_OK));
    cr_expect(eq(int, htc_balance_tree_set(t, 2, 1), HTC_EINVAL));
    cr_expect(eq(int, htc_balance_tree_set(t, 1, HTC_BALANCE_FREE_MAX + 1), HTC_EINVAL));
    cr_expect(eq(int, htc_balance_tree_set(NULL, 1, 1), HTC_EINVAL));
    cr_expect(eq(int, htc_balance_tree_remove(t, 2), HTC_EINVAL));
    cr_expect(eq(int, htc_balance_tree_remove(t, 1), HTC_ENOTFOUND));
    cr_expect(eq(int, htc_balance_tree_best(t, 0, &n, NULL), HTC_EINVAL));
    cr_expect(eq(int, htc_balance_tree_best(t, 1, NULL, NULL), HTC_EINVAL));
    cr_expect(eq(int, htc_balance_tree_get(t, 2, &n), HTC_EINVAL));
    cr_expect(eq(u32, htc_balance_tree_count(NULL), 0));
    cr_expect(eq(int, htc_balance_monitor_create(NULL, 0, 0, &m), HTC_EINVAL));
    cr_expect(eq(int, htc_balance_monitor_create(NULL, 1, 0, NULL), HTC_EINVAL));
    cr_assert(eq(int, htc_balance_monitor_create(NULL, 1, 0, &m), HTC_OK));
    cr_expect(eq(int, htc_balance_monitor_step(m, 0, NULL, NULL), HTC_EINVAL));
    cr_assert(eq(int, htc_balance_monitor_step(m, 0, NULL, &a), HTC_OK));
    answer.free = HTC_BALANCE_FREE_MAX + 1;
    cr_expect(eq(int, htc_balance_monitor_step(m, 0, &answer, &a), HTC_EINVAL));
    htc_balance_options_init(NULL, 8);
    htc_balance_options_init(&bad, sizeof bad);
    cr_expect(bad.size == sizeof bad && bad.partitions == 0);
    htc_balance_tree_clear(NULL);
    htc_balance_tree_destroy(t);
    htc_balance_tree_destroy(NULL);
    htc_balance_monitor_destroy(m);
    htc_balance_monitor_destroy(NULL);
    htc_balance_end(r);
    htc_balance_end(NULL);
    htc_balance_destroy(b);
    htc_balance_destroy(NULL);
}

/* ---- Short memory ---- */

static void live_once(alloc_fail *f, const htc_env *env, const char *policy)
{
    const uint32_t       near[] = { 2 };
    const uint8_t        small[] = { 1, 3, 5, 5, 5 }, large[] = { 1, 3, 2, 0x81, 0x80, 0x40, 3 };
    htc_balance_options  o = options_of(3, 0);
    htc_balance         *b = NULL;
    htc_balance_request *r = NULL;
    htc_balance_monitor *m = NULL;
    htc_balance_action   a = { .kind = 0 };
    htc_balance_answer   answer = HTC_BALANCE_ANSWER_INIT;
    htc_rng              rng = { 1 };
    o.policy = policy_called(policy);
    o.near = near;
    o.near_count = 1;
    htc_status status = htc_balance_monitor_create(env, 100, 0, &m);
    while (m && a.kind != HTC_BALANCE_PUBLISH)
        cr_assert(eq(int, htc_balance_monitor_step(m, 0, &answer, &a), HTC_OK), "steps need no memory");
    if (status == HTC_OK)
        status = htc_balance_create(env, &o, &b);
    if (status == HTC_OK && policy[0] == 'm')
        status = htc_balance_pull(b, 0, &rng, (htc_bytes){ small, sizeof small });
    if (status == HTC_OK) {
        status = htc_balance_begin(b, 9, &r);
        if (status == HTC_OK && policy[0] == 'm')
            status = htc_balance_pull(b, 0, &rng, (htc_bytes){ large, sizeof large });
    }
    if (r) {
        /* Goes on with what it knew, if the second census did not fit. */
        cr_assert(eq(int, htc_balance_step(r, 0, &rng, NULL, &a), HTC_OK));
        answer = (htc_balance_answer){ 2, 0 };
        cr_assert(eq(int, htc_balance_step(r, 0, &rng, &answer, &a), HTC_OK));
        cr_expect(a.kind == HTC_BALANCE_TAKE && a.partition == 2 && a.nodes == 7);
        htc_balance_learn(b, 1, HTC_BALANCE_FREE_MAX);
    }
    cr_expect(f->refused ? status == HTC_ENOMEM || r != NULL : status == HTC_OK);
    htc_balance_end(r);
    htc_balance_destroy(b);
    htc_balance_monitor_destroy(m);
    cr_expect(eq(sz, f->live, 0));
    cr_expect(eq(sz, f->wrong_sizes, 0));
}

Test(balance, stays_as_it_was_without_memory)
{
    const char *policies[] = { "monitored", "random" };
    for (int i = 0; i < 2; i++) {
        ALLOC_FAIL_EVERY(f, 200)
        {
            htc_env env = alloc_fail_env(&f);
            live_once(&f, &env, policies[i]);
        }
        ALLOC_FAIL_ONCE(f, 200)
        {
            htc_env env = alloc_fail_env(&f);
            live_once(&f, &env, policies[i]);
        }
    }
}

/* Whichever of the two trees would have to grow for it, the near partitions' or that of the distant ones. */
Test(balance, a_census_that_there_is_no_memory_for_is_refused)
{
    const uint32_t near[] = { 1 };
    const uint8_t  small[] = { 1, 3, 5, 5, 5 }, large[] = { 1, 3, 2, 0x81, 0x80, 0x40, 3 };
    for (uint32_t near_count = 0; near_count <= 1; near_count++) {
        alloc_fail          f = alloc_fail_at(0);
        htc_env             env = alloc_fail_env(&f);
        htc_balance_options o = options_of(3, 0);
        htc_balance        *b = NULL;
        htc_rng             rng = { 1 };
        o.policy = policy_called("monitored");
        o.near = near;
        o.near_count = near_count;
        cr_assert(eq(int, htc_balance_create(&env, &o, &b), HTC_OK));
        cr_assert(eq(int, htc_balance_pull(b, 0, &rng, (htc_bytes){ small, sizeof small }), HTC_OK));
        f.once = 1;
        for (size_t nth = 1, refused = 0; nth < 20; nth++, refused = f.refused) {
            f.fail_at = f.calls + nth;
            htc_status status = htc_balance_pull(b, 0, &rng, (htc_bytes){ large, sizeof large });
            cr_expect(eq(int, status, f.refused > refused ? HTC_ENOMEM : HTC_OK), "allocation %zu", nth);
        }
        cr_expect(f.refused > 1);
        htc_balance_destroy(b);
        cr_expect(f.live == 0 && f.wrong_sizes == 0);
    }
}

static void grow_a_tree(alloc_fail *f)
{
    htc_env           env = alloc_fail_env(f);
    htc_balance_tree *t = NULL;
    uint32_t          p, free, last = 0;
    if (htc_balance_tree_create(&env, 3, &t) == HTC_OK) {
        cr_assert(eq(int, htc_balance_tree_set(t, 2, 60), HTC_OK), "counts up to 63 have room from the start");
        for (uint32_t n = 1; n <= HTC_BALANCE_FREE_MAX; n *= 4) {
            size_t     refused = f->refused;
            htc_status status = htc_balance_tree_set(t, 1, n);
            cr_expect(eq(int, status, f->refused > refused ? HTC_ENOMEM : HTC_OK));
            last = status == HTC_OK ? n : last;
            cr_assert(eq(int, htc_balance_tree_get(t, 1, &free), HTC_OK));
            cr_expect(eq(u32, free, last));
            cr_assert(eq(int, htc_balance_tree_best(t, UINT64_MAX, &p, &free), HTC_OK));
            cr_expect(last > 60 ? p == 1 && free == last : p == 2 && free == 60);
        }
        cr_expect(last == HTC_BALANCE_FREE_MAX || f->refused);
    } else
        cr_expect(t == NULL && f->refused > 0);
    htc_balance_tree_destroy(t);
    cr_expect(eq(sz, f->live, 0));
    cr_expect(eq(sz, f->wrong_sizes, 0));
}

Test(balance, the_tree_stays_as_it_was_without_memory)
{
    ALLOC_FAIL_EVERY(f, 100)
    grow_a_tree(&f);
    ALLOC_FAIL_ONCE(f, 100)
    grow_a_tree(&f);
}
