/**
 * @file htcsched/deque.h
 * @brief Work-stealing deque: its owner pushes and pops at one end, any number of thieves take from the other.
 *
 *            top              split             bottom
 *             |    public       |     private      |
 *     oldest  [ . . . . . . . . | . . . . . . . . .]  newest
 *             thieves take here          the owner pushes and pops here
 *
 * The deque is split. What is private the owner pushes and pops without a fence or a locked instruction; what is public
 * thieves take with one compare-and-swap, one item or half of all. A thief that finds nothing public leaves a request;
 * the owner looks for it at every push and pop, and then publishes half of what it holds privately.
 *
 * So an owner that does not call shows nothing more. Call htc_deque_expose() before anything that takes longer than
 * some 10 us: from then on every item can be stolen, even if the owner pops once more and never calls again.
 *
 * Items are pointers that mean nothing to the deque; NULL is one like any other. They are the caller's: the deque
 * neither reads nor frees what they point to. What the owner did before a push has happened for whoever takes the item.
 *
 * Threads: owner/thief. Create, destroy, push, pop and expose, and the deque that htc_deque_steal_half() fills, are the
 * owner's: one thread at a time. Steals and sizes are for any thread. The owner's calls are wait-free: they retry only
 * where thieves took public items meanwhile, so at most once for each of these. A steal is one attempt, without a loop;
 * it fails with HTC_AGAIN only if another thread got on (lock-free). A thief that is stopped in the middle of a steal
 * keeps nobody waiting: the slots it was reading are not used again before it has gone on, so the deque may grow, or,
 * at its maximum, refuse a push with HTC_AGAIN. Allocation: through env, by create and where the owner's deque grows
 * (push, steal_half); older arrays, together smaller than the present one, are freed by destroy.   Source:
 * doc/papers.md#deque.
 */
#ifndef HTCSCHED_DEQUE_H
#define HTCSCHED_DEQUE_H

#include "htcsched/env.h"

#ifdef __cplusplus
extern "C" {
#endif

/** A deque never holds more items than this. */
#define HTC_DEQUE_CAPACITY_MAX (UINT64_C(1) << 30)

/** A work-stealing deque. */
typedef struct htc_deque htc_deque;

/** How large a deque is to be. */
typedef struct htc_deque_options {
    size_t   size;         /**< sizeof(htc_deque_options) */
    uint64_t capacity;     /**< room for so many items from the beginning, rounded up to a power of two; 0: 256, or the maximum */
    uint64_t capacity_max; /**< items it holds at most, capacity to HTC_DEQUE_CAPACITY_MAX; 0: 2^20, or capacity if more */
} htc_deque_options;

/** Options that are all default. */
#define HTC_DEQUE_OPTIONS_INIT { sizeof(htc_deque_options), 0, 0 }

/**
 * HTC_DEQUE_OPTIONS_INIT for languages that cannot use it.
 *
 * @param[out] options  every field its default; NULL is fine
 * @param[in]  size     sizeof *options as the caller was built: no more than this is written; 0: nothing
 *
 * Cost: O(1).   Since: 0.2
 */
HTC_API void htc_deque_options_init(htc_deque_options *options, size_t size);

/**
 * Create an empty deque.
 *
 * @param[in]  env      kept; NULL: malloc. Used by whoever owns the deque at the time.
 * @param[in]  options  borrowed; NULL: all default
 * @param[out] out      gives the deque: htc_deque_destroy; untouched on failure
 * @return HTC_OK; HTC_EINVAL if out is NULL or a number is out of range; HTC_EABI; HTC_ENOMEM
 *
 * Cost: two allocations, 8 bytes for each item there is room for.   Since: 0.2
 */
HTC_API htc_status htc_deque_create(const htc_env *env, const htc_deque_options *options, htc_deque **out);

/**
 * Free a deque. Items that are still in it are forgotten, not freed. No other thread may be in a call on it.
 *
 * @param[in] deque  NULL is fine
 *
 * Cost: one free for each time it has grown.   Since: 0.2
 */
HTC_API void htc_deque_destroy(htc_deque *deque);

/**
 * Owner: add an item at the bottom.
 *
 * @param[in,out] deque  as it was on failure
 * @param[in]     item   kept: any pointer
 * @return HTC_OK; HTC_AGAIN if it may not grow and a thief still copies from the slots that are needed: run the item
 *         yourself, or try again later; HTC_EFULL if it holds capacity_max items; HTC_ENOMEM if it could not grow;
 *         HTC_EINVAL if deque is NULL
 *
 * Cost: O(1), no fence and no locked instruction; O(1) amortised where it grows.   Since: 0.2
 */
HTC_API htc_status htc_deque_push(htc_deque *deque, void *item);

/**
 * Owner: take the newest item, the one at the bottom.
 *
 * Where nothing is private, some of what is public is taken back: one item the first time after an expose, then twice
 * as many each time, at most half of it.
 *
 * @param[in,out] deque  as it was on failure
 * @param[out]    item   what was pushed last; untouched on failure
 * @return HTC_OK; HTC_EMPTY if there is no item; HTC_EINVAL if a pointer is NULL
 *
 * Cost: O(1), no fence and no locked instruction; one compare-and-swap where something is taken back.   Since: 0.2
 */
HTC_API htc_status htc_deque_pop(htc_deque *deque, void **item);

/**
 * Owner: make every item public, so that thieves find them without the owner's help.
 *
 * Call it before any task that runs longer than some 10 us. The next pop takes back the one item it returns and no
 * other.
 *
 * @param[in,out] deque  all its items are public afterwards
 * @return HTC_OK; HTC_EINVAL if deque is NULL
 *
 * Cost: one locked instruction, none if nothing is private.   Since: 0.2
 */
HTC_API htc_status htc_deque_expose(htc_deque *deque);

/**
 * Thief: take the oldest item, the one at the top.
 *
 * For a thread that waits for an item of its own to come back this is the right steal: its own deque stays as it is.
 *
 * @param[in,out] victim  any deque
 * @param[out]    item    untouched on failure
 * @return HTC_OK; HTC_AGAIN if another thread was faster: try again at once; HTC_EMPTY if nothing is public (its owner
 *         has been asked to publish half of what it has): look elsewhere, come back later; HTC_EINVAL if a pointer
 *         is NULL
 *
 * Cost: one compare-and-swap; none where nothing is public.   Since: 0.2
 */
HTC_API htc_status htc_deque_steal(htc_deque *victim, void **item);

/**
 * Thief: move half of a deque's items into one's own, the oldest ones, in one compare-and-swap.
 *
 * Half of all that is in the victim then, private items too, rounded up; at most as many as are public, as there is
 * room for in own, and as max. Room is made before anything is taken. The items stand in own above those it had, in
 * their order: own's next pop gives the youngest of them.
 *
 * @param[in,out] victim  any deque but own
 * @param[in,out] own     a deque that the caller owns; keeps its items
 * @param[in]     max     take no more than this, at least 1; SIZE_MAX: half, however many
 * @param[out]    taken   how many items were moved, at least 1; untouched on failure; NULL is fine
 * @return as htc_deque_steal; HTC_EFULL or HTC_ENOMEM if there is no room in own; HTC_AGAIN also if own has no room
 * until a thief has gone on; HTC_EINVAL if victim is own, max is 0 or a deque is NULL
 *
 * Cost: one compare-and-swap and O(taken); none where nothing is public.   Since: 0.2
 */
HTC_API htc_status htc_deque_steal_half(htc_deque *victim, htc_deque *own, size_t max, size_t *taken);

/**
 * Thief: the same into an array, the oldest item first.
 *
 * @param[in,out] victim  any deque
 * @param[in]     max     room in items, at least 1
 * @param[out]    items   max pointers, caller-allocated; untouched on failure
 * @param[out]    taken   how many were taken, at least 1; untouched on failure
 * @return as htc_deque_steal; HTC_EINVAL if max is 0 or a pointer is NULL
 *
 * Cost: one compare-and-swap and O(taken); none where nothing is public.   Since: 0.2
 */
HTC_API htc_status htc_deque_steal_half_out(htc_deque *victim, size_t max, void **items, size_t *taken);

/**
 * How many items there are.
 *
 * Exact for the owner while no thief is at work; a hint for everybody else. It reads a line of memory that the owner
 * writes all the time: ask before choosing a victim, not in a loop.
 *
 * @param[in] deque  borrowed
 * @return the items, private and public; 0 if deque is NULL
 *
 * Cost: O(1).   Since: 0.2
 */
HTC_API size_t htc_deque_size(const htc_deque *deque);

/**
 * How many items are public: what a thief could take now.
 *
 * @param[in] deque  borrowed
 * @return the public items at one moment during the call; 0 if deque is NULL
 *
 * Cost: O(1).   Since: 0.2
 */
HTC_API size_t htc_deque_size_public(const htc_deque *deque);

#ifdef __cplusplus
}
#endif
#endif
