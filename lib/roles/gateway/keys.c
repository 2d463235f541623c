/* Under which keys the gateway keeps what it keeps. */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/fault.h"
#include "roles/gateway/gateway.h"

static key make(const char *format, ...) __attribute__((format(printf, 1, 2)));

static key make(const char *format, ...)
{
    key     k;
    va_list args;
    va_start(args, format);
    int n = vsnprintf(k.text, sizeof k.text, format, args);
    va_end(args);
    k.len = n < 0 ? 0 : (size_t)n < sizeof k.text ? (size_t)n : sizeof k.text - 1;
    return k;
}

/* Numbers are 16 hex digits, so that the order of keys is the order of numbers. Jobs count down: a scan meets the newest
 * first. */
#define DOWN(id) ((unsigned long long)(UINT64_MAX - (id)))
#define UP(id) ((unsigned long long)(id))

key htc__gw_key_user(const char *name)
{
    key k = { .len = 2 };
    memcpy(k.text, "u/", 2);
    size_t n = strlen(name);
    if (n > sizeof k.text - 3)
        n = sizeof k.text - 3;
    memcpy(k.text + 2, name, n);
    k.len += n;
    return k;
}

key htc__gw_key_token(const char *hash_hex)
{
    key k = { .len = 2 };
    memcpy(k.text, "t/", 2);
    size_t n = strlen(hash_hex);
    if (n > 60)
        n = 60;
    memcpy(k.text + 2, hash_hex, n);
    k.len += n;
    return k;
}

key htc__gw_key_mail(uint64_t id)
{
    return make("m/%016llx", UP(id));
}

key htc__gw_key_open(uint64_t id)
{
    return make("o/%016llx", UP(id));
}

key htc__gw_key_job(uint64_t id)
{
    return make("j/%016llx", DOWN(id));
}

key htc__gw_key_spec(uint64_t id)
{
    return make("s/%016llx", UP(id));
}

key htc__gw_key_chunk(uint64_t id, uint64_t index)
{
    return make("c/%016llx/%016llx", UP(id), UP(index));
}

key htc__gw_key_chunks(uint64_t id)
{
    return make("c/%016llx/", UP(id));
}

key htc__gw_key_result(uint64_t id, uint64_t index, uint32_t attempt)
{
    return make("r/%016llx/%016llx/%08x", UP(id), UP(index), attempt);
}

key htc__gw_key_results(uint64_t id)
{
    return make("r/%016llx/", UP(id));
}

key htc__gw_key_agent(uint64_t id)
{
    return make("a/%016llx", UP(id));
}

key htc__gw_key_site(const char *name)
{
    return make("e/%.63s", name);
}

key htc__gw_key_node(const char *name)
{
    return make("e/@%.63s", name);
}

key htc__gw_key_removal(uint64_t id)
{
    return make("d/%016llx", UP(id));
}

key htc__gw_key_content(uint64_t id)
{
    return make("b/%016llx", UP(id));
}

key htc__gw_key_credentials(uint64_t id)
{
    return make("n/%016llx", UP(id));
}

key htc__gw_key_taken(const htc_attempt *at)
{
    return make("h/%016llx/%016llx/%08x", UP(at->job), UP(at->task), at->attempt);
}

int htc__gw_key_content_id(htc_bytes k, uint64_t *id)
{
    char text[24], *end;
    if (k.len != 18)
        return 0;
    memcpy(text, k.data, k.len);
    text[k.len] = '\0';
    *id = strtoull(text + 2, &end, 16);
    return !*end && *id;
}

key htc__gw_key_active(void)
{
    return make("gateway/active");
}

key htc__gw_key_data(void)
{
    return make("gateway/data");
}

key htc__gw_key_project(const char *name)
{
    return make("p/%.60s", name);
}

key htc__gw_key_quota(const char *user_name)
{
    return make("q/%.60s", user_name);
}

key htc__gw_key_day(uint32_t day, const char *user_name)
{
    return make("y/%08x/%.50s", day, user_name);
}

key htc__gw_key_fold(const char *user_name)
{
    return make("z/%.60s", user_name);
}

key htc__gw_key_days(uint32_t first, uint32_t last, uint32_t *to)
{
    uint32_t digits = 8, span = 1; /* days that have the digits in common */
    while (digits > 1 && first % (span * 16) == 0 && span * 16 - 1 <= last - first) {
        span *= 16;
        digits--;
    }
    *to = first + (span - 1);
    return make("y/%0*x", (int)digits, first / span);
}

key htc__gw_key_jobs(uint64_t newest, uint64_t *oldest)
{
    uint64_t from = DOWN(newest);
    int      digits = 16; /* that the keys have in common */
    while (digits > 0 && (from >> (4 * (16 - digits)) & 15) == 0)
        digits--;
    *oldest = digits == 0 ? 0 : DOWN(from | ((UINT64_C(1) << (4 * (16 - digits))) - 1));
    return digits == 0 ? make("j/") : make("j/%0*llx", digits, (unsigned long long)(from >> (4 * (16 - digits))));
}

htc_bytes htc__gw_key_bytes(const key *k)
{
    return (htc_bytes){ k->text, k->len };
}

void htc__gw_put(htc_gateway *gw, key k, htc_bytes value)
{
    htc_runtime_put(gw->runtime, htc__gw_key_bytes(&k), value);
}

void htc__gw_delete(htc_gateway *gw, key k)
{
    htc_runtime_delete(gw->runtime, htc__gw_key_bytes(&k));
}

int htc__gw_shared(const htc_gateway *gw)
{
    return gw->options.lease_ns != 0;
}

htc_kv_request htc__gw_write_op(const htc_gateway *gw, const key *k, htc_bytes value, uint64_t version)
{
    int blind = !htc__gw_shared(gw) || HTC__BROKEN(gateway_writes_blind);
    return (htc_kv_request){ .size = sizeof(htc_kv_request), .op = blind ? HTC_KV_PUT : HTC_KV_CAS_VERSION, .key = htc__gw_key_bytes(k),
                             .value = value, .version = blind ? 0 : version };
}

int htc__gw_outcome_unknown(const htc_gateway *gw, htc_status status)
{
    return htc__gw_shared(gw) && !HTC__BROKEN(gateway_forgets_unknown) && (status == HTC_ETIMEDOUT || status == HTC_EUNKNOWN);
}

/* A write that goes on until its outcome is known. One that was not answered may be made later, or never. So it is made again, of the same version; if
 * that is not there any more, the first one was made, or a later gateway has written: which of these, a confirmation says. */
typedef struct certain_write {
    htc_runtime_store_fn fn;
    void                *ctx;
    key                  k;
    uint64_t             version;
    int                  unsure; /* an earlier try of it has no known outcome */
    size_t               len;
    uint8_t              value[];
} certain_write;

static void certain_answer(void *role, void *ctx, const htc_kv_result *r);

static void certain_ask(htc_gateway *gw, certain_write *w)
{
    htc_runtime_ask(gw->runtime,
                    &(htc_kv_request){ .size = sizeof(htc_kv_request), .op = HTC_KV_CAS_VERSION, .key = htc__gw_key_bytes(&w->k),
                                       .value = { w->value, w->len }, .version = w->version }, 1, certain_answer, w);
}

static void certain_confirmed(void *role, void *ctx, htc_status status)
{
    if (status == HTC_OK)
        certain_ask(role, ctx);
}

static void certain_answer(void *role, void *ctx, const htc_kv_result *r)
{
    htc_gateway   *gw = role;
    certain_write *w = ctx;
    if (htc__gw_outcome_unknown(gw, r->status) && !gw->shutdown) {
        w->unsure = 1;
        certain_ask(gw, w);
        return;
    }
    if (r->status == HTC_MISMATCH && w->unsure && r->version) {
        w->version = r->version;
        htc__gw_confirm(gw, certain_confirmed, w);
        return;
    }
    htc_runtime_store_fn fn = w->fn;
    void                *to = w->ctx;
    htc_runtime_context_free(gw->runtime, w);
    fn(gw, to, r);
}

void htc__gw_ask_write(htc_gateway *gw, const htc_kv_request *rq, htc_runtime_store_fn fn, void *ctx)
{
    if (!htc__gw_shared(gw) || rq->op != HTC_KV_CAS_VERSION || !fn) {
        htc_runtime_ask(gw->runtime, rq, 1, fn, ctx);
        return;
    }
    certain_write *w = htc_runtime_context(gw->runtime, sizeof *w + rq->value.len);
    if (!w)
        return;
    *w = (certain_write){ .fn = fn, .ctx = ctx, .version = rq->version, .len = rq->value.len };
    w->k.len = rq->key.len;
    memcpy(w->k.text, rq->key.data, rq->key.len);
    if (w->len)
        memcpy(w->value, rq->value.data, w->len);
    certain_ask(gw, w);
}

void htc__gw_write(htc_gateway *gw, key k, htc_bytes value, uint64_t version, htc_runtime_store_fn fn, void *ctx)
{
    htc_kv_request rq = htc__gw_write_op(gw, &k, value, version);
    htc__gw_ask_write(gw, &rq, fn, ctx);
}

htc_kv_request htc__gw_delete_op(const htc_gateway *gw, const key *k, uint64_t version)
{
    htc_kv_request rq = { .size = sizeof rq, .op = HTC_KV_DELETE, .key = htc__gw_key_bytes(k) };
    if (htc__gw_shared(gw) && version && !HTC__BROKEN(gateway_writes_blind)) {
        rq.flags = HTC_KV_IF_VERSION;
        rq.version = version;
    }
    return rq;
}

int htc__gw_fenced(htc_gateway *gw, const htc_kv_result *r)
{
    if (!htc__gw_shared(gw) || r->status != HTC_MISMATCH)
        return 0;
    htc_runtime_break(gw->runtime, HTC_ELOCKED, "a record was changed by another gateway");
    return 1;
}

static void deleted(void *role, void *ctx, const htc_kv_result *r)
{
    htc_gateway *gw = role;
    (void)ctx;
    if (!htc__gw_fenced(gw, r) && r->status != HTC_OK && r->status != HTC_ENOTFOUND)
        htc__log_with(&gw->env, HTC_LOG_WARN, HTC__FIELDS(HTC__STATUS(r->status)), "the store answers %s to a note -> go on without it",
                      htc_status_name(r->status));
}

/* What is deleted may have been read when the term was over: then it is another gateway's. */
typedef struct deletion {
    key      k;
    uint64_t version;
} deletion;

static void delete_confirmed(void *role, void *ctx, htc_status status)
{
    htc_gateway *gw = role;
    deletion    *d = ctx;
    if (status != HTC_OK)
        return;
    htc_kv_request rq = htc__gw_delete_op(gw, &d->k, d->version);
    htc_runtime_ask(gw->runtime, &rq, 1, deleted, NULL);
    htc_runtime_context_free(gw->runtime, d);
}

void htc__gw_delete_of(htc_gateway *gw, key k, uint64_t version)
{
    if (!htc__gw_shared(gw)) {
        htc__gw_delete(gw, k);
        return;
    }
    if (!version)
        return; /* nothing is known of it: the next gateway finds it */
    deletion *d = htc_runtime_context(gw->runtime, sizeof *d);
    if (!d)
        return;
    *d = (deletion){ k, version };
    htc__gw_confirm(gw, delete_confirmed, d);
}
