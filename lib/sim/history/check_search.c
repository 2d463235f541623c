/* Linearizability of one key by search: Wing and Gong, with Lowe's memory of places already visited.
 *
 * The operations whose answer is known stand in one list, question and answer each, in the order of time; one that may come
 * next is taken out, tried on the copy, and put back if nothing follows from it. An answer at the head of the list whose question
 * was not taken yet is the end of that road. Changes of unknown outcome stand aside. They are taken for the sake of a known one that
 * is chosen before them and follows them at once, its target, and only where check_unanswered.c finds that all of them are needed. A place
 * is the set of operations taken and the state of the copy, behind a known operation; it is remembered as 128 bits of a hash of both
 * (two places that share them all would be taken for one: with 10^9 places, once in 10^20 searches). */
#include "sim/history/check_search.h"

#include "core/util.h"

/* Whether it is for this pass that o leaves s. */
static int is_for(const search *s, uint32_t pass, const htc_history_op *o, const history_state *next)
{
    int first = !s->prefixes.n || !htc__history_is_change(o) || htc__history_absent(next->value) ||
                htc__history_leads_on(&s->prefixes, next->value);
    return first == (pass == KNOWN || pass == ROWS);
}

/* 1: the target was taken, as it is or behind a row. */
static int take_known(search *s, search_cursor at, history_state *state)
{
    const search_step    *row = row_of(s);
    const htc_history_op *o = known_at(s, at.target);
    history_state         next = *state;
    s->work++;
    if (!htc__history_step(&s->prefixes, &next, o) || (!row && !is_for(s, at.pass, o, &next)))
        return 0;
    if (row && !htc__history_needed(&s->prefixes, &row->state, unknown_at(s, row->taken), o, &next))
        return 0;
    htc__search_take(s, at.target, at, state);
    if (!htc__search_is_too_high(s, &next) && htc__history_places_visit(&s->places, htc__search_place(s, &next))) {
        *state = next;
        return 1;
    }
    htc__search_take_back(s);
    return 0;
}

/* The row that ends at `state` has been at what covers next. */
static int goes_round(const search *s, const history_state *state, const history_state *next)
{
    const search_step *row = row_of(s);
    for (uint32_t i = 0; row && i < row->row; i++)
        if (htc__history_covers(&s->steps[s->depth - 1 - i].state, next))
            return 1;
    return htc__history_covers(state, next);
}

/* With those that are left behind the next one. */
static int may_reach(search *s, search_cursor at, const history_state *state)
{
    history_bounds b = s->bounds;
    htc__history_bound_take(&b, unknown_at(s, at.next));
    return htc__history_may_reach(&b, state, known_at(s, at.target));
}

/* 1: the next unknown one was taken for the sake of the target, first or next in a row. */
static int take_unknown(search *s, search_cursor at, history_state *state)
{
    const search_step    *row = row_of(s);
    const htc_history_op *o = unknown_at(s, at.next);
    history_state         next = *state;
    s->work++;
    if (s->used[at.next] || (s->twin[at.next] != NONE && !s->used[s->twin[at.next]]))
        return 0;
    if (!htc__history_step(&s->prefixes, &next, o) || htc__search_is_too_high(s, &next) ||
        !is_for(s, at.pass, o, &next) || !may_reach(s, at, &next) || goes_round(s, state, &next))
        return 0;
    if (row && (!htc__history_needed(&s->prefixes, &row->state, unknown_at(s, row->taken), o, &next) ||
                (at.next < (row->taken & ~ASIDE) &&
                 !htc__history_in_turn(&s->prefixes, &row->state, unknown_at(s, row->taken), o, &next))))
        return 0;
    if (s->aside >= s->few) {
        s->more = 1;
        return 0;
    }
    htc__search_take(s, at.next | ASIDE, at, state);
    *state = next;
    return 1;
}

/* One from the next on that was asked before the first answer which is still to come. */
static int take_some_unknown(search *s, search_cursor at, htc_ns deadline, history_state *state)
{
    if (htc__history_is_enough(&s->prefixes, state, known_at(s, at.target)))
        return 0;
    for (; at.next < s->unknowns && unknown_at(s, at.next)->invoked <= deadline && s->work <= s->work_max; at.next++)
        if (take_unknown(s, at, state))
            return 1;
    return 0;
}

static void note_how_far(search *s, uint32_t answer)
{
    if (s->stuck != NONE && s->n - s->left <= s->deepest)
        return;
    uint32_t last = s->depth ? s->steps[s->depth - 1].taken : NONE;
    s->deepest = s->n - s->left;
    s->stuck = s->known[answer / 2];
    s->last = last == NONE ? NONE : last & ASIDE ? s->unknown[last & ~ASIDE] : s->known[last / 2];
}

static int go_on_with_row(search *s, search_cursor at, htc_ns deadline, history_state *state)
{
    if (at.next == ITSELF) {
        if (take_known(s, at, state))
            return 1;
        at = (search_cursor){ ROWS, at.target, 0 };
    }
    for (; at.pass < PASSES; at = (search_cursor){ at.pass + 1, at.target, 0 })
        if (take_some_unknown(s, at, deadline, state))
            return 1;
    return 0;
}

/* From `at` on, the next that may be taken: a question before the first answer, else an unknown one for its sake. 1: one was. */
static int forward(search *s, search_cursor at, history_state *state)
{
    uint32_t first = s->nodes[end_of(s)].after, answer = first;
    while (is_question(s, answer))
        answer = s->nodes[answer].after;
    htc_ns deadline = known_at(s, answer)->returned;
    if (row_of(s))
        return go_on_with_row(s, at, deadline, state);
    for (; at.pass < PASSES; at = (search_cursor){ at.pass + 1, first, at.pass + 1 < ROWS ? ITSELF : 0 })
        for (; is_question(s, at.target);
             at = (search_cursor){ at.pass, s->nodes[at.target].after, at.pass < ROWS ? ITSELF : 0 })
            if (at.pass < ROWS ? take_known(s, at, state) : take_some_unknown(s, at, deadline, state))
                return 1;
    note_how_far(s, answer);
    return 0;
}

/* Where to go on when a step did not lead on. */
static search_cursor behind(const search *s, const search_step *t)
{
    if (t->taken & ASIDE)
        return (search_cursor){ t->pass, t->target, (t->taken & ~ASIDE) + 1 };
    return t->row ? (search_cursor){ ROWS, t->target, 0 }
                  : (search_cursor){ t->pass, s->nodes[t->taken].after, ITSELF };
}

/* 1: there is an order; 0: there is none; -1: not within the work allowed; -2: no memory. */
static int find_order(search *s)
{
    history_state state = htc__history_initial();
    search_cursor at = { KNOWN, s->nodes[end_of(s)].after, ITSELF };
    while (s->left) {
        int room = htc__history_places_room(&s->places);
        if (room <= 0)
            return room < 0 ? -2 : -1;
        int                went = forward(s, at, &state);
        const search_step *row = row_of(s);
        if (s->work > s->work_max)
            return -1;
        if (went) {
            at = (search_cursor){ KNOWN, row ? row->target : s->nodes[end_of(s)].after, ITSELF };
            continue;
        }
        if (s->depth == 0)
            return 0;
        search_step t = htc__search_take_back(s);
        state = t.state;
        at = behind(s, &t);
    }
    return 1;
}

/* Orders with few unknown ones are soon gone through, and mostly few are needed: behind a wrong turn many of them may patch up much before nothing
 * goes on. So all work is not spent on one wrong turn: a part of it at first for what decides soon, then for a few of them, more, and all. */
static const struct {
    size_t   few;
    unsigned percent;
} plan[] = { { SIZE_MAX, 1 },  { 0, 5 },  { 1, 5 },  { 2, 10 },        { 3, 10 },
             { SIZE_MAX, 10 }, { 5, 10 }, { 8, 10 }, { SIZE_MAX, 100 } };

static int find_some_order(search *s, uint64_t work_max)
{
    size_t   parts = sizeof plan / sizeof *plan;
    uint64_t left = s->work < work_max ? work_max - s->work : 0;
    int      found = -1;
    for (size_t i = s->unknowns ? 0 : parts - 1; i < parts && found == -1 && s->work <= work_max; i++) {
        if (plan[i].few != SIZE_MAX && plan[i].few >= s->unknowns)
            continue;
        uint64_t part = left / 100 * plan[i].percent;
        s->work_max = part < work_max - s->work ? s->work + part : work_max;
        s->few = plan[i].few;
        s->more = 0;
        while (s->depth)
            htc__search_take_back(s);
        htc__history_places_free(&s->places);
        found = find_order(s);
        if (found == 0 && s->more)
            found = -1;
    }
    return found;
}

/* Where lists were seen of which it is not known what they are made of, part of the work goes to finding more of that, and the rest to orders that
 * are tried anew. */
static int decide(search *s, uint64_t work_max)
{
    uint64_t first = s->unknowns && s->prefixes.open ? work_max / 5 * 2 : work_max;
    int      found = find_some_order(s, first);
    if (found != -1 || first == work_max)
        return found;
    htc__history_prefixes_free(&s->prefixes);
    if (htc__history_find_prefixes(&s->h->env, s->op, s->ops, 1, work_max / 5 * 2, &s->prefixes) != HTC_OK)
        return -2;
    s->work += s->prefixes.work;
    return find_some_order(s, work_max);
}

static void say_stuck(const search *s, uint32_t key, htc_history_verdict *v)
{
    htc__history_say(s->h, v, HTC_HISTORY_BROKEN, key,
                     "no order of its %zu operations fits; %zu go, then the first of these could stand nowhere", s->n,
                     s->deepest);
    htc__history_tell(s->h, v, s->told[s->stuck]);
    if (s->last != NONE)
        htc__history_tell(s->h, v, s->told[s->last]);
}

htc_status htc__history_search_key(const htc_history *h, const uint32_t *ops, size_t n, uint32_t key,
                                   const htc_history_rules *rules, htc_history_verdict *v)
{
    search     s;
    htc_status status = htc__search_open(&s, h, n, rules);
    if (status != HTC_OK)
        return status;
    status = htc__search_fill(&s, ops, n);
    s.work = s.prefixes.work;
    int found = status == HTC_OK ? decide(&s, rules->search_max) : -2;
    v->work += s.work;
    if (found == 0)
        say_stuck(&s, key, v);
    else if (found == -1)
        htc__history_say(h, v, HTC_HISTORY_UNDECIDED, key, "%llu steps of searching did not decide; allow more",
                         (unsigned long long)s.work);
    htc__search_close(&s);
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
