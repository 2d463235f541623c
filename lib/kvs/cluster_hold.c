/* What this member may answer of each bucket (kvs/hold.h), and how a bucket's content arrives and goes.
 *
 *     SEAL ──▶ its epoch is answered no more ──▶ SHOWN, page by page
 *     INSTALL ──▶ kept beside what is served, under its number ──▶ INSTALLED
 *     the map names that number ──▶ the arrived content takes the place of what there was, some keys at a time ──▶ served
 *     the map names one that never came ──▶ COPY from an owner that serves it ──▶ the same
 *     the map names other owners ──▶ what there was goes, some keys at a time
 *
 * While content changes places the bucket is sealed, durably, for the epoch that has passed, and not served in the new one, so it does
 * not matter how far that had come when the member died: it begins anew. Of a bucket that is copied page by page from a living
 * owner, each key is as one moment had it: an owner that has answered nothing in an epoch may know anything of a key that another
 * owner knew.
 *
 * Cells: o BUCKET what is remembered of it; g the buckets that this member has held from the store's beginning; i NUMBER KEY
 * what has arrived under a number, j NUMBER its floors; y EPOCH KEY what is being copied. */
#include <string.h>

#include "core/fault.h"
#include "kvs/cluster_private.h"
#include "kvs/mover.h"

#define FIRST_FORMAT 1
#define SLICE_KEYS   64
#define SLICE_BYTES  ((size_t)1 << 20)
#define SLICE_LOOK   20000 /* keys of other buckets that are passed over at once */
#define SLICES       8     /* in one step */
#define SWEEPS_MAX   256   /* more than these wait for the next life */

enum { TAKE_UP = 1, COPY = 2, GO = 4 }; /* what is to be done about a bucket */

typedef enum phase { OLD_KEYS, NEW_KEYS, LAST_STEP, LEFT_OVER } phase;

/* The bucket whose content changes places now. */
typedef struct job {
    int            busy;
    uint32_t       bucket;
    phase          phase;
    char           area;   /* i, y: where the new content is; 0: there is none, the bucket goes */
    uint64_t       number; /* of the area */
    htc__kv_floors floors; /* of what was copied */
    htc__kv_name   from;
} job;

/* The bucket that is being copied. */
typedef struct copying {
    int            busy, whole; /* whole: it waits to change places */
    uint32_t       bucket, asked; /* asked: owners so far */
    uint64_t       epoch;
    htc__kv_floors floors;
    size_t         after_len; /* the last key that came */
    uint8_t        after[HTC_KV_KEY_MAX];
    htc_ns         again_at;
} copying;

/* An area that nobody will name any more. */
typedef struct sweep {
    char     area;
    uint64_t number;
} sweep;

typedef struct htc__kv_holding {
    uint8_t *todo;             /* by bucket */
    uint32_t moves, late;      /* so many have something to move, something to copy */
    uint32_t next, next_late;
    sweep    sweeps[SWEEPS_MAX];
    uint32_t sweep_count;
    job      job;
    copying  copy;
    htc_ns   at;    /* not before: there was no room */
    htc_buf  first; /* of g: u8 format, u8 whether the map, bits of buckets */
} holding;

/* ---------------------------------------------------------------- what is remembered */

static htc__kv_name name_of_hold(uint32_t bucket)
{
    uint64_t number = bucket;
    return htc__kv_name_of('o', &number, (htc_bytes){ NULL, 0 });
}

static htc__kv_hold *hold_of(htc__kv_cluster *c, uint32_t bucket)
{
    return bucket == HTC__KV_OWN_BUCKET ? &c->own_hold : bucket < c->buckets ? &c->hold[bucket] : NULL;
}

static htc_status stage_hold(htc_kv_server *s, uint32_t bucket)
{
    htc__kv_name name = name_of_hold(bucket);
    htc_buf_clear(&s->scratch);
    htc__kv_hold_write(&s->scratch, hold_of(s->cluster, bucket));
    return s->scratch.status == HTC_OK ? htc__kv_stage(s, htc__kv_name_bytes(&name), htc_buf_bytes(&s->scratch))
                                       : s->scratch.status;
}

/* What is said of a bucket rests on what is remembered of it. */
static void touch_hold(htc_kv_server *s, uint32_t bucket)
{
    htc__kv_name name = name_of_hold(bucket);
    htc_bytes    bytes;
    htc__kv_read(s, htc__kv_name_bytes(&name), &bytes);
}

int htc__kv_cluster_serves(htc_kv_server *s, uint32_t bucket, uint64_t epoch)
{
    return htc__kv_hold_serves(hold_of(s->cluster, bucket), epoch);
}

static int room_for(const htc_kv_server *s, size_t key, size_t value)
{
    return !htc__kv_full(s) && htc__kv_room(s, key, value) == HTC_OK;
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
    htc_status       status = htc__kv_read(s, htc_bytes_of("g"), &bytes);
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
    return htc__kv_stage(s, htc_bytes_of("g"), htc_buf_bytes(&s->cluster->holding->first));
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
    htc__kv_hold hold;
    if (((const uint8_t *)name.data)[0] != 'o')
        return 0;
    htc__kv_hold *at = number <= HTC__KV_OWN_BUCKET ? hold_of(l->s->cluster, (uint32_t)number) : NULL;
    l->status = at && name.len == 9 && value.data ? htc__kv_hold_read(value, &hold) : HTC_ECORRUPT;
    if (l->status == HTC_OK)
        *at = hold;
    return l->status == HTC_OK;
}

/* As the cells say it. */
static htc_status read_holds(htc_kv_server *s)
{
    htc__kv_cluster *c = s->cluster;
    loading          l = { s, HTC_OK, 'o' };
    const uint8_t   *first = c->holding->first.data;
    for (uint32_t b = 0; b < c->buckets; b++)
        c->hold[b] = first[2 + b / 8] >> b % 8 & 1 ? htc__kv_hold_first(1, 0) : (htc__kv_hold){ 0 };
    c->own_hold = first[1] ? htc__kv_hold_first(1, 0) : (htc__kv_hold){ 0 };
    htc_status status = htc__kv_scan(s, htc_bytes_of("o"), load_hold, &l);
    return status == HTC_OK ? l.status : status;
}

htc_status htc__kv_cluster_holds_make(htc_kv_server *s)
{
    htc__kv_cluster *c = s->cluster;
    c->hold = htc__alloc(&s->env, c->buckets * sizeof *c->hold);
    c->holding = htc__alloc(&s->env, sizeof *c->holding);
    if (c->holding) {
        c->holding->todo = htc__alloc(&s->env, c->buckets);
        htc_buf_init(&c->holding->first, &s->env, 0);
    }
    return c->hold && c->holding && c->holding->todo ? HTC_OK : HTC_ENOMEM;
}

void htc__kv_cluster_holds_free(htc_kv_server *s)
{
    htc__kv_cluster *c = s->cluster;
    if (c->holding) {
        htc__free(&s->env, c->holding->todo, c->buckets);
        htc_buf_free(&c->holding->first);
    }
    htc__free(&s->env, c->holding, sizeof *c->holding);
    htc__free(&s->env, c->hold, c->buckets * sizeof *c->hold);
}

/* ---------------------------------------------------------------- what the map means for a bucket */

static void set_todo(htc_kv_server *s, uint32_t bucket, uint8_t now)
{
    holding *h = s->cluster->holding;
    uint8_t  before = h->todo[bucket];
    h->moves += ((now & (TAKE_UP | GO)) != 0) - ((before & (TAKE_UP | GO)) != 0);
    h->late += ((now & COPY) != 0) - ((before & COPY) != 0);
    h->todo[bucket] = now;
}

static void sweep_up(htc_kv_server *s, char area, uint64_t number)
{
    holding *h = s->cluster->holding;
    for (uint32_t i = 0; i < h->sweep_count; i++)
        if (h->sweeps[i].area == area && h->sweeps[i].number == number)
            return;
    if (number && h->sweep_count < SWEEPS_MAX && !HTC__BROKEN(images_mixed))
        h->sweeps[h->sweep_count++] = (sweep){ area, number };
}

void htc__kv_cluster_learn(htc_kv_server *s, uint32_t bucket)
{
    htc__kv_cluster     *c = s->cluster;
    const htc__kv_route *route = &c->route[bucket];
    htc__kv_hold        *hold = &c->hold[bucket], next = *hold;
    set_todo(s, bucket, 0);
    if (!htc__kv_route_has(c, bucket, c->id)) {
        if (hold->held && hold->epoch < route->epoch)
            set_todo(s, bucket, GO);
        return;
    }
    unsigned duties = htc__kv_hold_learn(&next, route->epoch, route->image);
    if (duties & HTC__KV_HOLD_LATE) {
        set_todo(s, bucket, COPY);
    } else if (duties & HTC__KV_HOLD_BECOME) {
        set_todo(s, bucket, TAKE_UP);
    } else if (duties & HTC__KV_HOLD_STORE) {
        *hold = next;
        htc_status status = stage_hold(s, bucket);
        if (status == HTC_EBUSY || status == HTC_ENOSPC || status == HTC_EFULL)
            c->holding->at = s->now + HTC__KV_ROOM_AGAIN; /* found again by the next life, which learns the same */
        else if (status != HTC_OK)
            htc__kv_cluster_broken(s, status);
    }
}

static int load_left_over(void *visitor, htc_bytes name, htc_bytes value)
{
    loading         *l = visitor;
    htc__kv_cluster *c = l->s->cluster;
    uint64_t         number = htc__kv_name_number(name);
    char             kind = (char)((const uint8_t *)name.data)[0];
    (void)value;
    if (kind != l->kind)
        return 0;
    for (uint32_t b = 0; kind != 'y' && b < c->buckets; b++)
        if (c->hold[b].arriving == number)
            return 1;
    sweep_up(l->s, kind == 'y' ? 'y' : 'i', number);
    return c->holding->sweep_count < SWEEPS_MAX;
}

static htc_status find_left_over(htc_kv_server *s)
{
    static const char kinds[] = { 'i', 'j', 'y' };
    htc_status        status = HTC_OK;
    for (size_t i = 0; status == HTC_OK && i < sizeof kinds; i++) {
        loading l = { s, HTC_OK, kinds[i] };
        status = htc__kv_scan(s, (htc_bytes){ &kinds[i], 1 }, load_left_over, &l);
    }
    return status;
}

htc_status htc__kv_cluster_holds_load(htc_kv_server *s)
{
    htc__kv_cluster *c = s->cluster;
    if (!c->map)
        return HTC_OK;
    htc_status status = find_first(s);
    if (status == HTC_OK)
        status = read_holds(s);
    if (status == HTC_OK)
        status = find_left_over(s);
    for (uint32_t b = 0; status == HTC_OK && b < c->buckets; b++) {
        htc__kv_cluster_learn(s, b);
        status = s->broken;
    }
    return status;
}

/* ---------------------------------------------------------------- what is sealed */

static int changes_places(const htc__kv_cluster *c, uint32_t bucket)
{
    const job *j = &c->holding->job;
    return bucket != HTC__KV_OWN_BUCKET &&
           ((j->busy && j->bucket == bucket && j->phase != LEFT_OVER) || (c->holding->todo[bucket] & TAKE_UP));
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
    if (status == HTC_OK && !room_for(s, c->buckets / 8, bytes.len))
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
    htc__kv_hold    *hold = htc__kv_seal_ask_read(item, &seal) == HTC_OK ? hold_of(c, seal.bucket) : NULL;
    if (!hold || changes_places(c, seal.bucket))
        return;
    s->touched = 0;
    if (copy) {
        if (htc__kv_hold_serves(hold, seal.epoch))
            htc__kv_cluster_show(s, from, &seal, HTC__KV_ITEM_COPIED);
        return;
    }
    htc__kv_cluster_moving_heard(s, from, seal.number);
    htc__kv_hold next = *hold;
    unsigned     duties = htc__kv_hold_seal(&next, seal.epoch);
    if (!(duties & HTC__KV_HOLD_YES)) {
        htc__kv_cluster_epoch_is(s, from, seal.bucket, seal.epoch);
        return;
    }
    if (duties & HTC__KV_HOLD_STORE) {
        htc_status status = seal.bucket == HTC__KV_OWN_BUCKET ? may_seal_map(s, from) : HTC_OK;
        if (status == HTC_OK && !room_for(s, 0, 0))
            status = HTC_EBUSY;
        if (status == HTC_OK) {
            *hold = next;
            status = stage_hold(s, seal.bucket);
        }
        if (status != HTC_OK && status != HTC_EBUSY)
            htc__kv_cluster_broken(s, status);
        if (status != HTC_OK)
            return;
    }
    touch_hold(s, seal.bucket);
    htc__kv_cluster_show(s, from, &seal, HTC__KV_ITEM_SHOWN);
}

/* ---------------------------------------------------------------- what arrives */

/* Each image has an area of its own, so that two movers' can never become one. */
static uint64_t area_of(uint32_t bucket, uint64_t number)
{
    return HTC__BROKEN(images_mixed) ? bucket + 1 : number;
}

static htc_status stage_floors(htc_kv_server *s, uint64_t number, const htc__kv_floors *floors)
{
    htc__kv_name name = htc__kv_name_of('j', &number, (htc_bytes){ NULL, 0 });
    htc_buf_clear(&s->scratch);
    htc__kv_floors_write(&s->scratch, floors);
    return s->scratch.status == HTC_OK ? htc__kv_stage(s, htc__kv_name_bytes(&name), htc_buf_bytes(&s->scratch))
                                       : s->scratch.status;
}

/* Is each of these entries a key of that bucket, and is there room for all of them? */
static int may_take(const htc_kv_server *s, uint32_t bucket, htc_bytes entries)
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
    return r.status == HTC_OK && room_for(s, 0, size + 128);
}

static htc_status stage_entries(htc_kv_server *s, char area, uint64_t number, htc_bytes entries)
{
    htc_reader   r = htc_reader_of(entries);
    htc_bytes    key, bytes;
    htc__kv_cell cell;
    htc_status   status = HTC_OK;
    while (status == HTC_OK && htc__kv_entry_read(&r, &key, &bytes, &cell)) {
        htc__kv_name name = htc__kv_name_of(area, &number, key);
        status = htc__kv_stage(s, htc__kv_name_bytes(&name), bytes);
    }
    return status;
}

static void say_installed(htc_kv_server *s, uint64_t to, const htc__kv_page *page, uint32_t pages)
{
    htc__kv_cluster *c = s->cluster;
    htc__kv_page     back = { .number = page->number, .bucket = page->bucket, .page = pages };
    touch_hold(s, page->bucket);
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
    if (status == HTC_OK && !room_for(s, c->buckets / 8, 2 * bytes.len))
        status = HTC_EBUSY;
    if (status == HTC_OK) {
        c->own_hold = htc__kv_hold_first(map->own_epoch, map->own_epoch);
        status = stage_hold(s, HTC__KV_OWN_BUCKET);
    }
    if (status == HTC_OK) /* or the next life would not know whom to ask for the map */
        status = htc__kv_cluster_map_keep(s, htc_buf_bytes(&bytes), version);
    if (status == HTC_OK)
        status = htc__kv_cluster_put(s, htc__kv_map_key(), &cell);
    htc_buf_free(&bytes);
    return status;
}

static int map_is_late(const htc__kv_cluster *c)
{
    return c->own_hold.epoch < c->map->own_epoch && htc__kv_route_has(c, HTC__KV_OWN_BUCKET, c->id);
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
    if (c->own_hold.epoch < page->number) {
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
    htc__kv_hold    *hold = hold_of(c, page->bucket), next = *hold;
    htc_status       status = HTC_OK;
    uint64_t         before = hold->arriving;
    unsigned         duties = htc__kv_hold_install(&next, page->number, page->page, page->last);
    if (duties & HTC__KV_HOLD_TAKE)
        status = stage_floors(s, area_of(page->bucket, page->number), &page->floors);
    if (status == HTC_OK && (duties & HTC__KV_HOLD_TAKE))
        status = stage_entries(s, 'i', area_of(page->bucket, page->number), page->entries);
    if (status == HTC_OK && (duties & HTC__KV_HOLD_STORE)) {
        *hold = next;
        status = stage_hold(s, page->bucket);
    }
    if (status == HTC_OK && (duties & HTC__KV_HOLD_CLEAR))
        sweep_up(s, 'i', before);
    if (status == HTC_OK && (duties & HTC__KV_HOLD_YES))
        say_installed(s, from, page, hold->epoch >= page->number ? page->page + 1 : hold->pages);
    return status;
}

void htc__kv_cluster_on_install(htc_kv_server *s, uint64_t from, htc_bytes item)
{
    htc__kv_cluster *c = s->cluster;
    htc__kv_page     page;
    if (htc__kv_install_read(item, &page) != HTC_OK || !hold_of(c, page.bucket) || changes_places(c, page.bucket) ||
        !may_take(s, page.bucket, page.entries))
        return;
    s->touched = 0;
    htc__kv_cluster_moving_heard(s, from, page.number);
    htc_status status =
        page.bucket == HTC__KV_OWN_BUCKET ? install_map(s, from, &page) : install(s, from, &page);
    if (status != HTC_OK)
        htc__kv_cluster_broken(s, status);
}

/* ---------------------------------------------------------------- content changes places */

/* Names of cells, so many that there may be more. */
typedef struct gathered {
    const htc__kv_cluster *c;
    uint32_t               bucket;
    char                   area;
    uint64_t               number;
    int                    values;
    size_t                 count, looked;
    htc_buf                bytes; /* bytes name, bytes value */
    htc__kv_name           last;
    int                    more;
} gathered;

static int gather(void *visitor, htc_bytes name, htc_bytes value)
{
    gathered *g = visitor;
    char      kind = (char)((const uint8_t *)name.data)[0];
    if (kind != g->area || (kind != 'k' && htc__kv_name_number(name) != g->number))
        return 0;
    if (g->count == SLICE_KEYS || g->looked == SLICE_LOOK || g->bytes.len > SLICE_BYTES) {
        g->more = 1;
        return 0;
    }
    g->looked++;
    g->last.len = name.len;
    memcpy(g->last.data, name.data, name.len);
    if (kind == 'k' &&
        htc__kv_cluster_bucket(g->c, (htc_bytes){ (const uint8_t *)name.data + 1, name.len - 1 }) != g->bucket)
        return 1;
    g->count++;
    htc_put_bytes(&g->bytes, name);
    htc_put_bytes(&g->bytes, g->values && value.data ? value : (htc_bytes){ NULL, 0 });
    return g->bytes.status == HTC_OK;
}

static htc_status gather_some(htc_kv_server *s, const htc__kv_name *from, gathered *g)
{
    g->c = s->cluster;
    htc_buf_init(&g->bytes, &s->env, 0);
    htc_status status = htc__kv_scan(s, htc__kv_name_bytes(from), gather, g);
    return status == HTC_OK ? g->bytes.status : status;
}

/* Where the next look begins. */
static void go_behind(job *j, const gathered *g)
{
    j->from = g->last;
    j->from.data[j->from.len++] = 0;
}

static void next_phase(job *j, phase next)
{
    j->phase = next;
    j->from = next == NEW_KEYS || next == LEFT_OVER ? htc__kv_name_of(j->area, &j->number, (htc_bytes){ NULL, 0 })
                                                    : htc__kv_name_of('k', NULL, (htc_bytes){ NULL, 0 });
}

/* Is it among what has arrived? */
static int has_arrived(htc_kv_server *s, const job *j, htc_bytes key)
{
    htc__kv_name name = htc__kv_name_of(j->area, &j->number, key);
    htc_bytes    value;
    return j->area && htc__kv_read(s, htc__kv_name_bytes(&name), &value) == HTC_OK;
}

/* HTC_EBUSY: later, there is no room. */
static htc_status drop_old(htc_kv_server *s, job *j)
{
    gathered   g = { .bucket = j->bucket, .area = 'k' };
    htc_status status = gather_some(s, &j->from, &g);
    htc_reader r = htc_reader_of(htc_buf_bytes(&g.bytes));
    for (size_t i = 0; status == HTC_OK && i < g.count; i++) {
        htc_bytes name = htc_get_bytes(&r), key = { (const uint8_t *)name.data + 1, name.len - 1 };
        htc_get_bytes(&r);
        if (has_arrived(s, j, key))
            continue;
        status = room_for(s, key.len, 0) ? htc__kv_cluster_put(s, key, NULL) : HTC_EBUSY;
    }
    htc_buf_free(&g.bytes);
    if (status == HTC_OK && g.more)
        go_behind(j, &g);
    else if (status == HTC_OK)
        next_phase(j, j->area ? NEW_KEYS : LAST_STEP);
    return status;
}

static htc_status put_new(htc_kv_server *s, job *j)
{
    gathered   g = { .area = j->area, .number = j->number, .values = 1 };
    htc_status status = gather_some(s, &j->from, &g);
    htc_reader r = htc_reader_of(htc_buf_bytes(&g.bytes));
    for (size_t i = 0; status == HTC_OK && i < g.count; i++) {
        htc_bytes    name = htc_get_bytes(&r), value = htc_get_bytes(&r);
        htc_bytes    key = { (const uint8_t *)name.data + 9, name.len - 9 };
        htc__kv_cell cell;
        status = htc__kv_cell_read(value, NULL, &cell); /* damaged meanwhile: nobody can say what it was */
        if (status == HTC_OK)
            status = room_for(s, key.len, value.len) ? htc__kv_cluster_put(s, key, &cell) : HTC_EBUSY;
    }
    htc_buf_free(&g.bytes);
    if (status == HTC_OK && g.more)
        go_behind(j, &g);
    else if (status == HTC_OK)
        next_phase(j, LAST_STEP);
    return status;
}

static htc_status drop_area(htc_kv_server *s, job *j)
{
    gathered   g = { .area = j->area, .number = j->number };
    htc_status status = gather_some(s, &j->from, &g);
    htc_reader r = htc_reader_of(htc_buf_bytes(&g.bytes));
    for (size_t i = 0; status == HTC_OK && i < g.count; i++) {
        htc_bytes name = htc_get_bytes(&r);
        htc_get_bytes(&r);
        status = room_for(s, name.len, 0) ? htc__kv_stage_drop(s, name) : HTC_EBUSY;
    }
    htc_buf_free(&g.bytes);
    if (status == HTC_OK && g.more) {
        go_behind(j, &g);
    } else if (status == HTC_OK) {
        htc__kv_name floors = htc__kv_name_of('j', &j->number, (htc_bytes){ NULL, 0 });
        status = j->area == 'i' ? htc__kv_stage_drop(s, htc__kv_name_bytes(&floors)) : HTC_OK;
        j->busy = 0;
    }
    return status == HTC_ENOTFOUND ? HTC_OK : status;
}

static htc_status floors_of(htc_kv_server *s, const job *j, htc__kv_floors *floors)
{
    htc__kv_name name = htc__kv_name_of('j', &j->number, (htc_bytes){ NULL, 0 });
    htc_bytes    bytes;
    *floors = j->floors;
    if (j->area != 'i')
        return HTC_OK;
    htc_status status = htc__kv_read(s, htc__kv_name_bytes(&name), &bytes);
    if (status != HTC_OK)
        return status == HTC_ENOTFOUND ? HTC_ECORRUPT : status;
    htc_reader r = htc_reader_of(bytes);
    *floors = htc__kv_floors_read(&r);
    return htc_reader_done(&r) == HTC_OK ? HTC_OK : HTC_ECORRUPT;
}

/* From here on it is served, if the map still says so. */
static htc_status last_step(htc_kv_server *s, job *j)
{
    htc__kv_cluster     *c = s->cluster;
    htc__kv_hold        *hold = &c->hold[j->bucket], next = *hold;
    const htc__kv_route *route = &c->route[j->bucket];
    htc__kv_floors       floors = { 0 };
    htc_status           status = j->area ? floors_of(s, j, &floors) : HTC_OK;
    if (status != HTC_OK)
        return status;
    if (!room_for(s, 0, 0))
        return HTC_EBUSY;
    unsigned duties = j->area == 'i'   ? htc__kv_hold_learn(&next, route->epoch, route->image)
                      : j->area == 'y' ? htc__kv_hold_copied(&next, j->number, route->image)
                                       : 0;
    int      still = j->area == 'i' ? (duties & HTC__KV_HOLD_BECOME) != 0 : j->number == route->epoch;
    if (j->area && !(still && htc__kv_route_has(c, j->bucket, c->id))) {
        htc__kv_cluster_learn(s, j->bucket); /* the map has gone on */
    } else {
        if (j->area)
            *hold = next;
        hold->held = j->area != 0;
        set_todo(s, j->bucket, j->area ? 0 : (uint8_t)(c->holding->todo[j->bucket] & ~GO));
        status = stage_hold(s, j->bucket);
        if (status == HTC_OK)
            status = htc__kv_cluster_floors_put(s, j->bucket, &floors);
    }
    if (j->area && !HTC__BROKEN(images_mixed))
        next_phase(j, LEFT_OVER);
    else
        j->busy = 0;
    return status;
}

static htc_status slice(htc_kv_server *s, job *j)
{
    switch (j->phase) {
    case OLD_KEYS:
        return drop_old(s, j);
    case NEW_KEYS:
        return put_new(s, j);
    case LAST_STEP:
        return last_step(s, j);
    case LEFT_OVER:
        return drop_area(s, j);
    }
    return HTC_EINTERNAL;
}

/* What there was is not shown to anybody any more, and not served after a restart that knows an older map. */
static htc_status begin_job(htc_kv_server *s, uint32_t bucket, char area, uint64_t number)
{
    htc__kv_cluster *c = s->cluster;
    htc__kv_hold    *hold = &c->hold[bucket];
    job             *j = &c->holding->job;
    htc_status       status = HTC_OK;
    if (!room_for(s, 0, 0))
        return HTC_EBUSY;
    if (hold->held) {
        hold->sealed = hold->sealed > hold->epoch ? hold->sealed : hold->epoch;
        status = stage_hold(s, bucket);
    }
    *j = (job){ .busy = 1, .bucket = bucket, .area = area, .number = number };
    if (area == 'y') {
        j->floors = c->holding->copy.floors;
        c->holding->copy.busy = 0;
    }
    next_phase(j, OLD_KEYS);
    return status;
}

static htc_status begin_next(htc_kv_server *s)
{
    htc__kv_cluster *c = s->cluster;
    holding         *h = c->holding;
    if (h->copy.busy && h->copy.whole)
        return begin_job(s, h->copy.bucket, 'y', h->copy.epoch);
    for (uint32_t i = 0; h->moves && i < c->buckets; i++) {
        uint32_t b = h->next;
        h->next = (h->next + 1) % c->buckets;
        if (h->todo[b] & TAKE_UP)
            return begin_job(s, b, 'i', area_of(b, c->hold[b].arriving));
        if (h->todo[b] & GO)
            return begin_job(s, b, 0, 0);
    }
    if (h->sweep_count == 0)
        return HTC_AGAIN;
    sweep x = h->sweeps[--h->sweep_count];
    h->job = (job){ .busy = 1, .area = x.area, .number = x.number };
    next_phase(&h->job, LEFT_OVER);
    return HTC_OK;
}

/* ---------------------------------------------------------------- late: copied from one that serves it */

static void ask_for_copy(htc_kv_server *s)
{
    htc__kv_cluster     *c = s->cluster;
    copying             *y = &c->holding->copy;
    const htc__kv_route *route = &c->route[y->bucket];
    htc__kv_seal_ask         ask = { .number = y->epoch, .epoch = y->epoch, .bucket = y->bucket };
    ask.after = (htc_bytes){ y->after, y->after_len };
    uint32_t at = route->peer[y->asked++ % route->n];
    if (at == c->self)
        at = route->peer[y->asked++ % route->n];
    y->again_at = s->now + 4 * (s->options.member_retry_ns ? s->options.member_retry_ns : 50 * HTC_MS);
    htc_buf_clear(&c->scratch);
    htc__kv_seal_ask_write(&c->scratch, &ask);
    if (c->scratch.status == HTC_OK)
        htc__kv_cluster_say(s, c->peers[at].id, HTC__KV_ITEM_COPY, htc_buf_bytes(&c->scratch));
}

static void begin_copy(htc_kv_server *s)
{
    htc__kv_cluster *c = s->cluster;
    holding         *h = c->holding;
    for (uint32_t i = 0; i < c->buckets; i++) {
        uint32_t b = h->next_late;
        h->next_late = (h->next_late + 1) % c->buckets;
        if (!(h->todo[b] & COPY))
            continue;
        h->copy = (copying){ .busy = 1, .bucket = b, .epoch = c->route[b].epoch };
        h->copy.asked = (uint32_t)htc_rng_below(s->env.rng, c->route[b].n);
        ask_for_copy(s);
        return;
    }
}

/* The last key of a page that was looked through. */
static void keep_last(copying *y, htc_bytes entries)
{
    htc_reader   r = htc_reader_of(entries);
    htc_bytes    key, bytes;
    htc__kv_cell cell;
    while (htc__kv_entry_read(&r, &key, &bytes, &cell)) {
        memcpy(y->after, key.data, key.len);
        y->after_len = key.len;
    }
}

void htc__kv_cluster_on_copied(htc_kv_server *s, uint64_t from, htc_bytes item)
{
    htc__kv_cluster *c = s->cluster;
    copying         *y = &c->holding->copy;
    htc__kv_page     page;
    (void)from;
    if (htc__kv_shown_read(item, &page) != HTC_OK || !y->busy || y->whole || page.bucket != y->bucket ||
        page.number != y->epoch || !htc_bytes_equal(page.after, (htc_bytes){ y->after, y->after_len }) ||
        !may_take(s, page.bucket, page.entries) || (!page.last && page.entries.len == 0))
        return;
    htc_status status = stage_entries(s, 'y', y->epoch, page.entries);
    if (status != HTC_OK) {
        htc__kv_cluster_broken(s, status);
        return;
    }
    y->floors.version = page.floors.version > y->floors.version ? page.floors.version : y->floors.version;
    y->floors.ballot = htc__kv_ballot_max(y->floors.ballot, page.floors.ballot);
    keep_last(y, page.entries);
    y->whole = page.last;
    c->counts.copied += page.last;
    y->asked += c->route[y->bucket].n - 1; /* the same one again */
    if (!page.last)
        ask_for_copy(s);
}

static void copy_on(htc_kv_server *s)
{
    htc__kv_cluster *c = s->cluster;
    holding         *h = c->holding;
    copying         *y = &h->copy;
    if (y->busy && (!(h->todo[y->bucket] & COPY) || c->route[y->bucket].epoch != y->epoch)) {
        y->busy = 0;
        sweep_up(s, 'y', y->epoch);
    }
    if (y->busy && !y->whole && s->now >= y->again_at)
        ask_for_copy(s);
    if (!y->busy && h->late && !(h->job.busy && h->job.area == 'y'))
        begin_copy(s);
}

/* ---------------------------------------------------------------- time */

void htc__kv_cluster_holds_tick(htc_kv_server *s)
{
    htc__kv_cluster *c = s->cluster;
    holding         *h = c->holding;
    if (!c->map || s->now < h->at)
        return;
    if (map_is_late(c)) {
        htc_status status = hold_map(s, c->map, c->map_version);
        if (status == HTC_EBUSY)
            h->at = s->now + HTC__KV_ROOM_AGAIN;
        else if (status != HTC_OK)
            htc__kv_cluster_broken(s, status);
    }
    copy_on(s);
    for (int i = 0; i < SLICES && s->broken == HTC_OK; i++) {
        htc_status status = h->job.busy ? slice(s, &h->job) : begin_next(s);
        if (status == HTC_EBUSY)
            h->at = s->now + HTC__KV_ROOM_AGAIN;
        else if (status != HTC_OK && status != HTC_AGAIN)
            htc__kv_cluster_broken(s, status);
        if (status != HTC_OK)
            return;
    }
}

htc_ns htc__kv_cluster_holds_deadline(const htc_kv_server *s)
{
    const htc__kv_cluster *c = s->cluster;
    const holding         *h = c->holding;
    if (!c->map)
        return HTC_NEVER;
    if (map_is_late(c) || h->job.busy || h->moves || h->sweep_count || (h->copy.busy && h->copy.whole) || (h->late && !h->copy.busy))
        return h->at;
    return h->copy.busy ? h->copy.again_at > h->at ? h->copy.again_at : h->at : HTC_NEVER;
}

/* What it had begun is begun anew. */
void htc__kv_cluster_holds_undone(htc_kv_server *s)
{
    htc__kv_cluster *c = s->cluster;
    if (!c->map)
        return;
    c->holding->job.busy = 0;
    c->holding->copy.busy = 0;
    htc_status status = htc__kv_cluster_holds_load(s);
    if (status != HTC_OK)
        htc__kv_cluster_broken(s, status);
}
