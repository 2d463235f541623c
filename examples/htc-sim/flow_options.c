/* The words of htc-sim flow. */
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "flow.h"
#include "fuzz.h"
#include "policies.h"
#include "study/study.h"

const char flow_help[] =
    "usage: htc-sim flow [FILE | --shape SHAPE --tasks N] [options]\n"
    "\n"
    "Runs one flow over workers and a store in virtual time, with the machines that run live, and says\n"
    "how well they did. FILE is a flow as htc flow run takes it (-: standard input); a task takes as long\n"
    "as was recorded, or as it sleeps. Spans are seconds, or have a unit: 250us, 64ms, 2s.\n"
    "\n"
    "  --shape SHAPE     bot, fanout, fanin, pipeline or mapreduce\n"
    "  --tasks N         of a shape (1000)\n"
    "  --degree D        of a shape: children, parents, or tasks of a pipe (2; of mapreduce 1)\n"
    "  --length A[..B]   of each task, drawn from A to B (1s)\n"
    "  --workers N       1 to 1024 (8)\n"
    "  --slots N         of each worker, 1 to 128 (1)\n"
    "  --layout WHERE    one: all tasks begin with one worker; each: every worker has its share (one)\n"
    "  --policy-from FILE\n"
    "                    load policies of one's own from a shared object; may be repeated\n"
    "                    (htc_policy_file(3))\n"
    "  --steal-policy NAME\n"
    "                    whom a thief asks: random, another policy of htc_steal(3), or of such a file\n"
    "                    (random)\n"
    "  --neighbours K    how many it asks: a number, one, two, log2 or sqrt (sqrt)\n"
    "  --amount HOW      what it is given: one, two, log2, sqrt or half (half)\n"
    "  --poll SPAN       its first wait after it got nothing, then doubled (1ms)\n"
    "  --ceiling SPAN    beyond such a wait it asks no more until it is nudged (50s)\n"
    "  --latency SPAN    of a message (50us)\n"
    "  --jitter SPAN     up to so much more, drawn (0)\n"
    "  --commit SPAN     until a change of the store is durable (200us)\n"
    "  --start SPAN      of a slot, for each task beside its length (0)\n"
    "  --stage SPAN      before and after each task, each (0)\n"
    "  --seed S          of what is drawn (1)\n"
    "  --runs N          with so many seeds from S on, the median is told (1)\n"
    "  --timeline FILE   the first run as CSV: seconds, slots that are busy, utilisation, tasks that have\n"
    "                    ended\n"
    "  --sample SPAN     between two lines of it (100ms)\n"
    "  --json            one object on standard output\n"
    "  --help            this\n"
    "\n"
    "Ends with 0; 1: a run has failed; 2: it was called wrongly; 3: it could not be done.\n";

#define usage(...) usage_of("htc-sim flow", __VA_ARGS__)

static int small(const char *text, uint32_t min, uint32_t max, uint32_t *out)
{
    uint64_t v;
    if (!number_in(text, min, max, &v))
        return 0;
    *out = (uint32_t)v;
    return 1;
}

/* Up to end, or the end of the text. At most a year. */
static int span_until(const char *text, const char *end, htc_ns *out)
{
    static const struct {
        const char *name;
        double      ns;
    } units[] = { { "", 1e9 }, { "s", 1e9 }, { "ms", 1e6 }, { "us", 1e3 }, { "ns", 1 } };
    char  one[64], *unit;
    size_t n = end ? (size_t)(end - text) : strlen(text);
    if ((text[0] < '0' || text[0] > '9') && text[0] != '.')
        return 0;
    snprintf(one, sizeof one, "%.*s", n < sizeof one ? (int)n : 0, text); /* or the point of 0..1s would be one of 0 */
    double v = strtod(one, &unit);
    for (size_t i = 0; i < sizeof units / sizeof *units && unit != one; i++)
        if (strcmp(unit, units[i].name) == 0 && v * units[i].ns < 3.2e16) {
            *out = (htc_ns)(v * units[i].ns + 0.5);
            return 1;
        }
    return 0;
}

static int span(const char *text, htc_ns *out)
{
    return span_until(text, NULL, out);
}

static int length(const char *text, flow_options *o)
{
    const char *dots = strstr(text, "..");
    if (!span_until(text, dots, &o->length_min))
        return 0;
    o->length_max = o->length_min;
    return !dots || (span(dots + 2, &o->length_max) && o->length_max >= o->length_min);
}

/* The place of a word in a list that ends with NULL, from 1; 0: it is not there. */
static uint32_t which(const char *word, const char *const *words)
{
    for (uint32_t i = 0; words[i]; i++)
        if (strcmp(word, words[i]) == 0)
            return i + 1;
    return 0;
}

static const char *const shapes[] = { "bot", "fanout", "fanin", "pipeline", "mapreduce", NULL };
static const char *const rules[] = { "one", "two", "log2", "sqrt", "half", NULL };
static const char *const layouts[] = { "one", "each", NULL };

enum { SHAPE = 1, TASKS, DEGREE, LENGTH, WORKERS, SLOTS, LAYOUT, NEIGHBOURS, AMOUNT, POLL, CEILING, LATENCY, JITTER, COMMIT, START, STAGE, SEED, RUNS,
       TIMELINE, SAMPLE, POLICY_FROM, STEAL_POLICY, JSON, HELP };

static const struct option options[] = { { "shape", required_argument, NULL, SHAPE },
                                         { "tasks", required_argument, NULL, TASKS },
                                         { "degree", required_argument, NULL, DEGREE },
                                         { "length", required_argument, NULL, LENGTH },
                                         { "workers", required_argument, NULL, WORKERS },
                                         { "slots", required_argument, NULL, SLOTS },
                                         { "layout", required_argument, NULL, LAYOUT },
                                         { "neighbours", required_argument, NULL, NEIGHBOURS },
                                         { "amount", required_argument, NULL, AMOUNT },
                                         { "poll", required_argument, NULL, POLL },
                                         { "ceiling", required_argument, NULL, CEILING },
                                         { "latency", required_argument, NULL, LATENCY },
                                         { "jitter", required_argument, NULL, JITTER },
                                         { "commit", required_argument, NULL, COMMIT },
                                         { "start", required_argument, NULL, START },
                                         { "stage", required_argument, NULL, STAGE },
                                         { "seed", required_argument, NULL, SEED },
                                         { "runs", required_argument, NULL, RUNS },
                                         { "timeline", required_argument, NULL, TIMELINE },
                                         { "sample", required_argument, NULL, SAMPLE },
                                         { "policy-from", required_argument, NULL, POLICY_FROM },
                                         { "steal-policy", required_argument, NULL, STEAL_POLICY },
                                         { "json", no_argument, NULL, JSON },
                                         { "help", no_argument, NULL, HELP },
                                         { NULL, 0, NULL, 0 } };

/* What each takes, for who gave it something else. */
static const char *const takes[HELP + 1] = {
    [SHAPE] = "bot, fanout, fanin, pipeline or mapreduce", [TASKS] = "a number from 1 to 10000000", [DEGREE] = "a number from 1 to 4096",
    [LENGTH] = "a span, or two: A..B, the first not above the second", [WORKERS] = "a number from 1 to 1024", [SLOTS] = "a number from 1 to 128",
    [LAYOUT] = "one or each", [NEIGHBOURS] = "a number from 1 to 1023, one, two, log2 or sqrt", [AMOUNT] = "one, two, log2, sqrt or half",
    [POLL] = "a span above 0", [CEILING] = "a span above 0", [LATENCY] = "a span", [JITTER] = "a span", [COMMIT] = "a span", [START] = "a span",
    [STAGE] = "a span", [SEED] = "a number", [RUNS] = "a number from 1 to 10000", [TIMELINE] = "the name of a file", [SAMPLE] = "a span above 0",
    [STEAL_POLICY] = "the name of a policy",
};

static int take_steal(int option, const char *value, flow_options *o)
{
    switch (option) {
    case NEIGHBOURS:
        o->steal.degree = which(value, rules);
        return o->steal.degree && o->steal.degree <= HTC_STEAL_SQRT ? 1 : (o->steal.degree = 0, small(value, 1, HTC_SIM_FLOW_WORKERS_MAX - 1, &o->steal.neighbours));
    case AMOUNT:
        return (o->steal.amount = which(value, rules)) != 0;
    case POLL:
        return span(value, &o->steal.poll_ns) && o->steal.poll_ns;
    default:
        return span(value, &o->steal.poll_ns_max) && o->steal.poll_ns_max;
    }
}

static int take_cost(int option, const char *value, flow_options *o)
{
    switch (option) {
    case LATENCY:
        return span(value, &o->sim.latency_ns);
    case JITTER:
        return span(value, &o->sim.jitter_ns);
    case COMMIT:
        return span(value, &o->sim.commit_ns);
    case START:
        return span(value, &o->sim.start_ns);
    default:
        return span(value, &o->sim.stage_ns);
    }
}

/* 1: taken; 0: its value is wrong. */
static int take(int option, const char *value, flow_options *o)
{
    if (option >= NEIGHBOURS && option <= CEILING)
        return take_steal(option, value, o);
    if (option >= LATENCY && option <= STAGE)
        return take_cost(option, value, o);
    switch (option) {
    case SHAPE:
        return (o->shape = which(value, shapes)) != 0;
    case TASKS:
        return number_in(value, 1, 10000000, &o->tasks);
    case DEGREE:
        return small(value, 1, 4096, &o->degree);
    case LENGTH:
        return length(value, o);
    case WORKERS:
        return small(value, 1, HTC_SIM_FLOW_WORKERS_MAX, &o->sim.workers);
    case SLOTS:
        return small(value, 1, 128, &o->sim.slots);
    case LAYOUT:
        o->sim.layout = which(value, layouts);
        return o->sim.layout-- != 0;
    case SEED:
        return number_in(value, 0, UINT64_MAX - 10000, &o->seed);
    case RUNS:
        return small(value, 1, 10000, &o->runs);
    case TIMELINE:
        o->timeline = value;
        return value[0] != '\0';
    case SAMPLE:
        return span(value, &o->sim.sample_ns) && o->sim.sample_ns;
    case STEAL_POLICY:
        o->policy = value;
        return value[0] != '\0';
    default:
        return o->json = 1;
    }
}

int flow_options_read(int argc, char **argv, flow_options *o, int *done)
{
    int       option, at = 0;
    htc_error e;
    char      names[200];
    opterr = 0;
    optind = 1;
    *done = 1;
    *o = (flow_options){ .sim = { .size = sizeof o->sim, .workers = 8, .slots = 1, .commit_ns = 200 * HTC_US, .sample_ns = 100 * HTC_MS },
                         .steal = { .size = sizeof o->steal }, .runs = 1, .tasks = 1000, .seed = 1, .length_min = HTC_SECOND, .length_max = HTC_SECOND };
    while ((option = getopt_long(argc, argv, ":", options, &at)) != -1) {
        if (option == HELP) {
            fputs(flow_help, stdout);
            return EXIT_FINE;
        }
        if (option == '?' || option == ':')
            return usage_of_option("flow", option, argv[optind - 1], options);
        if (option == POLICY_FROM) {
            if (policies_from(optarg, &e))
                continue;
            say_error(&e);
            return EXIT_USAGE;
        }
        if (!take(option, optarg, o))
            return usage("--%s takes %s, not %s", options[at].name, takes[option], optarg);
    }
    if (optind < argc)
        o->file = argv[optind++];
    if (optind < argc)
        return usage("one flow is run: %s, and not %s too", o->file, argv[optind]);
    if (!o->file == !o->shape)
        return usage(o->file ? "a file is a flow, and so is --shape: take one of them" : "a flow is missing: FILE or --shape");
    policies_list(HTC_REGISTRY_STEAL, NULL, names, sizeof names);
    if (o->policy && !policies_have(HTC_REGISTRY_STEAL, o->policy)) /* the file may come after the name */
        return usage("--steal-policy takes %s%s, not %s", names, policies_are_added() ? "" : ", or a policy of --policy-from FILE.so", o->policy);
    *done = 0;
    return EXIT_FINE;
}
