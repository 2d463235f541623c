/* What others are sent: pieces of what is here, so many at once and no more. */
#include <assert.h>
#include <string.h>

#include "core/fault.h"
#include "roles/objects/objects_private.h"

static void say_none(htc__objects *o, uint32_t peer, const uint8_t hash[32], uint64_t offset, htc_status why)
{
    object_message m = { .offset = offset, .status = why };
    memcpy(m.hash, hash, sizeof m.hash);
    htc__object_write(&o->buf, HTC_WIRE_OBJECT_NONE, &m);
    htc_runtime_send(o->runtime, peer, &o->buf);
}

static void read_for(htc__objects *o, uint32_t peer, const uint8_t hash[32], uint64_t offset, uint32_t len);

static void piece_read(void *role, void *ctx, htc_status status, htc_bytes body)
{
    object_asked  a = *(object_asked *)ctx;
    htc__objects *o = a.o;
    serve        *s;
    (void)role;
    htc_runtime_context_free(o->runtime, ctx);
    assert(o->reads);
    o->reads--;
    if (status == HTC_OK) {
        htc_buf whole = { .data = (uint8_t *)body.data, .len = body.len }; /* the message, as it was asked for */
        htc_runtime_send(o->runtime, a.peer, &whole);
        o->figures.served++;
    } else {
        entry *e = htc__objects_find(o, a.hash);
        say_none(o, a.peer, a.hash, a.number, HTC_ENOTFOUND);
        if (e && e->life == a.life)
            htc__objects_vanished(o, e);
    }
    if ((s = o->serves) == NULL)
        return;
    DL_DELETE(o->serves, s);
    o->n_serves--;
    read_for(o, s->peer, s->hash, s->offset, s->len);
    htc__free(&o->env, s, sizeof *s);
}

static void read_for(htc__objects *o, uint32_t peer, const uint8_t hash[32], uint64_t offset, uint32_t len)
{
    htc_buf       prefix;
    entry        *e = htc__objects_find(o, hash);
    object_asked *a = e && e->state == ENTRY_HERE ? htc_runtime_context(o->runtime, sizeof *a) : NULL;
    if (!a) {
        say_none(o, peer, hash, offset, HTC_ENOTFOUND);
        return;
    }
    *a = (object_asked){ .o = o, .life = e->life, .number = offset, .peer = peer };
    memcpy(a->hash, hash, sizeof a->hash);
    htc_buf_init(&prefix, &o->env, 16);
    htc_wire_begin(&prefix, HTC_WIRE_OBJECT_BYTES, 0);
    htc_buf_clear(&o->buf);
    htc_put_raw(&o->buf, (htc_bytes){ hash, 32 });
    htc_put_u64(&o->buf, offset);
    htc_put_u32(&o->buf, len);
    htc_put_bytes(&o->buf, htc_buf_bytes(&prefix));
    if (prefix.status != HTC_OK || o->buf.status != HTC_OK)
        htc_runtime_break(o->runtime, HTC_ENOMEM, "reading an object");
    htc_buf_free(&prefix);
    o->reads++;
    htc_runtime_call(o->runtime, HTC_CALL_OBJECT_READ, htc_buf_bytes(&o->buf), piece_read, a);
    if (e->list == &o->unused) /* somebody uses it */
        htc__objects_move(&o->unused, e);
}

static uint32_t serves_of(const htc__objects *o, uint32_t peer)
{
    uint32_t     n = 0;
    const serve *s;
    DL_FOREACH(o->serves, s)
    n += s->peer == peer;
    return n;
}

void htc__serve_ask(htc__objects *o, uint32_t peer, const object_message *m)
{
    const entry *e = htc__objects_find(o, m->hash);
    if (!o->listed && !HTC__BROKEN(object_unlisted_denied)) { /* it may be here */
        say_none(o, peer, m->hash, m->offset, HTC_EBUSY);
        return;
    }
    if (!e || e->state != ENTRY_HERE || m->offset + m->len > e->size) {
        say_none(o, peer, m->hash, m->offset, HTC_ENOTFOUND);
        return;
    }
    if (o->reads < READS_MAX) {
        read_for(o, peer, m->hash, m->offset, m->len);
        return;
    }
    serve *s = o->n_serves < SERVES_MAX && serves_of(o, peer) < SERVES_PEER ? htc__alloc(&o->env, sizeof *s) : NULL;
    if (!s) {
        say_none(o, peer, m->hash, m->offset, HTC_EBUSY);
        return;
    }
    *s = (serve){ .peer = peer, .len = m->len, .offset = m->offset };
    memcpy(s->hash, m->hash, sizeof s->hash);
    DL_APPEND(o->serves, s);
    o->n_serves++;
}

void htc__serve_closed(htc__objects *o, uint32_t peer)
{
    serve *s, *next;
    DL_FOREACH_SAFE(o->serves, s, next)
    if (s->peer == peer) {
        DL_DELETE(o->serves, s);
        o->n_serves--;
        htc__free(&o->env, s, sizeof *s);
    }
}
