/* What lists are made of. Of a value that was seen nothing is known but its fingerprint; but if some pieces that were appended, one behind
 * the other, to nothing or to another value have that fingerprint, the value is these pieces, and so it is known how it begins. A list
 * that begins otherwise can never become that value by appending.
 *
 * Pieces are looked for from both ends: some behind what is known, some before the end, and any number of which an answer says that the list was
 * so long behind them, which can stand nowhere else. Where they are not found nothing is known, and a search tries more. Some 10^7 pairs of
 * ends are compared for a key, 10^11 for a hard one: that two which do not fit have the same fingerprint happens once in 10^11 keys, or 10^7. */
#include "sim/history/history_private.h"

#include "core/util.h"

#define PIECES_MAX 400
#define STONES_MAX HTC__HISTORY_ENDS
#define BACK_MAX   256 /* pieces at the back */

/* How many pieces at the front and at the back no answer has told the place of; how many fronts, and how often one is looked for, for one value. */
static const struct reach {
    uint32_t front, back, fronts;
    uint64_t looks;
} reaches[] = { { 2, 3, 60000, 40000 }, { 4, 4, 250000, 400000 } };

/* No fingerprint has this hash. */
#define NOWHERE UINT64_MAX

typedef struct piece {
    htc_history_value value;
    uint64_t          inverse; /* what takes its length off a hash */
    htc_ns            asked;   /* first */
    int               is_free; /* no answer has told its place, or not of all that append it */
} piece;

/* A value that begins what is looked for: a stone, or a piece behind another front. */
typedef struct front {
    htc_history_value value;
    uint32_t          before, piece; /* of a stone STONE, and none */
    htc_ns            asked;         /* the last of its pieces */
    uint32_t          free, told;    /* how many of its pieces no answer has told the place of; that of some was told */
} front;

#define STONE UINT32_MAX

typedef struct finder {
    history_prefixes *p;
    const htc_env    *env;
    struct reach      reach;
    piece            *pieces;
    size_t            pieces_n, pieces_cap;
    htc_history_value stones[STONES_MAX]; /* nothing, then what was seen, shortest first, then what was put */
    uint32_t          seen;               /* how many of these are nothing, or were seen */
    uint32_t          stones_n;
    htc_ns            until[STONES_MAX]; /* a value is made of what was asked by then */
    int               found[STONES_MAX];
    htc_ns            latest;           /* until, of those that are not found */
    front            *fronts;           /* the stones first */
    history_rank     *sorted, *scratch; /* of fronts, by hash and length */
    size_t            fronts_n, fronts_cap, sorted_cap, scratch_cap;
    history_rank     *told; /* which piece was told to end where, and when */
    size_t            told_n, told_cap;
    uint32_t          back[BACK_MAX];
    uint64_t          work_max;
    int               refused;
} finder;

/* ---------------------------------------------------------------- what is known */

static int shorter(const history_prefix *a, const history_prefix *b)
{
    return a->length != b->length ? a->length < b->length : a->of < b->of;
}

/* Kept in order; there are few. */
static void know(finder *f, uint32_t of, htc_history_value v)
{
    history_prefixes *p = f->p;
    history_prefix new = { v.length, v.hash, of };
    size_t at = p->n;
    if (!htc__history_room(f->env, &p->known, &p->cap, p->n + 1, sizeof *p->known)) {
        f->refused = 1;
        return;
    }
    while (at > 0 && shorter(&new, &p->known[at - 1]))
        at--;
    if (at > 0 && p->known[at - 1].length == new.length && p->known[at - 1].of == of)
        return;
    for (size_t i = p->n++; i > at; i--)
        p->known[i] = p->known[i - 1];
    p->known[at] = new;
}

static size_t first_of(const history_prefixes *p, uint64_t length)
{
    size_t low = 0, high = p->n;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (p->known[middle].length < length)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

int htc__history_leads_on(const history_prefixes *p, htc_history_value v)
{
    if (!p || !p->n || htc__history_absent(v))
        return 0;
    for (size_t i = first_of(p, v.length); i < p->n && p->known[i].length == v.length; i++)
        if (p->known[i].hash == v.hash)
            return 1;
    return 0;
}

/* All that are as long begin otherwise. */
static int leads_nowhere(const history_prefixes *p, htc_history_value v)
{
    size_t known = 0, longer = 0;
    for (size_t i = first_of(p, v.length); i < p->n && p->known[i].length == v.length; i++, known++)
        if (p->known[i].hash == v.hash)
            return 0;
    while (longer < p->ends_n && p->ends[longer] >= v.length)
        longer++;
    return known == longer;
}

int htc__history_may_become(const history_prefixes *p, htc_history_value v, htc_history_value whole)
{
    if (v.length > whole.length || v.hash == NOWHERE)
        return 0;
    if (!p || !p->n)
        return 1;
    for (size_t i = first_of(p, whole.length); i < p->n && p->known[i].length == whole.length; i++)
        if (p->known[i].hash == whole.hash)
            for (size_t j = first_of(p, v.length); j < p->n && p->known[j].length == v.length; j++)
                if (p->known[j].of == p->known[i].of && p->known[j].hash != v.hash)
                    return 0;
    return 1;
}

int htc__history_step(const history_prefixes *p, history_state *s, const htc_history_op *o)
{
    int nowhere = !htc__history_absent(s->value) && s->value.hash == NOWHERE;
    if (!htc__history_apply(s, o))
        return 0;
    if (!p || !p->n || !htc__history_is_change(o) || o->outcome == HTC_HISTORY_MISSED || htc__history_absent(s->value))
        return 1;
    if ((nowhere && o->kind == HTC_HISTORY_APPEND) || leads_nowhere(p, s->value))
        s->value = (htc_history_value){ NOWHERE, s->value.length, HTC_HISTORY_NO_NUMBER };
    return 1;
}

/* ---------------------------------------------------------------- what there is to look for */

static size_t piece_of(const finder *f, htc_history_value v)
{
    size_t i = 0;
    while (i < f->pieces_n && !htc__history_same(f->pieces[i].value, v))
        i++;
    return i;
}

static void meet_piece(finder *f, const htc_history_op *o)
{
    htc_history_value v = o->argument;
    size_t            i = piece_of(f, v);
    if (v.length == 0 || v.length >= HTC_HISTORY_UNSAID)
        return;
    if (!htc__history_room(f->env, &f->pieces, &f->pieces_cap, i + 1, sizeof *f->pieces) ||
        !htc__history_room(f->env, &f->told, &f->told_cap, f->told_n + 1, sizeof *f->told)) {
        f->refused = 1;
        return;
    }
    if (i == f->pieces_n)
        f->pieces[f->pieces_n++] = (piece){ v, htc__history_shrink(v.length), o->invoked, 0 };
    f->pieces[i].asked = o->invoked < f->pieces[i].asked ? o->invoked : f->pieces[i].asked;
    f->pieces[i].is_free |= o->number <= 0;
    if (o->number > 0)
        f->told[f->told_n++] = (history_rank){ (uint64_t)o->number, o->returned, (uint32_t)i };
}

/* 0: there are too many. */
static int meet_stone(finder *f, htc_history_value v, htc_ns until, uint32_t from)
{
    uint32_t at = f->stones_n;
    if (v.length >= HTC_HISTORY_UNSAID)
        return 1;
    for (uint32_t i = 0; i < f->stones_n; i++)
        if (htc__history_same(f->stones[i], v)) {
            f->until[i] = until < f->until[i] ? until : f->until[i];
            return 1;
        }
    if (f->stones_n == STONES_MAX)
        return 0;
    for (; at > from && f->stones[at - 1].length > v.length; at--) {
        f->stones[at] = f->stones[at - 1];
        f->until[at] = f->until[at - 1];
    }
    f->stones[at] = v;
    f->until[at] = until;
    f->stones_n++;
    return 1;
}

static int is_fingerprint(htc_history_value v)
{
    return v.hash < UINT64_C(1) << 61;
}

/* 0: there is too much of it, or nothing to look for. */
static int meet_all(finder *f, const htc_history_op *ops, size_t n)
{
    int appends = 0;
    meet_stone(f, (htc_history_value){ 0, 0, HTC_HISTORY_NO_NUMBER }, 0, 0);
    for (size_t i = 0; i < n; i++) {
        if (ops[i].kind == HTC_HISTORY_ADD || !is_fingerprint(ops[i].argument) || !is_fingerprint(ops[i].observed) ||
            !is_fingerprint(ops[i].seen))
            return 0;
        if (ops[i].kind == HTC_HISTORY_APPEND) {
            meet_piece(f, &ops[i]);
            appends |= ops[i].outcome == HTC_HISTORY_UNKNOWN;
        }
        if (!meet_stone(f, ops[i].observed, ops[i].returned, 1) ||
            (ops[i].kind == HTC_HISTORY_CAS_VALUE && !meet_stone(f, ops[i].seen, ops[i].returned, 1)) ||
            f->pieces_n > PIECES_MAX || f->told_n > PIECES_MAX)
            return 0;
    }
    f->seen = f->stones_n;
    for (size_t i = 0; i < n; i++)
        if (ops[i].kind != HTC_HISTORY_APPEND && htc__history_is_change(&ops[i]))
            meet_stone(f, ops[i].argument, 0, f->seen);
    return appends && !f->refused;
}

/* ---------------------------------------------------------------- both ends */

static int is_stone(const finder *f, htc_history_value v)
{
    for (uint32_t s = 0; s < f->stones_n; s++)
        if (htc__history_same(f->stones[s], v))
            return 1;
    return 0;
}

static void add_front(finder *f, front at)
{
    if (f->fronts_n >= f->reach.fronts || f->refused || at.value.length > f->stones[f->seen - 1].length)
        return;
    if (!htc__history_room(f->env, &f->fronts, &f->fronts_cap, f->fronts_n + 1, sizeof *f->fronts))
        f->refused = 1;
    else
        f->fronts[f->fronts_n++] = at;
}

static void add_behind(finder *f, uint32_t before, uint32_t i, uint32_t free, uint32_t told)
{
    const front *b = &f->fronts[before];
    const piece *p = &f->pieces[i];
    if (told && is_stone(f, htc_history_value_join(b->value, p->value)))
        return; /* it is there */
    add_front(f, (front){ htc_history_value_join(b->value, p->value), before, i,
                          b->asked > p->asked ? b->asked : p->asked, free, told });
}

/* Behind all fronts with so many free pieces what is told, as far as it goes. */
static void add_told(finder *f, uint32_t free)
{
    for (uint32_t i = 0; i < f->fronts_n; i++)
        for (size_t t = 0; f->fronts[i].free == free && t < f->told_n; t++)
            if (f->fronts[i].value.length + f->pieces[f->told[t].op].value.length == f->told[t].major &&
                f->fronts[i].asked <= f->told[t].minor)
                add_behind(f, i, f->told[t].op, free, 1);
}

/* And one more, behind those first of which something is told, or not: there may be too many. */
static void add_free(finder *f, uint32_t free, uint32_t told)
{
    for (uint32_t i = 0; i < f->fronts_n && f->fronts_n < f->reach.fronts; i++)
        for (uint32_t p = 0; f->fronts[i].free == free && f->fronts[i].told == told && p < f->pieces_n; p++)
            if (f->pieces[p].is_free && f->pieces[p].asked <= f->latest)
                add_behind(f, i, p, free + 1, told);
}

/* A stone that is one piece is not older than that. */
static htc_ns asked_at(const finder *f, htc_history_value v)
{
    size_t i = piece_of(f, v);
    return i < f->pieces_n ? f->pieces[i].asked : 0;
}

static void make_fronts(finder *f)
{
    f->fronts_n = 0;
    for (uint32_t s = 0; s < f->stones_n; s++)
        add_front(f, (front){ f->stones[s], STONE, 0, asked_at(f, f->stones[s]), 0, 0 });
    for (uint32_t free = 0; free <= f->reach.front; free++) {
        add_told(f, free);
        for (uint32_t told = 2; free < f->reach.front && told-- > 0;)
            add_free(f, free, told);
    }
    if (f->refused || !htc__history_room(f->env, &f->sorted, &f->sorted_cap, f->fronts_n, sizeof *f->sorted) ||
        !htc__history_room(f->env, &f->scratch, &f->scratch_cap, f->fronts_n, sizeof *f->scratch)) {
        f->refused = 1;
        return;
    }
    for (size_t i = 0; i < f->fronts_n; i++)
        f->sorted[i] = (history_rank){ f->fronts[i].value.hash, f->fronts[i].value.length, (uint32_t)i };
    htc__history_sort(f->sorted, f->scratch, f->fronts_n);
}

static const front *find_front(const finder *f, htc_history_value v, uint32_t but)
{
    size_t low = 0, high = f->fronts_n;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (f->sorted[middle].major < v.hash ||
            (f->sorted[middle].major == v.hash && f->sorted[middle].minor < v.length))
            low = middle + 1;
        else
            high = middle;
    }
    for (; low < f->fronts_n && f->sorted[low].major == v.hash && f->sorted[low].minor == v.length; low++)
        if (f->sorted[low].op != but)
            return &f->fronts[f->sorted[low].op];
    return NULL;
}

/* The value that was seen is this front and the last n of back, the last of all first. */
static void know_all(finder *f, uint32_t of, const front *at, uint32_t n)
{
    htc_history_value v = at->value;
    const front      *begins = at;
    for (; begins->before != STONE; begins = &f->fronts[begins->before])
        know(f, of, begins->value);
    know(f, of, begins->value);
    uint32_t stone = (uint32_t)(begins - f->fronts);
    for (size_t i = 0; i < f->p->n && !f->refused; i++)
        if (f->p->known[i].of == stone && stone < f->seen) {
            history_prefix k = f->p->known[i];
            know(f, of, (htc_history_value){ k.hash, k.length, HTC_HISTORY_NO_NUMBER });
        }
    while (n > 0) {
        v = htc_history_value_join(v, f->pieces[f->back[--n]].value);
        know(f, of, v);
    }
}

static int look(finder *f, uint32_t of, htc_history_value v, uint32_t n, uint32_t more);

static int look_behind(finder *f, uint32_t of, htc_history_value v, uint32_t n, uint32_t more, uint32_t i)
{
    const piece *p = &f->pieces[i];
    if (p->value.length > v.length || n == BACK_MAX)
        return 0;
    f->back[n] = i;
    return look(f, of, htc__history_cut(v, p->value, p->inverse), n + 1, more);
}

/* v is value number `of` without the n pieces taken off its end; `more` may go that no answer has told the place of. */
static int look(finder *f, uint32_t of, htc_history_value v, uint32_t n, uint32_t more)
{
    if (f->p->work >= f->work_max)
        return 0;
    f->p->work++;
    const front *at = find_front(f, v, of);
    if (at) {
        know_all(f, of, at, n);
        return 1;
    }
    for (size_t i = 0; i < f->told_n; i++)
        if (f->told[i].major == v.length && look_behind(f, of, v, n, more, f->told[i].op))
            return 1;
    for (uint32_t i = 0; more && i < f->pieces_n; i++)
        if (f->pieces[i].is_free && f->pieces[i].asked <= f->until[of] && look_behind(f, of, v, n, more - 1, i))
            return 1;
    return 0;
}

static int find(finder *f, uint32_t of)
{
    for (uint32_t more = 0; more <= f->reach.back; more++)
        if (look(f, of, f->stones[of], 0, more))
            return 1;
    return 0;
}

/* Those that are not found yet. */
static void find_all(finder *f, struct reach reach)
{
    uint64_t all = f->work_max;
    f->reach = reach;
    f->latest = f->p->open = 0;
    for (uint32_t of = 1; of < f->seen; of++)
        if (!f->found[of] && f->until[of] > f->latest)
            f->latest = f->until[of];
    make_fronts(f);
    for (uint32_t of = 1; of < f->seen && !f->refused; of++) {
        uint64_t till = f->p->work + f->reach.looks;
        f->work_max = till < all ? till : all;
        f->found[of] = f->found[of] || find(f, of);
        f->p->open += (size_t)!f->found[of];
    }
    f->work_max = all;
}

static void begin(finder *f)
{
    for (uint32_t of = 0; of < f->seen; of++) {
        know(f, of, f->stones[0]);
        know(f, of, f->stones[of]);
        f->p->ends[f->seen - 1 - of] = f->stones[of].length;
    }
    f->p->ends_n = f->seen;
}

htc_status htc__history_find_prefixes(const htc_env *env, const htc_history_op *ops, size_t n, int far,
                                      uint64_t work_max, history_prefixes *p)
{
    finder f = { .p = p, .env = env, .work_max = work_max };
    *p = (history_prefixes){ .env = env };
    if (meet_all(&f, ops, n)) {
        begin(&f);
        find_all(&f, reaches[0]);
        if (far && p->open && !f.refused)
            find_all(&f, reaches[1]);
    }
    htc__free(env, f.pieces, f.pieces_cap * sizeof *f.pieces);
    htc__free(env, f.told, f.told_cap * sizeof *f.told);
    htc__free(env, f.fronts, f.fronts_cap * sizeof *f.fronts);
    htc__free(env, f.sorted, f.sorted_cap * sizeof *f.sorted);
    htc__free(env, f.scratch, f.scratch_cap * sizeof *f.scratch);
    if (f.refused)
        htc__history_prefixes_free(p);
    return f.refused ? HTC_ENOMEM : HTC_OK;
}

void htc__history_prefixes_free(history_prefixes *p)
{
    htc__free(p->env, p->known, p->cap * sizeof *p->known);
    p->known = NULL;
    p->n = p->cap = 0;
}
