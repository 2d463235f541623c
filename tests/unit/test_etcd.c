/* The etcd adapter without a socket: requests as they are written, answers of every kind, and random requests against an etcd of
 * the test's own while answers are lost and others write. */
#include "expect.h"

#include "core/fault.h"
#include "etcd_fake.h"
#include "htcsched/host.h"
#include "net/remote/etcd.h"
#include "property.h"

/* ---- requests ---- */

static void is_written(const char *path, const char *wanted_path, htc_buf *b, const char *wanted)
{
    htc_put_u8(b, 0);
    cr_expect(eq(str, (char *)path, (char *)wanted_path));
    cr_expect(eq(str, (char *)b->data, (char *)wanted));
    htc_buf_clear(b);
}

Test(etcd, requests)
{
    htc_buf   b;
    htc_bytes k = htc_bytes_of("k"), v = htc_bytes_of("v");
    htc_buf_init(&b, NULL, 0);
    is_written(htc__etcd_write_get(&b, "p/", k), "/v3/kv/range", &b, "{\"key\":\"cC9r\"}");
    is_written(htc__etcd_write_count(&b, "p/"), "/v3/kv/range", &b,
               "{\"key\":\"cC8A\",\"range_end\":\"cDA=\",\"count_only\":true}");
    is_written(htc__etcd_write_page(&b, "p/", k, (htc_bytes){ NULL, 0 }, 7), "/v3/kv/range", &b,
               "{\"key\":\"cC9r\",\"range_end\":\"cC9s\",\"limit\":\"7\"}");
    is_written(htc__etcd_write_page(&b, "p/", k, htc_bytes_of("kk"), 7), "/v3/kv/range", &b,
               "{\"key\":\"cC9rawA=\",\"range_end\":\"cC9s\",\"limit\":\"7\"}");
    /* Behind 0xff comes the successor of what stands before it. */
    is_written(htc__etcd_write_page(&b, "p/", htc_bytes_of("\xff\xff"), (htc_bytes){ NULL, 0 }, 1), "/v3/kv/range", &b,
               "{\"key\":\"cC///w==\",\"range_end\":\"cDA=\",\"limit\":\"1\"}");
    is_written(htc__etcd_write_put(&b, "p/", &(htc__etcd_put){ .key = k, .value = v, .lease = 5, .want_old = 1 }),
               "/v3/kv/put", &b, "{\"key\":\"cC9r\",\"value\":\"dg==\",\"lease\":\"5\",\"prev_kv\":true}");
    is_written(htc__etcd_write_put(
                   &b, "p/",
                   &(htc__etcd_put){ .when = HTC__ETCD_VERSION, .version = 9, .key = k, .value = v, .keep_lease = 1 }),
               "/v3/kv/txn", &b,
               "{\"compare\":[{\"key\":\"cC9r\",\"target\":\"MOD\",\"result\":\"EQUAL\",\"mod_revision\":\"9\"}],"
               "\"success\":[{\"request_put\":{\"key\":\"cC9r\",\"value\":\"dg==\",\"ignore_lease\":true}}],"
               "\"failure\":[{\"request_range\":{\"key\":\"cC9r\"}}]}");
    is_written(htc__etcd_write_put(&b, "p/", &(htc__etcd_put){ .when = HTC__ETCD_VALUE, .seen = k, .key = k }),
               "/v3/kv/txn", &b,
               "{\"compare\":[{\"key\":\"cC9r\",\"target\":\"VALUE\",\"result\":\"EQUAL\",\"value\":\"aw==\"}],"
               "\"success\":[{\"request_put\":{\"key\":\"cC9r\",\"value\":\"\"}}],"
               "\"failure\":[{\"request_range\":{\"key\":\"cC9r\"}}]}");
    is_written(htc__etcd_write_delete_if(&b, "p/", k, 7), "/v3/kv/txn", &b,
               "{\"compare\":[{\"key\":\"cC9r\",\"target\":\"MOD\",\"result\":\"EQUAL\",\"mod_revision\":\"7\"}],\"success\":[{\"request_delete_range\":{\"key\":\"cC9r\"}}],"
               "\"failure\":[{\"request_range\":{\"key\":\"cC9r\"}}]}");
    is_written(htc__etcd_write_delete(&b, "p/", k, 1), "/v3/kv/deleterange", &b, "{\"key\":\"cC9r\",\"prev_kv\":true}");
    is_written(htc__etcd_write_grant(&b, HTC_SECOND + 1), "/v3/lease/grant", &b, "{\"TTL\":\"2\"}");
    is_written(htc__etcd_write_renew(&b, 3), "/v3/lease/keepalive", &b, "{\"ID\":\"3\"}");
    is_written(htc__etcd_write_revoke(&b, 3), "/v3/lease/revoke", &b, "{\"ID\":\"3\"}");
    htc_buf_free(&b);
}

/* A cursor as long as a key can be: nothing of ours begins with it and is longer, and what is not ours is stepped over. */
Test(etcd, a_page_steps_over_what_is_not_ours)
{
    htc_buf b;
    uint8_t cursor[HTC_KV_KEY_MAX];
    htc_buf_init(&b, NULL, 0);
    memset(cursor, 'x', sizeof cursor);
    htc__etcd_write_page(&b, "p/", (htc_bytes){ NULL, 0 }, (htc_bytes){ cursor, sizeof cursor }, 1);
    json_t *q = json_loadb((const char *)b.data, b.len, 0, NULL);
    char    from[512];
    cr_assert(ne(ptr, q, NULL));
    cr_expect(eq(sz, fake_bytes(q, "key", from, sizeof from), 2 + sizeof cursor));
    cr_expect(eq(int, from[2 + sizeof cursor - 1], 'y'));
    json_decref(q);
    htc_buf_free(&b);
}

/* ---- answers ---- */

static htc_status read_text(int http, const char *text, htc__etcd_answer *answer, htc_buf *kept)
{
    return htc__etcd_read("p/", http, (htc_bytes){ text, strlen(text) }, kept, answer);
}

#define HEAD "\"header\":{\"revision\":\"7\"}"

Test(etcd, answers_that_are_none)
{
    static const char *const rows[] = {
        "",
        "x",
        "[]",
        "1",
        "{}",
        "{" HEAD "} {",
        "{\"header\":{}}",
        "{\"header\":{\"revision\":\"0\"}}",
        "{\"header\":{\"revision\":\"-7\"}}",
        "{\"header\":{\"revision\":\"7x\"}}",
        "{\"header\":{\"revision\":\"\"}}",
        "{\"header\":{\"revision\":\"9223372036854775808\"}}",
        "{\"header\":{\"revision\":\"99999999999999999999\"}}",
        "{\"header\":{\"revision\":7.5}}",
        "{" HEAD ",\"deleted\":true}",
        "{" HEAD "," HEAD "}",
        "{" HEAD ",\"kvs\":[7]}",
        "{" HEAD ",\"kvs\":[{}]}",
        "{" HEAD ",\"kvs\":[{\"key\":\"cC9r\"}]}",
        "{" HEAD ",\"kvs\":[{\"key\":\"cC9\",\"mod_revision\":\"1\"}]}",
        "{" HEAD ",\"kvs\":[{\"key\":\"cC9r\",\"mod_revision\":\"8\"}]}",
        "{" HEAD ",\"kvs\":[{\"key\":\"cA==\",\"mod_revision\":\"1\"}]}",
        "{" HEAD ",\"kvs\":[{\"key\":\"cS9r\",\"mod_revision\":\"1\"}]}",
        "{" HEAD ",\"kvs\":[{\"key\":\"cC9r\",\"mod_revision\":\"1\",\"value\":\"!\"}]}",
        "{" HEAD ",\"kvs\":[{\"key\":\"cC9r\",\"mod_revision\":\"1\",\"value\":7}]}",
        "{\"error\":7}",
        "{\"error\":\"text\"}",
        "{\"error\":\"text\",\"code\":0}",
        "{\"error\":\"text\",\"code\":17}",
    };
    htc_buf          kept;
    htc__etcd_answer answer;
    htc_buf_init(&kept, NULL, 0);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        cr_expect(eq(int, read_text(200, rows[i], &answer, &kept), HTC_EPROTO), "%s", rows[i]);
    cr_expect(eq(int, read_text(404, "{" HEAD "}", &answer, &kept), HTC_EPROTO));
    htc_buf_free(&kept);
}

Test(etcd, answers)
{
    htc_buf          kept;
    htc__etcd_answer a;
    htc_kv_item      item;
    size_t           at = 0;
    htc_buf_init(&kept, NULL, 0);
    cr_assert(eq(int,
                 read_text(200,
                           "{" HEAD ",\"succeeded\":true,\"responses\":[{\"response_put\":{\"prev_kv\":"
                           "{\"key\":\"cC9r\",\"mod_revision\":5,\"value\":\"dmFs\"}}}]}",
                           &a, &kept),
                 HTC_OK));
    cr_expect(a.succeeded && a.revision == 7 && a.items == 1 && a.code == 0);
    htc_kv_result r = { .size = sizeof r, .items = a.items, .items_bytes = a.items_bytes };
    cr_expect(eq(int, htc_kv_result_item(&r, &at, &item), HTC_OK));
    cr_expect(htc_bytes_equal(item.key, htc_bytes_of("k")) && htc_bytes_equal(item.value, htc_bytes_of("val")));
    cr_expect(eq(u64, item.version, 5));
    cr_assert(eq(int, read_text(200, "{\"result\":{" HEAD ",\"ID\":\"12\",\"TTL\":\"3\"}}", &a, &kept), HTC_OK));
    cr_expect(a.id == 12 && a.ttl == 3);
    cr_assert(
        eq(int, read_text(404, "{\"error\":\"etcdserver: requested lease not found\",\"code\":5}", &a, &kept), HTC_OK));
    cr_expect(eq(int, a.code, 5));
    /* A stream's refusal has another shape; what it says is made printable. */
    cr_assert(
        eq(int, read_text(200, "{\"error\":{\"grpc_code\":14,\"message\":\"no\\u0007leader\"}}", &a, &kept), HTC_OK));
    cr_expect(eq(int, a.code, 14));
    cr_expect(eq(str, a.text, "no leader"));
    htc_buf_free(&kept);
}

Test(etcd, answers_that_are_too_large)
{
    size_t           len = 2 * HTC__ETCD_NODES_MAX + 8;
    char            *text = malloc(len + 1);
    htc_buf          kept;
    htc__etcd_answer a;
    cr_assert(ne(ptr, text, NULL));
    htc_buf_init(&kept, NULL, 0);
    for (size_t i = 0; i < len; i++)
        text[i] = i % 2 ? ',' : '1';
    text[0] = '[';
    text[len] = 0;
    cr_expect(eq(int, read_text(200, text, &a, &kept), HTC_ETOOBIG));
    cr_expect(eq(int, htc__etcd_read("p/", 200, (htc_bytes){ text, HTC__ETCD_BODY_MAX + 1 }, &kept, &a), HTC_ETOOBIG));
    free(text);
    htc_buf_free(&kept);
}

Test(etcd, refusals)
{
    static const struct {
        const char *text;
        int         code, done;
        htc_status  status;
    } rows[] = {
        { "etcdserver: requested lease not found", 5, 0, HTC_ENOTFOUND },
        { "etcdserver: request is too large", 3, 0, HTC_ETOOBIG },
        { "etcdserver: user name is empty", 3, 0, HTC_EDENIED },
        { "etcdserver: permission denied", 7, 0, HTC_EDENIED },
        { "etcdserver: mvcc: database space exceeded", 8, 0, HTC_ENOSPC },
        { "etcdserver: too many requests", 8, 0, HTC_AGAIN },
        { "grpc: received message larger than max (5 vs. 4)", 8, 1, HTC_ETOOBIG },
        { "etcdserver: no leader", 14, 0, HTC_AGAIN },
        { "etcdserver: request timed out", 14, 1, HTC_AGAIN },
        { "etcdserver: leader changed", 14, 1, HTC_AGAIN },
        { "context deadline exceeded", 4, 1, HTC_AGAIN },
        { "etcdserver: too large lease TTL", 11, 0, HTC_EINVAL },
        { "something new", 13, 1, HTC_ESTORE },
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        htc__etcd_answer a = { .code = rows[i].code };
        int              done = 2;
        snprintf(a.text, sizeof a.text, "%s", rows[i].text);
        cr_expect(eq(int, htc__etcd_meaning(&a, &done), rows[i].status), "%s", rows[i].text);
        cr_expect(eq(int, done, rows[i].done), "%s", rows[i].text);
    }
}

/* ---- requests and their answers ---- */

static void words_init(htc__etcd_words *w)
{
    *w = (htc__etcd_words){ .env = { .size = sizeof(htc_env) }, .prefix = "p/" };
    htc__window_init(&w->window, &w->env, 1, HTC_NEVER);
    htc_buf_init(&w->kept, NULL, 0);
    htc_buf_init(&w->scratch, NULL, 0);
}

static void words_free(htc__etcd_words *w)
{
    htc__window_free(&w->window);
    htc_buf_free(&w->kept);
    htc_buf_free(&w->scratch);
}

static htc__ask *submitted(htc__etcd_words *w, const htc_kv_request *q)
{
    cr_assert(eq(int, htc__window_submit(&w->window, q, 1, 0), HTC_OK));
    htc__ask *ask = htc__window_start(&w->window);
    cr_assert(ne(ptr, ask, NULL));
    return ask;
}

static htc__etcd_next hears(htc__etcd_words *w, htc__ask *ask, int http, const char *text)
{
    htc__etcd_next next = HTC__ETCD_LATER;
    const char    *path = NULL;
    htc_buf        body;
    htc_buf_init(&body, NULL, 0);
    cr_assert(eq(int, htc__etcd_say(w, ask, &body, &path), HTC_OK));
    cr_assert(ne(ptr, (void *)path, NULL));
    cr_assert(eq(int, htc__etcd_heard(w, ask, http, (htc_bytes){ text, strlen(text) }, &next), HTC_OK));
    htc_buf_free(&body);
    return next;
}

static htc_kv_result answer_of(htc__etcd_words *w)
{
    htc_kv_result r = { .size = sizeof r };
    cr_assert(eq(int, htc__window_next(&w->window, &r), 1));
    return r;
}

#define KV(key) "{\"key\":\"" key "\",\"mod_revision\":\"2\"}"

Test(etcd, pages)
{
    static const struct {
        const char *text;
        htc_status  status;
        uint32_t    items;
        const char *cursor;
    } rows[] = {
        { "{" HEAD ",\"kvs\":[" KV("cC9hYg==") "," KV("cC9hYw==") "]}", HTC_OK, 2, "" },
        { "{" HEAD ",\"more\":true,\"kvs\":[" KV("cC9hYg==") "," KV("cC9hYw==") "]}", HTC_OK, 2, "ac" },
        { "{" HEAD "}", HTC_OK, 0, "" },
        { "{" HEAD ",\"more\":true}", HTC_EPROTO, 0, "" },                                   /* no way on */
        { "{" HEAD ",\"kvs\":[" KV("cC9hYw==") "," KV("cC9hYg==") "]}", HTC_EPROTO, 0, "" }, /* backwards */
        { "{" HEAD ",\"kvs\":[" KV("cC9i") "]}", HTC_EPROTO, 0, "" },                        /* of another prefix */
        { "{" HEAD ",\"kvs\":[" KV("cC9hYQ==") "]}", HTC_EPROTO, 0, "" },                    /* seen already */
        { "{" HEAD ",\"kvs\":[" KV("cC9hYg==") "," KV("cC9hYw==") "," KV("cC9hZA==") "]}", HTC_EPROTO, 0, "" },
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        htc__etcd_words w;
        htc_kv_request  q = { .size = sizeof q, .op = HTC_KV_SCAN, .key = htc_bytes_of("a"), .cursor = htc_bytes_of("aa"), .limit = 2 };
        words_init(&w);
        cr_expect(eq(int, hears(&w, submitted(&w, &q), 200, rows[i].text), HTC__ETCD_ANSWERED));
        htc_kv_result r = answer_of(&w);
        cr_expect(eq(int, r.status, rows[i].status), "row %zu", i);
        cr_expect(eq(u32, r.items, rows[i].items), "row %zu", i);
        cr_expect(htc_bytes_equal(r.cursor, htc_bytes_of(rows[i].cursor)), "row %zu", i);
        words_free(&w);
    }
}

/* What does not fit into one answer is asked for by halves, down to one record. */
Test(etcd, a_page_that_is_too_large_is_halved)
{
    static const char too_large[] = "{\"error\":\"grpc: received message larger than max (9 vs. 4)\",\"code\":8}";
    htc__etcd_words   w;
    htc_kv_request    q = { .size = sizeof q, .op = HTC_KV_SCAN, .limit = 4 };
    words_init(&w);
    htc__ask *ask = submitted(&w, &q);
    cr_expect(eq(int, hears(&w, ask, 429, too_large), HTC__ETCD_SEND));
    cr_expect(eq(u64, ask->number, 2));
    cr_expect(eq(int, hears(&w, ask, 429, too_large), HTC__ETCD_SEND));
    cr_expect(eq(int, hears(&w, ask, 429, too_large), HTC__ETCD_ANSWERED));
    cr_expect(eq(int, answer_of(&w).status, HTC_ETOOBIG));
    words_free(&w);
}

Test(etcd, who_is_always_beaten_gives_up)
{
    static const char shown[] = "{" HEAD ",\"responses\":[{\"response_range\":{\"kvs\":[" KV("cC9r") "]}}]}";
    htc__etcd_words   w;
    htc_kv_request    q = { .size = sizeof q, .op = HTC_KV_APPEND, .key = htc_bytes_of("k"), .value = htc_bytes_of("v") };
    words_init(&w);
    htc__ask *ask = submitted(&w, &q);
    unsigned  tries = 1;
    while (hears(&w, ask, 200, shown) == HTC__ETCD_SEND)
        tries++;
    cr_expect(eq(u32, tries, HTC__ETCD_TRIES_MAX + 1));
    cr_expect(eq(int, answer_of(&w).status, HTC_EBUSY));
    words_free(&w);
}

Test(etcd, what_it_cannot_do)
{
    static const htc_kv_request rows[] = {
        { .size = sizeof(htc_kv_request), .op = HTC_KV_PUT, .ttl = HTC_SECOND },
        { .size = sizeof(htc_kv_request), .op = HTC_KV_PUT, .flags = HTC_KV_KEEP_TTL },
        { .size = sizeof(htc_kv_request), .op = HTC_KV_CAS_VALUE, .flags = HTC_KV_KEEP_TTL },
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        htc__etcd_words w;
        htc_kv_request  q = rows[i];
        const char     *path = "";
        htc_buf         body;
        htc_buf_init(&body, NULL, 0);
        words_init(&w);
        q.key = htc_bytes_of("k");
        cr_expect(eq(int, htc__etcd_say(&w, submitted(&w, &q), &body, &path), HTC_OK));
        cr_expect(eq(ptr, (void *)path, NULL));
        cr_expect(eq(int, answer_of(&w).status, HTC_EUNSUPPORTED), "row %zu", i);
        words_free(&w);
        htc_buf_free(&body);
    }
}

/* ---- random requests, lost answers, other writers ---- */

typedef struct story {
    fake_etcd       etcd;
    htc__etcd_words words;
    htc_rng         rng;
    htc_kv_request  q;
    fake_record     before, read; /* of the request's key: when the change was made; when it was last asked */
    unsigned        made, ambiguous;
    char            text[32], seen[FAKE_VALUE];
    const char     *wrong;
} story;

static unsigned answered, unknowns, beaten;

static fake_record *record_of(story *s)
{
    char name[64];
    snprintf(name, sizeof name, "p/%.*s", (int)s->q.key.len, (const char *)s->q.key.data);
    return fake_find(&s->etcd, name, strlen(name));
}

static void serve(story *s, const char *path, htc_bytes body)
{
    fake_record before = *record_of(s);
    unsigned    applied = s->etcd.applied;
    fake_serve(&s->etcd, path, body);
    s->read = before;
    if (s->etcd.applied != applied) {
        s->before = before;
        s->made++;
    }
}

/* Somebody else changes the key: also back to what it was. */
static void interfere(story *s)
{
    fake_record *r = record_of(s);
    char         text[32];
    unsigned     applied = s->etcd.applied;
    int          len = snprintf(text, sizeof text, "%d", (int)htc_rng_below(&s->rng, 3));
    if (htc_rng_below(&s->rng, 4) && s->made)
        fake_set(&s->etcd, r, s->before.value, s->before.len, 0);
    else
        fake_set(&s->etcd, r, text, (size_t)len, 0);
    s->etcd.applied = applied;
}

/* One attempt, with whatever may happen to it. */
static htc_status attempt(story *s, htc__ask *ask, const char *path, htc_bytes body, htc__etcd_next *next)
{
    static const char unavailable[] = "{\"error\":\"etcdserver: request timed out\",\"code\":14}";
    static const char no_leader[] = "{\"error\":\"etcdserver: no leader\",\"code\":14}";
    uint64_t          fate = htc_rng_below(&s->rng, 12);
    if (htc_rng_below(&s->rng, 4) == 0)
        interfere(s);
    if (fate == 0)
        return htc__etcd_lost(&s->words, ask, 0, HTC_ECLOSED, next);
    if (fate == 1)
        return htc__etcd_heard(&s->words, ask, 503, htc_bytes_of(no_leader), next);
    if (fate < 8) {
        serve(s, path, body);
        return htc__etcd_heard(&s->words, ask, s->etcd.http, htc_bytes_of(s->etcd.text), next);
    }
    s->ambiguous++;
    if (fate % 2)
        serve(s, path, body);
    return fate < 10 ? htc__etcd_lost(&s->words, ask, 1, HTC_ECLOSED, next)
                     : htc__etcd_heard(&s->words, ask, 503, htc_bytes_of(unavailable), next);
}

/* What the change had to make of the record; 0: it had no business making one. */
static int model(const story *s, const fake_record *from, char *value, size_t *len)
{
    const htc_kv_request *q = &s->q;
    memcpy(value, q->value.data ? q->value.data : "", q->value.len);
    *len = q->value.len;
    switch (q->op) {
    case HTC_KV_PUT:
        return q->flags & HTC_KV_NX ? from->mod == 0 : q->flags & HTC_KV_XX ? from->mod != 0 : 1;
    case HTC_KV_CAS_VERSION:
        return from->mod == q->version;
    case HTC_KV_CAS_VALUE:
        return from->mod && htc_bytes_equal((htc_bytes){ from->value, from->len }, q->seen);
    case HTC_KV_APPEND:
        memcpy(value, from->value, from->mod ? from->len : 0);
        memcpy(value + (from->mod ? from->len : 0), q->value.data, q->value.len);
        *len = (from->mod ? from->len : 0) + q->value.len;
        return 1;
    case HTC_KV_ADD:
        *len = (size_t)sprintf(value, "%lld", (from->mod ? strtoll(from->value, NULL, 10) : 0) + (long long)q->delta);
        return 1;
    default:
        return from->mod != 0;
    }
}

static const char *judge(story *s, const htc_kv_result *r)
{
    char         value[2 * FAKE_VALUE];
    size_t       len;
    int          change = s->q.op != HTC_KV_GET;
    fake_record *now = record_of(s);
    if (r->status == HTC_EUNKNOWN) {
        unknowns++;
        return !change || !s->ambiguous ? "unknown without a reason" : s->made > 1 ? "made twice" : NULL;
    }
    answered++;
    if (change && r->status == HTC_OK) {
        if (s->made != 1)
            return s->made ? "made twice" : "answered, and not made";
        if (!model(s, &s->before, value, &len))
            return "made against its condition";
        if (s->q.op != HTC_KV_DELETE && r->version < s->before.mod)
            return "a version below";
        if (now->mod == r->version && (now->len != len || memcmp(now->value, value, len) != 0))
            return "another value was made";
        return NULL;
    }
    if (s->made)
        return "made, and denied";
    if (r->status == HTC_MISMATCH &&
        (r->version != s->read.mod ||
         (s->read.mod && (r->value.len != s->read.len ||
                          memcmp(r->value.data ? r->value.data : "", s->read.value, s->read.len) != 0))))
        return "another record is shown";
    if (change && r->status == HTC_MISMATCH && model(s, &s->read, value, &len))
        return "a mismatch where there is none";
    if (!change && (r->status == HTC_OK) != (s->read.mod != 0))
        return "another record is read";
    return r->status == HTC_OK || r->status == HTC_ENOTFOUND || r->status == HTC_MISMATCH || r->status == HTC_EINVAL
               ? NULL
               : "an answer that nothing called for";
}

static void draw(story *s)
{
    static const uint32_t    ops[] = { HTC_KV_GET,         HTC_KV_PUT,       HTC_KV_DELETE, HTC_KV_APPEND,
                                       HTC_KV_CAS_VERSION, HTC_KV_CAS_VALUE, HTC_KV_ADD };
    static const char *const keys[] = { "a", "b", "c" };
    s->q =
        (htc_kv_request){ .size = sizeof(htc_kv_request), .op = ops[htc_rng_below(&s->rng, 7)], .key = htc_bytes_of(keys[htc_rng_below(&s->rng, 3)]) };
    fake_record *r = record_of(s);
    snprintf(s->text, sizeof s->text, "%d", (int)htc_rng_below(&s->rng, 3));
    s->q.value = htc_bytes_of(s->text);
    s->q.delta = 7;
    s->q.version = htc_rng_below(&s->rng, 3) ? r->mod : r->mod + 1;
    memcpy(s->seen, r->value, r->len);
    s->q.seen = (htc_bytes){ s->seen, r->len };
    if (s->q.op == HTC_KV_PUT)
        s->q.flags = (uint32_t)htc_rng_below(&s->rng, 3);
    if (s->q.op != HTC_KV_CAS_VALUE)
        s->q.seen.len = 0;
    if (r->len > 40) { /* short again, or it is no number any more */
        r->mod = 0;
        r->len = 0;
    }
}

static void one_request(story *s)
{
    htc__etcd_next next = HTC__ETCD_SEND;
    htc_kv_result  r = { .size = sizeof r };
    htc_buf        body;
    draw(s);
    s->made = s->ambiguous = 0;
    htc_buf_init(&body, NULL, 0);
    htc__ask *ask = submitted(&s->words, &s->q);
    for (int turns = 0; next != HTC__ETCD_ANSWERED; turns++) {
        const char *path = NULL;
        htc_buf_clear(&body);
        if (htc__etcd_say(&s->words, ask, &body, &path) != HTC_OK || !path ||
            attempt(s, ask, path, htc_buf_bytes(&body), &next) != HTC_OK)
            s->wrong = "no answer";
        if (s->wrong)
            break;
        beaten += turns > 0;
    }
    htc_buf_free(&body);
    if (!s->wrong)
        s->wrong = htc__window_next(&s->words.window, &r) ? judge(s, &r) : "answered to nobody";
}

static const char *run_story(uint64_t seed)
{
    static story s;
    s = (story){ .rng = { seed }, .etcd = { .revision = 1 } };
    words_init(&s.words);
    for (int i = 0; i < 40 && !s.wrong; i++)
        one_request(&s);
    words_free(&s.words);
    return s.wrong;
}

Test(etcd, a_change_is_made_once_or_unknown)
{
    PROPERTY_ALL(rng, 300)
    {
        const char *wrong = run_story(htc_rng_next(&rng));
        if (wrong)
            fprintf(stderr, "%s\n", wrong);
        HOLDS(wrong == NULL);
    }
    if (!getenv("HTC_TEST_SEED"))
        cr_expect(answered > 5000 && unknowns > 500 && beaten > 500, "%u answered, %u unknown, %u tried again",
                  answered, unknowns, beaten);
}

Test(etcd, lost_changes_that_are_sent_again_are_noticed)
{
    const char *wrong = NULL;
    htc__broken_set(htc__broken_find("lost_change_resent"), 1);
    for (uint64_t seed = 1; seed <= 100 && !wrong; seed++)
        wrong = run_story(seed);
    htc__broken_set(htc__broken_find("lost_change_resent"), 0);
    cr_expect(ne(ptr, (void *)wrong, NULL), "nobody notices");
}
