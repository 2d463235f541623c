/* htc-sim flow: a study of one flow. */
#ifndef HTC_SIM_FLOW_COMMAND_H
#define HTC_SIM_FLOW_COMMAND_H

#include "htcsched/sim_flow.h"

typedef struct flow_options {
    htc_sim_flow_options sim; /* its steal is the one below */
    htc_steal_options    steal;
    const char          *policy; /* of stealing; NULL: the default */
    const char          *file; /* NULL: a shape */
    uint32_t             shape, degree, runs;
    uint64_t             tasks, seed;
    htc_ns               length_min, length_max;
    const char          *timeline; /* NULL: none */
    int                  json;
} flow_options;

/* The command with its own words; argv[0] is "flow". What to end with. */
int flow_command(int argc, char **argv);
extern const char flow_help[];
/* flow_options.c: EXIT_FINE; or what to end with, and it is said: *done. */
int flow_options_read(int argc, char **argv, flow_options *o, int *done);

#endif
