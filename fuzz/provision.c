/* Any life of a runtime environment beside a list of single nodes: when each came, when it went, and what that costs.
 */
#include "htcsched/provision.h"
#include "check.h"
#include "core/codec.h"

#define STEPS_MAX    200
#define NODES_MAX    4096
#define REQUESTS_MAX 10

typedef struct node {
    htc_ns   from, to, check_at; /* to: HTC_NEVER while it is held; check_at HTC_NEVER: an initial node */
    uint64_t chunk;
} node;

typedef struct life {
    htc_provision *book;
    node           nodes[NODES_MAX];
    size_t         n;
    uint64_t       owned, asked, chunks;
    htc_ns         now, unit;
    uint32_t       policy;
} life;

static void come(life *l, uint64_t count, htc_ns check_at)
{
    l->chunks++;
    for (uint64_t i = 0; i < count; i++)
        l->nodes[l->n++] = (node){ l->now, HTC_NEVER, check_at, l->chunks };
    l->owned += count;
}

/* So many of this chunk go. */
static void go(life *l, uint64_t chunk, uint64_t count)
{
    l->owned -= count;
    for (size_t i = 0; i < l->n && count > 0; i++)
        if (l->nodes[i].chunk == chunk && l->nodes[i].to == HTC_NEVER) {
            l->nodes[i].to = l->now;
            count--;
        }
    CHECK(count == 0);
}

static uint64_t size_of(const life *l, uint64_t chunk)
{
    uint64_t size = 0;
    for (size_t i = 0; i < l->n; i++)
        size += l->nodes[i].chunk == chunk && l->nodes[i].to == HTC_NEVER;
    return size;
}

static uint64_t check_by_hand(life *l, const htc_provision_demand *d)
{
    uint64_t total = 0;
    for (;;) {
        const node *due = NULL;
        for (size_t i = 0; i < l->n; i++) {
            const node *x = &l->nodes[i];
            if (x->to == HTC_NEVER && x->check_at <= l->now &&
                (!due || x->check_at < due->check_at || (x->check_at == due->check_at && x->chunk < due->chunk)))
                due = x;
        }
        if (!due)
            return total;
        uint64_t chunk = due->chunk, size = size_of(l, chunk), idle = l->owned - d->running_nodes;
        uint64_t spare = idle > d->waiting_nodes ? idle - d->waiting_nodes : 0;
        uint64_t back = l->policy == HTC_PROVISION_PAPER ? (idle >= size ? size : 0) : spare < size ? spare : size;
        for (size_t i = 0; i < l->n; i++)
            while (l->nodes[i].chunk == chunk && l->nodes[i].check_at <= l->now)
                l->nodes[i].check_at += l->unit;
        go(l, chunk, back);
        total += back;
    }
}

static void check_usage(const life *l)
{
    htc_provision_usage u;
    uint64_t            units = 0, held = 0;
    for (size_t i = 0; i < l->n; i++) {
        htc_ns time = (l->nodes[i].to == HTC_NEVER ? l->now : l->nodes[i].to) - l->nodes[i].from;
        units += time ? (time + l->unit - 1) / l->unit : 1;
        held += time;
    }
    CHECK(htc_provision_usage_at(l->book, l->now, &u) == HTC_OK);
    CHECK(u.owned == l->owned && u.node_units == units && u.node_seconds == held / HTC_SECOND && u.granted == l->n &&
          u.returned == l->n - l->owned);
}

static htc_provision_demand any_demand(htc_reader *r, const life *l)
{
    htc_provision_demand d = { .waiting_jobs = htc_get_u8(r) % 4, .running_nodes = htc_get_u8(r) % (l->owned + 1) };
    d.waiting_largest = d.waiting_jobs ? htc_get_u8(r) % 16 + 1 : 0;
    d.waiting_nodes =
        d.waiting_largest + (d.waiting_jobs ? (d.waiting_jobs - 1) * (htc_get_u8(r) % d.waiting_largest + 1) : 0);
    return d;
}

static void step(htc_reader *r, life *l)
{
    htc_provision_demand d;
    htc_provision_order  order = { 0 };
    htc_status           status;
    uint8_t              what = htc_get_u8(r);
    uint64_t             nodes;
    l->now += (htc_ns)htc_get_u8(r) * HTC_SECOND / 4;
    d = any_demand(r, l);
    switch (what % 4) {
    case 0:
        status = htc_provision_scan(l->book, l->now, &d, &order);
        CHECK(l->asked ? status == HTC_EINVAL : status == HTC_OK || status == HTC_AGAIN);
        if (status == HTC_OK)
            CHECK((l->asked = order.nodes) > 0 && d.waiting_jobs > 0);
        break;
    case 1:
        nodes = what >= 128 ? l->asked : l->asked / 2;
        if (l->n + nodes > NODES_MAX)
            nodes = 0;
        status = htc_provision_granted(l->book, l->now, nodes);
        CHECK(l->asked ? status >= HTC_OK : status == HTC_EINVAL);
        if (l->asked && nodes)
            come(l, nodes, l->now + l->unit);
        l->asked = 0;
        break;
    case 2:
        nodes = check_by_hand(l, &d);
        status = htc_provision_check(l->book, l->now, &d, &order);
        CHECK(status == (nodes ? HTC_OK : HTC_AGAIN) && order.nodes == nodes);
        break;
    case 3:
        if (l->owned == 0 || what < 200)
            break;
        /* One node: of the newest chunk, and nodes of the same time came in this order. */
        CHECK(htc_provision_lost(l->book, l->now, 1) == HTC_OK);
        for (size_t i = l->n; i-- > 0;)
            if (l->nodes[i].to == HTC_NEVER) {
                go(l, l->nodes[i].chunk, 1);
                break;
            }
        break;
    }
    check_usage(l);
}

static void check_grants(htc_reader *r)
{
    htc_provision_request q[REQUESTS_MAX];
    uint64_t              granted[REQUESTS_MAX], free_nodes = htc_get_u16(r), left;
    size_t                n = htc_get_u8(r) % (REQUESTS_MAX + 1);
    for (size_t i = 0; i < n; i++)
        q[i] = (htc_provision_request){ .id = i,
                                        .nodes = (uint64_t)htc_get_u16(r) + 1,
                                        .weight = htc_get_u8(r),
                                        .arrival = htc_get_u8(r) % 4,
                                        .priority = (int32_t)(htc_get_u8(r) % 3) - 1,
                                        .initial = htc_get_u8(r) % 4 == 0 };
    for (uint32_t granting = 0; granting <= HTC_PROVISION_PARTIAL; granting++) {
        CHECK(htc_provision_grant(NULL, htc_provision_granter_of(granting), free_nodes, q, n, granted) == HTC_OK);
        left = free_nodes;
        for (size_t i = 0; i < n; i++) {
            CHECK(granted[i] <= q[i].nodes && granted[i] <= left);
            CHECK((granting == HTC_PROVISION_PARTIAL && !q[i].initial) || granted[i] == 0 || granted[i] == q[i].nodes);
            left -= granted[i];
        }
        /* Nobody is refused what is left over. */
        for (size_t i = 0; i < n; i++)
            CHECK(granted[i] == q[i].nodes ||
                  (granting == HTC_PROVISION_PARTIAL && !q[i].initial ? left == 0 : q[i].nodes > left));
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    htc_reader  r = htc_reader_of((htc_bytes){ data, size });
    static life l;
    l = (life){ .unit = ((htc_ns)htc_get_u8(&r) + 1) * HTC_SECOND,
                .policy = htc_get_u8(&r) % 2,
                .now = htc_get_u8(&r) };
    htc_provision_options o = { .size = sizeof o,
                                .policy = htc_provision_policy_of(l.policy),
                                .initial = htc_get_u8(&r) % 16 + 1,
                                .ratio = (uint64_t)htc_get_u8(&r) * 10000 + 1,
                                .scan_ns = ((htc_ns)htc_get_u8(&r) + 1) * HTC_SECOND,
                                .unit_ns = l.unit };
    check_grants(&r);
    CHECK(htc_provision_create(NULL, &o, l.now, &l.book) == HTC_OK);
    come(&l, o.initial, HTC_NEVER);
    for (size_t i = 0; i < STEPS_MAX && htc_reader_left(&r) > 0; i++)
        step(&r, &l);
    CHECK(htc_provision_end(l.book, l.now, NULL) == HTC_OK);
    htc_provision_destroy(l.book);
    return 0;
}
