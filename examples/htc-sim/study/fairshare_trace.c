/* A log in the Standard Workload Format as the workload of fair sharing: each of its jobs is one of its user, of a task for each of its processors, which all
 * take the job's run time. It is read twice: for its users, and job by job as the run needs it. */
#include "fairshare.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

struct fairshare_user { /* of the log */
    int64_t  number;
    uint32_t place; /* among the users of the run */
};

/* ---- its users ---- */

/* The first whose number is not below this one. */
static size_t search(const fairshare *f, int64_t number)
{
    size_t from = 0, to = f->n_known;
    while (from < to) {
        size_t middle = from + (to - from) / 2;
        if (f->known[middle].number < number)
            from = middle + 1;
        else
            to = middle;
    }
    return from;
}

static int known_room(fairshare *f)
{
    size_t                 room = f->known_room ? 2 * f->known_room : 64;
    struct fairshare_user *more = f->n_known < f->known_room ? f->known : realloc(f->known, room * sizeof *more);
    if (!more)
        return 0;
    f->known_room = f->n_known < f->known_room ? f->known_room : room;
    f->known = more;
    return 1;
}

static int note_user(fairshare *f, int64_t number, htc_error *error)
{
    size_t at = search(f, number);
    if (at < f->n_known && f->known[at].number == number)
        return 1;
    if (f->n_known == HTC_SIM_FAIRSHARE_USERS_MAX)
        return settings_refuse(error, HTC_ETOOBIG, "the log has more than 2^20 users", "cut it");
    if (!known_room(f))
        return settings_refuse(error, HTC_ENOMEM, "no memory for the users of the log", "close other programs");
    memmove(&f->known[at + 1], &f->known[at], (f->n_known - at) * sizeof *f->known);
    f->known[at] = (struct fairshare_user){ .number = number };
    f->n_known++;
    return 1;
}

static int read_users(fairshare *f, htc_error *error)
{
    htc_swf_job j;
    uint64_t    nodes;
    htc_status  status;
    while ((status = trace_next(&f->log, &j, &nodes)) == HTC_OK) {
        if (!note_user(f, j.user < 0 ? -1 : j.user, error))
            return 0;
        f->log_work += (double)nodes * j.run_s * 1e9;
        f->log_last = j.submit_s * 1e9 + j.run_s * 1e9 > f->log_last ? j.submit_s * 1e9 + j.run_s * 1e9 : f->log_last;
    }
    return status == HTC_AGAIN || trace_failed(&f->log, error) || settings_refuse(error, status, htc_strerror(status), "give another log");
}

int fairshare_trace(fairshare *f, const settings *s, htc_error *error)
{
    struct stat there;
    if (!settings_text(s, "workload.trace")[0])
        return 1;
    if (!settings_keep(s, "workload.trace", f->log.file, sizeof f->log.file, error))
        return 0;
    f->log.per_node = 1;
    f->log.skip_bad = settings_choice(s, "workload.skip_bad") == 1;
    f->log_at_once = settings_choice(s, "workload.arrivals") == 1;
    if (!trace_open(&f->log, error))
        return 0;
    if (fstat(fileno(f->log.from), &there) != 0 || !S_ISREG(there.st_mode))
        return settings_refuse(error, HTC_EINPUT, "the log is no ordinary file, and it is read twice", "write it to a file first");
    return read_users(f, error) && !f->log.error.text[0] && trace_open(&f->log, error);
}

void fairshare_trace_users(fairshare *f, size_t named)
{
    size_t next = named;
    for (size_t i = 0; i < f->n_known; i++) {
        char     name[sizeof *f->names];
        uint32_t u = 0;
        if (f->known[i].number < 0)
            snprintf(name, sizeof name, "unknown");
        else
            snprintf(name, sizeof name, "u%" PRId64, f->known[i].number);
        while (u < named && strcmp(f->names[u], name) != 0)
            u++;
        f->known[i].place = u < named ? u : (uint32_t)next++;
        memcpy(f->names[f->known[i].place], name, sizeof name);
    }
    f->options.n_users = next;
}

/* ---- its jobs ---- */

htc_status fairshare_trace_next(void *ctx, htc_sim_fairshare_job *job)
{
    fairshare  *f = ctx;
    htc_swf_job of_log;
    uint64_t    nodes;
    htc_status  status = trace_next(&f->log, &of_log, &nodes);
    if (status != HTC_OK)
        return status;
    size_t at = search(f, of_log.user < 0 ? -1 : of_log.user);
    if (at == f->n_known || f->known[at].number != (of_log.user < 0 ? -1 : of_log.user)) /* the file has changed */
        return HTC_EINPUT;
    *job = (htc_sim_fairshare_job){ .size = sizeof *job, .user = f->known[at].place, .tasks = nodes, .arrival = f->log_at_once ? 0 : trace_ns(of_log.submit_s),
                                    .length.mean_ns = (double)trace_ns(of_log.run_s) };
    return HTC_OK;
}

void fairshare_trace_close(fairshare *f)
{
    trace_close(&f->log);
    free(f->known);
    f->known = NULL;
}
