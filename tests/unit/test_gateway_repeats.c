/* Cancels that come at any moment or again, and results that come again. */
#include "gateway_hand.h"

#include "roles/gateway/gateway.h"

TestSuite(gateway_repeats, .init = begin, .fini = end);

/* ---- a job that is cancelled ---- */

static long cancelled(uint32_t peer, const char *rq)
{
    json_t *answer = rig_ask(&r, peer, rq);
    long    n = json_object_get(answer, "cancelled") ? (long)json_integer_value(json_object_get(answer, "cancelled")) : -1;
    json_decref(answer);
    return n;
}

/* Its answer is not waited for. */
static void submit_three(void)
{
    json_t *rq = json_pack("{s:s,s:s}", "op", "submit", "jsdl", SWEEP(3));
    char   *text = json_dumps(rq, 0);
    json_decref(rig_ask(&r, operator_peer(), text));
    free(text);
    json_decref(rq);
}

/* Somebody cancels job 1 after each message that its submission takes. Until it is there there is none; from then on it is cancelled as a whole, and a
 * gateway that is started then knows so. It is the same how often it is cancelled. */
/* HTCaaS 6: A job is cancelled while it begins, twice, or after its end. */
Test(gateway_repeats, a_cancel_while_a_job_is_made_is_clean)
{
    int interrupted = 1, met = 0;
    for (int n = 0; interrupted; n++) {
        if (n) {
            rig_end(&r);
            rig_begin(&r);
        }
        uint32_t p = operator_peer();
        r.busy = 1;
        submit_three();
        for (int i = 0; i < n && r.posts; i++)
            take_post();
        interrupted = r.posts != NULL;
        json_decref(rig_ask(&r, p, "{\"op\":\"cancel\",\"id\":1}"));
        r.busy = 0;
        rig_run(&r);
        const rig_message *m = rig_newest(&r, p, HTC_WIRE_USER_ANSWER);
        cr_assert(m != NULL, "after %d messages: no answer", n);
        int there = memmem(m->bytes, m->len, "HTC_ENOTFOUND", 13) == NULL;
        met += there && interrupted;
        cr_expect(eq(long, (long)count_of(p, 1, "cancelled"), there ? 3L : 0L), "after %d messages", n);
        cr_expect(eq(long, cancelled(p, "{\"op\":\"cancel\",\"id\":1}"), there ? 0L : 3L), "after %d messages", n);
        cr_expect(eq(long, cancelled(p, "{\"op\":\"cancel\",\"id\":1}"), 0L), "after %d messages", n);
        kill_now();
        p = operator_peer();
        cr_expect(eq(long, (long)count_of(p, 1, "cancelled"), 3L), "after %d messages", n);
        cr_expect(eq(long, cancelled(p, "{\"op\":\"cancel\",\"id\":1}"), 0L), "after %d messages", n);
        rig_pass(&r, HTC_SECOND);
        cr_expect(eq(u64, htc__gw_user(r.gateway, "olga")->queued, 0));
    }
    cr_expect(met > 0, "none was cancelled before its submission was answered");
}

/* What has ended stays as it ended. */
Test(gateway_repeats, a_cancel_of_what_has_ended_changes_nothing)
{
    htc_attempt at;
    uint32_t    p = operator_peer();
    submit(p, "olga", SWEEP(2));
    rig_pass(&r, 100 * HTC_MS);
    hand h = hello(r.launched[0].agent);
    cr_assert(eq(u32, pull(&h, &at), HTC_GRANT_TASKS));
    cr_assert(eq(int, report(&h, &at, HTC_OK), HTC_OK));
    cr_expect(eq(long, cancelled(p, "{\"op\":\"cancel\",\"id\":\"1.0\"}"), 0L));
    cr_assert(eq(u32, pull(&h, &at), HTC_GRANT_TASKS));
    cr_assert(eq(int, report(&h, &at, HTC_OK), HTC_OK));
    for (int i = 0; i < 2; i++) {
        cr_expect(eq(long, cancelled(p, "{\"op\":\"cancel\",\"id\":1}"), 0L));
        json_t *j = job_of(p, 1);
        cr_expect(eq(str, (char *)(uintptr_t)json_string_value(json_object_get(j, "state")), "done"));
        json_decref(j);
        kill_now();
        p = operator_peer();
    }
}

/* ---- a result that comes again ---- */

static long duplicates_of(uint32_t peer, uint64_t id)
{
    json_t *j = job_of(peer, id);
    long    n = (long)json_integer_value(json_object_get(j, "duplicates"));
    json_decref(j);
    return n;
}

/* One result is kept, and status says how many came beside it: of tasks in memory, and of those long since written. */
Test(gateway_repeats, results_that_come_again_are_counted)
{
    htc_attempt first, at;
    uint32_t    p = operator_peer();
    uint64_t    id = submit(p, "olga", SWEEP(3000));
    rig_pass(&r, 100 * HTC_MS);
    hand h = hello(r.launched[0].agent);
    cr_assert(eq(u32, pull(&h, &first), HTC_GRANT_TASKS));
    cr_assert(eq(int, report(&h, &first, HTC_OK), HTC_OK));
    cr_expect(eq(long, duplicates_of(p, id), 0L));
    cr_expect(eq(int, report(&h, &first, HTC_OK), HTC_OK));
    cr_expect(eq(int, report(&h, &first, HTC_EEXIT), HTC_MISMATCH), "it ended otherwise");
    cr_expect(eq(long, duplicates_of(p, id), 2L));
    for (int i = 0; i < 2100; i++) {
        cr_assert(eq(u32, pull(&h, &at), HTC_GRANT_TASKS));
        cr_assert(eq(int, report(&h, &at, HTC_OK), HTC_OK));
    }
    cr_assert(htc__gw_chunk(htc__gw_job(r.gateway, id), 0) == NULL, "its first tasks are still in memory");
    cr_expect(eq(int, report(&h, &first, HTC_OK), HTC_OK));
    cr_expect(eq(long, duplicates_of(p, id), 3L));
    cr_expect(eq(long, (long)count_of(p, id, "done"), 2101L));
}
