/* What this member may answer of each bucket (kvs/map/bucket_state.h), and how a bucket's content arrives and goes.
 *
 *     SEAL ──▶ its epoch is answered no more ──▶ SHOWN, page by page (migrate/snapshot_send.c)
 *     INSTALL ──▶ kept beside what is served, under its number ──▶ INSTALLED
 *     the map names that number ──▶ the arrived content takes the place of what there was (migrate/snapshot_install.c) ──▶ served
 *     the map names one that never came ──▶ COPY from an owner that has it (migrate/backfill.c) ──▶ the same
 *     the map names other owners ──▶ what there was goes
 *
 * While content changes places the bucket is sealed, durably, for the epoch that has passed, and not served in the new one, so it does
 * not matter how far that had come when the member died: it begins anew. Of a bucket that is copied page by page from another
 * owner, each key is as one moment had it: an owner that has answered nothing in an epoch may know anything of a key that another
 * owner knew.
 *
 * Records (kvs/storage/schema.h): o, g, i, j, y. An area is a bucket and a number: of the mover, of the epoch copied. */
#include "kvs/migrate/buckets.h"

#include <string.h>

#include "core/fault.h"
#include "kvs/eventual/migration.h"
#include "kvs/migrate/bucket_migration.h"

#define FIRST_FORMAT 1
#define SLICES       8 /* in one step */

/* ---------------------------------------------------------------- what is remembered */

static htc__kv_name name_of_hold(uint32_t bucket)
{
    uint64_t number = bucket;
    return htc__kv_name_of(HTC__SCHEMA_BUCKET, &number, (htc_bytes){ NULL, 0 });
}

static htc__kv_bucket_state *hold_of(htc__kv_cluster *c, uint32_t bucket)
{
    return bucket == HTC__KV_OWN_BUCKET ? &c->own_hold : bucket < c->buckets ? &c->hold[bucket] : NULL;
}

htc_status htc__kv_buckets_stage(htc_kv_server *s, uint32_t bucket)
{
    htc__kv_name name = name_of_hold(bucket);
    htc_buf_clear(&s->scratch);
    htc__kv_bucket_state_write(&s->scratch, hold_of(s->cluster, bucket));
    return s->scratch.status == HTC_OK ? htc__kv_stage(s, htc__kv_name_bytes(&name), htc_buf_bytes(&s->scratch))
                                       : s->scratch.status;
}

void htc__kv_buckets_touch(htc_kv_server *s, uint32_t bucket)
{
    htc__kv_name name = name_of_hold(bucket);
    htc_bytes    bytes;
    htc__kv_read(s, htc__kv_name_bytes(&name), &bytes);
}

int htc__kv_cluster_serves(htc_kv_server *s, uint32_t bucket, uint64_t epoch)
{
    return htc__kv_bucket_state_serves(hold_of(s->cluster, bucket), epoch);
}

int htc__kv_buckets_sealed(const htc_kv_server *s)
{
    for (uint32_t b = 0; b < s->cluster->buckets; b++)
        if (s->cluster->hold[b].sealed)
            return 1;
    return 0;
}

/* Whoever takes a page stages all of it in one batch, which is no longer than a file of its log; so it is with the others, too. */
size_t htc__kv_cluster_page(const htc_kv_server *s, size_t most)
{
    uint64_t file = s->options.log_durability ? s->options.log_segment_bytes : 0;
    return file && file / 8 < most ? (size_t)(file / 8) : most;
}

int htc__kv_buckets_room(const htc_kv_server *s, size_t key, size_t value)
{
    return !htc__kv_full(s) && htc__kv_room_to_grow(s, key, value) == HTC_OK;
}

/* Of the list that all members were started with. */
static htc_status first_from_map(htc_kv_server *s, htc_buf *first)
{
    const htc__kv_cluster *c = s->cluster;
    int                    is = c->map_version == 0 && !s->options.join;
    htc_put_u8(first, FIRST_FORMAT);
    htc_put_u8(first, is && htc__kv_route_has(c, HTC__KV_OWN_BUCKET, c->id));
    uint8_t *bits = htc_buf_extend(first, (c->buckets + 7) / 8);
    if (!bits)
        return first->status;
    memset(bits, 0, (c->buckets + 7) / 8);
    for (uint32_t b = 0; is && b < c->buckets; b++)
        if (htc__kv_route_has(c, b, c->id))
            bits[b / 8] |= (uint8_t)(1u << b % 8);
    return HTC_OK;
}

static htc_status find_first(htc_kv_server *s)
{
    htc__kv_cluster *c = s->cluster;
    htc_buf         *first = &c->holding->first;
    htc_bytes        bytes;
    htc_status       status = htc__kv_read(s, htc__schema_name(HTC__SCHEMA_FIRST), &bytes);
    if (first->len)
        return HTC_OK;
    if (status == HTC_OK)
        htc_put_raw(first, bytes);
    else if (status == HTC_ENOTFOUND)
        status = first_from_map(s, first);
    if (status == HTC_OK && (first->status != HTC_OK || first->len != 2 + (c->buckets + 7) / 8))
        status = first->status == HTC_OK ? HTC_ECORRUPT : first->status;
    return status;
}

htc_status htc__kv_cluster_stage_first(htc_kv_server *s)
{
    return htc__kv_stage(s, htc__schema_name(HTC__SCHEMA_FIRST), htc_buf_bytes(&s->cluster->holding->first));
}

/* ---------------------------------------------------------------- life */

typedef struct loading {
    htc_kv_server *s;
    htc_status     status;
    char           kind;
} loading;

static int load_hold(void *visitor, htc_bytes name, htc_bytes value)
{
    loading     *l = visitor;
    uint64_t     number = htc__kv_name_number(name);
    htc__kv_bucket_state hold;
    if (!htc__schema_is(name, HTC__SCHEMA_BUCKET))
        return 0;
    htc__kv_bucket_state *at = number <= HTC__KV_OWN_BUCKET ? hold_of(l->s->cluster, (uint32_t)number) : NULL;
    if (!at || name.len != 9) {
        l->status = HTC_ECORRUPT;
        return 0;
    }
    *at = value.data && htc__kv_bucket_state_read(value, &hold) == HTC_OK ? hold : htc__kv_bucket_state_lost();
    return 1;
}

/* As the cells say it. */
static htc_status read_holds(htc_kv_server *s)
{
    htc__kv_cluster *c = s->cluster;
    loading          l = { s, HTC_OK, HTC__SCHEMA_BUCKET };
    const uint8_t   *first = c->holding->first.data;
    for (uint32_t b = 0; b < c->buckets; b++)
        c->hold[b] = first[2 + b / 8] >> b % 8 & 1 ? htc__kv_bucket_state_first(1, 0) : (htc__kv_bucket_state){ 0 };
    c->own_hold = first[1] ? htc__kv_bucket_state_first(1, 0) : (htc__kv_bucket_state){ 0 };
    htc_status status = htc__kv_scan(s, htc__schema_name(HTC__SCHEMA_BUCKET), load_hold, &l);
    return status == HTC_OK ? l.status : status;
}

htc_status htc__kv_buckets_make(htc_kv_server *s)
{
    htc__kv_cluster *c = s->cluster;
    c->hold = htc__alloc(&s->env, c->buckets * sizeof *c->hold);
    c->holding = htc__alloc(&s->env, sizeof *c->holding);
    if (!c->hold || !c->holding)
        return HTC_ENOMEM;
    htc__kv_job *j = &c->holding->job;
    htc_buf_init(&c->holding->first, &s->env, 0);
    c->holding->todo = htc__alloc(&s->env, c->buckets);
    j->parts = htc__alloc_raw(&s->env, HTC__KV_JOB_PARTS * sizeof *j->parts);
    j->part_of = htc__alloc(&s->env, c->buckets * sizeof *j->part_of);
    htc_status status = c->holding->todo && j->parts && j->part_of ? htc__kv_snapshot_send_make(s) : HTC_ENOMEM;
    return status == HTC_OK ? htc__kv_repair_make(s) : status;
}

static void unmake(htc_kv_server *s)
{
    htc__kv_cluster *c = s->cluster;
    if (c->holding) {
        htc__kv_bucket_states *h = c->holding;
        htc__kv_snapshot_send_free(s);
        htc__free(&s->env, h->sweeps, h->sweep_room * sizeof *h->sweeps);
        htc__free(&s->env, h->job.parts, HTC__KV_JOB_PARTS * sizeof *h->job.parts);
        htc__free(&s->env, h->job.part_of, c->buckets * sizeof *h->job.part_of);
        htc__free(&s->env, h->todo, c->buckets);
        htc_buf_free(&h->first);
    }
    htc__kv_repair_free(s);
    htc__free(&s->env, c->holding, sizeof *c->holding);
    htc__free(&s->env, c->hold, c->buckets * sizeof *c->hold);
}

/* ---------------------------------------------------------------- what the map means for a bucket */

void htc__kv_buckets_todo(htc_kv_server *s, uint32_t bucket, uint8_t now)
{
    htc__kv_bucket_states *h = s->cluster->holding;
    uint8_t          moves = HTC__KV_TAKE_UP | HTC__KV_GO, before = h->todo[bucket];
    h->moves += ((now & moves) != 0) - ((before & moves) != 0);
    h->late += ((now & HTC__KV_COPY) != 0) - ((before & HTC__KV_COPY) != 0);
    h->todo[bucket] = now;
}

/* Each image has an area of its own, so that two movers' can never become one, nor those of two buckets that one has moved. */
uint64_t htc__kv_area_id(uint32_t bucket, uint64_t number)
{
    return HTC__BROKEN(images_mixed) ? bucket + 1 : number << HTC__KV_MAP_BITS | bucket;
}

static int is_arriving(const htc__kv_cluster *c, uint64_t area)
{
    uint32_t bucket = (uint32_t)(area & ((UINT32_C(1) << HTC__KV_MAP_BITS) - 1));
    return bucket < c->buckets && c->hold[bucket].arriving == area >> HTC__KV_MAP_BITS;
}

void htc__kv_cluster_learn(htc_kv_server *s, uint32_t bucket)
{
    htc__kv_cluster     *c = s->cluster;
    const htc__kv_route *route = &c->route[bucket];
    htc__kv_bucket_state        *hold = &c->hold[bucket], next = *hold;
    htc__kv_buckets_todo(s, bucket, 0);
    if (!htc__kv_route_has(c, bucket, c->id)) {
        if ((hold->held || hold->lost) && hold->epoch < route->epoch)
            htc__kv_buckets_todo(s, bucket, HTC__KV_GO);
        return;
    }
    unsigned duties = htc__kv_bucket_state_learn(&next, route->epoch, route->image);
    if (duties & HTC__KV_BUCKET_LATE) {
        htc__kv_buckets_todo(s, bucket, HTC__KV_COPY);
    } else if (duties & HTC__KV_BUCKET_BECOME) {
        htc__kv_buckets_todo(s, bucket, HTC__KV_TAKE_UP);
    } else if (duties & HTC__KV_BUCKET_STORE) {
        *hold = next;
        htc_status status = htc__kv_buckets_stage(s, bucket);
        if (status == HTC_EBUSY || status == HTC_ENOSPC || status == HTC_EFULL)
            c->holding->at = s->now + HTC__KV_ROOM_AGAIN; /* found again by the next life, which learns the same */
        else if (status != HTC_OK)
            htc__kv_cluster_broken(s, status);
    }
}

static int load_left_over(void *visitor, htc_bytes name, htc_bytes value)
{
    loading         *l = visitor;
    uint64_t         area = htc__kv_name_number(name);
    char             kind = (char)((const uint8_t *)name.data)[0];
    (void)value;
    if (kind != l->kind)
        return 0;
    if (kind == HTC__SCHEMA_COPIED || !is_arriving(l->s->cluster, area))
        htc__kv_snapshot_install_sweep(l->s, kind == HTC__SCHEMA_COPIED ? HTC__SCHEMA_COPIED : HTC__SCHEMA_ARRIVED, area);
    return 1;
}

static htc_status find_left_over(htc_kv_server *s)
{
    static const char kinds[] = { HTC__SCHEMA_ARRIVED, HTC__SCHEMA_ARRIVED_FLOORS, HTC__SCHEMA_COPIED };
    htc_status        status = HTC_OK;
    for (size_t i = 0; status == HTC_OK && i < sizeof kinds; i++) {
        loading l = { s, HTC_OK, kinds[i] };
        status = htc__kv_scan(s, (htc_bytes){ &kinds[i], 1 }, load_left_over, &l);
    }
    return status;
}

htc_status htc__kv_buckets_load(htc_kv_server *s)
{
    htc__kv_cluster *c = s->cluster;
    if (!c->map)
        return HTC_OK;
    htc_status status = find_first(s);
    if (status == HTC_OK)
        status = read_holds(s);
    if (status == HTC_OK && htc__kv_lost_frames(s))
        htc__kv_lost_all(s);
    if (status == HTC_OK)
        status = find_left_over(s);
    for (uint32_t b = 0; status == HTC_OK && b < c->buckets; b++) {
        if (c->hold[b].lost)
            htc__kv_lost_found(s, b);
        htc__kv_cluster_learn(s, b);
        status = s->broken;
    }
    if (status == HTC_OK && c->own_hold.lost)
        htc__kv_lost_found(s, HTC__KV_OWN_BUCKET);
    return status;
}

/* ---------------------------------------------------------------- what is sealed */

int htc__kv_buckets_may_show(const htc_kv_server *s, const htc__kv_seal_ask *ask, int copy)
{
    htc__kv_bucket_state hold = *hold_of(s->cluster, ask->bucket);
    if (htc__kv_snapshot_install_busy(s, ask->bucket))
        return 0;
    return copy ? htc__kv_bucket_state_has(&hold, ask->epoch) : (htc__kv_bucket_state_seal(&hold, ask->epoch) & HTC__KV_BUCKET_YES) != 0;
}

/* Whoever is sealed has to be able to say who comes next, in its next life too. */
static htc_status may_seal_map(htc_kv_server *s, uint64_t from)
{
    htc__kv_cluster *c = s->cluster;
    htc_buf          bytes;
    if (c->map->own_next.n == 0) {
        htc__kv_cluster_say_want(s, from);
        return HTC_EBUSY;
    }
    htc_buf_init(&bytes, &s->env, 0);
    htc__kv_map_encode(&bytes, c->map);
    htc_status status = bytes.status;
    if (status == HTC_OK && !htc__kv_buckets_room(s, c->buckets / 8, bytes.len))
        status = HTC_EBUSY;
    if (status == HTC_OK)
        status = htc__kv_cluster_map_keep(s, htc_buf_bytes(&bytes), c->map_version);
    htc_buf_free(&bytes);
    return status;
}

void htc__kv_cluster_on_seal(htc_kv_server *s, uint64_t from, htc_bytes item, int copy)
{
    htc__kv_cluster *c = s->cluster;
    htc__kv_seal_ask     seal;
    htc__kv_bucket_state    *hold = htc__kv_seal_ask_read(item, &seal) == HTC_OK ? hold_of(c, seal.bucket) : NULL;
    if (!hold || htc__kv_snapshot_install_busy(s, seal.bucket))
        return;
    s->touched = 0;
    if (copy) { /* of one that is sealed too: whoever moves the bucket may need the one that is late */
        if (htc__kv_bucket_state_has(hold, seal.epoch))
            htc__kv_snapshot_send_ask(s, from, &seal, HTC__KV_ITEM_COPIED);
        return;
    }
    htc__kv_cluster_moving_heard(s, from, seal.bucket, seal.number);
    htc__kv_bucket_state next = *hold;
    unsigned     duties = htc__kv_bucket_state_seal(&next, seal.epoch);
    if (!(duties & (HTC__KV_BUCKET_YES | HTC__KV_BUCKET_LOST))) {
        htc__kv_cluster_epoch_is(s, from, seal.bucket, seal.epoch);
        return;
    }
    if (duties & HTC__KV_BUCKET_STORE) {
        htc_status status = seal.bucket == HTC__KV_OWN_BUCKET ? may_seal_map(s, from) : HTC_OK;
        if (status == HTC_OK && !htc__kv_buckets_room(s, 0, 0))
            status = HTC_EBUSY;
        if (status == HTC_OK) {
            *hold = next;
            status = htc__kv_buckets_stage(s, seal.bucket);
        }
        if (status != HTC_OK && status != HTC_EBUSY)
            htc__kv_cluster_broken(s, status);
        if (status != HTC_OK)
            return;
    }
    if (duties & HTC__KV_BUCKET_LOST)
        htc__kv_lost_say(s, from, &seal);
    else if (seal.bucket == HTC__KV_OWN_BUCKET)
        htc__kv_snapshot_send_map(s, from, &seal);
    else
        htc__kv_snapshot_send_ask(s, from, &seal, HTC__KV_ITEM_SHOWN);
}

/* ---------------------------------------------------------------- what arrives */

static htc_status stage_floors(htc_kv_server *s, uint64_t area, const htc__kv_floors *floors)
{
    htc__kv_name name = htc__kv_name_of(HTC__SCHEMA_ARRIVED_FLOORS, &area, (htc_bytes){ NULL, 0 });
    htc_buf_clear(&s->scratch);
    htc__kv_floors_write(&s->scratch, floors);
    return s->scratch.status == HTC_OK ? htc__kv_stage(s, htc__kv_name_bytes(&name), htc_buf_bytes(&s->scratch))
                                       : s->scratch.status;
}

int htc__kv_buckets_may_take(const htc_kv_server *s, uint32_t bucket, htc_bytes entries)
{
    htc_reader   r = htc_reader_of(entries);
    htc_bytes    key, bytes;
    htc__kv_cell cell;
    size_t       size = 0;
    while (htc__kv_entry_read(&r, &key, &bytes, &cell)) {
        if (!cell.present || htc__kv_cluster_bucket(s->cluster, key) != bucket)
            return 0;
        size += htc__cells_cost(9 + key.len, bytes.len);
    }
    return r.status == HTC_OK && htc__kv_buckets_room(s, 0, size + 128);
}

htc_status htc__kv_buckets_stage_entries(htc_kv_server *s, htc__kv_area area, htc_bytes entries)
{
    htc_reader   r = htc_reader_of(entries);
    htc_bytes    key, bytes;
    htc__kv_cell cell;
    htc_status   status = HTC_OK;
    while (status == HTC_OK && htc__kv_entry_read(&r, &key, &bytes, &cell)) {
        htc__kv_name name = htc__kv_name_of(area.kind, &area.id, key);
        status = htc__kv_stage(s, htc__kv_name_bytes(&name), bytes);
    }
    return status;
}

static void say_installed(htc_kv_server *s, uint64_t to, const htc__kv_page *page, uint32_t pages)
{
    htc__kv_cluster *c = s->cluster;
    htc__kv_page     back = { .number = page->number, .bucket = page->bucket, .page = pages };
    htc__kv_buckets_touch(s, page->bucket);
    htc_buf_clear(&c->scratch);
    htc__kv_installed_write(&c->scratch, &back);
    htc__kv_cluster_reply(s, to, HTC__KV_ITEM_INSTALLED);
}

/* ---------------------------------------------------------------- the map itself */

/* What is known to be final in an epoch of the map, held by one that has answered nothing in it yet: its ballot is below all others of
 * that epoch, and whatever else was made final there a majority without this owner holds. */
static htc_status hold_map(htc_kv_server *s, const htc__kv_map *map, uint64_t version)
{
    htc__kv_cluster *c = s->cluster;
    htc_buf          bytes;
    htc_buf_init(&bytes, &s->env, 0);
    htc__kv_map_encode(&bytes, map);
    htc__kv_cell cell = { .present = 1, .version = version, .value = htc_buf_bytes(&bytes) };
    cell.accepted = cell.promise = (htc__kv_ballot){ .epoch = map->own_epoch };
    htc_status status = bytes.status;
    if (status == HTC_OK && !htc__kv_buckets_room(s, c->buckets / 8, 2 * bytes.len))
        status = HTC_EBUSY;
    if (status == HTC_OK) {
        c->own_hold = htc__kv_bucket_state_first(map->own_epoch, map->own_epoch);
        status = htc__kv_buckets_stage(s, HTC__KV_OWN_BUCKET);
    }
    if (status == HTC_OK) /* or the next life would not know whom to ask for the map */
        status = htc__kv_cluster_map_keep(s, htc_buf_bytes(&bytes), version);
    if (status == HTC_OK)
        status = htc__kv_cluster_put(s, htc__kv_map_key(), &cell);
    if (status == HTC_OK)
        htc__kv_repair_whole(s, HTC__KV_OWN_BUCKET, 1);
    htc_buf_free(&bytes);
    return status;
}

/* It has answered nothing in that epoch of the map. */
static int may_hold_map(const htc__kv_cluster *c, uint64_t epoch)
{
    return c->own_hold.lost ? c->own_hold.sealed < epoch : c->own_hold.epoch < epoch;
}

static int map_is_late(const htc__kv_cluster *c)
{
    return may_hold_map(c, c->map->own_epoch) && htc__kv_route_has(c, HTC__KV_OWN_BUCKET, c->id);
}

/* Whoever sends it says the same as anybody else would, so it is served at once. */
static htc_status install_map(htc_kv_server *s, uint64_t from, const htc__kv_page *page)
{
    htc__kv_cluster *c = s->cluster;
    htc_reader       r = htc_reader_of(page->entries);
    htc_bytes        key, bytes;
    htc__kv_cell     cell;
    htc__kv_map     *map = NULL;
    if (!htc__kv_entry_read(&r, &key, &bytes, &cell) || !cell.present || htc_reader_left(&r))
        return HTC_OK;
    if (c->own_hold.lost && !may_hold_map(c, page->number))
        return HTC_OK;
    if (may_hold_map(c, page->number)) {
        htc_status status = htc__kv_map_decode(&s->env, cell.value, &map);
        if (status == HTC_OK && map->own_epoch == page->number)
            status = hold_map(s, map, cell.version);
        else if (status == HTC_OK)
            status = HTC_EPROTO;
        if (status == HTC_OK)
            htc__kv_cluster_map_offer(s, map, cell.version);
        else
            htc__kv_map_destroy(map);
        if (status != HTC_OK)
            return status == HTC_ENOMEM || status == HTC_EIO ? status : HTC_OK;
    }
    say_installed(s, from, page, 1);
    return HTC_OK;
}

static htc_status install(htc_kv_server *s, uint64_t from, const htc__kv_page *page)
{
    htc__kv_cluster *c = s->cluster;
    htc__kv_bucket_state    *hold = hold_of(c, page->bucket), next = *hold;
    htc__kv_area     area = { HTC__SCHEMA_ARRIVED, htc__kv_area_id(page->bucket, page->number) };
    htc_status       status = HTC_OK;
    uint64_t         before = hold->arriving ? htc__kv_area_id(page->bucket, hold->arriving) : 0;
    unsigned         duties = htc__kv_bucket_state_install(&next, page->number, page->page, page->last);
    if (duties & HTC__KV_BUCKET_TAKE)
        status = stage_floors(s, area.id, &page->floors);
    if (status == HTC_OK && (duties & HTC__KV_BUCKET_TAKE) && page->eventual) {
        status = htc__kv_eventual_take(s, page->entries, 0);
        if (status == HTC_EBUSY || (status == HTC_OK && !htc__kv_buckets_room(s, 0, 0)))
            return HTC_OK; /* it comes again; to have merged some of it does no harm */
    } else if (status == HTC_OK && (duties & HTC__KV_BUCKET_TAKE)) {
        status = htc__kv_buckets_stage_entries(s, area, page->entries);
    }
    if (status == HTC_OK && (duties & HTC__KV_BUCKET_STORE)) {
        *hold = next;
        status = htc__kv_buckets_stage(s, page->bucket);
    }
    if (status == HTC_OK && (duties & HTC__KV_BUCKET_CLEAR))
        htc__kv_snapshot_install_sweep(s, HTC__SCHEMA_ARRIVED, before);
    if (status == HTC_OK && (duties & HTC__KV_BUCKET_YES))
        say_installed(s, from, page, hold->epoch >= page->number ? page->page + 1 : hold->pages);
    if (status == HTC_OK && hold->complete && (c->holding->todo[page->bucket] & HTC__KV_COPY))
        htc__kv_cluster_learn(s, page->bucket); /* the map had named it before it was all here */
    return status;
}

void htc__kv_cluster_on_install(htc_kv_server *s, uint64_t from, htc_bytes item)
{
    htc__kv_cluster *c = s->cluster;
    htc__kv_page     page;
    if (htc__kv_install_read(item, &page) != HTC_OK || !hold_of(c, page.bucket) || htc__kv_snapshot_install_busy(s, page.bucket) ||
        !(page.eventual ? htc__kv_eventual_may_install(s, &page) && htc__kv_buckets_room(s, 0, 128)
                        : htc__kv_buckets_may_take(s, page.bucket, page.entries)))
        return;
    s->touched = 0;
    htc__kv_cluster_moving_heard(s, from, page.bucket, page.number);
    htc_status status =
        page.bucket == HTC__KV_OWN_BUCKET ? install_map(s, from, &page) : install(s, from, &page);
    if (status != HTC_OK)
        htc__kv_cluster_broken(s, status);
}

/* ---------------------------------------------------------------- time */

static void tick(htc_kv_server *s)
{
    htc__kv_cluster *c = s->cluster;
    htc__kv_bucket_states *h = c->holding;
    if (!c->map || s->now < h->at)
        return;
    if (map_is_late(c)) {
        htc_status status = hold_map(s, c->map, c->map_version);
        if (status == HTC_EBUSY)
            h->at = s->now + HTC__KV_ROOM_AGAIN;
        else if (status != HTC_OK)
            htc__kv_cluster_broken(s, status);
    }
    htc__kv_late_tick(s);
    htc__kv_snapshot_send_tick(s);
    for (int i = 0; i < SLICES && s->broken == HTC_OK; i++) {
        htc_status status = htc__kv_snapshot_install_step(s);
        if (status == HTC_EBUSY)
            h->at = s->now + HTC__KV_ROOM_AGAIN;
        else if (status != HTC_OK && status != HTC_AGAIN)
            htc__kv_cluster_broken(s, status);
        if (status != HTC_OK)
            return;
    }
}

static htc_ns deadline(const htc_kv_server *s)
{
    const htc__kv_cluster *c = s->cluster;
    const htc__kv_bucket_states *h = c->holding;
    if (!c->map)
        return HTC_NEVER;
    if (map_is_late(c) || htc__kv_snapshot_install_waits(s) || htc__kv_snapshot_send_wait(s) || (h->late > h->copying && h->copying < HTC__KV_COPIES))
        return h->at;
    htc_ns late = htc__kv_late_deadline(s);
    return late > h->at ? late : h->at;
}

/* What it had begun is begun anew. */
void htc__kv_buckets_undone(htc_kv_server *s)
{
    htc__kv_cluster *c = s->cluster;
    if (!c->map)
        return;
    htc__kv_bucket_states *h = c->holding;
    memset(h->job.part_of, 0, c->buckets * sizeof *h->job.part_of);
    h->job.count = h->job.at = 0;
    memset(h->copies, 0, sizeof h->copies);
    h->copying = 0;
    h->sweep_count = 0;
    h->sweep.kind = 0;
    htc__kv_snapshot_send_undone(s);
    htc_status status = htc__kv_buckets_load(s);
    if (status != HTC_OK)
        htc__kv_cluster_broken(s, status);
}

static void on_item(htc_kv_server *s, uint64_t from, uint8_t kind, htc_bytes item)
{
    switch (kind) {
    case HTC__KV_ITEM_INSTALL:
        htc__kv_cluster_on_install(s, from, item);
        break;
    case HTC__KV_ITEM_COPIED:
        htc__kv_cluster_on_copied(s, from, item);
        break;
    default:
        htc__kv_cluster_on_seal(s, from, item, kind == HTC__KV_ITEM_COPY);
        break;
    }
}

/* Made with the first map, which says how many there are, and loaded before all that asks for them. */
const htc__kv_component htc__kv_component_buckets = { .free = unmake, .tick = tick, .deadline = deadline, .on_item = on_item,
                                            .items = { HTC__KV_ITEM_SEAL, HTC__KV_ITEM_COPY, HTC__KV_ITEM_INSTALL, HTC__KV_ITEM_COPIED } };
