/* Agents as jobs of a batch system: runs the commands that roles/batch decides on, one at a time, and tells what came of them. */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <pwd.h>
#include <sodium.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "htcsched/state.h"
#include "net/files/files.h"
#include "net/gateway/emu_host.h"
#include "net/gateway/gateway_private.h"
#include "net/gateway/records_file.h"
#include "net/loop/program.h"
#include "roles/batch/batch.h"

#define PRINTED_MAX ((size_t)32 << 20)
#define OWN_MAX     4096 /* of what a job has printed */

struct htc__batch_host {
    htc_gateway_host *gateway;
    htc__batch       *batch;
    htc__program     *program;
    htc__emu_host    *emu; /* NULL: commands are programs */
    htc__records_file *records; /* of jobs that have ended; NULL: none are read */
    struct event     *timer;
    uint64_t          run;
    int               run_looks;
    htc_buf           text;
    const char      **environ; /* without what would hide our jobs from us */
    char              journal[PATH_MAX], log_dir[PATH_MAX], emu_dir[PATH_MAX], user[128];
};

static void pump(htc__batch_host *h);

/* ---- events ---- */

static void put_handle(htc_buf *b, uint64_t agent)
{
    uint8_t form[8];
    htc__le64_put(form, agent);
    htc_put_bytes(b, (htc_bytes){ form, sizeof form });
}

/* What a job has printed, of which the agent's own log knows nothing: its last line; and the file goes. */
static void last_words(const htc__batch_host *h, const htc__batch_event *e, char *line, size_t cap)
{
    char path[PATH_MAX + HTC__BATCH_NAME_MAX], text[OWN_MAX];
    snprintf(path, sizeof path, "%s/%s", h->log_dir, e->out);
    ssize_t n = htc__read_end(path, text, sizeof text);
    while (n > 0 && text[n - 1] == '\n')
        text[--n] = '\0';
    char *last = n > 0 ? strrchr(text, '\n') : NULL;
    snprintf(line, cap, "%.150s", n > 0 ? last ? last + 1 : text : "");
    htc__text_clean(line);
    if (n >= 0)
        unlink(path);
}

static void answer_launched(htc__batch_host *h, const htc__batch_event *e)
{
    htc_buf answer;
    htc_buf_init(&answer, h->gateway->env, 256);
    put_handle(&answer, e->agent);
    htc_put_str(&answer, e->text);
    htc_host_answer(h->gateway->host, HTC_CALL_LAUNCH, e->ctx, answer.status, htc_buf_bytes(&answer));
    htc_buf_free(&answer);
}

static void tell(htc__batch_host *h, uint32_t event, uint64_t agent, const char *text)
{
    htc_buf body;
    htc_buf_init(&body, h->gateway->env, 512);
    htc_put_u64(&body, agent);
    put_handle(&body, agent);
    if (text)
        htc_put_str(&body, text);
    if (body.status == HTC_OK)
        htc_host_event(h->gateway->host, event, HTC_OK, htc_buf_bytes(&body));
    htc_buf_free(&body);
}

static void on_event(htc__batch_host *h, const htc__batch_event *e)
{
    char words[160], how[400];
    switch ((htc__batch_event_kind)e->kind) {
    case HTC__BATCH_LAUNCHED: answer_launched(h, e); break;
    case HTC__BATCH_REFUSED: htc_host_answer(h->gateway->host, HTC_CALL_LAUNCH, e->ctx, HTC_EREFUSED, htc_bytes_of(e->text)); break;
    case HTC__BATCH_WAITS: tell(h, HTC_EVENT_AGENT_WAITS, e->agent, e->text[0] ? e->text : "queued"); break;
    case HTC__BATCH_RUNS: tell(h, HTC_EVENT_AGENT_WAITS, e->agent, ""); break;
    case HTC__BATCH_EXPIRES: tell(h, HTC_EVENT_AGENT_EXPIRES, e->agent, NULL); break;
    case HTC__BATCH_ENDED:
        last_words(h, e, words, sizeof words);
        snprintf(how, sizeof how, "%s%s%s", e->text, e->text[0] && words[0] ? ": " : "", words);
        tell(h, HTC_EVENT_AGENT_EXIT, e->agent, how);
        break;
    case HTC__BATCH_EXPLAINED: tell(h, HTC_EVENT_AGENT_EXIT, e->agent, e->text); break;
    }
}

/* ---- commands ---- */

static htc_status keep(htc__batch_host *h)
{
    htc_error error;
    htc_buf_clear(&h->text);
    htc__batch_journal(h->batch, &h->text);
    htc_status status = h->text.status == HTC_OK ? htc_state_write_file(h->journal, htc_buf_bytes(&h->text), 0600, &error) : h->text.status;
    if (status != HTC_OK)
        htc__log(h->gateway->env, HTC_LOG_ERROR, "%s cannot be written: %s -> nothing is submitted", h->journal, htc_strerror(status));
    return status;
}

static void on_ended(void *ctx, int exit_code, htc_bytes printed, htc_bytes error)
{
    htc__batch_host *h = ctx;
    h->program = NULL;
    if (h->run_looks && h->records)
        htc__batch_records(h->batch, htc__records_read(h->records));
    htc__batch_done(h->batch, h->run, exit_code, printed, error, htc_host_now());
    pump(h);
}

static void run(htc__batch_host *h, const htc__batch_run *r)
{
    htc__program_start s = { .words = r->words, .input = r->input, .environ = h->environ, .printed_max = PRINTED_MAX, .within = r->within,
                             .ended = on_ended, .ctx = h };
    char               why[200];
    h->run = r->id;
    h->run_looks = r->look;
    htc_status status = r->journal ? keep(h) : HTC_OK;
    if (status == HTC_OK && h->emu) {
        htc_bytes printed, error;
        int       code = htc__emu_host_command(h->emu, r->words, r->input, &printed, &error);
        htc__batch_done(h->batch, r->id, code, printed, error, htc_host_now());
        return;
    }
    if (status == HTC_OK && (h->program = htc__program_run(h->gateway->host->base, &s)))
        return;
    snprintf(why, sizeof why, "%.100s: %s", (const char *)r->words.data, status != HTC_OK ? "batch in the state directory cannot be written" : strerror(errno));
    htc__batch_done(h->batch, r->id, -1, (htc_bytes){ 0 }, htc_bytes_of(why), htc_host_now());
}

static void pump(htc__batch_host *h)
{
    htc__batch_event e;
    htc__batch_run   r;
    while (htc__batch_command(h->batch, htc_host_now(), &r))
        run(h, &r);
    while (htc__batch_next_event(h->batch, &e))
        on_event(h, &e);
    htc_ns at = htc__batch_deadline(h->batch), now = htc_host_now();
    if (at == HTC_NEVER) {
        event_del(h->timer);
        return;
    }
    struct timeval tv = htc__timeval(at > now ? at - now : 0);
    event_add(h->timer, &tv);
}

static void on_timer(evutil_socket_t fd, short what, void *arg)
{
    (void)fd, (void)what;
    pump(arg);
}

/* ---- calls ---- */

htc_status htc__batch_host_launch(htc_gateway_host *g, uint64_t tag, htc_reader *body)
{
    htc__batch_host *h = g->batch;
    htc__launch      l;
    htc_status       status = htc__launch_read(g, body, &l);
    if (status == HTC_OK && l.place == HTC_PLACE_UID)
        return htc_host_answer(g->host, HTC_CALL_LAUNCH, tag, HTC_EDENIED, htc_bytes_of("a batch job has the uid of whoever submits it"));
    if (status == HTC_EDENIED)
        return htc_host_answer(g->host, HTC_CALL_LAUNCH, tag, status, htc_bytes_of(HTC__NO_OTHERS));
    htc_buf_clear(&h->text);
    if (status == HTC_OK) {
        htc__batch_quote(&h->text, l.argv);
        htc_put_u8(&h->text, 0);
        status = h->text.status;
    }
    if (status == HTC_OK)
        status = htc__batch_launch(h->batch, l.id, tag, l.slots_n, (const char *)htc_buf_bytes(&h->text).data, htc_host_now());
    if (status == HTC_OK)
        pump(h);
    return status;
}

htc_status htc__batch_host_kill(htc_gateway_host *g, htc_reader *body)
{
    uint64_t agent = htc_get_u64(body);
    (void)htc_get_bytes(body);
    if (htc_reader_done(body) != HTC_OK)
        return HTC_OK;
    htc__batch_kill(g->batch->batch, agent, htc_host_now());
    pump(g->batch);
    return HTC_OK;
}

/* ---- life ---- */

static htc_status go_on(htc__batch_host *h, htc_gateway_host_batch *o, htc_error *error)
{
    size_t  room = 1 << 20;
    char   *text = malloc(room);
    ssize_t n = text ? htc__read_text(h->journal, text, room) : -1;
    int     missing = text && n < 0 && errno == ENOENT;
    htc_status status = !text            ? HTC_ENOMEM
                        : missing        ? HTC_OK
                        : n < 0          ? htc__status_of(errno, HTC_EIO)
                                         : htc__batch_recover(h->batch, (htc_bytes){ text, (size_t)n }, o->agents, &o->count);
    free(text);
    if (status == HTC_EEXISTS) {
        htc__log(h->gateway->env, HTC_LOG_WARN, "%s came with a copy of another directory -> the jobs in it are left to that one", h->journal);
        status = HTC_OK;
    }
    if (status == HTC_OK)
        return HTC_OK;
    return htc__error(error, status, "%.300s says which jobs were submitted, and cannot be read: %s", h->journal, htc_strerror(status));
}

/* A copy of a directory has another inode, and was born later; one that was moved, or is seen from another host, has not. 0: not known. */
static uint64_t identity_of(const char *dir)
{
    struct statx st;
    uint64_t     parts[3] = { 0 };
    if (statx(AT_FDCWD, dir, 0, STATX_INO | STATX_BTIME, &st) != 0)
        return 0;
    parts[0] = st.stx_ino;
    if (st.stx_mask & STATX_BTIME) {
        parts[1] = (uint64_t)st.stx_btime.tv_sec;
        parts[2] = st.stx_btime.tv_nsec;
    }
    return htc_hash64((htc_bytes){ parts, sizeof parts }, 1) | 1;
}

/* Variables by which the commands show other jobs than those of this user, or wait for a job's end. */
static int is_apart(const char *entry)
{
    static const char *const names[] = { "SQUEUE_", "SLURM_CLUSTERS=", "SBATCH_CLUSTERS=", "SBATCH_WAIT=", "SBATCH_ARRAY_INX=", "SCANCEL_" };
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (strncmp(entry, names[i], strlen(names[i])) == 0)
            return 1;
    return 0;
}

static const char **take_environment(const char *const *from)
{
    size_t       n = 0, kept = 0;
    while (from[n])
        n++;
    const char **out = calloc(n + 1, sizeof *out);
    for (size_t i = 0; out && i < n; i++)
        if (!is_apart(from[i]))
            out[kept++] = from[i];
    return out;
}

static htc_status user_name(char *name, size_t cap)
{
    struct passwd pw, *found = NULL;
    char          room[4096];
    if (getpwuid_r(geteuid(), &pw, room, sizeof room, &found) == 0 && found)
        snprintf(name, cap, "%s", pw.pw_name);
    else
        snprintf(name, cap, "%lu", (unsigned long)geteuid());
    return name[0] ? HTC_OK : HTC_EINVAL;
}

htc_status htc__batch_host_create(htc_gateway_host *g, const htc_gateway_host_options *options, htc_error *error)
{
    htc_gateway_host_batch *o = options->batch;
    htc__batch_host        *h = calloc(1, sizeof *h);
    if (!h)
        return htc__error(error, HTC_ENOMEM, "out of memory");
    g->batch = h;
    h->gateway = g;
    htc_buf_init(&h->text, g->env, (size_t)4 << 20);
    snprintf(h->log_dir, sizeof h->log_dir, "%.3900s/log", g->state_dir);
    snprintf(h->journal, sizeof h->journal, "%.3900s/batch", g->state_dir);
    htc__batch_options b = { .system = o->system, .nonce = randombytes_random(), .identity = identity_of(g->state_dir), .user = h->user, .words = o->words, .log_dir = h->log_dir,
                             .steps = o->steps, .submits_per_s = o->submits_per_s, .time_ns = o->time_ns, .drain_ns = o->drain_ns, .period_ns = o->period_ns,
                             .running_max = o->running_max, .queued_max = o->queued_max };
    htc_buf    lines;
    htc_buf_init(&lines, g->env, 4096);
    htc_status status = htc__gateway_credentials(g, o, &lines, error);
    if (status != HTC_OK) {
        htc_buf_free(&lines);
        return status;
    }
    htc_put_u8(&lines, 0);
    b.lines = (const char *)lines.data;
    status = user_name(h->user, sizeof h->user);
    if (status == HTC_OK)
        status = lines.status;
    if (status == HTC_OK)
        status = htc__batch_create(g->env, &b, &h->batch);
    htc_buf_free(&lines);
    if (status == HTC_EUNSUPPORTED)
        return htc__error(error, status, "no batch system is called %.60s: slurm, sge and emu are, and ssh for a list of hosts", o->system);
    if (status != HTC_OK)
        return htc__error(error, status, "agents as jobs: %s", htc_strerror(status));
    if (!(h->environ = take_environment(g->environ)))
        return htc__error(error, HTC_ENOMEM, "out of memory");
    if (h->log_dir[strcspn(h->log_dir, "%\\:,$\n")]) /* they mean something where a job's output is named */
        return htc__error(error, HTC_EINVAL, "the state directory %.200s has one of %% \\ : , $ in its name, which batch systems read otherwise: take another --dir", g->state_dir);
    const char *records = o->size > offsetof(htc_gateway_host_batch, jobcomp) ? o->jobcomp : NULL;
    if (records && records[0] && htc__batch_has_records(h->batch) && !(h->records = htc__records_create(g->env, records)))
        return htc__error(error, HTC_ENOMEM, "out of memory");
    if (!(h->timer = evtimer_new(g->host->base, on_timer, h)))
        return htc__error(error, HTC_ENOMEM, "out of memory");
    htc__emu_host_options emu = { .env = g->env, .base = g->host->base, .dir = h->emu_dir, .environ = h->environ, .emu = o->emu, .cores = o->emu_cores,
                                  .identity = b.identity };
    snprintf(h->emu_dir, sizeof h->emu_dir, "%.3900s/emu", g->state_dir);
    status = strcmp(o->system, "emu") == 0 ? htc__emu_host_create(&emu, &h->emu, error) : HTC_OK;
    if (status == HTC_OK)
        status = go_on(h, o, error);
    if (status == HTC_OK)
        event_active(h->timer, EV_TIMEOUT, 0); /* in the loop */
    return status;
}

void htc__batch_host_free(htc_gateway_host *g)
{
    htc__batch_host *h = g->batch;
    if (!h)
        return;
    g->batch = NULL;
    htc__program_free(h->program);
    htc__emu_host_free(h->emu);
    htc__records_free(h->records);
    if (h->timer)
        event_free(h->timer);
    htc__batch_destroy(h->batch);
    htc_buf_free(&h->text);
    free(h->environ);
    free(h);
}
