/* Partition controllers: what happens at an event. Where a job looks for nodes is htc_balance_step's decision, which nodes it takes that of
 * htc_record_take. */
#include "sim/models/jobs.h"

#include <assert.h>
#include <stdio.h>

#include "core/util.h"

#define ROUNDS 64

/* ---- costs ---- */

uint64_t htc__jobs_message(const jobs *m, uint64_t bytes)
{
    return bytes && m->byte_ns > 0 ? htc_scale_ticks(m->scale, m->options.latency_ns + 2 * m->options.pack_ns + (htc_ns)((double)bytes * m->byte_ns)) : m->hop;
}

uint64_t htc__jobs_levels(const jobs *m, uint64_t nodes)
{
    uint64_t levels = 0;
    for (uint64_t reached = 0, width = 1; reached < nodes; reached += width, width *= m->options.fanout)
        levels++;
    return levels;
}

/* ---- jobs that are drawn ---- */

htc_sim_jobs_job htc__jobs_listed(const jobs *m, uint64_t job)
{
    htc_sim_jobs_job j = { 0 };
    (void)htc__options_at(&j, sizeof j, m->options.list, job, sizeof j);
    return j;
}

/* Of the published points only those at 1, 5, 80 and 100 % are known: within a band each size is half as frequent as the one below. */
static uint32_t trace_nodes(uint64_t bits, uint32_t machine)
{
    static const struct {
        uint32_t parts; /* of 10^8 jobs */
        uint32_t nodes; /* of 40,960 */
    } size[] = { { 11154286, 64 },   { 5577143, 128 },  { 2788571, 256 },  { 40280000, 512 },   { 20140000, 1024 }, { 10070000, 2048 },
                 { 5210667, 4096 },  { 2605333, 8192 }, { 1302667, 16384 }, { 651333, 32768 }, { 220000, 40960 } };
    uint64_t at = (uint64_t)(((bits >> 32) * UINT64_C(100000000)) >> 32);
    size_t   i = 0;
    for (; i + 1 < sizeof size / sizeof *size && at >= size[i].parts; i++)
        at -= size[i].parts;
    return (uint32_t)(((uint64_t)size[i].nodes * machine + 40959) / 40960);
}

uint32_t htc__jobs_need(const jobs *m, uint64_t job)
{
    const htc_sim_jobs_options *o = &m->options;
    if (o->list)
        return htc__jobs_listed(m, job).nodes;
    uint64_t bits = htc__scale_draw(m->size_stream, job);
    if (o->sizes == HTC_SIM_JOBS_UNIFORM)
        return o->nodes_min + (uint32_t)(((bits >> 32) * ((uint64_t)o->nodes_max - o->nodes_min + 1)) >> 32);
    uint32_t nodes = trace_nodes(bits, o->nodes), most = o->nodes_max < m->usable ? o->nodes_max : (uint32_t)m->usable;
    return nodes < most ? nodes : most;
}

uint64_t htc__jobs_length_of(const jobs *m, uint64_t job)
{
    if (m->options.list)
        return htc__scale_rounded(htc__jobs_listed(m, job).length, m->tick_ns);
    return htc__scale_drawer_ticks(&m->length, htc__scale_draw(m->length_stream, job));
}

uint64_t htc__jobs_length(const jobs *m, uint32_t s)
{
    return m->lengths ? m->lengths[s] : htc__jobs_length_of(m, m->slot[s].job);
}

/* ---- slots and holdings ---- */

static uint32_t grown(uint32_t room, uint64_t most)
{
    return 2 * (uint64_t)room < most ? 2 * room : (uint32_t)most;
}

static uint32_t slot_open(jobs *m)
{
    uint32_t s = m->free_slot;
    if (s != JOBS_NONE) {
        m->free_slot = m->slot[s].holding;
    } else {
        if (m->slots == m->slots_room) {
            uint32_t   room = grown(m->slots_room, m->slots_max);
            jobs_slot *slot = room > m->slots_room ? htc__resize_raw(&m->env, m->slot, m->slots_room * sizeof *slot, room * sizeof *slot) : NULL;
            if (!slot) {
                htc_scale_fail(m->scale, HTC_ENOMEM);
                return JOBS_NONE;
            }
            m->slot = slot;
            m->slots_room = room;
        }
        s = m->slots++;
    }
    m->slot[s] = (jobs_slot){ .holding = JOBS_NONE, .target = JOBS_NONE };
    return s;
}

static void slot_close(jobs *m, uint32_t s)
{
    assert(m->slot[s].holdings == 0 && !m->slot[s].request);
    m->slot[s].phase = JOBS_FREE;
    m->slot[s].holding = m->free_slot;
    m->free_slot = s;
}

/* 1; 0: there is no memory, and the run has failed. */
static int hold(jobs *m, uint32_t s, uint32_t p, uint32_t nodes)
{
    jobs_slot *slot = &m->slot[s];
    for (uint32_t h = slot->holding; h != JOBS_NONE; h = m->holding[h].next)
        if (m->holding[h].partition == p) {
            m->holding[h].nodes += nodes;
            return 1;
        }
    uint32_t h = m->free_holding;
    if (h != JOBS_NONE) {
        m->free_holding = m->holding[h].next;
    } else {
        if (m->holdings == m->holdings_room) {
            uint32_t      room = grown(m->holdings_room, (uint64_t)m->options.nodes + m->slots_max);
            jobs_holding *more = room > m->holdings_room ? htc__resize_raw(&m->env, m->holding, m->holdings_room * sizeof *more, room * sizeof *more) : NULL;
            if (!more) {
                htc_scale_fail(m->scale, HTC_ENOMEM);
                return 0;
            }
            m->holding = more;
            m->holdings_room = room;
        }
        h = m->holdings++;
    }
    m->holding[h] = (jobs_holding){ p, nodes, slot->holding };
    slot->holding = h;
    slot->holdings++;
    return 1;
}

static void let_go(jobs *m, uint32_t s)
{
    jobs_slot *slot = &m->slot[s];
    uint32_t   h = slot->holding;
    slot->holding = m->holding[h].next;
    slot->holdings--;
    m->holding[h].next = m->free_holding;
    m->free_holding = h;
}

/* ---- asking the store ---- */

static void later(jobs *m, uint32_t s, uint64_t ticks, jobs_phase phase)
{
    m->slot[s].phase = (uint8_t)phase;
    htc_scale_at(m->scale, htc__jobs_now(m) + ticks, s);
}

/* A controller's own member is beside it. */
static uint64_t way(const jobs *m, uint32_t s, uint64_t bytes)
{
    return m->slot[s].target == m->slot[s].controller ? 0 : htc__jobs_message(m, bytes);
}

static uint64_t record_bytes(const jobs *m, uint32_t free)
{
    return (uint64_t)free * m->options.node_bytes;
}

static void ask(jobs *m, uint32_t s, uint64_t bytes, jobs_phase phase)
{
    htc__scale_messages(m->scale, 1, 0, 0);
    m->now.requests++;
    m->slot[s].asked++;
    later(m, s, way(m, s, bytes), phase);
}

/* The request has reached its member. What it does there is done in the order of arrival. */
static void answer(jobs *m, uint32_t s, uint64_t bytes, jobs_phase phase)
{
    uint64_t served = htc__jobs_served(m, &m->part[m->slot[s].target].serves);
    htc__scale_messages(m->scale, 1, 1, 0);
    later(m, s, served - htc__jobs_now(m) + way(m, s, bytes), phase);
}

static void look(jobs *m, uint32_t s, uint32_t p)
{
    m->slot[s].target = p;
    ask(m, s, 0, JOBS_LOOKS);
}

/* What was seen and what it becomes. */
static void swap(jobs *m, uint32_t s)
{
    const jobs_slot *slot = &m->slot[s];
    uint32_t         after = slot->gives ? slot->seen_free + m->holding[slot->holding].nodes : slot->seen_free > slot->want ? slot->seen_free - slot->want : 0;
    ask(m, s, record_bytes(m, slot->seen_free) + record_bytes(m, after), JOBS_SWAPS);
}

static void see(jobs *m, uint32_t s)
{
    jobs_slot *slot = &m->slot[s];
    slot->seen = m->part[slot->target].version;
    slot->seen_free = m->part[slot->target].free;
}

static void looks(jobs *m, uint32_t s)
{
    see(m, s);
    answer(m, s, record_bytes(m, m->slot[s].seen_free), JOBS_LOOKED);
}

/* The next record is a pure function of the one that was seen: it is computed here, if this is still the one. */
static void swaps(jobs *m, uint32_t s)
{
    jobs_slot *slot = &m->slot[s];
    htc_status status = HTC_OK;
    slot->swapped = slot->seen == m->part[slot->target].version;
    m->now.swaps++;
    m->now.conflicts += !slot->swapped;
    htc_scale_mark(m->scale, (uint64_t)slot->target << 32 ^ slot->seen << 1 ^ slot->swapped);
    if (slot->swapped && slot->gives)
        status = htc__jobs_record_give(m, s, slot->target);
    else if (slot->swapped)
        status = htc__jobs_record_take(m, s, slot->target, slot->want, &slot->taken);
    if (status != HTC_OK)
        htc_scale_fail(m->scale, status);
    see(m, s);
    answer(m, s, slot->swapped ? 0 : record_bytes(m, slot->seen_free), JOBS_SWAPPED);
}

/* ---- a job's nodes ---- */

static void give_next(jobs *m, uint32_t s)
{
    if (m->slot[s].holding == JOBS_NONE) { /* what a checkpoint says of its request is another one's */
        htc_scale_fail(m->scale, HTC_ECORRUPT);
        return;
    }
    m->slot[s].gives = 1;
    look(m, s, m->holding[m->slot[s].holding].partition);
}

uint32_t htc__jobs_place(const jobs *m, uint64_t job, uint32_t record)
{
    uint64_t bits = htc__scale_draw(m->place_stream, job << 24 ^ record);
    return (uint32_t)(((bits >> 32) * m->parts) >> 32);
}

/* The records of a job: under its id, under its id and origin, and one for each partition that takes part. They lie anywhere. */
static void insert(jobs *m, uint32_t s)
{
    jobs_slot *slot = &m->slot[s];
    slot->target = htc__jobs_place(m, slot->job, slot->want);
    ask(m, s, 0, JOBS_INSERTS);
}

static void has_nodes(jobs *m, uint32_t s)
{
    jobs_slot           *slot = &m->slot[s];
    htc_balance_progress p;
    if (htc_balance_progress_of(slot->request, &p) == HTC_OK) {
        m->now.steals += p.steals;
        m->now.rounds += p.rounds;
    }
    htc_balance_end(slot->request);
    slot->request = NULL;
    slot->want = 2 + slot->holdings;
    insert(m, s);
}

static void step(jobs *m, uint32_t s, const htc_balance_answer *got)
{
    jobs_slot         *slot = &m->slot[s];
    htc_balance_action a = { 0 };
    for (uint32_t rounds = 0;; rounds++) { /* a wait that is over at once is one more; many are what a checkpoint says */
        htc_status status = rounds > ROUNDS ? HTC_ECORRUPT : htc_balance_step(slot->request, htc__jobs_now_ns(m), &m->part[slot->controller].rng, got, &a);
        if (status != HTC_OK) {
            htc_scale_fail(m->scale, status);
            return;
        }
        got = NULL;
        switch ((htc_balance_kind)a.kind) {
        case HTC_BALANCE_TAKE:
            slot->want = a.nodes;
            look(m, s, a.partition);
            return;
        case HTC_BALANCE_RELEASE:
            give_next(m, s);
            return;
        case HTC_BALANCE_WAIT:
            if (htc__jobs_tick(m, a.until) <= htc__jobs_now(m))
                break;
            later(m, s, htc__jobs_tick(m, a.until) - htc__jobs_now(m), JOBS_WAITED);
            return;
        case HTC_BALANCE_DONE:
            has_nodes(m, s);
            return;
        case HTC_BALANCE_LOOK:
        case HTC_BALANCE_PUBLISH:
        default:
            htc_scale_fail(m->scale, HTC_EINVAL);
            return;
        }
    }
}

static void took(jobs *m, uint32_t s, uint32_t taken)
{
    htc_balance_answer got = { .taken = taken, .free = m->slot[s].seen_free };
    if (!taken || hold(m, s, m->slot[s].target, taken))
        step(m, s, &got);
}

static void gave(jobs *m, uint32_t s)
{
    jobs_slot *slot = &m->slot[s];
    let_go(m, s);
    (void)htc_balance_learn(m->part[slot->controller].balance, slot->target, slot->seen_free);
    if (slot->holdings) {
        give_next(m, s);
    } else if (slot->request) {
        slot->gives = 0;
        step(m, s, NULL);
    } else {
        slot_close(m, s);
        htc__jobs_over(m, s);
    }
}

static void looked(jobs *m, uint32_t s)
{
    htc__scale_messages(m->scale, 0, 1, 0);
    if (m->slot[s].gives || m->slot[s].seen_free)
        swap(m, s);
    else
        took(m, s, 0);
}

static void swapped(jobs *m, uint32_t s)
{
    jobs_slot *slot = &m->slot[s];
    htc__scale_messages(m->scale, 0, 1, 0);
    if (!slot->swapped && (slot->gives || slot->seen_free))
        swap(m, s);
    else if (slot->gives)
        gave(m, s);
    else
        took(m, s, slot->swapped ? slot->taken : 0);
}

static void inserted(jobs *m, uint32_t s)
{
    htc__scale_messages(m->scale, 0, 1, 0);
    if (--m->slot[s].want)
        insert(m, s);
    else
        htc__jobs_granted(m, s);
}

/* ---- a job's life ---- */

/* A controller begins with a job: at once, or when it arrives. */
static void begin(jobs *m, uint32_t c, uint32_t s, uint64_t job, uint32_t need, uint64_t at)
{
    jobs_part *part = &m->part[c];
    uint64_t   now = htc__jobs_now(m);
    m->slot[s].job = job;
    m->slot[s].begun = at;
    m->slot[s].controller = c;
    m->slot[s].need = need;
    htc_scale_submit(m->scale, 1);
    m->now.submitted++;
    if (m->fit) {
        later(m, s, at - now + m->hop, JOBS_PARSED);
        return;
    }
    part->busy = (part->busy > at ? part->busy : at) + htc_scale_ticks(m->scale, m->options.job_ns + m->options.node_ns * need);
    later(m, s, part->busy - now, JOBS_PARSED);
}

static void next_of_source(jobs *m, uint32_t c)
{
    htc_sim_jobs_job j = { .size = sizeof j };
    uint64_t         now = htc__jobs_now(m);
    if (m->jobs != HTC_SIM_JOBS_MAX)
        return;
    htc_status status = m->options.next_job(m->options.ctx, &j);
    uint64_t   at = status == HTC_OK ? htc_scale_ticks(m->scale, j.arrival) : 0;
    if (status == HTC_AGAIN) { /* now it is known how many there are */
        m->left -= m->jobs - m->now.submitted;
        m->jobs = m->now.submitted;
        return;
    }
    if (status == HTC_OK && (j.nodes < 1 || j.nodes > m->usable || at < m->source_at || m->now.submitted + 1 == HTC_SIM_JOBS_MAX)) {
        snprintf(m->wrong, sizeof m->wrong, "job %llu of the source needs %u nodes, of which there are %llu, or arrives before the one before it", (unsigned long long)m->now.submitted, j.nodes,
                 (unsigned long long)m->usable);
        status = HTC_EINVAL;
    }
    uint32_t s = status == HTC_OK ? slot_open(m) : JOBS_NONE;
    if (status != HTC_OK)
        htc_scale_fail(m->scale, status);
    if (s == JOBS_NONE)
        return;
    m->source_at = at;
    m->lengths[s] = htc_scale_ticks(m->scale, j.length);
    begin(m, c, s, m->now.submitted, j.nodes, at > now ? at : now);
}

void htc__jobs_next(jobs *m, uint32_t c)
{
    jobs_part *part = &m->part[c];
    uint64_t   job = part->next;
    if (m->lengths) {
        next_of_source(m, c);
        return;
    }
    if (job >= m->jobs)
        return;
    uint32_t s = slot_open(m);
    if (s == JOBS_NONE)
        return;
    part->next = m->after ? m->after[job] : job + m->parts;
    begin(m, c, s, job, htc__jobs_need(m, job), htc__jobs_now(m));
}

static void parsed(jobs *m, uint32_t s)
{
    jobs_slot *slot = &m->slot[s];
    if (m->fit) {
        htc__jobs_central_submit(m, s);
        return;
    }
    htc_status status = htc_balance_begin(m->part[slot->controller].balance, slot->need, &slot->request);
    if (status == HTC_OK)
        step(m, s, NULL);
    else
        htc_scale_fail(m->scale, status);
}

void htc__jobs_count_granted(jobs *m, uint32_t need, uint64_t latency, uint64_t asked)
{
    m->now.granted++;
    m->now.running++;
    m->now.busy += need;
    m->now.sized[0] += 100 * (uint64_t)need <= m->options.nodes;
    m->now.sized[1] += 20 * (uint64_t)need <= m->options.nodes;
    m->now.sized[2] += 5 * (uint64_t)need <= 4 * (uint64_t)m->options.nodes;
    m->now.sized[3] += need == m->options.nodes;
    m->now.latency += latency;
    m->now.latency_max = latency > m->now.latency_max ? latency : m->now.latency_max;
    m->now.requests_granted += asked;
}

void htc__jobs_granted(jobs *m, uint32_t s)
{
    const jobs_slot *slot = &m->slot[s];
    uint64_t         latency = htc__jobs_now(m) - slot->begun;
    uint32_t         c = slot->controller;
    htc__jobs_count_granted(m, slot->need, latency, slot->asked);
    htc__jobs_launch(m, s);
    htc__jobs_next(m, c); /* the slot may have moved */
}

/* Down the tree, acknowledged up the tree; then all begin. */
void htc__jobs_launch(jobs *m, uint32_t s)
{
    jobs_slot *slot = &m->slot[s];
    uint64_t   length = htc__jobs_length(m, s), delay = htc__jobs_levels(m, slot->need) * (2 * m->hop + m->launch);
    htc__scale_messages(m->scale, 2 * (uint64_t)slot->need, 0, 0);
    m->now.node_ticks += length * slot->need;
    slot->phase = JOBS_RAN;
    htc_scale_start(m->scale, s, delay, length);
}

static void tell_ended(const jobs *m, uint32_t s)
{
    const jobs_slot *slot = &m->slot[s];
    uint64_t         now = htc__jobs_now(m);
    m->options.ended(m->options.ctx, &(htc_sim_jobs_ended){ .size = sizeof(htc_sim_jobs_ended), .job = slot->job, .controller = m->fit ? 0 : slot->controller, .nodes = slot->need,
                                                            .submitted = slot->begun * m->tick_ns, .started = (now - htc__jobs_length(m, s)) * m->tick_ns, .ended = now * m->tick_ns });
}

static void ran(jobs *m, uint32_t s)
{
    uint64_t need = m->slot[s].need;
    if (m->options.ended)
        tell_ended(m, s);
    htc__scale_end(m->scale);
    m->left--;
    m->now.running--;
    m->now.busy -= need;
    htc__scale_messages(m->scale, need, 2 * need, 0);
    later(m, s, htc__jobs_levels(m, need) * m->hop, JOBS_COLLECTED);
}

static void collected(jobs *m, uint32_t s)
{
    htc__scale_messages(m->scale, 0, m->slot[s].need, 0);
    if (!m->fit) {
        give_next(m, s);
        return;
    }
    htc__jobs_central_ended(m, s);
    slot_close(m, s);
    htc__jobs_over(m, s);
}

void htc__jobs_over(jobs *m, uint32_t s)
{
    (void)s;
    m->ended++;
}

/* ---- all ---- */

/* No event of its own, so that the run is the same without: what was so before this one. */
static void take_sample(jobs *m)
{
    m->options.sample(m->options.ctx, &(htc_sim_jobs_sample){ .size = sizeof(htc_sim_jobs_sample), .at = m->now.sampled * m->tick_ns,
                                                              .waiting = m->now.submitted - m->now.granted, .running = m->now.running,
                                                              .ended = m->jobs - m->left, .busy = m->now.busy, .taken = m->taken });
    m->now.sampled = (htc__jobs_now(m) / m->sample + 1) * m->sample;
}

void htc__jobs_event(htc_scale *scale, void *ctx, uint32_t id)
{
    jobs *m = ctx;
    (void)scale;
    if (m->sample && m->now.sampled <= htc__jobs_now(m))
        take_sample(m);
    if (id >= m->slots_max) {
        if (id - m->slots_max < m->parts)
            htc__jobs_pull_event(m, id - m->slots_max);
        else if (m->fit)
            htc__jobs_central_event(m);
        else
            htc__jobs_monitor_event(m);
        return;
    }
    switch ((jobs_phase)m->slot[id].phase) {
    case JOBS_PARSED:
        parsed(m, id);
        break;
    case JOBS_LOOKS:
        looks(m, id);
        break;
    case JOBS_LOOKED:
        looked(m, id);
        break;
    case JOBS_SWAPS:
        swaps(m, id);
        break;
    case JOBS_SWAPPED:
        swapped(m, id);
        break;
    case JOBS_INSERTS:
        answer(m, id, 0, JOBS_INSERTED);
        break;
    case JOBS_INSERTED:
        inserted(m, id);
        break;
    case JOBS_WAITED:
        step(m, id, NULL);
        break;
    case JOBS_RAN:
        ran(m, id);
        break;
    case JOBS_COLLECTED:
        collected(m, id);
        break;
    case JOBS_FREE:
    default:
        htc_scale_fail(m->scale, HTC_EINVAL);
        break;
    }
}

/* What the event is of, and what it will look at. */
void htc__jobs_soon(const void *ctx, uint32_t id)
{
    const jobs *m = ctx;
    if (id >= m->slots_max)
        return;
    const jobs_slot *slot = &m->slot[id];
    __builtin_prefetch(&m->part[slot->target < m->parts ? slot->target : slot->controller]);
    if (slot->request && (slot->phase == JOBS_LOOKED || slot->phase == JOBS_SWAPPED || slot->phase == JOBS_WAITED))
        __builtin_prefetch(slot->request);
}

void htc__jobs_begin(jobs *m)
{
    if (m->monitor)
        htc_scale_at(m->scale, 0, m->slots_max + m->parts);
    for (uint32_t c = 0; c < m->parts; c++) {
        htc__jobs_next(m, c);
        if (m->monitor)
            htc_scale_at(m->scale, 0, m->slots_max + c);
    }
}
