/* Each rule with histories that keep it and histories that break it, each in one way. */
#include "expect.h"

#include <stdio.h>
#include <string.h>

#include "htcsched/history.h"

typedef htc_status checker(const htc_history *, const htc_history_rules *, htc_history_verdict *);

typedef struct row {
    const char *what;   /* this history is */
    uint32_t    answer; /* expected */
    const char *says;   /* stands in the text */
    const char *text;
} row;

#define HOLDS     HTC_HISTORY_HOLDS
#define BROKEN    HTC_HISTORY_BROKEN
#define UNDECIDED HTC_HISTORY_UNDECIDED

static const htc_history_rules rules = { .size = sizeof rules, .settle_ns = 10, .takeover_ns = 500 };

static void try(checker *check, const row *rows, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        htc_history        *h;
        htc_history_verdict v;
        htc_error           e;
        cr_assert(eq(int, htc_history_create(NULL, NULL, &h), HTC_OK));
        cr_assert(eq(int, htc_history_read(h, htc_bytes_of(rows[i].text), &e), HTC_OK), "%s: line %u: %s", rows[i].what,
                  e.line, e.text);
        cr_assert(eq(int, check(h, &rules, &v), HTC_OK));
        cr_expect(eq(u32, v.answer, rows[i].answer), "%s: %s", rows[i].what, v.text);
        if (rows[i].says)
            cr_expect(strstr(v.text, rows[i].says) != NULL, "%s: %s", rows[i].what, v.text);
        if (v.answer == BROKEN)
            cr_expect(v.involved > 0 && strstr(v.text, "\n  #") && strstr(v.text, "(line "), "%s: %s", rows[i].what,
                      v.text);
        htc_history_destroy(h);
    }
}

#define TRY(check, rows) try(check, rows, sizeof rows / sizeof *rows)

Test(history_rules, linear)
{
    static const row rows[] = {
        { "nothing", HOLDS, NULL, "" },
        { "a put and a read", HOLDS, NULL,
          "put key=a from=1 to=2 done version=7 value='x\nget key=a from=3 to=4 done version=7 observed='x" },
        { "a change of unknown outcome that was seen", HOLDS, NULL,
          "put key=a from=1 unknown value='x\nget key=a from=3 to=4 done version=7 observed='x" },
        { "one of each of three keys", HOLDS, NULL,
          "put key=a from=1 unknown value='x\nput key=a from=1 unknown value='y\n"
          "get key=a from=3 to=4 done version=7 observed='x\nget key=a from=5 to=6 done version=8 observed='y\n"
          "put key=b from=1 unknown value='x\nget key=b from=3 to=4 done version=7 observed='x\n"
          "put key=c from=1 unknown value='x\nput key=c from=1 unknown value='y\n"
          "get key=c from=3 to=4 done version=7 observed='x\nget key=c from=5 to=6 done version=8 observed='y" },
        { "a deletion of unknown outcome that was seen", HOLDS, NULL,
          "put key=a from=1 to=2 done version=7 value='x\ndelete key=a from=3 unknown\nget key=a from=5 to=6 missed" },
        { "an addition nobody heard of, between two", HOLDS, NULL,
          "add key=a from=1 to=2 done version=1 delta=1 number=1\nadd key=a from=1 unknown delta=5\n"
          "add key=a from=3 to=4 done version=9 delta=1 number=7" },
        { "two of them", HOLDS, NULL,
          "add key=a from=1 to=2 done version=1 delta=1 number=1\nadd key=a from=1 unknown delta=5\n"
          "add key=a from=1 unknown delta=7\nadd key=a from=3 to=4 done version=9 delta=1 number=14" },
        { "no room between the versions for it", BROKEN, NULL,
          "add key=a from=1 to=2 done version=1 delta=1 number=1\nadd key=a from=1 unknown delta=5\n"
          "add key=a from=3 to=4 done version=2 delta=1 number=7" },
        { "a floor that rose over what is not there", HOLDS, NULL,
          "delete key=a from=1 to=2 missed version=3\nget key=a from=3 to=4 missed version=9\n"
          "put key=a from=5 to=6 done version=10 value='x" },
        { "a value nobody wrote", BROKEN, "no change wrote it",
          "put key=a from=1 to=2 done version=1 value='x\nget key=a from=3 to=4 done version=2 observed='y" },
        { "one version, two values", BROKEN, "two values",
          "put key=a from=1 to=2 done version=1 value='x\nget key=a from=3 to=4 done version=1 observed='y" },
        { "one version, two changes", BROKEN, "two changes",
          "put key=a from=1 to=2 done version=1 value='x\nput key=a from=3 to=4 done version=1 value='x" },
        { "a stale read", BROKEN, "time went back",
          "put key=a from=1 to=2 done version=1 value='x\nput key=a from=3 to=4 done version=2 value='y\n"
          "get key=a from=5 to=6 done version=1 observed='x" },
        { "read before it was asked for", BROKEN, "before its change",
          "get key=a from=1 to=2 done version=1 observed='x\nput key=a from=3 to=4 done version=1 value='x" },
        { "found nothing though it was there", BROKEN, "nothing was found",
          "put key=a from=1 to=2 done version=1 value='x\nget key=a from=3 to=4 missed\n"
          "get key=a from=5 to=6 done version=1 observed='x" },
        { "a compare-and-swap that succeeds on another version", BROKEN, "does not follow",
          "put key=a from=1 to=2 done version=1 value='x\nput key=a from=3 to=4 done version=2 value='y\n"
          "cas_version key=a from=5 to=6 done expected=1 version=3 value='z" },
        { "a compare-and-swap that fails on what is there", BROKEN, NULL,
          "put key=a from=1 to=2 done version=1 value='x\ncas_value key=a from=3 to=4 missed seen='x version=1 "
          "observed='x" },
        { "an append told the wrong length", BROKEN, "does not follow",
          "append key=a from=1 to=2 done version=1 value='xx number=2\nappend key=a from=3 to=4 done version=2 "
          "value='y number=4" },
        { "an unknown change asked for after it was seen", BROKEN, NULL,
          "get key=a from=1 to=2 done version=1 observed='x\nput key=a from=3 unknown value='x" },
        { "what is wrong with one key is not hidden by another", BROKEN, "key b",
          "add key=a from=1 to=2 done version=1 delta=1\nappend key=a from=3 to=4 done version=2 value='1\n"
          "get key=b from=1 to=2 done version=1 observed='x" },
        { "additions and appends to one key", UNDECIDED, "not modelled",
          "add key=a from=1 to=2 done version=1 delta=1\nappend key=a from=3 to=4 done version=2 value='1" },
    };
    TRY(htc_history_linear, rows);
}

Test(history_rules, rising)
{
    static const row rows[] = {
        { "values do not matter", HOLDS, NULL,
          "put key=a from=1 to=2 done version=1 value='x\nget key=a from=3 to=4 done version=1 observed='y" },
        { "deletion and creation in between", HOLDS, NULL,
          "put key=a from=1 to=2 done version=5\ndelete key=a from=3 to=4 done version=6\nput key=a from=5 to=6 done "
          "version=9" },
        { "two at the same time", HOLDS, NULL,
          "put key=a from=1 to=9 done version=5\nput key=a from=1 to=9 done version=2" },
        { "a new life begins at one again", BROKEN, "time went back",
          "put key=a from=1 to=2 done version=5\ndelete key=a from=3 to=4 done version=6\nput key=a from=5 to=6 done "
          "version=1" },
        { "a read that goes back", BROKEN, "time went back",
          "get key=a from=1 to=2 done version=5\nget key=a from=3 to=4 done version=4" },
        { "a mismatch that shows an old version", BROKEN, "time went back",
          "get key=a from=1 to=2 done version=5\ncas_version key=a from=3 to=4 missed version=4" },
        { "a change that does not rise", BROKEN, "two changes",
          "put key=a from=1 to=2 done version=5\nput key=a from=3 to=4 done version=5" },
        { "a deletion that does not rise", BROKEN, NULL,
          "get key=a from=1 to=2 done version=5\ndelete key=a from=3 to=4 done version=5" },
        { "an absence older than what was there", BROKEN, "time went back",
          "put key=a from=1 to=2 done version=5\nget key=a from=3 to=4 missed version=4" },
    };
    TRY(htc_history_rising, rows);
}

Test(history_rules, kept)
{
    static const row rows[] = {
        { "all there", HOLDS, NULL,
          "put key=a from=1 to=2 done version=1 value='x\nget key=a from=8 to=9 done final version=1 observed='x" },
        { "deleted", HOLDS, NULL,
          "put key=a from=1 to=2 done version=1 value='x\ndelete key=a from=3 to=4 done version=2\nget key=a from=8 "
          "to=9 missed final" },
        { "overwritten by an unknown one", HOLDS, NULL,
          "put key=a from=1 to=2 done version=1 value='x\nput key=a from=3 unknown value='y\nget key=a from=8 to=9 "
          "done final "
          "version=4 observed='y" },
        { "deleted by an unknown one", HOLDS, NULL,
          "put key=a from=1 to=2 done version=1 value='x\ndelete key=a from=3 unknown\nget key=a from=8 to=9 missed "
          "final" },
        { "under way while it was read", HOLDS, NULL,
          "put key=a from=1 to=10 done version=1 value='x\nput key=a from=1 to=2 done version=2\nget key=a from=8 to=9 "
          "done final version=2" },
        { "an older version is there", BROKEN, "is lost",
          "put key=a from=1 to=2 done version=1 value='x\nput key=a from=3 to=4 done version=2 value='y\n"
          "get key=a from=8 to=9 done final version=1 observed='x" },
        { "it is gone", BROKEN, "nobody deleted",
          "put key=a from=1 to=2 done version=1 value='x\nget key=a from=8 to=9 missed final" },
        { "something else is there under its version", BROKEN, "something else",
          "put key=a from=1 to=2 done version=1 value='x\nget key=a from=8 to=9 done final version=1 observed='y" },
        { "the deletion is lost", BROKEN, "is lost",
          "put key=a from=1 to=2 done version=1 value='x\ndelete key=a from=3 to=4 done version=2\n"
          "get key=a from=8 to=9 done final version=1 observed='x" },
        { "a version that nobody made", BROKEN, "newer than every",
          "put key=a from=1 to=2 done version=1 value='x\nget key=a from=8 to=9 done final version=3 observed='x" },
        { "gone under an old version", BROKEN, "is older",
          "delete key=a from=1 to=2 done version=4\nget key=a from=8 to=9 missed final version=3" },
        { "no final read", UNDECIDED, "without a final read", "put key=a from=1 to=2 done version=1 value='x" },
        { "no versions", UNDECIDED, "versions",
          "put key=a from=1 to=2 done value='x\nget key=a from=8 to=9 done final observed='x" },
    };
    TRY(htc_history_kept, rows);
}

Test(history_rules, counted)
{
    static const row rows[] = {
        { "the sum", HOLDS, NULL,
          "add key=a from=1 to=2 done delta=3\nadd key=a from=1 to=2 done delta=-1\nget key=a from=8 to=9 done final "
          "observed='2" },
        { "an unknown one in it", HOLDS, NULL,
          "add key=a from=1 to=2 done delta=3\nadd key=a from=1 unknown delta=4\nget key=a from=8 to=9 done final "
          "observed='7" },
        { "an unknown one not in it", HOLDS, NULL,
          "add key=a from=1 to=2 done delta=3\nadd key=a from=1 unknown delta=-4\nget key=a from=8 to=9 done final "
          "observed='3" },
        { "refused ones do not count", HOLDS, NULL,
          "add key=a from=1 to=2 done delta=3\nadd key=a from=1 to=2 refused delta=4\nget key=a from=8 to=9 done final "
          "observed='3" },
        { "keys that are put too are not looked at", HOLDS, NULL,
          "add key=a from=1 to=2 done delta=3\nput key=a from=1 to=2 done value='9\nget key=a from=8 to=9 done final "
          "observed='1" },
        { "one lost", BROKEN, "stands at 2",
          "add key=a from=1 to=2 done delta=2\nadd key=a from=3 to=4 done delta=3\nget key=a from=8 to=9 done final "
          "observed='2" },
        { "one made twice", BROKEN, "stands at 8",
          "add key=a from=1 to=2 done delta=2\nadd key=a from=3 to=4 done delta=3\nget key=a from=8 to=9 done final "
          "observed='8" },
        { "an unknown one made twice", BROKEN, "3 at least and 7 at most",
          "add key=a from=1 to=2 done delta=3\nadd key=a from=1 unknown delta=4\nget key=a from=8 to=9 done final "
          "observed='11" },
        { "a refused one made", BROKEN, "stands at 7",
          "add key=a from=1 to=2 done delta=3\nadd key=a from=1 to=2 refused delta=4\nget key=a from=8 to=9 done final "
          "observed='7" },
        { "gone", BROKEN, "is gone", "add key=a from=1 to=2 done delta=2\nget key=a from=8 to=9 missed final" },
        { "not a number", BROKEN, "not a number",
          "add key=a from=1 to=2 done delta=2\nget key=a from=8 to=9 done final observed='two" },
        { "below what is sure", BROKEN, "at least",
          "add key=a from=1 to=2 done delta=3\nadd key=a from=1 unknown delta=-4\nget key=a from=8 to=9 done final "
          "observed='-2" },
        { "no final read", UNDECIDED, "final read", "add key=a from=1 to=2 done delta=2" },
    };
    TRY(htc_history_counted, rows);
}

#define WATCHED "watch process=9 key=a from=1 to=2 done\n"
#define CHANGES                                                                                                        \
    "put key=a from=3 to=4 done version=1 value='x\nput key=a from=5 to=6 done version=2 value='y\n"                   \
    "delete key=a from=7 to=8 done version=3\nput key=b from=90 to=99 done version=1\n"

Test(history_rules, watched)
{
    static const row rows[] = {
        { "each", HOLDS, NULL,
          WATCHED CHANGES
          "event process=9 key=a from=5 to=5 done version=1 observed='x\nevent process=9 key=a from=9 to=9 done "
          "version=2 observed='y\nevent process=9 key=a from=10 to=10 done version=3 observed=nothing" },
        { "merged into the last", HOLDS, NULL,
          WATCHED CHANGES "event process=9 key=a from=10 to=10 done version=3 observed=nothing" },
        { "held before", HOLDS, NULL, "watch process=9 key=a from=9 to=10 done version=3\n" CHANGES },
        { "told to start over after the deletion", HOLDS, NULL,
          WATCHED CHANGES "restart process=9 key=a from=20 to=20 done" },
        { "told that nothing else is there after the deletion", HOLDS, NULL, WATCHED CHANGES "current process=9 key=a from=20 to=20 done" },
        { "told so before the deletion", BROKEN, "never sent", WATCHED CHANGES "current process=9 key=a from=6 to=6 done" },
        { "told so, and it is there", BROKEN, "never sent",
          WATCHED "put key=a from=3 to=4 done version=1 value='x\ncurrent process=9 key=a from=20 to=20 done\nget key=a from=95 to=96 refused" },
        { "began anew, and versions again", HOLDS, NULL,
          WATCHED "put key=a from=3 to=4 done version=1 value='x\nevent process=9 key=a from=5 to=5 done version=1 "
                  "observed='x\n"
                  "restart process=9 key=a from=20 to=20 done\nevent process=9 key=a from=21 to=21 done version=1 "
                  "observed='x" },
        { "ended before", HOLDS, NULL, WATCHED "unwatch process=9 key=a from=3 to=3 done\n" CHANGES },
        { "too late to be sent", HOLDS, NULL,
          WATCHED "put key=a from=3 to=4 done version=1 value='x\nget key=a from=5 to=6 refused" },
        { "an unknown change was sent", HOLDS, NULL,
          WATCHED "put key=a from=3 unknown value='x\nevent process=9 key=a from=5 to=5 done version=1 observed='x" },
        { "a deletion of unknown outcome before all was told", HOLDS, NULL,
          WATCHED "put key=a from=3 to=4 done version=1 value='x\ndelete key=a from=5 unknown\n"
                  "current process=9 key=a from=20 to=20 done\nget key=a from=95 to=96 refused" },
        { "a deletion of unknown outcome behind that", BROKEN, "never sent",
          WATCHED "put key=a from=3 to=4 done version=1 value='x\ncurrent process=9 key=a from=20 to=20 done\n"
                  "delete key=a from=21 unknown\nget key=a from=95 to=96 refused" },
        { "a deletion of unknown outcome, and what was told goes back", BROKEN, "never sent",
          WATCHED "put key=a from=3 to=4 done version=1 value='x\nevent process=9 key=a from=5 to=5 done version=1 observed='x\n"
                  "put key=a from=6 to=7 done version=2 value='y\ndelete key=a from=8 unknown\nget key=a from=95 to=96 refused" },
        { "never sent", BROKEN, "never sent", WATCHED CHANGES },
        { "the deletion never sent", BROKEN, "never sent",
          WATCHED CHANGES "event process=9 key=a from=9 to=9 done version=2 observed='y" },
        { "never sent after starting over", BROKEN, "never sent",
          WATCHED "restart process=9 key=a from=3 to=3 done\nput key=a from=3 to=4 done version=1 value='x\nget key=a "
                  "from=95 to=96 refused" },
        { "one before is sent later", BROKEN, "not above",
          WATCHED CHANGES
          "event process=9 key=a from=9 to=9 done version=2 observed='y\nevent process=9 key=a from=10 to=10 done "
          "version=1 observed='x" },
        { "twice", BROKEN, "not above",
          WATCHED CHANGES
          "event process=9 key=a from=9 to=9 done version=2 observed='y\nevent process=9 key=a from=10 to=10 done "
          "version=2 observed='y" },
        { "what it held is sent", BROKEN, "not above",
          "watch process=9 key=a from=1 to=2 done version=1\n" CHANGES
          "event process=9 key=a from=9 to=9 done version=1 observed='x" },
        { "not what it is", BROKEN, "something else",
          WATCHED CHANGES "event process=9 key=a from=9 to=9 done version=2 observed='z" },
        { "nobody wrote it", BROKEN, "no change wrote",
          WATCHED CHANGES "event process=9 key=a from=9 to=9 done version=9 observed='z" },
        { "before it was asked for", BROKEN, "before it was asked",
          WATCHED CHANGES "event process=9 key=a from=3 to=3 done version=2 observed='y" },
        { "one watcher is not another", BROKEN, "never sent",
          WATCHED "watch process=8 key=a from=1 to=2 done\n" CHANGES
                  "event process=8 key=a from=10 to=10 done version=3 "
                  "observed=nothing" },
    };
    TRY(htc_history_watched, rows);
}

#define GRANTED "grant key=l from=1000 to=1010 done expected=1000\n"

Test(history_rules, leased)
{
    static const row rows[] = {
        { "gone in time", HOLDS, NULL,
          GRANTED "look key=l from=1500 to=1501 done\nlook key=l from=2008 to=2009 missed" },
        { "renewed", HOLDS, NULL, GRANTED "renew key=l from=1900 to=1950 done\nlook key=l from=2700 to=2701 done" },
        { "the last moment with a take-over", HOLDS, NULL, GRANTED "look key=l from=2510 to=2511 done" },
        { "a renewal of unknown outcome may have counted", HOLDS, NULL,
          GRANTED "renew key=l from=1900 to=2400 unknown\nlook key=l from=3000 to=3001 done" },
        { "and may not", HOLDS, NULL,
          GRANTED "renew key=l from=1900 to=2400 unknown\nlook key=l from=2100 to=2101 missed" },
        { "revoked", HOLDS, NULL, GRANTED "revoke key=l from=1100 to=1101 done\nlook key=l from=1102 to=1103 missed" },
        { "a revocation nobody heard of", HOLDS, NULL,
          GRANTED "revoke key=l from=1100 unknown\nlook key=l from=1102 to=1103 missed" },
        { "no majority for a while", HOLDS, NULL,
          GRANTED "down key=l from=1500 to=9000 done\nlook key=l from=10400 to=10401 done" },
        { "gone early", BROKEN, "ended early", GRANTED "look key=l from=1900 to=1998 missed" },
        { "gone early after a renewal", BROKEN, "ended early",
          GRANTED "renew key=l from=1900 to=1950 done\nrenew key=l from=2800 to=2801 missed" },
        { "gone before the revocation was asked for", BROKEN, "ended early",
          GRANTED "look key=l from=1100 to=1101 missed\nrevoke key=l from=1102 to=1103 missed" },
        { "renewed, though it was found gone", BROKEN, "ended early",
          GRANTED "renew key=l from=1900 to=2600 done\nlook key=l from=2100 to=2101 missed" },
        { "lives on", BROKEN, "outlived", GRANTED "look key=l from=2511 to=2512 done" },
        { "renewed when it was over", BROKEN, "outlived", GRANTED "renew key=l from=9000 to=9001 done" },
        { "lives on after there was a majority again", BROKEN, "outlived",
          GRANTED "down key=l from=1500 to=9000 done\nlook key=l from=10501 to=10502 done" },
        { "a time without majority that came too late", BROKEN, "outlived",
          GRANTED "down key=l from=2600 to=9000 done\nlook key=l from=9500 to=9501 done" },
        { "comes back", BROKEN, "came back",
          GRANTED "look key=l from=2100 to=2101 missed\nlook key=l from=2102 to=2103 done" },
        { "comes back after its revocation", BROKEN, "came back",
          GRANTED "revoke key=l from=1100 to=1101 done\nrenew key=l from=1200 to=1201 done" },
        { "no grant", UNDECIDED, "grant", "look key=l from=1 to=2 done" },
    };
    TRY(htc_history_leased, rows);
}

#define X             "write process=1 key=e from=1 to=2 done value='x expected=1 version=1\n"
#define Y             "write process=2 key=e from=3 to=4 done value='y expected=2 version=1 clock=1:1\n" /* saw x */
#define Z             "write process=3 key=e from=3 to=4 done value='z expected=3 version=1\n" /* saw nothing */
#define HOLDS_X(copy) "sibling process=" copy " key=e from=9 to=9 done final observed='x expected=1 version=1\n"
#define HOLDS_Y(copy)                                                                                                  \
    "sibling process=" copy " key=e from=9 to=9 done final observed='y expected=2 version=1 clock=1:1\n"
#define HOLDS_Z(copy) "sibling process=" copy " key=e from=9 to=9 done final observed='z expected=3 version=1\n"

Test(history_rules, converged)
{
    static const row rows[] = {
        { "one value", HOLDS, NULL, X HOLDS_X("7") HOLDS_X("8") },
        { "overwritten by one that saw it", HOLDS, NULL, X Y HOLDS_Y("7") HOLDS_Y("8") },
        { "siblings", HOLDS, NULL, X Z HOLDS_X("7") HOLDS_Z("7") HOLDS_Z("8") HOLDS_X("8") },
        { "an unknown write was made", HOLDS, NULL,
          "write process=1 key=e from=1 unknown value='x\n" HOLDS_X("7") HOLDS_X("8") },
        { "an unknown write overwrote", HOLDS, NULL,
          X "write process=2 key=e from=3 unknown value='y clock=1:1\n" HOLDS_Y("7") HOLDS_Y("8") },
        { "copies that differ", BROKEN, "did not converge", X Z HOLDS_X("7") HOLDS_Z("7") HOLDS_X("8") },
        { "a copy with nothing", BROKEN, "did not converge",
          X HOLDS_X("7") "sibling process=8 key=e from=9 to=9 missed final\n" },
        { "one dot, two values", BROKEN, "did not converge",
          X HOLDS_X("7") "sibling process=8 key=e from=9 to=9 done final observed='q expected=1 version=1\n" },
        { "dropped", BROKEN, "was dropped", X Z HOLDS_X("7") HOLDS_X("8") },
        { "all dropped", BROKEN, "was dropped", X "sibling process=8 key=e from=9 to=9 missed final\n" },
        { "replaced by one that had not seen it", BROKEN, "had not seen it",
          X "write process=2 key=e from=3 to=4 done value='y expected=2 version=1\n" HOLDS_Y("7") HOLDS_Y("8") },
        { "nobody wrote it", BROKEN, "nobody wrote", X HOLDS_X("7") HOLDS_Z("7") },
        { "not what was written", BROKEN, "another value",
          X "sibling process=8 key=e from=9 to=9 done final observed='q expected=1 version=1\n" },
        { "one dot for two writes", BROKEN, "one dot", X X HOLDS_X("7") },
        { "no final state", UNDECIDED, "final state", X },
    };
    TRY(htc_history_converged, rows);
}
