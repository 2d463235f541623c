/* Keys, queues, ballot counters and deadlines of a proposer. */
#include <assert.h>
#include <string.h>

#include "kvs/register/register_private.h"

#define RETRY_NS   (50 * HTC_MS)
#define BLOCK      (UINT64_C(1) << 20)
#define ASKED_MAX  65536
#define CACHE_MAX  ((size_t)16 << 20)
#define LOSSES_MAX 3
#define SPARE_MAX   1024 /* rounds that are kept for the next requests, and of each buffer of theirs at most so many bytes */
#define SPARE_BYTES ((size_t)4 << 10)
#define TICK_NS     HTC_MS

/* ---- ballots ---- */

static void reserve(htc__kv_register *reg)
{
    uint64_t wanted = reg->counter + reg->o.block;
    if (reg->reserving > reg->reserved || wanted <= reg->reserved)
        return;
    reg->reserving = wanted;
    reg->host.reserve(reg->host.ctx, wanted);
}

int htc__kv_register_draw(htc__kv_register *reg, uint64_t *number)
{
    if (reg->counter + reg->o.block / 4 >= reg->reserved)
        reserve(reg);
    if (reg->counter >= reg->reserved)
        return 0;
    *number = ++reg->counter;
    return 1;
}

void htc__kv_register_outbid(htc__kv_register *reg, const htc__kv_ballot *highest)
{
    if (reg->counter < highest->counter && highest->counter < UINT64_MAX / 2)
        reg->counter = highest->counter;
}

/* ---- the table of keys ---- */

static entry **slot_of(htc__kv_register *reg, uint64_t hash)
{
    return &reg->table[hash & (reg->slots - 1)];
}

static entry *find(htc__kv_register *reg, htc_bytes key)
{
    uint64_t hash = htc_hash64(key, 0);
    entry   *e = *slot_of(reg, hash);
    while (e && (e->hash != hash || !htc_bytes_equal((htc_bytes){ e->key, e->key_len }, key)))
        e = e->chain;
    return e;
}

/* It may fail: the table is only slower then. */
static void widen(htc__kv_register *reg)
{
    size_t  slots = reg->slots * 2;
    entry **table = htc__alloc(reg->env, slots * sizeof *table);
    if (!table)
        return;
    for (size_t i = 0; i < reg->slots; i++)
        for (entry *e = reg->table[i], *chain; e; e = chain) {
            chain = e->chain;
            e->chain = table[e->hash & (slots - 1)];
            table[e->hash & (slots - 1)] = e;
        }
    htc__free(reg->env, reg->table, reg->slots * sizeof *table);
    reg->table = table;
    reg->slots = slots;
}

static entry *add(htc__kv_register *reg, htc_bytes key)
{
    entry *e = htc__alloc(reg->env, sizeof *e + key.len);
    if (!e)
        return NULL;
    if (reg->entries >= reg->slots)
        widen(reg);
    e->hash = htc_hash64(key, 0);
    e->key_len = key.len;
    memcpy(e->key, key.data, key.len);
    htc_buf_init(&e->cell, reg->env, 0);
    entry **at = slot_of(reg, e->hash);
    e->chain = *at;
    *at = e;
    reg->entries++;
    return e;
}

static void drop(htc__kv_register *reg, entry *e)
{
    entry **at = slot_of(reg, e->hash);
    while (*at != e)
        at = &(*at)->chain;
    *at = e->chain;
    assert(reg->entries > 0);
    reg->entries--;
    htc_buf_free(&e->cell);
    htc__free(reg->env, e, sizeof *e + e->key_len);
}

/* ---- idle keys, the one used longest ago first ---- */

static size_t cached_bytes(const entry *e)
{
    return sizeof *e + e->key_len + e->cell.cap;
}

static void unlist(htc__kv_register *reg, entry *e)
{
    *(e->older ? &e->older->newer : &reg->oldest) = e->newer;
    *(e->newer ? &e->newer->older : &reg->newest) = e->older;
    e->older = e->newer = NULL;
    reg->cache_bytes -= cached_bytes(e);
}

static void list(htc__kv_register *reg, entry *e)
{
    e->older = reg->newest;
    *(reg->newest ? &reg->newest->newer : &reg->oldest) = e;
    reg->newest = e;
    reg->cache_bytes += cached_bytes(e);
}

/* Not while anybody goes through the table. */
static void trim(htc__kv_register *reg)
{
    while (reg->cache_bytes > reg->o.cache_max) {
        entry *old = reg->oldest;
        unlist(reg, old);
        drop(reg, old);
    }
}

/* ---- deadlines ---- */

/* A timer is moved only to an earlier moment: most rounds end long before their deadline, and the next one of the same key has a later
 * one. A timer that is early looks at the deadline, and is set to that. */
static void wait_until(htc__kv_register *reg, entry *e, htc_ns at)
{
    if (e->timer.link && e->timer_at <= at)
        return;
    htc__wheel_remove(&reg->wheel, &e->timer);
    e->timer_at = at;
    if (at != HTC_NEVER)
        htc__wheel_add(&reg->wheel, &e->timer, at);
}

/* ---- a key gets its first request, or has lost its last ---- */

static htc__kv_round *take_round(htc__kv_register *reg)
{
    htc__kv_round *r = reg->spare;
    if (r) {
        reg->spare = r->spare;
        assert(reg->spare_n > 0);
        reg->spare_n--;
        return r;
    }
    r = htc__alloc(reg->env, sizeof *r);
    if (!r)
        return NULL;
    for (size_t i = 0; i < HTC_RING_OWNERS_MAX; i++)
        htc_buf_init(&r->bytes[i], reg->env, 0);
    htc_buf_init(&r->before, reg->env, 0);
    htc_buf_init(&r->after, reg->env, 0);
    return r;
}

static void forget_long(const htc__kv_register *reg, htc_buf *b)
{
    if (b->cap <= SPARE_BYTES)
        return;
    htc_buf_free(b);
    htc_buf_init(b, reg->env, 0);
}

static void free_round(htc__kv_register *reg, htc__kv_round *r)
{
    for (size_t i = 0; i < HTC_RING_OWNERS_MAX; i++)
        htc_buf_free(&r->bytes[i]);
    htc_buf_free(&r->before);
    htc_buf_free(&r->after);
    htc__free(reg->env, r, sizeof *r);
}

/* Kept for the next request. A burst, and long values, leave no memory behind. */
static void spare_round(htc__kv_register *reg, htc__kv_round *r)
{
    if (reg->spare_n >= SPARE_MAX) {
        free_round(reg, r);
        return;
    }
    for (size_t i = 0; i < HTC_RING_OWNERS_MAX; i++)
        forget_long(reg, &r->bytes[i]);
    forget_long(reg, &r->before);
    forget_long(reg, &r->after);
    r->phase = IDLE;
    r->joined = 0;
    r->spare = reg->spare;
    reg->spare = r;
    reg->spare_n++;
}

/* Idle: with a cell it is kept for the next request. */
static void rest(htc__kv_register *reg, entry *e)
{
    htc__wheel_remove(&reg->wheel, &e->timer);
    spare_round(reg, e->r);
    e->r = NULL;
    if (e->cached)
        list(reg, e);
    else
        drop(reg, e);
}

/* After whatever happened to this key. */
static void settle(htc__kv_register *reg, entry *e)
{
    if (e->head)
        wait_until(reg, e, htc__kv_round_deadline(e));
    else
        rest(reg, e);
}

static int wake(htc__kv_register *reg, entry *e)
{
    e->r = take_round(reg);
    return e->r != NULL;
}

static entry *awake(htc__kv_register *reg, htc_bytes key)
{
    entry *e = find(reg, key);
    if (e && e->r)
        return e;
    if (e) {
        unlist(reg, e);
        if (wake(reg, e))
            return e;
        list(reg, e);
        return NULL;
    }
    e = add(reg, key);
    if (!e || wake(reg, e))
        return e;
    drop(reg, e);
    return NULL;
}

/* ---- requests ---- */

static uint32_t index_of(const htc__kv_owners *owners, uint64_t id)
{
    uint32_t i = 0;
    while (i < owners->n && owners->id[i] != id)
        i++;
    return i;
}

static int sound(const htc__kv_register *reg, const htc__kv_owners *o)
{
    return o->n >= 1 && o->n <= HTC_RING_OWNERS_MAX && o->first < o->n && index_of(o, reg->o.self) < o->n;
}

static asked *copy(htc__kv_register *reg, const htc_kv_request *q)
{
    size_t size = sizeof(asked) + q->value.len + q->seen.len;
    asked *a = htc__alloc(reg->env, size);
    if (!a)
        return NULL;
    uint8_t *bytes = (uint8_t *)(a + 1);
    /* maps and leases are as long as they have to be */
    a->value_max = htc__kv_own_key(q->key) ? HTC_KV_VALUE_MAX : reg->o.value_max;
    a->size = size;
    a->q = *q;
    a->q.key = a->q.cursor = (htc_bytes){ NULL, 0 };
    if (q->value.len)
        memcpy(bytes, q->value.data, q->value.len);
    if (q->seen.len)
        memcpy(bytes + q->value.len, q->seen.data, q->seen.len);
    a->q.value = (htc_bytes){ bytes, q->value.len };
    a->q.seen = (htc_bytes){ bytes + q->value.len, q->seen.len };
    return a;
}

void htc__kv_register_free_asked(htc__kv_register *reg, asked *a)
{
    htc__free(reg->env, a, a->size);
}

asked *htc__kv_register_pop(htc__kv_register *reg, entry *e)
{
    asked *a = e->head;
    e->head = a->next;
    if (!e->head)
        e->tail = NULL;
    assert(reg->asked_n > 0);
    reg->asked_n--;
    return a;
}

static htc_status push(htc__kv_register *reg, htc_ns now, htc_bytes key, asked *a)
{
    entry *e = a ? awake(reg, key) : NULL;
    if (!e) {
        if (a)
            htc__kv_register_free_asked(reg, a);
        return HTC_ENOMEM;
    }
    *(e->tail ? &e->tail->next : &e->head) = a;
    e->tail = a;
    reg->asked_n++;
    htc__kv_round_yield(reg, e);
    htc__kv_round_begin(reg, e, now);
    settle(reg, e);
    trim(reg);
    return HTC_OK;
}

htc_status htc__kv_register_ask(htc__kv_register *reg, htc_ns now, const htc__kv_owners *owners,
                                const htc_kv_request *request, const htc__kv_stamp *stamp, int tried, htc_ns until,
                                uint64_t tag)
{
    if (!sound(reg, owners) || request->key.len == 0 || request->key.len > HTC_KV_KEY_MAX)
        return HTC_EINVAL;
    if (reg->asked_n >= reg->o.asked_max)
        return HTC_EFULL;
    asked *a = copy(reg, request);
    if (a) {
        a->tag = tag;
        a->owners = *owners;
        a->stamp = *stamp;
        a->stamp.fresh = 0; /* another owner may have had it */
        a->until = until;
        a->tried = tried != 0;
    }
    return push(reg, now, request->key, a);
}

htc_status htc__kv_register_collect(htc__kv_register *reg, htc_ns now, const htc__kv_owners *owners, htc_bytes key,
                                    uint64_t tag)
{
    if (!sound(reg, owners) || key.len == 0 || key.len > HTC_KV_KEY_MAX)
        return HTC_EINVAL;
    if (reg->asked_n >= reg->o.asked_max)
        return HTC_EFULL;
    const entry *e = find(reg, key);
    if (e && e->head)
        return HTC_EBUSY;
    asked *a = copy(reg, &(htc_kv_request){ .size = sizeof(htc_kv_request), .op = OP_COLLECT });
    if (a) {
        a->tag = tag;
        a->owners = *owners;
        a->until = now + 8 * reg->o.round_ns;
    }
    return push(reg, now, key, a);
}

void htc__kv_register_reply(htc__kv_register *reg, htc_ns now, uint64_t from, const htc__kv_reply *reply)
{
    entry *e = find(reg, reply->key);
    if (!e || !e->r)
        return;
    uint32_t i = index_of(&e->head->owners, from);
    if (i == e->head->owners.n)
        return;
    htc__kv_round_reply(reg, e, now, i, reply);
    settle(reg, e);
    trim(reg);
}

void htc__kv_register_timeout(htc__kv_register *reg, htc_ns now)
{
    while (htc__wheel_next(&reg->wheel) <= now) {
        entry *e = (entry *)htc__wheel_take(&reg->wheel, now);
        if (!e)
            continue;
        if (htc__kv_round_deadline(e) <= now)
            htc__kv_round_timeout(reg, e, now);
        settle(reg, e);
    }
    trim(reg);
}

const htc__kv_register_counts *htc__kv_register_counted(const htc__kv_register *reg)
{
    return &reg->counts;
}

htc_ns htc__kv_register_deadline(const htc__kv_register *reg)
{
    return htc__wheel_next(&reg->wheel);
}

void htc__kv_register_reserved(htc__kv_register *reg, htc_ns now, uint64_t counter)
{
    if (counter <= reg->reserved)
        return;
    reg->reserved = counter;
    for (size_t i = 0; i < reg->slots; i++)
        for (entry *e = reg->table[i], *chain; e; e = chain) {
            chain = e->chain;
            if (!e->r || e->r->phase != RESERVING)
                continue;
            e->r->phase = IDLE;
            htc__kv_round_begin(reg, e, now);
            settle(reg, e);
        }
    trim(reg);
}

/* The requests of a key under the owners of a new epoch. */
static void move(htc__kv_register *reg, entry *e, const htc__kv_owners *owners)
{
    asked *a = e->head;
    e->head = e->tail = NULL;
    for (asked *next; a; a = next) {
        next = a->next;
        a->next = NULL;
        a->owners = *owners;
        if (!sound(reg, owners) || a->q.op == OP_COLLECT) {
            assert(reg->asked_n > 0);
            reg->asked_n--;
            if (a->q.op == OP_COLLECT)
                reg->host.done(reg->host.ctx, a->tag, &(htc__kv_outcome){ .result.status = HTC_EUNREACHABLE });
            else
                reg->host.hand_over(reg->host.ctx, a->tag, owners->id[owners->first], a->tried);
            htc__kv_register_free_asked(reg, a);
            continue;
        }
        *(e->tail ? &e->tail->next : &e->head) = a;
        e->tail = a;
    }
}

void htc__kv_register_moved(htc__kv_register *reg, htc_ns                                              now,
                            void (*owners_of)(void *ctx, htc_bytes key, htc__kv_owners *owners), void *ctx)
{
    for (size_t i = 0; i < reg->slots; i++)
        for (entry *e = reg->table[i], *chain; e; e = chain) {
            htc__kv_owners owners;
            chain = e->chain;
            if (!e->r)
                continue;
            owners_of(ctx, (htc_bytes){ e->key, e->key_len }, &owners);
            if (owners.epoch == e->head->owners.epoch)
                continue;
            e->cached = 0;
            move(reg, e, &owners);
            e->r->phase = IDLE;
            htc__kv_round_begin(reg, e, now);
            settle(reg, e);
        }
    trim(reg);
}

static uint64_t or (uint64_t v, uint64_t fallback)
{
    return v ? v : fallback;
}

htc_status htc__kv_register_create(const htc_env *env, const htc__kv_register_options *options,
                                   const htc__kv_register_host *host, htc__kv_register **out)
{
    if (options->self == 0 || options->counter > UINT64_MAX / 2)
        return HTC_EINVAL;
    htc__kv_register *reg = htc__alloc(env, sizeof *reg);
    entry           **table = htc__alloc(env, 64 * sizeof *table);
    if (!reg || !table) {
        htc__free(env, reg, sizeof *reg);
        htc__free(env, table, 64 * sizeof *table);
        return HTC_ENOMEM;
    }
    reg->env = env;
    reg->o = *options;
    reg->o.retry_ns = or (options->retry_ns, RETRY_NS);
    reg->o.round_ns = or (options->round_ns, 4 * reg->o.retry_ns);
    reg->o.grace_ns = or (options->grace_ns, reg->o.retry_ns / 8 + 1);
    reg->o.pause_ns = or (options->pause_ns, reg->o.retry_ns / 8 + 1);
    reg->o.losses_max = options->losses_max ? options->losses_max : LOSSES_MAX;
    reg->o.asked_max = options->asked_max ? options->asked_max : ASKED_MAX;
    reg->o.cache_max = options->cache_max ? options->cache_max : CACHE_MAX;
    reg->o.block = or (options->block, BLOCK);
    reg->o.value_max = options->value_max ? options->value_max : HTC_KV_VALUE_MAX;
    reg->host = *host;
    reg->rng = (htc_rng){ options->seed };
    reg->table = table;
    reg->slots = 64;
    /* What was reserved may have been used. */
    reg->counter = reg->reserved = options->counter;
    htc__wheel_init(&reg->wheel, 0, TICK_NS);
    htc_buf_init(&reg->scratch, env, 0);
    reserve(reg);
    *out = reg;
    return HTC_OK;
}

void htc__kv_register_destroy(htc__kv_register *reg)
{
    if (!reg)
        return;
    for (size_t i = 0; i < reg->slots; i++)
        for (entry *e = reg->table[i], *chain; e; e = chain) {
            chain = e->chain;
            while (e->head)
                htc__kv_register_free_asked(reg, htc__kv_register_pop(reg, e));
            if (e->r)
                free_round(reg, e->r);
            htc_buf_free(&e->cell);
            htc__free(reg->env, e, sizeof *e + e->key_len);
        }
    for (htc__kv_round *r = reg->spare, *spare; r; r = spare) {
        spare = r->spare;
        free_round(reg, r);
    }
    htc__free(reg->env, reg->table, reg->slots * sizeof(entry *));
    htc_buf_free(&reg->scratch);
    htc__free(reg->env, reg, sizeof *reg);
}
