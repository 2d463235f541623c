/* What the three daemons' mains share: options, configuration, state directory, log and random numbers. */
#ifndef HTC_EXAMPLES_DAEMON_H
#define HTC_EXAMPLES_DAEMON_H

#include "htcsched/config.h"
#include "htcsched/host_keys.h"
#include "htcsched/state.h"

typedef struct htc_daemon_options {
    const char *dir, *config, *slots, *user, *site;
    const char *join, *gateway, *key, *ring, *server, *at; /* of a host that joins, and of its agents */
    const char *batch; /* whose agents are jobs of this batch system */
    const char *res[15]; /* what it counts: NAME=N */
    size_t      n_res;
    uint64_t    agent, gpus;
    uint32_t    slot, uid, gid;
    uint32_t    become;  /* --uid was given */
    uint32_t    confine;
    uint32_t    create;  /* the state directory is made if there is none */
} htc_daemon_options;

typedef struct htc_daemon {
    const char  *name;
    htc_env      env; /* for the role and its host */
    htc_rng      rng;
    htc_state   *state;
    htc_config  *config;
    htc_logfile *log;
    int          log_is_stderr; /* what ends it is said there alone */
    htc_error    error;
} htc_daemon;

/* Reads the command line. allowed: letters of --dir d, --config c, --slots s, --agent a, --slot n, --user u, --site i,
 * --uid U, --gid G, --confine C, --join J, --gateway g, --key k, --ring r, --server N, --at A, --batch B, --gpus p, --res R.
 * HTC_AGAIN: help or version was printed. */
htc_status htc_daemon_parse(htc_daemon *d, int argc, char **argv, const char *allowed, htc_daemon_options *o);
/* Opens state directory (which exists), configuration and log file (log/NAME.log). */
htc_status htc_daemon_open(htc_daemon *d, const htc_daemon_options *o, const char *log_name);
/* Policies of files are for agents. Who starts agents looks whether they can be had. */
htc_status htc_daemon_check_policies(htc_daemon *d);
/* The system's own keys, in the state directory: made if they are missing. Files that others change are read anew. once: who shows a one-time
 * secret is enrolled. */
htc_status htc_daemon_keys(htc_daemon *d, htc_host *host, uint32_t once, htc_host_keys **out);
/* Prints the one error line if there is one, closes everything, answers the exit code. */
int htc_daemon_close(htc_daemon *d, htc_status status);

#endif
