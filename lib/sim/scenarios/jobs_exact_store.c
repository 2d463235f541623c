/* Partition controllers, message by message: members of the store (htc_kv_server), each a store of its own beside a controller, and who asks them (htc_kv_client). */
#include <stdio.h>
#include <string.h>

#include "core/codec.h"
#include "core/util.h"
#include "core/wire.h"
#include "sim/scenarios/jobs_exact.h"

#define PATIENCE (UINT64_C(100000) * 3600 * HTC_SECOND) /* nothing is lost, so nothing is said again, however long requests wait for each other */

/* ---- members ---- */

static htc_status say(jobs_exact *x, htc_output *out, uint32_t peer, htc_bytes body)
{
    x->sent++;
    return htc_output_add(out, &(htc_effect){ .kind = HTC_OUT_MESSAGE, .peer = peer, .body = body });
}

static int is_request(const htc_input *in)
{
    uint16_t type = 0;
    uint64_t id;
    if (in->kind == HTC_IN_MESSAGE)
        (void)htc_wire_open(in->body, &type, &id);
    return type == HTC_WIRE_KV_REQUEST;
}

/* What the server says: an answer leaves when the request is served, until when it is an event on its way. Before time counts that takes none. */
static htc_status hand_on(jobs_exact_member *m, const htc_effect *e, int served, htc_ns now, htc_output *out)
{
    if (e->kind != HTC_OUT_MESSAGE)
        return htc_output_add(out, e);
    return served && m->serves > now ? htc_sim_event(m->node, m->serves - now, e->peer, HTC_OK, e->body) : say(m->x, out, e->peer, e->body);
}

static htc_status step_member(void *self, const htc_input *in, htc_output *out)
{
    jobs_exact_member *m = self;
    htc_effect         e;
    int                asked = is_request(in);
    if (in->kind == HTC_IN_EVENT)
        return say(m->x, out, in->op, in->body);
    m->x->received += in->kind == HTC_IN_MESSAGE;
    if (asked && m->x->t.begin != HTC_NEVER)
        m->serves = (m->serves > in->now ? m->serves : in->now) + m->x->m.options.store_ns;
    htc_output_clear(m->inner);
    htc_status status = m->ops->step(m->server, in, m->inner);
    for (size_t i = 0; status >= 0 && htc_output_get(m->inner, i, &e) == HTC_OK; i++)
        status = hand_on(m, &e, asked, in->now, out);
    return status;
}

static htc_ns deadline_of_member(const void *self)
{
    const jobs_exact_member *m = self;
    return m->ops->deadline(m->server);
}

static void destroy_member(void *self)
{
    jobs_exact_member *m = self;
    htc_kv_server_destroy(m->server);
    m->server = NULL;
}

/* In memory: nothing is to be made durable. */
htc_status htc__jobs_exact_member_boot(void *ctx, htc_sim_node *node)
{
    static const htc_machine_ops ops = { .size = sizeof ops, .step = step_member, .deadline = deadline_of_member, .destroy = destroy_member };
    jobs_exact_member           *m = ctx;
    htc_kv_server_options        o = { .size = sizeof o, .connections_max = m->x->callers + 16, .request_ns = PATIENCE };
    htc_status                   status = htc_kv_server_create(htc_sim_env(node), &o, &m->server);
    m->ops = htc_kv_server_ops();
    return status == HTC_OK ? htc_sim_install(node, &ops, m) : status;
}

/* ---- who asks ---- */

htc_status htc__jobs_exact_ask(jobs_exact_caller *c, uint32_t member, const htc_kv_request *q, uint64_t tag)
{
    c->x->asking++;
    return htc_kv_client_submit(c->kv[member], c->now, q, 1, tag, c->out);
}

htc_status htc__jobs_exact_read(jobs_exact_caller *c, uint32_t member, const char *key, uint64_t tag)
{
    htc_kv_request q = { .size = sizeof q, .op = HTC_KV_GET, .key = htc_bytes_of(key) };
    return htc__jobs_exact_ask(c, member, &q, tag);
}

htc_status htc__jobs_exact_write(jobs_exact_caller *c, uint32_t member, const char *key, htc_bytes value, uint64_t tag)
{
    htc_kv_request q = { .size = sizeof q, .op = HTC_KV_PUT, .key = htc_bytes_of(key), .value = value };
    return htc__jobs_exact_ask(c, member, &q, tag);
}

void htc__jobs_exact_key(char *key, const char *kind, uint64_t number)
{
    snprintf(key, JOBS_EXACT_KEY, "%s/%llu", kind, (unsigned long long)number);
}

htc_status htc__jobs_exact_free_in(jobs_exact *x, htc_bytes record, uint32_t *free)
{
    htc_record_summary s = { 0 };
    htc_status         status = htc_record_count(&x->t.memory.env, record, &s);
    *free = s.free;
    return status == HTC_OK ? status : htc__twin_refuse(&x->t, status, "a record cannot be read: %s", htc_strerror(status));
}

static htc_status step_client(jobs_exact_caller *c, uint32_t member, const htc_input *in)
{
    htc_kv_result r = { .size = sizeof r };
    htc_status    status = htc_kv_client_step(c->kv[member], in, c->out);
    while (status == HTC_OK && htc_kv_client_next(c->kv[member], &r)) {
        c->x->asking--;
        status = c->answered(c, &r);
    }
    return status;
}

static void count_sent(jobs_exact_caller *c)
{
    htc_effect e;
    for (size_t i = 0; htc_output_get(c->out, i, &e) == HTC_OK; i++)
        c->x->sent += e.kind == HTC_OUT_MESSAGE;
}

static htc_status step_caller(void *self, const htc_input *in, htc_output *out)
{
    jobs_exact_caller *c = self;
    htc_status         status = HTC_OK;
    c->out = out;
    c->now = in->now;
    c->x->received += in->kind == HTC_IN_MESSAGE;
    htc__jobs_exact_sample(c->x);
    if (in->kind == HTC_IN_EVENT)
        status = c->happened(c, in->op);
    else if (in->peer && in->peer <= c->x->callers)
        status = step_client(c, in->peer - 1, in);
    else
        for (uint32_t p = 0; p < c->x->callers && status == HTC_OK; p++)
            status = step_client(c, p, in);
    count_sent(c);
    return status;
}

static htc_ns deadline_of_caller(const void *self)
{
    const jobs_exact_caller *c = self;
    htc_ns                   at = HTC_NEVER;
    for (uint32_t p = 0; p < c->x->callers; p++) {
        htc_ns its = htc_kv_client_deadline(c->kv[p]);
        at = its < at ? its : at;
    }
    return at;
}

htc_status htc__jobs_exact_caller_boot(void *ctx, htc_sim_node *node)
{
    static const htc_machine_ops ops = { .size = sizeof ops, .step = step_caller, .deadline = deadline_of_caller };
    jobs_exact_caller           *c = ctx;
    uint32_t                     n = c->x->callers;
    htc_status                   status = htc_sim_install(node, &ops, c);
    for (uint32_t p = 0; p < n && status == HTC_OK; p++) {
        htc_kv_client_options o = { .size = sizeof o, .client_id = (uint64_t)c->number * n + p + 1, .peer = p + 1, .retry_ns = PATIENCE };
        status = htc_kv_client_create(htc_sim_env(node), &o, &c->kv[p]);
        if (status == HTC_OK)
            status = htc_sim_dial(node, p + 1, c->x->member[p].node, NULL);
    }
    return status;
}
