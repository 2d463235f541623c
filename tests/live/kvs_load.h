/* Clients of a store that others meanwhile do something to, and the verdict: adders and swappers by compare-and-swap on a few keys, holders of
 * leases with a key bound to each. What they were told is a history, and judged as one (kvs_judge.h).
 *
 * Whoever includes this says first where the store answers (load_where, load_members), how long a client waits (LOAD_PATIENCE), whether
 * members come and go (LOAD_GROWS), and has a clock (load_now), `check`, `dir` and `seed`. */
#ifndef HTC_TESTS_KVS_LOAD_H
#define HTC_TESTS_KVS_LOAD_H

#include <pthread.h>
#include <stdatomic.h>
#include <time.h>
#include <unistd.h>

#include "htcsched/store.h"
#include "kvs_judge.h"

#define CLIENTS 16   /* at most */
#define HOLDERS 2    /* of leases, beside them */
#define LEASES  4096 /* of all of them, at most */
#define TTL     (600 * HTC_MS)
#define KEYS    4 /* at a time; the first two are counters */
#define OPS_MAX 2000000 /* of clients, each age its share; what is read in the end comes on top */
/* Then come other keys: an order of additions is hard to find where the outcomes of many are not known. */
#define AGE  (4 * HTC_SECOND)
#define AGES 256

static uint32_t        keys[AGES * KEYS];
static uint32_t        leases[LEASES];
static int             lease_count;
static htc_ns          begun;
static uint32_t        ages;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static atomic_int      stop;
static int             told, unknown;

/* ---------------------------------------------------------------- clients */

typedef struct user {
    int        number;
    htc_rng    rng;
    htc_store *store;
    uint64_t   version; /* seen last, of whatever key */
    char       seen[32];
} user;

static htc_status connect_to(user *u, int member)
{
    char              address[LOAD_ADDRESS];
    htc_error         error = { 0 };
    htc_store_options o = { .size = sizeof o, .address = address, .timeout_ns = LOAD_PATIENCE };
    if (!load_where(member, address))
        return HTC_ENOTFOUND;
    return htc_store_open(NULL, &o, &u->store, &error);
}

/* To any of them. 0: there was nobody. */
static int connect_anywhere(user *u)
{
    int count = load_members();
    if (count > 0 && connect_to(u, (int)htc_rng_below(&u->rng, (uint64_t)count)) == HTC_OK)
        return 1;
    u->store = NULL;
    nanosleep(&(struct timespec){ 0, HTC_MS }, NULL);
    return 0;
}

static void choose(user *u, htc_kv_request *q, htc_history_op *op, char text[32])
{
    uint64_t what = htc_rng_below(&u->rng, 10);
    uint32_t k = (uint32_t)htc_rng_below(&u->rng, KEYS);
    *op = (htc_history_op)HTC_HISTORY_OP_INIT;
    uint64_t age = (load_now() - begun) / AGE % ages;
    op->key = keys[age * KEYS + k];
    op->process = (uint64_t)u->number;
    op->kind = HTC_HISTORY_GET;
    *q = (htc_kv_request){ .size = sizeof(htc_kv_request), .op = HTC_KV_GET, .key = htc_history_key_bytes(history, op->key) };
    if (k < 2 && what < 8) {
        q->op = HTC_KV_ADD;
        op->kind = HTC_HISTORY_ADD;
        q->delta = op->delta = 1 + (int64_t)htc_rng_below(&u->rng, UINT64_C(1) << 40); /* a sum tells what is in it */
    } else if (k >= 2 && what < 8) {
        q->op = what == 0 ? HTC_KV_PUT : what < 4 ? HTC_KV_CAS_VERSION : HTC_KV_CAS_VALUE;
        op->kind = what == 0  ? (uint32_t)HTC_HISTORY_PUT
                   : what < 4 ? (uint32_t)HTC_HISTORY_CAS_VERSION
                              : (uint32_t)HTC_HISTORY_CAS_VALUE;
        snprintf(text, 32, "%d-%llx", u->number, (unsigned long long)(htc_rng_next(&u->rng) >> 16));
        q->value = htc_bytes_of(text);
        op->argument = htc_history_value_of(q->value);
        q->version = op->expected = q->op == HTC_KV_CAS_VERSION ? u->version : 0;
        if (q->op == HTC_KV_CAS_VALUE) {
            q->seen = htc_bytes_of(u->seen);
            op->seen = htc_history_value_of(q->seen);
        }
    }
}

/* Busy is who is just being let in: it has done nothing. */
static void unsure(htc_status status, uint32_t what, htc_bytes key)
{
    char text[600];
    snprintf(text, sizeof text, "operation %u of %.*s: %s", (unsigned)what, (int)key.len, (const char *)key.data, htc_status_name(status));
    check(status == HTC_EUNKNOWN || status == HTC_ETIMEDOUT || status == HTC_EUNREACHABLE || (LOAD_GROWS && status == HTC_EBUSY), text);
}

static void note(user *u, size_t at, const htc_kv_request *q, htc_status status, const htc_kv_result *r)
{
    htc_history_op op = HTC_HISTORY_OP_INIT;
    if (status == HTC_OK)
        status = r->status;
    if (status != HTC_OK && status != HTC_MISMATCH && status != HTC_ENOTFOUND) {
        unsure(status, q->op, q->key);
        unknown++;
        return;
    }
    told++;
    u->version = r->version;
    if (r->value.data)
        snprintf(u->seen, sizeof u->seen, "%.*s", (int)r->value.len, (const char *)r->value.data);
    op.outcome = status == HTC_OK ? HTC_HISTORY_DONE : HTC_HISTORY_MISSED;
    op.returned = load_now();
    op.version = r->version;
    if (q->op == HTC_KV_ADD && status == HTC_OK)
        op.number = r->number;
    if (r->value.data)
        op.observed = htc_history_value_of(r->value);
    else if (status == HTC_MISMATCH || (q->op == HTC_KV_GET && status == HTC_ENOTFOUND))
        op.observed.length = HTC_HISTORY_ABSENT;
    check(htc_history_answer(history, at, &op) == HTC_OK, "the history takes an answer");
}

static void one_request(user *u, uint32_t flags, const htc_kv_request *given, htc_history_op *op)
{
    htc_kv_result  r = { .size = sizeof r };
    htc_kv_request q = *given;
    size_t         at;
    op->flags = flags;
    pthread_mutex_lock(&lock);
    op->invoked = load_now();
    check(htc_history_add(history, op, &at) == HTC_OK, "the history takes a request");
    pthread_mutex_unlock(&lock);
    htc_status status = htc_store_ask(u->store, &q, &r, NULL);
    pthread_mutex_lock(&lock);
    note(u, at, &q, status, &r);
    pthread_mutex_unlock(&lock);
    if (status != HTC_OK || r.status == HTC_ETIMEDOUT || r.status == HTC_EBUSY) {
        htc_store_close(u->store);
        u->store = NULL;
    }
}

/* The history has room for what is asked in this age. */
static int has_room(void)
{
    uint64_t age = (load_now() - begun) / AGE, behind = age < ages ? age + 1 : ages;
    pthread_mutex_lock(&lock);
    int room = htc_history_count(history) < OPS_MAX / ages * behind;
    pthread_mutex_unlock(&lock);
    return room;
}

static void *client_run(void *arg)
{
    user *u = arg;
    while (!stop) {
        htc_kv_request q = { .size = sizeof q };
        htc_history_op op;
        char           text[32];
        if (!has_room()) {
            nanosleep(&(struct timespec){ 0, HTC_MS }, NULL);
            continue;
        }
        if (!u->store && !connect_anywhere(u))
            continue;
        pthread_mutex_lock(&lock); /* keys are lent until one is added, which nobody does any more */
        choose(u, &q, &op, text);
        pthread_mutex_unlock(&lock);
        one_request(u, 0, &q, &op);
        if (htc_rng_below(&u->rng, 200) == 0 && u->store) { /* another member, now and then */
            htc_store_close(u->store);
            u->store = NULL;
        }
    }
    htc_store_close(u->store);
    u->store = NULL;
    return NULL;
}

/* ---------------------------------------------------------------- who holds leases */

typedef struct held {
    int      number; /* of leases[]; -1: none */
    uint64_t lease;
    int      bound;
    char     name[24];
} held;

static htc_kv_request lease_request(const held *h, uint32_t kind)
{
    htc_bytes key = htc_bytes_of(h->name);
    switch (kind) {
    case HTC_HISTORY_GRANT:
        return (htc_kv_request){ .size = sizeof(htc_kv_request), .op = HTC_KV_LEASE_GRANT, .ttl = TTL };
    case HTC_HISTORY_RENEW:
        return (htc_kv_request){ .size = sizeof(htc_kv_request), .op = HTC_KV_LEASE_RENEW, .lease = h->lease };
    case HTC_HISTORY_REVOKE:
        return (htc_kv_request){ .size = sizeof(htc_kv_request), .op = HTC_KV_LEASE_REVOKE, .lease = h->lease };
    case HTC_HISTORY_PUT:
        return (htc_kv_request){ .size = sizeof(htc_kv_request), .op = HTC_KV_PUT, .key = key, .value = key, .lease = h->lease };
    default:
        return (htc_kv_request){ .size = sizeof(htc_kv_request), .op = HTC_KV_GET, .key = key };
    }
}

/* HTC_OK, HTC_ENOTFOUND, or something that says nothing of the lease. */
static htc_status lease_deed(user *u, held *h, uint32_t kind)
{
    htc_kv_request q = lease_request(h, kind);
    htc_kv_result  r = { .size = sizeof r };
    htc_history_op op = HTC_HISTORY_OP_INIT, told_op = HTC_HISTORY_OP_INIT;
    size_t         at;
    op.kind = kind == HTC_HISTORY_PUT ? (uint32_t)HTC_HISTORY_LOOK : kind;
    op.key = leases[h->number];
    op.process = (uint64_t)u->number;
    op.expected = kind == HTC_HISTORY_GRANT ? TTL : 0;
    pthread_mutex_lock(&lock);
    op.invoked = load_now();
    check(htc_history_add(history, &op, &at) == HTC_OK, "the history takes a deed");
    pthread_mutex_unlock(&lock);
    htc_status status = htc_store_ask(u->store, &q, &r, NULL);
    status = status == HTC_OK ? r.status : status;
    pthread_mutex_lock(&lock);
    told_op.outcome = status == HTC_OK ? HTC_HISTORY_DONE : HTC_HISTORY_MISSED;
    told_op.returned = load_now();
    /* A revocation that was sent twice may have met its own work. */
    if (status == HTC_OK || (status == HTC_ENOTFOUND && kind != HTC_HISTORY_REVOKE))
        check(htc_history_answer(history, at, &told_op) == HTC_OK, "the history takes an answer");
    pthread_mutex_unlock(&lock);
    if (kind == HTC_HISTORY_GRANT)
        h->lease = r.lease;
    if (status != HTC_OK && status != HTC_ENOTFOUND) {
        unsure(status, q.op, htc_bytes_of(h->name));
        htc_store_close(u->store);
        u->store = NULL;
    }
    return status;
}

static int new_lease(held *h)
{
    pthread_mutex_lock(&lock);
    *h = (held){ .number = lease_count < LEASES ? lease_count++ : -1 };
    pthread_mutex_unlock(&lock);
    snprintf(h->name, sizeof h->name, "bound/%d", h->number);
    return h->number >= 0;
}

/* Every other one takes its time, so that its leases live for longer than their keepers are stopped: a member that wakes up then must not end
 * what another one keeps by now. */
static void *holder_run(void *arg)
{
    user *u = arg;
    held  h = { .number = -1 };
    int   slow = u->number % 2;
    while (!stop) {
        if (!u->store && !connect_anywhere(u))
            continue;
        uint64_t what = htc_rng_below(&u->rng, slow ? 100 : 30);
        if (slow)
            nanosleep(&(struct timespec){ 0, 100 * 1000 * 1000 }, NULL);
        if (h.number < 0) {
            if (!new_lease(&h))
                break;
            if (lease_deed(u, &h, HTC_HISTORY_GRANT) != HTC_OK)
                h.number = -1;
            continue;
        }
        uint32_t   kind = !h.bound    ? (uint32_t)HTC_HISTORY_PUT
                          : what == 0 ? (uint32_t)HTC_HISTORY_REVOKE
                          : what & 1  ? (uint32_t)HTC_HISTORY_RENEW
                                      : (uint32_t)HTC_HISTORY_LOOK;
        htc_status status = lease_deed(u, &h, kind);
        h.bound |= kind == HTC_HISTORY_PUT && status == HTC_OK;
        if (status == HTC_ENOTFOUND || kind == HTC_HISTORY_REVOKE || !h.bound)
            h.number = -1;                          /* it is gone, or nobody knows whether its key is there */
        if (kind == HTC_HISTORY_RENEW && what == 1) /* long enough for it to end */
            nanosleep(&(struct timespec){ 1, 0 }, NULL);
    }
    htc_store_close(u->store);
    return NULL;
}

/* ---------------------------------------------------------------- the verdict */

/* However few requests a slow machine has answered: one counter is added to twice, and read then, so that the history has what can be made
 * wrong in it (kvs_judge.h). */
static void something_known(void)
{
    user     u = { .number = CLIENTS + HOLDERS };
    uint32_t key = keys[(ages - 1) * KEYS];
    htc_ns   until = load_now() + 120 * HTC_SECOND;
    for (int n = 0; n < 3;) {
        htc_kv_request q = { .size = sizeof q, .op = n < 2 ? HTC_KV_ADD : HTC_KV_GET, .key = htc_history_key_bytes(history, key), .delta = n < 2 };
        htc_history_op op = HTC_HISTORY_OP_INIT;
        int            before = told;
        op.kind = n < 2 ? HTC_HISTORY_ADD : HTC_HISTORY_GET;
        op.key = key;
        op.process = (uint64_t)u.number;
        op.delta = q.delta;
        check(load_now() < until, "somebody answers when all has healed");
        if (!u.store && !connect_anywhere(&u))
            continue;
        one_request(&u, 0, &q, &op);
        n += told > before;
    }
    htc_store_close(u.store);
}

/* After all has healed every key is read by every member. */
static void last_look(void)
{
    for (int m = 0; m < load_members(); m++) {
        user u = { .number = CLIENTS + HOLDERS + m };
        for (uint32_t k = 0; k < ages * KEYS; k++) {
            htc_kv_request q = { .size = sizeof q, .op = HTC_KV_GET, .key = htc_history_key_bytes(history, keys[k]) };
            htc_ns         until = load_now() + 60 * HTC_SECOND;
            for (int before = told; told == before;) {
                htc_history_op op = HTC_HISTORY_OP_INIT;
                op.kind = HTC_HISTORY_GET;
                op.key = keys[k];
                op.process = (uint64_t)u.number;
                check(load_now() < until, "every member answers when all has healed");
                if (!u.store && connect_to(&u, m) != HTC_OK)
                    u.store = NULL;
                else
                    one_request(&u, HTC_HISTORY_FINAL, &q, &op);
            }
        }
        htc_store_close(u.store);
    }
}

/* It goes on until a byte comes. */
static int clients_run(int from, int clients)
{
    static const char *const names[KEYS] = { "count/a", "count/b", "cas/a", "cas/b" };
    char                     name[32];
    pthread_t                threads[CLIENTS + HOLDERS];
    user                     users[CLIENTS + HOLDERS] = { { 0 } };
    char                     byte;
    check(htc_history_create(NULL, NULL, &history) == HTC_OK, "a history");
    for (uint32_t k = 0; k < ages * KEYS; k++) {
        snprintf(name, sizeof name, "%s/%u", names[k % KEYS], (unsigned)(k / KEYS));
        check(htc_history_key(history, htc_bytes_of(name), &keys[k]) == HTC_OK, "a key");
    }
    for (int i = 0; i < LEASES; i++) {
        snprintf(name, sizeof name, "lease/%d", i);
        check(htc_history_key(history, htc_bytes_of(name), &leases[i]) == HTC_OK, "a key");
    }
    begun = load_now();
    for (int i = 0; i < clients + HOLDERS; i++) {
        users[i] = (user){ .number = i, .rng = { seed * 1000 + (uint64_t)i } };
        check(pthread_create(&threads[i], NULL, i < clients ? client_run : holder_run, &users[i]) == 0, "a thread");
    }
    check(read(from, &byte, 1) == 1, "told to end");
    stop = 1;
    for (int i = 0; i < clients + HOLDERS; i++)
        pthread_join(threads[i], NULL);
    something_known();
    last_look();
    judge_all();
    check(told > 0, "something was done");
    printf("%zu requests, %d told, %d unknown, %d leases", htc_history_count(history), told, unknown, lease_count);
    htc_history_destroy(history);
    return 0;
}

#endif
