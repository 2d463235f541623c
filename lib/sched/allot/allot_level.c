/* The level of a book, and the shares at it: weighted max-min by its breakpoints. */
#include "sched/allot/allot_book.h"

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

htc__breakpoint htc__book_corner(const htc__book_user *u, uint32_t user, int high)
{
    return (htc__breakpoint){ .slots =
                              (high ? htc__book_wanted(&u->claim) : htc__book_promised(&u->claim)) & HTC__CORNER_SLOTS,
                          .weight = u->claim.weight & HTC__CORNER_WEIGHT,
                          .arrival = u->arrival,
                          .user = user & HTC__CORNER_USER,
                          .high = high != 0 };
}

/* Up to their low breakpoint users take their minimum, from their high breakpoint on what they want, between them the level
 * times their weight. Void minimums are as if there were no low breakpoints. */
htc__book_line htc__book_line_at(const htc_allot_book *book, int minimums_void, const htc__breakpoint_sums *sums)
{
    const htc__breakpoint_sums *all = &book->breakpoints.total;
    htc__book_line          line = { sums->high_slots, all->high_weight - sums->high_weight };
    if (!minimums_void) {
        line.flat += all->low_slots - sums->low_slots;
        line.rising -= all->low_weight - sums->low_weight;
    }
    return line;
}

/* Are there slots enough for the level of this breakpoint? */
static int is_affordable(const void *ctx, const htc__breakpoint *c, const htc__breakpoint_sums *up_to)
{
    const htc_allot_book *book = ctx;
    htc__book_line        line = htc__book_line_at(book, book->level.minimums_void, up_to);
    return (htc_u128)line.flat * c->weight + (htc_u128)line.rising * c->slots <= (htc_u128)book->slots * c->weight;
}

htc__breakpoint_at htc__book_find_level(htc_allot_book *book)
{
    htc__book_level *level = &book->level;
    htc__breakpoint_at   end;
    level->minimums_void = book->breakpoints.total.low_slots > book->slots;
    level->below = htc__breakpoints_row(&book->breakpoints, is_affordable, book, &end);
    htc__book_line line = htc__book_line_at(book, level->minimums_void, &level->below);
    level->slots = line.rising ? book->slots - line.flat : 0;
    level->weight = line.rising;
    return end;
}

static uint64_t rounded_up(const htc__book_level *level, uint64_t weight)
{
    return (uint64_t)(((htc_u128)level->slots * weight + level->weight - 1) / level->weight);
}

/* Cumulative rounding: what the dividing users take up to this one in order of arrival, less what they take up to the one before. */
uint64_t htc__book_share_of(const htc_allot_book *book, uint32_t user)
{
    const htc_allot_claim *claim = &book->users[user].claim;
    htc__book_stand        stand = htc__book_stand_of(book, user);
    if (stand == HTC__BOOK_SATISFIED)
        return htc__book_wanted(claim);
    if (stand == HTC__BOOK_PROMISED)
        return htc__book_promised(claim);
    uint64_t before = htc__book_weight_before(book, user);
    return rounded_up(&book->level, before + claim->weight) - rounded_up(&book->level, before);
}
