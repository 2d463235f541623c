/* Who is served of a row when there is not enough for all: radix selection, which looks at the row's keys a digit at a
 * time, serves all below the digit where it ends, and goes on with those who have that digit. */
#include "sched/allot/allot_private.h"

static uint64_t by_remainder(const htc_allot_user *u, const htc__entry *e)
{
    (void)u;
    return ~e->remainder;
}

/* Among equal remainders the poorest first, so that a slot short of enough for everybody goes round. But whoever has
 * agents starting keeps what was just given: a slot is not to move on before it has run a task. Marked agents count
 * as held, or the user that is to give back would look poorer for it and the marks would wander about. */
static uint64_t by_starting(const htc_allot_user *u, const htc__entry *e)
{
    (void)e;
    return u->starting == 0;
}

static uint64_t richest_if_starting(const htc_allot_user *u, uint64_t held)
{
    return u->starting ? ~held : held;
}

/* What the user holds for the weight as three numbers: whole slots, and two times 64 bits behind the point. Two such ratios
 * that differ do so by at least 1 / HTC_ALLOT_WEIGHT_MAX^2, so these bits tell them apart. */
static uint64_t by_held(const htc_allot_user *u, const htc__entry *e)
{
    (void)e;
    return richest_if_starting(u, (u->agents + u->draining) / u->weight);
}

static uint64_t by_held_fraction(const htc_allot_user *u, const htc__entry *e)
{
    uint64_t rest = (u->agents + u->draining) % u->weight;
    (void)e;
    return richest_if_starting(u, (uint64_t)(((htc_u128)rest << 64) / u->weight));
}

static uint64_t by_held_rest(const htc_allot_user *u, const htc__entry *e)
{
    uint64_t rest = (u->agents + u->draining) % u->weight;
    (void)e;
    rest = (uint64_t)(((htc_u128)rest << 64) % u->weight);
    return richest_if_starting(u, (uint64_t)(((htc_u128)rest << 64) / u->weight));
}

static uint64_t by_last_served(const htc_allot_user *u, const htc__entry *e)
{
    (void)e;
    return u->last_served;
}

static uint64_t by_arrival(const htc_allot_user *u, const htc__entry *e)
{
    (void)e;
    return u->arrival;
}

static uint64_t by_id(const htc_allot_user *u, const htc__entry *e)
{
    (void)e;
    return u->id;
}

htc__row_key *const htc__row_by_remainder[] = { by_remainder,     by_starting,  by_held,
                                                by_held_fraction, by_held_rest, by_last_served,
                                                by_arrival,       by_id,        NULL };
htc__row_key *const htc__row_by_arrival[] = { by_arrival, by_id, NULL };

static uint64_t takes(const htc__division *d, uint32_t user, uint64_t most)
{
    uint64_t room = d->entries[user].demand - d->shares[user].ra;
    return room < most ? room : most;
}

static void serve(htc__division *d, uint32_t user, uint64_t most)
{
    uint64_t take = takes(d, user, most);
    take = take < d->left ? take : d->left;
    d->shares[user].ra += take;
    d->left -= take;
}

#define DIGITS 256

/* By the digit there: serve those for all of whom there is enough, and keep those who have the first one that there is
 * not enough for; answers how many they are. */
static size_t narrow(htc__division *d, size_t n, uint64_t most, int shift)
{
    htc_u128 wanted[DIGITS] = { 0 }, sum = 0;
    size_t   end = 0, kept = 0;
    for (size_t i = 0; i < n; i++)
        wanted[d->row[i].key >> shift & (DIGITS - 1)] += takes(d, d->row[i].user, most);
    while (end < DIGITS && sum + wanted[end] <= d->left)
        sum += wanted[end++];
    for (size_t i = 0; i < n; i++) {
        size_t digit = d->row[i].key >> shift & (DIGITS - 1);
        if (digit < end)
            serve(d, d->row[i].user, most);
        else if (digit == end)
            d->row[kept++] = d->row[i];
    }
    return kept;
}

/* The bits in which keys differ. */
static uint64_t difference(const htc__candidate *row, size_t n)
{
    uint64_t bits = 0;
    for (size_t i = 1; i < n; i++)
        bits |= row[i].key ^ row[0].key;
    return bits;
}

static int is_enough(const htc__division *d, size_t n, uint64_t most)
{
    htc_u128 wanted = 0;
    for (size_t i = 0; i < n; i++)
        wanted += takes(d, d->row[i].user, most);
    return wanted <= d->left;
}

void htc__row_serve(htc__division *d, size_t n, uint64_t most, htc__row_key *const *keys)
{
    for (int enough = is_enough(d, n, most); !enough && *keys && n > 1 && d->left > 0; keys++) {
        for (size_t i = 0; i < n; i++)
            d->row[i].key = (*keys)(&d->users[d->row[i].user], &d->entries[d->row[i].user]);
        for (uint64_t bits; (bits = difference(d->row, n)) != 0;) {
            int top = 64 - __builtin_clzll(bits); /* all bits above are alike */
            n = narrow(d, n, most, top > 8 ? top - 8 : 0);
        }
    }
    for (size_t i = 0; i < n; i++)
        serve(d, d->row[i].user, most);
}
