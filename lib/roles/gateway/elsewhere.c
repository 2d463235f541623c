/* A task whose last try failed is tried again at another site or node, if one of its user's agents there asks soon.
 *
 * An agent where that try failed passes the task over while another of the user's agents could run it elsewhere, for RETRY_ELSEWHERE after its pause has
 * ended at most: then whoever asks first has it. So nothing starves, and a slot is idle for no longer than that. An agent that runs
 * a long task elsewhere is waited for in vain; who could know its end would have to know the end of every task. One that was launched at another site
 * and has not registered yet is waited for too: where agents leave during the pause because nothing else is to do, the first one that comes back may be where
 * the task failed. Where it is on a site of several nodes is not known before it registers. Which site an agent is launched at does not depend on it:
 * a task that may fail everywhere would be sent from the fastest site to the slowest.
 *
 * It costs a pull the same whatever the number of tasks and agents: a few tasks and agents are looked at. Where it failed is in memory alone: a gateway
 * that starts gives each to whoever asks first. Tasks of several slots are not passed over: slots are kept for these. */
#include <string.h>

#include "roles/gateway/gateway.h"

#define RETRY_ELSEWHERE HTC_SECOND /* an agent that waits asks every 0.2 s; pauses before retries begin with as long */
#define RETRY_LOOKS 8              /* retries of a job, for one that may run here */
#define AGENT_LOOKS 256            /* for one that is elsewhere */

uint64_t htc__gw_place_of_try(const agent *a)
{
    return htc_hash64((htc_bytes){ a->node, strlen(a->node) }, a->site) | 1;
}

static int failed_here(const htc_gateway *gw, job *j, uint64_t index, uint64_t place)
{
    const chunk *c = htc__gw_chunk(j, index / CHUNK_TASKS);
    const task  *t = c ? &c->tasks[index % CHUNK_TASKS] : NULL;
    return t && t->state == TASK_WAITING && t->failed_at == place && gw->now < t->since + RETRY_ELSEWHERE;
}

static int could_run(const htc_gateway *gw, const job *j, const agent *b)
{
    htc_ns until;
    return b->user == j->user && b->state == AGENT_READY && !b->draining && !b->stop && !b->suspected && htc__gw_job_readable(j, b) &&
           htc__gw_job_may(gw, j, b->site) && htc__gw_agent_offers(gw, b, &j->asks) && !htc__gw_node_aside(gw, b->node, &until);
}

/* It is launched, and not in a queue: it may ask soon. What it says of itself is not known yet. */
static int comes(const htc_gateway *gw, const job *j, const agent *b)
{
    return b->user == j->user && (b->state == AGENT_SUBMITTED || b->state == AGENT_STARTING) && !b->waits && !b->draining && !b->stop &&
           htc__gw_job_may(gw, j, b->site);
}

static int is_another(const htc_gateway *gw, const job *j, const agent *a)
{
    uint64_t place = htc__gw_place_of_try(a);
    int      looks = AGENT_LOOKS;
    for (const agent *b = gw->agents; b && looks--; b = b->hh.next)
        if (could_run(gw, j, b) ? htc__gw_place_of_try(b) != place : b->site != a->site && comes(gw, j, b))
            return 1;
    return 0;
}

int htc__gw_passes_over(htc_gateway *gw, job *j, const agent *a)
{
    uint64_t place = htc__gw_place_of_try(a);
    int      looks = RETRY_LOOKS;
    htc__gw_job_listed(gw, j, &j->head, j->head);
    htc__gw_job_listed(gw, j, &j->tail, j->tail);
    if (!htc__gw_job_next_is_retry(j) || !failed_here(gw, j, j->tail->index, place))
        return 0;
    htc__gw_job_needs(gw, j);
    if (j->width.slots > 1 || !is_another(gw, j, a))
        return 0;
    for (ready_task *r = j->tail; r && looks--; r = htc__gw_job_listed(gw, j, &j->tail, r->next))
        if (!failed_here(gw, j, r->index, place)) { /* it goes first, and the others stay in their order */
            DL_DELETE(j->tail, r);
            DL_PREPEND(j->tail, r);
            return 0;
        }
    return 1;
}
