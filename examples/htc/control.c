/* cancel, hold, release, retry, rm: what changes a job that was submitted. */
#include "htc.h"

#include <inttypes.h>
#include <string.h>

typedef struct change {
    const char *op, *member, *done, *what; /* of its answer and of the sentence about it */
    int         failed;                    /* cancel, retry: of tasks that failed */
    uint64_t    memory;                    /* retry: limits from now on; 0: as they were */
    double      time_s;
} change;

static void say_change(cli *c, const change *ch, uint64_t n, uint64_t left)
{
    if (c->json) {
        json_t *o = json_pack("{s:I, s:I}", ch->member, (json_int_t)n, "left", (json_int_t)left);
        put_json(c, o);
        json_decref(o);
        return;
    }
    printf("%s %" PRIu64 " %s%s", ch->done, n, ch->what, n == 1 ? "" : "s");
    if (left)
        printf(", left %" PRIu64 " job%s alone: %s", left, left == 1 ? "" : "s",
               strcmp(ch->op, "rm") == 0 ? "not ended yet, or just being changed" : "cancelled, or just being changed");
    putchar('\n');
}

/* A request for each page of jobs, one sentence about all of them. */
static htc_status change_jobs(cli *c, const change *ch, const char *selector, const job_filter *f)
{
    selection  sel;
    json_t    *answer;
    uint64_t   n = 0, left = 0;
    int        more = 1;
    htc_status s = selection_settle_of(c, selector, f, &sel);
    if (s != HTC_OK) {
        selection_free(&sel);
        return s;
    }
    while (s == HTC_OK && more) {
        json_t *request = selection_request(&sel, ch->op);
        if (request && ch->failed)
            json_object_set_new(request, "failed", json_true());
        if (request && ch->memory)
            json_object_set_new(request, "memory", json_integer((json_int_t)ch->memory));
        if (request && ch->time_s > 0)
            json_object_set_new(request, "time_limit", json_real(ch->time_s));
        s = api_call(c, request, 0, &answer);
        if (s != HTC_OK)
            break;
        n += j_u64(answer, ch->member);
        left += j_u64(answer, "left");
        more = selection_next(&sel, answer);
        json_decref(answer);
    }
    selection_free(&sel);
    if (s == HTC_OK)
        say_change(c, ch, n, left);
    return s;
}

static htc_status simple(cli *c, const change *ch, int argc, char **argv)
{
    words          w;
    job_filter     f = { 0 };
    const opt      opts[] = { FILTER_OPTIONS(f) };
    const command *cmd = find_command(ch->op);
    htc_status     s = opt_parse(c, cmd, argc, argv, opts, sizeof opts / sizeof opts[0], &w);
    if (s == HTC_OK)
        s = want_words(c, cmd, &w, 1, 1);
    if (s == HTC_OK)
        s = change_jobs(c, ch, w.at[0], &f);
    words_free(&w);
    return s;
}

htc_status run_cancel(cli *c, int argc, char **argv)
{
    uint32_t   failed = 0;
    words      w;
    job_filter f = { 0 };
    const opt  opts[] = {
        { "failed", 0, OPT_FLAG, &failed, NULL, "those tasks that have failed before and have not ended" },
        FILTER_OPTIONS(f),
    };
    const command *cmd = find_command("cancel");
    htc_status     s = opt_parse(c, cmd, argc, argv, opts, sizeof opts / sizeof opts[0], &w);
    if (s == HTC_OK)
        s = want_words(c, cmd, &w, 1, 1);
    if (s == HTC_OK)
        s = change_jobs(c, &(change){ .op = "cancel", .member = "cancelled", .done = "cancelled", .what = "task", .failed = (int)failed }, w.at[0], &f);
    words_free(&w);
    return s;
}

htc_status run_hold(cli *c, int argc, char **argv)
{
    return simple(c, &(change){ .op = "hold", .member = "held", .done = "held", .what = "job" }, argc, argv);
}

htc_status run_release(cli *c, int argc, char **argv)
{
    return simple(c, &(change){ .op = "release", .member = "released", .done = "released", .what = "job" }, argc, argv);
}

htc_status run_rm(cli *c, int argc, char **argv)
{
    return simple(c, &(change){ .op = "rm", .member = "removed", .done = "removed", .what = "job" }, argc, argv);
}

htc_status run_retry(cli *c, int argc, char **argv)
{
    uint32_t   failed = 0;
    words      w;
    job_filter f = { 0 };
    change     ch = { .op = "retry", .member = "retried", .done = "waiting again:", .what = "task" };
    const opt  opts[] = {
        { "failed", 0, OPT_FLAG, &failed, NULL, "those tasks of the job that failed, no others" },
        { "mem", 'm', OPT_SIZE, &ch.memory, "SIZE", "memory of these tasks from now on" },
        { "time", 't', OPT_WALLTIME, &ch.time_s, "TIME", "wall-time limit of these tasks from now on" },
        FILTER_OPTIONS(f),
    };
    const command *cmd = find_command("retry");
    htc_status     s = opt_parse(c, cmd, argc, argv, opts, sizeof opts / sizeof opts[0], &w);
    ch.failed = (int)failed;
    if (s == HTC_OK)
        s = want_words(c, cmd, &w, 1, 1);
    if (s == HTC_OK)
        s = change_jobs(c, &ch, w.at[0], &f);
    words_free(&w);
    return s;
}
