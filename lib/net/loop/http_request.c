#include "net/loop/http_request.h"

#include <string.h>
#include <strings.h>

/* RFC 9110: what methods and names of fields are made of. */
static int is_token(htc_bytes word)
{
    const char *p = word.data;
    for (size_t i = 0; i < word.len; i++)
        if (!((p[i] >= '0' && p[i] <= '9') || (p[i] >= 'a' && p[i] <= 'z') || (p[i] >= 'A' && p[i] <= 'Z') ||
              (p[i] && strchr("!#$%&'*+-.^_`|~", p[i]))))
            return 0;
    return word.len > 0;
}

static int is_visible(htc_bytes word)
{
    const unsigned char *p = word.data;
    for (size_t i = 0; i < word.len; i++)
        if (p[i] <= ' ' || p[i] >= 0x7f)
            return 0;
    return word.len > 0;
}

/* Up to this character, which is gone too; the rest stays. data NULL: it is not there. */
static htc_bytes cut(htc_bytes *rest, char at)
{
    const char *p = rest->data, *end = rest->len ? memchr(p, at, rest->len) : NULL;
    if (!end)
        return (htc_bytes){ NULL, 0 };
    htc_bytes before = { p, (size_t)(end - p) };
    *rest = (htc_bytes){ end + 1, rest->len - before.len - 1 };
    return before;
}

/* A line without its end. data NULL: it is not all there. */
static htc_bytes next_line(htc_bytes *rest)
{
    htc_bytes line = cut(rest, '\n');
    if (line.len && ((const char *)line.data)[line.len - 1] == '\r')
        line.len--;
    return line;
}

static int read_first(htc_bytes line, htc__http_request *r)
{
    htc_bytes method = cut(&line, ' '), target = cut(&line, ' '), version = line;
    if (!target.data || !is_token(method) || !is_visible(target) || ((const char *)target.data)[0] != '/')
        return 400;
    if (version.len != 8 || memcmp(version.data, "HTTP/", 5) != 0)
        return 400;
    if (memcmp((const char *)version.data + 5, "1.0", 3) != 0 && memcmp((const char *)version.data + 5, "1.1", 3) != 0)
        return 505;
    r->plain = ((const char *)version.data)[7] == '0';
    const char *query = memchr(target.data, '?', target.len);
    r->method = method;
    r->path = (htc_bytes){ target.data, query ? (size_t)(query - (const char *)target.data) : target.len };
    if (query)
        r->query = (htc_bytes){ query + 1, target.len - r->path.len - 1 };
    return 200;
}

static int field_fits(htc_bytes line)
{
    htc_bytes            name = cut(&line, ':');
    const unsigned char *p = line.data;
    for (size_t i = 0; i < line.len; i++)
        if ((p[i] < ' ' && p[i] != '\t') || p[i] == 0x7f)
            return 0;
    return name.data && is_token(name);
}

int htc__http_request_read(htc_bytes bytes, htc__http_request *r)
{
    const char *begin = bytes.data;
    htc_bytes   line = next_line(&bytes);
    *r = (htc__http_request){ .length = 0 };
    if (!line.data)
        return 0;
    int         status = read_first(line, r);
    const char *fields = bytes.data;
    while (status == 200) {
        line = next_line(&bytes);
        if (!line.data)
            return 0;
        if (line.len == 0) {
            r->fields = (htc_bytes){ fields, (size_t)((const char *)line.data - fields) };
            r->length = (size_t)((const char *)bytes.data - begin);
            break;
        }
        if (!field_fits(line))
            status = 400;
    }
    return status;
}

static int is_named(htc_bytes word, const char *name)
{
    return word.len == strlen(name) && strncasecmp(word.data, name, word.len) == 0;
}

size_t htc__http_request_field(const htc__http_request *r, const char *name, htc_bytes *value)
{
    htc_bytes rest = r->fields, line;
    size_t    n = 0;
    *value = (htc_bytes){ NULL, 0 };
    while ((line = next_line(&rest)).data) {
        htc_bytes word = cut(&line, ':');
        if (!word.data || !is_named(word, name))
            continue;
        const char *p = line.data;
        while (line.len && (p[0] == ' ' || p[0] == '\t'))
            p++, line.len--;
        while (line.len && (p[line.len - 1] == ' ' || p[line.len - 1] == '\t'))
            line.len--;
        *value = (htc_bytes){ p, line.len };
        n++;
    }
    return n;
}

int htc__http_request_argument(htc_bytes query, const char *name, htc_bytes *value)
{
    size_t n = 0;
    *value = (htc_bytes){ NULL, 0 };
    while (query.len) {
        htc_bytes part = cut(&query, '&');
        if (!part.data) {
            part = query;
            query.len = 0;
        }
        htc_bytes word = cut(&part, '=');
        if (!word.data || word.len != strlen(name) || memcmp(word.data, name, word.len) != 0)
            continue;
        *value = part;
        n++;
    }
    return n == 1;
}
