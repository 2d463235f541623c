/* Filling up by weight: how high slots reach when no user takes more than there is room for. */
#include "sched/allot/allot_private.h"

/* Newton's method. Each round takes out those who have no more room than their weight gives them, and divides what they
 * leave among the others. The level only rises, and never beyond the right one: whoever is taken out is filled there too.
 *
 * What is left in a round raises the level by that for each unit of the weights w that stay. If of these w' stay in the
 * next, the others leave no more of it than (w - w') / w: so what is left, or else w, at least halves, and their product
 * is a quarter. It is below 2^48 * 2^62 and cannot fall below 2^-62: fewer than 90 rounds. */
htc__fill htc__fill_level(htc__need *needs, size_t n, uint64_t slots, uint64_t weights)
{
    htc__fill level = { .slots = slots, .weight = weights };
    for (size_t before = n + 1; n > 0 && n < before; level.rounds++) {
        htc__fill next = level;
        size_t    kept = 0;
        for (size_t i = 0; i < n; i++) {
            htc__need need = needs[i];
            int       full = (htc_u128)need.room * level.weight <= (htc_u128)level.slots * need.weight;
            next.slots -= full ? need.room : 0;
            next.weight -= full ? need.weight : 0;
            needs[kept] = need;
            kept += !full;
        }
        before = n;
        n = kept;
        level.slots = next.slots;
        level.weight = next.weight;
    }
    return level;
}
