/* Flows in JSON: one object a line, and what is common to all that is JSON. */
#include "work/flow_json.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static void tell_path(const htc__flow_object *o, const char *key, char out[160])
{
    if (o->list)
        snprintf(out, 160, "%s[%u]%s%s", o->list, o->i, key[0] ? "." : "", key);
    else
        snprintf(out, 160, "%s", key);
}

htc_status htc__flow_object_refuse(const htc__flow_object *o, htc_status status, const char *key, const char *hint,
                                   const char *format, ...)
{
    char    text[sizeof o->r->error->text], path[160];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    tell_path(o, key, path);
    return htc__flow_refuse(o->r, status, o->line, path, hint, "%s", text);
}

/* ---- values ---- */

static const char *type_of(const json_t *value)
{
    switch (json_typeof(value)) {
    case JSON_OBJECT:
        return "an object";
    case JSON_ARRAY:
        return "a list";
    case JSON_STRING:
        return "a text";
    case JSON_INTEGER:
    case JSON_REAL:
        return "a number";
    case JSON_TRUE:
    case JSON_FALSE:
        return "true or false";
    case JSON_NULL:
        break;
    }
    return "null";
}

static htc_status refuse_type(const htc__flow_object *o, const char *key, const json_t *value, const char *wanted)
{
    return htc__flow_object_refuse(o, HTC_ESCHEMA, key, "doc/flows.md lists what each key takes",
                                   "%s has to be %s, not %s", key, wanted, type_of(value));
}

static htc_status get_text(const htc__flow_object *o, const char *key, const json_t *value, const char **out)
{
    if (!json_is_string(value))
        return refuse_type(o, key, value, "a text");
    *out = json_string_value(value);
    return HTC_OK;
}

static htc_status get_count(const htc__flow_object *o, const char *key, const json_t *value, uint64_t max,
                            uint64_t *out)
{
    json_int_t n = json_integer_value(value);
    if (!json_is_integer(value))
        return refuse_type(o, key, value, "a whole number");
    if (n < 1 || (uint64_t)n > max)
        return htc__flow_object_refuse(o, HTC_ESCHEMA, key, "leave it out to have the default",
                                       "%s is %lld, and has to be 1 to %llu", key, (long long)n,
                                       (unsigned long long)max);
    *out = (uint64_t)n;
    return HTC_OK;
}

/* A number of seconds, or text with a unit. */
static htc_status get_time(const htc__flow_object *o, const char *key, const json_t *value, uint64_t *out)
{
    int ok = 0;
    if (json_is_string(value))
        ok = htc__flow_time_parse(htc_bytes_of(json_string_value(value)), out);
    else if (json_is_number(value))
        ok = htc__flow_scale(json_number_value(value), 1e9, 1, out);
    else
        return refuse_type(o, key, value, "a time");
    if (ok != 1)
        return htc__flow_object_refuse(o, HTC_ESCHEMA, key,
                                       "write seconds, as 90 or 2.5, or text with a unit, as \"10m\"",
                                       ok == 0 ? "%s is no time, or one below 0" : "%s is too long", key);
    return HTC_OK;
}

static htc_status get_size(const htc__flow_object *o, const char *key, const json_t *value, uint64_t *out)
{
    int ok = 0;
    if (json_is_string(value))
        ok = htc__flow_size_parse(htc_bytes_of(json_string_value(value)), out);
    else if (json_is_integer(value) && json_integer_value(value) >= 0)
        *out = (uint64_t)json_integer_value(value), ok = 1;
    else if (!json_is_number(value))
        return refuse_type(o, key, value, "a size");
    if (ok != 1)
        return htc__flow_object_refuse(o, HTC_ESCHEMA, key, "write bytes, or text with a unit, as \"2G\"",
                                       ok == 0 ? "%s is no size, or one below 0" : "%s is too large", key);
    return HTC_OK;
}

static htc_status get_words(const htc__flow_object *o, const char *key, const json_t *value, htc__flow_list *list)
{
    size_t  i;
    json_t *item;
    if (!json_is_array(value))
        return refuse_type(o, key, value, "a list of texts");
    json_array_foreach(value, i, item)
    {
        char         path[64];
        const char **word = htc__flow_list_add(o->r->env, list);
        if (!word)
            return HTC_ENOMEM;
        snprintf(path, sizeof path, "%.40s[%zu]", key, i);
        htc_status status = get_text(o, path, item, word);
        if (status != HTC_OK)
            return status;
    }
    return HTC_OK;
}

htc_status htc__flow_key_name(htc__flow_object *o, const char *key, const json_t *value)
{
    return get_text(o, key, value, &o->task.name);
}

htc_status htc__flow_key_executable(htc__flow_object *o, const char *key, const json_t *value)
{
    return get_text(o, key, value, &o->task.executable);
}

htc_status htc__flow_key_args(htc__flow_object *o, const char *key, const json_t *value)
{
    return get_words(o, key, value, &o->args);
}

htc_status htc__flow_key_cores(htc__flow_object *o, const char *key, const json_t *value)
{
    uint64_t   n = 0;
    htc_status status = get_count(o, key, value, UINT32_MAX, &n);
    o->task.cores = (uint32_t)n;
    return status;
}

htc_status htc__flow_key_wall(htc__flow_object *o, const char *key, const json_t *value)
{
    return get_time(o, key, value, &o->task.wall);
}

htc_status htc__flow_key_later(htc__flow_object *o, const char *key, const json_t *value)
{
    (void)o;
    (void)key;
    (void)value;
    return HTC_OK;
}

/* {"NAME": "value"}, or ["NAME=value"]. While the texts grow the list has where they begin; they are put in its place at the end. */
htc_status htc__flow_key_env(htc__flow_object *o, const char *key, const json_t *value)
{
    const char *name;
    json_t     *item;
    if (json_is_array(value))
        return get_words(o, key, value, &o->env);
    if (!json_is_object(value))
        return refuse_type(o, key, value, "an object of texts");
    json_object_foreach((json_t *)(uintptr_t)value, name, item)
    {
        char        path[64];
        size_t     *at = htc__flow_list_add(o->r->env, &o->env);
        const char *text = NULL;
        if (!at)
            return HTC_ENOMEM;
        snprintf(path, sizeof path, "%.8s.%.40s", key, name);
        htc_status status = get_text(o, path, item, &text);
        if (status != HTC_OK)
            return status;
        if (!name[0] || strchr(name, '='))
            return htc__flow_object_refuse(o, HTC_ESCHEMA, path,
                                           "a name has one byte or more, and no =", "%s is no name of a variable",
                                           htc__quote(htc_bytes_of(name)).text);
        *at = o->text.len;
        htc_put_text(&o->text, "%s=", name);
        htc_put_raw(&o->text, (htc_bytes){ text, strlen(text) + 1 });
    }
    if (o->text.status != HTC_OK)
        return o->text.status == HTC_EFULL
                   ? htc__flow_object_refuse(o, HTC_ETOOBIG, key, "put them into a file", "the variables are too long")
                   : o->text.status;
    for (size_t i = 0; i < o->env.n; i++) {
        size_t at = ((size_t *)o->env.items)[i];
        ((const char **)o->env.items)[i] = (const char *)o->text.data + at;
    }
    return HTC_OK;
}

_Static_assert(sizeof(size_t) == sizeof(char *), "where a text begins fits where its address goes");

static htc_status key_kind(htc__flow_object *o, const char *key, const json_t *value)
{
    return get_text(o, key, value, &o->task.kind);
}

static htc_status key_command(htc__flow_object *o, const char *key, const json_t *value)
{
    htc_status status = get_words(o, key, value, &o->args);
    if (status == HTC_OK && o->args.n == 0)
        status = htc__flow_object_refuse(o, HTC_ESCHEMA, key, "write [\"program\", \"word\", ...]", "%s is empty", key);
    return status;
}

static htc_status key_builtin(htc__flow_object *o, const char *key, const json_t *value)
{
    const char *name = "";
    htc_status  status = get_text(o, key, value, &name);
    int         builtin = htc__flow_builtin_of(htc_bytes_of(name));
    if (status == HTC_OK && builtin < 0)
        return htc__flow_object_refuse(o, HTC_ESCHEMA, key, "builtins are noop, sleep, spin, read, write and intake",
                                       "there is no builtin %s", htc__quote(htc_bytes_of(name)).text);
    o->task.builtin = builtin > 0 ? (uint32_t)builtin : 0;
    return status;
}

/* What it means is known when the builtin is. */
static htc_status key_amount(htc__flow_object *o, const char *key, const json_t *value)
{
    const char *builtin = json_string_value(json_object_get(o->json, "builtin"));
    int         is_size = builtin && htc__flow_is_size((uint32_t)htc__flow_builtin_of(htc_bytes_of(builtin)));
    return is_size ? get_size(o, key, value, &o->task.amount) : get_time(o, key, value, &o->task.amount);
}

static htc_status key_object(htc__flow_object *o, const char *key, const json_t *value)
{
    return get_text(o, key, value, &o->task.object);
}

static htc_status key_function(htc__flow_object *o, const char *key, const json_t *value)
{
    return get_text(o, key, value, &o->task.function);
}

static htc_status key_argument(htc__flow_object *o, const char *key, const json_t *value)
{
    return get_text(o, key, value, &o->task.argument);
}

static htc_status key_adds(htc__flow_object *o, const char *key, const json_t *value)
{
    htc_status status = get_text(o, key, value, &o->adds);
    o->task.adds = status == HTC_OK;
    return status;
}

/* When it is known what the task is. */
static htc_status check_adds(htc__flow_object *o)
{
    uint32_t builtin = o->task.builtin;
    if (!o->task.adds || htc__flow_adds_is(builtin, o->adds))
        return HTC_OK;
    return htc__flow_object_refuse(
        o, HTC_ESCHEMA, "adds",
        builtin == HTC_FLOW_CALL ?
            "write \"adds\": \"output\": what the function appends to its output is then tasks, written as here" :
            "write \"adds\": \"stdout\": what the command prints is then tasks, written as here",
        "%s is not %s", htc__quote(htc_bytes_of(o->adds)).text, htc__flow_adds_word(builtin));
}

static htc_status key_memory(htc__flow_object *o, const char *key, const json_t *value)
{
    return get_size(o, key, value, &o->task.memory);
}

static htc_status key_run(htc__flow_object *o, const char *key, const json_t *value)
{
    return get_time(o, key, value, &o->task.run);
}

static htc_status key_count(htc__flow_object *o, const char *key, const json_t *value)
{
    return get_count(o, key, value, HTC_FLOW_TOTAL_MAX, &o->task.count);
}

/* "name", or {"name": "name", "bytes": 123}. */
static htc_status get_file(const htc__flow_object *o, const char *key, const json_t *value, htc_flow_file *out)
{
    const char *member;
    json_t     *item;
    htc_status  status = HTC_OK;
    if (json_is_string(value)) {
        out->name = json_string_value(value);
        return HTC_OK;
    }
    if (!json_is_object(value))
        return refuse_type(o, key, value, "a text or an object");
    json_object_foreach((json_t *)(uintptr_t)value, member, item)
    {
        char path[64];
        snprintf(path, sizeof path, "%.30s.%.30s", key, member);
        if (strcmp(member, "name") == 0)
            status = get_text(o, path, item, &out->name);
        else if (strcmp(member, "bytes") == 0)
            status = get_size(o, path, item, &out->bytes);
        else
            status = htc__flow_object_refuse(o, HTC_ESCHEMA, path, "a file has name and bytes", "there is no %s",
                                             htc__quote(htc_bytes_of(member)).text);
        if (status != HTC_OK)
            return status;
    }
    return out->name
               ? HTC_OK
               : htc__flow_object_refuse(o, HTC_ESCHEMA, key, "a file has name and bytes", "the file has no name");
}

static htc_status get_files(htc__flow_object *o, const char *key, const json_t *value, htc__flow_list *list)
{
    size_t  i;
    json_t *item;
    if (!json_is_array(value))
        return refuse_type(o, key, value, "a list of files");
    json_array_foreach(value, i, item)
    {
        char           path[64];
        htc_flow_file *file = htc__flow_list_add(o->r->env, list);
        if (!file)
            return HTC_ENOMEM;
        snprintf(path, sizeof path, "%.30s[%zu]", key, i);
        htc_status status = get_file(o, path, item, file);
        if (status != HTC_OK)
            return status;
    }
    return HTC_OK;
}

static htc_status key_in(htc__flow_object *o, const char *key, const json_t *value)
{
    return get_files(o, key, value, &o->in);
}

static htc_status key_out(htc__flow_object *o, const char *key, const json_t *value)
{
    return get_files(o, key, value, &o->out);
}

/* ---- a task ---- */

/* "name", or {"task": "name", "rule": "failed"}. */
static htc_status put_parent(htc__flow_object *o, uint32_t child, const json_t *value, uint32_t k)
{
    char        path[32];
    const char *name = NULL;
    int         rule = HTC_FLOW_OK;
    size_t      members = 1;
    htc_status  status = HTC_OK;
    snprintf(path, sizeof path, "after[%u]", k);
    if (json_is_object(value)) {
        const json_t *task = json_object_get(value, "task"), *word = json_object_get(value, "rule");
        members = word ? 2 : 1;
        rule = word ? htc__flow_rule_of(htc_bytes_of(json_string_value(word))) : HTC_FLOW_OK;
        if (!task || rule < 0 || json_object_size(value) != members)
            return htc__flow_object_refuse(o, HTC_ESCHEMA, path,
                                           "write {\"task\": \"NAME\", \"rule\": \"ok\"}, or any, or failed",
                                           "this is no task and rule to wait for");
        value = task;
    }
    status = get_text(o, path, value, &name);
    if (status != HTC_OK)
        return status;
    return htc__flow_put_after(o->r, child, htc_bytes_of(name), (uint32_t)rule, o->line, o->list, o->i, k);
}

static htc_status put_parents(htc__flow_object *o, uint32_t child)
{
    const json_t *after = json_object_get(o->json, "after");
    size_t        k;
    json_t       *item;
    if (!after)
        return HTC_OK;
    if (!json_is_array(after))
        return refuse_type(o, "after", after, "a list of names");
    json_array_foreach(after, k, item)
    {
        htc_status status = put_parent(o, child, item, (uint32_t)k);
        if (status != HTC_OK)
            return status;
    }
    return HTC_OK;
}

static htc_status read_key(htc__flow_object *o, const htc__flow_key *keys, size_t n, const char *hint, const char *key,
                           const json_t *value)
{
    for (size_t i = 0; i < n; i++)
        if (strcmp(keys[i].name, key) == 0)
            return keys[i].read(o, key, value);
    return htc__flow_object_refuse(o, HTC_ESCHEMA, "", hint, "there is no key %s", htc__quote(htc_bytes_of(key)).text);
}

static htc_status read_keys(htc__flow_object *o, const htc__flow_key *keys, size_t n, const char *hint,
                            const char *name)
{
    const char *key;
    json_t     *value;
    char        path[160];
    uint32_t    id;
    if (!json_is_object(o->json))
        return htc__flow_object_refuse(o, HTC_ESCHEMA, "", "write {...}", "a task has to be an object, not %s",
                                       type_of(o->json));
    if (name && !json_object_get(o->json, name))
        return htc__flow_object_refuse(o, HTC_ESCHEMA, "", "every task has one", "the task has no %s", name);
    json_object_foreach(o->json, key, value)
    {
        htc_status status = read_key(o, keys, n, hint, key, value);
        if (status != HTC_OK)
            return status;
    }
    htc_flow_task *t = &o->task;
    const char   **args = o->args.items;
    size_t         used = !t->executable && o->args.n ? 1 : 0; /* of a command the first word is the program */
    if (used)
        t->executable = args[0];
    t->args = o->args.n > used ? args + used : NULL;
    t->n_args = o->args.n - used;
    t->env = o->env.items;
    t->n_env = o->env.n;
    t->in = o->in.items;
    t->n_in = o->in.n;
    t->out = o->out.items;
    t->n_out = o->out.n;
    if (t->builtin == HTC_FLOW_PROGRAM && t->object && !t->executable)
        t->builtin = HTC_FLOW_CALL;
    tell_path(o, "", path);
    htc_status status = check_adds(o);
    if (status == HTC_OK)
        status = htc__flow_put(o->r, t, o->line, o->list ? path : NULL, &id);
    return status == HTC_OK ? put_parents(o, id) : status;
}

htc_status htc__flow_object_read(htc__flow_object *o, const htc__flow_key *keys, size_t n, const char *hint,
                                 const char *name)
{
    o->args = o->env = (htc__flow_list){ .item = sizeof(char *) };
    o->in = o->out = (htc__flow_list){ .item = sizeof(htc_flow_file) };
    o->task = (htc_flow_task)HTC_FLOW_TASK_INIT;
    htc_buf_init(&o->text, o->r->env, HTC_TASK_TEXTS_MAX);
    htc_status status = read_keys(o, keys, n, hint, name);
    htc_buf_free(&o->text);
    htc__flow_list_free(o->r->env, &o->args);
    htc__flow_list_free(o->r->env, &o->env);
    htc__flow_list_free(o->r->env, &o->in);
    htc__flow_list_free(o->r->env, &o->out);
    return status;
}

/* ---- one object a line ---- */

static const htc__flow_key line_keys[] = {
    { "name", htc__flow_key_name },
    { "kind", key_kind },
    { "command", key_command },
    { "builtin", key_builtin },
    { "amount", key_amount },
    { "object", key_object },
    { "function", key_function },
    { "argument", key_argument },
    { "cores", htc__flow_key_cores },
    { "memory", key_memory },
    { "time", htc__flow_key_wall },
    { "run", key_run },
    { "count", key_count },
    { "env", htc__flow_key_env },
    { "adds", key_adds },
    { "in", key_in },
    { "out", key_out },
    { "after", htc__flow_key_later },
};

#define LINE_KEYS_HINT                                                                                                 \
    "keys are name, command, builtin, amount, object, function, argument, after, cores, memory, time, in, out, env, adds, kind, run, " \
    "count"

static htc_status read_line(htc__flow_reader *r, htc_bytes text, uint32_t line)
{
    json_error_t e;
    json_t      *json = json_loadb(text.data, text.len, JSON_REJECT_DUPLICATES | JSON_DECODE_ANY, &e);
    if (!json && json_error_code(&e) == json_error_out_of_memory)
        return HTC_ENOMEM;
    if (!json) {
        htc__flow_refuse(r, HTC_EJSON, line, "", "each line is one JSON object", "%s", e.text);
        r->error->column = e.column > 0 ? (uint32_t)e.column : 0;
        return HTC_EJSON;
    }
    htc__flow_object o = { .r = r, .json = json, .line = line };
    htc_status       status =
        htc__flow_object_read(&o, line_keys, sizeof line_keys / sizeof *line_keys, LINE_KEYS_HINT, NULL);
    json_decref(json);
    return status;
}

htc_status htc__flow_read_jsonl(htc__flow_reader *r)
{
    const char *p = r->bytes.data, *end = r->bytes.len ? p + r->bytes.len : p;
    for (uint32_t line = 1; p < end; line++) {
        const char *newline = memchr(p, '\n', (size_t)(end - p));
        htc_bytes   text = htc__trim((htc_bytes){ p, newline ? (size_t)(newline - p) : (size_t)(end - p) });
        htc_status  status = text.len ? read_line(r, text, line) : HTC_OK;
        if (status != HTC_OK)
            return status;
        p = newline ? newline + 1 : end;
    }
    return HTC_OK;
}
