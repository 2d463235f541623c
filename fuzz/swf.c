/* A log in the Standard Workload Format, in pieces of a length that its first byte says: jobs that are read are written, and read back. */
#include "htcsched/swf.h"

#include <string.h>

#include "check.h"

typedef struct log_text {
    const uint8_t *at, *end;
    size_t         piece;
} log_text;

static htc_status give(void *ctx, void *data, size_t room, size_t *n)
{
    log_text *t = ctx;
    *n = (size_t)(t->end - t->at);
    *n = *n < room ? *n : room;
    *n = *n < t->piece ? *n : t->piece;
    if (*n)
        memcpy(data, t->at, *n);
    t->at += *n;
    return HTC_OK;
}

static htc_swf *open_log(log_text *t)
{
    htc_swf_options o = { .size = sizeof o, .name = "fuzz", .read = give, .ctx = t, .any_order = t->piece % 2 };
    htc_swf        *log = NULL;
    CHECK(htc_swf_open(NULL, &o, &log) == HTC_OK);
    return log;
}

static void written_is_read(const htc_swf_job *job)
{
    char     line[HTC_SWF_LINE_ROOM], again[HTC_SWF_LINE_ROOM];
    size_t   n = htc_swf_line(job, line);
    log_text t = { (const uint8_t *)line, (const uint8_t *)line + n, 7 };
    CHECK(n > 0 && n < sizeof line && strlen(line) == n);
    htc_swf    *log = open_log(&t);
    htc_swf_job read;
    CHECK(htc_swf_next(log, &read, NULL) == HTC_OK && htc_swf_line(&read, again) == n && strcmp(line, again) == 0);
    CHECK(read.number == job->number && read.processors == job->processors && read.status == job->status && read.preceding == job->preceding);
    CHECK(htc_swf_nodes(&read, 3) == htc_swf_nodes(job, 3) && htc_swf_nodes(job, 1) >= htc_swf_nodes(job, 8));
    htc_swf_close(log);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size < 1)
        return 0;
    log_text       t = { data + 1, data + size, (size_t)data[0] + 1 };
    htc_swf       *log = open_log(&t);
    htc_swf_job    job;
    htc_swf_counts c = { .size = sizeof c };
    htc_error      e = { .status = HTC_OK };
    const char    *value = NULL;
    uint64_t       jobs = 0, refused = 0;
    double         before = 0;
    if (data[0] % 3 == 0) {
        htc_status status = htc_swf_header(log, "MaxProcs", &value);
        CHECK(status == HTC_OK || status == HTC_ENOTFOUND || status == HTC_ETOOBIG);
        refused += status == HTC_ETOOBIG;
    }
    for (;;) {
        htc_status status = htc_swf_next(log, &job, &e);
        if (status == HTC_AGAIN)
            break;
        CHECK(status == HTC_OK || ((status == HTC_ESCHEMA || status == HTC_ETOOBIG) && e.status == status && e.text[0] && e.hint[0] && e.line));
        jobs += status == HTC_OK;
        refused += status != HTC_OK;
        if (status != HTC_OK)
            continue;
        CHECK(job.submit_s >= before || t.piece % 2);
        before = job.submit_s;
        if (jobs <= 64)
            written_is_read(&job);
    }
    CHECK(htc_swf_count(log, &c) == HTC_OK && c.jobs == jobs && c.refused == refused && c.bytes == size - 1 && c.lines >= jobs + refused);
    htc_status status = htc_swf_header(log, "maxprocs", &value);
    CHECK(status == HTC_ENOTFOUND || (status == HTC_OK && strlen(value) < 65536));
    htc_swf_close(log);
    return 0;
}
