/* The level of a book, and the shares at it: weighted max-min by its corners. */
#include "allot_book.h"

uint64_t htc__book_wanted(const htc_allot_claim *claim)
{
    uint64_t most = claim->cap && claim->cap < HTC_ALLOT_BOOK_SLOTS_MAX ? claim->cap : HTC_ALLOT_BOOK_SLOTS_MAX;
    return claim->demand < most ? claim->demand : most;
}

uint64_t htc__book_promised(const htc_allot_claim *claim)
{
    uint64_t wanted = htc__book_wanted(claim);
    return claim->minimum < wanted ? claim->minimum : wanted;
}

htc__corner htc__book_corner(const htc_allot_book *book, uint32_t user, int high)
{
    const htc__book_user *u = &book->users[user];
    return (htc__corner){ .slots = high ? htc__book_wanted(&u->claim) : htc__book_promised(&u->claim),
                          .weight = u->claim.weight,
                          .arrival = u->arrival,
                          .user = user,
                          .high = (uint16_t)high };
}

/* Up to their low corner users take their minimum, from their high corner on what they want, between them the level
 * times their weight. Void minimums are as if there were no low corners. */
htc__book_line htc__book_line_at(const htc_allot_book *book, int minimums_void, const htc__corner_sums *sums)
{
    const htc__corner_sums *all = &book->corners.total;
    htc__book_line          line = { sums->high_slots, all->high_weight - sums->high_weight };
    if (!minimums_void) {
        line.flat += all->low_slots - sums->low_slots;
        line.rising -= all->low_weight - sums->low_weight;
    }
    return line;
}

/* Are there slots enough for the level of this corner? */
static int is_affordable(const void *ctx, const htc__corner *c, const htc__corner_sums *up_to)
{
    const htc_allot_book *book = ctx;
    htc__book_line        line = htc__book_line_at(book, book->level.minimums_void, up_to);
    return (htc_u128)line.flat * c->weight + (htc_u128)line.rising * c->slots <= (htc_u128)book->slots * c->weight;
}

/* Is nobody in the row shut? */
static int is_none_shut(const void *ctx, const htc__corner *c, const htc__corner_sums *up_to)
{
    (void)ctx, (void)c;
    return up_to->low_shut_users == 0;
}

/* Are those in the row who are open, by either corner, no more than these? */
typedef struct open_users {
    uint32_t low, high;
} open_users;

static int is_none_open_beyond(const void *ctx, const htc__corner *c, const htc__corner_sums *up_to)
{
    const open_users *known = ctx;
    (void)c;
    return up_to->low_users - up_to->low_shut_users <= known->low &&
           up_to->high_users - up_to->shut_users <= known->high;
}

static int is_above(const htc__book_level *level, uint64_t slots, uint64_t weight)
{
    return level->weight > 0 && htc__compare_ratio(slots, weight, level->slots, level->weight) > 0;
}

static int is_shut(const void *ctx, uint32_t user)
{
    const htc_allot_book  *book = ctx;
    const htc_allot_claim *claim = &book->users[user].claim;
    uint64_t               promised = htc__book_promised(claim);
    return promised > 0 && !book->level.minimums_void && is_above(&book->level, promised, claim->weight);
}

static void mark(htc_allot_book *book, uint32_t user, int shut)
{
    htc__corner low = htc__book_corner(book, user, 0), high = htc__book_corner(book, user, 1);
    htc__corners_set_shut(&book->corners, &low, shut);
    htc__corners_set_shut(&book->corners, &high, shut);
}

/* A user is shut while his minimum is above the level. Those for whom that has changed are found by the sums. */
static void mark_shut(htc_allot_book *book, htc__corner_sums below)
{
    const htc__corner_sums *all = &book->corners.total;
    uint32_t                to_open = below.low_shut_users;
    uint32_t                to_shut = all->low_users - all->low_shut_users - (below.low_users - below.low_shut_users);
    htc__corner             low;
    if (to_open + to_shut > all->low_users / 32 + 8) {
        htc__corners_mark_all(&book->corners, is_shut, book);
        return;
    }
    for (; to_open > 0; to_open--) {
        htc__corners_row(&book->corners, is_none_shut, NULL, &low, NULL);
        mark(book, low.user, 0);
    }
    for (; to_shut > 0; to_shut--) {
        htc__corners_row(&book->corners, is_none_open_beyond, &(open_users){ below.low_users, UINT32_MAX }, &low, NULL);
        mark(book, low.user, 1);
    }
}

void htc__book_settle(htc_allot_book *book)
{
    htc__corners    *corners = &book->corners;
    htc__book_level *level = &book->level;
    level->minimums_void = corners->total.low_slots > book->slots;
    level->below = htc__corners_row(corners, is_affordable, book, NULL, NULL);
    htc__book_line line = htc__book_line_at(book, level->minimums_void, &level->below);
    level->slots = line.rising ? book->slots - line.flat : 0;
    level->weight = line.rising;
    mark_shut(book, level->minimums_void ? corners->total : level->below);
}

/* Nobody below the level is shut, so the next one who is not divides. */
uint32_t htc__book_next(const htc_allot_book *book)
{
    htc__corner next;
    int         has_next;
    htc__corners_row(&book->corners, is_none_open_beyond, &(open_users){ UINT32_MAX, book->level.below.high_users },
                     &next, &has_next);
    return has_next ? next.user : HTC_ALLOT_NOBODY;
}

htc__book_stand htc__book_stand_of(const htc_allot_book *book, uint32_t user)
{
    const htc_allot_claim *claim = &book->users[user].claim;
    if (is_shut(book, user))
        return HTC__BOOK_PROMISED;
    return is_above(&book->level, htc__book_wanted(claim), claim->weight) ? HTC__BOOK_DIVIDING : HTC__BOOK_SATISFIED;
}

static uint64_t rounded_up(const htc__book_level *level, uint64_t weight)
{
    return (uint64_t)(((htc_u128)level->slots * weight + level->weight - 1) / level->weight);
}

/* Cumulative rounding: what the row of those who divide takes up to him, less what it takes up to the one before. */
uint64_t htc__book_share_of(const htc_allot_book *book, uint32_t user)
{
    const htc_allot_claim *claim = &book->users[user].claim;
    uint64_t               wanted = htc__book_wanted(claim);
    htc__book_stand        stand = wanted ? htc__book_stand_of(book, user) : HTC__BOOK_SATISFIED;
    if (stand == HTC__BOOK_SATISFIED)
        return wanted;
    if (stand == HTC__BOOK_PROMISED)
        return htc__book_promised(claim);
    htc__corner      high = htc__book_corner(book, user, 1);
    htc__corner_sums before = htc__corners_before(&book->corners, &high);
    uint64_t         row = before.high_weight - before.shut_weight - book->level.below.high_weight;
    return rounded_up(&book->level, row + claim->weight) - rounded_up(&book->level, row);
}
