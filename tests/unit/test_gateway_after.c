/* Jobs that wait for other jobs: when they begin, when they never can, and what of that outlives a kill at any message. */
#include "alloc_fail.h"
#include "gateway_bad_engine.h"

#include "roles/gateway/gateway.h"

static size_t greeted; /* of the agents that were launched */

static void begin_after(void)
{
    greeted = 0;
    begin();
}

TestSuite(gateway_after, .init = begin_after, .fini = end);

/* after: the JSON of the list, or NULL; called: the key, or NULL. */
static json_t *submission(const char *who, const char *after, const char *called)
{
    json_t *rq = json_pack("{s:s,s:s,s:s,s:s*}", "op", "submit", "user", who, "jsdl", SWEEP(1), "key", called);
    if (after) {
        json_t *list = json_loads(after, JSON_DECODE_ANY, NULL);
        cr_assert(list != NULL, "%s", after);
        json_object_set_new(rq, "after", list);
    }
    return rq;
}

static json_t *submit_as(uint32_t p, const char *who, const char *after, const char *called)
{
    json_t *rq = submission(who, after, called);
    char   *text = json_dumps(rq, 0);
    json_t *answer = rig_ask(&r, p, text);
    free(text);
    json_decref(rq);
    return answer;
}

static uint64_t submit_after(uint32_t p, const char *after)
{
    json_t  *answer = submit_as(p, "olga", after, NULL);
    uint64_t id = (uint64_t)json_integer_value(json_object_get(answer, "id"));
    cr_assert(id != 0, "%s: %s", after, json_string_value(json_object_get(answer, "message")));
    json_decref(answer);
    return id;
}

/* What refused it: the text, kept until the next call; "" if nothing did. */
static const char *refused_for(uint32_t p, const char *after, const char *error)
{
    static char text[512];
    json_t     *answer = submit_as(p, "olga", after, NULL);
    const char *e = json_string_value(json_object_get(answer, "error")), *message = json_string_value(json_object_get(answer, "message"));
    cr_expect(eq(str, (char *)(e ? e : ""), (char *)error), "%.80s", after);
    snprintf(text, sizeof text, "%s", message ? message : "");
    json_decref(answer);
    return text;
}

static int is_state(uint32_t p, uint64_t id, const char *wanted)
{
    json_t     *j = job_of(p, id);
    const char *state = json_string_value(json_object_get(j, "state"));
    int         same = state && strcmp(state, wanted) == 0;
    if (!same)
        fprintf(stderr, "job %llu is %s\n", (unsigned long long)id, state ? state : "not there");
    json_decref(j);
    return same;
}

static int says(uint32_t p, const char *asked, const char *field, const char *wanted)
{
    json_t     *answer = rig_ask(&r, p, asked);
    const char *got = json_string_value(json_object_get(answer, field));
    int         found = got && strstr(got, wanted);
    if (!found)
        fprintf(stderr, "%s: %s\n", asked, got ? got : "nothing");
    json_decref(answer);
    return found;
}

/* The next agent that was launched runs one task, of this job. */
static void run_task(uint64_t id, htc_status how)
{
    htc_attempt at;
    rig_pass(&r, 200 * HTC_MS);
    cr_assert(greeted < r.n_launched, "job %llu gets no agent", (unsigned long long)id);
    hand h = hello(r.launched[greeted++].agent);
    cr_assert(eq(u32, pull(&h, &at), HTC_GRANT_TASKS));
    cr_assert(eq(u64, at.job, id));
    cr_assert(eq(int, report(&h, &at, how), HTC_OK));
    process_ended(h.id);
}

static void cancel_job(uint32_t p, uint64_t id)
{
    char text[64];
    snprintf(text, sizeof text, "{\"op\":\"cancel\",\"id\":%llu}", (unsigned long long)id);
    cr_assert(eq(str, (char *)refusal(p, text), ""));
}

/* ---- the rules ---- */

Test(gateway_after, a_job_runs_or_is_cancelled_by_how_its_parent_ended)
{
    static const char *const rules[] = { "ok", "any", "failed" };
    static const char *const ends[] = { "ok", "failed", "cancelled" };
    static const int         runs[3][3] = { { 1, 0, 0 }, { 1, 1, 1 }, { 0, 1, 1 } };
    char                     after[64], reason[64];
    for (int before = 0; before < 2; before++) /* it is submitted before its parent ends, or after */
        for (int rule = 0; rule < 3; rule++)
            for (int how = 0; how < 3; how++) {
                rig_end(&r);
                begin_after();
                uint32_t p = operator_peer();
                uint64_t parent = submit_after(p, NULL), child = 0;
                snprintf(after, sizeof after, "[{\"id\":%llu,\"when\":\"%s\"}]", (unsigned long long)parent, rules[rule]);
                if (before) {
                    child = submit_after(p, after);
                    cr_expect(is_state(p, child, "waiting"));
                }
                if (how == 2)
                    cancel_job(p, parent);
                else
                    run_task(parent, how ? HTC_ENOEXEC : HTC_OK);
                if (!before)
                    child = submit_after(p, after);
                rig_pass(&r, HTC_SECOND);
                if (runs[rule][how])
                    run_task(child, HTC_OK);
                cr_expect(is_state(p, child, runs[rule][how] ? "done" : "cancelled"), "%s, and it ended %s", rules[rule], ends[how]);
                json_t *j = job_of(p, child), *e = json_array_get(json_object_get(j, "after"), 0);
                cr_expect(eq(str, (char *)json_string_value(json_object_get(e, "outcome")), (char *)ends[how]));
                cr_expect(eq(str, (char *)json_string_value(json_object_get(e, "when")), (char *)rules[rule]));
                snprintf(reason, sizeof reason, "job %llu", (unsigned long long)parent);
                const char *why = json_string_value(json_object_get(j, "reason"));
                cr_expect(runs[rule][how] ? why[0] == '\0' : strstr(why, reason) != NULL, "%s", why);
                json_decref(j);
            }
}

Test(gateway_after, it_asks_for_no_slot_and_says_for_which_jobs_it_waits)
{
    uint32_t p = operator_peer();
    uint64_t parent = submit_after(p, NULL), child = submit_after(p, "[{\"id\":1},{\"id\":1,\"when\":\"any\"},{\"id\":1,\"when\":\"ok\"}]");
    run_task(parent, HTC_ENOEXEC);
    rig_pass(&r, HTC_SECOND);
    cr_expect(is_state(p, child, "cancelled"));
    cr_expect(says(p, "{\"op\":\"why\",\"id\":\"2\"}", "why", "tasks of job 1 failed"));
    parent = submit_after(p, NULL);
    json_t *answer = rig_ask(&r, p, "{\"op\":\"submit\",\"jsdl\":\"" SWEEP(7) "\",\"after\":[{\"id\":3}]}");
    cr_assert(eq(long, (long)json_integer_value(json_object_get(answer, "id")), 4L));
    json_decref(answer);
    rig_pass(&r, 10 * HTC_SECOND);
    cr_expect(eq(sz, r.n_launched, 2), "one agent for each parent");
    json_t *users = rig_ask(&r, p, "{\"op\":\"users\"}"), *olga = json_array_get(json_object_get(users, "users"), 0);
    cr_expect(eq(long, (long)json_integer_value(json_object_get(olga, "queued")), 1L), "the parent's task");
    json_decref(users);
    cr_expect(eq(long, (long)count_of(p, 4, "waiting"), 7L));
    cr_expect(says(p, "{\"op\":\"why\",\"id\":4}", "code", "After"));
    cr_expect(says(p, "{\"op\":\"why\",\"id\":4}", "why", "job 3 to end with every task done"));
    cr_expect(says(p, "{\"op\":\"why\",\"id\":\"4.5\"}", "code", "After"));
    htc_gateway_books b = { .size = sizeof b };
    cr_assert(eq(int, htc_gateway_audit(r.gateway, 1, &b), HTC_OK));
    cr_expect(eq(str, b.wrong, ""));
    json_decref(rig_ask(&r, p, "{\"op\":\"submit\",\"jsdl\":\"" SWEEP(1) "\",\"paused\":true}"));
    json_decref(rig_ask(&r, p, "{\"op\":\"submit\",\"jsdl\":\"" SWEEP(1) "\",\"after\":[{\"id\":5}]}"));
    run_task(3, HTC_OK);
    for (uint32_t i = 0; i < 7; i++)
        run_task(4, HTC_OK);
    cr_expect(says(p, "{\"op\":\"why\",\"user\":\"olga\"}", "code", "After"), "nothing but the last one waits");
}

Test(gateway_after, every_edge_has_to_be_met)
{
    uint32_t p = operator_peer();
    submit_after(p, NULL);
    submit_after(p, NULL);
    uint64_t child = submit_after(p, "[{\"id\":1},{\"id\":2,\"when\":\"failed\"}]");
    run_task(1, HTC_OK);
    cr_expect(is_state(p, child, "waiting"));
    cr_expect(says(p, "{\"op\":\"why\",\"id\":3}", "why", "it waits for job 2 to end otherwise than well"));
    run_task(2, HTC_ENOEXEC);
    run_task(child, HTC_OK);
    cr_expect(is_state(p, child, "done"));
}

Test(gateway_after, what_can_never_run_is_cancelled_down_the_chain)
{
    uint32_t p = operator_peer();
    char     after[32];
    submit_after(p, NULL);
    for (int i = 1; i < 10; i++) {
        snprintf(after, sizeof after, "[{\"id\":%d}]", i);
        submit_after(p, after);
    }
    submit_after(p, "[{\"id\":10,\"when\":\"any\"}]");
    cancel_job(p, 1);
    for (uint64_t id = 1; id <= 10; id++)
        cr_expect(is_state(p, id, "cancelled"));
    cr_expect(says(p, "{\"op\":\"why\",\"id\":10}", "why", "tasks of job 9 were cancelled"));
    rig_pass(&r, HTC_SECOND);
    while (greeted + 1 < r.n_launched)
        process_ended(r.launched[greeted++].agent);
    run_task(11, HTC_OK);
}

Test(gateway_after, a_task_of_it_that_is_cancelled_by_name_is_no_end_of_its_waiting)
{
    uint32_t p = operator_peer();
    submit_after(p, NULL);
    json_decref(rig_ask(&r, p, "{\"op\":\"submit\",\"jsdl\":\"" SWEEP(3) "\",\"after\":[{\"id\":1}]}"));
    cr_expect(eq(str, (char *)refusal(p, "{\"op\":\"cancel\",\"id\":\"2.1\"}"), ""));
    cr_expect(is_state(p, 2, "waiting"));
    run_task(1, HTC_OK);
    run_task(2, HTC_OK);
    run_task(2, HTC_OK);
    cr_expect(is_state(p, 2, "done"));
    uint64_t child = submit_after(p, "[{\"id\":2}]");
    cr_expect(is_state(p, child, "cancelled"), "not every task was done");
    cr_expect(says(p, "{\"op\":\"why\",\"id\":3}", "why", "tasks of job 2 were cancelled"));
}

/* ---- what may be waited for ---- */

Test(gateway_after, what_may_not_be_waited_for_is_refused)
{
    uint32_t p = operator_peer();
    char     many[8192] = "[";
    cr_assert(eq(str, (char *)refusal(p, "{\"op\":\"user.add\",\"name\":\"ben\",\"password\":\"x\"}"), ""));
    json_decref(submit_as(p, "ben", NULL, NULL));
    submit_after(p, NULL);
    cr_expect(strstr(refused_for(p, "[{\"id\":2},{\"id\":77}]", "HTC_ENOTFOUND"), "there is no job 77 ") != NULL);
    cr_expect(strstr(refused_for(p, "[{\"id\":1}]", "HTC_ENOTFOUND"), "job 1 is removed or never was yours") != NULL);
    refused_for(p, "\"2\"", "HTC_EINVAL");
    refused_for(p, "[2]", "HTC_EINVAL");
    refused_for(p, "[{\"id\":0}]", "HTC_EINVAL");
    refused_for(p, "[{\"id\":2,\"when\":\"never\"}]", "HTC_EINVAL");
    refused_for(p, "[{\"id\":2,\"when\":1}]", "HTC_EINVAL");
    for (int i = 0; i <= AFTER_MAX; i++)
        strcat(many, "{\"id\":2},");
    many[strlen(many) - 1] = ']';
    refused_for(p, many, "HTC_ETOOBIG");
    cr_expect(htc__gw_awaited(r.gateway, 2) == NULL, "nothing of what was refused waits");
    cancel_job(p, 1);
    cancel_job(p, 2);
    cr_expect(strstr(refused_for(p, "[{\"id\":1}]", "HTC_ENOTFOUND"), "job 1 is removed or never was yours") != NULL, "ended, too");
    cr_assert(eq(str, (char *)refusal(p, "{\"op\":\"rm\",\"id\":2}"), ""));
    rig_pass(&r, HTC_SECOND);
    cr_expect(strstr(refused_for(p, "[{\"id\":2}]", "HTC_ENOTFOUND"), "job 2 is removed or never was yours") != NULL);
    uint64_t next = submit_after(p, NULL);
    snprintf(many, sizeof many, "[{\"id\":%llu}]", (unsigned long long)next + 1);
    cr_expect(strstr(refused_for(p, many, "HTC_ENOTFOUND"), "there is no job") != NULL, "no job waits for itself");
}

Test(gateway_after, sixty_four_jobs_may_be_waited_for)
{
    uint32_t p = operator_peer();
    char     many[8192] = "[";
    for (int i = 1; i <= AFTER_MAX; i++) {
        json_decref(rig_ask(&r, p, "{\"op\":\"submit\",\"jsdl\":\"" SWEEP(1) "\",\"paused\":true}"));
        snprintf(many + strlen(many), sizeof many - strlen(many), "{\"id\":%d,\"when\":\"any\"},", i);
    }
    many[strlen(many) - 1] = ']';
    uint64_t child = submit_after(p, many);
    rig_kill(&r);
    rig_start(&r);
    p = operator_peer();
    for (uint64_t i = 1; i <= AFTER_MAX; i++) {
        cr_expect(is_state(p, child, "waiting"));
        cancel_job(p, i);
    }
    run_task(child, HTC_OK);
}

Test(gateway_after, a_parent_that_is_removed_has_left_its_outcome)
{
    uint32_t p = operator_peer();
    submit_after(p, NULL);
    json_decref(rig_ask(&r, p, "{\"op\":\"submit\",\"jsdl\":\"" SWEEP(1) "\",\"paused\":true}"));
    uint64_t child = submit_after(p, "[{\"id\":1},{\"id\":2,\"when\":\"any\"}]");
    cr_expect(eq(str, (char *)refusal(p, "{\"op\":\"rm\",\"id\":1}"), "HTC_EBUSY"), "it has not ended");
    run_task(1, HTC_OK);
    cr_expect(eq(str, (char *)refusal(p, "{\"op\":\"rm\",\"id\":1}"), ""));
    rig_pass(&r, HTC_SECOND);
    rig_kill(&r);
    rig_start(&r);
    p = operator_peer();
    cr_expect(is_state(p, child, "waiting"));
    cancel_job(p, 2);
    run_task(child, HTC_OK);
}

Test(gateway_after, a_parent_that_is_tried_again_changes_nothing)
{
    uint32_t p = operator_peer();
    submit_after(p, NULL);
    uint64_t failed = submit_after(p, "[{\"id\":1,\"when\":\"failed\"}]"), ok = submit_after(p, "[{\"id\":1}]");
    run_task(1, HTC_ENOEXEC);
    cr_expect(is_state(p, ok, "cancelled"));
    cr_expect(eq(str, (char *)refusal(p, "{\"op\":\"retry\",\"id\":1,\"failed\":true}"), ""));
    uint64_t later = submit_after(p, "[{\"id\":1}]");
    cr_expect(is_state(p, later, "waiting"), "for its next end");
    run_task(1, HTC_OK);
    run_task(failed, HTC_OK);
    run_task(later, HTC_OK);
    cr_expect(is_state(p, ok, "cancelled"));
}

Test(gateway_after, a_submission_is_repeated_whatever_became_of_its_parents)
{
    uint32_t p = operator_peer();
    submit_after(p, NULL);
    json_decref(submit_as(p, "olga", "[{\"id\":1,\"when\":\"any\"}]", "k"));
    cancel_job(p, 1);
    cr_expect(eq(str, (char *)refusal(p, "{\"op\":\"rm\",\"id\":1}"), ""));
    rig_pass(&r, HTC_SECOND);
    json_t *answer = submit_as(p, "olga", "[{\"id\":1,\"when\":\"any\"}]", "k");
    cr_expect(eq(long, (long)json_integer_value(json_object_get(answer, "id")), 2L));
    cr_expect(json_is_true(json_object_get(answer, "repeated")));
    json_decref(answer);
    answer = submit_as(p, "olga", "[{\"id\":1}]", "k");
    cr_expect(eq(str, (char *)json_string_value(json_object_get(answer, "error")), "HTC_EEXISTS"), "another list is another job");
    json_decref(answer);
    refused_for(p, "[{\"id\":1}]", "HTC_ENOTFOUND");
    answer = submit_as(p, "olga", "[{\"id\":77}]", "n");
    json_decref(answer);
    answer = submit_as(p, "olga", NULL, "n");
    cr_expect(json_object_get(answer, "id") != NULL, "the key of what was refused is free");
    json_decref(answer);
}

Test(gateway_after, who_waits_for_it_is_told_when_it_ends)
{
    uint32_t p = operator_peer(), other = operator_peer();
    submit_after(p, NULL);
    uint64_t child = submit_after(p, "[{\"id\":1}]");
    cr_expect(rig_ask(&r, other, "{\"op\":\"wait\",\"id\":2}") == NULL, "it has not ended");
    run_task(1, HTC_OK);
    cr_expect(rig_newest(&r, other, HTC_WIRE_USER_ANSWER) == NULL);
    run_task(child, HTC_OK);
    cr_expect(rig_newest(&r, other, HTC_WIRE_USER_ANSWER) != NULL);
}

/* ---- kills ---- */

static void send_submission(uint32_t p, const char *after)
{
    json_t *rq = submission("olga", after, "the-child");
    char   *text = json_dumps(rq, 0);
    htc_buf b;
    htc_buf_init(&b, NULL, 0);
    htc_wire_begin(&b, HTC_WIRE_USER_REQUEST, 1000000);
    htc_put_raw(&b, htc_bytes_of(text));
    rig_say(&r, p, &b);
    htc_buf_free(&b);
    free(text);
    json_decref(rq);
}

static void send_report(const hand *h, const htc_attempt *at, htc_status how)
{
    htc_task_result m = { .agent = h->id, .attempt = *at, .outcome = { .status = how, .started = r.wall, .ended = r.wall, .node = "node1" } };
    htc_buf         b;
    htc_buf_init(&b, NULL, 0);
    htc_task_result_write(&b, &m);
    rig_say(&r, h->peer, &b);
    htc_buf_free(&b);
}

/* A parent ends while a job that waits for it is being submitted: the submission comes `lead` messages before the result (or after it, if
 * negative), and the gateway is killed after n messages of both. Repeated under its key, the job runs once, after its parent; or it is
 * cancelled, if the parent failed. 1: something was left when it was killed. */
static int end_meets_submission(int lead, int n, int fails)
{
    uint32_t    p = operator_peer();
    htc_attempt at;
    uint64_t    parent = submit_after(p, NULL);
    rig_pass(&r, 200 * HTC_MS);
    hand h = hello(r.launched[greeted++].agent);
    cr_assert(eq(u32, pull(&h, &at), HTC_GRANT_TASKS));
    r.busy = 1;
    if (lead >= 0)
        send_submission(p, "[{\"id\":1}]");
    else
        send_report(&h, &at, fails ? HTC_ENOEXEC : HTC_OK);
    for (int i = 0; i < abs(lead) && r.posts; i++)
        take_post();
    if (lead >= 0)
        send_report(&h, &at, fails ? HTC_ENOEXEC : HTC_OK);
    else
        send_submission(p, "[{\"id\":1}]");
    for (int i = 0; i < n && r.posts; i++)
        take_post();
    int more = r.posts != NULL;
    r.busy = 0;
    if (more)
        kill_now();
    p = operator_peer();
    json_t  *answer = submit_as(p, "olga", "[{\"id\":1}]", "the-child");
    uint64_t child = (uint64_t)json_integer_value(json_object_get(answer, "id"));
    cr_assert(child > parent, "lead %d, killed after %d: %s", lead, n, json_string_value(json_object_get(answer, "message")));
    json_decref(answer);
    if (more && count_of(p, parent, "done") + count_of(p, parent, "failed") == 0) { /* the result was not noted: it is told again */
        cr_expect(is_state(p, child, "waiting"));
        h = hello(h.id);
        cr_assert(eq(int, report(&h, &at, fails ? HTC_ENOEXEC : HTC_OK), HTC_OK));
    }
    process_ended(h.id);
    htc_gateway_books b = { .size = sizeof b };
    cr_assert(eq(int, htc_gateway_audit(r.gateway, 1, &b), HTC_OK));
    cr_expect(eq(str, b.wrong, ""), "lead %d, killed after %d", lead, n);
    if (!more) { /* its outcome is in the record of who waits for it */
        cr_expect(eq(str, (char *)refusal(p, "{\"op\":\"rm\",\"id\":1}"), ""));
        rig_kill(&r);
        rig_start(&r);
        p = operator_peer();
    }
    if (!fails)
        run_task(child, HTC_OK);
    rig_pass(&r, HTC_SECOND);
    cr_expect(is_state(p, child, fails ? "cancelled" : "done"), "lead %d, killed after %d", lead, n);
    cr_expect(eq(sz, r.n_launched, fails ? 1 : 2), "lead %d, killed after %d: nothing ran too early or twice", lead, n);
    cr_expect(htc__gw_awaited(r.gateway, parent) == NULL);
    return more;
}

Test(gateway_after, no_moment_lies_between_the_end_of_a_parent_and_a_submission)
{
    int kills = 0;
    for (int fails = 0; fails < 2; fails++)
        for (int lead = -12; lead <= 12; lead++)
            for (int n = 0, more = 1; more; n++) {
                rig_end(&r);
                begin_after();
                more = end_meets_submission(lead, n, fails);
                kills += more;
            }
    cr_expect(kills > 300, "%d kills only", kills);
}

/* Children that wait already: the parent's end is noted for all, wherever the gateway is killed while it ends. */
Test(gateway_after, the_end_of_a_parent_is_noted_wherever_the_gateway_is_killed)
{
    int more = 1;
    for (int n = 0; more; n++) {
        htc_attempt at;
        rig_end(&r);
        begin_after();
        uint32_t p = operator_peer();
        submit_after(p, NULL);
        uint64_t ok = submit_after(p, "[{\"id\":1}]"), failed = submit_after(p, "[{\"id\":1,\"when\":\"failed\"}]"),
                 last = submit_after(p, "[{\"id\":2},{\"id\":3,\"when\":\"any\"}]");
        rig_pass(&r, 200 * HTC_MS);
        hand h = hello(r.launched[greeted++].agent);
        cr_assert(eq(u32, pull(&h, &at), HTC_GRANT_TASKS));
        r.busy = 1;
        send_report(&h, &at, HTC_OK);
        for (int i = 0; i < n && r.posts; i++)
            take_post();
        more = r.posts != NULL;
        r.busy = 0;
        if (more)
            kill_now();
        p = operator_peer();
        if (count_of(p, 1, "done") == 0) {
            h = hello(h.id);
            cr_assert(eq(int, report(&h, &at, HTC_OK), HTC_OK));
        }
        process_ended(h.id);
        run_task(ok, HTC_OK);
        cr_expect(is_state(p, failed, "cancelled"), "killed after %d", n);
        run_task(last, HTC_OK);
        cr_expect(is_state(p, last, "done"), "killed after %d", n);
    }
}

/* The store is full from some message on, so that what becomes of the record of the one that waits is not what becomes of the others. As
 * soon as there is room somebody removes the parents, and then the gateway is killed: how they ended is known all the same. 1: a removal
 * was put off. */
static int removed_in_time(int n, int *more)
{
    static const char *const removals[] = { "{\"op\":\"rm\",\"id\":1}", "{\"op\":\"rm\",\"id\":2}" };
    htc_attempt              at[2];
    hand                     h[2];
    int                      put_off = 0;
    over_a_bad_engine();
    uint32_t p = operator_peer();
    submit_after(p, NULL);
    submit_after(p, NULL);
    uint64_t child = submit_after(p, "[{\"id\":1},{\"id\":2}]");
    rig_pass(&r, 200 * HTC_MS);
    for (int i = 0; i < 2; i++) {
        h[i] = hello(r.launched[greeted++].agent);
        cr_assert(eq(u32, pull(&h[i], &at[i]), HTC_GRANT_TASKS));
    }
    r.busy = 1;
    for (int i = 0; i < 2; i++)
        send_report(&h[i], &at[i], HTC_OK);
    for (int i = 0; i < n && r.posts; i++)
        take_post();
    *more = r.posts != NULL;
    is_full = 1;
    rig_run(&r);
    is_full = 0;
    const job *waits = htc__gw_job(r.gateway, child);
    int        noted[2];
    for (int i = 0; i < 2; i++)
        noted[i] = htc__gw_job(r.gateway, (uint64_t)i + 1) == NULL;
    cr_expect(waits && !waits->now.leased);
    for (int i = 0; i < 2; i++) {
        const char *error = refusal(p, removals[i]);
        put_off += noted[i] && strcmp(error, "HTC_EBUSY") == 0;
        cr_expect(noted[i] || strcmp(error, "HTC_EBUSY") == 0);
    }
    kill_now();
    rig_pass(&r, HTC_SECOND);
    p = operator_peer();
    for (int i = 0; i < 2; i++) {
        if (htc__gw_job(r.gateway, (uint64_t)i + 1)) { /* its result is told again */
            h[i] = hello(h[i].id);
            report(&h[i], &at[i], HTC_OK);
        }
        process_ended(h[i].id);
    }
    run_task(child, HTC_OK);
    cr_expect(is_state(p, child, "done"), "full after %d messages", n);
    return put_off;
}

Test(gateway_after, a_parent_is_not_removed_before_its_outcome_is_noted)
{
    int more = 1, put_off = 0;
    for (int n = 0; more; n++) {
        rig_end(&r);
        begin_after();
        put_off += removed_in_time(n, &more);
    }
    cr_expect(put_off > 0);
}

/* ---- records and memory ---- */

Test(gateway_after, a_job_that_waits_for_nothing_has_the_older_record)
{
    user    u = { .name = "olga" };
    edge    edges[2] = { { .parent = 3, .rule = AFTER_ANY, .outcome = PARENT_CANCELLED }, { .parent = 6, .rule = AFTER_OK } };
    job     j = { .id = 7, .user = &u, .count = 5, .priority = -3 }, read = { 0 };
    char    name[NAME_MAX_BYTES];
    htc_buf b;
    htc_buf_init(&b, NULL, 0);
    htc__gw_record_job_write(&b, &j);
    cr_expect(eq(u8, b.data[0], 3));
    cr_assert(eq(int, htc__gw_record_job_read(htc_buf_bytes(&b), &read, name), HTC_OK));
    cr_expect(read.n_edges == 0 && !read.waits);
    j.edges = edges;
    j.n_edges = 2;
    htc__gw_record_job_write(&b, &j);
    cr_expect(eq(u8, b.data[0], 4));
    cr_assert(eq(int, htc__gw_record_job_read(htc_buf_bytes(&b), &read, name), HTC_OK));
    cr_assert(eq(u32, read.n_edges, 2));
    cr_expect(read.waits, "for the second one");
    for (uint32_t i = 0; i < 2; i++) {
        edge e = htc__gw_edge(&read, i);
        cr_expect(e.parent == edges[i].parent && e.rule == edges[i].rule && e.outcome == edges[i].outcome);
    }
    edges[1].parent = 7; /* itself */
    htc__gw_record_job_write(&b, &j);
    memset(&read, 0, sizeof read);
    cr_expect(eq(int, htc__gw_record_job_read(htc_buf_bytes(&b), &read, name), HTC_ECORRUPT));
    htc_buf_free(&b);
}

/* Jobs that wait, one that goes on and one that cannot, and a start that finds them. */
static void life(void)
{
    static const char *const lists[] = { "[]", "[{\"id\":1}]", "[{\"id\":1,\"when\":\"any\"},{\"id\":2,\"when\":\"any\"}]", "[{\"id\":3}]" };
    for (size_t i = 0; i < sizeof lists / sizeof *lists && !r.has_stopped; i++)
        json_decref(submit_as(operator_peer(), "olga", lists[i], NULL));
    if (!r.has_stopped)
        json_decref(rig_ask(&r, operator_peer(), "{\"op\":\"status\",\"id\":\"all\"}"));
    if (!r.has_stopped)
        rig_kill(&r);
    if (!r.has_stopped)
        rig_start(&r);
    if (!r.has_stopped)
        json_decref(rig_ask(&r, operator_peer(), "{\"op\":\"cancel\",\"id\":1}"));
    if (!r.has_stopped)
        json_decref(rig_ask(&r, operator_peer(), "{\"op\":\"why\",\"id\":2}"));
}

Test(gateway_after_memory, refused_at_every_point_ends_it_cleanly)
{
    for (size_t n = 1;; n++) {
        alloc_fail f = alloc_fail_at(n);
        htc_env    env = alloc_fail_env(&f);
        rig_begin_with(&r, env.alloc);
        life();
        int refused = f.refused != 0;
        if (refused)
            cr_assert(r.has_stopped && r.stopped == HTC_ENOMEM, "allocation %zu: %s", n, r.has_stopped ? htc_status_name(r.stopped) : "it went on");
        rig_end(&r);
        cr_assert(eq(sz, f.live, 0), "allocation %zu leaks", n);
        cr_assert(eq(sz, f.wrong_sizes, 0), "allocation %zu: freed with another size", n);
        if (!refused)
            break;
    }
}
