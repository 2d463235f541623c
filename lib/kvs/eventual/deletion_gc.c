/* A record that holds nothing but deletions is kept for deleted_ns, so that it meets whatever is still on its way, and then forgotten: its
 * first owner asks all others whether they hold the very same, and if all do, tells them to forget it and does so itself. While an owner
 * is away nothing of its keys is forgotten, so what it holds of a deleted key never comes back.
 *
 * An earlier owner may hold something older still, which it has yet to hand over (eventual/orphan_handoff.c). So nothing of a bucket that has moved is
 * forgotten before every member has said that it holds nothing that only others own.
 *
 * One that missed the word still holds the deletion, and copies it back by comparing; then all of it begins anew. What is never used again are
 * the numbers of the lines that are forgotten: see htc__kv_forget and the cell q.
 *
 * Records are looked at a few at a time, in the order of the index. */
#include "kvs/eventual/deletion_gc.h"

#include <assert.h>

#include "kvs/eventual/orphan_handoff.h"

#define AT_ONCE  16
#define LOOK_AT  256
#define PAUSE_NS (20 * HTC_MS)

/* 1: what is held of the key is just that. */
static int holds(htc_kv_server *s, htc_bytes key, uint64_t digest)
{
    htc_bytes state;
    return htc__kv_backlog_state(s, key, &state) == HTC_OK && htc__kv_state_digest(state) == digest;
}

static void forget(htc_kv_server *s, htc_bytes key, uint64_t digest)
{
    if (!holds(s, key, digest) || htc__kv_full(s))
        return;
    htc_status status = htc__kv_forget(s, key);
    s->cluster->eventual->counts.forgotten += status == HTC_OK;
    if (status == HTC_ENOMEM || status == HTC_EIO)
        htc__kv_cluster_broken(s, status);
}

static void end(htc_kv_server *s, htc__kv_seeking *x)
{
    assert(s->cluster->eventual->collecting > 0);
    s->cluster->eventual->collecting--;
    htc__kv_seeking_end(s, x);
}

void htc__kv_collect_late(htc_kv_server *s, htc__kv_seeking *x)
{
    end(s, x);
}

/* ---------------------------------------------------------------- the first owner */

static void all_hold_it(htc_kv_server *s, htc__kv_seeking *x)
{
    if (holds(s, x->key, x->counter) && !htc__kv_seeking_late(s, x) && htc__kv_space_serves(s, x->bucket)) {
        for (uint32_t i = 0; i < x->n; i++)
            if (x->owner[i] != s->cluster->id)
                htc__kv_copy_say(s, x->owner[i], HTC__KV_ITEM_COLLECT, &(htc__kv_copy){ .digest = x->counter, .flag = 1, .key = x->key }, 0);
        forget(s, x->key, x->counter);
    }
    end(s, x);
}

static void ask_others(htc_kv_server *s, htc_bytes key, uint64_t digest)
{
    htc__kv_eventual *e = s->cluster->eventual;
    htc__kv_seeking  *x = htc__kv_seeking_make(s, NULL, key);
    if (!x) {
        htc__kv_cluster_broken(s, HTC_ENOMEM);
        return;
    }
    x->collects = 1;
    x->counter = digest;
    e->collecting++;
    if (x->n == 1) {
        all_hold_it(s, x);
        return;
    }
    for (uint32_t i = 0; i < x->n; i++)
        if (x->owner[i] != s->cluster->id)
            htc__kv_copy_say(s, x->owner[i], HTC__KV_ITEM_COLLECT, &(htc__kv_copy){ .tag = x->tag, .digest = digest, .key = x->key }, 0);
    htc__wheel_add(&e->wheel, &x->entry, s->now + s->cluster->suspect_ns);
}

void htc__kv_on_collected(htc_kv_server *s, uint64_t from, const htc__kv_copy *copy)
{
    htc__kv_seeking *x = htc__kv_seeking_find(s, copy->tag);
    uint32_t         i = 0;
    while (x && i < x->n && x->owner[i] != from)
        i++;
    if (!x || !x->collects || i == x->n || x->said >> i & 1)
        return;
    x->said |= UINT32_C(1) << i;
    x->has++;
    if (!copy->flag)
        end(s, x);
    else if (x->has == x->n - 1)
        all_hold_it(s, x);
}

/* ---------------------------------------------------------------- the others */

void htc__kv_on_collect(htc_kv_server *s, uint64_t from, const htc__kv_copy *copy)
{
    if (!htc__kv_eventual_answers(s, from, copy))
        return;
    s->touched = 0;
    if (copy->flag) {
        forget(s, copy->key, copy->digest);
        return;
    }
    int held = holds(s, copy->key, copy->digest);
    htc__kv_copy_say(s, from, HTC__KV_ITEM_COLLECTED, &(htc__kv_copy){ .tag = copy->tag, .flag = (uint8_t)held }, 1);
}

/* ---------------------------------------------------------------- time */

static int comes_first(const htc_kv_server *s, htc_bytes key)
{
    uint64_t owner[HTC_RING_OWNERS_MAX];
    uint32_t mine, n = htc__kv_space_owners(s, key, owner, &mine);
    for (uint32_t i = 0; i < n; i++)
        if (htc__kv_cluster_suspected(s, htc__kv_cluster_peer(s->cluster, owner[i])))
            return 0;
    return n > 0 && mine == 0;
}

static void look(htc_kv_server *s, htc__node *node, htc__kv_index_name *last)
{
    const htc__kv_indexed *at = htc__node_value(node);
    htc_bytes              name = htc__node_key(node);
    uint32_t               bucket = htc__kv_index_bucket(node);
    last->len = name.len;
    memcpy(last->data, name.data, name.len);
    htc_bytes key = { last->data + 5, last->len - 5 }; /* the node may go */
    if (at->since != HTC_NEVER && s->now - at->since >= s->options.deleted_ns && comes_first(s, key) &&
        htc__kv_orphans_over(s, bucket))
        ask_others(s, key, at->digest);
}

void htc__kv_forget_tick(htc_kv_server *s)
{
    htc__kv_eventual *e = s->cluster->eventual;
    if (s->now < htc__kv_forget_deadline(s))
        return;
    htc__node *node = htc__table_seek(&e->index, htc__kv_index_bytes(&e->looked_at)), *next;
    for (int i = 0; node && i < LOOK_AT && e->collecting < AT_ONCE && s->broken == HTC_OK; i++, node = next) {
        next = node->next[0];
        look(s, node, &e->looked_at);
    }
    htc_ns rest = s->options.deleted_ns / 64;
    e->looked_at.len = node ? e->looked_at.len : 0;
    e->collect_at = s->now + (node || rest < PAUSE_NS ? PAUSE_NS : rest);
}

htc_ns htc__kv_forget_deadline(const htc_kv_server *s)
{
    const htc__kv_eventual *e = s->cluster->eventual;
    return e->deleted ? e->collect_at : HTC_NEVER;
}
