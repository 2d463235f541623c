/* The emulator's commands: what batch_emu.c says, and prints as Slurm's squeue does. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/util.h"
#include "roles/batch/emu_private.h"

static int fail(htc_buf *error, const char *text)
{
    htc_put_raw(error, htc_bytes_of("emu: error: "));
    htc_put_raw(error, htc_bytes_of(text));
    htc_put_raw(error, htc_bytes_of("\n"));
    return 1;
}

/* A count of words, each with its zero; NULL at the end. */
static const char *next_word(htc_bytes words, const char *word)
{
    const char *end = (const char *)words.data + words.len;
    word += strlen(word) + 1;
    return word < end ? word : NULL;
}

static int read_number(const char *text, uint64_t most, uint64_t *out)
{
    char *end;
    *out = text && text[0] >= '0' && text[0] <= '9' ? strtoull(text, &end, 10) : UINT64_MAX;
    return *out <= most && !*end;
}

static int submit(htc__emu *e, htc_bytes words, const char *at, htc_bytes input, htc_buf *printed, htc_buf *error, htc_ns now)
{
    htc__emu_job job = { .script = input, .steps = 1, .cores = 1 };
    uint64_t     n, id = 0;
    char         text[32];
    while ((at = next_word(words, at))) {
        const char *name = at, *value = next_word(words, at);
        if (!value)
            return fail(error, "an option lacks its value");
        at = value;
        if (strcmp(name, "--name") == 0)
            job.name = value;
        else if (strcmp(name, "--output") == 0)
            job.out = value;
        else if (strcmp(name, "--steps") == 0 && read_number(value, HTC__EMU_STEPS_MAX, &n))
            job.steps = (uint32_t)n;
        else if (strcmp(name, "--cores") == 0 && read_number(value, 1 << 20, &n))
            job.cores = (uint32_t)n;
        else if (strcmp(name, "--time") == 0 && read_number(value, 1 << 30, &n))
            job.wall = n * HTC_SECOND;
        else
            return fail(error, "no such option, or its value is no number");
    }
    htc_status status = htc__emu_submit(e, &job, now, &id);
    if (status != HTC_OK)
        return fail(error, status == HTC_ETOOBIG ? "no cluster has as many cores as a step needs" : htc_strerror(status));
    snprintf(text, sizeof text, "%" PRIu64 "\n", id);
    htc_put_raw(printed, htc_bytes_of(text));
    return 0;
}

static void put_left(const emu_job *j, const emu_step *s, htc_ns now, char *out, size_t cap)
{
    htc_ns   until = s->state == STEP_RUNS ? s->since + j->wall : now + j->wall;
    uint64_t left = until > now ? (until - now) / HTC_SECOND : 0;
    if (j->wall)
        snprintf(out, cap, "%" PRIu64 "-%02u:%02u:%02u", left / 86400, (unsigned)(left / 3600 % 24), (unsigned)(left / 60 % 60), (unsigned)(left % 60));
    else
        snprintf(out, cap, "UNLIMITED");
}

static const char *state_name(const emu_job *j, const emu_step *s)
{
    static const char *const ends[] = { "COMPLETED", "COMPLETED", "FAILED", "CANCELLED", "TIMEOUT" };
    (void)j;
    switch ((step_state)s->state) {
    case STEP_WAITS: return "PENDING";
    case STEP_STARTS:
    case STEP_RUNS: return s->kill ? "COMPLETING" : "RUNNING";
    case STEP_ENDED: break;
    }
    return ends[s->end];
}

static void queue(htc__emu *e, htc_buf *printed, htc_ns now)
{
    char line[300], left[40];
    htc__emu_forget(e, now);
    for (size_t i = 0; i < e->count; i++)
        for (uint32_t n = 0; n < e->jobs[i].steps; n++) {
            const emu_job  *j = &e->jobs[i];
            const emu_step *s = &j->step[n];
            const char     *reason = s->state != STEP_WAITS ? "None" : j->state == JOB_HELD ? "JobHeldAdmin" : "Resources";
            put_left(j, s, now, left, sizeof left);
            snprintf(line, sizeof line, "%" PRIu64 "_%" PRIu32 "|%s|%s|%s|%s\n", j->id, n, state_name(j, s), j->name, left, reason);
            htc_put_raw(printed, htc_bytes_of(line));
        }
}

static void cancel(htc__emu *e, htc_bytes words, const char *at, htc_ns now)
{
    while ((at = next_word(words, at))) {
        uint64_t job;
        uint32_t step;
        int      n = 0;
        if (sscanf(at, "%" SCNu64 "_%" SCNu32 "%n", &job, &step, &n) == 2 && !at[n])
            (void)htc__emu_cancel(e, job, step, now);
    }
}

int htc__emu_command(htc__emu *e, htc_bytes words, htc_bytes input, htc_buf *printed, htc_buf *error, htc_ns now)
{
    const char *program = words.len && ((const char *)words.data)[words.len - 1] == '\0' ? words.data : NULL;
    const char *what = program ? next_word(words, program) : NULL;
    if (!what || strcmp(program, "emu") != 0)
        return fail(error, "usage: emu submit|queue|cancel");
    if (strcmp(what, "submit") == 0)
        return submit(e, words, what, input, printed, error, now);
    if (strcmp(what, "queue") == 0)
        queue(e, printed, now);
    else if (strcmp(what, "cancel") == 0)
        cancel(e, words, what, now);
    else
        return fail(error, "usage: emu submit|queue|cancel");
    return printed->status == HTC_OK ? 0 : fail(error, "out of memory");
}
