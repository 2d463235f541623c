/**
 * @file htcsched/ring.h
 * @brief Which members own a key: consistent hashing over a versioned table of 2^k fixed buckets.
 *
 * The hash space is cut into 2^k equal buckets; a table says for each which N members own it, in order. Keys move between
 * members only as whole buckets, so the bucket is at once the unit of ownership, of sealing, of copying and of comparison.
 *
 *     hash(key) --top k bits--> bucket --table--> first owner, second, ... N-th
 *
 * Members have weights, may be shards of one process, and stand in failure domains (racks). With M members, P processes and
 * D domains each bucket has n = min(N, M) distinct owners, out of min(n, P) processes and min(n, D) domains: no two in one
 * rack while there are enough racks, no two shards of one process while there are enough processes.
 *
 * Balance. The load of a member is what it owns divided by its weight. First places are divided by D'Hondt's rule: nobody's
 * load is above what anybody else's would be with one bucket more, which makes the largest load as small as it can be. The
 * rule is exact after every change where all domains are single members, and as near as the domains allow elsewhere. All
 * places together follow the same rule as far as domains and the table at hand allow; a rack that has to be in every bucket
 * owns all of them, however little it weighs.
 *
 * Fewest moves. A change is about one member m. No move is needless, and that means:
 *
 * 1. a bucket whose owners or their order differ afterwards has been entered or left by m, or has m as its first owner
 *    before or after; all others are as they were;
 * 2. a bucket gains at most one owner that it did not have. At a join or a growing weight that is m and nobody else; at a
 *    leave or a shrinking weight somebody is gained only where m is lost;
 * 3. with N = 1, m gains or loses the fewest buckets with which D'Hondt's rule holds again: counts that are tied stay.
 *
 * Each change makes a new epoch, each bucket remembers the epoch of its last change, and so a ring can tell what changed
 * since any earlier epoch (htc_ring_encode) and two rings of one history which buckets move and between whom
 * (htc_ring_move_next).
 *
 * A member sits on a seat: a small number that is its own while it is a member, and is given to another after it left. The
 * table holds seats; names and addresses belong into an array of the caller's, by seat.
 *
 * Who cannot ship a table computes one from a short list of unit slots: htc_ring_dx_find.
 *
 * Threads: owner; any number of threads may read one ring (const) while none changes it. htc_ring_dx_...: pure.
 * Allocation: through env; (2 N + 4) bytes a bucket, (3 N + 4) above 65,534 members, and some 60 bytes a member; scratch
 * while a call runs. Big tables profit from an allocator that asks for huge pages.
 * Source: doc/papers.md#ring.
 */
#ifndef HTCSCHED_RING_H
#define HTCSCHED_RING_H

#include "htcsched/env.h"

#ifdef __cplusplus
extern "C" {
#endif

/** A table has at most 2^this buckets. */
#define HTC_RING_BITS_MAX 28
/** A bucket has at most this many owners. */
#define HTC_RING_OWNERS_MAX 8
/** Weights are 1 to this. */
#define HTC_RING_WEIGHT_MAX 65535
/** A ring takes one member for this many buckets unless told otherwise: the largest load is then within 2 % of the mean. */
#define HTC_RING_BUCKETS_A_MEMBER 50
/** No seat: there is no such member, or no owner. */
#define HTC_RING_NONE UINT32_MAX
/** htc_ring_dx_find: there are at most 2^this unit slots. */
#define HTC_RING_DX_BITS_MAX 30

/** Members, their epochs, and the table of buckets. */
typedef struct htc_ring htc_ring;

/** How a ring is made; zero is the default of each. */
typedef struct htc_ring_options {
    size_t   size;        /**< sizeof(htc_ring_options) */
    uint32_t bits;        /**< k, 1 to HTC_RING_BITS_MAX; 0: 12, which is 4096 buckets. For good: it never changes. */
    uint32_t owners;      /**< N, 1 to HTC_RING_OWNERS_MAX; 0: 3 */
    uint32_t members_max; /**< at most 2^k; 0: 2^k / HTC_RING_BUCKETS_A_MEMBER, at least 1. More makes shares coarser. */
    uint32_t reserved;    /**< 0 */
} htc_ring_options;

/** An options struct of this library's size with every default. */
#define HTC_RING_OPTIONS_INIT { sizeof(htc_ring_options), 0, 0, 0, 0 }

/** One member. */
typedef struct htc_ring_member {
    uint64_t id;      /**< the caller's, any number but 0; must differ between members */
    uint64_t process; /**< shards of one process have the same; 0: a process of its own */
    uint64_t domain;  /**< members of one rack have the same; 0: none, the process is its own domain. One in a process. */
    uint32_t weight;  /**< its share is in proportion to this, 1 to HTC_RING_WEIGHT_MAX */
    uint32_t reserved; /**< 0 */
} htc_ring_member;

/** What a member owns, in buckets. */
typedef struct htc_ring_share {
    uint32_t first; /**< buckets whose first owner it is */
    uint32_t total; /**< buckets that it owns, at whatever place */
} htc_ring_share;

/** One bucket that differs between two epochs. Members are named by id, since seats are used again. */
typedef struct htc_ring_move {
    uint32_t bucket;                    /**< its number */
    uint32_t came_n;                    /**< how many own it afterwards that did not before */
    uint32_t went_n;                    /**< how many owned it before and do not afterwards; both 0: only the order changed */
    uint32_t first_changed;             /**< 1 if it has another first owner, else 0 */
    uint64_t came[HTC_RING_OWNERS_MAX]; /**< their ids, in the order they have afterwards */
    uint64_t went[HTC_RING_OWNERS_MAX]; /**< their ids, in the order they had before */
} htc_ring_move;

/**
 * HTC_RING_OPTIONS_INIT for bindings.
 *
 * @param[out] options  every default; NULL: nothing happens
 * @param[in]  size     sizeof *options as the caller was built: no more than this is written; 0: nothing
 *
 * Cost: none.   Since: 0.2
 */
HTC_API void htc_ring_options_init(htc_ring_options *options, size_t size);

/**
 * Create a ring with its first members, in epoch 1.
 *
 * The table is a function of the options and the set of members, not of their order; seats are given in the order of the
 * array. Shares by D'Hondt's rule with the domains' limits, the owners of a bucket drawn from all of the table, so that
 * the work of a member that fails goes to many.
 *
 * @param[in]  env      kept; NULL: malloc
 * @param[in]  options  borrowed; NULL: every default
 * @param[in]  members  n members, copied; may be NULL if n is 0
 * @param[in]  n        at most members_max
 * @param[out] out      gives the ring: htc_ring_destroy; untouched on failure
 * @return HTC_OK; HTC_EINVAL if a number is out of range, or members of one process are in several domains;
 *         HTC_EEXISTS if two have the same id; HTC_EFULL if there are more than members_max; HTC_EABI; HTC_ENOMEM
 *
 * Cost: O(2^k N + n log n).   Since: 0.2
 */
HTC_API htc_status htc_ring_create(const htc_env *env, const htc_ring_options *options, const htc_ring_member *members,
                                   size_t n, htc_ring **out);

/**
 * Copy a ring: the table of an epoch, to compare with or to come back to.
 *
 * @param[in]  ring  borrowed
 * @param[in]  env   kept by the copy; NULL: malloc
 * @param[out] out   gives the copy: htc_ring_destroy; untouched on failure
 * @return HTC_OK; HTC_EINVAL if ring or out is NULL; HTC_ENOMEM
 *
 * Cost: O(2^k N + members).   Since: 0.2
 */
HTC_API htc_status htc_ring_copy(const htc_ring *ring, const htc_env *env, htc_ring **out);

/**
 * Free a ring.
 *
 * @param[in] ring  NULL is fine
 *
 * Cost: O(1).   Since: 0.2
 */
HTC_API void htc_ring_destroy(htc_ring *ring);

/**
 * Take in a member.
 *
 * It takes buckets from those with the highest load until nobody's is above what its own would be with one more. While there
 * are fewer members than N it enters every bucket; so does the first member of a new domain while these are too few.
 *
 * @param[in,out] ring    in a new epoch; as it was on failure
 * @param[in]     member  copied
 * @return HTC_OK; HTC_EINVAL if a number is out of range, or its process is in another domain; HTC_EEXISTS if the id is
 *         taken; HTC_EFULL at members_max members, or after 2^32 - 1 epochs; HTC_ENOMEM
 *
 * Cost: O(members + buckets looked at), about 2^k ln(c) / c with c buckets a member, never more than a few passes.
 * Since: 0.2
 */
HTC_API htc_status htc_ring_join(htc_ring *ring, const htc_ring_member *member);

/**
 * Let a member go.
 *
 * Each bucket it owned goes to the member with the lowest load that the domains allow there. Where it was first, an
 * owner that has the data is preferred as its successor.
 *
 * @param[in,out] ring  in a new epoch; as it was on failure
 * @param[in]     id    of the member
 * @return HTC_OK; HTC_EINVAL if ring is NULL; HTC_ENOTFOUND; HTC_EFULL after 2^32 - 1 epochs; HTC_ENOMEM
 *
 * Cost: O(2^k N) reads in sequence, O(N log members) for each bucket it owned.   Since: 0.2
 */
HTC_API htc_status htc_ring_leave(htc_ring *ring, uint64_t id);

/**
 * Change the weight of a member. With the weight it has, nothing happens and the epoch stays.
 *
 * @param[in,out] ring    in a new epoch; as it was on failure
 * @param[in]     id      of the member
 * @param[in]     weight  1 to HTC_RING_WEIGHT_MAX
 * @return HTC_OK; HTC_EINVAL; HTC_ENOTFOUND; HTC_EFULL after 2^32 - 1 epochs; HTC_ENOMEM
 *
 * Cost: as htc_ring_join or htc_ring_leave.   Since: 0.2
 */
HTC_API htc_status htc_ring_reweight(htc_ring *ring, uint64_t id, uint32_t weight);

/**
 * Put a new member in the place of an old one: same seat, process, domain, weight and buckets.
 *
 * For a member that lost its data and may not come back under its old id: only its own buckets move.
 *
 * @param[in,out] ring    in a new epoch; as it was on failure
 * @param[in]     id      of the member that goes
 * @param[in]     new_id  of the one that comes
 * @return HTC_OK; HTC_EINVAL if ring is NULL or new_id is 0; HTC_ENOTFOUND; HTC_EEXISTS if new_id is a member;
 *         HTC_EFULL after 2^32 - 1 epochs; HTC_ENOMEM
 *
 * Cost: O(2^k N) reads in sequence.   Since: 0.2
 */
HTC_API htc_status htc_ring_replace(htc_ring *ring, uint64_t id, uint64_t new_id);

/**
 * Go back: the members and the table of an earlier epoch under a new one, for a change that is rolled back.
 *
 * @param[in,out] ring     in a new epoch; as it was on failure
 * @param[in]     earlier  a copy of the same ring; borrowed
 * @return HTC_OK; HTC_EINVAL if a pointer is NULL or the options of both differ; HTC_EFULL after 2^32 - 1 epochs;
 *         HTC_ENOMEM
 *
 * Cost: O(2^k N + members).   Since: 0.2
 */
HTC_API htc_status htc_ring_revert(htc_ring *ring, const htc_ring *earlier);

/**
 * The first owner of a key.
 *
 * @param[in] ring  borrowed
 * @param[in] hash  of the key, every bit as good as the next: htc_hash64 with the seed that all users of the ring share
 * @return its seat; HTC_RING_NONE if there are no members or ring is NULL
 *
 * Cost: one read of the table.   Since: 0.2
 */
HTC_API uint32_t htc_ring_find(const htc_ring *ring, uint64_t hash);

/**
 * The bucket of a key: the top k bits of its hash.
 *
 * @param[in] ring  borrowed
 * @param[in] hash  as in htc_ring_find
 * @return 0 to 2^k - 1; 0 if ring is NULL
 *
 * Cost: none.   Since: 0.2
 */
HTC_API uint32_t htc_ring_bucket(const htc_ring *ring, uint64_t hash);

/**
 * All owners of a bucket, in order: the preference list.
 *
 * @param[in]  ring    borrowed
 * @param[in]  bucket  0 to 2^k - 1
 * @param[out] seats   room for HTC_RING_OWNERS_MAX; the first min(N, members) are written
 * @return how many there are; 0 if there are no members, bucket is out of range or a pointer is NULL
 *
 * Cost: N reads of the table.   Since: 0.2
 */
HTC_API uint32_t htc_ring_owners(const htc_ring *ring, uint32_t bucket, uint32_t *seats);

/**
 * The version of the table.
 *
 * @param[in] ring  borrowed
 * @return from 1; 0 if ring is NULL
 *
 * Cost: none.   Since: 0.2
 */
HTC_API uint32_t htc_ring_epoch(const htc_ring *ring);

/**
 * The epoch in which a bucket's owners or their order last changed.
 *
 * @param[in] ring    borrowed
 * @param[in] bucket  0 to 2^k - 1
 * @return from 1; 0 if bucket is out of range or ring is NULL
 *
 * Cost: one read.   Since: 0.2
 */
HTC_API uint32_t htc_ring_bucket_epoch(const htc_ring *ring, uint32_t bucket);

/**
 * How many buckets there are.
 *
 * @param[in] ring  borrowed
 * @return 2^k; 0 if ring is NULL
 *
 * Cost: none.   Since: 0.2
 */
HTC_API uint32_t htc_ring_buckets(const htc_ring *ring);

/**
 * How many members there are.
 *
 * @param[in] ring  borrowed
 * @return 0 to members_max; 0 if ring is NULL
 *
 * Cost: none.   Since: 0.2
 */
HTC_API uint32_t htc_ring_members(const htc_ring *ring);

/**
 * How many seats there are, empty ones included: the length of an array beside the ring.
 *
 * @param[in] ring  borrowed
 * @return the most members there ever were at once; 0 if ring is NULL
 *
 * Cost: none.   Since: 0.2
 */
HTC_API uint32_t htc_ring_seats(const htc_ring *ring);

/**
 * Where a member sits.
 *
 * @param[in] ring  borrowed
 * @param[in] id    of the member
 * @return its seat; HTC_RING_NONE if there is no such member or ring is NULL
 *
 * Cost: O(1) expected.   Since: 0.2
 */
HTC_API uint32_t htc_ring_seat(const htc_ring *ring, uint64_t id);

/**
 * Who sits there.
 *
 * @param[in]  ring  borrowed
 * @param[in]  seat  0 to htc_ring_seats - 1
 * @param[out] out   the member; untouched on failure
 * @return HTC_OK; HTC_EINVAL if a pointer is NULL; HTC_ENOTFOUND if the seat is empty or there is none
 *
 * Cost: O(1).   Since: 0.2
 */
HTC_API htc_status htc_ring_member_at(const htc_ring *ring, uint32_t seat, htc_ring_member *out);

/**
 * What the member on a seat owns.
 *
 * @param[in]  ring  borrowed
 * @param[in]  seat  0 to htc_ring_seats - 1
 * @param[out] out   its buckets; untouched on failure
 * @return as htc_ring_member_at
 *
 * Cost: O(1).   Since: 0.2
 */
HTC_API htc_status htc_ring_share_at(const htc_ring *ring, uint32_t seat, htc_ring_share *out);

/**
 * The next bucket that differs between two epochs, and which members come and go.
 *
 *     for (uint32_t b = 0; htc_ring_move_next(before, after, b, &move) == HTC_OK; b = move.bucket + 1)
 *
 * @param[in]  before  borrowed; the two are of one history (htc_ring_copy, htc_ring_decode of the same ring's bytes)
 * @param[in]  after   borrowed
 * @param[in]  bucket  where to begin
 * @param[out] move    the first bucket from there on whose owners or their order differ; untouched on failure
 * @return HTC_OK; HTC_ENOTFOUND if there is none; HTC_EINVAL if a pointer is NULL or the options of both differ
 *
 * Cost: one read for each bucket passed over, O(N^2) for a move.   Since: 0.2
 */
HTC_API htc_status htc_ring_move_next(const htc_ring *before, const htc_ring *after, uint32_t bucket,
                                      htc_ring_move *move);

/**
 * How many bytes htc_ring_encode writes.
 *
 * @param[in] ring   borrowed
 * @param[in] since  as in htc_ring_encode
 * @return the bytes; 0 if ring is NULL
 *
 * Cost: as htc_ring_encode.   Since: 0.2
 */
HTC_API size_t htc_ring_encoded_size(const htc_ring *ring, uint32_t since);

/**
 * Write a whole ring, or what changed since an epoch. The same bytes on every machine.
 *
 * @param[in]  ring   borrowed
 * @param[in]  since  0: all of it; else an epoch that the reader has: members and buckets that changed later. What is not
 *                    older than the ring itself gives a difference in which nothing changed.
 * @param[out] out    caller-allocated; what is written when this fails is not defined
 * @param[in]  size   bytes of out, from htc_ring_encoded_size
 * @param[out] len    the bytes written; untouched on failure
 * @return HTC_OK; HTC_EINVAL if a pointer is NULL; HTC_EFULL if size is too small
 *
 * Cost: O(2^k + changed buckets N + members).   Since: 0.2
 */
HTC_API htc_status htc_ring_encode(const htc_ring *ring, uint32_t since, void *out, size_t size, size_t *len);

/**
 * Make a ring of what htc_ring_encode wrote with since = 0.
 *
 * The bytes may come from anybody: a ring that comes out of them keeps every promise of this header but balance. Memory
 * is at most 32 times the bytes.
 *
 * @param[in]  env    kept; NULL: malloc
 * @param[in]  bytes  borrowed
 * @param[out] out    gives the ring: htc_ring_destroy; untouched on failure
 * @return HTC_OK; HTC_EINVAL if out is NULL; HTC_EVERSION if they are of another version; HTC_MISMATCH if they are a
 *         difference; HTC_EPROTO if they are not what was written; HTC_ENOMEM
 *
 * Cost: O(2^k N^2 + members).   Since: 0.2
 */
HTC_API htc_status htc_ring_decode(const htc_env *env, htc_bytes bytes, htc_ring **out);

/**
 * Bring a ring to a later epoch by what htc_ring_encode wrote with since up to the ring's epoch (0 too).
 *
 * Late and repeated bytes are harmless: what is not newer than the ring changes nothing. Epochs have to be those of one
 * history; the bytes may come from anybody otherwise, as in htc_ring_decode.
 *
 * @param[in,out] ring   in the bytes' epoch if that is later; as it was on failure
 * @param[in]     bytes  borrowed
 * @return HTC_OK; HTC_EINVAL if ring is NULL; HTC_EVERSION; HTC_MISMATCH if the difference begins after the ring's epoch
 *         (ask for one since htc_ring_epoch) or is of a ring with other options; HTC_EPROTO; HTC_ENOMEM
 *
 * Cost: O(2^k N^2 + members).   Since: 0.2
 */
HTC_API htc_status htc_ring_apply(htc_ring *ring, htc_bytes bytes);

/**
 * The first owner of a key by DxHash: no table, but a list of unit slots that is short enough to send to anybody.
 *
 * The hash starts a pseudo-random walk over the 2^bits slots; the first that is taken has the key. A member of weight w
 * holds w slots. A slot that is emptied gives away its own keys only, a slot that is taken gets keys only for itself: no
 * needless moves. Shares are in proportion to weight but not exact: the keys fall as by chance. Keep half of the slots
 * taken, or walks get long; the number of slots is for good, as k is.
 *
 * @param[in] slots  2^bits numbers of members, HTC_RING_NONE for an empty slot; borrowed
 * @param[in] bits   0 to HTC_RING_DX_BITS_MAX
 * @param[in] hash   as in htc_ring_find
 * @return the number of the member; HTC_RING_NONE if no slot is taken, slots is NULL or bits out of range
 *
 * Cost: 2^bits / slots taken steps expected, at most 9 * 2^bits (DxHash, algorithm 1; then the next slot in order).
 * Since: 0.2
 */
HTC_API uint32_t htc_ring_dx_find(const uint32_t *slots, uint32_t bits, uint64_t hash);

/**
 * The first n distinct members of the same walk.
 *
 * @param[in]  slots   as in htc_ring_dx_find
 * @param[in]  bits    as in htc_ring_dx_find
 * @param[in]  hash    as in htc_ring_find
 * @param[in]  n       1 to HTC_RING_OWNERS_MAX
 * @param[out] owners  room for n; as many as are returned are written
 * @return how many there are, less than n only if there are fewer members; 0 if an argument is out of range
 *
 * Cost: as htc_ring_dx_find for each owner.   Since: 0.2
 */
HTC_API uint32_t htc_ring_dx_owners(const uint32_t *slots, uint32_t bits, uint64_t hash, uint32_t n, uint32_t *owners);

/**
 * Give a member as many unit slots as it weighs: a join, a leave (0) or another weight.
 *
 * It takes the lowest empty slots or gives up its highest, so all who make the same changes in the same order agree.
 *
 * @param[in,out] slots   as in htc_ring_dx_find; as they were on failure
 * @param[in]     bits    as in htc_ring_dx_find
 * @param[in]     member  its number, not HTC_RING_NONE
 * @param[in]     units   how many it is to hold
 * @return HTC_OK; HTC_EINVAL if an argument is out of range; HTC_EFULL if there are too few empty slots
 *
 * Cost: O(2^bits).   Since: 0.2
 */
HTC_API htc_status htc_ring_dx_set(uint32_t *slots, uint32_t bits, uint32_t member, uint32_t units);

#ifdef __cplusplus
}
#endif
#endif
