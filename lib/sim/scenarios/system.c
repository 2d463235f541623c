#include "sim/scenarios/system_private.h"

#include <stdarg.h>
#include <string.h>

#include "htcsched/work.h"

/* ---- what the disks hold ---- */

sys_task *htc__sys_task_of(sys *s, uint64_t job, uint64_t task)
{
    sys_task *t, find;
    memset(&find, 0, sizeof find);
    find.key.job = job;
    find.key.task = task;
    HASH_FIND(hh, s->tasks, &find.key, sizeof find.key, t);
    if (t)
        return t;
    t = htc__sys_alloc(s, sizeof *t);
    if (!t)
        return &s->no_task;
    t->key = find.key;
    HASH_ADD(hh, s->tasks, key, sizeof t->key, t);
    if (!t->hh.tbl) {
        htc__free(&s->env, t, sizeof *t);
        htc__sys_no_memory(s);
        return &s->no_task;
    }
    return t;
}

/* 0: there is no memory. */
static int need_attempt(sys *s, sys_task *t, uint32_t attempt)
{
    if (attempt < t->n_attempts)
        return 1;
    sys_try *more = t == &s->no_task ? NULL : htc__sys_alloc(s, (attempt + 1) * sizeof *more);
    if (!more)
        return 0;
    if (t->n_attempts)
        memcpy(more, t->attempts, t->n_attempts * sizeof *more);
    htc__free(&s->env, t->attempts, t->n_attempts * sizeof *more);
    t->attempts = more;
    t->n_attempts = attempt + 1;
    return 1;
}

void htc__sys_output_stored(sys *s, const htc_attempt *a)
{
    sys_task *t = htc__sys_task_of(s, a->job, a->task);
    if (need_attempt(s, t, a->attempt))
        t->attempts[a->attempt].output = 1;
}

void htc__sys_output_dropped(sys *s, const htc_attempt *a)
{
    sys_task *t = htc__sys_task_of(s, a->job, a->task);
    if (!need_attempt(s, t, a->attempt))
        return;
    const sys_job *j = s->jobs;
    while (j && j->id != a->job)
        j = j->next;
    /* Of a job that is removed nobody wants them: an agent that was not heard meanwhile is told so. */
    if (t->committed == a->attempt && !(j && j->removing))
        htc__sys_fail(s, "the outputs of %llu.%llu attempt %u are dropped, and it is committed", (unsigned long long)a->job,
                 (unsigned long long)a->task, (unsigned)a->attempt);
    if (t->attempts[a->attempt].output)
        t->attempts[a->attempt].output = 2;
}

static sys_place *place_of(const sys *s, uint64_t job)
{
    sys_place *p;
    HASH_FIND(hh, s->places, &job, sizeof job, p);
    return p;
}

int htc__sys_has_place(const sys *s, uint64_t job)
{
    return place_of(s, job) != NULL;
}

void htc__sys_place_made(sys *s, uint64_t job)
{
    sys_place *p = place_of(s, job) ? NULL : htc__sys_alloc(s, sizeof *p);
    if (!p)
        return;
    p->job = job;
    HASH_ADD(hh, s->places, job, sizeof p->job, p);
    if (!p->hh.tbl) {
        htc__free(&s->env, p, sizeof *p);
        htc__sys_no_memory(s);
    }
}

sys_job *htc__sys_job_of_record(const sys *s, uint64_t id)
{
    sys_job *j = s->jobs;
    while (j && j->stored_id != id)
        j = j->next;
    return j;
}

uint64_t htc__sys_leased(const sys *s, uint64_t job)
{
    uint64_t n = 0;
    for (const sys_task *t = s->tasks; t; t = t->hh.next)
        n += t->key.job == job && t->leased;
    return n;
}

static void place_free(sys *s, sys_place *p)
{
    HASH_DEL(s->places, p);
    htc__free(&s->env, p, sizeof *p);
}

void htc__sys_place_dropped(sys *s, uint64_t job)
{
    sys_place     *p = place_of(s, job);
    const sys_job *j = s->jobs;
    while (j && j->id != job)
        j = j->next;
    if (j && !j->removing)
        htc__sys_fail(s, "all outputs of job %llu are dropped, and nobody asked for that", (unsigned long long)job);
    for (sys_task *t = s->tasks; t; t = t->hh.next)
        for (uint32_t i = 0; t->key.job == job && i < t->n_attempts; i++)
            if (t->attempts[i].output)
                t->attempts[i].output = 2;
    if (p)
        place_free(s, p);
}

int htc__sys_outputs_left(const sys *s, uint64_t job)
{
    for (const sys_task *t = s->tasks; t; t = t->hh.next)
        for (uint32_t i = 0; t->key.job == job && i < t->n_attempts; i++)
            if (t->attempts[i].output == 1)
                return 1;
    return htc__sys_has_place(s, job);
}

static void result_durable(sys *s, const htc_attempt *a, htc_bytes value)
{
    htc_outcome o;
    htc_reader  r = htc_reader_of(value);
    sys_task   *t = htc__sys_task_of(s, a->job, a->task);
    if (!need_attempt(s, t, a->attempt))
        return;
    if (htc_get_u8(&r) != 2 || htc_outcome_read(&r, &o) != HTC_OK) {
        htc__sys_fail(s, "a result that cannot be read");
        return;
    }
    if (o.status == HTC_OK)
        t->attempts[a->attempt].result = 1;
    t->attempts[a->attempt].told = 1;
    t->attempts[a->attempt].status = o.status;
    t->attempts[a->attempt].span = o.ended > o.started ? o.ended - o.started : 0;
}

typedef struct chunk_at {
    sys     *s;
    uint64_t job, first;
    htc_ns   sure, maybe; /* of run time that this record counts newly */
} chunk_at;

/* Has the result of the attempt that was leased been counted by this record? Where the task's state does not say so, it may
 * have been, before something else happened to the task; a suspended attempt and a lost one look alike. */
static void count_cost(chunk_at *c, sys_task *t, const sys_task_state *state)
{
    sys           *s = c->s;
    const sys_job *j = htc__sys_job_of_record(s, c->job);
    uint32_t       was = t->leased, cores = j && j->cores ? j->cores : 1;
    htc_ns         now = htc_sim_now(s->w), most = (now - t->leased_at) * cores; /* of one that is lost, and was only heard to run */
    most += most / 1000000 * SYS_DRIFT_PPM; /* on the gateway's clock */
    t->leased = state->leased ? state->attempt : 0;
    if (t->leased != was)
        t->leased_at = now;
    if (!was || was == t->leased)
        return;
    htc_ns span = was < t->n_attempts && t->attempts[was].told ? t->attempts[was].span * cores : 0;
    if (span && state->attempt == was && state->status == t->attempts[was].status && state->status != HTC_ELOST)
        c->sure += span;
    else
        c->maybe += span > most ? span : most;
}

/* The heart of the matter: a task is done once, by one attempt, for ever; its result and outputs lie there already. */
static void task_seen(void *ctx, const sys_task_state *state)
{
    chunk_at          *c = ctx;
    sys               *s = c->s;
    unsigned long long job = c->job, task = c->first + state->offset;
    uint32_t           attempt = state->done ? state->attempt : 0;
    sys_task          *t = htc__sys_task_of(s, job, task);
    const sys_job     *j = htc__sys_job_of_record(s, job);
    const sys_flow    *seats = j ? j->flow : NULL;
    if (state->brief && need_attempt(s, t, state->attempt)) {
        sys_try *a = &t->attempts[state->attempt];
        a->result = a->told = 1;
        a->status = HTC_OK;
        a->span = state->span;
    }
    count_cost(c, t, state);
    if (!state->done && !state->cancelled)
        return;
    if (attempt == 0) {
        if (t->committed)
            htc__sys_fail(s, "%llu.%llu was done and is cancelled", job, task);
        t->cancelled = 1;
        return;
    }
    if (t->cancelled)
        htc__sys_fail(s, "%llu.%llu was cancelled and is done", job, task);
    if (t->committed == attempt)
        return;
    if (!need_attempt(s, t, attempt))
        return;
    if (t->committed)
        htc__sys_fail(s, "%llu.%llu is committed twice: attempts %u and %u", job, task, (unsigned)t->committed,
                 (unsigned)attempt);
    else if (!t->attempts[attempt].result)
        htc__sys_fail(s, "%llu.%llu attempt %u is committed, and its result is not there", job, task, (unsigned)attempt);
    else if (seats)
        htc__sys_flow_seat_done(seats, job, task);
    else if (t->attempts[attempt].output != 1)
        htc__sys_fail(s, "%llu.%llu attempt %u is committed, and its outputs are not there", job, task, (unsigned)attempt);
    s->committed++;
    t->committed = attempt;
    t->ended = htc_sim_now(s->w);
}

static void chunk_durable(sys *s, uint64_t job, uint64_t index, htc_bytes value)
{
    chunk_at at = { .s = s, .job = job, .first = index * 1024 };
    uint64_t core_ns = 0;
    if (htc__sys_chunk_read(s, value, task_seen, &at, &core_ns) != HTC_OK)
        htc__sys_fail(s, "a chunk record that cannot be read");
    htc__sys_usage_chunk(s, job, index, core_ns, at.sure, at.maybe);
}

/* The keys that matter here: r/JOB/TASK/ATTEMPT, the result of an attempt, c/JOB/CHUNK, the states of 1024 tasks, and j/JOB,
 * which says whose job it is and how it has ended. */
void htc__sys_forgotten(sys *s, htc_bytes key)
{
    char               text[64];
    unsigned long long job, task;
    unsigned           attempt;
    if (key.len >= sizeof text)
        return;
    memcpy(text, key.data, key.len);
    text[key.len] = '\0';
    if (sscanf(text, "h/%16llx/%16llx/%8x", &job, &task, &attempt) == 3 && htc__sys_task_of(s, job, task)->leased == attempt && attempt)
        htc__sys_fail(s, "what attempt %u of %llu.%llu has is forgotten, and its chunk says that it runs", attempt, job, task);
}

void htc__sys_committed(sys *s, htc_bytes key, htc_bytes value)
{
    char               text[64];
    unsigned long long job, number;
    unsigned           attempt;
    sys_job_state      state;
    if (key.len >= sizeof text)
        return;
    memcpy(text, key.data, key.len);
    text[key.len] = '\0';
    if (sscanf(text, "r/%16llx/%16llx/%8x", &job, &number, &attempt) == 3)
        result_durable(s, &(htc_attempt){ job, number, attempt }, value);
    else if (sscanf(text, "c/%16llx/%16llx", &job, &number) == 2)
        chunk_durable(s, job, number, value);
    else if (text[0] == 'j' && text[1] == '/' && htc__sys_job_read(value, &state) == HTC_OK) {
        htc__sys_usage_owner(s, state.id, state.user);
        htc__sys_job_stored(s, &state);
    }
}

/* ---- checks ---- */

#define IDLE_MAX (51 * HTC_MS) /* between two divisions are 50 ms, of a clock that may be 1 % slow */

void htc__sys_check(sys *s, htc_sim_node *gateway)
{
    htc_gateway_books b = { .size = sizeof b };
    int               add_up = !s->options.check_every || ++s->steps % s->options.check_every == 0;
    if ((!add_up && !s->options.check_idle) || htc_gateway_audit(htc_sim_machine(gateway), add_up, &b) != HTC_OK)
        return;
    if (b.wrong[0])
        htc__sys_fail(s, "%s", b.wrong);
    if (!s->options.check_idle)
        return;
    /* A full disk refuses the record of a new agent too; the gateway looks again within two seconds. */
    int full = htc_sim_now(s->w) < s->disk_full_until + 2 * HTC_SECOND;
    if (!b.ready || full || b.paused || b.free == 0 || b.wanting == 0) {
        s->idle_since = HTC_NEVER;
        return;
    }
    if (s->idle_since == HTC_NEVER)
        s->idle_since = htc_sim_now(s->w);
    htc_ns idle = htc_sim_now(s->w) - s->idle_since;
    if (idle > s->idle_longest)
        s->idle_longest = idle;
    if (idle > IDLE_MAX)
        htc__sys_fail(s, "%u slots have been free for %.3f ms while %llu tasks wait", (unsigned)b.free, (double)idle / 1e6,
                 (unsigned long long)b.wanting);
}

static void fail_job(const sys_job *j, const char *what, uint64_t n)
{
    htc__sys_fail(j->s, "job %llu (%s): %s %llu of %llu", (unsigned long long)j->id, j->name, what, (unsigned long long)n,
             (unsigned long long)j->count);
}

/* Each was sent until it was answered, and made one job. */
static void check_submissions(sys *s)
{
    uint64_t kept = 0;
    for (const sys_job *j = s->jobs; j; j = j->next)
        kept += !j->removed;
    if (htc__sys_store_jobs(s) != kept)
        htc__sys_fail(s, "%llu jobs were submitted and not removed, %llu are stored", (unsigned long long)kept,
                 (unsigned long long)htc__sys_store_jobs(s));
}

void htc__sys_check_results(sys *s)
{
    check_submissions(s);
    for (const sys_job *j = s->jobs; j; j = j->next) {
        uint64_t n = 0;
        if (!j->finished)
            fail_job(j, "not finished", 0);
        if (j->removing && !j->removed)
            fail_job(j, "not removed", 0);
        if (j->removed && htc__sys_outputs_left(s, j->id))
            htc__sys_fail(s, "job %llu is removed, and outputs of it lie there", (unsigned long long)j->id);
        if (j->removed && htc__sys_store_left(s, j->id))
            htc__sys_fail(s, "job %llu is removed, and the store has %s", (unsigned long long)j->id, htc__sys_store_left(s, j->id));
        for (uint64_t i = 0; i < j->count; i++) {
            const sys_task *t = htc__sys_task_of(s, j->id, i);
            n += t->committed != 0;
            if (t->committed && !j->removing && !j->flow && t->attempts[t->committed].output != 1)
                fail_job(j, "lost the outputs of task", i);
        }
        if (n != j->count && !j->cancelled && !htc__sys_never_runs(j) && !(j->flow && htc__sys_flow_seats_fail(j->flow)))
            fail_job(j, "committed results:", n);
        if (htc__sys_never_runs(j) && (n || j->stored_end != SYS_CANCELLED))
            fail_job(j, "could never run, and is not cancelled: results:", n);
    }
    for (const sys_task *t = s->tasks; t; t = t->hh.next) /* of any job that came to be, acknowledged or not */
        if (t->runs && !t->committed && !t->cancelled)
            htc__sys_fail(s, "%llu.%llu has run and has no result", (unsigned long long)t->key.job,
                     (unsigned long long)t->key.task);
}

/* ---- what users do ---- */

static const char *text_of(json_t *o, const char *name)
{
    const char *text = json_string_value(json_object_get(o, name));
    return text ? text : "";
}

static uint64_t number_of(json_t *o, const char *name)
{
    return (uint64_t)json_integer_value(json_object_get(o, name));
}

static void submit(sys_job *j);

static void submit_again(htc_sim *w, void *ctx)
{
    (void)w;
    submit(ctx);
}

const char *htc__sys_jsdl(sys *s, uint64_t n, uint32_t cores, uint32_t node_cores, uint64_t flow)
{
    char resources[240] = "", each[100] = "", program[160] = "<Executable>/bin/true</Executable><Argument>x</Argument>";
    if (node_cores)
        snprintf(each, sizeof each, "<IndividualCPUCount><Exact>%u</Exact></IndividualCPUCount>", (unsigned)node_cores);
    if (cores > 1)
        snprintf(resources, sizeof resources, "<Resources>%s<TotalCPUCount><Exact>%u</Exact></TotalCPUCount></Resources>", each, (unsigned)cores);
    if (flow)
        snprintf(program, sizeof program, "<Executable>" HTC_FLOW_EXECUTABLE "</Executable><Argument>%llu</Argument><Environment name=\"SEAT\">x</Environment>",
                 (unsigned long long)flow);
    snprintf(
        s->jsdl, sizeof s->jsdl,
        "<JobDefinition xmlns=\"http://schemas.ggf.org/jsdl/2005/11/jsdl\""
        " xmlns:sweep=\"http://schemas.ogf.org/jsdl/2009/03/sweep\""
        " xmlns:sweepfunc=\"http://schemas.ogf.org/jsdl/2009/03/sweep/functions\">"
        "<JobDescription><Application>"
        "<POSIXApplication xmlns=\"http://schemas.ggf.org/jsdl/2005/11/jsdl-posix\">"
        "%s</POSIXApplication></Application>%s</JobDescription>"
        "<sweep:Sweep><sweep:Assignment><sweep:DocumentNode>"
        "<sweep:NamespaceBinding ns=\"http://schemas.ggf.org/jsdl/2005/11/jsdl-posix\" prefix=\"p\"/>"
        "<sweep:Match>//p:%s</sweep:Match></sweep:DocumentNode>"
        "<sweepfunc:LoopInteger start=\"1\" end=\"%llu\"/></sweep:Assignment></sweep:Sweep></JobDefinition>",
        program, resources, flow ? "Environment" : "Argument", (unsigned long long)n);
    return s->jsdl;
}

static void submitted(sys_user *u, void *ctx, json_t *answer)
{
    sys_job *j = ctx;
    uint64_t id = answer ? number_of(answer, "id") : 0;
    (void)u;
    if (!id) {
        if (answer)
            htc__sys_note(j->s, "submit: %s %s", text_of(answer, "error"), text_of(answer, "message"));
        if (answer && strcmp(text_of(answer, "error"), "HTC_ENOTFOUND") == 0)
            j->n_after = 0; /* one of them is removed: it does not wait then */
        htc__sys_after(j->s, 500 * HTC_MS, submit_again, j); /* the answer may be lost, the job not: it is the same key */
        return;
    }
    if (number_of(answer, "count") != j->count)
        htc__sys_fail(j->s, "%llu tasks were submitted, %llu accepted", (unsigned long long)j->count,
                 (unsigned long long)number_of(answer, "count"));
    j->id = id;
    j->acknowledged = 1;
}

static void submit(sys_job *j)
{
    htc__sys_ask(j->s->operator_,
            json_pack("{s:s, s:s, s:s, s:s, s:s, s:I, s:I, s:i, s:o}", "op", "submit", "user", j->user, "name", j->name, "key", j->name, "jsdl",
                      htc__sys_jsdl(j->s, j->count, j->cores, j->node_cores, j->flow ? htc__sys_flow_number(j->flow) : 0), "memory", (json_int_t)j->memory, "max_running", (json_int_t)j->max_running,
                      "priority", j->priority, "after", htc__sys_after_json(j)),
            submitted, j);
}

sys_job *htc__sys_submit_as(sys *s, const sys_job *wanted)
{
    sys_job *j = htc__sys_alloc(s, sizeof *j), **at = &s->jobs;
    if (!j)
        return NULL;
    *j = *wanted;
    j->s = s;
    j->submitted = htc_sim_now(s->w);
    while (*at)
        at = &(*at)->next;
    *at = j;
    submit(j);
    return j;
}

sys_job *htc__sys_submit_large(sys *s, const char *user, const char *name, uint64_t count, uint64_t memory)
{
    sys_job wanted = { .count = count, .memory = memory };
    snprintf(wanted.user, sizeof wanted.user, "%s", user);
    snprintf(wanted.name, sizeof wanted.name, "%s", name);
    return htc__sys_submit_as(s, &wanted);
}

sys_job *htc__sys_submit(sys *s, const char *user, const char *name, uint64_t count)
{
    return htc__sys_submit_large(s, user, name, count, 0);
}

static void cancel_again(htc_sim *w, void *ctx)
{
    (void)w;
    htc__sys_cancel(ctx);
}

static void cancel_answered(sys_user *u, void *ctx, json_t *answer)
{
    sys_job *j = ctx;
    (void)u;
    if (!answer || !json_object_get(answer, "cancelled"))
        htc__sys_after(j->s, 300 * HTC_MS, cancel_again, j);
}

void htc__sys_cancel(sys_job *j)
{
    char id[32];
    snprintf(id, sizeof id, "%llu", (unsigned long long)j->id);
    j->cancelled = 1;
    htc__sys_ask(j->s->operator_, json_pack("{s:s, s:s}", "op", "cancel", "id", id), cancel_answered, j);
}

static void remove_again(htc_sim *w, void *ctx)
{
    (void)w;
    htc__sys_remove(ctx);
}

static void remove_answered(sys_user *u, void *ctx, json_t *answer)
{
    sys_job *j = ctx;
    (void)u;
    if (answer && (json_object_get(answer, "removed") || strcmp(text_of(answer, "error"), "HTC_ENOTFOUND") == 0))
        j->removed = 1;
    else
        htc__sys_after(j->s, 100 * HTC_MS, remove_again, j);
}

void htc__sys_remove(sys_job *j)
{
    char id[32];
    snprintf(id, sizeof id, "%llu", (unsigned long long)j->id);
    j->removing = 1;
    htc__sys_ask(j->s->operator_, json_pack("{s:s, s:s}", "op", "rm", "id", id), remove_answered, j);
}

static sys_job *job_of(sys *s, uint64_t id)
{
    for (sys_job *j = s->jobs; j; j = j->next)
        if (j->id == id)
            return j;
    return NULL;
}

uint64_t htc__sys_task_memory(sys *s, uint64_t job, uint32_t site)
{
    const sys_job          *j = job_of(s, job);
    const htc_site_options *o = &s->options.sites[site];
    return j && j->memory ? j->memory : o->task_memory ? o->task_memory : o->memory / o->cores;
}

static void check_status(sys *s, json_t *job)
{
    static const char *const states[] = { "waiting",    "leased", "running", "staging_out",
                                          "retry_wait", "done",   "failed",  "cancelled" };
    json_t                  *tasks = json_object_get(job, "tasks");
    uint64_t                 count = number_of(job, "count"), sum = 0;
    sys_job                 *j = job_of(s, number_of(job, "id"));
    for (size_t i = 0; i < sizeof states / sizeof states[0]; i++)
        sum += number_of(tasks, states[i]);
    if (sum != count)
        htc__sys_fail(s, "status of job %llu: %llu tasks in all states, %llu in the job",
                 (unsigned long long)number_of(job, "id"), (unsigned long long)sum, (unsigned long long)count);
    int done = strcmp(text_of(job, "state"), "done") == 0 || strcmp(text_of(job, "state"), "cancelled") == 0 ||
               (j && j->flow && strcmp(text_of(job, "state"), "done_with_failures") == 0);
    if (j && j->finished && !done)
        htc__sys_fail(s, "job %llu was done and is %s again", (unsigned long long)j->id, text_of(job, "state"));
    if (j && done && !j->finished) {
        j->finished = 1;
        j->ended = htc_sim_now(s->w);
        int seats_fail = j->flow && htc__sys_flow_seats_fail(j->flow), may_be = seats_fail || j->cancelled || htc__sys_never_runs(j);
        if (number_of(tasks, "done") + (may_be ? number_of(tasks, "cancelled") : 0) + (seats_fail ? number_of(tasks, "failed") : 0) != count)
            fail_job(j, "done, with finished tasks:", number_of(tasks, "done"));
    }
}

static void ask_status(htc_sim *w, void *ctx);

static void status_answered(sys_user *u, void *ctx, json_t *answer)
{
    sys    *s = ctx;
    json_t *job;
    size_t  i;
    (void)u;
    if (answer)
        json_array_foreach(json_object_get(answer, "jobs"), i, job) check_status(s, job);
    htc__sys_after(s, s->watch_every, ask_status, s);
}

static void ask_status(htc_sim *w, void *ctx)
{
    sys *s = ctx;
    (void)w;
    htc__sys_ask(s->operator_, json_pack("{s:s, s:s, s:i}", "op", "status", "id", "all", "limit", 1000), status_answered, s);
}

void htc__sys_watch_jobs(sys *s, htc_ns every)
{
    s->watch_every = every;
    htc__sys_after(s, every, ask_status, s);
}

int htc__sys_all_finished(const sys *s)
{
    for (const sys_job *j = s->jobs; j; j = j->next)
        if (!j->finished)
            return 0;
    return 1;
}

/* ---- accounts ---- */

static void add_account(htc_sim *w, void *ctx);

static void account_added(sys_user *u, void *ctx, json_t *answer)
{
    sys_account *a = ctx;
    sys         *s = a->s;
    (void)u;
    if (answer && (json_object_get(answer, "name") || strcmp(text_of(answer, "error"), "HTC_EEXISTS") == 0)) {
        a->ready = 1;
        return;
    }
    if (answer)
        htc__sys_note(s, "user.add: %s %s", text_of(answer, "error"), text_of(answer, "message"));
    htc__sys_after(s, 100 * HTC_MS, add_account, a);
}

static void add_account(htc_sim *w, void *ctx)
{
    sys_account *a = ctx;
    (void)w;
    htc__sys_ask(a->s->operator_,
            json_pack("{s:s, s:s, s:s, s:I}", "op", "user.add", "name", a->name, "password", "secret", "weight",
                      (json_int_t)a->weight),
            account_added, a);
}

void htc__sys_add_account(sys *s, const char *name, uint64_t weight)
{
    sys_account *a = htc__sys_alloc(s, sizeof *a);
    if (!a)
        return;
    *a = (sys_account){ .s = s, .weight = weight, .next = s->accounts };
    snprintf(a->name, sizeof a->name, "%s", name);
    s->accounts = a;
    add_account(s->w, a);
}

int htc__sys_accounts_ready(const sys *s)
{
    for (const sys_account *a = s->accounts; a; a = a->next)
        if (!a->ready)
            return 0;
    return 1;
}

/* ---- the simulation ---- */

void htc__sys_refused(sys *s, htc_status status, const char *what)
{
    if (status == HTC_ENOMEM)
        htc__sys_no_memory(s);
    else
        htc__sys_fail(s, "%s: %s", what, htc_status_name(status));
}

void htc__sys_no_memory(sys *s)
{
    s->no_memory = 1;
    htc_sim_fail(s->w, "there is no memory for the run itself");
}

void *htc__sys_alloc(sys *s, size_t size)
{
    void *p = htc__alloc(&s->env, size);
    if (!p)
        htc__sys_no_memory(s);
    return p;
}

void htc__sys_fail(sys *s, const char *format, ...)
{
    char    text[512];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    htc_sim_fail(s->w, text);
}

void htc__sys_note(sys *s, const char *format, ...)
{
    char    text[512];
    va_list args;
    if (!htc_sim_traced(s->w))
        return;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    htc_sim_note(s->w, text);
}

void htc__sys_after(sys *s, htc_ns delay, void (*fn)(htc_sim *w, void *ctx), void *ctx)
{
    htc_sim_at(s->w, htc_sim_now(s->w) + delay, fn, ctx, 0);
}

void htc__sys_run_until(sys *s, htc_ns at)
{
    if (at > htc_sim_now(s->w))
        htc_sim_run(s->w, at - htc_sim_now(s->w));
}

htc_sim_node *htc__sys_node(sys *s, const char *name, const htc_sim_host *host, void *ctx, int faithful)
{
    htc_sim_node        *node = NULL;
    htc_sim_node_options o = { .size = sizeof o,
                               .name = name,
                               .host = host,
                               .ctx = ctx,
                               .faithful = faithful,
                               .survive = s->options.gateways > 1,
                               .info = {
                                   .transport = HTC_TRANSPORT_UNIX, .uid = SYS_UID, .pid = 100 + s->last_node++ } };
    if (htc_sim_add(s->w, &o, &node) != HTC_OK)
        htc__sys_no_memory(s);
    return node;
}

/* ---- open and close ---- */

htc_status htc__sys_open(const htc_env *env, const sys_options *options, sys **out)
{
    sys *s = htc__alloc(env, sizeof *s);
    if (!s)
        return HTC_ENOMEM;
    if (env)
        s->env = *env;
    s->options = *options;
    s->options.sim.size = sizeof s->options.sim;
    s->options.net.size = sizeof s->options.net;
    s->options.sim.net = &s->options.net;
    htc_status status = htc_sim_create(env, &s->options.sim, &s->w);
    if (status != HTC_OK) {
        htc__free(env, s, sizeof *s);
        return status;
    }
    s->idle_since = HTC_NEVER;
    s->rng_disk = htc_sim_rng(s->w, "disk");
    s->rng_launch = htc_sim_rng(s->w, "launch");
    s->rng_host = htc_sim_rng(s->w, "host");
    s->rng_random = htc_sim_rng(s->w, "random");
    s->store = htc__sys_store_add(s);
    s->gateway = htc__sys_gateway_add(s, "gateway");
    s->standby = s->options.gateways > 1 ? htc__sys_gateway_add(s, "standby") : NULL;
    if (s->members && s->proxies)
        htc__sys_members_boot(s);
    if (htc_sim_boot(s->store) == HTC_ENOMEM || htc_sim_boot(s->gateway) == HTC_ENOMEM || (s->standby && htc_sim_boot(s->standby) == HTC_ENOMEM))
        htc__sys_no_memory(s);
    s->operator_ = htc__sys_user_add(s, "operator");
    if (s->no_memory) {
        htc__sys_close(s);
        return HTC_ENOMEM;
    }
    *out = s;
    return HTC_OK;
}

void htc__sys_close(sys *s)
{
    htc_env   env = s->env;
    sys_task *t, *next;
    htc_sim_destroy(s->w);
    htc__sys_store_close(s);
    htc__sys_agents_close(s);
    htc__sys_users_free(s);
    HASH_ITER(hh, s->tasks, t, next)
    {
        HASH_DEL(s->tasks, t);
        htc__free(&env, t->attempts, t->n_attempts * sizeof *t->attempts);
        htc__free(&env, t, sizeof *t);
    }
    while (s->places)
        place_free(s, s->places);
    htc__sys_usage_free(s);
    htc__sys_flows_free(s);
    while (s->jobs) {
        sys_job *j = s->jobs;
        s->jobs = j->next;
        htc__free(&env, j, sizeof *j);
    }
    while (s->accounts) {
        sys_account *a = s->accounts;
        s->accounts = a->next;
        htc__free(&env, a, sizeof *a);
    }
    htc__free(&env, s, sizeof *s);
}
