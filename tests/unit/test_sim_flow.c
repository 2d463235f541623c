/* One flow in virtual time: it is spread well over the workers, whatever its shape and wherever it begins; the same seed is the same run; wrong use is
 * refused, and a run without memory gives all back. */
#include "expect.h"

#include "alloc_fail.h"
#include "htcsched/sim_flow.h"

static htc_flow *shape(uint32_t which, uint64_t tasks, htc_ns length)
{
    htc_flow_generator g = { .size = sizeof g, .shape = which, .degree = 4, .tasks = tasks, .length_min = length };
    htc_flow          *f = NULL;
    cr_assert(eq(int, htc_flow_generate(NULL, &g, &f), HTC_OK));
    return f;
}

static htc_sim_flow_report run(const htc_flow *f, uint32_t workers, uint32_t layout, uint64_t seed)
{
    htc_sim_flow_options o = { .size = sizeof o, .seed = seed, .workers = workers, .layout = layout, .commit_ns = 200 * HTC_US };
    htc_sim_flow_report  r = { .size = sizeof r };
    cr_assert(eq(int, htc_sim_flow_run(NULL, f, &o, &r), HTC_OK));
    cr_expect(eq(u32, r.failed, 0), "%s", r.text);
    cr_expect(eq(u64, r.runs, r.tasks));
    return r;
}

/* 300 tasks of 64 ms for each of 8 workers take 19.2 s at best. A worker that cannot get its first ledger, or a note that is left lying, costs
 * a second at least, which is a twentieth; the goal of the papers' row is 0.99. */
Test(sim_flow, spreads_every_shape)
{
    static const uint32_t shapes[] = { HTC_FLOW_BAG, HTC_FLOW_FANOUT, HTC_FLOW_FANIN, HTC_FLOW_PIPELINE };
    for (size_t i = 0; i < 4; i++) {
        htc_flow *f = shape(shapes[i], 2400, 64 * HTC_MS);
        for (uint64_t seed = 1; seed <= 6; seed++) {
            htc_sim_flow_report r = run(f, 8, seed % 2 ? HTC_SIM_FLOW_ONE : HTC_SIM_FLOW_EACH, seed);
            cr_expect(r.efficiency > 0.98 && r.efficiency <= 1, "shape %zu, seed %llu: efficiency %.4f", i, (unsigned long long)seed, r.efficiency);
            cr_expect(r.cv < 0.02, "shape %zu, seed %llu: cv %.4f", i, (unsigned long long)seed, r.cv);
            cr_expect(shapes[i] != HTC_FLOW_BAG || eq(u64, r.work, 2400 * 64 * HTC_MS));
        }
        htc_flow_destroy(f);
    }
}

/* A chain of four takes four lengths, however many workers there are. */
Test(sim_flow, knows_the_longest_path)
{
    htc_flow           *f = shape(HTC_FLOW_PIPELINE, 4, HTC_SECOND);
    htc_sim_flow_report r = run(f, 4, HTC_SIM_FLOW_ONE, 1);
    cr_expect(eq(u64, r.longest, 4 * HTC_SECOND));
    cr_expect(r.span >= r.longest && r.efficiency > 0.99);
    cr_expect(r.utilisation < 0.26);
    htc_flow_destroy(f);
}

/* 6,000 tasks of 20 ms wait for one, and another one for all of them: inserted tasks stand behind the first and before the last. They
 * cost next to nothing, and what is told is of the flow that was given. */
Test(sim_flow, a_task_may_wait_for_any_number_and_any_number_for_it)
{
    htc_flow     *f = NULL;
    htc_flow_task t = { .size = sizeof t, .builtin = HTC_FLOW_SLEEP, .amount = 20 * HTC_MS };
    cr_assert(eq(int, htc_flow_create(NULL, NULL, &f), HTC_OK));
    for (uint32_t i = 0; i < 6002; i++)
        cr_assert(eq(int, htc_flow_add(f, &t, NULL, NULL), HTC_OK));
    for (uint32_t i = 1; i < 6001; i++)
        cr_assert(htc_flow_after(f, i, 0, HTC_FLOW_OK) == HTC_OK && htc_flow_after(f, 6001, i, HTC_FLOW_ANY) == HTC_OK);
    cr_assert(eq(int, htc_flow_check(f, NULL), HTC_OK));
    htc_sim_flow_report r = run(f, 8, HTC_SIM_FLOW_EACH, 1);
    cr_expect(eq(u64, r.tasks, 6002));
    cr_expect(eq(u64, r.work, 6002 * 20 * HTC_MS));
    cr_expect(eq(u64, r.longest, 60 * HTC_MS));
    cr_expect(r.efficiency > 0.9 && r.efficiency <= 1, "efficiency %.4f", r.efficiency);
    htc_flow_destroy(f);
}

Test(sim_flow, the_same_seed_is_the_same_run)
{
    htc_flow           *f = shape(HTC_FLOW_FANIN, 200, HTC_MS);
    htc_sim_flow_report a = run(f, 5, HTC_SIM_FLOW_ONE, 7), b = run(f, 5, HTC_SIM_FLOW_ONE, 7), c = run(f, 5, HTC_SIM_FLOW_ONE, 8);
    cr_expect(eq(u64, a.hash, b.hash) && eq(u64, a.events, b.events) && eq(u64, a.span, b.span));
    cr_expect(ne(u64, a.hash, c.hash));
    htc_flow_destroy(f);
}

static void count(void *ctx, const htc_sim_flow_sample *s)
{
    cr_expect(le(u32, s->busy, 3));
    ++*(uint32_t *)ctx;
}

Test(sim_flow, samples_its_course)
{
    uint32_t             n = 0;
    htc_flow            *f = shape(HTC_FLOW_BAG, 30, 100 * HTC_MS);
    htc_sim_flow_options o = { .size = sizeof o, .workers = 3, .sample_ns = 100 * HTC_MS, .sample = count, .sample_ctx = &n };
    htc_sim_flow_report  r = { .size = sizeof r };
    cr_assert(eq(int, htc_sim_flow_run(NULL, f, &o, &r), HTC_OK));
    cr_expect(eq(u64, n, r.span / (100 * HTC_MS) + 1));
    htc_flow_destroy(f);
}

/* ---- its host ---- */

typedef struct watcher {
    htc_ns       now;
    volatile int stop;
    double       rate;
} watcher;

static htc_ns clock_of(void *ctx)
{
    return ((watcher *)ctx)->now += HTC_SECOND;
}

static void stop_soon(void *ctx, const htc_scale_progress *p)
{
    watcher *w = ctx;
    cr_expect(eq(u64, p->total, 30000));
    w->rate = p->rate;
    w->stop = p->done >= 1000;
}

Test(sim_flow, says_what_it_had_when_it_is_stopped)
{
    watcher              w = { 0 };
    htc_flow            *f = shape(HTC_FLOW_BAG, 30000, 100 * HTC_MS);
    htc_scale_host       host = { .size = sizeof host, .stop = &w.stop, .clock = clock_of, .progress = stop_soon, .ctx = &w };
    htc_sim_flow_options o = { .size = sizeof o, .workers = 3, .host = &host };
    htc_sim_flow_report  r = { .size = sizeof r }, at_once = r;
    cr_assert(eq(int, htc_sim_flow_run(NULL, f, &o, &r), HTC_OK));
    cr_expect(eq(u32, r.interrupted, 1) && eq(u32, r.failed, 0) && r.runs >= 1000 && r.runs < 30000 && r.span > 0 && r.span < r.work / 3 && w.rate > 0);
    cr_assert(w.stop);
    host.progress = NULL;
    cr_assert(eq(int, htc_sim_flow_run(NULL, f, &o, &at_once), HTC_OK));
    cr_expect(eq(u32, at_once.interrupted, 1) && eq(u64, at_once.runs, 0) && eq(u64, at_once.span, 0));
    htc_flow_destroy(f);
}

Test(sim_flow, refuses_wrong_use)
{
    htc_flow            *f = shape(HTC_FLOW_BAG, 3, 0);
    htc_sim_flow_options o = { .size = sizeof o, .workers = HTC_SIM_FLOW_WORKERS_MAX + 1 };
    htc_sim_flow_report  r = { .size = sizeof r };
    cr_expect(eq(int, htc_sim_flow_run(NULL, NULL, NULL, &r), HTC_EINVAL));
    cr_expect(eq(int, htc_sim_flow_run(NULL, f, NULL, NULL), HTC_EINVAL));
    cr_expect(eq(int, htc_sim_flow_run(NULL, f, &o, &r), HTC_EINVAL));
    o = (htc_sim_flow_options){ .size = sizeof o, .slots = 129 };
    cr_expect(eq(int, htc_sim_flow_run(NULL, f, &o, &r), HTC_EINVAL));
    o = (htc_sim_flow_options){ .size = sizeof o, .layout = 2 };
    cr_expect(eq(int, htc_sim_flow_run(NULL, f, &o, &r), HTC_EINVAL));
    o = (htc_sim_flow_options){ .size = 1 };
    cr_expect(eq(int, htc_sim_flow_run(NULL, f, &o, &r), HTC_EINVAL));
    cr_expect(eq(int, htc_sim_flow_run(NULL, f, NULL, &r), HTC_OK));
    htc_flow_destroy(f);
}

/* The memory of the world and that of the machines in it are one: whoever is refused, it ends without a fault of its own. */
Test(sim_flow, ends_without_memory)
{
    size_t    ended = 0;
    htc_flow *flow = shape(HTC_FLOW_FANOUT, 12, HTC_MS);
    for (int once = 0; once < 2; once++)
        for (size_t n = 1, refused = 1; refused; n += 1 + n / (once ? 3 : 12)) {
            alloc_fail           f = alloc_fail_at(n);
            htc_sim_flow_options o = { .size = sizeof o, .workers = 3, .commit_ns = HTC_MS };
            htc_sim_flow_report  r = { .size = sizeof r };
            f.once = once;
            htc_env    env = alloc_fail_env(&f);
            htc_status status = htc_sim_flow_run(&env, flow, &o, &r);
            cr_expect(status == HTC_ENOMEM || (status == HTC_OK && !r.failed), "allocation %zu: %s, %s", n, htc_status_name(status), r.text);
            cr_expect(eq(sz, f.live, 0), "allocation %zu", n);
            cr_expect(eq(sz, f.wrong_sizes, 0), "allocation %zu", n);
            refused = f.refused;
            ended += status == HTC_ENOMEM;
        }
    cr_expect(ended > 20, "only %zu runs have noticed", ended);
    htc_flow_destroy(flow);
}
