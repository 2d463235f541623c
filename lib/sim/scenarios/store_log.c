/* Members whose cells are a log: its requests go to a simulated disk. What it writes is looked at, and, on one member, damaged later (store_rot.c). */
#include <string.h>

#include "kvs/storage/log_format.h"
#include "sim/engine/sim_private.h"
#include "sim/scenarios/store_private.h"

void htc__store_log_puts(store_member *m, htc_bytes data, store_log_put *put, void *ctx)
{
    const uint8_t *p = data.data;
    htc__log_frame f;
    for (size_t at = 0; at + HTC__LOG_HEAD <= data.len && htc__log_frame_read(p + at, m->id, &f);
         at += (size_t)htc__log_frame_size(f.length)) {
        htc__log_record r;
        size_t          next = 0;
        htc_bytes       payload = { p + at + HTC__LOG_HEAD, f.length };
        if (f.length > data.len - at - HTC__LOG_HEAD)
            return;
        while (f.type == HTC__LOG_BATCH && htc__log_record_next(payload, &next, &r) == 1)
            if (r.kind == HTC__LOG_PUT)
                put(ctx, m, r.key, r.value);
    }
}

static void watch_put(void *ctx, store_member *m, htc_bytes key, htc_bytes value)
{
    (void)ctx;
    htc__store_watch(m->s, m, key, value);
}

htc_status htc__store_log_call(store_member *m, htc_sim_node *node, const htc_effect *effect)
{
    htc_disk_request q;
    if (effect->op == HTC_KV_SERVER_READY) {
        m->begun = 1;
        if (m->s->setting.interval && m->unpowered)
            htc__store_fail(m->s, "%s serves, though it may have lost what was not synced", htc_sim_name(node));
        if (m->nameless)
            htc__store_fail(m->s, "%s serves, though both of its superblocks are damaged", htc_sim_name(node));
        htc__store_rot_begins(m);
        return HTC_OK;
    }
    if (effect->op < HTC_DISK_LIST)
        return HTC_OK; /* what else the server tells whoever runs it */
    if (htc_disk_decode(effect->body, &q) == HTC_OK) {
        if (htc_sim_traced(m->s->sim))
            htc__sim_notef(m->s->sim, "%s > disk op %u tag %llu %.*s at %llu, %zu bytes%s", htc_sim_name(node), q.op,
                           (unsigned long long)effect->tag, (int)q.name.len, (const char *)q.name.data,
                           (unsigned long long)q.offset, q.data.len, q.sync ? ", synced" : "");
        if (q.op == HTC_DISK_WRITE && htc__log_segment_number(q.name)) {
            htc__store_log_puts(m, q.data, watch_put, NULL);
            htc__store_rot_written(m, &q);
        }
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
