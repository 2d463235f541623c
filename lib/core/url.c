#include "core/url.h"

#include <stdio.h>
#include <string.h>

static const char *const schemes[] = { "http://", "https://", "ftp://" };

static int begins(htc_bytes text, const char *with)
{
    size_t n = strlen(with);
    return text.len >= n && memcmp(text.data, with, n) == 0;
}

int htc__url_is_web(htc_bytes text)
{
    return begins(text, "http:") || begins(text, "https:") || begins(text, "ftp:");
}

int htc__url_is_ftp(htc_bytes text)
{
    return begins(text, "ftp:");
}

/* Bytes of the scheme with its slashes; 0: none that is taken. */
static size_t scheme_of(htc_bytes url)
{
    for (size_t i = 0; i < sizeof schemes / sizeof schemes[0]; i++)
        if (begins(url, schemes[i]))
            return strlen(schemes[i]);
    return 0;
}

/* Where the host ends. */
static size_t authority_end(htc_bytes url, size_t from)
{
    const char *p = url.data;
    while (from < url.len && !strchr("/?#\\", p[from]))
        from++;
    return from;
}

const char *htc__url_wrong(htc_bytes url)
{
    const char *p = url.data;
    size_t      from = scheme_of(url), end = authority_end(url, from);
    if (!from)
        return "does not begin with http://, https:// or ftp://";
    if (url.len > HTC__URL_MAX)
        return "is longer than 4000 bytes";
    for (size_t i = 0; i < url.len; i++)
        if (p[i] <= 0x20 || p[i] >= 0x7f || p[i] == '\\')
            return "has a blank or another character that a URL has to write as %XX";
    if (memchr(p + from, '@', end - from))
        return "has a user or password in it, which many would see: put them in a file (htc submit --credentials FILE)";
    if (end == from || p[from] == ':')
        return "names no host";
    if (begins(url, "ftp:") && (end == url.len || p[url.len - 1] == '/' || memchr(p + end, ';', url.len - end)))
        return "names a directory, or has a type behind ;";
    return NULL;
}

void htc__url_show(const char *url, char *out, size_t room)
{
    htc_bytes   all = htc_bytes_of(url);
    size_t      from = scheme_of(all), end = authority_end(all, from);
    const char *at = from ? memrchr(url + from, '@', end - from) : NULL;
    size_t      host = at ? (size_t)(at + 1 - url) : from, len = host + strcspn(url + host, "?#");
    int         n = snprintf(out, room, "%.*s%.*s%s", (int)from, url, (int)(len - host), url + host, url[len] == '?' ? "?..." : "");
    if (room > 4 && n >= 0 && (size_t)n >= room)
        memcpy(out + room - 4, "...", 4);
    for (char *c = out; room && *c; c++)
        if (*c < 0x20 || *c >= 0x7f) /* a blank stays: it would read as the mark before a query */
            *c = '?';
}

htc_status htc__url_next(const char *from, const char *to, unsigned hops)
{
    htc_bytes f = htc_bytes_of(from), t = htc_bytes_of(to);
    if (hops >= HTC__URL_HOPS)
        return HTC_ETOOBIG;
    if (htc__url_wrong(t) || begins(t, "ftp:") || (begins(f, "https:") && !begins(t, "https:")) || begins(f, "ftp:"))
        return HTC_EDENIED;
    return HTC_OK;
}
