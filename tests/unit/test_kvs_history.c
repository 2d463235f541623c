/* Histories of the store under loss, doubling, delay, reordering, restarts and failing commits, against slow and
 * obvious models: every acknowledged change made exactly once, versions strictly growing, reads as if there were one
 * copy. */
#include <limits.h>

#include "kvs_world.h"

/* ---------------------------------------------------------------- histories */

/* What a client may have seen is checked against what it was told: for each key the value is a number that only its
 * changes move, so that a change applied twice, or not at all, shows in the sum. */
typedef struct history {
    world    w;
    int64_t  added[8];   /* acknowledged additions to counter k */
    int64_t  unknown[8]; /* sum of absolute values of those with an unknown outcome */
    uint64_t version[8]; /* the highest acknowledged version of it */
    int      pending[CLIENTS];
    int64_t  delta[CLIENTS];
    int      key[CLIENTS];
    int64_t  own[CLIENTS]; /* this client's private list: how many it appended */
    char     cas_seen[CLIENTS][24];
    uint64_t cas_version[CLIENTS];
    int      unknowns;
} history;

static const char *const counters[] = { "c0", "c1", "c2", "c3", "c4", "c5", "c6", "c7" };

/* Several clients add to few counters through a bad network and a server that is killed: the sums are exact. */
static void counters_history(uint64_t seed, int clients, int keys, int rounds, faults f, htc_status disk)
{
    history *h = calloc(1, sizeof *h);
    world   *w = &h->w;
    int      left = rounds, busy = 0;
    char     text[32];
    world_open(w, seed, clients, f);
    while (left > 0 || busy > 0) {
        for (int i = 0; i < clients && left > 0; i++) {
            if (h->pending[i])
                continue;
            h->key[i] = (int)htc_rng_below(&w->rng, (uint64_t)keys);
            h->delta[i] = (int64_t)htc_rng_below(&w->rng, 100) + 1;
            htc_kv_request q = { .size = sizeof q, .op = HTC_KV_ADD, .key = B(counters[h->key[i]]), .delta = h->delta[i] };
            cr_assert(eq(int, htc_kv_client_submit(w->client[i], w->now, &q, 1, 1, w->out), HTC_OK));
            carry_out(w, i);
            h->pending[i] = 1;
            busy++;
            left--;
        }
        w->commit_status = chance(w, 30) ? disk : HTC_OK;
        turn(w);
        for (int i = 0; i < clients; i++) {
            htc_kv_result r = { .size = sizeof r };
            while (htc_kv_client_next(w->client[i], &r)) {
                int k = h->key[i];
                cr_assert(h->pending[i], "seed %llu: an answer nobody asked for", (unsigned long long)seed);
                h->pending[i] = 0;
                busy--;
                if (r.status == HTC_EUNKNOWN) {
                    h->unknowns++;
                    h->unknown[k] += h->delta[i];
                } else if (r.status == HTC_OK) {
                    h->added[k] += h->delta[i];
                    cr_assert(r.version > 0 && r.number > 0);
                    if (r.version > h->version[k])
                        h->version[k] = r.version;
                } else
                    cr_assert(r.status == disk, "seed %llu: %s", (unsigned long long)seed, htc_status_name(r.status));
            }
        }
    }
    w->commit_status = HTC_OK;
    for (int k = 0; k < keys; k++) {
        htc_kv_result r = ask(w, 0, (htc_kv_request){ .size = sizeof(htc_kv_request), .op = HTC_KV_GET, .key = B(counters[k]) }, text, sizeof text);
        int64_t       sum = r.status == HTC_OK ? atoll(text) : 0;
        cr_assert(sum >= h->added[k] && sum <= h->added[k] + h->unknown[k],
                  "seed %llu key %d: %lld, acknowledged %lld, unknown %lld", (unsigned long long)seed, k,
                  (long long)sum, (long long)h->added[k], (long long)h->unknown[k]);
        cr_assert(r.version >= h->version[k]);
    }
    if (clients <= HTC__KV_CLIENTS)
        cr_assert(eq(int, h->unknowns, 0), "seed %llu: a list of 16 holds them all", (unsigned long long)seed);
    world_close(w);
    free(h);
}

Test(kvs, additions_are_applied_exactly_once)
{
    for (uint64_t seed = 1; seed <= 400; seed++)
        counters_history(seed, 3, 2, 40, bad, HTC_OK);
}

/* More clients on one key than its record lists: outcomes may be unknown, but what is acknowledged happened, once. */
Test(kvs, more_clients_than_a_record_lists)
{
    for (uint64_t seed = 1; seed <= 60; seed++)
        counters_history(1000 + seed, CLIENTS, 1, 200, bad, HTC_OK);
}

/* A commit that fails takes its changes along, and those that were built on them; what is answered as done stays. */
Test(kvs, a_full_disk_undoes_whole_batches)
{
    for (uint64_t seed = 1; seed <= 200; seed++)
        counters_history(2000 + seed, 4, 3, 60, bad, HTC_ENOSPC);
}

/* ---------------------------------------------------------------- any operation, any order */

/* The slow and obvious model: everything that was asked and told is written down, and compared in pairs at the end.
 * Every value written is written by one request only, so a value names its change, and what is told about versions says
 * in which order the changes of a key took place. */
typedef struct noted {
    int        client, key, order;
    uint32_t   op;
    char       value[24], seen[24]; /* what it writes; what CAS_VALUE expects */
    uint64_t   expected;            /* CAS_VERSION */
    unsigned   asked, told;         /* turns; told 0: not yet */
    htc_status status;
    uint64_t   version; /* of the change, or observed; 0: absent */
    char       got[24]; /* observed */
} noted;

#define OPS  400
#define KEYS 3

typedef struct log_of {
    noted    ops[OPS + OPS * KEYS]; /* a scan is noted as a read of each key */
    int      n;
    unsigned turn;
    int      deletes[KEYS];
} log_of;

static const char *const keys[KEYS] = { "key", "key2", "other" };

static int is_write(const noted *o)
{
    return htc__kv_is_change(o->op);
}

static void check_pair(uint64_t seed, const log_of *l, const noted *a, const noted *b)
{
    int read_a = a->got[0] != 0, read_b = b->got[0] != 0;
    if (a->key != b->key)
        return;
    /* One version of a key, one value. */
    if (read_a && read_b && a->version == b->version)
        cr_assert(strcmp(a->got, b->got) == 0, "seed %lu: version %lu is %s and %s", seed, a->version, a->got, b->got);
    /* Done once: its value stands under one version, the acknowledged one; not done: nowhere. */
    if (is_write(a) && a->value[0] && read_b && strcmp(a->value, b->got) == 0) {
        cr_assert(a->status == HTC_OK || a->status == HTC_EUNKNOWN, "seed %lu: %s was refused (%s) and is there", seed,
                  a->value, htc_status_name(a->status));
        if (a->status == HTC_OK)
            cr_assert(a->version == b->version, "seed %lu: %s is version %lu, told %lu", seed, a->value, b->version,
                      a->version);
    }
    if (a != b && read_a && read_b && strcmp(a->got, b->got) == 0)
        cr_assert(a->version == b->version, "seed %lu: %s has versions %lu, %lu", seed, a->got, a->version, b->version);
    if (a != b && is_write(a) && is_write(b) && a->status == HTC_OK && b->status == HTC_OK)
        cr_assert(a->version != b->version, "seed %lu: two changes, one version", seed);
    /* What was told before something was asked comes before it; and so does what the same client changed before. */
    int before = a->told < b->asked || (a->client == b->client && a->order < b->order && is_write(a));
    int a_known = a->status == HTC_OK || a->status == HTC_MISMATCH, b_ok = b->status == HTC_OK && is_write(b);
    if (!before || !a_known || a->version == 0)
        return;
    if (b->version && b->status != HTC_EUNKNOWN)
        cr_assert(b_ok ? b->version > a->version || a == b : b->version >= a->version,
                  "seed %lu: op %d saw or wrote %lu, op %d later %lu", seed, (int)(a - l->ops), a->version,
                  (int)(b - l->ops), b->version);
    else if (b->status == HTC_ENOTFOUND)
        cr_assert(l->deletes[b->key], "seed %lu: nobody deleted it, and it is gone", seed);
}

static void note_answer(uint64_t seed, log_of *l, noted *o, const htc_kv_result *r)
{
    o->told = l->turn;
    o->status = r->status;
    o->version = r->version;
    cr_assert(eq(u32, r->op, o->op));
    if (r->status == HTC_MISMATCH || (r->status == HTC_OK && o->op == HTC_KV_GET))
        memcpy(o->got, r->value.data ? r->value.data : "", r->value.len < 23 ? r->value.len : 23);
    if (r->status == HTC_MISMATCH && o->op == HTC_KV_CAS_VALUE)
        cr_assert(r->version == 0 || strcmp(o->got, o->seen) != 0, "seed %lu: mismatch, and the same", seed);
    if (r->status == HTC_MISMATCH && o->op == HTC_KV_CAS_VERSION)
        cr_assert(r->version != o->expected, "seed %lu: mismatch, and the same version", seed);
    if (r->status == HTC_OK && is_write(o) && o->op != HTC_KV_DELETE)
        strcpy(o->got, o->value); /* the change itself says what its version is */
    if (o->op != HTC_KV_SCAN)
        return;
    size_t      at = 0;
    htc_kv_item item;
    int         seen[KEYS] = { 0 };
    for (uint32_t i = 0; i < r->items; i++) {
        cr_assert(eq(int, htc_kv_result_item(r, &at, &item), HTC_OK));
        for (int k = 0; k < KEYS; k++)
            if (htc_bytes_equal(item.key, B(keys[k]))) {
                noted *read = &l->ops[l->n++];
                *read = *o;
                read->op = HTC_KV_GET;
                read->key = k;
                read->version = item.version;
                memcpy(read->got, item.value.data, item.value.len < 23 ? item.value.len : 23);
                seen[k]++;
            }
    }
    for (int k = 0; k < 2; k++) /* those under the prefix */
        cr_assert(seen[k] == 1 || (seen[k] == 0), "seed %lu: twice in one page", seed);
    o->key = KEYS; /* its reads stand for it */
}

static void any_history(uint64_t seed, int clients, int ops, int deletes, faults f, htc_status disk)
{
    world  *w = calloc(1, sizeof *w);
    log_of *l = calloc(1, sizeof *l);
    int     left = ops, pending = 0, asked = 0;
    char    last[KEYS][24] = { "" };
    world_open(w, seed, clients, f);
    if (deletes == 2)
        w->options.tombstones_max = 1;
    while (left > 0 || pending > 0) {
        int i = (int)htc_rng_below(&w->rng, (uint64_t)clients);
        l->turn++;
        if (left > 0 && htc_kv_client_pending(w->client[i]) < 4 && chance(w, 300)) {
            htc_kv_request q[3] = { { .size = sizeof(htc_kv_request) } };
            noted         *o[3];
            int            n = 1 + (int)htc_rng_below(&w->rng, left < 3 ? (uint64_t)left : 3);
            for (int j = 0; j < n; j++) {
                static const uint32_t mix[] = { HTC_KV_GET,       HTC_KV_GET,         HTC_KV_PUT,  HTC_KV_CAS_VALUE,
                                                HTC_KV_CAS_VALUE, HTC_KV_CAS_VERSION, HTC_KV_SCAN, HTC_KV_DELETE };
                o[j] = &l->ops[l->n++];
                o[j]->client = i;
                o[j]->order = (int)(o[j] - l->ops);
                o[j]->key = (int)htc_rng_below(&w->rng, KEYS);
                o[j]->op = mix[htc_rng_below(&w->rng, deletes ? 8 : 7)];
                o[j]->asked = l->turn;
                o[j]->told = UINT_MAX;
                o[j]->status = HTC_EUNKNOWN;
                l->deletes[o[j]->key] |= o[j]->op == HTC_KV_DELETE;
                if (is_write(o[j]) && o[j]->op != HTC_KV_DELETE)
                    snprintf(o[j]->value, sizeof o[j]->value, "v%d", ++asked);
                strcpy(o[j]->seen, last[o[j]->key]);
                for (int m = 0; m < l->n; m++)
                    if (l->ops[m].key == o[j]->key && l->ops[m].version > o[j]->expected && chance(w, 900))
                        o[j]->expected = l->ops[m].version;
                q[j] = (htc_kv_request){ .size = sizeof(htc_kv_request), .op = o[j]->op,
                                         .key = o[j]->op == HTC_KV_SCAN ? B("key") : B(keys[o[j]->key]),
                                         .value = B(o[j]->value),
                                         .seen = B(o[j]->seen),
                                         .version = o[j]->expected };
            }
            cr_assert(eq(int,
                         htc_kv_client_submit(w->client[i], w->now, q, (size_t)n, (uint64_t)(o[0] - l->ops), w->out),
                         HTC_OK));
            carry_out(w, i);
            left -= n;
            pending += n;
        }
        w->commit_status = chance(w, 30) ? disk : HTC_OK;
        turn(w);
        for (i = 0; i < clients; i++) {
            htc_kv_result r = { .size = sizeof r };
            while (htc_kv_client_next(w->client[i], &r)) {
                noted *o = &l->ops[r.tag + r.index];
                cr_assert(o->client == i && o->told == UINT_MAX, "seed %lu: answered twice", seed);
                note_answer(seed, l, o, &r);
                if (o->key < KEYS && o->got[0])
                    strcpy(last[o->key], o->got);
                pending--;
            }
        }
    }
    for (int a = 0; a < l->n; a++)
        for (int b = 0; b < l->n; b++)
            check_pair(seed, l, &l->ops[a], &l->ops[b]);
    world_close(w);
    free(l);
    free(w);
}

Test(kvs, every_history_is_linearizable)
{
    for (uint64_t seed = 1; seed <= 1500; seed++)
        any_history(seed, 1 + (int)(seed % 4), 100, (int)(seed % 3), bad, seed % 5 ? HTC_OK : HTC_ENOSPC);
}
