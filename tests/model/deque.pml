/* The deque of lib/sched/deque/deque_core.h, step by step: each access to what another thread writes is one step, and the steps of
 * all threads come in any order. Names are those of the C text. Memory orders are not in this model (every access is seen by
 * all at once): deque_relacy.cpp looks at those.
 *
 * The owner pushes ITEMS items, in between pops, and publishes any part of what is private; it takes back any part of what is
 * public; thieves take any part of it. How many it is in the C text (half; what a request asks for; 1, 2, 4…) follows from hints,
 * so none of that is in the model: what holds for all choices holds for those. Any thread may sleep anywhere, as long as it takes
 * the indexes to come round. At the end every item was taken exactly once.
 *
 * Indexes in the word, and the counts of copied items, wrap at M. The owner's own never do.
 * Run by deque_spin.sh in several sizes, and with mistakes put in (-DMISTAKE_…), each of which has to be found. */
#ifndef M
#define M 4
#endif
#ifndef SLOTS
#define SLOTS 2 /* of the first ring, at most M / 2 */
#endif
#ifndef SLOTS_MAX
#define SLOTS_MAX SLOTS /* of the second; the same: it does not grow */
#endif
#ifndef ITEMS
#define ITEMS 5
#endif
#ifndef THIEVES
#define THIEVES 2
#endif
#define START (M - 1)

#define SHOWN(t, s) ((s + M - t) % M)
#define TOP         (u_split - SHOWN(top, split)) /* as the owner sees it: its own index, not wrapped */

#define UNSETTLED unsettled
#define SETTLED   (copied[1 - u_epoch] == due[1 - u_epoch])
#define UNCHANGED (n == top)
#define KEPT_FROM safe
#ifdef MISTAKE_THIRD_EPOCH
#undef UNSETTLED
#define UNSETTLED false
#endif
#ifdef MISTAKE_NO_WAIT
#undef SETTLED
#define SETTLED true
#endif
#ifdef MISTAKE_BLIND_RECLAIM
#undef UNCHANGED
#define UNCHANGED true
#endif
#ifdef MISTAKE_GROW_FROM_TOP
#undef KEPT_FROM
#define KEPT_FROM TOP
#endif

typedef ring_of {
    byte slot[SLOTS_MAX]
}

/* The word. */
byte top = START;
byte split = START;
bit epoch;

byte copied[2];
ring_of rings[2];
bit ring;

/* What is told of it all. */
bit taken[ITEMS + 1];
bit over;
byte thieves_done;

inline take(item)
{
    assert(item > 0 && !taken[item]);
    taken[item] = 1
}

/* n is any of 1 to most. */
inline any(n, most)
{
    n = 1;
    do
    :: n < most -> n++
    :: break
    od
}

/* ---- the owner ---- */

/* Two rounds, as in deque_collect. */
inline collect()
{
    round = 0;
    do
    :: round < 2 && bottom == limit ->
        round++;
        if
        :: UNSETTLED -> skip
        :: else ->
            if
            :: TOP == safe -> break
            :: else
            fi;
            d_step {
                epoch = 1 - epoch;
                due[u_epoch] = (due[u_epoch] + TOP - flipped) % M;
                flipped = TOP;
                u_epoch = 1 - u_epoch;
                unsettled = 1
            }
        fi;
        if
        :: SETTLED ->
            d_step {
                safe = flipped;
                unsettled = 0;
                limit = safe + slots
            }
        :: else -> break
        fi
    :: else -> break
    od;
    round = 0
}

/* Nobody sees the new ring before it is named. */
inline grow()
{
    d_step {
        n = KEPT_FROM;
        do
        :: n < bottom ->
            rings[1].slot[n % SLOTS_MAX] = rings[0].slot[n % SLOTS];
            n++
        :: else -> break
        od;
        n = 0
    };
    d_step {
        ring = 1;
        slots = SLOTS_MAX;
        limit = safe + slots
    }
}

inline push()
{
    if
    :: bottom == limit ->
        collect();
        if
        :: bottom == limit && slots < SLOTS_MAX -> grow()
        :: else
        fi
    :: else
    fi;
    if
    :: bottom < limit ->
        d_step {
            pushed++;
            rings[ring].slot[bottom % slots] = pushed;
            bottom++
        }
    :: else
    fi
}

inline publish()
{
    atomic {
        any(n, bottom - u_split);
        split = (split + n) % M;
        u_split = u_split + n;
        n = 0
    }
}

inline reclaim()
{
    n = top;
    do
    :: true ->
        seen = u_split - SHOWN(n, split);
        if
        :: seen == u_split -> break
        :: else
        fi;
        atomic {
            if
            :: UNCHANGED ->
                any(m, SHOWN(n, split));
                split = (split + M - m) % M;
                u_split = u_split - m;
                break
            :: else -> n = top
            fi
        }
    od;
    n = 0;
    m = 0
}

/* none: there was none. */
inline pop()
{
    if
    :: bottom == u_split && seen != u_split -> reclaim()
    :: else
    fi;
    d_step {
        none = (bottom == u_split);
        if
        :: !none ->
            bottom--;
            take(rings[ring].slot[bottom % slots])
        :: else
        fi
    }
}

active proctype owner()
{
    byte bottom = START, u_split = START, limit = START + SLOTS, slots = SLOTS, seen = START, safe = START, flipped = START;
    byte due[2], pushed, n, m, round;
    bit u_epoch, unsettled, none;
    do
    :: pushed < ITEMS -> push()
    :: pushed > 0 -> pop()
    :: bottom > u_split -> publish()
    :: pushed == ITEMS -> break
    od;
    do
    :: pop();
        if
        :: none -> break
        :: else
        fi
    od;
    over = 1;
    /* Whoever is in the middle of a steal ends it. */
    thieves_done == THIEVES;
    d_step {
        n = 1;
        do
        :: n <= ITEMS ->
            assert(taken[n]);
            n++
        :: else -> break
        od
    }
}

/* ---- thieves ---- */

active [THIEVES] proctype thief()
{
    byte w_top, w_split, k, i, item;
    bit w_epoch, r;
    do
    :: over -> break
    :: atomic {
        top != split ->
        w_top = top;
        w_split = split;
        w_epoch = epoch;
        any(k, SHOWN(w_top, w_split))
    };
#ifdef MISTAKE_EARLY_SLOT
        item = rings[ring].slot[w_top % (ring == 0 -> SLOTS : SLOTS_MAX)];
        k = 1;
#endif
#ifdef MISTAKE_EARLY_RING
        r = ring;
#endif
        atomic {
            if
            :: top == w_top && split == w_split && epoch == w_epoch -> top = (top + k) % M
            :: else -> k = 0
            fi
        };
        if
        :: k > 0 ->
#ifndef MISTAKE_EARLY_RING
            r = ring;
#endif
            do
            :: i < k ->
#ifdef MISTAKE_EARLY_SLOT
                take(item);
#else
                d_step {
                    item = rings[r].slot[((w_top + i) % M) % (r == 0 -> SLOTS : SLOTS_MAX)];
                    take(item)
                };
#endif
                i++
            :: else -> break
            od;
            copied[w_epoch] = (copied[w_epoch] + k) % M
        :: else
        fi;
        d_step {
            w_top = 0;
            w_split = 0;
            w_epoch = 0;
            k = 0;
            i = 0;
            item = 0;
            r = 0
        }
    od;
    thieves_done++
}
