/* What weights are made of: the weighers that the library brings, and how any of them is used. */
#include <float.h>
#include <math.h>

#include "sched/allot/allot_private.h"
#include "core/util.h"

#define HALF_LIFE_NS (UINT64_C(7) * 24 * 3600 * HTC_SECOND)

void htc_allot_weighing_init(htc_allot_weighing *how)
{
    if (how)
        *how = (htc_allot_weighing)HTC_ALLOT_WEIGHING_INIT;
}

/* ---- past usage and run times ---- */

double htc_allot_usage_now(const htc_allot_usage *usage, htc_ns now, htc_ns half_life_ns)
{
    if (!usage || !(usage->slot_s > 0) || !isfinite(usage->slot_s))
        return 0;
    double passed = now > usage->at ? (double)(now - usage->at) : 0;
    return usage->slot_s * exp2(-passed / (double)(half_life_ns ? half_life_ns : HALF_LIFE_NS));
}

htc_status htc_allot_usage_add(htc_allot_usage *usage, double slot_s, htc_ns now, htc_ns half_life_ns)
{
    if (!usage || !(slot_s >= 0) || !isfinite(slot_s))
        return HTC_EINVAL;
    double sum = htc_allot_usage_now(usage, now, half_life_ns) + slot_s;
    *usage = (htc_allot_usage){ isfinite(sum) ? sum : DBL_MAX, now > usage->at ? now : usage->at };
    return HTC_OK;
}

htc_status htc_allot_profile_add(htc_allot_profile *profile, double run_s)
{
    const double share = 0.2;
    if (!profile || !(run_s >= 0) || !isfinite(run_s))
        return HTC_EINVAL;
    double distance = profile->count ? run_s - profile->mean_s : 0;
    profile->mean_s = profile->count ? profile->mean_s + share * distance : run_s;
    double variance = (1 - share) * (profile->variance + share * distance * distance);
    profile->variance = isfinite(variance) ? variance : DBL_MAX;
    profile->max_s = run_s > profile->max_s ? run_s : profile->max_s;
    profile->count++;
    return HTC_OK;
}

/* ---- the weighers ---- */

static double priority_of(const htc_allot_facts *user)
{
    return user->priority ? (double)user->priority : 1;
}

static double weigh_equal(void *ctx, const htc_allot_facts *user, double amount, double typical,
                          const htc_allot_weighing *how)
{
    (void)user, (void)amount, (void)typical, (void)how, (void)ctx;
    return 1;
}

static double weigh_priority(void *ctx, const htc_allot_facts *user, double amount, double typical,
                             const htc_allot_weighing *how)
{
    (void)amount, (void)typical, (void)how, (void)ctx;
    return priority_of(user);
}

static double weigh_tasks(void *ctx, const htc_allot_facts *user, double amount, double typical,
                          const htc_allot_weighing *how)
{
    (void)ctx;
    return priority_of(user) * htc__allot_factor(amount, typical, how->gamma != 0 ? how->gamma : 1);
}

static double weigh_run_time(void *ctx, const htc_allot_facts *user, double amount, double typical,
                             const htc_allot_weighing *how)
{
    (void)ctx;
    return priority_of(user) * htc__allot_factor(amount, typical, how->gamma != 0 ? how->gamma : -0.5);
}

static double amount_of_tasks(void *ctx, const htc_allot_facts *user, const htc_allot_weighing *how)
{
    (void)how, (void)ctx;
    return (double)user->tasks;
}

static double amount_of_run_time(void *ctx, const htc_allot_facts *user, const htc_allot_weighing *how)
{
    (void)how, (void)ctx;
    return user->profile.count ? (double)user->tasks * user->profile.mean_s : 0;
}

static double amount_of_usage(void *ctx, const htc_allot_facts *user, const htc_allot_weighing *how)
{
    (void)ctx;
    return htc_allot_usage_now(&user->usage, how->now, how->half_life_ns);
}

/* By shares: who has three times the shares may have used three times as much. */
static double amount_of_fair_share(void *ctx, const htc_allot_facts *user, const htc_allot_weighing *how)
{
    return amount_of_usage(ctx, user, how) / priority_of(user);
}

/* A user that used nothing is known to have used nothing, and comes first. */
static double weigh_usage(void *ctx, const htc_allot_facts *user, double amount, double typical,
                          const htc_allot_weighing *how)
{
    double factor = typical > 0 ? exp2(1 - amount / typical) : 1;
    (void)how, (void)ctx;
    return priority_of(user) * (factor > 1 / HTC__ALLOT_FACTOR_MAX ? factor : 1 / HTC__ALLOT_FACTOR_MAX);
}

static const htc_allot_weigher weighers[] = {
    { sizeof(htc_allot_weigher), "equal", NULL, NULL, weigh_equal },
    { sizeof(htc_allot_weigher), "priority", NULL, NULL, weigh_priority },
    { sizeof(htc_allot_weigher), "tasks", NULL, amount_of_tasks, weigh_tasks },
    { sizeof(htc_allot_weigher), "run-time", NULL, amount_of_run_time, weigh_run_time },
    { sizeof(htc_allot_weigher), "usage", NULL, amount_of_usage, weigh_usage },
    { sizeof(htc_allot_weigher), "fair-share", NULL, amount_of_fair_share, weigh_usage },
};

const htc__builtin htc__allot_builtin[] = {
    { HTC_REGISTRY_WEIGHT, "equal", &weighers[0] }, { HTC_REGISTRY_WEIGHT, "priority", &weighers[1] },
    { HTC_REGISTRY_WEIGHT, "tasks", &weighers[2] }, { HTC_REGISTRY_WEIGHT, "run-time", &weighers[3] },
    { HTC_REGISTRY_WEIGHT, "usage", &weighers[4] }, { HTC_REGISTRY_WEIGHT, "fair-share", &weighers[5] }, { 0, NULL, NULL },
};

/* ---- by name ---- */

static htc_status copy_weigher(htc_allot_weigher *out, const htc_allot_weigher *in)
{
    *out = (htc_allot_weigher){ .size = sizeof *out };
    htc_status status = in ? htc__options_copy(out, sizeof *out, in, in->size, sizeof in->size) : HTC_EINVAL;
    return status == HTC_OK && !out->weight ? HTC_EINVAL : status;
}

htc_status htc_allot_register(htc_registry *registry, const htc_allot_weigher *weigher)
{
    htc_allot_weigher w;
    htc_status        status = copy_weigher(&w, weigher);
    return status == HTC_OK ? htc_registry_add(registry, HTC_REGISTRY_WEIGHT, w.name, weigher) : status;
}

htc_status htc_allot_find(const htc_registry *registry, const char *name, const htc_allot_weigher **weigher)
{
    const void *found;
    htc_status  status = weigher ? htc_registry_find(registry, HTC_REGISTRY_WEIGHT, name, &found) : HTC_EINVAL;
    if (status == HTC_OK)
        *weigher = found;
    return status;
}

/* ---- use ---- */

typedef struct scale {
    htc_allot_weigher  weigher;
    htc_allot_weighing how;
} scale;

static htc_status open_scale(scale *s, const htc_allot_weigher *weigher, const htc_allot_weighing *how)
{
    htc_status status = copy_weigher(&s->weigher, weigher);
    s->how = (htc_allot_weighing)HTC_ALLOT_WEIGHING_INIT;
    if (status == HTC_OK)
        status = htc__options_copy(&s->how, sizeof s->how, how, how ? how->size : 0, sizeof how->size);
    return status == HTC_OK && !(s->how.gamma >= -1 && s->how.gamma <= 1) ? HTC_EINVAL : status;
}

static double amount_of(const scale *s, const htc_allot_facts *user)
{
    double amount = s->weigher.amount ? s->weigher.amount(s->weigher.ctx, user, &s->how) : 0;
    return amount > 0 && isfinite(amount) ? amount : 0;
}

static uint64_t weight_of(const scale *s, const htc_allot_facts *user, double typical)
{
    return htc_allot_weight(s->weigher.weight(s->weigher.ctx, user, amount_of(s, user), typical, &s->how));
}

static int is_valid(const htc_allot_facts *user)
{
    return user->priority <= UINT64_C(1) << 32;
}

htc_status htc_allot_weigh(const htc_env *env, const htc_allot_weigher *weigher, const htc_allot_weighing *how,
                           const htc_allot_facts *users, size_t n, uint64_t *weights, double *typical)
{
    scale      s;
    size_t     known = 0;
    htc_status status = open_scale(&s, weigher, how);
    if (status == HTC_OK && ((n && (!users || !weights)) || n > HTC_ALLOT_USERS_MAX))
        status = HTC_EINVAL;
    for (size_t i = 0; status == HTC_OK && i < n; i++)
        if (!is_valid(&users[i]))
            status = HTC_EINVAL;
    if (status != HTC_OK)
        return status;
    double *amounts = n ? htc__alloc(env, n * sizeof *amounts) : NULL;
    if (n && !amounts)
        return HTC_ENOMEM;
    for (size_t i = 0; i < n; i++)
        if ((amounts[known] = amount_of(&s, &users[i])) > 0)
            known++;
    double middle = htc__allot_median(amounts, known);
    htc__free(env, amounts, n * sizeof *amounts);
    for (size_t i = 0; i < n; i++)
        weights[i] = weight_of(&s, &users[i], middle);
    if (typical)
        *typical = middle;
    return HTC_OK;
}

htc_status htc_allot_weigh_one(const htc_allot_weigher *weigher, const htc_allot_weighing *how,
                               const htc_allot_facts *user, double typical, uint64_t *weight)
{
    scale      s;
    htc_status status = open_scale(&s, weigher, how);
    if (status == HTC_OK && (!user || !weight || !is_valid(user) || !(typical >= 0) || !isfinite(typical)))
        status = HTC_EINVAL;
    if (status == HTC_OK)
        *weight = weight_of(&s, user, typical);
    return status;
}
