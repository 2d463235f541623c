/* Linearizability of one key by search: Wing and Gong, with Lowe's memory of places already visited.
 *
 * The operations whose answer is known stand in one list, question and answer each, in the order of time; one that may come
 * next is taken out, tried on the copy, and put back if nothing follows from it. An answer at the head of the list whose question
 * was not taken yet is the end of that road. Changes of unknown outcome stand aside: they are tried last, need never be taken,
 * and of those that would do the same only the one asked first is tried. A place is the set of operations taken and the state of
 * the copy; it is remembered as 128 bits of a hash of both (two places that share them all would be taken for one: with 10^9
 * places, once in 10^20 searches). */
#include "history_private.h"

#include <string.h>

#include "core/util.h"

#define NONE UINT32_MAX

/* Node 2i is the question of known[i], 2i + 1 its answer; `known * 2` is the head and end. */
typedef struct node {
    uint32_t before, after;
} node;

typedef struct fingerprint {
    uint64_t a, b;
} fingerprint;

typedef struct step {
    uint32_t      taken; /* a node, or with ASIDE an unknown one */
    history_state state; /* before it */
} step;

#define ASIDE UINT32_C(0x80000000)

typedef struct search {
    const htc_history *h;
    uint32_t          *known;
    uint32_t          *unknown; /* in the order they were asked */
    uint8_t           *used;
    size_t             n, unknowns, left;
    node              *nodes;
    history_rank      *ranks, *scratch;
    step              *steps;
    size_t             depth;
    fingerprint        place;
    fingerprint       *seen;
    size_t             seen_cap, seen_n, seen_max;
    size_t             cap;
    /* For the explanation: how far it got, and what could not be there. */
    size_t   deepest;
    uint32_t stuck, last;
} search;

static uint64_t mix(uint64_t x)
{
    x = (x ^ (x >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    x = (x ^ (x >> 27)) * UINT64_C(0x94d049bb133111eb);
    return x ^ (x >> 31);
}

static void toggle(search *s, uint32_t op)
{
    s->place.a ^= mix(op + UINT64_C(0x9e3779b97f4a7c15));
    s->place.b ^= mix(op + UINT64_C(0x3c6ef372fe94f82a) * 7);
}

static fingerprint place_with(const search *s, const history_state *state)
{
    uint64_t    x = mix(state->value.hash ^ mix(state->value.length)) ^ mix(state->version * 2 + state->exact + 17);
    fingerprint f = { mix(s->place.a + x), mix(s->place.b ^ mix(x + 1)) };
    if (!f.a && !f.b)
        f.a = 1;
    return f;
}

static const htc_history_op *op_of(const search *s, uint32_t op)
{
    return &s->h->ops[op];
}

/* ---------------------------------------------------------------- places visited */

static int room_for_a_place(search *s)
{
    size_t       cap = s->seen_cap ? s->seen_cap * 2 : 256;
    fingerprint *bigger;
    if ((s->seen_n + 1) * 4 <= s->seen_cap * 3)
        return 1;
    if (cap * sizeof *bigger > s->seen_max)
        return 0;
    bigger = htc__alloc(&s->h->env, cap * sizeof *bigger);
    if (!bigger)
        return -1;
    for (size_t i = 0; i < s->seen_cap; i++) {
        if (!s->seen[i].a && !s->seen[i].b)
            continue;
        size_t slot = s->seen[i].a & (cap - 1);
        while (bigger[slot].a || bigger[slot].b)
            slot = (slot + 1) & (cap - 1);
        bigger[slot] = s->seen[i];
    }
    htc__free(&s->h->env, s->seen, s->seen_cap * sizeof *s->seen);
    s->seen = bigger;
    s->seen_cap = cap;
    return 1;
}

/* 1: it is new; 0: it was visited. There is room. */
static int visit(search *s, fingerprint f)
{
    size_t slot = f.a & (s->seen_cap - 1);
    for (; s->seen[slot].a || s->seen[slot].b; slot = (slot + 1) & (s->seen_cap - 1))
        if (s->seen[slot].a == f.a && s->seen[slot].b == f.b)
            return 0;
    s->seen[slot] = f;
    s->seen_n++;
    return 1;
}

/* ---------------------------------------------------------------- the list */

static void unlink_node(search *s, uint32_t i)
{
    s->nodes[s->nodes[i].before].after = s->nodes[i].after;
    s->nodes[s->nodes[i].after].before = s->nodes[i].before;
}

static void link_node(search *s, uint32_t i)
{
    s->nodes[s->nodes[i].before].after = i;
    s->nodes[s->nodes[i].after].before = i;
}

static void close_search(search *s)
{
    const htc_env *env = &s->h->env;
    htc__free(env, s->known, s->known ? s->cap * sizeof *s->known : 0);
    htc__free(env, s->unknown, s->unknown ? s->cap * sizeof *s->unknown : 0);
    htc__free(env, s->used, s->used ? s->cap : 0);
    htc__free(env, s->nodes, s->nodes ? (2 * s->cap + 1) * sizeof *s->nodes : 0);
    htc__free(env, s->ranks, s->ranks ? 2 * s->cap * sizeof *s->ranks : 0);
    htc__free(env, s->scratch, s->scratch ? 2 * s->cap * sizeof *s->scratch : 0);
    htc__free(env, s->steps, s->steps ? s->cap * sizeof *s->steps : 0);
    htc__free(env, s->seen, s->seen_cap * sizeof *s->seen);
}

static htc_status open_search(search *s, const htc_history *h, size_t n, size_t bytes_max)
{
    *s = (search){ .h = h, .cap = n + 1, .seen_max = bytes_max, .stuck = NONE, .last = NONE };
    s->known = htc__alloc(&h->env, s->cap * sizeof *s->known);
    s->unknown = htc__alloc(&h->env, s->cap * sizeof *s->unknown);
    s->used = htc__alloc(&h->env, s->cap);
    s->nodes = htc__alloc(&h->env, (2 * s->cap + 1) * sizeof *s->nodes);
    s->ranks = htc__alloc(&h->env, 2 * s->cap * sizeof *s->ranks);
    s->scratch = htc__alloc(&h->env, 2 * s->cap * sizeof *s->scratch);
    s->steps = htc__alloc(&h->env, s->cap * sizeof *s->steps);
    if (s->known && s->unknown && s->used && s->nodes && s->ranks && s->scratch && s->steps)
        return HTC_OK;
    close_search(s);
    return HTC_ENOMEM;
}

static void sort_unknown(search *s)
{
    for (size_t u = 0; u < s->unknowns; u++)
        s->ranks[u] = (history_rank){ op_of(s, s->unknown[u])->invoked, 0, s->unknown[u] };
    htc__history_sort(s->ranks, s->scratch, s->unknowns);
    for (size_t u = 0; u < s->unknowns; u++)
        s->unknown[u] = s->ranks[u].op;
}

static void fill_search(search *s, const uint32_t *ops, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        const htc_history_op *o = op_of(s, ops[i]);
        if (!htc__history_is_record(o) || o->outcome == HTC_HISTORY_REFUSED)
            continue;
        if (o->outcome != HTC_HISTORY_UNKNOWN)
            s->known[s->n++] = ops[i];
        else if (htc__history_is_change(o))
            s->unknown[s->unknowns++] = ops[i];
    }
    s->left = s->n;
    sort_unknown(s);
    /* Asked at the very moment of an answer is not after it: questions first. */
    for (size_t i = 0; i < s->n; i++) {
        const htc_history_op *o = op_of(s, s->known[i]);
        s->ranks[2 * i] = (history_rank){ o->invoked, 0, (uint32_t)(2 * i) };
        s->ranks[2 * i + 1] = (history_rank){ o->returned, 1, (uint32_t)(2 * i + 1) };
    }
    htc__history_sort(s->ranks, s->scratch, 2 * s->n);
    uint32_t end = (uint32_t)(2 * s->n), last = end;
    for (size_t i = 0; i < 2 * s->n; i++) {
        s->nodes[last].after = s->ranks[i].op;
        s->nodes[s->ranks[i].op].before = last;
        last = s->ranks[i].op;
    }
    s->nodes[last].after = end;
    s->nodes[end].before = last;
}

/* ---------------------------------------------------------------- the search */

static void take(search *s, uint32_t what, const history_state *before)
{
    s->steps[s->depth++] = (step){ what, *before };
    if (what & ASIDE) {
        s->used[what & ~ASIDE] = 1;
        toggle(s, s->unknown[what & ~ASIDE]);
        return;
    }
    unlink_node(s, what);
    unlink_node(s, what + 1);
    toggle(s, s->known[what / 2]);
    s->left--;
}

static step take_back(search *s)
{
    step t = s->steps[--s->depth];
    if (t.taken & ASIDE) {
        s->used[t.taken & ~ASIDE] = 0;
        toggle(s, s->unknown[t.taken & ~ASIDE]);
        return t;
    }
    link_node(s, t.taken + 1);
    link_node(s, t.taken);
    toggle(s, s->known[t.taken / 2]);
    s->left++;
    return t;
}

static int same_change(const htc_history_op *a, const htc_history_op *b)
{
    return a->kind == b->kind && a->delta == b->delta && a->expected == b->expected &&
           htc__history_same(a->argument, b->argument) && htc__history_same(a->seen, b->seen);
}

/* One that does the same was asked before and is still there: what works with this one works with that. */
static int is_repeated(const search *s, uint32_t u)
{
    for (uint32_t i = 0; i < u; i++)
        if (!s->used[i] && same_change(op_of(s, s->unknown[i]), op_of(s, s->unknown[u])))
            return 1;
    return 0;
}

/* The next that may be taken from `from` on: a question before the first answer, then an unknown one asked before it. Taken on
 * success, 1; 0: there is none. */
static int forward(search *s, uint32_t from, history_state *state, uint64_t *work)
{
    uint32_t end = (uint32_t)(2 * s->n), first = s->nodes[end].after, u = 0;
    if (from & ASIDE)
        u = from & ~ASIDE;
    else {
        for (first = from; first != end && !(first & 1); first = s->nodes[first].after) {
            history_state next = *state;
            ++*work;
            if (!htc__history_apply(&next, op_of(s, s->known[first / 2])))
                continue;
            toggle(s, s->known[first / 2]);
            int fresh = visit(s, place_with(s, &next));
            toggle(s, s->known[first / 2]);
            if (!fresh)
                continue;
            take(s, first, state);
            *state = next;
            return 1;
        }
        first = s->nodes[end].after;
    }
    while (first != end && !(first & 1))
        first = s->nodes[first].after;
    htc_ns deadline = first == end ? HTC_NEVER : op_of(s, s->known[first / 2])->returned;
    for (; u < s->unknowns && op_of(s, s->unknown[u])->invoked <= deadline; u++) {
        history_state next = *state;
        if (s->used[u] || is_repeated(s, u))
            continue;
        ++*work;
        if (!htc__history_apply(&next, op_of(s, s->unknown[u])))
            continue;
        toggle(s, s->unknown[u]);
        int fresh = visit(s, place_with(s, &next));
        toggle(s, s->unknown[u]);
        if (!fresh)
            continue;
        take(s, u | ASIDE, state);
        *state = next;
        return 1;
    }
    if (first != end && (s->stuck == NONE || s->n - s->left > s->deepest)) {
        s->deepest = s->n - s->left;
        s->stuck = s->known[first / 2];
        s->last = s->depth == 0                          ? NONE
                  : s->steps[s->depth - 1].taken & ASIDE ? s->unknown[s->steps[s->depth - 1].taken & ~ASIDE]
                                                         : s->known[s->steps[s->depth - 1].taken / 2];
    }
    return 0;
}

/* 1: there is an order; 0: there is none; -1: not within the work allowed; -2: no memory. */
static int find_order(search *s, uint64_t work_max, uint64_t *work)
{
    history_state state = htc__history_initial();
    uint32_t      from = s->nodes[2 * s->n].after;
    while (s->left) {
        int room = room_for_a_place(s);
        if (room <= 0 || *work > work_max)
            return room < 0 ? -2 : -1;
        if (forward(s, from, &state, work)) {
            from = s->nodes[2 * s->n].after;
            continue;
        }
        if (s->depth == 0)
            return 0;
        step t = take_back(s);
        state = t.state;
        from = t.taken & ASIDE ? t.taken + 1 : s->nodes[t.taken].after;
    }
    return 1;
}

static void say_stuck(const search *s, uint32_t key, htc_history_verdict *v)
{
    htc__history_say(s->h, v, HTC_HISTORY_BROKEN, key,
                     "no order of its %zu operations fits; %zu go, then the first of these could stand nowhere", s->n,
                     s->deepest);
    htc__history_tell(s->h, v, s->stuck);
    if (s->last != NONE)
        htc__history_tell(s->h, v, s->last);
}

htc_status htc__history_search_key(const htc_history *h, const uint32_t *ops, size_t n, uint32_t key,
                                   const htc_history_rules *rules, htc_history_verdict *v)
{
    search     s;
    uint64_t   work = 0;
    htc_status status = open_search(&s, h, n, rules->bytes_max);
    if (status != HTC_OK)
        return status;
    fill_search(&s, ops, n);
    int found = find_order(&s, rules->search_max, &work);
    v->work += work;
    if (found == 0)
        say_stuck(&s, key, v);
    else if (found < 0)
        htc__history_say(h, v, HTC_HISTORY_UNDECIDED, key, "%llu steps of searching did not decide; allow more",
                         (unsigned long long)work);
    close_search(&s);
    return found == -2 ? HTC_ENOMEM : HTC_OK;
}

static int is_mixed(const htc_history *h, const uint32_t *ops, size_t n)
{
    int adds = 0, appends = 0;
    for (size_t i = 0; i < n; i++) {
        const htc_history_op *o = &h->ops[ops[i]];
        int                   counts = o->outcome == HTC_HISTORY_DONE || o->outcome == HTC_HISTORY_UNKNOWN;
        adds |= counts && o->kind == HTC_HISTORY_ADD;
        appends |= counts && o->kind == HTC_HISTORY_APPEND;
    }
    return adds && appends;
}

htc_status htc_history_search(const htc_history *h, uint32_t key, const htc_history_rules *rules,
                              htc_history_verdict *v)
{
    htc_history_rules r;
    history_groups    g;
    if (!h || !v || key >= h->keys_count)
        return HTC_EINVAL;
    htc__history_holds(v);
    htc_status status = htc__history_rules(rules, &r);
    if (status != HTC_OK || (status = htc__history_group(h, &g)) != HTC_OK)
        return status;
    const uint32_t *ops = g.ops + g.first[key];
    size_t          n = g.first[key + 1] - g.first[key];
    v->checked = n;
    v->searched = 1;
    if (is_mixed(h, ops, n))
        htc__history_say(h, v, HTC_HISTORY_UNDECIDED, key,
                         "it is added to and appended to: what number an append makes is not modelled");
    else
        status = htc__history_search_key(h, ops, n, key, &r, v);
    htc__history_ungroup(&g);
    return status;
}
