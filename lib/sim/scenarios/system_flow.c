/* Flows among the jobs. A user writes one into the store, submits its seats as a job, and lets it run when both are there; agents with a seat
 * are workers. What becomes of each task is drawn, and flow_audit.c says whether it did. */
#include "sim/scenarios/flow_audit.h"
#include "sim/scenarios/flow_submit.h"
#include "sim/scenarios/system_private.h"

#define FIRST_FLOW    (UINT64_C(0xffffffff) << 32 | 1) /* of a user without a uid; no job has such a number */
#define GRAPH_TASKS   60
#define BAG_TASKS     120
#define SEATS_MAX     4
#define LOOK_EVERY    (50 * HTC_MS)
#define PEER_STORE    1

struct sys_flow {
    sys             *s;
    uint64_t         number;
    htc_flow        *given;
    flow_audit      *audit;
    htc_sim_node    *node; /* whoever submits it */
    flow_submit     *submit;
    flow_places      places;
    int              files;          /* its tasks read what others make */
    uint32_t         tries, running; /* running: its tasks' processes */
    sys_job          seats;  /* as they are to be submitted */
    sys_job         *job;    /* NULL: not yet */
    struct sys_flow *next;
};

static htc_status boot(void *ctx, htc_sim_node *node)
{
    sys_flow           *f = ctx;
    flow_submit_options o = { .given = f->given, .number = f->number, .workers = (uint32_t)f->seats.count, .tries = f->tries, .user = f->seats.user, .places = f->places,
                              .peer = PEER_STORE, .client_id = htc_rng_next(&f->s->rng_random) | 1, .held = 1 };
    htc_status          status = htc__flow_submit_create(htc_sim_env(node), &o, &f->submit);
    if (status == HTC_OK)
        status = htc_sim_install(node, htc__flow_submit_ops(), f->submit);
    return status == HTC_OK ? htc_sim_dial(node, PEER_STORE, f->s->store, NULL) : status;
}

static void wake(const sys_flow *f)
{
    htc_sim_event(f->node, 0, 0, HTC_OK, htc_bytes_of(NULL));
}

/* Its records, then its seats, then it may run. */
static void go_on(htc_sim *w, void *ctx)
{
    sys_flow *f = ctx;
    (void)w;
    if (!f->job && htc__flow_submit_stored(f->submit))
        f->job = htc__sys_submit_as(f->s, &f->seats);
    if (f->job && f->job->acknowledged) {
        htc__flow_submit_start(f->submit);
        wake(f);
        return;
    }
    htc__sys_after(f->s, LOOK_EVERY, go_on, f);
}

void htc__sys_flow_add(sys *s, const char *user, const char *name, htc_rng *rng)
{
    static const htc_sim_host host = { .size = sizeof host, .boot = boot };
    sys_flow                 *f = htc__sys_alloc(s, sizeof *f);
    int                       graph = htc_rng_below(rng, 3) != 0;
    uint64_t                  tasks = 1 + htc_rng_below(rng, graph ? GRAPH_TASKS : BAG_TASKS);
    if (!f)
        return;
    *f = (sys_flow){ .s = s, .number = FIRST_FLOW + (s->flows ? 1 : 0), .tries = 1 + (uint32_t)htc_rng_below(rng, 3), .next = s->flows };
    f->seats = (sys_job){ .count = 1 + htc_rng_below(rng, SEATS_MAX), .flow = f };
    f->seats.max_running = htc_rng_below(rng, 3) ? 0 : 1 + htc_rng_below(rng, 2);
    f->files = graph && htc_rng_below(rng, 2);
    f->places.rule = (uint8_t)htc_rng_below(rng, 4);
    f->places.bytes_per_s = 1000 + htc_rng_below(rng, 1000000);
    int adds = graph && htc_rng_below(rng, 3) == 0 ? 1 + (int)htc_rng_below(rng, 2) : 0;
    snprintf(f->seats.user, sizeof f->seats.user, "%s", user);
    snprintf(f->seats.name, sizeof f->seats.name, "%s", name);
    s->flows = f;
    if (htc__flow_draw(&s->env, rng, tasks, graph, htc_rng_below(rng, 6), f->files ? FLOW_FILES : FLOW_COMMANDS, adds, &f->given) != HTC_OK ||
        htc__flow_audit_create(&s->env, s->w, f->given, f->number, f->tries, &f->audit) != HTC_OK) {
        htc__sys_no_memory(s);
        return;
    }
    f->audit->few = f->audit->commands = 1; /* no agent here calls functions */
    if (s->options.sim.seed % 4) /* with the faults */
        htc__flow_audit_fates(f->audit, rng);
    f->node = htc__sys_node(s, name, &host, f, 0);
    if (!f->node || htc_sim_boot(f->node) != HTC_OK)
        htc__sys_no_memory(s);
    else
        htc__sys_after(s, LOOK_EVERY, go_on, f);
}

sys_flow *htc__sys_flow_of(const sys *s, uint64_t number)
{
    sys_flow *f = s->flows;
    while (f && f->number != number)
        f = f->next;
    return f;
}

struct flow_audit *htc__sys_flow_files(const sys_flow *f)
{
    return f->files ? f->audit : NULL;
}

uint64_t htc__sys_flow_number(const sys_flow *f)
{
    return f->number;
}

void htc__sys_flow_text(const sys_flow *f, uint64_t task, htc_buf *b)
{
    htc__flow_audit_text(f->audit, task, b);
}

uint64_t htc__sys_flow_tasks(const sys *s)
{
    uint64_t n = 0;
    for (const sys_flow *f = s->flows; f; f = f->next)
        n += f->audit ? f->audit->tasks : 0;
    return n;
}

/* ---- what holds while it runs ---- */

/* Its tasks run for its user, in no more slots than it has seats: without faults the durable records know of all that are taken. */
htc_status htc__sys_flow_begins(sys_flow *f, const sys_agent *a, uint64_t task)
{
    sys *s = f->s;
    if (strcmp(a->user, f->seats.user) != 0)
        htc__sys_fail(s, "a task of flow %llu, which is %s's, runs at an agent of %s", (unsigned long long)f->number, f->seats.user, a->user);
    f->running++;
    if (s->options.sim.seed % 4 == 0 && f->job && f->running > htc__sys_leased(s, f->job->stored_id))
        htc__sys_fail(s, "%u tasks of flow %llu run in %llu seats", (unsigned)f->running, (unsigned long long)f->number,
                      (unsigned long long)htc__sys_leased(s, f->job->stored_id));
    return htc__flow_audit_begins(f->audit, task);
}

void htc__sys_flow_ends(sys_flow *f)
{
    f->running--;
}

void htc__sys_flow_stopped(sys_flow *f)
{
    f->audit->stopped = 1;
}

void htc__sys_flows_stored(sys *s, htc_bytes batch)
{
    for (sys_flow *f = s->flows; f; f = f->next)
        if (f->audit && htc__flow_audit_batch(f->audit, batch) < 0)
            htc__sys_no_memory(s);
}

void htc__sys_flow_seat_done(const sys_flow *f, uint64_t job, uint64_t seat)
{
    if (!f->audit->ended)
        htc__sys_fail(f->s, "%llu.%llu, a seat, is done, and flow %llu has not ended", (unsigned long long)job, (unsigned long long)seat,
                      (unsigned long long)f->number);
}

int htc__sys_flow_seats_fail(const sys_flow *f)
{
    return f->audit->ended && f->audit->counts.failed + f->audit->counts.cancelled > 0;
}

void htc__sys_flow_cancel_some(sys *s, htc_rng *rng)
{
    for (sys_flow *f = s->flows; f; f = f->next)
        if (f->submit && htc__flow_submit_done(f->submit) && !f->audit->ended && htc_rng_below(rng, 2)) {
            uint64_t from = htc_rng_below(rng, f->audit->tasks);
            htc__flow_submit_cancel(f->submit, (ledger_span){ from, from + 1 + htc_rng_below(rng, f->audit->tasks - from) });
            wake(f);
            return;
        }
}

/* ---- the end ---- */

int htc__sys_flows_submitted(const sys *s)
{
    for (const sys_flow *f = s->flows; f; f = f->next)
        if (!f->job)
            return 0;
    return 1;
}

/* One whose seats were cancelled ends if one of them was taken then. */
void htc__sys_flows_check(sys *s)
{
    for (sys_flow *f = s->flows; f; f = f->next) {
        if (f->audit->ended)
            htc__flow_audit_end(f->audit);
        else if (!f->job->cancelled)
            htc__sys_fail(s, "flow %llu has not ended", (unsigned long long)f->number);
        if (f->audit->ended && s->options.sim.seed % 4 == 0)
            htc__flow_audit_runs(f->audit);
    }
}

void htc__sys_flows_free(sys *s)
{
    while (s->flows) {
        sys_flow *f = s->flows;
        s->flows = f->next;
        htc__flow_audit_destroy(f->audit);
        htc_flow_destroy(f->given);
        htc__free(&s->env, f, sizeof *f);
    }
}
