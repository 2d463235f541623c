/* The words of htc-sim run and htc-sim fairshare. */
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../fuzz.h"
#include "ini.h"
#include "study.h"
#include "study_command.h"
#include "values.h"

const char study_help[] =
    "usage: htc-sim run FILE.ini [options]\n"
    "       htc-sim fairshare [FILE.ini] [options]\n"
    "       htc-sim resume FILE [options]\n"
    "\n"
    "Runs a scale model: fair sharing of a cluster among many users, with the policy that the gateway has. The experiment\n"
    "is in FILE.ini, of which examples/sim/fairshare.ini is one (-: standard input); each option sets one of its keys, in\n"
    "brackets here. Spans are seconds, or have a unit: 250us, 64ms, 2s, 10min, 3h. Counts may end with K, M or G.\n"
    "\n"
    "  --cores N           of the cluster (1000) [cluster.cores]\n"
    "  --policy NAME       eq1, static, maxmin or fcfs (maxmin) [fair.policy]\n"
    "  --min-agents N      that everybody gets, if there are enough cores (1) [fair.min_agents]\n"
    "  --gap SPAN          the least time between two divisions (50ms) [fair.gap]\n"
    "  --launch SPAN       until an agent has its first task (0) [cluster.launch]\n"
    "  --pull SPAN         between two tasks of an agent (0) [cluster.pull]\n"
    "  --leave SPAN        from an agent's last task until its core is free (0) [cluster.leave]\n"
    "  --users N           that are drawn (without FILE 4) [workload.users]\n"
    "  --jobs-of-user N    of each of them (1) [workload.jobs]\n"
    "  --tasks A[..B]      of each job (1000) [workload.tasks]\n"
    "  --length LAW        of each task: SPAN, A..B, exponential SPAN or lognormal SPAN CV (60s) [workload.length]\n"
    "  --arrival LAW       from one job to the next (0) [workload.arrival]\n"
    "  --weight A[..B]     of each user (1) [workload.weight]\n"
    "  --seed S            of all that is drawn (1) [sim.seed]\n"
    "  --tick SPAN         in which virtual time passes (1ms) [sim.tick]\n"
    "  --sample SPAN       between two samples of the course (auto) [sim.sample]\n"
    "  --memory SIZE       a run that needs more is refused (three quarters of this machine's) [sim.memory]\n"
    "  --set KEY=VALUE     any key; also user.NAME.weight, user.NAME.share, job.NAME.user, .tasks, .length, .arrival\n"
    "  --vary KEY=LIST     run for each value: A,B,C, or A..B:xN (times N), or A..B:+N (plus N); may be repeated\n"
    "  --seeds A..B        run with each seed, and tell means with 95 % intervals\n"
    "  --jobs N, -j N      processes for these runs (as many as there are processors)\n"
    "  --plot DIR          write there the course as cores.csv and cores.svg, and users.csv\n"
    "  --checkpoint FILE   write there a run that is interrupted, and every ten minutes; htc-sim resume FILE goes on\n"
    "  --config FILE       the same as FILE\n"
    "  --json              one object on standard output\n"
    "  --help              this\n"
    "\n"
    "Ends with 0; 1: a run was not conserved; 2: it was called wrongly; 3: it could not be done; 4: it was interrupted,\n"
    "and what it had is told.\n";

enum { SET = 256, VARY, SEEDS, JOBS, PLOT, CHECKPOINT, CONFIG, JSON, HELP, KEYS };

/* From KEYS on: an option that sets a key. */
static const char *const key_of[] = { "cluster.cores", "fair.policy", "fair.min_agents", "fair.gap", "cluster.launch", "cluster.pull", "cluster.leave", "workload.users",
                                      "workload.jobs", "workload.tasks", "workload.length", "workload.arrival", "workload.weight", "sim.seed", "sim.tick", "sim.sample",
                                      "sim.memory" };
static const struct option options[] = { { "cores", 1, NULL, KEYS },       { "policy", 1, NULL, KEYS + 1 },  { "min-agents", 1, NULL, KEYS + 2 },   { "gap", 1, NULL, KEYS + 3 },
                                         { "launch", 1, NULL, KEYS + 4 },  { "pull", 1, NULL, KEYS + 5 },    { "leave", 1, NULL, KEYS + 6 },        { "users", 1, NULL, KEYS + 7 },
                                         { "jobs-of-user", 1, NULL, KEYS + 8 }, { "tasks", 1, NULL, KEYS + 9 }, { "length", 1, NULL, KEYS + 10 },   { "arrival", 1, NULL, KEYS + 11 },
                                         { "weight", 1, NULL, KEYS + 12 }, { "seed", 1, NULL, KEYS + 13 },   { "tick", 1, NULL, KEYS + 14 },        { "sample", 1, NULL, KEYS + 15 },
                                         { "memory", 1, NULL, KEYS + 16 }, { "set", 1, NULL, SET },          { "vary", 1, NULL, VARY },             { "seeds", 1, NULL, SEEDS },
                                         { "jobs", 1, NULL, JOBS },        { "plot", 1, NULL, PLOT },        { "checkpoint", 1, NULL, CHECKPOINT }, { "config", 1, NULL, CONFIG },         { "json", 0, NULL, JSON },
                                         { "help", 0, NULL, HELP },        { NULL, 0, NULL, 0 } };

#define usage(...) usage_of("htc-sim fairshare", __VA_ARGS__)

static int refuse(const htc_error *e)
{
    say_error(e);
    return EXIT_USAGE;
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
    v->key = text;
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
        return usage("--seeds takes two numbers, A..B, the first not above the second, not %s", text);
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
    return settings_set(y->base, text, equals + 1, &e) ? EXIT_FINE : refuse(&e);
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
    case JSON:
        y->json = 1;
        return EXIT_FINE;
    default:
        return option < KEYS || settings_set(y->base, key_of[option - KEYS], value, &e) ? EXIT_FINE : refuse(&e);
    }
}

/* The file, before the options that change what it says. */
static int take_file(study *y, int argc, char **argv)
{
    int         run = strcmp(argv[0], "run") == 0, resume = strcmp(argv[0], "resume") == 0;
    const char *file = NULL;
    int         option;
    htc_error   e;
    while ((option = getopt_long(argc, argv, "j:", options, NULL)) != -1) {
        if (option == '?')
            return usage("no such option, or without its value: %s", argv[optind - 1]);
        if (option == CONFIG)
            file = optarg;
        if (option == HELP)
            return -1;
    }
    if (optind < argc && !file)
        file = argv[optind++];
    if (optind < argc)
        return usage("one experiment is run: %s, and not %s too", file, argv[optind]);
    if (!file && run)
        return usage("a file is missing: htc-sim run FILE.ini; without one, htc-sim fairshare [options]");
    if (resume) {
        checkpoint c;
        y->resume = y->checkpoint = file;
        if (!file)
            return usage("a file is missing: htc-sim resume FILE, which --checkpoint FILE has made");
        int good = checkpoint_read(&c, file, y->base, &e);
        checkpoint_close(&c);
        return good ? EXIT_FINE : refuse(&e);
    }
    if (file)
        return ini_read(y->base, file, &e) ? EXIT_FINE : refuse(&e);
    return settings_set(y->base, "workload.users", "4", &e) ? EXIT_FINE : refuse(&e);
}

int study_options_read(int argc, char **argv, study *y, int *done)
{
    int option;
    *done = 1;
    *y = (study){ .base = settings_create(fairshare_table) };
    if (!y->base)
        return EXIT_BROKEN;
    opterr = 0;
    optind = 1;
    int ends = take_file(y, argc, argv);
    if (ends == -1) {
        fputs(study_help, stdout);
        return EXIT_FINE;
    }
    optind = 1;
    while (ends == EXIT_FINE && (option = getopt_long(argc, argv, "j:", options, NULL)) != -1)
        ends = take(y, option, optarg);
    if (ends == EXIT_FINE && y->seeds == 0) {
        y->seed = settings_count(y->base, "sim.seed");
        y->seeds = 1;
    }
    if (ends == EXIT_FINE)
        ends = check_vary(y);
    if (ends == EXIT_FINE && y->checkpoint && (y->n_vary || y->seeds > 1))
        ends = usage("a checkpoint is of one run: without --vary and --seeds");
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
