/* A gateway over a store whose engine cannot read everything, and is full when it is told so. */
#ifndef GATEWAY_BAD_ENGINE_H
#define GATEWAY_BAD_ENGINE_H

#include "gateway_hand.h"
#include "kvs/server/server.h"

static const htc_kv_engine_ops *whole;
static const char              *unreadable; /* what has this in its key is that; NULL: nothing */
static const char              *cut_short;  /* and this lost its last byte, which its reader has to notice */
static int                      is_full; /* as a disk: it takes deletions alone, */
static int                      room_left; /* when it has taken so many other changes */

static int is_of(htc_bytes key, const char *what)
{
    return what && memmem(key.data, key.len, what, strlen(what)) != NULL;
}

static htc_status get_but_one(void *ctx, htc_bytes key, htc_bytes *value)
{
    htc_status status = is_of(key, unreadable) ? HTC_ECORRUPT : whole->get(ctx, key, value);
    if (status == HTC_OK && is_of(key, cut_short))
        value->len--; /* a cell ends with its value */
    return status;
}

typedef struct visitor_of {
    htc_kv_visit visit;
    void        *visitor;
} visitor_of;

static int visit_cut_short(void *ctx, htc_bytes key, htc_bytes value)
{
    const visitor_of *v = ctx;
    value.len -= is_of(key, cut_short);
    return v->visit(v->visitor, key, value);
}

static htc_status scan_cut_short(void *ctx, htc_bytes from, htc_kv_visit visit, void *visitor)
{
    return whole->scan(ctx, from, visit_cut_short, &(visitor_of){ visit, visitor });
}

static htc_status no_room_to_grow(const void *ctx, size_t bytes)
{
    (void)ctx, (void)bytes;
    return is_full && room_left-- <= 0 ? HTC_ENOSPC : HTC_OK;
}

/* Another store over the same engine, and another gateway. */
static uint32_t over_a_bad_engine(void)
{
    static htc_kv_engine_ops bad;
    static htc__cells_ops    full;
    rig_kill(&r);
    htc_kv_server_destroy(r.server);
    whole = r.engine.ops;
    bad = *whole;
    bad.get = get_but_one;
    bad.scan = scan_cut_short;
    r.engine.ops = &bad;
    htc_kv_server_options o = { .size = sizeof o, .engine = r.engine };
    cr_assert(eq(int, htc_kv_server_create(&r.env, &o, &r.server), HTC_OK));
    full = *r.server->cells.ops;
    full.room_to_grow = no_room_to_grow;
    r.server->cells.ops = &full;
    rig_store(&r, &(htc_input){ .size = sizeof(htc_input), .now = r.now, .wall = r.wall, .kind = HTC_IN_START });
    rig_start(&r);
    return operator_peer();
}

#endif
