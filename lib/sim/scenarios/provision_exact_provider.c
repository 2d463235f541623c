/* Dynamic service provision, message by message: the resource provider. Who gets how much is decided by htc_provision_grant, for all requests that have come within a
 * short span together. */
#include "core/codec.h"
#include "core/util.h"
#include "sim/scenarios/provision_exact.h"

void htc__exact_provider_account(exact_provider *p)
{
    htc_ns now = htc__twin_now(&p->x->t);
    p->held_ns += (exact_sum)p->held * (now - p->then);
    p->then = now;
}

static void take(exact_provider *p, uint32_t peer, uint32_t type, const htc_provision_request *q, htc_ns now)
{
    exact *x = p->x;
    for (size_t i = 0; i < p->n; i++)
        if (p->request[i].id == q->id) {
            htc__twin_fail(&x->t, HTC_EINTERNAL, "environment %llu asks before it was answered", (unsigned long long)q->id);
            return;
        }
    if (type == EXACT_APPLY) {
        p->applied++;
        p->peer[q->id] = peer;
        p->terms[q->id] = *q;
    } else if (p->peer[q->id] != peer) {
        htc__twin_fail(&x->t, HTC_EINTERNAL, "environment %llu has not applied", (unsigned long long)q->id);
        return;
    }
    p->request[p->n] = p->terms[q->id];
    p->request[p->n].nodes = q->nodes;
    p->request[p->n].arrival = now;
    p->request[p->n++].initial = type == EXACT_APPLY;
    if (type == EXACT_REQUEST && p->decide_at == HTC_NEVER)
        p->decide_at = now + x->costs.gather_ns;
    if (type == EXACT_APPLY && p->applied == x->n)
        p->decide_at = now; /* nobody begins before all have applied */
}

static void give_back(exact_provider *p, uint64_t nodes)
{
    htc__exact_transit(p->x, 0, nodes);
    htc__exact_provider_account(p);
    if (nodes > p->held)
        htc__twin_fail(&p->x->t, HTC_EINTERNAL, "%llu nodes come back, and %llu are held", (unsigned long long)nodes, (unsigned long long)p->held);
    else
        p->held -= nodes;
}

static void hear(exact_provider *p, const htc_input *in)
{
    htc_provision_request q;
    uint32_t              type;
    if (!htc__exact_hear(p->x, in->body, &type, &q))
        return;
    if (type == EXACT_RELEASE)
        give_back(p, q.nodes);
    else if (type == EXACT_ANSWER)
        htc__twin_fail(&p->x->t, HTC_EINTERNAL, "the provider is answered");
    else
        take(p, in->peer, type, &q, in->now);
}

/* One that begins without nodes of its own asks for none. */
static size_t without_empty(exact_provider *p, htc_provision_request *asked)
{
    size_t n = 0;
    for (size_t i = 0; i < p->n; i++)
        if (p->request[i].nodes)
            asked[n++] = p->request[i];
    return n;
}

static htc_status answer(exact_provider *p, htc_output *out, const htc_provision_request *q, uint64_t nodes)
{
    const exact_tre *e = &p->x->tre[q->id];
    if (q->initial && nodes != q->nodes)
        htc__twin_fail(&p->x->t, HTC_ENOFIT, "environment %s is to begin with %llu node%s, and of the provider's %llu too few are left", e->o.name ? e->o.name : "without a name",
                        (unsigned long long)q->nodes, htc__plural(q->nodes), (unsigned long long)p->x->options.capacity);
    p->held += nodes;
    htc__exact_transit(p->x, nodes, 0);
    return htc__exact_say(p->x, out, p->peer[q->id], EXACT_ANSWER, e, nodes);
}

static htc_status decide(exact_provider *p, htc_output *out)
{
    exact                 *x = p->x;
    htc_provision_request *asked = p->request + x->n;
    size_t                 n = without_empty(p, asked), k = 0;
    uint64_t               free_nodes = x->options.capacity - p->held;
    htc_status             status = n ? htc_provision_grant(&x->t.memory.env, x->options.granter, free_nodes, asked, n, p->grant) : HTC_OK;
    if (status != HTC_OK)
        htc__twin_fail(&x->t, status, "the provision policy answers: %s", htc_strerror(status));
    htc__exact_provider_account(p);
    for (size_t i = 0; i < p->n && status == HTC_OK; i++) {
        uint64_t nodes = p->request[i].nodes ? p->grant[k++] : 0;
        status = answer(p, out, &p->request[i], nodes);
    }
    if (p->held > x->options.capacity)
        htc__twin_fail(&x->t, HTC_EINTERNAL, "%llu nodes are held of %llu", (unsigned long long)p->held, (unsigned long long)x->options.capacity);
    p->n = 0;
    p->decide_at = HTC_NEVER;
    return status;
}

static htc_status step(void *self, const htc_input *in, htc_output *out)
{
    exact_provider *p = self;
    if (in->kind == HTC_IN_MESSAGE)
        hear(p, in);
    return in->now >= p->decide_at && htc__twin_is_good(&p->x->t) ? decide(p, out) : HTC_OK;
}

static htc_ns deadline(const void *self)
{
    const exact_provider *p = self;
    return p->decide_at;
}

const htc_machine_ops htc__exact_provider_ops = { .size = sizeof(htc_machine_ops), .step = step, .deadline = deadline };

htc_status htc__exact_provider_open(exact *x)
{
    exact_provider *p = &x->provider;
    p->x = x;
    p->decide_at = HTC_NEVER;
    p->peer = htc__alloc(&x->t.memory.env, x->n * sizeof *p->peer);
    p->terms = htc__alloc(&x->t.memory.env, x->n * sizeof *p->terms);
    p->request = htc__alloc(&x->t.memory.env, 2 * x->n * sizeof *p->request);
    p->grant = htc__alloc(&x->t.memory.env, x->n * sizeof *p->grant);
    return p->peer && p->terms && p->request && p->grant ? HTC_OK : HTC_ENOMEM;
}

void htc__exact_provider_close(exact *x)
{
    exact_provider *p = &x->provider;
    htc__free(&x->t.memory.env, p->peer, x->n * sizeof *p->peer);
    htc__free(&x->t.memory.env, p->terms, x->n * sizeof *p->terms);
    htc__free(&x->t.memory.env, p->request, 2 * x->n * sizeof *p->request);
    htc__free(&x->t.memory.env, p->grant, x->n * sizeof *p->grant);
}
