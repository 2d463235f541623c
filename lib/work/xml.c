/* libxml2 on a short leash: memory only, no network, no document type, so no entity to expand; its messages come to
 * us and go nowhere else. */
#include <libxml/parser.h>
#include <libxml/parserInternals.h>
#include <limits.h>
#include <string.h>

#include "work/xml_private.h"

typedef struct reader_state {
    int      failed, has_doctype, out_of_memory;
    uint32_t line, column;
    char     text[240];
    char     doctype[64];
} reader_state;

static void on_error(void *ctx, xmlErrorPtr e)
{
    xmlParserCtxt *parser = ctx;
    reader_state  *s = parser->_private;
    if (e->code == XML_ERR_NO_MEMORY)
        s->out_of_memory = 1;
    if (s->failed || e->level < XML_ERR_ERROR || s->has_doctype)
        return;
    s->failed = 1;
    s->line = e->line > 0 ? (uint32_t)e->line : 0;
    s->column = e->int2 > 0 ? (uint32_t)e->int2 : 0;
    size_t n = e->message ? strcspn(e->message, "\n") : 0;
    if (n >= sizeof s->text)
        n = sizeof s->text - 1;
    if (n)
        memcpy(s->text, e->message, n);
    s->text[n] = '\0';
}

/* Called at "<!DOCTYPE name", before anything in it is read. */
static void on_doctype(void *ctx, const xmlChar *name, const xmlChar *external, const xmlChar *system)
{
    xmlParserCtxt *parser = ctx;
    reader_state  *s = parser->_private;
    (void)external;
    (void)system;
    s->has_doctype = 1;
    s->line = parser->input ? (uint32_t)parser->input->line : 0;
    size_t n = name ? strlen((const char *)name) : 0;
    if (n >= sizeof s->doctype)
        n = sizeof s->doctype - 1;
    if (n)
        memcpy(s->doctype, name, n);
    s->doctype[n] = '\0';
    xmlStopParser(parser);
}

static htc_status report(const reader_state *s, htc_error *error)
{
    if (s->out_of_memory)
        return HTC_ENOMEM;
    if (s->has_doctype) {
        htc_status status =
            htc__refuse(error, HTC_EXML, s->line, "DOCTYPE",
                        "a document type declaration (<!DOCTYPE %s>) is refused: it could define entities", s->doctype);
        if (error)
            strcpy(error->hint, "remove the DOCTYPE and write the text of each entity in its place");
        return status;
    }
    htc_status status = htc__refuse(error, HTC_EXML, s->line, "", "%s", s->text[0] ? s->text : "not an XML document");
    if (error)
        error->column = s->column;
    return status;
}

htc_status htc__xml_read(htc_bytes xml, size_t bytes_max, xmlDoc **out, htc_error *error)
{
    reader_state state = { 0 };
    if (xml.len > bytes_max || xml.len > INT_MAX)
        return htc__refuse(error, HTC_ETOOBIG, 0, "", "the document has %zu bytes, more than %zu", xml.len, bytes_max);
    if (xml.len == 0)
        return htc__refuse(error, HTC_EXML, 1, "", "the document is empty");
    xmlParserCtxt *parser = xmlNewParserCtxt();
    if (!parser)
        return HTC_ENOMEM;
    parser->_private = &state;
    parser->sax->serror = on_error;
    parser->sax->internalSubset = on_doctype;
    /* BIG_LINES: else lines stop at 65535. No XML_PARSE_HUGE: libxml2's own bounds on depth and text stay. */
    xmlDoc *doc = xmlCtxtReadMemory(parser, xml.data, (int)xml.len, NULL, NULL,
                                    XML_PARSE_NONET | XML_PARSE_BIG_LINES | XML_PARSE_NOCDATA);
    int     fine = doc && parser->wellFormed && !state.has_doctype;
    xmlFreeParserCtxt(parser);
    if (fine) {
        *out = doc;
        return HTC_OK;
    }
    xmlFreeDoc(doc);
    return report(&state, error);
}

int htc__xml_in(const xmlNode *node, const char *ns)
{
    return node->ns && node->ns->href && strcmp((const char *)node->ns->href, ns) == 0;
}

int htc__xml_is(const xmlNode *node, const char *ns, const char *name)
{
    return htc__xml_in(node, ns) && strcmp((const char *)node->name, name) == 0;
}

const char *htc__xml_name(const xmlNode *node)
{
    return (const char *)node->name;
}

uint32_t htc__xml_line(const xmlNode *node)
{
    long line = xmlGetLineNo(node);
    return line > 0 ? (uint32_t)line : 0;
}

static const xmlNode *element_from(const xmlNode *node)
{
    while (node && node->type != XML_ELEMENT_NODE)
        node = node->next;
    return node;
}

const xmlNode *htc__xml_first(const xmlNode *node)
{
    return element_from(node->children);
}

const xmlNode *htc__xml_next(const xmlNode *node)
{
    return element_from(node->next);
}

xmlChar *htc__xml_text(const xmlNode *node)
{
    return xmlNodeGetContent(node);
}

xmlChar *htc__xml_attribute(const xmlNode *node, const char *ns, const char *name)
{
    return ns ? xmlGetNsProp(node, (const xmlChar *)name, (const xmlChar *)ns)
              : xmlGetNoNsProp(node, (const xmlChar *)name);
}
