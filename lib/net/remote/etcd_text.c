/* Keys and values stand in base64, so nothing in a request has to be escaped, and an answer's brackets and commas are its own:
 * they are counted before a parser is let at them. Numbers stand in quotes, as JSON of 64-bit integers does. */
#include <jansson.h>
#include <sodium.h>
#include <stdio.h>
#include <string.h>

#include "core/util.h"
#include "kvs/wire/kv_wire.h"
#include "net/remote/etcd.h"

/* ---- requests ---- */

static void put_base64(htc_buf *b, htc_bytes bytes)
{
    size_t len = sodium_base64_encoded_len(bytes.len, sodium_base64_VARIANT_ORIGINAL); /* with a zero at its end */
    char  *room = (char *)htc_buf_extend(b, len);
    if (!room)
        return;
    sodium_bin2base64(room, len, bytes.data, bytes.len, sodium_base64_VARIANT_ORIGINAL);
    b->len--;
}

typedef struct name {
    size_t  len;
    uint8_t data[HTC__ETCD_NAME_MAX];
} name;

static name name_of(const char *prefix, htc_bytes key)
{
    name n = { .len = strlen(prefix) };
    memcpy(n.data, prefix, n.len);
    if (key.len)
        memcpy(n.data + n.len, key.data, key.len);
    n.len += key.len;
    return n;
}

/* Behind the bare prefix, which is no key of ours. */
static name first_name(const char *prefix)
{
    static const uint8_t zero = 0;
    return name_of(prefix, (htc_bytes){ &zero, 1 });
}

/* The first name behind all that begin with this one; there is one, for a prefix is text. */
static void step_over(name *n)
{
    while (n->data[n->len - 1] == 0xff)
        n->len--;
    n->data[n->len - 1]++;
}

static void put_name(htc_buf *b, const char *member, const name *n)
{
    htc_put_text(b, "\"%s\":\"", member);
    put_base64(b, (htc_bytes){ n->data, n->len });
    htc_put_text(b, "\"");
}

static void put_key(htc_buf *b, const char *prefix, htc_bytes key)
{
    name n = name_of(prefix, key);
    put_name(b, "key", &n);
}

const char *htc__etcd_write_get(htc_buf *b, const char *prefix, htc_bytes key)
{
    htc_put_text(b, "{");
    put_key(b, prefix, key);
    htc_put_text(b, "}");
    return "/v3/kv/range";
}

const char *htc__etcd_write_page(htc_buf *b, const char *prefix, htc_bytes key, htc_bytes cursor, uint64_t limit)
{
    int  behind = cursor.len && htc_bytes_compare(cursor, key) >= 0;
    name from = name_of(prefix, behind ? cursor : key), end = name_of(prefix, key);
    if (!behind && key.len == 0)
        from = first_name(prefix);
    else if (behind && cursor.len == HTC_KV_KEY_MAX) /* what is longer is not ours */
        step_over(&from);
    else if (behind)
        from.data[from.len++] = 0;
    step_over(&end);
    htc_put_text(b, "{");
    put_name(b, "key", &from);
    htc_put_text(b, ",");
    put_name(b, "range_end", &end);
    htc_put_text(b, ",\"limit\":\"%llu\"}", (unsigned long long)limit);
    return "/v3/kv/range";
}

const char *htc__etcd_write_count(htc_buf *b, const char *prefix)
{
    name from = first_name(prefix), end = name_of(prefix, (htc_bytes){ NULL, 0 });
    step_over(&end);
    htc_put_text(b, "{");
    put_name(b, "key", &from);
    htc_put_text(b, ",");
    put_name(b, "range_end", &end);
    htc_put_text(b, ",\"count_only\":true}");
    return "/v3/kv/range";
}

static void put_put(htc_buf *b, const char *prefix, const htc__etcd_put *put)
{
    htc_put_text(b, "{");
    put_key(b, prefix, put->key);
    htc_put_text(b, ",\"value\":\"");
    put_base64(b, put->value);
    htc_put_text(b, "\"");
    if (put->lease)
        htc_put_text(b, ",\"lease\":\"%llu\"", (unsigned long long)put->lease);
    if (put->keep_lease)
        htc_put_text(b, ",\"ignore_lease\":true");
    if (put->want_old)
        htc_put_text(b, ",\"prev_kv\":true");
    htc_put_text(b, "}");
}

/* An absent key has modification revision 0, and no value to be compared with. */
static void put_compare(htc_buf *b, const char *prefix, const htc__etcd_put *put)
{
    htc_put_text(b, "{");
    put_key(b, prefix, put->key);
    if (put->when == HTC__ETCD_VALUE) {
        htc_put_text(b, ",\"target\":\"VALUE\",\"result\":\"EQUAL\",\"value\":\"");
        put_base64(b, put->seen);
        htc_put_text(b, "\"}");
        return;
    }
    htc_put_text(b, ",\"target\":\"MOD\",\"result\":\"%s\",\"mod_revision\":\"%llu\"}",
                 put->when == HTC__ETCD_PRESENT ? "GREATER" : "EQUAL",
                 (unsigned long long)(put->when == HTC__ETCD_VERSION ? put->version : 0));
}

const char *htc__etcd_write_put(htc_buf *b, const char *prefix, const htc__etcd_put *put)
{
    if (put->when == HTC__ETCD_ALWAYS) {
        put_put(b, prefix, put);
        return "/v3/kv/put";
    }
    htc_put_text(b, "{\"compare\":[");
    put_compare(b, prefix, put);
    htc_put_text(b, "],\"success\":[{\"request_put\":");
    put_put(b, prefix, put);
    htc_put_text(b, "}],\"failure\":[{\"request_range\":{");
    put_key(b, prefix, put->key);
    htc_put_text(b, "}}]}");
    return "/v3/kv/txn";
}

const char *htc__etcd_write_delete(htc_buf *b, const char *prefix, htc_bytes key, int want_old)
{
    htc_put_text(b, "{");
    put_key(b, prefix, key);
    htc_put_text(b, want_old ? ",\"prev_kv\":true}" : "}");
    return "/v3/kv/deleterange";
}

const char *htc__etcd_write_delete_if(htc_buf *b, const char *prefix, htc_bytes key, uint64_t version)
{
    htc__etcd_put when = { .when = HTC__ETCD_VERSION, .version = version, .key = key };
    htc_put_text(b, "{\"compare\":[");
    put_compare(b, prefix, &when);
    htc_put_text(b, "],\"success\":[{\"request_delete_range\":{");
    put_key(b, prefix, key);
    htc_put_text(b, "}}],\"failure\":[{\"request_range\":{");
    put_key(b, prefix, key);
    htc_put_text(b, "}}]}");
    return "/v3/kv/txn";
}

const char *htc__etcd_write_grant(htc_buf *b, htc_ns ttl)
{
    htc_put_text(b, "{\"TTL\":\"%llu\"}", (unsigned long long)(ttl / HTC_SECOND + (ttl % HTC_SECOND != 0)));
    return "/v3/lease/grant";
}

static void put_id(htc_buf *b, uint64_t lease)
{
    htc_put_text(b, "{\"ID\":\"%llu\"}", (unsigned long long)lease);
}

const char *htc__etcd_write_renew(htc_buf *b, uint64_t lease)
{
    put_id(b, lease);
    return "/v3/lease/keepalive";
}

const char *htc__etcd_write_revoke(htc_buf *b, uint64_t lease)
{
    put_id(b, lease);
    return "/v3/lease/revoke";
}

/* ---- answers ---- */

typedef struct answering {
    const char       *prefix;
    htc_buf          *kept; /* keys and values as they come out of base64, then the items */
    htc_buf           items;
    htc__etcd_answer *answer;
    htc_status        status;
} answering;

static void fail(answering *a, htc_status status)
{
    a->status = a->status == HTC_OK ? status : a->status;
}

static int read_decimal(const char *text, size_t len, uint64_t *out)
{
    uint64_t n = 0;
    for (size_t i = 0; i < len; i++) {
        if (text[i] < '0' || text[i] > '9' || __builtin_mul_overflow(n, (uint64_t)10, &n) ||
            __builtin_add_overflow(n, (uint64_t)(text[i] - '0'), &n))
            return 0;
    }
    *out = n;
    return len > 0 && n <= INT64_MAX;
}

/* What is 0 is left out by etcd. */
static uint64_t number(answering *a, const json_t *object, const char *member)
{
    const json_t *v = json_object_get(object, member);
    uint64_t      n = 0;
    if (!v)
        return 0;
    if (json_is_integer(v) && json_integer_value(v) >= 0)
        return (uint64_t)json_integer_value(v);
    if (!json_is_string(v) || !read_decimal(json_string_value(v), json_string_length(v), &n))
        fail(a, HTC_EPROTO);
    return n;
}

/* A member in base64, decoded behind what a->kept holds; empty if it is not there. */
static size_t decode(answering *a, const json_t *object, const char *member)
{
    const json_t *v = json_object_get(object, member);
    size_t        before = a->kept->len, max = json_string_length(v) / 4 * 3 + 3, len = 0;
    uint8_t      *room = v && json_is_string(v) ? htc_buf_extend(a->kept, max) : NULL;
    if (!v)
        return 0;
    if (!room || sodium_base642bin(room, max, json_string_value(v), json_string_length(v), NULL, &len, NULL,
                                   sodium_base64_VARIANT_ORIGINAL) != 0) {
        fail(a, json_is_string(v) && a->kept->status != HTC_OK ? a->kept->status : HTC_EPROTO);
        len = 0;
    }
    if (room)
        a->kept->len = before + len;
    return len;
}

static int is_ours(const answering *a, htc_bytes found)
{
    size_t prefix = strlen(a->prefix);
    return found.len > prefix && found.len <= prefix + HTC_KV_KEY_MAX;
}

/* A record: an item if its key is one of ours, and in any case where a cursor goes on. */
static void take_record(answering *a, const json_t *record)
{
    size_t prefix = strlen(a->prefix), at = a->kept->len;
    size_t name_len = decode(a, record, "key"), value_len = decode(a, record, "value");
    if (a->status != HTC_OK)
        return;
    const uint8_t *p = name_len ? a->kept->data + at : (const uint8_t *)"";
    uint64_t       version = number(a, record, "mod_revision");
    if (name_len < prefix || memcmp(p, a->prefix, prefix) != 0 || version == 0 || version > a->answer->revision) {
        fail(a, HTC_EPROTO);
        return;
    }
    htc_bytes key = { p + prefix, name_len - prefix };
    if (is_ours(a, (htc_bytes){ p, name_len })) {
        htc__kv_item_write(&a->items, key, version, (htc_bytes){ p + name_len, value_len });
        a->answer->items++;
    }
    key.len = key.len > HTC_KV_KEY_MAX ? HTC_KV_KEY_MAX : key.len;
    /* The key of the last record stays, at the front of the buffer. */
    memmove(a->kept->data, key.data, key.len);
    a->answer->cursor.len = key.len;
    a->kept->len = key.len;
    if (a->items.status != HTC_OK)
        fail(a, a->items.status);
}

/* What a range, a put, a deletion answers: alone, or inside a transaction's answer. */
static void take_records(answering *a, const json_t *from)
{
    static const char *const lists[] = { "kvs", "prev_kvs" };
    const json_t            *single = json_object_get(from, "prev_kv");
    if (single)
        take_record(a, single);
    for (size_t l = 0; l < 2; l++) {
        const json_t *list = json_object_get(from, lists[l]);
        for (size_t i = 0; a->status == HTC_OK && i < json_array_size(list); i++)
            take_record(a, json_array_get(list, i));
    }
}

static void take_transaction(answering *a, const json_t *responses)
{
    static const char *const kinds[] = { "response_range", "response_put", "response_delete_range" };
    for (size_t i = 0; i < json_array_size(responses); i++) {
        for (size_t k = 0; k < sizeof kinds / sizeof *kinds; k++)
            take_records(a, json_object_get(json_array_get(responses, i), kinds[k]));
    }
}

static void take_answer(answering *a, const json_t *root)
{
    htc__etcd_answer *answer = a->answer;
    const json_t     *result = json_object_get(root, "result"); /* of a stream's first message */
    const json_t     *from = result ? result : root;
    answer->revision = number(a, json_object_get(from, "header"), "revision");
    if (answer->revision == 0)
        fail(a, HTC_EPROTO);
    answer->succeeded = json_is_true(json_object_get(from, "succeeded"));
    answer->more = json_is_true(json_object_get(from, "more"));
    answer->count = number(a, from, "count");
    answer->deleted = number(a, from, "deleted");
    answer->id = number(a, from, "ID");
    answer->ttl = number(a, from, "TTL");
    take_records(a, from);
    take_transaction(a, json_object_get(from, "responses"));
    /* Behind the last key come the items: one buffer has all. */
    htc_put_raw(a->kept, htc_buf_bytes(&a->items));
    if (a->kept->status != HTC_OK)
        fail(a, a->kept->status);
    if (a->status != HTC_OK || a->kept->len == 0)
        return;
    answer->cursor.data = a->kept->data;
    answer->items_bytes = (htc_bytes){ a->kept->data + answer->cursor.len, a->items.len };
}

static void take_refusal(answering *a, const json_t *root)
{
    const json_t *error = json_object_get(root, "error"), *from = json_is_object(error) ? error : root;
    const json_t *text = json_is_string(error) ? error : json_object_get(from, "message");
    const json_t *code = json_object_get(from, "code");
    if (!code)
        code = json_object_get(from, "grpc_code");
    if (!json_is_string(text) || !json_is_integer(code) || json_integer_value(code) <= 0 ||
        json_integer_value(code) > 16) {
        fail(a, HTC_EPROTO);
        return;
    }
    a->answer->code = (int)json_integer_value(code);
    snprintf(a->answer->text, sizeof a->answer->text, "%s", json_string_value(text));
    htc__text_clean(a->answer->text);
}

/* Is there so much in it that its parts would take far more memory than itself? */
static int is_crowded(htc_bytes body)
{
    size_t         nodes = 0;
    const uint8_t *p = body.data;
    for (size_t i = 0; i < body.len; i++)
        nodes += p[i] == ',' || p[i] == '{' || p[i] == '[';
    return nodes > HTC__ETCD_NODES_MAX;
}

htc_status htc__etcd_read(const char *prefix, int http, htc_bytes body, htc_buf *kept, htc__etcd_answer *answer)
{
    htc_env      env = { .size = sizeof env, .alloc = kept->alloc };
    answering    a = { .prefix = prefix, .kept = kept, .answer = answer };
    json_error_t error;
    *answer = (htc__etcd_answer){ 0 };
    htc_buf_clear(kept);
    if (body.len > HTC__ETCD_BODY_MAX || is_crowded(body))
        return HTC_ETOOBIG;
    json_t *root = body.len ? json_loadb(body.data, body.len, JSON_REJECT_DUPLICATES, &error) : NULL;
    if (!root)
        return body.len && json_error_code(&error) == json_error_out_of_memory ? HTC_ENOMEM : HTC_EPROTO;
    htc_buf_init(&a.items, &env, 2 * HTC__ETCD_BODY_MAX);
    if (!json_is_object(root))
        fail(&a, HTC_EPROTO);
    else if (http != 200 || json_object_get(root, "error"))
        take_refusal(&a, root);
    else
        take_answer(&a, root);
    htc_buf_free(&a.items);
    json_decref(root);
    return a.status;
}

htc_status htc__etcd_meaning(const htc__etcd_answer *answer, int *done)
{
    static const struct {
        const char *words; /* "": any of this code */
        int         code, done;
        htc_status  status;
    } rows[] = {
        { "lease not found", 5, 0, HTC_ENOTFOUND },
        { "request is too large", 3, 0, HTC_ETOOBIG },
        { "user name is empty", 3, 0, HTC_EDENIED },
        { "database space exceeded", 8, 0, HTC_ENOSPC },
        { "larger than max", 8, 1, HTC_ETOOBIG }, /* its answer, that is */
        { "too many requests", 8, 0, HTC_AGAIN },
        { "no leader", 14, 0, HTC_AGAIN },
        { "", 3, 0, HTC_EINVAL },
        { "", 7, 0, HTC_EDENIED },
        { "", 11, 0, HTC_EINVAL },
        { "", 16, 0, HTC_EDENIED },
        { "", 4, 1, HTC_AGAIN },
        { "", 14, 1, HTC_AGAIN },
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        if (rows[i].code == answer->code && strstr(answer->text, rows[i].words)) {
            *done = rows[i].done;
            return rows[i].status;
        }
    }
    *done = 1;
    return HTC_ESTORE;
}
