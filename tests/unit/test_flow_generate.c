/* Generated flows against the slow words of their definition, what is drawn, bags, and what cannot be. */
#include "flow_read.h"

#include "alloc_fail.h"

#define COUNT(a) (sizeof(a) / sizeof *(a))

static htc_flow *generate(const htc_flow_generator *o)
{
    htc_flow *f = NULL;
    cr_assert(eq(int, htc_flow_generate(NULL, o, &f), HTC_OK));
    return f;
}

/* Is p a parent of t? As the shapes are defined. */
static int is_parent(uint32_t shape, uint64_t n, uint64_t d, uint64_t p, uint64_t t)
{
    switch (shape) {
    case HTC_FLOW_FANOUT:
        return t >= p * d + 1 && t <= p * d + d;
    case HTC_FLOW_FANIN: {
        uint64_t i = n - 1 - t, j = n - 1 - p;
        return j >= i * d + 1 && j <= i * d + d;
    }
    case HTC_FLOW_PIPELINE:
        return p + 1 == t && p / d == t / d;
    case HTC_FLOW_MAPREDUCE:
        return t >= n - d && p < n - d;
    default:
        return 0;
    }
}

Test(flow_generate, generated_flows_have_the_shapes_of_their_definitions)
{
    for (uint32_t shape = HTC_FLOW_BAG; shape <= HTC_FLOW_MAPREDUCE; shape++)
        for (uint32_t n = 1; n < 40; n++)
            for (uint32_t d = 1; d <= 5 && d <= n; d++) {
                htc_flow_generator o = { .size = sizeof o,
                                         .shape = shape,
                                         .degree = d,
                                         .tasks = n,
                                         .length_min = 5,
                                         .length_max = 9,
                                         .data_min = 1 };
                htc_flow          *f = generate(&o);
                cr_assert(eq(u32, htc_flow_count(f), n));
                for (uint32_t t = 0; t < n; t++) {
                    const htc_flow_edge *list = NULL;
                    size_t               have = htc_flow_parents(f, t, &list), want = 0;
                    for (uint32_t p = 0; p < n; p++)
                        if (is_parent(shape, n, d, p, t)) {
                            cr_assert(want < have && list[want].task == p, "shape %u, %u tasks, degree %u: %u of %u",
                                      shape, n, d, p, t);
                            want++;
                        }
                    cr_assert(want == have && htc_flow_get(f, t)->n_in == have, "shape %u, %u tasks, degree %u", shape,
                              n, d);
                }
                htc_flow_destroy(f);
            }
}

Test(flow_generate, lengths_and_sizes_are_drawn_from_the_seed)
{
    htc_flow_generator o = { .size = sizeof o,
                             .shape = HTC_FLOW_FANOUT,
                             .degree = 4,
                             .tasks = 10000,
                             .length_min = 100,
                             .length_max = 199,
                             .data_min = 10,
                             .data_max = 19,
                             .seed = 7 };
    htc_flow          *a = generate(&o), *b = generate(&o);
    uint32_t           lengths[100] = { 0 }, sizes[10] = { 0 };
    cr_expect(eq(u32, flow_difference(a, b), UINT32_MAX), "the same seed");
    htc_flow_destroy(b);
    o.seed = 8;
    b = generate(&o);
    cr_expect(ne(u32, flow_difference(a, b), UINT32_MAX), "another seed");
    for (uint32_t t = 0; t < o.tasks; t++) {
        const htc_flow_task *task = htc_flow_get(a, t);
        cr_assert(task->builtin == HTC_FLOW_SLEEP && task->amount >= 100 && task->amount <= 199 &&
                  task->run == task->amount);
        cr_assert(task->n_out == 1 && task->out[0].bytes >= 10 && task->out[0].bytes <= 19);
        lengths[task->amount - 100]++;
        sizes[task->out[0].bytes - 10]++;
    }
    /* 100 and 1000 of each are expected; the bounds are six standard deviations, and the seed is fixed. */
    for (int i = 0; i < 100; i++)
        cr_expect(lengths[i] > 40 && lengths[i] < 160, "%d: %u", i, lengths[i]);
    for (int i = 0; i < 10; i++)
        cr_expect(sizes[i] > 820 && sizes[i] < 1180, "%d: %u", i, sizes[i]);
    /* What a child reads is what its parent made. */
    cr_expect(eq(str, htc_flow_get(a, 5)->in[0].name, htc_flow_get(a, 1)->out[0].name));
    cr_expect(eq(u64, htc_flow_get(a, 5)->in[0].bytes, htc_flow_get(a, 1)->out[0].bytes));
    htc_flow_destroy(a);
    htc_flow_destroy(b);
}

Test(flow_generate, a_bag_of_equal_tasks_is_one_task)
{
    htc_flow_generator o = { .size = sizeof o, .shape = HTC_FLOW_BAG, .tasks = 1000000000, .length_min = HTC_SECOND };
    htc_flow          *f = generate(&o);
    cr_expect(eq(u32, htc_flow_count(f), 1));
    cr_expect(eq(u64, htc_flow_total(f), 1000000000));
    cr_expect(eq(u64, htc_flow_get(f, 0)->amount, HTC_SECOND));
    htc_flow_destroy(f);
}

Test(flow_generate, what_cannot_be_generated_is_refused)
{
    static const struct {
        htc_flow_generator o;
        htc_status         status;
    } cases[] = {
        { { .tasks = 1 }, HTC_EINVAL },
        { { .shape = HTC_FLOW_MAPREDUCE + 1, .tasks = 1 }, HTC_EINVAL },
        { { .shape = HTC_FLOW_BAG }, HTC_EINVAL },
        { { .shape = HTC_FLOW_BAG, .tasks = HTC_FLOW_TOTAL_MAX + 1 }, HTC_EINVAL },
        { { .shape = HTC_FLOW_BAG, .tasks = 1, .length_min = 2, .length_max = 1 }, HTC_EINVAL },
        { { .shape = HTC_FLOW_BAG, .tasks = 1, .data_max = UINT64_MAX }, HTC_EINVAL },
        { { .shape = HTC_FLOW_MAPREDUCE, .tasks = 2, .degree = 3 }, HTC_EINVAL },
        { { .shape = HTC_FLOW_PIPELINE, .tasks = (uint64_t)HTC_FLOW_TASKS_MAX + 1 }, HTC_EFULL },
        { { .shape = HTC_FLOW_BAG, .tasks = (uint64_t)HTC_FLOW_TASKS_MAX + 1, .length_max = 5 }, HTC_EFULL },
    };
    htc_flow *f = NULL;
    for (size_t i = 0; i < COUNT(cases); i++) {
        htc_flow_generator o = cases[i].o;
        o.size = sizeof o;
        cr_expect(eq(int, htc_flow_generate(NULL, &o, &f), cases[i].status), "case %zu", i);
    }
    htc_flow_options   bounds = { .size = sizeof bounds, .tasks_max = 10 };
    htc_flow_generator o = { .size = sizeof o, .shape = HTC_FLOW_PIPELINE, .tasks = 11, .bounds = &bounds };
    cr_expect(eq(int, htc_flow_generate(NULL, &o, &f), HTC_EFULL));
    cr_expect(eq(int, htc_flow_generate(NULL, NULL, &f), HTC_EINVAL));
    cr_expect(eq(int, htc_flow_generate(NULL, &o, NULL), HTC_EINVAL));
    cr_expect(f == NULL);
    o.bounds = NULL;
    ALLOC_FAIL_EVERY(memory, 1000)
    {
        htc_env    env = alloc_fail_env(&memory);
        htc_flow  *made = NULL;
        htc_status status = htc_flow_generate(&env, &o, &made);
        cr_expect(eq(int, status, memory.refused ? HTC_ENOMEM : HTC_OK));
        htc_flow_destroy(made);
        cr_expect(eq(sz, memory.live, 0));
    }
}
