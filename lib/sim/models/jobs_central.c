/* One controller for the whole machine, the comparator of the partitioned ones: jobs come to it from as many submitters as there would be
 * partitions, htc_fit_next says which starts, and each costs its time, one after the other. */
#include "sim/models/jobs.h"

static uint64_t cost(const jobs *m, uint32_t need)
{
    return htc_scale_ticks(m->scale, m->options.job_ns + m->options.node_ns * need + m->options.scan_ns * m->options.nodes);
}

/* Upper bounds, as users give them. */
static htc_ns estimate(const jobs *m, uint32_t s)
{
    uint64_t levels = htc__jobs_levels(m, m->slot[s].need);
    return (cost(m, m->slot[s].need) + htc__jobs_length(m, s) + levels * (3 * m->hop + m->launch) + 1) * m->tick_ns;
}

static void serve(jobs *m)
{
    htc_fit_job job;
    if (m->serving != JOBS_NONE)
        return;
    htc_status status = htc_fit_next(m->fit, htc__jobs_now_ns(m), &job);
    if (status == HTC_OK && (job.id >= m->slots || m->slot[job.id].phase != JOBS_PARSED || m->slot[job.id].need != job.nodes)) {
        htc_scale_fail(m->scale, HTC_ECORRUPT); /* a checkpoint has told the queue of another job */
    } else if (status == HTC_OK) {
        m->serving = (uint32_t)job.id;
        m->taken += job.nodes;
        htc_scale_mark(m->scale, job.id);
        htc_scale_at(m->scale, htc__jobs_now(m) + cost(m, job.nodes), m->slots_max + m->parts);
    } else if (status != HTC_AGAIN) {
        htc__asked_fit_refused(&m->asked_order);
        htc_scale_fail(m->scale, status);
    }
}

void htc__jobs_central_submit(jobs *m, uint32_t s)
{
    htc_fit_job job = { .id = s, .nodes = m->slot[s].need, .estimate = estimate(m, s) };
    htc_status  status = htc_fit_submit(m->fit, htc__jobs_now_ns(m), &job);
    if (status != HTC_OK)
        htc_scale_fail(m->scale, status);
    serve(m);
}

void htc__jobs_central_event(jobs *m)
{
    uint32_t s = m->serving;
    m->serving = JOBS_NONE;
    htc__jobs_granted(m, s);
    serve(m);
}

void htc__jobs_central_ended(jobs *m, uint32_t s)
{
    htc_status status = htc_fit_end(m->fit, htc__jobs_now_ns(m), s);
    m->taken -= m->slot[s].need;
    if (status != HTC_OK)
        htc_scale_fail(m->scale, status);
    serve(m);
}
