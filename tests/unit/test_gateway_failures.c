/* Tasks that fail: how often they are tried, what is left to read of it, and nodes that fail everything. */
#include "gateway_bad_engine.h"

TestSuite(gateway_failures, .init = begin, .fini = end);

/* ---- retries ---- */

/* HTCaaS 6: A task exits with an error, is killed, or goes over a limit. */
Test(gateway_failures, retries_to_the_limit_and_by_hand_without_turning_the_number_back)
{
    uint32_t    p = operator_peer();
    uint64_t    id = submit(p, "olga", SWEEP(1));
    htc_attempt at;
    rig_pass(&r, 100 * HTC_MS);
    for (uint32_t i = 1; i <= 4; i++) {
        size_t n = r.n_launched;
        hand   h = hello(r.launched[n - 1].agent);
        cr_assert(eq(u32, pull(&h, &at), HTC_GRANT_TASKS));
        cr_expect(eq(u32, at.attempt, i));
        cr_expect(eq(int, report(&h, &at, i < 4 ? HTC_EEXIT : HTC_OK), HTC_OK));
        cr_expect(eq(u32, pull(&h, &at), HTC_GRANT_EXIT));
        process_ended(h.id);
        if (i == 3) {
            cr_expect(eq(long, (long)count_of(p, id, "failed"), 1L));
            cr_expect(eq(str, (char *)refusal(p, "{\"op\":\"retry\",\"id\":1,\"failed\":true}"), ""));
        }
        rig_pass(&r, 10 * HTC_SECOND);
    }
    cr_expect(eq(long, (long)count_of(p, id, "done"), 1L));
}

Test(gateway_failures, does_not_repeat_what_cannot_be_mended)
{
    uint32_t    p = operator_peer();
    uint64_t    id = submit(p, "olga", SWEEP(1));
    htc_attempt at;
    rig_pass(&r, 100 * HTC_MS);
    hand h = hello(r.launched[0].agent);
    cr_assert(eq(u32, pull(&h, &at), HTC_GRANT_TASKS));
    report(&h, &at, HTC_ENOEXEC);
    cr_expect(eq(long, (long)count_of(p, id, "failed"), 1L));
}

Test(gateway_failures, refuses_a_task_that_fits_no_node)
{
    uint32_t p = operator_peer();
    json_t  *rq = json_pack("{s:s,s:s,s:I}", "op", "submit", "jsdl", SWEEP(2), "memory", (json_int_t)INT64_C(1) << 40);
    char    *text = json_dumps(rq, 0);
    cr_expect(eq(str, (char *)refusal(p, text), "HTC_ENOFIT"));
    free(text);
    json_decref(rq);
}

/* ---- tried again elsewhere ---- */

#define PAUSE HTC_SECOND /* before the first retry */

/* Two agents on two nodes, each with a task; the first one's fails, and its pause is over. */
static uint64_t one_fails(uint32_t p, hand h[2], htc_attempt at[2], const char *other_node)
{
    uint64_t id = submit(p, "olga", SWEEP(2));
    rig_pass(&r, 100 * HTC_MS);
    cr_assert(eq(sz, r.n_launched, 2));
    for (int i = 0; i < 2; i++) {
        h[i] = hello_on(r.launched[i].agent, i ? other_node : "node1");
        cr_assert(eq(u32, pull(&h[i], &at[i]), HTC_GRANT_TASKS));
    }
    cr_expect(eq(int, report_after(&h[0], &at[0], HTC_EEXIT, 10 * HTC_MS, ""), HTC_OK));
    rig_pass(&r, PAUSE);
    return id;
}

Test(gateway_failures, a_task_that_failed_is_tried_again_on_another_node)
{
    uint32_t    p = operator_peer();
    hand        h[2];
    htc_attempt at[2], again;
    uint64_t    id = one_fails(p, h, at, "node2");
    cr_expect(eq(u32, pull(&h[0], &again), HTC_GRANT_WAIT), "where it failed, and another node is there");
    cr_expect(eq(int, report_after(&h[1], &at[1], HTC_OK, 10 * HTC_MS, ""), HTC_OK));
    cr_assert(eq(u32, pull(&h[1], &again), HTC_GRANT_TASKS));
    cr_expect(eq(u64, again.task, at[0].task));
    cr_expect(eq(u32, again.attempt, 2));
    cr_expect(eq(u32, pull(&h[0], &at[0]), HTC_GRANT_EXIT), "nothing is left to wait for");
    cr_expect(eq(int, report_after(&h[1], &again, HTC_OK, 10 * HTC_MS, ""), HTC_OK));
    cr_expect(eq(long, (long)count_of(p, id, "done"), 2L));
}

Test(gateway_failures, a_retry_that_nobody_else_asks_for_begins_where_it_failed)
{
    hand        h[2];
    htc_attempt at[2], again;
    one_fails(operator_peer(), h, at, "node2");
    for (int i = 0; i < 9; i++) {
        cr_expect(eq(u32, pull(&h[0], &again), HTC_GRANT_WAIT), "%d00 ms", i);
        rig_pass(&r, 100 * HTC_MS);
    }
    rig_pass(&r, 100 * HTC_MS);
    cr_assert(eq(u32, pull(&h[0], &again), HTC_GRANT_TASKS), "it waits for a node that is busy");
    cr_expect(eq(u64, again.task, at[0].task));
}

Test(gateway_failures, a_retry_begins_at_once_where_it_failed_if_there_is_no_other_node)
{
    hand        h[2];
    htc_attempt at[2], again;
    one_fails(operator_peer(), h, at, "node1");
    cr_expect(eq(u32, pull(&h[0], &again), HTC_GRANT_TASKS));
}

Test(gateway_failures, a_retry_begins_at_once_where_it_failed_when_the_other_node_is_gone)
{
    hand        h[2];
    htc_attempt at[2], again;
    one_fails(operator_peer(), h, at, "node2");
    cr_expect(eq(u32, pull(&h[0], &again), HTC_GRANT_WAIT));
    process_ended(h[1].id); /* its task is lost, and goes first */
    for (int i = 0; i < 2; i++) {
        cr_assert(eq(u32, pull(&h[0], &again), HTC_GRANT_TASKS));
        cr_expect(eq(u64, again.task, at[1 - i].task));
        cr_expect(eq(int, report_after(&h[0], &again, HTC_OK, 10 * HTC_MS, ""), HTC_OK));
    }
}

static void two_sites(htc_gateway_options *o)
{
    static htc_site_options sites[2];
    for (int i = 0; i < 2; i++)
        sites[i] = (htc_site_options){ .size = sizeof sites[0], .name = i ? "far" : "near", .cores = 1, .memory = UINT64_C(8) << 30 };
    o->sites = sites;
    o->n_sites = 2;
}

/* Both tasks fail at one site, and its agent leaves during the pause. Another one comes there first, while one is on its way to the other site: that has the
 * first task, if it comes within a second. */
static void both_fail_at_one_site(hand *near, uint64_t *far)
{
    htc_attempt at;
    rig_kill(&r);
    r.change = two_sites;
    rig_start(&r);
    submit(operator_peer(), "olga", SWEEP(2));
    rig_pass(&r, 100 * HTC_MS);
    cr_assert(eq(sz, r.n_launched, 2));
    *near = hello_on(r.launched[0].agent, "node1");
    *far = r.launched[1].agent;
    for (int i = 0; i < 2; i++) {
        cr_assert(eq(u32, pull(near, &at), HTC_GRANT_TASKS));
        cr_expect(eq(int, report_after(near, &at, HTC_EEXIT, 10 * HTC_MS, ""), HTC_OK));
    }
    cr_assert(eq(u32, pull(near, &at), HTC_GRANT_EXIT));
    process_ended(near->id);
    rig_pass(&r, PAUSE);
    cr_assert(eq(sz, r.n_launched, 3));
    *near = hello_on(r.launched[2].agent, "node1");
}

Test(gateway_failures, a_retry_waits_for_an_agent_on_its_way_to_another_site)
{
    hand        near, other;
    uint64_t    far;
    htc_attempt at;
    both_fail_at_one_site(&near, &far);
    cr_expect(eq(u32, pull(&near, &at), HTC_GRANT_WAIT), "both failed here");
    other = hello_on(far, "node2");
    cr_assert(eq(u32, pull(&other, &at), HTC_GRANT_TASKS));
    cr_expect(eq(u32, at.attempt, 2));
}

Test(gateway_failures, a_retry_waits_no_longer_than_a_second_for_an_agent_on_its_way)
{
    hand        near;
    uint64_t    far;
    htc_attempt at;
    both_fail_at_one_site(&near, &far);
    cr_expect(eq(u32, pull(&near, &at), HTC_GRANT_WAIT));
    rig_pass(&r, HTC_SECOND);
    cr_assert(eq(u32, pull(&near, &at), HTC_GRANT_TASKS));
    cr_expect(eq(u32, at.attempt, 2));
}

/* Tasks that failed on each of two nodes change places, in whatever order they wait. */
Test(gateway_failures, an_agent_gets_the_retry_of_another_node_first)
{
    hand        h[2];
    htc_attempt at[2], again;
    uint32_t    p = operator_peer();
    submit(p, "olga", SWEEP(2));
    rig_pass(&r, 100 * HTC_MS);
    for (int i = 0; i < 2; i++) {
        h[i] = hello_on(r.launched[i].agent, i ? "node2" : "node1");
        cr_assert(eq(u32, pull(&h[i], &at[i]), HTC_GRANT_TASKS));
    }
    for (int i = 0; i < 2; i++)
        cr_expect(eq(int, report_after(&h[i], &at[i], HTC_EEXIT, 10 * HTC_MS, ""), HTC_OK));
    rig_pass(&r, PAUSE);
    for (int i = 0; i < 2; i++) {
        cr_assert(eq(u32, pull(&h[i], &again), HTC_GRANT_TASKS));
        cr_expect(eq(u64, again.task, at[1 - i].task), "agent %d", i);
    }
}

/* One that was cancelled since stands before it in the queue. */
Test(gateway_failures, a_cancelled_retry_hides_no_other)
{
    uint32_t    p = operator_peer();
    uint64_t    id = submit(p, "olga", SWEEP(2));
    htc_attempt at[2], again;
    hand        h[2];
    char        text[80];
    rig_pass(&r, 100 * HTC_MS);
    cr_assert(eq(sz, r.n_launched, 2));
    for (int i = 0; i < 2; i++)
        h[i] = hello_on(r.launched[i].agent, i ? "node2" : "node1");
    for (int i = 0; i < 2; i++) {
        cr_assert(eq(u32, pull(&h[0], &at[i]), HTC_GRANT_TASKS));
        cr_expect(eq(int, report_after(&h[0], &at[i], HTC_EEXIT, 10 * HTC_MS, ""), HTC_OK));
    }
    rig_pass(&r, PAUSE);
    snprintf(text, sizeof text, "{\"op\":\"cancel\",\"id\":\"%llu.%llu\"}", (unsigned long long)id, (unsigned long long)at[0].task);
    cr_expect(eq(str, (char *)(uintptr_t)refusal(p, text), ""));
    cr_expect(eq(long, (long)count_of(p, id, "cancelled"), 1L));
    cr_expect(eq(u32, pull(&h[0], &again), HTC_GRANT_WAIT), "where it failed, and another node is idle");
    cr_assert(eq(u32, pull(&h[1], &again), HTC_GRANT_TASKS));
    cr_expect(eq(u64, again.task, at[1].task));
}

/* ---- nodes that fail everything ---- */

static void fail_fast(uint64_t id, size_t times, hand *h)
{
    htc_attempt at;
    for (size_t i = 0; i < times; i++) {
        cr_assert(eq(u32, pull(h, &at), HTC_GRANT_TASKS), "failure %zu", i);
        cr_assert(eq(u64, at.job, id));
        cr_expect(eq(int, report_after(h, &at, HTC_EEXIT, HTC_MS, "exit code 1"), HTC_OK));
    }
}

static char *why_code(uint32_t peer, const char *request)
{
    static char code[64];
    json_t     *answer = rig_ask(&r, peer, request);
    snprintf(code, sizeof code, "%s", json_string_value(json_object_get(answer, "code")));
    json_decref(answer);
    return code;
}

/* From the fifth fast failure in a row on a job is handed out in rounds after pauses. Meanwhile its agents hold nothing: they go
 * on with the next job of the user, or leave. */
Test(gateway_failures, slows_a_job_that_fails_fast_and_nothing_else)
{
    uint32_t    p = operator_peer();
    htc_attempt at;
    uint64_t    bad = submit(p, "olga", SWEEP(20));
    rig_pass(&r, 100 * HTC_MS);
    hand h = hello(r.launched[0].agent);
    fail_fast(bad, 5, &h);
    cr_expect(eq(str, why_code(p, "{\"op\":\"why\",\"user\":\"olga\"}"), "FailingFast"));
    cr_expect(eq(str, why_code(p, "{\"op\":\"why\",\"id\":1}"), "FailingFast"));
    cr_expect(eq(str, why_code(p, "{\"op\":\"why\",\"id\":\"1.19\"}"), "FailingFast"));
    uint64_t good = submit(p, "olga", SWEEP(4));
    cr_assert(eq(u32, pull(&h, &at), HTC_GRANT_TASKS));
    cr_expect(eq(u64, at.job, good), "the next job goes on");
    cr_expect(eq(int, report(&h, &at, HTC_OK), HTC_OK));
    rig_pass(&r, 110 * HTC_MS);
    fail_fast(bad, 4, &h); /* a round: as many as there are slots */
    cr_assert(eq(u32, pull(&h, &at), HTC_GRANT_TASKS));
    cr_expect(eq(u64, at.job, good));
    cr_expect(eq(int, report(&h, &at, HTC_OK), HTC_OK));
    rig_pass(&r, 210 * HTC_MS);
    cr_assert(eq(u32, pull(&h, &at), HTC_GRANT_TASKS));
    cr_assert(eq(u64, at.job, bad));
    cr_expect(eq(int, report_after(&h, &at, HTC_OK, HTC_MS, ""), HTC_OK));
    for (int i = 0; i < 5; i++) {
        cr_assert(eq(u32, pull(&h, &at), HTC_GRANT_TASKS));
        cr_expect(eq(u64, at.job, bad), "a success ends it");
        cr_expect(eq(int, report_after(&h, &at, HTC_OK, HTC_MS, ""), HTC_OK));
    }
}

/* Held but unusable slots are no demand: the agents of a slowed job leave, and another user gets all slots. */
Test(gateway_failures, gives_the_slots_of_a_slowed_job_to_another_user)
{
    uint32_t    p = operator_peer();
    htc_attempt at;
    hand        h[4];
    uint64_t    bad = submit(p, "olga", SWEEP(2000));
    rig_pass(&r, 100 * HTC_MS);
    cr_assert(eq(sz, r.n_launched, 4));
    for (int i = 0; i < 4; i++)
        h[i] = hello(r.launched[i].agent);
    fail_fast(bad, 5, &h[0]);
    for (htc_ns pause = 100 * HTC_MS; pause < 5 * HTC_SECOND; pause *= 2) {
        rig_pass(&r, pause);
        fail_fast(bad, 4, &h[0]);
    }
    for (int i = 0; i < 4; i++) {
        cr_expect(eq(u32, pull(&h[i], &at), HTC_GRANT_EXIT), "agent %d is held idle", i);
        process_ended(h[i].id);
    }
    size_t before = r.n_launched;
    cr_assert(eq(str, (char *)refusal(p, "{\"op\":\"user.add\",\"name\":\"ben\",\"password\":\"x\"}"), ""));
    submit(p, "ben", SWEEP(100));
    rig_pass(&r, 100 * HTC_MS);
    cr_expect(eq(sz, r.n_launched, before + 4));
    for (size_t i = before; i < r.n_launched; i++)
        cr_expect(eq(str, r.launched[i].user, "ben"));
}

/* Three users whose tasks all fail fast on one of two nodes: it gets nothing for ten minutes, and says so. */
Test(gateway_failures, sets_a_node_aside_where_the_tasks_of_three_users_fail_fast)
{
    static const char *const names[] = { "ann", "ben", "cy" };
    uint32_t    p = operator_peer();
    char        text[96];
    htc_attempt at;
    hand        bad[3];
    for (int i = 0; i < 3; i++) {
        snprintf(text, sizeof text, "{\"op\":\"user.add\",\"name\":\"%s\",\"password\":\"x\"}", names[i]);
        cr_assert(eq(str, (char *)refusal(p, text), ""));
        submit(p, names[i], SWEEP(30));
        rig_pass(&r, 100 * HTC_MS);
    }
    cr_assert(eq(sz, r.n_launched, 4));
    /* The first user has all four slots. One of that user's agents was on another node; as three leave, the others get theirs. */
    hello_on(r.launched[0].agent, "node2");
    bad[0] = hello(r.launched[1].agent);
    cr_assert(eq(u32, pull(&bad[0], &at), HTC_GRANT_EXIT), "the user has more than the share");
    for (size_t i = 0; i < 4; i++)
        process_ended(r.launched[i].agent);
    rig_pass(&r, 30 * HTC_SECOND);
    for (int u = 0; u < 3; u++) {
        size_t i = 4;
        while (i < r.n_launched && strcmp(r.launched[i].user, names[u]) != 0)
            i++;
        cr_assert(i < r.n_launched, "no agent of %s", names[u]);
        bad[u] = hello(r.launched[i].agent);
    }
    for (int u = 0; u < 3; u++)
        for (int i = 0; i < 5; i++) {
            cr_assert(eq(u32, pull(&bad[u], &at), HTC_GRANT_TASKS), "user %d, failure %d", u, i);
            cr_expect(eq(int, report_after(&bad[u], &at, HTC_EEXIT, HTC_MS, "exit code 1"), HTC_OK));
        }
    rig_pass(&r, 20 * HTC_SECOND);
    cr_expect(eq(u32, pull(&bad[2], &at), HTC_GRANT_WAIT), "the node is set aside, not slowed");
    json_t *answer = rig_ask(&r, p, "{\"op\":\"agents\"}");
    char   *list = json_dumps(answer, 0);
    cr_expect(strstr(list, "set aside") != NULL, "%s", list);
    free(list);
    json_decref(answer);
    answer = rig_ask(&r, p, "{\"op\":\"why\",\"user\":\"cy\"}");
    cr_expect(eq(str, (char *)json_string_value(json_object_get(answer, "code")), "NodeAside"));
    json_decref(answer);
    process_ended(bad[2].id);
    rig_pass(&r, 590 * HTC_SECOND);
    hand later = hello(r.launched[r.n_launched - 1].agent);
    cr_expect(eq(u32, pull(&later, &at), HTC_GRANT_TASKS), "not for ever");
}

/* ---- what a failure leaves to read ---- */

static char *first_task(uint32_t peer, const char *request, const char *member)
{
    static char text[400];
    json_t     *answer = rig_ask(&r, peer, request), *v;
    v = json_object_get(json_array_get(json_object_get(answer, "tasks"), 0), member);
    snprintf(text, sizeof text, "%s", json_is_string(v) ? json_string_value(v) : "(none)");
    json_decref(answer);
    return text;
}

/* The reason is the agent's own, down to the number: in the list of tasks and in why, while it pauses and for ever. */
Test(gateway_failures, keeps_the_reason_and_node_of_a_failure)
{
    uint32_t    p = operator_peer();
    htc_attempt at;
    submit(p, "olga", SWEEP(1));
    rig_pass(&r, 100 * HTC_MS);
    for (int i = 1; i <= 3; i++) {
        hand h = hello(r.launched[r.n_launched - 1].agent);
        cr_assert(eq(u32, pull(&h, &at), HTC_GRANT_TASKS));
        cr_expect(eq(int, report_after(&h, &at, HTC_EEXIT, 10 * HTC_SECOND, "exit code 42"), HTC_OK));
        cr_expect(eq(str, first_task(p, "{\"op\":\"tasks\",\"id\":1}", "state"), (char *)(i < 3 ? "retry_wait" : "failed")));
        cr_expect(eq(str, first_task(p, "{\"op\":\"tasks\",\"id\":1}", "status"), "HTC_EEXIT"));
        cr_expect(eq(str, first_task(p, "{\"op\":\"tasks\",\"id\":1}", "reason"), "exit code 42"));
        cr_expect(eq(str, first_task(p, "{\"op\":\"tasks\",\"id\":1}", "node"), "node1"));
        json_t *why = rig_ask(&r, p, "{\"op\":\"why\",\"id\":1}");
        cr_expect(strstr(json_string_value(json_object_get(why, "why")), "exit code 42") != NULL, "%s",
                  json_string_value(json_object_get(why, "why")));
        json_decref(why);
        cr_expect(eq(u32, pull(&h, &at), HTC_GRANT_EXIT));
        process_ended(h.id);
        rig_pass(&r, 10 * HTC_SECOND);
    }
}

Test(gateway_failures, lists_the_tasks_named_and_no_others)
{
    uint32_t p = operator_peer();
    submit(p, "olga", SWEEP(50));
    json_t *answer = rig_ask(&r, p, "{\"op\":\"tasks\",\"id\":\"1.40,3-5,41\"}"), *t;
    size_t  i;
    static const int wanted[] = { 3, 4, 5, 40, 41 };
    cr_assert(eq(sz, json_array_size(json_object_get(answer, "tasks")), 5));
    json_array_foreach(json_object_get(answer, "tasks"), i, t)
    cr_expect(eq(int, (int)json_integer_value(json_object_get(t, "index")), wanted[i]));
    json_decref(answer);
    cr_expect(eq(str, (char *)refusal(p, "{\"op\":\"tasks\",\"id\":1,\"state\":\"resting\"}"), "HTC_EINVAL"));
    cr_expect(eq(str, (char *)refusal(p, "{\"op\":\"tasks\",\"id\":\"1.50\"}"), "HTC_ENOTFOUND"));
}

/* ---- a chunk that cannot be read ---- */

static size_t listed_as(uint32_t p, const char *state)
{
    size_t  n = 0, i;
    json_t *answer = rig_ask(&r, p, "{\"op\":\"tasks\",\"id\":1,\"limit\":5000}"), *t;
    json_array_foreach(json_object_get(answer, "tasks"), i, t) n += strcmp(json_string_value(json_object_get(t, "state")), state) == 0;
    json_decref(answer);
    return n;
}

/* The tasks of a damaged record are named as that, and those of the others are listed. */
Test(gateway_failures, lists_the_tasks_beside_a_damaged_record)
{
    uint32_t p = operator_peer();
    submit(p, "olga", SWEEP(2000));
    json_decref(rig_ask(&r, p, "{\"op\":\"cancel\",\"id\":\"1.0-1999\"}"));
    cr_expect(eq(sz, listed_as(p, "cancelled"), 2000));
    unreadable = "c/0000000000000001/0000000000000000";
    p = over_a_bad_engine();
    cr_expect(eq(sz, listed_as(p, "cancelled"), 976));
    cr_expect(eq(sz, listed_as(p, "unreadable"), 1024));
}

/* The same of a record that the store reads, and that makes no sense: the gateway does not end with it, and nothing of it stays. */
Test(gateway_failures, lists_the_tasks_beside_a_record_without_sense)
{
    uint32_t p = operator_peer();
    submit(p, "olga", SWEEP(2000));
    json_decref(rig_ask(&r, p, "{\"op\":\"cancel\",\"id\":\"1.0-1999\"}"));
    cut_short = "c/0000000000000001/0000000000000000";
    p = over_a_bad_engine();
    for (int i = 0; i < 2; i++) {
        cr_expect(eq(sz, listed_as(p, "cancelled"), 976));
        cr_expect(eq(sz, listed_as(p, "unreadable"), 1024));
    }
    json_decref(rig_ask(&r, p, "{\"op\":\"retry\",\"id\":\"1.3\"}")); /* it stays as it is */
    cut_short = NULL;
    cr_expect(eq(sz, listed_as(p, "cancelled"), 2000));
}

/* A gateway ends with an open job that it cannot read, and no other would start over it: a job that has ended does not become one by a request. */
Test(gateway_failures, does_not_open_a_job_again_that_it_cannot_read)
{
    static const char *const parts[] = { "c/0000000000000001/0000000000000000", "s/0000000000000001" };
    uint32_t                 p = operator_peer();
    uint64_t                 id = submit(p, "olga", SWEEP(1));
    htc_attempt              at;
    rig_pass(&r, 100 * HTC_MS);
    hand h = hello(r.launched[0].agent);
    cr_assert(eq(u32, pull(&h, &at), HTC_GRANT_TASKS));
    report(&h, &at, HTC_ENOEXEC);
    cr_expect(eq(u32, pull(&h, &at), HTC_GRANT_EXIT));
    process_ended(h.id);
    rig_pass(&r, HTC_SECOND);
    cr_assert(eq(long, (long)count_of(p, id, "failed"), 1L));
    p = over_a_bad_engine();
    for (size_t i = 0; i < 2; i++) {
        cut_short = parts[i];
        cr_expect(eq(str, (char *)refusal(p, "{\"op\":\"retry\",\"id\":1,\"failed\":true}"), "HTC_ECORRUPT"), "%s", parts[i]);
        cut_short = NULL;
        cr_expect(eq(long, (long)count_of(p, id, "failed"), 1L), "it is as it was");
    }
    cr_expect(eq(str, (char *)refusal(p, "{\"op\":\"retry\",\"id\":1,\"failed\":true}"), ""));
    cr_expect(eq(long, (long)count_of(p, id, "failed"), 0L));
}
