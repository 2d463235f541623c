/* Queues with the nodes, which steal from each other. Whom a thief asks, whom it robs, of how many tasks and when it tries again are decisions of
 * htcsched/steal.h; what is asked is answered, and what is given moves, here. */
#include <assert.h>

#include "core/util.h"
#include "sim/models/manytask.h"

/* ---- spans ---- */

static uint32_t take_span(many *m)
{
    many    *home = m->home;
    uint32_t s = home->now.span_free;
    for (uint32_t p = 1; s == MANY_NONE && p < htc__many_parts(m); p++) { /* parts have given some up */
        s = home[p].now.span_free;
        home[p].now.span_free = MANY_NONE;
    }
    if (s != MANY_NONE) {
        home->now.span_free = home->span[s].next;
        return s;
    }
    if (home->now.spans_used == home->now.spans) {
        uint64_t   room = 2 * (uint64_t)home->now.spans;
        many_span *more = room < MANY_NONE ? htc__resize_raw(&m->env, home->span, home->now.spans * sizeof *more, room * sizeof *more) : NULL;
        if (!more) {
            htc_scale_fail(m->scale, HTC_ENOMEM);
            return MANY_NONE;
        }
        home->span = more;
        home->now.spans = (uint32_t)room;
    }
    return home->now.spans_used++;
}

static void drop_span(many *m, uint32_t s)
{
    m->home->span[s].next = m->home->now.span_free;
    m->home->now.span_free = s;
}

/* Tasks are the last of a node's queue now. */
static void append(many *m, many_node *v, uint64_t first, uint64_t n)
{
    if (v->front == 0) {
        v->first = first;
        v->front = n;
        return;
    }
    uint64_t end = v->last == MANY_NONE ? v->first + v->front : m->home->span[v->last].first + m->home->span[v->last].n;
    if (end == first) {
        *(v->last == MANY_NONE ? &v->front : &m->home->span[v->last].n) += n;
        return;
    }
    uint32_t s = take_span(m);
    if (s == MANY_NONE)
        return;
    m->home->span[s] = (many_span){ .first = first, .n = n, .before = v->last, .next = MANY_NONE };
    *(v->last == MANY_NONE ? &v->more : &m->home->span[v->last].next) = s;
    v->last = s;
}

static void next_span(many *m, many_node *v)
{
    uint32_t s = v->more;
    v->first = m->home->span[s].first;
    v->front = m->home->span[s].n;
    v->more = m->home->span[s].next;
    *(v->more == MANY_NONE ? &v->last : &m->home->span[v->more].before) = MANY_NONE;
    drop_span(m, s);
}

/* Take tasks from the end of a queue, of which there are as many: the last span first. */
static uint32_t take_last(many *m, many_node *v, uint64_t amount)
{
    uint32_t loot = MANY_NONE, at = MANY_NONE;
    while (amount) {
        uint64_t from = v->last == MANY_NONE ? v->first : m->home->span[v->last].first, n = v->last == MANY_NONE ? v->front : m->home->span[v->last].n;
        uint64_t taken = n < amount ? n : amount;
        uint32_t s = v->last;
        assert(taken > 0);
        if (s != MANY_NONE && taken == n) { /* the span itself moves */
            v->last = m->home->span[s].before;
            *(v->last == MANY_NONE ? &v->more : &m->home->span[v->last].next) = MANY_NONE;
        } else {
            *(s == MANY_NONE ? &v->front : &m->home->span[s].n) -= taken;
            if ((s = take_span(m)) == MANY_NONE)
                return loot;
        }
        m->home->span[s] = (many_span){ .first = from + n - taken, .n = taken, .before = MANY_NONE, .next = MANY_NONE };
        *(at == MANY_NONE ? &loot : &m->home->span[at].next) = s;
        at = s;
        amount -= taken;
    }
    return loot;
}

/* ---- the thief as the policy knows it ---- */

static htc_steal_thief thief_of(const many *m, uint32_t i, htc_ns due)
{
    const many_node *v = &m->node[i];
    return htc__thief_of(m->nodes, i, v->phase, v->failures, v->nudged, due);
}

static void keep(many_node *v, const htc_steal_thief *t)
{
    v->failures = (uint16_t)(t->failures < UINT16_MAX ? t->failures : UINT16_MAX);
    v->nudged = htc__thief_was_nudged(t) & 1;
}

static htc_ns now_ns(const many *m)
{
    return htc__scale_time(m->scale) * m->options.tick_ns;
}

static void step_at(many *m, uint32_t i, uint32_t phase, uint64_t tick)
{
    m->node[i].phase = phase & 15;
    m->node[i].due = tick;
    (void)htc_scale_at(m->scale, tick, htc__many_id(m, i, MANY_STEP));
}

static htc_rng stream_of(const many *m, uint32_t i, uint32_t what)
{
    return (htc_rng){ htc_scale_hash(m->scale, (m->first_node + i) << 2 | what, htc__scale_time(m->scale)) };
}

static int has_nothing(const many *m, uint32_t i)
{
    return m->node[i].idle && m->waiting[i] == 0;
}

/* A thief without anything to look after asks, if its wait is over. Once all tasks have ended nobody asks any more. */
static void look_for_tasks(many *m, uint32_t i)
{
    if (m->node[i].phase == THIEF_NONE && has_nothing(m, i) && m->nodes > 1 && !htc__many_all_ended(m))
        step_at(m, i, THIEF_ASKED, htc__scale_time(m->scale) + m->hop_load);
}

/* ---- tasks begin ---- */

static inline void start_next(many *m, uint32_t i, many_node *v)
{
    uint64_t number = v->first++;
    m->waiting[i]--;
    if (--v->front == 0 && v->more != MANY_NONE)
        next_span(m, v);
    htc__many_start(m, i, v->group, number, m->task);
}

static void start_all(many *m, uint32_t i)
{
    many_node *v = &m->node[i];
    while (v->idle && m->waiting[i]) {
        v->idle--;
        start_next(m, i, v);
    }
}

static void send_nudges(many *m, uint32_t i)
{
    uint32_t to[HTC_STEAL_NUDGES_MAX], n = 0;
    uint64_t now = htc__scale_time(m->scale);
    m->node[i].nudge_at = now + m->nudge;
    htc_rng rng = stream_of(m, i, MANY_NUDGES);
    (void)htc_steal_whom_to_nudge(&rng, (uint32_t)m->nodes, i, HTC_STEAL_NUDGES_MAX, to, &n);
    for (uint32_t k = 0; k < n; k++) {
        uint32_t hops = htc__many_hops(m, i, to[k]);
        (void)htc_scale_at(m->scale, now + (hops == 1 ? m->hop_load : htc__many_message(m, hops, m->options.load_bytes)), htc__many_id(m, to[k], MANY_NUDGE));
    }
    m->now.nudges += n;
    htc__scale_messages(m->scale, n, 0, 0);
}

/* More waits here than can begin: some others are told. */
static inline void nudge_others(many *m, uint32_t i)
{
    if (m->nudge && m->waiting[i] && htc__scale_time(m->scale) >= m->node[i].nudge_at && m->nodes > 1)
        send_nudges(m, i);
}

static void nudge(many *m, uint32_t i)
{
    many_node      *v = &m->node[i];
    htc_steal_thief t = thief_of(m, i, 0);
    v->phase = htc__thief_nudge(&t, v->phase, now_ns(m)) & 15;
    keep(v, &t);
}

void htc__many_nudged(many *m, uint32_t i)
{
    htc__scale_messages(m->scale, 0, 1, 0);
    nudge(m, i);
    look_for_tasks(m, i);
}

/* ---- submission ---- */

static void place(many *m, uint32_t i, uint64_t first, uint64_t n)
{
    if (n == 0)
        return;
    m = htc__many_part(m, i);
    append(m, &m->node[i], first, n);
    m->waiting[i] += n;
    start_all(m, i);
    nudge(m, i);
    nudge_others(m, i);
}

static void place_at_random(many *m, uint64_t first, uint64_t n)
{
    uint64_t *count = m->load; /* nobody asks at this moment */
    for (uint64_t i = 0; i < m->nodes; i++)
        count[i] = 0;
    for (uint64_t t = first; t < first + n; t++)
        count[(htc_scale_hash(m->scale, MANY_LAYOUT, m->first_task + t) >> 32) * m->nodes >> 32]++;
    for (uint32_t i = 0; i < m->nodes; i++) {
        place(m, i, first, count[i]);
        first += count[i];
    }
}

static void place_with_each(many *m, uint64_t first, uint64_t n)
{
    for (uint32_t i = 0; i < m->nodes; i++) {
        uint64_t share = n / m->nodes + (i < n % m->nodes);
        place(m, i, first, share);
        first += share;
    }
}

static void submit(many *m)
{
    uint64_t first = m->home->now.submitted, n = htc__many_next_batch(m);
    if (m->options.layout == HTC_SIM_MANYTASK_ONE)
        place(m, (uint32_t)m->options.root, first, n);
    else if (m->options.layout == HTC_SIM_MANYTASK_EACH)
        place_with_each(m, first, n);
    else
        place_at_random(m, first, n);
}

void htc__many_submit_queued(many *m)
{
    while (m->home->now.submitted < m->options.tasks && m->waiting[m->options.root] < m->below && m->scale->status == HTC_OK)
        submit(m);
}

void htc__many_begin_queued(many *m)
{
    submit(m);
    htc__many_submit_queued(m);
    for (uint32_t i = 0; i < m->nodes; i++)
        look_for_tasks(htc__many_part(m, i), i);
}

/* ---- tasks that others push ---- */

/* Messages with tasks are equally fast: they arrive in the order in which they were sent. */
void htc__many_send_one(many *m, uint32_t i, uint64_t number)
{
    many_node *v = &m->node[i];
    uint32_t   s = take_span(m);
    if (s == MANY_NONE)
        return;
    m->home->span[s] = (many_span){ .first = number, .n = 1, .before = MANY_NONE, .next = MANY_NONE };
    *(v->loot == MANY_NONE ? &v->loot : &m->home->span[v->other].next) = s;
    v->other = s;
}

void htc__many_take_one(many *m, uint32_t i)
{
    many_node *v = &m->node[i];
    uint32_t   s = v->loot;
    if (s == MANY_NONE) /* there was no memory for it */
        return;
    uint64_t number = m->home->span[s].first;
    v->loot = m->home->span[s].next;
    drop_span(m, s);
    append(m, v, number, 1);
    m->waiting[i]++;
    start_all(m, i);
}

void htc__many_end_kept(many *m, uint32_t i)
{
    many_node *v = &m->node[i];
    v->ended++;
    if (m->waiting[i])
        start_next(m, i, v);
    else
        v->idle++;
}

/* ---- rounds ---- */

/* The loads as they are when the nearest hears of it; the round goes on when all answers are there. */
static void hear_loads(many *m, uint32_t i)
{
    const htc_sim_manytask_options *o = &m->options;
    many_node                      *v = &m->node[i];
    uint64_t                        now = htc__scale_time(m->scale), begun = now - m->hop_load, trip = 2 * m->hop_load, in_turn = 0;
    uint32_t                        n = 0, place_of = 0, hops = 1;
    htc_rng                         rng = stream_of(m, i, MANY_THIEVES);
    v->phase = THIEF_NONE;
    if (htc__many_all_ended(m))
        return;
    htc_steal_thief t = thief_of(m, i, begun * o->tick_ns);
    htc_status      status = htc_steal_ask(&t, &m->steal, begun * o->tick_ns, &rng, (uint32_t)m->nodes - 1, m->asked, &n);
    if (status == HTC_AGAIN) {
        v->phase = THIEF_RESTING;
        return;
    }
    if (status != HTC_OK) {
        htc_scale_fail(m->scale, status);
        return;
    }
    m->now.rounds++;
    htc__scale_messages(m->scale, 2 * (uint64_t)n, n, 0); /* the questions have arrived, the answers are on their way */
    for (uint32_t k = 0; k < n; k++)
        m->load[k] = m->waiting[m->asked[k]];
    for (uint32_t k = 0; k < n && o->shape.x; k++) {
        uint64_t there = 2 * htc__many_message(m, htc__many_hops(m, i, m->asked[k]), o->load_bytes);
        trip = there > trip ? there : trip;
        in_turn += there;
    }
    if (o->in_turn)
        trip = o->shape.x ? in_turn : n * trip;
    v->loot = n;
    v->other = MANY_NONE;
    if (htc_steal_victim(m->load, n, &place_of) != HTC_OK) {
        step_at(m, i, THIEF_BACK, begun + trip);
        return;
    }
    v->other = m->asked[place_of];
    hops = htc__many_hops(m, i, v->other);
    htc__scale_messages(m->scale, 1, 0, 0);
    step_at(m, i, THIEF_TOLD, begun + trip + (hops == 1 ? m->hop_load : htc__many_message(m, hops, o->load_bytes)));
}

/* The victim hears of it: all answers were there before that. */
static void give(many *m, uint32_t i)
{
    many_node *thief = &m->node[i], *v = &m->node[thief->other];
    uint64_t   amount = 0, answers = thief->loot;
    htc_status status = m->waiting[thief->other] ? htc_steal_give(&m->steal, m->waiting[thief->other], v->idle, &amount) : HTC_OK;
    if (status != HTC_OK)
        htc_scale_fail(m->scale, status);
    thief->loot = take_last(m, v, amount);
    if (amount)
        m->waiting[thief->other] -= amount;
    htc__scale_messages(m->scale, 1, answers + 1, 0);
    htc_scale_mark(m->scale, (uint64_t)i << 32 ^ amount);
    uint32_t hops = htc__many_hops(m, thief->other, i);
    double   bytes = amount ? m->options.task_bytes + (double)m->options.each_bytes * (double)(amount - 1) : m->options.load_bytes;
    step_at(m, i, THIEF_BACK, htc__scale_time(m->scale) + (amount ? m->give : 0) + htc__many_message(m, hops, bytes));
    if (thief->other == m->options.root)
        htc__many_submit_queued(m);
}

/* The round is over. */
static void settle(many *m, uint32_t i)
{
    many_node      *v = &m->node[i];
    uint64_t        got = 0, now = htc__scale_time(m->scale), ticks = 0;
    uint32_t        loot = v->loot, other = v->other;
    htc_steal_thief t = thief_of(m, i, HTC_NEVER);
    htc__scale_messages(m->scale, 0, other == MANY_NONE ? loot : 1, 0);
    loot = other == MANY_NONE ? MANY_NONE : loot;
    while (loot != MANY_NONE) {
        many_span s = m->home->span[loot];
        drop_span(m, loot);
        append(m, v, s.first, s.n);
        got += s.n;
        loot = s.next;
    }
    if (got)
        m->waiting[i] += got;
    m->now.steals += got > 0;
    m->now.stolen += got;
    htc_status status = htc_steal_settle(&t, &m->steal, now_ns(m), got ? other : HTC_STEAL_NOBODY, got);
    if (status != HTC_OK)
        htc_scale_fail(m->scale, status);
    v->phase = THIEF_NONE;
    keep(v, &t);
    start_all(m, i);
    nudge_others(m, i);
    if (!has_nothing(m, i) || htc__many_all_ended(m))
        return;
    v->phase = htc__thief_pauses(m->scale, &t, now_ns(m), &ticks) & 15;
    if (v->phase == THIEF_WAITING)
        step_at(m, i, THIEF_WAITING, now + ticks);
    look_for_tasks(m, i);
}

void htc__many_step(many *m, uint32_t i)
{
    many_node *v = &m->node[i];
    if (v->due != htc__scale_time(m->scale)) /* it was nudged meanwhile */
        return;
    switch (v->phase) {
    case THIEF_WAITING:
        v->phase = THIEF_NONE;
        look_for_tasks(m, i);
        break;
    case THIEF_ASKED:
        hear_loads(m, i);
        break;
    case THIEF_TOLD:
        give(m, i);
        break;
    case THIEF_BACK:
        settle(m, i);
        break;
    default:
        break;
    }
}

void htc__many_end_queued(many *m, uint32_t i)
{
    many_node *v = &m->node[i];
    v->ended++;
    if (m->waiting[i] == 0) {
        v->idle++;
        look_for_tasks(m, i);
    } else {
        start_next(m, i, v);
        nudge_others(m, i);
    }
    if (i == m->options.root)
        htc__many_submit_queued(m);
}
