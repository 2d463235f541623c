/* When the slots are divided anew: one test for each event that the specification names (htcaas 3.4; row 8 of its section 7), in virtual time. The tick is an
 * hour away in all of them but its own, so nothing but the event can be the reason. Each test brings the system to rest, lets one thing happen, and
 * looks whether the slots have been divided since, within 50 ms, which is also the least time between two divisions.
 *
 * Two sites: local has two slots, far as many as its host says. Users olga, the owner, and ann. */
#include "gateway_far.h"

#include "roles/gateway/gateway.h"

#define HOUR (3600 * HTC_SECOND)

static const char *const everybody[] = { "olga", "ann", NULL };

static void two_sites(htc_gateway_options *o)
{
    static const htc_site_options all[] = { { .size = sizeof all[0], .name = "local", .cores = 2, .speed = 2 }, /* it gets the first agents */
                                            { .size = sizeof all[0], .name = "far", .cores = 8, .joins = 1, .users = everybody } };
    o->sites = all;
    o->n_sites = 2;
    o->policy = "eq1";
    o->tick_ns = HOUR;
    o->heartbeat_ns = 10 * HTC_SECOND;
    o->lost_after_ns = 30 * HTC_SECOND;
    o->retry_backoff_ns = 20 * HTC_SECOND;
    o->relaunch_backoff_ns = 5 * HTC_SECOND;
}

static uint32_t op; /* the operator */

static void begin_triggers(void)
{
    begin();
    rig_kill(&r);
    r.change = two_sites;
    rig_start(&r);
    op = operator_peer();
    cr_assert(eq(str, (char *)(uintptr_t)refusal(op, "{\"op\":\"user.add\",\"name\":\"ann\",\"password\":\"x\"}"), ""));
}

TestSuite(gateway_triggers, .init = begin_triggers, .fini = end);

static htc_ns quiet_since;

/* Nothing is under way, and nothing divides the slots. */
static void come_to_rest(void)
{
    rig_pass(&r, HTC_SECOND);
    quiet_since = r.now;
    cr_assert(!r.gateway->reallocate_wanted && r.gateway->reallocated < r.now, "it does not come to rest");
    rig_pass(&r, HTC_SECOND);
    cr_assert(r.gateway->reallocated < quiet_since, "the slots are divided though nothing happens");
    quiet_since = r.now;
}

static int divided(void)
{
    rig_pass(&r, REALLOCATE_GAP);
    int is = r.gateway->reallocated >= quiet_since;
    books();
    return is;
}

static void ok(const char *rq)
{
    cr_assert(eq(str, (char *)(uintptr_t)refusal(op, rq), ""), "%s", rq);
}

static uint64_t agents_of(const char *name)
{
    uint64_t n = 0;
    for (const agent *a = r.gateway->agents; a; a = a->hh.next)
        n += strcmp(a->user->name, name) == 0 && a->state < AGENT_LEAVING;
    return n;
}

static uint64_t share_of(const char *name)
{
    return htc__gw_user(r.gateway, name)->ra;
}

/* ---- jobs and queues ---- */

/* Though its user has tasks that wait already. */
Test(gateway_triggers, a_job_is_submitted_and_split)
{
    submit(op, "olga", SWEEP(4));
        come_to_rest();
    cr_expect(eq(u64, share_of("olga"), 2));
    submit(op, "olga", SWEEP(4));
    cr_expect(divided());
}

Test(gateway_triggers, a_queue_is_no_longer_empty)
{
    come_to_rest();
    submit(op, "ann", SWEEP(1));
    cr_expect(divided());
    cr_expect(eq(u64, agents_of("ann"), 1));
}

/* ann's last task has been handed out, so she divides no longer, and olga's share is all that there is. The agents were registered before. */
Test(gateway_triggers, a_queue_becomes_empty)
{
    htc_attempt at;
    submit(op, "ann", SWEEP(1));
    rig_pass(&r, HTC_SECOND);
    hand a = hello(r.launched[0].agent);
    submit(op, "olga", SWEEP(9));
    come_to_rest();
    cr_expect(eq(u64, share_of("olga"), 1));
    cr_assert(eq(u32, pull(&a, &at), HTC_GRANT_TASKS));
    cr_expect(divided());
    cr_expect(eq(u64, share_of("olga"), 2));
}

/* A task that has failed waits again when its pause is over. */
Test(gateway_triggers, a_task_comes_back)
{
    htc_attempt at;
    submit(op, "ann", SWEEP(1));
    rig_pass(&r, HTC_SECOND);
    hand a = hello(r.launched[0].agent);
    cr_assert(eq(u32, pull(&a, &at), HTC_GRANT_TASKS));
    ten_seconds();
    cr_assert(eq(int, report(&a, &at, HTC_EEXIT), HTC_OK));
    come_to_rest();
    rig_pass(&r, 19 * HTC_SECOND - 2 * HTC_SECOND - HTC_MS);
    quiet_since = r.now;
    rig_pass(&r, HTC_SECOND + HTC_MS);
    cr_expect(divided());
    cr_expect(eq(u64, share_of("ann"), 1));
}

Test(gateway_triggers, a_task_has_ended)
{
    htc_attempt at;
    submit(op, "ann", SWEEP(1));
    rig_pass(&r, HTC_SECOND);
    hand a = hello(r.launched[0].agent);
    cr_assert(eq(u32, pull(&a, &at), HTC_GRANT_TASKS));
    come_to_rest();
    cr_assert(eq(int, report(&a, &at, HTC_OK), HTC_OK));
    cr_expect(divided());
}

/* Of two jobs of a user one is cancelled: the queue neither becomes empty nor grows. */
Test(gateway_triggers, a_job_is_cancelled)
{
    submit(op, "olga", SWEEP(9));
    submit(op, "olga", SWEEP(1));
    come_to_rest();
    ok("{\"op\":\"cancel\",\"id\":1}");
    cr_expect(divided());
    cr_expect(eq(u64, share_of("olga"), 1));
}

Test(gateway_triggers, a_task_is_cancelled)
{
    submit(op, "olga", SWEEP(3));
    come_to_rest();
    ok("{\"op\":\"cancel\",\"id\":\"1.0-1\"}");
    cr_expect(divided());
    cr_expect(eq(u64, share_of("olga"), 1));
}

Test(gateway_triggers, a_job_is_held_and_released)
{
    submit(op, "olga", SWEEP(9));
    submit(op, "olga", SWEEP(1));
    come_to_rest();
    ok("{\"op\":\"hold\",\"id\":1}");
    cr_expect(divided());
    cr_expect(eq(u64, share_of("olga"), 1));
    come_to_rest();
    ok("{\"op\":\"release\",\"id\":1}");
    cr_expect(divided());
    cr_expect(eq(u64, share_of("olga"), 2));
}

/* ---- agents ---- */

Test(gateway_triggers, an_agent_registers)
{
    submit(op, "olga", SWEEP(9));
    come_to_rest();
    hand a = hello(r.launched[0].agent);
    cr_assert(eq(int, welcome_of(&a), HTC_OK));
    cr_expect(divided());
}

/* It asks for a task, and there is none. */
Test(gateway_triggers, an_agent_is_told_to_exit)
{
    htc_attempt at;
    submit(op, "olga", SWEEP(1));
    rig_pass(&r, HTC_SECOND);
    hand a = hello(r.launched[0].agent);
    ok("{\"op\":\"cancel\",\"id\":1}");
    come_to_rest();
    cr_assert(eq(u32, pull(&a, &at), HTC_GRANT_EXIT));
    cr_expect(divided());
}

Test(gateway_triggers, an_agent_says_that_it_leaves)
{
    htc_buf b;
    submit(op, "olga", SWEEP(9));
    rig_pass(&r, HTC_SECOND);
    hand a = hello(r.launched[0].agent);
    come_to_rest();
    htc_buf_init(&b, NULL, 0);
    htc_bye_write(&b, &(htc_bye){ .agent = a.id, .status = HTC_OK });
    rig_say(&r, a.peer, &b);
    htc_buf_free(&b);
    cr_expect(divided());
    cr_expect(eq(sz, r.n_launched, 2), "its slot is its own until its process is gone");
}

Test(gateway_triggers, an_agent_has_exited)
{
    submit(op, "olga", SWEEP(9));
    rig_pass(&r, HTC_SECOND);
    hand a = hello(r.launched[0].agent);
    come_to_rest();
    process_ended(a.id);
    cr_expect(divided());
    cr_expect(eq(sz, r.n_launched, 3), "another one is launched at once");
}

Test(gateway_triggers, an_agent_is_lost)
{
    submit(op, "olga", SWEEP(2));
    rig_pass(&r, HTC_SECOND);
    hand a = hello(r.launched[0].agent);
    come_to_rest();
    cr_assert(eq(u64, agents_of("olga"), 2));
    rig_pass(&r, 26 * HTC_SECOND);
    quiet_since = r.now;
    cr_assert(r.gateway->reallocated < quiet_since - 20 * HTC_SECOND);
    rig_pass(&r, 4 * HTC_SECOND);
    cr_assert(eq(u32, r.closed, a.peer), "it is not lost");
    cr_expect(divided());
}

static void refuse_launch(const far_host *h, uint64_t id)
{
    htc_buf b;
    htc_buf_init(&b, NULL, 0);
    htc_joined_launched_write(&b, id, HTC_ENOEXEC, htc_bytes_of("no such program"));
    rig_say(&r, h->peer, &b);
    htc_buf_free(&b);
}

/* The third task's agent cannot be launched at its site: when that pauses, the others are as they were; when the pause is over, it is tried again. */
/* HTCaaS 6: An agent cannot be launched, or the batch system holds it. */
Test(gateway_triggers, an_agent_cannot_be_launched)
{
    uint32_t  slots;
    char      whose[64];
    far_host *h = join("far", 1);
    submit(op, "olga", SWEEP(9));
    come_to_rest();
    uint64_t id = asked(h, &slots, whose);
    cr_assert(id != 0);
    refuse_launch(h, id);
    cr_expect(divided());
    cr_expect(eq(u64, agents_of("olga"), 2));
    come_to_rest();
    rig_pass(&r, 2500 * HTC_MS);
    quiet_since = r.now;
    cr_assert(r.gateway->reallocated < quiet_since - 4 * HTC_SECOND);
    rig_pass(&r, HTC_SECOND / 2);
    cr_expect(divided(), "the pause is over");
    cr_expect(ne(u64, asked(h, &slots, whose), id), "another one is launched");
}

/* ---- sites ---- */

Test(gateway_triggers, a_site_comes_and_goes)
{
    submit(op, "olga", SWEEP(9));
    come_to_rest();
    cr_expect(eq(u64, share_of("olga"), 2));
    far_host *h = join("far", 3);
    cr_expect(divided());
    cr_expect(eq(u64, share_of("olga"), 5));
    come_to_rest();
    rig_gateway(&r, &(htc_input){ .size = sizeof(htc_input), .now = r.now, .wall = r.wall, .kind = HTC_IN_CLOSED, .peer = h->peer, .status = HTC_ECLOSED });
    cr_expect(divided());
}

Test(gateway_triggers, a_sites_free_cores_change)
{
    far_host *h = join("far", 3);
    submit(op, "olga", SWEEP(9));
    come_to_rest();
    cr_expect(eq(u64, share_of("olga"), 5));
    h->m.slots = 5;
    say_hello(h);
    cr_expect(divided());
    cr_expect(eq(u64, share_of("olga"), 7));
}

Test(gateway_triggers, a_site_is_drained_and_resumed)
{
    far_host *h = join("far", 3);
    come_to_rest();
    ok("{\"op\":\"site.drain\",\"site\":\"far\"}");
    cr_expect(divided());
    submit(op, "olga", SWEEP(9));
    rig_pass(&r, HTC_SECOND);
    say_hello(h);
    come_to_rest();
    cr_expect(eq(u64, share_of("olga"), 2));
    ok("{\"op\":\"site.resume\",\"site\":\"far\"}");
    cr_expect(divided());
    cr_expect(eq(u64, share_of("olga"), 5));
}

Test(gateway_triggers, a_node_is_drained_and_resumed)
{
    come_to_rest();
    ok("{\"op\":\"node.drain\",\"node\":\"n7\",\"unseen\":true}");
    cr_expect(divided());
    come_to_rest();
    ok("{\"op\":\"node.resume\",\"node\":\"n7\",\"unseen\":true}");
    cr_expect(divided());
}

/* ---- users ---- */

Test(gateway_triggers, a_weight_changes)
{
    far_host *h = join("far", 2);
    submit(op, "olga", SWEEP(9));
    submit(op, "ann", SWEEP(9));
    rig_pass(&r, HTC_SECOND);
    say_hello(h);
    come_to_rest();
    cr_expect(eq(u64, share_of("ann"), 2));
    ok("{\"op\":\"user.set\",\"name\":\"ann\",\"weight\":3}");
    cr_expect(divided());
    cr_expect(eq(u64, share_of("ann"), 3));
}

Test(gateway_triggers, a_projects_shares_change)
{
    ok("{\"op\":\"project.add\",\"name\":\"zoo\",\"shares\":3,\"add\":[\"ann\"]}");
    come_to_rest();
    ok("{\"op\":\"project.set\",\"name\":\"zoo\",\"shares\":5}");
    cr_expect(divided());
}

Test(gateway_triggers, a_quota_changes)
{
    submit(op, "olga", SWEEP(9));
    ok("{\"op\":\"quota\",\"name\":\"ann\",\"processes\":1}");
    submit(op, "ann", SWEEP(9));
    come_to_rest();
    ok("{\"op\":\"quota\",\"name\":\"ann\",\"core_hours\":7}");
    cr_expect(divided());
}

/* ---- time ---- */

Test(gateway_triggers, the_tick_is_a_safety_net)
{
    htc_ns first, second;
    rig_pass(&r, HOUR + HTC_SECOND);
    first = r.gateway->reallocated;
    rig_pass(&r, HOUR - 10 * HTC_SECOND);
    cr_expect(eq(u64, r.gateway->reallocated, first));
    rig_pass(&r, 10 * HTC_SECOND);
    second = r.gateway->reallocated;
    cr_expect(eq(u64, second - first, HOUR));
}

static void plain(htc_gateway_options *o)
{
    o->tick_ns = 0;
}

Test(gateway_triggers, the_tick_is_five_seconds_where_nothing_is_said)
{
    htc_ns seen[4] = { 0 };
    rig_kill(&r);
    r.change = plain;
    rig_start(&r);
    for (int n = 0, looks = 0; n < 4 && looks < 30000; looks++, rig_pass(&r, HTC_MS))
        if (n == 0 || seen[n - 1] != r.gateway->reallocated)
            seen[n++] = r.gateway->reallocated;
    cr_expect(eq(u64, seen[2] - seen[1], 5 * HTC_SECOND) && eq(u64, seen[3] - seen[2], 5 * HTC_SECOND));
}

/* Whatever happens, the slots are divided every 50 ms at most: a job is submitted every millisecond. The first one is not kept waiting. */
Test(gateway_triggers, many_at_once_are_one)
{
    come_to_rest();
    uint32_t n = 0, peers[100];
    htc_ns   last = r.gateway->reallocated;
    for (int i = 0; i < 100; i++)
        peers[i] = operator_peer();
    for (int i = 0; i < 500; i++) {
        submit(peers[i % 100], i % 2 ? "ann" : "olga", SWEEP(1));
        rig_pass(&r, HTC_MS);
        if (r.gateway->reallocated == last)
            continue;
        cr_expect(n > 0 || i == 0, "the first one waits");
        cr_expect(n == 0 || r.gateway->reallocated - last >= REALLOCATE_GAP);
        last = r.gateway->reallocated;
        n++;
    }
    cr_expect(eq(u32, n, 11));
}
