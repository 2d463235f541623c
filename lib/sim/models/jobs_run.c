/* A run of the model of partition controllers from its options to its report. */
#include <stdio.h>
#include <string.h>

#include "core/util.h"
#include "sim/models/checked.h"
#include "sim/models/jobs.h"

#define SOON_PARTS 1024 /* so many are in the cache anyhow */

/* ---- options ---- */

void htc_sim_jobs_published(htc_sim_jobs_options *options)
{
    if (!options)
        return;
    options->latency_ns = 100 * HTC_US;
    options->pack_ns = 50 * HTC_US;
    options->bandwidth = 125e6;
    options->node_bytes = 30;
    options->job_ns = options->store_ns = HTC_MS;
    options->node_ns = options->scan_ns = options->launch_ns = 0;
    options->wait_ns = options->wait_ns_max = HTC_MS;
    options->fanout = 2;
}

static uint32_t parts_of(const htc_sim_jobs_options *o)
{
    return (o->nodes + o->partition - 1) / o->partition;
}

uint32_t htc__jobs_nodes_of(const htc_sim_jobs_options *o, uint32_t p)
{
    return o->nodes - p * o->partition < o->partition ? o->nodes - p * o->partition : o->partition;
}

uint32_t htc__jobs_down_of(const htc_sim_jobs_options *o, uint32_t p)
{
    return (uint32_t)(o->used * htc__jobs_nodes_of(o, p));
}

static int in_range(const htc_sim_jobs_options *o)
{
    return o->nodes >= 1 && o->nodes <= HTC_SIM_JOBS_NODES_MAX && o->partition <= HTC_RECORD_NODES_MAX && parts_of(o) <= HTC_BALANCE_PARTITIONS_MAX &&
           o->sizes <= HTC_SIM_JOBS_TRACE && o->central <= 1 && o->records <= 1 && o->used >= 0 && o->used < 1 && o->fanout >= 2 && o->bandwidth >= 0 &&
           o->nodes_min <= o->nodes_max && htc_scale_law_check(&o->length) == HTC_OK;
}

htc_status htc__jobs_known(const htc_sim_jobs_options *in, htc_sim_jobs_options *o)
{
    *o = (htc_sim_jobs_options){ .size = sizeof *o };
    htc_status status = in ? htc__options_copy(o, sizeof *o, in, in->size, offsetof(htc_sim_jobs_options, records)) : HTC_EINVAL;
    o->partition = o->partition ? o->partition : 1024;
    o->nodes_min = o->nodes_min ? o->nodes_min : 1;
    o->nodes_max = o->nodes_max ? o->nodes_max : o->sizes == HTC_SIM_JOBS_TRACE ? o->nodes : o->nodes_min;
    o->fanout = o->fanout ? o->fanout : 2;
    o->tick_ns = o->tick_ns ? o->tick_ns : HTC_US;
    if (status == HTC_OK && o->list) {
        htc_sim_jobs_job j;
        o->jobs = o->n_list;
        for (size_t i = 0; i < o->n_list && status == HTC_OK; i++) {
            j = (htc_sim_jobs_job){ 0 };
            status = htc__options_at(&j, sizeof j, o->list, i, sizeof j);
        }
    }
    if (status == HTC_OK && o->next_job) {
        status = o->list ? HTC_EINVAL : HTC_OK;
        o->jobs = HTC_SIM_JOBS_MAX; /* nobody knows */
    }
    if (status == HTC_OK && (o->jobs < 1 || o->jobs > HTC_SIM_JOBS_MAX || !in_range(o)))
        status = HTC_EINVAL;
    return status;
}

/* Of each controller one job looks for nodes, all others hold some; and the answers of those that have just given all back are on their way. */
static uint64_t slots_of(const htc_sim_jobs_options *o)
{
    uint64_t most = 2 * ((uint64_t)parts_of(o) + o->nodes);
    return o->jobs < most ? o->jobs : most;
}

/* Bits of a partition, if it has a record. */
static size_t words_of(const htc_sim_jobs_options *o)
{
    return !o->records ? 0 : ((size_t)(o->partition < o->nodes ? o->partition : o->nodes) + 63) / 64;
}

static int pulls(const htc_sim_jobs_options *o)
{
    return !o->central && (!o->policy || o->policy->pull);
}

static htc_scale_options engine_of(const htc_sim_jobs_options *o, jobs *m)
{
    uint64_t ids = slots_of(o) + parts_of(o) + 1;
    return (htc_scale_options){ .size = sizeof(htc_scale_options), .seed = o->seed, .ids = ids, .events_max = pulls(o) ? ids : slots_of(o) + 1, .cores = o->nodes,
                                .tick_ns = o->tick_ns, .tasks = o->next_job ? 0 : o->jobs, .event = htc__jobs_event, .soon = parts_of(o) > SOON_PARTS ? htc__jobs_soon : NULL, .ctx = m, .host = o->host };
}

htc_status htc_sim_jobs_memory(const htc_sim_jobs_options *options, uint64_t *bytes)
{
    htc_sim_jobs_options o;
    htc_status           status = bytes ? htc__jobs_known(options, &o) : HTC_EINVAL;
    uint64_t             engine = 0, parts = status == HTC_OK ? parts_of(&o) : 0;
    if (status == HTC_OK) {
        htc_scale_options e = engine_of(&o, NULL);
        status = htc_scale_memory(&e, &engine);
    }
    if (status != HTC_OK)
        return status;
    uint64_t most_holdings = o.central ? 0 : o.nodes + slots_of(&o);
    *bytes = sizeof(jobs) + engine + slots_of(&o) * sizeof(jobs_slot) + most_holdings * sizeof(jobs_holding) + parts * words_of(&o) * sizeof(uint64_t) + parts * sizeof(jobs_part) +
             (o.list ? o.jobs * sizeof(uint64_t) : 0) + (o.next_job ? slots_of(&o) * sizeof(uint64_t) : 0);
    if (!o.central)
        *bytes += parts * (256 + 160) + (o.records ? o.nodes : 0); /* of each controller what it knows, its request and its record */
    if (pulls(&o))
        *bytes += parts * parts * 16 + parts * (4 * (uint64_t)o.partition + 16);
    return HTC_OK;
}

htc_status htc__jobs_check_list(const jobs *m, htc_error *error)
{
    const htc_sim_jobs_options *o = &m->options;
    uint64_t                    usable = m->usable;
    if (!o->list && !o->next_job && o->sizes == HTC_SIM_JOBS_UNIFORM && o->nodes_max > usable)
        return htc__error(error, HTC_EINVAL, "a job of %u nodes would wait for ever: %llu can be taken", o->nodes_max, (unsigned long long)usable);
    for (size_t i = 0; o->list && i < o->n_list; i++) {
        htc_sim_jobs_job j = { 0 };
        (void)htc__options_at(&j, sizeof j, o->list, i, sizeof j);
        if (j.nodes < 1 || j.nodes > usable || j.controller >= m->parts)
            return htc__error(error, HTC_EINVAL, "job %zu is of no controller, or needs not 1 to %llu node%s", i, (unsigned long long)usable, htc__plural(usable));
    }
    return HTC_OK;
}

/* ---- a run ---- */

/* Each controller's jobs in a row. */
htc_status htc__jobs_order_list(jobs *m)
{
    const htc_sim_jobs_options *o = &m->options;
    for (uint32_t c = 0; c < m->parts; c++)
        m->part[c].next = o->list ? m->jobs : c;
    if (!o->list)
        return HTC_OK;
    m->after = htc__alloc_raw(&m->env, m->jobs * sizeof *m->after);
    if (!m->after)
        return HTC_ENOMEM;
    for (size_t i = o->n_list; i-- > 0;) {
        htc_sim_jobs_job j = { 0 };
        (void)htc__options_at(&j, sizeof j, o->list, i, sizeof j);
        m->after[i] = m->part[j.controller].next;
        m->part[j.controller].next = i;
    }
    return HTC_OK;
}

static htc_status open_controllers(jobs *m)
{
    const htc_sim_jobs_options *o = &m->options;
    htc_balance_options         b = HTC_BALANCE_OPTIONS_INIT;
    htc_status                  status = htc_record_set_create(&m->env, &m->got);
    htc__jobs_arena_open(m);
    if (status == HTC_OK && !m->arena.data)
        status = HTC_ENOMEM;
    b.policy = htc__asked_balance(&m->asked_place, o->policy, m->answer);
    b.partitions = m->parts;
    b.tries = o->tries;
    b.wait_ns = o->wait_ns;
    b.wait_ns_max = o->wait_ns_max;
    b.pull_ns = o->pull_ns;
    for (uint32_t c = 0; c < m->parts && status == HTC_OK; c++) {
        b.own = c;
        m->part[c].rng = (htc_rng){ htc_scale_hash(m->scale, 3, c) };
        status = htc_balance_create(&m->env, &b, &m->part[c].balance);
        if (status == HTC_OK)
            status = htc__jobs_record_open(m, c, htc__jobs_nodes_of(o, c), htc__jobs_down_of(o, c));
    }
    if (status == HTC_OK && htc_balance_pull_due(m->part[0].balance) != HTC_NEVER)
        status = htc_balance_monitor_create(&m->env, m->parts, o->monitor_ns, &m->monitor);
    return status;
}

static htc_status open_model(jobs *m, htc_error *error)
{
    const htc_sim_jobs_options *o = &m->options;
    htc_scale_options           e = engine_of(o, m);
    htc_status                  status = htc_scale_create(&m->env, &e, &m->scale, error);
    if (status != HTC_OK)
        return status;
    m->slots_room = m->slots_max < m->parts + 1024 ? m->slots_max : m->parts + 1024;
    m->slot = htc__alloc_raw(&m->env, m->slots_room * sizeof *m->slot);
    m->part = htc__alloc(&m->env, m->parts * sizeof *m->part);
    m->holdings_room = o->nodes < 1024 ? o->nodes : 1024;
    m->holding = htc__alloc_raw(&m->env, m->holdings_room * sizeof *m->holding);
    m->held = htc__alloc(&m->env, m->part_words ? m->parts * m->part_words * sizeof *m->held : 1);
    if (o->next_job)
        m->lengths = htc__alloc_raw(&m->env, m->slots_max * sizeof *m->lengths);
    status = m->slot && m->part && m->holding && m->held && (m->lengths || !o->next_job) ? htc__jobs_order_list(m) : HTC_ENOMEM;
    if (status == HTC_OK && !o->central)
        status = open_controllers(m);
    if (status == HTC_OK && o->central) {
        htc_fit_options f = HTC_FIT_OPTIONS_INIT;
        f.policy = htc__asked_fit(&m->asked_order, o->fit, m->answer);
        f.nodes = (uint32_t)m->usable;
        f.jobs_max = HTC_FIT_JOBS_MAX;
        status = htc_fit_create(&m->env, &f, &m->fit);
    }
    return status == HTC_OK ? status : htc__error(error, status, "the model could not be made: %s", htc_strerror(status));
}

static void close_model(jobs *m)
{
    htc_scale_destroy(m->scale);
    for (uint32_t s = 0; m->slot && s < m->slots; s++)
        if (m->slot[s].phase != JOBS_FREE)
            htc_balance_end(m->slot[s].request);
    for (uint32_t c = 0; m->part && c < m->parts; c++) {
        htc_balance_destroy(m->part[c].balance);
        htc__free(&m->env, m->part[c].record, m->part[c].room);
    }
    htc_balance_monitor_destroy(m->monitor);
    htc_fit_destroy(m->fit);
    htc_buf_free(&m->census);
    htc_record_set_destroy(m->got);
    htc__jobs_arena_close(m);
    htc__free(&m->env, m->slot, m->slots_room * sizeof *m->slot);
    htc__free(&m->env, m->part, m->parts * sizeof *m->part);
    htc__free(&m->env, m->holding, m->holdings_room * sizeof *m->holding);
    htc__free(&m->env, m->held, m->part_words ? m->parts * m->part_words * sizeof *m->held : 1);
    htc__free(&m->env, m->lengths, m->slots_max * sizeof *m->lengths);
    htc__free(&m->env, m->after, m->jobs * sizeof *m->after);
}

/* ---- what is told ---- */

/* Nodes that jobs hold, without records: also those of which the answer is on its way. */
static uint64_t held_by_jobs(const jobs *m)
{
    uint64_t held = 0;
    for (uint32_t s = 0; s < m->slots; s++) {
        const jobs_slot *slot = &m->slot[s];
        if (slot->phase == JOBS_FREE)
            continue;
        for (uint32_t h = slot->holding; h != JOBS_NONE; h = m->holding[h].next)
            held += m->holding[h].nodes;
        if (slot->phase == JOBS_SWAPPED && slot->swapped)
            held += slot->gives ? 0 - (uint64_t)m->holding[slot->holding].nodes : slot->taken;
    }
    return held;
}

/* Free nodes by the records and nodes that are owned are all nodes. */
static void check(jobs *m)
{
    uint64_t free = 0, owned = 0;
    for (uint32_t c = 0; c < m->parts; c++)
        free += m->options.central ? 0 : m->part[c].free;
    for (size_t i = 0; i < m->parts * m->part_words; i++)
        owned += (uint64_t)__builtin_popcountll(m->held[i]);
    for (uint32_t c = 0; c < m->parts && m->options.records && !m->options.central && !m->wrong[0]; c++) {
        htc_record_summary s;
        if (htc_record_count(&m->env, (htc_bytes){ m->part[c].record, m->part[c].len }, &s) == HTC_OK && s.free != m->part[c].free)
            snprintf(m->wrong, sizeof m->wrong, "%u nodes of partition %u are free, its record says %u", m->part[c].free, c, s.free);
    }
    owned = m->options.records ? owned : held_by_jobs(m);
    if (!m->wrong[0] && !m->options.central && (owned != m->taken || free + owned != m->usable))
        snprintf(m->wrong, sizeof m->wrong, "%llu nodes are free and %llu taken, of %llu", (unsigned long long)free, (unsigned long long)owned,
                 (unsigned long long)m->usable);
}

void htc__jobs_figures(jobs *m, double latency_s, htc_sim_jobs_report *r)
{
    double span = (double)r->scale.makespan / 1e9, granted = m->now.granted ? (double)m->now.granted : 1, tick = (double)m->tick_ns / 1e9;
    r->controllers = m->options.central ? 1 : m->parts;
    r->granted = m->now.granted;
    r->requests = m->now.requests;
    r->services = m->now.services;
    r->swaps = m->now.swaps;
    r->conflicts = m->now.conflicts;
    r->steals = m->now.steals;
    r->rounds = m->now.rounds;
    memcpy(r->sized, m->now.sized, sizeof r->sized);
    r->throughput = span > 0 ? (double)r->scale.ended / span : 0;
    r->latency_s = (double)m->now.latency * latency_s / granted;
    r->latency_max_s = (double)m->now.latency_max * latency_s;
    r->messages = (double)m->now.requests_granted / granted;
    r->messages_all = (double)m->now.requests / granted;
    r->utilisation = span > 0 ? (double)m->now.node_ticks * tick / ((double)m->options.nodes * span) : 0;
    if (!m->wrong[0] && !r->interrupted && (m->ended != m->jobs || m->taken))
        snprintf(m->wrong, sizeof m->wrong, "%llu of %llu jobs gave back what they had, %llu nodes are not free in the end", (unsigned long long)m->ended,
                 (unsigned long long)m->jobs, (unsigned long long)m->taken);
    if (!m->wrong[0] && !r->interrupted && r->utilisation > 1 + 1e-9)
        snprintf(m->wrong, sizeof m->wrong, "the makespan is shorter than all nodes' work: utilisation %.6f", r->utilisation);
    if (!r->scale.wrong[0])
        memcpy(r->scale.wrong, m->wrong, sizeof m->wrong);
}

static void tell(jobs *m, htc_sim_jobs_report *r)
{
    uint64_t bytes = 0;
    htc_scale_report_get(m->scale, &r->scale);
    (void)htc_sim_jobs_memory(&m->options, &bytes);
    check(m);
    r->memory = bytes;
    htc__jobs_figures(m, (double)m->tick_ns / 1e9, r);
}

void htc__jobs_fill(jobs *m)
{
    const htc_sim_jobs_options *o = &m->options;
    m->parts = parts_of(o);
    m->part_words = words_of(o);
    m->slots_max = (uint32_t)slots_of(o);
    m->jobs = m->left = o->jobs;
    m->free_slot = m->free_holding = m->serving = JOBS_NONE;
    m->tick_ns = o->tick_ns;
    m->size_stream = htc__scale_stream(o->seed, 0);
    m->length_stream = htc__scale_stream(o->seed, 1);
    m->place_stream = htc__scale_stream(o->seed, 2);
    m->length = htc__scale_drawer_of(&o->length, o->tick_ns);
    m->byte_ns = o->bandwidth > 0 ? 1e9 / o->bandwidth : 0;
    for (uint32_t c = 0; c < m->parts; c++)
        m->usable += htc__jobs_nodes_of(o, c) - htc__jobs_down_of(o, c);
}

htc_status htc_sim_jobs_run(const htc_env *env, const htc_sim_jobs_options *options, htc_sim_jobs_report *report, htc_error *error)
{
    htc_sim_jobs_report r = { .size = sizeof r, .scale.size = sizeof r.scale };
    jobs                m = { 0 };
    uint64_t            bytes = 0;
    htc_status          status = report && report->size >= offsetof(htc_sim_jobs_report, scale) ? htc__jobs_known(options, &m.options) : HTC_EINVAL;
    if (status != HTC_OK)
        return htc__error(error, status, "the options of the run are out of range");
    htc__jobs_fill(&m);
    if ((status = htc__jobs_check_list(&m, error)) != HTC_OK)
        return status;
    if ((m.options.resume || m.options.checkpoint) && !htc__jobs_has_tape(&m.options))
        return htc__error(error, HTC_EUNSUPPORTED, m.options.next_job ? "a run of a source has no checkpoint" : "the policy has no tape: its state cannot be written down");
    (void)htc_sim_jobs_memory(&m.options, &bytes);
    if (m.options.host && m.options.host->memory_max && bytes > m.options.host->memory_max)
        return htc__error(error, HTC_ETOOBIG, "%u node%s in %u partition%s may need %llu MiB, and %llu MiB are allowed", m.options.nodes, htc__plural(m.options.nodes), m.parts,
                          htc__plural(m.parts), (unsigned long long)(bytes >> 20), (unsigned long long)(m.options.host->memory_max >> 20));
    if (env)
        m.env = *env;
    htc_buf_init(&m.census, &m.env, 0);
    status = open_model(&m, error);
    if (status == HTC_OK) {
        m.hop = htc_scale_ticks(m.scale, m.options.latency_ns + 2 * m.options.pack_ns);
        m.store = htc_scale_ticks(m.scale, m.options.store_ns);
        m.launch = htc_scale_ticks(m.scale, m.options.launch_ns);
        m.sample = m.options.sample ? htc_scale_ticks(m.scale, m.options.sample_ns) : 0; /* 0 ticks: none */
        if (!m.options.resume)
            htc__jobs_begin(&m);
        else if ((status = htc__jobs_tape(&m, m.options.resume)) != HTC_OK)
            htc__checked_error(m.scale, error, status);
    }
    if (status == HTC_OK) {
        status = htc_scale_run(m.scale);
        r.interrupted = status == HTC_AGAIN;
        if (r.interrupted && m.options.checkpoint && (status = htc__jobs_tape(&m, m.options.checkpoint)) != HTC_OK)
            htc__error(error, status, "the checkpoint could not be written");
        else if (status < 0 && m.answer[0])
            htc__asked_error(error, status, m.answer);
        else if (status < 0)
            htc__error(error, status, "the run cannot go on: %s", m.wrong[0] ? m.wrong : status == HTC_ETOOBIG ? "it takes more ticks than there are; make them longer" : htc_strerror(status));
        status = status == HTC_AGAIN ? HTC_OK : status;
    }
    if (status == HTC_OK) {
        tell(&m, &r);
        status = htc__options_give(report, &r, sizeof r, offsetof(htc_sim_jobs_report, scale));
    }
    close_model(&m);
    return status;
}
