/* Weights from job profiles (the specification of fair shares, 3.8). */
#include <math.h>
#include <stdlib.h>

#include "core/util.h"
#include "htcsched/allot.h"

#define FACTOR_MAX 8.0

static int ascending(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return x < y ? -1 : x > y;
}

/* Of an even number the mean of the two in the middle. */
static double median(const double *sorted, size_t n)
{
    return n % 2 ? sorted[n / 2] : (sorted[n / 2 - 1] + sorted[n / 2]) / 2;
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
    qsort(sorted, known, sizeof *sorted, ascending);
    double middle = known ? median(sorted, known) : 0;
    htc__free(env, sorted, n * sizeof *sorted);
    for (size_t i = 0; i < n; i++) {
        double factor = work[i] > 0 && isfinite(work[i]) && middle > 0 ? pow(work[i] / middle, gamma) : 1;
        factor = factor < 1 / FACTOR_MAX ? 1 / FACTOR_MAX : factor > FACTOR_MAX ? FACTOR_MAX : factor;
        weight[i] = htc_allot_weight((double)priority[i] * factor);
    }
    return HTC_OK;
}
