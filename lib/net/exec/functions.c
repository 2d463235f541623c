/* Spans of function tasks: asked for, checked, answered. What their process does with them is in functions_process.c. */
#include "net/exec/functions.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/util.h"
#include "htcsched/client.h"
#include "net/files/files.h"

#define SPANS_MAX HTC__FN_SPANS_MAX

/* ---- the end of a span ---- */

static void free_span(htc__span *s)
{
    htc__functions *f = s->agent->functions;
    if (s->process)
        htc__process_leave(s->process, s);
    for (htc__span **at = &f->spans; *at; at = &(*at)->next)
        if (*at == s) {
            *at = s->next;
            f->n_spans--;
            break;
        }
    if (s->in_work) { /* the worker thread reads it: it is freed when that is done */
        s->abandoned = 1;
        return;
    }
    if (s->object_fd >= 0)
        close(s->object_fd);
    htc__span_book_destroy(s->book);
    htc_task_destroy(s->task);
    htc_buf_free(&s->key);
    htc_buf_free(&s->failed);
    htc_buf_free(&s->outputs);
    free(s->input);
    free(s->input_at);
    free(s);
}

void htc__span_answer_error(htc__span *s, htc_status status, const char *reason)
{
    htc_host_answer(s->agent->host, HTC_CALL_RUN_SPAN, s->tag, status, htc_bytes_of(reason));
    htc__functions_attend(s->agent);
    free_span(s);
}

static void put_ranges(const htc__span *s, htc_buf *list, uint64_t *n)
{
    uint64_t from, to;
    for (uint32_t i = 0; htc__span_book_range(s->book, i, &from, &to); i++) {
        htc__span_put_range(list, from, to);
        ++*n;
    }
}

static void answer(htc__span *s)
{
    htc_buf         ranges, body;
    htc__span_answer a = { .why = s->why, .begin = s->begin, .end = htc_host_wall(), .done = htc__span_book_done(s->book),
                           .failed = s->n_failed, .outputs = s->n_outputs, .failed_list = htc_buf_bytes(&s->failed),
                           .output_list = htc_buf_bytes(&s->outputs) };
    assert(!htc__span_book_out(s->book) && s->n_failed == htc__span_book_failures(s->book));
    if (!a.begin || a.end < a.begin)
        a.begin = a.end; /* nothing of it ran, or the wall clock was set back */
    memcpy(a.reason, s->reason, sizeof a.reason);
    htc_buf_init(&ranges, s->agent->env, 0);
    htc_buf_init(&body, s->agent->env, 0);
    put_ranges(s, &ranges, &a.ranges);
    if (!a.ranges) {
        a.why = HTC_OK;
        a.reason[0] = '\0';
    }
    a.range_list = htc_buf_bytes(&ranges);
    htc__span_answer_write(&body, &a);
    htc_status bad = s->failed.status != HTC_OK ? s->failed.status : s->outputs.status != HTC_OK ? s->outputs.status : ranges.status != HTC_OK ? ranges.status : body.status;
    if (bad == HTC_OK)
        htc_host_answer(s->agent->host, HTC_CALL_RUN_SPAN, s->tag, HTC_OK, htc_buf_bytes(&body));
    htc_buf_free(&ranges);
    htc_buf_free(&body);
    if (bad != HTC_OK) {
        htc__span_answer_error(s, bad, "what was run of the span is not known: there is no memory for it");
        return;
    }
    htc__functions_attend(s->agent);
    free_span(s);
}

int htc__span_settle(htc__span *s)
{
    if (htc__span_book_out(s->book) || !(s->stopping || htc__span_book_over(s->book)))
        return 0;
    answer(s);
    return 1;
}

void htc__span_stop(htc__span *s, htc_status why, const char *reason)
{
    if (s->stopping)
        return;
    s->stopping = 1;
    s->why = why;
    snprintf(s->reason, sizeof s->reason, "%s", reason);
    if (s->process && s->phase == SPAN_RUNS)
        htc__process_stop(s->process, s);
}

void htc__span_give_up(htc__span *s, htc_status why, const char *reason)
{
    if (htc__span_book_done(s->book) + htc__span_book_failures(s->book) == 0 && !s->stopping) {
        htc__span_answer_error(s, why, reason);
        return;
    }
    htc__span_stop(s, why, reason);
    if (htc__span_book_lost(s->book) != HTC_OK)
        htc__span_answer_error(s, HTC_ENOMEM, "what was run of the span is not known: there is no memory for it");
    else
        answer(s);
}

void htc__span_failed(htc__span *s, uint64_t number, htc_status status, const char *reason)
{
    htc__span_failure f = { .number = number, .status = status };
    snprintf(f.reason, sizeof f.reason, "%s", reason);
    htc__text_clean(f.reason);
    htc__span_put_failure(&s->failed, &f);
    s->n_failed++;
    if (s->n_failed >= HTC__SPAN_FAILED_MAX)
        htc__span_stop(s, HTC_EFULL, "so many tasks have failed that an answer holds no more");
}

/* ---- what it needs ---- */

static void check_object(void *arg)
{
    htc__span *s = arg;
    uint8_t    hash[32], want[32];
    char       path[PATH_MAX], hex[65];
    struct stat st;
    const char *digits = s->task->object + 4;
    snprintf(hex, sizeof hex, "%s", digits);
    int fd = htc__upload_open(s->agent, s->user, hex, path);
    s->checked = HTC_EINPUT;
    if (fd < 0 || fstat(fd, &st) != 0 || !S_ISREG(st.st_mode)) {
        snprintf(s->reason, sizeof s->reason, "the object %.80s cannot be read: %s: upload it anew", s->task->object,
                 fd < 0 ? strerror(errno) : "not a regular file");
        if (fd >= 0)
            close(fd);
        return;
    }
    s->checked = htc_content_unhex(digits, want) == HTC_OK ? htc_content_hash_fd(fd, hash, NULL) : HTC_EINPUT;
    if (s->checked == HTC_OK && memcmp(hash, want, sizeof hash) != 0)
        s->checked = HTC_ECORRUPT;
    if (s->checked == HTC_ECORRUPT)
        snprintf(s->reason, sizeof s->reason, "the object %.80s is damaged, its content has another hash: upload it anew", s->task->object);
    else if (s->checked != HTC_OK)
        snprintf(s->reason, sizeof s->reason, "the object %.80s cannot be read: %s", s->task->object, htc_strerror(s->checked));
    if (s->checked == HTC_OK)
        s->object_fd = fd;
    else
        close(fd);
}

static void object_checked(void *arg)
{
    htc__span *s = arg;
    char       reason[HTC__SPAN_REASON_MAX];
    s->in_work = 0;
    s->agent->in_work--;
    if (s->abandoned) {
        s->process = NULL;
        free_span(s);
        return;
    }
    s->phase = SPAN_OPENS;
    memcpy(reason, s->reason, sizeof reason);
    s->reason[0] = '\0';
    if (s->checked != HTC_OK)
        htc__span_answer_error(s, s->checked, reason);
    else
        htc__process_attend(s->process);
}

static void begin_check(htc__span *s)
{
    s->phase = SPAN_OPENS;
    if (s->task->kind != HTC_TASK_FUNCTION || s->task->object[0] == '/' || s->object_fd >= 0)
        return;
    s->phase = SPAN_CHECKS;
    s->in_work = 1;
    s->agent->in_work++;
    if (htc_host_work(s->agent->host, check_object, object_checked, s) != HTC_OK) {
        s->in_work = 0;
        s->agent->in_work--;
        htc__span_answer_error(s, HTC_ENOMEM, "out of memory");
    }
}

/* ---- which process ---- */

static int same_key(const htc_buf *a, const htc_buf *b)
{
    return htc_bytes_equal(htc_buf_bytes(a), htc_buf_bytes(b));
}

/* One that has the same key, else one that is not used; an idle one is ended so that there is one later. */
static htc__fn_process *find_process(htc__functions *f, const htc__span *s)
{
    htc__fn_process *unused = NULL, *idle = NULL;
    for (uint32_t i = 0; i < HTC__FN_PROCESSES; i++) {
        htc__fn_process *p = &f->process[i];
        if ((p->run || p->n_spans) && same_key(&p->key, &s->key))
            return p->ending || p->n_spans == HTC__FN_SPANS_MAX ? NULL : p;
        if (!p->run && !p->n_spans)
            unused = p;
        else if (!p->n_spans && !p->ending)
            idle = p;
    }
    if (!unused && idle)
        htc__process_end(idle);
    return unused;
}

static void on_attend(evutil_socket_t fd, short what, void *arg)
{
    htc_agent_host *a = arg;
    htc__functions *f = a->functions;
    (void)fd, (void)what;
    for (htc__span *s = f->spans, *next; s; s = next) {
        next = s->next;
        htc__fn_process *p = s->phase == SPAN_WAITS ? find_process(f, s) : NULL;
        if (p) {
            htc__process_take(p, s);
            begin_check(s);
        }
    }
    for (uint32_t i = 0; i < HTC__FN_PROCESSES; i++)
        htc__process_attend(&f->process[i]);
}

void htc__functions_attend(htc_agent_host *a)
{
    struct timeval now = { 0, 0 };
    if (!a->closing)
        event_add(a->functions->attend, &now);
}

void htc__functions_slots(htc_agent_host *a)
{
    for (uint32_t i = 0; i < HTC__FN_PROCESSES; i++)
        htc__process_slots(&a->functions->process[i]);
}

/* ---- the calls ---- */

/* What a process has for all of its tasks; what is of each task alone is not in it. */
static void put_key(htc_buf *b, const char *user, const htc_task *t)
{
    const htc_limits *l = &t->limits;
    const uint64_t    limits[] = { l->memory, l->virtual_memory, l->file_size, l->core_size, l->open_files, l->stack, l->data, l->processes,
                                   l->core_is_set };
    htc_put_str(b, user);
    for (size_t i = 0; i < sizeof limits / sizeof *limits; i++)
        htc_put_varint(b, limits[i]);
    for (size_t i = 0; i < t->n_env; i++)
        htc_put_str(b, t->env[i]);
}

static htc_status keep_input(htc__span *s, const htc__span_request *r)
{
    htc_reader in = htc_reader_of(r->input);
    if (!r->inputs)
        return HTC_OK;
    s->input = malloc(r->input.len);
    s->input_at = calloc(r->inputs + 1, sizeof *s->input_at);
    if (!s->input || !s->input_at)
        return HTC_ENOMEM;
    memcpy(s->input, r->input.data, r->input.len);
    s->input_bytes = r->input.len;
    for (uint64_t i = 0; i < r->inputs; i++) {
        s->input_at[i] = r->input.len - htc_reader_left(&in);
        (void)htc_get_bytes(&in);
    }
    s->input_at[r->inputs] = r->input.len;
    return HTC_OK;
}

static htc__span *span_of(const htc_agent_host *a, uint64_t run)
{
    for (htc__span *s = a->functions ? a->functions->spans : NULL; s; s = s->next)
        if (s->run == run)
            return s;
    return NULL;
}

static htc_status new_span(htc_agent_host *a, uint64_t tag, const htc__span_request *r, htc__span **out)
{
    htc__span *s = calloc(1, sizeof *s);
    if (!s)
        return HTC_ENOMEM;
    *s = (htc__span){ .agent = a, .run = r->run, .tag = tag, .from = r->from, .to = r->to, .phase = SPAN_WAITS, .object_fd = -1 };
    memcpy(s->user, r->user, sizeof s->user);
    htc_buf_init(&s->key, a->env, 0);
    htc_buf_init(&s->failed, a->env, 0);
    htc_buf_init(&s->outputs, a->env, 0);
    htc_status status = htc_task_from_bytes(NULL, r->task, &s->task);
    if (status == HTC_OK && s->task->kind == HTC_TASK_COMMAND)
        status = HTC_EUNSUPPORTED;
    if (status == HTC_OK)
        status = htc__span_book_create(a->env, r->from, r->to, &s->book);
    if (status == HTC_OK)
        status = keep_input(s, r);
    if (status == HTC_OK) {
        put_key(&s->key, s->user, s->task);
        status = s->key.status;
    }
    if (status != HTC_OK) {
        free_span(s);
        return status;
    }
    *out = s;
    return HTC_OK;
}

htc_status htc__functions_run(htc_agent_host *a, uint64_t tag, htc_bytes body)
{
    htc__functions   *f = a->functions;
    htc__span_request r;
    htc__span        *s = NULL, **last = &f->spans;
    htc_status        status = htc__span_request_read(body, &r);
    if (status != HTC_OK || span_of(a, r.run))
        return HTC_EPROTO;
    if (f->n_spans == SPANS_MAX)
        return HTC_EBUSY;
    status = new_span(a, tag, &r, &s);
    if (status != HTC_OK)
        return status;
    while (*last)
        last = &(*last)->next;
    *last = s;
    f->n_spans++;
    if (!f->program)
        htc__span_answer_error(s, HTC_EREFUSED, "function tasks are run by htc-fn, which is not beside htc-agent: install it there");
    else
        htc__functions_attend(a);
    return HTC_OK;
}

int htc__functions_take_back(htc_agent_host *a, uint64_t run)
{
    htc__span *s = span_of(a, run);
    if (!s)
        return 0;
    htc__span_stop(s, HTC_AGAIN, "taken back");
    htc__span_settle(s);
    return 1;
}

int htc__functions_signal(htc_agent_host *a, uint64_t run, uint32_t signal, htc_status why)
{
    htc__span *s = span_of(a, run);
    if (!s)
        return 0;
    if (!s->stopping || s->why == HTC_AGAIN) {
        s->stopping = 0;
        htc__span_stop(s, why, htc_strerror(why));
    }
    if (htc__span_settle(s) || signal != SIGKILL || s->killed)
        return 1;
    s->killed = 1;
    htc__process_kill(s->process);
    return 1;
}

/* ---- beginning and end ---- */

htc_status htc__functions_open(htc_agent_host *a, const char *program)
{
    htc__functions *f = calloc(1, sizeof *f);
    if (!f)
        return HTC_ENOMEM;
    a->functions = f;
    for (uint32_t i = 0; i < HTC__FN_PROCESSES; i++) {
        f->process[i] = (htc__fn_process){ .agent = a, .socket = -1, .event_fd = -1 };
        htc_buf_init(&f->process[i].key, a->env, 0);
        htc_buf_init(&f->process[i].unsent, a->env, 0);
    }
    f->attend = evtimer_new(a->host->base, on_attend, a);
    f->records = malloc(HTC__FN_RING);
    f->program = program ? strdup(program) : NULL;
    return f->attend && f->records && (f->program || !program) ? HTC_OK : HTC_ENOMEM;
}

void htc__functions_close(htc_agent_host *a)
{
    htc__functions *f = a->functions;
    if (!f)
        return;
    while (f->spans)
        free_span(f->spans);
    for (uint32_t i = 0; i < HTC__FN_PROCESSES; i++) {
        htc__process_free(&f->process[i]);
        htc_buf_free(&f->process[i].key);
        htc_buf_free(&f->process[i].unsent);
    }
    if (f->attend)
        event_free(f->attend);
    free(f->records);
    free(f->program);
    free(f);
    a->functions = NULL;
}
