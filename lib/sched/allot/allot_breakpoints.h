/* Where users stop and start to grow as the level of a book rises: in order of the level, with sums.
 *
 * A user's share as a function of the level (slots for a unit of weight) is flat at the minimum, rises with the weight,
 * and is flat at what is wanted. The two breakpoints of that line are at minimum / weight ("low", only where there is a minimum)
 * and at wanted / weight ("high"). The sums over all breakpoints below a level say how many slots all users take at it. A
 * user is shut if the share is held up at the minimum, and then the high breakpoint is: the caller says so. */
#ifndef HTC_SCHED_ALLOT_BREAKPOINTS_H
#define HTC_SCHED_ALLOT_BREAKPOINTS_H

#include "sched/allot/allot_private.h"

/* Sums over some of the breakpoints. None can overflow: HTC_ALLOT_BOOK_SLOTS_MAX or HTC_ALLOT_WEIGHT_MAX times
 * HTC_ALLOT_USERS_MAX is below 2^64. They are subtracted as well as added, so a moment's wrap does no harm. */
typedef struct htc__breakpoint_sums {
    uint64_t high_slots, high_weight; /* of high breakpoints */
    uint64_t low_slots, low_weight;   /* of low breakpoints */
    uint32_t high_users, shut_users, low_users;
} htc__breakpoint_sums;

/* Three words, for there are millions of them and most are in no cache. */
#define HTC__CORNER_SLOTS  (HTC_ALLOT_BOOK_SLOTS_MAX * 2 - 1) /* all bits that slots, weight and user have here */
#define HTC__CORNER_WEIGHT (HTC_ALLOT_WEIGHT_MAX * 2 - 1)
#define HTC__CORNER_USER   (HTC_ALLOT_USERS_MAX - 1)
typedef struct htc__breakpoint {
    uint64_t slots : 44; /* at the level slots / weight */
    uint64_t user : 20;
    uint64_t weight : 43;
    uint64_t high : 1;
    uint64_t shut : 1; /* no low breakpoint is */
    uint64_t arrival;  /* of equal levels first come, first stands; of one user the low one */
} htc__breakpoint;

/* Corners lie in order on shelves, and shelves hang in a B+ tree of branches. A way through a tree of a million single
 * breakpoints would be a dozen misses of the cache, one after the other. Here only the last branch and the shelf are not in
 * it, and of each all lines that may be looked at are asked for at once. */
#define HTC__SHELF_CORNERS 31
#define HTC__SHELF_LEAST   14
#define HTC__BRANCH_PARTS  14
#define HTC__BRANCH_LEAST  6
#define HTC__LINE          64 /* of the cache, in bytes */

typedef struct htc__shelf {
    _Alignas(HTC__LINE) uint32_t n;
    uint32_t next[2]; /* the one before it, the one behind it; 0: none. Of one that is not in use, [1]: the next such */
    htc__breakpoint on[HTC__SHELF_CORNERS];
} htc__shelf;

/* Its parts are shelves, or branches that are all equally far from shelves. */
typedef struct htc__branch {
    _Alignas(HTC__LINE) uint8_t n;
    uint8_t          has[HTC__BRANCH_PARTS]; /* how many breakpoints or parts */
    htc__breakpoint      last[HTC__BRANCH_PARTS];
    uint32_t         part[HTC__BRANCH_PARTS]; /* of a branch that is not in use, [0]: the next such */
    htc__breakpoint_sums sums[HTC__BRANCH_PARTS];
} htc__branch;

/* Numbers in use start with 1; those given back make a list. */
typedef struct htc__numbers {
    uint32_t used, unused;
} htc__numbers;

typedef struct htc__breakpoints {
    htc__shelf      *shelves; /* both are the caller's, with room for enough */
    htc__branch     *branches;
    htc__numbers     of_shelves, of_branches;
    uint32_t         root, height; /* 0: there is none; the root is that many branches above a shelf */
    htc__breakpoint_sums total;
} htc__breakpoints;

/* Enough for so many breakpoints, come what may: but for the root nothing has less than its least. */
uint32_t htc__shelves_for(uint64_t breakpoints);
uint32_t htc__branches_for(uint32_t shelves);

/* These breakpoints are about to be inserted or removed: fetch into the cache what that will look at. The ways to all of them
 * are gone side by side, so that it takes no longer than for one. */
#define HTC__CORNERS_EXPECTED 4
void htc__breakpoints_expect(const htc__breakpoints *t, const htc__breakpoint *c, uint32_t n);
/* There must be shelves and branches enough. */
void htc__breakpoints_insert(htc__breakpoints *t, const htc__breakpoint *c);
/* Both know the breakpoint by its level, arrival and kind; it must be there. */
void htc__breakpoints_remove(htc__breakpoints *t, const htc__breakpoint *c);
void htc__breakpoints_set_shut(htc__breakpoints *t, const htc__breakpoint *c, int shut);
/* Mark all high breakpoints anew. */
void htc__breakpoints_mark_all(htc__breakpoints *t, int (*is_shut)(const void *ctx, uint32_t user), const void *ctx);

/* Over c alone. */
htc__breakpoint_sums htc__breakpoint_own(const htc__breakpoint *c);
void             htc__sums_add(htc__breakpoint_sums *s, const htc__breakpoint_sums *more);

/* A breakpoint where it lies; shelf 0: behind all. Good until one is inserted or removed. */
typedef struct htc__breakpoint_at {
    uint32_t shelf, place;
} htc__breakpoint_at;

/* Over all breakpoints that stand before c, which need not be there; place: the first that does not. */
htc__breakpoint_sums htc__breakpoints_before(const htc__breakpoints *t, const htc__breakpoint *c, htc__breakpoint_at *place);

/* The longest row of breakpoints from the front for whose last one holds says 1. holds is asked about a breakpoint and the sums
 * of the row that ends with it; once it says 0 it has to say 0 of all later breakpoints. end: the breakpoint behind the row. */
typedef int      htc__breakpoint_holds(const void *ctx, const htc__breakpoint *c, const htc__breakpoint_sums *up_to);
htc__breakpoint_sums htc__breakpoints_row(const htc__breakpoints *t, htc__breakpoint_holds *holds, const void *ctx,
                                  htc__breakpoint_at *end);

/* The breakpoint there, or NULL if there is none; step on to the one behind it, or back to the one before it. */
const htc__breakpoint *htc__breakpoints_look(const htc__breakpoints *t, htc__breakpoint_at at);
htc__breakpoint_at     htc__breakpoints_on(const htc__breakpoints *t, htc__breakpoint_at at);
/* From the first one: behind all. */
htc__breakpoint_at htc__breakpoints_back(const htc__breakpoints *t, htc__breakpoint_at at);

#endif
