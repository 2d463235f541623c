/* One seed of a whole system: messages lost, doubled, delayed, out of order; connections broken;
 * agents, gateway and store killed and stopped; tasks that fail, nodes that are full, launches that do not work.
 *
 * After every event: no result is committed twice or without its outputs, no slot is held by two living agents, the
 * books add up, no slot is free for longer than 50 ms while somebody who could use it waits (as far as the gateway
 * knows). In the end, when the faults have stopped: every task of every accepted job has exactly one committed result,
 * every agent has left, no task has begun before the jobs that its job waits for had ended as they should, what could never run is
 * cancelled, of jobs that were removed nothing is left, and users are told exactly the run time that is stored. The same seed gives the same trace.
 */
#include <string.h>

#include "htcsched/sim_system.h"
#include "sim/scenarios/system_private.h"

typedef struct plan {
    htc_rng  rng;
    htc_ns   trouble_gap, trouble_end;
    int      crashes, pauses, cancels;
    uint32_t dice; /* troubles to draw from */
    uint32_t fail_ppm;
} plan;

static uint32_t draw(htc_rng *rng, uint32_t from, uint32_t to)
{
    return from + (uint32_t)htc_rng_below(rng, to - from + 1);
}

/* In half of all cases 0. One draw behind the other, here and everywhere: in what order operands are computed is the compiler's affair, and the same
 * seed is the same run. */
static uint32_t draw_at_times(htc_rng *rng, uint32_t from, uint32_t to)
{
    uint32_t is = draw(rng, 0, 1);
    return is * draw(rng, from, to);
}

/* How an attempt goes follows from the seed and its numbers alone, not from when it runs. */
static void run_task(sys *s, const char *user, const htc_attempt *a, sys_run *run)
{
    const plan *p = s->options.ctx;
    uint64_t    words[4] = { s->options.sim.seed, a->job, a->task, a->attempt };
    htc_rng     rng = { htc_hash64((htc_bytes){ words, sizeof words }, 0) };
    (void)user;
    run->span = htc_rng_below(&rng, 4) ? htc_rng_below(&rng, 50 * HTC_MS) : htc_rng_below(&rng, 2 * HTC_SECOND);
    run->status = HTC_OK;
    if (htc_rng_below(&rng, 1000000) < p->fail_ppm) {
        run->status = htc_rng_below(&rng, 2) ? HTC_EEXIT : HTC_EOOM;
        run->exit_code = 3;
    }
    if (htc_rng_below(&rng, 1000000) < p->fail_ppm / 4)
        run->stage_in = htc_rng_below(&rng, 2) ? HTC_ETIMEDOUT : HTC_ENOSPC;
    if (htc_rng_below(&rng, 1000000) < p->fail_ppm / 4)
        run->stage_out = htc_rng_below(&rng, 2) ? HTC_EBUSY : HTC_ENOSPC;
}

static void boot_again(htc_sim *w, void *ctx)
{
    (void)w;
    htc_sim_boot(ctx);
}

static sys_agent *some_agent(sys *s, htc_rng *rng)
{
    uint64_t n = s->agents_alive ? htc_rng_below(rng, s->agents_alive) : 0;
    for (sys_agent *a = s->agents; a; a = a->next)
        if (a->alive && n-- == 0)
            return htc_sim_up(a->node) ? a : NULL;
    return NULL;
}

static void crash(sys *s, htc_sim_node *node, htc_rng *rng)
{
    static const htc_ns longest[] = { 5 * HTC_MS, 200 * HTC_MS, 5 * HTC_SECOND };
    if (!htc_sim_up(node))
        return;
    htc_sim_crash(node);
    htc__sys_after(s, htc_rng_below(rng, longest[htc_rng_below(rng, 3)]), boot_again, node);
}

static void stop_for_a_while(sys *s, htc_sim_node *node, htc_rng *rng)
{
    htc_ns span = htc_rng_below(rng, htc_rng_below(rng, 3) ? HTC_SECOND : 8 * HTC_SECOND);
    htc__sys_note(s, "%s is stopped for %.3f s", htc_sim_name(node), (double)span / 1e9);
    htc_sim_pause(node, span);
    if (htc__sys_is_gateway(s, node) || node == s->store) {
        s->disturbed_at = htc_sim_now(s->w);
        s->idle_since = HTC_NEVER;
    }
}

/* The host of the gateway sees the stopped state of its child. */
static void stop_and_tell(sys *s, sys_agent *a, htc_rng *rng)
{
    htc_buf b;
    stop_for_a_while(s, a->node, rng);
    if (!htc_sim_up(a->watched_by) || a->watcher != htc_sim_incarnation(a->watched_by))
        return;
    htc_buf_init(&b, NULL, 0);
    htc_put_u64(&b, a->id);
    htc__sys_agent_put_handle(&b, a);
    htc_sim_event(a->watched_by, HTC_MS, HTC_EVENT_AGENT_STOPPED, HTC_OK, htc_buf_bytes(&b));
    htc_buf_free(&b);
}

static void cancel_some(sys *s, htc_rng *rng)
{
    for (sys_job *j = s->jobs; j; j = j->next)
        if (j->acknowledged && !j->cancelled && !j->finished && htc_rng_below(rng, 2)) {
            htc__sys_cancel(j);
            return;
        }
}

static void remove_some(sys *s, htc_rng *rng)
{
    for (sys_job *j = s->jobs; j; j = j->next)
        /* Who does not know yet that it was accepted submits it again, and would have another one behind the removal. */
        if (j->acknowledged && j->finished && !j->removing && htc_rng_below(rng, 2)) {
            htc__sys_remove(j);
            return;
        }
}

static void hold_messages(sys *s, const sys_agent *a, const sys_agent *other, htc_rng *rng)
{
    htc_sim_node *from = draw(rng, 0, 1) ? other->node : s->store;
    htc_sim_clog(a->node, from, htc_rng_below(rng, 2 * HTC_SECOND));
}

/* What workers do among themselves and with the store, and clocks, by which they hold their leases. */
static void trouble_of_flows(sys *s, plan *p, const sys_agent *a, uint32_t what)
{
    const sys_agent *other = some_agent(s, &p->rng);
    htc_sim_node    *some[] = { s->store, htc__sys_some_gateway(s, &p->rng), a ? a->node : s->store };
    htc_sim_node    *node = some[draw(&p->rng, 0, 2)];
    if (what == 15 && a)
        htc_sim_break(a->node, s->store);
    else if (what == 16 && a && other)
        htc_sim_break(a->node, other->node);
    else if (what == 17 && a && other)
        hold_messages(s, a, other, &p->rng);
    else if (what == 18 && p->pauses)
        htc_sim_jump(node, (int64_t)htc_rng_below(&p->rng, 20 * HTC_SECOND) - (int64_t)(10 * HTC_SECOND));
    else if (what == 19 && p->pauses)
        htc_sim_drift(node, (int32_t)htc_rng_below(&p->rng, 2 * SYS_DRIFT_PPM) - SYS_DRIFT_PPM);
    else if (what == 20 && p->cancels)
        htc__sys_flow_cancel_some(s, &p->rng);
}

static void unblock(htc_sim *w, void *ctx)
{
    (void)ctx;
    htc_sim_heal(w, NULL); /* of whomever: nobody else cuts links */
}

static htc_sim_node *some_member(const sys *s, htc_rng *rng)
{
    return s->members ? htc__sys_member(s, draw(rng, 0, SYS_MEMBERS - 1)) : s->store;
}

/* One of several members is stopped, killed or cut off, one way or both, or a proxy is killed or loses a member; each for longer than a lease. */
static void trouble_of_members(sys *s, plan *p)
{
    htc_sim_node *member = some_member(s, &p->rng), *door = htc__sys_door(s, htc__sys_some_gateway(s, &p->rng));
    htc_ns        span = htc_rng_below(&p->rng, 3 * s->options.gateway.lease_ns + HTC_SECOND);
    uint32_t      what = draw(&p->rng, 0, 7), ways = draw(&p->rng, HTC_SIM_BOTH, HTC_SIM_IN);
    if (what == 0 && p->pauses) {
        htc__sys_note(s, "%s is stopped for %.3f s", htc_sim_name(member), (double)span / 1e9);
        htc_sim_pause(member, span);
    } else if (what <= 2 && p->crashes) {
        crash(s, member, &p->rng);
    } else if (what <= 4) {
        htc_sim_partition(s->w, htc_sim_name(member), &member, 1, ways);
        htc__sys_after(s, span, unblock, s);
    } else if (what == 5 && p->crashes) {
        crash(s, door, &p->rng);
    } else if (what == 6) {
        htc_sim_break(door, member);
    } else {
        htc_sim_clog(door, member, span);
        if (draw(&p->rng, 0, 1))
            htc_sim_clog(member, door, span);
    }
}

/* From all members: none has heard of it, or it hears of none. */
static void cut_off(sys *s, htc_sim_node *gateway, plan *p)
{
    htc_sim_node *nodes[] = { gateway, htc__sys_door(s, gateway) };
    htc_sim_partition(s->w, htc_sim_name(gateway), nodes, 2, draw(&p->rng, HTC_SIM_BOTH, HTC_SIM_IN));
}

/* Stopped, cut off from the store, or with what it has said to the store on its way, for longer than its lease. */
static void trouble_of_gateways(sys *s, plan *p)
{
    htc_sim_node *gateway = htc__sys_some_gateway(s, &p->rng), *door = htc__sys_door(s, gateway);
    htc_ns        span = htc_rng_below(&p->rng, 3 * s->options.gateway.lease_ns + HTC_SECOND);
    uint32_t      what = draw(&p->rng, 0, 5);
    if (what == 0 && p->pauses) {
        htc__sys_note(s, "%s is stopped for %.3f s", htc_sim_name(gateway), (double)span / 1e9);
        htc_sim_pause(gateway, span);
    } else if (what <= 2) {
        htc_sim_clog(gateway, door, span);
    } else if (what == 3) {
        htc_sim_clog(door, gateway, span);
    } else if (what == 4 && s->members) {
        cut_off(s, gateway, p);
        htc__sys_after(s, span, unblock, s);
    } else if (what == 4) {
        htc_sim_block(gateway, s->store, draw(&p->rng, 0, 1) ? 1 : 0);
        htc_sim_block(s->store, gateway, 1);
        htc__sys_after(s, span, unblock, s);
    } else if (p->crashes) {
        crash(s, gateway, &p->rng);
    }
}

static void trouble(htc_sim *w, void *ctx)
{
    sys       *s = ctx;
    plan      *p = s->options.ctx;
    sys_agent *a = some_agent(s, &p->rng);
    uint32_t   what = draw(&p->rng, 0, p->dice);
    htc_sim_node *gateway = htc__sys_some_gateway(s, &p->rng);
    if (htc_sim_now(w) >= p->trouble_end)
        return;
    if (s->standby && draw(&p->rng, 0, 1))
        trouble_of_gateways(s, p);
    else if (s->members && draw(&p->rng, 0, 1))
        trouble_of_members(s, p);
    else if (what <= 2 && p->crashes && a)
        htc_sim_crash(a->node);
    else if (what == 3 && p->crashes)
        crash(s, gateway, &p->rng);
    else if (what == 4 && p->crashes)
        crash(s, some_member(s, &p->rng), &p->rng);
    else if (what == 5)
        htc_sim_break(gateway, htc__sys_door(s, gateway));
    else if (what == 6)
        htc_sim_break(gateway, s->operator_->node);
    else if (what == 7 && a)
        htc_sim_break(gateway, a->node);
    else if (what == 8 && p->pauses && a)
        stop_for_a_while(s, a->node, &p->rng);
    else if (what == 9 && p->pauses)
        stop_for_a_while(s, draw(&p->rng, 0, 1) ? gateway : some_member(s, &p->rng), &p->rng);
    else if (what == 10 && p->pauses && a)
        htc__sys_agent_stop_task(a);
    else if (what == 11 && p->pauses && a)
        stop_and_tell(s, a, &p->rng);
    else if (what == 12 && p->crashes && htc__sys_accounts_ready(s))
        s->disk_full_until = htc_sim_now(w) + htc_rng_below(&p->rng, HTC_SECOND);
    else if (what == 13 && p->cancels)
        cancel_some(s, &p->rng);
    else if (what == 14)
        remove_some(s, &p->rng);
    else
        trouble_of_flows(s, p, a, what);
    htc__sys_after(s, 1 + htc_rng_below(&p->rng, 2 * p->trouble_gap), trouble, s);
}

/* Every fourth seed has no faults at all, the next faults of messages only, then crashes, then everything. */
static void make_options(uint64_t seed, int flows, uint32_t gateways, uint32_t members, plan *p, sys_options *o)
{
    htc_rng rng = { seed };
    rng = htc_rng_fork(&rng, "plan");
    uint64_t kind = seed % 4;
    int      messages = kind == 1 || kind == 3, crashes = kind >= 2;
    *o = (sys_options){ .sim = { .seed = seed }, .run = run_task, .flows = flows != 0, .check_idle = 1, .ctx = p };
    o->net.jitter_ns = draw(&rng, 0, 200) * HTC_US;
    o->commit_ns = draw(&rng, 0, 2000) * HTC_US;
    o->commit_jitter_ns = draw(&rng, 0, 3000) * HTC_US;
    o->launch_ns = draw(&rng, 1, 20) * HTC_MS;
    o->launch_jitter_ns = draw(&rng, 0, 20) * HTC_MS;
    o->stage_ns = draw(&rng, 0, 2) * HTC_MS;
    o->n_sites = draw(&rng, 1, 2);
    if (messages) {
        o->net.loss_ppm = draw_at_times(&rng, 0, 50000);
        o->net.duplicate_ppm = draw_at_times(&rng, 0, 50000);
        o->net.reorder_ppm = draw_at_times(&rng, 0, 200000);
        o->net.reorder_ns = draw(&rng, 1, 100) * HTC_MS;
    }
    o->sites[0] = (htc_site_options){ .size = sizeof(htc_site_options), .name = "here", .cores = draw(&rng, 1, 2) };
    o->sites[1] = (htc_site_options){ .size = sizeof(htc_site_options), .name = "there", .cores = draw(&rng, 1, 2) };
    htc_rng several = htc_rng_fork(&rng, "several slots"); /* of its own: of one slot everything is as it was */
    uint32_t slots_max = (const uint32_t[]){ 1, 1, 2, 3, 64 }[draw(&several, 0, 4)];
    for (uint32_t i = 0; slots_max > 1 && i < 2; i++)
        o->sites[i].cores = draw(&several, 1, 6);
    o->launch_fail_ppm = crashes ? draw(&rng, 0, 1) * 20000 : 0;
    o->gateway = (htc_gateway_options){ .tick_ns = HTC_SECOND,
                                        .slots_max = slots_max,
                                        .heartbeat_ns = HTC_SECOND,
                                        .lost_after_ns = 3 * HTC_SECOND,
                                        .launch_timeout_ns = 10 * HTC_SECOND,
                                        .relaunch_backoff_ns = 100 * HTC_MS,
                                        .max_attempts = 60,
                                        .max_lost = 10000,
                                        .retry_backoff_ns = 100 * HTC_MS,
                                        .retry_backoff_max_ns = HTC_SECOND };
    *p = (plan){ .rng = htc_rng_fork(&rng, "trouble"), .crashes = crashes, .pauses = crashes, .dice = flows ? 20 : 14 };
    p->trouble_gap = draw(&rng, 20, 1000) * HTC_MS;
    p->cancels = (int)draw(&rng, 0, 1);
    p->fail_ppm = kind ? draw(&rng, 0, 1) * 60000 : 0;
    if (gateways > 1) {
        htc_rng two = htc_rng_fork(&rng, "two gateways");
        o->gateways = 2;
        o->gateway.lease_ns = draw(&two, 200, 2000) * HTC_MS;
        o->check_idle = 0; /* nobody hands out slots between two terms */
    }
    if (members > 1) {
        htc_rng three = htc_rng_fork(&rng, "three members");
        o->members = SYS_MEMBERS;
        o->suspect_ns = draw(&three, 50, 500) * HTC_MS;
        o->request_ns = draw(&three, 500, 4000) * HTC_MS;
    }
}

/* Projects and quotas are changed all the time, by whichever gateway is active: they must be there for the one after it. */
static void change_accounts(htc_sim *w, void *ctx);

static void accounts_changed(sys_user *u, void *ctx, json_t *answer)
{
    (void)u, (void)answer;
    htc__sys_after(ctx, 200 * HTC_MS, change_accounts, ctx);
}

static void change_accounts(htc_sim *w, void *ctx)
{
    sys     *s = ctx;
    uint64_t turn = htc_sim_now(w) / (100 * HTC_MS) % 4;
    json_t  *rq;
    if (turn == 0)
        rq = json_pack("{s:s,s:s,s:[s,s]}", "op", "project.add", "name", "lab", "add", "ada", "bob");
    else if (turn == 1)
        rq = json_pack("{s:s,s:s,s:I}", "op", "project.set", "name", "lab", "shares", (json_int_t)(1 + htc_sim_now(w) % 5));
    else
        rq = json_pack("{s:s,s:s,s:I}", "op", "quota", "name", turn == 2 ? "ada" : "bob", "tasks", (json_int_t)(100000 + htc_sim_now(w) % 5));
    htc__sys_ask(s->operator_, rq, accounts_changed, s);
}

/* Every third job has tasks of several slots, of no more than some agent may have. */
static uint32_t wide_of(const sys *s, uint32_t job)
{
    uint64_t words[2] = { s->options.sim.seed, job };
    htc_rng  rng = { htc_hash64((htc_bytes){ words, sizeof words }, 0) };
    uint32_t most = 1;
    for (uint32_t i = 0; i < s->options.n_sites; i++)
        most = s->options.sites[i].cores > most ? s->options.sites[i].cores : most;
    most = most < s->options.gateway.slots_max ? most : s->options.gateway.slots_max;
    return draw(&rng, 0, 2) ? 1 : draw(&rng, 1, most);
}

static void add_jobs(sys *s, htc_rng *rng, htc_sim_system_report *v)
{
    static const char *const names[] = { "ada", "bob", "eve" };
    uint32_t                 users = draw(rng, 2, 3), left = 30;
    for (uint32_t i = 0; i < users; i++)
        htc__sys_add_account(s, names[i], draw(rng, 1, 3));
    htc_ns end = htc_sim_now(s->w) + 400 * HTC_SECOND;
    while (!htc__sys_accounts_ready(s) && htc_sim_now(s->w) < end && htc_sim_next(s->w) == HTC_OK)
        ;
    if (!htc__sys_accounts_ready(s))
        htc__sys_fail(s, "users cannot be added");
    if (s->standby)
        change_accounts(s->w, s);
    htc_rng flows = htc_rng_fork(rng, "flows"); /* of its own: without any all is as it was */
    for (uint32_t i = 0, n = s->options.flows ? draw(&flows, 1, 2) : 0; i < n; i++) {
        char name[32];
        snprintf(name, sizeof name, "flow%u", (unsigned)i);
        htc__sys_flow_add(s, names[htc_rng_below(&flows, users)], name, &flows);
    }
    v->tasks += htc__sys_flow_tasks(s);
    for (uint32_t i = 0; i < users + 4 && left > 2; i++) {
        uint32_t n = draw(rng, 1, left / 2);
        sys_job  wanted = { .count = n, .cores = wide_of(s, i) };
        wanted.max_running = draw_at_times(rng, 1, 3);
        wanted.priority = (int)draw(rng, 0, 2) - 1;
        snprintf(wanted.user, sizeof wanted.user, "%s", names[i % users]);
        snprintf(wanted.name, sizeof wanted.name, "job%u", (unsigned)i);
        htc__sys_draw_after(s, &wanted, rng);
        htc__sys_submit_as(s, &wanted);
        left -= n;
        v->tasks += n;
        htc__sys_run_until(s, htc_sim_now(s->w) + htc_rng_below(rng, HTC_SECOND));
    }
}

static void all_up(sys *s)
{
    if (s->members)
        htc__sys_members_boot(s);
    htc_sim_boot(s->store);
    htc_sim_boot(s->gateway);
    if (s->standby)
        htc_sim_boot(s->standby);
}

static int all_removed(const sys *s)
{
    for (const sys_job *j = s->jobs; j; j = j->next)
        if (j->removing && !j->removed)
            return 0;
    return 1;
}

/* The gateway is killed at some of the writes that a removal takes. */
static void remove_at_last(sys *s, const plan *p, htc_rng *rng)
{
    for (int i = 0; i < 3; i++)
        remove_some(s, rng);
    for (int i = 0; p->crashes && i < 3; i++) {
        htc__sys_run_until(s, htc_sim_now(s->w) + htc_rng_below(rng, 60 * HTC_MS));
        htc_sim_node *gateway = htc__sys_some_gateway(s, rng);
        htc_sim_crash(gateway);
        htc_sim_boot(gateway);
    }
    htc_ns end = htc_sim_now(s->w) + 100 * HTC_SECOND;
    while (!all_removed(s) && htc_sim_now(s->w) < end && htc_sim_next(s->w) == HTC_OK)
        ;
}

/* What gateways have stored after their term was over is found by the next one. */
static void begin_last_term(sys *s)
{
    htc_sim_crash(s->gateway);
    htc_sim_crash(s->standby);
    all_up(s);
    htc__sys_run_until(s, htc_sim_now(s->w) + 10 * HTC_SECOND);
}

static void run_world(sys *s, plan *p, htc_sim_system_report *v)
{
    htc_rng rng = htc_rng_fork(&p->rng, "jobs");
    htc_ns  begin = htc_sim_now(s->w);
    p->trouble_end = begin + draw(&rng, 2, 15) * HTC_SECOND;
    htc__sys_watch_jobs(s, 300 * HTC_MS);
    if (s->options.sim.seed % 4)
        htc__sys_after(s, htc_rng_below(&rng, HTC_SECOND), trouble, s);
    add_jobs(s, &rng, v);
    htc__sys_run_until(s, p->trouble_end + 6 * HTC_SECOND); /* the longest way back up, and more */
    htc_sim_net_faults(s->w, 0);
    if (s->standby)
        unblock(s->w, s);
    all_up(s);
    while (!(htc__sys_flows_submitted(s) && htc__sys_all_finished(s)) && htc_sim_now(s->w) < p->trouble_end + 400 * HTC_SECOND &&
           htc_sim_next(s->w) == HTC_OK)
        ;
    v->span = htc_sim_now(s->w) - begin;
    remove_at_last(s, p, &rng);
    if (s->standby)
        begin_last_term(s);
    htc__sys_usage_ask(s);
    htc__sys_run_until(s, htc_sim_now(s->w) + 20 * HTC_SECOND);
    if (!s->usage_told)
        htc__sys_fail(s, "users are told nothing of what they used");
    if (!htc_sim_failure(s->w))
        htc__sys_check_results(s);
    if (!htc_sim_failure(s->w))
        htc__sys_flows_check(s);
    if (s->agents_alive)
        htc__sys_fail(s, "%u agents are still there, with nothing to do", (unsigned)s->agents_alive);
}

htc_status htc_sim_system_run(const htc_env *env, const htc_sim_system_options *options, htc_sim_system_report *report)
{
    htc_sim_system_options given = { 0 };
    htc_sim_system_report  r = { .size = sizeof r };
    sys_options            o;
    plan                   p;
    sys                   *s;
    htc_status             status = htc__options_copy(&given, sizeof given, options, options ? options->size : 0, offsetof(htc_sim_system_options, trace));
    if (!report || status != HTC_OK)
        return report ? status : HTC_EINVAL;
    if (given.members > 1 && (given.members != SYS_MEMBERS || given.gateways < 2 || given.flows))
        return HTC_EINVAL;
    make_options(given.seed, given.flows != 0, given.gateways, given.members, &p, &o);
    o.sim.trace = given.trace;
    o.sim.trace_ctx = given.trace_ctx;
    status = htc__sys_open(env, &o, &s);
    if (status != HTC_OK)
        return status;
    run_world(s, &p, &r);
    r.hash = htc_sim_hash(s->w);
    r.events = htc_sim_events(s->w);
    r.crashes = s->crashes;
    r.agents = s->agents_launched;
    r.idle_longest = s->idle_longest;
    r.failed = htc_sim_failure(s->w) != NULL;
    snprintf(r.text, sizeof r.text, "%s", r.failed ? htc_sim_failure(s->w) : "");
    status = s->no_memory || htc_sim_status(s->w) == HTC_ENOMEM ? HTC_ENOMEM : HTC_OK;
    htc__sys_close(s);
    return status == HTC_OK ? htc__options_give(report, &r, sizeof r, offsetof(htc_sim_system_report, text)) : status;
}
