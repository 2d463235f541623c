/**
 * @file htcsched/sim.h
 * @brief Virtual time, a network that fails, clocks that lie: the world in which machines are tested.
 *
 * Library htcsched-sim (`pkg-config --libs htcsched-sim`): for tests, studies and teaching, never for what runs live.
 *
 * A node hosts one machine (htcsched/machine.h) at a time, as htc_host does live. Events are delivered in the order of (time,
 * number), time is whole nanoseconds, and every random number comes from a named stream of the run's seed, so that a new
 * consumer shifts no other: the same program and seed give the same run, and htc_sim_hash proves it. A span that would reach past the
 * last nanosecond has no end: HTC_NEVER does from any moment, and what is due at HTC_NEVER does not take place.
 *
 *     htc_sim      *sim = NULL;
 *     htc_sim_node *a = NULL, *b = NULL;                          host.boot creates a machine and calls htc_sim_install
 *     htc_sim_create(NULL, &(htc_sim_options){ .size = sizeof(htc_sim_options), .seed = 7 }, &sim);
 *     htc_sim_add(sim, &(htc_sim_node_options){ .size = sizeof(htc_sim_node_options), .name = "a", .host = &host }, &a);
 *     htc_sim_add(sim, &(htc_sim_node_options){ .size = sizeof(htc_sim_node_options), .name = "b", .host = &host }, &b);
 *     htc_sim_boot(a);
 *     htc_sim_boot(b);
 *     htc_sim_dial(a, 1, b, NULL);                                peer 1 of a's machine
 *     if (htc_sim_run(sim, 10 * HTC_SECOND) != HTC_OK)
 *         puts(htc_sim_failure(sim));
 *     htc_sim_destroy(sim);
 *
 * The first failure (htc_sim_fail, a machine that broke, memory that was refused) ends a run: every later call answers it, so a
 * scenario may look at statuses in the end only. A NULL simulation or node is HTC_EINVAL everywhere.
 *
 * Messages are lost, doubled, delayed and overtaken as htc_sim_net says. Two things are kept because every stream keeps them:
 * the first message in each direction of a connection comes first (losing it breaks the connection), and nothing arrives on a
 * connection that its receiver has seen closed.
 *
 * Threads: owner, of the simulation and all its nodes.   Allocation: through env; in the steady state none: events are used again.
 */
#ifndef HTCSCHED_SIM_H
#define HTCSCHED_SIM_H

#include "htcsched/machine.h"

#ifdef __cplusplus
extern "C" {
#endif

/** A run: its time, its nodes, what is under way. */
typedef struct htc_sim htc_sim;

/** One computer with one process: a machine, while it is up. */
typedef struct htc_sim_node htc_sim_node;

/** Where the virtual clock begins: late enough that no machine meets times near 0. */
#define HTC_SIM_BEGIN (UINT64_C(1000) * HTC_SECOND)
/** What the wall clocks show at the moment 0 of the virtual clock. */
#define HTC_SIM_WALL (UINT64_C(1700000000) * HTC_SECOND)
/** Connections that a node accepts are numbered from here; the ones it asks for are below: so many in its life if none is used again. */
#define HTC_SIM_PEER_FIRST 1000000

/** What a direction of a link does to messages. Every field's zero means: not that. */
typedef struct htc_sim_net {
    size_t   size;          /**< sizeof(htc_sim_net) */
    htc_ns   latency_ns;    /**< of every message; 0: 50 us */
    htc_ns   jitter_ns;     /**< up to this much more, evenly; order is kept */
    uint64_t bytes_per_s;   /**< how fast bytes leave; one message waits for the one before. 0: at once */
    uint32_t loss_ppm;      /**< of messages, in a million: never arrive */
    uint32_t duplicate_ppm; /**< arrive twice */
    uint32_t reorder_ppm;   /**< take up to reorder_ns more, and others overtake them */
    htc_ns   reorder_ns;    /**< 0: 10 ms */
    uint32_t delay_ppm;     /**< take up to delay_ns more, and hold up those behind them */
    htc_ns   delay_ns;      /**< 0: 10 ms */
    uint32_t
        break_ppm; /**< of messages: break their connection instead of arriving; of what is sent on a stream: somewhere
                                 in the middle */
    uint32_t cut_ppm; /**< of what is sent on a stream: arrives in pieces, cut anywhere (else as it was sent, unless it
                                 arrives together with what follows) */
} htc_sim_net;

/** How a run is made; every field's zero is its default. */
typedef struct htc_sim_options {
    size_t             size;      /**< sizeof(htc_sim_options) */
    uint64_t           seed;      /**< of everything */
    const htc_sim_net *net;       /**< of every link that has none of its own; copied; NULL: 50 us and no faults */
    htc_ns             redial_ns; /**< from a failed or broken connection to the next try; 0: 100 ms */
    /**
     * Take one line of the trace: every delivered input but timeouts, every log line and note.
     *
     * @param[in] ctx   trace_ctx
     * @param[in] line  with the time in front, no newline; borrowed
     */
    void (*trace)(void *ctx, const char *line);
    void    *trace_ctx; /**< handed to trace */
    uint32_t still_max; /**< events at one moment, then the run has failed: somebody asks for a deadline that is past;
                               0: 200000 */
    uint32_t
        points_ppm; /**< fault points in the code under test: the chance of each to be enabled in this run (an enabled
                               one fires one time in four). Only in builds with -Dfaults=true; 0: none */
} htc_sim_options;

/** What a node's surroundings do for its machine. */
typedef struct htc_sim_host {
    size_t size; /**< sizeof(htc_sim_host) */
    /**
     * Create the machine with htc_sim_env and hand it over with htc_sim_install; dial. Called at every start: what the node
     * keeps over a crash is in ctx.
     *
     * @param[in]     ctx   of the node
     * @param[in,out] node  is being booted
     * @return HTC_OK; anything else is what htc_sim_boot answers, and the node stays down
     */
    htc_status (*boot)(void *ctx, htc_sim_node *node);
    /**
     * Carry out HTC_OUT_CALL. NULL: answered HTC_EUNSUPPORTED.
     *
     * @param[in]     ctx     of the node
     * @param[in,out] node    to be answered with htc_sim_result
     * @param[in]     effect  borrowed
     * @return HTC_OK: the answer comes, now or later or never; anything else is answered for you with that status
     */
    htc_status (*call)(void *ctx, htc_sim_node *node, const htc_effect *effect);
    /**
     * Carry out HTC_OUT_COMMIT. NULL: answered HTC_EUNSUPPORTED.
     *
     * @param[in]     ctx     of the node
     * @param[in,out] node    to be answered with htc_sim_stored
     * @param[in]     effect  borrowed
     * @return HTC_OK: htc_sim_stored comes; anything else is answered for you with that status
     */
    htc_status (*commit)(void *ctx, htc_sim_node *node, const htc_effect *effect);
    /**
     * The machine has ended and is destroyed already. NULL: nobody wants to know.
     *
     * @param[in]     ctx      of the node
     * @param[in,out] node     is down; may be booted later, not in here
     * @param[in]     status   of HTC_OUT_STOP or of the step that failed; HTC_EKILLED of a crash
     * @param[in]     crashed  1: by htc_sim_crash
     */
    void (*ended)(void *ctx, htc_sim_node *node, htc_status status, int crashed);
    /**
     * A step is over, its effects are carried out: what must hold now? NULL: nothing.
     *
     * @param[in]     ctx   of the node
     * @param[in,out] node  up
     */
    void (*checked)(void *ctx, htc_sim_node *node);
} htc_sim_host;

/** One node; every field's zero is its default. */
typedef struct htc_sim_node_options {
    size_t              size;     /**< sizeof(htc_sim_node_options) */
    const char         *name;     /**< copied; not longer than 63; names its random streams too, so give each its own */
    const htc_sim_host *host;     /**< kept */
    void               *ctx;      /**< handed to host */
    const htc_alloc    *alloc;    /**< of its machine; kept; NULL: that of the simulation */
    htc_peer_info       info;     /**< who it is to those it connects to; transport 0: HTC_TRANSPORT_SIM */
    uint32_t            version;  /**< for host->boot: htc_sim_version */
    uint32_t            faithful; /**< 1: its messages are delayed only: loss and the like are for the others */
    uint32_t            survive; /**< 1: a step that answers an error ends the machine, as live (else: the run fails) */
    int32_t             drift_ppm;      /**< its clocks run faster by this, -500000 .. 500000 */
    htc_ns              now_offset_ns;  /**< how much its monotonic clock is ahead at the beginning */
    int64_t             wall_offset_ns; /**< how much its wall clock is ahead beside that; HTC_SIM_WALL more are to fit too */
} htc_sim_node_options;

/** One connection that is asked for; every field's zero is its default. */
typedef struct htc_sim_dial_options {
    size_t   size;     /**< sizeof(htc_sim_dial_options) */
    uint32_t port;     /**< htc_peer_info.port as the dialling machine sees it */
    uint32_t listener; /**< htc_peer_info.port as the target's machine sees it */
    uint32_t once;     /**< 1: not again after it has broken */
    uint32_t
        stream; /**< 1: of bytes (HTC_OUT_BYTES, HTC_IN_BYTES), not of messages; nothing is lost on it but with it */
    uint32_t refused; /**< when it is tried and the target is not up: HTC_IN_EVENT with this op, whose body is peer as htc_put_u32 writes
                           it; then the target is waited for. 0: it is not told. Since: 0.2 */
    htc_sim_node *other; /**< tried in turn with the target: when one is not up or cannot be reached, and after a connection has ended. NULL: the
                              target alone. Since: 0.2 */
} htc_sim_dial_options;

/**
 * Begin a run.
 *
 * @param[in]  env      its allocator is kept (NULL: malloc); rng and log are not looked at
 * @param[in]  options  borrowed; NULL: the defaults, seed 0
 * @param[out] out      gives the run: htc_sim_destroy; untouched on failure
 * @return HTC_OK; HTC_EINVAL; HTC_EABI; HTC_ENOMEM
 *
 * Cost: O(1).   Since: 0.2
 */
HTC_API htc_status htc_sim_create(const htc_env *env, const htc_sim_options *options, htc_sim **out);

/**
 * End a run: machines are destroyed (host->ended is not called), nodes freed.
 *
 * @param[in] sim  NULL is fine; not from inside a callback
 *
 * Cost: O(what there is).   Since: 0.2
 */
HTC_API void htc_sim_destroy(htc_sim *sim);

/* ---- nodes ---- */

/**
 * Add a node; it is down.
 *
 * @param[in,out] sim      the run
 * @param[in]     options  borrowed; host is needed
 * @param[out]    out      lends the node as long as the run lives; untouched on failure
 * @return HTC_OK; HTC_EINVAL; HTC_EABI; HTC_ENOMEM
 *
 * Cost: O(1) amortised.   Since: 0.2
 */
HTC_API htc_status htc_sim_add(htc_sim *sim, const htc_sim_node_options *options, htc_sim_node **out);

/**
 * From host->boot: the machine of this start.
 *
 * @param[in,out] node     is being booted
 * @param[in]     ops      kept
 * @param[in]     machine  taken: destroyed with ops->destroy (NULL: not at all)
 * @return HTC_OK; HTC_EINVAL
 *
 * Cost: O(1).   Since: 0.2
 */
HTC_API htc_status htc_sim_install(htc_sim_node *node, const htc_machine_ops *ops, void *machine);

/**
 * Start the node's process: host->boot, then HTC_IN_START. Nothing if it is up.
 *
 * @param[in,out] node  the node
 * @return HTC_OK; what host->boot answered; HTC_EINVAL if it installed nothing; HTC_ENOMEM; the run's failure
 *
 * Cost: O(1) and host->boot.   Since: 0.2
 */
HTC_API htc_status htc_sim_boot(htc_sim_node *node);

/**
 * End the process at once, like kill -9: the machine is destroyed, its connections break, its calls are never answered.
 * Nothing if it is down.
 *
 * @param[in,out] node  the node
 * @return HTC_OK; HTC_EINVAL; HTC_ENOMEM
 *
 * Cost: O(connections of the node).   Since: 0.2
 */
HTC_API htc_status htc_sim_crash(htc_sim_node *node);

/**
 * Stop the process, as by SIGSTOP: what happens to it waits, its clocks go on. Nothing if it is down.
 *
 * @param[in,out] node  the node
 * @param[in]     span  from now, unless it is stopped for longer already; ends by itself. HTC_NEVER: at htc_sim_resume
 * @return HTC_OK; HTC_EINVAL; HTC_ENOMEM
 *
 * Cost: O(log events).   Since: 0.2
 */
HTC_API htc_status htc_sim_pause(htc_sim_node *node, htc_ns span);

/**
 * Let a stopped process go on now: what waited comes at once, in order.
 *
 * @param[in,out] node  the node
 * @return HTC_OK; HTC_EINVAL
 *
 * Cost: O(what waited x log events).   Since: 0.2
 */
HTC_API htc_status htc_sim_resume(htc_sim_node *node);

/**
 * Is there a machine?
 *
 * @param[in] node  NULL: no
 * @return 1 or 0; a stopped one is up
 *
 * Cost: O(1).   Since: 0.2
 */
HTC_API int htc_sim_up(const htc_sim_node *node);

/**
 * Is it up and stopped?
 *
 * @param[in] node  NULL: no
 * @return 1 or 0
 *
 * Cost: O(1).   Since: 0.2
 */
HTC_API int htc_sim_paused(const htc_sim_node *node);

/**
 * The machine itself: for checks that look inside.
 *
 * @param[in] node  NULL: none
 * @return lends what htc_sim_install was given, until the next event; NULL: the node is down
 *
 * Cost: O(1).   Since: 0.2
 */
HTC_API void *htc_sim_machine(const htc_sim_node *node);

/**
 * What its machine is created with: a random stream of this start, the allocator, a log that goes into the trace.
 *
 * @param[in] node  not NULL
 * @return lends it as long as the node lives; its stream is new at every boot
 *
 * Cost: O(1).   Since: 0.2
 */
HTC_API const htc_env *htc_sim_env(const htc_sim_node *node);

/**
 * The run of a node.
 *
 * @param[in] node  not NULL
 * @return the run
 *
 * Cost: O(1).   Since: 0.2
 */
HTC_API htc_sim *htc_sim_of(const htc_sim_node *node);

/**
 * The node's name.
 *
 * @param[in] node  not NULL
 * @return lends it as long as the node lives
 *
 * Cost: O(1).   Since: 0.2
 */
HTC_API const char *htc_sim_name(const htc_sim_node *node);

/**
 * Which start of the node this is: grows at every boot and at every end, so that what belongs to an earlier one is known.
 *
 * @param[in] node  not NULL
 * @return odd: up; even: down
 *
 * Cost: O(1).   Since: 0.2
 */
HTC_API uint64_t htc_sim_incarnation(const htc_sim_node *node);

/**
 * Who the node is to those it connects to from now on.
 *
 * @param[in,out] node  the node
 * @param[in]     info  copied
 * @return HTC_OK; HTC_EINVAL
 *
 * Cost: O(1).   Since: 0.2
 */
HTC_API htc_status htc_sim_set_info(htc_sim_node *node, const htc_peer_info *info);

/**
 * Which version of the program this node runs: for host->boot.
 *
 * @param[in] node  not NULL
 * @return what its options or htc_sim_set_version said
 *
 * Cost: O(1).   Since: 0.2
 */
HTC_API uint32_t htc_sim_version(const htc_sim_node *node);

/**
 * Change the version: the next boot is an upgrade, or a way back.
 *
 * @param[in,out] node     the node
 * @param[in]     version  any number
 * @return HTC_OK; HTC_EINVAL
 *
 * Cost: O(1).   Since: 0.2
 */
HTC_API htc_status htc_sim_set_version(htc_sim_node *node, uint32_t version);

/* ---- clocks ---- */

/**
 * The node's monotonic clock, as its next input will be stamped.
 *
 * @param[in] node  not NULL
 * @return the moment
 *
 * Cost: O(1).   Since: 0.2
 */
HTC_API htc_ns htc_sim_node_now(const htc_sim_node *node);

/**
 * The node's wall clock.
 *
 * @param[in] node  not NULL
 * @return time since 1970, as it believes
 *
 * Cost: O(1).   Since: 0.2
 */
HTC_API htc_ns htc_sim_node_wall(const htc_sim_node *node);

/**
 * From now on the node's clocks run faster (or slower) by this; neither jumps.
 *
 * @param[in,out] node       the node
 * @param[in]     drift_ppm  -500000 .. 500000; -500000 is half speed
 * @return HTC_OK; HTC_EINVAL; HTC_ENOMEM
 *
 * Cost: O(log events).   Since: 0.2
 */
HTC_API htc_status htc_sim_drift(htc_sim_node *node, int32_t drift_ppm);

/**
 * The node's wall clock jumps; its monotonic clock does not.
 *
 * @param[in,out] node  the node
 * @param[in]     ns    forward, or back if negative; it never goes before 1970
 * @return HTC_OK; HTC_EINVAL
 *
 * Cost: O(1).   Since: 0.2
 */
HTC_API htc_status htc_sim_jump(htc_sim_node *node, int64_t ns);

/* ---- what a host answers ---- */

/**
 * Answer a call: HTC_IN_RESULT, after a delay; lost if the machine ends before.
 *
 * @param[in,out] node    the node
 * @param[in]     delay   from now
 * @param[in]     call    the effect; its op and tag are copied
 * @param[in]     status  how it went
 * @param[in]     body    the answer; copied
 * @return HTC_OK; HTC_EINVAL; HTC_ENOMEM
 *
 * Cost: O(length + log events).   Since: 0.2
 */
HTC_API htc_status htc_sim_result(htc_sim_node *node, htc_ns delay, const htc_effect *call, htc_status status,
                                  htc_bytes body);

/**
 * Tell the machine that something happened: HTC_IN_EVENT, after a delay; lost if the machine ends before.
 *
 * @param[in,out] node    the node
 * @param[in]     delay   from now
 * @param[in]     op      what happened
 * @param[in]     status  how
 * @param[in]     body    as op says; copied
 * @return HTC_OK; HTC_EINVAL; HTC_ENOMEM
 *
 * Cost: O(length + log events).   Since: 0.2
 */
HTC_API htc_status htc_sim_event(htc_sim_node *node, htc_ns delay, uint32_t op, htc_status status, htc_bytes body);

/**
 * Answer a commit: HTC_IN_STORED, after a delay; lost if the machine ends before.
 *
 * @param[in,out] node    the node
 * @param[in]     delay   from now
 * @param[in]     tag     of the commit
 * @param[in]     status  how it went
 * @return HTC_OK; HTC_EINVAL; HTC_ENOMEM
 *
 * Cost: O(log events).   Since: 0.2
 */
HTC_API htc_status htc_sim_stored(htc_sim_node *node, htc_ns delay, uint64_t tag, htc_status status);

/* ---- the network ---- */

/**
 * Keep a connection to a node: dialled now, and again whenever it is lost, until this node's machine ends.
 *
 * @param[in,out] node     up, or being booted
 * @param[in]     peer     its number here, 1 .. HTC_SIM_PEER_FIRST - 1; not one that is dialled already: with `once` it is free again
 *                         as the machine is told that the connection has ended
 * @param[in,out] target   need not be up yet
 * @param[in]     options  borrowed; NULL: the defaults
 * @return HTC_OK; HTC_EINVAL; HTC_EABI; HTC_ENOMEM
 *
 * Cost: O(log events + dials of the node).   Since: 0.2
 */
HTC_API htc_status htc_sim_dial(htc_sim_node *node, uint32_t peer, htc_sim_node *target,
                                const htc_sim_dial_options *options);

/**
 * End a connection that htc_sim_dial keeps, or is about to make: it is not made again.
 *
 * @param[in,out] node  up
 * @param[in]     peer  the number that it was dialled with
 * @return HTC_OK: the machine is told HTC_IN_CLOSED if there was a connection; HTC_ENOTFOUND: nothing is dialled under that number; HTC_EINVAL:
 *         node is NULL; or what the run has failed with
 *
 * Cost: O(dials of the node).   Since: 0.2
 */
HTC_API htc_status htc_sim_hang_up(htc_sim_node *node, uint32_t peer);

/**
 * Break the connections between two nodes; what is under way is lost, both are told.
 *
 * @param[in,out] a  a node
 * @param[in,out] b  another, or the same
 * @return HTC_OK; HTC_EINVAL; HTC_ENOMEM
 *
 * Cost: O(connections of a).   Since: 0.2
 */
HTC_API htc_status htc_sim_break(htc_sim_node *a, htc_sim_node *b);

/**
 * What links do from now on.
 *
 * @param[in,out] sim   the run
 * @param[in]     from  messages of this node; NULL together with to: of every link that has none of its own
 * @param[in]     to    to this node
 * @param[in]     net   copied; NULL: as all the others
 * @return HTC_OK; HTC_EINVAL; HTC_EABI; HTC_ENOMEM
 *
 * Cost: O(1) expected.   Since: 0.2
 */
HTC_API htc_status htc_sim_set_net(htc_sim *sim, htc_sim_node *from, htc_sim_node *to, const htc_sim_net *net);

/**
 * Switch loss, duplication, reordering, delay, cutting and breaking of all links off, or on again. Partitions and clogs are not touched.
 *
 * @param[in,out] sim  the run
 * @param[in]     on   0 or 1
 * @return HTC_OK; HTC_EINVAL
 *
 * Cost: O(1).   Since: 0.2
 */
HTC_API htc_status htc_sim_net_faults(htc_sim *sim, int on);

/**
 * Let nothing through from one node to another, or let it again. Messages that are sent or would arrive meanwhile are lost, those
 * of faithful nodes wait; connections stay, half open, and new ones are not made.
 *
 * @param[in,out] from     sender
 * @param[in,out] to       receiver; the other direction is a link of its own
 * @param[in]     blocked  1 or 0
 * @return HTC_OK; HTC_EINVAL; HTC_ENOMEM
 *
 * Cost: O(1) expected.   Since: 0.2
 */
HTC_API htc_status htc_sim_block(htc_sim_node *from, htc_sim_node *to, int blocked);

/** Which ways a partition cuts. */
typedef enum htc_sim_ways {
    HTC_SIM_BOTH = 1, /**< nothing goes out of the set and nothing comes in */
    HTC_SIM_OUT,      /**< its messages reach nobody outside, it hears the others */
    HTC_SIM_IN        /**< it hears nobody outside, the others hear it */
} htc_sim_ways;

/**
 * Cut a set of nodes off from all others, as htc_sim_block of every pair would. Partitions may overlap, up to 64 at once.
 *
 * @param[in,out] sim    the run
 * @param[in]     name   of the partition, at most 31 long; one of that name is replaced
 * @param[in]     nodes  the set; borrowed
 * @param[in]     count  its size
 * @param[in]     ways   htc_sim_ways
 * @return HTC_OK; HTC_EINVAL; HTC_EFULL; HTC_ENOMEM
 *
 * Cost: O(nodes).   Since: 0.2
 */
HTC_API htc_status htc_sim_partition(htc_sim *sim, const char *name, htc_sim_node *const *nodes, size_t count,
                                     uint32_t ways);

/**
 * End a partition.
 *
 * @param[in,out] sim   the run
 * @param[in]     name  of htc_sim_partition; NULL: all of them, and every htc_sim_block
 * @return HTC_OK; HTC_EINVAL; HTC_ENOTFOUND; HTC_ENOMEM
 *
 * Cost: O(nodes + links).   Since: 0.2
 */
HTC_API htc_status htc_sim_heal(htc_sim *sim, const char *name);

/**
 * Stop a link: what is on it waits, and comes all at once at the end.
 *
 * @param[in,out] from  sender
 * @param[in,out] to    receiver
 * @param[in]     span  from now, unless it is clogged for longer already; 0: let everything through now
 * @return HTC_OK; HTC_EINVAL; HTC_ENOMEM
 *
 * Cost: O(1) expected, and O(what waits x log events) at the end.   Since: 0.2
 */
HTC_API htc_status htc_sim_clog(htc_sim_node *from, htc_sim_node *to, htc_ns span);

/**
 * Does a message get from one node to the other at this moment, as far as blocks, partitions and clogs are concerned?
 *
 * @param[in] from  sender
 * @param[in] to    receiver
 * @return 1 or 0
 *
 * Cost: O(1) expected.   Since: 0.2
 */
HTC_API int htc_sim_passes(const htc_sim_node *from, const htc_sim_node *to);

/* ---- the run ---- */

/**
 * Call a function at a moment.
 *
 * @param[in,out] sim  the run
 * @param[in]     at   on htc_sim_now's clock; a past one is now, HTC_NEVER is not at all
 * @param[in]     fn   called once; may do everything but run or destroy the simulation
 * @param[in]     ctx  handed to fn: kept if size is 0, else size bytes of it are copied, and the copy is lent to fn
 * @param[in]     size see ctx
 * @return HTC_OK; HTC_EINVAL; HTC_ENOMEM
 *
 * Cost: O(size + log events).   Since: 0.2
 */
HTC_API htc_status htc_sim_at(htc_sim *sim, htc_ns at, void (*fn)(htc_sim *sim, void *ctx), void *ctx, size_t size);

/**
 * Deliver the next event.
 *
 * @param[in,out] sim  the run; not from inside a callback
 * @return HTC_OK; HTC_EMPTY if nothing will ever happen again; the run's failure; HTC_EINVAL
 *
 * Cost: O(log events) and the step.   Since: 0.2
 */
HTC_API htc_status htc_sim_next(htc_sim *sim);

/**
 * Deliver everything up to a span from now; the clock then stands there, whether there was anything or not.
 *
 * @param[in,out] sim   the run; not from inside a callback
 * @param[in]     span  of virtual time; HTC_NEVER: until nothing is left, and the clock stands at the last event. That is no bound: it
 *                      does not return while machines have deadlines, or a dial is tried again and again
 * @return HTC_OK; the run's failure; HTC_EINVAL
 *
 * Cost: of its events.   Since: 0.2
 */
HTC_API htc_status htc_sim_run(htc_sim *sim, htc_ns span);

/**
 * Deliver until something is true: require progress within a bound.
 *
 * @param[in,out] sim   the run; not from inside a callback
 * @param[in]     span  the bound, of virtual time; HTC_NEVER: as long as something is left
 * @param[in]     what  for the failure: "no progress: …"; borrowed
 * @param[in]     done  asked before the first event and after each: 1 when it is so
 * @param[in]     ctx   handed to done
 * @return HTC_OK; HTC_ETIMEDOUT, and the run has failed; the run's failure; HTC_EINVAL
 *
 * Cost: of its events.   Since: 0.2
 */
HTC_API htc_status htc_sim_settle(htc_sim *sim, htc_ns span, const char *what, int (*done)(void *ctx), void *ctx);

/**
 * The virtual clock.
 *
 * @param[in] sim  not NULL
 * @return the moment: of the event that is being delivered
 *
 * Cost: O(1).   Since: 0.2
 */
HTC_API htc_ns htc_sim_now(const htc_sim *sim);

/**
 * What a perfect wall clock shows: for a scenario; a node has a clock of its own.
 *
 * @param[in] sim  not NULL
 * @return time since 1970
 *
 * Cost: O(1).   Since: 0.2
 */
HTC_API htc_ns htc_sim_wall(const htc_sim *sim);

/**
 * A random stream for a consumer: the same for the same seed and name, whoever else draws.
 *
 * @param[in] sim   not NULL
 * @param[in] name  of the consumer; borrowed
 * @return the stream
 *
 * Cost: O(length of name).   Since: 0.2
 */
HTC_API htc_rng htc_sim_rng(const htc_sim *sim, const char *name);

/**
 * A hash of every input that was delivered to a machine: time, node, kind, peer, op, tag, status and body. Two runs with the
 * same hash were the same run.
 *
 * @param[in] sim  not NULL
 * @return the hash so far
 *
 * Cost: O(1).   Since: 0.2
 */
HTC_API uint64_t htc_sim_hash(const htc_sim *sim);

/**
 * How many events were delivered.
 *
 * @param[in] sim  not NULL
 * @return so far, those included that met nobody
 *
 * Cost: O(1).   Since: 0.2
 */
HTC_API uint64_t htc_sim_events(const htc_sim *sim);

/**
 * A check was not met: the run has failed. The first failure stays.
 *
 * @param[in,out] sim   the run
 * @param[in]     text  why; copied up to some 900 bytes, with the seed and the time in front
 * @return HTC_EINTERNAL, or the failure there was before; HTC_EINVAL
 *
 * Cost: O(length).   Since: 0.2
 */
HTC_API htc_status htc_sim_fail(htc_sim *sim, const char *text);

/**
 * Why the run has failed.
 *
 * @param[in] sim  not NULL
 * @return lends one line with seed and time, as long as the run lives; NULL: it has not
 *
 * Cost: O(1).   Since: 0.2
 */
HTC_API const char *htc_sim_failure(const htc_sim *sim);

/**
 * How the run is.
 *
 * @param[in] sim  NULL: HTC_EINVAL
 * @return HTC_OK; HTC_EINTERNAL after htc_sim_fail; HTC_ETIMEDOUT after htc_sim_settle; HTC_ENOMEM if memory was refused; the
 *         status of a step that failed
 *
 * Cost: O(1).   Since: 0.2
 */
HTC_API htc_status htc_sim_status(const htc_sim *sim);

/**
 * Put a line into the trace.
 *
 * @param[in,out] sim   the run
 * @param[in]     text  borrowed; nothing is done with it if nobody traces
 *
 * Cost: O(length).   Since: 0.2
 */
HTC_API void htc_sim_note(htc_sim *sim, const char *text);

/**
 * Does somebody take the trace? So that notes need not be written for nobody.
 *
 * @param[in] sim  not NULL
 * @return 1 or 0
 *
 * Cost: O(1).   Since: 0.2
 */
HTC_API int htc_sim_traced(const htc_sim *sim);

#ifdef __cplusplus
}
#endif
#endif
