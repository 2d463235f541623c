/**
 * @file htcsched/kv_server.h
 * @brief The key-value store's server, alone or as one of several members: messages in, commits and answers out.
 *
 * Drive it as any machine (htcsched/machine.h): START first, then OPENED, MESSAGE, CLOSED of its peers, TIMEOUT,
 * STORED.
 *
 * Changes are staged in memory and leave as HTC_OUT_COMMIT whose body is one batch; the driver applies it
 * (engine->ops->apply, or somewhere else) and says HTC_IN_STORED with the same tag. One commit is in flight at a time;
 * what arrives meanwhile is the next one, so a driver gets group commit by handing over all messages of a loop turn
 * before it carries out the commit of the first, or by committing on another thread. Nothing that depends on a change,
 * a read included, is answered before that change is stored.
 *
 * Instead of an engine there may be a log (log_durability): then the records are in memory, and what the driver carries out are
 * calls with the requests of htcsched/disk.h. It serves once it has read the log (HTC_KV_SERVER_READY). A change that
 * the log has no room for yet waits for it, with all that is asked after it; while the disk is full changes are answered HTC_ENOSPC
 * and reads go on; what cannot be written or synced ends the server.
 *
 * STORED with HTC_EIO or HTC_ECORRUPT ends the server (HTC_OUT_STOP with that status): after a failed sync nobody knows
 * what is on the disk. With any other failure (HTC_ENOSPC) the batch is undone, its changes are answered with that
 * status, and reads go on.
 *
 * With several members (self, members), each key is kept by `owners` of them and goes on as long as a majority of those is
 * there; any member may be asked for any key. Members may be shards of one process: those of a process that is alone keep each key
 * once, and promise what a single member does. The driver connects each member to each other one: peers of these numbers that
 * open, again and again. What "stored" means has to outlive a restart then, and a member whose store is lost must come back as
 * another member. With namespaces, keys named by one of these are kept as siblings (htcsched/kv.h) instead; a single server without self has
 * none: HTC_EINVAL. A SCAN in the order of places is HTC_EUNSUPPORTED there, and keys that begin with a zero byte, "htc" and another zero
 * byte are the store's own: HTC_EINVAL. A request that no majority answers is answered HTC_ETIMEDOUT, and may be done later.
 *
 * Threads: owner.   Allocation: through env, bounded by the options.
 */
#ifndef HTCSCHED_KV_SERVER_H
#define HTCSCHED_KV_SERVER_H

#include "htcsched/kv.h"
#include "htcsched/kv_engine.h"
#include "htcsched/metrics.h"

#ifdef __cplusplus
extern "C" {
#endif

/** HTC_IN_EVENT with this op: commit what is staged, answer it, then HTC_OUT_STOP with HTC_OK. */
#define HTC_KV_SERVER_SHUTDOWN 64

/** HTC_OUT_CALL with this op, once and only with a log: all that is stored has been read, from now on it serves. (Peers that
 *  open before are closed with HTC_EBUSY.) It needs no answer. */
#define HTC_KV_SERVER_READY 65

/** HTC_OUT_CALL with this op, once, if options.tell_serving asks for it: with several members, a majority of the owners of every key
 *  is there, so that requests are answered. */
#define HTC_KV_SERVER_SERVING 66

/** HTC_OUT_CALL with this op, the address of a member in body and its id as the tag: keep a connection to it, as to those of
 *  options.members, and answer with four bytes, the number of that connection, low byte first. Only where members come that were not
 *  named at the start. */
#define HTC_KV_SERVER_DIAL 67

/** HTC_OUT_CALL with this op, once: the member has left the store, or another one has taken its place. It keeps nothing any more, and does
 *  not come back: end it (HTC_KV_SERVER_SHUTDOWN), and do not start it again with what it has stored. It needs no answer. */
#define HTC_KV_SERVER_LEFT 68

/** HTC_OUT_CALL with this op, once: this member, which asks to be let in (options.join), will not be, however long it asks. The reason is in
 *  body, in words, and the status, without its sign, is the tag: HTC_EFULL, there are as many members as buckets. End it
 *  (HTC_KV_SERVER_SHUTDOWN); what it has stored does no harm. It needs no answer. */
#define HTC_KV_SERVER_REFUSED 69

/** One of the members that keep a store together. */
typedef struct htc_kv_member {
    uint64_t id;     /**< drawn at random when its store was made, never 0, its own alone; a member that has lost its store gets another one */
    uint64_t domain; /**< members of one rack have the same; 0: none */
    uint32_t weight; /**< its share is in proportion to this; 0: 1 */
    uint32_t peer;   /**< the driver's number of the connection to it, not 0, its own alone; of the server itself: not used */
    uint64_t process; /**< shards of one process have the same: they are lost together, and no key is kept by two of them; 0: a
                           process of its own */
    const char *name; /**< whose key speaks as it, as the ring has it: connections that show another key are closed when they do.
                           NULL: any key of the role member. One that shows no key is this user's own, on this machine */
} htc_kv_member;

/** A set of keys that is eventual: a key has N copies, a change is answered when W of them have it, a read when R have answered. */
typedef struct htc_kv_namespace {
    size_t    size; /**< sizeof(htc_kv_namespace), of all of an array the same */
    htc_bytes name; /**< as htc_kv_request.space; not "default" */
    uint32_t  n;    /**< owners of a key, the first of its bucket's; 0: 3. Not more than htc_kv_server_options.owners */
    uint32_t  r;    /**< 1 to n; 0: 2 */
    uint32_t  w;    /**< 1 to n; 0: 2. A read sees what was answered before it if r + w > n */
} htc_kv_namespace;

/** The most prefixes of an htc_kv_reach. */
#define HTC_KV_REACH_MAX 128

/** What a connection may reach. */
typedef struct htc_kv_reach {
    uint32_t all;   /**< 1: everything */
    uint32_t count; /**< of prefixes */
    char     prefix[HTC_KV_REACH_MAX][32]; /**< keys that begin with one of these, text; leases too. Nothing else: not how many keys there
                                                are, nor who keeps them */
} htc_kv_reach;

/** How a server works; every field's zero is its default. */
typedef struct htc_kv_server_options {
    size_t        size;            /**< sizeof(htc_kv_server_options) */
    htc_kv_engine engine;          /**< kept, not destroyed; ops NULL: records are in memory, kept with the server, which then never
                                        commits. Not for one of several processes */
    uint32_t      connections_max; /**< 0: 256. Beyond: HTC_EBUSY and closed */
    uint32_t      inflight_max;    /**< messages of one connection not yet answered; 0: 8192. Beyond: "send again" */
    size_t        output_max;      /**< bytes of answers held for one connection; 0: 32 MiB. Beyond: "send again" */
    size_t        memory_max;      /**< bytes of records in memory (engine->ops->used); growing changes beyond it are
                                        answered HTC_EFULL; 0: no ceiling */
    uint32_t leases_max;           /**< 0: 65536. Beyond: HTC_EBUSY */
    uint32_t tombstones_max;       /**< deletions remembered one by one; 0: 10000 */
    htc_ns   lease_ttl_min;        /**< shorter ones are raised to it; 0: 1 ms */
    htc_ns   lease_ttl_max;        /**< longer ones are cut to it; 0: 1 hour */

    /* Several members: the same for all of them and for good, but for peer and self. */
    uint64_t             self;         /**< the id of this member; 0: it is the only one. Since: 0.2 */
    const htc_kv_member *members;      /**< all of them, this one too; borrowed. Since: 0.2 */
    uint32_t             member_count; /**< how many. Since: 0.2 */
    uint32_t             owners;       /**< how many keep each key, N; 0: 3. As many as there are processes if those are fewer.
                                            Since: 0.2 */
    uint32_t             bits;         /**< there are 2^bits buckets; 0: 12. Since: 0.2 */
    uint32_t             tell_serving; /**< 1: HTC_KV_SERVER_SERVING is said. Since: 0.2 */
    uint64_t             place_seed;   /**< of the hash that places keys. Since: 0.2 */
    htc_ns               suspect_ns;   /**< a member that was not heard for so long is not relied on: what it was asked for is asked of another
                                            owner too. One that is heard and slow is left to it for six times as long, longer where it
                                            has taken longer or goes on doing others; 0: 1 s. Since: 0.2 */
    htc_ns               request_ns;   /**< what no majority answers in this time is answered HTC_ETIMEDOUT, of a value of 16 MiB in 9 s more;
                                            0: 10 s. Since: 0.2 */
    htc_ns               member_retry_ns; /**< say it again to an owner that has not answered; 0: 50 ms. Since: 0.2 */
    const htc_kv_namespace *namespaces; /**< those that are eventual, the same for all members; copied. Since: 0.2 */
    uint32_t namespace_count; /**< how many, at most 64. Since: 0.2 */
    uint32_t hints_max;  /**< eventual: changes remembered for owners that are away; 0: 100000. Beyond, they are found by comparing.
                              Since: 0.2 */
    htc_ns   compare_ns; /**< eventual: between two buckets that a member compares with another owner, a sixteenth of it after
                              that one was away; strong: twice what it waits between some hundreds of keys when it catches up with
                              others, after its start and after they were silent; 0: 50 ms. Since: 0.2 */
    htc_ns   deleted_ns; /**< eventual: a deletion is remembered at least for so long, twice request_ns if that is longer, and until
                              all owners hold it; 0: 1 hour. Since: 0.2 */

    /* Redis' clients. */
    uint32_t resp_port;            /**< connections with this htc_peer_info.port speak RESP, as Redis' clients do; 0: none.
                                        Since: 0.2 */
    uint32_t resp_connections_max; /**< of them; 0: 65536. Beyond: told and closed. Since: 0.2 */
    htc_bytes resp_password;       /**< what they have to show first, at most 512 bytes; len 0: nothing; copied. Since: 0.2 */
    uint32_t  resp_flush;          /**< 1: FLUSHALL and FLUSHDB delete everything. Since: 0.2 */

    /* Records in memory with a log of all changes behind them, instead of an engine: the driver carries out the calls of
     * htcsched/disk.h. */
    uint32_t log_durability;    /**< htc_kv_durability (htcsched/kv_store.h): when a change counts as stored; HTC_KV_MEMORY: when it
                                     was written, and it is not synced. 0: there is no log. Since: 0.2 */
    htc_ns   log_interval_ns;   /**< HTC_KV_INTERVAL; 0: 100 ms. Since: 0.2 */
    uint64_t log_segment_bytes; /**< the log is made of files of this length, a multiple of 512 from 8 KiB on; no record is longer;
                                     0: 64 MiB. Since: 0.2 */
    htc_bytes log_boot;         /**< what names this start of the machine, at most 40 bytes; copied. Since: 0.2 */
    /**
     * What was found damaged in the log, or why the server ends. NULL: it goes to env->log. Since: 0.2
     *
     * @param[in] ctx     log_problem_ctx
     * @param[in] status  HTC_ECORRUPT: found while reading; HTC_EFORMAT; HTC_EIO: the server ends
     * @param[in] file    its name
     * @param[in] offset  where in it
     * @param[in] text    one sentence
     */
    void (*log_problem)(void *ctx, htc_status status, const char *file, uint64_t offset, const char *text);
    void *log_problem_ctx; /**< kept. Since: 0.2 */

    /* Members that come and go. */
    const char *const *member_addresses; /**< where each of members is reached, as HTC_KV_SERVER_DIAL is to say it: at most 255 bytes;
                                              borrowed; NULL: members come and go only where all were named. Since: 0.2 */
    uint32_t join; /**< 1: this member is not one yet, and asks to be let in by those of members whose id is 0 (theirs is not known,
                        and they are reached at peer); owners, bits and place_seed are then the store's. Until it is let in, nobody is
                        answered. Since: 0.2 */
    uint64_t replaces; /**< join: in the place of this member, with its weight and domain; 0: beside all others. Since: 0.2 */

    /* Watches. */
    uint32_t watches_max; /**< of one connection; 0: 1024. Beyond: they end with HTC_EFULL. Since: 0.2 */
    uint32_t watch_marks_max; /**< keys under watched prefixes that have changed and were not told yet, of one connection; 0: 16384. Beyond,
                                   a watch starts over. Several members: the same of what another member watches. Since: 0.2 */

    size_t value_max; /**< no value becomes longer: HTC_ETOOBIG; one that is longer may stay or become shorter. 0, and at most: HTC_KV_VALUE_MAX. Of
                           several members each that makes a change looks at its own. Since: 0.2 */
    uint32_t engine_durability; /**< htc_kv_durability (htcsched/kv_store.h) that engine keeps, which is LMDB then: only to be told to
                                     Redis' clients that ask; 0: not known. Since: 0.2 */
    /**
     * Processor time of the process, to be told to Redis' clients that ask (INFO cpu). NULL: it is not told. Since: 0.2
     *
     * @param[in]  ctx   cpu_ctx
     * @param[out] user  in user mode
     * @param[out] sys   in the kernel
     */
    void (*cpu)(void *ctx, htc_ns *user, htc_ns *sys);
    void *cpu_ctx; /**< kept. Since: 0.2 */
    /**
     * Memory of the process as the system counts it (resident), in bytes, to be told to Redis' clients that ask (INFO memory). NULL, and 0: it
     * is not told. Since: 0.2
     *
     * @param[in] ctx  cpu_ctx
     */
    size_t (*resident)(void *ctx);
    /**
     * What a connection of the library's own clients may reach: asked when it is opened. NULL: everything, whoever it is. Since: 0.2
     *
     * @param[in]  ctx     admit_ctx
     * @param[in]  opened  body of HTC_IN_OPENED: who it is (htc_peer_info, htc_peer_identity_read)
     * @param[out] reach   nothing, to be filled
     * @return HTC_OK; else it is closed with this status
     */
    htc_status (*admit)(void *ctx, htc_bytes opened, htc_kv_reach *reach);
    void *admit_ctx; /**< kept. Since: 0.2 */
} htc_kv_server_options;

/** A server, as a machine: self of htc_kv_server_ops. */
typedef struct htc_kv_server htc_kv_server;

/**
 * Create a server over what the engine holds.
 *
 * @param[in]  env      what it points to is kept; env->rng is required: it names the sessions, and no two servers of one store may
 *                      draw the same numbers
 * @param[in]  options  borrowed; the engine is kept
 * @param[out] out      gives the server: htc_kv_server_destroy
 * @return HTC_OK; HTC_EINVAL; HTC_EABI; HTC_ENOMEM
 *
 * Cost: one allocation; the store is read at HTC_IN_START.   Since: 0.1
 */
HTC_API htc_status htc_kv_server_create(const htc_env *env, const htc_kv_server_options *options, htc_kv_server **out);

/**
 * Free a server; the engine stays.
 *
 * @param[in] server  NULL is fine
 *
 * Cost: O(what it holds).   Since: 0.1
 */
HTC_API void htc_kv_server_destroy(htc_kv_server *server);

/**
 * The server as a machine, for a driver.
 *
 * @return lends a constant
 *
 * Cost: O(1).   Since: 0.1
 */
HTC_API const htc_machine_ops *htc_kv_server_ops(void);

/** What a monitor wants to know. */
typedef struct htc_kv_server_stats {
    size_t   size;               /**< sizeof(htc_kv_server_stats), set by the caller */
    uint64_t messages;           /**< that arrived */
    uint64_t reads;              /**< requests that change nothing */
    uint64_t changes;            /**< requests that do */
    uint64_t answered_from_list; /**< repeated changes whose outcome was still known */
    uint64_t unknown;            /**< repeated changes answered HTC_EUNKNOWN */
    uint64_t commits;            /**< batches stored */
    uint64_t commits_failed;     /**< batches that were not */
    uint64_t pushed_back;        /**< requests to be sent again */
    uint64_t clock;              /**< the newest version that is durable */
    uint64_t leases;             /**< that run now */
    uint64_t tombstones;         /**< deletions remembered now */
    uint64_t connections;        /**< open now */
} htc_kv_server_stats;

/**
 * The counters of a server.
 *
 * @param[in]     server  borrowed
 * @param[in,out] stats   as much of it is filled as its size says
 * @return HTC_OK; HTC_EINVAL if a pointer is NULL or size 0
 *
 * Cost: O(1).   Since: 0.1
 */
HTC_API htc_status htc_kv_server_stats_get(const htc_kv_server *server, htc_kv_server_stats *stats);

/**
 * Write the counters of a server for a monitor: families whose names begin with htc_kv_, as doc/metrics.md lists them. Of several
 * members each shows its own. What has been counted begins with the server.
 *
 * @param[in]     server   borrowed; between two steps
 * @param[in,out] metrics  the text to add to; other families may come before and after. 64 KiB are enough
 *
 * Cost: O(members), some 200 lines.   Since: 0.2
 */
HTC_API void htc_kv_server_metrics(const htc_kv_server *server, htc_metrics *metrics);

#ifdef __cplusplus
}
#endif
#endif
