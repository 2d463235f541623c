/* A machine that knows one connection to its store, over a store of several members: the driver of a test decides which member it leads to.
 *
 * Each member is dialled. What the machine says goes to one of those that are open; if that connection breaks, or nothing has come back for a
 * second, the machine is told that its connection is lost, and that it is open again when another member's is. The members know a request that
 * is repeated, whoever of them had the first. */
#ifndef HTC_TESTS_STORE_DOOR_H
#define HTC_TESTS_STORE_DOOR_H

#include <string.h>

#include "core/util.h"
#include "htcsched/codec.h"
#include "htcsched/machine.h"

#define DOOR_MEMBERS 3
#define DOOR_SILENCE HTC_SECOND
#define DOOR_NOBODY  DOOR_MEMBERS

typedef struct store_door {
    const htc_machine_ops *ops;
    void                  *machine;
    uint32_t               peers[DOOR_MEMBERS]; /* as they were dialled; the machine knows the first number alone */
    uint8_t                open[DOOR_MEMBERS];
    uint32_t               at;       /* whom the machine talks to; DOOR_NOBODY */
    htc_ns                 asked_at; /* something was said, and nothing has come since; 0: no */
    uint64_t               moves;    /* to another member */
    htc_output            *inner;
    htc_buf                info; /* what came with the last HTC_IN_OPENED */
    void (*look)(void *machine, htc_ns now); /* after each step; NULL: nothing */
} store_door;

static uint32_t door_member(const store_door *d, uint32_t peer)
{
    uint32_t i = 0;
    while (i < DOOR_MEMBERS && d->peers[i] != peer)
        i++;
    return i;
}

static htc_status door_effects(store_door *d, htc_ns now, htc_output *out)
{
    htc_effect e;
    htc_status status = HTC_OK;
    for (size_t i = 0; status == HTC_OK && htc_output_get(d->inner, i, &e) == HTC_OK; i++) {
        int to_store = (e.kind == HTC_OUT_MESSAGE || e.kind == HTC_OUT_CLOSE) && e.peer == d->peers[0];
        if (to_store && d->at == DOOR_NOBODY)
            continue;
        if (to_store) {
            e.peer = d->peers[d->at];
            d->asked_at = d->asked_at ? d->asked_at : now;
        }
        status = htc_output_add(out, &e);
    }
    htc_output_clear(d->inner);
    return status;
}

static htc_status door_hand_on(store_door *d, const htc_input *in, htc_output *out)
{
    htc_status status = d->ops->step(d->machine, in, d->inner);
    htc_status carried = door_effects(d, in->now, out);
    if (d->look)
        d->look(d->machine, in->now);
    return status == HTC_OK ? carried : status;
}

static htc_status door_tell(store_door *d, const htc_input *in, uint32_t kind, htc_bytes body, htc_output *out)
{
    htc_input told = *in;
    told.kind = kind;
    told.peer = d->peers[0];
    told.op = 0;
    told.tag = 0;
    told.status = HTC_OK;
    told.body = body;
    return door_hand_on(d, &told, out);
}

/* To the next one behind `from` that is open. */
static htc_status door_open_next(store_door *d, const htc_input *in, uint32_t from, htc_output *out)
{
    for (uint32_t i = 1; i <= DOOR_MEMBERS; i++) {
        uint32_t next = (from + i) % DOOR_MEMBERS;
        if (d->open[next]) {
            d->at = next;
            return door_tell(d, in, HTC_IN_OPENED, htc_buf_bytes(&d->info), out);
        }
    }
    return HTC_OK;
}

static htc_status door_leave(store_door *d, const htc_input *in, htc_output *out)
{
    uint32_t left = d->at;
    d->at = DOOR_NOBODY;
    d->asked_at = 0;
    d->moves++;
    htc_status status = door_tell(d, in, HTC_IN_CLOSED, (htc_bytes){ 0 }, out);
    return status == HTC_OK ? door_open_next(d, in, left, out) : status;
}

static htc_status door_step(void *self, const htc_input *in, htc_output *out)
{
    store_door *d = self;
    int         has_peer = in->kind == HTC_IN_OPENED || in->kind == HTC_IN_CLOSED || in->kind == HTC_IN_MESSAGE;
    uint32_t    i = has_peer ? door_member(d, in->peer) : DOOR_NOBODY;
    htc_status  status = HTC_OK;
    if (d->at != DOOR_NOBODY && d->asked_at && in->now >= d->asked_at + DOOR_SILENCE) {
        d->open[d->at] = 0;
        status = htc_output_add(out, &(htc_effect){ .kind = HTC_OUT_CLOSE, .peer = d->peers[d->at], .status = HTC_ETIMEDOUT });
        if (status == HTC_OK)
            status = door_leave(d, in, out);
    }
    if (status != HTC_OK)
        return status;
    if (i == DOOR_NOBODY)
        return door_hand_on(d, in, out);
    if (in->kind == HTC_IN_OPENED) {
        htc_buf_clear(&d->info);
        htc_put_raw(&d->info, in->body);
        d->open[i] = 1;
        return d->at == DOOR_NOBODY ? door_open_next(d, in, (i + DOOR_MEMBERS - 1) % DOOR_MEMBERS, out) : HTC_OK;
    }
    if (in->kind == HTC_IN_CLOSED) {
        d->open[i] = 0;
        return i == d->at ? door_leave(d, in, out) : HTC_OK;
    }
    if (i != d->at)
        return HTC_OK;
    d->asked_at = 0;
    return door_tell(d, in, HTC_IN_MESSAGE, in->body, out);
}

static htc_ns door_deadline(const void *self)
{
    const store_door *d = self;
    htc_ns            at = d->ops->deadline(d->machine), silent = d->asked_at ? d->asked_at + DOOR_SILENCE : HTC_NEVER;
    return at < silent ? at : silent;
}

static void door_destroy(void *self)
{
    store_door *d = self;
    d->ops->destroy(d->machine);
    htc_output_destroy(d->inner);
    htc_buf_free(&d->info);
}

static const htc_machine_ops store_door_ops = { sizeof store_door_ops, door_step, door_deadline, door_destroy, 0 };

/* machine: taken. */
static htc_status store_door_init(store_door *d, const htc_env *env, const htc_machine_ops *ops, void *machine)
{
    d->ops = ops;
    d->machine = machine;
    d->at = DOOR_NOBODY;
    htc_buf_init(&d->info, env, 0);
    return htc_output_create(env, 0, &d->inner);
}

#endif
