/* The operations on keys. */
#include <string.h>

#include "core/util.h"
#include "kvs/server/server.h"

#define SCAN_PAGE_MAX ((size_t)1 << 20)

typedef struct execution {
    htc_kv_server        *s;
    const htc_kv_request *q;
    const htc__kv_stamp  *stamp;
    htc_kv_result        *result;
} execution;

static int grows(const htc__kv_cell *from, const htc__kv_cell *to)
{
    return !to->deleted && (!from->present || from->deleted || to->value.len > from->value.len);
}

/* Why a change that could be made is not. */
static htc_status refused(const execution *x, const htc__kv_cell *from, const htc__kv_cell *to)
{
    htc_kv_server *s = x->s;
    if (s->refuse != HTC_OK)
        return s->refuse;
    if (x->q->op == HTC_KV_PUT && x->q->lease && !htc__kv_lease_alive(s, x->q->lease))
        return HTC_ENOTFOUND;
    if (s->options.memory_max && grows(from, to) && s->cells.ops->used(s->cells.ctx) > s->options.memory_max)
        return HTC_EFULL;
    return (to->deleted ? htc__kv_room : htc__kv_room_to_grow)(s, x->q->key.len, to->value.len);
}

static htc_status change(execution *x)
{
    htc_kv_server  *s = x->s;
    htc__kv_cell    cell;
    htc__kv_changed changed;
    htc_status      status = htc__kv_load(s, x->q->key, x->stamp->client, &cell);
    s->stats.changes++;
    if (status != HTC_OK) {
        x->result->status = status;
        return status == HTC_ECORRUPT ? HTC_OK : status;
    }
    htc__kv_change_within(&cell, x->q, x->stamp, s->clock, s->options.value_max, &s->scratch_items, &changed);
    *x->result = changed.result;
    switch (changed.effect) {
    case HTC__KV_CHANGED:
        break;
    case HTC__KV_UNCHANGED:
        if (changed.result.value.data)
            x->result->ttl = htc__kv_end_left(s, x->q->key, &cell);
        return HTC_OK;
    case HTC__KV_LISTED:
        s->stats.answered_from_list++;
        return HTC_OK;
    case HTC__KV_UNKNOWN:
        s->stats.unknown++;
        return HTC_OK;
    case HTC__KV_NO_MEMORY:
        return HTC_ENOMEM;
    }
    if ((status = refused(x, &cell, &changed.to)) != HTC_OK) {
        *x->result = (htc_kv_result){ .size = sizeof(htc_kv_result), .op = x->q->op, .status = status };
        s->wait = status == HTC_EBUSY;
        return HTC_OK;
    }
    if (changed.result.value.data) { /* what was there before goes with the change */
        htc_buf_clear(&s->scratch_items);
        htc_put_raw(&s->scratch_items, changed.result.value);
        if (s->scratch_items.status != HTC_OK)
            return s->scratch_items.status;
        x->result->value.data = s->scratch_items.len ? s->scratch_items.data : (const void *)"";
    }
    s->clock = changed.to.version;
    return htc__kv_save(s, x->q->key, &changed.to, &cell);
}

/* Apart, so that the plain one stays short. */
static __attribute__((noinline)) htc_status get_in_full(execution *x, htc_status status)
{
    htc__kv_cell cell;
    if (status == HTC_OK || status == HTC_ENOTFOUND)
        status = htc__kv_load(x->s, x->q->key, 0, &cell);
    x->result->status = status;
    if (status != HTC_OK)
        return status == HTC_ECORRUPT ? HTC_OK : status;
    if (!cell.present || cell.deleted) {
        x->result->status = HTC_ENOTFOUND;
        /* Of one whose lease has ended the version is known when it is removed. */
        x->result->version = cell.lease || cell.ttl ? 0 : cell.version;
        return HTC_OK;
    }
    x->result->version = cell.version;
    x->result->value = cell.value;
    x->result->lease = cell.lease;
    x->result->ttl = htc__kv_end_left(x->s, x->q->key, &cell);
    return HTC_OK;
}

static htc_status get(execution *x)
{
    htc_kv_server *s = x->s;
    htc__kv_name   name;
    htc_bytes      bytes;
    htc__kv_name_key(&name, x->q->key);
    htc_status status = htc__kv_read(s, htc__kv_name_bytes(&name), &bytes);
    if (status == HTC_OK && htc__kv_cell_plain(bytes, &x->result->version, &x->result->value)) {
        s->counts.answers[HTC_KV_GET][HTC__KV_FATE_OK]++;
        return HTC_OK;
    }
    status = get_in_full(x, status);
    htc__kv_count_answer(&s->counts, HTC_KV_GET, x->result->status);
    return status;
}

/* Keys whose end has passed, met by one page: they are removed before it is answered. */
#define PAGE_ENDS_MAX 256

typedef struct page {
    execution *x;
    size_t     limit, ended;
    int        more;
} page;

static int add_item(void *visitor, htc_bytes name, htc_bytes value)
{
    page        *p = visitor;
    htc_buf     *b = &p->x->s->scratch_items;
    htc_bytes    key = { (const uint8_t *)name.data + 1, name.len - 1 }, prefix = p->x->q->key;
    htc__kv_cell cell;
    if (!htc__schema_is(name, HTC__SCHEMA_CELL) || key.len < prefix.len ||
        (prefix.len && memcmp(key.data, prefix.data, prefix.len) != 0))
        return 0;
    if (htc__kv_show(p->x->s, key, value, 0, &cell) != HTC_OK) {
        p->x->result->status = HTC_ECORRUPT; /* said, and the rest is read */
        return 1;
    }
    if (cell.deleted && cell.ttl) {
        htc_put_bytes(&p->x->s->scratch, key);
        p->x->s->page_last = htc__kv_name_of(HTC__SCHEMA_CELL, NULL, key);
        p->more = ++p->ended == PAGE_ENDS_MAX;
        return !p->more && p->x->s->scratch.status == HTC_OK;
    }
    if (!cell.present || cell.deleted)
        return 1;
    size_t size = key.len + cell.value.len + 24;
    if (p->x->result->items == p->limit || (p->x->result->items && b->len + size > SCAN_PAGE_MAX)) {
        p->more = 1;
        return 0;
    }
    htc__kv_item_write(b, key, cell.version, cell.value);
    p->x->result->items++;
    p->x->s->page_last = htc__kv_name_of(HTC__SCHEMA_CELL, NULL, key);
    return b->status == HTC_OK;
}

htc_status htc__kv_ends_carry_out(htc_kv_server *s, size_t count)
{
    htc_buf    keys = s->scratch, items = s->scratch_items; /* both are written to meanwhile */
    htc_status status = HTC_OK;
    htc_buf_init(&s->scratch, &s->env, 0);
    htc_buf_init(&s->scratch_items, &s->env, 0);
    htc_reader r = htc_reader_of(htc_buf_bytes(&keys));
    for (size_t i = 0; status == HTC_OK && i < count && htc__kv_room(s, HTC_KV_KEY_MAX, 0) == HTC_OK; i++)
        status = htc__kv_end_carry_out(s, htc_get_bytes(&r));
    htc_buf_free(&s->scratch);
    htc_buf_free(&s->scratch_items);
    s->scratch = keys;
    s->scratch_items = items;
    return status;
}

/* A page begins behind its cursor, the last key of the page before. */
static htc_status scan(execution *x)
{
    htc_kv_server *s = x->s;
    page           p = { .x = x, .limit = x->q->limit ? x->q->limit : 1000 };
    int            behind = htc_bytes_compare(x->q->cursor, x->q->key) >= 0 && x->q->cursor.len;
    htc__kv_name   from = htc__kv_name_of(HTC__SCHEMA_CELL, NULL, behind ? x->q->cursor : x->q->key);
    if (behind)
        from.data[from.len++] = 0;
    htc_buf_clear(&s->scratch_items);
    s->stats.reads++;
    htc_buf_clear(&s->scratch);
    htc_status status = htc__kv_scan(s, htc__kv_name_bytes(&from), add_item, &p);
    if (status == HTC_OK)
        status = s->scratch.status == HTC_OK ? s->scratch_items.status : s->scratch.status;
    if (status == HTC_OK && p.ended && s->refuse == HTC_OK)
        status = htc__kv_ends_carry_out(s, p.ended);
    x->result->items_bytes = htc_buf_bytes(&s->scratch_items);
    if (p.more)
        x->result->cursor = (htc_bytes){ s->page_last.data + 1, s->page_last.len - 1 };
    return status;
}

/* What the newest batch holds: whoever asks for one number of all keys waits for all of them. */
static htc_status count(execution *x)
{
    htc_kv_server *s = x->s;
    s->stats.reads++;
    if (x->q->flags) /* a single member has no namespaces */
        return HTC_OK;
    s->touched = htc__kv_staged(s) ? htc__kv_open(s) : htc__kv_open(s) - 1;
    x->result->number = (int64_t)s->keys;
    return HTC_OK;
}

static htc_status execute_other(execution *x)
{
    switch ((htc_kv_op)x->q->op) {
    case HTC_KV_GET:
        return HTC_EINTERNAL;
    case HTC_KV_SCAN:
        if (x->q->flags & HTC_KV_EVENTUAL)
            return HTC_OK;
        return x->q->flags ? htc__kv_scan_places(x->s, x->q, x->result) : scan(x);
    case HTC_KV_PUT:
    case HTC_KV_DELETE:
    case HTC_KV_APPEND:
    case HTC_KV_CAS_VERSION:
    case HTC_KV_CAS_VALUE:
    case HTC_KV_ADD:
        return change(x);
    case HTC_KV_LEASE_GRANT:
    case HTC_KV_LEASE_RENEW:
    case HTC_KV_LEASE_REVOKE:
        return htc__kv_lease_op(x->s, x->q, x->stamp->client, x->stamp->sequence, x->result);
    case HTC_KV_COUNT:
        return count(x);
    case HTC_KV_MEMBERS:
    case HTC_KV_CHANGE:
        x->result->status = HTC_EUNSUPPORTED; /* there is no map */
        return HTC_OK;
    }
    return HTC_EINTERNAL;
}

/* Counted as if it were answered: whoever holds it back, or does it again, takes that back. */
static __attribute__((noinline)) htc_status execute_counted(execution *x)
{
    htc_status status = execute_other(x);
    htc__kv_count_answer(&x->s->counts, x->q->op, x->result->status);
    return status;
}

int htc__kv_full(const htc_kv_server *s)
{
    return htc__kv_staged(s) > HTC__KV_STAGED_MAX || s->delayed_bytes > HTC__KV_STAGED_MAX;
}

htc_status htc__kv_execute(htc_kv_server *s, const htc_kv_request *request, const htc__kv_stamp *stamp,
                           htc_kv_result *result)
{
    execution x = { .s = s, .q = request, .stamp = stamp, .result = result };
    *result = (htc_kv_result){ .size = sizeof(htc_kv_result), .op = request->op };
    s->touched = 0;
    s->wait = 0;
    return request->op == HTC_KV_GET ? get(&x) : execute_counted(&x);
}
