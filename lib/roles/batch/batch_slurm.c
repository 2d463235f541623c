/* Slurm: sbatch, squeue, scancel. */
#include "roles/batch/batch.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

static void submit(htc_buf *words, const batch_submission *s)
{
    char text[64];
    htc__batch_words(words, "sbatch --parsable --no-requeue --nodes 1 --ntasks 1");
    snprintf(text, sizeof text, "--cpus-per-task=%" PRIu32, s->cores);
    htc__batch_word(words, text);
    snprintf(text, sizeof text, "--array=0-%" PRIu32, s->count - 1);
    htc__batch_word(words, text);
    htc__batch_word(words, "--job-name");
    htc__batch_word(words, s->name);
    htc_put_raw(words, htc_bytes_of("--output="));
    htc_put_raw(words, htc_bytes_of(s->log_dir));
    htc__batch_word(words, "/%x.%a.out");
    if (s->time_ns) { /* it counts minutes */
        snprintf(text, sizeof text, "--time=%" PRIu64, (uint64_t)((s->time_ns + 60 * HTC_SECOND - 1) / (60 * HTC_SECOND)));
        htc__batch_word(words, text);
    }
    htc__batch_words(words, s->words);
}

static void look(htc_buf *words, const char *user)
{
    htc__batch_words(words, "squeue --noheader --array --states all --format %i|%T|%j|%L|%r --user");
    htc__batch_word(words, user);
}

static void cancel(htc_buf *words)
{
    htc__batch_words(words, "scancel --quiet");
}

void htc__batch_slurm_element(char name[HTC__BATCH_NAME_MAX], const char *job, uint32_t index)
{
    snprintf(name, HTC__BATCH_NAME_MAX, "%.40s_%" PRIu32, job, index);
}

/* "JOB" or "JOB;CLUSTER", behind what a site's plugins may say. */
htc_status htc__batch_slurm_submitted(htc_bytes printed, char job[HTC__BATCH_NAME_MAX])
{
    char behind = htc__batch_last_number(printed, job);
    return job[0] && (behind == '\0' || behind == ';') ? HTC_OK : HTC_EFORMAT;
}

static const char *const ended[] = { "BOOT_FAIL", "CANCELLED", "COMPLETED", "DEADLINE", "FAILED", "NODE_FAIL", "OUT_OF_MEMORY", "PREEMPTED",
                                     "REVOKED", "TIMEOUT" };
static const char *const queued[] = { "CONFIGURING", "PENDING", "REQUEUED", "REQUEUE_FED", "REQUEUE_HOLD", "RESV_DEL_HOLD", "SPECIAL_EXIT" };

static int is_among(const char *const *list, size_t n, const char *state)
{
    for (size_t i = 0; i < n; i++)
        if (strcmp(list[i], state) == 0)
            return 1;
    return 0;
}

/* Held: by somebody, or because it can never start as it is. */
static int is_held(const char *state, const char *reason)
{
    static const char *const never[] = { "BadConstraints", "DependencyNeverSatisfied", "PartitionTimeLimit", "QOSMaxWallDurationPerJobLimit",
                                         "AssocMaxWallDurationPerJobLimit", "AccountNotAllowed", "QOSNotAllowed", "InvalidAccount", "InvalidQOS" };
    return strncmp(reason, "JobHeld", 7) == 0 || strncmp(reason, "JobHold", 7) == 0 || strstr(state, "_HOLD") || strcmp(state, "SPECIAL_EXIT") == 0 ||
           is_among(never, sizeof never / sizeof *never, reason);
}

int htc__batch_slurm_is_end(const char *state)
{
    return is_among(ended, sizeof ended / sizeof *ended, state);
}

static batch_job_state state_of(const char *state, const char *reason)
{
    if (htc__batch_slurm_is_end(state))
        return BATCH_JOB_ENDED;
    if (!is_among(queued, sizeof queued / sizeof *queued, state))
        return BATCH_JOB_RUNS;
    return is_held(state, reason) ? BATCH_JOB_HELD : BATCH_JOB_WAITS;
}

static int is_state(const char *text)
{
    return text[0] && text[strspn(text, "ABCDEFGHIJKLMNOPQRSTUVWXYZ_")] == '\0';
}

/* [[days-]hours:]minutes:seconds; 0: it is none. */
static htc_ns read_left(const char *text)
{
    uint64_t part[4] = { 0 }, n = 0;
    for (const char *p = text; *p; p++) {
        if (*p == '-' && n == 0)
            part[0] = part[3], part[3] = 0;
        else if (*p == ':')
            part[1] = part[2], part[2] = part[3], part[3] = 0, n++;
        else if (*p >= '0' && *p <= '9' && part[3] < 1000000)
            part[3] = part[3] * 10 + (uint64_t)(*p - '0');
        else
            return 0;
    }
    return (((part[0] * 24 + part[1]) * 60 + part[2]) * 60 + part[3]) * HTC_SECOND;
}

/* id|STATE|name|time left|reason, id is JOB_INDEX of an array's element. A name may hold bars: ours has none. 0: this is no such line. */
static int read_line(char *line, const char *prefix, batch_row *row, int *ours)
{
    char *state = strchr(line, '|'), *name = state ? strchr(state + 1, '|') : NULL, *reason = name ? strrchr(name + 1, '|') : NULL, *left = NULL;
    int   n = 0;
    if (reason) {
        *reason++ = '\0';
        left = strrchr(name + 1, '|');
    }
    if (!left || line[0] < '0' || line[0] > '9')
        return 0;
    *state++ = *name++ = *left++ = '\0';
    if (!is_state(state))
        return 0;
    *row = (batch_row){ .state = state_of(state, reason), .left = read_left(left) };
    *ours = strlen(line) < sizeof row->job && line[strspn(line, "0123456789_")] == '\0' && sscanf(line, "%*[0-9]_%" SCNu32 "%n", &row->index, &n) == 1 && line[n] == '\0' &&
            htc__batch_number(name, strlen(name), prefix, &row->submission);
    snprintf(row->job, sizeof row->job, "%.60s", line);
    if (row->state == BATCH_JOB_ENDED)
        snprintf(row->reason, sizeof row->reason, "%.90s", strcmp(state, "COMPLETED") == 0 ? "" : state);
    else
        snprintf(row->reason, sizeof row->reason, "%.90s", reason);
    return 1;
}

/* A job of somebody whose name has a line break, or is very long, is no reason to see none: what is no row is passed over, as long as there are rows. */
htc_status htc__batch_slurm_look(htc_bytes printed, const char *prefix, void (*tell)(void *ctx, const batch_row *row), void *ctx)
{
    const char *p = printed.len ? printed.data : "", *end = p + printed.len;
    char        line[512];
    uint64_t    good = 0, bad = 0;
    while (p < end) {
        const char *stop = memchr(p, '\n', (size_t)(end - p));
        size_t      len = (size_t)((stop ? stop : end) - p);
        batch_row   row;
        int         ours = 0, is_row = stop && len < sizeof line && !memchr(p, 0, len);
        if (!stop)
            return HTC_EFORMAT; /* cut off */
        if (is_row) {
            memcpy(line, p, len);
            line[len] = '\0';
            is_row = read_line(line, prefix, &row, &ours);
        }
        p = stop + 1;
        good += is_row != 0;
        bad += !is_row;
        if (is_row && ours)
            tell(ctx, &row);
    }
    return bad && !good ? HTC_EFORMAT : HTC_OK;
}

const batch_system htc__batch_slurm = { .name = "slurm", .index_variable = "SLURM_ARRAY_TASK_ID", .submit = submit, .look = look, .cancel = cancel,
                                        .element = htc__batch_slurm_element, .read_submitted = htc__batch_slurm_submitted, .read_look = htc__batch_slurm_look,
                                        .read_ends = htc__batch_slurm_ends };
