#include "reproduce.h"

#include <errno.h>
#include <getopt.h>
#include <glob.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "../fuzz.h"
#include "../study/ini.h"
#include "../study/plot.h"
#include "../study/study.h"
#include "../study/values.h"

#define FILES_MAX 512

const char reproduce_help[] =
    "usage: htc-sim reproduce [NAME...] [options]\n"
    "\n"
    "Runs published experiments and says of each published value what ours is, how far they are apart,\n"
    "and whether that is within what was allowed beforehand. NAME is that of an experiment, its beginning\n"
    "with *, or a file; none: all of them.\n"
    "\n"
    "  --list            name them, and run nothing\n"
    "  --from DIR        where they are (examples/sim of the source, else where they are installed)\n"
    "  --full            the largest sizes too, which each file names: hours, and much memory\n"
    "  --quick           those alone that take some seconds\n"
    "  --live            the series that measure this machine too: they run the commands that a file\n"
    "                    names\n"
    "  --jobs N, -j N    processes (as many as there are processors)\n"
    "  --memory SIZE     of all of them together (three quarters of this machine's)\n"
    "  --keep DIR        keep there what each run has found, and do not again what is there of the same\n"
    "                    program and settings: an interrupted command goes on\n"
    "  --plot DIR        draw curves there, with the published values\n"
    "  --report FILE     write a report in Markdown, with its pictures in the folder FILE without its\n"
    "                    ending\n"
    "  --json            one object on standard output\n"
    "  --help            this\n"
    "\n"
    "Ends with 0: every claim holds, or its file says why not; 1: one does not hold, or its value is not\n"
    "what its file has it was; 2: it was called wrongly; 3: it could not be done; 4: it was interrupted,\n"
    "and what it had is told.\n";

#define usage(...) usage_of("htc-sim reproduce", __VA_ARGS__)

enum { LIST = 256, FROM, FULL, QUICK, LIVE, JOBS, MEMORY, KEEP, PLOT, REPORT, JSON, HELP };
static const struct option options[] = { { "list", 0, NULL, LIST },     { "from", 1, NULL, FROM },     { "full", 0, NULL, FULL }, { "quick", 0, NULL, QUICK },
                                         { "live", 0, NULL, LIVE },     { "jobs", 1, NULL, JOBS },     { "memory", 1, NULL, MEMORY }, { "keep", 1, NULL, KEEP }, { "plot", 1, NULL, PLOT },
                                         { "report", 1, NULL, REPORT }, { "json", 0, NULL, JSON },     { "help", 0, NULL, HELP },     { NULL, 0, NULL, 0 } };

typedef struct words {
    char **name;
    int    names;
    char   from[512], pictures[512];
} words;

static void find_folder(words *w)
{
    if (!w->from[0])
        snprintf(w->from, sizeof w->from, "%s", experiments_folder());
}

static int take(reproduction *r, words *w, int option, char *value)
{
    uint64_t n;
    switch (option) {
    case LIST:
        r->list = 1;
        return EXIT_FINE;
    case FROM:
        snprintf(w->from, sizeof w->from, "%s", value);
        return strlen(value) < sizeof w->from && value[0] ? EXIT_FINE : usage("--from takes the name of a folder");
    case FULL:
        r->full = 1;
        return EXIT_FINE;
    case QUICK:
        r->quick = 1;
        return EXIT_FINE;
    case LIVE:
        r->live = 1;
        return EXIT_FINE;
    case 'j':
    case JOBS:
        if (!number_in(value, 1, 256, &n))
            return usage("--jobs takes a number from 1 to 256, not %s", value);
        r->jobs = (uint32_t)n;
        return EXIT_FINE;
    case MEMORY:
        return value_size(value, &r->memory_max) ? EXIT_FINE : usage("--memory takes bytes: 512M, 8G, not %s", value);
    case KEEP:
        r->keep = value;
        return value[0] && strlen(value) < 500 ? EXIT_FINE : usage("--keep takes the name of a folder");
    case PLOT:
        r->plot = value;
        return value[0] ? EXIT_FINE : usage("--plot takes the name of a folder");
    case REPORT:
        r->report = value;
        return value[0] && strlen(value) < 500 ? EXIT_FINE : usage("--report takes the name of a file");
    case JSON:
        r->json = 1;
        return EXIT_FINE;
    default:
        return usage("no such option, or without its value");
    }
}

/* The folder of a report's pictures. */
static void report_folder(reproduction *r, words *w)
{
    const char *base = strrchr(r->report, '/') ? strrchr(r->report, '/') + 1 : r->report, *dot = strrchr(base, '.');
    size_t      n = dot && dot > base ? (size_t)(dot - r->report) : strlen(r->report);
    snprintf(w->pictures, sizeof w->pictures, "%.*s%s", (int)n, r->report, dot && dot > base ? "" : "-pictures");
    r->plot = r->plot ? r->plot : w->pictures;
}

/* For the commands of series: where htc-sim and the experiments are. */
static void tell_commands(const words *w)
{
    char    self[1024], *absolute = realpath(w->from, NULL);
    ssize_t n = readlink("/proc/self/exe", self, sizeof self - 1);
    if (n > 0) {
        self[n] = '\0';
        *strrchr(self, '/') = '\0';
        setenv("HTC_SIM_BIN", self, 1);
    }
    if (absolute)
        setenv("HTC_SIM_FROM", absolute, 1);
    free(absolute);
}

/* ---- the files ---- */

static int refuse(const htc_error *e)
{
    say_error(e);
    return EXIT_USAGE;
}

/* Not of a single run: it compares. 1; 0: it is not; -1: it cannot be read, and it is said. */
static int compares(const char *file)
{
    htc_error e;
    char      paper[64];
    ini_text *t = ini_open(file, &e);
    if (!t)
        return refuse(&e), -1;
    int found = ini_find(t, "reproduce", "paper", paper, sizeof paper);
    ini_close(t);
    return found;
}

static int add(reproduction *r, const char *file)
{
    htc_error e;
    for (size_t i = 0; i < r->n; i++)
        if (strcmp(r->experiment[i]->file, file) == 0)
            return EXIT_FINE;
    if (r->n == FILES_MAX)
        return usage("at most 512 experiments");
    experiment *x = experiment_open(file, &e);
    if (!x)
        return refuse(&e);
    if (r->quick && !x->quick)
        experiment_close(x);
    else
        r->experiment[r->n++] = x;
    return EXIT_FINE;
}

/* all: no name was given. */
static int none_found(const words *w, const char *name, int all)
{
    if (strchr(name, '/'))
        return usage("%s is no experiment: a file NAME.ini is one that has a section [reproduce]", name);
    if (access(w->from, R_OK | X_OK) != 0)
        return usage("the experiments are looked for in the folder %s, which cannot be read (%s): --from DIR names another, as examples/sim of the source", w->from, strerror(errno));
    if (all)
        return usage("the folder %s has no experiments: --from DIR names another, as examples/sim of the source", w->from);
    return usage("there is no experiment %s in %s: htc-sim reproduce --list names them, --from DIR says where they are", name, w->from);
}

static int add_all(reproduction *r, const words *w, const char *name)
{
    char   pattern[1100];
    glob_t found = { 0 };
    int    ends = EXIT_FINE;
    size_t any = 0;
    snprintf(pattern, sizeof pattern, strchr(name, '/') || strstr(name, ".ini") ? "%.0s%s" : "%s/%s.ini", w->from, name);
    if (strchr(name, '/') == NULL && strstr(name, ".ini") && access(name, R_OK) != 0)
        snprintf(pattern, sizeof pattern, "%s/%s", w->from, name);
    if (glob(pattern, 0, NULL, &found) == 0)
        for (size_t i = 0; i < found.gl_pathc && ends == EXIT_FINE; i++) {
            int yes = compares(found.gl_pathv[i]);
            ends = yes < 0 ? EXIT_USAGE : yes ? add(r, found.gl_pathv[i]) : EXIT_FINE;
            any += yes > 0;
        }
    globfree(&found);
    if (ends == EXIT_FINE && !any)
        ends = none_found(w, name, !w->names);
    return ends;
}

static int find_files(reproduction *r, const words *w)
{
    int ends = EXIT_FINE;
    if (!(r->experiment = calloc(FILES_MAX, sizeof(experiment *)))) {
        fprintf(stderr, "htc-sim: no memory for the experiments\n");
        return EXIT_BROKEN;
    }
    for (int i = 0; i < w->names && ends == EXIT_FINE; i++)
        ends = add_all(r, w, w->name[i]);
    return w->names ? ends : add_all(r, w, "*");
}

static void list(const reproduction *r)
{
    for (size_t i = 0; i < r->n; i++)
        printf("%-24s %s, %s: %s%s\n", r->experiment[i]->id, r->experiment[i]->paper, r->experiment[i]->name, r->experiment[i]->about, r->experiment[i]->quick ? " (quick)" : "");
}

/* Runs may take hours: what they are to be written into is tried before. */
static int can_write(const reproduction *r)
{
    htc_error e;
    FILE     *out = r->report ? fopen(r->report, "a") : NULL;
    if (r->report && !out)
        fprintf(stderr, "htc-sim: %s cannot be written: %s\n", r->report, strerror(errno));
    if (r->report && (!out || fclose(out) != 0))
        return 0;
    if (r->keep && ((mkdir(r->keep, 0777) != 0 && errno != EEXIST) || access(r->keep, W_OK | X_OK) != 0)) {
        fprintf(stderr, "htc-sim: nothing can be kept in %s: %s\n", r->keep, strerror(errno));
        return 0;
    }
    if (!r->plot || plot_folder(r->plot, &e))
        return 1;
    say_error(&e);
    return 0;
}

static int run(reproduction *r)
{
    if (!can_write(r))
        return EXIT_BROKEN;
    int how = reproduction_run(r), bad = 0;
    if (how < 0)
        return EXIT_BROKEN;
    r->interrupted = how;
    for (size_t i = 0; i < r->n && r->plot; i++)
        bad |= curves_draw(r->experiment[i], r->plot) != 0;
    if (r->report)
        bad |= report_write(r, r->report) != 0;
    size_t fails = reproduction_say(r);
    return bad ? EXIT_BROKEN : how ? EXIT_STOPPED : fails ? EXIT_FAILED : EXIT_FINE;
}

int reproduce_command(int argc, char **argv)
{
    reproduction r = { .jobs = 0 };
    words        w = { .names = 0 };
    int          option, ends = EXIT_FINE;
    opterr = 0;
    optind = 1;
    while (ends == EXIT_FINE && (option = getopt_long(argc, argv, ":j:", options, NULL)) != -1) {
        if (option == HELP) {
            fputs(reproduce_help, stdout);
            return EXIT_FINE;
        }
        ends = option == '?' || option == ':' ? usage_of_option("reproduce", option, argv[optind - 1], options) : take(&r, &w, option, optarg);
    }
    w.name = argv + optind;
    w.names = argc - optind;
    find_folder(&w);
    if (r.live && !r.jobs)
        r.jobs = 1; /* else what is measured is each other */
    if (r.report)
        report_folder(&r, &w);
    if (ends == EXIT_FINE)
        ends = find_files(&r, &w);
    tell_commands(&w);
    if (ends == EXIT_FINE && r.list)
        list(&r);
    else if (ends == EXIT_FINE)
        ends = run(&r);
    for (size_t i = 0; i < r.n; i++)
        experiment_close(r.experiment[i]);
    free(r.experiment);
    return ends;
}
