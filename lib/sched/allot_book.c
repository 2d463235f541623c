/* A book of users: who is in it, and what they ask for. */
#include "allot_book.h"

#include <string.h>

#include "core/util.h"

/* Of the cache, in bytes. */
#define LINE 64

htc_allot_book_options htc_allot_book_options_init(void)
{
    return (htc_allot_book_options)HTC_ALLOT_BOOK_OPTIONS_INIT;
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

/* An array with room for the user with this number, new elements zero; NULL: the old one is as it was. */
static void *grown(htc_allot_book *book, int which, size_t size, uint32_t user)
{
    htc__book_array *a = &book->arrays[which];
    uint32_t         room = a->room ? a->room : 16;
    if (user < a->room)
        return aligned(a->block);
    while (room <= user)
        room *= 2;
    room = room < book->users_max ? room : book->users_max;
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

#define GROW(book, array, which, user)                                                                                 \
    do {                                                                                                               \
        void *p_ = grown(book, which, sizeof *(book)->array, user);                                                    \
        if (!p_)                                                                                                       \
            return HTC_ENOMEM;                                                                                         \
        (book)->array = p_;                                                                                            \
    } while (0)

/* Once minimum shares are used, all arrays are. */
static htc_status reserve(htc_allot_book *book, uint32_t user, int minimum)
{
    GROW(book, users, HTC__BOOK_USERS, user);
    GROW(book, corners.nodes[1], HTC__BOOK_HIGH, user);
    if (!minimum && !book->corners.nodes[0])
        return HTC_OK;
    uint32_t last = book->arrays[HTC__BOOK_HIGH].room - 1;
    GROW(book, corners.more[1], HTC__BOOK_HIGH_MORE, last);
    GROW(book, corners.more[0], HTC__BOOK_LOW_MORE, last);
    GROW(book, corners.nodes[0], HTC__BOOK_LOW, last);
    return HTC_OK;
}

const htc__book_user *htc__book_user_at(const htc_allot_book *book, uint32_t user)
{
    return user < book->behind && book->users[user].in_use ? &book->users[user] : NULL;
}

static void enter_corner(htc_allot_book *book, htc__corner_id id, uint64_t slots, const htc__book_user *u)
{
    htc__corner *c = htc__corner_at(&book->corners, id);
    c->slots = slots;
    c->weight = u->claim.weight;
    c->arrival = u->arrival;
    c->shut = 0;
    htc__corners_insert(&book->corners, id);
}

/* Into the tree: nobody who wants nothing, no low corner for him who is promised nothing. Whether he is open is found
 * when the book settles; one without a minimum always is. */
static void enter(htc_allot_book *book, uint32_t user)
{
    const htc__book_user *u = &book->users[user];
    uint64_t              wanted = htc__book_wanted(&u->claim), promised = htc__book_promised(&u->claim);
    if (wanted > 0)
        enter_corner(book, htc__high_corner(user), wanted, u);
    if (promised > 0)
        enter_corner(book, htc__low_corner(user), promised, u);
}

static void leave(htc_allot_book *book, uint32_t user)
{
    const htc_allot_claim *claim = &book->users[user].claim;
    if (htc__book_wanted(claim) > 0)
        htc__corners_remove(&book->corners, htc__high_corner(user));
    if (htc__book_promised(claim) > 0) {
        htc__corners_remove(&book->corners, htc__low_corner(user));
        htc__corner_at(&book->corners, htc__low_corner(user))->weight = 0;
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
    htc_status status = reserve(book, number, claim->minimum > 0);
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
    htc_status status = reserve(book, user, claim->minimum > 0);
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
