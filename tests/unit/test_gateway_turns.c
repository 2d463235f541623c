/* What a user says of a job's turn: its priority among the user's own, and how many of its tasks run at once. */
#include "gateway_hand.h"

TestSuite(gateway_turns, .init = begin, .fini = end);

static uint64_t submit_with(uint32_t peer, const char *jsdl, const char *name, int value, int paused)
{
    json_t *rq = json_pack("{s:s,s:s,s:i,s:b}", "op", "submit", "jsdl", jsdl, name, value, "paused", paused);
    char   *text = json_dumps(rq, 0);
    json_t *answer = rig_ask(&r, peer, text);
    uint64_t id = (uint64_t)json_integer_value(json_object_get(answer, "id"));
    free(text);
    json_decref(rq);
    json_decref(answer);
    cr_assert(id != 0);
    return id;
}

static int why_says(uint32_t peer, const char *id, const char *code)
{
    char text[96];
    snprintf(text, sizeof text, "{\"op\":\"why\",\"%s\":\"%s\"}", id[0] >= 'a' ? "user" : "id", id);
    json_t *answer = rig_ask(&r, peer, text);
    const char *got = json_string_value(json_object_get(answer, "code"));
    int         same = got && strcmp(got, code) == 0;
    if (!same)
        fprintf(stderr, "why %s: %s\n", id, got ? got : "nothing");
    json_decref(answer);
    return same;
}

Test(gateway_turns, no_more_run_at_once_than_the_job_lets)
{
    uint32_t    p = operator_peer();
    uint64_t    id = submit_with(p, SWEEP(5), "max_running", 2, 0);
    htc_attempt at[3];
    hand        h[2];
    rig_pass(&r, 10 * HTC_SECOND);
    cr_assert(eq(sz, r.n_launched, 2), "slots are free, but no third task may run");
    for (int i = 0; i < 2; i++) {
        h[i] = hello(r.launched[i].agent);
        cr_assert(eq(u32, pull(&h[i], &at[i]), HTC_GRANT_TASKS));
    }
    cr_expect(eq(u32, pull(&h[0], &at[2]), HTC_GRANT_WAIT), "it holds one, and the other runs");
    cr_expect(why_says(p, "1", "MaxRunning"));
    cr_expect(why_says(p, "1.4", "MaxRunning"));
    cr_expect(why_says(p, "olga", "MaxRunning"));
    for (int i = 0; i < 3; i++) {
        cr_expect(eq(int, report(&h[0], &at[0], HTC_OK), HTC_OK));
        cr_assert(eq(u32, pull(&h[0], &at[0]), HTC_GRANT_TASKS), "one has ended: the next");
        cr_expect(eq(long, (long)count_of(p, id, "done"), (long)i + 1));
    }
    cr_expect(why_says(p, "1", "Running"), "the last two run, and none waits");
    cr_expect(eq(int, report(&h[0], &at[0], HTC_OK), HTC_OK));
    cr_expect(eq(int, report(&h[1], &at[1], HTC_OK), HTC_OK));
    cr_expect(eq(long, (long)count_of(p, id, "done"), 5L));
}

Test(gateway_turns, the_limit_is_kept_over_a_kill)
{
    uint32_t    p = operator_peer();
    htc_attempt at;
    submit_with(p, SWEEP(4), "max_running", 1, 0);
    rig_pass(&r, 100 * HTC_MS);
    hand h = hello(r.launched[0].agent);
    cr_assert(eq(u32, pull(&h, &at), HTC_GRANT_TASKS));
    size_t launched = r.n_launched;
    rig_kill(&r);
    rig_start(&r);
    rig_pass(&r, HTC_SECOND);
    p = operator_peer();
    cr_expect(eq(sz, r.n_launched, launched), "its one task may still run");
    cr_expect(why_says(p, "1", "MaxRunning"));
}

Test(gateway_turns, the_highest_priority_goes_first_and_equals_in_order)
{
    static const int      priority[] = { 0, 7, -3, 7, 1000, -1000 };
    static const uint64_t turn[] = { 5, 2, 4, 1, 3, 6 };
    uint32_t              p = operator_peer();
    htc_attempt           at;
    for (int i = 0; i < 6; i++)
        submit_with(p, SWEEP(2), "priority", priority[i], 1);
    rig_kill(&r); /* it is in the record */
    rig_start(&r);
    p = operator_peer();
    json_decref(rig_ask(&r, p, "{\"op\":\"release\",\"id\":\"all\"}"));
    rig_pass(&r, 100 * HTC_MS);
    hand h = hello(r.launched[0].agent);
    for (int i = 0; i < 12; i++) {
        cr_assert(eq(u32, pull(&h, &at), HTC_GRANT_TASKS));
        cr_expect(eq(u64, at.job, turn[i / 2]), "task %d", i);
        cr_expect(eq(int, report(&h, &at, HTC_OK), HTC_OK));
    }
}

Test(gateway_turns, what_is_no_priority_or_number_is_refused)
{
    static const char *const wrong[] = { "\"priority\":1001", "\"priority\":-1001", "\"priority\":0.5", "\"max_running\":-1" };
    uint32_t                 p = operator_peer();
    char                     text[4096];
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        snprintf(text, sizeof text, "{\"op\":\"submit\",\"jsdl\":\"%s\",%s}", SWEEP(2), wrong[i]);
        cr_expect(eq(str, (char *)refusal(p, text), "HTC_EINVAL"), "%s", wrong[i]);
    }
}
