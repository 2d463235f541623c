/* Flows in the store: how they stand, their tasks, cancelled, removed. */
#include "flow.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "htcsched/config.h"
#include "htcsched/steal.h"

htc_status flow_open_store(flow_call *k)
{
    char             *address = must_print("unix:%s/kvd.sock", k->c->dir);
    htc_store_options o = { .size = sizeof o, .address = address };
    htc_status        s = htc_store_open(NULL, &o, &k->store, &k->c->error);
    if (s != HTC_OK && !k->c->error.hint[0])
        snprintf(k->c->error.hint, sizeof k->c->error.hint, "htc up starts a system; flows are for whoever started it, and where that is root for all of its users");
    free(address);
    return s;
}

htc_status flow_number(flow_call *k, const char *word, uint64_t *id)
{
    char *end;
    *id = strtoull(word, &end, 10);
    if (*end || end == word || *id == 0)
        return cli_error(k->c, HTC_EUSAGE, word, "htc flow run said its number", "that is no flow's number");
    return HTC_OK;
}

const char *flow_state_name(const htc_flows_view *v)
{
    switch ((htc_flows_state)v->state) {
    case HTC_FLOWS_BUILDING: return "building";
    case HTC_FLOWS_RUNNING: return v->workers ? "running" : "queued";
    case HTC_FLOWS_ABORTED: return "aborted";
    case HTC_FLOWS_ENDED: return v->failed ? "done_with_failures" : v->cancelled ? "cancelled" : "done";
    }
    return "?";
}

json_t *flow_view_json(uint64_t id, const htc_flows_view *v)
{
    return json_pack("{s:I, s:s, s:I, s:b, s:I, s:I, s:I, s:I, s:I, s:I, s:b, s:s, s:s, s:I, s:I, s:I, s:b}", "flow", (json_int_t)id, "state", flow_state_name(v), "job", (json_int_t)v->job,
                     "graph", (int)v->graph, "tasks", (json_int_t)v->tasks, "done", (json_int_t)v->done, "failed", (json_int_t)v->failed, "cancelled",
                     (json_int_t)v->cancelled, "workers", (json_int_t)v->workers, "slots", (json_int_t)v->slots, "data", (int)v->data, "policy", v->policy,
                     "steal", v->steal, "inserted", (json_int_t)v->inserted, "added", (json_int_t)v->added, "resumes",
                     (json_int_t)v->from, "open", (int)v->open);
}

htc_status flow_status(flow_call *k)
{
    htc_flows_view v = { .size = sizeof v };
    uint64_t       id = 0, ended;
    htc_status     s = flow_number(k, k->w.at[0], &id);
    if (s == HTC_OK)
        s = flow_open_store(k);
    if (s == HTC_OK)
        s = htc_flows_look(k->store, id, &v, &k->c->error);
    if (s != HTC_OK)
        return s;
    if (k->c->json) {
        flow_put_json(k, flow_view_json(id, &v));
        return HTC_OK;
    }
    ended = v.done + v.failed + v.cancelled;
    int filled = v.tasks ? (int)(40.0 * (double)ended / (double)v.tasks) : 0;
    char *between = v.inserted ? must_print(", %" PRIu64 " task%s inserted between", v.inserted, v.inserted == 1 ? "" : "s") : must_dup("");
    char *added = v.added ? must_print(", %" PRIu64 " task%s added", v.added, v.added == 1 ? "" : "s") : must_dup("");
    const char *open = v.open ? ", takes tasks (htc flow add)" : "";
    char *before = v.from ? must_print(", resumes flow %" PRIu64, v.from) : must_dup("");
    printf("flow %" PRIu64 "  %s%s%s  job %" PRIu64 "  %s%s%s%s%s\n", id, colour_state(k->c, flow_state_name(&v)), flow_state_name(&v), colour_end(k->c), v.job,
           v.graph ? "with dependencies" : "a bag", before, between, added, open);
    free(between);
    free(added);
    free(before);
    printf("[%.*s%*s] %" PRIu64 " of %" PRIu64 " task%s ended\n", filled, "########################################", 40 - filled, "", ended, v.tasks, plural(v.tasks));
    printf("done %" PRIu64 "  failed %" PRIu64 "  cancelled %" PRIu64 "  workers %u  slots %u\n", v.done, v.failed, v.cancelled, v.workers, v.slots);
    if (v.data)
        printf("its tasks read files of each other: placed by %s\n", v.policy);
    return HTC_OK;
}

/* ---- tasks ---- */

typedef struct listing {
    flow_call *k;
    table      t;
    json_t    *json;
    uint64_t   shown, job, explained;
} listing;

#define EXPLAINED_MAX 100 /* failed tasks of which the last line is asked for */

static double seconds(htc_ns ns)
{
    return (double)ns / 1e9;
}

static int list_task(void *ctx, const htc_flows_task *t)
{
    listing *l = ctx;
    double   ran = t->ended > t->began && t->began ? seconds(t->ended - t->began) : -1;
    if ((l->k->failed || t->inserted) && strcmp(t->state, "failed") != 0) /* an inserted task that fails is nobody's fault, and has to be seen */
        return 1;
    if (l->k->limit > 0 && l->shown == (uint64_t)l->k->limit)
        return 0;
    l->shown++;
    if (l->json) {
        json_array_append_new(l->json,
                              json_pack("{s:I, s:s, s:s, s:s, s:I, s:I, s:i, s:i, s:I, s:I, s:f, s:f}", "task", (json_int_t)t->number, "name", t->name, "state",
                                        t->state, "reason", t->reason, "waits_for", (json_int_t)t->untold, "failures", (json_int_t)t->failures, "exit_code",
                                        (int)t->exit_code, "signal", (int)t->signal, "worker", (json_int_t)t->worker, "attempt", (json_int_t)t->attempt,
                                        "started", seconds(t->began), "ended", seconds(t->ended)));
        return 1;
    }
    int   explain = strcmp(t->state, "failed") == 0 && l->explained < EXPLAINED_MAX;
    char *how = explain ? flow_failure(l->k, l->job, t) : NULL;
    l->explained += explain;
    table_row(&l->t, "%" PRIu64 "\t%s\t%s\t%s\t%s%u\t%s", t->number, t->name[0] ? t->name : "(being added)", t->state, show_seconds(ran).s, t->signal ? "signal " : "",
              t->signal ? t->signal : t->exit_code, how ? how : t->reason);
    free(how);
    return 1;
}

htc_status flow_tasks(flow_call *k)
{
    listing        l = { .k = k, .json = k->c->json ? json_array() : NULL };
    htc_flows_view v = { .size = sizeof v };
    uint64_t       id = 0;
    htc_status     s = flow_number(k, k->w.at[0], &id);
    if (s == HTC_OK)
        s = flow_open_store(k);
    if (!l.json)
        table_begin(&l.t, ">TASK", "NAME", "STATE", ">RUN TIME", ">EXIT", "REASON", NULL);
    if (s == HTC_OK)
        s = htc_flows_look(k->store, id, &v, &k->c->error);
    l.job = v.job;
    if (s == HTC_OK)
        s = htc_flows_tasks(k->store, id, list_task, &l, &k->c->error);
    if (s == HTC_OK && l.shown == 0 && !v.graph && !k->failed && !l.json)
        printf("flow %" PRIu64 " is a bag, of which no task has ended yet\n", id);
    if (s == HTC_OK && l.json)
        flow_put_json(k, l.json);
    else if (s == HTC_OK && l.shown)
        table_end(k->c, &l.t);
    else
        table_drop(&l.t);
    if (s != HTC_OK)
        json_decref(l.json);
    return s;
}

/* ---- cancelled, removed ---- */

htc_status flow_policies(flow_call *k)
{
    const htc_steal_policy *there;
    htc_config             *config = NULL;
    htc_registry           *known = NULL;
    char                   *path = k->steal && !k->policies ? must_print("%s/htc.ini", k->c->dir) : NULL;
    htc_status              s = HTC_OK;
    if (path && access(path, R_OK) == 0) {
        s = htc_config_load(NULL, path, &config, &k->c->error);
        if (s == HTC_OK)
            s = htc_config_policies(config, &k->policies, &k->c->error);
        htc_config_destroy(config);
    }
    free(path);
    /* What is of the library needs none of these files. */
    if (s != HTC_OK && htc_registry_create(NULL, &known) == HTC_OK && htc_registry_add_builtin(known) == HTC_OK && htc_steal_find(known, k->steal, &there) == HTC_OK)
        s = HTC_OK;
    htc_registry_destroy(known);
    return s;
}

htc_status flow_set(flow_call *k)
{
    htc_flows_view v = { .size = sizeof v };
    uint64_t       id = 0;
    htc_status     s = flow_number(k, k->w.at[0], &id);
    if (s == HTC_OK && !k->policy && !k->steal)
        s = cli_error(k->c, HTC_EUSAGE, "", "--policy mdl, or --steal near", "what is to be set is missing");
    if (s == HTC_OK)
        s = flow_policies(k);
    if (s == HTC_OK)
        s = flow_open_store(k);
    if (s == HTC_OK)
        s = htc_flows_set_of(k->store, id, k->policy, k->steal, k->policies, &k->c->error);
    if (s == HTC_OK)
        s = htc_flows_look(k->store, id, &v, &k->c->error);
    if (s == HTC_OK && k->c->json)
        flow_put_json(k, flow_view_json(id, &v));
    else if (s == HTC_OK)
        printf("flow %" PRIu64 ": policy %s, steal %s\n", id, v.policy, v.steal[0] ? v.steal : "by default");
    return s;
}

/* A task that is to be cancelled. */
typedef struct cancelled_task {
    const char *word; /* its number or its name */
    uint64_t    number;
    char       *name, *state; /* NULL: there is none */
} cancelled_task;

static int see_cancelled(void *ctx, const htc_flows_task *t)
{
    cancelled_task *x = ctx;
    char           *end;
    uint64_t        number = strtoull(x->word, &end, 10);
    if (strcmp(t->name, x->word) != 0 && (*end || !*x->word || number != t->number))
        return 1;
    x->number = t->number;
    x->name = must_dup(t->name);
    x->state = must_dup(t->state);
    return 0;
}

/* One task by its number or name; one that has ended stays as it is. Of a bag only what has ended is known. */
static htc_status cancel_task(flow_call *k, uint64_t id, const char *word)
{
    cancelled_task x = { .word = word };
    htc_flows_view v = { .size = sizeof v };
    char          *end;
    htc_status     s = htc_flows_look(k->store, id, &v, &k->c->error);
    if (s == HTC_OK)
        s = htc_flows_tasks(k->store, id, see_cancelled, &x, &k->c->error);
    if (s == HTC_OK && !x.state && !v.graph) {
        x.number = strtoull(word, &end, 10);
        x.name = must_dup(word);
        if (*end || !*word || x.number >= v.tasks)
            s = cli_error(k->c, HTC_ENOTFOUND, k->w.at[0], "7.3 is a task, 7.10-20 several", "flow %" PRIu64 " has no such task", id);
    } else if (s == HTC_OK && !x.state) {
        s = cli_error(k->c, HTC_ENOTFOUND, k->w.at[0], "htc flow tasks lists numbers and names", "flow %" PRIu64 " has no such task", id);
    } else if (s == HTC_OK && strcmp(x.state, "waiting") != 0 && strcmp(x.state, "ready") != 0) {
        s = cli_error(k->c, HTC_EBUSY, k->w.at[0], "", "task %s has ended: it is %s", x.name, x.state);
    }
    if (s == HTC_OK)
        s = htc_flows_cancel(k->store, id, x.number, x.number + 1, &k->c->error);
    if (s == HTC_OK && !k->c->json)
        printf("flow %" PRIu64 ": task %s is cancelled, if it does not end before, and what needs it\n", id, x.name);
    free(x.name);
    free(x.state);
    return s;
}

static htc_status cancel_range(flow_call *k, uint64_t id, const char *word)
{
    char    *end;
    uint64_t from = strtoull(word, &end, 10), to = from;
    if (*end == '-' && end > word)
        to = strtoull(end + 1, &end, 10);
    if (*end || end == word || to < from || to == UINT64_MAX)
        return cli_error(k->c, HTC_EUSAGE, k->w.at[0], "7.3 or 7.NAME is a task, 7.10-20 several", "that names no tasks");
    htc_status s = htc_flows_cancel(k->store, id, from, to + 1, &k->c->error);
    if (s == HTC_OK && !k->c->json)
        printf("flow %" PRIu64 ": of tasks %" PRIu64 " to %" PRIu64 " what has not ended is cancelled, and what needs it\n", id, from, to);
    return s;
}

/* 10-20 */
static int is_range(const char *word)
{
    size_t digits = strspn(word, "0123456789");
    return digits > 0 && word[digits] == '-' && word[digits + 1 + strspn(word + digits + 1, "0123456789")] == '\0';
}

htc_status flow_cancel(flow_call *k)
{
    uint64_t   id = 0;
    char      *word = must_dup(k->w.at[0]), *dot = strchr(word, '.');
    htc_status s;
    if (dot)
        *dot = '\0';
    s = flow_number(k, word, &id);
    if (s == HTC_OK)
        s = flow_open_store(k);
    if (s == HTC_OK && dot)
        s = is_range(dot + 1) ? cancel_range(k, id, dot + 1) : cancel_task(k, id, dot + 1);
    else if (s == HTC_OK)
        s = htc_flows_cancel(k->store, id, 0, UINT64_MAX, &k->c->error);
    if (s == HTC_OK && k->c->json)
        flow_put_json(k, json_pack("{s:I, s:b}", "flow", (json_int_t)id, "cancelled", 1));
    else if (s == HTC_OK && !dot)
        printf("flow %" PRIu64 ": what has not ended is cancelled\n", id);
    free(word);
    return s;
}

htc_status flow_rm(flow_call *k)
{
    uint64_t   id = 0;
    htc_status s = flow_number(k, k->w.at[0], &id);
    if (s == HTC_OK)
        s = flow_open_store(k);
    htc_flows_view v = { .size = sizeof v };
    htc_status     known = s == HTC_OK ? htc_flows_look(k->store, id, &v, &k->c->error) : s;
    if (s == HTC_OK)
        s = htc_flows_remove(k->store, id, &k->c->error); /* also what is left of one that has no header any more */
    if (s == HTC_OK && known == HTC_ENOTFOUND)
        s = cli_error(k->c, HTC_ENOTFOUND, k->w.at[0], "htc flow run said its number", "there is no such flow");
    if (s == HTC_OK && k->c->json)
        flow_put_json(k, json_pack("{s:I, s:b}", "flow", (json_int_t)id, "removed", 1));
    else if (s == HTC_OK)
        printf("flow %" PRIu64 " is removed; its outputs are those of its job\n", id);
    return s;
}
