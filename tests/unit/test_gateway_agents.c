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

/* Olga's queue is long and Ann's is empty: Ann's agent is told to end, though there are tasks that it could run. */
Test(gateway_agents, an_agent_gets_no_task_of_another_user)
{
    uint32_t    p = operator_peer();
    htc_attempt at;
    cr_assert(eq(str, (char *)(uintptr_t)refusal(p, "{\"op\":\"user.add\",\"name\":\"ann\",\"password\":\"secret\"}"), ""));
    uint64_t hers = submit(p, "ann", SWEEP(1));
    rig_pass(&r, 100 * HTC_MS);
    cr_assert(eq(sz, r.n_launched, 1));
    hand h = hello(r.launched[0].agent);
    uint64_t other = submit(p, "olga", SWEEP(100));
    cr_assert(eq(u32, pull(&h, &at), HTC_GRANT_TASKS));
    cr_expect(eq(u64, at.job, hers));
    ten_seconds();
    cr_assert(eq(int, report(&h, &at, HTC_OK), HTC_OK));
    cr_expect(eq(u32, pull(&h, &at), HTC_GRANT_EXIT));
    cr_expect(eq(long, (long)count_of(p, hers, "done"), 1L));
    cr_expect(eq(long, (long)count_of(p, other, "waiting"), 100L), "some of them have been handed out");
    for (size_t i = 1; i < r.n_launched; i++) { /* those that come for Olga get hers */
        hand o = hello(r.launched[i].agent);
        cr_assert(eq(u32, pull(&o, &at), HTC_GRANT_TASKS));
        cr_expect(eq(u64, at.job, other));
    }
    cr_expect(r.n_launched > 1, "no agent was launched for her");
}

/* What the newest grant to it has, up to eight tasks. */
static uint32_t pull_eight(hand *h, htc_attempt *at)
{
    static htc_grant g;
    htc_buf          b;
    htc_buf_init(&b, NULL, 0);
    htc_pull_write(&b, &(htc_pull){ .agent = h->id, .seq = ++h->seq, .want = 8, .last_grant = h->last_grant });
    rig_say(&r, h->peer, &b);
    htc_buf_free(&b);
    const rig_message *m = rig_newest(&r, h->peer, HTC_WIRE_GRANT);
    htc_reader         in = htc_reader_of((htc_bytes){ m->bytes, m->len });
    cr_assert(eq(int, htc_grant_read(&in, &g), HTC_OK));
    for (uint32_t i = 0; i < g.count; i++)
        at[i] = g.tasks[i].attempt;
    h->last_grant = g.grant;
    return g.count;
}

/* Of two agents with several tasks each, begun and not begun, both are lost, the later one first: their tasks are handed out as they were before. */
Test(gateway_agents, tasks_of_lost_agents_go_first_in_their_order)
{
    htc_attempt at[2][8], next;
    hand        h[3];
    rig_kill(&r);
    r.prefetch = 8;
    rig_start(&r);
    submit(operator_peer(), "olga", SWEEP(100));
    rig_pass(&r, 100 * HTC_MS);
    cr_assert(ge(sz, r.n_launched, 3));
    for (int i = 0; i < 3; i++)
        h[i] = hello(r.launched[i].agent);
    for (int i = 0; i < 2; i++) {
        cr_assert(eq(u32, pull(&h[i], &at[i][0]), HTC_GRANT_TASKS));
        cr_assert(eq(int, report_after(&h[i], &at[i][0], HTC_OK, HTC_US, ""), HTC_OK));
    }
    for (int i = 0; i < 2; i++)
        cr_assert(eq(u32, pull_eight(&h[i], at[i]), 8));
    cr_assert(at[0][0].task == 2 && at[1][7].task == 17);
    for (int i = 0; i < 2; i++)
        cr_assert(eq(int, report_after(&h[i], &at[i][i], HTC_OK, HTC_US, ""), HTC_OK));
    process_ended(h[1].id);
    process_ended(h[0].id);
    for (uint64_t is = 3; is < 18; is++)
        if (is != 11) {
            cr_assert(eq(u32, pull(&h[2], &next), HTC_GRANT_TASKS));
            cr_expect(eq(u64, next.task, is));
        }
    cr_assert(eq(u32, pull(&h[2], &next), HTC_GRANT_TASKS));
    cr_expect(eq(u64, next.task, 18), "then those that nobody had");
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

/* ---- "Scratch full" of HTCaaS, failure handling ---- */

static json_t *local_site(uint32_t peer)
{
    json_t *answer = rig_ask(&r, peer, "{\"op\":\"agents\"}"), *site = json_incref(json_array_get(json_object_get(answer, "sites"), 0));
    json_decref(answer);
    return site;
}

static void expect_site(uint32_t peer, int failed, const char *reason)
{
    json_t *site = local_site(peer);
    cr_expect(eq(int, json_is_true(json_object_get(site, "disk_failed")), failed));
    cr_expect(strcmp(json_string_value(json_object_get(site, "reason")), reason) == 0, "reason: %s", json_string_value(json_object_get(site, "reason")));
    json_decref(site);
}

static void give_back_and_leave(const hand *h, const htc_attempt *at)
{
    htc_buf b;
    htc_buf_init(&b, NULL, 0);
    htc_give_back_write(&b, &(htc_give_back){ .agent = h->id, .count = 1, .attempts = { *at } });
    rig_say(&r, h->peer, &b);
    htc_bye_write(&b, &(htc_bye){ h->id, HTC_ENOSPC, "staging in: the disk is full: slots/local.0" });
    rig_say(&r, h->peer, &b);
    htc_buf_free(&b);
    process_of_ended(h->id, h->id);
}

/* The task waits again and nothing is charged; the site is marked until a task that began later has ended well there. */
Test(gateway_agents, a_site_with_a_full_disk_is_marked)
{
    uint32_t    p = operator_peer();
    htc_attempt at, second;
    uint64_t    id = submit(p, "olga", SWEEP(2));
    rig_pass(&r, 100 * HTC_MS);
    hand h = hello(r.launched[0].agent), other = hello(r.launched[1].agent);
    cr_assert(eq(u32, pull(&h, &at), HTC_GRANT_TASKS) && eq(u32, pull(&other, &second), HTC_GRANT_TASKS));
    expect_site(p, 0, "");
    give_back_and_leave(&h, &at);
    expect_site(p, 1, "staging in: the disk is full: slots/local.0");
    cr_expect(eq(int, (int)count_of(p, id, "waiting"), 1) && eq(int, (int)count_of(p, id, "retry_wait"), 0));
    report(&other, &second, HTC_OK);
    expect_site(p, 1, "staging in: the disk is full: slots/local.0"); /* what began before says nothing */
    rig_pass(&r, HTC_SECOND);
    cr_assert(eq(u32, pull(&other, &at), HTC_GRANT_TASKS) && gt(u32, at.attempt, 1));
    expect_site(p, 1, "staging in: the disk is full: slots/local.0");
    report(&other, &at, HTC_OK);
    expect_site(p, 0, "");
    cr_expect(eq(int, (int)count_of(p, id, "done"), 2));
}

/* A task that runs, or stores what it left, is given back for nothing twice. Then each time is a failed attempt; one that has not begun is never charged. */
Test(gateway_agents, a_task_that_fills_each_disk_fails)
{
    uint32_t    p = operator_peer();
    htc_attempt at;
    uint64_t    id = submit(p, "olga", SWEEP(1));
    for (uint32_t n = 1; n <= 10 && !count_of(p, id, "failed"); n++) {
        rig_pass(&r, 30 * HTC_SECOND);
        hand    h = hello(r.launched[r.n_launched - 1].agent);
        htc_buf b;
        cr_assert(eq(u32, pull(&h, &at), HTC_GRANT_TASKS), "round %u", n);
        if (n > 3) { /* the first three have not begun */
            static htc_heartbeat beat;
            htc_buf_init(&b, NULL, 0);
            htc_started_write(&b, &(htc_started){ .agent = h.id, .attempt = at });
            rig_say(&r, h.peer, &b);
            if (n % 2) { /* it has ended, and its outputs cannot be stored */
                beat = (htc_heartbeat){ .agent = h.id, .seq = 1, .held = { .count = 1, .held = { { at, HTC_HELD_STAGING_OUT } } } };
                htc_heartbeat_write(&b, &beat);
                rig_say(&r, h.peer, &b);
            }
            htc_buf_free(&b);
            rig_pass(&r, HTC_SECOND);
        }
        give_back_and_leave(&h, &at);
        uint64_t ran = n > 3 ? n - 3 : 0;
        cr_expect(eq(u64, (uint64_t)count_of(p, id, "failed"), ran >= 5), "round %u", n);
        cr_expect(eq(u64, (uint64_t)count_of(p, id, "waiting"), ran <= 2), "round %u", n);
        cr_expect(eq(u64, (uint64_t)count_of(p, id, "retry_wait"), ran == 3 || ran == 4), "round %u", n);
    }
    cr_expect(eq(u32, at.attempt, 8), "three that have not begun, two for nothing, three that are charged");
}

/* It runs, ends, and is cancelled and given back while its outputs are stored: all that time was used. */
Test(gateway_agents, what_a_cancelled_task_took_counts)
{
    uint32_t    p = operator_peer();
    htc_attempt at;
    htc_buf     b;
    char        cancel[60];
    uint64_t    id = submit(p, "olga", SWEEP(1));
    rig_pass(&r, 100 * HTC_MS);
    hand h = hello(r.launched[0].agent);
    cr_assert(eq(u32, pull(&h, &at), HTC_GRANT_TASKS));
    htc_buf_init(&b, NULL, 0);
    htc_started_write(&b, &(htc_started){ .agent = h.id, .attempt = at });
    rig_say(&r, h.peer, &b);
    for (uint32_t i = 1; i <= 4; i++) {
        static htc_heartbeat beat;
        rig_pass(&r, 20 * HTC_SECOND);
        beat = (htc_heartbeat){ .agent = h.id, .seq = i, .last_grant = h.last_grant, .next = 20 * HTC_SECOND,
                                .held = { .count = 1, .held = { { at, i < 3 ? HTC_HELD_RUNNING : HTC_HELD_STAGING_OUT } } } };
        htc_heartbeat_write(&b, &beat);
        rig_say(&r, h.peer, &b);
    }
    htc_buf_free(&b);
    snprintf(cancel, sizeof cancel, "{\"op\":\"cancel\",\"id\":\"%llu\"}", (unsigned long long)id);
    json_decref(rig_ask(&r, p, cancel));
    give_back_and_leave(&h, &at);
    cr_expect(eq(int, (int)count_of(p, id, "cancelled"), 1));
    json_t *answer = rig_ask(&r, p, "{\"op\":\"report\",\"by\":[\"day\"]}");
    double  core_s = json_number_value(json_object_get(json_object_get(answer, "total"), "core_s"));
    cr_expect(core_s >= 80 && core_s <= 81, "%g", core_s);
    json_decref(answer);
}

/* An agent asks for more while a short task runs. With one task for each slot it waits until that has ended. */
Test(gateway_agents, hands_out_none_ahead_where_each_slot_gets_one)
{
    uint32_t    p = operator_peer();
    htc_attempt at, more;
    submit(p, "olga", SWEEP(20));
    rig_pass(&r, 100 * HTC_MS);
    hand h = hello(r.launched[0].agent);
    cr_assert(eq(u32, pull(&h, &at), HTC_GRANT_TASKS));
    cr_expect(eq(u32, pull(&h, &more), HTC_GRANT_WAIT));
    cr_expect(eq(int, report(&h, &at, HTC_OK), HTC_OK));
    cr_expect(eq(u32, pull(&h, &more), HTC_GRANT_TASKS));
}
