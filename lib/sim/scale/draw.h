/* Random numbers of the scale models: a hash of (seed, stream, counter), and distributions made of it with the four operations of IEEE 754
 * doubles alone, so that every compiler and machine answers the same bits. */
#ifndef HTC_SIM_SCALE_DRAW_H
#define HTC_SIM_SCALE_DRAW_H

#include "htcsched/sim_scale.h"

/* SplitMix64's mixing (Steele, Lea, Flood, 2014). */
static inline uint64_t htc__scale_mix(uint64_t z)
{
    z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
    return z ^ (z >> 31);
}

/* 1: something else happens at the present tick. scale.c */
int htc__scale_more_now(htc_scale *scale);

/* The state of a stream before its first draw. */
static inline uint64_t htc__scale_stream(uint64_t seed, uint64_t stream)
{
    return htc__scale_mix(htc__scale_mix(seed) + stream * UINT64_C(0xd1342543de82ef95));
}

static inline uint64_t htc__scale_draw(uint64_t stream_state, uint64_t counter)
{
    return htc__scale_mix(stream_state + (counter + 1) * UINT64_C(0x9e3779b97f4a7c15));
}

/* A law for one tick, with what does not change from draw to draw. */
typedef struct htc__scale_drawer {
    uint32_t kind;
    double   a, b; /* in ticks; lognormal: mean and deviation of the logarithm; of the table: ticks for its unit; Gamma: its scale, and the coefficient of variation */
} htc__scale_drawer;

htc__scale_drawer htc__scale_drawer_of(const htc_scale_law *law, htc_ns tick_ns);
uint64_t          htc__scale_drawer_ticks(const htc__scale_drawer *d, uint64_t bits);
/* Of a number from 1e-6 to 1e3. */
double            htc__scale_root(double x);
/* base to the x, for a base from 1 to 1e100 and x from 0 to 1. */
double            htc__scale_power(double base, double x);

#endif
