/* A book of users: who is in it, and what they ask for. */
#include "sched/allot/allot_book.h"

#include <assert.h>
#include <string.h>

#include "core/util.h"

void htc_allot_book_options_init(htc_allot_book_options *options, size_t size)
{
    htc__options_init(options, size);
}

htc_status htc_allot_book_create(const htc_env *env, const htc_allot_book_options *options, htc_allot_book **out)
{
    htc_allot_book_options o = HTC_ALLOT_BOOK_OPTIONS_INIT;
    htc_status status = htc__options_copy(&o, sizeof o, options, options ? options->size : 0, sizeof o.size);
    if (status != HTC_OK)
        return status;
    if (!out || o.users_max > HTC_ALLOT_USERS_MAX || o.slots > HTC_ALLOT_BOOK_SLOTS_MAX)
        return HTC_EINVAL;
    htc_allot_book *b = htc__alloc(env, sizeof *b);
    if (!b)
        return HTC_ENOMEM;
    b->env = env;
    b->slots = o.slots;
    b->users_max = (uint32_t)(o.users_max ? o.users_max : HTC_ALLOT_USERS_MAX);
    b->free_user = HTC_ALLOT_NOBODY;
    htc__book_settle(b, HTC_ALLOT_NOBODY);
    *out = b;
    return HTC_OK;
}

void htc_allot_book_destroy(htc_allot_book *book)
{
    if (!book)
        return;
    for (size_t i = 0; i < HTC__BOOK_ARRAYS; i++)
        htc__free(book->env, book->arrays[i].block, book->arrays[i].block_bytes);
    htc__free(book->env, book, sizeof *book);
}

static void *aligned(void *block)
{
    return block ? (char *)block + (0 - (uintptr_t)block) % HTC__LINE : NULL;
}

/* An array with room for so many, new elements zero; NULL: the old one is as it was. */
static void *grown(htc_allot_book *book, int which, size_t size, uint32_t needed, uint32_t most)
{
    htc__book_array *a = &book->arrays[which];
    uint32_t         room = a->room ? a->room : 16;
    if (needed <= a->room)
        return aligned(a->block);
    while (room < needed)
        room *= 2;
    room = room < most ? room : most;
    size_t bytes = room * size + HTC__LINE;
    void  *block = htc__alloc(book->env, bytes);
    if (!block)
        return NULL;
    if (a->room)
        memcpy(aligned(block), aligned(a->block), a->room * size);
    htc__free(book->env, a->block, a->block_bytes);
    *a = (htc__book_array){ block, bytes, room };
    return aligned(block);
}

/* Room for so many users. */
static htc_status reserve(htc_allot_book *book, uint32_t users, int minimums)
{
    htc__breakpoints *t = &book->breakpoints;
    int           two = minimums || book->minimums;
    uint32_t      shelves = htc__shelves_for((uint64_t)users << two);
    uint32_t      shelves_most = htc__shelves_for((uint64_t)book->users_max << two);
    void         *p = grown(book, HTC__BOOK_USERS, sizeof *book->users, users, book->users_max);
    if (!p)
        return HTC_ENOMEM;
    book->users = p;
    p = grown(book, HTC__BOOK_SHELVES, sizeof *t->shelves, shelves, shelves_most);
    if (!p)
        return HTC_ENOMEM;
    t->shelves = p;
    p = grown(book, HTC__BOOK_BRANCHES, sizeof *t->branches, htc__branches_for(shelves),
              htc__branches_for(shelves_most));
    if (!p)
        return HTC_ENOMEM;
    t->branches = p;
    book->minimums = two;
    return HTC_OK;
}

/* Those who are there move up to where others went: all keep their order. */
static void move_up(htc_allot_book *book)
{
    htc__arrivals *a = &book->arrivals;
    uint32_t       used = 0;
    for (uint32_t i = 0; i < a->used; i++) {
        uint64_t weight = a->weights[i];
        a->weights[i] = 0;
        if (a->users[i] == HTC_ALLOT_NOBODY)
            continue;
        book->users[a->users[i]].place = used;
        a->users[used] = a->users[i];
        a->weights[used++] = weight;
    }
    a->used = used;
    htc__arrivals_sum_up(a);
}

/* An array may have grown while another could not. */
static uint32_t places_granted(const htc_allot_book *book)
{
    uint32_t users = book->arrays[HTC__BOOK_PLACES].room, weights = book->arrays[HTC__BOOK_WEIGHTS].room;
    uint32_t sums = book->arrays[HTC__BOOK_SUMS].room * HTC__ARRIVAL_STRETCH;
    uint32_t both = users < weights ? users : weights;
    return both < sums ? both : sums;
}

/* A place for one more in order of arrival. */
static htc_status reserve_place(htc_allot_book *book)
{
    htc__arrivals *a = &book->arrivals;
    uint32_t       places = htc__arrivals_places_for(book->n + 1);
    if (a->used < a->room)
        return HTC_OK;
    if (places <= a->room) {
        move_up(book);
        return HTC_OK;
    }
    uint32_t most = htc__arrivals_places_for(book->users_max);
    uint32_t stretches = htc__arrivals_stretches_for(places), stretches_most = htc__arrivals_stretches_for(most);
    void    *p = grown(book, HTC__BOOK_PLACES, sizeof *a->users, places, most);
    if (!p)
        return HTC_ENOMEM;
    a->users = p;
    p = grown(book, HTC__BOOK_WEIGHTS, sizeof *a->weights, places, most);
    if (!p)
        return HTC_ENOMEM;
    a->weights = p;
    p = grown(book, HTC__BOOK_SUMS, sizeof *a->sums, stretches, stretches_most);
    if (!p)
        return HTC_ENOMEM;
    a->sums = p;
    htc__arrivals_widen(a, places_granted(book));
    return HTC_OK;
}

const htc__book_user *htc__book_user_at(const htc_allot_book *book, uint32_t user)
{
    return user < book->behind && book->users[user].in_use ? &book->users[user] : NULL;
}

/* The user's breakpoints: none without a demand, no low one without a minimum; answers how many. */
static uint32_t corners_of(const htc__book_user *u, uint32_t user, htc__breakpoint *breakpoints)
{
    uint32_t n = 0;
    if (htc__book_promised(&u->claim) > 0)
        breakpoints[n++] = htc__book_corner(u, user, 0);
    if (htc__book_wanted(&u->claim) > 0)
        breakpoints[n++] = htc__book_corner(u, user, 1);
    return n;
}

/* Where the user stands is found when the book settles. */
static void enter(htc_allot_book *book, uint32_t user)
{
    htc__breakpoint c[2];
    uint32_t    n = corners_of(&book->users[user], user, c);
    for (uint32_t i = 0; i < n; i++)
        htc__breakpoints_insert(&book->breakpoints, &c[i]);
}

static void leave(htc_allot_book *book, uint32_t user)
{
    htc__breakpoint c[2];
    uint32_t    n = corners_of(&book->users[user], user, c);
    htc__book_stands(book, user, HTC__BOOK_SATISFIED);
    for (uint32_t i = 0; i < n; i++)
        htc__breakpoints_remove(&book->breakpoints, &c[i]);
}

/* He is about to leave, and to enter with another claim. */
static void expect(const htc_allot_book *book, uint32_t user, const htc_allot_claim *claim)
{
    htc__breakpoint    c[HTC__CORNERS_EXPECTED];
    htc__book_user u = book->users[user];
    uint32_t       n = corners_of(&u, user, c);
    htc__arrivals_expect(&book->arrivals, u.place);
    u.claim = *claim;
    n += corners_of(&u, user, &c[n]);
    htc__breakpoints_expect(&book->breakpoints, c, n);
}

static int is_valid(const htc_allot_claim *c)
{
    return c->weight > 0 && c->weight <= HTC_ALLOT_WEIGHT_MAX && (c->cap == 0 || c->cap >= c->minimum);
}

htc_status htc_allot_book_add(htc_allot_book *book, const htc_allot_claim *claim, uint32_t *user)
{
    if (!book || !claim || !user || !is_valid(claim))
        return HTC_EINVAL;
    if (book->n >= book->users_max)
        return HTC_EFULL;
    uint32_t   number = book->free_user != HTC_ALLOT_NOBODY ? book->free_user : book->behind;
    htc_status status = reserve(book, number < book->behind ? book->behind : number + 1, claim->minimum > 0);
    if (status == HTC_OK)
        status = reserve_place(book);
    if (status != HTC_OK)
        return status;
    htc__book_user *u = &book->users[number];
    if (number == book->behind)
        book->behind++;
    else
        book->free_user = u->place;
    *u = (htc__book_user){
        .claim = *claim, .arrival = book->arrived++, .place = htc__arrivals_come(&book->arrivals, number), .in_use = 1
    };
    book->n++;
    expect(book, number, &(htc_allot_claim){ 0 });
    enter(book, number);
    htc__book_settle(book, number);
    *user = number;
    return HTC_OK;
}

htc_status htc_allot_book_remove(htc_allot_book *book, uint32_t user)
{
    if (!book)
        return HTC_EINVAL;
    if (!htc__book_user_at(book, user))
        return HTC_ENOTFOUND;
    expect(book, user, &(htc_allot_claim){ 0 });
    leave(book, user);
    htc__arrivals_go(&book->arrivals, book->users[user].place);
    book->users[user] = (htc__book_user){ .place = book->free_user };
    book->free_user = user;
    assert(book->n > 0);
    book->n--;
    htc__book_settle(book, HTC_ALLOT_NOBODY);
    return HTC_OK;
}

/* His place in order of arrival stays. */
static htc_status change(htc_allot_book *book, uint32_t user, const htc_allot_claim *claim)
{
    if (!is_valid(claim))
        return HTC_EINVAL;
    if (claim->minimum > 0 && !book->minimums && reserve(book, book->behind, 1) != HTC_OK)
        return HTC_ENOMEM;
    expect(book, user, claim);
    leave(book, user);
    book->users[user].claim = *claim;
    enter(book, user);
    htc__book_settle(book, user);
    return HTC_OK;
}

htc_status htc_allot_book_set_demand(htc_allot_book *book, uint32_t user, uint64_t demand)
{
    htc_allot_claim claim;
    htc_status      status = htc_allot_book_claim(book, user, &claim);
    claim.demand = demand;
    return status == HTC_OK ? change(book, user, &claim) : status;
}

htc_status htc_allot_book_set_weight(htc_allot_book *book, uint32_t user, uint64_t weight)
{
    htc_allot_claim claim;
    htc_status      status = htc_allot_book_claim(book, user, &claim);
    claim.weight = weight;
    return status == HTC_OK ? change(book, user, &claim) : status;
}

htc_status htc_allot_book_set_limits(htc_allot_book *book, uint32_t user, uint64_t minimum, uint64_t cap)
{
    htc_allot_claim claim;
    htc_status      status = htc_allot_book_claim(book, user, &claim);
    claim.minimum = minimum;
    claim.cap = cap;
    return status == HTC_OK ? change(book, user, &claim) : status;
}

htc_status htc_allot_book_set_slots(htc_allot_book *book, uint64_t slots)
{
    if (!book || slots > HTC_ALLOT_BOOK_SLOTS_MAX)
        return HTC_EINVAL;
    book->slots = slots;
    htc__book_settle(book, HTC_ALLOT_NOBODY);
    return HTC_OK;
}

htc_status htc_allot_book_claim(const htc_allot_book *book, uint32_t user, htc_allot_claim *claim)
{
    if (!book || !claim)
        return HTC_EINVAL;
    const htc__book_user *u = htc__book_user_at(book, user);
    if (!u)
        return HTC_ENOTFOUND;
    *claim = u->claim;
    return HTC_OK;
}

htc_status htc_allot_book_share(const htc_allot_book *book, uint32_t user, uint64_t *slots)
{
    if (!book || !slots)
        return HTC_EINVAL;
    if (!htc__book_user_at(book, user))
        return HTC_ENOTFOUND;
    *slots = htc__book_share_of(book, user);
    return HTC_OK;
}

htc_status htc_allot_book_totals(const htc_allot_book *book, htc_allot_totals *totals)
{
    if (!book || !totals)
        return HTC_EINVAL;
    uint64_t wanted = book->breakpoints.total.high_slots;
    *totals = (htc_allot_totals){
        .users = book->n, .slots = book->slots, .wanted = wanted, .given = wanted < book->slots ? wanted : book->slots
    };
    return HTC_OK;
}
