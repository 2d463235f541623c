/* A book of users done slowly: every level at which somebody's share bends is tried, every share is added up anew. For
 * the tests and the fuzzer of htc_allot_book. */
#ifndef HTC_TESTS_ALLOT_MODEL_H
#define HTC_TESTS_ALLOT_MODEL_H

#include "htcsched/allot.h"

__extension__ typedef unsigned __int128 allot_model_u128;

#define ALLOT_MODEL_USERS_MAX 64

enum { MODEL_SATISFIED, MODEL_DIVIDING, MODEL_PROMISED };

typedef struct allot_model_user {
    htc_allot_claim claim;
    uint64_t        arrival;
    uint32_t        number; /* in the book */
    /* What the model finds. */
    uint64_t low, high, share;
    int      stand;
} allot_model_user;

typedef struct allot_model {
    allot_model_user users[ALLOT_MODEL_USERS_MAX];
    size_t           n;
    uint64_t         slots, arrivals;
    /* What the model finds: the level is level_slots / level_weight; weight 0: nobody divides. */
    uint64_t level_slots, level_weight, wanted;
    int      minimums_void;
} allot_model;

static inline uint64_t allot_model_min(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

/* What all take at the level slots / weight, times weight. */
static inline allot_model_u128 allot_model_taken(const allot_model *m, uint64_t slots, uint64_t weight)
{
    allot_model_u128 sum = 0;
    for (size_t i = 0; i < m->n; i++) {
        const allot_model_user *u = &m->users[i];
        allot_model_u128        low = (allot_model_u128)u->low * weight, high = (allot_model_u128)u->high * weight;
        allot_model_u128        fair = (allot_model_u128)slots * u->claim.weight;
        sum += fair < low ? low : fair > high ? high : fair;
    }
    return sum;
}

static inline int allot_model_below(uint64_t s, uint64_t w, uint64_t t, uint64_t v)
{
    return (allot_model_u128)s * v < (allot_model_u128)t * w;
}

/* The highest bend for whose level there are slots enough decides who stands where. */
static inline void allot_model_classify(allot_model *m)
{
    uint64_t slots = 0, weight = 1, left = m->slots;
    for (size_t i = 0; i < 2 * m->n; i++) {
        const allot_model_user *u = &m->users[i / 2];
        uint64_t                s = i % 2 ? u->high : u->low, w = u->claim.weight;
        if (allot_model_taken(m, s, w) <= (allot_model_u128)m->slots * w && allot_model_below(slots, weight, s, w))
            slots = s, weight = w;
    }
    m->level_weight = 0;
    for (size_t i = 0; i < m->n; i++) {
        allot_model_user *u = &m->users[i];
        uint64_t          w = u->claim.weight;
        u->stand = !allot_model_below(slots, weight, u->high, w) ? MODEL_SATISFIED
                   : allot_model_below(slots, weight, u->low, w) ? MODEL_PROMISED
                                                                 : MODEL_DIVIDING;
        if (u->stand == MODEL_DIVIDING)
            m->level_weight += w;
        else
            left -= u->share = u->stand == MODEL_SATISFIED ? u->high : u->low;
    }
    m->level_slots = m->level_weight ? left : 0;
}

static inline uint64_t allot_model_up(const allot_model *m, uint64_t weight)
{
    return (uint64_t)(((allot_model_u128)m->level_slots * weight + m->level_weight - 1) / m->level_weight);
}

/* Is a the first of the two to have enough? */
static inline int allot_model_first(const allot_model_user *a, const allot_model_user *b)
{
    if (allot_model_below(a->high, a->claim.weight, b->high, b->claim.weight))
        return 1;
    if (allot_model_below(b->high, b->claim.weight, a->high, a->claim.weight))
        return 0;
    return a->arrival < b->arrival;
}

/* Everybody's share. Those who divide are rounded in order of arrival: what is due up to each of them, rounded up, less
 * what was due up to the one before. */
static inline void allot_model_divide(allot_model *m)
{
    uint64_t promised = 0;
    m->wanted = 0;
    for (size_t i = 0; i < m->n; i++) {
        allot_model_user *u = &m->users[i];
        u->high = allot_model_min(u->claim.demand, HTC_ALLOT_BOOK_SLOTS_MAX);
        if (u->claim.cap > 0)
            u->high = allot_model_min(u->high, u->claim.cap);
        u->low = allot_model_min(u->high, u->claim.minimum);
        promised += u->low;
        m->wanted += u->high;
    }
    m->minimums_void = promised > m->slots;
    for (size_t i = 0; i < m->n && m->minimums_void; i++)
        m->users[i].low = 0;
    allot_model_classify(m);
    for (size_t i = 0; i < m->n; i++) {
        allot_model_user *u = &m->users[i];
        uint64_t          row = 0;
        if (u->stand != MODEL_DIVIDING)
            continue;
        for (size_t j = 0; j < m->n; j++)
            if (m->users[j].stand == MODEL_DIVIDING && m->users[j].arrival < u->arrival)
                row += m->users[j].claim.weight;
        u->share = allot_model_up(m, row + u->claim.weight) - allot_model_up(m, row);
    }
}

/* What the shares have to be whatever the order of rounding: 0 if they are not. */
static inline int allot_model_is_fair(const allot_model *m)
{
    uint64_t         sum = 0;
    allot_model_u128 d = m->level_weight;
    for (size_t i = 0; i < m->n; i++) {
        const allot_model_user *u = &m->users[i];
        allot_model_u128        share = u->share * d, exact = (allot_model_u128)m->level_slots * u->claim.weight;
        sum += u->share;
        if (u->share < u->low || u->share > u->high)
            return 0;
        if (u->stand == MODEL_DIVIDING && (share > exact ? share - exact : exact - share) >= d)
            return 0;
        if (d > 0 && ((u->stand == MODEL_SATISFIED && share > exact) || (u->stand == MODEL_PROMISED && share < exact)))
            return 0;
    }
    return sum == allot_model_min(m->slots, m->wanted);
}

/* Of those who divide the first to have enough; n if nobody does. */
static inline size_t allot_model_next(const allot_model *m)
{
    size_t next = m->n;
    for (size_t i = 0; i < m->n; i++)
        if (m->users[i].stand == MODEL_DIVIDING && (next == m->n || allot_model_first(&m->users[i], &m->users[next])))
            next = i;
    return next;
}

#endif
