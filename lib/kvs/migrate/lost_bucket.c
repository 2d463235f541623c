/* What this member remembers of a bucket is damaged (kvs/map/bucket_state.h): it may have confirmed anything of it, in any epoch that there has been.
 *
 *     found ──▶ it answers nothing of the bucket; whoever seals it hears that it is sealed, and that what there was is lost
 *     the map is read, by a majority ──▶ no image with a higher number can ever have been here
 *     renewed, or moved for any other reason ──▶ such an image arrives, or is copied ──▶ served
 *
 * Why that is safe. What is final in the old epoch a majority of its owners has accepted. The image of the next one is made once a
 * majority is sealed, this member among them or not, of what as many of the others hold as meet every majority: two of three, one of two. So
 * whatever was final is in it, as if this member had been away. It serves nothing of an image that it may have served before, nor copies
 * that: what it had accepted is known to nobody, and with it the two others would be a majority that has seen too little. An image that is
 * newer it has never had, and in its epochs it has accepted nothing.
 *
 * Where frames of its log are lost (a segment that is missing, an end before the one that was written down) it may have forgotten anything of
 * any bucket, that it owns it too. So all are lost, and its numbers go on far above those that it remembers. Once all of this is stored, the log
 * is told so, and writes everything anew behind the damage. */
#include <inttypes.h>
#include <string.h>

#include "kvs/migrate/buckets.h"
#include "kvs/eventual/eventual.h"
#include "kvs/storage/log.h"

struct htc__kv_lost {
    uint8_t all; /* a part of the log was, in this life */
};

static htc__kv_bucket_state *hold_of(htc__kv_cluster *c, uint32_t bucket)
{
    return bucket == HTC__KV_OWN_BUCKET ? &c->own_hold : &c->hold[bucket];
}

int htc__kv_lost_frames(const htc_kv_server *s)
{
    return s->options.log_durability && htc__log_is_damaged(&s->cells);
}

void htc__kv_lost_all(htc_kv_server *s)
{
    htc__kv_cluster *c = s->cluster;
    for (uint32_t b = 0; b < c->buckets; b++)
        c->hold[b] = htc__kv_bucket_state_lost();
    c->own_hold = htc__kv_bucket_state_lost();
    c->lost->all = 1;
    htc__log_with(&s->env, HTC_LOG_ERROR, HTC__FIELDS(HTC__NUMBER("buckets", c->buckets), HTC__STATUS(HTC_ECORRUPT)),
                  "a part of this member's log is lost -> leave all of its keys to their other owners until their buckets are renewed");
}

static void say_found(const htc_kv_server *s, uint32_t bucket)
{
    if (bucket == HTC__KV_OWN_BUCKET)
        htc__log_with(&s->env, HTC_LOG_ERROR, HTC__FIELDS(HTC__STATUS(HTC_ECORRUPT)),
                      "what this member remembers of the map is damaged -> leave the map to those that keep it too until it is renewed");
    else
        htc__log_with(&s->env, HTC_LOG_ERROR, HTC__FIELDS(HTC__NUMBER("bucket", bucket), HTC__STATUS(HTC_ECORRUPT)),
                      "what this member remembers of bucket %" PRIu32 " is damaged -> leave all of its keys to its other owners until it is renewed",
                      bucket);
}

void htc__kv_lost_found(htc_kv_server *s, uint32_t bucket)
{
    htc__kv_cluster *c = s->cluster;
    if (hold_of(c, bucket)->sealed == UINT64_MAX)
        htc__kv_cluster_moving_read(s);
    if (!htc__kv_route_has(c, bucket, c->id))
        return;
    htc__kv_repair_bucket(s, bucket);
    if (!htc__kv_lost_frames(s) && htc__kv_repair_may_say(s))
        say_found(s, bucket);
}

int htc__kv_lost_may_be_renewed(const htc_kv_server *s, uint32_t bucket)
{
    const htc__kv_bucket_state *hold = &s->cluster->hold[bucket];
    return hold->lost && hold->sealed != UINT64_MAX;
}

/* ---------------------------------------------------------------- what it cannot have answered for */

/* 0: there is no room. */
static int known(htc_kv_server *s, uint32_t bucket, uint64_t numbers)
{
    htc__kv_bucket_state *hold = hold_of(s->cluster, bucket), next = *hold;
    if (htc__kv_bucket_state_known(&next, numbers) == 0)
        return 1;
    if (!htc__kv_buckets_room(s, 0, 0))
        return 0;
    *hold = next;
    htc_status status = htc__kv_buckets_stage(s, bucket);
    if (status != HTC_OK)
        htc__kv_cluster_broken(s, status);
    return 1;
}

/* What it says of itself from now on it says in its next life, too. */
static int repaired(htc_kv_server *s)
{
    htc_status status = htc__kv_acceptors_reserved(s) ? htc__kv_eventual_floor_keep(s) : HTC_EBUSY;
    if (status == HTC_ENOMEM || status == HTC_EIO)
        htc__kv_cluster_broken(s, status);
    if (status == HTC_OK)
        htc__log_repaired(&s->cells);
    return status == HTC_OK;
}

static int all_known(htc_kv_server *s, const htc__kv_map *map)
{
    htc__kv_cluster *c = s->cluster;
    int              done = known(s, HTC__KV_OWN_BUCKET, map->own_epoch + (map->own_next.n != 0));
    for (uint32_t b = 0; b < c->buckets && done && s->broken == HTC_OK; b++)
        done = known(s, b, map->numbers);
    return done && htc__kv_lost_frames(s) ? repaired(s) : done;
}

static int any_is_lost(const htc__kv_cluster *c)
{
    uint32_t b = 0;
    while (b < c->buckets && !c->hold[b].lost)
        b++;
    return b < c->buckets || c->own_hold.lost;
}

int htc__kv_lost_known(htc_kv_server *s, const htc_kv_result *read)
{
    htc__kv_cluster *c = s->cluster;
    htc__kv_map     *map = NULL;
    if (!any_is_lost(c))
        return 1;
    if (read->status == HTC_ENOTFOUND)
        return c->map_version || all_known(s, c->map);
    if (read->status != HTC_OK)
        return 1; /* it is read again */
    htc_status status = htc__kv_map_decode(&s->env, read->value, &map);
    if (status == HTC_ENOMEM)
        htc__kv_cluster_broken(s, status);
    int done = status != HTC_OK || all_known(s, map);
    htc__kv_map_destroy(map);
    return done;
}

/* ---------------------------------------------------------------- what is said */

void htc__kv_lost_say(htc_kv_server *s, uint64_t to, const htc__kv_seal_ask *seal)
{
    htc__kv_cluster *c = s->cluster;
    htc__kv_page     page = { .number = seal->number, .bucket = seal->bucket, .last = HTC__KV_PAGE_LOST, .after = seal->after };
    s->touched = 0;
    htc__kv_buckets_touch(s, seal->bucket);
    htc_buf_clear(&c->scratch);
    htc__kv_shown_write(&c->scratch, &page);
    htc__kv_cluster_reply(s, to, HTC__KV_ITEM_SHOWN);
}

int htc__kv_lost_is_all(const htc_kv_server *s)
{
    return s->cluster->lost->all;
}

static htc_status make(htc_kv_server *s)
{
    s->cluster->lost = htc__alloc(&s->env, sizeof *s->cluster->lost);
    return s->cluster->lost ? HTC_OK : HTC_ENOMEM;
}

static void unmake(htc_kv_server *s)
{
    htc__free(&s->env, s->cluster->lost, sizeof *s->cluster->lost);
    s->cluster->lost = NULL;
}

const htc__kv_component htc__kv_component_lost = { .make = make, .free = unmake };
