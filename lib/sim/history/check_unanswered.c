/* Which changes of unknown outcome a search has to try, and where.
 *
 * Such a change has no answer: it may stand anywhere behind what was answered before it was asked, and it may be left out. So an order
 * that fits can be made smaller wherever one of these holds, and goes on fitting:
 *
 *   1. x of unknown outcome is followed by y, and y without x leaves what covers it: x is left out.
 *   2. x is followed by a known y, and y before x leaves what covers it: x is moved behind y.
 *   3. x1, x2, both unknown, x2 asked first, and x2 before x1 leaves what covers it: they change places.
 *   4. some unknown ones in a row end at what an earlier state of the row covers: those between are left out.
 *   5. of two that would do the same the later one is taken, and the first one later or never: they change places.
 *   6. x is the last: it is left out.
 *   7. a row of unknown ones ends at a known y, and y fits further ahead in the row. If it leaves what it writes, whatever was there, the rest
 *      of the row is left out; if it leaves what it found, as it was, it is moved there.
 *
 * Each makes fewer of them, or as many that stand later, or as many in the same places asked earlier: that ends. So if any order fits,
 * one does with which nothing of this can be done, and no other need be searched. There the unknown ones stand in rows, each in front of a known
 * operation that needs the last of the row, as each of them needs the one before.
 *
 * A state covers another if whatever can follow that can follow it: the values are the same, and so are the versions, or its own is not exact
 * and not higher. (Of what is not there no version is exact.) That is so kind by kind (check_model.c), what is left being covered in turn, and
 * thus for all the rest of an order:
 *
 *   get, and whatever missed: they compare the value. A version told fits one that is not exact and not above it, or the same one; behind it
 *     that version is exact in both. A compare-and-swap misses any version that is not exact, and all but one of those that are.
 *   put, delete, compare-and-swap: they ask nothing, whether something is there, for a value, or for a version as a get does; they leave what
 *     they write.
 *   append, add: they leave what they make of the value, and tell a length or a number of that.
 *   The version that all these leave is the one told, if it is above what was, or else one more than was, and not exact.
 *
 * What that comes to, kind by kind. A put, or a compare-and-swap: tried where its value is told next, or is appended or added to, or before what
 * tells no value but needs something to be there, another value or another version; never before a put. A deletion: before what found nothing, or
 * where something is put if missing, or begun anew by an append or add. An append, an add: where a length, number or value told next
 * counts it. One that nobody can have seen is tried for nobody. Of leases there is nothing to search: grants, renewals and revocations
 * are judged by the clock (check_lease.c), where one of unknown outcome excuses what it may have done. */
#include "sim/history/history_private.h"

#include <stdio.h>

int htc__history_covers(const history_state *t, const history_state *s)
{
    int exact = t->exact && !htc__history_absent(t->value);
    if (!htc__history_same(t->value, s->value) || t->value.number != s->value.number)
        return 0;
    return exact ? s->exact && s->version == t->version : t->version <= s->version;
}

/* a, then b, at s leave what covers end. */
static int as_good(const history_prefixes *p, history_state s, const htc_history_op *a, const htc_history_op *b,
                   const history_state *end)
{
    return htc__history_step(p, &s, a) && (!b || htc__history_step(p, &s, b)) && htc__history_covers(&s, end);
}

int htc__history_needed(const history_prefixes *p, const history_state *before, const htc_history_op *x,
                        const htc_history_op *y, const history_state *end)
{
    return !as_good(p, *before, y, NULL, end) && (y->outcome == HTC_HISTORY_UNKNOWN || !as_good(p, *before, y, x, end));
}

int htc__history_in_turn(const history_prefixes *p, const history_state *before, const htc_history_op *x1,
                         const htc_history_op *x2, const history_state *end)
{
    return !as_good(p, *before, x2, x1, end);
}

int htc__history_is_enough(const history_prefixes *p, const history_state *s, const htc_history_op *y)
{
    history_state end = *s;
    int           writes = htc__history_is_made(y) && y->kind != HTC_HISTORY_APPEND && y->kind != HTC_HISTORY_ADD;
    return htc__history_step(p, &end, y) && (writes || htc__history_covers(&end, s));
}

int htc__history_does_the_same(const htc_history_op *a, const htc_history_op *b)
{
    return a->kind == b->kind && a->delta == b->delta && a->expected == b->expected && a->number == b->number &&
           htc__history_same(a->argument, b->argument) && htc__history_same(a->seen, b->seen);
}

/* ---------------------------------------------------------------- how far a row can still get */

#define LONG (UINT64_C(1) << 32) /* a sum of shorter ones does not overflow */

static uint64_t common(uint64_t a, uint64_t b)
{
    while (b) {
        uint64_t rest = a % b;
        a = b;
        b = rest;
    }
    return a;
}

void htc__history_bound(history_bounds *b, const htc_history_op *o)
{
    int unknown = o->outcome == HTC_HISTORY_UNKNOWN;
    if (unknown && o->kind == HTC_HISTORY_APPEND)
        b->lengths_step = common(o->argument.length, b->lengths_step);
    if (unknown && o->kind == HTC_HISTORY_ADD)
        b->numbers_step = common((uint64_t)o->delta, b->numbers_step);
    int swaps = unknown && (o->kind == HTC_HISTORY_CAS_VERSION || o->kind == HTC_HISTORY_CAS_VALUE);
    b->lengths_fall |= swaps || (unknown && o->kind == HTC_HISTORY_ADD) ||
                       (htc__history_is_change(o) && o->argument.length > LONG && o->kind != HTC_HISTORY_DELETE);
    b->numbers_fall |=
        swaps || (unknown && (o->kind == HTC_HISTORY_APPEND || (o->kind == HTC_HISTORY_ADD && o->delta < 0)));
}

/* Of no use, and not wrong, where lengths or numbers fall. */
void htc__history_bound_leave(history_bounds *b, const htc_history_op *o)
{
    if (o->kind == HTC_HISTORY_APPEND)
        b->lengths_left += o->argument.length;
    if (o->kind == HTC_HISTORY_ADD)
        b->numbers_left += (uint64_t)o->delta;
}

void htc__history_bound_take(history_bounds *b, const htc_history_op *o)
{
    if (o->kind == HTC_HISTORY_APPEND)
        b->lengths_left -= o->argument.length;
    if (o->kind == HTC_HISTORY_ADD)
        b->numbers_left -= (uint64_t)o->delta;
}

/* What the target must find there, as far as its answer says that. */
static htc_history_value wanted(const htc_history_op *o)
{
    htc_history_value w = { 0, HTC_HISTORY_UNSAID, HTC_HISTORY_NO_NUMBER };
    if (o->outcome == HTC_HISTORY_MISSED || o->kind == HTC_HISTORY_GET)
        return o->observed.length < HTC_HISTORY_UNSAID ? o->observed : w;
    if (o->kind == HTC_HISTORY_CAS_VALUE)
        return o->seen;
    if (o->number == HTC_HISTORY_NO_NUMBER)
        return w;
    if (o->kind == HTC_HISTORY_APPEND && o->number >= 0 && (uint64_t)o->number >= o->argument.length)
        w.length = (uint64_t)o->number - o->argument.length;
    if (o->kind == HTC_HISTORY_ADD && __builtin_sub_overflow(o->number, o->delta, &w.number))
        w.number = HTC_HISTORY_NO_NUMBER;
    return w;
}

/* A file may say that a value is a number which it is not. */
static int is_number(htc_history_value v, int64_t number)
{
    char text[24];
    int  n = snprintf(text, sizeof text, "%lld", (long long)number);
    return v.length >= HTC_HISTORY_UNSAID || htc__history_same(v, htc_history_value_of((htc_bytes){ text, (size_t)n }));
}

/* Not a length alone. */
static int is_exact(const htc_history_op *o, htc_history_value w)
{
    return o->kind != HTC_HISTORY_APPEND && w.length < HTC_HISTORY_UNSAID;
}

/* It finds nothing there. */
static int wants_nothing(const htc_history_op *o)
{
    return o->outcome == HTC_HISTORY_MISSED ? htc__history_finds_nothing(o)
                                            : o->kind == HTC_HISTORY_CAS_VERSION && o->expected == 0;
}

static int cannot_come_to(uint64_t needed, uint64_t left, uint64_t step)
{
    return needed > left || (step && needed % step);
}

/* A length that v, of at most that, cannot grow to with what is left, or a value that does not begin so. */
static int is_out_of_reach(const history_bounds *b, htc_history_value v, const htc_history_op *target,
                           htc_history_value w)
{
    if (b->lengths_fall || w.length >= HTC_HISTORY_UNSAID)
        return 0;
    if (v.length > w.length || cannot_come_to(w.length - v.length, b->lengths_left, b->lengths_step))
        return 1;
    return is_exact(target, w) && !htc__history_may_become(b->prefixes, v, w);
}

static int counts_out_of_reach(const history_bounds *b, htc_history_value v, htc_history_value w)
{
    if (b->numbers_fall || v.number == HTC_HISTORY_NO_NUMBER || w.number == HTC_HISTORY_NO_NUMBER ||
        !is_number(w, w.number))
        return 0;
    return v.number > w.number ||
           cannot_come_to((uint64_t)w.number - (uint64_t)v.number, b->numbers_left, b->numbers_step);
}

/* Behind the first of a row a put has no place, nor a deletion: what comes to nothing is one deletion, and where no swap has a place
 * either, lengths and numbers only grow. */
int htc__history_may_reach(const history_bounds *b, const history_state *s, const htc_history_op *target)
{
    htc_history_value w = wanted(target), v = s->value;
    if (htc__history_absent(v))
        v = (htc_history_value){ 0, 0, 0 };
    else if (htc__history_same(v, w))
        return 1;
    else if (wants_nothing(target))
        return 0;
    return !is_out_of_reach(b, v, target, w) && !counts_out_of_reach(b, v, w);
}
