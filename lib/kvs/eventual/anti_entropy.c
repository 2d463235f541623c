/* What was missed by everything else is found here. A member goes round the buckets that it holds something of, one each compare_ns, and sends
 * the root of its hash tree (digest.h) to each other owner that is there. Who has another one answers with its branches, gets the leaves of
 * those that differ, answers with the keys and digests in the leaves that differ, and then each sends and asks for just the records
 * that differ:
 *
 *     TREE 0 ──▶ TREE 1 ──▶ TREE 2 ──▶ ENTRIES ──▶ STORE and PULL ──▶ STORE
 *
 * Nobody remembers anything between these: whatever is lost, or was too much for one message, is found in the next round. After a member was
 * away the next round is sixteen times as quick.
 *
 * Only what both own counts: namespaces may differ in N. */
#include "kvs/eventual/anti_entropy.h"

/* Of entries in one message, and of records sent for one. */
#define ENTRIES_BYTES ((size_t)256 << 10)
#define COPIED_BYTES  ((size_t)1 << 20)
#define HURRY         16

static uint32_t leaf_of(htc_bytes name)
{
    return ((const uint8_t *)name.data)[4];
}

static int owned_by(const htc_kv_server *s, htc_bytes key, uint64_t member)
{
    uint64_t owner[HTC_RING_OWNERS_MAX];
    uint32_t mine, n = htc__kv_space_owners(s, key, owner, &mine);
    for (uint32_t i = 0; mine < n && i < n; i++)
        if (owner[i] == member)
            return 1;
    return 0;
}

/* The next record of the bucket from node on that both own; NULL: there is none. */
static htc__node *shared(const htc_kv_server *s, htc__node *node, uint32_t bucket, uint64_t with)
{
    for (; node && htc__kv_index_bucket(node) == bucket; node = node->next[0])
        if (owned_by(s, htc__kv_index_key(node), with))
            return node;
    return NULL;
}

static uint64_t digest_of(const htc__node *node)
{
    return ((const htc__kv_indexed *)htc__node_value(node))->digest;
}

static void sum_up(const htc_kv_server *s, uint32_t bucket, uint64_t with, htc__digest *d)
{
    memset(d, 0, sizeof *d);
    for (htc__node *node = htc__kv_index_seek(s, bucket); (node = shared(s, node, bucket, with)); node = node->next[0]) {
        htc_bytes name = htc__node_key(node);
        uint64_t  digest = digest_of(node);
        htc__digest_add(d, leaf_of(name), htc__digest_record(htc__kv_index_key(node), (htc_bytes){ &digest, sizeof digest }));
    }
}

/* ---------------------------------------------------------------- trees */

static void say(htc_kv_server *s, uint64_t to, uint8_t kind, const htc_buf *b)
{
    if (b->status == HTC_OK)
        htc__kv_cluster_say(s, to, kind, htc_buf_bytes(b));
    else
        htc__kv_cluster_broken(s, b->status);
}

static void say_tree(htc_kv_server *s, uint64_t to, const htc__kv_tree *t)
{
    htc_buf_clear(&s->cluster->scratch);
    htc__kv_tree_write(&s->cluster->scratch, t);
    say(s, to, HTC__KV_ITEM_TREE, &s->cluster->scratch);
}

static void say_branches(htc_kv_server *s, uint64_t to, uint32_t bucket, const htc__digest *d)
{
    htc__kv_tree answer = { .bucket = bucket, .level = 1 };
    for (uint32_t i = 0; i < HTC__DIGEST_BRANCHES; i++)
        answer.sum[i] = htc__digest_branch(d, i);
    say_tree(s, to, &answer);
}

static void say_leaves(htc_kv_server *s, uint64_t to, const htc__kv_tree *t, const htc__digest *d)
{
    htc__kv_tree answer = { .bucket = t->bucket, .level = 2 };
    for (uint32_t i = 0; i < HTC__DIGEST_BRANCHES; i++)
        answer.branches |= (uint16_t)((htc__digest_branch(d, i) != t->sum[i]) << i);
    memcpy(answer.sum, d->leaf, sizeof answer.sum);
    if (answer.branches)
        say_tree(s, to, &answer);
}

/* All that is held in the leaves that differ, leaf by leaf as far as one message takes it. */
static void say_entries(htc_kv_server *s, uint64_t to, const htc__kv_tree *t, const htc__digest *d)
{
    htc__kv_eventual *e = s->cluster->eventual;
    htc__kv_leaves    leaves = { { 0 } };
    int               differs = 0;
    htc_buf_clear(&e->bytes);
    htc__node *node = shared(s, htc__kv_index_seek(s, t->bucket), t->bucket, to);
    for (uint32_t i = 0; i < HTC__DIGEST_LEAVES && e->bytes.len < ENTRIES_BYTES; i++) {
        if (!(t->branches >> i / HTC__KV_TREE_FAN & 1) || t->sum[i] == d->leaf[i])
            continue;
        for (; node && leaf_of(htc__node_key(node)) <= i; node = shared(s, node->next[0], t->bucket, to))
            if (leaf_of(htc__node_key(node)) == i)
                htc__kv_summed_write(&e->bytes, &(htc__kv_summed){ htc__kv_index_key(node), digest_of(node) });
        leaves.bit[i / 8] |= (uint8_t)(1 << i % 8);
        differs = 1;
    }
    if (!differs)
        return;
    htc_buf_clear(&e->other);
    htc__kv_summed_begin(&e->other, t->bucket, &leaves);
    htc_put_raw(&e->other, htc_buf_bytes(&e->bytes));
    if (e->bytes.status != HTC_OK)
        e->other.status = e->bytes.status;
    say(s, to, HTC__KV_ITEM_ENTRIES, &e->other);
}

static void on_tree(htc_kv_server *s, uint64_t from, htc_bytes item)
{
    htc__kv_tree t;
    htc__digest  d;
    if (htc__kv_tree_read(item, &t) != HTC_OK || t.bucket >= s->cluster->buckets || !htc__kv_space_serves(s, t.bucket))
        return;
    sum_up(s, t.bucket, from, &d);
    if (t.level == 0 && htc__digest_root(&d) != t.sum[0])
        say_branches(s, from, t.bucket, &d);
    else if (t.level == 1)
        say_leaves(s, from, &t, &d);
    else if (t.level == 2)
        say_entries(s, from, &t, &d);
}

/* ---------------------------------------------------------------- records */

typedef struct copying {
    htc_kv_server *s;
    uint64_t       with;
    size_t         sent; /* bytes, about */
} copying;

static void give(copying *c, htc_bytes key)
{
    htc_bytes state;
    if (c->sent < COPIED_BYTES && htc__kv_backlog_state(c->s, key, &state) == HTC_OK) {
        c->sent += key.len + state.len;
        c->s->cluster->eventual->counts.copied++;
        htc__kv_say_state(c->s, c->with, 0, key);
    }
}

static void want(copying *c, htc_bytes key)
{
    htc_put_bytes(&c->s->cluster->eventual->other, key);
}

/* Both lists are in order: what one of them lacks, or has otherwise, goes over. */
static void on_entries(htc_kv_server *s, uint64_t from, htc_bytes item)
{
    htc__kv_eventual *e = s->cluster->eventual;
    htc_reader        r = htc_reader_of(item);
    copying           c = { .s = s, .with = from };
    htc__kv_leaves    leaves;
    htc__kv_summed    entry;
    uint32_t          bucket;
    if (htc__kv_summed_read(&r, &bucket, &leaves) != HTC_OK || bucket >= s->cluster->buckets)
        return;
    htc_buf_clear(&e->other);
    htc__node *node = shared(s, htc__kv_index_seek(s, bucket), bucket, from);
    int        more = htc__kv_summed_next(&r, &entry);
    while (node || more) {
        htc__kv_index_name name;
        int                order = node ? -1 : 1;
        if (node && !htc__kv_leaf_in(&leaves, leaf_of(htc__node_key(node)))) {
            node = shared(s, node->next[0], bucket, from);
            continue;
        }
        if (more)
            htc__kv_index_name_of(s, entry.key, &name);
        if (node && more)
            order = htc_bytes_compare(htc__node_key(node), htc__kv_index_bytes(&name));
        int same = order == 0 && digest_of(node) == entry.digest;
        if (order <= 0 && !same)
            give(&c, htc__kv_index_key(node));
        if (order >= 0 && !same)
            want(&c, entry.key);
        if (order <= 0)
            node = shared(s, node->next[0], bucket, from);
        if (order >= 0)
            more = htc__kv_summed_next(&r, &entry);
    }
    if (e->other.len || e->other.status != HTC_OK)
        say(s, from, HTC__KV_ITEM_PULL, &e->other);
}

static void on_pull(htc_kv_server *s, uint64_t from, htc_bytes item)
{
    htc_reader r = htc_reader_of(item);
    copying    c = { .s = s, .with = from };
    htc_bytes  key;
    while (s->broken == HTC_OK && c.sent < COPIED_BYTES && htc__kv_pulled_next(&r, &key))
        if (owned_by(s, key, from))
            give(&c, key);
}

void htc__kv_anti_entropy_dispatch(htc_kv_server *s, uint64_t from, uint8_t kind, htc_bytes item)
{
    if (kind == HTC__KV_ITEM_TREE)
        on_tree(s, from, item);
    else if (kind == HTC__KV_ITEM_ENTRIES)
        on_entries(s, from, item);
    else
        on_pull(s, from, item);
}

/* ---------------------------------------------------------------- time */

static void look_who_is_back(htc_kv_server *s)
{
    htc__kv_cluster *c = s->cluster;
    for (uint32_t i = 0; i < c->count; i++) {
        uint32_t away = (uint32_t)(htc__kv_cluster_suspected(s, &c->peers[i]) != 0);
        if (c->peers[i].away && !away)
            c->eventual->hurried = c->buckets;
        c->peers[i].away = away;
    }
}

static void compare(htc_kv_server *s, uint32_t bucket)
{
    htc__kv_cluster     *c = s->cluster;
    const htc__kv_route *route = &c->route[bucket];
    htc__digest          d;
    htc__kv_tree         root = { .bucket = bucket };
    for (uint32_t i = 0; i < route->n; i++) {
        const htc__kv_peer *peer = &c->peers[route->peer[i]];
        if (peer->self || htc__kv_cluster_suspected(s, peer))
            continue;
        sum_up(s, bucket, peer->id, &d);
        c->eventual->counts.compared++;
        root.sum[0] = htc__digest_root(&d);
        say_tree(s, peer->id, &root);
    }
}

void htc__kv_anti_entropy_tick(htc_kv_server *s)
{
    htc__kv_eventual *e = s->cluster->eventual;
    if (s->now < htc__kv_anti_entropy_deadline(s))
        return;
    look_who_is_back(s);
    htc__node *node = htc__kv_index_seek(s, e->next_bucket);
    if (!node)
        node = e->index.head[0];
    uint32_t bucket = htc__kv_index_bucket(node);
    e->next_bucket = bucket + 1;
    e->compare_at = s->now + s->options.compare_ns / (e->hurried ? HURRY : 1);
    e->hurried -= e->hurried > 0;
    if (htc__kv_space_serves(s, bucket))
        compare(s, bucket);
}

htc_ns htc__kv_anti_entropy_deadline(const htc_kv_server *s)
{
    const htc__kv_eventual *e = s->cluster->eventual;
    return e->index.count ? e->compare_at : HTC_NEVER;
}
