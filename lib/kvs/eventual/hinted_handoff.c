/* A hint says that a member lacks something of a key; the value stands in this owner's own record of it, and what is handed over is that
 * record as it is then. So a hint is small, and one that is out of date does no harm. It stays until the member has confirmed that it
 * has stored what came later than the hint. */
#include "kvs/eventual/hinted_handoff.h"

#include <assert.h>

#include "core/fault.h"

#define AT_ONCE  64
#define PAUSE_NS (20 * HTC_MS)
#define TIDY_AT_ONCE 64

/* By member (8 bytes, high byte first) and key. */
typedef struct hint {
    uint64_t serial; /* grows each time it is left */
    uint8_t  going;  /* it is being handed over */
} hint;

static htc_bytes table_key(const htc__kv_name *name)
{
    return (htc_bytes){ name->data + 1, name->len - 1 };
}

static hint *find(const htc_kv_server *s, uint64_t member, htc_bytes key)
{
    htc__kv_name name = htc__kv_name_of(HTC__SCHEMA_HINT, &member, key);
    htc__node   *node = htc__table_find(&s->cluster->eventual->hints, table_key(&name));
    return node ? htc__node_value(node) : NULL;
}

static hint *make(htc_kv_server *s, htc_bytes of)
{
    htc__kv_eventual *e = s->cluster->eventual;
    htc__node        *node = htc__table_make(&e->hints, of, sizeof(hint));
    if (!node)
        return NULL;
    htc__table_link(&e->hints, node);
    e->hints_at = s->now + PAUSE_NS < e->hints_at ? s->now + PAUSE_NS : e->hints_at;
    return htc__node_value(node);
}

void htc__kv_hint(htc_kv_server *s, uint64_t member, htc_bytes key)
{
    htc__kv_eventual *e = s->cluster->eventual;
    htc__kv_name      name = htc__kv_name_of(HTC__SCHEMA_HINT, &member, key);
    hint             *h = find(s, member, key);
    if (!h) {
        if (e->hints.count >= s->options.hints_max || htc__kv_full(s) || htc__kv_room(s, 8 + key.len, 0) != HTC_OK) {
            e->counts.left_out++;
            return;
        }
        htc_status status = htc__kv_stage(s, htc__kv_name_bytes(&name), (htc_bytes){ "", 0 });
        if (status != HTC_OK || !(h = make(s, table_key(&name)))) {
            htc__kv_cluster_broken(s, status != HTC_OK ? status : HTC_ENOMEM);
            return;
        }
    }
    h->serial = ++e->last_serial;
}

static void drop(htc_kv_server *s, uint64_t member, htc_bytes key)
{
    htc__kv_name name = htc__kv_name_of(HTC__SCHEMA_HINT, &member, key);
    if (htc__kv_room(s, 8 + key.len, 0) != HTC_OK)
        return; /* it is handed over once more */
    htc_status status = htc__kv_stage_drop(s, htc__kv_name_bytes(&name));
    if (status != HTC_OK)
        htc__kv_cluster_broken(s, status);
    htc__table_remove(&s->cluster->eventual->hints, table_key(&name));
}

static void end(htc_kv_server *s, htc__kv_seeking *x, int has_it)
{
    htc__kv_eventual *e = s->cluster->eventual;
    hint             *h = find(s, x->target, x->key);
    if (h)
        h->going = 0;
    if (h && has_it && h->serial == x->serial) {
        drop(s, x->target, x->key);
        e->counts.handed_over++;
    }
    assert(e->handing_over > 0);
    e->handing_over--;
    e->hints_at = s->now + (has_it ? 0 : PAUSE_NS);
    htc__kv_seeking_end(s, x);
}

void htc__kv_hint_stored(htc_kv_server *s, htc__kv_seeking *x, uint64_t by)
{
    if (by == x->target)
        end(s, x, 1);
}

void htc__kv_hint_late(htc_kv_server *s, htc__kv_seeking *x)
{
    end(s, x, 0);
}

static void hand_over(htc_kv_server *s, hint *h, uint64_t member, htc_bytes key)
{
    htc__kv_eventual *e = s->cluster->eventual;
    htc_bytes         state;
    htc_status        status = htc__kv_backlog_state(s, key, &state);
    if (status == HTC_ENOTFOUND) { /* deleted, and forgotten by all owners */
        drop(s, member, key);
        return;
    }
    htc__kv_seeking *x = htc__kv_seeking_make(s, NULL, key);
    if (!x) {
        htc__kv_cluster_broken(s, HTC_ENOMEM);
        return;
    }
    x->target = member;
    x->serial = h->serial;
    h->going = 1;
    e->handing_over++;
    htc__kv_say_state(s, member, x->tag, x->key);
    htc__wheel_add(&e->wheel, &x->entry, s->now + s->cluster->suspect_ns);
    if (HTC__BROKEN(hint_unconfirmed))
        drop(s, member, x->key);
}

/* The hints of one member, as many as may be on their way; behind the last of them. */
static void hand_over_some(htc_kv_server *s, uint64_t member)
{
    htc__kv_eventual *e = s->cluster->eventual;
    htc__kv_name      name = htc__kv_name_of(HTC__SCHEMA_HINT, &member, (htc_bytes){ NULL, 0 });
    htc__node        *next = htc__table_seek(&e->hints, table_key(&name));
    for (htc__node *node = next; node && e->handing_over < AT_ONCE && s->broken == HTC_OK; node = next) {
        htc_bytes of = htc__node_key(node);
        hint     *h = htc__node_value(node);
        next = node->next[0];
        if (memcmp(of.data, name.data + 1, 8) != 0)
            break;
        htc__kv_name copy = htc__kv_name_of(HTC__SCHEMA_HINT, &member, (htc_bytes){ (const uint8_t *)of.data + 8, of.len - 8 });
        if (!h->going)
            hand_over(s, h, member, (htc_bytes){ copy.data + 9, copy.len - 9 });
    }
}

void htc__kv_hints_tick(htc_kv_server *s)
{
    htc__kv_cluster  *c = s->cluster;
    htc__kv_eventual *e = c->eventual;
    if (s->now < htc__kv_hints_deadline(s))
        return;
    e->hints_at = e->hints.count ? s->now + PAUSE_NS : HTC_NEVER;
    for (uint32_t i = 0; i < c->count; i++)
        if (i != c->self && !htc__kv_cluster_suspected(s, &c->peers[i]))
            hand_over_some(s, c->peers[i].id);
}

htc_ns htc__kv_hints_deadline(const htc_kv_server *s)
{
    const htc__kv_eventual *e = s->cluster->eventual;
    return e->handing_over >= AT_ONCE ? HTC_NEVER : e->hints_at;
}

/* ---------------------------------------------------------------- for whom there is no need of any */

static int owns(const htc_kv_server *s, uint64_t member, htc_bytes key)
{
    uint64_t owner[HTC_RING_OWNERS_MAX];
    uint32_t mine, n = htc__kv_space_owners(s, key, owner, &mine), i = 0;
    while (i < n && owner[i] != member)
        i++;
    return i < n;
}

int htc__kv_hints_tidy(htc_kv_server *s)
{
    htc__kv_eventual *e = s->cluster->eventual;
    htc__node        *next;
    int               some = 0;
    for (htc__node *node = e->hints.head[0]; node && s->broken == HTC_OK; node = next) {
        htc_bytes    of = htc__node_key(node);
        uint64_t     member = 0;
        next = node->next[0];
        for (size_t i = 0; i < 8; i++)
            member = member << 8 | ((const uint8_t *)of.data)[i];
        htc__kv_name copy = htc__kv_name_of(HTC__SCHEMA_HINT, &member, (htc_bytes){ (const uint8_t *)of.data + 8, of.len - 8 });
        htc_bytes    key = { copy.data + 9, copy.len - 9 };
        if (((hint *)htc__node_value(node))->going || owns(s, member, key))
            continue;
        if (++some > TIDY_AT_ONCE || htc__kv_room(s, 8 + key.len, 0) != HTC_OK)
            return 0;
        drop(s, member, key);
    }
    return 1;
}

typedef struct loading {
    htc_kv_server *s;
    htc_status     status;
} loading;

static int load_one(void *visitor, htc_bytes name, htc_bytes value)
{
    loading *l = visitor;
    (void)value;
    if (!htc__schema_is(name, HTC__SCHEMA_HINT))
        return 0;
    if (name.len > 9 && !make(l->s, (htc_bytes){ (const uint8_t *)name.data + 1, name.len - 1 }))
        l->status = HTC_ENOMEM;
    return l->status == HTC_OK;
}

htc_status htc__kv_hints_load(htc_kv_server *s)
{
    htc__kv_eventual *e = s->cluster->eventual;
    loading           l = { s, HTC_OK };
    htc__table_free(&e->hints);
    htc__table_init(&e->hints, &s->env);
    e->hints_at = HTC_NEVER;
    htc_status status = htc__kv_scan(s, htc__schema_name(HTC__SCHEMA_HINT), load_one, &l);
    return status == HTC_OK ? l.status : status;
}
