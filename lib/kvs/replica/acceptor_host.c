/* What is asked of this owner's cells, and the numbers that its proposer may use. */
#include <assert.h>
#include <string.h>

#include "core/fault.h"
#include "kvs/replica/watch.h"
#include "kvs/eventual/eventual.h"

#define CLUSTER_FORMAT 1
/* No member takes so many numbers. */
#define FORGOTTEN (UINT64_C(1) << 40)
/* Replies that wait for the disk: beyond this another one is dropped, as if it had been lost. */
#define LATE_BYTES ((size_t)48 << 20)

/* A reply that waits for its batch. */
typedef struct htc__kv_late_reply {
    struct htc__kv_late_reply *next;
    uint64_t                   batch, to;
    uint8_t                    kind;
    size_t                     len;
    uint8_t                    bytes[];
} htc__kv_late_reply;

struct htc__kv_acceptors {
    htc__kv_late_reply *late, **late_last;
    size_t              late_bytes;
    size_t              floors;                   /* buckets that have any */
    uint64_t            reserving, reserve_batch; /* a number that is being made durable, in this batch; 0: none */
    htc_ns              reserve_at;               /* a batch has failed: it is staged again then */
    uint64_t            reserved;
};

/* ---------------------------------------------------------------- acceptor */

htc_status htc__kv_cluster_floors_load(htc_kv_server *s, uint32_t bucket, htc__kv_floors *floors)
{
    uint64_t  number = bucket;
    htc_bytes bytes;
    *floors = (htc__kv_floors){ 0 };
    if (!s->cluster->acceptors->floors)
        return HTC_OK;
    htc__kv_name name = htc__kv_name_of(HTC__SCHEMA_FLOORS, &number, (htc_bytes){ NULL, 0 });
    htc_status   status = htc__kv_read(s, htc__kv_name_bytes(&name), &bytes);
    if (status == HTC_OK) {
        htc_reader r = htc_reader_of(bytes);
        *floors = htc__kv_floors_read(&r);
        status = htc_reader_done(&r) == HTC_OK ? HTC_OK : HTC_ECORRUPT;
    }
    return status == HTC_ENOTFOUND ? HTC_OK : status;
}

/* An accept shows nothing of the cell that it replaces, and a read shows its bytes as they are. */
static htc_status look_up(htc_kv_server *s, const htc__kv_ask *ask, htc_bytes name, uint32_t bucket, htc__kv_cell *cell,
                       htc__kv_floors *floors, htc_bytes *held)
{
    htc_bytes  bytes;
    int        whole = ask->kind != HTC__KV_ACCEPT && ask->kind != HTC__KV_READ;
    htc_status status = htc__kv_cluster_floors_load(s, bucket, floors);
    if (status != HTC_OK)
        return status;
    status = htc__kv_read(s, name, &bytes);
    if (status == HTC_OK) {
        *held = ask->kind == HTC__KV_READ ? bytes : *held;
        return (whole ? htc__kv_cell_read : htc__kv_cell_head)(bytes, floors, cell);
    }
    *cell = htc__kv_cell_absent(floors);
    return status == HTC_ENOTFOUND ? HTC_OK : status;
}

htc_status htc__kv_cluster_floors_put(htc_kv_server *s, uint32_t bucket, const htc__kv_floors *floors)
{
    uint64_t     number = bucket;
    htc__kv_name of = htc__kv_name_of(HTC__SCHEMA_FLOORS, &number, (htc_bytes){ NULL, 0 });
    htc_buf_clear(&s->scratch);
    htc__kv_floors_write(&s->scratch, floors);
    s->cluster->acceptors->floors++;
    return s->scratch.status == HTC_OK ? htc__kv_stage(s, htc__kv_name_bytes(&of), htc_buf_bytes(&s->scratch))
                                       : s->scratch.status;
}

static htc_status store(htc_kv_server *s, unsigned duties, htc_bytes name, uint32_t bucket, const htc__kv_cell *cell,
                        const htc__kv_floors *floors)
{
    htc_status status = HTC_OK;
    if (duties & HTC__KV_STORE_CELL) {
        htc_buf_clear(&s->scratch);
        htc__kv_cell_write(&s->scratch, cell);
        status = s->scratch.status;
        if (status == HTC_OK)
            status = htc__kv_stage(s, name, htc_buf_bytes(&s->scratch));
    }
    /* The floors stand for what is dropped: they are never behind it, being in the same batch. */
    if (status == HTC_OK && (duties & HTC__KV_STORE_FLOORS))
        status = htc__kv_cluster_floors_put(s, bucket, floors);
    if (status == HTC_OK && (duties & HTC__KV_DROP_CELL))
        status = htc__kv_stage_drop(s, name);
    return status;
}

/* What hangs on a cell that this owner has just accepted. */
static htc_status held(htc_kv_server *s, htc_bytes key, const htc__kv_cell *cell, int had_end, int loading)
{
    uint64_t lease;
    if (!htc__kv_is_lease_key(key, &lease))
        return htc__kv_cluster_end_held(s, key, cell->deleted ? 0 : cell->ttl, cell->term, had_end);
    htc__kv_cluster_lease_held(s, lease, cell, loading);
    return HTC_OK;
}

/* What hung on the cell before. */
typedef struct hung {
    uint64_t lease;
    int      end, grave;
} hung;

static hung hung_on(const htc__kv_cell *cell)
{
    int there = cell->present && !cell->deleted;
    return (hung){ there ? cell->lease : 0, there && cell->ttl, cell->present && cell->deleted };
}

static htc_status hang(htc_kv_server *s, htc_bytes key, const hung *had, const htc__kv_cell *cell)
{
    hung       has = hung_on(cell);
    htc_status status = htc__kv_cluster_tombstone(s, key, had->grave, has.grave);
    return status == HTC_OK ? htc__kv_cluster_bound(s, key, had->lease, has.lease) : status;
}

htc_status htc__kv_cluster_put(htc_kv_server *s, htc_bytes key, const htc__kv_cell *cell)
{
    htc__kv_name   of;
    htc__kv_floors none = { 0 };
    htc__kv_cell   before = htc__kv_cell_absent(&none), absent = before;
    htc_bytes      bytes;
    htc__kv_name_key(&of, key);
    htc_bytes  name = htc__kv_name_bytes(&of);
    htc_status status = htc__kv_read(s, name, &bytes);
    if (status == HTC_OK && htc__kv_cell_read(bytes, NULL, &before) != HTC_OK)
        before = absent; /* damaged: it goes */
    if (status != HTC_OK && status != HTC_ENOTFOUND && status != HTC_ECORRUPT)
        return status;
    hung     had = hung_on(&before);
    unsigned duty = cell ? HTC__KV_STORE_CELL : status == HTC_ENOTFOUND ? 0 : HTC__KV_DROP_CELL;
    if ((status = store(s, duty, name, 0, cell, &none)) != HTC_OK)
        return status;
    if ((cell || htc__kv_route_has(s->cluster, htc__kv_cluster_bucket(s->cluster, key), s->cluster->id)) && !HTC__BROKEN(image_unmarked))
        htc__kv_cluster_changed(s, key, cell);
    cell = cell ? cell : &absent;
    status = held(s, key, cell, had.end, 1);
    return status == HTC_OK ? hang(s, key, &had, cell) : status;
}

void htc__kv_cluster_reply(htc_kv_server *s, uint64_t to, uint8_t kind)
{
    htc__kv_cluster *c = s->cluster;
    if (c->scratch.status != HTC_OK) {
        htc__kv_cluster_broken(s, c->scratch.status);
        return;
    }
    if (s->touched <= htc__kv_stored(s) || HTC__BROKEN(ack_before_sync)) {
        htc__kv_cluster_say(s, to, kind, htc_buf_bytes(&c->scratch));
        return;
    }
    size_t size = sizeof(htc__kv_late_reply) + c->scratch.len;
    if (c->acceptors->late_bytes + size > LATE_BYTES) {
        c->counts.dropped++;
        return;
    }
    htc__kv_late_reply *late = htc__alloc(&s->env, size);
    if (!late) {
        htc__kv_cluster_broken(s, HTC_ENOMEM);
        return;
    }
    late->batch = s->touched;
    late->to = to;
    late->kind = kind;
    late->len = c->scratch.len;
    memcpy(late->bytes, c->scratch.data, c->scratch.len);
    *c->acceptors->late_last = late;
    c->acceptors->late_last = &late->next;
    c->acceptors->late_bytes += size;
}

static void free_late(htc_kv_server *s, htc__kv_late_reply *late)
{
    size_t size = sizeof *late + late->len;
    assert(s->cluster->acceptors->late_bytes >= size);
    s->cluster->acceptors->late_bytes -= size;
    htc__free(&s->env, late, size);
}

/* What only looks needs no room: reads go on while a disk is full, and so do deletions. */
static int can_stage(const htc_kv_server *s, const htc__kv_ask *ask)
{
    int grows = ask->kind == HTC__KV_ACCEPT && !ask->cell.deleted;
    return ask->kind == HTC__KV_READ ||
           (!htc__kv_full(s) && (grows ? htc__kv_room_to_grow : htc__kv_room)(s, ask->key.len, ask->cell.value.len) == HTC_OK);
}

/* An ask that cannot be carried out now (no room, a damaged cell) is as if it had been lost: others may do without this owner. 1: it is held
 * now. */
static int carry_out(htc_kv_server *s, uint64_t from, const htc__kv_ask *ask, int answered)
{
    htc__kv_cell   cell;
    htc__kv_floors floors;
    htc__kv_reply  reply;
    unsigned       duties = 0;
    uint32_t       bucket = htc__kv_cluster_bucket(s->cluster, ask->key);
    if (!htc__kv_cluster_epoch_is(s, from, bucket, ask->epoch))
        return 0;
    if (bucket == HTC__KV_OWN_BUCKET && !htc__kv_cluster_serves(s, bucket, ask->epoch))
        htc__kv_cluster_say_map(s, from); /* who comes next */
    if (!htc__kv_cluster_serves(s, bucket, ask->epoch) || !htc__kv_route_has(s->cluster, bucket, from) || !can_stage(s, ask))
        return 0;
    s->touched = 0;
    htc__kv_name of;
    htc__kv_name_key(&of, ask->key);
    htc_bytes  name = htc__kv_name_bytes(&of), held_as = { NULL, 0 };
    htc_status status = look_up(s, ask, name, bucket, &cell, &floors, &held_as);
    if (status == HTC_OK) {
        hung had = hung_on(&cell);
        duties = htc__kv_acceptor_step(&cell, &floors, ask, &reply);
        reply.held = held_as;
        if (!answered)
            duties &= ~(unsigned)HTC__KV_REPLY;
        htc_buf_clear(&s->cluster->scratch);
        if (duties & HTC__KV_REPLY)
            htc__kv_reply_write(&s->cluster->scratch, &reply); /* first: its value is gone with the next change */
        status = store(s, duties, name, bucket, &cell, &floors);
        if (status == HTC_OK && (duties & HTC__KV_STORE_CELL) && ask->kind == HTC__KV_ACCEPT) {
            if (from == s->cluster->id || !HTC__BROKEN(marked_by_one))
                htc__kv_cluster_changed(s, ask->key, &cell);
            status = held(s, ask->key, &cell, had.end, 0);
        }
        if (status == HTC_OK && ask->kind >= HTC__KV_ACCEPT)
            status = hang(s, ask->key, &had, &cell);
        if (status == HTC_OK && (duties & HTC__KV_REPLY))
            htc__kv_cluster_reply(s, from, HTC__KV_ITEM_REPLY);
    }
    if (status == HTC_ECORRUPT)
        htc__kv_repair_found(s, ask->key);
    if (status == HTC_ENOMEM || status == HTC_EIO)
        htc__kv_cluster_broken(s, status);
    return status == HTC_OK && (duties & HTC__KV_STORE_CELL);
}

static void on_ask(htc_kv_server *s, uint64_t from, htc_bytes item)
{
    htc__kv_ask ask;
    if (htc__kv_ask_read(item, from == s->cluster->id, &ask) == HTC_OK)
        (void)carry_out(s, from, &ask, 1);
}

int htc__kv_cluster_accept_late(htc_kv_server *s, uint64_t from, const htc__kv_ask *ask)
{
    return carry_out(s, from, ask, 0);
}

static void late_stored(htc_kv_server *s)
{
    htc__kv_cluster     *c = s->cluster;
    uint64_t             stored = htc__kv_stored(s);
    htc__kv_late_reply **at = &c->acceptors->late;
    while (*at) {
        htc__kv_late_reply *late = *at;
        if (late->batch > stored) {
            at = &late->next;
            continue;
        }
        *at = late->next;
        htc__kv_cluster_say(s, late->to, late->kind, (htc_bytes){ late->bytes, late->len });
        free_late(s, late);
    }
    c->acceptors->late_last = at;
    if (c->acceptors->reserving && c->acceptors->reserve_batch <= stored) {
        c->acceptors->reserved = c->acceptors->reserving;
        c->acceptors->reserving = 0;
        htc__kv_register_reserved(c->reg, s->now, c->acceptors->reserved);
    }
}

static void late_free(htc_kv_server *s)
{
    for (htc__kv_late_reply *late; (late = s->cluster->acceptors->late);) {
        s->cluster->acceptors->late = late->next;
        free_late(s, late);
    }
    s->cluster->acceptors->late_last = &s->cluster->acceptors->late;
}

/* ---------------------------------------------------------------- numbers, and who this is */

static void stage_self(htc_kv_server *s, uint64_t counter)
{
    htc__kv_cluster *c = s->cluster;
    c->acceptors->reserving = counter;
    if (htc__kv_room(s, 0, 0) != HTC_OK) {
        c->acceptors->reserve_batch = UINT64_MAX;
        c->acceptors->reserve_at = s->now + HTC__KV_ROOM_AGAIN;
        return;
    }
    htc_buf_clear(&s->scratch);
    htc_put_u8(&s->scratch, CLUSTER_FORMAT);
    htc_put_u64(&s->scratch, c->id);
    htc_put_u64(&s->scratch, c->fingerprint);
    htc_put_varint(&s->scratch, counter);
    htc_status status = s->scratch.status;
    if (status == HTC_OK)
        status = htc__kv_stage(s, htc__schema_name(HTC__SCHEMA_IDENTITY), htc_buf_bytes(&s->scratch));
    if (status != HTC_OK)
        htc__kv_cluster_broken(s, status);
    c->acceptors->reserve_batch = htc__kv_open(s);
}

void htc__kv_cluster_reserve(void *ctx, uint64_t counter)
{
    stage_self(ctx, counter);
}

void htc__kv_cluster_undone(htc_kv_server *s)
{
    htc__kv_cluster *c = s->cluster;
    late_free(s); /* what they showed is gone */
    htc_status status = htc__kv_eventual_undone(s);
    if (status != HTC_OK)
        htc__kv_cluster_broken(s, status);
    htc__kv_buckets_undone(s);
    if (!c->acceptors->reserving)
        return;
    c->acceptors->reserve_batch = UINT64_MAX;
    c->acceptors->reserve_at = s->now + HTC_SECOND;
}

static void reserve_again(htc_kv_server *s)
{
    htc__kv_cluster *c = s->cluster;
    if (c->acceptors->reserving && c->acceptors->reserve_batch == UINT64_MAX && s->now >= c->acceptors->reserve_at)
        stage_self(s, c->acceptors->reserving);
}

static int count_floors(void *visitor, htc_bytes name, htc_bytes value)
{
    (void)value;
    *(size_t *)visitor += htc__schema_is(name, HTC__SCHEMA_FLOORS);
    return 0; /* one is enough to look for them */
}

typedef struct accepted {
    uint64_t by, counter;
} accepted;

static int highest_accepted(void *visitor, htc_bytes name, htc_bytes value)
{
    accepted    *highest = visitor;
    htc__kv_cell cell;
    if (!htc__schema_is(name, HTC__SCHEMA_CELL))
        return 1;
    if (value.data && htc__kv_cell_read(value, NULL, &cell) == HTC_OK && cell.accepted.proposer == highest->by &&
        cell.accepted.counter > highest->counter)
        highest->counter = cell.accepted.counter;
    return 0;
}

/* Stands in for the counter that is kept, where that rule is left out: the highest number of its own that a member has accepted itself.
 * Others may have accepted higher ones of it. */
static uint64_t counter_from_cells(htc_kv_server *s)
{
    accepted highest = { .by = s->cluster->id };
    htc__kv_scan(s, htc__schema_name(HTC__SCHEMA_CELL), highest_accepted, &highest);
    return highest.counter;
}

htc_status htc__kv_cluster_load(htc_kv_server *s)
{
    htc__kv_cluster *c = s->cluster;
    htc_bytes        bytes;
    uint64_t         counter = 0;
    htc_status       status = htc__kv_read(s, htc__schema_name(HTC__SCHEMA_META), &bytes);
    if (status == HTC_OK) {
        htc__log(&s->env, HTC_LOG_ERROR, "this store was kept by a single member -> stop");
        return HTC_EFORMAT;
    }
    if (status == HTC_ENOTFOUND)
        status = htc__kv_read(s, htc__schema_name(HTC__SCHEMA_IDENTITY), &bytes);
    if (status == HTC_OK) {
        htc_reader r = htc_reader_of(bytes);
        uint8_t    format = htc_get_u8(&r);
        uint64_t   id = htc_get_u64(&r), fingerprint = htc_get_u64(&r);
        htc_bytes  map;
        counter = htc_get_varint(&r);
        if (htc__kv_read(s, htc__schema_name(HTC__SCHEMA_MAP), &map) == HTC_OK)
            c->fingerprint = fingerprint; /* the members have changed since */
        if (htc_reader_done(&r) != HTC_OK || format != CLUSTER_FORMAT || id != c->id || fingerprint != c->fingerprint) {
            htc__log(&s->env, HTC_LOG_ERROR, "this store was kept by another member, or among others -> stop");
            return HTC_EFORMAT;
        }
    } else if (status != HTC_ENOTFOUND) {
        return status;
    }
    if ((status = htc__kv_scan(s, htc__schema_name(HTC__SCHEMA_FLOORS), count_floors, &c->acceptors->floors)) != HTC_OK ||
        (status = htc__kv_cluster_map_load(s)) != HTC_OK)
        return status;
    if (htc__kv_lost_frames(s)) /* higher ones may be in use */
        counter += FORGOTTEN;
    if (HTC__BROKEN(ballot_reused))
        counter = counter_from_cells(s);
    htc__kv_register_host    host = { .done = htc__kv_cluster_done,
                                      .hand_over = htc__kv_cluster_hand_over,
                                      .reserve = htc__kv_cluster_reserve,
                                      .send = htc__kv_cluster_send,
                                      .ctx = s };
    htc__kv_register_options o = {
        .self = c->id, .counter = counter, .seed = htc_rng_next(s->env.rng), .retry_ns = s->options.member_retry_ns,
        .value_max = s->options.value_max
    };
    for (uint32_t i = 0; i < c->count; i++)
        c->peers[i].heard = s->now;
    /* Answers to what an earlier life has asked may still come: they are not to be taken for answers to this one. */
    c->own_client = htc_rng_next(s->env.rng) | 1;
    c->last_tag = HTC__BROKEN(tag_reused) ? 0 : htc_rng_next(s->env.rng) >> 1;
    if ((status = htc__kv_components_load(s)) != HTC_OK)
        return status;
    return htc__kv_register_create(&s->env, &o, &host, &c->reg);
}

/* ---------------------------------------------------------------- the component */

size_t htc__kv_acceptors_floors(const htc_kv_server *s)
{
    return s->cluster->acceptors->floors;
}

uint64_t htc__kv_acceptors_reserved(const htc_kv_server *s)
{
    return s->cluster->acceptors->reserved;
}

static void tick(htc_kv_server *s)
{
    late_stored(s);
    reserve_again(s);
}

static htc_ns deadline(const htc_kv_server *s)
{
    const struct htc__kv_acceptors *x = s->cluster->acceptors;
    return x->reserving && x->reserve_batch == UINT64_MAX ? x->reserve_at : HTC_NEVER;
}

static void on_item(htc_kv_server *s, uint64_t from, uint8_t kind, htc_bytes item)
{
    (void)kind;
    on_ask(s, from, item);
}

static htc_status make(htc_kv_server *s)
{
    struct htc__kv_acceptors *x = s->cluster->acceptors = htc__alloc(&s->env, sizeof *x);
    if (!x)
        return HTC_ENOMEM;
    x->late_last = &x->late;
    return HTC_OK;
}

static void unmake(htc_kv_server *s)
{
    struct htc__kv_acceptors *x = s->cluster->acceptors;
    if (!x)
        return;
    late_free(s);
    htc__free(&s->env, x, sizeof *x);
    s->cluster->acceptors = NULL;
}

const htc__kv_component htc__kv_component_acceptors = { .make = make, .free = unmake, .tick = tick, .deadline = deadline, .on_item = on_item,
                                              .items = { HTC__KV_ITEM_ASK } };
