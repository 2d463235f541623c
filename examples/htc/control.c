/* cancel, release, retry, rm: what changes a job that was submitted. */
#include "htc.h"

#include <inttypes.h>
#include <string.h>

typedef struct change {
    const char *op, *member, *done, *what; /* of its answer and of the sentence about it */
    int         failed;                    /* retry: the failed tasks */
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
static htc_status change_jobs(cli *c, const change *ch, const char *selector)
{
    selection  sel;
    json_t    *answer;
    uint64_t   n = 0, left = 0;
    int        more = 1;
    htc_status s = selection_settle(c, selector, &sel);
    if (s != HTC_OK)
        return s;
    while (s == HTC_OK && more) {
        json_t *request = selection_request(&sel, ch->op);
        if (request && ch->failed)
            json_object_set_new(request, "failed", json_true());
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
    const command *cmd = find_command(ch->op);
    htc_status     s = opt_parse(c, cmd, argc, argv, NULL, 0, &w);
    if (s == HTC_OK)
        s = want_words(c, cmd, &w, 1, 1);
    if (s == HTC_OK)
        s = change_jobs(c, ch, w.at[0]);
    words_free(&w);
    return s;
}

htc_status run_cancel(cli *c, int argc, char **argv)
{
    return simple(c, &(change){ "cancel", "cancelled", "cancelled", "task", 0 }, argc, argv);
}

htc_status run_release(cli *c, int argc, char **argv)
{
    return simple(c, &(change){ "release", "released", "released", "job", 0 }, argc, argv);
}

htc_status run_rm(cli *c, int argc, char **argv)
{
    return simple(c, &(change){ "rm", "removed", "removed", "job", 0 }, argc, argv);
}

htc_status run_retry(cli *c, int argc, char **argv)
{
    uint32_t  failed = 0;
    words     w;
    const opt opts[] = { { "failed", 0, OPT_FLAG, &failed, NULL, "those tasks of the job that failed, no others" } };
    const command *cmd = find_command("retry");
    htc_status     s = opt_parse(c, cmd, argc, argv, opts, 1, &w);
    if (s == HTC_OK)
        s = want_words(c, cmd, &w, 1, 1);
    if (s == HTC_OK)
        s = change_jobs(c, &(change){ "retry", "retried", "waiting again:", "task", (int)failed }, w.at[0]);
    words_free(&w);
    return s;
}
