/* Inputs that a task names by their URL, and outputs that go to one. Inputs are fetched before it is staged in, outputs sent when it has been
 * staged out; both by a process of its own (htc-transfer) for all of them, from or into a directory beside the task's. A process, not the loop and not its
 * threads: a server that says nothing holds up nobody else, what it sends is read by nothing that has an agent's rights to lose but this one
 * transfer, it ends at once when it is to, and libcurl and what it loads is in no agent.
 *
 *   place made ──▶ htc-transfer ──▶ all is there ──▶ staged in as other inputs are
 *                       └──▶ why not: STAGE_IN answers it; parts stay for the next try
 *
 *   staged out, with a second name in send/ ──▶ htc-transfer ──▶ all has gone ──▶ STAGE_OUT answers what is stored
 *                                                    └──▶ why not: in what it answers; what has not gone stays for the next try
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
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

static int some(const htc_stage *list, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (htc__urls_is_wanted(&list[i]))
            return 1;
    return 0;
}

int htc__urls_some(const htc_task *t)
{
    return some(t->in, t->n_in);
}

int htc__urls_sends(const htc_task *t)
{
    return some(t->out, t->n_out);
}

static uint8_t way_of(const htc_stage *s, int up)
{
    return !up ? TRANSFER_DOWN : s->flags & HTC_STAGE_KEEP ? TRANSFER_UP_NEW : TRANSFER_UP;
}

static void put_request(const htc__run *r, const char *dir, int up, htc_buf *b)
{
    const htc_agent_host *a = r->agent;
    const htc_stage      *list = up ? r->task->out : r->task->in;
    size_t                n = up ? r->task->n_out : r->task->n_in;
    transfer_request      q = { .parent = (uint32_t)getpid(), .dir = htc_bytes_of(dir), .bytes_max = a->urls.bytes_max, .connect = a->urls.connect,
                                .stall = a->urls.stall, .ca = htc_bytes_of(a->urls.ca), .proxy = htc_bytes_of(a->urls.proxy),
                                .netrc = r->task->credentials ? htc_bytes_of(r->task->credentials) : (htc_bytes){ NULL, 0 } };
    for (size_t i = 0; i < n; i++)
        q.count += htc__urls_is_wanted(&list[i]) != 0;
    htc__transfer_request_write(b, &q);
    for (size_t i = 0; i < n; i++) {
        char name[24];
        snprintf(name, sizeof name, "%zu", i);
        if (htc__urls_is_wanted(&list[i]))
            htc__transfer_one_write(b, &(transfer_one){ .up = way_of(&list[i], up), .url = htc_bytes_of(list[i].uri), .name = htc_bytes_of(name) });
    }
}

static void ended(void *ctx, int exit_code, htc_bytes printed, htc_bytes error)
{
    htc__run *r = ctx;
    r->fetch = NULL;
    if (r->fetch_stopped) {
        r->status = HTC_ECANCELLED;
        snprintf(r->text, sizeof r->text, r->phase == RUN_STAGING_OUT ? "nobody wants it any more" : "not begun");
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

static htc_status start(htc__run *r, int up, void (*fetched)(htc__run *r))
{
    static const char *const no_environment[] = { NULL };
    const char              *program = r->agent->urls.program;
    char                     dir[PATH_MAX];
    htc_buf                  b;
    r->fetch_stopped = 0;
    r->fetched = fetched;
    if (!program)
        return refuse(r, HTC_EUNSUPPORTED, up ? "outputs are sent to URLs by htc-transfer, which is not beside htc-agent: install it there"
                                              : "inputs are fetched from URLs by htc-transfer, which is not beside htc-agent: install it there");
    if (snprintf(dir, sizeof dir, "%s/%s", r->dir, up ? "send" : "fetch") >= (int)sizeof dir)
        return refuse(r, HTC_EINPUT, "the path of its directory is too long");
    htc_buf_init(&b, r->agent->env, REQUEST_MAX);
    put_request(r, dir, up, &b);
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

htc_status htc__urls_start(htc__run *r, void (*fetched)(htc__run *r))
{
    return start(r, 0, fetched);
}

/* ---- outputs ---- */

htc_status htc__urls_keep_begin(htc__run *r)
{
    if (htc__remove_below(r->dir_fd, "send") == 0 && mkdirat(r->dir_fd, "send", 0700) == 0)
        return HTC_OK;
    int why = errno;
    snprintf(r->text, sizeof r->text, "cannot make a place for outputs that are to be sent: %s", strerror(why));
    return htc__status_of(why, HTC_ESTAGEOUT);
}

/* A second name is as good as a copy: the task has ended, and what it leaves is its user's. */
htc_status htc__urls_keep(htc__run *r, int in, const htc_stage *s)
{
    char        own[40], name[32];
    htc__copied copied;
    snprintf(own, sizeof own, "/proc/self/fd/%d", in);
    snprintf(name, sizeof name, "send/%zu", (size_t)(s - r->task->out));
    if (linkat(AT_FDCWD, own, r->dir_fd, name, AT_SYMLINK_FOLLOW) == 0)
        return HTC_OK;
    int        to = htc__open_below(r->dir_fd, name, O_WRONLY | O_CREAT | O_EXCL, 0600, 0), why = errno;
    htc_status status = to < 0 || lseek(in, 0, SEEK_SET) < 0 ? htc__status_of(why, HTC_ESTAGEOUT) : htc__copy(in, to, UINT64_MAX, &copied);
    if (to >= 0 && close(to) != 0 && status == HTC_OK)
        status = htc__status_of(errno, HTC_ESTAGEOUT);
    if (status != HTC_OK)
        snprintf(r->text, sizeof r->text, "cannot copy the output %.200s, which is to be sent: %s", s->name, htc_strerror(status));
    return status;
}

int htc__urls_may_send(const htc__run *r)
{
    return r->status == HTC_OK && r->stored.status == HTC_OK && !r->failed && htc__urls_sends(r->task);
}

/* The disk of this node is at fault: STAGE_OUT says that. All else is an answer about what is stored. */
static void judge_sent(htc__run *r)
{
    htc_status status = r->status;
    r->stored.status = HTC_OK;
    r->stored.final = 0;
    r->stored.reason[0] = '\0';
    if (status == HTC_OK || status == HTC_ENOSPC || status == HTC_EIO)
        return;
    int passes = status == HTC_EBUSY || status == HTC_EUNREACHABLE || status == HTC_ECLOSED;
    r->stored.status = passes || status == HTC_ECANCELLED ? status : HTC_ESTAGEOUT;
    r->stored.final = r->stored.status == HTC_ESTAGEOUT;
    snprintf(r->stored.reason, sizeof r->stored.reason, "an output is not sent: %.230s", r->text);
    r->status = HTC_OK;
}

static void sent(htc__run *r)
{
    judge_sent(r);
    r->sent(r);
}

void htc__urls_send(htc__run *r, void (*done)(htc__run *r))
{
    r->sent = done;
    r->stored_all = 1;
    r->text[0] = '\0';
    if (r->send_unwanted)
        (void)refuse(r, HTC_ECANCELLED, "nobody wants it any more");
    if (r->send_unwanted || start(r, 1, sent) != HTC_OK)
        sent(r);
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
