#include "sim/scale/draw.h"
#include "sim/scale/mtc.h"

#include <string.h>

#if defined(__clang__)
#pragma STDC FP_CONTRACT OFF /* gcc with -std=c11 does not contract */
#endif

#define TICKS_MAX 4.6e18 /* below 2^62 */
#define LN2       0.69314718055994530942

static double from_bits(uint64_t bits)
{
    double x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

static uint64_t to_bits(double x)
{
    uint64_t bits;
    memcpy(&bits, &x, sizeof bits);
    return bits;
}

/* The natural logarithm of a normal number above 0: x = 2^k m, and ln m = 2 artanh((m - 1) / (m + 1)) with m near 1. */
static double ln(double x)
{
    uint64_t bits = to_bits(x);
    int      k = (int)(bits >> 52) - 1023;
    double   m = from_bits((bits & UINT64_C(0xfffffffffffff)) | UINT64_C(0x3ff0000000000000));
    if (m > 1.4142135623730951) {
        m = m / 2;
        k++;
    }
    double s = (m - 1) / (m + 1), z = s * s, z2 = z * z, z4 = z2 * z2;
    double low = (1 + z * (1.0 / 3)) + (1.0 / 5 + z * (1.0 / 7)) * z2;
    double high = (1.0 / 9 + z * (1.0 / 11)) + (1.0 / 13 + z * (1.0 / 15)) * z2 + (1.0 / 17 + z * (1.0 / 19)) * z4;
    return k * LN2 + 2 * s * (low + high * z4);
}

/* e to the x for -700 < x < 700: 2^k e^r with |r| below ln 2 / 2, by the sum of r^i / i!. Its parts do not wait for each other. */
static double power_of_e(double x)
{
    int    k = (int)(x / LN2 + (x < 0 ? -0.5 : 0.5));
    double r = x - k * LN2, r2 = r * r, r4 = r2 * r2, r8 = r4 * r4;
    double low = (1 + r) + (1.0 / 2 + r * (1.0 / 6)) * r2;
    double middle = (1.0 / 24 + r * (1.0 / 120)) + (1.0 / 720 + r * (1.0 / 5040)) * r2;
    double high = (1.0 / 40320 + r * (1.0 / 362880)) + (1.0 / 3628800 + r * (1.0 / 39916800)) * r2 + (1.0 / 479001600 + r * (1.0 / 6227020800)) * r4;
    return (low + middle * r4 + high * r8) * from_bits((uint64_t)(k + 1023) << 52);
}

/* The square root of a number from 1e-6 to 1e3, by Newton's method. */
double htc__scale_root(double x)
{
    double r = from_bits((to_bits(x) >> 1) + UINT64_C(0x1ff7a3bea91d9b1b)); /* some per cent off */
    for (int i = 0; i < 5; i++)
        r = (r + x / r) / 2;
    return r;
}

/* Above 0 and below 1. */
static double unit(uint64_t bits)
{
    return ((double)(bits >> 11) + 0.5) * 0x1p-53;
}

/* The standard normal quantile (P. J. Acklam's rational approximation, relative error below 1.2e-9). */
static double normal(double p)
{
    static const double a[] = { -3.969683028665376e+01, 2.209460984245205e+02, -2.759285104469687e+02, 1.383577518672690e+02, -3.066479806614716e+01, 2.506628277459239e+00 };
    static const double b[] = { -5.447609879822406e+01, 1.615858368580409e+02, -1.556989798598866e+02, 6.680131188771972e+01, -1.328068155288572e+01 };
    static const double c[] = { -7.784894002430293e-03, -3.223964580411365e-01, -2.400758277161838e+00, -2.549732539343734e+00, 4.374664141464968e+00, 2.938163982698783e+00 };
    static const double d[] = { 7.784695709041462e-03, 3.224671290700398e-01, 2.445134137142996e+00, 3.754408661907416e+00 };
    double              tail = p < 0.5 ? p : 1 - p;
    if (tail > 0.02425) {
        double q = p - 0.5, r = q * q;
        return (((((a[0] * r + a[1]) * r + a[2]) * r + a[3]) * r + a[4]) * r + a[5]) * q /
               (((((b[0] * r + b[1]) * r + b[2]) * r + b[3]) * r + b[4]) * r + 1);
    }
    double q = htc__scale_root(-2 * ln(tail));
    double x = (((((c[0] * q + c[1]) * q + c[2]) * q + c[3]) * q + c[4]) * q + c[5]) / ((((d[0] * q + d[1]) * q + d[2]) * q + d[3]) * q + 1);
    return p < 0.5 ? x : -x;
}

/* ---- the Gamma distribution: the quantile of its standard form with the shape k ---- */

/* Where tails are told by their logarithms, which are concave functions of y = ln x: Newton's method finds a root from any point. */
typedef struct tail {
    double ln, slope; /* of the probability beyond e^y, by y */
} tail;

static double up(double y)
{
    return y > -690 ? power_of_e(y) : 0;
}

/* The logarithm of Gamma(z) for z from 1 (C. Lanczos' approximation with g = 7, relative error below 1e-14). */
static double ln_gamma(double z)
{
    static const double c[] = { 0.99999999999980993, 676.5203681218851, -1259.1392167224028, 771.32342877765313, -176.61502916214059,
                                12.507343278686905, -0.13857109526572012, 9.9843695780195716e-6, 1.5056327351493116e-7 };
    double              sum = c[0], t = z + 6.5;
    for (int i = 1; i < 9; i++)
        sum += c[i] / (z - 1 + i);
    return 0.91893853320467274 + (z - 0.5) * ln(t) - t + ln(sum);
}

/* P(k, x) = x^k e^-x / Gamma(k + 1) (1 + x / (k + 1) + x^2 / ((k + 1) (k + 2)) + ...) */
static tail below(double k, double y, double ln_g)
{
    double x = up(y), term = 1, sum = 1;
    for (int i = 1; i < 10000 && term > 1e-17 * sum; i++) {
        term *= x / (k + i);
        sum += term;
    }
    return (tail){ k * y - x - ln_g + ln(sum), k / sum };
}

/* Q(k, x) = 1 - P(k, x), and further out x^k e^-x / Gamma(k) 1 / (x + 1 - k - (1 - k) / (x + 3 - k - ...)), by W. J. Lentz' method. */
static tail beyond(double k, double y, double ln_g)
{
    double x = up(y), b = x + 1 - k, c = 1e300, d = 1 / b, h = d, more = 0;
    if (x < k + 1) {
        tail   t = below(k, y, ln_g);
        double p = up(t.ln);
        return (tail){ ln(1 - p), -p * t.slope / (1 - p) };
    }
    for (int i = 1; i < 10000 && (more < 1 - 1e-15 || more > 1 + 1e-15); i++) {
        double a = -i * (i - k);
        b += 2;
        c = b + a / c;
        d = 1 / (b + a * d);
        more = c * d;
        h *= more;
    }
    return (tail){ k * y - x - ln_g + ln(k * h), -1 / h };
}

/* cv: the coefficient of variation, 1 / sqrt(k). The first guess is that of E. B. Wilson and M. M. Hilferty, which alone is right to 1e-5 where k is above 10^4; where k is
 * small it is a bound: P(k, x) is below x^k / Gamma(k + 1), and Q(k, x) below e^-x / Gamma(k) from 1 on. */
static double gamma_quantile(double cv, uint64_t bits)
{
    double p = unit(bits), q = unit(~bits), k = 1 / (cv * cv), z = p < 0.5 ? normal(p) : -normal(q), w = 1 - cv * cv / 9 + z * cv / 3;
    if (cv < 0.01)
        return k * w * w * w;
    int    is_beyond = q < 0.1;
    double ln_g = ln_gamma(k + 1), target = ln(is_beyond ? q : p), y;
    if (k >= 1 && w > 0.3)
        y = ln(k * w * w * w);
    else if (is_beyond)
        y = ln(target + ln_g - ln(k) < -1 ? -(target + ln_g - ln(k)) : 1);
    else
        y = (target + ln_g) / k;
    double step = 1;
    for (int i = 0; i < 60 && (step > 1e-10 || step < -1e-10); i++) {
        tail t = is_beyond ? beyond(k, y, ln_g) : below(k, y, ln_g);
        step = (target - t.ln) / t.slope;
        y += step;
    }
    return up(y);
}

/* The quantile of u of the first so many steps of the table. */
static double mtc(double u, uint32_t steps)
{
    double   at = u * steps;
    uint32_t i = (uint32_t)at < steps ? (uint32_t)at : steps - 1; /* u may be rounded up to 1 */
    double   low = htc__scale_mtc_us[i], high = htc__scale_mtc_us[i + 1];
    return low + (high - low) * (at - i);
}

htc__scale_drawer htc__scale_drawer_of(const htc_scale_law *law, htc_ns tick_ns)
{
    double            mean = law->mean_ns / (double)tick_ns;
    htc__scale_drawer d = { law->kind, mean, law->spread };
    if (law->kind == HTC_SCALE_LOGNORMAL && mean > 0 && law->spread > 0) {
        double variance = ln(1 + law->spread * law->spread);
        d.a = ln(mean) - variance / 2;
        d.b = htc__scale_root(variance);
    } else if (law->kind == HTC_SCALE_LOGNORMAL) {
        d.kind = HTC_SCALE_CONSTANT;
    } else if (law->kind == HTC_SCALE_GAMMA && law->spread > 1e-9) {
        d.a = mean * law->spread * law->spread;
    } else if (law->kind == HTC_SCALE_GAMMA) {
        d.kind = HTC_SCALE_CONSTANT;
    } else if (law->kind == HTC_SCALE_MTC) {
        d.a = mean / HTC__SCALE_MTC_MEAN_US;
    } else if (law->kind == HTC_SCALE_MTC_SUBSECOND) {
        d.a = mean / HTC__SCALE_MTC_SUBSECOND_MEAN_US;
    }
    return d;
}

uint64_t htc__scale_drawer_ticks(const htc__scale_drawer *d, uint64_t bits)
{
    double x = d->a;
    switch ((htc_scale_kind)d->kind) {
    case HTC_SCALE_CONSTANT:
        break;
    case HTC_SCALE_UNIFORM:
        x = d->a * (1 + d->b * (2 * unit(bits) - 1));
        break;
    case HTC_SCALE_EXPONENTIAL:
        x = -d->a * ln(unit(bits));
        break;
    case HTC_SCALE_LOGNORMAL:
        x = power_of_e(d->a + d->b * normal(unit(bits)));
        break;
    case HTC_SCALE_MTC:
        x = d->a * mtc(unit(bits), HTC__SCALE_MTC_STEPS);
        break;
    case HTC_SCALE_MTC_SUBSECOND:
        x = d->a * mtc(unit(bits), HTC__SCALE_MTC_SUBSECOND);
        break;
    case HTC_SCALE_GAMMA:
        x = d->a * gamma_quantile(d->b, bits);
        break;
    }
    return x < TICKS_MAX ? (uint64_t)(x + 0.5) : (uint64_t)TICKS_MAX;
}

double htc__scale_power(double base, double x)
{
    return power_of_e(x * ln(base));
}

htc_status htc_scale_law_check(const htc_scale_law *law)
{
    static const double spread_max[] = { 0, 1, 0, 10, 0, 0, 10 };
    if (!law || law->kind > HTC_SCALE_GAMMA || law->reserved)
        return HTC_EINVAL;
    return law->mean_ns >= 0 && law->mean_ns < 1e19 && law->spread >= 0 && law->spread <= spread_max[law->kind] ? HTC_OK : HTC_EINVAL;
}
