/* The operations of a key, as a search for their order takes them. */
#include "sim/history/check_search.h"

#include "core/util.h"

static uint64_t mix(uint64_t x)
{
    x = (x ^ (x >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    x = (x ^ (x >> 27)) * UINT64_C(0x94d049bb133111eb);
    return x ^ (x >> 31);
}

static void toggle(search *s, uint32_t op)
{
    s->a ^= mix(op + UINT64_C(0x9e3779b97f4a7c15));
    s->b ^= mix(op + UINT64_C(0x3c6ef372fe94f82a) * 7);
}

/* The version of what is not there is never exact. */
history_fingerprint htc__search_place(const search *s, const history_state *state)
{
    uint64_t exact = state->exact && !htc__history_absent(state->value);
    uint64_t x = mix(state->value.hash ^ mix(state->value.length)) ^ mix(state->version * 2 + exact + 17);
    return (history_fingerprint){ mix(s->a + x), mix(s->b ^ mix(x + 1)) };
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

void htc__search_close(search *s)
{
    const htc_env *env = &s->h->env;
    htc__free(env, s->op, s->op ? s->cap * sizeof *s->op : 0);
    htc__free(env, s->told, s->told ? s->cap * sizeof *s->told : 0);
    htc__free(env, s->known, s->known ? s->cap * sizeof *s->known : 0);
    htc__free(env, s->unknown, s->unknown ? s->cap * sizeof *s->unknown : 0);
    htc__free(env, s->twin, s->twin ? s->cap * sizeof *s->twin : 0);
    htc__free(env, s->used, s->used ? s->cap : 0);
    htc__free(env, s->nodes, s->nodes ? (2 * s->cap + 1) * sizeof *s->nodes : 0);
    htc__free(env, s->ranks, s->ranks ? 2 * s->cap * sizeof *s->ranks : 0);
    htc__free(env, s->scratch, s->scratch ? 2 * s->cap * sizeof *s->scratch : 0);
    htc__free(env, s->limits, s->limits ? s->cap * sizeof *s->limits : 0);
    htc__free(env, s->limit, s->limit ? s->cap * sizeof *s->limit : 0);
    htc__free(env, s->steps, s->steps ? s->cap * sizeof *s->steps : 0);
    htc__history_places_free(&s->places);
    htc__history_prefixes_free(&s->prefixes);
}

htc_status htc__search_open(search *s, const htc_history *h, size_t n, const htc_history_rules *rules)
{
    *s = (search){ .h = h, .cap = n + 1, .work_max = rules->search_max, .stuck = NONE, .last = NONE };
    s->places = (history_places){ .env = &h->env, .bytes_max = rules->bytes_max };
    s->prefixes = (history_prefixes){ .env = &h->env };
    s->bounds.prefixes = &s->prefixes;
    s->op = htc__alloc(&h->env, s->cap * sizeof *s->op);
    s->told = htc__alloc(&h->env, s->cap * sizeof *s->told);
    s->known = htc__alloc(&h->env, s->cap * sizeof *s->known);
    s->unknown = htc__alloc(&h->env, s->cap * sizeof *s->unknown);
    s->twin = htc__alloc(&h->env, s->cap * sizeof *s->twin);
    s->used = htc__alloc(&h->env, s->cap);
    s->nodes = htc__alloc(&h->env, (2 * s->cap + 1) * sizeof *s->nodes);
    s->ranks = htc__alloc(&h->env, 2 * s->cap * sizeof *s->ranks);
    s->scratch = htc__alloc(&h->env, 2 * s->cap * sizeof *s->scratch);
    s->steps = htc__alloc(&h->env, s->cap * sizeof *s->steps);
    s->limits = htc__alloc(&h->env, s->cap * sizeof *s->limits);
    s->limit = htc__alloc(&h->env, s->cap * sizeof *s->limit);
    if (s->op && s->told && s->known && s->unknown && s->twin && s->used && s->nodes && s->ranks && s->scratch &&
        s->steps && s->limits && s->limit)
        return HTC_OK;
    htc__search_close(s);
    return HTC_ENOMEM;
}

static void take_in(search *s, const uint32_t *ops, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        const htc_history_op *o = &s->h->ops[ops[i]];
        int                   unknown = o->outcome == HTC_HISTORY_UNKNOWN;
        if (!htc__history_is_record(o) || o->outcome == HTC_HISTORY_REFUSED || (unknown && !htc__history_is_change(o)))
            continue;
        if (unknown) {
            s->unknown[s->unknowns++] = (uint32_t)s->ops;
            htc__history_bound_leave(&s->bounds, o);
        } else
            s->known[s->n++] = (uint32_t)s->ops;
        htc__history_bound(&s->bounds, o);
        s->told[s->ops] = ops[i];
        s->op[s->ops++] = *o;
    }
    s->left = s->n;
    htc__history_unspoken(s->op, s->ops, s->ranks, s->scratch);
}

/* Of those that would do the same each is told the one before it: they stand together in the order of what they do. */
static void find_twins(search *s)
{
    for (size_t u = 0; u < s->unknowns; u++) {
        const htc_history_op *o = &s->op[s->unknown[u]];
        s->ranks[u] = (history_rank){ mix(o->kind + mix(o->expected) + mix((uint64_t)o->delta + 1)),
                                      mix(o->argument.hash + mix(o->seen.hash)), (uint32_t)u };
        s->twin[u] = NONE;
    }
    htc__history_sort(s->ranks, s->scratch, s->unknowns);
    for (size_t i = 1; i < s->unknowns; i++) {
        uint32_t a = s->ranks[i - 1].op, b = s->ranks[i].op;
        if (htc__history_does_the_same(&s->op[s->unknown[a]], &s->op[s->unknown[b]]))
            s->twin[b] = a;
    }
}

static void sort_unknown(search *s)
{
    for (size_t u = 0; u < s->unknowns; u++)
        s->ranks[u] = (history_rank){ s->op[s->unknown[u]].invoked, 0, s->unknown[u] };
    htc__history_sort(s->ranks, s->scratch, s->unknowns);
    for (size_t u = 0; u < s->unknowns; u++)
        s->unknown[u] = s->ranks[u].op;
    find_twins(s);
}

/* Asked at the very moment of an answer is not after it: questions first. */
static void sort_known(search *s)
{
    uint32_t end = (uint32_t)(2 * s->n), last = end;
    for (size_t i = 0; i < s->n; i++) {
        const htc_history_op *o = &s->op[s->known[i]];
        s->ranks[2 * i] = (history_rank){ o->invoked, 0, (uint32_t)(2 * i) };
        s->ranks[2 * i + 1] = (history_rank){ o->returned, 1, (uint32_t)(2 * i + 1) };
    }
    htc__history_sort(s->ranks, s->scratch, 2 * s->n);
    for (size_t i = 0; i < 2 * s->n; i++) {
        s->nodes[last].after = s->ranks[i].op;
        s->nodes[s->ranks[i].op].before = last;
        last = s->ranks[i].op;
    }
    s->nodes[last].after = end;
    s->nodes[end].before = last;
}

static void sort_limits(search *s)
{
    for (size_t i = 0; i < s->n; i++)
        s->limits[i] = (history_rank){ htc__history_limit(&s->op[s->known[i]]), 0, (uint32_t)i };
    htc__history_sort(s->limits, s->scratch, s->n);
    for (size_t i = 0; i < s->n; i++)
        s->limit[s->limits[i].op] = (uint32_t)i;
}

htc_status htc__search_fill(search *s, const uint32_t *ops, size_t n)
{
    take_in(s, ops, n);
    sort_unknown(s);
    sort_known(s);
    sort_limits(s);
    return htc__history_find_prefixes(&s->h->env, s->op, s->ops, 0, s->work_max / 8, &s->prefixes);
}

/* ---------------------------------------------------------------- one step, there and back */

void htc__search_take(search *s, uint32_t what, search_cursor at, const history_state *before)
{
    const search_step *row = row_of(s);
    uint32_t           n = (row ? row->row : 0) + (what & ASIDE ? 1 : 0);
    s->steps[s->depth++] = (search_step){ what, at.target, n, at.pass, *before };
    if (what & ASIDE) {
        s->used[what & ~ASIDE] = 1;
        toggle(s, s->unknown[what & ~ASIDE]);
        htc__history_bound_take(&s->bounds, unknown_at(s, what));
        s->aside++;
        return;
    }
    unlink_node(s, what);
    unlink_node(s, what + 1);
    toggle(s, s->known[what / 2]);
    s->left--;
    s->limits[s->limit[what / 2]].minor = 1;
    while (s->lowest < s->n && s->limits[s->lowest].minor)
        s->lowest++;
}

search_step htc__search_take_back(search *s)
{
    search_step t = s->steps[--s->depth];
    if (t.taken & ASIDE) {
        s->used[t.taken & ~ASIDE] = 0;
        toggle(s, s->unknown[t.taken & ~ASIDE]);
        htc__history_bound_leave(&s->bounds, unknown_at(s, t.taken));
        s->aside--;
        return t;
    }
    link_node(s, t.taken + 1);
    link_node(s, t.taken);
    toggle(s, s->known[t.taken / 2]);
    s->left++;
    size_t limit = s->limit[t.taken / 2];
    s->limits[limit].minor = 0;
    s->lowest = limit < s->lowest ? limit : s->lowest;
    return t;
}

int htc__search_is_too_high(const search *s, const history_state *state)
{
    return s->lowest < s->n && state->version > s->limits[s->lowest].major;
}
