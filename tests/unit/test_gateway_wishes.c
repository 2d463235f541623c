/* What a submission may ask for beside limits, over a gateway in virtual time: a time to begin, an array's numbers, a signal; and that a kill at
 * any moment forgets none of it. */
#include "gateway_hand.h"

#include "kvs/cell/cell.h"
#include "roles/gateway/gateway.h"

TestSuite(gateway_wishes, .init = begin, .fini = end);

/* more: members of the request, or "". */
static json_t *submit_with(uint32_t p, const char *jsdl, const char *more)
{
    json_t *rq = json_pack("{s:s,s:s}", "op", "submit", "jsdl", jsdl), *add = json_loads(more[0] ? more : "{}", 0, NULL);
    cr_assert(add != NULL, "%s", more);
    json_object_update(rq, add);
    char   *text = json_dumps(rq, 0);
    json_t *answer = rig_ask(&r, p, text);
    free(text);
    json_decref(rq);
    json_decref(add);
    return answer;
}

static uint64_t submitted(uint32_t p, const char *jsdl, const char *more)
{
    json_t  *answer = submit_with(p, jsdl, more);
    uint64_t id = (uint64_t)json_integer_value(json_object_get(answer, "id"));
    cr_assert(id != 0, "%s: %s", more, json_string_value(json_object_get(answer, "message")));
    json_decref(answer);
    return id;
}

static const char *refused(uint32_t p, const char *jsdl, const char *more)
{
    static char name[64];
    json_t     *answer = submit_with(p, jsdl, more);
    const char *e = json_string_value(json_object_get(answer, "error"));
    snprintf(name, sizeof name, "%s", e ? e : "");
    json_decref(answer);
    return name;
}

/* A member of a job's object, as JSON. */
static const char *member(uint32_t p, uint64_t id, const char *name)
{
    static char text[2048];
    json_t     *j = job_of(p, id);
    char       *made = json_dumps(json_object_get(j, name), JSON_ENCODE_ANY);
    snprintf(text, sizeof text, "%s", made ? made : "");
    free(made);
    json_decref(j);
    return text;
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

/* ---- a time to begin ---- */

static void until(htc_ns wall)
{
    rig_pass(&r, wall - r.wall);
}

Test(gateway_wishes, a_job_does_not_begin_before_its_time)
{
    uint32_t p = operator_peer();
    htc_ns   begin_at = r.wall + 3600 * HTC_SECOND;
    char     more[96];
    snprintf(more, sizeof more, "{\"begin\":%.3f}", (double)begin_at / 1e9);
    uint64_t id = submitted(p, SWEEP(2), more);
    cr_expect(strcmp(member(p, id, "state"), "\"waiting\"") == 0);
    cr_expect(strtod(member(p, id, "begin"), NULL) == (double)begin_at / 1e9);
    cr_expect(says(p, "{\"op\":\"why\",\"id\":\"1\"}", "why", "1 h 0 min"));
    cr_expect(says(p, "{\"op\":\"why\",\"id\":\"1.1\"}", "code", "Begin"));
    cr_expect(says(p, "{\"op\":\"why\"}", "code", "Begin"));
    until(begin_at - HTC_SECOND);
    cr_expect(eq(sz, r.n_launched, 0), "an agent was launched for a job that may not begin");
    rig_kill(&r); /* the next gateway knows it */
    rig_start(&r);
    p = operator_peer();
    rig_pass(&r, HTC_SECOND);
    cr_expect(r.n_launched > 0);
    htc_attempt at;
    hand        h = hello(r.launched[0].agent);
    cr_expect(eq(u32, pull(&h, &at), HTC_GRANT_TASKS));
    cr_expect(strcmp(member(p, id, "state"), "\"running\"") == 0);
}

Test(gateway_wishes, a_restart_in_front_of_its_time_waits_on)
{
    uint32_t p = operator_peer();
    htc_ns   begin_at = r.wall + 600 * HTC_SECOND;
    char     more[96];
    snprintf(more, sizeof more, "{\"begin\":%.3f}", (double)begin_at / 1e9);
    uint64_t id = submitted(p, SWEEP(2), more);
    rig_kill(&r);
    rig_start(&r);
    p = operator_peer();
    cr_expect(strcmp(member(p, id, "state"), "\"waiting\"") == 0);
    until(begin_at - HTC_SECOND);
    cr_expect(eq(sz, r.n_launched, 0));
    r.wall += 7200 * HTC_SECOND; /* the clock is set: it is found out within a minute */
    rig_pass(&r, 61 * HTC_SECOND);
    cr_expect(r.n_launched > 0);
    cr_expect(eq(str, (char *)refusal(p, "{\"op\":\"cancel\",\"id\":1}"), ""));
}

Test(gateway_wishes, a_job_that_waits_for_its_time_can_be_cancelled)
{
    uint32_t p = operator_peer();
    char     more[96];
    snprintf(more, sizeof more, "{\"begin\":%.3f}", (double)(r.wall + 600 * HTC_SECOND) / 1e9);
    uint64_t id = submitted(p, SWEEP(2), more);
    cr_expect(eq(str, (char *)refusal(p, "{\"op\":\"cancel\",\"id\":1}"), ""));
    cr_expect(strcmp(member(p, id, "state"), "\"cancelled\"") == 0);
    rig_pass(&r, 700 * HTC_SECOND);
    cr_expect(eq(sz, r.n_launched, 0));
}

Test(gateway_wishes, a_time_that_is_over_is_none)
{
    uint32_t p = operator_peer();
    uint64_t id = submitted(p, SWEEP(1), "{\"begin\":1000}");
    cr_expect(strcmp(member(p, id, "begin"), "null") == 0);
    cr_expect(eq(str, (char *)refused(p, SWEEP(1), "{\"begin\":-1}"), "HTC_EINVAL"));
    cr_expect(eq(str, (char *)refused(p, SWEEP(1), "{\"begin\":1e300}"), "HTC_EINVAL"));
}

/* ---- arrays ---- */

Test(gateway_wishes, an_array_is_kept_and_counts_how_many_run)
{
    uint32_t p = operator_peer();
    uint64_t id = submitted(p, SWEEP(6), "{\"array\":\"1-10:2,20%2\"}"), other = submitted(p, SWEEP(6), "{\"array\":\"1-3%2\",\"max_running\":5}");
    rig_kill(&r);
    rig_start(&r);
    p = operator_peer();
    cr_expect(strcmp(member(p, id, "array"), "\"1-10:2,20%2\"") == 0);
    cr_expect(strcmp(member(p, id, "max_running"), "2") == 0);
    cr_expect(strcmp(member(p, other, "max_running"), "5") == 0);
    cr_expect(eq(str, (char *)refused(p, SWEEP(6), "{\"array\":\"1-4\"}"), "HTC_EINVAL"));
    cr_expect(eq(str, (char *)refused(p, SWEEP(6), "{\"array\":\"1-6,2\"}"), "HTC_EUSAGE"));
    cr_expect(eq(str, (char *)refused(p, SWEEP(6), "{\"array\":7}"), "HTC_EINVAL"));
    char more[400] = "{\"array\":\"1-6";
    for (int i = 0; i < 290; i++)
        strcat(more, "0");
    strcat(more, "\"}");
    cr_expect(eq(str, (char *)refused(p, SWEEP(6), more), "HTC_ETOOBIG"));
    /* Two of four agents get a task, and it is told why no more do. */
    htc_attempt at;
    rig_pass(&r, HTC_SECOND);
    for (size_t i = 0, granted = 0; i < r.n_launched; i++) {
        hand h = hello(r.launched[i].agent);
        granted += pull(&h, &at) == HTC_GRANT_TASKS && at.job == id;
        cr_expect(granted <= 2);
    }
    cr_expect(says(p, "{\"op\":\"why\",\"id\":\"1\"}", "code", "MaxRunning"));
}

/* ---- a signal ---- */

Test(gateway_wishes, a_signal_goes_with_the_task)
{
    static htc_grant g;
    uint32_t         p = operator_peer();
    htc_attempt      at;
    uint64_t         id = submitted(p, SWEEP(1), "{\"signal\":\"USR2@90\",\"time_limit\":600}");
    cr_expect(eq(str, (char *)refused(p, SWEEP(1), "{\"signal\":\"NOSUCH@5\"}"), "HTC_EINVAL"));
    rig_kill(&r);
    rig_start(&r);
    p = operator_peer();
    cr_expect(strcmp(member(p, id, "signal"), "\"USR2@90\"") == 0);
    rig_pass(&r, HTC_SECOND);
    hand h = hello(r.launched[0].agent);
    cr_assert(eq(u32, pull(&h, &at), HTC_GRANT_TASKS));
    const rig_message *m = rig_newest(&r, h.peer, HTC_WIRE_GRANT);
    htc_reader         in = htc_reader_of((htc_bytes){ m->bytes, m->len });
    cr_assert(eq(int, htc_grant_read(&in, &g), HTC_OK));
    cr_expect(g.tasks[0].signal == 12 && g.tasks[0].signal_s == 90);
}

/* An agent of the version before would take the grant for a malformed message: it gets other tasks, and this one waits for an agent that can read it. */
Test(gateway_wishes, a_signal_waits_for_an_agent_that_knows_it)
{
    uint32_t    p = operator_peer();
    htc_attempt at;
    r.speaks = HTC_WIRE_VERSION_GANGS - 1;
    uint64_t id = submitted(p, SWEEP(1), "{\"signal\":\"USR2@90\",\"time_limit\":600}");
    rig_pass(&r, HTC_SECOND);
    hand old = hello(r.launched[0].agent);
    cr_expect(eq(u32, pull(&old, &at), HTC_GRANT_WAIT));
    cr_expect(says(p, "{\"op\":\"why\",\"id\":1}", "code", "AgentVersion"));
    cr_expect(says(p, "{\"op\":\"why\",\"id\":\"1.0\"}", "why", "--signal"));
    uint64_t plain = submitted(p, SWEEP(1), "");
    rig_pass(&r, HTC_SECOND);
    cr_assert(eq(u32, pull(&old, &at), HTC_GRANT_TASKS));
    cr_expect(eq(u64, at.job, plain), "it is passed by what that agent can read");
    r.speaks = 0;
    ten_seconds();
    cr_assert(eq(int, report(&old, &at, HTC_OK), HTC_OK));
    cr_expect(eq(u32, pull(&old, &at), HTC_GRANT_WAIT));
    cr_expect(eq(sz, r.n_launched, 2), "for both jobs, before");
    hand now = hello(r.launched[1].agent);
    cr_assert(eq(u32, pull(&now, &at), HTC_GRANT_TASKS));
    cr_expect(eq(u64, at.job, id));
    cr_expect(eq(u32, pull(&old, &at), HTC_GRANT_EXIT));
}

/* An agent of the version before does not stay for ever: who comes next may be of this one. Nor are agents begun and ended all the time. */
Test(gateway_wishes, an_agent_of_an_earlier_version_leaves_in_time)
{
    uint32_t    p = operator_peer();
    htc_attempt at;
    r.speaks = HTC_WIRE_VERSION_GANGS - 1;
    submitted(p, SWEEP(1), "{\"signal\":\"USR2@90\",\"time_limit\":600}");
    rig_pass(&r, HTC_SECOND);
    hand old = hello(r.launched[0].agent);
    for (int i = 0; i < 6; i++, rig_pass(&r, 10 * HTC_SECOND))
        cr_assert(eq(u32, pull(&old, &at), HTC_GRANT_WAIT));
    cr_expect(eq(sz, r.n_launched, 1));
    cr_expect(eq(u32, pull(&old, &at), HTC_GRANT_EXIT));
}

/* ---- users and passwords ---- */

#define NETRC "machine data.example login ada password s3cret-word\\n"
#define NETRC_TEXT "machine data.example login ada password s3cret-word\n"
#define STAGED(source)                                                                                                                                     \
    "<JobDefinition xmlns=\"http://schemas.ggf.org/jsdl/2005/11/jsdl\"><JobDescription><Application><POSIXApplication "                                 \
    "xmlns=\"http://schemas.ggf.org/jsdl/2005/11/jsdl-posix\"><Executable>/bin/true</Executable></POSIXApplication></Application><DataStaging>"        \
    "<FileName>in</FileName><CreationFlag>overwrite</CreationFlag><Source><URI>" source "</URI></Source></DataStaging></JobDescription></JobDefinition>"

/* What the next task of a new agent is handed: a copy, or "". */
static const char *handed(void)
{
    static htc_grant g;
    static char      text[4200];
    htc_attempt      at;
    htc_task        *t = NULL;
    rig_pass(&r, HTC_SECOND);
    cr_assert(r.n_launched > 0);
    hand h = hello(r.launched[r.n_launched - 1].agent);
    cr_assert(eq(u32, pull(&h, &at), HTC_GRANT_TASKS));
    const rig_message *m = rig_newest(&r, h.peer, HTC_WIRE_GRANT);
    htc_reader         in = htc_reader_of((htc_bytes){ m->bytes, m->len });
    cr_assert(eq(int, htc_grant_read(&in, &g), HTC_OK));
    cr_assert(eq(int, htc_task_from_bytes(NULL, g.tasks[0].task, &t), HTC_OK));
    snprintf(text, sizeof text, "%s", t->credentials ? t->credentials : "");
    htc_task_destroy(t);
    return text;
}

static key wanted_key;

static int is_named(void *ctx, htc_bytes k, htc_bytes value)
{
    htc__kv_cell cell;
    htc_bytes    payload;
    if (k.len >= wanted_key.len && memcmp((const char *)k.data + k.len - wanted_key.len, wanted_key.text, wanted_key.len) == 0 &&
        htc__kv_unseal(value, k, &payload) == HTC_OK && htc__kv_cell_read(payload, NULL, &cell) == HTC_OK && !cell.deleted)
        ++*(int *)ctx;
    return 1;
}

static int is_stored(uint64_t id)
{
    wanted_key = htc__gw_key_credentials(id);
    int n = 0;
    r.engine.ops->scan(r.engine.ctx, htc_bytes_of(NULL), is_named, &n);
    return n;
}

Test(gateway_wishes, credentials_go_with_the_attempt_and_nowhere_else)
{
    uint32_t p = operator_peer();
    uint64_t id = submitted(p, STAGED("http://data.example/x"), "{\"credentials\":\"" NETRC "\",\"key\":\"once\"}");
    cr_expect(is_stored(id));
    rig_kill(&r);
    rig_start(&r);
    p = operator_peer();
    cr_expect(eq(str, (char *)handed(), NETRC_TEXT));
    static const char *const asks[] = { "{\"op\":\"status\",\"id\":1}", "{\"op\":\"status\"}", "{\"op\":\"tasks\",\"id\":1}", "{\"op\":\"why\",\"id\":\"1\"}", "{\"op\":\"jsdl\",\"id\":1}" };
    for (size_t i = 0; i < sizeof asks / sizeof *asks; i++) {
        json_t *answer = rig_ask(&r, p, asks[i]);
        char   *text = json_dumps(answer, 0);
        cr_expect(strstr(text, "s3cret") == NULL, "%s: %s", asks[i], text);
        free(text);
        json_decref(answer);
    }
    cr_expect(eq(str, (char *)refusal(p, "{\"op\":\"cancel\",\"id\":1}"), ""));
}

Test(gateway_wishes, credentials_are_for_tasks_with_a_url_alone)
{
    uint32_t p = operator_peer();
    uint64_t id = submitted(p, STAGED("file:/etc/hostname"), "{\"credentials\":\"" NETRC "\"}");
    cr_expect(is_stored(id));
    cr_expect(eq(str, (char *)handed(), ""));
}

Test(gateway_wishes, a_copy_of_a_job_has_its_credentials_and_a_removed_one_leaves_none)
{
    uint32_t p = operator_peer();
    uint64_t id = submitted(p, STAGED("http://data.example/x"), "{\"credentials\":\"" NETRC "\",\"paused\":true}");
    json_t  *again = rig_ask(&r, p, "{\"op\":\"resubmit\",\"id\":1,\"key\":\"a\"}");
    uint64_t copy = (uint64_t)json_integer_value(json_object_get(again, "id"));
    json_decref(again);
    cr_assert(copy > id);
    cr_expect(is_stored(copy));
    cr_expect(eq(str, (char *)handed(), NETRC_TEXT));
    cr_expect(eq(str, (char *)refusal(p, "{\"op\":\"cancel\",\"id\":1}"), ""));
    rig_pass(&r, HTC_SECOND);
    cr_expect(is_stored(id), "a task of it may be tried again");
    cr_expect(eq(str, (char *)refusal(p, "{\"op\":\"rm\",\"id\":1}"), ""));
    rig_pass(&r, 10 * HTC_SECOND);
    cr_expect(!is_stored(id) && is_stored(copy));
}

Test(gateway_wishes, what_are_no_credentials_is_refused_without_being_told)
{
    uint32_t p = operator_peer();
    cr_expect(eq(str, (char *)refused(p, SWEEP(1), "{\"credentials\":7}"), "HTC_EINVAL"));
    cr_expect(eq(str, (char *)refused(p, SWEEP(1), "{\"credentials\":\"\"}"), "HTC_EINVAL"));
    json_t *answer = submit_with(p, SWEEP(1), "{\"credentials\":\"s3cret-word\"}");
    char   *text = json_dumps(answer, 0);
    cr_expect(strstr(text, "HTC_EINVAL") && !strstr(text, "s3cret"), "%s", text);
    free(text);
    json_decref(answer);
}

/* ---- higher limits of tasks that are tried again ---- */

static size_t greeted;

/* The next agent that was launched gets a task; what is asked of it. */
static hand next_task(htc_granted *g)
{
    static htc_grant all;
    htc_attempt      at;
    rig_pass(&r, HTC_SECOND);
    cr_assert(greeted < r.n_launched, "nobody gets an agent");
    hand h = hello(r.launched[greeted++].agent);
    cr_assert(eq(u32, pull(&h, &at), HTC_GRANT_TASKS));
    const rig_message *m = rig_newest(&r, h.peer, HTC_WIRE_GRANT);
    htc_reader         in = htc_reader_of((htc_bytes){ m->bytes, m->len });
    cr_assert(eq(int, htc_grant_read(&in, &all), HTC_OK));
    *g = all.tasks[0];
    return h;
}

static htc_limits limits_of(const htc_granted *g)
{
    htc_task *t = NULL;
    cr_assert(eq(int, htc_task_from_bytes(NULL, g->task, &t), HTC_OK));
    htc_limits l = t->limits;
    htc_task_destroy(t);
    return l;
}

static void ends(hand *h, const htc_granted *g, htc_status how)
{
    ten_seconds();
    cr_assert(eq(int, report(h, &g->attempt, how), HTC_OK));
    process_ended(h->id);
}

Test(gateway_wishes, a_retry_has_its_own_limits_and_keeps_them)
{
    htc_granted g;
    hand        h;
    greeted = 0;
    uint32_t p = operator_peer();
    uint64_t id = submitted(p, SWEEP(2), "{\"memory\":1048576,\"time_limit\":60,\"retries\":0}");
    for (int i = 0; i < 2; i++) {
        h = next_task(&g);
        cr_expect(limits_of(&g).memory == 1048576 && limits_of(&g).wall == 60 * HTC_SECOND);
        ends(&h, &g, HTC_EEXIT);
    }
    cr_expect(strcmp(member(p, id, "state"), "\"done_with_failures\"") == 0);
    cr_expect(eq(str, (char *)refusal(p, "{\"op\":\"retry\",\"id\":\"1.1\",\"time_limit\":-1}"), "HTC_EINVAL"));
    cr_expect(eq(str, (char *)refusal(p, "{\"op\":\"retry\",\"id\":\"1.1\",\"memory\":4194304}"), ""));
    rig_kill(&r); /* the next gateway knows it */
    rig_start(&r);
    p = operator_peer();
    cr_expect(strcmp(member(p, id, "raised"), "[{\"memory\": 4194304, \"time_limit\": 0.0}]") == 0, "%s", member(p, id, "raised"));
    h = next_task(&g);
    cr_expect(g.attempt.task == 1 && limits_of(&g).memory == 4194304 && limits_of(&g).wall == 60 * HTC_SECOND);
    ends(&h, &g, HTC_EEXIT);
    /* The other task, with another limit: the one of the first stays, also when it is tried again without any. */
    cr_expect(eq(str, (char *)refusal(p, "{\"op\":\"retry\",\"id\":\"1.0\",\"time_limit\":120}"), ""));
    h = next_task(&g);
    cr_expect(g.attempt.task == 0 && limits_of(&g).memory == 1048576 && limits_of(&g).wall == 120 * HTC_SECOND);
    ends(&h, &g, HTC_OK);
    cr_expect(eq(str, (char *)refusal(p, "{\"op\":\"retry\",\"id\":1,\"failed\":true}"), ""));
    h = next_task(&g);
    cr_expect(g.attempt.task == 1 && limits_of(&g).memory == 4194304);
    ends(&h, &g, HTC_OK);
    json_t *answer = rig_ask(&r, p, "{\"op\":\"tasks\",\"id\":1}"), *t = json_object_get(answer, "tasks");
    cr_expect(json_integer_value(json_object_get(json_array_get(t, 1), "memory")) == 4194304 && !json_object_get(json_array_get(t, 0), "memory"));
    cr_expect(json_number_value(json_object_get(json_array_get(t, 0), "time_limit")) == 120);
    json_decref(answer);
}

/* Its own tries do not change the limit that ended it: what does is said while it still waits. */
Test(gateway_wishes, why_says_what_helps_a_task_that_a_limit_has_ended_before_it_is_tried_again)
{
    static const struct {
        htc_status  how;
        const char *says;
    } cases[] = { { HTC_EOOM, "1 of 3 attempts used; with the same limit: once it has failed, htc retry 1 --failed --mem SIZE tries again with more" },
                  { HTC_EWALLTIME, "1 of 3 attempts used; with the same limit: once it has failed, htc retry 2 --failed --time TIME tries again with more" },
                  { HTC_EEXIT, "1 of 3 attempts used" } };
    uint32_t p = operator_peer();
    greeted = 0;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        htc_granted g;
        (void)submitted(p, SWEEP(1), "{\"memory\":1048576,\"time_limit\":60,\"retries\":2}");
        hand h = next_task(&g);
        ends(&h, &g, cases[i].how);
        json_t     *answer = rig_ask(&r, p, "{\"op\":\"why\",\"id\":\"last.0\"}");
        const char *why = json_string_value(json_object_get(answer, "why")), *code = json_string_value(json_object_get(answer, "code"));
        cr_assert(why && code && strcmp(code, "RetryWait") == 0, "%s: %s", code ? code : "", why ? why : "");
        cr_expect(strlen(why) > strlen(cases[i].says) && strcmp(why + strlen(why) - strlen(cases[i].says), cases[i].says) == 0, "%s", why);
        json_decref(answer);
        cr_expect(eq(str, (char *)refusal(p, "{\"op\":\"cancel\",\"id\":\"last\"}"), ""));
    }
}

Test(gateway_wishes, a_job_has_so_many_limits_and_no_more)
{
    htc_granted g;
    hand        h;
    char        text[128];
    greeted = 0;
    uint32_t p = operator_peer();
    (void)submitted(p, SWEEP(1), "{\"retries\":0}");
    for (int i = 0; i <= RAISED_MAX; i++) {
        h = next_task(&g);
        ends(&h, &g, HTC_EEXIT);
        snprintf(text, sizeof text, "{\"op\":\"retry\",\"id\":1,\"failed\":true,\"memory\":%d}", 1048576 * (i + 1));
        cr_expect(eq(str, (char *)refusal(p, text), i < RAISED_MAX ? "" : "HTC_EFULL"));
    }
    cr_expect(eq(str, (char *)refusal(p, "{\"op\":\"retry\",\"id\":1,\"failed\":true,\"memory\":1048576}"), ""), "one that it had is none more");
    cr_expect(eq(str, (char *)refusal(p, "{\"op\":\"cancel\",\"id\":1}"), ""));
}

Test(gateway_wishes, only_tasks_that_have_failed_are_given_up)
{
    htc_granted g;
    greeted = 0;
    uint32_t p = operator_peer();
    uint64_t id = submitted(p, SWEEP(4000), "{\"retries\":5}");
    hand     h = next_task(&g);
    ends(&h, &g, HTC_EEXIT);
    json_t *answer = rig_ask(&r, p, "{\"op\":\"cancel\",\"id\":1,\"failed\":true}");
    cr_expect(json_integer_value(json_object_get(answer, "cancelled")) == 1);
    json_decref(answer);
    cr_expect(count_of(p, id, "cancelled") == 1);
    cr_expect(count_of(p, id, "waiting") == 3999, "%s", member(p, id, "tasks"));
    cr_expect(strcmp(member(p, id, "state"), "\"running\"") == 0);
}

/* ---- a job anew ---- */

Test(gateway_wishes, a_job_is_submitted_anew_with_what_it_had)
{
    htc_granted g;
    hand        h;
    greeted = 0;
    uint32_t p = operator_peer();
    uint64_t first = submitted(p, SWEEP(3), "{\"name\":\"dock\",\"memory\":1048576,\"array\":\"7-9%1\",\"signal\":\"USR1@9\",\"priority\":3,\"output\":\"o%a\"}");
    for (int round = 0; round < 2; round++) {
        json_t  *answer = rig_ask(&r, p, "{\"op\":\"resubmit\",\"id\":1,\"key\":\"k1\",\"time_limit\":90}");
        uint64_t id = (uint64_t)json_integer_value(json_object_get(answer, "id"));
        cr_expect(id == first + 1 && json_integer_value(json_object_get(answer, "count")) == 3, "%s", json_string_value(json_object_get(answer, "message")));
        cr_expect(json_is_true(json_object_get(answer, "repeated")) == round, "its key makes it safe to repeat");
        json_decref(answer);
    }
    static const char *const same[] = { "name", "array", "signal", "priority", "output", "max_running", "count" };
    char                     value[300];
    for (size_t i = 0; i < sizeof same / sizeof same[0]; i++) {
        snprintf(value, sizeof value, "%s", member(p, first, same[i]));
        cr_expect(strcmp(value, member(p, 2, same[i])) == 0, "%s", same[i]);
    }
    cr_expect(eq(str, (char *)refusal(p, "{\"op\":\"cancel\",\"id\":1}"), ""));
    h = next_task(&g);
    cr_expect(g.attempt.job == 2 && limits_of(&g).memory == 1048576 && limits_of(&g).wall == 90 * HTC_SECOND);
    ends(&h, &g, HTC_OK);
    cr_expect(eq(str, (char *)refusal(p, "{\"op\":\"resubmit\",\"id\":\"1.1\"}"), "HTC_EINVAL"));
    cr_expect(eq(str, (char *)refusal(p, "{\"op\":\"resubmit\",\"id\":99}"), "HTC_ENOTFOUND"));
    cr_expect(eq(str, (char *)refusal(p, "{\"op\":\"rm\",\"id\":1}"), ""));
    cr_expect(eq(str, (char *)refusal(p, "{\"op\":\"resubmit\",\"id\":1}"), "HTC_ENOTFOUND"));
}

/* ---- filters ---- */

Test(gateway_wishes, patterns)
{
    static const char *const yes[][2] = { { "*", "" }, { "*", "abc" }, { "a*c", "abbbc" }, { "a?c", "abc" }, { "?", "\xc3\xb5" }, { "**a**", "bab" }, { "", "" }, { "a*b*c", "aXbYbZc" } };
    static const char *const no[][2] = { { "", "a" }, { "?", "" }, { "a", "ab" }, { "ab", "a" }, { "a*c", "ab" }, { "?", "ab" }, { "a*b*c", "acb" } };
    for (size_t i = 0; i < sizeof yes / sizeof yes[0]; i++)
        cr_expect(htc__glob(yes[i][0], yes[i][1]), "%s %s", yes[i][0], yes[i][1]);
    for (size_t i = 0; i < sizeof no / sizeof no[0]; i++)
        cr_expect(!htc__glob(no[i][0], no[i][1]), "%s %s", no[i][0], no[i][1]);
}

/* The numbers of the jobs that a list has, one after the other. */
static const char *listed(uint32_t p, const char *asked)
{
    static char text[256];
    size_t      n = 0, i;
    json_t     *answer = rig_ask(&r, p, asked), *j;
    text[0] = '\0';
    json_array_foreach(json_object_get(answer, "jobs"), i, j)
        n += (size_t)snprintf(text + n, sizeof text - n, "%lld ", json_integer_value(json_object_get(j, "id")));
    if (json_object_get(answer, "error"))
        snprintf(text, sizeof text, "%s", json_string_value(json_object_get(answer, "error")));
    json_decref(answer);
    return text;
}

Test(gateway_wishes, lists_are_filtered)
{
    uint32_t p = operator_peer();
    char     text[160];
    htc_ns   begin_at = r.wall;
    submitted(p, SWEEP(1), "{\"name\":\"dock-a\",\"paused\":true}");
    rig_pass(&r, 100 * HTC_SECOND);
    submitted(p, SWEEP(1), "{\"name\":\"dock-b\"}");
    rig_pass(&r, 100 * HTC_SECOND);
    submitted(p, SWEEP(1), "{\"name\":\"fold\"}");
    cr_expect(eq(str, (char *)refusal(p, "{\"op\":\"cancel\",\"id\":3}"), ""));
    cr_expect(eq(str, (char *)listed(p, "{\"op\":\"status\"}"), "3 2 1 "));
    cr_expect(eq(str, (char *)listed(p, "{\"op\":\"status\",\"name\":\"dock*\"}"), "2 1 "));
    cr_expect(eq(str, (char *)listed(p, "{\"op\":\"status\",\"id\":\"all\",\"state\":\"paused\"}"), "1 "));
    cr_expect(eq(str, (char *)listed(p, "{\"op\":\"status\",\"state\":\"cancelled\"}"), "3 "));
    cr_expect(eq(str, (char *)listed(p, "{\"op\":\"status\",\"state\":\"ended\"}"), "3 "));
    cr_expect(eq(str, (char *)listed(p, "{\"op\":\"status\",\"state\":\"open\"}"), "2 1 "));
    cr_expect(eq(str, (char *)listed(p, "{\"op\":\"status\",\"id\":\"last\",\"name\":\"dock*\"}"), "2 "));
    snprintf(text, sizeof text, "{\"op\":\"status\",\"since\":%.1f,\"until\":%.1f}", (double)begin_at / 1e9 + 50, (double)begin_at / 1e9 + 150);
    cr_expect(eq(str, (char *)listed(p, text), "2 "));
    cr_expect(eq(str, (char *)listed(p, "{\"op\":\"status\",\"id\":\"last\",\"name\":\"none\"}"), "HTC_ENOTFOUND"));
    cr_expect(eq(str, (char *)listed(p, "{\"op\":\"status\",\"id\":2,\"name\":\"dock*\"}"), "HTC_EINVAL"));
    cr_expect(eq(str, (char *)listed(p, "{\"op\":\"status\",\"state\":\"tired\"}"), "HTC_EINVAL"));
    cr_expect(eq(str, (char *)listed(p, "{\"op\":\"status\",\"since\":\"now\"}"), "HTC_EINVAL"));
    cr_expect(eq(str, (char *)refusal(p, "{\"op\":\"cancel\",\"id\":\"all\",\"name\":\"dock-?\"}"), ""));
    cr_expect(eq(str, (char *)listed(p, "{\"op\":\"status\",\"state\":\"open\"}"), ""));
}

/* ---- what runs at a job's end ---- */

/* The value of a variable of a task. */
static const char *variable(const htc_granted *g, const char *name)
{
    static char text[256];
    htc_task   *t = NULL;
    size_t      n = strlen(name);
    text[0] = '\0';
    cr_assert(eq(int, htc_task_from_bytes(NULL, g->task, &t), HTC_OK));
    for (size_t i = 0; i < t->n_env; i++)
        if (strncmp(t->env[i], name, n) == 0 && t->env[i][n] == '=')
            snprintf(text, sizeof text, "%s", t->env[i] + n + 1);
    htc_task_destroy(t);
    return text;
}

static json_t *submit_with_end(uint32_t p, const char *more)
{
    json_t *add = json_loads(more, 0, NULL);
    json_object_set_new(add, "on_end", json_string(SWEEP(1)));
    char   *text = json_dumps(add, 0);
    json_t *answer = submit_with(p, SWEEP(2), text);
    free(text);
    json_decref(add);
    return answer;
}

Test(gateway_wishes, what_runs_at_a_jobs_end_is_told_how_it_ended)
{
    htc_granted g;
    hand        h;
    greeted = 0;
    uint32_t p = operator_peer();
    json_decref(submit_with_end(p, "{\"name\":\"dock\",\"retries\":0}"));
    cr_expect(strcmp(member(p, 1, "on_end"), "2") == 0 && strcmp(member(p, 2, "state"), "\"waiting\"") == 0);
    cr_expect(says(p, "{\"op\":\"why\",\"id\":2}", "why", "it waits for job 1 to end"));
    h = next_task(&g);
    ends(&h, &g, HTC_OK);
    h = next_task(&g);
    cr_expect(eq(str, (char *)variable(&g, "HTC_JOB_STATE"), ""), "only what runs at the end is told");
    ends(&h, &g, HTC_EEXIT);
    rig_kill(&r);
    rig_start(&r);
    p = operator_peer();
    h = next_task(&g);
    cr_expect(g.attempt.job == 2);
    cr_expect(eq(str, (char *)variable(&g, "HTC_JOB_ID"), "1"));
    cr_expect(eq(str, (char *)variable(&g, "HTC_JOB_STATE"), "done_with_failures"));
    cr_expect(eq(str, (char *)variable(&g, "HTC_JOB_NAME"), "dock"));
    cr_expect(eq(str, (char *)variable(&g, "HTC_JOB_DONE"), "1"));
    cr_expect(eq(str, (char *)variable(&g, "HTC_JOB_FAILED"), "1"));
    cr_expect(eq(str, (char *)variable(&g, "HTC_JOB_TASKS"), "2"));
    ends(&h, &g, HTC_EEXIT); /* it is not tried again, nor when the job is */
    cr_expect(strcmp(member(p, 2, "state"), "\"done_with_failures\"") == 0);
    cr_expect(eq(str, (char *)refusal(p, "{\"op\":\"retry\",\"id\":1,\"failed\":true}"), ""));
    h = next_task(&g);
    cr_expect(g.attempt.job == 1);
    ends(&h, &g, HTC_OK);
    rig_pass(&r, 10 * HTC_SECOND);
    cr_expect(eq(sz, r.n_launched, greeted));
}

Test(gateway_wishes, it_runs_also_when_the_job_is_cancelled_and_not_when_it_is_itself)
{
    htc_granted g;
    hand        h;
    greeted = 0;
    uint32_t p = operator_peer();
    json_decref(submit_with_end(p, "{\"paused\":true}"));
    json_decref(submit_with_end(p, "{\"paused\":true}"));
    cr_expect(eq(str, (char *)refusal(p, "{\"op\":\"cancel\",\"id\":1}"), ""));
    cr_expect(eq(str, (char *)refusal(p, "{\"op\":\"cancel\",\"id\":4}"), ""));
    cr_expect(eq(str, (char *)refusal(p, "{\"op\":\"cancel\",\"id\":3}"), ""));
    h = next_task(&g);
    cr_expect(g.attempt.job == 2);
    cr_expect(eq(str, (char *)variable(&g, "HTC_JOB_STATE"), "cancelled"));
    ends(&h, &g, HTC_OK);
    rig_pass(&r, 10 * HTC_SECOND);
    cr_expect(eq(sz, r.n_launched, greeted));
    cr_expect(eq(str, (char *)refused(p, SWEEP(2), "{\"on_end\":7}"), "HTC_EINVAL"));
    cr_expect(eq(str, (char *)refused(p, SWEEP(2), "{\"on_end\":\"<x/>\"}"), "HTC_ESCHEMA"));
    cr_expect(eq(str, (char *)refused(p, SWEEP(1), "{\"after\":[{\"id\":1,\"when\":\"end\"}]}"), "HTC_EINVAL"), "no request has that rule");
}

/* Killed after each message of the submission: both jobs are there, or the one that was to run at the end never runs. */
Test(gateway_wishes, it_runs_once_wherever_the_gateway_was_killed)
{
    int killed_between = 0;
    for (int posts = 1; posts < 40; posts++) {
        htc_granted g;
        hand        h;
        int         runs = 0, there, done = 0;
        rig_end(&r);
        begin();
        greeted = 0;
        uint32_t p = operator_peer();
        r.busy = 1;
        json_decref(submit_with_end(p, "{\"key\":\"k\"}"));
        for (int i = 0; i < posts && r.posts; i++)
            take_post();
        done = r.posts == NULL;
        r.busy = 0;
        kill_now();
        p = operator_peer();
        json_t *j = job_of(p, 1);
        there = j != NULL;
        json_decref(j);
        j = job_of(p, 2);
        killed_between += j && !there;
        json_decref(j);
        for (int i = 0; i < (there ? 2 : 0); i++) {
            for (int wait = 0; wait < 60 && greeted == r.n_launched; wait++)
                rig_pass(&r, HTC_SECOND);
            h = next_task(&g);
            cr_expect(g.attempt.job == 1);
            ends(&h, &g, HTC_OK);
        }
        rig_pass(&r, 10 * HTC_SECOND);
        while (greeted < r.n_launched) {
            h = next_task(&g);
            cr_expect(g.attempt.job == 2);
            runs++;
            ends(&h, &g, HTC_OK);
        }
        cr_expect(runs == there, "%d messages: the job is %s, and its end ran %d times", posts, there ? "there" : "not there", runs);
        if (done)
            break;
    }
    cr_expect(killed_between > 0, "it was never killed between the two");
}

/* ---- mail ---- */

static void with_mail(htc_gateway_options *o)
{
    o->mail = 1;
}

static uint32_t restart_with_mail(void)
{
    r.change = with_mail;
    greeted = 0;
    rig_kill(&r);
    rig_start(&r);
    return operator_peer();
}

static void run_all(int tasks, htc_status how)
{
    for (int i = 0; i < tasks; i++) {
        htc_granted g;
        hand        h = next_task(&g);
        ends(&h, &g, how);
    }
    rig_pass(&r, HTC_SECOND);
}

Test(gateway_wishes, mail_is_sent_when_a_job_has_ended)
{
    uint32_t p = restart_with_mail();
    submitted(p, SWEEP(2), "{\"mail_to\":\"ada@example.org,ben\",\"name\":\"two\\nlines\"}");
    run_all(1, HTC_OK);
    cr_expect(eq(u32, r.mails, 0));
    run_all(1, HTC_OK);
    cr_expect(eq(u32, r.mails, 1));
    cr_expect(eq(str, r.mail_to, "ada@example.org,ben"));
    cr_expect(eq(str, r.mail_subject, "htc: job 1 has ended: done (2 done, 0 failed, 0 cancelled)"));
    cr_expect(strstr(r.mail_text, "Job 1 (two lines) of olga has ended: done.") != NULL, "%s", r.mail_text);
    rig_kill(&r);
    rig_start(&r);
    rig_pass(&r, 1000 * HTC_SECOND);
    cr_expect(eq(u32, r.mails, 1), "once");
}

Test(gateway_wishes, mail_about_failures_alone)
{
    uint32_t p = restart_with_mail();
    submitted(p, SWEEP(1), "{\"mail_to\":\"ada\",\"mail_on\":\"fail\",\"retries\":0}");
    run_all(1, HTC_OK);
    cr_expect(eq(u32, r.mails, 0));
    submitted(p, SWEEP(1), "{\"mail_to\":\"ada\",\"mail_on\":\"fail\",\"retries\":0}");
    run_all(1, HTC_EEXIT);
    cr_expect(eq(u32, r.mails, 1));
    submitted(p, SWEEP(1), "{\"mail_to\":\"ada\",\"mail_on\":\"none\"}");
    run_all(1, HTC_OK);
    cr_expect(eq(u32, r.mails, 1));
}

Test(gateway_wishes, mail_that_fails_is_tried_again_and_given_up)
{
    uint32_t p = restart_with_mail();
    r.mail_status = HTC_EREFUSED;
    submitted(p, SWEEP(1), "{\"mail_to\":\"ada\"}");
    run_all(1, HTC_OK);
    cr_expect(eq(u32, r.mails, 1));
    rig_pass(&r, 50 * HTC_SECOND);
    cr_expect(eq(u32, r.mails, 1));
    rig_pass(&r, 20 * HTC_SECOND);
    cr_expect(eq(u32, r.mails, 2));
    rig_kill(&r); /* the next gateway finds that it was not sent */
    r.mail_status = HTC_OK;
    rig_start(&r);
    rig_pass(&r, HTC_SECOND);
    cr_expect(eq(u32, r.mails, 3));
    r.mail_status = HTC_EREFUSED;
    p = operator_peer();
    submitted(p, SWEEP(1), "{\"mail_to\":\"ada\"}");
    run_all(1, HTC_OK);
    rig_pass(&r, 100000 * HTC_SECOND);
    cr_expect(eq(u32, r.mails, 8), "five times");
    rig_kill(&r);
    rig_start(&r);
    rig_pass(&r, 1000 * HTC_SECOND);
    cr_expect(eq(u32, r.mails, 8));
}

Test(gateway_wishes, addresses)
{
    static const char *const good[] = { "ada", "ada@example.org", "a.b+c@x-y.org,ben", "a,b,c,d,e,f,g,h" };
    static const char *const bad[] = { "", "-oQ/tmp", "a b", "a@b\nBcc: c", "a@b\r", "a@", "@b", "a,,b", "a,", "a@-b", "a,-b", "<a@b>", "a;b", "a|b", "a@b@c", "a\xc3\xb5@b",
                                       "a,b,c,d,e,f,g,h,i", "|sh", "a@.b" };
    for (size_t i = 0; i < sizeof good / sizeof good[0]; i++)
        cr_expect(htc__mail_to_is_fine(good[i]), "%s", good[i]);
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
        cr_expect(!htc__mail_to_is_fine(bad[i]), "%s", bad[i]);
    uint32_t p = operator_peer();
    cr_expect(eq(str, (char *)refused(p, SWEEP(1), "{\"mail_to\":\"ada\"}"), "HTC_EUNSUPPORTED"));
    submitted(p, SWEEP(1), "{\"mail_to\":\"ada\",\"mail_if_possible\":true}");
    p = restart_with_mail();
    cr_expect(eq(str, (char *)refused(p, SWEEP(1), "{\"mail_to\":\"ada\\nBcc: ben\"}"), "HTC_EINVAL"));
    cr_expect(eq(str, (char *)refused(p, SWEEP(1), "{\"mail_to\":\"ada\",\"mail_on\":\"birth\"}"), "HTC_EINVAL"));
}

/* ---- the record ---- */

Test(gateway_wishes, records_with_and_without_wishes_are_read)
{
    htc_buf b, again;
    user    u = { .name = "olga" };
    job     j = { .id = 9, .user = &u, .count = 6, .name = "dock" }, k = { 0 };
    char    name[NAME_MAX_BYTES];
    htc_buf_init(&b, NULL, 0);
    htc_buf_init(&again, NULL, 0);
    htc__gw_record_job_write(&b, &j);
    cr_assert(b.data[0] == 3, "one without wishes is as it always was");
    strcpy(j.wishes.array, "1-3");
    j.wishes.begin = 77;
    strcpy(j.wishes.signal, "USR1@5");
    j.wishes.n_raised = 2;
    j.wishes.raised[0].memory = 99;
    j.wishes.raised[1].time_limit_s = 1.5;
    j.wishes.end_job = 10;
    j.wishes.end = (end_counts){ 1, 2, 3, 4, "dock" };
    strcpy(j.wishes.mail_to, "ada@b");
    j.wishes.mail_fail = 1;
    htc__gw_record_job_write(&b, &j);
    cr_assert(eq(int, htc__gw_record_job_read(htc_buf_bytes(&b), &k, name), HTC_OK));
    cr_expect(k.wishes.n_raised == 2 && k.wishes.raised[0].memory == 99 && k.wishes.raised[1].time_limit_s == 1.5);
    cr_expect(strcmp(k.wishes.array, "1-3") == 0 && k.wishes.begin == 77 && strcmp(k.wishes.signal, "USR1@5") == 0 && k.n_edges == 0);
    /* Each byte less, and each byte of the wishes otherwise, is refused or another record that would be written like that. */
    size_t wishes_at = b.len - (1 + 1 + 4 + 1 + 8 + 1 + 7 + 1 + 1 + 9 + 9 + 1 + 8 + 1 + 3 + 5 + 1 + 6 + 1);
    for (size_t n = 0; n < b.len; n++) {
        memset(&k, 0, sizeof k);
        cr_expect(htc__gw_record_job_read((htc_bytes){ b.data, n }, &k, name) == HTC_ECORRUPT);
    }
    for (size_t at = wishes_at; at < b.len; at++)
        for (int bit = 0; bit < 8; bit++) {
            memset(&k, 0, sizeof k);
            b.data[at] ^= (uint8_t)(1 << bit);
            if (htc__gw_record_job_read(htc_buf_bytes(&b), &k, name) == HTC_OK) {
                k.user = &u;
                htc__gw_record_job_write(&again, &k);
                cr_expect(htc_bytes_equal(htc_buf_bytes(&again), htc_buf_bytes(&b)), "byte %zu bit %d", at, bit);
            }
            b.data[at] ^= (uint8_t)(1 << bit);
        }
    htc_buf_free(&b);
    htc_buf_free(&again);
}

/* ---- in the document ---- */

static char *with_submission(const char *document, const char *inside)
{
    const char *end = strstr(document, "</jsdl:JobDescription>");
    cr_assert(end != NULL, "%s", document);
    size_t size = strlen(document) + strlen(inside) + 100;
    char  *text = malloc(size);
    snprintf(text, size, "%.*s<h:Submission xmlns:h='urn:htcsched:jsdl'>%s</h:Submission>%s", (int)(end - document), document, inside, end);
    return text;
}

Test(gateway_wishes, what_the_request_does_not_say_is_taken_from_the_document)
{
    uint32_t p = operator_peer();
    cr_assert(eq(u64, submitted(p, SWEEP(1), "{}"), 1));
    char    *document = with_submission(SWEEP(6), "<h:Array>1-6%2</h:Array><h:Priority>-7</h:Priority><h:MaxRunning>3</h:MaxRunning><h:Signal>USR1@60</h:Signal>"
                                                  "<h:Hold>true</h:Hold><h:After when='any'>1</h:After><h:Output>out-%a</h:Output>");
    uint64_t as_written = submitted(p, document, "{\"key\":\"a\"}");
    uint64_t against = submitted(p, document, "{\"priority\":9,\"max_running\":5,\"paused\":false,\"after\":[],\"output\":\"mine-%a\"}");
    rig_kill(&r);
    rig_start(&r);
    p = operator_peer();
    static const struct {
        const char *name, *written, *asked;
    } rows[] = { { "array", "\"1-6%2\"", "\"1-6%2\"" }, { "priority", "-7", "9" }, { "max_running", "3", "5" }, { "signal", "\"USR1@60\"", "\"USR1@60\"" },
                 { "state", "\"paused\"", "\"queued\"" }, { "output", "\"out-%a\"", "\"mine-%a\"" } };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        cr_expect(eq(str, (char *)member(p, as_written, rows[i].name), (char *)rows[i].written), "%s", rows[i].name);
        cr_expect(eq(str, (char *)member(p, against, rows[i].name), (char *)rows[i].asked), "%s", rows[i].name);
    }
    cr_expect(strstr(member(p, as_written, "after"), "\"any\"") != NULL);
    cr_expect(strstr(member(p, against, "after"), "\"any\"") == NULL);
    /* The same request again is the same job: what the document adds is no part of it. */
    json_t *again = submit_with(p, document, "{\"key\":\"a\"}");
    cr_expect(json_is_true(json_object_get(again, "repeated")) && (uint64_t)json_integer_value(json_object_get(again, "id")) == as_written);
    json_decref(again);
    free(document);
}

Test(gateway_wishes, what_the_document_asks_for_is_checked_as_what_the_request_does)
{
    static const struct {
        const char *inside, *error;
    } rows[] = { { "<h:Priority>1001</h:Priority>", "HTC_EINVAL" }, { "<h:Array>1-4</h:Array>", "HTC_EINVAL" }, { "<h:After>77</h:After>", "HTC_ENOTFOUND" },
                 { "<h:Retries>99999999999999999999</h:Retries>", "HTC_EINVAL" }, { "<h:OnEnd>&lt;x/&gt;</h:OnEnd>", "HTC_ESCHEMA" } };
    uint32_t p = operator_peer();
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        char *document = with_submission(SWEEP(6), rows[i].inside);
        cr_expect(eq(str, (char *)refused(p, document, "{}"), (char *)rows[i].error), "%s", rows[i].inside);
        free(document);
    }
    char   *end = with_submission(SWEEP(1), "<h:Retries>1</h:Retries>");
    json_t *more = json_pack("{s:s}", "on_end", end);
    char   *text = json_dumps(more, 0);
    cr_expect(eq(str, (char *)refused(p, SWEEP(6), text), "HTC_EUNSUPPORTED"));
    free(text);
    json_decref(more);
    free(end);
}
