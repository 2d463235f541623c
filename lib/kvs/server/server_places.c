/* SCAN in the order of places. Its cursor is where the next page begins, so nothing has to be remembered for it, and a key that is there from
 * the first page to the last is shown once, whatever comes and goes meanwhile. */
#include "core/codec.h"
#include "core/util.h"
#include "kvs/wire/kv_wire.h"
#include "kvs/server/server.h"

#define PAGE_BYTES_MAX ((size_t)1 << 20)
#define PAGE_ENDS_MAX  256
#define SHIFT          (64 - HTC__CELLS_PLACE_BITS)

typedef struct places {
    htc_kv_server *s;
    htc_kv_result *result;
    size_t         limit, ended;
    int            full, more;
    uint64_t       top; /* of the last key shown, then of the first that is not */
} places;

/* Cells keep keys of one top in any order: a page takes all of them or none. */
static int is_over(places *p, htc_bytes name)
{
    uint64_t top = p->s->cells.ops->place(p->s->cells.ctx, name) >> SHIFT;
    if (p->full && top != p->top)
        p->more = 1;
    p->top = top;
    return p->more;
}

static int add(void *visitor, htc_bytes name, htc_bytes value)
{
    places      *p = visitor;
    htc_buf     *items = &p->s->scratch_items;
    htc_bytes    key = { (const uint8_t *)name.data + 1, name.len - 1 };
    htc__kv_cell cell;
    if (!htc__schema_is(name, HTC__SCHEMA_CELL))
        return 1;
    if (is_over(p, name))
        return 0;
    if (htc__kv_show(p->s, key, value, 0, &cell) != HTC_OK) {
        p->result->status = HTC_ECORRUPT; /* said, and the rest is read */
        return 1;
    }
    if (cell.deleted && cell.ttl) {
        htc_put_bytes(&p->s->scratch, key);
        p->full |= ++p->ended >= PAGE_ENDS_MAX;
    } else if (cell.present && !cell.deleted) {
        htc__kv_item_write(items, key, cell.version, cell.value);
        p->full |= ++p->result->items >= p->limit || items->len >= PAGE_BYTES_MAX;
    }
    return items->status == HTC_OK && p->s->scratch.status == HTC_OK;
}

static uint64_t place_of(htc_bytes cursor)
{
    htc_reader r = htc_reader_of(cursor);
    return cursor.len == 8 ? htc_get_u64(&r) : 0;
}

htc_status htc__kv_scan_places(htc_kv_server *s, const htc_kv_request *q, htc_kv_result *result)
{
    places   p = { .s = s, .result = result, .limit = q->limit ? q->limit : 1000 };
    uint64_t batch = 0;
    if (!s->cells.ops->place) {
        result->status = HTC_EUNSUPPORTED;
        return HTC_OK;
    }
    s->stats.reads++;
    htc_buf_clear(&s->scratch);
    htc_buf_clear(&s->scratch_items);
    htc_status status = s->cells.ops->walk(s->cells.ctx, place_of(q->cursor), UINT64_MAX, add, &p, &batch);
    if (batch > s->touched)
        s->touched = batch;
    if (status == HTC_OK)
        status = s->scratch.status == HTC_OK ? s->scratch_items.status : s->scratch.status;
    if (status == HTC_OK && p.ended && s->refuse == HTC_OK)
        status = htc__kv_ends_carry_out(s, p.ended);
    result->items_bytes = htc_buf_bytes(&s->scratch_items);
    if (!p.more)
        return status;
    s->page_last.len = 0;
    for (uint64_t place = p.top << SHIFT; s->page_last.len < 8; place >>= 8)
        s->page_last.data[s->page_last.len++] = (uint8_t)place;
    result->cursor = htc__kv_name_bytes(&s->page_last);
    return status;
}
