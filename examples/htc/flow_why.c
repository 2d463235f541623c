/* What a flow or one of its tasks waits for, in one sentence. */
#include "flow.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define NAMED 3 /* tasks that are named in a sentence */

typedef struct question {
    flow_call     *k;
    uint64_t       id;
    htc_flows_view v;
    flow_graph     g;
} question;

typedef struct reason {
    char       *text;
    const char *code;
} reason;

/* ---- what the gateway says of the flow's job ---- */

/* Its sentence, or NULL: there is no job, or nobody answers. */
static char *of_job(question *q, uint64_t *seats)
{
    htc_error kept = q->k->c->error;
    json_t   *answer = NULL;
    char     *text = NULL, *number = must_print("%" PRIu64, q->v.job);
    if (q->v.job && api_ask(q->k->c, json_pack("{s:s, s:s}", "op", "status", "id", number), 0, 5, &answer) == HTC_OK) {
        *seats = j_u64(json_array_get(json_object_get(answer, "jobs"), 0), "count");
        json_decref(answer);
    }
    if (q->v.job && api_ask(q->k->c, json_pack("{s:s, s:s}", "op", "why", "id", number), 0, 5, &answer) == HTC_OK) {
        text = must_dup(j_str(answer, "why"));
        json_decref(answer);
    }
    free(number);
    q->k->c->error = kept;
    return text;
}

static reason no_worker(question *q, const char *what)
{
    uint64_t seats = 0;
    char    *job = of_job(q, &seats);
    reason   r = { NULL, "no_worker" };
    if (job && seats)
        r.text = must_print("%s waits for a slot: none of its %" PRIu64 " seats has one; %s", what, seats, job);
    else
        r.text = must_print("%s waits for a slot, and no worker lives%s", what, job ? "" : "; nothing is known of its job: htc agents lists who could run it");
    free(job);
    return r;
}

/* ---- of a task ---- */

/* The parent that a cancelled task was cancelled for; FLOW_NOBODY: it is none's fault. */
static uint32_t to_blame(const flow_graph *g, const flow_task *t)
{
    for (uint32_t i = 0; i < t->n_waits; i++) {
        const flow_wait *w = &g->waits[t->waits + i];
        if (w->ended && w->rule != HTC_FLOW_ANY && (w->rule == HTC_FLOW_OK) != (w->ended == 1))
            return w->parent;
    }
    return FLOW_NOBODY;
}

static reason cancelled(const question *q, const flow_task *t, const char *what)
{
    const flow_graph *g = &q->g;
    uint32_t          first = to_blame(g, t), root = first, last = FLOW_NOBODY; /* last: the one below the root */
    reason            r = { NULL, "cancelled" };
    for (uint32_t i = 0; root != FLOW_NOBODY && i < g->n; i++) { /* up to the one that was not cancelled for another */
        uint32_t above = g->tasks[root].state == FLOW_TASK_CANCELLED ? to_blame(g, &g->tasks[root]) : FLOW_NOBODY;
        if (above == FLOW_NOBODY)
            break;
        last = root;
        root = above;
    }
    if (first == FLOW_NOBODY && q->v.max_fails && q->v.failed > q->v.max_fails)
        r.text = must_print("%s was cancelled: more than %" PRIu64 " task%s had failed", what, q->v.max_fails, plural(q->v.max_fails));
    else if (first == FLOW_NOBODY)
        r.text = must_print("%s was cancelled: %s", what, t->reason[0] ? t->reason : "nobody said why");
    else if (g->tasks[root].state == FLOW_TASK_DONE && last != FLOW_NOBODY)
        r.text = must_print("%s was cancelled: it needs %s, and %s was to run only if %s failed, which is done", what, g->tasks[first].name, g->tasks[last].name,
                            g->tasks[root].name);
    else if (g->tasks[root].state == FLOW_TASK_DONE)
        r.text = must_print("%s was cancelled: it was to run only if %s failed, which is done", what, g->tasks[root].name);
    else
        r.text = must_print("%s was cancelled: it needs %s, and %s %s: %s", what, g->tasks[first].name, root == first ? "that" : g->tasks[root].name,
                            g->tasks[root].state == FLOW_TASK_FAILED ? "has failed" : "was cancelled", g->tasks[root].reason);
    return r;
}

static reason waiting(const question *q, const flow_task *t, const char *what)
{
    uint32_t told = 0, all = 0;
    if (t->intake)
        return (reason){ must_print("%s waits for tasks that are added: htc flow add %" PRIu64 " FILE, or htc flow close %" PRIu64 " if there are no more", what, q->id,
                                    q->id), "open" };
    char    *text = must_print("%s waits for ", what);
    for (uint32_t i = 0; i < t->n_waits; i++)
        all += q->g.waits[t->waits + i].ended == 0;
    if (all == 0 && q->v.inserted) {
        free(text);
        return (reason){ must_print("%s waits: all that it waits for has ended, and the tasks inserted between pass that on", what), "waits_for_tasks" };
    }
    for (uint32_t i = 0; i < t->n_waits && told < NAMED; i++) {
        const flow_wait *w = &q->g.waits[t->waits + i];
        if (w->ended || w->parent == FLOW_NOBODY)
            continue;
        const flow_task *p = &q->g.tasks[w->parent];
        char *longer = must_print("%s%s%s (%s)", text, told == 0 ? "" : told + 1 == all ? " and " : ", ", p->name,
                                  p->state == FLOW_TASK_READY ? "ready, or running" : flow_task_state_name(p->state));
        free(text);
        text = longer;
        told++;
    }
    char *whole = all > told ? must_print("%s and %u more", text, all - told) : must_dup(text);
    free(text);
    return (reason){ whole, "waits_for_tasks" };
}

static reason ready(question *q, const flow_task *t, const char *what)
{
    uint64_t others = 0;
    if (q->v.workers == 0)
        return no_worker(q, what);
    for (uint32_t i = 0; i < q->g.n; i++)
        others += q->g.tasks[i].state == FLOW_TASK_READY;
    others -= others > 0;
    char *tries = t->failures ? must_print(", after %u failed attempt%s", t->failures, t->failures == 1 ? "" : "s") : must_dup("");
    char *text = others < q->v.slots ? must_print("%s is ready: it runs, or is about to%s", what, tries) :
                                       must_print("%s is ready: it runs, or waits for a slot: so do %" PRIu64 " others, and the flow has %u%s", what, others, q->v.slots, tries);
    free(tries);
    return (reason){ text, "ready" };
}

static reason of_task(question *q, uint32_t number)
{
    const flow_task *t = &q->g.tasks[number];
    char            *what = must_print("task %s of flow %" PRIu64, t->name, q->id);
    reason           r = { NULL, flow_task_state_name(t->state) };
    if (t->state == FLOW_TASK_WAITING)
        r = waiting(q, t, what);
    else if (t->state == FLOW_TASK_READY)
        r = ready(q, t, what);
    else if (t->state == FLOW_TASK_CANCELLED)
        r = cancelled(q, t, what);
    else if (t->state == FLOW_TASK_FAILED)
        r.text = must_print("%s has failed: %s", what, t->reason);
    else
        r.text = must_print("%s is done", what);
    free(what);
    return r;
}

/* ---- of the whole flow ---- */

static reason running(question *q, const char *what)
{
    uint64_t count[FLOW_TASK_STATES] = { 0 }, seats = 0, ended = q->v.done + q->v.failed + q->v.cancelled;
    if (q->v.workers == 0)
        return no_worker(q, what);
    char *job = of_job(q, &seats), *text, *of_seats = seats ? must_print(" of %" PRIu64, seats) : must_dup("");
    for (uint32_t i = 0; i < q->g.n; i++)
        count[q->g.tasks[i].state]++;
    if (q->v.open && q->v.tasks == ended + 1)
        text = must_print("%s waits for tasks that are added: htc flow add %" PRIu64 " FILE, or htc flow close %" PRIu64 " if there are no more", what, q->id, q->id);
    else if (q->v.graph)
        text = must_print("%s runs: slots %u%s, tasks ready or running %" PRIu64 ", waiting for others %" PRIu64, what, q->v.slots, of_seats,
                          count[FLOW_TASK_READY], count[FLOW_TASK_WAITING]);
    else
        text = must_print("%s runs: slots %u%s, tasks that have not ended %" PRIu64, what, q->v.slots, of_seats, q->v.tasks - ended);
    free(of_seats);
    free(job);
    return (reason){ text, "running" };
}

static reason of_flow(question *q)
{
    char  *what = must_print("flow %" PRIu64, q->id);
    reason r = { NULL, flow_state_name(&q->v) };
    switch ((htc_flows_state)q->v.state) {
    case HTC_FLOWS_BUILDING:
        r.text = must_print("%s does not run yet: its records are being written, or whoever wrote them has gone; htc flow rm removes them", what);
        break;
    case HTC_FLOWS_ABORTED: r.text = must_print("%s will not run: its submitter went away before it was complete", what); break;
    case HTC_FLOWS_RUNNING: r = running(q, what); break;
    case HTC_FLOWS_ENDED:
        r.text = must_print("%s has ended: %" PRIu64 " task%s done, %" PRIu64 " failed, %" PRIu64 " cancelled%s", what, q->v.done, plural(q->v.done), q->v.failed, q->v.cancelled,
                            q->v.max_fails && q->v.failed > q->v.max_fails ? ", the last since too many had failed" : "");
        break;
    }
    free(what);
    return r;
}

/* Of a bag. */
static htc_status of_ended(question *q, const char *task, reason *r)
{
    uint64_t   number = 0;
    htc_status s = flow_gather_ended(q->k, &q->id, &q->v, task, &q->g, &number);
    if (s != HTC_OK)
        return s;
    char *what = must_print("task %" PRIu64 " of flow %" PRIu64, number, q->id);
    if (!q->g.n) {
        *r = (reason){ must_print("%s has not ended: it waits for a slot, or runs", what), "ready" };
    } else {
        const flow_task *t = &q->g.tasks[0];
        const char      *state = flow_task_state_name(t->state);
        *r = t->worker ? (reason){ must_print("%s is %s: worker %" PRIu64 " ran it%s%s", what, state, t->worker, t->reason[0] ? ", " : "", t->reason), state } :
                         (reason){ must_print("%s is %s: it never ran", what, state), state };
    }
    free(what);
    return HTC_OK;
}

htc_status flow_why(flow_call *k)
{
    question   q = { .k = k };
    reason     r = { NULL, "" };
    char      *task = NULL;
    uint32_t   number = 0;
    htc_status s = flow_which(k, k->w.at[0], &q.id, &task);
    int        known = 0;
    if (s == HTC_OK)
        s = flow_gather(k, q.id, &q.v, &q.g);
    if (s == HTC_OK && task && (q.v.state == HTC_FLOWS_RUNNING || q.v.state == HTC_FLOWS_ENDED)) {
        s = q.v.graph ? flow_find_task(k, q.id, &q.g, task, &number) : of_ended(&q, task, &r);
        known = 1;
    }
    if (s == HTC_OK) {
        if (!r.text)
            r = known ? of_task(&q, number) : of_flow(&q);
        if (k->c->json)
            flow_put_json(k, json_pack("{s:I, s:s, s:s}", "flow", (json_int_t)q.id, "why", r.text, "code", r.code));
        else
            put_line(r.text);
    }
    free(r.text);
    flow_graph_free(&q.g);
    free(task);
    return s;
}
