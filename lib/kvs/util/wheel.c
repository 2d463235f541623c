#include "kvs/util/wheel.h"

#include <string.h>

/* Level l holds what is due within 64^(l+1) ticks, in slots of 64^l ticks. What is beyond the highest level waits in its
 * last slot, is looked at when that comes round, and waits again. */

#define BITS      6
#define MOVES_MAX 64

void htc__wheel_init(htc__wheel *w, htc_ns now, htc_ns tick_ns)
{
    memset(w, 0, sizeof *w);
    w->tick_ns = tick_ns;
    w->tick = now / tick_ns;
}

static void enter(htc__wheel *w, htc__wheel_entry *entry)
{
    uint64_t at = entry->tick > w->tick ? entry->tick : w->tick;
    uint64_t differs = at ^ w->tick;
    uint32_t level = 0;
    while (level + 1 < HTC__WHEEL_LEVELS && differs >> (BITS * (level + 1)))
        level++;
    uint32_t slot = (uint32_t)(at >> (BITS * level)) & (HTC__WHEEL_SLOTS - 1);
    /* Beyond the highest level: in the slot before the present one, which comes last. */
    if (level + 1 == HTC__WHEEL_LEVELS && differs >> (BITS * HTC__WHEEL_LEVELS))
        slot = (uint32_t)((w->tick >> (BITS * level)) - 1) & (HTC__WHEEL_SLOTS - 1);
    htc__wheel_entry **head = &w->slots[level][slot];
    entry->level = level;
    entry->slot = slot;
    entry->link = head;
    entry->next = *head;
    if (*head)
        (*head)->link = &entry->next;
    *head = entry;
    w->full[level] |= UINT64_C(1) << slot;
}

static void leave(htc__wheel *w, htc__wheel_entry *entry)
{
    *entry->link = entry->next;
    if (entry->next)
        entry->next->link = entry->link;
    if (!w->slots[entry->level][entry->slot])
        w->full[entry->level] &= ~(UINT64_C(1) << entry->slot);
    entry->link = NULL;
}

void htc__wheel_add(htc__wheel *w, htc__wheel_entry *entry, htc_ns at)
{
    entry->tick = at / w->tick_ns + (at % w->tick_ns != 0);
    w->count++;
    enter(w, entry);
}

void htc__wheel_remove(htc__wheel *w, htc__wheel_entry *entry)
{
    if (!entry->link)
        return;
    leave(w, entry);
    w->count--;
}

/* Slots of a level from the present one on, the nearest first; 64: it is empty. */
static uint32_t distance(const htc__wheel *w, uint32_t level)
{
    uint32_t now = (uint32_t)(w->tick >> (BITS * level)) & (HTC__WHEEL_SLOTS - 1);
    uint64_t full = w->full[level];
    full = now ? full >> now | full << (HTC__WHEEL_SLOTS - now) : full;
    return full ? (uint32_t)__builtin_ctzll(full) : HTC__WHEEL_SLOTS;
}

/* When the nearest slot with something in it begins, and its level. The present slots of the levels above the lowest are
 * empty but right after the tick came to them. */
static uint64_t nearest(const htc__wheel *w, uint32_t *level)
{
    uint64_t best = UINT64_MAX;
    for (uint32_t l = 0; l < HTC__WHEEL_LEVELS; l++) {
        uint32_t d = distance(w, l);
        if (d == HTC__WHEEL_SLOTS)
            continue;
        uint64_t begins = d ? ((w->tick >> (BITS * l)) + d) << (BITS * l) : w->tick;
        /* Of slots that begin together the higher comes first: its entries may belong into the lower one. */
        if (begins <= best) {
            best = begins;
            *level = l;
        }
    }
    return best;
}

htc__wheel_entry *htc__wheel_take(htc__wheel *w, htc_ns now)
{
    uint64_t until = now / w->tick_ns;
    for (int moves = 0; moves < MOVES_MAX; moves++) {
        uint32_t level = 0;
        uint64_t begins = nearest(w, &level);
        if (begins > until) {
            if (w->tick < until)
                w->tick = until;
            return NULL;
        }
        w->tick = begins;
        uint32_t          slot = (uint32_t)(begins >> (BITS * level)) & (HTC__WHEEL_SLOTS - 1);
        htc__wheel_entry *entry = w->slots[level][slot];
        leave(w, entry);
        if (entry->tick <= w->tick) {
            w->count--;
            return entry;
        }
        enter(w, entry);
    }
    return NULL;
}

htc_ns htc__wheel_next(const htc__wheel *w)
{
    uint32_t level;
    uint64_t begins = nearest(w, &level);
    return begins > HTC_NEVER / w->tick_ns ? HTC_NEVER : begins * w->tick_ns;
}
