/* The form of a history that outlives the program: a line of words for each operation.
 *
 *     put process=3 key=jobs/1 from=100 to=250 done version=5 value='abc
 *
 * Written canonically, read from anybody: words in any order but the first, each once, every length bounded by the line's. */
#include "sim/history/history_private.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "core/codec.h"
#include "core/util.h"

#define PRIME ((UINT64_C(1) << 61) - 1)

static const char *const kinds[] = { NULL,      "get",     "put",   "delete",  "append", "cas_version", "cas_value",
                                     "add",     "grant",   "renew", "revoke",  "look",   "watch",       "event",
                                     "restart", "unwatch", "write", "sibling", "down",
                                     "current" };
static const char *const outcomes[] = { "unknown", "done", "missed", "refused" };

/* ---------------------------------------------------------------- writing */

typedef struct line {
    char  *p;
    size_t len, size; /* size 0 once it did not fit */
} line;

static void put(line *l, const char *format, ...) __attribute__((format(printf, 2, 3)));

static void put(line *l, const char *format, ...)
{
    va_list list;
    if (l->size == 0)
        return;
    va_start(list, format);
    int n = vsnprintf(l->p + l->len, l->size - l->len, format, list);
    va_end(list);
    if (n < 0 || (size_t)n >= l->size - l->len)
        l->size = 0;
    else
        l->len += (size_t)n;
}

static void put_key(line *l, htc_bytes bytes)
{
    static const char hex[] = "0123456789abcdef";
    const uint8_t    *p = bytes.data;
    if (l->size == 0 || l->size - l->len <= 3 * bytes.len) {
        l->size = 0;
        return;
    }
    for (size_t i = 0; i < bytes.len; i++)
        if (p[i] > ' ' && p[i] < 127 && p[i] != '%')
            l->p[l->len++] = (char)p[i];
        else {
            l->p[l->len++] = '%';
            l->p[l->len++] = hex[p[i] >> 4];
            l->p[l->len++] = hex[p[i] & 15];
        }
    l->p[l->len] = 0;
}

static void put_value(line *l, const char *name, htc_history_value v)
{
    if (v.length == HTC_HISTORY_UNSAID)
        return;
    if (v.length == HTC_HISTORY_ABSENT) {
        put(l, " %s=nothing", name);
        return;
    }
    put(l, " %s=%llx:%llu", name, (unsigned long long)v.hash, (unsigned long long)v.length);
    if (v.number != HTC_HISTORY_NO_NUMBER)
        put(l, ":%lld", (long long)v.number);
}

static void put_clock(line *l, const htc_history *h, uint32_t clock)
{
    htc_history_tick t;
    for (uint32_t i = 0; htc__history_tick_at(h, clock, i, &t); i++)
        put(l, "%s%llu:%llu", i == 0 ? " clock=" : ",", (unsigned long long)t.member, (unsigned long long)t.counter);
}

size_t htc_history_line(const htc_history *h, size_t index, char *buffer, size_t size)
{
    const htc_history_op *o = htc_history_at(h, index);
    line                  l = { buffer, 0, size };
    if (!o || !buffer || size == 0)
        return 0;
    put(&l, "%s process=%llu key=", kinds[o->kind], (unsigned long long)o->process);
    put_key(&l, htc_history_key_bytes(h, o->key));
    put(&l, " from=%llu", (unsigned long long)o->invoked);
    if (o->returned != HTC_NEVER)
        put(&l, " to=%llu", (unsigned long long)o->returned);
    put(&l, " %s", outcomes[o->outcome]);
    if (o->flags & HTC_HISTORY_FINAL)
        put(&l, " final");
    if (o->expected)
        put(&l, " expected=%llu", (unsigned long long)o->expected);
    if (o->version)
        put(&l, " version=%llu", (unsigned long long)o->version);
    if (o->delta)
        put(&l, " delta=%lld", (long long)o->delta);
    if (o->number != HTC_HISTORY_NO_NUMBER)
        put(&l, " number=%lld", (long long)o->number);
    put_value(&l, "value", o->argument);
    put_value(&l, "seen", o->seen);
    put_value(&l, "observed", o->observed);
    put_clock(&l, h, o->clock);
    return l.size ? l.len : 0;
}

/* ---------------------------------------------------------------- reading */

typedef struct parse {
    htc_history *h;
    htc_error   *error;
    uint32_t     line;
    uint32_t     had;     /* words of this line, a bit each */
    htc_buf      scratch; /* a key or value, decoded */
} parse;

static htc_status wrong(parse *p, const char *what, htc_bytes word)
{
    char text[48];
    int  n = word.len < sizeof text - 1 ? (int)word.len : (int)sizeof text - 1;
    if (n > 0)
        memcpy(text, word.data, (size_t)n);
    text[n < 0 ? 0 : n] = 0;
    htc__text_clean(text);
    htc__error(p->error, HTC_EPROTO, "%s: \"%s\"", what, text);
    if (p->error)
        p->error->line = p->line;
    return HTC_EPROTO;
}

static int get_u64(htc_bytes text, uint64_t *out)
{
    const char *p = text.data;
    uint64_t    v = 0;
    if (text.len == 0 || text.len > 20)
        return 0;
    for (size_t i = 0; i < text.len; i++) {
        if (p[i] < '0' || p[i] > '9' || __builtin_mul_overflow(v, 10, &v) ||
            __builtin_add_overflow(v, (uint64_t)(p[i] - '0'), &v))
            return 0;
    }
    *out = v;
    return 1;
}

static int get_i64(htc_bytes text, int64_t *out)
{
    const char *p = text.data;
    uint64_t    v;
    int         minus = text.len > 0 && p[0] == '-';
    if (!get_u64((htc_bytes){ p + minus, text.len - (size_t)minus }, &v) || v > INT64_MAX)
        return 0;
    *out = minus ? -(int64_t)v : (int64_t)v;
    return 1;
}

static int hex_digit(uint8_t c)
{
    return c >= '0' && c <= '9'   ? c - '0'
           : c >= 'a' && c <= 'f' ? c - 'a' + 10
           : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                  : -1;
}

static int get_hash(htc_bytes text, uint64_t *out)
{
    const uint8_t *p = text.data;
    uint64_t       v = 0;
    if (text.len == 0 || text.len > 16)
        return 0;
    for (size_t i = 0; i < text.len; i++) {
        if (hex_digit(p[i]) < 0)
            return 0;
        v = v << 4 | (uint64_t)hex_digit(p[i]);
    }
    *out = v;
    return v < PRIME;
}

/* Before the first `at`, which is taken away with it; all that is left if there is none. */
static htc_bytes cut(htc_bytes *rest, char at)
{
    const char *p = rest->data, *found = rest->len ? memchr(p, at, rest->len) : NULL;
    size_t      n = found ? (size_t)(found - p) : rest->len;
    htc_bytes   first = { p, n };
    size_t      gone = found ? n + 1 : n;
    *rest = (htc_bytes){ p ? p + gone : p, rest->len - gone };
    return first;
}

static int is(htc_bytes word, const char *text)
{
    return htc_bytes_equal(word, htc_bytes_of(text));
}

/* Percent-encoded bytes, lent until the next; HTC_EPROTO if they are not. */
static htc_status decode(parse *p, htc_bytes text, htc_bytes *out)
{
    const uint8_t *c = text.data;
    htc_buf_clear(&p->scratch);
    for (size_t i = 0; i < text.len; i++) {
        if (c[i] != '%') {
            htc_put_u8(&p->scratch, c[i]);
            continue;
        }
        if (text.len - i < 3 || hex_digit(c[i + 1]) < 0 || hex_digit(c[i + 2]) < 0)
            return HTC_EPROTO;
        htc_put_u8(&p->scratch, (uint8_t)(hex_digit(c[i + 1]) << 4 | hex_digit(c[i + 2])));
        i += 2;
    }
    *out = htc_buf_bytes(&p->scratch);
    return p->scratch.status;
}

static htc_status get_value(parse *p, htc_bytes text, htc_history_value *out)
{
    htc_bytes rest = text, bytes;
    *out = (htc_history_value){ 0, HTC_HISTORY_ABSENT, HTC_HISTORY_NO_NUMBER };
    if (is(text, "nothing"))
        return HTC_OK;
    if (text.len && *(const char *)text.data == '\'') {
        htc_status status = decode(p, (htc_bytes){ (const char *)text.data + 1, text.len - 1 }, &bytes);
        if (status == HTC_OK)
            *out = htc_history_value_of(bytes);
        return status;
    }
    if (!get_hash(cut(&rest, ':'), &out->hash) || !get_u64(cut(&rest, ':'), &out->length) ||
        out->length > UINT64_MAX >> 2)
        return HTC_EPROTO;
    return rest.len == 0 || get_i64(rest, &out->number) ? HTC_OK : HTC_EPROTO;
}

static htc_status get_clock(parse *p, htc_bytes text, uint32_t *out)
{
    htc_history_tick ticks[HTC_HISTORY_CLOCK_MAX];
    size_t           n = 0;
    while (text.len) {
        htc_bytes rest = cut(&text, ',');
        if (n == HTC_HISTORY_CLOCK_MAX || !get_u64(cut(&rest, ':'), &ticks[n].member) ||
            !get_u64(rest, &ticks[n].counter))
            return HTC_EPROTO;
        n++;
    }
    htc_status status = htc_history_clock(p->h, ticks, n, out);
    return status == HTC_EINVAL ? HTC_EPROTO : status;
}

static htc_status get_key(parse *p, htc_bytes text, uint32_t *out)
{
    htc_bytes  key;
    htc_status status = decode(p, text, &key);
    if (status == HTC_OK)
        status = htc_history_key(p->h, key, out);
    return status == HTC_EINVAL ? HTC_EPROTO : status;
}

enum {
    PROCESS = 1,
    KEY,
    FROM,
    TO,
    EXPECTED,
    VERSION,
    DELTA,
    NUMBER,
    VALUE,
    SEEN,
    OBSERVED,
    CLOCK,
    OUTCOME,
    FINAL,
    NAMES
};

static const char *const names[NAMES] = { NULL,       "process",  "key",   "from",   "to",
                                          "expected", "version",  "delta", "number", "value",
                                          "seen",     "observed", "clock", NULL,     NULL };

static htc_status field(parse *p, htc_history_op *o, uint32_t name, htc_bytes text)
{
    switch (name) {
    case PROCESS:
        return get_u64(text, &o->process) ? HTC_OK : HTC_EPROTO;
    case KEY:
        return get_key(p, text, &o->key);
    case FROM:
        return get_u64(text, &o->invoked) ? HTC_OK : HTC_EPROTO;
    case TO:
        return get_u64(text, &o->returned) ? HTC_OK : HTC_EPROTO;
    case EXPECTED:
        return get_u64(text, &o->expected) ? HTC_OK : HTC_EPROTO;
    case VERSION:
        return get_u64(text, &o->version) ? HTC_OK : HTC_EPROTO;
    case DELTA:
        return get_i64(text, &o->delta) ? HTC_OK : HTC_EPROTO;
    case NUMBER:
        return get_i64(text, &o->number) ? HTC_OK : HTC_EPROTO;
    case VALUE:
        return get_value(p, text, &o->argument);
    case SEEN:
        return get_value(p, text, &o->seen);
    case OBSERVED:
        return get_value(p, text, &o->observed);
    case CLOCK:
        return get_clock(p, text, &o->clock);
    default:
        return HTC_EPROTO;
    }
}

static int once(parse *p, uint32_t name)
{
    uint32_t bit = UINT32_C(1) << name;
    int      fresh = !(p->had & bit);
    p->had |= bit;
    return fresh;
}

static htc_status word(parse *p, htc_history_op *o, htc_bytes text)
{
    htc_bytes rest = text, name = cut(&rest, '=');
    for (uint32_t i = 0; i < 4; i++)
        if (is(text, outcomes[i])) {
            o->outcome = i;
            return once(p, OUTCOME) ? HTC_OK : wrong(p, "a second outcome", text);
        }
    if (is(text, "final")) {
        o->flags |= HTC_HISTORY_FINAL;
        return once(p, FINAL) ? HTC_OK : wrong(p, "twice in a line", text);
    }
    for (uint32_t i = 1; i < OUTCOME; i++) {
        if (name.len == text.len || !is(name, names[i]))
            continue;
        if (!once(p, i))
            return wrong(p, "twice in a line", text);
        htc_status status = field(p, o, i, rest);
        return status == HTC_EPROTO ? wrong(p, "not what belongs there", text) : status;
    }
    return wrong(p, "unknown word", text);
}

static htc_status kind_of(parse *p, htc_bytes text, uint32_t *out)
{
    for (uint32_t i = HTC_HISTORY_GET; i <= HTC_HISTORY_CURRENT; i++)
        if (is(text, kinds[i])) {
            *out = i;
            return HTC_OK;
        }
    return wrong(p, "unknown kind of operation", text);
}

static htc_status read_line(parse *p, htc_bytes text)
{
    static const htc_history_op init = HTC_HISTORY_OP_INIT;
    htc_history_op              o = init;
    htc_bytes                   rest = text, first = cut(&rest, ' ');
    if (first.len == 0 || *(const char *)first.data == '#')
        return text.len == 0 || first.len ? HTC_OK : wrong(p, "a line begins with its kind", text);
    if (is(first, "htc-history"))
        return is(rest, "1") ? HTC_OK : wrong(p, "a version of the form that is not known here", rest);
    p->had = 0;
    htc_status status = kind_of(p, first, &o.kind);
    while (status == HTC_OK && rest.len) {
        htc_bytes next = cut(&rest, ' ');
        if (next.len)
            status = word(p, &o, next);
    }
    if (status != HTC_OK)
        return status;
    if (!(p->had & 1u << KEY) || !(p->had & 1u << FROM) || !(p->had & 1u << OUTCOME))
        return wrong(p, "key, from and outcome are needed", text);
    o.line = p->line;
    status = htc_history_add(p->h, &o, NULL);
    return status == HTC_EINVAL ? wrong(p, "this cannot be so: an answer before its question, or without a time", text)
                                : status;
}

htc_status htc_history_read(htc_history *h, htc_bytes text, htc_error *error)
{
    if (!h || (text.len && !text.data))
        return HTC_EINVAL;
    size_t     before = h->count;
    parse      p = { .h = h, .error = error };
    htc_status status = HTC_OK;
    htc_buf_init(&p.scratch, &h->env, h->options.bytes_max);
    while (text.len && status == HTC_OK) {
        htc_bytes l = cut(&text, '\n');
        if (l.len && ((const char *)l.data)[l.len - 1] == '\r')
            l.len--;
        p.line++;
        status = read_line(&p, l);
    }
    htc_buf_free(&p.scratch);
    if (status != HTC_OK)
        h->count = before;
    if (status != HTC_OK && status != HTC_EPROTO) {
        htc__error(error, status, "the history does not fit");
        if (error)
            error->line = p.line;
    }
    return status;
}
