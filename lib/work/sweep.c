/* The functions of a sweep: how many values, and value k by arithmetic, never by counting up to it. */
#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "work/work_private.h"

htc_status htc__integer_steps(int64_t start, int64_t end, int64_t step, uint64_t *steps)
{
    if (step > 0 ? start > end : start < end) {
        *steps = 0;
        return HTC_OK;
    }
    uint64_t span = step > 0 ? (uint64_t)end - (uint64_t)start : (uint64_t)start - (uint64_t)end;
    uint64_t stride = step > 0 ? (uint64_t)step : 0 - (uint64_t)step;
    uint64_t last = span / stride;
    if (last == UINT64_MAX)
        return HTC_ETOOBIG;
    *steps = last + 1;
    return HTC_OK;
}

/* Spec 5.3: the last k is the largest with start + k*step <= end + 1e-9*|step| (>= and minus when counting down). */
static int within(double start, double end, double step, double k)
{
    double slack = 1e-9 * fabs(step), v = start + k * step;
    return step > 0 ? v <= end + slack : v >= end - slack;
}

htc_status htc__double_steps(double start, double end, double step, uint64_t *steps)
{
    *steps = 0;
    if (!within(start, end, step, 0))
        return HTC_OK;
    double k = floor((end - start) / step + 1e-9);
    /* Beyond 2^53 neighbouring k are one number, so "value k" would mean nothing. */
    if (!(k < 9007199254740992.0))
        return HTC_ETOOBIG;
    if (k < 0)
        k = 0;
    while (k > 0 && !within(start, end, step, k))
        k--;
    while (within(start, end, step, k + 1) && k + 1 < 9007199254740992.0 && start + (k + 1) * step != start + k * step)
        k++;
    *steps = (uint64_t)k + 1;
    return HTC_OK;
}

uint64_t htc__function_count(const htc__function *f)
{
    if (f->kind == HTC__FUNCTION_VALUES)
        return f->n_values;
    if (f->kind == HTC__FUNCTION_PAIRS)
        return f->n_values % 2 ? f->n_values * ((f->n_values - 1) / 2) : f->n_values / 2 * (f->n_values - 1);
    return f->raw - f->n_exceptions;
}

/* exceptions[m] - m steps before exception m are kept, and that never falls: the first m whose number exceeds k says
 * how many exceptions lie before value k. */
uint64_t htc__function_step(const htc__function *f, uint64_t k)
{
    size_t low = 0, high = f->n_exceptions;
    while (low < high) {
        size_t mid = low + (high - low) / 2;
        if (f->exceptions[mid] - mid <= k)
            low = mid + 1;
        else
            high = mid;
    }
    return k + low;
}

/* Pairs whose first member is below i: i*(n-1) - i*(i-1)/2. */
static uint64_t pairs_before(uint64_t n, uint64_t i)
{
    return i == 0 ? 0 : i * (n - 1) - (i % 2 ? i * ((i - 1) / 2) : i / 2 * (i - 1));
}

void htc__pair_at(uint64_t n, uint64_t k, uint64_t *i, uint64_t *j)
{
    uint64_t low = 0, high = n - 1; /* the last i with pairs_before(i) <= k is in [low, high) */
    while (high - low > 1) {
        uint64_t mid = low + (high - low) / 2;
        if (pairs_before(n, mid) <= k)
            low = mid;
        else
            high = mid;
    }
    *i = low;
    *j = low + 1 + (k - pairs_before(n, low));
}

static void put_integer(htc_buf *out, int64_t v, uint32_t width)
{
    uint64_t positive = v < 0 ? 0 - (uint64_t)v : (uint64_t)v;
    htc_put_text(out, "%s%0*" PRIu64, v < 0 ? "-" : "", width ? (int)width : 1, positive);
}

void htc__function_value(const htc__function *f, uint64_t k, uint32_t which, htc_buf *out)
{
    char     text[HTC__DOUBLE_TEXT_MAX];
    uint64_t pair[2];
    switch ((htc__function_kind)f->kind) {
    case HTC__FUNCTION_VALUES:
        htc_put_raw(out, f->values[k]);
        break;
    case HTC__FUNCTION_PAIRS:
        htc__pair_at(f->n_values, k, &pair[0], &pair[1]);
        htc_put_raw(out, f->values[pair[which ? 1 : 0]]);
        break;
    case HTC__FUNCTION_INTEGER:
        put_integer(out, (int64_t)((uint64_t)f->start + htc__function_step(f, k) * (uint64_t)f->step), f->width);
        break;
    case HTC__FUNCTION_DOUBLE:
        htc__double_step_text(f->start_real, f->step_real, htc__function_step(f, k), text);
        htc_put_raw(out, htc_bytes_of(text));
        break;
    }
}
