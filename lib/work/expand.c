/* Task i of a specification: mixed radix over the nest of sweeps gives the values, the values go into the slots, the
 * texts of the slots make the task. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/url.h"
#include "work/work_private.h"

/* One value on its way into a slot. Sorted by place; seq keeps the order of the document among equals. */
typedef struct edit {
    uint32_t slot, start, end, seq;
    size_t   value, len; /* in the values buffer */
    uint8_t  whole;
} edit;

typedef struct expander {
    const htc_spec *spec;
    const htc_env  *env;
    edit           *edits;
    size_t          n_edits, cap_edits;
    htc_buf         values, json;
    htc_error      *error;
    size_t          slot;   /* at work */
    int             edited; /* has a value gone into it? */
    htc_task        task;
    char           *text;
    const char    **args, **environ;
    htc_stage      *in, *out;
    char           *hosts;
    /* The staging being read. */
    const char *stage_name, *source, *target;
    uint32_t    stage_flags;
    const char *env_name;
    const char *resource_name;
    htc_resource counted[HTC_TASK_RESOURCES_MAX];
} expander;

static htc_status refuse(expander *x, htc_status status, const char *why, const char *value)
{
    const char *name = htc__slot_name(x->spec->slots[x->slot].kind);
    char        task[40] = "";
    if (x->edited) /* else it stands in the document, and is that of all tasks */
        snprintf(task, sizeof task, " (task %" PRIu64 ")", x->task.index);
    return htc__refuse(x->error, status, 0, name, "%s %s %s%s", name, htc__quote(htc_bytes_of(value)).text, why, task);
}

/* ---- values ---- */

static void json_text(htc_buf *b, htc_bytes text)
{
    htc_put_u8(b, '"');
    for (size_t i = 0; i < text.len; i++) {
        uint8_t c = ((const uint8_t *)text.data)[i];
        if (c == '"' || c == '\\')
            htc_put_text(b, "\\%c", c);
        else if (c < 0x20)
            htc_put_text(b, "\\u%04x", c);
        else
            htc_put_u8(b, c);
    }
    htc_put_u8(b, '"');
}

static void json_member(expander *x, htc_bytes key, int is_number, htc_bytes value)
{
    htc_put_u8(&x->json, x->json.len > 1 ? ',' : '{');
    json_text(&x->json, key);
    htc_put_u8(&x->json, ':');
    if (is_number)
        htc_put_raw(&x->json, value);
    else
        json_text(&x->json, value);
}

static htc_status add_edit(expander *x, const htc__param *p, size_t value, size_t len)
{
    if (p->slot == 0)
        return HTC_OK;
    if (x->n_edits == x->cap_edits) {
        size_t cap = x->cap_edits ? x->cap_edits * 2 : 16;
        edit  *more = htc__resize(x->env, x->edits, x->cap_edits * sizeof *more, cap * sizeof *more);
        if (!more)
            return HTC_ENOMEM;
        x->edits = more;
        x->cap_edits = cap;
    }
    x->edits[x->n_edits] = (edit){ .slot = p->slot - 1,
                                   .start = p->start,
                                   .end = p->end,
                                   .seq = (uint32_t)x->n_edits,
                                   .value = value,
                                   .len = len,
                                   .whole = !p->part };
    x->n_edits++;
    return HTC_OK;
}

static htc_status assign(expander *x, const htc__assignment *a, uint64_t k)
{
    uint32_t members = a->function.kind == HTC__FUNCTION_PAIRS ? 2 : 1;
    /* JSON has no number with zeros in front. */
    int is_number = a->function.kind == HTC__FUNCTION_DOUBLE || (a->function.kind == HTC__FUNCTION_INTEGER && !a->function.width);
    for (uint32_t which = 0; which < members; which++) {
        size_t at = x->values.len;
        htc__function_value(&a->function, k, which, &x->values);
        if (x->values.status != HTC_OK)
            return x->values.status;
        size_t len = x->values.len - at;
        json_member(x, a->keys[which], is_number, (htc_bytes){ x->values.data + at, len });
        for (size_t i = 0; i < a->n_params; i++) {
            const htc__param *p = &x->spec->params[a->param_first + i];
            htc_status        status = members == 1 || p->which == which ? add_edit(x, p, at, len) : HTC_OK;
            if (status != HTC_OK)
                return status;
        }
    }
    return HTC_OK;
}

/* Walks down from the top-level sweeps: at each level the sweep that holds the index, its step, the rest for below. */
static htc_status choose_values(expander *x, uint64_t index)
{
    const htc_spec *s = x->spec;
    size_t          i = 0, end = s->n_sweeps;
    while (i < end) {
        const htc__sweep *w = &s->sweeps[i];
        if (index >= w->size) {
            index -= w->size;
            i = w->next;
            continue;
        }
        for (size_t a = 0; a < w->n_assignments; a++) {
            htc_status status = assign(x, &s->assignments[w->assignment_first + a], index / w->inner);
            if (status != HTC_OK)
                return status;
        }
        index %= w->inner;
        end = w->next;
        i++;
    }
    htc_put_text(&x->json, x->json.len ? "}" : "{}");
    htc_put_u8(&x->json, 0);
    return x->json.status;
}

/* ---- texts ---- */

static int compare_edits(const void *pa, const void *pb)
{
    const edit *a = pa, *b = pb;
    if (a->slot != b->slot)
        return a->slot < b->slot ? -1 : 1;
    if (a->start != b->start)
        return a->start < b->start ? -1 : 1;
    if (a->end != b->end) /* what only inserts comes before what replaces from there on */
        return a->end < b->end ? -1 : 1;
    return a->seq < b->seq ? -1 : a->seq > b->seq;
}

static void append(expander *x, const void *data, size_t n)
{
    if (n)
        memcpy(x->text, data, n);
    x->text += n;
}

/* The text of the slot with the n edits that belong to it; gives it in the arena. */
static htc_status slot_text(expander *x, const edit *e, size_t n, htc_bytes *out)
{
    htc_bytes   t = x->spec->slots[x->slot].text;
    char       *begin = x->text;
    size_t      at = 0;
    const char *source = t.data;
    for (size_t i = 0; i < n; i++) {
        if ((e[i].whole && n > 1) || e[i].start < at)
            return htc__refuse(x->error, HTC_ESWEEP, 0, htc__slot_name(x->spec->slots[x->slot].kind),
                               "two assignments replace the same text of %s",
                               htc__slot_name(x->spec->slots[x->slot].kind));
        append(x, source + at, e[i].start - at);
        append(x, x->values.data + e[i].value, e[i].len);
        at = e[i].end;
    }
    append(x, source + at, t.len - at);
    *out = (htc_bytes){ begin, (size_t)(x->text - begin) };
    *x->text++ = '\0';
    if (out->len && memchr(out->data, 0, out->len))
        return refuse(x, HTC_ESWEEP, "holds a zero byte", out->data);
    return HTC_OK;
}

/* Trimmed in place: the arena is ours. */
static char *trimmed(htc_bytes text)
{
    htc_bytes t = htc__trim(text);
    char     *p = (char *)(uintptr_t)t.data;
    p[t.len] = '\0';
    return p;
}

/* ---- what a text means ---- */

static htc_status set_text(expander *x, const char **field, const char *value)
{
    if (!*value)
        return refuse(x, x->edited ? HTC_ESWEEP : HTC_EUNSUPPORTED, "is empty", value);
    *field = value;
    return HTC_OK;
}

static htc_status set_stream(expander *x, const char **field, const char *value)
{
    if (x->spec->slots[x->slot].kind == HTC__SLOT_INPUT && strcmp(value, "/dev/null") == 0)
        return HTC_OK; /* what a task without Input reads anyway */
    if (!htc__path_stays(htc_bytes_of(value)))
        return refuse(x, HTC_EPATH, "is not a name below the working directory", value);
    *field = value;
    return HTC_OK;
}

static htc_status set_directory(expander *x, const char *value)
{
    if (value[0] != '/' && !htc__path_stays(htc_bytes_of(value)) && strcmp(value, ".") != 0)
        return refuse(x, HTC_EPATH, "leaves the task's directory", value);
    x->task.directory = strcmp(value, ".") == 0 ? NULL : value;
    return HTC_OK;
}

static htc_status read_number(expander *x, const char *value, uint64_t *out)
{
    int ok = htc__unsigned_parse(htc_bytes_of(value), out);
    if (ok == 0)
        return refuse(x, HTC_ESWEEP, "is not a whole number from 0", value);
    return ok < 0 ? refuse(x, HTC_EUNSUPPORTED, "is beyond 64 bits", value) : HTC_OK;
}

static htc_status set_limit(expander *x, uint64_t *field, const char *value)
{
    uint64_t   n = 0;
    htc_status status = read_number(x, value, &n);
    if (status == HTC_OK && n == 0)
        status = refuse(x, HTC_EUNSUPPORTED, "would leave the task nothing", value);
    if (status == HTC_OK)
        *field = n;
    return status;
}

static htc_status set_seconds(expander *x, htc_ns *field, const char *value)
{
    uint64_t   seconds = 0;
    htc_status status = set_limit(x, &seconds, value);
    if (status == HTC_OK)
        *field = seconds >= HTC_NEVER / HTC_SECOND ? HTC_NEVER - 1 : seconds * HTC_SECOND;
    return status;
}

static htc_status read_amount(expander *x, const char *value, double max, double *out)
{
    if (!htc__double_parse(htc_bytes_of(value), out) || !(*out >= 0))
        return refuse(x, HTC_ESWEEP, "is not a number from 0", value);
    return *out > max ? refuse(x, HTC_EUNSUPPORTED, "is too large", value) : HTC_OK;
}

static htc_status set_cores(expander *x, const char *value)
{
    double     cores = 0;
    htc_status status = read_amount(x, value, 1e6, &cores);
    if (status != HTC_OK)
        return status;
    if (cores < 1 || cores != floor(cores))
        return refuse(x, HTC_EUNSUPPORTED, "is not a whole number of cores", value);
    /* IndividualCPUCount comes first; fewer on a node than in all spread the task over nodes. */
    uint32_t total = (uint32_t)cores, each = x->spec->slots[x->slot].kind == HTC__SLOT_CORES ? x->task.limits.cores : 0;
    if (each && total > each && total % each)
        return refuse(x, HTC_EUNSUPPORTED, "is no multiple of IndividualCPUCount: every node of a task has as many cores", value);
    x->task.node_cores = each && total > each ? each : 0;
    if (x->task.node_cores && total / each > HTC_TASK_NODES_MAX)
        return refuse(x, HTC_ETOOBIG, "would take more than 128 nodes", value);
    x->task.limits.cores = total;
    return HTC_OK;
}

/* One count for each name (order_is_known). */
static htc_status set_resource(expander *x, const char *value)
{
    uint64_t   n = 0;
    htc_task  *t = &x->task;
    htc_status status = read_number(x, value, &n);
    if (status == HTC_OK && n > UINT32_MAX)
        status = refuse(x, HTC_EUNSUPPORTED, "is too large", value);
    for (uint32_t i = 0; status == HTC_OK && i < t->n_resources; i++)
        if (strcmp(x->counted[i].name, x->resource_name) == 0)
            status = refuse(x, HTC_EUNSUPPORTED, "is a second count of a resource", value);
    if (status == HTC_OK && n && t->n_resources == HTC_TASK_RESOURCES_MAX)
        status = refuse(x, HTC_ETOOBIG, "is of one resource more than a task may name", value);
    if (status == HTC_OK && n)
        x->counted[t->n_resources++] = (htc_resource){ x->resource_name, (uint32_t)n };
    x->resource_name = NULL;
    return status;
}

static htc_status set_resource_name(expander *x, const char *value)
{
    if (!htc__resource_name_is_fine(value))
        return refuse(x, HTC_ESWEEP, "is not the name of a resource: lower-case letters, digits, _ . and -, a letter first, 31 at most", value);
    x->resource_name = value;
    return HTC_OK;
}

static htc_status set_container(expander *x, const char *value)
{
    if (!htc__container_is_fine(value))
        return refuse(x, HTC_ESWEEP, "is not the name of an image", value);
    x->task.container = value;
    return HTC_OK;
}

static htc_status set_memory_min(expander *x, const char *value)
{
    double     bytes = 0;
    htc_status status = read_amount(x, value, 9e18, &bytes);
    if (status == HTC_OK)
        x->task.memory_min = (uint64_t)ceil(bytes);
    return status;
}

static htc_status add_host(expander *x, const char *value)
{
    if (!*value || strpbrk(value, ", "))
        return refuse(x, HTC_EUNSUPPORTED, "is not a host name", value);
    if (!x->task.host)
        x->task.host = x->hosts;
    else
        strcat(x->hosts, ",");
    strcat(x->hosts, value);
    return HTC_OK;
}

static htc_status add_env(expander *x, char *value)
{
    /* One value for each name (order_is_known): that bounds what is copied. */
    size_t n = strlen(x->env_name), m = strlen(value);
    char  *entry = x->text;
    memcpy(entry, x->env_name, n);
    entry[n] = '=';
    memcpy(entry + n + 1, value, m + 1);
    x->text += n + m + 2;
    x->environ[x->task.n_env++] = entry;
    x->env_name = NULL;
    return HTC_OK;
}

static htc_status set_env_name(expander *x, const char *value)
{
    if (!*value || strchr(value, '='))
        return refuse(x, HTC_ESWEEP, "is not the name of a variable", value);
    x->env_name = value;
    return HTC_OK;
}

static htc_status check_uri(expander *x, const char *value, int is_input)
{
    htc_bytes uri = htc_bytes_of(value);
    if (htc__url_is_web(uri)) {
        char        shown[256]; /* without a password */
        const char *wrong = is_input ? htc__url_wrong(uri) : htc__target_wrong(uri, x->stage_flags);
        htc__url_show(value, shown, sizeof shown);
        return wrong ? refuse(x, HTC_EUNSUPPORTED, wrong, shown) : HTC_OK;
    }
    if (htc__uri_is_file(uri) || (is_input && (htc__uri_is_upload(uri) || htc__uri_is_tree(uri))))
        return HTC_OK;
    if (htc__has_scheme(uri))
        return refuse(x, HTC_EUNSUPPORTED,
                      is_input ? "is not read here: only file:/path, http://, https://, ftp:// and htc:HASH are"
                               : "is not written here: only file:/path, http://, https://, ftp:// and names in the result set are",
                      value);
    if (is_input)
        return refuse(x, HTC_EUNSUPPORTED, "has no scheme: file:/path or htc:HASH is needed", value);
    if (!htc__path_stays(uri))
        return refuse(x, HTC_EPATH, "leaves the result set", value);
    return HTC_OK;
}

static void end_stage(expander *x)
{
    if (x->source)
        x->in[x->task.n_in++] = (htc_stage){ x->stage_name, x->source, x->stage_flags };
    if (x->target)
        x->out[x->task.n_out++] = (htc_stage){ x->stage_name, x->target, x->stage_flags };
    x->source = x->target = x->stage_name = NULL;
    x->stage_flags = 0;
}

static htc_status begin_stage(expander *x, const char *name)
{
    end_stage(x);
    if (!htc__path_stays(htc_bytes_of(name)))
        return refuse(x, HTC_EPATH, "leaves the task's directory", name);
    x->stage_name = name;
    return HTC_OK;
}

static htc_status set_creation(expander *x, const char *value)
{
    uint32_t flag = strcmp(value, "overwrite") == 0       ? HTC_STAGE_OVERWRITE
                    : strcmp(value, "append") == 0        ? HTC_STAGE_APPEND
                    : strcmp(value, "dontOverwrite") == 0 ? HTC_STAGE_KEEP
                                                          : 0;
    x->stage_flags |= flag;
    return flag ? HTC_OK : refuse(x, HTC_ESWEEP, "is not overwrite, append or dontOverwrite", value);
}

static htc_status read_truth(expander *x, const char *value, int *out)
{
    *out = strcmp(value, "true") == 0 || strcmp(value, "1") == 0;
    if (*out || strcmp(value, "false") == 0 || strcmp(value, "0") == 0)
        return HTC_OK;
    return refuse(x, HTC_ESWEEP, "is not true or false", value);
}

static htc_status set_stage_flag(expander *x, const char *value, uint32_t flag)
{
    int        truth = 0;
    htc_status status = read_truth(x, value, &truth);
    if (truth)
        x->stage_flags |= flag;
    return status;
}

static htc_status set_uri(expander *x, const char *value, int is_input)
{
    htc_status status = check_uri(x, value, is_input);
    if (status == HTC_OK && is_input)
        x->source = value;
    else if (status == HTC_OK)
        x->target = value;
    return status;
}

static htc_status check_exclusive(expander *x, const char *value)
{
    int        truth = 0;
    htc_status status = read_truth(x, value, &truth);
    return truth ? refuse(x, HTC_EUNSUPPORTED, "is not done here: tasks share nodes", value) : status;
}

static htc_status apply(expander *x, htc_bytes text)
{
    htc_task   *t = &x->task;
    htc_limits *l = &t->limits;
    char       *raw = (char *)(uintptr_t)text.data;
    htc_status  status;
    switch ((htc__slot_kind)x->spec->slots[x->slot].kind) {
    case HTC__SLOT_JOB_NAME:
        return HTC_OK;
    case HTC__SLOT_ARGUMENT:
        x->args[t->n_args++] = raw;
        return HTC_OK;
    case HTC__SLOT_ENV_VALUE:
        return add_env(x, raw);
    case HTC__SLOT_EXECUTABLE:
        return set_text(x, &t->executable, trimmed(text));
    case HTC__SLOT_INPUT:
        return set_stream(x, &t->input, trimmed(text));
    case HTC__SLOT_OUTPUT:
        return set_stream(x, &t->output, trimmed(text));
    case HTC__SLOT_ERROR:
        return set_stream(x, &t->error, trimmed(text));
    case HTC__SLOT_DIRECTORY:
        return set_directory(x, trimmed(text));
    case HTC__SLOT_ENV_NAME:
        return set_env_name(x, trimmed(text));
    case HTC__SLOT_WALL:
        return set_seconds(x, &l->wall, trimmed(text));
    case HTC__SLOT_CPU:
        return set_seconds(x, &l->cpu, trimmed(text));
    case HTC__SLOT_FILE_SIZE:
        return set_limit(x, &l->file_size, trimmed(text));
    case HTC__SLOT_CORE_SIZE:
        status = read_number(x, trimmed(text), &l->core_size);
        l->core_is_set = status == HTC_OK;
        return status;
    case HTC__SLOT_DATA:
        return set_limit(x, &l->data, trimmed(text));
    case HTC__SLOT_MEMORY:
        return set_limit(x, &l->memory, trimmed(text));
    case HTC__SLOT_OPEN_FILES:
        return set_limit(x, &l->open_files, trimmed(text));
    case HTC__SLOT_STACK:
        return set_limit(x, &l->stack, trimmed(text));
    case HTC__SLOT_PROCESSES:
        return set_limit(x, &l->processes, trimmed(text));
    case HTC__SLOT_VIRTUAL_MEMORY:
        return set_limit(x, &l->virtual_memory, trimmed(text));
    case HTC__SLOT_HOST:
        return add_host(x, trimmed(text));
    case HTC__SLOT_SYSTEM:
        return set_text(x, &t->system, trimmed(text));
    case HTC__SLOT_ARCHITECTURE:
        return set_text(x, &t->architecture, trimmed(text));
    case HTC__SLOT_NODE_CORES:
    case HTC__SLOT_CORES:
        return set_cores(x, trimmed(text));
    case HTC__SLOT_MEMORY_MIN:
        return set_memory_min(x, trimmed(text));
    case HTC__SLOT_STAGE_NAME:
        return begin_stage(x, trimmed(text));
    case HTC__SLOT_STAGE_FLAG:
        return set_creation(x, trimmed(text));
    case HTC__SLOT_STAGE_DELETE:
        return set_stage_flag(x, trimmed(text), HTC_STAGE_DELETE);
    case HTC__SLOT_STAGE_EXECUTABLE:
        return set_stage_flag(x, trimmed(text), HTC_STAGE_EXECUTABLE);
    case HTC__SLOT_STAGE_SOURCE:
        return set_uri(x, trimmed(text), 1);
    case HTC__SLOT_STAGE_TARGET:
        return set_uri(x, trimmed(text), 0);
    case HTC__SLOT_EXCLUSIVE:
        return check_exclusive(x, trimmed(text));
    case HTC__SLOT_RESOURCE_NAME:
        return set_resource_name(x, trimmed(text));
    case HTC__SLOT_RESOURCE:
        return set_resource(x, trimmed(text));
    case HTC__SLOT_CONTAINER:
        return set_container(x, trimmed(text));
    case HTC__SLOT_KINDS:
        break;
    }
    return HTC_ECORRUPT;
}

/* The stored form may be hostile: an order that compile.c never writes must not be believed. */
static int order_is_known(const expander *x)
{
    uint8_t kind = x->spec->slots[x->slot].kind;
    if (kind == HTC__SLOT_ENV_VALUE)
        return x->env_name != NULL;
    if (kind == HTC__SLOT_STAGE_SOURCE || kind == HTC__SLOT_STAGE_TARGET)
        return x->stage_name != NULL;
    if (kind == HTC__SLOT_RESOURCE)
        return x->resource_name != NULL;
    return 1;
}

static htc_status fill(expander *x)
{
    size_t e = 0;
    for (x->slot = 0; x->slot < x->spec->n_slots; x->slot++) {
        size_t n = 0;
        while (e + n < x->n_edits && x->edits[e + n].slot == x->slot)
            n++;
        htc_bytes text = { NULL, 0 };
        x->edited = n > 0;
        htc_status status = slot_text(x, n ? &x->edits[e] : NULL, n, &text);
        if (status == HTC_OK && !order_is_known(x))
            status = HTC_ECORRUPT;
        if (status == HTC_OK)
            status = apply(x, text);
        if (status != HTC_OK)
            return status;
        e += n;
    }
    end_stage(x);
    if (x->task.limits.cores == 0)
        x->task.limits.cores = 1;
    return x->task.executable ? HTC_OK : HTC_ECORRUPT;
}

static size_t most_of(const char *const *words, size_t n, size_t *all)
{
    size_t most = 0;
    for (size_t i = 0; i < n; i++) {
        size_t len = strlen(words[i]);
        *all += len + 1 + sizeof(char *);
        most = len > most ? len : most;
    }
    return most;
}

/* A system that does not hand it over says so when the task is to begin, and names no limit. */
static htc_status check_handed(const expander *x)
{
    const htc_task *t = &x->task;
    size_t          all = 0, arg = most_of(x->args, t->n_args, &all), env = most_of(x->environ, t->n_env, &all);
    if (arg > HTC_TASK_WORD_MAX || env > HTC_TASK_WORD_MAX)
        return htc__refuse(x->error, HTC_ETOOBIG, 0, arg > HTC_TASK_WORD_MAX ? "Argument" : "Environment",
                           "one word of task %" PRIu64 " has %zu bytes, more than %zu (MAX_ARG_STRLEN): give it in a file", t->index,
                           arg > HTC_TASK_WORD_MAX ? arg : env, HTC_TASK_WORD_MAX);
    if (all > HTC_TASK_HANDED_MAX)
        return htc__refuse(x->error, HTC_ETOOBIG, 0, "", "the words and the environment of task %" PRIu64 " have %zu bytes, more than %zu (ARG_MAX): give them in a file",
                           t->index, all, HTC_TASK_HANDED_MAX);
    return HTC_OK;
}

static htc_status build(expander *x, htc_task **out)
{
    const htc_spec *s = x->spec;
    size_t          n = s->n_slots + 1, texts = n;
    for (size_t i = 0; i < s->n_slots; i++)
        texts += s->slots[i].text.len;
    for (size_t i = 0; i < x->n_edits; i++)
        texts += x->edits[i].len;
    if (texts > HTC_TASK_TEXTS_MAX || x->json.len > HTC_TASK_TEXTS_MAX)
        return htc__refuse(x->error, HTC_ETOOBIG, 0, "", "the texts of task %" PRIu64 " have %zu bytes, more than %zu",
                           x->task.index, texts > x->json.len ? texts : x->json.len, HTC_TASK_TEXTS_MAX);
    /* Each text at most three times: itself, as NAME=value, and in the list of hosts. */
    size_t size = n * (2 * sizeof(char *) + 2 * sizeof(htc_stage)) + 3 * (texts + n);
    char  *block = htc__alloc(x->env, size);
    if (!block)
        return HTC_ENOMEM;
    x->in = (htc_stage *)(void *)block;
    x->out = x->in + n;
    x->args = (const char **)(x->out + n);
    x->environ = x->args + n;
    x->hosts = (char *)(x->environ + n);
    x->text = x->hosts + texts + n;
    htc_status status = fill(x);
    if (status == HTC_OK) {
        x->slot = SIZE_MAX;
        status = check_handed(x);
    }
    if (status == HTC_OK) {
        htc_bytes bytes;
        x->task.args = x->args;
        x->task.env = x->environ;
        x->task.in = x->in;
        x->task.out = x->out;
        x->task.resources = x->counted;
        x->task.values_json = (const char *)x->json.data;
        status = htc_task_to_bytes(x->env, &x->task, &bytes);
        if (status == HTC_OK) {
            status = htc_task_from_bytes(x->env, bytes, out);
            htc_work_free(x->env, bytes);
        }
    }
    htc__free(x->env, block, size);
    return status;
}

htc_status htc__spec_expand(const htc_spec *spec, uint64_t index, htc_task **out, size_t *slot, htc_error *error)
{
    expander x = { .spec = spec, .env = &spec->env, .error = error, .slot = SIZE_MAX, .task = { .index = index } };
    htc_buf_init(&x.values, x.env, 0);
    htc_buf_init(&x.json, x.env, 0);
    htc_put_u8(&x.values, 0); /* so that there is a place even where all values are empty */
    htc_status status = choose_values(&x, index);
    if (status == HTC_OK) {
        if (x.n_edits > 1)
            qsort(x.edits, x.n_edits, sizeof *x.edits, compare_edits);
        status = build(&x, out);
    }
    *slot = x.slot;
    htc__free(x.env, x.edits, x.cap_edits * sizeof *x.edits);
    htc_buf_free(&x.values);
    htc_buf_free(&x.json);
    return status;
}

htc_status htc_spec_task(const htc_spec *spec, uint64_t index, htc_task **out, htc_error *error)
{
    size_t slot;
    if (index >= spec->count)
        return htc__refuse(error, HTC_EINVAL, 0, "", "there is no task %" PRIu64 ": the last one is %" PRIu64, index,
                           spec->count - 1);
    htc_error  ours = { .status = HTC_OK };
    htc_status status = htc__spec_expand(spec, index, out, &slot, &ours);
    if (status != HTC_OK && error) {
        if (ours.status == HTC_OK)
            htc__refuse(&ours, status, 0, "", "%s", htc_strerror(status));
        *error = ours;
    }
    return status;
}
