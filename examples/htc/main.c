/* htc: what a user types. A thin client of the gateway; this file finds the command. */
#include "htc.h"

#include <errno.h>
#include <locale.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

const command commands[] = {
    { "up", "[--config FILE] [--slots N] [--pause-max TIME] [--foreground]", "Start store and gateway on this machine and supervise them.",
      run_up },
    { "down", "[--now]", "Stop the system: running tasks finish first, or end with --now.", run_down },
    { "user", "add|set|rm NAME [--weight W] [--uid UID[:GID]] [--password-file F]", "Add, change or remove a user (the operator only).",
      run_user },
    { "project", "add|set|rm|list [NAME] [--shares S] [--users USER...] [--without USER...]", "Projects that users share slots in: add, change, remove (the operator only), list.",
      run_project },
    { "quota", "[USER | --project P] [--core-hours H] [--bytes B] [--tasks N] [--processes N]", "Show what may be used and what is left; set it (the operator only).",
      run_quota },
    { "login", "NAME [--password-file F]", "Get a token for a user and keep it for the commands that follow.", run_login },
    { "logout", "[NAME] [--all]", "End the login of a user here, or with --all every login.", run_logout },
    { "submit", "FILE.jsdl | -- COMMAND... [::: SOURCE...]",
      "Submit a job: a JSDL document, or a command with parameters.", run_submit },
    { "generate", "-- COMMAND... [::: SOURCE...] | --exe P --args '...' --sweep x=1:100 | --pairs A B",
      "Write the JSDL document of a command with parameters.", run_generate },
    { "validate", "FILE.jsdl [--count] [--show INDEX]", "Check a JSDL document without submitting it.", run_validate },
    { "status", "[ID] [--watch] [--limit N]", "List jobs, newest first.", run_status },
    { "tasks", "ID [--state S] [--failed] [--limit N]", "List the tasks of a job.", run_tasks },
    { "why", "[ID]", "Say in one sentence what a job or task is waiting for; without ID, a user.", run_why },
    { "logs", "ID[.TASKS] [--failed] [--follow] [--stderr]", "Show what tasks have written so far.", run_logs },
    { "fetch", "ID [--wait] [--to DIR | --tar FILE] [-o PATTERN] [-e PATTERN]", "Fetch the results of a job, every hash verified.", run_fetch },
    { "wait", "ID [--timeout TIME]", "Wait until a job has ended; exit code 5 if tasks failed.", run_wait },
    { "cancel", "ID", "Cancel jobs or tasks.", run_cancel },
    { "hold", "ID", "Start nothing more of jobs; what runs goes on.", run_hold },
    { "release", "ID", "Let jobs run that are held.", run_release },
    { "retry", "ID --failed | ID.TASKS", "Run tasks again: those that failed, or those named.", run_retry },
    { "resubmit", "ID", "Submit a job anew: the same document and inputs.", run_resubmit },
    { "rm", "ID", "Remove ended jobs and their outputs.", run_rm },
    { "du", "[ID] [--jobs]", "Show what users or jobs hold on disk.", run_du },
    { "users", "", "List users, their shares and agents.", run_users },
    { "agents", "", "List agents and what they run.", run_agents },
    { "sites", "", "List sites, their slots, and why nothing is launched there.", run_sites },
    { "drain", "SITE|NODE [--node] [--reason TEXT]", "Take a site or node out of service: what runs there ends (the operator only).", run_drain },
    { "resume", "SITE|NODE [--node]", "Take it into service again (the operator only).", run_resume },
    { "flow", "run|status|tasks|why|logs|report|render|cancel|resume|rm|check|write ...", "Tasks that wait for tasks: htc flow --help.", run_flow },
    { "kv", "COMMAND ...", "The key-value store: htc kv --help.", run_kv },
    { "keys", "new|show|add|list|revoke|rotate|enrol|join ...", "Keys of secure connections: htc keys --help.", run_keys },
    { "report", "[ID...] [--svg FILE] [--export swf] | --by user,site,project,day [--since TIME] [--until TIME] [--csv]",
      "Makespans, efficiency and slots held over time; or what was used, by whom, where and for what.", run_report },
};
const size_t n_commands = sizeof commands / sizeof commands[0];

const command *find_command(const char *name)
{
    for (size_t i = 0; i < n_commands; i++)
        if (strcmp(commands[i].name, name) == 0)
            return &commands[i];
    return NULL;
}

static void print_help(void)
{
    puts("usage: htc COMMAND [options]\n\nRuns many tasks for many users on this machine, with fair shares.\n");
    for (size_t i = 0; i < n_commands; i++)
        printf("  %-9s %s\n", commands[i].name, commands[i].summary);
    puts("\nEvery command: --dir DIR, --gateway HOST:PORT, --user NAME, --token-file FILE, --timeout TIME, --json, --help; without one: --version.\n"
         "ID is a job's number, ID.7 or ID.1-10 tasks of it, `last` the newest job, `all` every job.\n"
         "Exit codes: 0 ok, 1 usage, 2 rejected input, 3 unreachable, 4 not found or denied, 5 tasks failed,\n"
         "6 try again (full, locked, timed out), 70 our fault.");
}

/* `htc --dir X status`: options before the command are moved behind it. */
static int command_at(int argc, char **argv)
{
    for (int i = 1; i < argc; i++) {
        if (argv[i][0] != '-')
            return i;
        if (strcmp(argv[i], "--dir") == 0 || strcmp(argv[i], "--gateway") == 0 || strcmp(argv[i], "--user") == 0 || strcmp(argv[i], "-u") == 0 ||
            strcmp(argv[i], "--token-file") == 0 || strcmp(argv[i], "--timeout") == 0)
            i++;
    }
    return 0;
}

static htc_status no_command(cli *c, const char *name)
{
    return cli_error(c, HTC_EUSAGE, "", "htc --help lists the commands", "there is no command '%.60s'", name);
}

static htc_status dispatch(cli *c, int argc, char **argv)
{
    int at = command_at(argc, argv);
    if (at == 0 || at >= argc) {
        for (int i = 1; i < argc; i++)
            if (strcmp(argv[i], "--version") == 0) {
                puts("htc " HTC_VERSION);
                return HTC_OK;
            }
        for (int i = 1; i < argc; i++)
            if (strcmp(argv[i], "--help") == 0 || strcmp(argv[i], "-h") == 0) {
                print_help();
                return HTC_OK;
            }
        return cli_error(c, HTC_EUSAGE, "", "htc --help lists the commands", "a command is missing");
    }
    const char *name = argv[at];
    if (strcmp(name, "help") == 0) {
        const command *about = at + 1 < argc ? find_command(argv[at + 1]) : NULL;
        if (at + 1 < argc && !about && argv[at + 1][0] != '-')
            return no_command(c, argv[at + 1]);
        if (!about) {
            print_help();
            return HTC_OK;
        }
        char *words_of_help[] = { argv[at], "--help", NULL };
        return about->run(c, 2, words_of_help);
    }
    const command *cmd = find_command(name);
    if (!cmd)
        return no_command(c, name);
    /* The command comes first, the options that stood before it right after. */
    memmove(&argv[2], &argv[1], (size_t)(at - 1) * sizeof *argv);
    return cmd->run(c, argc - 1, argv + 1);
}

int main(int argc, char **argv)
{
    setlocale(LC_CTYPE, "");
    signal(SIGPIPE, SIG_IGN);
    signal(SIGCHLD, SIG_DFL); /* who started it may have it ignored: then the ends of children are lost */
    const char *term = getenv("TERM"), *dir = getenv("HTC_DIR");
    cli         c = { .program = argv[0], .dir = dir && dir[0] ? dir : HERE };
    c.progress = isatty(STDERR_FILENO) == 1;
    c.colour = isatty(STDOUT_FILENO) == 1 && !getenv("NO_COLOR") && term && strcmp(term, "dumb") != 0;
    /* An error before the options are read has to be JSON too. */
    for (int i = 1; i < argc && strcmp(argv[i], "--") != 0; i++)
        if (strcmp(argv[i], "--json") == 0)
            c.json = 1;
    htc_status status = dispatch(&c, argc, argv);
    if (status == HTC_AGAIN) /* help was printed */
        status = HTC_OK;
    errno = 0;
    if (status == HTC_OK && (fflush(stdout) != 0 || ferror(stdout)) && errno != EPIPE)
        status = cli_error(&c, errno == ENOSPC ? HTC_ENOSPC : HTC_EIO, "standard output", "", "cannot write: %s",
                           strerror(errno));
    if (status != HTC_OK)
        cli_print_error(&c, status);
    api_close(&c);
    htc_access_close(c.access);
    json_decref(c.found);
    return htc_exit_code(status);
}
