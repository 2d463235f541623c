/* A checkpoint is read without one of its events, and the run goes on: whatever the event was, the run is told to be wrong. */
#include "property.h"
#include "reel.h"

#include "htcsched/sim_dataflow.h"
#include "htcsched/sim_manytask.h"
#include "sim/scale/ladder.h"

typedef struct loser {
    reel    *film;
    uint64_t id_mask;
    int    (*is_one)(uint64_t id); /* that may be lost */
    uint64_t skip;                 /* so many of these are not */
    int      lost;                 /* 1: one was */
} loser;

/* Out of an array of keys; the others stay in their order. 1: it was there. */
static int take_one(loser *l, uint64_t *key, uint32_t *n)
{
    for (uint32_t i = 0; i < *n; i++)
        if (l->is_one(key[i] & l->id_mask) && l->skip-- == 0) {
            memmove(key + i, key + i + 1, (*n - i - 1) * sizeof *key);
            --*n;
            return 1;
        }
    return 0;
}

static int by_value(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return x < y ? -1 : x > y;
}

/* The bottom of the queue is sorted, and stays so; the side is a heap, as a sorted array is. */
static htc_status read_without(void *ctx, void *data, size_t n)
{
    loser *l = ctx;
    htc_status  status = reel_read(l->film, data, n);
    if (status == HTC_OK && n == offsetof(ladder, rung) && !l->lost) {
        ladder *q = data;
        l->lost = take_one(l, q->bottom, &q->bottom_n) || take_one(l, q->side, &q->side_n);
        qsort(q->side, q->side_n, sizeof *q->side, by_value);
        q->count -= (uint64_t)l->lost;
    }
    return status;
}

/* The options of a run, by the model. */
typedef struct lossy {
    loser          loses;
    reel           film;
    htc_scale_tape resume, checkpoint;
    htc_scale_host host;
} lossy;

static void lossy_open(lossy *l, htc_rng *rng, uint64_t id_mask, int (*is_one)(uint64_t id))
{
    *l = (lossy){ .loses = { .film = &l->film, .id_mask = id_mask, .is_one = is_one, .skip = htc_rng_below(rng, 10) },
                  .resume = { .size = sizeof l->resume, .reads = 1, .move = read_without, .ctx = &l->loses },
                  .checkpoint = { .size = sizeof l->checkpoint, .move = reel_write, .ctx = &l->film },
                  .host = { .size = sizeof l->host, .stop_after = 100 + htc_rng_below(rng, 300) } };
}

typedef struct losses {
    uint64_t lost, messages;
} losses;

/* It is noticed if there was one, and nothing is if there was none; often as messages that were sent and not received. */
static void lossy_close(lossy *l, const char *wrong, losses *sum)
{
    HOLDS(l->loses.lost == (wrong[0] != '\0'));
    sum->lost += (uint64_t)l->loses.lost;
    sum->messages += strstr(wrong, "messages") != NULL;
    free(l->film.data);
}

/* Cores have the first 50 ids, nodes the next 100: an even one is the next step of a thief's round. */
static int is_step_of_dataflow(uint64_t id)
{
    return id >= 50 && id < 150 && id % 2 == 0;
}

Test(sim_lost_event, is_noticed_by_tasks_with_dependencies)
{
    losses sum = { 0 };
    PROPERTY (rng, 400) {
        lossy l;
        lossy_open(&l, &rng, 255, is_step_of_dataflow);
        htc_sim_dataflow_options o = { .size = sizeof o, .seed = htc_rng_next(&rng), .nodes = 50, .cores = 1, .tasks = 60, .length = { .mean_ns = 2e9 }, .layout = HTC_SIM_DATAFLOW_ONE,
                                       .host = &l.host, .checkpoint = &l.checkpoint };
        htc_sim_dataflow_report  r = { .size = sizeof r };
        htc_error                e;
        cr_assert(eq(int, htc_sim_dataflow_run(NULL, &o, &r, &e), HTC_OK) && r.interrupted);
        cr_assert(eq(str, r.scale.wrong, "")); /* what is on its way then is not lost */
        o.checkpoint = NULL;
        o.resume = &l.resume;
        o.host = NULL;
        cr_assert(eq(int, htc_sim_dataflow_run(NULL, &o, &r, &e), HTC_OK), "%s", e.text);
        lossy_close(&l, r.scale.wrong, &sum);
    }
    cr_expect(sum.lost > 20 && sum.messages > 5, "%llu, %llu", (unsigned long long)sum.lost, (unsigned long long)sum.messages);
}

/* Each of 100 nodes has four ids: the second one is the next step of its round. */
static int is_step_of_manytask(uint64_t id)
{
    return id < 400 && id % 4 == 1;
}

Test(sim_lost_event, is_noticed_by_many_tasks)
{
    losses sum = { 0 };
    PROPERTY (rng, 400) {
        lossy l;
        lossy_open(&l, &rng, 511, is_step_of_manytask);
        htc_sim_manytask_group   group = { .size = sizeof group, .nodes = 100, .cores = 1 };
        htc_sim_manytask_options o = { .size = sizeof o, .seed = htc_rng_next(&rng), .architecture = HTC_SIM_MANYTASK_DISTRIBUTED, .groups = &group, .n_groups = 1, .tasks = 120,
                                       .length = { .mean_ns = 2e9 }, .layout = HTC_SIM_MANYTASK_ONE, .host = &l.host, .checkpoint = &l.checkpoint };
        htc_sim_manytask_report  r = { .size = sizeof r };
        htc_error                e;
        cr_assert(eq(int, htc_sim_manytask_run(NULL, &o, &r, NULL, &e), HTC_OK), "%s", e.text);
        cr_assert(r.interrupted && eq(str, r.scale.wrong, ""));
        o.checkpoint = NULL;
        o.resume = &l.resume;
        o.host = NULL;
        cr_assert(eq(int, htc_sim_manytask_run(NULL, &o, &r, NULL, &e), HTC_OK), "%s", e.text);
        lossy_close(&l, r.scale.wrong, &sum);
    }
    cr_expect(sum.lost > 20 && sum.messages > 5, "%llu, %llu", (unsigned long long)sum.lost, (unsigned long long)sum.messages);
}
