/* Why a share is what it is: the book's level, read from one user's side. */
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "core/util.h"
#include "sched/allot/allot_book.h"

/* The least number of slots with which the user's high breakpoint is not above the level. */
static uint64_t slots_needed(const htc_allot_book *book, uint32_t user)
{
    const htc__breakpoint_sums *all = &book->breakpoints.total;
    htc__breakpoint             high = htc__book_corner(&book->users[user], user, 1);
    htc__breakpoint_at          place;
    htc__breakpoint_sums        before = htc__breakpoints_before(&book->breakpoints, &high, &place);
    uint64_t                needed = 0;
    for (int minimums_void = 1; minimums_void >= 0; minimums_void--) {
        htc__book_line line = htc__book_line_at(book, minimums_void, &before);
        htc_u128       rising = (htc_u128)line.rising * high.slots;
        needed = line.flat + (uint64_t)((rising + high.weight - 1) / high.weight);
        if (minimums_void && needed < all->low_slots)
            break; /* so few that minimums would be void */
    }
    return needed;
}

static void fill_in(htc_allot_reason *r, const htc_allot_book *book, uint32_t user)
{
    const htc__book_level  *level = &book->level;
    const htc__breakpoint_sums *all = &book->breakpoints.total, *below = &level->below;
    const htc_allot_claim  *claim = &book->users[user].claim;
    r->share = htc__book_share_of(book, user);
    r->wanted = htc__book_wanted(claim);
    r->minimums_void = level->minimums_void;
    r->level_slots = level->slots;
    r->level_weight = level->weight;
    r->satisfied_users = below->high_users;
    r->satisfied_slots = below->high_slots;
    r->dividing_users = all->high_users - all->shut_users - below->high_users;
    r->dividing_slots = level->slots;
    r->promised_users = all->shut_users;
    r->promised_slots = level->minimums_void ? 0 : all->low_slots - below->low_slots;
    r->next = htc__book_next(book);
    r->slots_needed = r->wanted ? slots_needed(book, user) : 0;
    if (r->share == r->wanted)
        r->limit = r->wanted < claim->demand && r->wanted == claim->cap ? HTC_ALLOT_BY_CAP : HTC_ALLOT_BY_DEMAND;
    else
        r->limit = htc__book_stand_of(book, user) == HTC__BOOK_PROMISED ? HTC_ALLOT_BY_MINIMUM : HTC_ALLOT_BY_WEIGHT;
}

/* A part of a sentence behind those that are there. */
__attribute__((format(printf, 2, 3))) static void add(htc_allot_reason *r, const char *format, ...)
{
    size_t  n = strlen(r->text);
    va_list args;
    va_start(args, format);
    vsnprintf(r->text + n, sizeof r->text - n, format, args);
    va_end(args);
}

/* His exact share with two digits behind the point, cut off; a locale's comma has no place in it. */
static void say_exact(htc_allot_reason *r, uint64_t weight)
{
    uint64_t of = r->level_weight ? r->level_weight : 1;
    htc_u128 share = (htc_u128)r->level_slots * weight;
    add(r, "%" PRIu64 ".%02u", (uint64_t)(share / of), (unsigned)(share % of * 100 / of));
}

static void say_who_has_them(htc_allot_reason *r)
{
    add(r, "%" PRIu64 " slot%s %s divided by weight (users: %" PRIu32 ")", r->dividing_slots, htc__plural(r->dividing_slots), htc__are(r->dividing_slots), r->dividing_users);
    if (r->satisfied_users)
        add(r, ", %" PRIu64 " %s with those who want no more (users: %" PRIu32 ")", r->satisfied_slots, htc__are(r->satisfied_slots),
            r->satisfied_users);
    if (r->promised_users)
        add(r, ", %" PRIu64 " %s promised (users: %" PRIu32 ")", r->promised_slots, htc__are(r->promised_slots), r->promised_users);
    if (r->minimums_void)
        add(r, "; no minimum counts, as there are more of them than slots");
}

static void say(htc_allot_reason *r, const htc_allot_book *book, uint32_t user)
{
    const htc_allot_claim *claim = &book->users[user].claim;
    add(r, "user %" PRIu32, user);
    if (r->wanted == 0) {
        add(r, " wants no slots");
    } else if (r->limit == HTC_ALLOT_BY_DEMAND) {
        add(r, r->share == 1 ? " has the %" PRIu64 " slot that they have work for" : " has all %" PRIu64 " slots that they have work for", r->share);
    } else if (r->limit == HTC_ALLOT_BY_CAP) {
        add(r, " has %" PRIu64 " slot%s, their cap, and work for %" PRIu64, r->share, htc__plural(r->share), claim->demand);
    } else {
        add(r, " has %" PRIu64 " of %" PRIu64 " slot%s, ", r->share, r->wanted, htc__plural(r->wanted));
        add(r, r->limit == HTC_ALLOT_BY_MINIMUM ? "their minimum; their weight alone gives " : "their weight gives ");
        say_exact(r, claim->weight);
        add(r, ": ");
        say_who_has_them(r);
        if (r->next == user)
            add(r, "; they are the next to have enough");
        else /* there is one who divides, or all would be satisfied */
            add(r, "; they wait for user %" PRIu32 ", the next to have enough", r->next);
        add(r, ", and with %" PRIu64 " slots in all they would have all", r->slots_needed);
    }
}

htc_status htc_allot_explain(const htc_allot_book *book, uint32_t user, htc_allot_reason *reason)
{
    if (!book || !reason)
        return HTC_EINVAL;
    if (!htc__book_user_at(book, user))
        return HTC_ENOTFOUND;
    htc_allot_reason r = { 0 };
    fill_in(&r, book, user);
    say(&r, book, user);
    *reason = r;
    return HTC_OK;
}
