/* Uploads that a task reads and that are not at its site. The gateway is asked to have them brought there: once for each site, however many of
 * its agents want them. On the gateway's own machine all of them are there, and what is missing is missing for good.
 *
 *   STAGE_IN: not there, spoilt ──▶ CONTENT_WANT, again and again ──▶ CONTENT_HERE ok ──▶ STAGE_IN once more
 *                                            │                         else: as if STAGE_IN had said so
 *                                            └── an order ──▶ obeyed at once
 *
 * What was brought may have made room for others before it is staged in: then it is asked for again, some times. */
#include <string.h>

#include "htcsched/client.h"
#include "roles/agent/agent_private.h"

#define ASKED_MAX 8
#define PATIENCE  (60 * HTC_SECOND) /* without an answer, as where the site's host is away: then the task is given back */

/* Of all inputs that are uploads, each once. */
static void list_hashes(const htc_task *task, htc_buf *hashes)
{
    uint8_t hash[32];
    for (size_t i = 0; i < task->n_in; i++) {
        if (htc_content_of_uri(task->in[i].uri, hash, NULL) != HTC_OK)
            continue;
        size_t k = 0;
        while (k < hashes->len && memcmp(hashes->data + k, hash, sizeof hash) != 0)
            k += sizeof hash;
        if (k == hashes->len)
            htc_put_raw(hashes, (htc_bytes){ hash, sizeof hash });
    }
}

/* 0: there is nothing to ask for. */
static int say_want(htc_agent *a, agent_held *t)
{
    htc_task *task = NULL;
    htc_buf   hashes;
    htc_buf_init(&hashes, &a->env, 0);
    htc_status status = htc_task_from_bytes(&a->env, t->attempt.task, &task);
    if (status == HTC_OK)
        list_hashes(task, &hashes);
    if (status == HTC_ENOMEM || hashes.status != HTC_OK)
        a->holder.failed = HTC_ENOMEM;
    htc_task_destroy(task);
    int some = hashes.status == HTC_OK && hashes.len > 0 && hashes.len / 32 <= HTC_CONTENT_WANT_MAX;
    if (some && a->registered)
        htc__agent_say_content_want(a, t, htc_buf_bytes(&hashes));
    htc_buf_free(&hashes);
    t->content_at = a->holder.now + htc__attempt_backoff(&a->holder, &t->content_tries);
    return some;
}

static void judge(htc_agent *a, agent_held *t, htc_status status, const char *text)
{
    htc_input in = { .size = sizeof in, .now = a->holder.now, .kind = HTC_IN_RESULT, .op = HTC_CALL_STAGE_IN, .tag = t->attempt.run, .status = status,
                     .body = htc_bytes_of(text) };
    t->content = 0;
    htc__attempt_result(&a->holder, &t->attempt, &in);
}

int htc__agent_content_ask(htc_agent *a, agent_held *t, htc_status status)
{
    if (!a->brings || (status != HTC_ENOTFOUND && status != HTC_ECORRUPT))
        return 0;
    t->content_tries = 0;
    t->spoilt = status == HTC_ECORRUPT;
    if (t->attempt.order != ORDER_NONE || t->contents >= ASKED_MAX || !say_want(a, t))
        return 0;
    t->content = 1;
    t->contents++;
    t->content_since = a->holder.now;
    return 1;
}

void htc__agent_content_heard(htc_agent *a, const htc_content_here *m)
{
    agent_held *t = htc__agent_find(a, &m->attempt);
    if (!t || !t->content)
        return;
    if (m->status != HTC_OK) {
        judge(a, t, m->status < 0 ? m->status : HTC_EPROTO, m->text);
        return;
    }
    t->content = 0;
    htc__attempt_stage_again(&a->holder, &t->attempt);
}

void htc__agent_content_give_up(htc_agent *a, agent_held *t)
{
    judge(a, t, HTC_ECANCELLED, "it was not waited for");
}

void htc__agent_content_repeat(htc_agent *a)
{
    for (uint32_t i = a->count; a->registered && i > 0; i--) {
        agent_held *t = a->held[i - 1];
        if (!t->content || a->holder.now < t->content_at)
            continue;
        if (a->holder.now - t->content_since >= PATIENCE)
            htc__agent_order(a, t, ORDER_STOP); /* somebody else may have it */
        else
            (void)say_want(a, t);
    }
}
