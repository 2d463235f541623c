/* Where an element stands, for errors: its path from the root, and the line and column of its tag, which a tree of libxml2 does not keep. */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "work/xml_private.h"

#define DEPTH_MAX 64

/* "/Name", with its number among brothers of that name if it has any. */
static void put_step(char *path, size_t cap, const xmlNode *node)
{
    size_t at = strlen(path), number = 1, same = 0;
    for (const xmlNode *n = node->parent ? htc__xml_first(node->parent) : NULL; n; n = htc__xml_next(n)) {
        same += strcmp(htc__xml_name(n), htc__xml_name(node)) == 0;
        number = n == node ? same : number;
    }
    if (same > 1)
        snprintf(path + at, cap - at, "/%s[%zu]", htc__xml_name(node), number);
    else
        snprintf(path + at, cap - at, "/%s", htc__xml_name(node));
}

/* What is too long loses its beginning. */
static void put_path(const xmlNode *node, char *out, size_t cap)
{
    const xmlNode *steps[DEPTH_MAX];
    size_t         n = 0;
    char           path[2048] = "";
    for (; node && node->type == XML_ELEMENT_NODE && n < DEPTH_MAX; node = node->parent)
        steps[n++] = node;
    while (n-- > 0)
        put_step(path, sizeof path, steps[n]);
    size_t len = strlen(path);
    const char *end = len < cap ? path : path + len - (cap - 1);
    memcpy(out, end, strlen(end) + 1);
    if (end != path)
        memcpy(out, "...", 3);
}

/* How many elements stand before it. */
static size_t number_of(const xmlNode *node)
{
    size_t         n = 0;
    const xmlNode *at = xmlDocGetRootElement(node->doc);
    while (at && at != node) {
        const xmlNode *next = htc__xml_first(at);
        for (; !next && at->parent && at->parent->type == XML_ELEMENT_NODE; at = at->parent)
            if ((next = htc__xml_next(at)))
                break;
        at = next;
        n++;
    }
    return n;
}

static size_t skip_past(htc_bytes xml, size_t at, const char *end)
{
    const char *p = xml.data;
    size_t      n = strlen(end);
    while (at + n <= xml.len && memcmp(p + at, end, n) != 0)
        at++;
    return at + n;
}

/* Behind a tag that begins at `at`; quotes may hold what they like. */
static size_t skip_tag(htc_bytes xml, size_t at)
{
    const char *p = xml.data;
    char        quote = 0;
    for (; at < xml.len && (quote || p[at] != '>'); at++)
        quote = quote ? (p[at] == quote ? 0 : quote) : p[at] == '"' || p[at] == '\'' ? p[at] : 0;
    return at + 1;
}

static int begins(htc_bytes xml, size_t at, const char *word)
{
    size_t n = strlen(word);
    return at + n <= xml.len && memcmp((const char *)xml.data + at, word, n) == 0;
}

/* Where start tag `number` of well-formed UTF-8 stands; xml.len: not found. */
static size_t find_tag(htc_bytes xml, size_t number)
{
    const char *p = xml.data;
    for (size_t at = 0; at < xml.len;) {
        if (p[at] != '<')
            at++;
        else if (begins(xml, at, "<!--"))
            at = skip_past(xml, at + 4, "-->");
        else if (begins(xml, at, "<![CDATA["))
            at = skip_past(xml, at, "]]>");
        else if (begins(xml, at, "<?"))
            at = skip_past(xml, at, "?>");
        else if (begins(xml, at, "</") || number-- > 0)
            at = skip_tag(xml, at);
        else
            return at;
    }
    return xml.len;
}

void htc__xml_place(htc_error *e, const xmlNode *node)
{
    put_path(node, e->where, sizeof e->where);
    const htc_bytes *xml = node->doc ? node->doc->_private : NULL;
    size_t           at = xml ? find_tag(*xml, number_of(node)) : 0;
    e->line = htc__xml_line(node);
    if (!xml || at >= xml->len)
        return;
    e->line = e->column = 1;
    for (const char *p = xml->data, *end = p + at; p < end; p++) {
        e->line += *p == '\n';
        e->column = *p == '\n' ? 1 : e->column + (((unsigned char)*p & 0xc0) != 0x80);
    }
}

htc_status htc__xml_refuse(htc_error *e, htc_status status, const xmlNode *node, const char *format, ...)
{
    char    text[sizeof e->text];
    va_list args;
    if (!e)
        return status;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    htc__refuse(e, status, 0, "", "%s", text);
    htc__xml_place(e, node);
    return status;
}
