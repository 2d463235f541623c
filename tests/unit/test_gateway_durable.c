/* What outlives a kill of the gateway at any moment: what was used, what is to be removed, which job a key has
 * made, and which uploads are needed. */
#include "gateway_bad_engine.h"
#include "kvs/cell/cell.h"

TestSuite(gateway_durable, .init = begin, .fini = end);

/* What olga is told of her core seconds and done tasks. */
static void used(double *core_s, long *done)
{
    json_t *users = rig_ask(&r, operator_peer(), "{\"op\":\"users\"}"), *olga = json_array_get(json_object_get(users, "users"), 0);
    *core_s = json_number_value(json_object_get(olga, "core_s"));
    *done = (long)json_integer_value(json_object_get(olga, "tasks_done"));
    json_decref(users);
}

/* Three results of 10 s, one of them a failure, and one attempt that is lost. */
static void run_three(uint32_t p)
{
    htc_attempt at;
    submit(p, "olga", SWEEP(3));
    rig_pass(&r, 100 * HTC_MS);
    hand h = hello(r.launched[r.n_launched - 1].agent), lost = hello(r.launched[r.n_launched - 2].agent);
    cr_assert(eq(u32, pull(&lost, &at), HTC_GRANT_TASKS));
    process_ended(lost.id);
    for (int i = 0; i < 3; i++) {
        cr_assert(eq(u32, pull(&h, &at), HTC_GRANT_TASKS));
        ten_seconds();
        cr_assert(eq(int, report(&h, &at, i == 1 ? HTC_ENOEXEC : HTC_OK), HTC_OK));
    }
    process_ended(h.id);
}

/* The sum is written with the results that it counts: not a tick later. */
Test(gateway_durable, counts_usage_with_the_result)
{
    double core_s;
    long   done;
    run_three(operator_peer());
    kill_now();
    used(&core_s, &done);
    cr_expect(eq(dbl, core_s, 30.0));
    cr_expect(eq(long, done, 2));
    json_t *j = job_of(operator_peer(), 1);
    cr_expect(eq(long, (long)json_integer_value(json_object_get(j, "attempts")), 4));
    cr_expect(eq(long, (long)json_integer_value(json_object_get(j, "lost")), 1));
    json_decref(j);
}

static int is_of_job(void *ctx, htc_bytes key, htc_bytes value)
{
    const char  *k = key.data;
    htc__kv_cell cell;
    htc_bytes    payload;
    if (key.len > 3 && k[0] == 'k' && k[2] == '/' && strchr("crsodjbn", k[1]) &&
        htc__kv_unseal(value, key, &payload) == HTC_OK && htc__kv_cell_read(payload, NULL, &cell) == HTC_OK && !cell.deleted)
        ++*(size_t *)ctx;
    return 1;
}

static size_t keys_of_jobs(void)
{
    size_t n = 0;
    r.engine.ops->scan(r.engine.ctx, htc_bytes_of(NULL), is_of_job, &n);
    return n;
}

/* A removal is interrupted after each of the messages that it takes. The record of it is what counts: without it the job is as
 * it was, with it the next gateway removes what is left; the user's sums are the same at every moment. */
Test(gateway_durable, goes_on_with_a_removal_wherever_it_was_killed)
{
    double core_s;
    long   done;
    int    interrupted = 1, resumed = 0;
    outputs_left = 1;
    for (int n = 0; interrupted; n++) {
        if (n) {
            rig_end(&r);
            rig_begin(&r);
        }
        uint32_t p = operator_peer();
        run_three(p);
        r.busy = 1;
        json_decref(rig_ask(&r, p, "{\"op\":\"rm\",\"id\":1}"));
        for (int i = 0; i < n && r.posts; i++)
            take_post();
        interrupted = r.posts != NULL;
        r.busy = 0;
        int answered = rig_newest(&r, p, HTC_WIRE_USER_ANSWER) && memmem(rig_newest(&r, p, HTC_WIRE_USER_ANSWER)->bytes,
                                                                        rig_newest(&r, p, HTC_WIRE_USER_ANSWER)->len, "\"removed\":1", 11);
        kill_now();
        rig_pass(&r, HTC_SECOND);
        int there = strcmp(refusal(operator_peer(), "{\"op\":\"status\",\"id\":1}"), "") == 0;
        cr_expect(there || keys_of_jobs() == 0, "after %d messages: %zu keys are left", n, keys_of_jobs());
        cr_expect(!there || !answered, "after %d messages: it was removed and is back", n);
        cr_expect(there == 0 || keys_of_jobs() > 4, "after %d messages: the job is only half there", n);
        used(&core_s, &done);
        cr_expect(eq(dbl, core_s, 30.0), "after %d messages", n);
        cr_expect(eq(long, done, 2), "after %d messages", n);
        resumed += interrupted && !there;
    }
    cr_expect(resumed >= 8, "only %d interrupted removals were gone on with", resumed);
}

/* The sums of several jobs are added to one record; a password that is changed meanwhile is not lost, and nor are they. */
Test(gateway_durable, adds_up_removed_jobs_beside_a_change_of_the_user)
{
    uint32_t p = operator_peer(), other = operator_peer();
    double   core_s;
    long     done;
    run_three(p);
    run_three(p);
    r.busy = 1;
    json_decref(rig_ask(&r, p, "{\"op\":\"rm\",\"id\":\"all\"}"));
    json_decref(rig_ask(&r, other, "{\"op\":\"user.set\",\"name\":\"olga\",\"weight\":5}"));
    r.busy = 0;
    rig_run(&r);
    rig_pass(&r, HTC_SECOND);
    cr_expect(eq(sz, keys_of_jobs(), 0));
    for (int i = 0; i < 2; i++) {
        used(&core_s, &done);
        cr_expect(eq(dbl, core_s, 60.0));
        cr_expect(eq(long, done, 4));
        json_t *users = rig_ask(&r, operator_peer(), "{\"op\":\"users\"}");
        cr_expect(eq(long, (long)json_integer_value(json_object_get(json_array_get(json_object_get(users, "users"), 0), "weight")), 5));
        json_decref(users);
        kill_now();
    }
}

/* All 300 results of it are there: more than are deleted at once. */
static void one_whole_job(uint32_t p)
{
    htc_attempt at;
    submit(p, "olga", SWEEP(300));
    rig_pass(&r, 100 * HTC_MS);
    hand h = hello(r.launched[r.n_launched - 1].agent);
    for (int i = 0; i < 300; i++) {
        cr_assert(eq(u32, pull(&h, &at), HTC_GRANT_TASKS));
        cr_assert(eq(int, report(&h, &at, HTC_OK), HTC_OK));
    }
    process_ended(h.id);
    rig_pass(&r, HTC_SECOND);
}

/* A result that says nothing but that it went well stands in the chunk's record; the others have one of their own. All are listed in the
 * order of their tasks, before and after the gateway is killed, and the sums are theirs. */
Test(gateway_durable, lists_results_in_brief_among_others)
{
    enum { TASKS = 200 };
    uint32_t    p = operator_peer();
    htc_attempt at;
    submit(p, "olga", SWEEP(200));
    rig_pass(&r, 100 * HTC_MS);
    hand h = hello(r.launched[r.n_launched - 1].agent);
    for (int i = 0; i < TASKS; i++) {
        cr_assert(eq(u32, pull(&h, &at), HTC_GRANT_TASKS));
        rig_pass(&r, 50 * HTC_MS);
        outputs_left = i % 3 == 0;
        cr_assert(eq(int, report_after(&h, &at, HTC_OK, 40 * HTC_MS + 1500, ""), HTC_OK));
    }
    for (int killed = 0; killed < 2; killed++) {
        json_t *answer = rig_ask(&r, p, "{\"op\":\"results\",\"id\":1}"), *list = json_object_get(answer, "results"), *v;
        size_t  i;
        double  sum = 0, core_s;
        long    done;
        cr_assert(eq(sz, json_array_size(list), TASKS));
        json_array_foreach(list, i, v)
        {
            cr_expect(eq(long, (long)json_integer_value(json_object_get(v, "index")), (long)i));
            cr_expect(eq(str, (char *)(uintptr_t)json_string_value(json_object_get(v, "node")), "node1"));
            cr_expect(eq(str, (char *)(uintptr_t)json_string_value(json_object_get(v, "status")), "HTC_OK"));
            cr_expect(eq(long, (long)json_integer_value(json_object_get(json_object_get(v, "summary"), "files")), i % 3 == 0));
            sum += json_number_value(json_object_get(v, "ended")) - json_number_value(json_object_get(v, "started"));
        }
        used(&core_s, &done);
        cr_expect(eq(long, done, TASKS));
        cr_expect(core_s > sum - 1e-3 && core_s < sum + 1e-3, "%f and %f", core_s, sum);
        cr_expect(core_s > TASKS * 0.04 - 1e-3 && core_s < TASKS * 0.04 + 2e-3, "%f", core_s);
        json_decref(answer);
        kill_now();
        p = operator_peer();
    }
}

/* What cannot be deleted is tried again, and not left behind for ever. */
Test(gateway_durable, deletes_in_the_end_what_could_not_be_deleted)
{
    uint32_t p = operator_peer();
    outputs_left = 1;
    one_whole_job(p);
    p = over_a_bad_engine();
    unreadable = "r/0000000000000001/0000000000000007";
    json_decref(rig_ask(&r, p, "{\"op\":\"rm\",\"id\":1}"));
    rig_pass(&r, 10 * HTC_SECOND);
    cr_expect(gt(sz, keys_of_jobs(), 0));
    unreadable = NULL;
    rig_pass(&r, 200 * HTC_SECOND);
    cr_expect(eq(sz, keys_of_jobs(), 0));
}

static int is_marked(void *ctx, htc_bytes key, htc_bytes value)
{
    (void)value;
    *(int *)ctx += key.len > 3 && memcmp(key.data, "kd/", 3) == 0;
    return 1;
}

static int marked(void)
{
    int n = 0;
    r.engine.ops->scan(r.engine.ctx, htc_bytes_of(NULL), is_marked, &n);
    return n;
}

/* The store is full from the moment on at which the removals are durable: what they delete goes all the same, of each of them, and makes
 * room for what they have to write; a gateway that is killed meanwhile counts the same. */
Test(gateway_durable, makes_room_before_it_writes)
{
    for (int killed = 0; killed < 2; killed++) {
        double core_s;
        long   done;
        if (killed) {
            rig_end(&r);
            rig_begin(&r);
        }
        uint32_t p = operator_peer();
        run_three(p);
        run_three(p);
        p = over_a_bad_engine();
        r.busy = 1;
        json_decref(rig_ask(&r, p, "{\"op\":\"rm\",\"id\":\"all\"}"));
        while (r.posts && marked() < 2)
            take_post();
        is_full = 1;
        r.busy = 0;
        rig_run(&r);
        rig_pass(&r, 10 * HTC_SECOND);
        cr_expect(eq(sz, keys_of_jobs(), 2), "more than the records of the removals");
        is_full = 0;
        if (killed)
            kill_now();
        rig_pass(&r, 200 * HTC_SECOND);
        cr_expect(eq(sz, keys_of_jobs(), 0));
        used(&core_s, &done);
        cr_expect(eq(dbl, core_s, 60.0));
        cr_expect(eq(long, done, 4));
        kill_now();
        used(&core_s, &done);
        cr_expect(eq(dbl, core_s, 60.0));
        cr_expect(eq(long, done, 4));
    }
}

/* A removal that a gateway before this one began, and that has not yet taken the job from view: who asks for it again waits for that one,
 * and no other change comes between. */
Test(gateway_durable, one_job_has_one_removal)
{
    uint32_t p = operator_peer();
    double   core_s;
    long     done;
    run_three(p);
    p = over_a_bad_engine();
    r.busy = 1;
    json_decref(rig_ask(&r, p, "{\"op\":\"rm\",\"id\":1}"));
    while (r.posts && marked() < 1)
        take_post();
    unreadable = "j/fffffffffffffffe";
    r.busy = 0;
    kill_now();
    unreadable = NULL;
    p = operator_peer();
    cr_expect(eq(str, (char *)refusal(p, "{\"op\":\"retry\",\"id\":1,\"failed\":true}"), "HTC_EBUSY"));
    cr_expect(eq(ptr, rig_ask(&r, p, "{\"op\":\"rm\",\"id\":1}"), NULL), "it waits");
    uint32_t other = operator_peer();
    cr_expect(eq(str, (char *)refusal(other, "{\"op\":\"rm\",\"id\":1}"), "HTC_EBUSY"), "one waits already");
    rig_pass(&r, 200 * HTC_SECOND);
    const rig_message *m = rig_newest(&r, p, HTC_WIRE_USER_ANSWER);
    cr_expect(m && memmem(m->bytes, m->len, "\"removed\":1", 11));
    cr_expect(eq(sz, keys_of_jobs(), 0));
    used(&core_s, &done);
    cr_expect(eq(dbl, core_s, 30.0));
    cr_expect(eq(long, done, 2));
}

/* ---- a submission that is repeated ---- */

/* The answer to a submission under a key; "" or the error's name in error. */
static uint64_t submit_as(const char *key, const char *jsdl, char error[64])
{
    json_t *rq = json_pack("{s:s,s:s,s:s}", "op", "submit", "key", key, "jsdl", jsdl);
    char   *text = json_dumps(rq, 0);
    json_t *answer = rig_ask(&r, operator_peer(), text);
    free(text);
    json_decref(rq);
    const char *e = json_string_value(json_object_get(answer, "error"));
    uint64_t    id = (uint64_t)json_integer_value(json_object_get(answer, "id"));
    snprintf(error, 64, "%s", e ? e : answer ? "" : "no answer");
    json_decref(answer);
    return id;
}

Test(gateway_durable, answers_a_repeated_submission_with_its_job_for_as_long_as_that_is_there)
{
    char error[64];
    cr_expect(eq(u64, submit_as("k-1", SWEEP(3), error), 1));
    cr_expect(eq(u64, submit_as("k-1", SWEEP(3), error), 1));
    cr_expect(eq(u64, submit_as("k-2", SWEEP(3), error), 2));
    kill_now();
    cr_expect(eq(u64, submit_as("k-1", SWEEP(3), error), 1));
    submit_as("k-1", SWEEP(4), error);
    cr_expect(eq(str, error, "HTC_EEXISTS"));
    submit_as("no key, this", SWEEP(4), error);
    cr_expect(eq(str, error, "HTC_EINVAL"));
    cr_expect(eq(str, (char *)(uintptr_t)refusal(operator_peer(), "{\"op\":\"cancel\",\"id\":1}"), ""));
    cr_expect(eq(u64, submit_as("k-1", SWEEP(3), error), 1), "it has ended, and is there");
    cr_expect(eq(str, (char *)(uintptr_t)refusal(operator_peer(), "{\"op\":\"rm\",\"id\":1}"), ""));
    rig_pass(&r, HTC_SECOND);
    cr_expect(eq(u64, submit_as("k-1", SWEEP(4), error), 3), "removed: the key is free");
    json_t *jobs = rig_ask(&r, operator_peer(), "{\"op\":\"status\"}");
    cr_expect(eq(sz, json_array_size(json_object_get(jobs, "jobs")), 2));
    json_decref(jobs);
}

/* The gateway is killed after each message that a submission takes; the client sends it again. One job, whatever happened. */
Test(gateway_durable, makes_one_job_of_a_submission_however_often_it_is_sent)
{
    char error[64];
    int  interrupted = 1;
    for (int n = 0; interrupted; n++) {
        if (n) {
            rig_end(&r);
            rig_begin(&r);
        }
        r.busy = 1;
        submit_as("once", SWEEP(2), error);
        for (int i = 0; i < n && r.posts; i++)
            take_post();
        interrupted = r.posts != NULL;
        r.busy = 0;
        kill_now();
        cr_expect(submit_as("once", SWEEP(2), error) != 0, "after %d messages: %s", n, error);
        json_t *jobs = rig_ask(&r, operator_peer(), "{\"op\":\"status\"}");
        cr_expect(eq(sz, json_array_size(json_object_get(jobs, "jobs")), 1), "after %d messages", n);
        json_decref(jobs);
    }
}

/* ---- uploaded content ---- */

#define ONE "1111111111111111111111111111111111111111111111111111111111111111"
#define TWO "22222222222222222222222222222222222222222222222222222222222222ab"

/* A job whose document names ONE in a URI and TWO as a value. */
static const char *staging(void)
{
    return "<j:JobDefinition xmlns:j='http://schemas.ggf.org/jsdl/2005/11/jsdl' xmlns:px='http://schemas.ggf.org/jsdl/2005/11/jsdl-posix'>"
           "<j:JobDescription><j:Application><px:POSIXApplication><px:Executable>/bin/true</px:Executable>"
           "<px:Argument>" TWO "</px:Argument><px:Argument>" ONE "0</px:Argument></px:POSIXApplication></j:Application>"
           "<j:DataStaging><j:FileName>a</j:FileName><j:CreationFlag>overwrite</j:CreationFlag><j:Source><j:URI>htc:" ONE
           "</j:URI></j:Source></j:DataStaging></j:JobDescription></j:JobDefinition>";
}

static size_t kept_by_sweep(void)
{
    r.swept.len = 0;
    rig_pass(&r, 3700 * HTC_SECOND);
    cr_assert(r.swept.len >= 8, "nothing was swept: %u sweeps, %s", r.calls[HTC_CALL_CONTENT_SWEEP], htc_status_name(r.has_stopped ? r.stopped : HTC_OK));
    return r.swept.len - 8;
}

/* A sweep is told of what every kept job names, also by the next gateway; of none that is removed. */
Test(gateway_durable, keeps_uploads_while_a_job_names_them)
{
    uint32_t p = operator_peer();
    cr_expect(eq(sz, kept_by_sweep(), 0));
    submit(p, "olga", staging());
    submit(p, "olga", staging());
    cr_expect(eq(u32, r.calls[HTC_CALL_CONTENT_TOUCH], 2), "what is named is kept from before the list is written");
    cr_expect(eq(sz, kept_by_sweep(), 128), "two hashes of two jobs, and not the run of 65 digits");
    kill_now();
    p = operator_peer();
    cr_expect(eq(sz, kept_by_sweep(), 128));
    json_decref(rig_ask(&r, p, "{\"op\":\"cancel\",\"id\":\"all\"}"));
    rig_pass(&r, HTC_SECOND);
    cr_expect(eq(sz, kept_by_sweep(), 128), "ended, and may be tried again");
    json_decref(rig_ask(&r, p, "{\"op\":\"rm\",\"id\":1}"));
    cr_expect(eq(sz, kept_by_sweep(), 64));
    json_decref(rig_ask(&r, p, "{\"op\":\"rm\",\"id\":2}"));
    cr_expect(eq(sz, kept_by_sweep(), 0));
    cr_expect(eq(sz, keys_of_jobs(), 0));
}
