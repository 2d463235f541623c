/* What is told of a run of partition controllers: text, JSON, a line of CSV. */
#include <inttypes.h>
#include <stdio.h>

#include "jobs.h"
#include "plot.h"
#include "study.h"

static double ratio(uint64_t a, uint64_t b)
{
    return b ? (double)a / (double)b : 0;
}

int jobs_plot(const void *run, const char *folder, const char *suffix)
{
    const jobs_study          *j = run;
    const htc_sim_jobs_report *r = &j->report;
    FILE                      *out = plot_open(folder, "jobs", suffix, "csv");
    if (!out)
        return -1;
    fprintf(out,
            "nodes,partition,policy,jobs,jobs_per_s,latency_s,latency_max_s,messages,messages_all,swaps,conflicts,steals,rounds,utilisation,makespan_s\n"
            "%" PRIu32 ",%" PRIu32 ",%s,%" PRIu64 ",%.6f,%.6f,%.6f,%.4f,%.4f,%" PRIu64 ",%" PRIu64 ",%" PRIu64 ",%" PRIu64 ",%.6f,%.6f\n",
            j->options.nodes, j->options.partition, jobs_policies[j->policy], r->granted, r->throughput, r->latency_s, r->latency_max_s, r->messages, r->messages_all,
            r->swaps, r->conflicts, r->steals, r->rounds, r->utilisation, (double)r->scale.makespan / 1e9);
    return plot_close(out);
}

static void json_run(const jobs_study *j)
{
    const htc_sim_jobs_report *r = &j->report;
    const htc_scale_report    *s = &r->scale;
    printf("{\"nodes\":%" PRIu32 ",\"partition\":%" PRIu32 ",\"controllers\":%" PRIu32 ",\"policy\":\"%s\",\"seed\":%" PRIu64 ",\"interrupted\":%s,\"jobs\":%" PRIu64 ",\"ended\":%" PRIu64
           ",\"granted\":%" PRIu64 ",\"makespan_s\":%.6f,\"jobs_per_s\":%.6f,\"latency_s\":%.6f,\"latency_max_s\":%.6f,\"messages\":%.6f,\"messages_all\":%.6f"
           ",\"requests\":%" PRIu64 ",\"services\":%" PRIu64 ",\"swaps\":%" PRIu64 ",\"conflicts\":%" PRIu64 ",\"steals\":%" PRIu64 ",\"rounds\":%" PRIu64
           ",\"utilisation\":%.6f,\"events\":%" PRIu64 ",\"memory\":%" PRIu64 ",\"seconds\":%.3f,\"hash\":\"%016" PRIx64 "\",\"wrong\":",
           j->options.nodes, j->options.partition, r->controllers, jobs_policies[j->policy], j->options.seed, r->interrupted ? "true" : "false", s->submitted, s->ended,
           r->granted, (double)s->makespan / 1e9, r->throughput, r->latency_s, r->latency_max_s, r->messages, r->messages_all, r->requests, r->services, r->swaps,
           r->conflicts, r->steals, r->rounds, r->utilisation, s->events, r->memory, j->seconds, s->hash);
    say_text(s->wrong);
    printf("}\n");
}

void jobs_say(const void *run, int json)
{
    const jobs_study          *j = run;
    const htc_sim_jobs_report *r = &j->report;
    const htc_scale_report    *s = &r->scale;
    if (json) {
        json_run(j);
        return;
    }
    if (r->interrupted)
        printf("interrupted at %.3f s of virtual time; what there was until then:\n", (double)s->span / 1e9);
    printf("%" PRIu64 " jobs on %" PRIu32 " nodes, %" PRIu32 " controller%s, policy %s\n"
           "makespan     %.3f s, %" PRIu64 " jobs have ended\n"
           "throughput   %.2f jobs a second\n"
           "latency      %.3f ms from a job's submission until it has its nodes, at most %.3f ms\n",
           s->submitted, j->options.nodes, r->controllers, r->controllers == 1 ? "" : "s", jobs_policies[j->policy], (double)s->makespan / 1e9, s->ended, r->throughput,
           1e3 * r->latency_s, 1e3 * r->latency_max_s);
    if (!j->options.central)
        printf("messages     %.2f a job until then, %.2f in all; %" PRIu64 " of the monitor and its readers\n"
               "swaps        %" PRIu64 ", of which %.2f %% met another value\n"
               "steals       %.2f a job, %.3f rounds in which all was given back\n",
               r->messages, r->messages_all, r->services, r->swaps, 100 * ratio(r->conflicts, r->swaps), ratio(r->steals, r->granted), ratio(r->rounds, r->granted));
    printf("utilisation  %.4f of the nodes' time\n"
           "run          %" PRIu64 " events in %.2f s (%.0f ns each), at most %.1f MiB, hash %016" PRIx64 "\n",
           r->utilisation, s->events, j->seconds, s->events ? j->seconds * 1e9 / (double)s->events : 0, (double)r->memory / 1048576, s->hash);
}
