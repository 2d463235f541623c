/* Requests about eventual keys: asked here, passed on by a member that is no owner, or to one that is. */
#include "kvs/eventual/eventual.h"

#include "core/fault.h"
#include "kvs/eventual/deletion_gc.h"
#include "kvs/eventual/anti_entropy.h"
#include "kvs/util/digest.h"
#include "kvs/eventual/hinted_handoff.h"
#include "kvs/eventual/orphan_handoff.h"
#include "kvs/eventual/recovery.h"

typedef htc__kv_seeking seeking;

/* What waits at once: so many, and not beyond so many bytes. */
#define SEEKING_MAX   65536
#define SEEKING_BYTES ((size_t)64 << 20)

/* ---------------------------------------------------------------- namespaces */

const htc__kv_space *htc__kv_space_of(const htc_kv_server *s, htc_bytes name)
{
    const htc__kv_eventual *e = s->cluster->eventual;
    for (uint32_t i = 0; i < e->spaces; i++)
        if (htc_bytes_equal((htc_bytes){ e->space[i].name, e->space[i].len }, name))
            return &e->space[i];
    return NULL;
}

/* The part of all that some of them are, rounded up: 2 of 3 are 2 of 2, 3 of 5 are 2 of 3. */
static uint32_t part_of(uint32_t some, uint32_t all, uint32_t of)
{
    return (some * of + all - 1) / all;
}

htc__kv_quorum htc__kv_space_quorum(const htc__kv_space *space, uint32_t m)
{
    if (m >= space->n)
        return (htc__kv_quorum){ space->n, space->r, space->w };
    return (htc__kv_quorum){ m, part_of(space->r, space->n, m), part_of(space->w, space->n, m) };
}

void htc__kv_space_pick(uint32_t n, uint32_t bucket, const uint64_t *ids, uint32_t m, uint64_t *owner)
{
    uint64_t rank[HTC_RING_OWNERS_MAX];
    if (n >= m) {
        memcpy(owner, ids, m * sizeof *ids);
        return;
    }
    for (uint32_t i = 0; i < m; i++) {
        uint64_t words[2] = { ids[i], bucket }, at = htc__digest_words(words, 2, 0);
        uint32_t j = i < n ? i : n;
        for (; j > 0 && rank[j - 1] > at; j--)
            if (j < n) {
                rank[j] = rank[j - 1];
                owner[j] = owner[j - 1];
            }
        if (j < n) {
            rank[j] = at;
            owner[j] = ids[i];
        }
    }
}

uint32_t htc__kv_space_owners(const htc_kv_server *s, htc_bytes key, uint64_t *owner, uint32_t *mine)
{
    const uint8_t       *end = memchr(key.data, 0, key.len);
    const htc__kv_space *space =
        end ? htc__kv_space_of(s, (htc_bytes){ key.data, (size_t)(end - (const uint8_t *)key.data) }) : NULL;
    uint32_t       bucket;
    htc__kv_owners owners = space ? htc__kv_cluster_owners(s, key, &bucket) : (htc__kv_owners){ 0 };
    uint32_t       n = space && space->n < owners.n ? space->n : owners.n;
    *mine = n;
    if (n)
        htc__kv_space_pick(n, bucket, owners.id, owners.n, owner);
    for (uint32_t i = 0; i < n; i++)
        if (owner[i] == s->cluster->id)
            *mine = i;
    return n;
}

/* ---------------------------------------------------------------- what waits */

seeking *htc__kv_seeking_find(const htc_kv_server *s, uint64_t tag)
{
    htc__node *node = htc__table_find(&s->cluster->eventual->seeking, (htc_bytes){ &tag, sizeof tag });
    return node ? htc__node_value(node) : NULL;
}

static int too_much_waits(const htc_kv_server *s)
{
    const htc__kv_eventual *e = s->cluster->eventual;
    return e->seeking.count >= SEEKING_MAX || e->held_bytes > SEEKING_BYTES;
}

void htc__kv_seeking_end(htc_kv_server *s, seeking *x)
{
    uint64_t tag = x->tag;
    s->cluster->eventual->held_bytes -= x->size + x->state.len;
    if (x->client)
        htc__kv_flight_leave(&s->flight, x->flies);
    htc__wheel_remove(&s->cluster->eventual->wheel, &x->entry);
    htc__free(&s->env, x->bytes, x->size);
    htc_buf_free(&x->state);
    htc__table_remove(&s->cluster->eventual->seeking, (htc_bytes){ &tag, sizeof tag });
}

static uint32_t needed(const htc_kv_server *s, const seeking *x)
{
    htc__kv_quorum q = htc__kv_space_quorum(htc__kv_space_of(s, x->q.space), s->cluster->route[x->bucket].n);
    return x->q.op == HTC_KV_GET ? q.r : q.w;
}

static htc_bytes take(uint8_t **at, htc_bytes bytes)
{
    htc_bytes taken = { *at, bytes.len };
    if (bytes.len)
        memcpy(*at, bytes.data, bytes.len);
    *at += bytes.len;
    return taken;
}

/* As the newest map says. Nobody has answered. */
static void find_owners(htc_kv_server *s, seeking *x)
{
    uint32_t mine;
    x->bucket = htc__kv_cluster_bucket(s->cluster, x->key);
    x->epoch = s->cluster->route[x->bucket].epoch;
    x->n = htc__kv_space_owners(s, x->key, x->owner, &mine);
    x->said = x->has = 0;
    if (x->q.op)
        x->need = needed(s, x);
}

int htc__kv_seeking_late(const htc_kv_server *s, const seeking *x)
{
    return x->epoch != s->cluster->route[x->bucket].epoch;
}

seeking *htc__kv_seeking_make(htc_kv_server *s, const htc_kv_request *q, htc_bytes key)
{
    htc__kv_eventual *e = s->cluster->eventual;
    uint64_t          tag = e->last_tag + 1;
    size_t            size = (q ? q->space.len + 1 + q->key.len + q->value.len + q->context.len : key.len) + 1;
    htc__node        *node = htc__table_make(&e->seeking, (htc_bytes){ &tag, sizeof tag }, sizeof(seeking));
    uint8_t          *at = node ? htc__alloc(&s->env, size) : NULL;
    if (!at) {
        htc__table_discard(&e->seeking, node);
        return NULL;
    }
    seeking *x = htc__node_value(node);
    *x = (seeking){ .tag = tag, .bytes = at, .size = size, .arrived = s->now };
    if (q) {
        x->q = *q;
        x->q.space = take(&at, q->space);
        take(&at, (htc_bytes){ "", 1 });
        x->q.key = take(&at, q->key);
        x->key = (htc_bytes){ x->bytes, q->space.len + 1 + q->key.len };
        x->q.value = take(&at, q->value);
        x->q.context = take(&at, q->context);
    } else {
        x->key = take(&at, key);
    }
    htc_buf_init(&x->state, &s->env, 0);
    find_owners(s, x);
    x->pause = s->options.member_retry_ns;
    x->until = s->now + s->cluster->request_ns + htc__kv_flight_patience(&s->flight, 0);
    htc__table_link(&e->seeking, node);
    e->held_bytes += size;
    e->last_tag = tag;
    return x;
}

static void wait(htc_kv_server *s, seeking *x, htc_ns pause)
{
    htc_ns at = s->now + pause;
    htc__wheel_remove(&s->cluster->eventual->wheel, &x->entry);
    htc__wheel_add(&s->cluster->eventual->wheel, &x->entry, at < x->until ? at : x->until);
}

static uint32_t place_of(const seeking *x, uint64_t member)
{
    uint32_t i = 0;
    while (i < x->n && x->owner[i] != member)
        i++;
    return i;
}

void htc__kv_copy_say(htc_kv_server *s, uint64_t to, uint8_t kind, const htc__kv_copy *copy, int late)
{
    htc__kv_cluster *c = s->cluster;
    htc__kv_copy     now = *copy;
    if (copy->key.len)
        now.epoch = c->route[htc__kv_cluster_bucket(c, copy->key)].epoch;
    htc_buf_clear(&c->scratch);
    htc__kv_copy_write(&c->scratch, kind, &now);
    if (late)
        htc__kv_cluster_reply(s, to, kind);
    else if (c->scratch.status == HTC_OK)
        htc__kv_cluster_say(s, to, kind, htc_buf_bytes(&c->scratch));
    else
        htc__kv_cluster_broken(s, c->scratch.status);
}

static void tell(htc_kv_server *s, seeking *x, htc_kv_result *result)
{
    htc__kv_cluster *c = s->cluster;
    x->answered = 1;
    result->op = x->q.op;
    if (x->face) {
        htc__kv_count_answer(&s->counts, x->q.op, result->status);
        x->face->answer(x->face->ctx, x->conn, x->slot, result);
    } else if (x->conn) {
        htc_buf_clear(&c->scratch);
        htc__kv_passed_write(&c->scratch, x->slot, result);
        if (c->scratch.status == HTC_OK)
            htc__kv_cluster_say(s, x->conn, HTC__KV_ITEM_PASSED, htc_buf_bytes(&c->scratch));
    }
    x->face = NULL;
    x->conn = 0;
}

/* This owner's own word, when what it has looked at or staged is stored. state: what a get is to learn by that; NULL: it has it already. */
static void own_word(htc_kv_server *s, const seeking *x, const htc_bytes *state)
{
    htc__kv_copy word = { .tag = x->tag };
    if (x->q.op == HTC_KV_GET && state)
        word.state = *state;
    else
        word.flag = x->q.op == HTC_KV_GET;
    htc__kv_copy_say(s, s->cluster->id, x->q.op == HTC_KV_GET ? HTC__KV_ITEM_FETCHED : HTC__KV_ITEM_STORED, &word, 1);
}

/* Ask those that have not answered for what they hold, or have them store what is held here. */
static void say_to_others(htc_kv_server *s, const seeking *x)
{
    htc__kv_copy ask = { .tag = x->tag, .digest = x->counter, .key = x->key };
    for (uint32_t i = 0; i < x->n; i++) {
        if (x->said >> i & 1 || x->owner[i] == s->cluster->id)
            continue;
        if (x->q.op == HTC_KV_GET)
            htc__kv_copy_say(s, x->owner[i], HTC__KV_ITEM_FETCH, &ask, 0);
        else
            htc__kv_say_state(s, x->owner[i], x->tag, x->key);
    }
}

/* ---------------------------------------------------------------- get */

/* Answered by this owner as by the others: when what it shows is stored, and they need not send that. What is not stored yet comes with its word: were it
 * known before, others would be told of what a crash may take, and its numbers come again. */
static htc_status begin_get(htc_kv_server *s, seeking *x, uint32_t mine)
{
    htc_bytes  state = { NULL, 0 };
    htc_status status = HTC_ENOTFOUND;
    s->touched = 0;
    mine = htc__kv_space_serves(s, x->bucket) ? mine : x->n;
    if (mine < x->n)
        status = htc__kv_backlog_state(s, x->key, &state);
    int stored = s->touched <= htc__kv_stored(s);
    if (status == HTC_OK && stored)
        htc_put_raw(&x->state, state);
    else if (status != HTC_OK && status != HTC_ENOTFOUND && (status != HTC_ECORRUPT || x->n == 1))
        return status;
    if (x->state.status != HTC_OK)
        return x->state.status;
    s->cluster->eventual->held_bytes += x->state.len;
    x->counter = htc__kv_state_digest(htc_buf_bytes(&x->state));
    if (mine < x->n && status != HTC_ECORRUPT)
        own_word(s, x, stored ? NULL : &state);
    say_to_others(s, x);
    wait(s, x, x->pause);
    return HTC_OK;
}

/* The same put may have been coordinated twice, as its client repeated it. */
static int was_listed(const htc__siblings *a, uint32_t i)
{
    for (uint32_t j = 0; j < i; j++)
        if (a->value[j].client == a->value[i].client && a->value[j].sequence == a->value[i].sequence)
            return a->value[i].client != 0;
    return 0;
}

static void tell_values(htc_kv_server *s, seeking *x)
{
    htc__kv_eventual *e = s->cluster->eventual;
    htc_kv_result     result = { .size = sizeof result, .status = htc__siblings_read(htc_buf_bytes(&x->state), &e->a) };
    htc_buf_clear(&e->bytes);
    htc_buf_clear(&e->other);
    for (uint32_t i = 0; result.status == HTC_OK && i < e->a.values; i++) {
        if (e->a.value[i].deleted || was_listed(&e->a, i))
            continue;
        htc__kv_item_write(&e->bytes, (htc_bytes){ NULL, 0 }, 0, e->a.value[i].value);
        result.items++;
    }
    if (e->a.lines)
        htc__siblings_write_context(&e->other, &e->a);
    if (e->bytes.status != HTC_OK || e->other.status != HTC_OK) {
        htc__kv_cluster_broken(s, HTC_ENOMEM);
        return;
    }
    if (result.items == 0 && result.status == HTC_OK)
        result.status = HTC_ENOTFOUND;
    result.items_bytes = htc_buf_bytes(&e->bytes);
    result.context = htc_buf_bytes(&e->other);
    tell(s, x, &result);
}

/* Whoever turned out to lack something is told. */
static void mend(htc_kv_server *s, const seeking *x)
{
    htc__kv_eventual *e = s->cluster->eventual;
    htc_bytes         state = htc_buf_bytes(&x->state);
    uint64_t          all = htc__kv_state_digest(state);
    if (HTC__BROKEN(repair_drops_siblings) && htc__siblings_read(state, &e->a) == HTC_OK && e->a.values > 1) {
        for (uint32_t i = 0; i < e->a.lines; i++)
            e->a.line[i].count = e->a.line[i].first == 0 && e->a.line[i].count;
        htc_buf_clear(&e->bytes);
        htc__siblings_write(&e->bytes, &e->a);
        state = htc_buf_bytes(&e->bytes);
    }
    for (uint32_t i = 0; state.len && i < x->n; i++) {
        if (!(x->said >> i & 1) || x->digest[i] == all)
            continue;
        e->counts.mended++;
        htc__kv_copy_say(s, x->owner[i], HTC__KV_ITEM_STORE, &(htc__kv_copy){ .key = x->key, .state = state }, 0);
    }
}

htc_status htc__kv_seeking_learn(htc_kv_server *s, seeking *x, htc_bytes state)
{
    htc__kv_eventual *e = s->cluster->eventual;
    htc_status        status = htc__siblings_read(htc_buf_bytes(&x->state), &e->a);
    if (status == HTC_OK)
        status = htc__siblings_read(state, &e->b);
    if (status == HTC_OK)
        status = htc__siblings_merge(&e->c, &e->a, &e->b);
    if (status != HTC_OK)
        return status;
    htc_buf_clear(&e->bytes);
    htc__siblings_write(&e->bytes, &e->c);
    htc_buf swap = x->state;
    x->state = e->bytes;
    e->bytes = swap;
    e->held_bytes += x->state.len - swap.len;
    return x->state.status;
}

static void on_fetched(htc_kv_server *s, uint64_t from, const htc__kv_copy *copy)
{
    seeking *x = htc__kv_seeking_find(s, copy->tag);
    uint32_t i = x ? place_of(x, from) : 0;
    if (!x || i == x->n || x->said >> i & 1)
        return;
    if (x->q.op != HTC_KV_GET) {
        if (x->leaves)
            htc__kv_orphans_fetched(s, x, i, copy->flag);
        else if (x->mends)
            htc__kv_recovery_fetched(s, x, i, copy->state);
        return;
    }
    htc_status status = copy->flag || copy->state.len == 0 ? HTC_OK : htc__kv_seeking_learn(s, x, copy->state);
    if (status == HTC_ENOMEM)
        htc__kv_cluster_broken(s, status);
    if (status != HTC_OK)
        return;
    x->said |= UINT32_C(1) << i;
    x->has++;
    x->digest[i] = copy->flag ? x->counter : htc__kv_state_digest(copy->state);
    if (!x->answered && x->has >= x->need) {
        tell_values(s, x);
        wait(s, x, s->options.member_retry_ns); /* for the others, which may have to be mended */
    }
    if (x->answered && x->has == x->n) {
        mend(s, x);
        htc__kv_seeking_end(s, x);
    }
}

/* ---------------------------------------------------------------- put, delete */

/* 1: it holds the put that this request repeats; *member and *counter say which write that is. */
static int find_put(const htc__siblings *a, const htc__kv_stamp *stamp, uint64_t *member, uint64_t *counter)
{
    for (uint32_t l = 0; stamp->client && l < a->lines; l++)
        for (uint32_t i = 0; i < a->line[l].count; i++) {
            const htc__sibling *v = &a->value[a->line[l].first + i];
            if (v->client != stamp->client || v->sequence != stamp->sequence)
                continue;
            *member = a->line[l].member;
            *counter = a->line[l].counter - i;
            return 1;
        }
    return 0;
}

/* Which of this member's lines of e->c the next write is of. What was forgotten may come back, or be known elsewhere: numbers up to the
 * floor were perhaps used. Where values hang on such numbers, a line of another name is begun. */
static uint64_t own_line(const htc_kv_server *s)
{
    htc__kv_eventual   *e = s->cluster->eventual;
    uint64_t            id = s->cluster->id;
    htc__siblings_line *own = NULL;
    uint64_t            floor = HTC__BROKEN(floor_not_raised) ? 0 : e->floor;
    for (uint32_t i = 0; i < e->c.lines; i++)
        own = e->c.line[i].member == id ? &e->c.line[i] : own;
    e->b.lines = e->b.values = 0;
    if (floor == 0 || (own && own->counter >= floor))
        return id;
    if (!own || own->count == 0) { /* it counts on from the floor, as if its client had seen all to there */
        e->b.lines = 1;
        e->b.line[0] = (htc__siblings_line){ id, floor, 0, 0 };
        return id;
    }
    return htc__digest_words(&e->floor, 1, id) | 1;
}

/* Make e->a of what is held: e->c with the new value in it. */
static htc_status make_put(htc_kv_server *s, seeking *x, uint64_t *member)
{
    htc__kv_eventual *e = s->cluster->eventual;
    htc_status        status = htc__siblings_read(x->q.context, &e->b);
    if (status != HTC_OK || e->b.values || htc__siblings_leaps(&e->b, &e->a, e->floor))
        return HTC_EINVAL;
    if (HTC__BROKEN(context_ignored)) { /* as if its client had seen all that is here */
        e->b.lines = e->a.lines;
        for (uint32_t i = 0; i < e->a.lines; i++)
            e->b.line[i] = (htc__siblings_line){ e->a.line[i].member, e->a.line[i].counter, 0, 0 };
    }
    if ((status = htc__siblings_merge(&e->c, &e->a, &e->b)) != HTC_OK)
        return status;
    *member = own_line(s);
    htc__sibling value = { .client = x->stamp.client,
                           .sequence = x->stamp.sequence,
                           .deleted = x->q.op == HTC_KV_DELETE,
                           .value = x->q.value };
    status = htc__siblings_put(&e->a, &e->c, &e->b, *member, &value);
    if (status != HTC_OK)
        return status;
    for (uint32_t i = 0; i < e->a.lines; i++)
        x->counter = e->a.line[i].member == *member ? e->a.line[i].counter : x->counter;
    return HTC_OK;
}

static htc_status no_room(const htc_kv_server *s, const seeking *x, size_t held)
{
    if (htc__kv_full(s))
        return HTC_EBUSY;
    if (s->options.memory_max && x->q.op != HTC_KV_DELETE && s->cells.ops->used(s->cells.ctx) > s->options.memory_max)
        return HTC_EFULL;
    return (x->q.op == HTC_KV_DELETE ? htc__kv_room : htc__kv_room_to_grow)(s, x->key.len, held + x->q.value.len);
}

/* Nothing leaves before it is stored here: its number must never be used again. */
static htc_status begin_put(htc_kv_server *s, seeking *x)
{
    htc__kv_eventual *e = s->cluster->eventual;
    htc_bytes         held = { NULL, 0 };
    s->touched = 0;
    if (x->q.value.len > s->options.value_max)
        return HTC_ETOOBIG;
    htc_status status = htc__kv_backlog_state(s, x->key, &held);
    if (status == HTC_OK || status == HTC_ENOTFOUND)
        status = htc__siblings_read(held, &e->a) == HTC_OK ? no_room(s, x, held.len) : HTC_ECORRUPT;
    if (status != HTC_OK)
        return status;
    if (!find_put(&e->a, &x->stamp, &x->target, &x->counter)) {
        htc_buf_clear(&e->other); /* values are borrowed from what is held, which moves */
        htc_put_raw(&e->other, held);
        if (e->other.status != HTC_OK || (held.len && htc__siblings_read(htc_buf_bytes(&e->other), &e->a) != HTC_OK))
            return HTC_ENOMEM;
        if ((status = make_put(s, x, &x->target)) == HTC_OK)
            status = htc__kv_eventual_hold(s, x->key, &e->a);
        e->counts.conflicts += status == HTC_EFULL;
        if (status != HTC_OK)
            return status == HTC_EFULL ? HTC_ECONFLICT : status;
    }
    if (e->a.values == 1)
        htc__siblings_write_context(&x->state, &e->a);
    e->held_bytes += x->state.len;
    x->stored = 1;
    own_word(s, x, NULL);
    say_to_others(s, x);
    wait(s, x, x->pause);
    return x->state.status;
}

static void leave_hints(htc_kv_server *s, const seeking *x)
{
    for (uint32_t i = 0; place_of(x, s->cluster->id) < x->n && i < x->n; i++)
        if (!(x->said >> i & 1))
            htc__kv_hint(s, x->owner[i], x->key);
}

static void on_stored(htc_kv_server *s, uint64_t from, const htc__kv_copy *copy)
{
    seeking *x = htc__kv_seeking_find(s, copy->tag);
    uint32_t i = x ? place_of(x, from) : 0;
    if (!x || i == x->n || x->said >> i & 1)
        return;
    if (x->q.op == 0) {
        if (x->leaves)
            htc__kv_orphans_stored(s, x, i);
        else if (!x->collects && !x->mends)
            htc__kv_hint_stored(s, x, from);
        return;
    }
    if (x->q.op == HTC_KV_GET || !x->stored)
        return;
    x->said |= UINT32_C(1) << i;
    x->has++;
    if (!x->answered && x->has >= x->need)
        tell(s, x, &(htc_kv_result){ .size = sizeof(htc_kv_result), .version = x->counter, .member = x->target, .context = htc_buf_bytes(&x->state) });
    if (x->has == x->n)
        htc__kv_seeking_end(s, x);
}

/* ---------------------------------------------------------------- passed on */

/* To another owner, any of them at first, then the next; those that were not heard lately last. */
static void pass_on(htc_kv_server *s, seeking *x)
{
    htc__kv_cluster *c = s->cluster;
    uint64_t         to = 0;
    if (x->attempt == 0)
        x->counter = htc_rng_below(s->env.rng, x->n);
    uint32_t at = (uint32_t)(x->counter + x->attempt++) % x->n;
    for (uint32_t i = 0; i < x->n; i++, at = (at + 1) % x->n) {
        if (x->owner[at] == c->id)
            continue;
        to = x->owner[at];
        if (!htc__kv_cluster_suspected(s, htc__kv_cluster_peer(c, to)))
            break;
    }
    x->passed = 1;
    x->target = to;
    c->counts.forwarded++;
    htc_buf_clear(&c->scratch);
    htc__kv_pass_write(&c->scratch, &(htc__kv_pass){ x->tag, x->stamp, x->q });
    if (c->scratch.status == HTC_OK)
        htc__kv_cluster_say(s, x->target, HTC__KV_ITEM_PASS, htc_buf_bytes(&c->scratch));
    wait(s, x, c->suspect_ns);
}

/* Until this member serves the bucket, or somebody else does: while it moves, say. */
static void park(htc_kv_server *s, seeking *x)
{
    x->parked = 1;
    wait(s, x, s->options.member_retry_ns);
}

/* here: nobody else is asked, having been asked by somebody already. */
static htc_status begin(htc_kv_server *s, seeking *x, int here)
{
    uint32_t mine = place_of(x, s->cluster->id);
    x->parked = x->passed = 0;
    if (x->q.op == HTC_KV_GET)
        return begin_get(s, x, mine);
    if (mine < x->n && htc__kv_space_serves(s, x->bucket))
        return begin_put(s, x);
    if (here || (mine < x->n && x->n == 1))
        park(s, x);
    else
        pass_on(s, x);
    return HTC_OK;
}

/* A later version's operation, or a flag of it: whether another owner knew it, and has done it, nobody can tell here. */
static void not_known(htc_kv_server *s, uint64_t from, uint64_t tag)
{
    htc__kv_cluster *c = s->cluster;
    htc_buf_clear(&c->scratch);
    htc__kv_passed_write(&c->scratch, tag, &(htc_kv_result){ .size = sizeof(htc_kv_result), .status = HTC_EUNSUPPORTED });
    if (c->scratch.status == HTC_OK)
        htc__kv_cluster_say(s, from, HTC__KV_ITEM_PASSED, htc_buf_bytes(&c->scratch));
}

static void on_pass(htc_kv_server *s, uint64_t from, htc_bytes item)
{
    htc__kv_pass p;
    htc_status   read = htc__kv_pass_read(item, &p);
    if (read == HTC_EUNSUPPORTED)
        not_known(s, from, p.tag);
    if (read != HTC_OK || !htc__kv_space_of(s, p.request.space) || too_much_waits(s))
        return;
    seeking *x = htc__kv_seeking_make(s, &p.request, (htc_bytes){ NULL, 0 });
    if (!x) {
        htc__kv_cluster_broken(s, HTC_ENOMEM);
        return;
    }
    x->stamp = p.stamp;
    x->conn = from;
    x->slot = p.tag;
    htc_status status = place_of(x, s->cluster->id) < x->n ? begin(s, x, 1) : HTC_AGAIN;
    if (status == HTC_ENOMEM || status == HTC_EIO)
        htc__kv_cluster_broken(s, status);
    if (status == HTC_OK)
        return;
    if (status != HTC_AGAIN && status != HTC_EBUSY) /* else it is asked for again, elsewhere */
        tell(s, x, &(htc_kv_result){ .size = sizeof(htc_kv_result), .status = status });
    htc__kv_seeking_end(s, x);
}

/* A failure is believed of the one who has it now; success of anybody. */
static void on_passed(htc_kv_server *s, uint64_t from, htc_bytes item)
{
    uint64_t      tag;
    htc_kv_result result = { .size = sizeof result };
    seeking      *x;
    if (htc__kv_passed_read(item, &tag, &result) != HTC_OK || !(x = htc__kv_seeking_find(s, tag)) || !x->passed ||
        (result.status != HTC_OK && x->target != from))
        return;
    tell(s, x, &result);
    htc__kv_seeking_end(s, x);
}

/* ---------------------------------------------------------------- time */

/* Rarely: what this member says to itself may find no room, and it may serve the bucket only now. */
static void say_own_word(htc_kv_server *s, seeking *x)
{
    htc_bytes  held;
    htc_status status = htc__kv_backlog_state(s, x->key, &held);
    if (status == HTC_OK || status == HTC_ENOTFOUND)
        own_word(s, x, &held);
    else if (status == HTC_ENOMEM || status == HTC_EIO)
        htc__kv_cluster_broken(s, status);
}

static void say_again(htc_kv_server *s, seeking *x)
{
    uint32_t mine = place_of(x, s->cluster->id);
    s->touched = 0;
    if (mine < x->n && htc__kv_space_serves(s, x->bucket) && !(x->said >> mine & 1))
        say_own_word(s, x);
    say_to_others(s, x);
    x->pause = x->pause < s->cluster->suspect_ns ? 2 * x->pause : x->pause;
    wait(s, x, x->pause);
}

/* It could not be begun here, or where it was passed on to has not answered. */
static void begin_again(htc_kv_server *s, seeking *x)
{
    s->cluster->counts.passed_on += x->passed;
    find_owners(s, x);
    int        here = x->face == NULL && x->conn != 0;
    htc_status status = here && place_of(x, s->cluster->id) == x->n ? HTC_AGAIN : begin(s, x, here);
    if (status == HTC_ENOMEM || status == HTC_EIO)
        htc__kv_cluster_broken(s, status);
    if (status == HTC_OK)
        return;
    if (!here || (status != HTC_AGAIN && status != HTC_EBUSY)) /* else it is asked for again, elsewhere */
        tell(s, x, &(htc_kv_result){ .size = sizeof(htc_kv_result), .status = status });
    htc__kv_seeking_end(s, x);
}

static void due(htc_kv_server *s, seeking *x)
{
    int over = s->now >= x->until;
    if (x->q.op == 0) {
        if (x->leaves)
            htc__kv_orphans_late(s, x);
        else if (x->mends)
            htc__kv_recovery_late(s, x);
        else if (x->collects)
            htc__kv_collect_late(s, x);
        else
            htc__kv_hint_late(s, x);
        return;
    }
    if (over && !x->answered)
        tell(s, x, &(htc_kv_result){ .size = sizeof(htc_kv_result), .status = HTC_ETIMEDOUT });
    if (!over && !x->passed && !x->parked && htc__kv_seeking_late(s, x)) {
        find_owners(s, x); /* what was answered by those of another epoch counts for nothing */
        x->pause = s->options.member_retry_ns;
    }
    if ((x->passed || x->parked) && !over) {
        begin_again(s, x);
    } else if (x->passed || x->parked) {
        htc__kv_seeking_end(s, x);
    } else if (x->q.op == HTC_KV_GET && (over || x->answered)) {
        mend(s, x);
        htc__kv_seeking_end(s, x);
    } else if (over || (x->answered && s->now - x->arrived >= s->cluster->suspect_ns)) {
        leave_hints(s, x);
        htc__kv_seeking_end(s, x);
    } else {
        say_again(s, x);
    }
}

static void tick(htc_kv_server *s)
{
    htc__kv_eventual *e = s->cluster->eventual;
    while (e && s->broken == HTC_OK && htc__wheel_next(&e->wheel) <= s->now) {
        seeking *x = (seeking *)htc__wheel_take(&e->wheel, s->now);
        if (x)
            due(s, x);
    }
    if (!e || s->broken != HTC_OK || !s->cluster->map) /* the rest asks who owns a key */
        return;
    htc__kv_hints_tick(s);
    if (s->broken == HTC_OK)
        htc__kv_orphans_tick(s);
    if (s->broken == HTC_OK)
        htc__kv_recovery_tick(s);
    if (s->broken == HTC_OK)
        htc__kv_anti_entropy_tick(s);
    if (s->broken == HTC_OK)
        htc__kv_forget_tick(s);
}

static htc_ns earlier(htc_ns a, htc_ns b)
{
    return a < b ? a : b;
}

static htc_ns deadline(const htc_kv_server *s)
{
    const htc__kv_eventual *e = s->cluster->eventual;
    if (!e)
        return HTC_NEVER;
    htc_ns at = htc__wheel_next(&e->wheel);
    if (!s->cluster->map)
        return at;
    at = earlier(at, htc__kv_hints_deadline(s));
    at = earlier(at, earlier(htc__kv_orphans_deadline(s), htc__kv_recovery_deadline(s)));
    return earlier(at, earlier(htc__kv_anti_entropy_deadline(s), htc__kv_forget_deadline(s)));
}

/* ---------------------------------------------------------------- asked and heard */

int htc__kv_eventual_ask(htc_kv_server *s, const htc_kv_request *q, const htc__kv_stamp *stamp,
                         const htc__kv_face *face, uint64_t conn, uint64_t slot, htc_kv_result *result)
{
    htc__kv_eventual *e = s->cluster->eventual;
    *result = (htc_kv_result){ .size = sizeof(htc_kv_result), .op = q->op, .status = HTC_EINVAL };
    if (!e || !htc__kv_space_of(s, q->space))
        return 1;
    result->status = HTC_EBUSY;
    if (too_much_waits(s))
        return 1;
    *(q->op == HTC_KV_GET ? &s->stats.reads : &s->stats.changes) += 1;
    seeking *x = htc__kv_seeking_make(s, q, (htc_bytes){ NULL, 0 });
    result->status = HTC_ENOMEM;
    if (x) {
        x->stamp = *stamp;
        x->client = 1;
        x->flies = q->op == HTC_KV_GET ? htc__kv_flight_guess(&s->flight, q->key) : x->size;
        htc__kv_flight_enter(&s->flight, x->flies);
        x->face = face;
        x->conn = conn;
        x->slot = slot;
        result->status = begin(s, x, 0);
    }
    if (result->status == HTC_ENOMEM || result->status == HTC_EIO)
        htc__kv_cluster_broken(s, result->status);
    if (result->status == HTC_OK)
        return 0;
    if (x)
        htc__kv_seeking_end(s, x);
    return 1;
}

static void on_item(htc_kv_server *s, uint64_t from, uint8_t kind, htc_bytes item)
{
    htc__kv_copy copy;
    if (!s->cluster->eventual)
        return;
    switch (kind) {
    case HTC__KV_ITEM_PASS:
        on_pass(s, from, item);
        break;
    case HTC__KV_ITEM_PASSED:
        on_passed(s, from, item);
        break;
    case HTC__KV_ITEM_FETCH:
        if (htc__kv_copy_read(kind, item, &copy) == HTC_OK)
            htc__kv_on_fetch(s, from, &copy);
        break;
    case HTC__KV_ITEM_FETCHED:
        if (htc__kv_copy_read(kind, item, &copy) == HTC_OK)
            on_fetched(s, from, &copy);
        break;
    case HTC__KV_ITEM_STORE:
        if (htc__kv_copy_read(kind, item, &copy) == HTC_OK)
            htc__kv_on_store(s, from, &copy);
        break;
    case HTC__KV_ITEM_STORED:
        if (htc__kv_copy_read(kind, item, &copy) == HTC_OK)
            on_stored(s, from, &copy);
        break;
    case HTC__KV_ITEM_TREE:
    case HTC__KV_ITEM_ENTRIES:
    case HTC__KV_ITEM_PULL:
        htc__kv_anti_entropy_dispatch(s, from, kind, item);
        break;
    case HTC__KV_ITEM_COLLECT:
        if (htc__kv_copy_read(kind, item, &copy) == HTC_OK)
            htc__kv_on_collect(s, from, &copy);
        break;
    case HTC__KV_ITEM_COLLECTED:
        if (htc__kv_copy_read(kind, item, &copy) == HTC_OK)
            htc__kv_on_collected(s, from, &copy);
        break;
    case HTC__KV_ITEM_SETTLED:
        htc__kv_orphans_settled(s, from, item);
        break;
    default: /* of a later version: as if it had been lost */
        break;
    }
}

/* ---------------------------------------------------------------- life */

static htc_status take_space(htc_kv_server *s, htc__kv_eventual *e, uint32_t i)
{
    htc__kv_space   *space = &e->space[e->spaces];
    htc_kv_namespace given = { 0 };
    htc_status       status = htc__options_at(&given, sizeof given, s->options.namespaces, i, sizeof given);
    if (status != HTC_OK || !htc__kv_space_name_fits(given.name) || htc_bytes_equal(given.name, htc_bytes_of("default")) || htc__kv_space_of(s, given.name))
        return status != HTC_OK ? status : HTC_EINVAL;
    space->n = given.n ? given.n : 3;
    space->r = given.r ? given.r : 2;
    space->w = given.w ? given.w : 2;
    if (space->n > HTC_RING_OWNERS_MAX || (given.n && given.n > s->options.owners) || space->r > space->n || space->w > space->n)
        return HTC_EINVAL;
    memcpy(space->name, given.name.data, given.name.len);
    space->len = (uint8_t)given.name.len;
    e->spaces++;
    return HTC_OK;
}

static htc_status make(htc_kv_server *s)
{
    const htc_kv_server_options *o = &s->options;
    if (o->namespace_count == 0)
        return HTC_OK;
    if (!o->namespaces || o->namespace_count > HTC__KV_SPACES_MAX)
        return HTC_EINVAL;
    htc__kv_eventual *e = s->cluster->eventual = htc__alloc(&s->env, sizeof *e);
    if (!e)
        return HTC_ENOMEM;
    htc__table_init(&e->seeking, &s->env);
    htc__table_init(&e->index, &s->env);
    htc__table_init(&e->hints, &s->env);
    htc__table_init(&e->damaged, &s->env);
    htc_buf_init(&e->bytes, &s->env, 0);
    htc_buf_init(&e->other, &s->env, 0);
    htc_status status = HTC_OK;
    for (uint32_t i = 0; status == HTC_OK && i < o->namespace_count; i++)
        status = take_space(s, e, i);
    return status;
}

static void unmake(htc_kv_server *s)
{
    htc__kv_eventual *e = s->cluster->eventual;
    if (!e)
        return;
    while (e->seeking.head[0])
        htc__kv_seeking_end(s, htc__node_value(e->seeking.head[0]));
    htc__table_free(&e->seeking);
    htc__table_free(&e->index);
    htc__table_free(&e->hints);
    htc__table_free(&e->damaged);
    htc_buf_free(&e->bytes);
    htc_buf_free(&e->other);
    htc__free(&s->env, e, sizeof *e);
    s->cluster->eventual = NULL;
}

htc_status htc__kv_eventual_map_known(htc_kv_server *s)
{
    return s->cluster->eventual ? htc__kv_index_load(s) : HTC_OK;
}

static htc_status load(htc_kv_server *s)
{
    htc__kv_eventual *e = s->cluster->eventual;
    if (!e)
        return HTC_OK;
    /* Answers to what an earlier life has asked may still come. */
    e->last_tag = htc_rng_next(s->env.rng) >> 1;
    htc__wheel_init(&e->wheel, s->now, HTC_MS);
    htc_status status = htc__kv_index_load(s);
    return status == HTC_OK ? htc__kv_hints_load(s) : status;
}

/* What was staged has not left this member: its puts are as if they had not been asked for. */
htc_status htc__kv_eventual_undone(htc_kv_server *s)
{
    htc__kv_eventual *e = s->cluster->eventual;
    htc__node        *next;
    for (htc__node *node = e ? e->seeking.head[0] : NULL; node; node = next) {
        seeking *x = htc__node_value(node);
        uint32_t mine = place_of(x, s->cluster->id);
        next = node->next[0];
        if (x->q.op == 0 || x->q.op == HTC_KV_GET || !x->stored || mine == x->n || x->said >> mine & 1)
            continue;
        tell(s, x, &(htc_kv_result){ .size = sizeof(htc_kv_result), .status = HTC_ENOSPC });
        htc__kv_seeking_end(s, x);
    }
    if (!e)
        return HTC_OK;
    htc_status status = htc__kv_index_load(s);
    return status == HTC_OK ? htc__kv_hints_load(s) : status;
}

const htc__kv_component htc__kv_component_eventual_keys = { .make = make, .free = unmake, .load = load, .tick = tick, .deadline = deadline, .on_item = on_item,
                                                  .items = { HTC__KV_ITEM_PASS, HTC__KV_ITEM_PASSED, HTC__KV_ITEM_FETCH, HTC__KV_ITEM_FETCHED,
                                                             HTC__KV_ITEM_STORE, HTC__KV_ITEM_STORED, HTC__KV_ITEM_TREE, HTC__KV_ITEM_ENTRIES,
                                                             HTC__KV_ITEM_PULL, HTC__KV_ITEM_COLLECT, HTC__KV_ITEM_COLLECTED, HTC__KV_ITEM_SETTLED } };
