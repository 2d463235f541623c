/* Lists of tasks of jobs that are large, and of who had cores when. */
#include "gateway_hand.h"

TestSuite(gateway_lists, .init = begin, .fini = end);

/* ---- lists of tasks ---- */

Test(gateway_lists, finds_what_runs_beyond_all_that_has_ended)
{
    uint32_t    p = operator_peer();
    uint64_t    id = submit(p, "olga", SWEEP(1000000));
    htc_attempt at;
    json_decref(rig_ask(&r, p, "{\"op\":\"cancel\",\"id\":\"1.0-99999\"}"));
    rig_pass(&r, 100 * HTC_MS);
    hand h = hello(r.launched[0].agent);
    cr_assert(eq(u32, pull(&h, &at), HTC_GRANT_TASKS));
    cr_assert(at.task >= 100000, "%llu", (unsigned long long)at.task);
    json_t *answer = rig_ask(&r, p, "{\"op\":\"tasks\",\"id\":1,\"state\":\"leased\",\"limit\":1}"), *list = json_object_get(answer, "tasks");
    cr_expect(eq(sz, json_array_size(list), 1), "one request is not enough");
    cr_expect(eq(long, (long)json_integer_value(json_object_get(json_array_get(list, 0), "index")), (long)at.task));
    json_decref(answer);
    static const char *const none[] = { "\"state\":\"retry_wait\"", "\"state\":\"failed\"", "\"failed\":true", "\"state\":\"leased\",\"from\":900000" };
    for (size_t i = 0; i < sizeof none / sizeof *none; i++) {
        char text[128];
        snprintf(text, sizeof text, "{\"op\":\"tasks\",\"id\":1,%s}", none[i]);
        answer = rig_ask(&r, p, text);
        cr_expect(json_array_size(json_object_get(answer, "tasks")) == 0 && json_is_null(json_object_get(answer, "next")), "%s", none[i]);
        json_decref(answer);
    }
    cr_expect(eq(int, report(&h, &at, HTC_EEXIT), HTC_OK));
    cr_expect(eq(long, (long)count_of(p, id, "retry_wait"), 1L));
    answer = rig_ask(&r, p, "{\"op\":\"tasks\",\"id\":1,\"state\":\"retry_wait\",\"limit\":1}");
    cr_expect(json_array_size(json_object_get(answer, "tasks")) == 1 && json_is_null(json_object_get(answer, "next")), "there is one, and it was found");
    json_decref(answer);
}

/* ---- pages of jobs ---- */

#define JOBS 3000

static uint64_t took_asked, took_told;

/* One page below before; its jobs, and what it took of the store. */
static json_t *page_below(uint32_t p, uint64_t before, uint32_t limit)
{
    char     text[160];
    uint64_t asked = r.asked, told = r.told;
    snprintf(text, sizeof text, "{\"op\":\"status\",\"before\":%llu,\"limit\":%u}", (unsigned long long)before, limit);
    json_t *answer = rig_ask(&r, p, text);
    took_asked = r.asked - asked;
    took_told = r.told - told;
    return answer;
}

static void expect_page(json_t *answer, uint64_t first, size_t n, uint64_t next)
{
    const json_t *jobs = json_object_get(answer, "jobs");
    cr_expect(eq(sz, json_array_size(jobs), n));
    for (size_t i = 0; i < json_array_size(jobs); i++)
        cr_expect(eq(u64, (uint64_t)json_integer_value(json_object_get(json_array_get(jobs, i), "id")), first - i));
    cr_expect(eq(u64, (uint64_t)json_integer_value(json_object_get(answer, "next")), next));
    json_decref(answer);
}

static void many_jobs(uint32_t p)
{
    json_t *rq = json_pack("{s:s,s:s,s:b}", "op", "submit", "jsdl", SWEEP(1), "paused", 1);
    char   *text = json_dumps(rq, 0);
    for (int i = 0; i < JOBS; i++)
        json_decref(rig_ask(&r, p, text));
    free(text);
    json_decref(rq);
}

/* A page reads about as many records as it has jobs, wherever it begins: a list of all is not read once for each of its pages. */
Test(gateway_lists, a_page_of_jobs_costs_what_is_on_it)
{
    uint32_t p = operator_peer();
    many_jobs(p);
    json_decref(page_below(p, UINT64_MAX >> 1, 1000));
    uint64_t record = took_told / 1000;
    expect_page(page_below(p, UINT64_MAX >> 1, 20), JOBS, 20, JOBS - 19);
    cr_expect(took_asked == 1 && took_told < 30 * record, "%llu requests, %llu bytes", (unsigned long long)took_asked, (unsigned long long)took_told);
    for (uint64_t before = JOBS - 19; before > 1; before = before > 20 ? before - 20 : 1) {
        uint64_t first = before - 1, n = first < 20 ? first : 20;
        expect_page(page_below(p, before, 20), first, n, first > 20 ? before - n : 0);
        cr_expect(took_asked <= 20 && took_told < 400 * record, "below %llu: %llu requests, %llu bytes", (unsigned long long)before, (unsigned long long)took_asked,
                  (unsigned long long)took_told);
    }
    expect_page(page_below(p, 1, 20), 0, 0, 0);
    expect_page(page_below(p, 0, 20), 0, 0, 0);
}

/* Numbers that were removed cost requests, but few, and no job is passed over. */
Test(gateway_lists, pages_go_on_over_removed_jobs)
{
    uint32_t p = operator_peer();
    char     text[64];
    many_jobs(p);
    for (int i = 2; i <= JOBS - 3; i++) {
        if (i == 700 || i == 701 || i == 2048)
            continue;
        snprintf(text, sizeof text, "{\"op\":\"cancel\",\"id\":%d}", i);
        json_decref(rig_ask(&r, p, text));
        snprintf(text, sizeof text, "{\"op\":\"rm\",\"id\":%d}", i);
        json_decref(rig_ask(&r, p, text));
    }
    rig_pass(&r, HTC_SECOND);
    json_t *answer = page_below(p, JOBS - 1, 20), *jobs = json_object_get(answer, "jobs");
    static const uint64_t left[] = { JOBS - 2, 2048, 701, 700, 1 };
    cr_assert(eq(sz, json_array_size(jobs), sizeof left / sizeof *left));
    for (size_t i = 0; i < sizeof left / sizeof *left; i++)
        cr_expect(eq(u64, (uint64_t)json_integer_value(json_object_get(json_array_get(jobs, i), "id")), left[i]));
    cr_expect(took_asked <= 40, "%llu requests", (unsigned long long)took_asked);
    json_decref(answer);
}

/* ---- history ---- */

/* What a user asks of all of its jobs costs what these are, however many others have, wherever its own lie among them. */
Test(gateway_lists, a_user_with_few_jobs_pays_for_few)
{
    static const char of_ada[] = "{\"op\":\"status\",\"user\":\"ada\",\"limit\":100}", last[] = "{\"op\":\"status\",\"user\":\"ada\",\"id\":\"last\"}";
    uint32_t          p = operator_peer();
    json_decref(rig_ask(&r, p, "{\"op\":\"user.add\",\"name\":\"ada\",\"password\":\"secret12\"}"));
    uint64_t first = submit(p, "ada", SWEEP(1));
    many_jobs(p);
    uint64_t second = submit(p, "ada", SWEEP(1)), record;
    many_jobs(p);
    json_decref(page_below(p, UINT64_MAX >> 1, 1000));
    record = took_told / 1000;
    for (int starts = 0; starts < 2; starts++) {
        uint64_t told = r.told;
        json_t  *answer = rig_ask(&r, p, of_ada), *jobs = json_object_get(answer, "jobs");
        cr_expect(r.told - told < 10 * record, "%llu bytes, and a record has %llu", (unsigned long long)(r.told - told), (unsigned long long)record);
        cr_assert(eq(sz, json_array_size(jobs), 2));
        cr_expect((uint64_t)json_integer_value(json_object_get(json_array_get(jobs, 0), "id")) == second);
        cr_expect((uint64_t)json_integer_value(json_object_get(json_array_get(jobs, 1), "id")) == first);
        cr_expect(json_is_null(json_object_get(answer, "next")));
        json_decref(answer);
        told = r.told;
        answer = rig_ask(&r, p, last);
        cr_expect(r.told - told < 10 * record && json_array_size(json_object_get(answer, "jobs")) == 1);
        json_decref(answer);
        rig_pass(&r, 2 * HTC_SECOND);
        rig_kill(&r);
        rig_start(&r);
        p = operator_peer();
    }
    char text[120];
    snprintf(text, sizeof text, "{\"op\":\"cancel\",\"id\":%llu}", (unsigned long long)second);
    json_decref(rig_ask(&r, p, text));
    rig_pass(&r, HTC_SECOND);
    snprintf(text, sizeof text, "{\"op\":\"rm\",\"id\":%llu}", (unsigned long long)second);
    json_decref(rig_ask(&r, p, text));
    rig_pass(&r, 2 * HTC_SECOND);
    json_t *answer = rig_ask(&r, p, of_ada);
    cr_expect(eq(sz, json_array_size(json_object_get(answer, "jobs")), 1));
    json_decref(answer);
}

Test(gateway_lists, tells_who_had_how_many_cores)
{
    uint32_t    p = operator_peer();
    htc_attempt at;
    submit(p, "olga", SWEEP(3));
    rig_pass(&r, 100 * HTC_MS);
    hand h = hello(r.launched[0].agent);
    cr_assert(eq(u32, pull(&h, &at), HTC_GRANT_TASKS));
    json_t *few = rig_ask(&r, p, "{\"op\":\"agents\",\"limit\":0}");
    cr_expect(json_array_size(json_object_get(few, "agents")) == 0 && json_integer_value(json_object_get(few, "count")) == (json_int_t)r.n_launched);
    json_decref(few);
    rig_pass(&r, 5 * HTC_SECOND);
    json_t       *answer = rig_ask(&r, p, "{\"op\":\"history\"}");
    const json_t *user = json_array_get(json_object_get(answer, "users"), 0), *cores = json_object_get(user, "cores");
    cr_expect(json_number_value(json_object_get(answer, "step")) == 1.0 && json_is_null(json_object_get(answer, "others")));
    cr_expect(user && strcmp(json_string_value(json_object_get(user, "name")), "olga") == 0);
    cr_expect(json_array_size(cores) >= 5 && json_array_size(cores) <= 7, "%zu", json_array_size(cores));
    cr_expect(json_number_value(json_array_get(cores, json_array_size(cores) - 1)) >= 1.0, "the gateway has not counted");
    json_decref(answer);
}
