/* cancel, release, retry, rm: what changes a job that was submitted. */
#include "htc.h"

#include <inttypes.h>

/* One request, one number in its answer, one sentence about it. */
static htc_status change(cli *c, json_t *request, const char *member, const char *done, const char *what)
{
    json_t    *answer;
    htc_status s = api_call(c, request, 0, &answer);
    if (s != HTC_OK)
        return s;
    if (c->json)
        put_json(c, answer);
    else
        printf("%s %" PRIu64 " %s%s\n", done, j_u64(answer, member), what, j_u64(answer, member) == 1 ? "" : "s");
    json_decref(answer);
    return HTC_OK;
}

static htc_status simple(cli *c, const char *name, int argc, char **argv, const char *member, const char *done,
                         const char *what)
{
    words          w;
    const command *cmd = find_command(name);
    htc_status     s = opt_parse(c, cmd, argc, argv, NULL, 0, &w);
    if (s == HTC_OK)
        s = want_words(c, cmd, &w, 1, 1);
    if (s == HTC_OK)
        s = change(c, json_pack("{s:s, s:s}", "op", name, "id", w.at[0]), member, done, what);
    words_free(&w);
    return s;
}

htc_status run_cancel(cli *c, int argc, char **argv)
{
    return simple(c, "cancel", argc, argv, "cancelled", "cancelled", "task");
}

htc_status run_release(cli *c, int argc, char **argv)
{
    return simple(c, "release", argc, argv, "released", "released", "job");
}

htc_status run_rm(cli *c, int argc, char **argv)
{
    return simple(c, "rm", argc, argv, "removed", "removed", "job");
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
        s = change(c, json_pack("{s:s, s:s, s:b}", "op", "retry", "id", w.at[0], "failed", (int)failed), "retried",
                   "waiting again:", "task");
    words_free(&w);
    return s;
}
