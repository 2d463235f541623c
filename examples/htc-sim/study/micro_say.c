/* What is told of a run of the micro-benchmark: text, JSON, a line of CSV. */
#include <inttypes.h>
#include <stdio.h>

#include "micro.h"
#include "plot.h"
#include "study.h"

int micro_plot(const void *run, const char *folder, const char *suffix)
{
    const micro                    *m = run;
    const htc_sim_fairshare_report *r = &m->run->report;
    micro_figures                   f = micro_figures_of(m);
    FILE                           *out = plot_open(folder, "micro", suffix, "csv");
    if (!out)
        return -1;
    fprintf(out,
            "system,output,tasks,cores,length_s,makespan_s,bound_s,efficiency,bound,completed,held,tasks_per_s,response_s\n"
            "%s,%s,%" PRIu64 ",%" PRIu64 ",%.6f,%.6f,%.6f,%.6f,%.6f,%.6f,%" PRIu64 ",%.6f,%.6f\n",
            micro_systems[m->system], micro_outputs[m->output], m->tasks, m->cores, m->length_s, f.makespan_s, f.bound_s, f.efficiency, f.bound, r->completed, r->held, r->throughput, r->response_s);
    return plot_close(out);
}

static void json_run(const micro *m)
{
    const htc_sim_fairshare_report *r = &m->run->report;
    const htc_scale_report         *s = &r->scale;
    micro_figures                   f = micro_figures_of(m);
    printf("{\"system\":\"%s\",\"output\":\"%s\",\"tasks\":%" PRIu64 ",\"cores\":%" PRIu64 ",\"seed\":%" PRIu64 ",\"tick_s\":%.9f,\"interrupted\":%s,\"ended\":%" PRIu64 ",\"makespan_s\":%.6f,\"bound_s\":%.6f"
           ",\"efficiency\":%.6f,\"bound\":%.6f,\"completed\":%.6f,\"held\":%" PRIu64 ",\"died\":%" PRIu64 ",\"tasks_per_s\":%.6f,\"response_s\":%.6f,\"agents\":%" PRIu64
           ",\"events\":%" PRIu64 ",\"memory\":%" PRIu64 ",\"seconds\":%.3f,\"hash\":\"%016" PRIx64 "\",\"wrong\":",
           micro_systems[m->system], micro_outputs[m->output], m->tasks, m->cores, m->run->options.seed, (double)m->run->options.tick_ns / 1e9, r->interrupted ? "true" : "false", s->ended, f.makespan_s, f.bound_s, f.efficiency, f.bound,
           r->completed, r->held, r->died, r->throughput, r->response_s, r->agents, s->events, r->memory, m->run->seconds, s->hash);
    say_text(s->wrong);
    printf("}\n");
}

void micro_say(const void *run, int json)
{
    const micro                    *m = run;
    const htc_sim_fairshare_report *r = &m->run->report;
    const htc_scale_report         *s = &r->scale;
    micro_figures                   f = micro_figures_of(m);
    if (json) {
        json_run(m);
        return;
    }
    if (r->interrupted)
        printf("interrupted at %.1f s of virtual time; what there was until then:\n", (double)s->span / 1e9);
    printf("%" PRIu64 " task%s of %g s on %" PRIu64 " core%s, system %s, outputs %s; a tick is %g s\n", m->tasks, plural(m->tasks), m->length_s, m->cores, plural(m->cores), micro_systems[m->system], micro_outputs[m->output],
           (double)m->run->options.tick_ns / 1e9);
    if (r->interrupted)
        printf("last end     %.3f s, of %" PRIu64 " task%s\n", f.makespan_s, s->ended, plural(s->ended));
    else
        printf("makespan     %.3f s, no less than %.1f s is possible\n"
               "efficiency   %.4f, no more than %.4f is possible in whole rounds\n",
               f.makespan_s, f.bound_s, f.efficiency, f.bound);
    printf("completed    %.4f of the tasks; %" PRIu64 " %s held\n"
           "throughput   %.2f tasks a second; a task has its result after %.1f s on average\n"
           "run          %" PRIu64 " events in %.2f s, %.1f MiB, hash %016" PRIx64 "\n",
           r->completed, r->held, m->run->options.direct ? "tasks are" : "agents were", r->throughput, r->response_s, s->events, m->run->seconds, (double)r->memory / 1048576, s->hash);
}
