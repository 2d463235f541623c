/* Fair shares with the real gateway, store and agents: the table of makespans of the specification (4.5, rows with
 * equal run times) and its worked example (3.5), counted on the agents there are; and how long a newcomer waits. */
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <stdio.h>

#include "roles/gateway/gateway.h"
#include "sim/scenarios/system_private.h"

static int failed;

static void expect(int good, const char *format, ...) __attribute__((format(printf, 2, 3)));

static void expect(int good, const char *format, ...)
{
    va_list args;
    if (good)
        return;
    failed++;
    va_start(args, format);
    printf("  WRONG: ");
    vprintf(format, args);
    printf("\n");
    va_end(args);
}

/* What each user's tasks take. */
typedef struct spans {
    const char *names[4];
    htc_ns      span[4];
    uint64_t    bad; /* tasks of this job fail at once; 0: none does */
    uint64_t    stairs; /* task i of this job takes i + 1 times that; 0: of none */
} spans;

static void run_task(sys *s, const char *user_name, const htc_attempt *a, sys_run *run)
{
    const spans *p = s->options.ctx;
    for (int i = 0; i < 4; i++)
        if (p->names[i] && strcmp(p->names[i], user_name) == 0)
            run->span = p->span[i];
    if (p->stairs && a->job == p->stairs)
        run->span *= a->task + 1;
    if (p->bad && a->job == p->bad)
        *run = (sys_run){ .span = HTC_MS, .status = HTC_EEXIT, .exit_code = 1 };
}

static uint32_t slots_max; /* of an agent */

/* Small latencies, no faults; heartbeats matter to nothing here and are rare. */
static sys *open_system(const char *policy, const char *const *fair_users, const htc_site_options *sites, uint32_t n,
                        spans *p)
{
    sys_options o = { .sim = { .seed = 1 },
                      .net = { .jitter_ns = 20 * HTC_US },
                      .commit_ns = HTC_MS,
                      .launch_ns = 5 * HTC_MS,
                      .stage_ns = HTC_MS,
                      .n_sites = n,
                      .run = run_task,
                      .ctx = p,
                      .check_idle = !policy || strcmp(policy, "static") != 0,
                      .check_every = 50,
                      .gateway = { .policy = policy,
                                   .slots_max = slots_max,
                                   .fair_users = fair_users,
                                   .heartbeat_ns = 100 * HTC_SECOND,
                                   .lost_after_ns = 300 * HTC_SECOND } };
    memcpy(o.sites, sites, n * sizeof *sites);
    sys *s = NULL;
    if (htc__sys_open(NULL, &o, &s) != HTC_OK)
        abort();
    for (int i = 0; i < 4; i++)
        if (p->names[i])
            htc__sys_add_account(s, p->names[i], 1);
    while (!htc__sys_accounts_ready(s) && htc_sim_next(s->w) == HTC_OK)
        ;
    htc__sys_watch_jobs(s, 10 * HTC_SECOND);
    return s;
}

static double makespan(sys *s, const sys_job *j)
{
    htc_ns last = 0;
    for (uint64_t i = 0; i < j->count; i++) {
        const sys_task *t = htc__sys_task_of(s, j->id, i);
        last = t->ended > last ? t->ended : last;
    }
    return (double)(last - j->submitted) / 1e9;
}

/* Slots that agents hold for this user, leaving ones included; as the gateway knows. */
static uint32_t gateway_slots(const sys *s, const char *name)
{
    const htc_gateway *gw = htc_sim_machine(s->gateway);
    uint32_t           n = 0;
    for (const agent *a = gw ? gw->agents : NULL; a; a = a->hh.next)
        n += strcmp(a->user->name, name) == 0 ? a->n_slots : 0;
    return n;
}

static void close_system(sys *s)
{
    while (!htc__sys_all_finished(s) && htc_sim_next(s->w) == HTC_OK)
        ;
    if (!htc_sim_failure(s->w))
        htc__sys_check_results(s);
    expect(!htc_sim_failure(s->w), "%s", htc_sim_failure(s->w));
}

/* ---- the table of makespans ---- */

#define TASK_S 760
#define GAP_S  600
/* The table allows one task length. The waves of equal tasks make anything between its values a mistake by a whole
 * wave, so this is much narrower: launches, commits and messages of at most 17 waves take less. */
#define SLACK_S 10

typedef struct row {
    const char      *name;
    htc_site_options sites[SYS_SITES_MAX];
    uint32_t         n_sites;
    uint64_t         bags[4];
    double           simple[4], df[4];
} row;

static const row rows[] = {
    { "single 360",
      { { .size = sizeof(htc_site_options), .name = "one", .cores = 360 } },
      1,
      { 1000, 500, 250, 100 },
      { 9120, 4560, 2280, 1520 },
      { 4560, 3200, 2600, 2000 } },
    { "multi 954",
      { { .size = sizeof(htc_site_options), .name = "helix", .cores = 128 },
        { .size = sizeof(htc_site_options), .name = "gene", .cores = 128 },
        { .size = sizeof(htc_site_options), .name = "kobic", .cores = 184 },
        { .size = sizeof(htc_site_options), .name = "glory", .cores = 514 } },
      4,
      { 2000, 1000, 500, 250 },
      { 6840, 3800, 2280, 1520 },
      { 3040, 2440, 1840, 1240 } },
    { "multi 480",
      { { .size = sizeof(htc_site_options), .name = "free", .cores = 480 } },
      1,
      { 2000, 1000, 500, 250 },
      { 12920, 6840, 3800, 2280 },
      { 6080, 4720, 3360, 2760 } },
};

static const char *const names[] = { "ada", "bob", "cy", "dora", NULL };

/* One bag after another; the last end and the sum of makespans come back. */
static void run_bags(const row *r, const char *policy, const double *expected, double *last, double *sum)
{
    spans    p = { { "ada", "bob", "cy", "dora" },
                   { TASK_S * HTC_SECOND, TASK_S * HTC_SECOND, TASK_S * HTC_SECOND, TASK_S * HTC_SECOND }, 0, 0 };
    int      fixed = strcmp(policy, "static") == 0;
    sys     *s = open_system(policy, fixed ? names : NULL, r->sites, r->n_sites, &p);
    htc_ns   begin = htc_sim_now(s->w);
    sys_job *jobs[4];
    for (int i = 0; i < 4; i++) {
        htc__sys_run_until(s, begin + (htc_ns)i * GAP_S * HTC_SECOND);
        jobs[i] = htc__sys_submit(s, names[i], names[i], r->bags[i]);
    }
    close_system(s);
    printf("  %-10s %-6s", r->name, fixed ? "simple" : "df");
    for (int i = 0; i < 4; i++) {
        double m = makespan(s, jobs[i]);
        printf(" %8.1f", m);
        expect(m > expected[i] - SLACK_S && m < expected[i] + SLACK_S, "%s of %s: %.1f s, the table says %.0f",
               names[i], r->name, m, expected[i]);
        *sum += m;
        *last = m + i * GAP_S > *last ? m + i * GAP_S : *last;
    }
    printf("   (%u agents, %llu events)\n", (unsigned)s->agents_launched, (unsigned long long)htc_sim_events(s->w));
    htc__sys_close(s);
}

static void table_of_makespans(void)
{
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        double simple_last = 0, simple_sum = 0, df_last = 0, df_sum = 0;
        run_bags(&rows[i], "static", rows[i].simple, &simple_last, &simple_sum);
        run_bags(&rows[i], "eq1", rows[i].df, &df_last, &df_sum);
        printf("  %-10s ratio (i) %.3f, ratio (ii) %.3f\n", rows[i].name, df_last / simple_last, df_sum / simple_sum);
        /* What is reproduced when this holds: dynamic fairness ends well before static shares, by either reading. */
        expect(df_last / simple_last <= 0.644, "ratio (i) %.3f", df_last / simple_last);
        expect(df_sum / simple_sum < 1, "ratio (ii) %.3f", df_sum / simple_sum);
    }
}

/* ---- the worked example ---- */

static void slots_are(sys *s, htc_ns begin, uint32_t at_s, uint32_t a, uint32_t b, uint32_t c)
{
    /* Three seconds later: what the store, the launches and the network take adds up to less. */
    htc__sys_run_until(s, begin + (at_s + 3) * HTC_SECOND);
    uint32_t is[3] = { gateway_slots(s, "ada"), gateway_slots(s, "bob"), gateway_slots(s, "cy") };
    printf("  t = %3u s: A %3u  B %3u  C %3u\n", (unsigned)at_s, (unsigned)is[0], (unsigned)is[1], (unsigned)is[2]);
    expect(is[0] == a && is[1] == b && is[2] == c, "the example says A %u B %u C %u", (unsigned)a, (unsigned)b,
           (unsigned)c);
}

/* The hundred cores at one, two and three sites, under both policies whose table it is: who has how many is the same. */
static void worked_example_at(const char *policy, const htc_site_options *sites, uint32_t n)
{
    spans    p = { { "ada", "bob", "cy" }, { 100 * HTC_SECOND, 60 * HTC_SECOND, 100 * HTC_SECOND }, 0, 0 };
    sys     *s = open_system(policy, NULL, sites, n, &p);
    printf("  %s, %u sites\n", policy, (unsigned)n);
    htc_ns   t = htc_sim_now(s->w);
    sys_job *a = htc__sys_submit(s, "ada", "a", 200);
    slots_are(s, t, 0, 100, 0, 0);
    htc__sys_run_until(s, t + 50 * HTC_SECOND);
    sys_job *b = htc__sys_submit(s, "bob", "b", 50);
    slots_are(s, t, 50, 100, 0, 0);
    slots_are(s, t, 100, 50, 50, 0);
    htc__sys_run_until(s, t + 150 * HTC_SECOND);
    sys_job *c = htc__sys_submit(s, "cy", "c", 20);
    slots_are(s, t, 150, 50, 50, 0);
    slots_are(s, t, 160, 80, 0, 20);
    slots_are(s, t, 200, 50, 0, 20);
    slots_are(s, t, 260, 20, 0, 0);
    slots_are(s, t, 300, 0, 0, 0);
    close_system(s);
    double is[3] = { makespan(s, a), makespan(s, b), makespan(s, c) };
    printf("  makespans: A %.2f  B %.2f  C %.2f s\n", is[0], is[1], is[2]);
    expect(is[0] >= 300 && is[0] < 303, "A took %.2f s, the example says 300", is[0]);
    expect(is[1] >= 110 && is[1] < 113, "B took %.2f s, the example says 110", is[1]);
    expect(is[2] >= 110 && is[2] < 113, "C took %.2f s, the example says 110", is[2]);
    htc__sys_close(s);
}

static void worked_example(void)
{
    static const htc_site_options one[] = { { .size = sizeof one[0], .name = "one", .cores = 100 } },
                                  two[] = { { .size = sizeof two[0], .name = "one", .cores = 70 }, { .size = sizeof two[0], .name = "two", .cores = 30, .speed = 2 } },
                                  three[] = { { .size = sizeof three[0], .name = "one", .cores = 45 },
                                              { .size = sizeof three[0], .name = "two", .cores = 35 },
                                              { .size = sizeof three[0], .name = "three", .cores = 20, .speed = 3 } };
    static const char *const policies[] = { "eq1", "maxmin" };
    for (size_t i = 0; i < 2; i++) {
        worked_example_at(policies[i], one, 1);
        worked_example_at(policies[i], two, 2);
        worked_example_at(policies[i], three, 3);
    }
}

/* ---- the queue is empty ---- */

static uint32_t sites_used(const sys *s)
{
    const htc_gateway *gw = htc_sim_machine(s->gateway);
    uint32_t           n = 0;
    for (size_t i = 0; i < gw->n_sites; i++)
        n += gw->sites[i].used;
    return n;
}

static uint32_t processes_of(const sys *s, const char *name)
{
    uint32_t n = 0;
    for (const sys_agent *a = s->agents; a; a = a->next)
        n += a->alive && strcmp(a->user, name) == 0;
    return n;
}

/* Five cores at two sites, five tasks that end one after the other with none behind them: a second after the end of each its core is free, by itself. The
 * last agents are gone as processes too, and nobody has told them to. */
static void cores_are_free_again(const char *policy)
{
    static const htc_site_options two[] = { { .size = sizeof two[0], .name = "one", .cores = 3 }, { .size = sizeof two[0], .name = "two", .cores = 2 } };
    spans    p = { { "ada", "bob" }, { 10 * HTC_SECOND, HTC_SECOND }, 0, 0 };
    sys     *s = open_system(policy, NULL, two, 2, &p);
    p.stairs = 1;
    sys_job *a = htc__sys_submit(s, "ada", "a", 5);
    htc__sys_run_until(s, htc_sim_now(s->w) + 5 * HTC_SECOND);
    expect(a->id == 1 && sites_used(s) == 5, "job %u has %u cores, not 5", (unsigned)a->id, (unsigned)sites_used(s));
    for (uint32_t i = 0; i < 5; i++) {
        const sys_task *t = htc__sys_task_of(s, a->id, i);
        while (!t->ended && htc_sim_next(s->w) == HTC_OK)
            ;
        expect(sites_used(s) == 5 - i || (slots_max > 1 && sites_used(s) == 4 - i), "%u cores are held before the end of task %u", (unsigned)sites_used(s), (unsigned)i);
        htc__sys_run_until(s, t->ended + HTC_SECOND);
        expect(sites_used(s) == 4 - i, "a second after the end of %u tasks %u cores are held", (unsigned)i + 1, (unsigned)sites_used(s));
        expect(slots_max > 1 || processes_of(s, "ada") == 4 - i, "%u processes are there after the end of %u tasks", (unsigned)processes_of(s, "ada"), (unsigned)i + 1);
    }
    expect(processes_of(s, "ada") == 0 && s->agents_alive == 0, "%u processes are left", (unsigned)s->agents_alive);
    printf("  %-6s ok\n", policy);
    close_system(s);
    htc__sys_close(s);
}

/* ---- usage ---- */

static const user *user_of(const sys *s, const char *name)
{
    const htc_gateway *gw = htc_sim_machine(s->gateway);
    for (const user *u = gw ? gw->users : NULL; u; u = u->hh.next)
        if (strcmp(u->name, name) == 0)
            return u;
    return NULL;
}

/* Cores that this user's agents hold: of those that have registered and whose process has not ended. */
static uint32_t cores_held(const sys *s, const char *name)
{
    const htc_gateway *gw = htc_sim_machine(s->gateway);
    uint32_t           n = 0;
    for (const agent *a = gw ? gw->agents : NULL; a; a = a->hh.next)
        n += a->state >= AGENT_READY && strcmp(a->user->name, name) == 0 ? a->n_slots : 0;
    return n;
}

/* What is charged is what the agents were there for, within a hundredth: two users at two sites, whose tasks differ in length. */
static void usage_is_the_agents_time(const char *policy)
{
    static const htc_site_options two[] = { { .size = sizeof two[0], .name = "one", .cores = 3 }, { .size = sizeof two[0], .name = "two", .cores = 2 } };
    static const char *const      who[] = { "ada", "bob" };
    spans    p = { { "ada", "bob" }, { 20 * HTC_SECOND, 13 * HTC_SECOND }, 0, 0 };
    sys     *s = open_system(policy, NULL, two, 2, &p);
    double   there[2] = { 0, 0 };
    htc_ns   before = htc_sim_now(s->w);
    htc__sys_submit(s, "ada", "a", 60);
    htc__sys_submit(s, "bob", "b", 40);
    for (int more = 1; more;) {
        uint32_t now[2] = { cores_held(s, who[0]), cores_held(s, who[1]) };
        more = (!htc__sys_all_finished(s) || s->agents_alive) && htc_sim_next(s->w) == HTC_OK;
        for (int i = 0; i < 2; i++)
            there[i] += now[i] * (double)(htc_sim_now(s->w) - before) / 1e9;
        before = htc_sim_now(s->w);
    }
    for (int i = 0; i < 2; i++) {
        const user *u = user_of(s, who[i]);
        double      charged = u ? (double)u->core_ns / 1e9 : 0;
        printf("  %-6s %s: %.1f core seconds are charged, agents were there for %.1f\n", policy, who[i], charged, there[i]);
        expect(there[i] > 500 && charged > 0.99 * there[i] && charged < 1.01 * there[i], "%s is charged %.1f core seconds, the agents were there for %.1f", who[i], charged, there[i]);
    }
    close_system(s);
    htc__sys_close(s);
}

/* ---- a newcomer ---- */

/* Ada holds five of ten slots with her last tasks, of 40 s each. Bob holds the others with short ones. Seconds until the first
 * task of cy, who comes after 4 s, has ended. */
static double newcomer_waits(const char *policy)
{
    static const htc_site_options here = { .size = sizeof here, .name = "one", .cores = 10 };
    spans    p = { { "ada", "bob", "cy" }, { 40 * HTC_SECOND, 200 * HTC_MS, 200 * HTC_MS }, 0, 0 };
    sys     *s = open_system(policy, NULL, &here, 1, &p);
    htc_ns   begin = htc_sim_now(s->w);
    htc__sys_submit(s, "ada", "a", 5);
    htc__sys_run_until(s, begin + HTC_SECOND);
    htc__sys_submit(s, "bob", "b", 1000);
    htc__sys_run_until(s, begin + 4 * HTC_SECOND);
    sys_job *c = htc__sys_submit(s, "cy", "c", 1);
    close_system(s);
    double waited = makespan(s, c);
    printf("  %-6s %6.2f s\n", policy ? policy : "(none)", waited);
    htc__sys_close(s);
    return waited;
}

/* The paper's rule keeps a newcomer behind a user whose queue is empty; what a gateway does that is told nothing does not. */
static void newcomer(void)
{
    expect(newcomer_waits(NULL) < 1, "by default a newcomer waits for a satisfied user");
    expect(newcomer_waits("maxmin") < 1, "maxmin: a newcomer waits for a satisfied user");
    expect(newcomer_waits("eq1") > 30, "eq1: the paper's rule would have a newcomer wait");
}

/* ---- a job that fails at once ---- */

/* It is slowed alone: its user's next job goes on, and another user has the slots that both would use. Four slots, 8 and 40
 * tasks of a second: 12 s if nothing is left idle. What a round of the bad job costs every 5 s, and launches, is less than 3. */
static void failing_fast(void)
{
    static const htc_site_options here = { .size = sizeof here, .name = "one", .cores = 4 };
    spans  p = { { "ada", "bob" }, { HTC_SECOND, HTC_SECOND }, 0, 0 };
    sys   *s = open_system(NULL, NULL, &here, 1, &p);
    htc_ns begin = htc_sim_now(s->w);
    p.bad = 1;
    htc__sys_submit(s, "ada", "bad", 2000);
    htc__sys_run_until(s, begin + HTC_SECOND);
    sys_job *good = htc__sys_submit(s, "ada", "good", 8), *bob = htc__sys_submit(s, "bob", "b", 40);
    htc__sys_run_until(s, begin + 40 * HTC_SECOND);
    double ada_s = makespan(s, good), bob_s = makespan(s, bob);
    printf("  ada's next job %.2f s, bob's %.2f s\n", ada_s, bob_s);
    expect(ada_s > 0 && ada_s < 6, "ada's next job waits for one that fails fast: %.2f s", ada_s);
    expect(bob_s > 0 && bob_s < 15, "slots are held for a job that fails fast: bob took %.2f s", bob_s);
    expect(!htc_sim_failure(s->w), "%s", htc_sim_failure(s->w));
    htc__sys_close(s);
}

/* The same shares, whether each slot has an agent of its own or one agent has many. */
int main(void)
{
    for (slots_max = 1; slots_max <= 64; slots_max *= 64) {
        printf("agents of %u slots at most\nbeside a job whose tasks fail at once:\n", (unsigned)slots_max);
        failing_fast();
        printf("a second after a task has ended its core is free:\n");
        cores_are_free_again("eq1");
        cores_are_free_again("maxmin");
        printf("core time that is charged:\n");
        usage_is_the_agents_time("eq1");
        usage_is_the_agents_time("maxmin");
        printf("a newcomer's first task has ended after:\n");
        newcomer();
        printf("worked example, with agents:\n");
        worked_example();
        printf("makespans of four users in seconds:\n");
        table_of_makespans();
    }
    printf("%s\n", failed ? "FAILED" : "ok");
    return failed != 0;
}
