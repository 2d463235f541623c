/* What this owner holds of eventual keys: records, what is merged into them, and an index of their digests by bucket, leaf and key, in
 * memory: a bucket is compared without a look at its records. */
#include "kvs/eventual/eventual.h"

#include "core/fault.h"
#include "kvs/eventual/recovery.h"

int htc__kv_space_serves(htc_kv_server *s, uint32_t bucket)
{
    return htc__kv_cluster_serves(s, bucket, s->cluster->route[bucket].epoch);
}

/* ---------------------------------------------------------------- the index */

void htc__kv_index_name_of(const htc_kv_server *s, htc_bytes key, htc__kv_index_name *name)
{
    const htc__kv_cluster *c = s->cluster;
    uint64_t               place = htc__kv_place(c->seed, key);
    uint32_t               bucket = htc_ring_bucket(c->map->before, place);
    for (int i = 0; i < 4; i++)
        name->data[i] = (uint8_t)(bucket >> (24 - 8 * i));
    name->data[4] = (uint8_t)htc__digest_leaf(place, s->options.bits);
    memcpy(name->data + 5, key.data, key.len);
    name->len = 5 + key.len;
}

htc__node *htc__kv_index_seek(const htc_kv_server *s, uint32_t bucket)
{
    uint8_t at[4] = { (uint8_t)(bucket >> 24), (uint8_t)(bucket >> 16), (uint8_t)(bucket >> 8), (uint8_t)bucket };
    return htc__table_seek(&s->cluster->eventual->index, (htc_bytes){ at, sizeof at });
}

static int only_deletions(const htc__siblings *a)
{
    for (uint32_t i = 0; i < a->values; i++)
        if (!a->value[i].deleted)
            return 0;
    return 1;
}

/* The node of the key, made if there is none; its value is to be set. */
static htc__kv_indexed *index_at(htc_kv_server *s, htc_bytes key)
{
    htc__kv_eventual  *e = s->cluster->eventual;
    htc__kv_index_name name;
    htc__kv_index_name_of(s, key, &name);
    htc__node *node = htc__table_find(&e->index, htc__kv_index_bytes(&name));
    if (!node) {
        node = htc__table_make(&e->index, htc__kv_index_bytes(&name), sizeof(htc__kv_indexed));
        if (!node)
            return NULL;
        htc__table_link(&e->index, node);
        ((htc__kv_indexed *)htc__node_value(node))->since = HTC_NEVER;
    }
    return htc__node_value(node);
}

static void index_set(htc_kv_server *s, htc__kv_indexed *at, uint64_t digest, int deleted)
{
    s->cluster->eventual->deleted += (uint64_t)(deleted != 0) - (uint64_t)(at->since != HTC_NEVER);
    at->rests = at->digest == digest ? at->rests : 0;
    at->digest = digest;
    at->since = !deleted ? HTC_NEVER : at->since == HTC_NEVER ? s->now : at->since;
}

/* ---------------------------------------------------------------- records */

uint64_t htc__kv_state_digest(htc_bytes state)
{
    return state.len ? htc_hash64(state, 0) | 1 : 0;
}

static htc_status open_record(htc_bytes bytes, htc_bytes *state)
{
    if (!bytes.data || bytes.len < 2 || *(const uint8_t *)bytes.data != HTC__KV_EVENTUAL_FORMAT)
        return HTC_ECORRUPT;
    *state = (htc_bytes){ (const uint8_t *)bytes.data + 1, bytes.len - 1 };
    return HTC_OK;
}

static void note_damaged(htc_kv_server *s, htc_bytes key)
{
    htc__kv_index_name name;
    htc__kv_index_name_of(s, key, &name);
    htc__node *node = htc__table_find(&s->cluster->eventual->index, htc__kv_index_bytes(&name));
    if (!node)
        return;
    index_set(s, htc__node_value(node), HTC__KV_DAMAGED, 0);
    if (htc__kv_recovery_found(s, key, 0) != HTC_OK)
        htc__kv_cluster_broken(s, HTC_ENOMEM);
}

htc_status htc__kv_backlog_state(htc_kv_server *s, htc_bytes key, htc_bytes *state)
{
    htc__kv_name name = htc__kv_name_of(HTC__SCHEMA_SIBLINGS, NULL, key);
    htc_bytes    bytes;
    htc_status   status = htc__kv_read(s, htc__kv_name_bytes(&name), &bytes);
    *state = (htc_bytes){ NULL, 0 };
    if (status == HTC_OK)
        status = open_record(bytes, state);
    if (status == HTC_ECORRUPT)
        note_damaged(s, key);
    return status;
}

htc_status htc__kv_eventual_hold(htc_kv_server *s, htc_bytes key, const htc__siblings *siblings)
{
    htc__kv_eventual *e = s->cluster->eventual;
    htc__kv_name      name = htc__kv_name_of(HTC__SCHEMA_SIBLINGS, NULL, key);
    htc__kv_indexed  *at = index_at(s, key);
    htc_buf_clear(&e->bytes);
    htc_put_u8(&e->bytes, HTC__KV_EVENTUAL_FORMAT);
    htc__siblings_write(&e->bytes, siblings);
    if (!at || e->bytes.status != HTC_OK)
        return HTC_ENOMEM;
    htc_status status = htc__kv_stage(s, htc__kv_name_bytes(&name), htc_buf_bytes(&e->bytes));
    if (status != HTC_OK)
        return status;
    index_set(s, at, htc__kv_state_digest((htc_bytes){ e->bytes.data + 1, e->bytes.len - 1 }), only_deletions(siblings));
    htc__kv_recovery_over(s, key);
    return HTC_OK;
}

htc_status htc__kv_take_in(htc_kv_server *s, htc_bytes key, htc_bytes state)
{
    htc__kv_eventual *e = s->cluster->eventual;
    htc_bytes         held;
    htc_status        status = htc__kv_backlog_state(s, key, &held);
    if (status != HTC_OK && status != HTC_ENOTFOUND)
        return status;
    htc_buf_clear(&e->other); /* values are borrowed from what is held, which moves */
    htc_put_raw(&e->other, held);
    if (e->other.status != HTC_OK)
        return HTC_ENOMEM;
    if (htc__siblings_read(htc_buf_bytes(&e->other), &e->a) != HTC_OK)
        return HTC_ECORRUPT;
    if (htc__siblings_read(state, &e->b) != HTC_OK)
        return HTC_EPROTO;
    htc__causal order = htc__siblings_compare(&e->b, &e->a);
    if (order == HTC__CAUSAL_SAME || order == HTC__CAUSAL_BEFORE)
        return HTC_OK;
    if (htc__kv_full(s))
        return HTC_EBUSY;
    if ((status = htc__siblings_merge(&e->c, &e->a, &e->b)) == HTC_OK)
        status = htc__kv_room(s, key.len, held.len + state.len);
    return status == HTC_OK ? htc__kv_eventual_hold(s, key, &e->c) : status;
}

void htc__kv_eventual_count(htc_kv_server *s, htc_kv_result *result)
{
    const htc__kv_eventual *e = s->cluster->eventual;
    s->stats.reads++;
    *result = (htc_kv_result){ .size = sizeof(htc_kv_result), .op = HTC_KV_COUNT };
    if (!e)
        return;
    result->number = (int64_t)(e->index.count - e->deleted);
    result->version = e->spaces;
}

typedef struct listing {
    htc_kv_server       *s;
    const htc_kv_request *q;
    htc_kv_result       *result;
    uint32_t             limit;
    int                  more;
} listing;

/* Also one that is damaged: whoever asks for it is told. */
static int list_one(void *visitor, htc_bytes name, htc_bytes value)
{
    listing       *l = visitor;
    htc_kv_server *s = l->s;
    htc_bytes      key = { (const uint8_t *)name.data + 1, name.len - 1 };
    (void)value;
    if (!htc__schema_is(name, HTC__SCHEMA_SIBLINGS) || key.len < l->q->key.len || memcmp(key.data, l->q->key.data, l->q->key.len) != 0)
        return 0;
    if (l->result->items == l->limit) {
        l->more = 1;
        return 0;
    }
    htc__kv_item_write(&s->scratch_items, key, 0, (htc_bytes){ NULL, 0 });
    l->result->items++;
    s->page_last = htc__kv_name_of(HTC__SCHEMA_SIBLINGS, NULL, key);
    return s->scratch_items.status == HTC_OK;
}

void htc__kv_eventual_list(htc_kv_server *s, const htc_kv_request *q, htc_kv_result *result)
{
    listing      l = { .s = s, .q = q, .result = result, .limit = q->limit ? q->limit : 1000 };
    int          behind = q->cursor.len && htc_bytes_compare(q->cursor, q->key) >= 0;
    htc__kv_name from = htc__kv_name_of(HTC__SCHEMA_SIBLINGS, NULL, behind ? q->cursor : q->key);
    s->stats.reads++;
    *result = (htc_kv_result){ .size = sizeof(htc_kv_result), .op = HTC_KV_SCAN, .version = s->cluster->id };
    if (!s->cluster->eventual)
        return;
    if (behind)
        from.data[from.len++] = 0;
    htc_buf_clear(&s->scratch_items);
    result->status = htc__kv_scan(s, htc__kv_name_bytes(&from), list_one, &l);
    if (result->status == HTC_OK || result->status == HTC_ENOTFOUND)
        result->status = s->scratch_items.status;
    if (s->scratch_items.status == HTC_ENOMEM)
        htc__kv_cluster_broken(s, HTC_ENOMEM);
    result->items_bytes = htc_buf_bytes(&s->scratch_items);
    if (l.more)
        result->cursor = (htc_bytes){ s->page_last.data + 1, s->page_last.len - 1 };
}

/* ---------------------------------------------------------------- between owners */

/* A sealed owner may merge what it is told by one that owns none of it: no answer to a client counts on that, and it is kept, or offered to who
 * comes next. */
static int takes_late(htc_kv_server *s, uint64_t from, const htc__kv_copy *copy)
{
    const htc__kv_cluster *c = s->cluster;
    uint64_t               owner[HTC_RING_OWNERS_MAX];
    uint32_t               bucket = htc__kv_cluster_bucket(c, copy->key);
    uint32_t               mine, n = htc__kv_space_owners(s, copy->key, owner, &mine);
    for (uint32_t i = 0; i < n; i++)
        if (owner[i] == from)
            return 0;
    return bucket < c->buckets && copy->epoch == c->route[bucket].epoch && mine < n && htc__kv_bucket_state_has(&c->hold[bucket], copy->epoch);
}

int htc__kv_eventual_answers(htc_kv_server *s, uint64_t from, const htc__kv_copy *copy)
{
    uint64_t owner[HTC_RING_OWNERS_MAX];
    uint32_t bucket = htc__kv_cluster_bucket(s->cluster, copy->key);
    uint32_t mine, n = htc__kv_space_owners(s, copy->key, owner, &mine);
    return bucket < s->cluster->buckets && htc__kv_cluster_epoch_is(s, from, bucket, copy->epoch) && mine < n &&
           htc__kv_space_serves(s, bucket);
}

static void say_late(htc_kv_server *s, uint64_t to, uint8_t kind, const htc__kv_copy *copy)
{
    htc_buf_clear(&s->cluster->scratch);
    htc__kv_copy_write(&s->cluster->scratch, kind, copy);
    htc__kv_cluster_reply(s, to, kind);
}

static void note_failure(htc_kv_server *s, htc_status status)
{
    if (status == HTC_ENOMEM || status == HTC_EIO)
        htc__kv_cluster_broken(s, status);
}

void htc__kv_say_state(htc_kv_server *s, uint64_t to, uint64_t tag, htc_bytes key)
{
    htc__kv_copy copy = { .tag = tag, .key = key };
    s->touched = 0;
    htc_status status = htc__kv_backlog_state(s, key, &copy.state);
    if (status == HTC_OK)
        htc__kv_copy_say(s, to, HTC__KV_ITEM_STORE, &copy, !HTC__BROKEN(dot_reused));
    note_failure(s, status);
}

void htc__kv_on_fetch(htc_kv_server *s, uint64_t from, const htc__kv_copy *copy)
{
    htc__kv_copy answer = { .tag = copy->tag };
    if (!htc__kv_eventual_answers(s, from, copy))
        return;
    s->touched = 0;
    htc_status status = htc__kv_backlog_state(s, copy->key, &answer.state);
    note_failure(s, status);
    if (status != HTC_OK && status != HTC_ENOTFOUND)
        return;
    if (copy->digest && htc__kv_state_digest(answer.state) == copy->digest) {
        answer.flag = 1;
        answer.state.len = 0;
    }
    say_late(s, from, HTC__KV_ITEM_FETCHED, &answer);
}

/* What cannot be stored now (no room, a damaged record) is as if it had been lost: it is said again, or found by comparing. */
void htc__kv_on_store(htc_kv_server *s, uint64_t from, const htc__kv_copy *copy)
{
    if (!takes_late(s, from, copy) && !htc__kv_eventual_answers(s, from, copy))
        return;
    s->touched = 0;
    htc_status status = htc__kv_take_in(s, copy->key, copy->state);
    note_failure(s, status);
    if (status == HTC_OK && copy->tag)
        say_late(s, from, HTC__KV_ITEM_STORED, &(htc__kv_copy){ .tag = copy->tag });
}

/* ---------------------------------------------------------------- life */

typedef struct loading {
    htc_kv_server *s;
    htc_status     status;
} loading;

static int load_one(void *visitor, htc_bytes name, htc_bytes value)
{
    loading          *l = visitor;
    htc_kv_server    *s = l->s;
    htc__kv_eventual *e = s->cluster->eventual;
    htc_bytes         key = { (const uint8_t *)name.data + 1, name.len - 1 }, state = { NULL, 0 };
    if (!htc__schema_is(name, HTC__SCHEMA_SIBLINGS))
        return 0;
    if (!htc__kv_space_key_fits(key))
        return 1;
    htc__kv_indexed *at = index_at(s, key);
    if (!at) {
        l->status = HTC_ENOMEM;
        return 0;
    }
    /* A damaged one differs from any other. */
    int sound = open_record(value, &state) == HTC_OK && htc__siblings_read(state, &e->a) == HTC_OK;
    index_set(s, at, sound ? htc__kv_state_digest(state) : HTC__KV_DAMAGED, sound && only_deletions(&e->a));
    l->status = sound ? HTC_OK : htc__kv_recovery_found(s, key, 1);
    return l->status == HTC_OK;
}

/* How long what is deleted has been is not stored: it is counted anew. */
htc_status htc__kv_index_load(htc_kv_server *s)
{
    htc__kv_eventual *e = s->cluster->eventual;
    loading           l = { s, HTC_OK };
    htc_bytes         bytes;
    htc__table_free(&e->index);
    htc__table_init(&e->index, &s->env);
    htc__table_free(&e->damaged);
    htc__table_init(&e->damaged, &s->env);
    e->deleted = e->floor_loaded = 0;
    htc_status status = htc__kv_read(s, htc__schema_name(HTC__SCHEMA_EVENTUAL), &bytes);
    if (status == HTC_OK) {
        htc_reader r = htc_reader_of(bytes);
        if (htc_get_u8(&r) != HTC__KV_EVENTUAL_FORMAT)
            htc_reader_fail(&r);
        e->floor = htc_get_varint(&r);
        if (htc_reader_done(&r) != HTC_OK)
            return HTC_ECORRUPT;
    } else if (status != HTC_ENOTFOUND) {
        return status;
    }
    if (htc__kv_lost_frames(s)) /* higher numbers may be in use */
        e->floor = htc__kv_recovery_above(e->floor);
    if (!s->cluster->map) /* which says in which bucket a key is: htc__kv_eventual_map_known */
        return HTC_OK;
    status = htc__kv_scan(s, htc__schema_name(HTC__SCHEMA_SIBLINGS), load_one, &l);
    return status == HTC_OK ? l.status : status;
}

static htc_status raise_floor(htc_kv_server *s, uint64_t floor)
{
    htc__kv_eventual *e = s->cluster->eventual;
    htc_buf_clear(&e->bytes);
    htc_put_u8(&e->bytes, HTC__KV_EVENTUAL_FORMAT);
    htc_put_varint(&e->bytes, floor);
    htc_status status = e->bytes.status == HTC_OK ? htc__kv_stage(s, htc__schema_name(HTC__SCHEMA_EVENTUAL), htc_buf_bytes(&e->bytes)) : e->bytes.status;
    e->floor = status == HTC_OK ? floor : e->floor;
    return status;
}

htc_status htc__kv_eventual_floor_keep(htc_kv_server *s)
{
    const htc__kv_eventual *e = s->cluster->eventual;
    if (!e)
        return HTC_OK;
    htc_status status = htc__kv_full(s) ? HTC_EBUSY : htc__kv_room(s, 0, 16);
    return status == HTC_OK ? raise_floor(s, e->floor) : status;
}

/* Its numbers are never used again: whoever writes the key next begins above the floor (own_line in eventual/coordinator.c). */
static htc_status drop_below(htc_kv_server *s, htc_bytes key, uint64_t floor)
{
    htc__kv_eventual  *e = s->cluster->eventual;
    htc__kv_name       name = htc__kv_name_of(HTC__SCHEMA_SIBLINGS, NULL, key);
    htc__kv_index_name at;
    htc_status         status = htc__kv_room(s, key.len, 16);
    if (status == HTC_OK)
        status = raise_floor(s, floor);
    if (status == HTC_OK)
        status = htc__kv_stage_drop(s, htc__kv_name_bytes(&name));
    if (status != HTC_OK)
        return status;
    htc__kv_recovery_over(s, key);
    htc__kv_index_name_of(s, key, &at);
    htc__node *node = htc__table_find(&e->index, htc__kv_index_bytes(&at));
    e->deleted -= node && ((htc__kv_indexed *)htc__node_value(node))->since != HTC_NEVER;
    htc__table_remove(&e->index, htc__kv_index_bytes(&at));
    return HTC_OK;
}

htc_status htc__kv_forget(htc_kv_server *s, htc_bytes key)
{
    htc__kv_eventual *e = s->cluster->eventual;
    htc_bytes         state;
    uint64_t          floor = e->floor;
    htc_status        status = htc__kv_backlog_state(s, key, &state);
    if (status == HTC_OK && htc__siblings_read(state, &e->a) != HTC_OK)
        status = HTC_ECORRUPT;
    if (status != HTC_OK)
        return status;
    for (uint32_t i = 0; i < e->a.lines; i++)
        floor = e->a.line[i].counter > floor ? e->a.line[i].counter : floor;
    return drop_below(s, key, floor + 1);
}

htc_status htc__kv_lose(htc_kv_server *s, htc_bytes key)
{
    return drop_below(s, key, htc__kv_recovery_floor(s, key));
}

htc_status htc__kv_recovered(htc_kv_server *s, htc_bytes key, htc_bytes state)
{
    htc__kv_eventual *e = s->cluster->eventual;
    uint64_t          floor = htc__kv_recovery_floor(s, key);
    if (htc__kv_full(s))
        return HTC_EBUSY;
    if (state.len == 0) /* nobody has anything of it */
        return drop_below(s, key, floor);
    htc_status status = htc__siblings_read(state, &e->c);
    if (status == HTC_OK)
        status = htc__kv_room(s, key.len, state.len + 16);
    if (status == HTC_OK && floor > e->floor)
        status = raise_floor(s, floor);
    return status == HTC_OK ? htc__kv_eventual_hold(s, key, &e->c) : status;
}
