/* The simulator's engine: order, the same run for the same seed, and every fault of links, processes and clocks, each seen to
 * happen and seen not to happen when it is off. */
#include "alloc_fail.h"
#include "core/fault.h"
#include "sim_probe.h"

static tally run_pair(uint64_t seed, const htc_sim_net *net, htc_ns span)
{
    pair p = pair_open(seed, net);
    cr_assert(htc_sim_run(p.sim, span) == HTC_OK, "%s", htc_sim_failure(p.sim));
    p.a->stop = p.a->sent;
    cr_assert(htc_sim_run(p.sim, 2 * HTC_SECOND) == HTC_OK);
    tally t = tally_of(&p);
    pair_close(&p);
    return t;
}

/* ---- messages ---- */

Test(sim, calm_link_delivers_all_in_order)
{
    PROPERTY(rng, 200)
    {
        htc_sim_net net = { .size = sizeof net, .jitter_ns = htc_rng_below(&rng, 20 * HTC_MS) };
        tally       t = run_pair(rng.state, &net, 200 * HTC_MS);
        HOLDS(t.never == 0 && t.again == 0 && t.late == 0 && t.once > 100);
    }
}

Test(sim, loss_loses_as_often_as_it_says)
{
    htc_sim_net net = { .size = sizeof net, .loss_ppm = 200000 };
    tally       t = run_pair(1, &net, 3 * HTC_SECOND);
    /* 3000 messages, 20 %: 600, six standard deviations are 131 */
    cr_expect(t.never > 450 && t.never < 750, "%zu never came", t.never);
    cr_expect(t.again == 0 && t.late == 0);
}

Test(sim, duplicates_come_again)
{
    htc_sim_net net = { .size = sizeof net, .duplicate_ppm = 300000 };
    tally       t = run_pair(1, &net, 2 * HTC_SECOND);
    cr_expect(t.never == 0 && t.again > 450 && t.again < 750, "%zu again", t.again);
}

Test(sim, reordering_lets_others_overtake)
{
    htc_sim_net net = { .size = sizeof net, .reorder_ppm = 100000, .reorder_ns = 20 * HTC_MS };
    tally       t = run_pair(1, &net, 2 * HTC_SECOND);
    cr_expect(t.never == 0 && t.again == 0 && t.late > 100, "%zu late", t.late);
}

Test(sim, delay_holds_up_those_behind)
{
    htc_sim_net net = { .size = sizeof net, .delay_ppm = 100000, .delay_ns = 50 * HTC_MS };
    pair        p = pair_open(3, &net);
    htc_sim_run(p.sim, 2 * HTC_SECOND);
    tally  t = tally_of(&p);
    size_t together = 0;
    for (size_t i = 1; i < p.b->n_got; i++)
        together += p.b->at[i] == p.b->at[i - 1];
    cr_expect(t.late == 0 && t.again == 0 && together > 200, "%zu came together", together);
    pair_close(&p);
}

Test(sim, bandwidth_makes_them_queue)
{
    /* 8 bytes a millisecond into a link of 4000 bytes a second: half of them are through in the end, 2 ms apart */
    htc_sim_net net = { .size = sizeof net, .bytes_per_s = 4000 };
    pair        p = pair_open(3, &net);
    htc_sim_run(p.sim, HTC_SECOND);
    cr_expect(p.b->n_got > 480 && p.b->n_got < 502, "%zu", p.b->n_got);
    cr_expect(p.b->at[100] - p.b->at[99] == 2 * HTC_MS);
    pair_close(&p);
}

Test(sim, connections_break_and_are_dialled_again)
{
    htc_sim_net net = { .size = sizeof net, .break_ppm = 10000 };
    pair        p = pair_open(5, &net);
    htc_sim_run(p.sim, 3 * HTC_SECOND);
    cr_expect(p.b->closed > 3 && p.b->opened >= p.b->closed && p.a->opened >= p.a->closed && p.a->closed > 3);
    size_t before = p.b->closed;
    htc_sim_net_faults(p.sim, 0);
    htc_sim_run(p.sim, 3 * HTC_SECOND);
    cr_expect(p.b->closed <= before + 1 && p.b->n_got > 2000, "off is off");
    htc_sim_break(p.a->node, p.b->node);
    htc_sim_run(p.sim, HTC_SECOND);
    cr_expect(p.b->opened == p.b->closed + 1, "dialled again after a break by hand");
    pair_close(&p);
}

/* ---- whether anything gets through ---- */

Test(sim, clogged_link_lets_everything_through_at_the_end)
{
    pair p = pair_open(7, NULL);
    htc_sim_run(p.sim, 100 * HTC_MS);
    size_t before = p.b->n_got;
    htc_sim_clog(p.a->node, p.b->node, 50 * HTC_MS);
    htc_sim_run(p.sim, 49 * HTC_MS);
    cr_expect(p.b->n_got == before, "nothing comes");
    cr_expect(!htc_sim_passes(p.a->node, p.b->node) && htc_sim_passes(p.b->node, p.a->node));
    htc_sim_run(p.sim, 51 * HTC_MS);
    tally t = tally_of(&p);
    cr_expect(t.never <= 1 && t.late == 0 && t.again == 0, "all came, in order: %zu never, %zu late", t.never, t.late);
    htc_sim_clog(p.a->node, p.b->node, HTC_SECOND);
    htc_sim_run(p.sim, HTC_MS);
    htc_sim_clog(p.a->node, p.b->node, 0);
    htc_sim_run(p.sim, HTC_MS);
    cr_expect(htc_sim_passes(p.a->node, p.b->node) && p.b->n_got > before + 100);
    pair_close(&p);
}

/* Arrivals at the very moment at which the link opens must not overtake those that waited. */
Test(sim, nobody_overtakes_at_the_end_of_a_clog)
{
    PROPERTY(rng, 300)
    {
        htc_sim_net net = { .size = sizeof net, .latency_ns = HTC_MS };
        pair        p = pair_open(rng.state, &net);
        for (int i = 0; i < 20; i++) {
            htc_sim_clog(p.a->node, p.b->node, (1 + htc_rng_below(&rng, 8)) * HTC_MS);
            if (htc_rng_below(&rng, 2))
                htc_sim_pause(p.b->node, (1 + htc_rng_below(&rng, 8)) * HTC_MS);
            htc_sim_run(p.sim, htc_rng_below(&rng, 10) * HTC_MS);
        }
        htc_sim_run(p.sim, 20 * HTC_MS);
        tally t = tally_of(&p);
        HOLDS(t.late == 0 && t.again == 0 && t.never <= 2);
        pair_close(&p);
    }
}

/* At one moment a clog ends, then a pause, then one more arrives: those of the clog wait for those of the pause, and the last one for them. */
Test(sim, nobody_overtakes_when_a_clog_and_a_pause_end_together)
{
    htc_sim_net net = { .size = sizeof net, .latency_ns = HTC_MS };
    pair        p = pair_open(1, &net);
    htc_sim_run(p.sim, 10 * HTC_MS);
    htc_sim_clog(p.a->node, p.b->node, 8 * HTC_MS); /* its end comes before that of the pause */
    htc_sim_clog(p.a->node, p.b->node, 0);
    htc_sim_pause(p.b->node, 8 * HTC_MS);
    htc_sim_run(p.sim, 3 * HTC_MS);
    htc_sim_clog(p.a->node, p.b->node, 5 * HTC_MS);
    htc_sim_run(p.sim, 20 * HTC_MS);
    tally t = tally_of(&p);
    cr_expect(t.late == 0 && t.again == 0 && t.never <= 2, "%zu late, %zu again, %zu never", t.late, t.again, t.never);
    pair_close(&p);
}

Test(sim, block_is_one_way_and_loses)
{
    pair p = pair_open(7, NULL);
    htc_sim_run(p.sim, 100 * HTC_MS);
    size_t before = p.b->n_got;
    htc_sim_block(p.b->node, p.a->node, 1);
    htc_sim_run(p.sim, 100 * HTC_MS);
    cr_expect(p.b->n_got >= before + 99, "the other direction");
    htc_sim_block(p.a->node, p.b->node, 1);
    htc_sim_run(p.sim, 100 * HTC_MS);
    before = p.b->n_got;
    htc_sim_run(p.sim, 100 * HTC_MS);
    cr_expect(p.b->n_got == before && p.b->closed == 0, "nothing, and nobody is told");
    htc_sim_heal(p.sim, NULL);
    htc_sim_run(p.sim, 100 * HTC_MS);
    tally t = tally_of(&p);
    cr_expect(p.b->n_got > before + 90 && t.never > 190, "it goes on; what was sent meanwhile is lost");
    pair_close(&p);
}

Test(sim, partitions_cut_sets_both_ways_or_one)
{
    pair   p = pair_open(7, NULL);
    probe *c = calloc(1, sizeof *c);
    probe_add(p.sim, "c", c);
    htc_sim_node *set[2] = { p.a->node, c->node };
    cr_assert(htc_sim_partition(p.sim, "minority", set, 2, HTC_SIM_BOTH) == HTC_OK);
    cr_expect(!htc_sim_passes(p.a->node, p.b->node) && !htc_sim_passes(p.b->node, p.a->node));
    cr_expect(htc_sim_passes(p.a->node, c->node) && htc_sim_passes(c->node, p.a->node), "inside");
    cr_assert(htc_sim_partition(p.sim, "minority", set, 1, HTC_SIM_OUT) == HTC_OK, "replaced");
    cr_expect(!htc_sim_passes(p.a->node, p.b->node) && htc_sim_passes(p.b->node, p.a->node));
    cr_expect(htc_sim_passes(c->node, p.b->node));
    cr_assert(htc_sim_partition(p.sim, "other", set + 1, 1, HTC_SIM_IN) == HTC_OK);
    cr_expect(!htc_sim_passes(p.b->node, c->node) && htc_sim_passes(c->node, p.b->node));
    cr_expect(htc_sim_heal(p.sim, "nobody") == HTC_ENOTFOUND && htc_sim_heal(p.sim, "minority") == HTC_OK);
    cr_expect(htc_sim_passes(p.a->node, p.b->node) && !htc_sim_passes(p.b->node, c->node));
    cr_expect(htc_sim_heal(p.sim, NULL) == HTC_OK && htc_sim_passes(p.b->node, c->node));
    pair_close(&p);
    free(c);
}

/* ---- processes ---- */

Test(sim, crash_pause_and_restart)
{
    pair p = pair_open(7, NULL);
    htc_sim_run(p.sim, 100 * HTC_MS);
    htc_sim_pause(p.b->node, 50 * HTC_MS);
    size_t before = p.b->n_got;
    htc_sim_run(p.sim, 40 * HTC_MS);
    cr_expect(p.b->n_got == before && htc_sim_paused(p.b->node) && htc_sim_up(p.b->node));
    htc_sim_run(p.sim, 20 * HTC_MS);
    cr_expect(p.b->n_got > before + 55 && !htc_sim_paused(p.b->node) && tally_of(&p).late == 0, "it has waited");
    htc_sim_pause(p.b->node, HTC_SECOND);
    htc_sim_run(p.sim, 10 * HTC_MS);
    htc_sim_resume(p.b->node);
    htc_sim_run(p.sim, HTC_MS);
    cr_expect(tally_of(&p).never <= 1);
    uint64_t incarnation = htc_sim_incarnation(p.b->node);
    htc_sim_set_version(p.b->node, 2);
    htc_sim_crash(p.b->node);
    cr_expect(!htc_sim_up(p.b->node) && p.b->ended == 1 && htc_sim_machine(p.b->node) == NULL);
    before = p.b->n_got;
    htc_sim_run(p.sim, 300 * HTC_MS);
    cr_expect(p.b->n_got == before && p.a->closed == 1);
    htc_sim_boot(p.b->node);
    htc_sim_run(p.sim, 300 * HTC_MS);
    cr_expect(p.b->n_got > before + 100 && p.b->boots == 2 && p.b->version == 2 && p.a->opened == 2);
    cr_expect(htc_sim_incarnation(p.b->node) == incarnation + 2);
    pair_close(&p);
}

/* 0 .. 4: all the ways in which nobody answers a call. */
static void hinder(pair *p, int way, int on)
{
    if (way == 0 && on)
        htc_sim_crash(p->b->node);
    else if (way == 0)
        htc_sim_boot(p->b->node);
    else if (way == 1 && on)
        htc_sim_pause(p->b->node, 100 * HTC_SECOND);
    else if (way == 1)
        htc_sim_resume(p->b->node);
    else if (way == 2)
        htc_sim_block(p->b->node, p->a->node, on);
    else if (way == 3)
        htc_sim_clog(p->a->node, p->b->node, on ? 100 * HTC_SECOND : 0);
    else if (on)
        htc_sim_partition(p->sim, "apart", &p->b->node, 1, HTC_SIM_BOTH);
    else
        htc_sim_heal(p->sim, "apart");
}

/* It is tried every 100 ms from the moment at which the connection was lost, and the tries that would be in vain cost nothing. */
Test(sim, calls_wait_for_who_cannot_be_reached_and_keep_their_beat)
{
    for (int way = 0; way < 5; way++) {
        pair p = pair_open(3, NULL);
        p.a->beat = 0;
        htc_sim_run(p.sim, 10 * HTC_MS);
        hinder(&p, way, 1);
        htc_sim_break(p.a->node, p.b->node);
        htc_sim_run(p.sim, HTC_MS);
        htc_ns   lost = p.a->last_now;
        uint64_t events = htc_sim_events(p.sim);
        cr_expect(p.a->opened == 1 && p.a->closed == 1, "way %d", way);
        htc_sim_run(p.sim, 10 * HTC_SECOND + 37 * HTC_MS);
        cr_expect(htc_sim_events(p.sim) <= events + 2, "way %d: %llu events", way, (unsigned long long)(htc_sim_events(p.sim) - events));
        hinder(&p, way, 0);
        htc_sim_run(p.sim, 99 * HTC_MS);
        htc_ns latency = 50 * HTC_US;
        cr_expect(p.a->opened == 2 && p.b->opened == 2 && (p.a->last_now - lost - latency) % (100 * HTC_MS) == 0, "way %d: opened %zu, %llu",
                  way, p.a->opened, (unsigned long long)(p.a->last_now - lost));
        pair_close(&p);
    }
}

/* Does what is due when all of a moment is there, and is then due again. */
typedef struct turner {
    htc_ns due, later;
    size_t timeouts;
} turner;

static htc_status turner_step(void *self, const htc_input *in, htc_output *out)
{
    turner *t = self;
    (void)out;
    t->timeouts += in->kind == HTC_IN_TIMEOUT;
    if (in->kind == HTC_IN_EVENT) {
        t->later = t->due;
        t->due = in->now + 2 * HTC_MS;
    } else if (in->kind == HTC_IN_TURN && in->now >= t->due) {
        t->due = t->later;
        t->later = HTC_NEVER;
    }
    return HTC_OK;
}

static htc_ns turner_deadline(const void *self)
{
    return ((const turner *)self)->due;
}

static htc_status turner_boot(void *ctx, htc_sim_node *node)
{
    static const htc_machine_ops ops = { sizeof ops, turner_step, turner_deadline, NULL, HTC_MACHINE_TURNS };
    turner                      *t = ctx;
    t->due = htc_sim_node_now(node) + 10 * HTC_MS;
    t->later = HTC_NEVER;
    return htc_sim_install(node, &ops, t);
}

/* A deadline that was moved ahead and back again has two timers. */
Test(sim, a_deadline_is_told_once_a_moment)
{
    static const htc_sim_host host = { .size = sizeof host, .boot = turner_boot };
    turner                    t = { 0 };
    htc_sim                  *sim = probe_sim(1, NULL);
    htc_sim_node             *node = NULL;
    htc_sim_add(sim, &(htc_sim_node_options){ .size = sizeof(htc_sim_node_options), .name = "t", .host = &host, .ctx = &t }, &node);
    htc_sim_boot(node);
    htc_sim_event(node, HTC_MS, 1, HTC_OK, (htc_bytes){ 0 });
    htc_sim_run(sim, 4 * HTC_MS);
    cr_expect(t.timeouts == 1 && t.due == HTC_SIM_BEGIN + 10 * HTC_MS, "%zu", t.timeouts);
    htc_sim_run(sim, HTC_SECOND);
    cr_expect(t.timeouts == 2 && t.due == HTC_NEVER, "%zu", t.timeouts);
    htc_sim_destroy(sim);
}

/* What is asked for by one start is never answered to the next. */
Test(sim, answers_do_not_outlive_their_machine)
{
    pair p = pair_open(7, NULL);
    htc_sim_event(p.b->node, 10 * HTC_MS, 1, HTC_OK, (htc_bytes){ 0 });
    htc_sim_crash(p.b->node);
    htc_sim_boot(p.b->node);
    htc_sim_run(p.sim, 100 * HTC_MS);
    cr_expect(p.b->events == 0);
    htc_sim_event(p.b->node, 10 * HTC_MS, 1, HTC_OK, (htc_bytes){ 0 });
    htc_sim_run(p.sim, 100 * HTC_MS);
    cr_expect(p.b->events == 1);
    pair_close(&p);
}

Test(sim, a_step_that_fails_fails_the_run_or_ends_the_machine)
{
    pair p = pair_open(7, NULL);
    p.b->step_status = HTC_EIO;
    cr_expect(htc_sim_run(p.sim, HTC_SECOND) == HTC_EIO && htc_sim_status(p.sim) == HTC_EIO);
    cr_expect(strstr(htc_sim_failure(p.sim), "seed 7 at 1000.") && strstr(htc_sim_failure(p.sim), "b: a step"));
    cr_expect(htc_sim_next(p.sim) == HTC_EIO && htc_sim_fail(p.sim, "later") == HTC_EIO);
    pair_close(&p);

    probe    q = { .step_status = HTC_ENOMEM };
    htc_sim *sim = probe_sim(1, NULL);
    htc_sim_add(sim,
                &(htc_sim_node_options){
                    .size = sizeof(htc_sim_node_options), .name = "q", .host = &probe_host, .ctx = &q, .survive = 1 },
                &q.node);
    htc_sim_boot(q.node);
    cr_expect(htc_sim_run(sim, HTC_SECOND) == HTC_OK && !htc_sim_up(q.node) && q.ended == 1);
    htc_sim_destroy(sim);
}

/* ---- clocks ---- */

Test(sim, clocks_drift_and_jump_and_never_run_backwards)
{
    PROPERTY(rng, 300)
    {
        pair    p = pair_open(rng.state, NULL);
        htc_ns  before = htc_sim_node_now(p.a->node), sim_before = htc_sim_now(p.sim);
        int32_t ppm = (int32_t)htc_rng_below(&rng, 1000001) - 500000;
        htc_sim_drift(p.a->node, ppm);
        htc_ns  wall = htc_sim_node_wall(p.a->node);
        int64_t by = (int64_t)htc_rng_below(&rng, 1000 * HTC_SECOND) - 500 * (int64_t)HTC_SECOND;
        htc_sim_jump(p.a->node, by);
        HOLDS((int64_t)(htc_sim_node_wall(p.a->node) - wall) == by);
        htc_sim_run(p.sim, HTC_SECOND);
        htc_ns passed = htc_sim_node_now(p.a->node) - before, should = (htc_ns)(1000000 + ppm) * 1000;
        HOLDS(htc_sim_now(p.sim) - sim_before == HTC_SECOND && passed == should);
        /* a beat by its own clock: as many more messages as it runs faster */
        HOLDS(p.a->sent >= should / HTC_MS - 10 && p.a->sent <= should / HTC_MS && !p.a->backwards);
        htc_sim_drift(p.a->node, -ppm);
        htc_sim_run(p.sim, HTC_SECOND);
        HOLDS(!p.a->backwards && htc_sim_node_now(p.a->node) - before <= 2 * HTC_SECOND);
        pair_close(&p);
    }
}

/* ---- one seed, one run ---- */

typedef struct story {
    uint64_t hash, events;
} story;

static story tell(uint64_t seed, int more)
{
    htc_rng     rng = { seed };
    htc_sim_net net = { .size = sizeof net,
                        .jitter_ns = HTC_MS,
                        .loss_ppm = 50000,
                        .duplicate_ppm = 50000,
                        .reorder_ppm = 50000,
                        .delay_ppm = 10000,
                        .break_ppm = 1000 };
    pair        p = pair_open(seed, &net);
    probe      *other = calloc(2, sizeof *other);
    for (int i = 0; i < more; i++) {
        other[i].beat = HTC_MS;
        other[i].peer = 1;
        probe_add(p.sim, i ? "d" : "c", &other[i]);
    }
    if (more == 2)
        htc_sim_dial(other[0].node, 1, other[1].node, NULL);
    for (int i = 0; i < 10; i++) {
        htc_sim_run(p.sim, htc_rng_below(&rng, 20 * HTC_MS));
        if (htc_rng_below(&rng, 4) == 0) {
            htc_sim_crash(p.b->node);
            htc_sim_boot(p.b->node);
        }
        if (htc_rng_below(&rng, 4) == 0)
            htc_sim_pause(p.a->node, htc_rng_below(&rng, 20 * HTC_MS));
    }
    story s = { htc_sim_hash(p.sim), htc_sim_events(p.sim) };
    if (more == 2) /* what reached b, whoever else was there */
        s.hash = htc_hash64((htc_bytes){ p.b->got, p.b->n_got * sizeof p.b->got[0] }, p.b->n_got);
    if (more == 0 && s.events == 0)
        abort();
    if (more < 0)
        s.hash = htc_hash64((htc_bytes){ p.b->got, p.b->n_got * sizeof p.b->got[0] }, p.b->n_got);
    pair_close(&p);
    for (int i = 0; i < more; i++)
        htc_buf_free(&other[i].stream);
    free(other);
    return s;
}

Test(sim, same_seed_same_run)
{
    uint64_t last = 0;
    PROPERTY(rng, 1000)
    {
        story one = tell(rng.state, 0), two = tell(rng.state, 0);
        HOLDS(one.hash == two.hash && one.events == two.events && one.hash != last);
        last = one.hash;
    }
}

/* Others that come and talk to each other change nothing between those who were there: streams have names. */
Test(sim, a_new_consumer_shifts_no_other)
{
    PROPERTY(rng, 300)
    {
        HOLDS(tell(rng.state, -1).hash == tell(rng.state, 2).hash);
    }
}

typedef struct order {
    htc_ns last;
    size_t n, wrong;
    int    last_number;
} order;

typedef struct at_item {
    order *o;
    htc_ns at;
    int    number;
} at_item;

static void note_order(htc_sim *sim, void *ctx)
{
    at_item *i = ctx;
    i->o->wrong +=
        htc_sim_now(sim) != i->at || i->at < i->o->last || (i->at == i->o->last && i->number < i->o->last_number);
    i->o->last = i->at;
    i->o->last_number = i->number;
    i->o->n++;
}

Test(sim, events_are_ordered_by_time_and_number)
{
    PROPERTY(rng, 500)
    {
        htc_sim *sim = probe_sim(rng.state, NULL);
        order    o = { 0 };
        int      n = (int)htc_rng_below(&rng, 500);
        for (int i = 0; i < n; i++) {
            at_item item = { &o, HTC_SIM_BEGIN + htc_rng_below(&rng, 50), i };
            htc_sim_at(sim, item.at, note_order, &item, sizeof item);
        }
        htc_sim_run(sim, 50);
        HOLDS(o.n == (size_t)n && o.wrong == 0 && htc_sim_next(sim) == HTC_EMPTY);
        htc_sim_destroy(sim);
    }
}

typedef struct more_items {
    at_item  item; /* first: it is noted as one */
    int     *numbers;
    htc_rng *rng;
} more_items;

static void add_item(htc_sim *sim, more_items from, htc_ns at);

static void note_and_add(htc_sim *sim, void *ctx)
{
    more_items *m = ctx;
    note_order(sim, &m->item);
    for (uint64_t n = htc_rng_below(m->rng, 3); n && *m->numbers < 400; n--)
        add_item(sim, *m, htc_sim_now(sim) + htc_rng_below(m->rng, 3));
}

static void add_item(htc_sim *sim, more_items m, htc_ns at)
{
    m.item.at = at;
    m.item.number = ++*m.numbers;
    htc_sim_at(sim, at, note_and_add, &m, sizeof m);
}

Test(sim, what_is_asked_for_now_comes_behind_what_was_due_now)
{
    PROPERTY(rng, 500)
    {
        htc_sim   *sim = probe_sim(rng.state, NULL);
        order      o = { 0 };
        int        numbers = 0;
        more_items first = { { &o, 0, 0 }, &numbers, &rng };
        for (int i = 0; i < 20; i++)
            add_item(sim, first, HTC_SIM_BEGIN + htc_rng_below(&rng, 5));
        htc_sim_run(sim, HTC_SECOND);
        HOLDS(o.n == (size_t)numbers && o.wrong == 0 && htc_sim_next(sim) == HTC_EMPTY);
        htc_sim_destroy(sim);
    }
}

static void again(htc_sim *sim, void *ctx)
{
    cr_expect(htc_sim_next(sim) == HTC_EINVAL && htc_sim_run(sim, 1) == HTC_EINVAL, "not from inside");
    htc_sim_at(sim, 0, again, ctx, 0);
}

static int never(void *ctx)
{
    (void)ctx;
    return 0;
}

static void count(htc_sim *sim, void *ctx)
{
    (void)sim;
    ++*(size_t *)ctx;
}

static int happened(void *ctx)
{
    return *(size_t *)ctx > 0;
}

/* The end of a span does not come round: past the last nanosecond there is none. */
Test(sim, a_span_may_have_no_end)
{
    static const htc_ns far[] = { HTC_NEVER, HTC_NEVER - 1, HTC_NEVER - HTC_SIM_BEGIN };
    for (size_t i = 0; i < sizeof far / sizeof *far; i++) {
        pair   p = pair_open(1, NULL);
        size_t calls = 0, never = 0;
        p.a->stop = 5;
        htc_sim_at(p.sim, HTC_NEVER, count, &never, 0);
        htc_sim_event(p.b->node, far[i], 1, HTC_OK, (htc_bytes){ 0 });
        cr_assert(eq(int, htc_sim_run(p.sim, far[i]), HTC_OK));
        cr_expect(eq(sz, p.b->n_got, 5), "everything happens");
        cr_expect(eq(sz, p.b->events + never, 0), "but not what never does");
        htc_ns now = htc_sim_now(p.sim);
        cr_expect(now >= p.b->at[4] && now < p.b->at[4] + HTC_SECOND, "and the clock stands at the last of it");
        cr_expect(eq(int, htc_sim_next(p.sim), HTC_EMPTY));
        cr_assert(eq(int, htc_sim_pause(p.b->node, far[i]), HTC_OK));
        cr_assert(eq(int, htc_sim_clog(p.a->node, p.b->node, far[i]), HTC_OK));
        htc_sim_event(p.b->node, 0, 1, HTC_OK, (htc_bytes){ 0 });
        cr_assert(eq(int, htc_sim_run(p.sim, 3600 * HTC_SECOND), HTC_OK));
        cr_expect(eq(u64, htc_sim_now(p.sim), now + 3600 * HTC_SECOND));
        cr_expect(htc_sim_paused(p.b->node) && !htc_sim_passes(p.a->node, p.b->node) && p.b->events == 0);
        cr_assert(eq(int, htc_sim_clog(p.a->node, p.b->node, 0), HTC_OK));
        cr_assert(eq(int, htc_sim_resume(p.b->node), HTC_OK));
        htc_sim_at(p.sim, htc_sim_now(p.sim) + HTC_SECOND, count, &calls, 0);
        cr_expect(eq(int, htc_sim_settle(p.sim, far[i], "a call", happened, &calls), HTC_OK));
        cr_expect(eq(sz, p.b->events, 1));
        cr_expect(eq(int, htc_sim_settle(p.sim, far[i], "another", happened, &never), HTC_ETIMEDOUT), "nothing is left");
        pair_close(&p);
    }
}

/* Whatever spans a network is given: order is kept, and nothing comes before it was sent. */
Test(sim, no_message_comes_before_it_was_sent)
{
    htc_sim_net nets[] = { { .latency_ns = HTC_NEVER },
                           { .jitter_ns = HTC_NEVER },
                           { .delay_ns = HTC_NEVER, .delay_ppm = 500000 },
                           { .reorder_ns = HTC_NEVER - 1, .reorder_ppm = 500000 } };
    for (size_t i = 0; i < sizeof nets / sizeof *nets; i++) {
        nets[i].size = sizeof *nets;
        pair p = pair_open(i, NULL);
        htc_sim_run(p.sim, 10 * HTC_MS);
        size_t before = p.b->n_got;
        htc_sim_set_net(p.sim, p.a->node, p.b->node, &nets[i]);
        htc_sim_run(p.sim, 100 * HTC_MS);
        cr_expect(p.b->n_got < before + 90, "most are on their way for years: %zu of %zu", p.b->n_got, before);
        for (size_t k = 1; k < p.b->n_got; k++)
            cr_expect(p.b->at[k] >= HTC_SIM_BEGIN + p.b->got[k] * HTC_MS);
        pair_close(&p);
    }
}

/* A clock that is as far ahead as can be stands there; it does not come round. */
Test(sim, clocks_end_at_the_last_nanosecond)
{
    htc_sim             *sim = probe_sim(1, NULL);
    probe                p = { 0 };
    htc_sim_node_options o = { .size = sizeof o, .name = "late", .host = &probe_host, .ctx = &p, .drift_ppm = 500000,
                               .now_offset_ns = HTC_NEVER - HTC_SIM_BEGIN - HTC_SECOND, .wall_offset_ns = INT64_MAX };
    cr_expect(eq(int, htc_sim_add(sim, &o, &p.node), HTC_EINVAL), "its wall clock would be more than that ahead");
    o.wall_offset_ns = INT64_MAX - (int64_t)HTC_SIM_WALL;
    cr_assert(eq(int, htc_sim_add(sim, &o, &p.node), HTC_OK));
    cr_assert(eq(int, htc_sim_boot(p.node), HTC_OK));
    cr_expect(eq(u64, htc_sim_node_now(p.node), HTC_NEVER - HTC_SECOND));
    cr_expect(eq(u64, htc_sim_node_wall(p.node), HTC_NEVER));
    htc_sim_run(sim, 10 * HTC_SECOND);
    cr_expect(eq(u64, htc_sim_node_now(p.node), HTC_NEVER));
    htc_sim_run(sim, HTC_NEVER - htc_sim_now(sim) - 1);
    cr_expect(eq(u64, htc_sim_now(sim), HTC_NEVER - 1));
    cr_expect(eq(u64, htc_sim_node_now(p.node), HTC_NEVER));
    cr_expect(eq(u64, htc_sim_wall(sim), HTC_NEVER));
    htc_sim_destroy(sim);
}

Test(sim, time_that_stands_still_and_missing_progress_are_failures)
{
    htc_sim *sim = NULL;
    htc_sim_create(NULL, &(htc_sim_options){ .size = sizeof(htc_sim_options), .still_max = 100 }, &sim);
    htc_sim_at(sim, 0, again, NULL, 0);
    cr_expect(htc_sim_run(sim, HTC_SECOND) == HTC_EINTERNAL && strstr(htc_sim_failure(sim), "stands still"));
    htc_sim_destroy(sim);
    pair p = pair_open(1, NULL);
    cr_expect(htc_sim_settle(p.sim, HTC_SECOND, "hope", never, NULL) == HTC_ETIMEDOUT);
    cr_expect(strstr(htc_sim_failure(p.sim), "no progress: hope") != NULL);
    pair_close(&p);
}

/* ---- streams ---- */

static void send_some(pair *p, htc_rng *rng, htc_buf *all)
{
    (void)p;
    for (uint64_t n = 1 + htc_rng_below(rng, 300); n; n--)
        htc_put_u8(all, (uint8_t)htc_rng_next(rng));
}

typedef struct talker { /* sends what it is given as an event */
    uint32_t peer;
    size_t   sent_told, closed, eof;
    int      close_at_eof;
} talker;

static htc_status talk(void *self, const htc_input *in, htc_output *out)
{
    talker *t = self;
    t->closed += in->kind == HTC_IN_CLOSED;
    t->sent_told += in->kind == HTC_IN_SENT;
    if (in->kind == HTC_IN_EVENT && in->op == 2)
        return htc_output_add(out, &(htc_effect){ .kind = HTC_OUT_CLOSE, .peer = t->peer });
    if (in->kind == HTC_IN_EVENT)
        return htc_output_add(out,
                              &(htc_effect){ .kind = HTC_OUT_BYTES, .peer = t->peer, .tag = in->op, .body = in->body });
    return HTC_OK;
}

static htc_ns no_deadline(const void *self)
{
    (void)self;
    return HTC_NEVER;
}

static htc_status talker_boot(void *ctx, htc_sim_node *node)
{
    static const htc_machine_ops ops = { sizeof ops, talk, no_deadline, NULL, 0 };
    return htc_sim_install(node, &ops, ctx);
}

static const htc_sim_host talker_host = { .size = sizeof talker_host, .boot = talker_boot };

/* What was sent arrives, byte for byte, cut anywhere; broken off at any byte. */
static void stream_case(htc_rng *rng, uint32_t cut_ppm, uint32_t break_ppm, size_t *pieces, size_t *broken,
                        size_t *sends)
{
    htc_sim_net net = {
        .size = sizeof net, .jitter_ns = HTC_MS, .loss_ppm = 300000, .cut_ppm = cut_ppm, .break_ppm = break_ppm
    };
    htc_sim      *sim = probe_sim(rng->state, &net);
    talker        t = { .peer = 1 };
    probe         b = { 0 };
    htc_sim_node *node = NULL;
    htc_buf       all;
    htc_buf_init(&all, NULL, 0);
    probe_add(sim, "b", &b);
    htc_sim_add(
        sim,
        &(htc_sim_node_options){ .size = sizeof(htc_sim_node_options), .name = "t", .host = &talker_host, .ctx = &t },
        &node);
    htc_sim_boot(node);
    htc_sim_dial(node, 1, b.node,
                 &(htc_sim_dial_options){ .size = sizeof(htc_sim_dial_options), .stream = 1, .once = 1 });
    htc_sim_run(sim, 20 * HTC_MS);
    for (int i = 0; i < 10; i++) {
        size_t first = all.len;
        send_some(NULL, rng, &all);
        htc_sim_event(node, 0, 1, HTC_OK, (htc_bytes){ all.data + first, all.len - first });
        htc_sim_run(sim, htc_rng_below(rng, 3 * HTC_MS));
        *sends += 1;
    }
    htc_sim_run(sim, 100 * HTC_MS);
    HOLDS(b.stream.len <= all.len && memcmp(b.stream.data ? b.stream.data : all.data, all.data, b.stream.len) == 0);
    HOLDS(b.closed || b.stream.len == all.len);
    HOLDS(b.closed || t.sent_told >= 1);
    *pieces += b.pieces;
    *broken += b.closed && b.stream.len < all.len;
    if (!b.closed) { /* the end comes behind everything, once */
        htc_sim_event(node, 0, 2, HTC_OK, (htc_bytes){ 0 });
        htc_sim_run(sim, 100 * HTC_MS);
        HOLDS(b.eof == 1 && t.closed == 0);
    }
    htc_sim_destroy(sim);
    htc_buf_free(&b.stream);
    htc_buf_free(&all);
}

Test(sim, streams_are_cut_at_every_byte_and_lose_nothing)
{
    size_t pieces = 0, broken = 0, sends = 0, whole = 0, whole_sends = 0;
    PROPERTY(rng, 500)
    stream_case(&rng, 700000, 0, &pieces, &broken, &sends);
    cr_expect(broken == 0 && pieces > sends + sends / 2, "%zu pieces of %zu", pieces, sends);
    PROPERTY(rng, 100)
    stream_case(&rng, 0, 0, &whole, &broken, &whole_sends);
    cr_expect(broken == 0 && whole <= whole_sends && whole > whole_sends / 2, "joined, never cut: %zu of %zu", whole,
              whole_sends);
    PROPERTY_ALL(rng, 500)
    stream_case(&rng, 700000, 50000, &pieces, &broken, &sends);
    cr_expect(broken > 100, "%zu broke off", broken);
}

/* ---- memory ---- */

Test(sim, refused_memory_is_an_error_and_nothing_leaks)
{
    ALLOC_FAIL_EVERY(f, 2000)
    {
        htc_env     env = alloc_fail_env(&f);
        htc_sim    *sim = NULL;
        htc_sim_net net = { .size = sizeof net, .loss_ppm = 1000, .duplicate_ppm = 100000, .break_ppm = 50000 };
        probe       a = { .beat = HTC_MS, .peer = 1 }, b = { 0 };
        htc_status  status =
            htc_sim_create(&env, &(htc_sim_options){ .size = sizeof(htc_sim_options), .net = &net }, &sim);
        htc_sim_node_options one = { .size = sizeof one, .name = "a", .host = &probe_host, .ctx = &a }, two = one;
        two.name = "b";
        two.ctx = &b;
        if (status == HTC_OK) {
            htc_sim_add(sim, &one, &a.node);
            htc_sim_add(sim, &two, &b.node);
            htc_sim_boot(a.node);
            htc_sim_boot(b.node);
            htc_sim_dial(a.node, 1, b.node, NULL);
            for (int i = 0; i < 20; i++) {
                status = htc_sim_run(sim, 20 * HTC_MS);
                htc_sim_clog(a.node, b.node, 5 * HTC_MS);
                if (i == 10) {
                    htc_sim_crash(b.node);
                    htc_sim_boot(b.node);
                }
            }
        }
        cr_assert(status == (f.refused ? HTC_ENOMEM : HTC_OK), "refusal %zu: %s", f.fail_at, htc_status_name(status));
        htc_sim_destroy(sim);
        cr_assert(f.live == 0 && f.wrong_sizes == 0, "refusal %zu: %zu pieces are left", f.fail_at, f.live);
    }
}

/* In the steady state nothing is allocated. */
Test(sim, events_are_used_again)
{
    alloc_fail f = alloc_fail_at(0);
    htc_env    env = alloc_fail_env(&f);
    htc_sim   *sim = NULL;
    probe      a = { .beat = HTC_MS, .peer = 1 }, b = { 0 };
    htc_sim_create(&env, NULL, &sim);
    probe_add(sim, "a", &a);
    probe_add(sim, "b", &b);
    htc_sim_dial(a.node, 1, b.node, NULL);
    htc_sim_run(sim, HTC_SECOND);
    size_t calls = f.calls;
    htc_sim_run(sim, 2 * HTC_SECOND);
    cr_expect(f.calls == calls, "%zu allocations for 2000 messages", f.calls - calls);
    htc_sim_destroy(sim);
}

Test(sim, null_is_an_invalid_argument)
{
    htc_sim *sim = NULL;
    cr_expect(htc_sim_create(NULL, NULL, NULL) == HTC_EINVAL && htc_sim_add(NULL, NULL, NULL) == HTC_EINVAL);
    cr_expect(htc_sim_boot(NULL) == HTC_EINVAL && htc_sim_crash(NULL) == HTC_EINVAL && !htc_sim_up(NULL));
    cr_expect(htc_sim_run(NULL, 1) == HTC_EINVAL && htc_sim_next(NULL) == HTC_EINVAL &&
              htc_sim_status(NULL) == HTC_EINVAL);
    cr_expect(htc_sim_dial(NULL, 1, NULL, NULL) == HTC_EINVAL && htc_sim_clog(NULL, NULL, 1) == HTC_EINVAL);
    cr_expect(htc_sim_create(NULL, &(htc_sim_options){ 0 }, &sim) == HTC_EINVAL && !sim);
    htc_sim_destroy(NULL);
}

/* ---- fault points ---- */

Test(sim, fault_points_are_drawn_once_a_run_and_fire_one_time_in_four)
{
#ifdef HTC_FAULTS
    size_t enabled = 0;
    for (uint64_t seed = 1; seed <= 200; seed++) {
        htc_sim *sim = NULL;
        probe    a = { 0 };
        size_t   fired = 0;
        htc_sim_create(NULL, &(htc_sim_options){ .size = sizeof(htc_sim_options), .seed = seed, .points_ppm = 250000 },
                       &sim);
        probe_add(sim, "a", &a);
        for (int i = 0; i < 400; i++)
            fired += HTC__FAULT(htc_sim_env(a.node), a_test_of_itself) != 0;
        cr_expect(fired == 0 || (fired > 50 && fired < 150), "%zu of 400", fired);
        enabled += fired > 0;
        htc_sim_destroy(sim);
    }
    cr_expect(enabled > 25 && enabled < 75, "%zu of 200 runs", enabled);
    cr_expect(!HTC__BROKEN(ack_before_sync));
    htc__broken_set(htc__broken_find("ack_before_sync"), 1);
    cr_expect(HTC__BROKEN(ack_before_sync) && !HTC__BROKEN(ballot_reused));
#else
    const htc_env *env = NULL;
    _Static_assert(HTC__FAULT(env, nothing) == 0 && HTC__BROKEN(ack_before_sync) == 0, "constants, and false");
    cr_skip_test("built without -Dfaults=true: the points are constants");
#endif
}
