/* One task as bytes and back: the one way a htc_task comes to be.
 *
 *   u32 magic, u64 index, str executable, str values_json,
 *   u8 which of input, output, error, directory, host, architecture, system are there, and those,
 *   where the highest bit of that is set: u8 kind, str function, str argument, and of HTC_TASK_FUNCTION str object; a command has none,
 *   u64 memory_min, limits (12 u64, u32 cores, u8 core_is_set),
 *   counts of args, env, in, out; the strings; a staging is str name, str uri, varint flags,
 *   and of a task that asks for more than a node and its cores: u8 1, varint node_cores, varint member, str container, str devices, str nodes,
 *   count of resources: str name, varint count. "" is none of these. Where that u8 is 2, str credentials */
#include <string.h>

#include "core/netrc.h"
#include "core/url.h"
#include "work/work_private.h"

typedef struct task_block {
    htc_task task; /* first: what the caller holds */
    htc_resource resources[HTC_TASK_RESOURCES_MAX];
    htc_env  env;
    size_t   size;
} task_block;

#define OPTIONAL 7
#define IS_FUNCTION (1u << OPTIONAL)
#define OBJECT_MAX 4095
#define MORE 1 /* what stands before the section of a task that asks for more */
#define MORE_SECRET 2 /* the same, and credentials after it */

static void list_optional(const htc_task *t, const char *out[OPTIONAL])
{
    const char *all[OPTIONAL] = { t->input, t->output, t->error, t->directory, t->host, t->architecture, t->system };
    memcpy(out, all, sizeof all);
}

static void put_limits(htc_buf *b, const htc_limits *l)
{
    const uint64_t all[] = { l->wall,      l->cpu,        l->memory, l->virtual_memory, l->file_size,
                             l->core_size, l->open_files, l->stack,  l->data,           l->processes };
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++)
        htc_put_varint(b, all[i]);
    htc_put_varint(b, l->cores);
    htc_put_u8(b, l->core_is_set ? 1 : 0);
}

static void put_stages(htc_buf *b, const htc_stage *stages, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        htc_put_str(b, stages[i].name);
        htc_put_str(b, stages[i].uri);
        htc_put_varint(b, stages[i].flags);
    }
}

static int name_is_fine(const char *name)
{
    size_t n = name ? strspn(name, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_") : 0;
    return n > 0 && n <= HTC_TASK_FUNCTION_MAX && name[n] == '\0' && (name[0] < '0' || name[0] > '9');
}

static int object_is_fine(const char *object)
{
    return object && strlen(object) <= OBJECT_MAX && (object[0] == '/' || htc__uri_is_upload(htc_bytes_of(object)));
}

const char *htc__function_refuse(const char *object, const char *function, const char *argument)
{
    if (!object_is_fine(object))
        return "the object is no absolute path and no upload (htc:HASH)";
    if (!name_is_fine(function))
        return "the function has no name of letters, digits and _";
    return !argument || strlen(argument) <= HTC_TASK_ARGUMENT_MAX ? NULL : "the argument is too long";
}

static int function_is_fine(const htc_task *t)
{
    if (t->kind == HTC_TASK_COMMAND)
        return !t->function && !t->object && !t->argument;
    if (t->kind == HTC_TASK_FUNCTION)
        return !htc__function_refuse(t->object, t->function, t->argument);
    return t->kind == HTC_TASK_BUILTIN && name_is_fine(t->function) &&
           (!t->argument || strlen(t->argument) <= HTC_TASK_ARGUMENT_MAX) && !t->object;
}

static int task_is_whole(const htc_task *t)
{
    return t && (t->executable || t->kind != HTC_TASK_COMMAND) && function_is_fine(t) && (t->args || !t->n_args) && (t->env || !t->n_env) && (t->in || !t->n_in) &&
           (t->out || !t->n_out) && (t->resources || !t->n_resources) && t->n_resources <= HTC_TASK_RESOURCES_MAX;
}

static int has_more(const htc_task *t)
{
    return t->n_resources || t->node_cores || t->member || t->container || t->devices || t->nodes || t->credentials;
}

static void put_more(htc_buf *b, const htc_task *t)
{
    if (!has_more(t))
        return;
    htc_put_u8(b, t->credentials ? MORE_SECRET : MORE);
    htc_put_varint(b, t->node_cores);
    htc_put_varint(b, t->member);
    htc_put_str(b, t->container ? t->container : "");
    htc_put_str(b, t->devices ? t->devices : "");
    htc_put_str(b, t->nodes ? t->nodes : "");
    htc_put_varint(b, t->n_resources);
    for (uint32_t i = 0; i < t->n_resources; i++) {
        htc_put_str(b, t->resources[i].name);
        htc_put_varint(b, t->resources[i].count);
    }
    if (t->credentials)
        htc_put_str(b, t->credentials);
}

static void put_function(htc_buf *b, const htc_task *t)
{
    if (t->kind == HTC_TASK_COMMAND)
        return;
    htc_put_u8(b, (uint8_t)t->kind);
    htc_put_str(b, t->function);
    htc_put_str(b, t->argument ? t->argument : "");
    if (t->kind == HTC_TASK_FUNCTION)
        htc_put_str(b, t->object);
}

htc_status htc_task_to_bytes(const htc_env *env, const htc_task *task, htc_bytes *out)
{
    const char *optional[OPTIONAL];
    htc_buf     b;
    if (!task_is_whole(task))
        return HTC_EINVAL;
    htc_buf_init(&b, env, 0);
    htc_put_u32(&b, HTC__TASK_MAGIC);
    htc_put_u64(&b, task->index);
    htc_put_str(&b, task->executable ? task->executable : "");
    htc_put_str(&b, task->values_json ? task->values_json : "{}");
    list_optional(task, optional);
    uint8_t there = 0;
    for (unsigned i = 0; i < OPTIONAL; i++)
        there = (uint8_t)(there | (optional[i] ? 1u << i : 0));
    htc_put_u8(&b, (uint8_t)(there | (task->kind == HTC_TASK_COMMAND ? 0 : IS_FUNCTION)));
    for (unsigned i = 0; i < OPTIONAL; i++)
        if (optional[i])
            htc_put_str(&b, optional[i]);
    put_function(&b, task);
    htc_put_varint(&b, task->memory_min);
    put_limits(&b, &task->limits);
    htc_put_varint(&b, task->n_args);
    htc_put_varint(&b, task->n_env);
    htc_put_varint(&b, task->n_in);
    htc_put_varint(&b, task->n_out);
    for (size_t i = 0; i < task->n_args; i++)
        htc_put_str(&b, task->args[i]);
    for (size_t i = 0; i < task->n_env; i++)
        htc_put_str(&b, task->env[i]);
    put_stages(&b, task->in, task->n_in);
    put_stages(&b, task->out, task->n_out);
    put_more(&b, task);
    return htc__take_bytes(env, &b, out);
}

/* Strings are copied behind the arrays. Each was written as a length of at least one byte and its own bytes, so all of
 * them with their ends fit into as many bytes as were read. */
typedef struct task_reader {
    htc_reader r;
    char      *text;
} task_reader;

static const char *get_text(task_reader *d)
{
    htc_bytes s = htc_get_bytes(&d->r);
    char     *copy = d->text;
    if (d->r.status != HTC_OK)
        return "";
    if (s.len && memchr(s.data, 0, s.len)) {
        htc_reader_fail(&d->r);
        return "";
    }
    if (s.len)
        memcpy(copy, s.data, s.len);
    copy[s.len] = '\0';
    d->text += s.len + 1;
    return copy;
}

static void get_limits(htc_reader *r, htc_limits *l)
{
    uint64_t *all[] = { &l->wall,      &l->cpu,        &l->memory, &l->virtual_memory, &l->file_size,
                        &l->core_size, &l->open_files, &l->stack,  &l->data,           &l->processes };
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++)
        *all[i] = htc_get_varint(r);
    uint64_t cores = htc_get_varint(r);
    l->core_is_set = htc_get_u8(r);
    if (cores == 0 || cores > UINT32_MAX || l->core_is_set > 1)
        htc_reader_fail(r);
    l->cores = (uint32_t)cores;
}

static int stage_is_fine(const htc_stage *s, int is_input)
{
    uint32_t  creation = s->flags & (HTC_STAGE_OVERWRITE | HTC_STAGE_APPEND | HTC_STAGE_KEEP);
    htc_bytes uri = htc_bytes_of(s->uri);
    if (!htc__path_stays(htc_bytes_of(s->name)) || s->flags > 31 || creation == 0 || (creation & (creation - 1)) != 0)
        return 0;
    if (htc__uri_is_file(uri) || (is_input && (htc__uri_is_upload(uri) || htc__uri_is_tree(uri) || !htc__url_wrong(uri))))
        return 1;
    return !is_input && (htc__has_scheme(uri) ? !htc__target_wrong(uri, s->flags) : htc__path_stays(uri));
}

static void get_stages(task_reader *d, htc_stage *stages, size_t n, int is_input)
{
    for (size_t i = 0; i < n && d->r.status == HTC_OK; i++) {
        stages[i].name = get_text(d);
        stages[i].uri = get_text(d);
        uint64_t flags = htc_get_varint(&d->r);
        stages[i].flags = flags > 31 ? 32 : (uint32_t)flags;
        if (!stage_is_fine(&stages[i], is_input))
            htc_reader_fail(&d->r);
    }
}

static int env_is_fine(const char *entry)
{
    const char *equals = strchr(entry, '=');
    return equals && equals != entry;
}

static int stream_is_fine(const char *name)
{
    return !name || htc__path_stays(htc_bytes_of(name));
}

static void get_function(task_reader *d, htc_task *t)
{
    t->kind = htc_get_u8(&d->r);
    t->function = get_text(d);
    t->argument = get_text(d);
    t->object = t->kind == HTC_TASK_FUNCTION ? get_text(d) : NULL;
    if (t->kind == HTC_TASK_COMMAND || !function_is_fine(t))
        htc_reader_fail(&d->r);
}

/* What stands before the lists; the strings go to text. */
static void get_head(task_reader *d, htc_task *t)
{
    const char **optional[OPTIONAL] = { &t->input, &t->output,       &t->error, &t->directory,
                                        &t->host,  &t->architecture, &t->system };
    if (htc_get_u32(&d->r) != HTC__TASK_MAGIC)
        htc_reader_fail(&d->r);
    t->index = htc_get_u64(&d->r);
    t->executable = get_text(d);
    t->values_json = get_text(d);
    uint8_t there = htc_get_u8(&d->r);
    for (unsigned i = 0; i < OPTIONAL; i++)
        *optional[i] = there >> i & 1 ? get_text(d) : NULL;
    if (there & IS_FUNCTION)
        get_function(d, t);
    t->memory_min = htc_get_varint(&d->r);
    get_limits(&d->r, &t->limits);
    t->n_args = htc_get_count(&d->r, 1);
    t->n_env = htc_get_count(&d->r, 1);
    t->n_in = htc_get_count(&d->r, 3);
    t->n_out = htc_get_count(&d->r, 3);
    if ((!t->executable[0] && t->kind == HTC_TASK_COMMAND) || !stream_is_fine(t->input) || !stream_is_fine(t->output) ||
        !stream_is_fine(t->error))
        htc_reader_fail(&d->r);
}

static void get_lists(task_reader *d, htc_task *t, char *arrays)
{
    htc_stage   *in = (htc_stage *)(void *)arrays, *out = in + t->n_in;
    const char **args = (const char **)(out + t->n_out), **env = args + t->n_args + 1;
    for (size_t i = 0; i < t->n_args; i++)
        args[i] = get_text(d);
    for (size_t i = 0; i < t->n_env; i++) {
        env[i] = get_text(d);
        if (!env_is_fine(env[i]))
            htc_reader_fail(&d->r);
    }
    get_stages(d, in, t->n_in, 1);
    get_stages(d, out, t->n_out, 0);
    t->args = args;
    t->env = env;
    t->in = in;
    t->out = out;
}

static const char *get_optional(task_reader *d)
{
    const char *text = get_text(d);
    return text[0] ? text : NULL;
}

/* Names with one blank between; 0: it is no such list. */
static uint32_t count_nodes(const char *nodes)
{
    uint32_t n = 0;
    while (*nodes) {
        size_t len = strcspn(nodes, " ");
        if (len == 0 || ++n > HTC_TASK_NODES_MAX)
            return 0;
        nodes += len;
        if (*nodes == ' ' && !*++nodes)
            return 0;
    }
    return n;
}

static int devices_are_fine(const char *devices)
{
    return devices[strspn(devices, "0123456789,")] == '\0' && devices[0] != ',' && !strstr(devices, ",,") && devices[strlen(devices) - 1] != ',';
}

static int more_is_fine(const htc_task *t)
{
    uint32_t cores = t->limits.cores, n = t->nodes ? count_nodes(t->nodes) : 0;
    for (uint32_t i = 0; i < t->n_resources; i++) {
        if (!htc__resource_name_is_fine(t->resources[i].name))
            return 0;
        for (uint32_t k = 0; k < i; k++)
            if (strcmp(t->resources[i].name, t->resources[k].name) == 0)
                return 0;
    }
    if (t->nodes ? n == 0 || t->member >= n : t->member != 0)
        return 0;
    if (t->credentials && htc__netrc_wrong(htc_bytes_of(t->credentials)))
        return 0;
    if (t->node_cores && (t->node_cores >= cores || cores % t->node_cores || cores / t->node_cores > HTC_TASK_NODES_MAX) && !t->nodes)
        return 0;
    return (!t->container || htc__container_is_fine(t->container)) && (!t->devices || devices_are_fine(t->devices));
}

static void get_more(task_reader *d, task_block *block)
{
    htc_task *t = &block->task;
    if (htc_reader_left(&d->r) == 0)
        return;
    int      version = htc_get_u8(&d->r);
    uint64_t node_cores = htc_get_varint(&d->r), member = htc_get_varint(&d->r);
    t->container = get_optional(d);
    t->devices = get_optional(d);
    t->nodes = get_optional(d);
    size_t n = htc_get_count(&d->r, 2);
    if ((version != MORE && version != MORE_SECRET) || node_cores > UINT32_MAX || member > UINT32_MAX || n > HTC_TASK_RESOURCES_MAX) {
        htc_reader_fail(&d->r);
        return;
    }
    t->node_cores = (uint32_t)node_cores;
    t->member = (uint32_t)member;
    for (t->n_resources = 0; t->n_resources < n && d->r.status == HTC_OK; t->n_resources++) {
        htc_resource *r = &block->resources[t->n_resources];
        r->name = get_text(d);
        uint64_t count = htc_get_varint(&d->r);
        if (count == 0 || count > UINT32_MAX)
            htc_reader_fail(&d->r);
        r->count = (uint32_t)count;
    }
    t->resources = block->resources;
    t->credentials = version == MORE_SECRET ? get_text(d) : NULL;
    if (d->r.status == HTC_OK && (!has_more(t) || !more_is_fine(t)))
        htc_reader_fail(&d->r);
}

htc_status htc_task_from_bytes(const htc_env *env, htc_bytes bytes, htc_task **out)
{
    /* Read the head twice: once into a scratch block for its counts, then where it stays. */
    char *scratch = htc__alloc(env, bytes.len + 1);
    if (!scratch)
        return HTC_ENOMEM;
    task_reader first = { htc_reader_of(bytes), scratch };
    htc_task    head = { 0 };
    get_head(&first, &head);
    htc__free(env, scratch, bytes.len + 1);
    if (first.r.status != HTC_OK)
        return HTC_EPROTO;
    size_t      arrays = (head.n_in + head.n_out) * sizeof(htc_stage) + (head.n_args + head.n_env + 2) * sizeof(char *);
    size_t      size = sizeof(task_block) + arrays + bytes.len + 1;
    task_block *block = htc__alloc(env, size);
    if (!block)
        return HTC_ENOMEM;
    if (env)
        block->env = *env;
    block->size = size;
    task_reader d = { htc_reader_of(bytes), (char *)(block + 1) + arrays };
    get_head(&d, &block->task);
    get_lists(&d, &block->task, (char *)(block + 1));
    if (d.r.status == HTC_OK)
        get_more(&d, block);
    if (htc_reader_done(&d.r) != HTC_OK) {
        htc_task_destroy(&block->task);
        return HTC_EPROTO;
    }
    *out = &block->task;
    return HTC_OK;
}

void htc_task_destroy(htc_task *task)
{
    task_block *block = (task_block *)(void *)task;
    if (!block)
        return;
    htc_env env = block->env;
    htc__free(&env, block, block->size);
}
