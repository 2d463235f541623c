/* Tasks that add tasks: what is read, what is drawn, and a worker by hand that finds such a task wherever another one has left it. */
#include "expect.h"

#include <string.h>

#include "core/fault.h"
#include "property.h"
#include "roles/worker/addition.h"
#include "worker_rig.h"

TestSuite(worker_add);

enum { TASKS = 3, ADDED = 3 };

/* ---- what is read ---- */



static htc_status reads(const char *text, uint32_t *n, htc_error *e)
{
    htc_flow  *f = NULL;
    htc_status status = htc__addition_read(NULL, htc_bytes_of(text), &(addition_source){ .name = "stdout" }, &f, e);
    *n = f ? htc_flow_count(f) : 0;
    htc_flow_destroy(f);
    return status;
}

Test(worker_add, text_and_json_lines_are_read)
{
    static const struct {
        const char *text;
        htc_status  status;
        uint32_t    n;
        const char *why;
    } all[] = {
        { "", HTC_OK, 0, "" },
        { "\n# nothing\n  # more\n", HTC_OK, 0, "" },
        { "a: /bin/true\nb: after=a @noop\n/bin/true\n", HTC_OK, 3, "" },
        { "{\"name\": \"a\", \"command\": [\"/bin/true\"]}\n{\"name\": \"b\", \"command\": [\"/bin/true\"], \"after\": [\"a\"]}\n", HTC_OK, 2, "" },
        { "a: adds=stdout /bin/true\n", HTC_OK, 1, "" },
        { "a: after=elsewhere /bin/true\n", HTC_ESCHEMA, 0, "elsewhere" },
        { "a: after=b /bin/true\nb: after=a /bin/true\n", HTC_ECYCLE, 0, "a" },
        { "a: /bin/true | wc\n", HTC_ESCHEMA, 0, "shell" },
        { "a: adds=file /bin/true\n", HTC_ESCHEMA, 0, "stdout" },
        { "a: adds=stdout @noop\n", HTC_ESCHEMA, 0, "program" },
        { "a: count=1025 /bin/true\n", HTC_ETOOBIG, 0, "1024" },
        { "a: @read 1M\n", HTC_EUNSUPPORTED, 0, "a" },
        { "a: adds=output @call /x.so f\n", HTC_OK, 1, "" },
        { "a: adds=stdout @call /x.so f\n", HTC_ESCHEMA, 0, "output" },
        { "a: @call htc:0123456789012345678901234567890123456789012345678901234567890123 f\n", HTC_OK, 1, "" },
        { "a: @call ./x.so f\n", HTC_ESCHEMA, 0, "no absolute path" },
        { "<adag/>", HTC_ESCHEMA, 0, "" },
    };
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        htc_error e = { .status = HTC_OK };
        uint32_t  n;
        cr_expect(reads(all[i].text, &n, &e) == all[i].status, "%s: %s", all[i].text, e.text);
        cr_expect(n == all[i].n && (all[i].status == HTC_OK || strstr(e.text, all[i].why)), "%s: %u tasks, %s", all[i].text, n, e.text);
    }
}

Test(worker_add, who_reads_a_file_waits_for_who_makes_it)
{
    htc_flow  *f = NULL;
    htc_bytes  text = htc_bytes_of("a: in=x /bin/true\nb: out=x /bin/true\nc: out=y /bin/true\n"), twice = htc_bytes_of("a: out=x /bin/true\nb: out=x /bin/true\nc: in=x /bin/true\n");
    htc_error  e;
    const addition_source with = { .name = "stdout", .files = 1 }, without = { .name = "stdout" };
    cr_assert(htc__addition_read(NULL, text, &with, &f, &e) == HTC_OK && htc_flow_edges(f) == 1);
    htc_flow_destroy(f);
    cr_assert(htc__addition_read(NULL, text, &without, &f, &e) == HTC_OK && htc_flow_edges(f) == 0);
    htc_flow_destroy(f);
    cr_expect(htc__addition_read(NULL, twice, &with, &f, &e) == HTC_ESCHEMA && !f);
    cr_assert(htc__addition_read(NULL, twice, &without, &f, &e) == HTC_OK);
    htc_flow_destroy(f);
}

Test(worker_add, bounds_hold)
{
    char     *text = malloc(ADDITION_TEXT_MAX + 2);
    htc_error e;
    uint32_t  n;
    size_t    at = 0;
    cr_assert(text != NULL);
    memset(text, 'x', 234);
    strcpy(text + 234, ": /bin/true\n"); /* with "NUMBER/" one too many */
    cr_expect(reads(text, &n, &e) == HTC_ETOOBIG && reads(text + 1, &n, &e) == HTC_OK);
    for (uint32_t i = 0; i < ADDITION_TASKS_MAX; i++)
        at += (size_t)sprintf(text + at, "@noop\n");
    cr_expect(reads(text, &n, &e) == HTC_OK && n == ADDITION_TASKS_MAX);
    sprintf(text + at, "@noop\n");
    cr_expect(reads(text, &n, &e) == HTC_ETOOBIG);
    memset(text, '#', ADDITION_TEXT_MAX + 1);
    text[ADDITION_TEXT_MAX + 1] = 0;
    cr_expect(reads(text, &n, &e) == HTC_ETOOBIG);
    text[ADDITION_TEXT_MAX] = 0;
    cr_expect(reads(text, &n, &e) == HTC_OK && n == 0);
    free(text);
}

/* ---- what is drawn ---- */

Test(worker_add, numbers_are_drawn_once_and_in_order)
{
    PROPERTY (rng, 300) {
        flow     f = { .state = FLOW_RUNNING, .kind = FLOW_GRAPH, .tries = 1, .adds = 1, .tasks = 1 + htc_rng_below(&rng, 100) }, back;
        uint64_t own = f.tasks, from, first[200] = { 0 };
        htc_buf  b;
        htc_buf_init(&b, NULL, 0);
        for (int i = 0; i < 200; i++) {
            uint64_t   task = htc_rng_below(&rng, 150), before = f.tasks;
            uint32_t   n = 1 + (uint32_t)htc_rng_below(&rng, 1000), room = FLOW_DRAWN_MAX - f.n_drawn;
            const int  there = htc__flow_drawn(&f, task) != NULL;
            htc_status status = htc__flow_draw_numbers(&f, task, n, &from);
            HOLDS(status == (there ? HTC_EEXISTS : room ? HTC_OK : HTC_EFULL));
            HOLDS(status == HTC_OK ? from == before && f.tasks == before + n : f.tasks == before);
            HOLDS(status != HTC_EEXISTS || from == first[task]);
            if (status == HTC_OK)
                first[task] = from;
            if (htc_rng_below(&rng, 3) == 0)
                htc__flow_draw_is_noted(&f, htc_rng_below(&rng, 150));
        }
        HOLDS(f.added == f.tasks - own);
        htc__flow_write(&b, &f);
        HOLDS(htc__flow_read(htc_buf_bytes(&b), &back) == HTC_OK && back.tasks == f.tasks && back.added == f.added && back.n_drawn == f.n_drawn);
        for (uint32_t i = 0; i < f.n_drawn; i++) {
            const flow_drawn *x = &back.drawn[i], *y = &f.drawn[i];
            HOLDS(x->task == y->task && x->from == y->from && x->n == y->n && x->cancelled == y->cancelled);
        }
        htc_buf_free(&b);
    }
}

/* Marks beyond what there is room for are refused, and never grow to cover others. */
Test(worker_add, many_single_tasks_are_cancelled_and_no_others)
{
    flow f = { .state = FLOW_RUNNING, .kind = FLOW_GRAPH, .tries = 1, .tasks = 3 * FLOW_MARKS_MAX };
    for (uint64_t i = 0; i < FLOW_MARKS_MAX; i++)
        cr_assert(htc__flow_mark(&f, (ledger_span){ 3 * i, 3 * i + 1 }) == HTC_OK);
    cr_expect(htc__flow_mark(&f, (ledger_span){ 3 * FLOW_MARKS_MAX + 5, 3 * FLOW_MARKS_MAX + 6 }) == HTC_EFULL);
    for (uint64_t id = 0; id < f.tasks; id++)
        cr_expect(htc__flow_is_marked(&f, id) == (id % 3 == 0));
    cr_expect(htc__flow_mark(&f, (ledger_span){ 0, 1 }) == HTC_EEXISTS);
    cr_expect(htc__flow_mark(&f, (ledger_span){ 1, 2 }) == HTC_OK && f.n_marks == FLOW_MARKS_MAX);
    cr_expect(htc__flow_mark(&f, (ledger_span){ 0, f.tasks }) == HTC_OK && f.n_marks == 1);
}

/* What is cancelled adds nothing that runs. */
Test(worker_add, what_a_cancelled_task_adds_is_cancelled)
{
    flow     f = { .state = FLOW_RUNNING, .kind = FLOW_GRAPH, .tries = 1, .adds = 1, .tasks = 10 };
    uint64_t from;
    cr_assert(htc__flow_mark(&f, (ledger_span){ 3, 5 }) == HTC_OK);
    cr_assert(htc__flow_draw_numbers(&f, 4, 7, &from) == HTC_OK && from == 10);
    cr_assert(htc__flow_draw_numbers(&f, 5, 7, &from) == HTC_OK && from == 17);
    cr_expect(f.drawn[0].cancelled && !f.drawn[1].cancelled && f.n_marks == 1);
    cr_assert(htc__flow_mark(&f, (ledger_span){ 0, 24 }) == HTC_OK);
    cr_assert(htc__flow_draw_numbers(&f, 20, 2, &from) == HTC_OK && f.drawn[2].cancelled);
}

/* For people those that were inserted come last, for the store those that were added. */
Test(worker_add, numbers_for_people_are_in_another_order)
{
    PROPERTY (rng, 300) {
        flow f = { .inserted = htc_rng_below(&rng, 5), .added = htc_rng_below(&rng, 5) };
        f.tasks = 1 + htc_rng_below(&rng, 5) + f.inserted + f.added;
        uint64_t seen = 0, own = htc__flow_submitted(&f);
        for (uint64_t id = 0; id < f.tasks; id++) {
            uint64_t shown = htc__flow_shown(&f, id);
            HOLDS(shown < f.tasks && !(seen >> shown & 1) && htc__flow_stored(&f, shown) == id);
            HOLDS(htc__flow_is_inserted(&f, id) == (shown >= own + f.added));
            seen |= UINT64_C(1) << shown;
        }
    }
}

/* ---- a worker ---- */

typedef struct scene {
    rig        r;
    htc_buf    bytes;
    graph_task adder; /* in bytes */
    flow       header;
} scene;

static void begin(scene *s, uint64_t tasks)
{
    rig_open(&s->r, 3);
    htc_buf_init(&s->bytes, NULL, 0);
    rig_put_adder(&s->r, tasks);
}

static void start(scene *s)
{
    htc_worker_options o = rig_options();
    rig_start(&s->r, &o, NULL);
}

static void look(scene *s)
{
    cr_assert(rig_get_task(&s->r, 0, &s->bytes, &s->adder) && rig_get_header(&s->r, &s->header));
    s->header.task = s->header.inputs = htc_bytes_of(NULL); /* they lie in what is gone */
}

static void end(scene *s)
{
    htc_buf_free(&s->bytes);
    rig_close(&s->r);
}

static void expect_all_done(scene *s, uint64_t tasks)
{
    look(s);
    cr_expect(s->r.ended && s->r.status == HTC_OK && s->header.state == FLOW_ENDED);
    cr_expect(s->header.tasks == tasks && s->header.counts.done == tasks, "%llu done of %llu", (unsigned long long)s->header.counts.done,
              (unsigned long long)s->header.tasks);
}

Test(worker_add, what_a_task_prints_is_run)
{
    scene              s;
    htc_buf            b;
    graph_task         t;
    htc_worker_figures f = { .size = sizeof f };
    begin(&s, TASKS);
    start(&s);
    rig_pass(&s.r, HTC_SECOND);
    expect_all_done(&s, TASKS + ADDED);
    cr_expect(s.adder.added_from == TASKS && s.adder.n_added == ADDED && htc_bytes_equal(s.adder.added, htc_bytes_of(RIG_ADDED)));
    cr_expect(htc_worker_look(s.r.worker, &f) == HTC_OK && f.added == ADDED);
    htc_buf_init(&b, NULL, 0);
    cr_assert(rig_get_task(&s.r, TASKS + 1, &b, &t));
    cr_expect(htc_bytes_equal(t.name, htc_bytes_of("adder/second")) && t.parents.len == 2 && t.state == GRAPH_DONE);
    cr_assert(rig_get_task(&s.r, TASKS, &b, &t));
    cr_expect(htc_bytes_equal(t.name, htc_bytes_of("adder/first")) && htc__graph_n_children(&t) == 1);
    for (uint32_t i = 0; i < ADDED; i++) {
        uint64_t child;
        uint32_t parent;
        cr_assert(htc__graph_n_children(&s.adder) == ADDED);
        htc__graph_child(&s.adder, i, &child, &parent);
        cr_expect(child == TASKS + i && parent == (i == 1));
    }
    htc_buf_free(&b);
    end(&s);
}

Test(worker_add, a_task_that_prints_nothing_adds_nothing)
{
    scene s;
    begin(&s, TASKS);
    s.r.printed = NULL;
    start(&s);
    rig_pass(&s.r, HTC_SECOND);
    expect_all_done(&s, TASKS);
    end(&s);
}

/* It fails with the place, and is tried as often as any. */
Test(worker_add, a_task_that_prints_no_tasks_fails)
{
    scene s;
    begin(&s, TASKS);
    s.r.printed = "a: /bin/true\nb: after=c /bin/true\n";
    start(&s);
    rig_pass(&s.r, HTC_SECOND);
    look(&s);
    cr_expect(s.r.ended && s.header.counts.done == TASKS - 1 && s.header.counts.failed == 1 && s.header.tasks == TASKS && s.r.asked[HTC_CALL_RUN] == TASKS + 1);
    cr_expect(strstr(s.adder.outcome.reason, "adds no tasks") && strstr(s.adder.outcome.reason, "line 2") && strstr(s.adder.outcome.reason, "c"), "%s",
              s.adder.outcome.reason);
    end(&s);
}

/* What could not be written is noticed before the task is done: two make one file, a name leaves the directory. */
Test(worker_add, a_task_that_prints_tasks_which_cannot_be_stored_fails)
{
    static const char *const all[] = { "a: out=x /bin/true\nb: out=x /bin/true\n", "a: out=../x /bin/true\n" };
    for (size_t i = 0; i < 2; i++) {
        scene s;
        begin(&s, TASKS);
        look(&s);
        s.header.data = 1;
        rig_write_header(&s.r, &s.header);
        s.r.printed = all[i];
        start(&s);
        rig_pass(&s.r, HTC_SECOND);
        look(&s);
        cr_expect(s.r.ended && s.r.status == HTC_OK && s.header.counts.done == TASKS - 1 && s.header.counts.failed == 1, "%s: %s", all[i], htc_status_name(s.r.status));
        cr_expect(strstr(s.adder.outcome.reason, i ? "task a" : "both make"), "%s", s.adder.outcome.reason);
        end(&s);
    }
}

/* ---- functions ---- */

static void begin_functions(scene *s, uint64_t tasks)
{
    rig_open(&s->r, 3);
    htc_buf_init(&s->bytes, NULL, 0);
    rig_put_adder_of(&s->r, tasks, 1);
}

/* Of equal functions in one call, one of which adds tasks: what the others leave is nobody's. An added object is named from the directory of the
 * task that adds it, as what it runs there is. */
Test(worker_add, what_a_function_leaves_is_run)
{
    scene      s;
    graph_task t;
    htc_task  *task = NULL;
    htc_buf    b;
    begin_functions(&s, TASKS);
    s.r.printed = "a: ./run\nb: @call ./g.so g\nc: after=a,b @call /h.so h\n";
    start(&s);
    rig_pass(&s.r, HTC_SECOND);
    expect_all_done(&s, TASKS + 3);
    cr_expect(s.adder.added_from == TASKS && s.adder.n_added == 3 && htc_bytes_equal(s.adder.added, htc_bytes_of(s.r.printed)));
    cr_expect(s.r.asked[HTC_CALL_OUTPUT_READ] == 0 && s.r.asked[HTC_CALL_RUN] == 1);
    htc_buf_init(&b, NULL, 0);
    for (uint64_t i = 0; i < 3; i++) {
        static const char *const objects[] = { NULL, "/work/g.so", "/h.so" };
        cr_assert(rig_get_task(&s.r, TASKS + i, &b, &t) && htc_task_from_bytes(NULL, t.task, &task) == HTC_OK);
        cr_expect(objects[i] ? strcmp(task->object, objects[i]) == 0 : strcmp(task->directory, "/work") == 0);
        htc_task_destroy(task);
    }
    htc_buf_free(&b);
    end(&s);
}

Test(worker_add, a_function_that_leaves_nothing_adds_nothing)
{
    scene s;
    begin_functions(&s, TASKS);
    s.r.printed = NULL;
    start(&s);
    rig_pass(&s.r, HTC_SECOND);
    expect_all_done(&s, TASKS);
    cr_expect(s.adder.n_added == 0);
    end(&s);
}

/* It fails with the place, and is tried as often as any. */
Test(worker_add, a_function_that_leaves_no_tasks_fails)
{
    scene s;
    begin_functions(&s, TASKS);
    s.r.printed = "a: /bin/true\nb: after=c /bin/true\n";
    start(&s);
    rig_pass(&s.r, HTC_SECOND);
    look(&s);
    cr_expect(s.r.ended && s.header.counts.done == TASKS - 1 && s.header.counts.failed == 1 && s.header.tasks == TASKS && s.adder.failures == 2);
    cr_expect(s.adder.outcome.status == (uint32_t)HTC_ESTAGEOUT && strstr(s.adder.outcome.reason, "its output adds no tasks: line 2: output"), "%s",
              s.adder.outcome.reason);
    end(&s);
}

/* Of four, one fails, one is not run at first, one leaves nothing, and one adds. */
static htc_status one_of_four(rig *r, uint64_t id, const char **leaves)
{
    uint64_t *asked = r->ctx;
    *leaves = id % 4 == 3 ? RIG_ADDED : NULL;
    if (id % 4 == 0)
        return HTC_EEXIT;
    if (id % 4 != 1 || *asked >> id & 1)
        return HTC_OK;
    *asked |= UINT64_C(1) << id;
    return HTC_AGAIN;
}

Test(worker_add, functions_of_one_call_add_what_is_theirs)
{
    enum { MANY = 60 };
    scene    s;
    uint64_t asked = 0;
    begin_functions(&s, MANY);
    look(&s);
    for (uint64_t id = 1; id < MANY; id++)
        rig_put_task(&s.r, id, &s.adder);
    s.r.function = one_of_four;
    s.r.ctx = &asked;
    start(&s);
    rig_pass(&s.r, 5 * HTC_SECOND);
    look(&s);
    cr_expect(s.r.ended && s.header.tasks == MANY + MANY / 4 * ADDED && s.header.counts.failed == MANY / 4);
    cr_expect(s.header.counts.done == MANY / 4 * (3 + ADDED) && s.r.asked[HTC_CALL_RUN] == MANY / 4 * ADDED);
    cr_expect(s.r.asked[HTC_CALL_RUN_SPAN] < MANY, "%u calls", s.r.asked[HTC_CALL_RUN_SPAN]);
    for (uint64_t id = 0; id < MANY; id++) {
        cr_assert(rig_get_task(&s.r, id, &s.bytes, &s.adder));
        cr_expect(s.adder.n_added == (id % 4 == 3 ? ADDED : 0) && s.adder.state == (id % 4 ? GRAPH_DONE : GRAPH_FAILED));
    }
    end(&s);
}

/* Each adds the next, ten times: the first names lead back to the first task, the later ones to the one before. */
Test(worker_add, tasks_that_add_each_other_in_a_row_have_names)
{
    static const char *const names[] = { "adder/a-name-of-twenty-..", "adder/a-name-of-twenty-../a-name-of-twenty-..", "#4/a-name-of-twenty-..", "#4/a-name-of-twenty-../a-name-of-twenty-.." };
    scene      s;
    graph_task t;
    htc_buf    b;
    begin(&s, TASKS);
    s.r.printed = "a-name-of-twenty-..: adds=stdout /bin/true\n";
    start(&s);
    for (int i = 0; i < 1000 && rig_get_header(&s.r, &s.header) && s.header.tasks < TASKS + 4; i++)
        rig_pass(&s.r, HTC_MS);
    htc_buf_init(&b, NULL, 0);
    for (uint64_t i = 0; i < 4; i++) {
        cr_assert(rig_get_task(&s.r, TASKS + i, &b, &t));
        cr_expect(htc_bytes_equal(t.name, htc_bytes_of(names[i])), "%.*s", (int)t.name.len, (const char *)t.name.data);
    }
    htc_buf_free(&b);
    end(&s);
}

/* Where another worker has left it: done; drawn, too; noted, too; with the first of what it adds; with all of that, and the draw out of the header. */
Test(worker_add, whoever_takes_over_goes_on_from_any_step)
{
    for (int step = 0; step < 5; step++) {
        scene s;
        begin(&s, TASKS);
        look(&s);
        s.adder.state = GRAPH_DONE;
        s.adder.outcome = (graph_outcome){ .worker = 9, .epoch = 5, .attempt = 1, .ended = 1 };
        s.adder.added = htc_bytes_of(RIG_ADDED);
        s.adder.n_added = ADDED;
        htc_buf children;
        htc_buf_init(&children, NULL, 0);
        for (uint64_t i = 0; i < ADDED; i++) {
            htc_put_u64(&children, TASKS + i);
            htc_put_u32(&children, i == 1);
        }
        s.adder.added_from = step >= 2 ? TASKS : 0;
        s.adder.children = step >= 2 ? htc_buf_bytes(&children) : htc_bytes_of(NULL);
        rig_put_task(&s.r, 0, &s.adder);
        htc_buf_free(&children);
        if (step >= 1) {
            uint64_t from;
            cr_assert(htc__flow_draw_numbers(&s.header, 0, ADDED, &from) == HTC_OK);
            if (step == 4)
                htc__flow_draw_is_noted(&s.header, 0);
            rig_write_header(&s.r, &s.header);
        }
        for (uint64_t i = 0; step >= 3 && i < (step == 3 ? 1u : ADDED); i++) {
            uint8_t    parents[2] = { GRAPH_EDGE(GRAPH_RULE_ANY), GRAPH_EDGE(GRAPH_RULE_OK) | GRAPH_ENDED_OK };
            graph_task t = { .state = GRAPH_OPEN, .name = htc_bytes_of(i ? "adder/later" : "adder/first"), .task = s.adder.task,
                             .parents = { i == 1 ? parents : parents + 1, i == 1 ? 2 : 1 } };
            htc_buf    child;
            htc_buf_init(&child, NULL, 0);
            htc_put_u64(&child, TASKS + 1);
            htc_put_u32(&child, 0);
            if (i == 0)
                t.children = htc_buf_bytes(&child);
            rig_put_task(&s.r, TASKS + i, &t);
            htc_buf_free(&child);
        }
        start(&s);
        rig_pass(&s.r, HTC_SECOND);
        expect_all_done(&s, TASKS + ADDED);
        cr_expect(s.adder.added_from == TASKS && s.r.asked[HTC_CALL_RUN] == TASKS - 1 + ADDED, "step %d: %u runs", step, s.r.asked[HTC_CALL_RUN]);
        end(&s);
    }
}

typedef struct lost_answers {
    uint32_t seen, from;
} lost_answers;

/* From that one on none comes. */
static htc_status lose(void *ctx, uint32_t i, htc_status status)
{
    lost_answers *x = ctx;
    (void)i;
    return x->seen++ >= x->from ? HTC_EUNKNOWN : status;
}

/* Of all that the worker asks the last that is answered is what comes before its draw: that is stored, and the worker does not know. */
static void until_drawn(scene *s, lost_answers *x)
{
    for (x->from = 0;; x->from++) {
        begin(s, TASKS);
        x->seen = 0;
        s->r.answers = lose;
        s->r.ctx = x;
        start(s);
        rig_pass(&s->r, 60 * HTC_MS);
        look(s);
        if (s->header.tasks > TASKS)
            return;
        cr_assert(x->from < 100 && s->header.state == FLOW_RUNNING);
        end(s);
    }
}

/* A draw is not answered; another worker takes the task over, notes what was drawn, and takes that out of the header. */
static uint64_t tasks_after_a_late_answer(void)
{
    scene        s;
    lost_answers x;
    until_drawn(&s, &x);
    cr_assert(s.header.tasks == TASKS + ADDED && s.adder.added_from == 0);
    s.adder.added_from = s.header.drawn[0].from;
    rig_put_task(&s.r, 0, &s.adder);
    htc__flow_draw_is_noted(&s.header, 0);
    rig_write_header(&s.r, &s.header);
    s.r.answers = NULL;
    rig_pass(&s.r, 5 * HTC_SECOND);
    look(&s);
    uint64_t tasks = s.header.tasks;
    end(&s);
    return tasks;
}

Test(worker_add, a_task_draws_once_whoever_asks)
{
    cr_expect(tasks_after_a_late_answer() == TASKS + ADDED);
    htc__broken_set(htc__broken_find("drawn_unread"), 1);
    cr_expect(tasks_after_a_late_answer() > TASKS + ADDED, "nobody notices");
    htc__broken_set(htc__broken_find("drawn_unread"), 0);
}

/* More of them draw at once than the header has room for, some of which are dead. */
Test(worker_add, a_header_without_room_is_helped)
{
    scene    s;
    uint64_t from, tasks = FLOW_DRAWN_MAX + 1;
    begin(&s, tasks);
    look(&s);
    ledger l;
    htc__ledger_init(&l, (ledger_span){ 0, 1 });
    rig_put_ledger(&s.r, 0, &l);
    htc__ledger_init(&l, (ledger_span){ 1, tasks });
    htc__ledger_take(&l, 9, 5);
    rig_put_ledger(&s.r, 1, &l); /* of one that lives, and does nothing */
    for (uint64_t id = 1; id < tasks; id++) {
        graph_task t = s.adder;
        t.state = GRAPH_DONE;
        t.outcome = (graph_outcome){ .worker = 9, .epoch = 5, .attempt = 1, .ended = 1 };
        t.added = htc_bytes_of(RIG_ADDED);
        t.n_added = ADDED;
        rig_put_task(&s.r, id, &t);
        cr_assert(htc__flow_draw_numbers(&s.header, id, ADDED, &from) == HTC_OK);
    }
    rig_write_header(&s.r, &s.header);
    rig_other_worker(&s.r, 9, 5);
    start(&s);
    rig_pass(&s.r, 5 * HTC_SECOND);
    look(&s);
    cr_expect(s.adder.state == GRAPH_DONE && s.adder.added_from == tasks + FLOW_DRAWN_MAX * ADDED && s.header.n_drawn <= FLOW_DRAWN_MAX);
    cr_expect(htc__flow_drawn(&s.header, 0) != NULL && s.r.asked[HTC_CALL_RUN] == 1 + ADDED);
    uint64_t noted = 0; /* for them */
    for (uint64_t id = 1; id < tasks; id++) {
        cr_assert(rig_get_task(&s.r, id, &s.bytes, &s.adder));
        noted += s.adder.added_from != 0;
        cr_expect(s.adder.added_from == 0 || s.adder.added_from == tasks + (id - 1) * ADDED);
    }
    cr_expect(noted >= 1 && noted < FLOW_DRAWN_MAX);
    end(&s);
}

/* ---- room ---- */

/* All others of its ledger wait for what does not end: what it adds runs all the same, in another ledger. */
Test(worker_add, what_is_added_does_not_wait_for_the_rest_of_a_full_ledger)
{
    scene      s;
    graph_task t;
    uint8_t    parent = GRAPH_EDGE(GRAPH_RULE_OK);
    begin(&s, LEDGER_HOME);
    look(&s);
    for (uint64_t id = 1; id < LEDGER_HOME; id++)
        rig_put_task(&s.r, id, &(graph_task){ .state = GRAPH_OPEN, .name = htc_bytes_of("waits"), .task = s.adder.task, .parents = { &parent, 1 } });
    start(&s);
    rig_pass(&s.r, 5 * HTC_SECOND);
    cr_expect(s.r.asked[HTC_CALL_RUN] == 1 + ADDED, "%u runs", s.r.asked[HTC_CALL_RUN]);
    look(&s);
    cr_expect(s.adder.added_home != 0);
    htc_buf b;
    htc_buf_init(&b, NULL, 0);
    for (uint64_t i = 0; i < ADDED; i++)
        cr_expect(rig_get_task(&s.r, LEDGER_HOME + i, &b, &t) && t.state == GRAPH_DONE && t.home == s.adder.added_home);
    htc_buf_free(&b);
    end(&s);
}

/* As many as a ledger is home to, and each adds as many as it may. */
Test(worker_add, a_full_ledger_makes_room)
{
    enum { ADDERS = 40, MANY = 500 };
    scene  s;
    char  *text = malloc(MANY * 8 + 1);
    ledger l;
    rig_open(&s.r, 3);
    htc_buf_init(&s.bytes, NULL, 0);
    rig_put_adder(&s.r, LEDGER_HOME);
    look(&s);
    for (uint64_t id = 1; id < ADDERS; id++)
        rig_put_task(&s.r, id, &s.adder);
    cr_assert(text != NULL);
    for (size_t i = 0; i < MANY; i++)
        memcpy(text + i * 8, "/bin/tr\n", 8);
    text[MANY * 8] = 0;
    s.r.printed = text;
    start(&s);
    rig_pass(&s.r, 20 * HTC_SECOND);
    expect_all_done(&s, LEDGER_HOME + ADDERS * MANY);
    uint64_t ledgers = 0;
    while (rig_get_ledger(&s.r, ledgers, &l)) {
        cr_expect(l.live.n == 0 && l.n_out == 0);
        ledgers++;
    }
    cr_expect(ledgers > 1);
    free(text);
    end(&s);
}

/* What was added from outside, for another worker that has as many tasks as that. Its home: 1, that worker's ledger, or 0. */
static uint64_t home_of_what_is_added(uint64_t has)
{
    scene    s;
    ledger   l;
    uint64_t home;
    begin(&s, 1 + has);
    look(&s);
    htc__ledger_init(&l, (ledger_span){ 0, 1 });
    rig_put_ledger(&s.r, 0, &l);
    htc__ledger_init(&l, (ledger_span){ 1, 1 + has });
    htc__ledger_take(&l, 9, 5);
    rig_put_ledger(&s.r, 1, &l);
    graph_task t = s.adder;
    t.state = GRAPH_DONE;
    t.adds = GRAPH_ADDS_INTAKE;
    t.outcome = (graph_outcome){ .ended = 1 };
    t.added = htc_bytes_of(RIG_ADDED);
    t.n_added = ADDED;
    t.added_to = 9;
    rig_put_task(&s.r, 0, &t);
    rig_other_worker(&s.r, 9, 5);
    start(&s);
    rig_pass(&s.r, 5 * HTC_SECOND);
    look(&s);
    cr_expect(s.adder.added_from == 1 + has);
    home = s.adder.added_home;
    end(&s);
    return home;
}

Test(worker_add, a_worker_that_is_named_is_given_no_more_than_it_has_room_for)
{
    cr_expect(home_of_what_is_added(LEDGER_HOME - ADDED) == 1);
    cr_expect(home_of_what_is_added(LEDGER_HOME - ADDED + 1) == 0);
}
