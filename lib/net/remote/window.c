#include "net/remote/window.h"

#include <string.h>

#include "core/util.h"
#include "htcsched/host.h"
#include "kvs/wire/kv_wire.h"

#define BYTES_MAX ((size_t)64 << 20)
#define OPEN_MAX  4096

void htc__window_init(htc__window *w, const htc_env *env, uint32_t started_max, htc_ns timeout_ns)
{
    *w = (htc__window){ .env = *env, .started_max = started_max, .timeout_ns = timeout_ns };
    do
        htc_host_random(&w->client, sizeof w->client);
    while (w->client == 0);
}

static void ask_free(htc__window *w, htc__ask *ask)
{
    htc_buf_free(&ask->held);
    htc_buf_free(&ask->coming);
    htc_buf_free(&ask->answer);
    w->bytes -= ask->size;
    htc__free(&w->env, ask, ask->size);
}

static void list_free(htc__window *w, htc__ask *ask)
{
    for (htc__ask *next; ask; ask = next) {
        next = ask->next;
        ask_free(w, ask);
    }
}

void htc__window_free(htc__window *w)
{
    list_free(w, w->open);
    list_free(w, w->done);
    list_free(w, w->lent);
    w->open = w->done = w->lent = NULL;
}

static htc__ask **end_of(htc__ask **list)
{
    while (*list)
        list = &(*list)->next;
    return list;
}

/* ---- submission ---- */

static htc_bytes copy(uint8_t **room, htc_bytes from)
{
    htc_bytes to = { *room, from.len };
    if (from.len)
        memcpy(*room, from.data, from.len);
    *room += from.len;
    return to;
}

static htc__ask *ask_new(htc__window *w, const htc_kv_request *q)
{
    size_t    size = sizeof(htc__ask) + q->key.len + q->value.len + q->seen.len + q->cursor.len;
    htc__ask *ask = htc__alloc(&w->env, size);
    if (!ask)
        return NULL;
    uint8_t *room = (uint8_t *)(ask + 1);
    ask->request = *q;
    ask->request.key = copy(&room, q->key);
    ask->request.value = copy(&room, q->value);
    ask->request.seen = copy(&room, q->seen);
    ask->request.cursor = copy(&room, q->cursor);
    ask->size = size;
    ask->hash = htc_hash64(q->key, 0);
    ask->result.op = q->op;
    htc_buf_init(&ask->held, &w->env, 2 * (size_t)HTC_KV_VALUE_MAX);
    htc_buf_init(&ask->coming, &w->env, 2 * (size_t)HTC_KV_VALUE_MAX);
    htc_buf_init(&ask->answer, &w->env, 2 * (size_t)HTC_KV_VALUE_MAX);
    w->bytes += size;
    return ask;
}

htc_status htc__window_submit(htc__window *w, const htc_kv_request *requests, size_t n, uint64_t tag)
{
    size_t    bytes = w->bytes, held = n;
    htc__ask *first = NULL, **last = &first;
    htc_ns    give_up = htc__store_end(w->timeout_ns);
    for (const htc__ask *ask = w->open; ask; ask = ask->next)
        held++;
    if (held > OPEN_MAX)
        return HTC_EFULL;
    for (size_t i = 0; i < n; i++) {
        htc_status status = requests[i].space.len ? HTC_EUNSUPPORTED : htc__kv_op_check(&requests[i]);
        if (status != HTC_OK)
            return status;
        bytes += sizeof(htc__ask) + requests[i].value.len + requests[i].seen.len;
        if (bytes > BYTES_MAX)
            return HTC_EFULL;
    }
    for (size_t i = 0; i < n; i++) {
        htc__ask *ask = *last = ask_new(w, &requests[i]);
        if (!ask) {
            list_free(w, first);
            return HTC_ENOMEM;
        }
        last = &ask->next;
        ask->tag = tag;
        ask->index = (uint32_t)i;
        ask->submission = w->submissions;
        ask->give_up = give_up;
        ask->stamp.client = w->client;
        ask->stamp.sequence = w->sequence + i + 1;
    }
    w->sequence += n;
    w->submissions++;
    *end_of(&w->open) = first;
    return HTC_OK;
}

/* ---- who waits for whom ---- */

static int is_wide(const htc__ask *ask)
{
    return ask->request.op == HTC_KV_SCAN || ask->request.op == HTC_KV_COUNT || ask->request.op == HTC_KV_LEASE_REVOKE;
}

static int waits_for(const htc__ask *ask, const htc__ask *older)
{
    if (is_wide(ask) || is_wide(older))
        return 1;
    return ask->hash == older->hash && (htc__kv_is_change(ask->request.op) || htc__kv_is_change(older->request.op));
}

htc__ask *htc__window_start(htc__window *w)
{
    if (w->started == w->started_max)
        return NULL;
    uint32_t looked = 0;
    for (htc__ask *ask = w->open; ask && looked < 4 * w->started_max; ask = ask->next, looked++) {
        int free = !ask->started;
        for (const htc__ask *older = w->open; free && older != ask; older = older->next)
            free = !waits_for(ask, older);
        if (!free)
            continue;
        ask->started = 1;
        ask->stamp.since = w->clock;
        w->started++;
        return ask;
    }
    return NULL;
}

void htc__window_restart(htc__window *w)
{
    for (htc__ask *ask = w->open; ask; ask = ask->next) {
        ask->unsure |= ask->state != 0;
        ask->state = 0;
        htc_buf_clear(&ask->held);
    }
}

/* ---- answers ---- */

static htc_bytes keep(const uint8_t **at, htc_bytes bytes)
{
    htc_bytes kept = { bytes.len ? *at : NULL, bytes.len };
    if (bytes.len)
        *at += bytes.len;
    return kept;
}

htc_status htc__window_answer(htc__window *w, htc__ask *ask, const htc_kv_result *result)
{
    htc_buf *b = &ask->answer;
    htc_buf_clear(b);
    htc_put_raw(b, result->value);
    htc_put_raw(b, result->cursor);
    htc_put_raw(b, result->items_bytes);
    if (b->status != HTC_OK)
        return b->status;
    const uint8_t *at = b->data;
    ask->result = *result;
    ask->result.value = keep(&at, result->value);
    ask->result.cursor = keep(&at, result->cursor);
    ask->result.items_bytes = keep(&at, result->items_bytes);
    ask->result.op = ask->request.op;
    ask->result.tag = ask->tag;
    ask->result.index = ask->index;
    if (result->version > w->clock)
        w->clock = result->version;
    htc__ask **place = &w->open;
    while (*place != ask)
        place = &(*place)->next;
    *place = ask->next;
    ask->next = NULL;
    w->started -= ask->started;
    *end_of(&w->done) = ask;
    return HTC_OK;
}

int htc__window_expire(htc__window *w, htc_ns now)
{
    int was_started = 0;
    for (htc__ask *ask = w->open, *next; ask; ask = next) {
        next = ask->next;
        if (ask->give_up > now)
            continue;
        was_started |= (int)ask->started;
        htc__window_answer(w, ask, &(htc_kv_result){ .size = sizeof(htc_kv_result), .status = HTC_ETIMEDOUT }); /* no bytes, so no failure */
    }
    return was_started;
}

htc_ns htc__window_deadline(const htc__window *w)
{
    htc_ns first = HTC_NEVER;
    for (const htc__ask *ask = w->open; ask; ask = ask->next)
        first = ask->give_up < first ? ask->give_up : first;
    return first;
}

static int submission_has(const htc__ask *list, uint64_t submission)
{
    while (list && list->submission != submission)
        list = list->next;
    return list != NULL;
}

int htc__window_next(htc__window *w, htc_kv_result *result)
{
    if (!w->done)
        return 0;
    list_free(w, w->lent);
    w->lent = w->done;
    w->done = w->lent->next;
    w->lent->next = NULL;
    *result = w->lent->result;
    result->last = !submission_has(w->open, w->lent->submission) && !submission_has(w->done, w->lent->submission);
    return 1;
}
