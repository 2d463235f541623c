/* Flows in a store in which tasks wait for more others than a record has room for: what is told of them is of the tasks that were submitted,
 * while they run, when they have ended, and when they go on. */
#include "expect.h"

#include <stdlib.h>
#include <string.h>

#include "flow_wide.h"
#include "htcsched/flows.h"
#include "roles/worker/flow.h"
#include "roles/worker/graph_task.h"

TestSuite(flows_wide);

enum { MIDDLE = 5000, ALL = MIDDLE + 2, BEHIND = 2, BEFORE = 5, INSERTED = BEHIND + BEFORE };
#define NONE UINT64_MAX /* a task that fails */

/* One before 5,000, by each rule in turn or by one, and one behind them all. */
static htc_flow *diamond(uint32_t rules, uint32_t last)
{
    htc_flow *f = flow_empty();
    for (uint32_t i = 0; i < ALL; i++)
        (void)flow_put(f, NULL);
    for (uint32_t i = 1; i <= MIDDLE; i++)
        cr_assert(htc_flow_after(f, i, 0, i % rules) == HTC_OK && htc_flow_after(f, ALL - 1, i, last) == HTC_OK);
    cr_assert(eq(int, htc_flow_check(f, NULL), HTC_OK));
    return f;
}

static htc_store *open_store(void)
{
    htc_store_options memory = { .size = sizeof memory, .address = "memory:" };
    htc_store        *store = NULL;
    cr_assert(htc_store_open(NULL, &memory, &store, NULL) == HTC_OK);
    return store;
}

static htc_kv_result ask(htc_store *store, uint32_t op, const flow_key *k, htc_bytes value)
{
    htc_kv_result  r = { .size = sizeof r };
    htc_kv_request q = { .size = sizeof q, .op = op, .key = htc__flow_key_bytes(k), .value = value };
    cr_assert(htc_store_ask(store, &q, &r, NULL) == HTC_OK && r.status == HTC_OK);
    return r;
}

static htc_flows_view look(htc_store *store, uint64_t id)
{
    htc_flows_view v = { .size = sizeof v };
    cr_assert(eq(int, htc_flows_look(store, id, &v, NULL), HTC_OK));
    return v;
}

typedef struct records {
    graph_task t[ALL + INSERTED];
    uint8_t    parents[ALL + INSERTED][GRAPH_PARENTS_MAX];
    htc_buf    bytes[ALL + INSERTED];
} records;

static void end(records *r, uint64_t i, int done)
{
    graph_outcome o = { .worker = 1, .attempt = 1, .began = 1, .ended = 2 };
    if (!htc__graph_is_terminal(&r->t[i]))
        cr_assert(eq(int, htc__graph_end(&r->t[i], done, 0, 1, &o), HTC_OK));
    for (uint32_t k = 0; k < htc__graph_n_children(&r->t[i]); k++) {
        uint64_t child;
        uint32_t parent;
        htc__graph_child(&r->t[i], k, &child, &parent);
        if (htc__graph_tell(&r->t[child], r->parents[child], parent, htc__graph_told_as(&r->t[i])) == HTC_OK && htc__graph_is_terminal(&r->t[child]))
            end(r, child, 0);
    }
}

/* As workers would leave it if this task failed and all others went well; the header as its collector would. */
static void play(htc_store *store, uint64_t id, uint64_t tasks, uint64_t bad)
{
    records *r = calloc(1, sizeof *r);
    flow     f;
    htc_buf  head, again;
    int      ran = 1;
    cr_assert(r != NULL);
    htc_buf_init(&head, NULL, 0);
    htc_buf_init(&again, NULL, 0);
    for (uint64_t i = 0; i < tasks; i++) {
        flow_key k = htc__flow_key_task(id, i);
        htc_buf_init(&r->bytes[i], NULL, 0);
        htc_put_raw(&r->bytes[i], ask(store, HTC_KV_GET, &k, htc_bytes_of(NULL)).value);
        cr_assert(eq(int, htc__graph_read(htc_buf_bytes(&r->bytes[i]), &r->t[i]), HTC_OK));
    }
    while (ran) {
        ran = 0;
        for (uint64_t i = 0; i < tasks; i++)
            if (htc__graph_is_ready(&r->t[i])) {
                end(r, i, i != bad);
                ran = 1;
            }
    }
    flow_key k = htc__flow_key_header(id);
    htc_put_raw(&head, ask(store, HTC_KV_GET, &k, htc_bytes_of(NULL)).value);
    cr_assert(eq(int, htc__flow_read(htc_buf_bytes(&head), &f), HTC_OK));
    for (uint64_t i = 0; i < tasks; i++) {
        f.counts.done += r->t[i].state == GRAPH_DONE;
        f.counts.failed += r->t[i].state == GRAPH_FAILED;
        f.counts.cancelled += r->t[i].state == GRAPH_CANCELLED;
        htc__graph_write(&again, &r->t[i]);
        flow_key own = htc__flow_key_task(id, i);
        (void)ask(store, HTC_KV_PUT, &own, htc_buf_bytes(&again));
        htc_buf_free(&r->bytes[i]);
    }
    f.state = FLOW_ENDED;
    htc__flow_write(&again, &f);
    (void)ask(store, HTC_KV_PUT, &k, htc_buf_bytes(&again));
    htc_buf_free(&head);
    htc_buf_free(&again);
    free(r);
}

typedef struct listed {
    uint64_t submitted, inserted, wrong;
    uint32_t states[ALL];
} listed;

static int see(void *ctx, const htc_flows_task *t)
{
    listed *l = ctx;
    char    name[16];
    snprintf(name, sizeof name, "t%llu", (unsigned long long)t->number);
    l->wrong += t->number != l->submitted + l->inserted || t->inserted != (t->number >= ALL) || (!t->inserted && strcmp(t->name, name) != 0) || t->parents > 1024 ||
                t->n_children > 4096;
    l->submitted += !t->inserted;
    l->inserted += t->inserted;
    return 1;
}

Test(flows_wide, every_task_is_told_of_and_inserted_ones_are_known)
{
    htc_store *store = open_store();
    htc_flow  *f = diamond(1, HTC_FLOW_OK);
    uint64_t   id = 0;
    listed    *l = calloc(1, sizeof *l);
    cr_assert(l && htc_flows_submit(store, f, NULL, &id, NULL) == HTC_OK && htc_flows_start(store, id, 0, NULL) == HTC_OK);
    cr_assert(eq(int, htc_flows_tasks(store, id, see, l, NULL), HTC_OK));
    cr_expect(l->submitted == ALL && l->inserted == INSERTED && l->wrong == 0, "%llu, %llu, %llu", (unsigned long long)l->submitted, (unsigned long long)l->inserted,
              (unsigned long long)l->wrong);
    cr_expect(eq(int, htc_flows_tasks(store, id + 1, see, l, NULL), HTC_ENOTFOUND));
    free(l);
    htc_flow_destroy(f);
    htc_store_close(store);
}

/* Every pattern by the rules of the middle ones: ok; ok and any; ok, any and failed. */
Test(flows_wide, counts_are_of_the_tasks_that_were_submitted)
{
    static const struct {
        uint32_t rules, last;
        uint64_t bad, done, failed, cancelled;
    } rows[] = {
        { 1, HTC_FLOW_OK, NONE, ALL, 0, 0 },        /* all goes well */
        { 1, HTC_FLOW_OK, 0, 0, 1, ALL - 1 },       /* the first fails */
        { 1, HTC_FLOW_OK, 77, ALL - 2, 1, 1 },      /* one in the middle, so the last is cancelled */
        { 1, HTC_FLOW_ANY, 77, ALL - 1, 1, 0 },     /* the last does not mind */
        { 1, HTC_FLOW_FAILED, NONE, ALL - 1, 0, 1 }, /* the last was to run only if all fail */
        { 2, HTC_FLOW_ANY, 0, 1 + MIDDLE / 2, 1, MIDDLE / 2 },
        { 3, HTC_FLOW_ANY, 0, 1 + MIDDLE - MIDDLE / 3, 1, MIDDLE / 3 },
        { 3, HTC_FLOW_ANY, NONE, ALL - (MIDDLE + 1) / 3, 0, (MIDDLE + 1) / 3 },
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        htc_store     *store = open_store();
        htc_flow      *f = diamond(rows[i].rules, rows[i].last);
        uint64_t       id = 0;
        cr_assert(htc_flows_submit(store, f, NULL, &id, NULL) == HTC_OK && htc_flows_start(store, id, 0, NULL) == HTC_OK);
        htc_flows_view v = look(store, id);
        cr_expect(v.tasks == ALL && v.done == 0 && v.failed == 0 && v.cancelled == 0 && v.inserted > BEFORE);
        play(store, id, ALL + v.inserted, rows[i].bad);
        v = look(store, id);
        cr_expect(v.tasks == ALL && v.done == rows[i].done && v.failed == rows[i].failed && v.cancelled == rows[i].cancelled, "row %zu: %llu %llu %llu of %llu", i,
                  (unsigned long long)v.done, (unsigned long long)v.failed, (unsigned long long)v.cancelled, (unsigned long long)v.tasks);
        htc_flow_destroy(f);
        htc_store_close(store);
    }
}

/* The first has failed, and half of the middle ones waited for just its end. When it goes on they wait for it again, through the inserted
 * task that was done. */
Test(flows_wide, what_goes_on_is_what_was_submitted)
{
    htc_store *store = open_store();
    htc_flow  *f = diamond(2, HTC_FLOW_OK);
    uint64_t   id = 0, next = 0, tasks = 0;
    cr_assert(htc_flows_submit(store, f, NULL, &id, NULL) == HTC_OK && htc_flows_start(store, id, 0, NULL) == HTC_OK);
    play(store, id, ALL + look(store, id).inserted, 0);
    cr_assert(eq(int, htc_flows_resume(store, id, NULL, &next, &tasks, NULL), HTC_OK));
    cr_expect(eq(u64, tasks, ALL - MIDDLE / 2)); /* all but those that are done */
    htc_flows_view v = look(store, next);
    cr_expect(eq(u64, v.tasks, tasks));
    cr_assert(eq(int, htc_flows_start(store, next, 0, NULL), HTC_OK));
    play(store, next, v.tasks + v.inserted, NONE);
    v = look(store, next);
    cr_expect(v.done == tasks && v.failed == 0 && v.cancelled == 0);
    htc_flow_destroy(f);
    htc_store_close(store);
}
