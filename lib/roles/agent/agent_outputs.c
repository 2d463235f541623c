/* Outputs that go straight to the gateway's directory, where its host and this one see the same file system. The gateway names the directory and an id;
 * the host looks whether what lies there under that id is the same. Each says what it has found, and outputs stay here where it is not.
 *
 *   AGENT_WELCOME with a directory ──▶ OUTPUTS_AT ──▶ AGENT_OUTPUTS ok
 *                                          ▲     └──▶ AGENT_OUTPUTS why not ──┐
 *                                          └── RETRY later, as a mount may come ┘ */
#include <stdio.h>
#include <string.h>

#include "roles/agent/agent_private.h"

#define RETRY (30 * HTC_SECOND)

static void ask_host(htc_agent *a)
{
    const char *dir = a->outputs.dir[0] && a->outputs.path[0] ? a->outputs.path : a->outputs.dir;
    a->outputs.at = HTC_NEVER;
    a->outputs.asked = 1;
    htc_buf_clear(&a->buf);
    htc_put_str(&a->buf, dir);
    htc_put_str(&a->buf, a->outputs.id);
    htc__agent_emit(a, &(htc_effect){ .kind = HTC_OUT_CALL, .op = HTC_CALL_OUTPUTS_AT, .body = htc_buf_bytes(&a->buf) });
}

static void take(htc_agent *a, htc_status status, const char *text)
{
    int news = !a->outputs.told || a->outputs.status != status || strcmp(a->outputs.text, text) != 0;
    a->outputs.status = status;
    snprintf(a->outputs.text, sizeof a->outputs.text, "%s", text);
    if (!news || !a->registered)
        return;
    if (status != HTC_OK)
        htc__log_with(&a->env, HTC_LOG_WARN, HTC__FIELDS(HTC__STATUS(status)), "outputs are not stored in the gateway's directory: %s -> they stay here, and are sent when they are fetched",
                      a->outputs.text);
    a->outputs.told = 1;
    htc__agent_say_outputs(a);
}

void htc__agent_outputs_welcome(htc_agent *a, const htc_agent_welcome *m)
{
    int had = a->outputs.dir[0] != '\0';
    memcpy(a->outputs.dir, m->outputs, sizeof a->outputs.dir);
    memcpy(a->outputs.id, m->outputs_id, sizeof a->outputs.id);
    a->outputs.at = HTC_NEVER;
    a->outputs.told = 0;
    if (m->outputs[0] && !a->outputs.shares)
        take(a, HTC_EUNSUPPORTED, "data.output is local in the configuration of the agent's host");
    else if ((m->outputs[0] || had) && a->outputs.shares)
        ask_host(a);
}

int htc__agent_outputs_result(htc_agent *a, const htc_input *in)
{
    char text[256];
    if (in->op != HTC_CALL_OUTPUTS_AT)
        return 0;
    int len = in->body.len < sizeof text ? (int)in->body.len : (int)sizeof text - 1;
    a->outputs.asked = 0;
    if (!a->outputs.dir[0])
        return 1;
    snprintf(text, sizeof text, "%.*s", len, in->body.len ? (const char *)in->body.data : "");
    if (in->status != HTC_OK) {
        if (!text[0])
            snprintf(text, sizeof text, "%s", htc_strerror(in->status));
        a->outputs.at = a->holder.now + RETRY;
    }
    take(a, in->status, in->status == HTC_OK ? "" : text);
    return 1;
}

void htc__agent_outputs_run(htc_agent *a)
{
    if (a->registered && a->outputs.dir[0] && !a->outputs.asked && a->holder.now >= a->outputs.at)
        ask_host(a);
}
