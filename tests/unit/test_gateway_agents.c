/* What the gateway's host has launched: by its handle it is known, watched and ended. */
#include "gateway_hand.h"

TestSuite(gateway_agents, .init = begin, .fini = end);

static void process_of_ended(uint64_t agent, uint64_t handle_of)
{
    htc_buf b;
    htc_buf_init(&b, NULL, 0);
    htc_put_u64(&b, agent);
    rig_put_handle(&b, handle_of);
    htc_put_str(&b, "");
    rig_gateway(&r, &(htc_input){ .size = sizeof(htc_input), .now = r.now, .wall = r.wall, .kind = HTC_IN_EVENT, .op = HTC_EVENT_AGENT_EXIT, .body = htc_buf_bytes(&b) });
    htc_buf_free(&b);
    rig_pass(&r, 100 * HTC_MS);
}

/* A handle is compared as a whole: the end of something else that has the agent's number is not its end. */
Test(gateway_agents, an_agent_ends_with_the_handle_that_it_was_launched_as)
{
    uint32_t    p = operator_peer();
    htc_attempt at;
    submit(p, "olga", SWEEP(1));
    rig_pass(&r, 100 * HTC_MS);
    hand h = hello(r.launched[0].agent);
    cr_assert(eq(u32, pull(&h, &at), HTC_GRANT_TASKS));
    process_of_ended(h.id, h.id + 1);
    cr_expect(eq(sz, r.n_launched, 1), "it runs on");
    process_of_ended(h.id, h.id);
    cr_expect(eq(sz, r.n_launched, 2), "it has ended");
}

/* The gateway ends with the handle: the next one has it from the store, asks for it to be watched, and can end it. */
Test(gateway_agents, a_handle_outlives_the_gateway)
{
    uint32_t    p = operator_peer();
    htc_attempt at;
    submit(p, "olga", SWEEP(1));
    rig_pass(&r, 100 * HTC_MS);
    hand h = hello(r.launched[0].agent);
    cr_assert(eq(u32, pull(&h, &at), HTC_GRANT_TASKS));
    rig_kill(&r);
    rig_start(&r);
    cr_expect(eq(u32, r.calls[HTC_CALL_WATCH_AGENT], 1) && eq(u32, r.calls[HTC_CALL_KILL_AGENT], 0));
    process_of_ended(h.id, h.id + 1);
    rig_pass(&r, 3600 * HTC_SECOND);
    cr_expect(r.calls[HTC_CALL_KILL_AGENT] >= 1, "it is silent");
    cr_expect(eq(u64, r.killed, h.id), "by its handle");
}

/* What is said on a connection counts for the agent that registered on it: a second one there would make it deaf. */
Test(gateway_agents, a_connection_speaks_for_one_agent)
{
    uint32_t p = operator_peer();
    submit(p, "olga", SWEEP(2));
    rig_pass(&r, 100 * HTC_MS);
    cr_assert(ge(sz, r.n_launched, 2));
    hand            h = hello(r.launched[0].agent);
    htc_agent_hello m = { .agent = r.launched[1].agent, .slots = 1, .cores = 4, .node = "node1" };
    htc_buf         b;
    cr_expect(eq(int, welcome_of(&h), HTC_OK));
    htc_buf_init(&b, NULL, 0);
    htc_agent_hello_write(&b, &m);
    rig_say(&r, h.peer, &b);
    htc_buf_free(&b);
    cr_expect(eq(u32, r.closed, h.peer));
    hand second = hello(r.launched[1].agent);
    cr_expect(eq(int, welcome_of(&second), HTC_OK), "on its own it is welcome");
}

/* One that has said how long it will be silent is not given up before that; nobody may say so for ever. */
Test(gateway_agents, an_agent_may_rest)
{
    static const struct {
        htc_ns next, alive, dead; /* after the heartbeat */
    } t[] = {
        { 0, 25, 35 },
        { 10 * HTC_SECOND, 25, 35 },
        { 60 * HTC_SECOND, 75, 85 },
        { UINT64_MAX, 175, 185 }, /* as 16 heartbeats */
    };
    for (size_t i = 0; i < sizeof t / sizeof *t; i++) {
        uint32_t    p = operator_peer();
        htc_attempt at;
        htc_buf     b;
        submit(p, "olga", SWEEP(1));
        rig_pass(&r, 100 * HTC_MS);
        hand h = hello(r.launched[0].agent);
        cr_assert(eq(u32, pull(&h, &at), HTC_GRANT_TASKS));
        htc_heartbeat beat = { .agent = h.id, .seq = 1, .last_grant = h.last_grant, .next = t[i].next, .held = { .count = 1, .held = { { at, HTC_HELD_RUNNING } } } };
        htc_buf_init(&b, NULL, 0);
        htc_heartbeat_write(&b, &beat);
        rig_say(&r, h.peer, &b);
        htc_buf_free(&b);
        rig_pass(&r, t[i].alive * HTC_SECOND);
        cr_expect(eq(u32, r.calls[HTC_CALL_KILL_AGENT], 0), "%zu", i);
        rig_pass(&r, (t[i].dead - t[i].alive) * HTC_SECOND);
        cr_expect(ge(u32, r.calls[HTC_CALL_KILL_AGENT], 1), "%zu", i);
        end();
        begin();
    }
}
