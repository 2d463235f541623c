/* What one worker's policy remembers: what has lately been done and moved, and tt. */
#include <assert.h>
#include <string.h>

#include "core/util.h"
#include "sched/locality/locality_private.h"

__extension__ typedef unsigned __int128 u128;

#define SHARE_MAX (UINT64_C(1) << 32)
#define HOUR      (3600 * HTC_SECOND)

/* Two sums over the window that runs and over the whole one before it. */
typedef struct meter {
    htc_ns   began;     /* the window that runs */
    htc_ns   before_ns; /* 0: there is no whole window yet */
    uint64_t before[2];
    uint64_t now[2];
} meter;

struct htc_locality {
    const htc_env             *env;
    const htc_locality_policy *policy;
    htc_locality_options       o; /* defaults filled in */
    htc_ns                     tt_ns;
    htc_ns                     last;    /* the latest time seen; HTC_NEVER: none yet */
    uint32_t                   tail;    /* 1: HTC_LOCALITY_TT_MOVE has begun */
    uint32_t                   asking;  /* 1: the policy is being asked; nothing changes meanwhile */
    uint32_t                   fresh;   /* 1: nobody has told the time since the policy was switched */
    meter                      done;    /* tasks */
    meter                      traffic; /* bytes needed, bytes moved */
};

static uint64_t sum(uint64_t a, uint64_t b)
{
    return a > UINT64_MAX - b ? UINT64_MAX : a + b;
}

static void meter_restart(meter *m, htc_ns now)
{
    *m = (meter){ .began = now };
}

static void meter_turn(meter *m, htc_ns now, htc_ns window)
{
    assert(now >= m->began);
    htc_ns passed = (now - m->began) / window;
    if (passed == 0)
        return;
    if (passed > 1) /* the last whole window had nothing in it */
        m->now[0] = m->now[1] = 0;
    memcpy(m->before, m->now, sizeof m->before);
    memset(m->now, 0, sizeof m->now);
    m->before_ns = window;
    m->began += passed * window;
}

static void meter_add(meter *m, uint64_t a, uint64_t b)
{
    m->now[0] = sum(m->now[0], a);
    m->now[1] = sum(m->now[1], b);
}

static int may_change(const htc_locality *l)
{
    return l && !l->asking;
}

/* HTC_EINVAL if time runs backwards. */
static htc_status clock_to(htc_locality *l, htc_ns now)
{
    if (!may_change(l) || now == HTC_NEVER || (l->last != HTC_NEVER && now < l->last))
        return HTC_EINVAL;
    if (l->last == HTC_NEVER)
        meter_restart(&l->done, now);
    if (l->last == HTC_NEVER || l->fresh)
        meter_restart(&l->traffic, now);
    l->fresh = 0;
    l->last = now;
    meter_turn(&l->done, now, l->o.window_ns);
    meter_turn(&l->traffic, now, l->o.window_ns);
    return HTC_OK;
}

void htc_locality_options_init(htc_locality_options *options, size_t size)
{
    htc__options_init(options, size);
}

static uint64_t or_default(uint64_t value, uint64_t by_default)
{
    return value ? value : by_default;
}

static htc_status read_options(const htc_locality_options *in, htc_locality_options *o)
{
    *o = (htc_locality_options)HTC_LOCALITY_OPTIONS_INIT;
    htc_status status = htc__options_copy(o, sizeof *o, in, in ? in->size : 0, sizeof o->size);
    if (status != HTC_OK)
        return status;
    if (!o->policy)
        o->policy = htc_locality_builtin(HTC_LOCALITY_FLDS);
    o->bytes_per_s = or_default(o->bytes_per_s, 125000000);
    o->ratio = or_default(o->ratio, HTC_LOCALITY_ONE / 2);
    o->tt_ns = or_default(o->tt_ns, (o->tt_rule == HTC_LOCALITY_TT_MOVE ? 20 : 10) * HTC_SECOND);
    o->tt_ns_min = or_default(o->tt_ns_min, o->tt_ns < 10 * HTC_MS ? o->tt_ns : 10 * HTC_MS);
    o->tt_ns_max = or_default(o->tt_ns_max, o->tt_ns > HOUR ? o->tt_ns : HOUR);
    o->tt_ns_small = or_default(o->tt_ns_small, HTC_SECOND);
    o->window_ns = or_default(o->window_ns, 10 * HTC_SECOND);
    o->tail = or_default(o->tail, HTC_LOCALITY_ONE * 8 / 10);
    o->traffic_low = or_default(o->traffic_low, HTC_LOCALITY_ONE / 100);
    o->traffic_high = or_default(o->traffic_high, HTC_LOCALITY_ONE * 8 / 10);
    if (o->tt_rule > HTC_LOCALITY_TT_MOVE || o->tt_ns == HTC_NEVER || o->tt_ns_min > o->tt_ns ||
        o->tt_ns > o->tt_ns_max || o->tail > HTC_LOCALITY_ONE || o->traffic_low >= o->traffic_high ||
        o->traffic_high > SHARE_MAX)
        return HTC_EINVAL;
    return htc__locality_check(o->policy);
}

htc_status htc_locality_create(const htc_env *env, const htc_locality_options *options, htc_locality **out)
{
    htc_locality_options o;
    htc_status           status = out ? read_options(options, &o) : HTC_EINVAL;
    if (status != HTC_OK)
        return status;
    htc_locality *l = htc__alloc(env, sizeof *l);
    if (!l)
        return HTC_ENOMEM;
    l->env = env;
    l->policy = o.policy;
    l->o = o;
    l->tt_ns = o.tt_ns;
    l->last = HTC_NEVER;
    *out = l;
    return HTC_OK;
}

void htc_locality_destroy(htc_locality *locality)
{
    if (may_change(locality))
        htc__free(locality->env, locality, sizeof *locality);
}

static htc_locality_view view_of(const htc_locality *l)
{
    return (htc_locality_view){ .size = sizeof(htc_locality_view),
                                .self = l->o.self,
                                .ratio = l->o.ratio,
                                .bytes_per_s = l->o.bytes_per_s,
                                .tt_ns = htc_locality_tt(l) };
}

htc_status htc_locality_place_task(htc_locality *locality, const htc_locality_task *task, htc_locality_place *out)
{
    htc_locality_place place = { 0 };
    if (!may_change(locality) || !task || !out)
        return HTC_EINVAL;
    htc_locality_view view = view_of(locality);
    locality->asking = 1;
    htc_status status = locality->policy->place(locality->policy->ctx, &view, task, &place);
    locality->asking = 0;
    if (status == HTC_OK && place.queue > HTC_LOCALITY_PUSH)
        status = HTC_EINTERNAL;
    if (status == HTC_OK)
        *out = place;
    return status;
}

htc_status htc_locality_finished(htc_locality *locality, htc_ns now, uint64_t needed_bytes, uint64_t moved_bytes)
{
    if (moved_bytes > needed_bytes)
        return HTC_EINVAL;
    htc_status status = clock_to(locality, now);
    if (status != HTC_OK)
        return status;
    meter_add(&locality->done, 1, 0);
    meter_add(&locality->traffic, needed_bytes, moved_bytes);
    return HTC_OK;
}

static void tt_double(htc_locality *l)
{
    l->tt_ns = l->tt_ns > l->o.tt_ns_max / 2 ? l->o.tt_ns_max : l->tt_ns * 2;
    assert(l->tt_ns >= l->o.tt_ns_min && l->tt_ns <= l->o.tt_ns_max);
}

static void tt_halve(htc_locality *l)
{
    l->tt_ns = l->tt_ns / 2 < l->o.tt_ns_min ? l->o.tt_ns_min : l->tt_ns / 2;
    assert(l->tt_ns >= l->o.tt_ns_min && l->tt_ns <= l->o.tt_ns_max);
}

/* Under the others tt decides nothing, so nothing can be learned about it. */
static int tt_counts(const htc_locality *l)
{
    return l->policy->rule == HTC_LOCALITY_FLDS;
}

htc_status htc_locality_move(htc_locality *locality, htc_ns now, uint64_t waiting, uint64_t *move)
{
    htc_status status = move ? clock_to(locality, now) : HTC_EINVAL;
    if (status != HTC_OK)
        return status;
    const htc_locality_policy *p = locality->policy;
    if (waiting == 0)
        meter_restart(&locality->done, now);
    htc_locality_view view = view_of(locality);
    view.waiting = waiting;
    view.done = sum(locality->done.before[0], locality->done.now[0]);
    view.in_ns = locality->done.before_ns + (now - locality->done.began);
    locality->asking = 1;
    uint64_t n = p->move && waiting ? p->move(p->ctx, &view) : 0;
    locality->asking = 0;
    if (n > 0 && tt_counts(locality) && locality->o.tt_rule == HTC_LOCALITY_TT_STEAL)
        tt_double(locality);
    if (n > 0 && tt_counts(locality) && locality->o.tt_rule == HTC_LOCALITY_TT_MOVE)
        tt_halve(locality);
    *move = n < waiting ? n : waiting;
    return HTC_OK;
}

htc_status htc_locality_steal_failed(htc_locality *locality)
{
    if (!may_change(locality))
        return HTC_EINVAL;
    if (locality->o.tt_rule != HTC_LOCALITY_TT_STEAL || !tt_counts(locality))
        return HTC_OK;
    htc_ns was = locality->tt_ns;
    tt_halve(locality);
    return was > locality->o.tt_ns_small && locality->tt_ns <= locality->o.tt_ns_small ? HTC_AGAIN : HTC_OK;
}

htc_status htc_locality_progress(htc_locality *locality, uint64_t done, uint64_t all)
{
    if (!may_change(locality) || done > all)
        return HTC_EINVAL;
    if (all > 0 && (u128)done * HTC_LOCALITY_ONE >= (u128)all * locality->o.tail)
        locality->tail = 1;
    return HTC_OK;
}

htc_status htc_locality_switch(htc_locality *locality, const htc_locality_policy *policy)
{
    htc_status status = may_change(locality) ? htc__locality_check(policy) : HTC_EINVAL;
    if (status != HTC_OK)
        return status;
    locality->policy = policy;
    locality->fresh = 1;
    return HTC_OK;
}

htc_status htc_locality_advise(htc_locality *locality, htc_ns now, const htc_locality_policy **better)
{
    htc_status status = better ? clock_to(locality, now) : HTC_EINVAL;
    if (status != HTC_OK)
        return status;
    const htc_locality_traffic traffic = { locality->traffic.before[0], locality->traffic.before[1],
                                           locality->traffic.before_ns };
    uint32_t                   rule = htc_locality_advised(locality->policy->rule, &traffic, locality->o.bytes_per_s,
                                                           locality->o.traffic_low, locality->o.traffic_high);
    if (rule == locality->policy->rule)
        return HTC_AGAIN;
    *better = htc_locality_builtin(rule);
    return HTC_OK;
}

const htc_locality_policy *htc_locality_in_force(const htc_locality *locality)
{
    return locality ? locality->policy : NULL;
}

htc_ns htc_locality_tt(const htc_locality *locality)
{
    if (!locality || (locality->o.tt_rule == HTC_LOCALITY_TT_MOVE && !locality->tail))
        return HTC_NEVER;
    return locality->tt_ns;
}

/* ---- a tape ---- */

static int is_meter(const htc_locality *l, const meter *m)
{
    return (m->before_ns == 0 || m->before_ns == l->o.window_ns) && (l->last == HTC_NEVER || m->began <= l->last);
}

htc_status htc_locality_tape(htc_locality *locality, const htc_tape *tape)
{
    htc_locality *l = locality;
    htc_status    status = may_change(l) ? htc__tape_check(tape) : HTC_EINVAL;
    if (status != HTC_OK)
        return status;
    const htc_locality_options *o = &l->o;
    uint64_t head[] = { sizeof *l, l->policy->rule, o->self, o->tt_rule, o->bytes_per_s, o->ratio, o->tt_ns, o->tt_ns_min, o->tt_ns_max, o->tt_ns_small, o->window_ns, o->tail,
                        o->traffic_low, o->traffic_high }, found[sizeof head / sizeof *head];
    memcpy(found, head, sizeof head);
    status = tape->move(tape->ctx, found, sizeof found);
    if (status == HTC_OK && memcmp(found, head, sizeof head) != 0)
        status = HTC_EFORMAT;
    uint64_t numbers[] = { l->tt_ns, l->last, l->tail, l->fresh };
    if (status == HTC_OK)
        status = tape->move(tape->ctx, numbers, sizeof numbers);
    if (status == HTC_OK)
        status = tape->move(tape->ctx, &l->done, sizeof l->done);
    if (status == HTC_OK)
        status = tape->move(tape->ctx, &l->traffic, sizeof l->traffic);
    if (status != HTC_OK)
        return status;
    l->tt_ns = numbers[0];
    l->last = numbers[1];
    l->tail = numbers[2] != 0;
    l->fresh = numbers[3] != 0;
    return l->tt_ns >= o->tt_ns_min && l->tt_ns <= o->tt_ns_max && is_meter(l, &l->done) && is_meter(l, &l->traffic) ? HTC_OK : HTC_ECORRUPT;
}
