/* A machine of objects alone: what a worker does for them, and nothing else. It has what lies in its directory, hands it out to who asks, and
 * wants what it was told to. When all of it is here, or lost, it ends, if it is to. */
#ifndef HTC_TESTS_OBJECTS_PEER_H
#define HTC_TESTS_OBJECTS_PEER_H

#include <stdlib.h>
#include <string.h>

#include "core/wire.h"
#include "htcsched/calls.h"
#include "htcsched/runtime.h"
#include "roles/objects/objects.h"

#define OBJECTS_PEERS 16

typedef struct objects_peer {
    htc_runtime  *runtime;
    htc__objects *objects;
    uint64_t      self;
    /* Connections that it calls others by: to worker w. */
    struct {
        uint64_t worker;
        uint32_t peer;
        int      open;
    } to[OBJECTS_PEERS];
    uint32_t n_to;
    /* One want for each of these. */
    const htc__object *want;
    uint32_t           n_wants, decided, ready;
    htc_status         status; /* of the last that was not HTC_OK */
    int                ends;   /* when all are decided */
    void              *ctx;    /* the test's own */
    htc_buf            buf;
} objects_peer;

static inline uint32_t objects_peer_of(void *role, uint64_t worker)
{
    objects_peer *p = role;
    for (uint32_t i = 0; i < p->n_to; i++)
        if (p->to[i].worker == worker && p->to[i].open)
            return p->to[i].peer;
    return 0;
}

static inline void objects_peer_ready(void *role, uint64_t want, htc_status status, uint32_t which)
{
    objects_peer *p = role;
    (void)which;
    p->decided++;
    p->ready += status == HTC_OK;
    if (status != HTC_OK)
        p->status = status;
    htc__objects_release(p->objects, want, 0);
    if (p->ends && p->decided == p->n_wants)
        htc_runtime_stop(p->runtime, p->status);
}

static inline void objects_peer_message(objects_peer *p, const htc_input *in)
{
    uint16_t   type, version;
    uint64_t   id;
    uint8_t    role;
    htc_reader r = htc_wire_open(in->body, &type, &id);
    if (type == HTC_WIRE_HELLO && htc_wire_read_hello(&r, HTC_WIRE_VERSION, &role, &version) == HTC_OK) {
        htc_wire_welcome(&p->buf, id, version);
        htc_runtime_send(p->runtime, in->peer, &p->buf);
    } else if (type >= HTC_WIRE_OBJECT_ASK && type <= HTC_WIRE_OBJECT_NONE) {
        htc__objects_heard(p->objects, in->peer, type, &r);
    }
}

static inline void objects_peer_connection(objects_peer *p, const htc_input *in)
{
    for (uint32_t i = 0; i < p->n_to; i++)
        if (p->to[i].peer == in->peer) {
            p->to[i].open = in->kind == HTC_IN_OPENED;
            if (!p->to[i].open)
                continue;
            htc_wire_hello(&p->buf, HTC_WIRE_ROLE_WORKER, HTC_WIRE_VERSION);
            htc_runtime_send(p->runtime, in->peer, &p->buf);
        }
    if (in->kind == HTC_IN_CLOSED)
        htc__objects_closed(p->objects, in->peer);
}

static inline htc_status objects_peer_step(void *self, const htc_input *in, htc_output *out)
{
    objects_peer *p = self;
    if (htc_runtime_begin(p->runtime, in, out) == HTC_OK) {
        if (in->kind == HTC_IN_START) {
            htc__objects_start(p->objects);
            for (uint32_t i = 0; i < p->n_wants; i++)
                if (htc__objects_want(p->objects, i + 1, &p->want[i], 1) != HTC_OK)
                    htc_runtime_break(p->runtime, HTC_ENOMEM, "wanting an object");
        } else if (in->kind == HTC_IN_MESSAGE) {
            objects_peer_message(p, in);
        } else if (in->kind == HTC_IN_OPENED || in->kind == HTC_IN_CLOSED) {
            objects_peer_connection(p, in);
        } else if (in->kind == HTC_IN_EVENT && in->op == HTC_EVENT_SHUTDOWN) {
            htc_runtime_stop(p->runtime, HTC_OK);
        }
        if (htc_runtime_input(p->runtime, in) == HTC_OK)
            htc__objects_run(p->objects, in->now);
    }
    return htc_runtime_end(p->runtime, in);
}

static inline htc_ns objects_peer_deadline(const void *self)
{
    const objects_peer *p = self;
    htc_ns              a = htc_runtime_deadline(p->runtime), b = htc__objects_deadline(p->objects);
    return a < b ? a : b;
}

static inline void objects_peer_destroy(void *self)
{
    objects_peer *p = self;
    if (!p)
        return;
    htc__objects_destroy(p->objects);
    htc_runtime_destroy(p->runtime);
    htc_buf_free(&p->buf);
    free(p);
}

static const htc_machine_ops objects_peer_ops = { sizeof objects_peer_ops, objects_peer_step, objects_peer_deadline, objects_peer_destroy, 0 };

/* NULL: no memory. options: of the objects; runtime, role and what is called are filled in here. */
static inline objects_peer *objects_peer_create(const htc_env *env, uint64_t self, htc__objects_options options)
{
    objects_peer *p = calloc(1, sizeof *p);
    if (!p)
        return NULL;
    p->self = options.self = self;
    htc_buf_init(&p->buf, env, 0);
    htc_runtime_options r = { .size = sizeof r, .role = p, .name = "objects" };
    options.role = p;
    options.peer_of = objects_peer_of;
    if (!options.ready)
        options.ready = objects_peer_ready;
    if (htc_runtime_create(env, &r, &p->runtime) == HTC_OK) {
        options.runtime = p->runtime;
        if (htc__objects_create(env, &options, &p->objects) == HTC_OK)
            return p;
    }
    objects_peer_destroy(p);
    return NULL;
}

#endif
