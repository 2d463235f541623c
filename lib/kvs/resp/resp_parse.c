#include "kvs/resp/resp_parse.h"

#include <string.h>

#include "core/util.h"

/* The longest header line of an array or a string: a sign, a number, the line's end. */
#define HEADER_MAX 24

void htc__resp_request_init(htc__resp_request *r, const htc_env *env)
{
    *r = (htc__resp_request){ .env = *env };
    htc_buf_init(&r->text, env, 2 * HTC__RESP_INLINE_MAX);
}

void htc__resp_request_free(htc__resp_request *r)
{
    htc__free(&r->env, r->args, r->cap * sizeof *r->args);
    r->args = NULL;
    r->cap = 0;
    htc_buf_free(&r->text);
}

void htc__resp_request_clear(htc__resp_request *r)
{
    r->argc = r->got = 0;
    r->at = 0;
    r->begun = r->by_line = 0;
    htc_buf_clear(&r->text);
}

int htc__resp_number(htc_bytes text, int64_t *number)
{
    const char *p = text.data;
    size_t      i = text.len && p[0] == '-';
    int64_t     v = 0;
    if (i == text.len || text.len > 20 || (p[i] == '0' && text.len > 1))
        return 0;
    for (int minus = i == 1; i < text.len; i++) {
        if (p[i] < '0' || p[i] > '9' || __builtin_mul_overflow(v, 10, &v) ||
            (minus ? __builtin_sub_overflow(v, p[i] - '0', &v) : __builtin_add_overflow(v, p[i] - '0', &v)))
            return 0;
    }
    *number = v;
    return 1;
}

static int broken(htc__resp_request *r, const char *what)
{
    r->wrong = what;
    return -1;
}

/* As many places as arguments have been seen, not as many as were announced: those cost their sender nothing. */
int htc__resp_request_add(htc__resp_request *r, size_t at, size_t len)
{
    if (r->got == r->cap) {
        size_t           cap = r->cap ? r->cap * 2 : 16;
        htc__resp_place *args = htc__resize(&r->env, r->args, r->cap * sizeof *args, cap * sizeof *args);
        if (!args)
            return -2;
        r->args = args;
        r->cap = cap;
    }
    r->args[r->got++] = (htc__resp_place){ (uint32_t)at, (uint32_t)len };
    return 1;
}

/* The number of a header line that begins at r->at with its sign; r->at then stands behind the line. */
static int header(htc__resp_request *r, const uint8_t *p, size_t n, int64_t *number, const char *wrong)
{
    size_t  i = r->at + 1, end = n - r->at > HEADER_MAX ? r->at + HEADER_MAX : n;
    int64_t v = 0;
    if (i < end && p[i] >= '0' && p[i] <= '9') { /* the usual one, without a detour */
        size_t begin = i;
        while (i < end && p[i] >= '0' && p[i] <= '9' && i - begin < 10)
            v = v * 10 + (p[i++] - '0');
        if (i + 1 < end && p[i] == '\r' && p[i + 1] == '\n' && (i - begin == 1 || p[begin] != '0')) {
            *number = v;
            r->at = i + 2;
            return 1;
        }
    }
    for (i = r->at + 1; i < end && p[i] != '\r'; i++)
        ;
    if (i == end || i + 1 == n)
        return end - r->at == HEADER_MAX ? broken(r, wrong) : 0;
    if (p[i + 1] != '\n' || !htc__resp_number((htc_bytes){ p + r->at + 1, i - r->at - 1 }, number))
        return broken(r, wrong);
    r->at = i + 2;
    return 1;
}

static int array(htc__resp_request *r, const htc__resp_limits *limits, const uint8_t *p, size_t n)
{
    int64_t number;
    int     got;
    if (!r->begun) {
        if ((got = header(r, p, n, &number, "invalid multibulk length")) != 1)
            return got;
        if (number > (int64_t)limits->args_max)
            return broken(r, limits->args_max < HTC__RESP_ARGS_MAX ? "unauthenticated multibulk length"
                                                                   : "invalid multibulk length");
        r->begun = 1;
        r->argc = number > 0 ? (uint32_t)number : 0;
    }
    while (r->got < r->argc) {
        size_t before = r->at;
        if (r->at == n)
            return 0;
        if (p[r->at] != '$')
            return broken(r, "expected '$'");
        if ((got = header(r, p, n, &number, "invalid bulk length")) != 1)
            return got;
        if (number < 0 || (uint64_t)number > limits->bulk_max)
            return broken(r, limits->args_max < HTC__RESP_ARGS_MAX ? "unauthenticated bulk length"
                                                                   : "invalid bulk length");
        size_t len = (size_t)number;
        if (r->at + len + 2 > limits->bytes_max)
            return broken(r, "too big a request");
        if (n - r->at < len + 2) {
            r->at = before;
            return 0;
        }
        if (p[r->at + len] != '\r' || p[r->at + len + 1] != '\n')
            return broken(r, "expected the end of a bulk string");
        if ((got = htc__resp_request_add(r, r->at, len)) != 1)
            return got;
        r->at += len + 2;
    }
    return 1;
}

/* Behind a header line of this type at p, with its number of at most three digits; NULL: it is another, or longer, or not
 * whole. One digit after the other: a loop costs three times as much, and requests are mostly such lines. */
static inline const uint8_t *plain_header(const uint8_t *p, const uint8_t *end, uint8_t type, uint32_t *number)
{
    if (end - p < 6 || p[0] != type) /* nothing whole is shorter: "$0", and two ends of lines */
        return NULL;
    uint32_t a = p[1] - (uint32_t)'0', b = p[2] - (uint32_t)'0', c = p[3] - (uint32_t)'0';
    if (a > 9)
        return NULL;
    if (p[2] == '\r') {
        *number = a;
        return p[3] == '\n' ? p + 4 : NULL;
    }
    if (b > 9 || a == 0)
        return NULL;
    if (p[3] == '\r') {
        *number = a * 10 + b;
        return p[4] == '\n' ? p + 5 : NULL;
    }
    *number = a * 100 + b * 10 + c;
    return c <= 9 && p[4] == '\r' && p[5] == '\n' ? p + 6 : NULL;
}

size_t htc__resp_parse_few(htc__resp_few *few, const htc__resp_limits *limits, const uint8_t *p, size_t n)
{
    const uint8_t *at = p, *end = p + n;
    uint32_t       len;
    if (!(at = plain_header(at, end, '*', &few->argc)) || few->argc == 0 || few->argc > HTC__RESP_FEW)
        return 0;
    for (uint32_t i = 0; i < few->argc; i++) {
        if (!(at = plain_header(at, end, '$', &len)) || (size_t)(end - at) < (size_t)len + 2 || at[len] != '\r' ||
            at[len + 1] != '\n')
            return 0;
        few->args[i] = (htc__resp_place){ (uint32_t)(at - p), len };
        at += len + 2;
    }
    return (size_t)(at - p) <= limits->bytes_max ? (size_t)(at - p) : 0;
}

static int hex(uint8_t c)
{
    return c >= '0' && c <= '9'   ? c - '0'
           : c >= 'a' && c <= 'f' ? c - 'a' + 10
           : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                  : -1;
}

/* One character behind a backslash within double quotes; how many bytes of p it took. */
static size_t escaped(htc__resp_request *r, const uint8_t *p, size_t n)
{
    static const char from[] = "nrtba", to[] = "\n\r\t\b\a";
    if (n >= 3 && p[0] == 'x' && hex(p[1]) >= 0 && hex(p[2]) >= 0) {
        htc_put_u8(&r->text, (uint8_t)(hex(p[1]) << 4 | hex(p[2])));
        return 3;
    }
    const char *known = p[0] ? strchr(from, p[0]) : NULL;
    htc_put_u8(&r->text, known ? (uint8_t)to[known - from] : p[0]);
    return 1;
}

/* The word at p, of n bytes up to the end of the line, into text. How many bytes it took, 0: its quotes are not right. */
static size_t word(htc__resp_request *r, const uint8_t *p, size_t n)
{
    uint8_t quote = 0;
    size_t  i = 0;
    while (i < n) {
        uint8_t c = p[i++];
        if (quote == '"' && c == '\\' && i < n) {
            i += escaped(r, p + i, n - i);
        } else if (quote == '\'' && c == '\\' && i < n && p[i] == '\'') {
            htc_put_u8(&r->text, p[i++]);
        } else if (quote && c == quote) {
            return i == n || p[i] == ' ' || p[i] == '\t' ? i : 0;
        } else if (!quote && (c == '"' || c == '\'')) {
            quote = c;
        } else if (!quote && (c == ' ' || c == '\t')) {
            return i;
        } else {
            htc_put_u8(&r->text, c);
        }
    }
    return quote ? 0 : i;
}

static int line(htc__resp_request *r, const uint8_t *p, size_t n)
{
    const uint8_t *end = memchr(p + r->at, '\n', n - r->at);
    if (!end && n > HTC__RESP_INLINE_MAX)
        return broken(r, "too big inline request");
    if (!end) {
        r->at = n;
        return 0;
    }
    size_t len = (size_t)(end - p), i = 0;
    if (len > HTC__RESP_INLINE_MAX)
        return broken(r, "too big inline request");
    r->by_line = 1;
    r->at = len + 1;
    len -= len > 0 && p[len - 1] == '\r';
    for (;;) {
        while (i < len && (p[i] == ' ' || p[i] == '\t'))
            i++;
        if (i == len)
            break;
        size_t at = r->text.len, took = word(r, p + i, len - i);
        int    added = took ? htc__resp_request_add(r, at, r->text.len - at) : 1;
        if (took == 0)
            return broken(r, "unbalanced quotes in request");
        if (added != 1 || r->text.status != HTC_OK)
            return -2;
        i += took;
    }
    r->argc = r->got;
    return 1;
}

int htc__resp_parse(htc__resp_request *r, const htc__resp_limits *limits, const uint8_t *p, size_t n)
{
    if (n == 0)
        return 0;
    if (r->by_line)
        return 1;
    return p[0] == '*' ? array(r, limits, p, n) : line(r, p, n);
}
