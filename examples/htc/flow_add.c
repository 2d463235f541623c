/* htc flow add, close, workers: tasks for an open flow that runs, and who works at it. */
#include "flow.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define AT_ONCE 1023 /* tasks that are added in one step, and */
#define BYTES   ((size_t)120 << 10) /* of their JSON lines */

#define PAUSE_MS     2 /* until what was added before has been taken up, growing to */
#define PAUSE_MAX_MS 100

/* ---- who works at it ---- */

typedef struct some_workers {
    htc_flows_worker *all; /* node: each its own */
    size_t            n, cap;
} some_workers;

static int keep_worker(void *ctx, const htc_flows_worker *w)
{
    some_workers *s = ctx;
    if (s->n == s->cap)
        s->all = must(realloc(s->all, (s->cap = s->cap * 2 + 16) * sizeof *s->all));
    s->all[s->n++] = (htc_flows_worker){ .number = w->number, .slots = w->slots, .node = must_dup(w->node), .address = must_dup(w->address) };
    return 1;
}

static void workers_free(some_workers *s)
{
    for (size_t i = 0; i < s->n; i++) {
        free((char *)(uintptr_t)s->all[i].node);
        free((char *)(uintptr_t)s->all[i].address);
    }
    free(s->all);
}

htc_status flow_workers(flow_call *k)
{
    some_workers   s = { 0 };
    htc_flows_view v = { .size = sizeof v };
    uint64_t       id = 0;
    htc_status     status = flow_number(k, k->w.at[0], &id);
    if (status == HTC_OK)
        status = flow_open_store(k);
    if (status == HTC_OK)
        status = htc_flows_look(k->store, id, &v, &k->c->error);
    if (status == HTC_OK)
        status = htc_flows_workers(k->store, id, keep_worker, &s, &k->c->error);
    if (status == HTC_OK && k->c->json) {
        json_t *all = json_array();
        for (size_t i = 0; i < s.n; i++)
            json_array_append_new(all, json_pack("{s:I, s:s, s:I, s:s}", "worker", (json_int_t)s.all[i].number, "node", s.all[i].node, "slots", (json_int_t)s.all[i].slots,
                                                 "address", s.all[i].address));
        flow_put_json(k, all);
    } else if (status == HTC_OK) {
        table t;
        table_begin(&t, ">WORKER", "NODE", ">SLOTS", "ADDRESS", NULL);
        for (size_t i = 0; i < s.n; i++)
            table_row(&t, "%" PRIu64 "\t%s\t%u\t%s", s.all[i].number, s.all[i].node, s.all[i].slots, s.all[i].address);
        table_end(k->c, &t);
    }
    workers_free(&s);
    return status;
}

/* Numbers of workers, or names of nodes, with commas: those that it means are kept. */
static htc_status choose(flow_call *k, some_workers *s)
{
    char  *copy = must_dup(k->to), *rest = NULL, *unknown = NULL;
    size_t n = 0;
    for (char *word = strtok_r(copy, ",", &rest); word && !unknown; word = strtok_r(NULL, ",", &rest)) {
        char    *end;
        uint64_t number = strtoull(word, &end, 10);
        int      named = *end != '\0' || *word < '0' || *word > '9', some = 0;
        for (size_t i = 0; i < s->n; i++) {
            int meant = named ? strcmp(s->all[i].node, word) == 0 : s->all[i].number == number;
            some |= meant;
            if (meant && i >= n) { /* below: it was meant before */
                htc_flows_worker x = s->all[i];
                s->all[i] = s->all[n];
                s->all[n++] = x;
            }
        }
        if (!some)
            unknown = must_dup(word);
    }
    for (size_t i = n; i < s->n; i++) {
        free((char *)(uintptr_t)s->all[i].node);
        free((char *)(uintptr_t)s->all[i].address);
    }
    s->n = n;
    free(copy);
    htc_status status = unknown ? cli_error(k->c, HTC_ENOTFOUND, "--to", "htc flow workers lists them; each is a share for every worker",
                                            "no worker of the flow is, or is on, '%.60s'", unknown) :
                        n ? HTC_OK : cli_error(k->c, HTC_EUSAGE, "--to", "htc flow workers lists them", "no worker is named");
    free(unknown);
    return status;
}

static htc_status find_workers(flow_call *k, uint64_t id, some_workers *s)
{
    if (!k->to)
        return HTC_OK;
    htc_status status = htc_flows_workers(k->store, id, keep_worker, s, &k->c->error);
    return status == HTC_OK && strcmp(k->to, "each") != 0 ? choose(k, s) : status;
}

/* ---- in parts ---- */

static uint64_t files_of(const htc_flow_task *t)
{
    return t->n_in + t->n_out;
}

/* No task of it has to be added together with another one. */
static int falls_apart(const htc_flow *f, int scratch)
{
    int apart = htc_flow_edges(f) == 0;
    for (uint32_t i = 0; i < htc_flow_count(f) && apart; i++)
        apart = !scratch || !files_of(htc_flow_get(f, i)); /* a file that one makes another may read */
    return apart;
}

/* As JSON, in which some bytes are written as several. */
static size_t text_bytes(const char *text)
{
    size_t n = 4; /* quotes, comma, blank */
    for (const char *p = text ? text : ""; *p; p++)
        n += (unsigned char)*p < 0x20 ? 6 : *p == '"' || *p == '\\' ? 2 : 1;
    return n;
}

/* Of its line, no less than they are. */
static size_t bytes_of(const htc_flow_task *t)
{
    size_t n = 300 + text_bytes(t->name) + text_bytes(t->kind) + text_bytes(t->executable) + text_bytes(t->object) + text_bytes(t->function) + text_bytes(t->argument);
    for (size_t i = 0; i < t->n_args; i++)
        n += text_bytes(t->args[i]);
    for (size_t i = 0; i < t->n_env; i++)
        n += text_bytes(t->env[i]);
    for (size_t i = 0; i < t->n_in; i++)
        n += text_bytes(t->in[i].name) + 40;
    for (size_t i = 0; i < t->n_out; i++)
        n += text_bytes(t->out[i].name) + 40;
    return n;
}

/* Some of its tasks, from the one on: no more than most. *next: behind the last. */
static htc_status part_of(flow_call *k, const htc_flow *f, uint32_t from, uint64_t most, htc_flow **part, uint32_t *next)
{
    size_t     bytes = 0;
    uint64_t   tasks = 0;
    htc_status s = htc_flow_create(NULL, NULL, part);
    for (*next = from; s == HTC_OK && *next < htc_flow_count(f); ++*next) {
        const htc_flow_task *t = htc_flow_get(f, *next);
        size_t               len = bytes_of(t);
        if (*next > from && (tasks + t->count > most || bytes + len > BYTES))
            break;
        tasks += t->count;
        bytes += len;
        s = htc_flow_add(*part, t, NULL, &k->c->error);
    }
    return s == HTC_OK ? htc_flow_check(*part, &k->c->error) : s;
}

typedef struct addition {
    flow_call *k;
    uint64_t   id, tasks;
    progress   p;
    json_t    *intakes; /* names */
    char       first[HTC_FLOW_NAME_MAX + 1], last[HTC_FLOW_NAME_MAX + 1];
} addition;

/* As soon as what was added before has been taken up. */
static htc_status add_one(addition *a, const htc_flow *part, uint64_t worker, int last)
{
    htc_flows_adding o = { .size = sizeof o, .worker = worker, .close = (uint32_t)last };
    unsigned         pause = PAUSE_MS;
    double           begun = now_s();
    htc_status       s;
    while ((s = htc_flows_add(a->k->store, a->id, part, &o, a->last, &a->k->c->error)) == HTC_AGAIN) {
        if (a->k->c->timeout_s > 0 && now_s() - begun > a->k->c->timeout_s) {
            char hint[60];
            snprintf(hint, sizeof hint, "htc flow why %" PRIu64 " says what the flow waits for", a->id);
            return cli_error(a->k->c, HTC_ETIMEDOUT, "", hint, "no worker has taken up what was added before within %.3g s", a->k->c->timeout_s);
        }
        progress_say(&a->p, "flow %" PRIu64 ": %" PRIu64 " task%s added; the next wait until a worker has taken up those before", a->id, a->tasks, plural(a->tasks));
        pause_ms(pause);
        pause = pause * 2 < PAUSE_MAX_MS ? pause * 2 : PAUSE_MAX_MS;
    }
    if (s != HTC_OK)
        return s;
    a->tasks += part ? htc_flow_total(part) : 0;
    if (!a->first[0])
        memcpy(a->first, a->last, sizeof a->first);
    json_array_append_new(a->intakes, json_string(a->last));
    return HTC_OK;
}

static htc_status add_parts(addition *a, const htc_flow *f, const some_workers *to)
{
    uint64_t   total = htc_flow_total(f), most = to->n ? (total - 1) / to->n + 1 : AT_ONCE;
    uint32_t   next = 0;
    htc_status s = HTC_OK;
    for (size_t i = 0; s == HTC_OK && next < htc_flow_count(f); i++) {
        htc_flow *part = NULL;
        s = part_of(a->k, f, next, most < AT_ONCE ? most : AT_ONCE, &part, &next);
        if (s == HTC_OK)
            s = add_one(a, part, to->n ? to->all[i % to->n].number : 0, a->k->close && next == htc_flow_count(f));
        htc_flow_destroy(part);
    }
    return s;
}

static htc_status told(addition *a, htc_status s)
{
    flow_call *k = a->k;
    if (s != HTC_OK && a->tasks) { /* those before are there */
        htc_error e = k->c->error;
        return cli_error(k->c, s, e.where, e.hint, "%.200s; %" PRIu64 " task%s added before", e.text[0] ? e.text : htc_strerror(s), a->tasks, a->tasks == 1 ? " was" : "s were");
    }
    if (s != HTC_OK || !k->c->json) {
        if (s == HTC_OK && a->tasks)
            printf("flow %" PRIu64 ": %" PRIu64 " task%s added, named %s/NAME%s%s%s\n", a->id, a->tasks, a->tasks == 1 ? "" : "s", a->first,
                   strcmp(a->first, a->last) ? " to " : "", strcmp(a->first, a->last) ? a->last : "", strcmp(a->first, a->last) ? "/NAME" : "");
        if (s == HTC_OK && k->close)
            printf("flow %" PRIu64 " is closed: it ends with its tasks\n", a->id);
        return s;
    }
    flow_put_json(k, json_pack("{s:I, s:I, s:O, s:b}", "flow", (json_int_t)a->id, "added", (json_int_t)a->tasks, "intakes", a->intakes, "closed", (int)k->close));
    return s;
}

/* f: NULL: nothing but the end of it. */
static htc_status add_flow(flow_call *k, uint64_t id, const htc_flow *f)
{
    addition       a = { .k = k, .id = id, .intakes = json_array() };
    some_workers   to = { 0 };
    htc_flows_view v = { .size = sizeof v };
    htc_status     s = flow_open_store(k);
    progress_begin(&a.p, k->c);
    if (s == HTC_OK)
        s = htc_flows_look(k->store, id, &v, &k->c->error);
    if (s == HTC_OK)
        s = find_workers(k, id, &to);
    if (s == HTC_OK && f && falls_apart(f, v.data != 0))
        s = add_parts(&a, f, &to);
    else if (s == HTC_OK)
        s = add_one(&a, f, to.n ? to.all[0].number : 0, k->close != 0);
    progress_end(&a.p);
    s = told(&a, s);
    json_decref(a.intakes);
    workers_free(&to);
    return s;
}

htc_status flow_add(flow_call *k)
{
    htc_flow  *f = NULL;
    uint64_t   id = 0;
    htc_status s = flow_number(k, k->w.at[0], &id);
    if (s != HTC_OK)
        return s;
    words whole = k->w;
    k->w.at++;
    k->w.count--;
    s = flow_read(k, &f);
    k->w = whole;
    if (s == HTC_OK)
        s = add_flow(k, id, f);
    htc_flow_destroy(f);
    return s;
}

htc_status flow_close(flow_call *k)
{
    uint64_t   id = 0;
    htc_status s = flow_number(k, k->w.at[0], &id);
    k->close = 1;
    return s == HTC_OK ? add_flow(k, id, NULL) : s;
}
