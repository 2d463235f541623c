/* Agents and what their hosts do for them: processes that run for as long as the test says, outputs that stay on the
 * shared disk when the agent is gone. */
#include <string.h>

#include "system.h"

typedef struct sys_process {
    uint64_t            run;
    htc_attempt         attempt;
    sys_run             how;
    htc_effect          call; /* RUN, until it is answered */
    int                 running;
    htc_ns              started;
    struct sys_process *next;
} sys_process;

typedef struct process_end { /* an end that is due, unless the process ends before */
    world_node *node;
    sys_agent  *a;
    uint64_t    incarnation, run;
    htc_status  status;
    uint32_t    signal;
} process_end;

static sys_process *process_of(sys_agent *a, uint64_t run)
{
    for (sys_process *p = a->processes; p; p = p->next)
        if (p->run == run)
            return p;
    return NULL;
}

static void answer_run(sys_agent *a, sys_process *p, htc_status status, uint32_t number)
{
    sys        *s = a->s;
    htc_buf     b;
    htc_outcome o = { .status = status, .exit_code = p->how.exit_code, .signal = number };
    if (!p->running)
        return;
    p->running = 0;
    a->running--;
    htc_ns span = world_now(s->w) - p->started;
    o.ended = world_wall(s->w);
    o.started = o.ended - span;
    o.cpu_ns = span;
    htc_buf_init(&b, NULL, 0);
    htc_outcome_write(&b, &o);
    world_result(a->node, 0, &p->call, HTC_OK, htc_buf_bytes(&b));
    htc_buf_free(&b);
}

static void process_ends(world *w, void *ctx)
{
    process_end *e = ctx;
    sys_process *p = e->node->incarnation == e->incarnation ? process_of(e->a, e->run) : NULL;
    (void)w;
    if (p)
        answer_run(e->a, p, e->status, e->signal);
}

static void end_after(sys_agent *a, const sys_process *p, htc_ns delay, htc_status status, uint32_t number)
{
    process_end *e = malloc(sizeof *e);
    if (!e)
        abort();
    *e = (process_end){ a->node, a, a->node->incarnation, p->run, status, number };
    world_at_taken(a->s->w, world_now(a->s->w) + delay, process_ends, e);
}

static void stage_in(sys_agent *a, const htc_effect *effect, htc_reader *r, uint64_t run)
{
    sys         *s = a->s;
    sys_process *p = process_of(a, run);
    if (!p) {
        p = calloc(1, sizeof *p);
        if (!p)
            abort();
        p->run = run;
        htc_read_attempt(r, &p->attempt);
        if (strcmp(a->user, "") == 0)
            abort();
        p->next = a->processes;
        a->processes = p;
        if (s->options.run)
            s->options.run(s, a->user, &p->attempt, &p->how);
    }
    htc_status status = p->how.stage_in;
    p->how.stage_in = HTC_OK; /* a second try goes well */
    world_result(a->node, s->options.stage_ns, effect, status, htc_bytes_of(status == HTC_OK ? NULL : "no luck"));
}

static void run(sys_agent *a, const htc_effect *effect, sys_process *p)
{
    sys    *s = a->s;
    uint8_t bytes[8];
    htc_buf b;
    htc_buf_init(&b, NULL, sizeof bytes);
    htc_put_u64(&b, p->run);
    p->call = *effect;
    p->running = 1;
    p->started = world_now(s->w);
    sys_task_of(s, p->attempt.job, p->attempt.task)->runs++;
    if (++a->running > 1)
        world_fail(s->w, "agent %llu runs two tasks at once", (unsigned long long)a->id);
    world_event(a->node, 0, HTC_EVENT_STARTED, HTC_OK, htc_buf_bytes(&b));
    htc_buf_free(&b);
    end_after(a, p, p->how.span, p->how.status, 0);
}

static void stage_out(sys_agent *a, const htc_effect *effect, sys_process *p)
{
    htc_output_file file = { .name = "stdout", .size = p->attempt.task };
    htc_buf         b;
    htc_status      status = p->how.stage_out;
    p->how.stage_out = HTC_OK;
    htc_buf_init(&b, NULL, 0);
    htc_write_output_files(&b, &file, 1);
    if (status == HTC_OK)
        sys_output_stored(a->s, &p->attempt);
    world_result(a->node, a->s->options.stage_ns, effect, status,
                 status == HTC_OK ? htc_buf_bytes(&b) : htc_bytes_of("no luck"));
    htc_buf_free(&b);
}

static void clean(sys_agent *a, sys_process *p, int drop)
{
    sys_process **at = &a->processes;
    if (p->running)
        world_fail(a->s->w, "agent %llu cleans a running task", (unsigned long long)a->id);
    if (drop)
        sys_output_dropped(a->s, &p->attempt);
    while (*at != p)
        at = &(*at)->next;
    *at = p->next;
    free(p);
}

static void call(world_node *node, const htc_effect *effect)
{
    sys_agent   *a = node->ctx;
    htc_reader   r = htc_reader_of(effect->body);
    uint64_t     number = htc_get_u64(&r);
    sys_process *p = process_of(a, number);
    if (effect->op == HTC_CALL_STAGE_IN) {
        stage_in(a, effect, &r, number);
        return;
    }
    if (!p) {
        world_fail(a->s->w, "agent %llu asks %s of run %llu, which is not staged", (unsigned long long)a->id,
                   htc_call_name(effect->op), (unsigned long long)number);
        return;
    }
    switch (effect->op) {
    case HTC_CALL_RUN:
        run(a, effect, p);
        break;
    case HTC_CALL_SIGNAL: {
        uint32_t   sig = htc_get_u32(&r);
        htc_status why = (htc_status)(int32_t)htc_get_u32(&r);
        end_after(a, p, HTC_MS, why, sig); /* no task here ignores SIGTERM */
        break;
    }
    case HTC_CALL_STAGE_OUT:
        stage_out(a, effect, p);
        break;
    case HTC_CALL_CLEAN:
        clean(a, p, htc_get_u8(&r));
        break;
    default:
        world_fail(a->s->w, "an agent asks for %s", htc_call_name(effect->op));
    }
}

static void boot(world_node *node)
{
    sys_agent        *a = node->ctx;
    htc_agent        *machine;
    htc_agent_options o = { .size = sizeof o,
                            .agent = a->id,
                            .peer = SYS_PEER_GATEWAY,
                            .slots = 1,
                            .node = "n0",
                            .memory = 1 << 30,
                            .cores = 4,
                            .retry_ns = a->s->options.gateway.heartbeat_ns,
                            .kill_after_ns = a->s->options.gateway.heartbeat_ns };
    char              name[32];
    snprintf(name, sizeof name, "site%u-n%u", (unsigned)a->site, (unsigned)a->slot);
    o.node = name;
    if (htc_agent_create(&node->env, &o, &machine) != HTC_OK)
        abort();
    world_install(node, htc_agent_ops(), machine);
    world_dial(node, SYS_PEER_GATEWAY, a->s->gateway);
}

/* The host of the gateway that started or watches this process says how it ended. */
void sys_agent_tell_exit(sys_agent *a)
{
    htc_buf b;
    if (!a->watched || a->watcher != a->s->gateway->incarnation || !world_up(a->s->gateway))
        return;
    htc_buf_init(&b, NULL, 0);
    htc_put_u64(&b, a->id);
    htc_put_u32(&b, a->pid);
    htc_put_u32(&b, UINT32_MAX);
    world_event(a->s->gateway, HTC_MS, HTC_EVENT_AGENT_EXIT, HTC_OK, htc_buf_bytes(&b));
    htc_buf_free(&b);
}

void sys_agent_stop_task(sys_agent *a)
{
    uint8_t bytes[8];
    htc_buf b;
    for (const sys_process *p = a->processes; p; p = p->next)
        if (p->running) {
            htc_buf_init(&b, NULL, sizeof bytes);
            htc_put_u64(&b, p->run);
            world_event(a->node, HTC_MS, HTC_EVENT_TASK_STOPPED, HTC_OK, htc_buf_bytes(&b));
            htc_buf_free(&b);
        }
}

static void ended(world_node *node, htc_status status, int crashed)
{
    sys_agent *a = node->ctx;
    (void)status;
    (void)crashed;
    if (!a->alive)
        return;
    a->alive = 0;
    a->s->agents_alive--;
    for (sys_process *p = a->processes, *next; p; p = next) { /* its processes die with it */
        next = p->next;
        free(p);
    }
    a->processes = NULL;
    a->running = 0;
    sys_agent_tell_exit(a);
}

sys_agent *sys_agent_find(sys *s, uint64_t id)
{
    for (sys_agent *a = s->agents; a; a = a->next)
        if (a->id == id)
            return a;
    return NULL;
}

static void appear(world *w, void *ctx)
{
    sys_agent *a = ctx;
    (void)w;
    if (a->alive)
        world_boot(a->node);
}

sys_agent *sys_agent_launch(sys *s, uint64_t id, uint32_t site, uint32_t slot, const char *user)
{
    static const world_host host = { .boot = boot, .call = call, .ended = ended };
    sys_agent              *a = calloc(1, sizeof *a);
    char                    name[32];
    if (!a)
        abort();
    for (const sys_agent *other = s->agents; other; other = other->next) {
        if (other->alive && other->site == site && other->slot == slot)
            world_fail(s->w, "slot %u of site %u is given to agent %llu while agent %llu lives in it", (unsigned)slot,
                       (unsigned)site, (unsigned long long)id, (unsigned long long)other->id);
        if (other->id == id)
            world_fail(s->w, "agent %llu is launched twice", (unsigned long long)id);
    }
    *a = (sys_agent){ .s = s,
                      .id = id,
                      .pid = ++s->last_pid,
                      .site = site,
                      .slot = slot,
                      .alive = 1,
                      .watched = 1,
                      .watcher = s->gateway->incarnation,
                      .next = s->agents };
    snprintf(a->user, sizeof a->user, "%s", user);
    snprintf(name, sizeof name, "agent%llu", (unsigned long long)id);
    s->agents = a;
    s->agents_alive++;
    s->agents_launched++;
    a->node = world_add(s->w, name, &host, a);
    a->node->info.pid = a->pid;
    world_at(s->w,
             world_now(s->w) + s->options.launch_ns + htc_rng_below(&s->rng_launch, s->options.launch_jitter_ns + 1),
             appear, a);
    return a;
}

void sys_agents_close(sys *s)
{
    for (sys_agent *a = s->agents, *next; a; a = next) {
        next = a->next;
        for (sys_process *p = a->processes, *q; p; p = q) {
            q = p->next;
            free(p);
        }
        free(a);
    }
    s->agents = NULL;
}
