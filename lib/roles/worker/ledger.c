#include <assert.h>
#include <string.h>

#include "core/fault.h"
#include "htcsched/runtime.h"
#include "roles/worker/ledger.h"

#define LEDGER_FORMAT 2

/* ---- sets ---- */

uint64_t htc__ids_count(const ledger_ids *s)
{
    uint64_t n = 0;
    for (uint32_t i = 0; i < s->n; i++)
        n += s->at[i].to - s->at[i].from;
    return n;
}

/* The first span that ends behind id; s->n: none. */
static uint32_t place_of(const ledger_ids *s, uint64_t id)
{
    uint32_t low = 0, high = s->n;
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        if (s->at[middle].to > id)
            high = middle;
        else
            low = middle + 1;
    }
    return low;
}

int htc__ids_has(const ledger_ids *s, ledger_span ids)
{
    uint32_t i = place_of(s, ids.from);
    return ids.from < ids.to && i < s->n && s->at[i].from <= ids.from && s->at[i].to >= ids.to;
}

static void drop(ledger_ids *s, uint32_t i)
{
    memmove(&s->at[i], &s->at[i + 1], (s->n - i - 1) * sizeof s->at[0]);
    s->n--;
}

static htc_status insert(ledger_ids *s, uint32_t i, ledger_span ids)
{
    if (s->n == LEDGER_LIVE_MAX)
        return HTC_EFULL;
    memmove(&s->at[i + 1], &s->at[i], (s->n - i) * sizeof s->at[0]);
    s->at[i] = ids;
    s->n++;
    return HTC_OK;
}

htc_status htc__ids_add(ledger_ids *s, ledger_span ids)
{
    uint32_t i = place_of(s, ids.from);
    if (ids.from >= ids.to || (i < s->n && s->at[i].from < ids.to))
        return HTC_EINVAL;
    int before = i > 0 && s->at[i - 1].to == ids.from, behind = i < s->n && s->at[i].from == ids.to;
    if (before && behind) {
        s->at[i - 1].to = s->at[i].to;
        drop(s, i);
    } else if (before) {
        s->at[i - 1].to = ids.to;
    } else if (behind) {
        s->at[i].from = ids.from;
    } else {
        return insert(s, i, ids);
    }
    return HTC_OK;
}

htc_status htc__ids_remove(ledger_ids *s, ledger_span ids)
{
    uint32_t i = place_of(s, ids.from);
    if (!htc__ids_has(s, ids))
        return HTC_EINVAL;
    ledger_span whole = s->at[i];
    if (whole.from < ids.from && ids.to < whole.to) {
        htc_status status = insert(s, i + 1, (ledger_span){ ids.to, whole.to });
        if (status != HTC_OK)
            return status;
        s->at[i].to = ids.from;
    } else if (whole.from < ids.from) {
        s->at[i].to = ids.from;
    } else if (ids.to < whole.to) {
        s->at[i].from = ids.to;
    } else {
        drop(s, i);
    }
    return HTC_OK;
}

/* ---- steps ---- */

void htc__ledger_init(ledger *l, ledger_span live)
{
    memset(l, 0, sizeof *l);
    l->next_note = 1;
    if (live.from < live.to)
        (void)htc__ids_add(&l->live, live); /* the first one has room */
}

int htc__ledger_is_of(const ledger *l, uint64_t worker, uint64_t epoch)
{
    return worker && l->worker == worker && l->epoch == epoch;
}

void htc__ledger_take(ledger *l, uint64_t worker, uint64_t epoch)
{
    l->worker = worker;
    l->epoch = epoch;
}

/* All of them leave live, or none does. */
static htc_status leave(ledger *l, const ledger_span *ids, size_t n)
{
    htc_status status = HTC_OK;
    size_t     i = 0;
    while (i < n && status == HTC_OK) {
        status = htc__ids_remove(&l->live, ids[i]);
        i += status == HTC_OK;
    }
    for (; status != HTC_OK && i > 0; i--)
        (void)htc__ids_add(&l->live, ids[i - 1]); /* where it was there is room */
    return status;
}

/* Those of tasks that are not live any more. */
static void forget_tries(ledger *l)
{
    uint32_t kept = 0;
    for (uint32_t i = 0; i < l->n_tries; i++)
        if (htc__ids_has(&l->live, (ledger_span){ l->tries[i].id, l->tries[i].id + 1 }))
            l->tries[kept++] = l->tries[i];
    l->n_tries = kept;
}

htc_status htc__ledger_commit(ledger *l, const ledger_span *ids, size_t n, const ledger_counts *counts)
{
    uint64_t tasks = 0;
    for (size_t i = 0; i < n; i++)
        tasks += ids[i].to - ids[i].from;
    if (counts->done > tasks || counts->failed > tasks - counts->done || counts->cancelled != tasks - counts->done - counts->failed)
        return HTC_EINVAL;
    htc_status status = leave(l, ids, n);
    if (status != HTC_OK)
        return status;
    if (l->n_tries)
        forget_tries(l);
    l->counts.done += counts->done;
    l->counts.failed += counts->failed;
    l->counts.cancelled += counts->cancelled;
    return HTC_OK;
}

uint64_t htc__ledger_failures(const ledger *l, uint64_t id)
{
    for (uint32_t i = 0; i < l->n_tries; i++)
        if (l->tries[i].id == id)
            return l->tries[i].failures;
    return 0;
}

htc_status htc__ledger_try_again(ledger *l, uint64_t id, uint64_t *failures)
{
    uint32_t i = 0;
    if (!htc__ids_has(&l->live, (ledger_span){ id, id + 1 }))
        return HTC_EINVAL;
    while (i < l->n_tries && l->tries[i].id != id)
        i++;
    if (i == LEDGER_TRIES_MAX) {
        *failures = 1;
        return HTC_OK;
    }
    if (i == l->n_tries)
        l->tries[l->n_tries++] = (ledger_try){ id, 0 };
    *failures = ++l->tries[i].failures;
    return HTC_OK;
}

htc_status htc__ledger_give(ledger *l, const ledger_span *ids, uint32_t n, uint64_t to, uint64_t *note)
{
    if (l->n_out == LEDGER_OUT_MAX || n > LEDGER_NOTE_MAX)
        return HTC_EFULL;
    htc_status status = n ? leave(l, ids, n) : HTC_EINVAL;
    if (status != HTC_OK)
        return status;
    if (l->n_tries)
        forget_tries(l);
    *note = l->next_note++;
    if (HTC__BROKEN(note_number_reused))
        for (*note = 1; htc__ledger_note(l, *note); ++*note)
            ;
    ledger_note *o = &l->out[l->n_out++];
    *o = (ledger_note){ .note = *note, .ledger = to, .n = n };
    memcpy(o->ids, ids, n * sizeof *ids);
    return HTC_OK;
}

uint64_t htc__ledger_note_tasks(const ledger_note *n)
{
    uint64_t tasks = 0;
    for (uint32_t i = 0; i < n->n; i++)
        tasks += n->ids[i].to - n->ids[i].from;
    return tasks;
}

const ledger_note *htc__ledger_note(const ledger *l, uint64_t note)
{
    for (uint32_t i = 0; i < l->n_out; i++)
        if (l->out[i].note == note)
            return &l->out[i];
    return NULL;
}

int htc__ledger_accepted(const ledger *l, uint64_t from, uint64_t note)
{
    for (uint32_t i = 0; i < l->n_in; i++)
        if (l->in[i].ledger == from && l->in[i].note == note)
            return 1;
    return 0;
}

htc_status htc__ledger_accept(ledger *l, uint64_t self, const ledger *from, uint64_t from_number, uint64_t note, const ledger_note **given)
{
    const ledger_note *n = htc__ledger_note(from, note);
    if (htc__ledger_accepted(l, from_number, note))
        return HTC_EEXISTS;
    if (!n || n->ledger != self)
        return HTC_ENOTFOUND;
    if (l->n_in == LEDGER_IN_MAX)
        return HTC_EFULL;
    for (uint32_t i = 0; i < n->n; i++) {
        htc_status status = htc__ids_add(&l->live, n->ids[i]);
        for (; status != HTC_OK && i > 0; i--)
            (void)htc__ids_remove(&l->live, n->ids[i - 1]); /* it came as a span, and goes as one */
        if (status != HTC_OK)
            return status;
    }
    l->in[l->n_in++] = (ledger_pair){ from_number, note };
    *given = n;
    return HTC_OK;
}

htc_status htc__ledger_clear(ledger *l, uint64_t note)
{
    for (uint32_t i = 0; i < l->n_out; i++)
        if (l->out[i].note == note) {
            l->out[i] = l->out[--l->n_out];
            return HTC_OK;
        }
    return HTC_ENOTFOUND;
}

htc_status htc__ledger_forget(ledger *l, uint64_t from, uint64_t note)
{
    for (uint32_t i = 0; i < l->n_in; i++)
        if (l->in[i].ledger == from && l->in[i].note == note) {
            l->in[i] = l->in[--l->n_in];
            return HTC_OK;
        }
    return HTC_ENOTFOUND;
}

/* ---- as a record ---- */

void htc__ledger_counts_write(htc_buf *b, const ledger_counts *c)
{
    htc_put_varint(b, c->done);
    htc_put_varint(b, c->failed);
    htc_put_varint(b, c->cancelled);
}

void htc__ledger_counts_read(htc_reader *r, ledger_counts *c)
{
    c->done = htc_get_varint(r);
    c->failed = htc_get_varint(r);
    c->cancelled = htc_get_varint(r);
}

/* A set: pieces in order, each from the end of the one before, the first from 0. varint what, varint distance: what 0: there are no more,
 * without a distance; 1: u64, the tasks among 64, the lowest bit the first, which is in it; else a span of what - 1 tasks. Where three spans
 * begin within 64 tasks these are bits. */
static void put_ids(htc_buf *b, const ledger_ids *s)
{
    uint64_t last = 0;
    for (uint32_t i = 0; i < s->n;) {
        uint64_t from = s->at[i].from > last ? s->at[i].from : last; /* the rest of a span that bits have begun */
        if (i + 2 >= s->n || s->at[i + 2].from - from >= 64) {
            htc_put_varint(b, s->at[i].to - from + 1);
            htc_put_varint(b, from - last);
            last = s->at[i++].to;
            continue;
        }
        htc_put_varint(b, 1);
        htc_put_varint(b, from - last);
        uint64_t bits = 0;
        for (last = from + 64; i < s->n && s->at[i].from < last; i++) {
            uint64_t to = s->at[i].to < last ? s->at[i].to : last;
            for (uint64_t id = s->at[i].from > from ? s->at[i].from : from; id < to; id++)
                bits |= UINT64_C(1) << (id - from);
            if (s->at[i].to > last)
                break;
        }
        htc_put_u64(b, bits);
    }
    htc_put_varint(b, 0);
}

void htc__ledger_write(htc_buf *b, const ledger *l)
{
    htc_runtime_record_begin(b, LEDGER_FORMAT);
    htc_put_varint(b, l->worker);
    htc_put_varint(b, l->epoch);
    htc_put_varint(b, l->next_note);
    htc__ledger_counts_write(b, &l->counts);
    put_ids(b, &l->live);
    htc_put_varint(b, l->n_out);
    for (uint32_t i = 0; i < l->n_out; i++) {
        htc_put_varint(b, l->out[i].note);
        htc_put_varint(b, l->out[i].ledger);
        htc_put_varint(b, l->out[i].n);
        for (uint32_t k = 0; k < l->out[i].n; k++) {
            htc_put_varint(b, l->out[i].ids[k].from);
            htc_put_varint(b, l->out[i].ids[k].to - l->out[i].ids[k].from);
        }
    }
    htc_put_varint(b, l->n_in);
    for (uint32_t i = 0; i < l->n_in; i++) {
        htc_put_varint(b, l->in[i].ledger);
        htc_put_varint(b, l->in[i].note);
    }
    htc_put_varint(b, l->n_tries);
    for (uint32_t i = 0; i < l->n_tries; i++) {
        htc_put_varint(b, l->tries[i].id);
        htc_put_varint(b, l->tries[i].failures);
    }
    if (b->status == HTC_OK && b->len > LEDGER_BYTES_MAX)
        b->status = HTC_EFULL;
    htc__outcome_log_write(b, &l->log);
}

static void need(htc_reader *r, int condition)
{
    if (!condition)
        htc_reader_fail(r);
}

/* from and how many: no number passes the last there is. */
static ledger_span get_span(htc_reader *r)
{
    uint64_t from = htc_get_varint(r), n = htc_get_varint(r);
    need(r, n > 0 && n <= UINT64_MAX - from);
    return r->status == HTC_OK ? (ledger_span){ from, from + n } : (ledger_span){ 0, 0 };
}

static void get_bits(htc_reader *r, ledger_ids *s, uint64_t from)
{
    uint64_t bits = htc_get_u64(r);
    need(r, bits & 1);
    for (uint64_t i = 0; i < 64 && r->status == HTC_OK; i++)
        if (bits >> i & 1)
            need(r, htc__ids_add(s, (ledger_span){ from + i, from + i + 1 }) == HTC_OK);
}

static void get_ids(htc_reader *r, ledger_ids *s)
{
    uint64_t last = 0, what;
    while ((what = htc_get_varint(r)) != 0 && r->status == HTC_OK) {
        uint64_t distance = htc_get_varint(r), n = what == 1 ? 64 : what - 1;
        need(r, distance <= UINT64_MAX - last && n <= UINT64_MAX - last - distance);
        if (r->status != HTC_OK)
            return;
        last += distance;
        if (what == 1)
            get_bits(r, s, last);
        else
            need(r, htc__ids_add(s, (ledger_span){ last, last + n }) == HTC_OK);
        last += n;
    }
}

static void get_note(htc_reader *r, ledger *l, ledger_note *o)
{
    o->note = htc_get_varint(r);
    o->ledger = htc_get_varint(r);
    uint64_t n = htc_get_varint(r);
    need(r, n > 0 && n <= LEDGER_NOTE_MAX && o->note > 0 && o->note < l->next_note && !htc__ledger_note(l, o->note));
    for (; o->n < n && r->status == HTC_OK; o->n++)
        o->ids[o->n] = get_span(r);
}

htc_status htc__ledger_read(htc_bytes bytes, ledger *l)
{
    htc_reader r;
    memset(l, 0, sizeof *l);
    htc_runtime_record_open(bytes, LEDGER_FORMAT, LEDGER_FORMAT, &r);
    l->worker = htc_get_varint(&r);
    l->epoch = htc_get_varint(&r);
    l->next_note = htc_get_varint(&r);
    htc__ledger_counts_read(&r, &l->counts);
    need(&r, bytes.len <= LEDGER_BYTES_MAX + OUTCOME_LOG_MAX + 16 && l->next_note > 0);
    get_ids(&r, &l->live);
    uint64_t n = htc_get_varint(&r);
    need(&r, n <= LEDGER_OUT_MAX);
    for (uint64_t i = 0; i < n && r.status == HTC_OK; i++) {
        get_note(&r, l, &l->out[i]);
        l->n_out = (uint32_t)i + 1;
    }
    n = htc_get_varint(&r);
    need(&r, n <= LEDGER_IN_MAX);
    for (uint64_t i = 0; i < n && r.status == HTC_OK; i++) {
        l->in[i].ledger = htc_get_varint(&r);
        l->in[i].note = htc_get_varint(&r);
        need(&r, !htc__ledger_accepted(l, l->in[i].ledger, l->in[i].note));
        l->n_in = (uint32_t)i + 1;
    }
    n = htc_get_varint(&r);
    need(&r, n <= LEDGER_TRIES_MAX);
    for (uint64_t i = 0; i < n && r.status == HTC_OK; i++) {
        l->tries[i].id = htc_get_varint(&r);
        l->tries[i].failures = htc_get_varint(&r);
        need(&r, l->tries[i].failures > 0 && htc__ledger_failures(l, l->tries[i].id) == 0 &&
                     htc__ids_has(&l->live, (ledger_span){ l->tries[i].id, l->tries[i].id + 1 }));
        l->n_tries = (uint32_t)i + 1;
    }
    need(&r, bytes.len - htc_reader_left(&r) <= LEDGER_BYTES_MAX);
    htc__outcome_log_read(&r, &l->log);
    return htc_runtime_record_end(&r);
}
