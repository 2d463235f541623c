#include "sim/scenarios/kvs_process.h"

#include <string.h>

#include "core/util.h"
#include "htcsched/kv_engine.h"
#include "kvs/peer/members.h"
#include "kvs/wire/kv_wire.h"

typedef struct kvs_input {
    htc_input         in; /* its body stands behind */
    htc_ns            came;
    struct kvs_input *next;
} kvs_input;

typedef struct kvs_effect {
    htc_effect         e; /* its body stands behind */
    htc_ns             at;
    size_t             frame; /* of this turn */
    struct kvs_effect *next;
} kvs_effect;

/* What a turn sends on one connection. */
typedef struct kvs_frame {
    uint32_t     peer;
    size_t       bytes;
    htc_ns       at;
    kvs_effect  *first, **end;
} kvs_frame;

#define AT_ONCE SIZE_MAX       /* in place of a frame */
#define AT_END  (SIZE_MAX - 1) /* the same */

/* ---- what has come, and what leaves ---- */

static htc_status keep_input(exact_process *p, const htc_input *in)
{
    kvs_input *i = htc__alloc_raw(p->env, sizeof *i + in->body.len);
    if (!i)
        return HTC_ENOMEM;
    *i = (kvs_input){ .in = *in, .came = in->now };
    if (in->body.len)
        memcpy(i + 1, in->body.data, in->body.len);
    i->in.body.data = i + 1;
    *p->inbox_end = i;
    p->inbox_end = &i->next;
    return HTC_OK;
}

static void free_input(exact_process *p, kvs_input *i)
{
    htc__free(p->env, i, sizeof *i + i->in.body.len);
}

static htc_status keep_effect(exact_process *p, const htc_effect *e, size_t frame)
{
    kvs_effect *k = htc__alloc_raw(p->env, sizeof *k + e->body.len);
    if (!k)
        return HTC_ENOMEM;
    *k = (kvs_effect){ .e = *e, .frame = frame };
    if (e->body.len)
        memcpy(k + 1, e->body.data, e->body.len);
    k->e.body.data = k + 1;
    *p->out_end = k;
    p->out_end = &k->next;
    return HTC_OK;
}

static void free_effect(exact_process *p, kvs_effect *k)
{
    htc__free(p->env, k, sizeof *k + k->e.body.len);
}

/* What is due, in order. */
static htc_status leave(exact_process *p, htc_ns now, htc_output *out)
{
    htc_status   status = HTC_OK;
    kvs_effect **at = &p->out;
    while (*at && status == HTC_OK) {
        kvs_effect *k = *at;
        if (k->at > now) {
            at = &k->next;
            continue;
        }
        status = htc_output_add(out, &k->e);
        *at = k->next;
        if (p->out_end == &k->next)
            p->out_end = at;
        free_effect(p, k);
    }
    return status;
}

/* ---- costs ---- */

static htc_ns of_items(const exact_process *p, htc_reader *r)
{
    uint8_t   kind;
    htc_bytes item;
    htc_ns    cost = 0;
    (void)htc_get_u64(r); /* from, to */
    (void)htc_get_u64(r);
    while (htc__kv_members_next(r, &kind, &item)) {
        cost += kind == HTC__KV_ITEM_ASK || kind == HTC__KV_ITEM_REPLY || kind == HTC__KV_ITEM_FORWARD ? p->o->accept_ns : 0;
        cost += kind == HTC__KV_ITEM_FORWARD ? p->o->service_ns : 0;
    }
    return cost;
}

static htc_ns of_message(exact_process *p, htc_bytes body, int *between)
{
    htc__kv_head        asked = { 0 };
    htc__kv_answer_head answer = { 0 };
    uint16_t            type;
    uint64_t            id;
    htc_reader          r = htc_wire_open(body, &type, &id);
    switch (type) {
    case HTC_WIRE_KV_REQUEST:
        htc__kv_head_read(&r, &asked);
        p->told.served += asked.count;
        return asked.count * (p->o->service_ns + (p->o->copies > 1 ? p->o->accept_ns : 0));
    case HTC_WIRE_KV_ANSWER:
        htc__kv_answer_read(&r, &answer);
        return answer.count * p->o->client_ns;
    case HTC_WIRE_KV_MEMBERS:
        *between = 1;
        return of_items(p, &r);
    default:
        return 0;
    }
}

/* Messages of one connection that came at one moment are a frame. */
static htc_ns of_input(exact_process *p, const kvs_input *i, const kvs_input *before)
{
    int    between = 0, another = !before || before->in.kind != i->in.kind || before->in.peer != i->in.peer || before->came != i->came;
    htc_ns cost = 0;
    switch ((htc_input_kind)i->in.kind) {
    case HTC_IN_MESSAGE:
        cost = of_message(p, i->in.body, &between) + (another ? p->o->unpack_ns : 0);
        (between ? &p->told.between : &p->told.requests)->received += (uint64_t)another;
        return cost;
    case HTC_IN_STORED:
        return p->o->commit_ns + p->writes * p->o->write_ns;
    case HTC_IN_EVENT:
        return i->in.op == KVS_PROCESS_BEGIN ? p->begins * p->o->client_ns : 0;
    default:
        return 0;
    }
}

static uint64_t changes_in(htc_bytes batch)
{
    htc_kv_change change;
    size_t        at = 0;
    uint64_t      n = 0;
    while (htc_kv_batch_next(batch, &at, &change) == 1)
        n++;
    return n;
}

/* ---- a turn ---- */

static htc_status frame_of(exact_process *p, uint32_t peer, size_t *frame)
{
    for (size_t f = p->frames; f-- > 0;)
        if (p->frame[f].peer == peer) {
            *frame = f;
            return HTC_OK;
        }
    if (p->frames == p->frames_room) {
        size_t     room = p->frames_room ? 2 * p->frames_room : 16;
        kvs_frame *more = htc__resize_raw(p->env, p->frame, p->frames_room * sizeof *more, room * sizeof *more);
        if (!more)
            return HTC_ENOMEM;
        p->frame = more;
        p->frames_room = room;
    }
    p->frame[p->frames] = (kvs_frame){ .peer = peer };
    *frame = p->frames++;
    return HTC_OK;
}

static htc_status take_effect(exact_process *p, const htc_effect *e)
{
    size_t     frame = 0, frames = p->frames;
    htc_status status;
    if (e->kind == HTC_OUT_COMMIT) {
        p->writes = changes_in(e->body);
        p->commits = 1;
        p->told.syncs++;
        return keep_effect(p, e, AT_END);
    }
    if (e->kind != HTC_OUT_MESSAGE)
        return keep_effect(p, e, AT_ONCE);
    if ((status = frame_of(p, e->peer, &frame)) != HTC_OK)
        return status;
    if (p->frames > frames)
        (e->peer <= p->members ? &p->told.between : &p->told.requests)->sent++;
    p->frame[frame].bytes += e->body.len;
    return keep_effect(p, e, frame);
}

static htc_status work_on(exact_process *p, htc_input *in, const htc_input *time)
{
    htc_effect e;
    in->now = time->now;
    in->wall = time->wall;
    htc_output_clear(p->inner);
    htc_status status = p->ops->step(p->machine, in, p->inner);
    for (size_t i = 0; status >= 0 && htc_output_get(p->inner, i, &e) == HTC_OK; i++)
        status = take_effect(p, &e);
    return status;
}

static int takes_turns(const exact_process *p)
{
    return (p->ops->flags & HTC_MACHINE_TURNS) != 0;
}

/* When a frame that leaves at a moment is at the other end but for the latency: not before what left earlier on its connection. */
static htc_ns moment_of(const exact_process *p, const kvs_frame *f, htc_ns left)
{
    htc_ns at = left + (htc_ns)((double)f->bytes * 8e9 / (double)p->o->bandwidth);
    for (const kvs_effect *k = p->out; k; k = k->next)
        if (k->e.peer == f->peer && k->at > at)
            at = k->at;
    return at;
}

/* What this turn has made, from *made on, and has worked for until `done`: when it leaves, and the messages of a frame one after the other. */
static void set_moments(exact_process *p, kvs_effect **made, htc_ns now, htc_ns done)
{
    kvs_effect *k = *made;
    *made = NULL;
    for (size_t f = 0; f < p->frames; f++) {
        p->frame[f].at = moment_of(p, &p->frame[f], done + (f + 1) * p->o->pack_ns);
        p->frame[f].first = NULL;
        p->frame[f].end = &p->frame[f].first;
    }
    p->out_end = made;
    for (kvs_effect *next; k; k = next) {
        int          framed = k->frame != AT_ONCE && k->frame != AT_END;
        kvs_effect ***end = framed ? &p->frame[k->frame].end : &p->out_end;
        next = k->next;
        k->next = NULL;
        k->at = framed ? p->frame[k->frame].at : k->frame == AT_END ? p->ends : now;
        **end = k;
        *end = &k->next;
    }
    for (size_t f = 0; f < p->frames; f++) {
        *p->out_end = p->frame[f].first;
        p->out_end = p->frame[f].end;
    }
}

static htc_status take_turn(exact_process *p, const htc_input *time)
{
    kvs_input  *i = p->inbox, *before = NULL;
    kvs_effect **made = p->out_end;
    htc_ns      spent = p->o->turn_ns + (p->awake ? 0 : p->o->wake_ns);
    htc_status  status = HTC_OK;
    p->inbox = NULL;
    p->inbox_end = &p->inbox;
    p->frames = 0;
    p->awake = p->commits = 0;
    p->state = KVS_RUNS;
    p->told.turns++;
    while (i) {
        kvs_input *next = i->next;
        if (status >= 0) {
            spent += of_input(p, i, before);
            status = work_on(p, &i->in, time);
        }
        if (before)
            free_input(p, before);
        before = i;
        i = next;
    }
    if (before)
        free_input(p, before);
    if (status >= 0 && p->ops->deadline(p->machine) <= time->now)
        status = work_on(p, &(htc_input){ .size = sizeof(htc_input), .kind = HTC_IN_TIMEOUT }, time);
    if (status >= 0 && takes_turns(p))
        status = work_on(p, &(htc_input){ .size = sizeof(htc_input), .kind = HTC_IN_TURN }, time);
    htc_ns done = time->now + spent;
    spent += p->frames * p->o->pack_ns;
    p->told.busy += spent;
    p->ends = time->now + spent;
    set_moments(p, made, time->now, done);
    return status;
}

/* ---- cores ---- */

/* A core that had nothing to do begins later. */
static void wake(exact_process *p, htc_ns now)
{
    kvs_cores *c = p->cores;
    if (p->state != KVS_IDLE)
        return;
    if (!c->cores || c->running < c->cores) {
        p->state = KVS_BEGINS;
        p->begins_at = now + (p->awake ? 0 : p->o->idle_ns);
        c->running++;
        return;
    }
    p->state = KVS_READY;
    p->next = NULL;
    if (c->first)
        c->last->next = p;
    else
        c->first = p;
    c->last = p;
}

static htc_status turn_ends(exact_process *p, htc_ns now)
{
    kvs_cores *c = p->cores;
    p->state = p->commits && p->members == 1 ? KVS_SYNCS : KVS_IDLE;
    c->running--;
    p->awake = p->state == KVS_IDLE && p->inbox;
    if (p->awake)
        wake(p, now);
    exact_process *next = c->first;
    if (!next || c->running >= c->cores)
        return HTC_OK;
    c->first = next->next;
    c->running++;
    next->state = KVS_BEGINS;
    next->begins_at = now;
    return htc_sim_event(next->node, 0, KVS_PROCESS_RUN, HTC_OK, (htc_bytes){ 0 });
}

/* ---- the machine ---- */

/* At once, and for nothing. */
static htc_status start(exact_process *p, const htc_input *in, htc_output *out)
{
    htc_input  turn = *in;
    htc_status status = p->ops->step(p->machine, in, out);
    turn.kind = HTC_IN_TURN;
    return status >= 0 && takes_turns(p) ? p->ops->step(p->machine, &turn, out) : status;
}

static htc_status step(void *self, const htc_input *in, htc_output *out)
{
    exact_process *p = self;
    htc_status   status = HTC_OK;
    int          runs = in->kind == HTC_IN_TIMEOUT || (in->kind == HTC_IN_EVENT && in->op == KVS_PROCESS_RUN);
    if (in->kind == HTC_IN_START)
        return start(p, in, out);
    if (p->state == KVS_SYNCS && in->kind == HTC_IN_STORED) {
        p->state = KVS_IDLE;
        p->awake = 1;
    }
    if (!runs) {
        status = keep_input(p, in);
        wake(p, in->now);
    }
    if (status >= 0)
        status = leave(p, in->now, out);
    if (status >= 0 && runs && p->state == KVS_BEGINS && in->now >= p->begins_at)
        status = take_turn(p, in);
    else if (status >= 0 && p->state == KVS_RUNS && in->now >= p->ends)
        status = turn_ends(p, in->now);
    if (p->state == KVS_IDLE && p->ops->deadline(p->machine) <= in->now)
        wake(p, in->now);
    return status >= 0 ? leave(p, in->now, out) : status;
}

static htc_ns deadline(const void *self)
{
    const exact_process *p = self;
    htc_ns             at = p->state == KVS_BEGINS ? p->begins_at : p->state == KVS_RUNS ? p->ends : p->state == KVS_IDLE ? p->ops->deadline(p->machine) : HTC_NEVER;
    for (const kvs_effect *k = p->out; k; k = k->next)
        at = k->at < at ? k->at : at;
    return at;
}

static void destroy(void *self)
{
    exact_process *p = self;
    if (p->ops->destroy)
        p->ops->destroy(p->machine);
    p->machine = NULL;
}

const htc_machine_ops *htc__kvs_process_ops(void)
{
    static const htc_machine_ops ops = { sizeof ops, step, deadline, destroy, 0 };
    return &ops;
}

htc_status htc__kvs_process_open(exact_process *p)
{
    p->inbox_end = &p->inbox;
    p->out_end = &p->out;
    return htc_output_create(p->env, 0, &p->inner);
}

void htc__kvs_process_close(exact_process *p)
{
    for (kvs_input *i = p->inbox, *next; i; i = next) {
        next = i->next;
        free_input(p, i);
    }
    for (kvs_effect *k = p->out, *next; k; k = next) {
        next = k->next;
        free_effect(p, k);
    }
    htc__free(p->env, p->frame, p->frames_room * sizeof *p->frame);
    htc_output_destroy(p->inner);
}
