/* etcd: KEY lies under PREFIX/KEY as it is, so that etcd's other clients read the same values; its version is etcd's
 * modification revision, which rises with every change of anything and so over deletion and re-creation too.
 *
 * A condition on version or value is one transaction of etcd's, whose other branch shows the record. APPEND and ADD read the
 * record, work out the new value here by the function of our own members, and swap it in if the revision is still the same; a
 * lost race comes back with the current record. etcd remembers no client's changes: one whose answer is lost may have been made
 * or not, and is answered HTC_EUNKNOWN. */
#include <stdio.h>

#include "core/fault.h"
#include "core/util.h"
#include "kvs/wire/kv_wire.h"
#include "net/remote/etcd.h"

enum { ONE = 1, READS, SWAPS }; /* ask->state; 0: nothing is on its way */

static htc_status finish(htc__etcd_words *w, htc__ask *ask, htc__etcd_next *next, const htc_kv_result *result)
{
    *next = HTC__ETCD_ANSWERED;
    return htc__window_answer(&w->window, ask, result);
}

static htc_status fail(htc__etcd_words *w, htc__ask *ask, htc__etcd_next *next, htc_status why)
{
    return finish(w, ask, next, &(htc_kv_result){ .size = sizeof(htc_kv_result), .status = why });
}

/* ---- what to ask ---- */

/* etcd's numbers have a sign. */
static uint64_t within(uint64_t n)
{
    return n > INT64_MAX ? INT64_MAX : n;
}

static int computes(const htc_kv_request *q)
{
    return q->op == HTC_KV_APPEND || q->op == HTC_KV_ADD;
}

static const char *say_put(const htc__etcd_words *w, const htc_kv_request *q, htc_buf *body)
{
    htc__etcd_put put = { .key = q->key, .value = q->value, .want_old = (q->flags & HTC_KV_WANT_OLD) != 0 };
    if (q->op == HTC_KV_PUT) {
        put.lease = within(q->lease);
        put.when = q->flags & HTC_KV_NX   ? HTC__ETCD_ABSENT
                   : q->flags & HTC_KV_XX ? HTC__ETCD_PRESENT
                                          : HTC__ETCD_ALWAYS;
    } else if (q->op == HTC_KV_CAS_VERSION) {
        put.when = HTC__ETCD_VERSION;
        put.version = within(q->version);
        put.keep_lease = q->version != 0;
    } else {
        put.when = HTC__ETCD_VALUE;
        put.seen = q->seen;
        put.keep_lease = 1;
    }
    return htc__etcd_write_put(body, w->prefix, &put);
}

static const char *say_swap(const htc__etcd_words *w, const htc__ask *ask, htc_buf *body)
{
    htc__etcd_put put = { .when = HTC__ETCD_VERSION,
                          .version = ask->number,
                          .key = ask->request.key,
                          .value = htc_buf_bytes(&ask->coming),
                          .keep_lease = ask->number != 0 };
    return htc__etcd_write_put(body, w->prefix, &put);
}

/* What etcd cannot do, or would not take. */
static htc_status objection(const htc_kv_request *q)
{
    if (q->flags & ~(uint32_t)(HTC_KV_NX | HTC_KV_XX | HTC_KV_WANT_OLD | HTC_KV_IF_VERSION) || (q->flags & HTC_KV_IF_VERSION && q->flags & HTC_KV_WANT_OLD) || (q->ttl && q->op != HTC_KV_LEASE_GRANT) ||
        q->op == HTC_KV_MEMBERS || q->op == HTC_KV_CHANGE)
        return HTC_EUNSUPPORTED;
    return q->value.len + q->seen.len > HTC__ETCD_VALUE_MAX ? HTC_ETOOBIG : HTC_OK;
}

static uint64_t page_limit(htc__ask *ask)
{
    uint64_t limit = ask->request.limit ? ask->request.limit : HTC__ETCD_PAGE_MAX;
    if (ask->number == 0)
        ask->number = limit > HTC__ETCD_PAGE_MAX ? HTC__ETCD_PAGE_MAX : limit;
    return ask->number;
}

static const char *say_first(const htc__etcd_words *w, htc__ask *ask, htc_buf *body)
{
    const htc_kv_request *q = &ask->request;
    switch ((htc_kv_op)q->op) {
    case HTC_KV_GET:
    case HTC_KV_APPEND:
    case HTC_KV_ADD:
        return htc__etcd_write_get(body, w->prefix, q->key);
    case HTC_KV_PUT:
    case HTC_KV_CAS_VERSION:
    case HTC_KV_CAS_VALUE:
        return say_put(w, q, body);
    case HTC_KV_DELETE:
        if (q->flags & HTC_KV_IF_VERSION)
            return htc__etcd_write_delete_if(body, w->prefix, q->key, within(q->version));
        return htc__etcd_write_delete(body, w->prefix, q->key, (q->flags & HTC_KV_WANT_OLD) != 0);
    case HTC_KV_SCAN:
        return htc__etcd_write_page(body, w->prefix, q->key, q->cursor, page_limit(ask));
    case HTC_KV_COUNT:
        return htc__etcd_write_count(body, w->prefix);
    case HTC_KV_LEASE_GRANT:
        return htc__etcd_write_grant(body, q->ttl);
    case HTC_KV_LEASE_RENEW:
        return htc__etcd_write_renew(body, within(q->lease));
    case HTC_KV_LEASE_REVOKE:
        return htc__etcd_write_revoke(body, within(q->lease));
    case HTC_KV_MEMBERS:
    case HTC_KV_CHANGE:
        break; /* objection */
    }
    return NULL;
}

htc_status htc__etcd_say(htc__etcd_words *w, htc__ask *ask, htc_buf *body, const char **path)
{
    htc__etcd_next next;
    htc_status     refused = objection(&ask->request);
    *path = NULL;
    if (refused != HTC_OK)
        return fail(w, ask, &next, refused);
    if (ask->state == SWAPS) {
        *path = say_swap(w, ask, body);
    } else {
        ask->state = computes(&ask->request) ? READS : ONE;
        *path = say_first(w, ask, body);
    }
    return body->status;
}

/* ---- what an answer means ---- */

/* The one record of an answer, if it has one; HTC_EPROTO if that is of another key, or not alone. */
static htc_status shown(const htc__ask *ask, const htc__etcd_answer *answer, htc_kv_item *item)
{
    htc_kv_result list = { .size = sizeof list, .items = answer->items, .items_bytes = answer->items_bytes };
    size_t        at = 0;
    *item = (htc_kv_item){ .version = 0 };
    if (answer->items == 0)
        return HTC_OK;
    if (answer->items > 1 || htc_kv_result_item(&list, &at, item) != HTC_OK ||
        !htc_bytes_equal(item->key, ask->request.key))
        return HTC_EPROTO;
    return HTC_OK;
}

/* APPEND and ADD: the new value, from the record as it is. */
static htc_status work_out(htc__etcd_words *w, htc__ask *ask, const htc_kv_item *item, htc__etcd_next *next)
{
    htc__kv_cell    cell = { .present = item->version != 0, .version = item->version, .value = item->value };
    htc__kv_stamp   nobody = { 0 };
    htc__kv_changed changed;
    if (ask->tries++ == HTC__ETCD_TRIES_MAX)
        return fail(w, ask, next, HTC_EBUSY);
    htc__kv_change(&cell, &ask->request, &nobody, 0, &w->scratch, &changed);
    if (changed.effect == HTC__KV_NO_MEMORY)
        return HTC_ENOMEM;
    if (changed.effect != HTC__KV_CHANGED)
        return finish(w, ask, next, &changed.result);
    if (changed.to.value.len > HTC__ETCD_VALUE_MAX)
        return fail(w, ask, next, HTC_ETOOBIG);
    htc_buf_clear(&ask->coming);
    htc_put_raw(&ask->coming, changed.to.value);
    ask->result.number = changed.result.number;
    ask->number = item->version;
    ask->state = SWAPS;
    *next = HTC__ETCD_SEND;
    return ask->coming.status;
}

static htc_status have_swapped(htc__etcd_words *w, htc__ask *ask, const htc__etcd_answer *answer,
                               const htc_kv_item *item, htc__etcd_next *next)
{
    if (!answer->succeeded)
        return work_out(w, ask, item, next);
    return finish(w, ask, next, &(htc_kv_result){ .size = sizeof(htc_kv_result), .version = answer->revision, .number = ask->result.number });
}

static htc_status have_put(htc__etcd_words *w, htc__ask *ask, const htc__etcd_answer *answer, const htc_kv_item *item,
                           htc__etcd_next *next)
{
    const htc_kv_request *q = &ask->request;
    int                   plain = q->op == HTC_KV_PUT && !(q->flags & (HTC_KV_NX | HTC_KV_XX));
    htc_kv_result         result = { .size = sizeof result, .version = answer->revision };
    if (!plain && !answer->succeeded) {
        int must_exist = q->op == HTC_KV_PUT && (q->flags & HTC_KV_XX);
        result.status = must_exist ? HTC_ENOTFOUND : HTC_MISMATCH;
        result.version = must_exist ? 0 : item->version;
        result.value = must_exist ? (htc_bytes){ NULL, 0 } : item->value;
    } else if (q->flags & HTC_KV_WANT_OLD) {
        result.existed = item->version != 0;
        result.value = item->value;
    }
    return finish(w, ask, next, &result);
}

static htc_status have_deleted(htc__etcd_words *w, htc__ask *ask, const htc__etcd_answer *answer,
                               const htc_kv_item *item, htc__etcd_next *next)
{
    htc_kv_result result = { .size = sizeof result, .status = answer->deleted ? HTC_OK : HTC_ENOTFOUND };
    if (ask->request.flags & HTC_KV_IF_VERSION) {
        result.status = answer->succeeded ? HTC_OK : HTC_MISMATCH;
        result.version = answer->succeeded ? answer->revision : item->version;
        result.value = item->value;
    } else if (answer->deleted) {
        result.version = answer->revision;
        result.existed = item->version != 0;
        result.value = item->value;
    }
    return finish(w, ask, next, &result);
}

static int begins_with(htc_bytes key, htc_bytes prefix)
{
    return key.len >= prefix.len && htc_bytes_equal((htc_bytes){ key.data, prefix.len }, prefix);
}

/* Keys of that prefix in order, behind the cursor: a page that went anywhere else would send its reader in circles. */
static int is_page(const htc__ask *ask, const htc__etcd_answer *answer)
{
    htc_kv_result list = { .size = sizeof list, .items = answer->items, .items_bytes = answer->items_bytes };
    htc_bytes     last = ask->request.cursor;
    htc_kv_item   item;
    size_t        at = 0;
    for (uint32_t i = 0; i < answer->items; i++) {
        if (htc_kv_result_item(&list, &at, &item) != HTC_OK || !begins_with(item.key, ask->request.key) ||
            htc_bytes_compare(item.key, last) <= 0)
            return 0;
        last = item.key;
    }
    return answer->items <= ask->number &&
           (!answer->more || htc_bytes_compare(answer->cursor, ask->request.cursor) > 0);
}

static htc_status have_page(htc__etcd_words *w, htc__ask *ask, const htc__etcd_answer *answer, htc__etcd_next *next)
{
    if (!is_page(ask, answer))
        return fail(w, ask, next, HTC_EPROTO);
    htc_kv_result result = { .size = sizeof result, .items = answer->items, .items_bytes = answer->items_bytes };
    if (answer->more)
        result.cursor = answer->cursor;
    return finish(w, ask, next, &result);
}

static htc_status have_one(htc__etcd_words *w, htc__ask *ask, const htc__etcd_answer *answer, const htc_kv_item *item,
                           htc__etcd_next *next)
{
    switch ((htc_kv_op)ask->request.op) {
    case HTC_KV_GET:
        return finish(w, ask, next,
                      &(htc_kv_result){ .size = sizeof(htc_kv_result), .status = item->version ? HTC_OK : HTC_ENOTFOUND,
                                        .version = item->version,
                                        .value = item->value });
    case HTC_KV_DELETE:
        return have_deleted(w, ask, answer, item, next);
    case HTC_KV_COUNT:
        return finish(w, ask, next, &(htc_kv_result){ .size = sizeof(htc_kv_result), .number = (int64_t)answer->count });
    case HTC_KV_LEASE_GRANT:
        return finish(w, ask, next,
                      &(htc_kv_result){ .size = sizeof(htc_kv_result), .status = answer->id ? HTC_OK : HTC_EPROTO, .lease = answer->id });
    case HTC_KV_LEASE_RENEW: /* a term of nothing: there is no such lease */
        return fail(w, ask, next, answer->ttl ? HTC_OK : HTC_ENOTFOUND);
    case HTC_KV_LEASE_REVOKE:
        return fail(w, ask, next, HTC_OK);
    default:
        return have_put(w, ask, answer, item, next);
    }
}

static htc_status later(htc__ask *ask, htc__etcd_next *next)
{
    ask->state = 0;
    *next = HTC__ETCD_LATER;
    return HTC_OK;
}

/* So much did not fit into one answer: half of it. */
static htc_status smaller_page(htc__etcd_words *w, htc__ask *ask, htc__etcd_next *next)
{
    if (ask->number <= 1)
        return fail(w, ask, next, HTC_ETOOBIG);
    ask->number /= 2;
    ask->state = 0;
    *next = HTC__ETCD_SEND;
    return HTC_OK;
}

/* Would asking again make a change twice? */
static int may_be_done(const htc__ask *ask, int sent)
{
    return sent && htc__kv_is_change(ask->request.op) && ask->state != READS && !HTC__BROKEN(lost_change_resent);
}

htc_status htc__etcd_lost(htc__etcd_words *w, htc__ask *ask, int sent, htc_status why, htc__etcd_next *next)
{
    if (may_be_done(ask, sent))
        return fail(w, ask, next, HTC_EUNKNOWN);
    if (why == HTC_ETOOBIG && ask->request.op == HTC_KV_SCAN)
        return smaller_page(w, ask, next);
    return why == HTC_EPROTO || why == HTC_ETOOBIG ? fail(w, ask, next, why) : later(ask, next);
}

static htc_status refused(htc__etcd_words *w, htc__ask *ask, const htc__etcd_answer *answer, htc__etcd_next *next)
{
    int        done = 0;
    htc_status why = htc__etcd_meaning(answer, &done);
    snprintf(w->said, sizeof w->said, "%s", answer->text);
    htc__log_with(&w->env, HTC_LOG_WARN, HTC__FIELDS(HTC__STATUS(why)),
                  "etcd says: %s -> %s", answer->text, htc_strerror(why));
    if (done && may_be_done(ask, 1))
        return fail(w, ask, next, HTC_EUNKNOWN);
    if (why == HTC_AGAIN)
        return later(ask, next);
    if (why == HTC_ETOOBIG && ask->request.op == HTC_KV_SCAN)
        return smaller_page(w, ask, next);
    return fail(w, ask, next, why);
}

htc_status htc__etcd_heard(htc__etcd_words *w, htc__ask *ask, int http, htc_bytes body, htc__etcd_next *next)
{
    htc__etcd_answer answer;
    htc_kv_item      item = { .version = 0 };
    htc_status       status = htc__etcd_read(w->prefix, http, body, &w->kept, &answer);
    if (status == HTC_OK && answer.code)
        return refused(w, ask, &answer, next);
    if (status == HTC_OK && ask->request.op != HTC_KV_SCAN)
        status = shown(ask, &answer, &item);
    if (status == HTC_ENOMEM || status == HTC_EFULL)
        return HTC_ENOMEM;
    if (status != HTC_OK) {
        snprintf(w->said, sizeof w->said, "HTTP %d, and nothing that etcd 3.4 or later would say", http);
        /* Whoever stands between has no etcd at hand just now. */
        return htc__etcd_lost(w, ask, 1, http >= 500 ? HTC_ECLOSED : status, next);
    }
    if (ask->state == READS)
        return work_out(w, ask, &item, next);
    if (ask->state == SWAPS)
        return have_swapped(w, ask, &answer, &item, next);
    return ask->request.op == HTC_KV_SCAN ? have_page(w, ask, &answer, next) : have_one(w, ask, &answer, &item, next);
}
