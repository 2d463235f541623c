/* Pages of scans, and counts. A page is a read of every key that it goes over, whether it shows it or not: so it is written down, and
 * judged like any other read. */
#include <stdio.h>
#include <string.h>

#include "sim/scenarios/store_private.h"

#define PAGE 16 /* items of one page, at most */

typedef struct page {
    htc_kv_item item[PAGE];
    uint8_t     met[PAGE]; /* whose key that is, is known */
    uint32_t    n;
    htc_bytes   prefix, after, until; /* until: empty: the end of all keys */
} page;

void htc__store_page_ask(store_client *c, store_asked *a, htc_kv_request *q)
{
    static const char prefixes[] = "rcdlvbt";
    uint64_t          lot = htc_rng_below(&c->rng, 16);
    a->what = STORE_OF_ALL;
    c->s->asked++;
    *q = (htc_kv_request){ .size = sizeof(htc_kv_request), .op = lot < 3 ? HTC_KV_COUNT : HTC_KV_SCAN };
    if (q->op == HTC_KV_COUNT)
        return;
    q->limit = a->limit = 1 + (uint32_t)htc_rng_below(&c->rng, PAGE / 2);
    if (lot < 9)
        a->prefix = (uint32_t)(1 + htc_rng_below(&c->rng, sizeof prefixes - 1));
    if (a->prefix)
        q->key = (htc_bytes){ &prefixes[a->prefix - 1], 1 };
    a->prefix = a->prefix ? (uint8_t)prefixes[a->prefix - 1] : 0;
    memcpy(a->after, c->cursor, sizeof a->after);
    q->cursor = htc_bytes_of(a->after);
}

/* ---- what it shows ---- */

static int covers(const page *p, htc_bytes key)
{
    return htc_bytes_compare(key, p->after) > 0 && key.len >= p->prefix.len &&
           (p->prefix.len == 0 || ((const char *)key.data)[0] == ((const char *)p->prefix.data)[0]) &&
           (p->until.len == 0 || htc_bytes_compare(key, p->until) <= 0);
}

static htc_kv_item *shown(page *p, htc_bytes key)
{
    for (uint32_t i = 0; i < p->n; i++)
        if (htc_bytes_equal(p->item[i].key, key)) {
            p->met[i] = 1;
            return &p->item[i];
        }
    return NULL;
}

/* Its own shape: in order, of its prefix, behind its cursor, no more than was asked for. */
static int take(store_client *c, const store_asked *a, const htc_kv_result *r, page *p)
{
    size_t at = 0;
    if (r->items > a->limit)
        return 0;
    while (p->n < r->items && htc_kv_result_item(r, &at, &p->item[p->n]) == HTC_OK) {
        if (!covers(p, p->item[p->n].key) ||
            (p->n && htc_bytes_compare(p->item[p->n - 1].key, p->item[p->n].key) >= 0))
            return 0;
        p->n++;
    }
    return p->n == r->items && r->cursor.len < sizeof c->cursor;
}

static void note_key(store_client *c, const store_asked *a, const store_key *k, const htc_kv_item *item)
{
    htc_history_op op = HTC_HISTORY_OP_INIT;
    op.kind = HTC_HISTORY_GET;
    op.key = k->number;
    op.process = c->at;
    op.invoked = a->invoked;
    op.returned = htc_sim_now(c->s->sim);
    op.outcome = item ? HTC_HISTORY_DONE : HTC_HISTORY_MISSED;
    if (item) {
        op.version = c->s->setting.tombstones ? 0 : item->version;
        op.observed = htc_history_value_of(item->value);
    } else {
        op.observed.length = HTC_HISTORY_ABSENT;
    }
    if (htc_history_add(c->s->history, &op, NULL) != HTC_OK)
        htc__store_fail(c->s, "no room in the history");
}

static void note_leases(store_client *c, const store_asked *a, page *p)
{
    char name[STORE_NAME];
    for (uint32_t i = 0; i < c->s->leases_n; i++)
        for (uint32_t b = 0; htc__store_lease_key(c->s, i, b, name); b++)
            if (covers(p, htc_bytes_of(name)))
                htc__store_lease_seen(c, i, b, a->invoked, shown(p, htc_bytes_of(name)) != NULL);
}

static void note_page(store_client *c, const store_asked *a, const htc_kv_result *r)
{
    store *s = c->s;
    char   first = (char)a->prefix;
    page   p = { .prefix = { &first, a->prefix != 0 }, .after = htc_bytes_of(a->after), .until = r->cursor };
    if (!take(c, a, r, &p)) {
        htc__store_fail(s, "client %u: a page that is none", c->at);
        return;
    }
    for (uint32_t k = 0; k < STORE_KEYS; k++)
        if (s->keys[k].used && covers(&p, htc_bytes_of(s->keys[k].name)))
            note_key(c, a, &s->keys[k], shown(&p, htc_bytes_of(s->keys[k].name)));
    note_leases(c, a, &p);
    for (uint32_t i = 0; i < p.n; i++)
        if (!p.met[i])
            htc__store_fail(s, "client %u: a page with a key that nobody has written", c->at);
    memset(c->cursor, 0, sizeof c->cursor);
    if (r->cursor.len)
        memcpy(c->cursor, r->cursor.data, r->cursor.len);
}

/* While keys come and go a count says little; in the end it is exact, for then no lease is left. */
static void note_count(store_client *c, const htc_kv_result *r)
{
    store  *s = c->s;
    int64_t most = STORE_KEYS + STORE_LEASES * STORE_BOUND;
    if (s->phase == STORE_READ)
        s->miscounted = r->number != (int64_t)s->found;
    else if (r->number < 0 || r->number > most)
        htc__store_fail(s, "client %u: a count of %lld keys", c->at, (long long)r->number);
}

void htc__store_page_answered(store_client *c, const store_asked *a, const htc_kv_result *r)
{
    if (r->status != HTC_OK)
        htc__store_fail(c->s, "client %u: a page is answered %s", c->at, htc_status_name(r->status));
    else if (r->op == HTC_KV_COUNT)
        note_count(c, r);
    else
        note_page(c, a, r);
}
