/* The gateway, one rule at a time, over a real store in the same process. */
#include "gateway_hand.h"

#include "htcsched/work.h"

TestSuite(gateway, .init = begin, .fini = end);

/* ---- jobs ---- */

/* A billion points cost what one costs: a record, and no time that depends on them. */
Test(gateway, accepts_a_billion_tasks_as_one_record)
{
    uint32_t p = operator_peer();
    uint64_t id = submit(p, "olga", SWEEP(1000000000));
    cr_expect(eq(long, (long)count_of(p, id, "waiting"), 1000000000L));
}

Test(gateway, launches_an_agent_for_each_task_up_to_the_slots)
{
    uint32_t p = operator_peer();
    submit(p, "olga", SWEEP(3));
    rig_pass(&r, 100 * HTC_MS);
    cr_expect(eq(sz, r.n_launched, 3));
    submit(p, "olga", SWEEP(30));
    rig_pass(&r, 100 * HTC_MS);
    cr_expect(eq(sz, r.n_launched, 4));
}

Test(gateway, runs_a_job_to_its_end_and_answers_who_waits)
{
    uint32_t    p = operator_peer();
    uint64_t    id = submit(p, "olga", SWEEP(2));
    htc_attempt at;
    rig_pass(&r, 100 * HTC_MS);
    hand h = hello(r.launched[0].agent);
    cr_assert(eq(int, welcome_of(&h), HTC_OK));
    cr_expect(rig_ask(&r, p, "{\"op\":\"wait\",\"id\":1}") == NULL, "it has not ended");
    for (int i = 0; i < 2; i++) {
        cr_assert(eq(u32, pull(&h, &at), HTC_GRANT_TASKS));
        cr_expect(eq(u64, at.task, (uint64_t)i));
        cr_expect(eq(u32, at.attempt, 1));
        cr_expect(eq(int, report(&h, &at, HTC_OK), HTC_OK));
    }
    cr_expect(eq(u32, pull(&h, &at), HTC_GRANT_EXIT));
    const rig_message *m = rig_newest(&r, p, HTC_WIRE_USER_ANSWER);
    cr_assert(m && memmem(m->bytes, m->len, "\"state\":\"done\"", 14), "the waiting request was not answered");
    cr_expect(eq(long, (long)count_of(p, id, "done"), 2L));
    json_t *results = rig_ask(&r, p, "{\"op\":\"results\",\"id\":\"last\"}");
    cr_expect(eq(sz, json_array_size(json_object_get(results, "results")), 2));
    json_decref(results);
}

/* ---- fenced attempts ---- */

/* HTCaaS 6: A result comes twice. */
Test(gateway, counts_a_repeated_result_once_also_after_the_job_has_ended)
{
    uint32_t    p = operator_peer();
    uint64_t    id = submit(p, "olga", SWEEP(1));
    htc_attempt at;
    rig_pass(&r, 100 * HTC_MS);
    hand h = hello(r.launched[0].agent);
    cr_assert(eq(u32, pull(&h, &at), HTC_GRANT_TASKS));
    cr_expect(eq(int, report(&h, &at, HTC_OK), HTC_OK));
    rig_pass(&r, HTC_SECOND);
    cr_expect(eq(int, report(&h, &at, HTC_OK), HTC_OK), "the agent would drop outputs that count");
    cr_expect(eq(long, (long)count_of(p, id, "done"), 1L));
}

Test(gateway, discards_the_result_of_an_attempt_that_was_given_up)
{
    uint32_t    p = operator_peer();
    uint64_t    id = submit(p, "olga", SWEEP(1));
    htc_attempt first, second;
    rig_pass(&r, 100 * HTC_MS);
    hand old = hello(r.launched[0].agent);
    cr_assert(eq(u32, pull(&old, &first), HTC_GRANT_TASKS));
    process_ended(old.id);
    cr_assert(eq(sz, r.n_launched, 2), "no replacement");
    hand young = hello(r.launched[1].agent);
    cr_assert(eq(u32, pull(&young, &second), HTC_GRANT_TASKS));
    cr_expect(eq(u32, second.attempt, 2));
    cr_expect(eq(int, report(&young, &first, HTC_OK), HTC_MISMATCH));
    cr_expect(eq(long, (long)count_of(p, id, "done"), 0L));
    cr_expect(eq(int, report(&young, &second, HTC_OK), HTC_OK));
    cr_expect(eq(long, (long)count_of(p, id, "done"), 1L));
}

Test(gateway, finds_a_lost_grant_again_by_the_heartbeat)
{
    uint32_t    p = operator_peer();
    htc_attempt at;
    submit(p, "olga", SWEEP(1));
    rig_pass(&r, 100 * HTC_MS);
    hand h = hello(r.launched[0].agent);
    cr_assert(eq(u32, pull(&h, &at), HTC_GRANT_TASKS));
    size_t        before = r.n_inbox;
    htc_heartbeat beat = { .agent = h.id, .seq = 1, .last_grant = 0 }; /* it never came */
    htc_buf       b;
    htc_buf_init(&b, NULL, 0);
    htc_heartbeat_write(&b, &beat);
    rig_say(&r, h.peer, &b);
    htc_buf_free(&b);
    int again = 0;
    for (size_t i = before; i < r.n_inbox; i++)
        again |= r.inbox[i % 256].type == HTC_WIRE_GRANT;
    cr_expect(again, "the grant was not sent again");
}

/* HTCaaS 6: An agent is lost: its node or its network is gone. */
Test(gateway, ends_a_lease_after_two_heartbeats_without_it_but_not_by_an_old_one)
{
    uint32_t      p = operator_peer();
    uint64_t      id = submit(p, "olga", SWEEP(1));
    htc_attempt   at;
    htc_heartbeat beat = { 0 };
    htc_buf       b;
    rig_pass(&r, 100 * HTC_MS);
    hand h = hello(r.launched[0].agent);
    cr_assert(eq(u32, pull(&h, &at), HTC_GRANT_TASKS));
    htc_buf_init(&b, NULL, 0);
    beat.agent = h.id;
    beat.last_grant = h.last_grant;
    for (int i = 0; i < 3; i++) { /* the same one thrice is one */
        beat.seq = 1;
        htc_heartbeat_write(&b, &beat);
        rig_say(&r, h.peer, &b);
    }
    cr_expect(eq(long, (long)count_of(p, id, "leased"), 1L));
    beat.seq = 2;
    htc_heartbeat_write(&b, &beat);
    rig_say(&r, h.peer, &b);
    cr_expect(eq(long, (long)count_of(p, id, "leased"), 0L));
    cr_expect(eq(long, (long)count_of(p, id, "waiting"), 1L));
    htc_buf_free(&b);
}

/* ---- a gateway that was killed ---- */

/* HTCaaS 6: The server ends or is killed. */
Test(gateway, goes_on_after_a_kill_where_it_was)
{
    uint32_t    p = operator_peer();
    uint64_t    id = submit(p, "olga", SWEEP(3));
    htc_attempt done, running, next;
    rig_pass(&r, 100 * HTC_MS);
    hand h = hello(r.launched[0].agent);
    cr_assert(eq(u32, pull(&h, &done), HTC_GRANT_TASKS));
    cr_expect(eq(int, report(&h, &done, HTC_OK), HTC_OK));
    cr_assert(eq(u32, pull(&h, &running), HTC_GRANT_TASKS));
    rig_kill(&r);
    rig_start(&r);
    p = operator_peer();
    cr_expect(eq(long, (long)count_of(p, id, "done"), 1L));
    cr_expect(eq(long, (long)count_of(p, id, "leased"), 1L), "the lease of a living agent was forgotten");
    hand again = hello(h.id);
    again.seq = h.seq;
    cr_assert(eq(int, welcome_of(&again), HTC_OK));
    cr_expect(eq(int, report(&again, &running, HTC_OK), HTC_OK));
    cr_assert(eq(u32, pull(&again, &next), HTC_GRANT_TASKS));
    cr_expect(eq(u64, next.task, 2));
    cr_expect(eq(int, report(&again, &next, HTC_OK), HTC_OK));
    cr_expect(eq(long, (long)count_of(p, id, "done"), 3L));
}

Test(gateway, waits_for_agents_after_a_kill_and_then_gives_them_up)
{
    uint32_t    p = operator_peer();
    uint64_t    id = submit(p, "olga", SWEEP(1));
    htc_attempt at;
    rig_pass(&r, 100 * HTC_MS);
    hand h = hello(r.launched[0].agent);
    cr_assert(eq(u32, pull(&h, &at), HTC_GRANT_TASKS));
    rig_kill(&r);
    rig_start(&r);
    p = operator_peer();
    rig_pass(&r, 20 * HTC_SECOND);
    cr_expect(eq(long, (long)count_of(p, id, "leased"), 1L));
    rig_pass(&r, 25 * HTC_SECOND);
    cr_expect(eq(long, (long)count_of(p, id, "waiting"), 1L));
}

/* ---- cancel and rm ---- */

Test(gateway, cancels_what_waits_at_once_and_what_runs_when_it_has_ended)
{
    uint32_t    p = operator_peer();
    uint64_t    id = submit(p, "olga", SWEEP(1000000));
    htc_attempt at;
    rig_pass(&r, 100 * HTC_MS);
    hand h = hello(r.launched[0].agent);
    cr_assert(eq(u32, pull(&h, &at), HTC_GRANT_TASKS));
    json_t *answer = rig_ask(&r, p, "{\"op\":\"cancel\",\"id\":\"last\"}");
    cr_expect(eq(long, (long)json_integer_value(json_object_get(answer, "cancelled")), 1000000L));
    json_decref(answer);
    cr_expect(rig_newest(&r, h.peer, HTC_WIRE_CANCEL) != NULL, "the agent was not told");
    cr_expect(eq(long, (long)count_of(p, id, "cancelled"), 999999L));
    cr_expect(eq(str, (char *)refusal(p, "{\"op\":\"rm\",\"id\":1}"), "HTC_EBUSY"));
    cr_expect(eq(int, report(&h, &at, HTC_ECANCELLED), HTC_OK));
    cr_expect(eq(long, (long)count_of(p, id, "cancelled"), 1000000L));
    cr_expect(eq(str, (char *)refusal(p, "{\"op\":\"rm\",\"id\":1}"), ""));
    cr_expect(eq(str, (char *)refusal(p, "{\"op\":\"status\",\"id\":1}"), "HTC_ENOTFOUND"));
}

Test(gateway, cancels_single_tasks_far_ahead_and_remembers_them)
{
    uint32_t p = operator_peer();
    uint64_t id = submit(p, "olga", SWEEP(100000));
    json_t  *answer = rig_ask(&r, p, "{\"op\":\"cancel\",\"id\":\"1.5,99990-99999\"}");
    cr_expect(eq(long, (long)json_integer_value(json_object_get(answer, "cancelled")), 11L));
    json_decref(answer);
    cr_expect(eq(long, (long)count_of(p, id, "cancelled"), 11L));
    rig_kill(&r);
    rig_start(&r);
    p = operator_peer();
    cr_expect(eq(long, (long)count_of(p, id, "cancelled"), 11L));
    cr_expect(eq(long, (long)count_of(p, id, "waiting"), 99989L));
}

Test(gateway, holds_a_paused_job_until_it_is_released)
{
    uint32_t p = operator_peer();
    json_t  *rq = json_pack("{s:s,s:s,s:b}", "op", "submit", "jsdl", SWEEP(2), "paused", 1);
    char    *text = json_dumps(rq, 0);
    json_decref(rig_ask(&r, p, text));
    free(text);
    json_decref(rq);
    rig_pass(&r, 10 * HTC_SECOND);
    cr_expect(eq(sz, r.n_launched, 0));
    json_t *answer = rig_ask(&r, p, "{\"op\":\"release\",\"id\":\"all\"}");
    cr_expect(eq(long, (long)json_integer_value(json_object_get(answer, "released")), 1L));
    json_decref(answer);
    rig_pass(&r, 100 * HTC_MS);
    cr_expect(eq(sz, r.n_launched, 2));
    rig_kill(&r);
    rig_start(&r);
    p = operator_peer();
    answer = rig_ask(&r, p, "{\"op\":\"release\",\"id\":1}");
    cr_expect(eq(long, (long)json_integer_value(json_object_get(answer, "released")), 0L), "it was forgotten");
    json_decref(answer);
}

static long changed_by(uint32_t p, const char *op, const char *member)
{
    char text[64];
    snprintf(text, sizeof text, "{\"op\":\"%s\",\"id\":1}", op);
    json_t *answer = rig_ask(&r, p, text);
    long    n = (long)json_integer_value(json_object_get(answer, member));
    json_decref(answer);
    return n;
}

Test(gateway, starts_nothing_of_a_job_that_is_held)
{
    uint32_t    p = operator_peer();
    uint64_t    id = submit(p, "olga", SWEEP(3));
    htc_attempt at, other;
    rig_pass(&r, 100 * HTC_MS);
    hand one = hello(r.launched[0].agent), two = hello(r.launched[1].agent);
    cr_assert(eq(u32, pull(&one, &at), HTC_GRANT_TASKS));
    cr_expect(eq(long, changed_by(p, "hold", "held"), 1L));
    cr_expect(eq(long, changed_by(p, "hold", "held"), 0L), "it is held already");
    cr_expect(pull(&two, &other) != HTC_GRANT_TASKS);
    cr_expect(eq(int, report(&one, &at, HTC_OK), HTC_OK), "what was handed out goes on");
    rig_kill(&r);
    rig_start(&r);
    p = operator_peer();
    ten_seconds();
    cr_expect(eq(long, (long)count_of(p, id, "waiting"), 2L));
    cr_expect(eq(long, (long)count_of(p, id, "done"), 1L));
    cr_expect(eq(long, changed_by(p, "release", "released"), 1L), "it was forgotten");
    cr_expect(eq(long, changed_by(p, "cancel", "cancelled"), 2L));
    cr_expect(eq(long, changed_by(p, "hold", "held"), 0L), "a job that has ended cannot be held");
}

/* ---- selectors ---- */

/* The numbers of the jobs in all pages of a request that names all, from the first on; n: how many requests it took. */
static uint64_t sum_of_pages(uint32_t p, const char *op, const char *member, uint64_t before, size_t *n)
{
    uint64_t sum = 0;
    for (*n = 0; before; ++*n) {
        char text[128];
        snprintf(text, sizeof text, "{\"op\":\"%s\",\"id\":\"all\",\"before\":%llu,\"limit\":1000}", op, (unsigned long long)before);
        json_t *answer = rig_ask(&r, p, text), *list = json_object_get(answer, member), *v;
        size_t  i;
        cr_assert(answer != NULL);
        if (!json_is_array(list))
            sum += (uint64_t)json_integer_value(list);
        json_array_foreach(list, i, v) sum += (uint64_t)json_integer_value(json_object_get(v, "id"));
        before = (uint64_t)json_integer_value(json_object_get(answer, "next"));
        json_decref(answer);
    }
    return sum;
}

/* However many there are: each job once, and none that was submitted after the first page was asked for. */
Test(gateway, names_all_jobs_page_by_page)
{
    uint32_t p = operator_peer();
    size_t   pages;
    for (int i = 0; i < 2100; i++)
        submit(p, "olga", SWEEP(1));
    cr_expect(eq(u64, sum_of_pages(p, "status", "jobs", 2101, &pages), UINT64_C(2100) * 2101 / 2));
    cr_expect(eq(sz, pages, 3));
    submit(p, "olga", SWEEP(1));
    cr_expect(eq(u64, sum_of_pages(p, "cancel", "cancelled", 2101, &pages), 2100), "not all, or one too many");
    cr_expect(eq(long, (long)count_of(p, 2101, "waiting"), 1L));
    cr_expect(eq(u64, sum_of_pages(p, "rm", "removed", 2102, &pages), 2100));
    cr_expect(eq(str, (char *)refusal(p, "{\"op\":\"status\",\"id\":1}"), "HTC_ENOTFOUND"));
    cr_expect(eq(long, (long)count_of(p, 2101, "waiting"), 1L), "one that had not ended was removed");
}

/* Of all jobs, one that has not ended does not keep the others from being removed. */
Test(gateway, removes_those_that_have_ended_and_counts_the_rest)
{
    uint32_t p = operator_peer();
    for (int i = 0; i < 3; i++)
        submit(p, "olga", SWEEP(1));
    json_decref(rig_ask(&r, p, "{\"op\":\"cancel\",\"id\":1}"));
    json_decref(rig_ask(&r, p, "{\"op\":\"cancel\",\"id\":3}"));
    json_t *answer = rig_ask(&r, p, "{\"op\":\"rm\",\"id\":\"all\"}");
    cr_expect(eq(long, (long)json_integer_value(json_object_get(answer, "removed")), 2L));
    cr_expect(eq(long, (long)json_integer_value(json_object_get(answer, "left")), 1L));
    json_decref(answer);
}

Test(gateway, refuses_a_selector_that_means_something_else)
{
    static const char *const whole[] = { "status", "wait", "hold", "release", "rm" };
    uint32_t                 p = operator_peer();
    char                     text[512] = "{\"op\":\"tasks\",\"id\":\"1.0";
    submit(p, "olga", SWEEP(100));
    for (size_t i = 0; i < sizeof whole / sizeof *whole; i++) {
        char one[64];
        snprintf(one, sizeof one, "{\"op\":\"%s\",\"id\":\"1.3\"}", whole[i]);
        cr_expect(eq(str, (char *)refusal(p, one), "HTC_EINVAL"), "%s of a task", whole[i]);
    }
    cr_expect(eq(str, (char *)refusal(p, "{\"op\":\"log\",\"id\":\"1.3-5\"}"), "HTC_EINVAL"));
    for (size_t i = 1; i < 65; i++)
        snprintf(text + strlen(text), sizeof text - strlen(text), ",%zu", i);
    strcat(text, "\"}");
    cr_expect(eq(str, (char *)refusal(p, text), "HTC_ETOOBIG"));
}

Test(gateway, answers_a_wait_of_no_time_at_once)
{
    uint32_t p = operator_peer();
    submit(p, "olga", SWEEP(1));
    cr_expect(eq(str, (char *)refusal(p, "{\"op\":\"wait\",\"id\":1,\"timeout\":0}"), "HTC_ETIMEDOUT"));
}

/* Who follows the log of a task that will never run is told so. */
Test(gateway, says_of_a_log_whether_there_will_be_one)
{
    static const struct {
        const char *id;
        int         final;
    } want[] = { { "1.5", 0 }, { "1.6", 1 }, { "2.0", 1 } };
    uint32_t p = operator_peer();
    submit(p, "olga", SWEEP(10));
    submit(p, "olga", SWEEP(1));
    json_decref(rig_ask(&r, p, "{\"op\":\"cancel\",\"id\":\"1.6\"}"));
    json_decref(rig_ask(&r, p, "{\"op\":\"cancel\",\"id\":2}"));
    for (size_t i = 0; i < 3; i++) {
        char text[64];
        snprintf(text, sizeof text, "{\"op\":\"log\",\"id\":\"%s\"}", want[i].id);
        json_t *answer = rig_ask(&r, p, text);
        cr_expect(eq(int, json_is_true(json_object_get(answer, "final")), want[i].final), "%s", want[i].id);
        cr_expect(eq(long, (long)json_integer_value(json_object_get(answer, "attempt")), 0L), "%s", want[i].id);
        json_decref(answer);
    }
}

/* An agent may be its user's process. How long a task ran is what it says, and no longer than since it was handed out; also where
 * that was by a gateway before, which the launch of the agent bounds. */
Test(gateway, believes_no_run_longer_than_its_lease)
{
    static const double most[] = { 3, 13 }; /* seconds */
    htc_attempt         at;
    uint32_t            p = operator_peer();
    submit(p, "olga", SWEEP(2));
    rig_pass(&r, 5 * HTC_SECOND);
    hand h = hello(r.launched[0].agent);
    for (int i = 0; i < 2; i++) {
        cr_assert(eq(u32, pull(&h, &at), HTC_GRANT_TASKS));
        rig_pass(&r, 3 * HTC_SECOND);
        if (i == 1) {
            rig_kill(&r);
            rig_start(&r);
            p = operator_peer();
            h = hello(r.launched[0].agent);
        }
        cr_assert(eq(int, report_after(&h, &at, HTC_OK, 1000000 * HTC_SECOND, ""), HTC_OK));
        json_t *answer = rig_ask(&r, p, "{\"op\":\"users\"}"), *user = json_array_get(json_object_get(answer, "users"), 0);
        double  used = json_number_value(json_object_get(user, "core_s"));
        cr_expect(used > 2.9 && used < most[i] + (i ? most[0] : 0) + 1, "after %d: %g s", i, used);
        json_decref(answer);
    }
}

/* What a running task has written is looked for where its agent was put, and not where a slot says that it is. */
Test(gateway, reads_a_log_in_the_slot_of_its_agent)
{
    htc_attempt at;
    uint32_t    p = operator_peer();
    char        text[64];
    submit(p, "olga", SWEEP(10));
    rig_pass(&r, 5 * HTC_SECOND);
    cr_assert(r.n_launched >= 2);
    for (size_t i = 0; i < 2; i++) {
        hand h = hello(r.launched[i].agent);
        cr_assert(eq(int, welcome_of(&h), HTC_OK));
        cr_assert(eq(u32, pull(&h, &at), HTC_GRANT_TASKS));
        snprintf(text, sizeof text, "{\"op\":\"log\",\"id\":\"1.%llu\"}", (unsigned long long)at.task);
        r.live_slot = UINT32_MAX;
        json_decref(rig_ask(&r, p, text));
        cr_expect(eq(u32, r.live_slot, r.launched[i].slot));
        cr_expect(eq(str, r.live_site, "local"));
    }
}

/* ---- who may ---- */

Test(gateway, keeps_users_apart)
{
    uint32_t p = operator_peer(), stranger = rig_open(&r, 2000, HTC_WIRE_ROLE_USER);
    char     text[512];
    cr_expect(eq(str, (char *)refusal(p, "{\"op\":\"user.add\",\"name\":\"ann\",\"password\":\"secret\"}"), ""));
    cr_expect(eq(str, (char *)refusal(p, "{\"op\":\"user.add\",\"name\":\"ann\"}"), "HTC_EEXISTS"));
    cr_expect(eq(str, (char *)refusal(p, "{\"op\":\"user.add\",\"name\":\"../x\"}"), "HTC_EINVAL"));
    cr_expect(eq(str, (char *)refusal(stranger, "{\"op\":\"status\"}"), "HTC_EDENIED"));
    json_t *answer = rig_ask(&r, stranger, "{\"op\":\"login\",\"name\":\"ann\",\"password\":\"secret\"}");
    char    token[80];
    snprintf(token, sizeof token, "%s", json_string_value(json_object_get(answer, "token")));
    json_decref(answer);
    submit(p, "olga", SWEEP(1));
    /* Of another user's job what is said is what is said of one that is not there. */
    static const char *const ops[] = { "status", "wait", "tasks", "results", "why", "cancel", "retry", "hold", "release", "rm", "du", "log", "resubmit", "history" };
    for (size_t i = 0; i < sizeof ops / sizeof *ops; i++) {
        for (int task = 0; task < 2; task++) {
            char *said[2];
            for (int k = 0; k < 2; k++) {
                snprintf(text, sizeof text, "{\"op\":\"%s\",\"id\":\"%d%s\",\"failed\":true,\"token\":\"%s\"}", ops[i], k ? 7 : 1, task ? ".0" : "", token);
                json_t *o = rig_ask(&r, stranger, text);
                cr_assert(o != NULL, "%s", ops[i]);
                said[k] = json_dumps(o, JSON_SORT_KEYS);
                for (char *c = said[k]; c && *c; c++)
                    *c = *c == '1' || *c == '7' ? '#' : *c;
                json_decref(o);
            }
            cr_expect(eq(str, said[0], said[1]), "%s", ops[i]);
            cr_expect(strcmp(ops[i], "history") == 0 || strstr(said[0], "HTC_E") != NULL, "%s: %s", ops[i], said[0]);
            free(said[0]);
            free(said[1]);
        }
    }
    snprintf(text, sizeof text, "{\"op\":\"status\",\"id\":1,\"token\":\"%s\"}", token);
    cr_expect(eq(str, (char *)refusal(stranger, text), "HTC_ENOTFOUND"));
    snprintf(text, sizeof text, "{\"op\":\"cancel\",\"id\":1,\"token\":\"%s\"}", token);
    cr_expect(eq(str, (char *)refusal(stranger, text), "HTC_ENOTFOUND"));
    snprintf(text, sizeof text, "{\"op\":\"status\",\"user\":\"olga\",\"token\":\"%s\"}", token);
    cr_expect(eq(str, (char *)refusal(stranger, text), "HTC_EDENIED"));
    snprintf(text, sizeof text, "{\"op\":\"shutdown\",\"token\":\"%s\"}", token);
    cr_expect(eq(str, (char *)refusal(stranger, text), "HTC_EDENIED"));
    snprintf(text, sizeof text, "{\"op\":\"status\",\"token\":\"%s\"}", token);
    cr_expect(eq(str, (char *)refusal(stranger, text), ""));
    r.wall += 8 * 86400 * HTC_SECOND;
    cr_expect(eq(str, (char *)refusal(stranger, text), "HTC_EEXPIRED"));
    cr_expect(eq(str, (char *)refusal(stranger, "{\"op\":\"status\",\"token\":\"00\"}"), "HTC_EAUTH"));
}

/* Each refusal names its cause; nothing is created by any of them. */
Test(gateway, refuses_what_is_not_a_request)
{
    static const struct {
        const char *json, *error;
    } table[] = {
        { "", "HTC_EJSON" },
        { "{", "HTC_EJSON" },
        { "[]", "HTC_EJSON" },
        { "{\"op\":7}", "HTC_EJSON" },
        { "{\"op\":\"fly\"}", "HTC_EUNSUPPORTED" },
        { "{\"op\":\"upload\"}", "HTC_EUNSUPPORTED" },
        { "{\"op\":\"status\",\"id\":\"x\"}", "HTC_EINVAL" },
        { "{\"op\":\"status\",\"id\":0}", "HTC_EINVAL" },
        { "{\"op\":\"status\",\"id\":\"1.\"}", "HTC_EINVAL" },
        { "{\"op\":\"status\",\"id\":\"1.9-3\"}", "HTC_EINVAL" },
        { "{\"op\":\"status\",\"id\":17}", "HTC_ENOTFOUND" },
        { "{\"op\":\"status\",\"user\":\"nobody\"}", "HTC_ENOTFOUND" },
        { "{\"op\":\"why\",\"id\":\"last\"}", "HTC_ENOTFOUND" },
        { "{\"op\":\"submit\"}", "HTC_EINVAL" },
        { "{\"op\":\"submit\",\"jsdl\":\"<a\"}", "HTC_EXML" },
        { "{\"op\":\"submit\",\"jsdl\":\"<a/>\"}", "HTC_ESCHEMA" },
        { "{\"op\":\"blob\",\"hash\":\"zz\"}", "HTC_EINVAL" },
        { "{\"op\":\"user.set\",\"name\":\"olga\",\"weight\":0}", "HTC_EINVAL" },
    };
    uint32_t p = operator_peer();
    for (size_t i = 0; i < sizeof table / sizeof table[0]; i++)
        cr_expect(eq(str, (char *)refusal(p, table[i].json), (char *)table[i].error), "%s", table[i].json);
    json_t *answer = rig_ask(&r, p, "{\"op\":\"status\"}");
    cr_expect(eq(sz, json_array_size(json_object_get(answer, "jobs")), 0));
    json_decref(answer);
}

/* ---- the end ---- */

Test(gateway, ends_when_its_agents_have_left)
{
    uint32_t    p = operator_peer();
    htc_attempt at;
    submit(p, "olga", SWEEP(5));
    rig_pass(&r, 100 * HTC_MS);
    hand h[4];
    for (int i = 0; i < 4; i++) {
        h[i] = hello(r.launched[i].agent);
        cr_assert(eq(u32, pull(&h[i], &at), HTC_GRANT_TASKS));
        if (i < 3)
            cr_expect(eq(int, report(&h[i], &at, HTC_OK), HTC_OK));
    }
    json_decref(rig_ask(&r, p, "{\"op\":\"shutdown\"}"));
    for (int i = 0; i < 3; i++) {
        process_ended(h[i].id);
        cr_expect(r.has_stopped == 0);
    }
    cr_expect(eq(int, report(&h[3], &at, HTC_OK), HTC_OK), "a running task is let finish");
    cr_expect(eq(u32, pull(&h[3], &at), HTC_GRANT_EXIT));
    process_ended(h[3].id);
    cr_expect(r.has_stopped);
    cr_expect(eq(int, r.stopped, HTC_OK));
}

/* ---- changes of a job while others work on it ---- */

static void submit_once(uint32_t peer, const char *jsdl)
{
    json_t *rq = json_pack("{s:s,s:s,s:i}", "op", "submit", "jsdl", jsdl, "retries", 0);
    char   *text = json_dumps(rq, 0);
    json_decref(rig_ask(&r, peer, text));
    free(text);
    json_decref(rq);
}

/* Two requests that meet: the second is taken before the store has answered the first. Each by a connection of its own. */
static void ask_both(uint32_t one, const char *first, uint32_t two, const char *second)
{
    r.busy = 1;
    json_decref(rig_ask(&r, one, first));
    json_decref(rig_ask(&r, two, second));
    r.busy = 0;
    rig_run(&r);
}

static int answered_with(uint32_t peer, const char *text)
{
    const rig_message *m = rig_newest(&r, peer, HTC_WIRE_USER_ANSWER);
    return m && memmem(m->bytes, m->len, text, strlen(text)) != NULL;
}

static long queued_of_olga(uint32_t peer)
{
    json_t *users = rig_ask(&r, peer, "{\"op\":\"users\"}");
    long    n = (long)json_integer_value(json_object_get(json_array_get(json_object_get(users, "users"), 0), "queued"));
    json_decref(users);
    return n;
}

/* Tasks that are cancelled by name exist before their turn; they must not use up the room for chunks that are begun. */
Test(gateway, goes_on_when_many_tasks_far_ahead_were_cancelled)
{
    uint32_t    p = operator_peer();
    uint64_t    id = submit(p, "olga", SWEEP(2000000));
    htc_attempt at;
    cr_expect(eq(str, (char *)(uintptr_t)refusal(p, "{\"op\":\"cancel\",\"id\":\"1.2048-102047\"}"), ""));
    cr_expect(eq(str, (char *)(uintptr_t)refusal(p, "{\"op\":\"cancel\",\"id\":\"1.102048-202047\"}"), ""));
    cr_expect(eq(str, (char *)(uintptr_t)refusal(p, "{\"op\":\"cancel\",\"id\":\"1.202048-302047\"}"), "HTC_EFULL"));
    long cancelled = (long)count_of(p, id, "cancelled");
    rig_pass(&r, 100 * HTC_MS);
    hand h = hello(r.launched[0].agent);
    for (int i = 0; i < 2050; i++) {
        cr_assert(eq(u32, pull(&h, &at), HTC_GRANT_TASKS), "nothing is handed out after %d tasks", i);
        cr_assert(eq(int, report(&h, &at, HTC_OK), HTC_OK));
    }
    cr_expect(at.task > 202047, "a cancelled task was handed out");
    cr_expect(eq(long, queued_of_olga(p), 2000000L - cancelled - 2050L));
    rig_kill(&r);
    rig_start(&r);
    p = operator_peer();
    cr_expect(eq(long, queued_of_olga(p), 2000000L - cancelled - 2050L));
}

/* When everything fails, no more than so many chunks are begun, and the sum of what waits stays the truth. */
Test(gateway, counts_what_waits_when_no_more_chunks_may_be_begun, .timeout = 300)
{
    if (getenv("HTC_TEST_LIGHT"))
        cr_skip_test("262,144 tasks: not in the light form");
    uint32_t    p = operator_peer();
    htc_attempt at;
    submit(p, "olga", SWEEP(400000));
    rig_pass(&r, 100 * HTC_MS);
    hand h = hello(r.launched[0].agent);
    for (int i = 0; i < 300 * 1024; i++) {
        if (pull(&h, &at) != HTC_GRANT_TASKS)
            break;
        cr_assert(eq(int, report(&h, &at, i % 1024 ? HTC_OK : HTC_EEXIT), HTC_OK));
    }
    cr_expect(eq(u64, at.task, 256 * 1024 - 1));
    cr_expect(eq(long, queued_of_olga(p), 0L));
    rig_pass(&r, 2 * HTC_SECOND);
    cr_expect(eq(long, queued_of_olga(p), 256L));
    for (int i = 0; i < 300; i++) {
        cr_assert(eq(u32, pull(&h, &at), HTC_GRANT_TASKS));
        cr_assert(eq(int, report(&h, &at, HTC_OK), HTC_OK));
    }
    cr_expect(eq(long, queued_of_olga(p) + (long)count_of(p, 1, "done"), 400000L));
}

/* A retry that was acknowledged is kept: also that of a task in a chunk that a restart would not have looked at. */
Test(gateway, keeps_a_retry_over_a_kill_in_a_chunk_that_was_complete)
{
    uint32_t    p = operator_peer();
    htc_attempt at;
    submit_once(p, SWEEP(3000));
    rig_pass(&r, 100 * HTC_MS);
    hand h = hello(r.launched[0].agent);
    for (int i = 0; i < 2050; i++) {
        cr_assert(eq(u32, pull(&h, &at), HTC_GRANT_TASKS));
        cr_assert(eq(int, report(&h, &at, i == 5 ? HTC_EEXIT : HTC_OK), HTC_OK));
    }
    cr_expect(eq(long, (long)count_of(p, 1, "failed"), 1L));
    cr_expect(eq(str, (char *)(uintptr_t)refusal(p, "{\"op\":\"retry\",\"id\":1,\"failed\":true}"), ""));
    rig_kill(&r);
    rig_start(&r);
    p = operator_peer();
    cr_expect(eq(long, (long)count_of(p, 1, "failed"), 0L));
    cr_expect(eq(long, (long)count_of(p, 1, "waiting"), 951L));
    hand again = hello(h.id);
    again.seq = h.seq;
    for (int i = 0; i < 951; i++) {
        cr_assert(eq(u32, pull(&again, &at), HTC_GRANT_TASKS));
        cr_assert(eq(int, report(&again, &at, HTC_OK), HTC_OK));
    }
    cr_expect(eq(long, (long)count_of(p, 1, "done"), 3000L));
}

static void one_failed_job(uint32_t p)
{
    htc_attempt at;
    submit_once(p, SWEEP(1));
    rig_pass(&r, 100 * HTC_MS);
    hand h = hello(r.launched[r.n_launched - 1].agent);
    cr_assert(eq(u32, pull(&h, &at), HTC_GRANT_TASKS));
    ten_seconds();
    cr_assert(eq(int, report(&h, &at, HTC_EEXIT), HTC_OK));
    process_ended(h.id);
}

Test(gateway, does_not_remove_a_job_that_is_opened_again_nor_the_reverse)
{
    uint32_t p = operator_peer(), other = operator_peer();
    one_failed_job(p);
    ask_both(p, "{\"op\":\"retry\",\"id\":1,\"failed\":true}", other, "{\"op\":\"rm\",\"id\":1}");
    cr_expect(answered_with(p, "\"retried\":1"));
    cr_expect(answered_with(other, "HTC_EBUSY"));
    cr_expect(r.has_stopped == 0);
    cr_expect(eq(long, (long)count_of(p, 1, "waiting"), 1L));
    json_decref(rig_ask(&r, p, "{\"op\":\"cancel\",\"id\":1}"));
    one_failed_job(p);
    ask_both(p, "{\"op\":\"rm\",\"id\":2}", other, "{\"op\":\"retry\",\"id\":2,\"failed\":true}");
    cr_expect(answered_with(p, "\"removed\":1"));
    cr_expect(answered_with(other, "HTC_EBUSY"));
    cr_expect(r.has_stopped == 0);
    cr_expect(eq(str, (char *)(uintptr_t)refusal(p, "{\"op\":\"status\",\"id\":2}"), "HTC_ENOTFOUND"));
}

Test(gateway, retries_all_but_the_cancelled_ones)
{
    uint32_t p = operator_peer();
    one_failed_job(p);
    submit(p, "olga", SWEEP(3));
    json_decref(rig_ask(&r, p, "{\"op\":\"cancel\",\"id\":2}"));
    json_decref(rig_ask(&r, p, "{\"op\":\"retry\",\"id\":\"all\",\"failed\":true}"));
    cr_expect(answered_with(p, "\"retried\":1"));
}

Test(gateway, retries_twice_at_once_and_counts_once)
{
    uint32_t    p = operator_peer(), other = operator_peer();
    htc_attempt at;
    submit_once(p, SWEEP(3000));
    rig_pass(&r, 100 * HTC_MS);
    hand h = hello(r.launched[0].agent);
    for (int i = 0; i < 2050; i++) {
        cr_assert(eq(u32, pull(&h, &at), HTC_GRANT_TASKS));
        cr_assert(eq(int, report(&h, &at, i % 100 == 5 ? HTC_EEXIT : HTC_OK), HTC_OK));
    }
    ask_both(p, "{\"op\":\"retry\",\"id\":1,\"failed\":true}", other, "{\"op\":\"retry\",\"id\":1,\"failed\":true}");
    cr_expect(answered_with(p, "retried"));
    cr_expect(answered_with(other, "retried"));
    cr_expect(eq(long, (long)count_of(p, 1, "failed"), 0L));
    for (int i = 0; i < 950 + 21; i++) {
        cr_assert(eq(u32, pull(&h, &at), HTC_GRANT_TASKS), "%d", i);
        cr_assert(eq(int, report(&h, &at, HTC_OK), HTC_OK));
    }
    json_t *j = job_of(p, 1);
    cr_expect(eq(str, (char *)(uintptr_t)json_string_value(json_object_get(j, "state")), "done"));
    json_decref(j);
}

/* A cancel that meets a retry wins, and the job ends. */
Test(gateway, ends_a_job_that_is_cancelled_while_it_is_tried_again)
{
    uint32_t    p = operator_peer(), other = operator_peer();
    htc_attempt at;
    submit_once(p, SWEEP(3000));
    rig_pass(&r, 100 * HTC_MS);
    hand h = hello(r.launched[0].agent);
    for (int i = 0; i < 2050; i++) {
        cr_assert(eq(u32, pull(&h, &at), HTC_GRANT_TASKS));
        cr_assert(eq(int, report(&h, &at, i % 100 == 5 ? HTC_EEXIT : HTC_OK), HTC_OK));
    }
    ask_both(p, "{\"op\":\"retry\",\"id\":1,\"failed\":true}", other, "{\"op\":\"cancel\",\"id\":1}");
    json_t *j = job_of(p, 1);
    cr_expect(eq(str, (char *)(uintptr_t)json_string_value(json_object_get(j, "state")), "cancelled"));
    json_decref(j);
}

/* ---- what users and their tasks may say ---- */

/* Tasks run in no time, so many are handed out at once; but a grant is one message. */
Test(gateway, hands_out_fewer_at_once_when_they_are_large)
{
    static char  document[2200000];
    static htc_grant g;
    rig_kill(&r);
    r.prefetch = 64;
    rig_start(&r);
    uint32_t    p = operator_peer();
    htc_attempt at;
    char       *middle = strstr(strcpy(document, SWEEP(200)), "</px:POSIXApplication>");
    char        rest[2000];
    snprintf(rest, sizeof rest, "%s", middle);
    for (int i = 0; i < 8; i++) { /* of words that execve takes, which are shorter than 128 KiB */
        middle += sprintf(middle, "<px:Argument>");
        memset(middle, 'x', 125000);
        middle += 125000;
        middle += sprintf(middle, "</px:Argument>");
    }
    strcpy(middle, rest);
    submit(p, "olga", document);
    rig_pass(&r, 100 * HTC_MS);
    hand h = hello(r.launched[0].agent);
    cr_assert(eq(u32, pull(&h, &at), HTC_GRANT_TASKS));
    htc_task_result m = { .agent = h.id, .attempt = at, .outcome = { .started = r.wall, .ended = r.wall + HTC_US } };
    htc_buf         b;
    htc_buf_init(&b, NULL, 0);
    htc_task_result_write(&b, &m);
    rig_say(&r, h.peer, &b);
    htc_pull_write(&b, &(htc_pull){ .agent = h.id, .seq = ++h.seq, .want = 64, .last_grant = h.last_grant });
    rig_say(&r, h.peer, &b);
    htc_buf_free(&b);
    cr_assert(r.has_stopped == 0, "the gateway ended: %s", htc_status_name(r.stopped));
    const rig_message *got = rig_newest(&r, h.peer, HTC_WIRE_GRANT);
    htc_reader         in = htc_reader_of((htc_bytes){ got->bytes, got->len });
    cr_assert(eq(int, htc_grant_read(&in, &g), HTC_OK));
    cr_expect(g.count > 1 && g.count < 10, "%u tasks", g.count);
}

/* What expands to more than a message holds is refused when it is submitted. */
Test(gateway, refuses_a_task_that_expands_beyond_all_bounds)
{
    static char document[2200000];
    uint32_t    p = operator_peer();
    char       *end = document + sprintf(document, "%s", "{\"op\":\"submit\",\"jsdl\":\"<j:JobDefinition xmlns:j='http://schemas.ggf.org/jsdl/2005/11/jsdl'"
        " xmlns:px='http://schemas.ggf.org/jsdl/2005/11/jsdl-posix' xmlns:s='http://schemas.ogf.org/jsdl/2009/03/sweep'"
        " xmlns:f='http://schemas.ogf.org/jsdl/2009/03/sweep/functions'><j:JobDescription><j:Application><px:POSIXApplication>"
        "<px:Executable>/bin/true</px:Executable>");
    for (int i = 0; i < 1000; i++)
        end += sprintf(end, "<px:Argument>a</px:Argument>");
    end += sprintf(end, "</px:POSIXApplication></j:Application></j:JobDescription><s:Sweep><s:Assignment><s:DocumentNode>"
        "<s:NamespaceBinding ns='http://schemas.ggf.org/jsdl/2005/11/jsdl-posix' prefix='p'/><s:Match>//p:Argument</s:Match>"
        "</s:DocumentNode><f:Values><f:Value>");
    memset(end, 'x', 1000000);
    sprintf(end + 1000000, "</f:Value></f:Values></s:Assignment></s:Sweep></j:JobDefinition>\"}");
    cr_expect(eq(str, (char *)(uintptr_t)refusal(p, document), "HTC_ETOOBIG"));
}

/* The largest document there is: stored, read back after a kill, and handed out. */
Test(gateway, takes_a_document_of_fourteen_megabytes)
{
    size_t       room = (size_t)15 << 20;
    char        *document = malloc(room), *end;
    cr_assert(document != NULL);
    memcpy(document, SWEEP(2), sizeof SWEEP(2));
    uint32_t     p = operator_peer();
    htc_attempt  at;
    end = strstr(document, "<sf:LoopInteger");
    end += sprintf(end, "<sf:Values>");
    uint64_t n = 0;
    while ((size_t)(end - document) < ((size_t)14 << 20))
        end += sprintf(end, "<sf:Value>ligand-%llu</sf:Value>", (unsigned long long)n++);
    sprintf(end, "</sf:Values></sweep:Assignment></sweep:Sweep></jsdl:JobDefinition>");
    uint64_t id = submit(p, "olga", document);
    free(document);
    cr_expect(eq(long, (long)count_of(p, id, "waiting"), (long)n));
    rig_pass(&r, 100 * HTC_MS);
    rig_kill(&r);
    rig_start(&r);
    p = operator_peer();
    cr_expect(eq(long, (long)count_of(p, id, "waiting"), (long)n));
    hand h = hello(r.launched[0].agent);
    cr_assert(eq(u32, pull(&h, &at), HTC_GRANT_TASKS));
    cr_expect(eq(int, report(&h, &at, HTC_OK), HTC_OK));
}

Test(gateway, cuts_a_long_name_between_characters)
{
    uint32_t p = operator_peer();
    char     jsdl[4000], name[400] = "xx";
    for (int i = 0; i < 120; i++)
        strcat(name, "\xc3\xa9");
    snprintf(jsdl, sizeof jsdl, "%s", SWEEP(1));
    char *at = strstr(jsdl, "<jsdl:Application>"), rest[3000];
    snprintf(rest, sizeof rest, "%s", at);
    sprintf(at, "<jsdl:JobIdentification><jsdl:JobName>%s</jsdl:JobName></jsdl:JobIdentification>%s", name, rest);
    uint64_t id = submit(p, "olga", jsdl);
    cr_expect(eq(long, (long)count_of(p, id, "waiting"), 1L));
    cr_expect(r.has_stopped == 0);
}

Test(gateway, refuses_a_request_that_is_made_of_too_many_parts)
{
    static char text[60000] = "{\"op\":\"ping\",\"x\":[0";
    uint32_t    p = operator_peer();
    for (size_t n = strlen(text), i = 0; i < 20000; i++)
        memcpy(text + n + 2 * i, ",0", 3);
    strcat(text, "]}");
    cr_expect(eq(str, (char *)(uintptr_t)refusal(p, text), "HTC_ETOOBIG"));
    cr_expect(eq(str, (char *)(uintptr_t)refusal(p, "{\"op\":\"ping\",\"x\":\",,,\\\",,,\"}"), ""));
}

/* The tick writes users' usage; it must not write what a change under way has just replaced. */
Test(gateway, keeps_a_change_of_a_user_that_meets_the_tick)
{
    uint32_t p = operator_peer();
    uint64_t weight = 0;
    one_failed_job(p);
    r.busy = 1;
    rig_ask(&r, p, "{\"op\":\"user.set\",\"name\":\"olga\",\"weight\":5}");
    r.now += 6 * HTC_SECOND;
    rig_gateway(&r, &(htc_input){ .size = sizeof(htc_input), .now = r.now, .wall = r.wall, .kind = HTC_IN_TIMEOUT });
    r.busy = 0;
    rig_run(&r);
    cr_expect(answered_with(p, "\"weight\":5"));
    rig_pass(&r, 6 * HTC_SECOND);
    rig_kill(&r);
    rig_start(&r);
    p = operator_peer();
    json_t *users = rig_ask(&r, p, "{\"op\":\"users\"}"), *olga = json_array_get(json_object_get(users, "users"), 0);
    weight = (uint64_t)json_integer_value(json_object_get(olga, "weight"));
    cr_expect(eq(u64, weight, 5));
    cr_expect(eq(dbl, json_number_value(json_object_get(olga, "core_s")), 10.0));
    json_decref(users);
}

Test(gateway, forgets_tokens_that_have_long_expired)
{
    uint32_t p = operator_peer(), stranger = rig_open(&r, RIG_UID + 1, HTC_WIRE_ROLE_USER);
    char     ask[256];
    json_decref(rig_ask(&r, p, "{\"op\":\"user.add\",\"name\":\"anna\",\"password\":\"secret\"}"));
    json_t *token = rig_ask(&r, stranger, "{\"op\":\"login\",\"name\":\"anna\",\"password\":\"secret\"}");
    snprintf(ask, sizeof ask, "{\"op\":\"users\",\"token\":\"%s\"}", json_string_value(json_object_get(token, "token")));
    json_decref(token);
    cr_expect(eq(str, (char *)(uintptr_t)refusal(stranger, ask), ""));
    rig_pass(&r, UINT64_C(8) * 86400 * HTC_SECOND);
    cr_expect(eq(str, (char *)(uintptr_t)refusal(stranger, ask), "HTC_EEXPIRED"));
    rig_pass(&r, UINT64_C(7) * 86400 * HTC_SECOND);
    cr_expect(eq(str, (char *)(uintptr_t)refusal(stranger, ask), "HTC_EAUTH"));
}

Test(gateway, drops_what_all_earlier_attempts_may_have_left)
{
    uint32_t    p = operator_peer();
    htc_attempt at;
    submit(p, "olga", SWEEP(1));
    rig_pass(&r, 100 * HTC_MS);
    for (int i = 0; i < 2; i++) {
        hand lost = hello(r.launched[r.n_launched - 1].agent);
        cr_assert(eq(u32, pull(&lost, &at), HTC_GRANT_TASKS));
        process_ended(lost.id);
    }
    hand h = hello(r.launched[r.n_launched - 1].agent);
    cr_assert(eq(u32, pull(&h, &at), HTC_GRANT_TASKS));
    cr_assert(eq(u32, at.attempt, 3));
    cr_assert(eq(int, report(&h, &at, HTC_OK), HTC_OK));
    cr_expect(eq(u32, r.calls[HTC_CALL_DROP_OUTPUT], 2));
}
