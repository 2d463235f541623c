/* Sites whose hosts join: the gateway with a host in the test's hand. The own machine has one slot; site far has as many as its host says, at
 * most eight, and serves the owner; site shared serves ada too. */
#include "gateway_far.h"

#include "openmetrics.h"

static const char *const shared_users[] = { "olga", "ada", NULL };

static void sites(htc_gateway_options *o)
{
    static const htc_site_options all[] = { { .size = sizeof all[0], .name = "local", .cores = 1, .memory = UINT64_C(8) << 30, .speed = 2 }, /* it gets the first agent */
                                            { .size = sizeof all[0], .name = "far", .cores = 8, .joins = 1 },
                                            { .size = sizeof all[0], .name = "shared", .cores = 8, .joins = 1, .users = shared_users } };
    o->sites = all;
    o->n_sites = 3;
    o->slots_max = 64;
    o->heartbeat_ns = HTC_SECOND;
    o->lost_after_ns = 3 * HTC_SECOND;
    o->store_join = "10.0.0.1:7421";
    o->outputs = "/srv/head/data";
    o->outputs_id = "1d";
}

static void begin_joined(void)
{
    begin();
    rig_kill(&r);
    r.change = sites;
    rig_start(&r);
}

TestSuite(gateway_joined, .init = begin_joined, .fini = end);

static long long slots_now(void)
{
    json_t   *a = rig_ask(&r, operator_peer(), "{\"op\":\"agents\"}");
    long long n = json_integer_value(json_object_get(a, "slots"));
    json_decref(a);
    books();
    return n;
}

Test(gateway_joined, a_key_that_names_no_site_is_sent_away_with_the_next_step)
{
    far_host *h = join("nobody", 4);
    htc_joined_welcome w = answer_to(h);
    cr_expect(eq(int, w.status, HTC_ENOTFOUND));
    cr_expect(strstr(w.text, "[site.nobody] with adapter = join") != NULL, "it says: %s", w.text);
    cr_expect(eq(u32, r.closed, h->peer));
    /* Nor is the own machine's site anybody's. A user's key is turned away before (test_gateway_keyed.c). */
    cr_expect(eq(int, answer_to(join("local", 4)).status, HTC_ENOTFOUND));
    cr_expect(eq(long, (long)slots_now(), 1));
}

Test(gateway_joined, a_host_cannot_speak_as_a_user_and_a_local_process_not_as_a_host)
{
    uint32_t peer = open_key("far", HTC_KEY_HOST, HTC_WIRE_ROLE_USER);
    cr_expect(eq(u32, r.closed, peer));
    peer = rig_open(&r, RIG_UID, HTC_WIRE_ROLE_JOINED);
    cr_expect(eq(u32, r.closed, peer));
}

Test(gateway_joined, slots_are_there_as_long_as_the_host_is)
{
    cr_expect(eq(long, (long)slots_now(), 1));
    far_host *h = join("far", 3);
    cr_expect(eq(int, answer_to(h).status, HTC_OK));
    cr_expect(eq(long, (long)slots_now(), 4));
    h->m.slots = 20; /* more than the configuration lets it have */
    say_hello(h);
    cr_expect(eq(long, (long)slots_now(), 9));
    rig_pass(&r, 10 * HTC_SECOND); /* silent */
    cr_expect(eq(u32, r.closed, h->peer));
    cr_expect(eq(long, (long)slots_now(), 1));
    h = join("far", 2);
    cr_expect(eq(long, (long)slots_now(), 3));
    rig_gateway(&r, &(htc_input){ .size = sizeof(htc_input), .now = r.now, .wall = r.wall, .kind = HTC_IN_CLOSED, .peer = h->peer, .status = HTC_ECLOSED });
    cr_expect(eq(long, (long)slots_now(), 1));
}

/* A job for more tasks than the own machine has slots. */
static uint64_t busy_job(const char *user)
{
    uint64_t id = submit(operator_peer(), user, SWEEP(9));
    rig_pass(&r, HTC_SECOND);
    return id;
}

Test(gateway_joined, a_host_is_asked_to_launch_and_its_agent_gets_tasks)
{
    far_host *h = join("far", 3);
    uint32_t  slots = 0;
    char      user[64];
    uint64_t  job = busy_job("olga"), agent = asked(h, &slots, user);
    cr_assert(agent != 0, "nothing was launched");
    cr_expect(eq(u32, slots, 3));
    cr_expect(eq(str, user, "olga"));
    launched(h, agent);
    /* Another host's key, or the own machine's socket, does not speak for it. */
    hand other = register_on(agent, "shared", 3);
    cr_expect(eq(int, welcome_of(&other), HTC_ENOTFOUND));
    hand here = hello(agent);
    cr_expect(eq(int, welcome_of(&here), HTC_ENOTFOUND));
    hand a = register_on(agent, "far", 3);
    cr_assert(eq(int, welcome_of(&a), HTC_OK));
    const rig_message *m = rig_newest(&r, a.peer, HTC_WIRE_AGENT_WELCOME);
    htc_reader         in = htc_reader_of((htc_bytes){ m->bytes, m->len });
    htc_agent_welcome  w;
    cr_assert(eq(int, htc_agent_welcome_read(&in, &w), HTC_OK));
    cr_expect(eq(str, w.store, "tcp://10.0.0.1:7421"));
    cr_expect(eq(str, w.outputs, "/srv/head/data"));
    cr_expect(eq(str, w.outputs_id, "1d"));
    htc_attempt at;
    cr_expect(eq(u32, pull(&a, &at), HTC_GRANT_TASKS));
    cr_expect(eq(u64, at.job, job));
    /* The host says that it is gone: its task waits again at once. */
    h->m.count = 0;
    cr_expect(ge(long, (long)count_of(operator_peer(), job, "leased"), 1));
    say_hello(h);
    cr_expect(eq(long, (long)count_of(operator_peer(), job, "leased"), 0));
    books();
}

static json_t *agents_now(const char *list, size_t i)
{
    json_t *a = rig_ask(&r, operator_peer(), "{\"op\":\"agents\"}"), *one = json_incref(json_array_get(json_object_get(a, list), i));
    json_decref(a);
    cr_assert(one != NULL);
    return one;
}

static void say_outputs(const hand *a, htc_status status, const char *text)
{
    htc_buf           b;
    htc_agent_outputs m = { .agent = a->id, .status = status };
    snprintf(m.text, sizeof m.text, "%s", text);
    htc_buf_init(&b, NULL, 0);
    htc_agent_outputs_write(&b, &m);
    rig_say(&r, a->peer, &b);
    htc_buf_free(&b);
}

static void expect_outputs(const char *where, const char *apart)
{
    for (size_t i = 0;; i++) {
        json_t     *a = agents_now("agents", i);
        const char *said = json_string_value(json_object_get(a, "outputs"));
        int         far = strcmp(json_string_value(json_object_get(a, "site")), "far") == 0;
        if (far)
            cr_expect(eq(str, (char *)(uintptr_t)(said ? said : ""), (char *)(uintptr_t)where));
        json_decref(a);
        if (far)
            break;
    }
    json_t     *s = agents_now("sites", 1);
    const char *said = json_string_value(json_object_get(s, "outputs_apart"));
    cr_expect(eq(str, (char *)(uintptr_t)(said ? said : ""), (char *)(uintptr_t)apart));
    json_decref(s);
}

Test(gateway_joined, where_an_agent_stores_outputs_is_shown)
{
    far_host *h = join("far", 3);
    uint32_t  slots = 0;
    char      user[64];
    (void)busy_job("olga");
    uint64_t agent = asked(h, &slots, user);
    launched(h, agent);
    hand a = register_on(agent, "far", 3);
    expect_outputs("", "");
    say_outputs(&a, HTC_ENOTFOUND, "no such mount");
    expect_outputs("local", "node node-far: no such mount");
    say_outputs(&a, HTC_OK, "");
    expect_outputs("shared", "");
    books();
}

/* One that does not know of it is told nothing that it could not read; neither is one of the gateway's own machine. */
Test(gateway_joined, an_older_agent_is_not_told_of_the_directory)
{
    htc_agent_welcome w;
    far_host         *h = join("far", 3);
    uint32_t          slots = 0;
    char              user[64];
    (void)busy_job("olga");
    uint64_t agent = asked(h, &slots, user);
    launched(h, agent);
    hand a = register_speaking(agent, "far", 3, HTC_WIRE_VERSION_OUTPUTS - 1);
    const rig_message *m = rig_newest(&r, a.peer, HTC_WIRE_AGENT_WELCOME);
    htc_reader         in = htc_reader_of((htc_bytes){ m->bytes, m->len });
    cr_assert(eq(int, htc_agent_welcome_read(&in, &w), HTC_OK));
    cr_expect(eq(str, w.outputs, ""));
}

Test(gateway_joined, an_agent_whose_launch_the_host_has_not_heard_of_is_not_thought_gone)
{
    far_host *h = join("far", 3);
    uint32_t  slots;
    char      user[64];
    (void)busy_job("olga");
    uint64_t agent = asked(h, &slots, user);
    cr_assert(agent != 0);
    say_hello(h); /* said before JOINED_LAUNCH was heard */
    launched(h, agent);
    hand a = register_on(agent, "far", 3);
    cr_expect(eq(int, welcome_of(&a), HTC_OK));
    /* An agent that the gateway does not know is to end. */
    h->m.agents[h->m.count++] = 4711;
    say_hello(h);
    const rig_message *m = rig_newest(&r, h->peer, HTC_WIRE_JOINED_KILL);
    cr_assert(m != NULL, "nothing is to be ended");
    htc_reader in = htc_reader_of((htc_bytes){ m->bytes, m->len });
    uint64_t   id = 0;
    cr_expect(eq(int, htc_joined_kill_read(&in, &id), HTC_OK));
    cr_expect(eq(u64, id, 4711));
}

Test(gateway_joined, a_launch_that_fails_pauses_the_site)
{
    far_host *h = join("far", 3);
    uint32_t  slots;
    char      user[64];
    htc_buf   b;
    (void)busy_job("olga");
    uint64_t agent = asked(h, &slots, user);
    htc_buf_init(&b, NULL, 0);
    htc_joined_launched_write(&b, agent, HTC_ENOEXEC, htc_bytes_of("no such program"));
    rig_say(&r, h->peer, &b);
    htc_buf_free(&b);
    json_t *a = rig_ask(&r, operator_peer(), "{\"op\":\"agents\"}"), *site = json_array_get(json_object_get(a, "sites"), 1);
    cr_expect(json_is_true(json_object_get(site, "paused")));
    cr_expect(strstr(json_string_value(json_object_get(site, "reason")), "no such program") != NULL);
    json_decref(a);
    json_t *j = job_of(operator_peer(), 1);
    cr_expect(eq(int, (int)json_integer_value(json_object_get(j, "held_agents")), 1));
    json_decref(j);
    books();
}

static void few_losses(htc_gateway_options *o)
{
    sites(o);
    o->max_lost = 1;
}

/* An agent that has registered is ended by its batch system: its host says why, and so does the task that ran there. */
Test(gateway_joined, why_an_agent_was_ended_is_told_of_its_task)
{
    uint32_t    slots;
    uint64_t    before = 0;
    char        user[64];
    htc_attempt at;
    htc_buf     b;
    rig_kill(&r);
    r.change = few_losses;
    rig_start(&r);
    far_host *h = join("far", 1);
    submit(operator_peer(), "olga", SWEEP(2));
    htc_buf_init(&b, NULL, 0);
    for (int i = 0; i < 2; i++) {
        rig_pass(&r, HTC_SECOND);
        say_hello(h);
        uint64_t agent = asked(h, &slots, user);
        cr_assert(agent > before, "none is launched in its place");
        before = agent;
        launched(h, agent);
        hand a = register_on(agent, "far", 1);
        cr_assert(eq(u32, pull(&a, &at), HTC_GRANT_TASKS));
        htc_buf_clear(&b);
        htc_joined_launched_write(&b, agent, HTC_EREFUSED, htc_bytes_of("TIMEOUT, signal 9"));
        rig_say(&r, h->peer, &b);
        h->m.count = 0;
        say_hello(h);
    }
    htc_buf_free(&b);
    json_t *answer = rig_ask(&r, operator_peer(), "{\"op\":\"results\",\"id\":1}"), *one = json_array_get(json_object_get(answer, "results"), 0);
    cr_assert(one != NULL);
    cr_expect(eq(str, (char *)json_string_value(json_object_get(one, "reason")), "lost 2 times, the last time because its process has ended: TIMEOUT, signal 9"));
    json_decref(answer);
    books();
}

Test(gateway_joined, users_that_a_host_does_not_serve_get_no_agent_there)
{
    uint32_t slots;
    char     user[64];
    json_decref(rig_ask(&r, operator_peer(), "{\"op\":\"user.add\",\"name\":\"ada\",\"password\":\"secret12\"}"));
    far_host *h = join("far", 3);
    (void)busy_job("ada");
    cr_expect(eq(u64, asked(h, &slots, user), 0), "a host that serves the owner alone was asked to launch an agent of %s", user);
    far_host *s = join("shared", 2);
    rig_pass(&r, HTC_SECOND);
    cr_assert(asked(s, &slots, user) != 0, "a host that serves ada got no agent");
    cr_expect(eq(str, user, "ada"));
    books();
}

Test(gateway_joined, a_host_that_leaves_gets_nothing_more_and_its_agents_drain)
{
    far_host *h = join("far", 3);
    uint32_t  slots;
    char      user[64];
    (void)busy_job("olga");
    uint64_t agent = asked(h, &slots, user);
    launched(h, agent);
    hand a = register_on(agent, "far", 3);
    h->m.leaving = 1;
    say_hello(h);
    cr_expect(rig_newest(&r, a.peer, HTC_WIRE_DRAIN) != NULL, "its agent is not drained");
    h->m.count = 0;
    say_hello(h);
    rig_pass(&r, HTC_SECOND);
    cr_expect(eq(u64, asked(h, &slots, user), agent), "another agent was launched at a host that leaves");
    books();
}

Test(gateway_joined, a_gateway_that_starts_again_knows_the_agents_of_hosts)
{
    far_host *h = join("far", 3);
    uint32_t  slots;
    char      user[64];
    (void)busy_job("olga");
    uint64_t agent = asked(h, &slots, user);
    launched(h, agent);
    hand a = register_on(agent, "far", 3);
    cr_expect(eq(int, welcome_of(&a), HTC_OK));
    kill_now();
    cr_expect(le(u32, r.calls[HTC_CALL_WATCH_AGENT], 1), "the process of an agent elsewhere was looked for on the own machine");
    a = register_on(agent, "far", 3);
    cr_expect(eq(int, welcome_of(&a), HTC_OK));
    far_host *again = join("far", 3);
    cr_expect(rig_newest(&r, again->peer, HTC_WIRE_JOINED_KILL) == NULL);
    rig_pass(&r, HTC_SECOND);
    hand gone = register_on(agent, "far", 3); /* the host did not list it: its process is gone */
    cr_expect(eq(int, welcome_of(&gone), HTC_ENOTFOUND));
    books();
}

/* ---- agents that are jobs of a batch system ---- */

static char *state_of(uint64_t agent)
{
    static char state[32];
    json_t     *a = rig_ask(&r, operator_peer(), "{\"op\":\"agents\"}"), *one;
    size_t      i;
    state[0] = '\0';
    json_array_foreach(json_object_get(a, "agents"), i, one) {
        if ((uint64_t)json_integer_value(json_object_get(one, "id")) == agent)
            snprintf(state, sizeof state, "%s", json_string_value(json_object_get(one, "state")));
    }
    json_decref(a);
    return state;
}

/* Site far with three slots, of which an agent has one, for good; three are asked for. */
static far_host *join_batch(uint64_t agents[3])
{
    far_host *h = join("far", 3);
    uint32_t  slots = 0;
    char      user[64];
    h->m.agent_slots = 1;
    say_hello(h);
    (void)busy_job("olga");
    uint64_t newest = asked(h, &slots, user);
    cr_assert(newest > 2);
    cr_expect(eq(u32, slots, 1), "an agent has more slots than its job has cores");
    for (uint64_t i = 0; i < 3; i++)
        launched(h, agents[i] = newest - 2 + i);
    return h;
}

static uint64_t killed(const far_host *h)
{
    const rig_message *m = rig_newest(&r, h->peer, HTC_WIRE_JOINED_KILL);
    uint64_t           id = 0;
    htc_reader         in = htc_reader_of((htc_bytes){ m ? m->bytes : NULL, m ? m->len : 0 });
    if (m)
        cr_assert(eq(int, htc_joined_kill_read(&in, &id), HTC_OK));
    return id;
}

/* However long the queue is; from when it runs it is to be heard of. */
Test(gateway_joined, an_agent_in_a_queue_is_waited_for)
{
    uint64_t  agents[3];
    far_host *h = join_batch(agents);
    h->m.phases[0] = 1;
    for (int i = 0; i < 700; i++) {
        say_hello(h);
        rig_pass(&r, HTC_SECOND);
        if (i == 300) {
            hand a = register_on(agents[1], "far", 1), b = register_on(agents[2], "far", 1);
            cr_expect(eq(int, welcome_of(&a), HTC_OK) && eq(int, welcome_of(&b), HTC_OK));
        }
    }
    cr_expect(eq(str, state_of(agents[0]), "queued"));
    h->m.phases[0] = 0;
    for (int i = 0; i < 590; i++) {
        say_hello(h);
        rig_pass(&r, HTC_SECOND - 100 * HTC_MS);
    }
    cr_expect(eq(str, state_of(agents[0]), "starting"));
    for (int i = 0; i < 20; i++) {
        say_hello(h);
        rig_pass(&r, HTC_SECOND);
    }
    cr_expect(eq(str, state_of(agents[0]), "lost"), "it never registered");
    h->m.agents[0] = h->m.agents[--h->m.count];
    say_hello(h);
    cr_expect(eq(str, state_of(agents[0]), ""), "its job is gone");
    books();
}

Test(gateway_joined, an_agent_in_a_queue_is_taken_out_when_nothing_is_left_for_it)
{
    uint64_t  agents[3];
    far_host *h = join_batch(agents);
    h->m.phases[2] = 1;
    say_hello(h);
    cr_expect(eq(u64, killed(h), 0), "something is left to do");
    json_decref(rig_ask(&r, operator_peer(), "{\"op\":\"cancel\",\"id\":1}"));
    rig_pass(&r, 100 * HTC_MS);
    cr_expect(eq(u64, killed(h), agents[2]));
    books();
}

/* A batch system that is slow to cancel a job has its cores in use: the slot is free when the host does not list the agent any more, and no sooner. */
Test(gateway_joined, a_slot_is_not_free_while_its_job_is_there)
{
    uint64_t  agents[3];
    far_host *h = join_batch(agents);
    hand      a = register_on(agents[0], "far", 1);
    cr_expect(eq(int, welcome_of(&a), HTC_OK));
    for (int i = 0; i < 60; i++) { /* the host is there, the agent is silent */
        rig_pass(&r, 500 * HTC_MS);
        say_hello(h);
    }
    cr_expect(eq(str, state_of(agents[0]), "lost"));
    h->m.agents[0] = h->m.agents[--h->m.count];
    say_hello(h);
    cr_expect(eq(str, state_of(agents[0]), ""), "its job is gone");
    books();
}

/* Its job's wall time ends: it finishes what runs, whoever needs slots, and another one is asked for at once. */
Test(gateway_joined, an_agent_whose_time_ends_drains_for_good)
{
    uint64_t  agents[3];
    far_host *h = join_batch(agents);
    uint32_t  slots;
    char      user[64];
    hand      a = register_on(agents[0], "far", 1);
    cr_expect(eq(int, welcome_of(&a), HTC_OK));
    h->m.slots = 4; /* room for one more */
    h->m.phases[0] = HTC_JOINED_EXPIRES;
    say_hello(h);
    const rig_message *m = rig_newest(&r, a.peer, HTC_WIRE_DRAIN);
    cr_assert(m != NULL, "it is not drained");
    cr_expect(eq(str, state_of(agents[0]), "draining"));
    cr_expect(asked(h, &slots, user) > agents[2], "nobody takes its place");
    for (int i = 0; i < 2; i++) {
        say_hello(h);
        rig_pass(&r, 500 * HTC_MS);
    }
    cr_expect(eq(str, state_of(agents[0]), "draining"), "it is let go on");
    books();
}

/* Those that wait in a queue may never come: the same tasks get agents elsewhere. */
Test(gateway_joined, a_queue_holds_nobody_up)
{
    uint64_t  agents[3];
    far_host *h = join_batch(agents);
    uint32_t  slots;
    char      user[64];
    (void)submit(operator_peer(), "olga", SWEEP(2)); /* 11 tasks, 1 own slot */
    for (int i = 0; i < 3; i++)
        h->m.phases[i] = HTC_JOINED_WAITS;
    say_hello(h);
    far_host *s = join("shared", 8);
    cr_assert(asked(s, &slots, user) != 0, "nothing is launched where slots are free");
    cr_expect(eq(u32, slots, 8), "it gets %u slots, and 10 tasks wait", slots);
    say_hello(h);
    cr_expect(eq(u64, killed(h), 0), "more tasks wait than agents");
    books();
}

/* A site that cannot keep a user's tasks apart is closed to that user, and to nobody else. */
Test(gateway_joined, a_user_whom_a_site_refuses_closes_it_to_nobody)
{
    uint32_t slots;
    char     user[64];
    htc_buf  b;
    json_decref(rig_ask(&r, operator_peer(), "{\"op\":\"user.add\",\"name\":\"ada\",\"password\":\"secret12\"}"));
    far_host *h = join("shared", 2);
    (void)busy_job("ada");
    uint64_t agent = asked(h, &slots, user);
    cr_assert(agent != 0 && strcmp(user, "ada") == 0);
    htc_buf_init(&b, NULL, 0);
    htc_joined_launched_write(&b, agent, HTC_EDENIED, htc_bytes_of("no uid of its own"));
    rig_say(&r, h->peer, &b);
    htc_buf_free(&b);
    for (int i = 0; i < 4; i++) {
        say_hello(h);
        rig_pass(&r, HTC_SECOND);
    }
    cr_expect(eq(u64, asked(h, &slots, user), agent), "it is asked again at once");
    (void)busy_job("olga");
    cr_expect(asked(h, &slots, user) > agent && strcmp(user, "olga") == 0, "nobody else gets an agent there");
    books();
}

static void deny(far_host *h, uint64_t agent)
{
    htc_buf b;
    htc_buf_init(&b, NULL, 0);
    htc_joined_launched_write(&b, agent, HTC_EDENIED, htc_bytes_of("no uid of its own"));
    rig_say(&r, h->peer, &b);
    htc_buf_free(&b);
}

/* That one site refuses a user is not forgotten when another one does. */
Test(gateway_joined, a_user_whom_two_sites_refuse_is_no_endless_question)
{
    uint32_t  slots;
    char      user[64];
    far_host *h[] = { join("far", 2), join("shared", 2) };
    (void)busy_job("olga");
    uint64_t  agents[] = { asked(h[0], &slots, user), 0 };
    if (agents[0])
        deny(h[0], agents[0]);
    agents[1] = asked(h[1], &slots, user);
    cr_assert(agents[1] != 0, "the other site is not asked");
    deny(h[1], agents[1]);
    agents[0] = asked(h[0], &slots, user);
    cr_assert(agents[0] != 0);
    deny(h[0], agents[0]);
    uint64_t last[] = { asked(h[0], &slots, user), asked(h[1], &slots, user) };
    for (int i = 0; i < 4; i++) {
        say_hello(h[0]);
        say_hello(h[1]);
        rig_pass(&r, HTC_SECOND);
    }
    cr_expect(eq(u64, asked(h[0], &slots, user), last[0]), "far is asked again at once");
    cr_expect(eq(u64, asked(h[1], &slots, user), last[1]), "shared is asked again at once");
    books();
}

/* Many launched at once that fail say one thing; and why is said. */
Test(gateway_joined, agents_that_fail_together_pause_a_site_once)
{
    uint64_t  agents[3];
    far_host *h = join_batch(agents);
    htc_buf   b;
    htc_buf_init(&b, NULL, 0);
    for (int i = 0; i < 3; i++) {
        htc_joined_launched_write(&b, agents[i], HTC_EREFUSED, htc_bytes_of("held by the batch system"));
        rig_say(&r, h->peer, &b);
    }
    htc_buf_free(&b);
    h->m.count = 0;
    json_t *a = rig_ask(&r, operator_peer(), "{\"op\":\"agents\"}"), *site = json_array_get(json_object_get(a, "sites"), 1);
    cr_expect(json_is_true(json_object_get(site, "paused")));
    cr_expect(strstr(json_string_value(json_object_get(site, "reason")), "held by the batch system") != NULL);
    json_decref(a);
    for (int i = 0; i < 7; i++) {
        say_hello(h);
        rig_pass(&r, HTC_SECOND);
    }
    uint32_t slots;
    char     user[64];
    cr_expect(asked(h, &slots, user) > agents[2], "it pauses for longer than one failure is worth");
    books();
}

static void explain(const far_host *h, uint64_t agent, const char *why)
{
    htc_buf b;
    htc_buf_init(&b, NULL, 0);
    htc_joined_launched_write(&b, agent, HTC_EREFUSED, htc_bytes_of(why));
    rig_say(&r, h->peer, &b);
    htc_buf_free(&b);
}

static void site_says(const char *reason)
{
    json_t     *a = rig_ask(&r, operator_peer(), "{\"op\":\"agents\"}");
    const char *says = json_string_value(json_object_get(json_array_get(json_object_get(a, "sites"), 1), "reason"));
    cr_expect(says && strcmp(says, reason) == 0, "%s", says);
    json_decref(a);
}

/* Why an agent has ended may be known late. It is the reason of a site if that agent's end was. */
Test(gateway_joined, a_late_explanation_is_of_one_agent)
{
    uint64_t  agents[3];
    far_host *h = join_batch(agents);
    hand      b = register_on(agents[1], "far", 1);
    cr_expect(eq(int, welcome_of(&b), HTC_OK));
    h->m.agents[1] = h->m.agents[2];
    h->m.count = 2;
    say_hello(h);
    rig_pass(&r, HTC_SECOND);
    h->m.agents[0] = h->m.agents[1];
    h->m.count = 1;
    say_hello(h);
    rig_pass(&r, 100 * HTC_MS);
    site_says("an agent ended before it registered (see its log)");
    explain(h, agents[1], "TIMEOUT");
    site_says("an agent ended before it registered (see its log)");
    explain(h, agents[0], "NODE_FAIL");
    site_says("an agent ended before it registered: NODE_FAIL");
    books();
}

/* Two queues and one task: an agent waits in each, and neither is taken out for the other's sake. */
Test(gateway_joined, one_task_waits_in_two_queues_in_peace)
{
    far_host *one = join("far", 3), *two = join("shared", 3);
    uint32_t  slots;
    char      user[64];
    one->m.agent_slots = two->m.agent_slots = 1;
    say_hello(one);
    say_hello(two);
    json_decref(rig_ask(&r, operator_peer(), "{\"op\":\"site.drain\",\"site\":\"local\"}"));
    (void)submit(operator_peer(), "olga", SWEEP(1));
    rig_pass(&r, HTC_SECOND);
    far_host *both[2] = { one, two };
    for (int k = 0; k < 2; k++)
        if (asked(both[k], &slots, user)) {
            launched(both[k], asked(both[k], &slots, user));
            both[k]->m.phases[0] = HTC_JOINED_WAITS;
            say_hello(both[k]);
        }
    for (int k = 0; k < 2; k++)
        if (!both[k]->m.count) {
            rig_pass(&r, HTC_SECOND);
            cr_assert(asked(both[k], &slots, user) != 0, "a queue holds it up");
            launched(both[k], asked(both[k], &slots, user));
            both[k]->m.phases[0] = HTC_JOINED_WAITS;
            say_hello(both[k]);
        }
    uint64_t first = asked(one, &slots, user), second = asked(two, &slots, user);
    for (int i = 0; i < 30; i++) {
        say_hello(one);
        say_hello(two);
        rig_pass(&r, 500 * HTC_MS);
    }
    cr_expect(asked(one, &slots, user) == first && asked(two, &slots, user) == second, "it is launched again");
    cr_expect(killed(one) == 0 && killed(two) == 0, "it is taken out");
    books();
}

/* Slots in a queue are held, and used by nobody: who has more than its share makes room. */
Test(gateway_joined, agents_in_a_queue_make_room_for_other_users)
{
    uint32_t slots;
    char     user[64];
    json_decref(rig_ask(&r, operator_peer(), "{\"op\":\"user.add\",\"name\":\"ada\",\"password\":\"secret12\"}"));
    far_host *h = join("shared", 4);
    h->m.agent_slots = 1;
    say_hello(h);
    json_decref(rig_ask(&r, operator_peer(), "{\"op\":\"site.drain\",\"site\":\"local\"}"));
    (void)busy_job("olga");
    uint64_t last = asked(h, &slots, user);
    for (uint64_t i = 0; i < 4; i++) {
        launched(h, last - 3 + i);
        h->m.phases[i] = HTC_JOINED_WAITS;
    }
    say_hello(h);
    cr_expect(eq(u64, killed(h), 0));
    (void)busy_job("ada");
    cr_expect(eq(u64, killed(h), last - 1), "the two newest are taken out");
    h->m.count = 2; /* and are gone */
    say_hello(h);
    rig_pass(&r, HTC_SECOND);
    cr_assert(asked(h, &slots, user) > last);
    cr_expect(eq(str, user, "ada"));
    books();
}

/* One that was to begin nothing more before anybody knew that it waits. */
Test(gateway_joined, one_that_drains_does_not_wait_in_a_queue)
{
    uint64_t  agents[3];
    far_host *h = join_batch(agents);
    json_decref(rig_ask(&r, operator_peer(), "{\"op\":\"site.drain\",\"site\":\"far\"}"));
    h->m.phases[1] = HTC_JOINED_WAITS;
    say_hello(h);
    cr_expect(eq(u64, killed(h), agents[1]));
    books();
}

/* While nobody speaks for the queue, those in it may be there still. */
Test(gateway_joined, a_queue_outlives_its_broker)
{
    uint64_t  agents[3];
    far_host *h = join_batch(agents);
    h->m.phases[0] = h->m.phases[1] = HTC_JOINED_WAITS;
    say_hello(h);
    rig_gateway(&r, &(htc_input){ .size = sizeof(htc_input), .now = r.now, .wall = r.wall, .kind = HTC_IN_CLOSED, .peer = h->peer, .status = HTC_ECLOSED });
    for (int i = 0; i < 20; i++)
        rig_pass(&r, 60 * HTC_SECOND); /* longer than an agent may take to begin */
    far_host again = { .peer = open_key("far", HTC_KEY_HOST, HTC_WIRE_ROLE_JOINED), .m = h->m };
    again.m.launches = 0;
    say_hello(&again);
    cr_expect(eq(u64, killed(&again), agents[2]), "that one did not wait, and never came");
    cr_expect(eq(str, state_of(agents[0]), "queued"));
    /* The gateway starts anew while it is away too. */
    rig_gateway(&r, &(htc_input){ .size = sizeof(htc_input), .now = r.now, .wall = r.wall, .kind = HTC_IN_CLOSED, .peer = again.peer, .status = HTC_ECLOSED });
    kill_now();
    rig_pass(&r, 60 * HTC_SECOND);
    far_host third = { .peer = open_key("far", HTC_KEY_HOST, HTC_WIRE_ROLE_JOINED), .m = again.m };
    third.m.count = 2;
    say_hello(&third);
    cr_expect(eq(u64, killed(&third), 0));
    cr_expect(eq(str, state_of(agents[1]), "queued"));
    books();
}

/* ---- out of service ---- */

static json_t *site_at(json_t **answer, size_t at)
{
    *answer = rig_ask(&r, operator_peer(), "{\"op\":\"agents\"}");
    return json_array_get(json_object_get(*answer, "sites"), at);
}

static const char *site_state(size_t at)
{
    static char state[32];
    json_t     *answer;
    snprintf(state, sizeof state, "%s", json_string_value(json_object_get(site_at(&answer, at), "state")));
    json_decref(answer);
    return state;
}

Test(gateway_joined, a_drained_site_finishes_what_runs_and_gets_nothing_more)
{
    uint64_t  agents[3];
    far_host *h = join_batch(agents);
    uint32_t  slots;
    char      user[64];
    hand      a = register_on(agents[0], "far", 1);
    cr_expect(eq(int, welcome_of(&a), HTC_OK));
    cr_expect(eq(str, (char *)(uintptr_t)site_state(1), "open"));
    json_decref(rig_ask(&r, operator_peer(), "{\"op\":\"site.drain\",\"site\":\"far\",\"reason\":\"new disks\"}"));
    cr_expect(rig_newest(&r, a.peer, HTC_WIRE_DRAIN) != NULL, "its agent is not drained");
    cr_expect(eq(str, (char *)(uintptr_t)site_state(1), "drained"));
    hand        late = register_on(agents[1], "far", 1); /* it was launched before */
    htc_attempt at;
    cr_expect(eq(int, welcome_of(&late), HTC_OK));
    cr_expect(eq(str, state_of(agents[1]), "draining"));
    cr_expect(eq(u32, pull(&late, &at), HTC_GRANT_EXIT));
    h->m.agents[0] = agents[1]; /* two have ended */
    h->m.count = 1;
    for (int i = 0; i < 3; i++) {
        say_hello(h);
        rig_pass(&r, 500 * HTC_MS);
    }
    cr_expect(eq(u64, asked(h, &slots, user), agents[2]), "something was launched there");
    /* It lasts over a restart. */
    kill_now();
    cr_expect(eq(str, (char *)(uintptr_t)site_state(1), "drained"));
    h = join("far", 3);
    rig_pass(&r, HTC_SECOND);
    cr_expect(eq(u64, asked(h, &slots, user), 0), "something was launched there");
    json_t *answer, *why = rig_ask(&r, operator_peer(), "{\"op\":\"why\",\"id\":\"1\"}");
    cr_expect(strstr(json_string_value(json_object_get(site_at(&answer, 1), "reason")), "new disks") != NULL);
    json_decref(answer);
    json_decref(why);
    json_decref(rig_ask(&r, operator_peer(), "{\"op\":\"site.resume\",\"site\":\"far\"}"));
    rig_pass(&r, HTC_SECOND);
    cr_expect(asked(h, &slots, user) > agents[2], "nothing is launched there again");
    books();
    kill_now();
    cr_expect(eq(str, (char *)(uintptr_t)site_state(1), "away"));
}

/* A node is one of many of a site: its agents finish what runs and leave, the others go on; one that begins there later leaves at once. It lasts over a restart. */
Test(gateway_joined, a_drained_node_finishes_what_runs_and_the_others_go_on)
{
    uint64_t  agents[3];
    (void)join_batch(agents);
    hand      a = register_on(agents[0], "far", 1);
    cr_expect(eq(int, welcome_of(&a), HTC_OK));
    json_t *r1 = rig_ask(&r, operator_peer(), "{\"op\":\"node.drain\",\"node\":\"n9\"}");
    cr_expect(eq(str, (char *)(uintptr_t)json_string_value(json_object_get(r1, "error")), "HTC_ENOTFOUND"));
    json_decref(r1);
    r1 = rig_ask(&r, operator_peer(), "{\"op\":\"node.drain\",\"node\":\"a/b\",\"unseen\":true}");
    cr_expect(eq(str, (char *)(uintptr_t)json_string_value(json_object_get(r1, "error")), "HTC_EINVAL"));
    json_decref(r1);
    r1 = rig_ask(&r, operator_peer(), "{\"op\":\"node.drain\",\"node\":\"node-far\",\"reason\":\"a fan\"}");
    cr_expect(eq(int, (int)json_integer_value(json_object_get(r1, "used")), 1));
    json_decref(r1);
    cr_expect(rig_newest(&r, a.peer, HTC_WIRE_DRAIN) != NULL, "its agent is not drained");
    cr_expect(eq(str, state_of(agents[0]), "draining"));
    cr_expect(eq(str, (char *)(uintptr_t)site_state(1), "open"), "the site has other nodes");
    hand        late = register_on(agents[1], "far", 1);
    htc_attempt at;
    cr_expect(eq(int, welcome_of(&late), HTC_OK));
    cr_expect(eq(u32, pull(&late, &at), HTC_GRANT_EXIT));
    cr_expect(eq(str, (char *)(uintptr_t)site_state(1), "paused"), "or agents would be launched there one after the other");
    kill_now();
    json_t *list = rig_ask(&r, operator_peer(), "{\"op\":\"agents\"}"), *one = json_array_get(json_object_get(list, "nodes_drained"), 0);
    cr_expect(eq(str, (char *)(uintptr_t)json_string_value(json_object_get(one, "reason")), "a fan"), "it is forgotten after a restart");
    json_decref(list);
    json_decref(rig_ask(&r, operator_peer(), "{\"op\":\"node.resume\",\"node\":\"node-far\"}"));
    list = rig_ask(&r, operator_peer(), "{\"op\":\"agents\"}");
    cr_expect(eq(int, (int)json_array_size(json_object_get(list, "nodes_drained")), 0));
    json_decref(list);
    books();
}

Test(gateway_joined, only_the_operator_drains_and_only_what_is_there)
{
    json_t *a = rig_ask(&r, operator_peer(), "{\"op\":\"site.drain\",\"site\":\"nowhere\"}");
    cr_expect(eq(str, (char *)(uintptr_t)json_string_value(json_object_get(a, "error")), "HTC_ENOTFOUND"));
    json_decref(a);
    a = rig_ask(&r, operator_peer(), "{\"op\":\"site.drain\"}");
    cr_expect(eq(str, (char *)(uintptr_t)json_string_value(json_object_get(a, "error")), "HTC_EINVAL"));
    json_decref(a);
    a = rig_ask(&r, operator_peer(), "{\"op\":\"site.resume\",\"site\":\"far\"}"); /* it was open */
    cr_expect(json_object_get(a, "error") == NULL);
    json_decref(a);
}

/* ---- what a monitor sees ---- */

static uint64_t figure(const char *id)
{
    htc_metrics *m;
    htc_bytes    text;
    om           t;
    cr_assert(eq(int, htc_metrics_create(NULL, 64 << 10, &m), HTC_OK));
    htc_gateway_metrics(r.gateway, m);
    cr_assert(eq(int, htc_metrics_end(m, &text), HTC_OK));
    cr_assert(om_read(&t, text), "line %zu: %s", t.line, t.wrong);
    cr_expect(!memmem(text.data, text.len, "olga", 4) && !memmem(text.data, text.len, "node-far", 8), "it names somebody");
    uint64_t n = om_number(&t, id);
    om_free(&t);
    htc_metrics_destroy(m);
    return n;
}

Test(gateway_joined, a_monitor_sees_figures_of_sites_and_tasks)
{
    uint64_t  agents[3];
    far_host *h = join_batch(agents);
    h->m.phases[2] = HTC_JOINED_WAITS;
    say_hello(h);
    hand a = register_on(agents[0], "far", 1);
    cr_expect(eq(int, welcome_of(&a), HTC_OK));
    cr_expect(eq(u64, figure("htc_gateway_slots{site=\"far\",state=\"used\"}"), 3));
    cr_expect(eq(u64, figure("htc_gateway_agents{site=\"far\",state=\"queued\"}"), 1));
    cr_expect(eq(u64, figure("htc_gateway_agents{site=\"far\",state=\"starting\"}"), 1));
    cr_expect(eq(u64, figure("htc_gateway_agents{site=\"far\",state=\"idle\"}"), 1));
    cr_expect(eq(u64, figure("htc_gateway_site_open{site=\"shared\"}"), 0));
    cr_expect(eq(u64, figure("htc_gateway_launches_total{site=\"far\"}"), 3));
    cr_expect(eq(u64, figure("htc_gateway_tasks{state=\"waiting\"}"), 9));
    json_decref(rig_ask(&r, operator_peer(), "{\"op\":\"cancel\",\"id\":1}"));
    rig_pass(&r, 100 * HTC_MS);
    cr_expect(eq(u64, figure("htc_gateway_tasks_ended_total{state=\"cancelled\"}"), 9));
    cr_expect(eq(u64, figure("htc_gateway_jobs_open"), 0));
}

/* ---- flows ---- */

static const char *seat_at(const char *user, const char *number)
{
    static char text[2048];
    snprintf(text, sizeof text,
             "{\"op\":\"submit\",\"user\":\"%s\",\"jsdl\":\"<jsdl:JobDefinition xmlns:jsdl='http://schemas.ggf.org/jsdl/2005/11/jsdl'"
             " xmlns:px='http://schemas.ggf.org/jsdl/2005/11/jsdl-posix'><jsdl:JobDescription><jsdl:Application><px:POSIXApplication>"
             "<px:Executable>htc:flow</px:Executable><px:Argument>%s</px:Argument></px:POSIXApplication></jsdl:Application>"
             "</jsdl:JobDescription></jsdl:JobDefinition>\"}",
             user, number);
    return text;
}

Test(gateway_joined, a_seat_is_at_ones_own_flow)
{
    uint32_t p = operator_peer();
    json_decref(rig_ask(&r, p, "{\"op\":\"user.add\",\"name\":\"ada\",\"password\":\"secret12\",\"uid\":1001,\"gid\":1001}"));
    cr_expect(eq(str, (char *)(uintptr_t)refusal(p, seat_at("olga", "1")), ""));
    cr_expect(eq(str, (char *)(uintptr_t)refusal(p, seat_at("ada", "1")), "HTC_EDENIED"), "ada works at the owner's flow");
    cr_expect(eq(str, (char *)(uintptr_t)refusal(p, seat_at("ada", "4299262263297")), ""), "ada's own: 1001 * 2^32 + 1");
    cr_expect(eq(str, (char *)(uintptr_t)refusal(p, seat_at("olga", "4299262263297")), "HTC_EDENIED"), "the owner works at ada's flow");
    cr_expect(eq(str, (char *)(uintptr_t)refusal(p, seat_at("ada", "4303557230593")), "HTC_EDENIED"), "ada works at the flow of uid 1002");
}
