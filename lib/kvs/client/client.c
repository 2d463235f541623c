/* The client: what is pending, by which connection it left, and what was answered. */
#include <assert.h>
#include <string.h>

#include "core/util.h"
#include "kvs/client/client.h"
#include "kvs/wire/limits.h"
#include "kvs/util/sized.h"

/* Operations of one submit are cut into messages of about this size. */
#define PART_MAX       ((size_t)1 << 20)
#define PART_COUNT_MAX 256
#define SEEN_BITS 2048
#define TAKEN UINT32_MAX /* an operation that is in a part */
/* After "send again": the server has too much at once. */
#define PUSHED_BACK (5 * HTC_MS)
/* As often a change is sent anew before its outcome is called unknown. */
#define ANEW_MAX 16

static htc_ns later(htc_ns now, htc_ns pause)
{
    return pause > HTC_NEVER - now ? HTC_NEVER : now + pause;
}

static size_t part_size(const htc__kv_part *part)
{
    return sizeof *part + part->count * (sizeof *part->waits + sizeof *part->index) + part->ops_len;
}

static void part_free(htc_kv_client *c, htc__kv_part *part)
{
    c->bytes -= part_size(part);
    htc__free(&c->env, part, part_size(part));
}

/* Of these of the submission, one behind the other; base is the number of the first. */
static htc__kv_part *part_make(htc_kv_client *c, const htc_kv_request *requests, const uint32_t *which, size_t n, uint32_t base)
{
    htc_buf *b = &c->message;
    htc_buf_clear(b);
    for (size_t i = 0; i < n; i++)
        htc__kv_op_write(b, &requests[which[i]]);
    if (b->status != HTC_OK)
        return NULL;
    size_t        size = sizeof(htc__kv_part) + n * (sizeof(htc__kv_wait) + sizeof(uint32_t)) + b->len;
    htc__kv_part *part = htc__alloc(&c->env, size);
    if (!part)
        return NULL;
    part->count = part->held = (uint32_t)n;
    part->link = HTC__KV_NO_LINK;
    part->waits = (htc__kv_wait *)(part + 1);
    part->index = (uint32_t *)(part->waits + n);
    part->ops = (uint8_t *)(part->index + n);
    part->ops_len = b->len;
    memcpy(part->ops, b->data, b->len);
    for (size_t i = 0; i < n; i++) {
        const htc_kv_request *q = &requests[which[i]];
        part->index[i] = base + which[i];
        int                   change = htc__kv_is_change(q->op);
        if (change || q->op == HTC_KV_GET)
            part->waits[part->wait_count++] =
                (htc__kv_wait){ .part = part, .hash = htc_hash64(q->key, 0), .change = change };
        part->scans += q->op == HTC_KV_SCAN;
        part->revokes += q->op == HTC_KV_LEASE_REVOKE;
    }
    c->bytes += size;
    return part;
}

static void submission_done(htc_kv_client *c, htc__kv_submission *submission, size_t n)
{
    assert(submission->left >= n);
    submission->left -= n;
    if (submission->left == 0)
        htc__free(&c->env, submission, sizeof *submission);
}

/* ---------------------------------------------------------------- sending */

htc_status htc__kv_client_send(htc_kv_client *c, const htc__kv_link *link, htc_output *out)
{
    if (c->message.status != HTC_OK)
        return c->message.status;
    return htc_output_add(
        out, &(htc_effect){ .kind = HTC_OUT_MESSAGE, .peer = link->peer, .body = htc_buf_bytes(&c->message) });
}

static htc_status transmit(htc_kv_client *c, htc__kv_part *part, const htc__kv_link *link, htc_ns now, htc_output *out)
{
    uint64_t serial = c->serial + 1;
    uint64_t since = part->sends ? part->since : c->clock;
    htc_wire_begin(&c->message, HTC_WIRE_KV_REQUEST, serial);
    htc__kv_head_write(&c->message, &(htc__kv_head){ .session = link->session,
                                                     .client = c->options.client_id,
                                                     .since = since,
                                                     .flags = part->sends ? HTC__KV_REPEATED : 0,
                                                     .sequence = part->sequence + part->first,
                                                     .count = part->count - part->first });
    htc_put_raw(&c->message, (htc_bytes){ part->ops + part->ops_at, part->ops_len - part->ops_at });
    htc_status status = htc__kv_client_send(c, link, out);
    if (status != HTC_OK)
        return status;
    c->serial = part->serial = serial;
    part->link = (uint32_t)(link - c->links);
    part->put_off = 0;
    part->sent_first = part->first;
    part->since = since;
    part->left_at = now;
    part->pause = part->sends == 0                        ? htc__kv_link_patience(c, link, now)
                  : part->pause < 8 * c->options.retry_ns ? part->pause * 2
                                                          : 16 * c->options.retry_ns;
    part->sends++;
    part->due = later(now, part->pause + 4 * htc__kv_patience(part->ops_len - part->ops_at)); /* it is handed on, and then stored by several */
    if (part->due < c->next_due)
        c->next_due = part->due;
    return HTC_OK;
}

/* Send what is ready, as far as the step's effects have room; the rest leaves in the next step. */
static htc_status send_ready(htc_kv_client *c, htc_ns now, htc_output *out)
{
    while (c->sessions && c->ready.first) {
        htc__kv_part *part = c->ready.first;
        htc_status    status = transmit(c, part, htc__kv_owners_route(c, part, now, out), now, out);
        if (status == HTC_EFULL && htc_output_count(out) > 0)
            return HTC_OK;
        if (status != HTC_OK)
            return status;
        htc__kv_parts_remove(&c->ready, part);
        part->state = HTC__KV_PART_SENT;
        htc__kv_parts_add(&c->sent, part);
    }
    return HTC_OK;
}

void htc__kv_client_send_again(htc_kv_client *c, uint32_t link)
{
    /* In front of what was never sent, in the old order. */
    for (htc__kv_part *part = c->sent.last, *before; part; part = before) {
        before = part->prev;
        if (part->link != link)
            continue;
        htc__kv_parts_remove(&c->sent, part);
        part->state = HTC__KV_PART_READY;
        part->prev = NULL;
        part->next = c->ready.first;
        *(c->ready.first ? &c->ready.first->prev : &c->ready.last) = part;
        c->ready.first = part;
    }
}

/* ---------------------------------------------------------------- answers */

static void answers_add(htc_kv_client *c, htc__kv_answers *answers)
{
    answers->next = NULL;
    *c->answers_last = answers;
    c->answers_last = &answers->next;
}

static htc__kv_answers *answers_make(htc_kv_client *c, htc__kv_part *part, htc_status status, size_t count,
                                     htc_bytes bytes)
{
    htc__kv_answers *answers = htc__alloc(&c->env, sizeof *answers + bytes.len);
    if (!answers)
        return NULL;
    answers->part = part;
    answers->status = status;
    answers->count = count;
    answers->len = bytes.len;
    answers->first = part->first;
    answers->ops_at = part->ops_at;
    if (bytes.len)
        memcpy(answers->bytes, bytes.data, bytes.len);
    return answers;
}

static void skip_ops(htc__kv_part *part, size_t n)
{
    htc_reader     r = htc_reader_of((htc_bytes){ part->ops + part->ops_at, part->ops_len - part->ops_at });
    htc_kv_request q = { .size = sizeof q };
    part->first += (uint32_t)n;
    for (size_t i = 0; i < n; i++)
        htc__kv_op_read(&r, &q);
    part->ops_at = part->ops_len - htc_reader_left(&r);
}

/* Give up the rest of a part. */
static htc_status part_ends(htc_kv_client *c, htc__kv_part *part, htc_status why)
{
    htc__kv_answers *answers = answers_make(c, part, why, part->count - part->first, (htc_bytes){ NULL, 0 });
    if (!answers)
        return HTC_ENOMEM;
    assert(c->pending >= answers->count);
    c->pending -= answers->count;
    htc__kv_queue_leave(c, part);
    part->first = part->count;
    answers_add(c, answers);
    return HTC_OK;
}

static int readable(htc_reader r, size_t count)
{
    htc_kv_result result = { .size = sizeof result };
    for (size_t i = 0; r.status == HTC_OK && i < count; i++)
        htc__kv_result_read(&r, &result);
    return htc_reader_done(&r) == HTC_OK;
}

/* Only the answer to the latest transmission counts: earlier ones may still say "failed" of what the later one did. */
static htc__kv_part *part_of(const htc_kv_client *c, uint64_t serial)
{
    htc__kv_part *part = c->sent.first;
    while (part && part->serial != serial)
        part = part->next;
    return part;
}

/* HTC_AGAIN: not executed, and nobody may have executed it unless another transmission did; there was none. So it is asked for
 * as if for the first time, with what is known now. It keeps its number, since later changes of that key have theirs. */
static htc_status send_anew(htc_kv_client *c, htc__kv_part *part)
{
    htc_reader     r = htc_reader_of((htc_bytes){ part->ops + part->ops_at, part->ops_len - part->ops_at });
    htc_kv_request q = { .size = sizeof q };
    htc__kv_op_read(&r, &q);
    htc__kv_part *anew = part_make(c, &q, (uint32_t[]){ 0 }, 1, part->index[part->first]);
    if (!anew)
        return HTC_ENOMEM;
    anew->submission = part->submission;
    anew->order = part->order;
    anew->sequence = part->sequence + part->first;
    anew->give_up = part->give_up;
    anew->anew = part->anew + 1;
    htc__kv_queue_enter(c, anew);
    assert(part->held > 0);
    part->held--;
    skip_ops(part, 1);
    return HTC_OK;
}

static int goes_anew(const htc__kv_part *part, const htc_kv_result *a)
{
    return a->status == HTC_AGAIN && part->sends == 1 && part->anew < ANEW_MAX;
}

/* The answers from here on that the user gets, then one that is no answer. */
static htc_status take_answers(htc_kv_client *c, htc__kv_part *part, htc_reader *r, size_t *left)
{
    htc_reader    at = *r;
    htc_kv_result result = { .size = sizeof result };
    size_t        n = 0, bytes = 0;
    for (; n < *left; n++, bytes = htc_reader_left(r) - htc_reader_left(&at)) {
        htc__kv_result_read(&at, &result);
        if (goes_anew(part, &result))
            break;
    }
    if (n > 0) {
        htc__kv_answers *answers = answers_make(c, part, HTC_OK, n, (htc_bytes){ r->p, bytes });
        if (!answers)
            return HTC_ENOMEM;
        answers->repeated = part->sends > 1;
        assert(c->pending >= n);
        c->pending -= n;
        answers_add(c, answers);
        skip_ops(part, n);
    }
    *left -= n;
    if (*left == 0)
        return HTC_OK;
    *r = at;
    --*left;
    return send_anew(c, part);
}

static htc_status answered(htc_kv_client *c, htc__kv_part *part, const htc__kv_answer_head *head, htc_reader r,
                           htc_ns now)
{
    size_t count = head->count;
    if (count > part->count - part->first || !readable(r, count) || ((head->more & HTC__KV_MORE) && count == 0))
        return HTC_OK; /* not from our server: as if it had been lost */
    if (head->first != part->first - part->sent_first)
        return HTC_OK; /* a piece that was there already, or one that overtook another */
    /* What the server says it has not executed was not executed by this transmission; if it was the only one, never. */
    uint32_t sends = part->sends == 1 ? 0 : part->sends;
    if (count == 0) {
        part->sends = sends;
        part->put_off = 1;
        part->due = later(now, PUSHED_BACK);
        if (part->due < c->next_due)
            c->next_due = part->due;
        return HTC_OK;
    }
    while (count > 0) {
        htc_status status = take_answers(c, part, &r, &count);
        if (status != HTC_OK)
            return status; /* the rest is sent again, later */
    }
    if (part->first == part->count) {
        htc__kv_queue_leave(c, part);
        if (part->held == 0)
            part_free(c, part);
    } else if (!(head->more & HTC__KV_MORE)) {
        part->sends = sends;
        htc__kv_parts_remove(&c->sent, part);
        part->state = HTC__KV_PART_READY;
        htc__kv_parts_add(&c->ready, part);
    }
    return HTC_OK;
}

/* Also by what came too late: then another transmission was the latest. Pages and long values take long, whoever answers. */
static void note_pace(htc_kv_client *c, htc__kv_link *link, uint64_t serial, const htc__kv_part *part, htc_ns now)
{
    const htc__kv_passed *late = htc__kv_passed_find(&c->passed_on, serial, (uint64_t)(link - c->links));
    if (late || (part && !part->scans && htc__kv_patience(part->ops_len) == 0))
        htc__kv_latency_answered(&link->pace, now, late ? late->given : part->left_at, c->options.retry_ns);
}

static htc_status kv_answer(htc_kv_client *c, htc__kv_link *link, uint64_t serial, htc_reader r, htc_ns now)
{
    htc__kv_answer_head head;
    htc__kv_answer_read(&r, &head);
    uint64_t clock = head.clock, session = head.session;
    if (r.status != HTC_OK || session == 0 || serial < link->serial_first || serial > c->serial || !link->welcomed)
        return HTC_OK;
    htc__kv_heard(c);
    if (clock > c->clock)
        c->clock = clock;
    if (session != link->session) {
        htc__kv_link_session(c, link, session);
        return HTC_OK;
    }
    if (head.more & HTC__KV_ELSEWHERE)
        htc__kv_owners_wanted(c, now);
    htc__kv_part *part = part_of(c, serial);
    if (head.count && !(head.more & HTC__KV_MORE))
        note_pace(c, link, serial, part, now);
    return part && part->link == (uint32_t)(link - c->links) ? answered(c, part, &head, r, now) : HTC_OK;
}

/* ---------------------------------------------------------------- the machine */

static htc_status message(htc_kv_client *c, htc__kv_link *link, const htc_input *in, htc_output *out)
{
    uint16_t   type;
    uint64_t   id;
    htc_reader r = htc_wire_open(in->body, &type, &id);
    if (r.status != HTC_OK || !link->connected)
        return HTC_OK;
    link->misses = 0;
    link->silent_until = 0;
    if (type == HTC_WIRE_KV_ANSWER)
        return kv_answer(c, link, id, r, in->now);
    if (type == HTC_WIRE_KV_EVENTS && link == &c->links[HTC__KV_HOME])
        htc__kv_watched_events(c, id, r);
    if (type == HTC_WIRE_KV_OWNERS)
        htc__kv_owners_told(c, id, r, in->now, out);
    if (type == HTC_WIRE_WELCOME && !link->welcomed)
        return htc__kv_link_welcomed(c, link, r, in->now, out);
    if (type == HTC_WIRE_ERROR) {
        htc_status why = (htc_status)(int32_t)htc_get_u32(&r);
        htc__kv_refused(c, why, in->now);
    }
    return HTC_OK;
}

/* It was not answered in time: another owner may, and who has which key may be another by now. */
static htc_status repeat(htc_kv_client *c, htc__kv_part *part, htc_ns now, htc_output *out)
{
    if (!part->put_off) {
        htc__kv_link_missed(c, &c->links[part->link], now);
        if (!part->scans && htc__kv_patience(part->ops_len) == 0)
            htc__kv_passed_note(&c->passed_on, part->serial, part->link, part->left_at);
        htc__kv_owners_wanted(c, now);
    }
    return transmit(c, part, htc__kv_owners_route(c, part, now, out), now, out);
}

static htc_status timeout(htc_kv_client *c, htc_ns now, htc_output *out)
{
    htc_status status = htc__kv_links_timeout(c, now, out);
    if (status != HTC_OK || now < c->next_due)
        return status;
    c->next_due = HTC_NEVER;
    htc__kv_list_of_parts *lists[] = { &c->sent, &c->ready, &c->waiting };
    for (size_t i = 0; i < 3; i++) {
        for (htc__kv_part *part = lists[i]->first, *next; part; part = next) {
            status = HTC_OK;
            next = part->next;
            if (now >= part->give_up) {
                /* Who becomes ready by it is sent or given up in this or the next turn. */
                status = part_ends(c, part, HTC_ETIMEDOUT);
                next = lists[i]->first;
            } else if (i == 0 && now >= part->due) {
                status = repeat(c, part, now, out);
                if (status == HTC_EFULL && htc_output_count(out) > 0) {
                    c->next_due = now;
                    return HTC_OK;
                }
            }
            if (status != HTC_OK)
                return status;
        }
        for (const htc__kv_part *part = lists[i]->first; part; part = part->next) {
            htc_ns due = i == 0 && part->due < part->give_up ? part->due : part->give_up;
            if (due < c->next_due)
                c->next_due = due;
        }
    }
    return HTC_OK;
}

htc_status htc_kv_client_step(htc_kv_client *c, const htc_input *given, htc_output *out)
{
    htc_input  room;
    htc_status status = HTC_EINVAL;
    if (!c || !out)
        return status;
    const htc_input *in = htc__input_known(given, &room, &status);
    if (!in)
        return status;
    htc__kv_link *link = htc__kv_link_of(c, in->peer);
    switch ((htc_input_kind)in->kind) {
    case HTC_IN_OPENED:
        if (!link)
            return HTC_OK;
        status = htc__kv_link_opened(c, link, in->now, out);
        break;
    case HTC_IN_CLOSED:
        if (!link)
            break;
        htc__kv_link_closed(c, link);
        htc__kv_owners_wanted(c, in->now);
        break;
    case HTC_IN_MESSAGE:
        if (link)
            status = message(c, link, in, out);
        break;
    case HTC_IN_START:
    case HTC_IN_TIMEOUT:
    case HTC_IN_STORED:
    case HTC_IN_RESULT:
    case HTC_IN_EVENT:
    case HTC_IN_BYTES:
    case HTC_IN_SENT:
    case HTC_IN_TURN:
    case HTC_IN_FRAMES:
        break;
    default:
        return HTC_EUNSUPPORTED;
    }
    if (status == HTC_OK)
        status = timeout(c, in->now, out);
    if (status == HTC_OK)
        status = send_ready(c, in->now, out);
    if (status == HTC_OK)
        status = htc__kv_owners_send(c, in->now, out);
    return status == HTC_OK ? htc__kv_watched_send(c, in->now, out) : status;
}

htc_ns htc_kv_client_deadline(const htc_kv_client *c)
{
    if (c->sessions && c->ready.first)
        return 0;
    htc_ns due = c->pending ? c->next_due : HTC_NEVER;
    htc_ns others[] = { htc__kv_watched_deadline(c), htc__kv_links_deadline(c), htc__kv_owners_deadline(c) };
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        due = others[i] < due ? others[i] : due;
    return due;
}

int htc_kv_client_connected(const htc_kv_client *c)
{
    return c->links[HTC__KV_HOME].welcomed;
}

size_t htc_kv_client_pending(const htc_kv_client *c)
{
    return c->pending;
}

/* ---------------------------------------------------------------- submitting */

/* Is the key of this change also changed by one before it? seen has a bit for each of those, by their hashes: most often one look is enough. */
static int seen_before(const htc_kv_request *requests, size_t at, uint64_t *seen)
{
    uint64_t hash = htc_hash64(requests[at].key, 0) % SEEN_BITS, bit = (uint64_t)1 << hash % 64;
    int      maybe = (seen[hash / 64] & bit) != 0;
    seen[hash / 64] |= bit;
    for (size_t i = 0; maybe && i < at; i++)
        if (htc__kv_is_change(requests[i].op) && htc_bytes_equal(requests[i].key, requests[at].key))
            return 1;
    return 0;
}

/* How many of the requests the next message takes: no key changed twice (the store's record of a key lists one change
 * of each client), about PART_MAX bytes. */
static size_t part_take(const htc_kv_request *requests, size_t n)
{
    size_t   bytes = 0;
    uint64_t seen[SEEN_BITS / 64] = { 0 };
    for (size_t i = 0; i < n; i++) {
        const htc_kv_request *q = &requests[i];
        bytes += q->key.len + q->value.len + q->seen.len + q->cursor.len + q->space.len + q->context.len + 32;
        if (i > 0 && (bytes > PART_MAX || i == PART_COUNT_MAX || q->op == HTC_KV_LEASE_REVOKE ||
                      requests[i - 1].op == HTC_KV_LEASE_REVOKE))
            return i;
        if (htc__kv_is_change(q->op) && seen_before(requests, i, seen))
            return i;
    }
    return n;
}

static htc_status check(const htc_kv_client *c, const htc_kv_request *requests, size_t n)
{
    size_t bytes = c->bytes;
    for (size_t i = 0; i < n; i++) {
        if (htc__kv_op_check(&requests[i]) != HTC_OK)
            return HTC_EINVAL;
        bytes += requests[i].key.len + requests[i].value.len + requests[i].seen.len + requests[i].context.len;
    }
    if (n > c->options.inflight_max - c->pending || bytes > c->options.bytes_max)
        return HTC_EFULL;
    return HTC_OK;
}

/* These n, as one part for each owner that is to be asked; in the order of their first ones. 0: no memory. */
static int parts_take(htc_kv_client *c, const htc_kv_request *requests, size_t n, uint32_t base, htc__kv_list_of_parts *parts)
{
    uint32_t group[PART_COUNT_MAX], which[PART_COUNT_MAX];
    for (size_t i = 0; i < n; i++)
        group[i] = htc__kv_owners_group(c, &requests[i]);
    for (size_t i = 0; i < n; i++) {
        uint32_t count = 0, whose = group[i];
        if (whose == TAKEN)
            continue;
        for (size_t j = i; j < n; j++)
            if (group[j] == whose) {
                which[count++] = (uint32_t)j;
                group[j] = TAKEN;
            }
        htc__kv_part *part = part_make(c, requests, which, count, base);
        if (!part)
            return 0;
        htc__kv_parts_add(parts, part);
    }
    return 1;
}

static htc_status submit(htc_kv_client *c, htc_ns now, const htc_kv_request *requests, size_t n, uint64_t tag, htc_output *out)
{
    htc_status            status = check(c, requests, n);
    htc__kv_list_of_parts parts = { NULL, NULL };
    if (status != HTC_OK)
        return status;
    htc__kv_submission *submission = htc__alloc(&c->env, sizeof *submission);
    if (!submission)
        return HTC_ENOMEM;
    *submission = (htc__kv_submission){ tag, n };
    for (size_t at = 0, take; at < n; at += take) {
        take = part_take(requests + at, n - at);
        if (parts_take(c, requests + at, take, (uint32_t)at, &parts))
            continue;
        for (htc__kv_part *part; (part = parts.first);) {
            htc__kv_parts_remove(&parts, part);
            part_free(c, part);
        }
        htc__free(&c->env, submission, sizeof *submission);
        return HTC_ENOMEM;
    }
    c->pending += n;
    for (htc__kv_part *part; (part = parts.first);) {
        htc__kv_parts_remove(&parts, part);
        part->submission = submission;
        part->order = ++c->order;
        part->sequence = c->sequence;
        c->sequence += part->count;
        part->give_up = c->options.timeout_ns ? later(now, c->options.timeout_ns) : HTC_NEVER;
        if (part->give_up < c->next_due)
            c->next_due = part->give_up;
        htc__kv_queue_enter(c, part);
    }
    /* Taken. If it cannot leave now, for want of memory or room, it leaves later: deadline says at once. */
    (void)send_ready(c, now, out);
    htc__kv_watched_along(c, now, out);
    return HTC_OK;
}

htc_status htc_kv_client_submit(htc_kv_client *c, htc_ns now, const htc_kv_request *requests, size_t n, uint64_t tag,
                                htc_output *out)
{
    if (!c || !requests || n == 0 || !out)
        return HTC_EINVAL;
    const htc_kv_request *known;
    htc_kv_request       *made;
    htc_status            status = htc__kv_requests_known(&c->env, requests, n, &known, &made);
    if (status == HTC_OK)
        status = submit(c, now, known, n, tag, out);
    htc__kv_requests_free(&c->env, made, n);
    return status;
}

/* ---------------------------------------------------------------- answers for the user */

static void drop_lent(htc_kv_client *c)
{
    htc__kv_answers *lent = c->lent;
    c->lent = NULL;
    if (!lent)
        return;
    htc__kv_part       *part = lent->part;
    htc__kv_submission *submission = part->submission;
    part->held -= (uint32_t)lent->count;
    if (part->held == 0 && part->state == HTC__KV_PART_ANSWERED)
        part_free(c, part);
    submission_done(c, submission, lent->count);
    htc__free(&c->env, lent, sizeof *lent + lent->len);
}

/* A failure told to a repeated end of a lease may be the success of the first: the record that knew it is gone. Who sent a change
 * more than once does not know whether nobody has executed it (HTC_AGAIN). */
static htc_status told(const htc__kv_answers *a, uint32_t op, htc_status status)
{
    if (status == HTC_AGAIN)
        return HTC_EUNKNOWN;
    if (a->repeated && status == HTC_EUNSUPPORTED && htc__kv_is_change(op))
        return HTC_EUNKNOWN; /* whom it was sent to first may be of a later version, and have made it */
    return a->repeated && op == HTC_KV_LEASE_REVOKE && status == HTC_ENOTFOUND ? HTC_EUNKNOWN : status;
}

int htc_kv_client_next(htc_kv_client *c, htc_kv_result *out)
{
    if (!c || !htc__kv_result_fits(out))
        return 0;
    if (c->lent && c->lent->told == c->lent->count)
        drop_lent(c);
    if (!c->lent) {
        if (!(c->lent = c->answers))
            return 0;
        if (!(c->answers = c->lent->next))
            c->answers_last = &c->answers;
    }
    htc__kv_answers *a = c->lent;
    htc__kv_part    *part = a->part;
    htc_kv_request   q = { .size = sizeof q };
    htc_reader       ops = htc_reader_of((htc_bytes){ part->ops + a->ops_at, part->ops_len - a->ops_at });
    htc_reader       r = htc_reader_of((htc_bytes){ a->bytes + a->at, a->len - a->at });
    htc__kv_op_read(&ops, &q);
    a->ops_at = part->ops_len - htc_reader_left(&ops);
    htc_kv_result result = { .size = sizeof result, .status = a->status };
    if (a->status == HTC_OK) {
        htc__kv_result_read(&r, &result);
        a->at = a->len - htc_reader_left(&r);
    }
    result.tag = part->submission->tag;
    result.index = part->index[a->first + a->told];
    result.op = q.op;
    result.status = told(a, q.op, result.status);
    a->told++;
    result.last = part->submission->left == a->told;
    htc__kv_result_give(out, &result);
    return 1;
}

/* ---------------------------------------------------------------- life */

htc_status htc_kv_client_create(const htc_env *env, const htc_kv_client_options *options, htc_kv_client **out)
{
    htc_kv_client_options o = { 0 };
    if (!options || !out)
        return HTC_EINVAL;
    htc_status status =
        htc__options_copy(&o, sizeof o, options, options->size, offsetof(htc_kv_client_options, inflight_max));
    if (status != HTC_OK)
        return status;
    if (o.client_id == 0 || o.peer == 0)
        return HTC_EINVAL;
    o.inflight_max = o.inflight_max ? o.inflight_max : 4096;
    o.bytes_max = o.bytes_max ? o.bytes_max : (size_t)64 << 20;
    o.retry_ns = o.retry_ns ? o.retry_ns : HTC_SECOND;
    o.watches_max = o.watches_max ? o.watches_max : 1024;
    o.watch_keys_max = o.watch_keys_max ? o.watch_keys_max : 262144;
    if (o.retry_ns > HTC_NEVER / 32 || o.members > HTC__KV_MAP_MEMBERS ||
        (o.members && o.peer - o.member_peer < o.members))
        return HTC_EINVAL; /* also where two of its connections would have one number */
    htc_kv_client *c = htc__alloc(env, sizeof *c);
    if (!c)
        return HTC_ENOMEM;
    c->slot_count = 64;
    while (c->slot_count < o.inflight_max && c->slot_count < 8192)
        c->slot_count *= 2;
    if (env)
        c->env = *env;
    c->options = o;
    c->slots = htc__alloc(env, c->slot_count * sizeof *c->slots);
    if (!c->slots || htc__kv_links_make(c) != HTC_OK) {
        htc__free(env, c->slots, c->slot_count * sizeof *c->slots);
        htc__free(env, c, sizeof *c);
        return HTC_ENOMEM;
    }
    c->sequence = 1;
    c->next_due = HTC_NEVER;
    c->answers_last = &c->answers;
    htc_buf_init(&c->message, env, HTC_WIRE_MESSAGE_MAX);
    htc__kv_watched_init(c);
    htc__kv_owners_init(c);
    *out = c;
    return HTC_OK;
}

void htc_kv_client_destroy(htc_kv_client *c)
{
    if (!c)
        return;
    htc__kv_list_of_parts *lists[] = { &c->sent, &c->ready, &c->waiting };
    while (c->lent || c->answers) {
        if (!c->lent) {
            c->lent = c->answers;
            c->answers = c->answers->next;
        }
        drop_lent(c);
    }
    for (size_t i = 0; i < 3; i++)
        for (htc__kv_part *part; (part = lists[i]->first);) {
            htc__kv_parts_remove(lists[i], part);
            submission_done(c, part->submission, part->count - part->first);
            part_free(c, part);
        }
    htc__kv_watched_free(c);
    htc__kv_owners_free(c);
    htc__kv_links_free(c);
    htc_env env = c->env;
    htc_buf_free(&c->message);
    htc__free(&env, c->slots, c->slot_count * sizeof *c->slots);
    htc__free(&env, c, sizeof *c);
}
