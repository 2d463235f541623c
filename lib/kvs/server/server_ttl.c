/* Keys with an end of their own ("put ... ttl").
 *
 * The record is its own lease: it holds the ttl, and a term that names the change that set it. When the ttl has
 * passed since that change the key is absent for every reader; its removal, a change on condition of that term, follows.
 * How long a key has left is kept in memory only: after a restart the full ttl is counted anew. So that nobody sees a key
 * again that was gone, whoever finds one whose end has passed stages the removal and waits for it. */
#include "core/util.h"
#include "kvs/server/server.h"

/* Removed in one step, so that a crowd that ends together is no long step. */
#define ENDS_A_STEP 64

typedef struct end {
    htc__wheel_entry entry; /* first: the wheel knows nothing else */
    htc_ns           at;
    uint64_t         term;
    const htc__node *node; /* that holds this */
    uint32_t         seen; /* in the index, while that is gone through */
} end;

/* What an end was before a change that is not stored yet: it is put back if the batch fails. */
struct htc__kv_past_end {
    htc__kv_past_end *next;
    uint64_t          batch, term;
    htc_ns            at;
    htc__kv_name      key;
};

static end *find(const htc_kv_server *s, htc_bytes key)
{
    htc__node *node = htc__table_find(&s->ends, key);
    return node ? htc__node_value(node) : NULL;
}

static void forget(htc_kv_server *s, htc_bytes key)
{
    end *e = find(s, key);
    if (!e)
        return;
    htc__wheel_remove(&s->wheel, &e->entry);
    htc__table_remove(&s->ends, key);
}

static end *find_or_make(htc_kv_server *s, htc_bytes key)
{
    end *e = find(s, key);
    if (e)
        return e;
    htc__node *node = htc__table_make(&s->ends, key, sizeof *e);
    if (!node)
        return NULL;
    htc__table_link(&s->ends, node);
    e = htc__node_value(node);
    e->node = node;
    return e;
}

static htc_status begin(htc_kv_server *s, htc_bytes key, uint64_t term, htc_ns at)
{
    end *e = find_or_make(s, key);
    if (!e)
        return HTC_ENOMEM;
    htc__wheel_remove(&s->wheel, &e->entry);
    e->term = term;
    e->at = at;
    htc__wheel_add(&s->wheel, &e->entry, e->at);
    return HTC_OK;
}

static htc_ns from_now(const htc_kv_server *s, htc_ns ttl)
{
    return ttl > HTC_NEVER - s->now ? HTC_NEVER : s->now + ttl;
}

static htc_status remember(htc_kv_server *s, htc_bytes key, const end *e)
{
    if (htc__kv_open(s) <= htc__kv_stored(s))
        return HTC_OK;
    htc__kv_past_end *past = htc__alloc(&s->env, sizeof *past);
    if (!past)
        return HTC_ENOMEM;
    past->batch = htc__kv_open(s);
    past->term = e->term;
    past->at = e->at;
    past->key = htc__kv_name_of(HTC__SCHEMA_CELL, NULL, key);
    *s->past_last = past;
    s->past_last = &past->next;
    return HTC_OK;
}

static void forget_past(htc_kv_server *s, uint64_t up_to)
{
    for (htc__kv_past_end *past; (past = s->past) && past->batch <= up_to;) {
        if (!(s->past = past->next))
            s->past_last = &s->past;
        htc__free(&s->env, past, sizeof *past);
    }
}

void htc__kv_ends_init(htc_kv_server *s)
{
    s->past_last = &s->past;
    htc__table_init(&s->ends, &s->env);
}

void htc__kv_ends_free(htc_kv_server *s)
{
    forget_past(s, UINT64_MAX);
    htc__table_free(&s->ends);
}

void htc__kv_ends_stored(htc_kv_server *s)
{
    forget_past(s, htc__kv_stored(s));
}

htc_status htc__kv_end_set(htc_kv_server *s, htc_bytes key, const htc__kv_cell *cell)
{
    const end *e = s->ends.count ? find(s, key) : NULL;
    if ((!e && !cell->ttl) || (e && cell->ttl && e->term == cell->term))
        return HTC_OK;
    htc__kv_name name = htc__kv_name_of(HTC__SCHEMA_END, NULL, key);
    htc_status   status = e ? remember(s, key, e) : HTC_OK;
    if (status != HTC_OK)
        return status;
    if (!cell->ttl) {
        forget(s, key);
        return htc__kv_stage_drop(s, htc__kv_name_bytes(&name));
    }
    status = e ? HTC_OK : htc__kv_stage(s, htc__kv_name_bytes(&name), (htc_bytes){ "", 0 });
    return status == HTC_OK ? begin(s, key, cell->term, from_now(s, cell->ttl)) : status;
}

int htc__kv_end_passed(htc_kv_server *s, htc_bytes key, const htc__kv_cell *cell)
{
    const end *e = find(s, key);
    return e && e->term == cell->term && s->now >= e->at;
}

htc_ns htc__kv_end_left(htc_kv_server *s, htc_bytes key, const htc__kv_cell *cell)
{
    const end *e = cell->ttl ? find(s, key) : NULL;
    return !e || e->term != cell->term ? cell->ttl : e->at > s->now ? e->at - s->now : 0;
}

/* ---------------------------------------------------------------- what is stored */

typedef struct loading {
    htc_kv_server *s;
    htc_status     status;
} loading;

/* A fresh entry where there is none of this term yet; its moment is set when the key has been looked at. */
static int load_one(void *visitor, htc_bytes name, htc_bytes value)
{
    loading  *l = visitor;
    htc_bytes key = { (const uint8_t *)name.data + 1, name.len - 1 };
    (void)value;
    if (!htc__schema_is(name, HTC__SCHEMA_END))
        return 0;
    end *e = find_or_make(l->s, key);
    if (e)
        e->seen = 1;
    else
        l->status = HTC_ENOMEM;
    return e != NULL;
}

static htc_status settle(htc_kv_server *s, htc_bytes key, end *e)
{
    htc__kv_name name = htc__kv_name_of(HTC__SCHEMA_CELL, NULL, key);
    htc__kv_cell cell;
    htc_bytes    value;
    htc_status   status = htc__kv_read(s, htc__kv_name_bytes(&name), &value);
    if (status == HTC_OK)
        status = htc__kv_cell_read(value, NULL, &cell);
    int there = status == HTC_OK && cell.ttl && e->seen;
    if (status != HTC_OK && status != HTC_ENOTFOUND && status != HTC_ECORRUPT)
        return status;
    e->seen = 0;
    if (!there)
        forget(s, key);
    else if (e->term != cell.term || !e->entry.link)
        return begin(s, key, cell.term, from_now(s, cell.ttl));
    return HTC_OK;
}

htc_status htc__kv_ends_load(htc_kv_server *s)
{
    loading    l = { s, HTC_OK };
    htc_status status = htc__kv_scan(s, htc__schema_name(HTC__SCHEMA_END), load_one, &l);
    if (status == HTC_OK)
        status = l.status;
    for (htc__node *node = s->ends.head[0], *next; status == HTC_OK && node; node = next) {
        next = node->next[0];
        status = settle(s, htc__node_key(node), htc__node_value(node));
    }
    return status;
}

htc_status htc__kv_ends_undone(htc_kv_server *s)
{
    htc_status status = HTC_OK;
    for (const htc__kv_past_end *past = s->past; status == HTC_OK && past; past = past->next) {
        htc__kv_cell cell;
        htc_bytes    value, name = htc__kv_name_bytes(&past->key);
        status = htc__kv_read(s, name, &value);
        if (status == HTC_OK)
            status = htc__kv_cell_read(value, NULL, &cell);
        if (status == HTC_OK && cell.ttl && cell.term == past->term)
            status = begin(s, (htc_bytes){ past->key.data + 1, name.len - 1 }, past->term, past->at);
        else if (status == HTC_ENOTFOUND || status == HTC_ECORRUPT)
            status = HTC_OK;
    }
    forget_past(s, UINT64_MAX);
    s->ends_after = s->now + HTC_SECOND;
    return status == HTC_OK ? htc__kv_ends_load(s) : status;
}

/* ---------------------------------------------------------------- the end */

htc_status htc__kv_end_carry_out(htc_kv_server *s, htc_bytes of)
{
    static const htc__kv_stamp nobody = { 0 };
    const end                 *e = find(s, of);
    htc__kv_name               name = htc__kv_name_of(HTC__SCHEMA_CELL, NULL, of); /* `of` may be the entry's own */
    htc_bytes                  key = { name.data + 1, name.len - 1 }, value;
    htc_kv_request             q = { .size = sizeof q, .op = HTC__KV_EXPIRE, .key = key, .version = e ? e->term : 0 };
    htc__kv_changed            changed;
    htc__kv_cell               cell;
    htc_status                 status = htc__kv_read(s, htc__kv_name_bytes(&name), &value);
    if (status == HTC_OK)
        status = htc__kv_cell_read(value, NULL, &cell);
    if (status != HTC_OK) {
        forget(s, key);
        return status == HTC_ENOTFOUND || status == HTC_ECORRUPT ? HTC_OK : status;
    }
    htc__kv_change(&cell, &q, &nobody, s->clock, &s->scratch_items, &changed);
    if (changed.effect != HTC__KV_CHANGED) {
        forget(s, key);
        return HTC_OK;
    }
    s->clock = changed.to.version;
    s->counts.expired++;
    return htc__kv_save(s, key, &changed.to, &cell);
}

htc_status htc__kv_ends_tick(htc_kv_server *s)
{
    if (s->now < htc__kv_ends_deadline(s))
        return HTC_OK;
    for (int i = 0; i < ENDS_A_STEP && !htc__kv_full(s); i++) {
        if (htc__kv_room(s, HTC_KV_KEY_MAX, 0) != HTC_OK) {
            s->ends_after = s->now + HTC__KV_ROOM_AGAIN;
            return HTC_OK;
        }
        htc__wheel_entry *entry = htc__wheel_take(&s->wheel, s->now);
        if (!entry)
            return HTC_OK;
        htc_status status = htc__kv_end_carry_out(s, htc__node_key(((const end *)entry)->node));
        if (status != HTC_OK)
            return status;
    }
    return HTC_OK;
}

htc_ns htc__kv_ends_deadline(const htc_kv_server *s)
{
    htc_ns next = s->wheel.count ? htc__wheel_next(&s->wheel) : HTC_NEVER;
    if (next != HTC_NEVER && htc__kv_full(s))
        return HTC_NEVER; /* the end of the batch wakes it */
    return next > s->ends_after ? next : s->ends_after > s->now && next != HTC_NEVER ? s->ends_after : next;
}
