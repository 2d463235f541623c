/* ProcessNewTask, EnforceQueueLimits and the migration policy: figures 1 and 2 of the paper. */
#include <assert.h>
#include <math.h>

#include "core/fault.h"
#include "sched/hierarchy/hierarchy_private.h"

/* C_e, where the CPUs that phi counts at most are known already. */
static double ce_of(const hier_queue *q, uint32_t cpus, double cpus_now)
{
    return q->te_s * (htc__hierarchy_least(cpus, cpus_now) * q->unit);
}

double htc__hierarchy_ce(const htc_hierarchy *h, const hier_queue *q, uint32_t cpus)
{
    return ce_of(q, cpus, htc__hierarchy_cpus_now(h, q));
}

double htc__hierarchy_cq(const htc_hierarchy *h, const hier_queue *q)
{
    return q->tq_s * (htc__hierarchy_least(q->spec.cpus, htc__hierarchy_cpus_now(h, q)) * q->unit);
}

/* What is decided about a job with that entry (NULL: it waits outside) in queue q. */
static inline void say(const hier_job *j, const hier_queue *q, const hier_entry *e, double cpus_now, uint32_t action,
                       htc_hierarchy_decision *out)
{
    *out = (htc_hierarchy_decision){ .id = j->id,
                                     .action = action,
                                     .reason = j->state == HTC_HIERARCHY_LEAVING ? j->reason : HTC_HIERARCHY_NO_REASON,
                                     .from = j->queue,
                                     .to = j->to,
                                     .kflop = e ? e->left : j->left,
                                     .limit = ce_of(q, j->cpus, cpus_now),
                                     .state = e && e->has_started ? HTC_HIERARCHY_RUNNING :
                                              e                   ? HTC_HIERARCHY_QUEUED :
                                              j->until > 0        ? HTC_HIERARCHY_ESTIMATING :
                                                                    0 };
    if (action == HTC_HIERARCHY_ESTIMATE) {
        out->until = j->until;
        out->cpus = q->spec.level == 1 ? 1 : j->cpus;
    }
}

void htc__hierarchy_decided(const htc_hierarchy *h, uint32_t job, uint32_t action, htc_hierarchy_decision *out)
{
    const hier_job   *j = &h->jobs[job];
    const hier_queue *q = &h->queues[j->queue];
    say(j, q, htc__hierarchy_entry_of(h, j), htc__hierarchy_cpus_now(h, q), action, out);
}

static inline void leave(hier_job *j, hier_queue *q, hier_entry *e, double cpus_now, uint32_t reason, uint32_t to,
                         htc_hierarchy_decision *out)
{
    if (e) {
        e->place = HIER_LEAVING;
        q->leaving++;
    }
    j->state = HTC_HIERARCHY_LEAVING;
    j->reason = (uint8_t)reason;
    j->to = to;
    q->out[reason]++;
    say(j, q, e, cpus_now, to == HTC_HIERARCHY_NOWHERE ? HTC_HIERARCHY_TERMINATE : HTC_HIERARCHY_MIGRATE, out);
}

void htc__hierarchy_leave(htc_hierarchy *h, uint32_t job, uint32_t reason, uint32_t to, htc_hierarchy_decision *out)
{
    hier_job   *j = &h->jobs[job];
    hier_queue *q = &h->queues[j->queue];
    leave(j, q, htc__hierarchy_entry_of(h, j), htc__hierarchy_cpus_now(h, q), reason, to, out);
}

void htc__hierarchy_unleave(htc_hierarchy *h, uint32_t job, htc_ns now)
{
    hier_job   *j = &h->jobs[job];
    hier_queue *q = &h->queues[j->queue];
    assert(q->out[j->reason] > 0);
    q->out[j->reason]--;
    if (j->reason == HTC_HIERARCHY_SHARE) {
        j->returned = 1;
        j->hold_until = htc__hierarchy_after(now, h->options.share_hold_ns);
    }
    htc__hierarchy_unpledge(h, j);
    j->to = HTC_HIERARCHY_NOWHERE;
    j->reason = HTC_HIERARCHY_NO_REASON;
    if (j->at == HIER_NONE) {
        htc__hierarchy_append(h, job);
    } else {
        q->entries[j->at].place = HIER_HERE;
        assert(q->leaving > 0);
        q->leaving--;
        j->state = HTC_HIERARCHY_QUEUED;
    }
}

/* The queue below that has CPUs for the job; with migrate = direct the first whose C_e holds what is known of it. */
static uint32_t below(const htc_hierarchy *h, const hier_job *j)
{
    double   left = htc__hierarchy_left(h, j);
    uint32_t found = HTC_HIERARCHY_NOWHERE;
    for (uint32_t to = h->queues[j->queue].spec.next; to != HTC_HIERARCHY_NOWHERE; to = h->queues[to].spec.next) {
        uint32_t cpus = htc__hierarchy_cpus_for(h, &h->queues[to], j);
        if (cpus == 0)
            continue;
        found = to;
        if (h->options.migrate == HTC_HIERARCHY_NEXT || left == 0 || left <= htc__hierarchy_ce(h, &h->queues[to], cpus))
            break;
    }
    return found;
}

/* MigrationPolicy(reason, j) for a job that never got into the queue. */
static void refuse(htc_hierarchy *h, uint32_t job, uint32_t reason, htc_hierarchy_decision *out)
{
    hier_job   *j = &h->jobs[job];
    hier_queue *q = &h->queues[j->queue];
    uint32_t    to = below(h, j);
    if (reason == HTC_HIERARCHY_OVERLOAD && (q->spec.flags & HTC_HIERARCHY_REJECTS))
        to = HTC_HIERARCHY_NOWHERE;
    htc__hierarchy_leave(h, job, reason, to, out);
    if (to != HTC_HIERARCHY_NOWHERE)
        return;
    out->action = HTC_HIERARCHY_REJECT;
    out->limit = htc__hierarchy_largest_ce(h);
    htc__hierarchy_detach(h, job);
    htc__hierarchy_forget(h, job);
}

static void accept(htc_hierarchy *h, uint32_t job, htc_hierarchy_decision *out)
{
    htc__hierarchy_decided(h, job, HTC_HIERARCHY_QUEUE, out);
    htc__hierarchy_append(h, job);
}

/* All its tasks have run: a bound comes too late, and a complexity that was never known is the 0 that is left. */
static int all_done(const hier_job *j)
{
    return j->split && j->tasks == 0;
}

static int fits(const htc_hierarchy *h, const hier_queue *q, const hier_job *j)
{
    return (j->known || all_done(j)) && htc__hierarchy_left(h, j) <= htc__hierarchy_ce(h, q, j->cpus);
}

/* ProcessNewTask (figure 1). */
void htc__hierarchy_process(htc_hierarchy *h, uint32_t job, htc_ns now, htc_hierarchy_decision *out)
{
    hier_job   *j = &h->jobs[job];
    hier_queue *q = &h->queues[j->queue];
    if (h->options.mode == HTC_HIERARCHY_SIMPLE) {
        accept(h, job, out);
    } else if (htc__hierarchy_on(q, HTC_HIERARCHY_OVERLOAD) && q->load > htc__hierarchy_cq(h, q)) { /* 1 */
        refuse(h, job, HTC_HIERARCHY_OVERLOAD, out);
    } else if (fits(h, q, j)) { /* 3 */
        accept(h, job, out);
    } else { /* 2 */
        htc_ns budget = (htc_ns)(q->spec.alpha * (double)q->spec.te_ns);
        j->state = HTC_HIERARCHY_ESTIMATING;
        j->until = 0;
        htc__hierarchy_decided(h, job, HTC_HIERARCHY_ESTIMATE, out);
        out->until = j->until = htc__hierarchy_after(now, budget > 0 ? budget : 1);
    }
}

/* Step 3, once the estimate is as good as it gets here. */
static void conclude(htc_hierarchy *h, uint32_t job, htc_hierarchy_decision *out)
{
    hier_job   *j = &h->jobs[job];
    hier_queue *q = &h->queues[j->queue];
    if (fits(h, q, j) || !htc__hierarchy_on(q, HTC_HIERARCHY_MISMATCH))
        accept(h, job, out);
    else
        refuse(h, job, HTC_HIERARCHY_MISMATCH, out);
}

htc_status htc_hierarchy_arrive(htc_hierarchy *h, uint32_t queue, const htc_hierarchy_job *job, htc_ns now,
                                htc_hierarchy_decision *out)
{
    htc_hierarchy_job copy;
    uint32_t          at;
    if (!h || !out || !htc__hierarchy_queue(h, queue))
        return HTC_EINVAL;
    htc_status status = htc__hierarchy_check_job(job, &copy);
    if (status == HTC_OK)
        status = htc__hierarchy_add(h, queue, &copy, now > h->now ? now : h->now, &at);
    if (status == HTC_OK)
        htc__hierarchy_process(h, at, htc__hierarchy_now(h, now), out);
    return status;
}

htc_status htc_hierarchy_restore(htc_hierarchy *h, uint32_t queue, const htc_hierarchy_job *job, htc_ns now)
{
    htc_hierarchy_job copy;
    uint32_t          at;
    if (!h || !htc__hierarchy_queue(h, queue))
        return HTC_EINVAL;
    htc_status status = htc__hierarchy_check_job(job, &copy);
    if (status == HTC_OK)
        status = htc__hierarchy_add(h, queue, &copy, now > h->now ? now : h->now, &at);
    if (status != HTC_OK)
        return status;
    const hier_queue *q = &h->queues[queue];
    htc_ns            clock = htc__hierarchy_clock(q, htc__hierarchy_now(h, now));
    /* Moments before the clock's origin wrap around, and so do the differences that are taken of them. */
    h->jobs[at].arrived = clock - copy.tq_ns;
    htc__hierarchy_append(h, at);
    hier_entry *e = htc__hierarchy_entry_of(h, &h->jobs[at]);
    e->has_started = copy.te_ns > 0;
    e->started = clock - copy.te_ns;
    return HTC_OK;
}

htc_status htc_hierarchy_bound(htc_hierarchy *h, uint64_t id, double kflop, htc_ns now, htc_hierarchy_decision *out)
{
    if (!h || !out)
        return HTC_EINVAL;
    uint32_t job = htc__hierarchy_find(h, id);
    if (job == HIER_NONE)
        return HTC_ENOTFOUND;
    hier_job   *j = &h->jobs[job];
    hier_queue *q = &h->queues[j->queue];
    hier_entry *e = htc__hierarchy_entry_of(h, j);
    double     *left = e ? &e->left : &j->left;
    if (!(kflop > 0 && kflop <= HTC_HIERARCHY_KFLOP_MAX)) {
        q->bad_bounds++;
        return HTC_EINVAL;
    }
    now = htc__hierarchy_now(h, now);
    if (all_done(j) || (j->known && kflop > *left)) {
        q->bad_bounds++;
    } else {
        *left = kflop;
        j->known = 1;
    }
    if (j->state == HTC_HIERARCHY_LEAVING)
        htc__hierarchy_decided(h, job, j->to == HTC_HIERARCHY_NOWHERE ? HTC_HIERARCHY_TERMINATE : HTC_HIERARCHY_MIGRATE, out);
    else if (j->state == HTC_HIERARCHY_QUEUED)
        htc__hierarchy_decided(h, job, HTC_HIERARCHY_QUEUE, out);
    else if (now >= j->until || *left <= htc__hierarchy_ce(h, q, j->cpus))
        conclude(h, job, out);
    else
        htc__hierarchy_decided(h, job, HTC_HIERARCHY_ESTIMATE, out);
    return HTC_OK;
}

htc_status htc_hierarchy_estimated(htc_hierarchy *h, uint64_t id, htc_ns now, htc_hierarchy_decision *out)
{
    if (!h || !out)
        return HTC_EINVAL;
    uint32_t job = htc__hierarchy_find(h, id);
    if (job == HIER_NONE)
        return HTC_ENOTFOUND;
    if (h->jobs[job].state != HTC_HIERARCHY_ESTIMATING)
        return HTC_EINVAL;
    htc__hierarchy_now(h, now);
    conclude(h, job, out);
    return HTC_OK;
}

/* What a scan compares with: the same for all jobs of a queue. */
typedef struct limits {
    htc_ns now, clock, te, tq;
    double cpus_now, cq, load;
    int    alone; /* one job, and nobody who is leaving counts */
} limits;

static double rest(htc_ns limit, htc_ns elapsed, double cpus, double unit)
{
    return elapsed >= limit ? 0 : htc__hierarchy_phi(limit - elapsed, cpus, unit);
}

/* Steps 1 to 2c for one job: why it has to leave, or HTC_HIERARCHY_NO_REASON and its C is added to the load. */
static uint32_t judge(const htc_hierarchy *h, const hier_queue *q, limits *l, hier_entry *e)
{
    htc_ns tq = l->clock - e->arrived, te = e->has_started ? l->clock - e->started : 0;
    double c = htc__hierarchy_remaining(h, q, e, l->now); /* 2a */
    double cpus = htc__hierarchy_least(e->cpus, l->cpus_now);
    int    stays = l->alone && h->options.sole == HTC_HIERARCHY_SOLE_ALL;
    e->overstays = 0;
    if ((tq > l->tq || te > l->te) && htc__hierarchy_on(q, HTC_HIERARCHY_OVERDUE)) { /* 1 */
        if (!l->alone || h->options.sole == HTC_HIERARCHY_SOLE_NONE)
            return HTC_HIERARCHY_OVERDUE;
        e->overstays = 1;
        stays = 1;
    }
    if (!stays) {
        if ((c > rest(l->te, te, cpus, q->unit) || c > rest(l->tq, tq, cpus, q->unit)) &&
            htc__hierarchy_on(q, HTC_HIERARCHY_JOB_POTENTIAL)) /* 2b */
            return HTC_HIERARCHY_JOB_POTENTIAL;
        if (l->load + c > l->cq && htc__hierarchy_on(q, HTC_HIERARCHY_QUEUE_POTENTIAL)) /* 2c */
            return HTC_HIERARCHY_QUEUE_POTENTIAL;
    }
    l->load += c;
    return HTC_HIERARCHY_NO_REASON;
}

/* EnforceQueueLimits (figure 2). */
htc_status htc_hierarchy_enforce(htc_hierarchy *h, uint32_t queue, htc_ns now, const htc_hierarchy_decision **out, size_t *n)
{
    hier_queue *q = h ? htc__hierarchy_queue(h, queue) : NULL;
    if (!q || !out || !n)
        return HTC_EINVAL;
    now = htc__hierarchy_now(h, now);
    if (q->end - q->first > 2 * q->live + 64)
        htc__hierarchy_compact(h, q);
    limits l = { .now = now,
                 .clock = htc__hierarchy_clock(q, now),
                 .te = q->spec.te_ns,
                 .tq = q->spec.tq_ns,
                 .cpus_now = htc__hierarchy_cpus_now(h, q),
                 .cq = htc__hierarchy_cq(h, q),
                 .alone = q->live - q->leaving == 1 };
    size_t told = 0;
    for (size_t i = q->first; i < q->end; i++) {
        hier_entry *e = &q->entries[i];
        uint32_t    reason = e->place == HIER_HERE ? judge(h, q, &l, e) : HTC_HIERARCHY_NO_REASON;
        if (reason != HTC_HIERARCHY_NO_REASON && !HTC__BROKEN(limits_ignored)) {
            hier_job *j = &h->jobs[e->job];
            leave(j, q, e, l.cpus_now, reason, below(h, j), &h->decisions[told++]);
        }
    }
    q->load = l.load;
    q->enforce_at = q->live + q->waiting > 0 ? htc__hierarchy_after(now, q->period_ns) : HTC_NEVER;
    *out = h->decisions;
    *n = told;
    return HTC_OK;
}

/* A job pushed sideways is at the door of its target: is it still a good idea? */
static int welcome(const htc_hierarchy *h, const hier_job *j, const hier_queue *to, htc_ns now)
{
    const hier_queue *home = &h->queues[j->queue];
    const hier_entry *e = htc__hierarchy_entry_of(h, j);
    if (htc__hierarchy_on(to, HTC_HIERARCHY_OVERLOAD) && to->load > htc__hierarchy_cq(h, to))
        return 0;
    hier_work work = { e ? htc__hierarchy_remaining(h, home, e, now) : j->left, htc__hierarchy_left(h, j) };
    return j->returned || htc__hierarchy_pays(h, j, &work, home, htc__hierarchy_ahead(h, j, now), to);
}

/* A count that came from outside may stand at its end already, and no move may make it a small one. */
static uint32_t one_more(uint32_t moves)
{
    return moves < UINT32_MAX ? moves + 1 : moves;
}

htc_status htc_hierarchy_moved(htc_hierarchy *h, uint64_t id, htc_ns now, htc_hierarchy_decision *out)
{
    if (!h || !out)
        return HTC_EINVAL;
    uint32_t job = htc__hierarchy_find(h, id);
    if (job == HIER_NONE)
        return HTC_ENOTFOUND;
    hier_job   *j = &h->jobs[job];
    hier_queue *to = j->state == HTC_HIERARCHY_LEAVING ? htc__hierarchy_queue(h, j->to) : NULL;
    if (!to)
        return HTC_EINVAL;
    hier_queue *from = &h->queues[j->queue];
    uint32_t    cpus = htc__hierarchy_cpus_for(h, to, j), target = j->to, reason = j->reason;
    now = now > h->now ? now : h->now;
    /* The hierarchy may have been re-ordered meanwhile. */
    int sideways = to->spec.level == from->spec.level;
    int stays = to->spec.level < from->spec.level || cpus == 0 ||
                (sideways && reason == HTC_HIERARCHY_SHARE && !welcome(h, j, to, now));
    htc_status status = stays ? HTC_OK : htc__hierarchy_reserve(h, to);
    if (status != HTC_OK)
        return status;
    htc__hierarchy_now(h, now);
    if (stays) {
        htc__hierarchy_unleave(h, job, now);
        htc__hierarchy_decided(h, job, HTC_HIERARCHY_STAY, out);
        out->reason = reason;
        return HTC_OK;
    }
    htc__hierarchy_detach(h, job);
    j->queue = target;
    j->to = HTC_HIERARCHY_NOWHERE;
    j->cpus = cpus;
    j->arrived = htc__hierarchy_clock(to, now);
    j->until = 0;
    j->reason = HTC_HIERARCHY_NO_REASON;
    j->state = HTC_HIERARCHY_QUEUED;
    j->moves = sideways ? one_more(j->moves) : 0;
    j->returned = sideways ? j->returned : 0;
    to->shared_in += sideways;
    htc__hierarchy_joined(h, to, now);
    htc__hierarchy_process(h, job, now, out);
    return HTC_OK;
}

htc_status htc_hierarchy_offer(htc_hierarchy *h, uint32_t queue, const htc_hierarchy_job *job, uint32_t home,
                               double ahead_kflop, htc_ns now, htc_hierarchy_decision *out)
{
    htc_hierarchy_job copy;
    hier_queue       *to = h ? htc__hierarchy_queue(h, queue) : NULL;
    if (!to || !out || home >= h->options.queue_count || !(h->queues[home].spec.flags & HTC_HIERARCHY_REMOTE) ||
        h->queues[home].spec.level != to->spec.level || !(ahead_kflop >= 0 && ahead_kflop <= HTC_HIERARCHY_KFLOP_MAX))
        return HTC_EINVAL;
    htc_status status = htc__hierarchy_check_job(job, &copy);
    if (status != HTC_OK)
        return status;
    if (htc__hierarchy_find(h, copy.id) != HIER_NONE)
        return HTC_EEXISTS;
    hier_job seen = { .bytes = copy.bytes, .features = copy.features, .memory_mb = copy.memory_mb, .tasks = copy.tasks,
                      .split = copy.tasks > 0 };
    uint32_t cpus = htc__hierarchy_cpus_for(h, to, &seen), at;
    if (cpus == 0)
        return HTC_ENOFIT;
    hier_work work = { copy.kflop, copy.kflop };
    int       overloaded = htc__hierarchy_on(to, HTC_HIERARCHY_OVERLOAD) && to->load > htc__hierarchy_cq(h, to);
    if (overloaded || (!copy.returned && !htc__hierarchy_pays(h, &seen, &work, &h->queues[home], ahead_kflop, to))) {
        htc__hierarchy_now(h, now);
        *out = (htc_hierarchy_decision){ .id = copy.id, .action = HTC_HIERARCHY_STAY, .reason = HTC_HIERARCHY_SHARE,
                                         .from = home, .to = HTC_HIERARCHY_NOWHERE, .kflop = copy.kflop,
                                         .limit = htc__hierarchy_ce(h, to, cpus) };
        return HTC_OK;
    }
    copy.moves = one_more(copy.moves);
    status = htc__hierarchy_add(h, queue, &copy, now > h->now ? now : h->now, &at);
    if (status != HTC_OK)
        return status;
    to->shared_in++;
    htc__hierarchy_process(h, at, htc__hierarchy_now(h, now), out);
    return HTC_OK;
}

htc_status htc_hierarchy_stay(htc_hierarchy *h, uint64_t id, htc_ns now)
{
    if (!h)
        return HTC_EINVAL;
    uint32_t job = htc__hierarchy_find(h, id);
    if (job == HIER_NONE)
        return HTC_ENOTFOUND;
    if (h->jobs[job].state != HTC_HIERARCHY_LEAVING)
        return HTC_EINVAL;
    htc__hierarchy_unleave(h, job, htc__hierarchy_now(h, now));
    return HTC_OK;
}

htc_status htc_hierarchy_send(htc_hierarchy *h, uint64_t id, uint32_t queue, htc_ns now, htc_hierarchy_decision *out)
{
    if (!h || !out || queue >= h->options.queue_count)
        return HTC_EINVAL;
    uint32_t job = htc__hierarchy_find(h, id);
    if (job == HIER_NONE)
        return HTC_ENOTFOUND;
    const hier_job   *j = &h->jobs[job];
    const hier_queue *to = &h->queues[queue];
    if (j->state == HTC_HIERARCHY_LEAVING || queue == j->queue || to->spec.level < h->queues[j->queue].spec.level)
        return HTC_EINVAL;
    if (htc__hierarchy_cpus_for(h, to, j) == 0)
        return HTC_ENOFIT;
    htc__hierarchy_now(h, now);
    htc__hierarchy_leave(h, job, HTC_HIERARCHY_SENT, queue, out);
    return HTC_OK;
}
