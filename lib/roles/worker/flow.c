#include <string.h>

#include "htcsched/locality.h"
#include "htcsched/runtime.h"
#include "roles/worker/flow.h"

#define FLOW_FORMAT   4
#define WORKER_FORMAT 2

void htc__flow_write(htc_buf *b, const flow *f)
{
    htc_runtime_record_begin(b, FLOW_FORMAT);
    htc_put_u8(b, f->state);
    htc_put_u8(b, f->kind);
    htc_put_u8(b, f->data);
    htc_put_varint(b, f->tasks);
    htc_put_varint(b, f->job);
    htc_put_varint(b, f->tries);
    htc_put_varint(b, f->max_fails);
    htc_put_str(b, f->user);
    htc_put_u8(b, f->places.rule);
    htc_put_u8(b, f->places.tt_rule);
    htc_put_varint(b, f->places.tt_ns);
    htc_put_varint(b, f->places.ratio);
    htc_put_varint(b, f->places.bytes_per_s);
    htc_put_str(b, f->steal);
    htc_put_bytes(b, f->task);
    htc_put_varint(b, f->n_marks);
    for (uint32_t i = 0; i < f->n_marks; i++) {
        htc_put_varint(b, f->marks[i].from);
        htc_put_varint(b, f->marks[i].to);
    }
    htc__ledger_counts_write(b, &f->counts);
    htc_put_varint(b, f->inserted);
    htc_put_varint(b, f->from);
    htc_put_u8(b, f->adds);
    if (!f->adds)
        return;
    htc_put_varint(b, f->added);
    htc_put_bytes(b, f->inputs);
    htc_put_varint(b, f->intake);
    htc_put_varint(b, f->news);
    htc_put_varint(b, f->n_drawn);
    for (uint32_t i = 0; i < f->n_drawn; i++) {
        htc_put_varint(b, f->drawn[i].task);
        htc_put_varint(b, f->drawn[i].from);
        htc_put_varint(b, f->drawn[i].n);
        htc_put_u8(b, f->drawn[i].cancelled);
    }
}

static void additions_read(htc_reader *r, flow *f)
{
    f->adds = htc_get_u8(r);
    if (f->adds > 1 || (f->adds && f->kind != FLOW_GRAPH))
        htc_reader_fail(r);
    if (f->adds != 1)
        return;
    f->added = htc_get_varint(r);
    f->inputs = htc_get_bytes(r);
    f->intake = htc_get_varint(r);
    f->news = htc_get_varint(r);
    if (f->intake > f->tasks || f->news > f->tasks)
        htc_reader_fail(r);
    uint64_t n = htc_get_varint(r);
    if (n > FLOW_DRAWN_MAX)
        htc_reader_fail(r);
    for (; r->status == HTC_OK && f->n_drawn < n; f->n_drawn++) {
        flow_drawn *d = &f->drawn[f->n_drawn];
        d->task = htc_get_varint(r);
        d->from = htc_get_varint(r);
        uint64_t many = htc_get_varint(r);
        d->n = (uint32_t)many;
        d->cancelled = htc_get_u8(r);
        if (d->cancelled > 1 || many == 0 || many > UINT32_MAX || d->from == 0 || d->from > f->tasks || many > f->tasks - d->from)
            htc_reader_fail(r);
    }
}

htc_status htc__flow_read(htc_bytes bytes, flow *f)
{
    htc_reader r;
    memset(f, 0, sizeof *f);
    htc_runtime_record_open(bytes, FLOW_FORMAT, FLOW_FORMAT, &r);
    f->state = htc_get_u8(&r);
    f->kind = htc_get_u8(&r);
    f->data = htc_get_u8(&r);
    f->tasks = htc_get_varint(&r);
    f->job = htc_get_varint(&r);
    uint64_t tries = htc_get_varint(&r);
    f->max_fails = htc_get_varint(&r);
    htc_get_str(&r, f->user, sizeof f->user);
    f->places.rule = htc_get_u8(&r);
    f->places.tt_rule = htc_get_u8(&r);
    f->places.tt_ns = htc_get_varint(&r);
    f->places.ratio = htc_get_varint(&r);
    f->places.bytes_per_s = htc_get_varint(&r);
    htc_get_str(&r, f->steal, sizeof f->steal);
    f->task = htc_get_bytes(&r);
    uint64_t n = htc_get_varint(&r);
    int      good = f->state >= FLOW_BUILDING && f->state <= FLOW_ABORTED && (f->kind == FLOW_BAG || f->kind == FLOW_GRAPH) && f->data <= 1 && tries > 0 &&
               tries <= UINT32_MAX && f->places.rule <= HTC_LOCALITY_MLB && f->places.tt_rule <= HTC_LOCALITY_TT_MOVE && n <= FLOW_MARKS_MAX;
    f->tries = (uint32_t)tries;
    for (; good && f->n_marks < n && r.status == HTC_OK; f->n_marks++) {
        ledger_span *s = &f->marks[f->n_marks];
        *s = (ledger_span){ htc_get_varint(&r), 0 };
        s->to = htc_get_varint(&r);
        good = s->from < s->to;
    }
    htc__ledger_counts_read(&r, &f->counts);
    f->inserted = htc_get_varint(&r);
    f->from = htc_get_varint(&r);
    additions_read(&r, f);
    if (!good || f->added > f->tasks || f->inserted > f->tasks - f->added)
        htc_reader_fail(&r);
    return htc_runtime_record_end(&r);
}

int htc__flow_is_marked(const flow *f, uint64_t id)
{
    for (uint32_t i = 0; i < f->n_marks; i++)
        if (id >= f->marks[i].from && id < f->marks[i].to)
            return 1;
    return 0;
}

int htc__flow_all_marked(const flow *f, ledger_span ids)
{
    for (uint32_t i = 0; i < f->n_marks; i++)
        if (f->marks[i].from <= ids.from && f->marks[i].to >= ids.to)
            return 1;
    return 0;
}

htc_status htc__flow_mark(flow *f, ledger_span ids)
{
    uint32_t touching = 0;
    if (htc__flow_all_marked(f, ids))
        return HTC_EEXISTS;
    for (uint32_t i = 0; i < f->n_marks; i++)
        touching += f->marks[i].from <= ids.to && f->marks[i].to >= ids.from;
    if (!touching && f->n_marks == FLOW_MARKS_MAX)
        return HTC_EFULL;
    for (uint32_t i = 0; i < f->n_marks;)
        if (f->marks[i].from <= ids.to && f->marks[i].to >= ids.from) {
            ids.from = f->marks[i].from < ids.from ? f->marks[i].from : ids.from;
            ids.to = f->marks[i].to > ids.to ? f->marks[i].to : ids.to;
            f->marks[i] = f->marks[--f->n_marks];
        } else {
            i++;
        }
    f->marks[f->n_marks++] = ids;
    return HTC_OK;
}

const flow_drawn *htc__flow_drawn(const flow *f, uint64_t task)
{
    for (uint32_t i = 0; i < f->n_drawn; i++)
        if (f->drawn[i].task == task)
            return &f->drawn[i];
    return NULL;
}

htc_status htc__flow_draw_numbers(flow *f, uint64_t task, uint32_t n, uint64_t *from)
{
    const flow_drawn *d = htc__flow_drawn(f, task);
    if (d) {
        *from = d->from;
        return HTC_EEXISTS;
    }
    if (f->n_drawn == FLOW_DRAWN_MAX)
        return HTC_EFULL;
    int cancelled = htc__flow_is_marked(f, task) || htc__flow_all_marked(f, (ledger_span){ 0, f->tasks });
    f->drawn[f->n_drawn++] = (flow_drawn){ task, f->tasks, n, (uint8_t)cancelled };
    *from = f->tasks;
    f->tasks += n;
    f->added += n;
    return HTC_OK;
}

void htc__flow_intake_has_drawn(flow *f, uint64_t task, int next)
{
    const flow_drawn *d = htc__flow_drawn(f, task);
    if (d && f->intake == task + 1)
        f->intake = next && !d->cancelled ? d->from + d->n : 0;
    if (d && f->news < task + 1) /* who added may have gone before it said so */
        f->news = task + 1;
}

void htc__flow_draw_is_noted(flow *f, uint64_t task)
{
    for (uint32_t i = 0; i < f->n_drawn; i++)
        if (f->drawn[i].task == task)
            f->drawn[i--] = f->drawn[--f->n_drawn];
}

uint64_t htc__flow_submitted(const flow *f)
{
    return f->tasks - f->added - f->inserted;
}

int htc__flow_is_inserted(const flow *f, uint64_t id)
{
    uint64_t own = htc__flow_submitted(f);
    return id >= own && id - own < f->inserted;
}

uint64_t htc__flow_shown(const flow *f, uint64_t id)
{
    uint64_t own = htc__flow_submitted(f);
    if (id < own || id >= f->tasks)
        return id;
    return htc__flow_is_inserted(f, id) ? id + f->added : id - f->inserted;
}

uint64_t htc__flow_stored(const flow *f, uint64_t number)
{
    uint64_t own = htc__flow_submitted(f);
    if (number < own || number >= f->tasks)
        return number;
    return number - own < f->added ? number + f->inserted : number - f->added;
}

/* By hand: snprintf takes 1,600 instructions for a key, and there is one for each request. */
static void put_text(flow_key *k, const char *text)
{
    size_t n = strlen(text);
    memcpy(k->text + k->len, text, n);
    k->len += n;
}

/* 16 digits: keys are in the order of their numbers. */
static void put_number(flow_key *k, uint64_t n)
{
    for (size_t i = 16; i > 0; i--, n >>= 4)
        k->text[k->len + i - 1] = "0123456789abcdef"[n & 15];
    k->len += 16;
}

/* "f/ID" and what comes behind it; no key is longer than f/ID/o/LEDGER/NUMBER. */
static flow_key key_of(const char *space, uint64_t id, const char *kind)
{
    flow_key k;
    k.len = 0;
    put_text(&k, space);
    put_number(&k, id);
    put_text(&k, kind);
    return k;
}

static flow_key key_with(const char *space, uint64_t id, const char *kind, uint64_t number)
{
    flow_key k = key_of(space, id, kind);
    put_number(&k, number);
    return k;
}

flow_key htc__flow_key_header(uint64_t id)
{
    return key_of("f/", id, "/h");
}

flow_key htc__flow_key_ledger(uint64_t id, uint64_t number)
{
    return key_with("f/", id, "/l/", number);
}

flow_key htc__flow_key_ledgers(uint64_t id)
{
    return key_of("f/", id, "/l/");
}

flow_key htc__flow_key_collector(uint64_t id)
{
    return key_of("f/", id, "/c");
}

flow_key htc__flow_key_task(uint64_t id, uint64_t task)
{
    return key_with("f/", id, "/t/", task);
}

flow_key htc__flow_key_tasks(uint64_t id)
{
    return key_of("f/", id, "/t/");
}

flow_key htc__flow_key_blocks(uint64_t id, uint64_t of)
{
    flow_key k = key_with("f/", id, "/o/", of);
    put_text(&k, "/");
    return k;
}

flow_key htc__flow_key_block(uint64_t id, uint64_t of, uint64_t number)
{
    flow_key k = htc__flow_key_blocks(id, of);
    put_number(&k, number);
    return k;
}

flow_key htc__flow_key_logs(uint64_t id)
{
    return key_of("f/", id, "/o/");
}

flow_key htc__flow_key_worker(uint64_t group, uint64_t worker)
{
    return key_with("w/", group, "/", worker);
}

flow_key htc__flow_key_workers(uint64_t group)
{
    return key_of("w/", group, "/");
}

void htc__flow_worker_write(htc_buf *b, const flow_worker *w)
{
    htc_runtime_record_begin(b, WORKER_FORMAT);
    htc_put_u64(b, w->epoch);
    htc_put_u32(b, w->slots);
    htc_put_str(b, w->address);
    htc_put_str(b, w->node);
}

htc_status htc__flow_worker_read(htc_bytes bytes, flow_worker *w)
{
    htc_reader r;
    htc_runtime_record_open(bytes, WORKER_FORMAT, WORKER_FORMAT, &r);
    w->epoch = htc_get_u64(&r);
    w->slots = htc_get_u32(&r);
    htc_get_str(&r, w->address, sizeof w->address);
    htc_get_str(&r, w->node, sizeof w->node);
    return htc_runtime_record_end(&r);
}

htc_bytes htc__flow_key_bytes(const flow_key *k)
{
    return (htc_bytes){ k->text, k->len };
}

int htc__flow_key_number(htc_bytes key, const flow_key *prefix, uint64_t *number)
{
    const char *text = key.data;
    uint64_t    n = 0;
    if (key.len != prefix->len + 16 || memcmp(text, prefix->text, prefix->len) != 0)
        return 0;
    for (size_t i = prefix->len; i < key.len; i++) {
        char c = text[i];
        if (!((c >= '0' && c <= '9') || (c >= 'a' && c <= 'f')))
            return 0;
        n = n << 4 | (uint64_t)(c <= '9' ? c - '0' : c - 'a' + 10);
    }
    *number = n;
    return 1;
}

int htc__flow_key_is_block(htc_bytes key, uint64_t id, uint64_t *of, uint64_t *number)
{
    flow_key logs = htc__flow_key_logs(id);
    if (key.len < logs.len + 16 || !htc__flow_key_number((htc_bytes){ key.data, logs.len + 16 }, &logs, of))
        return 0;
    flow_key blocks = htc__flow_key_blocks(id, *of);
    return htc__flow_key_number(key, &blocks, number);
}
