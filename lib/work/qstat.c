#include "work/qstat.h"

#include <string.h>

#include "work/xml_private.h"

#define LIST_MAX ((size_t)64 << 20)

static int is(const xmlNode *node, const char *name)
{
    return strcmp((const char *)node->name, name) == 0;
}

/* The text of the first child of that name: xmlFree. NULL: there is none, or no memory. */
static xmlChar *child_text(const xmlNode *node, const char *name)
{
    for (const xmlNode *child = htc__xml_first(node); child; child = htc__xml_next(child))
        if (is(child, name))
            return htc__xml_text(child);
    return NULL;
}

static const char *text_of(const xmlChar *text)
{
    return text ? (const char *)text : "";
}

static htc_status read_job(const xmlNode *node, htc_status (*job)(void *ctx, const htc__qstat_job *job), void *ctx)
{
    xmlChar *number = child_text(node, "JB_job_number"), *name = child_text(node, "JB_name"), *state = child_text(node, "state"),
            *tasks = child_text(node, "tasks");
    htc_status status = number && name && state
                            ? job(ctx, &(htc__qstat_job){ text_of(number), text_of(name), text_of(state), text_of(tasks) })
                            : HTC_EFORMAT;
    xmlFree(number);
    xmlFree(name);
    xmlFree(state);
    xmlFree(tasks);
    return status;
}

/* <job_info> holds <queue_info>, what runs, and <job_info>, what waits; both hold <job_list>, one for each job. */
static htc_status read_lists(const xmlNode *root, htc_status (*job)(void *ctx, const htc__qstat_job *job), void *ctx)
{
    htc_status status = is(root, "job_info") && htc__xml_first(root) ? HTC_OK : HTC_EFORMAT;
    for (const xmlNode *list = htc__xml_first(root); list && status == HTC_OK; list = htc__xml_next(list)) {
        if (!is(list, "queue_info") && !is(list, "job_info"))
            return HTC_EFORMAT;
        for (const xmlNode *one = htc__xml_first(list); one && status == HTC_OK; one = htc__xml_next(one))
            status = is(one, "job_list") ? read_job(one, job, ctx) : HTC_EFORMAT;
    }
    return status;
}

htc_status htc__qstat_read(htc_bytes xml, htc_status (*job)(void *ctx, const htc__qstat_job *job), void *ctx)
{
    xmlDoc    *doc = NULL;
    htc_status status = htc__xml_read(xml, LIST_MAX, &doc, NULL);
    if (status != HTC_OK)
        return status == HTC_ENOMEM ? status : HTC_EFORMAT;
    const xmlNode *root = xmlDocGetRootElement(doc);
    status = root ? read_lists(root, job, ctx) : HTC_EFORMAT;
    xmlFreeDoc(doc);
    return status;
}
