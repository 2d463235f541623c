/* Memory as a resource: the rules of memory.h against a list that is added up anew each time, and what a gateway makes of them. */
#include "gateway_hand.h"

#include "roles/gateway/memory.h"

TestSuite(gateway_memory, .init = begin, .fini = end);

/* ---- the rules ---- */

#define GIB (UINT64_C(1) << 30)

Test(gateway_memory, room_is_kept_from_all_but_one)
{
    memory m = { .total = 10 * GIB };
    htc__memory_change(&m, 0, 4 * GIB);
    cr_expect(eq(u64, htc__memory_free(&m), 6 * GIB));
    cr_expect(htc__memory_fits(&m, 1, 6 * GIB) && !htc__memory_fits(&m, 1, 6 * GIB + 1));
    htc__memory_keep(&m, 7, 5 * GIB);
    cr_expect(htc__memory_fits(&m, 1, GIB) && !htc__memory_fits(&m, 1, GIB + 1), "the others have what is beside it");
    cr_expect(htc__memory_fits(&m, 7, 6 * GIB));
    htc__memory_keep(&m, 7, 9 * GIB);
    cr_expect(!htc__memory_fits(&m, 1, 1) && !htc__memory_fits(&m, 7, 9 * GIB), "until others have ended");
    cr_expect(htc__memory_fits(&m, 1, 0));
    htc__memory_change(&m, 4 * GIB, 0);
    cr_expect(htc__memory_fits(&m, 7, 9 * GIB) && htc__memory_fits(&m, 1, GIB));
    htc__memory_keep(&m, 0, 0);
    cr_expect(htc__memory_fits(&m, 1, 10 * GIB));
    cr_expect(htc__memory_fits(&(memory){ 0 }, 1, UINT64_MAX), "where nothing is known");
    cr_expect(!htc__memory_fits(&(memory){ .total = 1, .reserved = 2 }, 1, 1), "a smaller node after a restart");
}

Test(gateway_memory, the_longest_wait_comes_first)
{
    memory_wait a = { 2, 1, 50 }, b = { 1, 1, 60 }, c = { 3, 1, 50 }, none = { 0 };
    cr_expect(htc__memory_longer(&a, &b) && !htc__memory_longer(&b, &a));
    cr_expect(htc__memory_longer(&a, &c) && !htc__memory_longer(&c, &a));
    cr_expect(htc__memory_longer(&b, &none) && !htc__memory_longer(&none, &b) && !htc__memory_longer(&none, &none));
}

#define JOBS 6
#define WAIT 50 /* moments until room is kept */

/* One node, jobs that always have a next task, tasks of 1 to 20 moments. What runs is a list, and what the rules count has to be its
 * sum. A task waits for at most WAIT, and then for each job whose turn comes before it until room is there: 20 and 20. */
Test(gateway_memory, never_more_than_there_is_and_nobody_starves)
{
    for (uint64_t seed = 1; seed <= 200; seed++) {
        htc_rng  rng = { seed };
        memory   m = { .total = 20 + htc_rng_below(&rng, 100) };
        uint64_t running[64] = { 0 }, ends[64] = { 0 }, need[JOBS], waits[JOBS], longest = 0;
        for (int j = 0; j < JOBS; j++) {
            need[j] = 1 + htc_rng_below(&rng, htc_rng_below(&rng, 2) ? m.total : m.total / 10);
            waits[j] = 0;
        }
        for (uint64_t now = 1; now < 3000; now++) {
            uint64_t    sum = 0;
            memory_wait first = { 0 };
            for (int i = 0; i < 64; i++)
                if (running[i] && ends[i] <= now) {
                    htc__memory_change(&m, running[i], 0);
                    running[i] = 0;
                }
            for (int k = 0; k < JOBS; k++) {
                int j = (int)htc_rng_below(&rng, JOBS), slot = 0;
                while (slot < 64 && running[slot])
                    slot++;
                if (slot == 64)
                    break;
                if (!htc__memory_fits(&m, (uint64_t)j + 1, need[j])) {
                    waits[j] = waits[j] ? waits[j] : now;
                    continue;
                }
                htc__memory_change(&m, 0, need[j]);
                if (m.kept_for == (uint64_t)j + 1)
                    htc__memory_keep(&m, 0, 0);
                running[slot] = need[j];
                ends[slot] = now + 1 + htc_rng_below(&rng, 20);
                waits[j] = 0;
            }
            for (uint64_t j = 0; j < JOBS; j++) {
                memory_wait w = { j + 1, need[j], waits[j] };
                longest = waits[j] && now - waits[j] > longest ? now - waits[j] : longest;
                if (waits[j] && now - waits[j] >= WAIT && htc__memory_longer(&w, &first))
                    first = w;
            }
            if (!m.kept_for && first.job)
                htc__memory_keep(&m, first.job, first.need);
            for (int i = 0; i < 64; i++)
                sum += running[i];
            cr_assert(eq(u64, sum, m.reserved), "seed %llu", (unsigned long long)seed);
            cr_assert(sum <= m.total, "seed %llu: %llu of %llu reserved", (unsigned long long)seed, (unsigned long long)sum,
                      (unsigned long long)m.total);
        }
        cr_expect(longest <= WAIT + JOBS * 40, "seed %llu: one waited %llu moments", (unsigned long long)seed, (unsigned long long)longest);
    }
}

/* ---- a gateway: 8 GiB, four slots, so 2 GiB for a task that names no figure ---- */

static uint64_t submit_large(uint32_t peer, const char *user, const char *jsdl, uint64_t bytes)
{
    json_t *rq = json_pack("{s:s,s:s,s:s,s:I}", "op", "submit", "user", user, "jsdl", jsdl, "memory", (json_int_t)bytes);
    char   *text = json_dumps(rq, 0);
    json_t *answer = rig_ask(&r, peer, text);
    free(text);
    json_decref(rq);
    uint64_t id = (uint64_t)json_integer_value(json_object_get(answer, "id"));
    cr_assert(id != 0);
    json_decref(answer);
    return id;
}

static void why_is(uint32_t peer, const char *request, const char *code, const char *text)
{
    json_t     *answer = rig_ask(&r, peer, request);
    const char *is = json_string_value(json_object_get(answer, "why"));
    cr_expect(eq(str, (char *)json_string_value(json_object_get(answer, "code")), (char *)code), "%s", is);
    cr_expect(strstr(is, text) != NULL, "%s", is);
    json_decref(answer);
}

static hand newest(void)
{
    return hello(r.launched[r.n_launched - 1].agent);
}

/* Two of 3 GiB run; the third waits and holds no slot, and one of 2 GiB passes it. */
Test(gateway_memory, packs_tasks_by_what_they_ask_for)
{
    uint32_t    p = operator_peer();
    htc_attempt at;
    hand        h[4];
    uint64_t    large = submit_large(p, "olga", SWEEP(4), 3 * GIB);
    rig_pass(&r, 100 * HTC_MS);
    cr_assert(eq(sz, r.n_launched, 2), "two fit");
    for (int i = 0; i < 2; i++) {
        h[i] = hello(r.launched[i].agent);
        cr_assert(eq(u32, pull(&h[i], &at), HTC_GRANT_TASKS));
    }
    rig_pass(&r, 100 * HTC_MS);
    why_is(p, "{\"op\":\"why\",\"id\":1}", "Memory", "3.0 GiB");
    why_is(p, "{\"op\":\"why\",\"id\":\"1.3\"}", "Memory", "2.0 of 8.0 GiB");
    why_is(p, "{\"op\":\"why\",\"user\":\"olga\"}", "Memory", "job 1");
    uint64_t small = submit(p, "olga", SWEEP(2));
    rig_pass(&r, 100 * HTC_MS);
    cr_assert(eq(sz, r.n_launched, 3), "one of 2 GiB fits beside them");
    h[2] = newest();
    cr_assert(eq(u32, pull(&h[2], &at), HTC_GRANT_TASKS));
    cr_expect(eq(u64, at.job, small));
    cr_expect(eq(int, report(&h[2], &at, HTC_OK), HTC_OK));
    cr_assert(eq(u32, pull(&h[2], &at), HTC_GRANT_TASKS));
    cr_expect(eq(int, report(&h[2], &at, HTC_OK), HTC_OK));
    cr_expect(eq(u32, pull(&h[2], &at), HTC_GRANT_EXIT), "nothing that fits: it is not held");
    at = (htc_attempt){ large, 0, 1 };
    cr_expect(eq(int, report(&h[0], &at, HTC_OK), HTC_OK));
    cr_assert(eq(u32, pull(&h[0], &at), HTC_GRANT_TASKS));
    cr_expect(eq(u64, at.job, large));
}

/* Its task has ended: it gets the next one, or leaves, and the next agent that was launched takes its place. */
static uint32_t turn(hand *h, htc_attempt *at)
{
    size_t launched = r.n_launched;
    cr_expect(eq(int, report(h, at, HTC_OK), HTC_OK));
    uint32_t kind = pull(h, at);
    if (kind != HTC_GRANT_EXIT)
        return kind;
    process_ended(h->id);
    rig_pass(&r, 100 * HTC_MS);
    if (r.n_launched == launched)
        return kind;
    *h = newest();
    return pull(h, at);
}

/* A stream of small tasks passes a large one for a minute; then room is kept for it. */
Test(gateway_memory, keeps_room_for_a_task_that_has_waited)
{
    uint32_t    p = operator_peer();
    htc_attempt at[4];
    hand        h[4];
    uint64_t    small = submit(p, "olga", SWEEP(100));
    rig_pass(&r, 100 * HTC_MS);
    for (int i = 0; i < 4; i++) {
        h[i] = hello(r.launched[i].agent);
        cr_assert(eq(u32, pull(&h[i], &at[i]), HTC_GRANT_TASKS));
    }
    cr_assert(eq(str, (char *)refusal(p, "{\"op\":\"user.add\",\"name\":\"ben\",\"password\":\"x\"}"), ""));
    uint64_t large = submit_large(p, "ben", SWEEP(1), 5 * GIB);
    rig_pass(&r, 5 * HTC_SECOND);
    for (int k = 0; k < 11; k++) {
        cr_assert(eq(u32, turn(&h[k % 4], &at[k % 4]), HTC_GRANT_TASKS), "turn %d", k);
        cr_expect(eq(u64, at[k % 4].job, small), "turn %d: smaller ones pass it", k);
        rig_pass(&r, 5 * HTC_SECOND);
    }
    why_is(p, "{\"op\":\"why\",\"id\":2}", "Memory", "smaller tasks pass it");
    rig_pass(&r, 10 * HTC_SECOND);
    why_is(p, "{\"op\":\"why\",\"id\":2}", "Memory", "room is kept for it");
    cr_expect(eq(u32, turn(&h[0], &at[0]), HTC_GRANT_EXIT));
    cr_expect(eq(u32, turn(&h[1], &at[1]), HTC_GRANT_EXIT));
    cr_assert(eq(u32, turn(&h[2], &at[2]), HTC_GRANT_TASKS), "5 of 8 GiB are free beside 2");
    cr_expect(eq(u64, at[2].job, large));
}

/* What is reserved follows from the leases: a gateway that starts again counts it before it hands anything out. */
Test(gateway_memory, counts_what_runs_after_a_restart)
{
    uint32_t    p = operator_peer();
    htc_attempt at, more;
    submit_large(p, "olga", SWEEP(4), 5 * GIB);
    rig_pass(&r, 100 * HTC_MS);
    hand h = hello(r.launched[0].agent);
    cr_assert(eq(u32, pull(&h, &at), HTC_GRANT_TASKS));
    rig_kill(&r);
    rig_start(&r);
    p = operator_peer();
    size_t before = r.n_launched;
    rig_pass(&r, HTC_SECOND);
    cr_expect(eq(sz, r.n_launched, before), "nothing more fits");
    json_t *answer = rig_ask(&r, p, "{\"op\":\"agents\"}");
    cr_expect(eq(u64, (uint64_t)json_integer_value(json_object_get(json_array_get(json_object_get(answer, "sites"), 0), "memory_reserved")), 5 * GIB));
    json_decref(answer);
    submit(p, "olga", SWEEP(1));
    rig_pass(&r, 100 * HTC_MS);
    cr_assert(eq(sz, r.n_launched, before + 1));
    hand small = newest();
    cr_assert(eq(u32, pull(&small, &more), HTC_GRANT_TASKS));
    cr_expect(eq(u64, more.job, 2));
}

static uint64_t reserved(uint32_t p)
{
    htc_gateway_books b = { .size = sizeof b };
    json_t           *answer = rig_ask(&r, p, "{\"op\":\"agents\"}");
    uint64_t          n = (uint64_t)json_integer_value(json_object_get(json_array_get(json_object_get(answer, "sites"), 0), "memory_reserved"));
    json_decref(answer);
    cr_expect(eq(int, htc_gateway_audit(r.gateway, 1, &b), HTC_OK));
    cr_expect(eq(str, b.wrong, ""));
    return n;
}

/* Two tasks of 5 GiB, of which one runs; its agent is silent, and is lost. */
static hand lose_one_of_five(htc_attempt *at)
{
    uint32_t p = operator_peer();
    submit_large(p, "olga", SWEEP(2), 5 * GIB);
    rig_pass(&r, 100 * HTC_MS);
    hand h = hello(r.launched[0].agent);
    cr_assert(eq(u32, pull(&h, at), HTC_GRANT_TASKS));
    rig_pass(&r, 31 * HTC_SECOND);
    cr_assert(eq(int, (int)count_of(p, at->job, "waiting"), 2), "it is lost");
    cr_expect(eq(u64, reserved(p), 5 * GIB), "its process may run");
    cr_expect(eq(sz, r.n_launched, 1));
    return h;
}

static uint32_t start_again(void)
{
    rig_kill(&r);
    rig_start(&r);
    return operator_peer();
}

/* Its processes may run on when the next gateway begins, and the one after that: what they may use is nobody else's. */
Test(gateway_memory, of_a_lost_agent_stays_reserved_for_the_next_gateway)
{
    htc_attempt at;
    hand        h = lose_one_of_five(&at);
    for (int i = 0; i < 3; i++) {
        uint32_t p = start_again();
        rig_pass(&r, 100 * HTC_MS);
        cr_expect(eq(u64, reserved(p), 5 * GIB), "start %d", i);
        cr_expect(eq(sz, r.n_launched, 1), "nothing more fits");
    }
    process_ended(h.id);
    cr_expect(eq(u64, reserved(operator_peer()), 0));
    rig_pass(&r, 100 * HTC_MS);
    cr_expect(eq(sz, r.n_launched, 2), "for the next one");
    cr_expect(eq(u64, reserved(start_again()), 0), "nothing is left of it");
}

/* Likewise until its agent is back and does not have it. */
Test(gateway_memory, of_a_lost_agent_is_free_when_it_is_back_without_the_task)
{
    htc_attempt at, next;
    hand        h = lose_one_of_five(&at);
    uint32_t    p = start_again();
    cr_expect(eq(u64, reserved(p), 5 * GIB));
    h = hello(h.id); /* with nothing in its hands */
    cr_assert(eq(int, welcome_of(&h), HTC_OK));
    cr_expect(eq(u64, reserved(p), 0));
    cr_assert(eq(u32, pull(&h, &next), HTC_GRANT_TASKS));
    cr_expect(eq(u64, reserved(p), 5 * GIB));
    p = start_again();
    cr_expect(eq(u64, reserved(p), 5 * GIB), "of that one alone");
}

static void with_another(htc_gateway_options *o)
{
    o->lease_ns = 2 * HTC_SECOND;
    o->name = "head1";
    o->address = "10.0.0.1:7420";
}

static hand back_with(uint64_t agent, const htc_attempt *at)
{
    hand            h = { .id = agent, .peer = rig_open(&r, RIG_UID, HTC_WIRE_ROLE_AGENT) };
    htc_agent_hello m = { .agent = agent, .slots = 1, .cores = 4, .node = "node1", .held = { .count = 1, .held = { { *at, HTC_HELD_RUNNING } } } };
    htc_buf         b;
    htc_buf_init(&b, NULL, 0);
    htc_agent_hello_write(&b, &m);
    rig_say(&r, h.peer, &b);
    htc_buf_free(&b);
    return h;
}

static void process_stops(uint64_t agent)
{
    htc_buf b;
    htc_buf_init(&b, NULL, 0);
    htc_put_u64(&b, agent);
    rig_put_handle(&b, agent);
    rig_gateway(&r, &(htc_input){ .size = sizeof(htc_input), .now = r.now, .wall = r.wall, .kind = HTC_IN_EVENT, .op = HTC_EVENT_AGENT_STOPPED, .body = htc_buf_bytes(&b) });
    htc_buf_free(&b);
}

/* The gateway is killed after each message that the loss of an agent takes: 1, it was not the last one. Whatever is written, the memory is reserved, once. */
static int killed_while_it_is_lost(int n)
{
    htc_attempt at;
    submit_large(operator_peer(), "olga", SWEEP(2), 5 * GIB);
    rig_pass(&r, HTC_SECOND);
    hand h = hello(r.launched[0].agent);
    rig_pass(&r, 100 * HTC_MS);
    cr_assert(eq(u32, pull(&h, &at), HTC_GRANT_TASKS));
    r.busy = 1;
    process_stops(h.id);
    for (int i = 0; i < n && r.posts; i++)
        take_post();
    int more = r.posts != NULL;
    kill_now();
    r.busy = 0;
    rig_run(&r);
    rig_pass(&r, 3 * HTC_SECOND);
    cr_expect(eq(u64, reserved(operator_peer()), 5 * GIB), "after %d messages", n);
    cr_expect(eq(sz, r.n_launched, 1), "after %d messages: the other task does not fit", n);
    h = back_with(h.id, &at);
    if (report(&h, &at, HTC_OK) == HTC_OK)
        cr_expect(eq(u64, reserved(operator_peer()), 0), "after %d messages: it was held, and has ended", n);
    process_ended(h.id);
    cr_expect(eq(u64, reserved(operator_peer()), 0), "after %d messages", n);
    rig_pass(&r, HTC_SECOND);
    rig_kill(&r);
    rig_start(&r);
    rig_pass(&r, 3 * HTC_SECOND);
    cr_expect(eq(u64, reserved(operator_peer()), 0), "after %d messages: a record is left", n);
    return more;
}

Test(gateway_memory, of_a_lost_agent_is_reserved_once_whenever_the_gateway_is_killed)
{
    for (int shared = 0, n = 0; shared < 2; n++) {
        rig_kill(&r);
        r.change = shared ? with_another : NULL;
        rig_start(&r);
        rig_pass(&r, HTC_SECOND);
        if (!killed_while_it_is_lost(n)) {
            cr_expect(n > (shared ? 2 : 0), "%d messages", n);
            shared++;
            n = -1;
        }
        end();
        begin();
    }
}
