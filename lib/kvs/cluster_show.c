/* The content of one bucket as this member holds it, page by page: for whoever has sealed it here (kvs/mover.h), or copies it from one that
 * serves it (cluster_hold.c). A key that is only promised to somebody is not shown: the promise is of an epoch that has passed.
 * Damaged, it shows nothing: others can. */
#include "kvs/cluster_private.h"
#include "kvs/mover.h"

#define PAGE_BYTES ((size_t)64 << 10) /* of entries at once, if there is more than one */

typedef struct showing {
    const htc__kv_cluster *c;
    uint32_t               bucket;
    htc_buf               *out;
    int                    more;
    htc_status             status;
} showing;

static int show_cell(void *visitor, htc_bytes name, htc_bytes value)
{
    showing     *w = visitor;
    htc_bytes    key = { (const uint8_t *)name.data + 1, name.len - 1 };
    htc__kv_cell cell;
    if (((const uint8_t *)name.data)[0] != 'k')
        return 0;
    if (htc__kv_cluster_bucket(w->c, key) != w->bucket)
        return 1;
    w->status = value.data ? htc__kv_cell_read(value, NULL, &cell) : HTC_ECORRUPT;
    if (w->status != HTC_OK)
        return 0; /* others can show it */
    if (!cell.present)
        return 1; /* a promise, of an epoch that has passed */
    if (w->out->len && w->out->len + value.len > PAGE_BYTES) {
        w->more = 1;
        return 0;
    }
    htc_put_bytes(w->out, key);
    htc_put_bytes(w->out, value);
    return w->out->status == HTC_OK;
}

static htc_status show(htc_kv_server *s, const htc__kv_seal_ask *seal, htc_buf *entries, int *more)
{
    showing      w = { s->cluster, seal->bucket, entries, 0, HTC_OK };
    htc__kv_name from = htc__kv_name_of('k', NULL, seal->after);
    if (seal->bucket == HTC__KV_OWN_BUCKET)
        from = htc__kv_name_of('k', NULL, htc__kv_map_key());
    if (seal->after.len)
        from.data[from.len++] = 0;
    htc_status status = htc__kv_scan(s, htc__kv_name_bytes(&from), show_cell, &w);
    *more = w.more;
    return status != HTC_OK ? status : w.status != HTC_OK ? w.status : entries->status;
}

void htc__kv_cluster_show(htc_kv_server *s, uint64_t to, const htc__kv_seal_ask *seal, uint8_t kind)
{
    htc__kv_cluster *c = s->cluster;
    htc__kv_page     page = { .number = seal->number, .bucket = seal->bucket, .after = seal->after };
    htc_buf          entries;
    int              more;
    htc_buf_init(&entries, &s->env, 0);
    htc_status status = show(s, seal, &entries, &more);
    if (status == HTC_OK)
        status = htc__kv_cluster_floors_load(s, seal->bucket, &page.floors);
    page.entries = htc_buf_bytes(&entries);
    page.last = !more;
    htc_buf_clear(&c->scratch);
    htc__kv_shown_write(&c->scratch, &page);
    htc_buf_free(&entries);
    if (status == HTC_OK)
        htc__kv_cluster_reply(s, to, kind);
    else if (status == HTC_ENOMEM || status == HTC_EIO)
        htc__kv_cluster_broken(s, status);
}
