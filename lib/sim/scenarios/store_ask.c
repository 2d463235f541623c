/* What clients ask of keys, and what they note; and the last reads, when nobody asks anything else any more. */
#include <stdio.h>
#include <string.h>

#include "sim/scenarios/store_private.h"

/* What is read last: every key, every lease, then the pages of all keys, and how many those are. */
#define READ_LEASES STORE_KEYS
#define READ_PAGES  (READ_LEASES + STORE_LEASES)
#define READ_COUNT  (READ_PAGES + 1)
#define READ_END    (READ_COUNT + 1)

static int one_in(store_client *c, uint64_t n)
{
    return htc_rng_below(&c->rng, n) == 0;
}

/* ---- keys ---- */

static store_key *some_key(store_client *c)
{
    store   *s = c->s;
    uint32_t generation = s->asked / s->setting.turnover, i = (uint32_t)htc_rng_below(&c->rng, s->setting.keys);
    if (generation && s->setting.old_keys && one_in(c, 8))
        generation = (uint32_t)htc_rng_below(&c->rng, generation);
    store_key *k = &s->keys[(generation * s->setting.keys + i) % STORE_KEYS];
    if (!k->used) {
        uint32_t at = (uint32_t)(k - s->keys);
        k->type = "rrcdl"[htc_rng_below(&c->rng, 5)];
        if (k->type == 'r' && s->setting.value && one_in(c, 2))
            k->type = 'v';
        snprintf(k->name, sizeof k->name, "%c%u", k->type, at);
        k->used = htc_history_key(s->history, htc_bytes_of(k->name), &k->number) == HTC_OK;
    }
    return k;
}

static const uint32_t kind_of[] = { [HTC_KV_GET] = HTC_HISTORY_GET,
                                    [HTC_KV_PUT] = HTC_HISTORY_PUT,
                                    [HTC_KV_DELETE] = HTC_HISTORY_DELETE,
                                    [HTC_KV_APPEND] = HTC_HISTORY_APPEND,
                                    [HTC_KV_CAS_VERSION] = HTC_HISTORY_CAS_VERSION,
                                    [HTC_KV_CAS_VALUE] = HTC_HISTORY_CAS_VALUE,
                                    [HTC_KV_ADD] = HTC_HISTORY_ADD };

static uint32_t some_operation(store_client *c, char type)
{
    static const uint8_t mix[4][8] = {
        { HTC_KV_GET, HTC_KV_GET, HTC_KV_PUT, HTC_KV_PUT, HTC_KV_DELETE, HTC_KV_CAS_VALUE, HTC_KV_CAS_VERSION,
          HTC_KV_CAS_VERSION },
        { HTC_KV_GET, HTC_KV_GET, HTC_KV_ADD, HTC_KV_ADD, HTC_KV_ADD, HTC_KV_ADD, HTC_KV_ADD, HTC_KV_ADD },
        { HTC_KV_GET, HTC_KV_GET, HTC_KV_ADD, HTC_KV_ADD, HTC_KV_ADD, HTC_KV_ADD, HTC_KV_DELETE, HTC_KV_DELETE },
        { HTC_KV_GET, HTC_KV_GET, HTC_KV_APPEND, HTC_KV_APPEND, HTC_KV_APPEND, HTC_KV_APPEND, HTC_KV_APPEND,
          HTC_KV_DELETE }
    };
    /* A write-back lifts the version of what it found above a tombstone that was collected: versions do not name changes then. */
    uint32_t op;
    int      row = type == 'r' || type == 'v' ? 0 : type == 'c' ? 1 : type == 'd' ? 2 : 3;
    op = mix[row][htc_rng_below(&c->rng, 8)];
    return op == HTC_KV_CAS_VERSION && c->s->setting.unversioned ? HTC_KV_CAS_VALUE : op;
}

/* A value that nobody else writes. */
static htc_bytes some_value(store_client *c, const store_key *k, char text[STORE_VALUE])
{
    size_t n = (size_t)snprintf(text, STORE_VALUE, k->type == 'l' ? "+%u" : "v%u", c->s->asked);
    size_t to = k->type == 'v' ? n + (size_t)htc_rng_below(&c->rng, c->s->setting.value) : n;
    while (n < to && n < STORE_VALUE - 1)
        text[n++] = '.';
    text[n] = '\0';
    return (htc_bytes){ text, n };
}

static void ask_key(store_client *c, store_asked *a, char text[STORE_VALUE], htc_kv_request *q)
{
    store         *s = c->s;
    store_key     *k = some_key(c);
    htc_history_op op = HTC_HISTORY_OP_INIT;
    *q = (htc_kv_request){ .size = sizeof(htc_kv_request), .op = some_operation(c, k->type), .key = htc_bytes_of(k->name) };
    op.kind = kind_of[q->op];
    op.key = k->number;
    op.process = c->at;
    op.invoked = a->invoked;
    s->asked++;
    if (q->op != HTC_KV_GET && q->op != HTC_KV_DELETE && q->op != HTC_KV_ADD) {
        q->value = some_value(c, k, text);
        op.argument = htc_history_value_of(q->value);
    }
    if (q->op == HTC_KV_CAS_VALUE) {
        q->seen = htc_bytes_of(k->seen);
        op.seen = htc_history_value_of(q->seen);
        memcpy(c->seen[a - c->asked], k->seen, sizeof k->seen);
    }
    if (q->op == HTC_KV_CAS_VERSION)
        q->version = op.expected = one_in(c, 6) ? 0 : k->version;
    if (q->op == HTC_KV_ADD)
        q->delta = op.delta = 1 + (int64_t)htc_rng_below(&c->rng, 9);
    a->at = (uint32_t)(k - s->keys);
    if (htc_history_add(s->history, &op, &a->history) != HTC_OK)
        htc__store_fail(s, "no room in the history");
}

/* ---- one message ---- */

static void some_request(store_client *c, store_asked *a, char text[STORE_VALUE], htc_kv_request *q)
{
    uint64_t lot = htc_rng_below(&c->rng, 1000000);
    if (c->redis)
        ask_key(c, a, text, q);
    else if (htc__store_eventual_ask(c, lot, a, text, q))
        return;
    else if (lot < c->s->setting.pages_ppm)
        htc__store_page_ask(c, a, q);
    else if (lot - c->s->setting.pages_ppm >= c->s->setting.leases_ppm || !htc__store_lease_ask(c, a, text, q))
        ask_key(c, a, text, q);
}

static void read_key(store_client *c, store_asked *a, htc_kv_request *q)
{
    store         *s = c->s;
    htc_history_op op = HTC_HISTORY_OP_INIT;
    *q = (htc_kv_request){ .size = sizeof(htc_kv_request), .op = HTC_KV_GET, .key = htc_bytes_of(s->keys[c->reading].name) };
    op.kind = HTC_HISTORY_GET;
    op.key = s->keys[c->reading].number;
    op.flags = HTC_HISTORY_FINAL;
    op.process = c->at;
    op.invoked = a->invoked;
    a->at = c->reading;
    if (htc_history_add(s->history, &op, &a->history) != HTC_OK)
        htc__store_fail(s, "no room in the history");
}

/* The next thing that there is to read. */
static uint32_t to_read(const store *s, uint32_t at)
{
    while (at < READ_LEASES && !s->keys[at].used)
        at++;
    if (at >= READ_LEASES && at < READ_PAGES && at - READ_LEASES >= s->leases_n)
        at = READ_PAGES;
    return at >= READ_PAGES && !s->setting.pages_ppm ? READ_END : at;
}

static void read_next(store_client *c, store_asked *a, char text[STORE_VALUE], htc_kv_request *q)
{
    c->reading = to_read(c->s, c->reading);
    if (c->reading < READ_LEASES) {
        read_key(c, a, q);
    } else if (c->reading < READ_PAGES) {
        htc__store_lease_look(c, a, c->reading - READ_LEASES, text, q);
    } else {
        a->what = STORE_OF_ALL;
        *q = (htc_kv_request){ .size = sizeof(htc_kv_request), .op = c->reading == READ_PAGES ? HTC_KV_SCAN : HTC_KV_COUNT, .limit = a->limit = 7 };
        memcpy(a->after, c->cursor, sizeof a->after);
        q->cursor = htc_bytes_of(a->after);
    }
}

int htc__store_read_all(const store *s)
{
    return to_read(s, s->clients[0].reading) == READ_END;
}

htc_status htc__store_ask(store_client *c, htc_output *out)
{
    htc_kv_request q[STORE_BATCH];
    uint32_t       n = 1;
    if (c->s->phase < STORE_READ)
        n += (uint32_t)htc_rng_below(&c->rng, c->s->setting.batch);
    for (uint32_t i = 0; i < n; i++) {
        store_asked *a = &c->asked[i];
        *a = (store_asked){ .what = STORE_OF_KEY, .invoked = htc_sim_now(c->s->sim) };
        if (c->s->phase == STORE_READ)
            read_next(c, a, c->text[i], &q[i]);
        else if (c->s->phase == STORE_AGREE)
            htc__store_eventual_read_next(c, a, &q[i]);
        else
            some_request(c, a, c->text[i], &q[i]);
        a->op = q[i].op;
    }
    return htc__store_submit(c, q, n, out);
}

/* ---- what is answered ---- */

void htc__store_note(store_client *c, const store_asked *a, htc_history_op *answer)
{
    answer->returned = htc_sim_now(c->s->sim);
    if (htc_history_answer(c->s->history, a->history, answer) != HTC_OK)
        htc__store_fail(c->s, "client %u: an answer that is none", c->at);
}

static void notice(store_key *k, const htc_kv_result *r)
{
    if (r->version >= k->version && r->value.data && r->value.len < sizeof k->seen) {
        memcpy(k->seen, r->value.data, r->value.len);
        k->seen[r->value.len] = '\0';
    }
    if (r->version > k->version)
        k->version = r->version;
}

static void key_answered(store_client *c, const store_asked *a, const htc_kv_result *r)
{
    store         *s = c->s;
    htc_history_op op = HTC_HISTORY_OP_INIT;
    s->found += s->phase == STORE_READ && r->status == HTC_OK;
    if (s->phase == STORE_READ) {
        s->keys[a->at].there = r->status == HTC_OK;
        s->keys[a->at].last = r->version;
        s->keys[a->at].value = htc_history_value_of(r->value);
    }
    notice(&s->keys[a->at], r);
    op.version = s->setting.unversioned ? 0 : r->version;
    op.outcome = r->status == HTC_OK ? HTC_HISTORY_DONE : HTC_HISTORY_MISSED;
    if ((r->op == HTC_KV_ADD || r->op == HTC_KV_APPEND) && r->status == HTC_OK)
        op.number = r->number;
    if (r->value.data)
        op.observed = htc_history_value_of(r->value);
    else if (r->status == HTC_MISMATCH || (r->op == HTC_KV_GET && r->status == HTC_ENOTFOUND))
        op.observed.length = HTC_HISTORY_ABSENT;
    htc__store_note(c, a, &op);
}

/* 1: what was asked was done, or not; 0: that is not known, or nothing was done for other reasons. */
static int says(store_client *c, const store_asked *a, const htc_kv_result *r)
{
    if (r->status == HTC_EUNKNOWN || r->status == HTC_ETIMEDOUT || r->status == HTC_ENOSPC)
        return 0; /* it may have been done, or may still be */
    if (r->status == HTC_ENOMEM && c->s->setting.refused_ppm)
        return 0;
    if (r->status == HTC_EBUSY && (a->what != STORE_OF_KEY || c->s->setting.moves))
        return 0; /* a member that has just come may not know yet who owns what */
    if (r->status != HTC_OK && r->status != HTC_MISMATCH && r->status != HTC_ENOTFOUND)
        htc__store_fail(c->s, "client %u is answered %s", c->at, htc_status_name(r->status));
    return 1;
}

void htc__store_answered(store_client *c, const htc_kv_result *r)
{
    store             *s = c->s;
    const store_asked *a = &c->asked[r->index];
    if (c->keeper) {
        htc__store_moves_answered(c, r);
        return;
    }
    c->pending--;
    c->next = c->now + htc_rng_below(&c->rng, s->setting.think + 1);
    s->report->asked[a->op]++;
    if (a->what == STORE_OF_SPACE) {
        uint32_t is = (uint32_t)htc__store_eventual_answered(c, a, r);
        s->known += is;
        c->done += s->phase == STORE_WELL && (is || s->setting.space.w == s->setting.space.n); /* of these one may be lost for good */
        return;
    }
    if (!says(c, a, r))
        return;
    s->known++;
    c->moves = 0;
    c->done += s->phase == STORE_WELL;
    if (a->what == STORE_OF_KEY)
        key_answered(c, a, r);
    else if (a->what == STORE_OF_LEASE)
        htc__store_lease_answered(c, a, r);
    else
        htc__store_page_answered(c, a, r);
    if (s->phase == STORE_READ && !(r->op == HTC_KV_SCAN && r->cursor.len))
        c->reading++;
}
