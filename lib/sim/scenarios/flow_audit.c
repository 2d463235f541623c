#include "sim/scenarios/flow_audit_private.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "core/util.h"
#include "htcsched/kv_engine.h"
#include "kvs/cell/cell.h"

void htc__flow_audit_fail(flow_audit *a, const char *format, ...)
{
    char    text[300];
    va_list ap;
    size_t  n = (size_t)snprintf(text, sizeof text, "flow %llu: ", (unsigned long long)a->number);
    va_start(ap, format);
    vsnprintf(text + n, sizeof text - n, format, ap);
    va_end(ap);
    htc_sim_fail(a->sim, text);
}

/* Their numbers count from base. */
static size_t parents_of(const flow_audit *a, uint64_t id, const htc_flow_edge **edges, uint64_t *base)
{
    const htc_flow *f = htc__flow_audit_flow(a, id, base);
    return a->graph ? htc_flow_parents(f, (uint32_t)(id - *base), edges) : 0;
}

/* ---- what is to come out ---- */

/* As rules take it: a task that has been cancelled has not ended well. */
static int satisfied(uint32_t rule, int ok)
{
    return rule == HTC_FLOW_ANY || (rule == HTC_FLOW_OK) == ok;
}

/* 0: not all of its parents are known yet. */
static uint8_t outcome_of(const flow_audit *a, uint64_t id)
{
    const htc_flow_edge *edge;
    const audited_task  *t = &a->task[id];
    uint64_t             base;
    size_t               n = parents_of(a, id, &edge, &base);
    uint8_t              is = htc__flow_audit_is_intake(a, id) ? GRAPH_DONE :
                              t->fate == FLOW_FAILS_ALWAYS || (t->fate == FLOW_FAILS_ONCE && a->tries == 1) ? GRAPH_FAILED : GRAPH_DONE;
    for (size_t i = 0; i < n; i++) {
        uint8_t parent = a->task[base + edge[i].task].expected;
        if (!parent)
            return 0;
        if (!satisfied(edge[i].rule, parent == GRAPH_DONE))
            is = GRAPH_CANCELLED;
    }
    return is;
}

/* Each task when all its parents are known, as a plain loop runs them. */
static void run_one_by_one(flow_audit *a)
{
    uint64_t known = 0;
    a->expected = (ledger_counts){ 0 };
    for (uint64_t id = 0; id < a->tasks; id++)
        a->task[id].expected = 0;
    while (known < a->tasks)
        for (uint64_t id = 0; id < a->tasks; id++)
            if (!a->task[id].expected)
                known += (a->task[id].expected = outcome_of(a, id)) != 0;
    for (uint64_t id = 0; id < a->tasks; id++) {
        const audited_task *t = &a->task[id];
        a->expected.done += t->expected == GRAPH_DONE;
        a->expected.failed += t->expected == GRAPH_FAILED;
        a->expected.cancelled += t->expected == GRAPH_CANCELLED;
    }
}

void htc__flow_audit_fates(flow_audit *a, htc_rng *rng)
{
    for (uint64_t id = 0; id < a->tasks; id++) {
        uint64_t dice = htc_rng_below(rng, 40);
        a->task[id].fate = dice == 0 ? FLOW_FAILS_ALWAYS : dice < 3 ? FLOW_FAILS_ONCE : FLOW_GOES_WELL;
    }
    run_one_by_one(a);
}

htc_status htc__flow_audit_goes_on(flow_audit *a, htc_rng *rng, bag_resumption *bag)
{
    uint64_t   longest = 1 + htc_rng_below(rng, 8);
    htc_status status = HTC_OK;
    for (uint64_t from = 0, to; from < a->tasks && status == HTC_OK; from = to) {
        to = from + 1 + htc_rng_below(rng, longest);
        int done = to < a->tasks && htc_rng_below(rng, 2);
        to = to < a->tasks ? to : a->tasks;
        a->before += done ? to - from : 0;
        for (uint64_t id = from; done && id < to; id++)
            a->task[id].fate = FLOW_DONE_BEFORE;
        status = htc__bag_resumption_add(bag, &(bag_outcome){ .from = from, .to = to, .how = done ? GRAPH_DONE : GRAPH_FAILED });
    }
    flow old = { .tasks = a->tasks, .counts = { a->before, a->tasks - a->before, 0 } };
    if (status == HTC_OK)
        status = htc__bag_resumption_settle(bag, &old, 1 + (uint32_t)htc_rng_below(rng, 4));
    run_one_by_one(a);
    return status;
}

htc_status htc__flow_audit_create(const htc_env *env, htc_sim *sim, const htc_flow *given, uint64_t number, uint32_t tries, flow_audit **out)
{
    flow_audit          *a = htc__alloc(env, sizeof *a);
    const htc_flow_edge *edge;
    size_t               at = 0;
    uint64_t             base;
    if (!a)
        return HTC_ENOMEM;
    if (env)
        a->env.alloc = env->alloc;
    a->sim = sim;
    a->given = given;
    a->number = number;
    a->tries = tries;
    a->tasks = htc_flow_total(given);
    a->cap_tasks = a->tasks;
    a->graph = htc_flow_count(given) > 1 || htc_flow_edges(given) > 0 || htc_flow_get(given, 0)->adds || htc_flow_get(given, 0)->builtin == HTC_FLOW_INTAKE;
    a->n_bits = htc_flow_edges(given) + 1;
    a->task = htc__alloc(&a->env, a->tasks * sizeof *a->task);
    a->bits = htc__alloc(&a->env, a->n_bits);
    if (!a->task || !a->bits) {
        htc__flow_audit_destroy(a);
        return HTC_ENOMEM;
    }
    for (uint64_t id = 0; id < a->tasks; id++) {
        a->task[id].bits = a->bits + at;
        at += parents_of(a, id, &edge, &base);
    }
    run_one_by_one(a);
    *out = a;
    return HTC_OK;
}

void htc__flow_audit_destroy(flow_audit *a)
{
    if (!a)
        return;
    htc_env env = a->env;
    htc__flow_audit_blocks_free(a);
    for (uint64_t i = 0; i < a->n_ledgers; i++)
        htc__free(&env, a->ledgers[i], sizeof *a->ledgers[i]);
    htc__free(&env, a->ledgers, a->cap_ledgers * sizeof *a->ledgers);
    htc__flow_audit_added_free(a);
    htc__free(&env, a->task, a->cap_tasks * sizeof *a->task);
    htc__free(&env, a->bits, a->n_bits);
    htc__free(&env, a, sizeof *a);
}

/* ---- tasks ---- */

/* Its parents have ended as it asks, and it knows. */
static int may_run(const flow_audit *a, uint64_t id)
{
    const htc_flow_edge *edge;
    uint64_t             base;
    size_t               n = parents_of(a, id, &edge, &base);
    for (size_t i = 0; i < n; i++) {
        uint8_t state = a->task[base + edge[i].task].state;
        if (state < GRAPH_DONE || !satisfied(edge[i].rule, state == GRAPH_DONE) || !a->task[id].bits[i])
            return 0;
    }
    return 1;
}

static int see_task(flow_audit *a, uint64_t id, htc_bytes value)
{
    graph_task           g;
    const htc_flow_edge *edge;
    uint64_t             base;
    if (id >= a->tasks || htc__graph_read(value, &g) != HTC_OK) {
        htc__flow_audit_fail(a, "a task that nobody wrote");
        return 0;
    }
    audited_task  *t = &a->task[id];
    const uint8_t *parents = g.parents.data;
    size_t         n = parents_of(a, id, &edge, &base);
    size_t adder = id >= htc_flow_total(a->given); /* its last parent, and done */
    if (adder && (!g.parents.len || parents[g.parents.len - 1] != (GRAPH_EDGE(GRAPH_RULE_OK) | GRAPH_ENDED_OK)))
        htc__flow_audit_fail(a, "task %llu does not know that who adds it is done", (unsigned long long)id);
    for (size_t i = 0; i < n && g.parents.len == n + adder; i++) {
        if (t->bits[i] && t->bits[i] != (parents[i] & 3))
            htc__flow_audit_fail(a, "task %llu was told of parent %zu, and now knows something else", (unsigned long long)id, i);
        t->bits[i] = parents[i] & 3;
    }
    if (t->state > GRAPH_OPEN && (g.state != t->state || g.outcome.attempt != t->attempt || g.outcome.worker != t->worker))
        htc__flow_audit_fail(a, "task %llu has ended twice", (unsigned long long)id);
    if ((g.state == GRAPH_DONE || g.state == GRAPH_FAILED) && !may_run(a, id))
        htc__flow_audit_fail(a, "task %llu has ended before its parents", (unsigned long long)id);
    if (g.state == GRAPH_DONE && g.made.len != (size_t)htc__graph_n_makes(&g) * GRAPH_MADE_BYTES)
        htc__flow_audit_fail(a, "task %llu is done, and what it made is not known", (unsigned long long)id);
    if (t->state == GRAPH_DONE && t->redo_worker != g.redo_worker && g.redo_worker == 0 && g.made_by == t->redo_worker)
        a->remade++; /* or the claim was given back by who had made it */
    if (t->state == GRAPH_DONE && t->made_by != g.made_by && t->redo_worker != g.made_by)
        htc__flow_audit_fail(a, "task %llu was made again by worker %llu, which had not claimed it", (unsigned long long)id, (unsigned long long)g.made_by);
    if (t->added_from && (g.added_from != t->added_from || g.added_home != t->added_home))
        htc__flow_audit_fail(a, "what task %llu adds was noted twice: tasks from %llu in ledger %llu, and from %llu in ledger %llu", (unsigned long long)id,
                             (unsigned long long)t->added_from, (unsigned long long)t->added_home, (unsigned long long)g.added_from,
                             (unsigned long long)g.added_home);
    if (!t->added_from && g.added_from)
        a->stirred = id;
    t->added_from = g.added_from;
    t->added_home = g.added_home;
    t->made_by = g.made_by;
    t->redo_worker = g.redo_worker;
    t->state = g.state;
    t->attempt = g.outcome.attempt;
    t->worker = g.outcome.worker;
    return g.adds == GRAPH_ADDS_INTAKE && g.state == GRAPH_DONE ? htc__flow_audit_see_intake(a, id, &g) : 0;
}

/* ---- files: fN.K is the K-th of task N ---- */

static uint64_t mix(uint64_t x)
{
    x = (x ^ x >> 31) * 0x7fb5d329728ea185;
    x = (x ^ x >> 27) * 0x81dadef4bc2dd44d;
    return x ^ x >> 33;
}

static audited_task *maker_of(const flow_audit *a, const char *file, unsigned *which)
{
    unsigned long long id = 0;
    return sscanf(file, "f%llu.%u", &id, which) == 2 && id < a->tasks ? &a->task[id] : NULL;
}

/* One in thirty is larger than a piece. */
static void put_content(uint64_t seed, htc_buf *b)
{
    uint64_t x = mix(seed + 1), n = x % 30 ? x % 1000 : 300000;
    htc_buf_clear(b);
    for (uint64_t i = 0; i * 8 < n; i++)
        htc_put_u64(b, x = mix(x + i));
}

int htc__flow_audit_content(const flow_audit *a, const char *file, htc_buf *b)
{
    unsigned            which = 0;
    const audited_task *t = maker_of(a, file, &which);
    if (!t || t->state != GRAPH_DONE)
        return 0;
    put_content(t->content + which, b);
    return 1;
}

void htc__flow_audit_made(const flow_audit *a, const char *file, htc_buf *b)
{
    unsigned            which = 0;
    const audited_task *t = maker_of(a, file, &which);
    put_content(t ? t->content + which : 0, b);
}

void htc__flow_audit_makes(flow_audit *a, uint64_t id)
{
    const htc_flow_task *t = htc__flow_audit_task(a, id);
    uint64_t             content = mix(id + 1);
    for (size_t i = 0; i < t->n_in; i++) {
        unsigned            which = 0;
        const audited_task *maker = maker_of(a, t->in[i].name, &which);
        content = mix(content + (maker && maker->state == GRAPH_DONE ? maker->content + which : 0));
    }
    if (a->task[id].content && a->task[id].content != content)
        htc__flow_audit_fail(a, "task %llu makes something else than before", (unsigned long long)id);
    a->task[id].content = content;
}

/* ---- places ---- */

static htc_status need_ledgers(flow_audit *a, uint64_t n)
{
    while (a->n_ledgers < n) {
        if (a->n_ledgers == a->cap_ledgers) {
            uint64_t cap = a->cap_ledgers ? 2 * a->cap_ledgers : 16;
            ledger **more = htc__resize(&a->env, a->ledgers, a->cap_ledgers * sizeof *more, cap * sizeof *more);
            if (!more)
                return HTC_ENOMEM;
            a->ledgers = more;
            a->cap_ledgers = cap;
        }
        a->ledgers[a->n_ledgers] = htc__alloc(&a->env, sizeof(ledger));
        if (!a->ledgers[a->n_ledgers])
            return HTC_ENOMEM;
        a->n_ledgers++;
    }
    return HTC_OK;
}

static uint64_t mark(flow_audit *a, ledger_span s, const char *where)
{
    uint64_t n = 0;
    for (uint64_t id = s.from; id < s.to && id < a->tasks; id++, n++) {
        if (a->task[id].placed & 1)
            htc__flow_audit_fail(a, "task %llu is in two places, one of them %s", (unsigned long long)id, where);
        a->task[id].placed |= 1;
    }
    return n;
}

static int is_accepted(const flow_audit *a, uint64_t from, const ledger_note *note)
{
    return note->ledger < a->n_ledgers && htc__ledger_accepted(a->ledgers[note->ledger], from, note->note);
}

static uint32_t which_parent(const htc_flow *f, uint32_t child, uint32_t parent)
{
    const htc_flow_edge *edge;
    uint32_t             i = 0, n = (uint32_t)htc_flow_parents(f, child, &edge);
    while (i < n && edge[i].task != parent)
        i++;
    return i;
}

/* A task that has just been counted: its record says how it ended, and each of its children knows. */
static void check_counted(flow_audit *a, uint64_t id)
{
    const htc_flow_edge *edge;
    uint64_t             base;
    const htc_flow      *f = htc__flow_audit_flow(a, id, &base);
    size_t               n = htc_flow_children(f, (uint32_t)(id - base), &edge);
    htc__flow_audit_added_counted(a, id);
    if (a->task[id].state <= GRAPH_OPEN)
        htc__flow_audit_fail(a, "task %llu is counted, and has not ended", (unsigned long long)id);
    for (size_t i = 0; i < n; i++) {
        const audited_task *child = &a->task[base + edge[i].task];
        if (child->state == GRAPH_OPEN && !child->bits[which_parent(f, edge[i].task, (uint32_t)(id - base))])
            htc__flow_audit_fail(a, "task %llu is counted, and its child %llu does not know", (unsigned long long)id, (unsigned long long)(base + edge[i].task));
    }
}

static void check_places(flow_audit *a)
{
    uint64_t      placed = 0;
    ledger_counts c = { 0 };
    a->moving = 0;
    for (uint64_t id = 0; id < a->tasks; id++)
        a->task[id].placed = a->task[id].placed & 1 ? 2 : 0; /* 2: it was in one */
    for (uint64_t j = 0; j < a->n_ledgers; j++) {
        const ledger *x = a->ledgers[j];
        for (uint32_t i = 0; i < x->live.n; i++)
            placed += mark(a, x->live.at[i], "live");
        for (uint32_t i = 0; i < x->n_out; i++) {
            for (uint32_t k = 0; k < x->out[i].n && !is_accepted(a, j, &x->out[i]); k++)
                placed += mark(a, x->out[i].ids[k], "on its way");
            a->moving += is_accepted(a, j, &x->out[i]) ? 0 : htc__ledger_note_tasks(&x->out[i]);
        }
        c.done += x->counts.done;
        c.failed += x->counts.failed;
        c.cancelled += x->counts.cancelled;
    }
    if (!a->has_header || (a->header.state != FLOW_RUNNING && a->header.state != FLOW_ENDED))
        return;
    if (placed + c.done + c.failed + c.cancelled + htc__flow_audit_not_live(a) != a->tasks)
        htc__flow_audit_fail(a, "%llu tasks have a place and %llu are counted, of %llu", (unsigned long long)placed,
             (unsigned long long)(c.done + c.failed + c.cancelled), (unsigned long long)a->tasks);
    for (uint64_t id = 0; a->graph && id < a->tasks; id++)
        if (a->task[id].placed == 2)
            check_counted(a, id);
    if (a->header.state == FLOW_ENDED) {
        a->ended = 1;
        a->counts = a->header.counts;
    }
}

/* ---- what is stored ---- */

/* A flow begins to run when all its records are there. */
static void check_complete(flow_audit *a)
{
    for (uint64_t id = 0; id < htc_flow_total(a->given); id++)
        if (!a->task[id].state)
            htc__flow_audit_fail(a, "it runs, and task %llu has no record", (unsigned long long)id);
}

static int see_record(flow_audit *a, htc_bytes own, htc_bytes value)
{
    uint64_t number, of;
    flow_key ledgers = htc__flow_key_ledgers(a->number), tasks = htc__flow_key_tasks(a->number), header = htc__flow_key_header(a->number);
    if (htc__flow_key_number(own, &ledgers, &number)) {
        if (number >= a->tasks + 4096) {
            htc__flow_audit_fail(a, "ledger %llu is there", (unsigned long long)number);
            return 0;
        }
        if (need_ledgers(a, number + 1) != HTC_OK)
            return HTC_ENOMEM;
        if (htc__ledger_read(value, a->ledgers[number]) != HTC_OK)
            htc__flow_audit_fail(a, "ledger %llu cannot be read", (unsigned long long)number);
        return 1;
    }
    if (htc__flow_key_number(own, &tasks, &number))
        return see_task(a, number, value);
    if (htc__flow_key_is_block(own, a->number, &of, &number))
        return htc__flow_audit_block(a, of, number, value);
    if (own.len != header.len || memcmp(own.data, header.text, own.len) != 0)
        return 0;
    int ran = a->has_header && a->header.state != FLOW_BUILDING;
    a->has_header = htc__flow_read(value, &a->header) == HTC_OK;
    a->header.task = htc_bytes_of(NULL);
    if (!a->has_header)
        htc__flow_audit_fail(a, "the header cannot be read");
    else if (a->ended && a->header.state != FLOW_ENDED)
        htc__flow_audit_fail(a, "the flow had ended, and has not any more");
    if (a->has_header && a->header.state == FLOW_RUNNING && !ran && a->graph)
        check_complete(a);
    if (a->has_header && a->header.adds && htc__flow_audit_drawn(a) != 0)
        return HTC_ENOMEM;
    return 1;
}

/* A flow that has not run may be removed. Of one that has, a deleted task stays as it was known: what comes of that is seen. */
static int see_deleted(flow_audit *a, htc_bytes own)
{
    uint64_t number;
    flow_key ledgers = htc__flow_key_ledgers(a->number), tasks = htc__flow_key_tasks(a->number), header = htc__flow_key_header(a->number);
    int      ran = a->has_header && (a->header.state == FLOW_RUNNING || a->header.state == FLOW_ENDED);
    if (htc__flow_key_number(own, &ledgers, &number) && number < a->n_ledgers)
        htc__ledger_init(a->ledgers[number], (ledger_span){ 0, 0 });
    else if (htc__flow_key_number(own, &tasks, &number) && number < a->tasks && !ran)
        a->task[number].state = 0;
    else if (own.len == header.len && memcmp(own.data, header.text, own.len) == 0)
        a->has_header = 0;
    else
        return 0;
    return 1;
}

int htc__flow_audit_batch(flow_audit *a, htc_bytes batch)
{
    htc_kv_change change;
    size_t        at = 0;
    int           seen = 0;
    a->stirred = UINT64_MAX;
    while (htc_kv_batch_next(batch, &at, &change) == 1) {
        htc__kv_cell cell;
        htc_bytes    payload;
        if (change.drop || change.key.len < 2 || *(const char *)change.key.data != 'k' ||
            htc__kv_unseal(change.value, change.key, &payload) != HTC_OK || htc__kv_cell_read(payload, NULL, &cell) != HTC_OK)
            continue;
        htc_bytes own = { (const char *)change.key.data + 1, change.key.len - 1 };
        int       one = cell.deleted ? see_deleted(a, own) : see_record(a, own, cell.value);
        if (one < 0)
            return one;
        seen |= one;
    }
    if (seen)
        check_places(a);
    return seen;
}

/* ---- runs ---- */

htc_status htc__flow_audit_begins(flow_audit *a, uint64_t id)
{
    if (id >= a->tasks) {
        htc__flow_audit_fail(a, "task %llu runs, and there is none", (unsigned long long)id);
        return HTC_OK;
    }
    audited_task *t = &a->task[id];
    if (t->fate == FLOW_DONE_BEFORE)
        htc__flow_audit_fail(a, "task %llu runs, and was done before the flow went on", (unsigned long long)id);
    if (!may_run(a, id))
        htc__flow_audit_fail(a, "task %llu runs before its parents have ended", (unsigned long long)id);
    int fails = t->fate == FLOW_FAILS_ALWAYS || (t->fate == FLOW_FAILS_ONCE && (t->runs == 0 || a->tries == 1));
    t->runs++;
    return fails ? HTC_EEXIT : HTC_OK;
}

/* As a plain loop would have it; where somebody cancelled tasks or stopped processes, some have ended otherwise. */
void htc__flow_audit_end(flow_audit *a)
{
    const ledger_counts *c = &a->counts, *e = &a->expected;
    int                  exact = !a->header.n_marks && !a->stopped;
    if (a->n_added)
        run_one_by_one(a);
    if (c->done + c->failed + c->cancelled != a->tasks)
        htc__flow_audit_fail(a, "%llu tasks are counted of %llu", (unsigned long long)(c->done + c->failed + c->cancelled), (unsigned long long)a->tasks);
    if (exact && (c->done != e->done || c->failed != e->failed || c->cancelled != e->cancelled))
        htc__flow_audit_fail(a, "%llu done, %llu failed, %llu cancelled; to be %llu, %llu, %llu", (unsigned long long)c->done, (unsigned long long)c->failed,
             (unsigned long long)c->cancelled, (unsigned long long)e->done, (unsigned long long)e->failed, (unsigned long long)e->cancelled);
    if (!a->graph)
        htc__flow_audit_logs(a);
    for (uint64_t id = 0; id < a->tasks && a->graph; id++)
        if (a->task[id].state <= GRAPH_OPEN || (exact && a->task[id].state != a->task[id].expected))
            htc__flow_audit_fail(a, "task %llu has ended as %u, to be %u", (unsigned long long)id, a->task[id].state, a->task[id].expected);
}

uint64_t htc__flow_audit_ledgers(const flow_audit *a)
{
    uint64_t n = 0;
    for (uint64_t j = 0; j < a->n_ledgers; j++)
        n += a->ledgers[j]->next_note > 0;
    return n;
}

void htc__flow_audit_runs(flow_audit *a)
{
    uint64_t runs = 0, needed = 0;
    for (uint64_t id = 0; id < a->tasks; id++) {
        const audited_task *t = &a->task[id];
        runs += t->runs;
        needed += htc__flow_audit_is_intake(a, id) || t->expected == GRAPH_CANCELLED || t->fate == FLOW_DONE_BEFORE ? 0 : t->fate == FLOW_GOES_WELL || a->tries == 1 ? 1 : t->fate == FLOW_FAILS_ALWAYS ? a->tries : 2;
    }
    /* how often a task of a bag has failed is forgotten when it is stolen */
    if (runs < needed || ((a->graph || a->tries == 1) && runs > needed + a->remade))
        htc__flow_audit_fail(a, "%llu runs without a fault, to be %llu", (unsigned long long)runs, (unsigned long long)needed);
}

void htc__flow_audit_print(const flow_audit *a, void (*print)(void *ctx, const char *line), void *ctx)
{
    const htc_flow_edge *edge;
    uint64_t             base;
    char                 line[200];
    for (uint64_t j = 0; j < a->n_ledgers; j++) {
        const ledger *x = a->ledgers[j];
        snprintf(line, sizeof line, "ledger %llu of worker %llu: %llu live in %u spans, %u notes, %u accepted", (unsigned long long)j,
                 (unsigned long long)x->worker, (unsigned long long)htc__ids_count(&x->live), x->live.n, x->n_out, x->n_in);
        print(ctx, line);
        for (uint32_t i = 0; i < x->n_out; i++) {
            snprintf(line, sizeof line, "  note %llu to ledger %llu, from task %llu, %llu tasks", (unsigned long long)x->out[i].note,
                     (unsigned long long)x->out[i].ledger, (unsigned long long)x->out[i].ids[0].from,
                     (unsigned long long)htc__ledger_note_tasks(&x->out[i]));
            print(ctx, line);
        }
        for (uint64_t id = 0; a->graph && id < a->tasks; id++) {
            size_t n = parents_of(a, id, &edge, &base), untold = 0;
            if (!htc__ids_has(&x->live, (ledger_span){ id, id + 1 }))
                continue;
            for (size_t i = 0; i < n; i++)
                untold += !a->task[id].bits[i];
            snprintf(line, sizeof line, "  task %llu: state %u, %zu of %zu parents untold", (unsigned long long)id, a->task[id].state, untold, n);
            print(ctx, line);
        }
    }
}
