#include "report_swf.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "htcsched/swf.h"

static size_t user_of(swf_log *l, const char *name)
{
    for (size_t i = 0; i < l->users; i++)
        if (strcmp(l->user[i], name) == 0)
            return i;
    l->user = must(realloc(l->user, (l->users + 1) * sizeof *l->user));
    l->user[l->users] = must_dup(name);
    return l->users++;
}

void swf_log_add(swf_log *l, const json_t *job, const json_t *result)
{
    const char *status = j_str(result, "status");
    if (j_num(result, "ended") <= 0)
        return;
    if (l->n == l->room)
        l->at = must(realloc(l->at, (l->room = l->room ? 2 * l->room : 256) * sizeof *l->at));
    l->at[l->n++] = (swf_task){ .submitted = j_num(job, "submitted"),
                                .started = j_num(result, "started"),
                                .ended = j_num(result, "ended"),
                                .cpu_s = j_num(result, "cpu_s"),
                                .memory = (double)j_u64(result, "memory_peak"),
                                .job = j_u64(job, "id"),
                                .index = j_u64(result, "index"),
                                .cores = j_u64(result, "cores") ? j_u64(result, "cores") : 1,
                                .status = strcmp(status, "HTC_OK") == 0         ? HTC_SWF_COMPLETED :
                                          strcmp(status, "HTC_ECANCELLED") == 0 ? HTC_SWF_CANCELLED :
                                                                                  HTC_SWF_FAILED,
                                .user = user_of(l, j_str(job, "user")) };
}

static int earlier(const void *a, const void *b)
{
    const swf_task *x = a, *y = b;
    if (x->submitted != y->submitted)
        return x->submitted < y->submitted ? -1 : 1;
    if (x->job != y->job)
        return x->job < y->job ? -1 : 1;
    return x->index < y->index ? -1 : x->index > y->index;
}

static void write_header(const swf_log *l, double start)
{
    printf("; Version: 2.2\n"
           "; Computer: htcsched\n"
           "; MaxJobs: %zu\n"
           "; MaxRecords: %zu\n"
           "; UnixStartTime: %.0f\n"
           "; TimeZone: 0\n"
           "; MaxNodes: %" PRIu64 "\n"
           "; MaxProcs: %" PRIu64 "\n"
           "; Note: a task of htc is a job of as many processors as it has asked for cores; its executable is the number of the job that it belongs to\n",
           l->n, l->n, start, l->slots, l->slots);
    for (size_t i = 0; i < l->users; i++) {
        char *name = must_dup(l->user[i]);
        htc_text_show(name);
        printf("; Note: user %zu is %s\n", i + 1, name);
        free(name);
    }
}

htc_status swf_log_write(cli *c, swf_log *l)
{
    char line[HTC_SWF_LINE_ROOM];
    if (l->n)
        qsort(l->at, l->n, sizeof *l->at, earlier);
    double start = l->n ? floor(l->at[0].submitted) : 0;
    write_header(l, start);
    for (size_t i = 0; i < l->n; i++) {
        const swf_task *t = &l->at[i];
        int             ran = t->started > 0 && t->ended >= t->started;
        htc_swf_job     j = { .number = (int64_t)i + 1, .submit_s = t->submitted - start, .wait_s = ran ? fmax(t->started - t->submitted, 0) : -1,
                              .run_s = ran ? t->ended - t->started : -1, .processors = (int64_t)t->cores, .cpu_s = t->cpu_s / (double)t->cores, /* the format has means */
                              .memory_kb = t->memory > 0 ? floor(t->memory / 1024 / (double)t->cores) : -1,
                              .processors_asked = (int64_t)t->cores, .run_asked_s = -1, .memory_asked_kb = -1, .status = t->status, .user = (int64_t)t->user + 1, .group = -1,
                              .program = (int64_t)t->job, .queue = 1, .partition = -1, .preceding = -1, .think_s = -1 };
        if (htc_swf_line(&j, line) == 0)
            return cli_error(c, HTC_EINTERNAL, "report", "report this", "task %" PRIu64 ".%" PRIu64 " has times that cannot be", t->job, t->index);
        fputs(line, stdout);
    }
    if (fflush(stdout) != 0 || ferror(stdout))
        return cli_error(c, write_status(errno), "-", "write it to a file on another disk", "the log could not be written: %s", strerror(errno));
    return HTC_OK;
}

void swf_log_free(swf_log *l)
{
    for (size_t i = 0; i < l->users; i++)
        free(l->user[i]);
    free(l->user);
    free(l->at);
}
