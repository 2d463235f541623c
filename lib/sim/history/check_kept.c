/* What stands there in the end: no acknowledged change lost, no addition lost or made twice. */
#include "sim/history/history_private.h"

__extension__ typedef __int128 wide;

/* The last of the final reads. */
static const htc_history_op *final_read(const history_key *k, uint32_t *index)
{
    const htc_history_op *found = NULL;
    for (size_t i = 0; i < k->n; i++) {
        const htc_history_op *o = &k->h->ops[k->ops[i]];
        if (o->kind != HTC_HISTORY_GET || !(o->flags & HTC_HISTORY_FINAL) ||
            (o->outcome != HTC_HISTORY_DONE && o->outcome != HTC_HISTORY_MISSED) ||
            (found && found->invoked > o->invoked))
            continue;
        found = o;
        *index = k->ops[i];
    }
    return found;
}

static void broken(const history_key *k, const char *what, uint32_t a, uint32_t b)
{
    htc__history_say(k->h, k->v, HTC_HISTORY_BROKEN, k->key, "%s", what);
    htc__history_tell(k->h, k->v, a);
    if (b != UINT32_MAX)
        htc__history_tell(k->h, k->v, b);
}

/* ---------------------------------------------------------------- changes */

typedef struct made {
    uint32_t top; /* the acknowledged change with the highest version; UINT32_MAX: none */
    int      unversioned, unknown, unknown_delete;
} made;

/* Those answered after the final read was asked may stand behind it, and do not count as lost. */
static made what_was_made(const history_key *k, const htc_history_op *last)
{
    made m = { UINT32_MAX, 0, 0, 0 };
    for (size_t i = 0; i < k->n; i++) {
        const htc_history_op *o = &k->h->ops[k->ops[i]];
        if (!htc__history_is_change(o))
            continue;
        k->v->checked++;
        if (o->outcome == HTC_HISTORY_UNKNOWN ||
            (o->outcome == HTC_HISTORY_DONE && last && o->returned > last->invoked)) {
            m.unknown = 1;
            m.unknown_delete |= o->kind == HTC_HISTORY_DELETE;
        } else if (o->outcome == HTC_HISTORY_DONE) {
            m.unversioned |= o->version == 0;
            if (m.top == UINT32_MAX || o->version > k->h->ops[m.top].version)
                m.top = k->ops[i];
        }
    }
    return m;
}

static void judge_value(const history_key *k, const made *m, const htc_history_op *top, const htc_history_op *last,
                        uint32_t read)
{
    htc_history_value told = htc__history_told(top);
    if (last->version < top->version)
        broken(k, "an acknowledged change is lost: the last read is older", m->top, read);
    else if (last->version > top->version) {
        if (!m->unknown)
            broken(k, "the last read is newer than every change that was asked for", read, m->top);
    } else if (htc__history_absent(told))
        broken(k, "an acknowledged deletion is lost: the key is there under its version", m->top, read);
    else if (told.length != HTC_HISTORY_UNSAID && last->observed.length != HTC_HISTORY_UNSAID &&
             !htc__history_same(told, last->observed))
        broken(k, "an acknowledged change is lost: its version holds something else", m->top, read);
}

static htc_status judge_kept(const history_key *k)
{
    uint32_t              read = 0;
    const htc_history_op *last = final_read(k, &read), *top;
    made                  m = what_was_made(k, last);
    if (m.top == UINT32_MAX)
        return HTC_OK;
    top = &k->h->ops[m.top];
    if (!last || m.unversioned || (last->outcome == HTC_HISTORY_DONE && last->version == 0)) {
        htc__history_say(k->h, k->v, HTC_HISTORY_UNDECIDED, k->key, "%s",
                         last ? "not all answers carry versions" : "changed, and without a final read");
        return HTC_OK;
    }
    if (last->outcome == HTC_HISTORY_DONE)
        judge_value(k, &m, top, last, read);
    else if (top->kind != HTC_HISTORY_DELETE && !m.unknown_delete)
        broken(k, "an acknowledged change is lost: the key is gone, and nobody deleted it", m.top, read);
    else if (last->version && last->version < top->version)
        broken(k, "an acknowledged change is lost: the last read is older", m.top, read);
    return HTC_OK;
}

htc_status htc_history_kept(const htc_history *h, const htc_history_rules *rules, htc_history_verdict *v)
{
    return htc__history_each_key(h, rules, v, judge_kept);
}

/* ---------------------------------------------------------------- additions */

typedef struct sums {
    wide     low, high; /* what the acknowledged ones, and those that may have been made, come to */
    uint64_t acknowledged;
    uint32_t some; /* an acknowledged one */
    int      others;
} sums;

static sums additions(const history_key *k, const htc_history_op *last)
{
    sums s = { 0, 0, 0, UINT32_MAX, 0 };
    for (size_t i = 0; i < k->n; i++) {
        const htc_history_op *o = &k->h->ops[k->ops[i]];
        if (!htc__history_is_change(o) || o->outcome == HTC_HISTORY_MISSED || o->outcome == HTC_HISTORY_REFUSED)
            continue;
        if (o->kind != HTC_HISTORY_ADD) {
            s.others = 1;
            continue;
        }
        k->v->checked++;
        int sure = o->outcome == HTC_HISTORY_DONE && (!last || o->returned <= last->invoked);
        if (sure || o->delta < 0)
            s.low += o->delta;
        if (sure || o->delta > 0)
            s.high += o->delta;
        if (sure) {
            s.acknowledged++;
            s.some = k->ops[i];
        }
    }
    return s;
}

static htc_status judge_counted(const history_key *k)
{
    uint32_t              read = 0;
    const htc_history_op *last = final_read(k, &read);
    sums                  s = additions(k, last);
    if (s.others || !s.acknowledged)
        return HTC_OK;
    if (!last) {
        htc__history_say(k->h, k->v, HTC_HISTORY_UNDECIDED, k->key, "a counter without a final read");
        return HTC_OK;
    }
    int64_t number = last->observed.number;
    if (last->outcome == HTC_HISTORY_MISSED)
        broken(k, "a counter with acknowledged additions is gone", s.some, read);
    else if (number == HTC_HISTORY_NO_NUMBER)
        broken(k, "a counter is not a number", read, UINT32_MAX);
    else if (number < s.low || number > s.high) {
        htc__history_say(
            k->h, k->v, HTC_HISTORY_BROKEN, k->key,
            "the counter stands at %lld; %llu acknowledged additions, and those of unknown outcome, come to "
            "%lld at least and %lld at most",
            (long long)number, (unsigned long long)s.acknowledged, (long long)s.low, (long long)s.high);
        htc__history_tell(k->h, k->v, read);
    }
    return HTC_OK;
}

htc_status htc_history_counted(const htc_history *h, const htc_history_rules *rules, htc_history_verdict *v)
{
    return htc__history_each_key(h, rules, v, judge_counted);
}
