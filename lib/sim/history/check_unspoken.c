/* Values that nobody speaks of. Where nothing is appended or added, operations only ask whether the value is one that they name: what a get
 * found, what a compare-and-swap compares with or was shown. All other values do the same, so they are taken for one: an order fits with it if
 * and only if it fits with them, and changes that write them are interchangeable. */
#include "sim/history/history_private.h"

/* No fingerprint has this hash. */
static const htc_history_value some = { UINT64_MAX, 0, HTC_HISTORY_NO_NUMBER };

static size_t name(history_rank *named, size_t n, htc_history_value v)
{
    if (!htc__history_absent(v))
        named[n++] = (history_rank){ v.hash, v.length, 0 };
    return n;
}

static size_t all_named(const htc_history_op *ops, size_t n, history_rank *named)
{
    size_t found = 0;
    for (size_t i = 0; i < n; i++) {
        if (ops[i].observed.length != HTC_HISTORY_UNSAID)
            found = name(named, found, ops[i].observed);
        if (ops[i].kind == HTC_HISTORY_CAS_VALUE)
            found = name(named, found, ops[i].seen);
    }
    return found;
}

static int is_named(const history_rank *named, size_t n, htc_history_value v)
{
    size_t low = 0, high = n;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (named[middle].major < v.hash || (named[middle].major == v.hash && named[middle].minor < v.length))
            low = middle + 1;
        else
            high = middle;
    }
    return low < n && named[low].major == v.hash && named[low].minor == v.length;
}

static int makes_new_ones(const htc_history_op *o)
{
    return o->kind == HTC_HISTORY_APPEND || o->kind == HTC_HISTORY_ADD;
}

void htc__history_unspoken(htc_history_op *ops, size_t n, history_rank *named, history_rank *scratch)
{
    for (size_t i = 0; i < n; i++)
        if (makes_new_ones(&ops[i]) || htc__history_same(ops[i].observed, some) || htc__history_same(ops[i].seen, some))
            return;
    size_t found = all_named(ops, n, named);
    htc__history_sort(named, scratch, found);
    for (size_t i = 0; i < n; i++)
        if (ops[i].kind != HTC_HISTORY_DELETE && htc__history_is_change(&ops[i]) &&
            !htc__history_absent(ops[i].argument) && !is_named(named, found, ops[i].argument))
            ops[i].argument = some;
}
