/* htc flow: tasks that wait for tasks, run by agents that steal work from each other. This file finds the command. */
#include "flow.h"
#include "sub_options.h"

#include <string.h>

typedef struct subcommand {
    const char *name, *args, *summary;
    size_t      words_min, words_max;
    htc_status (*run)(flow_call *k);
} subcommand;

enum { RUN, ADD, CLOSE, CHECK, WRITE, STATUS, WORKERS, TASKS, WHY, LOGS, FETCH, REPORT, RENDER, SET, CANCEL, RESUME, RM, FLOW_COMMANDS };

static const subcommand subcommands[FLOW_COMMANDS] = {
    [RUN] = { "run", "FILE | - | --shape SHAPE --tasks N", "Run a flow, and wait for its end.", 0, 1, flow_run },
    [ADD] = { "add", "ID FILE | ID -", "Add tasks to an open flow that runs.", 1, 2, flow_add },
    [CLOSE] = { "close", "ID", "Let an open flow end with the tasks that it has.", 1, 1, flow_close },
    [CHECK] = { "check", "FILE | -", "Check a flow: its form, its names, cycles.", 0, 1, flow_check },
    [WRITE] = { "write", "FILE | - | --shape SHAPE --tasks N", "Write a flow in another form.", 0, 1, flow_convert },
    [STATUS] = { "status", "ID", "How a flow stands.", 1, 1, flow_status },
    [WORKERS] = { "workers", "ID", "Who works at a flow: numbers, nodes, slots.", 1, 1, flow_workers },
    [TASKS] = { "tasks", "ID", "The tasks of a flow with dependencies.", 1, 1, flow_tasks },
    [WHY] = { "why", "ID[.TASK]", "Say in one sentence what a flow or a task waits for.", 1, 1, flow_why },
    [LOGS] = { "logs", "ID.TASK", "Show what a task of a flow has written.", 1, 1, flow_logs },
    [FETCH] = { "fetch", "ID[.TASK]", "Fetch the files of a flow that was run with --scratch.", 1, 1, flow_fetch },
    [REPORT] = { "report", "ID", "What a flow took: times, slots busy, efficiency.", 1, 1, flow_report },
    [RENDER] = { "render", "ID | FILE | -", "Draw a flow: its tasks, and how they stand.", 0, 1, flow_render },
    [SET] = { "set", "ID", "Put another policy in force while a flow runs.", 1, 1, flow_set },
    [CANCEL] = { "cancel", "ID[.TASKS]", "Cancel a flow, or tasks and what depends on them.", 1, 1, flow_cancel },
    [RESUME] = { "resume", "ID", "Run what is missing of a flow that has ended.", 1, 1, flow_resume },
    [RM] = { "rm", "ID", "Remove the records of a flow that has ended.", 1, 1, flow_rm },
};

#define OF(which) (1u << (which))
#define READS     (OF(RUN) | OF(ADD) | OF(CHECK) | OF(WRITE) | OF(RENDER))
#define RUNS      (OF(RUN) | OF(RESUME))

static const char *name_of(uint32_t which)
{
    return subcommands[which].name;
}

static htc_status parse(flow_call *k, const command *cmd, uint32_t which, int argc, char **argv)
{
    const sub_opt rows[] = {
        { RUNS, { "agents", 'a', OPT_COUNT, &k->agents, "N", "slots that work at it at most (the cores of this machine)" } },
        { RUNS, { "tries", 'r', OPT_COUNT, &k->tries, "N", "run a task that fails up to N times (1; resumed: as before)" } },
        { RUNS, { "max-fails", 0, OPT_COUNT, &k->max_fails, "N", "cancel the rest when more than N tasks have failed" } },
        { RUNS, { "detach", 'd', OPT_FLAG, &k->detach, NULL, "do not wait for its end" } },
        { RUNS, { "watch", 0, OPT_FLAG, &k->watch, NULL, "show how it gets on, also where no terminal is" } },
        { OF(RUN), { "scratch", 0, OPT_FLAG, &k->scratch, NULL, "run each task in a directory of its own: bring what it reads (in=), keep what it makes (out=)" } },
        { RUNS | OF(SET), { "policy", 0, OPT_TEXT, &k->policy, "NAME", "where tasks wait that read files: flds, rlds, mdl or mlb (flds)" } },
        { RUNS | OF(SET), { "steal", 0, OPT_TEXT, &k->steal, "NAME", "whom idle workers ask: random, static, near, mesh-2d, mesh-3d, one, two, log2, sqrt, or of agent.policy_from" } },
        { OF(RUN), { "layout", 0, OPT_TEXT, &k->layout, "HOW", "where tasks begin: each (slot has as many), one (agent has them) or random (each)" } },
        { OF(RUN), { "tt", 0, OPT_TEXT, &k->tt, "TIME[:RULE]", "of flds: tasks that wait longer may be stolen (10s); RULE: fixed, steal or move" } },
        { OF(RUN), { "open", 0, OPT_FLAG, &k->open, NULL, "take tasks while it runs (htc flow add), until htc flow close" } },
        { OF(ADD), { "to", 0, OPT_TEXT, &k->to, "WORKERS", "who begins with them: numbers or nodes, with commas, or each (others steal)" } },
        { OF(ADD), { "close", 0, OPT_FLAG, &k->close, NULL, "take no more after these" } },
        { OF(RUN), { "slots", 0, OPT_COUNT, &k->slots, "N", "of the system that is started where none runs" } },
        { OF(RUN), { "keep", 0, OPT_FLAG, &k->keep, NULL, "keep that system's directory, with what tasks printed" } },
        { READS, { "format", 'f', OPT_TEXT, &k->format, "FORM", "text, jsonl, dax, wfcommons or jobs (by its content)" } },
        { READS, { "time-scale", 0, OPT_FACTOR, &k->time_scale, "X", "recorded run times times X" } },
        { READS, { "size-scale", 0, OPT_FACTOR, &k->size_scale, "X", "recorded sizes times X" } },
        { READS, { "program", 0, OPT_LIST, &k->programs, "KIND=PROGRAM", "what runs the tasks of a kind (may be repeated)" } },
        { READS, { "shape", 0, OPT_TEXT, &k->shape, "SHAPE", "bot, fanout, fanin, pipeline or mapreduce" } },
        { READS, { "tasks", 'n', OPT_COUNT, &k->tasks, "N", "of a shape" } },
        { READS, { "degree", 0, OPT_COUNT, &k->degree, "N", "of a shape: children, parents, stages, reducers" } },
        { READS, { "length", 0, OPT_TEXT, &k->length, "TIME[:TIME]", "of its tasks" } },
        { READS, { "data", 0, OPT_TEXT, &k->data, "SIZE[:SIZE]", "that each of its tasks makes" } },
        { READS, { "seed", 0, OPT_NUMBER, &k->seed, "N", "of what is drawn" } },
        { OF(WRITE), { "to", 0, OPT_TEXT, &k->to, "FORM", "text, jsonl or dot (text)" } },
        { OF(WRITE), { "out", 'o', OPT_TEXT, &k->out, "FILE", "write there instead of standard output" } },
        { OF(FETCH), { "out", 'o', OPT_TEXT, &k->out, "DIR", "write there instead of here" } },
        { OF(FETCH), { "all", 0, OPT_FLAG, &k->all, NULL, "also what other tasks of the flow read" } },
        { OF(TASKS), { "failed", 0, OPT_FLAG, &k->failed, NULL, "those that failed alone" } },
        { OF(TASKS), { "limit", 0, OPT_COUNT, &k->limit, "N", "so many at most" } },
        { OF(LOGS), { "stderr", 0, OPT_FLAG, &k->errors, NULL, "standard error instead of standard output" } },
        { OF(REPORT) | OF(RENDER), { "svg", 0, OPT_TEXT, &k->svg, "FILE", "write a picture there; - is standard output" } },
        { OF(RENDER), { "tiles", 0, OPT_FLAG, &k->tiles, NULL, "of the picture: the load of each worker over time" } },
    };
    const sub_opts all = { rows, sizeof rows / sizeof *rows, FLOW_COMMANDS, name_of };
    return sub_opt_parse(k->c, cmd, &all, which, argc, argv, &k->w);
}

htc_status run_flow(cli *c, int argc, char **argv)
{
    flow_call   k = { .c = c, .tasks = -1, .degree = -1, .agents = -1, .tries = -1, .max_fails = -1, .slots = -1, .limit = -1 };
    const char *word = bring_forward(argc, argv);
    uint32_t    which = 0;
    while (which < FLOW_COMMANDS && (!word || strcmp(subcommands[which].name, word) != 0))
        which++;
    if (!word && wants_help(argc, argv)) {
        const command all = { "flow", "COMMAND [options]", "Tasks that wait for tasks.", run_flow };
        htc_status    told = parse(&k, &all, FLOW_COMMANDS, argc, argv);
        puts("\nCommands:");
        for (size_t i = 0; i < FLOW_COMMANDS; i++)
            printf("  %-7s %-36s %s\n", subcommands[i].name, subcommands[i].args, subcommands[i].summary);
        words_free(&k.w);
        return told;
    }
    if (which == FLOW_COMMANDS)
        return cli_error(c, HTC_EUSAGE, "", "htc flow --help lists the commands", word ? "there is no command flow %.60s" : "a command is missing%.0s",
                         word ? word : "");
    char          name[32];
    const command cmd = { name, subcommands[which].args, subcommands[which].summary, run_flow };
    snprintf(name, sizeof name, "flow %s", subcommands[which].name);
    htc_status s = parse(&k, &cmd, which, argc - 1, argv + 1);
    if (s == HTC_OK)
        s = want_words(c, &cmd, &k.w, subcommands[which].words_min, subcommands[which].words_max);
    if (s == HTC_OK && k.watch)
        c->progress = 1;
    if (s == HTC_OK)
        s = subcommands[which].run(&k);
    htc_store_close(k.store);
    htc_registry_destroy(k.policies);
    words_free(&k.programs);
    words_free(&k.w);
    return s;
}
