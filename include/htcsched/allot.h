/**
 * @file htcsched/allot.h
 * @brief Who may hold how many slots: fair shares by weight, what to do about them now, and why they are what they are.
 *
 * Three things, each usable without the others:
 * - htc_allot and htc_allot_plan divide slots among users in one call. Equation 1: RA(U) = min(demand(U), A / sum of weights *
 *   weight(U)) over the demanding users, in integers without loss: largest remainders first, then what capped users cannot
 *   use is filled up in proportion to weight. This is the rule for grants.
 * - An htc_allot_book remembers users whose numbers change one at a time, and answers one user's share at any moment without
 *   dividing for all; htc_allot_explain says what limits it and which user it waits for.
 * - An htc_allot_weigher makes weights of what is known about users: number of tasks, expected run time, past usage.
 *
 * All comparisons of shares are exact, so scaling all weights changes nothing. No clock, no input or output: a moment that
 * matters is an argument.
 *
 * Threads: pure, but for a book: owner; any number of threads may ask a book while none changes it.   Allocation: through env;
 * htc_allot, htc_allot_plan and htc_allot_weigh free their scratch before they return, a book grows with its users up to
 * users_max.   Source: doc/papers.md#allot, equation 1.
 */
#ifndef HTCSCHED_ALLOT_H
#define HTCSCHED_ALLOT_H

#include "htcsched/env.h"
#include "htcsched/registry.h"

#ifdef __cplusplus
extern "C" {
#endif

/** Weights of one call are in one unit of the caller's choice, 1 to this: 2^32 in units of 1/1024. */
#define HTC_ALLOT_WEIGHT_MAX (UINT64_C(1) << 42)
/** What htc_allot_weight answers for the weight 1. */
#define HTC_ALLOT_WEIGHT_ONE UINT64_C(1024)
/** htc_allot and htc_allot_plan divide at most this many slots. */
#define HTC_ALLOT_SLOTS_MAX (UINT64_C(1) << 48)
/** There are at most this many users. */
#define HTC_ALLOT_USERS_MAX ((size_t)1 << 20)
/** min_agents: nobody is promised anything. */
#define HTC_ALLOT_NO_MINIMUM UINT32_MAX

/** How htc_allot divides. */
typedef enum htc_allot_policy {
    HTC_ALLOT_EQ1 = 0,    /**< equation 1 over users with a queue; satisfied users keep what they hold */
    HTC_ALLOT_STATIC = 1, /**< floor(A / K) for each of K fixed users, whatever they need */
    HTC_ALLOT_MAXMIN = 2, /**< progressive filling over every user with unfinished tasks */
    HTC_ALLOT_FCFS = 3    /**< no sharing: who arrived first takes what they can use; nobody is drained */
} htc_allot_policy;

/** One user, as the caller sees them now. */
typedef struct htc_allot_user {
    uint64_t weight;      /**< 1 to HTC_ALLOT_WEIGHT_MAX */
    uint64_t queued;      /**< tasks that wait for an agent; the user is demanding if there are any */
    uint64_t running;     /**< tasks that agents hold, draining ones included; of those that run one after the other in one slot, one */
    uint64_t agents;      /**< slots held or being started for the user, without the draining ones */
    uint64_t draining;    /**< slots marked by an earlier plan to be given back after the running task, and no others */
    uint64_t starting;    /**< those of agents that have not asked for a task yet */
    uint64_t last_served; /**< ties: who got a slot longest ago (smallest) goes first */
    uint64_t arrival;     /**< then who came first */
    uint64_t id;          /**< then the smallest; must differ between users */
    uint64_t fixed;       /**< HTC_ALLOT_STATIC: 1 for the K users who share */
} htc_allot_user;

/** How htc_allot and htc_allot_plan work; zeros: HTC_ALLOT_EQ1 with one agent for everybody. */
typedef struct htc_allot_options {
    size_t   size;        /**< sizeof(htc_allot_options) */
    uint32_t policy;      /**< htc_allot_policy */
    uint32_t min_agents;  /**< fair.min_agents: everybody gets this many if there are enough slots for that; 0: 1 */
    uint64_t fixed_users; /**< HTC_ALLOT_STATIC: K, at least 1 */
} htc_allot_options;

/** Options that are all defaults. */
#define HTC_ALLOT_OPTIONS_INIT { sizeof(htc_allot_options), 0, 0, 0 }

/**
 * HTC_ALLOT_OPTIONS_INIT for languages that cannot use it.
 *
 * @param[out] options  every field its default; NULL is fine
 * @param[in]  size     sizeof *options as the caller was built: no more than this is written; 0: nothing
 *
 * Cost: O(1).   Since: 0.2
 */
HTC_API void htc_allot_options_init(htc_allot_options *options, size_t size);

/** What a user is entitled to. */
typedef struct htc_allot_share {
    uint64_t ra;   /**< RA(U): slots that the user may hold; 0 for a user who is not divided for */
    uint64_t base; /**< the entitlement before filling: below it the user is owed slots, above it the user may have to give some */
} htc_allot_share;

/** What to do for one user, in this order: keep, grant, then mark. */
typedef struct htc_allot_change {
    htc_allot_share share;   /**< what it is done for */
    uint64_t        undrain; /**< take the mark off this many draining agents, the newest marks first */
    uint64_t        grant;   /**< start this many agents */
    uint64_t        drain;   /**< mark this many more agents: idle ones first, then those expected to finish first */
} htc_allot_change;

/**
 * Divide slots among users.
 *
 * The sum of ra is min(slots, sum of queued + running) over the users divided for (eq1, maxmin, fcfs); ra never exceeds
 * queued + running; users that are equal differ by at most 1.
 *
 * @param[in]  env      scratch memory; NULL: malloc
 * @param[in]  options  borrowed; NULL: eq1
 * @param[in]  users    n users, in any order; borrowed
 * @param[in]  n        how many, 0 to HTC_ALLOT_USERS_MAX
 * @param[in]  slots    A, 0 to HTC_ALLOT_SLOTS_MAX
 * @param[out] out      n shares, caller-allocated; untouched on failure
 * @return HTC_OK; HTC_EINVAL if a number is out of range or two ids are equal; HTC_EABI; HTC_ENOMEM
 *
 * Cost: O(n), whatever the numbers; 40 bytes a user of scratch.   Since: 0.1
 */
HTC_API htc_status htc_allot(const htc_env *env, const htc_allot_options *options, const htc_allot_user *users,
                             size_t n, uint64_t slots, htc_allot_share *out);

/**
 * Decide who gets the free slots, who is to give back, and which marks are no longer needed.
 *
 * Free slots go to users below base, then below ra, fewest agents for their weight first. Only as many slots are marked
 * as users below base could use and free slots and earlier marks do not cover. No task is ever interrupted: a marked
 * agent leaves after its task. When slots cannot be divided evenly, the odd ones go round among equals, a task at a
 * time.
 *
 * @param[in]  env         scratch memory; NULL: malloc
 * @param[in]  options     borrowed; NULL: eq1
 * @param[in]  users       n users, in any order; borrowed
 * @param[in]  n           how many, 0 to HTC_ALLOT_USERS_MAX
 * @param[in]  slots       A, 0 to HTC_ALLOT_SLOTS_MAX
 * @param[in]  free_slots  slots nobody holds or has reserved, at most slots
 * @param[out] out         n changes, caller-allocated; untouched on failure
 * @return HTC_OK; HTC_EINVAL if a number is out of range or two ids are equal; HTC_EABI; HTC_ENOMEM
 *
 * Cost: O((n + slots granted + marks taken off) log n): these are handed out one by one.   Since: 0.1
 */
HTC_API htc_status htc_allot_plan(const htc_env *env, const htc_allot_options *options, const htc_allot_user *users,
                                  size_t n, uint64_t slots, uint64_t free_slots, htc_allot_change *out);

/**
 * A real weight in units of 1/1024.
 *
 * @param[in] weight  any number
 * @return the weight rounded, at least 1 and at most HTC_ALLOT_WEIGHT_MAX; not a number: 1
 *
 * Cost: O(1).   Since: 0.1
 */
HTC_API uint64_t htc_allot_weight(double weight);

/**
 * Weights from profiles: weight = priority * clamp((work / median of all work)^gamma, 1/8, 8), in units of 1/1024.
 *
 * @param[in]  env       scratch memory; NULL: malloc
 * @param[in]  priority  n numbers, 1 to 2^32
 * @param[in]  work      n amounts of unfinished work (tasks times their mean run time); 0 or less: not known, factor 1,
 *                       and left out of the median
 * @param[in]  n         how many, 0 to HTC_ALLOT_USERS_MAX
 * @param[in]  gamma     -1 to 1: below 0 short bags weigh more, above 0 long ones, at 0 nothing changes
 * @param[out] weight    n weights, caller-allocated; untouched on failure
 * @return HTC_OK; HTC_EINVAL if a priority or gamma is out of range; HTC_ENOMEM
 *
 * Cost: O(n log n).   Since: 0.1
 */
HTC_API htc_status htc_allot_profiled(const htc_env *env, const uint64_t *priority, const double *work, size_t n,
                                      double gamma, uint64_t *weight);

/**
 * The policy called "eq1", "static", "maxmin" or "fcfs".
 *
 * @param[in]  name    borrowed; NULL is no policy's name
 * @param[out] policy  an htc_allot_policy; untouched on failure; NULL: only asks
 * @return HTC_OK; HTC_ENOTFOUND for any other name
 *
 * Cost: O(1).   Since: 0.1
 */
HTC_API htc_status htc_allot_policy_from_name(const char *name, uint32_t *policy);

/** @name A book of users
 * Weighted max-min fairness, kept up to date. There is one level, slots for a unit of weight, and each user's exact share is
 *
 *     share(U) = the level times weight(U), but at least the user's minimum, and at most the user's demand and cap
 *
 * with the level so high that all shares add up to min(slots, all that is wanted). Minimum shares hold while all of them
 * together fit into the slots; else none does, as with min_agents of htc_allot. In integers: the users that divide by weight
 * stand in a row in the order in which they were added. What the row is due up to each user is rounded up. The share of a
 * user is that number less the same number for the user before. So shares add up to min(slots, all that is wanted), none differs from the
 * exact one by 1 or more, and minimum, demand and cap hold exactly. (The others need no rounding: they have what they want,
 * or their minimum.)
 * @{ */

/** A book divides at most this many slots, and counts what is wanted beyond as this much: 2^43. */
#define HTC_ALLOT_BOOK_SLOTS_MAX (UINT64_C(1) << 43)
/** No user's number. */
#define HTC_ALLOT_NOBODY UINT32_MAX

/** Users who divide slots. */
typedef struct htc_allot_book htc_allot_book;

/** What a book is to be; zeros are defaults. */
typedef struct htc_allot_book_options {
    size_t   size;      /**< sizeof(htc_allot_book_options) */
    uint64_t users_max; /**< holds at most this many users; 0: HTC_ALLOT_USERS_MAX, the most there can be */
    uint64_t slots;     /**< to begin with, 0 to HTC_ALLOT_BOOK_SLOTS_MAX */
} htc_allot_book_options;

/** Options that are all defaults. */
#define HTC_ALLOT_BOOK_OPTIONS_INIT { sizeof(htc_allot_book_options), 0, 0 }

/** What a user asks for. */
typedef struct htc_allot_claim {
    uint64_t weight;  /**< 1 to HTC_ALLOT_WEIGHT_MAX, in one unit for all users of a book */
    uint64_t demand;  /**< slots that the user has work for */
    uint64_t minimum; /**< at least this many (of those with work) while all minimum shares fit into the slots */
    uint64_t cap;     /**< at most this many, not below minimum; 0: no cap */
} htc_allot_claim;

/** What keeps a share from being larger. */
typedef enum htc_allot_limit {
    HTC_ALLOT_BY_DEMAND = 1, /**< the user has work for no more */
    HTC_ALLOT_BY_CAP,        /**< the user's cap */
    HTC_ALLOT_BY_WEIGHT,     /**< none of these: all users that want more divide by weight */
    HTC_ALLOT_BY_MINIMUM     /**< none of these: the weight would give no more than the minimum, which the user has */
} htc_allot_limit;

/** Why a user's share is what it is. The users of a book who want slots are satisfied, dividing or promised. */
typedef struct htc_allot_reason {
    uint64_t share;            /**< the user's slots */
    uint64_t wanted;           /**< slots that the user could use: the smaller of demand and cap */
    uint32_t limit;            /**< htc_allot_limit */
    uint32_t minimums_void;    /**< 1: there are fewer slots than minimum shares, so none counts */
    uint64_t level_slots;      /**< dividing users get level_slots for level_weight of weight, */
    uint64_t level_weight;     /**< before rounding; 0: no user divides, there are slots enough */
    uint32_t satisfied_users;  /**< users who have all they want */
    uint32_t dividing_users;   /**< users who want more and divide by weight */
    uint32_t promised_users;   /**< users who hold their minimum, which is more than their weight gives */
    uint32_t next;             /**< the dividing user that it waits for: the first to have enough, after which what is
                                    left goes to fewer; HTC_ALLOT_NOBODY: no user divides */
    uint64_t satisfied_slots;  /**< what the satisfied hold */
    uint64_t dividing_slots;   /**< what the dividing users hold */
    uint64_t promised_slots;   /**< what the promised hold */
    uint64_t slots_needed;     /**< with this many slots in all, and nothing else changed, the user would have all that is wanted */
    char     text[400];        /**< all this as one sentence in English, without full stop and newline */
} htc_allot_reason;

/** What a book comes to. */
typedef struct htc_allot_totals {
    uint64_t users;  /**< in the book, those without demand included */
    uint64_t slots;  /**< to divide */
    uint64_t wanted; /**< by all users, each within the cap and HTC_ALLOT_BOOK_SLOTS_MAX */
    uint64_t given;  /**< min(slots, wanted): what all shares add up to */
} htc_allot_totals;

/**
 * HTC_ALLOT_BOOK_OPTIONS_INIT for languages that cannot use it.
 *
 * @param[out] options  every field its default; NULL is fine
 * @param[in]  size     sizeof *options as the caller was built: no more than this is written; 0: nothing
 *
 * Cost: O(1).   Since: 0.2
 */
HTC_API void htc_allot_book_options_init(htc_allot_book_options *options, size_t size);

/**
 * Create a book without users.
 *
 * @param[in]  env      kept; NULL: malloc
 * @param[in]  options  copied; NULL: defaults
 * @param[out] out      gives the book: htc_allot_book_destroy; untouched on failure
 * @return HTC_OK; HTC_EINVAL if a number is out of range or out is NULL; HTC_EABI; HTC_ENOMEM
 *
 * Cost: one allocation.   Since: 0.2
 */
HTC_API htc_status htc_allot_book_create(const htc_env *env, const htc_allot_book_options *options, htc_allot_book **out);

/**
 * Free a book.
 *
 * @param[in] book  NULL is fine
 *
 * Cost: O(1) and the freeing of a few blocks.   Since: 0.2
 */
HTC_API void htc_allot_book_destroy(htc_allot_book *book);

/**
 * Add a user.
 *
 * @param[in,out] book   as it was on failure
 * @param[in]     claim  what the user asks for; copied
 * @param[out]    user   the user's number, below users_max, for use as an index: the one that was given back last by
 *                       htc_allot_book_remove, else the next; untouched on failure
 * @return HTC_OK; HTC_EINVAL if a pointer is NULL or a number out of range; HTC_EFULL if there are users_max; HTC_ENOMEM
 *
 * Cost: O(log n) for n users, and as long again for each user that it moves: one that begins to divide by weight, or no
 * longer does, as the level passes what that user wants or is promised; all together never more than O(n). Users that want the
 * same for their weight and come last on the level's way, however many, are not moved before it goes on. About 155 bytes a user, 225
 * once minimum shares are used, and up to as much again as room to grow. Growing copies what there is, and so does, once in
 * n / 2 users that are added, closing the gaps of those that left.   Since: 0.2
 */
HTC_API htc_status htc_allot_book_add(htc_allot_book *book, const htc_allot_claim *claim, uint32_t *user);

/**
 * Remove a user.
 *
 * @param[in,out] book  as it was on failure
 * @param[in]     user  the user's number
 * @return HTC_OK; HTC_EINVAL if book is NULL; HTC_ENOTFOUND if there is no such user
 *
 * Cost: as htc_allot_book_add, without growing.   Since: 0.2
 */
HTC_API htc_status htc_allot_book_remove(htc_allot_book *book, uint32_t user);

/**
 * Change what a user has work for. Like any change of a claim, this keeps the place in order of arrival.
 *
 * @param[in,out] book    as it was on failure
 * @param[in]     user    the user's number
 * @param[in]     demand  in slots; any number
 * @return HTC_OK; HTC_EINVAL if book is NULL; HTC_ENOTFOUND if there is no such user
 *
 * Cost: as htc_allot_book_remove.   Since: 0.2
 */
HTC_API htc_status htc_allot_book_set_demand(htc_allot_book *book, uint32_t user, uint64_t demand);

/**
 * Change a user's weight.
 *
 * @param[in,out] book    as it was on failure
 * @param[in]     user    the user's number
 * @param[in]     weight  1 to HTC_ALLOT_WEIGHT_MAX
 * @return HTC_OK; HTC_EINVAL if book is NULL or weight out of range; HTC_ENOTFOUND if there is no such user
 *
 * Cost: as htc_allot_book_remove.   Since: 0.2
 */
HTC_API htc_status htc_allot_book_set_weight(htc_allot_book *book, uint32_t user, uint64_t weight);

/**
 * Change what a user is promised and may have at most.
 *
 * @param[in,out] book     as it was on failure
 * @param[in]     user     the user's number
 * @param[in]     minimum  in slots; 0: nothing
 * @param[in]     cap      in slots, not below minimum; 0: no cap
 * @return HTC_OK; HTC_EINVAL if book is NULL or cap below minimum; HTC_ENOTFOUND if there is no such user; HTC_ENOMEM
 *
 * Cost: as htc_allot_book_add.   Since: 0.2
 */
HTC_API htc_status htc_allot_book_set_limits(htc_allot_book *book, uint32_t user, uint64_t minimum, uint64_t cap);

/**
 * Change the number of slots.
 *
 * @param[in,out] book   as it was on failure
 * @param[in]     slots  0 to HTC_ALLOT_BOOK_SLOTS_MAX
 * @return HTC_OK; HTC_EINVAL if book is NULL or slots out of range
 *
 * Cost: as htc_allot_book_remove; a jump moves many users, up to all.   Since: 0.2
 */
HTC_API htc_status htc_allot_book_set_slots(htc_allot_book *book, uint64_t slots);

/**
 * What a user asks for, as the book has it.
 *
 * @param[in]  book   borrowed
 * @param[in]  user   the user's number
 * @param[out] claim  what was said last; untouched on failure
 * @return HTC_OK; HTC_EINVAL if a pointer is NULL; HTC_ENOTFOUND if there is no such user
 *
 * Cost: O(1).   Since: 0.2
 */
HTC_API htc_status htc_allot_book_claim(const htc_allot_book *book, uint32_t user, htc_allot_claim *claim);

/**
 * How many slots a user may hold now.
 *
 * @param[in]  book   borrowed
 * @param[in]  user   the user's number
 * @param[out] slots  the user's share; untouched on failure
 * @return HTC_OK; HTC_EINVAL if a pointer is NULL; HTC_ENOTFOUND if there is no such user
 *
 * Cost: O(log n).   Since: 0.2
 */
HTC_API htc_status htc_allot_book_share(const htc_allot_book *book, uint32_t user, uint64_t *slots);

/**
 * What a book comes to.
 *
 * @param[in]  book    borrowed
 * @param[out] totals  untouched on failure
 * @return HTC_OK; HTC_EINVAL if a pointer is NULL
 *
 * Cost: O(1).   Since: 0.2
 */
HTC_API htc_status htc_allot_book_totals(const htc_allot_book *book, htc_allot_totals *totals);

/**
 * Why a user's share is what it is: what limits it, and which user it waits for.
 *
 * @param[in]  book    borrowed
 * @param[in]  user    the user's number
 * @param[out] reason  caller-allocated; untouched on failure
 * @return HTC_OK; HTC_EINVAL if a pointer is NULL; HTC_ENOTFOUND if there is no such user
 *
 * Cost: O(log n).   Since: 0.2
 */
HTC_API htc_status htc_allot_explain(const htc_allot_book *book, uint32_t user, htc_allot_reason *reason);

/** @} */

/** @name Weights
 * Makers of weights by name: "equal", "priority", "tasks", "run-time", "usage" and "fair-share" come with the library
 * (htc_registry_add_builtin); others can be registered beside them.
 * @{ */

/** What was used before, halved with every half-life that passes. Zeros: nothing. */
typedef struct htc_allot_usage {
    double slot_s; /**< slot-seconds, as they counted at that moment */
    htc_ns at;     /**< the moment */
} htc_allot_usage;

/** How long tasks of one kind run. Zeros: nothing is known. */
typedef struct htc_allot_profile {
    uint64_t count;    /**< tasks seen */
    double   mean_s;   /**< moving average of their run times in seconds, 0.2 of each new one */
    double   variance; /**< moving average of the squared distance from it */
    double   max_s;    /**< the longest */
} htc_allot_profile;

/** What is known of a user when the weight is made. */
typedef struct htc_allot_facts {
    uint64_t          priority; /**< from the account, 1 to 2^32; 0: 1 */
    uint64_t          tasks;    /**< unfinished tasks */
    htc_allot_profile profile;  /**< of these tasks */
    htc_allot_usage   usage;    /**< slots held before now */
} htc_allot_facts;

/** How weights are made; zeros are defaults. */
typedef struct htc_allot_weighing {
    size_t size;         /**< sizeof(htc_allot_weighing) */
    htc_ns now;          /**< on the clock of htc_allot_usage */
    htc_ns half_life_ns; /**< of usage; 0: seven days */
    double gamma;        /**< -1 to 1, how much tasks and run time count: below 0 users with less weigh more, above 0 those with
                              more; 0: the weigher's own, 1 for tasks and -0.5 for run-time */
} htc_allot_weighing;

/** Options that are all defaults. */
#define HTC_ALLOT_WEIGHING_INIT { sizeof(htc_allot_weighing), 0, 0, 0 }

/** A maker of weights. Kept: outlives the registry it stands in. */
typedef struct htc_allot_weigher {
    size_t      size; /**< sizeof(htc_allot_weigher) */
    const char *name; /**< kept; as htc_registry_add wants it; NULL is fine for a policy that is in no registry */
    void       *ctx;  /**< kept; handed to both functions */
    /** By what users are compared, in any unit: 0 or less, or not a number: not known. NULL: they are not compared. */
    double (*amount)(void *ctx, const htc_allot_facts *user, const htc_allot_weighing *how);
    /** The weight, 1.0 for the most usual user. amount is what the call above said, or 0; typical is the median of all known
     *  amounts, 0 if there is none. htc_allot_weight rounds it. */
    double (*weight)(void *ctx, const htc_allot_facts *user, double amount, double typical, const htc_allot_weighing *how);
} htc_allot_weigher;

/**
 * HTC_ALLOT_WEIGHING_INIT for languages that cannot use it.
 *
 * @param[out] how  every field its default; NULL is fine
 *
 * Cost: O(1).   Since: 0.2
 */
HTC_API void htc_allot_weighing_init(htc_allot_weighing *how);

/**
 * Register a maker of weights under its name.
 *
 * @param[in,out] registry  as it was on failure
 * @param[in]     weigher   kept: outlives the registry
 * @return HTC_OK; HTC_EINVAL if something is missing; HTC_EABI; HTC_EEXISTS; HTC_EFULL; HTC_ENOMEM
 *
 * Cost: as htc_registry_add.   Since: 0.2
 */
HTC_API htc_status htc_allot_register(htc_registry *registry, const htc_allot_weigher *weigher);

/**
 * Find a maker of weights.
 *
 * @param[in]  registry  borrowed
 * @param[in]  name      borrowed
 * @param[out] weigher   what was registered; untouched on failure
 * @return HTC_OK; HTC_EINVAL if a pointer is NULL; HTC_ENOTFOUND
 *
 * Cost: as htc_registry_find.   Since: 0.2
 */
HTC_API htc_status htc_allot_find(const htc_registry *registry, const char *name, const htc_allot_weigher **weigher);

/**
 * The weights of all users.
 *
 * "equal": 1. "priority": p, the user's priority. "tasks" and "run-time": p * clamp((amount / typical)^gamma, 1/8, 8), where the
 * amount is the number of tasks, or that times the mean run time of the profile. "usage": p * max(2^(1 - amount / typical), 1/8),
 * where the amount is the usage decayed to now: 1 for the typical user, 2 for one that used nothing. "fair-share": as "usage", where
 * the amount is the decayed usage divided by p: users who used slots in proportion to their shares p weigh what these say,
 *
 *     weight(U) = p(U) * max(2^(1 - (usage(U) / p(U)) / median of usage / p), 1/8)
 *
 * so that with no usage at all the weight is p, and multiplying all shares or all usage by one number changes no ratio.
 *
 * @param[in]  env      scratch memory; NULL: malloc
 * @param[in]  weigher  borrowed
 * @param[in]  how      borrowed; NULL: defaults
 * @param[in]  users    n users; borrowed
 * @param[in]  n        how many, 0 to HTC_ALLOT_USERS_MAX
 * @param[out] weights  n weights in units of 1/1024, caller-allocated; untouched on failure
 * @param[out] typical  the median of all known amounts (of an even number the mean of the two in the middle), 0 if there is
 *                      none: for htc_allot_weigh_one; untouched on failure; NULL: not wanted
 * @return HTC_OK; HTC_EINVAL if a pointer is NULL or a number out of range; HTC_EABI; HTC_ENOMEM
 *
 * Cost: O(n log n) and three calls of the weigher for each user, two of them of amount.   Since: 0.2
 */
HTC_API htc_status htc_allot_weigh(const htc_env *env, const htc_allot_weigher *weigher, const htc_allot_weighing *how,
                                   const htc_allot_facts *users, size_t n, uint64_t *weights, double *typical);

/**
 * The weight of one user among others who have not changed.
 *
 * @param[in]  weigher  borrowed
 * @param[in]  how      borrowed; NULL: defaults
 * @param[in]  user     borrowed
 * @param[in]  typical  as htc_allot_weigh said
 * @param[out] weight   in units of 1/1024; untouched on failure
 * @return HTC_OK; HTC_EINVAL if a pointer is NULL or a number out of range; HTC_EABI
 *
 * Cost: two calls of the weigher.   Since: 0.2
 */
HTC_API htc_status htc_allot_weigh_one(const htc_allot_weigher *weigher, const htc_allot_weighing *how,
                                       const htc_allot_facts *user, double typical, uint64_t *weight);

/**
 * Count slots that were held: decay what was used before to this moment, then add.
 *
 * @param[in,out] usage         as it was on failure
 * @param[in]     slot_s        slots times seconds, 0 or more
 * @param[in]     now           the moment; one before usage->at counts as usage->at
 * @param[in]     half_life_ns  0: seven days
 * @return HTC_OK; HTC_EINVAL if usage is NULL or slot_s negative or not a number
 *
 * Cost: O(1).   Since: 0.2
 */
HTC_API htc_status htc_allot_usage_add(htc_allot_usage *usage, double slot_s, htc_ns now, htc_ns half_life_ns);

/**
 * What past usage counts now: slot_s * 2^(-(now - at) / half-life).
 *
 * @param[in] usage         borrowed; NULL: nothing was used
 * @param[in] now           the moment; one before usage->at counts as usage->at
 * @param[in] half_life_ns  0: seven days
 * @return slot-seconds; 0 if usage holds no number of them
 *
 * Cost: O(1).   Since: 0.2
 */
HTC_API double htc_allot_usage_now(const htc_allot_usage *usage, htc_ns now, htc_ns half_life_ns);

/**
 * Learn from a task that has run. The first one is the mean; each later one moves it by 0.2 of its distance.
 *
 * @param[in,out] profile  as it was on failure
 * @param[in]     run_s    seconds it ran, 0 or more
 * @return HTC_OK; HTC_EINVAL if profile is NULL or run_s negative or not a finite number
 *
 * Cost: O(1).   Since: 0.2
 */
HTC_API htc_status htc_allot_profile_add(htc_allot_profile *profile, double run_s);

/** @} */

#ifdef __cplusplus
}
#endif
#endif
