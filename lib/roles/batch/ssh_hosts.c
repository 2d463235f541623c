#include "roles/batch/ssh_hosts.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/util.h"

#define PAUSE     (5 * HTC_SECOND)
#define PAUSE_MAX (300 * HTC_SECOND)
#define SLOTS_MAX 1024

typedef struct host {
    char     name[HTC__HOST_NAME_LEN];
    uint32_t room, used; /* agents */
    uint32_t failures;   /* in a row */
    htc_ns   not_before;
} host;

struct htc__ssh_hosts {
    htc_env  env;
    uint32_t count, cores;
    host     list[HTC__SSH_HOSTS_MAX];
};

/* A name that begins with a dash would be an option of ssh. */
static int is_name(const char *name)
{
    return name[0] && name[0] != '-' && name[strspn(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-@:[]%")] == '\0';
}

/* "[SLOTS/]HOST" without blanks around it. NULL: it is taken; else what is wrong. */
static const char *take_line(htc__ssh_hosts *h, const char *line)
{
    const char *slash = strchr(line, '/'), *name = slash ? slash + 1 : line;
    char       *end = NULL;
    uint64_t    slots = slash ? strtoull(line, &end, 10) : 1;
    if (slash && (end != slash || line[0] < '0' || line[0] > '9' || slots == 0 || slots > SLOTS_MAX))
        return "in front of the slash stands a number of slots, 1 to 1024";
    if (!is_name(name) || strlen(name) >= HTC__HOST_NAME_LEN)
        return "this is no name of a host: letters, digits, and . _ - @ : are";
    if (slots < h->cores)
        return "it has fewer slots than an agent has cores (batch.cores)";
    for (uint32_t i = 0; i < h->count; i++)
        if (strcmp(h->list[i].name, name) == 0)
            return "it stands there twice";
    if (h->count == HTC__SSH_HOSTS_MAX)
        return "more than 1024 hosts";
    host *x = &h->list[h->count++];
    *x = (host){ .room = (uint32_t)slots / h->cores };
    memcpy(x->name, name, strlen(name) + 1);
    return NULL;
}

/* Blanks and the comment go; "" for a line that says nothing. */
static const char *bare(char *line)
{
    line[strcspn(line, "#")] = '\0';
    line += strspn(line, " \t\r");
    size_t n = strlen(line);
    while (n && strchr(" \t\r", line[n - 1]))
        line[--n] = '\0';
    return line;
}

static htc_status read_lines(htc__ssh_hosts *h, htc_bytes text, htc_error *error)
{
    const char *p = text.data, *end = p + text.len;
    for (uint32_t number = 1; p < end; number++) {
        char        line[512];
        const char *stop = memchr(p, '\n', (size_t)(end - p)), *wrong = "the line is too long, or no text";
        size_t      len = (size_t)((stop ? stop : end) - p);
        const char *said = line;
        if (len < sizeof line && !memchr(p, 0, len)) {
            memcpy(line, p, len);
            line[len] = '\0';
            said = bare(line);
            wrong = said[0] ? take_line(h, said) : NULL;
        } else {
            line[0] = '\0';
        }
        if (wrong)
            return htc__error(error, HTC_ECONFIG, "line %" PRIu32 ", '%.60s': %s", number, said, wrong);
        p += len + (stop != NULL);
    }
    return h->count ? HTC_OK : htc__error(error, HTC_ECONFIG, "there is no host in it");
}

htc_status htc__ssh_hosts_read(const htc_env *env, htc_bytes text, uint32_t cores, htc__ssh_hosts **out, htc_error *error)
{
    htc__ssh_hosts *h = htc__alloc(env, sizeof *h);
    if (!h)
        return htc__error(error, HTC_ENOMEM, "out of memory");
    h->env = *env;
    h->cores = cores ? cores : 1;
    htc_status status = read_lines(h, text, error);
    if (status == HTC_OK)
        *out = h;
    else
        htc__ssh_hosts_free(h);
    return status;
}

void htc__ssh_hosts_free(htc__ssh_hosts *h)
{
    if (!h)
        return;
    htc_env env = h->env;
    htc__free(&env, h, sizeof *h);
}

uint32_t htc__ssh_hosts_slots(const htc__ssh_hosts *h)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < h->count; i++)
        n += h->list[i].room * h->cores;
    return n;
}

const char *htc__ssh_hosts_name(const htc__ssh_hosts *h, uint32_t at)
{
    return h->list[at].name;
}

htc_status htc__ssh_hosts_take(htc__ssh_hosts *h, htc_ns now, uint32_t *out)
{
    const host *best = NULL;
    for (uint32_t i = 0; i < h->count; i++) {
        host *x = &h->list[i];
        if (x->used < x->room && x->not_before <= now && (!best || x->room - x->used > best->room - best->used))
            best = x;
    }
    if (!best)
        return HTC_EBUSY;
    *out = (uint32_t)(best - h->list);
    h->list[*out].used++;
    return HTC_OK;
}

void htc__ssh_hosts_give(htc__ssh_hosts *h, uint32_t at, int failed, htc_ns now)
{
    host  *x = &h->list[at];
    htc_ns pause = PAUSE;
    x->used -= x->used > 0;
    if (!failed) {
        x->failures = 0;
        return;
    }
    for (uint32_t i = 0; i < x->failures && pause < PAUSE_MAX; i++)
        pause *= 2;
    if (x->not_before <= now) { /* several agents that could not reach it say one thing */
        x->failures++;
        x->not_before = now + (pause < PAUSE_MAX ? pause : PAUSE_MAX);
    }
}
