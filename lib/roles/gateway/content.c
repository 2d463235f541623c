/* Uploaded content: which jobs name it, and when nobody does.
 *
 * A job's record of content (b/JOB) lists the hashes that stand in its document. Once an hour all of these lists are read, and
 * the host removes what is in none of them and was not asked for within the grace. A submission asks for what it names before
 * its list is written, so nothing is removed between the two. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "roles/gateway/gateway.h"

#define HEX_LEN 64
#define SWEEP_EVERY_MAX (3600 * HTC_SECOND)

/* ---- what a document names ---- */

static int hex_value(char c)
{
    return c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

static void put_hash(htc_buf *out, const char *hex)
{
    uint8_t hash[32];
    for (size_t i = 0; i < sizeof hash; i++)
        hash[i] = (uint8_t)(hex_value(hex[2 * i]) << 4 | hex_value(hex[2 * i + 1]));
    htc_put_raw(out, (htc_bytes){ hash, sizeof hash });
}

static int by_bytes(const void *a, const void *b)
{
    return memcmp(a, b, 32);
}

static void sort_unique(htc_buf *b)
{
    size_t n = b->len / 32, kept = 0;
    if (n)
        qsort(b->data, n, 32, by_bytes);
    for (size_t i = 0; i < n; i++)
        if (i == 0 || memcmp(b->data + i * 32, b->data + (kept - 1) * 32, 32) != 0)
            memmove(b->data + kept++ * 32, b->data + i * 32, 32);
    b->len = kept * 32;
}

/* Every run of 64 hex digits, be it part of a URI or a value that a sweep makes one of. A hash that is put together of parts is
 * not found, and its content not kept. */
void htc__gw_content_find(htc_bytes document, htc_buf *hashes)
{
    const char *p = document.data;
    for (size_t i = 0, run = 0; i <= document.len; i++) {
        if (i < document.len && hex_value(p[i]) >= 0) {
            run++;
            continue;
        }
        if (run == HEX_LEN)
            put_hash(hashes, p + i - run);
        run = 0;
    }
    if (hashes->status == HTC_OK)
        sort_unique(hashes);
}

/* ---- what uploads come to, by user ---- */

void htc__gw_uploads_are(user *u, htc_reader *sums)
{
    uint64_t number = htc_get_u64(sums), bytes = htc_get_u64(sums), unfinished = htc_get_u64(sums);
    if (sums->status != HTC_OK || number < u->uploads_number)
        return;
    u->uploads_number = number;
    u->uploads = bytes;
    u->uploading = unfinished;
}

/* A host that cannot tell, as in a test, says nothing: then uploads count for nothing. */
static void summed(void *role, void *ctx, htc_status status, htc_bytes body)
{
    htc_gateway *gw = role;
    htc_reader   r = htc_reader_of(body);
    uint64_t     number = htc_get_u64(&r);
    (void)ctx;
    if (status != HTC_OK || r.status != HTC_OK)
        return;
    for (user *u = gw->users; u; u = u->hh.next)
        if (u->uploads_number < number) {
            u->uploads_number = number;
            u->uploads = u->uploading = 0;
        }
    while (r.status == HTC_OK && htc_reader_left(&r)) {
        char name[NAME_MAX_BYTES];
        htc_get_str(&r, name, sizeof name);
        user *u = r.status == HTC_OK ? htc__gw_user(gw, name) : NULL, nobody = { 0 };
        htc__gw_uploads_are(u ? u : &nobody, &r);
    }
}

static void sum_up(htc_gateway *gw)
{
    htc_runtime_call(gw->runtime, HTC_CALL_CONTENT_SUM, (htc_bytes){ 0 }, summed, NULL);
}

/* A piece of that user's has failed: the host may have forgotten the upload, and what it was announced with is free. */
void htc__gw_uploads_ask(htc_gateway *gw, const user *u)
{
    htc_buf_clear(&gw->scratch);
    htc_put_str(&gw->scratch, u->name);
    htc_runtime_call(gw->runtime, HTC_CALL_CONTENT_SUM, htc_buf_bytes(&gw->scratch), summed, NULL);
}

/* ---- uploads of before they had owners ---- */

/* Once, when the gateway begins and its host has such: the owner of each job that names some has these, then the rest goes. */
typedef struct adoption {
    htc_runtime_cursor next;
    htc_buf            items; /* of a page: u64 job, bytes hashes */
    htc_reader         r;
    htc_bytes          hashes;
} adoption;

static void adopt_next(htc_gateway *gw, adoption *a);

static void adopt_end(htc_gateway *gw, adoption *a, htc_status status)
{
    if (status != HTC_OK)
        htc__log_with(&gw->env, HTC_LOG_WARN, HTC__FIELDS(HTC__STATUS(status)),
                      "whose the uploads of an earlier system are could not be told (%s) -> look again at the next start", htc_strerror(status));
    htc_buf_free(&a->items);
    htc_runtime_context_free(gw->runtime, a);
}

static void adopt_call(htc_gateway *gw, htc_adopt what, const char *owner, htc_bytes hashes, htc_runtime_call_fn fn, void *ctx)
{
    htc_buf_clear(&gw->scratch);
    htc_put_u8(&gw->scratch, (uint8_t)what);
    if (what == HTC_ADOPT_GIVE) {
        htc_put_str(&gw->scratch, owner);
        htc_put_raw(&gw->scratch, hashes);
    }
    htc_runtime_call(gw->runtime, HTC_CALL_CONTENT_ADOPT, htc_buf_bytes(&gw->scratch), fn, ctx);
}

static void adopted(void *role, void *ctx, htc_status status, htc_bytes body)
{
    (void)body;
    if (status == HTC_OK)
        adopt_next(role, ctx);
    else
        adopt_end(role, ctx, status);
}

static void adopt_job(void *role, void *ctx, const htc_kv_result *r)
{
    htc_gateway *gw = role;
    adoption    *a = ctx;
    job          j;
    char         owner[NAME_MAX_BYTES];
    if (r->status == HTC_OK && htc__gw_record_job_read(r->value, &j, owner) == HTC_OK)
        adopt_call(gw, HTC_ADOPT_GIVE, owner, a->hashes, adopted, a);
    else if (r->status == HTC_OK || r->status == HTC_ENOTFOUND)
        adopt_next(gw, a);
    else
        adopt_end(gw, a, r->status);
}

static void adopt_page(void *role, void *ctx, const htc_kv_result *r)
{
    htc_gateway *gw = role;
    adoption    *a = ctx;
    htc_kv_item  item;
    size_t       at = 0;
    uint64_t     id = 0;
    if (r->status != HTC_OK) {
        adopt_end(gw, a, r->status);
        return;
    }
    a->next = htc_runtime_next_page(gw->runtime, r);
    htc_buf_clear(&a->items);
    for (uint32_t i = 0; i < r->items && htc_kv_result_item(r, &at, &item) == HTC_OK; i++)
        if (htc__gw_key_content_id(item.key, &id)) {
            htc_put_u64(&a->items, id);
            htc_put_bytes(&a->items, item.value);
        }
    a->r = htc_reader_of(htc_buf_bytes(&a->items));
    adopt_next(gw, a);
}

static void adopt_dropped(void *role, void *ctx, htc_status status, htc_bytes body)
{
    (void)ctx, (void)status, (void)body; /* what is left is looked for at the next start */
    sum_up(role);
}

static void adopt_next(htc_gateway *gw, adoption *a)
{
    if (a->items.status != HTC_OK) {
        adopt_end(gw, a, a->items.status);
        return;
    }
    if (htc_reader_left(&a->r)) {
        uint64_t id = htc_get_u64(&a->r);
        a->hashes = htc_get_bytes(&a->r);
        key k = htc__gw_key_job(id);
        htc_runtime_ask(gw->runtime, &(htc_kv_request){ .size = sizeof(htc_kv_request), .op = HTC_KV_GET, .key = htc__gw_key_bytes(&k) }, 1, adopt_job, a);
    } else if (a->next.len) {
        htc_runtime_cursor from = a->next;
        htc_runtime_scan(gw->runtime, htc_bytes_of("b/"), &from, 0, adopt_page, a);
    } else {
        adopt_call(gw, HTC_ADOPT_DROP, NULL, (htc_bytes){ 0 }, adopt_dropped, NULL);
        adopt_end(gw, a, HTC_OK);
    }
}

static void adopt_counted(void *role, void *ctx, htc_status status, htc_bytes body)
{
    htc_gateway *gw = role;
    htc_reader   r = htc_reader_of(body);
    uint64_t     n = status == HTC_OK ? htc_get_u64(&r) : 0;
    adoption    *a = n ? htc_runtime_context(gw->runtime, sizeof *a) : NULL;
    (void)ctx;
    sum_up(gw); /* what a sweep of a gateway before this one had set aside has its name again */
    if (!a)
        return;
    htc__log(&gw->env, HTC_LOG_INFO, "%llu uploads of an earlier system belong to nobody -> give each to whose jobs name it", (unsigned long long)n);
    htc_buf_init(&a->items, &gw->env, 0);
    htc_runtime_scan(gw->runtime, htc_bytes_of("b/"), NULL, 0, adopt_page, a);
}

void htc__gw_content_begin(htc_gateway *gw)
{
    adopt_call(gw, HTC_ADOPT_COUNT, NULL, (htc_bytes){ 0 }, adopt_counted, NULL);
}

/* ---- what none names ---- */

static htc_ns every(const htc_gateway *gw)
{
    htc_ns part = gw->options.content_grace_ns / 24;
    return part < SWEEP_EVERY_MAX ? part : SWEEP_EVERY_MAX;
}

static void swept(void *role, void *ctx, htc_status status, htc_bytes body)
{
    htc_gateway *gw = role;
    htc_reader r = htc_reader_of(body);
    uint64_t   files = htc_get_u64(&r), bytes = htc_get_u64(&r);
    (void)ctx;
    gw->content_busy = 0;
    if (status != HTC_OK)
        htc__log_with(&gw->env, HTC_LOG_WARN, HTC__FIELDS(HTC__STATUS(status)),
                      "uploads that no job names could not be removed (%s) -> look again later", htc_strerror(status));
    else if (files)
        htc__log_with(&gw->env, HTC_LOG_INFO, HTC__FIELDS(HTC__NUMBER("files", files), HTC__NUMBER("bytes", bytes)),
                      "%llu upload%s of %llu byte%s %s named by no job -> removed", (unsigned long long)files,
                      htc__plural(files), (unsigned long long)bytes, htc__plural(bytes), htc__are(files));
    sum_up(gw);
}

static void marks_page(void *role, void *ctx, const htc_kv_result *r)
{
    htc_gateway *gw = role;
    htc_kv_item item;
    size_t      at = 0;
    (void)ctx;
    gw->content_busy = 0;
    if (r->status != HTC_OK)
        return; /* the next look does it */
    htc_runtime_cursor next = htc_runtime_next_page(gw->runtime, r);
    for (uint32_t i = 0; i < r->items && htc_kv_result_item(r, &at, &item) == HTC_OK; i++)
        htc_put_raw(&gw->marks, item.value);
    if (gw->marks.status != HTC_OK || gw->marks.len % 32 != 8)
        return; /* what is not known entirely removes nothing */
    gw->content_busy = 1;
    if (next.len) {
        htc_runtime_scan(gw->runtime, htc_bytes_of("b/"), &next, 0, marks_page, NULL);
        return;
    }
    htc_runtime_call(gw->runtime, HTC_CALL_CONTENT_SWEEP, htc_buf_bytes(&gw->marks), swept, NULL);
    htc_buf_free(&gw->marks);
}

void htc__gw_content_look(htc_gateway *gw)
{
    if (gw->content_busy || gw->now < gw->content_at)
        return;
    int first = gw->content_at == 0;
    gw->content_at = gw->now + every(gw);
    if (first)
        return;
    gw->content_busy = 1;
    htc_buf_free(&gw->marks);
    htc_buf_init(&gw->marks, &gw->env, 0);
    htc_put_u64(&gw->marks, gw->options.content_grace_ns);
    htc_runtime_scan(gw->runtime, htc_bytes_of("b/"), NULL, 0, marks_page, NULL);
}
