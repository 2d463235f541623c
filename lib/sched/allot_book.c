/* A book of users: who is in it, and what they ask for. */
#include "allot_book.h"

#include <string.h>

#include "core/util.h"

/* Of the cache, in bytes. */
#define LINE 64

void htc_allot_book_options_init(htc_allot_book_options *options)
{
    if (options)
        *options = (htc_allot_book_options)HTC_ALLOT_BOOK_OPTIONS_INIT;
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
    htc__book_settle(b);
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
    return block ? (char *)block + (0 - (uintptr_t)block) % LINE : NULL;
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
    size_t bytes = room * size + LINE;
    void  *block = htc__alloc(book->env, bytes);
    if (!block)
        return NULL;
    if (a->room)
        memcpy(aligned(block), aligned(a->block), a->room * size);
    htc__free(book->env, a->block, a->block_bytes);
    *a = (htc__book_array){ block, bytes, room };
    return aligned(block);
}

/* Room for so many users. Once a minimum has been asked for, each may have two corners. */
static htc_status reserve(htc_allot_book *book, uint32_t users, int minimums)
{
    htc__corners *t = &book->corners;
    int           low_too = minimums || t->more;
    uint32_t      shelves = htc__shelves_for((uint64_t)users << low_too);
    uint32_t      most = htc__shelves_for((uint64_t)book->users_max << low_too);
    void         *p = grown(book, HTC__BOOK_USERS, sizeof *book->users, users, book->users_max);
    if (!p)
        return HTC_ENOMEM;
    book->users = p;
    p = grown(book, HTC__BOOK_SHELVES, sizeof *t->shelves, shelves, most);
    if (!p)
        return HTC_ENOMEM;
    t->shelves = p;
    p = grown(book, HTC__BOOK_CORNERS, sizeof *t->on, shelves, most);
    if (!p)
        return HTC_ENOMEM;
    t->on = p;
    p = low_too ? grown(book, HTC__BOOK_MORE, sizeof *t->more, shelves, most) : NULL;
    if (low_too && !p)
        return HTC_ENOMEM;
    t->more = p;
    return HTC_OK;
}

const htc__book_user *htc__book_user_at(const htc_allot_book *book, uint32_t user)
{
    return user < book->behind && book->users[user].in_use ? &book->users[user] : NULL;
}

/* Into the order: nobody who wants nothing, no low corner for him who is promised nothing. Whether he is shut is found
 * when the book settles; one without a minimum never is. */
static void enter(htc_allot_book *book, uint32_t user)
{
    const htc_allot_claim *claim = &book->users[user].claim;
    for (int high = 0; high < 2; high++)
        if ((high ? htc__book_wanted(claim) : htc__book_promised(claim)) > 0) {
            htc__corner c = htc__book_corner(book, user, high);
            htc__corners_insert(&book->corners, &c);
        }
}

static void leave(htc_allot_book *book, uint32_t user)
{
    const htc_allot_claim *claim = &book->users[user].claim;
    for (int high = 0; high < 2; high++)
        if ((high ? htc__book_wanted(claim) : htc__book_promised(claim)) > 0) {
            htc__corner c = htc__book_corner(book, user, high);
            htc__corners_remove(&book->corners, &c);
        }
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
    if (status != HTC_OK)
        return status;
    htc__book_user *u = &book->users[number];
    if (number == book->behind)
        book->behind++;
    else
        book->free_user = u->next_free;
    *u = (htc__book_user){ .claim = *claim, .arrival = book->arrivals++, .in_use = 1 };
    book->n++;
    enter(book, number);
    htc__book_settle(book);
    *user = number;
    return HTC_OK;
}

htc_status htc_allot_book_remove(htc_allot_book *book, uint32_t user)
{
    if (!book)
        return HTC_EINVAL;
    if (!htc__book_user_at(book, user))
        return HTC_ENOTFOUND;
    leave(book, user);
    book->users[user] = (htc__book_user){ .next_free = book->free_user };
    book->free_user = user;
    book->n--;
    htc__book_settle(book);
    return HTC_OK;
}

/* His place in order of arrival stays. */
static htc_status change(htc_allot_book *book, uint32_t user, const htc_allot_claim *claim)
{
    if (!is_valid(claim))
        return HTC_EINVAL;
    htc_status status = reserve(book, book->behind, claim->minimum > 0);
    if (status != HTC_OK)
        return status;
    leave(book, user);
    book->users[user].claim = *claim;
    enter(book, user);
    htc__book_settle(book);
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
    htc__book_settle(book);
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
    uint64_t wanted = book->corners.total.high_slots;
    *totals = (htc_allot_totals){
        .users = book->n, .slots = book->slots, .wanted = wanted, .given = wanted < book->slots ? wanted : book->slots
    };
    return HTC_OK;
}
