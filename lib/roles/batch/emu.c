#include "roles/batch/emu_private.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "core/util.h"
#include "htcsched/bytes.h"

/* ---- create and destroy ---- */

static int is_name(const char *name)
{
    return name && name[0] && !name[strcspn(name, " \t\n\r\v\f")];
}

static int is_chance(double p)
{
    return p >= 0 && p <= 1;
}

htc_status htc__emu_create(const htc_env *env, const htc__emu_options *o, htc__emu **out)
{
    if (!o->clusters || o->n == 0 || o->n > HTC__EMU_CLUSTERS_MAX || !is_chance(o->hold) || !is_chance(o->hold_rate) || !is_chance(o->fail))
        return HTC_EINVAL;
    htc__emu *e = htc__alloc(env, sizeof *e);
    if (!e)
        return HTC_ENOMEM;
    e->env = *env;
    e->options = *o;
    for (uint32_t i = 0; i < o->n; i++) {
        e->cluster[i].is = o->clusters[i];
        e->cluster[i].system = (htc__first_level){ .hold = o->hold, .hold_rate = o->hold_rate, .service = o->service_ns, .second = HTC_SECOND };
        if (o->clusters[i].cores == 0 || !is_name(e->cluster[i].is.name)) {
            htc__emu_destroy(e);
            return HTC_EINVAL;
        }
    }
    e->options.clusters = NULL;
    *out = e;
    return HTC_OK;
}

static void job_free(htc__emu *e, emu_job *j)
{
    htc__strfree(&e->env, j->out);
    htc__free(&e->env, j->script, j->script_len + 1);
    htc__free(&e->env, j->step, j->steps * sizeof *j->step);
}

void htc__emu_destroy(htc__emu *e)
{
    if (!e)
        return;
    htc_env env = e->env;
    for (size_t i = 0; i < e->count; i++)
        job_free(e, &e->jobs[i]);
    htc__free(&env, e->jobs, e->room * sizeof *e->jobs);
    htc__free(&env, e, sizeof *e);
}

/* ---- jobs ---- */

static emu_job *find(const htc__emu *e, uint64_t id)
{
    size_t low = 0, high = e->count; /* they are in the order of their numbers */
    while (low < high) {
        size_t middle = (low + high) / 2;
        if (e->jobs[middle].id < id)
            low = middle + 1;
        else
            high = middle;
    }
    return low < e->count && e->jobs[low].id == id ? &e->jobs[low] : NULL;
}

static emu_job *add(htc__emu *e)
{
    if (e->count == e->room) {
        size_t   room = e->room ? 2 * e->room : 64;
        emu_job *more = htc__resize(&e->env, e->jobs, e->room * sizeof *more, room * sizeof *more);
        if (!more)
            return NULL;
        e->jobs = more;
        e->room = room;
    }
    return &e->jobs[e->count];
}

void htc__emu_forget(htc__emu *e, htc_ns now)
{
    size_t kept = 0;
    for (size_t i = 0; i < e->count; i++) {
        emu_job *j = &e->jobs[i];
        htc_ns   last = 0;
        for (uint32_t s = 0; j->live == 0 && s < j->steps; s++)
            last = j->step[s].since > last ? j->step[s].since : last;
        if (j->live == 0 && last + EMU_SHOWN <= now)
            job_free(e, j);
        else
            e->jobs[kept++] = *j;
    }
    e->count = kept;
}

static uint32_t free_cores(const emu_cluster *k)
{
    return k->used < k->is.cores ? k->is.cores - k->used : 0; /* what was recovered may be more than there is now */
}

static uint32_t pick(const htc__emu *e, uint32_t cores)
{
    htc__cluster_now now[HTC__EMU_CLUSTERS_MAX] = { { 0 } };
    uint32_t         of[HTC__EMU_CLUSTERS_MAX], n = 0;
    for (uint32_t i = 0; i < e->options.n; i++)
        if (e->cluster[i].is.cores >= cores)
            of[n++] = i;
    for (uint32_t i = 0; i < n; i++)
        now[i].free = free_cores(&e->cluster[of[i]]);
    for (size_t at = 0; at < e->count; at++)
        for (uint32_t i = 0; i < n; i++)
            if (e->jobs[at].cluster == of[i] && e->jobs[at].state == JOB_WAITS)
                now[i].queued++;
    return n ? of[htc__cluster_pick(now, n, e->options.metric)] : UINT32_MAX;
}

htc_status htc__emu_submit(htc__emu *e, const htc__emu_job *job, htc_ns now, uint64_t *id)
{
    if (!is_name(job->name) || strlen(job->name) >= HTC__EMU_NAME_MAX || job->steps == 0 || job->cores == 0 || job->script.len > HTC__EMU_SCRIPT_MAX)
        return HTC_EINVAL;
    htc__emu_forget(e, now);
    if (job->steps > HTC__EMU_STEPS_MAX - e->live)
        return HTC_EBUSY;
    uint32_t cluster = pick(e, job->cores);
    if (cluster == UINT32_MAX)
        return HTC_ETOOBIG;
    emu_job *j = add(e);
    if (!j)
        return HTC_ENOMEM;
    *j = (emu_job){ .id = e->last + 1, .script_len = job->script.len, .steps = job->steps, .cores = job->cores, .cluster = cluster, .live = job->steps, .wall = job->wall };
    snprintf(j->name, sizeof j->name, "%s", job->name);
    j->out = job->out ? htc__strdup(&e->env, job->out) : NULL;
    j->script = htc__alloc(&e->env, job->script.len + 1);
    j->step = htc__alloc(&e->env, job->steps * sizeof *j->step);
    if (!j->script || !j->step || (job->out && !j->out)) {
        htc__strfree(&e->env, j->out);
        htc__free(&e->env, j->script, job->script.len + 1);
        htc__free(&e->env, j->step, job->steps * sizeof *j->step);
        return HTC_ENOMEM;
    }
    if (job->script.len)
        memcpy(j->script, job->script.data, job->script.len);
    e->count++;
    e->changed = 1;
    e->live += job->steps;
    e->figures.jobs++;
    e->figures.steps += job->steps;
    *id = e->last = j->id;
    return HTC_OK;
}

static uint64_t draw(htc__emu *e)
{
    uint8_t form[8];
    htc__le64_put(form, e->draws++);
    return htc_hash64((htc_bytes){ form, sizeof form }, e->options.seed);
}

static void end_step(htc__emu *e, emu_job *j, emu_step *s, step_end how, htc_ns now)
{
    emu_cluster *k = &e->cluster[j->cluster];
    assert(s->state != STEP_ENDED && j->live > 0 && e->live > 0);
    if (s->state == STEP_STARTS || s->state == STEP_RUNS) {
        assert(k->used >= j->cores && k->running > 0);
        k->used -= j->cores;
        k->running--;
        e->figures.ended++;
    }
    e->to_tell -= s->kill && !s->told;
    s->kill = 0;
    s->state = STEP_ENDED;
    s->end = (uint8_t)how;
    s->since = now;
    e->changed = 1;
    j->live--;
    e->live--;
    e->figures.failed += how == END_FAILED;
    if (j->live == 0 && j->begun)
        htc__first_level_noted(&k->system, now);
}

/* Cores that were set aside for more steps than wait now. */
static void fit_reserve(htc__emu *e, emu_job *j)
{
    uint32_t waiting = 0;
    for (uint32_t i = j->next; i < j->steps && waiting < j->reserved; i++)
        waiting += j->step[i].state == STEP_WAITS;
    e->cluster[j->cluster].used -= (j->reserved - waiting) * j->cores;
    j->reserved = waiting;
    e->changed = 1;
}

htc_status htc__emu_cancel(htc__emu *e, uint64_t job, uint32_t step, htc_ns now)
{
    emu_job *j = find(e, job);
    if (!j || step >= j->steps)
        return HTC_ENOTFOUND;
    emu_step *s = &j->step[step];
    if (s->state == STEP_WAITS) {
        end_step(e, j, s, END_CANCELLED, now);
        fit_reserve(e, j);
    } else if (s->state == STEP_STARTS && !s->told) {
        e->to_tell--;
        end_step(e, j, s, END_CANCELLED, now);
    } else if (s->state != STEP_ENDED && !s->kill) {
        s->kill = 1;
        s->end = END_CANCELLED;
        if (s->state == STEP_RUNS) {
            s->told = 0;
            e->to_tell++;
        }
    }
    return HTC_OK;
}

/* ---- what happens by itself ---- */

static void start_step(htc__emu *e, emu_job *j, emu_step *s, htc_ns now)
{
    emu_cluster *k = &e->cluster[j->cluster];
    if (j->reserved) {
        j->reserved--;
        k->used -= j->cores;
    }
    k->used += j->cores;
    k->running++;
    j->begun = 1;
    s->state = STEP_STARTS;
    s->since = now;
    e->figures.started++;
    if (e->options.fail > 0 && (double)(draw(e) >> 11) * 0x1p-53 < e->options.fail) {
        end_step(e, j, s, END_FAILED, now);
        return;
    }
    e->to_tell++;
}

static emu_step *first_waiting(emu_job *j)
{
    while (j->next < j->steps && j->step[j->next].state != STEP_WAITS)
        j->next++;
    return j->next < j->steps ? &j->step[j->next] : NULL;
}

static void judge(htc__emu *e, emu_job *j, htc_ns now)
{
    emu_cluster *k = &e->cluster[j->cluster];
    uint64_t     bits = htc__first_level_may_hold(&k->system) ? draw(e) : 0;
    j->state = htc__first_level_holds(&k->system, now, bits) ? JOB_HELD : JOB_STARTED;
    if (j->state == JOB_HELD) {
        k->used -= j->reserved * j->cores;
        j->reserved = 0;
        e->changed = 1;
        e->figures.held++;
    }
}

static void begin_service(htc__emu *e, emu_job *j, htc_ns now)
{
    emu_cluster *k = &e->cluster[j->cluster];
    uint32_t     fit = free_cores(k) / j->cores, waiting = 0;
    for (uint32_t i = j->next; i < j->steps && waiting < fit; i++)
        waiting += j->step[i].state == STEP_WAITS;
    j->reserved = waiting;
    k->used += waiting * j->cores;
    j->state = JOB_SERVED;
    j->at = htc__first_level_serve(&k->system, now);
    e->figures.served++;
}

/* blocked: one before it waits for cores: it gets none but those that were set aside for it. 0: it waits for cores itself. */
static int advance_job(htc__emu *e, emu_job *j, int blocked, htc_ns now)
{
    const emu_cluster *k = &e->cluster[j->cluster];
    emu_step          *s = first_waiting(j);
    if (!s || j->state == JOB_HELD)
        return 1;
    if (j->state == JOB_WAITS && !blocked && free_cores(k) >= j->cores)
        begin_service(e, j, now);
    if (j->state == JOB_SERVED && j->at <= now)
        judge(e, j, now);
    for (; j->state == JOB_STARTED && s && (j->reserved || (!blocked && free_cores(k) >= j->cores)); s = first_waiting(j))
        start_step(e, j, s, now);
    return j->state == JOB_HELD || j->state == JOB_SERVED || !s;
}

static void end_late(htc__emu *e, emu_job *j, htc_ns now)
{
    for (uint32_t i = 0; j->wall && i < j->steps; i++) {
        emu_step *s = &j->step[i];
        if (s->state != STEP_RUNS || s->kill || s->since + j->wall > now)
            continue;
        s->kill = 1;
        s->told = 0;
        s->end = END_TIMEOUT;
        e->to_tell++;
    }
}

/* A step that fails as it starts makes room for one that was passed over. */
static void advance(htc__emu *e, htc_ns now)
{
    do {
        uint64_t full = 0; /* clusters, a bit each */
        e->changed = 0;
        for (size_t i = 0; i < e->count; i++) {
            emu_job *j = &e->jobs[i];
            if (j->live == 0)
                continue;
            if (!advance_job(e, j, full >> j->cluster & 1, now))
                full |= UINT64_C(1) << j->cluster;
            end_late(e, j, now);
        }
    } while (e->changed);
}

htc_ns htc__emu_deadline(const htc__emu *e)
{
    htc_ns at = e->to_tell || e->changed ? 0 : HTC_NEVER;
    for (size_t i = 0; i < e->count && at; i++) {
        const emu_job *j = &e->jobs[i];
        if (j->live == 0)
            continue;
        if (j->state == JOB_SERVED && j->at < at)
            at = j->at;
        for (uint32_t s = 0; j->wall && s < j->steps; s++)
            if (j->step[s].state == STEP_RUNS && !j->step[s].kill && j->step[s].since + j->wall < at)
                at = j->step[s].since + j->wall;
    }
    return at;
}

static void fill_action(const htc__emu *e, const emu_job *j, uint32_t step, htc__emu_kind kind, htc__emu_action *out)
{
    *out = (htc__emu_action){ .kind = kind, .job = j->id, .step = step, .handle = j->step[step].handle, .script = { j->script, j->script_len }, .out = j->out,
                              .cluster = e->cluster[j->cluster].is.name, .name = j->name };
}

/* The first action of a job from a step on. */
static int find_action(htc__emu *e, size_t at, uint32_t from, htc__emu_action *out)
{
    emu_job *j = &e->jobs[at];
    for (uint32_t n = from; j->live && n < j->steps; n++) {
        emu_step *s = &j->step[n];
        int       starts = s->state == STEP_STARTS && !s->told, ends = s->state == STEP_RUNS && s->kill && !s->told;
        if (!starts && !ends)
            continue;
        s->told = 1;
        e->to_tell--;
        e->told_job = at;
        e->told_step = n + 1;
        fill_action(e, j, n, starts ? HTC__EMU_START : HTC__EMU_KILL, out);
        return 1;
    }
    return 0;
}

/* It goes on where the last one was: of many steps that start together none is looked at twice. */
int htc__emu_next(htc__emu *e, htc_ns now, htc__emu_action *out)
{
    if (e->to_tell == 0)
        advance(e, now);
    size_t   first = e->told_job < e->count ? e->told_job : 0;
    uint32_t step = e->told_job < e->count ? e->told_step : 0;
    for (size_t i = 0; e->to_tell && i <= e->count; i++)
        if (find_action(e, (first + i) % e->count, i == 0 ? step : 0, out))
            return 1;
    assert(e->to_tell == 0);
    return 0;
}

void htc__emu_started(htc__emu *e, uint64_t job, uint32_t step, uint64_t handle)
{
    emu_job  *j = find(e, job);
    emu_step *s = j && step < j->steps ? &j->step[step] : NULL;
    if (!s || s->state != STEP_STARTS)
        return;
    s->state = STEP_RUNS;
    s->handle = handle;
    if (s->kill) { /* it was cancelled meanwhile */
        s->told = 0;
        e->to_tell++;
    }
}

void htc__emu_ended(htc__emu *e, uint64_t job, uint32_t step, int failed, htc_ns now)
{
    emu_job  *j = find(e, job);
    emu_step *s = j && step < j->steps ? &j->step[step] : NULL;
    if (!s || (s->state != STEP_STARTS && s->state != STEP_RUNS) || (s->state == STEP_STARTS && !s->told))
        return;
    end_step(e, j, s, s->end ? (step_end)s->end : failed ? END_FAILED : END_WELL, now);
}

void htc__emu_count(const htc__emu *e, htc__emu_figures *out)
{
    *out = e->figures;
    out->running = 0;
    for (uint32_t i = 0; i < e->options.n; i++)
        out->running += e->cluster[i].running;
    out->waiting = e->live - out->running;
}

int htc__emu_lives(const htc__emu *e, uint64_t job)
{
    const emu_job *j = find(e, job);
    return j && j->live > 0;
}

uint32_t htc__emu_running(const htc__emu *e, uint32_t cluster)
{
    return cluster < e->options.n ? e->cluster[cluster].running : 0;
}

/* ---- what outlives the process ---- */

/* htc-emu 1 LAST IDENTITY, then a line for each step that runs: job, step, steps, cores, since, wall, handle, cluster, name. */
void htc__emu_journal(const htc__emu *e, htc_buf *out)
{
    char line[400];
    snprintf(line, sizeof line, "htc-emu 1 %" PRIu64 " %016" PRIx64 "\n", e->last, e->options.identity);
    htc_put_raw(out, htc_bytes_of(line));
    for (size_t i = 0; i < e->count; i++)
        for (uint32_t s = 0; e->jobs[i].live && s < e->jobs[i].steps; s++) {
            const emu_job  *j = &e->jobs[i];
            const emu_step *p = &j->step[s];
            if (p->state != STEP_RUNS)
                continue;
            snprintf(line, sizeof line, "%" PRIu64 " %" PRIu32 " %" PRIu32 " %" PRIu32 " %" PRIu64 " %" PRIu64 " %" PRIu64 " %s %s\n", j->id, s, j->steps, j->cores, p->since,
                     j->wall, p->handle, e->cluster[j->cluster].is.name, j->name);
            htc_put_raw(out, htc_bytes_of(line));
        }
}

/* Steps that are not in the journal have ended, or waited: they are gone. */
static emu_job *recovered_job(htc__emu *e, const emu_job *like)
{
    emu_job *j = find(e, like->id);
    if (j)
        return j->steps == like->steps && j->cluster == like->cluster ? j : NULL;
    if ((e->count && e->jobs[e->count - 1].id > like->id) || !(j = add(e)))
        return NULL;
    *j = *like;
    j->state = JOB_STARTED;
    j->begun = 1;
    j->script = htc__alloc(&e->env, 1);
    j->step = htc__alloc(&e->env, j->steps * sizeof *j->step);
    if (!j->script || !j->step) {
        htc__free(&e->env, j->script, 1);
        htc__free(&e->env, j->step, j->steps * sizeof *j->step);
        return NULL;
    }
    for (uint32_t i = 0; i < j->steps; i++)
        j->step[i] = (emu_step){ .state = STEP_ENDED, .end = END_FAILED };
    e->count++;
    return j;
}

static htc_status recover_line(htc__emu *e, const char *line, htc__emu_step told, void *ctx)
{
    emu_job  like = { .script_len = 0 };
    emu_step p = { .state = STEP_RUNS, .told = 1 };
    uint32_t step = 0;
    char     cluster[HTC__EMU_NAME_MAX];
    int      n = 0;
    if (sscanf(line, "%" SCNu64 " %" SCNu32 " %" SCNu32 " %" SCNu32 " %" SCNu64 " %" SCNu64 " %" SCNu64 " %63s %63s%n", &like.id, &step, &like.steps, &like.cores, &p.since,
               &like.wall, &p.handle, cluster, like.name, &n) != 9 || line[n] || step >= like.steps || like.steps > HTC__EMU_STEPS_MAX || like.cores == 0 ||
        like.cores > 1 << 20 || like.id == 0 || like.id > e->last)
        return HTC_EFORMAT;
    while (like.cluster < e->options.n && strcmp(e->cluster[like.cluster].is.name, cluster) != 0)
        like.cluster++;
    if (like.cluster == e->options.n)
        return HTC_OK;
    emu_job *j = e->live < HTC__EMU_STEPS_MAX ? recovered_job(e, &like) : NULL;
    if (!j || j->step[step].state == STEP_RUNS)
        return HTC_EFORMAT;
    j->step[step] = p;
    j->live++;
    e->live++;
    e->cluster[j->cluster].used += j->cores;
    e->cluster[j->cluster].running++;
    told(ctx, j->id, step, p.handle);
    return HTC_OK;
}

static htc_status recover_head(htc__emu *e, const char *line)
{
    uint64_t last = 0, identity = 0;
    int      n = 0;
    if (sscanf(line, "htc-emu 1 %" SCNu64 " %16" SCNx64 "%n", &last, &identity, &n) != 2 || line[n])
        return HTC_EFORMAT;
    if (identity != e->options.identity)
        return HTC_EEXISTS;
    e->last = last;
    return HTC_OK;
}

htc_status htc__emu_recover(htc__emu *e, htc_bytes journal, htc__emu_step told, void *ctx)
{
    const char *p = journal.len ? journal.data : "", *last = p + journal.len;
    htc_status  status = HTC_OK;
    int         first = 1;
    while (p < last && status == HTC_OK) {
        char        line[400];
        const char *stop = memchr(p, '\n', (size_t)(last - p));
        size_t      len = stop ? (size_t)(stop - p) : sizeof line;
        if (len >= sizeof line || memchr(p, 0, len))
            return HTC_EFORMAT;
        memcpy(line, p, len);
        line[len] = '\0';
        p = stop + 1;
        if (!first)
            status = recover_line(e, line, told, ctx);
        else
            status = recover_head(e, line);
        first = 0;
    }
    return first ? HTC_EFORMAT : status;
}
