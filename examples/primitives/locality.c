/* A worker decides where ready tasks wait: with it, with whoever has their data, or for anybody to steal. */
#include <stdio.h>

#include "htcsched/locality.h"

static const char *const queues[] = { "shared", "local", "push to" };

int main(void)
{
    enum { me = 7, peer = 9, kind_render = 1 };
    htc_locality_options  options = HTC_LOCALITY_OPTIONS_INIT;
    htc_locality         *worker;
    htc_locality_lengths *lengths;
    htc_ns                est, now = 0;
    uint64_t              move;

    options.self = me; /* FLDS on 1 Gb/s, t = 0.5, tt = 10 s */
    if (htc_locality_create(NULL, &options, &worker) != HTC_OK ||
        htc_locality_lengths_create(NULL, NULL, &lengths) != HTC_OK)
        return 1;

    /* Three tasks of this kind have run. */
    htc_locality_learn(lengths, kind_render, 900 * HTC_MS, 1);
    htc_locality_learn(lengths, kind_render, 1100 * HTC_MS, 2);
    htc_locality_estimate(lengths, kind_render, NULL, &est);
    printf("a task of this kind runs about %u ms\n", (unsigned)(est / HTC_MS));

    /* The next ones read what their parents made: a little, much of it here, much of it elsewhere. */
    const htc_locality_input inputs[] = { { 1000000, peer }, { 90000000, me }, { 90000000, peer } };
    for (int i = 0; i < 3; i++) {
        htc_locality_task  task = { &inputs[i], 1, est };
        htc_locality_place place;
        htc_locality_place_task(worker, &task, &place);
        printf("%u MB with %u -> %s %u\n", (unsigned)(inputs[i].bytes / 1000000), (unsigned)inputs[i].worker,
               queues[place.queue], (unsigned)place.worker);
    }

    /* Ten tasks in ten seconds, and thirty wait: a third can be done in tt, the rest may be stolen. */
    htc_locality_move(worker, now, 0, &move);
    for (int i = 0; i < 10; i++)
        htc_locality_finished(worker, now += HTC_SECOND, 90000000, 0);
    htc_locality_move(worker, now, 30, &move);
    printf("of 30 waiting %u may be stolen\n", (unsigned)move);

    /* Another policy from here on: whatever the balance costs. */
    htc_locality_switch(worker, htc_locality_builtin(HTC_LOCALITY_MLB));
    htc_locality_move(worker, now, 10, &move);
    printf("balance only: of 10 waiting %u may be stolen\n", (unsigned)move);

    htc_locality_lengths_destroy(lengths);
    htc_locality_destroy(worker);
    return 0;
}
