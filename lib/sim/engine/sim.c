/* The run: its clock, the events in their order, its first failure, its trace. */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "core/util.h"
#include "core/wire.h"
#include "sim/engine/sim_private.h"

#define REDIAL    (100 * HTC_MS)
#define STILL_MAX 200000
#define LINE_MAX_ 1200

htc_status htc_sim_create(const htc_env *env, const htc_sim_options *options, htc_sim **out)
{
    htc_sim_options o = { .size = sizeof o };
    htc_sim_net     net = { .size = sizeof net };
    if (!out)
        return HTC_EINVAL;
    htc_status status = options ? htc__options_copy(&o, sizeof o, options, options->size, sizeof o.size) : HTC_OK;
    if (status != HTC_OK)
        return status;
    htc_sim *sim = htc__alloc(env, sizeof *sim);
    if (!sim)
        return HTC_ENOMEM;
    *sim = (htc_sim){ .env = { .size = sizeof sim->env, .alloc = env ? env->alloc : NULL },
                      .options = o,
                      .net_faults = 1,
                      .points_on = 1,
                      .now = HTC_SIM_BEGIN,
                      .root = { o.seed } };
    sim->options.redial_ns = o.redial_ns ? o.redial_ns : REDIAL;
    sim->options.still_max = o.still_max ? o.still_max : STILL_MAX;
    status = htc_sim_set_net(sim, NULL, NULL, o.net ? o.net : &net);
    if (status == HTC_OK)
        status = htc_output_create(&sim->env, 0, &sim->out);
    sim->options.net = NULL;
    if (status == HTC_OK)
        *out = sim;
    else
        htc__free(env, sim, sizeof *sim);
    return status;
}

void htc_sim_destroy(htc_sim *sim)
{
    if (!sim)
        return;
    htc_env env = sim->env;
    for (size_t i = 0; i < sim->n_nodes; i++)
        htc__sim_node_free(sim->nodes[i]);
    htc__sim_links_free(sim);
    htc__sim_queue_free(sim);
    htc__sim_conns_free(sim);
    htc_output_destroy(sim->out);
    htc__free(&env, sim->nodes, sim->cap_nodes * sizeof(htc_sim_node *));
    htc__free(&env, sim, sizeof *sim);
}

/* ---- deliver ---- */

htc_status htc_sim_at(htc_sim *sim, htc_ns at, void (*fn)(htc_sim *sim, void *ctx), void *ctx, size_t size)
{
    if (!sim || !fn || (size && !ctx))
        return HTC_EINVAL;
    sim_event *e = htc__sim_event(sim, NULL, &(htc_input){ .size = sizeof(htc_input), .body = { ctx, size } });
    if (!e)
        return HTC_ENOMEM;
    e->fn = fn;
    e->ctx = size ? e->body : ctx;
    return htc__sim_push(sim, e, at);
}

/* The next event; there is one. */
static htc_status next(htc_sim *sim)
{
    htc_ns     at;
    sim_event *e = htc__sim_pop(sim, &at);
    sim->still = at > sim->now ? 0 : sim->still + 1;
    sim->now = at;
    sim->events++;
    if (sim->still > sim->options.still_max) {
        const char *name = e->node ? e->node->name : "a function";
        htc__sim_event_free(sim, e);
        return htc__sim_failf(sim, HTC_EINTERNAL, "time stands still at %s", name);
    }
    sim->busy = 1;
    htc__sim_deliver(sim, e);
    sim->busy = 0;
    return sim->status;
}

htc_status htc_sim_next(htc_sim *sim)
{
    if (!sim || sim->busy)
        return HTC_EINVAL;
    if (sim->status != HTC_OK)
        return sim->status;
    return htc__sim_due(sim, HTC_NEVER) ? next(sim) : HTC_EMPTY;
}

htc_status htc_sim_run(htc_sim *sim, htc_ns span)
{
    if (!sim || sim->busy)
        return HTC_EINVAL;
    htc_ns until = htc__sim_after(sim, span);
    while (sim->status == HTC_OK && htc__sim_due(sim, until))
        next(sim);
    if (sim->status == HTC_OK && until != HTC_NEVER)
        sim->now = until;
    return sim->status;
}

htc_status htc_sim_settle(htc_sim *sim, htc_ns span, const char *what, int (*done)(void *ctx), void *ctx)
{
    if (!sim || sim->busy || !done)
        return HTC_EINVAL;
    htc_ns until = htc__sim_after(sim, span);
    while (sim->status == HTC_OK && !done(ctx)) {
        if (!htc__sim_due(sim, until))
            return htc__sim_failf(sim, HTC_ETIMEDOUT, "no progress: %s", what ? what : "?");
        next(sim);
    }
    return sim->status;
}

htc_ns htc_sim_now(const htc_sim *sim)
{
    return sim->now;
}

htc_ns htc_sim_wall(const htc_sim *sim)
{
    return htc__sim_after(sim, HTC_SIM_WALL);
}

htc_rng htc_sim_rng(const htc_sim *sim, const char *name)
{
    return htc_rng_fork(&sim->root, name);
}

uint64_t htc_sim_hash(const htc_sim *sim)
{
    return sim->hash;
}

uint64_t htc_sim_events(const htc_sim *sim)
{
    return sim->events;
}

/* ---- failures ---- */

htc_status htc__sim_failf(htc_sim *sim, htc_status status, const char *format, ...)
{
    va_list args;
    if (sim->status != HTC_OK)
        return sim->status;
    sim->status = status;
    int n = snprintf(sim->failure, sizeof sim->failure,
                     "seed %llu at %llu.%06llu s: ", (unsigned long long)sim->options.seed,
                     (unsigned long long)(sim->now / HTC_SECOND), (unsigned long long)(sim->now % HTC_SECOND / 1000));
    va_start(args, format);
    vsnprintf(sim->failure + n, sizeof sim->failure - (size_t)n, format, args);
    va_end(args);
    htc__sim_notef(sim, "FAILED %s", sim->failure);
    return status;
}

htc_status htc__sim_refused(htc_sim *sim)
{
    return htc__sim_failf(sim, HTC_ENOMEM, "the simulation itself was refused memory");
}

htc_status htc_sim_fail(htc_sim *sim, const char *text)
{
    return sim ? htc__sim_failf(sim, HTC_EINTERNAL, "%s", text ? text : "?") : HTC_EINVAL;
}

const char *htc_sim_failure(const htc_sim *sim)
{
    return sim->status != HTC_OK ? sim->failure : NULL;
}

htc_status htc_sim_status(const htc_sim *sim)
{
    return sim ? sim->status : HTC_EINVAL;
}

/* ---- the trace ---- */

void htc__sim_notef(htc_sim *sim, const char *format, ...)
{
    char    line[LINE_MAX_];
    va_list args;
    if (!sim->options.trace)
        return;
    int n = snprintf(line, sizeof line, "[%5llu.%06llu] ", (unsigned long long)(sim->now / HTC_SECOND),
                     (unsigned long long)(sim->now % HTC_SECOND / 1000));
    va_start(args, format);
    vsnprintf(line + n, sizeof line - (size_t)n, format, args);
    va_end(args);
    sim->options.trace(sim->options.trace_ctx, line);
}

void htc_sim_note(htc_sim *sim, const char *text)
{
    if (sim && text)
        htc__sim_notef(sim, "%s", text);
}

int htc_sim_traced(const htc_sim *sim)
{
    return sim->options.trace != NULL;
}

static const char *kind_name(uint32_t kind)
{
    static const char *const names[] = { "?",      "start",  "message", "timeout", "stored", "opened",
                                         "closed", "result", "event",   "bytes",   "sent",   "turn" };
    return names[kind < sizeof names / sizeof names[0] ? kind : 0];
}

void htc__sim_trace(htc_sim *sim, const htc_sim_node *node, const htc_input *in)
{
    uint16_t type;
    uint64_t id;
    struct {
        uint64_t at, tag;
        uint32_t node, kind, peer, op;
        int64_t  status;
    } head = { sim->now, in->tag, node->id, in->kind, in->peer, in->op, in->status };
    sim->hash = htc_hash64((htc_bytes){ &head, sizeof head }, sim->hash);
    if (in->body.len)
        sim->hash = htc_hash64(in->body, sim->hash);
    if (!sim->options.trace || in->kind == HTC_IN_TIMEOUT)
        return;
    htc_wire_open(in->body, &type, &id);
    htc__sim_notef(sim, "%s < %s %s peer %u op %u tag %llu %s (%zu bytes)", node->name, kind_name(in->kind),
                   in->kind == HTC_IN_MESSAGE ? htc_wire_name(type) : "", (unsigned)in->peer, (unsigned)in->op,
                   (unsigned long long)in->tag, htc_status_name(in->status), in->body.len);
}
