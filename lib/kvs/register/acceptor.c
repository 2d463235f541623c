#include "kvs/register/acceptor.h"

#include "core/fault.h"
#include "htcsched/kv.h"

static htc__kv_ballot outbids(const htc__kv_cell *cell, const htc__kv_floors *floors)
{
    htc__kv_ballot held = htc__kv_ballot_max(cell->promise, cell->accepted);
    /* The floor is what was promised for keys that are no longer held. A cell that is held began above it, and remembers its
     * own promises: floors that other keys raise meanwhile say nothing about this one. */
    return htc__kv_cell_empty(cell) ? floors->ballot : held;
}

/* Promised or accepted a higher one, or at or below the ballot floor. An equal one is of the same proposer. */
static int outbid(const htc__kv_cell *cell, const htc__kv_floors *floors, const htc__kv_ballot *ballot,
                  htc__kv_reply *reply)
{
    reply->highest = outbids(cell, floors);
    int order = htc__kv_ballot_compare(ballot, &reply->highest);
    if (HTC__BROKEN(promise_unchecked))
        return 0;
    return htc__kv_cell_empty(cell) ? order <= 0 : order < 0;
}

static unsigned prepare(htc__kv_cell *cell, const htc__kv_floors *floors, const htc__kv_ask *ask, htc__kv_reply *reply)
{
    if (outbid(cell, floors, &ask->ballot, reply)) {
        reply->refused = 1;
        return HTC__KV_REPLY;
    }
    int again = htc__kv_ballot_compare(&cell->promise, &ask->ballot) == 0;
    cell->promise = htc__kv_ballot_max(ask->ballot, cell->promise);
    reply->cell = *cell;
    return again ? HTC__KV_REPLY : HTC__KV_REPLY | HTC__KV_STORE_CELL;
}

/* "An owner without a record refuses an accept whose version is not above its version floor (equal is allowed for a
 * tombstone)": the change it rests on is older than what was collected. */
static int below_floor(const htc__kv_cell *cell, const htc__kv_floors *floors, const htc__kv_cell *offered)
{
    return !cell->present &&
           (offered->deleted ? offered->version < floors->version : offered->version <= floors->version);
}

static unsigned accept(htc__kv_cell *cell, const htc__kv_floors *floors, const htc__kv_ask *ask, htc__kv_reply *reply)
{
    /* Said again: it was accepted, whatever has been promised since. */
    if (cell->present && htc__kv_ballot_compare(&cell->accepted, &ask->ballot) == 0)
        return HTC__KV_REPLY;
    if (outbid(cell, floors, &ask->ballot, reply)) {
        reply->refused = 1;
        return HTC__KV_REPLY;
    }
    if (below_floor(cell, floors, &ask->cell)) {
        reply->refused = 1;
        reply->highest = (htc__kv_ballot){ 0, 0, 0 };
        return HTC__KV_REPLY;
    }
    htc__kv_cell_copy(cell, &ask->cell);
    cell->present = 1;
    cell->accepted = ask->ballot;
    cell->promise = ask->next ? htc__kv_ballot_next(ask->ballot) : ask->ballot;
    return HTC__KV_REPLY | HTC__KV_STORE_CELL;
}

static unsigned collect(htc__kv_cell *cell, htc__kv_floors *floors, const htc__kv_ask *ask)
{
    if (!cell->present || !cell->deleted || cell->version != ask->cell.version ||
        htc__kv_ballot_compare(&cell->accepted, &ask->ballot) != 0)
        return 0;
    if (!HTC__BROKEN(floor_not_raised)) {
        if (floors->version < cell->version)
            floors->version = cell->version;
        floors->ballot = htc__kv_ballot_max(floors->ballot, cell->promise);
    }
    *cell = htc__kv_cell_absent(floors);
    return HTC__KV_DROP_CELL | HTC__KV_STORE_FLOORS;
}

unsigned htc__kv_acceptor_step(htc__kv_cell *cell, htc__kv_floors *floors, const htc__kv_ask *ask, htc__kv_reply *reply)
{
    *reply = (htc__kv_reply){ .kind = ask->kind, .round = ask->round, .key = ask->key, .floor = floors->version };
    switch ((htc__kv_ask_kind)ask->kind) {
    case HTC__KV_READ:
        reply->cell = *cell;
        return HTC__KV_REPLY;
    case HTC__KV_PREPARE:
        return prepare(cell, floors, ask, reply);
    case HTC__KV_ACCEPT:
        return accept(cell, floors, ask, reply);
    case HTC__KV_COLLECT:
        return collect(cell, floors, ask);
    }
    return 0;
}

unsigned htc__kv_acceptor_fold(htc__kv_cell *cell, htc__kv_floors *floors)
{
    if (cell->present || htc__kv_cell_empty(cell))
        return 0;
    floors->ballot = htc__kv_ballot_max(floors->ballot, cell->promise);
    *cell = htc__kv_cell_absent(floors);
    return HTC__KV_DROP_CELL | HTC__KV_STORE_FLOORS;
}

void htc__kv_ask_write(htc_buf *b, const htc__kv_ask *ask)
{
    htc_put_u8(b, ask->kind);
    htc_put_varint(b, ask->round);
    htc_put_varint(b, ask->epoch);
    htc_put_bytes(b, ask->key);
    if (ask->kind == HTC__KV_READ)
        return;
    htc__kv_ballot_write(b, &ask->ballot);
    if (ask->kind == HTC__KV_COLLECT)
        htc_put_varint(b, ask->cell.version);
    if (ask->kind != HTC__KV_ACCEPT)
        return;
    htc_put_u8(b, ask->next);
    htc__kv_cell cell;
    htc__kv_cell_copy(&cell, &ask->cell);
    cell.accepted = cell.promise = (htc__kv_ballot){ 0, 0, 0 };
    htc__kv_cell_write(b, &cell);
}

static void read_key(htc_reader *r, htc_bytes *key)
{
    *key = htc_get_bytes(r);
    if (key->len == 0 || key->len > HTC_KV_KEY_MAX)
        htc_reader_fail(r);
}

static htc_status read_cell(htc_reader *r, const htc__kv_floors *floors, htc__kv_cell *cell)
{
    htc_bytes rest = htc_get_raw(r, htc_reader_left(r));
    if (r->status != HTC_OK || htc__kv_cell_read(rest, floors, cell) != HTC_OK || cell->value.len > HTC_KV_VALUE_MAX)
        return HTC_EPROTO;
    return HTC_OK;
}

static htc_status cell_to_store(htc_bytes bytes, int own, htc__kv_cell *cell)
{
    return own ? htc__kv_cell_read_own(bytes, cell) : htc__kv_cell_read_for(bytes, NULL, 0, cell);
}

/* Who accepts a cell stores its list as it came: nobody asks what is in it. */
static htc_status read_cell_to_store(htc_reader *r, int own, htc__kv_cell *cell)
{
    htc_bytes rest = htc_get_raw(r, htc_reader_left(r));
    if (r->status != HTC_OK || cell_to_store(rest, own, cell) != HTC_OK || cell->value.len > HTC_KV_VALUE_MAX)
        return HTC_EPROTO;
    return HTC_OK;
}

htc_status htc__kv_ask_read(htc_bytes bytes, int own, htc__kv_ask *ask)
{
    htc_reader r = htc_reader_of(bytes);
    *ask = (htc__kv_ask){ .kind = htc_get_u8(&r) };
    ask->round = htc_get_varint(&r);
    ask->epoch = htc_get_varint(&r);
    read_key(&r, &ask->key);
    if (ask->kind < HTC__KV_READ || ask->kind > HTC__KV_COLLECT)
        htc_reader_fail(&r);
    if (ask->kind != HTC__KV_READ) {
        ask->ballot = htc__kv_ballot_read(&r);
        if (htc__kv_ballot_none(&ask->ballot) || ask->ballot.counter == UINT64_MAX)
            htc_reader_fail(&r);
    }
    if (ask->kind == HTC__KV_COLLECT)
        ask->cell.version = htc_get_varint(&r);
    if (ask->kind != HTC__KV_ACCEPT)
        return htc_reader_done(&r);
    ask->next = htc_get_u8(&r);
    if (ask->next > 1 || read_cell_to_store(&r, own, &ask->cell) != HTC_OK)
        return HTC_EPROTO;
    return ask->cell.present && htc__kv_ballot_none(&ask->cell.promise) ? HTC_OK : HTC_EPROTO;
}

void htc__kv_reply_write(htc_buf *b, const htc__kv_reply *reply)
{
    htc_put_u8(b, reply->kind);
    htc_put_u8(b, reply->refused);
    htc_put_varint(b, reply->round);
    htc_put_varint(b, reply->floor);
    htc_put_bytes(b, reply->key);
    if (reply->refused)
        htc__kv_ballot_write(b, &reply->highest);
    else if (reply->kind != HTC__KV_ACCEPT && reply->held.len)
        htc_put_raw(b, reply->held);
    else if (reply->kind != HTC__KV_ACCEPT)
        htc__kv_cell_write(b, &reply->cell);
}

htc_status htc__kv_reply_read(htc_bytes bytes, htc__kv_reply *reply)
{
    htc_reader r = htc_reader_of(bytes);
    *reply = (htc__kv_reply){ .kind = htc_get_u8(&r) };
    reply->refused = htc_get_u8(&r);
    reply->round = htc_get_varint(&r);
    reply->floor = htc_get_varint(&r);
    read_key(&r, &reply->key);
    if (reply->kind < HTC__KV_READ || reply->kind > HTC__KV_ACCEPT || reply->refused > 1 ||
        (reply->refused && reply->kind == HTC__KV_READ))
        htc_reader_fail(&r);
    if (reply->refused)
        reply->highest = htc__kv_ballot_read(&r);
    if (reply->refused || reply->kind == HTC__KV_ACCEPT)
        return htc_reader_done(&r);
    reply->held = (htc_bytes){ r.p, htc_reader_left(&r) };
    return read_cell(&r, &(htc__kv_floors){ .version = reply->floor }, &reply->cell);
}
