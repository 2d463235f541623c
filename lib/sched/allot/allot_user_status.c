/* Who of a book's users divides by weight and who does not, kept up to date as the level moves. */
#include "sched/allot/allot_book.h"

/* As many as one change moves one by one. Beyond that all are counted anew, which takes less and is no more than O(n). */
static uint32_t most_moved(const htc_allot_book *book)
{
    return book->n / 32 + 8;
}

static int is_above(const htc__book_ratio *level, uint64_t slots, uint64_t weight)
{
    return level->weight > 0 && htc__compare_ratio(slots, weight, level->slots, level->weight) > 0;
}

static htc__book_ratio ratio_of_level(const htc_allot_book *book)
{
    return (htc__book_ratio){ book->level.slots, book->level.weight };
}

static htc__book_stand stand_at(const htc_allot_book *book, const htc__book_ratio *level, uint32_t user)
{
    const htc_allot_claim *claim = &book->users[user].claim;
    if (!is_above(level, htc__book_wanted(claim), claim->weight))
        return HTC__BOOK_SATISFIED;
    if (!book->level.minimums_void && is_above(level, htc__book_promised(claim), claim->weight))
        return HTC__BOOK_PROMISED;
    return HTC__BOOK_DIVIDING;
}

htc__book_stand htc__book_stand_of(const htc_allot_book *book, uint32_t user)
{
    htc__book_ratio level = ratio_of_level(book);
    return stand_at(book, &level, user);
}

void htc__book_stands(htc_allot_book *book, uint32_t user, htc__book_stand stand)
{
    htc__book_user *u = &book->users[user];
    if ((stand == HTC__BOOK_DIVIDING) != (u->stand == HTC__BOOK_DIVIDING))
        htc__arrivals_count(&book->arrivals, u->place, stand == HTC__BOOK_DIVIDING ? u->claim.weight : 0);
    if ((stand == HTC__BOOK_PROMISED) != (u->stand == HTC__BOOK_PROMISED)) {
        htc__breakpoint high = htc__book_corner(u, user, 1);
        htc__breakpoints_set_shut(&book->breakpoints, &high, stand == HTC__BOOK_PROMISED);
    }
    u->stand = (uint8_t)stand;
}

static void look_again(htc_allot_book *book, uint32_t user)
{
    htc__book_stands(book, user, stand_at(book, &book->counted, user));
}

static int is_promised(const void *ctx, uint32_t user)
{
    const htc_allot_book *book = ctx;
    return book->users[user].stand == HTC__BOOK_PROMISED;
}

static void look_at_all_again(htc_allot_book *book)
{
    for (uint32_t i = 0; i < book->behind; i++) {
        htc__book_user *u = &book->users[i];
        if (!u->in_use)
            continue;
        u->stand = (uint8_t)stand_at(book, &book->counted, i);
        book->arrivals.weights[u->place] = u->stand == HTC__BOOK_DIVIDING ? u->claim.weight : 0;
    }
    htc__arrivals_sum_up(&book->arrivals);
    if (book->minimums)
        htc__breakpoints_mark_all(&book->breakpoints, is_promised, book);
}

/* Look again at the users of all breakpoints between the old level and that at which they are counted, which is right before
 * end; 0: there are too many. */
static int follow_level(htc_allot_book *book, const htc__book_ratio *old, htc__breakpoint_at end)
{
    const htc__breakpoints *t = &book->breakpoints;
    uint32_t            left = most_moved(book);
    const htc__breakpoint  *c;
    htc__breakpoint_at      at = htc__breakpoints_back(t, end);
    for (; (c = htc__breakpoints_look(t, at)) && is_above(old, c->slots, c->weight); at = htc__breakpoints_back(t, at)) {
        if (left-- == 0)
            return 0;
        look_again(book, c->user);
    }
    for (at = end; (c = htc__breakpoints_look(t, at)) && !is_above(old, c->slots, c->weight); at = htc__breakpoints_on(t, at)) {
        if (left-- == 0)
            return 0;
        look_again(book, c->user);
    }
    return 1;
}

/* ---- many users alike ---- */

/* So few breakpoints are followed rather than left as a group, with which each share takes a way through the tree more. */
#define FEW 8

/* Are there more between the old level and the new one, going that way from at? */
static int are_many(const htc__breakpoints *t, const htc__book_ratio *old, htc__breakpoint_at at, int on)
{
    const htc__breakpoint *c;
    int                n = 0;
    for (; n <= FEW && (c = htc__breakpoints_look(t, at)) && is_above(old, c->slots, c->weight) == !on; n++)
        at = on ? htc__breakpoints_on(t, at) : htc__breakpoints_back(t, at);
    return n > FEW;
}

/* Sums over the breakpoints at lower ratios, and if behind at this one too; at: the one behind these. */
static htc__breakpoint_sums sums_before(const htc__breakpoints *t, const htc__book_ratio *ratio, int behind, htc__breakpoint_at *at)
{
    htc__breakpoint brink = { .slots = ratio->slots & HTC__CORNER_SLOTS,
                          .weight = ratio->weight & HTC__CORNER_WEIGHT,
                          .arrival = behind ? UINT64_MAX : 0 };
    return htc__breakpoints_before(t, &brink, at);
}

/* The level has risen to end: those right before it may stay counted as if it had not passed them. */
static htc__breakpoint_at leave_below(htc_allot_book *book, htc__breakpoint_at end)
{
    const htc__breakpoints *t = &book->breakpoints;
    const htc__breakpoint  *last = htc__breakpoints_look(t, htc__breakpoints_back(t, end));
    htc__book_ratio     at = { last->slots, last->weight };
    htc__breakpoint_at      start;
    htc__breakpoint_sums    before = sums_before(t, &at, 0, &start);
    if (before.low_users < book->level.below.low_users)
        return end;
    const htc__breakpoint *below = htc__breakpoints_look(t, htc__breakpoints_back(t, start));
    int                is_first = before.high_users + before.low_users == 0;
    book->counted = is_first ? (htc__book_ratio){ 0, 1 } : (htc__book_ratio){ below->slots, below->weight };
    book->late = (htc__book_group){ at, before.high_weight, 0 };
    return start;
}

/* The level has fallen to end: those right behind it may stay counted as if it had not passed them. */
static htc__breakpoint_at leave_above(htc_allot_book *book, htc__breakpoint_at end)
{
    const htc__breakpoints *t = &book->breakpoints;
    const htc__breakpoint  *first = htc__breakpoints_look(t, end);
    htc__book_ratio     at = { first->slots, first->weight };
    htc__breakpoint_at      behind;
    htc__breakpoint_sums    up_to = sums_before(t, &at, 1, &behind);
    if (up_to.low_users > book->level.below.low_users)
        return end;
    book->counted = at;
    book->late = (htc__book_group){ at, book->level.below.high_weight, 1 };
    return behind;
}

/* Many users who want the same for their weight would all move each time the level passes them, and it may hover there.
 * The last ones that it has passed stay where they were counted: in the order of breakpoints they stand by arrival, so
 * that what they change for a share is known in O(log n). Answers the breakpoint behind the level at which all are counted. */
static htc__breakpoint_at leave_group(htc_allot_book *book, const htc__book_ratio *old, htc__breakpoint_at end)
{
    const htc__breakpoints *t = &book->breakpoints;
    if (are_many(t, old, htc__breakpoints_back(t, end), 0))
        return leave_below(book, end);
    return are_many(t, old, end, 1) ? leave_above(book, end) : end;
}

uint64_t htc__book_weight_before(const htc_allot_book *book, uint32_t user)
{
    const htc__book_user  *u = &book->users[user];
    const htc__book_group *late = &book->late;
    uint64_t               before = htc__arrivals_before(&book->arrivals, u->place);
    if (late->at.weight == 0)
        return before;
    htc__breakpoint    as_late = { .slots = late->at.slots & HTC__CORNER_SLOTS,
                               .weight = late->at.weight & HTC__CORNER_WEIGHT,
                               .arrival = u->arrival };
    htc__breakpoint_at place;
    uint64_t       of_late = htc__breakpoints_before(&book->breakpoints, &as_late, &place).high_weight - late->before_weight;
    return late->divides ? before + of_late : before - of_late;
}

/* ---- after a change ---- */

/* Are there no more low breakpoints in the row than so many? */
static int is_none_low_beyond(const void *ctx, const htc__breakpoint *c, const htc__breakpoint_sums *up_to)
{
    (void)c;
    return up_to->low_users <= *(const uint32_t *)ctx;
}

/* Is nobody in the row shut? */
static int is_none_shut(const void *ctx, const htc__breakpoint *c, const htc__breakpoint_sums *up_to)
{
    (void)ctx, (void)c;
    return up_to->shut_users == 0;
}

/* Minimums have become void, or hold again: look again at all whose minimum is above the level; 0: they are too many. */
static int follow_minimums(htc_allot_book *book)
{
    const htc__breakpoints *t = &book->breakpoints;
    htc__breakpoint_at      at;
    uint32_t            held = book->level.below.low_users;
    if (book->level.minimums_void) {
        if (t->total.shut_users > most_moved(book))
            return 0;
        while (t->total.shut_users > 0) {
            htc__breakpoints_row(t, is_none_shut, NULL, &at);
            look_again(book, htc__breakpoints_look(t, at)->user);
        }
        return 1;
    }
    if (t->total.low_users - held > most_moved(book))
        return 0;
    for (; held < t->total.low_users; held++) {
        htc__breakpoints_row(t, is_none_low_beyond, &held, &at);
        look_again(book, htc__breakpoints_look(t, at)->user);
    }
    return 1;
}

void htc__book_settle(htc_allot_book *book, uint32_t user)
{
    htc__book_ratio old = book->counted;
    int             were_void = book->level.minimums_void;
    htc__breakpoint_at  end = htc__book_find_level(book);
    int             minimums_change = were_void != book->level.minimums_void;
    book->counted = ratio_of_level(book);
    book->late = (htc__book_group){ 0 };
    if (!minimums_change)
        end = leave_group(book, &old, end);
    if (user != HTC_ALLOT_NOBODY)
        look_again(book, user);
    if ((minimums_change && !follow_minimums(book)) || !follow_level(book, &old, end))
        look_at_all_again(book);
}

/* Are no more in the row than so many, leaving out who is shut? */
static int is_none_dividing_beyond(const void *ctx, const htc__breakpoint *c, const htc__breakpoint_sums *up_to)
{
    (void)c;
    return up_to->high_users - up_to->shut_users <= *(const uint32_t *)ctx;
}

/* Nobody below the level is shut, so the next one who is not divides. */
uint32_t htc__book_next(const htc_allot_book *book)
{
    htc__breakpoint_at at;
    htc__breakpoints_row(&book->breakpoints, is_none_dividing_beyond, &book->level.below.high_users, &at);
    const htc__breakpoint *next = htc__breakpoints_look(&book->breakpoints, at);
    return next ? next->user : HTC_ALLOT_NOBODY;
}
