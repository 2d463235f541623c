/* A bucket's way from one set of owners to the next (doc/design/membership.md): two movers, of which the second takes over from the
 * first at any moment; seal, read, install, activate; a write that is under way meanwhile; a read and a write by the new owners.
 *
 * Owners 0, 1, 2 are the old ones, 1, 2, 3 the new ones. What is kept is the set of changes that a record has gone through, under a ballot;
 * here a ballot stands for both, as in store_register.pml. In the old epoch ballot 1 adds change 1 to what a majority shows, and with
 * -DWRITERS=2 ballot 2 change 2; each may reach one owner only. In the new epoch ballot 3 adds change 3.
 * Messages arrive late or never: who sends does it step by step, and may stop anywhere.
 *
 * With -DLET_GO whoever takes over does not take this bucket, while a mover is at work on it: the map lets it go, and its old owners go on under the
 * number that was taken, as their epoch, with what they have (kvs/map/map.h, batches). Ballot 3 and the read are theirs then.
 *
 * Claims: one image only is ever served; what was acknowledged in the old epoch is in it, what was acknowledged in the new one is read; a
 * bucket that was let go is not activated.
 *
 * Run by store_spin.sh, with mistakes put in (-DMISTAKE_...), each of which has to be found. */
#ifndef WRITERS
#define WRITERS 1
#endif
#define IN(bits, a) (((bits) >> (a)) & 1)
#define MAJORITY_OLD(bits) (((bits) & 7) == 3 || ((bits) & 7) == 5 || ((bits) & 7) >= 6)
#define MAJORITY_NEW(bits) (((bits) & 14) == 6 || ((bits) & 14) == 10 || ((bits) & 14) >= 12)

/* An owner in the old epoch. */
byte promised[4];
byte accepted[4];
bit sealed[4];
bit lost[4];
/* In the new one: an image of this mover's number (0: none), and what was accepted on top of it. */
byte number[4];
byte image[4];
byte later[4]; /* a ballot of the new epoch */

/* The map: the newest mover's number, the number that was activated; whether the bucket was let go. */
byte mover_now;
byte active_number;
bit let_go;
/* An old owner knows that, and refuses what is of the epoch before. */
bit goes_on[4];

/* Ghosts: has[b] is what ballot b has gone through; what was acknowledged; what was served, + 1. */
byte has[4];
byte acknowledged;
byte served;

/* ---- the old epoch: a change by its ballot ---- */

#define MAY(a, b) (!sealed[a] && !goes_on[a] && !lost[a] && promised[a] <= b && accepted[a] <= b)

active [WRITERS] proctype writer()
{
    byte b = _pid + 1, got, base, told;
end:
    do
    :: got == 3 || got == 5 || got >= 6 -> break
    :: d_step {
        !IN(got, 0) && MAY(0, b) -> got = got | 1; promised[0] = b; base = (accepted[0] > base -> accepted[0] : base)
    }
    :: d_step {
        !IN(got, 1) && MAY(1, b) -> got = got | 2; promised[1] = b; base = (accepted[1] > base -> accepted[1] : base)
    }
    :: d_step {
        !IN(got, 2) && MAY(2, b) -> got = got | 4; promised[2] = b; base = (accepted[2] > base -> accepted[2] : base)
    }
    od;
    has[b] = has[base] | (1 << b);
    do
    :: d_step {
        MAJORITY_OLD(told) && !IN(acknowledged, b) -> acknowledged = acknowledged | (1 << b)
    }
    :: d_step { !IN(told, 0) && MAY(0, b) -> told = told | 1; promised[0] = b; accepted[0] = b }
    :: d_step { !IN(told, 1) && MAY(1, b) -> told = told | 2; promised[1] = b; accepted[1] = b }
    :: d_step { !IN(told, 2) && MAY(2, b) -> told = told | 4; promised[2] = b; accepted[2] = b }
    od
}

#ifdef WIPE
#define WIPED 1
/* An old owner loses its disk: under its old name it would say that it has nothing. */
active proctype wiped()
{
    d_step {
#ifdef MISTAKE_WIPED_SAME_NAME
        promised[2] = 0;
        accepted[2] = 0
#else
        lost[2] = 1
#endif
    }
}
#else
#define WIPED 0
#endif

/* ---- movers ---- */

#ifdef MISTAKE_UNSEALED_READ
/* The state is read first, the seal comes after it. */
#define SEAL(a)                                                                                                        \
    :: d_step {                                                                                                        \
        !IN(read, a) && !lost[a] -> read = read | (1 << a); best = (accepted[a] > best -> accepted[a] : best)          \
    }                                                                                                                  \
    :: d_step { IN(read, a) && !IN(seals, a) && !lost[a] -> sealed[a] = 1; seals = seals | (1 << a) }
#else
#define SEAL(a)                                                                                                        \
    :: d_step {                                                                                                        \
        !IN(seals, a) && !lost[a] && !goes_on[a] ->                                                                    \
        sealed[a] = 1;                                                                                                 \
        seals = seals | (1 << a);                                                                                      \
        best = (accepted[a] > best -> accepted[a] : best)                                                              \
    }
#endif

/* Of an owner that goes on, what arrives changes nothing that it has accepted. */
#if defined(LET_GO) && !defined(MISTAKE_ARRIVED_TAKES_PLACE)
#define RESET(a) skip
#else
#define RESET(a) later[a] = 0
#endif
/* A lower number overwrites no higher one; who serves is changed by nobody. */
#define TAKES(a) (number[a] < n && !serving[a])
#ifdef MISTAKE_IMAGES_MIXED
#define HOLDS(a) (number[a] != 0)
#else
#define HOLDS(a) (number[a] == n)
#endif
#define INSTALL(a)                                                                                                     \
    :: d_step {                                                                                                        \
        !IN(sent, a) -> sent = sent | (1 << a);                                                                        \
        if                                                                                                             \
        :: TAKES(a) -> number[a] = n; image[a] = best; RESET(a)                                                    \
        :: else                                                                                                        \
        fi;                                                                                                            \
        if                                                                                                             \
        :: HOLDS(a) -> holders = holders | (1 << a)                                                                    \
        :: else                                                                                                        \
        fi                                                                                                             \
    }

/* A new owner begins to serve once it sees that its image was activated. */
bit serving[4];

#ifdef MISTAKE_LET_GO_ACTIVATED
#define MINE(n) 1
#else
#define MINE(n) (mover_now == n)
#endif

#ifdef LET_GO
#define MOVERS 1
active proctype taker()
{
end:
    d_step { mover_now != 0 && active_number == 0 -> mover_now++; let_go = 1 }
}
#else
#define MOVERS 2
#endif

active [MOVERS] proctype mover()
{
    byte n, read, seals, best, sent, holders;
    d_step {
        active_number == 0 && !let_go -> mover_now++; n = mover_now
    };
end:
    do
    :: MAJORITY_OLD(seals) -> break
    SEAL(0)
    SEAL(1)
    SEAL(2)
    od;
    do
    :: d_step {
        MAJORITY_NEW(holders) && active_number == 0 && MINE(n) -> active_number = n; assert(!let_go)
    }
    INSTALL(1)
    INSTALL(2)
    INSTALL(3)
    od
}

/* ---- the new epoch ---- */

#ifdef MISTAKE_IMAGES_MIXED
#define SERVES(a) (active_number != 0 && number[a] != 0)
#else
#define SERVES(a) (active_number != 0 && number[a] == active_number)
#endif

/* The moment an owner first serves: from then on it is no image but the state. */
#define SERVE(a)                                                                                                       \
    serving[a] = 1;                                                                                         \
    assert(served == 0 || served == image[a] + 1 || later[a] != 0); /* one image */                                    \
    served = (served == 0 -> image[a] + 1 : served)

#define STATE(a) (later[a] != 0 -> later[a] : image[a])

#ifdef LET_GO
/* The old owners. What has arrived beside what they have stays beside it. */
#undef SERVES
#undef SERVE
#undef STATE
#define SERVES(a) let_go
#define SERVE(a) goes_on[a] = 1
#ifdef MISTAKE_ARRIVED_TAKES_PLACE
#define STATE(a) (number[a] != 0 -> (later[a] != 0 -> later[a] : image[a]) : (later[a] != 0 -> later[a] : accepted[a]))
#else
#define STATE(a) (later[a] != 0 -> later[a] : accepted[a])
#endif
#define FIRST 0
#define SECOND 1
#define THIRD 2
#else
#define FIRST 1
#define SECOND 2
#define THIRD 3
#endif

/* A change, then a read, each by two of the three. */
active proctype user()
{
    byte base, x, y, a, c;
    if
    :: a = FIRST; c = SECOND
    :: a = FIRST; c = THIRD
    :: a = SECOND; c = THIRD
    fi;
end:
    d_step { SERVES(a) -> SERVE(a); x = STATE(a) };
    d_step { SERVES(c) -> SERVE(c); y = STATE(c) };
    d_step {
        base = (x > y -> x : y);
        assert((has[base] & acknowledged) == acknowledged); /* nothing lost */
        has[3] = has[base] | 8
    };
    d_step { SERVES(a) -> SERVE(a); later[a] = 3 };
    d_step { SERVES(c) -> SERVE(c); later[c] = 3 };
    acknowledged = acknowledged | 8;
    x = 0;
    y = 0;
    if
    :: a = FIRST; c = SECOND
    :: a = FIRST; c = THIRD
    :: a = SECOND; c = THIRD
    fi;
    d_step { SERVES(a) -> SERVE(a); x = STATE(a) };
    d_step { SERVES(c) -> SERVE(c); y = STATE(c) };
    d_step {
        base = (x > y -> x : y);
        assert((has[base] & acknowledged) == acknowledged)
    };
#ifdef REACHED
    /* The claims are not empty: all was made, by the second mover, and without the owner that is lost. */
    assert(!(acknowledged == (WRITERS == 2 -> 14 : 10) && mover_now == 2 && (lost[2] || !WIPED)))
#endif
}
