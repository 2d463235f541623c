/* Periods of which one has to be longer than the other: together they would have the system begin the same thing again for ever. */
#include <stdio.h>
#include <string.h>

#include "core/util.h"
#include "net/config/config_private.h"

static double seconds(htc_ns ns)
{
    return (double)ns / 1e9;
}

static htc_status hint(htc_error *error, const char *key, double most, const char *other, double least)
{
    if (error)
        snprintf(error->hint, sizeof error->hint, "set %.52s below %g, or %.52s above %g", key, most, other, least);
    return HTC_ECONFIG;
}

/* A host that joins has the heartbeat of its gateway: what its own file says of orphans is no mistake where it says nothing of heartbeats. */
static htc_status check_agents(const htc_config *c, htc_error *error)
{
    double beat = seconds(htc_config_ns(c, "agent.heartbeat_s")), lost = seconds(htc_config_ns(c, "agent.lost_after_s"));
    double orphan = seconds(htc_config_ns(c, "agent.orphan_after_s"));
    if (lost <= beat) {
        (void)htc__error(error, HTC_ECONFIG, "agent.lost_after_s = %g is not longer than agent.heartbeat_s = %g: agents would be lost between two heartbeats", lost, beat);
        return hint(error, "agent.heartbeat_s", lost, "agent.lost_after_s", beat);
    }
    if (orphan <= beat && htc__config_names(c, "agent.heartbeat_s")) {
        (void)htc__error(error, HTC_ECONFIG, "agent.orphan_after_s = %g is not longer than agent.heartbeat_s = %g: idle agents would leave between two heartbeats", orphan, beat);
        return hint(error, "agent.heartbeat_s", orphan, "agent.orphan_after_s", beat);
    }
    return HTC_OK;
}

/* Neighbours differ by up to a quarter of what they drain in: none of them may drain for all of its time. */
static htc_status check_drain(const htc_config *c, const char *name, htc_error *error)
{
    htc_config_batch b = { .size = sizeof b };
    char             time_key[64], drain_key[64];
    if (htc_config_batch_get(c, name, &b) != HTC_OK || !b.time_ns || seconds(b.drain_ns) * 1.25 < seconds(b.time_ns))
        return HTC_OK;
    snprintf(time_key, sizeof time_key, "%s%.40s.time_s", name ? "site." : "batch", name ? name : "");
    snprintf(drain_key, sizeof drain_key, "%s%.40s.drain_s", name ? "site." : "batch", name ? name : "");
    (void)htc__error(error, HTC_ECONFIG, "%s = %g and up to a quarter more is all of %s = %g: agents would begin nothing", drain_key, seconds(b.drain_ns), time_key, seconds(b.time_ns));
    return hint(error, drain_key, seconds(b.time_ns) * 0.8, time_key, seconds(b.drain_ns) * 1.25);
}

htc_status htc__config_check_periods(const htc_config *c, htc_error *error)
{
    htc_status s = check_agents(c, error);
    if (s == HTC_OK)
        s = check_drain(c, NULL, error);
    for (size_t i = 0; s == HTC_OK && i < c->sites_count; i++)
        s = check_drain(c, c->sites[i].name, error);
    return s;
}
