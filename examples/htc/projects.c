/* htc project and htc quota. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "htc.h"
#include "sub_options.h"

/* ---- quotas ---- */

static const char *const quota_names[] = { "core_hours", "bytes", "tasks", "processes" };
static const char *const quota_titles[] = { "core hours", "bytes", "unfinished tasks", "tasks at once" };

static shown_text show_amount(const json_t *v, int bytes)
{
    shown_text t = { "-" };
    if (json_is_number(v) && bytes)
        return show_size(json_number_value(v));
    if (json_is_integer(v))
        snprintf(t.s, sizeof t.s, "%" PRIu64, (uint64_t)json_integer_value(v));
    else if (json_is_number(v))
        snprintf(t.s, sizeof t.s, "%.2f", json_number_value(v));
    return t;
}

static void print_quota(cli *c, const json_t *quota)
{
    table t;
    table_begin(&t, "QUOTA", ">USED", ">LIMIT", ">LEFT", NULL);
    for (int i = 0; i < 4; i++) {
        const json_t *one = json_object_get(quota, quota_names[i]);
        table_row(&t, "%s\t%s\t%s\t%s", quota_titles[i], show_amount(json_object_get(one, "used"), i == 1).s, show_amount(json_object_get(one, "limit"), i == 1).s,
                  show_amount(json_object_get(one, "left"), i == 1).s);
        if (json_object_get(one, "uploads")) {
            table_row(&t, "  of outputs\t%s\t\t", show_amount(json_object_get(one, "outputs"), 1).s);
            table_row(&t, "  of uploads\t%s\t\t", show_amount(json_object_get(one, "uploads"), 1).s);
        }
    }
    table_end(c, &t);
}

/* A number, "none", or "default". */
static htc_status put_limit(cli *c, json_t *request, const char *key, const char *option, const char *text, int is_size)
{
    char    *end;
    uint64_t bytes;
    if (strcmp(text, "default") == 0) {
        json_object_set_new(request, key, json_null());
        return HTC_OK;
    }
    if (strcmp(text, "none") == 0) {
        json_object_set_new(request, key, json_integer(0));
        return HTC_OK;
    }
    if (is_size && htc_command_size(text, &bytes) == HTC_OK && bytes > 0 && bytes <= INT64_MAX) {
        json_object_set_new(request, key, json_integer((json_int_t)bytes));
        return HTC_OK;
    }
    double n = strtod(text, &end);
    if (is_size || end == text || *end || !(n > 0 && n < 9e15))
        return cli_error(c, HTC_EUSAGE, option, "a number above 0, none, or default", "'%.60s' is no limit", text);
    json_object_set_new(request, key, strcmp(key, "core_hours") == 0 ? json_real(n) : json_integer((json_int_t)n));
    return n == floor(n) || strcmp(key, "core_hours") == 0 ? HTC_OK : cli_error(c, HTC_EUSAGE, option, "a whole number", "'%.60s' is no limit", text);
}

htc_status run_quota(cli *c, int argc, char **argv)
{
    const char    *limits[4] = { NULL }, *project = NULL;
    words          w;
    const opt      opts[] = { { "project", 0, OPT_TEXT, &project, "NAME", "of a project, not of a user" },
                              { "core-hours", 0, OPT_TEXT, &limits[0], "H", "run time times cores, ever; none: no limit; default: what htc.ini says" },
                              { "bytes", 0, OPT_TEXT, &limits[1], "SIZE", "outputs that are kept, and uploads of a user: 500M, 20G" },
                              { "tasks", 0, OPT_TEXT, &limits[2], "N", "unfinished tasks" },
                              { "processes", 0, OPT_TEXT, &limits[3], "N", "tasks that run at once" } };
    static const char *const names[] = { "--core-hours", "--bytes", "--tasks", "--processes" };
    const command *cmd = find_command("quota");
    json_t        *answer = NULL, *r = json_pack("{s:s}", "op", "quota");
    int            said = 0;
    htc_status     s = opt_parse(c, cmd, argc, argv, opts, 5, &w);
    if (s == HTC_OK)
        s = want_words(c, cmd, &w, 0, project ? 0 : 1);
    for (int i = 0; s == HTC_OK && i < 4; i++)
        if (limits[i]) {
            said = 1;
            s = put_limit(c, r, quota_names[i], names[i], limits[i], i == 1);
        }
    if (s == HTC_OK && said && !project && !w.count)
        s = cli_error(c, HTC_EUSAGE, "quota", "htc quota USER ..., or --project NAME", "whose quota is it?");
    if (s == HTC_OK && project)
        j_add(&r, "project", project);
    if (s == HTC_OK && w.count)
        j_add(&r, "name", w.at[0]);
    if (s == HTC_OK)
        s = said ? api_call(c, r, 0, &answer) : api_ask(c, r, 0, 5, &answer);
    else
        json_decref(r);
    if (s == HTC_OK && c->json)
        put_json(c, answer);
    else if (s == HTC_OK)
        print_quota(c, json_object_get(answer, "quota"));
    json_decref(answer);
    words_free(&w);
    return s;
}

/* ---- projects ---- */

typedef struct project_call {
    int64_t shares; /* -1: not given */
    words   users, without, w;
} project_call;

enum { PROJECT_ADD, PROJECT_SET, PROJECT_RM, PROJECT_LIST, PROJECT_COMMANDS };
#define CHANGES (1u << PROJECT_ADD | 1u << PROJECT_SET)

static const struct {
    const char *name, *args, *summary;
} project_commands[PROJECT_COMMANDS] = {
    [PROJECT_ADD] = { "add", "NAME [--shares S] [--users USER...]", "Add a project (the operator only)." },
    [PROJECT_SET] = { "set", "NAME [--shares S] [--users USER...] [--without USER...]", "Change a project (the operator only)." },
    [PROJECT_RM] = { "rm", "NAME", "Remove a project without unfinished jobs (the operator only)." },
    [PROJECT_LIST] = { "list", "", "List projects, their shares, weights and usage." },
};

static const char *project_name(uint32_t which)
{
    return project_commands[which].name;
}

static htc_status project_parse(cli *c, project_call *p, uint32_t which, int argc, char **argv)
{
    char          name[20];
    const command one = { name, which < PROJECT_COMMANDS ? project_commands[which].args : "", which < PROJECT_COMMANDS ? project_commands[which].summary : "", run_project };
    const sub_opt rows[] = {
        { CHANGES, { "shares", 0, OPT_COUNT, &p->shares, "S", "relative to those of other projects (1)" } },
        { CHANGES, { "users", 0, OPT_LIST, &p->users, "USER", "who may submit in it, separated by commas (may be repeated)" } },
        { 1u << PROJECT_SET, { "without", 0, OPT_LIST, &p->without, "USER", "who may not any more (may be repeated)" } },
    };
    const sub_opts all = { rows, sizeof rows / sizeof *rows, PROJECT_COMMANDS, project_name };
    if (which == PROJECT_COMMANDS)
        return sub_opt_parse(c, find_command("project"), &all, which, argc, argv, &p->w);
    snprintf(name, sizeof name, "project %s", project_name(which));
    htc_status s = sub_opt_parse(c, &one, &all, which, argc - 1, argv + 1, &p->w);
    return s == HTC_OK ? want_words(c, &one, &p->w, which != PROJECT_LIST, which != PROJECT_LIST) : s;
}

static void add_names(json_t *request, const char *key, const words *w)
{
    json_t *list = json_array();
    for (size_t i = 0; i < w->count; i++) {
        char *copy = must_dup(w->at[i]);
        for (char *rest = copy, *part; (part = strtok_r(rest, ",", &rest));)
            json_array_append_new(list, json_string(part));
        free(copy);
    }
    json_object_set_new(request, key, list);
}

static void print_projects(cli *c, const json_t *answer)
{
    table   t;
    size_t  i, k;
    json_t *p, *u;
    table_begin(&t, "PROJECT", ">SHARES", ">WEIGHT", ">USAGE", ">CORE HOURS", ">RUNNING", ">UNFINISHED", "USERS", NULL);
    json_array_foreach(json_object_get(answer, "projects"), i, p) {
        char   users[200] = "";
        size_t at = 0;
        json_array_foreach(json_object_get(p, "users"), k, u)
            if (at < sizeof users - 1)
                at += (size_t)snprintf(users + at, sizeof users - at, "%s%s", k ? "," : "", json_string_value(u));
        table_row(&t, "%s\t%" PRIu64 "\t%.3g\t%.2f\t%.2f\t%" PRIu64 "\t%" PRIu64 "\t%s", j_str(p, "name"), j_u64(p, "shares"), j_num(p, "weight_used"),
                  j_num(p, "usage_s") / 3600, j_num(p, "core_s") / 3600, j_u64(p, "running"), j_u64(p, "unfinished"), users);
    }
    table_end(c, &t);
    printf("\nUSAGE: core hours, halved with every %s that passes\n", show_seconds(j_num(answer, "half_life_s")).s);
}

static htc_status project_do(cli *c, const project_call *p, uint32_t which)
{
    static const char *const ops[] = { "project.add", "project.set", "project.rm", "projects" };
    json_t    *answer = NULL, *r = json_pack("{s:s}", "op", ops[which]);
    if (which != PROJECT_LIST)
        j_add(&r, "name", p->w.at[0]);
    if (p->shares >= 0)
        json_object_set_new(r, "shares", json_integer(p->shares));
    if (p->users.count)
        add_names(r, "add", &p->users);
    if (p->without.count)
        add_names(r, "rm", &p->without);
    htc_status s = which == PROJECT_LIST ? api_ask(c, r, 0, 5, &answer) : api_call(c, r, 0, &answer);
    if (s != HTC_OK)
        return s;
    if (c->json)
        put_json(c, answer);
    else if (which == PROJECT_LIST)
        print_projects(c, answer);
    else
        printf("project %s%s\n", j_str(answer, "name"), which == PROJECT_RM ? " is removed" : "");
    json_decref(answer);
    return s;
}

htc_status run_project(cli *c, int argc, char **argv)
{
    project_call p = { .shares = -1 };
    const char  *word = bring_forward(argc, argv);
    uint32_t     which = 0;
    while (which < PROJECT_COMMANDS && (!word || strcmp(project_name(which), word) != 0))
        which++;
    htc_status s = project_parse(c, &p, which, argc, argv);
    if (s == HTC_OK && which == PROJECT_COMMANDS)
        s = cli_error(c, HTC_EUSAGE, "project", "htc project list, htc project add NAME --users USER",
                      word ? "'%.60s' is not known" : "something is missing%.0s", word ? word : "");
    if (s == HTC_OK)
        s = project_do(c, &p, which);
    words_free(&p.w);
    words_free(&p.users);
    words_free(&p.without);
    return s;
}
