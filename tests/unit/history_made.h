/* Histories that are linearizable because they were made so: one copy of each key, each operation takes place at one moment between
 * its question and its answer. And mistakes to plant in them. */
#ifndef HTC_TESTS_HISTORY_MADE_H
#define HTC_TESTS_HISTORY_MADE_H

#include <stdio.h>
#include <string.h>

#include "htcsched/history.h"

#define MADE_KEYS      4
#define MADE_PROCESSES 8
#define MADE_VALUE_MAX 4096

typedef struct made_options {
    int      ops, keys, processes;
    unsigned unknown_ppm;  /* of changes: the answer is lost; half of them take place, some much later */
    unsigned repeated_ppm; /* of values: one of three instead of a new one */
    int      counters;     /* keys with odd numbers are counters */
    int      appends;
    int      no_versions;
} made_options;

typedef struct made_key {
    char     value[MADE_VALUE_MAX];
    size_t   len;
    int      here;
    uint64_t version; /* of the last change, deletions too */
} made_key;

typedef struct made_process {
    int            phase; /* 0 idle, 1 asked, 2 took place */
    htc_history_op op;
    char           argument[16], seen[MADE_VALUE_MAX];
    uint64_t       id;
} made_process;

typedef struct made {
    htc_rng      rng;
    made_options o;
    htc_history *h;
    made_key     key[MADE_KEYS];
    made_process p[MADE_PROCESSES + 16]; /* behind the processes: changes nobody waits for any more */
    htc_ns       now;
    uint64_t     next_id, next_value;
} made;

static inline int made_chance(made *m, unsigned ppm)
{
    return htc_rng_below(&m->rng, 1000000) < ppm;
}

static inline htc_history_value made_value(const char *text, size_t len)
{
    return htc_history_value_of((htc_bytes){ text, len });
}

static inline void made_ask(made *m, made_process *p)
{
    static const htc_history_op init = HTC_HISTORY_OP_INIT;
    static const uint32_t       mix[] = { HTC_HISTORY_GET,    HTC_HISTORY_GET,         HTC_HISTORY_GET,
                                          HTC_HISTORY_PUT,    HTC_HISTORY_CAS_VERSION, HTC_HISTORY_CAS_VALUE,
                                          HTC_HISTORY_DELETE, HTC_HISTORY_PUT,         HTC_HISTORY_APPEND };
    htc_history_op             *o = &p->op;
    *o = init;
    o->key = (uint32_t)htc_rng_below(&m->rng, (uint64_t)m->o.keys);
    const made_key *k = &m->key[o->key];
    o->kind = mix[htc_rng_below(&m->rng, m->o.appends ? 9 : 8)];
    if (m->o.counters && o->key % 2)
        o->kind = htc_rng_below(&m->rng, 3) ? HTC_HISTORY_ADD : HTC_HISTORY_GET;
    if (m->o.no_versions && o->kind == HTC_HISTORY_CAS_VERSION)
        o->kind = HTC_HISTORY_PUT;
    o->process = p->id;
    o->invoked = m->now;
    o->delta = o->kind == HTC_HISTORY_ADD ? (int64_t)htc_rng_below(&m->rng, 5) + 1 : 0;
    if (made_chance(m, m->o.repeated_ppm))
        snprintf(p->argument, sizeof p->argument, "same%d", (int)htc_rng_below(&m->rng, 3));
    else
        snprintf(p->argument, sizeof p->argument, "v%llu", (unsigned long long)++m->next_value);
    if (o->kind == HTC_HISTORY_PUT || (o->kind >= HTC_HISTORY_APPEND && o->kind <= HTC_HISTORY_CAS_VALUE))
        o->argument = made_value(p->argument, strlen(p->argument));
    /* What it expects is what is there now, mostly. */
    if (o->kind == HTC_HISTORY_CAS_VERSION)
        o->expected = htc_rng_below(&m->rng, 6) == 0 ? 0 : k->here ? k->version : 0;
    if (o->kind == HTC_HISTORY_CAS_VALUE) {
        size_t n = k->here && htc_rng_below(&m->rng, 6) ? k->len : 0;
        memcpy(p->seen, k->value, n);
        o->seen = made_value(p->seen, n);
    }
    p->phase = 1;
}

static inline void made_write(made *m, made_key *k, htc_history_op *o, const char *value, size_t len)
{
    if (value)
        memmove(k->value, value, len);
    k->len = len;
    k->here = value != NULL;
    k->version += 1 + htc_rng_below(&m->rng, 3);
    o->version = k->version;
    o->outcome = HTC_HISTORY_DONE;
}

static inline void made_see(made *m, const made_key *k, htc_history_op *o)
{
    o->outcome = o->kind == HTC_HISTORY_GET && k->here ? HTC_HISTORY_DONE : HTC_HISTORY_MISSED;
    if (k->here)
        o->observed = made_value(k->value, k->len);
    else if (o->kind != HTC_HISTORY_GET && o->kind != HTC_HISTORY_DELETE)
        o->observed = (htc_history_value){ 0, HTC_HISTORY_ABSENT, HTC_HISTORY_NO_NUMBER };
    o->version = k->here || htc_rng_below(&m->rng, 2) ? k->version : 0;
}

static inline void made_happen(made *m, made_process *p)
{
    htc_history_op *o = &p->op;
    made_key       *k = &m->key[o->key];
    char            text[32];
    p->phase = 2;
    switch (o->kind) {
    case HTC_HISTORY_PUT:
        made_write(m, k, o, p->argument, strlen(p->argument));
        break;
    case HTC_HISTORY_DELETE:
        if (k->here)
            made_write(m, k, o, NULL, 0);
        else
            made_see(m, k, o);
        break;
    case HTC_HISTORY_APPEND:
        if ((k->here ? k->len : 0) + sizeof p->argument > MADE_VALUE_MAX) {
            o->outcome = HTC_HISTORY_REFUSED;
            break;
        }
        k->len = k->here ? k->len : 0;
        memcpy(k->value + k->len, p->argument, strlen(p->argument));
        made_write(m, k, o, k->value, k->len + strlen(p->argument));
        o->number = (int64_t)k->len;
        break;
    case HTC_HISTORY_CAS_VERSION:
        if ((k->here ? k->version : 0) == o->expected)
            made_write(m, k, o, p->argument, strlen(p->argument));
        else
            made_see(m, k, o);
        break;
    case HTC_HISTORY_CAS_VALUE:
        if (k->here && k->len == o->seen.length && memcmp(k->value, p->seen, k->len) == 0)
            made_write(m, k, o, p->argument, strlen(p->argument));
        else
            made_see(m, k, o);
        break;
    case HTC_HISTORY_ADD:
        o->number = o->delta + (k->here ? made_value(k->value, k->len).number : 0);
        snprintf(text, sizeof text, "%lld", (long long)o->number);
        made_write(m, k, o, text, strlen(text));
        break;
    default:
        made_see(m, k, o);
    }
}

static inline int made_add(made *m, const htc_history_op *op)
{
    htc_history_op o = *op;
    if (m->o.no_versions)
        o.version = 0;
    return htc_history_add(m->h, &o, NULL) == HTC_OK;
}

/* Nobody will hear of it: it takes place later, or never. */
static inline void made_abandon(made *m, made_process *p)
{
    htc_history_op unknown = p->op;
    unknown.outcome = HTC_HISTORY_UNKNOWN;
    unknown.returned = HTC_NEVER;
    unknown.version = 0;
    unknown.number = HTC_HISTORY_NO_NUMBER;
    unknown.observed = (htc_history_value){ 0, HTC_HISTORY_UNSAID, HTC_HISTORY_NO_NUMBER };
    made_add(m, &unknown);
    made_process *ghost = &m->p[MADE_PROCESSES + htc_rng_below(&m->rng, 16)];
    if (p->phase == 1 && ghost->phase == 0 && htc_rng_below(&m->rng, 2))
        *ghost = *p;
    p->phase = 0;
    p->id = ++m->next_id;
}

static inline void made_step(made *m)
{
    made_process *p = &m->p[htc_rng_below(&m->rng, (uint64_t)m->o.processes)];
    made_process *ghost = &m->p[MADE_PROCESSES + htc_rng_below(&m->rng, 64) % 64 % 16];
    m->now += htc_rng_below(&m->rng, 3);
    if (ghost->phase == 1 && htc_rng_below(&m->rng, 10) == 0) {
        made_happen(m, ghost);
        ghost->phase = 0;
    }
    if (p->phase == 0) {
        made_ask(m, p);
        return;
    }
    if (p->op.kind != HTC_HISTORY_GET && made_chance(m, m->o.unknown_ppm)) {
        made_abandon(m, p);
        return;
    }
    if (p->phase == 1) {
        made_happen(m, p);
        return;
    }
    p->op.returned = m->now;
    made_add(m, &p->op);
    p->phase = 0;
}

/* The caller destroys it. */
static inline htc_history *made_history(htc_rng rng, made_options o)
{
    static made m; /* large; each test runs in a process of its own */
    m = (made){ .rng = rng, .o = o };
    if (htc_history_create(NULL, NULL, &m.h) != HTC_OK)
        return NULL;
    for (int k = 0; k < o.keys; k++) {
        uint32_t key;
        char     name[16];
        snprintf(name, sizeof name, "key%d", k);
        htc_history_key(m.h, htc_bytes_of(name), &key);
    }
    for (int i = 0; i < o.processes; i++)
        m.p[i].id = ++m.next_id;
    for (int tries = 0; htc_history_count(m.h) < (size_t)o.ops && tries < o.ops * 50; tries++)
        made_step(&m);
    /* Those that took place and were never answered are of unknown outcome. */
    for (int i = 0; i < o.processes; i++)
        if (m.p[i].phase && m.p[i].op.kind != HTC_HISTORY_GET)
            made_abandon(&m, &m.p[i]);
    return m.h;
}

/* ---------------------------------------------------------------- mistakes */

/* A copy of a history with one operation replaced (or, at its count, appended). */
static inline htc_history *made_with(const htc_history *h, size_t at, const htc_history_op *op)
{
    htc_history *copy;
    uint32_t     key;
    htc_history_create(NULL, NULL, &copy);
    for (uint32_t k = 0; k < htc_history_keys(h); k++)
        htc_history_key(copy, htc_history_key_bytes(h, k), &key);
    for (size_t i = 0; i <= htc_history_count(h); i++)
        if (i == at ? op->kind : i < htc_history_count(h))
            htc_history_add(copy, i == at ? op : htc_history_at(h, i), NULL);
    return copy;
}

static inline int made_is_done(const htc_history_op *o)
{
    return o->outcome == HTC_HISTORY_DONE && o->kind >= HTC_HISTORY_PUT && o->kind <= HTC_HISTORY_ADD;
}

static inline int made_is_set(const htc_history_op *o)
{
    return made_is_done(o) && o->kind != HTC_HISTORY_DELETE && o->kind != HTC_HISTORY_APPEND &&
           o->kind != HTC_HISTORY_ADD;
}

typedef enum made_mistake {
    STALE_READ,
    LOST_UPDATE,
    DOUBLE_CAS,
    VERSION_BACK,
    RESURRECTED,
    APPENDED_TWICE,
    APPLIED_TWICE,
    MADE_MISTAKES
} made_mistake;

/* a, b: two operations of one key, a answered before b was asked. 1: the mistake can be planted with them; *at, *op: where. */
static inline int made_plant(const htc_history *h, made_mistake what, size_t ia, size_t ib, size_t *at,
                             htc_history_op *op)
{
    const htc_history_op       *a = htc_history_at(h, ia), *b = htc_history_at(h, ib);
    static const htc_history_op init = HTC_HISTORY_OP_INIT;
    htc_history_op              get = init;
    get.kind = HTC_HISTORY_GET;
    get.outcome = HTC_HISTORY_DONE;
    get.key = a->key;
    get.process = 999;
    get.invoked = b->returned == HTC_NEVER ? b->invoked + 1 : b->returned + 1;
    get.returned = get.invoked + 1;
    get.version = a->version;
    get.observed = a->argument;
    *op = get;
    *at = htc_history_count(h);
    switch (what) {
    case STALE_READ: /* a wrote, b overwrote, and still a is read */
        return made_is_set(a) && made_is_done(b) && b->kind != HTC_HISTORY_DELETE;
    case RESURRECTED:
        return made_is_set(a) && made_is_done(b) && b->kind == HTC_HISTORY_DELETE;
    case LOST_UPDATE: /* b says that it came before a, which it did not */
    case VERSION_BACK:
        *op = *b;
        *at = ib;
        op->version = what == LOST_UPDATE ? a->version : a->version - 1;
        return a->version > 1 && b->version && made_is_done(b) && a->outcome == HTC_HISTORY_DONE &&
               b->kind != HTC_HISTORY_CAS_VERSION && (what == VERSION_BACK || made_is_done(a));
    case DOUBLE_CAS: /* two succeed that expect the same */
        *op = *a;
        op->version = a->version + 100000;
        op->process = 999;
        return made_is_done(a) && a->kind == HTC_HISTORY_CAS_VERSION && a->expected;
    case APPENDED_TWICE:
        op->version = b->version;
        op->observed = htc_history_value_join(b->observed, a->argument);
        return a->kind == HTC_HISTORY_APPEND && made_is_done(a) && b->kind == HTC_HISTORY_GET &&
               b->outcome == HTC_HISTORY_DONE;
    case APPLIED_TWICE: /* a, then b, then a again under a version of its own */
        op->version = 1000000;
        return made_is_set(a) && made_is_set(b) && !(a->argument.hash == b->argument.hash);
    default:
        return 0;
    }
}

#endif
