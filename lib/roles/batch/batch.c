#include "roles/batch/batch.h"

#include <inttypes.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/util.h"
#include "roles/batch/batch_gone.h"

#define GATHER        (50 * HTC_MS)
#define RUN_WITHIN    (60 * HTC_SECOND)
#define CANCEL_AGAIN  (30 * HTC_SECOND) /* where a cancelled job is still shown */
#define CANCELS_MAX   64                /* in one command */
#define LOOK_SOON     HTC_SECOND
#define STRAYS_MAX    256
#define EVENTS_MAX    (4 * HTC__BATCH_AGENTS_MAX) /* of an agent three at most come of one command, and its end */
#define WATCH_AFTER   (600 * HTC_SECOND) /* a submission that failed may be taken later: its jobs are looked for so long */

typedef enum pilot_state { PILOT_NEW, PILOT_SUBMITTING, PILOT_UNSURE, PILOT_SENT, PILOT_WAITS, PILOT_RUNS } pilot_state;

typedef struct pilot {
    uint64_t agent, ctx, submission;
    uint32_t cores, index; /* index: of its job's elements, from 0 */
    uint8_t  state;        /* pilot_state */
    uint8_t  told;         /* LAUNCHED, or it was recovered */
    uint8_t  ran, killed, missing, seen, shown, expired; /* shown: by any look */
    htc_ns   expires_at; /* of one that runs */
    htc_ns   cancel_at; /* of a killed one: when it is to be cancelled (again) */
    char     job[HTC__BATCH_NAME_MAX]; /* "": not known yet */
    char     how[96]; /* it has ended, as the records of the batch system say; "": they say nothing */
    char    *command;
} pilot;

typedef struct stray {
    char   job[HTC__BATCH_NAME_MAX];
    htc_ns cancel_at;
    int    seen;
} stray;

typedef enum run_kind { RUN_NONE, RUN_SUBMIT, RUN_LOOK, RUN_CANCEL, RUN_ASK } run_kind;

struct htc__batch {
    htc_env             env;
    const batch_system *system;
    char               *user, *words, *lines, *log_dir;
    uint32_t            nonce, steps, running_max, queued_max;
    htc_ns              time_ns, drain_ns, period_ns, submit_every;
    uint64_t            identity;
    uint64_t            submissions, runs; /* numbers given out */
    pilot              *pilots;
    uint32_t            count;
    stray               strays[STRAYS_MAX];
    uint32_t            n_strays;
    batch_gone          gone;
    htc__batch_event    events[EVENTS_MAX];
    uint32_t            first_event, n_events;
    run_kind            run; /* under way */
    uint64_t            run_submission;
    htc_ns              gather_at, submit_at, look_at, looked_at; /* looked_at: when the newest good look began */
    htc_ns              now_at; /* when the one under way did */
    htc_ns              watch_until; /* it is looked until then, even if no agent is known */
    uint32_t            bad_looks, rows;
    char                prefix[24], trouble[160];
    htc_buf             argv, script;
};

/* ---- create and destroy ---- */

static void name_prefix(htc__batch *b)
{
    snprintf(b->prefix, sizeof b->prefix, "htc-%08" PRIx32 ".", b->nonce);
}

htc_status htc__batch_create(const htc_env *env, const htc__batch_options *o, htc__batch **out)
{
    static const batch_system *const all[] = { &htc__batch_slurm, &htc__batch_sge, &htc__batch_emu };
    const batch_system              *system = NULL;
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        system = strcmp(all[i]->name, o->system) == 0 ? all[i] : system;
    if (!system)
        return HTC_EUNSUPPORTED;
    htc__batch *b = htc__alloc(env, sizeof *b);
    if (!b)
        return HTC_ENOMEM;
    b->env = *env;
    b->system = system;
    b->nonce = o->nonce;
    b->identity = o->identity;
    b->steps = o->steps ? o->steps : 64;
    b->running_max = o->running_max;
    b->queued_max = o->queued_max;
    b->time_ns = o->time_ns;
    b->drain_ns = o->drain_ns;
    b->period_ns = o->period_ns ? o->period_ns : 6 * HTC_SECOND;
    b->submit_every = HTC_SECOND / (o->submits_per_s ? o->submits_per_s : 1);
    name_prefix(b);
    htc_buf_init(&b->argv, &b->env, 1 << 20);
    htc_buf_init(&b->script, &b->env, (size_t)HTC__BATCH_AGENTS_MAX * (HTC__BATCH_WORDS_MAX + 64));
    b->user = htc__strdup(env, o->user);
    b->words = htc__strdup(env, o->words ? o->words : "");
    b->lines = htc__strdup(env, o->lines ? o->lines : "");
    b->log_dir = htc__strdup(env, o->log_dir);
    b->pilots = htc__alloc(env, HTC__BATCH_AGENTS_MAX * sizeof *b->pilots);
    if (!b->user || !b->words || !b->lines || !b->log_dir || !b->pilots) {
        htc__batch_destroy(b);
        return HTC_ENOMEM;
    }
    *out = b;
    return HTC_OK;
}

void htc__batch_destroy(htc__batch *b)
{
    if (!b)
        return;
    htc_env env = b->env;
    for (uint32_t i = 0; i < b->count; i++)
        htc__strfree(&env, b->pilots[i].command);
    htc__free(&env, b->pilots, HTC__BATCH_AGENTS_MAX * sizeof *b->pilots);
    htc__strfree(&env, b->user);
    htc__strfree(&env, b->words);
    htc__strfree(&env, b->lines);
    htc__strfree(&env, b->log_dir);
    htc_buf_free(&b->argv);
    htc_buf_free(&b->script);
    htc__free(&env, b, sizeof *b);
}

/* ---- agents ---- */

static pilot *find(htc__batch *b, uint64_t agent)
{
    for (uint32_t i = 0; i < b->count; i++)
        if (b->pilots[i].agent == agent)
            return &b->pilots[i];
    return NULL;
}

static void tell(htc__batch *b, const pilot *p, htc__batch_event_kind kind, const char *text)
{
    if (b->n_events == EVENTS_MAX)
        return; /* only if nobody takes them */
    htc__batch_event *e = &b->events[(b->first_event + b->n_events++) % EVENTS_MAX];
    *e = (htc__batch_event){ .kind = kind, .agent = p->agent, .ctx = p->ctx };
    snprintf(e->out, sizeof e->out, "%s%" PRIu64 ".%" PRIu32 ".out", b->prefix, p->submission, p->index + b->system->first_index);
    snprintf(e->text, sizeof e->text, "%s", text);
    htc__text_clean(e->text);
}

static void forget(htc__batch *b, pilot *p)
{
    htc__strfree(&b->env, p->command);
    *p = b->pilots[--b->count];
}

static void end(htc__batch *b, pilot *p, const char *how)
{
    if (p->told)
        tell(b, p, HTC__BATCH_ENDED, how);
    else
        tell(b, p, HTC__BATCH_REFUSED, how[0] ? how : "its job has ended");
    forget(b, p);
}

htc_status htc__batch_launch(htc__batch *b, uint64_t agent, uint64_t ctx, uint32_t cores, const char *command, htc_ns now)
{
    if (cores == 0 || strlen(command) > HTC__BATCH_WORDS_MAX || strchr(command, '\n'))
        return HTC_EINVAL;
    if (find(b, agent))
        return HTC_EEXISTS;
    /* Room for what is told of each. */
    if (b->count == HTC__BATCH_AGENTS_MAX || b->n_events + 3 * (b->count + 1) > EVENTS_MAX)
        return HTC_EBUSY;
    pilot p = { .agent = agent, .ctx = ctx, .cores = cores, .command = htc__strdup(&b->env, command) };
    if (!p.command)
        return HTC_ENOMEM;
    int first = 1;
    for (uint32_t i = 0; i < b->count; i++)
        first &= b->pilots[i].state != PILOT_NEW;
    if (first)
        b->gather_at = now + GATHER;
    b->pilots[b->count++] = p;
    return HTC_OK;
}

void htc__batch_kill(htc__batch *b, uint64_t agent, htc_ns now)
{
    pilot *p = find(b, agent);
    if (!p || p->killed)
        return;
    if (p->state == PILOT_NEW) {
        end(b, p, "cancelled");
        return;
    }
    p->killed = 1;
    p->cancel_at = now;
}

/* ---- what is to be run ---- */

static htc_ns earlier(htc_ns a, htc_ns b)
{
    return a < b ? a : b;
}

static htc_ns cancels_due(const htc__batch *b)
{
    htc_ns at = HTC_NEVER;
    for (uint32_t i = 0; i < b->count; i++)
        if (b->pilots[i].killed && b->pilots[i].job[0])
            at = earlier(at, b->pilots[i].cancel_at);
    for (uint32_t i = 0; i < b->n_strays; i++)
        at = earlier(at, b->strays[i].cancel_at);
    return at;
}

/* How many more jobs may be there. */
static uint32_t room_for_jobs(const htc__batch *b)
{
    uint32_t there = 0, waiting = 0, room = UINT32_MAX;
    for (uint32_t i = 0; i < b->count; i++) {
        there += b->pilots[i].state != PILOT_NEW;
        waiting += b->pilots[i].state != PILOT_NEW && b->pilots[i].state != PILOT_RUNS;
    }
    if (b->running_max)
        room = b->running_max > there ? b->running_max - there : 0;
    uint32_t queue = b->queued_max > waiting ? b->queued_max - waiting : 0;
    return b->queued_max && queue < room ? queue : room;
}

static htc_ns submit_due(const htc__batch *b)
{
    for (uint32_t i = 0; i < b->count; i++)
        if (b->pilots[i].state == PILOT_NEW)
            return room_for_jobs(b) == 0 ? HTC_NEVER : b->gather_at > b->submit_at ? b->gather_at : b->submit_at;
    return HTC_NEVER;
}

/* Those for whom there is no room wait here, which nobody has been told yet. */
static htc_ns keep_due(const htc__batch *b)
{
    for (uint32_t i = 0; i < b->count; i++)
        if (b->pilots[i].state == PILOT_NEW && !b->pilots[i].told && room_for_jobs(b) == 0)
            return b->gather_at;
    return HTC_NEVER;
}

static void keep_back(htc__batch *b, htc_ns now)
{
    if (keep_due(b) > now)
        return;
    for (uint32_t i = 0; i < b->count; i++) {
        pilot *p = &b->pilots[i];
        if (p->state != PILOT_NEW || p->told)
            continue;
        p->told = 1;
        tell(b, p, HTC__BATCH_LAUNCHED, "no job yet");
        tell(b, p, HTC__BATCH_WAITS, "as many jobs are there as the site allows");
    }
}

static htc_ns look_due(const htc__batch *b)
{
    for (uint32_t i = 0; i < b->count; i++)
        if (b->pilots[i].state != PILOT_NEW)
            return b->look_at;
    return b->n_strays || b->look_at < b->watch_until ? b->look_at : HTC_NEVER;
}

static htc_ns next_command(const htc__batch *b)
{
    return earlier(earlier(cancels_due(b), htc__batch_gone_due(&b->gone)), earlier(submit_due(b), look_due(b)));
}

static htc_ns expiry_due(const htc__batch *b)
{
    htc_ns at = HTC_NEVER;
    for (uint32_t i = 0; i < b->count; i++)
        if (b->pilots[i].expires_at && !b->pilots[i].expired)
            at = earlier(at, b->pilots[i].expires_at);
    return at;
}

htc_ns htc__batch_deadline(const htc__batch *b)
{
    htc_ns at = earlier(expiry_due(b), keep_due(b));
    return b->run != RUN_NONE ? at : earlier(at, next_command(b));
}

static void begin(htc__batch *b, run_kind kind)
{
    b->run = kind;
    htc_buf_clear(&b->argv);
    htc_buf_clear(&b->script);
}

static void cancel(htc__batch *b, htc_ns now)
{
    uint32_t n = 0;
    begin(b, RUN_CANCEL);
    b->system->cancel(&b->argv);
    for (uint32_t i = 0; i < b->count && n < CANCELS_MAX; i++) {
        pilot *p = &b->pilots[i];
        if (!p->killed || !p->job[0] || p->cancel_at > now)
            continue;
        htc__batch_word(&b->argv, p->job);
        p->cancel_at = HTC_NEVER; /* until the command has ended */
        n++;
    }
    for (uint32_t i = 0; i < b->n_strays && n < CANCELS_MAX; i++) {
        if (b->strays[i].cancel_at > now)
            continue;
        htc__batch_word(&b->argv, b->strays[i].job);
        b->strays[i].cancel_at = HTC_NEVER;
        n++;
    }
}

static void put(htc_buf *b, const char *text)
{
    htc_put_raw(b, htc_bytes_of(text));
}

/* Those that wait with as many cores as the first of them. */
static void submit(htc__batch *b)
{
    uint32_t count = 0, cores = 0, room = room_for_jobs(b);
    char     text[64], name[64];
    begin(b, RUN_SUBMIT);
    b->run_submission = ++b->submissions;
    put(&b->script, "#!/bin/sh\n");
    put(&b->script, b->lines);
    put(&b->script, "case \"$");
    put(&b->script, b->system->index_variable);
    put(&b->script, "\" in\n");
    for (uint32_t i = 0; i < b->count && count < b->steps && count < room; i++) {
        pilot *p = &b->pilots[i];
        if (p->state != PILOT_NEW || (cores && p->cores != cores))
            continue;
        cores = p->cores;
        p->state = PILOT_SUBMITTING;
        p->submission = b->submissions;
        p->index = count++;
        snprintf(text, sizeof text, "%" PRIu32 ") exec ", p->index + b->system->first_index);
        put(&b->script, text);
        put(&b->script, p->command);
        put(&b->script, " ;;\n");
    }
    put(&b->script, "esac\n");
    snprintf(name, sizeof name, "%s%" PRIu64, b->prefix, b->submissions);
    b->system->submit(&b->argv, &(batch_submission){ .name = name, .words = b->words, .log_dir = b->log_dir, .count = count, .cores = cores,
                                                     .time_ns = b->time_ns });
}

static void expire(htc__batch *b, htc_ns now)
{
    for (uint32_t i = 0; i < b->count; i++) {
        pilot *p = &b->pilots[i];
        if (!p->expires_at || p->expired || p->expires_at > now)
            continue;
        p->expired = 1;
        tell(b, p, HTC__BATCH_EXPIRES, "");
    }
}

int htc__batch_command(htc__batch *b, htc_ns now, htc__batch_run *out)
{
    expire(b, now);
    keep_back(b, now);
    if (b->run != RUN_NONE || next_command(b) > now)
        return 0;
    b->now_at = now;
    if (cancels_due(b) <= now) {
        cancel(b, now);
    } else if (submit_due(b) <= now) {
        submit(b);
        b->submit_at = now + b->submit_every;
    } else if (look_due(b) <= now) {
        begin(b, RUN_LOOK);
        b->system->look(&b->argv, b->user);
    } else {
        begin(b, RUN_ASK);
        htc__batch_gone_ask(&b->gone, b->system, b->user, &b->argv);
    }
    *out = (htc__batch_run){ .id = ++b->runs, .words = htc_buf_bytes(&b->argv), .input = htc_buf_bytes(&b->script), .within = b->run == RUN_ASK ? BATCH_ASK_WITHIN : RUN_WITHIN,
                             .journal = b->run == RUN_SUBMIT, .look = b->run == RUN_LOOK };
    return 1;
}

/* ---- how it ended ---- */

static void set_trouble(htc__batch *b, const char *what, int exit_code, htc_bytes error)
{
    size_t n = 0;
    while (n < error.len && n < 100 && ((const char *)error.data)[n] != '\n')
        n++;
    if (exit_code < 0)
        snprintf(b->trouble, sizeof b->trouble, "%s: %.*s", what, (int)n, n ? (const char *)error.data : "");
    else if (exit_code == 0)
        snprintf(b->trouble, sizeof b->trouble, "%s printed something else than was expected", what);
    else
        snprintf(b->trouble, sizeof b->trouble, "%s: exit code %d%s%.*s", what, exit_code, n ? ": " : "", (int)n, n ? (const char *)error.data : "");
    htc__text_clean(b->trouble);
}

static void submitted(htc__batch *b, int exit_code, htc_bytes printed, htc_bytes error, htc_ns now)
{
    char job[HTC__BATCH_NAME_MAX], name[160];
    int  ok = exit_code == 0 && b->system->read_submitted(printed, job) == HTC_OK;
    if (!ok) {
        set_trouble(b, "submitting", exit_code, error);
        b->look_at = now; /* it may be known there all the same */
        b->watch_until = now + WATCH_AFTER;
    } else if (b->look_at < now) { /* the first of them: nobody was looked for */
        b->look_at = now + b->period_ns;
    }
    for (uint32_t i = 0; i < b->count; i++) {
        pilot *p = &b->pilots[i];
        if (p->state != PILOT_SUBMITTING)
            continue;
        p->state = ok ? PILOT_SENT : PILOT_UNSURE;
        if (!ok)
            continue;
        b->system->element(p->job, job, p->index + b->system->first_index);
        snprintf(name, sizeof name, "%s job %s", b->system->name, p->job);
        if (!p->told)
            tell(b, p, HTC__BATCH_LAUNCHED, name);
        p->told = 1;
    }
}

static void take_stray(htc__batch *b, const char *job)
{
    for (uint32_t i = 0; i < b->n_strays; i++)
        if (strcmp(b->strays[i].job, job) == 0) {
            b->strays[i].seen = 1;
            return;
        }
    if (b->n_strays == STRAYS_MAX)
        return; /* the next looks show it again */
    stray *s = &b->strays[b->n_strays++];
    *s = (stray){ .seen = 1 };
    snprintf(s->job, sizeof s->job, "%s", job);
}

static pilot *of_row(htc__batch *b, const batch_row *row)
{
    for (uint32_t i = 0; i < b->count; i++)
        if (b->pilots[i].state != PILOT_NEW && b->pilots[i].submission == row->submission &&
            b->pilots[i].index + b->system->first_index == row->index)
            return &b->pilots[i];
    return NULL;
}

/* What is left is told, or follows from what was asked for: it began between the look before and this one. They do not all end at once: neighbours
 * differ by up to a quarter of what they drain in. 0: nobody knows. */
static htc_ns expiry_of(const htc__batch *b, const pilot *p, htc_ns left)
{
    htc_ns from = left ? b->now_at : b->looked_at;
    if (!left && (!b->time_ns || !b->looked_at))
        return 0;
    left = left ? left : b->time_ns;
    htc_ns drain = b->drain_ns ? b->drain_ns : left / 10;
    drain += drain / 4 * (p->index % 16) / 16;
    return from + (drain < left ? left - drain : 0);
}

static void set_state(htc__batch *b, pilot *p, pilot_state state, const batch_row *row)
{
    char name[160];
    if (!p->told) {
        p->told = 1;
        snprintf(name, sizeof name, "%s job %s", b->system->name, p->job);
        tell(b, p, HTC__BATCH_LAUNCHED, name);
    }
    if (p->state != state && state == PILOT_WAITS)
        tell(b, p, HTC__BATCH_WAITS, row->reason);
    else if (p->state != state)
        tell(b, p, HTC__BATCH_RUNS, "");
    p->state = (uint8_t)state;
    if (state == PILOT_RUNS && !p->ran)
        p->expires_at = expiry_of(b, p, row->left);
    p->ran |= state == PILOT_RUNS;
}

static void on_row(void *ctx, const batch_row *row)
{
    htc__batch *b = ctx;
    pilot      *p = of_row(b, row);
    char        why[160];
    b->rows++;
    if (!p) {
        if (row->state != BATCH_JOB_ENDED)
            take_stray(b, row->job);
        return;
    }
    if (p->seen)
        return; /* one element has one row */
    p->seen = p->shown = 1;
    snprintf(p->job, sizeof p->job, "%s", row->job);
    switch (row->state) {
    case BATCH_JOB_WAITS: set_state(b, p, PILOT_WAITS, row); break;
    case BATCH_JOB_RUNS: set_state(b, p, PILOT_RUNS, row); break;
    case BATCH_JOB_HELD:
        take_stray(b, row->job);
        snprintf(why, sizeof why, "held by the batch system (%s), and cancelled", row->reason);
        end(b, p, why);
        break;
    case BATCH_JOB_ENDED:
        snprintf(why, sizeof why, "%s", p->how[0] ? p->how : row->reason);
        end(b, p, why);
        break;
    }
}

/* The number of its job tells it from one of an earlier cluster of that name. */
static void on_end(void *ctx, const batch_end *e)
{
    htc__batch *b = ctx;
    for (uint32_t i = 0; i < b->count; i++) {
        pilot *p = &b->pilots[i];
        if (p->state != PILOT_NEW && p->submission == e->submission && p->index + b->system->first_index == e->index &&
            (!p->job[0] || strcmp(p->job, e->job) == 0))
            snprintf(p->how, sizeof p->how, "%s", e->how);
    }
}

int htc__batch_has_records(const htc__batch *b)
{
    return b->system->read_ends && !b->system->ask;
}

void htc__batch_records(htc__batch *b, htc_bytes text)
{
    if (htc__batch_has_records(b))
        b->system->read_ends(text, b->prefix, b->user, on_end, b);
}

/* An answer without any job of ours is believed when it comes twice: a batch system that starts anew says it once. So is one without a job that was just
 * accepted, for some take a moment to list it. What was accepted and is never listed is cancelled by its number: perhaps it is there all the same. */
static void end_missing(htc__batch *b, htc_ns now)
{
    int  believed = b->rows > 0;
    char how[sizeof b->trouble];
    for (uint32_t i = b->count; i-- > 0;) {
        pilot *p = &b->pilots[i];
        if (p->state == PILOT_NEW || p->seen)
            continue;
        if ((!believed || (p->state == PILOT_SENT && !p->shown)) && !p->missing) {
            p->missing = 1;
            continue;
        }
        if (p->state == PILOT_SENT && !p->shown && p->job[0])
            take_stray(b, p->job);
        if (b->system->ask && p->job[0] && !p->killed)
            htc__batch_gone_add(&b->gone, &(batch_gone_one){ .agent = p->agent, .ctx = p->ctx, .submission = p->submission, .index = p->index + b->system->first_index },
                                p->job, now, b->period_ns);
        snprintf(how, sizeof how, "%s", p->how[0] || p->state != PILOT_UNSURE ? p->how : b->trouble);
        end(b, p, how);
    }
}

static void looked(htc__batch *b, int exit_code, htc_bytes printed, htc_bytes error, htc_ns now)
{
    b->rows = 0;
    for (uint32_t i = 0; i < b->count; i++)
        b->pilots[i].seen = 0;
    for (uint32_t i = 0; i < b->n_strays; i++)
        b->strays[i].seen = 0;
    /* What was read before the answer turned out to be none is true, as far as it goes. */
    htc_status status = exit_code == 0 ? b->system->read_look(printed, b->prefix, on_row, b) : HTC_EFORMAT;
    if (status != HTC_OK) {
        uint32_t shift = b->bad_looks < 4 ? b->bad_looks : 4;
        if (b->bad_looks++ == 0)
            htc__log(&b->env, HTC_LOG_WARN, "%s does not say which jobs there are -> all are taken to be as they were", b->system->name);
        set_trouble(b, "looking for jobs", exit_code, error);
        b->look_at = now + (b->period_ns << shift);
        return;
    }
    if (b->bad_looks)
        htc__log(&b->env, HTC_LOG_INFO, "%s answers again", b->system->name);
    b->bad_looks = 0;
    b->looked_at = b->now_at;
    end_missing(b, now);
    int soon = 0, unsure = 0;
    for (uint32_t i = 0; i < b->count; i++) {
        b->pilots[i].missing = b->pilots[i].seen ? 0 : b->pilots[i].missing;
        soon |= b->pilots[i].missing || b->pilots[i].killed;
        unsure |= b->pilots[i].state == PILOT_UNSURE;
    }
    if (!unsure) /* else it is why they are refused by the next look */
        b->trouble[0] = '\0';
    for (uint32_t i = b->n_strays; i-- > 0;)
        if (!b->strays[i].seen)
            b->strays[i] = b->strays[--b->n_strays];
    b->look_at = now + (soon && b->period_ns > LOOK_SOON ? LOOK_SOON : b->period_ns);
}

/* However long the command took, what it was about is cancelled again only behind a while in which others run. */
static void cancelled(htc__batch *b, htc_ns now)
{
    for (uint32_t i = 0; i < b->count; i++)
        if (b->pilots[i].killed && b->pilots[i].cancel_at == HTC_NEVER)
            b->pilots[i].cancel_at = now + CANCEL_AGAIN;
    for (uint32_t i = 0; i < b->n_strays; i++)
        if (b->strays[i].cancel_at == HTC_NEVER)
            b->strays[i].cancel_at = now + CANCEL_AGAIN;
    b->look_at = earlier(b->look_at, now + LOOK_SOON);
}

static void on_explained(void *ctx, const batch_gone_one *one, const char *how)
{
    if (how[0])
        tell(ctx, &(pilot){ .agent = one->agent, .ctx = one->ctx }, HTC__BATCH_EXPLAINED, how);
}

void htc__batch_done(htc__batch *b, uint64_t id, int exit_code, htc_bytes printed, htc_bytes error, htc_ns now)
{
    run_kind kind = b->run;
    if (kind == RUN_NONE || id != b->runs)
        return;
    b->run = RUN_NONE;
    switch (kind) {
    case RUN_SUBMIT: submitted(b, exit_code, printed, error, now); break;
    case RUN_LOOK: looked(b, exit_code, printed, error, now); break;
    case RUN_CANCEL: /* whether it has worked is seen */
        cancelled(b, now);
        break;
    case RUN_ASK: htc__batch_gone_answer(&b->gone, b->system, b->prefix, b->user, exit_code, printed, now, b->period_ns, on_explained, b); break;
    case RUN_NONE: break;
    }
}

int htc__batch_next_event(htc__batch *b, htc__batch_event *out)
{
    if (b->n_events == 0)
        return 0;
    *out = b->events[b->first_event];
    b->first_event = (b->first_event + 1) % EVENTS_MAX;
    b->n_events--;
    return 1;
}

/* ---- what outlives the process ---- */

/* htc-batch 2 NONCE SUBMISSIONS IDENTITY, then a line for each agent: submission, index, cores, agent. Version 1 had no identity. */
void htc__batch_journal(const htc__batch *b, htc_buf *out)
{
    char line[128];
    snprintf(line, sizeof line, "htc-batch 2 %08" PRIx32 " %" PRIu64 " %016" PRIx64 "\n", b->nonce, b->submissions, b->identity);
    put(out, line);
    for (uint32_t i = 0; i < b->count; i++) {
        const pilot *p = &b->pilots[i];
        if (p->state == PILOT_NEW)
            continue;
        snprintf(line, sizeof line, "%" PRIu64 " %" PRIu32 " %" PRIu32 " %" PRIu64 "\n", p->submission, p->index, p->cores, p->agent);
        put(out, line);
    }
}

static htc_status recover_head(htc__batch *b, const char *line)
{
    uint32_t nonce = 0;
    uint64_t submissions = 0, identity = 0;
    int      n = 0, old = sscanf(line, "htc-batch 1 %8" SCNx32 " %" SCNu64 "%n", &nonce, &submissions, &n) == 2 && line[n] == '\0';
    if (!old && (sscanf(line, "htc-batch 2 %8" SCNx32 " %" SCNu64 " %16" SCNx64 "%n", &nonce, &submissions, &identity, &n) != 3 || line[n]))
        return HTC_EFORMAT;
    if (identity && b->identity && identity != b->identity)
        return HTC_EEXISTS;
    b->identity = b->identity ? b->identity : identity;
    b->nonce = nonce;
    b->submissions = submissions;
    name_prefix(b);
    return HTC_OK;
}

htc_status htc__batch_recover(htc__batch *b, htc_bytes journal, uint64_t agents[HTC__BATCH_AGENTS_MAX], uint32_t *count)
{
    const char *p = journal.len ? journal.data : "", *last = p + journal.len;
    int         n = 0, first = 1;
    *count = 0;
    while (p < last) {
        char        line[128];
        const char *stop = memchr(p, '\n', (size_t)(last - p));
        size_t      len = stop ? (size_t)(stop - p) : sizeof line;
        pilot       x = { .state = PILOT_SENT, .told = 1, .shown = 1 };
        if (len >= sizeof line)
            return HTC_EFORMAT;
        memcpy(line, p, len);
        line[len] = '\0';
        p = stop + 1;
        if (first) {
            htc_status status = recover_head(b, line);
            if (status != HTC_OK)
                return status;
            first = 0;
            continue;
        }
        if (b->count == HTC__BATCH_AGENTS_MAX ||
            sscanf(line, "%" SCNu64 " %" SCNu32 " %" SCNu32 " %" SCNu64 "%n", &x.submission, &x.index, &x.cores, &x.agent, &n) != 4 || line[n] != '\0')
            return HTC_EFORMAT;
        if (!(x.command = htc__strdup(&b->env, "")))
            return HTC_ENOMEM;
        b->pilots[b->count++] = x;
        if (agents)
            agents[*count] = x.agent;
        (*count)++;
    }
    return first ? HTC_EFORMAT : HTC_OK;
}
