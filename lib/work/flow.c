/* A flow in memory: tasks as they are lent, their texts in pieces, a table of names, dependencies as they came in and, after a check, in
 * order. */
#include "htcsched/flow.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "work/flow_private.h"

#define TASKS_MAX     (UINT32_C(1) << 24)
#define EDGES_MAX     (UINT32_C(1) << 26)
#define TEXTS_MAX     ((size_t)2 << 30)
#define PIECE         ((size_t)64 << 10)
#define FIELD_MAX     (UINT64_C(1) << 63)
#define FILE_MAX      4095u
#define PROBES_MAX    256u /* in the table of names: more are no accident */
#define SCATTERED_MAX 32u

void htc_flow_options_init(htc_flow_options *options, size_t size)
{
    htc__options_init(options, size);
}

void htc_flow_task_init(htc_flow_task *task, size_t size)
{
    htc__options_init(task, size);
}

htc_status htc_flow_create(const htc_env *env, const htc_flow_options *options, htc_flow **out)
{
    htc_flow_options o = HTC_FLOW_OPTIONS_INIT;
    htc_status       status = htc__options_copy(&o, sizeof o, options, options ? options->size : 0, sizeof o.size);
    if (status != HTC_OK)
        return status;
    if (!out || o.tasks_max > HTC_FLOW_TASKS_MAX || o.edges_max > HTC_FLOW_EDGES_MAX)
        return HTC_EINVAL;
    htc_flow *f = htc__alloc(env, sizeof *f);
    if (!f)
        return HTC_ENOMEM;
    f->env = env;
    f->tasks_max = o.tasks_max ? o.tasks_max : TASKS_MAX;
    f->edges_max = o.edges_max ? o.edges_max : EDGES_MAX;
    f->texts_max = o.texts_max ? o.texts_max : TEXTS_MAX;
    f->seed = env && env->rng ? htc_rng_fork(env->rng, "names of a flow").state : 1;
    *out = f;
    return HTC_OK;
}

/* ---- texts ---- */

static void drop_piece(htc_flow *f)
{
    htc__flow_piece *p = f->last;
    f->last = p->before;
    f->texts -= p->size;
    htc__free(f->env, p, sizeof *p + p->size);
}

/* Memory that lives as long as the flow; NULL, and *status says why. */
static void *take(htc_flow *f, size_t size, htc_status *status)
{
    size = (size + sizeof(void *) - 1) / sizeof(void *) * sizeof(void *);
    if (!f->last || f->last->size - f->last->used < size) {
        size_t room = size > PIECE / 4 ? size : PIECE;
        if (room > f->texts_max - f->texts)
            room = size;
        if (room > f->texts_max - f->texts) {
            *status = HTC_EFULL;
            return NULL;
        }
        htc__flow_piece *p = htc__alloc_raw(f->env, sizeof *p + room);
        if (!p) {
            *status = HTC_ENOMEM;
            return NULL;
        }
        *p = (htc__flow_piece){ .before = f->last, .size = room };
        f->texts += room;
        f->last = p;
    }
    void *memory = f->last->bytes + f->last->used;
    f->last->used += size;
    return memory;
}

static const char *keep(htc_flow *f, const char *text, htc_status *status)
{
    size_t n = strlen(text) + 1;
    char  *copy = *status == HTC_OK ? take(f, n, status) : NULL;
    if (copy)
        memcpy(copy, text, n);
    return copy;
}

/* The same, but that the text of the task before is taken again: kinds and programs repeat. */
static const char *keep_again(htc_flow *f, const char *text, const char *before, htc_status *status)
{
    if (!text)
        return NULL;
    return before && strcmp(text, before) == 0 ? before : keep(f, text, status);
}

static const char *const *keep_words(htc_flow *f, const char *const *words, size_t n, htc_status *status)
{
    const char **list = n && *status == HTC_OK ? take(f, n * sizeof *list, status) : NULL;
    for (size_t i = 0; list && i < n; i++)
        list[i] = keep(f, words[i], status);
    return list;
}

static const htc_flow_file *keep_files(htc_flow *f, const htc_flow_file *files, size_t n, htc_status *status)
{
    htc_flow_file *list = n && *status == HTC_OK ? take(f, n * sizeof *list, status) : NULL;
    for (size_t i = 0; list && i < n; i++)
        list[i] = (htc_flow_file){ keep(f, files[i].name, status), files[i].bytes };
    return list;
}

/* ---- the table of names ---- */

static size_t slot_of(const htc_flow *f, const char *name)
{
    return (size_t)htc_hash64(htc_bytes_of(name), f->seed) & (f->table_size - 1);
}

/* Where the name stands, or the free slot where it would; *probes slots were looked at. */
static size_t find_slot(const htc_flow *f, const char *name, uint32_t *probes)
{
    size_t at = slot_of(f, name);
    for (*probes = 1; f->table[at] && strcmp(f->tasks[f->table[at] - 1].name, name) != 0; ++*probes)
        at = (at + 1) & (f->table_size - 1);
    return at;
}

static void fill_table(htc_flow *f)
{
    for (uint32_t id = 0; id < f->n; id++) {
        size_t at = slot_of(f, f->tasks[id].name);
        while (f->table[at])
            at = (at + 1) & (f->table_size - 1);
        f->table[at] = id + 1;
    }
}

/* Room for one more name, with half of the table free. */
static htc_status reserve_name(htc_flow *f)
{
    size_t size = f->table_size ? f->table_size * 2 : 64;
    if (f->n < f->table_size / 2)
        return HTC_OK;
    uint32_t *table = htc__alloc(f->env, size * sizeof *table);
    if (!table)
        return HTC_ENOMEM;
    htc__free(f->env, f->table, f->table_size * sizeof *table);
    f->table = table;
    f->table_size = size;
    fill_table(f);
    return HTC_OK;
}

/* Names that were made to meet in the table meet no longer under another seed. */
static void scatter(htc_flow *f, uint32_t probes)
{
    if (probes < PROBES_MAX || f->scattered >= SCATTERED_MAX)
        return;
    f->scattered++;
    f->seed++;
    memset(f->table, 0, f->table_size * sizeof *f->table);
    fill_table(f);
}

htc_status htc_flow_find(const htc_flow *flow, const char *name, uint32_t *id)
{
    uint32_t probes;
    if (!flow || !name || !id)
        return HTC_EINVAL;
    uint32_t found = flow->table ? flow->table[find_slot(flow, name, &probes)] : 0;
    if (!found)
        return HTC_ENOTFOUND;
    *id = found - 1;
    return HTC_OK;
}

/* ---- tasks ---- */

int htc__flow_name_is_fine(const char *text, size_t max)
{
    size_t n = strlen(text);
    for (size_t i = 0, c; i < n; i += c)
        if ((c = htc_text_shown(text + i, n - i)) == 0)
            return 0;
    return n > 0 && n <= max;
}

static int is_utf8(const char *text)
{
    size_t n = strlen(text);
    for (size_t i = 0, c; i < n; i += c)
        if ((c = htc__utf8_len(text + i, n - i)) == 0)
            return 0;
    return 1;
}

static htc_status refuse_words(const char *what, const char *const *words, size_t n, int is_env, size_t *bytes,
                               htc_error *error)
{
    if (n > HTC__FLOW_WORDS_MAX || (n && !words))
        return htc__refuse(error, HTC_EINVAL, 0, what, "there are %zu %s, more than %u", n, what, HTC__FLOW_WORDS_MAX);
    for (size_t i = 0; i < n; i++) {
        if (!words[i] || !is_utf8(words[i]))
            return htc__refuse(error, HTC_EINVAL, 0, what, "word %zu of %s is not UTF-8", i + 1, what);
        if (is_env && (!strchr(words[i], '=') || words[i][0] == '='))
            return htc__refuse(error, HTC_EINVAL, 0, what, "%s is not NAME=value",
                               htc__quote(htc_bytes_of(words[i])).text);
        *bytes += strlen(words[i]) + 1;
    }
    return HTC_OK;
}

static htc_status refuse_files(const char *what, const htc_flow_file *files, size_t n, size_t *bytes, htc_error *error)
{
    if (n > HTC__FLOW_WORDS_MAX || (n && !files))
        return htc__refuse(error, HTC_EINVAL, 0, what, "there are %zu files in %s, more than %u", n, what,
                           HTC__FLOW_WORDS_MAX);
    for (size_t i = 0; i < n; i++) {
        if (!files[i].name || !htc__flow_name_is_fine(files[i].name, FILE_MAX))
            return htc__refuse(error, HTC_EINVAL, 0, what,
                               "the name of file %zu is not 1 to %u bytes without control characters", i + 1, FILE_MAX);
        if (files[i].bytes >= FIELD_MAX)
            return htc__refuse(error, HTC_EINVAL, 0, what, "the size of file %s is too large",
                               htc__quote(htc_bytes_of(files[i].name)).text);
        *bytes += strlen(files[i].name) + 1;
    }
    return HTC_OK;
}

/* The next ones are named after it, with a number. */
#define INTAKE_NAME_MAX 40
#define INTAKE_NAME     "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.-"

static htc_status refuse_what_it_does(const htc_flow_task *t, htc_error *error)
{
    const char *wrong = t->builtin == HTC_FLOW_CALL ? htc__function_refuse(t->object, t->function, t->argument) : NULL;
    if (t->builtin > HTC_FLOW_INTAKE)
        return htc__refuse(error, HTC_EINVAL, 0, "builtin", "there is no builtin %u", t->builtin);
    if (!t->executable && t->builtin == HTC_FLOW_PROGRAM)
        return htc__refuse(error, HTC_EINVAL, 0, "executable", "the task has no program and no builtin");
    if (t->builtin != HTC_FLOW_PROGRAM && (t->executable || t->n_args))
        return htc__refuse(error, HTC_EINVAL, 0, "builtin", "a builtin takes no program and no words");
    if (t->executable && (!t->executable[0] || !is_utf8(t->executable) || strlen(t->executable) > HTC_TASK_WORD_MAX))
        return htc__refuse(error, HTC_EINVAL, 0, "executable", "the program is no UTF-8 text, empty, or too long");
    if (wrong)
        return htc__refuse(error, HTC_EINVAL, 0, "function", "%s", wrong);
    if (t->builtin != HTC_FLOW_CALL && (t->object || t->function || t->argument))
        return htc__refuse(error, HTC_EINVAL, 0, "function", "only a call has an object, a function or an argument");
    if ((t->object && !is_utf8(t->object)) || (t->argument && !is_utf8(t->argument)))
        return htc__refuse(error, HTC_EINVAL, 0, "function", "the object or the argument is no UTF-8 text");
    if (t->adds > 1 || (t->adds && t->builtin != HTC_FLOW_PROGRAM && t->builtin != HTC_FLOW_CALL))
        return htc__refuse(error, HTC_EINVAL, 0, "adds", "only a program or a function of an object adds tasks to its flow");
    if (t->builtin == HTC_FLOW_INTAKE && (t->count > 1 || t->n_in || t->n_out))
        return htc__refuse(error, HTC_EINVAL, 0, "builtin", "an intake has no count and no files");
    if (t->builtin == HTC_FLOW_INTAKE && t->name && (strlen(t->name) > INTAKE_NAME_MAX || t->name[strspn(t->name, INTAKE_NAME)]))
        return htc__refuse(error, HTC_EINVAL, 0, "name", "an intake's name has letters, digits, _ - and ., %d at most", INTAKE_NAME_MAX);
    if (t->amount && t->builtin != HTC_FLOW_SLEEP && t->builtin != HTC_FLOW_SPIN && t->builtin != HTC_FLOW_READ && t->builtin != HTC_FLOW_WRITE)
        return htc__refuse(error, HTC_EINVAL, 0, "amount", "only sleep, spin, read and write have an amount");
    return HTC_OK;
}

static htc_status refuse_numbers(const htc_flow_task *t, htc_error *error)
{
    const struct {
        const char *what;
        uint64_t    value, max;
    } numbers[] = {
        { "amount", t->amount, FIELD_MAX - 1 },    { "memory", t->memory, FIELD_MAX - 1 },
        { "wall", t->wall, FIELD_MAX - 1 },        { "run", t->run, FIELD_MAX - 1 },
        { "count", t->count, HTC_FLOW_TOTAL_MAX },
    };
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
        if (numbers[i].value > numbers[i].max)
            return htc__refuse(error, HTC_EINVAL, 0, numbers[i].what, "%s is too large: %llu, at most %llu",
                               numbers[i].what, (unsigned long long)numbers[i].value,
                               (unsigned long long)numbers[i].max);
    return HTC_OK;
}

static htc_status refuse_task(const htc_flow_task *t, htc_error *error)
{
    size_t     bytes = t->executable ? strlen(t->executable) + 1 : 0;
    htc_status status = refuse_what_it_does(t, error);
    if (status == HTC_OK && t->name && !htc__flow_name_is_fine(t->name, HTC_FLOW_NAME_MAX))
        status = htc__refuse(error, HTC_EINVAL, 0, "name",
                             "the name %s is not 1 to %d bytes of UTF-8 without control characters",
                             htc__quote(htc_bytes_of(t->name)).text, HTC_FLOW_NAME_MAX);
    if (status == HTC_OK && t->kind && !htc__flow_name_is_fine(t->kind, HTC_FLOW_NAME_MAX))
        status = htc__refuse(error, HTC_EINVAL, 0, "kind",
                             "the kind %s is not 1 to %d bytes of UTF-8 without control characters",
                             htc__quote(htc_bytes_of(t->kind)).text, HTC_FLOW_NAME_MAX);
    if (status == HTC_OK)
        status = refuse_numbers(t, error);
    if (status == HTC_OK)
        status = refuse_words("args", t->args, t->n_args, 0, &bytes, error);
    if (status == HTC_OK)
        status = refuse_words("env", t->env, t->n_env, 1, &bytes, error);
    if (status == HTC_OK)
        status = refuse_files("in", t->in, t->n_in, &bytes, error);
    if (status == HTC_OK)
        status = refuse_files("out", t->out, t->n_out, &bytes, error);
    if (status == HTC_OK && bytes > HTC_TASK_TEXTS_MAX)
        status = htc__refuse(error, HTC_ETOOBIG, 0, "", "the task's words and files have %zu bytes, more than %zu",
                             bytes, HTC_TASK_TEXTS_MAX);
    return status;
}

/* Room for one more task. */
static htc_status reserve_task(htc_flow *f)
{
    if (f->n == f->first_cap) {
        size_t    cap = f->first_cap ? f->first_cap * (size_t)2 : 16;
        uint64_t *first = htc__resize_raw(f->env, f->first, f->first_cap * sizeof *first, cap * sizeof *first);
        if (!first)
            return HTC_ENOMEM;
        f->first = first;
        f->first_cap = (uint32_t)cap;
    }
    if (f->n == f->cap) {
        size_t         cap = f->cap ? f->cap * (size_t)2 : 16;
        htc_flow_task *tasks = htc__resize_raw(f->env, f->tasks, f->cap * sizeof *tasks, cap * sizeof *tasks);
        if (!tasks)
            return HTC_ENOMEM;
        f->tasks = tasks;
        f->cap = (uint32_t)cap;
    }
    return HTC_OK;
}

static htc_status copy_task(htc_flow *f, htc_flow_task *t)
{
    const htc_flow_task *before = f->n ? &f->tasks[f->n - 1] : NULL;
    htc_status           status = HTC_OK;
    t->size = sizeof *t;
    t->name = keep(f, t->name, &status);
    t->kind = keep_again(f, t->kind, before ? before->kind : NULL, &status);
    t->executable = keep_again(f, t->executable, before ? before->executable : NULL, &status);
    t->object = keep_again(f, t->object, before ? before->object : NULL, &status);
    t->function = keep_again(f, t->function, before ? before->function : NULL, &status);
    t->argument = keep_again(f, t->argument, before ? before->argument : NULL, &status);
    t->args = keep_words(f, t->args, t->n_args, &status);
    t->env = keep_words(f, t->env, t->n_env, &status);
    t->in = keep_files(f, t->in, t->n_in, &status);
    t->out = keep_files(f, t->out, t->n_out, &status);
    return status;
}

/* There is room for it in all tables, and no other has its name. */
static htc_status put_task(htc_flow *f, htc_flow_task *t)
{
    htc__flow_piece *last = f->last;
    size_t           used = last ? last->used : 0;
    htc_status       status = copy_task(f, t);
    if (status != HTC_OK) {
        while (f->last != last)
            drop_piece(f);
        if (last)
            last->used = used;
        return status;
    }
    uint32_t probes;
    size_t   at = find_slot(f, t->name, &probes);
    htc__flow_forget(f);
    f->tasks[f->n] = *t;
    f->first[f->n] = f->total;
    f->total += t->count;
    f->table[at] = ++f->n;
    scatter(f, probes);
    return HTC_OK;
}

htc_status htc_flow_add(htc_flow *flow, const htc_flow_task *task, uint32_t *id, htc_error *error)
{
    htc_flow_task t = HTC_FLOW_TASK_INIT;
    uint32_t      other;
    char          name[16];
    if (!flow || !task)
        return htc__refuse(error, HTC_EINVAL, 0, "", "no flow, or no task");
    htc_status status = htc__options_copy(&t, sizeof t, task, task->size, sizeof t.size);
    if (status != HTC_OK)
        return htc__refuse(error, status, 0, "size", "%s", htc_strerror(status));
    status = refuse_task(&t, error);
    if (status != HTC_OK)
        return status;
    if (flow->n >= flow->tasks_max)
        return htc__refuse(error, HTC_EFULL, 0, "", "there are more than %u tasks", flow->tasks_max);
    t.cores = t.cores ? t.cores : 1;
    t.count = t.count ? t.count : 1;
    if (t.count > HTC_FLOW_TOTAL_MAX - flow->total)
        return htc__refuse(error, HTC_EFULL, 0, "count", "there are more than %llu tasks in all",
                           (unsigned long long)HTC_FLOW_TOTAL_MAX);
    snprintf(name, sizeof name, "t%u", flow->n);
    t.name = t.name ? t.name : name;
    if (htc_flow_find(flow, t.name, &other) == HTC_OK)
        return htc__refuse(error, HTC_EEXISTS, 0, "name", "two tasks have the name %s",
                           htc__quote(htc_bytes_of(t.name)).text);
    status = reserve_task(flow);
    if (status == HTC_OK)
        status = reserve_name(flow);
    if (status == HTC_OK)
        status = put_task(flow, &t);
    if (status == HTC_EFULL)
        return htc__refuse(error, status, 0, "", "the texts of all tasks have more than %zu bytes", flow->texts_max);
    if (status != HTC_OK)
        return htc__refuse(error, status, 0, "", "%s", htc_strerror(status));
    if (id)
        *id = flow->n - 1;
    return HTC_OK;
}

htc_status htc_flow_after(htc_flow *flow, uint32_t child, uint32_t parent, uint32_t rule)
{
    if (!flow || rule > HTC_FLOW_FAILED)
        return HTC_EINVAL;
    if (child == parent)
        return HTC_ECYCLE;
    if (child >= flow->tasks_max || parent >= flow->tasks_max || flow->logged >= flow->edges_max)
        return HTC_EFULL;
    if (flow->logged == flow->log_cap) {
        size_t           cap = flow->log_cap ? flow->log_cap * (size_t)2 : 16;
        htc__flow_entry *log = htc__resize_raw(flow->env, flow->log, flow->log_cap * sizeof *log, cap * sizeof *log);
        if (!log)
            return HTC_ENOMEM;
        flow->log = log;
        flow->log_cap = (uint32_t)cap;
    }
    htc__flow_forget(flow);
    flow->log[flow->logged++] = (htc__flow_entry){ child, parent, rule };
    return HTC_OK;
}

void htc_flow_destroy(htc_flow *flow)
{
    if (!flow)
        return;
    htc__flow_forget(flow);
    while (flow->last)
        drop_piece(flow);
    htc__free(flow->env, flow->log, flow->log_cap * sizeof *flow->log);
    htc__free(flow->env, flow->table, flow->table_size * sizeof *flow->table);
    htc__free(flow->env, flow->first, flow->first_cap * sizeof *flow->first);
    htc__free(flow->env, flow->tasks, flow->cap * sizeof *flow->tasks);
    htc__free(flow->env, flow, sizeof *flow);
}
