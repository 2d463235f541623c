/* Agents and what their hosts do for them: processes that run for as long as the test says, outputs that stay on the
 * shared disk when the agent is gone. */
#include <string.h>

#include "sim/scenarios/flow_disk.h"
#include "sim/scenarios/system_private.h"

#define FLOW_RUNS 56 /* a worker's runs have numbers from 2^56 on: agent_flow.c */

typedef struct sys_process {
    uint64_t            run;
    htc_attempt         attempt;
    sys_run             how;
    sys_flow           *flow; /* whose task it is; NULL: a job's */
    htc_effect          call; /* RUN, until it is answered */
    uint32_t            slots; /* that it fills */
    int                 running, waiting; /* waiting: RUN was asked while every slot was filled */
    htc_ns              started;
    struct sys_process *next;
} sys_process;

typedef struct process_end { /* an end that is due, unless the process ends before */
    htc_sim_node *node;
    sys_agent    *a;
    uint64_t      incarnation, run;
    htc_status    status;
    uint32_t      signal;
} process_end;

static sys_process *process_of(sys_agent *a, uint64_t run)
{
    for (sys_process *p = a->processes; p; p = p->next)
        if (p->run == run)
            return p;
    return NULL;
}

static void start(sys_agent *a, sys_process *p);

/* Those that wait for a slot longest. */
static void start_waiting(sys_agent *a)
{
    for (sys_process *first = NULL;; first = NULL) {
        for (sys_process *p = a->processes; p; p = p->next)
            if (p->waiting && (!first || p->run < first->run))
                first = p;
        if (!first || (a->running && a->running + first->slots > a->slots)) /* one that was begun with more slots still runs, alone */
            return;
        start(a, first);
    }
}

static void take_back(sys_agent *a, sys_process *p)
{
    if (p->waiting)
        htc_sim_result(a->node, 0, &p->call, HTC_AGAIN, htc_bytes_of("not begun"));
    p->waiting = 0;
}

static void answer_run(sys_agent *a, sys_process *p, htc_status status, uint32_t number)
{
    sys        *s = a->s;
    htc_buf     b;
    htc_outcome o = { .status = status, .exit_code = p->how.exit_code, .signal = number };
    if (!p->running)
        return;
    p->running = 0;
    a->running -= p->slots;
    if (p->flow)
        htc__sys_flow_ends(p->flow);
    htc_ns span = htc_sim_now(s->w) - p->started;
    o.ended = htc_sim_wall(s->w);
    o.started = o.ended - span;
    o.cpu_ns = span;
    htc_buf_init(&b, NULL, 0);
    htc_outcome_write(&b, &o);
    htc_sim_result(a->node, 0, &p->call, HTC_OK, htc_buf_bytes(&b));
    htc_buf_free(&b);
    start_waiting(a);
}

static void process_ends(htc_sim *w, void *ctx)
{
    process_end *e = ctx;
    sys_process *p = htc_sim_incarnation(e->node) == e->incarnation ? process_of(e->a, e->run) : NULL;
    (void)w;
    if (p)
        answer_run(e->a, p, e->status, e->signal);
}

static void end_after(sys_agent *a, const sys_process *p, htc_ns delay, htc_status status, uint32_t number)
{
    process_end e = { a->node, a, htc_sim_incarnation(a->node), p->run, status, number };
    htc_sim_at(a->s->w, htc_sim_now(a->s->w) + delay, process_ends, &e, sizeof e);
}

/* The rest of STAGE_IN: whose task it is, and the task. */
static uint32_t slots_of(sys *s, htc_reader *r)
{
    htc_task *t = NULL;
    char      user[64];
    htc_get_str(r, user, sizeof user);
    (void)htc_get_u64(r); /* tasks of its job */
    (void)htc_get_u32(r); /* whose environment */
    htc_status status = htc_task_from_bytes(&s->env, htc_get_bytes(r), &t);
    uint32_t   slots = status == HTC_OK ? t->limits.cores : 1;
    if (status == HTC_ENOMEM)
        htc__sys_no_memory(s);
    htc_task_destroy(t);
    return slots;
}

/* It is a worker's: of a flow whose number the attempt has as its job's. */
static void enter_flow(sys_agent *a, sys_process *p)
{
    p->flow = htc__sys_flow_of(a->s, p->attempt.job);
    if (!p->flow)
        htc__sys_fail(a->s, "agent %llu runs task %llu of flow %llu, which there is not", (unsigned long long)a->id,
                      (unsigned long long)p->attempt.task, (unsigned long long)p->attempt.job);
    p->how.span /= 4;
    p->how.stage_out = HTC_OK; /* so that a task ends as it is to */
}

static int has_files(const sys_process *p)
{
    return p->flow && htc__sys_flow_files(p->flow);
}

static void stage_in(sys_agent *a, const htc_effect *effect, htc_reader *r, uint64_t run)
{
    sys         *s = a->s;
    sys_process *p = process_of(a, run);
    if (!p) {
        p = htc__sys_alloc(s, sizeof *p);
        if (!p)
            return;
        p->run = run;
        htc_read_attempt(r, &p->attempt);
        p->slots = slots_of(s, r);
        p->next = a->processes;
        a->processes = p;
        if (s->options.run)
            s->options.run(s, a->user, &p->attempt, &p->how);
        if (run >> FLOW_RUNS)
            enter_flow(a, p);
    }
    htc_status status = p->how.stage_in;
    p->how.stage_in = HTC_OK; /* a second try goes well */
    if (status == HTC_OK && has_files(p))
        status = htc__flow_disk_stage_in(a->disk, effect);
    htc_sim_result(a->node, s->options.stage_ns, effect, status, htc_bytes_of(status == HTC_OK ? NULL : "no luck"));
}

/* All that runs at this agent's site asks for no more than it has. */
static void check_memory(const sys_agent *a)
{
    sys     *s = a->s;
    uint64_t sum = 0, total = s->options.sites[a->site].memory;
    for (const sys_agent *o = s->agents; o; o = o->next)
        for (const sys_process *p = o->alive && o->site == a->site ? o->processes : NULL; p; p = p->next)
            sum += p->running ? htc__sys_task_memory(s, p->attempt.job, a->site) : 0;
    if (total && sum > total)
        htc__sys_fail(s, "tasks that ask for %llu bytes run at site %u, which has %llu", (unsigned long long)sum, (unsigned)a->site,
                 (unsigned long long)total);
}

/* A slot is one agent's: that it may fill, or that it still fills. */
static void check_slots(const sys_agent *a)
{
    sys     *s = a->s;
    uint32_t sum = 0, cores = s->options.sites[a->site].cores;
    for (const sys_agent *o = s->agents; o; o = o->next)
        if (o->alive && o->site == a->site)
            sum += o->slots > o->running ? o->slots : o->running;
    if (sum > cores)
        htc__sys_fail(s, "agents fill %u slots of site %u, which has %u", (unsigned)sum, (unsigned)a->site, (unsigned)cores);
}

static void set_slots(sys_agent *a, uint32_t slots)
{
    a->slots = slots;
    check_slots(a);
    start_waiting(a);
}

static void run(sys_agent *a, const htc_effect *effect, sys_process *p)
{
    p->call = *effect;
    p->waiting = 1;
    start_waiting(a);
}

static void start(sys_agent *a, sys_process *p)
{
    sys    *s = a->s;
    uint8_t bytes[8];
    htc_buf b;
    htc_buf_init(&b, NULL, sizeof bytes);
    htc_put_u64(&b, p->run);
    p->waiting = 0;
    p->running = 1;
    p->started = htc_sim_now(s->w);
    if (p->flow) {
        if (has_files(p))
            htc__flow_disk_run(a->disk, htc__sys_flow_files(p->flow), p->run);
        p->how.status = htc__sys_flow_begins(p->flow, a, p->attempt.task);
        p->how.exit_code = p->how.status == HTC_OK ? 0 : 3;
    } else {
        htc__sys_task_of(s, p->attempt.job, p->attempt.task)->runs++;
        htc__sys_check_begin(s, &p->attempt);
    }
    check_memory(a);
    a->running += p->slots;
    if (a->running > a->slots && a->running > p->slots)
        htc__sys_fail(s, "agent %llu fills %u slots", (unsigned long long)a->id, (unsigned)a->running);
    check_slots(a);
    htc_sim_event(a->node, 0, HTC_EVENT_STARTED, HTC_OK, htc_buf_bytes(&b));
    htc_buf_free(&b);
    end_after(a, p, p->how.span, p->how.status, 0);
}

static void stage_out(sys_agent *a, const htc_effect *effect, sys_process *p)
{
    htc_stored stored = { .outputs = { .files = p->attempt.task % 2, .bytes = p->attempt.task % 2 } }; /* of the others nothing is left */
    htc_buf    b;
    htc_status status = p->how.stage_out;
    p->how.stage_out = HTC_OK;
    htc_buf_init(&b, NULL, 0);
    if (status == HTC_OK && !p->flow && !htc__sys_has_place(a->s, p->attempt.job))
        status = HTC_ESTAGEOUT;
    htc_stored_write(&b, &stored);
    if (status == HTC_OK && !p->flow)
        htc__sys_output_stored(a->s, &p->attempt);
    if (status == HTC_OK && has_files(p))
        htc__flow_disk_stage_out(a->disk, htc__sys_flow_files(p->flow), p->run);
    htc_sim_result(a->node, a->s->options.stage_ns, effect, status,
                   status == HTC_OK ? htc_buf_bytes(&b) : htc_bytes_of("no luck"));
    htc_buf_free(&b);
}

static void clean(sys_agent *a, sys_process *p, int drop)
{
    sys_process **at = &a->processes;
    if (p->running || p->waiting)
        htc__sys_fail(a->s, "agent %llu cleans a running task", (unsigned long long)a->id);
    if (drop && !p->flow)
        htc__sys_output_dropped(a->s, &p->attempt);
    while (*at != p)
        at = &(*at)->next;
    *at = p->next;
    htc__free(&a->s->env, p, sizeof *p);
}

/* The store, or another agent. */
static void dial(sys_agent *a, const htc_effect *effect)
{
    sys               *s = a->s;
    char               address[64];
    unsigned long long id;
    htc_reader         r = htc_reader_of(effect->body);
    htc_buf            b;
    htc_get_str(&r, address, sizeof address);
    const sys_agent *other = sscanf(address, "agent:%llu", &id) == 1 ? htc__sys_agent_find(s, id) : NULL;
    htc_sim_node    *target = strcmp(address, "store") == 0 ? s->store : other ? other->node : NULL;
    uint32_t         peer = SYS_PEER_GATEWAY + ++a->last_peer;
    htc_status       status = target ? htc_sim_dial(a->node, peer, target, &(htc_sim_dial_options){ .size = sizeof(htc_sim_dial_options), .refused = HTC_EVENT_REFUSED }) : HTC_EUNSUPPORTED;
    htc_buf_init(&b, NULL, 0);
    htc_put_u32(&b, peer);
    htc_sim_result(a->node, 0, effect, status, status == HTC_OK ? htc_buf_bytes(&b) : htc_bytes_of("no such address"));
    htc_buf_free(&b);
    if (status != HTC_OK)
        htc__sys_fail(s, "agent %llu dials %s: %s", (unsigned long long)a->id, address, htc_status_name(status));
}

/* What a task of a flow has printed: it adds tasks. */
static void printed(sys_agent *a, const htc_effect *effect)
{
    htc_reader  r = htc_reader_of(effect->body);
    htc_attempt attempt;
    htc_buf     text, b;
    htc_read_attempt(&r, &attempt);
    const sys_flow *f = htc__sys_flow_of(a->s, attempt.job);
    htc_buf_init(&text, NULL, 0);
    htc_buf_init(&b, NULL, 0);
    if (f)
        htc__sys_flow_text(f, attempt.task, &text);
    else
        htc__sys_fail(a->s, "agent %llu reads what task %llu of job %llu has printed", (unsigned long long)a->id, (unsigned long long)attempt.task,
                      (unsigned long long)attempt.job);
    htc_put_bytes(&b, htc_buf_bytes(&text));
    htc_sim_result(a->node, a->s->options.stage_ns, effect, HTC_OK, htc_buf_bytes(&b));
    htc_buf_free(&text);
    htc_buf_free(&b);
}

static void hang_up(sys_agent *a, const htc_effect *effect)
{
    htc_reader r = htc_reader_of(effect->body);
    uint32_t   peer = htc_get_u32(&r);
    htc_status status = htc_sim_hang_up(a->node, peer);
    if (status != HTC_OK)
        htc__sys_fail(a->s, "agent %llu hangs up connection %u: %s", (unsigned long long)a->id, (unsigned)peer, htc_status_name(status));
}

static htc_status call(void *ctx, htc_sim_node *node, const htc_effect *effect)
{
    sys_agent   *a = ctx;
    htc_reader   r = htc_reader_of(effect->body);
    uint64_t     number = htc_get_u64(&r);
    sys_process *p = process_of(a, number);
    if (htc__flow_disk_call(a->disk, node, effect, a->s->options.stage_ns))
        return HTC_OK;
    if (effect->op == HTC_CALL_STAGE_IN) {
        stage_in(a, effect, &r, number);
        return HTC_OK;
    }
    if (effect->op == HTC_CALL_DIAL || effect->op == HTC_CALL_HANG_UP) {
        (effect->op == HTC_CALL_DIAL ? dial : hang_up)(a, effect);
        return HTC_OK;
    }
    if (effect->op == HTC_CALL_OUTPUT_READ) {
        printed(a, effect);
        return HTC_OK;
    }
    if (effect->op == HTC_CALL_SLOTS) {
        r = htc_reader_of(effect->body);
        set_slots(a, htc_get_u32(&r));
        return HTC_OK;
    }
    if (!p && effect->op == HTC_CALL_TAKE_BACK)
        return HTC_OK; /* while it is staged in, which takes no time that could be given up */
    if (!p) {
        htc__sys_fail(a->s, "agent %llu asks %s of run %llu, which is not staged", (unsigned long long)a->id,
                 htc_call_name(effect->op), (unsigned long long)number);
        return HTC_OK;
    }
    switch (effect->op) {
    case HTC_CALL_RUN:
        run(a, effect, p);
        break;
    case HTC_CALL_SIGNAL: {
        uint32_t   sig = htc_get_u32(&r);
        htc_status why = (htc_status)(int32_t)htc_get_u32(&r);
        if (p->waiting)
            take_back(a, p);
        else
        end_after(a, p, HTC_MS, why, sig); /* no task here ignores SIGTERM */
        break;
    }
    case HTC_CALL_TAKE_BACK:
        take_back(a, p);
        break;
    case HTC_CALL_STAGE_OUT:
        stage_out(a, effect, p);
        break;
    case HTC_CALL_CLEAN:
        if (has_files(p))
            htc__flow_disk_clean(a->disk, effect);
        clean(a, p, htc_get_u8(&r));
        break;
    default:
        htc__sys_fail(a->s, "an agent asks for %s", htc_call_name(effect->op));
    }
    return HTC_OK;
}

static htc_status boot(void *ctx, htc_sim_node *node)
{
    sys_agent        *a = ctx;
    htc_agent        *machine;
    htc_agent_options o = { .size = sizeof o,
                            .agent = a->id,
                            .peer = SYS_PEER_GATEWAY,
                            .slots = a->slots,
                            .node = "n0",
                            .memory = 1 << 30,
                            .cores = 4,
                            .retry_ns = a->s->options.gateway.heartbeat_ns,
                            .kill_after_ns = a->s->options.gateway.heartbeat_ns };
    char              name[32], address[32];
    snprintf(name, sizeof name, "site%u-n%u", (unsigned)a->site, (unsigned)a->slot);
    snprintf(address, sizeof address, "agent:%llu", (unsigned long long)a->id);
    o.node = name;
    o.store = "store";
    o.address = address;
    htc_status status = htc_agent_create(htc_sim_env(node), &o, &machine);
    if (status != HTC_OK)
        return status;
    htc_sim_install(node, htc_agent_ops(), machine);
    return htc_sim_dial(node, SYS_PEER_GATEWAY, a->s->gateway,
                        &(htc_sim_dial_options){ .size = sizeof(htc_sim_dial_options), .other = a->s->standby });
}

/* What its host calls it: of different lengths, and with nothing of its process in it. */
void htc__sys_agent_put_handle(htc_buf *b, const sys_agent *a)
{
    uint8_t form[24];
    size_t  n = 1 + a->id % sizeof form;
    for (size_t i = 0; i < n; i++)
        form[i] = (uint8_t)(a->id * 167 + i * 31);
    htc_put_bytes(b, (htc_bytes){ form, n });
}

int htc__sys_agent_is(const sys_agent *a, htc_bytes handle)
{
    htc_buf b;
    htc_buf_init(&b, NULL, 0);
    htc__sys_agent_put_handle(&b, a);
    htc_reader r = htc_reader_of(htc_buf_bytes(&b));
    int        same = htc_bytes_equal(htc_get_bytes(&r), handle);
    htc_buf_free(&b);
    return same;
}

/* The host of the gateway that started or watches this process says how it ended. */
void htc__sys_agent_tell_exit(sys_agent *a)
{
    htc_buf b;
    if (!a->watched || a->watcher != htc_sim_incarnation(a->watched_by) || !htc_sim_up(a->watched_by))
        return;
    htc_buf_init(&b, NULL, 0);
    htc_put_u64(&b, a->id);
    htc__sys_agent_put_handle(&b, a);
    htc_put_str(&b, "");
    htc_sim_event(a->watched_by, HTC_MS, HTC_EVENT_AGENT_EXIT, HTC_OK, htc_buf_bytes(&b));
    htc_buf_free(&b);
}

void htc__sys_agent_stop_task(sys_agent *a)
{
    uint8_t bytes[8];
    htc_buf b;
    for (const sys_process *p = a->processes; p; p = p->next)
        if (p->running) {
            if (p->flow)
                htc__sys_flow_stopped(p->flow);
            htc_buf_init(&b, NULL, sizeof bytes);
            htc_put_u64(&b, p->run);
            htc_sim_event(a->node, HTC_MS, HTC_EVENT_TASK_STOPPED, HTC_OK, htc_buf_bytes(&b));
            htc_buf_free(&b);
        }
}

static void ended(void *ctx, htc_sim_node *node, htc_status status, int crashed)
{
    sys_agent *a = ctx;
    (void)node;
    (void)status;
    if (!a->alive)
        return;
    a->alive = 0;
    a->s->agents_alive--;
    for (sys_process *p = a->processes, *next; p; p = next) { /* its processes die with it */
        next = p->next;
        if (p->running && p->flow)
            htc__sys_flow_ends(p->flow);
        htc__free(&a->s->env, p, sizeof *p);
    }
    a->processes = NULL;
    a->running = 0;
    htc__flow_disk_crash(a->disk);
    if (crashed && htc_rng_below(&a->s->rng_launch, 3) == 0)
        htc__flow_disk_lose(a->disk, &a->s->rng_launch);
    htc__sys_agent_tell_exit(a);
}

sys_agent *htc__sys_agent_find(sys *s, uint64_t id)
{
    for (sys_agent *a = s->agents; a; a = a->next)
        if (a->id == id)
            return a;
    return NULL;
}

static void appear(htc_sim *w, void *ctx)
{
    sys_agent *a = ctx;
    (void)w;
    if (a->alive)
        htc_sim_boot(a->node);
}

/* That of the agent before it of this user in its slot. */
static void take_disk(sys_agent *a)
{
    sys *s = a->s;
    for (sys_agent *before = a->next; before && !a->disk; before = before->next) {
        if (before->site != a->site || before->slot != a->slot || strcmp(before->user, a->user) != 0)
            continue;
        a->disk = before->disk;
        before->disk = NULL;
    }
    if (!a->disk && !(a->disk = htc__flow_disk_create(s->w, &s->env)))
        htc__sys_no_memory(s);
}

sys_agent *htc__sys_agent_launch(sys *s, htc_sim_node *by, uint64_t id, uint32_t site, uint32_t slot, uint32_t slots, const char *user)
{
    static const htc_sim_host host = { .size = sizeof host, .boot = boot, .call = call, .ended = ended };
    sys_agent                *a = htc__sys_alloc(s, sizeof *a);
    char                      name[32];
    if (!a)
        return NULL;
    for (const sys_agent *other = s->agents; other; other = other->next) {
        if (other->alive && other->site == site && other->slot == slot)
            htc__sys_fail(s, "slot %u of site %u is given to agent %llu while agent %llu lives in it", (unsigned)slot,
                     (unsigned)site, (unsigned long long)id, (unsigned long long)other->id);
        if (other->id == id)
            htc__sys_fail(s, "agent %llu is launched twice", (unsigned long long)id);
    }
    *a = (sys_agent){ .s = s,
                      .id = id,
                      .pid = ++s->last_pid,
                      .site = site,
                      .slot = slot,
                      .slots = slots,
                      .alive = 1,
                      .watched = 1,
                      .watcher = htc_sim_incarnation(by),
                      .watched_by = by,
                      .next = s->agents };
    snprintf(a->user, sizeof a->user, "%s", user);
    take_disk(a);
    snprintf(name, sizeof name, "agent%llu", (unsigned long long)id);
    s->agents = a;
    check_slots(a);
    s->agents_alive++;
    s->agents_launched++;
    a->node = htc__sys_node(s, name, &host, a, 0);
    htc_sim_set_info(a->node, &(htc_peer_info){ .transport = HTC_TRANSPORT_UNIX, .uid = SYS_UID, .pid = a->pid });
    htc__sys_after(s, s->options.launch_ns + htc_rng_below(&s->rng_launch, s->options.launch_jitter_ns + 1), appear, a);
    return a;
}

void htc__sys_agents_close(sys *s)
{
    for (sys_agent *a = s->agents, *next; a; a = next) {
        next = a->next;
        for (sys_process *p = a->processes, *q; p; p = q) {
            q = p->next;
            htc__free(&s->env, p, sizeof *p);
        }
        htc__flow_disk_destroy(a->disk);
        htc__free(&s->env, a, sizeof *a);
    }
    s->agents = NULL;
}
