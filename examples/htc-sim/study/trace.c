#include "trace.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>
#include <sys/stat.h>

static htc_status read_file(void *ctx, void *data, size_t room, size_t *n)
{
    *n = fread(data, 1, room, ctx);
    return ferror((FILE *)ctx) ? HTC_EIO : HTC_OK;
}

static int refuse(const trace *t, htc_error *e, htc_status status, const char *text, const char *hint)
{
    *e = (htc_error){ .status = status };
    snprintf(e->where, sizeof e->where, "%.150s", t->file);
    snprintf(e->text, sizeof e->text, "%s", text);
    snprintf(e->hint, sizeof e->hint, "%s", hint);
    return 0;
}

int trace_open(trace *t, htc_error *error)
{
    htc_swf_options o = { .size = sizeof o, .name = t->file, .read = read_file };
    t->skipped = t->bad = t->taken = 0;
    memset(t->week, 0, sizeof t->week);
    t->error = (htc_error){ 0 };
    if (!t->from && !(t->from = fopen(t->file, "rb")))
        return refuse(t, error, HTC_EINPUT, strerror(errno), "give the name of a log in the Standard Workload Format; a relative one is looked for beside the INI file");
    struct stat there;
    if (fstat(fileno(t->from), &there) == 0 && S_ISDIR(there.st_mode))
        return refuse(t, error, HTC_EINPUT, strerror(EISDIR), "give the name of a log in the Standard Workload Format");
    rewind(t->from);
    htc_swf_close(t->log);
    t->log = NULL;
    o.ctx = t->from;
    return htc_swf_open(NULL, &o, &t->log) == HTC_OK || refuse(t, error, HTC_ENOMEM, "no memory for it", "close other programs");
}

void trace_close(trace *t)
{
    htc_swf_close(t->log);
    if (t->from)
        fclose(t->from);
    t->log = NULL;
    t->from = NULL;
}

htc_ns trace_ns(double seconds)
{
    return seconds > 0 ? (htc_ns)(seconds * 1e9 + 0.5) : 0;
}

/* Nothing to run is a mistake of whoever named the file. */
static htc_status is_empty(trace *t)
{
    t->error = (htc_error){ .status = HTC_EINPUT };
    if (t->skipped)
        snprintf(t->error.text, sizeof t->error.text,
                 t->skipped == 1 ? "its %" PRIu64 " job cannot be run: it does not say how large or how long it is, or is not wanted"
                                 : "none of its %" PRIu64 " jobs can be run: they do not say how large or how long they are, or are not wanted",
                 t->skipped);
    else if (t->bad)
        snprintf(t->error.text, sizeof t->error.text, t->bad == 1 ? "it has no jobs, and %" PRIu64 " line that is broken" : "it has no jobs, and %" PRIu64 " lines that are broken", t->bad);
    else
        snprintf(t->error.text, sizeof t->error.text, "there are no jobs in it");
    snprintf(t->error.hint, sizeof t->error.hint, "give a log with jobs: each is a line of 18 numbers (the Standard Workload Format)");
    return HTC_EINPUT;
}

htc_status trace_next(trace *t, htc_swf_job *job, uint64_t *nodes)
{
    while (!t->error.text[0]) {
        htc_status status = htc_swf_next(t->log, job, &t->error);
        if ((status == HTC_ESCHEMA || status == HTC_ETOOBIG) && t->skip_bad) {
            t->bad++;
            t->error = (htc_error){ 0 };
            continue;
        }
        if (status == HTC_AGAIN && !t->taken)
            return is_empty(t);
        if (status != HTC_OK)
            return status;
        *nodes = htc_swf_nodes(job, t->per_node);
        if (job->submit_s < TRACE_WEEKS * 604800.0)
            t->week[(size_t)(job->submit_s / 604800)]++;
        if (*nodes && *nodes <= UINT32_MAX && job->run_s >= 0 && (!t->completed_alone || job->status == HTC_SWF_COMPLETED)) {
            t->taken++;
            return HTC_OK;
        }
        t->skipped++;
    }
    return t->error.status;
}

htc_status trace_too_large(trace *t, uint64_t number, uint64_t needs, uint64_t nodes, const char *hint)
{
    htc_swf_counts counts = { .size = sizeof counts };
    (void)htc_swf_count(t->log, &counts);
    t->error = (htc_error){ .status = HTC_EINPUT, .line = counts.lines < UINT32_MAX ? (uint32_t)counts.lines : 0 };
    snprintf(t->error.text, sizeof t->error.text, "job %" PRIu64 " needs %" PRIu64 " nodes (fields 5 and 8), and there are %" PRIu64, number, needs, nodes);
    snprintf(t->error.hint, sizeof t->error.hint, "%s", hint);
    return HTC_EINPUT;
}

int trace_failed(const trace *t, htc_error *error)
{
    if (!t->error.text[0])
        return 0;
    *error = t->error;
    if (t->error.line)
        snprintf(error->where, sizeof error->where, "%.140s:%u", t->file, (unsigned)t->error.line);
    else
        snprintf(error->where, sizeof error->where, "%.150s", t->file);
    return 1;
}
