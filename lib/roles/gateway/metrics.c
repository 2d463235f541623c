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
        n[0] += u->queued;
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

void htc_gateway_metrics(const htc_gateway *gw, htc_metrics *m)
{
    if (!gw || !m)
        return;
    htc_metrics_family(m, HTC_METRIC_INFO, "htc_gateway", "", "Which program this is.");
    htc_metrics_value(m, &(htc_metric_label){ "version", htc_bytes_of(HTC_VERSION) }, 1, 1);
    gauge(m, "htc_gateway_ready", "", "1: it serves; 0: it reads its state back, or ends.", gw->phase == PHASE_READY && !gw->shutdown);
    gauge(m, "htc_gateway_store_up", "", "1: the store takes what is written.", gw->store_status == HTC_OK);
    tasks(gw, m);
    sites(gw, m);
}
