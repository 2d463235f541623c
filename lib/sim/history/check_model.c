/* One copy of a key, as every strong key has to look from outside: what an operation may find, and what it leaves. */
#include "sim/history/history_private.h"

#include <stdio.h>

#include "core/util.h"

static const htc_history_value absent = { 0, HTC_HISTORY_ABSENT, HTC_HISTORY_NO_NUMBER };

history_state htc__history_initial(void)
{
    return (history_state){ absent, 0, 1 };
}

int htc__history_is_change(const htc_history_op *op)
{
    return op->kind >= HTC_HISTORY_PUT && op->kind <= HTC_HISTORY_ADD;
}

int htc__history_is_record(const htc_history_op *op)
{
    return op->kind >= HTC_HISTORY_GET && op->kind <= HTC_HISTORY_ADD;
}

int htc__history_is_made(const htc_history_op *op)
{
    return htc__history_is_change(op) && op->outcome == HTC_HISTORY_DONE;
}

int htc__history_finds_nothing(const htc_history_op *op)
{
    return op->outcome == HTC_HISTORY_MISSED &&
           (op->kind == HTC_HISTORY_GET || op->kind == HTC_HISTORY_DELETE || htc__history_absent(op->observed));
}

htc_history_value htc__history_told(const htc_history_op *op)
{
    static const htc_history_value unsaid = { 0, HTC_HISTORY_UNSAID, HTC_HISTORY_NO_NUMBER };
    if (htc__history_finds_nothing(op) || op->kind == HTC_HISTORY_DELETE)
        return absent;
    if (op->outcome == HTC_HISTORY_MISSED || op->kind == HTC_HISTORY_GET)
        return op->observed;
    return op->kind == HTC_HISTORY_APPEND || op->kind == HTC_HISTORY_ADD ? unsaid : op->argument;
}

/* The version of what is there is told to be v. What is not there may have any version from that of its deletion on: floors
 * rise when tombstones are collected. */
static int has_version(history_state *s, uint64_t v)
{
    int fixed = s->exact && !htc__history_absent(s->value);
    if (v == 0)
        return 1;
    if (fixed ? v != s->version : v < s->version)
        return 0;
    s->version = v;
    s->exact = 1;
    return 1;
}

static int is_seen(history_state *s, uint64_t version, htc_history_value value)
{
    return (value.length == HTC_HISTORY_UNSAID || htc__history_same(s->value, value)) && has_version(s, version);
}

static int becomes(history_state *s, const htc_history_op *op, htc_history_value value)
{
    s->value = value;
    if (op->outcome == HTC_HISTORY_DONE && op->version) {
        if (op->version <= s->version)
            return 0;
        s->version = op->version;
        s->exact = 1;
    } else {
        s->version++;
        s->exact = 0;
    }
    return 1;
}

static int add(history_state *s, const htc_history_op *op)
{
    char    text[24];
    int64_t old = htc__history_absent(s->value) ? 0 : s->value.number, sum;
    if (old == HTC_HISTORY_NO_NUMBER || __builtin_add_overflow(old, op->delta, &sum) ||
        (op->number != HTC_HISTORY_NO_NUMBER && op->number != sum))
        return 0;
    int n = snprintf(text, sizeof text, "%lld", (long long)sum);
    return becomes(s, op, htc_history_value_of((htc_bytes){ text, (size_t)n }));
}

static int append(history_state *s, const htc_history_op *op)
{
    htc_history_value value = htc_history_value_join(s->value, op->argument);
    return (op->number == HTC_HISTORY_NO_NUMBER || (uint64_t)op->number == value.length) && becomes(s, op, value);
}

/* It found what it was to find. */
static int done(history_state *s, const htc_history_op *op)
{
    int here = !htc__history_absent(s->value);
    switch (op->kind) {
    case HTC_HISTORY_GET:
        return here && is_seen(s, op->version, op->observed);
    case HTC_HISTORY_PUT:
        return becomes(s, op, op->argument);
    case HTC_HISTORY_DELETE:
        return here && becomes(s, op, absent);
    case HTC_HISTORY_APPEND:
        return append(s, op);
    case HTC_HISTORY_CAS_VERSION:
        return (op->expected ? here && has_version(s, op->expected) : !here) && becomes(s, op, op->argument);
    case HTC_HISTORY_CAS_VALUE:
        return here && htc__history_same(s->value, op->seen) && becomes(s, op, op->argument);
    case HTC_HISTORY_ADD:
        return add(s, op);
    default:
        return 0;
    }
}

/* It did not. */
static int missed(history_state *s, const htc_history_op *op)
{
    int here = !htc__history_absent(s->value);
    if (!is_seen(s, op->version, op->observed))
        return 0;
    switch (op->kind) {
    case HTC_HISTORY_GET:
    case HTC_HISTORY_DELETE:
        return !here;
    case HTC_HISTORY_CAS_VERSION:
        return here ? !s->exact || s->version != op->expected : op->expected != 0;
    case HTC_HISTORY_CAS_VALUE:
        return !here || !htc__history_same(s->value, op->seen);
    default:
        return 0;
    }
}

uint64_t htc__history_limit(const htc_history_op *op)
{
    uint64_t limit = op->version ? op->version - (uint64_t)htc__history_is_made(op) : UINT64_MAX;
    int      expects = op->kind == HTC_HISTORY_CAS_VERSION && op->outcome == HTC_HISTORY_DONE && op->expected;
    return expects && op->expected < limit ? op->expected : limit;
}

int htc__history_apply(history_state *s, const htc_history_op *op)
{
    switch (op->outcome) {
    case HTC_HISTORY_DONE:
        return done(s, op);
    case HTC_HISTORY_MISSED:
        return missed(s, op);
    case HTC_HISTORY_UNKNOWN:
        return htc__history_is_change(op) && done(s, op);
    default:
        return 0;
    }
}
