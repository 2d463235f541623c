/* The native specification: the options of `htc submit`, read into a request. tests/live/drmaa.py checks that none is forgotten. */
#include <errno.h>
#include <inttypes.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "drmaa/drmaa_private.h"

typedef enum kind {
    TEXT,   /* of the request's member */
    NUMBER, /* whole, from least on */
    MINUTES, /* a time; a number alone is minutes */
    SIZE,
    FLAG,
    CORES, /* the others are no members, or not as they stand */
    INPUT,
    ENVIRONMENT,
    AFTER,
    NODE_CORES,
    GPUS,
    RESOURCE,
    WORD, /* of the document */
    REFUSED
} kind;

typedef struct option {
    const char *name;
    char        letter;
    kind        kind;
    const char *member; /* of the request; of what is refused: why */
    int64_t     least; /* of WORD: where it is in wishes */
} option;

static const option options[] = {
    { "name", 'J', TEXT, "name", 0 },
    { "time", 't', MINUTES, "time_limit", 0 },
    { "mem", 'm', SIZE, "memory", 0 },
    { "cores", 'c', CORES, NULL, 1 },
    { "node-cores", 0, NODE_CORES, NULL, 1 },
    { "gpus", 0, GPUS, NULL, 1 },
    { "res", 0, RESOURCE, NULL, 1 },
    { "container", 0, WORD, NULL, offsetof(wishes, container) },
    { "hosts", 0, WORD, NULL, offsetof(wishes, hosts) },
    { "arch", 0, WORD, NULL, offsetof(wishes, architecture) },
    { "os", 0, WORD, NULL, offsetof(wishes, system) },
    { "input", 'i', INPUT, NULL, 0 },
    { "target", 0, REFUSED, "htc submit and documents have outputs that go to URLs", 0 },
    { "env", 0, ENVIRONMENT, NULL, 0 },
    { "array", 'a', REFUSED, "drmaa_run_bulk_jobs makes many jobs of one template", 0 },
    { "workdir", 'D', REFUSED, "drmaa_wd is the job's directory", 0 },
    { "stdin", 0, REFUSED, "drmaa_input_path is standard input", 0 },
    { "begin", 0, REFUSED, "drmaa_start_time says when", 0 },
    { "signal", 0, TEXT, "signal", 0 },
    { "on-end", 0, REFUSED, "the program that waits for the job may do it", 0 },
    { "mail-to", 0, TEXT, "mail_to", 0 },
    { "mail-on", 0, TEXT, "mail_on", 0 },
    { "each-line", 0, REFUSED, "drmaa_run_bulk_jobs makes many jobs of one template", 0 },
    { "retries", 'r', NUMBER, "retries", 0 },
    { "project", 0, TEXT, "project", 0 },
    { "priority", 0, NUMBER, "priority", INT64_MIN },
    { "max-running", 0, NUMBER, "max_running", 0 },
    { "after", 0, AFTER, NULL, 0 },
    { "output", 'o', TEXT, "output", 0 },
    { "error", 'e', TEXT, "error_output", 0 },
    { "compat", 0, TEXT, "compat", 0 },
    { "wait", 'w', REFUSED, "drmaa_synchronize and drmaa_wait wait", 0 },
    { "hold", 0, FLAG, "paused", 0 },
    { "key", 0, TEXT, "key", 0 },
    { "dry-run", 'n', REFUSED, "drmaa_run_job submits", 0 },
    { "credentials", 0, REFUSED, "htc submit sends them with a job", 0 },
    { "dir", 0, REFUSED, "the contact of drmaa_init says it", 0 },
    { "gateway", 0, REFUSED, "the contact of drmaa_init says it", 0 },
    { "user", 'u', REFUSED, "the contact of drmaa_init says it", 0 },
    { "token-file", 0, REFUSED, "the contact of drmaa_init says it", 0 },
    { "timeout", 0, REFUSED, "the contact of drmaa_init says it", 0 },
    { "json", 0, REFUSED, "nothing is printed", 0 },
    { "help", 'h', REFUSED, "htc submit --help and htc-drmaa(3) say what there is", 0 },
};

static const option *find(const char *word, const char **value)
{
    int    is_long = word[1] == '-';
    size_t len = is_long ? strcspn(word + 2, "=") : 1;
    *value = is_long ? (word[2 + len] ? word + 3 + len : NULL) : word[1] && word[2] ? word + 2 : NULL;
    for (size_t i = 0; i < sizeof options / sizeof *options; i++)
        if (is_long ? strlen(options[i].name) == len && memcmp(options[i].name, word + 2, len) == 0
                    : options[i].letter && options[i].letter == word[1])
            return &options[i];
    return NULL;
}

static int bad(diagnosis *d, const char *word, const char *why)
{
    return htc__drmaa_fail(d, DRMAA_ERRNO_INVALID_ATTRIBUTE_VALUE, "native specification: %.100s: %s", word, why);
}

static int member(wishes *w, const char *name, json_t *value, diagnosis *d)
{
    return value && json_object_set_new(w->request, name, value) == 0 ? DRMAA_ERRNO_SUCCESS : htc__drmaa_no_memory(d);
}

static int whole_number(const char *value, int64_t least, int64_t *out)
{
    char *end;
    errno = 0;
    *out = strtoll(value, &end, 10);
    return errno == 0 && end != value && *end == '\0' && *out >= least;
}

/* "last" is settled now: it is another job later. */
static int settle_last(session *s, int64_t *id, diagnosis *d)
{
    htc_error  error = { .status = HTC_OK };
    json_t    *answer = NULL, *request = json_pack("{s:s,s:s}", "op", "status", "id", "last");
    htc_status status = htc__drmaa_ask(s, request, 0, &answer, &error);
    json_decref(request);
    if (status != HTC_OK)
        return htc__drmaa_refused(d, SUBMITTING, status, &error);
    *id = (int64_t)json_integer_value(json_object_get(json_array_get(json_object_get(answer, "jobs"), 0), "id"));
    json_decref(answer);
    return DRMAA_ERRNO_SUCCESS;
}

/* ID[:RULE][,...] */
static int add_after(session *s, wishes *w, const char *value, diagnosis *d)
{
    char *copy = strdup(value), *left = copy, *part;
    int   code = copy ? DRMAA_ERRNO_SUCCESS : htc__drmaa_no_memory(d);
    if (!w->after)
        w->after = json_array();
    while (code == DRMAA_ERRNO_SUCCESS && (part = strsep(&left, ","))) {
        char   *rule = strchr(part, ':');
        int64_t id = 0;
        if (rule)
            *rule++ = '\0';
        if (strcmp(part, "last") == 0)
            code = settle_last(s, &id, d);
        else if (!whole_number(part, 1, &id))
            code = bad(d, value, "--after is ID[:ok|:any|:failed][,...]");
        if (code == DRMAA_ERRNO_SUCCESS)
            json_array_append_new(w->after, json_pack("{s:I,s:s}", "id", (json_int_t)id, "when", rule ? rule : "ok"));
    }
    free(copy);
    return code;
}

/* NAME=VALUE, or the NAME of one of the program's own. */
static int add_env(wishes *w, const char *value, diagnosis *d)
{
    const char *own = strchr(value, '=') ? NULL : getenv(value);
    if (value[0] == '=' || value[0] == '\0')
        return bad(d, value, "--env is NAME=VALUE or NAME");
    if (!own && !strchr(value, '='))
        return bad(d, value, "the program has no such environment variable");
    int whole = own ? htc__drmaa_list_print(&w->env, "%s=%s", value, own) : htc__drmaa_list_add(&w->env, value);
    return whole ? DRMAA_ERRNO_SUCCESS : htc__drmaa_no_memory(d);
}

/* A number of what sites count. */
static int add_resource(wishes *w, const char *name, size_t len, const char *number, diagnosis *d)
{
    int64_t count;
    if (len == 0 || !whole_number(number, 1, &count) || count > UINT32_MAX)
        return bad(d, name, "--gpus is a number and --res NAME=N, 1 or more");
    if (w->resources.count == HTC_TASK_RESOURCES_MAX)
        return bad(d, name, "a task takes no more resources");
    if (!htc__drmaa_list_print(&w->resources, "%.*s", (int)len, name))
        return htc__drmaa_no_memory(d);
    w->counts[w->resources.count - 1] = (uint32_t)count;
    return DRMAA_ERRNO_SUCCESS;
}

static int set_word(char **at, const char *value, diagnosis *d)
{
    free(*at);
    *at = strdup(value);
    return *at ? DRMAA_ERRNO_SUCCESS : htc__drmaa_no_memory(d);
}

static int take(session *s, wishes *w, const option *o, const char *value, diagnosis *d)
{
    int64_t  number;
    double   seconds;
    uint64_t bytes;
    switch (o->kind) {
    case TEXT:
        return member(w, o->member, json_string(value), d);
    case FLAG:
        return member(w, o->member, json_true(), d);
    case NUMBER:
        return whole_number(value, o->least, &number) ? member(w, o->member, json_integer(number), d) : bad(d, value, "that is no such number");
    case MINUTES:
        return htc_command_time(value, 60, &seconds) == HTC_OK ? member(w, o->member, json_real(seconds), d)
                                                               : bad(d, value, "write 90s, 5m, 2h, 1d, HH:MM:SS or D-HH:MM:SS");
    case SIZE:
        return htc_command_size(value, &bytes) == HTC_OK && bytes ? member(w, o->member, json_integer((json_int_t)bytes), d)
                                                                  : bad(d, value, "write 512M, 4G or a number of MiB, above 0");
    case CORES:
    case NODE_CORES:
        if (!whole_number(value, o->least, &number) || number > UINT32_MAX)
            return bad(d, value, "that is no number of cores");
        *(o->kind == CORES ? &w->cores : &w->node_cores) = (uint32_t)number;
        return DRMAA_ERRNO_SUCCESS;
    case INPUT:
        return htc__drmaa_list_add(&w->inputs, value) ? DRMAA_ERRNO_SUCCESS : htc__drmaa_no_memory(d);
    case ENVIRONMENT:
        return add_env(w, value, d);
    case GPUS:
        return add_resource(w, HTC_RESOURCE_GPU, strlen(HTC_RESOURCE_GPU), value, d);
    case RESOURCE:
        return add_resource(w, value, strchr(value, '=') ? strcspn(value, "=") : 0, value + strcspn(value, "=") + 1, d);
    case WORD:
        return set_word((char **)(void *)((char *)w + o->least), value, d);
    case AFTER:
        return add_after(s, w, value, d);
    case REFUSED:
        return bad(d, o->name, o->member);
    }
    return DRMAA_ERRNO_INTERNAL_ERROR;
}

/* The next word of *left, without its quotes; 0: there is none, or *code says why not. */
static int next_word(char **left, const char **word, int *code, diagnosis *d)
{
    htc_status status = htc_command_word(left, word);
    if (status != HTC_OK && status != HTC_EMPTY)
        *code = htc__drmaa_fail(d, DRMAA_ERRNO_INVALID_ATTRIBUTE_FORMAT, "native specification: a quotation does not end");
    return status == HTC_OK;
}

int htc__drmaa_native(session *s, wishes *w, const char *text, diagnosis *d)
{
    char       *copy = strdup(text), *left = copy;
    const char *word, *value;
    int         code = copy ? DRMAA_ERRNO_SUCCESS : htc__drmaa_no_memory(d);
    while (code == DRMAA_ERRNO_SUCCESS && next_word(&left, &word, &code, d)) {
        const option *o = word[0] == '-' && word[1] ? find(word, &value) : NULL;
        if (!o)
            code = bad(d, word, "that is no option of htc submit");
        else if (o->kind == FLAG && value)
            code = bad(d, word, "this option takes no value");
        else if (o->kind != FLAG && o->kind != REFUSED && !value && !next_word(&left, &value, &code, d))
            code = code == DRMAA_ERRNO_SUCCESS ? bad(d, word, "this option needs a value") : code;
        else
            code = take(s, w, o, value, d);
    }
    free(copy);
    return code;
}

/* The file of categories has lines NAME: OPTIONS. */
int htc__drmaa_category(session *s, wishes *w, const char *name, diagnosis *d)
{
    const char *named = getenv("HTC_DRMAA_CATEGORIES"), *path = s->categories ? s->categories : named && *named ? named : NULL;
    FILE       *f = path ? fopen(path, "re") : NULL;
    char       *line = NULL, *found = NULL;
    size_t      room = 0, len = strlen(name);
    if (!path || !f)
        return htc__drmaa_fail(d, DRMAA_ERRNO_DENIED_BY_DRM, "there is no job category '%.60s': %s%s%.200s", name,
                               path ? "" : "neither the contact nor HTC_DRMAA_CATEGORIES names a file of them", path ? "no file " : "", path ? path : "");
    while (!found && getline(&line, &room, f) >= 0)
        if (strncmp(line, name, len) == 0 && line[len] == ':')
            found = line + len + 1;
    fclose(f);
    int code = found ? htc__drmaa_native(s, w, found, d)
                     : htc__drmaa_fail(d, DRMAA_ERRNO_DENIED_BY_DRM, "there is no job category '%.60s' in %.200s", name, path);
    free(line);
    return code;
}

void htc__drmaa_wishes_free(wishes *w)
{
    json_decref(w->request);
    json_decref(w->after);
    htc__drmaa_list_free(&w->inputs);
    htc__drmaa_list_free(&w->env);
    htc__drmaa_list_free(&w->resources);
    free(w->container);
    free(w->hosts);
    free(w->architecture);
    free(w->system);
    *w = (wishes){ 0 };
}
