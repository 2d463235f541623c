/* What a task of a graph reads that others make, and what it makes for others. */
#include <string.h>

#include "core/fault.h"
#include "roles/worker/graph_task.h"

int htc__graph_next_read(htc_reader *r, uint64_t *maker, htc_bytes *name)
{
    if (r->status != HTC_OK || !htc_reader_left(r))
        return 0;
    *maker = htc_get_u64(r);
    *name = htc_get_bytes(r);
    return r->status == HTC_OK;
}

uint32_t htc__graph_n_makes(const graph_task *t)
{
    htc_reader r = htc_reader_of(t->makes);
    uint32_t   n = 0;
    for (; htc_reader_left(&r) && r.status == HTC_OK; n++)
        (void)htc_get_bytes(&r);
    return n;
}

static void object_read(htc_reader *r, graph_object *object)
{
    htc_bytes hash = htc_get_raw(r, sizeof object->hash);
    if (hash.len == sizeof object->hash)
        memcpy(object->hash, hash.data, sizeof object->hash);
    object->size = htc_get_u64(r);
}

void htc__graph_put_made(htc_buf *b, const graph_object *object)
{
    htc_put_raw(b, (htc_bytes){ object->hash, sizeof object->hash });
    htc_put_u64(b, object->size);
}

htc_status htc__graph_made(const graph_task *t, htc_bytes name, graph_object *object)
{
    htc_reader names = htc_reader_of(t->makes), made = htc_reader_of(t->made);
    while (htc_reader_left(&names) && htc_reader_left(&made)) {
        int is = htc_bytes_equal(htc_get_bytes(&names), name);
        object_read(&made, object);
        object->worker = t->made_by;
        if (is)
            return made.status;
    }
    return HTC_ENOTFOUND;
}

htc_status htc__graph_known(const graph_task *t, uint32_t which, graph_object *object)
{
    htc_reader r = htc_reader_of(t->known);
    while (htc_reader_left(&r)) {
        uint32_t is = htc_get_u32(&r);
        object_read(&r, object);
        object->worker = htc_get_u64(&r);
        if (is == which)
            return r.status;
    }
    return HTC_ENOTFOUND;
}

static void put_known(uint8_t *at, uint32_t which, const graph_object *o)
{
    for (int i = 0; i < 4; i++)
        at[i] = (uint8_t)(which >> 8 * i);
    memcpy(at + 4, o->hash, sizeof o->hash);
    for (int i = 0; i < 8; i++) {
        at[36 + i] = (uint8_t)(o->size >> 8 * i);
        at[44 + i] = (uint8_t)(o->worker >> 8 * i);
    }
}

void htc__graph_inform(graph_task *t, uint8_t *room, uint64_t maker, const graph_task *parent)
{
    htc_reader   r = htc_reader_of(t->reads);
    graph_object o, before;
    htc_bytes    name;
    uint64_t     by;
    size_t       n = t->known.len / GRAPH_KNOWN_BYTES;
    if (t->known.len && t->known.data != room)
        memcpy(room, t->known.data, t->known.len);
    for (uint32_t which = 0; htc__graph_next_read(&r, &by, &name); which++) {
        if (by != maker || htc__graph_made(parent, name, &o) != HTC_OK || htc__graph_known(t, which, &before) == HTC_OK)
            continue;
        t->data = o.size < UINT64_MAX - t->data ? t->data + o.size : UINT64_MAX;
        if (n < GRAPH_KNOWN_MAX)
            put_known(room + n++ * GRAPH_KNOWN_BYTES, which, &o);
    }
    t->known = (htc_bytes){ room, n * GRAPH_KNOWN_BYTES };
}

/* ---- made again ---- */

htc_status htc__graph_claim(graph_task *t, uint64_t worker, uint64_t epoch, int dead)
{
    if (t->state != GRAPH_DONE)
        return HTC_EINVAL;
    if (t->redo_worker && !dead)
        return HTC_EEXISTS;
    t->redo_worker = worker;
    t->redo_epoch = epoch;
    return HTC_OK;
}

int htc__graph_is_claimed_by(const graph_task *t, uint64_t worker, uint64_t epoch)
{
    return t->redo_worker == worker && t->redo_epoch == epoch;
}

htc_status htc__graph_redo(graph_task *t, uint64_t worker, uint64_t epoch, htc_bytes made)
{
    htc_status status = htc__graph_unclaim(t, worker, epoch);
    if (status != HTC_OK)
        return status;
    t->made = made;
    t->made_by = worker;
    return HTC_OK;
}

htc_status htc__graph_unclaim(graph_task *t, uint64_t worker, uint64_t epoch)
{
    if (!worker || !htc__graph_is_claimed_by(t, worker, epoch))
        return HTC_EINVAL;
    t->redo_worker = t->redo_epoch = 0;
    return HTC_OK;
}
