/* Is the history of one key linearizable? An exact search (Wing and Gong, with Lowe's memory of what was tried): slow, obvious,
 * for histories of at most 64 requests. Versions are part of what has to fit: a change answers a higher version than all before it,
 * a read none that is lower. A version may rise without a change (a write-back above a floor), so only bounds are held. */
#ifndef HTC_TESTS_REGISTER_CHECK_H
#define HTC_TESTS_REGISTER_CHECK_H

#include <stdlib.h>
#include <string.h>

#include "kvs/cell/change.h"

#define EVENTS_MAX 64

typedef struct event {
    uint32_t   op, flags;
    uint64_t   arg;     /* PUT, APPEND, CAS: hash of the bytes; ADD: the number */
    uint64_t   seen;    /* CAS_VALUE: hash */
    uint64_t   version; /* CAS_VERSION, EXPIRE: expected */
    int        ttl;
    htc_ns     call, back; /* HTC_NEVER: the outcome is not known */
    htc_status status;
    uint64_t   got, got_version, observed;
    int64_t    number;
} event;

/* A value is a chain of appended pieces: equal chains are equal values. */
static inline uint64_t chained(uint64_t h, uint64_t piece)
{
    return (h ^ piece) * UINT64_C(0x9e3779b97f4a7c15) + 1;
}

typedef struct model {
    int      present, len;
    uint64_t value, least,
        term; /* the version is at least `least`; above it after a change whose version nobody knows */
    uint64_t above;
    int64_t  number;
} model;

typedef struct noted {
    uint64_t done;
    model    m;
} noted;

typedef struct search {
    const event *e;
    size_t       n;
    uint64_t     must;
    noted       *tried;
    size_t       count, cap, steps;
} search;

static inline int observed(model *m, uint64_t version)
{
    if (version < m->least + m->above)
        return 0;
    m->least = version;
    m->above = 0;
    return 1;
}

static inline void become(model *m, const event *e, uint64_t value, int known)
{
    m->present = 1;
    m->value = value;
    m->above = !known;
    if (known)
        m->least = e->got_version;
    if (e->op == HTC_KV_PUT || e->op == HTC_KV_CAS_VERSION || e->op == HTC_KV_CAS_VALUE)
        m->term = e->ttl ? known ? e->got_version : UINT64_MAX : 0;
}

/* The condition of a change that has one. */
static inline int meets(const model *m, const event *e)
{
    switch (e->op) {
    case HTC_KV_PUT:
        return !(e->flags & HTC_KV_NX) || !m->present;
    case HTC_KV_DELETE:
        return m->present;
    case HTC_KV_CAS_VERSION:
        return e->version ? m->present && e->version >= m->least + m->above : !m->present;
    case HTC_KV_CAS_VALUE:
        return m->present && m->value == e->seen;
    case HTC__KV_EXPIRE:
        return m->present && m->term && m->term == e->version;
    }
    return 1;
}

static inline void change(model *m, const event *e, int known)
{
    int was = m->present;
    if (!was)
        m->term = 0;
    switch (e->op) {
    case HTC_KV_APPEND:
        m->len = was ? m->len + 4 : 4;
        become(m, e, chained(was ? m->value : 0, e->arg), known);
        return;
    case HTC_KV_ADD:
        m->number = (was ? m->number : 0) + (int64_t)e->arg;
        become(m, e, (uint64_t)m->number, known);
        return;
    case HTC_KV_DELETE:
    case HTC__KV_EXPIRE:
        become(m, e, 0, known);
        m->present = m->len = 0;
        m->number = 0;
        m->term = 0;
        return;
    default:
        m->len = 4;
        become(m, e, chained(0, e->arg), known);
    }
}

/* 1 if the answer fits, and *m is what is afterwards. */
static inline int fits(model *m, const event *e)
{
    if (e->op == HTC_KV_GET || e->status != HTC_OK) {
        if (e->status == HTC_ENOTFOUND)
            return !m->present && e->observed >= m->least + m->above;
        if (e->op != HTC_KV_GET && meets(m, e) &&
            !(e->op == HTC_KV_CAS_VERSION && m->present && e->got_version != e->version))
            return 0;
        if (m->present != (e->got_version != 0) || (m->present && m->value != e->got))
            return 0;
        /* An absent key shows the floor of its bucket, which other keys raise. */
        return m->present ? observed(m, e->observed) : e->observed >= m->least + m->above;
    }
    if (!meets(m, e) || e->got_version <= m->least || (e->op == HTC_KV_CAS_VERSION && e->got_version <= e->version))
        return 0;
    change(m, e, 1);
    return (e->op != HTC_KV_APPEND || e->number == m->len) && (e->op != HTC_KV_ADD || e->number == m->number);
}

static inline int again(search *s, uint64_t done, const model *m)
{
    uint64_t h = done * UINT64_C(0xff51afd7ed558ccd) ^ m->value ^ m->least * 31 ^ m->term * 17 ^ (uint64_t)m->present;
    h ^= h >> 29;
    if (s->count * 2 >= s->cap) {
        size_t cap = s->cap ? s->cap * 2 : 1024;
        noted *t = calloc(cap, sizeof *t), *old = s->tried;
        size_t n = s->cap;
        s->tried = t;
        s->cap = cap;
        s->count = 0;
        for (size_t i = 0; i < n; i++)
            if (old[i].m.len >= 0 && old[i].done)
                again(s, old[i].done, &old[i].m);
        free(old);
    }
    for (size_t i = h & (s->cap - 1);; i = (i + 1) & (s->cap - 1)) {
        if (!s->tried[i].done) {
            s->tried[i] = (noted){ done, *m };
            s->count++;
            return 0;
        }
        if (s->tried[i].done == done && memcmp(&s->tried[i].m, m, sizeof *m) == 0)
            return 1;
    }
}

static inline int order(search *s, uint64_t done, const model *m)
{
    htc_ns first = HTC_NEVER;
    if ((done & s->must) == s->must)
        return 1;
    if (done && again(s, done, m))
        return 0;
    if (++s->steps > 4000000)
        return 1; /* too hard to tell: not judged */
    for (size_t i = 0; i < s->n; i++)
        if (!(done >> i & 1) && s->e[i].back < first)
            first = s->e[i].back;
    for (size_t i = 0; i < s->n; i++) {
        const event *e = &s->e[i];
        model        after = *m;
        if ((done >> i & 1) || e->call > first)
            continue;
        if (e->back == HTC_NEVER) {
            if (!meets(&after, e))
                continue;
            change(&after, e, 0);
        } else if (!fits(&after, e)) {
            continue;
        }
        if (order(s, done | UINT64_C(1) << i, &after))
            return 1;
    }
    return 0;
}

static inline int linearizable(const event *e, size_t n)
{
    search s = { .e = e, .n = n };
    model  m;
    memset(&m, 0, sizeof m); /* compared as bytes */
    for (size_t i = 0; i < n; i++)
        if (e[i].back != HTC_NEVER)
            s.must |= UINT64_C(1) << i;
    int ok = order(&s, 0, &m);
    free(s.tried);
    return ok;
}

#endif
