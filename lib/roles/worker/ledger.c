#include <assert.h>
#include <string.h>

#include "core/fault.h"
#include "htcsched/runtime.h"
#include "roles/worker/ledger.h"

#define LEDGER_FORMAT 1

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

htc_status htc__ledger_commit(ledger *l, const ledger_span *ids, size_t n, const ledger_counts *counts)
{
    ledger_ids live = l->live;
    uint64_t   tasks = 0;
    for (size_t i = 0; i < n; i++) {
        htc_status status = htc__ids_remove(&live, ids[i]);
        if (status != HTC_OK)
            return status;
        tasks += ids[i].to - ids[i].from;
    }
    if (counts->done > tasks || counts->failed > tasks - counts->done || counts->cancelled != tasks - counts->done - counts->failed)
        return HTC_EINVAL;
    l->live = live;
    l->counts.done += counts->done;
    l->counts.failed += counts->failed;
    l->counts.cancelled += counts->cancelled;
    return HTC_OK;
}

htc_status htc__ledger_give(ledger *l, ledger_span ids, uint64_t to, uint64_t *note)
{
    if (l->n_out == LEDGER_OUT_MAX)
        return HTC_EFULL;
    htc_status status = htc__ids_remove(&l->live, ids);
    if (status != HTC_OK)
        return status;
    *note = l->next_note++;
    if (HTC__BROKEN(note_number_reused))
        for (*note = 1; htc__ledger_note(l, *note); ++*note)
            ;
    l->out[l->n_out++] = (ledger_note){ *note, to, ids };
    return HTC_OK;
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

htc_status htc__ledger_accept(ledger *l, uint64_t self, const ledger *from, uint64_t from_number, uint64_t note, ledger_span *ids)
{
    const ledger_note *n = htc__ledger_note(from, note);
    if (htc__ledger_accepted(l, from_number, note))
        return HTC_EEXISTS;
    if (!n || n->ledger != self)
        return HTC_ENOTFOUND;
    if (l->n_in == LEDGER_IN_MAX)
        return HTC_EFULL;
    htc_status status = htc__ids_add(&l->live, n->ids);
    if (status != HTC_OK)
        return status;
    l->in[l->n_in++] = (ledger_pair){ from_number, note };
    *ids = n->ids;
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

void htc__ledger_write(htc_buf *b, const ledger *l)
{
    htc_runtime_record_begin(b, LEDGER_FORMAT);
    htc_put_varint(b, l->worker);
    htc_put_varint(b, l->epoch);
    htc_put_varint(b, l->next_note);
    htc__ledger_counts_write(b, &l->counts);
    htc_put_varint(b, l->live.n);
    uint64_t last = 0;
    for (uint32_t i = 0; i < l->live.n; i++) { /* each from the end of the one before */
        htc_put_varint(b, l->live.at[i].from - last);
        htc_put_varint(b, l->live.at[i].to - l->live.at[i].from);
        last = l->live.at[i].to;
    }
    htc_put_varint(b, l->n_out);
    for (uint32_t i = 0; i < l->n_out; i++) {
        htc_put_varint(b, l->out[i].note);
        htc_put_varint(b, l->out[i].ledger);
        htc_put_varint(b, l->out[i].ids.from);
        htc_put_varint(b, l->out[i].ids.to - l->out[i].ids.from);
    }
    htc_put_varint(b, l->n_in);
    for (uint32_t i = 0; i < l->n_in; i++) {
        htc_put_varint(b, l->in[i].ledger);
        htc_put_varint(b, l->in[i].note);
    }
    if (b->status == HTC_OK && b->len > LEDGER_BYTES_MAX)
        b->status = HTC_EFULL;
}

static void need(htc_reader *r, int condition)
{
    if (!condition)
        htc_reader_fail(r);
}

/* from and how many: no number passes the last there is. */
static ledger_span get_span(htc_reader *r, uint64_t base)
{
    uint64_t from = htc_get_varint(r), n = htc_get_varint(r);
    need(r, from <= UINT64_MAX - base && n > 0 && n <= UINT64_MAX - base - from);
    return r->status == HTC_OK ? (ledger_span){ base + from, base + from + n } : (ledger_span){ 0, 0 };
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
    uint64_t n = htc_get_varint(&r), last = 0;
    need(&r, n <= LEDGER_LIVE_MAX && bytes.len <= LEDGER_BYTES_MAX && l->next_note > 0);
    for (uint64_t i = 0; i < n && r.status == HTC_OK; i++) {
        ledger_span ids = get_span(&r, last);
        need(&r, i == 0 || ids.from > last); /* touching ones are one */
        if (r.status == HTC_OK)
            l->live.at[l->live.n++] = ids;
        last = ids.to;
    }
    n = htc_get_varint(&r);
    need(&r, n <= LEDGER_OUT_MAX);
    for (uint64_t i = 0; i < n && r.status == HTC_OK; i++) {
        ledger_note *o = &l->out[i];
        o->note = htc_get_varint(&r);
        o->ledger = htc_get_varint(&r);
        o->ids = get_span(&r, 0);
        need(&r, o->note > 0 && o->note < l->next_note && !htc__ledger_note(l, o->note));
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
    return htc_runtime_record_end(&r);
}
