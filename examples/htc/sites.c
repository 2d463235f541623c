/* htc sites, drain and resume. */
#include <inttypes.h>
#include <stdio.h>

#include "htc.h"

static void print_sites(cli *c, const json_t *answer)
{
    table   t;
    size_t  i;
    json_t *s;
    table_begin(&t, "SITE", "HOST", "STATE", ">SLOTS", ">USED", ">AGENTS", ">QUEUED", ">FOR", "REASON", NULL);
    json_array_foreach(json_object_get(answer, "sites"), i, s)
        table_row(&t, "%s\t%s\t%s\t%" PRIu64 "\t%" PRIu64 "\t%" PRIu64 "\t%" PRIu64 "\t%s\t%s", j_str(s, "name"), j_str(s, "node"), j_str(s, "state"),
                  j_u64(s, "slots"), j_u64(s, "used"), j_u64(s, "agents"), j_u64(s, "queued"),
                  show_seconds(json_object_get(s, "pause_s") ? j_num(s, "pause_s") : -1).s, j_str(s, "reason"));
    table_end(c, &t);
}

htc_status run_sites(cli *c, int argc, char **argv)
{
    words          w;
    const command *cmd = find_command("sites");
    json_t        *answer = NULL;
    htc_status     s = opt_parse(c, cmd, argc, argv, NULL, 0, &w);
    if (s == HTC_OK)
        s = want_words(c, cmd, &w, 0, 0);
    if (s == HTC_OK)
        s = api_ask(c, json_pack("{s:s}", "op", "agents"), 0, 5, &answer);
    if (s == HTC_OK && c->json) {
        json_t *o = json_pack("{s:O}", "sites", json_object_get(answer, "sites"));
        put_json(c, o);
        json_decref(o);
    } else if (s == HTC_OK) {
        print_sites(c, answer);
    }
    json_decref(answer);
    words_free(&w);
    return s;
}

static htc_status change_site(cli *c, const char *op, const char *name, const char *reason, const char *done)
{
    json_t    *answer = NULL, *r = json_pack("{s:s,s:s}", "op", op, "site", name);
    if (reason)
        json_object_set_new(r, "reason", json_string(reason));
    htc_status s = api_ask(c, r, 0, 30, &answer);
    if (s == HTC_OK && c->json)
        put_json(c, answer);
    else if (s == HTC_OK)
        printf(done, j_str(answer, "site"), j_u64(answer, "used"));
    json_decref(answer);
    return s;
}

htc_status run_drain(cli *c, int argc, char **argv)
{
    words          w;
    const char    *reason = NULL;
    const opt      opts[] = { { "reason", 0, OPT_TEXT, &reason, "TEXT", "why, for those who wonder" } };
    const command *cmd = find_command("drain");
    htc_status     s = opt_parse(c, cmd, argc, argv, opts, 1, &w);
    if (s == HTC_OK)
        s = want_words(c, cmd, &w, 1, 1);
    if (s == HTC_OK)
        s = change_site(c, "site.drain", w.at[0], reason, "site %s is out of service; %" PRIu64 " slots of it are in use until their tasks end\n");
    words_free(&w);
    return s;
}

htc_status run_resume(cli *c, int argc, char **argv)
{
    words          w;
    const command *cmd = find_command("resume");
    htc_status     s = opt_parse(c, cmd, argc, argv, NULL, 0, &w);
    if (s == HTC_OK)
        s = want_words(c, cmd, &w, 1, 1);
    if (s == HTC_OK)
        s = change_site(c, "site.resume", w.at[0], NULL, "site %s is in service; %" PRIu64 " slots of it are in use\n");
    words_free(&w);
    return s;
}
