/**
 * @file htcsched/sim_kvs.h
 * @brief The design space of key-value stores: a scale model of clients, servers, copies and failures.
 *
 * Library htcsched-sim (`pkg-config --libs htcsched-sim`).
 *
 * Clients send one request after the other to a store that is one server (`csingle`), one server behind aggregators (`ctree`), servers that
 * all know each other (`dfc`), or servers with finger tables (`dchord`). A run counts messages and takes the time. A million clients:
 *
 *     #include <stdio.h>
 *     #include <htcsched/sim_kvs.h>
 *     int main(void)
 *     {
 *         htc_sim_kvs_options o = { .size = sizeof o, .model = HTC_SIM_KVS_DFC, .clients = 1 << 20, .copies = 3 };
 *         htc_sim_kvs_report  r = { .size = sizeof r };
 *         if (htc_sim_kvs_run(NULL, &o, &r, NULL) != HTC_OK)
 *             return 1;
 *         printf("%.1f s, efficiency %.1f %%, %llu messages\n", r.time_s, 100 * r.efficiency, (unsigned long long)r.requests.sent);
 *     }
 *
 * Costs. A client packs a message, which travels for size / bandwidth + latency; a server unpacks it, serves or forwards it, and packs what it
 * sends. A server has two clocks, of its communication and of its processing. What the queues are is htc_sim_kvs_queues.
 *
 * Our own store (`live`). A key's owners are those of htc_ring_owners, and clients ask the first of them. It reads, or writes if it knows what
 * the key's last ballot was, in one round trip to a majority of the owners; else it prepares first. Requests of one key are taken one after the other, reads that
 * wait are read together. Members and clients' programs work in turns: all that has come is worked on, and each connection is sent one frame, as soon as all of
 * it is there. A member syncs the changes of all its waiting requests together. It has one sync under way at a time, and takes a turn
 * between two syncs. There are no failures; a client may have
 * several requests on their way. A member's costs are turn_ns for each turn, wake_ns if it had waited for it, unpack_ns and pack_ns for each frame, and
 * service_ns for a request at the owner that was asked; where there are several, accept_ns for each owner's part and for an answer at the first; commit_ns for
 * each sync and write_ns for each change in it, besides the time that the sync itself takes.
 *
 * What is simplified: what a server has received before it fails it still answers; a refusal takes the time of a message, costs nobody
 * anything and is not counted; links do not fail; all messages but copies of data have one size.
 *
 * Conservation, in report.scale.wrong: requests answered + failed = submitted; messages sent = received + lost, of each kind; the servers
 * together worked no longer than there was time.
 *
 * Threads: pure: runs share nothing.   Allocation: through env; given back when the run is over.   Source: doc/papers.md.
 */
#ifndef HTCSCHED_SIM_KVS_H
#define HTCSCHED_SIM_KVS_H

#include "htcsched/sim_scale.h"

#ifdef __cplusplus
extern "C" {
#endif

/** A run has at most this many clients, */
#define HTC_SIM_KVS_CLIENTS_MAX (UINT64_C(1) << 28)
/** servers, */
#define HTC_SIM_KVS_SERVERS_MAX (UINT32_C(1) << 20)
/** and copies of a key. */
#define HTC_SIM_KVS_COPIES_MAX 8
/** Of the model of our own store, requests of a client on their way at once; of all clients HTC_SIM_KVS_CLIENTS_MAX. */
#define HTC_SIM_KVS_DEPTH_MAX 65536

/** htc_sim_kvs_exact: so many members, */
#define HTC_SIM_KVS_EXACT_SERVERS_MAX 64
/** clients, */
#define HTC_SIM_KVS_EXACT_CLIENTS_MAX 1024
/** requests of one on their way at once, */
#define HTC_SIM_KVS_EXACT_DEPTH_MAX 4096
/** and keys. */
#define HTC_SIM_KVS_EXACT_KEYS_MAX 16777216

/** Who holds a key, and who knows whom. */
typedef enum htc_sim_kvs_model {
    HTC_SIM_KVS_CSINGLE = 0, /**< one server holds all; the other copies are stand-by servers */
    HTC_SIM_KVS_CTREE,       /**< as csingle, behind aggregators, one for 1024 clients: each sends the requests of all its clients in one message */
    HTC_SIM_KVS_DFC,         /**< keys are divided, every server knows all others: a request is forwarded at most once */
    HTC_SIM_KVS_DCHORD,      /**< keys are divided, a server knows those at distances 1, 2, 4, ...: a look-up goes there and back hop by hop, then the request goes to the owner */
    HTC_SIM_KVS_LIVE         /**< this library's own store: a register for each key over a majority of its owners; see below */
} htc_sim_kvs_model;

/** Published costs of two machines. */
typedef enum htc_sim_kvs_machine {
    HTC_SIM_KVS_BGP = 0, /**< 6.8 Gb/s, 100 us, 50 us to pack or unpack, service 500 us times a factor: 637 us at 1024 clients */
    HTC_SIM_KVS_KODIAK   /**< 1 Gb/s, 12 us, 40 us, 1500 us times the same factor */
} htc_sim_kvs_machine;

/** Whom a client asks. */
typedef enum htc_sim_kvs_select {
    HTC_SIM_KVS_SELECT_SERVER = 0, /**< its one dedicated server, which forwards */
    HTC_SIM_KVS_SELECT_CLIENT      /**< the key's owner: every client has the list of servers */
} htc_sim_kvs_select;

/** How the two queues of a server work together. */
typedef enum htc_sim_kvs_queues {
    HTC_SIM_KVS_COUPLED = 0, /**< receiving, serving and sending are booked when a message arrives: a server is in effect serial, as in the published code */
    HTC_SIM_KVS_PARALLEL     /**< communication and processing go on side by side, as in the published text; an event more for each message */
} htc_sim_kvs_queues;

/** What an answer waits for where a key has copies. */
typedef enum htc_sim_kvs_consistency {
    HTC_SIM_KVS_STRONG = 0, /**< the primary answers gets at once; a put waits for all copies */
    HTC_SIM_KVS_EVENTUAL,   /**< any copy coordinates and asks all; reads or writes of them suffice; vector clocks if keys are few (options.keys) */
    HTC_SIM_KVS_MAJORITY    /**< the primary asks all, and a majority suffices for gets and puts: one round trip of this library's registers */
} htc_sim_kvs_consistency;

/** Which server owns a key, of dfc. */
typedef enum htc_sim_kvs_placement {
    HTC_SIM_KVS_MODULO = 0, /**< the key modulo the number of servers; copies at the next numbers */
    HTC_SIM_KVS_RING        /**< htc_ring_find; copies by htc_ring_owners */
} htc_sim_kvs_placement;

/** What a client does that a server refuses. A new request begins with the dedicated server again. */
typedef enum htc_sim_kvs_strategy {
    HTC_SIM_KVS_MULTI_TRIAL = 0, /**< it tries the server options.tries times, then the next copy */
    HTC_SIM_KVS_TIMEOUT,         /**< it waits options.timeout_ns, then tries the next copy */
    HTC_SIM_KVS_ROUND_ROBIN      /**< it tries the next copy */
} htc_sim_kvs_strategy;

/** How servers learn of failures. */
typedef enum htc_sim_kvs_notify {
    HTC_SIM_KVS_EAGER = 0, /**< the monitor tells one, which tells all (dfc) or looks up those that have the failed one in their fingers (dchord) */
    HTC_SIM_KVS_LAZY       /**< the monitor tells the next server alone; others learn by a refusal, and from messages of servers that know more */
} htc_sim_kvs_notify;

/** What is run; every field's zero is a default. */
typedef struct htc_sim_kvs_options {
    size_t   size;         /**< sizeof(htc_sim_kvs_options) */
    uint64_t seed;         /**< of keys, stalls and failures */
    uint64_t clients;      /**< 1 to HTC_SIM_KVS_CLIENTS_MAX */
    uint32_t model;        /**< htc_sim_kvs_model */
    uint32_t servers;      /**< at most HTC_SIM_KVS_SERVERS_MAX; 0: one for 1024 clients, at least one. csingle and ctree: one for each copy, whatever this says */
    uint32_t requests;     /**< of each client; 0: 10 */
    uint32_t machine;      /**< htc_sim_kvs_machine: what costs are if they are 0 */
    uint32_t select;       /**< htc_sim_kvs_select, of dfc and dchord */
    uint32_t queues;       /**< htc_sim_kvs_queues */
    uint32_t consistency;  /**< htc_sim_kvs_consistency */
    uint32_t copies;       /**< N: of each key, in all; 0: 1; no more than there are servers */
    uint32_t reads;        /**< R, eventual; 0: 2, at most N */
    uint32_t writes;       /**< W, eventual; 0: 2, at most N */
    uint32_t placement;    /**< htc_sim_kvs_placement */
    uint32_t strategy;     /**< htc_sim_kvs_strategy */
    uint32_t tries;        /**< multi-trial; 0: 3; at most 31 */
    uint32_t notify;       /**< htc_sim_kvs_notify */
    uint32_t synchronised; /**< 1: all clients begin at once; 0: each after a stall */
    uint32_t no_puts;      /**< 1: all requests are gets */
    double   puts;         /**< part of the requests, 0 to 1; 0: a half */
    uint64_t keys;         /**< there are so many, all equally likely unless weights says else; 0: each request has a key of its own, and no clocks are kept */
    const double *weights; /**< of the keys, 0 or more each; borrowed; NULL: all the same */
    htc_ns   stall_ns;     /**< the longest, drawn evenly; 0: 100 ms */
    htc_ns   timeout_ns;   /**< of HTC_SIM_KVS_TIMEOUT; 0: 1 s */
    htc_ns   failure_ns;   /**< so often a server that is drawn goes down, or up if it was down, while there are clients; 0: never */
    htc_ns   first_failure_ns; /**< 0: 5 ms */
    htc_ns   tick_ns;      /**< length of a tick; 0: 100 ns */
    uint64_t bandwidth;    /**< bits a second; 0: of the machine */
    htc_ns   latency_ns;   /**< one way; 0: of the machine */
    htc_ns   pack_ns;      /**< of a client and of a server; 0: of the machine */
    htc_ns   unpack_ns;    /**< the same */
    htc_ns   service_ns;   /**< of one operation; 0: of the machine: 637 us (BG/P) for dfc and dchord, by the number of clients for csingle and ctree */
    uint64_t bytes;        /**< of a message; 0: 10240 */
    uint64_t messages_max; /**< of copies and failures, at once; 0: N - 1 for each client if strong, for each request if R or W is 1, else for 4 requests of each client; with failures twice that, 4 for each server, and 1024. live: 3 N + 2 for each request that can be on its way, and 1024 */
    uint32_t depth;        /**< live: requests of each client that are on their way at once; 0: 1 */
    uint32_t programs;     /**< live: in which the clients are; 0: one for each */
    uint32_t cores;        /**< live: of the one machine on which members and programs run; 0: each has its own */
    htc_ns   sync_ns;      /**< live: of a disk; 0: durable at once */
    htc_ns   commit_ns;    /**< live: of a member, for each sync */
    htc_ns   write_ns;     /**< live: the same, for each change in it */
    htc_ns   turn_ns;      /**< live: of a member or a program, for each turn */
    htc_ns   wake_ns;      /**< live: the same, besides, if it had waited for something to do */
    htc_ns   accept_ns;    /**< live: where there are several, of each owner for its part, and of the first one for each answer of another */
    htc_ns   client_ns;    /**< live: of a program, for each request */
    const htc_scale_host *host;       /**< borrowed; NULL: every default */
    const htc_scale_tape *resume;     /**< borrowed; it reads a checkpoint of the same options, and the run goes on from there. NULL: it begins */
    const htc_scale_tape *checkpoint; /**< borrowed; a run that the host stops is written there. NULL: nowhere */
    htc_ns   idle_ns;      /**< live: until a core that has nothing to do begins with what has come, which is no processor time; 0: at once */
} htc_sim_kvs_options;

/** Messages of one kind. */
typedef struct htc_sim_kvs_count {
    uint64_t sent;     /**< in all */
    uint64_t received; /**< of these */
    uint64_t lost;     /**< of these: the server was down */
} htc_sim_kvs_count;

/** How it went. */
typedef struct htc_sim_kvs_report {
    size_t   size;        /**< sizeof(htc_sim_kvs_report), set by the caller */
    uint32_t interrupted; /**< 1: the host has stopped it, and this is what there was */
    uint32_t servers;     /**< of the store */
    uint32_t aggregators; /**< of ctree */
    uint32_t flips;       /**< servers that went down or up */
    uint64_t submitted;   /**< requests, and puts that write back */
    uint64_t answered;    /**< of these */
    uint64_t failed;      /**< of these: no copy could be asked, or too few accepted a put */
    uint64_t write_backs; /**< of these: puts of a client that has read several versions */
    uint64_t conflicts;   /**< copies whose clock was not before the other one */
    uint64_t refused;     /**< times that a client was refused */
    htc_sim_kvs_count requests;    /**< messages of clients, forwarded ones, look-ups and answers */
    htc_sim_kvs_count consistency; /**< messages between copies */
    htc_sim_kvs_count failures;    /**< messages about failures, and data that they move */
    htc_ns   service_ns;  /**< of one operation */
    double   time_s;      /**< until the last client has unpacked its last answer */
    double   throughput;  /**< requests that were answered, a second */
    double   efficiency;  /**< these times the service time, as a part of what all servers together had */
    double   busy;        /**< part of the time in which a server worked, on average */
    double   response_s;  /**< of a request, on average */
    double   client_rate; /**< requests a second of one client, on average */
    double   client_rate_deviation; /**< of these rates, standard deviation */
    uint64_t memory;      /**< bytes of the model and the engine */
    uint64_t syncs;       /**< live: of all members */
    uint64_t turns;       /**< live: of all members and programs */
    double   members_s;   /**< live: CPU time that members took, in seconds, all together */
    double   programs_s;  /**< live: the same of programs */
    htc_scale_report scale; /**< of the engine, its size set by the callee; wrong: what is not conserved. A task is a request on its last way */
} htc_sim_kvs_report;

/**
 * What a run needs, before it is begun.
 *
 * @param[in]  options  borrowed
 * @param[out] bytes    of memory; untouched on failure
 * @return HTC_OK; HTC_EINVAL if a pointer is NULL or a number out of range; HTC_EABI
 *
 * Cost: O(1).   Since: 0.2
 */
HTC_API htc_status htc_sim_kvs_memory(const htc_sim_kvs_options *options, uint64_t *bytes);

/**
 * Run until every client has its last answer, or the host stops it.
 *
 * @param[in]  env      its allocator alone is looked at (NULL: malloc)
 * @param[in]  options  borrowed
 * @param[out] report   filled as far as its size says
 * @param[out] error    why; NULL is fine
 * @return HTC_OK, whatever became of the run; HTC_EINVAL if something is missing or out of range; HTC_EFULL: more messages at once than
 *         messages_max; HTC_EFORMAT: the checkpoint is not of these options; HTC_ECORRUPT; what a tape answers; HTC_ETOOBIG: it needs more memory
 *         than host.memory_max, or more ticks than there are; HTC_EABI; HTC_ENOMEM
 *
 * Cost: 30 to 90 ns a message; 41 bytes a client, and 33 for each message of messages_max. Of live 60 to 110 ns an event, 90 bytes a request on its way, and 52 for each of messages_max.   Since: 0.2
 */
HTC_API htc_status htc_sim_kvs_run(const htc_env *env, const htc_sim_kvs_options *options, htc_sim_kvs_report *report, htc_error *error);

/**
 * Run the same experiment of our own store (HTC_SIM_KVS_LIVE) in the exact engine: real members (htc_kv_server) and clients (htc_kv_client), message by message
 * (htcsched/sim.h). What a turn of a member or a program takes is counted with the same costs. Members and clients know each other before the run begins.
 *
 * Messages have the size that they have (values of 128 bytes): bytes is not looked at, and neither are tick_ns and messages_max. The same keys are drawn for
 * the same requests as in the model; which members own them is drawn by the store.
 *
 * @param[in]  env      its allocator alone is looked at (NULL: malloc)
 * @param[in]  options  borrowed; of host stop, stop_after, progress and memory_max
 * @param[out] report   filled as far as its size says
 * @param[out] error    why; NULL is fine
 * @return HTC_OK, whatever became of the run; HTC_EUNSUPPORTED: another model, a checkpoint, or no number of keys; HTC_ETOOBIG: more than the limits above, or
 *         than host.memory_max bytes;
 *         HTC_EINVAL if something is missing or out of range; HTC_EABI; HTC_ENOMEM
 *
 * Cost: some 20 us a request.   Since: 0.2
 */
HTC_API htc_status htc_sim_kvs_exact(const htc_env *env, const htc_sim_kvs_options *options, htc_sim_kvs_report *report, htc_error *error);

#ifdef __cplusplus
}
#endif
#endif
