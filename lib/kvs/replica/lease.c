/* Leases with several members. A lease is a record, strong as any other, that names its keeper and has a ttl; the version that
 * wrote it is its term. The keeper alone knows how long the term still lasts.
 *
 *     granted ──▶ kept: renewals, each confirmed by a read of the record ──ttl over──▶ ended, by a change on that term
 *                   │ the keeper is gone, or begins a new life                ▲
 *                   └──▶ another owner, or it itself, writes a new term ──────┘ (the whole ttl is counted from when that is final)
 *
 * A renewal counts from when it arrived, and is told only after a majority, asked after that, has shown that the keeper's term is
 * the newest; from memory, as a read does. Whoever writes the next term does so after that read, and counts the whole ttl.
 * Once the end of a term is under way a renewal waits behind it: the register takes requests of one key in order. A keeper that
 * has begun a new life does not know whether it had begun to end its term, and so keeps none before it has written the next.
 *
 * What a client asks of two owners, a grant or a renewal that takes over, both may write: one term, two keepers, of which one becomes
 * final. So nobody counts a term because it was found done before: its owner may be the other one. Whose own record it is after all, and
 * who does not count, writes the next.
 *
 * A keeper that died while it wrote its term, or had no room for it, may never have stored what the others have: nobody would
 * count. So each owner has the keeper read the record now and then; one that finds itself in it, and does not count, writes the next term.
 * Where the keeper is gone the first owner writes it; but that one may be another that has never stored the record, so those that have
 * do it when it has had time to. */
#include <string.h>

#include "core/fault.h"
#include "kvs/replica/cluster_private.h"

#define LEASES_A_STEP 64
#define RECORD_FORMAT 1
#define FIRST_WAITS   2 /* times suspect_ns, that the first owner has before others take over */

/* What the register is asked for on behalf of a renewal or the like. */
typedef enum step { CONFIRM, TAKE, END, REMIND } step;

typedef struct lease {
    htc__wheel_entry     entry; /* first: the wheel knows nothing else */
    uint64_t             id, term;
    htc__kv_lease_record record;
    htc_ns               ttl, expires;
    htc_ns               ask_at; /* another member's: when it is asked whether it knows */
    htc_ns               wait_until; /* its keeper is gone: when not only the first owner takes over; 0: it is there */
    uint8_t              active; /* this member keeps this term */
    uint8_t              mine;   /* it was written in this life */
    uint8_t              ending;
    uint8_t              taking; /* an end or a term of this member's own is not answered yet: there is one at a time */
} lease;

/* ---------------------------------------------------------------- names and records */

htc_bytes htc__kv_lease_key_of(htc__kv_lease_key *key, uint64_t id)
{
    size_t len = sizeof HTC__KV_OWN_PREFIX - 1;
    memcpy(key->bytes, HTC__KV_OWN_PREFIX, len);
    key->bytes[len++] = 'l';
    for (int shift = 56; shift >= 0; shift -= 8)
        key->bytes[len++] = (uint8_t)(id >> shift);
    return (htc_bytes){ key->bytes, len };
}

int htc__kv_is_lease_key(htc_bytes key, uint64_t *id)
{
    size_t         len = sizeof HTC__KV_OWN_PREFIX - 1;
    const uint8_t *bytes = key.data;
    if (key.len != len + 9 || !htc__kv_own_key(key) || bytes[len] != 'l')
        return 0;
    *id = 0;
    for (size_t i = len + 1; i < key.len; i++)
        *id = *id << 8 | bytes[i];
    return 1;
}

void htc__kv_lease_record_write(htc_buf *b, const htc__kv_lease_record *record)
{
    htc_put_u8(b, RECORD_FORMAT);
    htc_put_u64(b, record->keeper);
    htc_put_u64(b, record->client);
    htc_put_varint(b, record->sequence);
}

htc_status htc__kv_lease_record_read(htc_bytes bytes, htc__kv_lease_record *record)
{
    htc_reader r = htc_reader_of(bytes);
    uint8_t    format = htc_get_u8(&r);
    record->keeper = htc_get_u64(&r);
    record->client = htc_get_u64(&r);
    record->sequence = htc_get_varint(&r);
    if (format != RECORD_FORMAT)
        htc_reader_fail(&r);
    return htc_reader_done(&r);
}

/* ---------------------------------------------------------------- the records that are held here */

struct htc__kv_held_leases {
    htc__table   held; /* by id: lease */
    htc__wheel   wheel;
    htc__kv_face face;
};

static lease *find(const htc_kv_server *s, uint64_t id)
{
    htc__node *node = htc__table_find(&s->cluster->leases->held, (htc_bytes){ &id, sizeof id });
    return node ? htc__node_value(node) : NULL;
}

static void look_at(htc_kv_server *s, lease *l, htc_ns at)
{
    htc__wheel_remove(&s->cluster->leases->wheel, &l->entry);
    htc__wheel_add(&s->cluster->leases->wheel, &l->entry, at);
}

static htc_ns after(htc_ns now, htc_ns span)
{
    return span > HTC_NEVER - now ? HTC_NEVER : now + span;
}

static void forget(htc_kv_server *s, uint64_t id)
{
    lease *l = find(s, id);
    if (!l)
        return;
    htc__wheel_remove(&s->cluster->leases->wheel, &l->entry);
    htc__table_remove(&s->cluster->leases->held, (htc_bytes){ &id, sizeof id });
}

static lease *add(htc_kv_server *s, uint64_t id)
{
    htc__node *node = htc__table_make(&s->cluster->leases->held, (htc_bytes){ &id, sizeof id }, sizeof(lease));
    if (!node) {
        htc__kv_cluster_broken(s, HTC_ENOMEM);
        return NULL;
    }
    htc__table_link(&s->cluster->leases->held, node);
    lease *l = htc__node_value(node);
    l->id = id;
    return l;
}

/* Two owners may have written one term, and what is held here may be what did not become final. */
static int is_known(const lease *l, uint64_t term, const htc__kv_lease_record *record)
{
    return l && l->term == term && l->record.keeper == record->keeper;
}

/* A term that this member has not met before, whoever told. */
static void learn(htc_kv_server *s, uint64_t id, uint64_t term, const htc__kv_lease_record *record, htc_ns ttl,
                  int mine)
{
    lease *l = find(s, id);
    if (is_known(l, term, record) || (!l && !(l = add(s, id))))
        return;
    l->term = term;
    l->record = *record;
    l->ttl = ttl;
    l->mine = mine != 0;
    l->active = l->ending = 0; /* and taking, if it is: this may be the very term, accepted here, and not yet final */
    l->ask_at = s->now + s->cluster->suspect_ns;
    l->wait_until = 0;
    look_at(s, l, s->now + s->cluster->suspect_ns / 2);
}

/* A newer term that another owner wrote, and that is held here, may never have become final; if it has, taking over fails, and
 * says so. */
void htc__kv_cluster_lease_read(htc_kv_server *s, uint64_t id, const htc_kv_result *read)
{
    htc__kv_lease_record record;
    const lease         *l = find(s, id);
    if (read->status == HTC_OK && (!l || l->term <= read->version || !l->mine) &&
        htc__kv_lease_record_read(read->value, &record) == HTC_OK && record.keeper == s->cluster->id)
        learn(s, id, read->version, &record, read->ttl, 0);
}

void htc__kv_cluster_lease_held(htc_kv_server *s, uint64_t id, const htc__kv_cell *cell, int loading)
{
    htc__kv_lease_record record;
    if (!cell->present || cell->deleted || htc__kv_lease_record_read(cell->value, &record) != HTC_OK)
        forget(s, id);
    else
        learn(s, id, cell->version, &record, cell->ttl, !loading && record.keeper == s->cluster->id);
}

static int load_one(void *visitor, htc_bytes name, htc_bytes value)
{
    htc_kv_server *s = visitor;
    htc_bytes      key = { (const uint8_t *)name.data + 1, name.len - 1 };
    htc__kv_cell   cell;
    uint64_t       id;
    if (!htc__schema_is(name, HTC__SCHEMA_CELL) || !htc__kv_own_key(key))
        return 0;
    if (htc__kv_is_lease_key(key, &id) && value.data && htc__kv_cell_read(value, NULL, &cell) == HTC_OK)
        htc__kv_cluster_lease_held(s, id, &cell, 1);
    return s->broken == HTC_OK;
}

static htc_status load(htc_kv_server *s)
{
    htc__wheel_init(&s->cluster->leases->wheel, s->now, HTC_MS);
    htc__kv_name from = htc__kv_name_of(HTC__SCHEMA_CELL, NULL, (htc_bytes){ HTC__KV_OWN_PREFIX, sizeof HTC__KV_OWN_PREFIX - 1 });
    htc_status   status = htc__kv_scan(s, htc__kv_name_bytes(&from), load_one, s);
    return status == HTC_OK ? s->broken : status;
}

void htc__kv_cluster_lease_begins(htc_kv_server *s, uint64_t id, uint64_t term)
{
    lease *l = find(s, id);
    if (!l || l->term != term || !l->mine || l->active)
        return;
    l->active = 1;
    l->ending = 0;
    l->expires = after(s->now, l->ttl);
    look_at(s, l, l->expires);
}

/* ---------------------------------------------------------------- renewed, revoked */

static int is_owner(const htc_kv_server *s, uint64_t id, uint64_t member)
{
    htc__kv_lease_key key;
    return htc__kv_route_has(s->cluster, htc__kv_cluster_bucket(s->cluster, htc__kv_lease_key_of(&key, id)), member);
}

/* One that owns the record no more keeps nothing. */
static int keeper_is_there(const htc_kv_server *s, uint64_t id, uint64_t keeper)
{
    const htc__kv_peer *peer = htc__kv_cluster_peer(s->cluster, keeper);
    return is_owner(s, id, keeper) && keeper != s->cluster->id && peer && !htc__kv_cluster_suspected(s, peer);
}

static void take(htc_kv_server *s, htc__kv_pending *r, uint64_t term, const htc__kv_lease_record *record, htc_ns ttl)
{
    htc__kv_lease_record next = *record;
    next.keeper = s->cluster->id;
    htc_buf_clear(&s->scratch);
    htc__kv_lease_record_write(&s->scratch, &next);
    htc_kv_request q = { .size = sizeof q, .op = HTC_KV_CAS_VERSION, .key = r->q.key, .version = term, .ttl = ttl };
    q.value = htc_buf_bytes(&s->scratch);
    r->step = TAKE;
    htc__kv_pending_propose(s, r, &q);
}

static void end(htc_kv_server *s, htc__kv_pending *r, uint64_t term)
{
    htc_kv_request q = { .size = sizeof q, .op = HTC__KV_END, .key = r->q.key, .version = term };
    lease         *l = find(s, r->lease);
    if (l && l->term == term && l->active) {
        l->ending = 1;
        look_at(s, l, r->until); /* by then it has ended, or it is ended by its keeper */
    }
    r->step = END;
    htc__kv_pending_propose(s, r, &q);
}

static void say(htc_kv_server *s, htc__kv_pending *r, htc_status status, uint64_t observed)
{
    htc__kv_pending_tell(s, r,
                        &(htc__kv_forwarded){ .tried = r->tried,
                                              .observed = observed,
                                              .result = { .op = r->q.op, .status = status, .lease = r->lease } });
}

static void confirm(htc_kv_server *s, htc__kv_pending *r)
{
    r->step = CONFIRM;
    htc__kv_pending_propose(s, r, &r->q);
}

static void confirmed(htc_kv_server *s, htc__kv_pending *r, const htc__kv_forwarded *a)
{
    htc__kv_lease_record record;
    lease               *l = find(s, r->lease);
    uint64_t             term = a->result.version;
    if (htc__kv_lease_record_read(a->result.value, &record) != HTC_OK) {
        say(s, r, HTC_ECORRUPT, a->observed);
    } else if (r->kind == HTC__KV_FORWARD_REVOKE) {
        end(s, r, term);
    } else if (l && l->active && (l->term == term || HTC__BROKEN(old_term_accepted))) {
        htc_ns until = after(r->arrived, l->ttl);
        if (l->ending) { /* behind the end of the term, which may fail; once more, or else nobody knows */
            if (r->attempt++ == 0)
                confirm(s, r);
            else
                say(s, r, HTC_ETIMEDOUT, a->observed);
            return;
        }
        l->expires = until > l->expires ? until : l->expires;
        say(s, r, HTC_OK, a->observed);
    } else if (keeper_is_there(s, r->lease, record.keeper)) {
        htc__kv_pending_give(s, r, record.keeper);
    } else {
        take(s, r, term, &record, a->result.ttl);
    }
}

/* What this member's register says of the record. */
void htc__kv_cluster_lease_answer(htc_kv_server *s, htc__kv_pending *r, const htc__kv_forwarded *a)
{
    htc_status status = a->result.status;
    if (status == HTC_OK && r->step == CONFIRM) {
        confirmed(s, r, a);
    } else if (status == HTC_MISMATCH && r->step != CONFIRM) {
        confirm(s, r); /* another term, or none any more */
    } else {
        if (status == HTC_OK && r->step == TAKE && !r->listed)
            htc__kv_cluster_lease_begins(s, r->lease, a->result.version);
        say(s, r, status, a->observed);
    }
}

/* ---------------------------------------------------------------- time */

/* Of the keeper's end of a term, of an owner's taking over, or of what the keeper was reminded of. */
static void answered(void *ctx, uint64_t id, uint64_t what, const htc_kv_result *result)
{
    htc_kv_server       *s = ctx;
    lease               *l = find(s, id);
    htc__kv_lease_record record;
    if (!l)
        return;
    if (what == REMIND) {
        if (result->status == HTC_ENOTFOUND)
            forget(s, id);
        return;
    }
    l->taking = 0;
    if (what == TAKE && result->status == HTC_OK) {
        htc__kv_cluster_lease_begins(s, id, result->version);
    } else if (result->status == HTC_MISMATCH && result->version == 0) {
        forget(s, id); /* it is gone, and this owner has not heard of it */
    } else if (result->status == HTC_MISMATCH && htc__kv_lease_record_read(result->value, &record) == HTC_OK) {
        learn(s, id, result->version, &record, result->ttl, 0);
    }
}

static void own(htc_kv_server *s, const lease *l, step what)
{
    htc__kv_cluster  *c = s->cluster;
    htc__kv_lease_key key;
    htc_kv_request    q = { .size = sizeof q, .op = HTC__KV_END, .key = htc__kv_lease_key_of(&key, l->id), .version = l->term };
    c->leases->face = (htc__kv_face){ .answer = answered, .ctx = s };
    htc__kv_pending *r = htc__kv_pending_own(s, &q, &c->leases->face, l->id, what, s->now + c->request_ns);
    if (r && what == END) {
        htc__kv_pending_propose(s, r, &q);
    } else if (r) {
        r->stamp = (htc__kv_stamp){ .client = c->own_client, .sequence = ++c->own_sequence, .since = l->term };
        take(s, r, l->term, &l->record, l->ttl);
    }
}

/* No sooner than a term can end, and not all the time. */
static void remind(htc_kv_server *s, lease *l)
{
    htc__kv_cluster  *c = s->cluster;
    htc__kv_lease_key key;
    htc_kv_request    q = { .size = sizeof q, .op = HTC_KV_GET, .key = htc__kv_lease_key_of(&key, l->id) };
    l->ask_at = after(s->now, l->ttl > c->suspect_ns ? l->ttl : c->suspect_ns);
    c->leases->face = (htc__kv_face){ .answer = answered, .ctx = s };
    htc__kv_pending *r = htc__kv_pending_own(s, &q, &c->leases->face, l->id, REMIND, s->now + c->request_ns);
    if (r)
        htc__kv_pending_give(s, r, l->record.keeper);
}

static int comes_first(const htc_kv_server *s, uint64_t id)
{
    uint32_t          bucket;
    htc__kv_lease_key key;
    htc__kv_owners    owners = htc__kv_cluster_owners(s, htc__kv_lease_key_of(&key, id), &bucket);
    return owners.id[owners.first] == s->cluster->id;
}

static void take_over(htc_kv_server *s, lease *l)
{
    htc__kv_cluster *c = s->cluster;
    if (l->wait_until == 0)
        l->wait_until = s->now + FIRST_WAITS * c->suspect_ns;
    if (l->taking || (l->record.keeper != c->id && !comes_first(s, l->id) && s->now < l->wait_until))
        return;
    l->taking = 1;
    own(s, l, TAKE);
}

static void due(htc_kv_server *s, lease *l)
{
    htc__kv_cluster *c = s->cluster;
    if (!is_owner(s, l->id, c->id)) {
        forget(s, l->id);
        return;
    }
    if (l->active && l->expires > s->now && !l->ending) {
        look_at(s, l, l->expires);
    } else if (l->active) {
        l->ending = 1;
        look_at(s, l, s->now + c->suspect_ns);
        if (!l->taking) {
            l->taking = 1; /* one at a time */
            own(s, l, END);
        }
    } else {
        look_at(s, l, s->now + c->suspect_ns / 2);
        if (!keeper_is_there(s, l->id, l->record.keeper)) {
            take_over(s, l);
            return;
        }
        l->wait_until = 0;
        if (s->now >= l->ask_at)
            remind(s, l);
    }
}

static void tick(htc_kv_server *s)
{
    htc__wheel *wheel = &s->cluster->leases->wheel;
    for (int i = 0; i < LEASES_A_STEP && htc__wheel_next(wheel) <= s->now && !htc__kv_full(s); i++) {
        htc__wheel_entry *entry = htc__wheel_take(wheel, s->now);
        if (entry)
            due(s, (lease *)entry);
    }
}

/* It changes keys, which waits for room. */
static htc_ns deadline(const htc_kv_server *s)
{
    return htc__kv_full(s) ? HTC_NEVER : htc__wheel_next(&s->cluster->leases->wheel);
}

static htc_status make(htc_kv_server *s)
{
    struct htc__kv_held_leases *x = s->cluster->leases = htc__alloc(&s->env, sizeof *x);
    if (!x)
        return HTC_ENOMEM;
    htc__table_init(&x->held, &s->env);
    return HTC_OK;
}

static void unmake(htc_kv_server *s)
{
    struct htc__kv_held_leases *x = s->cluster->leases;
    if (!x)
        return;
    htc__table_free(&x->held);
    htc__free(&s->env, x, sizeof *x);
    s->cluster->leases = NULL;
}

size_t htc__kv_leases_count(const htc_kv_server *s)
{
    return s->cluster->leases->held.count;
}

const htc__kv_component htc__kv_component_leases = { .make = make, .free = unmake, .load = load, .tick = tick, .deadline = deadline, .needs_map = 1 };
