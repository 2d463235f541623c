/* Several grids, message by message: a grid. It has CPUs, of which some are ours; it starts what it is handed when one of these is free, and says what becomes of it. */
#include "core/fault.h"
#include "core/util.h"
#include "sim/scenarios/grids_exact.h"

#define PEER 1 /* the hierarchy */

static grids_grid *table(const exact_grid *g)
{
    return &g->x->m.grid[g->number];
}

void htc__grids_grid_account(exact_grid *g)
{
    htc_ns now = htc__twin_now(&g->x->t);
    g->used_ns += (grids_sum)g->used * (now - g->then);
    g->then = now;
}

static htc_status say_of(exact_grid *g, htc_output *out, uint32_t type, uint32_t slot, htc_ns span)
{
    const exact_task *t = &g->task[slot];
    return htc__grids_say(g->x, out, PEER, &(grids_said){ .type = type, .attempt = t->attempt, .slot = slot, .number = t->number, .value = span });
}

static htc_status say_cpus(exact_grid *g, htc_output *out)
{
    const grids_grid *k = table(g);
    return htc__grids_say(g->x, out, PEER, &(grids_said){ .type = GRIDS_SAY_CPUS, .number = g->number, .value = k->ours, .flag = k->down });
}

/* ---- those that wait for a CPU ---- */

static void queue_up(exact_grid *g, uint32_t slot)
{
    exact_task *t = &g->task[slot];
    t->state = EXACT_WAITS;
    t->next = GRIDS_NONE;
    t->prev = g->last;
    if (g->last != GRIDS_NONE)
        g->task[g->last].next = slot;
    else
        g->first = slot;
    g->last = slot;
}

static void leave_queue(exact_grid *g, uint32_t slot)
{
    const exact_task *t = &g->task[slot];
    if (t->prev != GRIDS_NONE)
        g->task[t->prev].next = t->next;
    else
        g->first = t->next;
    if (t->next != GRIDS_NONE)
        g->task[t->next].prev = t->prev;
    else
        g->last = t->prev;
}

/* ---- a CPU is taken and given back ---- */

static void due_at(exact_grid *g, uint32_t slot, htc_ns at)
{
    if (at == HTC_NEVER)
        htc__twin_fail(&g->x->t, HTC_ETOOBIG, "a task of grid %u would run to the end of all time", g->number);
    else if (htc__due_set(&g->due, slot, at) != HTC_OK)
        htc__twin_fail(&g->x->t, HTC_ENOMEM, "no memory for the tasks of a grid");
}

static void take_cpu(exact_grid *g, uint32_t slot)
{
    exact_task *t = &g->task[slot];
    grids_draw  d = htc__grids_draw_task(table(g), htc__scale_stream(g->x->m.options.seed, t->job), t->number, t->kflop, t->again);
    leave_queue(g, slot);
    htc__grids_grid_account(g);
    g->used++;
    t->state = EXACT_STARTS;
    t->got = htc__twin_now(&g->x->t);
    t->begin = htc__grids_after(t->got, d.latency);
    t->length = d.length;
    t->evicted = d.evicted;
    due_at(g, slot, t->begin);
}

static void start_waiting(exact_grid *g)
{
    const grids_grid *k = table(g);
    while (g->first != GRIDS_NONE && !k->down && (g->used < k->ours || HTC__BROKEN(recall_ignored)))
        take_cpu(g, g->first);
}

/* It is here no longer. Answers for how long it ran. */
static htc_ns forget(exact_grid *g, uint32_t slot)
{
    exact_task *t = &g->task[slot];
    htc_ns      now = htc__twin_now(&g->x->t), ran = t->state != EXACT_WAITS && now > t->begin ? now - t->begin : 0;
    if (t->state == EXACT_WAITS) {
        leave_queue(g, slot);
    } else {
        htc__grids_grid_account(g);
        g->used--;
        g->held_ns += now - t->got;
        g->busy_ns += ran;
        htc__due_clear(&g->due, slot);
    }
    t->state = EXACT_NONE;
    return ran;
}

static htc_status lose(exact_grid *g, htc_output *out, uint32_t slot)
{
    htc_ns ran = forget(g, slot);
    g->evicted++;
    return say_of(g, out, GRIDS_SAY_EVICTED, slot, ran);
}

/* Its latency is over, or its run. */
static htc_status happens(exact_grid *g, htc_output *out, uint32_t slot)
{
    exact_task *t = &g->task[slot];
    if (t->state == EXACT_STARTS) {
        t->state = EXACT_RUNS;
        due_at(g, slot, htc__grids_after(t->begin, t->length));
        return say_of(g, out, GRIDS_SAY_STARTED, slot, 0);
    }
    if (t->evicted)
        return lose(g, out, slot);
    htc_ns ran = forget(g, slot);
    g->done++;
    g->done_ns += t->length;
    return say_of(g, out, GRIDS_SAY_DONE, slot, ran);
}

/* ---- the grid itself ---- */

static htc_status varies(exact_grid *g, htc_output *out)
{
    uint64_t before = table(g)->ours;
    htc__grids_next_ours(&g->x->m, g->number);
    g->varies_at = htc__grids_after(g->varies_at, table(g)->step);
    return table(g)->ours != before ? say_cpus(g, out) : HTC_OK;
}

static htc_status goes_down_or_up(exact_grid *g, htc_output *out)
{
    grids_grid *k = table(g);
    htc_status  status = HTC_OK;
    k->down = !k->down;
    g->outage_at = htc__grids_after(g->outage_at, htc__grids_next_outage(&g->x->m, g->number));
    if (k->down && g->outage_at == HTC_NEVER)
        htc__twin_fail(&g->x->t, HTC_ETOOBIG, "an outage of grid %u would last to the end of all time", g->number);
    for (uint32_t slot = 0; k->down && slot < g->tasks_cap && status == HTC_OK; slot++)
        if (g->task[slot].state != EXACT_NONE)
            status = lose(g, out, slot);
    return status == HTC_OK ? say_cpus(g, out) : status;
}

/* ---- messages ---- */

static htc_status submitted(exact_grid *g, htc_output *out, const grids_said *s)
{
    grids_exact *x = g->x;
    while (s->slot >= g->tasks_cap) {
        exact_task *task = htc__grids_room(x, g->task, &g->tasks_cap, sizeof *task, g->tasks_cap);
        if (!task)
            return HTC_OK;
        g->task = task;
    }
    if (g->task[s->slot].state != EXACT_NONE) {
        htc__twin_fail(&x->t, HTC_EINTERNAL, "grid %u is handed a task in the place of another", g->number);
        return HTC_OK;
    }
    g->task[s->slot] = (exact_task){ .job = s->value, .kflop = s->kflop, .attempt = s->attempt, .number = s->number, .again = s->flag != 0 };
    g->taken++;
    queue_up(g, s->slot);
    return table(g)->down ? lose(g, out, s->slot) : HTC_OK;
}

/* One that has ended has answered already. */
static htc_status recalled(exact_grid *g, htc_output *out, const grids_said *s)
{
    if (s->slot >= g->tasks_cap || g->task[s->slot].state == EXACT_NONE || HTC__BROKEN(recall_ignored))
        return HTC_OK;
    htc_ns ran = forget(g, s->slot);
    g->stopped++;
    if (HTC__BROKEN(recall_unanswered))
        return HTC_OK;
    return say_of(g, out, GRIDS_SAY_STOPPED, s->slot, ran);
}

static htc_status heard(exact_grid *g, htc_output *out, const htc_input *in)
{
    grids_said s;
    if (!htc__grids_hear(g->x, in->body, &s))
        return HTC_OK;
    if (s.type == GRIDS_SAY_SUBMIT)
        return submitted(g, out, &s);
    if (s.type == GRIDS_SAY_RECALL)
        return recalled(g, out, &s);
    htc__twin_fail(&g->x->t, HTC_EINTERNAL, "grid %u is told what a grid says", g->number);
    return HTC_OK;
}

/* ---- the machine ---- */

static htc_ns next_of(const exact_grid *g)
{
    htc_ns at = htc__due_first(&g->due, NULL);
    at = g->varies_at < at ? g->varies_at : at;
    return g->outage_at < at ? g->outage_at : at;
}

static htc_status whatever_is_due(exact_grid *g, htc_output *out)
{
    htc_ns     now = htc__twin_now(&g->x->t);
    htc_status status = HTC_OK;
    uint32_t   slot;
    while (status == HTC_OK && htc__grids_good(g->x) && next_of(g) <= now) {
        if (htc__due_first(&g->due, &slot) <= now)
            status = happens(g, out, slot);
        else if (g->varies_at <= now)
            status = varies(g, out);
        else
            status = goes_down_or_up(g, out);
        start_waiting(g);
    }
    return status;
}

static htc_status step(void *self, const htc_input *in, htc_output *out)
{
    exact_grid  *g = self;
    grids_exact *x = g->x;
    htc_status   status = HTC_OK;
    if (!htc__grids_good(x))
        return HTC_OK;
    if (in->kind == HTC_IN_OPENED)
        return say_cpus(g, out);
    if (in->kind == HTC_IN_MESSAGE)
        status = heard(g, out, in);
    if (status != HTC_OK || in->now < x->t.begin)
        return status;
    start_waiting(g);
    return whatever_is_due(g, out);
}

static htc_ns deadline(const void *self)
{
    const exact_grid *g = self;
    if (g->x->t.begin == HTC_NEVER || !htc__grids_good(g->x) || !g->x->m.left)
        return HTC_NEVER;
    return htc__grids_moment(g->x, next_of(g));
}

const htc_machine_ops htc__grids_grid_ops = { .size = sizeof(htc_machine_ops), .step = step, .deadline = deadline };

/* ---- open and close ---- */

htc_status htc__grids_grid_open(grids_exact *x, uint32_t number)
{
    exact_grid *g = &x->grid[number];
    grids_grid *k = &x->m.grid[number];
    *g = (exact_grid){ .x = x, .number = number, .first = GRIDS_NONE, .last = GRIDS_NONE, .varies_at = HTC_NEVER, .outage_at = HTC_NEVER, .due.env = &x->t.memory.env };
    if (k->varies) {
        htc__grids_first_ours(&x->m, number);
        g->varies_at = k->step;
    }
    if (k->outage)
        g->outage_at = htc__grids_next_outage(&x->m, number);
    return HTC_OK;
}

void htc__grids_grid_close(exact_grid *g)
{
    if (!g->x)
        return;
    htc__free(&g->x->t.memory.env, g->task, g->tasks_cap * sizeof *g->task);
    htc__due_free(&g->due);
}
