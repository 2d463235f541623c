/* Leases: a term that ends by the server's clock, and the keys that vanish with it.
 *
 * How long a lease lasts is kept in memory only: renewals never wait for a disk, and after a restart every lease is
 * given its full term anew. That it exists, and that it has ended, is stored: from the batch with its end on its keys
 * are absent for every reader; they are removed afterwards, a slice at a time. */
#include <string.h>

#include "core/util.h"
#include "kvs/server.h"

#define SWEEP_SLICE 256

static htc__kv_lease *find(const htc_kv_server *s, uint64_t id)
{
    htc__kv_name name = htc__kv_name_of('l', &id, (htc_bytes){ NULL, 0 });
    htc__node   *node = htc__table_find(&s->leases, htc__kv_name_bytes(&name));
    return node ? htc__node_value(node) : NULL;
}

static htc__kv_lease *add(htc_kv_server *s, uint64_t id)
{
    htc__kv_name name = htc__kv_name_of('l', &id, (htc_bytes){ NULL, 0 });
    htc__node   *node = htc__table_make(&s->leases, htc__kv_name_bytes(&name), sizeof(htc__kv_lease));
    if (!node)
        return NULL;
    htc__kv_lease *lease = htc__node_value(node);
    lease->id = id;
    htc__table_link(&s->leases, node);
    return lease;
}

static void forget(htc_kv_server *s, uint64_t id)
{
    htc__kv_name name = htc__kv_name_of('l', &id, (htc_bytes){ NULL, 0 });
    htc__table_remove(&s->leases, htc__kv_name_bytes(&name));
}

static void touch(htc_kv_server *s, uint64_t batch)
{
    if (batch > s->touched)
        s->touched = batch;
}

static htc_status store(htc_kv_server *s, const htc__kv_lease *lease)
{
    htc__kv_name name = htc__kv_name_of('l', &lease->id, (htc_bytes){ NULL, 0 });
    htc_buf_clear(&s->scratch);
    htc_put_u8(&s->scratch, lease->ended_batch != 0);
    htc_put_varint(&s->scratch, lease->ttl);
    htc_put_u64(&s->scratch, lease->client);
    htc_put_varint(&s->scratch, lease->sequence);
    htc__kv_seal(&s->scratch, htc__kv_name_bytes(&name), 0);
    return s->scratch.status == HTC_OK ? htc__kv_stage(s, htc__kv_name_bytes(&name), htc_buf_bytes(&s->scratch))
                                       : s->scratch.status;
}

static void term_begins(htc_kv_server *s, htc__kv_lease *lease)
{
    lease->expires = lease->ttl > HTC_NEVER - s->now ? HTC_NEVER : s->now + lease->ttl;
    if (lease->expires < s->lease_next)
        s->lease_next = lease->expires;
}

typedef struct loading {
    htc_kv_server *s;
    htc_status     status;
} loading;

static int load_one(void *visitor, htc_bytes name, htc_bytes value)
{
    loading  *l = visitor;
    htc_bytes payload;
    if (((const uint8_t *)name.data)[0] != 'l')
        return 0;
    if (name.len != 9 || htc__kv_unseal(value, name, &payload) != HTC_OK) {
        l->status = HTC_ECORRUPT;
        return 0;
    }
    htc__kv_lease *lease = add(l->s, htc__kv_name_number(name));
    if (!lease) {
        l->status = HTC_ENOMEM;
        return 0;
    }
    htc_reader r = htc_reader_of(payload);
    lease->ended_batch = htc_get_u8(&r) != 0;
    lease->ttl = htc_get_varint(&r);
    lease->client = htc_get_u64(&r);
    lease->sequence = htc_get_varint(&r);
    l->s->sweeping += lease->ended_batch != 0;
    term_begins(l->s, lease);
    if (htc_reader_done(&r) != HTC_OK)
        l->status = HTC_ECORRUPT;
    return l->status == HTC_OK;
}

htc_status htc__kv_leases_load(htc_kv_server *s)
{
    loading    l = { s, HTC_OK };
    htc_status status = htc__kv_scan(s, htc_bytes_of("l"), load_one, &l);
    return status == HTC_OK ? l.status : status;
}

int htc__kv_lease_alive(htc_kv_server *s, uint64_t id)
{
    const htc__kv_lease *lease = find(s, id);
    if (!lease)
        return 0;
    touch(s, lease->ended_batch ? lease->ended_batch : lease->made_batch);
    return lease->ended_batch == 0;
}

htc_status htc__kv_lease_bind(htc_kv_server *s, htc_bytes key, uint64_t old_lease, uint64_t new_lease)
{
    htc_status status = HTC_OK;
    if (old_lease == new_lease)
        return HTC_OK;
    if (old_lease) {
        htc__kv_name name = htc__kv_name_of('b', &old_lease, key);
        status = htc__kv_stage_drop(s, htc__kv_name_bytes(&name));
    }
    if (status == HTC_OK && new_lease) {
        htc__kv_name name = htc__kv_name_of('b', &new_lease, key);
        status = htc__kv_stage(s, htc__kv_name_bytes(&name), (htc_bytes){ NULL, 0 });
    }
    return status;
}

/* The id follows from who asked for it, so that asking again finds the lease instead of making another. */
static htc_status grant(htc_kv_server *s, const htc_kv_request *q, uint64_t client, uint64_t sequence,
                        htc_kv_result *result)
{
    uint64_t       words[2] = { client, sequence };
    uint64_t       id = htc_hash64((htc_bytes){ words, sizeof words }, 0);
    htc__kv_lease *lease;
    for (;; id++)
        if (id != 0 && (!(lease = find(s, id)) || (lease->client == client && lease->sequence == sequence)))
            break;
    result->lease = id;
    if (lease) {
        touch(s, lease->made_batch);
        result->status = lease->ended_batch ? HTC_ENOTFOUND : HTC_OK;
        return HTC_OK;
    }
    if (s->refuse != HTC_OK || s->leases.count >= s->options.leases_max) {
        result->status = s->refuse != HTC_OK ? s->refuse : HTC_EBUSY;
        return HTC_OK;
    }
    if (!(lease = add(s, id)))
        return HTC_ENOMEM;
    lease->ttl = q->ttl < s->options.lease_ttl_min   ? s->options.lease_ttl_min
                 : q->ttl > s->options.lease_ttl_max ? s->options.lease_ttl_max
                                                     : q->ttl;
    lease->client = client;
    lease->sequence = sequence;
    lease->made_batch = s->open;
    term_begins(s, lease);
    return store(s, lease);
}

static htc_status end(htc_kv_server *s, htc__kv_lease *lease)
{
    lease->ended_batch = s->open;
    s->sweeping++;
    return store(s, lease);
}

htc_status htc__kv_lease_op(htc_kv_server *s, const htc_kv_request *q, uint64_t client, uint64_t sequence,
                            htc_kv_result *result)
{
    if (q->op == HTC_KV_LEASE_GRANT)
        return grant(s, q, client, sequence, result);
    htc__kv_lease *lease = find(s, q->lease);
    result->lease = q->lease;
    if (!lease || !htc__kv_lease_alive(s, q->lease)) {
        if (lease)
            touch(s, lease->ended_batch);
        result->status = HTC_ENOTFOUND;
        return HTC_OK;
    }
    if (q->op == HTC_KV_LEASE_RENEW) {
        term_begins(s, lease);
        return HTC_OK;
    }
    result->status = s->refuse;
    return s->refuse == HTC_OK ? end(s, lease) : HTC_OK;
}

static htc_status end_those_over(htc_kv_server *s)
{
    s->lease_next = HTC_NEVER;
    for (htc__node *node = s->leases.head[0]; node; node = node->next[0]) {
        htc__kv_lease *lease = htc__node_value(node);
        if (lease->ended_batch)
            continue;
        if (lease->expires > s->now) {
            if (lease->expires < s->lease_next)
                s->lease_next = lease->expires;
            continue;
        }
        htc_status status = end(s, lease);
        if (status != HTC_OK)
            return status;
    }
    return HTC_OK;
}

typedef struct slice {
    htc__kv_name first; /* what every name of this lease begins with */
    size_t       count;
    htc__kv_name names[SWEEP_SLICE];
} slice;

static int take_bound(void *visitor, htc_bytes name, htc_bytes value)
{
    slice *p = visitor;
    (void)value;
    if (name.len < 9 || memcmp(name.data, p->first.data, 9) != 0 || p->count == SWEEP_SLICE)
        return 0;
    p->names[p->count].len = name.len;
    memcpy(p->names[p->count++].data, name.data, name.len);
    return 1;
}

static htc_status remove_bound(htc_kv_server *s, const htc__kv_lease *lease, const htc__kv_name *bound)
{
    htc_bytes      key = { bound->data + 9, bound->len - 9 };
    htc__kv_record record;
    htc_status     status = htc__kv_stage_drop(s, htc__kv_name_bytes(bound));
    if (status == HTC_OK)
        status = htc__kv_load(s, key, &record);
    if (status == HTC_ECORRUPT)
        return HTC_OK;
    if (status != HTC_OK || record.lease != lease->id)
        return status;
    record.deleted = 1;
    record.version = ++s->clock;
    record.lease = 0;
    record.value = (htc_bytes){ NULL, 0 };
    return htc__kv_save(s, key, &record);
}

static htc_status sweep(htc_kv_server *s, htc__kv_lease *lease)
{
    htc_bytes none = { NULL, 0 };
    slice    *p = htc__alloc(&s->env, sizeof *p);
    if (!p)
        return HTC_ENOMEM;
    p->first = htc__kv_name_of('b', &lease->id, none);
    htc_status status = htc__kv_scan(s, htc__kv_name_bytes(&p->first), take_bound, p);
    size_t     count = p->count;
    for (size_t i = 0; status == HTC_OK && i < count; i++)
        status = remove_bound(s, lease, &p->names[i]);
    htc__free(&s->env, p, sizeof *p);
    if (status != HTC_OK || count == SWEEP_SLICE)
        return status;
    htc__kv_name name = htc__kv_name_of('l', &lease->id, none);
    lease->gone_batch = s->open;
    s->gone++;
    s->sweeping--;
    return htc__kv_stage_drop(s, htc__kv_name_bytes(&name));
}

htc_status htc__kv_leases_tick(htc_kv_server *s)
{
    htc_status status = s->now >= s->lease_next ? end_those_over(s) : HTC_OK;
    /* One slice a batch: whoever waits for the next commit does not wait for a long sweep. */
    if (status != HTC_OK || s->sweeping == 0 || s->now < s->sweep_after || s->in_flight || s->swept == s->open)
        return status;
    for (htc__node *node = s->leases.head[0]; node; node = node->next[0]) {
        htc__kv_lease *lease = htc__node_value(node);
        if (lease->ended_batch && !lease->gone_batch) {
            s->swept = s->open;
            return sweep(s, lease);
        }
    }
    return HTC_OK;
}

void htc__kv_leases_stored(htc_kv_server *s)
{
    if (s->gone == 0)
        return;
    for (htc__node *node = s->leases.head[0], *next; node; node = next) {
        const htc__kv_lease *lease = htc__node_value(node);
        next = node->next[0];
        if (lease->gone_batch && lease->gone_batch < s->open) {
            forget(s, lease->id);
            s->gone--;
        }
    }
}

/* The disk was full or the like: leases are as they were stored, and those that are over are tried again in a while. */
void htc__kv_leases_undone(htc_kv_server *s)
{
    uint64_t stored = s->open - 2; /* the open batch and the one before it have failed */
    for (htc__node *node = s->leases.head[0], *next; node; node = next) {
        htc__kv_lease *lease = htc__node_value(node);
        next = node->next[0];
        if (lease->gone_batch > stored) {
            lease->gone_batch = 0;
            s->gone--;
            s->sweeping++;
        }
        if (lease->ended_batch > stored) {
            lease->ended_batch = 0;
            s->sweeping--;
        }
        if (lease->made_batch > stored)
            forget(s, lease->id);
    }
    s->lease_next = s->sweep_after = s->now + HTC_SECOND;
}
