/* Our schema against the published ones: the same verdict over every document there is, and over thousands made by
 * damaging them. The published schemas are read at run time; their terms keep them out of this tree (tests/data/README.md), and Debian
 * has no package of them, so where they are not beside it these tests are skipped. */
#include "expect.h"
#include <dirent.h>
#include <libxml/parser.h>
#include <libxml/xmlschemas.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "work/xml_private.h"

static char root[512];

static int find_data(void)
{
    static const char *const places[] = { "../shared/data/jsdl", "../../shared/data/jsdl", "../../../shared/data/jsdl", NULL };
    for (const char *const *p = places; *p; p++)
        if (access(*p, R_OK) == 0 && realpath(*p, root))
            return 1;
    cr_skip("no published schemas of JSDL in ../shared/data/jsdl; tests/data/README.md says what they are");
    return 0;
}

static void ignore_error(void *ctx, xmlErrorPtr e)
{
    (void)ctx;
    (void)e;
}

/* The schemas at once, as one schema of imports. What the HPC profile's holds is not ours to know: it is refused as a
 * whole, so the damage stays out of it. */
static xmlSchema *published(int with_hpc)
{
    static const char *const schemas[][2] = {
        { HTC_JSDL_NS, "jsdl.xsd" },          { HTC_POSIX_NS, "jsdl-posix.xsd" },
        { HTC_HPCP_NS, "jsdl-hpcp.xsd" },     { HTC_SWEEP_NS, "sweep.xsd" },
        { HTC_SWEEP_FUNCTIONS_NS, "sweep-functions.xsd" },
    };
    char   text[4096];
    size_t n = (size_t)snprintf(text, sizeof text, "<s:schema xmlns:s=\"http://www.w3.org/2001/XMLSchema\">");
    for (size_t i = 0; i < sizeof schemas / sizeof schemas[0]; i++)
        if (with_hpc || strcmp(schemas[i][0], HTC_HPCP_NS) != 0)
            n += (size_t)snprintf(text + n, sizeof text - n, "<s:import namespace=\"%s\" schemaLocation=\"%s/xsd/%s\"/>",
                                  schemas[i][0], root, schemas[i][1]);
    n += (size_t)snprintf(text + n, sizeof text - n, "</s:schema>");
    cr_assert(lt(sz, n, sizeof text));
    xmlSchemaParserCtxt *parser = xmlSchemaNewMemParserCtxt(text, (int)n);
    xmlSchemaSetParserStructuredErrors(parser, ignore_error, NULL);
    xmlSchema *schema = xmlSchemaParse(parser);
    xmlSchemaFreeParserCtxt(parser);
    cr_assert(schema != NULL, "the published schemas do not load");
    return schema;
}

static int is_valid(xmlSchema *schema, xmlDoc *doc)
{
    xmlSchemaValidCtxt *ctx = xmlSchemaNewValidCtxt(schema);
    xmlSchemaSetValidStructuredErrors(ctx, ignore_error, NULL);
    int result = xmlSchemaValidateDoc(ctx, doc);
    xmlSchemaFreeValidCtxt(ctx);
    cr_assert(result >= 0);
    return result == 0;
}

static char *read_file(const char *path, size_t *n)
{
    FILE *f = fopen(path, "rb");
    char *text = malloc(1 << 20);
    cr_assert(f != NULL, "%s", path);
    *n = fread(text, 1, 1 << 20, f);
    fclose(f);
    return text;
}

/* Where we refuse on purpose what the published schemas let through (doc/design/jsdl.md): an element that does not
 * exist, in one of JSDL's own namespaces, at a place for elements of other namespaces; and a document of which
 * another element than JobDefinition is the first. */
static int differs_on_purpose(const htc_error *e)
{
    return strncmp(e->text, "there is no element ", 20) == 0 || strncmp(e->text, "the document begins with ", 25) == 0;
}

static int for_each_sample(int (*see)(const char *name, const char *text, size_t n, void *ctx), void *ctx)
{
    char path[1200];
    int  count = 0;
    snprintf(path, sizeof path, "%s/samples", root);
    struct dirent **names;
    int             n = scandir(path, &names, NULL, alphasort);
    for (int i = 0; i < n; i++) {
        snprintf(path, sizeof path, "%s/samples/%s", root, names[i]->d_name);
        if (names[i]->d_name[0] != '.') {
            size_t len;
            char  *text = read_file(path, &len);
            count += see(names[i]->d_name, text, len, ctx);
            free(text);
        }
        free(names[i]);
    }
    free(names);
    return count;
}

static int compare_verdicts(const char *name, const char *text, size_t n, void *ctx)
{
    xmlDoc    *doc = NULL;
    htc_error  e = { .status = HTC_OK };
    htc_spec  *spec = NULL;
    htc_status status = htc__xml_read((htc_bytes){ text, n }, HTC_XML_BYTES_MAX, &doc, &e);
    cr_assert(eq(int, status, HTC_OK), "%s: %s", name, e.text);
    int theirs = is_valid(ctx, doc);
    xmlFreeDoc(doc);
    status = htc_spec_parse(NULL, (htc_bytes){ text, n }, NULL, &spec, &e);
    htc_spec_destroy(spec);
    cr_expect(theirs == (status != HTC_ESCHEMA), "%s: published schemas say %s, we say %s: %s", name,
              theirs ? "valid" : "invalid", htc_status_name(status), e.text);
    if (status != HTC_OK)
        cr_expect(e.where[0] && e.line > 0, "%s: refused without a place: %s", name, e.text);
    return 1;
}

Test(schema, agrees_with_the_published_ones_on_every_sample)
{
    if (!find_data())
        return;
    xmlSchema *schema = published(1);
    int        n = for_each_sample(compare_verdicts, schema);
    cr_expect(n >= 40, "%d documents", n);
    xmlSchemaFree(schema);
}

/* ---- damage ---- */

typedef struct damage {
    xmlSchema *schema;
    htc_rng    rng;
    int        valid, invalid, on_purpose;
} damage;

static size_t list_elements(xmlNode *node, xmlNode **list, size_t n, size_t max)
{
    for (; node; node = node->next)
        if (node->type == XML_ELEMENT_NODE && n < max) {
            list[n++] = node;
            n = list_elements(node->children, list, n, max);
        }
    return n;
}

static xmlNode *next_element(xmlNode *node)
{
    node = node->next;
    while (node && node->type != XML_ELEMENT_NODE)
        node = node->next;
    return node;
}

static void damage_attribute(htc_rng *rng, xmlNode *node)
{
    static const char *const names[] = { "name", "id", "start", "zzz" };
    static const char *const values[] = { "", "a b", "ok", "-3", "1.5", "true" };
    if (node->properties && htc_rng_below(rng, 2))
        xmlRemoveProp(node->properties);
    else
        xmlSetProp(node, (const xmlChar *)names[htc_rng_below(rng, 4)], (const xmlChar *)values[htc_rng_below(rng, 6)]);
}

static void damage_once(htc_rng *rng, xmlDoc *doc)
{
    static const char *const texts[] = { "", "x", "-1", "true", " 7 ", "1.5e3", "INF", "overwrite", "LINUX", "a b", "%", "+0", "1e" };
    xmlNode                 *all[400];
    size_t                   n = list_elements(xmlDocGetRootElement(doc), all, 0, 400);
    xmlNode                 *node = all[htc_rng_below(rng, n)], *other = all[htc_rng_below(rng, n)], *next;
    switch (htc_rng_below(rng, 8)) {
    case 0: /* gone */
        if (node->parent->type == XML_ELEMENT_NODE) {
            xmlUnlinkNode(node);
            xmlFreeNode(node);
        }
        break;
    case 1: /* twice */
        if (node->parent->type == XML_ELEMENT_NODE)
            xmlAddNextSibling(node, xmlCopyNode(node, 1));
        break;
    case 2: /* behind the next one */
        next = next_element(node);
        if (next) {
            xmlUnlinkNode(node);
            xmlAddNextSibling(next, node);
        }
        break;
    case 3: /* under another name */
        xmlNodeSetName(node, other->name);
        break;
    case 4: /* of another namespace */
        if (other->ns && node->ns)
            xmlSetNs(node, other->ns);
        break;
    case 5: /* another text, where there is text */
        if (!node->children || node->children->type == XML_TEXT_NODE)
            xmlNodeSetContent(node, (const xmlChar *)texts[htc_rng_below(rng, sizeof texts / sizeof texts[0])]);
        break;
    case 6:
        damage_attribute(rng, node);
        break;
    case 7: /* a copy of it inside of another one */
        if (node->parent->type == XML_ELEMENT_NODE)
            xmlAddChild(other, xmlCopyNode(node, 1));
        break;
    }
}

/* libxml2's validator takes "DataStaging* any*" for "(DataStaging | any)*", and likewise where JobProject and Sweep come
 * last before any: documents with one of these behind a foreign sibling are beyond comparison. */
static int validator_errs(const xmlNode *node)
{
    static const char *const last[] = { "DataStaging", "JobProject", "Sweep" };
    for (; node; node = htc__xml_next(node)) {
        for (const xmlNode *before = node->prev; before; before = before->prev)
            for (int i = 0; i < 3 && before->type == XML_ELEMENT_NODE && node->ns != before->ns; i++)
                if (strcmp(htc__xml_name(node), last[i]) == 0)
                    return 1;
        if (htc__xml_first(node) && validator_errs(htc__xml_first(node)))
            return 1;
    }
    return 0;
}

static int compare_damaged(const char *name, const char *text, size_t n, void *ctx)
{
    damage *d = ctx;
    for (int round = 0; round < 120; round++) {
        uint64_t  seed = d->rng.state;
        xmlDoc   *broken = NULL, *doc = NULL;
        xmlChar  *out = NULL;
        int       len = 0;
        htc_error e = { .status = HTC_OK };
        cr_assert(eq(int, htc__xml_read((htc_bytes){ text, n }, HTC_XML_BYTES_MAX, &broken, &e), HTC_OK));
        for (uint64_t times = 1 + htc_rng_below(&d->rng, 3); times > 0; times--)
            damage_once(&d->rng, broken);
        /* Written and read again: names and namespaces are then what a reader sees. */
        xmlDocDumpMemory(broken, &out, &len);
        xmlFreeDoc(broken);
        if (htc__xml_read((htc_bytes){ out, (size_t)len }, HTC_XML_BYTES_MAX, &doc, NULL) == HTC_OK) {
            int        theirs = is_valid(d->schema, doc);
            htc_status status = htc__schema_check(doc, &e);
            if (theirs && status == HTC_ESCHEMA && (differs_on_purpose(&e) || validator_errs(xmlDocGetRootElement(doc))))
                d->on_purpose++;
            else
                cr_assert(theirs == (status == HTC_OK), "%s seed %llu: published schemas say %s, we say %s: %s\n%s", name,
                          (unsigned long long)seed, theirs ? "valid" : "invalid", htc_status_name(status), e.text, out);
            theirs ? d->valid++ : d->invalid++;
            xmlFreeDoc(doc);
        }
        xmlFree(out);
    }
    return 1;
}

Test(schema, agrees_with_the_published_ones_on_damaged_documents)
{
    if (!find_data())
        return;
    damage d = { .schema = published(0), .rng = { 2013 } };
    for_each_sample(compare_damaged, &d);
    /* Both verdicts have to be common, or the comparison proves little. */
    cr_expect(d.valid > 500 && d.invalid > 1000, "%d valid, %d invalid", d.valid, d.invalid);
    cr_expect(d.on_purpose < d.valid / 5, "%d may differ", d.on_purpose);
    xmlSchemaFree(d.schema);
}
