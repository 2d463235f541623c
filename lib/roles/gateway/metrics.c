/* What a monitor sees of a gateway: figures alone. No user, job or host is named: who reads the page is not asked who they are. */
#include <string.h>

#include "htcsched/metrics.h"
#include "roles/gateway/gateway.h"

static void gauge(htc_metrics *m, const char *name, const char *unit, const char *help, uint64_t value)
{
    htc_metrics_family(m, HTC_METRIC_GAUGE, name, unit, help);
    htc_metrics_value(m, NULL, 0, value);
}

static void labelled(htc_metrics *m, const char *of, const char *state, uint64_t value)
{
    htc_metric_label labels[2];
    size_t           n = 0;
    if (of)
        labels[n++] = (htc_metric_label){ "site", htc_bytes_of(of) };
    if (state)
        labels[n++] = (htc_metric_label){ "state", htc_bytes_of(state) };
    htc_metrics_value(m, labels, n, value);
}

static void tasks(const htc_gateway *gw, htc_metrics *m)
{
    static const char *const names[] = { "waiting", "leased", "retry_wait" };
    uint64_t                 n[3] = { 0 };
    uint32_t                 open = 0, demanding = 0;
    for (const user *u = gw->users; u; u = u->hh.next) {
        n[0] += htc__gw_queued(u);
        n[1] += u->running;
        n[2] += u->retrying;
        demanding += u->queued > 0;
    }
    for (const job *j = gw->jobs; j; j = j->hh.next)
        open += j->open;
    htc_metrics_family(m, HTC_METRIC_GAUGE, "htc_gateway_tasks", "", "Tasks of open jobs that have not ended, by state; waiting ones may start.");
    for (size_t i = 0; i < 3; i++)
        labelled(m, NULL, names[i], n[i]);
    gauge(m, "htc_gateway_jobs_open", "", "Jobs that have not ended.", open);
    gauge(m, "htc_gateway_users_demanding", "", "Users with tasks that wait.", demanding);
    htc_metrics_family(m, HTC_METRIC_COUNTER, "htc_gateway_tasks_ended", "", "Tasks that have ended since the gateway began, by how; cancelled ones when their job ends.");
    labelled(m, NULL, "done", gw->ended[0]);
    labelled(m, NULL, "failed", gw->ended[1]);
    labelled(m, NULL, "cancelled", gw->ended[2]);
    htc_metrics_family(m, HTC_METRIC_COUNTER, "htc_gateway_attempts_lost", "", "Attempts that were lost with their agent, since the gateway began.");
    htc_metrics_value(m, NULL, 0, gw->lost_attempts);
}

static void sites(const htc_gateway *gw, htc_metrics *m)
{
    static const char *const states[] = { "starting", "queued", "working", "idle", "draining", "gone" };
    htc_metrics_family(m, HTC_METRIC_GAUGE, "htc_gateway_slots", "", "Slots of each site, used by an agent or free.");
    for (size_t i = 0; i < gw->n_sites; i++) {
        labelled(m, gw->sites[i].name, "used", gw->sites[i].used);
        labelled(m, gw->sites[i].name, "free", gw->sites[i].cores - gw->sites[i].used);
    }
    htc_metrics_family(m, HTC_METRIC_GAUGE, "htc_gateway_site_open", "", "1: agents are launched there; 0: it is away, paused, or out of service.");
    for (size_t i = 0; i < gw->n_sites; i++)
        labelled(m, gw->sites[i].name, NULL, htc__gw_site_open(gw, &gw->sites[i]));
    htc_metrics_family(m, HTC_METRIC_GAUGE, "htc_gateway_agents", "", "Agents of each site by state; queued: in a batch system's queue; gone: lost or leaving.");
    for (size_t i = 0; i < gw->n_sites; i++) {
        uint32_t n[6] = { 0 };
        for (const agent *a = gw->agents; a; a = a->hh.next)
            if (a->site == i)
                n[htc__gw_agent_waits(a)       ? 1
                  : a->state < AGENT_READY     ? 0
                  : a->state > AGENT_READY     ? 5
                  : a->draining                ? 4
                  : a->n_held                  ? 2
                                               : 3]++;
        for (size_t k = 0; k < 6; k++)
            labelled(m, gw->sites[i].name, states[k], n[k]);
    }
    htc_metrics_family(m, HTC_METRIC_COUNTER, "htc_gateway_launches", "", "Agents launched since the gateway began.");
    for (size_t i = 0; i < gw->n_sites; i++)
        labelled(m, gw->sites[i].name, NULL, gw->sites[i].launched);
    htc_metrics_family(m, HTC_METRIC_COUNTER, "htc_gateway_launches_failed", "", "Agents that could not be launched, or did not come, since the gateway began.");
    for (size_t i = 0; i < gw->n_sites; i++)
        labelled(m, gw->sites[i].name, NULL, gw->sites[i].launches_failed);
}

/* ---- agents: sums of each site, so that their number does not matter ---- */

static void seconds(htc_metrics *m, const site *of, htc_ns value)
{
    htc_metrics_duration(m, &(htc_metric_label){ "site", htc_bytes_of(of->name) }, 1, value);
}

static void labelled_by(htc_metrics *m, const site *of, const char *label, const char *value, uint64_t n)
{
    const htc_metric_label labels[] = { { "site", htc_bytes_of(of->name) }, { label, htc_bytes_of(value) } };
    htc_metrics_value(m, labels, 2, n);
}

static uint8_t phase_of(htc_gateway *gw, const htc_attempt *at)
{
    job         *j = htc__gw_job(gw, at->job);
    const chunk *c = j ? htc__gw_chunk(j, at->task / CHUNK_TASKS) : NULL;
    uint8_t      phase = c && at->task % CHUNK_TASKS < c->n ? c->tasks[at->task % CHUNK_TASKS].phase : HTC_HELD_WAITING;
    return phase >= HTC_HELD_WAITING && phase <= HTC_HELD_REPORTING ? phase : HTC_HELD_WAITING;
}

static void held_tasks(const htc_gateway *gw, htc_metrics *m, const site *of)
{
    static const char *const names[] = { "", "waiting", "staging_in", "running", "staging_out", "reporting" };
    uint64_t                 n[HTC_HELD_REPORTING + 1] = { 0 };
    for (const agent *a = gw->agents; a; a = a->hh.next)
        for (uint32_t i = 0; i < a->n_held && &gw->sites[a->site] == of; i++)
            n[phase_of((htc_gateway *)(uintptr_t)gw, &a->held[i].attempt)]++;
    for (size_t k = HTC_HELD_WAITING; k <= HTC_HELD_REPORTING; k++)
        labelled_by(m, of, "phase", names[k], n[k]);
}

static void refused(const htc_gateway *gw, htc_metrics *m)
{
    htc_metrics_family(m, HTC_METRIC_COUNTER, "htc_gateway_uploads_refused", "", "Uploads that agents asked for though their tasks do not read them, since the gateway began.");
    htc_metrics_value(m, NULL, 0, gw->content_refused);
}

static htc_ns silence(const htc_gateway *gw, const site *of)
{
    htc_ns longest = 0;
    for (const agent *a = gw->agents; a; a = a->hh.next)
        if (&gw->sites[a->site] == of && a->state == AGENT_READY && gw->now > a->heard && gw->now - a->heard > longest)
            longest = gw->now - a->heard;
    return longest;
}

static void agents(const htc_gateway *gw, htc_metrics *m)
{
    const site *end = gw->sites + gw->n_sites, *s;
    htc_metrics_family(m, HTC_METRIC_GAUGE, "htc_agent_tasks", "", "Tasks that agents hold, by phase; waiting: begun when a slot is free.");
    for (s = gw->sites; s < end; s++)
        held_tasks(gw, m, s);
    htc_metrics_family(m, HTC_METRIC_GAUGE, "htc_agent_silence_seconds", "seconds", "Since the last word of the agent that was not heard of for longest.");
    for (s = gw->sites; s < end; s++)
        seconds(m, s, silence(gw, s));
    htc_metrics_family(m, HTC_METRIC_GAUGE, "htc_agent_start_seconds", "seconds", "From the launch of an agent to its first word, lately.");
    for (s = gw->sites; s < end; s++)
        seconds(m, s, s->start_ns);
    htc_metrics_family(m, HTC_METRIC_COUNTER, "htc_agent_attempts_ended", "", "Attempts that have ended since the gateway began, by how.");
    for (s = gw->sites; s < end; s++)
        for (size_t k = 0; k < FIGURES_ENDS; k++)
            labelled_by(m, s, "outcome", htc__figures_names[k], s->figures.ended[k]);
    htc_metrics_family(m, HTC_METRIC_HISTOGRAM, "htc_agent_attempt_seconds", "seconds", "How long attempts ran.");
    for (s = gw->sites; s < end; s++)
        htc_metrics_histogram(m, &(htc_metric_label){ "site", htc_bytes_of(s->name) }, 1,
                              &(htc_metric_durations){ htc__figures_bounds, s->figures.durations, FIGURES_BOUNDS, s->figures.run });
    htc_metrics_family(m, HTC_METRIC_COUNTER, "htc_agent_cpu_seconds", "seconds", "CPU time of attempts.");
    for (s = gw->sites; s < end; s++)
        seconds(m, s, s->figures.cpu);
    htc_metrics_family(m, HTC_METRIC_COUNTER, "htc_agent_output_bytes", "bytes", "Bytes of outputs that attempts have left.");
    for (s = gw->sites; s < end; s++)
        labelled(m, s->name, NULL, s->figures.output_bytes);
    htc_metrics_family(m, HTC_METRIC_COUNTER, "htc_agent_output_files", "", "Files of outputs that attempts have left.");
    for (s = gw->sites; s < end; s++)
        labelled(m, s->name, NULL, s->figures.output_files);
}

void htc_gateway_metrics(const htc_gateway *gw, htc_metrics *m)
{
    if (!gw || !m)
        return;
    htc_metrics_family(m, HTC_METRIC_INFO, "htc_gateway", "", "Which program this is.");
    htc_metrics_value(m, &(htc_metric_label){ "version", htc_bytes_of(HTC_VERSION) }, 1, 1);
    gauge(m, "htc_gateway_waiting", "", "1: another gateway on the same store is active, and this one goes on if that ends.", gw->phase == PHASE_WAITING);
    gauge(m, "htc_gateway_term", "", "The term in which it is active, where several gateways use one store; 0: it is not, or there is no other.", gw->active.own.term);
    gauge(m, "htc_gateway_ready", "", "1: it serves; 0: it reads its state back, or ends.", gw->phase == PHASE_READY && !gw->shutdown);
    gauge(m, "htc_gateway_store_up", "", "1: the store takes what is written.", gw->store_status == HTC_OK);
    tasks(gw, m);
    sites(gw, m);
    agents(gw, m);
    refused(gw, m);
}
