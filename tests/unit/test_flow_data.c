/* What tasks read of each other: dependencies that follow from files, and what a flow's records say of them. */
#include "expect.h"

#include <stdio.h>
#include <string.h>

#include "alloc_fail.h"
#include "htcsched/flows.h"
#include "htcsched/work.h"
#include "property.h"
#include "roles/worker/flow.h"
#include "roles/worker/graph_task.h"

TestSuite(flow_data);

static htc_flow *read_flow(const htc_env *env, const char *text)
{
    htc_flow *f = NULL;
    htc_error error = { 0 };
    cr_assert(htc_flow_read(env, htc_bytes_of(text), HTC_FLOW_AUTO, NULL, &f, &error) == HTC_OK, "%s", error.text);
    return f;
}

/* Each pair of tasks beside a look at all their files. */
Test(flow_data, who_reads_waits_for_who_makes)
{
    enum { TASKS = 10, FILES = 14 };
    uint64_t cycles = 0, added = 0;
    PROPERTY(rng, 2000)
    {
        htc_flow     *f = NULL;
        htc_flow_task t = HTC_FLOW_TASK_INIT;
        int           maker[FILES], reads[TASKS][TASKS] = { 0 }, after[TASKS][TASKS] = { 0 }, reach[TASKS][TASKS] = { 0 }, cycle = 0;
        char          names[FILES][8];
        HOLDS(htc_flow_create(NULL, NULL, &f) == HTC_OK);
        t.executable = "true";
        for (int i = 0; i < FILES; i++) {
            snprintf(names[i], sizeof names[i], "f%d", i);
            maker[i] = (int)htc_rng_below(&rng, TASKS + 2); /* of some nobody */
        }
        for (int i = 0; i < TASKS; i++) {
            htc_flow_file in[6], out[FILES];
            t.in = in;
            t.out = out;
            t.n_in = t.n_out = 0;
            for (int k = 0; k < FILES; k++)
                if (maker[k] == i)
                    out[t.n_out++] = (htc_flow_file){ names[k], 0 };
            for (uint64_t n = htc_rng_below(&rng, 4); n > 0; n--) {
                int k = (int)htc_rng_below(&rng, FILES);
                if (maker[k] > i && maker[k] < TASKS && htc_rng_below(&rng, 30))
                    continue; /* seldom a cycle */
                in[t.n_in++] = (htc_flow_file){ names[k], 0 };
                if (maker[k] < TASKS && maker[k] != i)
                    reads[i][maker[k]] = 1;
            }
            HOLDS(htc_flow_add(f, &t, NULL, NULL) == HTC_OK);
            for (int p = 0; p < i; p++)
                if (htc_rng_below(&rng, 8) == 0) {
                    uint32_t rule = (uint32_t)htc_rng_below(&rng, 3);
                    after[i][p] = 1 + (int)rule;
                    HOLDS(htc_flow_after(f, (uint32_t)i, (uint32_t)p, rule) == HTC_OK);
                }
        }
        HOLDS(htc_flow_check(f, NULL) == HTC_OK);
        for (int i = 0; i < TASKS; i++)
            for (int p = 0; p < TASKS; p++)
                reach[i][p] = reads[i][p] || after[i][p];
        for (int k = 0; k < TASKS; k++)
            for (int i = 0; i < TASKS; i++)
                for (int p = 0; p < TASKS; p++)
                    reach[i][p] |= reach[i][k] && reach[k][p];
        for (int i = 0; i < TASKS; i++)
            cycle |= reach[i][i];
        cycles += cycle != 0;
        htc_status status = htc_flow_after_files(f, NULL);
        HOLDS(status == (cycle ? HTC_ECYCLE : HTC_OK));
        for (uint32_t i = 0; i < TASKS && !cycle; i++) {
            const htc_flow_edge *edge;
            int                  seen[TASKS] = { 0 };
            size_t               n = htc_flow_parents(f, i, &edge);
            for (size_t e = 0; e < n; e++)
                seen[edge[e].task] = 1 + (int)edge[e].rule;
            for (uint32_t p = 0; p < TASKS; p++) {
                added += reads[i][p] && !after[i][p];
                HOLDS(seen[p] == (after[i][p] ? after[i][p] : reads[i][p]));
            }
        }
        htc_flow_destroy(f);
    }
    cr_expect(cycles > 10 && added > 1000, "%lu cycles, %lu dependencies", cycles, added);
}

Test(flow_data, two_that_make_one_file_are_told)
{
    htc_error error = { 0 };
    htc_flow *f = read_flow(NULL, "a: out=x true\nb: out=x,y true\nc: in=x true\n");
    cr_expect(htc_flow_after_files(f, &error) == HTC_ESCHEMA && strstr(error.text, "\"a\" and \"b\" both make the file \"x\""), "%s", error.text);
    htc_flow_destroy(f);
    f = read_flow(NULL, "a: out=x count=3 true\nb: in=x true\n");
    cr_expect(htc_flow_after_files(f, &error) == HTC_EINVAL && strstr(error.text, "count"), "%s", error.text);
    htc_flow_destroy(f);
    cr_expect(htc_flow_after_files(NULL, NULL) == HTC_EINVAL);
    cr_assert(htc_flow_create(NULL, NULL, &f) == HTC_OK);
    cr_expect(htc_flow_after_files(f, NULL) == HTC_EINVAL); /* not checked */
    htc_flow_destroy(f);
}

/* ---- records ---- */

static const char text[] = "a: in=src out=x,sub/y kind=first ./run x sub/y\n"
                           "b: after=a in=x,/abs,more%20 out=z ./run z\n"
                           "c: after=a,b in=sub/y,z out=/else true\n";

/* The record of task id of a flow whose tasks have directories of their own. t lies in bytes. */
static void record_of(const htc_flow *f, const htc_flows_options *o, uint64_t id, htc_buf *bytes, graph_task *t)
{
    htc_flows_records *r = NULL;
    htc_kv_request     q = { 0 };
    flow_key           key = htc__flow_key_task(1, id);
    cr_assert(htc_flows_records_create(NULL, f, o, 1, &r, NULL) == HTC_OK);
    for (uint64_t i = 0; i < htc_flows_records_count(r); i++) {
        cr_assert(htc_flows_records_get(r, i, &q) == HTC_OK);
        if (!htc_bytes_equal(q.key, htc__flow_key_bytes(&key)))
            continue;
        htc_buf_clear(bytes);
        htc_put_raw(bytes, q.value);
    }
    htc_flows_records_destroy(r);
    cr_assert(htc__graph_read(htc_buf_bytes(bytes), t) == HTC_OK);
}

static void expect_read(htc_reader *r, uint64_t maker, const char *name)
{
    uint64_t  got;
    htc_bytes file;
    cr_expect(htc__graph_next_read(r, &got, &file) && got == maker && htc_bytes_equal(file, htc_bytes_of(name)), "%s", name);
}

Test(flow_data, records_say_who_makes_what_is_read)
{
    htc_flow         *f = read_flow(NULL, text);
    htc_flows_options o = HTC_FLOWS_OPTIONS_INIT;
    htc_buf           b;
    graph_task        t;
    htc_task         *task = NULL;
    htc_reader        r;
    o.inputs = "/in here";
    htc_buf_init(&b, NULL, 0);
    record_of(f, &o, 0, &b, &t);
    cr_expect(t.reads.len == 0 && htc__graph_n_makes(&t) == 2 && htc_bytes_equal(t.kind, htc_bytes_of("first")));
    cr_assert(htc_task_from_bytes(NULL, t.task, &task) == HTC_OK && task->n_in == 1 && task->n_out == 2);
    cr_expect(strcmp(task->in[0].name, "src") == 0 && strcmp(task->in[0].uri, "file:/in here/src") == 0);
    cr_expect(strcmp(task->out[1].name, "sub/y") == 0 && strcmp(task->out[1].uri, "sub/y") == 0);
    htc_task_destroy(task);
    record_of(f, &o, 1, &b, &t);
    r = htc_reader_of(t.reads);
    expect_read(&r, 0, "x");
    cr_expect(htc_reader_left(&r) == 0 && htc__graph_n_makes(&t) == 1);
    cr_assert(htc_task_from_bytes(NULL, t.task, &task) == HTC_OK && task->n_in == 1);
    cr_expect(strcmp(task->in[0].uri, "file:/in here/more%2520") == 0, "%s", task->in[0].uri); /* a percent sign is one */
    htc_task_destroy(task);
    record_of(f, &o, 2, &b, &t);
    r = htc_reader_of(t.reads);
    expect_read(&r, 0, "sub/y");
    expect_read(&r, 1, "z");
    cr_expect(htc_reader_left(&r) == 0 && t.makes.len == 0);
    cr_assert(htc_task_from_bytes(NULL, t.task, &task) == HTC_OK && task->n_in == 0 && task->n_out == 0);
    htc_task_destroy(task);
    o.inputs = NULL;
    record_of(f, &o, 0, &b, &t);
    cr_assert(htc_task_from_bytes(NULL, t.task, &task) == HTC_OK && task->n_in == 0);
    htc_task_destroy(task);
    o.directory = "/tmp"; /* where they find everything themselves */
    record_of(f, &o, 2, &b, &t);
    cr_expect(t.reads.len == 0 && t.makes.len == 0);
    htc_buf_free(&b);
    htc_flow_destroy(f);
}

Test(flow_data, what_cannot_be_brought_is_refused)
{
    static const struct {
        const char *text;
        htc_status  status;
        const char *says;
    } bad[] = {
        { "a: out=x true\nb: after=a out=x true\n", HTC_ESCHEMA, "tasks a and b both make the file x" },
        { "a: out=x @sleep 1\nb: after=a in=x true\n", HTC_EUNSUPPORTED, "task b reads the file x, which a makes: that is a builtin" },
        { "a: out=x count=2 true\nb: in=x true\n", HTC_ESCHEMA, "stands for several tasks" },
        { "a: out=../x true\nb: after=a true\n", HTC_EPATH, "" },
        { "a: in=y/../../x true\nb: after=a true\n", HTC_EPATH, "" },
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        htc_flow          *f = read_flow(NULL, bad[i].text);
        htc_flows_options  o = HTC_FLOWS_OPTIONS_INIT;
        htc_flows_records *r = NULL;
        htc_error          error = { 0 };
        htc_kv_request     q;
        o.inputs = "/in";
        htc_status status = htc_flows_records_create(NULL, f, &o, 1, &r, &error);
        for (uint64_t k = 0; r && k < htc_flows_records_count(r) && status == HTC_OK; k++)
            status = htc_flows_records_get(r, k, &q);
        cr_expect(status == bad[i].status && strstr(error.text, bad[i].says), "%s: %s: %s", bad[i].text, htc_status_name(status), error.text);
        htc_flows_records_destroy(r);
        htc_flow_destroy(f);
    }
    htc_flow          *f = read_flow(NULL, text);
    htc_flows_options  o = HTC_FLOWS_OPTIONS_INIT;
    htc_flows_records *r = NULL;
    o.inputs = "here";
    cr_expect(htc_flows_records_create(NULL, f, &o, 1, &r, NULL) == HTC_EINVAL && !r);
    htc_flow_destroy(f);
}

Test(flow_data, memory_may_be_refused_at_any_step)
{
    ALLOC_FAIL_EVERY (fail, 2000) {
        htc_env            env = alloc_fail_env(&fail);
        htc_flow          *f = read_flow(NULL, text);
        htc_flows_options  o = HTC_FLOWS_OPTIONS_INIT;
        htc_flows_records *r = NULL;
        htc_kv_request     q;
        o.inputs = "/in";
        htc_status status = htc_flows_records_create(&env, f, &o, 1, &r, NULL);
        for (uint64_t k = 0; r && k < htc_flows_records_count(r) && status == HTC_OK; k++)
            status = htc_flows_records_get(r, k, &q);
        cr_assert(status == HTC_OK || status == HTC_ENOMEM);
        htc_flows_records_destroy(r);
        htc_flow_destroy(f);
        cr_assert(fail.live == 0 && fail.wrong_sizes == 0);
    }
    ALLOC_FAIL_EVERY (fail, 2000) {
        htc_env   env = alloc_fail_env(&fail);
        htc_flow *f = NULL;
        htc_status status = htc_flow_read(&env, htc_bytes_of("a: out=x true\nb: in=x true\n"), HTC_FLOW_AUTO, NULL, &f, NULL);
        if (status == HTC_OK)
            status = htc_flow_after_files(f, NULL);
        cr_assert(status == HTC_OK || status == HTC_ENOMEM);
        htc_flow_destroy(f);
        cr_assert(fail.live == 0 && fail.wrong_sizes == 0);
    }
}
