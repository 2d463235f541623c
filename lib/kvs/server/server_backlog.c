/* The backend of the faces: an answer leaves when what it rests on is stored (server_deferred.c). A change that the cells have no room for yet
 * waits, and with it all that is asked behind it. What is held back is a copy of the request. */
#include <string.h>

#include "core/util.h"
#include "kvs/replica/cluster.h"

void htc__kv_list_init(htc__kv_list *list)
{
    list->first = NULL;
    list->last = &list->first;
}

void htc__kv_list_add(htc__kv_list *list, htc__kv_backlog *held)
{
    held->next = NULL;
    *list->last = held;
    list->last = &held->next;
}

htc__kv_backlog *htc__kv_list_take(htc__kv_list *list)
{
    htc__kv_backlog *held = list->first;
    if (held && !(list->first = held->next))
        list->last = &list->first;
    return held;
}

void htc__kv_backlog_free(htc_kv_server *s, htc__kv_backlog *held)
{
    if (held)
        htc__free(&s->env, held, sizeof *held + held->size);
}

void htc__kv_list_free(htc_kv_server *s, htc__kv_list *list)
{
    for (htc__kv_backlog *held; (held = htc__kv_list_take(list));)
        htc__kv_backlog_free(s, held);
}

void htc__kv_keep_bytes(uint8_t **at, htc_bytes *bytes)
{
    if (bytes->len)
        memcpy(*at, bytes->data, bytes->len);
    bytes->data = *at; /* also of an empty value: that it is there is said by its address */
    *at += bytes->len;
}

static size_t request_bytes(const htc_kv_request *q)
{
    return q->key.len + q->value.len + q->seen.len + q->cursor.len;
}

htc__kv_backlog *htc__kv_backlog_make(htc_kv_server *s, const htc__kv_whose *whose, const htc_kv_request *q)
{
    size_t        size = request_bytes(q);
    htc__kv_backlog *held = htc__alloc_raw(&s->env, sizeof *held + size);
    if (!held)
        return NULL;
    uint8_t *at = held->data;
    held->next = NULL;
    held->size = size;
    held->whose = *whose;
    held->request = *q;
    htc__kv_keep_bytes(&at, &held->request.key);
    htc__kv_keep_bytes(&at, &held->request.value);
    htc__kv_keep_bytes(&at, &held->request.seen);
    htc__kv_keep_bytes(&at, &held->request.cursor);
    return held;
}

int htc__kv_backlog_add(htc_kv_server *s, htc__kv_list *list, const htc__kv_whose *whose, const htc_kv_request *q)
{
    htc__kv_backlog *held = htc__kv_backlog_make(s, whose, q);
    if (held)
        htc__kv_list_add(list, held);
    return held != NULL;
}

static void break_down(htc_kv_server *s, htc_status why, htc_kv_result *result)
{
    if (s->broken == HTC_OK)
        s->broken = why;
    *result = (htc_kv_result){ .size = sizeof(htc_kv_result), .op = result->op, .status = why };
}

/* 1: it can be answered now; 0: it waits for its batch. */
static int executed(htc_kv_server *s, const htc__kv_whose *whose, const htc_kv_request *q, htc_status status,
                    htc_kv_result *result)
{
    if (status != HTC_OK)
        break_down(s, status, result);
    else if (s->touched > htc__kv_stored(s)) {
        if (htc__kv_deferred_add(s, whose, q, result)) {
            htc__kv_uncount_answer(&s->counts, q->op, result->status);
            return 0;
        }
        break_down(s, HTC_ENOMEM, result);
    }
    return 1;
}

/* There is no room for it now, or it came behind one of those. A renewal neither needs room nor has an order. */
static int delay(htc_kv_server *s, const htc__kv_whose *whose, const htc_kv_request *q, htc_kv_result *result)
{
    *result = (htc_kv_result){ .size = sizeof(htc_kv_result), .op = q->op };
    if (!htc__kv_backlog_add(s, &s->delayed, whose, q)) {
        break_down(s, HTC_ENOMEM, result);
        return 1;
    }
    s->delayed_bytes += request_bytes(q);
    return 0;
}

static int is_cas(const htc_kv_request *q)
{
    return q->op == HTC_KV_CAS_VALUE || q->op == HTC_KV_CAS_VERSION;
}

/* It was executed. 1: it can be answered now. */
static int settle(htc_kv_server *s, const htc__kv_whose *whose, const htc_kv_request *q, htc_status status,
                  htc_kv_result *result)
{
    if (status == HTC_OK && s->wait) {
        htc__kv_uncount_answer(&s->counts, q->op, result->status);
        return delay(s, whose, q, result);
    }
    if (status == HTC_OK && is_cas(q) && htc__kv_contention_after(s, whose, q, result)) {
        htc__kv_uncount_answer(&s->counts, q->op, result->status);
        *result = (htc_kv_result){ .size = sizeof(htc_kv_result), .op = q->op };
        return 0;
    }
    return executed(s, whose, q, status, result);
}

static int ask(void *ctx, const htc_kv_request *request, const htc__kv_stamp *stamp, const htc__kv_face *face,
               uint64_t conn, uint64_t slot, htc_kv_result *result)
{
    htc_kv_server *s = ctx;
    if (s->cluster)
        return htc__kv_cluster_ask(s, request, stamp, face, conn, slot, result);
    if (request->space.len) { /* a single member has none */
        *result = (htc_kv_result){ .size = sizeof(htc_kv_result), .op = request->op, .status = HTC_EINVAL };
        htc__kv_count_answer(&s->counts, request->op, result->status);
        return 1;
    }
    if (!s->delayed.first && !s->contest) {
        htc_status status = htc__kv_execute(s, request, stamp, result);
        if (status == HTC_OK && !s->wait && s->touched <= htc__kv_stored(s) && result->status != HTC_MISMATCH)
            return 1; /* nothing of it waits: without a disk always so */
        htc__kv_whose whose = { .face = face, .conn = conn, .slot = slot, .stamp = *stamp };
        return settle(s, &whose, request, status, result);
    }
    htc__kv_whose whose = { .face = face, .conn = conn, .slot = slot, .stamp = *stamp };
    if (s->delayed.first && request->op != HTC_KV_LEASE_RENEW)
        return delay(s, &whose, request, result); /* not executed: s->wait says nothing of it, nor was it counted */
    if (is_cas(request) && htc__kv_contention_before(s, &whose, request)) {
        *result = (htc_kv_result){ .size = sizeof(htc_kv_result), .op = request->op };
        return 0;
    }
    return settle(s, &whose, request, htc__kv_execute(s, request, stamp, result), result);
}

static int full(void *ctx, size_t bytes)
{
    const htc_kv_server *s = ctx;
    return htc__kv_flight_full(&s->flight, bytes);
}

static int busy(void *ctx)
{
    return htc__kv_full(ctx) || full(ctx, 0);
}

static size_t read_bytes(void *ctx, htc_bytes key)
{
    const htc_kv_server *s = ctx;
    return htc__kv_flight_guess(&s->flight, key);
}

/* Several members look first who owns a key: they take no hints. */
static void hint(void *ctx, const htc_bytes *keys, size_t n)
{
    enum { TOGETHER = 16 };
    htc_kv_server *s = ctx;
    if (s->cluster || !s->cells.ops->hint)
        return;
    htc__kv_name name[TOGETHER];
    htc_bytes    names[TOGETHER];
    for (size_t from = 0; from < n; from += TOGETHER) {
        size_t many = n - from < TOGETHER ? n - from : TOGETHER, known = 0;
        for (size_t i = 0; i < many; i++) {
            if (keys[from + i].len > HTC_KV_KEY_MAX)
                continue; /* it will be refused */
            htc__kv_name_key(&name[known], keys[from + i]);
            names[known] = htc__kv_name_bytes(&name[known]);
            known++;
        }
        s->cells.ops->hint(s->cells.ctx, names, known);
    }
}

static void hurry(void *ctx, const htc__kv_face *face, uint64_t conn)
{
    htc__kv_contention_hurry(ctx, face, conn);
}

static int may_change(void *ctx, uint32_t peer)
{
    htc_kv_server *s = ctx;
    return !s->cluster || htc__kv_cluster_key_joins(s, peer);
}

static uint64_t have(void *ctx, uint64_t *member)
{
    htc_kv_server *s = ctx;
    return s->cluster ? htc__kv_cluster_have(s, member) : 0;
}

static htc_status owners(void *ctx, uint64_t id, uint64_t known, htc_buf *b)
{
    return htc__kv_cluster_tell_owners(ctx, id, known, b);
}

static htc_status look(void *ctx, htc_bytes key, htc_kv_result *result)
{
    static const htc__kv_stamp nobody = { .fresh = 1 };
    htc_kv_server             *s = ctx;
    htc_kv_request             q = { .size = sizeof q, .op = HTC_KV_GET, .key = key };
    if (s->cluster)
        return result->status = HTC_EUNSUPPORTED;
    htc_status status = htc__kv_execute(s, &q, &nobody, result);
    htc__kv_uncount_answer(&s->counts, q.op, result->status);
    if (status != HTC_OK)
        break_down(s, status, result);
    return result->status;
}

/* A record takes some more than its bytes, and a table that grows a page at once. */
static int fits_memory(const htc_kv_server *s, size_t changes, size_t bytes)
{
    return !s->options.memory_max || s->cells.ops->used(s->cells.ctx) + 2 * bytes + 256 * changes <= s->options.memory_max;
}

static htc_status together(void *ctx, size_t changes, size_t puts, size_t keys, size_t values)
{
    htc_kv_server *s = ctx;
    if (s->cluster)
        return HTC_EUNSUPPORTED;
    if (s->delayed.first || busy(s))
        return HTC_EBUSY;
    if (puts && !fits_memory(s, changes, keys + values))
        return HTC_EFULL;
    return changes ? htc__kv_room_of(s, changes, puts, keys, values) : HTC_OK;
}

static size_t used(void *ctx, size_t *max)
{
    const htc_kv_server *s = ctx;
    *max = s->options.memory_max;
    return s->cells.ops->used(s->cells.ctx);
}

static int cpu(void *ctx, htc_ns *user, htc_ns *sys)
{
    const htc_kv_server *s = ctx;
    if (s->options.cpu)
        s->options.cpu(s->options.cpu_ctx, user, sys);
    return s->options.cpu != NULL;
}

static size_t resident(void *ctx)
{
    const htc_kv_server *s = ctx;
    return s->options.resident ? s->options.resident(s->options.cpu_ctx) : 0;
}

static uint64_t expired(void *ctx)
{
    const htc_kv_server *s = ctx;
    return s->counts.expired;
}

htc__kv_backend htc__kv_backend_of(htc_kv_server *s)
{
    return (htc__kv_backend){ .ask = ask,
                              .busy = busy,
                              .full = full,
                              .read = read_bytes,
                              .hint = hint,
                              .hurry = hurry,
                              .look = look,
                              .together = together,
                              .used = used,
                              .cpu = cpu,
                              .resident = resident,
                              .expired = expired,
                              .may_change = may_change,
                              .have = have,
                              .owners = owners,
                              .ctx = s };
}

static void answer(htc_kv_server *s, htc__kv_backlog *held, const htc_kv_result *result)
{
    htc__kv_count_answer(&s->counts, held->request.op, result->status);
    held->whose.face->answer(held->whose.face->ctx, held->whose.conn, held->whose.slot, result);
    htc__kv_backlog_free(s, held);
}

void htc__kv_backlog_repeat(htc_kv_server *s, htc__kv_backlog *held)
{
    htc_kv_result result = { .size = sizeof result };
    held->whose.stamp.fresh = 0;
    htc_status status = htc__kv_execute(s, &held->request, &held->whose.stamp, &result);
    htc__kv_uncount_answer(&s->counts, held->request.op, result.status);
    if (status != HTC_OK)
        break_down(s, status, &result);
    answer(s, held, &result);
}

void htc__kv_backlog_go_on(htc_kv_server *s)
{
    while (s->delayed.first && htc__kv_staged(s) <= HTC__KV_STAGED_MAX) {
        htc__kv_backlog  *held = s->delayed.first;
        htc_kv_request q = held->request;
        htc_kv_result  result = { .size = sizeof result };
        htc_status     status = htc__kv_execute(s, &q, &held->whose.stamp, &result);
        if (status == HTC_OK && s->wait) {
            htc__kv_uncount_answer(&s->counts, q.op, result.status);
            return;
        }
        htc__kv_list_take(&s->delayed);
        s->delayed_bytes -= request_bytes(&q);
        if (executed(s, &held->whose, &q, status, &result)) {
            htc__kv_uncount_answer(&s->counts, q.op, result.status);
            answer(s, held, &result);
        } else {
            htc__kv_backlog_free(s, held);
        }
    }
}

htc_status htc__kv_backlog_run(htc_kv_server *s, htc__kv_backlog *held)
{
    htc_kv_request q = held->request;
    htc_kv_result  result = { .size = sizeof result, .op = q.op, .status = HTC_EBUSY };
    htc_status     status = s->delayed.first ? HTC_OK : htc__kv_execute(s, &q, &held->whose.stamp, &result);
    if (s->delayed.first || (status == HTC_OK && s->wait)) {
        if (!s->delayed.first)
            htc__kv_uncount_answer(&s->counts, q.op, result.status);
        s->delayed_bytes += request_bytes(&q);
        htc__kv_list_add(&s->delayed, held);
        return HTC_EBUSY;
    }
    htc_status became = result.status;
    if (executed(s, &held->whose, &q, status, &result)) {
        htc__kv_uncount_answer(&s->counts, q.op, result.status);
        answer(s, held, &result);
    } else {
        htc__kv_backlog_free(s, held);
    }
    return became;
}

int htc__kv_backlog_none(const htc_kv_server *s)
{
    return htc__kv_deferred_none(s) && !s->delayed.first && !s->rivals;
}
