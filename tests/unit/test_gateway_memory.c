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
