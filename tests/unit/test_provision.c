/* Nodes on lease: DR1 and DR2 as a table, the book against a list of pieces, grants against picking by hand. */
#include "expect.h"
#include <string.h>

#include "alloc_fail.h"
#include "htcsched/provision.h"
#include "property.h"

#define R(x)   ((uint64_t)((x)*1000) * 1000) /* three places are enough here */
#define HOUR   (3600 * HTC_SECOND)
#define MINUTE (60 * HTC_SECOND)

/* Jobs wait, so many nodes in all, the largest, and so many nodes are busy. */
static htc_provision_demand demand(uint64_t jobs, uint64_t nodes, uint64_t largest, uint64_t running)
{
    return (htc_provision_demand){ jobs, nodes, largest, running };
}

/* ---- the rule of the paper ---- */

Test(provision, asks_for_dr1_or_dr2_as_the_paper_says)
{
    const struct {
        const char          *what;
        uint64_t             owned;
        htc_provision_demand demand;
        uint64_t             ratio;
        uint32_t             scope;
        uint64_t             nodes;
        uint32_t             reason;
    } rows[] = {
        { "nothing waits", 10, { 0, 0, 0, 10 }, R(0.001), 0, 0, HTC_PROVISION_NONE },
        { "Montage: 166 ready, 10 of them run", 10, { 156, 156, 1, 10 }, R(8), 0, 156, HTC_PROVISION_DR1 },
        { "the same, of waiting ones alone", 10, { 156, 156, 1, 10 }, R(8), 1, 146, HTC_PROVISION_DR1 },
        { "exactly R is not above R", 40, { 2, 48, 24, 0 }, R(1.2), 0, 0, HTC_PROVISION_NONE },
        { "a node above R", 40, { 2, 49, 25, 0 }, R(1.2), 0, 9, HTC_PROVISION_DR1 },
        { "below R, the largest does not fit", 40, { 1, 45, 45, 0 }, R(1.2), 0, 5, HTC_PROVISION_DR2 },
        { "below R, the largest just fits", 40, { 1, 40, 40, 0 }, R(1.2), 0, 0, HTC_PROVISION_NONE },
        { "running ones count towards D", 40, { 1, 20, 20, 30 }, R(1.2), 0, 10, HTC_PROVISION_DR1 },
        { "and do not with the other scope", 40, { 1, 20, 20, 30 }, R(1.2), 1, 0, HTC_PROVISION_NONE },
        { "DR1 goes first", 40, { 2, 100, 99, 0 }, R(2), 0, 60, HTC_PROVISION_DR1 },
        { "nothing held: any demand is above any R", 0, { 1, 1, 1, 0 }, UINT64_MAX, 0, 1, HTC_PROVISION_DR1 },
        { "R below 1 asks for no less than nothing", 40, { 1, 30, 30, 0 }, R(0.5), 0, 0, HTC_PROVISION_NONE },
        { "MTC, R = 8 and DR2", 10, { 1, 64, 64, 0 }, R(8), 0, 54, HTC_PROVISION_DR2 },
        { "numbers that cannot be", 40, { 1, 2, 3, 0 }, R(1), 0, 0, HTC_PROVISION_NONE },
        { "more running than held", 40, { 1, 90, 3, 41 }, R(1), 0, 0, HTC_PROVISION_NONE },
        { "an unknown scope", 40, { 1, 90, 90, 0 }, R(1), 2, 0, HTC_PROVISION_NONE },
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        uint32_t reason = 99;
        cr_expect(eq(u64,
                     htc_provision_request_size(rows[i].owned, &rows[i].demand, rows[i].ratio, rows[i].scope, &reason),
                     rows[i].nodes),
                  "%s", rows[i].what);
        cr_expect(eq(u32, reason, rows[i].reason), "%s", rows[i].what);
    }
    cr_expect(eq(u64, htc_provision_request_size(0, NULL, 1, 0, NULL), 0));
}

/* ---- a lease's life ---- */

static htc_provision *book_of(const char *policy, uint64_t initial)
{
    static htc_registry  *registry;
    htc_provision_options o = HTC_PROVISION_OPTIONS_INIT;
    htc_provision        *p;
    if (!registry)
        cr_assert(htc_registry_create(NULL, &registry) == HTC_OK && htc_registry_add_builtin(registry) == HTC_OK);
    cr_assert(eq(int, htc_provision_find(registry, policy, &o.policy), HTC_OK), "%s", policy);
    o.initial = initial;
    cr_assert(eq(int, htc_provision_create(NULL, &o, 0, &p), HTC_OK));
    return p;
}

static htc_provision_usage usage_of(const htc_provision *p, htc_ns now)
{
    htc_provision_usage u = { 0 };
    cr_assert(eq(int, htc_provision_usage_at(p, now, &u), HTC_OK));
    return u;
}

/* Asked for at the first scan, granted whole, looked at after an hour, kept while busy, returned whole when idle. */
Test(provision, a_chunk_goes_back_whole_when_that_many_are_idle)
{
    htc_provision       *p = book_of("paper", 40);
    htc_provision_demand d = demand(3, 90, 30, 0);
    htc_provision_order  order = { 7, 7, 7 };
    cr_expect(eq(u64, htc_provision_deadline(p), MINUTE));
    cr_expect(eq(int, htc_provision_scan(p, 59 * HTC_SECOND, &d, &order), HTC_AGAIN), "not due");
    cr_assert(eq(int, htc_provision_scan(p, MINUTE, &d, &order), HTC_OK));
    cr_expect(order.nodes == 50 && order.reason == HTC_PROVISION_DR1 && order.leases == 0);
    cr_assert(eq(int, htc_provision_granted(p, MINUTE, 50), HTC_OK));
    cr_expect(eq(u64, usage_of(p, MINUTE).owned, 90));
    d = demand(0, 0, 0, 41);
    cr_expect(eq(int, htc_provision_check(p, HOUR, &d, &order), HTC_AGAIN), "not due");
    cr_expect(eq(int, htc_provision_check(p, HOUR + MINUTE, &d, &order), HTC_AGAIN), "49 idle, and the chunk is 50");
    cr_expect(eq(u64, usage_of(p, HOUR + MINUTE).owned, 90));
    d = demand(0, 0, 0, 40);
    cr_expect(eq(int, htc_provision_check(p, 2 * HOUR, &d, &order), HTC_AGAIN), "between two looks");
    cr_assert(eq(int, htc_provision_check(p, 2 * HOUR + MINUTE, &d, &order), HTC_OK));
    cr_expect(order.nodes == 50 && order.leases == 1);
    cr_expect(eq(int, htc_provision_check(p, 2 * HOUR + MINUTE, &d, &order), HTC_AGAIN), "once");
    htc_provision_usage u = usage_of(p, 2 * HOUR + MINUTE);
    cr_expect(eq(u64, u.owned, 40));
    cr_expect(eq(u64, u.node_units, 50 * 2 + 40 * 3));
    cr_expect(eq(u64, u.node_seconds, 50 * 7200 + 40 * 7260));
    cr_expect(eq(u64, u.granted, 90));
    cr_expect(eq(u64, u.returned, 50));
    cr_expect(eq(u64, u.peak, 90));
    htc_provision_destroy(p);
}

/* Chunks due at one instant are looked at in the order of their grants; the first takes the idle nodes. */
Test(provision, chunks_due_together_are_checked_in_the_order_of_their_grants)
{
    htc_provision_options o = { .size = sizeof o,
                                .initial = HTC_PROVISION_NO_NODES,
                                .ratio = HTC_PROVISION_ONE,
                                .scan_ns = 20 * MINUTE,
                                .unit_ns = 20 * MINUTE };
    htc_provision        *p;
    htc_provision_demand  d = demand(1, 10, 10, 0);
    htc_provision_order   order;
    htc_provision_lease   l;
    cr_assert(eq(int, htc_provision_create(NULL, &o, 0, &p), HTC_OK));
    cr_assert(eq(int, htc_provision_scan(p, 20 * MINUTE, &d, &order), HTC_OK));
    cr_assert(eq(int, htc_provision_granted(p, 20 * MINUTE, 10), HTC_OK));
    d = demand(1, 30, 30, 10);
    cr_assert(eq(int, htc_provision_scan(p, 40 * MINUTE, &d, &order), HTC_OK));
    cr_expect(eq(u64, order.nodes, 30));
    cr_assert(eq(int, htc_provision_granted(p, 40 * MINUTE, 30), HTC_OK));
    d = demand(0, 0, 0, 40);
    cr_expect(eq(int, htc_provision_check(p, 40 * MINUTE, &d, &order), HTC_AGAIN));
    /* Both are due now. 30 are idle, so the first chunk, of 10, goes, and the second, of 30, stays. */
    d = demand(0, 0, 0, 10);
    cr_assert(eq(int, htc_provision_check(p, 60 * MINUTE, &d, &order), HTC_OK));
    cr_expect(order.nodes == 10 && order.leases == 1);
    cr_assert(eq(int, htc_provision_lease_at(p, 0, &l), HTC_OK));
    cr_expect(l.nodes == 30 && l.granted_at == 40 * MINUTE && l.check_at == 80 * MINUTE);
    cr_expect(eq(int, htc_provision_lease_at(p, 1, &l), HTC_ENOTFOUND));
    /* Then nobody looks for hours: it is looked at once. */
    cr_expect(eq(int, htc_provision_check(p, 5 * HOUR + MINUTE, &d, &order), HTC_AGAIN));
    cr_assert(eq(int, htc_provision_lease_at(p, 0, &l), HTC_OK));
    cr_expect(eq(u64, l.check_at, 5 * HOUR + 20 * MINUTE));
    cr_expect(eq(u64, usage_of(p, 5 * HOUR + MINUTE).node_units, 10 * 2 + 30 * 14));
    htc_provision_destroy(p);
}

/* The true deficit is asked for; what goes back is what is idle and nobody waits for, be it a part of the lease. */
Test(provision, perlease_asks_for_the_deficit_and_returns_what_is_idle)
{
    htc_provision       *p = book_of("perlease", 10);
    htc_provision_demand d = demand(2, 50, 30, 4);
    htc_provision_order  order;
    cr_assert(eq(int, htc_provision_scan(p, MINUTE, &d, &order), HTC_OK));
    cr_expect(order.nodes == 44 && order.reason == HTC_PROVISION_DEFICIT);
    cr_assert(eq(int, htc_provision_granted(p, MINUTE, 40), HTC_OK), "part of it");
    d = demand(1, 5, 5, 30);
    cr_assert(eq(int, htc_provision_check(p, HOUR + MINUTE, &d, &order), HTC_OK));
    cr_expect(order.nodes == 15 && order.leases == 0, "20 idle, 5 wanted");
    d = demand(0, 0, 0, 0);
    cr_assert(eq(int, htc_provision_check(p, 2 * HOUR + MINUTE, &d, &order), HTC_OK));
    cr_expect(order.nodes == 25 && order.leases == 1);
    cr_expect(eq(u64, usage_of(p, 3 * HOUR).node_units, 10 * 3 + 15 * 1 + 25 * 2));
    cr_expect(eq(u64, usage_of(p, 3 * HOUR).owned, 10), "the initial nodes stay");
    htc_provision_destroy(p);
}

/* Refused requests are counted; the tenth in a row raises the alarm, the next grant takes it back. */
Test(provision, tells_when_it_starves)
{
    htc_provision       *p = book_of("paper", 40);
    htc_provision_demand d = demand(1, 90, 90, 0);
    htc_provision_order  order;
    htc_ns               now = 0;
    for (int i = 1; i <= 12; i++) {
        cr_assert(eq(int, htc_provision_scan(p, now += MINUTE, &d, &order), HTC_OK));
        cr_expect(eq(int, htc_provision_scan(p, now, &d, &order), HTC_EINVAL), "no answer yet");
        cr_expect(eq(int, htc_provision_granted(p, now, 0), i >= 10 ? HTC_AGAIN : HTC_OK), "%d", i);
        cr_expect(eq(u32, usage_of(p, now).starved, i >= 10));
    }
    cr_expect(eq(int, htc_provision_granted(p, now, 0), HTC_EINVAL), "nothing was asked for");
    cr_assert(eq(int, htc_provision_scan(p, now += MINUTE, &d, &order), HTC_OK));
    cr_expect(eq(int, htc_provision_granted(p, now, 51), HTC_EINVAL), "more than was asked for");
    cr_expect(eq(int, htc_provision_granted(p, now, 50), HTC_OK));
    htc_provision_usage u = usage_of(p, now);
    cr_expect(u.requests == 13 && u.rejected == 12 && u.rejected_in_row == 0 && u.starved == 0);
    htc_provision_destroy(p);
}

/* Montage, section 4.3: 10 initial nodes and one chunk of 156 for 400 s cost 166 node-hours. */
Test(provision, montage_costs_166_node_hours)
{
    htc_provision_options o = { .size = sizeof o, .kind = HTC_PROVISION_MTC };
    htc_provision        *p;
    htc_provision_demand  d = demand(156, 156, 1, 10);
    htc_provision_order   order;
    uint64_t              nodes = 0;
    cr_assert(eq(int, htc_provision_create(NULL, &o, 0, &p), HTC_OK));
    cr_assert(eq(int, htc_provision_scan(p, 3 * HTC_SECOND, &d, &order), HTC_OK));
    cr_assert(eq(int, htc_provision_granted(p, 3 * HTC_SECOND, order.nodes), HTC_OK));
    cr_assert(eq(int, htc_provision_end(p, 403 * HTC_SECOND, &nodes), HTC_OK));
    cr_expect(eq(u64, nodes, 166));
    htc_provision_usage u = usage_of(p, 403 * HTC_SECOND);
    cr_expect(u.node_units == 166 && u.owned == 0 && u.granted == 166 && u.returned == 166 && u.leases == 0);
    cr_expect(eq(u64, htc_provision_deadline(p), HTC_NEVER));
    cr_expect(eq(int, htc_provision_end(p, 403 * HTC_SECOND, &nodes), HTC_EINVAL));
    cr_expect(eq(int, htc_provision_scan(p, 404 * HTC_SECOND, &d, &order), HTC_EINVAL));
    cr_expect(eq(u64, usage_of(p, 9 * HOUR).node_units, 166), "closed is closed");
    htc_provision_destroy(p);
}

/* The newest leases end first; initial nodes go last. */
Test(provision, lost_nodes_end_the_newest_leases)
{
    htc_provision       *p = book_of("perlease", 10);
    htc_provision_demand d = demand(1, 20, 20, 0);
    htc_provision_order  order;
    htc_provision_lease  l;
    cr_assert(htc_provision_scan(p, MINUTE, &d, &order) == HTC_OK && htc_provision_granted(p, MINUTE, 10) == HTC_OK);
    d = demand(1, 50, 50, 20);
    cr_assert(htc_provision_scan(p, 2 * MINUTE, &d, &order) == HTC_OK &&
              htc_provision_granted(p, 2 * MINUTE, 50) == HTC_OK);
    cr_expect(eq(int, htc_provision_lost(p, 3 * MINUTE, 0), HTC_EINVAL));
    cr_expect(eq(int, htc_provision_lost(p, 3 * MINUTE, 71), HTC_EINVAL));
    cr_assert(eq(int, htc_provision_lost(p, 3 * MINUTE, 53), HTC_OK));
    cr_assert(eq(int, htc_provision_lease_at(p, 0, &l), HTC_OK));
    cr_expect(l.nodes == 7 && l.granted_at == MINUTE);
    cr_assert(eq(int, htc_provision_lost(p, 4 * MINUTE, 9), HTC_OK));
    htc_provision_usage u = usage_of(p, 4 * MINUTE);
    cr_expect(u.owned == 8 && u.initial == 8 && u.leases == 0 && u.returned == 62 && u.node_units == 70);
    htc_provision_destroy(p);
}

/* A book that is opened again after a restart charges and checks as if it had stayed open. */
Test(provision, adopts_its_leases_after_a_restart)
{
    htc_provision       *p = book_of("paper", 40), *again = book_of("paper", 40);
    htc_provision_demand d = demand(3, 90, 30, 0);
    htc_provision_order  order, same;
    htc_provision_lease  l;
    cr_assert(htc_provision_scan(p, MINUTE, &d, &order) == HTC_OK && htc_provision_granted(p, MINUTE, 50) == HTC_OK);
    cr_assert(eq(int, htc_provision_lease_at(p, 0, &l), HTC_OK));
    cr_assert(eq(int, htc_provision_adopt(again, 30 * MINUTE, &l), HTC_OK));
    htc_provision_usage u = usage_of(p, 90 * MINUTE), v = usage_of(again, 90 * MINUTE);
    cr_expect(u.owned == v.owned && u.node_units == v.node_units && u.node_seconds == v.node_seconds &&
              u.granted == v.granted);
    d = demand(0, 0, 0, 0);
    cr_assert(eq(int, htc_provision_check(p, 90 * MINUTE, &d, &order), HTC_OK));
    cr_assert(eq(int, htc_provision_check(again, 90 * MINUTE, &d, &same), HTC_OK));
    cr_expect(order.nodes == same.nodes && order.leases == same.leases);
    const htc_provision_lease wrong[] = {
        { 0, 0, HOUR }, { 1, 0, HOUR + 1 }, { 1, 0, 0 }, { 1, 3 * HOUR, 4 * HOUR }, { HTC_PROVISION_NODES_MAX, 0, HOUR }
    };
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
        cr_expect(eq(int, htc_provision_adopt(again, 2 * HOUR, &wrong[i]), HTC_EINVAL), "row %zu", i);
    cr_expect(eq(int, htc_provision_adopt(again, 2 * HOUR, NULL), HTC_EINVAL));
    htc_provision_destroy(p);
    htc_provision_destroy(again);
}

/* ---- the book against a list of pieces ---- */

typedef struct piece {
    uint64_t nodes, number;
    htc_ns   from, to, check_at; /* to: HTC_NEVER while it is held */
    int      initial;
} piece;

#define PIECES 600

typedef struct model {
    piece    pieces[PIECES];
    size_t   n;
    uint64_t grants, owned, peak, asked, refused_in_row;
    htc_ns   unit, scan_at, scan;
    uint64_t ratio;
    uint32_t policy, scope;
} model;

/* So many nodes of this piece end now. */
static void model_end(model *m, size_t i, uint64_t nodes, htc_ns now)
{
    piece ended = m->pieces[i];
    ended.nodes = nodes;
    ended.to = now;
    m->pieces[i].nodes -= nodes;
    m->owned -= nodes;
    m->pieces[m->n++] = ended;
}

static uint64_t model_request(const model *m, const htc_provision_demand *d)
{
    uint64_t idle = m->owned - d->running_nodes, size = d->waiting_nodes > idle ? d->waiting_nodes - idle : 0;
    if (m->policy == HTC_PROVISION_PAPER)
        return htc_provision_request_size(m->owned, d, m->ratio, m->scope, NULL);
    return size;
}

static uint64_t model_check(model *m, htc_ns now, const htc_provision_demand *d, uint64_t *leases)
{
    uint64_t total = 0;
    *leases = 0;
    for (;;) {
        size_t due = PIECES;
        for (size_t i = 0; i < m->n; i++) {
            const piece *a = &m->pieces[i], *b = &m->pieces[due];
            if (!a->initial && a->nodes && a->to == HTC_NEVER && a->check_at <= now &&
                (due == PIECES || a->check_at < b->check_at || (a->check_at == b->check_at && a->number < b->number)))
                due = i;
        }
        if (due == PIECES)
            return total;
        piece   *p = &m->pieces[due];
        uint64_t idle = m->owned - d->running_nodes, back,
                 spare = idle > d->waiting_nodes ? idle - d->waiting_nodes : 0;
        while (p->check_at <= now)
            p->check_at += m->unit;
        if (m->policy == HTC_PROVISION_PAPER)
            back = idle >= p->nodes ? p->nodes : 0;
        else
            back = spare < p->nodes ? spare : p->nodes;
        if (back > 0)
            model_end(m, due, back, now);
        total += back;
        *leases += p->nodes == 0;
    }
}

static void model_lose(model *m, htc_ns now, uint64_t nodes)
{
    while (nodes > 0) {
        size_t last = PIECES;
        for (size_t i = 0; i < m->n; i++) {
            const piece *a = &m->pieces[i], *b = &m->pieces[last];
            if (a->nodes && a->to == HTC_NEVER &&
                (last == PIECES || a->initial < b->initial || (a->initial == b->initial && a->from > b->from) ||
                 (a->initial == b->initial && a->from == b->from && a->number > b->number)))
                last = i;
        }
        uint64_t gone = nodes < m->pieces[last].nodes ? nodes : m->pieces[last].nodes;
        model_end(m, last, gone, now);
        nodes -= gone;
    }
}

static int agrees(const model *m, const htc_provision *p, htc_ns now)
{
    htc_provision_usage u;
    uint64_t            units = 0, held = 0, open = 0, initial = 0, granted = 0, returned = 0;
    for (size_t i = 0; i < m->n; i++) {
        const piece *a = &m->pieces[i];
        htc_ns       time = (a->to == HTC_NEVER ? now : a->to) - a->from;
        uint64_t     count = 0;
        while (count * m->unit < time)
            count++;
        units += a->nodes * (count ? count : 1);
        held += a->nodes * time;
        granted += a->nodes;
        returned += a->to == HTC_NEVER ? 0 : a->nodes;
        open += !a->initial && a->to == HTC_NEVER && a->nodes;
        initial += a->initial && a->to == HTC_NEVER ? a->nodes : 0;
    }
    return htc_provision_usage_at(p, now, &u) == HTC_OK && u.owned == m->owned && u.initial == initial &&
           u.leases == open && u.peak == m->peak && u.node_units == units && u.node_seconds == held / HTC_SECOND &&
           u.granted == granted && u.returned == returned && u.rejected_in_row == m->refused_in_row;
}

static htc_provision_demand any_demand(htc_rng *rng, uint64_t owned)
{
    htc_provision_demand d = { .running_nodes = htc_rng_below(rng, owned + 1) };
    d.waiting_jobs = htc_rng_below(rng, 4);
    for (uint64_t i = 0; i < d.waiting_jobs; i++) {
        uint64_t size = htc_rng_below(rng, 12) + 1;
        d.waiting_nodes += size;
        d.waiting_largest = size > d.waiting_largest ? size : d.waiting_largest;
    }
    return d;
}

Test(provision, agrees_with_a_list_of_pieces)
{
    PROPERTY(rng, 3000)
    {
        static model          m;
        htc_provision        *p;
        htc_ns                now = htc_rng_below(&rng, 100) * HTC_SECOND;
        htc_provision_options o = { .size = sizeof o };
        htc_ns grid = htc_rng_below(&rng, 2) ? HTC_SECOND : 1; /* of whole seconds many leases are due together */
        m = (model){ .unit = (htc_rng_below(&rng, 30) + 1) * HTC_SECOND,
                     .policy = (uint32_t)htc_rng_below(&rng, 2),
                     .scope = (uint32_t)htc_rng_below(&rng, 2),
                     .ratio = htc_rng_below(&rng, 3000000) + 1,
                     .scan = (htc_rng_below(&rng, 6) + 1) * HTC_SECOND };
        o.policy = htc_provision_policy_of(m.policy);
        o.scope = m.scope;
        o.initial = htc_rng_below(&rng, 8) + 1;
        o.ratio = m.ratio;
        o.scan_ns = m.scan;
        o.unit_ns = m.unit;
        HOLDS(htc_provision_create(NULL, &o, now, &p) == HTC_OK);
        m.pieces[m.n++] = (piece){ .nodes = o.initial, .from = now, .to = HTC_NEVER, .initial = 1 };
        m.owned = m.peak = o.initial;
        m.scan_at = now + m.scan;
        for (int step = 0; step < 60; step++) {
            htc_provision_demand d = any_demand(&rng, m.owned);
            htc_provision_order  order = { 0 };
            uint64_t             nodes, leases;
            now += htc_rng_below(&rng, 4) ? htc_rng_below(&rng, 3 * HTC_SECOND / grid) * grid
                                          : htc_rng_below(&rng, 40) * HTC_SECOND;
            switch (htc_rng_below(&rng, 8)) {
            case 0:
            case 1:
            case 2:
                nodes = now >= m.scan_at ? model_request(&m, &d) : 0;
                if (m.asked) {
                    HOLDS(htc_provision_scan(p, now, &d, &order) == HTC_EINVAL);
                    break;
                }
                while (m.scan_at <= now)
                    m.scan_at += m.scan;
                HOLDS(htc_provision_scan(p, now, &d, &order) == (nodes ? HTC_OK : HTC_AGAIN));
                HOLDS(order.nodes == nodes);
                m.asked = nodes;
                break;
            case 3:
            case 4:
                nodes = htc_rng_below(&rng, 3) ? m.asked : htc_rng_below(&rng, m.asked + 1);
                if (m.asked == 0) {
                    HOLDS(htc_provision_granted(p, now, 0) == HTC_EINVAL);
                    break;
                }
                m.refused_in_row = nodes ? 0 : m.refused_in_row + 1;
                HOLDS(htc_provision_granted(p, now, nodes) == (m.refused_in_row >= 10 ? HTC_AGAIN : HTC_OK));
                if (nodes)
                    m.pieces[m.n++] = (piece){
                        .nodes = nodes, .number = ++m.grants, .from = now, .to = HTC_NEVER, .check_at = now + m.unit
                    };
                m.owned += nodes;
                m.peak = m.owned > m.peak ? m.owned : m.peak;
                m.asked = 0;
                break;
            case 5:
            case 6:
                nodes = model_check(&m, now, &d, &leases);
                HOLDS(htc_provision_check(p, now, &d, &order) == (nodes ? HTC_OK : HTC_AGAIN));
                HOLDS(order.nodes == nodes && order.leases == (nodes ? leases : 0));
                break;
            case 7:
                nodes = htc_rng_below(&rng, m.owned + 2);
                if (htc_rng_below(&rng, 3))
                    break;
                HOLDS(htc_provision_lost(p, now, nodes) == (nodes && nodes <= m.owned ? HTC_OK : HTC_EINVAL));
                if (nodes <= m.owned)
                    model_lose(&m, now, nodes);
                break;
            }
            HOLDS(agrees(&m, p, now + htc_rng_below(&rng, 50) * HTC_SECOND));
        }
        htc_provision_destroy(p);
    }
}

/* ---- wrong use, policies of one's own, memory ---- */

static uint64_t all_there_is(void *ctx, const htc_provision_view *v, uint32_t *reason)
{
    *reason = 1234;
    *(uint64_t *)ctx = v->rejected + (v->size == sizeof *v ? 0 : 100);
    return UINT64_MAX;
}

static uint64_t everything(void *ctx, const htc_provision_view *v, uint64_t leased)
{
    (void)ctx;
    (void)v;
    (void)leased;
    return UINT64_MAX;
}

Test(provision, holds_a_policy_of_ones_own_within_bounds)
{
    uint64_t                   seen = 99;
    const htc_provision_policy mine = { sizeof mine, "mine", &seen, all_there_is, everything }, *found = NULL;
    htc_provision_options      o = HTC_PROVISION_OPTIONS_INIT;
    htc_provision_demand       d = demand(0, 0, 0, 7);
    htc_provision_order        order;
    htc_provision             *p;
    htc_registry              *registry;
    cr_assert(htc_registry_create(NULL, &registry) == HTC_OK && htc_registry_add_builtin(registry) == HTC_OK);
    cr_assert(eq(int, htc_provision_register(registry, &mine), HTC_OK));
    cr_expect(eq(int, htc_provision_register(registry, htc_provision_policy_of(HTC_PROVISION_PAPER)), HTC_EEXISTS));
    cr_expect(eq(int, htc_provision_find(registry, "nobody's", &found), HTC_ENOTFOUND));
    cr_assert(eq(int, htc_provision_find(registry, "mine", &found), HTC_OK));
    o.policy = found;
    cr_assert(eq(int, htc_provision_create(NULL, &o, 0, &p), HTC_OK));
    cr_assert(eq(int, htc_provision_scan(p, MINUTE, &d, &order), HTC_OK));
    cr_expect(order.nodes == HTC_PROVISION_NODES_MAX - 40 && order.reason == 1234 && seen == 0);
    cr_assert(eq(int, htc_provision_granted(p, MINUTE, 100), HTC_OK));
    d.running_nodes = 50;
    cr_assert(eq(int, htc_provision_check(p, 2 * HOUR, &d, &order), HTC_OK));
    cr_expect(eq(u64, order.nodes, 90), "no busy node goes back");
    htc_provision_destroy(p);
    htc_registry_destroy(registry);
}

Test(provision, refuses_wrong_options_and_wrong_calls)
{
    const htc_provision_policy  empty = { .size = sizeof empty };
    const htc_provision_options wrong[] = {
        { .size = 0 },
        { .size = sizeof wrong[0], .kind = 2 },
        { .size = sizeof wrong[0], .scope = 2 },
        { .size = sizeof wrong[0], .initial = HTC_PROVISION_NODES_MAX + 1 },
        { .size = sizeof wrong[0], .policy = &empty },
    };
    struct {
        htc_provision_options o;
        uint64_t              newer;
    } longer = { HTC_PROVISION_OPTIONS_INIT, 1 };
    htc_provision *p = NULL;
    longer.o.size = sizeof longer;
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
        cr_expect(eq(int, htc_provision_create(NULL, &wrong[i], 0, &p), HTC_EINVAL), "row %zu", i);
    cr_expect(eq(int, htc_provision_create(NULL, &longer.o, 0, &p), HTC_EABI));
    cr_expect(eq(int, htc_provision_create(NULL, NULL, HTC_NEVER, &p), HTC_EINVAL));
    cr_expect(eq(int, htc_provision_create(NULL, NULL, 0, NULL), HTC_EINVAL));
    cr_expect(p == NULL);

    const htc_provision_demand bad[] = { { 1, 0, 0, 0 },
                                         { 0, 1, 1, 0 },
                                         { 1, 1, 0, 0 },
                                         { 1, 1, 2, 0 },
                                         { 2, 1, 1, 0 },
                                         { 0, 0, 0, 41 },
                                         { 1, HTC_PROVISION_NODES_MAX + 1, 1, 0 } };
    htc_provision_demand       d = demand(1, 90, 90, 0);
    htc_provision_order        order = { 7, 7, 7 };
    htc_provision_usage        u;
    htc_provision_lease        l;
    cr_assert(eq(int, htc_provision_create(NULL, NULL, MINUTE, &p), HTC_OK));
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        cr_expect(eq(int, htc_provision_scan(p, 2 * MINUTE, &bad[i], &order), HTC_EINVAL), "row %zu", i);
        cr_expect(eq(int, htc_provision_check(p, 2 * MINUTE, &bad[i], &order), HTC_EINVAL), "row %zu", i);
    }
    cr_expect(eq(int, htc_provision_scan(p, 2 * MINUTE, NULL, &order), HTC_EINVAL));
    cr_expect(eq(int, htc_provision_scan(p, 2 * MINUTE, &d, NULL), HTC_EINVAL));
    cr_expect(eq(int, htc_provision_scan(NULL, 2 * MINUTE, &d, &order), HTC_EINVAL));
    cr_expect(eq(int, htc_provision_scan(p, 0, &d, &order), HTC_EINVAL), "before the start");
    cr_expect(eq(int, htc_provision_check(p, 0, &d, &order), HTC_EINVAL));
    cr_expect(eq(int, htc_provision_check(p, MINUTE, &d, NULL), HTC_EINVAL));
    cr_expect(eq(int, htc_provision_check(NULL, MINUTE, &d, &order), HTC_EINVAL));
    cr_expect(eq(int, htc_provision_granted(p, MINUTE, 1), HTC_EINVAL));
    cr_expect(eq(int, htc_provision_granted(NULL, MINUTE, 1), HTC_EINVAL));
    cr_expect(eq(int, htc_provision_lost(NULL, MINUTE, 1), HTC_EINVAL));
    cr_expect(eq(int, htc_provision_end(NULL, MINUTE, NULL), HTC_EINVAL));
    cr_expect(eq(int, htc_provision_end(p, 0, NULL), HTC_EINVAL));
    cr_expect(eq(int, htc_provision_usage_at(p, 0, &u), HTC_EINVAL));
    cr_expect(eq(int, htc_provision_usage_at(p, MINUTE, NULL), HTC_EINVAL));
    cr_expect(eq(int, htc_provision_usage_at(NULL, MINUTE, &u), HTC_EINVAL));
    cr_expect(eq(int, htc_provision_lease_at(p, 0, NULL), HTC_EINVAL));
    cr_expect(eq(int, htc_provision_lease_at(NULL, 0, &l), HTC_EINVAL));
    cr_expect(eq(u64, htc_provision_deadline(NULL), HTC_NEVER));
    cr_expect(order.nodes == 7 && order.leases == 7 && order.reason == 7, "untouched");
    cr_expect(htc_provision_policy_of(2) == NULL && htc_provision_granter_of(2) == NULL &&
              htc_provision_setup_of(3) == NULL);
    htc_provision_options_init(NULL, 8);
    htc_provision_destroy(p);
    htc_provision_destroy(NULL);
}

/* No more leases than told: the scan says so, before anybody is asked. */
Test(provision, asks_for_no_lease_it_cannot_hold)
{
    htc_provision_options o = { .size = sizeof o, .leases_max = 2 };
    htc_provision_demand  d = demand(1, 90, 90, 0);
    htc_provision_order   order;
    htc_provision        *p;
    htc_ns                now = 0;
    cr_assert(eq(int, htc_provision_create(NULL, &o, 0, &p), HTC_OK));
    for (int i = 0; i < 2; i++)
        cr_assert(htc_provision_scan(p, now += MINUTE, &d, &order) == HTC_OK &&
                  htc_provision_granted(p, now, 1) == HTC_OK);
    cr_expect(eq(int, htc_provision_scan(p, now += MINUTE, &d, &order), HTC_EFULL));
    cr_expect(eq(u64, usage_of(p, now).requests, 2));
    d = demand(0, 0, 0, 0);
    cr_expect(eq(int, htc_provision_scan(p, now, &d, &order), HTC_AGAIN), "nothing to ask for");
    htc_provision_destroy(p);
}

/* An answer that is outstanding has its place among the leases and its nodes under the limit, whatever is adopted meanwhile: the 16th
 * lease used to be adopted into the room of the one that was asked for, which was then written behind the array. */
Test(provision, what_is_asked_for_keeps_its_room)
{
    htc_provision_options     o = { .size = sizeof o, .initial = 1, .leases_max = 18 };
    const htc_provision_lease old = { 1, 0, HOUR };
    htc_provision_demand      d = demand(1, 90, 90, 0);
    htc_provision_order       order;
    htc_provision            *p;
    cr_assert(eq(int, htc_provision_create(NULL, &o, 0, &p), HTC_OK));
    for (int i = 0; i < 15; i++)
        cr_assert(eq(int, htc_provision_adopt(p, 1, &old), HTC_OK));
    cr_assert(eq(int, htc_provision_scan(p, MINUTE, &d, &order), HTC_OK));
    cr_expect(eq(int, htc_provision_adopt(p, MINUTE, &old), HTC_OK));
    cr_expect(eq(int, htc_provision_granted(p, MINUTE, order.nodes), HTC_OK));
    d = demand(1, 190, 190, 0);
    cr_assert(eq(int, htc_provision_scan(p, 2 * MINUTE, &d, &order), HTC_OK));
    cr_expect(eq(int, htc_provision_adopt(p, 2 * MINUTE, &old), HTC_EFULL), "18 with the one that is asked for");
    cr_expect(eq(int, htc_provision_granted(p, 2 * MINUTE, order.nodes), HTC_OK));
    cr_expect(eq(u64, usage_of(p, 2 * MINUTE).leases, 18));
    htc_provision_destroy(p);
    d = demand(1, 90, 90, 0);

    const uint64_t            most = HTC_PROVISION_NODES_MAX;
    const htc_provision_lease large = { most - 90, 0, HOUR }, larger = { most - 89, 0, HOUR };
    cr_assert(eq(int, htc_provision_create(NULL, &o, 0, &p), HTC_OK));
    cr_assert(eq(int, htc_provision_scan(p, MINUTE, &d, &order), HTC_OK));
    cr_assert(eq(u64, order.nodes, 89));
    cr_expect(eq(int, htc_provision_adopt(p, MINUTE, &larger), HTC_EINVAL), "a node too many once the answer is there");
    cr_expect(eq(int, htc_provision_adopt(p, MINUTE, &large), HTC_OK));
    cr_expect(eq(int, htc_provision_granted(p, MINUTE, 89), HTC_OK));
    cr_expect(eq(u64, usage_of(p, MINUTE).owned, most));
    htc_provision_destroy(p);
}

/* A policy that plays with the book it is asked about. */
typedef struct meddler {
    htc_provision *book;
    htc_status     scan, granted, check, adopt, lost, end;
} meddler;

static void meddle(meddler *m, htc_ns now)
{
    const htc_provision_lease  lease = { 1, 0, HOUR };
    const htc_provision_demand d = demand(1, 90, 90, 0);
    htc_provision_order        order;
    m->scan = htc_provision_scan(m->book, now, &d, &order);
    m->granted = htc_provision_granted(m->book, now, 1);
    m->check = htc_provision_check(m->book, now, &d, &order);
    m->adopt = htc_provision_adopt(m->book, now, &lease);
    m->lost = htc_provision_lost(m->book, now, 1);
    m->end = htc_provision_end(m->book, now, NULL);
}

static uint64_t meddling_request(void *ctx, const htc_provision_view *v, uint32_t *reason)
{
    *reason = 1000;
    meddle(ctx, v->now);
    return 5;
}

static uint64_t meddling_release(void *ctx, const htc_provision_view *v, uint64_t leased)
{
    meddle(ctx, v->now);
    return leased;
}

/* Without that the lease under inspection might move, or be gone, while it is inspected. */
Test(provision, a_policy_cannot_change_the_book_it_decides_about)
{
    meddler                    m = { 0 };
    const htc_provision_policy mine = { sizeof mine, NULL, &m, meddling_request, meddling_release };
    htc_provision_options      o = { .size = sizeof o, .policy = &mine };
    htc_provision_demand       d = demand(1, 90, 90, 0);
    htc_provision_order        order;
    cr_assert(eq(int, htc_provision_create(NULL, &o, 0, &m.book), HTC_OK));
    for (int check = 0; check < 2; check++) {
        cr_assert(eq(int,
                     check ? htc_provision_check(m.book, 2 * HOUR, &d, &order)
                           : htc_provision_scan(m.book, MINUTE, &d, &order),
                     HTC_OK));
        cr_expect(eq(u64, order.nodes, 5));
        cr_expect(eq(int, m.scan, HTC_EINVAL));
        cr_expect(eq(int, m.granted, HTC_EINVAL));
        cr_expect(eq(int, m.check, HTC_EINVAL));
        cr_expect(eq(int, m.adopt, HTC_EINVAL));
        cr_expect(eq(int, m.lost, HTC_EINVAL));
        cr_expect(eq(int, m.end, HTC_EINVAL));
        m = (meddler){ .book = m.book };
        if (!check)
            cr_assert(eq(int, htc_provision_granted(m.book, MINUTE, 5), HTC_OK));
    }
    htc_provision_destroy(m.book);
}

/* Forty leases make the heap grow twice. Without memory the scan fails, and the book is as it was. */
static void scenario(alloc_fail *f)
{
    htc_env               env = alloc_fail_env(f);
    htc_provision_options o = { .size = sizeof o, .initial = 1, .ratio = 1 };
    htc_provision        *p = NULL;
    htc_provision_order   order;
    uint64_t              owned = 1;
    if (htc_provision_create(&env, &o, 0, &p) == HTC_OK) {
        for (htc_ns now = MINUTE; now <= 40 * MINUTE; now += MINUTE) {
            htc_provision_demand d = demand(1, owned + 3, owned + 3, 0);
            size_t               refused = f->refused;
            htc_status           status = htc_provision_scan(p, now, &d, &order);
            cr_expect(eq(int, status, f->refused > refused ? HTC_ENOMEM : HTC_OK));
            if (status != HTC_OK && f->once)
                cr_expect(eq(int, status = htc_provision_scan(p, now, &d, &order), HTC_OK), "due still");
            if (status == HTC_OK) {
                cr_expect(eq(int, htc_provision_granted(p, now, order.nodes), HTC_OK));
                owned += order.nodes;
            }
            cr_expect(eq(u64, usage_of(p, now).owned, owned));
        }
    } else
        cr_expect(f->refused && p == NULL);
    htc_provision_destroy(p);
    cr_expect(eq(sz, f->live, 0));
    cr_expect(eq(sz, f->wrong_sizes, 0));
}

Test(provision, stays_as_it_was_without_memory)
{
    ALLOC_FAIL_EVERY(f, 100)
    scenario(&f);
    ALLOC_FAIL_ONCE(f, 100)
    scenario(&f);
}
