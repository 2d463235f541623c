#include "statistics.h"

#include <math.h>

/* The 0.975 quantile of Student's t with n degrees of freedom. */
static double student(size_t n)
{
    static const double table[] = { 12.7062, 4.3027, 3.1824, 2.7764, 2.5706, 2.4469, 2.3646, 2.3060, 2.2622, 2.2281, 2.2010, 2.1788, 2.1604, 2.1448, 2.1314,
                                    2.1199,  2.1098, 2.1009, 2.0930, 2.0860, 2.0796, 2.0739, 2.0687, 2.0639, 2.0595, 2.0555, 2.0518, 2.0484, 2.0452, 2.0423 };
    const double        z = 1.959964, v = (double)n;
    if (n >= 1 && n <= sizeof table / sizeof *table)
        return table[n - 1];
    /* Cornish and Fisher's expansion: good to 1e-4 from 30 on */
    return z + (z * z * z + z) / (4 * v) + (5 * pow(z, 5) + 16 * z * z * z + 3 * z) / (96 * v * v);
}

estimate estimate_of(const double *values, size_t n)
{
    estimate e = { 0, 0 };
    double   squares = 0;
    for (size_t i = 0; i < n; i++)
        e.mean += values[i] / (double)n;
    for (size_t i = 0; i < n; i++)
        squares += (values[i] - e.mean) * (values[i] - e.mean);
    if (n > 1)
        e.half = student(n - 1) * sqrt(squares / (double)(n - 1) / (double)n);
    return e;
}
