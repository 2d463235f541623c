/* What rots on the disk of the member whose disk may be damaged: batches of its log, and its superblocks. Where members come and go that is
 * one after the other (store_moves.c).
 *
 * A batch behind which another one is durable can be told from one that was cut off, for that one says that it had been durable. So it may rot from then
 * on, whenever that is. The newest durable one may not: whether that was torn by a power failure or has rotted since nobody can know. Of the
 * superblocks one may rot at any time, for the other one is whole or was never counted; if both do, the member has to refuse to start. */
#include <string.h>

#include "kvs/storage/log_format.h"
#include "sim/engine/sim_private.h"
#include "sim/scenarios/store_private.h"

/* A bit, or as much as a write to the wrong place would take. 0: the file is gone, and what was in it is elsewhere by now. */
static int damage(store_member *m, htc_bytes name, uint64_t offset, uint64_t length)
{
    store   *s = m->s;
    uint64_t whole = htc_rng_below(&s->rotting, 4) == 0, from = offset;
    uint64_t n = whole ? length : 1;
    if (!whole)
        from += htc_rng_below(&s->rotting, length);
    for (uint64_t i = 0; i < n; i++) {
        uint32_t bits = whole ? 1 + (uint32_t)htc_rng_below(&s->rotting, 255) : 1u << htc_rng_below(&s->rotting, 8);
        if (htc_sim_disk_flip(m->disk, name, from + i, bits) != HTC_OK)
            return 0;
    }
    htc__sim_notef(s->sim, "%s: %llu bytes of %.*s at %llu rot", htc_sim_name(m->node), (unsigned long long)n, (int)name.len,
                   (const char *)name.data, (unsigned long long)from);
    return 1;
}

/* Where names are whole it is known what has rotted, and repaired while the member goes on; of most other damage it ends. */
static int eventual_record_rots(store_member *m, const store_place *at)
{
    store *s = m->s;
    if (!s->setting.rot_eventual || !at->eventual_length || htc_rng_below(&s->rotting, 4) == 0)
        return 0;
    uint64_t offset = at->eventual + htc_rng_below(&s->rotting, at->eventual_length);
    if (htc_sim_disk_flip(m->disk, htc_bytes_of(at->file), offset, 1u << htc_rng_below(&s->rotting, 8)) != HTC_OK)
        return 0;
    htc__sim_notef(s->sim, "%s: an eventual record in %s at %llu rots", htc_sim_name(m->node), at->file, (unsigned long long)offset);
    return 1;
}

static void batch_rots(store_member *m, const store_place *at)
{
    int is = eventual_record_rots(m, at) || damage(m, htc_bytes_of(at->file), at->offset, at->length);
    m->rotten += (uint32_t)is;
    m->s->faults[HTC_SIM_STORE_ROT] += (uint64_t)is;
}

static void super_rots(store_member *m, int which)
{
    char name[HTC__LOG_NAME];
    htc__log_super_name(which, name);
    m->s->faults[HTC_SIM_STORE_SUPERS] += (uint64_t)damage(m, htc_bytes_of(name), 0, HTC__LOG_SECTOR);
}

/* The last one of what is written there. */
static void find_eventual(void *ctx, store_member *m, htc_bytes key, htc_bytes value)
{
    store_place *place = &m->places[0];
    if (*(const uint8_t *)key.data != 'n' || value.len == 0)
        return;
    place->eventual = place->offset + (size_t)((const uint8_t *)value.data - (const uint8_t *)ctx);
    place->eventual_length = value.len;
}

static void is_old(store_member *m, const store_place *place)
{
    if (place->length == 0)
        return;
    m->old[m->old_n++ % STORE_OLD] = *place;
}

void htc__store_rot_draw(store *s)
{
    store_setting *g = &s->setting;
    htc_rng        rng = htc_sim_rng(s->sim, "setting/rot");
    int            old = htc_rng_below(&rng, 2) == 0, super = htc_rng_below(&rng, 3) == 0, both = htc_rng_below(&rng, 2) == 0;
    uint32_t       ppm = 500 + (uint32_t)htc_rng_below(&rng, 30000);
    int            eventual = htc_rng_below(&rng, 4) != 0;
    g->rot_old = old;
    g->rot_eventual = eventual;
    g->super_both = both;
    if (super && g->cells == HTC_SIM_STORE_LOG && !g->interval)
        g->super_ppm = ppm;
}

/* Asked when something is about to. */
static int may_rot(store_member *m)
{
    return !m->s->setting.moves || htc__store_moves_may_harm(m);
}

/* The log writes this now, so what it has written before is durable. */
void htc__store_rot_written(store_member *m, const htc_disk_request *q)
{
    store *s = m->s;
    is_old(m, &m->places[2]);
    memmove(&m->places[1], &m->places[0], sizeof m->places - sizeof m->places[0]);
    m->places[0] = (store_place){ .offset = q->offset, .length = q->data.len };
    if (s->setting.eventual_ppm)
        htc__store_log_puts(m, q->data, find_eventual, (void *)q->data.data);
    memcpy(m->places[0].file, q->name.data, q->name.len);
    if (s->phase != STORE_TROUBLE || (!s->setting.moves && m->at != s->setting.damaged))
        return;
    uint32_t known = m->old_n < STORE_OLD ? m->old_n : STORE_OLD;
    if (m->places[2].length && htc_rng_below(&s->rng, 1000000) < s->setting.rot_ppm && may_rot(m))
        batch_rots(m, s->setting.rot_old && known && htc_rng_below(&s->rotting, 2) ? &m->old[htc_rng_below(&s->rotting, known)]
                                                                                 : &m->places[2]);
    if (s->setting.super_ppm && htc_rng_below(&s->rotting, 1000000) < s->setting.super_ppm && may_rot(m)) {
        int which = (int)htc_rng_below(&s->rotting, 2);
        super_rots(m, which);
        if (s->setting.super_both && htc_rng_below(&s->rotting, 4) == 0)
            super_rots(m, !which);
    }
}

/* A life of the log begins: what was written in the one before is durable if it was kept, once this one has written something. */
void htc__store_rot_begins(store_member *m)
{
    for (uint32_t i = 0; i < sizeof m->places / sizeof *m->places; i++)
        is_old(m, &m->places[i]);
    memset(m->places, 0, sizeof m->places);
}

void htc__store_rot_boots(store_member *m)
{
    uint32_t sound = 0;
    for (int which = 0; m->begun && which < 2; which++) {
        uint8_t         bytes[HTC__LOG_SECTOR];
        char            name[HTC__LOG_NAME];
        htc__log_super  super;
        uint32_t        format;
        htc__log_super_name(which, name);
        if (htc_sim_disk_peek(m->disk, htc_bytes_of(name), 0, bytes, sizeof bytes) == HTC_OK)
            sound += htc__log_super_read((htc_bytes){ bytes, sizeof bytes }, &super, &format) == HTC_OK;
    }
    m->nameless = m->begun && sound == 0;
}
