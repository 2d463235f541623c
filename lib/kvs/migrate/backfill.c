/* Late: an owner that was away when its buckets were activated copies them, page by page, from owners that have them (COPY). It has answered
 * nothing in that epoch, so of each key it may know anything that another owner knew. One that is sealed is asked as well: where a third one
 * is lost, whoever moves the bucket waits for the late one. Many buckets at once, since whoever is asked meets
 * all its keys for one as for many (migrate/snapshot_send.c). */
#include <assert.h>
#include <string.h>

#include "kvs/migrate/buckets.h"
#include "kvs/eventual/migration.h"
#include "kvs/migrate/bucket_migration.h"

static void ask_for_copy(htc_kv_server *s, htc__kv_copying *y)
{
    htc__kv_cluster     *c = s->cluster;
    const htc__kv_route *route = &c->route[y->bucket];
    htc__kv_seal_ask     ask = { .number = y->epoch, .epoch = y->epoch, .bucket = y->bucket };
    ask.after = (htc_bytes){ y->after, y->after_len };
    ask.eventual = y->eventual;
    uint32_t at = route->peer[y->asked++ % route->n];
    if (at == c->self)
        at = route->peer[y->asked++ % route->n];
    y->again_at = s->now + 4 * (s->options.member_retry_ns ? s->options.member_retry_ns : 50 * HTC_MS);
    htc_buf_clear(&c->scratch);
    htc__kv_seal_ask_write(&c->scratch, &ask);
    if (c->scratch.status == HTC_OK)
        htc__kv_cluster_say(s, c->peers[at].id, HTC__KV_ITEM_COPY, htc_buf_bytes(&c->scratch));
}

static htc__kv_copying *copy_of(htc__kv_bucket_states *h, uint32_t bucket)
{
    for (uint32_t i = 0; h->copying && i < HTC__KV_COPIES; i++)
        if (h->copies[i].busy && h->copies[i].bucket == bucket)
            return &h->copies[i];
    return NULL;
}

/* The last key of a page that was looked through. */
static void keep_last(htc__kv_copying *y, htc_bytes entries)
{
    htc_reader   r = htc_reader_of(entries);
    htc_bytes    key, bytes;
    htc__kv_cell cell;
    while (y->eventual ? htc__kv_eventual_entry_read(&r, &key, &bytes) : htc__kv_entry_read(&r, &key, &bytes, &cell)) {
        memcpy(y->after, key.data, key.len);
        y->after_len = key.len;
    }
}

void htc__kv_cluster_on_copied(htc_kv_server *s, uint64_t from, htc_bytes item)
{
    htc__kv_cluster *c = s->cluster;
    htc__kv_page     page;
    (void)from;
    htc__kv_copying *y = htc__kv_shown_read(item, &page) == HTC_OK ? copy_of(c->holding, page.bucket) : NULL;
    if (!y || y->whole || page.last > 1 || page.number != y->epoch || page.eventual != y->eventual || c->route[y->bucket].epoch != y->epoch ||
        !htc_bytes_equal(page.after, (htc_bytes){ y->after, y->after_len }) || (!page.last && page.entries.len == 0) ||
        !(y->eventual ? htc__kv_eventual_may_take(s, page.bucket, page.entries)
                      : htc__kv_buckets_may_take(s, page.bucket, page.entries)))
        return;
    htc_status status = y->eventual ? htc__kv_eventual_take(s, page.entries, 1)
                                    : htc__kv_buckets_stage_entries(s, (htc__kv_area){ HTC__SCHEMA_COPIED, htc__kv_area_id(y->bucket, y->epoch) },
                                                                  page.entries);
    if (status == HTC_EBUSY)
        return; /* no room; it is asked for again */
    if (status != HTC_OK) {
        htc__kv_cluster_broken(s, status);
        return;
    }
    y->floors.version = page.floors.version > y->floors.version ? page.floors.version : y->floors.version;
    y->floors.ballot = htc__kv_ballot_max(y->floors.ballot, page.floors.ballot);
    keep_last(y, page.entries);
    y->whole = page.last && (y->eventual || !c->eventual);
    if (page.last && !y->whole) {
        y->eventual = 1;
        y->after_len = 0;
    }
    c->counts.copied += (uint64_t)y->whole;
    y->asked += c->route[y->bucket].n - 1; /* the same one again */
    if (!y->whole)
        ask_for_copy(s, y);
}

static void begin_one(htc_kv_server *s, uint32_t bucket)
{
    htc__kv_cluster *c = s->cluster;
    htc__kv_bucket_states *h = c->holding;
    htc__kv_copying *y = h->copies;
    while (y->busy)
        y++;
    *y = (htc__kv_copying){ .busy = 1, .bucket = bucket, .epoch = c->route[bucket].epoch };
    y->asked = (uint32_t)htc_rng_below(s->env.rng, c->route[bucket].n);
    h->copying++;
    ask_for_copy(s, y);
}

/* What is being copied, or has been and changes places, is late still. */
static void begin_more(htc_kv_server *s)
{
    htc__kv_cluster *c = s->cluster;
    htc__kv_bucket_states *h = c->holding;
    for (uint32_t i = 0; i < c->buckets && h->copying < HTC__KV_COPIES; i++) {
        uint32_t b = h->next_late;
        h->next_late = (h->next_late + 1) % c->buckets;
        if ((h->todo[b] & HTC__KV_COPY) && !h->job.part_of[b] && !copy_of(h, b))
            begin_one(s, b);
    }
}

void htc__kv_late_tick(htc_kv_server *s)
{
    htc__kv_cluster *c = s->cluster;
    htc__kv_bucket_states *h = c->holding;
    for (uint32_t i = 0; h->copying && i < HTC__KV_COPIES; i++) {
        htc__kv_copying *y = &h->copies[i];
        if (!y->busy)
            continue;
        if (!(h->todo[y->bucket] & HTC__KV_COPY) || c->route[y->bucket].epoch != y->epoch) {
            y->busy = 0;
            assert(h->copying > 0);
            h->copying--;
            htc__kv_snapshot_install_sweep(s, HTC__SCHEMA_COPIED, htc__kv_area_id(y->bucket, y->epoch));
        } else if (!y->whole && s->now >= y->again_at) {
            ask_for_copy(s, y);
        }
    }
    if (h->late > h->copying && h->copying < HTC__KV_COPIES)
        begin_more(s);
}

htc_ns htc__kv_late_deadline(const htc_kv_server *s)
{
    const htc__kv_bucket_states *h = s->cluster->holding;
    htc_ns                 first = HTC_NEVER;
    for (uint32_t i = 0; h->copying && i < HTC__KV_COPIES; i++)
        if (h->copies[i].busy && !h->copies[i].whole && h->copies[i].again_at < first)
            first = h->copies[i].again_at;
    return first;
}
