/* DAX, the abstract workflows of Pegasus: 2.1 as its workflow generator writes them, and 3.x. */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "work/flow_private.h"
#include "work/xml_private.h"

/* One job while it is read: texts of libxml2 that are freed with it. */
typedef struct job {
    htc__flow_reader *r;
    const xmlNode    *node;
    htc_flow_task     task;
    htc__flow_list    in, out, args; /* htc_flow_file, const char * */
    htc__flow_list    texts;         /* xmlChar * */
    htc_buf           words;         /* of argument, each with its end */
    double            run;           /* s; below 0: not known */
} job;

static __attribute__((format(printf, 5, 6))) htc_status
refuse(htc__flow_reader *r, htc_status status, const xmlNode *node, const char *hint, const char *format, ...)
{
    char    text[sizeof r->error->text];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    return htc__flow_refuse(r, status, htc__xml_line(node), htc__xml_name(node), hint, "%s", text);
}

static int is(const xmlNode *node, const char *name)
{
    return strcmp(htc__xml_name(node), name) == 0;
}

/* An attribute's text, kept until the job has been read; NULL: there is none, or (*status) no memory for it. */
static const char *attribute(job *j, const xmlNode *node, const char *name, htc_status *status)
{
    if (*status != HTC_OK || !xmlHasProp(node, (const xmlChar *)name))
        return NULL;
    xmlChar  *text = htc__xml_attribute(node, NULL, name);
    xmlChar **kept = text ? htc__flow_list_add(j->r->env, &j->texts) : NULL;
    if (!kept) {
        xmlFree(text);
        *status = HTC_ENOMEM;
        return NULL;
    }
    *kept = text;
    return (const char *)text;
}

static htc_status read_seconds(job *j, const xmlNode *node, const char *text)
{
    if (htc__double_parse(htc_bytes_of(text), &j->run) != 1 || !(j->run >= 0))
        return refuse(j->r, HTC_ESCHEMA, node, "a run time is in seconds", "the run time %s is no number, or below 0",
                      htc__quote(htc_bytes_of(text)).text);
    return HTC_OK;
}

static htc_status read_uses(job *j, const xmlNode *node)
{
    htc_status  status = HTC_OK;
    const char *file = attribute(j, node, "file", &status), *name = attribute(j, node, "name", &status),
               *link = attribute(j, node, "link", &status), *size = attribute(j, node, "size", &status);
    uint64_t bytes = 0;
    double   value = 0;
    if (status != HTC_OK)
        return status;
    file = file ? file : name;
    if (!file)
        return refuse(j->r, HTC_ESCHEMA, node, "name it with file, or name", "uses names no file");
    int ok = !size || (htc__double_parse(htc_bytes_of(size), &value) == 1
                           ? htc__flow_scale(value, 1, j->r->o->size_scale, &bytes)
                           : 0);
    if (ok != 1)
        return refuse(j->r, HTC_ESCHEMA, node, "a size is in bytes", "the size %s is no number, below 0, or too large",
                      htc__quote(htc_bytes_of(size)).text);
    int is_output = link && (strcmp(link, "output") == 0 || strcmp(link, "inout") == 0);
    int is_input = link && (strcmp(link, "input") == 0 || strcmp(link, "inout") == 0);
    for (int side = 0; side < 2; side++) {
        htc__flow_list *list = side ? &j->out : &j->in;
        htc_flow_file  *item = (side ? is_output : is_input) ? htc__flow_list_add(j->r->env, list) : NULL;
        if (item)
            *item = (htc_flow_file){ file, bytes };
        else if (side ? is_output : is_input)
            return HTC_ENOMEM;
    }
    return HTC_OK;
}

/* The words of argument, where a file stands by its name. */
static htc_status read_argument(job *j, const xmlNode *node)
{
    htc_status status = HTC_OK;
    for (const xmlNode *part = node->children; part && status == HTC_OK; part = part->next) {
        if (part->type == XML_TEXT_NODE && part->content)
            htc_put_raw(&j->words, htc_bytes_of((const char *)part->content));
        if (part->type != XML_ELEMENT_NODE)
            continue;
        const char *file = attribute(j, part, "name", &status), *old = attribute(j, part, "file", &status);
        htc_put_raw(&j->words, htc_bytes_of(file ? file : old));
    }
    htc_put_u8(&j->words, ' ');
    return status;
}

static htc_status read_profile(job *j, const xmlNode *node)
{
    htc_status  status = HTC_OK;
    const char *space = attribute(j, node, "namespace", &status), *key = attribute(j, node, "key", &status);
    xmlChar    *text = status == HTC_OK && space && key && strcmp(space, "pegasus") == 0 ? htc__xml_text(node) : NULL;
    htc_bytes   value = htc__trim(htc_bytes_of((const char *)text));
    uint64_t    cores = 0;
    if (text && strcmp(key, "runtime") == 0) {
        status = read_seconds(j, node, (const char *)text);
    } else if (text && strcmp(key, "cores") == 0) {
        if (htc__unsigned_parse(value, &cores) != 1 || cores == 0 || cores > UINT32_MAX)
            status = refuse(j->r, HTC_ESCHEMA, node, "leave it out if it is not known",
                            "the cores %s are no whole number from 1 on", htc__quote(value).text);
        j->task.cores = (uint32_t)cores;
    }
    xmlFree(text);
    return status;
}

static htc_status read_parts(job *j)
{
    htc_status status = HTC_OK;
    for (const xmlNode *part = htc__xml_first(j->node); part && status == HTC_OK; part = htc__xml_next(part)) {
        if (is(part, "uses"))
            status = read_uses(j, part);
        else if (is(part, "argument"))
            status = read_argument(j, part);
        else if (is(part, "profile"))
            status = read_profile(j, part);
    }
    return status;
}

/* From words with blanks between them to a list; the buffer grows no more. */
static htc_status split_words(job *j)
{
    htc_put_u8(&j->words, 0);
    if (j->words.status != HTC_OK)
        return j->words.status == HTC_EFULL
                   ? refuse(j->r, HTC_ETOOBIG, j->node, "put them into a file", "the arguments are too long")
                   : j->words.status;
    for (char *p = (char *)j->words.data; *p;) {
        size_t n = strcspn(p, " \t\r\n");
        if (n) {
            const char **word = htc__flow_list_add(j->r->env, &j->args);
            if (!word)
                return HTC_ENOMEM;
            *word = p;
        }
        p += n;
        if (*p)
            *p++ = '\0';
    }
    return HTC_OK;
}

static htc_status put_job(job *j)
{
    htc_flow_task *t = &j->task;
    uint32_t       id, line = htc__xml_line(j->node);
    int            ok = j->run < 0 ? 1 : htc__flow_scale(j->run, 1e9, j->r->o->time_scale, &t->run);
    if (ok != 1)
        return refuse(j->r, HTC_ESCHEMA, j->node, "a run time is in seconds", "the run time is too long");
    t->in = j->in.items;
    t->n_in = j->in.n;
    t->out = j->out.items;
    t->n_out = j->out.n;
    t->args = j->args.items;
    t->n_args = j->args.n;
    htc_status status = htc__flow_replay(j->r, t, j->run >= 0, line, t->name);
    return status == HTC_OK ? htc__flow_put(j->r, t, line, t->name, &id) : status;
}

static htc_status read_job(htc__flow_reader *r, const xmlNode *node)
{
    job        j = { .r = r,
                     .node = node,
                     .task = HTC_FLOW_TASK_INIT,
                     .in = { .item = sizeof(htc_flow_file) },
                     .out = { .item = sizeof(htc_flow_file) },
                     .args = { .item = sizeof(char *) },
                     .texts = { .item = sizeof(xmlChar *) },
                     .run = -1 };
    htc_status status = HTC_OK;
    htc_buf_init(&j.words, r->env, HTC_TASK_TEXTS_MAX);
    j.task.name = attribute(&j, node, "id", &status);
    j.task.kind = attribute(&j, node, "name", &status);
    const char *run = attribute(&j, node, "runtime", &status);
    if (status == HTC_OK && !j.task.name)
        status = refuse(r, HTC_ESCHEMA, node, "give every job an id", "the job has no id");
    if (status == HTC_OK && run)
        status = read_seconds(&j, node, run);
    if (status == HTC_OK)
        status = read_parts(&j);
    if (status == HTC_OK)
        status = split_words(&j);
    if (status == HTC_OK)
        status = put_job(&j);
    for (size_t i = 0; i < j.texts.n; i++)
        xmlFree(((xmlChar **)j.texts.items)[i]);
    htc_buf_free(&j.words);
    htc__flow_list *lists[] = { &j.in, &j.out, &j.args, &j.texts };
    for (size_t i = 0; i < sizeof lists / sizeof *lists; i++)
        htc__flow_list_free(r->env, lists[i]);
    return status;
}

/* <child ref="..."><parent ref="..."/></child>; a job may come behind it. */
static htc_status read_child(htc__flow_reader *r, const xmlNode *node)
{
    xmlChar   *child = htc__xml_attribute(node, NULL, "ref");
    uint32_t   id;
    htc_status status = HTC_OK;
    if (!child)
        return refuse(r, HTC_ESCHEMA, node, "name a job with ref", "child has no ref");
    if (htc_flow_find(r->flow, (const char *)child, &id) != HTC_OK)
        status = refuse(r, HTC_ESCHEMA, node, "jobs come first, then what they wait for",
                        "there is no job %s before this line", htc__quote(htc_bytes_of((const char *)child)).text);
    for (const xmlNode *part = htc__xml_first(node); part && status == HTC_OK; part = htc__xml_next(part)) {
        xmlChar *parent = is(part, "parent") ? htc__xml_attribute(part, NULL, "ref") : NULL;
        if (!parent)
            status = refuse(r, HTC_ESCHEMA, part, "name a job with ref",
                            "in child there is parent with ref, and nothing else");
        else
            status = htc__flow_put_after(r, id, htc_bytes_of((const char *)parent), HTC_FLOW_OK, htc__xml_line(part),
                                         NULL, 0, 0);
        xmlFree(parent);
    }
    xmlFree(child);
    return status;
}

static htc_status read_root(htc__flow_reader *r, const xmlNode *root)
{
    htc_status status = HTC_OK;
    if (!is(root, "adag"))
        return refuse(r, HTC_EUNSUPPORTED, root,
                      is(root, "JobDefinition") ? "submit it as a job: it is JSDL" : "write it as DAX, JSON or text",
                      "the document is no DAX: its root is %s", htc__quote(htc_bytes_of(htc__xml_name(root))).text);
    xmlChar *version = htc__xml_attribute(root, NULL, "version");
    if (version && strncmp((const char *)version, "2.", 2) != 0 && strncmp((const char *)version, "3.", 2) != 0)
        status = refuse(r, HTC_EUNSUPPORTED, root, "DAX 2.1 and 3.x are read", "the version is %s",
                        htc__quote(htc_bytes_of((const char *)version)).text);
    xmlFree(version);
    for (const xmlNode *part = htc__xml_first(root); part && status == HTC_OK; part = htc__xml_next(part)) {
        if (is(part, "job"))
            status = read_job(r, part);
        else if (is(part, "child"))
            status = read_child(r, part);
        else if (is(part, "dag") || is(part, "dax"))
            status = refuse(r, HTC_EUNSUPPORTED, part, "put its jobs in its place",
                            "a workflow inside a workflow is not read");
    }
    return status;
}

htc_status htc__flow_read_dax(htc__flow_reader *r)
{
    xmlDoc    *doc = NULL;
    htc_status status = htc__xml_read(r->bytes, r->bytes.len, &doc, r->error);
    if (status != HTC_OK)
        return status;
    status = read_root(r, xmlDocGetRootElement(doc));
    xmlFreeDoc(doc);
    return status;
}
