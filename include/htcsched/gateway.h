/**
 * @file htcsched/gateway.h
 * @brief The gateway: accounts, jobs, one queue for each user, fair shares, agents and results.
 *
 * A state machine (htcsched/machine.h) that keeps all that matters in the store: a gateway that is killed and started
 * again goes on where it was. Users talk to it in JSON (doc/api.md), agents in lib/roles/runtime/agent_wire.h, its host carries
 * out htcsched/calls.h.
 *
 * Threads: owner.   Allocation: through env.
 */
#ifndef HTCSCHED_GATEWAY_H
#define HTCSCHED_GATEWAY_H

#include "htcsched/machine.h"
#include "htcsched/metrics.h"
#include "htcsched/work.h"

#ifdef __cplusplus
extern "C" {
#endif

/** A place where agents run. */
typedef struct htc_site_options {
    size_t      size;    /**< sizeof(htc_site_options), of all of an array the same */
    const char *name;    /**< copied */
    uint32_t    cores;   /**< slots */
    uint64_t    memory;  /**< of its node, bytes: running tasks never reserve more; 0: not known, nothing is reserved */
    uint32_t    node_cores; /**< the largest task, in cores; 0: cores */
    uint64_t    task_memory; /**< reserved for a task that names no figure, bytes, at most memory; 0: memory / cores */
    uint32_t    joins; /**< 1: a host beyond this machine, there when it says so (htcsched/joined.h) through a secure channel, with a key of the
                            site's name and the role HTC_KEY_HOST. cores: the most slots that it may have; memory 0: what it says.
                            Since: 0.2 */
    const char *const *users; /**< joins: names of the users whose agents it gets, up to a colon, NULL at the end; none, or NULL: the owner's alone;
                                     copied. Since: 0.2 */
    double      speed; /**< of its cores, relative to other sites': the fastest gets agents first where all begin at once; 0: 1. Since: 0.2 */
    const char *org;  /**< label of its organisation, for those who look at sites; copied, cut to 63 bytes; NULL: none. Since: 0.2 */
    const char *type; /**< likewise, of its kind of machine. Since: 0.2 */
    const char *os;   /**< likewise, of its operating system. Since: 0.2 */
    const htc_resource *resources; /**< n_resources that it counts, at most 16, no name twice; never more are in use at once. GPUs
                                        (HTC_RESOURCE_GPU, at most 64) are devices of its one node. joins: they count instead of what the host says of
                                        the same name; copied. Since: 0.2 */
    size_t      n_resources; /**< of resources. Since: 0.2 */
} htc_site_options;

/** What keeps the tasks of different users apart; the first is the safe default. */
typedef enum htc_apart {
    HTC_APART_REFUSED = 0, /**< nothing does: only the owner's tasks run */
    HTC_APART_CONFINED,    /**< they share the owner's uid; the host takes sockets, store and files out of others' reach */
    HTC_APART_UID          /**< each user's tasks run with that user's own uid; a user without one is refused */
} htc_apart;

/** How a gateway works; zero is the default of every field from tick_ns on. */
typedef struct htc_gateway_options {
    size_t      size; /**< sizeof(htc_gateway_options) */
    uint32_t    store_peer;  /**< the driver's number of the connection to the store, not 0 */
    uint64_t    store_client_id; /**< 64 random bits, new at each start, not 0 */
    uint32_t    owner_uid;   /**< whose system it is; agents run with this uid */
    const char *owner_name;  /**< that uid's own user name, created at the first start; copied */
    const htc_site_options *sites; /**< copied; their names differ */
    size_t      n_sites;     /**< how many; at least 1 */
    const char *policy;      /**< fair.policy: maxmin (NULL), eq1, static, fcfs */
    const char *const *fair_users; /**< of static; NULL at the end; copied */
    htc_ns   tick_ns;        /**< between two looks at the shares; 0: 5 s */
    htc_ns   heartbeat_ns;   /**< agents are to be heard of at least so often; 0: 10 s */
    htc_ns   lost_after_ns;  /**< not heard of for this long: the agent is lost; 0: 30 s */
    htc_ns   launch_timeout_ns;   /**< launched and not heard of for this long: not coming; 0: 600 s */
    htc_ns   relaunch_backoff_ns; /**< pause before the next try, doubling; 0: 5 s */
    uint32_t max_relaunch;   /**< launches that fail in a row; 0: 5 */
    uint32_t max_attempts;   /**< task.max_attempts: tries of a task that fails; 0: 3 */
    uint32_t max_lost;       /**< task.max_lost: attempts lost with their agents; 0: 20 */
    htc_ns   retry_backoff_ns;     /**< pause before a task is tried again, doubling; 0: 1 s */
    htc_ns   retry_backoff_max_ns; /**< to this at most; 0: 300 s */
    uint64_t tasks_max;      /**< split.max_tasks of one job; 0: 2^40 */
    htc_ns   token_life_ns;  /**< a login lasts this long; 0: 7 days */
    uint32_t prefetch_max;   /**< agent.prefetch: tasks in one grant; 0: auto (to 64), 1: one by one */
    uint32_t min_agents;     /**< fair.min_agents; UINT32_MAX: none; 0: 1 */
    htc_ns   task_wall_max_ns; /**< longest wall time a site allows; 0: any */
    uint32_t weight_profiled; /**< fair.weight: 1: a user's weight counts what the unfinished tasks will take */
    double   gamma;           /**< fair.gamma: -1 to 1, see htc_allot_profiled */
    const char *operator_token; /**< who sends it is the operator: may add users and act for any of them; copied. NULL: a Unix
                                     peer with owner_uid is the operator, which is right only where no task has that uid */
    htc_ns   memory_wait_ns;  /**< task.memory_wait_s: a task waits this long for memory until room is kept for it; 0: 60 s */
    uint32_t    apart;     /**< htc_apart: how far the host keeps the tasks of other users than the owner apart */
    const char *apart_why; /**< for HTC_APART_REFUSED: what is missing, in one sentence; copied; NULL: "" */
    htc_ns      idle_ns;   /**< a Unix peer of another uid, or a TCP peer, that asks nothing for this long is closed; 0: 300 s */
    uint32_t    owner_only; /**< 1: a Unix peer of another uid than owner_uid is no user, only an agent */
    htc_ns   content_grace_ns; /**< data.content_grace_s: uploads that no job names are kept this long after they were asked for; 0: 24 h */
    uint32_t slots_max; /**< agent.slots_max: slots that one agent fills at most, 1 to 64; above 1 LAUNCH says how many; 0: 1 */
    /**
     * The public keys of the hosts that may join, as a ring's text (htc_keyring_text): each host is told all, so that hosts know each other. NULL: they
     * are not told. Since: 0.2
     *
     * @param[in]  ctx   hosts_ctx
     * @param[out] out   gets at most room bytes; may be NULL if room is 0
     * @param[in]  room  of out in bytes
     * @return how many bytes the whole takes
     */
    size_t (*hosts)(void *ctx, char *out, size_t room);
    void       *hosts_ctx;  /**< kept. Since: 0.2 */
    const char *store_join; /**< HOST:PORT where hosts that join reach the store; copied; NULL, "": nowhere. Since: 0.2 */
    htc_ns      lease_ns; /**< other gateways may use the same store: one of them is active, and another becomes it when the record that the active one
                               renews has not changed for this long. 0: no other gateway may. Since: 0.2 */
    const char *name;     /**< with lease_ns: who this is, and */
    const char *address;  /**< where it is reached, for people and for the other gateways; copied; NULL: "". Since: 0.2 */
    const char *data_id; /**< with lease_ns: names where its host keeps uploads; a gateway whose place has another name than that of the gateways
                              before does not start. Copied; NULL, "": it keeps none. Since: 0.2 */
    uint32_t    uploads_refused; /**< 1: its host keeps files where another gateway would not find them. Since: 0.2 */
    htc_ns   gang_collect_ns; /**< gang.collect_s: a task of several nodes waits no longer for all of them together, then gives them back for a while;
                                   0: 60 s. Since: 0.2 */
    uint32_t    mail;       /**< 1: the host sends mail (HTC_CALL_MAIL). Since: 0.2 */
    htc_ns   half_life_ns;  /**< fair.half_life of what projects have used; 0: 7 days. Since: 0.2 */
    uint64_t quota_core_ns; /**< quota.core_hours: run time times cores that a user may use, who has no other quota; 0: any. Since: 0.2 */
    uint64_t quota_bytes;   /**< quota.bytes of kept outputs, likewise. Since: 0.2 */
    uint64_t quota_tasks;   /**< quota.tasks that are unfinished, likewise. Since: 0.2 */
    uint64_t quota_processes; /**< quota.processes: tasks that run at once, likewise. Since: 0.2 */
    const char *system;  /**< of the machine that it runs on, as uname(2) calls it ("Linux"), at most 31 bytes; copied; NULL: not known. Since: 0.2 */
    const char *machine; /**< likewise, its hardware ("x86_64"). Since: 0.2 */
    const char *outputs; /**< its host's directory of data, absolute, at most 1023 bytes: agents of hosts that have joined and that see it store
                              outputs there (htc_gateway_host_outputs); copied. NULL, "": they keep them. Since: 0.2 */
    const char *outputs_id; /**< with outputs: what says that it is seen, 64 bytes; copied. Since: 0.2 */
    htc_ns   wide_wait_ns;  /**< task.wide_wait_s: a task of several slots waits this long, then slots are kept for it alone; 0: 300 s. Since: 0.2 */
    uint32_t not_durable; /**< 1: the store keeps its records in memory alone (db.mode = off); reports say so. Since: 0.2 */
    htc_ns   usage_keep_ns; /**< db.usage_keep_s: what was used on a day is kept by itself for so many whole days, then added to one sum of the user;
                                 0: 365 days. Since: 0.2 */
} htc_gateway_options;

/** A gateway, as a machine: self of htc_gateway_ops. */
typedef struct htc_gateway htc_gateway;

/**
 * Create a gateway that waits for HTC_IN_START.
 *
 * @param[in]  env      what it points to is kept
 * @param[in]  options  borrowed; strings and lists are copied
 * @param[out] out      gives the gateway: htc_gateway_ops()->destroy
 * @return HTC_OK; HTC_EINVAL; HTC_ENOTFOUND for an unknown policy; HTC_EABI; HTC_ENOMEM
 *
 * Cost: some allocations.   Since: 0.1
 */
HTC_API htc_status htc_gateway_create(const htc_env *env, const htc_gateway_options *options, htc_gateway **out);

/**
 * The gateway as a machine, for a driver.
 *
 * @return lends a constant
 *
 * Cost: O(1).   Since: 0.1
 */
HTC_API const htc_machine_ops *htc_gateway_ops(void);

/** What an audit has found. */
typedef struct htc_gateway_books {
    size_t   size;       /**< sizeof(htc_gateway_books), set by the caller */
    uint32_t ready;      /**< 1: it has recovered, the store answers, and it may launch agents */
    uint32_t free;       /**< slots that no agent has */
    uint32_t paused;     /**< sites at which nothing is launched for a while, after a failure */
    uint64_t wanting;    /**< tasks that wait, could start in a free slot, and that no agent of their user is about to take; of users whose tasks
                               take one slot each: others wait for more */
    char     wrong[128]; /**< a count that does not add up, in one sentence; "": all do */
} htc_gateway_books;

/**
 * Audit a gateway's books: are the counts that it keeps beside jobs, users, agents and sites what they count? For tests,
 * simulators and whoever doubts. It takes no decision; what the next task of a job asks for is looked up and
 * remembered, as for a decision. Of a gateway that has not recovered yet nothing is known: all 0.
 *
 * @param[in]  gateway  borrowed
 * @param[in]  add_up   1: all is counted anew; 0: books->wrong stays empty
 * @param[out] books    filled as far as its size says
 * @return HTC_OK, whatever is wrong; HTC_EINVAL
 *
 * Cost: O(agents) a user with waiting tasks; with add_up O(users (jobs + agents)).   Since: 0.2
 */
HTC_API htc_status htc_gateway_audit(htc_gateway *gateway, int add_up, htc_gateway_books *books);

/**
 * Write the figures of a gateway for a monitor: families whose names begin with htc_gateway_, as doc/metrics.md lists them. Sites are named, and no
 * user, job or host is: the page that shows them asks nobody who they are. What is counted begins with the gateway.
 *
 * @param[in]     gateway  borrowed; between two steps
 * @param[in,out] metrics  the text to add to; other families may come before and after. A KiB for each site and 4 more are enough
 *
 * Cost: O(users + jobs + sites agents).   Since: 0.2
 */
HTC_API void htc_gateway_metrics(const htc_gateway *gateway, htc_metrics *metrics);

#ifdef __cplusplus
}
#endif
#endif
