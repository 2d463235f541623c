/* WfFormat of WfCommons, versions 1.4 and 1.5: the tasks of one recorded run. */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "work/flow_json.h"

typedef struct instance {
    htc__flow_reader *r;
    const json_t     *tasks;
    const char       *path;       /* of tasks */
    json_t           *ids;        /* by id: the task */
    json_t           *names;      /* by name: the id, for documents that name parents so */
    json_t           *files;      /* by id: the size */
    json_t           *executions; /* by id: what the run recorded; 1.4 has it in the task */
    const json_t     *recorded;   /* the list of these */
} instance;

static __attribute__((format(printf, 6, 7))) htc_status
refuse(const instance *w, htc_status status, size_t i, const char *key, const char *hint, const char *format, ...)
{
    char    text[sizeof w->r->error->text], place[160];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    snprintf(place, sizeof place, "%s[%zu]%s%s", w->path, i, key[0] ? "." : "", key);
    return htc__flow_refuse(w->r, status, 0, place, hint, "%s", text);
}

/* What the run recorded of task i. */
static htc_status refuse_run(const instance *w, size_t i, const json_t *execution, const char *key, const char *hint, const char *text)
{
    char   place[160];
    size_t at = 0;
    if (!w->executions)
        return refuse(w, HTC_ESCHEMA, i, key, hint, "%s", text);
    while (at < json_array_size(w->recorded) && json_array_get(w->recorded, at) != execution)
        at++;
    snprintf(place, sizeof place, "workflow.execution.tasks[%zu].%s", at, key);
    return htc__flow_refuse(w->r, HTC_ESCHEMA, 0, place, hint, "%s", text);
}

static const char *text_at(const json_t *object, const char *key)
{
    return json_string_value(json_object_get(object, key));
}

static const char *id_of(const json_t *task)
{
    const char *id = text_at(task, "id");
    return id ? id : text_at(task, "name");
}

/* The one that is there of two keys: versions differ in them. */
static const json_t *either(const json_t *object, const char *key, const char *other)
{
    const json_t *value = json_object_get(object, key);
    return value ? value : json_object_get(object, other);
}

/* ---- by id ---- */

static htc_status index_tasks(instance *w)
{
    size_t  i;
    json_t *task;
    json_array_foreach(w->tasks, i, task)
    {
        const char *id = id_of(task), *name = text_at(task, "name");
        if (!id)
            return refuse(w, HTC_ESCHEMA, i, "", "give every task an id", "the task has no id");
        if (json_object_get(w->ids, id))
            return refuse(w, HTC_ESCHEMA, i, "id", "give one of them another id", "two tasks have the id %s",
                          htc__quote(htc_bytes_of(id)).text);
        if (json_object_set(w->ids, id, task) != 0 ||
            (name && json_object_set_new(w->names, name, json_string(id)) != 0))
            return HTC_ENOMEM;
    }
    return HTC_OK;
}

static htc_status put_size(const instance *w, const char *path, size_t i, const json_t *value, uint64_t *out)
{
    int  ok = json_is_number(value) ? htc__flow_scale(json_number_value(value), 1, w->r->o->size_scale, out) : 0;
    char place[160];
    if (ok == 1)
        return HTC_OK;
    snprintf(place, sizeof place, "%.120s[%zu]", path, i);
    return htc__flow_refuse(w->r, HTC_ESCHEMA, 0, place, "a size is a number of bytes",
                            ok == 0 ? "the size of the file is no number, or below 0" : "the file is too large");
}

static htc_status index_files(instance *w, const json_t *files)
{
    size_t  i;
    json_t *file;
    json_array_foreach(files, i, file)
    {
        const char *id = text_at(file, "id");
        uint64_t    bytes = 0;
        htc_status  status =
            put_size(w, "workflow.specification.files", i, json_object_get(file, "sizeInBytes"), &bytes);
        if (status != HTC_OK)
            return status;
        if (!id)
            return htc__flow_refuse(w->r, HTC_ESCHEMA, 0, "workflow.specification.files", "give every file an id",
                                    "file %zu has no id", i);
        if (json_object_set_new(w->files, id, json_integer((json_int_t)bytes)) != 0)
            return HTC_ENOMEM;
    }
    return HTC_OK;
}

static htc_status index_executions(instance *w, const json_t *executions)
{
    size_t  i;
    json_t *execution;
    w->recorded = executions;
    json_array_foreach(executions, i, execution)
    {
        const char *id = text_at(execution, "id");
        if (!id || !json_object_get(w->ids, id))
            return htc__flow_refuse(w->r, HTC_ESCHEMA, 0, "workflow.execution.tasks",
                                    "name a task of the specification by its id", "execution %zu is of no task", i);
        if (json_object_set(w->executions, id, execution) != 0)
            return HTC_ENOMEM;
    }
    return HTC_OK;
}

/* ---- tasks ---- */

/* The program's name without its folders; else what stands before the number in the task's name. kind has room for a name. */
static const char *kind_of(const json_t *task, const json_t *execution, char kind[HTC_FLOW_NAME_MAX + 1])
{
    const char *program = text_at(json_object_get(execution, "command"), "program"),
               *category = text_at(task, "category"), *name = text_at(task, "name");
    const char *slash = program ? strrchr(program, '/') : NULL;
    if (program && program[0])
        return slash && slash[1] ? slash + 1 : program;
    if (category || !name)
        return category;
    const char *number = strrchr(name, '_');
    size_t      n = number && number != name ? (size_t)(number - name) : strlen(name);
    snprintf(kind, HTC_FLOW_NAME_MAX + 1, "%.*s", n > HTC_FLOW_NAME_MAX ? HTC_FLOW_NAME_MAX : (int)n, name);
    return kind;
}

/* 1.5: names of files. */
static htc_status get_files(const instance *w, size_t i, const json_t *task, const char *key, htc__flow_list *out)
{
    size_t  k;
    json_t *name;
    json_array_foreach(json_object_get(task, key), k, name)
    {
        htc_flow_file *file = htc__flow_list_add(w->r->env, out);
        if (!file)
            return HTC_ENOMEM;
        if (!json_is_string(name))
            return refuse(w, HTC_ESCHEMA, i, key, "write the ids of files", "file %zu is no text", k);
        const json_t *bytes = json_object_get(w->files, json_string_value(name));
        *file = (htc_flow_file){ json_string_value(name), (uint64_t)json_integer_value(bytes) };
    }
    return HTC_OK;
}

/* 1.4: files that say themselves what they are. */
static htc_status get_linked_files(const instance *w, size_t i, const json_t *task, htc__flow_list *in,
                                   htc__flow_list *out)
{
    size_t  k;
    json_t *item;
    json_array_foreach(json_object_get(task, "files"), k, item)
    {
        const char *link = text_at(item, "link"), *name = text_at(item, "name");
        int         is_input = link && strcmp(link, "input") == 0;
        uint64_t    bytes = 0;
        if (!name || !link || (!is_input && strcmp(link, "output") != 0))
            return refuse(w, HTC_ESCHEMA, i, "files", "a file has name, link and sizeInBytes",
                          "file %zu has no name, or a link that is neither input nor output", k);
        htc_flow_file *file = htc__flow_list_add(w->r->env, is_input ? in : out);
        if (!file)
            return HTC_ENOMEM;
        const json_t *size = either(item, "sizeInBytes", "size");
        htc_status    status = size ? put_size(w, w->path, i, size, &bytes) : HTC_OK;
        if (status != HTC_OK)
            return status;
        *file = (htc_flow_file){ name, bytes };
    }
    return HTC_OK;
}

static htc_status get_arguments(const instance *w, size_t i, const json_t *execution, htc__flow_list *out)
{
    size_t  k;
    json_t *item;
    json_array_foreach(json_object_get(json_object_get(execution, "command"), "arguments"), k, item)
    {
        const char **word = htc__flow_list_add(w->r->env, out);
        if (!word)
            return HTC_ENOMEM;
        *word = json_string_value(item);
        if (!*word) {
            char text[40];
            snprintf(text, sizeof text, "word %zu is no text", k);
            return refuse_run(w, i, execution, "command.arguments", "write texts", text);
        }
    }
    return HTC_OK;
}

static htc_status get_numbers(const instance *w, size_t i, const json_t *execution, htc_flow_task *task,
                              int *run_is_known)
{
    const json_t *run = either(execution, "runtimeInSeconds", "runtime"),
                 *cores = either(execution, "coreCount", "cores");
    int ok = run && json_is_number(run) ? htc__flow_scale(json_number_value(run), 1e9, w->r->o->time_scale, &task->run)
                                        : !run;
    *run_is_known = run != NULL;
    if (ok != 1)
        return refuse_run(w, i, execution, "runtimeInSeconds", "a run time is a number of seconds",
                          ok == 0 ? "the run time is no number, or below 0" : "the run time is too long");
    if (cores && !(json_is_number(cores) && json_number_value(cores) >= 1 && json_number_value(cores) <= 1e9))
        return refuse_run(w, i, execution, "coreCount", "leave it out if it is not known",
                          "the cores are no number from 1 on");
    if (cores)
        task->cores = (uint32_t)json_number_value(cores);
    return HTC_OK;
}

static htc_status put_task(const instance *w, size_t i, const json_t *json, htc__flow_list *in, htc__flow_list *out,
                           htc__flow_list *args)
{
    htc_flow_task task = HTC_FLOW_TASK_INIT;
    char          kind[HTC_FLOW_NAME_MAX + 1], place[160];
    int           run_is_known = 0;
    uint32_t      id;
    task.name = id_of(json);
    const json_t *execution = w->executions ? json_object_get(w->executions, task.name) : json;
    htc_status    status = get_numbers(w, i, execution, &task, &run_is_known);
    if (status == HTC_OK)
        status = w->executions ? get_files(w, i, json, "inputFiles", in) : get_linked_files(w, i, json, in, out);
    if (status == HTC_OK && w->executions)
        status = get_files(w, i, json, "outputFiles", out);
    if (status == HTC_OK)
        status = get_arguments(w, i, execution, args);
    if (status != HTC_OK)
        return status;
    task.kind = kind_of(json, execution, kind);
    task.in = in->items;
    task.n_in = in->n;
    task.out = out->items;
    task.n_out = out->n;
    task.args = args->items;
    task.n_args = args->n;
    snprintf(place, sizeof place, "%s[%zu]", w->path, i);
    status = htc__flow_replay(w->r, &task, run_is_known, 0, place);
    return status == HTC_OK ? htc__flow_put(w->r, &task, 0, place, &id) : status;
}

static htc_status put_tasks(const instance *w)
{
    htc__flow_list in = { .item = sizeof(htc_flow_file) }, out = in, args = { .item = sizeof(char *) };
    size_t         i;
    json_t        *task;
    htc_status     status = HTC_OK;
    json_array_foreach(w->tasks, i, task)
    {
        in.n = out.n = args.n = 0;
        status = put_task(w, i, task, &in, &out, &args);
        if (status != HTC_OK)
            break;
    }
    htc__flow_list_free(w->r->env, &in);
    htc__flow_list_free(w->r->env, &out);
    htc__flow_list_free(w->r->env, &args);
    return status;
}

/* ---- what they wait for: parents and children both say it ---- */

static htc_status put_edge(const instance *w, size_t i, const char *key, size_t k, const json_t *value)
{
    const char *name = json_string_value(value), *id;
    uint32_t    other, self = (uint32_t)i;
    int         is_parent = key[0] == 'p';
    if (!name)
        return refuse(w, HTC_ESCHEMA, i, key, "write the ids of tasks", "number %zu of %s is no text", k, key);
    id = json_object_get(w->ids, name) ? name : json_string_value(json_object_get(w->names, name));
    if (!id || htc_flow_find(w->r->flow, id, &other) != HTC_OK)
        return refuse(w, HTC_ESCHEMA, i, key, "add a task with this id, or correct it here",
                      "%s names %s, and there is no such task", key, htc__quote(htc_bytes_of(name)).text);
    htc_status status = htc_flow_after(w->r->flow, is_parent ? self : other, is_parent ? other : self, HTC_FLOW_OK);
    if (status == HTC_ECYCLE)
        return refuse(w, status, i, key, "take it out of its own list", "task %s waits for itself",
                      htc__quote(htc_bytes_of(id)).text);
    if (status == HTC_EFULL)
        return refuse(w, HTC_ETOOBIG, i, key, "raise the bound, or split the flow",
                      "there are more dependencies than are allowed");
    return status;
}

static htc_status put_edges(const instance *w)
{
    static const char *const keys[] = { "parents", "children" };
    size_t                   i, k;
    json_t                  *task, *item;
    json_array_foreach(w->tasks, i, task) for (size_t side = 0; side < 2; side++)
    {
        const json_t *list = json_object_get(task, keys[side]);
        if (list && !json_is_array(list))
            return refuse(w, HTC_ESCHEMA, i, keys[side], "write [] if there are none", "%s has to be a list",
                          keys[side]);
        json_array_foreach(list, k, item)
        {
            htc_status status = put_edge(w, i, keys[side], k, item);
            if (status != HTC_OK)
                return status;
        }
    }
    return HTC_OK;
}

/* ---- the document ---- */

static htc_status check_version(htc__flow_reader *r, const json_t *root, int *is_new)
{
    const char *version = text_at(root, "schemaVersion");
    *is_new = version && strcmp(version, "1.5") == 0;
    if (*is_new || (version && strcmp(version, "1.4") == 0))
        return HTC_OK;
    if (!version)
        return htc__flow_refuse(r, HTC_ESCHEMA, 0, "schemaVersion", "write \"schemaVersion\": \"1.5\"",
                                "the document names no version");
    return htc__flow_refuse(r, HTC_EUNSUPPORTED, 0, "schemaVersion", "WfFormat 1.4 and 1.5 are read: convert it",
                            "the version is %s", htc__quote(htc_bytes_of(version)).text);
}

static htc_status read_instance(instance *w, const json_t *workflow, int is_new)
{
    const json_t *specification = json_object_get(workflow, "specification");
    w->path = is_new ? "workflow.specification.tasks" : "workflow.tasks";
    w->tasks = json_object_get(is_new ? specification : workflow, "tasks");
    if (!json_is_array(w->tasks))
        return htc__flow_refuse(w->r, HTC_ESCHEMA, 0, w->path, "is it of the version that it names?",
                                "the document has no list of tasks");
    w->ids = json_object();
    w->names = json_object();
    w->files = json_object();
    w->executions = is_new ? json_object() : NULL;
    htc_status status = w->ids && w->names && w->files && (!is_new || w->executions) ? index_tasks(w) : HTC_ENOMEM;
    if (status == HTC_OK && is_new)
        status = index_files(w, json_object_get(specification, "files"));
    if (status == HTC_OK && is_new)
        status = index_executions(w, json_object_get(json_object_get(workflow, "execution"), "tasks"));
    if (status == HTC_OK)
        status = put_tasks(w);
    if (status == HTC_OK)
        status = put_edges(w);
    json_decref(w->ids);
    json_decref(w->names);
    json_decref(w->files);
    json_decref(w->executions);
    return status;
}

htc_status htc__flow_read_wfcommons(htc__flow_reader *r, const json_t *root)
{
    instance      w = { .r = r };
    const json_t *workflow = json_object_get(root, "workflow");
    int           is_new = 0;
    if (!json_is_object(workflow))
        return htc__flow_refuse(r, HTC_ESCHEMA, 0, "workflow", "is it the right file?", "the document has no workflow");
    htc_status status = check_version(r, root, &is_new);
    return status == HTC_OK ? read_instance(&w, workflow, is_new) : status;
}
