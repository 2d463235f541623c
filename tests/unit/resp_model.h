/* A store for tests of the RESP face: an array of keys, looked through from the front; every answer at once, or later in
 * any order, as a seed says. */
#ifndef HTC_TESTS_RESP_MODEL_H
#define HTC_TESTS_RESP_MODEL_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/codec.h"
#include "kvs/storage/cells.h"
#include "kvs/cell/face.h"
#include "kvs/wire/kv_wire.h"

enum { MODEL_KEYS = 4096 };

typedef struct model_key {
    char     key[HTC_KV_KEY_MAX];
    uint8_t *value;
    size_t   key_len, len;
    htc_ns   ttl;
    uint64_t version;
} model_key;

typedef struct model_answer {
    const htc__kv_face *face;
    uint64_t            conn, slot;
    htc_kv_result       a;
    uint8_t            *value, *cursor, *items;
} model_answer;

typedef struct model {
    htc_rng      *rng;  /* NULL: every answer at once */
    model_key    *keys; /* in order of keys */
    size_t        count;
    uint64_t      version;
    model_answer *later;
    size_t        later_count, later_cap;
    int           places; /* SCAN and COUNT are as a log engine has them */
    int           is_busy, is_full; /* for changes; for anything */
    int           alone;  /* it answers as one member alone: transactions of several keys */
    int           outside; /* it has not been let in: it can say nothing yet */
    int           hole;    /* with places: before the first key there is a page without any */
    int           repeated; /* answers are those to requests that were made before */
    const char   *slow;   /* what is asked about this key is answered later, whatever rng says; may be NULL */
    size_t        asked;
    size_t        looked; /* so often it was asked how a key is for a transaction */
    size_t        room_now; /* of values of one transaction, until there is more */
    size_t        room;   /* of values of one transaction */
    htc_status    refuse; /* of every change */
    htc_buf       old, items, cursor;
} model;

static inline void model_init(model *m, htc_rng *rng)
{
    *m = (model){ .rng = rng, .keys = calloc(MODEL_KEYS, sizeof *m->keys), .room = SIZE_MAX, .room_now = SIZE_MAX };
    htc_buf_init(&m->old, NULL, 0);
    htc_buf_init(&m->items, NULL, 0);
    htc_buf_init(&m->cursor, NULL, 0);
}

static inline void model_answer_free(model_answer *l)
{
    free(l->value);
    free(l->cursor);
    free(l->items);
}

static inline void model_free(model *m)
{
    for (size_t i = 0; i < m->count; i++)
        free(m->keys[i].value);
    for (size_t i = 0; i < m->later_count; i++)
        model_answer_free(&m->later[i]);
    free(m->later);
    free(m->keys);
    htc_buf_free(&m->old);
    htc_buf_free(&m->items);
    htc_buf_free(&m->cursor);
}

static inline model_key *model_find(model *m, htc_bytes key)
{
    for (size_t i = 0; i < m->count; i++)
        if (htc_bytes_equal((htc_bytes){ m->keys[i].key, m->keys[i].key_len }, key))
            return &m->keys[i];
    return NULL;
}

static inline model_key *model_make(model *m, htc_bytes key)
{
    size_t i = 0;
    if (m->count == MODEL_KEYS)
        abort();
    while (i < m->count && htc_bytes_compare((htc_bytes){ m->keys[i].key, m->keys[i].key_len }, key) < 0)
        i++;
    memmove(&m->keys[i + 1], &m->keys[i], (m->count - i) * sizeof *m->keys);
    m->count++;
    m->keys[i] = (model_key){ .key_len = key.len };
    memcpy(m->keys[i].key, key.data, key.len);
    return &m->keys[i];
}

static inline void model_set(model *m, model_key *k, htc_bytes value)
{
    uint8_t *copy = malloc(value.len + 1);
    if (value.len)
        memcpy(copy, value.data, value.len);
    free(k->value);
    k->value = copy;
    k->len = value.len;
    k->version = ++m->version;
}

static inline void model_show(const model_key *k, htc_kv_result *a)
{
    if (!k)
        return;
    a->value = (htc_bytes){ k->value, k->len };
    a->version = k->version;
    a->ttl = k->ttl;
}

static inline void model_put(model *m, const htc_kv_request *q, model_key *k, htc_kv_result *a)
{
    if (k && q->flags & HTC_KV_NX) {
        a->status = HTC_MISMATCH;
        model_show(k, a);
        return;
    }
    if (!k && q->flags & (HTC_KV_XX | HTC_KV_TOUCH)) {
        a->status = HTC_ENOTFOUND;
        return;
    }
    if (q->flags & HTC_KV_PERSIST && !k->ttl) {
        a->status = HTC_ENOTFOUND;
        return;
    }
    if (q->flags & HTC_KV_WANT_OLD && k) {
        htc_buf_clear(&m->old);
        htc_put_raw(&m->old, (htc_bytes){ k->value, k->len });
        a->value = htc_buf_bytes(&m->old);
        a->existed = 1;
    }
    if (q->flags & HTC_KV_TOUCH) {
        k->ttl = q->ttl;
        k->version = a->version = ++m->version;
        return;
    }
    k = k ? k : model_make(m, q->key);
    k->ttl = q->flags & HTC_KV_KEEP_TTL ? k->ttl : q->ttl;
    model_set(m, k, q->value);
    a->version = k->version;
}

static inline void model_delete(model *m, const htc_kv_request *q, model_key *k, htc_kv_result *a)
{
    if (q->flags & HTC_KV_IF_VERSION && (k ? k->version : 0) != q->version) {
        a->status = HTC_MISMATCH;
        model_show(k, a);
        return;
    }
    if (!k) {
        a->status = HTC_ENOTFOUND;
        return;
    }
    if (q->flags & HTC_KV_WANT_OLD) {
        htc_buf_clear(&m->old);
        htc_put_raw(&m->old, (htc_bytes){ k->value, k->len });
        a->value = htc_buf_bytes(&m->old);
        a->existed = 1;
    }
    free(k->value);
    size_t i = (size_t)(k - m->keys);
    memmove(k, k + 1, (m->count - i - 1) * sizeof *k);
    m->count--;
}

static inline void model_cas_version(model *m, const htc_kv_request *q, model_key *k, htc_kv_result *a)
{
    if ((k ? k->version : 0) != q->version) {
        a->status = HTC_MISMATCH;
        model_show(k, a);
        return;
    }
    htc_buf_clear(&m->old); /* the value may be the key's own */
    htc_put_raw(&m->old, q->value);
    k = k ? k : model_make(m, q->key);
    k->ttl = q->flags & HTC_KV_KEEP_TTL ? k->ttl : q->ttl;
    model_set(m, k, htc_buf_bytes(&m->old));
    a->version = k->version;
}

static inline void model_add(model *m, const htc_kv_request *q, model_key *k, htc_kv_result *a)
{
    char      text[32] = "0", again[32], *end;
    long long old;
    if (k && (k->len == 0 || k->len > 20)) {
        a->status = HTC_EINVAL;
        return;
    }
    if (k) {
        memcpy(text, k->value, k->len);
        text[k->len] = 0;
    }
    old = strtoll(text, &end, 10);
    snprintf(again, sizeof again, "%lld", old); /* "007" would not be given back */
    if (*end || strlen(text) != (k ? k->len : 1) || strcmp(text, again) != 0) {
        a->status = HTC_EINVAL;
        return;
    }
    if (__builtin_add_overflow(old, q->delta, &a->number)) {
        a->status = HTC_ETOOBIG;
        return;
    }
    snprintf(text, sizeof text, "%lld", (long long)a->number);
    k = k ? k : model_make(m, q->key);
    model_set(m, k, htc_bytes_of(text));
}

static inline void model_append(model *m, const htc_kv_request *q, model_key *k, htc_kv_result *a)
{
    htc_buf_clear(&m->old);
    if (k)
        htc_put_raw(&m->old, (htc_bytes){ k->value, k->len });
    htc_put_raw(&m->old, q->value);
    k = k ? k : model_make(m, q->key);
    model_set(m, k, htc_buf_bytes(&m->old));
    a->number = (int64_t)k->len;
}

/* Places are numbers of keys in their order here, in the upper bits of a cursor as the table of places has them (cells.h); the last bits of
 * the thirty are far enough up to be a cursor that signed numbers do not hold. */
#define MODEL_PLACE (((uint64_t)1 << HTC__CELLS_PLACE_BITS) - MODEL_KEYS)
static inline uint64_t model_cursor(uint64_t i)
{
    return (MODEL_PLACE + i) << (64 - HTC__CELLS_PLACE_BITS);
}

static inline void model_scan(model *m, const htc_kv_request *q, htc_kv_result *a)
{
    uint32_t limit = q->limit ? q->limit : 1000;
    size_t   i = 0;
    htc_buf_clear(&m->items);
    htc_buf_clear(&m->cursor);
    if (q->flags & HTC_KV_PLACES && !m->places) {
        a->status = HTC_EUNSUPPORTED;
        return;
    }
    uint64_t place = 0;
    if (q->flags & HTC_KV_PLACES && q->cursor.len == 8) {
        htc_reader r = htc_reader_of(q->cursor);
        place = htc_get_u64(&r) >> (64 - HTC__CELLS_PLACE_BITS);
        i = place < MODEL_PLACE ? 0 : place - MODEL_PLACE;
    }
    if (q->flags & HTC_KV_PLACES && m->hole && place < MODEL_PLACE) {
        htc_put_u64(&m->cursor, model_cursor(0));
        a->cursor = htc_buf_bytes(&m->cursor);
        return;
    }
    for (; i < m->count; i++) {
        htc_bytes key = { m->keys[i].key, m->keys[i].key_len };
        if (key.len < q->key.len || (q->key.len && memcmp(key.data, q->key.data, q->key.len) != 0))
            continue;
        if (!(q->flags & HTC_KV_PLACES) && q->cursor.len && htc_bytes_compare(key, q->cursor) <= 0)
            continue;
        if (a->items == limit) {
            if (q->flags & HTC_KV_PLACES)
                htc_put_u64(&m->cursor, model_cursor(i));
            a->cursor = htc_buf_bytes(&m->cursor);
            break;
        }
        htc__kv_item_write(&m->items, key, m->keys[i].version, (htc_bytes){ m->keys[i].value, m->keys[i].len });
        if (!(q->flags & HTC_KV_PLACES)) {
            htc_buf_clear(&m->cursor);
            htc_put_raw(&m->cursor, key);
        }
        a->items++;
    }
    a->items_bytes = htc_buf_bytes(&m->items);
}

static inline void model_repeat(htc_kv_result *a)
{
    if (!a->existed)
        return;
    a->number = a->existed;
    a->existed = 0;
    a->value = (htc_bytes){ NULL, 0 };
}

static inline void model_do(model *m, const htc_kv_request *q, htc_kv_result *a)
{
    model_key *k = q->key.len ? model_find(m, q->key) : NULL;
    *a = (htc_kv_result){ .size = sizeof(htc_kv_result), .op = q->op };
    if (htc__kv_op_check(q) != HTC_OK)
        abort();
    if (m->outside) {
        a->status = HTC_EBUSY;
        return;
    }
    if (m->refuse != HTC_OK && htc__kv_is_change(q->op) && !(m->refuse == HTC_ENOSPC && q->op == HTC_KV_DELETE)) {
        a->status = m->refuse;
        return;
    }
    switch ((htc_kv_op)q->op) {
    case HTC_KV_GET:
        a->status = k ? HTC_OK : HTC_ENOTFOUND;
        model_show(k, a);
        break;
    case HTC_KV_PUT:
        model_put(m, q, k, a);
        if (m->repeated)
            model_repeat(a);
        break;
    case HTC_KV_DELETE:
        model_delete(m, q, k, a);
        if (m->repeated)
            model_repeat(a);
        break;
    case HTC_KV_APPEND:
        model_append(m, q, k, a);
        break;
    case HTC_KV_CAS_VALUE:
        a->status = HTC_MISMATCH;
        model_show(k, a);
        if (k && htc_bytes_equal((htc_bytes){ k->value, k->len }, q->seen)) {
            *a = (htc_kv_result){ .size = sizeof(htc_kv_result), .op = q->op };
            k->ttl = q->flags & HTC_KV_KEEP_TTL ? k->ttl : q->ttl;
            model_set(m, k, q->value);
        }
        break;
    case HTC_KV_ADD:
        model_add(m, q, k, a);
        break;
    case HTC_KV_SCAN:
        model_scan(m, q, a);
        break;
    case HTC_KV_COUNT:
        a->status = m->places || m->alone ? HTC_OK : HTC_EUNSUPPORTED;
        a->number = (int64_t)m->count;
        break;
    case HTC_KV_CAS_VERSION:
        model_cas_version(m, q, k, a);
        break;
    case HTC_KV_LEASE_GRANT:
    case HTC_KV_LEASE_RENEW:
    case HTC_KV_LEASE_REVOKE:
    case HTC_KV_MEMBERS:
    case HTC_KV_CHANGE:
        abort();
    }
}

static inline uint8_t *model_copy(htc_bytes *b)
{
    uint8_t *copy = malloc(b->len + 1);
    if (b->len)
        memcpy(copy, b->data, b->len);
    b->data = copy;
    return copy;
}

static inline int model_ask(void *ctx, const htc_kv_request *q, const htc__kv_stamp *stamp, const htc__kv_face *face,
                            uint64_t conn, uint64_t slot, htc_kv_result *result)
{
    model *m = ctx;
    if (stamp->client != 0)
        abort();
    model_do(m, q, result);
    m->asked++;
    int slow = m->slow && htc_bytes_equal(q->key, htc_bytes_of(m->slow));
    if (!slow && (!m->rng || result->status == HTC_EUNSUPPORTED || htc_rng_below(m->rng, 2)))
        return 1;
    if (m->later_count == m->later_cap) {
        m->later_cap = m->later_cap ? m->later_cap * 2 : 16;
        m->later = realloc(m->later, m->later_cap * sizeof *m->later);
    }
    model_answer *l = &m->later[m->later_count++];
    *l = (model_answer){ .face = face, .conn = conn, .slot = slot, .a = *result };
    l->value = model_copy(&l->a.value);
    l->cursor = model_copy(&l->a.cursor);
    l->items = model_copy(&l->a.items_bytes);
    return 0;
}

static inline int model_busy(void *ctx)
{
    return ((model *)ctx)->is_busy;
}

static inline int model_full(void *ctx, size_t bytes)
{
    (void)bytes;
    return ((model *)ctx)->is_full;
}

/* One of the answers that are still to come, any of them. */
static inline int model_answer_one(model *m)
{
    if (m->later_count == 0)
        return 0;
    size_t       i = m->rng ? (size_t)htc_rng_below(m->rng, m->later_count) : 0;
    model_answer l = m->later[i];
    m->later[i] = m->later[--m->later_count];
    l.face->answer(l.face->ctx, l.conn, l.slot, &l.a);
    model_answer_free(&l);
    return 1;
}

static inline htc_status model_look(void *ctx, htc_bytes key, htc_kv_result *result)
{
    model *m = ctx;
    m->looked++;
    if (!m->alone)
        return result->status = HTC_EUNSUPPORTED;
    model_do(m, &(htc_kv_request){ .size = sizeof(htc_kv_request), .op = HTC_KV_GET, .key = key }, result);
    return result->status;
}

static inline htc_status model_together(void *ctx, size_t changes, size_t puts, size_t keys, size_t values)
{
    model *m = ctx;
    (void)changes, (void)keys;
    if (m->alone && puts && m->refuse == HTC_ENOSPC)
        return HTC_ENOSPC;
    return !m->alone ? HTC_EUNSUPPORTED : m->is_busy || values > m->room_now ? HTC_EBUSY : values > m->room ? HTC_ETOOBIG : HTC_OK;
}

static inline htc__kv_backend model_backend(model *m)
{
    return (htc__kv_backend){ .ask = model_ask, .busy = model_busy, .full = model_full, .look = model_look, .together = model_together, .ctx = m };
}

#endif
