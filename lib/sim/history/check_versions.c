/* Linearizability of each key by the versions that answers carry.
 *
 * Versions force the order of everything that was told one, so there is nothing to search: sort, look whether each change
 * follows from the one before, and whether that order agrees with time (if what is answered before another is asked never stands
 * behind it, the order is one that a single copy could have gone through). Operations of unknown outcome are taken in only where
 * something is missing. A rule that is broken whatever those did is final; where a choice was made and does not work out, the key
 * is searched instead. A "holds" is always a proof: the order was built and tried. */
#include "sim/history/history_private.h"

#include <string.h>

#include "core/util.h"

enum { FITS, BROKEN, OPEN };

typedef struct moment {
    htc_ns   at;
    uint32_t op;
} moment;

typedef struct work {
    const htc_history   *h;
    htc_history_verdict *v;
    uint32_t             key;
    size_t               cap;   /* the largest key's operations */
    history_rank        *ranks; /* what was told a version, in the order of versions */
    history_rank        *scratch;
    size_t               known;
    uint32_t            *unknown; /* changes that may have been made */
    uint8_t             *used;
    size_t               unknowns;
    uint32_t            *loose; /* found nothing, and were told no version */
    size_t               looses;
    uint32_t            *order; /* ranks with unknown ones between */
    uint8_t             *gone;  /* nothing was there behind it */
    size_t               ordered;
    moment              *soonest; /* the first answer among ranks from here on */
    int                  choices;
    int                  adds, appends, unversioned;
} work;

static const htc_history_op *op_of(const work *w, uint32_t op)
{
    return &w->h->ops[op];
}

static htc_ns answered(const htc_history_op *o)
{
    return o->outcome == HTC_HISTORY_UNKNOWN ? HTC_NEVER : o->returned;
}

static void close_work(work *w)
{
    const htc_env *env = &w->h->env;
    size_t         n = w->cap;
    htc__free(env, w->ranks, w->ranks ? n * sizeof *w->ranks : 0);
    htc__free(env, w->scratch, w->scratch ? n * sizeof *w->scratch : 0);
    htc__free(env, w->unknown, w->unknown ? n * sizeof *w->unknown : 0);
    htc__free(env, w->used, w->used ? n : 0);
    htc__free(env, w->loose, w->loose ? n * sizeof *w->loose : 0);
    htc__free(env, w->order, w->order ? n * sizeof *w->order : 0);
    htc__free(env, w->gone, w->gone ? n : 0);
    htc__free(env, w->soonest, w->soonest ? n * sizeof *w->soonest : 0);
}

static htc_status open_work(work *w, const htc_history *h, const history_groups *g, htc_history_verdict *v)
{
    *w = (work){ .h = h, .v = v };
    for (size_t k = 0; k < g->keys; k++)
        if (g->first[k + 1] - g->first[k] > w->cap)
            w->cap = g->first[k + 1] - g->first[k];
    w->cap++; /* one past the end is written, and nothing is too little to ask for */
    w->ranks = htc__alloc(&h->env, w->cap * sizeof *w->ranks);
    w->scratch = htc__alloc(&h->env, w->cap * sizeof *w->scratch);
    w->unknown = htc__alloc(&h->env, w->cap * sizeof *w->unknown);
    w->used = htc__alloc(&h->env, w->cap);
    w->loose = htc__alloc(&h->env, w->cap * sizeof *w->loose);
    w->order = htc__alloc(&h->env, w->cap * sizeof *w->order);
    w->gone = htc__alloc(&h->env, w->cap);
    w->soonest = htc__alloc(&h->env, w->cap * sizeof *w->soonest);
    if (w->ranks && w->scratch && w->unknown && w->used && w->loose && w->order && w->gone && w->soonest)
        return HTC_OK;
    close_work(w);
    return HTC_ENOMEM;
}

/* ---------------------------------------------------------------- what is known, in order */

static void take_in(work *w, uint32_t i)
{
    const htc_history_op *o = op_of(w, i);
    if (!htc__history_is_record(o) || o->outcome == HTC_HISTORY_REFUSED)
        return;
    if (o->outcome != HTC_HISTORY_MISSED && o->kind == HTC_HISTORY_ADD)
        w->adds++;
    if (o->outcome != HTC_HISTORY_MISSED && o->kind == HTC_HISTORY_APPEND)
        w->appends++;
    if (o->outcome == HTC_HISTORY_UNKNOWN) {
        if (htc__history_is_change(o))
            w->unknown[w->unknowns++] = i;
    } else if (o->version)
        w->ranks[w->known++] = (history_rank){ o->invoked, 0, i };
    else if (htc__history_finds_nothing(o) && (o->kind != HTC_HISTORY_CAS_VERSION || o->expected))
        w->loose[w->looses++] = i;
    else
        w->unversioned++;
}

/* By version, the writer first, then as they were asked. */
static void sort_known(work *w)
{
    htc__history_sort(w->ranks, w->scratch, w->known);
    for (size_t i = 0; i < w->known; i++) {
        const htc_history_op *o = op_of(w, w->ranks[i].op);
        w->ranks[i].major = o->version;
        w->ranks[i].minor = !htc__history_is_made(o);
    }
    htc__history_sort(w->ranks, w->scratch, w->known);
    w->soonest[w->known] = (moment){ HTC_NEVER, 0 };
    for (size_t i = w->known; i-- > 0;) {
        htc_ns at = answered(op_of(w, w->ranks[i].op));
        w->soonest[i] = at <= w->soonest[i + 1].at ? (moment){ at, w->ranks[i].op } : w->soonest[i + 1];
    }
}

/* ---------------------------------------------------------------- rules that no unknown outcome can mend */

static int tell(work *w, uint32_t a, uint32_t b)
{
    htc__history_tell(w->h, w->v, a);
    if (b != UINT32_MAX)
        htc__history_tell(w->h, w->v, b);
    return BROKEN;
}

static int one_change_a_version(work *w)
{
    for (size_t i = 1; i < w->known; i++)
        if (w->ranks[i].major == w->ranks[i - 1].major && w->ranks[i].minor == 0) {
            htc__history_say(w->h, w->v, HTC_HISTORY_BROKEN, w->key, "two changes were acknowledged with version %llu",
                             (unsigned long long)w->ranks[i].major);
            return tell(w, w->ranks[i - 1].op, w->ranks[i].op);
        }
    return FITS;
}

/* The order of versions against time: what was asked last among those before must not come after the first answer here. */
static int order_agrees_with_time(work *w)
{
    moment asked = { 0, UINT32_MAX };
    for (size_t i = 0; i < w->known; i++) {
        const htc_history_op *o = op_of(w, w->ranks[i].op);
        if (asked.op != UINT32_MAX && answered(o) < asked.at) {
            const htc_history_op *late = op_of(w, asked.op);
            if (late->version == o->version)
                htc__history_say(w->h, w->v, HTC_HISTORY_BROKEN, w->key,
                                 "version %llu was told before its change was even asked for",
                                 (unsigned long long)o->version);
            else
                htc__history_say(w->h, w->v, HTC_HISTORY_BROKEN, w->key,
                                 "time went back: version %llu was answered, and who asked afterwards got version %llu",
                                 (unsigned long long)o->version, (unsigned long long)late->version);
            return tell(w, w->ranks[i].op, asked.op);
        }
        if (asked.op == UINT32_MAX || o->invoked > asked.at)
            asked = (moment){ o->invoked, w->ranks[i].op };
    }
    return FITS;
}

static int one_value_a_version(work *w)
{
    size_t first = 0;
    for (size_t i = 0; i < w->known; i++) {
        htc_history_value a, b = htc__history_told(op_of(w, w->ranks[i].op));
        if (w->ranks[i].major != w->ranks[first].major ||
            htc__history_told(op_of(w, w->ranks[first].op)).length == HTC_HISTORY_UNSAID)
            first = i;
        a = htc__history_told(op_of(w, w->ranks[first].op));
        if (b.length == HTC_HISTORY_UNSAID || htc__history_same(a, b))
            continue;
        htc__history_say(w->h, w->v, HTC_HISTORY_BROKEN, w->key, "version %llu stands for two values",
                         (unsigned long long)w->ranks[i].major);
        return tell(w, w->ranks[first].op, w->ranks[i].op);
    }
    return FITS;
}

/* ---------------------------------------------------------------- each follows from the one before */

static void stand(work *w, uint32_t op, const history_state *s)
{
    w->gone[w->ordered] = (uint8_t)htc__history_absent(s->value);
    w->order[w->ordered++] = op;
}

static void say_unexplained(work *w, size_t i, uint32_t before)
{
    const htc_history_op *o = op_of(w, w->ranks[i].op);
    if (!htc__history_is_made(o) && (i == 0 || w->ranks[i - 1].major != w->ranks[i].major))
        htc__history_say(w->h, w->v, HTC_HISTORY_BROKEN, w->key,
                         "version %llu was seen, and no change wrote it; below it stood what is told second",
                         (unsigned long long)o->version);
    else
        htc__history_say(w->h, w->v, HTC_HISTORY_BROKEN, w->key,
                         "what was answered does not follow from what stood there before");
    tell(w, w->ranks[i].op, before);
}

/* Rank i does not follow from s: one change of unknown outcome between would explain it. It must have been asked for before the
 * first answer from here on. */
static int fill(work *w, size_t i, history_state *s, uint32_t before)
{
    const htc_history_op *o = op_of(w, w->ranks[i].op);
    size_t                best = SIZE_MAX, could = 0;
    history_state         middle = *s, end = *s;
    for (size_t u = 0; u < w->unknowns; u++) {
        const htc_history_op *change = op_of(w, w->unknown[u]);
        history_state         a = *s, b;
        if (w->used[u] || change->invoked > w->soonest[i].at)
            continue;
        could++;
        if (!htc__history_apply(&a, change))
            continue;
        b = a;
        if (!htc__history_apply(&b, o) || (best != SIZE_MAX && op_of(w, w->unknown[best])->invoked <= change->invoked))
            continue;
        best = u;
        middle = a;
        end = b;
    }
    if (best == SIZE_MAX) {
        if (could || w->choices)
            return OPEN;
        say_unexplained(w, i, before);
        return BROKEN;
    }
    w->choices++;
    w->used[best] = 1;
    stand(w, w->unknown[best], &middle);
    *s = end;
    return FITS;
}

static int each_follows(work *w)
{
    history_state s = htc__history_initial();
    uint32_t      before = UINT32_MAX;
    w->ordered = 0;
    for (size_t i = 0; i < w->known; i++) {
        history_state next = s;
        if (!htc__history_apply(&next, op_of(w, w->ranks[i].op))) {
            next = s;
            int found = fill(w, i, &next, before);
            if (found != FITS)
                return found;
        }
        s = next;
        stand(w, w->ranks[i].op, &s);
        if (w->ranks[i].minor == 0)
            before = w->ranks[i].op;
    }
    return FITS;
}

/* ---------------------------------------------------------------- those that found nothing */

/* Places in the order: place p is behind the p-th operation. One that found nothing may stand wherever nothing was there, behind
 * all that was answered before it was asked, before all that was asked after its answer. The earliest such place: two of them in
 * the order of time then stand in that order too. */
static void by_answer(work *w, history_rank *to)
{
    for (size_t p = 0; p < w->ordered; p++)
        to[p] = (history_rank){ answered(op_of(w, w->order[p])), 0, (uint32_t)p + 1 };
}

static void by_question(work *w, history_rank *to)
{
    for (size_t p = 0; p < w->ordered; p++)
        to[p] = (history_rank){ op_of(w, w->order[p])->invoked, 0, (uint32_t)p };
}

/* How many of the sorted lie below at. */
static size_t below(const history_rank *sorted, size_t n, htc_ns at, int or_equal)
{
    size_t low = 0, high = n;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (sorted[middle].major < at || (or_equal && sorted[middle].major == at))
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

typedef struct places {
    history_rank *answers, *questions, *scratch;
    uint32_t     *next_gone; /* the first place from here on where nothing is there */
} places;

static void fill_places(work *w, places *p)
{
    by_answer(w, p->answers);
    by_question(w, p->questions);
    htc__history_sort(p->answers, p->scratch, w->ordered);
    htc__history_sort(p->questions, p->scratch, w->ordered);
    for (size_t i = 1; i < w->ordered; i++) /* the last place of all answered by then */
        if (p->answers[i - 1].op > p->answers[i].op)
            p->answers[i].op = p->answers[i - 1].op;
    for (size_t i = w->ordered; i-- > 1;) /* the first place of all asked from then on */
        if (p->questions[i].op < p->questions[i - 1].op)
            p->questions[i - 1].op = p->questions[i].op;
    p->next_gone[w->ordered + 1] = UINT32_MAX;
    for (size_t i = w->ordered + 1; i-- > 0;)
        p->next_gone[i] = i == 0 || w->gone[i - 1] ? (uint32_t)i : p->next_gone[i + 1];
}

static int may_have_deleted(const work *w, const htc_history_op *o)
{
    for (size_t u = 0; u < w->unknowns; u++)
        if (!w->used[u] && op_of(w, w->unknown[u])->kind == HTC_HISTORY_DELETE &&
            op_of(w, w->unknown[u])->invoked <= o->returned)
            return 1;
    return 0;
}

static int place(work *w, const places *p, uint32_t loose)
{
    const htc_history_op *o = op_of(w, loose);
    size_t                done = below(p->answers, w->ordered, o->invoked, 0);
    size_t                asked = below(p->questions, w->ordered, o->returned, 1);
    uint32_t              from = done ? p->answers[done - 1].op : 0;
    uint32_t              to = asked < w->ordered ? p->questions[asked].op : (uint32_t)w->ordered;
    if (p->next_gone[from] <= to)
        return FITS;
    if (w->choices || may_have_deleted(w, o))
        return OPEN;
    htc__history_say(w->h, w->v, HTC_HISTORY_BROKEN, w->key, "nothing was found, while something was there");
    tell(w, loose, from ? w->order[from - 1] : UINT32_MAX);
    if (to < w->ordered)
        htc__history_tell(w->h, w->v, w->order[to]);
    return BROKEN;
}

static htc_status place_all(work *w, int *found)
{
    const htc_env *env = &w->h->env;
    size_t         n = w->ordered + 2;
    places         p = { htc__alloc(env, n * sizeof *p.answers), htc__alloc(env, n * sizeof *p.questions),
                         htc__alloc(env, n * sizeof *p.scratch), htc__alloc(env, n * sizeof *p.next_gone) };
    int            whole = p.answers && p.questions && p.scratch && p.next_gone;
    if (whole) {
        fill_places(w, &p);
        for (size_t i = 0; i < w->looses && *found == FITS; i++)
            *found = place(w, &p, w->loose[i]);
    }
    htc__free(env, p.answers, p.answers ? n * sizeof *p.answers : 0);
    htc__free(env, p.questions, p.questions ? n * sizeof *p.questions : 0);
    htc__free(env, p.scratch, p.scratch ? n * sizeof *p.scratch : 0);
    htc__free(env, p.next_gone, p.next_gone ? n * sizeof *p.next_gone : 0);
    return whole ? HTC_OK : HTC_ENOMEM;
}

/* ---------------------------------------------------------------- a key */

static void take_all_in(work *w, const history_groups *g, uint32_t key)
{
    w->key = key;
    w->known = w->unknowns = w->looses = w->ordered = 0;
    w->choices = w->adds = w->appends = w->unversioned = 0;
    for (size_t i = g->first[key]; i < g->first[key + 1]; i++)
        take_in(w, g->ops[i]);
    memset(w->used, 0, w->unknowns);
    sort_known(w);
    w->v->checked += w->known + w->looses + w->unknowns + (size_t)w->unversioned;
}

static htc_status judge(work *w, int *found)
{
    if ((*found = one_change_a_version(w)) != FITS || (*found = one_value_a_version(w)) != FITS ||
        (*found = order_agrees_with_time(w)) != FITS)
        return HTC_OK;
    if (w->unversioned) {
        *found = OPEN;
        return HTC_OK;
    }
    *found = each_follows(w);
    return *found == FITS && w->looses ? place_all(w, found) : HTC_OK;
}

static htc_status judge_key(work *w, const history_groups *g, uint32_t key, const htc_history_rules *rules)
{
    int found = FITS;
    take_all_in(w, g, key);
    if (w->adds && w->appends) {
        htc__history_say(w->h, w->v, HTC_HISTORY_UNDECIDED, key,
                         "it is added to and appended to: what number an append makes is not modelled");
        return HTC_OK;
    }
    htc_status status = judge(w, &found);
    if (status == HTC_OK && found == OPEN) {
        w->v->searched++;
        return htc__history_search_key(w->h, g->ops + g->first[key], g->first[key + 1] - g->first[key], key, rules,
                                       w->v);
    }
    return status;
}

/* What one key leaves undecided must not hide what is wrong with another. */
static htc_status judge_all(work *w, const history_groups *g, const htc_history_rules *rules, int versions_alone)
{
    htc_history_verdict undecided = { .answer = 0 };
    for (uint32_t key = 0; key < g->keys && w->v->answer != HTC_HISTORY_BROKEN; key++) {
        htc_status status = HTC_OK;
        if (versions_alone) {
            take_all_in(w, g, key);
            if (one_change_a_version(w) == FITS)
                order_agrees_with_time(w);
        } else
            status = judge_key(w, g, key, rules);
        if (status != HTC_OK)
            return status;
        if (w->v->answer == HTC_HISTORY_UNDECIDED && !undecided.answer)
            undecided = *w->v;
    }
    if (undecided.answer && w->v->answer != HTC_HISTORY_BROKEN) {
        undecided.checked = w->v->checked;
        undecided.searched = w->v->searched;
        undecided.work = w->v->work;
        *w->v = undecided;
    }
    return HTC_OK;
}

static htc_status check(const htc_history *h, const htc_history_rules *rules, htc_history_verdict *v,
                        int versions_alone)
{
    htc_history_rules r;
    history_groups    g;
    work              w;
    if (!h || !v)
        return HTC_EINVAL;
    htc__history_holds(v);
    htc_status status = htc__history_rules(rules, &r);
    if (status != HTC_OK || (status = htc__history_group(h, &g)) != HTC_OK)
        return status;
    status = open_work(&w, h, &g, v);
    if (status == HTC_OK) {
        status = judge_all(&w, &g, &r, versions_alone);
        close_work(&w);
    }
    htc__history_ungroup(&g);
    return status;
}

htc_status htc_history_linear(const htc_history *h, const htc_history_rules *rules, htc_history_verdict *v)
{
    return check(h, rules, v, 0);
}

htc_status htc_history_rising(const htc_history *h, const htc_history_rules *rules, htc_history_verdict *v)
{
    return check(h, rules, v, 1);
}
