#include <stdio.h>
#include <string.h>

#include "core/fault.h"
#include "htcsched/runtime.h"
#include "roles/worker/graph_task.h"

#define GRAPH_FORMAT 2

/* ---- as a record ---- */

static void outcome_write(htc_buf *b, const graph_outcome *o)
{
    htc_put_u8(b, o->ended != 0 || o->reason[0] != 0);
    if (!o->ended && !o->reason[0])
        return;
    htc_put_varint(b, o->worker);
    htc_put_varint(b, o->epoch);
    htc_put_u32(b, o->attempt);
    htc_put_varint(b, o->status);
    htc_put_varint(b, o->exit_code);
    htc_put_varint(b, o->signal);
    htc_put_u64(b, o->began);
    htc_put_u64(b, o->ended);
    htc_put_str(b, o->reason);
}

static uint32_t get_small(htc_reader *r)
{
    uint64_t v = htc_get_varint(r);
    if (v > UINT32_MAX)
        htc_reader_fail(r);
    return (uint32_t)v;
}

static void outcome_read(htc_reader *r, graph_outcome *o)
{
    uint8_t there = htc_get_u8(r);
    if (there > 1)
        htc_reader_fail(r);
    if (there != 1)
        return;
    o->worker = htc_get_varint(r);
    o->epoch = htc_get_varint(r);
    o->attempt = htc_get_u32(r);
    o->status = get_small(r);
    o->exit_code = get_small(r);
    o->signal = get_small(r);
    o->began = htc_get_u64(r);
    o->ended = htc_get_u64(r);
    htc_get_str(r, o->reason, sizeof o->reason);
}

/* Of most tasks there is nothing. */
static void data_write(htc_buf *b, const graph_task *t)
{
    int some = t->reads.len || t->makes.len;
    htc_put_u8(b, some != 0);
    if (!some)
        return;
    htc_put_bytes(b, t->reads);
    htc_put_bytes(b, t->makes);
    htc_put_bytes(b, t->known);
    htc_put_varint(b, t->data);
    htc_put_varint(b, t->moved);
    htc_put_bytes(b, t->made);
    htc_put_varint(b, t->made_by);
    htc_put_varint(b, t->redo_worker);
    htc_put_varint(b, t->redo_epoch);
}

static int names_fit(htc_bytes bytes, int with_maker, uint32_t *n)
{
    htc_reader r = htc_reader_of(bytes);
    for (*n = 0; htc_reader_left(&r) && r.status == HTC_OK; ++*n) {
        if (with_maker)
            (void)htc_get_u64(&r);
        (void)htc_get_bytes(&r);
    }
    return r.status == HTC_OK && *n <= GRAPH_READS_MAX;
}

static int known_fit(htc_bytes known, uint32_t n)
{
    htc_reader r = htc_reader_of(known);
    int        good = known.len % GRAPH_KNOWN_BYTES == 0 && known.len / GRAPH_KNOWN_BYTES <= GRAPH_KNOWN_MAX;
    while (good && htc_reader_left(&r)) {
        good = htc_get_u32(&r) < n;
        (void)htc_get_raw(&r, GRAPH_KNOWN_BYTES - 4);
    }
    return good;
}

static void data_read(htc_reader *r, graph_task *t)
{
    uint32_t reads = 0, makes = 0;
    uint8_t  some = htc_get_u8(r);
    if (some > 1)
        htc_reader_fail(r);
    if (some != 1)
        return;
    t->reads = htc_get_bytes(r);
    t->makes = htc_get_bytes(r);
    t->known = htc_get_bytes(r);
    t->data = htc_get_varint(r);
    t->moved = htc_get_varint(r);
    t->made = htc_get_bytes(r);
    t->made_by = htc_get_varint(r);
    t->redo_worker = htc_get_varint(r);
    t->redo_epoch = htc_get_varint(r);
    if (r->status != HTC_OK)
        return;
    int good = (t->reads.len || t->makes.len) && names_fit(t->reads, 1, &reads) && names_fit(t->makes, 0, &makes) && known_fit(t->known, reads) &&
               (t->made.len == 0 || (t->state == GRAPH_DONE && t->made.len == (size_t)makes * GRAPH_MADE_BYTES)) &&
               (t->redo_worker == 0 || t->state == GRAPH_DONE);
    if (!good)
        htc_reader_fail(r);
}

static void added_write(htc_buf *b, const graph_task *t)
{
    htc_put_u8(b, t->adds);
    if (!t->adds)
        return;
    htc_put_bytes(b, t->added);
    htc_put_varint(b, t->n_added);
    htc_put_varint(b, t->added_from);
    htc_put_varint(b, t->added_home);
    htc_put_u8(b, t->added_cancelled);
    if (t->adds != GRAPH_ADDS_INTAKE)
        return;
    htc_put_u8(b, t->added_intake);
    htc_put_varint(b, t->added_to);
}

static void added_read(htc_reader *r, graph_task *t)
{
    t->adds = htc_get_u8(r);
    if (t->adds != GRAPH_ADDS_NOTHING && t->adds != GRAPH_ADDS_PRINTED && t->adds != GRAPH_ADDS_INTAKE)
        htc_reader_fail(r);
    if (r->status != HTC_OK || t->adds == GRAPH_ADDS_NOTHING)
        return;
    t->added = htc_get_bytes(r);
    t->n_added = get_small(r);
    t->added_from = htc_get_varint(r);
    t->added_home = htc_get_varint(r);
    t->added_cancelled = htc_get_u8(r);
    if (t->adds == GRAPH_ADDS_INTAKE) {
        t->added_intake = htc_get_u8(r);
        t->added_to = htc_get_varint(r);
    }
    int none = t->added.len == 0 && t->n_added == 0 && t->added_from == 0, some = t->state == GRAPH_DONE && t->added.len > 0 && t->n_added > 0;
    if (r->status == HTC_OK && ((!none && !some) || t->added_cancelled > 1 || t->added_intake > 1))
        htc_reader_fail(r);
}

void htc__graph_write(htc_buf *b, const graph_task *t)
{
    htc_runtime_record_begin(b, GRAPH_FORMAT);
    htc_put_u8(b, t->state);
    htc_put_varint(b, t->home);
    htc_put_varint(b, t->failures);
    outcome_write(b, &t->outcome);
    htc_put_bytes(b, t->name);
    htc_put_bytes(b, t->parents);
    htc_put_bytes(b, t->children);
    htc_put_bytes(b, t->task);
    htc_put_bytes(b, t->kind);
    data_write(b, t);
    added_write(b, t);
    if (b->status == HTC_OK && b->len > GRAPH_BYTES_MAX)
        b->status = HTC_EFULL;
}

htc_status htc__graph_read(htc_bytes bytes, graph_task *t)
{
    htc_reader r;
    memset(t, 0, sizeof *t);
    htc_runtime_record_open(bytes, GRAPH_FORMAT, GRAPH_FORMAT, &r);
    t->state = htc_get_u8(&r);
    t->home = htc_get_varint(&r);
    t->failures = get_small(&r);
    outcome_read(&r, &t->outcome);
    t->name = htc_get_bytes(&r);
    t->parents = htc_get_bytes(&r);
    t->children = htc_get_bytes(&r);
    t->task = htc_get_bytes(&r);
    t->kind = htc_get_bytes(&r);
    data_read(&r, t);
    added_read(&r, t);
    int good = bytes.len <= GRAPH_BYTES_MAX && t->state >= GRAPH_OPEN && t->state <= GRAPH_CANCELLED && t->parents.len <= GRAPH_PARENTS_MAX &&
               t->children.len % GRAPH_CHILD_BYTES == 0 && t->children.len / GRAPH_CHILD_BYTES <= GRAPH_CHILDREN_MAX;
    const uint8_t *p = t->parents.data;
    for (size_t i = 0; good && i < t->parents.len; i++)
        good = (p[i] & 3) <= GRAPH_ENDED_BAD && p[i] / 4 <= GRAPH_RULE_FAILED;
    if (!good)
        htc_reader_fail(&r);
    return htc_runtime_record_end(&r);
}

uint32_t htc__graph_n_children(const graph_task *t)
{
    return (uint32_t)(t->children.len / GRAPH_CHILD_BYTES);
}

void htc__graph_child(const graph_task *t, uint32_t i, uint64_t *task, uint32_t *parent)
{
    htc_reader r = htc_reader_of((htc_bytes){ (const uint8_t *)t->children.data + (size_t)i * GRAPH_CHILD_BYTES, GRAPH_CHILD_BYTES });
    *task = htc_get_u64(&r);
    *parent = htc_get_u32(&r);
}

/* ---- steps ---- */

int htc__graph_is_terminal(const graph_task *t)
{
    return t->state != GRAPH_OPEN;
}

static int satisfies(uint8_t parent)
{
    uint8_t rule = parent / 4, bit = parent & 3;
    return bit != GRAPH_NOT_TOLD && (rule == GRAPH_RULE_ANY || (rule == GRAPH_RULE_OK) == (bit == GRAPH_ENDED_OK));
}

int htc__graph_is_ready(const graph_task *t)
{
    const uint8_t *p = t->parents.data;
    if (t->state != GRAPH_OPEN || t->adds == GRAPH_ADDS_INTAKE)
        return 0;
    for (size_t i = 0; i < t->parents.len; i++)
        if (!satisfies(p[i]))
            return 0;
    return 1;
}

graph_bit htc__graph_told_as(const graph_task *t)
{
    return t->state == GRAPH_DONE ? GRAPH_ENDED_OK : GRAPH_ENDED_BAD;
}

htc_status htc__graph_tell(graph_task *t, uint8_t *parents, uint32_t parent, graph_bit bit)
{
    if (parent >= t->parents.len || bit == GRAPH_NOT_TOLD)
        return HTC_EINVAL;
    const uint8_t *p = t->parents.data;
    if (t->state != GRAPH_OPEN || ((p[parent] & 3) != GRAPH_NOT_TOLD && !HTC__BROKEN(parents_counted)))
        return HTC_EEXISTS;
    if (p != parents)
        memcpy(parents, p, t->parents.len);
    t->parents.data = parents;
    if (HTC__BROKEN(parents_counted)) /* one that was told before stands for the next that was not */
        for (uint32_t i = 0; i < t->parents.len && (parents[parent] & 3) != GRAPH_NOT_TOLD; i++)
            if ((parents[i] & 3) == GRAPH_NOT_TOLD)
                parent = i;
    parents[parent] = (uint8_t)((parents[parent] & ~3) | bit);
    if (!satisfies(parents[parent]) && !HTC__BROKEN(bad_bit_ignored)) {
        t->state = GRAPH_CANCELLED;
        snprintf(t->outcome.reason, sizeof t->outcome.reason, bit == GRAPH_ENDED_BAD ? "a task that it needs has not succeeded" : "a task has succeeded that was to fail");
        t->outcome.status = HTC_ECANCELLED;
    }
    return HTC_OK;
}

htc_status htc__graph_end(graph_task *t, int done, uint32_t failures, uint32_t tries, const graph_outcome *outcome)
{
    if (t->state != GRAPH_OPEN)
        return HTC_EEXISTS;
    if (!htc__graph_is_ready(t) || t->failures != failures)
        return HTC_EINVAL;
    t->outcome = *outcome;
    if (done)
        t->state = GRAPH_DONE;
    else if (++t->failures >= tries)
        t->state = GRAPH_FAILED;
    return HTC_OK;
}

htc_status htc__graph_take_in(graph_task *t, htc_bytes text, uint32_t n, int intake, uint64_t to, const graph_outcome *outcome)
{
    if (t->adds != GRAPH_ADDS_INTAKE || (n == 0) != (text.len == 0) || (intake && n == 0))
        return HTC_EINVAL;
    if (t->state != GRAPH_OPEN)
        return HTC_EEXISTS;
    t->state = GRAPH_DONE;
    t->outcome = *outcome;
    t->added = text;
    t->n_added = n;
    t->added_intake = intake != 0;
    t->added_to = to;
    return HTC_OK;
}

int htc__graph_has_added(const graph_task *t, uint64_t id)
{
    return t->added_from && id >= t->added_from && id - t->added_from < t->n_added;
}

htc_status htc__graph_note_added(graph_task *t, uint64_t from, uint64_t home, int cancelled, htc_bytes children)
{
    if (t->state != GRAPH_DONE || t->n_added == 0 || from == 0)
        return HTC_EINVAL;
    if (t->added_from)
        return HTC_EEXISTS;
    t->added_from = from;
    t->added_home = home;
    t->added_cancelled = cancelled != 0;
    t->children = children;
    return HTC_OK;
}

htc_status htc__graph_cancel(graph_task *t, const char *reason)
{
    if (t->state != GRAPH_OPEN)
        return HTC_EEXISTS;
    t->state = GRAPH_CANCELLED;
    t->outcome.status = HTC_ECANCELLED;
    snprintf(t->outcome.reason, sizeof t->outcome.reason, "%s", reason);
    return HTC_OK;
}
