#include "kvs/peer/map_items.h"

#include "htcsched/kv.h"

void htc__kv_floors_write(htc_buf *b, const htc__kv_floors *floors)
{
    htc_put_varint(b, floors->version);
    htc__kv_ballot_write(b, &floors->ballot);
}

htc__kv_floors htc__kv_floors_read(htc_reader *r)
{
    htc__kv_floors floors = { .version = htc_get_varint(r) };
    floors.ballot = htc__kv_ballot_read(r);
    return floors;
}

static uint32_t get_small(htc_reader *r, uint32_t most)
{
    uint64_t v = htc_get_varint(r);
    if (v > most)
        htc_reader_fail(r);
    return (uint32_t)v;
}

/* Of a number, what is drawn from one counter and so has room above it. */
static uint64_t get_number(htc_reader *r)
{
    uint64_t v = htc_get_varint(r);
    if (v == 0 || v > HTC__KV_MAP_NUMBERS)
        htc_reader_fail(r);
    return v;
}

static htc_bytes get_key(htc_reader *r)
{
    htc_bytes key = htc_get_bytes(r);
    if (key.len > HTC_KV_KEY_MAX)
        htc_reader_fail(r);
    return key;
}

void htc__kv_have_write(htc_buf *b, uint64_t have)
{
    htc_put_varint(b, have);
}

htc_status htc__kv_have_read(htc_bytes bytes, uint64_t *have)
{
    htc_reader r = htc_reader_of(bytes);
    *have = htc_get_varint(&r);
    return htc_reader_done(&r);
}

void htc__kv_seal_ask_write(htc_buf *b, const htc__kv_seal_ask *seal)
{
    htc_put_varint(b, seal->number);
    htc_put_varint(b, seal->bucket);
    htc_put_varint(b, seal->epoch);
    htc_put_bytes(b, seal->after);
    if (seal->eventual)
        htc_put_u8(b, 1);
}

htc_status htc__kv_seal_ask_read(htc_bytes bytes, htc__kv_seal_ask *seal)
{
    htc_reader r = htc_reader_of(bytes);
    *seal = (htc__kv_seal_ask){ .number = get_number(&r) };
    seal->bucket = get_small(&r, HTC__KV_OWN_BUCKET);
    seal->epoch = get_number(&r);
    seal->after = get_key(&r);
    int more = htc_reader_left(&r) != 0;
    seal->eventual = more ? htc_get_u8(&r) : 0;
    if (more && seal->eventual != 1)
        htc_reader_fail(&r);
    return htc_reader_done(&r);
}

enum { PAGE_EVENTUAL = 4 }; /* beside page->last */

/* From the floors on. */
static void put_rest(htc_buf *b, const htc__kv_page *page)
{
    htc_put_u8(b, (uint8_t)(page->last | (page->eventual ? PAGE_EVENTUAL : 0)));
    htc__kv_floors_write(b, &page->floors);
    htc_put_raw(b, page->entries);
}

static htc_status get_rest(htc_reader *r, htc__kv_page *page, uint8_t last_max)
{
    uint8_t flags = htc_get_u8(r);
    page->eventual = (flags & PAGE_EVENTUAL) != 0;
    page->last = (uint8_t)(flags & ~PAGE_EVENTUAL);
    if (page->last > (page->eventual ? 1 : last_max))
        htc_reader_fail(r);
    page->floors = htc__kv_floors_read(r);
    page->entries = htc_get_raw(r, htc_reader_left(r));
    return htc_reader_done(r);
}

void htc__kv_shown_write(htc_buf *b, const htc__kv_page *page)
{
    htc_put_varint(b, page->number);
    htc_put_varint(b, page->bucket);
    htc_put_bytes(b, page->after);
    put_rest(b, page);
}

htc_status htc__kv_shown_read(htc_bytes bytes, htc__kv_page *page)
{
    htc_reader r = htc_reader_of(bytes);
    *page = (htc__kv_page){ .number = get_number(&r) };
    page->bucket = get_small(&r, HTC__KV_OWN_BUCKET);
    page->after = get_key(&r);
    return get_rest(&r, page, HTC__KV_PAGE_LOST);
}

void htc__kv_install_write(htc_buf *b, const htc__kv_page *page)
{
    htc_put_varint(b, page->number);
    htc_put_varint(b, page->bucket);
    htc_put_varint(b, page->page);
    put_rest(b, page);
}

htc_status htc__kv_install_read(htc_bytes bytes, htc__kv_page *page)
{
    htc_reader r = htc_reader_of(bytes);
    *page = (htc__kv_page){ .number = get_number(&r) };
    page->bucket = get_small(&r, HTC__KV_OWN_BUCKET);
    page->page = get_small(&r, UINT32_MAX - 1);
    return get_rest(&r, page, 1);
}

void htc__kv_installed_write(htc_buf *b, const htc__kv_page *page)
{
    htc_put_varint(b, page->number);
    htc_put_varint(b, page->bucket);
    htc_put_varint(b, page->page);
}

htc_status htc__kv_installed_read(htc_bytes bytes, htc__kv_page *page)
{
    htc_reader r = htc_reader_of(bytes);
    *page = (htc__kv_page){ .number = get_number(&r) };
    page->bucket = get_small(&r, HTC__KV_OWN_BUCKET);
    page->page = get_small(&r, UINT32_MAX);
    return htc_reader_done(&r);
}

void htc__kv_join_write(htc_buf *b, const htc__kv_map_member *member, uint64_t instead)
{
    htc_put_u64(b, member->id);
    htc_put_u64(b, member->process);
    htc_put_u64(b, member->domain);
    htc_put_varint(b, member->weight);
    htc_put_str(b, member->address);
    htc_put_u64(b, instead);
}

htc_status htc__kv_join_read(htc_bytes bytes, htc__kv_map_member *member, uint64_t *instead)
{
    htc_reader r = htc_reader_of(bytes);
    *member = (htc__kv_map_member){ .id = htc_get_u64(&r) };
    member->process = htc_get_u64(&r);
    member->domain = htc_get_u64(&r);
    member->weight = get_small(&r, HTC_RING_WEIGHT_MAX);
    htc_get_str(&r, member->address, sizeof member->address);
    *instead = htc_get_u64(&r);
    if (member->id == 0 || member->weight == 0)
        htc_reader_fail(&r);
    return htc_reader_done(&r);
}

void htc__kv_as_of_write(htc_buf *b, uint64_t numbers)
{
    htc_put_varint(b, numbers);
}

htc_status htc__kv_as_of_read(htc_bytes bytes, uint64_t *numbers)
{
    htc_reader r = htc_reader_of(bytes);
    *numbers = htc_get_varint(&r);
    if (*numbers > HTC__KV_MAP_NUMBERS)
        htc_reader_fail(&r);
    return htc_reader_done(&r);
}
