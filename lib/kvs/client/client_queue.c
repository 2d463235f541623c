/* Who waits for whom.
 *
 * A change waits until every earlier change of its key is answered, and so does a read: then it sees them, whatever the
 * network does to the order of messages. A scan waits for changes under its prefix. The end of a lease removes keys
 * that nobody here knows by name, so it waits for all that is pending, and all that comes later waits for it. */
#include <assert.h>
#include <string.h>

#include "kvs/client/client.h"

void htc__kv_parts_add(htc__kv_list_of_parts *list, htc__kv_part *part)
{
    part->next = NULL;
    part->prev = list->last;
    *(list->last ? &list->last->next : &list->first) = part;
    list->last = part;
}

void htc__kv_parts_remove(htc__kv_list_of_parts *list, htc__kv_part *part)
{
    *(part->prev ? &part->prev->next : &list->first) = part->next;
    *(part->next ? &part->next->prev : &list->last) = part->prev;
    part->prev = part->next = NULL;
}

static htc__kv_wait **slot(const htc_kv_client *c, uint64_t hash)
{
    return &c->slots[hash & (c->slot_count - 1)];
}

static void slot_add(htc_kv_client *c, htc__kv_wait *wait)
{
    htc__kv_wait **at = slot(c, wait->hash);
    while (*at)
        at = &(*at)->next;
    wait->next = NULL;
    *at = wait;
}

static void slot_remove(htc_kv_client *c, htc__kv_wait *wait)
{
    for (htc__kv_wait **at = slot(c, wait->hash); *at; at = &(*at)->next)
        if (*at == wait) {
            *at = wait->next;
            return;
        }
}

/* Keys are compared by their hash: two that collide wait for each other, which costs time and nothing else. */
static int key_is_busy(const htc_kv_client *c, const htc__kv_wait *wait)
{
    for (const htc__kv_wait *w = *slot(c, wait->hash); w; w = w->next)
        if (w->change && w->hash == wait->hash && w->part->order < wait->part->order)
            return 1;
    return 0;
}

static int under(htc_bytes prefix, htc_bytes key)
{
    return key.len >= prefix.len && (prefix.len == 0 || memcmp(key.data, prefix.data, prefix.len) == 0);
}

static int changes_under(const htc__kv_part *part, htc_bytes prefix)
{
    htc_reader     r = htc_reader_of((htc_bytes){ part->ops + part->ops_at, part->ops_len - part->ops_at });
    htc_kv_request q = { .size = sizeof q };
    while (htc_reader_left(&r)) {
        htc__kv_op_read(&r, &q);
        if (htc__kv_is_change(q.op) && under(prefix, q.key))
            return 1;
    }
    return 0;
}

static int scans_what_changes(const htc__kv_part *part, const htc__kv_part *earlier)
{
    htc_reader     r = htc_reader_of((htc_bytes){ part->ops + part->ops_at, part->ops_len - part->ops_at });
    htc_kv_request q = { .size = sizeof q };
    while (htc_reader_left(&r)) {
        htc__kv_op_read(&r, &q);
        if (q.op == HTC_KV_SCAN && changes_under(earlier, q.key))
            return 1;
    }
    return 0;
}

static int waits_for_list(const htc__kv_part *part, const htc__kv_list_of_parts *list)
{
    for (const htc__kv_part *p = list->first; p; p = p->next)
        if (p->order < part->order && (p->revokes || part->revokes || scans_what_changes(part, p)))
            return 1;
    return 0;
}

static int must_wait(const htc_kv_client *c, const htc__kv_part *part)
{
    for (uint32_t i = 0; i < part->wait_count; i++)
        if (key_is_busy(c, &part->waits[i]))
            return 1;
    if (c->revoking == 0 && part->scans == 0)
        return 0;
    return waits_for_list(part, &c->sent) || waits_for_list(part, &c->ready) || waits_for_list(part, &c->waiting);
}

static void become_ready(htc_kv_client *c, htc__kv_part *part)
{
    htc__kv_parts_remove(&c->waiting, part);
    for (uint32_t i = 0; i < part->wait_count; i++)
        if (!part->waits[i].change)
            slot_remove(c, &part->waits[i]);
    part->state = HTC__KV_PART_READY;
    htc__kv_parts_add(&c->ready, part);
}

void htc__kv_queue_enter(htc_kv_client *c, htc__kv_part *part)
{
    c->revoking += part->revokes;
    int waits = must_wait(c, part);
    for (uint32_t i = 0; i < part->wait_count; i++)
        if (waits || part->waits[i].change)
            slot_add(c, &part->waits[i]);
    part->state = waits ? HTC__KV_PART_WAITS : HTC__KV_PART_READY;
    htc__kv_parts_add(waits ? &c->waiting : &c->ready, part);
    c->wide += waits && (part->scans || c->revoking);
}

/* In the order of submission, up to the next change of this key: what is behind that waits for it. */
static void wake_key(htc_kv_client *c, uint64_t hash)
{
    for (htc__kv_wait *w = *slot(c, hash), *next; w; w = next) {
        next = w->next;
        if (w->hash != hash || w->part->state != HTC__KV_PART_WAITS) {
            if (w->hash == hash && w->change)
                return;
            continue;
        }
        int change = w->change;
        if (!must_wait(c, w->part)) {
            become_ready(c, w->part);
            /* The part may have had other entries here: begin again. */
            next = change ? NULL : *slot(c, hash);
        }
        if (change)
            return;
    }
}

static void wake_wide(htc_kv_client *c)
{
    size_t left = 0;
    for (htc__kv_part *p = c->waiting.first, *next; p; p = next) {
        next = p->next;
        if (!must_wait(c, p))
            become_ready(c, p);
        else
            left++;
    }
    if (left == 0)
        c->wide = 0;
}

void htc__kv_queue_leave(htc_kv_client *c, htc__kv_part *part)
{
    int waited = part->state == HTC__KV_PART_WAITS;
    htc__kv_parts_remove(waited ? &c->waiting : part->state == HTC__KV_PART_READY ? &c->ready : &c->sent, part);
    part->state = HTC__KV_PART_ANSWERED;
    assert(c->revoking >= part->revokes);
    c->revoking -= part->revokes;
    for (uint32_t i = 0; i < part->wait_count; i++)
        if (waited || part->waits[i].change)
            slot_remove(c, &part->waits[i]);
    for (uint32_t i = 0; i < part->wait_count; i++)
        if (part->waits[i].change)
            wake_key(c, part->waits[i].hash);
    if (c->wide)
        wake_wide(c);
}
