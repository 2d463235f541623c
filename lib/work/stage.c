/* A document that was written beside its files, made into one that is understood elsewhere: whoever knows those files says what stands for
 * each. */
#include <stdio.h>
#include <string.h>

#include "work/xml_private.h"

typedef struct stager {
    xmlDoc            *doc;
    const htc_staging *asked;
    htc_error         *error;
    xmlNode           *executable, *description; /* the last ones; NULL: none */
    const htc_env     *env;
    int                inner; /* the document of an OnEnd */
    int                contained; /* it names an image, which has what is not here */
    const xmlNode     *assignment; /* the last one that was looked at, */
    int                feeds;      /* and whether its values go into a URI */
} stager;

/* ---- the tree ---- */

static int is(const xmlNode *n, const char *ns, const char *name)
{
    return n->type == XML_ELEMENT_NODE && htc__xml_is(n, ns, name);
}

/* The next node in document order. */
static xmlNode *after(xmlNode *n, const xmlNode *root)
{
    if (n->children && n->type == XML_ELEMENT_NODE)
        return n->children;
    while (n != root && !n->next)
        n = n->parent;
    return n == root ? NULL : n->next;
}

/* Its text without the blanks around it: xmlFree. NULL: no memory. */
static char *content_of(const xmlNode *n)
{
    static const char blanks[] = " \t\r\n";
    char             *s = (char *)xmlNodeGetContent(n);
    if (!s)
        return (char *)xmlStrdup((const xmlChar *)"");
    size_t start = strspn(s, blanks), len = strlen(s);
    while (len > start && strchr(blanks, s[len - 1]))
        len--;
    memmove(s, s + start, len - start);
    s[len - start] = '\0';
    return s;
}

/* As it is, without entities. */
static htc_status set_content(xmlNode *n, const char *text)
{
    xmlNodeSetContent(n, NULL);
    xmlNodeAddContent(n, (const xmlChar *)text);
    return n->children && n->children->content ? HTC_OK : HTC_ENOMEM;
}

static htc_status add_child(xmlNode *parent, xmlNs *ns, const char *name, const char *text, xmlNode **made)
{
    xmlNode *n = text ? xmlNewTextChild(parent, ns, (const xmlChar *)name, (const xmlChar *)text)
                      : xmlNewChild(parent, ns, (const xmlChar *)name, NULL);
    if (made)
        *made = n;
    return n ? HTC_OK : HTC_ENOMEM;
}

/* Our own namespace there, by a prefix that the element does not give to another. */
static xmlNs *own_namespace(xmlNode *at)
{
    char   prefix[16] = "htc";
    xmlNs *ns = xmlSearchNsByHref(at->doc, at, (const xmlChar *)HTC_OWN_NS);
    for (unsigned i = 1; !ns && i < 100; i++) {
        ns = xmlNewNs(at, (const xmlChar *)HTC_OWN_NS, (const xmlChar *)prefix);
        snprintf(prefix, sizeof prefix, "htc%u", i);
    }
    return ns;
}

/* JSDL has no word for it: an element of our own says that the staged file may be run. */
static htc_status mark_executable(xmlNode *stage)
{
    if (stage->type != XML_ELEMENT_NODE) /* a document of nothing but a Source */
        return HTC_OK;
    for (xmlNode *n = stage->children; n; n = n->next)
        if (is(n, HTC_OWN_NS, "Executable"))
            return HTC_OK;
    xmlNs *own = own_namespace(stage);
    return own ? add_child(stage, own, "Executable", "true", NULL) : HTC_ENOMEM;
}

/* ---- files ---- */

/* Behind file: what it names, relative to the document or from the root; NULL if it is no such URI. */
static const char *name_of(const char *uri)
{
    if (strncmp(uri, "file:", 5) != 0)
        return NULL;
    uri += 5;
    return uri + (strncmp(uri, "//localhost/", 12) == 0 ? 11 : strncmp(uri, "///", 3) == 0 ? 2 : 0);
}

static htc_status refused(const stager *s, const xmlNode *n, htc_status status)
{
    return status < 0 ? htc__refuse(s->error, status, htc__xml_line(n), htc__xml_name(n), "%s", htc_strerror(status)) : HTC_EINVAL;
}

static htc_status replace_uri(const stager *s, xmlNode *n)
{
    char       *uri = content_of(n);
    const char *name = uri ? name_of(uri) : NULL, *other = NULL;
    uint32_t    flags = 0;
    htc_status  status = uri ? HTC_OK : HTC_ENOMEM;
    if (name) {
        status = s->asked->file(s->asked->ctx, name, &other, &flags);
        if (status != HTC_OK)
            status = refused(s, n, status);
        else if (other)
            status = set_content(n, other);
    }
    if (status == HTC_OK && (flags & HTC_STAGE_EXECUTABLE) && is(n, HTC_JSDL_NS, "URI"))
        status = mark_executable(n->parent->parent);
    xmlFree(uri);
    return status;
}

/* Values of a sweep go into a URI if one of the assignment's expressions names one. */
static htc_status feeds_a_uri(stager *s, const xmlNode *value, int *yes)
{
    xmlNode *assignment = value->parent ? value->parent->parent : NULL;
    *yes = 0;
    if (!assignment || !is(assignment, HTC_SWEEP_NS, "Assignment"))
        return HTC_OK;
    if (assignment != s->assignment) { /* once for all of its values, of which there may be a million */
        s->assignment = assignment;
        s->feeds = 0;
        for (xmlNode *n = assignment->children; n && !s->feeds; n = after(n, assignment))
            if (is(n, HTC_SWEEP_NS, "Match")) {
                char *match = content_of(n);
                if (!match)
                    return HTC_ENOMEM;
                s->feeds = strstr(match, "URI") != NULL;
                xmlFree(match);
            }
    }
    *yes = s->feeds;
    return HTC_OK;
}

static htc_status stage_document(const htc_env *env, htc_bytes xml, const htc_staging *asked, int inner, htc_bytes *out, htc_error *error);

/* What runs at the job's end is a document too, beside the same files. */
static htc_status stage_end(const stager *s, xmlNode *n)
{
    char      *text = content_of(n);
    htc_bytes  made = { NULL, 0 };
    htc_error  ours = { .status = HTC_OK };
    htc_status status = text ? stage_document(s->env, htc_bytes_of(text), s->asked, 1, &made, &ours) : HTC_ENOMEM;
    xmlFree(text);
    if (status == HTC_OK) { /* whose text has a zero behind it */
        char *copy = htc__alloc(s->env, made.len + 1);
        if (copy)
            memcpy(copy, made.data, made.len);
        status = copy ? set_content(n, copy) : HTC_ENOMEM;
        htc__free(s->env, copy, made.len + 1);
    } else if (ours.status != HTC_OK) {
        htc__refuse(s->error, status, htc__xml_line(n), htc__xml_name(n), "OnEnd: %s", ours.text);
    } else {
        status = refused(s, n, status);
    }
    htc_work_free(s->env, made);
    return status;
}

static htc_status look_at(stager *s, xmlNode *n)
{
    int        yes = 0;
    htc_status status = HTC_OK;
    if (n->type != XML_ELEMENT_NODE)
        return HTC_OK;
    if (is(n, HTC_JSDL_NS, "JobDescription"))
        s->description = n;
    else if (is(n, HTC_POSIX_NS, "Executable"))
        s->executable = n;
    else if (is(n, HTC_OWN_NS, "Container"))
        s->contained = 1;
    else if (is(n, HTC_JSDL_NS, "URI"))
        yes = n->parent && is(n->parent, HTC_JSDL_NS, "Source");
    else if (is(n, HTC_OWN_NS, "OnEnd") && !s->inner)
        return stage_end(s, n);
    else if (strcmp(htc__xml_name(n), "Value") == 0)
        status = feeds_a_uri(s, n, &yes);
    return status == HTC_OK && yes ? replace_uri(s, n) : status;
}

/* ---- the program ---- */

static const char *without_dot(const char *name)
{
    return strncmp(name, "./", 2) == 0 ? name + 2 : name;
}

/* Is it the document that brings the program, or a sweep that names it? What it brings may be run. */
static htc_status is_brought(const stager *s, const char *name, int *yes)
{
    xmlNode   *root = xmlDocGetRootElement(s->doc);
    htc_status status = HTC_OK;
    *yes = name[0] == '\0';
    for (xmlNode *n = root; n && status == HTC_OK; n = after(n, root)) {
        int is_name = is(n, HTC_JSDL_NS, "FileName");
        if (!is_name && !is(n, HTC_SWEEP_NS, "Match"))
            continue;
        char *content = content_of(n);
        if (!content)
            return HTC_ENOMEM;
        if (is_name && strcmp(content, without_dot(name)) == 0) {
            *yes = 1;
            status = mark_executable(n->parent);
        } else if (!is_name) {
            *yes |= strstr(content, "Executable") != NULL;
        }
        xmlFree(content);
    }
    return status;
}

/* One more file to bring in, and to run there. */
static htc_status bring(const stager *s, const char *name, const char *uri)
{
    xmlNode   *stage = NULL, *source = NULL;
    xmlNs     *ns = s->description->ns;
    htc_status status = add_child(s->description, ns, "DataStaging", NULL, &stage);
    if (status == HTC_OK)
        status = add_child(stage, ns, "FileName", name, NULL);
    if (status == HTC_OK)
        status = add_child(stage, ns, "CreationFlag", "overwrite", NULL);
    if (status == HTC_OK)
        status = add_child(stage, ns, "Source", NULL, &source);
    if (status == HTC_OK)
        status = add_child(source, ns, "URI", uri, NULL);
    if (status == HTC_OK)
        status = mark_executable(stage);
    xmlChar *here = status == HTC_OK ? xmlStrncatNew((const xmlChar *)"./", (const xmlChar *)name, -1) : NULL;
    if (status == HTC_OK)
        status = here ? set_content(s->executable, (const char *)here) : HTC_ENOMEM;
    xmlFree(here);
    return status;
}

static htc_status stage_program(const stager *s)
{
    char       *name = content_of(s->executable);
    const char *uri = NULL;
    int         brought = 0;
    htc_status  status = name ? is_brought(s, name, &brought) : HTC_ENOMEM;
    if (status == HTC_OK && !brought) {
        status = s->asked->program(s->asked->ctx, name, &uri);
        if (status == HTC_ENOEXEC && s->contained) {
            uri = NULL;
            status = HTC_OK;
        }
        if (status == HTC_OK && uri && !htc__path_stays(htc_bytes_of(without_dot(name))))
            status = HTC_EPATH;
        status = status == HTC_OK ? status : refused(s, s->executable, status);
    }
    if (status == HTC_OK && uri)
        status = bring(s, without_dot(name), uri);
    xmlFree(name);
    return status;
}

/* ---- all of it ---- */

static htc_status stage_all(stager *s)
{
    xmlNode   *root = xmlDocGetRootElement(s->doc);
    htc_status status = HTC_OK;
    for (xmlNode *n = root; n && status == HTC_OK; n = after(n, root))
        status = look_at(s, n);
    return status == HTC_OK && s->executable && s->description ? stage_program(s) : status;
}

static htc_status write_out(const htc_env *env, xmlDoc *doc, htc_bytes *out)
{
    xmlChar *text = NULL;
    int      len = 0;
    htc_buf  b;
    xmlDocDumpMemoryEnc(doc, &text, &len, "UTF-8");
    if (!text)
        return HTC_ENOMEM;
    htc_buf_init(&b, env, 0);
    htc_put_raw(&b, (htc_bytes){ text, (size_t)len });
    xmlFree(text);
    return htc__take_bytes(env, &b, out);
}

static htc_status stage_document(const htc_env *env, htc_bytes xml, const htc_staging *asked, int inner, htc_bytes *out, htc_error *error)
{
    stager     s = { .env = env, .asked = asked, .error = error, .inner = inner };
    htc_status status = htc__xml_read(xml, HTC_XML_BYTES_MAX, &s.doc, error);
    if (status == HTC_OK)
        status = stage_all(&s);
    if (status == HTC_OK)
        status = write_out(env, s.doc, out);
    xmlFreeDoc(s.doc);
    return status;
}

htc_status htc_jsdl_stage(const htc_env *env, htc_bytes xml, const htc_staging *staging, htc_bytes *out, htc_error *error)
{
    htc_staging asked = { 0 };
    htc_error   ours = { .status = HTC_OK };
    htc_status  status = htc__options_copy(&asked, sizeof asked, staging, staging ? staging->size : 0, offsetof(htc_staging, ctx) + sizeof asked.ctx);
    if (status == HTC_OK && (!asked.file || !asked.program || !out || (xml.len && !xml.data)))
        status = HTC_EINVAL;
    if (status == HTC_OK)
        status = stage_document(env, xml, &asked, 0, out, &ours);
    if (status != HTC_OK && error) {
        if (ours.status == HTC_OK)
            htc__refuse(&ours, status, 0, "", "%s", htc_strerror(status));
        *error = ours;
    }
    return status;
}
