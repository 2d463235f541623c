/* Grid Engine (SGE and those that came of it): qsub, qstat -xml, qacct, qdel. */
#include "roles/batch/batch.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "work/qstat.h"

static void submit(htc_buf *words, const batch_submission *s)
{
    char text[64];
    htc__batch_words(words, "qsub -terse -r n -S /bin/sh -j y -N");
    htc__batch_word(words, s->name);
    htc__batch_word(words, "-t");
    snprintf(text, sizeof text, "1-%" PRIu32, s->count);
    htc__batch_word(words, text);
    htc__batch_word(words, "-o");
    htc_put_raw(words, htc_bytes_of(s->log_dir));
    htc__batch_word(words, "/$JOB_NAME.$TASK_ID.out");
    if (s->cores > 1) { /* a parallel environment on one host has this name nearly everywhere; -pe among the site's words comes behind it, and counts */
        htc__batch_words(words, "-pe smp");
        snprintf(text, sizeof text, "%" PRIu32, s->cores);
        htc__batch_word(words, text);
    }
    if (s->time_ns) {
        htc__batch_word(words, "-l");
        snprintf(text, sizeof text, "h_rt=%" PRIu64, (uint64_t)((s->time_ns + HTC_SECOND - 1) / HTC_SECOND));
        htc__batch_word(words, text);
    }
    htc__batch_words(words, s->words);
}

/* -g d: each element of an array on its own, also of those that wait. */
static void look(htc_buf *words, const char *user)
{
    htc__batch_words(words, "qstat -xml -g d -u");
    htc__batch_word(words, user);
}

static void cancel(htc_buf *words)
{
    htc__batch_word(words, "qdel");
}

/* One call answers for all that are asked about. It reads a file that grows for ever, and may take its time. */
static void ask(htc_buf *words, const char *user, const char *element_of_job, uint32_t first, uint32_t last)
{
    char text[64];
    htc__batch_words(words, "qacct -o");
    htc__batch_word(words, user);
    htc__batch_word(words, "-j");
    snprintf(text, sizeof text, "%.*s", (int)strspn(element_of_job, "0123456789"), element_of_job);
    htc__batch_word(words, text);
    htc__batch_word(words, "-t");
    snprintf(text, sizeof text, "%" PRIu32 "-%" PRIu32, first, last);
    htc__batch_word(words, text);
}

static void element(char name[HTC__BATCH_NAME_MAX], const char *job, uint32_t index)
{
    snprintf(name, HTC__BATCH_NAME_MAX, "%.40s.%" PRIu32, job, index);
}

/* "JOB.1-N:1" in a line of its own, behind what a site's scripts may say. */
static htc_status read_submitted(htc_bytes printed, char job[HTC__BATCH_NAME_MAX])
{
    char behind = htc__batch_last_number(printed, job);
    return job[0] && behind == '.' ? HTC_OK : HTC_EFORMAT;
}

/* Letters, of which others than these say nothing here: E error, h hold, q queued, w waiting, s S T suspended, d being deleted, r running, t being moved to its host. */
static batch_job_state state_of(const char *letters)
{
    if (strchr(letters, 'd'))
        return BATCH_JOB_RUNS; /* until it is gone */
    if (strchr(letters, 'E') || strchr(letters, 'h'))
        return BATCH_JOB_HELD;
    return strchr(letters, 'q') ? BATCH_JOB_WAITS : BATCH_JOB_RUNS;
}

typedef struct reading {
    const char *prefix;
    void (*tell)(void *ctx, const batch_row *row);
    void *ctx;
} reading;

static htc_status on_job(void *ctx, const htc__qstat_job *j)
{
    const reading *r = ctx;
    batch_row      row = { .state = BATCH_JOB_RUNS };
    int            n = 0;
    if (!j->number[0] || j->number[strspn(j->number, "0123456789")] || strlen(j->number) > 20)
        return HTC_EFORMAT;
    row.state = state_of(j->state);
    if (!htc__batch_number(j->name, strlen(j->name), r->prefix, &row.submission) || sscanf(j->tasks, "%" SCNu32 "%n", &row.index, &n) != 1 || j->tasks[n])
        return HTC_OK;
    element(row.job, j->number, row.index);
    snprintf(row.reason, sizeof row.reason, "state %.40s", j->state);
    r->tell(r->ctx, &row);
    return HTC_OK;
}

static htc_status read_look(htc_bytes printed, const char *prefix, void (*tell)(void *ctx, const batch_row *row), void *ctx)
{
    reading    r = { prefix, tell, ctx };
    htc_status status = htc__qstat_read(printed, on_job, &r);
    return status == HTC_OK || status == HTC_ENOMEM ? status : HTC_EFORMAT;
}

const batch_system htc__batch_sge = { .name = "sge", .index_variable = "SGE_TASK_ID", .first_index = 1, .submit = submit, .look = look, .cancel = cancel,
                                      .element = element, .read_submitted = read_submitted, .read_look = read_look, .ask = ask, .read_ends = htc__batch_sge_ends };
