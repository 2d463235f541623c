/* Any changes to a book of users: shares, totals and explanations as the slow model has them. */
#include "../tests/allot_model.h"
#include "check.h"
#include "core/codec.h"

/* One byte says how large: most numbers are small, so that many are equal. */
static uint64_t number(htc_reader *r)
{
    uint8_t size = htc_get_u8(r);
    if (size < 192)
        return size % 16;
    return size < 224 ? htc_get_u8(r) : size < 248 ? htc_get_u16(r) : htc_get_u64(r);
}

static uint64_t number_up_to(htc_reader *r, uint64_t most)
{
    uint64_t n = number(r);
    return n > most ? most : n;
}

static htc_allot_claim claim_of(htc_reader *r)
{
    htc_allot_claim c = { .weight = number(r), .demand = number(r), .minimum = number(r), .cap = number(r) };
    return c;
}

static int is_valid(const htc_allot_claim *c)
{
    return c->weight > 0 && c->weight <= HTC_ALLOT_WEIGHT_MAX && (c->cap == 0 || c->cap >= c->minimum);
}

static void change(htc_allot_book *book, allot_model *m, htc_reader *r)
{
    uint8_t           what = htc_get_u8(r) % 6;
    allot_model_user *u = &m->users[htc_get_u8(r) % (m->n ? m->n : 1)];
    uint32_t          number_of = m->n ? u->number : 5;
    htc_allot_claim   old = m->n ? u->claim : (htc_allot_claim){ 1, 1, 0, 0 }, new = old;
    htc_status        expected = m->n ? HTC_OK : HTC_ENOTFOUND;
    switch (what) {
    case 0: {
        allot_model_user added = { .claim = claim_of(r), .arrival = m->arrivals++ };
        expected = !is_valid(&added.claim) ? HTC_EINVAL : m->n == ALLOT_MODEL_USERS_MAX ? HTC_EFULL : HTC_OK;
        CHECK(htc_allot_book_add(book, &added.claim, &added.number) == expected);
        if (expected == HTC_OK)
            m->users[m->n++] = added;
        return;
    }
    case 1:
        CHECK(htc_allot_book_remove(book, number_of) == expected);
        if (expected == HTC_OK)
            *u = m->users[--m->n];
        return;
    case 2:
        m->slots = number_up_to(r, HTC_ALLOT_BOOK_SLOTS_MAX);
        CHECK(htc_allot_book_set_slots(book, m->slots) == HTC_OK);
        return;
    case 3:
        new.demand = number(r);
        break;
    case 4:
        new.weight = number(r);
        break;
    default:
        new.minimum = number(r);
        new.cap = number(r);
    }
    if (expected == HTC_OK && !is_valid(&new))
        expected = HTC_EINVAL;
    CHECK((what == 3   ? htc_allot_book_set_demand(book, number_of, new.demand)
           : what == 4 ? htc_allot_book_set_weight(book, number_of, new.weight)
                       : htc_allot_book_set_limits(book, number_of, new.minimum, new.cap)) == expected);
    if (expected == HTC_OK)
        u->claim = new;
}

static void check(const htc_allot_book *book, allot_model *m)
{
    htc_allot_totals totals;
    allot_model_divide(m);
    CHECK(allot_model_is_fair(m));
    size_t next = allot_model_next(m);
    for (size_t i = 0; i < m->n; i++) {
        const allot_model_user *u = &m->users[i];
        htc_allot_reason        r;
        uint64_t                share;
        CHECK(htc_allot_book_share(book, u->number, &share) == HTC_OK && share == u->share);
        CHECK(htc_allot_explain(book, u->number, &r) == HTC_OK && r.share == share && r.wanted == u->high);
        CHECK(r.level_slots == m->level_slots && r.level_weight == m->level_weight);
        CHECK(r.next == (next < m->n ? m->users[next].number : HTC_ALLOT_NOBODY));
        CHECK((r.limit <= HTC_ALLOT_BY_CAP) == (share == u->high));
        CHECK((u->stand == MODEL_SATISFIED) <= (r.slots_needed <= m->slots));
    }
    CHECK(htc_allot_book_totals(book, &totals) == HTC_OK && totals.users == m->n && totals.wanted == m->wanted);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    htc_reader             r = htc_reader_of((htc_bytes){ data, size });
    static allot_model     m;
    htc_allot_book        *book;
    htc_allot_book_options o = { .size = sizeof o, .users_max = ALLOT_MODEL_USERS_MAX };
    m.n = 0, m.arrivals = 0;
    o.slots = m.slots = number_up_to(&r, HTC_ALLOT_BOOK_SLOTS_MAX);
    CHECK(htc_allot_book_create(NULL, &o, &book) == HTC_OK);
    for (int steps = 0; htc_reader_left(&r) > 0 && steps < 500; steps++) {
        change(book, &m, &r);
        check(book, &m);
    }
    htc_allot_book_destroy(book);
    return 0;
}
