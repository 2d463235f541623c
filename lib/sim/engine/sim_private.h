/* The inside of a run: events in a heap, nodes, connections between them, and the links that these share.
 *
 *   sim.c     the run: create, deliver, fail, the trace and its hash
 *   queue.c   the order of events, and their memory
 *   node.c    nodes: a machine's life, its steps, its effects
 *   clock.c   what a node believes of time
 *   conn.c    connections: dialling, messages, breaking
 *   stream.c  connections of bytes, cut anywhere
 *   points.c  fault points inside the code that runs
 *   link.c    what a pair of nodes shares: latency, faults, blocks, partitions, clogs
 */
#ifndef HTC_SIM_PRIVATE_H
#define HTC_SIM_PRIVATE_H

#include "core/codec.h"
#include "htcsched/sim.h"

#define SIM_NAME_MAX       64
#define SIM_PARTITIONS_MAX 64
#define SIM_CLASSES        12 /* of bodies: 64 B << 0 .. 11, 128 KiB; longer ones go back to the allocator */
#define SIM_BODY_MIN       64

typedef struct sim_event sim_event;
typedef struct sim_conn  sim_conn;
typedef struct sim_link  sim_link;
typedef struct sim_dial  sim_dial;

/* One thing that will happen. Exactly one of three: a call of fn, an input for a node, or a dial. */
struct sim_event {
    htc_sim_node *node; /* whose input; NULL: none */
    uint64_t      incarnation;
    sim_conn     *conn; /* of a message, OPENED or CLOSED: holds a reference */
    sim_dial     *dial; /* to be tried */
    sim_event    *next; /* in a list of free or of waiting events */
    void (*fn)(htc_sim *sim, void *ctx);
    void     *ctx;
    uint64_t  offset; /* of a stream: all bytes up to here have arrived */
    htc_input in;
    uint32_t  to;       /* which end of conn */
    uint32_t  by_link;  /* travels: blocks and clogs matter to it */
    uint32_t  released; /* by a link or a node that held it: goes before what arrives at the same moment */
    uint32_t class;     /* of the room behind it */
    uint8_t body[];
};

typedef struct sim_list {
    sim_event *first, **last;
} sim_list;

typedef struct sim_slot {
    htc_ns     at;
    uint64_t   seq;
    sim_event *event;
} sim_slot;

typedef struct sim_queue {
    sim_slot  *heap; /* four children each: half the depth, and they share a cache line or two */
    size_t     count, cap;
    uint64_t   seq;
    sim_list   now; /* behind what the heap has for this moment */
    sim_event *free[SIM_CLASSES];
} sim_queue;

/* Bytes on their way to one end of a stream. */
typedef struct sim_pipe {
    htc_buf  bytes;     /* sent and not delivered yet */
    uint64_t delivered; /* how many ever */
    uint64_t arrived;   /* they may be delivered up to here */
    uint64_t tag;       /* of HTC_IN_SENT, owed to the sender; 0: none */
    uint64_t tag_at;    /* once all up to here is delivered */
    int      held;      /* the receiver reads no more */
    int      ended;     /* the sender says no more */
} sim_pipe;

/* One end of a connection. */
typedef struct sim_end {
    htc_sim_node *node;
    uint64_t      incarnation;
    uint32_t      peer;
    uint32_t      port;
    int           open;         /* 1: its machine has been told OPENED; -1: and CLOSED, nothing more comes */
    int           greeted;      /* the first message to this end has been sent */
    htc_ns        last_arrival; /* at this end: order is kept */
    sim_link     *link;         /* to this end */
    sim_pipe      pipe;         /* of a stream: to this end */
} sim_end;

struct sim_conn {
    sim_end   end[2]; /* 0 has dialled */
    sim_dial *dial;
    uint32_t  refs;     /* events that name it, tables that hold it */
    int       faithful; /* delays only */
    int       stream;   /* bytes, not messages */
    int       broken;   /* nothing more is sent */
    int       cut;      /* what was under way is lost */
    sim_conn *next;     /* free */
};

struct sim_dial {
    htc_sim_node *node, *target, *other; /* other: tried next; NULL: the target is */
    uint64_t      incarnation;
    uint32_t      peer;
    uint32_t      port, listener, once, stream, refused;
    uint32_t      pending; /* events that name it, and its target's list: the last one frees it if it is dead then */
    int           dead;    /* the machine that wanted it is gone */
    uint64_t      seq;     /* its place among the dials of one moment, from one connection to the next */
    htc_ns        tried;   /* in vain, when last */
    sim_dial     *next;    /* of the node, or free */
    sim_dial     *next_waiting;
};

/* From one node to another, one direction. */
struct sim_link {
    uint64_t      key;
    htc_rng       rng;
    htc_sim_net   own;
    int           has_own;
    int           blocked;
    htc_ns        clogged_until;
    htc_ns        wire_free; /* bandwidth: when the last byte has left */
    sim_list      held;
    uint32_t      releasing; /* events that were held and are about to be delivered */
    sim_link     *next_held; /* in sim->holding */
    int           holding;
    htc_sim_node *from, *to;
};

/* What became of messages, for those who want to know that faults took place. */
enum { SIM_MET_LOST, SIM_MET_DOUBLED, SIM_MET_REORDERED, SIM_MET_DELAYED, SIM_MET_BROKEN, SIM_MET };

typedef struct sim_partition {
    char     name[32];
    uint32_t ways; /* 0: free */
} sim_partition;

typedef struct sim_clock {
    htc_ns  since; /* virtual time of the last change */
    htc_ns  now;   /* what the clock showed then */
    int32_t drift_ppm;
    int64_t wall; /* how much the wall clock is ahead of it */
} sim_clock;

/* Peer numbers to connections: open addressing. */
typedef struct sim_peer {
    sim_conn *conn; /* NULL: free */
    uint32_t  peer;
    int       side; /* which end of it is this node's */
} sim_peer;

typedef struct sim_peers {
    sim_peer *slots;
    uint32_t  cap, count;
} sim_peers;

struct htc_sim_node {
    htc_sim               *sim;
    uint32_t               id;
    char                   name[SIM_NAME_MAX];
    htc_sim_node_options   options;
    const htc_machine_ops *ops;
    void                  *machine; /* what ops are for; up says whether there is one */
    int                    up, booting, turn_due;
    int                    begun; /* its machine has been told START: it may be asked for its deadline */
    uint64_t               incarnation;
    htc_ns                 paused_until; /* 0: runs */
    sim_list               held;         /* what happened while it was stopped */
    uint32_t               releasing;    /* events that were held and are about to be delivered */
    htc_ns                 deadline;     /* of its machine, by its own clock */
    htc_ns                 timer_at;     /* the earliest event that will look at the deadline; HTC_NEVER: none */
    sim_clock              clock;
    sim_peers              peers;
    uint32_t               next_peer;
    sim_dial              *dials;
    sim_dial              *callers, **last_caller; /* that wait until this node can be reached */
    uint64_t               sets; /* partitions that it is inside of */
    htc_rng                rng;
    htc_env                env;
    htc_log                log;
    htc_fault              fault;
    htc_rng                points;
};

struct htc_sim {
    htc_env         env;
    htc_sim_options options;
    htc_sim_net     net;
    int             net_faults, points_on, busy;
    htc_ns          now;
    uint64_t        events, hash, still;
    uint64_t        met[SIM_MET];
    sim_queue       queue;
    htc_sim_node  **nodes;
    size_t          n_nodes, cap_nodes;
    sim_link      **links; /* open addressing by key */
    size_t          n_links, cap_links;
    sim_link       *holding; /* links on which something waits */
    sim_partition   partitions[SIM_PARTITIONS_MAX];
    uint64_t        cut_in, cut_out; /* partitions by way, a bit each */
    sim_conn       *free_conns;
    sim_dial       *free_dials;
    htc_rng         root;
    htc_output     *out;
    htc_status      status;
    char            failure[1024];
};

/* Of spans and moments: HTC_NEVER at most. */
static inline htc_ns htc__sim_sum(htc_ns a, htc_ns b)
{
    return a > HTC_NEVER - b ? HTC_NEVER : a + b;
}

/* So long after now. */
static inline htc_ns htc__sim_after(const htc_sim *sim, htc_ns span)
{
    return htc__sim_sum(sim->now, span);
}

/* 0 .. most. */
static inline htc_ns htc__sim_up_to(htc_rng *rng, htc_ns most)
{
    return most == HTC_NEVER ? htc_rng_next(rng) : htc_rng_below(rng, most + 1);
}

/* queue.c */
sim_event *htc__sim_event(htc_sim *sim, htc_sim_node *node, const htc_input *in); /* NULL: refused, and said so */
void       htc__sim_event_free(htc_sim *sim, sim_event *e);
/* Takes e, also when it is refused. At HTC_NEVER: it does not take place. */
htc_status htc__sim_push(htc_sim *sim, sim_event *e, htc_ns at);
/* The same under a number that was used before: among those of one moment it is where it was then. */
htc_status htc__sim_push_as(htc_sim *sim, sim_event *e, htc_ns at, uint64_t seq);
int        htc__sim_due(const htc_sim *sim, htc_ns until); /* there is one up to then */
sim_event *htc__sim_pop(htc_sim *sim, htc_ns *at);         /* there is one */
void       htc__sim_queue_free(htc_sim *sim);
void       htc__sim_list_add(sim_list *list, sim_event *e);
sim_event *htc__sim_list_take(sim_list *list);

/* sim.c */
htc_status htc__sim_refused(htc_sim *sim); /* the run fails for want of memory */
void       htc__sim_notef(htc_sim *sim, const char *format, ...) __attribute__((format(printf, 2, 3)));
htc_status htc__sim_failf(htc_sim *sim, htc_status status, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
void htc__sim_trace(htc_sim *sim, const htc_sim_node *node, const htc_input *in);

/* node.c */
htc_status htc__sim_arm(htc_sim_node *node);
void       htc__sim_deliver(htc_sim *sim, sim_event *e); /* takes e */
void       htc__sim_node_free(htc_sim_node *node);

/* clock.c */
htc_ns htc__sim_clock_at(const sim_clock *c, htc_ns at);
/* The first virtual moment at which the clock shows this or more. */
htc_ns htc__sim_clock_when(const sim_clock *c, htc_ns shown, htc_ns now);

/* points.c */
void htc__sim_points(htc_sim_node *node); /* sets node->fault */

/* conn.c */
void htc__sim_send(htc_sim_node *node, const htc_effect *effect);
void htc__sim_close_peer(htc_sim_node *node, uint32_t peer, htc_status status);
void htc__sim_dial_try(htc_sim *sim, sim_dial *d);
void htc__sim_dial_unref(htc_sim *sim, sim_dial *d); /* its event is over */
void htc__sim_callers(htc_sim_node *target);         /* some of them may reach it now */
void htc__sim_callers_forget(htc_sim_node *target);  /* at the end of the run */
/* The node's machine is about to end: its connections break, its dials are over. */
void htc__sim_conns_gone(htc_sim_node *node);
void htc__sim_conns_forget(htc_sim_node *node); /* the same at the end of the run: nobody is told */
/* Its link holds the event, or has lost it: 1, and it is taken. */
int htc__sim_conn_stopped(htc_sim *sim, sim_event *e);
/* What the state of its connection says of an event: 1 to deliver it. */
int  htc__sim_conn_event(htc_sim *sim, sim_event *e);
void htc__sim_conn_unref(htc_sim *sim, sim_conn *c);
void htc__sim_conns_free(htc_sim *sim);

sim_conn  *htc__sim_conn_of(htc_sim_node *node, uint32_t peer, int *side); /* one that can send; NULL: none */
sim_event *htc__sim_event_to(sim_conn *c, int to, const htc_input *in);    /* NULL: refused, and said so */
htc_ns     htc__sim_arrival(htc_sim *sim, sim_link *link, size_t len);
void       htc__sim_sever(sim_conn *c, htc_status status, int cause);

/* stream.c */
void htc__sim_send_bytes(htc_sim_node *node, const htc_effect *effect);
void htc__sim_hold(htc_sim_node *node, const htc_effect *effect);
/* Bytes have arrived: an event with those that may be delivered now, or NULL. */
sim_event *htc__sim_bytes(htc_sim *sim, const sim_event *e);
void       htc__sim_stream_close(sim_conn *c, htc_status status, int side);

/* link.c */
sim_link          *htc__sim_link(htc_sim_node *from, htc_sim_node *to); /* NULL: refused, and said so */
const htc_sim_net *htc__sim_link_net(const htc_sim *sim, const sim_link *link);
int                htc__sim_link_cut(const sim_link *link); /* blocked or partitioned */
int                htc__sim_link_clogged(const htc_sim *sim, const sim_link *link);
void               htc__sim_link_hold(htc_sim *sim, sim_link *link, sim_event *e); /* takes e */
htc_ns             htc__sim_link_latency(htc_sim *sim, sim_link *link);
int                htc__sim_link_chance(htc_sim *sim, sim_link *link, uint32_t ppm);
void               htc__sim_links_free(htc_sim *sim);

#endif
