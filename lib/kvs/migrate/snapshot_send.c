/* The content of buckets as this member holds it, page by page: for whoever has sealed them here (kvs/migrate/migration_batch.h), or copies them from one that
 * has them (migrate/backfill.c). A key that is only promised to somebody is not shown: the promise is of an epoch that has passed.
 * A damaged record is shown as such to who seals; to who copies its bucket shows nothing: others can.
 *
 * Keys lie in their own order, not by bucket, so a look for one bucket passes over all others'. Therefore all that has been asked for is gathered
 * in one pass over the keys, some of them in a step. What is asked for meanwhile waits for the next pass. A sealed bucket's content does
 * not change before the map has gone on, and then nobody needs what was asked for: it is not sent. Who copies from one that serves takes
 * each key as one moment had it. */
#include <string.h>

#include "kvs/migrate/buckets.h"
#include "kvs/eventual/migration.h"
#include "kvs/migrate/bucket_migration.h"

#define PAGE_BYTES ((size_t)64 << 10) /* of entries at once, if there is more than one */
#define PASS_BYTES ((size_t)8 << 20)  /* of all pages of a pass, about */
#define ASKS_MAX   4096               /* beyond these one is as good as lost */

/* One page that somebody has asked for. */
typedef struct show {
    uint64_t to, number, epoch;
    uint32_t bucket;
    uint8_t  kind, more;
    uint32_t next; /* of the same bucket in this pass, plus one */
    size_t   after_len;
    uint8_t  after[HTC_KV_KEY_MAX];
    htc_buf  entries;
    htc_status status;
} show;

typedef struct htc__kv_shows {
    show        *list[ASKS_MAX];
    uint32_t     count, passing; /* the first `passing` of them are in this pass; 0: none is under way */
    uint32_t    *of_bucket;      /* the first in this pass, plus one */
    htc__kv_name from;
    uint64_t     touched;
    size_t       bytes, page_bytes;
} shows;

/* ---------------------------------------------------------------- who asks for what */

static void discard(htc_kv_server *s, show *w)
{
    htc_buf_free(&w->entries);
    htc__free(&s->env, w, sizeof *w);
}

static int same(const show *w, uint64_t to, uint32_t bucket, uint8_t kind)
{
    return w->to == to && w->bucket == bucket && w->kind == kind;
}

static void set(show *w, const htc__kv_seal_ask *ask)
{
    w->number = ask->number;
    w->epoch = ask->epoch;
    w->after_len = ask->after.len;
    if (ask->after.len)
        memcpy(w->after, ask->after.data, ask->after.len);
}

void htc__kv_snapshot_send_ask(htc_kv_server *s, uint64_t to, const htc__kv_seal_ask *ask, uint8_t kind)
{
    shows *x = s->cluster->holding->shows;
    if (ask->eventual) { /* these have an index by bucket */
        htc__kv_eventual_show(s, to, ask, kind, x->page_bytes);
        return;
    }
    for (uint32_t i = 0; i < x->passing; i++)
        if (same(x->list[i], to, ask->bucket, kind) && x->list[i]->number == ask->number &&
            htc_bytes_equal(ask->after, (htc_bytes){ x->list[i]->after, x->list[i]->after_len }))
            return; /* it is being gathered */
    for (uint32_t i = x->passing; i < x->count; i++)
        if (same(x->list[i], to, ask->bucket, kind)) {
            set(x->list[i], ask);
            return;
        }
    show *w = x->count < ASKS_MAX ? htc__alloc(&s->env, sizeof *w) : NULL;
    if (!w) {
        if (x->count < ASKS_MAX)
            htc__kv_cluster_broken(s, HTC_ENOMEM);
        return;
    }
    w->to = to;
    w->bucket = ask->bucket;
    w->kind = kind;
    htc_buf_init(&w->entries, &s->env, 0);
    set(w, ask);
    x->list[x->count++] = w;
}

/* ---------------------------------------------------------------- a pass */

static void begin_pass(shows *x)
{
    x->passing = x->count;
    x->from = htc__kv_name_of(HTC__SCHEMA_CELL, NULL, (htc_bytes){ NULL, 0 });
    x->touched = 0;
    x->bytes = 0;
    for (uint32_t i = 0; i < x->passing; i++) {
        show *w = x->list[i];
        w->more = 0;
        w->status = HTC_OK;
        htc_buf_clear(&w->entries);
        w->next = x->of_bucket[w->bucket];
        x->of_bucket[w->bucket] = i + 1;
    }
}

typedef struct passing {
    const htc__kv_cluster *c;
    shows                 *x;
    uint32_t               looked;
    int                    more;
} passing;

static void add(shows *x, show *w, htc_bytes key, htc_bytes value)
{
    htc__kv_cell cell;
    if (w->status != HTC_OK || w->more || (w->after_len && htc_bytes_compare(key, (htc_bytes){ w->after, w->after_len }) <= 0))
        return;
    w->status = value.data ? htc__kv_cell_read(value, NULL, &cell) : HTC_ECORRUPT;
    if (w->status == HTC_ECORRUPT && w->kind == HTC__KV_ITEM_SHOWN) {
        value = (htc_bytes){ NULL, 0 };
        w->status = HTC_OK;
    } else if (w->status != HTC_OK || !cell.present)
        return; /* others can show it; a promise, of an epoch that has passed */
    if ((w->entries.len && w->entries.len + value.len > x->page_bytes) || x->bytes > PASS_BYTES) {
        w->more = 1;
        return;
    }
    size_t before = w->entries.len;
    htc_put_bytes(&w->entries, key);
    htc_put_bytes(&w->entries, value);
    w->status = w->entries.status;
    x->bytes += w->entries.len - before;
}

static int meet(void *visitor, htc_bytes name, htc_bytes value)
{
    passing  *p = visitor;
    htc_bytes key = { (const uint8_t *)name.data + 1, name.len - 1 };
    if (!htc__schema_is(name, HTC__SCHEMA_CELL))
        return 0;
    if (p->looked == HTC__KV_SLICE_LOOK) {
        p->more = 1;
        p->x->from.len = name.len;
        memcpy(p->x->from.data, name.data, name.len);
        return 0;
    }
    p->looked++;
    uint32_t bucket = htc__kv_cluster_bucket(p->c, key);
    if (bucket == HTC__KV_OWN_BUCKET)
        return 1;
    for (uint32_t i = p->x->of_bucket[bucket]; i; i = p->x->list[i - 1]->next)
        add(p->x, p->x->list[i - 1], key, value);
    return 1;
}

static void reply(htc_kv_server *s, const show *w, uint64_t touched)
{
    htc__kv_cluster *c = s->cluster;
    htc__kv_seal_ask ask = { w->number, w->epoch, w->bucket, { w->after, w->after_len }, 0 };
    htc__kv_page     page = { .number = w->number, .bucket = w->bucket, .last = !w->more, .after = ask.after };
    if (w->status == HTC_ENOMEM)
        htc__kv_cluster_broken(s, w->status);
    if (w->status != HTC_OK || !htc__kv_buckets_may_show(s, &ask, w->kind == HTC__KV_ITEM_COPIED))
        return;
    s->touched = touched;
    htc__kv_buckets_touch(s, w->bucket);
    htc_status status = htc__kv_cluster_floors_load(s, w->bucket, &page.floors);
    if (status == HTC_ECORRUPT && w->kind == HTC__KV_ITEM_SHOWN) { /* what the other owners remember of what is gone is enough, or too little */
        htc__kv_lost_say(s, w->to, &ask);
        return;
    }
    page.entries = htc_buf_bytes(&w->entries);
    htc_buf_clear(&c->scratch);
    htc__kv_shown_write(&c->scratch, &page);
    if (status == HTC_OK)
        htc__kv_cluster_reply(s, w->to, w->kind);
    else if (status == HTC_ENOMEM || status == HTC_EIO)
        htc__kv_cluster_broken(s, status);
}

/* Where a page has no room for even one key, it waits for the next pass. */
static void end_pass(htc_kv_server *s, shows *x)
{
    uint32_t kept = 0;
    for (uint32_t i = 0; i < x->passing; i++)
        x->of_bucket[x->list[i]->bucket] = 0;
    for (uint32_t i = 0; i < x->count; i++) {
        show *w = x->list[i];
        int   waits = i >= x->passing || (w->more && w->entries.len == 0 && w->status == HTC_OK);
        if (waits) {
            x->list[kept++] = w;
            continue;
        }
        if (s->broken == HTC_OK)
            reply(s, w, x->touched);
        discard(s, w);
    }
    x->count = kept;
    x->passing = 0;
}

void htc__kv_snapshot_send_tick(htc_kv_server *s)
{
    shows  *x = s->cluster->holding->shows;
    passing p = { .c = s->cluster, .x = x };
    if (x->count == 0)
        return;
    if (x->passing == 0)
        begin_pass(x);
    s->touched = 0;
    htc_status status = htc__kv_scan(s, htc__kv_name_bytes(&x->from), meet, &p);
    x->touched = s->touched > x->touched ? s->touched : x->touched;
    if (status == HTC_ENOMEM || status == HTC_EIO)
        htc__kv_cluster_broken(s, status);
    if (status != HTC_OK || !p.more)
        end_pass(s, x);
}

int htc__kv_snapshot_send_wait(const htc_kv_server *s)
{
    return s->cluster->holding->shows->count != 0;
}

/* ---------------------------------------------------------------- the map itself */

/* One key, which is looked at at once. */
void htc__kv_snapshot_send_map(htc_kv_server *s, uint64_t to, const htc__kv_seal_ask *ask)
{
    htc__kv_name name = htc__kv_name_of(HTC__SCHEMA_CELL, NULL, htc__kv_map_key());
    show         w = { .to = to, .number = ask->number, .epoch = ask->epoch, .bucket = ask->bucket, .kind = HTC__KV_ITEM_SHOWN };
    shows        none = { .bytes = 0 };
    htc_bytes    value;
    htc_buf_init(&w.entries, &s->env, 0);
    htc_status status = htc__kv_read(s, htc__kv_name_bytes(&name), &value);
    if (status == HTC_ECORRUPT)
        value = (htc_bytes){ NULL, 0 };
    if (status == HTC_OK || status == HTC_ECORRUPT)
        add(&none, &w, htc__kv_map_key(), value);
    else if (status != HTC_ENOTFOUND)
        w.status = status;
    reply(s, &w, s->touched);
    htc_buf_free(&w.entries);
}

/* ---------------------------------------------------------------- life */

htc_status htc__kv_snapshot_send_make(htc_kv_server *s)
{
    htc__kv_bucket_states *h = s->cluster->holding;
    h->shows = htc__alloc(&s->env, sizeof *h->shows);
    if (h->shows)
        h->shows->of_bucket = htc__alloc(&s->env, s->cluster->buckets * sizeof *h->shows->of_bucket);
    if (!h->shows || !h->shows->of_bucket)
        return HTC_ENOMEM;
    h->shows->page_bytes = htc__kv_cluster_page(s, PAGE_BYTES);
    return HTC_OK;
}

/* What they had met is gone: whoever asked asks again. */
void htc__kv_snapshot_send_undone(htc_kv_server *s)
{
    shows *x = s->cluster->holding->shows;
    for (uint32_t i = 0; i < x->count; i++) {
        x->of_bucket[x->list[i]->bucket] = 0;
        discard(s, x->list[i]);
    }
    x->count = x->passing = 0;
}

void htc__kv_snapshot_send_free(htc_kv_server *s)
{
    htc__kv_bucket_states *h = s->cluster->holding;
    if (!h->shows)
        return;
    if (h->shows->of_bucket)
        htc__kv_snapshot_send_undone(s);
    htc__free(&s->env, h->shows->of_bucket, s->cluster->buckets * sizeof *h->shows->of_bucket);
    htc__free(&s->env, h->shows, sizeof *h->shows);
}
