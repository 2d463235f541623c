#include "kvs/cell/siblings.h"

#include "core/fault.h"

enum { FLAG_DELETED = 1 };

/* The fewest bytes of a line and of a value. */
#define LINE_MIN  10
#define VALUE_MIN 11

static void read_value(htc_reader *r, htc__sibling *v)
{
    uint8_t flags = htc_get_u8(r);
    v->client = htc_get_u64(r);
    v->sequence = htc_get_varint(r);
    v->value = htc_get_bytes(r);
    v->deleted = flags & FLAG_DELETED;
    if (flags & ~FLAG_DELETED || (v->deleted && v->value.len))
        htc_reader_fail(r);
}

static void read_line(htc_reader *r, htc__siblings *s)
{
    htc__siblings_line *line = &s->line[s->lines];
    line->member = htc_get_u64(r);
    line->counter = htc_get_varint(r);
    size_t count = htc_get_count(r, VALUE_MIN);
    if (line->counter == 0 || line->counter > HTC__SIBLINGS_COUNTER || count > line->counter ||
        count > HTC__SIBLINGS_VALUES - s->values || (s->lines && line[-1].member >= line->member)) {
        htc_reader_fail(r);
        return;
    }
    line->first = s->values;
    line->count = (uint32_t)count;
    while (count-- > 0)
        read_value(r, &s->value[s->values++]);
    s->lines++;
}

htc_status htc__siblings_read(htc_bytes bytes, htc__siblings *s)
{
    s->lines = s->values = 0;
    if (bytes.len == 0)
        return HTC_OK;
    htc_reader r = htc_reader_of(bytes);
    size_t     lines = htc_get_count(&r, LINE_MIN);
    if (lines > HTC__SIBLINGS_LINES)
        htc_reader_fail(&r);
    while (r.status == HTC_OK && s->lines < lines)
        read_line(&r, s);
    return htc_reader_done(&r);
}

static void write_lines(htc_buf *b, const htc__siblings *s, int with_values)
{
    htc_put_varint(b, s->lines);
    for (const htc__siblings_line *line = s->line; line < s->line + s->lines; line++) {
        htc_put_u64(b, line->member);
        htc_put_varint(b, line->counter);
        htc_put_varint(b, with_values ? line->count : 0);
        for (uint32_t i = 0; with_values && i < line->count; i++) {
            const htc__sibling *v = &s->value[line->first + i];
            htc_put_u8(b, v->deleted ? FLAG_DELETED : 0);
            htc_put_u64(b, v->client);
            htc_put_varint(b, v->sequence);
            htc_put_bytes(b, v->value);
        }
    }
}

void htc__siblings_write(htc_buf *b, const htc__siblings *s)
{
    write_lines(b, s, 1);
}

void htc__siblings_write_context(htc_buf *b, const htc__siblings *s)
{
    write_lines(b, s, 0);
}

/* The writes of a line that are known and replaced: 1 to this. */
static uint64_t replaced(const htc__siblings_line *line)
{
    return line->counter - line->count;
}

/* Append a line with the newest `keep` values of one in from. */
static htc_status append(htc__siblings *out, const htc__siblings *from, const htc__siblings_line *line, uint64_t keep)
{
    uint32_t count = keep < line->count ? (uint32_t)keep : line->count;
    if (out->lines == HTC__SIBLINGS_LINES || count > HTC__SIBLINGS_VALUES - out->values)
        return HTC_EFULL;
    out->line[out->lines++] = (htc__siblings_line){ line->member, line->counter, out->values, count };
    for (uint32_t i = 0; i < count; i++)
        out->value[out->values++] = from->value[line->first + i];
    return HTC_OK;
}

/* One member's line as both sides know it: of the newer counter, without what either knows to be replaced. */
static htc_status append_both(htc__siblings *out, const htc__siblings *a, const htc__siblings_line *la,
                              const htc__siblings *b, const htc__siblings_line *lb)
{
    if (la->counter < lb->counter)
        return append_both(out, b, lb, a, la);
    uint64_t keep = replaced(lb) < la->counter ? la->counter - replaced(lb) : 0;
    return append(out, a, la, keep > 1 && HTC__BROKEN(sibling_unmerged) ? 1 : keep);
}

htc_status htc__siblings_merge(htc__siblings *out, const htc__siblings *a, const htc__siblings *b)
{
    const htc__siblings_line *la = a->line, *lb = b->line, *end_a = la + a->lines, *end_b = lb + b->lines;
    htc_status                status = HTC_OK;
    out->lines = out->values = 0;
    while (status == HTC_OK && (la < end_a || lb < end_b)) {
        if (lb == end_b || (la < end_a && la->member < lb->member)) {
            status = append(out, a, la, la->count);
            la++;
        } else if (la == end_a || lb->member < la->member) {
            status = append(out, b, lb, lb->count);
            lb++;
        } else {
            status = append_both(out, a, la++, b, lb++);
        }
    }
    return status;
}

static const htc__siblings_line *find(const htc__siblings *s, uint64_t member)
{
    for (uint32_t i = 0; i < s->lines; i++) {
        if (s->line[i].member == member)
            return &s->line[i];
    }
    return NULL;
}

/* Does b know everything that a does: each write, and each that was replaced? */
static int covers(const htc__siblings *b, const htc__siblings *a)
{
    for (const htc__siblings_line *line = a->line; line < a->line + a->lines; line++) {
        const htc__siblings_line *other = find(b, line->member);
        if (!other || other->counter < line->counter || replaced(other) < replaced(line))
            return 0;
    }
    return 1;
}

htc__causal htc__siblings_compare(const htc__siblings *a, const htc__siblings *b)
{
    int before = covers(b, a), after = covers(a, b);
    if (before)
        return after ? HTC__CAUSAL_SAME : HTC__CAUSAL_BEFORE;
    return after ? HTC__CAUSAL_AFTER : HTC__CAUSAL_CONCURRENT;
}

/* Put the value in front of member's line, which is made if there is none. Room was checked. */
static void prepend(htc__siblings *s, uint64_t member, const htc__sibling *value)
{
    uint32_t at = 0;
    while (at < s->lines && s->line[at].member < member)
        at++;
    if (at == s->lines || s->line[at].member != member) {
        for (uint32_t i = s->lines++; i > at; i--)
            s->line[i] = s->line[i - 1];
        s->line[at] = (htc__siblings_line){ member, 0, at + 1 < s->lines ? s->line[at + 1].first : s->values, 0 };
    }
    for (uint32_t i = s->values++; i > s->line[at].first; i--)
        s->value[i] = s->value[i - 1];
    s->value[s->line[at].first] = *value;
    s->line[at].counter++;
    s->line[at].count++;
    for (uint32_t i = at + 1; i < s->lines; i++)
        s->line[i].first++;
}

int htc__siblings_leaps(const htc__siblings *context, const htc__siblings *held, uint64_t floor)
{
    for (const htc__siblings_line *line = context->line; line < context->line + context->lines; line++) {
        const htc__siblings_line *known = find(held, line->member);
        uint64_t                  to = known && known->counter > floor ? known->counter : floor;
        if (line->counter > HTC__SIBLINGS_LEAP && line->counter - HTC__SIBLINGS_LEAP > to)
            return 1;
    }
    return 0;
}

htc_status htc__siblings_put(htc__siblings *out, const htc__siblings *s, const htc__siblings *context, uint64_t member,
                             const htc__sibling *value)
{
    /* A context has no values: all that it counts is replaced, and merging says so. */
    if (context->values)
        return HTC_EINVAL;
    htc_status status = htc__siblings_merge(out, s, context);
    if (status != HTC_OK)
        return status;
    const htc__siblings_line *line = find(out, member);
    if (line && line->counter >= HTC__SIBLINGS_COUNTER)
        return HTC_EINVAL;
    if (out->values >= HTC__SIBLINGS_MAX || (!line && out->lines == HTC__SIBLINGS_LINES))
        return HTC_EFULL;
    prepend(out, member, value);
    return HTC_OK;
}

const htc__sibling *htc__siblings_largest(const htc__siblings *s)
{
    const htc__sibling *best = NULL;
    for (const htc__sibling *v = s->value; v < s->value + s->values; v++) {
        if (!best || best->deleted > v->deleted ||
            (best->deleted == v->deleted && htc_bytes_compare(v->value, best->value) > 0))
            best = v;
    }
    return best;
}
