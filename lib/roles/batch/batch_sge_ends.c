/* What qacct -j of Grid Engine prints: for each element of a job a line of =, then lines "name value". */
#include "roles/batch/batch.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LINE_MAX_BYTES 1024 /* longer ones are passed over */

typedef struct record {
    char owner[128], name[64], number[24], task[16], failed[80], code[16];
} record;

/* The first line of a name counts. */
static void take(record *r, const char *line)
{
    const struct {
        const char *name;
        char       *at;
        size_t      room;
    } fields[] = { { "owner", r->owner, sizeof r->owner },    { "jobname", r->name, sizeof r->name },    { "jobnumber", r->number, sizeof r->number },
                   { "taskid", r->task, sizeof r->task },     { "failed", r->failed, sizeof r->failed }, { "exit_status", r->code, sizeof r->code } };
    size_t n = strcspn(line, " ");
    for (size_t i = 0; i < sizeof fields / sizeof *fields; i++) {
        const char *value = line + n + strspn(line + n, " ");
        size_t      len = strlen(value);
        while (len && value[len - 1] == ' ')
            len--;
        if (strlen(fields[i].name) == n && strncmp(line, fields[i].name, n) == 0 && !fields[i].at[0])
            snprintf(fields[i].at, fields[i].room, "%.*s", (int)(len < 1000 ? len : 1000), value);
    }
}

/* failed is "37  : qmaster enforced h_rt, h_cpu, or h_vmem limit", exit_status "137 (Killed)". */
static void describe(batch_end *end, const record *r)
{
    unsigned long failed = strtoul(r->failed, NULL, 10), code = strtoul(r->code, NULL, 10);
    const char   *why = strchr(r->failed, ':');
    size_t        n = 0;
    why = why ? why + 1 + strspn(why + 1, " ") : "";
    if (failed)
        n = (size_t)snprintf(end->how, sizeof end->how, "failed %lu%s%.60s", failed % 1000, *why ? ": " : "", why);
    if (code && n < sizeof end->how)
        snprintf(end->how + n, sizeof end->how - n, "%sexit status %lu", n ? ", " : "", code % 1000);
}

static int is_number(const char *text)
{
    return text[0] && text[strspn(text, "0123456789")] == '\0';
}

static void give(const record *r, const char *prefix, const char *user, void (*tell)(void *ctx, const batch_end *end), void *ctx)
{
    batch_end end = { .index = 0 };
    if (strcmp(r->owner, user) != 0 || !htc__batch_number(r->name, strlen(r->name), prefix, &end.submission) || !is_number(r->number) || !is_number(r->task) ||
        strlen(r->number) > 20 || strlen(r->task) > 9 || !r->failed[0] || !r->code[0])
        return;
    end.index = (uint32_t)strtoul(r->task, NULL, 10);
    snprintf(end.job, sizeof end.job, "%.20s.%" PRIu32, r->number, end.index);
    describe(&end, r);
    tell(ctx, &end);
}

void htc__batch_sge_ends(htc_bytes text, const char *prefix, const char *user, void (*tell)(void *ctx, const batch_end *end), void *ctx)
{
    const char *p = text.len ? text.data : "", *last = p + text.len, *stop;
    char        line[LINE_MAX_BYTES];
    record      r = { .owner = "" };
    for (; p < last && (stop = memchr(p, '\n', (size_t)(last - p))); p = stop + 1) {
        size_t len = (size_t)(stop - p);
        if (len >= sizeof line || memchr(p, 0, len))
            continue;
        memcpy(line, p, len);
        line[len] = '\0';
        if (strncmp(line, "====", 4) == 0) {
            give(&r, prefix, user, tell, ctx);
            r = (record){ .owner = "" };
        } else {
            take(&r, line);
        }
    }
    give(&r, prefix, user, tell, ctx);
}
