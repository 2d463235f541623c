/* Quotas of users and of projects, and the sums that they are of. Users: ann, bob and carl (gateway_users.h).
 *
 * Spec htcaas 7, row 26. */
#include "gateway_users.h"

#include <math.h>

#include "roles/gateway/gateway.h"

TestSuite(gateway_quotas, .init = begin_users, .fini = end);

/* ---- quotas: spec htcaas 7, row 26; spec htcaas 6 "User over quota" ---- */

Test(gateway_quotas, core_hours_that_are_spent_stop_launches_until_they_are_raised)
{
    ok("{\"op\":\"quota\",\"name\":\"ann\",\"core_hours\":3}");
    uint64_t id = submit_in("ann", NULL, SWEEP(40));
    cr_expect(run_once(HOUR) == 4);
    cr_expect(user_number("ann", "quota.core_hours.used") == 4 && user_number("ann", "quota.core_hours.left") == 0 && user_number("ann", "quota.core_hours.limit") == 3);
    size_t launched = r.n_launched;
    cr_expect(run_once(HOUR) == 0, "nothing is handed out");
    rig_pass(&r, 60 * HTC_SECOND);
    cr_expect(r.n_launched == launched, "and nothing is launched");
    cr_expect(eq(long, (long)count_of(op, id, "waiting"), 36));
    char why[80];
    snprintf(why, sizeof why, "{\"op\":\"why\",\"id\":\"%llu\"}", (unsigned long long)id);
    cr_expect(is_text(why, "code", "Quota") && is_text(why, "why", "core hours of ann (4 of 3 used)"));
    cr_expect(is_text("{\"op\":\"why\",\"user\":\"ann\"}", "code", "Quota"));
    cr_expect(try_submit("ann", NULL, SWEEP(2)) == 0);
    cr_expect(strstr(error, "HTC_EDENIED") && strstr(error, "core hours of ann"), "%s", error);
    cr_expect(number_of("{\"op\":\"status\"}", "jobs.0.id") == (double)id, "no job was made");
    start_again();
    cr_expect(is_text(why, "code", "Quota"), "after a restart too");
    ok("{\"op\":\"quota\",\"name\":\"ann\",\"core_hours\":300}");
    cr_expect(run_once(HOUR) == 4, "the queue goes on");
    submit_in("ann", NULL, SWEEP(2));
}

/* A long task counts while it runs: the next one is not begun when it is known that it will be too much. */
Test(gateway_quotas, what_runs_counts)
{
    htc_attempt at;
    ok("{\"op\":\"quota\",\"name\":\"ann\",\"core_hours\":2}");
    submit_in("ann", NULL, SWEEP(40));
    let_register();
    cr_assert(pull(&agents[0], &at) == HTC_GRANT_TASKS);
    htc_buf b;
    htc_buf_init(&b, NULL, 0);
    htc_started_write(&b, &(htc_started){ .agent = agents[0].id, .attempt = at });
    rig_say(&r, agents[0].peer, &b);
    htc_buf_free(&b);
    rig_pass(&r, 2 * HTC_SECOND);
    r.now += HOUR;
    r.wall += HOUR;
    rig_pass(&r, 6 * HTC_SECOND);
    cr_expect(fabs(user_number("ann", "quota.core_hours.left") - 1) < 0.02, "%g", user_number("ann", "quota.core_hours.left"));
    r.now += HOUR;
    r.wall += HOUR;
    rig_pass(&r, 6 * HTC_SECOND);
    cr_expect(user_number("ann", "quota.core_hours.left") == 0 && user_number("ann", "queued") == 0, "%g left, %g queued", user_number("ann", "quota.core_hours.left"), user_number("ann", "queued"));
}

Test(gateway_quotas, of_a_project_stop_its_jobs_alone)
{
    ok("{\"op\":\"project.add\",\"name\":\"arc\",\"add\":[\"ann\",\"bob\"]}");
    ok("{\"op\":\"quota\",\"project\":\"arc\",\"core_hours\":2}");
    uint64_t in = submit_in("ann", "arc", SWEEP(40));
    cr_expect(run_once(HOUR) == 4);
    cr_expect(run_once(HOUR) == 0);
    cr_expect(try_submit("bob", "arc", SWEEP(2)) == 0);
    cr_expect(strstr(error, "core hours of project arc"), "%s", error);
    uint64_t out = submit_in("ann", "", SWEEP(4));
    cr_expect(run_once(HOUR) == 4);
    cr_expect(eq(long, (long)count_of(op, out, "done"), 4));
    cr_expect(eq(long, (long)count_of(op, in, "waiting"), 36));
    start_again();
    cr_expect(run_once(HOUR) == 0);
    ok("{\"op\":\"quota\",\"project\":\"arc\",\"core_hours\":null}");
    cr_expect(run_once(HOUR) == 4);
}

Test(gateway_quotas, of_processes_bound_what_runs_at_once)
{
    htc_attempt at[8];
    uint32_t    n = 0;
    ok("{\"op\":\"quota\",\"name\":\"ann\",\"processes\":3}");
    ok("{\"op\":\"project.add\",\"name\":\"arc\",\"add\":[\"ann\"]}");
    ok("{\"op\":\"quota\",\"project\":\"arc\",\"processes\":2}");
    submit_in("ann", "arc", SWEEP(40));
    submit_in("ann", "", SWEEP(40));
    for (int i = 0; i < 3; i++) {
        let_register();
        for (uint32_t k = 0; k < n_agents; k++)
            n += agents[k].seq == 0 && pull(&agents[k], &at[n]) == HTC_GRANT_TASKS;
    }
    cr_expect(n == 3 && user_number("ann", "running") == 3, "%u tasks run", n);
    cr_expect(number_of("{\"op\":\"projects\"}", "projects.0.running") == 2);
    cr_expect(user_number("ann", "quota.processes.left") == 0);
    size_t launched = r.n_launched;
    rig_pass(&r, 20 * HTC_SECOND);
    cr_expect(r.n_launched == launched && launched <= 4, "no agent is launched in vain, %zu were", r.n_launched);
    cr_expect(is_text("{\"op\":\"why\",\"user\":\"ann\"}", "why", "tasks at once of ann (3 of 3 used)"));
    r.now += HOUR;
    r.wall += HOUR;
    report_after(&agents[0], &at[0], HTC_OK, HOUR, "");
    cr_expect(pull(&agents[0], &at[0]) == HTC_GRANT_TASKS, "one ends, one begins");
}

/* HTCaaS 6: A user has spent a quota, or a token is unknown. */
Test(gateway_quotas, of_tasks_bound_what_is_unfinished)
{
    ok("{\"op\":\"quota\",\"name\":\"ann\",\"tasks\":10}");
    submit_in("ann", NULL, SWEEP(6));
    cr_expect(try_submit("ann", NULL, SWEEP(5)) == 0);
    cr_expect(strstr(error, "HTC_EDENIED: 5 tasks are more than the quota of unfinished tasks of ann (6 of 10 used)"), "%s", error);
    submit_in("ann", NULL, SWEEP(4));
    cr_expect(run_once(HTC_SECOND) == 4);
    submit_in("ann", NULL, SWEEP(4));
    submit_in("bob", NULL, SWEEP(500));
}

static htc_status report_bytes_of(hand *h, const htc_attempt *at, htc_status status, uint64_t bytes)
{
    htc_task_result m = { .agent = h->id, .attempt = *at,
                          .outcome = { .status = status, .exit_code = status == HTC_EEXIT, .started = r.wall - HTC_SECOND, .ended = r.wall, .node = "node1", .outputs = { .files = 1, .bytes = bytes } } };
    htc_buf b;
    htc_buf_init(&b, NULL, 0);
    htc_task_result_write(&b, &m);
    rig_say(&r, h->peer, &b);
    htc_buf_free(&b);
    return HTC_OK;
}

static htc_status report_bytes(hand *h, const htc_attempt *at, uint64_t bytes)
{
    return report_bytes_of(h, at, HTC_OK, bytes);
}

Test(gateway_quotas, of_bytes_bound_what_is_kept)
{
    htc_attempt at;
    ok("{\"op\":\"quota\",\"name\":\"ann\",\"bytes\":1000}");
    uint64_t id = submit_in("ann", NULL, SWEEP(6));
    let_register();
    ten_seconds();
    cr_assert(pull(&agents[0], &at) == HTC_GRANT_TASKS);
    report_bytes(&agents[0], &at, 600);
    cr_expect(user_number("ann", "quota.bytes.used") == 600);
    cr_assert(pull(&agents[0], &at) == HTC_GRANT_TASKS);
    uint32_t dropped = r.calls[HTC_CALL_DROP_OUTPUT];
    report_bytes(&agents[0], &at, 401);
    cr_expect(eq(long, (long)count_of(op, id, "failed"), 1), "it is not tried again");
    cr_expect(r.calls[HTC_CALL_DROP_OUTPUT] == dropped + 1, "what it left goes");
    cr_expect(user_number("ann", "quota.bytes.used") == 600);
    char why[80];
    snprintf(why, sizeof why, "{\"op\":\"why\",\"id\":\"%llu.1\"}", (unsigned long long)id);
    cr_expect(is_text(why, "why", "401 bytes exceed the quota of bytes of ann (600 of 1000 used)"));
    start_again();
    cr_expect(user_number("ann", "quota.bytes.used") == 600, "%g", user_number("ann", "quota.bytes.used"));
    cr_assert(pull(&agents[0], &at) == HTC_GRANT_TASKS);
    report_bytes(&agents[0], &at, 400);
    cr_expect(user_number("ann", "quota.bytes.left") == 0);
    cr_expect(try_submit("ann", NULL, SWEEP(5)) == 0);
    cr_expect(strstr(error, "HTC_EDENIED: nothing is left of the quota of bytes of ann"), "%s", error);
    char cancel[80];
    snprintf(cancel, sizeof cancel, "{\"op\":\"cancel\",\"id\":\"%llu\"}", (unsigned long long)id);
    ok(cancel);
    rig_pass(&r, HTC_SECOND);
    snprintf(cancel, sizeof cancel, "{\"op\":\"rm\",\"id\":\"%llu\"}", (unsigned long long)id);
    ok(cancel);
    rig_pass(&r, HTC_SECOND);
    cr_expect(user_number("ann", "quota.bytes.used") == 0, "%g", user_number("ann", "quota.bytes.used"));
    submit_in("ann", NULL, SWEEP(5));
}

/* A piece of an upload of ann's; "", or the message of the error. */
static const char *upload(uint8_t which, uint64_t size, uint64_t offset, size_t n)
{
    static char     said[400];
    static uint64_t id = UINT64_C(1) << 40;
    uint8_t         hash[32] = { which }, bytes[2000] = { 0 };
    htc_buf         b;
    htc_buf_init(&b, NULL, 0);
    htc_wire_begin(&b, HTC_WIRE_UPLOAD, ++id);
    htc_put_str(&b, "ann");
    htc_put_str(&b, "");
    htc_put_raw(&b, (htc_bytes){ hash, sizeof hash });
    htc_put_u64(&b, size);
    htc_put_u64(&b, offset);
    htc_put_bytes(&b, (htc_bytes){ bytes, n });
    rig_say(&r, op, &b);
    htc_buf_free(&b);
    const rig_message *m = rig_newest(&r, op, HTC_WIRE_USER_ANSWER);
    cr_assert(m && m->id == id, "no answer");
    json_t     *answer = json_loadb((const char *)m->bytes, m->len, 0, NULL);
    const char *name = json_string_value(json_object_get(answer, "error")), *message = json_string_value(json_object_get(answer, "message"));
    snprintf(said, sizeof said, "%s%s%s", name ? name : "", name ? ": " : "", message ? message : "");
    json_decref(answer);
    return said;
}

/* Uploads are of the same bytes as outputs, from their first piece on; a start counts them, and what is swept is free again. */
Test(gateway_quotas, of_bytes_count_uploads)
{
    htc_attempt at;
    r.uploads.counted = 1;
    r.uploads.stored = 100; /* by a gateway before */
    start_again();
    ok("{\"op\":\"quota\",\"name\":\"ann\",\"bytes\":1000}");
    cr_expect(user_number("ann", "quota.bytes.used") == 100);
    cr_expect(user_number("bob", "quota.bytes.used") == 0);
    uint64_t id = submit_in("ann", NULL, SWEEP(6));
    let_register();
    ten_seconds();
    cr_assert(pull(&agents[0], &at) == HTC_GRANT_TASKS);
    report_bytes(&agents[0], &at, 300);
    cr_expect(eq(str, (char *)(uintptr_t)upload(1, 400, 0, 100), ""));
    cr_expect(user_number("ann", "quota.bytes.used") == 800, "its room is set aside: %g", user_number("ann", "quota.bytes.used"));
    cr_expect(user_number("ann", "quota.bytes.outputs") == 300 && user_number("ann", "quota.bytes.uploads") == 500);
    const char *said = upload(2, 201, 0, 201);
    cr_expect(strcmp(said, "HTC_EDENIED: an upload of 201 bytes exceeds the quota of bytes of ann (800 of 1000 used): 200 bytes are left") == 0, "%s", said);
    cr_expect(eq(str, (char *)(uintptr_t)upload(2, 200, 0, 200), ""));
    cr_expect(eq(str, (char *)(uintptr_t)upload(1, 400, 100, 300), ""), "what has begun ends");
    cr_expect(user_number("ann", "quota.bytes.left") == 0);
    cr_expect(try_submit("ann", NULL, SWEEP(1)) != 0, "its own uploads may have taken what was left: %s", error);
    cr_assert(pull(&agents[0], &at) == HTC_GRANT_TASKS);
    report_bytes(&agents[0], &at, 1);
    cr_expect(eq(long, (long)count_of(op, id, "failed"), 1), "an output is not kept");
    start_again();
    cr_expect(user_number("ann", "quota.bytes.uploads") == 700, "after a restart too: %g", user_number("ann", "quota.bytes.uploads"));
    r.uploads.stored = 0; /* swept */
    rig_pass(&r, 2 * HOUR);
    cr_expect(user_number("ann", "quota.bytes.used") == 300, "%g", user_number("ann", "quota.bytes.used"));
    submit_in("ann", NULL, SWEEP(5));
    ok("{\"op\":\"quota\",\"name\":\"ann\",\"bytes\":0}");
    cr_expect(eq(str, (char *)(uintptr_t)upload(3, 5000, 0, 10), ""), "without a quota any upload is taken");
}

/* The host forgets an upload with a piece that is not what was announced: its room is shown as free at once, not after the next sweep. */
Test(gateway_quotas, of_bytes_show_what_an_upload_that_failed_gives_back)
{
    r.uploads.counted = 1;
    ok("{\"op\":\"quota\",\"name\":\"ann\",\"bytes\":1000}");
    cr_expect(eq(str, (char *)(uintptr_t)upload(1, 400, 0, 100), ""));
    cr_expect(eq(str, (char *)(uintptr_t)upload(2, 300, 0, 100), ""));
    cr_expect(user_number("ann", "quota.bytes.used") == 700);
    r.uploads.break_next = 1;
    cr_expect(strstr(upload(1, 400, 100, 300), "HTC_EINPUT: the upload was refused"));
    cr_expect(user_number("ann", "quota.bytes.used") == 300, "%g", user_number("ann", "quota.bytes.used"));
    r.uploads.unfinished = 0; /* the other one was idle, and its user needs the room */
    cr_expect(strstr(upload(3, 1001, 0, 100), "HTC_EDENIED"));
    cr_expect(user_number("ann", "quota.bytes.used") == 0, "%g", user_number("ann", "quota.bytes.used"));
}

/* Uploads that have begun may break off: no result goes for them. */
Test(gateway_quotas, of_bytes_keep_no_room_for_what_was_only_announced)
{
    htc_attempt at;
    r.uploads.counted = 1;
    ok("{\"op\":\"quota\",\"name\":\"ann\",\"bytes\":1000}");
    uint64_t id = submit_in("ann", NULL, SWEEP(1));
    let_register();
    ten_seconds();
    cr_expect(eq(str, (char *)(uintptr_t)upload(1, 900, 0, 100), ""));
    cr_assert(pull(&agents[0], &at) == HTC_GRANT_TASKS);
    report_bytes(&agents[0], &at, 500);
    cr_expect(eq(long, (long)count_of(op, id, "done"), 1) && eq(long, (long)count_of(op, id, "failed"), 0));
}

/* An attempt's outputs take the place of those of the one before: only these count, after a restart too, and in a project. */
Test(gateway_quotas, of_bytes_count_the_last_attempt_of_a_task)
{
    htc_attempt at;
    char        retry[80];
    ok("{\"op\":\"project.add\",\"name\":\"arc\",\"add\":[\"ann\"]}");
    ok("{\"op\":\"quota\",\"project\":\"arc\",\"bytes\":1000}");
    ok("{\"op\":\"quota\",\"name\":\"ann\",\"bytes\":1000}");
    uint64_t id = submit_in("ann", "arc", SWEEP(1));
    let_register();
    ten_seconds();
    static const uint64_t kept[] = { 600, 0, 900 };
    for (size_t i = 0; i < 3; i++) {
        cr_assert(pull(&agents[0], &at) == HTC_GRANT_TASKS && at.task == 0 && at.attempt == i + 1);
        report_bytes_of(&agents[0], &at, HTC_EEXIT, kept[i]);
        cr_expect(user_number("ann", "quota.bytes.used") == (double)kept[i], "%g after %zu", user_number("ann", "quota.bytes.used"), i);
        rig_pass(&r, i < 2 ? 0 : HTC_SECOND);
        start_again();
        cr_expect(user_number("ann", "quota.bytes.used") == (double)kept[i], "%g after %zu and a restart", user_number("ann", "quota.bytes.used"), i);
        cr_expect(number_of("{\"op\":\"projects\"}", "projects.0.quota.bytes.used") == (double)kept[i]);
        if (count_of(op, id, "failed") == 1) {
            snprintf(retry, sizeof retry, "{\"op\":\"retry\",\"id\":\"%llu.0\"}", (unsigned long long)id);
            ok(retry);
        }
        rig_pass(&r, 8 * HTC_SECOND);
    }
    cr_assert(pull(&agents[0], &at) == HTC_GRANT_TASKS && at.task == 0);
    report_bytes(&agents[0], &at, 999);
    cr_expect(user_number("ann", "quota.bytes.used") == 999);
    cr_expect(eq(long, (long)count_of(op, id, "done"), 1));
    start_again();
    cr_expect(user_number("ann", "quota.bytes.used") == 999);
}

static void small(htc_gateway_options *o)
{
    o->quota_tasks = 5;
}

Test(gateway_quotas, of_the_site_hold_for_whom_nothing_else_is_said)
{
    ok("{\"op\":\"quota\",\"name\":\"bob\",\"tasks\":0}");
    r.change = small;
    start_again();
    cr_expect(try_submit("ann", NULL, SWEEP(6)) == 0);
    cr_expect(strstr(error, "unfinished tasks of ann (0 of 5 used)"), "%s", error);
    submit_in("bob", NULL, SWEEP(600));
    ok("{\"op\":\"quota\",\"name\":\"bob\",\"tasks\":null}");
    cr_expect(try_submit("bob", NULL, SWEEP(1)) == 0);
}

Test(gateway_quotas, are_seen_by_their_own_and_set_by_the_operator)
{
    static const char *const wrong[] = { "\"core_hours\":-1", "\"core_hours\":6e6", "\"core_hours\":\"5\"", "\"bytes\":1.5", "\"tasks\":true", "\"processes\":1e40" };
    char text[200];
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        snprintf(text, sizeof text, "{\"op\":\"quota\",\"name\":\"ann\",%s}", wrong[i]);
        cr_expect(eq(str, (char *)(uintptr_t)refusal(op, text), "HTC_EINVAL"), "%s", wrong[i]);
    }
    cr_expect(eq(str, (char *)(uintptr_t)refusal(op, "{\"op\":\"quota\",\"name\":\"nobody\"}"), "HTC_ENOTFOUND"));
    ok("{\"op\":\"project.add\",\"name\":\"old\",\"add\":[\"carl\"]}");
    cr_expect(eq(str, (char *)(uintptr_t)refusal(op, "{\"op\":\"user.rm\",\"name\":\"carl\"}"), "HTC_EBUSY"), "the next one of that name would be in the project");
    ok("{\"op\":\"project.set\",\"name\":\"old\",\"rm\":[\"carl\"]}");
    ok("{\"op\":\"user.rm\",\"name\":\"carl\"}");
    uint32_t p = rig_open(&r, RIG_UID + 1, HTC_WIRE_ROLE_USER);
    json_t  *answer = rig_ask(&r, p, "{\"op\":\"login\",\"name\":\"ann\",\"password\":\"x\"}");
    ok("{\"op\":\"project.add\",\"name\":\"arc\",\"add\":[\"bob\"]}");
    static const struct {
        const char *rest, *status;
    } rows[] = {
        { "\"op\":\"quota\"", "" }, { "\"op\":\"quota\",\"name\":\"ann\"", "" }, { "\"op\":\"quota\",\"tasks\":0", "HTC_EDENIED" },
        { "\"op\":\"quota\",\"name\":\"bob\"", "HTC_EDENIED" }, { "\"op\":\"quota\",\"name\":\"nobody\"", "HTC_EDENIED" },
        { "\"op\":\"quota\",\"project\":\"arc\"", "HTC_EDENIED" }, { "\"op\":\"quota\",\"project\":\"none\"", "HTC_EDENIED" },
        { "\"op\":\"project.set\",\"name\":\"arc\",\"add\":[\"ann\"]", "HTC_EDENIED" }, { "\"op\":\"project.rm\",\"name\":\"arc\"", "HTC_EDENIED" },
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        snprintf(text, sizeof text, "{\"token\":\"%s\",%s}", json_string_value(json_object_get(answer, "token")), rows[i].rest);
        cr_expect(eq(str, (char *)(uintptr_t)refusal(p, text), (char *)(uintptr_t)rows[i].status), "%s", rows[i].rest);
    }
    json_decref(answer);
}

/* ---- counts, and what is under way at once ---- */

static void adds_up(void)
{
    htc_gateway_books b = { .size = sizeof b };
    cr_assert(eq(int, htc_gateway_audit(r.gateway, 1, &b), HTC_OK));
}

/* Requests that the gateway has before the store has answered any of them. */
static void both(const char *first, uint32_t second_peer, const char *second)
{
    r.busy = 1;
    json_decref(rig_ask(&r, op, first));
    json_decref(rig_ask(&r, second_peer, second));
    rig_run(&r);
}

static const char *answer_of(uint32_t peer)
{
    static char        name[64];
    const rig_message *m = rig_newest(&r, peer, HTC_WIRE_USER_ANSWER);
    json_t            *answer = m ? json_loadb((const char *)m->bytes, m->len, 0, NULL) : NULL;
    const char        *e = json_string_value(json_object_get(answer, "error"));
    snprintf(name, sizeof name, "%s", e ? e : answer ? "" : "none");
    json_decref(answer);
    return name;
}

Test(gateway_quotas, of_tasks_hold_for_submissions_at_once)
{
    uint32_t p = operator_peer();
    ok("{\"op\":\"quota\",\"name\":\"ann\",\"tasks\":10}");
    json_t *rq = submission("ann", NULL, SWEEP(6));
    char   *text = json_dumps(rq, 0);
    both(text, p, text);
    cr_expect(eq(str, (char *)(uintptr_t)answer_of(op), ""));
    cr_expect(eq(str, (char *)(uintptr_t)answer_of(p), "HTC_EDENIED"), "12 tasks of 10");
    cr_expect(user_number("ann", "quota.tasks.used") == 6);
    adds_up();
    free(text);
    json_decref(rq);
}

/* The job that runs when another one has ended is of that one's project, and its task counts like any other. */
Test(gateway_quotas, of_tasks_count_what_runs_at_the_end)
{
    ok("{\"op\":\"project.add\",\"name\":\"arc\",\"add\":[\"ann\"]}");
    ok("{\"op\":\"quota\",\"project\":\"arc\",\"tasks\":5}");
    json_t *rq = submission("ann", "arc", SWEEP(4));
    json_object_set_new(rq, "on_end", json_string(SWEEP(1)));
    char *text = json_dumps(rq, 0);
    ok(text);
    cr_expect(number_of("{\"op\":\"projects\"}", "projects.0.unfinished") == 5);
    cr_expect(user_number("ann", "quota.tasks.used") == 5);
    cr_expect(eq(str, (char *)(uintptr_t)refusal(op, text), "HTC_EDENIED"));
    start_again();
    cr_expect(number_of("{\"op\":\"projects\"}", "projects.0.unfinished") == 5);
    cr_expect(run_once(HTC_SECOND) == 4);
    cr_expect(number_of("{\"op\":\"projects\"}", "projects.0.unfinished") == 1);
    adds_up();
    cr_expect(run_once(HTC_SECOND) == 1);
    cr_expect(number_of("{\"op\":\"projects\"}", "projects.0.unfinished") == 0 && user_number("ann", "quota.tasks.used") == 0);
    json_object_set_new(rq, "jsdl", json_string(SWEEP(5)));
    free(text);
    text = json_dumps(rq, 0);
    cr_expect(eq(str, (char *)(uintptr_t)refusal(op, text), "HTC_EDENIED"), "six with the one at the end");
    cr_expect(user_number("ann", "quota.tasks.used") == 0, "what was refused counts no more");
    adds_up();
    free(text);
    json_decref(rq);
}

/* Four tasks of a job fail. */
static uint64_t four_failed(const char *project_name)
{
    htc_attempt at[64];
    uint32_t    who[64], n = 0;
    uint64_t    id = submit_in("ann", project_name, SWEEP(4));
    let_register();
    for (uint32_t i = 0; i < n_agents; i++)
        if (agents[i].id && pull(&agents[i], &at[n]) == HTC_GRANT_TASKS)
            who[n++] = i;
    ten_seconds();
    for (uint32_t i = 0; i < n; i++)
        report_after(&agents[who[i]], &at[i], HTC_EINPUT, HTC_SECOND, "no input");
    rig_pass(&r, HTC_SECOND);
    cr_assert(eq(long, (long)count_of(op, id, "failed"), 4));
    return id;
}

static const char *retry(uint64_t id, const char *tasks)
{
    char text[100];
    snprintf(text, sizeof text, "{\"op\":\"retry\",\"id\":\"%llu%s\",\"failed\":%s}", (unsigned long long)id, tasks, tasks[0] ? "false" : "true");
    return refusal(op, text);
}

Test(gateway_quotas, of_tasks_hold_for_what_is_tried_again)
{
    uint64_t id = four_failed("");
    ok("{\"op\":\"quota\",\"name\":\"ann\",\"tasks\":3}");
    cr_expect(eq(str, (char *)(uintptr_t)retry(id, ""), "HTC_EDENIED"), "three are tried again, and the fourth is not");
    cr_expect(eq(long, (long)count_of(op, id, "failed"), 1));
    cr_expect(user_number("ann", "quota.tasks.used") == 3);
    adds_up();
    cr_expect(eq(str, (char *)(uintptr_t)retry(id, ".0-3"), "HTC_EDENIED"));
    ok("{\"op\":\"quota\",\"name\":\"ann\",\"tasks\":4}");
    cr_expect(eq(str, (char *)(uintptr_t)retry(id, ""), ""));
    cr_expect(eq(long, (long)count_of(op, id, "failed"), 0));
    adds_up();
}

/* What could not run, or whose outputs could not be kept, is not tried again: as nothing is submitted. */
Test(gateway_quotas, that_are_spent_refuse_what_is_to_be_tried_again)
{
    uint64_t id = four_failed("");
    ok("{\"op\":\"quota\",\"name\":\"ann\",\"core_hours\":0.0001}");
    cr_expect(eq(str, (char *)(uintptr_t)retry(id, ""), "HTC_EDENIED"));
    cr_expect(eq(long, (long)count_of(op, id, "failed"), 4));
    ok("{\"op\":\"quota\",\"name\":\"ann\",\"core_hours\":null}");
    cr_expect(eq(str, (char *)(uintptr_t)retry(id, ""), ""));
}

/* Whoever is removed meanwhile leaves no quota to the next one of that name; a project that a job comes to stays. */
Test(gateway_quotas, outlast_nobody)
{
    uint32_t p = operator_peer();
    both("{\"op\":\"quota\",\"name\":\"ann\",\"tasks\":10}", p, "{\"op\":\"user.rm\",\"name\":\"ann\"}");
    cr_expect(eq(str, (char *)(uintptr_t)answer_of(op), "") && eq(str, (char *)(uintptr_t)answer_of(p), "HTC_EBUSY"));
    both("{\"op\":\"user.rm\",\"name\":\"ann\"}", p, "{\"op\":\"quota\",\"name\":\"ann\",\"tasks\":20}");
    cr_expect(eq(str, (char *)(uintptr_t)answer_of(op), "") && eq(str, (char *)(uintptr_t)answer_of(p), "HTC_EBUSY"));
    ok("{\"op\":\"user.add\",\"name\":\"ann\",\"password\":\"x\"}");
    start_again();
    submit_in("ann", NULL, SWEEP(40));
    ok("{\"op\":\"project.add\",\"name\":\"arc\",\"add\":[\"ann\"]}");
    json_t *rq = submission("ann", "arc", SWEEP(2));
    char   *text = json_dumps(rq, 0);
    both(text, p = operator_peer(), "{\"op\":\"project.rm\",\"name\":\"arc\"}");
    cr_expect(eq(str, (char *)(uintptr_t)answer_of(op), "") && eq(str, (char *)(uintptr_t)answer_of(p), "HTC_EBUSY"));
    cr_expect(number_of("{\"op\":\"projects\"}", "projects.0.unfinished") == 2);
    adds_up();
    free(text);
    json_decref(rq);
}

/* ---- sums: against slow ones that cannot be wrong ---- */

Test(gateway_quotas, sums_end_at_the_largest)
{
    static const uint64_t some[] = { 0, 1, 2, 1u << 31, UINT64_MAX / 2, UINT64_MAX / 2 + 1, UINT64_MAX - 2, UINT64_MAX - 1, UINT64_MAX };
    for (size_t i = 0; i < sizeof some / sizeof *some; i++)
        for (size_t k = 0; k < sizeof some / sizeof *some; k++) {
            uint64_t half = some[i] / 2 + some[k] / 2, rest = some[i] % 2 + some[k] % 2; /* of the sum, which may need a bit more */
            uint64_t sum = half > (UINT64_MAX - 1 - rest) / 2 ? UINT64_MAX - 1 : half * 2 + rest;
            cr_expect(htc__quota_sum(some[i], some[k]) == sum, "%llu + %llu", (unsigned long long)some[i], (unsigned long long)some[k]);
        }
}

Test(gateway_quotas, core_hours_beyond_64_bits_stay_spent)
{
    user *u = htc__gw_user(r.gateway, "ann");
    submit_in("ann", NULL, SWEEP(8));
    u->core_ns = UINT64_MAX - 5;
    cr_expect(run_once(HOUR) == 4);
    cr_expect(u->core_ns == UINT64_MAX - 1);
    ok("{\"op\":\"quota\",\"name\":\"ann\",\"core_hours\":5e6}");
    cr_expect(try_submit("ann", NULL, SWEEP(1)) == 0);
}

/* Whatever happens, in any order: the audit counts all anew each time. */
Test(gateway_quotas, counts_are_those_of_the_jobs)
{
    htc_rng     rng = { .state = 11 };
    char        text[100];
    static const char *const names[] = { "ann", "bob" }, *const in[] = { "arc", "" };
    ok("{\"op\":\"project.add\",\"name\":\"arc\",\"add\":[\"ann\",\"bob\"]}");
    for (int i = 0; i < 400; i++) {
        uint64_t what = htc_rng_below(&rng, 9), id = 1 + htc_rng_below(&rng, 30);
        const char *name = names[htc_rng_below(&rng, 2)];
        snprintf(text, sizeof text, "{\"op\":\"quota\",\"name\":\"%s\",\"%s\":%llu}", name, htc_rng_below(&rng, 2) ? "processes" : "tasks", (unsigned long long)htc_rng_below(&rng, 12));
        if (what == 0)
            try_submit(name, in[htc_rng_below(&rng, 2)], SWEEP(7));
        else if (what == 1)
            (void)refusal(op, text);
        else if (what == 2) {
            snprintf(text, sizeof text, "{\"op\":\"quota\",\"project\":\"arc\",\"processes\":%llu}", (unsigned long long)htc_rng_below(&rng, 4));
            (void)refusal(op, text);
        } else if (what == 3 && htc_rng_below(&rng, 20) == 0)
            start_again();
        else if (what >= 4 && what <= 6) {
            static const char *const ops[] = { "retry", "hold", "release", "cancel" };
            snprintf(text, sizeof text, "{\"op\":\"%s\",\"id\":\"%llu\",\"failed\":true}", ops[htc_rng_below(&rng, 4)], (unsigned long long)id);
            (void)refusal(op, text);
        } else {
            htc_attempt at;
            let_register();
            for (uint32_t k = 0; k < n_agents; k++)
                if (agents[k].id && pull(&agents[k], &at) == HTC_GRANT_TASKS) {
                    rig_pass(&r, 20 * HTC_MS);
                    report_after(&agents[k], &at, htc_rng_below(&rng, 3) ? HTC_OK : HTC_EINPUT, HTC_MS, "");
                }
        }
        rig_pass(&r, 300 * HTC_MS);
        adds_up();
    }
}
