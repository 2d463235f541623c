/**
 * @file htcsched/kv_members.h
 * @brief Who keeps a store: the answer to HTC_KV_MEMBERS, member by member and bucket by bucket.
 *
 *     htc_kv_request q = { .size = sizeof q, .op = HTC_KV_MEMBERS };
 *     htc_kv_result  r = { .size = sizeof r };
 *     htc_kv_members all = { .size = sizeof all };
 *     htc_kv_member_shown m = { .size = sizeof m };
 *     if (htc_store_ask(store, &q, &r, &error) == HTC_OK && htc_kv_members_read(r.value, &all) == HTC_OK)
 *         for (size_t at = 0; htc_kv_members_next(&all, &at, &m) == HTC_OK;)
 *             printf("%016llx keeps %u buckets\n", (unsigned long long)m.id, m.owned);
 *
 * What is shown is the newest map that the member that was asked has seen (doc/design/membership.md); others may have seen a newer
 * one.
 *
 * Threads: pure.   Allocation: none.
 */
#ifndef HTCSCHED_KV_MEMBERS_H
#define HTCSCHED_KV_MEMBERS_H

#include "htcsched/bytes.h"
#include "htcsched/ring.h"

#ifdef __cplusplus
extern "C" {
#endif

/** What is being changed about the members. One change goes at a time. */
typedef enum htc_kv_change_kind {
    HTC_KV_CHANGE_NONE,    /**< nothing */
    HTC_KV_CHANGE_JOIN,    /**< a new member comes */
    HTC_KV_CHANGE_LEAVE,   /**< a member goes */
    HTC_KV_CHANGE_REPLACE, /**< a new member comes in the place of one that goes */
    HTC_KV_CHANGE_WEIGHT,  /**< a member gets another weight */
    HTC_KV_CHANGE_BACK,    /**< asked for alone: what is under way is given up, and what has moved goes back */
    HTC_KV_CHANGE_RATE,    /**< asked for alone, also while a change is under way: how many buckets a minute may move */
    HTC_KV_CHANGE_RENEW    /**< cannot be asked for: a member has damaged records, and their buckets are installed anew at all their owners. Since: 0.2 */
} htc_kv_change_kind;

/** What a member is now. */
typedef enum htc_kv_member_state {
    HTC_KV_MEMBER_IN = 1, /**< one that stays */
    HTC_KV_MEMBER_COMING, /**< buckets are on their way to it */
    HTC_KV_MEMBER_GOING   /**< its buckets are on their way to others; with the last of them it is no member any more */
} htc_kv_member_state;

/** The map of a store. */
typedef struct htc_kv_members {
    size_t    size;    /**< sizeof(htc_kv_members), set by the caller */
    uint64_t  version; /**< of the map: it grows whenever that changes; 0: nothing has changed since the members were first started */
    uint64_t  epoch;   /**< the newest number that was given to an owner's epoch, or to who moves a bucket */
    uint64_t  asked;   /**< the member that has answered */
    uint32_t  count;   /**< members: htc_kv_members_next shows so many */
    uint32_t  buckets; /**< of the whole store */
    uint32_t  copies;  /**< owners of each bucket */
    uint32_t  change;  /**< htc_kv_change_kind: what is under way */
    uint32_t  back;    /**< 1: that was given up, and what has moved goes back */
    uint32_t  weight;  /**< HTC_KV_CHANGE_WEIGHT: what it is to be */
    uint64_t  comer;   /**< who comes; 0: nobody */
    uint64_t  goer;    /**< who goes; HTC_KV_CHANGE_WEIGHT: whom it is about; HTC_KV_CHANGE_RENEW: who has the damage; 0: nobody */
    uint32_t  moved;   /**< buckets that have moved to other owners in this change */
    uint32_t  to_move; /**< and so many move in all; 0: no change is under way */
    uint64_t  driver;  /**< the member that moves them, as far as the one that was asked knows; 0: it does not */
    uint32_t  keepers; /**< members that keep the map itself */
    uint32_t  settles; /**< 1: the map itself is on its way to other keepers, or the one that was asked does not know yet that a majority of
                            them has it: ask once more */
    uint64_t  keeper[HTC_RING_OWNERS_MAX]; /**< their ids */
    htc_bytes members_bytes; /**< for htc_kv_members_next alone; lent by the value that was read */
    htc_bytes buckets_bytes; /**< for htc_kv_members_bucket alone; empty unless asked for (limit 1) */
    uint32_t  rate;     /**< buckets that may move in a minute; 0: as many as can */
    uint32_t  reserved; /**< 0 */
} htc_kv_members;

/** One member. */
typedef struct htc_kv_member_shown {
    size_t    size;    /**< sizeof(htc_kv_member_shown), set by the caller */
    uint64_t  id;      /**< drawn when its directory was made */
    uint64_t  process; /**< shards of one process have the same; 0: a process of its own */
    uint64_t  domain;  /**< members of one rack have the same; 0: none */
    uint32_t  weight;  /**< its share is in proportion to this */
    uint32_t  state;   /**< htc_kv_member_state */
    uint32_t  heard;   /**< 1: the member that was asked hears it, or is it */
    uint32_t  owned;   /**< buckets that it keeps now */
    uint32_t  first;   /**< those among them that it is the first owner of */
    uint32_t  planned; /**< buckets that it is to keep when the change is over */
    htc_bytes address; /**< where the others reach it, as it was told to them; empty: each was told by its own list */
} htc_kv_member_shown;

/** One bucket. */
typedef struct htc_kv_bucket_shown {
    size_t   size;                       /**< sizeof(htc_kv_bucket_shown), set by the caller */
    uint64_t epoch;                      /**< its owners last changed with this number */
    uint32_t owners;                     /**< how many keep it now */
    uint32_t reserved;                   /**< 0 */
    uint64_t owner[HTC_RING_OWNERS_MAX]; /**< their ids, in order */
} htc_kv_bucket_shown;

/**
 * Read the value of an answer to HTC_KV_MEMBERS.
 *
 * @param[in]     value  borrowed by members, as long as that is used
 * @param[in,out] members  as much of it is filled as its size says; untouched on failure
 * @return HTC_OK; HTC_EINVAL if members is NULL or its size 0; HTC_EPROTO; HTC_EVERSION: a later form
 *
 * Cost: O(bytes).   Since: 0.2
 */
HTC_API htc_status htc_kv_members_read(htc_bytes value, htc_kv_members *members);

/**
 * The next member, in the order of their ids.
 *
 * @param[in]     members  borrowed; with its full size
 * @param[in,out] at       the place: 0 before the first
 * @param[in,out] member   as much of it is filled as its size says; lent as long as the value; untouched on failure
 * @return HTC_OK; HTC_ENOTFOUND behind the last; HTC_EINVAL; HTC_EPROTO
 *
 * Cost: O(1).   Since: 0.2
 */
HTC_API htc_status htc_kv_members_next(const htc_kv_members *members, size_t *at, htc_kv_member_shown *member);

/**
 * The next bucket, from the first on.
 *
 * @param[in]     members  borrowed; with its full size, of a request with limit 1
 * @param[in,out] at       the place: 0 before the first
 * @param[in,out] bucket   as much of it is filled as its size says; untouched on failure
 * @return HTC_OK; HTC_ENOTFOUND behind the last; HTC_EINVAL; HTC_EPROTO
 *
 * Cost: O(1).   Since: 0.2
 */
HTC_API htc_status htc_kv_members_bucket(const htc_kv_members *members, size_t *at, htc_kv_bucket_shown *bucket);

#ifdef __cplusplus
}
#endif
#endif
