/* Flows that are one JSON object: which dialect it is, and the one with jobs. */
#include <stdio.h>
#include <string.h>

#include "work/flow_json.h"

static htc_status key_trigger(htc__flow_object *o, const char *key, const json_t *value)
{
    (void)value;
    return htc__flow_object_refuse(
        o, HTC_EUNSUPPORTED, key,
        "submit the jobs when the trigger has fired, or let them wait for a job that looks for it",
        "nothing here watches a trigger");
}

static const htc__flow_key job_keys[] = {
    { "id", htc__flow_key_name },     { "exe", htc__flow_key_executable }, { "args", htc__flow_key_args },
    { "env", htc__flow_key_env },     { "nodes", htc__flow_key_cores },    { "walltime_s", htc__flow_key_wall },
    { "after", htc__flow_key_later }, { "trigger", key_trigger },
};

htc_status htc__flow_read_jobs(htc__flow_reader *r, const json_t *root)
{
    const json_t *jobs = json_object_get(root, "jobs");
    size_t        i;
    json_t       *job;
    if (!json_is_array(jobs))
        return htc__flow_refuse(r, HTC_ESCHEMA, 0, "jobs", "write {\"jobs\": [{\"id\": ..., \"exe\": ...}]}",
                                "jobs has to be a list");
    if (json_object_size(root) != 1)
        return htc__flow_refuse(r, HTC_ESCHEMA, 0, "", "the document has the key jobs alone",
                                "there is another key beside jobs");
    json_array_foreach(jobs, i, job)
    {
        htc__flow_object o = { .r = r, .json = job, .list = "jobs", .i = (uint32_t)i };
        if (json_is_object(job) && !json_object_get(job, "exe"))
            return htc__flow_object_refuse(&o, HTC_ESCHEMA, "", "write its program under exe", "the job has no exe");
        htc_status status = htc__flow_object_read(&o, job_keys, sizeof job_keys / sizeof *job_keys,
                                                  "keys are id, exe, args, after, env, nodes and walltime_s", "id");
        if (status != HTC_OK)
            return status;
    }
    return HTC_OK;
}

/* Behind one document stands nothing. Where it was the first of many lines nobody asks. */
static htc_status check_end(htc__flow_reader *r, size_t at)
{
    htc_bytes rest = htc__trim((htc_bytes){ (const char *)r->bytes.data + at, r->bytes.len - at });
    return rest.len ? htc__flow_refuse(r, HTC_EJSON, 0, "", "remove it", "something stands behind the document: %s",
                                       htc__quote(rest).text)
                    : HTC_OK;
}

static htc_status read_root(htc__flow_reader *r, uint32_t format, const json_t *root, size_t read)
{
    int has_jobs = json_object_get(root, "jobs") != NULL, has_workflow = json_object_get(root, "workflow") != NULL;
    htc_status status = format == HTC_FLOW_AUTO && (has_jobs || has_workflow) ? check_end(r, read) : HTC_OK;
    if (status != HTC_OK)
        return status;
    if (format == HTC_FLOW_JOBS || (format == HTC_FLOW_AUTO && has_jobs))
        return htc__flow_read_jobs(r, root);
    if (format == HTC_FLOW_WFCOMMONS || (format == HTC_FLOW_AUTO && has_workflow))
        return htc__flow_read_wfcommons(r, root);
    if (!json_is_object(root))
        return htc__flow_refuse(r, HTC_ESCHEMA, 1, "", "write one object a line, or one object with jobs or workflow",
                                "the document is no object");
    return htc__flow_read_jsonl(r);
}

/* Objects of one line each come one after the other, so that the first one alone is looked at here. */
htc_status htc__flow_read_json(htc__flow_reader *r, uint32_t format)
{
    json_error_t e;
    size_t       flags = JSON_REJECT_DUPLICATES | (format == HTC_FLOW_AUTO ? JSON_DISABLE_EOF_CHECK : 0);
    json_t      *root = r->bytes.len ? json_loadb(r->bytes.data, r->bytes.len, flags, &e) : NULL;
    if (!r->bytes.len)
        return htc__flow_refuse(r, HTC_EJSON, 0, "", "is it the right file?", "the document is empty");
    if (!root && json_error_code(&e) == json_error_out_of_memory)
        return HTC_ENOMEM;
    if (!root) {
        htc__flow_refuse(r, HTC_EJSON, e.line > 0 ? (uint32_t)e.line : 0, "", "it has to be JSON", "%s", e.text);
        r->error->column = e.column > 0 ? (uint32_t)e.column : 0;
        return HTC_EJSON;
    }
    htc_status status = read_root(
        r, format, root, e.position > 0 && (size_t)e.position <= r->bytes.len ? (size_t)e.position : r->bytes.len);
    json_decref(root);
    return status;
}
