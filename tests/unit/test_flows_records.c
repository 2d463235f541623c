/* The records of a flow for a client of one's own: the same, byte by byte, as htc_flows_submit and htc_flows_start leave in a store. */
#include "expect.h"

#include <string.h>

#include "alloc_fail.h"
#include "htcsched/flows.h"
#include "htcsched/steal.h"
#include "htcsched/work.h"
#include "property.h"
#include "roles/worker/graph_task.h"
#include "roles/worker/ledger.h"
#include "roles/worker/submission.h"

TestSuite(flows_records);

static const char *const texts[] = { "a: true\nb: after=a true\nc: after=a true\nd: after=b,c true\n", "hello: count=5000 echo hello\n",
                                     "a: true\nb: true\nc: after=a,b sleep 1\n" };

static htc_flow *read_flow(const char *text)
{
    htc_flow *f = NULL;
    htc_error error = { 0 };
    cr_assert(htc_flow_read(NULL, htc_bytes_of(text), HTC_FLOW_AUTO, NULL, &f, &error) == HTC_OK, "%s", error.text);
    return f;
}

static void is_stored(htc_store *store, const htc_kv_request *q)
{
    htc_kv_result r = { .size = sizeof r };
    cr_assert(htc_store_ask(store, &(htc_kv_request){ .size = sizeof(htc_kv_request), .op = HTC_KV_GET, .key = q->key }, &r, NULL) == HTC_OK &&
              r.status == HTC_OK);
    cr_assert(htc_bytes_equal(r.value, q->value), "%.*s", (int)q->key.len, (const char *)q->key.data);
}

static uint64_t stored(htc_store *store)
{
    htc_kv_result r = { .size = sizeof r };
    cr_assert(htc_store_ask(store, &(htc_kv_request){ .size = sizeof(htc_kv_request), .op = HTC_KV_COUNT }, &r, NULL) == HTC_OK && r.status == HTC_OK);
    return (uint64_t)r.number;
}

Test(flows_records, are_those_that_submitting_stores)
{
    htc_store_options memory = { .size = sizeof memory, .address = "memory:" };
    htc_flows_options o[] = { HTC_FLOWS_OPTIONS_INIT, { sizeof o[0], "ada", 3, 4, 7, "/tmp", NULL, NULL, NULL, 0, 0, 0, 0, 0, HTC_FLOWS_RANDOM, NULL } };
    for (size_t i = 0; i < sizeof texts / sizeof *texts * 2; i++) {
        htc_store         *store = NULL;
        htc_flows_records *records = NULL;
        htc_kv_request     q = { 0 };
        htc_flow          *f = read_flow(texts[i / 2]);
        uint64_t           id = 0;
        cr_assert(htc_store_open(NULL, &memory, &store, NULL) == HTC_OK);
        cr_assert(htc_flows_submit(store, f, &o[i % 2], &id, NULL) == HTC_OK);
        cr_assert(htc_flows_records_create(NULL, f, &o[i % 2], id, &records, NULL) == HTC_OK);
        uint64_t n = htc_flows_records_count(records);
        cr_expect(stored(store) == n - 1 + 1); /* the header comes twice; and the counter of flows */
        for (uint64_t k = 0; k + 1 < n; k++) {
            cr_assert(htc_flows_records_get(records, k, &q) == HTC_OK && q.op == HTC_KV_PUT && q.flags == HTC_KV_NX);
            is_stored(store, &q);
        }
        cr_assert(htc_flows_start(store, id, 0, NULL) == HTC_OK);
        cr_assert(htc_flows_records_get(records, n - 1, &q) == HTC_OK && q.op == HTC_KV_CAS_VERSION);
        is_stored(store, &q);
        cr_expect(htc_flows_records_get(records, n, &q) == HTC_EINVAL && htc_flows_records_get(records, UINT64_MAX, &q) == HTC_EINVAL);
        htc_flows_records_destroy(records);
        htc_flow_destroy(f);
        htc_store_close(store);
    }
}

/* What a task adds runs in the directory of the flow: also what a function adds, which runs in none itself. */
Test(flows_records, what_adds_tasks_has_the_directory)
{
    static const char text[] = "a: adds=output @call /lib/f.so f\nb: @call /lib/f.so f\nc: adds=stdout true\n";
    for (int private = 0; private < 2; private++) {
        htc_flows_options  o = { .size = sizeof o, .directory = private ? NULL : "/work", .inputs = private ? "/work" : NULL };
        htc_flow          *f = read_flow(text);
        htc_flows_records *records = NULL;
        cr_assert(htc_flows_records_create(NULL, f, &o, 1, &records, NULL) == HTC_OK);
        for (uint64_t i = 0; i < 3; i++) {
            htc_kv_request q = { 0 };
            graph_task     t;
            htc_task      *task = NULL;
            cr_assert(htc_flows_records_get(records, htc_flows_records_count(records) - 4 + i, &q) == HTC_OK);
            cr_assert(htc__graph_read(q.value, &t) == HTC_OK && t.adds == (i != 1) && htc_task_from_bytes(NULL, t.task, &task) == HTC_OK);
            cr_expect(private || i == 1 ? !task->directory : task->directory && strcmp(task->directory, "/work") == 0, "task %d", (int)i);
            htc_task_destroy(task);
        }
        htc_flows_records_destroy(records);
        htc_flow_destroy(f);
    }
}

/* Every task is live in one ledger, and says which; of a graph no ledger has more than it is home to. */
Test(flows_records, tasks_are_laid_out_as_is_asked)
{
    PROPERTY (rng, 150) {
        htc_flow          *f = NULL;
        htc_flows_records *records = NULL;
        htc_kv_request     q = { 0 };
        htc_flows_options  o = HTC_FLOWS_OPTIONS_INIT;
        htc_flow_generator g = { .size = sizeof g };
        uint64_t           tasks = 1 + htc_rng_below(&rng, htc_rng_below(&rng, 4) ? 300 : 9000), next = 0, ledgers = 0, largest = 0, least = tasks;
        int                bag = htc_rng_below(&rng, 2) == 0;
        g.shape = bag ? HTC_FLOW_BAG : HTC_FLOW_FANOUT;
        g.tasks = tasks;
        g.degree = 2;
        o.layout = (uint32_t)htc_rng_below(&rng, 3);
        o.workers = 1 + (uint32_t)htc_rng_below(&rng, 20);
        HOLDS(htc_flow_generate(NULL, &g, &f) == HTC_OK && htc_flow_total(f) == tasks);
        HOLDS(htc_flows_records_create(NULL, f, &o, 1 + htc_rng_below(&rng, 1000), &records, NULL) == HTC_OK);
        uint64_t home[300];
        for (uint64_t k = 1; k + 1 < htc_flows_records_count(records); k++) {
            ledger     l;
            graph_task t;
            HOLDS(htc_flows_records_get(records, k, &q) == HTC_OK);
            if (htc__ledger_read(q.value, &l) == HTC_OK) {
                uint64_t n = htc__ids_count(&l.live);
                HOLDS(l.live.n == (n > 0) && (n == 0 || l.live.at[0].from == next) && (bag || n <= LEDGER_HOME));
                for (uint64_t i = 0; i < n && next + i < 300; i++)
                    home[next + i] = ledgers;
                next += n;
                ledgers++;
                largest = n > largest ? n : largest;
                least = n < least ? n : least;
            } else {
                HOLDS(htc__graph_read(q.value, &t) == HTC_OK);
                uint64_t id = k - 1 - ledgers;
                HOLDS(id >= 300 || t.home == home[id]);
            }
        }
        HOLDS(next == tasks);
        HOLDS(o.layout != HTC_FLOWS_ONE || ledgers == (bag ? 1 : (tasks - 1) / LEDGER_HOME + 1));
        HOLDS(o.layout != HTC_FLOWS_RANDOM || tasks > LEDGER_HOME / 2 || ledgers == o.workers || tasks == 1);
        HOLDS(o.layout != HTC_FLOWS_EACH || tasks > 2000 || ledgers <= o.workers);
        htc_flows_records_destroy(records);
        htc_flow_destroy(f);
    }
}

Test(flows_records, what_is_out_of_range_is_refused)
{
    char               name[100] = { 0 };
    htc_flow          *f = read_flow(texts[0]);
    htc_flows_records *records = NULL;
    htc_error          error = { 0 };
    memset(name, 'a', sizeof name - 1);
    htc_flows_options no_name = HTC_FLOWS_OPTIONS_INIT, no_place = HTC_FLOWS_OPTIONS_INIT, no_size = { 0 }, no_layout = HTC_FLOWS_OPTIONS_INIT;
    no_layout.layout = HTC_FLOWS_RANDOM + 1;
    cr_expect(htc_flows_records_create(NULL, f, &no_layout, 1, &records, &error) == HTC_EINVAL);
    no_name.user = name;
    no_place.directory = "here";
    cr_expect(htc_flows_records_create(NULL, NULL, NULL, 1, &records, &error) == HTC_EINVAL && error.text[0]);
    cr_expect(htc_flows_records_create(NULL, f, NULL, 0, &records, &error) == HTC_EINVAL);
    cr_expect(htc_flows_records_create(NULL, f, NULL, 1, NULL, &error) == HTC_EINVAL);
    cr_expect(htc_flows_records_create(NULL, f, &no_name, 1, &records, &error) == HTC_EINVAL);
    cr_expect(htc_flows_records_create(NULL, f, &no_place, 1, &records, &error) == HTC_EINVAL);
    cr_expect(htc_flows_records_create(NULL, f, &no_size, 1, &records, &error) == HTC_EINVAL && !records);
    htc_flows_records_destroy(NULL);
    htc_flow_destroy(f);
}

Test(flows_records, memory_may_be_refused_at_any_step)
{
    htc_flows_options o = { sizeof o, "ada", 3, 4, 7, "/tmp", NULL, NULL, NULL, 0, 0, 0, 0, 0, HTC_FLOWS_RANDOM, NULL };
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        htc_flow *f = read_flow(texts[i]);
        ALLOC_FAIL_EVERY (fail, 1000) {
            htc_env            env = alloc_fail_env(&fail);
            htc_flows_records *records = NULL;
            htc_kv_request     q;
            htc_status         status = htc_flows_records_create(&env, f, &o, 1, &records, NULL);
            for (uint64_t k = 0; status == HTC_OK && k < htc_flows_records_count(records); k++)
                status = htc_flows_records_get(records, k, &q);
            cr_assert(status == (fail.refused ? HTC_ENOMEM : HTC_OK), "allocation %zu refused: %s", fail.fail_at, htc_status_name(status));
            htc_flows_records_destroy(records);
            cr_assert(fail.live == 0 && fail.wrong_sizes == 0);
        }
        htc_flow_destroy(f);
    }
}

static htc_status ask_next(void *ctx, const htc_steal_view *view, htc_rng *rng, uint32_t cap, uint32_t *out, uint32_t *count)
{
    (void)ctx;
    (void)rng;
    *count = cap > 0;
    out[0] = (view->self + 1) % view->n;
    return HTC_OK;
}

/* A flow may name a steal policy of the library, or of the registry that is given; a name is kept whole or refused. */
Test(flows_records, finds_steal_policies_in_a_registry)
{
    const htc_steal_policy mine = { .size = sizeof mine, .name = "site.next", .choose = ask_next };
    const htc_steal_policy longest = { .size = sizeof longest, .name = "a-name-that-has-32-bytes-exactly", .choose = ask_next };
    const htc_steal_policy fits = { .size = sizeof fits, .name = "a-name-of-31-bytes-as-they-fit-", .choose = ask_next };
    htc_registry          *r = NULL;
    htc_error              e = { 0 };
    flow                   f = { .state = FLOW_BUILDING };
    cr_assert(htc_registry_create(NULL, &r) == HTC_OK && htc_registry_add_builtin(r) == HTC_OK);
    cr_assert(htc_steal_register(r, &mine) == HTC_OK && htc_steal_register(r, &longest) == HTC_OK && htc_steal_register(r, &fits) == HTC_OK);
    cr_assert(strlen(longest.name) == 32 && strlen(fits.name) == 31 && sizeof f.steal == 32);
    cr_expect(eq(int, htc__submission_policy(&f, NULL, "site.next", NULL, &e), HTC_ENOTFOUND));
    cr_expect(strstr(e.text, "site.next") && !strstr(e.text, "added") && !f.steal[0], "%s", e.text);
    cr_expect(eq(int, htc__submission_policy(&f, NULL, "site.next", r, &e), HTC_OK));
    cr_expect(strcmp(f.steal, "site.next") == 0);
    cr_expect(eq(int, htc__submission_policy(&f, NULL, "near", r, &e), HTC_OK), "those of the library are there, too");
    cr_expect(eq(int, htc__submission_policy(&f, NULL, "site.other", r, &e), HTC_ENOTFOUND));
    cr_expect(strstr(e.text, "and those that were added") && strcmp(f.steal, "near") == 0, "%s", e.text);
    cr_expect(eq(int, htc__submission_policy(&f, NULL, longest.name, r, &e), HTC_ENOTFOUND), "no record has room for it");
    cr_expect(eq(int, htc__submission_policy(&f, NULL, fits.name, r, &e), HTC_OK));
    cr_expect(strcmp(f.steal, fits.name) == 0);
    cr_expect(eq(int, htc__submission_policy(&f, NULL, "", r, &e), HTC_OK), "the default");
    cr_expect(!f.steal[0]);
    htc_registry_destroy(r);
}
