/* Leases against the clock: never gone too early, never there too late, never back. */
#include "sim/history/history_private.h"

#include "core/util.h"

/* Times without a majority. */
typedef struct downtimes {
    history_rank *from; /* by their beginning; minor: when the last of those up to here ended */
    size_t        n;
    htc_ns       *gaps; /* leaf `leaves + i`: how long after that the next one begins; gaps[i]: the longer of 2 i and 2 i + 1 */
    size_t        leaves;
} downtimes;

typedef struct work {
    const history_key *k;
    history_rank      *asked, *scratch; /* what concerns the lease, as it was asked */
    size_t             n;
    const downtimes   *downs;
} work;

/* A moment, and the operation that says so. */
typedef struct bound {
    htc_ns   at;
    uint32_t op;
} bound;

static const htc_history_op *op_of(const work *w, uint32_t op)
{
    return &w->k->h->ops[op];
}

static int is_lease(const htc_history_op *o)
{
    return o->kind >= HTC_HISTORY_GRANT && o->kind <= HTC_HISTORY_LOOK && o->outcome != HTC_HISTORY_REFUSED;
}

static int extends(const htc_history_op *o)
{
    return (o->kind == HTC_HISTORY_GRANT || o->kind == HTC_HISTORY_RENEW) && o->outcome <= HTC_HISTORY_DONE;
}

static htc_ns plus(htc_ns a, htc_ns b)
{
    return a > HTC_NEVER - b ? HTC_NEVER : a + b;
}

static void broken(const work *w, const char *what, uint32_t a, uint32_t b)
{
    htc__history_say(w->k->h, w->k->v, HTC_HISTORY_BROKEN, w->k->key, "%s", what);
    htc__history_tell(w->k->h, w->k->v, a);
    if (b != UINT32_MAX)
        htc__history_tell(w->k->h, w->k->v, b);
}

/* Who saw it gone, against the renewal that kept it longest. */
static int not_too_early(work *w, htc_ns ttl)
{
    bound kept = { 0, UINT32_MAX }, revoked = { HTC_NEVER, UINT32_MAX };
    for (size_t i = 0; i < w->n; i++) {
        uint32_t              op = w->asked[i].op;
        const htc_history_op *o = op_of(w, op);
        htc_ns                until = plus(o->invoked, ttl - ttl / 1000);
        if (extends(o) && o->outcome == HTC_HISTORY_DONE && (kept.op == UINT32_MAX || until > kept.at))
            kept = (bound){ until, op };
        if (o->kind == HTC_HISTORY_REVOKE && o->outcome <= HTC_HISTORY_DONE && o->invoked < revoked.at)
            revoked = (bound){ o->invoked, op };
    }
    for (size_t i = 0; i < w->n && kept.op != UINT32_MAX; i++) {
        const htc_history_op *o = op_of(w, w->asked[i].op);
        if (o->outcome != HTC_HISTORY_MISSED || o->returned >= kept.at || o->returned >= revoked.at)
            continue;
        broken(w,
               "a lease ended early: it was seen gone within 0.999 of its TTL after an acknowledged renewal was sent",
               w->asked[i].op, kept.op);
        return 0;
    }
    return 1;
}

/* The first from i on that a longer gap follows; one does. */
static size_t before_gap(const downtimes *d, size_t i, htc_ns span)
{
    size_t at = d->leaves + i;
    for (;; at++) {
        while (at % 2 == 0)
            at /= 2; /* all of it is from i on */
        if (d->gaps[at] > span)
            break;
    }
    while (at < d->leaves)
        at = d->gaps[2 * at] > span ? 2 * at : 2 * at + 1;
    return at - d->leaves;
}

/* Without a majority nothing can end, and what counts begins again after it. */
static htc_ns stretched(const downtimes *d, htc_ns until, htc_ns span)
{
    size_t begun = 0;
    for (size_t high = d->n; begun < high;) {
        size_t middle = begun + (high - begun) / 2;
        if (d->from[middle].major <= until)
            begun = middle + 1;
        else
            high = middle;
    }
    if (until == HTC_NEVER || begun == 0 || plus(d->from[begun - 1].minor, span) <= until)
        return until;
    return plus(d->from[before_gap(d, begun - 1, span)].minor, span);
}

static int not_too_late(work *w, htc_ns ttl)
{
    htc_ns span = plus(ttl, w->k->rules->takeover_ns);
    bound  until = { 0, UINT32_MAX };
    for (size_t i = 0; i < w->n; i++) {
        uint32_t              op = w->asked[i].op;
        const htc_history_op *o = op_of(w, op);
        int                   alive = o->outcome == HTC_HISTORY_DONE && o->kind != HTC_HISTORY_GRANT;
        if (alive && until.op != UINT32_MAX && o->invoked > until.at) {
            broken(w, "a lease outlived its TTL and a take-over after the last renewal that may have counted", op,
                   until.op);
            return 0;
        }
        if (!extends(o) || (until.op != UINT32_MAX && o->invoked > until.at))
            continue;
        htc_ns longer = stretched(w->downs, plus(o->returned, span), span);
        if (until.op == UINT32_MAX || longer > until.at)
            until = (bound){ longer, op };
    }
    return 1;
}

static int not_back(work *w)
{
    bound gone = { HTC_NEVER, UINT32_MAX };
    for (size_t i = 0; i < w->n; i++) {
        const htc_history_op *o = op_of(w, w->asked[i].op);
        int                   ends =
            o->outcome == HTC_HISTORY_MISSED || (o->kind == HTC_HISTORY_REVOKE && o->outcome == HTC_HISTORY_DONE);
        if (ends && o->returned < gone.at)
            gone = (bound){ o->returned, w->asked[i].op };
    }
    for (size_t i = 0; i < w->n; i++) {
        const htc_history_op *o = op_of(w, w->asked[i].op);
        if (o->outcome != HTC_HISTORY_DONE || o->invoked <= gone.at)
            continue;
        broken(w, "a lease came back after it was gone", w->asked[i].op, gone.op);
        return 0;
    }
    return 1;
}

static void judge_lease(work *w)
{
    htc_ns ttl = 0;
    for (size_t i = 0; i < w->k->n; i++) {
        const htc_history_op *o = op_of(w, w->k->ops[i]);
        if (!is_lease(o))
            continue;
        if (o->kind == HTC_HISTORY_GRANT && o->outcome <= HTC_HISTORY_DONE)
            ttl = o->expected;
        w->asked[w->n++] = (history_rank){ o->invoked, o->returned, w->k->ops[i] };
    }
    w->k->v->checked += w->n;
    if (w->n == 0)
        return;
    if (ttl == 0) {
        htc__history_say(w->k->h, w->k->v, HTC_HISTORY_UNDECIDED, w->k->key,
                         "a lease without a grant that tells its TTL");
        return;
    }
    htc__history_sort(w->asked, w->scratch, w->n);
    (void)(not_back(w) && not_too_early(w, ttl) && not_too_late(w, ttl));
}

static void fill_gaps(downtimes *d)
{
    for (size_t i = 0; i < d->leaves; i++) {
        htc_ns *gap = &d->gaps[d->leaves + i];
        if (i > 0 && i < d->n && d->from[i].minor < d->from[i - 1].minor)
            d->from[i].minor = d->from[i - 1].minor;
        if (i + 1 >= d->n)
            *gap = HTC_NEVER;
        else if (d->from[i + 1].major > d->from[i].minor)
            *gap = d->from[i + 1].major - d->from[i].minor;
        else
            *gap = 0;
    }
    for (size_t i = d->leaves; i-- > 1;)
        d->gaps[i] = d->gaps[2 * i] > d->gaps[2 * i + 1] ? d->gaps[2 * i] : d->gaps[2 * i + 1];
}

static void downtimes_free(const htc_env *env, downtimes *d)
{
    htc__free(env, d->from, d->from ? d->n * sizeof *d->from : 0);
    htc__free(env, d->gaps, d->gaps ? 2 * d->leaves * sizeof *d->gaps : 0);
}

/* scratch holds one for each operation. */
static htc_status gather_downs(const htc_history *h, history_rank *scratch, downtimes *d)
{
    *d = (downtimes){ .leaves = 1 };
    for (size_t i = 0; i < h->count; i++)
        d->n += h->ops[i].kind == HTC_HISTORY_DOWN;
    if (d->n == 0)
        return HTC_OK;
    while (d->leaves < d->n)
        d->leaves *= 2;
    d->from = htc__alloc(&h->env, d->n * sizeof *d->from);
    d->gaps = htc__alloc(&h->env, 2 * d->leaves * sizeof *d->gaps);
    if (!d->from || !d->gaps) {
        downtimes_free(&h->env, d);
        return HTC_ENOMEM;
    }
    for (size_t i = 0, n = 0; i < h->count; i++)
        if (h->ops[i].kind == HTC_HISTORY_DOWN)
            d->from[n++] = (history_rank){ h->ops[i].invoked, h->ops[i].returned, (uint32_t)i };
    htc__history_sort(d->from, scratch, d->n);
    fill_gaps(d);
    return HTC_OK;
}

htc_status htc_history_leased(const htc_history *h, const htc_history_rules *rules, htc_history_verdict *v)
{
    htc_history_rules   r;
    history_groups      g;
    downtimes           downs;
    htc_history_verdict undecided = { .answer = 0 };
    if (!h || !v)
        return HTC_EINVAL;
    htc__history_holds(v);
    htc_status status = htc__history_rules(rules, &r);
    if (status != HTC_OK || (status = htc__history_group(h, &g)) != HTC_OK)
        return status;
    size_t        bytes = (h->count + 1) * sizeof(history_rank);
    history_rank *asked = htc__alloc(&h->env, bytes), *scratch = htc__alloc(&h->env, bytes);
    status = asked && scratch ? gather_downs(h, scratch, &downs) : HTC_ENOMEM;
    int gathered = status == HTC_OK;
    for (uint32_t key = 0; key < g.keys && status == HTC_OK && v->answer != HTC_HISTORY_BROKEN; key++) {
        history_key k = { h, &r, v, g.ops + g.first[key], g.first[key + 1] - g.first[key], 0, key };
        work        w = { &k, asked, scratch, 0, &downs };
        judge_lease(&w);
        if (v->answer == HTC_HISTORY_UNDECIDED && !undecided.answer)
            undecided = *v;
    }
    if (undecided.answer && v->answer != HTC_HISTORY_BROKEN) {
        undecided.checked = v->checked;
        *v = undecided;
    }
    htc__free(&h->env, asked, asked ? bytes : 0);
    htc__free(&h->env, scratch, scratch ? bytes : 0);
    if (gathered)
        downtimes_free(&h->env, &downs);
    htc__history_ungroup(&g);
    return status;
}
