/* Answers that are due when their batch is stored.
 *
 * There is one for each change of a batch, so they are small and their memory is used again: of a request nothing is kept but where its
 * engine may undo a batch, for it is executed again then. */
#include <assert.h>
#include <string.h>

#include "core/util.h"
#include "kvs/server/server.h"

/* Kept for the next batch: as many as fill one of 64 clients with 16 requests each twice over, 200 bytes each. */
#define SPARE_MAX 2048

struct htc__kv_deferred_reply {
    htc__kv_deferred_reply        *next;
    const htc__kv_face *face;
    uint64_t            conn, slot;
    htc_kv_result       result;
    htc__kv_backlog       *again; /* its request; NULL: a batch that was handed over is never undone */
    size_t              size;  /* of data */
    uint8_t             data[];
};

static void list_init(htc__kv_deferred_replies *list)
{
    list->first = NULL;
    list->last = &list->first;
}

static void list_add(htc__kv_deferred_replies *list, htc__kv_deferred_reply *due)
{
    due->next = NULL;
    *list->last = due;
    list->last = &due->next;
}

static htc__kv_deferred_reply *list_take(htc__kv_deferred_replies *list)
{
    htc__kv_deferred_reply *due = list->first;
    if (due && !(list->first = due->next))
        list->last = &list->first;
    return due;
}

static void list_move(htc__kv_deferred_replies *from, htc__kv_deferred_replies *to)
{
    if (!from->first)
        return;
    *to->last = from->first;
    to->last = from->last;
    list_init(from);
}

static htc__kv_deferred_reply *due_make(htc_kv_server *s, size_t size)
{
    htc__kv_deferred_reply *due = size ? NULL : s->deferred_spare;
    if (due) {
        s->deferred_spare = due->next;
        assert(s->deferred_spare_count > 0);
        s->deferred_spare_count--;
        return due;
    }
    due = htc__alloc_raw(&s->env, sizeof *due + size);
    if (due)
        due->size = size;
    if (due && size)
        htc__kv_flight_enter(&s->flight, size);
    return due;
}

static void due_free(htc_kv_server *s, htc__kv_deferred_reply *due)
{
    if (due->size == 0 && s->deferred_spare_count < SPARE_MAX) {
        due->next = s->deferred_spare;
        s->deferred_spare = due;
        s->deferred_spare_count++;
    } else {
        if (due->size)
            htc__kv_flight_leave(&s->flight, due->size);
        htc__free(&s->env, due, sizeof *due + due->size);
    }
}

int htc__kv_deferred_add(htc_kv_server *s, const htc__kv_whose *whose, const htc_kv_request *q, const htc_kv_result *a)
{
    htc__kv_deferred_reply  *due = due_make(s, a->value.len + a->cursor.len + a->items_bytes.len);
    htc__kv_backlog *again = due && s->cells.ops->undone ? htc__kv_backlog_make(s, whose, q) : NULL;
    if (!due || (s->cells.ops->undone && !again)) {
        if (due)
            due_free(s, due);
        return 0;
    }
    uint8_t *at = due->data;
    due->face = whose->face;
    due->conn = whose->conn;
    due->slot = whose->slot;
    due->result = *a;
    due->again = again;
    htc__kv_keep_bytes(&at, &due->result.cursor);
    htc__kv_keep_bytes(&at, &due->result.items_bytes);
    if (a->value.data)
        htc__kv_keep_bytes(&at, &due->result.value);
    list_add(s->touched < htc__kv_open(s) ? &s->due_flight : &s->due_open, due);
    return 1;
}

void htc__kv_deferred_sent(htc_kv_server *s)
{
    list_move(&s->due_open, &s->due_flight);
}

void htc__kv_deferred_stored(htc_kv_server *s)
{
    for (htc__kv_deferred_reply *due; (due = list_take(&s->due_flight));) {
        htc__kv_count_answer(&s->counts, due->result.op, due->result.status);
        due->face->answer(due->face->ctx, due->conn, due->slot, &due->result);
        htc__kv_backlog_free(s, due->again);
        due_free(s, due);
    }
}

void htc__kv_deferred_again(htc_kv_server *s, htc_status why)
{
    htc__kv_deferred_replies again;
    list_init(&again);
    list_move(&s->due_flight, &again);
    list_move(&s->due_open, &again);
    s->refuse = why;
    for (htc__kv_deferred_reply *due; (due = list_take(&again));) {
        htc__kv_backlog_repeat(s, due->again);
        due_free(s, due);
    }
    s->refuse = HTC_OK;
}

int htc__kv_deferred_none(const htc_kv_server *s)
{
    return !s->due_flight.first && !s->due_open.first;
}

void htc__kv_deferred_init(htc_kv_server *s)
{
    list_init(&s->due_flight);
    list_init(&s->due_open);
}

void htc__kv_deferred_free(htc_kv_server *s)
{
    list_move(&s->due_open, &s->due_flight);
    for (htc__kv_deferred_reply *due; (due = list_take(&s->due_flight));) {
        htc__kv_backlog_free(s, due->again);
        due_free(s, due);
    }
    for (htc__kv_deferred_reply *due; (due = s->deferred_spare);) {
        s->deferred_spare = due->next;
        htc__free(&s->env, due, sizeof *due);
    }
}
