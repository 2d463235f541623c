#include "world.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#define PEER_FIRST 1000   /* numbers of accepted connections; asked-for ones are below */
#define STILL_MAX  200000 /* events at one moment: more is a machine that asks for a deadline it has reached */
#define WALL_BASE  (UINT64_C(1700000000) * HTC_SECOND)

typedef struct conn {
    struct end {
        world_node *node;
        uint64_t    incarnation;
        uint32_t    peer;
        int         open;         /* its machine has been told OPENED and not CLOSED */
        htc_ns      last_arrival; /* at this end: order is kept */
    } end[2];                     /* 0 has dialled */
    int          broken;
    int          cut; /* what was under way is lost */
    struct conn *prev, *next;
} conn;

typedef struct event {
    htc_ns      at;
    uint64_t    seq;
    world_node *node; /* NULL: fn */
    uint64_t    incarnation;
    conn       *conn; /* of a message, OPENED or CLOSED */
    int         to;   /* which end of it */
    htc_input   in;
    void (*fn)(world *w, void *ctx);
    void   *ctx;
    int     taken;
    uint8_t body[];
} event;

typedef struct dial {
    world_node  *node, *target;
    uint64_t     incarnation;
    uint32_t     peer;
    struct dial *next;
} dial;

struct world {
    world_options options;
    int           faults;
    htc_ns        now;
    uint64_t      seq, events, hash, still;
    event       **heap;
    size_t        count, cap;
    world_node  **nodes;
    uint32_t      n_nodes;
    conn         *conns;
    dial         *dials;
    htc_rng       root, net;
    char          failure[1024];
    void         *user;
};

static void *need(void *p)
{
    if (!p)
        abort(); /* a test machine without memory has nothing to test */
    return p;
}

/* ---- events ---- */

static int before(const event *a, const event *b)
{
    return a->at != b->at ? a->at < b->at : a->seq < b->seq;
}

static void push(world *w, event *e)
{
    if (w->count == w->cap) {
        w->cap = w->cap ? w->cap * 2 : 256;
        w->heap = need(realloc(w->heap, w->cap * sizeof(event *)));
    }
    size_t i = w->count++;
    e->seq = w->seq++;
    while (i > 0 && before(e, w->heap[(i - 1) / 2])) {
        w->heap[i] = w->heap[(i - 1) / 2];
        i = (i - 1) / 2;
    }
    w->heap[i] = e;
}

static event *pop(world *w)
{
    event *first = w->heap[0], *last = w->heap[--w->count];
    size_t i = 0;
    for (;;) {
        size_t child = 2 * i + 1;
        if (child >= w->count)
            break;
        if (child + 1 < w->count && before(w->heap[child + 1], w->heap[child]))
            child++;
        if (!before(w->heap[child], last))
            break;
        w->heap[i] = w->heap[child];
        i = child;
    }
    if (w->count)
        w->heap[i] = last;
    return first;
}

static event *event_new(htc_ns at, world_node *node, const htc_input *in)
{
    event *e = need(calloc(1, sizeof *e + (in ? in->body.len : 0)));
    e->at = at;
    e->node = node;
    if (node)
        e->incarnation = node->incarnation;
    if (in) {
        e->in = *in;
        if (in->body.len)
            memcpy(e->body, in->body.data, in->body.len);
        e->in.body.data = in->body.len ? e->body : NULL;
    }
    return e;
}

void world_at(world *w, htc_ns at, void (*fn)(world *w, void *ctx), void *ctx)
{
    event *e = event_new(at, NULL, NULL);
    e->fn = fn;
    e->ctx = ctx;
    push(w, e);
}

void world_at_taken(world *w, htc_ns at, void (*fn)(world *w, void *ctx), void *ctx)
{
    event *e = event_new(at, NULL, NULL);
    e->fn = fn;
    e->ctx = ctx;
    e->taken = 1;
    push(w, e);
}

static void event_free(event *e)
{
    if (e->taken)
        free(e->ctx);
    free(e);
}

static void input_after(world_node *node, htc_ns delay, const htc_input *in)
{
    push(node->w, event_new(node->w->now + delay, node, in));
}

void world_result(world_node *node, htc_ns delay, const htc_effect *call, htc_status status, htc_bytes body)
{
    input_after(
        node, delay,
        &(htc_input){ .kind = HTC_IN_RESULT, .op = call->op, .tag = call->tag, .status = status, .body = body });
}

void world_event(world_node *node, htc_ns delay, uint32_t op, htc_status status, htc_bytes body)
{
    input_after(node, delay, &(htc_input){ .kind = HTC_IN_EVENT, .op = op, .status = status, .body = body });
}

void world_stored(world_node *node, htc_ns delay, uint64_t tag, htc_status status)
{
    input_after(node, delay, &(htc_input){ .kind = HTC_IN_STORED, .tag = tag, .status = status });
}

/* ---- connections ---- */

static void redial(world *w, dial *d, htc_ns delay);

static htc_ns latency(world *w)
{
    return w->options.latency_ns + htc_rng_below(&w->net, w->options.jitter_ns + 1);
}

/* Nothing arrives before what was sent before it. */
static htc_ns in_order(struct end *to, htc_ns at)
{
    if (at < to->last_arrival)
        at = to->last_arrival;
    to->last_arrival = at;
    return at;
}

static void tell(world *w, conn *c, int to, htc_input_kind kind, htc_status status, htc_ns at)
{
    struct end *e = &c->end[to];
    uint8_t     room[64];
    htc_buf     b;
    htc_buf_init(&b, NULL, sizeof room);
    if (kind == HTC_IN_OPENED)
        htc_peer_info_write(&b, &c->end[!to].node->info);
    event *ev = event_new(in_order(e, at), e->node,
                          &(htc_input){ .kind = kind, .peer = e->peer, .status = status, .body = htc_buf_bytes(&b) });
    ev->incarnation = e->incarnation;
    ev->conn = c;
    ev->to = to;
    push(w, ev);
    htc_buf_free(&b);
}

static void sever(world *w, conn *c, htc_status status)
{
    if (c->broken)
        return;
    c->broken = 1;
    for (int i = 0; i < 2; i++)
        tell(w, c, i, HTC_IN_CLOSED, status, w->now + latency(w));
}

void world_break(world *w, world_node *a, world_node *b)
{
    for (conn *c = w->conns; c; c = c->next)
        if ((c->end[0].node == a && c->end[1].node == b) || (c->end[0].node == b && c->end[1].node == a)) {
            c->cut = 1;
            sever(w, c, HTC_ECLOSED);
        }
}

static void dial_now(world *w, void *ctx)
{
    dial *d = ctx;
    if (d->node->incarnation != d->incarnation)
        return;
    if (!d->target->machine || d->target->paused_until > w->now) {
        redial(w, d, w->options.redial_ns);
        return;
    }
    conn *c = need(calloc(1, sizeof *c));
    c->end[0] = (struct end){ .node = d->node, .incarnation = d->incarnation, .peer = d->peer };
    c->end[1] =
        (struct end){ .node = d->target, .incarnation = d->target->incarnation, .peer = d->target->next_peer++ };
    c->next = w->conns;
    if (w->conns)
        w->conns->prev = c;
    w->conns = c;
    tell(w, c, 1, HTC_IN_OPENED, HTC_OK, w->now);
    tell(w, c, 0, HTC_IN_OPENED, HTC_OK, w->now + latency(w));
}

static void redial(world *w, dial *d, htc_ns delay)
{
    world_at(w, w->now + delay, dial_now, d);
}

void world_dial(world_node *node, uint32_t peer, world_node *target)
{
    dial *d = need(calloc(1, sizeof *d));
    *d = (dial){
        .node = node, .target = target, .incarnation = node->incarnation, .peer = peer, .next = node->w->dials
    };
    node->w->dials = d;
    redial(node->w, d, latency(node->w));
}

static conn *conn_of(world_node *node, uint32_t peer, int *side)
{
    for (conn *c = node->w->conns; c; c = c->next)
        for (int i = 0; i < 2; i++)
            if (c->end[i].node == node && c->end[i].peer == peer && c->end[i].incarnation == node->incarnation &&
                !c->broken) {
                *side = i;
                return c;
            }
    return NULL;
}

static int chance(world *w, const conn *c, uint32_t ppm)
{
    return w->faults && !c->end[0].node->faithful && !c->end[1].node->faithful && htc_rng_below(&w->net, 1000000) < ppm;
}

static void deliver_copy(world *w, conn *c, int to, htc_bytes body, int first)
{
    struct end *e = &c->end[to];
    htc_ns      at = w->now + latency(w);
    if (!first && chance(w, c, w->options.reorder_ppm))
        at += htc_rng_below(&w->net, w->options.reorder_ns + 1);
    else
        at = in_order(e, at);
    event *ev = event_new(at, e->node, &(htc_input){ .kind = HTC_IN_MESSAGE, .peer = e->peer, .body = body });
    ev->incarnation = e->incarnation;
    ev->conn = c;
    ev->to = to;
    push(w, ev);
}

static void send_message(world_node *node, const htc_effect *effect)
{
    world   *w = node->w;
    int      side;
    conn    *c = conn_of(node, effect->peer, &side);
    uint16_t type;
    uint64_t id;
    if (!c)
        return;
    htc_wire_open(effect->body, &type, &id);
    int first = type == HTC_WIRE_HELLO || type == HTC_WIRE_WELCOME;
    if (chance(w, c, w->options.loss_ppm)) {
        if (first)
            sever(w, c, HTC_ECLOSED);
        return;
    }
    deliver_copy(w, c, !side, effect->body, first);
    if (!first && chance(w, c, w->options.duplicate_ppm))
        deliver_copy(w, c, !side, effect->body, first);
}

static void conn_free(world *w, conn *c)
{
    if (c->prev)
        c->prev->next = c->next;
    else
        w->conns = c->next;
    if (c->next)
        c->next->prev = c->prev;
    free(c);
}

/* ---- nodes ---- */

static void write_log(void *ctx, uint32_t level, const char *line)
{
    world_node *node = ctx;
    (void)level;
    world_note(node->w, "%s: %s", node->name, line);
}

world_node *world_add(world *w, const char *name, const world_host *host, void *ctx)
{
    world_node *node = need(calloc(1, sizeof *node));
    w->nodes = need(realloc(w->nodes, (w->n_nodes + 1) * sizeof(world_node *)));
    w->nodes[w->n_nodes] = node;
    *node = (world_node){ .w = w, .id = w->n_nodes++, .host = host, .ctx = ctx, .armed = HTC_NEVER };
    snprintf(node->name, sizeof node->name, "%s", name);
    node->info = (htc_peer_info){ .transport = HTC_TRANSPORT_UNIX, .uid = 1000, .pid = 100 + node->id };
    node->log = (htc_log){ write_log, node, w->options.trace ? HTC_LOG_DEBUG : 0 };
    if (htc_output_create(NULL, 0, &node->out) != HTC_OK)
        abort();
    return node;
}

void world_install(world_node *node, const htc_machine_ops *ops, void *machine)
{
    node->ops = ops;
    node->machine = machine;
}

int world_up(const world_node *node)
{
    return node->machine != NULL;
}

void world_boot(world_node *node)
{
    char name[64];
    if (node->machine)
        return;
    node->incarnation++;
    node->next_peer = PEER_FIRST;
    node->paused_until = 0;
    node->armed = HTC_NEVER;
    snprintf(name, sizeof name, "%s/%llu", node->name, (unsigned long long)node->incarnation);
    node->rng = world_rng(node->w, name);
    node->env = (htc_env){ .size = sizeof node->env, .rng = &node->rng, .log = &node->log };
    node->host->boot(node);
    if (node->machine)
        input_after(node, 0, &(htc_input){ .kind = HTC_IN_START });
}

static void end_machine(world_node *node, htc_status status, int crashed)
{
    world *w = node->w;
    if (!node->machine)
        return;
    for (conn *c = w->conns; c; c = c->next)
        if (!c->broken && ((c->end[0].node == node && c->end[0].incarnation == node->incarnation) ||
                           (c->end[1].node == node && c->end[1].incarnation == node->incarnation)))
            sever(w, c, HTC_ECLOSED);
    node->ops->destroy(node->machine);
    node->machine = NULL;
    node->incarnation++;
    world_note(w, "%s: %s", node->name, crashed ? "crashed" : htc_status_name(status));
    if (node->host->ended)
        node->host->ended(node, status, crashed);
}

void world_crash(world_node *node)
{
    end_machine(node, HTC_EKILLED, 1);
}

void world_pause(world_node *node, htc_ns span)
{
    if (node->machine && node->paused_until < node->w->now + span)
        node->paused_until = node->w->now + span;
}

static void arm(world_node *node)
{
    htc_ns at = node->ops->deadline(node->machine);
    if (at == node->armed)
        return;
    node->armed = at;
    if (at == HTC_NEVER)
        return;
    htc_ns now = node->w->now;
    push(node->w, event_new(at > now ? at : now, node, &(htc_input){ .kind = HTC_IN_TIMEOUT, .tag = at }));
}

static void close_peer(world_node *node, uint32_t peer, htc_status status)
{
    int   side;
    conn *c = conn_of(node, peer, &side);
    if (c)
        sever(node->w, c, status);
}

static void carry_out(world_node *node)
{
    htc_effect e;
    htc_status stopped = HTC_OK;
    int        stop = 0;
    for (size_t i = 0; htc_output_get(node->out, i, &e) == HTC_OK; i++)
        switch ((htc_effect_kind)e.kind) {
        case HTC_OUT_MESSAGE:
            send_message(node, &e);
            break;
        case HTC_OUT_CLOSE:
            close_peer(node, e.peer, e.status);
            break;
        case HTC_OUT_CALL:
            node->host->call(node, &e);
            break;
        case HTC_OUT_COMMIT:
            node->host->commit(node, &e);
            break;
        case HTC_OUT_STOP:
            stop = 1;
            stopped = e.status;
            break;
        }
    if (stop)
        end_machine(node, stopped, 0);
}

static void trace_input(world *w, const world_node *node, const htc_input *in)
{
    static const char *const kinds[] = { "?",      "start",  "message", "timeout", "stored",
                                         "opened", "closed", "result",  "event" };
    uint16_t                 type;
    uint64_t                 id;
    struct {
        uint64_t at, tag;
        uint32_t node, kind, peer, op;
        int64_t  status;
    } head = { w->now, in->tag, node->id, in->kind, in->peer, in->op, in->status };
    w->hash = htc_hash64((htc_bytes){ &head, sizeof head }, w->hash);
    w->hash = htc_hash64(in->body, w->hash);
    if (!w->options.trace || in->kind == HTC_IN_TIMEOUT)
        return;
    htc_wire_open(in->body, &type, &id);
    world_note(w, "%s < %s %s peer %u op %u tag %llu %s (%zu bytes)", node->name, kinds[in->kind < 9 ? in->kind : 0],
               in->kind == HTC_IN_MESSAGE ? htc_wire_name(type) : "", (unsigned)in->peer, (unsigned)in->op,
               (unsigned long long)in->tag, htc_status_name(in->status), in->body.len);
}

static void step(world_node *node, htc_input *in)
{
    world *w = node->w;
    in->now = w->now;
    in->wall = world_wall(w);
    trace_input(w, node, in);
    htc_output_clear(node->out);
    htc_status status = node->ops->step(node->machine, in, node->out);
    if (status != HTC_OK) {
        world_fail(w, "%s: a step answers %s", node->name, htc_status_name(status));
        return;
    }
    uint64_t incarnation = node->incarnation;
    carry_out(node);
    if (node->incarnation == incarnation && node->machine) {
        arm(node);
        if (node->host->checked)
            node->host->checked(node);
    }
}

/* What the state of its connection says of an event: 1 to deliver it. */
static int conn_event(world *w, event *e)
{
    conn       *c = e->conn;
    struct end *end = &c->end[e->to];
    int         alive = end->node->incarnation == end->incarnation && end->node->machine;
    int         deliver = 0;
    switch (e->in.kind) {
    case HTC_IN_OPENED:
        deliver = alive && !c->broken;
        end->open = deliver;
        break;
    case HTC_IN_MESSAGE:
        return alive && end->open == 1 && !c->cut;
    case HTC_IN_CLOSED:
        deliver = alive && end->open == 1;
        end->open = -1; /* nothing more comes here */
        if (e->to == 0 && alive)
            for (dial *d = w->dials; d; d = d->next)
                if (d->node == end->node && d->incarnation == end->incarnation && d->peer == end->peer)
                    redial(w, d, w->options.redial_ns);
        break;
    default:
        break;
    }
    return deliver;
}

static void deliver(world *w, event *e)
{
    world_node *node = e->node;
    if (e->conn && !conn_event(w, e))
        return;
    if (!node->machine || node->incarnation != e->incarnation)
        return;
    if (e->in.kind == HTC_IN_TIMEOUT) {
        if (node->armed != e->in.tag)
            return; /* the deadline has moved */
        node->armed = HTC_NEVER;
        e->in.tag = 0;
    }
    step(node, &e->in);
}

int world_next(world *w)
{
    if (w->failure[0] || w->count == 0)
        return 0;
    event *e = pop(w);
    if (e->node && e->node->machine && e->node->incarnation == e->incarnation && e->node->paused_until > e->at) {
        e->at = e->node->paused_until; /* in the same order among themselves */
        push(w, e);
        return 1;
    }
    w->still = e->at > w->now ? 0 : w->still + 1;
    w->now = e->at > w->now ? e->at : w->now;
    w->events++;
    if (w->still > STILL_MAX)
        world_fail(w, "time stands still at %s", e->node ? e->node->name : "the world");
    if (e->fn)
        e->fn(w, e->ctx);
    else
        deliver(w, e);
    event_free(e);
    return !w->failure[0];
}

/* Connections that nobody can hear of any more: both ends told, or their machines gone. */
static void sweep(world *w)
{
    for (conn *c = w->conns, *next; c; c = next) {
        next = c->next;
        if (c->broken && c->end[0].open < 0 && c->end[1].open < 0)
            c->broken = 2;
    }
    /* Events may still point at them: free only those that no event names. */
    for (size_t i = 0; i < w->count; i++)
        if (w->heap[i]->conn && w->heap[i]->conn->broken == 2)
            w->heap[i]->conn->broken = 1;
    for (conn *c = w->conns, *next; c; c = next) {
        next = c->next;
        if (c->broken == 2)
            conn_free(w, c);
    }
}

void world_run_until(world *w, htc_ns at)
{
    while (w->count && w->heap[0]->at <= at && world_next(w))
        if (w->events % 4096 == 0)
            sweep(w);
    if (w->now < at && !w->failure[0])
        w->now = at;
}

/* ---- the world ---- */

world *world_open(const world_options *options)
{
    world *w = need(calloc(1, sizeof *w));
    w->options = *options;
    w->now = 1000 * HTC_SECOND;
    w->faults = 1;
    w->root = (htc_rng){ options->seed };
    w->net = world_rng(w, "net");
    if (!w->options.latency_ns)
        w->options.latency_ns = 50 * HTC_US;
    if (!w->options.redial_ns)
        w->options.redial_ns = 100 * HTC_MS;
    return w;
}

void world_close(world *w)
{
    for (uint32_t i = 0; i < w->n_nodes; i++) {
        world_node *node = w->nodes[i];
        if (node->machine)
            node->ops->destroy(node->machine);
        htc_output_destroy(node->out);
        free(node);
    }
    for (size_t i = 0; i < w->count; i++)
        event_free(w->heap[i]);
    while (w->conns)
        conn_free(w, w->conns);
    for (dial *d = w->dials, *next; d; d = next) {
        next = d->next;
        free(d);
    }
    free(w->heap);
    free(w->nodes);
    free(w);
}

void world_set_faults(world *w, int on)
{
    w->faults = on;
}

htc_ns world_now(const world *w)
{
    return w->now;
}

htc_ns world_wall(const world *w)
{
    return WALL_BASE + w->now;
}

htc_rng world_rng(const world *w, const char *name)
{
    return htc_rng_fork(&w->root, name);
}

uint64_t world_trace_hash(const world *w)
{
    return w->hash;
}

uint64_t world_events(const world *w)
{
    return w->events;
}

void world_fail(world *w, const char *format, ...)
{
    va_list args;
    if (w->failure[0])
        return;
    int n = snprintf(w->failure, sizeof w->failure, "seed %llu at %.6f s: ", (unsigned long long)w->options.seed,
                     (double)w->now / 1e9);
    va_start(args, format);
    vsnprintf(w->failure + n, sizeof w->failure - (size_t)n, format, args);
    va_end(args);
    world_note(w, "FAILED %s", w->failure);
}

const char *world_failure(const world *w)
{
    return w->failure[0] ? w->failure : NULL;
}

void world_note(world *w, const char *format, ...)
{
    va_list args;
    if (!w->options.trace)
        return;
    fprintf(w->options.trace, "[%12.6f] ", (double)w->now / 1e9);
    va_start(args, format);
    vfprintf(w->options.trace, format, args);
    va_end(args);
    fputc('\n', w->options.trace);
}

void *world_user(const world *w)
{
    return w->user;
}

void world_set_user(world *w, void *user)
{
    w->user = user;
}
