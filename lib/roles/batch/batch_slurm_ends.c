/* The file of ended jobs that Slurm keeps with JobCompType=jobcomp/filetxt: a line for each, of fields NAME=VALUE with a blank between. */
#include "roles/batch/batch.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define RECORD_MAX 8192 /* of a line; longer ones are passed over */

static int skip(const char **p, const char *text)
{
    size_t n = strlen(text);
    if (strncmp(*p, text, n) != 0)
        return 0;
    *p += n;
    return 1;
}

/* The value of a field that stands behind all those that a user fills in: the last one of that name. NULL: there is none. */
static const char *last_field(const char *from, const char *name)
{
    const char *found = NULL;
    while ((from = strstr(from, name)))
        found = from += strlen(name);
    return found;
}

static void describe(batch_end *end, const char *state, const char *codes)
{
    uint32_t code = 0, signal = 0;
    if (!codes || sscanf(codes, "%9" SCNu32 ":%9" SCNu32, &code, &signal) != 2)
        code = signal = 0;
    if (signal)
        snprintf(end->how, sizeof end->how, "%.20s, signal %" PRIu32, state, signal);
    else if (code)
        snprintf(end->how, sizeof end->how, "%.20s, exit code %" PRIu32, state, code);
    else if (strcmp(state, "COMPLETED") == 0)
        end->how[0] = '\0';
    else
        snprintf(end->how, sizeof end->how, "%.20s", state);
}

/* JobId=5 UserId=ann(7) GroupId=lab(9) Name=htc-NONCE.1 JobState=FAILED ... ArrayJobId=1 ArrayTaskId=3 DerivedExitCode=0:0 ExitCode=0:9
 * Anybody names jobs as they like, also with blanks and "=" in it: who a job's user is stands ahead of that, and our own names have neither.
 * With a line break in it a name is a whole record, perhaps one of another user's job: what the file says, anybody who may submit jobs may have written. So it is a reason for
 * people to read, and nothing is decided by it. */
static int read_record(const char *p, const char *prefix, const char *user, batch_end *end)
{
    static const char digits[] = "0123456789";
    char              state[24];
    if (!skip(&p, "JobId="))
        return 0;
    p += strspn(p, digits);
    if (!skip(&p, " UserId=") || !skip(&p, user) || !skip(&p, "(") || !(p = strstr(p, " Name=")))
        return 0;
    const char *name = p + strlen(" Name="), *after = name + strcspn(name, " ");
    p = after;
    if (!htc__batch_number(name, (size_t)(after - name), prefix, &end->submission) || !skip(&p, " JobState=") || sscanf(p, "%23[A-Z_]", state) != 1 ||
        !htc__batch_slurm_is_end(state))
        return 0;
    const char *job = last_field(p, " ArrayJobId="), *index = last_field(p, " ArrayTaskId=");
    if (!job || !index || strspn(job, digits) - 1 >= 20 || strspn(index, digits) - 1 >= 9)
        return 0;
    sscanf(index, "%" SCNu32, &end->index);
    snprintf(end->job, sizeof end->job, "%.*s_%" PRIu32, (int)strspn(job, digits), job, end->index);
    describe(end, state, last_field(p, " ExitCode="));
    return 1;
}

void htc__batch_slurm_ends(htc_bytes text, const char *prefix, const char *user, void (*tell)(void *ctx, const batch_end *end), void *ctx)
{
    const char *p = text.len ? text.data : "", *last = p + text.len, *stop;
    char        line[RECORD_MAX];
    for (; p < last && (stop = memchr(p, '\n', (size_t)(last - p))); p = stop + 1) {
        size_t    len = (size_t)(stop - p);
        batch_end end = { .index = 0 };
        if (len >= sizeof line || memchr(p, 0, len))
            continue;
        memcpy(line, p, len);
        line[len] = '\0';
        if (read_record(line, prefix, user, &end))
            tell(ctx, &end);
    }
}
