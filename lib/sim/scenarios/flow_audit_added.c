/* Tasks that tasks of an audited flow add: what each of them prints, and what it has drawn. */
#include <stdio.h>
#include <string.h>

#include "core/util.h"
#include "roles/worker/addition.h"
#include "sim/scenarios/flow_audit_private.h"

#define DEEP_MAX 3   /* tasks that are added by tasks that are added by one that was submitted add none */
#define LAST     3000 /* what is added behind so many adds nothing */
#define MANY     700 /* of one in thirty that were submitted; so that what is live in a ledger is at its bound */

static audited_added *added_of(const flow_audit *a, uint64_t id)
{
    uint64_t own = htc_flow_total(a->given);
    uint32_t low = 0, high = a->n_added;
    if (id < own)
        return NULL;
    while (high - low > 1) {
        uint32_t middle = low + (high - low) / 2;
        if (a->added[middle].from <= id)
            low = middle;
        else
            high = middle;
    }
    return &a->added[low];
}

const htc_flow *htc__flow_audit_flow(const flow_audit *a, uint64_t id, uint64_t *base)
{
    const audited_added *x = added_of(a, id);
    *base = x ? x->from : 0;
    return x ? x->flow : a->given;
}

const htc_flow_task *htc__flow_audit_task(const flow_audit *a, uint64_t id)
{
    uint64_t        base;
    const htc_flow *f = htc__flow_audit_flow(a, id, &base);
    return htc_flow_get(f, (uint32_t)(id - base));
}

static uint64_t key_of(uint64_t id, uint64_t i)
{
    uint64_t x = (id + 1) * 0x9e3779b97f4a7c15 + i;
    x = (x ^ x >> 31) * 0x7fb5d329728ea185;
    return x ^ x >> 29;
}

static uint32_t depth_of(const flow_audit *a, uint64_t id)
{
    const audited_added *x = added_of(a, id);
    return x ? 1 + depth_of(a, x->task) : 0;
}

static uint32_t how_many(const flow_audit *a, uint64_t id)
{
    uint64_t own = htc_flow_total(a->given);
    if (id >= own + LAST)
        return 0;
    return id < own && !a->few && key_of(id, 0) % 30 == 7 ? MANY : (uint32_t)(key_of(id, 1) % 7); /* of some none */
}

static void put_task(const flow_audit *a, uint64_t id, uint32_t i, uint32_t deep, htc_buf *b)
{
    uint64_t             key = key_of(id, 100 + i);
    const htc_flow_task *t = htc__flow_audit_task(a, id);
    htc_put_text(b, "n%u:", i);
    if (i && key % 3 == 0)
        htc_put_text(b, " after=n%u%s", i - 1 - (uint32_t)(key / 3 % (i < 5 ? i : 5)), key / 16 % 4 == 0 ? ":any" : "");
    if (deep < DEEP_MAX && key / 64 % 8 == 0)
        htc_put_raw(b, htc_bytes_of(a->functions && key / 8192 % 2 ? " adds=output @call /lib/f.so f\n" : " adds=stdout /bin/true\n"));
    else if (t->n_out && key / 512 % 3 == 0)
        htc_put_text(b, " in=%s /bin/true\n", t->out[0].name);
    else
        htc_put_raw(b, htc_bytes_of(key / 2048 % 4 == 0 && !a->commands ? " @noop\n" : " /bin/true\n"));
}

int htc__flow_audit_is_intake(const flow_audit *a, uint64_t id)
{
    return a->graph && htc__flow_audit_task(a, id)->builtin == HTC_FLOW_INTAKE;
}

static audited_intake *intake_of(const flow_audit *a, uint64_t id)
{
    for (uint32_t i = 0; i < a->n_intakes; i++)
        if (a->intakes[i].task == id)
            return &a->intakes[i];
    return NULL;
}

int htc__flow_audit_see_intake(flow_audit *a, uint64_t id, const graph_task *t)
{
    audited_intake *x = intake_of(a, id);
    if (x && (x->nonce != t->outcome.epoch || !htc_bytes_equal(htc_buf_bytes(&x->text), t->added)))
        htc__flow_audit_fail(a, "intake %llu has taken in something else than before", (unsigned long long)id);
    if (x)
        return 0;
    for (uint32_t i = 0; i < a->n_intakes; i++)
        if (a->intakes[i].nonce == t->outcome.epoch)
            htc__flow_audit_fail(a, "what intake %llu has taken in, intake %llu takes in too", (unsigned long long)a->intakes[i].task, (unsigned long long)id);
    audited_intake *more = htc__resize(&a->env, a->intakes, a->n_intakes * sizeof *more, (a->n_intakes + 1) * sizeof *more);
    if (!more)
        return HTC_ENOMEM;
    a->intakes = more;
    x = &more[a->n_intakes++];
    x->task = id;
    x->nonce = t->outcome.epoch;
    htc_buf_init(&x->text, &a->env, 0);
    htc_put_raw(&x->text, t->added);
    return x->text.status == HTC_OK ? 0 : HTC_ENOMEM;
}

void htc__flow_audit_taken_in(flow_audit *a, uint64_t id, uint64_t nonce)
{
    const audited_intake *x = intake_of(a, id);
    if (!x || x->nonce != nonce)
        htc__flow_audit_fail(a, "who adds was told that intake %llu has taken it in, and it has not", (unsigned long long)id);
}

void htc__flow_audit_text(const flow_audit *a, uint64_t id, htc_buf *b)
{
    const audited_intake *taken = intake_of(a, id);
    if (taken) {
        htc_put_raw(b, htc_buf_bytes(&taken->text));
        return;
    }
    uint32_t deep = depth_of(a, id);
    htc_put_raw(b, htc_bytes_of("# what is added\n"));
    for (uint32_t i = 0; i < how_many(a, id); i++)
        put_task(a, id, i, deep + 1, b);
}

static htc_status more_tasks(flow_audit *a, uint64_t tasks)
{
    audited_task *more = htc__resize(&a->env, a->task, a->cap_tasks * sizeof *more, tasks * 2 * sizeof *more);
    if (!more)
        return HTC_ENOMEM;
    a->task = more;
    a->cap_tasks = tasks * 2;
    return HTC_OK;
}

static htc_status add(flow_audit *a, const flow_drawn *d)
{
    htc_buf        text;
    htc_flow      *f = NULL;
    audited_added *more = htc__resize(&a->env, a->added, a->n_added * sizeof *more, (a->n_added + 1) * sizeof *more);
    if (!more)
        return HTC_ENOMEM;
    a->added = more;
    htc_buf_init(&text, &a->env, 0);
    htc__flow_audit_text(a, d->task, &text);
    addition_source from = { .name = "audit", .files = a->header.data, .intake = htc__flow_audit_is_intake(a, d->task) };
    htc_status      status = htc__addition_read(&a->env, htc_buf_bytes(&text), &from, &f, NULL);
    htc_buf_free(&text);
    if (status == HTC_OK && (!f || htc_flow_total(f) != d->n))
        htc__flow_audit_fail(a, "task %llu has drawn %u numbers, which it does not need", (unsigned long long)d->task, d->n);
    audited_added x = { d->task, d->from, d->n, f, htc_flow_edges(f) + 1, NULL };
    if (status == HTC_OK && a->tasks + d->n > a->cap_tasks)
        status = more_tasks(a, a->tasks + d->n);
    if (status == HTC_OK && !(x.bits = htc__alloc(&a->env, x.n_bits)))
        status = HTC_ENOMEM;
    if (status != HTC_OK) {
        htc_flow_destroy(f);
        return status;
    }
    a->added[a->n_added++] = x;
    a->stirred = d->task;
    memset(a->task + a->tasks, 0, d->n * sizeof *a->task);
    a->tasks += d->n;
    const htc_flow_edge *edge;
    size_t               at = 0;
    for (uint32_t i = 0; f && i < d->n; i++) {
        uint64_t dice = key_of(d->task, 2000 + i) % 20;
        a->task[d->from + i].fate = dice == 0 ? FLOW_FAILS_ALWAYS : dice == 1 ? FLOW_FAILS_ONCE : FLOW_GOES_WELL;
        a->task[d->from + i].bits = x.bits + at;
        at += htc_flow_parents(f, i, &edge);
    }
    return HTC_OK;
}

int htc__flow_audit_drawn(flow_audit *a)
{
    for (uint32_t i = 0; i < a->header.n_drawn; i++) {
        const flow_drawn *d = &a->header.drawn[i];
        uint32_t          k = 0;
        while (k < a->n_added && a->added[k].task != d->task)
            k++;
        if (k < a->n_added && a->added[k].from != d->from)
            htc__flow_audit_fail(a, "task %llu has drawn numbers twice", (unsigned long long)d->task);
        if (k < a->n_added || d->from != a->tasks)
            continue;
        if (d->task >= a->tasks || a->task[d->task].state != GRAPH_DONE)
            htc__flow_audit_fail(a, "task %llu has drawn numbers, and is not done", (unsigned long long)d->task);
        else if (add(a, d) != HTC_OK)
            return HTC_ENOMEM;
        else
            i = UINT32_MAX; /* from the first again */
    }
    if (a->header.tasks != a->tasks)
        htc__flow_audit_fail(a, "the header says %llu tasks, and there are %llu", (unsigned long long)a->header.tasks, (unsigned long long)a->tasks);
    return 0;
}

uint64_t htc__flow_audit_not_live(flow_audit *a)
{
    uint64_t n = 0;
    for (uint32_t k = 0; k < a->n_added; k++) {
        const audited_added *x = &a->added[k];
        if (!(a->task[x->task].placed & 1))
            continue;
        n += x->n;
        for (uint64_t id = x->from; id < x->from + x->n; id++)
            if (a->task[id].placed)
                htc__flow_audit_fail(a, "task %llu has a place, as has task %llu which adds it", (unsigned long long)id, (unsigned long long)x->task);
    }
    return n;
}

void htc__flow_audit_added_counted(flow_audit *a, uint64_t id)
{
    uint32_t drawn = 0;
    while (drawn < a->n_added && a->added[drawn].task != id)
        drawn++;
    if (drawn == a->n_added && a->task[id].state == GRAPH_DONE && htc__flow_audit_task(a, id)->adds && how_many(a, id))
        htc__flow_audit_fail(a, "task %llu is counted, and has not added its %u tasks", (unsigned long long)id, how_many(a, id));
    for (uint32_t k = 0; k < a->n_added; k++)
        for (uint64_t of = a->added[k].from; a->added[k].task == id && of < a->added[k].from + a->added[k].n; of++)
            if (!a->task[of].state)
                htc__flow_audit_fail(a, "task %llu is counted, and task %llu, which it adds, is not there", (unsigned long long)id, (unsigned long long)of);
}

void htc__flow_audit_added_free(flow_audit *a)
{
    for (uint32_t k = 0; k < a->n_added; k++) {
        htc_flow_destroy(a->added[k].flow);
        htc__free(&a->env, a->added[k].bits, a->added[k].n_bits);
    }
    for (uint32_t k = 0; k < a->n_intakes; k++)
        htc_buf_free(&a->intakes[k].text);
    htc__free(&a->env, a->intakes, a->n_intakes * sizeof *a->intakes);
    htc__free(&a->env, a->added, a->n_added * sizeof *a->added);
}
