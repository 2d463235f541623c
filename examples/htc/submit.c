/* submit, generate, validate: from a command with parameters, or a document, to a job. */
#include "htc.h"
#include "plan.h"
#include "staging.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

#define DOCUMENT_MAX ((size_t)15 << 20)
#define SHOWN_MAX    1000 /* tasks of a --dry-run */

static const htc_env plain = { .size = sizeof plain };

static void plan_end(plan *p)
{
    staging_end(&p->staging);
    words_free(&p->inputs);
    words_free(&p->targets);
    words_free(&p->env);
    words_free(&p->sweeps);
    words_free(&p->after);
    words_free(&p->res);
    for (size_t i = 0; i < p->n_resources; i++)
        free(p->res_names[i]);
    json_decref(p->edges);
    words_free(&p->command);
    for (size_t i = 0; i < p->n_files; i++)
        free(p->files[i]);
    for (size_t i = 0; i < p->kept.count; i++)
        free((char *)(uintptr_t)p->kept.at[i]);
    words_free(&p->kept);
    free(p->end_xml);
    free(p->split);
}

typedef struct reader_context {
    cli  *c;
    plan *p;
} reader_context;

static htc_status read_list(void *ctx, const char *path, htc_bytes *content)
{
    reader_context *r = ctx;
    size_t          len;
    if (r->p->n_files == sizeof r->p->files / sizeof r->p->files[0])
        return HTC_ETOOBIG;
    htc_status s = read_file(r->c, path, DOCUMENT_MAX, &r->p->files[r->p->n_files], &len);
    if (s == HTC_OK)
        *content = (htc_bytes){ r->p->files[r->p->n_files++], len };
    return s;
}

/* The words of --args '...': blanks divide, quotes keep together, as a shell would. */
static htc_status cut_args(cli *c, plan *p)
{
    const char *word;
    char       *left = p->split = must_dup(p->args);
    htc_status  s;
    while ((s = htc_command_word(&left, &word)) == HTC_OK)
        words_add(&p->command, word);
    return s == HTC_EMPTY ? HTC_OK : cli_error(c, s, "--args", "close the quotation", "a quotation does not end");
}

/* Everything after the executable, as htc_command wants it. */
static htc_status gather_words(cli *c, const command *cmd, plan *p, const words *w)
{
    size_t first = w->dashed == SIZE_MAX ? 0 : w->dashed;
    if (p->exe) {
        words_add(&p->command, p->exe);
        htc_status s = p->args ? cut_args(c, p) : HTC_OK;
        if (s != HTC_OK)
            return s;
    }
    for (size_t i = first; i < w->count; i++)
        words_add(&p->command, w->at[i]);
    if (p->command.count == 0)
        return want_words(c, cmd, &p->command, 1, SIZE_MAX);
    for (size_t i = 0; i < p->sweeps.count; i++) {
        words_add(&p->command, ":::");
        words_add(&p->command, p->sweeps.at[i]);
    }
    if (p->each_line) {
        words_add(&p->command, "::::");
        words_add(&p->command, p->each_line);
    }
    return HTC_OK;
}

static htc_status add_resource(cli *c, plan *p, const char *option, const char *name, size_t len, int64_t count)
{
    if (p->n_resources == HTC_TASK_RESOURCES_MAX)
        return cli_error(c, HTC_EUSAGE, option, "", "a task takes %d resources at most", HTC_TASK_RESOURCES_MAX);
    if (count < 1 || count > UINT32_MAX)
        return cli_error(c, HTC_EUSAGE, option, "take 1 to 4294967295", "%lld is no number of %.*s", (long long)count, (int)len, name);
    p->res_names[p->n_resources] = must(strndup(name, len));
    p->resources[p->n_resources] = (htc_resource){ p->res_names[p->n_resources], (uint32_t)count };
    p->n_resources++;
    return HTC_OK;
}

/* --gpus N and --res NAME=N: what sites count. */
static htc_status read_resources(cli *c, plan *p)
{
    htc_status s = p->gpus ? add_resource(c, p, "--gpus", HTC_RESOURCE_GPU, strlen(HTC_RESOURCE_GPU), p->gpus) : HTC_OK;
    for (size_t i = 0; s == HTC_OK && i < p->res.count; i++) {
        const char *word = p->res.at[i], *equals = strchr(word, '=');
        char       *end = NULL;
        long long   count = equals ? strtoll(equals + 1, &end, 10) : 0;
        if (!equals || equals == word || *end || end == equals + 1)
            return cli_error(c, HTC_EUSAGE, "--res", "write --res NAME=N", "'%.80s' is not NAME=N", word);
        s = add_resource(c, p, "--res", word, (size_t)(equals - word), count);
    }
    return s;
}

static htc_status read_after(cli *c, plan *p);

static htc_status write_document(cli *c, const command *cmd, plan *p, const words *w, htc_bytes *xml)
{
    htc_status s = gather_words(c, cmd, p, w);
    for (size_t i = 0; s == HTC_OK && i < p->inputs.count; i++)
        s = staging_input(c, &p->staging, p->inputs.at[i]);
    for (size_t i = 0; s == HTC_OK && i < p->targets.count; i++)
        s = staging_target(c, &p->staging, p->targets.at[i]);
    if (s == HTC_OK && (!p->container || p->script || access(p->command.at[0], F_OK) == 0)) /* else the image has it */
        s = (p->script ? staging_script : staging_executable)(c, &p->staging, &p->command.at[0]);
    if (s == HTC_OK)
        s = wishes_command(c, p);
    if (s != HTC_OK)
        return s;
    if (p->env.count)
        words_add(&p->env, NULL);
    s = read_resources(c, p);
    if (s == HTC_OK && p->writes)
        s = read_after(c, p);
    if (s == HTC_OK && p->writes && p->on_end)
        s = wishes_end(c, p);
    if (s == HTC_OK && p->writes)
        s = wishes_document(c, p);
    if (s != HTC_OK)
        return s;
    p->written = 1;
    reader_context reader = { c, p };
    htc_command    command_of = {
           .size = sizeof command_of,
           .words = p->command.at,
           .n_words = p->command.count,
           .name = p->name,
           .limits = { .wall = time_ns(p->time_s), .memory = p->memory, .cores = p->cores ? (uint32_t)p->cores : 1 },
           .env = p->env.count ? p->env.at : NULL,
           .in = p->staging.stage,
           .n_in = p->staging.count,
           .out = p->staging.out,
           .n_out = p->staging.n_out,
           .read_file = read_list,
           .ctx = &reader,
           .pairs_a = p->pairs[0],
           .pairs_b = p->pairs[1],
           .pairs_unordered = p->unordered,
           .in_each = (uint32_t)p->staging.each,
           .directory = p->workdir,
           .input = p->standard_input,
           .resources = p->resources,
           .n_resources = p->n_resources,
           .container = p->container,
           .hosts = p->hosts,
           .architecture = p->arch,
           .system = p->os,
           .node_cores = p->node_cores ? (uint32_t)p->node_cores : 0,
           .project = p->writes ? p->project : NULL,
           .wishes = p->wishes,
           .n_wishes = p->n_wishes,
    };
    htc_error e = { 0 };
    c->error = (htc_error){ .status = HTC_OK };
    s = htc_command_to_jsdl(&plain, &command_of, xml, &e);
    if (s != HTC_OK && c->error.status == HTC_OK) /* else the reader of @files has said more */
        c->error = e;
    return s;
}

static void print_task(cli *c, const htc_task *task)
{
    char  *text = NULL;
    size_t len = 0;
    FILE  *f = must(open_memstream(&text, &len));
    (void)c;
    fputs(task->executable, f);
    for (size_t i = 0; i < task->n_args; i++) {
        const char *a = task->args[i];
        if (*a && a[strspn(a, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-./:=,+@%")] == '\0')
            fprintf(f, " %s", a);
        else {
            fputs(" '", f);
            for (; *a; a++)
                fputs(*a == '\'' ? "'\\''" : (char[]){ *a, '\0' }, f);
            fputc('\'', f);
        }
    }
    if (fclose(f) != 0)
        must(NULL);
    put_line(text);
    free(text);
}

static json_t *task_json(const htc_task *task)
{
    json_t *args = json_array(), *in = json_array(), *out = json_array(), *o;
    for (size_t i = 0; i < task->n_args; i++)
        json_array_append_new(args, json_string(task->args[i]));
    for (size_t i = 0; i < task->n_in; i++)
        json_array_append_new(in, json_pack("{s:s, s:s}", "name", task->in[i].name, "uri", task->in[i].uri));
    for (size_t i = 0; i < task->n_out; i++)
        json_array_append_new(out, json_string(task->out[i].name));
    o = json_pack("{s:I, s:s, s:o, s:o, s:o}", "index", (json_int_t)task->index, "executable", task->executable, "args",
                  args, "inputs", in, "outputs", out);
    json_object_set_new(o, "values", json_loads(task->values_json, 0, NULL));
    return o;
}

/* Count and commands, without asking anybody. */
static htc_status show_tasks(cli *c, htc_bytes xml, uint64_t from, uint64_t shown)
{
    htc_spec  *spec;
    htc_status s = htc_spec_parse(&plain, xml, NULL, &spec, &c->error);
    if (s != HTC_OK)
        return s;
    uint64_t count = htc_spec_count(spec);
    json_t  *tasks = json_array();
    if (from >= count && shown)
        s = cli_error(c, HTC_ENOTFOUND, "--show", "indexes count from 0", count == 1 ? "there is %" PRIu64 " task" : "there are %" PRIu64 " tasks", count);
    for (uint64_t i = from; s == HTC_OK && i < count && i - from < shown; i++) {
        htc_task *task;
        s = htc_spec_task(spec, i, &task, &c->error);
        if (s != HTC_OK)
            break;
        if (c->json)
            json_array_append_new(tasks, task_json(task));
        else
            print_task(c, task);
        htc_task_destroy(task);
    }
    if (s == HTC_OK && c->json) {
        json_t *o =
            json_pack("{s:I, s:s, s:O}", "count", (json_int_t)count, "name", htc_spec_name(spec), "tasks", tasks);
        put_json(c, o);
        json_decref(o);
    } else if (s == HTC_OK && shown > 1 && count > shown)
        printf("... and %" PRIu64 " more\n", count - shown);
    json_decref(tasks);
    htc_spec_destroy(spec);
    return s;
}

/* What is no XML at all is somebody's script. */
static int is_markup(const char *data, size_t len)
{
    size_t at = len >= 3 && memcmp(data, "\xef\xbb\xbf", 3) == 0 ? 3 : 0;
    int    utf16 = len >= 2 && (memcmp(data, "\xfe\xff", 2) == 0 || memcmp(data, "\xff\xfe", 2) == 0);
    while (at < len && strchr(" \t\r\n", data[at]) && data[at])
        at++;
    return utf16 || at == len || data[at] == '<' || (data[at] == 0 && at + 1 < len);
}

static htc_status no_document(cli *c, const char *path, const char *data, size_t len)
{
    char hint[sizeof c->error.hint];
    int  script = len > 2 && memcmp(data, "#!", 2) == 0;
    snprintf(hint, sizeof hint, "a command stands behind --: htc submit -- %s%.100s", strchr(path, '/') ? "" : "./", path);
    return cli_error(c, HTC_EINPUT, path, hint, script ? "this is a script, and no JSDL document" : "this is no JSDL document");
}

/* A document as it stands in a file: checked first, so that lines are those of the file. */
static htc_status read_document(cli *c, plan *p, const char *path, char **data, size_t *len)
{
    htc_spec  *spec;
    htc_status s = strcmp(path, "-") == 0 ? read_file(c, "/dev/stdin", DOCUMENT_MAX, data, len)
                                          : read_file(c, path, DOCUMENT_MAX, data, len);
    if (s == HTC_OK && !is_markup(*data, *len)) {
        s = no_document(c, path, *data, *len);
        free(*data);
        *data = NULL;
    }
    if (s != HTC_OK)
        return s;
    htc_error e = { 0 };
    s = htc_spec_parse(&plain, (htc_bytes){ *data, *len }, NULL, &spec, &e);
    if (s == HTC_OK) {
        if (p)
            wishes_read(p, spec);
        htc_spec_destroy(spec);
    } else {
        c->error = e;
        c->file = path;
        free(*data);
        *data = NULL;
    }
    return s;
}

/* Is the first word a script that is to be run, with the words after it as its arguments? */
static int names_script(const plan *p, const words *w)
{
    char  begin[2];
    FILE *f = !p->exe && w->count && w->dashed != 0 && strcmp(w->at[0], "-") != 0 ? fopen(w->at[0], "re") : NULL;
    int   is = f && fread(begin, 1, 2, f) == 2 && begin[0] == '#' && begin[1] == '!';
    if (f)
        fclose(f);
    return is;
}

#define SCRIPT_MAX ((size_t)1 << 20)

static htc_status prepare_script(cli *c, plan *p, const opt *opts, size_t n_opts, words *w)
{
    char      *text;
    size_t     len;
    htc_status s = read_file(c, w->at[0], SCRIPT_MAX, &text, &len);
    if (s == HTC_OK) {
        s = wishes_of_script(c, p, opts, n_opts, w->at[0], text, len);
        free(text);
    }
    p->staging.upload = !p->dry_run; /* which it may have said */
    p->script = 1;
    w->dashed = 0; /* all its words are the command's */
    return s;
}

static htc_status prepare(cli *c, const command *cmd, plan *p, const opt *opts, size_t n_opts, words *w, char **xml, size_t *len)
{
    htc_status settled = strcmp(cmd->name, "submit") == 0 && names_script(p, w) ? prepare_script(c, p, opts, n_opts, w) : HTC_OK;
    if (settled == HTC_OK)
        settled = wishes_settle(c, p);
    if (settled != HTC_OK)
        return settled;
    int is_document = !p->exe && w->dashed == SIZE_MAX && w->count == 1 && !p->each_line;
    if (!p->exe && w->dashed == SIZE_MAX && w->count > 1)
        return cli_error(c, HTC_EUSAGE, w->at[0], "put -- before a command: htc submit -- COMMAND...",
                         "more than one word, and no --");
    if (w->dashed != SIZE_MAX && w->dashed != 0)
        return cli_error(c, HTC_EUSAGE, w->at[0], "name a document or give a command after --, not both",
                         "a word before --");
    if (!is_document) {
        htc_bytes  made;
        htc_status s = write_document(c, cmd, p, w, &made);
        if (s != HTC_OK)
            return s;
        if (p->staging.each) {
            s = staging_document(c, &p->staging, NULL, made, xml, len);
            htc_work_free(&plain, made);
            return s;
        }
        *xml = must(strndup(made.data, made.len));
        *len = made.len;
        htc_work_free(&plain, made);
        return HTC_OK;
    }
    if (p->inputs.count || p->targets.count || p->env.count || p->array || p->workdir || p->standard_input || p->res.count || p->gpus || p->container || p->hosts || p->arch || p->os)
        return cli_error(c, HTC_EUSAGE, p->inputs.count ? "--input" : p->targets.count ? "--target" : p->env.count ? "--env" : p->array ? "--array" : p->workdir ? "--workdir" : p->container ? "--container" : p->hosts ? "--hosts" : p->arch ? "--arch" : p->os ? "--os" : p->gpus ? "--gpus" : p->res.count ? "--res" : "--stdin", "write it into the document",
                         "this goes with a command, and %.200s is a document", w->at[0]);
    char      *data = NULL;
    htc_status s = read_document(c, p, w->at[0], &data, len);
    if (s != HTC_OK)
        return s;
    char *base = must_dup(w->at[0]), *slash = strrchr(base, '/');
    if (slash)
        slash[slash == base] = '\0';
    s = p->staging.upload ? staging_document(c, &p->staging, slash ? base : "", (htc_bytes){ data, *len }, xml, len)
                          : HTC_OK;
    if (p->staging.upload)
        free(data);
    else
        *xml = data;
    free(base);
    return s;
}

/* No two submissions have one, unless the second repeats the first. */
static htc_status draw_key(cli *c, char key[33])
{
    uint8_t bytes[16];
    if (getrandom(bytes, sizeof bytes, 0) != (ssize_t)sizeof bytes)
        return cli_error(c, HTC_EINTERNAL, "", "", "no source of randomness: %s", strerror(errno));
    for (size_t i = 0; i < sizeof bytes; i++)
        sprintf(key + 2 * i, "%02x", bytes[i]);
    return HTC_OK;
}

/* The answer did not come: it may be stored. With its key the same submission is safe however often it is sent. */
static htc_status submitted_perhaps(cli *c, const char *key)
{
    char hint[160];
    snprintf(hint, sizeof hint, "give the same command again with --key %.64s: it answers the job, or makes it", key);
    c->found = json_pack("{s:s}", "key", key);
    return cli_error(c, HTC_ETIMEDOUT, "submit", hint, "the gateway does not answer: whether the job was accepted is not known");
}

static htc_status send_job(cli *c, const plan *p, const char *xml, json_t **answer)
{
    char       drawn[33] = "";
    htc_status drawn_well = p->key ? HTC_OK : draw_key(c, drawn);
    const char *key = p->key ? p->key : drawn;
    if (drawn_well != HTC_OK)
        return drawn_well;
    char   *cwd = getcwd(NULL, 0);
    json_t *r = json_pack("{s:s}", "op", "submit");
    j_add(&r, "jsdl", xml);
    j_add(&r, "key", key);
    json_object_set_new(r, "submit_dir", json_string(cwd ? cwd : ""));
    if (p->name && !p->written)
        j_add(&r, "name", p->name);
    if (p->time_s > 0 && (!p->written || p->time_s != (double)(uint64_t)p->time_s)) /* a document has whole seconds */
        json_object_set_new(r, "time_limit", json_real(p->time_s));
    if (p->memory && !p->written)
        json_object_set_new(r, "memory", json_integer((json_int_t)p->memory));
    if (p->retries >= 0)
        json_object_set_new(r, "retries", json_integer(p->retries));
    if (p->priority)
        json_object_set_new(r, "priority", json_integer(p->priority));
    if (p->project)
        j_add(&r, "project", p->project);
    if (p->max_running >= 0)
        json_object_set_new(r, "max_running", json_integer(p->max_running));
    if (p->edges)
        json_object_set(r, "after", p->edges);
    if (p->output)
        j_add(&r, "output", p->output);
    if (p->error_output)
        j_add(&r, "error_output", p->error_output);
    if (p->compat)
        j_add(&r, "compat", p->compat);
    if (p->paused)
        json_object_set_new(r, "paused", json_true());
    wishes_request(p, r);
    free(cwd);
    double     patience = c->timeout_s > 0 ? c->timeout_s : ANSWER_S;
    htc_status s = credentials_request(c, p, xml, r);
    if (s != HTC_OK) {
        json_decref(r);
        return s;
    }
    s = api_ask(c, r, 0, patience, answer);
    return s != HTC_OK && c->unanswered ? submitted_perhaps(c, key) : s;
}

static htc_status check_names(cli *c, const plan *p)
{
    htc_status s = patterns_check(c, p->output, p->error_output);
    if (s != HTC_OK)
        return s;
    if (p->compat && strcmp(p->compat, "slurm") != 0 && strcmp(p->compat, "sge") != 0)
        return cli_error(c, HTC_EUSAGE, "--compat", "slurm or sge", "'%.60s' is not known", p->compat);
    return HTC_OK;
}

static htc_status after_one(cli *c, plan *p, char *word)
{
    static const char *const rules[] = { "ok", "any", "failed" };
    selection                sel = { 0 };
    size_t                   rule = 0;
    char                    *colon = strchr(word, ':');
    if (colon)
        *colon = '\0';
    while (colon && rule < 3 && strcmp(colon + 1, rules[rule]) != 0)
        rule++;
    if (rule == 3)
        return cli_error(c, HTC_EUSAGE, "--after", "ok, any or failed", "'%.60s' is no way for a job to end", colon + 1);
    if (strcmp(word, "last") != 0 && (!*word || strspn(word, "0123456789") != strlen(word) || strlen(word) > 18))
        return cli_error(c, HTC_EUSAGE, "--after", "write ID, ID:any or ID:failed, divided by commas", "'%.60s' is no job", word);
    htc_status s = selection_settle(c, word, &sel);
    if (s == HTC_OK)
        json_array_append_new(p->edges, json_pack("{s:I, s:s}", "id", (json_int_t)strtoll(sel.id, NULL, 10), "when", rules[rule]));
    selection_free(&sel);
    return s;
}

/* The jobs that it waits for: ID[:RULE][,...], as often as --after is there. "last" is settled now: it is another job later. */
static htc_status read_after(cli *c, plan *p)
{
    htc_status s = HTC_OK;
    for (size_t i = 0; s == HTC_OK && i < p->after.count; i++) {
        char *list = must_dup(p->after.at[i]), *at = list;
        if (!p->edges)
            p->edges = must(json_array());
        while (s == HTC_OK && at) {
            char *word = at;
            at = strchr(at, ',');
            if (at)
                *at++ = '\0';
            s = after_one(c, p, word);
        }
        free(list);
    }
    return s;
}

/* Do two files of a task certainly meet? Only where it depends on it is the document read for its number of tasks. */
static htc_status check_places(cli *c, const plan *p, htc_bytes xml)
{
    const char *name = p->name ? p->name : "name";
    htc_spec   *spec;
    htc_status  one = patterns_meet(c, p->output, p->error_output, name, 0);
    htc_status  many = patterns_meet(c, p->output, p->error_output, name, 1);
    if (one == many)
        return many;
    htc_status s = htc_spec_parse(&plain, xml, NULL, &spec, &c->error);
    if (s != HTC_OK)
        return s;
    s = patterns_meet(c, p->output, p->error_output, name, htc_spec_count(spec) > 1);
    htc_spec_destroy(spec);
    if (s == HTC_OK)
        c->error = (htc_error){ 0 }; /* that of the other number */
    return s;
}

#define PLAN_OPTIONS(p)                                                                                                \
    { "name", 'J', OPT_TEXT, &(p).name, "NAME", "the job's name" },                                                    \
        { "time", 't', OPT_WALLTIME, &(p).time_s, "TIME", "wall-time limit of a task: D-HH:MM:SS, HH:MM:SS, MM:SS, 90s; 0: none" }, \
        { "mem", 'm', OPT_SIZE, &(p).memory, "SIZE", "memory of a task, reserved and its limit: 512M, 4G" },                             \
        { "cores", 'c', OPT_AMOUNT, &(p).cores, "N", "cores that a task needs (1), each a slot of one agent" },     \
        { "node-cores", 0, OPT_AMOUNT, &(p).node_cores, "N", "of these on each node, so that a task is on several at once" },  \
        { "gpus", 0, OPT_COUNT, &(p).gpus, "N", "GPUs of a task, which has them for itself (0)" },                         \
        { "res", 0, OPT_LIST, &(p).res, "NAME=N", "what sites count, as licences: N of it for each task (may be repeated)" }, \
        { "container", 0, OPT_TEXT, &(p).container, "IMAGE", "run tasks in a container: an image, or a directory for bwrap" },  \
        { "hosts", 0, OPT_TEXT, &(p).hosts, "NAME[,NAME...]", "run only on one of these hosts or sites" },             \
        { "arch", 0, OPT_TEXT, &(p).arch, "NAME", "run only on this architecture: x86_64, arm, powerpc" },              \
        { "os", 0, OPT_TEXT, &(p).os, "NAME", "run only on this operating system: linux, macos" },                     \
        { "input", 'i', OPT_LIST, &(p).inputs, "[NAME=]FILE|DIR", "stage a file or directory into every task, or 'in{n}.txt' into each its own (may be repeated)" }, \
        { "target", 0, OPT_LIST, &(p).targets, "NAME=URL", "send the file NAME that a task leaves there, and keep it among the results (may be repeated)" }, \
        { "env", 0, OPT_LIST, &(p).env, "NAME[=VALUE]", "environment of every task; without a value your own (may be repeated)" }, \
        { "array", 'a', OPT_TEXT, &(p).array, "LIST", "a task for each number: 1-100:2,200%5, 5 at once; $HTC_ARRAY_INDEX, {array}" }, \
        { "workdir", 'D', OPT_TEXT, &(p).workdir, "here|DIR", "run in this directory, which the nodes must have" },     \
        { "stdin", 0, OPT_TEXT, &(p).standard_input, "FILE", "standard input of every task" },                         \
    {                                                                                                                  \
        "each-line", 0, OPT_TEXT, &(p).each_line, "FILE", "one task for each line of FILE, as {}"                      \
    }

#define SUBMIT_OPTIONS(p)                                                                                              \
    { "retries", 'r', OPT_COUNT, &(p).retries, "N", "run a failed task again up to N times" },                         \
        { "project", 0, OPT_TEXT, &(p).project, "NAME", "for a project of yours (the document's, or your first)" },      \
        { "priority", 0, OPT_NUMBER, &(p).priority, "N", "go before your jobs of a lower number: -1000 to 1000 (0)" },  \
        { "max-running", 0, OPT_COUNT, &(p).max_running, "N", "run at most N of its tasks at once; 0: any number" },                  \
        { "begin", 0, OPT_TEXT, &(p).begin, "TIME", "not before: now+1hour, 18:30, 2026-12-01T08:00" },                 \
        { "signal", 0, OPT_TEXT, &(p).signal, "[SIG]@SECONDS", "send a signal so long before the wall-time limit: USR1@60" }, \
        { "on-end", 0, OPT_TEXT, &(p).on_end, "'COMMAND'", "run this, once, when the job has ended: $HTC_JOB_ID, $HTC_JOB_STATE" }, \
        { "credentials", 0, OPT_TEXT, &(p).credentials, "FILE", "users and passwords for its URLs, as .netrc has them" }, \
        { "mail-to", 0, OPT_TEXT, &(p).mail_to, "ADDRESS", "tell by mail that it has ended" },                          \
        { "mail-on", 0, OPT_TEXT, &(p).mail_on, "end|fail|none", "when: at its end, or only if a task failed (end)" },   \
        { "after", 0, OPT_LIST, &(p).after, "ID[:RULE]", "wait for your job ID to end ok, any or failed (ok)" },       \
        { "output",    'o',       OPT_TEXT,                                                                            \
          &(p).output, "PATTERN", "name of standard output in the results: %j job %a task %u user %n name" },          \
        { "error", 'e', OPT_TEXT, &(p).error_output, "PATTERN", "name of standard error in the results" },             \
        { "compat", 0, OPT_TEXT, &(p).compat, "slurm|sge", "set SLURM_ARRAY_* or SGE_TASK_ID too" },                   \
        { "wait", 'w', OPT_FLAG, &(p).wait, NULL, "wait until it has ended; exit code 5 if tasks failed" },            \
        { "hold", 0, OPT_FLAG, &(p).paused, NULL, "queue it, start nothing" },                                         \
        { "key", 0, OPT_TEXT, &(p).key, "KEY", "repeat a submission: the job that it made before is answered" },        \
    {                                                                                                                  \
        "dry-run", 'n', OPT_FLAG, &(p).dry_run, NULL, "print the commands, submit nothing"                             \
    }

static htc_status say_submitted(cli *c, const json_t *answer, uint32_t wait)
{
    uint64_t id = j_u64(answer, "id"), count = j_u64(answer, "count");
    char     selector[32];
    snprintf(selector, sizeof selector, "%" PRIu64, id);
    put_warnings(answer);
    if (!c->json)
        printf("job %" PRIu64 ": %" PRIu64 " task%s\n", id, count, count == 1 ? "" : "s");
    else if (!wait)
        put_json(c, answer);
    fflush(stdout);
    return wait ? wait_for_jobs(c, selector, -1) : HTC_OK;
}

htc_status run_resubmit(cli *c, int argc, char **argv)
{
    uint32_t    wait = 0, paused = 0;
    uint64_t    memory = 0;
    double      time_s = 0;
    const char *key = NULL;
    words       w;
    char        drawn[33] = "";
    job_filter  f = { 0 };
    selection   sel = { 0 };
    json_t     *answer = NULL;
    const opt   opts[] = {
        { "mem", 'm', OPT_SIZE, &memory, "SIZE", "memory of a task, where it is not to be as before" },
        { "time", 't', OPT_WALLTIME, &time_s, "TIME", "wall-time limit of a task, likewise" },
        { "wait", 'w', OPT_FLAG, &wait, NULL, "wait until it has ended; exit code 5 if tasks failed" },
        { "hold", 0, OPT_FLAG, &paused, NULL, "queue it, start nothing" },
        { "key", 0, OPT_TEXT, &key, "KEY", "repeat a submission: the job that it made before is answered" },
        FILTER_OPTIONS(f),
    };
    const command *cmd = find_command("resubmit");
    htc_status     s = opt_parse(c, cmd, argc, argv, opts, sizeof opts / sizeof opts[0], &w);
    if (s == HTC_OK)
        s = want_words(c, cmd, &w, 1, 1);
    if (s == HTC_OK)
        s = selection_settle_of(c, w.at[0], &f, &sel);
    if (s == HTC_OK && !key)
        s = draw_key(c, drawn);
    if (s == HTC_OK) {
        json_t *r = selection_request(&sel, "resubmit");
        j_add(&r, "key", key ? key : drawn);
        if (r && memory)
            json_object_set_new(r, "memory", json_integer((json_int_t)memory));
        if (r && time_s > 0)
            json_object_set_new(r, "time_limit", json_real(time_s));
        if (r && paused)
            json_object_set_new(r, "paused", json_true());
        s = api_ask(c, r, 0, c->timeout_s > 0 ? c->timeout_s : ANSWER_S, &answer);
        s = s != HTC_OK && c->unanswered ? submitted_perhaps(c, key ? key : drawn) : s;
    }
    if (s == HTC_OK)
        s = say_submitted(c, answer, wait);
    json_decref(answer);
    selection_free(&sel);
    words_free(&w);
    return s;
}

htc_status run_submit(cli *c, int argc, char **argv)
{
    plan      p = { .retries = -1, .max_running = -1 };
    words     w;
    const opt opts[] = {
        PLAN_OPTIONS(p),
        SUBMIT_OPTIONS(p),
    };
    const command *cmd = find_command("submit");
    char          *xml = NULL;
    size_t         len = 0;
    json_t        *answer = NULL;
    htc_status     s = opt_parse(c, cmd, argc, argv, opts, sizeof opts / sizeof opts[0], &w);
    staging_begin(c, &p.staging, !p.dry_run);
    if (s == HTC_OK)
        s = prepare(c, cmd, &p, opts, sizeof opts / sizeof opts[0], &w, &xml, &len);
    if (s == HTC_OK)
        s = check_names(c, &p);
    if (s == HTC_OK && (p.output || p.error_output))
        s = check_places(c, &p, (htc_bytes){ xml, len });
    if (s == HTC_OK && !p.dry_run)
        s = read_after(c, &p);
    if (s == HTC_OK && p.on_end && !p.dry_run)
        s = wishes_end(c, &p);
    if (s == HTC_OK && p.dry_run)
        s = show_tasks(c, (htc_bytes){ xml, len }, 0, SHOWN_MAX);
    else if (s == HTC_OK)
        s = send_job(c, &p, xml, &answer);
    if (s == HTC_OK && answer)
        s = say_submitted(c, answer, p.wait);
    json_decref(answer);
    free(xml);
    s = plan_error(c, &p, s);
    plan_end(&p);
    words_free(&w);
    return s;
}

htc_status run_generate(cli *c, int argc, char **argv)
{
    plan      p = { .retries = -1, .max_running = -1, .writes = 1 };
    words     w;
    const opt opts[] = {
        PLAN_OPTIONS(p),
        SUBMIT_OPTIONS(p),
        { "exe", 0, OPT_TEXT, &p.exe, "P", "the program" },
        { "args", 0, OPT_TEXT, &p.args, "'...'", "its arguments, with {NAME} where a value goes" },
        { "sweep", 0, OPT_LIST, &p.sweeps, "SOURCE", "x=1:100[:step], x=a,b,c or x=@FILE (may be repeated)" },
        { "pairs", 0, OPT_PAIR, &p.pairs, "A B", "a task for each pair of lines of two files, as {1} and {2}" },
        { "unordered", 0, OPT_FLAG, &p.unordered, NULL, "each pair of one list once" },
        { "out", 0, OPT_TEXT, &p.out, "FILE", "write there instead of standard output" },
    };
    const command *cmd = find_command("generate");
    char          *xml = NULL;
    size_t         len = 0;
    htc_status     s = opt_parse(c, cmd, argc, argv, opts, sizeof opts / sizeof opts[0], &w);
    staging_begin(c, &p.staging, 0);
    if (s == HTC_OK && w.dashed == SIZE_MAX && !p.exe && w.count)
        s = cli_error(c, HTC_EUSAGE, w.at[0], "put -- before the command", "a word without option");
    else if (s == HTC_OK && w.count == 0 && !p.exe)
        s = want_words(c, cmd, &w, 1, SIZE_MAX);
    if (s == HTC_OK)
        s = check_names(c, &p);
    if (s == HTC_OK)
        s = prepare(c, cmd, &p, opts, sizeof opts / sizeof opts[0], &w, &xml, &len);
    if (s == HTC_OK && (p.output || p.error_output))
        s = check_places(c, &p, (htc_bytes){ xml, len });
    if (s == HTC_OK && (p.wait || p.key || p.credentials))
        fprintf(stderr, "htc: warning: --wait, --key and --credentials are not in a document: give them to htc submit\n");
    if (s == HTC_OK && p.dry_run) {
        s = show_tasks(c, (htc_bytes){ xml, len }, 0, SHOWN_MAX);
    } else if (s == HTC_OK && p.out) {
        out_file out;
        s = out_open(c, &out, p.out, 0666);
        if (s == HTC_OK)
            fwrite(xml, 1, len, out.f);
        s = out_close(c, &out, s);
    }
    if (s == HTC_OK && c->json && !p.dry_run) {
        htc_spec *spec;
        s = htc_spec_parse(&plain, (htc_bytes){ xml, len }, NULL, &spec, &c->error);
        if (s == HTC_OK) {
            json_t *o = json_pack("{s:I, s:s?}", "count", (json_int_t)htc_spec_count(spec), "jsdl", p.out ? NULL : xml);
            put_json(c, o);
            json_decref(o);
            htc_spec_destroy(spec);
        }
    } else if (s == HTC_OK && !p.out && !p.dry_run)
        fwrite(xml, 1, len, stdout);
    free(xml);
    s = plan_error(c, &p, s);
    plan_end(&p);
    words_free(&w);
    return s;
}

htc_status run_validate(cli *c, int argc, char **argv)
{
    uint32_t  count_only = 0;
    int64_t   show = -1;
    words     w;
    const opt opts[] = {
        { "count", 0, OPT_FLAG, &count_only, NULL, "print the number of tasks" },
        { "show", 0, OPT_COUNT, &show, "INDEX", "print the command of one task" },
    };
    const command *cmd = find_command("validate");
    char          *data = NULL;
    size_t         len;
    htc_status     s = opt_parse(c, cmd, argc, argv, opts, 2, &w);
    if (s == HTC_OK)
        s = want_words(c, cmd, &w, 1, 1);
    if (s == HTC_OK)
        s = read_document(c, NULL, w.at[0], &data, &len);
    if (s == HTC_OK && (show >= 0 || c->json))
        s = show_tasks(c, (htc_bytes){ data, len }, show >= 0 ? (uint64_t)show : 0, show >= 0);
    else if (s == HTC_OK) {
        htc_spec *spec;
        s = htc_spec_parse(&plain, (htc_bytes){ data, len }, NULL, &spec, &c->error);
        if (s == HTC_OK) {
            if (count_only)
                printf("%" PRIu64 "\n", htc_spec_count(spec));
            else
                printf("%s: valid, %" PRIu64 " task%s\n", w.at[0], htc_spec_count(spec),
                       htc_spec_count(spec) == 1 ? "" : "s");
            if (htc_spec_warnings(spec)[0])
                put_warning(htc_spec_warnings(spec));
            htc_spec_destroy(spec);
        }
    }
    free(data);
    words_free(&w);
    return s;
}
