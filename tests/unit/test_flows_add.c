/* Tasks are added to an open flow: what is written, what is refused, and that a refusal leaves everything as it was. */
#include "expect.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "htcsched/flows.h"
#include "roles/worker/intake.h"

TestSuite(flows_add);

static htc_flow *read_flow(const char *text)
{
    htc_flow *f = NULL;
    htc_error error = { 0 };
    cr_assert(htc_flow_read(NULL, htc_bytes_of(text), HTC_FLOW_AUTO, NULL, &f, &error) == HTC_OK, "%s", error.text);
    return f;
}

static htc_store *open_store(void)
{
    htc_store_options memory = { .size = sizeof memory, .address = "memory:" };
    htc_store        *store = NULL;
    cr_assert(htc_store_open(NULL, &memory, &store, NULL) == HTC_OK);
    return store;
}

static uint64_t submit(htc_store *store, const char *text, int started)
{
    htc_flow         *f = read_flow(text);
    htc_flows_options o = HTC_FLOWS_OPTIONS_INIT;
    uint64_t          id = 0;
    o.directory = "/tmp";
    cr_assert(htc_flows_submit(store, f, &o, &id, NULL) == HTC_OK && (!started || htc_flows_start(store, id, 0, NULL) == HTC_OK));
    htc_flow_destroy(f);
    return id;
}

static htc_status add(htc_store *store, uint64_t id, const char *text, char *name, htc_error *error)
{
    htc_flow  *f = read_flow(text);
    htc_status status = htc_flows_add(store, id, f, NULL, name, error);
    htc_flow_destroy(f);
    return status;
}

static htc_bytes get(htc_store *store, const flow_key *k, htc_buf *b)
{
    htc_kv_result r = { .size = sizeof r };
    cr_assert(htc_store_ask(store, &(htc_kv_request){ .size = sizeof(htc_kv_request), .op = HTC_KV_GET, .key = htc__flow_key_bytes(k) }, &r, NULL) == HTC_OK &&
              r.status == HTC_OK);
    htc_buf_clear(b);
    htc_put_raw(b, r.value);
    return htc_buf_bytes(b);
}

Test(flows_add, the_text_stands_in_the_intakes_record)
{
    htc_store *store = open_store();
    uint64_t   id = submit(store, "a: true\nintake: @intake\n", 1);
    char       name[HTC_FLOW_NAME_MAX + 1] = "";
    htc_buf    b;
    graph_task t;
    flow       h;
    flow_key   k = htc__flow_key_task(id, 1), header = htc__flow_key_header(id);
    htc_error  error = { 0 };
    htc_flows_view v = { .size = sizeof v };
    htc_buf_init(&b, NULL, 0);
    cr_assert(htc__flow_read(get(store, &header, &b), &h) == HTC_OK && h.intake == 2 && h.news == 0);
    cr_assert(htc_flows_look(store, id, &v, NULL) == HTC_OK && v.open == 1 && v.tasks == 2);
    cr_assert(htc__graph_read(get(store, &k, &b), &t) == HTC_OK && t.adds == GRAPH_ADDS_INTAKE && !htc__graph_is_ready(&t));
    cr_assert(add(store, id, "x: echo one\ny: after=x echo two\n", name, &error) == HTC_OK, "%s", error.text);
    cr_expect_str_eq(name, "intake");
    cr_assert(htc__graph_read(get(store, &k, &b), &t) == HTC_OK && t.state == GRAPH_DONE && t.n_added == 3 && t.added_intake && t.added_to == 0);
    htc_flow *f = NULL;
    cr_assert(htc__addition_read(NULL, t.added, &(addition_source){ .name = "intake", .intake = 1 }, &f, NULL) == HTC_OK && htc_flow_total(f) == 3 && htc_flow_edges(f) == 1);
    cr_expect(htc_flow_get(f, 2)->builtin == HTC_FLOW_INTAKE && strcmp(htc_flow_get(f, 2)->name, "intake.2") == 0);
    htc_flow_destroy(f);
    cr_assert(htc__flow_read(get(store, &header, &b), &h) == HTC_OK && h.intake == 2 && h.news == 2);
    /* nobody has taken that up: there is no worker */
    cr_expect(add(store, id, "z: true\n", name, &error) == HTC_AGAIN && error.text[0]);
    htc_buf_free(&b);
    htc_store_close(store);
}

Test(flows_add, a_closed_flow_takes_nothing)
{
    htc_store       *store = open_store();
    uint64_t         id = submit(store, "a: true\nintake: @intake\n", 1);
    htc_flows_adding o = HTC_FLOWS_ADDING_INIT;
    htc_error        error = { 0 };
    htc_flows_view   v = { .size = sizeof v };
    o.close = 1;
    cr_assert(htc_flows_add(store, id, NULL, &o, NULL, &error) == HTC_OK, "%s", error.text);
    cr_expect(htc_flows_look(store, id, &v, NULL) == HTC_OK && v.open == 0);
    cr_expect(add(store, id, "z: true\n", NULL, &error) == HTC_EBUSY && strstr(error.text, "closed"));
    cr_expect(htc_flows_add(store, id, NULL, &o, NULL, &error) == HTC_EBUSY);
    htc_store_close(store);
}

Test(flows_add, what_cannot_be_added_changes_nothing)
{
    static const struct {
        const char *text;
        htc_status  status;
    } wrong[] = { { "i: @intake\n", HTC_EINVAL },
                  { "r: @read 10\n", HTC_EUNSUPPORTED },
                  { "a/b: true\n", HTC_EINVAL },
                  { "many: count=1024 true\n", HTC_ETOOBIG },
                  { "intake.2: true\n", HTC_ESCHEMA } };
    htc_store *store = open_store();
    uint64_t   id = submit(store, "a: true\nintake: @intake\n", 1);
    htc_buf    b;
    graph_task t;
    flow       h;
    flow_key   k = htc__flow_key_task(id, 1), header = htc__flow_key_header(id);
    htc_buf_init(&b, NULL, 0);
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        htc_error  error = { 0 };
        htc_status status = add(store, id, wrong[i].text, NULL, &error);
        cr_expect(status == wrong[i].status, "%s%s %s", wrong[i].text, htc_status_name(status), error.text);
        cr_expect(error.text[0], "%s", wrong[i].text);
        cr_expect(htc__graph_read(get(store, &k, &b), &t) == HTC_OK && t.state == GRAPH_OPEN);
        cr_expect(htc__flow_read(get(store, &header, &b), &h) == HTC_OK && h.news == 0);
    }
    cr_expect(add(store, id, "many: count=1023 true\n", NULL, NULL) == HTC_OK);
    htc_buf_free(&b);
    htc_store_close(store);
}

Test(flows_add, an_addition_is_its_authors_however_late_it_is_stored)
{
    htc_store *store = open_store();
    uint64_t   id = submit(store, "a: true\nintake: @intake\n", 1);
    htc_buf    b, text;
    graph_task t, other;
    flow       h;
    uint32_t   n;
    flow_key   k = htc__flow_key_task(id, 1), header = htc__flow_key_header(id);
    htc_buf    again;
    htc_buf_init(&b, NULL, 0);
    htc_buf_init(&again, NULL, 0);
    htc_buf_init(&text, NULL, 0);
    htc_flow *f = read_flow("x: true\n");
    cr_assert(htc__flow_read(get(store, &header, &again), &h) == HTC_OK);
    cr_assert(htc__graph_read(get(store, &k, &b), &t) == HTC_OK);
    other = t;
    cr_assert(htc__intake_text(f, t.name, 0, &text, &n, NULL) == HTC_OK && n == 2);
    cr_expect(htc__intake_add(NULL, &h, id, &t, b.len, htc_buf_bytes(&text), 0, 5, 77, 1000, NULL) == HTC_OK);
    cr_expect(htc__intake_is_mine(&t, 77) && !htc__intake_is_mine(&t, 78) && !htc__intake_is_mine(&other, 77) && t.added_to == 5);
    cr_expect(htc__intake_add(NULL, &h, id, &t, b.len, htc_buf_bytes(&text), 0, 5, 78, 1000, NULL) == HTC_EEXISTS);
    cr_expect(htc__intake_news(&h, 2, 0) == HTC_OK && htc__intake_news(&h, 2, 0) == HTC_EEXISTS && h.intake == 2);
    htc_flow_destroy(f);
    htc_buf_free(&text);
    htc_buf_free(&again);
    htc_buf_free(&b);
    htc_store_close(store);
}

Test(flows_add, only_an_open_flow_that_runs_takes_tasks)
{
    htc_store *store = open_store();
    htc_error  error = { 0 };
    uint64_t   plain = submit(store, "a: true\nb: after=a true\n", 1), early = submit(store, "intake: @intake\n", 0), gone = submit(store, "intake: @intake\n", 1);
    cr_expect(add(store, plain, "z: true\n", NULL, &error) == HTC_EUNSUPPORTED);
    cr_expect(add(store, early, "z: true\n", NULL, &error) == HTC_EBUSY);
    cr_assert(htc_flows_cancel(store, gone, 0, UINT64_MAX, NULL) == HTC_OK);
    cr_expect(add(store, gone, "z: true\n", NULL, &error) == HTC_EBUSY && strstr(error.text, "cancelled"));
    cr_expect(add(store, 999, "z: true\n", NULL, &error) == HTC_ENOTFOUND);
    cr_expect(htc_flows_add(NULL, plain, NULL, NULL, NULL, NULL) == HTC_EINVAL && htc_flows_add(store, plain, NULL, NULL, NULL, NULL) == HTC_EINVAL);
    cr_expect(htc_flows_workers(store, plain, NULL, NULL, NULL) == HTC_EINVAL);
    htc_store_close(store);
}

/* The header says that there is something new: a hint. Here it has no room for one more byte. */
Test(flows_add, what_is_stored_is_added_whatever_becomes_of_the_hint)
{
    enum { TASKS = 200 }; /* so that the intake's number takes two bytes, and 0 one */
    htc_store *store = open_store();
    char      *pad = calloc(1, HTC_KV_VALUE_MAX);
    htc_error  error = { 0 };
    uint64_t   id = 0;
    htc_buf    b, full;
    graph_task t;
    flow       h;
    htc_flows_options o = HTC_FLOWS_OPTIONS_INIT;
    o.inputs = "/tmp";
    htc_buf_init(&b, NULL, 0);
    htc_buf_init(&full, NULL, 0);
    char text[TASKS * 16 + 32] = "";
    for (size_t i = 0, at = 0; i < TASKS; i++)
        at += (size_t)snprintf(text + at, sizeof text - at, "t%zu: true\n%s", i, i + 1 < TASKS ? "" : "intake: @intake\n");
    htc_flow *f = read_flow(text);
    cr_assert(pad && htc_flows_submit(store, f, &o, &id, NULL) == HTC_OK && htc_flows_start(store, id, 0, NULL) == HTC_OK);
    flow_key k = htc__flow_key_task(id, TASKS), header = htc__flow_key_header(id);
    cr_assert(htc__flow_read(get(store, &header, &b), &h) == HTC_OK && h.intake == TASKS + 1);
    memset(pad, 'x', HTC_KV_VALUE_MAX);
    pad[0] = '/';
    h.inputs = (htc_bytes){ pad, HTC_KV_VALUE_MAX - 1024 };
    htc__flow_write(&full, &h);
    h.inputs.len += HTC_KV_VALUE_MAX - full.len;
    htc_buf_clear(&full);
    htc__flow_write(&full, &h);
    cr_assert(full.status == HTC_OK && full.len == HTC_KV_VALUE_MAX);
    htc_kv_result r = { .size = sizeof r };
    cr_assert(htc_store_ask(store, &(htc_kv_request){ .size = sizeof(htc_kv_request), .op = HTC_KV_PUT, .key = htc__flow_key_bytes(&header), .value = htc_buf_bytes(&full) },
                            &r, NULL) == HTC_OK && r.status == HTC_OK);
    cr_expect(add(store, id, "x: @noop\n", NULL, &error) == HTC_OK, "%s", error.text);
    cr_expect(htc__graph_read(get(store, &k, &b), &t) == HTC_OK && t.state == GRAPH_DONE && t.n_added == 2);
    cr_expect(htc__flow_read(get(store, &header, &b), &h) == HTC_OK && h.news == 0);
    htc_flow_destroy(f);
    free(pad);
    htc_buf_free(&b);
    htc_buf_free(&full);
    htc_store_close(store);
}

/* Of one that was killed before it could say that it has added, and of whose tasks the flow was cancelled. */
Test(flows_add, a_flow_that_was_open_is_told_from_one_that_never_was)
{
    uint64_t  from;
    htc_error error = { 0 };
    flow      f = { .state = FLOW_RUNNING, .kind = FLOW_GRAPH, .tasks = 2, .intake = 2, .n_marks = 1, .marks = { { 0, 2 } } };
    cr_assert(htc__flow_draw_numbers(&f, 1, 3, &from) == HTC_OK);
    htc__flow_intake_has_drawn(&f, 1, 1);
    cr_expect(f.intake == 0 && htc__intake_look(&f, NULL, &error) == HTC_EBUSY, "%s", error.text);
}

Test(flows_add, an_intake_is_alone)
{
    static const char *const wrong[] = { "i: @intake\nj: @intake\n", "a: true\ni: after=a @intake\n", "i: @intake\na: after=i true\n", "i: count=2 @intake\n",
                                         "i: out=f @intake\n", "{\"name\": \"i i\", \"builtin\": \"intake\"}\n", "i: @intake 5\n" };
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        htc_flow *f = NULL;
        htc_error error = { 0 };
        cr_expect(htc_flow_read(NULL, htc_bytes_of(wrong[i]), HTC_FLOW_AUTO, NULL, &f, &error) != HTC_OK && error.text[0], "%s", wrong[i]);
        htc_flow_destroy(f);
    }
}

Test(flows_add, intakes_are_numbered)
{
    static const char *const names[][2] = { { "intake", "intake.2" }, { "intake.2", "intake.3" }, { "intake.9", "intake.10" }, { "x.09", "x.09.2" }, { "7", "7.2" }, { ".5", ".5.2" } };
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        htc_buf  text;
        uint32_t n = 0;
        char     wanted[64];
        htc_buf_init(&text, NULL, 0);
        cr_assert(htc__intake_text(NULL, htc_bytes_of(names[i][0]), 0, &text, &n, NULL) == HTC_OK && n == 1);
        snprintf(wanted, sizeof wanted, "{\"name\": \"%s\", \"builtin\": \"intake\"}\n", names[i][1]);
        cr_expect(htc_bytes_equal(htc_buf_bytes(&text), htc_bytes_of(wanted)), "%.*s", (int)text.len, (const char *)text.data);
        htc_buf_clear(&text);
        cr_expect(htc__intake_text(NULL, htc_bytes_of(names[i][0]), 1, &text, &n, NULL) == HTC_OK && n == 0 && text.len == 0);
        htc_buf_free(&text);
    }
}
