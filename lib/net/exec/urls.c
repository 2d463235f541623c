/* Inputs that a task names by their URL: fetched before it is staged in, by a process of its own (htc-transfer) for all of them, into a directory beside
 * the task's. A process, not the loop and not its threads: a server that says nothing holds up nobody else, what it sends is read by nothing that
 * has an agent's rights to lose but this one transfer, it ends at once when it is to, and libcurl and what it loads is in no agent.
 *
 *   place made ──▶ htc-transfer ──▶ all is there ──▶ staged in as other inputs are
 *                       └──▶ why not: STAGE_IN answers it; parts stay for the next try
 */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/url.h"
#include "net/exec/exec_private.h"
#include "net/files/files.h"
#include "net/loop/program.h"
#include "roles/transfer/transfer_wire.h"

#define REQUEST_MAX (8u << 20)
#define WITHIN      (365 * 86400 * HTC_SECOND) /* what stalls is ended by the process itself; a large file takes as long as it takes */

int htc__urls_is_wanted(const htc_stage *s)
{
    return htc__url_is_web(htc_bytes_of(s->uri));
}

int htc__urls_some(const htc_task *t)
{
    for (size_t i = 0; i < t->n_in; i++)
        if (htc__urls_is_wanted(&t->in[i]))
            return 1;
    return 0;
}

static void put_request(const htc__run *r, const char *dir, htc_buf *b)
{
    const htc_agent_host *a = r->agent;
    transfer_request      q = { .parent = (uint32_t)getpid(), .dir = htc_bytes_of(dir), .bytes_max = a->urls.bytes_max, .connect = a->urls.connect,
                                .stall = a->urls.stall, .ca = htc_bytes_of(a->urls.ca), .proxy = htc_bytes_of(a->urls.proxy),
                                .netrc = r->task->credentials ? htc_bytes_of(r->task->credentials) : (htc_bytes){ NULL, 0 } };
    for (size_t i = 0; i < r->task->n_in; i++)
        q.count += htc__urls_is_wanted(&r->task->in[i]) != 0;
    htc__transfer_request_write(b, &q);
    for (size_t i = 0; i < r->task->n_in; i++) {
        char name[24];
        snprintf(name, sizeof name, "%zu", i);
        if (htc__urls_is_wanted(&r->task->in[i]))
            htc__transfer_one_write(b, &(transfer_one){ .url = htc_bytes_of(r->task->in[i].uri), .name = htc_bytes_of(name) });
    }
}

static void ended(void *ctx, int exit_code, htc_bytes printed, htc_bytes error)
{
    htc__run *r = ctx;
    r->fetch = NULL;
    if (r->fetch_stopped) {
        r->status = HTC_ECANCELLED;
        snprintf(r->text, sizeof r->text, "not begun");
    } else if (exit_code != 0 || htc__transfer_answer_read(printed, &r->status, r->text, sizeof r->text) != HTC_OK) {
        r->status = HTC_EBUSY; /* it was killed, perhaps: another try may do */
        snprintf(r->text, sizeof r->text, "htc-transfer ended with %d: %.*s", exit_code, (int)(error.len < 200 ? error.len : 200), error.len ? (const char *)error.data : "");
        r->text[strcspn(r->text, "\n")] = '\0';
    }
    htc__text_clean(r->text);
    r->fetched(r);
}

static htc_status refuse(htc__run *r, htc_status status, const char *text)
{
    snprintf(r->text, sizeof r->text, "%.300s", text);
    r->status = status;
    return status;
}

htc_status htc__urls_start(htc__run *r, void (*fetched)(htc__run *r))
{
    static const char *const no_environment[] = { NULL };
    const char              *program = r->agent->urls.program;
    char                     dir[PATH_MAX];
    htc_buf                  b;
    r->fetch_stopped = 0;
    r->fetched = fetched;
    if (!program)
        return refuse(r, HTC_EUNSUPPORTED, "inputs are fetched from URLs by htc-transfer, which is not beside htc-agent: install it there");
    if (snprintf(dir, sizeof dir, "%s/fetch", r->dir) >= (int)sizeof dir)
        return refuse(r, HTC_EINPUT, "the path of its directory is too long");
    htc_buf_init(&b, r->agent->env, REQUEST_MAX);
    put_request(r, dir, &b);
    htc__program_start s = { .words = { program, strlen(program) + 1 }, .input = htc_buf_bytes(&b), .environ = no_environment, .printed_max = HTC__TRANSFER_ANSWER_MAX,
                             .within = WITHIN, .ended = ended, .ctx = r };
    htc_status status = b.status == HTC_ETOOBIG ? HTC_EINPUT : b.status;
    if (status == HTC_OK && !(r->fetch = htc__program_run(r->agent->host->base, &s)))
        status = HTC_EBUSY;
    if (status != HTC_OK)
        (void)refuse(r, status, r->fetch || status != HTC_EBUSY ? htc_strerror(status) : "htc-transfer cannot be started");
    htc_buf_free(&b);
    return status;
}

void htc__urls_stop(htc__run *r)
{
    if (!r->fetch || r->fetch_stopped)
        return;
    pid_t pid = htc__program_pid(r->fetch);
    r->fetch_stopped = 1;
    if (pid > 0)
        kill(-pid, SIGKILL);
}

void htc__urls_end(htc__run *r)
{
    htc__program_free(r->fetch);
    r->fetch = NULL;
}
