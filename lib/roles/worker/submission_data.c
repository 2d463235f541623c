#include "roles/worker/submission_data.h"

#include <stdio.h>
#include <string.h>

#define HASH_NONFATAL_OOM 1
#include <uthash.h>

#include "core/util.h"
#include "roles/worker/graph_task.h"

/* A file that a task makes. */
typedef struct made_file {
    const char    *name; /* the flow's */
    uint32_t       entry;
    uint8_t        read; /* some other task reads it */
    UT_hash_handle hh;
} made_file;

struct submission_files {
    htc_env         env;
    const htc_flow *flow;
    const char     *inputs;
    size_t          n_files;
    made_file      *files, *by_name;
    uint64_t        outside; /* a task that is none of the flow's, */
    htc_bytes       outside_makes; /* and what it makes */
};

static int is_command(const htc_flow_task *t)
{
    return t->builtin == HTC_FLOW_PROGRAM;
}

static int is_brought(const char *name)
{
    return name[0] != '/';
}

static made_file *find(const submission_files *s, const char *name)
{
    made_file *f;
    HASH_FIND(hh, s->by_name, name, strlen(name), f);
    return f;
}

/* Who makes it for this task; NULL: nobody else. */
static made_file *maker_of(const submission_files *s, uint32_t entry, const char *name)
{
    made_file *f = is_brought(name) ? find(s, name) : NULL;
    return f && f->entry != entry ? f : NULL;
}

void htc__submission_files_outside(submission_files *s, uint64_t maker, htc_bytes makes)
{
    s->outside = maker;
    s->outside_makes = makes;
}

static int is_made_outside(const submission_files *s, const char *name)
{
    htc_reader r = htc_reader_of(s->outside_makes);
    while (is_brought(name) && !find(s, name) && htc_reader_left(&r))
        if (htc_bytes_equal(htc_get_bytes(&r), htc_bytes_of(name)))
            return 1;
    return 0;
}

static htc_status add_file(submission_files *s, uint32_t entry, const char *name, htc_error *error)
{
    const htc_flow_task *t = htc_flow_get(s->flow, entry);
    made_file           *f = find(s, name);
    if (f)
        return f->entry == entry ? HTC_OK :
                                   htc__error(error, HTC_ESCHEMA, "tasks %.80s and %.80s both make the file %.150s: give one of them another name",
                                              htc_flow_get(s->flow, f->entry)->name, t->name, name);
    f = &s->files[s->n_files++];
    *f = (made_file){ .name = name, .entry = entry };
    HASH_ADD_KEYPTR(hh, s->by_name, f->name, strlen(f->name), f);
    return f->hh.tbl ? HTC_OK : HTC_ENOMEM;
}

/* It is read by another task. */
static htc_status read_file(submission_files *s, uint32_t entry, const char *name, htc_error *error)
{
    made_file *f = maker_of(s, entry, name);
    if (!f)
        return HTC_OK;
    const htc_flow_task *maker = htc_flow_get(s->flow, f->entry);
    if (!is_command(maker))
        return htc__error(error, HTC_EUNSUPPORTED, "task %.80s reads the file %.150s, which %.80s makes: that is a builtin, which makes none",
                          htc_flow_get(s->flow, entry)->name, name, maker->name);
    if (maker->count > 1)
        return htc__error(error, HTC_ESCHEMA, "task %.80s reads the file %.150s, which %.80s makes: that stands for several tasks, write them one by one",
                          htc_flow_get(s->flow, entry)->name, name, maker->name);
    f->read = 1;
    return HTC_OK;
}

static htc_status see_task(submission_files *s, uint32_t entry, int reads, htc_error *error)
{
    const htc_flow_task *t = htc_flow_get(s->flow, entry);
    htc_status           status = HTC_OK;
    if (t->n_in > GRAPH_READS_MAX || t->n_out > GRAPH_READS_MAX)
        return htc__error(error, HTC_ETOOBIG, "task %.80s has more than %u files: put tasks between that pack some of them together", t->name, GRAPH_READS_MAX);
    for (size_t i = 0; i < t->n_out && !reads && status == HTC_OK; i++)
        if (is_brought(t->out[i].name))
            status = add_file(s, entry, t->out[i].name, error);
    for (size_t i = 0; i < t->n_in && reads && is_command(t) && status == HTC_OK; i++)
        status = read_file(s, entry, t->in[i].name, error);
    return status;
}

htc_status htc__submission_files_create(const htc_env *env, const htc_flow *f, const char *inputs, submission_files **out, htc_error *error)
{
    submission_files *s;
    uint32_t          n = htc_flow_count(f);
    size_t            made = 0, some = 0;
    for (uint32_t i = 0; i < n; i++) {
        const htc_flow_task *t = htc_flow_get(f, i);
        made += t->n_out;
        some += is_command(t) ? t->n_in + t->n_out : 0;
    }
    *out = NULL;
    if (!some)
        return HTC_OK;
    s = htc__alloc(env, sizeof *s);
    if (!s)
        return HTC_ENOMEM;
    if (env)
        s->env = *env;
    s->flow = f;
    s->inputs = inputs;
    s->files = made ? htc__alloc(&s->env, made * sizeof *s->files) : NULL;
    htc_status status = made && !s->files ? HTC_ENOMEM : HTC_OK;
    for (int reads = 0; reads < 2; reads++)
        for (uint32_t i = 0; i < n && status == HTC_OK; i++)
            status = see_task(s, i, reads, error);
    *out = s;
    if (status == HTC_OK)
        return HTC_OK;
    htc__submission_files_destroy(s);
    *out = NULL;
    return status;
}

void htc__submission_files_destroy(submission_files *s)
{
    if (!s)
        return;
    htc_env env = s->env;
    size_t  made = 0;
    for (uint32_t i = 0; i < htc_flow_count(s->flow); i++)
        made += htc_flow_get(s->flow, i)->n_out;
    HASH_CLEAR(hh, s->by_name);
    htc__free(&env, s->files, made * sizeof *s->files);
    htc__free(&env, s, sizeof *s);
}

void htc__submission_files_put(const submission_files *s, uint32_t entry, uint64_t first, htc_buf *reads, htc_buf *makes)
{
    const htc_flow_task *t = htc_flow_get(s->flow, entry);
    for (size_t i = 0; i < t->n_in && is_command(t); i++) {
        const made_file *f = maker_of(s, entry, t->in[i].name);
        int              outside = is_made_outside(s, t->in[i].name);
        if (!f && !outside)
            continue;
        htc_put_u64(reads, outside ? s->outside : first + htc_flow_first(s->flow, f->entry));
        htc_put_str(reads, t->in[i].name);
    }
    for (size_t i = 0; i < t->n_out && is_command(t); i++) {
        const made_file *f = is_brought(t->out[i].name) ? find(s, t->out[i].name) : NULL;
        if (f && (f->read || t->adds)) /* what it adds may read it */
            htc_put_str(makes, f->name);
    }
}

/* file:DIRECTORY/NAME, with its percent signs written as a URI has them. */
static void put_uri(htc_buf *b, const char *directory, const char *name)
{
    htc_put_raw(b, htc_bytes_of("file:"));
    for (const char *part = directory; part; part = part == directory ? name : NULL) {
        for (const char *c = part; *c; c++)
            htc_put_raw(b, *c == '%' ? htc_bytes_of("%25") : (htc_bytes){ c, 1 });
        if (part == directory)
            htc_put_u8(b, '/');
    }
    htc_put_u8(b, 0);
}

/* Of a command that has nothing to stage yet. uris: where their texts go; b may grow, so that they are set afterwards. */
static size_t stages_of(const submission_files *s, uint32_t entry, htc_stage *in, htc_stage *out, size_t *n_out, htc_buf *uris)
{
    const htc_flow_task *t = htc_flow_get(s->flow, entry);
    size_t               n = 0, at = 0;
    for (size_t i = 0; i < t->n_in && s->inputs; i++) {
        if (!is_brought(t->in[i].name) || maker_of(s, entry, t->in[i].name) || is_made_outside(s, t->in[i].name))
            continue;
        in[n++] = (htc_stage){ t->in[i].name, NULL, HTC_STAGE_OVERWRITE };
        put_uri(uris, s->inputs, t->in[i].name);
    }
    for (size_t i = 0; i < n && uris->status == HTC_OK; i++) {
        in[i].uri = (const char *)uris->data + at;
        at += strlen(in[i].uri) + 1;
    }
    *n_out = 0;
    for (size_t i = 0; i < t->n_out; i++)
        if (is_brought(t->out[i].name))
            out[(*n_out)++] = (htc_stage){ t->out[i].name, t->out[i].name, HTC_STAGE_OVERWRITE };
    return n;
}

htc_status htc__submission_files_stage(const submission_files *s, uint32_t entry, htc_bytes *bytes)
{
    const htc_flow_task *t = htc_flow_get(s->flow, entry);
    htc_task            *task = NULL, *staged = NULL;
    htc_stage           *stages;
    htc_buf              uris;
    htc_bytes            better = { NULL, 0 };
    size_t               n = t->n_in + t->n_out;
    if (!n)
        return HTC_OK;
    stages = htc__alloc(&s->env, n * sizeof *stages);
    htc_status status = stages ? htc_task_from_bytes(&s->env, *bytes, &task) : HTC_ENOMEM;
    if (status != HTC_OK) {
        htc__free(&s->env, stages, n * sizeof *stages);
        return status;
    }
    htc_buf_init(&uris, &s->env, 0);
    htc_task copy = *task;
    copy.in = stages;
    copy.out = stages + t->n_in;
    copy.n_in = stages_of(s, entry, stages, stages + t->n_in, &copy.n_out, &uris);
    status = uris.status == HTC_OK ? htc_task_to_bytes(&s->env, &copy, &better) : uris.status;
    if (status == HTC_OK) { /* what is written is looked at as whoever reads it does */
        status = htc_task_from_bytes(&s->env, better, &staged);
        htc_task_destroy(staged);
        if (status == HTC_OK) {
            htc_work_free(&s->env, *bytes);
            *bytes = better;
        } else {
            htc_work_free(&s->env, better);
            status = status == HTC_ENOMEM ? status : HTC_EPATH;
        }
    }
    htc_task_destroy(task);
    htc_buf_free(&uris);
    htc__free(&s->env, stages, n * sizeof *stages);
    return status;
}
