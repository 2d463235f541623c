/* Buckets whose content changes places: what has arrived of a bucket takes the place of what there was, and what this member keeps no more goes.
 *
 *     begin ──▶ one pass over all keys: those of these buckets that have not arrived go ──▶ of each bucket: what has arrived is put ──▶ it is served
 *
 * Some keys in a step, so that others are answered meanwhile. All buckets that wait are taken at once, because a pass meets every key that
 * this member has, whosever it is. Areas that count for nothing any more are emptied when nobody waits for a bucket. */
#include <assert.h>
#include <string.h>

#include "core/fault.h"
#include "kvs/migrate/buckets.h"

#define SLICE_KEYS  64
#define SLICE_BYTES ((size_t)1 << 20)
#define SWEEPS_MAX  ((size_t)1 << 17) /* more than these wait for the next life */

/* ---------------------------------------------------------------- keys, some at a time */

/* Names of cells, so many that there may be more. */
typedef struct gathered {
    const htc__kv_cluster *c;
    const htc__kv_job     *job;  /* k: of its buckets alone */
    htc__kv_area           area; /* else of this one */
    int                    values;
    size_t                 count, looked;
    htc_buf                bytes; /* bytes name, bytes value */
    htc__kv_name           last;
    int                    more;
} gathered;

static int is_part(const gathered *g, htc_bytes name)
{
    uint32_t bucket = htc__kv_cluster_bucket(g->c, (htc_bytes){ (const uint8_t *)name.data + 1, name.len - 1 });
    return bucket != HTC__KV_OWN_BUCKET && g->job->part_of[bucket];
}

static int gather(void *visitor, htc_bytes name, htc_bytes value)
{
    gathered *g = visitor;
    char      kind = (char)((const uint8_t *)name.data)[0];
    if (kind != g->area.kind || (kind != HTC__SCHEMA_CELL && htc__kv_name_number(name) != g->area.id))
        return 0;
    if (g->count == SLICE_KEYS || g->looked == HTC__KV_SLICE_LOOK || g->bytes.len > SLICE_BYTES) {
        g->more = 1;
        return 0;
    }
    g->looked++;
    g->last.len = name.len;
    memcpy(g->last.data, name.data, name.len);
    if (kind == HTC__SCHEMA_CELL && !is_part(g, name))
        return 1;
    g->count++;
    htc_put_bytes(&g->bytes, name);
    htc_put_bytes(&g->bytes, g->values && value.data ? value : (htc_bytes){ NULL, 0 });
    return g->bytes.status == HTC_OK;
}

static htc_status gather_some(htc_kv_server *s, const htc__kv_name *from, gathered *g)
{
    g->c = s->cluster;
    g->job = &s->cluster->holding->job;
    htc_buf_init(&g->bytes, &s->env, 0);
    htc_status status = htc__kv_scan(s, htc__kv_name_bytes(from), gather, g);
    return status == HTC_OK ? g->bytes.status : status;
}

static void go_behind_name(htc__kv_name *from, htc_bytes name)
{
    memcpy(from->data, name.data, name.len);
    from->len = name.len;
    from->data[from->len++] = 0;
}

/* Where the next look begins. */
static void go_behind(htc__kv_name *from, const gathered *g)
{
    go_behind_name(from, (htc_bytes){ g->last.data, g->last.len });
}

static htc__kv_name first_of(const htc__kv_area *area)
{
    return htc__kv_name_of(area->kind, &area->id, (htc_bytes){ NULL, 0 });
}

/* ---------------------------------------------------------------- areas that count for nothing any more */

void htc__kv_snapshot_install_sweep(htc_kv_server *s, char kind, uint64_t id)
{
    htc__kv_bucket_states *h = s->cluster->holding;
    if (!id || HTC__BROKEN(images_mixed))
        return;
    /* Most come once for each record of the same area. */
    if (h->sweep_count && h->sweeps[h->sweep_count - 1].kind == kind && h->sweeps[h->sweep_count - 1].id == id)
        return;
    if (h->sweep_count == h->sweep_room && h->sweep_room < SWEEPS_MAX) {
        size_t        room = h->sweep_room ? 2 * h->sweep_room : 64;
        htc__kv_area *more = htc__resize(&s->env, h->sweeps, h->sweep_room * sizeof *more, room * sizeof *more);
        if (more) {
            h->sweeps = more;
            h->sweep_room = room;
        }
    }
    if (h->sweep_count < h->sweep_room)
        h->sweeps[h->sweep_count++] = (htc__kv_area){ kind, id };
}

static htc_status sweep_some(htc_kv_server *s)
{
    htc__kv_bucket_states *h = s->cluster->holding;
    gathered         g = { .area = h->sweep };
    htc_status       status = gather_some(s, &h->sweep_from, &g);
    htc_reader       r = htc_reader_of(htc_buf_bytes(&g.bytes));
    for (size_t i = 0; status == HTC_OK && i < g.count; i++) {
        htc_bytes name = htc_get_bytes(&r);
        htc_get_bytes(&r);
        status = htc__kv_buckets_room(s, name.len, 0) ? htc__kv_stage_drop(s, name) : HTC_EBUSY;
        if (status == HTC_OK)
            go_behind_name(&h->sweep_from, name); /* the batch may have room for some, and never for all */
    }
    htc_buf_free(&g.bytes);
    if (status == HTC_OK && g.more) {
        go_behind(&h->sweep_from, &g);
    } else if (status == HTC_OK) {
        htc__kv_name floors = htc__kv_name_of(HTC__SCHEMA_ARRIVED_FLOORS, &h->sweep.id, (htc_bytes){ NULL, 0 });
        if (h->sweep.kind == HTC__SCHEMA_ARRIVED)
            status = htc__kv_buckets_room(s, 16, 0) ? htc__kv_stage_drop(s, htc__kv_name_bytes(&floors)) : HTC_EBUSY;
        if (status != HTC_EBUSY)
            h->sweep.kind = 0;
    }
    return status == HTC_ENOTFOUND ? HTC_OK : status;
}

/* ---------------------------------------------------------------- what there was */

/* Is it among what has arrived? */
static int has_arrived(htc_kv_server *s, const htc__kv_part *part, htc_bytes key)
{
    htc__kv_name name = htc__kv_name_of(part->area.kind, &part->area.id, key);
    htc_bytes    value;
    return part->area.kind && htc__kv_read(s, htc__kv_name_bytes(&name), &value) == HTC_OK;
}

static htc_status drop_old(htc_kv_server *s, htc__kv_job *j)
{
    gathered   g = { .area = { HTC__SCHEMA_CELL, 0 } };
    htc_status status = gather_some(s, &j->from, &g);
    htc_reader r = htc_reader_of(htc_buf_bytes(&g.bytes));
    for (size_t i = 0; status == HTC_OK && i < g.count; i++) {
        htc_bytes name = htc_get_bytes(&r), key = { (const uint8_t *)name.data + 1, name.len - 1 };
        htc_get_bytes(&r);
        if (has_arrived(s, &j->parts[j->part_of[htc__kv_cluster_bucket(s->cluster, key)] - 1], key))
            continue;
        status = htc__kv_buckets_room(s, key.len, 0) ? htc__kv_cluster_put(s, key, NULL) : HTC_EBUSY;
        if (status == HTC_OK)
            go_behind_name(&j->from, name);
    }
    htc_buf_free(&g.bytes);
    if (status == HTC_OK && g.more) {
        go_behind(&j->from, &g);
    } else if (status == HTC_OK) {
        j->phase = HTC__KV_NEW_KEYS;
        j->from = first_of(&j->parts[0].area);
    }
    return status;
}

/* ---------------------------------------------------------------- what comes in its place */

/* HTC_EBUSY: later, there is no room. */
static htc_status put_new(htc_kv_server *s, htc__kv_job *j)
{
    gathered   g = { .area = j->parts[j->at].area, .values = 1 };
    htc_status status = HTC_OK;
    htc_buf_init(&g.bytes, &s->env, 0);
    if (g.area.kind)
        status = gather_some(s, &j->from, &g);
    htc_reader r = htc_reader_of(htc_buf_bytes(&g.bytes));
    for (size_t i = 0; status == HTC_OK && i < g.count; i++) {
        htc_bytes    name = htc_get_bytes(&r), value = htc_get_bytes(&r);
        htc_bytes    key = { (const uint8_t *)name.data + 9, name.len - 9 };
        htc__kv_cell cell;
        status = htc__kv_cell_read(value, NULL, &cell);
        if (status == HTC_OK)
            status = htc__kv_buckets_room(s, key.len, value.len) ? htc__kv_cluster_put(s, key, &cell) : HTC_EBUSY;
        if (status == HTC_OK)
            go_behind_name(&j->from, name);
    }
    htc_buf_free(&g.bytes);
    if (status == HTC_OK && g.more)
        go_behind(&j->from, &g);
    else if (status == HTC_OK)
        j->phase = HTC__KV_LAST_STEP;
    return status;
}

static htc_status floors_of(htc_kv_server *s, const htc__kv_part *part, htc__kv_floors *floors)
{
    htc__kv_name name = htc__kv_name_of(HTC__SCHEMA_ARRIVED_FLOORS, &part->area.id, (htc_bytes){ NULL, 0 });
    htc_bytes    bytes;
    *floors = part->floors;
    if (part->area.kind != HTC__SCHEMA_ARRIVED)
        return HTC_OK;
    htc_status status = htc__kv_read(s, htc__kv_name_bytes(&name), &bytes);
    if (status != HTC_OK)
        return status == HTC_ENOTFOUND ? HTC_ECORRUPT : status;
    htc_reader r = htc_reader_of(bytes);
    *floors = htc__kv_floors_read(&r);
    return htc_reader_done(&r) == HTC_OK ? HTC_OK : HTC_ECORRUPT;
}

/* The next one, or the end. */
static void go_on(htc_kv_server *s, htc__kv_job *j)
{
    htc__kv_part *part = &j->parts[j->at++];
    j->part_of[part->bucket] = 0;
    if (part->area.kind)
        htc__kv_snapshot_install_sweep(s, part->area.kind, part->area.id);
    j->phase = HTC__KV_NEW_KEYS;
    if (j->at < j->count)
        j->from = first_of(&j->parts[j->at].area);
    else
        j->count = j->at = 0;
}

static htc_status store(htc_kv_server *s, const htc__kv_part *part, const htc__kv_floors *floors)
{
    htc__kv_cluster *c = s->cluster;
    int              stays = part->area.kind != 0;
    c->hold[part->bucket].held = (uint8_t)stays;
    if (!stays && c->hold[part->bucket].lost) /* it has gone once and for all */
        c->hold[part->bucket].epoch = c->route[part->bucket].epoch;
    htc__kv_repair_whole(s, part->bucket, stays);
    htc__kv_buckets_todo(s, part->bucket, stays ? 0 : (uint8_t)(c->holding->todo[part->bucket] & ~HTC__KV_GO));
    htc_status status = htc__kv_buckets_stage(s, part->bucket);
    return status == HTC_OK ? htc__kv_cluster_floors_put(s, part->bucket, floors) : status;
}

/* From here on it is served, if the map still says so. */
static htc_status last_step(htc_kv_server *s, htc__kv_job *j)
{
    htc__kv_cluster     *c = s->cluster;
    const htc__kv_part  *part = &j->parts[j->at];
    htc__kv_bucket_state        *hold = &c->hold[part->bucket], next = *hold;
    const htc__kv_route *route = &c->route[part->bucket];
    htc__kv_floors       floors = { 0 };
    htc_status           status = part->area.kind ? floors_of(s, part, &floors) : HTC_OK;
    if (status != HTC_OK)
        return status;
    if (!htc__kv_buckets_room(s, 0, 0))
        return HTC_EBUSY;
    int still = 1;
    if (part->area.kind == HTC__SCHEMA_ARRIVED)
        still = (htc__kv_bucket_state_learn(&next, route->epoch, route->image) & HTC__KV_BUCKET_BECOME) != 0;
    else if (part->area.kind == HTC__SCHEMA_COPIED) {
        still = part->epoch == route->epoch && htc__kv_bucket_state_copied(&next, part->epoch, route->image) != 0;
    }
    if (part->area.kind && !(still && htc__kv_route_has(c, part->bucket, c->id))) {
        htc__kv_cluster_learn(s, part->bucket); /* the map has gone on */
    } else {
        if (part->area.kind)
            *hold = next;
        status = store(s, part, &floors);
    }
    go_on(s, j);
    return status;
}

/* A record of what had arrived was damaged meanwhile. It has answered nothing of that image, so it copies what others have of it. */
static htc_status without(htc_kv_server *s, htc__kv_job *j)
{
    htc__kv_cluster *c = s->cluster;
    uint32_t         bucket = j->parts[j->at].bucket;
    htc__kv_bucket_state    *hold = &c->hold[bucket];
    if (!htc__kv_buckets_room(s, 0, 0))
        return HTC_EBUSY;
    hold->arriving = 0;
    hold->pages = 0;
    hold->complete = 0;
    htc_status status = htc__kv_buckets_stage(s, bucket);
    go_on(s, j);
    if (status == HTC_OK)
        htc__kv_cluster_learn(s, bucket);
    htc__log_with(&s->env, HTC_LOG_ERROR, HTC__FIELDS(HTC__NUMBER("bucket", bucket), HTC__STATUS(HTC_ECORRUPT)),
                  "what has arrived of bucket %u is damaged -> copy it from another owner", bucket);
    return status;
}

/* ---------------------------------------------------------------- which, and when */

int htc__kv_snapshot_install_busy(const htc_kv_server *s, uint32_t bucket)
{
    const htc__kv_bucket_states *h = s->cluster->holding;
    return bucket != HTC__KV_OWN_BUCKET && (h->job.part_of[bucket] || (h->todo[bucket] & HTC__KV_TAKE_UP));
}

/* What there was is not shown to anybody any more, and not served after a restart that knows an older map. 0: there is no room, or there
 * are enough. */
static int add_part(htc_kv_server *s, const htc__kv_part *part, htc_status *status)
{
    htc__kv_cluster *c = s->cluster;
    htc__kv_bucket_state    *hold = &c->hold[part->bucket];
    htc__kv_job     *j = &c->holding->job;
    if (j->count == HTC__KV_JOB_PARTS || !htc__kv_buckets_room(s, 0, 0))
        return 0;
    if (hold->held) {
        hold->sealed = hold->sealed > hold->epoch ? hold->sealed : hold->epoch;
        *status = htc__kv_buckets_stage(s, part->bucket);
    }
    j->parts[j->count++] = *part;
    j->part_of[part->bucket] = (uint16_t)j->count;
    return *status == HTC_OK;
}

static htc_status add_copies(htc_kv_server *s)
{
    htc__kv_bucket_states *h = s->cluster->holding;
    htc_status       status = HTC_OK;
    for (uint32_t i = 0; h->copying && i < HTC__KV_COPIES && status == HTC_OK; i++) {
        htc__kv_copying *y = &h->copies[i];
        htc__kv_part     part = { .bucket = y->bucket, .epoch = y->epoch, .floors = y->floors };
        if (!y->busy || !y->whole)
            continue;
        part.area = (htc__kv_area){ HTC__SCHEMA_COPIED, htc__kv_area_id(y->bucket, y->epoch) };
        if (!add_part(s, &part, &status))
            break;
        y->busy = 0;
        assert(h->copying > 0);
        h->copying--;
    }
    return status;
}

static htc_status add_those(htc_kv_server *s, uint8_t what)
{
    htc__kv_cluster *c = s->cluster;
    htc__kv_bucket_states *h = c->holding;
    htc_status       status = HTC_OK;
    for (uint32_t b = 0; h->moves && b < c->buckets && status == HTC_OK; b++) {
        htc__kv_part part = { .bucket = b };
        if (!(h->todo[b] & what) || h->job.part_of[b])
            continue;
        if (what == HTC__KV_TAKE_UP)
            part.area = (htc__kv_area){ HTC__SCHEMA_ARRIVED, htc__kv_area_id(b, c->hold[b].arriving) };
        if (!add_part(s, &part, &status))
            break;
    }
    return status;
}

static int copies_wait(const htc__kv_bucket_states *h)
{
    for (uint32_t i = 0; h->copying && i < HTC__KV_COPIES; i++)
        if (h->copies[i].busy && h->copies[i].whole)
            return 1;
    return 0;
}

/* Who waits for a bucket comes first. */
static htc_status begin(htc_kv_server *s)
{
    htc__kv_bucket_states *h = s->cluster->holding;
    htc__kv_job     *j = &h->job;
    htc_status       status = add_copies(s);
    if (status == HTC_OK)
        status = add_those(s, HTC__KV_TAKE_UP);
    if (status == HTC_OK && j->count == 0)
        status = add_those(s, HTC__KV_GO);
    if (status != HTC_OK)
        return status;
    if (j->count) {
        j->phase = HTC__KV_OLD_KEYS;
        j->from = htc__kv_name_of(HTC__SCHEMA_CELL, NULL, (htc_bytes){ NULL, 0 });
        return HTC_OK;
    }
    if (h->moves || copies_wait(h))
        return HTC_EBUSY;
    if (h->sweep_count == 0)
        return HTC_AGAIN;
    h->sweep = h->sweeps[--h->sweep_count];
    h->sweep_from = first_of(&h->sweep);
    return HTC_OK;
}

static htc_status job_step(htc_kv_server *s, htc__kv_job *j)
{
    switch (j->phase) {
    case HTC__KV_OLD_KEYS:
        return drop_old(s, j);
    case HTC__KV_NEW_KEYS:
        return put_new(s, j);
    case HTC__KV_LAST_STEP:
        return last_step(s, j);
    }
    return HTC_EINTERNAL;
}

htc_status htc__kv_snapshot_install_step(htc_kv_server *s)
{
    htc__kv_bucket_states *h = s->cluster->holding;
    htc__kv_job     *j = &h->job;
    if (j->count == 0)
        return h->sweep.kind && !h->moves && !copies_wait(h) ? sweep_some(s) : begin(s);
    htc_status status = job_step(s, j);
    return status == HTC_ECORRUPT && j->phase != HTC__KV_OLD_KEYS && j->parts[j->at].area.kind ? without(s, j) : status;
}

int htc__kv_snapshot_install_waits(const htc_kv_server *s)
{
    const htc__kv_bucket_states *h = s->cluster->holding;
    return copies_wait(h) || h->job.count || h->moves || h->sweep_count || h->sweep.kind;
}
