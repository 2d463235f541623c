/* Weights from job profiles (the specification of fair shares, 3.8). */
#include <math.h>

#include "sched/allot/allot_private.h"
#include "core/util.h"

/* The item at position at sinks until no child is larger. */
static void sink(double *heap, size_t n, size_t at)
{
    double sinking = heap[at];
    for (size_t child; (child = 2 * at + 1) < n; at = child) {
        if (child + 1 < n && heap[child + 1] > heap[child])
            child++;
        if (heap[child] <= sinking)
            break;
        heap[at] = heap[child];
    }
    heap[at] = sinking;
}

/* Heapsort, as far as the upper half: the C library's qsort takes memory of its own. */
static void sort_upper_half(double *amounts, size_t n)
{
    for (size_t at = n / 2; at-- > 0;)
        sink(amounts, n, at);
    for (size_t left = n; left > n / 2; left--) {
        double largest = amounts[0];
        amounts[0] = amounts[left - 1];
        amounts[left - 1] = largest;
        sink(amounts, left - 1, 0);
    }
}

/* Of two numbers whose sum may not be one. */
static double mean(double a, double b)
{
    return isfinite(a + b) ? (a + b) / 2 : a / 2 + b / 2;
}

/* With the upper half in place, the largest of the lower half is on top of what is left of the heap. */
double htc__allot_median(double *amounts, size_t n)
{
    if (n == 0)
        return 0;
    sort_upper_half(amounts, n);
    return n % 2 ? amounts[n / 2] : mean(amounts[0], amounts[n / 2]);
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
