/* A world in virtual time: machines on nodes, connections between them, faults from one seed.
 *
 * Nothing here knows a role. A node hosts one machine (htcsched/machine.h) at a time; its host functions start the
 * machine and carry out what it asks of its surroundings. Events are delivered in the order of (time, number), random
 * numbers come from named streams, and the trace hash covers every delivered input: the same seed gives the same hash.
 *
 * Faults of messages are those that the layers above have to bear: loss, duplication, delay, reordering, broken
 * connections. Two things are kept because every stream keeps them: a greeting comes first on its connection (losing it
 * breaks the connection), and nothing arrives on a connection that its receiver has seen closed. */
#ifndef WORLD_H
#define WORLD_H

#include <stddef.h>
#include <stdio.h>

#include "core/codec.h"
#include "core/wire.h"
#include "htcsched/machine.h"

typedef struct world      world;
typedef struct world_node world_node;

typedef struct world_options {
    uint64_t seed;
    htc_ns   latency_ns; /* of every message; 0: 50 us */
    htc_ns   jitter_ns;  /* up to this much more; order is kept */
    uint32_t loss_ppm;   /* of messages */
    uint32_t duplicate_ppm;
    uint32_t reorder_ppm; /* these take up to reorder_ns more, and others overtake them */
    htc_ns   reorder_ns;
    htc_ns   redial_ns; /* from a failed or broken connection to the next try; 0: 100 ms */
    FILE    *trace;     /* every delivered input and log line; NULL: none */
} world_options;

typedef struct world_host {
    /* Creates the machine: world_install. Called at every start; what the node keeps over a crash is in its ctx. */
    void (*boot)(world_node *node);
    void (*call)(world_node *node, const htc_effect *effect);        /* NULL: none are expected */
    void (*commit)(world_node *node, const htc_effect *effect);      /* NULL: none are expected */
    void (*ended)(world_node *node, htc_status status, int crashed); /* the machine is gone already; may be NULL */
    void (*checked)(world_node *node); /* after every step, its effects carried out; may be NULL */
} world_host;

struct world_node {
    world            *w;
    uint32_t          id;
    char              name[32];
    const world_host *host;
    void             *ctx;
    /* the machine; NULL while it is down */
    const htc_machine_ops *ops;
    void                  *machine;
    uint64_t               incarnation; /* grows at every boot and at every end */
    htc_ns                 paused_until, armed;
    uint32_t               next_peer;
    int                    faithful; /* its messages are delayed only: faults of messages are for the others */
    htc_peer_info          info;     /* who it is to those it connects to */
    htc_rng                rng;
    htc_env                env;
    htc_log                log;
    htc_output            *out;
};

world *world_open(const world_options *options);
void   world_close(world *w);

world_node *world_add(world *w, const char *name, const world_host *host, void *ctx);
/* For host->boot: the machine it has created with &node->env. */
void world_install(world_node *node, const htc_machine_ops *ops, void *machine);
void world_boot(world_node *node);
void world_crash(world_node *node); /* like kill -9 */
int  world_up(const world_node *node);
/* Stopped, as by SIGSTOP: what happens to it waits. */
void world_pause(world_node *node, htc_ns span);

/* Connect to target under this number, again and again, until the node's machine ends. */
void world_dial(world_node *node, uint32_t peer, world_node *target);
/* Break the connections between two nodes; what is under way is lost. */
void world_break(world *w, world_node *a, world_node *b);
/* From now on; the options' faults again with on = 1. */
void world_set_faults(world *w, int on);

/* Inputs from the node's surroundings, after delay; lost if the machine ends before. */
void world_result(world_node *node, htc_ns delay, const htc_effect *call, htc_status status, htc_bytes body);
void world_event(world_node *node, htc_ns delay, uint32_t op, htc_status status, htc_bytes body);
void world_stored(world_node *node, htc_ns delay, uint64_t tag, htc_status status);
/* Anything else, at this time; ctx is the caller's. */
void world_at(world *w, htc_ns at, void (*fn)(world *w, void *ctx), void *ctx);
/* The same, and ctx (of malloc) is taken: freed after the call, or with the world. */
void world_at_taken(world *w, htc_ns at, void (*fn)(world *w, void *ctx), void *ctx);

/* Deliver the next event; 0 if there is none, or something has failed. */
int    world_next(world *w);
void   world_run_until(world *w, htc_ns at);
htc_ns world_now(const world *w);
htc_ns world_wall(const world *w);
/* A stream of its own for this name. */
htc_rng  world_rng(const world *w, const char *name);
uint64_t world_trace_hash(const world *w);
uint64_t world_events(const world *w); /* delivered so far */

/* The first failure ends the run. */
void        world_fail(world *w, const char *format, ...) __attribute__((format(printf, 2, 3)));
const char *world_failure(const world *w);                                                       /* NULL: none */
void        world_note(world *w, const char *format, ...) __attribute__((format(printf, 2, 3))); /* into the trace */
void       *world_user(const world *w); /* what world_set_user was given */
void        world_set_user(world *w, void *user);

#endif
