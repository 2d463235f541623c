/* Watches are of state: what lies between may be merged, the last state may not be missing, and nothing goes back. */
#include "sim/history/history_private.h"

#include "core/util.h"

/* The changes of a key that were acknowledged, twice: by version, and by the time of their answer with the highest version up to
 * then. Then what watchers saw, watcher by watcher, in time. */
typedef struct work {
    const history_key *k;
    history_rank      *versions, *answers, *seen, *scratch;
    size_t             changes, seen_n;
    int                unknown;
    htc_ns             may_be_gone; /* when the first deletion whose outcome nobody knows was asked for; HTC_NEVER */
} work;

typedef struct watcher {
    int      watching, began_anew;
    uint64_t last;  /* the version it has; 0: none */
    uint32_t event; /* which brought it, or the watch */
    htc_ns   since; /* began, or began anew */
} watcher;

static const htc_history_op *op_of(const work *w, uint32_t op)
{
    return &w->k->h->ops[op];
}

static htc_ns moment_of(const htc_history_op *o)
{
    return o->kind == HTC_HISTORY_UNWATCH ? o->invoked : o->returned;
}

static int is_of_a_watch(const htc_history_op *o)
{
    return (o->kind >= HTC_HISTORY_WATCH && o->kind <= HTC_HISTORY_UNWATCH) || o->kind == HTC_HISTORY_CURRENT;
}

static void gather(work *w)
{
    for (size_t i = 0; i < w->k->n; i++) {
        uint32_t              index = w->k->ops[i];
        const htc_history_op *o = op_of(w, index);
        if (htc__history_is_made(o) && o->version) {
            w->versions[w->changes] = (history_rank){ o->version, 0, index };
            w->answers[w->changes++] = (history_rank){ o->returned, 0, index };
        } else if (htc__history_is_change(o) && o->outcome <= HTC_HISTORY_DONE) {
            w->unknown = 1;
            if (o->kind == HTC_HISTORY_DELETE && o->invoked < w->may_be_gone)
                w->may_be_gone = o->invoked;
        } else if (is_of_a_watch(o) && o->outcome == HTC_HISTORY_DONE)
            w->seen[w->seen_n++] = (history_rank){ o->process, moment_of(o), index };
    }
    htc__history_sort(w->versions, w->scratch, w->changes);
    htc__history_sort(w->answers, w->scratch, w->changes);
    htc__history_sort(w->seen, w->scratch, w->seen_n);
    for (size_t i = 1; i < w->changes; i++)
        if (op_of(w, w->answers[i - 1].op)->version > op_of(w, w->answers[i].op)->version)
            w->answers[i].op = w->answers[i - 1].op;
    w->k->v->checked += w->changes + w->seen_n;
}

/* How many of the sorted lie at or below x. */
static size_t up_to(const history_rank *sorted, size_t n, uint64_t x)
{
    size_t low = 0, high = n;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (sorted[middle].major <= x)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static int broken(work *w, const char *what, uint32_t a, uint32_t b)
{
    htc__history_say(w->k->h, w->k->v, HTC_HISTORY_BROKEN, w->k->key, "%s", what);
    htc__history_tell(w->k->h, w->k->v, a);
    if (b != UINT32_MAX)
        htc__history_tell(w->k->h, w->k->v, b);
    return 0;
}

static int is_true(work *w, uint32_t event)
{
    const htc_history_op *o = op_of(w, event);
    size_t                at = up_to(w->versions, w->changes, o->version);
    if (at == 0 || w->versions[at - 1].major != o->version)
        return w->unknown || htc__history_absent(o->observed) ||
               broken(w, "a watcher was sent a version that no change wrote", event, UINT32_MAX);
    uint32_t              change = w->versions[at - 1].op;
    const htc_history_op *c = op_of(w, change);
    htc_history_value     told = htc__history_told(c);
    if (o->returned < c->invoked)
        return broken(w, "a watcher was sent a change before it was asked for", event, change);
    if (told.length != HTC_HISTORY_UNSAID && o->observed.length != HTC_HISTORY_UNSAID &&
        !htc__history_same(told, o->observed))
        return broken(w, "a watcher was sent something else than what that version is", event, change);
    return 1;
}

static int sent(work *w, watcher *x, uint32_t event)
{
    const htc_history_op *o = op_of(w, event);
    if (!x->watching)
        return 1; /* it was on its way when the watch ended */
    if (o->version == 0 || o->version <= x->last)
        return broken(w, "a watcher was sent a version that is not above the one it had", event, x->event);
    x->last = o->version;
    x->event = event;
    return is_true(w, event);
}

/* The watch ends at `end`: what was answered long enough before was sent, or something later. A deletion need not be, to who began after it was asked
 * for: what is not told then is not there. */
static int ended(work *w, watcher *x, htc_ns end)
{
    htc_ns settle = w->k->rules->settle_ns;
    size_t at = end >= settle ? up_to(w->answers, w->changes, end - settle) : 0;
    if (!x->watching || at == 0)
        return 1;
    x->watching = 0;
    uint32_t              change = w->answers[at - 1].op;
    const htc_history_op *c = op_of(w, change);
    htc_ns                gone = c->kind == HTC_HISTORY_DELETE && c->invoked < w->may_be_gone ? c->invoked : w->may_be_gone;
    if (c->version <= x->last || (x->last == 0 && gone <= x->since))
        return 1;
    return broken(w, "a watcher was never sent the last change, nor a later one", change, x->event);
}

static int begun(work *w, watcher *x, uint32_t index)
{
    const htc_history_op *o = op_of(w, index);
    if (o->kind == HTC_HISTORY_WATCH && !ended(w, x, o->invoked))
        return 0;
    if (o->kind == HTC_HISTORY_RESTART && !x->watching)
        return 1;
    *x = (watcher){ 1, o->kind == HTC_HISTORY_RESTART, o->kind == HTC_HISTORY_WATCH ? o->version : 0, index,
                    o->returned };
    return 1;
}

static void follow(work *w)
{
    watcher x = { 0, 0, 0, UINT32_MAX, 0 };
    for (size_t i = 0; i < w->seen_n; i++) {
        uint32_t              index = w->seen[i].op;
        const htc_history_op *o = op_of(w, index);
        int                   good = 1;
        if (i > 0 && w->seen[i - 1].major != w->seen[i].major) {
            good = ended(w, &x, w->k->end);
            x.watching = 0;
        }
        if (!good)
            return;
        if (o->kind == HTC_HISTORY_EVENT)
            good = sent(w, &x, index);
        else if (o->kind == HTC_HISTORY_UNWATCH) {
            good = ended(w, &x, o->invoked);
            x.watching = 0;
        } else if (o->kind == HTC_HISTORY_CURRENT)
            x.since = o->returned > x.since ? o->returned : x.since; /* what it knows nothing of is not there */
        else
            good = begun(w, &x, index);
        if (!good)
            return;
    }
    ended(w, &x, w->k->end);
}

static int is_watched(const history_key *k)
{
    for (size_t i = 0; i < k->n; i++)
        if (k->h->ops[k->ops[i]].kind == HTC_HISTORY_WATCH)
            return 1;
    return 0;
}

static htc_status judge(const history_key *k)
{
    const htc_env *env = &k->h->env;
    size_t         bytes = (k->n + 1) * sizeof(history_rank);
    if (!is_watched(k))
        return HTC_OK;
    work w = { .k = k,
               .may_be_gone = HTC_NEVER,
               .versions = htc__alloc(env, bytes),
               .answers = htc__alloc(env, bytes),
               .seen = htc__alloc(env, bytes),
               .scratch = htc__alloc(env, bytes) };
    int  whole = w.versions && w.answers && w.seen && w.scratch;
    if (whole) {
        gather(&w);
        follow(&w);
    }
    htc__free(env, w.versions, w.versions ? bytes : 0);
    htc__free(env, w.answers, w.answers ? bytes : 0);
    htc__free(env, w.seen, w.seen ? bytes : 0);
    htc__free(env, w.scratch, w.scratch ? bytes : 0);
    return whole ? HTC_OK : HTC_ENOMEM;
}

htc_status htc_history_watched(const htc_history *h, const htc_history_rules *rules, htc_history_verdict *v)
{
    return htc__history_each_key(h, rules, v, judge);
}
