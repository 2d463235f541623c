/* What is going on: jobs, tasks, users, agents, why something waits, and waiting for it. */
#include "htc.h"

#include <inttypes.h>
#include <math.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static volatile sig_atomic_t interrupted;

static void on_interrupt(int number)
{
    (void)number;
    interrupted = 1;
}

static void catch_interrupt(void)
{
    struct sigaction sa = { .sa_handler = on_interrupt };
    sigaction(SIGINT, &sa, NULL);
}

static void leave_interrupt(void)
{
    struct sigaction sa = { .sa_handler = SIG_DFL };
    sigaction(SIGINT, &sa, NULL);
}

static double wall_s(void)
{
    struct timespec ts;
    clock_gettime(CLOCK_REALTIME, &ts);
    return (double)ts.tv_sec + (double)ts.tv_nsec / 1e9;
}

static uint64_t ended_tasks(const json_t *job)
{
    const json_t *t = json_object_get(job, "tasks");
    return j_u64(t, "done") + j_u64(t, "failed") + j_u64(t, "cancelled");
}

static void print_jobs(cli *c, const json_t *jobs)
{
    table   t;
    size_t  i;
    json_t *job;
    table_begin(&t, ">ID", "USER", "NAME", "STATE", ">TASKS", ">WAIT", ">RUN", ">DONE", ">FAIL", ">SLOTS", ">TIME",
                "SUBMITTED", NULL);
    json_array_foreach(jobs, i, job)
    {
        const json_t *n = json_object_get(job, "tasks");
        double        started = j_num(job, "started"), ended = j_num(job, "ended");
        table_row(&t,
                  "%" PRIu64 "\t%s\t%s\t%s\t%" PRIu64 "\t%" PRIu64 "\t%" PRIu64 "\t%" PRIu64 "\t%" PRIu64 "\t%" PRIu64
                  "\t%s\t%s",
                  j_u64(job, "id"), j_str(job, "user"), j_str(job, "name"), j_str(job, "state"), j_u64(job, "count"),
                  j_u64(n, "waiting") + j_u64(n, "retry_wait"),
                  j_u64(n, "leased") + j_u64(n, "running") + j_u64(n, "staging_out"), j_u64(n, "done"),
                  j_u64(n, "failed"), j_u64(job, "agents"),
                  show_seconds(started > 0 ? (ended > 0 ? ended : wall_s()) - started : -1).s,
                  show_time(j_num(job, "submitted")).s);
    }
    table_end(c, &t);
}

/* "after job 3 (ok), job 5 (any: failed)": how it has to end, and how it did. */
static void print_after(const json_t *after)
{
    size_t  i;
    json_t *e;
    json_array_foreach(after, i, e)
    {
        const char *outcome = j_str(e, "outcome");
        printf("%sjob %" PRIu64 " (%s%s%s)", i ? ", " : "after ", j_u64(e, "id"), j_str(e, "when"), outcome[0] ? ": " : "", outcome);
    }
    if (json_array_size(after))
        printf("\n");
}

/* What it asks for beside limits, and the limits of tasks that were tried again. */
static void print_wishes(const json_t *job)
{
    size_t  i;
    json_t *r;
    if (j_str(job, "array")[0])
        printf("array %s\n", j_str(job, "array"));
    if (j_num(job, "begin") > 0)
        printf("not before %s\n", show_time(j_num(job, "begin")).s);
    if (j_u64(job, "on_end"))
        printf("at its end runs job %" PRIu64 "\n", j_u64(job, "on_end"));
    if (j_str(job, "mail_to")[0]) {
        char *to = shown(j_str(job, "mail_to"));
        printf("mail to %s\n", to);
        free(to);
    }
    if (j_str(job, "signal")[0])
        printf("signal %s ahead of the wall-time limit\n", j_str(job, "signal"));
    json_array_foreach(json_object_get(job, "raised"), i, r)
    {
        printf("tried again with");
        if (j_u64(r, "memory"))
            printf(" %s of memory", show_size(j_num(r, "memory")).s);
        if (j_num(r, "time_limit") > 0)
            printf("%s a limit of %s", j_u64(r, "memory") ? " and" : "", show_seconds(j_num(r, "time_limit")).s);
        printf("\n");
    }
}

/* One job in full: a line for each thing a person may ask next. */
static void print_job(cli *c, const json_t *job)
{
    const json_t *n = json_object_get(job, "tasks");
    uint64_t      count = j_u64(job, "count"), ended = ended_tasks(job);
    char         *name = must_dup(j_str(job, "name")), *reason = must_dup(j_str(job, "reason"));
    htc_text_show(name);
    htc_text_show(reason);
    printf("job %" PRIu64 "  %s%s%s  user %s%s%s\n", j_u64(job, "id"), colour_state(c, j_str(job, "state")),
           j_str(job, "state"), colour_end(c), j_str(job, "user"), name[0] ? "  name " : "", name);
    int filled = count ? (int)(40.0 * (double)ended / (double)count) : 0;
    printf("[%.*s%*s] %" PRIu64 " of %" PRIu64 " task%s ended\n", filled, "########################################",
           40 - filled, "", ended, count, plural(count));
    printf("waiting %" PRIu64 "  leased %" PRIu64 "  running %" PRIu64 "  staging out %" PRIu64 "  retry %" PRIu64
           "  done %" PRIu64 "  failed %" PRIu64 "  cancelled %" PRIu64 "\n",
           j_u64(n, "waiting"), j_u64(n, "leased"), j_u64(n, "running"), j_u64(n, "staging_out"),
           j_u64(n, "retry_wait"), j_u64(n, "done"), j_u64(n, "failed"), j_u64(n, "cancelled"));
    printf("submitted %s  started %s  ended %s\n", show_time(j_num(job, "submitted")).s,
           show_time(j_num(job, "started")).s, show_time(j_num(job, "ended")).s);
    printf("slots %" PRIu64 "  entitled to %" PRIu64 "  attempts %" PRIu64 "  lost %" PRIu64, j_u64(job, "agents"),
           j_u64(job, "ra"), j_u64(job, "attempts"), j_u64(job, "lost"));
    if (j_u64(job, "held_agents"))
        printf("  agents that did not come %" PRIu64, j_u64(job, "held_agents"));
    if (j_u64(job, "duplicates"))
        printf("  duplicates %" PRIu64, j_u64(job, "duplicates"));
    if (j_num(job, "eta_s") > 0)
        printf("  about %s left", show_seconds(j_num(job, "eta_s")).s);
    printf("\n");
    print_after(json_object_get(job, "after"));
    print_wishes(job);
    if (reason[0])
        printf("reason: %s\n", reason);
    free(name);
    free(reason);
}

#define LISTED    50 /* jobs where nobody says how many */
#define PAGE_JOBS 1000

/* The jobs of a selection, or (sel NULL) the newest: a page at a time, at most limit (0: all). Gives one answer with all of them. */
static htc_status ask_jobs(cli *c, const selection *sel, json_t *filter, uint64_t limit, double patience_s, json_t **all)
{
    selection  page = sel ? *sel : (selection){ .id = (char[]){ "all" }, .before = UINT64_MAX >> 1, .all = 1, .filter = filter };
    json_t    *answer, *jobs = json_array();
    int        more = 1;
    htc_status s = HTC_OK;
    while (s == HTC_OK && more && (!limit || json_array_size(jobs) < limit)) {
        uint64_t left = limit ? limit - json_array_size(jobs) : PAGE_JOBS;
        json_t  *request = selection_request(&page, "status");
        if (request)
            json_object_set_new(request, "limit", json_integer((json_int_t)(left < PAGE_JOBS ? left : PAGE_JOBS)));
        s = api_ask(c, request, 0, patience_s, &answer);
        if (s != HTC_OK)
            break;
        json_array_extend(jobs, json_object_get(answer, "jobs"));
        more = selection_next(&page, answer);
        json_decref(answer);
    }
    *all = json_pack("{s:o, s:b}", "jobs", jobs, "more", more);
    return s;
}

static htc_status show_status(cli *c, const selection *sel, json_t *filter, int64_t limit, double patience_s, int *all_ended)
{
    json_t    *answer, *job;
    size_t     i;
    htc_status s = ask_jobs(c, sel, filter, limit ? (uint64_t)limit : sel ? 0 : LISTED, patience_s, &answer);
    json_t    *jobs = json_object_get(answer, "jobs");
    *all_ended = 1;
    json_array_foreach(jobs, i, job) *all_ended &= ended_tasks(job) == j_u64(job, "count");
    if (s != HTC_OK) {
        json_decref(answer);
        return s;
    }
    if (c->json && !c->json_done)
        put_json(c, answer);
    else if (!c->json && sel && !sel->all && json_array_size(jobs) == 1)
        print_job(c, json_array_get(jobs, 0));
    else if (!c->json && json_array_size(jobs) == 0)
        puts(filter || (sel && sel->filter) ? "no such jobs" : "no jobs: submit one with `htc submit -- COMMAND...`");
    else if (!c->json) {
        print_jobs(c, jobs);
        if (j_bool(answer, "more"))
            puts("there are older ones: --limit N shows more");
    }
    json_decref(answer);
    return HTC_OK;
}

htc_status run_status(cli *c, int argc, char **argv)
{
    uint32_t   watch = 0;
    int64_t    limit = 0;
    words      w;
    int        all_ended;
    job_filter f = { 0 };
    const opt  opts[] = {
        { "watch", 'w', OPT_FLAG, &watch, NULL, "redraw every second until all have ended (Ctrl-C ends the watching)" },
        { "limit", 0, OPT_COUNT, &limit, "N", "list at most N jobs (50)" },
        FILTER_OPTIONS(f),
    };
    const command *cmd = find_command("status");
    json_t        *filter = NULL;
    htc_status     s = opt_parse(c, cmd, argc, argv, opts, sizeof opts / sizeof opts[0], &w);
    if (s == HTC_OK)
        s = want_words(c, cmd, &w, 0, 1);
    selection        named = { 0 };
    const selection *sel = w.count ? &named : NULL;
    if (s == HTC_OK && sel)
        s = selection_settle_of(c, w.at[0], &f, &named);
    else if (s == HTC_OK)
        s = filter_request(c, &f, &filter);
    if (s == HTC_OK && (!watch || c->json))
        s = show_status(c, sel, filter, limit, 5, &all_ended);
    else if (s == HTC_OK) {
        catch_interrupt();
        do {
            if (c->colour)
                fputs("\033[H\033[J", stdout);
            s = show_status(c, sel, filter, limit, 60, &all_ended);
            fflush(stdout);
            for (int i = 0; i < 10 && s == HTC_OK && !all_ended && !interrupted; i++)
                pause_ms(100);
        } while (s == HTC_OK && !all_ended && !interrupted);
    }
    json_decref(filter);
    selection_free(&named);
    words_free(&w);
    return s;
}

#define EXPLAINED_MAX 100 /* failed tasks of a page whose outcome is asked for */

/* How a failed task ended: "exit code 1: last line of its standard error". Gives it, and its outcome (or NULL). */
static char *failure(cli *c, uint64_t job, const json_t *task, json_t **outcome)
{
    char    selector[48]; /* of this task: the next one that has a result is another one's reason */
    json_t *answer;
    *outcome = NULL;
    snprintf(selector, sizeof selector, "%" PRIu64 ".%" PRIu64, job, j_u64(task, "index"));
    if (api_ask(c, json_pack("{s:s, s:s, s:i}", "op", "results", "id", selector, "limit", 1), 0, 10, &answer) != HTC_OK)
        return must_dup(j_str(task, "reason"));
    json_t *result = json_array_get(json_object_get(answer, "results"), 0);
    char   *said = must_dup(j_str(result, "stderr_tail"));
    size_t  len = strlen(said);
    while (len && (said[len - 1] == '\n' || said[len - 1] == '\r'))
        said[--len] = '\0';
    const char *line = strrchr(said, '\n') ? strrchr(said, '\n') + 1 : said;
    const char *reason = j_str(result, "reason")[0] ? j_str(result, "reason") : j_str(task, "reason");
    char       *text = must_print("%s%s%.100s", reason, line[0] ? ": " : "", line);
    *outcome = json_incref(result);
    json_decref(answer);
    free(said);
    return text;
}

/* Of one that has run: 0, the exit code, or the signal that ended it. */
static const char *show_exit(const json_t *task, char text[24])
{
    text[0] = '\0';
    if (j_u64(task, "signal"))
        snprintf(text, 24, "SIG%" PRIu64, j_u64(task, "signal"));
    else if (json_object_get(task, "exit_code"))
        snprintf(text, 24, "%d", (int)json_integer_value(json_object_get(task, "exit_code")));
    return text;
}

static void print_tasks(cli *c, uint64_t job, const json_t *tasks)
{
    table   t;
    size_t  i, explained = 0, no_memory = 0;
    json_t *task;
    double  now = wall_s();
    char    exit_text[24];
    table_begin(&t, ">TASK", "STATE", ">ATTEMPT", "NODE", ">FOR", ">EXIT", "REASON", NULL);
    json_array_foreach(tasks, i, task)
    {
        double  since = j_num(task, "since");
        json_t *outcome = NULL;
        no_memory += strcmp(j_str(task, "state"), "failed") == 0 && strcmp(j_str(task, "status"), htc_status_name(HTC_EOOM)) == 0;
        char   *reason = strcmp(j_str(task, "state"), "failed") == 0 && explained++ < EXPLAINED_MAX
                             ? failure(c, job, task, &outcome)
                             : must_dup(j_str(task, "reason"));
        double  seconds = j_num(task, "ended") > 0 ? j_num(task, "ended") - j_num(task, "started") : since > 0 ? now - since : -1;
        for (char *p = reason; *p; p++) /* tabs divide the table's cells */
            *p = *p == '\t' ? ' ' : *p;
        table_row(&t, "%" PRIu64 "\t%s\t%" PRIu64 "\t%s\t%s\t%s\t%s", j_u64(task, "index"), j_str(task, "state"),
                  j_u64(task, "attempt"), outcome ? j_str(outcome, "node") : j_str(task, "node"),
                  show_seconds(seconds).s, show_exit(task, exit_text), reason);
        json_decref(outcome);
        free(reason);
    }
    table_end(c, &t);
    if (no_memory)
        printf("memory ended %zu of them: htc retry %" PRIu64 " --failed --mem SIZE tries again with more\n", no_memory, job);
}

htc_status run_tasks(cli *c, int argc, char **argv)
{
    const char *state = NULL;
    uint32_t    failed = 0;
    int64_t     limit = 0;
    words       w;
    job_filter  f = { 0 };
    const opt   opts[] = {
          { "state", 's', OPT_TEXT, &state, "STATE",
            "only those waiting, leased, running, staging_out, retry_wait, done, ..." },
          { "failed", 0, OPT_FLAG, &failed, NULL, "only those that failed" },
          { "limit", 0, OPT_COUNT, &limit, "N", "at most N tasks" },
          FILTER_BY_TIME(f),
    };
    const command *cmd = find_command("tasks");
    json_t        *all = NULL, *answer;
    uint64_t       from = 0;
    selection      sel = { 0 };
    htc_status     s = opt_parse(c, cmd, argc, argv, opts, sizeof opts / sizeof opts[0], &w);
    if (s == HTC_OK)
        s = want_words(c, cmd, &w, 1, 1);
    if (s == HTC_OK)
        s = selection_settle_of(c, w.at[0], &f, &sel);
    int more = s == HTC_OK;
    while (more) { /* a page at a time; people see each as it comes */
        json_t *request = selection_request(&sel, "tasks");
        if (state)
            j_add(&request, "state", state);
        if (request)
            json_object_update_new(request, json_pack("{s:I, s:b}", "from", (json_int_t)from, "failed", (int)failed));
        if (request && limit)
            json_object_set_new(request, "limit", json_integer(limit < 1000 ? limit : 1000));
        s = api_ask(c, request, 0, 10, &answer);
        if (s != HTC_OK)
            break;
        json_t *tasks = json_object_get(answer, "tasks"), *next = json_object_get(answer, "next");
        more = json_is_integer(next);
        from = (uint64_t)json_integer_value(next);
        if (limit && (limit -= (int64_t)json_array_size(tasks)) <= 0)
            more = 0;
        if (!c->json)
            print_tasks(c, j_u64(answer, "job"), tasks);
        else if (!all)
            all = json_incref(answer);
        else {
            json_array_extend(json_object_get(all, "tasks"), tasks);
            json_object_set(all, "next", next);
        }
        json_decref(answer);
    }
    if (s == HTC_OK && all)
        put_json(c, all);
    json_decref(all);
    selection_free(&sel);
    words_free(&w);
    return s;
}

htc_status run_why(cli *c, int argc, char **argv)
{
    words          w;
    const command *cmd = find_command("why");
    json_t        *answer;
    selection      sel = { 0 };
    htc_status     s = opt_parse(c, cmd, argc, argv, NULL, 0, &w);
    if (s == HTC_OK)
        s = want_words(c, cmd, &w, 0, 1);
    if (s == HTC_OK && w.count)
        s = selection_settle(c, w.at[0], &sel);
    if (s == HTC_OK) /* without a job: of whoever asks */
        s = api_ask(c, w.count ? selection_request(&sel, "why") : json_pack("{s:s}", "op", "why"), 0, 5, &answer);
    selection_free(&sel);
    if (s == HTC_OK) {
        if (c->json)
            put_json(c, answer);
        else
            put_line(j_str(answer, "why"));
        json_decref(answer);
    }
    words_free(&w);
    return s;
}

static htc_status list(cli *c, const char *name, int argc, char **argv, void (*print)(cli *, const json_t *))
{
    words          w;
    const command *cmd = find_command(name);
    json_t        *answer;
    htc_status     s = opt_parse(c, cmd, argc, argv, NULL, 0, &w);
    if (s == HTC_OK)
        s = want_words(c, cmd, &w, 0, 0);
    if (s == HTC_OK)
        s = api_ask(c, json_pack("{s:s}", "op", name), 0, 5, &answer);
    if (s == HTC_OK) {
        if (c->json)
            put_json(c, answer);
        else
            print(c, answer);
        json_decref(answer);
    }
    words_free(&w);
    return s;
}

static void print_users(cli *c, const json_t *answer)
{
    table   t;
    size_t  i;
    json_t *u;
    table_begin(&t, "USER", ">WEIGHT", ">JOBS", ">QUEUED", ">RUNNING", ">SLOTS", ">SHARE", ">DONE", ">CORE TIME",
                NULL);
    json_array_foreach(json_object_get(answer, "users"), i, u)
        table_row(&t, "%s\t%.6g\t%" PRIu64 "\t%" PRIu64 "\t%" PRIu64 "\t%" PRIu64 "\t%s\t%" PRIu64 "\t%s",
                  j_str(u, "name"), j_num(u, "weight"), j_u64(u, "jobs"), j_u64(u, "queued"), j_u64(u, "running"),
                  j_u64(u, "agents"), j_bool(u, "demanding") ? show_count(j_num(u, "ra")).s : "-",
                  j_u64(u, "tasks_done"), show_seconds(j_num(u, "core_s")).s);
    table_end(c, &t);
}

static void print_agents(cli *c, const json_t *answer)
{
    table   t;
    size_t  i;
    json_t *a;
    double  now = wall_s();
    table_begin(&t, "AGENT", "USER", "NODE", ">SLOT", ">SLOTS", "STATE", "TASK", ">FOR", ">PID", ">DONE", "AS", "REASON", NULL);
    json_array_foreach(json_object_get(answer, "agents"), i, a) table_row(
        &t, "%s\t%s\t%s\t%" PRIu64 "\t%" PRIu64 "/%" PRIu64 "\t%s\t%s\t%s\t%" PRIu64 "\t%" PRIu64 "\t%s\t%s", show_id(json_object_get(a, "id")).s,
        j_str(a, "user"), j_str(a, "node"), j_u64(a, "slot"), j_u64(a, "slots_filled"), j_u64(a, "slots"), j_str(a, "state"), j_str(a, "task"),
        show_seconds(j_num(a, "since") > 0 ? now - j_num(a, "since") : -1).s, j_u64(a, "pid"), j_u64(a, "tasks_done"),
        j_str(a, "as"), j_str(a, "reason"));
    table_end(c, &t);
    printf("%" PRIu64 " slot%s, %" PRIu64 " free; %s\n", j_u64(answer, "slots"), plural(j_u64(answer, "slots")), j_u64(answer, "free"),
           j_str(answer, "apart_text"));
    json_array_foreach(json_object_get(answer, "sites"), i, a) if (j_u64(a, "memory"))
        printf("site %s: %s of %s of memory reserved\n", j_str(a, "name"), show_size(j_num(a, "memory_reserved")).s,
               show_size(j_num(a, "memory")).s);
}

htc_status run_users(cli *c, int argc, char **argv)
{
    return list(c, "users", argc, argv, print_users);
}

htc_status run_agents(cli *c, int argc, char **argv)
{
    return list(c, "agents", argc, argv, print_agents);
}

static void say_ended(cli *c, progress *p, const selection *sel)
{
    json_t  *answer, *job;
    size_t   i;
    uint64_t ended = 0, count = 0;
    if (!c->progress || api_ask(c, selection_request(sel, "status"), 20, 60, &answer) != HTC_OK)
        return;
    json_array_foreach(json_object_get(answer, "jobs"), i, job)
    {
        ended += ended_tasks(job);
        count += j_u64(job, "count");
    }
    json_decref(answer);
    progress_say(p, "%" PRIu64 " of %" PRIu64 " task%s ended", ended, count, plural(count));
}

static htc_status say_interrupted(cli *c, const selection *sel)
{
    return cli_error(c, HTC_ETIMEDOUT, sel->id, "htc wait waits again, htc cancel ends it", "the waiting was interrupted, the job goes on");
}

/* Until the jobs of one page have ended: a second at a time, so that an interruption is seen. Gives the answer. */
static htc_status wait_for_page(cli *c, progress *p, const selection *sel, double until, json_t **answer)
{
    for (;;) {
        double  left = until - now_s();
        json_t *request = selection_request(sel, "wait");
        if (request)
            json_object_set_new(request, "timeout", json_real(left < 0 ? 0 : left < 1 ? left : 1));
        htc_status s = api_ask(c, request, 20, 60, answer);
        if (interrupted) {
            if (s == HTC_OK)
                json_decref(*answer);
            return say_interrupted(c, sel);
        }
        if (s != HTC_ETIMEDOUT || c->silent || now_s() >= until)
            return s;
        say_ended(c, p, sel);
    }
}

static htc_status wait_for_pages(cli *c, progress *p, selection *sel, double until, json_t *all)
{
    json_t    *answer, *jobs = json_array();
    htc_status s = HTC_OK;
    int        more = 1;
    json_object_set_new(all, "jobs", jobs);
    while (more && (s = wait_for_page(c, p, sel, until, &answer)) == HTC_OK) {
        json_array_extend(jobs, json_object_get(answer, "jobs"));
        more = selection_next(sel, answer);
        json_decref(answer);
    }
    return s;
}

/* What did not end well, and the command that lists it. */
static htc_status say_unfinished(cli *c, const selection *sel, uint64_t failed, uint64_t cancelled, uint64_t count)
{
    char        hint[160];
    const char *id = sel->all ? "ID" : sel->id;
    if (!failed) {
        snprintf(hint, sizeof hint, "htc tasks %.60s --state cancelled lists them", id);
        return cli_error(c, HTC_ETASKS, sel->id, hint, "%" PRIu64 " of %" PRIu64 " task%s %s cancelled", cancelled, count, plural(count), cancelled == 1 ? "was" : "were");
    }
    snprintf(hint, sizeof hint, "htc tasks %.60s --failed says why", id);
    if (!cancelled)
        return cli_error(c, HTC_ETASKS, sel->id, hint, "%" PRIu64 " of %" PRIu64 " task%s failed", failed, count, plural(count));
    return cli_error(c, HTC_ETASKS, sel->id, hint, "%" PRIu64 " of %" PRIu64 " task%s failed and %" PRIu64 " %s cancelled", failed, count, plural(count),
                     cancelled, cancelled == 1 ? "was" : "were");
}

htc_status wait_for_jobs(cli *c, const char *selector, double timeout_s)
{
    progress   p;
    selection  sel;
    json_t    *all = json_object(), *job;
    size_t     i;
    uint64_t   failed = 0, cancelled = 0, count = 0;
    double     until = timeout_s >= 0 ? now_s() + timeout_s : HUGE_VAL;
    progress_begin(&p, c);
    catch_interrupt();
    htc_status s = selection_settle(c, selector, &sel);
    if (s == HTC_OK)
        s = wait_for_pages(c, &p, &sel, until, all);
    progress_end(&p);
    json_array_foreach(json_object_get(all, "jobs"), i, job)
    {
        const json_t *n = json_object_get(job, "tasks");
        failed += j_u64(n, "failed");
        cancelled += j_u64(n, "cancelled");
        count += j_u64(job, "count");
    }
    if (s == HTC_OK && c->json && !c->json_done)
        put_json(c, all);
    json_decref(all);
    if (s == HTC_OK && failed + cancelled)
        s = say_unfinished(c, &sel, failed, cancelled, count);
    selection_free(&sel);
    return s;
}

/* One whose record is damaged counts as ended: nothing more becomes of it, and its result says so. */
static int is_open(const json_t *task)
{
    const char *state = j_str(task, "state");
    return strcmp(state, "done") != 0 && strcmp(state, "failed") != 0 && strcmp(state, "cancelled") != 0 && strcmp(state, "unreadable") != 0;
}

/* Of all tasks that are listed. */
htc_status count_tasks(cli *c, const selection *sel, uint64_t *count, uint64_t *open)
{
    json_int_t from = 0;
    *count = *open = 0;
    for (int more = 1; more;) {
        json_t    *answer, *task, *next, *request = selection_request(sel, "tasks");
        size_t     i;
        htc_status s = HTC_OK;
        if (request)
            json_object_set_new(request, "from", json_integer(from));
        if ((s = api_ask(c, request, 0, 60, &answer)) != HTC_OK)
            return s;
        json_array_foreach(json_object_get(answer, "tasks"), i, task)
        {
            *open += is_open(task);
            ++*count;
        }
        next = json_object_get(answer, "next");
        more = json_is_integer(next);
        from = json_integer_value(next);
        json_decref(answer);
    }
    return HTC_OK;
}

/* The index of a page's first task that has not ended. 0: all have. */
static int first_open(const json_t *answer, json_int_t *index)
{
    const json_t *task;
    size_t        i;
    json_array_foreach(json_object_get(answer, "tasks"), i, task)
    {
        if (is_open(task)) {
            *index = (json_int_t)j_u64(task, "index");
            return 1;
        }
    }
    return 0;
}

/* Until all tasks of a selection like 7.0-9 have ended, each looked at until it has and then no more. */
static htc_status wait_for_tasks(cli *c, const selection *sel)
{
    json_int_t from = 0;
    for (int more = 1; more;) {
        json_t *answer, *request = selection_request(sel, "tasks");
        if (request)
            json_object_set_new(request, "from", json_integer(from));
        htc_status s = api_ask(c, request, 20, 60, &answer);
        if (interrupted || s != HTC_OK) {
            if (s == HTC_OK)
                json_decref(answer);
            return interrupted ? say_interrupted(c, sel) : s;
        }
        json_t *next = json_object_get(answer, "next");
        if (first_open(answer, &from)) {
            pause_ms(500);
        } else {
            more = json_is_integer(next);
            from = json_integer_value(next);
        }
        json_decref(answer);
    }
    return HTC_OK;
}

htc_status wait_until_ended(cli *c, const selection *sel)
{
    progress   p;
    json_t    *answer;
    htc_status s;
    progress_begin(&p, c);
    catch_interrupt();
    if (strchr(sel->id, '.'))
        s = wait_for_tasks(c, sel);
    else if ((s = wait_for_page(c, &p, sel, HUGE_VAL, &answer)) == HTC_OK)
        json_decref(answer);
    leave_interrupt();
    progress_end(&p);
    return s;
}

htc_status run_wait(cli *c, int argc, char **argv)
{
    double         timeout = -1;
    words          w;
    const opt      opts[] = { { "timeout", 0, OPT_TIME, &timeout, "TIME", "give up after this long (exit code 6)" } };
    const command *cmd = find_command("wait");
    htc_status     s = opt_parse(c, cmd, argc, argv, opts, 1, &w);
    if (s == HTC_OK)
        s = want_words(c, cmd, &w, 1, 1);
    if (timeout > 0 && timeout < ANSWER_S)
        c->timeout_s = timeout;
    if (s == HTC_OK)
        s = wait_for_jobs(c, w.at[0], timeout);
    words_free(&w);
    return s;
}
