/* Agents of several slots: how many a user's agent gets, how it is told of more and of fewer, and when a slot is free for somebody else.
 * The site has four slots; the agents are in the test's hand. */
#include "gateway_hand.h"

static void several(htc_gateway_options *o)
{
    o->slots_max = 64;
    o->prefetch_max = 2;
    o->heartbeat_ns = HTC_SECOND;
}

static void begin_several(void)
{
    begin();
    rig_kill(&r);
    r.change = several;
    rig_start(&r);
}

TestSuite(gateway_slots, .init = begin_several, .fini = end);

static hand hello_of(uint64_t agent, uint32_t slots)
{
    hand            h = { .id = agent, .peer = rig_open(&r, RIG_UID, HTC_WIRE_ROLE_AGENT) };
    htc_agent_hello m = { .agent = agent, .slots = slots, .cores = 4, .node = "node1" };
    htc_buf         b;
    htc_buf_init(&b, NULL, 0);
    htc_agent_hello_write(&b, &m);
    rig_say(&r, h.peer, &b);
    htc_buf_free(&b);
    return h;
}

/* Pull up to want: how many tasks came, and which; the kind, if they are none. */
static uint32_t pull_many(hand *h, uint32_t want, htc_attempt *at, uint32_t *kind)
{
    static htc_grant g;
    htc_buf          b;
    htc_buf_init(&b, NULL, 0);
    htc_pull_write(&b, &(htc_pull){ .agent = h->id, .seq = ++h->seq, .want = want, .last_grant = h->last_grant });
    rig_say(&r, h->peer, &b);
    htc_buf_free(&b);
    const rig_message *m = rig_newest(&r, h->peer, HTC_WIRE_GRANT);
    cr_assert(m != NULL, "no grant");
    htc_reader in = htc_reader_of((htc_bytes){ m->bytes, m->len });
    cr_assert(eq(int, htc_grant_read(&in, &g), HTC_OK));
    *kind = g.kind;
    if (g.kind == HTC_GRANT_TASKS)
        h->last_grant = g.grant;
    for (uint32_t i = 0; i < g.count; i++)
        at[i] = g.tasks[i].attempt;
    return g.count;
}

/* What SLOTS said last; 0: it was never sent. */
static htc_slots told(const hand *h)
{
    htc_slots          s = { 0 };
    const rig_message *m = rig_newest(&r, h->peer, HTC_WIRE_SLOTS);
    htc_reader         in = htc_reader_of((htc_bytes){ m ? m->bytes : NULL, m ? m->len : 0 });
    cr_assert(!m || htc_slots_read(&in, &s) == HTC_OK);
    return s;
}

static void say_held(const hand *h, uint64_t seq, uint32_t slots)
{
    htc_buf b;
    htc_buf_init(&b, NULL, 0);
    htc_slots_held_write(&b, &(htc_slots_held){ h->id, seq, slots });
    rig_say(&r, h->peer, &b);
    htc_buf_free(&b);
    rig_pass(&r, 100 * HTC_MS);
}

static uint32_t free_slots(void)
{
    htc_gateway_books b = { .size = sizeof b };
    cr_assert(eq(int, htc_gateway_audit(r.gateway, 1, &b), HTC_OK));
    cr_expect(eq(str, b.wrong, ""));
    return b.free;
}

static void add_user(uint32_t p, const char *name)
{
    char text[96];
    snprintf(text, sizeof text, "{\"op\":\"user.add\",\"name\":\"%s\",\"password\":\"pw\"}", name);
    json_decref(rig_ask(&r, p, text));
}

/* All that the user is due on the node: one process, and one pull fills it. */
Test(gateway_slots, one_agent_gets_all_that_its_user_is_due)
{
    uint32_t    p = operator_peer(), kind;
    htc_attempt at[64];
    uint64_t    id = submit(p, "olga", SWEEP(10));
    rig_pass(&r, 100 * HTC_MS);
    cr_assert(eq(sz, r.n_launched, 1));
    cr_expect(eq(u32, r.launched[0].slots, 4));
    cr_expect(eq(u32, free_slots(), 0));
    hand h = hello_of(r.launched[0].agent, 4);
    cr_expect(eq(u64, told(&h).seq, 0), "it knows");
    cr_expect(eq(u32, pull_many(&h, 100, at, &kind), 4));
    cr_expect(eq(u32, pull_many(&h, 100, at, &kind), 1), "one that waits there, as of an agent of one slot");
    cr_expect(eq(long, (long)count_of(p, id, "leased"), 5));
}

/* More slots are told only when the record says so: a gateway that starts again believes the record, and says them again. */
Test(gateway_slots, an_agent_grows_by_its_record)
{
    uint32_t    p = operator_peer(), kind;
    htc_attempt at[64];
    submit(p, "olga", SWEEP(2));
    rig_pass(&r, 100 * HTC_MS);
    hand h = hello_of(r.launched[0].agent, 2);
    cr_expect(eq(u32, r.launched[0].slots, 2));
    cr_assert(eq(u32, pull_many(&h, 100, at, &kind), 2));
    submit(p, "olga", SWEEP(5));
    rig_pass(&r, 100 * HTC_MS);
    cr_expect(eq(sz, r.n_launched, 1), "none is launched");
    cr_expect(eq(u32, told(&h).slots, 4) && eq(u32, free_slots(), 0));
    rig_kill(&r);
    rig_start(&r);
    cr_expect(eq(u32, free_slots(), 0));
    h = hello_of(h.id, 2); /* the word was lost with the gateway */
    cr_expect(eq(u32, told(&h).slots, 4));
    say_held(&h, 7, 4); /* an answer to the gateway before: counting goes on from there */
    cr_expect(eq(u64, told(&h).seq, 8));
    cr_expect(eq(u32, told(&h).slots, 4));
}

/* Another user's share is taken from it slot by slot, as its tasks end. Nothing of it ends before, and no slot is given away before it
 * says that it is free. */
Test(gateway_slots, a_share_is_given_back_as_tasks_end)
{
    uint32_t    p = operator_peer(), kind;
    htc_attempt at[64];
    uint64_t    id;
    add_user(p, "bob");
    id = submit(p, "olga", SWEEP(10));
    rig_pass(&r, 100 * HTC_MS);
    hand h = hello_of(r.launched[0].agent, 4);
    cr_assert(eq(u32, pull_many(&h, 100, at, &kind), 4));
    submit(p, "bob", SWEEP(10));
    rig_pass(&r, 100 * HTC_MS);
    htc_slots s = told(&h);
    cr_expect(eq(u32, s.slots, 2), "half of it");
    cr_expect(eq(u32, free_slots(), 0) && eq(sz, r.n_launched, 1));
    say_held(&h, s.seq, 4);
    cr_expect(eq(u32, free_slots(), 0), "all four run on");
    cr_expect(eq(long, (long)count_of(p, id, "leased"), 4));
    cr_expect(eq(u32, pull_many(&h, 100, at + 10, &kind), 0) && eq(u32, kind, HTC_GRANT_WAIT),
              "nothing in their place");
    ten_seconds();
    report(&h, &at[0], HTC_OK);
    say_held(&h, s.seq, 3);
    cr_assert(eq(sz, r.n_launched, 2), "bob has the first one");
    cr_expect(eq(str, r.launched[1].user, "bob") && eq(u32, r.launched[1].slots, 1));
    cr_expect(r.launched[1].slot > 0, "in a directory of its own");
    hand bob = hello_of(r.launched[1].agent, 1);
    report(&h, &at[1], HTC_OK);
    say_held(&h, s.seq, 2);
    cr_expect(eq(sz, r.n_launched, 2), "the second one goes to the agent that is there");
    cr_expect(eq(u32, told(&bob).slots, 2) && eq(u32, free_slots(), 0));
    say_held(&h, s.seq, 1); /* as if: it is told to fill two */
    cr_expect(eq(u32, free_slots(), 0));
}

/* The word is lost, or the answer: both are said again with the next heartbeat. */
Test(gateway_slots, what_is_not_answered_is_said_again)
{
    uint32_t    p = operator_peer(), kind;
    htc_attempt at[64];
    htc_buf     b;
    add_user(p, "bob");
    submit(p, "olga", SWEEP(10));
    rig_pass(&r, 100 * HTC_MS);
    hand h = hello_of(r.launched[0].agent, 4);
    cr_assert(eq(u32, pull_many(&h, 100, at, &kind), 4));
    submit(p, "bob", SWEEP(10));
    rig_pass(&r, 100 * HTC_MS);
    htc_slots     s = told(&h);
    htc_heartbeat beat = { .agent = h.id, .seq = 5, .last_grant = h.last_grant, .held = { .count = 4 } };
    for (int i = 0; i < 4; i++)
        beat.held.held[i] = (htc_held){ at[i], HTC_HELD_RUNNING };
    for (int i = 0; i < 3; i++) {
        size_t before = r.n_inbox;
        if (i == 2)
            say_held(&h, s.seq, 2);
        htc_buf_init(&b, NULL, 0);
        htc_heartbeat_write(&b, &beat);
        beat.seq++;
        rig_say(&r, h.peer, &b);
        htc_buf_free(&b);
        int again = 0;
        for (size_t m = before; m < r.n_inbox; m++)
            again += r.inbox[m % 256].type == HTC_WIRE_SLOTS && r.inbox[m % 256].peer == h.peer;
        cr_expect(eq(int, again, i < 2), "after %d beats", i + 1);
        cr_expect(eq(u64, told(&h).seq, s.seq));
    }
}

/* Slots that none of the user's tasks fills are given back while others still run; the agent itself stays. */
Test(gateway_slots, idle_slots_are_given_back)
{
    uint32_t    p = operator_peer(), kind;
    htc_attempt at[64];
    submit(p, "olga", SWEEP(4));
    rig_pass(&r, 100 * HTC_MS);
    hand h = hello_of(r.launched[0].agent, 4);
    cr_assert(eq(u32, pull_many(&h, 100, at, &kind), 4));
    ten_seconds();
    for (int i = 0; i < 3; i++)
        report(&h, &at[i], HTC_OK);
    cr_expect(eq(u32, pull_many(&h, 100, at + 10, &kind), 0) && eq(u32, kind, HTC_GRANT_WAIT));
    cr_expect(eq(u32, told(&h).slots, 1) && eq(u32, free_slots(), 0));
    say_held(&h, told(&h).seq, 1);
    cr_expect(eq(u32, free_slots(), 3));
    report(&h, &at[3], HTC_OK);
    cr_expect(eq(u32, pull_many(&h, 100, at + 10, &kind), 0) && eq(u32, kind, HTC_GRANT_EXIT));
}

/* Three slots are free. Olga's agent gets two of them, the first for the task that waits there; bob is due the third, and his task finds too
 * little memory by now. So it is olga's as well, for what still waits: the task that waited at her agent fills a slot by now, and is not
 * counted as if it needed none. */
Test(gateway_slots, what_nobody_else_can_use_is_given_in_the_same_division)
{
    uint32_t    p = operator_peer(), kind;
    htc_attempt at[64];
    json_t     *rq = json_pack("{s:s,s:s,s:s,s:I}", "op", "submit", "user", "bob", "jsdl", SWEEP(1), "memory", (json_int_t)6 << 30);
    char       *text = json_dumps(rq, 0);
    add_user(p, "bob");
    submit(p, "olga", SWEEP(1));
    rig_pass(&r, 100 * HTC_MS);
    hand h = hello_of(r.launched[0].agent, 1); /* with it the slots are divided, and not again for 50 ms */
    cr_assert(eq(u32, pull_many(&h, 100, at, &kind), 1));
    submit(p, "olga", SWEEP(3));
    cr_assert(eq(u32, pull_many(&h, 100, at, &kind), 1), "it waits there");
    json_decref(rig_ask(&r, p, text));
    cr_assert(eq(u32, free_slots(), 3));
    rig_pass(&r, 60 * HTC_MS);
    cr_expect(eq(u32, told(&h).slots, 4) && eq(u32, free_slots(), 0));
    cr_expect(eq(sz, r.n_launched, 1));
    free(text);
    json_decref(rq);
}

/* With its process all its tasks are lost at once, and all its slots are free. */
Test(gateway_slots, a_lost_agent_loses_all_its_tasks)
{
    uint32_t    p = operator_peer(), kind;
    htc_attempt at[64];
    uint64_t    id = submit(p, "olga", SWEEP(9));
    rig_pass(&r, 100 * HTC_MS);
    hand h = hello_of(r.launched[0].agent, 4);
    cr_assert(eq(u32, pull_many(&h, 100, at, &kind), 4));
    process_ended(h.id);
    cr_expect(eq(long, (long)count_of(p, id, "leased"), 0));
    cr_assert(eq(sz, r.n_launched, 2));
    cr_expect(eq(u32, r.launched[1].slots, 4) && eq(u32, r.launched[1].slot, 0));
    hand again = hello_of(r.launched[1].agent, 4);
    cr_assert(eq(u32, pull_many(&again, 100, at + 10, &kind), 4));
    for (int i = 0; i < 4; i++) {
        int same = 0;
        for (int k = 0; k < 4; k++)
            same |= at[10 + i].task == at[k].task && at[10 + i].attempt == 2;
        cr_expect(same, "the lost ones come first");
    }
}

/* ---- tasks of several cores ---- */

#define WIDE(n, cores)                                                                                                 \
    "<jsdl:JobDefinition xmlns:jsdl='http://schemas.ggf.org/jsdl/2005/11/jsdl'"                                        \
    " xmlns:px='http://schemas.ggf.org/jsdl/2005/11/jsdl-posix' "                                                      \
    "xmlns:sweep='http://schemas.ogf.org/jsdl/2009/03/sweep'"                                                          \
    " xmlns:sf='http://schemas.ogf.org/jsdl/2009/03/sweep/functions'><jsdl:JobDescription><jsdl:Application>"          \
    "<px:POSIXApplication><px:Executable>/bin/true</px:Executable><px:Argument>0</px:Argument></px:POSIXApplication>"  \
    "</jsdl:Application><jsdl:Resources><jsdl:TotalCPUCount><jsdl:Exact>" #cores "</jsdl:Exact></jsdl:TotalCPUCount>"  \
    "</jsdl:Resources></jsdl:JobDescription><sweep:Sweep><sweep:Assignment><sweep:DocumentNode>"                       \
    "<sweep:NamespaceBinding ns='http://schemas.ggf.org/jsdl/2005/11/jsdl-posix' prefix='p'/>"                         \
    "<sweep:Match>//p:Argument[1]</sweep:Match></sweep:DocumentNode><sf:LoopInteger start='1' end='" #n "'/>"          \
    "</sweep:Assignment></sweep:Sweep></jsdl:JobDefinition>"

static const char *why_of(uint32_t p, uint64_t id)
{
    static char code[32];
    char        text[80];
    snprintf(text, sizeof text, "{\"op\":\"why\",\"id\":%llu}", (unsigned long long)id);
    json_t *answer = rig_ask(&r, p, text);
    snprintf(code, sizeof code, "%s", json_string_value(json_object_get(answer, "code")));
    json_decref(answer);
    return code;
}

Test(gateway_slots, a_wide_task_takes_as_many_slots)
{
    uint32_t    p = operator_peer(), kind;
    htc_attempt at[64];
    uint64_t    id = submit(p, "olga", WIDE(3, 2));
    rig_pass(&r, 100 * HTC_MS);
    cr_assert(eq(sz, r.n_launched, 1));
    cr_expect(eq(u32, r.launched[0].slots, 4));
    hand h = hello_of(r.launched[0].agent, 4);
    cr_assert(eq(u32, pull_many(&h, 100, at, &kind), 2));
    cr_expect(eq(u32, pull_many(&h, 100, at + 10, &kind), 0), "none is given ahead of its slots");
    cr_expect(eq(u32, free_slots(), 0));
    cr_expect(eq(str, (char *)(uintptr_t)why_of(p, id), "Cores"));
    ten_seconds();
    report(&h, &at[0], HTC_OK);
    cr_expect(eq(u32, pull_many(&h, 100, at + 10, &kind), 1));
    cr_expect(eq(long, (long)count_of(p, id, "done"), 1));
}

/* Three slots free one after the other; tasks of one core, of a job that comes after, would fill each of them. */
Test(gateway_slots, narrow_tasks_do_not_pass_a_wide_one_for_ever)
{
    uint32_t    p = operator_peer(), kind;
    htc_attempt at[64];
    submit(p, "olga", SWEEP(4));
    rig_pass(&r, 100 * HTC_MS);
    hand h = hello_of(r.launched[0].agent, 4);
    cr_assert(eq(u32, pull_many(&h, 100, at, &kind), 4));
    uint64_t wide = submit(p, "olga", WIDE(1, 3));
    submit(p, "olga", SWEEP(100));
    rig_pass(&r, 100 * HTC_MS);
    ten_seconds();
    for (int i = 0; i < 3; i++) {
        cr_expect(eq(u32, pull_many(&h, 100, at + 10, &kind), 0) && eq(u32, kind, HTC_GRANT_WAIT), "%d are free", i);
        cr_expect(eq(str, (char *)(uintptr_t)why_of(p, wide), "Cores"));
        report(&h, &at[i], HTC_OK);
        rig_pass(&r, 100 * HTC_MS);
        cr_expect(eq(sz, r.n_launched, 1) && eq(u32, free_slots(), 0), "they stay at this agent");
    }
    cr_expect(rig_newest(&r, h.peer, HTC_WIRE_NUDGE) != NULL, "it is told at once");
    cr_assert(pull_many(&h, 100, at + 10, &kind) >= 1);
    cr_expect(eq(u64, at[10].job, wide));
}

/* Two users whose tasks are wider than either's share: without lent slots neither would ever start. */
Test(gateway_slots, what_no_share_is_wide_enough_for_runs_in_turns)
{
    uint32_t    p = operator_peer(), kind;
    htc_attempt at[64];
    add_user(p, "bob");
    uint64_t ids[2] = { submit(p, "olga", WIDE(1, 3)), submit(p, "bob", WIDE(1, 4)) };
    for (size_t i = 0; i < 2; i++) {
        rig_pass(&r, HTC_SECOND);
        cr_assert(r.n_launched > i, "agent %zu", i);
        hand h = hello_of(r.launched[r.n_launched - 1].agent, r.launched[r.n_launched - 1].slots);
        cr_assert(eq(u32, pull_many(&h, 100, at, &kind), 1));
        cr_expect(at[0].job == ids[0] || at[0].job == ids[1]);
        ten_seconds();
        report(&h, &at[0], HTC_OK);
        cr_expect(eq(u32, pull_many(&h, 100, at, &kind), 0) && eq(u32, kind, HTC_GRANT_EXIT));
        process_ended(h.id);
    }
    cr_expect(eq(long, (long)count_of(p, ids[0], "done"), 1) && eq(long, (long)count_of(p, ids[1], "done"), 1));
}

/* No agent ever has so many slots: that is said at once. */
Test(gateway_slots, what_fits_no_agent_is_refused)
{
    json_t *rq = json_pack("{s:s,s:s,s:s}", "op", "submit", "user", "olga", "jsdl", WIDE(1, 5));
    char   *text = json_dumps(rq, 0);
    cr_expect(eq(str, (char *)(uintptr_t)refusal(operator_peer(), text), "HTC_ENOFIT"));
    free(text);
    json_decref(rq);
}
