/* Eventual namespaces: in the end all copies hold the same siblings, and what was acknowledged is among them or was replaced by
 * somebody who had seen it. */
#include "sim/history/history_private.h"

#include "core/util.h"

static const htc_history_op *op_of(const history_key *k, size_t i)
{
    return &k->h->ops[k->ops[i]];
}

static int is_final(const htc_history_op *o)
{
    return o->kind == HTC_HISTORY_SIBLING && (o->flags & HTC_HISTORY_FINAL) && o->outcome <= HTC_HISTORY_MISSED;
}

/* A copy that holds nothing says so with one that MISSED. */
static int is_value(const htc_history_op *o)
{
    return is_final(o) && o->outcome != HTC_HISTORY_MISSED;
}

static int same_dot(const htc_history_op *a, const htc_history_op *b)
{
    return a->expected == b->expected && a->version == b->version;
}

static int broken(const history_key *k, const char *what, size_t a, size_t b)
{
    htc__history_say(k->h, k->v, HTC_HISTORY_BROKEN, k->key, "%s", what);
    htc__history_tell(k->h, k->v, k->ops[a]);
    if (b != SIZE_MAX)
        htc__history_tell(k->h, k->v, k->ops[b]);
    return 0;
}

/* ---------------------------------------------------------------- copies agree */

static int holds(const history_key *k, uint64_t copy, const htc_history_op *sibling)
{
    for (size_t i = 0; i < k->n; i++) {
        const htc_history_op *o = op_of(k, i);
        if (is_value(o) && o->process == copy && same_dot(o, sibling) &&
            htc__history_same(o->observed, sibling->observed))
            return 1;
    }
    return 0;
}

/* What the copies hold, equal siblings together and of each the copies in order. Ranks name places among the operations of the key. */
typedef struct final_set {
    history_rank *ranks, *scratch;
    size_t        n, copies;
} final_set;

static size_t copies_of(const history_key *k, const history_rank *ranks, size_t n)
{
    size_t copies = n > 0;
    for (size_t i = 1; i < n; i++)
        copies += op_of(k, ranks[i].op)->process != op_of(k, ranks[i - 1].op)->process;
    return copies;
}

static void sort_finals(const history_key *k, final_set *f)
{
    for (size_t i = 0; i < k->n; i++)
        if (is_final(op_of(k, i)))
            f->ranks[f->n++] = (history_rank){ op_of(k, i)->process, 0, (uint32_t)i };
    htc__history_sort(f->ranks, f->scratch, f->n);
    f->copies = copies_of(k, f->ranks, f->n);
    size_t n = 0;
    for (size_t i = 0; i < f->n; i++) {
        const htc_history_op *o = op_of(k, f->ranks[i].op);
        if (is_value(o))
            f->ranks[n++] = (history_rank){ o->observed.length, htc__history_absent(o->observed) ? 0 : o->observed.hash,
                                            f->ranks[i].op };
    }
    f->n = n;
    htc__history_sort(f->ranks, f->scratch, n);
    for (size_t i = 0; i < n; i++) {
        f->ranks[i].major = op_of(k, f->ranks[i].op)->expected;
        f->ranks[i].minor = op_of(k, f->ranks[i].op)->version;
    }
    htc__history_sort(f->ranks, f->scratch, n);
}

static int same_sibling(const history_key *k, const final_set *f, size_t a, size_t b)
{
    const htc_history_op *one = op_of(k, f->ranks[a].op), *other = op_of(k, f->ranks[b].op);
    return same_dot(one, other) && htc__history_same(one->observed, other->observed);
}

/* The first of the key's operations that tells a sibling not all copies hold; SIZE_MAX: there is none. */
static size_t not_everywhere(const history_key *k, const final_set *f)
{
    size_t found = SIZE_MAX;
    for (size_t i = 0, end; i < f->n; i = end) {
        size_t first = SIZE_MAX;
        for (end = i; end < f->n && same_sibling(k, f, i, end); end++)
            first = f->ranks[end].op < first ? f->ranks[end].op : first;
        if (first < found && copies_of(k, f->ranks + i, end - i) < f->copies)
            found = first;
    }
    return found;
}

static void say_they_differ(const history_key *k, size_t i)
{
    size_t j = 0;
    while (!is_final(op_of(k, j)) || holds(k, op_of(k, j)->process, op_of(k, i)))
        j++;
    broken(k, "copies did not converge: what one holds the other does not", i, j);
}

static htc_status copies_agree(const history_key *k, size_t n, int *agree)
{
    const htc_env *env = &k->h->env;
    final_set      f = { htc__alloc(env, n * sizeof *f.ranks), htc__alloc(env, n * sizeof *f.scratch), 0, 0 };
    htc_status     status = f.ranks && f.scratch ? HTC_OK : HTC_ENOMEM;
    if (status == HTC_OK) {
        sort_finals(k, &f);
        size_t i = not_everywhere(k, &f);
        *agree = i == SIZE_MAX;
        if (!*agree)
            say_they_differ(k, i);
    }
    htc__free(env, f.ranks, f.ranks ? n * sizeof *f.ranks : 0);
    htc__free(env, f.scratch, f.scratch ? n * sizeof *f.scratch : 0);
    return status;
}

/* ---------------------------------------------------------------- nothing is made up */

static int was_written(const history_key *k, size_t i)
{
    const htc_history_op *s = op_of(k, i);
    int                   could = 0;
    for (size_t j = 0; j < k->n; j++) {
        const htc_history_op *w = op_of(k, j);
        if (w->kind != HTC_HISTORY_WRITE)
            continue;
        int same = htc__history_same(w->argument, s->observed);
        if (w->outcome == HTC_HISTORY_DONE && same_dot(w, s))
            return same || broken(k, "a copy holds another value under the dot of an acknowledged write", i, j);
        could |= w->outcome == HTC_HISTORY_UNKNOWN && same;
    }
    return could || broken(k, "a copy holds a value that nobody wrote", i, SIZE_MAX);
}

/* ---------------------------------------------------------------- nothing is dropped */

static int covers(const history_key *k, const htc_history_op *o, const htc_history_op *write)
{
    return htc__history_tick(k->h, o->clock, write->expected) >= write->version;
}

static int is_kept(const history_key *k, size_t i)
{
    const htc_history_op *write = op_of(k, i);
    size_t                covering = SIZE_MAX;
    int                   there = 0, seen = 0;
    for (size_t j = 0; j < k->n; j++) {
        const htc_history_op *o = op_of(k, j);
        if (is_value(o)) {
            there |= same_dot(o, write);
            if (covers(k, o, write))
                covering = j;
        }
        if (j == i || o->kind != HTC_HISTORY_WRITE || o->outcome > HTC_HISTORY_DONE)
            continue;
        if (o->outcome == HTC_HISTORY_DONE && same_dot(o, write))
            return broken(k, "two writes were acknowledged with one dot", i, j);
        seen |= covers(k, o, write);
    }
    if (there)
        return 1;
    if (covering == SIZE_MAX)
        return broken(k, "an acknowledged write was dropped: no copy holds it or covers it", i, SIZE_MAX);
    return seen || broken(k, "an acknowledged write was replaced by one whose writer had not seen it", i, covering);
}

static htc_status judge(const history_key *k)
{
    size_t writes = 0, finals = 0;
    int    agree = 0;
    for (size_t i = 0; i < k->n; i++) {
        writes += op_of(k, i)->kind == HTC_HISTORY_WRITE && op_of(k, i)->outcome == HTC_HISTORY_DONE;
        finals += is_final(op_of(k, i));
    }
    k->v->checked += writes + finals;
    if (writes && !finals)
        htc__history_say(k->h, k->v, HTC_HISTORY_UNDECIDED, k->key, "written, and without a final state");
    htc_status status = finals ? copies_agree(k, finals, &agree) : HTC_OK;
    if (status != HTC_OK || !agree)
        return status;
    for (size_t i = 0; i < k->n; i++) {
        const htc_history_op *o = op_of(k, i);
        if ((is_value(o) && !was_written(k, i)) ||
            (o->kind == HTC_HISTORY_WRITE && o->outcome == HTC_HISTORY_DONE && !is_kept(k, i)))
            return HTC_OK;
    }
    return HTC_OK;
}

htc_status htc_history_converged(const htc_history *h, const htc_history_rules *rules, htc_history_verdict *v)
{
    return htc__history_each_key(h, rules, v, judge);
}
