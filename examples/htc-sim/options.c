/* The words of the command line of htc-sim. */
#include <errno.h>
#include <getopt.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "flow.h"
#include "fuzz.h"
#include "reproduce/reproduce.h"
#include "study/study_command.h"
#include "study/values.h"

static const char help[] =
    "usage: htc-sim fuzz [--seeds A..B | --seed S] [options]\n"
    "\n"
    "Runs whole replicated stores in virtual time, one for each seed, under the faults that it draws, and\n"
    "judges every answer that clients were given; or whole systems of store, gateway, agents and users,\n"
    "and looks that no task is done twice or lost. The same seed is the same run.\n"
    "\n"
    "  --scenario NAME   store, system, or flows: systems in which agents work at flows too (store)\n"
    "  --seeds A..B      from the seed A up to B (1..1000)\n"
    "  --seed S          that seed alone\n"
    "  --trace           with --seed: print the history, a line for each operation, with --verbose also\n"
    "                    every input of members and clients but timeouts; of a system every such input\n"
    "                    and all that is logged\n"
    "  --kept FILE       write there what has run, a line for each thousand seeds, and do not run again\n"
    "                    what is there\n"
    "  --jobs N          processes (as many as there are processors)\n"
    "  --json            one object on standard output\n"
    "  --verbose         a line for each seed, with its virtual time (of a system: until all jobs had\n"
    "                    ended)\n"
    "  --help            this\n"
    "  --version         the version\n"
    "\n"
    "Of stores alone:\n"
    "  --cells KIND      memory, or log: where members keep their records (drawn)\n"
    "  --members N       3 to 7 (drawn: 3, sometimes 5)\n"
    "  --operations N    asked while there is trouble (drawn)\n"
    "  --search          look for an order of each key's operations as well, the slow way\n"
    "\n"
    "Ends with 0: nothing wrong was answered; 1: a seed has failed, and how to see it again is said; 2:\n"
    "it was called wrongly; 3: it could not be done.\n";

const char *fuzz_scenario_name(fuzz_scenario scenario)
{
    static const char *const names[] = { "store", "system", "flows" };
    return names[scenario];
}

int usage_of(const char *command, const char *format, ...)
{
    va_list ap;
    fprintf(stderr, "htc-sim: ");
    va_start(ap, format);
    vfprintf(stderr, format, ap);
    va_end(ap);
    fprintf(stderr, "\nTry %s --help.\n", command);
    return EXIT_USAGE;
}

int usage_of_option(const char *command, int how, const char *text, const struct option *options)
{
    char        name[40], called[64];
    const char *best = NULL;
    size_t      least = 1 + strcspn(text, "=") / 3; /* so many letters are another word */
    snprintf(name, sizeof name, "%.*s", (int)strcspn(text, "="), text);
    snprintf(called, sizeof called, "htc-sim%s%.40s", command[0] ? " " : "", command);
    if (how == ':')
        return usage_of(called, "%s takes a value", name);
    for (const struct option *o = options; o->name && name[0] == '-' && name[1] == '-'; o++)
        if (value_distance(name + 2, o->name) < least) {
            best = o->name;
            least = value_distance(name + 2, best);
        }
    return best ? usage_of(called, "%s has no option %s; did you mean --%s?", called, name, best) : usage_of(called, "%s has no option %s", called, name);
}

#define usage(...) usage_of("htc-sim fuzz", __VA_ARGS__)

int number_in(const char *text, uint64_t min, uint64_t max, uint64_t *out)
{
    char *end;
    if (text[0] < '0' || text[0] > '9')
        return 0;
    errno = 0;
    unsigned long long v = strtoull(text, &end, 10);
    if (errno || *end || v < min || v > max)
        return 0;
    *out = v;
    return 1;
}

static int seeds(const char *text, fuzz_options *o)
{
    char        first[32];
    const char *dots = strstr(text, "..");
    size_t      n = dots ? (size_t)(dots - text) : sizeof first;
    if (n >= sizeof first)
        return 0;
    memcpy(first, text, n);
    first[n] = '\0';
    return number_in(first, 0, UINT64_MAX - 1, &o->from) && number_in(dots + 2, 0, UINT64_MAX - 1, &o->to) &&
           o->from <= o->to;
}

static int cells(const char *text, fuzz_options *o)
{
    o->cells = strcmp(text, "memory") == 0 ? HTC_SIM_STORE_MEMORY
               : strcmp(text, "log") == 0  ? HTC_SIM_STORE_LOG
                                           : HTC_SIM_STORE_DRAWN;
    return o->cells != HTC_SIM_STORE_DRAWN;
}

static int bounded(const char *text, uint64_t min, uint64_t max, uint32_t *out)
{
    uint64_t v;
    if (!number_in(text, min, max, &v))
        return 0;
    *out = (uint32_t)v;
    return 1;
}

enum { SCENARIO = 1, SEEDS, SEED, TRACE, KEPT, JOBS, CELLS, MEMBERS, OPERATIONS, SEARCH, JSON, VERBOSE, HELP, VERSION };

static const struct option options[] = { { "scenario", required_argument, NULL, SCENARIO },
                                         { "seeds", required_argument, NULL, SEEDS },
                                         { "seed", required_argument, NULL, SEED },
                                         { "trace", no_argument, NULL, TRACE },
                                         { "kept", required_argument, NULL, KEPT },
                                         { "jobs", required_argument, NULL, JOBS },
                                         { "cells", required_argument, NULL, CELLS },
                                         { "members", required_argument, NULL, MEMBERS },
                                         { "operations", required_argument, NULL, OPERATIONS },
                                         { "search", no_argument, NULL, SEARCH },
                                         { "json", no_argument, NULL, JSON },
                                         { "verbose", no_argument, NULL, VERBOSE },
                                         { "help", no_argument, NULL, HELP },
                                         { "version", no_argument, NULL, VERSION },
                                         { NULL, 0, NULL, 0 } };

/* What each takes, for who gave it something else. */
static const char *const takes[VERSION + 1] = {
    [SCENARIO] = "store, system or flows",
    [SEEDS] = "two numbers, A..B, the first not above the second (one seed: --seed S)",
    [SEED] = "one number (several: --seeds A..B)",
    [KEPT] = "the name of a file",
    [JOBS] = "a number from 1 to 256",
    [CELLS] = "memory or log",
    [MEMBERS] = "a number from 3 to 7",
    [OPERATIONS] = "a number from 1 to 10000",
};

/* 1: taken; 0: its value is wrong. */
static int take(int option, const char *value, fuzz_options *o)
{
    switch (option) {
    case SCENARIO:
        for (o->scenario = SCENARIO_STORE; o->scenario < SCENARIO_FLOWS && strcmp(value, fuzz_scenario_name(o->scenario)) != 0;)
            o->scenario++;
        return strcmp(value, fuzz_scenario_name(o->scenario)) == 0;
    case SEEDS:
        return seeds(value, o);
    case SEED:
        o->jobs = 1;
        return number_in(value, 0, UINT64_MAX - 1, &o->from) && (o->to = o->from, 1);
    case TRACE:
        return o->trace = 1;
    case KEPT:
        o->kept = value;
        return value[0] != '\0';
    case JOBS:
        return bounded(value, 1, 256, &o->jobs);
    case CELLS:
        return cells(value, o);
    case MEMBERS:
        return bounded(value, 3, 7, &o->members);
    case OPERATIONS:
        return bounded(value, 1, 10000, &o->operations);
    case SEARCH:
        return (int)(o->search = 1);
    case JSON:
        return o->json = 1;
    case VERBOSE:
        return o->verbose = 1;
    }
    return 0;
}

static void say_commands(void)
{
    fputs("usage: htc-sim COMMAND [options]\n"
          "\n"
          "The simulator. htc-sim COMMAND --help lists the options of a command; htc-sim(1) tells all,\n"
          "doc/simulation.md why.\n"
          "\n"
          "Published experiments:\n"
          "\n"
          "  reproduce [NAME...]    run them, and say how far ours are from what was published\n"
          "\n"
          "This machine's costs, for scale models:\n"
          "\n"
          "  calibrate              measure them, into a file for --costs\n"
          "\n"
          "Scale models, with the library's policies, and nodes and tasks that are numbers in arrays:\n"
          "\n",
          stdout);
    study_list();
    fputs("\n"
          "Exact mode, with the machines that run live, message by message:\n"
          "\n"
          "  flow [FILE]            one flow over workers and a store, and how well they did\n"
          "  fuzz                   stores, or whole systems, under the faults that a seed draws\n"
          "\n"
          "  --help                 this\n"
          "  --version              the version\n",
          stdout);
}

static int no_command(const char *name)
{
    const char *meant = study_nearest(name);
    if (meant)
        return usage_of("htc-sim", "there is no command %s; did you mean %s? The command comes first", name, meant);
    return usage_of("htc-sim", "there is no command %s; the command comes first", name);
}

int fuzz_options_read(int argc, char **argv, fuzz_options *o, int *done)
{
    int option, at = 0, one = 0, several = 0;
    opterr = 0;
    *done = 1;
    *o = (fuzz_options){ .from = 1, .to = 1000 };
    while ((option = getopt_long(argc, argv, ":", options, &at)) != -1) {
        if (option == HELP || option == VERSION) {
            if (option == HELP && (argc < 3 || strcmp(argv[1], "fuzz") != 0))
                say_commands();
            else
                fputs(option == HELP ? help : "htc-sim " HTC_VERSION "\n", stdout);
            return EXIT_FINE;
        }
        if (option == '?' || option == ':')
            return usage_of_option(argc > 1 && strcmp(argv[1], "fuzz") == 0 ? "fuzz" : "", option, argv[optind - 1], options);
        if (!take(option, optarg, o))
            return usage("--%s takes %s, not %s", options[at].name, takes[option], optarg);
        one |= option == SEED;
        several |= option == SEEDS;
    }
    if (optind == argc)
        return usage_of("htc-sim", "a command is missing");
    if (strcmp(argv[optind], "fuzz") != 0)
        return no_command(argv[optind]);
    if (optind + 1 < argc)
        return usage("fuzz takes options alone, not %s", argv[optind + 1]);
    if (one && several)
        return usage("--seed is one seed, --seeds are several: take one of these options");
    if (o->trace && o->from != o->to)
        return usage("--trace is for one seed: --seed S");
    if (o->scenario != SCENARIO_STORE && (o->cells || o->members || o->operations || o->search))
        return usage("--cells, --members, --operations and --search are of stores alone");
    *done = 0;
    return EXIT_FINE;
}
