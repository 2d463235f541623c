/* Reading a flow: which form it is in, and what the readers of all forms share. */
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "work/flow_private.h"

void htc_flow_reading_init(htc_flow_reading *options, size_t size)
{
    htc__options_init(options, size);
}

htc_status htc__flow_refuse(htc__flow_reader *r, htc_status status, uint32_t line, const char *where, const char *hint,
                            const char *format, ...)
{
    char    text[sizeof r->error->text], place[sizeof r->error->where];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    snprintf(place, sizeof place, "%s", where ? where : "");
    htc__refuse(r->error, status, line, place, "%s", text);
    snprintf(r->error->hint, sizeof r->error->hint, "%s", hint ? hint : "");
    htc__text_clean(r->error->hint);
    return status;
}

/* ---- lists that grow ---- */

void *htc__flow_list_add(const htc_env *env, htc__flow_list *l)
{
    if (l->n == l->cap) {
        size_t cap = l->cap ? l->cap * 2 : 8;
        void  *items = htc__resize(env, l->items, l->cap * l->item, cap * l->item);
        if (!items)
            return NULL;
        l->items = items;
        l->cap = cap;
    }
    return (char *)l->items + l->n++ * l->item;
}

void htc__flow_list_free(const htc_env *env, htc__flow_list *l)
{
    htc__free(env, l->items, l->cap * l->item);
    l->items = NULL;
    l->n = l->cap = 0;
}

/* ---- tasks and what they wait for ---- */

static htc_status remember_line(htc__flow_reader *r, uint32_t id, uint32_t line)
{
    if (id >= r->lines_cap) {
        size_t    cap = r->lines_cap ? r->lines_cap * 2 : 16;
        uint32_t *lines = htc__resize(r->env, r->lines, r->lines_cap * sizeof *lines, cap * sizeof *lines);
        if (!lines)
            return HTC_ENOMEM;
        r->lines = lines;
        r->lines_cap = cap;
    }
    r->lines[id] = line;
    return HTC_OK;
}

static uint32_t line_of(const htc__flow_reader *r, uint32_t id)
{
    return id < r->lines_cap ? r->lines[id] : 0;
}

/* What the flow says of a task or dependency, as a mistake of the document. */
static htc_status as_document(htc_status status)
{
    return status == HTC_EINVAL || status == HTC_EEXISTS || status == HTC_ENOTFOUND ? HTC_ESCHEMA
           : status == HTC_EFULL                                                    ? HTC_ETOOBIG
                                                                                    : status;
}

/* An object of functions that is named from the directory of the flow. */
static const char *find_object(htc__flow_reader *r, const char *object)
{
    if (!r->o->directory || !object || !object[0] || object[0] == '/' || htc__uri_is_upload(htc_bytes_of(object)))
        return object;
    while (object[0] == '.' && object[1] == '/')
        object += 2;
    htc_buf_clear(&r->object);
    htc_put_text(&r->object, "%s/%s", r->o->directory, object);
    htc_put_u8(&r->object, 0);
    return (const char *)r->object.data;
}

htc_status htc__flow_put(htc__flow_reader *r, const htc_flow_task *given, uint32_t line, const char *where,
                         uint32_t *id)
{
    htc_error     e = { .status = HTC_OK };
    uint32_t      other;
    char          hint[160] = "";
    htc_flow_task task = *given;
    task.object = find_object(r, given->object);
    htc_status status = r->object.status == HTC_OK ? htc_flow_add(r->flow, &task, id, &e) : r->object.status;
    if (status == HTC_OK)
        return line ? remember_line(r, *id, line) : HTC_OK;
    if (status == HTC_EEXISTS && htc_flow_find(r->flow, task.name, &other) == HTC_OK && line_of(r, other))
        snprintf(hint, sizeof hint, "the other one is in line %u: give one of them another name", line_of(r, other));
    else if (status == HTC_EEXISTS)
        snprintf(hint, sizeof hint, "give one of them another name");
    else if (status == HTC_EFULL || status == HTC_ETOOBIG)
        snprintf(hint, sizeof hint, "raise the bound, or split the flow");
    else if (status == HTC_EINVAL)
        snprintf(hint, sizeof hint, "correct %.60s of this task", e.where);
    return htc__flow_refuse(r, as_document(status), line, where ? where : e.where, hint, "%s", e.text);
}

/* Where the k-th parent of something stands. */
static void tell_place(const char *list, const char *item, uint32_t i, uint32_t k, char out[160])
{
    if (list)
        snprintf(out, 160, "%s[%u].%s[%u]", list, i, item, k);
}

static htc_status link_to(htc__flow_reader *r, uint32_t child, uint32_t parent, uint32_t rule, uint32_t line,
                          const char *place)
{
    const char *name = htc_flow_get(r->flow, child)->name;
    htc_status  status = htc_flow_after(r->flow, child, parent, rule);
    if (status == HTC_OK || status == HTC_ENOMEM)
        return status;
    if (status == HTC_ECYCLE)
        return htc__flow_refuse(r, HTC_ECYCLE, line, place[0] ? place : name, "take it out of its own parents",
                                "task %s waits for itself", htc__quote(htc_bytes_of(name)).text);
    return htc__flow_refuse(r, HTC_ETOOBIG, line, place[0] ? place : name, "raise the bound, or split the flow",
                            "there are more dependencies, or tasks, than are allowed");
}

htc_status htc__flow_put_after(htc__flow_reader *r, uint32_t child, htc_bytes name, uint32_t rule, uint32_t line,
                               const char *list, uint32_t i, uint32_t k)
{
    char     text[HTC_FLOW_NAME_MAX + 1], place[160] = "";
    uint32_t parent;
    tell_place(list, "after", i, k, place);
    if (name.len == 0 || name.len >= sizeof text || memchr(name.data, 0, name.len))
        return htc__flow_refuse(r, HTC_ESCHEMA, line, place, "write the name of a task",
                                "the name of a parent has 1 to %d bytes, not %zu", HTC_FLOW_NAME_MAX, name.len);
    memcpy(text, name.data, name.len);
    text[name.len] = '\0';
    /* Behind one that has to wait the others wait too: parents stay in their order. */
    int in_turn = r->n_waits == 0 || r->waits[r->n_waits - 1].child != child;
    if (in_turn && htc_flow_find(r->flow, text, &parent) == HTC_OK)
        return link_to(r, child, parent, rule, line, place);
    if (r->n_waits >= r->flow->edges_max)
        return htc__flow_refuse(r, HTC_ETOOBIG, line, place, "raise the bound, or split the flow",
                                "there are more than %u dependencies", r->flow->edges_max);
    htc__flow_list  waits = { r->waits, r->n_waits, r->waits_cap, sizeof *r->waits };
    htc__flow_wait *w = htc__flow_list_add(r->env, &waits);
    if (!w)
        return HTC_ENOMEM;
    *w = (htc__flow_wait){ r->names.len, child, rule, line, i, k, list };
    r->waits = waits.items;
    r->n_waits = waits.n;
    r->waits_cap = waits.cap;
    htc_put_raw(&r->names, (htc_bytes){ text, name.len + 1 });
    if (r->names.status == HTC_EFULL)
        return htc__flow_refuse(r, HTC_ETOOBIG, line, place, "put tasks in front of those that wait for them",
                                "too many tasks are named before they come");
    return r->names.status;
}

/* What was named before it came has come by now, or never does. */
static htc_status resolve(htc__flow_reader *r)
{
    for (size_t i = 0; i < r->n_waits; i++) {
        const htc__flow_wait *w = &r->waits[i];
        const char           *name = (const char *)r->names.data + w->name_at;
        char                  place[160] = "";
        uint32_t              parent;
        tell_place(w->list, "after", w->i, w->k, place);
        if (htc_flow_find(r->flow, name, &parent) != HTC_OK)
            return htc__flow_refuse(r, HTC_ESCHEMA, w->line, place[0] ? place : htc_flow_get(r->flow, w->child)->name,
                                    "add a task of this name, or correct it here",
                                    "task %s waits for %s, and there is no such task",
                                    htc__quote(htc_bytes_of(htc_flow_get(r->flow, w->child)->name)).text,
                                    htc__quote(htc_bytes_of(name)).text);
        htc_status status = link_to(r, w->child, parent, w->rule, w->line, place);
        if (status != HTC_OK)
            return status;
    }
    return HTC_OK;
}

static htc_status finish(htc__flow_reader *r)
{
    htc_error  e = { .status = HTC_OK };
    uint32_t   task;
    htc_status status = resolve(r);
    if (status != HTC_OK)
        return status;
    if (htc_flow_count(r->flow) == 0)
        return htc__flow_refuse(r, HTC_ESCHEMA, 0, "", "write at least one", "there are no tasks");
    status = htc_flow_check(r->flow, &e);
    if (status == HTC_OK)
        return HTC_OK;
    uint32_t line = htc_flow_find(r->flow, e.where, &task) == HTC_OK ? line_of(r, task) : 0;
    return htc__flow_refuse(r, as_document(status), line, e.where,
                            e.hint[0] ? e.hint : "take out one of the dependencies, or the count", "%s", e.text);
}

htc_status htc__flow_replay(htc__flow_reader *r, htc_flow_task *task, int run_is_known, uint32_t line,
                            const char *where)
{
    char        hint[160];
    const char *kind = task->kind ? task->kind : "";
    for (size_t i = 0; i < r->o->n_programs; i++)
        if (strcmp(r->o->programs[i].kind, kind) == 0) {
            task->executable = r->o->programs[i].program;
            return HTC_OK;
        }
    if (r->o->n_programs) {
        snprintf(hint, sizeof hint, "say which program runs %.60s", kind);
        return htc__flow_refuse(r, HTC_EUNSUPPORTED, line, where, hint, "no program is given for %s",
                                htc__quote(htc_bytes_of(kind)).text);
    }
    if (!run_is_known) {
        snprintf(hint, sizeof hint, "say which program runs %.60s", kind[0] ? kind : "this task");
        return htc__flow_refuse(r, HTC_EUNSUPPORTED, line, where, hint,
                                "the task has no recorded run time, and no program is given for it");
    }
    task->builtin = HTC_FLOW_SLEEP;
    task->amount = task->run;
    task->args = NULL;
    task->n_args = 0;
    return HTC_OK;
}

/* ---- which form ---- */

static htc_bytes without_mark(htc_bytes bytes)
{
    const char *p = bytes.data;
    return bytes.len >= 3 && memcmp(p, "\xef\xbb\xbf", 3) == 0 ? (htc_bytes){ p + 3, bytes.len - 3 } : bytes;
}

static uint32_t format_of(htc_bytes bytes)
{
    const char *p = bytes.data;
    size_t      i = 0;
    while (i < bytes.len && (p[i] == ' ' || p[i] == '\t' || p[i] == '\r' || p[i] == '\n'))
        i++;
    return i < bytes.len && p[i] == '<'                    ? HTC_FLOW_DAX
           : i < bytes.len && (p[i] == '{' || p[i] == '[') ? HTC_FLOW_AUTO
                                                           : HTC_FLOW_TEXT;
}

static htc_status read_as(htc__flow_reader *r, uint32_t format)
{
    if (format == HTC_FLOW_AUTO)
        format = format_of(r->bytes);
    switch ((htc_flow_format)format) {
    case HTC_FLOW_TEXT:
        return htc__flow_read_text(r);
    case HTC_FLOW_JSONL:
        return htc__flow_read_jsonl(r);
    case HTC_FLOW_DAX:
        return htc__flow_read_dax(r);
    case HTC_FLOW_AUTO:
    case HTC_FLOW_WFCOMMONS:
    case HTC_FLOW_JOBS:
        return htc__flow_read_json(r, format);
    case HTC_FLOW_DOT:
        break;
    }
    return htc__flow_refuse(r, HTC_EINVAL, 0, "", "let the content say which form it is",
                            "a flow cannot be read in form %u", format);
}

static int options_are_fine(const htc_flow_reading *o)
{
    for (size_t i = 0; i < o->n_programs; i++)
        if (!o->programs || !o->programs[i].kind || !o->programs[i].program)
            return 0;
    if (o->directory && o->directory[0] != '/')
        return 0;
    return o->time_scale > 0 && o->size_scale > 0 && !isinf(o->time_scale) && !isinf(o->size_scale);
}

/* In front of the place, the name of the file. */
static void name_file(const htc_flow_reading *o, htc_error *error)
{
    char place[sizeof error->where];
    if (!o->file)
        return;
    memcpy(place, error->where, sizeof place);
    snprintf(error->where, sizeof error->where, "%.80s%s%.76s", o->file, place[0] ? ": " : "", place);
    htc__text_clean(error->where);
}

static htc_status read_flow(htc__flow_reader *r, uint32_t format)
{
    size_t max = r->o->bytes_max ? r->o->bytes_max : HTC__FLOW_READ_MAX;
    if (r->bytes.len > max)
        return htc__flow_refuse(r, HTC_ETOOBIG, 0, "", "raise the bound, or split the flow",
                                "the file has %zu bytes, more than %zu", r->bytes.len, max);
    htc_status status = htc_flow_create(r->env, r->o->bounds, &r->flow);
    if (status != HTC_OK)
        return status;
    htc_buf_init(&r->names, r->env, max);
    htc_buf_init(&r->object, r->env, 0);
    status = read_as(r, format);
    if (status == HTC_OK)
        status = finish(r);
    htc_buf_free(&r->names);
    htc_buf_free(&r->object);
    htc__free(r->env, r->waits, r->waits_cap * sizeof *r->waits);
    htc__free(r->env, r->lines, r->lines_cap * sizeof *r->lines);
    return status;
}

htc_status htc_flow_read(const htc_env *env, htc_bytes bytes, uint32_t format, const htc_flow_reading *options,
                         htc_flow **out, htc_error *error)
{
    htc_flow_reading o = { .size = sizeof o };
    htc_error        e = { .status = HTC_OK };
    htc_status       status = htc__options_copy(&o, sizeof o, options, options ? options->size : 0, sizeof o.size);
    o.time_scale = o.time_scale == 0 ? 1 : o.time_scale;
    o.size_scale = o.size_scale == 0 ? 1 : o.size_scale;
    if (status == HTC_OK && (!out || (!bytes.data && bytes.len) || !options_are_fine(&o)))
        status = HTC_EINVAL;
    htc__flow_reader r = { .env = env, .bytes = without_mark(bytes), .o = &o, .error = &e };
    if (status == HTC_OK)
        status = read_flow(&r, format);
    if (status == HTC_OK) {
        *out = r.flow;
        return HTC_OK;
    }
    htc_flow_destroy(r.flow);
    if (error) {
        if (e.status != status)
            htc__refuse(&e, status, 0, "", "%s", htc_strerror(status));
        name_file(&o, &e);
        *error = e;
    }
    return status;
}
