/* Spans of function tasks through an executor, as a worker would ask for them. */
#ifndef HTC_TESTS_SPAN_DRIVE_H
#define HTC_TESTS_SPAN_DRIVE_H

#include "exec_drive.h"

#include "roles/runtime/span_wire.h"

enum { SPANS = 8 };

typedef struct one_span {
    htc_task         task;
    uint64_t         from, to, inputs;
    htc_buf          input;
    /* what came */
    int              answered;
    htc_status       status;
    char             text[300];
    htc_buf          body;
    htc__span_answer answer;
} one_span;

typedef struct spans {
    char     dir[256], slot[512], data[512];
    one_span span[SPANS];
    uint32_t n, slots, confine;
    uint32_t slots_then; /* not 0: SLOTS is called with it after the first span was asked for */
    const htc_env *env; /* of the executor */
    const char *program; /* NULL: htc-fn of this build; "": there is none */
    void (*between)(const struct spans *s); /* the spans are asked for one after the other; this happens before the next */
    /* when there is a file ready in dir: */
    uint32_t   kill_with; /* the process that it names */
    uint32_t   take_back, signal; /* of the first span: this */
    htc_status why;
    htc_ns     next;
    int        acted;
} spans;

static inline void spans_open(spans *s)
{
    memset(s, 0, sizeof *s);
    snprintf(s->dir, sizeof s->dir, "/tmp/htc-test-spans-XXXXXX");
    cr_assert(mkdtemp(s->dir) != NULL);
    snprintf(s->slot, sizeof s->slot, "%s/slots/0", s->dir);
    snprintf(s->data, sizeof s->data, "%s/data", s->dir);
    s->slots = 2;
}

static inline void spans_close(spans *s)
{
    for (uint32_t i = 0; i < s->n; i++) {
        htc_buf_free(&s->span[i].body);
        htc_buf_free(&s->span[i].input);
    }
    cr_expect(eq(int, htc__remove_tree(s->dir), 0));
}

/* One more; its number is the run's. */
static inline one_span *add_span(spans *s, uint32_t kind, const char *object, const char *function, const char *argument, uint64_t from, uint64_t to)
{
    one_span *x = &s->span[s->n++];
    x->task = (htc_task){ .kind = kind, .object = object, .function = function, .argument = argument, .values_json = "{}", .limits = { .cores = 1 } };
    x->from = from;
    x->to = to;
    htc_buf_init(&x->input, NULL, 0);
    htc_buf_init(&x->body, NULL, 0);
    return x;
}

static inline void say_span(htc_output *out, uint32_t op, uint64_t run, htc_buf *b)
{
    cr_assert(eq(int, htc_output_add(out, &(htc_effect){ .kind = HTC_OUT_CALL, .op = op, .tag = run, .body = htc_buf_bytes(b) }), HTC_OK));
    htc_buf_free(b);
}

static inline void ask_span(htc_output *out, uint32_t number, const one_span *x)
{
    htc__span_request r = { .run = number, .from = x->from, .to = x->to, .user = "ada", .inputs = x->inputs, .input = htc_buf_bytes(&x->input) };
    htc_buf           b;
    htc_buf_init(&b, NULL, 0);
    cr_assert(eq(int, htc_task_to_bytes(NULL, &x->task, &r.task), HTC_OK));
    htc__span_request_write(&b, &r);
    htc_work_free(NULL, r.task);
    say_span(out, HTC_CALL_RUN_SPAN, number, &b);
}

static inline void act(spans *s, htc_output *out)
{
    char path[600], text[64];
    snprintf(path, sizeof path, "%s/ready", s->dir);
    if (s->acted || htc__read_text(path, text, sizeof text) <= 0)
        return;
    s->acted = 1;
    if (s->kill_with)
        cr_assert(eq(int, kill((pid_t)atol(text), (int)s->kill_with), 0));
    htc_buf b;
    htc_buf_init(&b, NULL, 0);
    htc_put_u64(&b, 0);
    if (s->signal) {
        htc_put_u32(&b, s->signal);
        htc_put_u32(&b, (uint32_t)s->why);
    }
    if (s->signal || s->take_back)
        say_span(out, s->signal ? HTC_CALL_SIGNAL : HTC_CALL_TAKE_BACK, 0, &b);
    htc_buf_free(&b);
    if (s->take_back) {
        snprintf(path, sizeof path, "%s/go", s->dir);
        write_file(path, "");
    }
}

static inline void change_slots(htc_output *out, uint32_t slots)
{
    htc_buf b;
    htc_buf_init(&b, NULL, 0);
    htc_put_u32(&b, slots);
    say_span(out, HTC_CALL_SLOTS, 0, &b);
}

static inline htc_status spans_step(void *self, const htc_input *in, htc_output *out)
{
    spans *s = self;
    if (in->kind == HTC_IN_START) {
        for (uint32_t i = 0; i < (s->between ? 1 : s->n); i++)
            ask_span(out, i, &s->span[i]);
        if (s->slots_then)
            change_slots(out, s->slots_then);
    }
    if (in->kind == HTC_IN_TIMEOUT)
        act(s, out);
    if (in->kind == HTC_IN_RESULT) {
        one_span *x = &s->span[in->tag];
        cr_assert(in->op == HTC_CALL_RUN_SPAN && in->tag < s->n && !x->answered, "one answer for each");
        x->answered = 1;
        x->status = in->status;
        htc_put_raw(&x->body, in->body);
        if (in->status == HTC_OK)
            cr_assert(eq(int, htc__span_answer_read(htc_buf_bytes(&x->body), &x->answer), HTC_OK));
        else
            snprintf(x->text, sizeof x->text, "%.*s", (int)in->body.len, in->body.len ? (const char *)in->body.data : "");
        uint32_t answered = 0;
        for (uint32_t i = 0; i < s->n; i++)
            answered += s->span[i].answered != 0;
        if (answered == s->n) {
            stop(out);
        } else if (s->between) {
            s->between(s);
            ask_span(out, answered, &s->span[answered]);
        }
    }
    s->next = s->acted || !(s->kill_with || s->signal || s->take_back) ? HTC_NEVER : in->now + 2 * HTC_MS;
    return HTC_OK;
}

static inline htc_ns spans_deadline(const void *self)
{
    return ((const spans *)self)->next;
}

static inline void run_spans(spans *s)
{
    static const htc_machine_ops ops = { sizeof ops, spans_step, spans_deadline, NULL, 0 };
    static const char *const     seen[] = { BUILD, NULL };
    static const char *const     environ_of[] = { "PATH=/usr/bin:/bin", NULL };
    htc_agent_host_options       o = { .size = sizeof o, .slot_dir = s->slot, .data_dir = s->data, .agent = 99, .node = "here", .site = "local",
                                       .environ = environ_of, .slots = s->slots, .slots_max = 4, .confine = s->confine, .confined_paths = seen,
                                       .functions = s->program ? (*s->program ? s->program : NULL) : HTC_FN };
    htc_host                    *host;
    htc_agent_host              *agent;
    htc_error                    error = { 0 };
    cr_assert(eq(int, htc_host_create(NULL, NULL, &host), HTC_OK));
    cr_assert(eq(int, htc_agent_host_create(s->env, host, &o, &agent, &error), HTC_OK), "%s", error.text);
    cr_assert(eq(int, htc_host_run(host, &ops, s), HTC_OK));
    htc_host_destroy(host);
    htc_agent_host_destroy(agent);
    cr_expect(eq(int, children_left(), 0), "a child was left behind");
}

/* Each number of the span is in exactly one of done, failed and not run. Returns how many were not run. */
static inline uint64_t expect_all_told(const one_span *x)
{
    uint64_t rest = 0;
    cr_assert(eq(int, x->status, HTC_OK), "%s", x->text);
    htc_reader r = htc_reader_of(x->answer.range_list);
    for (uint64_t i = 0, from, to; i < x->answer.ranges; i++) {
        htc__span_get_range(&r, &from, &to);
        cr_expect(from >= x->from && to <= x->to);
        rest += to - from;
    }
    cr_expect(eq(u64, x->answer.done + x->answer.failed + rest, x->to - x->from));
    cr_expect(eq(int, x->answer.why == HTC_OK, rest == 0), "%s", x->answer.reason);
    return rest;
}

static inline htc__span_failure failure_at(const one_span *x, uint64_t i)
{
    htc__span_failure f = { 0 };
    htc_reader        r = htc_reader_of(x->answer.failed_list);
    cr_assert(i < x->answer.failed, "%llu have failed", (unsigned long long)x->answer.failed);
    for (uint64_t k = 0; k <= i; k++)
        htc__span_get_failure(&r, &f);
    return f;
}

/* All but this one are done, and this has failed so. */
static inline void expect_one_failure(const one_span *x, uint64_t number, htc_status status, const char *part)
{
    cr_expect(eq(u64, expect_all_told(x), 0));
    cr_expect(eq(u64, x->answer.failed, 1));
    htc__span_failure f = failure_at(x, 0);
    cr_expect(eq(u64, f.number, number));
    cr_expect(eq(int, f.status, status), "%s: %s", htc_status_name(f.status), f.reason);
    cr_expect(strstr(f.reason, part) != NULL, "%s", f.reason);
}

#endif
