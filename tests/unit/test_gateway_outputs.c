/* What tasks left, as the gateway tells it: read from manifests that were written where tasks run, page by page. */
#include "gateway_hand.h"

htc_status htc__gw_manifest_entries(htc_bytes piece, json_t *list, size_t *taken); /* of roles/gateway/gateway.h */

TestSuite(gateway_outputs, .init = begin, .fini = end);

#define ENTRIES 20000

static char *manifest_of(int entries, size_t *len)
{
    char *text = malloc((size_t)entries * 160 + 1), *at = text;
    for (int i = 0; i < entries; i++)
        at += sprintf(at, "{\"type\":\"l\",\"name\":\"dir/link.%d\",\"mode\":\"0777\",\"target\":\"some/where/%0*d\"}\n", i, 1 + i % 50, i);
    *len = (size_t)(at - text);
    return text;
}

/* The outcome of the only task of a new job. */
static void ended_with(htc_outcome o)
{
    htc_attempt     at;
    htc_buf         b;
    uint32_t        p = operator_peer();
    size_t          launched = r.n_launched;
    submit(p, "olga", SWEEP(1));
    rig_pass(&r, 100 * HTC_MS);
    cr_assert(r.n_launched > launched);
    hand h = hello(r.launched[launched].agent);
    cr_assert(eq(u32, pull(&h, &at), HTC_GRANT_TASKS));
    if (!o.started && !o.ended) {
        o.started = r.wall - HTC_SECOND;
        o.ended = r.wall;
    }
    htc_task_result m = { .agent = h.id, .attempt = at, .outcome = o };
    htc_buf_init(&b, NULL, 0);
    htc_task_result_write(&b, &m);
    rig_say(&r, h.peer, &b);
    htc_buf_free(&b);
    rig_pass(&r, 10 * HTC_MS);
}

static json_t *page(uint64_t from, uint64_t cursor)
{
    char text[120];
    snprintf(text, sizeof text, "{\"op\":\"results\",\"id\":1,\"from\":%llu,\"from_output\":%llu}", (unsigned long long)from,
             (unsigned long long)cursor);
    json_t *answer = rig_ask(&r, operator_peer(), text);
    cr_assert(answer && json_object_get(answer, "results"), "no results");
    return answer;
}

/* Every entry comes once and in its order, however many answers that takes, and none of these is longer than its bound. */
Test(gateway_outputs, come_in_pages_each_once)
{
    size_t   len;
    char    *text = manifest_of(ENTRIES, &len);
    uint64_t from = 0, cursor = 0;
    int      seen = 0, pages = 0;
    r.manifest = (htc_bytes){ text, len };
    ended_with((htc_outcome){ .outputs = { .links = ENTRIES, .manifest_bytes = len } });
    for (int more = 1; more; pages++) {
        json_t *answer = page(from, cursor), *result = json_array_get(json_object_get(answer, "results"), 0), *entry;
        size_t  i, bytes = 0;
        cr_assert(eq(sz, json_array_size(json_object_get(answer, "results")), 1));
        cr_expect(eq(int, (int)json_integer_value(json_object_get(json_object_get(result, "summary"), "links")), ENTRIES));
        json_array_foreach(json_object_get(result, "outputs"), i, entry)
        {
            char name[40];
            snprintf(name, sizeof name, "dir/link.%d", seen++);
            cr_assert(eq(str, (char *)json_string_value(json_object_get(entry, "name")), name));
            bytes += 200;
        }
        cr_expect(bytes < (4u << 20), "%zu entries in one answer", i);
        more = json_is_integer(json_object_get(answer, "next"));
        from = (uint64_t)json_integer_value(json_object_get(answer, "next"));
        cursor = (uint64_t)json_integer_value(json_object_get(answer, "next_output"));
        cr_assert(pages < 100);
        json_decref(answer);
    }
    cr_expect(eq(int, seen, ENTRIES));
    cr_expect(pages > 1, "all in one answer");
    free(text);
}

/* A manifest is what the user's own processes may have written: what is no entry is told, and costs nothing else. */
Test(gateway_outputs, are_not_believed)
{
    static const char *const lines[] = {
        "rubbish\n",
        "{\"type\":\"f\",\"name\":\"../x\",\"mode\":\"0644\",\"size\":1,\"hash\":\"00\"}\n",
        "{\"type\":\"l\",\"name\":\"/x\",\"target\":\"y\"}\n",
        "{\"type\":\"f\",\"name\":\"x\",\"mode\":\"0644\",\"size\":1}\n",
        "{\"type\":\"f\",\"name\":\"x\",\"size\":-1,\"hash\":\"0000000000000000000000000000000000000000000000000000000000000000\"}\n",
        "{\"type\":\"z\",\"name\":\"x\"}\n",
        "{\"type\":\"d\",\"name\":\"x\\u001b[2J\"}\n",
        "{\"type\":\"d\",\"name\":\"never ends\"",
    };
    for (size_t i = 0; i < sizeof lines / sizeof *lines; i++) {
        htc_bytes  piece = htc_bytes_of(lines[i]);
        json_t    *list = json_array();
        size_t     taken = 0;
        htc_status status = htc__gw_manifest_entries(piece, list, &taken);
        cr_expect(eq(int, status, HTC_ECORRUPT), "%s", lines[i]);
        cr_expect(eq(sz, json_array_size(list), 0));
        json_decref(list);
    }
    r.manifest = htc_bytes_of(lines[0]);
    ended_with((htc_outcome){ .outputs = { .files = 1, .manifest_bytes = r.manifest.len } });
    json_t *answer = page(0, 0), *result = json_array_get(json_object_get(answer, "results"), 0);
    cr_expect(eq(str, (char *)json_string_value(json_object_get(result, "outputs_error")), "HTC_ECORRUPT"));
    json_decref(answer);
}

/* An agent may say any number: none comes out negative, and no run begins before or ends after what can be. */
Test(gateway_outputs, of_any_size_are_told)
{
    static const char *const sums[] = { "files", "dirs", "links", "errors", "bytes" };
    static const struct {
        htc_ns started, ended;
    } said[] = { { 1, UINT64_MAX }, { UINT64_MAX, 1 }, { UINT64_MAX, UINT64_MAX }, { 0, UINT64_MAX } };
    for (size_t i = 0; i < sizeof said / sizeof *said; i++) {
        ended_with((htc_outcome){ .cpu_ns = UINT64_MAX, .memory_peak = UINT64_MAX, .started = said[i].started, .ended = said[i].ended,
                                  .outputs = { .files = UINT64_MAX, .dirs = UINT64_MAX, .links = UINT64_MAX, .errors = UINT64_MAX, .bytes = UINT64_MAX } });
        json_t *answer = page(0, 0), *result = json_array_get(json_object_get(answer, "results"), 0);
        cr_assert(result != NULL);
        cr_expect(eq(i64, json_integer_value(json_object_get(result, "memory_peak")), INT64_MAX));
        cr_expect(json_number_value(json_object_get(result, "cpu_s")) > 1.8e10);
        for (size_t k = 0; k < sizeof sums / sizeof *sums; k++)
            cr_expect(eq(i64, json_integer_value(json_object_get(json_object_get(result, "summary"), sums[k])), INT64_MAX), "%s", sums[k]);
        double started = json_number_value(json_object_get(result, "started")), ended = json_number_value(json_object_get(result, "ended"));
        cr_expect(ended <= (double)r.wall / 1e9 && ended - started >= 0 && ended - started <= 1, "case %zu: %f to %f", i, started, ended);
        json_decref(answer);
        end();
        begin();
    }
}

/* A failure that trying again cannot mend is final, whatever its status; the same status without that word is tried again. */
Test(gateway_outputs, what_would_fail_again_is_not_tried_again)
{
    ended_with((htc_outcome){ .status = HTC_ESTAGEOUT, .final = 1, .reason = "an output is not stored: x: not a regular file" });
    cr_expect(eq(long, (long)count_of(operator_peer(), 1, "failed"), 1L));
}

Test(gateway_outputs, what_may_be_there_the_next_time_is_tried_again)
{
    ended_with((htc_outcome){ .status = HTC_ESTAGEOUT });
    cr_expect(eq(long, (long)count_of(operator_peer(), 1, "retry_wait"), 1L));
}
