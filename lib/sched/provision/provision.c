/* The book of one runtime environment: its leases in the order in which they are due, and what they have cost. */
#include "htcsched/provision.h"

#include <assert.h>
#include <string.h>

#include "core/util.h"
#include "sched/provision/provision_private.h"

typedef htc_provision_u128 u128;

#define LEASES_MAX 65536

typedef struct chunk {
    htc_provision_lease lease;
    uint64_t            number; /* of the grant */
} chunk;

struct htc_provision {
    const htc_env        *env;
    htc_provision_options o; /* defaults filled in */
    htc_ns                start, last, scan_at;
    uint32_t              closed;
    uint32_t              deciding; /* 1: its policy is being asked, and may not change what it decides about */
    uint64_t              initial, owned, peak;
    uint64_t              asked;  /* 0: no answer is outstanding */
    chunk                *leases; /* a heap: the first is due first */
    size_t                n, cap;
    uint64_t              numbers;
    u128                  charged; /* node-units of what has ended */
    u128                  held;    /* node-nanoseconds, up to last */
    uint64_t              granted, returned, requests, rejected, rejected_in_row;
};

/* ---- leases by due time, then by grant ---- */

static int due_before(const chunk *a, const chunk *b)
{
    return a->lease.check_at != b->lease.check_at ? a->lease.check_at < b->lease.check_at : a->number < b->number;
}

static void swap(chunk *a, chunk *b)
{
    chunk c = *a;
    *a = *b;
    *b = c;
}

/* The lease at this place may be due too late for it, or too early. */
static void settle(htc_provision *p, size_t at)
{
    for (; at > 0 && due_before(&p->leases[at], &p->leases[(at - 1) / 2]); at = (at - 1) / 2)
        swap(&p->leases[at], &p->leases[(at - 1) / 2]);
    for (size_t child; (child = 2 * at + 1) < p->n; at = child) {
        if (child + 1 < p->n && due_before(&p->leases[child + 1], &p->leases[child]))
            child++;
        if (!due_before(&p->leases[child], &p->leases[at]))
            return;
        swap(&p->leases[at], &p->leases[child]);
    }
}

static void push_lease(htc_provision *p, htc_provision_lease what)
{
    assert(p->n < p->cap); /* its room was made before anybody was asked for it */
    p->leases[p->n] = (chunk){ what, p->numbers++ };
    settle(p, p->n++);
}

static void remove_lease(htc_provision *p, size_t at)
{
    assert(at < p->n);
    p->leases[at] = p->leases[--p->n];
    if (at < p->n)
        settle(p, at);
}

/* Beside the one that an outstanding answer may bring: its room was made when it was asked for. */
static htc_status room_for_lease(htc_provision *p)
{
    size_t taken = p->n + (p->asked > 0);
    if (taken >= p->o.leases_max)
        return HTC_EFULL;
    if (taken < p->cap)
        return HTC_OK;
    size_t cap = p->cap ? p->cap * 2 : 16;
    chunk *grown = htc__resize(p->env, p->leases, p->cap * sizeof *grown, cap * sizeof *grown);
    if (!grown)
        return HTC_ENOMEM;
    p->leases = grown;
    p->cap = cap;
    return HTC_OK;
}

/* ---- opening ---- */

static htc_ns later(htc_ns a, htc_ns b)
{
    return a > HTC_NEVER - b ? HTC_NEVER : a + b;
}

void htc_provision_options_init(htc_provision_options *options, size_t size)
{
    htc__options_init(options, size);
}

/* The first of from, from + step, from + 2 step ... after now. */
static htc_ns first_after(htc_ns now, htc_ns from, htc_ns step)
{
    return now < from ? from : later(now - (now - from) % step, step);
}

static uint64_t or_default(uint64_t value, uint64_t by_default)
{
    return value ? value : by_default;
}

static htc_status read_options(const htc_provision_options *in, htc_provision_options *o)
{
    *o = (htc_provision_options)HTC_PROVISION_OPTIONS_INIT;
    htc_status status = htc__options_copy(o, sizeof *o, in, in ? in->size : 0, sizeof o->size);
    if (status != HTC_OK)
        return status;
    int mtc = o->kind == HTC_PROVISION_MTC;
    if (!o->policy)
        o->policy = htc_provision_policy_of(HTC_PROVISION_PAPER);
    o->initial = o->initial == HTC_PROVISION_NO_NODES ? 0 : or_default(o->initial, mtc ? 10 : 40);
    o->ratio = or_default(o->ratio, mtc ? 8 * HTC_PROVISION_ONE : HTC_PROVISION_ONE * 12 / 10);
    o->scan_ns = or_default(o->scan_ns, (mtc ? 3 : 60) * HTC_SECOND);
    o->phase_ns = or_default(o->phase_ns, o->scan_ns);
    o->unit_ns = or_default(o->unit_ns, 3600 * HTC_SECOND);
    o->leases_max = o->leases_max ? o->leases_max : LEASES_MAX;
    o->starved_after = o->starved_after ? o->starved_after : 10;
    if (o->kind > HTC_PROVISION_MTC || o->scope > HTC_PROVISION_WAITING || o->initial > HTC_PROVISION_NODES_MAX)
        return HTC_EINVAL;
    return htc__provision_check(o->policy);
}

htc_status htc_provision_create(const htc_env *env, const htc_provision_options *options, htc_ns now,
                                htc_provision **out)
{
    htc_provision_options o;
    htc_status            status = out && now != HTC_NEVER ? read_options(options, &o) : HTC_EINVAL;
    if (status != HTC_OK)
        return status;
    htc_provision *p = htc__alloc(env, sizeof *p);
    if (!p)
        return HTC_ENOMEM;
    p->env = env;
    p->o = o;
    p->start = p->last = now;
    p->scan_at = later(now, o.phase_ns);
    p->initial = p->owned = p->peak = p->granted = o.initial;
    *out = p;
    return HTC_OK;
}

void htc_provision_destroy(htc_provision *provision)
{
    if (!provision || provision->deciding)
        return;
    htc__free(provision->env, provision->leases, provision->cap * sizeof *provision->leases);
    htc__free(provision->env, provision, sizeof *provision);
}

/* ---- time, and what it costs ---- */

static int now_ok(const htc_provision *p, htc_ns now)
{
    return p && !p->closed && !p->deciding && now >= p->last && now != HTC_NEVER;
}

/* Everything up to now was held; only now may owned change. */
static void clock_to(htc_provision *p, htc_ns now)
{
    p->held += (u128)p->owned * (now - p->last);
    p->last = now;
}

static u128 cost(const htc_provision *p, uint64_t nodes, htc_ns from, htc_ns to)
{
    return (u128)nodes * htc_provision_units(to - from, p->o.unit_ns, HTC_PROVISION_CEIL);
}

static void give_up(htc_provision *p, uint64_t nodes, htc_ns granted_at)
{
    p->charged += cost(p, nodes, granted_at, p->last);
    assert(p->owned >= nodes);
    p->owned -= nodes;
    p->returned += nodes;
}

static void take_over(htc_provision *p, htc_provision_lease what)
{
    p->owned += what.nodes;
    p->granted += what.nodes;
    assert(p->owned <= HTC_PROVISION_NODES_MAX);
    if (p->owned > p->peak)
        p->peak = p->owned;
    push_lease(p, what);
}

htc_ns htc_provision_deadline(const htc_provision *provision)
{
    if (!provision || provision->closed)
        return HTC_NEVER;
    htc_ns due = provision->n ? provision->leases[0].lease.check_at : HTC_NEVER;
    return due < provision->scan_at ? due : provision->scan_at;
}

/* ---- scans and grants ---- */

static htc_provision_view view_of(const htc_provision *p, htc_ns now, const htc_provision_demand *demand)
{
    return (htc_provision_view){ .size = sizeof(htc_provision_view),
                                 .now = now,
                                 .owned = p->owned,
                                 .idle = p->owned - demand->running_nodes,
                                 .initial = p->initial,
                                 .ratio = p->o.ratio,
                                 .scope = p->o.scope,
                                 .rejected = p->rejected_in_row,
                                 .demand = demand };
}

htc_status htc_provision_scan(htc_provision *provision, htc_ns now, const htc_provision_demand *demand,
                              htc_provision_order *order)
{
    htc_provision *p = provision;
    uint32_t       reason = HTC_PROVISION_NONE;
    if (!order || !now_ok(p, now) || p->asked || !htc__provision_demand_ok(demand, p->owned))
        return HTC_EINVAL;
    if (now < p->scan_at)
        return HTC_AGAIN;
    htc_provision_view view = view_of(p, now, demand);
    p->deciding = 1;
    uint64_t nodes = p->o.policy->request(p->o.policy->ctx, &view, &reason);
    p->deciding = 0;
    htc_status status = nodes ? room_for_lease(p) : HTC_OK;
    if (status != HTC_OK)
        return status;
    clock_to(p, now);
    p->scan_at = first_after(now, p->scan_at, p->o.scan_ns);
    if (nodes > HTC_PROVISION_NODES_MAX - p->owned)
        nodes = HTC_PROVISION_NODES_MAX - p->owned;
    if (nodes == 0)
        return HTC_AGAIN;
    p->asked = nodes;
    p->requests++;
    *order = (htc_provision_order){ .nodes = nodes, .reason = reason };
    return HTC_OK;
}

htc_status htc_provision_granted(htc_provision *provision, htc_ns now, uint64_t nodes)
{
    htc_provision *p = provision;
    if (!now_ok(p, now) || p->asked == 0 || nodes > p->asked)
        return HTC_EINVAL;
    clock_to(p, now);
    p->asked = 0;
    if (nodes > 0) {
        p->rejected_in_row = 0;
        take_over(p, (htc_provision_lease){ nodes, now, later(now, p->o.unit_ns) });
        return HTC_OK;
    }
    p->rejected++;
    return ++p->rejected_in_row >= p->o.starved_after ? HTC_AGAIN : HTC_OK;
}

/* ---- looking at leases, losing and adopting them ---- */

htc_status htc_provision_check(htc_provision *provision, htc_ns now, const htc_provision_demand *demand,
                               htc_provision_order *order)
{
    htc_provision      *p = provision;
    htc_provision_order total = { 0 };
    if (!order || !now_ok(p, now) || !htc__provision_demand_ok(demand, p->owned))
        return HTC_EINVAL;
    clock_to(p, now);
    while (p->n && p->leases[0].lease.check_at <= now) {
        htc_provision_lease *due = &p->leases[0].lease;
        htc_provision_view   view = view_of(p, now, demand);
        p->deciding = 1;
        uint64_t back = p->o.policy->release(p->o.policy->ctx, &view, due->nodes);
        p->deciding = 0;
        back = back < due->nodes ? back : due->nodes;
        back = back < view.idle ? back : view.idle;
        if (back > 0)
            give_up(p, back, due->granted_at);
        assert(due->nodes >= back);
        due->nodes -= back;
        total.nodes += back;
        total.leases += due->nodes == 0;
        due->check_at = first_after(now, due->check_at, p->o.unit_ns);
        if (due->nodes == 0)
            remove_lease(p, 0);
        else
            settle(p, 0);
    }
    if (total.nodes == 0)
        return HTC_AGAIN;
    *order = total;
    return HTC_OK;
}

static size_t newest(const htc_provision *p)
{
    size_t best = 0;
    for (size_t i = 1; i < p->n; i++) {
        const chunk *a = &p->leases[i], *b = &p->leases[best];
        if (a->lease.granted_at != b->lease.granted_at ? a->lease.granted_at > b->lease.granted_at
                                                       : a->number > b->number)
            best = i;
    }
    return best;
}

htc_status htc_provision_lost(htc_provision *provision, htc_ns now, uint64_t nodes)
{
    htc_provision *p = provision;
    if (!now_ok(p, now) || nodes == 0 || nodes > p->owned)
        return HTC_EINVAL;
    clock_to(p, now);
    while (nodes > 0 && p->n > 0) {
        size_t               at = newest(p);
        htc_provision_lease *l = &p->leases[at].lease;
        uint64_t             gone = nodes < l->nodes ? nodes : l->nodes;
        give_up(p, gone, l->granted_at);
        assert(l->nodes >= gone);
        l->nodes -= gone;
        nodes -= gone;
        if (l->nodes == 0)
            remove_lease(p, at);
    }
    if (nodes > 0) {
        give_up(p, nodes, p->start);
        assert(p->initial >= nodes);
        p->initial -= nodes;
    }
    return HTC_OK;
}

htc_status htc_provision_adopt(htc_provision *provision, htc_ns now, const htc_provision_lease *lease)
{
    htc_provision *p = provision;
    if (!now_ok(p, now) || !lease || lease->nodes == 0 ||
        lease->nodes > HTC_PROVISION_NODES_MAX - p->owned - p->asked || lease->granted_at > now ||
        lease->check_at <= lease->granted_at || (lease->check_at - lease->granted_at) % p->o.unit_ns != 0)
        return HTC_EINVAL;
    htc_status status = room_for_lease(p);
    if (status != HTC_OK)
        return status;
    clock_to(p, now);
    p->held += (u128)lease->nodes * (now - lease->granted_at);
    take_over(p, *lease);
    return HTC_OK;
}

htc_status htc_provision_lease_at(const htc_provision *provision, size_t i, htc_provision_lease *lease)
{
    if (!provision || !lease)
        return HTC_EINVAL;
    if (i >= provision->n)
        return HTC_ENOTFOUND;
    *lease = provision->leases[i].lease;
    return HTC_OK;
}

/* ---- closing, and the sum ---- */

htc_status htc_provision_end(htc_provision *provision, htc_ns now, uint64_t *nodes)
{
    htc_provision *p = provision;
    if (!now_ok(p, now))
        return HTC_EINVAL;
    clock_to(p, now);
    if (nodes)
        *nodes = p->owned;
    for (size_t i = 0; i < p->n; i++)
        give_up(p, p->leases[i].lease.nodes, p->leases[i].lease.granted_at);
    if (p->initial > 0)
        give_up(p, p->initial, p->start);
    assert(p->owned == 0); /* the leases and the initial nodes are all there are */
    p->n = 0;
    p->initial = p->asked = 0;
    p->closed = 1;
    return HTC_OK;
}

static uint64_t at_most_64_bits(u128 x)
{
    return x > UINT64_MAX ? UINT64_MAX : (uint64_t)x;
}

htc_status htc_provision_usage_at(const htc_provision *provision, htc_ns now, htc_provision_usage *usage)
{
    const htc_provision *p = provision;
    if (!p || !usage || now < p->last || now == HTC_NEVER)
        return HTC_EINVAL;
    u128 charged = p->charged + (p->initial ? cost(p, p->initial, p->start, now) : 0);
    for (size_t i = 0; i < p->n; i++)
        charged += cost(p, p->leases[i].lease.nodes, p->leases[i].lease.granted_at, now);
    *usage = (htc_provision_usage){ .owned = p->owned,
                                    .initial = p->initial,
                                    .leases = p->n,
                                    .peak = p->peak,
                                    .node_units = at_most_64_bits(charged),
                                    .node_seconds =
                                        at_most_64_bits((p->held + (u128)p->owned * (now - p->last)) / HTC_SECOND),
                                    .granted = p->granted,
                                    .returned = p->returned,
                                    .requests = p->requests,
                                    .rejected = p->rejected,
                                    .rejected_in_row = p->rejected_in_row,
                                    .starved = p->rejected_in_row >= p->o.starved_after };
    return HTC_OK;
}

/* ---- a tape ---- */

/* Sums of 128 bits, and what has to be so of the others. */
static int is_possible(const htc_provision *p)
{
    u128 leased = p->initial;
    for (size_t i = 0; i < p->n; i++) {
        const htc_provision_lease *l = &p->leases[i].lease;
        if (l->nodes == 0 || l->granted_at > p->last || l->check_at <= l->granted_at || p->leases[i].number >= p->numbers ||
            (i > 0 && due_before(&p->leases[i], &p->leases[(i - 1) / 2])))
            return 0;
        leased += l->nodes;
    }
    return leased == p->owned && p->owned <= p->peak && p->peak <= HTC_PROVISION_NODES_MAX && p->asked <= HTC_PROVISION_NODES_MAX - p->owned &&
           p->start <= p->last && p->last != HTC_NEVER && p->closed <= 1 && !(p->closed && p->owned) && p->rejected <= p->requests &&
           p->rejected_in_row <= p->rejected;
}

htc_status htc_provision_tape(htc_provision *provision, const htc_tape *tape)
{
    htc_provision *p = provision;
    htc_status     status = p && !p->deciding ? htc__tape_check(tape) : HTC_EINVAL;
    if (status != HTC_OK)
        return status;
    const htc_provision_options *o = &p->o;
    uint64_t head[] = { sizeof *p, sizeof *p->leases, o->kind, o->scope, o->initial, o->ratio, o->scan_ns, o->phase_ns, o->unit_ns, o->leases_max, o->starved_after };
    uint64_t found[sizeof head / sizeof *head];
    memcpy(found, head, sizeof head);
    status = tape->move(tape->ctx, found, sizeof found);
    if (status == HTC_OK && memcmp(found, head, sizeof head) != 0)
        status = HTC_EFORMAT;
    uint64_t numbers[] = { p->start, p->last, p->scan_at, p->closed, p->initial, p->owned, p->peak, p->asked, p->numbers, p->granted, p->returned, p->requests,
                           p->rejected, p->rejected_in_row, p->n };
    u128     sums[] = { p->charged, p->held };
    if (status == HTC_OK)
        status = tape->move(tape->ctx, numbers, sizeof numbers);
    if (status == HTC_OK)
        status = tape->move(tape->ctx, sums, sizeof sums);
    if (status != HTC_OK)
        return status;
    uint64_t *const into[] = { &p->start, &p->last, &p->scan_at, NULL, &p->initial, &p->owned, &p->peak, &p->asked, &p->numbers, &p->granted, &p->returned,
                               &p->requests, &p->rejected, &p->rejected_in_row };
    for (size_t i = 0; i < sizeof into / sizeof *into; i++)
        if (into[i])
            *into[i] = numbers[i];
    p->closed = numbers[3] != 0;
    p->charged = sums[0];
    p->held = sums[1];
    p->leases = htc__tape_array(tape, p->env, p->leases, &p->cap, sizeof *p->leases, 2 * (size_t)o->leases_max + 16, &status);
    p->n = status == HTC_OK && numbers[14] <= p->cap ? (size_t)numbers[14] : 0;
    return status != HTC_OK ? status : p->n == numbers[14] && is_possible(p) ? HTC_OK : HTC_ECORRUPT;
}
