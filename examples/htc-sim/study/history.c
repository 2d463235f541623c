#include "history.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "htcsched/swf.h"

static int refuse(const history *h, htc_error *e, htc_status status, const char *text, const char *hint)
{
    *e = (htc_error){ .status = status };
    snprintf(e->where, sizeof e->where, "%.150s", h->path);
    snprintf(e->text, sizeof e->text, "%s", text);
    snprintf(e->hint, sizeof e->hint, "%s", hint);
    return 0;
}

int history_open(history *h, htc_error *error)
{
    struct stat there;
    if (stat(h->path, &there) == 0 && !S_ISREG(there.st_mode)) /* the draft takes its place in the end */
        return refuse(h, error, HTC_EINPUT, "it is no ordinary file", "choose for sim.history a file, or a name that there is not yet");
    snprintf(h->draft, sizeof h->draft, "%s.XXXXXX", h->path);
    int fd = mkstemp(h->draft);
    if (fd < 0) {
        h->draft[0] = '\0';
        return refuse(h, error, HTC_EINPUT, strerror(errno), "choose for sim.history a file in a folder that can be written");
    }
    mode_t mask = umask(0);
    (void)umask(mask);
    if (fchmod(fd, 0666 & ~mask) != 0 || !(h->file = fdopen(fd, "w"))) {
        int why = errno;
        close(fd);
        return refuse(h, error, HTC_EIO, strerror(why), "choose another file for sim.history");
    }
    return 1;
}

void history_add(history *h, const htc_sim_jobs_ended *job)
{
    if (h->n == h->room && !h->lost) {
        size_t              room = h->room ? 2 * h->room : 1024;
        htc_sim_jobs_ended *more = realloc(h->at, room * sizeof *more);
        h->lost = !more;
        h->at = more ? more : h->at;
        h->room = more ? room : h->room;
    }
    if (!h->lost)
        h->at[h->n++] = *job;
}

static int earlier(const void *a, const void *b)
{
    const htc_sim_jobs_ended *x = a, *y = b;
    if (x->submitted != y->submitted)
        return x->submitted < y->submitted ? -1 : 1;
    return x->job < y->job ? -1 : x->job > y->job;
}

static double seconds(htc_ns span)
{
    return (double)span / 1e9;
}

/* 0: it has times that cannot be. */
static int write_job(FILE *out, const htc_sim_jobs_ended *e, size_t number)
{
    char        line[HTC_SWF_LINE_ROOM];
    htc_swf_job j = { .number = (int64_t)number, .submit_s = seconds(e->submitted), .wait_s = seconds(e->started - e->submitted), .run_s = seconds(e->ended - e->started),
                      .processors = e->nodes, .cpu_s = -1, .memory_kb = -1, .processors_asked = e->nodes, .run_asked_s = -1, .memory_asked_kb = -1, .status = HTC_SWF_COMPLETED,
                      .user = -1, .group = -1, .program = -1, .queue = -1, .partition = (int64_t)e->controller + 1, .preceding = -1, .think_s = -1 };
    return e->submitted <= e->started && e->started <= e->ended && htc_swf_line(&j, line) > 0 && fputs(line, out) >= 0;
}

int history_write(history *h, uint64_t nodes, htc_error *error)
{
    if (h->lost)
        return refuse(h, error, HTC_ENOMEM, "no memory for so many jobs", "leave out sim.history, or lower workload.jobs");
    if (h->n)
        qsort(h->at, h->n, sizeof *h->at, earlier);
    fprintf(h->file,
            "; Version: 2.2\n"
            "; Computer: htcsched\n"
            "; MaxJobs: %zu\n"
            "; MaxRecords: %zu\n"
            "; MaxNodes: %" PRIu64 "\n"
            "; MaxProcs: %" PRIu64 "\n"
            "; Note: a processor is a node of htc-sim jobs; the partition of a job is the controller that it was submitted to, from 1 on\n",
            h->n, h->n, nodes, nodes);
    int good = 1;
    for (size_t i = 0; good && i < h->n; i++)
        good = write_job(h->file, &h->at[i], i + 1);
    good = good && fflush(h->file) == 0 && !ferror(h->file) && fsync(fileno(h->file)) == 0;
    int why = errno;
    if (fclose(h->file) != 0 && good) {
        good = 0;
        why = errno;
    }
    h->file = NULL;
    if (good && rename(h->draft, h->path) == 0) {
        h->draft[0] = '\0';
        return 1;
    }
    return refuse(h, error, HTC_EIO, strerror(good ? errno : why), "choose for sim.history a file on a disk with room");
}

void history_close(history *h)
{
    if (h->file)
        fclose(h->file);
    if (h->draft[0])
        unlink(h->draft);
    free(h->at);
}
