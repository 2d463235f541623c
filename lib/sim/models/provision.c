/* Dynamic service provision: what happens at a moment. When nodes are leased and returned is decided by htc_provision_scan and htc_provision_check,
 * who gets them by htc_provision_grant, which job starts by htc_fit_next. */
#include "sim/models/provision.h"

#include <stdarg.h>
#include <stdio.h>

#include "core/util.h"

static uint32_t id_of(const prov *m, uint32_t kind, uint32_t environment)
{
    return m->slots_max + kind * (uint32_t)m->n + environment;
}

static uint32_t pass_id(const prov *m)
{
    return id_of(m, PROV_KINDS, 0);
}

htc_ns htc__prov_now(const prov *m)
{
    return (htc_ns)htc__scale_time(m->scale) * m->tick_ns;
}

uint64_t htc__prov_ticks_up(const prov *m, htc_ns at)
{
    return at / m->tick_ns + (at % m->tick_ns != 0);
}

void htc__prov_fail(prov *m, htc_status status, const char *format, ...)
{
    va_list args;
    if (m->why.status == HTC_OK) {
        va_start(args, format);
        m->why.status = m->too_big ? HTC_ETOOBIG : status;
        vsnprintf(m->why.text, sizeof m->why.text, format, args);
        va_end(args);
        if (m->answer[0])
            (void)htc__asked_error(&m->why, m->why.status, m->answer);
    }
    htc_scale_fail(m->scale, m->why.status);
}

static const char *name_of(const prov *m, const prov_environment *e, char text[32])
{
    if (e->o.name)
        return e->o.name;
    snprintf(text, 32, "%u", htc__prov_number(m, e));
    return text;
}

/* ---- what is held ---- */

void htc__prov_account(prov *m, prov_environment *e)
{
    uint64_t now = htc__scale_time(m->scale), passed = now - e->then;
    e->held_ticks += (prov_sum)e->held * passed;
    e->busy_ticks += (prov_sum)e->busy * passed;
    e->then = now;
    m->changed = now;
}

void htc__prov_hold(prov *m, prov_environment *e, uint64_t nodes)
{
    htc__prov_account(m, e);
    e->held += nodes;
    e->peak = e->held > e->peak ? e->held : e->peak;
    m->held += nodes;
    m->peak = m->held > m->peak ? m->held : m->peak;
}

void htc__prov_return(prov *m, prov_environment *e, uint64_t nodes)
{
    htc__prov_account(m, e);
    if (e->held < nodes || m->held < nodes) { /* a checkpoint has told the books of others */
        htc__prov_fail(m, HTC_ECORRUPT, "%llu nodes go back, and %llu are held", (unsigned long long)nodes, (unsigned long long)e->held);
        return;
    }
    e->held -= nodes;
    m->held -= nodes;
}

void htc__prov_set_up(prov *m, prov_environment *e, uint32_t assign, uint64_t nodes, htc_ns *delay)
{
    htc_provision_change change = { 0 };
    htc_status           status = htc_provision_set_up(m->options.setup, assign, nodes, &change);
    if (status != HTC_OK)
        htc__prov_fail(m, status, "the setup policy cannot be used");
    e->setup_ns = e->setup_ns > UINT64_MAX - change.total_ns ? UINT64_MAX : e->setup_ns + change.total_ns;
    *(assign ? &e->granted : &e->returned) += nodes;
    htc_scale_mark(m->scale, (uint64_t)htc__prov_number(m, e) << 40 ^ (uint64_t)assign << 63 ^ nodes);
    if (delay)
        *delay = change.node_ns;
}

static void add_nodes(prov *m, prov_environment *e, uint64_t nodes)
{
    htc_status status = htc_fit_add_nodes(e->fit, htc__prov_now(m), (uint32_t)nodes);
    if (status != HTC_OK)
        htc__prov_fail(m, status, "%llu nodes could not be added", (unsigned long long)nodes);
}

/* Granted: usable now, or when they are set up. */
static void take_over(prov *m, prov_environment *e, uint64_t nodes)
{
    htc_ns delay = 0;
    htc__prov_hold(m, e, nodes);
    htc__prov_set_up(m, e, 1, nodes, &delay);
    uint64_t ticks = m->options.setup_delay ? htc__prov_ticks_up(m, delay) : 0;
    uint32_t s = ticks ? htc__prov_slot(m) : PROV_NONE;
    if (s == PROV_NONE) {
        add_nodes(m, e, nodes);
        return;
    }
    m->slot[s] = (prov_slot){ .state = PROV_SETUP, .environment = htc__prov_number(m, e), .nodes = (uint32_t)nodes, .flow = PROV_NONE };
    e->settling += nodes;
    htc_scale_at(m->scale, htc__scale_time(m->scale) + ticks, s);
}

static void nodes_are_set_up(prov *m, uint32_t s)
{
    prov_slot        *slot = &m->slot[s];
    prov_environment *e = &m->environment[slot->environment];
    uint64_t          nodes = slot->nodes, gone = nodes < e->cancelled ? nodes : e->cancelled;
    htc__prov_slot_free(m, s);
    if (e->ended)
        return;
    e->settling -= nodes;
    e->cancelled -= gone;
    if (nodes > gone) {
        add_nodes(m, e, nodes - gone);
        htc__prov_mark(m, e);
    }
}

/* Idle nodes go back, and if these are too few, such as are being set up. */
static void give_back(prov *m, prov_environment *e, uint64_t nodes)
{
    htc_fit_counts c;
    htc_fit_count(e->fit, &c);
    uint64_t   idle = nodes < c.free ? nodes : c.free;
    htc_status status = idle ? htc_fit_remove_nodes(e->fit, htc__prov_now(m), (uint32_t)idle) : HTC_OK;
    if (status != HTC_OK || nodes - idle > e->settling - e->cancelled)
        htc__prov_fail(m, status != HTC_OK ? status : HTC_EINTERNAL, "%llu nodes go back, and %u are idle", (unsigned long long)nodes, c.free);
    e->cancelled += nodes - idle;
    htc__prov_return(m, e, nodes);
    htc__prov_set_up(m, e, 0, nodes, NULL);
}

/* ---- decisions ---- */

void htc__prov_start_jobs(prov *m, prov_environment *e)
{
    htc_fit_job job;
    htc_status  status;
    while ((status = htc_fit_next(e->fit, htc__prov_now(m), &job)) == HTC_OK) {
        const prov_slot *slot = job.id < m->slots ? &m->slot[job.id] : NULL;
        if (!slot || slot->state != PROV_WAITING || slot->environment != htc__prov_number(m, e) || slot->nodes != job.nodes) {
            htc__prov_fail(m, HTC_ECORRUPT, "the scheduler has a job that does not wait"); /* a checkpoint has told it of another one */
            return;
        }
        htc__prov_begin_job(m, (uint32_t)job.id);
    }
    if (status != HTC_AGAIN)
        htc__asked_fit_refused(&e->asked_order);
    if (status != HTC_AGAIN)
        htc__prov_fail(m, status, "the scheduler answers: %s", htc_strerror(status));
}

htc_provision_demand htc__prov_demand(const prov_environment *e)
{
    htc_fit_counts c;
    htc_fit_count(e->fit, &c);
    uint64_t nodes = c.waiting_nodes < HTC_PROVISION_NODES_MAX ? c.waiting_nodes : HTC_PROVISION_NODES_MAX; /* a book counts no more */
    return (htc_provision_demand){ .waiting_jobs = c.waiting, .waiting_nodes = nodes, .waiting_largest = c.widest, .running_nodes = c.busy };
}

/* Which requests are there? */
static size_t scan(prov *m)
{
    size_t n = 0;
    for (size_t i = 0; i < m->listed; i++) {
        prov_environment    *e = &m->environment[m->list[i]];
        htc_provision_order  order;
        if (!e->due || e->ended)
            continue;
        htc_provision_demand d = htc__prov_demand(e);
        htc_status           status = htc_provision_scan(e->book, htc__prov_now(m), &d, &order);
        m->scans++;
        if (status == HTC_OK) {
            m->asks[n] = m->list[i];
            m->request[n++] = (htc_provision_request){ .id = m->list[i], .nodes = order.nodes, .weight = e->o.weight, .arrival = htc__scale_time(m->scale),
                                                       .priority = e->o.priority };
        } else if (status != HTC_AGAIN) {
            htc__prov_fail(m, status, "a scan answers: %s", htc_strerror(status));
        }
    }
    return n;
}

static void grant(prov *m, size_t n)
{
    htc_status status = n ? htc_provision_grant(&m->env, m->options.granter, m->capacity - m->held, m->request, n, m->grant) : HTC_OK;
    if (status != HTC_OK) {
        htc__prov_fail(m, status, "the provision policy answers: %s", htc_strerror(status));
        return;
    }
    for (size_t i = 0; i < n; i++) {
        prov_environment *e = &m->environment[m->asks[i]];
        status = htc_provision_granted(e->book, htc__prov_now(m), m->grant[i]);
        if (status < HTC_OK)
            htc__prov_fail(m, status, "a grant answers: %s", htc_strerror(status));
        e->starved |= status == HTC_AGAIN;
        e->granted_now = m->grant[i] > 0;
        if (e->granted_now)
            take_over(m, e, m->grant[i]);
    }
}

static void look_at_leases(prov *m, prov_environment *e)
{
    htc_provision_demand d = htc__prov_demand(e);
    htc_provision_order  order;
    htc_status           status = htc_provision_check(e->book, htc__prov_now(m), &d, &order);
    if (status == HTC_OK)
        give_back(m, e, order.nodes);
    else if (status != HTC_AGAIN)
        htc__prov_fail(m, status, "a look at the leases answers: %s", htc_strerror(status));
}

void htc__prov_give_up(prov *m, const prov_environment *e)
{
    uint64_t now = htc__scale_time(m->scale);
    int      in_vain = htc__prov_in_vain(now, m->changed, m->worked, htc__prov_ticks_up(m, e->unit), htc__prov_ticks_up(m, e->book_options.scan_ns));
    if (!e->o.period_ns && !e->ended && !m->running && !m->to_come && !m->bounded && in_vain)
        htc_scale_at(m->scale, htc__scale_time(m->scale), id_of(m, PROV_END, htc__prov_number(m, e)));
}

void htc__prov_timer(prov *m, const prov_environment *e, const htc_provision *book)
{
    uint64_t at = htc__prov_ticks_up(m, htc_provision_deadline(book)), now = htc__scale_time(m->scale);
    htc_scale_at(m->scale, at > now ? at : now + 1, id_of(m, PROV_TIMER, htc__prov_number(m, e)));
}

/* What is counted twice has to agree. */
static void verify(prov *m, const prov_environment *e)
{
    htc_fit_counts c;
    htc_fit_count(e->fit, &c);
    if (c.busy != e->busy || c.nodes + e->settling - e->cancelled != e->held || e->busy > e->held || m->held > m->capacity)
        htc__prov_fail(m, HTC_EINTERNAL, "nodes are not conserved: %llu are held, %u up, %u busy, and jobs run on %llu; all hold %llu of %llu",
                       (unsigned long long)e->held, c.nodes, c.busy, (unsigned long long)e->busy, (unsigned long long)m->held, (unsigned long long)m->capacity);
}

static void pass_each(prov *m)
{
    int lease = m->options.system == HTC_SIM_PROVISION_DSP;
    for (size_t i = 0; i < m->listed; i++)
        if (!m->environment[m->list[i]].ended)
            htc__prov_start_jobs(m, &m->environment[m->list[i]]);
    if (lease)
        grant(m, scan(m));
    for (size_t i = 0; i < m->listed; i++) {
        prov_environment *e = &m->environment[m->list[i]];
        if (e->ended)
            continue;
        if (e->granted_now)
            htc__prov_start_jobs(m, e);
        if (e->due) {
            look_at_leases(m, e);
            htc__prov_timer(m, e, e->book);
            htc__prov_give_up(m, e);
        }
        verify(m, e);
    }
}

/* Everything that has happened at this moment has been told; now it is decided. */
static void pass(prov *m)
{
    m->pass_pending = m->pass_wanted = 0;
    htc__prov_tell_graphs(m);
    if (m->options.shared)
        htc__prov_shared_pass(m);
    else if (m->options.system != HTC_SIM_PROVISION_DRP)
        pass_each(m);
    for (size_t i = 0; i < m->listed; i++) {
        prov_environment *e = &m->environment[m->list[i]];
        e->marked = e->due = e->granted_now = 0;
    }
    m->listed = 0;
    m->pass_wanted = 0; /* who was marked meanwhile was in the list */
}

/* When nothing else happens at this moment: at once, else after that. */
static void pass_soon(prov *m)
{
    if (!m->pass_wanted || m->pass_pending || m->why.status != HTC_OK)
        return;
    if (!htc__scale_more_now(m->scale)) {
        pass(m);
        return;
    }
    m->pass_pending = 1;
    htc_scale_at(m->scale, htc__scale_time(m->scale), pass_id(m));
}

void htc__prov_mark(prov *m, prov_environment *e)
{
    if (!e->marked) {
        e->marked = 1;
        m->list[m->listed++] = htc__prov_number(m, e);
    }
    m->pass_wanted = 1;
}

/* ---- samples ---- */

static uint64_t units_of(const prov *m, const htc_provision *book, uint64_t closed)
{
    htc_provision_usage u;
    return book && htc_provision_usage_at(book, htc__prov_now(m), &u) == HTC_OK ? u.node_units : closed;
}

static void take_sample(prov *m)
{
    htc_sim_provision_sample s = { .size = sizeof s, .at = htc__prov_now(m), .held = m->numbers, .busy = m->numbers + m->n, .waiting = m->numbers + 2 * m->n,
                                   .n_environments = m->n, .all_held = m->held, .node_units = units_of(m, m->book, m->units) };
    uint64_t                 live = 0;
    for (size_t i = 0; i < m->n; i++) {
        const prov_environment *e = &m->environment[i];
        htc_fit_counts          c = { 0 };
        htc_fit_count(e->fit, &c);
        m->numbers[i] = e->held;
        m->numbers[m->n + i] = e->busy;
        m->numbers[2 * m->n + i] = c.waiting;
        s.node_units += units_of(m, e->book, e->units) + htc__prov_lease_units(m, e);
        live += !e->ended || e->held;
    }
    s.cost = (double)s.node_units * m->options.price;
    if (m->options.sample)
        m->options.sample(m->options.sample_ctx, &s);
    if (live)
        htc_scale_at(m->scale, htc__scale_time(m->scale) + m->sample, pass_id(m) + 1);
}

/* ---- all ---- */

static void slot_event(prov *m, uint32_t s)
{
    if (m->slot[s].state == PROV_RUNNING)
        htc__prov_job_ends(m, s);
    else if (m->slot[s].state == PROV_SETUP)
        nodes_are_set_up(m, s);
    else
        htc__prov_lease_event(m, s);
}

static void environment_event(prov *m, prov_environment *e, uint32_t kind)
{
    if (kind == PROV_END) {
        htc__prov_end(m, e);
    } else if (kind == PROV_ARRIVAL) {
        htc__prov_arrivals(m, e);
    } else {
        e->due = 1;
        htc__prov_mark(m, e);
    }
}

void htc__prov_event(htc_scale *scale, void *ctx, uint32_t id)
{
    prov *m = ctx;
    (void)scale;
    if (id < m->slots_max) {
        slot_event(m, id);
    } else if (id >= pass_id(m)) {
        if (id == pass_id(m))
            pass(m);
        else
            take_sample(m);
    } else {
        prov_environment *e = &m->environment[(id - m->slots_max) % m->n];
        uint32_t          kind = (id - m->slots_max) / (uint32_t)m->n;
        if (!e->ended || (kind == PROV_TIMER && m->book))
            environment_event(m, e, kind);
    }
    pass_soon(m);
}

/* Nodes to begin with: all of them, or the run does not begin. */
static void grant_initial(prov *m)
{
    size_t     n = 0;
    char       text[32];
    htc_status status = HTC_OK;
    for (size_t i = 0; i < m->n; i++) {
        prov_environment   *e = &m->environment[i];
        htc_provision_usage u = { 0 };
        if (e->book && htc_provision_usage_at(e->book, 0, &u) == HTC_OK && u.owned) {
            m->asks[n] = (uint32_t)i;
            m->request[n++] = (htc_provision_request){ .id = i, .nodes = u.owned, .weight = e->o.weight, .priority = e->o.priority, .initial = 1 };
        }
    }
    if (m->options.system != HTC_SIM_PROVISION_DCS && n)
        status = htc_provision_grant(&m->env, m->options.granter, m->capacity, m->request, n, m->grant);
    for (size_t i = 0; i < n && status == HTC_OK; i++) {
        prov_environment *e = &m->environment[m->asks[i]];
        htc__prov_hold(m, e, m->request[i].nodes);
        if (m->options.system == HTC_SIM_PROVISION_DCS)
            continue;
        htc__prov_set_up(m, e, 1, m->request[i].nodes, NULL);
        if (m->grant[i] != m->request[i].nodes)
            htc__prov_fail(m, HTC_ENOFIT, "environment %s is to begin with %llu node%s, and of the provider's %llu too few are left", name_of(m, e, text),
                           (unsigned long long)m->request[i].nodes, htc__plural(m->request[i].nodes), (unsigned long long)m->capacity);
    }
    if (status != HTC_OK)
        htc__prov_fail(m, status, "the provision policy answers: %s", htc_strerror(status));
}

void htc__prov_begin(prov *m)
{
    grant_initial(m);
    for (size_t i = 0; i < m->n && m->why.status == HTC_OK; i++) {
        prov_environment *e = &m->environment[i];
        htc__prov_next(m, e);
        m->bounded += e->o.period_ns > 0;
        if (e->o.period_ns)
            htc_scale_at(m->scale, htc__prov_ticks_up(m, e->o.period_ns), id_of(m, PROV_END, (uint32_t)i));
        if (e->book && m->options.system == HTC_SIM_PROVISION_DSP)
            htc__prov_timer(m, e, e->book);
        htc__prov_maybe_over(m, e);
    }
    if (m->book) {
        htc_provision_usage u;
        (void)htc_provision_usage_at(m->book, 0, &u);
        m->held = m->idle = m->blank = m->peak = m->granted = u.owned;
        htc__prov_timer(m, m->environment, m->book);
    }
    if (m->sample)
        htc_scale_at(m->scale, 0, pass_id(m) + 1);
}
