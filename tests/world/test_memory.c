/* Tasks packed by memory, with the real gateway, store and agents, whose processes and gateway are killed meanwhile: after every
 * step what is reserved adds up and is no more than a node has (roles/gateway/books.c); whenever a process starts, all that run on its
 * node ask for no more (system_agent.c); in the end every task has its result. And a large task is not passed for ever.
 *
 * HTC_SEED=n runs one seed and prints its trace; HTC_TEST_LIGHT=1 runs a tenth. */
#include <stdlib.h>
#include <string.h>

#include <stdio.h>

#include "sim/scenarios/system_private.h"

#define GIB         (UINT64_C(1) << 30)
#define SEEDS       400
#define SEEDS_LIGHT 40

static void run_task(sys *s, const char *user, const htc_attempt *a, sys_run *run)
{
    uint64_t words[4] = { s->options.sim.seed, a->job, a->task, a->attempt };
    htc_rng  rng = { htc_hash64((htc_bytes){ words, sizeof words }, 0) };
    (void)user;
    run->span = htc_rng_below(&rng, 2 * HTC_SECOND);
}

static void print_line(void *ctx, const char *line)
{
    (void)ctx;
    puts(line);
}

static sys *open_system(uint64_t seed, uint32_t sites, int trace, const char *const *only)
{
    sys_options o = { .sim = { .seed = seed, .trace = trace ? print_line : NULL },
                      .net = { .jitter_ns = 100 * HTC_US },
                      .commit_ns = HTC_MS,
                      .launch_ns = 5 * HTC_MS,
                      .stage_ns = HTC_MS,
                      .n_sites = sites,
                      .run = run_task,
                      .check_idle = only == NULL,
                      .sites = { { .size = sizeof(htc_site_options), .name = "here", .cores = 4, .memory = 24 * GIB }, { .size = sizeof(htc_site_options), .name = "there", .cores = 2, .memory = 8 * GIB } },
                      .gateway = { .policy = only ? "static" : NULL,
                                   .fair_users = only,
                                   .slots_max = seed % 2 ? 1 : 64,
                                   .tick_ns = HTC_SECOND,
                                   .heartbeat_ns = HTC_SECOND,
                                   .lost_after_ns = 3 * HTC_SECOND,
                                   .relaunch_backoff_ns = 100 * HTC_MS,
                                   .max_lost = 10000,
                                   .memory_wait_ns = 5 * HTC_SECOND } };
    sys *s = NULL;
    if (htc__sys_open(NULL, &o, &s) != HTC_OK)
        abort();
    return s;
}

static void accounts(sys *s)
{
    htc__sys_add_account(s, "ada", 1);
    htc__sys_add_account(s, "bob", 2);
    while (!htc__sys_accounts_ready(s) && htc_sim_next(s->w) == HTC_OK)
        ;
    htc__sys_watch_jobs(s, HTC_SECOND);
}

/* ---- many seeds ---- */

typedef struct plan {
    sys    *s;
    htc_rng rng;
    htc_ns  end;
} plan;

static void boot_again(htc_sim *w, void *ctx)
{
    (void)w;
    htc_sim_boot(ctx);
}

static void trouble(htc_sim *w, void *ctx)
{
    plan *p = ctx;
    sys  *s = p->s;
    if (htc_sim_now(w) >= p->end)
        return;
    if (htc_rng_below(&p->rng, 3) == 0 && htc_sim_up(s->gateway)) {
        htc_sim_crash(s->gateway);
        htc__sys_after(s, htc_rng_below(&p->rng, HTC_SECOND), boot_again, s->gateway);
    }
    for (sys_agent *a = s->agents; a; a = a->next)
        if (a->alive && htc_sim_up(a->node) && htc_rng_below(&p->rng, 4) == 0) {
            htc_sim_crash(a->node);
            break;
        }
    htc__sys_after(s, 1 + htc_rng_below(&p->rng, 2 * HTC_SECOND), trouble, p);
}

static uint64_t some_memory(htc_rng *rng)
{
    switch (htc_rng_below(rng, 3)) {
    case 0: return 0; /* what the site reserves: 6 GiB, or 4 */
    case 1: return 1 + htc_rng_below(rng, 4 * GIB);
    default: return 1 + htc_rng_below(rng, 24 * GIB);
    }
}

static int run_seed(uint64_t seed, int trace)
{
    sys    *s = open_system(seed, 1 + seed % 2, trace, NULL);
    plan    p = { .s = s, .rng = { seed } };
    char    name[16];
    accounts(s);
    p.end = htc_sim_now(s->w) + 10 * HTC_SECOND;
    if (seed % 4)
        trouble(s->w, &p);
    for (int i = 0; i < 6; i++) {
        snprintf(name, sizeof name, "job%d", i);
        htc__sys_submit_large(s, htc_rng_below(&p.rng, 2) ? "ada" : "bob", name, 1 + htc_rng_below(&p.rng, 12), some_memory(&p.rng));
        htc__sys_run_until(s, htc_sim_now(s->w) + htc_rng_below(&p.rng, 2 * HTC_SECOND));
    }
    while (!htc__sys_all_finished(s) && htc_sim_now(s->w) < p.end + 600 * HTC_SECOND && htc_sim_next(s->w) == HTC_OK)
        ;
    if (!htc_sim_failure(s->w))
        htc__sys_check_results(s);
    const char *failure = htc_sim_failure(s->w);
    if (failure)
        printf("%s   (HTC_SEED=%llu shows the trace)\n", failure, (unsigned long long)seed);
    htc__sys_close(s);
    return failure != NULL;
}

/* ---- a large task beside a stream of small ones ---- */

/* Four hundred tasks of a second fill the node for 100 s. A task of 20 GiB waits for 5 s, and then for the small ones that run, at most
 * 2 s each: without room kept for it, it would be the last one. */
static int large_beside_small(void)
{
    sys    *s = open_system(1, 1, 0, NULL);
    accounts(s);
    htc__sys_submit(s, "bob", "small", 400);
    htc__sys_run_until(s, htc_sim_now(s->w) + HTC_SECOND);
    sys_job *large = htc__sys_submit_large(s, "ada", "large", 1, 20 * GIB);
    htc_ns   begin = htc_sim_now(s->w);
    while (!htc_sim_failure(s->w) && !(large->id && htc__sys_task_of(s, large->id, 0)->committed) &&
           htc_sim_now(s->w) < begin + 200 * HTC_SECOND && htc_sim_next(s->w) == HTC_OK)
        ;
    double      waited = (double)(htc_sim_now(s->w) - begin) / 1e9;
    const char *failure = htc_sim_failure(s->w);
    printf("a task of 20 of 24 GiB beside small ones has ended after %.1f s%s%s\n", waited, failure ? ": " : "", failure ? failure : "");
    int bad = failure || waited > 14;
    htc__sys_close(s);
    return bad;
}

/* Room is kept for nobody who never gets a slot: under fixed shares without ada, her large task stops nobody. Bob's leave slots
 * free, so memory alone would be in its way. */
static int large_without_a_share(void)
{
    static const char *const only[] = { "bob", NULL };
    sys    *s = open_system(1, 1, 0, only);
    accounts(s);
    htc__sys_submit_large(s, "ada", "large", 1, 20 * GIB);
    sys_job *small = htc__sys_submit_large(s, "bob", "small", 40, 10 * GIB);
    htc_ns   begin = htc_sim_now(s->w);
    while (!small->finished && htc_sim_now(s->w) < begin + 60 * HTC_SECOND && htc_sim_next(s->w) == HTC_OK)
        ;
    const char *failure = htc_sim_failure(s->w);
    int         bad = failure || !small->finished;
    if (bad)
        printf("a task that never gets a slot has room kept for it: %s\n", failure ? failure : "others starve");
    htc__sys_close(s);
    return bad;
}

int main(void)
{
    const char *one = getenv("HTC_SEED");
    uint64_t    seeds = getenv("HTC_TEST_LIGHT") ? SEEDS_LIGHT : SEEDS;
    int         failed = 0;
    if (one)
        return run_seed(strtoull(one, NULL, 10), 1);
    failed += large_beside_small();
    failed += large_without_a_share();
    for (uint64_t seed = 1; seed <= seeds && failed < 10; seed++)
        failed += run_seed(seed, 0);
    printf("%llu seeds, %d failed\n", (unsigned long long)seeds, failed);
    return failed != 0;
}
