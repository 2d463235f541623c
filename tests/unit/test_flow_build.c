/* Flows in memory: against a matrix of dependencies, what cannot be, what is lent, bags, tasks for executors, and no memory. */
#include "expect.h"

#include "alloc_fail.h"
#include "htcsched/flow.h"
#include "htcsched/work.h"
#include "property.h"
#include "work/flow_private.h"

#define COUNT(a) (sizeof(a) / sizeof *(a))

static htc_flow *empty(void)
{
    htc_flow *f = NULL;
    cr_assert(eq(int, htc_flow_create(NULL, NULL, &f), HTC_OK));
    return f;
}

static uint32_t add(htc_flow *f, const char *name)
{
    htc_flow_task t = { .size = sizeof t, .name = name, .executable = "true" };
    uint32_t      id = UINT32_MAX;
    cr_assert(eq(int, htc_flow_add(f, &t, &id, NULL), HTC_OK));
    return id;
}

static void after(htc_flow *f, uint32_t child, uint32_t parent)
{
    cr_assert(eq(int, htc_flow_after(f, child, parent, HTC_FLOW_OK), HTC_OK));
}

/* ---- against a matrix ---- */

#define TASKS 12

typedef struct model {
    uint32_t n;
    int      rule[TASKS][TASKS]; /* [child][parent]: rule + 1, or 0 */
    int      named_beyond, two_rules;
} model;

/* Looked through again and again: is there a task that all can be taken away before? */
static int has_cycle(const model *m)
{
    int gone[TASKS] = { 0 };
    for (uint32_t round = 0; round < m->n; round++)
        for (uint32_t t = 0; t < m->n; t++) {
            int waits = 0;
            for (uint32_t p = 0; p < m->n; p++)
                waits |= m->rule[t][p] && !gone[p];
            gone[t] |= !waits;
        }
    for (uint32_t t = 0; t < m->n; t++)
        if (!gone[t])
            return 1;
    return 0;
}

static void agrees(const model *m, const htc_flow *f)
{
    size_t edges = 0;
    for (uint32_t t = 0; t < m->n; t++) {
        const htc_flow_edge *list = NULL;
        size_t               parents = 0, children = 0, n;
        for (uint32_t o = 0; o < m->n; o++) {
            parents += m->rule[t][o] != 0;
            children += m->rule[o][t] != 0;
        }
        n = htc_flow_parents(f, t, &list);
        HOLDS(n == parents);
        for (size_t i = 0; i < n; i++)
            HOLDS(m->rule[t][list[i].task] == (int)list[i].rule + 1);
        n = htc_flow_children(f, t, &list);
        HOLDS(n == children);
        for (size_t i = 0; i < n; i++)
            HOLDS(m->rule[list[i].task][t] == (int)list[i].rule + 1 && (i == 0 || list[i - 1].task < list[i].task));
        edges += parents;
    }
    HOLDS(htc_flow_edges(f) == edges);
}

static htc_status expected(const model *m)
{
    return m->named_beyond ? HTC_ENOTFOUND : m->two_rules ? HTC_EINVAL : has_cycle(m) ? HTC_ECYCLE : HTC_OK;
}

/* Tasks and dependencies in any order, some twice, some with another rule, some to tasks that never come; checked now and then. */
Test(flow_build, agrees_with_a_matrix_of_dependencies)
{
    static int seen[4];
    PROPERTY_ALL(rng, 3000)
    {
        model     m = { .n = 0 };
        htc_flow *f = empty();
        uint32_t  forward = (uint32_t)htc_rng_below(&rng, 4), wild = (uint32_t)htc_rng_below(&rng, 4) == 0;
        uint32_t  all = 1 + (uint32_t)htc_rng_below(&rng, TASKS), steps = (uint32_t)htc_rng_below(&rng, 40);
        for (uint32_t i = 0; i < steps + all; i++) {
            if (m.n < all && (i >= steps || htc_rng_below(&rng, 2))) {
                HOLDS(add(f, NULL) == m.n++);
                continue;
            }
            uint32_t child = (uint32_t)htc_rng_below(&rng, all), parent = (uint32_t)htc_rng_below(&rng, all + wild),
                     rule = 0;
            if (forward && child < parent && parent < all) {
                uint32_t swap = child;
                child = parent;
                parent = swap;
            }
            if (htc_rng_below(&rng, 20) == 0)
                rule = 1 + (uint32_t)htc_rng_below(&rng, 2);
            htc_status status = htc_flow_after(f, child, parent, rule);
            HOLDS(status == (child == parent ? HTC_ECYCLE : HTC_OK));
            HOLDS(htc_flow_edges(f) == 0 || status != HTC_OK);
            if (status != HTC_OK)
                continue;
            m.named_beyond |= parent >= all;
            if (parent < all) {
                m.two_rules |= m.rule[child][parent] && m.rule[child][parent] != (int)rule + 1;
                m.rule[child][parent] = (int)rule + 1;
            }
        }
        htc_error  e = { .status = HTC_OK };
        htc_status status = htc_flow_check(f, &e);
        HOLDS(status == expected(&m));
        HOLDS(status == HTC_OK || (e.status == status && e.text[0]));
        if (status == HTC_OK)
            agrees(&m, f);
        else
            HOLDS(htc_flow_parents(f, 0, NULL) == 0 && htc_flow_edges(f) == 0);
        seen[status == HTC_OK ? 0 : status == HTC_ECYCLE ? 1 : status == HTC_EINVAL ? 2 : 3]++;
        htc_flow_destroy(f);
    }
    if (!getenv("HTC_TEST_SEED"))
        cr_expect(seen[0] > 50 && seen[1] > 50 && seen[2] > 50 && seen[3] > 50, "%d %d %d %d", seen[0], seen[1],
                  seen[2], seen[3]);
}

/* ---- walking it ---- */

Test(flow_build, a_diamond_is_walked)
{
    htc_flow            *f = empty();
    const htc_flow_edge *list = NULL;
    uint32_t             a = add(f, "fetch"), b = add(f, "left"), c = add(f, "right"), d = add(f, "join"), id;
    after(f, b, a);
    after(f, c, a);
    after(f, d, c);
    after(f, d, b);
    cr_expect(eq(sz, htc_flow_parents(f, d, &list), 0), "not before it is checked");
    cr_assert(eq(int, htc_flow_check(f, NULL), HTC_OK));
    cr_assert(eq(sz, htc_flow_parents(f, d, &list), 2));
    cr_expect(eq(u32, list[0].task, c), "in the order in which they came");
    cr_expect(eq(u32, list[1].task, b));
    cr_assert(eq(sz, htc_flow_children(f, a, &list), 2));
    cr_expect(eq(u32, list[0].task, b));
    cr_expect(eq(int, htc_flow_find(f, "right", &id), HTC_OK));
    cr_expect(eq(u32, id, c));
    cr_expect(eq(int, htc_flow_find(f, "wrong", &id), HTC_ENOTFOUND));
    cr_expect(htc_flow_get(f, 4) == NULL && htc_flow_get(NULL, 0) == NULL);
    cr_expect(eq(str, htc_flow_get(f, a)->name, "fetch"));
    /* A change takes the lists away until the next check. */
    add(f, "late");
    cr_expect(eq(sz, htc_flow_parents(f, d, &list), 0));
    cr_assert(eq(int, htc_flow_check(f, NULL), HTC_OK));
    cr_expect(eq(sz, htc_flow_parents(f, d, &list), 2));
    htc_flow_destroy(f);
    htc_flow_destroy(NULL);
}

/* Thousands of names, more than the table has at first, are all found again; what the caller's texts become is the caller's affair. */
Test(flow_build, names_are_found_and_copied)
{
    htc_flow *f = empty();
    char      name[32];
    uint32_t  id;
    for (uint32_t i = 0; i < 5000; i++) {
        snprintf(name, sizeof name, "task %u", i * 7919);
        cr_assert(eq(u32, add(f, i % 2 ? name : NULL), i));
        memset(name, 'x', sizeof name - 1);
    }
    for (uint32_t i = 0; i < 5000; i++) {
        snprintf(name, sizeof name, i % 2 ? "task %u" : "t%u", i % 2 ? i * 7919 : i);
        cr_assert(htc_flow_find(f, name, &id) == HTC_OK && id == i, "%s", name);
    }
    htc_flow_destroy(f);
}

/* Names that were chosen to stand in one place of the table, whatever its size up to 2048: after some hundreds of them the table takes another
 * seed, under which they are spread. */
Test(flow_build, names_that_meet_in_the_table_are_scattered)
{
    htc_flow *f = empty();
    char      name[32];
    uint32_t  id, n = 0;
    for (uint64_t i = 0; n < 600; i++) {
        snprintf(name, sizeof name, "x%llu", (unsigned long long)i);
        if (htc_hash64(htc_bytes_of(name), f->seed) % 2048 == 0 || f->scattered)
            cr_assert(eq(u32, add(f, name), n++));
    }
    cr_expect(eq(u32, f->scattered, 1));
    for (uint32_t i = 0; i < n; i++) {
        snprintf(name, sizeof name, "%s", htc_flow_get(f, i)->name);
        cr_assert(htc_flow_find(f, name, &id) == HTC_OK && id == i);
    }
    htc_flow_destroy(f);
}

/* ---- what cannot be ---- */

Test(flow_build, a_cycle_is_told_by_the_names_on_it)
{
    htc_flow *f = empty();
    htc_error e;
    for (uint32_t i = 0; i < 5; i++)
        add(f, (const char *[]){ "away", "b", "c", "d", "behind" }[i]);
    after(f, 1, 2);
    after(f, 2, 3);
    after(f, 3, 1);
    after(f, 4, 1); /* behind the circle, not on it */
    cr_assert(eq(int, htc_flow_check(f, &e), HTC_ECYCLE));
    cr_expect(eq(str, e.text, "\"b\" waits for \"c\", \"c\" for \"d\", \"d\" for \"b\""));
    cr_expect(eq(str, e.where, "b"));
    cr_expect(e.hint[0]);
    htc_flow_destroy(f);

    /* A long one is cut, and says by how much. */
    f = empty();
    for (uint32_t i = 0; i < 100; i++)
        add(f, NULL);
    for (uint32_t i = 0; i < 100; i++)
        after(f, i, (i + 1) % 100);
    cr_assert(eq(int, htc_flow_check(f, &e), HTC_ECYCLE));
    cr_expect(strncmp(e.text, "\"t0\" waits for \"t1\", \"t1\" for \"t2\"", 30) == 0, "%s", e.text);
    cr_expect(strstr(e.text, " more of the circle") != NULL, "%s", e.text);
    cr_expect(eq(int, htc_flow_check(f, NULL), HTC_ECYCLE));
    htc_flow_destroy(f);
}

Test(flow_build, unknown_tasks_and_two_rules_are_told)
{
    htc_flow *f = empty();
    htc_error e;
    add(f, "a");
    add(f, "b");
    after(f, 1, 7);
    cr_expect(eq(int, htc_flow_check(f, &e), HTC_ENOTFOUND));
    cr_expect(eq(str, e.text, "there is no task number 7, of 2"));
    cr_expect(eq(str, e.where, "b"));
    htc_flow_destroy(f);
    f = empty();
    add(f, "a");
    add(f, "b");
    after(f, 1, 0);
    cr_expect(eq(int, htc_flow_after(f, 1, 0, HTC_FLOW_FAILED), HTC_OK));
    cr_expect(eq(int, htc_flow_check(f, &e), HTC_EINVAL));
    cr_expect(eq(str, e.text, "task \"b\" waits for \"a\" in two ways: ok and failed"));
    htc_flow_destroy(f);
}

/* Each says what is wrong, and leaves the flow as it was. */
Test(flow_build, tasks_that_cannot_be_are_refused)
{
    static char long_name[HTC_FLOW_NAME_MAX + 2], long_argument[HTC_TASK_ARGUMENT_MAX + 2];
    memset(long_name, 'n', sizeof long_name - 1);
    memset(long_argument, 'a', sizeof long_argument - 1);
    const char *const no_variable[] = { "=x" }, *const no_word[] = { NULL }, *const no_utf8[] = { "\xff" };
    const htc_flow_file no_file = { "", 1 }, large = { "f", UINT64_C(1) << 63 };
    const struct {
        htc_flow_task task;
        htc_status    status;
        const char   *part;
    } cases[] = {
        { { .name = "x" }, HTC_EINVAL, "no program and no builtin" },
        { { .executable = "" }, HTC_EINVAL, "the program is" },
        { { .executable = "p", .builtin = HTC_FLOW_NOOP }, HTC_EINVAL, "takes no program" },
        { { .builtin = HTC_FLOW_INTAKE + 1 }, HTC_EINVAL, "there is no builtin 8" },
        { { .builtin = HTC_FLOW_CALL, .function = "f" }, HTC_EINVAL, "the object is no absolute path" },
        { { .builtin = HTC_FLOW_CALL, .object = "a.so", .function = "f" },
          HTC_EINVAL,
          "the object is no absolute path" },
        { { .builtin = HTC_FLOW_CALL, .object = "htc:1234", .function = "f" },
          HTC_EINVAL,
          "the object is no absolute path" },
        { { .builtin = HTC_FLOW_CALL, .object = "/\xff", .function = "f" }, HTC_EINVAL, "no UTF-8" },
        { { .builtin = HTC_FLOW_CALL, .object = "/a.so" }, HTC_EINVAL, "the function has no name" },
        { { .builtin = HTC_FLOW_CALL, .object = "/a.so", .function = "1st" }, HTC_EINVAL, "the function has no name" },
        { { .builtin = HTC_FLOW_CALL, .object = "/a.so", .function = "f", .argument = long_argument },
          HTC_EINVAL,
          "the argument is too long" },
        { { .builtin = HTC_FLOW_CALL, .object = "/a.so", .function = "f", .amount = 1 }, HTC_EINVAL, "have an amount" },
        { { .builtin = HTC_FLOW_CALL, .object = "/a.so", .function = "f", .executable = "p" },
          HTC_EINVAL,
          "takes no program" },
        { { .executable = "p", .argument = "" }, HTC_EINVAL, "only a call" },
        { { .builtin = HTC_FLOW_NOOP, .function = "f" }, HTC_EINVAL, "only a call" },
        { { .builtin = HTC_FLOW_NOOP, .amount = 1 }, HTC_EINVAL, "have an amount" },
        { { .builtin = HTC_FLOW_SLEEP, .amount = UINT64_C(1) << 63 }, HTC_EINVAL, "amount is too large" },
        { { .executable = "p", .name = "" }, HTC_EINVAL, "the name \"\" is not 1 to 255" },
        { { .executable = "p", .name = long_name }, HTC_EINVAL, "is not 1 to 255" },
        { { .executable = "p", .name = "a\nb" }, HTC_EINVAL, "control characters" },
        { { .executable = "p", .kind = "\x1b" }, HTC_EINVAL, "the kind" },
        { { .executable = "p", .name = "there" }, HTC_EEXISTS, "two tasks have the name \"there\"" },
        { { .executable = "p", .args = no_word, .n_args = 1 }, HTC_EINVAL, "word 1 of args" },
        { { .executable = "p", .args = no_utf8, .n_args = 1 }, HTC_EINVAL, "is not UTF-8" },
        { { .executable = "p", .n_args = 65537 }, HTC_EINVAL, "more than 65536" },
        { { .executable = "p", .env = no_variable, .n_env = 1 }, HTC_EINVAL, "is not NAME=value" },
        { { .executable = "p", .in = &no_file, .n_in = 1 }, HTC_EINVAL, "name of file 1" },
        { { .executable = "p", .out = &large, .n_out = 1 }, HTC_EINVAL, "size of file \"f\"" },
        { { .executable = "p", .count = HTC_FLOW_TOTAL_MAX + 1 }, HTC_EINVAL, "count is too large" },
        { { .executable = "p", .count = HTC_FLOW_TOTAL_MAX }, HTC_EFULL, "tasks in all" },
    };
    htc_flow *f = empty();
    add(f, "there");
    for (size_t i = 0; i < COUNT(cases); i++) {
        htc_flow_task t = cases[i].task;
        htc_error     e = { .status = HTC_OK };
        uint32_t      id = 77;
        t.size = sizeof t;
        cr_expect(eq(int, htc_flow_add(f, &t, &id, &e), cases[i].status), "case %zu", i);
        cr_expect(eq(int, htc_flow_add(f, &t, NULL, NULL), cases[i].status), "case %zu", i);
        cr_expect(strstr(e.text, cases[i].part) != NULL, "case %zu: %s", i, e.text);
        cr_expect(eq(u32, id, 77));
    }
    cr_expect(eq(u32, htc_flow_count(f), 1));
    htc_flow_task odd = HTC_FLOW_TASK_INIT;
    odd.size = 1;
    cr_expect(eq(int, htc_flow_add(f, &odd, NULL, NULL), HTC_EINVAL));
    cr_expect(eq(int, htc_flow_add(NULL, &odd, NULL, NULL), HTC_EINVAL));
    cr_expect(eq(int, htc_flow_after(f, 0, 1, HTC_FLOW_FAILED + 1), HTC_EINVAL));
    cr_expect(eq(int, htc_flow_after(NULL, 0, 1, 0), HTC_EINVAL));
    htc_flow_destroy(f);
}

Test(flow_build, bounds_of_the_options_hold)
{
    htc_flow_options o = { .size = sizeof o, .tasks_max = 3, .edges_max = 2, .texts_max = 4096 };
    htc_flow_task    t = { .size = sizeof t, .executable = "p" };
    htc_flow        *f = NULL;
    htc_error        e;
    static char      large[5000];
    memset(large, 'x', sizeof large - 1);
    cr_assert(eq(int, htc_flow_create(NULL, &o, &f), HTC_OK));
    t.executable = large;
    cr_expect(eq(int, htc_flow_add(f, &t, NULL, &e), HTC_EFULL));
    cr_expect(eq(str, e.text, "the texts of all tasks have more than 4096 bytes"));
    t.executable = "p";
    for (int i = 0; i < 3; i++)
        cr_expect(eq(int, htc_flow_add(f, &t, NULL, NULL), HTC_OK));
    cr_expect(eq(int, htc_flow_add(f, &t, NULL, &e), HTC_EFULL));
    cr_expect(eq(str, e.text, "there are more than 3 tasks"));
    cr_expect(eq(int, htc_flow_after(f, 3, 0, 0), HTC_EFULL));
    cr_expect(eq(int, htc_flow_after(f, 1, 0, 0), HTC_OK));
    cr_expect(eq(int, htc_flow_after(f, 1, 0, 0), HTC_OK), "counts twice");
    cr_expect(eq(int, htc_flow_after(f, 2, 0, 0), HTC_EFULL));
    cr_expect(eq(int, htc_flow_check(f, NULL), HTC_OK));
    cr_expect(eq(sz, htc_flow_edges(f), 1));
    htc_flow_destroy(f);
    o.tasks_max = HTC_FLOW_TASKS_MAX + 1;
    cr_expect(eq(int, htc_flow_create(NULL, &o, &f), HTC_EINVAL));
    cr_expect(eq(int, htc_flow_create(NULL, NULL, NULL), HTC_EINVAL));
}

/* ---- bags, and tasks as they are executed ---- */

Test(flow_build, a_bag_of_a_thousand_million_tasks_takes_the_memory_of_one)
{
    alloc_fail    memory = alloc_fail_at(0);
    htc_env       env = alloc_fail_env(&memory);
    htc_flow_task t = { .size = sizeof t, .name = "bag", .builtin = HTC_FLOW_NOOP, .count = 1000000000 };
    htc_flow     *f = NULL;
    htc_error     e;
    cr_assert(eq(int, htc_flow_create(&env, NULL, &f), HTC_OK));
    cr_assert(eq(int, htc_flow_add(f, &t, NULL, NULL), HTC_OK));
    add(f, "one");
    cr_assert(eq(int, htc_flow_check(f, NULL), HTC_OK));
    cr_expect(memory.calls < 20, "%zu allocations", memory.calls);
    cr_expect(eq(u32, htc_flow_count(f), 2));
    cr_expect(eq(u64, htc_flow_total(f), 1000000001));
    cr_expect(eq(u64, htc_flow_first(f, 0), 0));
    cr_expect(eq(u64, htc_flow_first(f, 1), 1000000000));
    cr_expect(eq(u64, htc_flow_first(f, 2), 1000000001));
    after(f, 1, 0);
    cr_expect(eq(int, htc_flow_check(f, &e), HTC_EINVAL));
    cr_expect(strstr(e.text, "task \"bag\" has a count") != NULL, "%s", e.text);
    htc_flow_destroy(f);
    cr_expect(eq(sz, memory.live, 0));
}

static htc_task *task_of(const htc_flow *f, uint32_t id, uint64_t copy)
{
    htc_bytes bytes;
    htc_task *task = NULL;
    cr_assert(eq(int, htc_flow_task_bytes(NULL, f, id, copy, &bytes), HTC_OK));
    cr_assert(eq(int, htc_task_from_bytes(NULL, bytes, &task), HTC_OK));
    htc_work_free(NULL, bytes);
    return task;
}

Test(flow_build, tasks_are_written_as_executors_take_them)
{
    const char *const args[] = { "-x", "a b" }, *const env[] = { "A=b" };
    htc_flow_task all[] = {
        { .executable = "prog", .args = args, .n_args = 2, .env = env, .n_env = 1, .cores = 3, .memory = 5, .wall = 7 },
        { .builtin = HTC_FLOW_SLEEP, .amount = 1500 * HTC_MS, .count = 10 },
        { .builtin = HTC_FLOW_NOOP },
        { .builtin = HTC_FLOW_SPIN, .amount = 1 },
        { .builtin = HTC_FLOW_READ, .amount = 1 },
        { .builtin = HTC_FLOW_WRITE, .amount = 1 },
        { .builtin = HTC_FLOW_CALL,
          .object = "/lib/a.so",
          .function = "run",
          .argument = "a b",
          .wall = 9,
          .count = 5 },
    };
    htc_flow *f = empty();
    htc_bytes bytes = { NULL, 1 };
    for (size_t i = 0; i < COUNT(all); i++) {
        all[i].size = sizeof all[i];
        cr_assert(eq(int, htc_flow_add(f, &all[i], NULL, NULL), HTC_OK));
    }
    htc_task *t = task_of(f, 0, 0);
    cr_expect(eq(str, t->executable, "prog"));
    cr_assert(t->n_args == 2 && t->n_env == 1);
    cr_expect(eq(str, t->args[1], "a b"));
    cr_expect(eq(str, t->env[0], "A=b"));
    cr_expect(t->limits.cores == 3 && t->limits.memory == 5 && t->limits.wall == 7 && t->index == 0);
    htc_task_destroy(t);
    t = task_of(f, 1, 9);
    cr_expect(t->kind == HTC_TASK_BUILTIN);
    cr_expect(eq(str, t->function, "sleep"));
    cr_expect(eq(str, t->argument, "1.500000000"));
    cr_expect(t->index == 10 && t->limits.cores == 1);
    htc_task_destroy(t);
    t = task_of(f, 2, 0);
    cr_expect(t->kind == HTC_TASK_BUILTIN);
    cr_expect(eq(str, t->function, "noop"));
    cr_expect(eq(u64, t->index, 11));
    htc_task_destroy(t);
    t = task_of(f, 3, 0);
    cr_expect(eq(str, t->function, "spin") && eq(str, t->argument, "0.000000001"));
    htc_task_destroy(t);
    t = task_of(f, 5, 0);
    cr_expect(eq(str, t->function, "write") && eq(str, t->argument, "1"));
    htc_task_destroy(t);
    cr_expect(eq(int, htc_flow_task_bytes(NULL, f, 4, 0, &bytes), HTC_EUNSUPPORTED));
    t = task_of(f, 6, 4);
    cr_expect(t->kind == HTC_TASK_FUNCTION && t->index == 19 && t->limits.wall == 9);
    cr_expect(eq(str, t->object, "/lib/a.so") && eq(str, t->function, "run") && eq(str, t->argument, "a b"));
    htc_task_destroy(t);
    cr_expect(eq(int, htc_flow_task_bytes(NULL, f, 7, 0, &bytes), HTC_EINVAL));
    cr_expect(eq(int, htc_flow_task_bytes(NULL, f, 1, 10, &bytes), HTC_EINVAL));
    cr_expect(eq(int, htc_flow_task_bytes(NULL, f, 0, 0, NULL), HTC_EINVAL));
    cr_expect(bytes.data == NULL && bytes.len == 1);
    htc_flow_destroy(f);
}

/* ---- no memory ---- */

static htc_status build(const htc_env *env, size_t *added)
{
    const char *const   args[] = { "1", "2" };
    const htc_flow_file file = { "f", 1 };
    htc_flow           *f = NULL;
    htc_status          status = htc_flow_create(env, NULL, &f);
    uint32_t            n = 0;
    for (int i = 0; i < 40 && status == HTC_OK; i++) {
        htc_flow_task t = {
            .size = sizeof t, .executable = i % 2 ? "p" : "q", .args = args, .n_args = 2, .in = &file, .n_in = 1
        };
        status = htc_flow_add(f, &t, NULL, NULL);
        n += status == HTC_OK;
        cr_expect(eq(u32, htc_flow_count(f), n));
    }
    for (uint32_t i = 1; i < 40 && status == HTC_OK; i++)
        status = htc_flow_after(f, i, i / 2, 0);
    if (status == HTC_OK) {
        htc_flow_after(f, 2, 1, 0); /* twice: the lists are cut */
        status = htc_flow_check(f, NULL);
        cr_expect(eq(sz, htc_flow_edges(f), status == HTC_OK ? 39 : 0));
    }
    *added = n;
    htc_flow_destroy(f);
    return status;
}

Test(flow_build, refused_memory_leaves_the_flow_as_it_was)
{
    ALLOC_FAIL_EVERY(f, 1000)
    {
        htc_env env = alloc_fail_env(&f);
        size_t  added = 0;
        cr_expect(eq(int, build(&env, &added), f.refused ? HTC_ENOMEM : HTC_OK), "allocation %zu", f.fail_at);
        cr_expect(f.live == 0 && f.wrong_sizes == 0, "allocation %zu: %zu live, %zu wrong", f.fail_at, f.live,
                  f.wrong_sizes);
    }
    ALLOC_FAIL_ONCE(f, 1000)
    {
        htc_env env = alloc_fail_env(&f);
        size_t  added = 0;
        cr_expect(eq(int, build(&env, &added), f.refused ? HTC_ENOMEM : HTC_OK), "allocation %zu", f.fail_at);
        cr_expect(f.live == 0 && f.wrong_sizes == 0, "allocation %zu", f.fail_at);
    }
}
