#include "net/loop/http_request.h"

#include <string.h>

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
    const char *query = memchr(target.data, '?', target.len);
    r->method = method;
    r->path = (htc_bytes){ target.data, query ? (size_t)(query - (const char *)target.data) : target.len };
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
    htc_bytes line = next_line(&bytes);
    *r = (htc__http_request){ { NULL, 0 }, { NULL, 0 } };
    if (!line.data)
        return 0;
    int status = read_first(line, r);
    while (status == 200) {
        line = next_line(&bytes);
        if (!line.data)
            return 0;
        if (line.len == 0)
            break;
        if (!field_fits(line))
            status = 400;
    }
    return status;
}
