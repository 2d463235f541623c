/* Leases, keys that are bound to them, and keys with a ttl, which are leases of their own. A bound key is put once, and nobody deletes
 * it: whoever finds it has seen that its lease lives, and whoever does not find it any more, that it has ended. */
#include <stdio.h>
#include <string.h>

#include "sim/scenarios/store_private.h"

#define NEWEST 3 /* leases that are asked about */

int htc__store_lease_key(const store *s, uint32_t lease, uint32_t bound, char name[STORE_NAME])
{
    const store_lease *l = &s->leases[lease];
    if (l->is_key)
        snprintf(name, STORE_NAME, "t%u", lease);
    else
        snprintf(name, STORE_NAME, "b%u.%u", lease, bound);
    return bound < (l->is_key ? 1 : l->bound);
}

static htc_bytes key_of(const store *s, uint32_t lease, uint32_t bound, char text[STORE_VALUE])
{
    char name[STORE_NAME];
    htc__store_lease_key(s, lease, bound, name);
    memcpy(text, name, sizeof name);
    return htc_bytes_of(text);
}

static void note(store_client *c, store_asked *a, uint32_t kind)
{
    store_lease   *l = &c->s->leases[a->at];
    htc_history_op op = HTC_HISTORY_OP_INIT;
    op.kind = kind;
    op.key = l->number;
    op.process = c->at;
    op.invoked = a->invoked;
    op.expected = kind == HTC_HISTORY_GRANT ? l->ttl : 0;
    if (htc_history_add(c->s->history, &op, &a->history) != HTC_OK)
        htc__store_fail(c->s, "no room in the history");
}

/* ---- what is asked ---- */

static void grant(store_client *c, store_asked *a, char text[STORE_VALUE], htc_kv_request *q)
{
    store       *s = c->s;
    store_lease *l = &s->leases[a->at = s->leases_n++];
    char         name[STORE_NAME];
    l->is_key = htc_rng_below(&c->rng, 2) == 0;
    l->ttl = s->setting.ttl / 4 + htc_rng_below(&c->rng, s->setting.ttl);
    snprintf(name, sizeof name, "%c%u", l->is_key ? 't' : 'L', a->at);
    if (htc_history_key(s->history, htc_bytes_of(name), &l->number) != HTC_OK)
        htc__store_fail(s, "no room in the history");
    *q = (htc_kv_request){ .size = sizeof(htc_kv_request), .op = HTC_KV_LEASE_GRANT, .ttl = l->ttl };
    if (l->is_key) {
        q->op = HTC_KV_PUT;
        q->flags = HTC_KV_NX;
        q->key = q->value = key_of(s, a->at, 0, text);
    }
    note(c, a, HTC_HISTORY_GRANT);
}

static void renew(store_client *c, store_asked *a, char text[STORE_VALUE], htc_kv_request *q)
{
    const store_lease *l = &c->s->leases[a->at];
    *q = (htc_kv_request){ .size = sizeof(htc_kv_request), .op = HTC_KV_LEASE_RENEW, .lease = l->id };
    if (l->is_key)
        *q = (htc_kv_request){ .size = sizeof(htc_kv_request), .op = HTC_KV_PUT, .flags = HTC_KV_TOUCH, .ttl = l->ttl, .key = key_of(c->s, a->at, 0, text)
        };
    note(c, a, HTC_HISTORY_RENEW);
}

static void revoke(store_client *c, store_asked *a, char text[STORE_VALUE], htc_kv_request *q)
{
    const store_lease *l = &c->s->leases[a->at];
    *q = (htc_kv_request){ .size = sizeof(htc_kv_request), .op = HTC_KV_LEASE_REVOKE, .lease = l->id };
    if (l->is_key)
        *q = (htc_kv_request){ .size = sizeof(htc_kv_request), .op = HTC_KV_DELETE, .key = key_of(c->s, a->at, 0, text) };
    note(c, a, HTC_HISTORY_REVOKE);
}

static void bind(store_client *c, store_asked *a, char text[STORE_VALUE], htc_kv_request *q)
{
    store_lease *l = &c->s->leases[a->at];
    a->bound = l->bound++;
    *q = (htc_kv_request){ .size = sizeof(htc_kv_request), .op = HTC_KV_PUT, .lease = l->id, .key = key_of(c->s, a->at, a->bound, text) };
    q->value = q->key;
    note(c, a, HTC_HISTORY_LOOK);
}

void htc__store_lease_look(store_client *c, store_asked *a, uint32_t lease, char text[STORE_VALUE], htc_kv_request *q)
{
    const store_lease *l = &c->s->leases[lease];
    a->what = STORE_OF_LEASE;
    a->at = lease;
    if (!l->is_key && !l->bound && l->known_at) {
        a->bound = STORE_BOUND;
        renew(c, a, text, q); /* nothing else shows whether it is there */
        return;
    }
    a->bound = l->bound ? (uint32_t)htc_rng_below(&c->rng, l->bound) : 0;
    *q = (htc_kv_request){ .size = sizeof(htc_kv_request), .op = HTC_KV_GET, .key = key_of(c->s, lease, a->bound, text) };
    note(c, a, HTC_HISTORY_LOOK);
}

int htc__store_lease_ask(store_client *c, store_asked *a, char text[STORE_VALUE], htc_kv_request *q)
{
    store             *s = c->s;
    uint32_t           n = s->leases_n, among = n < NEWEST ? n : NEWEST;
    uint64_t           lot = htc_rng_below(&c->rng, 32);
    const store_lease *l = n ? &s->leases[n - 1 - htc_rng_below(&c->rng, among)] : NULL;
    a->what = STORE_OF_LEASE;
    a->bound = STORE_BOUND;
    if (n < STORE_LEASES && (!l || lot < 2)) {
        grant(c, a, text, q);
    } else if (!l || !l->known_at) {
        a->what = STORE_OF_KEY;
        return 0;
    } else {
        a->at = (uint32_t)(l - s->leases);
        if (lot < 16)
            renew(c, a, text, q);
        else if (lot < 18)
            revoke(c, a, text, q);
        else if (lot < 24 && !l->is_key && l->bound < STORE_BOUND)
            bind(c, a, text, q);
        else
            htc__store_lease_look(c, a, a->at, text, q);
    }
    s->asked++;
    return 1;
}

/* ---- what is answered ---- */

static htc_ns there_at(const store_lease *l, uint32_t bound)
{
    return l->is_key ? l->known_at : l->bound_at[bound];
}

/* Who does not find a key has learnt something if it was there before. */
static uint32_t looked(const store_client *c, const store_asked *a, htc_status status)
{
    htc_ns there = there_at(&c->s->leases[a->at], a->bound);
    return status == HTC_OK                 ? HTC_HISTORY_DONE
           : there && there <= a->invoked ? HTC_HISTORY_MISSED
                                            : HTC_HISTORY_REFUSED;
}

void htc__store_lease_answered(store_client *c, const store_asked *a, const htc_kv_result *r)
{
    store_lease   *l = &c->s->leases[a->at];
    htc_history_op op = HTC_HISTORY_OP_INIT;
    htc_ns         now = htc_sim_now(c->s->sim);
    op.outcome = r->status == HTC_OK ? HTC_HISTORY_DONE : HTC_HISTORY_MISSED;
    if (r->status == HTC_MISMATCH) {
        htc__store_fail(c->s, "client %u: a lease, or its key, is answered that it is another's", c->at);
    } else if (a->op == HTC_KV_GET) {
        op.outcome = looked(c, a, r->status);
    } else if (r->status == HTC_OK && a->bound < STORE_BOUND) {
        l->bound_at[a->bound] = now;
    } else if (r->status == HTC_OK && htc_history_at(c->s->history, a->history)->kind == HTC_HISTORY_GRANT) {
        l->known_at = now;
        l->id = r->lease;
    }
    htc__store_note(c, a, &op);
}

void htc__store_lease_seen(store_client *c, uint32_t lease, uint32_t bound, htc_ns invoked, int is)
{
    store_asked    a = { .at = lease, .bound = bound, .invoked = invoked };
    htc_history_op op = HTC_HISTORY_OP_INIT;
    op.outcome = looked(c, &a, is ? HTC_OK : HTC_ENOTFOUND);
    note(c, &a, HTC_HISTORY_LOOK);
    htc__store_note(c, &a, &op);
}
