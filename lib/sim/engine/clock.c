/* What a node believes of time. A clock is a line: what it showed at its last change, and how fast it runs since. */
#include "sim/engine/sim_private.h"

#define DRIFT_MAX 500000
#define MILLION   UINT64_C(1000000)

/* n * factor_ppm / 10^6, rounded down, without leaving 64 bits; HTC_NEVER at most. */
static htc_ns scale(htc_ns n, uint64_t factor_ppm)
{
    if (n / MILLION >= HTC_NEVER / factor_ppm)
        return HTC_NEVER;
    return n / MILLION * factor_ppm + n % MILLION * factor_ppm / MILLION;
}

htc_ns htc__sim_clock_at(const sim_clock *c, htc_ns at)
{
    htc_ns passed = at - c->since;
    if (c->drift_ppm)
        passed = scale(passed, (uint64_t)((int64_t)MILLION + c->drift_ppm));
    return htc__sim_sum(c->now, passed);
}

htc_ns htc__sim_clock_when(const sim_clock *c, htc_ns shown, htc_ns now)
{
    if (shown == HTC_NEVER)
        return HTC_NEVER;
    if (shown <= htc__sim_clock_at(c, now))
        return now;
    if (!c->drift_ppm) {
        htc_ns when = shown - c->now + c->since;
        return when >= c->since ? when : HTC_NEVER;
    }
    /* The inverse of a rounded line: a guess from below, then at most a step or two. */
    uint64_t rate = (uint64_t)((int64_t)MILLION + c->drift_ppm);
    htc_ns   ahead = shown - c->now;
    if (ahead / rate >= HTC_NEVER / MILLION / 2)
        return HTC_NEVER;
    htc_ns when = htc__sim_sum(c->since, ahead / rate * MILLION + ahead % rate * MILLION / rate);
    while (when < HTC_NEVER && htc__sim_clock_at(c, when) < shown)
        when++;
    return when;
}

htc_ns htc_sim_node_now(const htc_sim_node *node)
{
    return htc__sim_clock_at(&node->clock, node->sim->now);
}

htc_ns htc_sim_node_wall(const htc_sim_node *node)
{
    htc_ns now = htc_sim_node_now(node);
    htc_ns by = node->clock.wall < 0 ? 0 - (uint64_t)node->clock.wall : (uint64_t)node->clock.wall;
    return node->clock.wall >= 0 ? htc__sim_sum(now, by) : now > by ? now - by : 0;
}

htc_status htc_sim_drift(htc_sim_node *node, int32_t drift_ppm)
{
    if (!node || drift_ppm < -DRIFT_MAX || drift_ppm > DRIFT_MAX)
        return HTC_EINVAL;
    node->clock.now = htc_sim_node_now(node);
    node->clock.since = node->sim->now;
    node->clock.drift_ppm = drift_ppm;
    return htc__sim_arm(node);
}

htc_status htc_sim_jump(htc_sim_node *node, int64_t ns)
{
    if (!node)
        return HTC_EINVAL;
    int64_t wall = (int64_t)((uint64_t)node->clock.wall + (uint64_t)ns);
    if ((ns > 0) != (wall > node->clock.wall) && ns != 0)
        return HTC_EINVAL;
    node->clock.wall = wall;
    return HTC_OK;
}
