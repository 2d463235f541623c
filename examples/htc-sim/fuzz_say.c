/* What is said of the runs: progress while they last, their sum, and how to see a failure again. */
#include "../common/plural.h"
#include "fuzz.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define LAST_LINES 12

static double seconds(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

void fuzz_say_progress(const fuzz_options *o, const fuzz_sum *sum, const fuzz_run *run)
{
    static double began, said;
    double        now = seconds();
    uint64_t      all = o->seeds ? o->seeds : o->to - o->from + 1, done = o->done + sum->seeds;
    static uint64_t had;
    had = began > 0 ? had : o->done;
    began = began > 0 ? began : now;
    if (o->verbose && o->scenario != SCENARIO_STORE)
        printf("seed %" PRIu64 ": %016" PRIx64 ", %" PRIu64 " tasks, %u agents, %u crashes, %.3f s, %s\n", run->seed, run->report.hash,
               run->system.tasks, run->system.agents, run->system.crashes, (double)run->report.span / 1e9,
               run->report.text[0] ? run->report.text : "fine");
    else if (o->verbose)
        printf("seed %" PRIu64 ": %016" PRIx64 ", %" PRIu64 " operations, %" PRIu64 " changes of members, %.3f s, %s\n", run->seed,
               run->report.hash, run->report.operations, run->report.changes, (double)run->report.span / 1e9,
               run->report.text[0] ? run->report.text : "fine");
    /* Nothing for what is over in a moment; then once a second, on a terminal in one place. */
    if (now - began < 2 || now - said < (isatty(STDERR_FILENO) ? 0.5 : 10) || o->json)
        return;
    said = now;
    double rate = (double)(done - had) / (now - began);
    fprintf(stderr, "%s%" PRIu64 " of %" PRIu64 " seeds, %.0f a second, %.0f s left, %" PRIu64 " failed%s",
            isatty(STDERR_FILENO) ? "\r" : "", done, all, rate, (double)(all - done) / rate, o->failed + sum->failed,
            isatty(STDERR_FILENO) ? "   " : "\n");
}

static void json_text(const char *text)
{
    putchar('"');
    for (; *text; text++)
        if (*text == '"' || *text == '\\')
            printf("\\%c", *text);
        else if ((unsigned char)*text < 0x20)
            printf("\\u%04x", (unsigned)*text);
        else
            putchar(*text);
    putchar('"');
}

static const char *const asked[HTC_KV_COUNT + 1] = { [HTC_KV_GET] = "get",
                                                     [HTC_KV_PUT] = "put",
                                                     [HTC_KV_DELETE] = "delete",
                                                     [HTC_KV_APPEND] = "append",
                                                     [HTC_KV_CAS_VERSION] = "cas_version",
                                                     [HTC_KV_CAS_VALUE] = "cas_value",
                                                     [HTC_KV_ADD] = "add",
                                                     [HTC_KV_SCAN] = "scan",
                                                     [HTC_KV_LEASE_GRANT] = "lease_grant",
                                                     [HTC_KV_LEASE_RENEW] = "lease_renew",
                                                     [HTC_KV_LEASE_REVOKE] = "lease_revoke",
                                                     [HTC_KV_COUNT] = "count" };

static void say_json_failure(const fuzz_sum *sum)
{
    if (sum->failed) {
        printf(",\"seed\":%" PRIu64 ",\"text\":", sum->first.seed);
        json_text(sum->first.report.text);
    }
    printf("}\n");
}

static void say_json_system(const fuzz_options *o, const fuzz_sum *sum)
{
    printf("{\"scenario\":\"%s\",\"from\":%" PRIu64 ",\"to\":%" PRIu64 ",\"seeds\":%" PRIu64 ",\"failed\":%" PRIu64 ",\"tasks\":%" PRIu64
           ",\"agents\":%" PRIu64 ",\"crashes\":%" PRIu64 ",\"idle_longest_ms\":%.3f,\"events\":%" PRIu64 ",\"virtual_hours\":%.3f,\"hash\":\"%016" PRIx64
           "\"",
           fuzz_scenario_name(o->scenario), o->from, o->to, sum->seeds, sum->failed, sum->tasks, sum->agents, sum->crashes, (double)sum->idle_longest / 1e6, sum->events,
           (double)sum->span / 3600e9, sum->hash);
    say_json_failure(sum);
}

static void say_json(const fuzz_options *o, const fuzz_sum *sum)
{
    printf("{\"scenario\":\"store\",\"from\":%" PRIu64 ",\"to\":%" PRIu64 ",\"seeds\":%" PRIu64 ",\"failed\":%" PRIu64
           ",\"operations\":%" PRIu64 ",\"known\":%" PRIu64 ",\"undecided\":%" PRIu64 ",\"events\":%" PRIu64
           ",\"virtual_hours\":%.3f,\"hash\":\"%016" PRIx64 "\",\"asked\":{",
           o->from, o->to, sum->seeds, sum->failed, sum->operations, sum->known, sum->undecided, sum->events,
           (double)sum->span / 3600e9, sum->hash);
    for (uint32_t i = HTC_KV_GET; i <= HTC_KV_COUNT; i++)
        printf("%s\"%s\":%" PRIu64, i > HTC_KV_GET ? "," : "", asked[i], sum->asked[i]);
    printf("},\"watches\":%" PRIu64 ",\"told\":%" PRIu64 ",\"eventual_reads\":%" PRIu64 ",\"eventual_writes\":%" PRIu64
           ",\"siblings\":%" PRIu64 ",\"conflicts\":%" PRIu64 ",\"changes\":%" PRIu64 ",\"moved\":%" PRIu64
           ",\"proxied\":%" PRIu64 ",\"packs\":%" PRIu64 ",\"faults\":{",
           sum->watches, sum->told, sum->eventual_reads, sum->eventual_writes, sum->siblings, sum->conflicts, sum->changes, sum->moved, sum->proxied, sum->packs);
    for (uint32_t i = 0; i < HTC_SIM_STORE_FAULTS; i++) {
        printf(i ? "," : "");
        json_text(htc_sim_store_fault_name(i));
        printf(":%" PRIu64, sum->faults[i]);
    }
    printf("}");
    say_json_failure(sum);
}

void fuzz_say_sum(const fuzz_options *o, const fuzz_sum *sum)
{
    if (o->json) {
        (o->scenario != SCENARIO_STORE ? say_json_system : say_json)(o, sum);
        return;
    }
    if (isatty(STDERR_FILENO))
        fprintf(stderr, "\r\033[K");
    if (o->scenario != SCENARIO_STORE) {
        printf("%" PRIu64 " seed%s, %" PRIu64 " failed: %" PRIu64 " tasks, %" PRIu64 " agents, %" PRIu64
               " crashes of gateway or store, a slot free for at most %.1f ms, %.2f hours of virtual time, %" PRIu64 " events, hash %016" PRIx64 "\n",
               sum->seeds, plural(sum->seeds), sum->failed, sum->tasks, sum->agents, sum->crashes, (double)sum->idle_longest / 1e6, (double)sum->span / 3600e9,
               sum->events, sum->hash);
        return;
    }
    printf("%" PRIu64 " seed%s, %" PRIu64 " failed: %" PRIu64 " operations (%" PRIu64
           " requests with a known outcome), %.2f hours of virtual time, %" PRIu64 " events, hash %016" PRIx64 "\n",
           sum->seeds, plural(sum->seeds), sum->failed, sum->operations, sum->known, (double)sum->span / 3600e9, sum->events, sum->hash);
    if (sum->undecided)
        printf("%" PRIu64 " times undecided: the search for an order ran out of steps\n", sum->undecided);
    for (uint32_t i = HTC_KV_GET; i <= HTC_KV_COUNT; i++)
        printf("%s%s %" PRIu64, i > HTC_KV_GET ? ", " : "answered: ", asked[i], sum->asked[i]);
    printf("; watches %" PRIu64 ", told %" PRIu64 "; changes of members %" PRIu64 ", buckets moved %" PRIu64 "; through proxies %" PRIu64
           " in %" PRIu64 "\n", sum->watches, sum->told,
           sum->changes, sum->moved, sum->proxied, sum->packs);
    printf("of eventual keys: read %" PRIu64 ", with several values %" PRIu64 ", written %" PRIu64 ", refused for too many values %" PRIu64 "\n",
           sum->eventual_reads, sum->siblings, sum->eventual_writes, sum->conflicts);
    for (uint32_t i = 0; i < HTC_SIM_STORE_FAULTS; i++)
        printf("%s%s %" PRIu64, i ? ", " : "", htc_sim_store_fault_name(i), sum->faults[i]);
    printf("\n");
}

/* The last lines of a run that is done once more. */
typedef struct last {
    char     lines[LAST_LINES][512];
    uint64_t count;
} last;

static void keep(void *ctx, const char *line)
{
    last *l = ctx;
    snprintf(l->lines[l->count++ % LAST_LINES], sizeof l->lines[0], "%s", line);
}

static void print(void *ctx, const char *line)
{
    (void)ctx;
    puts(line);
}

/* Its hash. */
static uint64_t again_system(const fuzz_options *o, uint64_t seed, void (*trace)(void *, const char *), void *ctx)
{
    htc_sim_system_report  r = { .size = sizeof r };
    htc_sim_system_options so = { .size = sizeof so, .seed = seed, .trace = trace, .trace_ctx = ctx, .flows = o->scenario == SCENARIO_FLOWS };
    htc_status             status = htc_sim_system_run(NULL, &so, &r);
    if (status != HTC_OK)
        fprintf(stderr, "htc-sim: seed %" PRIu64 " does not run: %s\n", seed, htc_strerror(status));
    return r.hash;
}

static uint64_t again(const fuzz_options *o, uint64_t seed, void (*trace)(void *, const char *), void (*history)(void *, const char *),
                      void *ctx)
{
    htc_sim_store_report  r = { .size = sizeof r };
    htc_sim_store_options so = { .size = sizeof so,
                                 .seed = seed,
                                 .cells = o->cells,
                                 .members = o->members,
                                 .operations = o->operations,
                                 .search = o->search,
                                 .trace = trace,
                                 .history = history,
                                 .trace_ctx = ctx };
    if (o->scenario != SCENARIO_STORE)
        return again_system(o, seed, trace, ctx);
    htc_status status = htc_sim_store_run(NULL, &so, &r);
    if (status != HTC_OK)
        fprintf(stderr, "htc-sim: seed %" PRIu64 " does not run: %s\n", seed, htc_strerror(status));
    return r.hash;
}

void fuzz_say_failure(const fuzz_options *o, const fuzz_run *run)
{
    last *l = calloc(1, sizeof *l);
    if (o->json || !l) {
        free(l);
        return;
    }
    printf("seed %" PRIu64 " fails: %s\n", run->seed, run->report.text);
    uint64_t hash = again(o, run->seed, keep, NULL, l);
    if (hash != run->report.hash) /* a mistake of the simulator's, or of something that is not the seed's */
        printf("run again it is another run: hash %016" PRIx64 ", then %016" PRIx64 "\n", run->report.hash, hash);
    printf("the end of its trace:\n");
    for (uint64_t i = l->count > LAST_LINES ? l->count - LAST_LINES : 0; i < l->count; i++)
        printf("  %s\n", l->lines[i % LAST_LINES]);
    printf("again: htc-sim fuzz --seed %" PRIu64 " --trace", run->seed);
    if (o->scenario != SCENARIO_STORE)
        printf(" --scenario %s", fuzz_scenario_name(o->scenario));
    if (o->members)
        printf(" --members %u", o->members);
    if (o->operations)
        printf(" --operations %u", o->operations);
    if (o->cells)
        printf(" --cells %s", o->cells == HTC_SIM_STORE_LOG ? "log" : "memory");
    printf("\n");
    free(l);
}

void fuzz_say_history(const fuzz_options *o, uint64_t seed)
{
    again(o, seed, o->verbose || o->scenario != SCENARIO_STORE ? print : NULL, print, NULL);
}
