/* The monitoring service of the partition controllers (Algorithm 6), a process of its own with a member that keeps the census, and controllers
 * that read it (Algorithm 7). Both end with the last job. */
#include "core/util.h"
#include "sim/models/jobs.h"

static void monitor_later(jobs *m, uint64_t ticks, uint32_t looks)
{
    m->looks = looks;
    htc_scale_at(m->scale, htc__jobs_now(m) + ticks, m->slots_max + m->parts);
}

static void monitor_step(jobs *m, const htc_balance_answer *answer)
{
    htc_balance_action a;
    for (;;) {
        htc_status status = htc_balance_monitor_step(m->monitor, htc__jobs_now_ns(m), answer, &a);
        if (status != HTC_OK) {
            htc_scale_fail(m->scale, status);
            return;
        }
        answer = NULL;
        if (a.kind == HTC_BALANCE_WAIT) {
            uint64_t until = htc__jobs_tick(m, a.until), now = htc__jobs_now(m);
            monitor_later(m, until > now ? until - now : 1, 0); /* a pause of less than a tick is one */
            return;
        }
        m->now.services++;
        htc__scale_messages(m->scale, 1, 0, 0);
        if (a.kind == HTC_BALANCE_LOOK) {
            m->look_target = a.partition;
            monitor_later(m, m->hop, 1);
            return;
        }
        htc__scale_messages(m->scale, 0, 1, 0);
        (void)htc__jobs_served(m, &m->census_serves);
        htc_buf_clear(&m->census);
        htc_put_raw(&m->census, a.body);
        if (m->census.status != HTC_OK) {
            htc_scale_fail(m->scale, m->census.status);
            return;
        }
    }
}

void htc__jobs_monitor_event(jobs *m)
{
    if (m->looks == 1) {
        jobs_part *part = &m->part[m->look_target];
        m->look_free = part->free;
        htc__scale_messages(m->scale, 1, 1, 0);
        monitor_later(m, htc__jobs_served(m, &part->serves) - htc__jobs_now(m) + htc__jobs_message(m, (uint64_t)part->free * m->options.node_bytes), 2);
    } else if (m->looks == 2) {
        htc__scale_messages(m->scale, 0, 1, 0);
        if (m->left)
            monitor_step(m, &(htc_balance_answer){ .free = m->look_free });
    } else if (m->left) {
        monitor_step(m, NULL);
    }
}

static void pull_later(jobs *m, uint32_t c, uint64_t ticks, uint32_t pulls)
{
    m->part[c].pulls = pulls;
    htc_scale_at(m->scale, htc__jobs_now(m) + ticks, m->slots_max + c);
}

void htc__jobs_pull_event(jobs *m, uint32_t c)
{
    jobs_part *part = &m->part[c];
    uint64_t   now = htc__jobs_now(m);
    if (part->pulls == 0 && m->left) {
        m->now.services++;
        htc__scale_messages(m->scale, 1, 0, 0);
        pull_later(m, c, m->hop, 1);
    } else if (part->pulls == 1) {
        htc__scale_messages(m->scale, 1, 1, 0);
        pull_later(m, c, htc__jobs_served(m, &m->census_serves) - now + htc__jobs_message(m, m->census.len), 2);
    } else if (part->pulls == 2) {
        htc__scale_messages(m->scale, 0, 1, 0);
        /* there is none before the first census */
        htc_status status = m->census.len ? htc_balance_pull(part->balance, htc__jobs_now_ns(m), &part->rng, htc_buf_bytes(&m->census)) : HTC_OK;
        if (status != HTC_OK)
            htc_scale_fail(m->scale, status);
        uint64_t due = htc__jobs_tick(m, htc_balance_pull_due(part->balance));
        pull_later(m, c, due > now ? due - now : 1, 0);
    }
}
