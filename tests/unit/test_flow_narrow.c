/* Flows in which no task has too many dependencies: the same reachability and the same outcomes as the flow that was given, whatever fails
 * and in whatever order; evenly spread trees; names, bounds and no memory. */
#include "expect.h"

#include "alloc_fail.h"
#include "flow_wide.h"

/* n tasks that wait for one, or that one waits for: the one is the last. */
static htc_flow *star(uint32_t n, int out, uint32_t rule)
{
    htc_flow *f = flow_empty();
    for (uint32_t i = 0; i <= n; i++)
        (void)flow_put(f, NULL);
    for (uint32_t i = 0; i < n; i++)
        cr_assert(eq(int, htc_flow_after(f, out ? i : n, out ? n : i, rule), HTC_OK));
    cr_assert(eq(int, htc_flow_check(f, NULL), HTC_OK));
    return f;
}

/* All of the second layer wait for all of the first; the last one minds no failure of one of them. */
static htc_flow *layers(uint32_t first, uint32_t second)
{
    htc_flow *f = flow_empty();
    for (uint32_t i = 0; i < first + second; i++)
        (void)flow_put(f, NULL);
    for (uint32_t i = 0; i < second; i++)
        for (uint32_t k = 0; k < first; k++)
            cr_assert(eq(int, htc_flow_after(f, first + i, k, i + 1 == second && k == 9 ? HTC_FLOW_ANY : HTC_FLOW_OK), HTC_OK));
    cr_assert(eq(int, htc_flow_check(f, NULL), HTC_OK));
    return f;
}

static htc_flow *narrowed(const htc_flow *f, uint32_t parents_max, uint32_t children_max)
{
    htc_flow *out = NULL;
    htc_error e = { .status = HTC_OK };
    cr_assert(eq(int, htc_flow_narrow(NULL, f, parents_max, children_max, &out, &e), HTC_OK), "%s", e.text);
    return out;
}

/* ---- reachability ---- */

/* Whether there is a way from parent down to child through inserted tasks alone; *rule: by what it leaves the parent. More than one way: 2. */
static uint32_t ways(const htc_flow *f, uint32_t own, uint32_t parent, uint32_t child, uint32_t *rule)
{
    const htc_flow_edge *edges = NULL;
    size_t               n = htc_flow_parents(f, child, &edges);
    uint32_t             found = 0;
    for (size_t i = 0; i < n; i++)
        if (edges[i].task == parent) {
            found++;
            *rule = edges[i].rule;
        } else if (edges[i].task >= own) {
            found += ways(f, own, parent, edges[i].task, rule);
        }
    return found;
}

static int same_task(const htc_flow_task *a, const htc_flow_task *b)
{
    return strcmp(a->name, b->name) == 0 && strcmp(a->executable, b->executable) == 0 && a->builtin == b->builtin && a->count == b->count;
}

/* Every dependency is there once, with its rule at the parent's end, and nothing else is. */
static void is_the_same(const htc_flow *given, const htc_flow *f, uint32_t parents_max, uint32_t children_max)
{
    uint32_t own = htc_flow_count(given), all = htc_flow_count(f);
    for (uint32_t i = 0; i < all; i++) {
        HOLDS(htc_flow_parents(f, i, NULL) <= parents_max && htc_flow_children(f, i, NULL) <= children_max);
        if (i < own)
            HOLDS(same_task(htc_flow_get(given, i), htc_flow_get(f, i)) && htc_flow_first(f, i) == i);
        else
            HOLDS(htc_flow_get(f, i)->builtin == HTC_FLOW_NOOP && htc_flow_parents(f, i, NULL) > 0 && htc_flow_children(f, i, NULL) > 0);
    }
    for (uint32_t child = 0; child < own; child++) {
        const htc_flow_edge *edges = NULL;
        size_t               n = htc_flow_parents(given, child, &edges);
        uint32_t             rule_of[FLOW_WIDE_TASKS], rule = 0;
        memset(rule_of, 0xff, sizeof rule_of);
        for (size_t i = 0; i < n; i++)
            rule_of[edges[i].task] = edges[i].rule;
        for (uint32_t parent = 0; parent < own; parent++) {
            HOLDS(ways(f, own, parent, child, &rule) == (rule_of[parent] != UINT32_MAX));
            HOLDS(rule_of[parent] == UINT32_MAX || rule == rule_of[parent]);
        }
    }
}

Test(flow_narrow, every_dependency_is_kept_once_and_no_task_has_too_many)
{
    size_t narrow = 0, wide = 0;
    PROPERTY_ALL(rng, 2000)
    {
        htc_flow *given = flow_wide(&rng);
        uint32_t  parents_max = 2 + (uint32_t)htc_rng_below(&rng, 9), children_max = 3 + (uint32_t)htc_rng_below(&rng, 8), most[2] = { 0, 0 };
        for (uint32_t i = 0; i < htc_flow_count(given); i++) {
            size_t p = htc_flow_parents(given, i, NULL), c = htc_flow_children(given, i, NULL);
            most[0] = p > most[0] ? (uint32_t)p : most[0];
            most[1] = c > most[1] ? (uint32_t)c : most[1];
        }
        htc_flow *f = narrowed(given, parents_max, children_max);
        HOLDS((f == NULL) == (most[0] <= parents_max && most[1] <= children_max));
        narrow += f == NULL;
        wide += f != NULL;
        if (f) {
            is_the_same(given, f, parents_max, children_max);
            htc_flow *again = narrowed(f, parents_max, children_max);
            HOLDS(again == NULL);
        }
        htc_flow_destroy(f);
        htc_flow_destroy(given);
    }
    if (!getenv("HTC_TEST_SEED"))
        cr_expect(narrow > 50 && wide > 1000, "%zu narrow, %zu wide", narrow, wide);
}

/* ---- outcomes ---- */

enum { WAITING, READY, DONE, FAILED, CANCELLED };

/* A run, as plain as can be: after each end all tasks are looked at again until nothing changes. */
static void look_again(const htc_flow *f, uint8_t *state)
{
    int changed = 1;
    while (changed) {
        changed = 0;
        for (uint32_t i = 0; i < htc_flow_count(f); i++) {
            const htc_flow_edge *edges = NULL;
            size_t               n = htc_flow_parents(f, i, &edges), good = 0, bad = 0;
            if (state[i] != WAITING)
                continue;
            for (size_t k = 0; k < n; k++) {
                uint8_t  parent = state[edges[k].task];
                uint32_t rule = edges[k].rule;
                int      fits = rule == HTC_FLOW_ANY || (rule == HTC_FLOW_OK) == (parent == DONE);
                good += parent >= DONE && fits;
                bad += parent >= DONE && !fits;
            }
            if (bad || good == n) {
                state[i] = bad ? CANCELLED : READY;
                changed = 1;
            }
        }
    }
}

/* Inserted tasks run at once. */
static void pass_on(const htc_flow *f, uint32_t own, uint8_t *state)
{
    int ran = 1;
    look_again(f, state);
    while (ran) {
        ran = 0;
        for (uint32_t i = own; i < htc_flow_count(f); i++)
            if (state[i] == READY) {
                state[i] = DONE;
                ran = 1;
            }
        look_again(f, state);
    }
}

/* An inserted task is cancelled only if every task of the given flow below it is. */
static int all_below_cancelled(const htc_flow *f, uint32_t own, uint32_t id, const uint8_t *state)
{
    const htc_flow_edge *edges = NULL;
    size_t               n = htc_flow_children(f, id, &edges);
    for (size_t i = 0; i < n; i++)
        if (edges[i].task < own ? state[edges[i].task] != CANCELLED : !all_below_cancelled(f, own, edges[i].task, state))
            return 0;
    return 1;
}

/* Tasks end one after the other, in a random order and some badly; some are cancelled by their user while they wait. After each step every
 * task stands in both flows as in the other one. */
Test(flow_narrow, every_task_ends_as_in_the_flow_that_was_given)
{
    static int seen[5];
    PROPERTY_ALL(rng, 1500)
    {
        htc_flow *given = flow_wide(&rng), *f = narrowed(given, 2 + (uint32_t)htc_rng_below(&rng, 4), 3 + (uint32_t)htc_rng_below(&rng, 4));
        uint32_t  own = htc_flow_count(given), bad = (uint32_t)htc_rng_below(&rng, 60);
        uint8_t   plain[FLOW_WIDE_TASKS] = { 0 }, *state = f ? calloc(htc_flow_count(f), 1) : NULL;
        uint32_t  ready[FLOW_WIDE_TASKS], n = 1;
        while (f && n > 0) {
            look_again(given, plain);
            pass_on(f, own, state);
            HOLDS(memcmp(plain, state, own) == 0);
            n = 0;
            for (uint32_t i = 0; i < own; i++)
                if (plain[i] == READY || (plain[i] == WAITING && htc_rng_below(&rng, 50) == 0))
                    ready[n++] = i;
            if (n > 0) {
                uint32_t i = ready[htc_rng_below(&rng, n)];
                plain[i] = state[i] = plain[i] == WAITING ? CANCELLED : htc_rng_below(&rng, 100) < bad ? FAILED : DONE;
            }
        }
        for (uint32_t i = 0; f && i < htc_flow_count(f); i++) {
            HOLDS(state[i] >= DONE && (i < own || state[i] != FAILED));
            HOLDS(i < own || state[i] != CANCELLED || all_below_cancelled(f, own, i, state));
            seen[state[i]] += i >= own;
        }
        free(state);
        htc_flow_destroy(f);
        htc_flow_destroy(given);
    }
    if (!getenv("HTC_TEST_SEED"))
        cr_expect(seen[DONE] > 1000 && seen[CANCELLED] > 1000, "%d done, %d cancelled", seen[DONE], seen[CANCELLED]);
}

/* ---- trees ---- */

/* The longest way from a task up through inserted ones. */
static uint32_t height(const htc_flow *f, uint32_t own, uint32_t id, int down)
{
    const htc_flow_edge *edges = NULL;
    size_t               n = down ? htc_flow_children(f, id, &edges) : htc_flow_parents(f, id, &edges);
    uint32_t             most = 0;
    for (size_t i = 0; i < n; i++) {
        uint32_t one = edges[i].task >= own ? 1 + height(f, own, edges[i].task, down) : 0;
        most = one > most ? one : most;
    }
    return most;
}

/* As deep as it must be, as many as it takes, and each as wide as the others of its level but for one. */
Test(flow_narrow, trees_are_even)
{
    static const struct {
        uint32_t n, most, inserted, deep;
    } rows[] = {
        { 3, 3, 0, 0 }, { 4, 3, 2, 1 }, { 9, 3, 3, 1 }, { 10, 3, 4 + 2, 2 }, { 27, 3, 9 + 3, 2 }, { 28, 3, 10 + 4 + 2, 3 }, { 1024, 1024, 0, 0 },
        { 1025, 1024, 2, 1 }, { 100000, 1024, 98, 1 }, { 100000, 4096, 25, 1 }, { 100000, 100, 1000 + 10, 2 },
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        for (int out = 0; out < 2; out++) {
            htc_flow *given = star(rows[i].n, out, HTC_FLOW_ANY), *f = narrowed(given, rows[i].most, rows[i].most);
            uint32_t  own = rows[i].n + 1, least = UINT32_MAX, most = 0;
            cr_expect(eq(int, f == NULL, rows[i].inserted == 0));
            cr_expect(eq(u32, f ? htc_flow_count(f) - own : 0, rows[i].inserted), "row %zu", i);
            cr_expect(eq(u32, f ? height(f, own, rows[i].n, out) : 0, rows[i].deep), "row %zu", i);
            for (uint32_t k = own; f && k < htc_flow_count(f); k++) {
                const htc_flow_edge *edges = NULL;
                size_t               n = out ? htc_flow_children(f, k, &edges) : htc_flow_parents(f, k, &edges);
                if (edges[0].task >= own)
                    continue; /* not a leaf */
                least = n < least ? (uint32_t)n : least;
                most = n > most ? (uint32_t)n : most;
            }
            cr_expect(!f || most - least <= 1, "row %zu: leaves of %u to %u", i, least, most);
            htc_flow_destroy(f);
            htc_flow_destroy(given);
        }
}

/* What is few stays where it is: of 100 children that wait for success and one that waits for failure only the hundred are put apart. */
Test(flow_narrow, children_of_a_rare_rule_stay)
{
    htc_flow            *given = flow_empty();
    const htc_flow_edge *edges = NULL;
    size_t               direct = 0;
    for (uint32_t i = 0; i < 102; i++)
        (void)flow_put(given, NULL);
    for (uint32_t i = 1; i < 102; i++)
        cr_assert(eq(int, htc_flow_after(given, i, 0, i == 50 ? HTC_FLOW_FAILED : HTC_FLOW_OK), HTC_OK));
    cr_assert(eq(int, htc_flow_check(given, NULL), HTC_OK));
    htc_flow *f = narrowed(given, 10, 20);
    size_t    n = htc_flow_children(f, 0, &edges);
    for (size_t i = 0; i < n; i++)
        direct += edges[i].task < 102;
    cr_expect(eq(sz, n, 6));
    cr_expect(eq(sz, direct, 1));
    cr_expect(eq(u32, edges[0].task, 50));
    htc_flow_destroy(f);
    htc_flow_destroy(given);
}

/* Whoever waits alike waits together: no dependency more than mappers, leaves, and reducers. */
Test(flow_narrow, tasks_that_wait_alike_share_a_tree)
{
    enum { MAPPERS = 250, REDUCERS = 60 };
    htc_flow *given = layers(MAPPERS, REDUCERS + 1), *f = narrowed(given, 100, 50);
    /* One tree of 3 leaves and a root, behind which two tasks scatter to 30 reducers each; 3 leaves for the last one. */
    cr_expect(eq(u32, htc_flow_count(f) - htc_flow_count(given), 3 + 1 + 2 + 3));
    cr_expect(eq(sz, htc_flow_edges(f), MAPPERS + 3 + 2 + REDUCERS + MAPPERS + 3));
    for (uint32_t m = 0; m < MAPPERS; m++)
        cr_expect(eq(sz, htc_flow_children(f, m, NULL), 2), "mapper %u", m);
    for (uint32_t r = 0; r < REDUCERS; r++)
        cr_expect(eq(sz, htc_flow_parents(f, MAPPERS + r, NULL), 1), "reducer %u", r);
    htc_flow_destroy(f);
    htc_flow_destroy(given);
}

/* ---- names, bounds, memory ---- */

Test(flow_narrow, names_are_none_of_the_given_flow)
{
    htc_flow *given = flow_empty();
    uint32_t  id = 0;
    (void)flow_put(given, "gather-5");
    (void)flow_put(given, "gather-5.1");
    (void)flow_put(given, "gather-6");
    (void)flow_put(given, "scatter-5");
    for (uint32_t i = 0, last = flow_put(given, "last"); i < 4; i++)
        cr_assert(eq(int, htc_flow_after(given, last, i, HTC_FLOW_OK), HTC_OK));
    cr_assert(eq(int, htc_flow_check(given, NULL), HTC_OK));
    htc_flow *f = narrowed(given, 2, 3);
    cr_expect(eq(int, htc_flow_find(f, "gather-5", &id), HTC_OK));
    cr_expect(eq(u32, id, 0));
    cr_expect(eq(str, (char *)(uintptr_t)htc_flow_get(f, 5)->name, "gather-5.2"));
    cr_expect(eq(str, (char *)(uintptr_t)htc_flow_get(f, 6)->name, "gather-6.1"));
    cr_expect(eq(u32, htc_flow_count(f), 7));
    htc_flow_destroy(f);
    htc_flow_destroy(given);
}

/* Tasks with a count have no dependencies: they stay, and numbers behind them count them all. */
Test(flow_narrow, a_task_with_a_count_stays_where_it_is)
{
    htc_flow     *given = star(5, 1, HTC_FLOW_OK);
    htc_flow_task bag = { .size = sizeof bag, .name = "bag", .executable = "true", .count = 1000 };
    cr_assert(eq(int, htc_flow_add(given, &bag, NULL, NULL), HTC_OK));
    cr_assert(eq(int, htc_flow_check(given, NULL), HTC_OK));
    htc_flow *f = narrowed(given, 2, 3);
    cr_expect(eq(u64, htc_flow_total(f), 1006 + 2));
    cr_expect(eq(u64, htc_flow_first(f, 7), 1006));
    cr_expect(eq(u64, htc_flow_get(f, 6)->count, 1000));
    htc_flow_destroy(f);
    htc_flow_destroy(given);
}

Test(flow_narrow, what_cannot_be_is_refused)
{
    htc_flow *given = star(9, 0, HTC_FLOW_OK), *unchecked = flow_empty(), *out = given;
    htc_error e = { .status = HTC_OK };
    (void)flow_put(unchecked, NULL);
    cr_expect(eq(int, htc_flow_narrow(NULL, NULL, 4, 4, &out, &e), HTC_EINVAL));
    cr_expect(eq(int, htc_flow_narrow(NULL, given, 4, 4, NULL, &e), HTC_EINVAL));
    cr_expect(eq(int, htc_flow_narrow(NULL, unchecked, 4, 4, &out, &e), HTC_EINVAL));
    cr_expect(eq(int, htc_flow_narrow(NULL, given, 1, 4, &out, &e), HTC_EINVAL));
    cr_expect(eq(int, htc_flow_narrow(NULL, given, 4, 2, &out, &e), HTC_EINVAL));
    cr_expect(e.text[0] && out == given);
    cr_expect(eq(int, htc_flow_narrow(NULL, given, 1, 4, &out, NULL), HTC_EINVAL));
    htc_flow_destroy(given);
    htc_flow_destroy(unchecked);
}

Test(flow_narrow, no_memory_leaves_nothing_behind)
{
    htc_flow *given[] = { star(12, 0, HTC_FLOW_ANY), star(12, 1, HTC_FLOW_FAILED), layers(12, 5) };
    for (int i = 0; i < 3; i++) {
        ALLOC_FAIL_EVERY(f, 1000)
        {
            htc_env    env = alloc_fail_env(&f);
            htc_flow  *out = given[i];
            htc_error  e = { .status = HTC_OK };
            htc_status status = htc_flow_narrow(&env, given[i], 3, 3, &out, &e);
            cr_expect(status == (f.refused ? HTC_ENOMEM : HTC_OK), "allocation %zu", f.fail_at);
            cr_expect((out == given[i]) == (status != HTC_OK) && (status == HTC_OK || e.status == HTC_ENOMEM));
            if (status == HTC_OK)
                htc_flow_destroy(out);
            cr_expect(eq(sz, f.live, 0));
            cr_expect(eq(sz, f.wrong_sizes, 0));
        }
        htc_flow_destroy(given[i]);
    }
}
