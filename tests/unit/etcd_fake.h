/* An etcd of a few keys for tests: it takes the JSON of requests apart by itself and answers as the gateway does. */
#ifndef HTC_TESTS_ETCD_FAKE_H
#define HTC_TESTS_ETCD_FAKE_H

#include <jansson.h>
#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "htcsched/bytes.h"

#define FAKE_KEYS  8
#define FAKE_VALUE 4096

typedef struct fake_record {
    char     key[512], value[FAKE_VALUE + 1];
    size_t   key_len, len;
    uint64_t mod, lease; /* mod 0: it is not there */
} fake_record;

typedef struct fake_etcd {
    fake_record keys[FAKE_KEYS];
    uint64_t    revision, lease; /* lease: the one that lives; 0: none */
    unsigned    applied;         /* changes made */
    int         http;
    char        text[4 * FAKE_VALUE];
} fake_etcd;

static inline size_t fake_bytes(const json_t *o, const char *member, char *out, size_t max)
{
    const char *text = json_string_value(json_object_get(o, member));
    size_t      len = 0;
    if (text && sodium_base642bin((unsigned char *)out, max, text, strlen(text), NULL, &len, NULL,
                                  sodium_base64_VARIANT_ORIGINAL) != 0)
        abort();
    return len;
}

static inline uint64_t fake_number(const json_t *o, const char *member)
{
    const char *text = json_string_value(json_object_get(o, member));
    return text ? strtoull(text, NULL, 10) : 0;
}

static inline json_t *fake_text(const void *bytes, size_t len)
{
    char text[2 * FAKE_VALUE];
    sodium_bin2base64(text, sizeof text, bytes, len, sodium_base64_VARIANT_ORIGINAL);
    return json_string(text);
}

static inline json_t *fake_decimal(uint64_t n)
{
    char text[24];
    snprintf(text, sizeof text, "%llu", (unsigned long long)n);
    return json_string(text);
}

static inline fake_record *fake_find(fake_etcd *f, const char *key, size_t len)
{
    fake_record *empty = NULL;
    for (int i = 0; i < FAKE_KEYS; i++) {
        fake_record *r = &f->keys[i];
        if (r->key_len == len && memcmp(r->key, key, len) == 0)
            return r;
        if (!empty && r->key_len == 0)
            empty = r;
    }
    if (!empty)
        abort();
    memcpy(empty->key, key, len);
    empty->key_len = len;
    return empty;
}

static inline json_t *fake_kv(const fake_record *r)
{
    return json_pack("{s:o,s:o,s:o}", "key", fake_text(r->key, r->key_len), "mod_revision", fake_decimal(r->mod),
                     "value", fake_text(r->value, r->len));
}

static inline json_t *fake_range(fake_etcd *f, const json_t *q)
{
    char         key[512];
    size_t       len = fake_bytes(q, "key", key, sizeof key);
    fake_record *r = fake_find(f, key, len);
    json_t      *out = json_object();
    if (r->mod)
        json_object_set_new(out, "kvs", json_pack("[o]", fake_kv(r)));
    return out;
}

static inline void fake_set(fake_etcd *f, fake_record *r, const char *value, size_t len, uint64_t lease)
{
    memmove(r->value, value, len);
    r->value[len] = 0;
    r->len = len;
    r->lease = lease;
    r->mod = ++f->revision;
    f->applied++;
}

/* NULL: refused, said in f->text. */
static inline json_t *fake_put(fake_etcd *f, const json_t *q)
{
    char         key[512], value[FAKE_VALUE];
    size_t       key_len = fake_bytes(q, "key", key, sizeof key), len = fake_bytes(q, "value", value, sizeof value);
    fake_record *r = fake_find(f, key, key_len);
    uint64_t     lease = fake_number(q, "lease");
    json_t      *out = json_object();
    if (lease && lease != f->lease) {
        json_decref(out);
        f->http = 404;
        snprintf(f->text, sizeof f->text, "{\"error\":\"etcdserver: requested lease not found\",\"code\":5}");
        return NULL;
    }
    if (json_is_true(json_object_get(q, "prev_kv")) && r->mod)
        json_object_set_new(out, "prev_kv", fake_kv(r));
    if (json_is_true(json_object_get(q, "ignore_lease")))
        lease = r->lease;
    fake_set(f, r, value, len, lease);
    return out;
}

static inline json_t *fake_delete(fake_etcd *f, const json_t *q)
{
    char         key[512];
    size_t       len = fake_bytes(q, "key", key, sizeof key);
    fake_record *r = fake_find(f, key, len);
    json_t      *out = json_object();
    if (!r->mod)
        return out;
    if (json_is_true(json_object_get(q, "prev_kv")))
        json_object_set_new(out, "prev_kvs", json_pack("[o]", fake_kv(r)));
    json_object_set_new(out, "deleted", json_string("1"));
    r->mod = 0;
    f->revision++;
    f->applied++;
    return out;
}

static inline int fake_holds(fake_etcd *f, const json_t *compare)
{
    char         key[512], value[FAKE_VALUE];
    size_t       len = fake_bytes(compare, "key", key, sizeof key);
    fake_record *r = fake_find(f, key, len);
    uint64_t     mod = fake_number(compare, "mod_revision");
    if (strcmp(json_string_value(json_object_get(compare, "target")), "VALUE") == 0) {
        len = fake_bytes(compare, "value", value, sizeof value);
        return r->mod && r->len == len && memcmp(r->value, value, len) == 0;
    }
    return strcmp(json_string_value(json_object_get(compare, "result")), "EQUAL") == 0 ? r->mod == mod : r->mod > mod;
}

static inline json_t *fake_transaction(fake_etcd *f, const json_t *q)
{
    int     holds = fake_holds(f, json_array_get(json_object_get(q, "compare"), 0));
    json_t *todo = json_array_get(json_object_get(q, holds ? "success" : "failure"), 0);
    json_t *put = json_object_get(todo, "request_put"), *range = json_object_get(todo, "request_range");
    json_t *done = put ? fake_put(f, put) : fake_range(f, range);
    if (!done)
        return NULL;
    json_t *out = json_pack("{s:[{s:o}]}", "responses", put ? "response_put" : "response_range", done);
    if (holds)
        json_object_set_new(out, "succeeded", json_true());
    return out;
}

/* The answer is f->http and f->text. */
static inline void fake_serve(fake_etcd *f, const char *path, htc_bytes body)
{
    json_t *q = json_loadb(body.data, body.len, 0, NULL);
    json_t *out = !q                                        ? NULL
                  : strcmp(path, "/v3/kv/range") == 0       ? fake_range(f, q)
                  : strcmp(path, "/v3/kv/put") == 0         ? fake_put(f, q)
                  : strcmp(path, "/v3/kv/deleterange") == 0 ? fake_delete(f, q)
                  : strcmp(path, "/v3/kv/txn") == 0         ? fake_transaction(f, q)
                                                            : NULL;
    if (!q)
        abort();
    json_decref(q);
    if (!out)
        return;
    f->http = 200;
    json_object_set_new(out, "header", json_pack("{s:o}", "revision", fake_decimal(f->revision)));
    char *text = json_dumps(out, JSON_COMPACT);
    if (!text || (size_t)snprintf(f->text, sizeof f->text, "%s", text) >= sizeof f->text)
        abort();
    free(text);
    json_decref(out);
}

#endif
