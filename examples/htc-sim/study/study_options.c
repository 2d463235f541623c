/* The words of htc-sim run, resume, and of each model. */
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../fuzz.h"
#include "../policies.h"
#include "ini.h"
#include "plot.h"
#include "study.h"
#include "study_command.h"
#include "values.h"

enum { SET = 256, VARY, SEEDS, JOBS, PLOT, CHECKPOINT, CONFIG, JSON, HELP, SEED, MEMORY, POLICY_FROM, MEASURES, COSTS, STOP_AFTER, CSV, KEYS };

static const struct option common[] = { { "set", 1, NULL, SET },       { "vary", 1, NULL, VARY },     { "seeds", 1, NULL, SEEDS }, { "jobs", 1, NULL, JOBS },
                                        { "plot", 1, NULL, PLOT },     { "checkpoint", 1, NULL, CHECKPOINT }, { "config", 1, NULL, CONFIG }, { "json", 0, NULL, JSON },
                                        { "help", 0, NULL, HELP },     { "seed", 1, NULL, SEED },     { "memory", 1, NULL, MEMORY }, { "policy-from", 1, NULL, POLICY_FROM }, { "measures", 1, NULL, MEASURES },
                                        { "costs", 1, NULL, COSTS },     { "stop-after", 1, NULL, STOP_AFTER },
                                        { "csv", 0, NULL, CSV } };
#define COMMON      (sizeof common / sizeof *common)
#define OPTIONS_MAX 512

/* From KEYS on: options of the model, each of which sets a key. m NULL: of any model, to find the file with. */
static void options_of(const model *m, struct option *out)
{
    size_t n = COMMON;
    memcpy(out, common, sizeof common);
    for (const model *const *one = models; *one; one++)
        for (int i = 0; (!m || m == *one) && (*one)->options[i].name && n + 1 < OPTIONS_MAX; i++)
            out[n++] = (struct option){ (*one)->options[i].name, 1, NULL, KEYS + i };
    out[n] = (struct option){ NULL, 0, NULL, 0 };
}

#define usage(...) usage_of("htc-sim run", __VA_ARGS__)

static int refuse(const htc_error *e)
{
    say_error(e);
    return EXIT_USAGE;
}

/* A key, or an option's name in place of the key that it sets: keys have a point, and options none. */
static const char *key_of(const model *m, const char *name)
{
    for (int i = 0; m->options[i].name; i++)
        if (strcmp(m->options[i].name, name) == 0)
            return m->options[i].key;
    return strcmp(name, "seed") == 0 ? "sim.seed" : strcmp(name, "memory") == 0 ? "sim.memory" : name;
}

/* ---- values that vary ---- */

static int add_value(vary *v, const char *text, size_t n)
{
    if (v->n == VALUES_MAX || n == 0 || !(v->value[v->n] = strndup(text, n)))
        return 0;
    v->n++;
    return 1;
}

/* A..B:xN or A..B:+N; the last value is B. 1; 0: it is no such range. */
static int add_range(vary *v, const char *text)
{
    const char *dots = strstr(text, ".."), *colon = strrchr(text, ':');
    char        a[32], b[32], number[32];
    uint64_t    from, to, by;
    if (!dots || !colon || colon < dots || !strchr("x+", colon[1]) || !colon[1])
        return 0;
    snprintf(a, sizeof a, "%.*s", (int)(dots - text), text);
    snprintf(b, sizeof b, "%.*s", (int)(colon - dots - 2), dots + 2);
    if (!value_count(a, &from) || !value_count(b, &to) || !value_count(colon + 2, &by) || from > to || by < 1 || (colon[1] == 'x' && (by < 2 || from == 0)))
        return 0;
    for (uint64_t at = from;; at = colon[1] == 'x' ? at * by : at + by) {
        int last = at >= to || at > UINT64_MAX / (by + 1);
        snprintf(number, sizeof number, "%llu", (unsigned long long)(last ? to : at));
        if (!add_value(v, number, strlen(number)))
            return 0;
        if (last)
            return 1;
    }
}

static int add_vary(study *y, char *text)
{
    char *equals = strchr(text, '=');
    vary *v = &y->vary[y->n_vary];
    if (!equals || y->n_vary == VARY_MAX)
        return usage(equals ? "at most 8 keys can vary" : "--vary takes KEY=LIST, not %s", text);
    *equals = '\0';
    v->key = key_of(y->model, text);
    y->n_vary++;
    if (!(strstr(equals + 1, "..") && strrchr(equals + 1, ':'))) {
        for (const char *at = equals + 1; at; at = strchr(at, ',') ? strchr(at, ',') + 1 : NULL)
            if (!add_value(v, at, strcspn(at, ",")))
                return usage("--vary %s takes at most 256 values with commas between them, none of them empty", text);
    } else if (!add_range(v, equals + 1)) {
        return usage("--vary %s takes A,B,C, A..B:xN or A..B:+N with A not above B, not %s", text, equals + 1);
    }
    return EXIT_FINE;
}

static int check_vary(study *y)
{
    y->combinations = 1;
    for (size_t k = 0; k < y->n_vary; k++) {
        if (strcmp(y->vary[k].key, "sim.seed") == 0)
            return usage("seeds vary by --seeds A..B");
        if (y->combinations > 1000000 / y->vary[k].n)
            return usage("that is more than 1000000 runs");
        y->combinations *= y->vary[k].n;
        for (size_t i = 0; i < y->vary[k].n; i++) {
            settings *s = settings_copy(y->base);
            htc_error e = { .status = HTC_ENOMEM, .text = "no memory for the settings" };
            int       good = s && settings_set(s, y->vary[k].key, y->vary[k].value[i], &e);
            settings_destroy(s);
            if (!good)
                return refuse(&e);
        }
    }
    return y->combinations > 1000000 / y->seeds ? usage("that is more than 1000000 runs") : EXIT_FINE;
}

/* ---- the command line ---- */

static int take_seeds(study *y, const char *text)
{
    char      first[32];
    htc_error e;
    uint64_t  to;
    if (!strstr(text, "..") || !value_counts(text, &y->seed, &to) || to - y->seed >= 1000000)
        return usage("--seeds takes two numbers, A..B, the first not above the second and at most a million seeds, not %s", text);
    y->seeds = to - y->seed + 1;
    snprintf(first, sizeof first, "%llu", (unsigned long long)y->seed);
    return settings_set(y->base, "sim.seed", first, &e) ? EXIT_FINE : refuse(&e); /* a checkpoint has it */
}

static int take_set(study *y, char *text)
{
    htc_error e;
    char     *equals = strchr(text, '=');
    if (!equals)
        return usage("--set takes KEY=VALUE, not %s", text);
    *equals = '\0';
    return settings_set(y->base, key_of(y->model, text), equals + 1, &e) ? EXIT_FINE : refuse(&e);
}

static int is_measure(const model *m, const char *name, size_t n)
{
    for (const measure *one = m->measures; one->name; one++)
        if (strlen(one->name) == n && strncmp(one->name, name, n) == 0)
            return 1;
    return 0;
}

static int check_measures(const study *y, const char *list)
{
    char names[900];
    for (const char *at = list; at; at = strchr(at, ',') ? strchr(at, ',') + 1 : NULL) {
        size_t len = strcspn(at, ","), n = 0;
        if (is_measure(y->model, at, len))
            continue;
        for (const measure *m = y->model->measures; m->name && n < sizeof names; m++)
            n += (size_t)snprintf(names + n, sizeof names - n, "%s%s", n ? ", " : "", m->name);
        return usage("--measures takes names with commas between them, and \"%.*s\" is none of %s", (int)len, at, names);
    }
    return EXIT_FINE;
}

typedef struct costs {
    study      *study;
    const char *file;
    int         found;
} costs;

/* KEY = VALUE of the section with the model's name. */
static int take_cost(void *ctx, uint32_t line, const char *section, const char *key, const char *value, htc_error *error)
{
    costs *c = ctx;
    if (strcmp(section, c->study->model->name) != 0)
        return 1;
    c->found = 1;
    if (key && !settings_set(c->study->base, key, value, error))
        return 0;
    if (key)
        settings_stands(c->study->base, c->file, line);
    return 1;
}

static int take_costs(study *y, const char *file)
{
    htc_error e;
    costs     c = { y, file, 0 };
    ini_text *text = ini_open(file, &e);
    int       good = text && ini_each(text, take_cost, &c, &e);
    ini_close(text);
    if (!good)
        return refuse(&e);
    return c.found ? EXIT_FINE : usage("%s has no section [%s]: htc-sim calibrate writes such files, and says of which models they are", file, y->model->name);
}

static int take(study *y, int option, char *value)
{
    htc_error e;
    uint64_t  jobs;
    switch (option) {
    case SET:
        return take_set(y, value);
    case VARY:
        return add_vary(y, value);
    case SEEDS:
        return take_seeds(y, value);
    case 'j':
    case JOBS:
        if (!number_in(value, 1, 256, &jobs))
            return usage("--jobs takes a number from 1 to 256, not %s", value);
        y->jobs = (uint32_t)jobs;
        return EXIT_FINE;
    case PLOT:
        y->plot = value;
        return value[0] ? EXIT_FINE : usage("--plot takes the name of a folder");
    case CHECKPOINT:
        y->checkpoint = value;
        return value[0] ? EXIT_FINE : usage("--checkpoint takes the name of a file");
    case STOP_AFTER:
        return value_count(value, &y->stop_after) && y->stop_after ? EXIT_FINE : usage("--stop-after takes a number of events from 1, not %s", value);
    case MEASURES:
        y->measures = value;
        return check_measures(y, value);
    case JSON:
        y->json = 1;
        return EXIT_FINE;
    case CSV:
        y->csv = 1;
        return EXIT_FINE;
    case COSTS:
        return take_costs(y, value);
    case SEED:
    case MEMORY:
        return settings_set(y->base, option == SEED ? "sim.seed" : "sim.memory", value, &e) ? EXIT_FINE : refuse(&e);
    default:
        return option < KEYS || settings_set(y->base, y->model->options[option - KEYS].key, value, &e) ? EXIT_FINE : refuse(&e);
    }
}

/* ---- which model, and what its file says ---- */

/* The command line as far as it concerns neither: where the file is, and policies, whose names it may have. 1: help is wanted. */
static int find_file(int argc, char **argv, const char **file, int *ends)
{
    struct option options[OPTIONS_MAX];
    int           option, help = 0;
    htc_error     e;
    options_of(model_of(argv[0]), options);
    *file = NULL;
    *ends = EXIT_FINE;
    while ((option = getopt_long(argc, argv, ":j:", options, NULL)) != -1) {
        if (option == '?' || option == ':') {
            *ends = usage_of_option(argv[0], option, argv[optind - 1], options);
            return 0;
        }
        if (option == CONFIG)
            *file = optarg;
        if (option == POLICY_FROM && *ends == EXIT_FINE && !policies_from(optarg, &e))
            *ends = refuse(&e);
        help |= option == HELP;
    }
    if (optind < argc && !*file)
        *file = argv[optind++];
    if (optind < argc && !help && *ends == EXIT_FINE)
        *ends = usage("one experiment is run: %s, and not %s too", *file, argv[optind]);
    return help;
}

static int begin(study *y, const model *m)
{
    htc_error e;
    settings_destroy(y->base);
    y->model = m;
    y->base = settings_create(m->table);
    return y->base && settings_set(y->base, "sim.model", m->name, &e); /* so that a checkpoint has it */
}

static void list_models(char *out, size_t room, const char *front)
{
    size_t n = (size_t)snprintf(out, room, "%s", front);
    for (const model *const *m = models; *m && n < room; m++)
        n += (size_t)snprintf(out + n, room - n, "%s %s", m == models ? "" : ",", (*m)->name);
}

static int take_checkpoint(study *y, const char *file)
{
    htc_error e = { 0 };
    for (const model *const *m = models; *m; m++) {
        checkpoint c;
        if (!begin(y, *m))
            return EXIT_BROKEN;
        int good = checkpoint_read(&c, file, y->base, &e);
        checkpoint_close(&c);
        if (good || e.status != HTC_ECONFIG) /* else it is of another model */
            return good ? EXIT_FINE : refuse(&e);
    }
    return refuse(&e);
}

/* Policies of files have to have a key in which their names may stand. */
static int check_policies(const model *m)
{
    char   names[200];
    size_t n = 0;
    if (!policies_are_added() || model_has_policies(m))
        return EXIT_FINE;
    for (const model *const *one = models; *one && n < sizeof names; one++)
        if (model_has_policies(*one))
            n += (size_t)snprintf(names + n, sizeof names - n, "%s%s", n ? ", " : "", (*one)->name);
    return usage("the model %s has no policy that a file can bring: --policy-from is for %s", m->name, names);
}

/* The file, before the options that change what it says. */
static int take_file(study *y, const char *command, const char *file)
{
    int          run = strcmp(command, "run") == 0, resume = strcmp(command, "resume") == 0;
    const model *m = model_of(command);
    htc_error    e = { 0 };
    char         name[64] = "";
    if (!file && (run || resume))
        return resume ? usage_of("htc-sim resume", "a file is missing: htc-sim resume FILE, which --checkpoint FILE has made") :
                        usage("a file is missing: htc-sim run FILE.ini; without one, htc-sim MODEL [options]");
    y->resume = y->checkpoint = resume ? file : NULL;
    if (resume)
        return take_checkpoint(y, file);
    ini_text *text = file ? ini_open(file, &e) : NULL;
    if (file && !text)
        return refuse(&e);
    if (text && !m && ini_find(text, "sim", "model", name, sizeof name))
        m = model_of(name);
    int known = m != NULL;
    if (!m && !name[0]) {
        snprintf(e.where, sizeof e.where, "%.150s", file);
        snprintf(e.text, sizeof e.text, "it does not name a model");
        list_models(e.hint, sizeof e.hint, "write model = NAME below [sim]; models are");
        ini_close(text);
        return refuse(&e);
    }
    if (!m)
        m = models[0];
    int good = begin(y, m);
    if (good && text)
        good = ini_read(y->base, text, &e);
    if (!good && !known) /* the first of the models has refused it */
        list_models(e.hint, sizeof e.hint, "models are");
    for (const model_preset *p = m->presets; good && !text && p->key; p++)
        good = settings_set(y->base, p->key, p->value, &e);
    ini_close(text);
    return good ? EXIT_FINE : refuse(&e);
}

int study_options_read(int argc, char **argv, study *y, int *done)
{
    struct option options[OPTIONS_MAX];
    const char   *file;
    int           option, ends;
    *done = 1;
    *y = (study){ .model = NULL };
    opterr = 0;
    optind = 1;
    if (find_file(argc, argv, &file, &ends)) {
        study_help(argv[0]);
        return EXIT_FINE;
    }
    if (ends == EXIT_FINE)
        ends = take_file(y, argv[0], file);
    if (ends == EXIT_FINE)
        options_of(y->model, options);
    optind = 1;
    while (ends == EXIT_FINE && (option = getopt_long(argc, argv, ":j:", options, NULL)) != -1)
        ends = option == '?' || option == ':' ? usage_of_option(y->model->name, option, argv[optind - 1], options) : take(y, option, optarg);
    int seeds_given = y->seeds > 0;
    if (ends == EXIT_FINE && y->seeds == 0) {
        y->seed = settings_count(y->base, "sim.seed");
        y->seeds = 1;
    }
    if (ends == EXIT_FINE)
        ends = check_policies(y->model);
    if (ends == EXIT_FINE)
        ends = check_vary(y);
    if (ends == EXIT_FINE && (y->checkpoint || y->stop_after) && !y->model->resume)
        ends = usage("runs of the model %s have no checkpoints", y->model->name);
    if (ends == EXIT_FINE && y->resume && (y->n_vary || seeds_given))
        ends = usage_of("htc-sim resume", "a checkpoint is of one run, with the seed that it has: htc-sim resume takes neither --vary nor --seeds");
    if (ends == EXIT_FINE && y->checkpoint && policies_are_added())
        ends = usage("a checkpoint does not hold what a policy of a file remembers: without --policy-from");
    if (ends == EXIT_FINE && y->checkpoint && (y->n_vary || y->seeds > 1))
        ends = usage("a checkpoint is of one run: without --vary and --seeds");
    if (ends == EXIT_FINE && y->stop_after && (y->n_vary || y->seeds > 1))
        ends = usage("--stop-after is of one run: without --vary and --seeds");
    if (ends == EXIT_FINE && settings_text(y->base, "sim.history")[0] && (y->n_vary || y->seeds > 1))
        ends = usage("a history (sim.history) is of one run: without --vary and --seeds");
    if (ends == EXIT_FINE && y->csv && (y->json || y->checkpoint || y->stop_after))
        ends = usage("--csv writes the table of whole runs: without --json, --checkpoint and --stop-after, and not of htc-sim resume");
    htc_error e;
    if (ends == EXIT_FINE && y->plot && !plot_folder(y->plot, &e)) { /* now, and not after hours */
        say_error(&e);
        ends = EXIT_BROKEN;
    }
    *done = ends != EXIT_FINE;
    return ends;
}

void study_options_free(study *y)
{
    for (size_t k = 0; k < y->n_vary; k++)
        for (size_t i = 0; i < y->vary[k].n; i++)
            free(y->vary[k].value[i]);
    settings_destroy(y->base);
}
