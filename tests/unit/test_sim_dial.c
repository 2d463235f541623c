/* Connections that a node dials: their numbers, how many there may be, and their end by hand. */
#include "htcsched/sim_flow.h"
#include "sim_probe.h"

/* A number names one connection of a node. Two under one number used to answer for each other. */
Test(sim_dial, a_number_that_is_dialled_is_not_dialled_again)
{
    static const htc_sim_dial_options once = { .size = sizeof once, .once = 1 };
    pair                              p = pair_open(2, NULL);
    cr_expect(eq(int, htc_sim_dial(p.a->node, 1, p.b->node, NULL), HTC_EINVAL), "not tried yet");
    htc_sim_run(p.sim, 10 * HTC_MS);
    cr_expect(eq(int, htc_sim_dial(p.a->node, 1, p.b->node, &once), HTC_EINVAL), "open");
    cr_assert(eq(sz, p.b->opened, 1));
    htc_sim_break(p.a->node, p.b->node);
    htc_sim_run(p.sim, 10 * HTC_MS);
    cr_expect(eq(int, htc_sim_dial(p.a->node, 1, p.b->node, NULL), HTC_EINVAL), "to be dialled again");
    cr_assert(eq(int, htc_sim_dial(p.a->node, 2, p.b->node, &once), HTC_OK), "another number");
    htc_sim_run(p.sim, 200 * HTC_MS);
    cr_assert(eq(sz, p.b->opened, 3));
    cr_expect(eq(int, htc_sim_dial(p.a->node, 2, p.b->node, &once), HTC_EINVAL));
    for (size_t round = 0; round < 100; round++) { /* one that is over leaves its number, and no other's */
        size_t closed = p.a->closed, opened = p.b->opened;
        htc_sim_break(p.a->node, p.b->node);
        cr_expect(eq(int, htc_sim_dial(p.a->node, 2, p.b->node, &once), HTC_EINVAL), "nobody has been told");
        htc_sim_run(p.sim, 10 * HTC_MS);
        cr_assert(eq(sz, p.a->closed, closed + 2));
        cr_assert(eq(int, htc_sim_dial(p.a->node, 2, p.b->node, &once), HTC_OK));
        cr_assert(eq(int, htc_sim_dial(p.a->node, 1, p.b->node, NULL), HTC_EINVAL));
        htc_sim_run(p.sim, 200 * HTC_MS);
        cr_assert(eq(sz, p.b->opened, opened + 2));
    }
    htc_sim_crash(p.a->node);
    htc_sim_boot(p.a->node);
    cr_expect(eq(int, htc_sim_dial(p.a->node, 1, p.b->node, NULL), HTC_OK), "a new machine");
    htc_sim_run(p.sim, HTC_SECOND);
    cr_expect(eq(sz, p.b->n_got > 0, 1));
    pair_close(&p);
}

/* The largest group of workers that is simulated: each calls all others. Numbers that one node dials used to reach those that it accepts at the
 * 1,000th, and the dial was refused. */
Test(sim_dial, a_node_dials_as_many_as_a_flow_has_workers)
{
    const size_t most = HTC_SIM_FLOW_WORKERS_MAX;
    pair         p = pair_open(3, NULL);
    cr_assert(eq(int, htc_sim_dial(p.b->node, 1, p.a->node, NULL), HTC_OK));
    htc_sim_run(p.sim, 10 * HTC_MS);
    cr_assert(eq(sz, p.a->opened, 2) && eq(sz, p.b->opened, 2), "each accepts one before it dials the others");
    for (uint32_t peer = 2; peer <= most; peer++) {
        cr_assert(eq(int, htc_sim_dial(p.a->node, peer, p.b->node, NULL), HTC_OK), "number %u", peer);
        cr_assert(eq(int, htc_sim_dial(p.b->node, peer, p.a->node, NULL), HTC_OK), "number %u", peer);
    }
    htc_sim_run(p.sim, 10 * HTC_MS);
    cr_expect(eq(sz, p.a->opened, 2 * most) && eq(sz, p.b->opened, 2 * most));
    htc_sim_break(p.a->node, p.b->node);
    htc_sim_run(p.sim, HTC_SECOND);
    cr_expect(eq(sz, p.a->closed, 2 * most) && eq(sz, p.a->opened, 4 * most), "each under its own number again");
    cr_expect(eq(int, htc_sim_dial(p.a->node, HTC_SIM_PEER_FIRST, p.b->node, NULL), HTC_EINVAL), "the first that it accepts");
    pair_close(&p);
}

/* A connection that was hung up stays away, whether it was there, broken or not made yet; its number is free again. */
Test(sim_dial, what_was_hung_up_is_not_dialled_again)
{
    pair p = pair_open(2, NULL);
    cr_expect(eq(int, htc_sim_hang_up(NULL, 1), HTC_EINVAL) && eq(int, htc_sim_hang_up(p.a->node, 7), HTC_ENOTFOUND));
    cr_expect(eq(int, htc_sim_hang_up(p.a->node, 1), HTC_OK), "not made yet");
    htc_sim_run(p.sim, HTC_SECOND);
    cr_assert(eq(sz, p.b->opened, 0) && eq(int, htc_sim_dial(p.a->node, 1, p.b->node, NULL), HTC_OK));
    htc_sim_run(p.sim, HTC_SECOND);
    cr_expect(eq(int, htc_sim_hang_up(p.a->node, 1), HTC_OK), "open");
    htc_sim_run(p.sim, HTC_SECOND);
    cr_expect(eq(sz, p.b->opened, 1) && eq(sz, p.b->closed, 1) && eq(sz, p.a->closed, 1));
    cr_expect(eq(int, htc_sim_hang_up(p.a->node, 1), HTC_ENOTFOUND), "it is over");
    cr_assert(eq(int, htc_sim_dial(p.a->node, 1, p.b->node, NULL), HTC_OK));
    htc_sim_run(p.sim, HTC_SECOND);
    htc_sim_break(p.a->node, p.b->node);
    htc_sim_run(p.sim, 10 * HTC_MS);
    cr_expect(eq(int, htc_sim_hang_up(p.a->node, 1), HTC_OK), "broken, and to be dialled again");
    htc_sim_run(p.sim, HTC_SECOND);
    cr_expect(eq(sz, p.b->opened, 2));
    cr_assert(eq(int, htc_sim_dial(p.a->node, 1, p.b->node, NULL), HTC_OK));
    htc_sim_crash(p.b->node); /* it waits at a node that is down */
    htc_sim_run(p.sim, HTC_SECOND);
    cr_expect(eq(int, htc_sim_hang_up(p.a->node, 1), HTC_OK));
    htc_sim_boot(p.b->node);
    htc_sim_run(p.sim, HTC_SECOND);
    cr_expect(eq(sz, p.b->opened, 2));
    pair_close(&p);
}
