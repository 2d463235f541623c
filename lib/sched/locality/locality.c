/* Algorithm 3, the moving rule of FLDS, and the four policies made of them. */
#include "htcsched/locality.h"

#include "core/util.h"
#include "sched/locality/locality_private.h"

__extension__ typedef unsigned __int128 u128;

#define NS_PER_S  1000000000u
#define SHARE_MAX (UINT64_C(1) << 32)

/* bytes / bytes_per_s <= share * ns, both sides in nanoseconds and millionths: x / b <= m if and only if ceil(x / b) <=
 * m, as m is a whole number. The largest value is 2^64 * 10^15, which has 114 bits. */
static int moves_within(uint64_t bytes, uint64_t bytes_per_s, htc_ns ns, uint64_t share)
{
    u128 work = (u128)bytes * NS_PER_S * HTC_LOCALITY_ONE;
    return work / bytes_per_s + (work % bytes_per_s != 0) <= (u128)share * ns;
}

/* The largest input, of equals one that self has, then the first; *all is the sum. 0 if the sum has more than 64 bits.
 */
static int weigh(const htc_locality_task *task, uint32_t self, const htc_locality_input **largest, uint64_t *all,
                 uint64_t *own)
{
    *largest = NULL;
    *all = *own = 0;
    for (size_t i = 0; i < task->inputs_n; i++) {
        const htc_locality_input *in = &task->inputs[i], *l = *largest;
        if (in->bytes > UINT64_MAX - *all)
            return 0;
        *all += in->bytes;
        *own += in->worker == self ? in->bytes : 0;
        if (!l || in->bytes > l->bytes || (in->bytes == l->bytes && in->worker == self && l->worker != self))
            *largest = in;
    }
    return 1;
}

static uint64_t bytes_at(const htc_locality_task *task, uint32_t worker)
{
    uint64_t bytes = 0;
    for (size_t i = 0; i < task->inputs_n; i++)
        bytes += task->inputs[i].worker == worker ? task->inputs[i].bytes : 0;
    return bytes;
}

htc_status htc_locality_decide(uint64_t ratio, uint64_t bytes_per_s, uint32_t self, const htc_locality_task *task,
                               htc_locality_place *out)
{
    const htc_locality_input *p;
    uint64_t                  all, own;
    if (!task || !out || bytes_per_s == 0 || task->inputs_n > HTC_LOCALITY_INPUTS_MAX ||
        (task->inputs_n && !task->inputs) || !weigh(task, self, &p, &all, &own))
        return HTC_EINVAL;
    if (ratio == HTC_LOCALITY_ALWAYS || moves_within(all, bytes_per_s, task->est_ns, ratio) ||
        moves_within(p->bytes, bytes_per_s, task->est_ns, ratio))
        *out = (htc_locality_place){ HTC_LOCALITY_SHARED, self, all - own };
    else if (p->worker == self)
        *out = (htc_locality_place){ HTC_LOCALITY_LOCAL, self, all - own };
    else
        *out = (htc_locality_place){ HTC_LOCALITY_PUSH, p->worker, all - bytes_at(task, p->worker) };
    return HTC_OK;
}

uint64_t htc_locality_excess(uint64_t waiting, uint64_t done, htc_ns in_ns, htc_ns tt_ns)
{
    if (in_ns == 0 || tt_ns == HTC_NEVER)
        return 0;
    u128 stay = (u128)tt_ns * (done ? done : 1) / in_ns;
    return stay >= waiting ? 0 : waiting - (uint64_t)stay;
}

uint32_t htc_locality_advised(uint32_t rule, const htc_locality_traffic *traffic, uint64_t bytes_per_s, uint64_t low,
                              uint64_t high)
{
    if (!traffic || traffic->in_ns == 0 || bytes_per_s == 0 || traffic->moved_bytes > traffic->needed_bytes ||
        low >= high || high > SHARE_MAX || rule > HTC_LOCALITY_MLB)
        return rule;
    if (moves_within(traffic->needed_bytes, bytes_per_s, traffic->in_ns, rule == HTC_LOCALITY_MLB ? 2 * low : low))
        return HTC_LOCALITY_MLB;
    uint64_t judged = rule == HTC_LOCALITY_MDL ? traffic->needed_bytes : traffic->moved_bytes;
    return moves_within(judged, bytes_per_s, traffic->in_ns, high) ? HTC_LOCALITY_FLDS : HTC_LOCALITY_MDL;
}

/* ---- the policies ---- */

static htc_status place_never_far(void *ctx, const htc_locality_view *view, const htc_locality_task *task,
                                  htc_locality_place *out)
{
    (void)ctx;
    return htc_locality_decide(0, view->bytes_per_s, view->self, task, out);
}

static htc_status place_anywhere(void *ctx, const htc_locality_view *view, const htc_locality_task *task,
                                 htc_locality_place *out)
{
    (void)ctx;
    return htc_locality_decide(HTC_LOCALITY_ALWAYS, view->bytes_per_s, view->self, task, out);
}

static htc_status place_by_ratio(void *ctx, const htc_locality_view *view, const htc_locality_task *task,
                                 htc_locality_place *out)
{
    (void)ctx;
    return htc_locality_decide(view->ratio, view->bytes_per_s, view->self, task, out);
}

static uint64_t move_excess(void *ctx, const htc_locality_view *view)
{
    (void)ctx;
    return htc_locality_excess(view->waiting, view->done, view->in_ns, view->tt_ns);
}

/* What others pushed, or an earlier policy bound. */
static uint64_t move_all(void *ctx, const htc_locality_view *view)
{
    (void)ctx;
    return view->waiting;
}

static const htc_locality_policy policies[] = {
    { sizeof(htc_locality_policy), "flds", NULL, HTC_LOCALITY_FLDS, place_by_ratio, move_excess },
    { sizeof(htc_locality_policy), "rlds", NULL, HTC_LOCALITY_RLDS, place_by_ratio, NULL },
    { sizeof(htc_locality_policy), "mdl", NULL, HTC_LOCALITY_MDL, place_never_far, NULL },
    { sizeof(htc_locality_policy), "mlb", NULL, HTC_LOCALITY_MLB, place_anywhere, move_all },
};

const htc__builtin htc__locality_builtin[] = {
    { HTC_REGISTRY_LOCALITY, "flds", &policies[HTC_LOCALITY_FLDS] },
    { HTC_REGISTRY_LOCALITY, "rlds", &policies[HTC_LOCALITY_RLDS] },
    { HTC_REGISTRY_LOCALITY, "mdl", &policies[HTC_LOCALITY_MDL] },
    { HTC_REGISTRY_LOCALITY, "mlb", &policies[HTC_LOCALITY_MLB] },
    { 0 },
};

const htc_locality_policy *htc_locality_builtin(uint32_t rule)
{
    return rule <= HTC_LOCALITY_MLB ? &policies[rule] : NULL;
}

htc_status htc__locality_check(const htc_locality_policy *policy)
{
    htc_locality_policy known;
    if (!policy)
        return HTC_EINVAL;
    htc_status status = htc__options_copy(&known, sizeof known, policy, policy->size, sizeof known);
    return status != HTC_OK ? status : known.place && known.rule <= HTC_LOCALITY_MLB ? HTC_OK : HTC_EINVAL;
}

htc_status htc_locality_register(htc_registry *registry, const htc_locality_policy *policy)
{
    htc_status status = htc__locality_check(policy);
    return status != HTC_OK ? status : htc_registry_add(registry, HTC_REGISTRY_LOCALITY, policy->name, policy);
}

htc_status htc_locality_find(const htc_registry *registry, const char *name, const htc_locality_policy **policy)
{
    const void *found;
    if (!policy)
        return HTC_EINVAL;
    htc_status status = htc_registry_find(registry, HTC_REGISTRY_LOCALITY, name, &found);
    if (status == HTC_OK)
        *policy = found;
    return status;
}
