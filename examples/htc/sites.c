/* htc sites, drain and resume. */
#include <inttypes.h>
#include <stdio.h>

#include "htc.h"

/* "gpu 1/2 matlab 0/3": of each, how many are taken */
static const char *show_counted(const json_t *site, char *text, size_t cap)
{
    const char *name;
    json_t     *one;
    size_t      len = 0;
    text[0] = '\0';
    json_object_foreach(json_object_get(site, "resources"), name, one)
    if (len < cap)
        len += (size_t)snprintf(text + len, cap - len, "%s%s %" PRIu64 "/%" PRIu64, len ? " " : "", name, j_u64(one, "used"), j_u64(one, "total"));
    return text;
}

static void print_sites(cli *c, const json_t *answer)
{
    table   t;
    size_t  i;
    json_t *s;
    char    counted[512];
    table_begin(&t, "SITE", "HOST", "STATE", ">SLOTS", ">USED", ">AGENTS", ">QUEUED", ">FOR", "RESOURCES", "REASON", NULL);
    json_array_foreach(json_object_get(answer, "sites"), i, s)
        table_row(&t, "%s\t%s\t%s\t%" PRIu64 "\t%" PRIu64 "\t%" PRIu64 "\t%" PRIu64 "\t%s\t%s\t%s", j_str(s, "name"), j_str(s, "node"), j_str(s, "state"),
                  j_u64(s, "slots"), j_u64(s, "used"), j_u64(s, "agents"), j_u64(s, "queued"),
                  show_seconds(json_object_get(s, "pause_s") ? j_num(s, "pause_s") : -1).s, show_counted(s, counted, sizeof counted), j_str(s, "reason"));
    table_end(c, &t);
    json_array_foreach(json_object_get(answer, "sites"), i, s)
        if (j_str(s, "outputs_apart")[0])
            printf("outputs of site %s are not stored in the gateway's directory, but sent: %s\n", j_str(s, "name"), j_str(s, "outputs_apart"));
    json_array_foreach(json_object_get(answer, "nodes_drained"), i, s)
        printf("node %s is out of service%s%s\n", j_str(s, "node"), j_str(s, "reason")[0] ? ": " : "", j_str(s, "reason"));
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
        json_t *o = json_pack("{s:O,s:O}", "sites", json_object_get(answer, "sites"), "nodes_drained", json_object_get(answer, "nodes_drained"));
        put_json(c, o);
        json_decref(o);
    } else if (s == HTC_OK) {
        print_sites(c, answer);
    }
    json_decref(answer);
    words_free(&w);
    return s;
}

/* A name is a site's, or else a node's. */
static htc_status change(cli *c, int drain, const char *name, uint32_t node, const char *reason)
{
    json_t    *answer = NULL, *r = json_pack("{s:s,s:s}", "op", drain ? "site.drain" : "site.resume", "site", name);
    json_t    *of_node = json_pack("{s:s,s:s,s:b}", "op", drain ? "node.drain" : "node.resume", "node", name, "unseen", (int)node);
    htc_status s = HTC_ENOTFOUND;
    if (reason) {
        json_object_set_new(r, "reason", json_string(reason));
        json_object_set_new(of_node, "reason", json_string(reason));
    }
    if (!node)
        s = api_ask(c, json_incref(r), 0, 30, &answer);
    if (s == HTC_ENOTFOUND)
        s = api_ask(c, json_incref(of_node), 0, 30, &answer);
    if (s == HTC_OK && c->json)
        put_json(c, answer);
    else if (s == HTC_OK)
        printf("%s %s is %s service; %" PRIu64 " slot%s of it %s in use%s\n", json_object_get(answer, "site") ? "site" : "node",
               json_object_get(answer, "site") ? j_str(answer, "site") : j_str(answer, "node"), drain ? "out of" : "in", j_u64(answer, "used"), plural(j_u64(answer, "used")),
               j_u64(answer, "used") == 1 ? "is" : "are", !drain ? "" : j_u64(answer, "used") == 1 ? " until its task ends" : " until their tasks end");
    json_decref(answer);
    json_decref(r);
    json_decref(of_node);
    return s;
}

static htc_status run_change(cli *c, const char *command_name, int drain, int argc, char **argv)
{
    words          w;
    const char    *reason = NULL;
    uint32_t       node = 0;
    const opt      opts[] = { { "node", 0, OPT_FLAG, &node, NULL, "it is a node's name, also of one where nothing runs now" },
                              { "reason", 0, OPT_TEXT, &reason, "TEXT", "why, for those who wonder" } };
    const command *cmd = find_command(command_name);
    htc_status     s = opt_parse(c, cmd, argc, argv, opts, drain ? 2 : 1, &w);
    if (s == HTC_OK)
        s = want_words(c, cmd, &w, 1, 1);
    if (s == HTC_OK)
        s = change(c, drain, w.at[0], node, reason);
    words_free(&w);
    return s;
}

htc_status run_drain(cli *c, int argc, char **argv)
{
    return run_change(c, "drain", 1, argc, argv);
}

htc_status run_resume(cli *c, int argc, char **argv)
{
    return run_change(c, "resume", 0, argc, argv);
}
