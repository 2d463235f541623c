/* Ledgers beside a slow model: every task is in exactly one place, whatever steps come in whatever order. */
#include "expect.h"

#include <string.h>

#include "core/util.h"
#include "roles/worker/ledger.h"

enum { TASKS = 60, LEDGERS = 4 };

typedef struct place {
    enum { LIVE, NOTE, COUNTED } kind;
    uint64_t ledger, note; /* LIVE: in ledger; NOTE: given by ledger */
} place;

typedef struct model {
    ledger l[LEDGERS];
    place  at[TASKS];
} model;

static void expect_same(const model *m, const char *what)
{
    uint64_t counted = 0, model_counted = 0;
    for (uint64_t j = 0; j < LEDGERS; j++) {
        const ledger *l = &m->l[j];
        for (uint32_t i = 1; i < l->live.n; i++)
            cr_assert(l->live.at[i - 1].to < l->live.at[i].from, "%s: spans out of order", what);
        for (uint64_t id = 0; id < TASKS; id++) {
            int live = m->at[id].kind == LIVE && m->at[id].ledger == j;
            cr_assert(htc__ids_has(&l->live, (ledger_span){ id, id + 1 }) == live, "%s: task %d in ledger %d", what, (int)id, (int)j);
        }
        counted += l->counts.done + l->counts.failed + l->counts.cancelled;
    }
    for (uint64_t id = 0; id < TASKS; id++)
        model_counted += m->at[id].kind == COUNTED;
    cr_assert(eq(u64, counted, model_counted), "%s", what);
}

/* All of a span are live in ledger j. */
static int all_live(const model *m, uint64_t j, ledger_span s)
{
    for (uint64_t id = s.from; id < s.to; id++)
        if (m->at[id].kind != LIVE || m->at[id].ledger != j)
            return 0;
    return 1;
}

static void commit(model *m, htc_rng *rng, uint64_t j, ledger_span s)
{
    uint64_t      n = s.to - s.from, failed = htc_rng_below(rng, n + 1);
    ledger_counts c = { .done = n - failed, .failed = failed };
    int           can = all_live(m, j, s);
    cr_assert(eq(int, htc__ledger_commit(&m->l[j], &s, 1, &c), can ? HTC_OK : HTC_EINVAL));
    for (uint64_t id = s.from; can && id < s.to; id++)
        m->at[id].kind = COUNTED;
}

static void give(model *m, uint64_t j, uint64_t to, ledger_span s)
{
    uint64_t   note = 0;
    int        can = all_live(m, j, s), full = m->l[j].n_out == LEDGER_OUT_MAX;
    htc_status want = full ? HTC_EFULL : can ? HTC_OK : HTC_EINVAL;
    cr_assert(eq(int, htc__ledger_give(&m->l[j], &s, 1, to, &note), want));
    for (uint64_t id = s.from; want == HTC_OK && id < s.to; id++)
        m->at[id] = (place){ NOTE, j, note };
}

/* Accept some note for ledger `to`, again and again too. */
static void accept(model *m, uint64_t to, uint64_t j, uint64_t note)
{
    const ledger_note *n = htc__ledger_note(&m->l[j], note), *given = NULL;
    int                before = htc__ledger_accepted(&m->l[to], j, note);
    htc_status         got = htc__ledger_accept(&m->l[to], to, &m->l[j], j, note, &given);
    cr_assert(eq(int, got, before ? HTC_EEXISTS : n && n->ledger == to ? HTC_OK : HTC_ENOTFOUND));
    for (uint64_t id = got == HTC_OK ? given->ids[0].from : 0; got == HTC_OK && id < given->ids[0].to; id++) {
        cr_assert(m->at[id].kind == NOTE && m->at[id].ledger == j && m->at[id].note == note);
        m->at[id] = (place){ LIVE, to, 0 };
    }
}

/* As an owner does: cleared only when accepted, forgotten only when cleared. */
static void tidy(model *m, uint64_t j)
{
    for (uint32_t i = m->l[j].n_out; i > 0; i--)
        if (htc__ledger_accepted(&m->l[m->l[j].out[i - 1].ledger], j, m->l[j].out[i - 1].note))
            cr_assert(eq(int, htc__ledger_clear(&m->l[j], m->l[j].out[i - 1].note), HTC_OK));
    for (uint32_t i = m->l[j].n_in; i > 0; i--) {
        ledger_pair p = m->l[j].in[i - 1];
        if (!htc__ledger_note(&m->l[p.ledger], p.note))
            cr_assert(eq(int, htc__ledger_forget(&m->l[j], p.ledger, p.note), HTC_OK));
    }
}

static void round_trip(ledger *l)
{
    htc_buf b, second;
    ledger  again;
    htc_buf_init(&b, NULL, 0);
    htc__ledger_write(&b, l);
    cr_assert(eq(int, b.status, HTC_OK));
    cr_assert(eq(int, htc__ledger_read(htc_buf_bytes(&b), &again), HTC_OK));
    htc_buf_init(&second, NULL, 0);
    htc__ledger_write(&second, &again);
    cr_assert(b.len == second.len && memcmp(b.data, second.data, b.len) == 0, "a record is read as something else");
    htc_buf_free(&second);
    for (size_t cut = 0; cut < b.len; cut++)
        cr_assert(eq(int, htc__ledger_read((htc_bytes){ b.data, cut }, &again), HTC_ECORRUPT));
    htc_buf_free(&b);
}

Test(ledger, every_task_is_in_one_place)
{
    for (uint64_t seed = 1; seed <= 150; seed++) {
        htc_rng rng = { seed };
        model   m = { 0 };
        for (uint64_t j = 0; j < LEDGERS; j++)
            htc__ledger_init(&m.l[j], j == 0 ? (ledger_span){ 0, TASKS } : (ledger_span){ 0, 0 });
        for (int step = 0; step < 400; step++) {
            uint64_t    j = htc_rng_below(&rng, LEDGERS), to = htc_rng_below(&rng, LEDGERS), from = htc_rng_below(&rng, TASKS);
            ledger_span s = { from, from + 1 + htc_rng_below(&rng, TASKS - from) };
            if (htc_rng_below(&rng, 2))
                s.to = s.from + 1;
            switch (htc_rng_below(&rng, 5)) {
            case 0: commit(&m, &rng, j, (ledger_span){ from, from + 1 }); break;
            case 1: give(&m, j, to, s); break;
            case 2:
            case 3: accept(&m, to, j, 1 + htc_rng_below(&rng, m.l[j].next_note)); break;
            case 4: tidy(&m, j); break;
            }
            expect_same(&m, "after a step");
        }
        for (uint64_t j = 0; j < LEDGERS; j++)
            round_trip(&m.l[j]);
    }
}

/* What does not fit is refused and changes nothing. */
Test(ledger, bounds_hold)
{
    ledger l, before;
    uint64_t note;
    htc__ledger_init(&l, (ledger_span){ 0, 10000 });
    for (uint32_t i = 1; i < LEDGER_LIVE_MAX; i++)
        cr_assert(eq(int, htc__ledger_commit(&l, &(ledger_span){ 2 * i, 2 * i + 1 }, 1, &(ledger_counts){ .done = 1 }), HTC_OK));
    before = l;
    cr_expect(eq(int, htc__ledger_commit(&l, &(ledger_span){ 9000, 9001 }, 1, &(ledger_counts){ .done = 1 }), HTC_EFULL));
    cr_expect(eq(int, htc__ledger_give(&l, &(ledger_span){ 9000, 9001 }, 1, 1, &note), HTC_EFULL));
    cr_expect(eq(int, htc__ledger_commit(&l, &(ledger_span){ 9999, 10001 }, 1, &(ledger_counts){ .done = 2 }), HTC_EINVAL));
    cr_expect(eq(int, htc__ledger_commit(&l, &(ledger_span){ 9998, 10000 }, 1, &(ledger_counts){ .done = 1 }), HTC_EINVAL), "one is not counted");
    cr_expect(eq(int, htc__ledger_clear(&l, 1), HTC_ENOTFOUND));
    cr_expect(eq(int, htc__ledger_forget(&l, 1, 1), HTC_ENOTFOUND));
    cr_expect(memcmp(&before, &l, sizeof l) == 0);
    cr_expect(eq(int, htc__ledger_give(&l, &(ledger_span){ 5000, 10000 }, 1, 7, &note), HTC_OK) && eq(u64, note, 1));
    htc__ledger_take(&l, 3, 77);
    cr_expect(htc__ledger_is_of(&l, 3, 77) && !htc__ledger_is_of(&l, 3, 78) && !htc__ledger_is_of(&l, 0, 0));
    round_trip(&l);
}

/* Scattered sets come back from their record, in a few hundred bytes for a ledger's whole home. */
Test(ledger, a_set_has_a_short_form)
{
    for (uint64_t seed = 1; seed <= 300; seed++) {
        htc_rng  rng = { seed };
        ledger   l, again;
        uint64_t base = htc_rng_below(&rng, 3) * (UINT64_MAX / 4), odds = 1 + htc_rng_below(&rng, 12);
        htc_buf  b;
        htc__ledger_init(&l, (ledger_span){ 0, 0 });
        for (uint64_t id = 0; id < LEDGER_HOME; id++)
            if (htc_rng_below(&rng, odds + 1) < odds / 2 + 1)
                cr_assert(eq(int, htc__ids_add(&l.live, (ledger_span){ base + id, base + id + 1 }), HTC_OK));
        htc_buf_init(&b, NULL, 0);
        htc__ledger_write(&b, &l);
        cr_assert(eq(int, b.status, HTC_OK));
        cr_assert(b.len < 700, "%lu bytes for %u spans", b.len, l.live.n);
        cr_assert(eq(int, htc__ledger_read(htc_buf_bytes(&b), &again), HTC_OK));
        cr_assert(again.live.n == l.live.n && memcmp(again.live.at, l.live.at, l.live.n * sizeof l.live.at[0]) == 0);
        htc_buf_free(&b);
    }
}

/* Several spans go as one note, or none of them does. */
Test(ledger, a_note_of_several_spans)
{
    ledger             from, to, before;
    ledger_span        ids[3] = { { 10, 20 }, { 40, 41 }, { 30, 35 } }, wrong[2] = { { 50, 60 }, { 15, 16 } };
    const ledger_note *given = NULL;
    uint64_t           note = 0;
    htc__ledger_init(&from, (ledger_span){ 0, 100 });
    htc__ledger_init(&to, (ledger_span){ 0, 0 });
    cr_assert(eq(int, htc__ledger_give(&from, ids, 3, 1, &note), HTC_OK));
    cr_expect(eq(u64, htc__ledger_note_tasks(&from.out[0]), 16));
    before = from;
    cr_expect(eq(int, htc__ledger_give(&from, wrong, 2, 1, &note), HTC_EINVAL), "15 went before");
    cr_expect(eq(int, htc__ledger_give(&from, wrong, 0, 1, &note), HTC_EINVAL));
    cr_expect(eq(int, htc__ledger_give(&from, wrong, LEDGER_NOTE_MAX + 1, 1, &note), HTC_EFULL));
    cr_expect(before.live.n == from.live.n && memcmp(before.live.at, from.live.at, from.live.n * sizeof from.live.at[0]) == 0);
    cr_assert(eq(int, htc__ledger_accept(&to, 1, &from, 0, 1, &given), HTC_OK));
    cr_expect(htc__ids_has(&to.live, ids[0]) && htc__ids_has(&to.live, ids[1]) && htc__ids_has(&to.live, ids[2]));
    cr_expect(eq(u64, htc__ids_count(&to.live), 16));
    round_trip(&from);
    round_trip(&to);
}

/* How often a live task has failed is noted until it is counted or given away; beyond the room there is, it is forgotten. */
Test(ledger, tries_are_noted)
{
    ledger   l;
    uint64_t n = 0, note;
    htc__ledger_init(&l, (ledger_span){ 0, 1000 });
    cr_expect(eq(int, htc__ledger_try_again(&l, 1000, &n), HTC_EINVAL));
    for (uint64_t id = 0; id < LEDGER_TRIES_MAX; id++)
        cr_assert(htc__ledger_try_again(&l, id, &n) == HTC_OK && n == 1);
    cr_expect(htc__ledger_try_again(&l, 7, &n) == HTC_OK && n == 2 && htc__ledger_failures(&l, 7) == 2);
    cr_expect(htc__ledger_try_again(&l, 500, &n) == HTC_OK && n == 1 && htc__ledger_failures(&l, 500) == 0);
    round_trip(&l);
    cr_assert(eq(int, htc__ledger_commit(&l, &(ledger_span){ 7, 8 }, 1, &(ledger_counts){ .failed = 1 }), HTC_OK));
    cr_assert(eq(int, htc__ledger_give(&l, &(ledger_span){ 8, 10 }, 1, 3, &note), HTC_OK));
    cr_expect(htc__ledger_failures(&l, 7) == 0 && htc__ledger_failures(&l, 8) == 0 && htc__ledger_failures(&l, 10) == 1);
    cr_expect(eq(u32, l.n_tries, LEDGER_TRIES_MAX - 3));
    round_trip(&l);
}
