/* Weights from job profiles (the specification of fair shares, 3.8). */
#include <math.h>
#include <stdlib.h>

#include "allot_private.h"
#include "core/util.h"

static int ascending(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return x < y ? -1 : x > y;
}

double htc__allot_median(double *amounts, size_t n)
{
    if (n == 0)
        return 0;
    qsort(amounts, n, sizeof *amounts, ascending);
    return n % 2 ? amounts[n / 2] : (amounts[n / 2 - 1] + amounts[n / 2]) / 2;
}

double htc__allot_factor(double amount, double typical, double gamma)
{
    double factor = amount > 0 && isfinite(amount) && typical > 0 ? pow(amount / typical, gamma) : 1;
    if (factor < 1 / HTC__ALLOT_FACTOR_MAX)
        return 1 / HTC__ALLOT_FACTOR_MAX;
    return factor > HTC__ALLOT_FACTOR_MAX ? HTC__ALLOT_FACTOR_MAX : factor;
}

htc_status htc_allot_profiled(const htc_env *env, const uint64_t *priority, const double *work, size_t n, double gamma,
                              uint64_t *weight)
{
    size_t known = 0;
    if ((n && (!priority || !work || !weight)) || n > HTC_ALLOT_USERS_MAX || !(gamma >= -1 && gamma <= 1))
        return HTC_EINVAL;
    for (size_t i = 0; i < n; i++)
        if (priority[i] < 1 || priority[i] > UINT64_C(1) << 32)
            return HTC_EINVAL;
    double *sorted = htc__alloc(env, n * sizeof *sorted);
    if (!sorted)
        return HTC_ENOMEM;
    for (size_t i = 0; i < n; i++)
        if (work[i] > 0 && isfinite(work[i]))
            sorted[known++] = work[i];
    double middle = htc__allot_median(sorted, known);
    htc__free(env, sorted, n * sizeof *sorted);
    for (size_t i = 0; i < n; i++)
        weight[i] = htc_allot_weight((double)priority[i] * htc__allot_factor(work[i], middle, gamma));
    return HTC_OK;
}
