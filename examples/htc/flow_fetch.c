/* The files of a flow whose tasks had directories of their own: results, which no other task reads, or all of them. They are kept with the flow's
 * job, under the number of the attempt whose end counts. */
#include "flow.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "below.h"

#include "htcsched/codec.h"

#define LIST_MAX ((size_t)64 << 20)

typedef struct wanted_file {
    uint64_t task;
    uint32_t attempt;
    char    *name, *of; /* of: the name of the task */
} wanted_file;

typedef struct fetching {
    const flow_call *k;
    const char      *task; /* NULL: of all */
    wanted_file     *files;
    size_t           n, n_unique, cap, seen; /* seen: tasks of that name or number */
    uint64_t         bytes, listed; /* listed: the task whose outputs these are: */
    json_t          *outputs; /* by name, as its executor stored them; NULL: of none yet */
} fetching;

static int is_asked(const fetching *f, const htc_flows_task *t)
{
    char *end;
    if (!f->task || strcmp(f->task, t->name) == 0)
        return 1;
    return *f->task && strtoull(f->task, &end, 10) == t->number && !*end;
}

static int see(void *ctx, const htc_flows_task *t)
{
    fetching *f = ctx;
    if (!is_asked(f, t))
        return 1;
    f->seen++;
    for (uint32_t i = 0; i < t->n_files && strcmp(t->state, "done") == 0; i++) {
        if (t->files[i].read && !f->k->all && !f->task)
            continue;
        if (f->n == f->cap)
            f->files = must(realloc(f->files, (f->cap = f->cap * 2 + 16) * sizeof *f->files));
        f->files[f->n++] = (wanted_file){ t->stored, t->attempt, must_dup(t->files[i].name), must_dup(t->name) };
    }
    return 1;
}

static htc_status cannot_write(const flow_call *k, const char *name, int why)
{
    htc_status s = write_status(why);
    return cli_error(k->c, s, name, s == HTC_ENOSPC ? "make room and fetch again" : "--out names another directory",
                     why == EEXIST || why == ENOTDIR || why == ELOOP ? "something else is there already (%s)" : "cannot be written: %s", strerror(why));
}

/* The list of a task's outputs (doc/protocol.md) is a text of one JSON object a line. */
static htc_status read_list(const flow_call *k, uint64_t job, const wanted_file *x, htc_buf *text)
{
    uint64_t   size = 1;
    htc_status s = HTC_OK;
    while (s == HTC_OK && text->len < size) {
        htc_bytes piece = { 0 };
        s = api_read(k->c, job, x->task, x->attempt, "", text->len, &piece, &size);
        if (s == HTC_OK && !piece.len)
            break;
        htc_put_raw(text, piece);
        if (text->status != HTC_OK)
            s = cli_error(k->c, HTC_ETOOBIG, x->of, "", "the list of its files is longer than %zu MiB", LIST_MAX >> 20);
    }
    return s;
}

static htc_status list_outputs(fetching *f, uint64_t job, const wanted_file *x)
{
    htc_buf text;
    if (f->outputs && f->listed == x->task)
        return HTC_OK;
    htc_buf_init(&text, NULL, LIST_MAX);
    json_decref(f->outputs);
    f->outputs = json_object();
    f->listed = x->task;
    htc_status s = read_list(f->k, job, x, &text);
    for (size_t at = 0; s == HTC_OK && at < text.len;) {
        const char *line = (const char *)text.data + at, *end = memchr(line, '\n', text.len - at);
        size_t      n = end ? (size_t)(end - line) : text.len - at;
        json_t     *output = json_loadb(line, n, 0, NULL);
        if (json_is_object(output))
            json_object_set_new(f->outputs, j_str(output, "name"), output);
        else
            json_decref(output); /* what is missed is a file whose hash is not known */
        at += n + 1;
    }
    htc_buf_free(&text);
    return s;
}

static htc_status fetch_one(fetching *f, uint64_t job, int top, const wanted_file *x)
{
    below_file b;
    uint64_t   size = 0;
    char       hex[65];
    htc_status s = list_outputs(f, job, x);
    if (s != HTC_OK)
        return s;
    const json_t *output = json_object_get(f->outputs, x->name);
    unsigned      mode = (unsigned)strtoul(j_str(output, "mode"), NULL, 8);
    if (below_begin(&b, top, x->name, mode & 0111 ? 0777 : 0666) != 0)
        return cannot_write(f->k, x->name, errno);
    s = api_download(f->k->c, job, x->task, x->attempt, x->name, b.fd, &size, hex);
    if (s == HTC_OK && strcmp(hex, j_str(output, "hash")) != 0)
        s = cli_error(f->k->c, HTC_ECORRUPT, x->name, "fetch again; if it stays so the stored file is damaged", "what came is not what task %.60s has made", x->of);
    if (below_end(&b, s == HTC_OK) != 0 && s == HTC_OK)
        s = cannot_write(f->k, x->name, errno);
    f->bytes += size;
    return s;
}

static htc_status fetch_them(fetching *f, uint64_t job, const char *to)
{
    progress   p;
    htc_status s = HTC_OK;
    if (mkdir(to, 0777) != 0 && errno != EEXIST)
        return cannot_write(f->k, to, errno);
    int top = open(to, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (top < 0)
        return cannot_write(f->k, to, errno);
    progress_begin(&p, f->k->c);
    for (size_t i = 0; i < f->n_unique && s == HTC_OK; i++) {
        s = fetch_one(f, job, top, &f->files[i]);
        progress_say(&p, "%zu of %zu file%s", i + 1, f->n_unique, plural(f->n_unique));
    }
    progress_end(&p);
    close(top);
    return s;
}

static int by_name(const void *a, const void *b)
{
    const wanted_file *x = a, *y = b;
    int                order = strcmp(x->name, y->name);
    return order ? order : x->task < y->task ? -1 : x->task > y->task;
}

static int by_task(const void *a, const void *b)
{
    const wanted_file *x = a, *y = b;
    return x->task < y->task ? -1 : x->task > y->task;
}

/* Of files that several tasks have made under one name, as tasks may that were added by different ones, none is fetched. HTC_EEXISTS, if there are any. */
static htc_status leave_doubles(fetching *f)
{
    size_t     kept = 0;
    htc_status s = HTC_OK;
    if (f->n)
        qsort(f->files, f->n, sizeof *f->files, by_name);
    for (size_t i = 0, end; i < f->n; i = end) {
        for (end = i + 1; end < f->n && strcmp(f->files[end].name, f->files[i].name) == 0;)
            end++;
        if (end == i + 1) {
            wanted_file x = f->files[kept];
            f->files[kept++] = f->files[i];
            if (kept - 1 != i)
                f->files[i] = x; /* to be freed */
        } else if (s == HTC_OK) {
            s = cli_error(f->k->c, HTC_EEXISTS, f->files[i].name, "htc flow fetch ID.TASK --out DIR fetches one", "tasks %.60s and %.60s have both made it%s", f->files[i].of,
                          f->files[i + 1].of, end > i + 2 ? ", and others" : "");
        }
    }
    f->n_unique = kept;
    if (kept)
        qsort(f->files, kept, sizeof *f->files, by_task); /* the outputs of a task are listed once */
    return s;
}

htc_status flow_fetch_to(flow_call *k, uint64_t id, const htc_flows_view *v, const char *task, const char *to, uint64_t *files, uint64_t *bytes)
{
    fetching   f = { .k = k, .task = task };
    htc_status s = htc_flows_tasks(k->store, id, see, &f, &k->c->error);
    if (s == HTC_OK && task && !f.seen)
        s = cli_error(k->c, HTC_ENOTFOUND, "", "htc flow tasks lists numbers and names", "flow %" PRIu64 " has no task %.60s", id, task);
    htc_status doubles = s == HTC_OK ? leave_doubles(&f) : s;
    htc_error  about = k->c->error;
    if (s == HTC_OK && f.n_unique)
        s = fetch_them(&f, v->job, to);
    if (s == HTC_OK && doubles != HTC_OK) {
        k->c->error = about;
        s = doubles;
    }
    *files = f.n_unique;
    *bytes = f.bytes;
    json_decref(f.outputs);
    for (size_t i = 0; i < f.n; i++) {
        free(f.files[i].name);
        free(f.files[i].of);
    }
    free(f.files);
    return s;
}

htc_status flow_fetch(flow_call *k)
{
    htc_flows_view v = { .size = sizeof v };
    uint64_t       id = 0, files = 0, bytes = 0;
    char          *task = NULL;
    htc_status     s = flow_which(k, k->w.at[0], &id, &task);
    if (s == HTC_OK)
        s = flow_open_store(k);
    if (s == HTC_OK)
        s = htc_flows_look(k->store, id, &v, &k->c->error);
    if (s == HTC_OK && !v.graph)
        s = cli_error(k->c, HTC_EUNSUPPORTED, "", "", "flow %" PRIu64 " is a bag: its tasks have no records of their own", id);
    if (s == HTC_OK)
        s = flow_fetch_to(k, id, &v, task, k->out ? k->out : ".", &files, &bytes);
    free(task);
    if (s != HTC_OK)
        return s;
    if (k->c->json)
        flow_put_json(k, json_pack("{s:I, s:I, s:I}", "flow", (json_int_t)id, "files", (json_int_t)files, "bytes", (json_int_t)bytes));
    else if (files)
        printf("%" PRIu64 " file%s, %s\n", files, files == 1 ? "" : "s", show_size((double)bytes).s);
    else
        printf("flow %" PRIu64 " has made no files that are kept: its tasks ran in the directory in which it was submitted, or name none with out=\n", id);
    return HTC_OK;
}
