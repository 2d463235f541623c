/* Environments that lend each other nodes: one book leases for all of them, by htc_provision_scan and htc_provision_check on the demand of all. A node that no
 * job runs on belongs to nobody; htc_provision_grant divides such nodes among the environments whose jobs wait, and what they cannot use comes back. */
#include <assert.h>

#include "sim/models/provision.h"

static const htc_provision_granter *lender(const prov *m)
{
    return m->options.granter ? m->options.granter : htc_provision_granter_of(HTC_PROVISION_PARTIAL);
}

/* All held nodes are somebody's or idle. */
static void account(prov *m)
{
    uint64_t now = htc__scale_time(m->scale);
    m->held_ticks += (prov_sum)m->held * (now - m->then);
    m->then = now;
}

static void lend(prov *m, prov_environment *e, uint64_t nodes)
{
    htc_status status = htc_fit_add_nodes(e->fit, htc__prov_now(m), (uint32_t)nodes);
    if (status != HTC_OK || nodes > m->idle)
        htc__prov_fail(m, HTC_EINTERNAL, "%llu nodes are lent of %llu idle ones", (unsigned long long)nodes, (unsigned long long)m->idle);
    m->idle -= nodes;
}

static void take_back(prov *m, prov_environment *e)
{
    htc_fit_counts c;
    htc_fit_count(e->fit, &c);
    if (c.free == 0)
        return;
    htc_status status = htc_fit_remove_nodes(e->fit, htc__prov_now(m), c.free);
    if (status != HTC_OK)
        htc__prov_fail(m, status, "%u nodes could not be taken back", c.free);
    m->idle += c.free;
}

/* 1: a job has started. */
static int divide(prov *m)
{
    size_t   n = 0;
    uint64_t started = 0;
    for (size_t i = 0; i < m->n && m->idle; i++) {
        prov_environment *e = &m->environment[i];
        htc_fit_counts    c = { 0 };
        htc_fit_count(e->fit, &c);
        if (c.waiting_nodes == 0)
            continue;
        m->asks[n] = (uint32_t)i;
        m->request[n++] = (htc_provision_request){ .id = i, .nodes = c.waiting_nodes < HTC_PROVISION_NODES_MAX ? c.waiting_nodes : HTC_PROVISION_NODES_MAX,
                                                   .weight = e->o.weight, .arrival = htc__scale_time(m->scale), .priority = e->o.priority };
    }
    htc_status status = n ? htc_provision_grant(&m->env, lender(m), m->idle, m->request, n, m->grant) : HTC_OK;
    if (status != HTC_OK) {
        htc__prov_fail(m, status, "the provision policy answers: %s", htc_strerror(status));
        return 0;
    }
    for (size_t i = 0; i < n; i++) {
        prov_environment *e = &m->environment[m->asks[i]];
        if (m->grant[i] == 0)
            continue;
        uint64_t before = e->started;
        lend(m, e, m->grant[i]);
        htc__prov_start_jobs(m, e);
        take_back(m, e);
        started += e->started - before;
    }
    return started > 0;
}

static void lease(prov *m, const htc_provision_demand *d)
{
    htc_provision_order order;
    htc_ns              now = htc__prov_now(m);
    uint64_t            granted = 0;
    htc_status          status = htc_provision_scan(m->book, now, d, &order);
    m->scans++;
    if (status == HTC_AGAIN)
        return;
    if (status == HTC_OK) {
        htc_provision_request r = { .nodes = order.nodes };
        status = htc_provision_grant(&m->env, m->options.granter, m->capacity - m->held, &r, 1, &granted);
    }
    if (status == HTC_OK)
        status = htc_provision_granted(m->book, now, granted);
    if (status < HTC_OK)
        htc__prov_fail(m, status, "a scan for all answers: %s", htc_strerror(status));
    if (granted == 0)
        return;
    account(m);
    m->held += granted;
    m->idle += granted;
    m->blank += granted;
    m->peak = m->held > m->peak ? m->held : m->peak;
    m->granted += granted;
    m->changed = htc__scale_time(m->scale);
    htc_scale_mark(m->scale, UINT64_C(3) << 62 ^ granted);
}

/* How many go back. */
static uint64_t look_at_leases(prov *m, const htc_provision_demand *d)
{
    htc_provision_order order = { 0 };
    htc_status                  status = htc_provision_check(m->book, htc__prov_now(m), d, &order);
    if (status == HTC_OK && order.nodes <= m->idle) {
        account(m);
        m->held -= order.nodes;
        m->idle -= order.nodes;
        m->returned += order.nodes;
        m->changed = htc__scale_time(m->scale);
        htc_scale_mark(m->scale, UINT64_C(1) << 62 ^ order.nodes);
        return order.nodes;
    }
    if (status != HTC_AGAIN)
        htc__prov_fail(m, status == HTC_OK ? HTC_EINTERNAL : status, "a look at the leases of all answers: %s", htc_strerror(status));
    return 0;
}

static htc_provision_demand demand_of_all(const prov *m)
{
    htc_provision_demand all = { 0 };
    for (size_t i = 0; i < m->n; i++)
        if (m->environment[i].fit) {
            htc_provision_demand d = htc__prov_demand(&m->environment[i]);
            all.waiting_jobs += d.waiting_jobs;
            all.waiting_nodes += d.waiting_nodes;
            all.waiting_largest = d.waiting_largest > all.waiting_largest ? d.waiting_largest : all.waiting_largest;
            all.running_nodes += d.running_nodes;
        }
    all.waiting_nodes = all.waiting_nodes < HTC_PROVISION_NODES_MAX ? all.waiting_nodes : HTC_PROVISION_NODES_MAX;
    return all;
}

/* ---- whose an idle node is: it stays set up for whoever used it last, until another one needs it or it goes back ---- */

static void change_held(prov *m, prov_environment *e, uint64_t more, uint64_t fewer)
{
    if (more == fewer)
        return;
    htc__prov_account(m, e);
    e->held += more - fewer;
    e->peak = e->held > e->peak ? e->held : e->peak;
    htc__prov_set_up(m, e, more > 0, more + fewer, NULL);
}

/* Nodes that are nobody's yet go first, then those that others do not use. */
static void take_idle(prov *m, uint64_t nodes)
{
    uint64_t some = nodes < m->blank ? nodes : m->blank;
    m->blank -= some;
    nodes -= some;
    for (size_t i = 0; i < m->n && nodes; i++) {
        prov_environment *e = &m->environment[i];
        uint64_t          unused = e->held > e->busy ? e->held - e->busy : 0;
        some = nodes < unused ? nodes : unused;
        change_held(m, e, 0, some);
        nodes -= some;
    }
    if (nodes)
        htc__prov_fail(m, HTC_EINTERNAL, "%llu nodes are taken that are not there", (unsigned long long)nodes);
}

static void set_up_changes(prov *m, uint64_t gone)
{
    uint64_t held = 0, busy = 0;
    for (size_t i = 0; i < m->n; i++) {
        prov_environment *e = &m->environment[i];
        uint64_t          more = e->busy > e->held ? e->busy - e->held : 0;
        if (more == 0)
            continue;
        take_idle(m, more);
        change_held(m, e, more, 0);
    }
    take_idle(m, gone);
    for (size_t i = 0; i < m->n; i++) {
        held += m->environment[i].held;
        busy += m->environment[i].busy;
    }
    if (held + m->blank != m->held || busy + m->idle != m->held || m->held > m->capacity)
        htc__prov_fail(m, HTC_EINTERNAL, "nodes are not conserved: of %llu, %llu are held by environments, %llu are busy and %llu idle", (unsigned long long)m->held,
                       (unsigned long long)held, (unsigned long long)busy, (unsigned long long)m->idle);
}

void htc__prov_shared_pass(prov *m)
{
    uint32_t due = 0;
    uint64_t gone = 0;
    for (size_t i = 0; i < m->listed; i++) {
        prov_environment *e = &m->environment[m->list[i]];
        due |= e->due;
        if (!e->ended)
            take_back(m, e);
    }
    while (divide(m))
        ;
    if (due && m->book) {
        htc_provision_demand d = demand_of_all(m);
        lease(m, &d);
        while (divide(m))
            ;
        d = demand_of_all(m);
        gone = look_at_leases(m, &d);
        htc__prov_timer(m, m->environment, m->book);
        for (size_t i = 0; i < m->n; i++)
            htc__prov_give_up(m, &m->environment[i]);
    }
    set_up_changes(m, gone);
}

/* Its jobs are cut off, and their nodes idle; the last one ends the book. */
void htc__prov_shared_end(prov *m, prov_environment *e)
{
    htc_provision_usage u = { 0 };
    htc_fit_counts      c;
    htc_fit_count(e->fit, &c); /* of jobs that ended at this moment the nodes have not been taken back yet */
    m->idle += c.nodes;
    m->blank += e->held;
    change_held(m, e, 0, e->held);
    if (m->live)
        return;
    account(m);
    uint64_t   nodes = 0;
    htc_status status = htc_provision_end(m->book, htc__prov_now(m), &nodes);
    if (status == HTC_OK)
        status = htc_provision_usage_at(m->book, htc__prov_now(m), &u);
    if (status != HTC_OK || nodes != m->held || m->idle != m->held || u.node_seconds != (uint64_t)(m->held_ticks * m->tick_ns / HTC_SECOND))
        htc__prov_fail(m, status != HTC_OK ? status : HTC_EINTERNAL, "the book of all does not agree: %llu nodes, %llu held", (unsigned long long)nodes,
                       (unsigned long long)m->held);
    m->returned += nodes;
    m->held = m->idle = m->blank = 0;
    m->units = u.node_units;
    m->requests = u.requests;
    m->rejected = u.rejected;
    htc_provision_destroy(m->book);
    m->book = NULL;
}
