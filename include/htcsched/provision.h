/**
 * @file htcsched/provision.h
 * @brief Nodes on lease: when a runtime environment asks for more and gives some back, who gets them, and what it costs.
 *
 * Dynamic service provision (DawningCloud) has three policies. The management policy is the service provider's: a runtime
 * environment holds B initial nodes for good, looks at its queue every so often, asks for DR1 or DR2 nodes when its demand
 * outgrows them, and looks at each lease when an hour of it has passed. The provision policy is the resource provider's: whose
 * request is granted, and how much of it. The setup policy says what is done to a node that changes hands. An
 * htc_provision is the book of one environment: its leases, when to look again, and what has been charged.
 *
 * Nothing here owns a node: a lease is a number of them, and any idle ones are returned. All of it is integers: nodes, nanoseconds,
 * node-units (a node for one lease unit, usually an hour) and ratios in millionths.
 *
 * Threads: pure (the functions without an htc_provision), else owner.   Allocation: through env; an htc_provision grows up to
 * leases_max.   Source: doc/papers.md#provision.
 */
#ifndef HTCSCHED_PROVISION_H
#define HTCSCHED_PROVISION_H

#include "htcsched/registry.h"

#ifdef __cplusplus
extern "C" {
#endif

/** The ratio 1: as much demand as there are nodes. */
#define HTC_PROVISION_ONE UINT64_C(1000000)
/** No number of nodes is larger. */
#define HTC_PROVISION_NODES_MAX (UINT64_C(1) << 32)
/** Requests decided together: at most this many. */
#define HTC_PROVISION_REQUESTS_MAX ((size_t)1 << 20)

/* ---- the management policy ---- */

/** What the server sees in its queue. MTC: of a workflow only jobs whose dependencies and triggers are satisfied count. */
typedef struct htc_provision_demand {
    uint64_t waiting_jobs;    /**< jobs that wait */
    uint64_t waiting_nodes;   /**< sum of their sizes */
    uint64_t waiting_largest; /**< the largest of their sizes; at most waiting_nodes */
    uint64_t running_nodes;   /**< sum of the sizes of the jobs that run; the other nodes held are idle */
} htc_provision_demand;

/** Which jobs make the demand D. */
typedef enum htc_provision_scope {
    HTC_PROVISION_UNFINISHED = 0, /**< waiting and running ones */
    HTC_PROVISION_WAITING         /**< waiting ones */
} htc_provision_scope;

/** Why nodes are asked for. */
typedef enum htc_provision_reason {
    HTC_PROVISION_NONE = 0, /**< nothing is asked for */
    HTC_PROVISION_DR1,      /**< the demand is more than R times what is held */
    HTC_PROVISION_DR2,      /**< the largest waiting job does not fit what is held */
    HTC_PROVISION_DEFICIT   /**< waiting jobs need more than is idle (perlease) */
} htc_provision_reason;

/**
 * How many nodes the paper's server asks for, alone.
 *
 *     D / O > R:  DR1 = D - O;  else big / O > 1:  DR2 = big - O;  else, or when no job waits, 0
 *
 * Comparisons are strict and exact; with O = 0 any demand is above any R. Where R < 1 would make DR1 negative it counts as 0.
 *
 * @param[in]  owned   O, nodes held, 0 to HTC_PROVISION_NODES_MAX
 * @param[in]  demand  borrowed; each number at most HTC_PROVISION_NODES_MAX
 * @param[in]  ratio   R in millionths
 * @param[in]  scope   htc_provision_scope
 * @param[out] reason  htc_provision_reason; NULL is fine
 * @return nodes; 0 too if an argument is out of range
 *
 * Cost: O(1).   Since: 0.2
 */
HTC_API uint64_t htc_provision_request_size(uint64_t owned, const htc_provision_demand *demand, uint64_t ratio, uint32_t scope,
                                            uint32_t *reason);

/** What a management policy may know. */
typedef struct htc_provision_view {
    size_t                      size;     /**< sizeof(htc_provision_view) */
    htc_ns                      now;      /**< the caller's clock */
    uint64_t                    owned;    /**< O */
    uint64_t                    idle;     /**< I = O - running_nodes */
    uint64_t                    initial;  /**< B */
    uint64_t                    ratio;    /**< R in millionths */
    uint32_t                    scope;    /**< htc_provision_scope */
    uint32_t                    reserved; /**< 0 */
    uint64_t                    rejected; /**< requests refused in a row, up to now */
    const htc_provision_demand *demand;   /**< as the server saw it */
} htc_provision_view;

/** A management policy: two decisions. Functions keep nothing between calls but in ctx. A call from inside them that would change
 *  the book they decide about answers HTC_EINVAL, and htc_provision_destroy does nothing. */
typedef struct htc_provision_policy {
    size_t      size; /**< sizeof(htc_provision_policy) */
    const char *name; /**< kept; as htc_registry_add wants it; NULL is fine for a policy that is in no registry */
    void       *ctx;  /**< kept; handed to both functions */
    /** How many nodes to ask for now, 0: none; *reason is an htc_provision_reason, or from 1000 on the policy's own. */
    uint64_t (*request)(void *ctx, const htc_provision_view *view, uint32_t *reason);
    /** A lease of leased nodes has come to the end of a unit: how many to return. More than leased or idle is taken for that. */
    uint64_t (*release)(void *ctx, const htc_provision_view *view, uint64_t leased);
} htc_provision_policy;

/** The management policies that the library brings. Their names in a registry are "paper" and "perlease". */
typedef enum htc_provision_builtin {
    HTC_PROVISION_PAPER = 0, /**< DawningCloud: DR1 or DR2; a lease is returned whole if that many are idle, else kept whole */
    HTC_PROVISION_PERLEASE   /**< the true deficit, waiting - idle; of a lease go the idle nodes that no waiting job needs */
} htc_provision_builtin;

/**
 * A management policy of the library.
 *
 * @param[in] which  htc_provision_builtin
 * @return lends a constant; NULL for another number
 *
 * Cost: O(1).   Since: 0.2
 */
HTC_API const htc_provision_policy *htc_provision_policy_of(uint32_t which);

/**
 * Add a management policy under its name (HTC_REGISTRY_PROVISION), beside those of htc_registry_add_builtin.
 *
 * @param[in,out] registry  as it was on failure
 * @param[in]     policy    kept: outlives the registry; has size, name and both functions
 * @return as htc_registry_add; HTC_EABI if the policy is of a newer library
 *
 * Cost: as htc_registry_add.   Since: 0.2
 */
HTC_API htc_status htc_provision_register(htc_registry *registry, const htc_provision_policy *policy);

/**
 * Find a management policy by name.
 *
 * @param[in]  registry  borrowed
 * @param[in]  name      borrowed
 * @param[out] policy    what was registered; untouched on failure
 * @return HTC_OK; HTC_EINVAL; HTC_ENOTFOUND
 *
 * Cost: as htc_registry_find.   Since: 0.2
 */
HTC_API htc_status htc_provision_find(const htc_registry *registry, const char *name, const htc_provision_policy **policy);

/* ---- the book of one runtime environment ---- */

/** What kind of work: it chooses the defaults of B, R and the scan. */
typedef enum htc_provision_kind {
    HTC_PROVISION_HTC = 0, /**< jobs: B = 40, R = 1.2, every 60 s */
    HTC_PROVISION_MTC      /**< workflows: B = 10, R = 8, every 3 s */
} htc_provision_kind;

/** How an environment is managed; the zero of each field is its default. */
typedef struct htc_provision_options {
    size_t                      size;          /**< sizeof(htc_provision_options) */
    const htc_provision_policy *policy;        /**< kept; NULL: "paper" */
    uint32_t                    kind;          /**< htc_provision_kind */
    uint32_t                    scope;         /**< htc_provision_scope */
    uint64_t                    initial;       /**< B, nodes held from the start; 0: of the kind. HTC_PROVISION_NO_NODES: none */
    uint64_t                    ratio;         /**< R in millionths; 0: of the kind */
    htc_ns                      scan_ns;       /**< 0: of the kind */
    htc_ns                      phase_ns;      /**< the first scan is this much after the start; 0: scan_ns */
    htc_ns                      unit_ns;       /**< lease unit: what is charged, and when a lease is looked at; 0: an hour */
    uint32_t                    leases_max;    /**< at most this many at a time; 0: 65,536 */
    uint32_t                    starved_after; /**< refusals in a row before the alarm; 0: 10 */
} htc_provision_options;

/** initial: a runtime environment without nodes of its own. */
#define HTC_PROVISION_NO_NODES UINT64_MAX

/** An options struct with every default. */
#define HTC_PROVISION_OPTIONS_INIT { sizeof(htc_provision_options), NULL, 0, 0, 0, 0, 0, 0, 0, 0, 0 }

/**
 * HTC_PROVISION_OPTIONS_INIT, for bindings.
 *
 * @param[out] options  every field's default; NULL is fine
 * @param[in]  size     sizeof *options as the caller was built: no more than this is written; 0: nothing
 *
 * Cost: O(1).   Since: 0.2
 */
HTC_API void htc_provision_options_init(htc_provision_options *options, size_t size);

/** The book of one runtime environment. */
typedef struct htc_provision htc_provision;

/** A request to put before the provider, or what came of looking at leases. */
typedef struct htc_provision_order {
    uint64_t nodes;  /**< how many to ask for, or to return */
    uint64_t leases; /**< looking at leases: how many ended whole */
    uint32_t reason; /**< htc_provision_reason of a request */
} htc_provision_order;

/** One lease: a chunk of nodes granted together. */
typedef struct htc_provision_lease {
    uint64_t nodes;      /**< what is left of it */
    htc_ns   granted_at; /**< the caller's clock */
    htc_ns   check_at;   /**< when it is looked at next: a whole number of units after granted_at */
} htc_provision_lease;

/** What an environment holds, has cost and has caused. */
typedef struct htc_provision_usage {
    uint64_t owned;           /**< nodes held, initial ones included */
    uint64_t initial;         /**< of these for good */
    uint64_t leases;          /**< leases open */
    uint64_t peak;            /**< the most nodes held at one time */
    uint64_t node_units;      /**< charged: every started unit of every node, as if all ended now; at most 2^64 - 1 */
    uint64_t node_seconds;    /**< held: the integral of owned over time, rounded down; at most 2^64 - 1 */
    uint64_t granted;         /**< nodes taken over, initial ones included: each was set up once */
    uint64_t returned;        /**< nodes given back or lost: each was set up once more. granted + returned are the adjustments */
    uint64_t requests;        /**< put before the provider */
    uint64_t rejected;        /**< of these, refused whole */
    uint64_t rejected_in_row; /**< since the last grant */
    uint32_t starved;         /**< 1: rejected_in_row has reached starved_after */
} htc_provision_usage;

/**
 * Open the book: the environment runs from now on and holds its initial nodes.
 *
 * @param[in]  env      kept; NULL: malloc
 * @param[in]  options  copied; NULL: every default
 * @param[in]  now      the caller's clock; never runs backwards
 * @param[out] out      gives: htc_provision_destroy; untouched on failure
 * @return HTC_OK; HTC_EINVAL if a field is out of range (an unknown kind or scope, a policy without functions, too many nodes);
 *         HTC_EABI; HTC_ENOMEM
 *
 * Cost: one allocation.   Since: 0.2
 */
HTC_API htc_status htc_provision_create(const htc_env *env, const htc_provision_options *options, htc_ns now, htc_provision **out);

/**
 * Free it; what is charged is forgotten.
 *
 * @param[in] provision  NULL is fine
 *
 * Cost: O(1).   Since: 0.2
 */
HTC_API void htc_provision_destroy(htc_provision *provision);

/**
 * When to come back, with htc_provision_scan and then htc_provision_check: the next scan or the next look at a lease.
 *
 * @param[in] provision  borrowed
 * @return a moment of the caller's clock; HTC_NEVER after htc_provision_end or for NULL
 *
 * Cost: O(1).   Since: 0.2
 */
HTC_API htc_ns htc_provision_deadline(const htc_provision *provision);

/**
 * Look at the queue: are more nodes to be asked for? Every scan_ns from the start; before that it does nothing.
 *
 * If the answer is HTC_OK, put order->nodes before the provider and report with htc_provision_granted before the next scan.
 * At one instant do things in this order: completions, arrivals, scheduler, scan, scheduler, htc_provision_check. A scan that
 * comes late is made once; the next is due when it would have been.
 *
 * @param[in,out] provision  as it was on failure
 * @param[in]     now        the caller's clock
 * @param[in]     demand     borrowed; running_nodes at most the nodes held
 * @param[out]    order      nodes and reason; untouched unless HTC_OK
 * @return HTC_OK: ask; HTC_AGAIN: not now, or no scan is due; HTC_EINVAL if a number is out of range, now is before an
 *         earlier one, an answer to the last request is outstanding, or the book is closed; HTC_EFULL if there is no room
 *         for another lease, or HTC_ENOMEM: the scan stays due, so wait for a lease to end before the next call
 *
 * Cost: O(1).   Since: 0.2
 */
HTC_API htc_status htc_provision_scan(htc_provision *provision, htc_ns now, const htc_provision_demand *demand,
                                      htc_provision_order *order);

/**
 * Report what the provider answered to the last request: a lease begins, or it was refused. Room was made when it was asked
 * for: this cannot fail for want of memory.
 *
 * @param[in,out] provision  as it was on failure
 * @param[in]     now        the caller's clock: when the lease begins
 * @param[in]     nodes      0: refused; at most what was asked for
 * @return HTC_OK; HTC_AGAIN: refused as often in a row as starved_after says, tell a person (said each time); HTC_EINVAL if nothing
 *         was asked for, more is granted than that, or now is before an earlier one
 *
 * Cost: O(log leases).   Since: 0.2
 */
HTC_API htc_status htc_provision_granted(htc_provision *provision, htc_ns now, uint64_t nodes);

/**
 * Look at every lease that is due, in the order of due time, then of grants. What is to be returned no longer counts as held.
 *
 * A lease that was missed for several units is looked at once. With the policy "paper" a lease is returned whole or not at all.
 *
 * @param[in,out] provision  as it was on failure
 * @param[in]     now        the caller's clock
 * @param[in]     demand     borrowed; running_nodes at most the nodes held
 * @param[out]    order      nodes: return this many idle ones, the newest first; leases: how many ended. Untouched unless HTC_OK
 * @return HTC_OK: return order->nodes, at least 1; HTC_AGAIN: nothing to return; HTC_EINVAL as htc_provision_scan
 *
 * Cost: O(log leases) for each lease due.   Since: 0.2
 */
HTC_API htc_status htc_provision_check(htc_provision *provision, htc_ns now, const htc_provision_demand *demand,
                                       htc_provision_order *order);

/**
 * Note that nodes are gone for good: their leases end, those of the newest grants first, then the initial nodes.
 *
 * @param[in,out] provision  as it was on failure
 * @param[in]     now        the caller's clock
 * @param[in]     nodes      1 to the nodes held
 * @return HTC_OK; HTC_EINVAL
 *
 * Cost: O(leases) for each lease that ends or shrinks.   Since: 0.2
 */
HTC_API htc_status htc_provision_lost(htc_provision *provision, htc_ns now, uint64_t nodes);

/**
 * Take over a lease from an earlier book, after a restart: the i-th of htc_provision_lease_at, as it was stored.
 *
 * Its units are charged from granted_at on, and it counts as granted. Open the new book with the time the environment first
 * began, so that its initial nodes are charged from then on; what had been returned before the restart is the caller's to remember.
 *
 * @param[in,out] provision  as it was on failure
 * @param[in]     now        the caller's clock, not before lease->granted_at
 * @param[in]     lease      borrowed; nodes from 1, check_at a whole number of units (from 1) after granted_at
 * @return HTC_OK; HTC_EINVAL; HTC_EFULL if there is no room beside what is asked for at the moment; HTC_ENOMEM
 *
 * Cost: O(log leases).   Since: 0.2
 */
HTC_API htc_status htc_provision_adopt(htc_provision *provision, htc_ns now, const htc_provision_lease *lease);

/**
 * One open lease, in no promised order.
 *
 * @param[in]  provision  borrowed
 * @param[in]  i          from 0 to usage.leases - 1
 * @param[out] lease      untouched on failure
 * @return HTC_OK; HTC_EINVAL; HTC_ENOTFOUND behind the last
 *
 * Cost: O(1).   Since: 0.2
 */
HTC_API htc_status htc_provision_lease_at(const htc_provision *provision, size_t i, htc_provision_lease *lease);

/**
 * Close the book: every lease ends and every node goes back. What it cost can still be asked for.
 *
 * @param[in,out] provision  as it was on failure
 * @param[in]     now        the caller's clock
 * @param[out]    nodes      to be returned, initial ones included; NULL is fine
 * @return HTC_OK; HTC_EINVAL if it is closed or now is before an earlier one
 *
 * Cost: O(leases).   Since: 0.2
 */
HTC_API htc_status htc_provision_end(htc_provision *provision, htc_ns now, uint64_t *nodes);

/**
 * What is held, charged and caused, as of now.
 *
 * @param[in]  provision  borrowed
 * @param[in]  now        the caller's clock, not before the last call's
 * @param[out] usage      untouched on failure
 * @return HTC_OK; HTC_EINVAL
 *
 * Cost: O(leases).   Since: 0.2
 */
HTC_API htc_status htc_provision_usage_at(const htc_provision *provision, htc_ns now, htc_provision_usage *usage);

/**
 * Write the state, or read it into a book that was created with the same options: it goes on from there. What a policy of one's own remembers is the
 * caller's.
 *
 * @param[in,out] provision  read: as it was if the first piece is not of these options; on any later failure good for htc_provision_destroy alone
 * @param[in]     tape       borrowed
 * @return HTC_OK; HTC_EINVAL, also from inside the policy; HTC_EFORMAT: what is read is not of these options; HTC_ECORRUPT; what the tape answers;
 *         HTC_EABI; HTC_ENOMEM
 *
 * Cost: O(leases), 32 bytes for each that there was ever room for.   Since: 0.2
 */
HTC_API htc_status htc_provision_tape(htc_provision *provision, const htc_tape *tape);

/* ---- the provision policy ---- */

/** One environment's request, before the provider. */
typedef struct htc_provision_request {
    uint64_t id;       /**< must differ among requests decided together */
    uint64_t nodes;    /**< 1 to HTC_PROVISION_NODES_MAX */
    uint64_t weight;   /**< partial: 1 to 2^42; 0: 1 */
    uint64_t arrival;  /**< of equal priority the earliest first, then the smallest id */
    int32_t  priority; /**< higher first */
    uint32_t initial;  /**< 1: nodes to begin with, all or none under every policy; else 0 */
} htc_provision_request;

/** A provision policy: who gets how many of the free nodes. */
typedef struct htc_provision_granter {
    size_t      size; /**< sizeof(htc_provision_granter) */
    const char *name; /**< kept; as htc_registry_add wants it; NULL is fine for a policy that is in no registry */
    void       *ctx;  /**< kept; handed to the function */
    /** Fill granted[0 .. n-1], zero when called. Their sum is at most free_nodes, each at most what was asked for. */
    htc_status (*grant)(void *ctx, const htc_env *env, uint64_t free_nodes, const htc_provision_request *requests, size_t n,
                        uint64_t *granted);
} htc_provision_granter;

/** The provision policies that the library brings. Their names in a registry are "all_or_reject" and "partial". */
typedef enum htc_provision_granting {
    HTC_PROVISION_ALL_OR_REJECT = 0, /**< the paper's: whole if enough are free when its turn comes, else nothing */
    HTC_PROVISION_PARTIAL            /**< within a priority the free nodes are divided max-min by weight: nobody starves */
} htc_provision_granting;

/**
 * A provision policy of the library.
 *
 * @param[in] which  htc_provision_granting
 * @return lends a constant; NULL for another number
 *
 * Cost: O(1).   Since: 0.2
 */
HTC_API const htc_provision_granter *htc_provision_granter_of(uint32_t which);

/**
 * Add a provision policy under its name (HTC_REGISTRY_GRANT), beside those of htc_registry_add_builtin.
 *
 * @param[in,out] registry  as it was on failure
 * @param[in]     granter   kept: outlives the registry; has size, name and grant
 * @return as htc_registry_add; HTC_EABI if it is of a newer library
 *
 * Cost: as htc_registry_add.   Since: 0.2
 */
HTC_API htc_status htc_provision_register_granter(htc_registry *registry, const htc_provision_granter *granter);

/**
 * Find a provision policy by name.
 *
 * @param[in]  registry  borrowed
 * @param[in]  name      borrowed
 * @param[out] granter   what was registered; untouched on failure
 * @return HTC_OK; HTC_EINVAL; HTC_ENOTFOUND
 *
 * Cost: as htc_registry_find.   Since: 0.2
 */
HTC_API htc_status htc_provision_find_granter(const htc_registry *registry, const char *name, const htc_provision_granter **granter);

/**
 * Decide requests that are before the provider at one time.
 *
 * @param[in]  env         scratch memory, freed before the call returns; NULL: malloc
 * @param[in]  granter     borrowed; NULL: "all_or_reject"
 * @param[in]  free_nodes  nobody holds them; 0 to HTC_PROVISION_NODES_MAX
 * @param[in]  requests    n of them, in any order; borrowed
 * @param[in]  n           0 to HTC_PROVISION_REQUESTS_MAX
 * @param[out] granted     n numbers, caller-allocated: 0 is refused; untouched on failure
 * @return HTC_OK; HTC_EINVAL if a number is out of range or two ids are equal; HTC_EINTERNAL if a granter of your own gives more
 *         than there is or than was asked for; HTC_EABI; HTC_ENOMEM
 *
 * Cost: O(n log n).   Since: 0.2
 */
HTC_API htc_status htc_provision_grant(const htc_env *env, const htc_provision_granter *granter, uint64_t free_nodes,
                                       const htc_provision_request *requests, size_t n, uint64_t *granted);

/* ---- the setup policy ---- */

/** What is done to a node that changes hands; an or of these. */
typedef enum htc_provision_work {
    HTC_PROVISION_STOP = 1,      /**< stop the daemons of the old runtime environment */
    HTC_PROVISION_UNINSTALL = 2, /**< remove its packages */
    HTC_PROVISION_WIPE = 4,      /**< wipe the operating system and install it anew */
    HTC_PROVISION_INSTALL = 8,   /**< install the packages of the new one */
    HTC_PROVISION_START = 16     /**< start its daemons */
} htc_provision_work;

/** A setup policy: what is done once for each node assigned and once for each node reclaimed, nodes in parallel. */
typedef struct htc_provision_setup {
    size_t      size; /**< sizeof(htc_provision_setup) */
    const char *name; /**< kept; as htc_registry_add wants it; NULL is fine for a policy that is in no registry */
    uint32_t assign;  /**< htc_provision_work for a node that is granted */
    uint32_t reclaim; /**< htc_provision_work for a node that comes back */
    htc_ns   node_ns; /**< how long either takes on one node, but for the wiping */
    htc_ns   wipe_ns; /**< how long HTC_PROVISION_WIPE takes on one node */
} htc_provision_setup;

/** The setup policies that the library brings. Their names in a registry are "none", "packages" and "wipe_os". */
typedef enum htc_provision_setting {
    HTC_PROVISION_PACKAGES = 0, /**< old packages out, new ones in: 15.743 s, as measured by the paper */
    HTC_PROVISION_NO_SETUP,     /**< nothing */
    HTC_PROVISION_WIPE_OS       /**< as PACKAGES, and the operating system is wiped on the way back; wipe_ns is 0: not measured */
} htc_provision_setting;

/**
 * A setup policy of the library.
 *
 * @param[in] which  htc_provision_setting
 * @return lends a constant; NULL for another number
 *
 * Cost: O(1).   Since: 0.2
 */
HTC_API const htc_provision_setup *htc_provision_setup_of(uint32_t which);

/**
 * Add a setup policy under a name (HTC_REGISTRY_SETUP), beside those of htc_registry_add_builtin.
 *
 * @param[in,out] registry  as it was on failure
 * @param[in]     setup     kept: outlives the registry
 * @return as htc_registry_add; HTC_EABI if it is of a newer library
 *
 * Cost: as htc_registry_add.   Since: 0.2
 */
HTC_API htc_status htc_provision_register_setup(htc_registry *registry, const htc_provision_setup *setup);

/**
 * Find a setup policy by name.
 *
 * @param[in]  registry  borrowed
 * @param[in]  name      borrowed
 * @param[out] setup     what was registered; untouched on failure
 * @return HTC_OK; HTC_EINVAL; HTC_ENOTFOUND
 *
 * Cost: as htc_registry_find.   Since: 0.2
 */
HTC_API htc_status htc_provision_find_setup(const htc_registry *registry, const char *name, const htc_provision_setup **setup);

/** What changing hands means for some nodes. */
typedef struct htc_provision_change {
    uint32_t work;     /**< an or of htc_provision_work: in the order of its values, on each node */
    htc_ns   node_ns;  /**< how long that takes on one node: with a delay the node can be used this much later */
    htc_ns   total_ns; /**< on all of them, one after the other: the management overhead; at most 2^64 - 1 */
} htc_provision_change;

/**
 * What is to be done to nodes that are granted or come back.
 *
 * @param[in]  setup    borrowed; NULL: "packages"
 * @param[in]  assign   1: granted; 0: reclaimed
 * @param[in]  nodes    how many, to HTC_PROVISION_NODES_MAX
 * @param[out] change   untouched on failure
 * @return HTC_OK; HTC_EINVAL if a number is out of range; HTC_EABI
 *
 * Cost: O(1).   Since: 0.2
 */
HTC_API htc_status htc_provision_set_up(const htc_provision_setup *setup, uint32_t assign, uint64_t nodes,
                                        htc_provision_change *change);

/* ---- what things cost ---- */

/** How a time held becomes units charged. */
typedef enum htc_provision_rounding {
    HTC_PROVISION_CEIL = 0, /**< ceil(held / unit), at least 1: leases that end on their unit (SSP, DSP) */
    HTC_PROVISION_STARTED   /**< floor(held / unit) + 1: a unit that began is charged (DRP) */
} htc_provision_rounding;

/**
 * Units charged for one node.
 *
 * @param[in] held_ns   how long it was held
 * @param[in] unit_ns   lease unit, from 1
 * @param[in] rounding  htc_provision_rounding
 * @return units; 0 if unit_ns or rounding is out of range
 *
 * Cost: O(1).   Since: 0.2
 */
HTC_API uint64_t htc_provision_units(htc_ns held_ns, htc_ns unit_ns, uint32_t rounding);

/** What a cluster of one's own costs (DCS), in cents. */
typedef struct htc_provision_owning {
    uint64_t capex;        /**< for the machines */
    uint64_t maintenance;  /**< in all the years together */
    uint64_t energy_space; /**< a month */
    uint32_t years;        /**< it lasts, from 1 to 1000 */
} htc_provision_owning;

/** What leased instances cost (SSP), in cents. */
typedef struct htc_provision_leasing {
    uint64_t instances;       /**< held all the time */
    uint64_t instance_hour;   /**< the price of one for an hour */
    uint64_t inbound_gb;      /**< transferred in a month */
    uint64_t gb;              /**< the price of one */
} htc_provision_leasing;

/**
 * Total cost of ownership of a dedicated cluster a month: (capex + maintenance) / (12 * years) + energy_space.
 *
 * @param[in]  cost   borrowed; each amount at most 2^48
 * @param[out] cents  rounded to the nearest, halves up; untouched on failure
 * @return HTC_OK; HTC_EINVAL
 *
 * Cost: O(1).   Since: 0.2
 */
HTC_API htc_status htc_provision_cost_of_owning(const htc_provision_owning *cost, uint64_t *cents);

/**
 * Cost of leased instances a month of 30 days: instances * 24 * 30 * instance_hour + inbound_gb * gb.
 *
 * @param[in]  cost   borrowed; each number at most 2^24
 * @param[out] cents  exact; untouched on failure
 * @return HTC_OK; HTC_EINVAL
 *
 * Cost: O(1).   Since: 0.2
 */
HTC_API htc_status htc_provision_cost_of_leasing(const htc_provision_leasing *cost, uint64_t *cents);

#ifdef __cplusplus
}
#endif
#endif
