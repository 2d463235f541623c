/* What is told of a run of a key-value store: text, JSON, a line of CSV; and which store to take. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>

#include "kvs.h"
#include "plot.h"
#include "study.h"

static const char *const models_[] = { "csingle", "ctree", "dfc", "dchord", "live" };
static const char *mode_of(const kvs_study *k)
{
    static const char *const modes[] = { "strong", "eventual", "majority" };
    return k->options.model == HTC_SIM_KVS_LIVE ? "registers" : modes[k->options.consistency];
}

static uint32_t copies_of(const kvs_study *k)
{
    if (k->options.copies || k->options.model != HTC_SIM_KVS_LIVE)
        return k->options.copies ? k->options.copies : 1;
    return k->report.servers < 3 ? k->report.servers : 3;
}

/* ---- memory of a server (the dissertation's figure 11) ---- */

static int divides(const kvs_study *k)
{
    return k->options.model != HTC_SIM_KVS_CSINGLE && k->options.model != HTC_SIM_KVS_CTREE;
}

double kvs_data_bytes(const kvs_study *k)
{
    return (double)k->data * (divides(k) ? (double)copies_of(k) / (k->report.servers ? k->report.servers : 1) : 1);
}

/* All of them, or those at distances 1, 2, 4, ... */
double kvs_members_bytes(const kvs_study *k)
{
    double n = k->report.servers, fingers = 0;
    for (double step = 1; step < n; step *= 2)
        fingers++;
    return (double)k->member * (k->options.model == HTC_SIM_KVS_DCHORD ? fingers : n);
}

/* ---- files and programs ---- */

int kvs_plot(const void *run, const char *folder, const char *suffix)
{
    const kvs_study          *k = run;
    const htc_sim_kvs_report *r = &k->report;
    FILE                     *out = plot_open(folder, "kvs", suffix, "csv");
    if (!out)
        return -1;
    fprintf(out,
            "store,clients,servers,copies,consistency,answered,failed,time_s,throughput,efficiency,response_s,client_rate,client_rate_deviation,requests,"
            "consistency_messages,failure_messages,flips\n"
            "%s,%" PRIu64 ",%" PRIu32 ",%" PRIu32 ",%s,%" PRIu64 ",%" PRIu64 ",%.6f,%.3f,%.6f,%.6f,%.6f,%.6f,%" PRIu64 ",%" PRIu64 ",%" PRIu64 ",%" PRIu32 "\n",
            models_[k->options.model], k->options.clients, r->servers, copies_of(k), mode_of(k), r->answered, r->failed, r->time_s, r->throughput,
            r->efficiency, r->response_s, r->client_rate, r->client_rate_deviation, r->requests.sent, r->consistency.sent, r->failures.sent, r->flips);
    return plot_close(out);
}

static void json_count(const char *name, const htc_sim_kvs_count *n)
{
    printf(",\"%s\":{\"sent\":%" PRIu64 ",\"received\":%" PRIu64 ",\"lost\":%" PRIu64 "}", name, n->sent, n->received, n->lost);
}

static void json_run(const kvs_study *k)
{
    const htc_sim_kvs_report *r = &k->report;
    printf("{\"store\":\"%s\",\"clients\":%" PRIu64 ",\"servers\":%" PRIu32 ",\"aggregators\":%" PRIu32 ",\"copies\":%" PRIu32 ",\"consistency\":\"%s\",\"seed\":%" PRIu64
           ",\"tick_s\":%.9f,\"interrupted\":%s,\"submitted\":%" PRIu64 ",\"answered\":%" PRIu64 ",\"failed\":%" PRIu64 ",\"write_backs\":%" PRIu64 ",\"conflicts\":%" PRIu64
           ",\"refused\":%" PRIu64 ",\"flips\":%" PRIu32,
           models_[k->options.model], k->options.clients, r->servers, r->aggregators, copies_of(k), mode_of(k), k->options.seed, (double)k->options.tick_ns / 1e9,
           r->interrupted ? "true" : "false", r->submitted, r->answered, r->failed, r->write_backs, r->conflicts, r->refused, r->flips);
    json_count("requests", &r->requests);
    json_count("consistency_messages", &r->consistency);
    json_count("failure_messages", &r->failures);
    printf(",\"service_s\":%.9f,\"time_s\":%.6f,\"throughput\":%.6f,\"efficiency\":%.6f,\"busy\":%.6f,\"response_s\":%.9f,\"client_rate\":%.6f"
           ",\"client_rate_deviation\":%.6f,\"data_bytes\":%.0f,\"members_bytes\":%.0f,\"syncs\":%" PRIu64 ",\"turns\":%" PRIu64 ",\"events\":%" PRIu64 ",\"memory\":%" PRIu64 ",\"seconds\":%.3f,\"hash\":\"%016" PRIx64
           "\",\"wrong\":",
           (double)r->service_ns / 1e9, r->time_s, r->throughput, r->efficiency, r->busy, r->response_s, r->client_rate, r->client_rate_deviation, kvs_data_bytes(k),
           kvs_members_bytes(k), r->syncs, r->turns, r->scale.events, r->memory, k->seconds, r->scale.hash);
    say_text(r->scale.wrong);
    printf("}\n");
}

/* ---- text ---- */

/* In the dissertation's words (section 3.6, figure 23), and what this run says of it. */
static void say_guide(const kvs_study *k)
{
    const htc_sim_kvs_report *r = &k->report;
    double                    servers = (double)(r->consistency.sent + r->failures.sent), all = (double)r->requests.sent + servers;
    printf("which mode   strong: read-intensive work; eventual: high availability\n"
           "             dfc: messages of clients' requests dominate, and failures are moderate\n"
           "             dchord: messages of servers (failures, copies, consistency) dominate\n");
    if (all > 0)
        printf("             here %.1f %% of the messages are of servers, and %.0f %% of the requests are gets\n", 100 * servers / all,
               k->options.no_puts ? 100 : 100 * (1 - k->options.puts));
}

static void say_bytes(double bytes)
{
    static const char *const unit[] = { "B", "KiB", "MiB", "GiB", "TiB" };
    int i = 0;
    for (; bytes >= 1024 && i < 4; i++)
        bytes /= 1024;
    printf("%.*f %s", bytes < 100 && i ? 1 : 0, bytes, unit[i]);
}

void kvs_say(const void *run, int json)
{
    const kvs_study          *k = run;
    const htc_sim_kvs_report *r = &k->report;
    if (json) {
        json_run(k);
        return;
    }
    if (r->interrupted)
        printf("interrupted at %.3f s of virtual time; what there was until then:\n", (double)r->scale.span / 1e9);
    printf("%" PRIu64 " client%s of %s, %" PRIu32 " server%s", k->options.clients, plural(k->options.clients), models_[k->options.model], r->servers, r->servers == 1 ? "" : "s");
    if (r->aggregators)
        printf(", %" PRIu32 " aggregator%s", r->aggregators, r->aggregators == 1 ? "" : "s");
    if (copies_of(k) > 1)
        printf(", %" PRIu32 " copies, %s", copies_of(k), mode_of(k));
    if (k->exactly)
        printf("; message by message");
    else
        printf("; a tick is %g s", (double)k->options.tick_ns / 1e9);
    printf("\n"
           "time         %.3f s, %" PRIu64 " requests were answered, %" PRIu64 " failed\n"
           "throughput   %.1f requests a second; of one client %.4f, standard deviation %.4f\n"
           "efficiency   %.2f %% of the servers' time was service, %.2f %% with messages\n"
           "response     %.3f ms on average\n"
           "messages     %" PRIu64 " of requests, %" PRIu64 " of consistency, %" PRIu64 " of failures\n",
           r->time_s, r->answered, r->failed, r->throughput, r->client_rate, r->client_rate_deviation, 100 * r->efficiency, 100 * r->busy, 1e3 * r->response_s,
           r->requests.sent, r->consistency.sent, r->failures.sent);
    if (k->options.failure_ns)
        printf("failures     %" PRIu32 " times a server went down or up; clients were refused %" PRIu64 " times\n", r->flips, r->refused);
    if (r->write_backs || r->conflicts)
        printf("versions     %" PRIu64 " conflicts, %" PRIu64 " write-backs\n", r->conflicts, r->write_backs);
    if (k->options.model == HTC_SIM_KVS_LIVE)
        printf("turns        %" PRIu64 ", and %" PRIu64 " syncs\n", r->turns, r->syncs);
    fputs("a server has ", stdout);
    say_bytes(kvs_data_bytes(k));
    fputs(" of data, and ", stdout);
    say_bytes(kvs_members_bytes(k));
    fputs(" of what it knows of the members\n", stdout);
    say_guide(k);
    printf("run          %" PRIu64 " events in %.2f s (%.0f ns each), at most %.1f MiB, hash %016" PRIx64 "\n", r->scale.events, k->seconds,
           ns_of_each(k->seconds, r->scale.events_here), (double)r->memory / 1048576, r->scale.hash);
}
