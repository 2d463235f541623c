/* What people of batch systems ask for: arrays, times, signals, directories, and the lines of their scripts. */
#include "plan.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define VALUES_MAX 1000000 /* of an array of several ranges, which stand in the document one by one */

const char *plan_keep(plan *p, char *text)
{
    words_add(&p->kept, text);
    return text;
}

/* ---- a script's lines ---- */

typedef struct lines {
    cli        *c;
    plan       *p;
    const opt  *opts;
    size_t      n;
    char       *given; /* of opts: the command line has it, and goes before the script. Of two lines the later one holds */
    const char *path;
    words       env, after, res; /* those of the command line come after them */
} lines;

/* Does the command line say how many of the same it wants? */
static int names_resource(const words *res, const char *value)
{
    size_t n = strcspn(value, "=");
    for (size_t i = 0; i < res->count; i++)
        if (strncmp(res->at[i], value, n + 1) == 0)
            return 1;
    return 0;
}

static htc_status one_line(void *ctx, const htc_script_wish *w)
{
    lines     *l = ctx;
    const opt *o = NULL;
    for (size_t i = 0; w->option && i < l->n; i++)
        if (strcmp(l->opts[i].name, w->option) == 0)
            o = &l->opts[i];
    if (w->note) {
        char *said = shown(w->said);
        fprintf(stderr, "htc: warning: %s:%u: %s: %s\n", l->path, (unsigned)w->line, said, w->note);
        free(said);
    }
    if (!o || l->given[o - l->opts])
        return HTC_OK;
    const char *value = plan_keep(l->p, must_dup(w->value));
    l->p->script_mails |= strcmp(w->option, "mail-to") == 0;
    if (o->kind == OPT_LIST) {
        words *into = o->into == &l->p->env ? &l->env : o->into == &l->p->res ? &l->res : &l->after;
        if (into != &l->res || !names_resource(&l->p->res, value))
            words_add(into, value);
        return HTC_OK;
    }
    htc_status s = opt_set(l->c, o, value);
    if (s != HTC_OK) {
        l->c->file = l->path;
        l->c->error.line = w->line;
        snprintf(l->c->error.where, sizeof l->c->error.where, "%s", w->said);
    }
    return s;
}

static void in_front(words *all, words *first)
{
    for (size_t i = 0; i < all->count; i++)
        words_add(first, all->at[i]);
    words_free(all);
    *all = *first;
}

/* What a script of that system finds in its environment, beside what the agent sets. */
static void add_submission(plan *p, uint32_t dialect, const char *path)
{
    const char *slash = strrchr(path, '/'), *name = p->name ? p->name : slash ? slash + 1 : path;
    char       *cwd = getcwd(NULL, 0);
    char        host[256] = "";
    gethostname(host, sizeof host - 1);
    words env = { .dashed = SIZE_MAX };
    int   slurm = dialect == HTC_SCRIPT_SLURM;
    words_add(&env, plan_keep(p, must_print("%s=%s", slurm ? "SLURM_JOB_NAME" : "JOB_NAME", name)));
    words_add(&env, plan_keep(p, must_print("%s=%s", slurm ? "SLURM_SUBMIT_DIR" : "SGE_O_WORKDIR", cwd ? cwd : "/")));
    words_add(&env, plan_keep(p, must_print("%s=%s", slurm ? "SLURM_SUBMIT_HOST" : "SGE_O_HOST", host)));
    free(cwd);
    in_front(&p->env, &env);
}

htc_status wishes_of_script(cli *c, plan *p, const opt *opts, size_t n, const char *path, const char *text, size_t len)
{
    lines      l = { c, p, opts, n, must(calloc(n + 1, 1)), path, { .dashed = SIZE_MAX }, { .dashed = SIZE_MAX }, { .dashed = SIZE_MAX } };
    uint32_t   dialect = HTC_SCRIPT_NONE;
    htc_error  e = { .status = HTC_OK };
    for (size_t i = 0; i < n; i++)
        l.given[i] = (char)opt_was_said(c, i);
    htc_status s = htc_script_read((htc_bytes){ text, len }, one_line, &l, &dialect, &e);
    free(l.given);
    if (s != HTC_OK && e.status != HTC_OK) {
        c->error = e;
        c->file = path;
    }
    in_front(&p->env, &l.env);
    in_front(&p->after, &l.after);
    in_front(&p->res, &l.res);
    if (s != HTC_OK || dialect == HTC_SCRIPT_NONE)
        return s;
    if (!p->compat)
        p->compat = dialect == HTC_SCRIPT_SLURM ? "slurm" : "sge";
    add_submission(p, dialect, path);
    return HTC_OK;
}

/* ---- what the options say ---- */

/* Braces of a value are text, and no places for values of a sweep. */
static char *without_places(const char *name, const char *value)
{
    char  *buf = NULL;
    size_t len = 0;
    FILE  *f = must(open_memstream(&buf, &len));
    fprintf(f, "%s=", name);
    for (; *value; value++) {
        if (*value == '{')
            fputc('\\', f);
        fputc(*value, f);
    }
    fclose(f);
    return must(buf);
}

static htc_status settle_env(cli *c, plan *p)
{
    for (size_t i = 0; i < p->env.count; i++) {
        const char *entry = p->env.at[i], *equals = strchr(entry, '=');
        if (equals == entry || !*entry)
            return cli_error(c, HTC_EUSAGE, "--env", "write --env NAME=VALUE, or --env NAME for your own value", "'%.80s' is no variable", entry);
        if (equals)
            continue;
        const char *value = getenv(entry);
        if (!value)
            return cli_error(c, HTC_EUSAGE, "--env", "export it, or write --env NAME=VALUE", "your environment has no variable %.80s", entry);
        p->env.at[i] = plan_keep(p, without_places(entry, value));
    }
    return HTC_OK;
}

static htc_status settle_workdir(cli *c, plan *p)
{
    if (!p->workdir)
        return HTC_OK;
    if (strcmp(p->workdir, "here") != 0 && p->workdir[0] == '/')
        return HTC_OK;
    char *cwd = getcwd(NULL, 0);
    if (!cwd)
        return cli_error(c, HTC_EINPUT, "--workdir", "change to a directory that is there", "this directory has no name: %s", strerror(errno));
    char *dir = strcmp(p->workdir, "here") == 0 ? must_dup(cwd) : path_join(cwd, p->workdir);
    free(cwd);
    p->workdir = plan_keep(p, dir);
    return strchr(p->workdir, '{') ? cli_error(c, HTC_EUSAGE, "--workdir", "name another directory", "a directory with a brace in its name") : HTC_OK;
}

static htc_status settle_begin(cli *c, plan *p)
{
    double now = (double)time(NULL);
    if (!p->begin)
        return HTC_OK;
    if (when_parse(p->begin, now, &p->begin_at) == HTC_OK) {
        if (p->begin_at < now) { /* accepted, as batch systems do */
            char *said = shown(p->begin);
            fprintf(stderr, "htc: warning: --begin: %s has passed: the job may begin at once\n", said);
            free(said);
        }
        return HTC_OK;
    }
    return cli_error(c, HTC_EUSAGE, "--begin", "write now+1hour, 18:30, tomorrow or 2026-12-01T08:00", "'%.80s' is no time", p->begin);
}

htc_status wishes_settle(cli *c, plan *p)
{
    uint32_t number, seconds;
    p->numbers = (htc_array){ .size = sizeof p->numbers };
    if (p->array) {
        htc_error  e = { .status = HTC_OK };
        htc_status status = htc_array_parse(p->array, &p->numbers, &e);
        if (status != HTC_OK) {
            c->error = e;
            snprintf(c->error.where, sizeof c->error.where, "--array");
            return status;
        }
        if (p->numbers.at_once && p->max_running < 0)
            p->max_running = (int64_t)p->numbers.at_once;
    }
    if (p->signal && htc_signal_parse(p->signal, &number, &seconds) != HTC_OK)
        return cli_error(c, HTC_EUSAGE, "--signal", "write USR1@60: a signal, and how many seconds ahead of the limit", "'%.60s' is no signal", p->signal);
    htc_status s = settle_env(c, p);
    if (s == HTC_OK)
        s = settle_workdir(c, p);
    return s == HTC_OK ? settle_begin(c, p) : s;
}

/* ---- in a command ---- */

static const char *source_of_array(cli *c, plan *p)
{
    const htc_array *a = &p->numbers;
    char            *text = NULL;
    size_t           len = 0;
    if (a->n_ranges == 1 && a->count > 1)
        return plan_keep(p, must_print("array=%" PRIu64 ":%" PRIu64 ":%" PRIu64, a->range[0].first, a->range[0].last, a->range[0].step));
    if (a->count > VALUES_MAX) {
        cli_error(c, HTC_ETOOBIG, "--array", "submit it in parts", "an array of several ranges has at most %d numbers", VALUES_MAX);
        return NULL;
    }
    FILE *f = must(open_memstream(&text, &len));
    fputs("array=", f);
    for (uint64_t k = 0; k < a->count; k++)
        fprintf(f, "%s%" PRIu64, k ? "," : "", htc_array_at(a, k));
    fclose(f);
    return plan_keep(p, must(text));
}

static void add_env(plan *p, const char *name, uint64_t value)
{
    words_add(&p->env, plan_keep(p, must_print("%s=%" PRIu64, name, value)));
}

/* The number, under each name that a script may know it by. */
static void add_numbers(plan *p)
{
    const htc_array *a = &p->numbers;
    uint64_t         least = UINT64_MAX, most = 0;
    for (uint32_t i = 0; i < a->n_ranges; i++) {
        least = a->range[i].first < least ? a->range[i].first : least;
        most = a->range[i].last > most ? a->range[i].last : most;
    }
    words_add(&p->env, "HTC_ARRAY_INDEX={array}");
    if (p->compat && strcmp(p->compat, "slurm") == 0) {
        words_add(&p->env, "SLURM_ARRAY_TASK_ID={array}");
        add_env(p, "SLURM_ARRAY_TASK_COUNT", a->count);
        add_env(p, "SLURM_ARRAY_TASK_MIN", least);
        add_env(p, "SLURM_ARRAY_TASK_MAX", most);
        add_env(p, "SLURM_ARRAY_TASK_STEP", a->range[0].step);
    } else if (p->compat && strcmp(p->compat, "sge") == 0) {
        words_add(&p->env, "SGE_TASK_ID={array}");
        add_env(p, "SGE_TASK_FIRST", least);
        add_env(p, "SGE_TASK_LAST", most);
        add_env(p, "SGE_TASK_STEPSIZE", a->range[0].step);
    }
}

/* The array is the first source, so that the tasks of one number stand together; $HTC_ARRAY_INDEX uses it. */
static htc_status add_array(cli *c, plan *p)
{
    const char *source = source_of_array(c, p);
    words       all = { .dashed = SIZE_MAX };
    size_t      i = 0;
    if (!source)
        return c->error.status;
    for (; i < p->command.count && strncmp(p->command.at[i], ":::", 3) != 0; i++)
        words_add(&all, p->command.at[i]);
    words_add(&all, ":::");
    words_add(&all, source);
    for (; i < p->command.count; i++)
        words_add(&all, p->command.at[i]);
    words_free(&p->command);
    p->command = all;
    add_numbers(p);
    return HTC_OK;
}

htc_status wishes_command(cli *c, plan *p)
{
    htc_status s = HTC_OK;
    if (p->standard_input && p->standard_input[0] != '/' && strcmp(p->standard_input, "-") != 0) {
        s = staging_input(c, &p->staging, p->standard_input);
        const char *slash = strrchr(p->standard_input, '/');
        p->standard_input = slash ? slash + 1 : p->standard_input;
    } else if (p->standard_input && strcmp(p->standard_input, "/dev/null") != 0) {
        s = cli_error(c, HTC_EUSAGE, "--stdin", "name a file from here, which is staged in", "'%.80s' cannot be the standard input of tasks elsewhere", p->standard_input);
    }
    return s == HTC_OK && p->array ? add_array(c, p) : s;
}

htc_status wishes_end(cli *c, plan *p)
{
    words       w = { .dashed = SIZE_MAX };
    const char *word;
    char       *left = must_dup(p->on_end ? p->on_end : ""), *text = left;
    staging     own;
    htc_error   e = { .status = HTC_OK };
    htc_bytes   xml;
    htc_status  s = HTC_OK;
    while ((s = htc_command_word(&left, &word)) == HTC_OK)
        words_add(&w, word);
    s = s == HTC_EMPTY ? HTC_OK : cli_error(c, s, "--on-end", "close the quotation", "a quotation does not end");
    if (s == HTC_OK && p->on_end && w.count == 0)
        s = cli_error(c, HTC_EUSAGE, "--on-end", "write --on-end './report.sh last'", "there is no command");
    if (s == HTC_OK && w.count) {
        staging_begin(c, &own, !p->dry_run && !p->writes);
        s = staging_executable(c, &own, &w.at[0]);
        htc_command run = { .size = sizeof run, .words = w.at, .n_words = w.count, .in = own.stage, .n_in = own.count, .directory = p->workdir };
        if (s == HTC_OK && (s = htc_command_to_jsdl(NULL, &run, &xml, &e)) == HTC_OK) {
            p->end_xml = must(strndup(xml.data, xml.len));
            htc_work_free(NULL, xml);
        } else if (e.status != HTC_OK) {
            c->error = e;
        }
        staging_end(&own);
    }
    words_free(&w);
    free(text);
    return s;
}

static void add_wish(plan *p, const char *name, const char *value)
{
    if (value && p->n_wishes < sizeof p->wishes / sizeof p->wishes[0])
        p->wishes[p->n_wishes++] = (htc_wish){ name, value };
}

static void add_number(plan *p, const char *name, int64_t value)
{
    add_wish(p, name, plan_keep(p, must_print("%" PRId64, value)));
}

htc_status wishes_document(cli *c, plan *p)
{
    size_t  i;
    json_t *edge;
    if (json_array_size(p->edges) > 32)
        return cli_error(c, HTC_ETOOBIG, "--after", "let a job of one task wait for some of them", "a job waits for at most 32 others");
    add_wish(p, "array", p->array);
    if (p->retries >= 0)
        add_number(p, "retries", p->retries);
    if (p->priority)
        add_number(p, "priority", p->priority);
    if (p->max_running >= 0)
        add_number(p, "max_running", p->max_running);
    if (p->begin_at > 0)
        add_number(p, "begin", (int64_t)p->begin_at);
    add_wish(p, "signal", p->signal);
    add_wish(p, "paused", p->paused ? "true" : NULL);
    json_array_foreach(p->edges, i, edge)
        add_wish(p, "after", plan_keep(p, must_print("%" PRIu64 ":%s", j_u64(edge, "id"), j_str(edge, "when"))));
    add_wish(p, "output", p->output);
    add_wish(p, "error_output", p->error_output);
    add_wish(p, "compat", p->compat);
    add_wish(p, "on_end", p->end_xml);
    add_wish(p, "mail_to", p->mail_to);
    add_wish(p, "mail_on", p->mail_to ? p->mail_on : NULL);
    return HTC_OK;
}

void wishes_read(plan *p, const htc_spec *spec)
{
    const htc_wish *list;
    size_t          n = htc_spec_wishes(spec, &list);
    for (size_t i = 0; i < n; i++) {
        if (strcmp(list[i].name, "output") == 0 && !p->output)
            p->output = plan_keep(p, must_dup(list[i].value));
        if (strcmp(list[i].name, "error_output") == 0 && !p->error_output)
            p->error_output = plan_keep(p, must_dup(list[i].value));
    }
}

void wishes_request(const plan *p, json_t *request)
{
    if (p->end_xml)
        json_object_set_new(request, "on_end", json_string(p->end_xml));
    if (p->mail_to)
        json_object_set_new(request, "mail_to", json_string(p->mail_to));
    if (p->mail_to && p->mail_on)
        json_object_set_new(request, "mail_on", json_string(p->mail_on));
    if (p->mail_to && p->script_mails)
        json_object_set_new(request, "mail_if_possible", json_true());
    if (p->array)
        json_object_set_new(request, "array", json_string(p->array));
    if (p->begin_at > 0)
        json_object_set_new(request, "begin", json_real(p->begin_at));
    if (p->signal)
        json_object_set_new(request, "signal", json_string(p->signal));
}

/* ---- what is wrong with them ---- */

/* The option that an element of the document was written for; "": of several, or the command. */
static const char *option_of(const char *element)
{
    static const struct {
        const char *element, *option;
    } of[] = {
        { "/Source", "--input" }, { "/Target", "--target" }, { "/DataStaging", "--input" }, { "TotalCPUCount", "--cores" }, { "IndividualCPUCount", "--node-cores" },
        { "/Container", "--container" }, { "/CandidateHosts", "--hosts" }, { "/CPUArchitecture", "--arch" }, { "/OperatingSystem", "--os" },
        { "/WorkingDirectory", "--workdir" }, { "/Environment", "--env" }, { "/Input", "--stdin" }, { "/JobName", "--name" }, { "/JobProject", "--project" },
        { "WallTimeLimit", "--time" }, { "MemoryLimit", "--mem" },
    };
    for (size_t i = 0; i < sizeof of / sizeof of[0]; i++)
        if (strstr(element, of[i].element))
            return of[i].option;
    return "";
}

/* An element's name in a sentence is that of an option, too. */
static void name_option(htc_error *e, const char *element, const char *option)
{
    char        text[sizeof e->text];
    const char *at = strstr(e->text, element);
    if (!at)
        return;
    snprintf(text, sizeof text, "%.*s%s%s", (int)(at - e->text), e->text, option, at + strlen(element));
    memcpy(e->text, text, sizeof text);
}

htc_status plan_error(cli *c, const plan *p, htc_status s)
{
    htc_error *e = &c->error;
    if (s == HTC_OK || !p->written || c->file || !e->line)
        return s;
    const char *value = strchr(e->text, '"'); /* the element's name stands before it */
    if (value && value - e->text < 40)
        memmove(e->text, value, strlen(value) + 1);
    name_option(e, "IndividualCPUCount", "--node-cores");
    snprintf(e->where, sizeof e->where, "%s", option_of(e->where));
    e->line = e->column = 0;
    return s;
}
