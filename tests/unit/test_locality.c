/* Where ready tasks wait: Algorithm 3 against long multiplication, the policies against a list of all that happened. */
#include "expect.h"
#include <string.h>

#include "alloc_fail.h"
#include "htcsched/locality.h"
#include "property.h"

#define MB   UINT64_C(1000000)
#define GBPS UINT64_C(125000000) /* 1 Gb/s in bytes */
#define ME   7u
#define PEER 9u

/* ---- Algorithm 3 ---- */

/* One row each way through the algorithm, t = 1/2 on 1 Gb/s: a task of 1 s takes 62.5 MB along and no byte more. */
Test(locality, places_as_algorithm_3_says)
{
    const struct {
        const char        *what;
        htc_locality_input in[2];
        size_t             n;
        htc_ns             est;
        uint32_t           queue, worker;
        uint64_t           fetch;
    } rows[] = {
        { "no input", { { 0, 0 } }, 0, HTC_SECOND, HTC_LOCALITY_SHARED, ME, 0 },
        { "as much as may move", { { 62500000, PEER } }, 1, HTC_SECOND, HTC_LOCALITY_SHARED, ME, 62500000 },
        { "a byte more, far", { { 62500001, PEER } }, 1, HTC_SECOND, HTC_LOCALITY_PUSH, PEER, 0 },
        { "a byte more, here", { { 62500001, ME } }, 1, HTC_SECOND, HTC_LOCALITY_LOCAL, ME, 0 },
        { "much, none large", { { 60 * MB, PEER }, { 60 * MB, 3 } }, 2, HTC_SECOND, HTC_LOCALITY_SHARED, ME, 120 * MB },
        { "the largest decides", { { 70 * MB, ME }, { 80 * MB, 3 } }, 2, HTC_SECOND, HTC_LOCALITY_PUSH, 3, 70 * MB },
        { "of equals the own", { { 80 * MB, PEER }, { 80 * MB, ME } }, 2, HTC_SECOND, HTC_LOCALITY_LOCAL, ME, 80 * MB },
        { "of equals the first", { { 80 * MB, 9 }, { 80 * MB, 3 } }, 2, HTC_SECOND, HTC_LOCALITY_PUSH, 9, 80 * MB },
        { "a longer task takes more", { { 80 * MB, PEER } }, 1, 2 * HTC_SECOND, HTC_LOCALITY_SHARED, ME, 80 * MB },
        { "no length, a byte", { { 1, PEER } }, 1, 0, HTC_LOCALITY_PUSH, PEER, 0 },
        { "no length, no byte", { { 0, PEER } }, 1, 0, HTC_LOCALITY_SHARED, ME, 0 },
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        htc_locality_task  task = { rows[i].in, rows[i].n, rows[i].est };
        htc_locality_place got = { 0 };
        cr_assert(eq(int, htc_locality_decide(HTC_LOCALITY_ONE / 2, GBPS, ME, &task, &got), HTC_OK));
        cr_expect(eq(u32, got.queue, rows[i].queue), "%s", rows[i].what);
        cr_expect(eq(u32, got.worker, rows[i].worker), "%s", rows[i].what);
        cr_expect(eq(u64, got.fetch_bytes, rows[i].fetch), "%s", rows[i].what);
    }
}

/* The four policies on the same three tasks: a little data, much of it here, much of it with a peer. */
Test(locality, four_policies_differ_as_their_names_say)
{
    const htc_locality_input little[] = { { 10, PEER } }, here[] = { { 90 * MB, ME } }, far[] = { { 90 * MB, PEER } };
    const htc_locality_task  tasks[] = { { little, 1, HTC_SECOND }, { here, 1, HTC_SECOND }, { far, 1, HTC_SECOND } };
    enum { S = HTC_LOCALITY_SHARED, L = HTC_LOCALITY_LOCAL, P = HTC_LOCALITY_PUSH };
    const struct {
        const char *name;
        uint32_t    queue[3];
        uint64_t    moves; /* of 5000 waiting, 1000 done in 10 s, tt = 30 s */
    } rows[] = { { "mlb", { S, S, S }, 5000 },
                 { "mdl", { P, L, P }, 0 },
                 { "rlds", { S, L, P }, 0 },
                 { "flds", { S, L, P }, 2000 } };
    htc_registry *registry;
    cr_assert(eq(int, htc_registry_create(NULL, &registry), HTC_OK));
    cr_assert(eq(int, htc_registry_add_builtin(registry), HTC_OK));
    for (size_t i = 0; i < 4; i++) {
        htc_locality_options o = HTC_LOCALITY_OPTIONS_INIT;
        htc_locality        *l;
        uint64_t             move = 77;
        o.self = ME;
        o.tt_ns = 30 * HTC_SECOND;
        o.window_ns = 3600 * HTC_SECOND;
        cr_assert(eq(int, htc_locality_find(registry, rows[i].name, &o.policy), HTC_OK));
        cr_assert(eq(int, htc_locality_create(NULL, &o, &l), HTC_OK));
        cr_assert(htc_locality_in_force(l) == o.policy);
        for (size_t t = 0; t < 3; t++) {
            htc_locality_place got;
            cr_assert(eq(int, htc_locality_place_task(l, &tasks[t], &got), HTC_OK));
            cr_expect(eq(u32, got.queue, rows[i].queue[t]), "%s, task %zu", rows[i].name, t);
        }
        cr_assert(eq(int, htc_locality_move(l, 0, 0, &move), HTC_OK));
        for (int t = 0; t < 1000; t++)
            cr_assert(eq(int, htc_locality_finished(l, 5 * HTC_SECOND, 0, 0), HTC_OK));
        cr_assert(eq(int, htc_locality_move(l, 10 * HTC_SECOND, 5000, &move), HTC_OK));
        cr_expect(eq(u64, move, rows[i].moves), "%s", rows[i].name);
        htc_locality_destroy(l);
    }
    htc_registry_destroy(registry);
}

/* a * b * c as six limbs of 32 bits, by hand. */
static void product(uint64_t a, uint64_t b, uint64_t c, uint32_t out[6])
{
    const uint64_t factors[] = { a, b, c };
    memset(out, 0, 6 * sizeof *out);
    out[0] = 1;
    for (size_t f = 0; f < 3; f++) {
        uint32_t was[6];
        memcpy(was, out, sizeof was);
        memset(out, 0, 6 * sizeof *out);
        for (size_t half = 0; half < 2; half++) {
            uint64_t digit = (uint32_t)(factors[f] >> (32 * half)), carry = 0;
            for (size_t i = 0; i + half < 6; i++) {
                uint64_t sum = was[i] * digit + out[i + half] + carry;
                out[i + half] = (uint32_t)sum;
                carry = sum >> 32;
            }
        }
    }
}

/* bytes / band / est <= t, multiplied out: bytes * 10^15 <= t * band * est. */
static int model_fits(uint64_t bytes, uint64_t band, htc_ns est, uint64_t t)
{
    uint32_t left[6], right[6];
    product(bytes, UINT64_C(1000000000), HTC_LOCALITY_ONE, left);
    product(t, band, est, right);
    for (int i = 5; i >= 0; i--)
        if (left[i] != right[i])
            return left[i] < right[i];
    return 1;
}

static uint64_t any_size(htc_rng *rng)
{
    return htc_rng_next(rng) >> htc_rng_below(rng, 64);
}

Test(locality, decides_exactly)
{
    PROPERTY(rng, 20000)
    {
        htc_locality_input in[6];
        size_t             n = htc_rng_below(&rng, 7), p = 0;
        uint64_t           all = 0, at[4] = { 0 };
        uint64_t           t = any_size(&rng), band = any_size(&rng) | 1;
        htc_locality_task  task = { in, n, any_size(&rng) };
        htc_locality_place got = { 99, 99, 99 };
        for (size_t i = 0; i < n; i++)
            in[i] = (htc_locality_input){ any_size(&rng) / 8 >> (htc_rng_below(&rng, 2) * 60),
                                          (uint32_t)htc_rng_below(&rng, 4) };
        /* On the edge: est such that the sum just fits, or just does not. */
        for (size_t i = 0; i < n; i++)
            all += in[i].bytes, at[in[i].worker] += in[i].bytes;
        if (htc_rng_below(&rng, 2)) {
            t = HTC_LOCALITY_ONE << htc_rng_below(&rng, 3);
            band = UINT64_C(1000000000) >> htc_rng_below(&rng, 3);
            task.est_ns = all + htc_rng_below(&rng, 3) - 1;
        }
        HOLDS(htc_locality_decide(t, band, 1, &task, &got) == HTC_OK);
        for (size_t i = 1; i < n; i++)
            if (in[i].bytes > in[p].bytes || (in[i].bytes == in[p].bytes && in[i].worker == 1 && in[p].worker != 1))
                p = i;
        uint32_t queue = HTC_LOCALITY_SHARED, worker = 1;
        if (!model_fits(all, band, task.est_ns, t) && !model_fits(in[p].bytes, band, task.est_ns, t) &&
            t != HTC_LOCALITY_ALWAYS) {
            worker = in[p].worker;
            queue = worker == 1 ? HTC_LOCALITY_LOCAL : HTC_LOCALITY_PUSH;
        }
        HOLDS(got.queue == queue && got.worker == worker && got.fetch_bytes == all - at[worker]);
    }
}

Test(locality, refuses_wrong_use_of_the_equations)
{
    htc_locality_input       in[2] = { { UINT64_MAX, 0 }, { 0, 1 } };
    htc_locality_task        task = { in, 2, 1 };
    htc_locality_place       out = { 99, 99, 99 };
    const htc_locality_place was = out;
    cr_expect(eq(int, htc_locality_decide(0, 1, 0, &task, &out), HTC_OK), "2^64 - 1 bytes are allowed");
    out = was;
    in[1].bytes = 1;
    cr_expect(eq(int, htc_locality_decide(0, 1, 0, &task, &out), HTC_EINVAL), "2^64 are not");
    in[0].bytes = 1;
    cr_expect(eq(int, htc_locality_decide(0, 0, 0, &task, &out), HTC_EINVAL));
    cr_expect(eq(int, htc_locality_decide(0, 1, 0, NULL, &out), HTC_EINVAL));
    cr_expect(eq(int, htc_locality_decide(0, 1, 0, &task, NULL), HTC_EINVAL));
    task.inputs_n = HTC_LOCALITY_INPUTS_MAX + 1;
    cr_expect(eq(int, htc_locality_decide(0, 1, 0, &task, &out), HTC_EINVAL));
    task.inputs_n = 1;
    task.inputs = NULL;
    cr_expect(eq(int, htc_locality_decide(0, 1, 0, &task, &out), HTC_EINVAL));
    cr_expect(out.queue == 99 && out.worker == 99 && out.fetch_bytes == 99, "untouched");
    cr_expect(htc_locality_builtin(4) == NULL);
    cr_expect(htc_locality_builtin(UINT32_MAX) == NULL);
}

/* ---- the moving rule ---- */

Test(locality, moves_what_cannot_be_done_in_time)
{
    const struct {
        uint64_t waiting, done;
        htc_ns   in, tt;
        uint64_t excess;
    } rows[] = {
        { 5000, 1000, 10 * HTC_SECOND, 30 * HTC_SECOND, 2000 }, /* the example of the paper */
        { 3000, 1000, 10 * HTC_SECOND, 30 * HTC_SECOND, 0 },    /* exactly in time */
        { 3001, 1000, 10 * HTC_SECOND, 30 * HTC_SECOND, 1 },
        { 10, 1, 3 * HTC_SECOND, 10 * HTC_SECOND, 7 }, /* three are done in 9 s, a fourth not in 10 */
        { 10, 0, 3 * HTC_SECOND, 10 * HTC_SECOND, 7 }, /* nothing done: one is just about to be */
        { 10, 0, 0, 0, 0 },                            /* nothing is known */
        { 10, 5, HTC_SECOND, HTC_NEVER, 0 },
        { 10, 5, HTC_SECOND, 0, 10 },
        { UINT64_MAX, UINT64_MAX, UINT64_MAX, UINT64_MAX - 1, 1 },
        { UINT64_MAX, 1, 1, 1, UINT64_MAX - 1 },
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        cr_expect(eq(u64, htc_locality_excess(rows[i].waiting, rows[i].done, rows[i].in, rows[i].tt), rows[i].excess),
                  "row %zu", i);
}

/* What stays is the most that can be done in tt, one after the other. */
Test(locality, excess_agrees_with_counting)
{
    PROPERTY(rng, 5000)
    {
        uint64_t waiting = htc_rng_below(&rng, 200), done = htc_rng_below(&rng, 50), in = htc_rng_below(&rng, 100),
                 tt = htc_rng_below(&rng, 100);
        uint64_t stay = 0;
        while (in > 0 && stay < waiting && (stay + 1) * in <= tt * (done ? done : 1))
            stay++;
        HOLDS(htc_locality_excess(waiting, done, in, tt) == (in ? waiting - stay : 0));
    }
}

/* ---- which policy suits ---- */

Test(locality, advises_by_data_needed_and_moved)
{
    enum { FLDS, RLDS, MDL, MLB };
    const struct {
        uint32_t rule;
        uint64_t needed, moved; /* percent of what the network carries */
        uint32_t expected;
    } rows[] = {
        { FLDS, 50, 10, FLDS }, { FLDS, 50, 50, FLDS }, { FLDS, 90, 81, MDL },  { FLDS, 200, 80, FLDS },
        { FLDS, 1, 1, MLB },    { FLDS, 0, 0, MLB },    { MLB, 2, 2, MLB },     { MLB, 3, 3, FLDS },
        { MLB, 90, 90, MDL },   { MDL, 90, 0, MDL },    { MDL, 80, 0, FLDS },   { MDL, 1, 0, MLB },
        { RLDS, 50, 10, FLDS }, { RLDS, 90, 90, MDL },  { MDL, 200, 199, MDL },
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        htc_locality_traffic t = { rows[i].needed * MB, rows[i].moved * MB, HTC_SECOND };
        cr_expect(eq(u32, htc_locality_advised(rows[i].rule, &t, 100 * MB, 10000, 800000), rows[i].expected), "row %zu",
                  i);
    }
    htc_locality_traffic t = { 90, 90, HTC_SECOND };
    cr_expect(eq(u32, htc_locality_advised(RLDS, NULL, 100, 10000, 800000), RLDS));
    cr_expect(eq(u32, htc_locality_advised(RLDS, &t, 0, 10000, 800000), RLDS));
    cr_expect(eq(u32, htc_locality_advised(RLDS, &t, 100, 800000, 800000), RLDS));
    cr_expect(eq(u32, htc_locality_advised(RLDS, &t, 100, 1, UINT64_MAX), RLDS));
    cr_expect(eq(u32, htc_locality_advised(17, &t, 100, 1, 2), 17));
    t.moved_bytes = 91;
    cr_expect(eq(u32, htc_locality_advised(RLDS, &t, 100, 1, 2), RLDS));
    t = (htc_locality_traffic){ 90, 90, 0 };
    cr_expect(eq(u32, htc_locality_advised(RLDS, &t, 100, 1, 2), RLDS));
}

/* Start with FLDS; much data: MDL; then little: by way of MLB. A policy is left alone for a whole window of 10 s. */
Test(locality, switches_while_it_runs)
{
    htc_locality_options       o = HTC_LOCALITY_OPTIONS_INIT;
    htc_locality              *l;
    const htc_locality_policy *better = NULL;
    o.bytes_per_s = 100 * MB;
    cr_assert(eq(int, htc_locality_create(NULL, &o, &l), HTC_OK));
    cr_expect(htc_locality_in_force(l) == htc_locality_builtin(HTC_LOCALITY_FLDS));
    cr_expect(eq(int, htc_locality_advise(l, 0, &better), HTC_AGAIN), "nothing known");
    cr_assert(eq(int, htc_locality_finished(l, 1 * HTC_SECOND, 900 * MB, 900 * MB), HTC_OK));
    cr_expect(eq(int, htc_locality_advise(l, 9 * HTC_SECOND, &better), HTC_AGAIN), "no whole window");
    cr_assert(eq(int, htc_locality_advise(l, 10 * HTC_SECOND, &better), HTC_OK));
    cr_assert(better == htc_locality_builtin(HTC_LOCALITY_MDL));
    cr_assert(eq(int, htc_locality_switch(l, better), HTC_OK));
    cr_expect(eq(int, htc_locality_advise(l, 10 * HTC_SECOND, &better), HTC_AGAIN), "just switched");
    cr_assert(eq(int, htc_locality_finished(l, 19 * HTC_SECOND, 900 * MB, 0), HTC_OK));
    cr_expect(eq(int, htc_locality_advise(l, 20 * HTC_SECOND, &better), HTC_AGAIN), "MDL keeps the data still needed");
    cr_assert(eq(int, htc_locality_advise(l, 30 * HTC_SECOND, &better), HTC_OK));
    cr_assert(better == htc_locality_builtin(HTC_LOCALITY_MLB), "nothing needed any more");
    cr_assert(eq(int, htc_locality_switch(l, better), HTC_OK));
    cr_expect(htc_locality_in_force(l) == better);
    htc_locality_destroy(l);
}

/* The switch knows no time, and the last call that did may be long ago: the minute in which nobody asked is not the new policy's. It was,
 * and a policy that was put in force after a pause was judged at once, by what had not moved before it. */
Test(locality, a_policy_is_left_alone_after_a_pause_too)
{
    htc_locality_options       o = HTC_LOCALITY_OPTIONS_INIT;
    htc_locality              *l;
    const htc_locality_policy *better = NULL;
    o.bytes_per_s = 100 * MB;
    cr_assert(eq(int, htc_locality_create(NULL, &o, &l), HTC_OK));
    cr_assert(eq(int, htc_locality_finished(l, 0, 0, 0), HTC_OK));
    cr_assert(eq(int, htc_locality_switch(l, htc_locality_builtin(HTC_LOCALITY_MDL)), HTC_OK));
    cr_expect(eq(int, htc_locality_advise(l, 60 * HTC_SECOND, &better), HTC_AGAIN), "just switched");
    cr_expect(eq(int, htc_locality_advise(l, 69 * HTC_SECOND, &better), HTC_AGAIN), "no whole window");
    cr_expect(eq(int, htc_locality_advise(l, 70 * HTC_SECOND, &better), HTC_OK));
    cr_expect(better == htc_locality_builtin(HTC_LOCALITY_MLB), "nothing is needed");
    htc_locality_destroy(l);
}

/* ---- tt ---- */

static htc_locality *worker(uint32_t tt_rule, htc_ns tt)
{
    htc_locality_options o = HTC_LOCALITY_OPTIONS_INIT;
    htc_locality        *l;
    o.tt_rule = tt_rule;
    o.tt_ns = tt;
    cr_assert(eq(int, htc_locality_create(NULL, &o, &l), HTC_OK));
    return l;
}

/* Doubles when tasks move, halves when a steal fails, says so when it gets small (1 s), stays within 10 ms and an hour.
 */
Test(locality, tt_follows_failed_steals)
{
    htc_locality *l = worker(HTC_LOCALITY_TT_STEAL, 3 * HTC_SECOND);
    uint64_t      move;
    cr_expect(eq(int, htc_locality_steal_failed(l), HTC_OK));
    cr_expect(eq(u64, htc_locality_tt(l), 1500 * HTC_MS));
    cr_expect(eq(int, htc_locality_steal_failed(l), HTC_AGAIN));
    cr_expect(eq(u64, htc_locality_tt(l), 750 * HTC_MS));
    cr_expect(eq(int, htc_locality_steal_failed(l), HTC_OK), "said once");
    for (int i = 0; i < 100; i++)
        htc_locality_steal_failed(l);
    cr_expect(eq(u64, htc_locality_tt(l), 10 * HTC_MS));
    cr_assert(eq(int, htc_locality_move(l, 0, 5, &move), HTC_OK));
    cr_expect(eq(u64, move, 0));
    cr_assert(eq(int, htc_locality_move(l, 9 * HTC_SECOND, 5, &move), HTC_OK));
    cr_expect(eq(u64, move, 5), "nothing done for 9 s");
    cr_expect(eq(u64, htc_locality_tt(l), 20 * HTC_MS));
    for (int i = 0; i < 100; i++)
        cr_assert(eq(int, htc_locality_move(l, 9 * HTC_SECOND, UINT64_MAX, &move), HTC_OK));
    cr_expect(eq(u64, htc_locality_tt(l), 3600 * HTC_SECOND));
    cr_assert(eq(int, htc_locality_switch(l, htc_locality_builtin(HTC_LOCALITY_RLDS)), HTC_OK));
    cr_expect(eq(int, htc_locality_steal_failed(l), HTC_OK));
    cr_expect(eq(u64, htc_locality_tt(l), 3600 * HTC_SECOND), "no policy looks at it");
    htc_locality_destroy(l);
}

/* All-pairs: nothing moves until 80 % is done; then tt = 20 s, halved whenever tasks move. */
Test(locality, tt_waits_for_the_tail)
{
    htc_locality *l = worker(HTC_LOCALITY_TT_MOVE, 0);
    uint64_t      move;
    cr_expect(eq(u64, htc_locality_tt(l), HTC_NEVER));
    cr_assert(eq(int, htc_locality_move(l, 0, 100, &move), HTC_OK));
    cr_assert(eq(int, htc_locality_finished(l, HTC_SECOND, 0, 0), HTC_OK));
    cr_assert(eq(int, htc_locality_progress(l, 799, 1000), HTC_OK));
    cr_assert(eq(int, htc_locality_move(l, HTC_SECOND, 100, &move), HTC_OK));
    cr_expect(eq(u64, move, 0));
    cr_assert(eq(int, htc_locality_progress(l, 800, 1000), HTC_OK));
    cr_expect(eq(u64, htc_locality_tt(l), 20 * HTC_SECOND));
    cr_assert(eq(int, htc_locality_move(l, HTC_SECOND, 100, &move), HTC_OK));
    cr_expect(eq(u64, move, 80));
    cr_expect(eq(u64, htc_locality_tt(l), 10 * HTC_SECOND));
    cr_assert(eq(int, htc_locality_progress(l, 800, 2000), HTC_OK));
    cr_assert(eq(int, htc_locality_move(l, HTC_SECOND, 20, &move), HTC_OK));
    cr_expect(eq(u64, move, 10), "a tail does not end");
    cr_expect(eq(u64, htc_locality_tt(l), 5 * HTC_SECOND));
    cr_expect(eq(int, htc_locality_steal_failed(l), HTC_OK));
    cr_expect(eq(u64, htc_locality_tt(l), 5 * HTC_SECOND));
    cr_expect(eq(int, htc_locality_progress(l, 2, 1), HTC_EINVAL));
    cr_expect(eq(int, htc_locality_progress(l, 0, 0), HTC_OK));
    htc_locality_destroy(l);
}

/* A worker that had nothing to do for an hour is not slow. */
Test(locality, an_empty_queue_begins_the_measurement_anew)
{
    htc_locality *l = worker(HTC_LOCALITY_TT_FIXED, 0);
    uint64_t      move;
    cr_assert(eq(int, htc_locality_finished(l, 0, 0, 0), HTC_OK));
    cr_assert(eq(int, htc_locality_move(l, 3600 * HTC_SECOND, 0, &move), HTC_OK));
    cr_assert(eq(int, htc_locality_finished(l, 3601 * HTC_SECOND, 0, 0), HTC_OK));
    cr_assert(eq(int, htc_locality_move(l, 3601 * HTC_SECOND, 12, &move), HTC_OK));
    cr_expect(eq(u64, move, 2), "one a second, ten in tt");
    htc_locality_destroy(l);
}

/* ---- a worker against a list of everything that happened to it ---- */

typedef struct event {
    htc_ns   at;
    uint64_t needed, moved;
} event;

#define EVENTS 120

typedef struct model {
    event    events[EVENTS];
    size_t   n;
    int      fresh;                   /* the worker was not told of a time since it switched */
    htc_ns   done_from, traffic_from; /* measured from here */
    size_t   done_first, traffic_first;
    htc_ns   tt, window;
    uint32_t tt_rule, tail;
    uint32_t rule;
} model;

/* The sums over the window that now is in and the one before, windows counted from began. */
static void model_sums(const model *m, htc_ns began, size_t first, htc_ns now, int whole_only, event *sums, htc_ns *in)
{
    uint64_t number = (now - began) / m->window;
    htc_ns   this_one = began + number * m->window, from = number ? this_one - m->window : began;
    *sums = (event){ 0 };
    for (size_t i = first; i < m->n; i++)
        if (m->events[i].at >= from && (!whole_only || m->events[i].at < this_one)) {
            sums->at++;
            sums->needed += m->events[i].needed;
            sums->moved += m->events[i].moved;
        }
    *in = whole_only ? (number ? m->window : 0) : now - from;
    if (whole_only && !number)
        *sums = (event){ 0 };
}

static uint64_t model_move(model *m, htc_ns now, uint64_t waiting)
{
    event    sums;
    htc_ns   in;
    uint64_t move = 0;
    if (waiting == 0) {
        m->done_from = now;
        m->done_first = m->n;
        return 0;
    }
    model_sums(m, m->done_from, m->done_first, now, 0, &sums, &in);
    if (m->rule == HTC_LOCALITY_MLB)
        return waiting;
    if (m->rule != HTC_LOCALITY_FLDS || (m->tt_rule == HTC_LOCALITY_TT_MOVE && !m->tail))
        return 0;
    move = htc_locality_excess(waiting, sums.at, in, m->tt);
    if (move && m->tt_rule == HTC_LOCALITY_TT_STEAL)
        m->tt = m->tt * 2 > 80 ? 80 : m->tt * 2;
    if (move && m->tt_rule == HTC_LOCALITY_TT_MOVE)
        m->tt = m->tt / 2 < 3 ? 3 : m->tt / 2;
    return move;
}

Test(locality, agrees_with_a_list_of_all_events)
{
    PROPERTY(rng, 3000)
    {
        model m = { .tt = 20, .window = 1 + htc_rng_below(&rng, 30), .tt_rule = (uint32_t)htc_rng_below(&rng, 3) };
        htc_locality_options o = { .size = sizeof o,
                                   .tt_rule = m.tt_rule,
                                   .bytes_per_s = 1000000000,
                                   .tt_ns = 20,
                                   .tt_ns_min = 3,
                                   .tt_ns_max = 80,
                                   .tt_ns_small = 7,
                                   .window_ns = m.window };
        htc_locality        *l;
        htc_ns               now = htc_rng_below(&rng, 1000);
        int                  began = 0;
        HOLDS(htc_locality_create(NULL, &o, &l) == HTC_OK);
        for (int step = 0; step < EVENTS; step++) {
            uint64_t needed = htc_rng_below(&rng, 4), moved = htc_rng_below(&rng, needed + 1),
                     waiting = htc_rng_below(&rng, 9), move;
            uint64_t what = htc_rng_below(&rng, 10);
            now += htc_rng_below(&rng, 3) ? htc_rng_below(&rng, 4) : htc_rng_below(&rng, 40);
            if (!began && (what < 5 || what == 7)) {
                m.done_from = m.traffic_from = now;
                began = 1;
            }
            if ((what < 5 || what == 7) && m.fresh) {
                m.traffic_from = now;
                m.fresh = 0;
            }
            if (what < 3) {
                HOLDS(htc_locality_finished(l, now, needed, moved) == HTC_OK);
                m.events[m.n++] = (event){ now, needed, moved };
            } else if (what < 5) {
                HOLDS(htc_locality_move(l, now, waiting, &move) == HTC_OK);
                HOLDS(move == model_move(&m, now, waiting));
            } else if (what == 5) {
                htc_ns was = m.tt;
                if (m.tt_rule == HTC_LOCALITY_TT_STEAL && m.rule == HTC_LOCALITY_FLDS)
                    m.tt = m.tt / 2 < 3 ? 3 : m.tt / 2;
                HOLDS(htc_locality_steal_failed(l) == (was > 7 && m.tt <= 7 ? HTC_AGAIN : HTC_OK));
            } else if (what == 6) {
                HOLDS(htc_locality_progress(l, needed * 300, 1000) == HTC_OK);
                m.tail |= needed * 300 >= 800;
            } else if (what == 7) {
                const htc_locality_policy *better = NULL;
                htc_locality_traffic       t;
                event                      sums;
                model_sums(&m, m.traffic_from, m.traffic_first, now, 1, &sums, &t.in_ns);
                t.needed_bytes = sums.needed;
                t.moved_bytes = sums.moved;
                uint32_t rule = htc_locality_advised(m.rule, &t, 1000000000, 10000, 800000);
                HOLDS(htc_locality_advise(l, now, &better) == (rule == m.rule ? HTC_AGAIN : HTC_OK));
                HOLDS(better == (rule == m.rule ? NULL : htc_locality_builtin(rule)));
            } else if (what == 8 && began) {
                m.rule = (uint32_t)htc_rng_below(&rng, 4);
                m.traffic_first = m.n;
                HOLDS(htc_locality_switch(l, htc_locality_builtin(m.rule)) == HTC_OK);
                m.fresh = 1;
            }
            HOLDS(htc_locality_tt(l) == (m.tt_rule == HTC_LOCALITY_TT_MOVE && !m.tail ? HTC_NEVER : m.tt));
        }
        htc_locality_destroy(l);
    }
}

/* ---- policies of one's own, wrong use, memory ---- */

/* Binds a task to whoever has its first input, and gives away every other waiting task. */
static htc_status place_first(void *ctx, const htc_locality_view *view, const htc_locality_task *task,
                              htc_locality_place *out)
{
    (*(int *)ctx)++;
    if (view->size != sizeof *view || view->self != ME || view->ratio != 123 || view->bytes_per_s != GBPS)
        return HTC_EPROTO;
    out->queue = task->est_ns == 13 ? 3 : task->inputs[0].worker == view->self ? HTC_LOCALITY_LOCAL : HTC_LOCALITY_PUSH;
    out->worker = task->inputs[0].worker;
    return task->est_ns == 17 ? HTC_EDENIED : HTC_OK;
}

static uint64_t move_half(void *ctx, const htc_locality_view *view)
{
    (*(int *)ctx)++;
    return view->waiting == 9 ? 10 : view->waiting / 2;
}

Test(locality, takes_a_policy_of_ones_own_by_name)
{
    int                        calls = 0;
    const htc_locality_policy  mine = { sizeof mine, "first", &calls, HTC_LOCALITY_RLDS, place_first, move_half };
    const htc_locality_input   in[] = { { 1, ME } };
    htc_locality_task          task = { in, 1, 1 };
    htc_locality_options       o = HTC_LOCALITY_OPTIONS_INIT;
    htc_locality_place         out = { 99, 99, 99 };
    uint64_t                   move;
    htc_registry              *registry;
    htc_locality              *l;
    const htc_locality_policy *found = NULL;
    cr_assert(eq(int, htc_registry_create(NULL, &registry), HTC_OK));
    cr_assert(eq(int, htc_registry_add_builtin(registry), HTC_OK));
    cr_assert(eq(int, htc_locality_register(registry, &mine), HTC_OK));
    cr_expect(eq(int, htc_locality_register(registry, htc_locality_builtin(HTC_LOCALITY_MLB)), HTC_EEXISTS));
    cr_expect(eq(int, htc_locality_find(registry, "second", &found), HTC_ENOTFOUND));
    cr_expect(found == NULL);
    cr_assert(eq(int, htc_locality_find(registry, "first", &found), HTC_OK));
    o.policy = found;
    o.self = ME;
    o.ratio = 123;
    cr_assert(eq(int, htc_locality_create(NULL, &o, &l), HTC_OK));
    task.est_ns = 13;
    cr_expect(eq(int, htc_locality_place_task(l, &task, &out), HTC_EINTERNAL), "no such queue");
    task.est_ns = 17;
    cr_expect(eq(int, htc_locality_place_task(l, &task, &out), HTC_EDENIED));
    cr_expect(eq(u32, out.queue, 99), "untouched");
    task.est_ns = 1;
    cr_expect(eq(int, htc_locality_place_task(l, &task, &out), HTC_OK));
    cr_expect(out.queue == HTC_LOCALITY_LOCAL && out.worker == ME);
    cr_expect(eq(int, htc_locality_move(l, 0, 8, &move), HTC_OK));
    cr_expect(eq(u64, move, 4));
    cr_expect(eq(int, htc_locality_move(l, 0, 9, &move), HTC_OK));
    cr_expect(eq(u64, move, 9), "never more than there are");
    cr_expect(eq(int, calls, 5));
    htc_locality_destroy(l);
    htc_registry_destroy(registry);
}

Test(locality, refuses_wrong_options_and_wrong_calls)
{
    const htc_locality_policy empty = { .size = sizeof empty },
                              unknown = { .size = sizeof unknown, .rule = 4, .place = place_first };
    const htc_locality_policy  small = { .size = 8, .place = place_first };
    const htc_locality_options wrong[] = {
        { .size = 0 },
        { .size = sizeof wrong[0], .tt_rule = 3 },
        { .size = sizeof wrong[0], .tt_ns = HTC_NEVER },
        { .size = sizeof wrong[0], .tt_ns = 5, .tt_ns_min = 6 },
        { .size = sizeof wrong[0], .tt_ns = 5, .tt_ns_max = 4 },
        { .size = sizeof wrong[0], .tail = HTC_LOCALITY_ONE + 1 },
        { .size = sizeof wrong[0], .traffic_low = 5, .traffic_high = 5 },
        { .size = sizeof wrong[0], .traffic_high = UINT64_MAX },
        { .size = sizeof wrong[0], .policy = &empty },
        { .size = sizeof wrong[0], .policy = &unknown },
        { .size = sizeof wrong[0], .policy = &small },
    };
    htc_locality *l = NULL;
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
        cr_expect(eq(int, htc_locality_create(NULL, &wrong[i], &l), HTC_EINVAL), "row %zu", i);
    struct {
        htc_locality_options o;
        uint64_t             newer;
    } longer = { HTC_LOCALITY_OPTIONS_INIT, 0 };
    struct {
        htc_locality_policy p;
        uint64_t            newer;
    } stranger = { *htc_locality_builtin(HTC_LOCALITY_MDL), 1 };
    stranger.p.size = sizeof stranger;
    longer.o.size = sizeof longer;
    longer.o.policy = &stranger.p;
    cr_expect(eq(int, htc_locality_create(NULL, &longer.o, &l), HTC_EABI));
    longer.o.policy = NULL;
    longer.newer = 1;
    cr_expect(eq(int, htc_locality_create(NULL, &longer.o, &l), HTC_EABI));
    cr_expect(eq(int, htc_locality_create(NULL, NULL, NULL), HTC_EINVAL));
    cr_expect(l == NULL, "untouched");

    htc_locality_place         place;
    const htc_locality_task    task = { NULL, 0, 1 };
    const htc_locality_policy *better = NULL;
    uint64_t                   move = 77;
    longer.newer = 0;
    cr_assert(eq(int, htc_locality_create(NULL, &longer.o, &l), HTC_OK), "longer, but for zeros");
    cr_expect(eq(int, htc_locality_place_task(NULL, &task, &place), HTC_EINVAL));
    cr_expect(eq(int, htc_locality_place_task(l, NULL, &place), HTC_EINVAL));
    cr_expect(eq(int, htc_locality_place_task(l, &task, NULL), HTC_EINVAL));
    cr_expect(eq(int, htc_locality_finished(NULL, 1, 0, 0), HTC_EINVAL));
    cr_expect(eq(int, htc_locality_finished(l, 1, 0, 1), HTC_EINVAL), "moved what was not needed");
    cr_expect(eq(int, htc_locality_finished(l, HTC_NEVER, 0, 0), HTC_EINVAL));
    cr_expect(eq(int, htc_locality_finished(l, 5, 0, 0), HTC_OK));
    cr_expect(eq(int, htc_locality_finished(l, 4, 0, 0), HTC_EINVAL), "backwards");
    cr_expect(eq(int, htc_locality_move(l, 4, 1, &move), HTC_EINVAL));
    cr_expect(eq(int, htc_locality_move(l, 5, 1, NULL), HTC_EINVAL));
    cr_expect(eq(int, htc_locality_move(NULL, 5, 1, &move), HTC_EINVAL));
    cr_expect(eq(u64, move, 77), "untouched");
    cr_expect(eq(int, htc_locality_advise(l, 4, &better), HTC_EINVAL));
    cr_expect(eq(int, htc_locality_advise(l, 5, NULL), HTC_EINVAL));
    cr_expect(eq(int, htc_locality_advise(NULL, 5, &better), HTC_EINVAL));
    cr_expect(eq(int, htc_locality_steal_failed(NULL), HTC_EINVAL));
    cr_expect(eq(int, htc_locality_progress(NULL, 0, 0), HTC_EINVAL));
    cr_expect(eq(int, htc_locality_switch(l, NULL), HTC_EINVAL));
    cr_expect(eq(int, htc_locality_switch(l, &empty), HTC_EINVAL));
    cr_expect(eq(int, htc_locality_switch(l, &stranger.p), HTC_EABI));
    cr_expect(eq(int, htc_locality_switch(NULL, htc_locality_builtin(0)), HTC_EINVAL));
    cr_expect(htc_locality_in_force(l) == htc_locality_builtin(HTC_LOCALITY_FLDS), "as it was");
    cr_expect(htc_locality_in_force(NULL) == NULL);
    cr_expect(eq(u64, htc_locality_tt(NULL), HTC_NEVER));
    cr_expect(eq(int, htc_locality_register(NULL, htc_locality_builtin(0)), HTC_EINVAL));
    cr_expect(eq(int, htc_locality_find(NULL, "x", &better), HTC_EINVAL));
    cr_expect(eq(int, htc_locality_find(NULL, "x", NULL), HTC_EINVAL));
    htc_locality_options_init(NULL, 8);
    htc_locality_destroy(l);
    htc_locality_destroy(NULL);
}

static void create_without_memory(alloc_fail *f)
{
    htc_env       env = alloc_fail_env(f);
    htc_locality *l = NULL;
    htc_status    status = htc_locality_create(&env, NULL, &l);
    cr_expect(eq(int, status, f->refused ? HTC_ENOMEM : HTC_OK));
    cr_expect(status == HTC_OK ? l != NULL : l == NULL);
    htc_locality_destroy(l);
    cr_expect(eq(sz, f->live, 0));
    cr_expect(eq(sz, f->wrong_sizes, 0));
}

/* One allocation is all there is: nothing else can be refused. */
Test(locality, stays_as_it_was_without_memory)
{
    ALLOC_FAIL_EVERY(f, 10)
    create_without_memory(&f);
    ALLOC_FAIL_ONCE(f, 10)
    {
        create_without_memory(&f);
        cr_expect(f.calls == 1);
    }
}
