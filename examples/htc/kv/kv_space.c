/* htc kv get, put, delete --namespace: keys that may have several values at once. */
#include "kv.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "htcsched/kv_siblings.h"

static htc_status ask(kv_call *k, const htc_kv_request *q, htc_kv_result *r)
{
    htc_status s = htc_store_ask(k->store, q, r, &k->c->error);
    if (s != HTC_OK)
        return s;
    if (r->status == HTC_EINVAL)
        return cli_error(k->c, HTC_EINVAL, "--namespace", "htc-kvd --namespace makes it, at every member",
                         "there is no namespace %.40s", k->space);
    if (r->status == HTC_ECONFLICT)
        return cli_error(k->c, r->status, "", "htc kv get --namespace NAME --reconcile leaves one of them",
                         "the key has too many values beside each other");
    if (r->status == HTC_ETIMEDOUT && q->op != HTC_KV_GET)
        return cli_error(k->c, r->status, "", "the change may have been made all the same", "too few owners answer");
    return r->status == HTC_ENOTFOUND ? HTC_OK : r->status;
}

static htc_kv_request request(const kv_call *k, uint32_t op, htc_bytes key)
{
    return (htc_kv_request){ .size = sizeof(htc_kv_request), .op = op, .space = htc_bytes_of(k->space), .key = key };
}

/* ---- contexts, as words ---- */

static char *hex_of(htc_bytes bytes)
{
    char *hex = must(malloc(2 * bytes.len + 1));
    hex[0] = 0;
    for (size_t i = 0; i < bytes.len; i++)
        sprintf(hex + 2 * i, "%02x", ((const uint8_t *)bytes.data)[i]);
    return hex;
}

static htc_status context_of(kv_call *k, uint8_t bytes[HTC_KV_CONTEXT_MAX], htc_bytes *context)
{
    const char *text = k->context ? k->context : "";
    size_t      digits = strspn(text, "0123456789abcdef");
    unsigned    byte;
    if (text[digits] || digits % 2 || digits / 2 > HTC_KV_CONTEXT_MAX)
        return cli_error(k->c, HTC_EUSAGE, "--context", "take it from get --json", "this is no context");
    for (size_t i = 0; i < digits / 2; i++) {
        sscanf(text + 2 * i, "%2x", &byte);
        bytes[i] = (uint8_t)byte;
    }
    *context = (htc_bytes){ bytes, digits / 2 };
    return HTC_OK;
}

/* ---- get ---- */

static void show_json(kv_call *k, htc_bytes key, const htc_kv_result *r)
{
    json_t     *o = json_object(), *list = json_array();
    char       *context = hex_of(r->context);
    htc_kv_item item;
    kv_put_bytes(o, "key", key);
    json_object_set_new(o, "namespace", json_string(k->space));
    for (size_t at = 0; htc_kv_result_item(r, &at, &item) == HTC_OK;) {
        json_t *one = json_object();
        kv_put_bytes(one, "value", item.value);
        json_array_append_new(list, one);
    }
    json_object_set_new(o, "siblings", list);
    json_object_set_new(o, "context", json_string(context));
    put_json(k->c, o);
    json_decref(o);
    free(context);
}

/* One alone as it is; several one a line, their control characters replaced: --json has the bytes. */
static void show_text(const htc_kv_result *r)
{
    htc_kv_item item;
    for (size_t at = 0; htc_kv_result_item(r, &at, &item) == HTC_OK;) {
        if (r->items == 1) {
            fwrite(item.value.len ? item.value.data : "", 1, item.value.len, stdout);
            if (isatty(STDOUT_FILENO))
                putchar('\n');
            return;
        }
        char *text = must(malloc(item.value.len + 1));
        memcpy(text, item.value.len ? item.value.data : "", item.value.len);
        text[item.value.len] = 0;
        htc_text_show(text);
        puts(text);
        free(text);
    }
    if (r->items > 1)
        fprintf(stderr, "%" PRIu32 " values beside each other; --reconcile leaves the largest\n", r->items);
}

/* The largest is written on top of those that were read. It is asked for anew, so that what is shown is what is there. */
static htc_status reconcile(kv_call *k, htc_bytes key, htc_kv_result *r)
{
    htc_kv_request get = request(k, HTC_KV_GET, key), put = { .size = sizeof put };
    htc_bytes      value;
    htc_status     s = htc_kv_reconcile(&get, r, NULL, NULL, &value, &put);
    if (s == HTC_ENOTFOUND || (s == HTC_OK && put.op == 0))
        return HTC_OK;
    if (s == HTC_OK)
        s = ask(k, &put, r);
    return s == HTC_OK ? ask(k, &get, r) : s;
}

htc_status kv_space_get(kv_call *k, htc_bytes key)
{
    htc_kv_request q = request(k, HTC_KV_GET, key);
    htc_kv_result  r = { .size = sizeof r };
    htc_status     s = ask(k, &q, &r);
    if (s == HTC_OK && k->reconcile)
        s = reconcile(k, key, &r);
    if (s != HTC_OK)
        return s;
    if (k->c->json)
        show_json(k, key, &r); /* with its context, also where there is no value */
    else
        show_text(&r);
    return r.items ? HTC_OK : cli_error(k->c, HTC_ENOTFOUND, k->w.at[0], "", "there is no such key");
}

/* ---- put, delete ---- */

/* Without --context a put stands beside what is there, and a delete is of what is there now. */
htc_status kv_space_change(kv_call *k, uint32_t op, htc_bytes key, htc_bytes value)
{
    uint8_t        bytes[HTC_KV_CONTEXT_MAX];
    htc_kv_request q = request(k, HTC_KV_GET, key);
    htc_kv_result  r = { .size = sizeof r };
    htc_bytes      context;
    htc_status     s = context_of(k, bytes, &context);
    if (s == HTC_OK && op == HTC_KV_DELETE && !k->context && (s = ask(k, &q, &r)) == HTC_OK) {
        if (r.items == 0)
            return cli_error(k->c, HTC_ENOTFOUND, k->w.at[0], "", "there is no such key");
        context = (htc_bytes){ bytes, r.context.len < sizeof bytes ? r.context.len : 0 };
        memcpy(bytes, r.context.data, context.len);
    }
    q.op = op;
    q.value = value;
    q.context = context;
    if (s == HTC_OK)
        s = ask(k, &q, &r);
    if (s == HTC_OK && !k->c->json)
        printf("version %" PRIu64 "\n", r.version);
    if (s != HTC_OK || !k->c->json)
        return s;
    json_t *o = json_object();
    char   *hex = hex_of(r.context);
    kv_put_bytes(o, "key", key);
    json_object_set_new(o, "namespace", json_string(k->space));
    json_object_set_new(o, "version", json_integer((json_int_t)r.version));
    if (r.context.len) /* else it has siblings, which only a get shows */
        json_object_set_new(o, "context", json_string(hex));
    put_json(k->c, o);
    json_decref(o);
    free(hex);
    return HTC_OK;
}

/* ---- restore ---- */

/* The first value of a key goes in the place of all that is there, the others beside it. */
htc_status kv_space_restore(kv_call *k, htc_bytes space, htc_bytes key, htc_bytes value, int first, int *keep)
{
    char           name[HTC_KV_SPACE_MAX + 1];
    uint8_t        bytes[HTC_KV_CONTEXT_MAX];
    htc_kv_result  r = { .size = sizeof r };
    htc_status     s = HTC_OK;
    htc_kv_request q = { .size = sizeof q, .op = HTC_KV_GET, .space = space, .key = key };
    snprintf(name, sizeof name, "%.*s", (int)space.len, (const char *)space.data);
    k->space = name; /* for what is said */
    if (first) {
        *keep = 0;
        s = ask(k, &q, &r);
        if (s == HTC_OK && r.items && !k->replace)
            *keep = 1;
        if (s == HTC_OK && r.context.len <= sizeof bytes) {
            memcpy(bytes, r.context.len ? r.context.data : "", r.context.len);
            q.context = (htc_bytes){ bytes, r.context.len };
        }
    }
    q.op = HTC_KV_PUT;
    q.value = value;
    if (s == HTC_OK && !*keep)
        s = ask(k, &q, &r);
    k->space = NULL;
    return s;
}
