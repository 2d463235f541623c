/* The scale model of provisioning: beside a slow and obvious one, the same run everywhere, nothing lost, and its policies are those of the library. */
#include <math.h>

#include "alloc_fail.h"
#include "property.h"
#include "reel.h"
#include "sim_provision_slow.h"

#define S    HTC_SECOND
#define HOUR (3600 * HTC_SECOND)

/* ---- beside the slow model ---- */

static void draw_jobs(htc_rng *rng, slow_environment *e, uint64_t widest)
{
    uint64_t at = htc_rng_below(rng, 20);
    e->jobs = 1 + htc_rng_below(rng, SLOW_JOBS);
    for (size_t j = 0; j < e->jobs; j++) {
        e->job[j] = (slow_job){ .arrives = at, .runs = htc_rng_below(rng, 4) ? htc_rng_below(rng, 120) : 0, .nodes = 1 + htc_rng_below(rng, widest) };
        at += htc_rng_below(rng, 3) ? htc_rng_below(rng, 40) : 0;
    }
}

static void draw_flow(htc_rng *rng, slow_environment *e)
{
    uint64_t at = htc_rng_below(rng, 50);
    e->workflow = 1;
    e->jobs = 1 + htc_rng_below(rng, SLOW_JOBS);
    for (size_t j = 0; j < e->jobs; j++) {
        e->job[j] = (slow_job){ .arrives = at, .runs = htc_rng_below(rng, 5) ? htc_rng_below(rng, 60) : 0, .nodes = 1 };
        for (size_t k = htc_rng_below(rng, 3), parent = 0; j && k > 0; k--, parent++) {
            parent += htc_rng_below(rng, j);
            if (parent < j)
                e->edge[e->edges++] = (htc_sim_provision_edge){ (uint32_t)parent, (uint32_t)j };
        }
    }
}

static void draw(htc_rng *rng, slow *s)
{
    *s = (slow){ .system = (uint32_t)htc_rng_below(rng, 4), .n = 1 + htc_rng_below(rng, 3) };
    uint64_t room = 0;
    for (size_t i = 0; i < s->n; i++) {
        slow_environment *e = &s->e[i];
        e->own = 1 + htc_rng_below(rng, 12);
        e->initial = htc_rng_below(rng, 8);
        e->unit = 20 + htc_rng_below(rng, 100);
        e->scan = 1 + htc_rng_below(rng, 15);
        e->phase = 1 + htc_rng_below(rng, e->scan);
        e->ratio = 500000 + htc_rng_below(rng, 2000000);
        e->perlease = htc_rng_below(rng, 2) > 0;
        e->waiting_only = htc_rng_below(rng, 3) == 0;
        e->priority = (int32_t)htc_rng_below(rng, 3) - 1;
        if (htc_rng_below(rng, 3))
            draw_jobs(rng, e, 1 + htc_rng_below(rng, 14));
        else
            draw_flow(rng, e);
        /* what never fits would wait for ever: there is a period, or nothing is wider than what is held for good */
        if (htc_rng_below(rng, 2))
            e->period = 50 + htc_rng_below(rng, 600);
        for (size_t j = 0; !e->period && j < e->jobs; j++)
            e->initial = e->initial < e->job[j].nodes ? e->job[j].nodes : e->initial;
        room += s->system == HTC_SIM_PROVISION_DSP ? e->initial : e->own;
    }
    s->capacity = room + htc_rng_below(rng, 20);
}

typedef struct same_run {
    htc_sim_provision_job         job[3][SLOW_JOBS];
    htc_ns                        length[3][SLOW_JOBS];
    htc_sim_provision_flow        flow[3];
    htc_provision_options         book[3];
    htc_sim_provision_environment environment[3];
    htc_sim_provision_options     options;
} same_run;

static void same_environment(same_run *r, const slow_environment *e, size_t i)
{
    r->book[i] = (htc_provision_options){ .size = sizeof r->book[i],
                                          .policy = htc_provision_policy_of(e->perlease ? HTC_PROVISION_PERLEASE : HTC_PROVISION_PAPER),
                                          .scope = e->waiting_only ? HTC_PROVISION_WAITING : HTC_PROVISION_UNFINISHED,
                                          .initial = e->initial ? e->initial : HTC_PROVISION_NO_NODES,
                                          .ratio = e->ratio, .scan_ns = e->scan * S, .phase_ns = e->phase * S, .unit_ns = e->unit * S };
    r->environment[i] = (htc_sim_provision_environment){ .size = sizeof r->environment[i], .nodes = e->own, .book = &r->book[i], .priority = e->priority,
                                                         .period_ns = e->period * S };
    for (size_t j = 0; j < e->jobs; j++) {
        r->job[i][j] = (htc_sim_provision_job){ .arrival = e->job[j].arrives * S, .length = e->job[j].runs * S, .nodes = (uint32_t)e->job[j].nodes };
        r->length[i][j] = e->job[j].runs * S;
    }
    r->flow[i] = (htc_sim_provision_flow){ .size = sizeof r->flow[i], .arrival = e->job[0].arrives * S, .length = r->length[i], .edges = e->edge,
                                           .tasks = (uint32_t)e->jobs, .n_edges = (uint32_t)e->edges };
    if (e->workflow) {
        r->environment[i].flows = &r->flow[i];
        r->environment[i].n_flows = 1;
    } else {
        r->environment[i].jobs = r->job[i];
        r->environment[i].n_jobs = e->jobs;
    }
}

static void same(same_run *r, const slow *s)
{
    for (size_t i = 0; i < s->n; i++)
        same_environment(r, &s->e[i], i);
    r->options = (htc_sim_provision_options){ .size = sizeof r->options, .system = s->system, .environments = r->environment, .n_environments = s->n,
                                              .capacity = s->capacity, .tick_ns = S, .active_max = 200 };
}

Test(sim_provision, is_the_slow_model)
{
    static slow     s;
    static same_run run;
    uint64_t        seen[4] = { 0 }, rejected = 0, leases = 0, unfinished = 0;
    PROPERTY (rng, 3000) {
        htc_sim_provision_report r = { .size = sizeof r };
        htc_sim_provision_result got[3];
        htc_error                error = { 0 };
        draw(&rng, &s);
        same(&run, &s);
        htc_status status = htc_sim_provision_run(NULL, &run.options, &r, got, &error);
        cr_assert(status == HTC_OK, "seed %llu: %s", (unsigned long long)property_seed, error.text);
        cr_assert(eq(str, r.scale.wrong, ""), "seed %llu", (unsigned long long)property_seed);
        cr_assert(slow_all(&s, 100000), "seed %llu", (unsigned long long)property_seed);
        HOLDS(r.peak == s.peak);
        for (size_t i = 0; i < s.n; i++) {
            const slow_environment *e = &s.e[i];
            HOLDS(got[i].completed == e->completed);
            HOLDS(got[i].refused == e->refused);
            HOLDS(got[i].node_units == e->units);
            HOLDS(got[i].peak == e->peak);
            HOLDS(got[i].requests == e->requests && got[i].rejected == e->rejected);
            HOLDS(s.system == HTC_SIM_PROVISION_DCS || (got[i].granted == e->granted && got[i].returned == e->returned));
            HOLDS(fabs(got[i].held_s - (double)e->held_s) < 1e-6 && fabs(got[i].busy_s - (double)e->busy_s) < 1e-6);
            rejected += e->rejected;
            leases += e->granted;
            unfinished += got[i].unfinished;
        }
        seen[s.system]++;
    }
    cr_expect(seen[0] && seen[1] && seen[2] && seen[3] && rejected && leases && unfinished);
}

/* The mean wait, in runs of one environment. */
Test(sim_provision, waits_as_the_slow_model)
{
    static slow     s;
    static same_run run;
    PROPERTY (rng, 400) {
        htc_sim_provision_report r = { .size = sizeof r };
        htc_sim_provision_result got[3];
        draw(&rng, &s);
        s.n = 1;
        s.e[0].period = 0;
        for (size_t j = 0; !s.e[0].workflow && j < s.e[0].jobs; j++)
            s.e[0].job[j].nodes = s.e[0].job[j].nodes % s.e[0].own + 1;
        s.e[0].own++;
        s.e[0].initial = s.e[0].own;
        s.capacity = 40;
        same(&run, &s);
        HOLDS(htc_sim_provision_run(NULL, &run.options, &r, got, NULL) == HTC_OK);
        HOLDS(slow_all(&s, 100000));
        HOLDS(got[0].completed == s.e[0].jobs && got[0].unfinished == 0);
        HOLDS(fabs(got[0].wait_s - (double)s.e[0].wait / (double)s.e[0].jobs) < 1e-9);
    }
}

/* ---- every option: nothing is lost, and it is the same again ---- */

static void draw_more(htc_rng *rng, same_run *r, htc_provision_options *shared)
{
    htc_sim_provision_options *o = &r->options;
    o->granter = htc_provision_granter_of((uint32_t)htc_rng_below(rng, 2));
    o->setup = htc_provision_setup_of((uint32_t)htc_rng_below(rng, 3));
    for (size_t i = 0; i < o->n_environments; i++) {
        static htc_fit_policy fit[HTC_FIT_PROMISE_ALL + 1];
        uint32_t              promise = HTC_FIT_PROMISE_NOTHING + (uint32_t)htc_rng_below(rng, 4);
        fit[promise] = (htc_fit_policy){ .size = sizeof *fit, .promise = promise };
        r->environment[i].fit = &fit[promise];
        r->environment[i].weight = htc_rng_below(rng, 4);
        for (size_t j = 0; j < SLOW_JOBS; j++) {
            r->job[i][j].estimate = htc_rng_below(rng, 3) ? r->job[i][j].length + htc_rng_below(rng, 30 * S) : 0;
            r->job[i][j].priority = (uint32_t)htc_rng_below(rng, 3);
        }
    }
    if (o->system != HTC_SIM_PROVISION_DSP)
        return;
    o->setup_delay = (uint32_t)htc_rng_below(rng, 2);
    if (htc_rng_below(rng, 2) == 0)
        return;
    *shared = r->book[0];
    o->shared = shared;
    o->setup_delay = 0;
    o->capacity += 14;
    if (shared->initial != HTC_PROVISION_NO_NODES && shared->initial > o->capacity)
        shared->initial = o->capacity;
}

Test(sim_provision, loses_nothing_and_is_the_same_again)
{
    static slow     s;
    static same_run run;
    uint64_t        lent = 0, delayed = 0;
    PROPERTY (rng, 3000) {
        htc_sim_provision_report r = { .size = sizeof r }, again = r;
        htc_sim_provision_result got[3];
        htc_provision_options    shared;
        htc_error                error = { 0 };
        uint64_t                 completed = 0, jobs = 0;
        draw(&rng, &s);
        same(&run, &s);
        draw_more(&rng, &run, &shared);
        htc_status status = htc_sim_provision_run(NULL, &run.options, &r, got, &error);
        cr_assert(status == HTC_OK, "seed %llu: %s", (unsigned long long)property_seed, error.text);
        HOLDS(htc_sim_provision_run(NULL, &run.options, &again, NULL, NULL) == HTC_OK);
        cr_assert(eq(str, r.scale.wrong, ""), "seed %llu", (unsigned long long)property_seed);
        HOLDS(r.scale.hash == again.scale.hash && r.scale.finished && r.scale.ended == r.scale.submitted);
        for (size_t i = 0; i < s.n; i++) {
            HOLDS(got[i].completed + got[i].unfinished + got[i].refused == got[i].submitted && got[i].submitted <= s.e[i].jobs);
            HOLDS(s.e[i].period || got[i].submitted == s.e[i].jobs);
            HOLDS(got[i].busy_s <= got[i].held_s + 1e-6);
            completed += got[i].completed;
            jobs += got[i].submitted;
        }
        HOLDS(completed == r.completed && jobs == r.submitted && r.busy_s <= r.held_s + 1e-6 && r.busy_peak <= r.peak);
        HOLDS(s.system == HTC_SIM_PROVISION_DRP || s.system == HTC_SIM_PROVISION_DCS || r.peak <= run.options.capacity);
        lent += run.options.shared && r.completed;
        delayed += run.options.setup_delay && r.granted;
    }
    cr_expect(lent && delayed);
}

/* ---- in pieces ---- */

typedef struct source {
    const htc_sim_provision_job *jobs;
    size_t                       n, next;
} source;

static htc_status give_next(void *ctx, htc_sim_provision_job *job)
{
    source *s = ctx;
    if (s->next == s->n)
        return HTC_AGAIN;
    *job = s->jobs[s->next++];
    return HTC_OK;
}

static void add_samples(void *ctx, const htc_sim_provision_sample *s)
{
    uint64_t *sums = ctx;
    for (size_t i = 0; i < s->n_environments; i++)
        sums[0] = sums[0] * 31 + s->at / S + 3 * s->held[i] + 5 * s->busy[i] + 7 * s->waiting[i] + s->node_units;
}

/* Whatever the cuts are, results, samples and hash are those of the whole run; jobs of a source go on where it was. */
Test(sim_provision, goes_on_from_a_checkpoint_to_the_same_end)
{
    static slow     s;
    static same_run run;
    uint64_t        cuts = 0, systems[4] = { 0 }, lent = 0, sources = 0;
    PROPERTY (rng, 1500) {
        htc_sim_provision_report whole = { .size = sizeof whole }, part = whole;
        htc_sim_provision_result got[3], parts[3];
        htc_provision_options    shared;
        htc_error                e = { 0 };
        reel                     from = { 0 }, to = { 0 };
        htc_scale_tape           resume = { .size = sizeof resume, .reads = 1, .move = reel_read, .ctx = &from }, checkpoint = { .size = sizeof checkpoint, .move = reel_write, .ctx = &to };
        htc_scale_host           host = { .size = sizeof host };
        source                   given = { 0 };
        uint64_t                 sums = 0, sums_whole, here = 0;
        draw(&rng, &s);
        same(&run, &s);
        draw_more(&rng, &run, &shared);
        if (htc_rng_below(&rng, 2) && run.environment[0].jobs) {
            given = (source){ .jobs = run.job[0], .n = run.environment[0].n_jobs };
            run.environment[0].jobs = NULL;
            run.environment[0].n_jobs = 0;
            run.environment[0].next_job = give_next;
            run.environment[0].ctx = &given;
            sources++;
        }
        run.options.sample = add_samples;
        run.options.sample_ns = 30 * S;
        run.options.sample_ctx = &sums;
        cr_assert(eq(int, htc_sim_provision_run(NULL, &run.options, &whole, got, &e), HTC_OK), "seed %llu: %s", (unsigned long long)property_seed, e.text);
        sums_whole = sums;
        sums = 0;
        given.next = 0;
        run.options.host = &host;
        run.options.checkpoint = &checkpoint;
        for (part.interrupted = 1; part.interrupted; cuts += part.interrupted) {
            host.stop_after = 1 + htc_rng_below(&rng, whole.scale.events);
            cr_assert(eq(int, htc_sim_provision_run(NULL, &run.options, &part, parts, &e), HTC_OK), "seed %llu: %s", (unsigned long long)property_seed, e.text);
            cr_assert(eq(str, part.scale.wrong, ""), "seed %llu", (unsigned long long)property_seed);
            HOLDS(!part.interrupted || part.scale.events_here == host.stop_after);
            here += part.scale.events_here;
            free(from.data);
            from = to;
            to = (reel){ 0 };
            run.options.resume = &resume;
        }
        HOLDS(part.scale.hash == whole.scale.hash && part.scale.events == whole.scale.events && here == whole.scale.events && sums == sums_whole);
        HOLDS(memcmp(got, parts, s.n * sizeof *got) == 0);
        HOLDS(part.node_units == whole.node_units && part.peak == whole.peak && part.held_s == whole.held_s && part.scans == whole.scans && part.requests == whole.requests);
        systems[s.system]++;
        lent += run.options.shared != NULL;
        free(from.data);
        free(to.data);
    }
    cr_expect(cuts > 50 && systems[0] && systems[1] && systems[2] && systems[3] && lent && sources);
}

static htc_status no_flow(void *ctx, htc_sim_provision_flow *flow)
{
    (void)ctx;
    (void)flow;
    return HTC_AGAIN;
}

/* Cut short it is HTC_EIO; of other options HTC_EFORMAT. */
Test(sim_provision, refuses_what_is_no_checkpoint_of_the_experiment)
{
    static slow     s;
    static same_run run;
    reel            film = { 0 };
    htc_scale_tape  resume = { .size = sizeof resume, .reads = 1, .move = reel_read, .ctx = &film }, checkpoint = { .size = sizeof checkpoint, .move = reel_write, .ctx = &film };
    htc_scale_host  host = { .size = sizeof host, .stop_after = 20 };
    PROPERTY (rng, 200) {
        htc_sim_provision_report r = { .size = sizeof r };
        htc_error                e = { 0 };
        draw(&rng, &s);
        same(&run, &s);
        film.len = film.at = film.ends = 0;
        run.options.host = &host;
        run.options.checkpoint = &checkpoint;
        cr_assert(eq(int, htc_sim_provision_run(NULL, &run.options, &r, NULL, &e), HTC_OK), "%s", e.text);
        if (!r.interrupted)
            continue;
        size_t whole = film.len;
        film.ends = whole / 2;
        film.len = 0;
        cr_expect(eq(int, htc_sim_provision_run(NULL, &run.options, &r, NULL, &e), HTC_ENOSPC) && strstr(e.text, "could not be written") != NULL);
        film.ends = film.len = 0;
        cr_assert(eq(int, htc_sim_provision_run(NULL, &run.options, &r, NULL, &e), HTC_OK) && film.len == whole);
        run.options.checkpoint = NULL;
        run.options.resume = &resume;
        run.options.host = NULL;
        film.len = htc_rng_below(&rng, whole);
        cr_assert(eq(int, htc_sim_provision_run(NULL, &run.options, &r, NULL, &e), HTC_EIO), "%zu bytes", film.len);
        film.len = whole;
        film.at = 0;
        *(uint32_t *)(void *)film.data ^= 1; /* the first number is of the options */
        cr_expect(eq(int, htc_sim_provision_run(NULL, &run.options, &r, NULL, &e), HTC_EFORMAT));
        *(uint32_t *)(void *)film.data ^= 1;
        film.at = 0;
        run.environment[0].priority++;
        cr_expect(eq(int, htc_sim_provision_run(NULL, &run.options, &r, NULL, &e), HTC_EFORMAT) && strstr(e.text, "not of this experiment") != NULL);
        run.environment[0].priority--;
    }
    htc_sim_provision_report r = { .size = sizeof r };
    htc_error                e;
    run.options.resume = NULL;
    run.options.checkpoint = &checkpoint;
    run.environment[0].flows = NULL;
    run.environment[0].jobs = NULL;
    run.environment[0].n_flows = run.environment[0].n_jobs = 0;
    run.environment[0].next_flow = no_flow;
    cr_expect(eq(int, htc_sim_provision_run(NULL, &run.options, &r, NULL, &e), HTC_EUNSUPPORTED) && strstr(e.text, "source of workflows") != NULL);
    free(film.data);
}

/* ---- the policies are the library's, or whoever's is given ---- */

static uint64_t twice(void *ctx, const htc_provision_view *view, uint32_t *reason)
{
    ++*(uint64_t *)ctx;
    *reason = 1000;
    return 2 * htc_provision_request_size(view->owned, view->demand, view->ratio, view->scope, NULL);
}

static uint64_t nothing_back(void *ctx, const htc_provision_view *view, uint64_t leased)
{
    (void)view;
    (void)leased;
    ++*(uint64_t *)ctx;
    return 0;
}

static uint64_t all_back(void *ctx, const htc_provision_view *view, uint64_t leased)
{
    (void)ctx;
    (void)view;
    return leased;
}

static htc_status at_most_three(void *ctx, const htc_env *env, uint64_t free_nodes, const htc_provision_request *requests, size_t n, uint64_t *granted)
{
    (void)env;
    ++*(uint64_t *)ctx;
    for (size_t i = 0; i < n; i++) {
        granted[i] = requests[i].initial || requests[i].nodes < 3 ? requests[i].nodes : 3;
        granted[i] = granted[i] <= free_nodes ? granted[i] : 0;
        free_nodes -= granted[i];
    }
    return HTC_OK;
}

static htc_status last_first(void *ctx, const htc_fit *fit, htc_ns now, uint64_t *id)
{
    htc_fit_job job;
    htc_status  status = htc_fit_candidate(fit, now, NULL, &job);
    ++*(uint64_t *)ctx;
    if (status != HTC_OK)
        return status;
    do
        *id = job.id;
    while (htc_fit_candidate(fit, now, &job, &job) == HTC_OK);
    return HTC_OK;
}

/* A made-up day: a job every five minutes. */
#define DAY_JOBS 288
static htc_sim_provision_job day[DAY_JOBS];

static htc_sim_provision_report day_of(htc_sim_provision_options o, htc_sim_provision_environment e, htc_sim_provision_result *result)
{
    htc_sim_provision_report r = { .size = sizeof r };
    for (uint32_t i = 0; i < DAY_JOBS; i++)
        day[i] = (htc_sim_provision_job){ .arrival = i * 300 * S, .length = (i * 7919 % 97) * 60 * S, .nodes = 1 + i * 31 % 17 };
    e.size = sizeof e;
    e.jobs = day;
    e.n_jobs = DAY_JOBS;
    o.size = sizeof o;
    o.environments = &e;
    o.n_environments = 1;
    htc_error error = { 0 };
    cr_assert(htc_sim_provision_run(NULL, &o, &r, result, &error) == HTC_OK, "%s", error.text);
    cr_expect(eq(str, r.scale.wrong, ""));
    return r;
}

Test(sim_provision, another_policy_is_another_run)
{
    uint64_t                      calls[4] = { 0 };
    const htc_provision_options   paper = { .size = sizeof paper, .initial = 10 };
    htc_sim_provision_options     o = { .capacity = 200 };
    htc_sim_provision_environment e = { .book = &paper, .period_ns = 26 * HOUR };
    htc_sim_provision_result      base, got;
    htc_sim_provision_report      b = day_of(o, e, &base), r;
    {
        htc_provision_policy  mine = *htc_provision_policy_of(HTC_PROVISION_PAPER);
        htc_provision_options book = paper;
        mine.ctx = &calls[0];
        mine.request = twice;
        book.policy = &mine;
        e.book = &book;
        r = day_of(o, e, &got);
        cr_expect(calls[0] > 100 && r.scale.hash != b.scale.hash && got.granted != base.granted && got.node_units > base.node_units);
        mine = *htc_provision_policy_of(HTC_PROVISION_PAPER);
        mine.ctx = &calls[1];
        mine.release = nothing_back;
        r = day_of(o, e, &got);
        cr_expect(calls[1] > 10 && r.scale.hash != b.scale.hash && got.node_units > base.node_units);
        book.policy = htc_provision_policy_of(HTC_PROVISION_PERLEASE);
        r = day_of(o, e, &got);
        cr_expect(r.scale.hash != b.scale.hash && got.node_units < base.node_units);
        e.book = &paper;
    }
    {
        const htc_provision_granter mine = { .size = sizeof mine, .ctx = &calls[2], .grant = at_most_three };
        o.granter = &mine;
        r = day_of(o, e, &got);
        cr_expect(calls[2] > 10 && r.scale.hash != b.scale.hash && got.wait_s > base.wait_s && got.node_units != base.node_units);
        o.granter = NULL;
    }
    {
        const htc_fit_policy mine = { .size = sizeof mine, .ctx = &calls[3], .promise = HTC_FIT_PROMISE_NOTHING, .choose = last_first };
        e.fit = &mine;
        r = day_of(o, e, &got);
        cr_expect(calls[3] > 100 && r.scale.hash != b.scale.hash && got.wait_s != base.wait_s);
    }
}

/* A request that is larger than the provider is refused for ever; partial grants serve it. */
Test(sim_provision, partial_grants_end_a_starvation)
{
    htc_sim_provision_job         jobs[60];
    const htc_provision_options   book = { .size = sizeof book, .initial = 4, .ratio = HTC_PROVISION_ONE };
    htc_sim_provision_environment e = { .size = sizeof e, .book = &book, .jobs = jobs, .n_jobs = 60, .period_ns = 10 * HOUR };
    htc_sim_provision_options     o = { .size = sizeof o, .environments = &e, .n_environments = 1, .capacity = 50 };
    htc_sim_provision_report      r = { .size = sizeof r };
    htc_sim_provision_result      whole, parts;
    for (int i = 0; i < 60; i++)
        jobs[i] = (htc_sim_provision_job){ .length = 2 * HOUR, .nodes = 4 };
    cr_assert(eq(int, htc_sim_provision_run(NULL, &o, &r, &whole, NULL), HTC_OK));
    cr_expect(eq(u64, whole.granted, 4) && eq(u64, whole.starved, 1) && eq(u64, whole.completed, 5));
    o.granter = htc_provision_granter_of(HTC_PROVISION_PARTIAL);
    cr_assert(eq(int, htc_sim_provision_run(NULL, &o, &r, &parts, NULL), HTC_OK));
    cr_expect(eq(u64, parts.granted, 50) && eq(u64, parts.completed, 49));
    /* without a period it would go on for ever */
    o.granter = NULL;
    e.period_ns = 0;
    jobs[59].nodes = 20;
    cr_assert(eq(int, htc_sim_provision_run(NULL, &o, &r, &whole, NULL), HTC_OK));
    cr_expect(eq(u64, whole.completed, 60) && eq(u64, r.refused, 0), "the queue becomes shorter than the pool");
    e.n_jobs = 1;
    jobs[0].nodes = 51;
    cr_assert(eq(int, htc_sim_provision_run(NULL, &o, &r, &whole, NULL), HTC_OK));
    cr_expect(eq(u64, whole.refused, 1) && eq(u64, whole.unfinished, 0));
    const htc_provision_options   greedy = { .size = sizeof greedy, .initial = 30 };
    htc_sim_provision_environment two[2] = { { .size = sizeof *two, .book = &greedy, .period_ns = 4 * HOUR }, e };
    o.environments = two;
    o.n_environments = 2;
    jobs[0].nodes = 40;
    cr_assert(eq(int, htc_sim_provision_run(NULL, &o, &r, NULL, NULL), HTC_OK));
    cr_expect(eq(u64, r.completed, 1) && eq(u64, r.unfinished, 0), "it waits until the other environment has gone");
}

static uint64_t five_or_none(void *ctx, const htc_provision_view *view, uint32_t *reason)
{
    ++*(uint64_t *)ctx;
    *reason = 1000;
    return view->owned ? 0 : 5;
}

/* A policy that leases too few nodes for its job and returns them, again and again, runs no longer than it takes to see that. */
Test(sim_provision, what_leases_in_vain_comes_to_an_end)
{
    static const htc_sim_provision_job jobs[] = { { .arrival = 0, .length = HOUR, .nodes = 5 }, { .arrival = 9000 * HOUR, .length = HOUR, .nodes = 6 } };
    uint64_t                           asked = 0;
    htc_provision_policy               mine = *htc_provision_policy_of(HTC_PROVISION_PERLEASE);
    const htc_provision_options        book = { .size = sizeof book, .policy = &mine, .initial = HTC_PROVISION_NO_NODES };
    htc_sim_provision_environment      e = { .size = sizeof e, .book = &book, .jobs = jobs, .n_jobs = 2 };
    htc_sim_provision_options          o = { .size = sizeof o, .environments = &e, .n_environments = 1, .capacity = 10 };
    htc_sim_provision_exact_options    x = { .size = sizeof x };
    htc_sim_provision_report           r = { .size = sizeof r };
    mine.ctx = &asked;
    mine.request = five_or_none;
    mine.release = all_back;
    for (int exact = 0; exact < 2; exact++) {
        asked = 0;
        cr_assert(eq(int, exact ? htc_sim_provision_exact(NULL, &o, &x, &r, NULL, NULL) : htc_sim_provision_run(NULL, &o, &r, NULL, NULL), HTC_OK));
        cr_expect(eq(str, r.scale.wrong, ""));
        cr_expect(eq(u64, r.completed, 1) && eq(u64, r.unfinished, 1), "engine %d", exact);
        cr_expect(asked > 100, "it was given its time: %llu", (unsigned long long)asked);
    }
}

/* Two environments, one node at a time idle in each: lent, it need not be leased twice. */
Test(sim_provision, lends_what_is_idle)
{
    static const htc_sim_provision_job jobs[2][2] = { { { .arrival = 0, .length = 600 * S, .nodes = 5 }, { .arrival = 1800 * S, .length = 600 * S, .nodes = 5 } },
                                                      { { .arrival = 900 * S, .length = 600 * S, .nodes = 5 }, { .arrival = 2700 * S, .length = 600 * S, .nodes = 5 } } };
    const htc_provision_options   book = { .size = sizeof book, .policy = htc_provision_policy_of(HTC_PROVISION_PERLEASE), .initial = HTC_PROVISION_NO_NODES, .phase_ns = 60 * S };
    htc_sim_provision_environment e[2] = { { .size = sizeof *e, .book = &book, .jobs = jobs[0], .n_jobs = 2 }, { .size = sizeof *e, .book = &book, .jobs = jobs[1], .n_jobs = 2 } };
    htc_sim_provision_options     o = { .size = sizeof o, .environments = e, .n_environments = 2, .capacity = 20 };
    htc_sim_provision_report      r = { .size = sizeof r };
    htc_sim_provision_result      got[2];
    cr_assert(eq(int, htc_sim_provision_run(NULL, &o, &r, got, NULL), HTC_OK));
    cr_expect(eq(u64, r.node_units, 10) && eq(u64, r.peak, 10) && eq(u64, r.granted, 10));
    o.shared = &book;
    cr_assert(eq(int, htc_sim_provision_run(NULL, &o, &r, got, NULL), HTC_OK));
    cr_expect(eq(str, r.scale.wrong, ""));
    cr_expect(eq(u64, r.node_units, 5) && eq(u64, r.peak, 5) && eq(u64, r.granted, 20), "each job's nodes are set up for it");
    cr_expect(got[0].wait_s == 30 && got[1].wait_s == 0, "the first waits for the first scan alone: %g and %g s", got[0].wait_s, got[1].wait_s);
}

/* A node can be used when it is set up. */
Test(sim_provision, setup_takes_its_time)
{
    const htc_sim_provision_job   job = { .length = 100 * S, .nodes = 3 };
    const htc_provision_options   book = { .size = sizeof book, .initial = HTC_PROVISION_NO_NODES };
    htc_sim_provision_environment e = { .size = sizeof e, .book = &book, .jobs = &job, .n_jobs = 1 };
    htc_sim_provision_options     o = { .size = sizeof o, .environments = &e, .n_environments = 1, .capacity = 3 };
    htc_sim_provision_report      r = { .size = sizeof r };
    htc_sim_provision_result      got;
    cr_assert(eq(int, htc_sim_provision_run(NULL, &o, &r, &got, NULL), HTC_OK));
    cr_expect(eq(u64, got.last, 160 * S) && eq(u64, got.setup_ns, 6 * 15743 * HTC_MS));
    o.setup_delay = 1;
    cr_assert(eq(int, htc_sim_provision_run(NULL, &o, &r, &got, NULL), HTC_OK));
    cr_expect(eq(u64, got.last, 175743 * HTC_MS) && eq(str, r.scale.wrong, ""));
}

/* ---- the course over time ---- */

typedef struct course {
    uint64_t n, held[8], busy[8], waiting[8], units[8];
    double   cost;
} course;

static void note(void *ctx, const htc_sim_provision_sample *s)
{
    course *c = ctx;
    if (c->n < 8) {
        c->held[c->n] = s->held[0];
        c->busy[c->n] = s->busy[0];
        c->waiting[c->n] = s->waiting[0];
        c->units[c->n] = s->node_units;
    }
    c->cost = s->cost;
    c->n++;
    cr_expect(s->all_held == s->held[0] && s->n_environments == 1 && s->at % (1800 * S) == 0);
}

Test(sim_provision, has_a_course_over_time)
{
    static const htc_sim_provision_job jobs[] = { { .length = 4000 * S, .nodes = 4 }, { .arrival = 1000 * S, .length = 1000 * S, .nodes = 6 } };
    const htc_provision_options   book = { .size = sizeof book, .initial = 4 };
    htc_sim_provision_environment e = { .size = sizeof e, .nodes = 6, .book = &book, .jobs = jobs, .n_jobs = 2, .period_ns = 3 * HOUR };
    course                        c = { 0 };
    htc_sim_provision_options     o = { .size = sizeof o, .environments = &e, .n_environments = 1, .price = 0.1, .sample_ns = 1800 * S, .sample = note, .sample_ctx = &c };
    htc_sim_provision_report      r = { .size = sizeof r };
    cr_assert(eq(int, htc_sim_provision_run(NULL, &o, &r, NULL, NULL), HTC_OK));
    /* DSP: 4 initial nodes; at 1020 s D = 10 of 4, so that 6 come, and go an hour later */
    static const uint64_t held[] = { 4, 10, 10, 4, 4, 4, 0 }, busy[] = { 4, 10, 4, 0, 0, 0, 0 }, units[] = { 4, 10, 10, 14, 14, 18, 18 };
    cr_expect(eq(u64, c.n, 7) && eq(u64, r.node_units, 18));
    for (int i = 0; i < 7; i++)
        cr_expect(c.held[i] == held[i] && c.busy[i] == busy[i] && c.units[i] == units[i], "sample %d: %llu held, %llu busy, %llu units", i, (unsigned long long)c.held[i],
                  (unsigned long long)c.busy[i], (unsigned long long)c.units[i]);
    cr_expect(fabs(r.cost - 1.8) < 1e-9 && fabs(c.cost - 1.8) < 1e-9);
    c.n = 0;
    o.system = HTC_SIM_PROVISION_DRP;
    cr_assert(eq(int, htc_sim_provision_run(NULL, &o, &r, NULL, NULL), HTC_OK));
    static const uint64_t direct[] = { 4, 10, 10, 4, 0 }, charged[] = { 4, 10, 14, 14, 14 };
    cr_expect(eq(u64, r.node_units, 14));
    for (int i = 0; i < 5; i++)
        cr_expect(i == 4 || (c.held[i] == direct[i] && c.units[i] == charged[i]), "sample %d: %llu held, %llu units", i, (unsigned long long)c.held[i], (unsigned long long)c.units[i]);
    /* a cluster of one's own: a twelfth of a year's 3,162.5 dollars for three hours */
    const htc_provision_owning owning = { .capex = 12000000, .maintenance = 3000000, .energy_space = 160000, .years = 8 };
    o.system = HTC_SIM_PROVISION_DCS;
    o.owning = &owning;
    cr_assert(eq(int, htc_sim_provision_run(NULL, &o, &r, NULL, NULL), HTC_OK));
    cr_expect(fabs(r.cost - 316250 * 3 / 720.0) < 1e-6, "%g cents", r.cost);
}

/* ---- streams: the memory of what waits and runs ---- */

typedef struct stream {
    uint64_t n, given;
    htc_rng  rng;
    htc_ns   at;
} stream;

static htc_status next_job(void *ctx, htc_sim_provision_job *job)
{
    stream *s = ctx;
    if (s->given++ == s->n)
        return HTC_AGAIN;
    s->at += htc_rng_below(&s->rng, 60 * S);
    *job = (htc_sim_provision_job){ .arrival = s->at, .length = htc_rng_below(&s->rng, 1200 * S), .nodes = 1 + (uint32_t)htc_rng_below(&s->rng, 4) };
    return HTC_OK;
}

static htc_sim_provision_report stream_of(uint64_t n, uint32_t system)
{
    stream                        s = { .n = n, .rng = { 11 } };
    htc_sim_provision_environment e = { .size = sizeof e, .nodes = 60, .next_job = next_job, .ctx = &s };
    htc_sim_provision_options     o = { .size = sizeof o, .system = system, .environments = &e, .n_environments = 1, .capacity = 200, .active_max = 2000 };
    htc_sim_provision_report      r = { .size = sizeof r };
    htc_error                     error = { 0 };
    cr_assert(htc_sim_provision_run(NULL, &o, &r, NULL, &error) == HTC_OK, "%s", error.text);
    cr_expect(eq(str, r.scale.wrong, ""));
    cr_expect(eq(u64, r.completed, n));
    return r;
}

Test(sim_provision, a_longer_trace_takes_no_more_memory)
{
    for (uint32_t system = HTC_SIM_PROVISION_DSP; system <= HTC_SIM_PROVISION_DRP; system++) {
        uint64_t little = stream_of(3000, system).memory, much = stream_of(30000, system).memory;
        cr_expect(much <= little + little / 8, "system %u: %llu bytes, then %llu", system, (unsigned long long)little, (unsigned long long)much);
    }
}

/* The hash that gcc and clang, optimised and sanitised, come to. */
Test(sim_provision, is_the_same_run_everywhere)
{
    static const uint64_t expected[] = { UINT64_C(15945921147122187831), UINT64_C(10425718070962261113), UINT64_C(305970756013196960), UINT64_C(7995910196036417289) };
    for (uint32_t system = HTC_SIM_PROVISION_DSP; system <= HTC_SIM_PROVISION_DRP; system++)
        cr_expect(eq(u64, stream_of(5000, system).scale.hash, expected[system]), "system %u", system);
}

/* ---- the host, and what is refused ---- */

static volatile int stop;

static void stop_at_once(void *ctx, const htc_scale_progress *p)
{
    (void)ctx;
    (void)p;
    stop = 1;
}

Test(sim_provision, says_what_it_had_when_it_is_stopped)
{
    stream                        s = { .n = 100000, .rng = { 3 } };
    htc_scale_host                host = { .size = sizeof host, .stop = &stop, .progress = stop_at_once };
    htc_sim_provision_environment e = { .size = sizeof e, .next_job = next_job, .ctx = &s };
    htc_sim_provision_options     o = { .size = sizeof o, .environments = &e, .n_environments = 1, .capacity = 200, .host = &host };
    htc_sim_provision_report      r = { .size = sizeof r };
    cr_assert(eq(int, htc_sim_provision_run(NULL, &o, &r, NULL, NULL), HTC_OK));
    cr_expect(eq(u32, r.interrupted, 1) && eq(str, r.scale.wrong, ""));
    cr_expect(r.completed > 50 && r.completed < 90000 && r.completed + r.unfinished == r.submitted && r.node_units > 40);
}

static htc_status broken(void *ctx, htc_sim_provision_job *job)
{
    (void)ctx;
    (void)job;
    return HTC_EIO;
}

Test(sim_provision, refuses_what_cannot_be_run)
{
    htc_sim_provision_job         jobs[2] = { { .arrival = 5 * S, .nodes = 1 }, { .arrival = 4 * S, .nodes = 1 } };
    const htc_ns                  lengths[3] = { S, S, S };
    htc_sim_provision_edge        edges[3] = { { 0, 1 }, { 1, 2 }, { 2, 0 } };
    htc_sim_provision_flow        flow = { .size = sizeof flow, .length = lengths, .edges = edges, .tasks = 3, .n_edges = 3 };
    htc_provision_options         book = { .size = sizeof book, .initial = 11 };
    htc_sim_provision_environment e = { .size = sizeof e, .name = "nasa", .book = &book, .jobs = jobs, .n_jobs = 2 };
    htc_sim_provision_options     o = { .size = sizeof o, .environments = &e, .n_environments = 1, .capacity = 10 };
    htc_sim_provision_report      r = { .size = sizeof r };
    htc_scale_host                host = { .size = sizeof host, .memory_max = 1 << 20 };
    htc_error                     error;
    uint64_t                      bytes = 0;
#define REFUSED(status, words) \
    cr_expect(eq(int, htc_sim_provision_run(NULL, &o, &r, NULL, &error), status)); \
    cr_expect(strstr(error.text, words) != NULL, "%s", error.text)
    REFUSED(HTC_ENOFIT, "environment nasa is to begin with 11 nodes");
    o.capacity = 20;
    REFUSED(HTC_EINVAL, "job 1 of environment 0: it arrives before");
    jobs[1] = (htc_sim_provision_job){ .arrival = 6 * S };
    REFUSED(HTC_EINVAL, "job 1 of environment 0: it has no nodes");
    jobs[1].nodes = 21;
    cr_expect(eq(int, htc_sim_provision_run(NULL, &o, &r, NULL, &error), HTC_OK));
    cr_expect(eq(u64, r.refused, 1) && eq(u64, r.completed, 1));
    o.host = &host;
    REFUSED(HTC_ETOOBIG, "1 MiB are allowed");
    cr_assert(eq(int, htc_sim_provision_memory(&o, &bytes), HTC_OK));
    cr_expect(bytes > 1 << 20 && bytes < 40 << 20);
    o.host = NULL;
    o.system = HTC_SIM_PROVISION_DCS;
    e.nodes = 30; /* a cluster of one's own is not the provider's */
    cr_expect(eq(int, htc_sim_provision_run(NULL, &o, &r, NULL, &error), HTC_OK) && eq(str, r.scale.wrong, ""));
    cr_expect(eq(u64, r.refused, 0) && eq(u64, r.peak, 30));
    o.system = HTC_SIM_PROVISION_SSP;
    REFUSED(HTC_ENOFIT, "too few are left");
    o.system = HTC_SIM_PROVISION_DSP;
    e.nodes = 0;
    o.active_max = 1;
    jobs[1] = jobs[0];
    jobs[0].length = 20 * S;
    REFUSED(HTC_EFULL, "more than 1 jobs");
    o.active_max = 0;
    e.flows = &flow;
    e.n_flows = 1;
    REFUSED(HTC_EINVAL, "more than one workload");
    e.jobs = NULL;
    e.n_jobs = 0;
    REFUSED(HTC_ECYCLE, "workflow 0 of environment 0");
    edges[2] = (htc_sim_provision_edge){ 1, 3 };
    REFUSED(HTC_EINVAL, "an edge names a task");
    e.flows = NULL;
    e.n_flows = 0;
    e.next_job = broken;
    REFUSED(HTC_EIO, "job 0 of environment 0");
    e.next_job = NULL;
    o.system = HTC_SIM_PROVISION_DCS;
    REFUSED(HTC_EINVAL, "environment 0 cannot be");
    o.shared = &book;
    REFUSED(HTC_EINVAL, "out of range");
}

Test(sim_provision, ends_without_memory)
{
    static slow     s;
    static same_run run;
    htc_rng         rng = { 17 };
    for (int i = 0; i < (getenv("HTC_TEST_LIGHT") ? 6 : 30); i++) {
        htc_status            status = HTC_ENOMEM;
        htc_provision_options shared;
        draw(&rng, &s);
        same(&run, &s);
        draw_more(&rng, &run, &shared);
        for (size_t n = 1; status != HTC_OK && n < 2000; n++) {
            alloc_fail               f = alloc_fail_at(n);
            htc_env                  env = alloc_fail_env(&f);
            htc_sim_provision_report r = { .size = sizeof r };
            status = htc_sim_provision_run(&env, &run.options, &r, NULL, NULL);
            cr_expect(status == HTC_OK || status == HTC_ENOMEM, "run %d, allocation %zu: %s", i, n, htc_strerror(status));
            cr_expect(eq(sz, f.live, 0) && eq(sz, f.wrong_sizes, 0), "run %d, allocation %zu", i, n);
        }
        cr_expect(eq(int, status, HTC_OK));
    }
}
