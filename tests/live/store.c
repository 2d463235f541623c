/* usage: live_store [-s SEED] [-n STEPS] [-v BYTES] [-b] [-p] ADDRESS
 *   -v  the largest value
 *   -b  connections break meanwhile: what a store that cannot repeat changes safely then answers HTC_EUNKNOWN is looked up
 *   -p  each answer is waited for by poll(2), as a program with a loop of its own does
 *
 * What every store has to do, asked of one behind htcsched/store.h: random requests against a table that says what must come
 * back, two handles that get in each other's way, leases, scans, wrong requests. What it cannot do (htc_store_can) has to be
 * answered HTC_EUNSUPPORTED. The seed is printed. */
#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "htcsched/host.h"
#include "htcsched/store.h"

#define KEYS  12
#define RETRY HTC_SECOND /* htc_kv_client_options.retry_ns */
#define LOOKS 20 /* at a key of which it is not known what became of a change */

static const char *address;
static uint64_t    seed, step;
static size_t      value_max = HTC_KV_VALUE_MAX;
static int         breaks;  /* connections are being cut, new ones too */
static int         polls;   /* answers are waited for by poll(2) */
static uint64_t    turns;
static uint64_t    unknown; /* changes of which nobody knows, and which were looked up */
static int         late;    /* the last answer took so long that the request may have been sent again, which leaves less to be told */

static void fail(int line, const char *what, ...)
{
    va_list list;
    va_start(list, what);
    fprintf(stderr, "%s: line %d, seed %llu, step %llu: ", address, line, (unsigned long long)seed,
            (unsigned long long)step);
    vfprintf(stderr, what, list);
    fprintf(stderr, "\n");
    va_end(list);
    exit(1);
}

#define NEED(x, ...)                                                                                                   \
    do {                                                                                                               \
        if (!(x))                                                                                                      \
            fail(__LINE__, __VA_ARGS__);                                                                               \
    } while (0)

static htc_store *open_one(void)
{
    htc_store *store = NULL;
    htc_error  error = { 0 };
    /* So long that nothing but a lost answer is late: a sync of a busy disk may take many seconds. */
    htc_store_options o = { .size = sizeof o, .address = address, .timeout_ns = 300 * HTC_SECOND };
    htc_status        status = htc_store_open(NULL, &o, &store, &error);
    for (int i = 0; breaks && status == HTC_EUNREACHABLE && i < 1000; i++)
        status = htc_store_open(NULL, &o, &store, &error);
    NEED(status == HTC_OK, "cannot open: %s", error.text);
    return store;
}

/* Another handle of the same store; what lives inside a handle has no other. */
static htc_store *open_other(htc_store *store)
{
    return strcmp(address, "memory:") == 0 ? store : open_one();
}

static void close_both(htc_store *store, htc_store *other)
{
    if (other != store)
        htc_store_close(other);
    htc_store_close(store);
}

/* The loop of a program that has its own. */
static htc_status next(htc_store *store, htc_kv_result *result)
{
    if (!polls)
        return htc_store_next(store, HTC_NEVER, result);
    int           fd = htc_store_fd(store); /* before its events */
    struct pollfd p = { fd, htc_store_events(store), 0 };
    htc_status    status;
    NEED((p.fd < 0) == (strcmp(address, "memory:") == 0), "descriptor %d", p.fd);
    while ((status = htc_store_next(store, 0, result)) == HTC_ETIMEDOUT) {
        htc_ns until = htc_store_deadline(store), now = htc_host_now();
        NEED(p.fd == htc_store_fd(store), "another descriptor");
        NEED(p.fd >= 0 || until != HTC_NEVER, "nothing will wake this up");
        poll(&p, p.fd >= 0, until == HTC_NEVER ? -1 : until <= now ? 0 : (int)((until - now) / HTC_MS) + 1);
        turns++;
    }
    return status;
}

/* With every answer taken the descriptor is silent, or a loop would turn for ever. */
static htc_status ask_polling(htc_store *store, const htc_kv_request *request, htc_kv_result *result)
{
    htc_kv_result none = { .size = sizeof none };
    htc_status    status = htc_store_submit(store, request, 1, 0);
    if (status == HTC_OK)
        status = next(store, result);
    if (breaks || status != HTC_OK)
        return status;
    htc_kv_result kept = *result;
    static char   value[1 << 20];
    if (kept.value.len > sizeof value || kept.cursor.len || kept.items_bytes.len || kept.context.len)
        return status; /* the next call would take these back */
    if (kept.value.len)
        memcpy(value, kept.value.data, kept.value.len);
    struct pollfd p = { htc_store_fd(store), POLLIN, 0 };
    for (int i = 0; i < 2 || (p.fd >= 0 && poll(&p, 1, 0) != 0); i++) {
        NEED(i < 100, "the descriptor is ready with nothing to do");
        NEED(htc_store_next(store, 0, &none) == HTC_EMPTY, "an answer to nothing");
    }
    kept.value.data = (const uint8_t *)value;
    *result = kept;
    return status;
}

static htc_kv_result ask(htc_store *store, htc_kv_request request)
{
    htc_kv_result result = { .size = sizeof result };
    htc_error     error = { 0 };
    htc_ns        begun = htc_host_now();
    htc_status    status = polls ? ask_polling(store, &request, &result) : htc_store_ask(store, &request, &result, &error);
    late = htc_host_now() - begun >= RETRY;
    NEED(status == HTC_OK, "op %u is not answered: %s", request.op, error.text);
    NEED(result.op == request.op && result.last, "another request is answered");
    return result;
}

static htc_bytes bytes_of(const char *text)
{
    return htc_bytes_of(text);
}

#define REQUEST(...) ((htc_kv_request){ .size = sizeof(htc_kv_request), __VA_ARGS__ })

/* ---- random requests against a table ---- */

typedef struct entry {
    char     key[32];
    char     value[4096];
    size_t   len;
    int      present;
    uint64_t version, highest; /* 0 while absent; the highest ever seen */
} entry;

/* A number is the decimal text of a signed 64-bit integer as a machine writes it (no zeros in front), that 7 can be added to. */
static int is_number(const entry *e, long long *number)
{
    char text[32] = "", again[32];
    *number = 0;
    if (!e->present)
        return 1;
    if (e->len >= sizeof text)
        return 0;
    memcpy(text, e->value, e->len);
    errno = 0;
    *number = strtoll(text, NULL, 10);
    snprintf(again, sizeof again, "%lld", *number);
    return !errno && strcmp(text, again) == 0 && *number <= LLONG_MAX - 7;
}

static void changed(entry *e, const htc_kv_result *r, htc_bytes value)
{
    NEED(r->status == HTC_OK, "%s: a change is refused: %s", e->key, htc_strerror(r->status));
    NEED(r->version > e->highest, "%s: version %llu after %llu", e->key, (unsigned long long)r->version,
         (unsigned long long)e->highest);
    memmove(e->value, value.data, value.len);
    e->len = value.len;
    e->present = 1;
    e->version = e->highest = r->version;
}

static void is_current(const entry *e, const htc_kv_result *r)
{
    NEED(r->version == e->version, "%s: version %llu, not %llu", e->key, (unsigned long long)r->version,
         (unsigned long long)e->version);
    NEED(r->value.len == (e->present ? e->len : 0) &&
             memcmp(r->value.data ? r->value.data : "", e->value, r->value.len) == 0,
         "%s: another value", e->key);
}

/* Such a change was made once, or not at all, or will yet be: the key is as it was, or as it had to become, and is left alone from
 * now on. With safe retries only a change that fails can be one. 1: it was one. */
static int looked_up(htc_store *store, entry *e, const htc_kv_result *answer, int deleted, htc_bytes after)
{
    char key[sizeof e->key];
    if (answer->status != HTC_EUNKNOWN || !breaks)
        return 0;
    htc_kv_result r = ask(store, REQUEST(.op = HTC_KV_GET, .key = bytes_of(e->key)));
    for (int again = 0; r.status == HTC_ETIMEDOUT && again < LOOKS; again++) /* what breaks others may keep it waiting too */
        r = ask(store, REQUEST(.op = HTC_KV_GET, .key = bytes_of(e->key)));
    int           as_before = r.status == HTC_ENOTFOUND ? !e->present : e->present && r.version == e->version;
    int           as_after = r.status == HTC_ENOTFOUND ? deleted : !deleted && htc_bytes_equal(r.value, after);
    as_after &= !(htc_store_can(store) & HTC_STORE_SAFE_RETRIES);
    NEED(as_before || as_after, "%s: it is neither as before nor as after: %s", e->key, htc_strerror(r.status));
    snprintf(key, sizeof key, "%.*s.%llu", (int)strcspn(e->key, "."), e->key, (unsigned long long)++unknown);
    *e = (entry){ .present = 0 };
    memcpy(e->key, key, sizeof key);
    return 1;
}

static void mismatch(const entry *e, const htc_kv_result *r)
{
    NEED(r->status == HTC_MISMATCH, "%s: no mismatch but %s", e->key, htc_strerror(r->status));
    is_current(e, r);
}

static void one_step(htc_store *store, entry *e, htc_rng *rng)
{
    char          text[64], joined[4096];
    long long     number;
    htc_kv_result r = { .size = sizeof r };
    htc_bytes     key = bytes_of(e->key), value, old = { e->value, e->len };
    snprintf(text, sizeof text, htc_rng_below(rng, 2) ? "%lld" : "value %lld", (long long)htc_rng_below(rng, 100000));
    value = bytes_of(text);
    switch (htc_rng_below(rng, 9)) {
    case 0:
    case 1:
        r = ask(store, REQUEST(.op = HTC_KV_GET, .key = key));
        NEED(r.status == (e->present ? HTC_OK : HTC_ENOTFOUND), "%s: get: %s", e->key, htc_strerror(r.status));
        is_current(e, &r);
        return;
    case 2:
        r = ask(store, REQUEST(.op = HTC_KV_PUT, .key = key, .value = value));
        if (!looked_up(store, e, &r, 0, value))
            changed(e, &r, value);
        return;
    case 3:
        r = ask(store, REQUEST(.op = HTC_KV_DELETE, .key = key));
        if (looked_up(store, e, &r, 1, (htc_bytes){ NULL, 0 }))
            return;
        NEED(r.status == (e->present ? HTC_OK : HTC_ENOTFOUND), "%s: delete: %s", e->key, htc_strerror(r.status));
        if (e->present && r.version)
            e->highest = r.version;
        e->present = 0;
        e->version = 0;
        return;
    case 4:
        if (!e->present)
            e->len = 0;
        if (e->len + value.len >= sizeof e->value)
            return;
        r = ask(store, REQUEST(.op = HTC_KV_APPEND, .key = key, .value = value));
        memcpy(joined, e->value, e->len);
        memcpy(joined + e->len, text, value.len);
        if (looked_up(store, e, &r, 0, (htc_bytes){ joined, e->len + value.len }))
            return;
        NEED(r.number == (int64_t)(e->len + value.len), "%s: append: length %lld", e->key, (long long)r.number);
        changed(e, &r, (htc_bytes){ joined, e->len + value.len });
        return;
    case 5:
    case 6: {
        uint64_t expected = htc_rng_below(rng, 3) ? e->version : e->highest + 1;
        r = ask(store, REQUEST(.op = HTC_KV_CAS_VERSION, .key = key, .version = expected, .value = value));
        if (looked_up(store, e, &r, 0, expected == e->version ? value : old))
            return;
        if (expected == e->version)
            changed(e, &r, value);
        else
            mismatch(e, &r);
        return;
    }
    case 7: {
        int right = htc_rng_below(rng, 3) && e->present;
        r = ask(store,
                REQUEST(.op = HTC_KV_CAS_VALUE, .key = key, .seen = right ? old : bytes_of("?"), .value = value));
        if (looked_up(store, e, &r, 0, right ? value : old))
            return;
        if (right)
            changed(e, &r, value);
        else
            mismatch(e, &r);
        return;
    }
    default:
        r = ask(store, REQUEST(.op = HTC_KV_ADD, .key = key, .delta = 7));
        if (is_number(e, &number)) {
            snprintf(text, sizeof text, "%lld", number + 7);
            if (looked_up(store, e, &r, 0, bytes_of(text)))
                return;
            NEED(r.number == number + 7, "%s: add: %lld", e->key, (long long)r.number);
            changed(e, &r, bytes_of(text));
        } else if (!looked_up(store, e, &r, 0, old)) {
            NEED(r.status == HTC_EINVAL, "%s: added to no number: %s", e->key, htc_strerror(r.status));
        }
    }
}

static void random_requests(uint64_t steps)
{
    htc_rng    rng = { seed };
    htc_store *store[2] = { open_one() };
    entry      entries[KEYS] = { 0 };
    store[1] = open_other(store[0]);
    for (int i = 0; i < KEYS; i++)
        snprintf(entries[i].key, sizeof entries[i].key, "%llx/%d", (unsigned long long)seed, i);
    for (step = 0; step < steps; step++)
        one_step(store[htc_rng_below(&rng, 2)], &entries[htc_rng_below(&rng, KEYS)], &rng);
    close_both(store[0], store[1]);
}

/* ---- handles beside each other ---- */

#define ADDERS 3
#define ADDS   40

/* Every addition of every handle counts once, all in flight together. */
static void counters(void)
{
    htc_store *store[ADDERS];
    int        adders = strcmp(address, "memory:") == 0 ? 1 : ADDERS;
    char       key[64];
    snprintf(key, sizeof key, "%llx/counter", (unsigned long long)seed);
    for (int i = 0; i < adders; i++) {
        store[i] = open_one();
        for (int n = 0; n < ADDS; n++) {
            htc_kv_request q = { .size = sizeof q, .op = HTC_KV_ADD, .key = bytes_of(key), .delta = 1 };
            htc_status     status = htc_store_submit(store[i], &q, 1, (uint64_t)n);
            NEED(status == HTC_OK, "submit: %s", htc_strerror(status));
        }
    }
    uint8_t seen[ADDERS * ADDS + 1] = { 0 };
    for (int n = 0; n < ADDS; n++) {
        for (int i = 0; i < adders; i++) {
            htc_kv_result r = { .size = sizeof r };
            htc_status    status = next(store[i], &r);
            NEED(status == HTC_OK && r.status == HTC_OK, "add: %s, %s", htc_strerror(status), htc_strerror(r.status));
            NEED(r.tag == (uint64_t)n, "the changes of one key are answered out of order");
            NEED(r.number >= 1 && r.number <= adders * ADDS && !seen[r.number], "%lld twice", (long long)r.number);
            seen[r.number] = 1;
        }
    }
    htc_kv_result none = { .size = sizeof none };
    NEED(next(store[0], &none) == HTC_EMPTY, "an answer to nothing");
    for (int i = 0; i < adders; i++)
        htc_store_close(store[i]);
}

/* A batch of keys in one submit, read back in one. */
static void batches(void)
{
    enum { N = 100 };
    htc_store     *store = open_one();
    htc_kv_request q[N];
    char           key[N][64];
    uint8_t        got[N] = { 0 };
    for (int i = 0; i < N; i++) {
        snprintf(key[i], sizeof key[i], "%llx/batch/%03d", (unsigned long long)seed, i);
        q[i] = REQUEST(.op = HTC_KV_PUT, .key = bytes_of(key[i]), .value = bytes_of(key[i]));
    }
    for (int round = 0; round < 2; round++) {
        NEED(htc_store_submit(store, q, N, 9) == HTC_OK, "submit");
        for (int i = 0; i < N; i++) {
            htc_kv_result r = { .size = sizeof r };
            NEED(next(store, &r) == HTC_OK && r.status == HTC_OK && r.tag == 9 && r.index < N,
                 "next");
            NEED(got[r.index]++ == round, "answered twice");
            NEED((r.last != 0) == (i == N - 1), "which answer is the last");
            NEED(round == 0 || htc_bytes_equal(r.value, bytes_of(key[r.index])), "another value");
        }
        for (int i = 0; i < N; i++)
            q[i] = REQUEST(.op = HTC_KV_GET, .key = bytes_of(key[i]));
    }
    htc_store_close(store);
}

/* What was there before; the answer to a request that was sent again does not have it. */
static int shows_old(const htc_kv_result *r, const char *old)
{
    return (r->existed && htc_bytes_equal(r->value, bytes_of(old))) || (late && !r->existed && !r->value.len);
}

/* Puts that ask for a key, or for none, and what was there before. */
static void conditions(void)
{
    htc_store     *store = open_one();
    char           name[64];
    htc_kv_result  r = { .size = sizeof r };
    htc_kv_request q = { .size = sizeof q, .op = HTC_KV_PUT, .value = bytes_of("one") };
    snprintf(name, sizeof name, "%llx/conditions", (unsigned long long)seed);
    q.key = bytes_of(name);
    q.flags = HTC_KV_XX;
    r = ask(store, q);
    NEED(r.status == HTC_ENOTFOUND, "XX on nothing: %s", htc_strerror(r.status));
    q.flags = HTC_KV_NX | HTC_KV_WANT_OLD;
    r = ask(store, q);
    NEED(r.status == HTC_OK && !r.existed && r.value.len == 0, "NX on nothing: %s", htc_strerror(r.status));
    uint64_t version = r.version;
    q.value = bytes_of("two");
    r = ask(store, q);
    NEED(r.status == HTC_MISMATCH && r.version == version && htc_bytes_equal(r.value, bytes_of("one")),
         "NX on something: %s", htc_strerror(r.status));
    q.flags = HTC_KV_XX | HTC_KV_WANT_OLD;
    r = ask(store, q);
    NEED(r.status == HTC_OK && r.version > version && shows_old(&r, "one"),
         "XX on something: %s", htc_strerror(r.status));
    version = r.version;
    q = REQUEST(.op = HTC_KV_DELETE, .key = bytes_of(name), .flags = HTC_KV_IF_VERSION, .version = version + 1);
    r = ask(store, q);
    NEED(r.status == HTC_MISMATCH && r.version == version && htc_bytes_equal(r.value, bytes_of("two")), "delete of another version: %s", htc_strerror(r.status));
    q.version = version;
    r = ask(store, q);
    NEED(r.status == HTC_OK || (late && r.status == HTC_MISMATCH && r.version == 0), "delete of this version: %s", htc_strerror(r.status));
    r = ask(store, q);
    NEED(r.status == HTC_MISMATCH && r.version == 0, "delete of a version that is gone: %s", htc_strerror(r.status));
    ask(store, REQUEST(.op = HTC_KV_PUT, .key = bytes_of(name), .value = bytes_of("two")));
    q = REQUEST(.op = HTC_KV_DELETE, .key = bytes_of(name), .flags = HTC_KV_WANT_OLD);
    r = ask(store, q);
    NEED(r.status == HTC_OK && shows_old(&r, "two"), "delete: %s", htc_strerror(r.status));
    r = ask(store, q);
    NEED(r.status == HTC_ENOTFOUND && !r.existed, "deleted twice: %s", htc_strerror(r.status));
    htc_store_close(store);
}

/* ---- scans ---- */

static void scans(void)
{
    enum { N = 25 };
    htc_store *store = open_one();
    char       key[80], prefix[64], cursor[512] = "", last[64] = "";
    int        ordered = (htc_store_can(store) & HTC_STORE_ORDERED_SCAN) != 0, found = 0;
    size_t     cursor_len = 0;
    snprintf(prefix, sizeof prefix, "%llx/scan/", (unsigned long long)seed);
    for (int i = 0; i < N; i++) {
        snprintf(key, sizeof key, "%s%02d", prefix, (i * 7) % N);
        ask(store, REQUEST(.op = HTC_KV_PUT, .key = bytes_of(key), .value = bytes_of(key)));
    }
    snprintf(key, sizeof key, "%s%02d", prefix, 4);
    ask(store, REQUEST(.op = HTC_KV_DELETE, .key = bytes_of(key)));
    snprintf(key, sizeof key, "%llx/scan0", (unsigned long long)seed); /* behind the prefix */
    ask(store, REQUEST(.op = HTC_KV_PUT, .key = bytes_of(key), .value = bytes_of("x")));
    uint8_t seen[N] = { 0 };
    do {
        htc_kv_result r = ask(
            store, REQUEST(.op = HTC_KV_SCAN, .key = bytes_of(prefix), .limit = 4, .cursor = { cursor, cursor_len }));
        size_t      at = 0;
        htc_kv_item item;
        NEED(r.status == HTC_OK && r.items <= 4, "scan: %s, %u items", htc_strerror(r.status), r.items);
        while (htc_kv_result_item(&r, &at, &item) == HTC_OK) {
            NEED(item.key.len == strlen(prefix) + 2 && memcmp(item.key.data, prefix, strlen(prefix)) == 0,
                 "a strange key");
            NEED(htc_bytes_equal(item.key, item.value) && item.version > 0, "another value");
            NEED(!ordered || htc_bytes_compare(item.key, bytes_of(last)) > 0, "out of order");
            snprintf(last, sizeof last, "%.*s", (int)item.key.len, (const char *)item.key.data);
            int i = atoi(last + strlen(prefix));
            NEED(i >= 0 && i < N && !seen[i] && i != 4, "key %d", i);
            seen[i] = 1;
            found++;
        }
        NEED(r.cursor.len <= sizeof cursor, "a long cursor");
        cursor_len = r.cursor.len;
        memcpy(cursor, r.cursor.len ? r.cursor.data : "", cursor_len);
    } while (cursor_len);
    NEED(found == N - 1, "%d of %d keys", found, N - 1);
    htc_store_close(store);
}

/* ---- leases ---- */

#define TERM (2 * HTC_SECOND)

/* Whether a lease may have ended that was granted or renewed by what was sent at that time. */
static int may_have_ended(htc_ns sent)
{
    return htc_host_now() - sent >= TERM * 995 / 1000;
}

/* A lease that a key is bound to, renewed for twice its term: the key stays, and is seen by others. 0: this machine let more than a
 * term pass between two renewals, so that the lease has ended. */
static uint64_t renewed(htc_store *store, htc_store *other, const char *key, uint64_t *version)
{
    htc_ns        begun = htc_host_now(), sent = begun, at;
    htc_kv_result r = ask(store, REQUEST(.op = HTC_KV_LEASE_GRANT, .ttl = TERM));
    NEED(r.status == HTC_OK && r.lease, "grant: %s", htc_strerror(r.status));
    uint64_t lease = r.lease;
    r = ask(store, REQUEST(.op = HTC_KV_PUT, .key = bytes_of(key), .value = bytes_of("v"), .lease = lease));
    if (r.status == HTC_ENOTFOUND && may_have_ended(sent))
        return 0;
    NEED(r.status == HTC_OK, "a bound put: %s", htc_strerror(r.status));
    *version = r.version;
    for (; (at = htc_host_now()) - begun < 2 * TERM; usleep(200000)) {
        r = ask(store, REQUEST(.op = HTC_KV_LEASE_RENEW, .lease = lease));
        if (r.status == HTC_ENOTFOUND && may_have_ended(sent))
            return 0;
        NEED(r.status == HTC_OK, "renew: %s", htc_strerror(r.status));
        sent = at;
        r = ask(other, REQUEST(.op = HTC_KV_GET, .key = bytes_of(key)));
        if (!may_have_ended(sent))
            NEED(r.status == HTC_OK && r.version == *version, "gone before its term: %s", htc_strerror(r.status));
    }
    return lease;
}

static void leases(void)
{
    htc_store *store = open_one(), *other = open_other(store);
    char       key[64], free_key[64];
    uint64_t   lease = 0, version = 0;
    snprintf(key, sizeof key, "%llx/leased", (unsigned long long)seed);
    snprintf(free_key, sizeof free_key, "%llx/free", (unsigned long long)seed);
    htc_kv_result r = { .size = sizeof r };
    if (!(htc_store_can(store) & HTC_STORE_LEASES)) {
        r = ask(store, REQUEST(.op = HTC_KV_LEASE_GRANT, .ttl = TERM));
        NEED(r.status == HTC_EUNSUPPORTED, "a lease: %s", htc_strerror(r.status));
        goto out;
    }
    while (!lease)
        lease = renewed(store, other, key, &version);
    /* Not renewed: it goes. How long that may take is the store's to say; a minute is beyond all. */
    htc_ns end = htc_host_now() + 60 * HTC_SECOND;
    while ((r = ask(other, REQUEST(.op = HTC_KV_GET, .key = bytes_of(key)))).status == HTC_OK) {
        NEED(htc_host_now() < end, "a key outlives its lease");
        usleep(20000);
    }
    NEED(r.status == HTC_ENOTFOUND, "get: %s", htc_strerror(r.status));
    r = ask(store, REQUEST(.op = HTC_KV_LEASE_RENEW, .lease = lease));
    NEED(r.status == HTC_ENOTFOUND, "a lease that has ended is renewed: %s", htc_strerror(r.status));
    r = ask(store, REQUEST(.op = HTC_KV_PUT, .key = bytes_of(free_key), .value = bytes_of("v"), .lease = lease));
    NEED(r.status == HTC_ENOTFOUND, "bound to a lease that has ended: %s", htc_strerror(r.status));
    r = ask(store, REQUEST(.op = HTC_KV_PUT, .key = bytes_of(key), .value = bytes_of("again")));
    NEED(r.status == HTC_OK && r.version > version, "a version came back after a lease: %llu",
         (unsigned long long)r.version);
    /* Revoked: what hangs on it, also after a compare-and-swap, is gone with the answer; what no longer hangs on it stays. */
    r = ask(store, REQUEST(.op = HTC_KV_LEASE_GRANT, .ttl = 60 * HTC_SECOND));
    lease = r.lease;
    ask(store, REQUEST(.op = HTC_KV_PUT, .key = bytes_of(key), .value = bytes_of("v"), .lease = lease));
    r = ask(store,
            REQUEST(.op = HTC_KV_CAS_VALUE, .key = bytes_of(key), .seen = bytes_of("v"), .value = bytes_of("1")));
    r = ask(store, REQUEST(.op = HTC_KV_ADD, .key = bytes_of(key), .delta = 1));
    NEED(r.status == HTC_OK && r.number == 2, "changes of what is bound: %s", htc_strerror(r.status));
    ask(store, REQUEST(.op = HTC_KV_PUT, .key = bytes_of(free_key), .value = bytes_of("v"), .lease = lease));
    ask(store, REQUEST(.op = HTC_KV_PUT, .key = bytes_of(free_key), .value = bytes_of("w")));
    r = ask(other, REQUEST(.op = HTC_KV_LEASE_REVOKE, .lease = lease));
    NEED(r.status == HTC_OK || (late && r.status == HTC_EUNKNOWN), "revoke: %s", htc_strerror(r.status));
    r = ask(store, REQUEST(.op = HTC_KV_GET, .key = bytes_of(key)));
    NEED(r.status == HTC_ENOTFOUND, "it outlives its revoked lease: %s", htc_strerror(r.status));
    r = ask(store, REQUEST(.op = HTC_KV_GET, .key = bytes_of(free_key)));
    NEED(r.status == HTC_OK, "set free, and gone with the lease: %s", htc_strerror(r.status));
    r = ask(store, REQUEST(.op = HTC_KV_LEASE_REVOKE, .lease = lease));
    NEED(r.status == HTC_ENOTFOUND || (late && r.status == HTC_EUNKNOWN), "revoked twice: %s", htc_strerror(r.status));
out:
    close_both(store, other);
}

/* ---- wrong requests ---- */

static void wrong(void)
{
    htc_store     *store = open_one();
    char           long_key[HTC_KV_KEY_MAX + 1];
    htc_kv_result  r = { .size = sizeof r };
    htc_kv_request none = { .size = sizeof none, .op = 99 }, long_one = { .size = sizeof(htc_kv_request), .op = HTC_KV_GET, .key = { long_key, sizeof long_key } };
    htc_kv_request empty = { .size = sizeof empty, .op = HTC_KV_GET };
    memset(long_key, 'k', sizeof long_key);
    NEED(htc_store_submit(store, &none, 1, 0) < 0, "an unknown operation is taken");
    NEED(htc_store_submit(store, &long_one, 1, 0) < 0, "a key of 401 bytes is taken");
    NEED(htc_store_submit(store, &empty, 1, 0) < 0, "a key of no bytes is taken");
    NEED(htc_store_submit(store, &empty, 0, 0) == HTC_EINVAL, "no request is taken");
    NEED(htc_store_next(store, 0, &r) == HTC_EMPTY, "an answer to nothing");
    long_one.key.len--;
    r = ask(store, long_one);
    NEED(r.status == HTC_ENOTFOUND, "a key of 400 bytes: %s", htc_strerror(r.status));
    /* Bytes are bytes: zeros, what is no text, nothing. */
    static const uint8_t odd[] = { 0, 255, '\n', 0, '"', 0x80 };
    htc_bytes            key = { odd, sizeof odd };
    r = ask(store, REQUEST(.op = HTC_KV_PUT, .key = key, .value = key));
    NEED(r.status == HTC_OK, "put: %s", htc_strerror(r.status));
    r = ask(store, REQUEST(.op = HTC_KV_GET, .key = key));
    NEED(r.status == HTC_OK && htc_bytes_equal(r.value, key), "other bytes came back");
    r = ask(store, REQUEST(.op = HTC_KV_PUT, .key = key));
    r = ask(store, REQUEST(.op = HTC_KV_GET, .key = key));
    NEED(r.status == HTC_OK && r.value.len == 0, "an empty value: %s", htc_strerror(r.status));
    ask(store, REQUEST(.op = HTC_KV_DELETE, .key = key));
    /* As much as it says it takes. */
    size_t big_len = htc_store_can(store) & HTC_STORE_LARGE_VALUES ? HTC_KV_VALUE_MAX : (size_t)1 << 20;
    big_len = big_len < value_max ? big_len : value_max;
    uint8_t *big = malloc(big_len);
    NEED(big, "memory");
    memset(big, 7, big_len);
    r = ask(store, REQUEST(.op = HTC_KV_PUT, .key = key, .value = { big, big_len }));
    NEED(r.status == HTC_OK, "%zu bytes: %s", big_len, htc_strerror(r.status));
    r = ask(store, REQUEST(.op = HTC_KV_GET, .key = key));
    NEED(r.status == HTC_OK && r.value.len == big_len && memcmp(r.value.data, big, big_len) == 0, "%zu bytes", big_len);
    ask(store, REQUEST(.op = HTC_KV_DELETE, .key = key));
    free(big);
    htc_store_close(store);
}

int main(int argc, char **argv)
{
    uint64_t steps = 2000;
    int      c;
    htc_host_random(&seed, sizeof seed);
    while ((c = getopt(argc, argv, "s:n:v:bp")) > 0) {
        if (c == 's')
            seed = strtoull(optarg, NULL, 0);
        else if (c == 'n')
            steps = strtoull(optarg, NULL, 0);
        else if (c == 'v')
            value_max = strtoull(optarg, NULL, 0);
        else if (c == 'b')
            breaks = 1;
        else if (c == 'p')
            polls = 1;
        else
            return 2;
    }
    if (optind + 1 != argc)
        return 2;
    address = argv[optind];
    printf("%s: seed %llu\n", address, (unsigned long long)seed);
    random_requests(steps);
    if (!breaks || !unknown)
        counters();
    if (breaks) {
        printf("%s: ok, with breaking connections; %llu changes looked up\n", address, (unsigned long long)unknown);
        return 0;
    }
    batches();
    conditions();
    scans();
    leases();
    wrong();
    printf("%s: ok\n", address);
    if (polls)
        printf("%s: %llu turns of the loop\n", address, (unsigned long long)turns);
    return 0;
}
