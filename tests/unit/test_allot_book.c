/* The book: the tables of the specification, a slow model of it over random changes, its tree, and wrong use. */
#include "expect.h"

#include "../allot_model.h"
#include "alloc_fail.h"
#include "property.h"
#include "sched/allot/allot_book.h"

static htc_allot_book *book_of(uint64_t slots)
{
    htc_allot_book        *book;
    htc_allot_book_options o = HTC_ALLOT_BOOK_OPTIONS_INIT;
    o.slots = slots;
    cr_assert(eq(int, htc_allot_book_create(NULL, &o, &book), HTC_OK));
    return book;
}

static uint64_t share_of(const htc_allot_book *book, uint32_t user)
{
    uint64_t share = 0;
    cr_assert(eq(int, htc_allot_book_share(book, user, &share), HTC_OK));
    return share;
}

typedef struct row {
    htc_allot_claim claim;
    uint64_t        expected;
} row;

#define TABLE(slots, ...)                                                                                              \
    do {                                                                                                               \
        const row       rows[] = { __VA_ARGS__ };                                                                      \
        htc_allot_book *book = book_of(slots);                                                                         \
        uint32_t        user;                                                                                          \
        for (uint32_t i = 0; i < sizeof rows / sizeof *rows; i++) {                                                    \
            cr_assert(eq(int, htc_allot_book_add(book, &rows[i].claim, &user), HTC_OK));                               \
            cr_assert(eq(u32, user, i));                                                                               \
        }                                                                                                              \
        for (uint32_t i = 0; i < sizeof rows / sizeof *rows; i++)                                                      \
            cr_expect(eq(u64, share_of(book, i), rows[i].expected), "A=%d user %u", (int)(slots), i);                  \
        htc_allot_book_destroy(book);                                                                                  \
    } while (0)

/* The tables of the specification, section 3.5. With fewer slots than users they go to others than in one call: those
 * whom rounding up reaches first. */
Test(allot_book, divides_as_the_worked_tables_say)
{
    TABLE(10, { { 1, 100, 0, 0 }, 4 }, { { 1, 100, 0, 0 }, 3 }, { { 1, 100, 0, 0 }, 3 });
    TABLE(3, { { 1, 9, 0, 0 }, 1 }, { { 1, 9, 0, 0 }, 1 }, { { 1, 9, 0, 0 }, 0 }, { { 1, 9, 0, 0 }, 1 },
          { { 1, 9, 0, 0 }, 0 });
    TABLE(10, { { 2, 100, 0, 0 }, 5 }, { { 1, 100, 0, 0 }, 3 }, { { 1, 100, 0, 0 }, 2 });
    TABLE(10, { { 1, 1, 0, 0 }, 1 }, { { 1, 100, 0, 0 }, 5 }, { { 1, 100, 0, 0 }, 4 });
    TABLE(10, { { 3, 4, 0, 0 }, 4 }, { { 1, 100, 0, 0 }, 6 });
    TABLE(0, { { 1, 5, 0, 0 }, 0 }, { { 7, 5, 0, 0 }, 0 });
    TABLE(10, { { 1, 0, 0, 0 }, 0 }, { { 1, 0, 0, 0 }, 0 });
    TABLE(100, { { 1, 100, 0, 0 }, 40 }, { { 1, 50, 0, 0 }, 40 }, { { 1, 20, 0, 0 }, 20 }); /* t3 under maxmin */
}

/* Whatever they want and weigh, and whoever stands between them without dividing. */
Test(allot_book, gives_the_odd_slots_in_order_of_arrival)
{
    TABLE(10, { { 1, 99, 0, 0 }, 4 }, { { 1, 50, 0, 0 }, 3 }, { { 1, 70, 0, 0 }, 3 });
    TABLE(10, { { 1, 50, 0, 0 }, 4 }, { { 1, 70, 0, 0 }, 3 }, { { 1, 99, 0, 0 }, 3 });
    TABLE(11, { { 1, 99, 0, 0 }, 4 }, { { 1, 1, 0, 0 }, 1 }, { { 1, 50, 0, 0 }, 3 }, { { 1, 70, 0, 0 }, 3 });
    TABLE(21, { { 2, 99, 0, 0 }, 6 }, { { 1, 40, 9, 0 }, 9 }, { { 1, 60, 0, 0 }, 3 }, { { 1, 20, 0, 0 }, 3 });
    TABLE(22, { { 2, 99, 0, 0 }, 7 }, { { 1, 40, 9, 0 }, 9 }, { { 1, 60, 0, 0 }, 3 }, { { 1, 20, 0, 0 }, 3 });
    TABLE(7, { { 1, 99, 0, 0 }, 3 }, { { 2, 50, 0, 0 }, 4 }); /* 2.33 and 4.67 */
    TABLE(7, { { 2, 50, 0, 0 }, 5 }, { { 1, 99, 0, 0 }, 2 });
}

/* A user that changes a claim keeps the turn; one that leaves and comes back has the last one. */
Test(allot_book, arrival_is_when_a_user_was_added)
{
    htc_allot_book       *book = book_of(10);
    const htc_allot_claim claim = { .weight = 1, .demand = 90 };
    uint32_t              user;
    for (uint32_t i = 0; i < 3; i++)
        cr_assert(eq(int, htc_allot_book_add(book, &claim, &user), HTC_OK));
    cr_expect(share_of(book, 0) == 4 && share_of(book, 1) == 3 && share_of(book, 2) == 3);
    cr_assert(eq(int, htc_allot_book_set_demand(book, 0, 0), HTC_OK));
    cr_expect(share_of(book, 0) == 0 && share_of(book, 1) == 5 && share_of(book, 2) == 5);
    cr_assert(eq(int, htc_allot_book_set_demand(book, 0, 99), HTC_OK));
    cr_assert(eq(int, htc_allot_book_set_limits(book, 0, 1, 80), HTC_OK));
    cr_expect(share_of(book, 0) == 4 && share_of(book, 1) == 3 && share_of(book, 2) == 3);
    cr_assert(eq(int, htc_allot_book_remove(book, 0), HTC_OK));
    cr_assert(eq(int, htc_allot_book_add(book, &claim, &user), HTC_OK));
    cr_expect(eq(u32, user, 0));
    cr_expect(share_of(book, 0) == 3 && share_of(book, 1) == 4 && share_of(book, 2) == 3);
    htc_allot_book_destroy(book);
}

Test(allot_book, keeps_minimums_and_caps)
{
    TABLE(100, { { 1, 200, 70, 0 }, 70 }, { { 1, 200, 0, 0 }, 15 }, { { 1, 200, 0, 0 }, 15 });
    TABLE(100, { { 1, 200, 10, 0 }, 50 }, { { 1, 200, 0, 0 }, 50 }); /* a minimum below the share changes nothing */
    TABLE(100, { { 1, 200, 0, 10 }, 10 }, { { 1, 200, 0, 0 }, 90 });
    TABLE(100, { { 1, 5, 70, 0 }, 5 }, { { 1, 200, 0, 0 }, 95 });     /* no user gets slots without work for them */
    TABLE(100, { { 9, 200, 20, 20 }, 20 }, { { 1, 200, 0, 0 }, 80 }); /* neither more nor less */
    TABLE(100, { { 1, 200, 60, 0 }, 60 }, { { 1, 200, 40, 0 }, 40 }, { { 1, 9, 0, 0 }, 0 });
    TABLE(99, { { 1, 200, 60, 0 }, 45 }, { { 1, 200, 40, 0 }, 45 },
          { { 1, 9, 0, 0 }, 9 }); /* more minimums than slots: void */
    TABLE(10, { { 1, UINT64_MAX, 0, 0 }, 5 }, { { 1, UINT64_MAX, 0, UINT64_MAX }, 5 });
}

/* Why no book has all changes and shares in O(log n), tried out (doc/papers.md#allot): a share says whether the points up to x that
 * lie above k are even or odd in number. A point (x, y) is user 2x, wanting y; the probe beside it is user 2x + 1. */
Test(allot_book, a_share_says_whether_points_in_the_plane_are_even_in_number)
{
    enum { X = 30, Y = 9 };
    PROPERTY(rng, 200)
    {
        htc_allot_book       *book = book_of(0);
        const htc_allot_claim nothing = { .weight = 1 };
        uint64_t              y[X] = { 0 };
        uint32_t              user;
        for (uint32_t i = 0; i <= 2 * X; i++)
            HOLDS(htc_allot_book_add(book, &nothing, &user) == HTC_OK && user == i);
        for (int step = 0; step < 60; step++) {
            uint64_t at = htc_rng_below(&rng, X), x = htc_rng_below(&rng, X), k = htc_rng_below(&rng, Y);
            y[at] = htc_rng_below(&rng, Y + 1); /* a point comes, moves or goes */
            HOLDS(htc_allot_book_set_demand(book, (uint32_t)(2 * at), y[at]) == HTC_OK);
            uint64_t above = 0, below = 0, counted = 0;
            for (uint64_t i = 0; i < X; i++) {
                above += y[i] > k;
                below += y[i] > k ? 0 : y[i];
                counted += i <= x && y[i] > k;
            }
            uint64_t divide = above + 1 + (above + 1) % 2; /* the probe too, and the last one if that makes it even */
            HOLDS(htc_allot_book_set_demand(book, (uint32_t)(2 * x + 1), k + 1) == HTC_OK);
            HOLDS(htc_allot_book_set_demand(book, 2 * X, divide > above + 1 ? k + 1 : 0) == HTC_OK);
            HOLDS(htc_allot_book_set_slots(book, below + divide * k + divide / 2) == HTC_OK);
            HOLDS(share_of(book, (uint32_t)(2 * x + 1)) == k + (counted % 2 == 0));
            HOLDS(htc_allot_book_set_demand(book, (uint32_t)(2 * x + 1), 0) == HTC_OK);
        }
        htc_allot_book_destroy(book);
    }
}

Test(allot_book, numbers_are_small_and_given_again)
{
    htc_allot_book_options o = { .size = sizeof o, .users_max = 20, .slots = 7 };
    const htc_allot_claim  one = { .weight = 1, .demand = 1 };
    htc_allot_totals       totals;
    htc_allot_claim        claim;
    htc_allot_book        *book;
    uint32_t               user;
    cr_assert(eq(int, htc_allot_book_create(NULL, &o, &book), HTC_OK));
    for (uint32_t i = 0; i < 20; i++) {
        cr_assert(eq(int, htc_allot_book_add(book, &one, &user), HTC_OK));
        cr_assert(eq(u32, user, i));
    }
    cr_expect(eq(int, htc_allot_book_add(book, &one, &user), HTC_EFULL));
    cr_expect(eq(int, htc_allot_book_remove(book, 3), HTC_OK));
    cr_expect(eq(int, htc_allot_book_remove(book, 3), HTC_ENOTFOUND));
    cr_expect(eq(int, htc_allot_book_claim(book, 3, &claim), HTC_ENOTFOUND));
    cr_assert(eq(int, htc_allot_book_add(book, &one, &user), HTC_OK));
    cr_expect(eq(u32, user, 3));
    cr_expect(eq(int, htc_allot_book_remove(book, 3), HTC_OK));
    cr_expect(eq(int, htc_allot_book_remove(book, 5), HTC_OK));
    cr_assert(eq(int, htc_allot_book_add(book, &one, &user), HTC_OK));
    cr_expect(eq(u32, user, 5), "the one that was given back last");
    cr_assert(eq(int, htc_allot_book_add(book, &one, &user), HTC_OK));
    cr_expect(eq(u32, user, 3));
    cr_expect(eq(int, htc_allot_book_totals(book, &totals), HTC_OK));
    cr_expect(totals.users == 20 && totals.slots == 7 && totals.wanted == 20 && totals.given == 7);
    cr_expect(eq(int, htc_allot_book_claim(book, 3, &claim), HTC_OK));
    cr_expect(claim.weight == 1 && claim.demand == 1 && claim.minimum == 0 && claim.cap == 0);
    htc_allot_book_destroy(book);
}

Test(allot_book, refuses_wrong_use)
{
    const htc_allot_claim  good = { .weight = 1, .demand = 5 };
    const htc_allot_claim  bad[] = { { .weight = 0 },
                                     { .weight = HTC_ALLOT_WEIGHT_MAX + 1 },
                                     { .weight = 1, .minimum = 5, .cap = 4 } };
    htc_allot_book        *book = NULL;
    uint32_t               user = 77;
    uint64_t               share = 77;
    htc_allot_claim        claim;
    htc_allot_reason       reason;
    htc_allot_totals       totals;
    htc_allot_book_options o;
    struct {
        htc_allot_book_options known;
        uint64_t               newer;
    } newer = { { .size = sizeof newer }, 1 };
    htc_allot_book_options_init(NULL, 8);
    htc_allot_book_options_init(&o, sizeof o);
    o.users_max = HTC_ALLOT_USERS_MAX + 1;
    cr_expect(eq(int, htc_allot_book_create(NULL, &o, &book), HTC_EINVAL));
    o = (htc_allot_book_options){ .size = sizeof o, .slots = HTC_ALLOT_BOOK_SLOTS_MAX + 1 };
    cr_expect(eq(int, htc_allot_book_create(NULL, &o, &book), HTC_EINVAL));
    o.size = 0;
    cr_expect(eq(int, htc_allot_book_create(NULL, &o, &book), HTC_EINVAL));
    cr_expect(eq(int, htc_allot_book_create(NULL, &newer.known, &book), HTC_EABI));
    cr_expect(eq(int, htc_allot_book_create(NULL, NULL, NULL), HTC_EINVAL));
    cr_expect(book == NULL, "untouched on failure");
    cr_assert(eq(int, htc_allot_book_create(NULL, NULL, &book), HTC_OK));
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        cr_expect(eq(int, htc_allot_book_add(book, &bad[i], &user), HTC_EINVAL));
    cr_expect(eq(int, htc_allot_book_add(NULL, &good, &user), HTC_EINVAL));
    cr_expect(eq(int, htc_allot_book_add(book, NULL, &user), HTC_EINVAL));
    cr_expect(eq(int, htc_allot_book_add(book, &good, NULL), HTC_EINVAL));
    cr_expect(eq(u32, user, 77));
    for (uint32_t i = 0; i < 3; i++) {
        static const uint32_t unknown[] = { 0, 1, HTC_ALLOT_NOBODY };
        cr_expect(eq(int, htc_allot_book_remove(book, unknown[i]), HTC_ENOTFOUND));
        cr_expect(eq(int, htc_allot_book_set_demand(book, unknown[i], 1), HTC_ENOTFOUND));
        cr_expect(eq(int, htc_allot_book_set_weight(book, unknown[i], 1), HTC_ENOTFOUND));
        cr_expect(eq(int, htc_allot_book_set_limits(book, unknown[i], 1, 1), HTC_ENOTFOUND));
        cr_expect(eq(int, htc_allot_book_share(book, unknown[i], &share), HTC_ENOTFOUND));
        cr_expect(eq(int, htc_allot_book_claim(book, unknown[i], &claim), HTC_ENOTFOUND));
        cr_expect(eq(int, htc_allot_explain(book, unknown[i], &reason), HTC_ENOTFOUND));
    }
    cr_assert(eq(int, htc_allot_book_add(book, &good, &user), HTC_OK));
    cr_expect(eq(int, htc_allot_book_set_weight(book, user, 0), HTC_EINVAL));
    cr_expect(eq(int, htc_allot_book_set_limits(book, user, 2, 1), HTC_EINVAL));
    cr_expect(eq(int, htc_allot_book_set_slots(book, HTC_ALLOT_BOOK_SLOTS_MAX + 1), HTC_EINVAL));
    cr_expect(eq(int, htc_allot_book_set_slots(book, HTC_ALLOT_BOOK_SLOTS_MAX), HTC_OK));
    cr_expect(eq(int, htc_allot_book_remove(NULL, user), HTC_EINVAL));
    cr_expect(eq(int, htc_allot_book_set_demand(NULL, user, 1), HTC_EINVAL));
    cr_expect(eq(int, htc_allot_book_set_slots(NULL, 1), HTC_EINVAL));
    cr_expect(eq(int, htc_allot_book_share(book, user, NULL), HTC_EINVAL));
    cr_expect(eq(int, htc_allot_book_share(NULL, user, &share), HTC_EINVAL));
    cr_expect(eq(int, htc_allot_book_claim(book, user, NULL), HTC_EINVAL));
    cr_expect(eq(int, htc_allot_book_totals(NULL, &totals), HTC_EINVAL));
    cr_expect(eq(int, htc_allot_book_totals(book, NULL), HTC_EINVAL));
    cr_expect(eq(int, htc_allot_explain(book, user, NULL), HTC_EINVAL));
    cr_expect(eq(u64, share, 77));
    htc_allot_book_destroy(book);
    htc_allot_book_destroy(NULL);
}

/* ---- random changes against the model ---- */

/* Small numbers, so that many are equal; sometimes as large as can be. */
static uint64_t number(htc_rng *rng, uint64_t most)
{
    static const uint64_t scale[] = { 3, 3, 12, 100, 100000, UINT64_MAX };
    uint64_t              span = scale[htc_rng_below(rng, 6)];
    return htc_rng_below(rng, span < most ? span + 1 : most);
}

static htc_allot_claim random_claim(htc_rng *rng)
{
    htc_allot_claim c = { .weight = number(rng, HTC_ALLOT_WEIGHT_MAX) + 1, .demand = number(rng, UINT64_MAX) };
    if (htc_rng_below(rng, 2))
        c.minimum = number(rng, 40);
    if (htc_rng_below(rng, 3) == 0)
        c.cap = c.minimum + number(rng, 100);
    return c;
}

/* A way through the tree from its first breakpoint to its last. */
typedef struct walk {
    const htc_allot_book *book;
    const htc__breakpoint    *last;
    uint32_t              shelf, shelves, branches;
} walk;

static int are_same(const htc__breakpoint_sums *a, const htc__breakpoint_sums *b)
{
    return a->high_slots == b->high_slots && a->high_weight == b->high_weight && a->low_slots == b->low_slots &&
           a->low_weight == b->low_weight && a->high_users == b->high_users && a->low_users == b->low_users &&
           a->shut_users == b->shut_users;
}

static htc__breakpoint_sums check_shelf(walk *w, uint32_t at)
{
    const htc__shelf *s = &w->book->breakpoints.shelves[at];
    htc__breakpoint_sums  sums = { 0 };
    HOLDS(s->next[0] == w->shelf && (w->shelf == 0 || w->book->breakpoints.shelves[w->shelf].next[1] == at));
    w->shelf = at;
    w->shelves++;
    for (uint32_t i = 0; i < s->n; i++) {
        const htc__breakpoint *c = &s->on[i], *last = w->last;
        htc__breakpoint_sums   own = htc__breakpoint_own(c);
        int                order = last ? htc__compare_ratio(last->slots, last->weight, c->slots, c->weight) : -1;
        HOLDS(order < 0 || (order == 0 && (last->arrival < c->arrival || (last->arrival == c->arrival && c->high))));
        HOLDS(c->arrival == w->book->users[c->user].arrival);
        htc__sums_add(&sums, &own);
        w->last = c;
    }
    return sums;
}

/* Links, order, filling and sums of a subtree. */
static htc__breakpoint_sums check_tree(walk *w, uint32_t at, uint32_t height)
{
    const htc__breakpoints *t = &w->book->breakpoints;
    htc__breakpoint_sums    sums = { 0 };
    if (height == 0)
        return check_shelf(w, at);
    const htc__branch *b = &t->branches[at];
    w->branches++;
    for (uint32_t i = 0; i < b->n; i++) {
        uint32_t         n = height > 1 ? t->branches[b->part[i]].n : t->shelves[b->part[i]].n;
        htc__breakpoint_sums part = check_tree(w, b->part[i], height - 1);
        HOLDS(b->has[i] == n && n >= (uint32_t)(height > 1 ? HTC__BRANCH_LEAST : HTC__SHELF_LEAST));
        HOLDS(n <= (uint32_t)(height > 1 ? HTC__BRANCH_PARTS : HTC__SHELF_CORNERS));
        HOLDS(b->last[i].slots == w->last->slots && b->last[i].weight == w->last->weight);
        HOLDS(b->last[i].arrival == w->last->arrival && b->last[i].high == w->last->high);
        HOLDS(are_same(&part, &b->sums[i]));
        htc__sums_add(&sums, &part);
    }
    return sums;
}

static void expect_whole_tree(const htc_allot_book *book)
{
    const htc__breakpoints *t = &book->breakpoints;
    walk                w = { .book = book };
    htc__breakpoint_sums    sums = { 0 };
    if (t->root) {
        sums = check_tree(&w, t->root, t->height);
        HOLDS(w.last && t->shelves[w.shelf].next[1] == 0 && (t->height == 0 || t->branches[t->root].n > 1));
    }
    HOLDS(are_same(&sums, &t->total));
    HOLDS(w.shelves < htc__shelves_for(sums.high_users + sums.low_users));
    HOLDS(w.branches < htc__branches_for(htc__shelves_for(sums.high_users + sums.low_users)));
}

/* Every user that is there has a place, in order of arrival, and the sums are those of the weights. */
static void expect_order_of_arrival(const htc_allot_book *book)
{
    const htc__arrivals *a = &book->arrivals;
    uint64_t             sum = 0, last = 0;
    uint32_t             users = 0;
    for (uint32_t i = 0; i < a->used; i++) {
        if (a->users[i] == HTC_ALLOT_NOBODY) {
            HOLDS(a->weights[i] == 0);
            continue;
        }
        const htc__book_user *u = htc__book_user_at(book, a->users[i]);
        HOLDS(u && u->place == i && (users++ == 0 || u->arrival > last));
        HOLDS(a->weights[i] == (u->stand == HTC__BOOK_DIVIDING ? u->claim.weight : 0));
        HOLDS(htc__arrivals_before(a, i) == sum);
        sum += a->weights[i];
        last = u->arrival;
    }
    HOLDS(users == book->n && (sum == book->level.weight) == (book->late.at.weight == 0));
}

static uint64_t share_with(allot_model m, size_t i, uint64_t slots)
{
    m.slots = slots;
    allot_model_divide(&m);
    return m.users[i].share;
}

static void expect_reason(const htc_allot_book *book, const allot_model *m, size_t i)
{
    const allot_model_user *u = &m->users[i];
    htc_allot_reason        r;
    uint32_t                users[3] = { 0 };
    uint64_t                slots[3] = { 0 };
    size_t                  next = allot_model_next(m);
    for (size_t j = 0; j < m->n; j++) {
        users[m->users[j].stand] += m->users[j].high > 0;
        slots[m->users[j].stand] += m->users[j].share;
    }
    HOLDS(htc_allot_explain(book, u->number, &r) == HTC_OK);
    HOLDS(r.share == u->share && r.wanted == u->high && r.minimums_void == (uint32_t)m->minimums_void);
    HOLDS(r.level_slots == m->level_slots && r.level_weight == m->level_weight);
    HOLDS(r.satisfied_users == users[MODEL_SATISFIED] && r.satisfied_slots == slots[MODEL_SATISFIED]);
    HOLDS(r.dividing_users == users[MODEL_DIVIDING] && r.dividing_slots == slots[MODEL_DIVIDING]);
    HOLDS(r.promised_users == users[MODEL_PROMISED] && r.promised_slots == slots[MODEL_PROMISED]);
    HOLDS(r.next == (next < m->n ? m->users[next].number : HTC_ALLOT_NOBODY));
    if (u->share < u->high)
        HOLDS(r.limit == (u->stand == MODEL_PROMISED ? HTC_ALLOT_BY_MINIMUM : HTC_ALLOT_BY_WEIGHT));
    else
        HOLDS(r.limit ==
              (u->claim.cap == u->high && u->claim.demand > u->high ? HTC_ALLOT_BY_CAP : HTC_ALLOT_BY_DEMAND));
    if (r.slots_needed <= HTC_ALLOT_BOOK_SLOTS_MAX)
        HOLDS(share_with(*m, i, r.slots_needed) == u->high);
    if (r.slots_needed > 0 && r.slots_needed <= HTC_ALLOT_BOOK_SLOTS_MAX) {
        allot_model less = *m;
        less.slots = r.slots_needed - 1;
        allot_model_divide(&less);
        HOLDS(less.users[i].stand != MODEL_SATISFIED);
    }
    HOLDS(r.text[0] && !memchr(r.text, '\n', strlen(r.text)) && strlen(r.text) < sizeof r.text - 1);
}

static void expect_as_model(const htc_allot_book *book, allot_model *m)
{
    htc_allot_totals totals;
    allot_model_divide(m);
    HOLDS(allot_model_is_fair(m));
    for (size_t i = 0; i < m->n; i++)
        HOLDS(share_of(book, m->users[i].number) == m->users[i].share);
    HOLDS(htc_allot_book_totals(book, &totals) == HTC_OK);
    HOLDS(totals.users == m->n && totals.slots == m->slots && totals.wanted == m->wanted);
    HOLDS(totals.given == (m->wanted < m->slots ? m->wanted : m->slots));
    expect_whole_tree(book);
    expect_order_of_arrival(book);
}

static void random_change(htc_rng *rng, htc_allot_book *book, allot_model *m, size_t users_most)
{
    uint64_t          what = htc_rng_below(rng, 8);
    size_t            i = htc_rng_below(rng, m->n ? m->n : 1);
    allot_model_user *u = &m->users[i];
    if (what == 0) {
        m->slots = number(rng, HTC_ALLOT_BOOK_SLOTS_MAX);
        HOLDS(htc_allot_book_set_slots(book, m->slots) == HTC_OK);
    } else if (m->n == 0 || (what <= 3 && m->n < users_most)) {
        allot_model_user *new = &m->users[m->n++];
        *new = (allot_model_user){ .claim = random_claim(rng), .arrival = m->arrivals++ };
        HOLDS(htc_allot_book_add(book, &new->claim, &new->number) == HTC_OK);
    } else if (what == 4) {
        HOLDS(htc_allot_book_remove(book, u->number) == HTC_OK);
        *u = m->users[--m->n];
    } else if (what == 5) {
        u->claim.weight = random_claim(rng).weight;
        HOLDS(htc_allot_book_set_weight(book, u->number, u->claim.weight) == HTC_OK);
    } else if (what == 6) {
        htc_allot_claim c = random_claim(rng);
        u->claim.minimum = c.minimum, u->claim.cap = c.cap;
        HOLDS(htc_allot_book_set_limits(book, u->number, c.minimum, c.cap) == HTC_OK);
    } else {
        u->claim.demand = number(rng, UINT64_MAX);
        HOLDS(htc_allot_book_set_demand(book, u->number, u->claim.demand) == HTC_OK);
    }
}

/* Changes move a few of the users one by one and many all at once. In long cases more come than there are places in the
 * order of arrival, and those who are there move up. */
Test(allot_book, agrees_with_the_model, .timeout = 280)
{
    PROPERTY(rng, 3000)
    {
        static allot_model m;
        size_t             users_most = htc_rng_below(&rng, 4) ? htc_rng_below(&rng, 10) + 1 : ALLOT_MODEL_USERS_MAX;
        htc_allot_book    *book = book_of(m.slots = number(&rng, HTC_ALLOT_BOOK_SLOTS_MAX));
        int                steps = htc_rng_below(&rng, 32) ? 60 : 500;
        m.n = 0, m.arrivals = 0;
        for (int step = 0; step < steps; step++) {
            random_change(&rng, book, &m, users_most);
            expect_as_model(book, &m);
            if (m.n > 0)
                expect_reason(book, &m, htc_rng_below(&rng, m.n));
        }
        htc_allot_book_destroy(book);
    }
}

/* Many who want the same for their weight, and a level that goes to and fro past one, two or all such groups: those whom
 * it has passed last are left counted as before, until it goes on. */
Test(allot_book, agrees_with_the_model_where_many_are_alike)
{
    PROPERTY(rng, 150)
    {
        static allot_model m;
        uint64_t           groups = htc_rng_below(&rng, 4) + 1, heavy = htc_rng_below(&rng, 3) + 1;
        uint64_t           full = ALLOT_MODEL_USERS_MAX * groups * 3;
        htc_allot_book    *book = book_of(m.slots = htc_rng_below(&rng, full));
        m.n = 0, m.arrivals = 0;
        for (int step = 0; step < 300; step++) {
            htc_allot_claim c = { .weight = htc_rng_below(&rng, heavy) + 1 };
            c.demand = c.weight * (htc_rng_below(&rng, groups) + 1) * 3;
            c.minimum = htc_rng_below(&rng, 24) ? 0 : htc_rng_below(&rng, 12);
            size_t i = htc_rng_below(&rng, m.n ? m.n : 1), what = htc_rng_below(&rng, 8);
            if (m.n < ALLOT_MODEL_USERS_MAX && (m.n < 20 || what < 2)) {
                allot_model_user *new = &m.users[m.n++];
                *new = (allot_model_user){ .claim = c, .arrival = m.arrivals++ };
                HOLDS(htc_allot_book_add(book, &c, &new->number) == HTC_OK);
            } else if (what == 2) {
                HOLDS(htc_allot_book_remove(book, m.users[i].number) == HTC_OK);
                m.users[i] = m.users[--m.n];
            } else if (what == 3) {
                m.users[i].claim.demand = c.demand;
                HOLDS(htc_allot_book_set_demand(book, m.users[i].number, c.demand) == HTC_OK);
            } else {
                m.slots = what == 4 ? htc_rng_below(&rng, full) : m.slots + htc_rng_below(&rng, 41) - 20;
                m.slots = m.slots > 2 * full ? 0 : m.slots;
                HOLDS(htc_allot_book_set_slots(book, m.slots) == HTC_OK);
            }
            expect_as_model(book, &m);
            expect_reason(book, &m, htc_rng_below(&rng, m.n));
        }
        htc_allot_book_destroy(book);
    }
}

/* Both round by less than one from the same exact share. */
Test(allot_book, differs_from_one_call_by_at_most_one)
{
    PROPERTY(rng, 2000)
    {
        htc_allot_options o = { .size = sizeof o, .policy = HTC_ALLOT_MAXMIN, .min_agents = HTC_ALLOT_NO_MINIMUM };
        htc_allot_user    users[20];
        htc_allot_share   shares[20];
        size_t            n = htc_rng_below(&rng, 20) + 1;
        uint64_t          slots = number(&rng, HTC_ALLOT_BOOK_SLOTS_MAX);
        htc_allot_book   *book = book_of(slots);
        uint32_t          user;
        for (size_t i = 0; i < n; i++) {
            users[i] = (htc_allot_user){ .weight = number(&rng, HTC_ALLOT_WEIGHT_MAX) + 1,
                                         .queued = number(&rng, UINT64_MAX),
                                         .id = i };
            htc_allot_claim claim = { .weight = users[i].weight, .demand = users[i].queued };
            HOLDS(htc_allot_book_add(book, &claim, &user) == HTC_OK);
        }
        HOLDS(htc_allot(NULL, &o, users, n, slots, shares) == HTC_OK);
        for (size_t i = 0; i < n; i++) {
            uint64_t a = share_of(book, (uint32_t)i), b = shares[i].ra;
            HOLDS(a <= b + 1 && b <= a + 1);
        }
        htc_allot_book_destroy(book);
    }
}

/* Users who come in order of what they want, all with a minimum, and slots that come and go: what would make an
 * unbalanced tree or marking one by one take hours. */
Test(allot_book, bears_many_users_in_the_worst_order, .timeout = 120)
{
    enum { N = 1 << 16 };
    htc_allot_book *book = book_of(0);
    uint32_t        user;
    for (uint32_t i = 0; i < N; i++) {
        htc_allot_claim claim = { .weight = 1, .demand = 2 * i + 2, .minimum = i / 2 };
        cr_assert(eq(int, htc_allot_book_add(book, &claim, &user), HTC_OK));
    }
    for (uint64_t slots = 1; slots <= HTC_ALLOT_BOOK_SLOTS_MAX; slots *= 4) {
        uint64_t         sum = 0;
        htc_allot_totals totals;
        cr_assert(eq(int, htc_allot_book_set_slots(book, slots), HTC_OK));
        cr_assert(eq(int, htc_allot_book_totals(book, &totals), HTC_OK));
        for (uint32_t i = 0; i < N; i++)
            sum += share_of(book, i);
        cr_expect(eq(u64, sum, totals.given));
    }
    for (uint32_t i = 0; i < N; i++)
        cr_assert(eq(int, htc_allot_book_remove(book, i), HTC_OK));
    htc_allot_book_destroy(book);
}

/* The model is too slow for more than a shelf or two of breakpoints. Here there are dozens, and the tree grows, shrinks and
 * turns: it is looked at now and then, and in the end all shares are added up. */
Test(allot_book, stays_in_order_with_many_users, .timeout = 120)
{
    enum { N = 3000 };
    PROPERTY(rng, 12)
    {
        static uint32_t numbers[N];
        htc_allot_book *book = book_of(number(&rng, 100000));
        size_t          n = 0, most = 500 + htc_rng_below(&rng, N - 500);
        for (int step = 0; step < 20000; step++) {
            int             grows = step / 4000 % 2 == 0;
            htc_allot_claim c = random_claim(&rng);
            size_t          i = htc_rng_below(&rng, n ? n : 1);
            if (n == 0 || (n < most && htc_rng_below(&rng, 4) < (grows ? 3 : 1))) {
                HOLDS(htc_allot_book_add(book, &c, &numbers[n++]) == HTC_OK);
            } else if (htc_rng_below(&rng, 4) < (grows ? 1 : 3)) {
                HOLDS(htc_allot_book_remove(book, numbers[i]) == HTC_OK);
                numbers[i] = numbers[--n];
            } else if (step % 2) {
                HOLDS(htc_allot_book_set_demand(book, numbers[i], c.demand) == HTC_OK);
            } else {
                HOLDS(htc_allot_book_set_slots(book, number(&rng, 1000000)) == HTC_OK);
            }
            if (step % 500 == 0) {
                expect_whole_tree(book);
                expect_order_of_arrival(book);
            }
        }
        uint64_t         sum = 0;
        htc_allot_totals totals;
        HOLDS(htc_allot_book_totals(book, &totals) == HTC_OK);
        for (size_t i = 0; i < n; i++)
            sum += share_of(book, numbers[i]);
        HOLDS(sum == totals.given);
        for (; n > 0; n--)
            HOLDS(htc_allot_book_remove(book, numbers[n - 1]) == HTC_OK);
        HOLDS(book->breakpoints.root == 0);
        htc_allot_book_destroy(book);
    }
}

/* The largest numbers there are: nothing overflows. */
Test(allot_book, divides_the_largest_numbers)
{
    enum { N = 1 << 12 };
    htc_allot_book  *book = book_of(HTC_ALLOT_BOOK_SLOTS_MAX);
    uint64_t         sum = 0;
    uint32_t         user;
    htc_allot_reason r;
    for (uint32_t i = 0; i < N; i++) {
        htc_allot_claim claim = { .weight = i ? HTC_ALLOT_WEIGHT_MAX : 1,
                                  .demand = UINT64_MAX,
                                  .minimum = i % 2 ? 0 : HTC_ALLOT_BOOK_SLOTS_MAX / N };
        cr_assert(eq(int, htc_allot_book_add(book, &claim, &user), HTC_OK));
    }
    for (uint32_t i = 0; i < N; i++)
        sum += share_of(book, i);
    cr_expect(eq(u64, sum, HTC_ALLOT_BOOK_SLOTS_MAX));
    cr_assert(eq(int, htc_allot_explain(book, 0, &r), HTC_OK));
    cr_expect(eq(u32, r.limit, HTC_ALLOT_BY_MINIMUM));
    htc_allot_book_destroy(book);
}

/* ---- out of memory ---- */

static void grow_without_memory(alloc_fail *f)
{
    htc_env         env = alloc_fail_env(f);
    htc_allot_book *book = NULL;
    allot_model     m = { .slots = 50 };
    if (htc_allot_book_create(&env, NULL, &book) != HTC_OK) {
        cr_expect(f->refused > 0 && f->live == 0);
        return;
    }
    cr_assert(eq(int, htc_allot_book_set_slots(book, 50), HTC_OK));
    for (uint32_t i = 0; i < 80; i++) { /* one in four goes: more come than ever are there */
        htc_allot_claim claim = { .weight = i + 1, .demand = i, .minimum = i % 5 == 4 };
        uint32_t        user = 77;
        if (i % 4 == 3 && m.n > 0) {
            cr_assert(eq(int, htc_allot_book_remove(book, m.users[0].number), HTC_OK));
            m.users[0] = m.users[--m.n];
        } else {
            htc_status status = htc_allot_book_add(book, &claim, &user);
            cr_assert(status == HTC_OK || (status == HTC_ENOMEM && f->refused && user == 77));
            if (status == HTC_OK)
                m.users[m.n++] = (allot_model_user){ .claim = claim, .number = user, .arrival = i };
        }
        expect_as_model(book, &m);
    }
    for (size_t i = 0; i < m.n; i++) {
        htc_status status = htc_allot_book_set_limits(book, m.users[i].number, 2, 9);
        cr_assert(status == HTC_OK || (status == HTC_ENOMEM && f->refused));
        if (status == HTC_OK)
            m.users[i].claim.minimum = 2, m.users[i].claim.cap = 9;
        expect_as_model(book, &m);
    }
    htc_allot_book_destroy(book);
    cr_expect(f->live == 0 && f->wrong_sizes == 0);
}

Test(allot_book, stays_as_it_was_without_memory)
{
    property_seed = 0;
    ALLOC_FAIL_ONCE(f, 100)
    grow_without_memory(&f);
    ALLOC_FAIL_EVERY(f, 100)
    grow_without_memory(&f);
}

/* ---- explanations ---- */

Test(allot_book, explains_in_a_sentence)
{
    static const struct {
        uint64_t        slots;
        htc_allot_claim claims[4];
        uint32_t        user, limit;
        const char     *text;
    } table[] = {
        { 10, { { 1, 4, 0, 0 }, { 1, 100, 0, 0 } }, 0, HTC_ALLOT_BY_DEMAND, "user 0 has all 4 slots that they have work for" },
        { 10, { { 1, 0, 0, 0 }, { 1, 100, 0, 0 } }, 0, HTC_ALLOT_BY_DEMAND, "user 0 wants no slots" },
        { 10, { { 1, 1, 0, 0 }, { 1, 100, 0, 0 } }, 0, HTC_ALLOT_BY_DEMAND, "user 0 has the 1 slot that they have work for" },
        { 10, { { 1, 9, 0, 1 }, { 1, 100, 0, 0 } }, 0, HTC_ALLOT_BY_CAP, "user 0 has 1 slot, their cap, and work for 9" },
        { 10,
          { { 1, 9, 0, 3 }, { 1, 100, 0, 0 } },
          0,
          HTC_ALLOT_BY_CAP,
          "user 0 has 3 slots, their cap, and work for 9" },
        { 10,
          { { 1, 4, 0, 0 }, { 1, 20, 0, 0 }, { 2, 100, 0, 0 }, { 1, 1, 0, 0 } },
          2,
          HTC_ALLOT_BY_WEIGHT,
          "user 2 has 4 of 100 slots, their weight gives 4.50: 9 slots are divided by weight (users: 3), 1 is with "
          "those "
          "who want no more (users: 1); they wait for user 0, the next to have enough, and with 125 slots in all they "
          "would "
          "have all" },
        { 10,
          { { 1, 50, 6, 0 }, { 1, 60, 0, 0 }, { 1, 70, 0, 0 } },
          0,
          HTC_ALLOT_BY_MINIMUM,
          "user 0 has 6 of 50 slots, their minimum; their weight alone gives 2.00: 4 slots are divided by weight (users: "
          "2), "
          "6 are promised (users: 1); they wait for user 1, the next to have enough, and with 150 slots in all they would "
          "have all" },
        { 10,
          { { 1, 50, 6, 0 }, { 1, 60, 5, 0 } },
          0,
          HTC_ALLOT_BY_WEIGHT,
          "user 0 has 5 of 50 slots, their weight gives 5.00: 10 slots are divided by weight (users: 2); no minimum "
          "counts, "
          "as there are more of them than slots; they are the next to have enough, and with 100 slots in all they would "
          "have "
          "all" },
        { 11,
          { { 1, 50, 6, 0 }, { 1, 60, 5, 0 } },
          0,
          HTC_ALLOT_BY_MINIMUM,
          "user 0 has 6 of 50 slots, their minimum; their weight alone gives 5.00: 5 slots are divided by weight (users: "
          "1), "
          "6 are promised (users: 1); they wait for user 1, the next to have enough, and with 100 slots in all they would "
          "have all" },
    };
    for (size_t i = 0; i < sizeof table / sizeof *table; i++) {
        htc_allot_book  *book = book_of(table[i].slots);
        htc_allot_reason r;
        uint32_t         user;
        for (size_t k = 0; k < 4 && table[i].claims[k].weight; k++)
            cr_assert(eq(int, htc_allot_book_add(book, &table[i].claims[k], &user), HTC_OK));
        cr_assert(eq(int, htc_allot_explain(book, table[i].user, &r), HTC_OK));
        cr_expect(eq(u32, r.limit, table[i].limit), "row %zu", i);
        cr_expect(eq(str, r.text, (char *)table[i].text), "row %zu", i);
        htc_allot_book_destroy(book);
    }
}
