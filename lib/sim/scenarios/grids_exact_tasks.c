/* Several grids, message by message: tasks, as the hierarchy's node knows them. It hands them in where it believes that CPUs are free, and is told what became of them.
 * Which job gets a CPU is htc_hierarchy_dispatch's decision. */
#include "core/fault.h"
#include "core/util.h"
#include "sim/scenarios/grids_exact.h"

#define GRANTS 64

static uint64_t free_of(const exact_known *k)
{
    uint64_t ours = k->down ? 0 : k->ours;
    return ours > k->out ? ours - k->out : 0;
}

/* ---- places ---- */

static int take_place(grids_exact *x, uint32_t *place)
{
    *place = x->m.free_task;
    if (*place != GRIDS_NONE) {
        x->m.free_task = x->attempt[*place].next_of_job;
        return 1;
    }
    exact_attempt *all = htc__grids_room(x, x->attempt, &x->attempts_cap, sizeof *all, x->attempts);
    if (!all)
        return 0;
    x->attempt = all;
    *place = (uint32_t)x->attempts++;
    return 1;
}

/* A place with the grid: it is told, and uses no other. */
static int take_slot(grids_exact *x, uint32_t grid, uint32_t *slot)
{
    exact_known *k = &x->known[grid];
    if (k->free_slots) {
        *slot = k->free_slot[--k->free_slots];
        return 1;
    }
    uint32_t *all = htc__grids_room(x, k->free_slot, &k->slots_cap, sizeof *all, k->slots); /* for when all are free */
    if (!all)
        return 0;
    k->free_slot = all;
    *slot = k->slots++;
    return 1;
}

static void give_places_back(grids_exact *x, uint32_t a)
{
    exact_attempt *t = &x->attempt[a];
    exact_known   *k = &x->known[t->grid];
    k->free_slot[k->free_slots++] = t->slot;
    t->state = ATTEMPT_FREE;
    t->next_of_job = x->m.free_task;
    x->m.free_task = a;
}

/* ---- lists of what has a CPU, as far as is known ---- */

static void link_attempt(grids_exact *x, uint32_t a)
{
    exact_attempt *t = &x->attempt[a];
    uint32_t      *of_job = &x->job[t->job].j.first_task, *of_queue = &x->m.queue[t->queue].running[t->grid];
    t->prev_of_job = t->prev_of_queue = GRIDS_NONE;
    t->next_of_job = *of_job;
    t->next_of_queue = *of_queue;
    if (*of_job != GRIDS_NONE)
        x->attempt[*of_job].prev_of_job = a;
    if (*of_queue != GRIDS_NONE)
        x->attempt[*of_queue].prev_of_queue = a;
    *of_job = *of_queue = a;
}

static void unlink_attempt(grids_exact *x, uint32_t a)
{
    const exact_attempt *t = &x->attempt[a];
    if (t->prev_of_job != GRIDS_NONE)
        x->attempt[t->prev_of_job].next_of_job = t->next_of_job;
    else
        x->job[t->job].j.first_task = t->next_of_job;
    if (t->next_of_job != GRIDS_NONE)
        x->attempt[t->next_of_job].prev_of_job = t->prev_of_job;
    if (t->prev_of_queue != GRIDS_NONE)
        x->attempt[t->prev_of_queue].next_of_queue = t->next_of_queue;
    else
        x->m.queue[t->queue].running[t->grid] = t->next_of_queue;
    if (t->next_of_queue != GRIDS_NONE)
        x->attempt[t->next_of_queue].prev_of_queue = t->prev_of_queue;
}

/* ---- a task is handed in ---- */

static void count_start(grids_exact *x, grids_job *j, uint32_t grid)
{
    htc_ns now = htc__twin_now(&x->t);
    if (j->phase == GRIDS_QUEUED) {
        htc__grids_phase(j, now, GRIDS_RUNNING);
        j->first_start = UINT64_MAX;
    }
    if (x->m.shelter && j->running == 0 && now - j->idle_since >= x->m.rest)
        j->safe_until = now + x->m.shelter;
    j->again -= j->again > 0;
    j->waiting--;
    j->running++;
    j->started++;
    htc__grids_look_at_cpus(j);
    x->m.queue[j->queue].waiting--;
    x->m.queue[j->queue].busy++;
    x->m.by_queue[j->queue].r.started++;
    x->known[grid].out++;
    x->submitted++;
}

static int hand_in(grids_exact *x, uint32_t job, uint32_t grid)
{
    exact_job   *e = &x->job[job];
    grids_job   *j = &e->j;
    exact_known *k = &x->known[grid];
    htc_ns       now = htc__twin_now(&x->t);
    uint32_t     a, slot;
    if (!take_place(x, &a) || !take_slot(x, grid, &slot))
        return 0;
    x->attempt[a] = (exact_attempt){ .handed_in = now, .job = job, .number = j->next_number++, .queue = j->queue, .slot = slot, .grid = (uint8_t)grid, .state = ATTEMPT_OUT };
    htc_hierarchy_task told = { .size = sizeof told, .id = job, .task = x->attempt[a].number, .grid = grid, .kflop = j->nominal, .waited_ns = k->waited };
    if (!htc__grids_call(x, htc_hierarchy_task_started(x->m.hierarchy, &told, now), "a task that was handed in"))
        return 0;
    link_attempt(x, a);
    e->attempts++;
    htc_status status = htc__grids_say(x, x->out, k->peer, &(grids_said){ .type = GRIDS_SAY_SUBMIT, .attempt = a, .slot = slot, .number = told.task, .value = j->number, .kflop = j->part,
                                                                          .flag = j->again > 0 });
    count_start(x, j, grid);
    return htc__grids_call(x, status, "a message");
}

/* ---- it has no CPU any longer, as far as is known ---- */

static void has_no_cpu(grids_exact *x, uint32_t a)
{
    const exact_attempt *t = &x->attempt[a];
    grids_job           *j = &x->job[t->job].j;
    htc_ns               now = htc__twin_now(&x->t);
    unlink_attempt(x, a);
    j->running--;
    if (j->running == 0)
        j->idle_since = now;
    x->m.queue[t->queue].busy--;
    x->known[t->grid].out--;
    x->known_ns += now - t->handed_in;
}

/* Messages to a grid keep their order: the CPU is free when what is handed in after this comes there. */
static void recall(grids_exact *x, uint32_t a, attempt_state state)
{
    exact_attempt *t = &x->attempt[a];
    has_no_cpu(x, a);
    t->state = (uint8_t)state;
    htc__grids_call(x, htc__grids_say(x, x->out, x->known[t->grid].peer, &(grids_said){ .type = GRIDS_SAY_RECALL, .attempt = a, .slot = t->slot, .number = t->number }), "a message");
}

void htc__grids_recall_job(grids_exact *x, uint32_t job)
{
    while (x->job[job].j.first_task != GRIDS_NONE && htc__grids_good(x)) {
        recall(x, x->job[job].j.first_task, ATTEMPT_MOVED);
        x->job[job].j.waiting++;
    }
}

/* It will be done again. */
static void lose(grids_exact *x, uint32_t job, uint32_t queue, uint32_t number)
{
    grids_job *j = &x->job[job].j;
    j->evictions++;
    j->again++;
    j->waiting++;
    x->m.evictions++;
    x->m.by_queue[queue].r.evicted++;
    if (j->listed)
        x->m.queue[j->queue].waiting++;
    htc__grids_look_at_cpus(j);
    if (!htc__grids_call(x, htc_hierarchy_task_lost(x->m.hierarchy, job, number, htc__twin_now(&x->t)), "a task that is lost"))
        return;
    j->in_vain++;
    if (x->m.options.task_attempts != UINT32_MAX && j->in_vain >= (uint64_t)x->m.options.task_attempts * j->tasks)
        htc__grids_exact_failed(x, job);
}

static void count_evicted(grids_exact *x, const exact_attempt *t, htc_ns ran)
{
    x->job[t->job].j.evicted += ran;
    x->evicted_ns += ran;
    x->m.by_queue[t->queue].r.evicted_s += (double)ran;
}

static void count_moved(grids_exact *x, const exact_attempt *t, htc_ns ran)
{
    x->moved++;
    x->job[t->job].j.moved += ran;
    x->moved_ns += ran;
    x->m.by_queue[t->queue].r.moved_s += (double)ran;
}

static void done(grids_exact *x, const exact_attempt *t, htc_ns ran)
{
    grids_job *j = &x->job[t->job].j;
    j->tasks--;
    j->in_vain = 0;
    j->left -= j->part;
    j->work += ran;
    x->done++;
    x->work_ns += ran;
    x->longest = ran > x->longest ? ran : x->longest;
    x->m.by_queue[t->queue].r.work_s += (double)ran;
    htc__grids_look_at_cpus(j);
    if (htc__grids_call(x, htc_hierarchy_task_done(x->m.hierarchy, t->job, t->number, htc__twin_now(&x->t)), "a task that is done") && j->tasks == 0)
        htc__grids_exact_done(x, t->job);
}

/* ---- what grids say ---- */

static void started(grids_exact *x, const exact_attempt *t)
{
    grids_job *j = &x->job[t->job].j;
    htc_ns     now = htc__twin_now(&x->t);
    if (t->state != ATTEMPT_OUT)
        return;
    x->known[t->grid].waited = now - t->handed_in;
    j->first_start = now < j->first_start ? now : j->first_start;
}

/* What comes of one that was recalled is too late: its job has left, or the task waits again. */
static void ended(grids_exact *x, uint32_t a, uint32_t type, htc_ns ran)
{
    exact_attempt t = x->attempt[a];
    exact_job    *e = &x->job[t.job];
    int           was_out = t.state == ATTEMPT_OUT;
    if (was_out)
        has_no_cpu(x, a);
    give_places_back(x, a);
    e->attempts--;
    if (t.state == ATTEMPT_MOVED && !(type == GRIDS_SAY_DONE && HTC__BROKEN(late_result_taken))) {
        count_moved(x, &t, ran);
    } else if (t.state == ATTEMPT_PREEMPTED) {
        count_evicted(x, &t, ran);
    } else if (type == GRIDS_SAY_EVICTED) {
        count_evicted(x, &t, ran);
        lose(x, t.job, t.queue, t.number);
    } else {
        done(x, &t, ran);
    }
    if (x->job[t.job].over && x->job[t.job].attempts == 0)
        htc__grids_exact_closes(x, t.job);
    if (was_out && htc__grids_good(x))
        htc__grids_dispatch_grid(x, t.grid);
}

static void of_cpus(grids_exact *x, const grids_said *s, uint32_t grid, uint32_t peer)
{
    exact_known *k = &x->known[grid];
    x->met += !k->said;
    k->said = 1;
    k->peer = peer;
    k->ours = s->value;
    k->down = s->flag;
    if (x->t.begin != HTC_NEVER)
        htc__grids_dispatch_grid(x, grid);
}

void htc__grids_hear_of_grid(grids_exact *x, const htc_input *in)
{
    grids_said s;
    if (!htc__grids_hear(x, in->body, &s))
        return;
    if (s.type == GRIDS_SAY_CPUS) {
        of_cpus(x, &s, s.number, in->peer);
        return;
    }
    exact_attempt *t = s.attempt < x->attempts ? &x->attempt[s.attempt] : NULL;
    if (!t || t->state == ATTEMPT_FREE || t->slot != s.slot || t->number != s.number || (s.type == GRIDS_SAY_STOPPED && t->state == ATTEMPT_OUT) || s.type < GRIDS_SAY_STARTED)
        htc__twin_fail(&x->t, HTC_EINTERNAL, "a grid speaks of a task that it has not");
    else if (s.type == GRIDS_SAY_STARTED)
        started(x, t);
    else
        ended(x, s.attempt, s.type, s.value);
}

/* ---- who gets CPUs ---- */

/* The latest task of a lower level that may be stopped. */
static int preempt(grids_exact *x, uint32_t grid, uint32_t level)
{
    const grids_grid *g = &x->m.grid[grid];
    htc_ns            now = htc__twin_now(&x->t);
    for (uint32_t i = g->queues; i-- > 0 && x->m.queue[g->queue[i]].level > level;)
        for (uint32_t a = x->m.queue[g->queue[i]].running[grid]; a != GRIDS_NONE; a = x->attempt[a].next_of_queue) {
            uint32_t job = x->attempt[a].job, number = x->attempt[a].number;
            if (x->job[job].j.safe_until > now)
                continue;
            recall(x, a, ATTEMPT_PREEMPTED);
            lose(x, job, g->queue[i], number);
            return 1;
        }
    return 0;
}

static uint64_t below(const grids_exact *x, uint32_t grid, uint32_t level)
{
    const grids_grid *g = &x->m.grid[grid];
    uint64_t          busy = 0;
    for (uint32_t i = g->queues; i-- > 0 && x->m.queue[g->queue[i]].level > level;)
        busy += x->m.queue[g->queue[i]].running[grid] != GRIDS_NONE ? x->m.queue[g->queue[i]].busy : 0;
    return busy;
}

static int may_start(grids_exact *x, uint64_t job, uint32_t queue)
{
    const grids_job *j = &x->job[job].j;
    if (j->listed && j->queue == queue && j->waiting)
        return 1;
    htc__twin_fail(&x->t, HTC_EINTERNAL, "a CPU is given to a job that wants none");
    return 0;
}

/* Free CPUs of a grid for one queue. */
static void dispatch_to(grids_exact *x, uint32_t queue, uint32_t grid)
{
    grids_queue        *q = &x->m.queue[queue];
    exact_known        *k = &x->known[grid];
    htc_hierarchy_grant grant[GRANTS];
    size_t              n = GRANTS;
    while (q->waiting && n == GRANTS && htc__grids_good(x)) {
        uint64_t cpus = free_of(k);
        if (q->flags & HTC_SIM_GRIDS_PREEMPTS && !k->down)
            cpus += below(x, grid, q->level);
        if (cpus == 0 || !htc__grids_call(x, htc_hierarchy_dispatch(x->m.hierarchy, queue, grid, cpus < UINT32_MAX ? (uint32_t)cpus : UINT32_MAX, grant, GRANTS, &n), "who gets CPUs"))
            return;
        for (size_t i = 0; i < n; i++)
            for (uint32_t c = 0; c < grant[i].cpus; c++)
                if (!may_start(x, grant[i].id, queue) || (free_of(k) == 0 && !preempt(x, grid, q->level)) || !hand_in(x, (uint32_t)grant[i].id, grid))
                    return;
    }
}

void htc__grids_dispatch_grid(grids_exact *x, uint32_t grid)
{
    const grids_grid *g = &x->m.grid[grid];
    for (uint32_t i = 0; i < g->queues; i++)
        if (x->m.queue[g->queue[i]].waiting)
            dispatch_to(x, g->queue[i], grid);
}

void htc__grids_dispatch_from(grids_exact *x, uint32_t queue)
{
    const grids_queue *q = &x->m.queue[queue];
    uint64_t           tried = 0;
    int                by_level = x->m.options.system == HTC_SIM_GRIDS_MQH || x->m.options.system == HTC_SIM_GRIDS_FCFSH;
    for (uint32_t n = 0; n < q->grids && q->waiting; n++) {
        uint32_t best = by_level ? q->grid[n] : GRIDS_NONE;
        for (uint32_t i = 0; i < q->grids && !by_level; i++)
            if (!(tried >> q->grid[i] & 1) && (best == GRIDS_NONE || free_of(&x->known[q->grid[i]]) > free_of(&x->known[best])))
                best = q->grid[i];
        tried |= UINT64_C(1) << best;
        dispatch_to(x, queue, best);
    }
}

void htc__grids_sample_grids(grids_exact *x)
{
    for (uint32_t g = 0; g < x->m.n_grids; g++) {
        const exact_known *k = &x->known[g];
        htc__grids_call(x, htc_hierarchy_sample(x->m.hierarchy, g, k->down ? HTC_HIERARCHY_UNREACHABLE : (uint32_t)free_of(k), k->down ? 0 : (uint32_t)k->ours, htc__twin_now(&x->t)),
                        "a sample of a grid");
    }
}
