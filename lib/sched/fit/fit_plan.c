/* The plan of conservative backfilling: how many nodes are free from when to when if jobs run as long as they say,
 * running jobs and reservations included. A treap by time whose subtrees know their least and most, so that a gap is
 * found by leaping from where enough is free to where it is not; taking nodes for a while changes a range in one step.
 *
 * A plan holds as long as everything happens as planned; the points it needs are then the ends of running jobs and the
 * two ends of each reservation, so that room for two points a job is always enough. What happens otherwise makes it
 * loose (nodes are free that were not to be) or broken, and it is made again before the next decision:
 *
 * - loose: in order of the former starts. Nobody starts later than before: when a job's turn comes, those placed
 * already had starts no later than its own and have not moved to later ones, so at no moment from its former start on
 * do they hold more than they did, and its former place is still free.
 * - broken: in the order of the queue, which is the order of the claims. */
#include <assert.h>

#include "core/order.h"
#include "core/util.h"
#include "sched/fit/fit_private.h"

/* Two a job, one for what is overdue, one for now, and two while a reservation is entered. */
#define POINTS(jobs) (2 * (jobs) + 4)

htc_status htc__fit_plan_reserve(const htc_env *env, fit_plan *plan, size_t jobs)
{
    size_t points_cap = POINTS(jobs);
    if (!plan->floor && !(plan->floor = htc__alloc(env, sizeof *plan->floor)))
        return HTC_ENOMEM;
    if (plan->points_cap < points_cap) {
        fit_point *points =
            htc__resize(env, plan->points, plan->points_cap * sizeof *points, points_cap * sizeof *points);
        if (!points)
            return HTC_ENOMEM;
        plan->points = points;
        plan->points_cap = points_cap;
    }
    if (plan->order_cap < jobs) {
        size_t *order = htc__resize(env, plan->order, plan->order_cap * sizeof *order, jobs * sizeof *order);
        if (!order)
            return HTC_ENOMEM;
        plan->order = order;
        plan->order_cap = jobs;
    }
    return HTC_OK;
}

void htc__fit_plan_free(const htc_env *env, fit_plan *plan)
{
    htc__free(env, plan->floor, sizeof *plan->floor);
    htc__free(env, plan->points, plan->points_cap * sizeof *plan->points);
    htc__free(env, plan->order, plan->order_cap * sizeof *plan->order);
}

/* ---- the treap ---- */

static int64_t least_of(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

static int64_t most_of(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

static void add_to(fit_point *p, uint32_t at, int64_t nodes)
{
    if (at == FIT_NONE)
        return;
    p[at].free += nodes;
    p[at].least += nodes;
    p[at].most += nodes;
    p[at].add += nodes;
}

static void hand_down(fit_point *p, uint32_t at)
{
    add_to(p, p[at].left, p[at].add);
    add_to(p, p[at].right, p[at].add);
    p[at].add = 0;
}

static void look_below(fit_point *p, uint32_t at)
{
    uint32_t left = p[at].left, right = p[at].right;
    p[at].least = p[at].most = p[at].free;
    if (left != FIT_NONE) {
        p[at].least = least_of(p[at].least, p[left].least);
        p[at].most = most_of(p[at].most, p[left].most);
    }
    if (right != FIT_NONE) {
        p[at].least = least_of(p[at].least, p[right].least);
        p[at].most = most_of(p[at].most, p[right].most);
    }
}

/* Into the points before time and those from time on. */
static void split(fit_point *p, uint32_t root, htc_ns time, uint32_t *before, uint32_t *from)
{
    if (root == FIT_NONE) {
        *before = *from = FIT_NONE;
        return;
    }
    hand_down(p, root);
    if (p[root].time < time) {
        *before = root;
        split(p, p[root].right, time, &p[root].right, from);
    } else {
        *from = root;
        split(p, p[root].left, time, before, &p[root].left);
    }
    look_below(p, root);
}

static uint32_t join(fit_point *p, uint32_t a, uint32_t b)
{
    if (a == FIT_NONE || b == FIT_NONE)
        return a == FIT_NONE ? b : a;
    if (p[a].heap > p[b].heap) {
        hand_down(p, a);
        p[a].right = join(p, p[a].right, b);
        look_below(p, a);
        return a;
    }
    hand_down(p, b);
    p[b].left = join(p, a, p[b].left);
    look_below(p, b);
    return b;
}

static uint32_t outermost(const fit_point *p, uint32_t root, int last)
{
    while ((last ? p[root].right : p[root].left) != FIT_NONE)
        root = last ? p[root].right : p[root].left;
    return root;
}

/* Whatever is asked of this treap's nodes on the way of a split has been handed down to them. */
static uint32_t new_point(fit_plan *plan, htc_ns time, int64_t nodes)
{
    uint32_t at = plan->unused;
    if (at != FIT_NONE)
        plan->unused = plan->points[at].left;
    else
        at = plan->used++;
    assert(at < plan->points_cap);
    plan->points[at] = (fit_point){ .time = time,
                                    .free = nodes,
                                    .least = nodes,
                                    .most = nodes,
                                    .left = FIT_NONE,
                                    .right = FIT_NONE,
                                    .heap = htc__fit_heap(++plan->points_ever) };
    return at;
}

static void forget(fit_plan *plan, uint32_t at)
{
    if (at == FIT_NONE)
        return;
    forget(plan, plan->points[at].left);
    forget(plan, plan->points[at].right);
    plan->points[at].left = plan->unused;
    plan->unused = at;
}

/* Cut the treap at time, with a point at the cut. The last point before it and the first behind it lie on the way of
 * the split, so what is still to be added has reached them. */
static void cut(fit_plan *plan, uint32_t root, htc_ns time, uint32_t *before, uint32_t *from)
{
    fit_point *p = plan->points;
    split(p, root, time, before, from);
    if (*from == FIT_NONE || p[outermost(p, *from, 0)].time != time)
        *from = join(p, new_point(plan, time, p[outermost(p, *before, 1)].free), *from);
}

/* So many nodes more from one moment to another (HTC_NEVER: for ever), neither before the first point. */
static void change(fit_plan *plan, htc_ns from, htc_ns to, int64_t nodes)
{
    uint32_t before, during, behind = FIT_NONE;
    cut(plan, plan->root, from, &before, &during);
    if (to != HTC_NEVER)
        cut(plan, during, to, &during, &behind);
    add_to(plan->points, during, nodes);
    plan->root = join(plan->points, join(plan->points, before, during), behind);
}

/* One point is left of what is past, and it stands at now. */
static void begin_at(fit_plan *plan, htc_ns now)
{
    uint32_t past, future;
    cut(plan, plan->root, now, &past, &future);
    forget(plan, past);
    plan->root = future;
}

/* The first point from a moment on at which at least so many nodes are free (enough), or fewer. */
static uint32_t find(const fit_point *p, uint32_t at, int64_t add, htc_ns from, int64_t nodes, int enough)
{
    if (at == FIT_NONE || (enough ? p[at].most + add < nodes : p[at].least + add >= nodes))
        return FIT_NONE;
    if (p[at].time >= from) {
        uint32_t found = find(p, p[at].left, add + p[at].add, from, nodes, enough);
        if (found != FIT_NONE)
            return found;
        if (enough ? p[at].free + add >= nodes : p[at].free + add < nodes)
            return at;
    }
    return find(p, p[at].right, add + p[at].add, from, nodes, enough);
}

/* ---- reservations ---- */

/* The earliest start from the first point on. */
static htc_ns earliest(const fit_plan *plan, const htc_fit_job *job)
{
    const fit_point *p = plan->points;
    for (htc_ns from = htc__fit_floor(plan->floor, job);;) {
        uint32_t begin = find(p, plan->root, 0, from, job->nodes, 1);
        if (begin == FIT_NONE)
            return HTC_NEVER;
        uint32_t end = find(p, plan->root, 0, p[begin].time, job->nodes, 0);
        if (end == FIT_NONE || p[end].time - p[begin].time >= job->estimate)
            return p[begin].time;
        from = p[end].time;
    }
}

static void reserve(htc_fit *fit, uint32_t at)
{
    fit_slot *s = &fit->slots[at];
    s->reserved = earliest(&fit->plan, &s->job);
    if (s->reserved == HTC_NEVER)
        return;
    htc__fit_floor_found(fit->plan.floor, &s->job, s->reserved);
    change(&fit->plan, s->reserved, htc__fit_later(s->reserved, s->job.estimate), -(int64_t)s->job.nodes);
}

void htc__fit_plan_add(htc_fit *fit, htc_ns now, uint32_t at)
{
    begin_at(&fit->plan, now);
    reserve(fit, at);
}

/* When a running job counts as ending. */
static htc_ns planned_end(const fit_plan *plan, htc_ns end)
{
    return end < plan->made ? plan->overdue_ends : end;
}

void htc__fit_plan_moved(htc_fit *fit, htc_ns end, htc_ns to)
{
    fit_plan *plan = &fit->plan;
    if (to > planned_end(plan, end))
        plan->broken = 1;
    else if (to < planned_end(plan, end))
        plan->loose = 1;
}

/* A reserved start was missed, or a job runs longer than it was to. */
static int has_slipped(const htc_fit *fit, htc_ns now)
{
    const fit_slot *slots = fit->slots;
    uint32_t first = htc__fit_from(slots, fit->running, 0), due = htc__fit_from(slots, fit->running, fit->plan.made);
    return htc__fit_sum(slots, fit->waiting).reserved < now || (due != FIT_NONE && slots[due].key < now) ||
           (first != due && fit->plan.overdue_ends < now);
}

int htc__fit_plan_holds(const htc_fit *fit, htc_ns now)
{
    return !fit->plan.broken && !fit->plan.loose && !has_slipped(fit, now);
}

htc_ns htc__fit_plan_short(const htc_fit *fit, htc_ns now, uint32_t nodes)
{
    const fit_point *p = fit->plan.points;
    htc_ns           from = 0;
    for (uint32_t at = fit->plan.root; at != FIT_NONE; at = p[at].time <= now ? p[at].right : p[at].left)
        if (p[at].time <= now)
            from = p[at].time;
    uint32_t found = find(p, fit->plan.root, 0, from, nodes, 0);
    return found == FIT_NONE ? HTC_NEVER : p[found].time > now ? p[found].time : now;
}

/* ---- making it again ---- */

/* A running job gives its nodes back. */
static void enter_running(htc_fit *fit, uint32_t at)
{
    if (at == FIT_NONE)
        return;
    const fit_slot *s = &fit->slots[at];
    htc_ns          end = planned_end(&fit->plan, s->key);
    enter_running(fit, s->left);
    if (end != HTC_NEVER)
        change(&fit->plan, end, HTC_NEVER, s->job.nodes);
    enter_running(fit, s->right);
}

static size_t list(const htc_fit *fit, uint32_t at, size_t n)
{
    if (at == FIT_NONE)
        return n;
    n = list(fit, fit->slots[at].left, n);
    fit->plan.order[n] = at;
    return list(fit, fit->slots[at].right, n + 1);
}

static int before_formerly(const void *ctx, size_t a, size_t b)
{
    const fit_slot *slots = ctx;
    if (slots[a].reserved != slots[b].reserved)
        return slots[a].reserved < slots[b].reserved;
    return htc__fit_before(slots, (uint32_t)a, (uint32_t)b);
}

void htc__fit_plan_refresh(htc_fit *fit, htc_ns now)
{
    fit_plan *plan = &fit->plan;
    if (htc__fit_plan_holds(fit, now))
        return;
    int    broken = plan->broken || has_slipped(fit, now);
    size_t n = list(fit, fit->waiting, 0);
    if (!broken)
        htc__order_sort(plan->order, n, before_formerly, fit->slots);
    plan->unused = FIT_NONE;
    plan->used = 0;
    plan->made = now;
    plan->overdue_ends = htc__fit_later(now, HTC_FIT_OVERDUE_NS);
    plan->broken = plan->loose = 0;
    htc__fit_floor_forget(plan->floor);
    plan->root = new_point(plan, now, (int64_t)fit->nodes - (int64_t)fit->busy);
    enter_running(fit, fit->running);
    for (size_t i = 0; i < n; i++)
        reserve(fit, (uint32_t)plan->order[i]);
    htc__fit_touch_all(fit->slots, fit->waiting);
}
