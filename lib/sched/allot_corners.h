/* Where users stop and start to grow as the level of a book rises: a balanced tree in order of the level, with sums.
 *
 * A user's share as a function of the level (slots for a unit of weight) is flat at his minimum, rises with his weight,
 * and is flat at what he wants. The two corners of that line are at minimum / weight ("low", only if he has a minimum)
 * and at wanted / weight ("high"). The sums over all corners below a level say how many slots all users take at it. A
 * user is shut if he is held up at his minimum: the caller says so. */
#ifndef HTC_SCHED_ALLOT_CORNERS_H
#define HTC_SCHED_ALLOT_CORNERS_H

#include "allot_private.h"

/* Sums over some of the corners. None can overflow: HTC_ALLOT_BOOK_SLOTS_MAX or HTC_ALLOT_WEIGHT_MAX times
 * HTC_ALLOT_USERS_MAX is below 2^64. They are subtracted as well as added, so a moment's wrap does no harm. */
typedef struct htc__corner_sums {
    uint64_t high_slots, high_weight; /* of high corners */
    uint64_t shut_weight;             /* of those among them whose user is shut */
    uint64_t low_slots, low_weight;   /* of low corners */
    uint32_t high_users, shut_users, low_users, low_shut_users;
} htc__corner_sums;

/* A corner is known by 2 * (user + 1), plus 1 for the high one; 0 is none. */
typedef uint32_t htc__corner_id;

/* One line of the cache: of a million users most are beyond it, and a way through the tree is paid for by the line. */
typedef struct htc__corner {
    uint64_t       slots, weight;           /* at the level slots / weight; weight 0: not in the tree */
    uint64_t       arrival;                 /* of equal levels first come, first stands */
    uint64_t       high_slots, high_weight; /* over the left subtree */
    uint32_t       high_users;              /* likewise */
    htc__corner_id parent, child[2];
    int8_t         balance; /* height of the right subtree less that of the left: -1, 0 or 1 */
    uint8_t        shut;
    uint8_t        unused[6];
} htc__corner;

/* The other sums over the left subtree: all zero as long as nobody has a minimum. */
typedef struct htc__corner_more {
    uint64_t shut_weight, low_slots, low_weight;
    uint32_t shut_users, low_users, low_shut_users;
} htc__corner_more;

/* The nodes lie in two arrays by user, low and high. Most books have no minimum shares: then there is neither an array
 * of low corners nor one for the other sums. */
typedef struct htc__corners {
    htc__corner      *nodes[2];
    htc__corner_more *more[2];
    htc__corner_id    root;
    htc__corner_sums  total;
} htc__corners;

static inline htc__corner_id htc__low_corner(uint32_t user)
{
    return 2 * (user + 1);
}

static inline htc__corner_id htc__high_corner(uint32_t user)
{
    return 2 * (user + 1) + 1;
}

static inline uint32_t htc__corner_user(htc__corner_id c)
{
    return c / 2 - 1;
}

static inline htc__corner *htc__corner_at(const htc__corners *t, htc__corner_id c)
{
    return &t->nodes[c & 1][c / 2 - 1];
}

/* slots, weight, arrival and shut are set; the rest is filled in. */
void htc__corners_insert(htc__corners *t, htc__corner_id c);
void htc__corners_remove(htc__corners *t, htc__corner_id c);
/* Mark one corner of a user as shut or not. */
void htc__corners_set_shut(htc__corners *t, htc__corner_id c, int shut);
/* Compute all sums anew, after shut was changed in many corners. */
void htc__corners_recount(htc__corners *t);

/* Over c alone; over the left subtree of c; over all corners that stand before c. */
htc__corner_sums htc__corner_own(const htc__corners *t, htc__corner_id c);
htc__corner_sums htc__corner_left(const htc__corners *t, htc__corner_id c);
htc__corner_sums htc__corners_before(const htc__corners *t, htc__corner_id c);
void             htc__sums_add(htc__corner_sums *s, const htc__corner_sums *more);

/* The longest row of corners from the front for whose last one holds says 1. holds is asked about a corner and the sums
 * of the row that ends with it; once it says 0 it has to say 0 of all later corners. next: the corner behind the row,
 * or 0. */
typedef int      htc__corner_holds(const void *ctx, const htc__corner *c, const htc__corner_sums *up_to);
htc__corner_sums htc__corners_row(const htc__corners *t, htc__corner_holds *holds, const void *ctx,
                                  htc__corner_id *next);

#endif
