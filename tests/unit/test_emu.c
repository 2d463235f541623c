/* The emulated first-level scheduler, in virtual time: order, cores, service, holds, failures, several clusters, what a later process goes on with; and agents through
 * it, as roles/batch submits them. */
#include "expect.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/util.h"
#include "roles/batch/batch.h"
#include "roles/batch/emu.h"
#include "property.h"

enum { RUNNING_MAX = 4096 };

typedef struct running {
    uint64_t job;
    uint32_t step;
    htc_ns   until;
} running;

/* The machine whose processes the steps are. */
typedef struct world {
    htc__emu *e;
    htc_ns    now, length;
    running   all[RUNNING_MAX];
    uint32_t  count, most, started, killed;
    uint64_t  handle, last_job; /* last_job: whose step was started last */
    htc_ns    first, last;  /* of the starts */
    char      clusters[RUNNING_MAX][16];
} world;

static const htc_env env = { .size = sizeof env };

static void make(world *w, const htc__emu_options *o)
{
    memset(w, 0, sizeof *w);
    w->length = 10 * HTC_SECOND;
    w->first = HTC_NEVER;
    cr_assert(eq(int, htc__emu_create(&env, o, &w->e), HTC_OK));
}

static uint64_t submit(world *w, uint32_t steps, uint32_t cores)
{
    uint64_t     id = 0;
    htc__emu_job j = { .name = "job", .script = htc_bytes_of("exit 0\n"), .steps = steps, .cores = cores };
    cr_assert(eq(int, htc__emu_submit(w->e, &j, w->now, &id), HTC_OK));
    return id;
}

static void act(world *w)
{
    htc__emu_action a;
    while (htc__emu_next(w->e, w->now, &a)) {
        if (a.kind == HTC__EMU_KILL) {
            w->killed++;
            for (uint32_t i = 0; i < w->count; i++)
                if (w->all[i].job == a.job && w->all[i].step == a.step)
                    w->all[i].until = w->now;
            continue;
        }
        cr_assert(w->count < RUNNING_MAX);
        w->all[w->count++] = (running){ a.job, a.step, w->now + w->length };
        snprintf(w->clusters[a.job % RUNNING_MAX], 16, "%s", a.cluster);
        w->most = w->count > w->most ? w->count : w->most;
        w->started++;
        w->last_job = a.job;
        w->first = w->now < w->first ? w->now : w->first;
        w->last = w->now;
        htc__emu_started(w->e, a.job, a.step, ++w->handle);
    }
}

/* To the next thing that happens; 0: nothing does any more. */
static int pass(world *w)
{
    act(w);
    htc_ns at = htc__emu_deadline(w->e);
    for (uint32_t i = 0; i < w->count; i++)
        at = w->all[i].until < at ? w->all[i].until : at;
    if (at == HTC_NEVER)
        return 0;
    cr_assert(at > w->now || htc__emu_deadline(w->e) > w->now, "it has a deadline, and nothing to do");
    w->now = at > w->now ? at : w->now;
    for (uint32_t i = w->count; i-- > 0;)
        if (w->all[i].until <= w->now) {
            htc__emu_ended(w->e, w->all[i].job, w->all[i].step, 0, w->now);
            w->all[i] = w->all[--w->count];
        }
    return 1;
}

static void run(world *w)
{
    while (pass(w))
        ;
}

static htc__emu_figures figures(const world *w)
{
    htc__emu_figures f;
    htc__emu_count(w->e, &f);
    return f;
}

/* The specification's section 4.2: one server that takes 0.1 s for each job is what 4000 sleeps of 10 s wait for on 300 cores: about 410 s. */
Test(emu, one_job_after_the_other)
{
    static world w;
    make(&w, &(htc__emu_options){ .clusters = &(htc__emu_cluster){ "glory", 300 }, .n = 1, .service_ns = 100 * HTC_MS });
    for (int i = 0; i < 4000; i++)
        submit(&w, 1, 1);
    run(&w);
    cr_expect(eq(u64, figures(&w).ended, 4000));
    cr_expect(le(u32, w.most, 300));
    cr_expect(eq(u64, w.now, 410 * HTC_SECOND));
    htc__emu_destroy(w.e);
}

/* The steps of one job are served together, and start in the order of the jobs as cores become free. */
Test(emu, steps_of_a_job_are_served_once)
{
    static world w;
    make(&w, &(htc__emu_options){ .clusters = &(htc__emu_cluster){ "c", 4 }, .n = 1, .service_ns = HTC_SECOND });
    submit(&w, 6, 1);
    submit(&w, 1, 4);
    submit(&w, 1, 1);
    act(&w);
    cr_expect(eq(u32, w.started, 0));
    pass(&w);
    act(&w);
    cr_expect(eq(u64, w.now, HTC_SECOND));
    cr_expect(eq(u32, w.started, 4));
    pass(&w);
    act(&w);
    cr_expect(eq(u64, w.now, 11 * HTC_SECOND));
    cr_expect(eq(u32, w.started, 6), "the other two start without service");
    /* Four cores are not free beside them: those behind wait too. */
    cr_expect(eq(u64, figures(&w).served, 1));
    run(&w);
    cr_expect(eq(u64, figures(&w).ended, 8));
    cr_expect(eq(u64, w.now, 43 * HTC_SECOND));
    htc__emu_destroy(w.e);
}

/* The specification's section 4.2: with a hold probability per start and end of the last second the shorter tasks are held more often, and nobody starts those jobs but by
 * cancelling them. */
Test(emu, jobs_are_held_until_somebody_acts)
{
    static world w;
    uint64_t     held[2];
    for (int i = 0; i < 2; i++) {
        make(&w, &(htc__emu_options){ .clusters = &(htc__emu_cluster){ "c", 300 }, .n = 1, .service_ns = 100 * HTC_MS, .hold_rate = 0.0005, .seed = 3 });
        w.length = i ? 100 * HTC_SECOND : 10 * HTC_SECOND;
        for (int j = 0; j < 4000; j++)
            submit(&w, 1, 1);
        run(&w);
        held[i] = figures(&w).held;
        cr_expect(eq(u64, figures(&w).ended + held[i], 4000));
        cr_expect(eq(u32, figures(&w).waiting, (uint32_t)held[i]));
        for (uint64_t j = 1; j <= 4000; j++)
            (void)htc__emu_cancel(w.e, j, 0, w.now);
        cr_expect(eq(u32, figures(&w).waiting, 0));
        htc__emu_destroy(w.e);
    }
    cr_expect(held[0] > 20 && held[0] < 60, "%lu of 4000 sleeps of 10 s are held: about 1 %%", held[0]);
    cr_expect(held[1] < held[0] && held[1] > 0, "%lu and %lu are held", held[1], held[0]);
}

Test(emu, some_steps_fail_as_they_start)
{
    static world w;
    make(&w, &(htc__emu_options){ .clusters = &(htc__emu_cluster){ "c", 4 }, .n = 1, .fail = 0.25 });
    for (int i = 0; i < 400; i++)
        submit(&w, 1, 1);
    run(&w);
    cr_expect(figures(&w).failed > 60 && figures(&w).failed < 140, "%lu failed", figures(&w).failed);
    cr_expect(eq(u64, w.started + figures(&w).failed, 400));
    htc__emu_destroy(w.e);
}

/* The specification's section 5.5, and row 23 of its section 7: all steps of a multi-step job are on the cluster that the metric picks. */
Test(emu, a_job_has_all_its_steps_on_one_cluster)
{
    static world           w;
    const htc__emu_cluster three[] = { { "small", 4 }, { "large", 10 }, { "other", 8 } };
    make(&w, &(htc__emu_options){ .clusters = three, .n = 3, .metric = HTC__METRIC_FREE_CORES });
    submit(&w, 20, 1); /* more than any has free: they wait there all the same */
    act(&w);
    cr_expect(eq(u32, htc__emu_running(w.e, 1), 10));
    cr_expect(eq(u32, htc__emu_running(w.e, 0) + htc__emu_running(w.e, 2), 0));
    submit(&w, 5, 1);
    act(&w);
    cr_expect(eq(u32, htc__emu_running(w.e, 2), 5));
    submit(&w, 2, 1);
    act(&w);
    cr_expect(eq(u32, htc__emu_running(w.e, 0), 2));
    submit(&w, 1, 9); /* one alone has so many */
    run(&w);
    cr_expect(eq(str, w.clusters[4], "large"));
    cr_expect(eq(u64, figures(&w).ended, 28));
    htc__emu_destroy(w.e);

    make(&w, &(htc__emu_options){ .clusters = three, .n = 3, .metric = HTC__METRIC_QUEUE });
    submit(&w, 1, 1); /* nobody waits anywhere: the one with most cores */
    act(&w);
    cr_expect(eq(u32, htc__emu_running(w.e, 1), 1));
    submit(&w, 1, 10); /* waits there */
    act(&w);
    submit(&w, 1, 1); /* so this one goes where none waits */
    act(&w);
    cr_expect(eq(u32, htc__emu_running(w.e, 2), 1));
    run(&w);
    htc__emu_destroy(w.e);
}

/* Resource integration (the specification's 4.4): 4000 equal tasks as one job take 8 rounds on the one cluster that is picked; on all four, 5. */
Test(emu, one_cluster_of_four_takes_eight_rounds)
{
    static world           w;
    const htc__emu_cluster four[] = { { "helix", 128 }, { "gene", 128 }, { "kobic", 184 }, { "glory", 514 } };
    make(&w, &(htc__emu_options){ .clusters = four, .n = 4 });
    submit(&w, 4000, 1);
    run(&w);
    cr_expect(eq(u64, w.now / w.length, 8));
    htc__emu_destroy(w.e);
    make(&w, &(htc__emu_options){ .clusters = four, .n = 4 });
    for (int i = 0; i < 4000; i++)
        submit(&w, 1, 1);
    run(&w);
    cr_expect(gt(u64, w.now / w.length, 4), "a job that was sent to a cluster stays there");
    htc__emu_destroy(w.e);
}

Test(emu, a_step_ends_with_its_wall_time)
{
    static world w;
    uint64_t     id = 0;
    htc__emu_job j = { .name = "job", .steps = 3, .cores = 1, .wall = 4 * HTC_SECOND };
    make(&w, &(htc__emu_options){ .clusters = &(htc__emu_cluster){ "c", 2 }, .n = 1 });
    cr_assert(eq(int, htc__emu_submit(w.e, &j, 0, &id), HTC_OK));
    run(&w);
    cr_expect(eq(u32, w.killed, 3));
    cr_expect(eq(u64, w.now, 8 * HTC_SECOND));
    htc__emu_destroy(w.e);
}

Test(emu, what_is_cancelled_ends)
{
    static world w;
    make(&w, &(htc__emu_options){ .clusters = &(htc__emu_cluster){ "c", 2 }, .n = 1, .service_ns = HTC_SECOND });
    uint64_t a = submit(&w, 3, 1), b = submit(&w, 2, 1);
    cr_expect(eq(int, htc__emu_cancel(w.e, 77, 0, w.now), HTC_ENOTFOUND));
    act(&w);
    cr_expect(eq(int, htc__emu_cancel(w.e, a, 0, w.now), HTC_OK)); /* its cores were set aside */
    pass(&w);
    act(&w);
    cr_expect(eq(u32, w.started, 2));
    cr_expect(eq(int, htc__emu_cancel(w.e, a, 1, w.now), HTC_OK)); /* it runs */
    cr_expect(eq(int, htc__emu_cancel(w.e, b, 1, w.now), HTC_OK)); /* it waits */
    run(&w);
    cr_expect(eq(u32, w.killed, 1));
    cr_expect(eq(u32, w.started, 3));
    cr_expect(eq(u32, figures(&w).waiting + figures(&w).running, 0));
    htc__emu_destroy(w.e);
}

/* A process of ours ends: what runs is known to the next one, what waited is not there any more. */
static void found(void *ctx, uint64_t job, uint32_t step, uint64_t handle)
{
    world *w = ctx;
    w->all[w->count++] = (running){ job, step, w->now + w->length };
    w->handle += handle;
}

Test(emu, a_later_process_goes_on)
{
    static world     w, v;
    htc_buf          one;
    htc__emu_options o = { .clusters = &(htc__emu_cluster){ "c", 3 }, .n = 1 };
    make(&w, &o);
    make(&v, &o);
    htc_buf_init(&one, NULL, 0);
    submit(&w, 5, 1);
    uint64_t last = submit(&w, 1, 1);
    act(&w);
    htc__emu_journal(w.e, &one);
    cr_assert(eq(int, htc__emu_recover(v.e, htc_buf_bytes(&one), found, &v), HTC_OK));
    cr_expect(eq(u32, v.count, 3));
    cr_expect(eq(u64, v.handle, 6));
    cr_expect(eq(u32, figures(&v).running, 3));
    uint64_t next = submit(&v, 1, 1);
    cr_expect(eq(u64, next, last + 1), "numbers are not given twice");
    act(&v);
    cr_expect(eq(u32, v.started, 0), "its cores are in use");
    run(&v);
    cr_expect(eq(u32, v.started, 1));
    cr_expect(eq(int, htc__emu_recover(v.e, htc_bytes_of("htc-emu 2 7 0\n"), found, &v), HTC_EFORMAT));
    cr_expect(eq(int, htc__emu_recover(v.e, htc_bytes_of("htc-emu 1 7 0000000000000009\n"), found, &v), HTC_EEXISTS), "of another directory");
    htc_buf_free(&one);
    htc__emu_destroy(w.e);
    htc__emu_destroy(v.e);
}

/* Whatever is submitted, cancelled and ends: cores are never more than there are, each step starts once at most, and all end. */
static void any_course(uint64_t seed)
{
    static world           w;
    htc_rng                rng = { seed };
    const htc__emu_cluster two[] = { { "a", 5 }, { "b", 9 } };
    uint32_t               steps = 0, cores_of[400] = { 0 };
    make(&w, &(htc__emu_options){ .clusters = two, .n = 2, .metric = seed % 2 ? HTC__METRIC_QUEUE : HTC__METRIC_FREE_CORES, .service_ns = htc_rng_below(&rng, 2) * HTC_SECOND,
                                  .hold = seed % 3 ? 0 : 0.2, .fail = seed % 5 ? 0 : 0.2, .seed = seed });
    w.length = 1 + htc_rng_below(&rng, 10 * HTC_SECOND);
    for (int i = 0; i < 300; i++) {
        uint32_t what = (uint32_t)htc_rng_below(&rng, 4);
        if (what == 0) {
            uint32_t n = 1 + (uint32_t)htc_rng_below(&rng, 12), cores = 1 + (uint32_t)htc_rng_below(&rng, 9);
            uint64_t id = submit(&w, n, cores);
            cr_assert(id < 400);
            cores_of[id] = cores;
            steps += n;
        } else if (what == 1) {
            (void)htc__emu_cancel(w.e, 1 + htc_rng_below(&rng, 100), (uint32_t)htc_rng_below(&rng, 12), w.now);
        } else {
            pass(&w);
        }
        uint32_t used = 0;
        for (uint32_t r = 0; r < w.count; r++)
            used += cores_of[w.all[r].job];
        cr_assert(used <= 14, "%u cores of 14 are used", used);
    }
    for (uint64_t id = 1; id < 400; id++) /* those that are held */
        for (uint32_t s = 0; s < 12; s++)
            if (seed % 3 == 0)
                (void)htc__emu_cancel(w.e, id, s, w.now);
    run(&w);
    cr_assert(eq(u32, figures(&w).running + figures(&w).waiting, 0));
    cr_assert(eq(u64, figures(&w).steps, steps));
    cr_assert(w.started <= steps);
    htc__emu_destroy(w.e);
}

Test(emu, cores_are_never_more_than_there_are)
{
    for (uint64_t seed = 1; seed <= 200; seed++)
        any_course(seed);
}

/* Agents through roles/batch: the emulator is spoken to as any other batch system. Some jobs are held, and some steps fail; each agent has an end, and no
 * job is left. */
Test(emu, agents_are_its_jobs)
{
    static world       w;
    htc__batch        *b = NULL;
    htc__batch_options o = { .system = "emu", .nonce = 0x1234, .user = "u", .log_dir = "/d/log", .steps = 4, .submits_per_s = 10, .time_ns = 60 * HTC_SECOND };
    uint32_t           launched = 0, refused = 0, ended = 0, expired = 0;
    htc_buf            printed, error;
    make(&w, &(htc__emu_options){ .clusters = &(htc__emu_cluster){ "c", 20 }, .n = 1, .service_ns = 100 * HTC_MS, .hold = 0.2, .fail = 0.1, .seed = 9 });
    w.length = 200 * HTC_SECOND; /* they end by the wall time */
    htc_buf_init(&printed, NULL, 1 << 20);
    htc_buf_init(&error, NULL, 1 << 12);
    cr_assert(eq(int, htc__batch_create(&env, &o, &b), HTC_OK));
    for (uint32_t i = 0; i < 100; i++)
        cr_assert(eq(int, htc__batch_launch(b, i + 1, i, 1, "'agent'", w.now), HTC_OK));
    for (int i = 0; i < 20000; i++) {
        htc__batch_run   r;
        htc__batch_event e;
        if (htc__batch_command(b, w.now, &r)) {
            htc_buf_clear(&printed);
            htc_buf_clear(&error);
            int code = htc__emu_command(w.e, r.words, r.input, &printed, &error, w.now);
            cr_assert(eq(int, code, 0));
            htc__batch_done(b, r.id, code, htc_buf_bytes(&printed), htc_buf_bytes(&error), w.now);
        }
        while (htc__batch_next_event(b, &e)) {
            launched += e.kind == HTC__BATCH_LAUNCHED;
            refused += e.kind == HTC__BATCH_REFUSED;
            ended += e.kind == HTC__BATCH_ENDED;
            expired += e.kind == HTC__BATCH_EXPIRES;
        }
        act(&w);
        htc_ns at = htc__batch_deadline(b);
        at = htc__emu_deadline(w.e) < at ? htc__emu_deadline(w.e) : at;
        if (at == HTC_NEVER && w.count == 0)
            break;
        w.now = at > w.now ? at : w.now + 1;
        for (uint32_t n = w.count; n-- > 0;)
            if (w.all[n].until <= w.now) {
                htc__emu_ended(w.e, w.all[n].job, w.all[n].step, 1, w.now);
                w.all[n] = w.all[--w.count];
            }
    }
    cr_expect(eq(u32, launched + refused, 100));
    cr_expect(eq(u32, refused, 0));
    cr_expect(eq(u32, ended, launched));
    cr_expect(gt(u32, expired, 40), "agents are told ahead of the wall time");
    cr_expect(eq(u32, figures(&w).waiting + figures(&w).running, 0), "no job is left");
    cr_expect(gt(u64, figures(&w).held, 0));
    /* What it does not know. */
    htc_buf_clear(&error);
    cr_expect(eq(int, htc__emu_command(w.e, (htc_bytes){ "emu\0submit\0--name", 17 }, (htc_bytes){ 0 }, &printed, &error, 0), 1));
    cr_expect(eq(int, htc__emu_command(w.e, (htc_bytes){ "emu\0submit\0--name\0", 18 }, (htc_bytes){ 0 }, &printed, &error, 0), 1));
    cr_expect(eq(int, htc__emu_command(w.e, (htc_bytes){ "emu\0submit\0--name\0x\0--cores\0" "21\0", 31 }, (htc_bytes){ 0 }, &printed, &error, 0), 1));
    htc_buf_free(&printed);
    htc_buf_free(&error);
    htc__batch_destroy(b);
    htc__emu_destroy(w.e);
}
