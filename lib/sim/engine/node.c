/* A node: its machine's life, its steps, and what they ask for. */
#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "core/util.h"
#include "sim/engine/sim_private.h"

static void write_log(void *ctx, uint32_t level, const char *line)
{
    const htc_sim_node *node = ctx;
    (void)level;
    htc__sim_notef(node->sim, "%s: %s", node->name, line);
}

static htc_status take_options(const htc_sim_node_options *in, htc_sim_node_options *out)
{
    *out = (htc_sim_node_options){ 0 };
    htc_status status = in ? htc__options_copy(out, sizeof *out, in, in->size, sizeof in->size) : HTC_EINVAL;
    if (status != HTC_OK)
        return status;
    if (!out->host || !out->host->boot || out->host->size < sizeof out->host->size || !out->name ||
        strlen(out->name) >= SIM_NAME_MAX || out->drift_ppm < -500000 || out->drift_ppm > 500000 ||
        out->wall_offset_ns > INT64_MAX - (int64_t)HTC_SIM_WALL)
        return HTC_EINVAL;
    if (!out->info.transport)
        out->info.transport = HTC_TRANSPORT_SIM;
    return HTC_OK;
}

static htc_status make_room(htc_sim *sim)
{
    if (sim->n_nodes < sim->cap_nodes)
        return HTC_OK;
    size_t         cap = sim->cap_nodes ? sim->cap_nodes * 2 : 16;
    htc_sim_node **nodes = htc__resize(&sim->env, sim->nodes, sim->cap_nodes * sizeof *nodes, cap * sizeof *nodes);
    if (!nodes)
        return HTC_ENOMEM;
    sim->nodes = nodes;
    sim->cap_nodes = cap;
    return HTC_OK;
}

htc_status htc_sim_add(htc_sim *sim, const htc_sim_node_options *options, htc_sim_node **out)
{
    htc_sim_node_options o;
    if (!sim || !out)
        return HTC_EINVAL;
    htc_status status = take_options(options, &o);
    if (status != HTC_OK)
        return status;
    if (make_room(sim) != HTC_OK)
        return htc__sim_refused(sim);
    htc_sim_node *node = htc__alloc(&sim->env, sizeof *node);
    if (!node)
        return htc__sim_refused(sim);
    *node = (htc_sim_node){ .sim = sim, .id = (uint32_t)sim->n_nodes, .options = o, .timer_at = HTC_NEVER };
    strcpy(node->name, o.name);
    node->options.name = node->name;
    node->clock = (sim_clock){ .since = sim->now,
                               .now = htc__sim_after(sim, o.now_offset_ns),
                               .drift_ppm = o.drift_ppm,
                               .wall = (int64_t)HTC_SIM_WALL + o.wall_offset_ns };
    node->log = (htc_log){ write_log, node, sim->options.trace ? HTC_LOG_DEBUG : 0 };
    node->env = (htc_env){
        .size = sizeof node->env, .rng = &node->rng, .alloc = o.alloc ? o.alloc : sim->env.alloc, .log = &node->log
    };
    node->env.fault = &node->fault;
    htc__sim_points(node);
    sim->nodes[sim->n_nodes++] = node;
    *out = node;
    return HTC_OK;
}

static void drop_held(htc_sim_node *node)
{
    for (sim_event *e; (e = htc__sim_list_take(&node->held));)
        htc__sim_event_free(node->sim, e);
}

static void destroy_machine(htc_sim_node *node)
{
    if (node->ops && node->ops->destroy && node->machine)
        node->ops->destroy(node->machine);
    node->ops = NULL;
    node->machine = NULL;
}

void htc__sim_node_free(htc_sim_node *node)
{
    destroy_machine(node);
    htc__sim_conns_forget(node);
    htc__sim_callers_forget(node);
    drop_held(node);
    htc__free(&node->sim->env, node, sizeof *node);
}

/* ---- start and end ---- */

htc_status htc_sim_install(htc_sim_node *node, const htc_machine_ops *ops, void *machine)
{
    if (!node || !node->booting || node->ops || !ops || !ops->step)
        return HTC_EINVAL;
    node->ops = ops;
    node->machine = machine;
    return HTC_OK;
}

static htc_status boot_failed(htc_sim_node *node, htc_status status)
{
    htc__sim_conns_forget(node);
    destroy_machine(node);
    node->incarnation++;
    return status;
}

htc_status htc_sim_boot(htc_sim_node *node)
{
    char name[SIM_NAME_MAX + 32];
    if (!node || node->booting)
        return HTC_EINVAL;
    if (node->up || node->sim->status != HTC_OK)
        return node->sim->status;
    node->incarnation++;
    node->next_peer = HTC_SIM_PEER_FIRST;
    node->turn_due = node->begun = 0;
    node->deadline = node->timer_at = HTC_NEVER;
    snprintf(name, sizeof name, "node/%s/%llu", node->name, (unsigned long long)node->incarnation);
    node->rng = htc_sim_rng(node->sim, name);
    node->booting = 1;
    htc_status status = node->options.host->boot(node->options.ctx, node);
    node->booting = 0;
    if (status != HTC_OK || !node->ops)
        return boot_failed(node, status != HTC_OK ? status : HTC_EINVAL);
    assert(!node->paused_until && !node->held.first); /* nothing is left of its life before */
    node->up = 1;
    sim_event *e = htc__sim_event(node->sim, node, &(htc_input){ .size = sizeof(htc_input), .kind = HTC_IN_START });
    htc__sim_callers(node);
    return e ? htc__sim_push(node->sim, e, node->sim->now) : HTC_ENOMEM;
}

static void end_machine(htc_sim_node *node, htc_status status, int crashed)
{
    if (!node->up)
        return;
    node->up = 0;
    htc__sim_conns_gone(node);
    destroy_machine(node);
    drop_held(node);
    node->paused_until = 0;
    node->incarnation++;
    htc__sim_notef(node->sim, "%s: %s", node->name, crashed ? "crashed" : htc_status_name(status));
    if (node->options.host->ended)
        node->options.host->ended(node->options.ctx, node, status, crashed);
}

htc_status htc_sim_crash(htc_sim_node *node)
{
    if (!node || node->booting)
        return HTC_EINVAL;
    end_machine(node, HTC_EKILLED, 1);
    return node->sim->status;
}

/* ---- stop and go on ---- */

static void go_on(htc_sim_node *node)
{
    node->paused_until = 0;
    for (sim_event *e; (e = htc__sim_list_take(&node->held));) {
        e->released = 1;
        node->releasing++;
        htc__sim_push(node->sim, e, node->sim->now);
    }
    htc__sim_callers(node);
}

static void pause_over(htc_sim *sim, void *ctx)
{
    htc_sim_node *node = *(htc_sim_node **)ctx;
    if (node->paused_until && node->paused_until <= sim->now)
        go_on(node);
}

htc_status htc_sim_pause(htc_sim_node *node, htc_ns span)
{
    if (!node)
        return HTC_EINVAL;
    htc_ns until = htc__sim_after(node->sim, span);
    if (!node->up || span == 0 || until <= node->paused_until)
        return HTC_OK;
    node->paused_until = until;
    return htc_sim_at(node->sim, until, pause_over, &node, sizeof node);
}

htc_status htc_sim_resume(htc_sim_node *node)
{
    if (!node)
        return HTC_EINVAL;
    if (node->paused_until)
        go_on(node);
    return node->sim->status;
}

/* ---- steps ---- */

htc_status htc__sim_arm(htc_sim_node *node)
{
    htc_sim *sim = node->sim;
    if (!node->up || !node->begun || !node->ops->deadline)
        return HTC_OK;
    node->deadline = node->ops->deadline(node->machine);
    htc_ns when = htc__sim_clock_when(&node->clock, node->deadline, sim->now);
    if (when >= node->timer_at)
        return HTC_OK; /* the timer that is set looks again */
    sim_event *e = htc__sim_event(sim, node, &(htc_input){ .size = sizeof(htc_input), .kind = HTC_IN_TIMEOUT, .tag = when });
    if (!e)
        return HTC_ENOMEM;
    node->timer_at = when;
    return htc__sim_push(sim, e, when);
}

/* 1: the deadline has been reached. */
static int timer(htc_sim_node *node, htc_input *in)
{
    if (in->tag != node->timer_at)
        return 0; /* another one was set before it */
    node->timer_at = HTC_NEVER;
    in->tag = 0;
    if (node->deadline != HTC_NEVER && htc_sim_node_now(node) >= node->deadline)
        return 1;
    htc__sim_arm(node);
    return 0;
}

static void call(htc_sim_node *node, const htc_effect *e)
{
    const htc_sim_host *host = node->options.host;
    uint64_t            incarnation = node->incarnation;
    htc_status          status = host->call ? host->call(node->options.ctx, node, e) : HTC_EUNSUPPORTED;
    if (status != HTC_OK && node->incarnation == incarnation)
        htc_sim_result(node, 0, e, status, (htc_bytes){ 0 });
}

static void commit(htc_sim_node *node, const htc_effect *e)
{
    const htc_sim_host *host = node->options.host;
    uint64_t            incarnation = node->incarnation;
    htc_status          status = host->commit ? host->commit(node->options.ctx, node, e) : HTC_EUNSUPPORTED;
    if (status != HTC_OK && node->incarnation == incarnation)
        htc_sim_stored(node, 0, e->tag, status);
}

/* In order, until a host function ends the machine. */
static void carry_out(htc_sim_node *node)
{
    htc_sim   *sim = node->sim;
    htc_effect e;
    htc_status stopped = HTC_OK;
    int        stop = 0;
    uint64_t   incarnation = node->incarnation;
    for (size_t i = 0; node->incarnation == incarnation && htc_output_get(sim->out, i, &e) == HTC_OK; i++)
        switch ((htc_effect_kind)e.kind) {
        case HTC_OUT_MESSAGE:
            htc__sim_send(node, &e);
            break;
        case HTC_OUT_CLOSE:
            htc__sim_close_peer(node, e.peer, e.status);
            break;
        case HTC_OUT_CALL:
            call(node, &e);
            break;
        case HTC_OUT_COMMIT:
            commit(node, &e);
            break;
        case HTC_OUT_STOP:
            stop = 1;
            stopped = e.status;
            break;
        case HTC_OUT_BYTES:
            htc__sim_send_bytes(node, &e);
            break;
        case HTC_OUT_HOLD:
            htc__sim_hold(node, &e);
            break;
        case HTC_OUT_FRAMES:
        case HTC_OUT_LEFT: /* every message is handed over by itself here */
            break;
        }
    if (stop && node->incarnation == incarnation)
        end_machine(node, stopped, 0);
}

/* What came in together: all that is there at this moment. */
static void turn_later(htc_sim_node *node)
{
    const htc_machine_ops *ops = node->ops;
    int                    wants = ops->size > offsetof(htc_machine_ops, flags) && (ops->flags & HTC_MACHINE_TURNS);
    if (!wants || node->turn_due)
        return;
    sim_event *e = htc__sim_event(node->sim, node, &(htc_input){ .size = sizeof(htc_input), .kind = HTC_IN_TURN });
    node->turn_due = e != NULL;
    if (e)
        htc__sim_push(node->sim, e, node->sim->now);
}

static void step(htc_sim_node *node, htc_input *in)
{
    htc_sim *sim = node->sim;
    in->now = htc_sim_node_now(node);
    in->wall = htc_sim_node_wall(node);
    if (in->kind == HTC_IN_TURN)
        node->turn_due = 0;
    assert(in->kind != HTC_IN_START || !node->begun); /* once in its life */
    node->begun = 1;
    htc__sim_trace(sim, node, in);
    htc_output_clear(sim->out);
    htc_status status = node->ops->step(node->machine, in, sim->out);
    if (status < 0) {
        if (node->options.survive)
            end_machine(node, status, 0);
        else
            htc__sim_failf(sim, status, "%s: a step answers %s", node->name, htc_status_name(status));
        return;
    }
    uint64_t incarnation = node->incarnation;
    carry_out(node);
    if (node->incarnation != incarnation)
        return;
    if (in->kind != HTC_IN_TURN)
        turn_later(node);
    if (!node->turn_due) /* else the turn is at this moment, and says it again */
        htc__sim_arm(node);
    if (node->options.host->checked)
        node->options.host->checked(node->options.ctx, node);
}

/* A stopped process: its events wait, in order. 1: e is taken. */
static int waits(htc_sim *sim, sim_event *e)
{
    htc_sim_node *node = e->node;
    int           first = e->released && !e->by_link;
    if (first) {
        assert(node->releasing > 0);
        node->releasing--;
        e->released = 0;
    }
    if (!node->up || node->incarnation != e->incarnation)
        return 0;
    if (node->paused_until) {
        e->by_link = 0; /* it has arrived */
        htc__sim_list_add(&node->held, e);
        return 1;
    }
    if (!first && node->releasing) {
        /* It has arrived, and stands behind those that waited longer as one of them: who comes after it may not pass it. */
        e->by_link = 0;
        e->released = 1;
        node->releasing++;
        htc__sim_push(sim, e, sim->now);
        return 1;
    }
    return 0;
}

void htc__sim_deliver(htc_sim *sim, sim_event *e)
{
    htc_sim_node *node = e->node;
    if ((e->conn && htc__sim_conn_stopped(sim, e)) || (node && waits(sim, e)))
        return;
    if (e->conn && e->in.kind == HTC_IN_BYTES) {
        sim_event *all = htc__sim_bytes(sim, e);
        htc__sim_event_free(sim, e);
        if (!all)
            return;
        e = all;
    }
    if (e->fn)
        e->fn(sim, e->ctx);
    else if (e->dial)
        htc__sim_dial_try(sim, e->dial);
    else if (node->up && node->incarnation == e->incarnation && (!e->conn || htc__sim_conn_event(sim, e)) &&
             (e->in.kind != HTC_IN_TIMEOUT || timer(node, &e->in)))
        step(node, &e->in);
    htc__sim_event_free(sim, e);
}

/* ---- what a host answers ---- */

static htc_status input_after(htc_sim_node *node, htc_ns delay, const htc_input *in)
{
    if (!node)
        return HTC_EINVAL;
    sim_event *e = htc__sim_event(node->sim, node, in);
    return e ? htc__sim_push(node->sim, e, htc__sim_after(node->sim, delay)) : HTC_ENOMEM;
}

htc_status htc_sim_result(htc_sim_node *node, htc_ns delay, const htc_effect *effect, htc_status status, htc_bytes body)
{
    if (!effect)
        return HTC_EINVAL;
    return input_after(
        node, delay,
        &(htc_input){ .size = sizeof(htc_input), .kind = HTC_IN_RESULT, .op = effect->op, .tag = effect->tag, .status = status, .body = body });
}

htc_status htc_sim_event(htc_sim_node *node, htc_ns delay, uint32_t op, htc_status status, htc_bytes body)
{
    return input_after(node, delay, &(htc_input){ .size = sizeof(htc_input), .kind = HTC_IN_EVENT, .op = op, .status = status, .body = body });
}

htc_status htc_sim_stored(htc_sim_node *node, htc_ns delay, uint64_t tag, htc_status status)
{
    return input_after(node, delay, &(htc_input){ .size = sizeof(htc_input), .kind = HTC_IN_STORED, .tag = tag, .status = status });
}

/* ---- what is asked about a node ---- */

int htc_sim_up(const htc_sim_node *node)
{
    return node && node->up;
}

int htc_sim_paused(const htc_sim_node *node)
{
    return node && node->paused_until != 0;
}

void *htc_sim_machine(const htc_sim_node *node)
{
    return node && node->up ? node->machine : NULL;
}

const htc_env *htc_sim_env(const htc_sim_node *node)
{
    return &node->env;
}

htc_sim *htc_sim_of(const htc_sim_node *node)
{
    return node->sim;
}

const char *htc_sim_name(const htc_sim_node *node)
{
    return node->name;
}

uint64_t htc_sim_incarnation(const htc_sim_node *node)
{
    return node->incarnation;
}

htc_status htc_sim_set_info(htc_sim_node *node, const htc_peer_info *info)
{
    if (!node || !info)
        return HTC_EINVAL;
    node->options.info = *info;
    return HTC_OK;
}

uint32_t htc_sim_version(const htc_sim_node *node)
{
    return node->options.version;
}

htc_status htc_sim_set_version(htc_sim_node *node, uint32_t version)
{
    if (!node)
        return HTC_EINVAL;
    node->options.version = version;
    return HTC_OK;
}
