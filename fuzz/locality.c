/* Any life of a worker: what moves follows from the list of all that was done, a place from its definition, and an
 * estimate from the list of all that was learned. */
#include "htcsched/locality.h"
#include "check.h"
#include "core/codec.h"

#define EVENTS_MAX 256
#define INPUTS_MAX 8

typedef struct life {
    htc_locality         *worker;
    htc_locality_lengths *mean, *median;
    htc_ns                now, tt, window;
    uint32_t              tt_rule, rule, tail;
    htc_ns                done_at[EVENTS_MAX]; /* since the queue was last empty */
    size_t                done_n;
    htc_ns                began;
    int                   told; /* of any time yet */
    htc_ns                learned[EVENTS_MAX];
    uint8_t               kind[EVENTS_MAX];
    size_t                learned_n;
} life;

static void tell(life *l)
{
    if (!l->told)
        l->began = l->now;
    l->told = 1;
}

static void check_place(htc_reader *r, const life *l)
{
    htc_locality_input in[INPUTS_MAX];
    htc_locality_task  task = { in, htc_get_u8(r) % (INPUTS_MAX + 1), htc_get_u32(r) };
    htc_locality_place place, looser;
    uint64_t           all = 0, there = 0, largest = 0, ratio = htc_get_u32(r), band = (uint64_t)htc_get_u32(r) + 1;
    for (size_t i = 0; i < task.inputs_n; i++) {
        in[i] = (htc_locality_input){ (uint64_t)htc_get_u16(r) << htc_get_u8(r) % 32, htc_get_u8(r) % 4 };
        all += in[i].bytes;
        largest = in[i].bytes > largest ? in[i].bytes : largest;
    }
    CHECK(htc_locality_decide(ratio, band, 1, &task, &place) == HTC_OK);
    for (size_t i = 0; i < task.inputs_n; i++)
        there += in[i].worker == place.worker ? in[i].bytes : 0;
    CHECK(place.fetch_bytes == all - there);
    /* The largest is below 2^48 and the right side below 2^97: in long double both are right to one part in 2^60. */
    long double cost = (long double)largest * 1e15L,
                limit = (long double)ratio * (long double)band * (long double)task.est_ns;
    if (cost < limit * 0.999L)
        CHECK(place.queue == HTC_LOCALITY_SHARED);
    if (cost > limit * 1.001L)
        CHECK(place.queue != HTC_LOCALITY_SHARED);
    CHECK((place.queue == HTC_LOCALITY_PUSH) == (place.worker != 1));
    CHECK(htc_locality_decide(ratio * 2, band, 1, &task, &looser) == HTC_OK);
    CHECK(place.queue != HTC_LOCALITY_SHARED || looser.queue == HTC_LOCALITY_SHARED);
    CHECK(htc_locality_place_task(l->worker, &task, &place) == HTC_OK);
    if (l->rule == HTC_LOCALITY_MLB)
        CHECK(place.queue == HTC_LOCALITY_SHARED);
    if (l->rule == HTC_LOCALITY_MDL)
        CHECK((place.queue == HTC_LOCALITY_SHARED) == (all == 0));
}

static uint64_t model_move(life *l, uint64_t waiting)
{
    uint64_t window = (l->now - l->began) / l->window, done = 0;
    htc_ns   from = l->began + (window ? window - 1 : 0) * l->window;
    if (waiting == 0) {
        l->began = l->now;
        l->done_n = 0;
        return 0;
    }
    for (size_t i = 0; i < l->done_n; i++)
        done += l->done_at[i] >= from;
    if (l->rule == HTC_LOCALITY_MLB)
        return waiting;
    if (l->rule != HTC_LOCALITY_FLDS || (l->tt_rule == HTC_LOCALITY_TT_MOVE && !l->tail))
        return 0;
    uint64_t move = htc_locality_excess(waiting, done, l->now - from, l->tt);
    CHECK(move <= waiting);
    if (move && l->tt_rule == HTC_LOCALITY_TT_STEAL)
        l->tt = l->tt * 2 < 1000 ? l->tt * 2 : 1000;
    if (move && l->tt_rule == HTC_LOCALITY_TT_MOVE)
        l->tt = l->tt / 2 > 4 ? l->tt / 2 : 4;
    return move;
}

static void check_estimate(const life *l, uint8_t kind)
{
    uint64_t sum = 0, n = 0, below = 0, above = 0;
    htc_ns   mean, median;
    for (size_t i = 0; i < l->learned_n; i++)
        if (l->kind[i] == kind) {
            sum += l->learned[i];
            n++;
        }
    htc_status status = htc_locality_estimate(l->mean, kind, NULL, &mean);
    CHECK(status == (n ? HTC_OK : HTC_AGAIN));
    CHECK(htc_locality_estimate(l->median, kind, NULL, &median) == status);
    CHECK(htc_locality_known(l->mean, kind) == n);
    if (n == 0)
        return;
    CHECK(mean == (2 * sum + n) / (2 * n));
    for (size_t i = 0; i < l->learned_n; i++)
        if (l->kind[i] == kind) {
            below += l->learned[i] < median - median / 32;
            above += l->learned[i] > median + median / 32;
        }
    CHECK(2 * below <= n && 2 * above <= n);
}

static void step(htc_reader *r, life *l)
{
    uint64_t move, waiting;
    uint8_t  what = htc_get_u8(r);
    l->now += htc_get_u8(r);
    switch (what % 7) {
    case 0:
        CHECK(htc_locality_finished(l->worker, l->now, what, 0) == HTC_OK);
        tell(l);
        if (l->done_n < EVENTS_MAX)
            l->done_at[l->done_n++] = l->now;
        break;
    case 1:
        tell(l);
        waiting = htc_get_u8(r);
        CHECK(htc_locality_move(l->worker, l->now, waiting, &move) == HTC_OK && move == model_move(l, waiting));
        break;
    case 2:
        CHECK(htc_locality_steal_failed(l->worker) >= HTC_OK);
        if (l->tt_rule == HTC_LOCALITY_TT_STEAL && l->rule == HTC_LOCALITY_FLDS)
            l->tt = l->tt / 2 > 4 ? l->tt / 2 : 4;
        break;
    case 3:
        l->rule = what / 7 % 4;
        CHECK(htc_locality_switch(l->worker, htc_locality_builtin(l->rule)) == HTC_OK);
        break;
    case 4:
        l->tail |= what >= 128;
        CHECK(htc_locality_progress(l->worker, what >= 128, 1) == HTC_OK);
        break;
    case 5:
        check_place(r, l);
        break;
    case 6:
        l->kind[l->learned_n] = htc_get_u8(r) % 16;
        l->learned[l->learned_n] = (uint64_t)htc_get_u16(r) << htc_get_u8(r) % 32;
        CHECK(htc_locality_learn(l->mean, l->kind[l->learned_n], l->learned[l->learned_n], 1) == HTC_OK);
        CHECK(htc_locality_learn(l->median, l->kind[l->learned_n], l->learned[l->learned_n], 1) == HTC_OK);
        check_estimate(l, l->kind[l->learned_n++]);
        break;
    }
    CHECK(htc_locality_tt(l->worker) == (l->tt_rule == HTC_LOCALITY_TT_MOVE && !l->tail ? HTC_NEVER : l->tt));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    htc_reader                   r = htc_reader_of((htc_bytes){ data, size });
    static life                  l;
    htc_locality_lengths_options mean = { .size = sizeof mean };
    htc_locality_lengths_options median = { .size = sizeof median, .estimator = HTC_LOCALITY_QUANTILE };
    l = (life){ .window = (htc_ns)htc_get_u8(&r) + 1, .tt_rule = htc_get_u8(&r) % 3, .tt = (htc_ns)htc_get_u8(&r) + 4 };
    htc_locality_options o = { .size = sizeof o,
                               .tt_rule = l.tt_rule,
                               .tt_ns = l.tt,
                               .tt_ns_min = 4,
                               .tt_ns_max = 1000,
                               .tt_ns_small = 8,
                               .window_ns = l.window,
                               .self = 1 };
    CHECK(htc_locality_create(NULL, &o, &l.worker) == HTC_OK);
    CHECK(htc_locality_lengths_create(NULL, &mean, &l.mean) == HTC_OK);
    CHECK(htc_locality_lengths_create(NULL, &median, &l.median) == HTC_OK);
    for (size_t i = 0; i < EVENTS_MAX && htc_reader_left(&r) > 0; i++)
        step(&r, &l);
    htc_locality_destroy(l.worker);
    htc_locality_lengths_destroy(l.mean);
    htc_locality_lengths_destroy(l.median);
    return 0;
}
