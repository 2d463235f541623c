/* Members whose cells are a log: its requests go to a simulated disk. What it writes is looked at, and, on one member, damaged later.
 *
 * Lasting damage is for what can be told from a write that was cut off: a batch behind which two others were written. Whether
 * the very last one was torn by a power failure or has rotted since then nobody can know. */
#include <string.h>

#include "kvs/log_format.h"
#include "sim/sim_private.h"
#include "sim/store_private.h"

/* The batches of a write, as the log would read them. */
static void watch_write(store_member *m, htc_bytes data)
{
    const uint8_t *p = data.data;
    htc__log_frame f;
    for (size_t at = 0; at + HTC__LOG_HEAD <= data.len && htc__log_frame_read(p + at, m->id, &f);
         at += (size_t)htc__log_frame_size(f.length)) {
        htc__log_record r;
        size_t          next = 0;
        htc_bytes       payload = { p + at + HTC__LOG_HEAD, f.length };
        if (f.length > data.len - at - HTC__LOG_HEAD)
            break;
        while (f.type == HTC__LOG_BATCH && htc__log_record_next(payload, &next, &r) == 1)
            if (r.kind == HTC__LOG_PUT)
                htc__store_watch(m->s, m, r.key, r.value);
    }
}

/* A bit, or as much as a write to the wrong place would take. */
static void rot(store_member *m, const store_place *at)
{
    store    *s = m->s;
    htc_bytes name = htc_bytes_of(at->file);
    uint64_t  whole = htc_rng_below(&s->rng, 4) == 0, from = at->offset;
    uint64_t  n = whole ? at->length : 1;
    if (!whole)
        from += htc_rng_below(&s->rng, at->length);
    for (uint64_t i = 0; i < n; i++) {
        uint32_t bits = whole ? 1 + (uint32_t)htc_rng_below(&s->rng, 255) : 1u << htc_rng_below(&s->rng, 8);
        if (htc_sim_disk_flip(m->disk, name, from + i, bits) != HTC_OK)
            return; /* the file is gone: its records are elsewhere by now */
    }
    s->faults[HTC_SIM_STORE_ROT]++;
    htc__sim_notef(s->sim, "%s: %llu bytes of %s at %llu rot", htc_sim_name(m->node), (unsigned long long)n, at->file,
                   (unsigned long long)from);
}

static void written(store_member *m, const htc_disk_request *q)
{
    store *s = m->s;
    watch_write(m, q->data);
    memmove(&m->places[1], &m->places[0], sizeof m->places - sizeof m->places[0]);
    m->places[0] = (store_place){ .offset = q->offset, .length = q->data.len };
    memcpy(m->places[0].file, q->name.data, q->name.len);
    if (m->at == s->setting.damaged && s->phase == STORE_TROUBLE && m->places[2].length &&
        htc_rng_below(&s->rng, 1000000) < s->setting.rot_ppm)
        rot(m, &m->places[2]);
}

htc_status htc__store_log_call(store_member *m, htc_sim_node *node, const htc_effect *effect)
{
    htc_disk_request q;
    if (effect->op == HTC_KV_SERVER_READY) {
        m->begun = 1;
        if (m->s->setting.interval && m->unpowered)
            htc__store_fail(m->s, "%s serves, though it may have lost what was not synced", htc_sim_name(node));
        memset(m->places, 0, sizeof m->places);
        return HTC_OK;
    }
    if (effect->op < HTC_DISK_LIST)
        return HTC_OK; /* what else the server tells whoever runs it */
    if (htc_disk_decode(effect->body, &q) == HTC_OK) {
        if (htc_sim_traced(m->s->sim))
            htc__sim_notef(m->s->sim, "%s > disk op %u tag %llu %.*s at %llu, %zu bytes%s", htc_sim_name(node), q.op,
                           (unsigned long long)effect->tag, (int)q.name.len, (const char *)q.name.data,
                           (unsigned long long)q.offset, q.data.len, q.sync ? ", synced" : "");
        if (q.op == HTC_DISK_WRITE && htc__log_segment_number(q.name))
            written(m, &q);
    }
    return htc_sim_disk_call(m->disk, node, effect);
}

int htc__store_log_empty(const store_member *m)
{
    uint8_t byte;
    char    name[HTC__LOG_NAME];
    for (int which = 0; which < 2; which++) {
        htc__log_super_name(which, name);
        if (htc_sim_disk_peek(m->disk, htc_bytes_of(name), 0, &byte, 1) == HTC_OK)
            return 0;
    }
    return 1;
}
