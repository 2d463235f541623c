/* Who is gone for certain. The host says that nobody listens at a worker's address any more, or somebody else does: then the worker's process
 * has ended. Its lease is revoked, so that its key, and that of who looks for the end, are gone at once, and the others take its
 * ledgers. Should this be wrong it costs work, never a result: who finds its own key gone asks for its lease, and ends. */
#include <string.h>

#include "roles/worker/worker_private.h"

#define SAID_NS (20 * HTC_MS) /* who looks for the end says so at once, of the others whoever comes first within this */

static member *with_peer(htc_worker *w, uint32_t peer)
{
    for (uint32_t i = 0; peer && i < w->n_members; i++)
        if (w->members[i].peer == peer)
            return &w->members[i];
    return NULL;
}

static void is_gone(htc_worker *w, member *m, htc_ns at)
{
    m->gone_at = at;
    w->gone_at = at < w->gone_at ? at : w->gone_at;
}

static void is_gone_soon(htc_worker *w, member *m)
{
    is_gone(w, m, w->now + (htc__worker_collects(w) ? 0 : htc_rng_below(w->env.rng, SAID_NS)));
}

void htc__worker_refused(htc_worker *w, uint32_t peer)
{
    member *m = with_peer(w, peer);
    if (m)
        is_gone_soon(w, m);
}

int htc__worker_member_opened(htc_worker *w, const htc_input *in)
{
    member       *m = with_peer(w, in->peer);
    htc_peer_info info = { 0 };
    if (!m)
        return 0;
    m->gone_at = HTC_NEVER;
    if (htc_peer_info_read(in->body, &info) != HTC_OK || !info.pid)
        return 1;
    if (m->pid && m->pid != info.pid)
        is_gone_soon(w, m); /* another process listens there now */
    m->pid = info.pid;
    return 1;
}

int htc__worker_was_here(htc_worker *w, member *m, const char *address)
{
    if (strcmp(address, w->address) != 0)
        return 0;
    is_gone_soon(w, m);
    return 1;
}

typedef struct gone_of {
    uint64_t id, epoch;
} gone_of;

static void revoked(void *role, void *ctx, const htc_kv_result *r)
{
    htc_worker *w = role;
    gone_of     g = *(gone_of *)ctx;
    htc_runtime_context_free(w->runtime, ctx);
    if (r->status == HTC_OK || r->status == HTC_ENOTFOUND)
        return; /* the watch says the rest */
    for (uint32_t i = 0; i < w->n_members; i++)
        if (w->members[i].id == g.id && w->members[i].epoch == g.epoch)
            is_gone(w, &w->members[i], w->now + AGAIN_NS);
}

static void revoke(htc_worker *w, const member *m)
{
    gone_of *g = htc_runtime_context(w->runtime, sizeof *g);
    if (!g)
        return;
    *g = (gone_of){ m->id, m->epoch };
    htc__log_with(&w->env, HTC_LOG_INFO, HTC__FIELDS(HTC__NUMBER("worker", m->id)), "worker %llu is gone -> revoke its lease", (unsigned long long)m->id);
    htc_runtime_ask(w->runtime, &(htc_kv_request){ .size = sizeof(htc_kv_request), .op = HTC_KV_LEASE_REVOKE, .lease = m->epoch }, 1, revoked, g);
}

void htc__worker_gone_timers(htc_worker *w)
{
    if (w->now < w->gone_at)
        return;
    w->gone_at = HTC_NEVER;
    for (uint32_t i = 0; i < w->n_members; i++) {
        member *m = &w->members[i];
        if (m->gone_at <= w->now) {
            m->gone_at = HTC_NEVER;
            revoke(w, m);
        } else if (m->gone_at < w->gone_at) {
            w->gone_at = m->gone_at;
        }
    }
}
