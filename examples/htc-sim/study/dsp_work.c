/* Workloads of runtime environments: a log in the Standard Workload Format, read as it is needed; a workflow; or jobs that are drawn. */
#include "arrivals.h"
#include "dsp.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "htcsched/flow.h"
#include "htcsched/work.h"

#define FLOW_BYTES_MAX ((size_t)1 << 30)

static int refuse(htc_error *e, htc_status status, const char *where, const char *text, const char *hint)
{
    *e = (htc_error){ .status = status };
    snprintf(e->where, sizeof e->where, "%.150s", where);
    snprintf(e->text, sizeof e->text, "%.300s", text);
    snprintf(e->hint, sizeof e->hint, "%.150s", hint);
    return 0;
}

/* The key of an environment, lent until the next call. */
static const char *in(settings *s, const dsp_work *w, const char *key)
{
    return settings_in(s, "tre", w->name, key);
}

/* ---- a log ---- */

static htc_status next_of_log(dsp_work *w, htc_sim_provision_job *job)
{
    htc_swf_job j;
    uint64_t    nodes;
    htc_status  status = trace_next(&w->log, &j, &nodes);
    if (status != HTC_OK)
        return status;
    job->arrival = trace_ns(j.submit_s);
    if (w->window && job->arrival >= w->window) /* nobody looks beyond it */
        return HTC_AGAIN;
    job->length = trace_ns(j.run_s);
    job->nodes = (uint32_t)nodes;
    job->estimate = w->estimates == 0 ? trace_ns(j.run_asked_s) : w->estimates == 1 ? job->length : 0;
    return HTC_OK;
}

/* ---- drawn jobs ---- */

static void no_event(htc_scale *scale, void *ctx, uint32_t id)
{
    (void)scale;
    (void)ctx;
    (void)id;
}

/* Streams of the draws: 0 gaps, 1 lengths, 2 sizes. */
static htc_status next_drawn(dsp_work *w, htc_sim_provision_job *job)
{
    uint64_t k = w->next;
    if (k == w->jobs)
        return HTC_AGAIN;
    w->next++;
    w->at = k ? htc_scale_arrival(w->draws, &w->arrivals, 0, k, w->at / HTC_US) * HTC_US : 0;
    if (w->window && w->at >= w->window)
        return HTC_AGAIN;
    job->arrival = w->at;
    job->length = htc_scale_length(w->draws, &w->length, 1, k) * HTC_US;
    job->nodes = (uint32_t)(w->nodes_min + htc_scale_hash(w->draws, 2, k) % (w->nodes_max - w->nodes_min + 1));
    return HTC_OK;
}

static int open_drawn(dsp_work *w, settings *s, htc_error *error)
{
    char     section[64];
    uint64_t own = w->seed; /* so that environments do not draw the same */
    for (const char *p = w->name; *p; p++)
        own = own * UINT64_C(0x100000001b3) + (unsigned char)*p;
    htc_scale_options o = { .size = sizeof o, .seed = own, .ids = 1, .tick_ns = HTC_US, .event = no_event };
    w->jobs = settings_count(s, in(s, w, "jobs"));
    w->length = settings_law(s, in(s, w, "length"));
    settings_counts(s, in(s, w, "sizes"), &w->nodes_min, &w->nodes_max);
    snprintf(section, sizeof section, "tre.%s", w->name);
    if (!arrivals_read(s, section, "gap", &w->arrivals, error))
        return 0;
    return htc_scale_create(NULL, &o, &w->draws, NULL) == HTC_OK || refuse(error, HTC_ENOMEM, w->name, "no memory for its jobs", "close other programs");
}

/* ---- a workflow ---- */

static char *read_whole(const char *file, size_t *n)
{
    FILE  *f = fopen(file, "rb");
    char  *text = NULL;
    size_t room = 0, got = 0;
    errno = f ? 0 : errno;
    while (f && !errno) {
        if (got == room) {
            char *more = got > FLOW_BYTES_MAX ? NULL : realloc(text, room = room ? 2 * room : 65536);
            if (!more) {
                errno = got > FLOW_BYTES_MAX ? EFBIG : ENOMEM;
                break;
            }
            text = more;
        }
        size_t m = fread(text + got, 1, room - got, f);
        got += m;
        if (m == 0)
            break;
    }
    int why = errno;
    if (f && ferror(f) && !why)
        why = EIO;
    if (f)
        fclose(f);
    if (why)
        free(text);
    errno = why;
    *n = got;
    return why ? NULL : text;
}

/* Tasks with a count stand for so many; a task of several cores still takes a node. */
static int take_flow(dsp_work *w, const htc_flow *f, htc_error *error)
{
    uint64_t total = htc_flow_total(f);
    uint32_t n = 0, edges = 0;
    if (total > UINT32_MAX / 2 || htc_flow_edges(f) > UINT32_MAX)
        return refuse(error, HTC_ETOOBIG, w->file, "the workflow has too many tasks", "at most 2^31 are run");
    w->lengths = calloc(total, sizeof *w->lengths);
    w->edges = calloc(htc_flow_edges(f) + 1, sizeof *w->edges);
    if (!w->lengths || !w->edges)
        return refuse(error, HTC_ENOMEM, w->file, "no memory for the workflow", "take a smaller one");
    for (uint32_t t = 0; t < htc_flow_count(f); t++) {
        const htc_flow_task *task = htc_flow_get(f, t);
        const htc_flow_edge *parents = NULL;
        size_t               waits = htc_flow_parents(f, t, &parents);
        int                  timed = task->builtin == HTC_FLOW_SLEEP || task->builtin == HTC_FLOW_SPIN;
        htc_ns               length = task->run ? task->run : timed ? task->amount : 0;
        if (!task->run && !timed && task->builtin == HTC_FLOW_PROGRAM) {
            char text[320];
            snprintf(text, sizeof text, "nobody says how long the task %.200s takes", task->name);
            return refuse(error, HTC_EINPUT, w->file, text, "give it run=TIME (doc/flows.md), a runtime (DAX) or runtimeInSeconds (WfCommons)");
        }
        for (size_t i = 0; i < waits; i++) /* only tasks with a count of 1 wait, and are waited for */
            w->edges[edges++] = (htc_sim_provision_edge){ (uint32_t)htc_flow_first(f, parents[i].task), (uint32_t)htc_flow_first(f, t) };
        for (uint64_t c = 0; c < (task->count ? task->count : 1); c++)
            w->lengths[n++] = length;
    }
    w->flow = (htc_sim_provision_flow){ .size = sizeof w->flow, .length = w->lengths, .edges = w->edges, .tasks = n, .n_edges = edges };
    return 1;
}

static int open_flow(dsp_work *w, htc_error *error)
{
    size_t    n = 0;
    char     *text = read_whole(w->file, &n);
    htc_flow *f = NULL;
    if (!text)
        return refuse(error, HTC_EINPUT, w->file, strerror(errno), "give the name of a workflow: text, JSON, DAX or WfCommons; a relative one is looked for beside the INI file");
    *error = (htc_error){ 0 };
    htc_status status = htc_flow_read(NULL, (htc_bytes){ text, n }, HTC_FLOW_AUTO, NULL, &f, error);
    free(text);
    if (status != HTC_OK) {
        char where[sizeof error->where];
        snprintf(where, sizeof where, "%.100s%s%.40s", w->file, error->where[0] ? ": " : "", error->where);
        if (error->line)
            snprintf(where, sizeof where, "%.140s:%u", w->file, (unsigned)error->line);
        memcpy(error->where, where, sizeof where);
        error->status = status;
        if (!error->text[0])
            snprintf(error->text, sizeof error->text, "%s", htc_strerror(status));
        return 0;
    }
    int good = take_flow(w, f, error);
    htc_flow_destroy(f);
    return good;
}

/* ---- all ---- */

static htc_status next_job(void *ctx, htc_sim_provision_job *job)
{
    dsp_work  *w = ctx;
    htc_status status = w->log.from ? next_of_log(w, job) : next_drawn(w, job);
    w->place->asked++;
    if (status == HTC_OK) /* so that another log is noticed; nobody tries to hide one */
        w->place->print = (w->place->print + job->arrival + job->length * 3 + job->estimate * 5 + job->nodes) * UINT64_C(0xd1342543de82ef95);
    return status;
}

int dsp_work_open(dsp_work *w, settings *s, uint64_t seed, htc_sim_provision_environment *e, htc_error *error)
{
    int mtc = settings_choice(s, in(s, w, "type")) == 1, of_log, flow;
    w->seed = seed;
    w->window = settings_span(s, in(s, w, "window"));
    w->log.per_node = settings_count(s, in(s, w, "per_node"));
    w->log.completed_alone = settings_choice(s, in(s, w, "status")) == 1;
    w->log.skip_bad = settings_choice(s, in(s, w, "skip_bad")) == 1;
    w->estimates = (int)settings_choice(s, in(s, w, "estimates"));
    of_log = settings_text(s, in(s, w, "trace"))[0] != '\0';
    flow = settings_text(s, in(s, w, "flow"))[0] != '\0';
    if (!settings_keep(s, in(s, w, "trace"), w->log.file, sizeof w->log.file, error) || !settings_keep(s, in(s, w, "flow"), w->file, sizeof w->file, error))
        return 0;
    if (of_log && flow)
        return refuse(error, HTC_ECONFIG, w->name, "an environment has a trace or a flow, and not both", "make two environments of it");
    if (mtc != flow)
        return refuse(error, HTC_ECONFIG, w->name, mtc ? "an environment of type mtc needs a flow" : "a flow needs an environment of type mtc",
                      mtc ? "flow = FILE: text, JSON, DAX or WfCommons" : "type = mtc");
    e->ctx = w;
    if (flow) {
        e->flows = &w->flow;
        e->n_flows = 1;
        return open_flow(w, error);
    }
    e->next_job = next_job;
    return of_log ? trace_open(&w->log, error) : open_drawn(w, s, error);
}

int dsp_work_again(dsp_work *w, htc_error *error)
{
    w->next = 0;
    w->at = 0;
    return !w->log.from || trace_open(&w->log, error);
}

int dsp_work_goes_on(dsp_work *w, htc_error *error)
{
    dsp_place             was = *w->place;
    htc_sim_provision_job job = { 0 };
    htc_status            status = HTC_OK;
    *w->place = (dsp_place){ 0 };
    while (w->place->asked < was.asked && status == HTC_OK)
        status = next_job(w, &job);
    if (w->place->asked == was.asked && w->place->print == was.print)
        return 1;
    return w->log.from ? refuse(error, HTC_EINPUT, w->log.file, "the log is not the one that the checkpoint was made with", "put that one back, or run the experiment again") :
                         refuse(error, HTC_ECORRUPT, w->name, "its jobs are not those of the checkpoint", "run the experiment again");
}

void dsp_work_close(dsp_work *w)
{
    trace_close(&w->log);
    htc_scale_destroy(w->draws);
    free(w->lengths);
    free(w->edges);
}
