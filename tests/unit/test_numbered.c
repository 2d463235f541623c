/* Things found by numbers that no other one ever has, beside a slow list of what is there. */
#include "alloc_fail.h"
#include "kvs/util/slot_map.h"
#include "property.h"

#define MOST 300

typedef struct model {
    uint64_t number[MOST];
    int      thing[MOST]; /* their places are what is kept */
    size_t   n;
    uint64_t newest;
} model;

static void come(htc__slot_map *t, model *m)
{
    uint64_t number = htc__slot_map_next(t);
    HOLDS(number > m->newest && htc__slot_map_find(t, number) == NULL);
    HOLDS(htc__slot_map_add(t, &m->thing[m->n]));
    m->number[m->n++] = m->newest = number;
}

/* The last one takes its place, and is put in anew: what is kept is where it stands. */
static void go(htc__slot_map *t, model *m, size_t i)
{
    uint64_t number = m->number[i];
    htc__slot_map_remove(t, number);
    htc__slot_map_remove(t, number); /* again: nothing */
    HOLDS(htc__slot_map_find(t, number) == NULL);
    m->n--;
    if (i == m->n)
        return;
    htc__slot_map_remove(t, m->number[m->n]);
    m->number[i] = htc__slot_map_next(t);
    HOLDS(m->number[i] > m->newest && htc__slot_map_add(t, &m->thing[i]));
    m->newest = m->number[i];
}

Test(numbered, each_is_found_by_its_number_and_no_other)
{
    htc_env env = { .size = sizeof env };
    PROPERTY(rng, 200)
    {
        static model  m;
        htc__slot_map t = { .env = &env };
        m = (model){ .n = 0 };
        size_t most = 1 + htc_rng_below(&rng, MOST);
        for (int i = 0; i < 600; i++) {
            if (m.n < most && (m.n == 0 || htc_rng_below(&rng, 2)))
                come(&t, &m);
            else
                go(&t, &m, htc_rng_below(&rng, m.n));
            HOLDS(t.count == m.n && (htc__slot_map_any(&t) != NULL) == (m.n > 0) && t.used <= most + 1);
        }
        for (size_t i = 0; i < m.n; i++)
            HOLDS(htc__slot_map_find(&t, m.number[i]) == &m.thing[i]);
        for (int i = 0; i < 100; i++) { /* numbers that nobody has */
            uint64_t number = htc_rng_next(&rng) & 0xffffffff;
            size_t   at = 0;
            while (at < m.n && m.number[at] != number)
                at++;
            HOLDS((htc__slot_map_find(&t, number) == NULL) == (at == m.n));
        }
        htc__slot_map_free(&t);
        HOLDS(htc__slot_map_any(&t) == NULL && htc__slot_map_find(&t, m.newest) == NULL);
    }
}

static void some_come(const htc_env *env)
{
    static int    things[40];
    htc__slot_map t = { .env = env };
    for (size_t i = 0; i < 40; i++) {
        uint64_t number = htc__slot_map_next(&t);
        size_t   before = t.count;
        if (!htc__slot_map_add(&t, &things[i])) /* as it was */
            cr_assert(t.count == before && htc__slot_map_next(&t) == number && !htc__slot_map_find(&t, number));
        else
            cr_assert(htc__slot_map_find(&t, number) == &things[i]);
    }
    htc__slot_map_free(&t);
}

Test(numbered, without_memory_nothing_changes)
{
    ALLOC_FAIL_EVERY(f, 20)
    {
        htc_env env = alloc_fail_env(&f);
        some_come(&env);
        cr_assert(f.live == 0 && f.wrong_sizes == 0);
    }
    ALLOC_FAIL_ONCE(f, 20)
    {
        htc_env env = alloc_fail_env(&f);
        some_come(&env);
        cr_assert(f.live == 0 && f.wrong_sizes == 0);
    }
}
