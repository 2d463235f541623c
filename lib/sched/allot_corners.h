/* Where users stop and start to grow as the level of a book rises: in order of the level, with sums.
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

typedef struct htc__corner {
    uint64_t slots, weight; /* at the level slots / weight */
    uint64_t arrival;       /* of equal levels first come, first stands; of one user the low one */
    uint32_t user;
    uint16_t high, shut; /* 1 or 0 */
} htc__corner;

/* Corners lie in order on shelves, and shelves hang in a balanced tree, number 0 meaning none. A way through a tree of
 * a million single corners would be a dozen misses of the cache; the tree above shelves is small, and a shelf is a few
 * lines in a row. */
#define HTC__SHELF_CORNERS 32

/* One line of the cache. */
typedef struct htc__shelf {
    uint64_t slots, weight, arrival;  /* of the last corner on it */
    uint64_t high_slots, high_weight; /* over its left subtree and itself */
    uint32_t high_users;              /* likewise */
    uint32_t parent, child[2];
    uint8_t  high, shut; /* of the last corner */
    uint8_t  n;
    int8_t   balance; /* height of the right subtree less that of the left: -1, 0 or 1 */
} htc__shelf;

/* The other sums over its left subtree and itself: all zero as long as nobody has a minimum. */
typedef struct htc__shelf_more {
    uint64_t shut_weight, low_slots, low_weight;
    uint32_t shut_users, low_users, low_shut_users;
} htc__shelf_more;

typedef struct htc__corners {
    htc__shelf      *shelves;              /* the arrays are the caller's, with room for shelves enough */
    htc__shelf_more *more;                 /* NULL: there has never been a low corner */
    htc__corner (*on)[HTC__SHELF_CORNERS]; /* what lies on each */
    uint32_t         used, unused, root;   /* the highest number taken so far; a list by parent of those given back */
    htc__corner_sums total;
} htc__corners;

/* Shelves enough for so many corners, come what may: of two neighbours that together would fill no more than three
 * quarters of one, one goes. */
uint32_t htc__shelves_for(uint64_t corners);

/* There must be shelves enough. */
void htc__corners_insert(htc__corners *t, const htc__corner *c);
/* Both know the corner by its level, arrival, user and kind; it must be there. */
void htc__corners_remove(htc__corners *t, const htc__corner *c);
void htc__corners_set_shut(htc__corners *t, const htc__corner *c, int shut);
/* Mark all corners anew, both of one user alike. */
void htc__corners_mark_all(htc__corners *t, int (*is_shut)(const void *ctx, uint32_t user), const void *ctx);

/* Over c alone; over all corners that stand before c. */
htc__corner_sums htc__corner_own(const htc__corner *c);
htc__corner_sums htc__corners_before(const htc__corners *t, const htc__corner *c);
void             htc__sums_add(htc__corner_sums *s, const htc__corner_sums *more);

/* The longest row of corners from the front for whose last one holds says 1. holds is asked about a corner and the sums
 * of the row that ends with it; once it says 0 it has to say 0 of all later corners. next: a copy of the corner behind
 * the row, or untouched if there is none; has_next: 1 if there is. Both may be NULL. */
typedef int      htc__corner_holds(const void *ctx, const htc__corner *c, const htc__corner_sums *up_to);
htc__corner_sums htc__corners_row(const htc__corners *t, htc__corner_holds *holds, const void *ctx, htc__corner *next,
                                  int *has_next);

#endif
