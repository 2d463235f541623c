/* One key of the store as a register on three owners (doc/design/registers.md): prepare and accept by ballots, the
 * one-round-trip path on a promise that an accept carried, reads that are stable or written back, changes that their clients repeat at
 * another owner, a record that lists the last change of one client only, deletion with floors, an owner that loses its disk.
 *
 * An accept that was sent arrives at any time, late, twice, or never, at each owner by itself. A prepare and its answer are one step at
 * each of the two owners whose answers are used, in any order, with anything between: a promise whose answer is not used can only
 * refuse, which is as if the message refused had been lost, and a proposer looks at answers once it has them all. A proposer may give up
 * after its accept was sent, which is also a crash of it: it never uses a ballot again and forgets what it had cached.
 *
 * A ballot is a number; odd ones are the first proposer's, even ones the second's. What a ballot proposes stands under its number. What a
 * record has gone through (`has`, a bit for each change) is told to nobody: with it the claims are made.
 *
 * Claims: no change is applied twice; what is answered contains all that was acknowledged before it was asked (nothing lost, reads not
 * stale, also over deletion); answers of one version are the same and lie in one chain; versions rise.
 *
 * Run by store_spin.sh, in several sizes, and with mistakes put in (-DMISTAKE_...), each of which has to be found. */
#ifndef BALLOTS
#define BALLOTS 4
#endif
#ifndef CHANGES
#define CHANGES 2
#endif
#ifndef READS
#define READS 1 /* of each proposer */
#endif
#ifndef STICKY
#define STICKY 1
#endif
#define OWNERS 3

/* Ballots compare as these numbers; the mistake is a proposer that uses its first one again. */
#ifdef MISTAKE_BALLOT_REUSED
#define ORD(b) ((b) == 3 -> 1 : (b))
#else
#define ORD(b) (b)
#endif
/* The ballot that an accept may carry a promise for. */
#define NEXT(b) ((b) + 2)
/* The first proposer's do: it is the key's sticky one. */
#define HOLDS(b) (STICKY && (b) % 2 == 1 && NEXT(b) <= BALLOTS)

/* What an owner keeps: a promise, and what it accepted last (0: nothing); the floors it raised. */
byte promised[OWNERS];
byte accepted[OWNERS];
byte ballot_floor[OWNERS];
byte version_floor[OWNERS];
bit lost[OWNERS]; /* its disk: it is somebody else from then on, and not asked any more */

/* What a ballot proposes: the record. listed: the change in its list + 1, and its version. */
byte has[BALLOTS + 1];
byte version[BALLOTS + 1];
byte listed[BALLOTS + 1];
byte listed_version[BALLOTS + 1];
byte forgot[BALLOTS + 1];
bit tombstone[BALLOTS + 1];

bit accept[BALLOTS + 1];    /* sent: it arrives at any time from now on */
byte confirms[BALLOTS + 1]; /* owners that told its proposer */

/* What clients know. */
byte acknowledged;         /* changes */
byte newest;                  /* the highest version that was told to anybody */
byte since[CHANGES];          /* as the change was sent first, + 1; 0: not sent yet */
byte by_version[CHANGES + 2]; /* what was told under that version, + 1 */
byte buried;                  /* what the collected tombstone had gone through */

#define MAJORITY(bits) ((bits) == 3 || (bits) == 5 || (bits) == 6 || (bits) == 7)
#define READ 15

#ifdef MISTAKE_PROMISE_UNCHECKED
#define MAY(a, b) (ORD(b) >= ORD(accepted[a]))
#else
#define MAY(a, b) (ORD(b) >= promised[a] && ORD(b) >= ORD(accepted[a]))
#endif
#ifdef MISTAKE_FLOOR_NOT_RAISED
#define RAISE(a) skip
#else
#define RAISE(a)                                                                                                       \
    ballot_floor[a] = promised[a];                                                                                     \
    version_floor[a] = version[grave]
#endif
/* An owner without a record refuses what is not above its version floor; a tombstone may be equal. */
#define FRESH(a, b)                                                                                                    \
    (accepted[a] != 0 || version[b] > version_floor[a] || (tombstone[b] && version[b] == version_floor[a]))

#define IN(bits, a) (((bits) >> (a)) & 1)

/* One message at owner a: it is done, or refused, which is as if it never came. */
#define ON_ACCEPT(b)                                                                                                   \
    :: d_step {                                                                                                        \
        accept[b] && !lost[a] && accepted[a] != b && MAY(a, b) && ORD(b) > ballot_floor[a] && FRESH(a, b) ->           \
        accepted[a] = b;                                                                                               \
        promised[a] = (HOLDS(b) -> ORD(NEXT(b)) : ORD(b));                                                             \
        confirms[b] = confirms[b] | (1 << a)                                                                           \
    }

active [OWNERS] proctype owner()
{
    byte a = _pid;
end:
    do
        ON_ACCEPT(1)
        ON_ACCEPT(2)
        ON_ACCEPT(3)
#if BALLOTS >= 4
        ON_ACCEPT(4)
#endif
#if BALLOTS >= 5
        ON_ACCEPT(5)
#endif
#if BALLOTS >= 6
        ON_ACCEPT(6)
#endif
    od
}

/* ---- an owner loses its disk ---- */

#ifdef WIPE
active proctype wiped()
{
    d_step {
#ifdef MISTAKE_WIPED_SAME_NAME
        promised[0] = 0;
        accepted[0] = 0
#else
        lost[0] = 1
#endif
    }
}
#endif

/* ---- a tombstone that all owners hold is collected ---- */

#ifdef DELETE
byte grave;

active proctype collector()
{
    byte a;
end:
    d_step {
        accepted[0] != 0 && tombstone[accepted[0]] && version[accepted[0]] > 0 -> grave = accepted[0]
    };
    accepted[1] == grave;
    accepted[2] == grave;
    buried = has[grave];
    do
    :: a < OWNERS ->
        d_step {
            if
            :: accepted[a] == grave ->
                RAISE(a);
                accepted[a] = 0;
                promised[a] = 0
            :: else
            fi;
            a++
        }
    :: else -> break
    od
}
#endif

/* ---- proposers ---- */

/* What is told to a client: version v, having gone through h. */
inline tell()
{
    assert((h & before) == before);  /* all that was acknowledged when it was asked */
    assert(v >= newest_before);      /* and no older version */
    assert(by_version[v] == 0 || by_version[v] == h + 1);
    by_version[v] = h + 1;
    i = 0;
    do
    :: i < CHANGES + 2 ->
        assert(by_version[i] == 0 || i >= v || ((by_version[i] - 1) & h) == by_version[i] - 1);
        assert(by_version[i] == 0 || i <= v || ((by_version[i] - 1) & h) == h);
        i++
    :: else -> break
    od;
    i = 0;
    if
    :: v > newest -> newest = v
    :: else
    fi;
    h = 0;
    v = 0
}

/* What a record, or the absence of one, says. */
inline found()
{
    h = (base == 0 && floor > 0 -> buried : has[base]);
    v = (base == 0 -> floor : version[base])
}

/* Owner a promises b and says what it has: the highest ballot of a majority is the base; without a record, the highest floor. */
#define ASK(a)                                                                                                         \
    :: d_step {                                                                                                        \
        !IN(got, a) && !lost[a] && MAY(a, b) && ORD(b) > ballot_floor[a] ->                                            \
        got = got | (1 << a);                                                                                          \
        promised[a] = ORD(b);                                                                                          \
        if                                                                                                             \
        :: ORD(accepted[a]) > ORD(base) -> base = accepted[a]                                                          \
        :: else                                                                                                        \
        fi;                                                                                                            \
        if                                                                                                             \
        :: accepted[a] == 0 && version_floor[a] > floor -> floor = version_floor[a]                                    \
        :: else                                                                                                        \
        fi                                                                                                             \
    }

/* The record as it was found becomes that of b. */
inline copy()
{
    found();
    has[b] = h;
    version[b] = v;
    h = 0;
    v = 0;
    listed[b] = listed[base];
    listed_version[b] = listed_version[base];
    forgot[b] = (base == 0 -> floor : forgot[base]);
    tombstone[b] = (base == 0 -> 1 : tombstone[base])
}

/* The change is made to it, if it was not made before. unknown: nobody can tell. */
inline change()
{
    if
    :: listed[b] == op + 1 -> skip
    :: listed[b] != op + 1 && since[op] - 1 < forgot[b] -> unknown = 1
    :: else ->
        assert(!IN(has[b], op)); /* made twice */
        has[b] = has[b] | (1 << op);
        if
        :: listed[b] != 0 ->
#ifndef MISTAKE_SEQUENCE_FORGOTTEN
            forgot[b] = listed_version[b]
#endif
        :: else
        fi;
        version[b] = version[b] + 1;
        listed[b] = op + 1;
        listed_version[b] = version[b];
#ifdef DELETE
        tombstone[b] = (op == 1 -> 1 : 0)
#else
        tombstone[b] = 0
#endif
    fi
}

active [2] proctype proposer()
{
    byte b = _pid - OWNERS + 1; /* the owners were started first */
    byte asked, reads, op, before, newest_before, base, floor, cache, got, h, v, i;
    bit unknown;
end:
    do
    :: atomic {
        b <= BALLOTS ->
        before = acknowledged;
        newest_before = newest;
        /* The first change may be asked for at both (its client repeats it), each other one at one. */
        if
        :: !IN(asked, 0) -> op = 0
        :: CHANGES > 1 && !IN(asked, 1) && b % 2 == 0 -> op = 1
        :: CHANGES > 2 && !IN(asked, 2) && b % 2 == 1 -> op = 2
        :: reads < READS -> op = READ
        :: else -> goto done
        fi;
        if
        :: op == READ -> reads++
        :: else ->
            asked = asked | (1 << op);
            if
            :: since[op] == 0 -> since[op] = newest + 1
            :: else
            fi
        fi
    };
        if
#ifdef MISTAKE_CACHE_READ
        :: op == READ && cache != 0 ->
            d_step {
                h = has[cache];
                v = version[cache];
                tell()
            };
            goto over
#endif
        :: op == READ ->
            /* Two owners with the same: it is final. One after the other, and no promise asked for. */
            atomic {
                if
                :: i = 0
                :: i = 1
                :: i = 2
                fi;
                !lost[i];
                base = accepted[i];
                floor = version_floor[i]
            };
            d_step {
                i = (i + 1) % OWNERS;
                if
                :: !lost[i] && accepted[i] == base && (base != 0 || version_floor[i] == floor) ->
                    found();
                    tell();
                    op = READ + 1
                :: else
                fi;
                i = 0
            };
            if
            :: op == READ + 1 -> goto over
            :: else
            fi
        :: op != READ
        fi;
        if
        :: cache != 0 && NEXT(cache) == b && op != READ -> base = cache
        :: else ->
            atomic {
                cache = 0;
                base = 0;
                floor = 0;
                /* A proposer that was refused lifts its counter. */
                if
                :: NEXT(b) <= BALLOTS -> b = NEXT(b)
                :: true
                fi
            };
            do
            :: MAJORITY(got) -> break
            ASK(0)
            ASK(1)
            ASK(2)
            od;
            got = 0
        fi;
        atomic {
#ifdef MISTAKE_READ_NOT_WRITTEN_BACK
            if
            :: op == READ ->
                found();
                tell();
                b = NEXT(b);
                goto over
            :: else
            fi;
#endif
            unknown = 0;
            copy();
            if
            :: op != READ -> change()
            :: else
            fi;
            if
            :: unknown -> goto given_up
            :: else
            fi;
            accept[b] = 1
        };
        if
        :: atomic {
            MAJORITY(confirms[b]) ->
            h = has[b];
            v = version[b];
            tell();
            if
            :: op != READ -> acknowledged = acknowledged | (1 << op)
            :: else
            fi;
            cache = (HOLDS(b) -> b : 0);
            b = NEXT(b);
            goto over
        }
        :: true
        fi;
    given_up:
        atomic {
            cache = 0;
            b = NEXT(b)
        };
    over:
        skip;
        d_step {
            op = 0;
            base = 0;
            floor = 0;
            unknown = 0;
            before = 0;
            newest_before = 0
        }
    od;
done:
    skip;
#ifdef REACHED
    assert(acknowledged != (1 << CHANGES) - 1) /* the claims are not empty: all changes can be made */
#endif
}
