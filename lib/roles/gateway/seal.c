/* A gateway that becomes active writes all that it goes on from anew, and serves nobody before that is durable.
 *
 * The gateway before it may still have writes under way, or wake up and make more of them. Each of them names the version that it read, and
 * fails where this gateway has written the record since. So it writes every record that it holds in memory and that may be written again: users,
 * agents, sites out of service, removals, projects, quotas, the newest day of usage of each user and the sum of those of long ago, and of open jobs the record, the mark that they are
 * open, and the chunks. Then the record gateway/active says that this
 * term is sealed.
 *
 * What the gateway before it creates later is not overwritten: it was not there. Marks of open jobs and removals therefore say in which term
 * they were written. One of a term before the last sealed one was not seen when that was sealed: nobody was answered on the strength of it
 * (active.c), and it is void. */
#include <assert.h>
#include <string.h>

#include "core/fault.h"
#include "roles/gateway/gateway.h"
#include "roles/gateway/nodes_closed.h"

static int failed(htc_gateway *gw, const htc_kv_result *r)
{
    if (r->status == HTC_OK)
        return 0;
    if (!htc__gw_fenced(gw, r))
        htc_runtime_break(gw->runtime, r->status, "writing down anew what is gone on from");
    return 1;
}

static void user_sealed(void *role, void *ctx, const htc_kv_result *r)
{
    user *u = ctx;
    if (!failed(role, r))
        u->version = r->version;
}

static void open_sealed(void *role, void *ctx, const htc_kv_result *r)
{
    htc_gateway *gw = role;
    job         *j = ctx;
    if (!failed(gw, r))
        j->open_version = r->version;
    htc__gw_job_release(gw, j);
}

static void seal_job(htc_gateway *gw, job *j)
{
    key k = htc__gw_key_open(j->id);
    htc__gw_record_open_write(&gw->scratch, gw->active.own.term, 1);
    uint64_t version = j->open_version;
    j->open_version = 0; /* not known before the answer */
    htc__gw_job_hold(j);
    htc__gw_write(gw, k, htc__gw_record_bytes(gw, &gw->scratch), version, open_sealed, j);
    htc__gw_job_dirty(gw, j, NULL);
    for (chunk *c = j->chunks; c; c = c->hh.next)
        htc__gw_chunk_dirty(gw, c, NULL);
}

static void seal(void *role, void *ctx, htc_status status);

/* What was read may be of a later term: then it is not this gateway's to write. */
void htc__gw_seal(htc_gateway *gw)
{
    htc__gw_confirm(gw, seal, NULL);
}

static void seal(void *role, void *ctx, htc_status status)
{
    htc_gateway *gw = role;
    (void)ctx;
    if (status != HTC_OK)
        return;
    assert(gw->phase == PHASE_RECOVERING);
    gw->phase = PHASE_SEALING;
    htc__gw_usage_settle(gw);
    if (HTC__BROKEN(gateway_unsealed))
        return;
    if (!HTC__BROKEN(gateway_usage_unsealed)) {
        htc__gw_usage_seal(gw);
        htc__gw_projects_seal(gw);
        htc__gw_quotas_seal(gw);
    }
    for (user *u = gw->users; u; u = u->hh.next) {
        htc__gw_record_user_write(&gw->scratch, u);
        htc__gw_write(gw, htc__gw_key_user(u->name), htc__gw_record_bytes(gw, &gw->scratch), u->version, user_sealed, u);
    }
    for (agent *a = gw->agents; a; a = a->hh.next)
        htc__gw_agent_save(gw, a);
    for (size_t i = 0; i < gw->n_sites; i++)
        if (gw->sites[i].closed)
            htc__gw_site_save(gw, &gw->sites[i]);
    htc__gw_nodes_save(gw);
    for (removal *m = gw->removals; m; m = m->list_next)
        htc__gw_removal_save(gw, m);
    for (job *j = gw->jobs, *next; j; j = next) {
        next = j->hh.next;
        seal_job(gw, j);
    }
}

static void sealed(void *role, void *ctx, htc_status status)
{
    htc_gateway *gw = role;
    (void)ctx;
    if (status == HTC_OK && gw->phase == PHASE_SEALING)
        htc__gw_serve(gw);
}

void htc__gw_seal_check(htc_gateway *gw)
{
    if (gw->phase != PHASE_SEALING || gw->active.own.sealed == gw->active.own.term || gw->dirty_chunks || gw->dirty_jobs ||
        htc_runtime_pending(gw->runtime))
        return;
    gw->active.own.sealed = gw->active.own.term;
    htc__gw_active_write(gw, sealed, NULL);
}
