/* A book as its changes, its level and its explanations see it. */
#ifndef HTC_SCHED_ALLOT_BOOK_H
#define HTC_SCHED_ALLOT_BOOK_H

#include "allot_corners.h"

typedef struct htc__book_user {
    htc_allot_claim claim;
    uint64_t        arrival;
    uint32_t        in_use;
    uint32_t        next_free; /* not in use: the next one of those */
} htc__book_user;

/* Slots for a unit of weight: slots / weight. With weight 0 nobody divides: all have what they want. */
typedef struct htc__book_level {
    uint64_t         slots, weight;
    htc__corner_sums below; /* over the corners that are not above it; who is shut may have changed since */
    int              minimums_void;
} htc__book_level;

/* What lies behind users and shelves: aligned to the lines of the cache, which no allocator promises. */
enum { HTC__BOOK_USERS, HTC__BOOK_SHELVES, HTC__BOOK_CORNERS, HTC__BOOK_MORE, HTC__BOOK_ARRAYS };
typedef struct htc__book_array {
    void    *block;
    size_t   block_bytes;
    uint32_t room; /* elements */
} htc__book_array;

struct htc_allot_book {
    const htc_env  *env;
    htc__book_user *users;
    uint64_t        slots, arrivals;
    uint32_t        n, behind, users_max; /* numbers from behind on were never given */
    uint32_t        free_user;            /* the number to give next, or HTC_ALLOT_NOBODY */
    htc__corners    corners;
    htc__book_array arrays[HTC__BOOK_ARRAYS];
    htc__book_level level;
};

/* How the slots that all users take together grow with the level: flat + level * rising. */
typedef struct htc__book_line {
    uint64_t flat, rising;
} htc__book_line;

/* NULL if there is no such user. */
const htc__book_user *htc__book_user_at(const htc_allot_book *book, uint32_t user);
/* What he could use, and what he is promised of it. */
uint64_t htc__book_wanted(const htc_allot_claim *claim);
uint64_t htc__book_promised(const htc_allot_claim *claim);
/* Where his line bends: of a high corner at what he wants, of a low one at what he is promised; neither may be 0. */
htc__corner htc__book_corner(const htc_allot_book *book, uint32_t user, int high);

/* Between two corners; sums: over those that are not above the level. */
htc__book_line htc__book_line_at(const htc_allot_book *book, int minimums_void, const htc__corner_sums *sums);
/* Find the level, after any change. */
void htc__book_settle(htc_allot_book *book);
/* Of those who divide the first to have enough, or HTC_ALLOT_NOBODY. */
uint32_t htc__book_next(const htc_allot_book *book);

/* Where a user stands; of one who wants something. */
typedef enum htc__book_stand { HTC__BOOK_SATISFIED, HTC__BOOK_DIVIDING, HTC__BOOK_PROMISED } htc__book_stand;
htc__book_stand htc__book_stand_of(const htc_allot_book *book, uint32_t user);
uint64_t        htc__book_share_of(const htc_allot_book *book, uint32_t user);

#endif
