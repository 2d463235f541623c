/* Fault points inside the code under test (lib/core/fault.h): the seed draws which exist in a run, and when they fire. */
#include <stdio.h>

#include "sim/engine/sim_private.h"

#define FIRES_ONE_IN 4

static int fires(void *ctx, const char *name)
{
    htc_sim_node *node = ctx;
    htc_sim      *sim = node->sim;
    char          text[128];
    if (sim->options.points_ppm == 0 || !sim->points_on)
        return 0;
    snprintf(text, sizeof text, "point/%s", name);
    htc_rng site = htc_rng_fork(&sim->root, text);
    if (htc_rng_below(&site, 1000000) >= sim->options.points_ppm || htc_rng_below(&node->points, FIRES_ONE_IN))
        return 0;
    htc__sim_notef(sim, "%s: fault point %s fires", node->name, name);
    return 1;
}

void htc__sim_points(htc_sim_node *node)
{
    char text[SIM_NAME_MAX + 16];
    snprintf(text, sizeof text, "points/%s", node->name);
    node->points = htc_rng_fork(&node->sim->root, text);
    node->fault = (htc_fault){ fires, node };
}
