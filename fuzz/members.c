/* What one member says to another: a message of items, each of which is read, and written again as it was. */
#include <stdlib.h>

#include "kvs/peer/eventual_wire.h"
#include "kvs/peer/map_items.h"
#include "kvs/peer/members.h"
#include "kvs/peer/watch_items.h"

static void must(int ok)
{
    if (!ok)
        abort();
}

static void same(const htc_buf *b, htc_bytes item)
{
    must(b->status == HTC_OK && htc_bytes_equal(htc_buf_bytes(b), item));
}

static void read_item(uint8_t kind, htc_bytes item)
{
    htc__kv_forward   f;
    htc__kv_forwarded a;
    htc_buf           b;
    htc_buf_init(&b, NULL, 0);
    if (kind == HTC__KV_ITEM_FORWARD && htc__kv_forward_read(item, &f) == HTC_OK) {
        must(f.request.key.len >= 1 && f.request.key.len <= HTC_KV_KEY_MAX && f.request.value.len <= HTC_KV_VALUE_MAX);
        htc__kv_forward_write(&b, &f);
        same(&b, item);
    }
    if (kind == HTC__KV_ITEM_ANSWER && htc__kv_forwarded_read(item, &a) == HTC_OK) {
        /* A field that is there and says nothing is not written: what is read of that is the same. */
        htc__kv_forwarded again;
        htc__kv_forwarded_write(&b, &a);
        must(htc__kv_forwarded_read(htc_buf_bytes(&b), &again) == HTC_OK);
        must(again.tag == a.tag && again.to == a.to && again.observed == a.observed && again.tried == a.tried &&
             again.result.status == a.result.status && again.result.version == a.result.version &&
             htc_bytes_equal(again.result.value, a.result.value));
    }
    htc__kv_list_ask l;
    htc_buf_clear(&b);
    if (kind == HTC__KV_ITEM_LIST && htc__kv_list_read(item, &l) == HTC_OK) {
        must(l.prefix.len <= HTC_KV_KEY_MAX && l.after.len <= HTC_KV_KEY_MAX);
        htc__kv_list_write(&b, &l);
        same(&b, item);
    }
    htc_buf_clear(&b);
    if (kind == HTC__KV_ITEM_LISTED) {
        htc__kv_listed cell;
        htc_reader     r = htc_reader_of(item);
        while (htc__kv_listed_next(&r, &cell)) {
            must(cell.key.len >= 1 && cell.key.len <= HTC_KV_KEY_MAX);
            htc__kv_listed_write(&b, &cell);
        }
        if (r.status == HTC_OK)
            same(&b, item);
    }
    htc_buf_free(&b);
}

/* Of eventual namespaces. */
static void read_eventual(uint8_t kind, htc_bytes item)
{
    static htc__kv_tree t;
    htc__kv_pass        p;
    htc__kv_copy        c;
    htc__kv_summed      entry;
    htc__kv_leaves      leaves;
    htc_buf             b;
    uint32_t            bucket;
    htc_reader          r = htc_reader_of(item);
    htc_buf_init(&b, NULL, 0);
    switch (kind) {
    case HTC__KV_ITEM_PASS:
        if (htc__kv_pass_read(item, &p) == HTC_OK) {
            must(p.request.space.len > 0 && p.request.space.len + 1 + p.request.key.len <= HTC_KV_KEY_MAX);
            htc__kv_pass_write(&b, &p);
            same(&b, item);
        }
        break;
    case HTC__KV_ITEM_TREE:
        if (htc__kv_tree_read(item, &t) == HTC_OK) {
            htc__kv_tree_write(&b, &t);
            same(&b, item);
        }
        break;
    case HTC__KV_ITEM_ENTRIES:
        if (htc__kv_summed_read(&r, &bucket, &leaves) != HTC_OK)
            break;
        htc__kv_summed_begin(&b, bucket, &leaves);
        while (htc__kv_summed_next(&r, &entry))
            htc__kv_summed_write(&b, &entry);
        if (r.status == HTC_OK)
            same(&b, item);
        break;
    case HTC__KV_ITEM_FETCH:
    case HTC__KV_ITEM_FETCHED:
    case HTC__KV_ITEM_STORE:
    case HTC__KV_ITEM_STORED:
    case HTC__KV_ITEM_COLLECT:
    case HTC__KV_ITEM_COLLECTED:
        if (htc__kv_copy_read(kind, item, &c) == HTC_OK) {
            must(c.key.len <= HTC_KV_KEY_MAX);
            htc__kv_copy_write(&b, kind, &c);
            same(&b, item);
        }
        break;
    default:
        break;
    }
    htc_buf_free(&b);
}

static void read_map_item(uint8_t kind, htc_bytes item)
{
    htc__kv_seal_ask   seal;
    htc__kv_page       page;
    htc__kv_map_member member;
    uint64_t           number;
    htc_buf            b;
    htc_buf_init(&b, NULL, 0);
    if ((kind == HTC__KV_ITEM_HAVE || kind == HTC__KV_ITEM_WANT) && htc__kv_have_read(item, &number) == HTC_OK)
        htc__kv_have_write(&b, number);
    else if ((kind == HTC__KV_ITEM_SEAL || kind == HTC__KV_ITEM_COPY) && htc__kv_seal_ask_read(item, &seal) == HTC_OK)
        htc__kv_seal_ask_write(&b, &seal);
    else if ((kind == HTC__KV_ITEM_SHOWN || kind == HTC__KV_ITEM_COPIED) && htc__kv_shown_read(item, &page) == HTC_OK)
        htc__kv_shown_write(&b, &page);
    else if (kind == HTC__KV_ITEM_INSTALL && htc__kv_install_read(item, &page) == HTC_OK)
        htc__kv_install_write(&b, &page);
    else if (kind == HTC__KV_ITEM_INSTALLED && htc__kv_installed_read(item, &page) == HTC_OK)
        htc__kv_installed_write(&b, &page);
    else if (kind == HTC__KV_ITEM_JOIN && htc__kv_join_read(item, &member, &number) == HTC_OK)
        htc__kv_join_write(&b, &member, number);
    else
        b.status = HTC_EPROTO;
    if (b.status == HTC_OK)
        same(&b, item);
    htc_buf_free(&b);
}

/* Of watches. */
static void read_watch(uint8_t kind, htc_bytes item)
{
    htc__kv_watch_item watch;
    htc__kv_wanted     wanted;
    htc__kv_marks_item marks;
    htc__kv_marked     marked;
    htc_buf            b;
    htc_reader         r = htc_reader_of(item);
    htc_buf_init(&b, NULL, 0);
    if (kind == HTC__KV_ITEM_WATCH) {
        htc__kv_watch_item_read(&r, &watch);
        htc__kv_watch_item_write(&b, &watch);
        while (htc__kv_wanted_next(&r, &wanted)) {
            must(wanted.key.len <= HTC_KV_KEY_MAX && (wanted.key.len > 0 || (wanted.flags & HTC__KV_WATCH_PREFIX)));
            htc__kv_wanted_write(&b, &wanted);
        }
    } else if (kind == HTC__KV_ITEM_MARKS) {
        htc__kv_marks_item_read(&r, &marks);
        htc__kv_marks_item_write(&b, &marks);
        while (htc__kv_marked_next(&r, &marked)) {
            must(marked.key.len >= 1 && marked.key.len <= HTC_KV_KEY_MAX);
            htc__kv_marked_write(&b, &marked);
        }
    }
    if (b.len && r.status == HTC_OK)
        same(&b, item);
    htc_buf_free(&b);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    htc_reader r = htc_reader_of((htc_bytes){ data, size });
    uint8_t    kind;
    htc_bytes  item;
    while (htc__kv_members_next(&r, &kind, &item)) {
        read_item(kind, item);
        read_map_item(kind, item);
        read_eventual(kind, item);
        read_watch(kind, item);
    }
    return 0;
}
