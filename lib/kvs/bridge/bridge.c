/* The bridge: what clients ask for becomes requests that a store of others can repeat without harm.
 *
 *   change --read, or guessed--> record --kvs/cell/change.h--> compare-and-swap --MISMATCH: the record as it is, once more-->
 *                                                              --no answer: the same once more-->
 *
 * A record is the value and a mark behind it: which client wrote it, with which of its changes. A compare-and-swap that fails shows the record; if
 * the mark is its own, it was made before, and its answer was lost. Another mark may be of another client, or of a later change of the same
 * one, before which this one had ended.
 *
 * Requests about one key are carried out one after the other; one that looks at many keys waits until nothing is under way, and what comes later
 * waits for it. So a client reads what it has changed, and a repeated change does not overtake what its client asked for after it. */
#include "htcsched/kv_bridge.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include <utlist.h>

#include "core/util.h"
#include "kvs/cell/change.h"
#include "kvs/front/native.h"
#include "kvs/util/slot_map.h"
#include "kvs/util/table.h"
#include "kvs/wire/kv_wire.h"

#define MARK_FORMAT 1
#define MARK_BYTES  17  /* u64 client, u64 sequence, u8 format, behind the value */
#define TRIES_MAX   256 /* of a change that others are faster than */

typedef struct ask {
    struct ask    *next, *prev; /* of the same key; of those that wait for a wide one */
    struct ask    *turn_next, *turn_prev; /* of those that begin, or are sent again */
    htc_kv_request q; /* its bytes stand behind this struct */
    htc__kv_stamp  stamp;
    uint64_t       id, conn, slot;
    uint64_t       version; /* of the record that is to be replaced; 0: there is none */
    htc_ns         due;     /* it is sent again then */
    int64_t        number;  /* of its answer */
    size_t         size;
    uint32_t       tries;
    uint8_t        state;   /* what is asked of the store: READS, SWAPS or DELETES */
    uint8_t        unsure;  /* it may have been made, by an earlier sending */
    htc_buf        record;  /* what is to be written */
} ask;

enum { READS = 1, SWAPS, DELETES };

typedef struct mark {
    uint64_t client, sequence;
} mark;

struct htc_kv_bridge {
    htc_env               env;
    htc_kv_bridge_options options;
    htc__kv_native        native;
    htc_output           *out; /* of the step under way */
    htc_ns                now;
    htc__slot_map         asks; /* by number */
    htc__table            keys; /* key -> ask *: those about it, of which the first is under way */
    ask                  *waits;  /* a wide one, and what came after it */
    ask                  *begins; /* in this step */
    ask                  *again;  /* in the order in which they are due */
    size_t                under_way; /* those in keys, and a wide one */
    size_t                bytes;
    uint32_t              wide; /* one that looks at many keys is under way */
    uint32_t              stopped;
    htc_buf               body, scratch, page;
    htc_status            broken;
    struct {
        uint64_t answers, calls, repeats, mismatches, corrupt;
    } count;
};

static void breaks(htc_kv_bridge *b, htc_status status)
{
    if (b->broken == HTC_OK)
        b->broken = status;
}

/* ---- asks ---- */

static htc_bytes copy(uint8_t **room, htc_bytes from)
{
    htc_bytes to = { *room, from.len };
    if (from.len)
        memcpy(*room, from.data, from.len);
    *room += from.len;
    return to;
}

static ask *ask_new(htc_kv_bridge *b, const htc_kv_request *q)
{
    size_t size = sizeof(ask) + q->key.len + q->value.len + q->seen.len + q->cursor.len;
    ask   *a = htc__alloc(&b->env, size);
    if (!a)
        return NULL;
    uint8_t *room = (uint8_t *)(a + 1);
    a->q = *q;
    a->q.key = copy(&room, q->key);
    a->q.value = copy(&room, q->value);
    a->q.seen = copy(&room, q->seen);
    a->q.cursor = copy(&room, q->cursor);
    a->size = size;
    a->id = htc__slot_map_next(&b->asks);
    htc_buf_init(&a->record, &b->env, HTC_KV_VALUE_MAX);
    if (!htc__slot_map_add(&b->asks, a)) {
        htc__free(&b->env, a, size);
        return NULL;
    }
    b->bytes += size;
    return a;
}

static void ask_free(htc_kv_bridge *b, ask *a)
{
    htc_buf_free(&a->record);
    b->bytes -= a->size;
    htc__slot_map_remove(&b->asks, a->id);
    htc__free(&b->env, a, a->size);
}

static int is_wide(const ask *a)
{
    return a->q.op == HTC_KV_SCAN || a->q.op == HTC_KV_COUNT;
}

static void begin_later(htc_kv_bridge *b, ask *a)
{
    DL_APPEND2(b->begins, a, turn_prev, turn_next);
}

/* It is the only one under way, or the next of its key. */
static htc_status go(htc_kv_bridge *b, ask *a)
{
    b->under_way++;
    if (is_wide(a)) {
        b->wide = 1;
        begin_later(b, a);
        return HTC_OK;
    }
    htc__node *node = htc__table_find(&b->keys, a->q.key);
    if (!node) {
        node = htc__table_make(&b->keys, a->q.key, sizeof(ask *));
        if (!node)
            return HTC_ENOMEM;
        htc__table_link(&b->keys, node);
        begin_later(b, a);
    }
    ask **list = htc__node_value(node);
    DL_APPEND(*list, a);
    return HTC_OK;
}

static void go_on(htc_kv_bridge *b)
{
    while (b->waits && !b->wide && (!is_wide(b->waits) || b->under_way == 0)) {
        ask *a = b->waits;
        DL_DELETE(b->waits, a);
        breaks(b, go(b, a));
    }
}

/* It is answered. */
static void leave(htc_kv_bridge *b, ask *a)
{
    b->under_way--;
    if (is_wide(a)) {
        b->wide = 0;
    } else {
        ask **list = htc__node_value(htc__table_find(&b->keys, a->q.key));
        assert(*list == a);
        DL_DELETE(*list, a);
        if (*list)
            begin_later(b, *list);
        else
            htc__table_remove(&b->keys, a->q.key);
    }
    ask_free(b, a);
    go_on(b);
}

static void answer(htc_kv_bridge *b, ask *a, const htc_kv_result *result)
{
    htc_kv_result r = *result;
    r.op = a->q.op;
    b->count.answers++;
    b->count.corrupt += r.status == HTC_ECORRUPT;
    if (r.version > b->native.clock)
        b->native.clock = r.version;
    b->native.face.answer(b->native.face.ctx, a->conn, a->slot, &r);
    leave(b, a);
}

static void fail(htc_kv_bridge *b, ask *a, htc_status why)
{
    answer(b, a, &(htc_kv_result){ .size = sizeof(htc_kv_result), .status = why });
}

/* ---- what is asked of the store ---- */

static void send(htc_kv_bridge *b, const ask *a)
{
    htc_kv_request q = { .size = sizeof q, .op = a->q.op, .limit = a->q.limit, .key = a->q.key, .cursor = a->q.cursor };
    if (a->state == READS && !is_wide(a))
        q.op = HTC_KV_GET;
    if (a->state == SWAPS) {
        q.op = HTC_KV_CAS_VERSION;
        q.version = a->version;
        q.value = htc_buf_bytes(&a->record);
    } else if (a->state == DELETES) {
        q.op = HTC_KV_DELETE;
        q.version = a->version;
        q.flags = HTC_KV_IF_VERSION;
    }
    b->count.calls++;
    htc_buf_clear(&b->body);
    htc__kv_op_write(&b->body, &q);
    breaks(b, b->body.status);
    if (b->broken == HTC_OK)
        breaks(b, htc_output_add(b->out, &(htc_effect){ .kind = HTC_OUT_CALL, .op = HTC_KV_BRIDGE_ASK, .tag = a->id, .body = htc_buf_bytes(&b->body) }));
}

/* ---- records ---- */

static int record_read(htc_bytes record, htc_bytes *value, mark *m)
{
    const uint8_t *bytes = record.data;
    if (record.len < MARK_BYTES || bytes[record.len - 1] != MARK_FORMAT)
        return 0;
    *value = (htc_bytes){ bytes, record.len - MARK_BYTES };
    htc_reader r = htc_reader_of((htc_bytes){ bytes + value->len, MARK_BYTES });
    *m = (mark){ .client = htc_get_u64(&r), .sequence = htc_get_u64(&r) };
    return 1;
}

static void record_write(htc_buf *b, htc_bytes value, const htc__kv_stamp *stamp)
{
    htc_buf_clear(b);
    htc_put_raw(b, value);
    htc_put_u64(b, stamp->client);
    htc_put_u64(b, stamp->sequence);
    htc_put_u8(b, MARK_FORMAT);
}

static htc__kv_cell cell_of(uint64_t version, htc_bytes value)
{
    htc__kv_floors nothing = { 0 };
    htc__kv_cell   cell = htc__kv_cell_absent(&nothing);
    if (version) {
        cell.present = 1;
        cell.version = version;
        cell.value = value;
    }
    return cell;
}

/* ---- changes ---- */

/* Its own mark was found: it was made, and this is what it has answered then. */
static void made(htc_kv_bridge *b, ask *a, uint64_t version, htc_bytes value)
{
    htc_kv_result r = { .size = sizeof r, .version = version };
    char          text[24] = "";
    if (a->q.op == HTC_KV_ADD && value.len < sizeof text) {
        memcpy(text, value.data, value.len);
        r.number = strtoll(text, NULL, 10);
    }
    answer(b, a, &r);
}

/* What becomes of the record, as it is or as it is guessed to be. */
static void work(htc_kv_bridge *b, ask *a, uint64_t version, htc_bytes value)
{
    htc__kv_cell    cell = cell_of(version, value);
    htc__kv_stamp   nobody = { 0 };
    htc__kv_changed changed;
    if (a->tries++ == TRIES_MAX) {
        fail(b, a, HTC_EBUSY);
        return;
    }
    htc__kv_change(&cell, &a->q, &nobody, 0, &b->scratch, &changed);
    if (changed.effect == HTC__KV_NO_MEMORY) {
        breaks(b, HTC_ENOMEM);
        return;
    }
    if (changed.effect != HTC__KV_CHANGED) {
        if (a->q.op == HTC_KV_DELETE && version == 0 && (a->unsure || !a->stamp.fresh))
            changed.result.status = HTC_OK; /* it is gone, by whomever */
        answer(b, a, &changed.result);
        return;
    }
    a->version = version;
    a->number = changed.result.number;
    if (a->q.op == HTC_KV_DELETE) {
        a->state = DELETES;
    } else if (changed.to.value.len > HTC_KV_VALUE_MAX - MARK_BYTES) {
        fail(b, a, HTC_ETOOBIG);
        return;
    } else {
        a->state = SWAPS;
        record_write(&a->record, changed.to.value, &a->stamp);
        breaks(b, a->record.status);
    }
    send(b, a);
}

/* The record, as a read or a failed swap has shown it. */
static void shown(htc_kv_bridge *b, ask *a, const htc_kv_result *r)
{
    mark      m = { 0 };
    htc_bytes value = { NULL, 0 };
    if (r->version && !record_read(r->value, &value, &m)) {
        htc__log(&b->env, HTC_LOG_ERROR, "a record of the store was not written by a bridge -> HTC_ECORRUPT; nothing else may write under this prefix");
        fail(b, a, HTC_ECORRUPT);
    } else if (a->q.op == HTC_KV_GET) {
        answer(b, a, &(htc_kv_result){ .size = sizeof(htc_kv_result), .status = r->status, .version = r->version, .value = value });
    } else if (m.client && m.client == a->stamp.client && m.sequence == a->stamp.sequence) {
        made(b, a, r->version, value);
    } else if (m.client && m.client == a->stamp.client && m.sequence > a->stamp.sequence) {
        fail(b, a, HTC_EUNKNOWN); /* its client has been answered long ago, and has asked for more since */
    } else {
        work(b, a, r->version, value);
    }
}

static void page(htc_kv_bridge *b, ask *a, const htc_kv_result *r)
{
    htc_kv_result told = *r;
    htc_kv_item   item;
    size_t        at = 0;
    htc_buf_clear(&b->page);
    for (uint32_t i = 0; i < r->items; i++) {
        mark      m;
        htc_bytes value;
        if (htc_kv_result_item(r, &at, &item) != HTC_OK || !record_read(item.value, &value, &m)) {
            htc__log(&b->env, HTC_LOG_ERROR, "a record of the store was not written by a bridge -> HTC_ECORRUPT; nothing else may write under this prefix");
            fail(b, a, HTC_ECORRUPT);
            return;
        }
        htc__kv_item_write(&b->page, item.key, item.version, value);
    }
    breaks(b, b->page.status);
    told.items_bytes = htc_buf_bytes(&b->page);
    answer(b, a, &told);
}

/* ---- asks begin, and are answered ---- */

static void begin(htc_kv_bridge *b, ask *a)
{
    const htc__kv_face *face = &b->native.face;
    if (face->gone(face->ctx, a->conn)) {
        fail(b, a, HTC_ECLOSED); /* nobody hears it: its client asks again, as far as it still wants to know */
        return;
    }
    a->state = READS;
    if (a->q.op == HTC_KV_CAS_VERSION)
        work(b, a, a->q.version, (htc_bytes){ NULL, 0 }); /* it is what its client has read */
    else if (a->q.op == HTC_KV_PUT)
        work(b, a, 0, (htc_bytes){ NULL, 0 }); /* most are new */
    else
        send(b, a);
}

static void sent_again(htc_kv_bridge *b, ask *a)
{
    b->count.repeats++;
    a->unsure = 1;
    a->due = b->now + b->options.retry_ns;
    DL_APPEND2(b->again, a, turn_prev, turn_next);
}

static int is_no_answer(htc_status status)
{
    return status == HTC_EUNKNOWN || status == HTC_ETIMEDOUT || status == HTC_EBUSY || status == HTC_EUNREACHABLE || status == HTC_ECLOSED || status == HTC_AGAIN;
}

static void heard(htc_kv_bridge *b, const htc_input *in)
{
    ask          *a = in->op == HTC_KV_BRIDGE_ASK ? htc__slot_map_find(&b->asks, in->tag) : NULL;
    htc_kv_result r = { .size = sizeof r, .status = in->status };
    if (!a)
        return;
    if (in->status == HTC_OK) {
        htc_reader body = htc_reader_of(in->body);
        htc__kv_result_read(&body, &r);
        if (htc_reader_done(&body) != HTC_OK)
            r = (htc_kv_result){ .size = sizeof r, .status = HTC_EPROTO };
    }
    b->count.mismatches += r.status == HTC_MISMATCH;
    if (is_no_answer(r.status))
        sent_again(b, a);
    else if (r.status == HTC_OK && is_wide(a))
        page(b, a, &r);
    else if ((a->state == READS && (r.status == HTC_OK || r.status == HTC_ENOTFOUND)) || (a->state != READS && r.status == HTC_MISMATCH))
        shown(b, a, &r);
    else if (r.status == HTC_ENOTFOUND && a->state == DELETES)
        fail(b, a, a->unsure || !a->stamp.fresh ? HTC_OK : HTC_ENOTFOUND);
    else if (r.status == HTC_OK)
        answer(b, a, &(htc_kv_result){ .size = sizeof(htc_kv_result), .version = r.version, .number = a->number });
    else
        fail(b, a, r.status);
}

/* ---- the backend of the clients' face ---- */

static htc_status objection(const htc_kv_request *q)
{
    switch ((htc_kv_op)q->op) {
    case HTC_KV_DELETE:
        return q->flags & ~(uint32_t)HTC_KV_IF_VERSION || q->space.len ? HTC_EUNSUPPORTED : HTC_OK;
    case HTC_KV_GET:
    case HTC_KV_PUT:
    case HTC_KV_CAS_VERSION:
    case HTC_KV_ADD:
    case HTC_KV_SCAN:
    case HTC_KV_COUNT:
        return q->flags || q->ttl || q->lease || q->space.len ? HTC_EUNSUPPORTED : HTC_OK;
    default:
        return HTC_EUNSUPPORTED;
    }
}

static int take(void *ctx, const htc_kv_request *q, const htc__kv_stamp *stamp, const htc__kv_face *face, uint64_t conn, uint64_t slot, htc_kv_result *result)
{
    htc_kv_bridge *b = ctx;
    htc_status     refused = objection(q);
    ask           *a = refused == HTC_OK ? ask_new(b, q) : NULL;
    (void)face;
    if (!a) {
        *result = (htc_kv_result){ .size = sizeof *result, .op = q->op, .status = refused == HTC_OK ? HTC_ENOMEM : refused };
        return 1;
    }
    a->stamp = *stamp;
    a->conn = conn;
    a->slot = slot;
    DL_APPEND(b->waits, a);
    go_on(b);
    return 0;
}

static int busy(void *ctx)
{
    const htc_kv_bridge *b = ctx;
    return b->asks.count >= b->options.asks_max || b->bytes >= b->options.bytes_max;
}

static int full(void *ctx, size_t bytes)
{
    (void)bytes;
    return busy(ctx);
}

static size_t read_size(void *ctx, htc_bytes key)
{
    (void)ctx;
    (void)key;
    return 0;
}

/* ---- the machine ---- */

static htc_status input(htc_kv_bridge *b, const htc_input *in, htc_output *out)
{
    switch ((htc_input_kind)in->kind) {
    case HTC_IN_OPENED:
        return htc__kv_native_opened(&b->native, in->peer, out);
    case HTC_IN_CLOSED:
        htc__kv_native_closed(&b->native, in->peer);
        return HTC_OK;
    case HTC_IN_MESSAGE:
        return htc__kv_native_input(&b->native, in, out);
    case HTC_IN_RESULT:
        heard(b, in);
        return HTC_OK;
    case HTC_IN_EVENT:
        b->stopped = in->op == HTC_KV_BRIDGE_SHUTDOWN;
        return b->stopped ? htc_output_add(out, &(htc_effect){ .kind = HTC_OUT_STOP }) : HTC_OK;
    case HTC_IN_START:
    case HTC_IN_TIMEOUT:
    case HTC_IN_STORED:
    case HTC_IN_BYTES:
    case HTC_IN_SENT:
    case HTC_IN_TURN:
        return HTC_OK;
    case HTC_IN_FRAMES:
        break;
    }
    return HTC_EUNSUPPORTED;
}

static htc_status bridge_step(void *self, const htc_input *given, htc_output *out)
{
    htc_kv_bridge *b = self;
    htc_input      room;
    htc_status     status;
    if (!b || !out)
        return HTC_EINVAL;
    const htc_input *in = htc__input_known(given, &room, &status);
    if (!in || b->stopped)
        return in ? HTC_OK : status;
    b->out = out;
    b->now = in->now;
    status = input(b, in, out);
    breaks(b, status);
    while (b->broken == HTC_OK && b->again && b->again->due <= b->now) {
        ask *a = b->again;
        DL_DELETE2(b->again, a, turn_prev, turn_next);
        send(b, a);
    }
    while (b->broken == HTC_OK && b->begins) {
        ask *a = b->begins;
        DL_DELETE2(b->begins, a, turn_prev, turn_next);
        begin(b, a);
    }
    if (b->broken == HTC_OK && !b->stopped)
        breaks(b, htc__kv_native_flush(&b->native, out));
    if (b->broken == HTC_OK && !b->stopped)
        breaks(b, htc__kv_native_tell(&b->native, b->now, out));
    b->out = NULL;
    return b->broken;
}

static htc_ns bridge_deadline(const void *self)
{
    const htc_kv_bridge *b = self;
    htc_ns               told = htc__kv_watches_deadline(&b->native.watches);
    if (b->stopped)
        return HTC_NEVER;
    if (b->native.ready)
        return 0;
    return b->again && b->again->due < told ? b->again->due : told;
}

static void bridge_destroy(void *self)
{
    htc_kv_bridge_destroy(self);
}

const htc_machine_ops *htc_kv_bridge_ops(void)
{
    static const htc_machine_ops ops = { sizeof ops, bridge_step, bridge_deadline, bridge_destroy, 0 };
    return &ops;
}

/* ---- for drivers ---- */

htc_status htc_kv_bridge_ask_read(htc_bytes body, htc_kv_request *request)
{
    htc_kv_request q = { .size = sizeof q };
    if (!request || request->size < sizeof q)
        return HTC_EINVAL;
    htc_reader r = htc_reader_of(body);
    htc__kv_op_read(&r, &q);
    if (htc_reader_done(&r) != HTC_OK)
        return HTC_EPROTO;
    *request = q;
    return HTC_OK;
}

void htc_kv_bridge_answer_write(htc_buf *body, const htc_kv_result *result)
{
    htc__kv_result_write(body, result);
}

/* ---- for monitors ---- */

void htc_kv_bridge_metrics(const htc_kv_bridge *b, htc_metrics *m)
{
    if (!b || !m)
        return;
    const struct {
        uint32_t    kind;
        const char *name, *help;
        uint64_t    value;
    } all[] = {
        { HTC_METRIC_GAUGE, "htc_kv_bridge_connections", "Clients that are connected.", b->native.conns.count },
        { HTC_METRIC_GAUGE, "htc_kv_bridge_requests_held", "Requests of clients that are not answered.", b->asks.count },
        { HTC_METRIC_GAUGE, "htc_kv_bridge_bytes_held", "Bytes of these.", b->bytes },
        { HTC_METRIC_COUNTER, "htc_kv_bridge_answers", "Requests of clients that were answered.", b->count.answers },
        { HTC_METRIC_COUNTER, "htc_kv_bridge_calls", "Requests to the store behind the bridge.", b->count.calls },
        { HTC_METRIC_COUNTER, "htc_kv_bridge_repeats", "Requests that the store did not answer, and that are sent again.", b->count.repeats },
        { HTC_METRIC_COUNTER, "htc_kv_bridge_mismatches", "Changes that found another version than they expected.", b->count.mismatches },
        { HTC_METRIC_COUNTER, "htc_kv_bridge_pushed_back", "Messages of clients that were to be sent again: too much at once.", b->native.pushed_back },
        { HTC_METRIC_COUNTER, "htc_kv_bridge_corrupt", "Requests that found a record which no bridge has written.", b->count.corrupt },
    };
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++) {
        htc_metrics_family(m, all[i].kind, all[i].name, "", all[i].help);
        htc_metrics_value(m, NULL, 0, all[i].value);
    }
}

/* ---- life ---- */

htc_status htc_kv_bridge_create(const htc_env *env, const htc_kv_bridge_options *options, htc_kv_bridge **out)
{
    htc_kv_bridge_options o = { 0 };
    if (!env || !env->rng || !options || !out)
        return HTC_EINVAL;
    htc_status status = htc__options_copy(&o, sizeof o, options, options->size, sizeof options->size);
    if (status != HTC_OK)
        return status;
    o.asks_max = o.asks_max ? o.asks_max : 4096;
    o.bytes_max = o.bytes_max ? o.bytes_max : (size_t)32 << 20;
    o.retry_ns = o.retry_ns ? o.retry_ns : 50 * HTC_MS;
    htc_kv_bridge *b = htc__alloc(env, sizeof *b);
    if (!b)
        return HTC_ENOMEM;
    b->env = *env;
    b->options = o;
    b->asks = (htc__slot_map){ .env = &b->env };
    htc__table_init(&b->keys, env);
    htc_buf_init(&b->body, env, 0);
    htc_buf_init(&b->scratch, env, 0);
    htc_buf_init(&b->page, env, 0);
    b->native.env = *env;
    b->native.backend = (htc__kv_backend){ .ask = take, .busy = busy, .full = full, .read = read_size, .ctx = b };
    b->native.connections_max = o.connections_max ? o.connections_max : 1024;
    b->native.inflight_max = 1024;
    b->native.output_max = (size_t)64 << 20;
    htc__kv_native_init(&b->native);
    *out = b;
    return HTC_OK;
}

void htc_kv_bridge_destroy(htc_kv_bridge *b)
{
    if (!b)
        return;
    htc_env env = b->env;
    htc__kv_native_free(&b->native);
    for (ask *a; (a = htc__slot_map_any(&b->asks)) != NULL;)
        ask_free(b, a);
    htc__slot_map_free(&b->asks);
    htc__table_free(&b->keys);
    htc_buf_free(&b->body);
    htc_buf_free(&b->scratch);
    htc_buf_free(&b->page);
    htc__free(&env, b, sizeof *b);
}
