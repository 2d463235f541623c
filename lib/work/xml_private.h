/* What the files that see libxml2 share. */
#ifndef HTC_WORK_XML_PRIVATE_H
#define HTC_WORK_XML_PRIVATE_H

#include <libxml/tree.h>

#include "work/work_private.h"

/* Parse without network, entities or document type. HTC_EXML or HTC_ETOOBIG. xmlFreeDoc ends it. Whoever sets (*out)->_private to the htc_bytes that
 * it was read from has columns in its errors. */
htc_status htc__xml_read(htc_bytes xml, size_t bytes_max, xmlDoc **out, htc_error *error);
/* The name as the schema has it, of one in any case; NULL: it has none. */
const char *htc__jsdl_architecture(const char *text);
const char *htc__jsdl_system(const char *text);
/* HTC_ESCHEMA at the first element that breaks our schema (schema.c). */
htc_status htc__schema_check(const xmlDoc *doc, htc_error *error);

int htc__xml_is(const xmlNode *node, const char *ns, const char *name);
int htc__xml_in(const xmlNode *node, const char *ns);
/* "Argument": the element a message names. */
const char *htc__xml_name(const xmlNode *node);
uint32_t    htc__xml_line(const xmlNode *node);
/* As htc__refuse, with where the element stands: line, column, and its path from the root. */
htc_status htc__xml_refuse(htc_error *e, htc_status status, const xmlNode *node, const char *format, ...)
    __attribute__((format(printf, 4, 5)));
void htc__xml_place(htc_error *e, const xmlNode *node);
/* First child element, next sibling element; NULL at the end. */
const xmlNode *htc__xml_first(const xmlNode *node);
const xmlNode *htc__xml_next(const xmlNode *node);
/* Text of an element or attribute: xmlFree. NULL: no memory. */
xmlChar *htc__xml_text(const xmlNode *node);
/* Attribute without namespace (ns NULL) or in one; NULL if it is not there. Text: xmlFree. */
xmlChar *htc__xml_attribute(const xmlNode *node, const char *ns, const char *name);

/* The template's elements in document order; parent of element 0 is itself, the document's place. */
typedef struct htc__element {
    const xmlNode *node;
    uint32_t       parent;
    uint32_t       slot;      /* number + 1 of the slot its text is, or 0 */
    uint32_t       name_slot; /* the same of its attribute name */
} htc__element;

/* One place that a Match selects. */
typedef struct htc__place {
    uint32_t    element;
    const char *attribute; /* NULL: the element's text */
} htc__place;

typedef struct htc__binding {
    const char *prefix, *ns;
} htc__binding;

typedef struct htc__selection {
    htc__place *places;
    size_t      n, cap;
    int         part;          /* substring() */
    uint64_t    first, length; /* from 1; length UINT64_MAX: to the end */
} htc__selection;

/* Evaluate a Match. elements[0] is the document node (node NULL). HTC_EXPATH with error->column counted in the
 * expression, HTC_ETOOBIG when *work runs out. Free the places with htc__free(cap). */
htc_status htc__xpath_select(const htc_env *env, const char *expression, const htc__binding *bindings,
                             size_t n_bindings, const htc__element *elements, size_t n_elements, uint64_t *work,
                             htc__selection *out, htc_error *error);

#endif
