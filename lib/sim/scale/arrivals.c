/* When things come: gaps of a law, in bursts, and faster by day than by night. A day is a time that runs unevenly: gaps are drawn in a time in which arrivals are
 * even, and their ends are put where that time is then. */
#include "core/util.h"
#include "sim/scale/draw.h"
#include "sim/scale/scale_private.h"

#if defined(__clang__)
#pragma STDC FP_CONTRACT OFF /* gcc with -std=c11 does not contract */
#endif

#define BURSTS UINT64_C(0x6275727374) /* beside the stream of the gaps */
#define REACH  4e15                   /* ticks that doubles still tell apart */

static htc_status read_arrivals(htc_scale_arrivals *a, const htc_scale_arrivals *in)
{
    htc_status status = in ? htc__options_copy(a, sizeof *a, in, in->size, sizeof a->size) : HTC_EINVAL;
    a->day_ns = a->day_ns ? a->day_ns : UINT64_C(86400) * HTC_SECOND;
    return status;
}

htc_status htc_scale_arrivals_check(const htc_scale_arrivals *arrivals)
{
    htc_scale_arrivals a = { 0 };
    htc_status         status = read_arrivals(&a, arrivals);
    if (status != HTC_OK)
        return status;
    if (htc_scale_law_check(&a.gap) != HTC_OK || htc_scale_law_check(&a.burst_gap) != HTC_OK || !(a.burst == 0 || (a.burst >= 1 && a.burst <= 1e15)) || !(a.swing >= 0 && a.swing <= 0.99) ||
        a.peak_ns > a.day_ns)
        return HTC_EINVAL;
    return HTC_OK;
}

/* The rate rises from 1 - swing at 0 to 1 + swing at a half, and falls again until 1: what has come by x, and when y has come. */
static double come_by(double x, double swing)
{
    double half = x < 0.5 ? x : 1 - x, y = half * ((1 - swing) + 2 * swing * half);
    return x < 0.5 ? y : 1 - y;
}

static double when_come(double y, double swing)
{
    double half = y < 0.5 ? y : 1 - y, least = 1 - swing;
    double x = half > 0 ? 2 * half / (least + htc__scale_root(least * least + 8 * swing * half)) : 0;
    return y < 0.5 ? x : 1 - x;
}

static double whole_below(double x)
{
    double n = (double)(int64_t)x;
    return n > x ? n - 1 : n;
}

/* gap ticks of the even time after before. */
static uint64_t by_day(const htc_scale_arrivals *a, htc_ns tick_ns, uint64_t before, uint64_t gap)
{
    double day = (double)a->day_ns / (double)tick_ns, trough = (double)a->peak_ns / (double)tick_ns - day / 2;
    if ((double)before + (double)gap > REACH)
        return before + gap;
    double u = ((double)before - trough) / day, days = whole_below(u);
    double y = come_by(u - days, a->swing) + (double)gap / day, more = whole_below(y);
    double at = trough + (days + more + when_come(y - more, a->swing)) * day;
    return at > (double)before ? (uint64_t)(at + 0.5) : before;
}

uint64_t htc_scale_arrival(const htc_scale *scale, const htc_scale_arrivals *arrivals, uint64_t stream, uint64_t counter, uint64_t before)
{
    htc_scale_arrivals a = { 0 };
    if (read_arrivals(&a, arrivals) != HTC_OK)
        return before;
    double   goes_on = a.burst > 1 ? 1 - 1 / a.burst : 1;
    int      within = a.burst <= 1 || (double)(htc_scale_hash(scale, stream ^ BURSTS, counter) >> 11) * 0x1p-53 < goes_on;
    uint64_t gap = htc_scale_length(scale, within ? &a.gap : &a.burst_gap, stream, counter);
    return a.swing > 0 ? by_day(&a, scale->run->options.tick_ns, before, gap) : before + gap;
}
