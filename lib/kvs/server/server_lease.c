/* Leases: a term that ends by the server's clock, and the keys that vanish with it.
 *
 * How long a lease lasts is kept in memory only: renewals never wait for a disk, and after a restart every lease is
 * given its full term anew. That it exists, and that it has ended, is stored: from the batch with its end on its keys
 * are absent for every reader; they are removed afterwards, a slice at a time. */
#include <assert.h>
#include <inttypes.h>
#include <string.h>

#include "core/util.h"
#include "kvs/util/digest.h"
#include "kvs/server/server.h"

#define SWEEP_SLICE 256 /* keys, and leases that had none */
#define ENDS_A_STEP 64  /* so that a crowd that ends together is no long step */

static void queue_init(htc__kv_leases *q)
{
    *q = (htc__kv_leases){ NULL, &q->first };
}

static void queue_add(htc__kv_leases *q, htc__kv_lease *lease)
{
    lease->next = NULL;
    *q->last = lease;
    q->last = &lease->next;
}

static htc__kv_lease *queue_take(htc__kv_leases *q)
{
    htc__kv_lease *lease = q->first;
    if (lease && !(q->first = lease->next))
        q->last = &q->first;
    return lease;
}

void htc__kv_leases_init(htc_kv_server *s)
{
    htc__wheel_init(&s->lease_wheel, s->now, HTC_MS);
    queue_init(&s->ended);
    queue_init(&s->removed);
}

static htc__kv_lease *find(const htc_kv_server *s, uint64_t id)
{
    htc__kv_name name = htc__kv_name_of(HTC__SCHEMA_LEASE, &id, (htc_bytes){ NULL, 0 });
    htc__node   *node = htc__table_find(&s->leases, htc__kv_name_bytes(&name));
    return node ? htc__node_value(node) : NULL;
}

static htc__kv_lease *add(htc_kv_server *s, uint64_t id)
{
    htc__kv_name name = htc__kv_name_of(HTC__SCHEMA_LEASE, &id, (htc_bytes){ NULL, 0 });
    htc__node   *node = htc__table_make(&s->leases, htc__kv_name_bytes(&name), sizeof(htc__kv_lease));
    if (!node)
        return NULL;
    htc__kv_lease *lease = htc__node_value(node);
    lease->id = id;
    htc__table_link(&s->leases, node);
    return lease;
}

static void forget(htc_kv_server *s, htc__kv_lease *lease)
{
    htc__kv_name name = htc__kv_name_of(HTC__SCHEMA_LEASE, &lease->id, (htc_bytes){ NULL, 0 });
    htc__wheel_remove(&s->lease_wheel, &lease->entry);
    htc__table_remove(&s->leases, htc__kv_name_bytes(&name));
}

static void touch(htc_kv_server *s, uint64_t batch)
{
    if (batch > s->touched)
        s->touched = batch;
}

static htc_status store(htc_kv_server *s, const htc__kv_lease *lease)
{
    htc__kv_name name = htc__kv_name_of(HTC__SCHEMA_LEASE, &lease->id, (htc_bytes){ NULL, 0 });
    htc_buf_clear(&s->scratch);
    htc_put_u8(&s->scratch, lease->ended != 0);
    htc_put_varint(&s->scratch, lease->ttl);
    htc_put_u64(&s->scratch, lease->client);
    htc_put_varint(&s->scratch, lease->sequence);
    return s->scratch.status == HTC_OK ? htc__kv_stage(s, htc__kv_name_bytes(&name), htc_buf_bytes(&s->scratch))
                                       : s->scratch.status;
}

static void term_begins(htc_kv_server *s, htc__kv_lease *lease)
{
    lease->expires = lease->ttl > HTC_NEVER - s->now ? HTC_NEVER : s->now + lease->ttl;
    htc__wheel_remove(&s->lease_wheel, &lease->entry);
    htc__wheel_add(&s->lease_wheel, &lease->entry, lease->expires);
}

static void mark_ended(htc_kv_server *s, htc__kv_lease *lease)
{
    lease->ended = 1;
    htc__wheel_remove(&s->lease_wheel, &lease->entry);
    queue_add(&s->ended, lease);
    s->sweeping++;
}

typedef struct loading {
    htc_kv_server *s;
    htc_status     status;
} loading;

/* Its record is damaged: it may have lived or have ended, and nobody knows for how long it was granted. Its keys are refused until even
 * the longest term would be over, and then it ends as others do. */
static void begin_unknown(htc_kv_server *s, htc__kv_lease *lease)
{
    htc__log_with(&s->env, HTC_LOG_ERROR, HTC__FIELDS(HTC__ID("lease", lease->id), HTC__STATUS(HTC_ECORRUPT)),
                  "the record of lease %016" PRIx64 " is damaged -> refuse what is bound to it, end it in %" PRIu64 " s; put those "
                  "keys anew, or revoke it", lease->id, s->options.lease_ttl_max / HTC_SECOND);
    lease->unknown = 1;
    lease->ttl = s->options.lease_ttl_max;
    term_begins(s, lease);
}

static int load_one(void *visitor, htc_bytes name, htc_bytes value)
{
    loading *l = visitor;
    if (!htc__schema_is(name, HTC__SCHEMA_LEASE))
        return 0;
    if (name.len != 9) {
        l->status = HTC_ECORRUPT;
        return 0;
    }
    htc__kv_lease *lease = add(l->s, htc__kv_name_number(name));
    if (!lease) {
        l->status = HTC_ENOMEM;
        return 0;
    }
    if (!value.data) {
        begin_unknown(l->s, lease);
        return 1;
    }
    htc_reader r = htc_reader_of(value);
    int ended = htc_get_u8(&r) != 0;
    lease->ttl = htc_get_varint(&r);
    lease->client = htc_get_u64(&r);
    lease->sequence = htc_get_varint(&r);
    if (ended)
        mark_ended(l->s, lease);
    else
        term_begins(l->s, lease);
    if (htc_reader_done(&r) != HTC_OK)
        l->status = HTC_ECORRUPT;
    return l->status == HTC_OK;
}

htc_status htc__kv_leases_load(htc_kv_server *s)
{
    loading    l = { s, HTC_OK };
    htc_status status = htc__kv_scan(s, htc__schema_name(HTC__SCHEMA_LEASE), load_one, &l);
    return status == HTC_OK ? l.status : status;
}

int htc__kv_lease_unknown(const htc_kv_server *s, uint64_t id)
{
    const htc__kv_lease *lease = find(s, id);
    return lease && lease->unknown && !lease->ended;
}

int htc__kv_lease_alive(htc_kv_server *s, uint64_t id)
{
    const htc__kv_lease *lease = find(s, id);
    if (!lease)
        return 0;
    touch(s, lease->ended ? lease->ended_batch : lease->made_batch);
    return !lease->ended;
}

htc_status htc__kv_lease_bind(htc_kv_server *s, htc_bytes key, uint64_t old_lease, uint64_t new_lease)
{
    htc_status status = HTC_OK;
    if (old_lease == new_lease)
        return HTC_OK;
    if (old_lease) {
        htc__kv_name name = htc__kv_name_of(HTC__SCHEMA_BOUND, &old_lease, key);
        status = htc__kv_stage_drop(s, htc__kv_name_bytes(&name));
    }
    if (status == HTC_OK && new_lease) {
        htc__kv_name name = htc__kv_name_of(HTC__SCHEMA_BOUND, &new_lease, key);
        status = htc__kv_stage(s, htc__kv_name_bytes(&name), (htc_bytes){ NULL, 0 });
    }
    return status;
}

static int no_room(htc_kv_server *s, htc_kv_result *result)
{
    result->status = htc__kv_room(s, 0, 0);
    s->wait = result->status == HTC_EBUSY;
    return result->status != HTC_OK;
}

/* The id follows from who asked for it, so that asking again finds the lease instead of making another. */
static htc_status grant(htc_kv_server *s, const htc_kv_request *q, uint64_t client, uint64_t sequence,
                        htc_kv_result *result)
{
    uint64_t       words[2] = { client, sequence };
    uint64_t       id = htc__digest_words(words, 2, 0);
    htc__kv_lease *lease;
    for (;; id++)
        if (id != 0 && (!(lease = find(s, id)) || (lease->client == client && lease->sequence == sequence)))
            break;
    result->lease = id;
    if (lease) {
        touch(s, lease->made_batch);
        result->status = lease->ended ? HTC_ENOTFOUND : HTC_OK;
        return HTC_OK;
    }
    if (s->refuse != HTC_OK || s->leases.count >= s->options.leases_max) {
        result->status = s->refuse != HTC_OK ? s->refuse : HTC_EBUSY;
        return HTC_OK;
    }
    if (no_room(s, result))
        return HTC_OK;
    if (!(lease = add(s, id)))
        return HTC_ENOMEM;
    lease->ttl = q->ttl < s->options.lease_ttl_min   ? s->options.lease_ttl_min
                 : q->ttl > s->options.lease_ttl_max ? s->options.lease_ttl_max
                                                     : q->ttl;
    lease->client = client;
    lease->sequence = sequence;
    lease->made_batch = htc__kv_open(s);
    term_begins(s, lease);
    return store(s, lease);
}

static htc_status end(htc_kv_server *s, htc__kv_lease *lease)
{
    mark_ended(s, lease);
    lease->ended_batch = htc__kv_open(s);
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
    if (q->op == HTC_KV_LEASE_RENEW && lease->unknown) {
        result->status = HTC_ECORRUPT;
        return HTC_OK;
    }
    if (q->op == HTC_KV_LEASE_RENEW) {
        term_begins(s, lease);
        return HTC_OK;
    }
    result->status = s->refuse;
    return s->refuse != HTC_OK || no_room(s, result) ? HTC_OK : end(s, lease);
}

static htc_status end_those_over(htc_kv_server *s)
{
    for (int i = 0; i < ENDS_A_STEP && htc__wheel_next(&s->lease_wheel) <= s->now; i++) {
        if (htc__kv_room(s, 0, 0) != HTC_OK) {
            s->lease_after = s->now + HTC__KV_ROOM_AGAIN;
            return HTC_OK;
        }
        htc__kv_lease *lease = (htc__kv_lease *)htc__wheel_take(&s->lease_wheel, s->now);
        htc_status     status = lease ? end(s, lease) : HTC_OK;
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
    htc_bytes    key = { bound->data + 9, bound->len - 9 };
    htc__kv_cell cell;
    htc__kv_name name = htc__kv_name_of(HTC__SCHEMA_CELL, NULL, key);
    htc_bytes    value;
    htc_status   status = htc__kv_stage_drop(s, htc__kv_name_bytes(bound));
    if (status == HTC_OK)
        status = htc__kv_read(s, htc__kv_name_bytes(&name), &value);
    if (status == HTC_ENOTFOUND || status == HTC_ECORRUPT)
        return HTC_OK;
    if (status != HTC_OK)
        return status;
    if (htc__kv_cell_read(value, NULL, &cell) != HTC_OK || cell.lease != lease->id)
        return HTC_OK;
    htc__kv_cell old = cell;
    cell.deleted = 1;
    cell.version = ++s->clock;
    cell.lease = cell.ttl = cell.term = 0;
    cell.value = (htc_bytes){ NULL, 0 };
    old.lease = 0; /* its binding is dropped already */
    return htc__kv_save(s, key, &cell, &old);
}

/* The first of those that have ended; its work is taken from *left. */
static htc_status sweep(htc_kv_server *s, htc__kv_lease *lease, size_t *left)
{
    htc_bytes none = { NULL, 0 };
    slice    *p = htc__alloc(&s->env, sizeof *p);
    if (!p)
        return HTC_ENOMEM;
    p->first = htc__kv_name_of(HTC__SCHEMA_BOUND, &lease->id, none);
    htc_status status = htc__kv_scan(s, htc__kv_name_bytes(&p->first), take_bound, p);
    size_t     done = 0;
    for (; status == HTC_OK && done < p->count && htc__kv_room(s, HTC_KV_KEY_MAX, 0) == HTC_OK; done++)
        status = remove_bound(s, lease, &p->names[done]);
    int all = done == p->count && done < SWEEP_SLICE && htc__kv_room(s, 0, 0) == HTC_OK;
    htc__free(&s->env, p, sizeof *p);
    *left = all && *left > done + 1 ? *left - done - 1 : 0;
    if (status != HTC_OK || !all)
        return status;
    htc__kv_name name = htc__kv_name_of(HTC__SCHEMA_LEASE, &lease->id, none);
    lease->gone = 1;
    lease->gone_batch = htc__kv_open(s);
    queue_add(&s->removed, queue_take(&s->ended));
    s->gone++;
    assert(s->sweeping > 0);
    s->sweeping--;
    return htc__kv_stage_drop(s, htc__kv_name_bytes(&name));
}

static void forget_gone(htc_kv_server *s)
{
    while (s->removed.first && s->removed.first->gone_batch <= htc__kv_stored(s)) {
        forget(s, queue_take(&s->removed));
        assert(s->gone > 0);
        s->gone--;
    }
}

/* One slice a batch: whoever waits for the next commit does not wait for a long sweep. */
static int may_sweep(const htc_kv_server *s)
{
    return s->sweeping && !htc__kv_in_flight(s) && s->swept <= htc__kv_stored(s);
}

htc_ns htc__kv_leases_deadline(const htc_kv_server *s)
{
    htc_ns next = htc__wheel_next(&s->lease_wheel);
    next = next == HTC_NEVER || next > s->lease_after ? next : s->lease_after;
    return may_sweep(s) && s->sweep_after < next ? s->sweep_after : next;
}

htc_status htc__kv_leases_tick(htc_kv_server *s)
{
    forget_gone(s);
    htc_status status = s->now >= s->lease_after ? end_those_over(s) : HTC_OK;
    if (status != HTC_OK || !may_sweep(s) || s->now < s->sweep_after)
        return status;
    if (htc__kv_room(s, HTC_KV_KEY_MAX, 0) != HTC_OK) {
        s->sweep_after = s->now + HTC__KV_ROOM_AGAIN;
        return HTC_OK;
    }
    s->swept = htc__kv_open(s);
    for (size_t left = SWEEP_SLICE; status == HTC_OK && left && s->ended.first;)
        status = sweep(s, s->ended.first, &left);
    return status;
}

/* The disk was full or the like: leases are as they were stored, and those that are over are tried again in a while. */
void htc__kv_leases_undone(htc_kv_server *s)
{
    uint64_t stored = htc__kv_stored(s);
    queue_init(&s->ended);
    queue_init(&s->removed);
    s->sweeping = s->gone = 0;
    for (htc__node *node = s->leases.head[0], *next; node; node = next) {
        htc__kv_lease *lease = htc__node_value(node);
        next = node->next[0];
        if (lease->made_batch > stored) {
            forget(s, lease);
            continue;
        }
        if (lease->gone && lease->gone_batch > stored)
            lease->gone = 0;
        if (lease->ended && lease->ended_batch > stored) {
            lease->ended = 0;
            htc__wheel_add(&s->lease_wheel, &lease->entry, lease->expires);
        }
        if (lease->gone) {
            queue_add(&s->removed, lease);
            s->gone++;
        } else if (lease->ended) {
            queue_add(&s->ended, lease);
            s->sweeping++;
        }
    }
    s->swept = 0;
    s->lease_after = s->sweep_after = s->now + HTC_SECOND;
}
