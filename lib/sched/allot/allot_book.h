/* A book as its changes, its level and its explanations see it. */
#ifndef HTC_SCHED_ALLOT_BOOK_H
#define HTC_SCHED_ALLOT_BOOK_H

#include "sched/allot/allot_arrivals.h"
#include "sched/allot/allot_breakpoints.h"

/* Where a user stands; of one who wants something. Who wants nothing is satisfied. */
typedef enum htc__book_stand { HTC__BOOK_SATISFIED, HTC__BOOK_DIVIDING, HTC__BOOK_PROMISED } htc__book_stand;

/* One line of the cache. */
typedef struct htc__book_user {
    _Alignas(HTC__LINE) htc_allot_claim claim;
    uint64_t arrival;
    uint32_t place; /* in order of arrival; of a number that is free: the next free one */
    uint8_t  in_use, stand;
} htc__book_user;

/* Slots for a unit of weight: slots / weight. With weight 0 nobody divides: all have what they want. */
typedef struct htc__book_level {
    uint64_t slots, weight;
    htc__breakpoint_sums
        below; /* over the breakpoints that are not above it; shut_users: as it was before all found their stand */
    int minimums_void;
} htc__book_level;

typedef struct htc__book_ratio {
    uint64_t slots, weight; /* weight 0: more than all there are */
} htc__book_ratio;

/* Many high breakpoints at one ratio, which the level has passed while their users are still counted as before. */
typedef struct htc__book_group {
    htc__book_ratio at;            /* weight 0: there is none */
    uint64_t        before_weight; /* of the high breakpoints below it */
    int             divides;       /* it does, and is not counted; or it is counted, and does not */
} htc__book_group;

/* What lies behind users, shelves and branches: aligned to the lines of the cache, which no allocator promises. */
enum {
    HTC__BOOK_USERS,
    HTC__BOOK_SHELVES,
    HTC__BOOK_BRANCHES,
    HTC__BOOK_PLACES,
    HTC__BOOK_WEIGHTS,
    HTC__BOOK_SUMS,
    HTC__BOOK_ARRAYS
};
typedef struct htc__book_array {
    void    *block;
    size_t   block_bytes;
    uint32_t room; /* elements */
} htc__book_array;

struct htc_allot_book {
    const htc_env  *env;
    htc__book_user *users;
    uint64_t        slots, arrived;       /* to divide; users who ever came */
    uint32_t        n, behind, users_max; /* numbers from behind on were never given */
    uint32_t        free_user;            /* the number to give next, or HTC_ALLOT_NOBODY */
    int             minimums;             /* have been asked for, sometime: each user may have two breakpoints */
    htc__breakpoints    breakpoints;
    htc__arrivals   arrivals;
    htc__book_array arrays[HTC__BOOK_ARRAYS];
    htc__book_level level;
    htc__book_ratio
        counted;          /* where users stand is noted as at this level. No low breakpoint lies between it and the level */
    htc__book_group late; /* what lies between them */
};

/* How the slots that all users take together grow with the level: flat + level * rising. */
typedef struct htc__book_line {
    uint64_t flat, rising;
} htc__book_line;

/* NULL if there is no such user. */
const htc__book_user *htc__book_user_at(const htc_allot_book *book, uint32_t user);
/* What the user could use, and what is promised of it. */
uint64_t htc__book_wanted(const htc_allot_claim *claim);
uint64_t htc__book_promised(const htc_allot_claim *claim);
/* Where the user's line bends: of a high breakpoint at what is wanted, of a low one at what is promised; neither may be 0. */
htc__breakpoint htc__book_corner(const htc__book_user *u, uint32_t user, int high);

/* Between two breakpoints; sums: over those that are not above the level. */
htc__book_line htc__book_line_at(const htc_allot_book *book, int minimums_void, const htc__breakpoint_sums *sums);
/* Find the level, after any change; answers the first breakpoint above it. */
htc__breakpoint_at htc__book_find_level(htc_allot_book *book);
/* Find the level and where everybody stands, after any change; user: whose claim has changed, or HTC_ALLOT_NOBODY. He
 * must be in the order of breakpoints and not be counted by arrival. */
void htc__book_settle(htc_allot_book *book, uint32_t user);
/* At the level, whatever is noted. */
htc__book_stand htc__book_stand_of(const htc_allot_book *book, uint32_t user);
/* Note that the user stands there, and count them by it. */
void htc__book_stands(htc_allot_book *book, uint32_t user, htc__book_stand stand);
/* Of those who divide the first to have enough, or HTC_ALLOT_NOBODY. */
uint32_t htc__book_next(const htc_allot_book *book);
/* The weights of the dividing users that came before. */
uint64_t htc__book_weight_before(const htc_allot_book *book, uint32_t user);
uint64_t htc__book_share_of(const htc_allot_book *book, uint32_t user);

#endif
