/* The systems that the paper compares with: Falkon with one dispatcher and with a tree of them, Sparrow, CloudKon. Their decisions are not those of the
 * library: nobody steals. */
#include <assert.h>

#include "sim/models/manytask.h"

/* ---- Falkon: idle executors, one a core, are notified, and ask ---- */

static uint32_t leaf_of(const many *m, uint32_t node)
{
    return m->options.architecture == HTC_SIM_MANYTASK_FALKON ? 0 : 1 + node / m->options.fanout;
}

static uint64_t way_to(const many *m, uint32_t node, double bytes)
{
    return htc__many_message(m, htc__many_hops(m, m->options.root, node), bytes);
}

/* Each task that waits is promised to an executor that is idle, if there is one. */
static void notify(many *m, uint32_t c)
{
    many_chief *chief = &m->chief[c];
    while (chief->queue > chief->load && chief->free && m->scale->status == HTC_OK) {
        uint32_t i = htc__many_free_seat(m, c);
        chief->load++;
        chief->free--;
        htc__many_seat_busy(m, i, m->seat[i].busy + 1);
        htc__scale_messages(m->scale, 2, 0, 0);
        (void)htc_scale_at(m->scale, htc_scale_now(m->scale) + 2 * way_to(m, i, m->options.load_bytes), htc__many_id(m, i, MANY_STEP));
    }
}

static void work(many *m, uint32_t c);

static void submit_next(many *m)
{
    while (m->now.submitted < m->options.tasks && m->chief[0].queue < (m->below ? m->below : 1))
        m->chief[0].queue += htc__many_next_batch(m);
}

/* The dispatchers of the nodes take the tasks in turn, whatever they have to do. */
static void hand_on(many *m)
{
    uint32_t c = (uint32_t)(1 + m->now.placed++ % (m->chiefs - 1));
    m->chief[0].queue--;
    submit_next(m);
    htc__scale_messages(m->scale, 1, 0, 0);
    (void)htc_scale_at(m->scale, htc_scale_now(m->scale) + m->hop_task, htc__many_chief_id(m, c, MANY_ARRIVED));
}

/* The end is known, and the executor idle, when the result has arrived: the task runs as much later as the result is on its way. */
static void answer(many *m, uint32_t c)
{
    many_chief *chief = &m->chief[c];
    uint32_t    i = m->ring[chief->ring + chief->head];
    chief->head = chief->head + 1 == chief->cores ? 0 : chief->head + 1;
    chief->asked--;
    chief->queue--;
    chief->load--;
    if (c == 0)
        submit_next(m);
    htc__scale_messages(m->scale, 2, 0, 0);
    htc__many_start(m, i, m->seat[i].group, m->now.started, way_to(m, i, m->options.task_bytes) + way_to(m, i, m->options.load_bytes) + m->task);
}

static int hands_on(const many *m, uint32_t c)
{
    return c == 0 && m->chiefs > 1;
}

static void act(many *m, uint32_t c)
{
    if (hands_on(m, c)) {
        hand_on(m);
    } else {
        answer(m, c);
        notify(m, c);
    }
}

static void work(many *m, uint32_t c)
{
    many_chief *chief = &m->chief[c];
    uint64_t    takes = hands_on(m, c) ? m->hand : m->dispatch;
    while (!chief->at_work && (hands_on(m, c) ? chief->queue : chief->asked) && m->scale->status == HTC_OK) {
        if (takes == 0) {
            act(m, c);
            continue;
        }
        chief->at_work = 1;
        (void)htc_scale_at(m->scale, htc__scale_time(m->scale) + takes, htc__many_chief_id(m, c, MANY_DISPATCHED));
    }
}

static void falkon_dispatched(many *m, uint32_t c)
{
    m->chief[c].at_work = 0;
    act(m, c);
    work(m, c);
}

static void falkon_arrived(many *m, uint32_t c)
{
    htc__scale_messages(m->scale, 0, 1, 0);
    m->chief[c].queue++;
    notify(m, c);
}

/* An executor asks. */
static void falkon_asked(many *m, uint32_t i)
{
    many_chief *chief = &m->chief[leaf_of(m, i)];
    uint64_t    at = chief->head + chief->asked++;
    assert(chief->asked <= chief->cores);
    htc__scale_messages(m->scale, 0, 2, 0);
    m->ring[chief->ring + (at < chief->cores ? at : at - chief->cores)] = i;
    work(m, leaf_of(m, i));
}

/* The task and its result have arrived; the result is acknowledged. */
static void falkon_ends(many *m, uint32_t i)
{
    uint32_t c = leaf_of(m, i);
    htc__scale_messages(m->scale, 1, 3, 0);
    m->seat[i].ended++;
    htc__many_seat_busy(m, i, m->seat[i].busy - 1);
    m->chief[c].free++;
    notify(m, c);
}

/* ---- Sparrow: schedulers that probe some nodes, and push ---- */

static uint32_t probed(const many *m, const many_chief *chief)
{
    uint64_t wanted = m->options.probes * chief->queue;
    return (uint32_t)(wanted < m->nodes ? wanted : m->nodes);
}

static void next_batch(many *m, uint32_t c)
{
    many_chief *chief = &m->chief[c];
    uint64_t    left = m->options.tasks - m->now.placed;
    if (left == 0)
        return;
    chief->queue = m->options.placed < left ? m->options.placed : left;
    chief->load = m->now.placed;
    m->now.placed += chief->queue;
    htc__scale_messages(m->scale, probed(m, chief), 0, 0);
    (void)htc_scale_at(m->scale, htc_scale_now(m->scale) + m->hop_load, htc__many_chief_id(m, c, MANY_DISPATCHED));
}

/* Waiting tasks less idle cores, as the nodes say when the question reaches them; each task goes to the least, of equals to the first that was asked. */
static void sparrow_probed(many *m, uint32_t c)
{
    const many_chief *chief = &m->chief[c];
    uint32_t          n = probed(m, chief), *target = m->ring + chief->ring;
    htc_rng           rng = { htc_scale_hash(m->scale, (MANY_SCHEDULERS + (m->grid << 16) + c) << 2 | MANY_THIEVES, chief->load) };
    htc_status        status = htc_steal_pick(&rng, (uint32_t)m->nodes + 1, (uint32_t)m->nodes, n, m->asked);
    if (status != HTC_OK) {
        htc_scale_fail(m->scale, status);
        return;
    }
    htc__scale_messages(m->scale, n, n, 0); /* the questions have arrived, the answers are on their way */
    for (uint32_t k = 0; k < n; k++)
        m->load[k] = m->waiting[m->asked[k]] + (uint64_t)HTC_SIM_MANYTASK_CORES_MAX - m->node[m->asked[k]].idle;
    for (uint64_t t = 0; t < chief->queue; t++) {
        uint32_t least = 0;
        for (uint32_t k = 1; k < n; k++)
            if (m->load[k] < m->load[least])
                least = k;
        m->load[least]++;
        target[t] = m->asked[least];
    }
    (void)htc_scale_at(m->scale, htc__scale_time(m->scale) + m->hop_load + chief->queue * m->dispatch, htc__many_chief_id(m, c, MANY_ARRIVED));
}

static void sparrow_placed(many *m, uint32_t c)
{
    const many_chief *chief = &m->chief[c];
    for (uint64_t t = 0; t < chief->queue; t++) {
        uint32_t i = m->ring[chief->ring + t];
        htc__many_send_one(m, i, chief->load + t);
        (void)htc_scale_at(m->scale, htc__scale_time(m->scale) + m->hop_task, htc__many_id(m, i, MANY_STEP));
    }
    htc__scale_messages(m->scale, chief->queue, probed(m, chief), 0);
    next_batch(m, c);
}

/* ---- CloudKon: each core pulls one task after the other from a shared queue on many servers ---- */

static void ask_queue(many *m, uint32_t i, uint64_t after)
{
    htc__scale_messages(m->scale, 1, 0, 0);
    (void)htc_scale_at(m->scale, htc_scale_now(m->scale) + after + m->hop_load, htc__many_id(m, i, MANY_STEP));
}

/* The question has arrived at a server. The core of one that finds nothing is done: the next batch is there before the queue is empty. */
static void cloudkon_asked(many *m, uint32_t i)
{
    uint64_t now = htc_scale_now(m->scale), left = m->now.submitted - m->now.started;
    htc__scale_messages(m->scale, 1, 1, 0);
    if (left == 0) {
        htc__scale_messages(m->scale, 0, 1, 0);
        return;
    }
    uint64_t *until = &m->until[(htc_scale_hash(m->scale, MANY_LAYOUT, m->first_task + m->now.started) >> 32) * m->options.servers >> 32];
    *until = (*until > now ? *until : now) + m->dispatch;
    m->seat[i].busy++;
    htc__many_start(m, i, m->seat[i].group, m->now.started, *until - now + m->hop_task + m->task);
    while (m->now.submitted < m->options.tasks && m->now.submitted - m->now.started < m->below)
        (void)htc__many_next_batch(m);
}

/* It has ended: its state goes to the store, and when that is answered the core asks for the next one. */
static void cloudkon_ends(many *m, uint32_t i)
{
    htc__scale_messages(m->scale, 2, 3, 0); /* the task had come; the store is told, and answers: that has no event of its own */
    m->seat[i].ended++;
    m->seat[i].busy--;
    ask_queue(m, i, m->hop_task + m->store + m->hop_load);
}

/* ---- all of them ---- */

void htc__many_other_step(many *m, uint32_t node)
{
    switch (m->options.architecture) {
    case HTC_SIM_MANYTASK_SPARROW:
        htc__scale_messages(m->scale, 0, 1, 0);
        htc__many_take_one(m, node);
        break;
    case HTC_SIM_MANYTASK_CLOUDKON:
        cloudkon_asked(m, node);
        break;
    default:
        falkon_asked(m, node);
    }
}

void htc__many_other_ends(many *m, uint32_t node)
{
    switch (m->options.architecture) {
    case HTC_SIM_MANYTASK_SPARROW:
        htc__many_end_kept(m, node);
        break;
    case HTC_SIM_MANYTASK_CLOUDKON:
        cloudkon_ends(m, node);
        break;
    default:
        falkon_ends(m, node);
    }
}

void htc__many_other_dispatched(many *m, uint32_t chief)
{
    if (m->options.architecture == HTC_SIM_MANYTASK_SPARROW)
        sparrow_probed(m, chief);
    else
        falkon_dispatched(m, chief);
}

void htc__many_other_arrived(many *m, uint32_t chief)
{
    if (m->options.architecture == HTC_SIM_MANYTASK_SPARROW)
        sparrow_placed(m, chief);
    else
        falkon_arrived(m, chief);
}

void htc__many_begin_other(many *m)
{
    const htc_sim_manytask_options *o = &m->options;
    switch (o->architecture) {
    case HTC_SIM_MANYTASK_SPARROW:
        while (m->now.submitted < o->tasks)
            (void)htc__many_next_batch(m);
        for (uint32_t c = 0; c < m->chiefs; c++)
            next_batch(m, c);
        break;
    case HTC_SIM_MANYTASK_CLOUDKON:
        (void)htc__many_next_batch(m);
        for (uint32_t i = 0; i < m->nodes; i++)
            for (uint32_t k = 0; k < m->group[m->seat[i].group].cores; k++)
                ask_queue(m, i, 0);
        break;
    default:
        submit_next(m);
        if (m->chiefs > 1)
            work(m, 0);
        else
            notify(m, 0);
    }
}
