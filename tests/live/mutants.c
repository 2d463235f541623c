/* Preloaded into htc-sim: decisions of lib/sched, each with a mistake. MUTANT names the function that makes it; the others are what they are.
 * tests/data/sim_mutants.txt has the runs that have to notice. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

#include "htcsched/allot.h"
#include "htcsched/balance.h"
#include "htcsched/dag.h"
#include "htcsched/fit.h"
#include "htcsched/hierarchy.h"
#include "htcsched/locality.h"
#include "htcsched/provision.h"
#include "htcsched/record.h"
#include "htcsched/ring.h"
#include "htcsched/steal.h"

/* In a function: real_NAME is the library's, and wrong says whether it is this one that is mistaken. */
#define DECISION(name)                                                                                                 \
    static __typeof__(&htc_##name) real_##name;                                                                        \
    static int                     wrong;                                                                              \
    if (!real_##name) {                                                                                                \
        const char *mutant = getenv("MUTANT");                                                                         \
        real_##name = (__typeof__(&htc_##name))dlsym(RTLD_NEXT, "htc_" #name);                                         \
        if (!real_##name)                                                                                              \
            abort();                                                                                                   \
        wrong = mutant && strcmp(mutant, "htc_" #name) == 0;                                                           \
    }

/* ---- steal ---- */

/* A thief asks one neighbour alone. */
htc_status htc_steal_ask(htc_steal_thief *thief, const htc_steal_options *options, htc_ns now, htc_rng *rng, uint32_t cap, uint32_t *out, uint32_t *count)
{
    DECISION(steal_ask)
    htc_status status = real_steal_ask(thief, options, now, rng, cap, out, count);
    if (wrong && status == HTC_OK)
        *count = 1;
    return status;
}

/* After nothing it waits as long as after something. */
htc_status htc_steal_settle(htc_steal_thief *thief, const htc_steal_options *options, htc_ns now, uint32_t victim, uint64_t got)
{
    DECISION(steal_settle)
    htc_status status = real_steal_settle(thief, options, now, victim, got);
    if (wrong && status == HTC_OK && thief->due_ns != HTC_NEVER && thief->failures)
        thief->due_ns = now + 7 * HTC_MS;
    return status;
}

/* It robs the first that has anything. */
htc_status htc_steal_victim(const uint64_t *load, uint32_t n, uint32_t *victim)
{
    DECISION(steal_victim)
    htc_status status = real_steal_victim(load, n, victim);
    for (uint32_t i = 0; wrong && status == HTC_OK && i < n; i++)
        if (load[i]) {
            *victim = i;
            break;
        }
    return status;
}

/* A task at a time. */
htc_status htc_steal_give(const htc_steal_options *options, uint64_t waiting, uint64_t idle, uint64_t *amount)
{
    DECISION(steal_give)
    htc_status status = real_steal_give(options, waiting, idle, amount);
    if (wrong && status == HTC_OK && *amount)
        *amount = 1;
    return status;
}

/* The next one alone is nudged. */
htc_status htc_steal_whom_to_nudge(htc_rng *rng, uint32_t n, uint32_t self, uint32_t cap, uint32_t *out, uint32_t *count)
{
    DECISION(steal_whom_to_nudge)
    htc_status status = real_steal_whom_to_nudge(rng, n, self, cap, out, count);
    if (wrong && status == HTC_OK) {
        out[0] = (self + 1) % n;
        *count = 1;
    }
    return status;
}

/* A nudge is not heard. */
void htc_steal_nudge(htc_steal_thief *thief, htc_ns now)
{
    DECISION(steal_nudge)
    if (!wrong)
        real_steal_nudge(thief, now);
}

/* Always the first ones. */
htc_status htc_steal_pick(htc_rng *rng, uint32_t n, uint32_t self, uint32_t k, uint32_t *out)
{
    DECISION(steal_pick)
    htc_status status = real_steal_pick(rng, n, self, k, out);
    for (uint32_t i = 0; wrong && status == HTC_OK && i < k; i++)
        out[i] = i + (i >= self);
    return status;
}

/* All are beside each other. */
htc_status htc_steal_hops(const htc_steal_shape *shape, uint32_t a, uint32_t b, uint32_t *hops)
{
    DECISION(steal_hops)
    htc_status status = real_steal_hops(shape, a, b, hops);
    if (wrong && status == HTC_OK)
        *hops = a != b;
    return status;
}

/* ---- fit ---- */

/* The widest first. */
htc_status htc_fit_submit(htc_fit *fit, htc_ns now, const htc_fit_job *job)
{
    DECISION(fit_submit)
    htc_fit_job wide = *job;
    if (wrong)
        wide.priority = job->nodes;
    return real_fit_submit(fit, now, &wide);
}

/* One at a time. */
htc_status htc_fit_next(htc_fit *fit, htc_ns now, htc_fit_job *job)
{
    DECISION(fit_next)
    htc_fit_counts c;
    if (wrong) {
        htc_fit_count(fit, &c);
        if (c.running)
            return HTC_AGAIN;
    }
    return real_fit_next(fit, now, job);
}

/* ---- provision ---- */

/* Half of what is missing is asked for. */
htc_status htc_provision_scan(htc_provision *provision, htc_ns now, const htc_provision_demand *demand, htc_provision_order *order)
{
    DECISION(provision_scan)
    htc_status status = real_provision_scan(provision, now, demand, order);
    if (wrong && status == HTC_OK)
        order->nodes = (order->nodes + 1) / 2;
    return status;
}

/* No node is idle when leases are looked at. */
htc_status htc_provision_check(htc_provision *provision, htc_ns now, const htc_provision_demand *demand, htc_provision_order *order)
{
    DECISION(provision_check)
    htc_provision_demand all = *demand;
    htc_provision_usage  usage = { 0 };
    if (wrong && htc_provision_usage_at(provision, now, &usage) == HTC_OK)
        all.running_nodes = usage.owned;
    return real_provision_check(provision, now, &all, order);
}

/* Of what is free a quarter is handed out. */
htc_status htc_provision_grant(const htc_env *env, const htc_provision_granter *granter, uint64_t free_nodes, const htc_provision_request *requests, size_t n, uint64_t *granted)
{
    DECISION(provision_grant)
    int begins = n && requests[0].initial;
    return real_provision_grant(env, granter, wrong && !begins ? free_nodes / 4 : free_nodes, requests, n, granted);
}

/* It comes late. */
htc_ns htc_provision_deadline(const htc_provision *provision)
{
    DECISION(provision_deadline)
    htc_ns due = real_provision_deadline(provision);
    return wrong && due != HTC_NEVER ? due + 7 * HTC_SECOND : due;
}

/* It takes twice as long. */
htc_status htc_provision_set_up(const htc_provision_setup *setup, uint32_t assign, uint64_t nodes, htc_provision_change *change)
{
    DECISION(provision_set_up)
    htc_status status = real_provision_set_up(setup, assign, nodes, change);
    if (wrong && status == HTC_OK) {
        change->node_ns *= 2;
        change->total_ns *= 2;
    }
    return status;
}

/* A unit more. */
uint64_t htc_provision_units(htc_ns held_ns, htc_ns unit_ns, uint32_t rounding)
{
    DECISION(provision_units)
    return real_provision_units(held_ns, unit_ns, rounding) + (uint64_t)wrong;
}

/* Twice the price. */
htc_status htc_provision_cost_of_owning(const htc_provision_owning *cost, uint64_t *cents)
{
    DECISION(provision_cost_of_owning)
    htc_status status = real_provision_cost_of_owning(cost, cents);
    if (wrong && status == HTC_OK)
        *cents *= 2;
    return status;
}

/* ---- dag ---- */

/* Of two that are ready the second first. */
htc_status htc_dag_take(htc_dag *dag, uint32_t *task)
{
    DECISION(dag_take)
    htc_status status = real_dag_take(dag, task);
    uint32_t   second;
    if (wrong && status == HTC_OK && real_dag_take(dag, &second) == HTC_OK) {
        status = htc_dag_put_back(dag, *task);
        *task = second;
    }
    return status;
}

/* Half of the bound. */
htc_status htc_dag_bound(htc_dag *dag, const htc_dag_model *model, htc_ns *finish, htc_ns *bound)
{
    DECISION(dag_bound)
    htc_status status = real_dag_bound(dag, model, finish, bound);
    if (wrong && status == HTC_OK)
        *bound /= 2;
    return status;
}

/* ---- locality ---- */

/* All may be taken by anybody. */
htc_status htc_locality_place_task(htc_locality *locality, const htc_locality_task *task, htc_locality_place *out)
{
    DECISION(locality_place_task)
    htc_status status = real_locality_place_task(locality, task, out);
    if (wrong && status == HTC_OK && out->queue == HTC_LOCALITY_LOCAL)
        out->queue = HTC_LOCALITY_SHARED;
    return status;
}

/* Nothing is let go. */
htc_status htc_locality_move(htc_locality *locality, htc_ns now, uint64_t waiting, uint64_t *move)
{
    DECISION(locality_move)
    htc_status status = real_locality_move(locality, now, waiting, move);
    if (wrong && status == HTC_OK)
        *move = 0;
    return status;
}

/* A task seems to take ten thousand times as long. */
htc_status htc_locality_estimate(const htc_locality_lengths *lengths, uint64_t kind, htc_rng *rng, htc_ns *est_ns)
{
    DECISION(locality_estimate)
    htc_status status = real_locality_estimate(lengths, kind, rng, est_ns);
    if (wrong)
        *est_ns *= 10000;
    return status;
}

/* Nor is anything learned of those that ended. */
htc_status htc_locality_learn(htc_locality_lengths *lengths, uint64_t kind, htc_ns run_ns, uint64_t times)
{
    DECISION(locality_learn)
    return wrong ? HTC_OK : real_locality_learn(lengths, kind, run_ns, times);
}

/* Nor counted how many did. */
htc_status htc_locality_finished(htc_locality *locality, htc_ns now, uint64_t needed_bytes, uint64_t moved_bytes)
{
    DECISION(locality_finished)
    return wrong ? HTC_OK : real_locality_finished(locality, now, needed_bytes, moved_bytes);
}

/* A steal that brought nothing is not heard of. */
htc_status htc_locality_steal_failed(htc_locality *locality)
{
    DECISION(locality_steal_failed)
    return wrong ? HTC_OK : real_locality_steal_failed(locality);
}

/* It seems that all the work is always at its end. */
htc_status htc_locality_progress(htc_locality *locality, uint64_t done, uint64_t all)
{
    DECISION(locality_progress)
    return real_locality_progress(locality, wrong ? all : done, all);
}

/* ---- balance ---- */

/* Half of what is missing is taken at a time. */
htc_status htc_balance_step(htc_balance_request *request, htc_ns now, htc_rng *rng, const htc_balance_answer *answer, htc_balance_action *action)
{
    DECISION(balance_step)
    htc_status status = real_balance_step(request, now, rng, answer, action);
    if (wrong && status == HTC_OK && action->kind == HTC_BALANCE_TAKE)
        action->nodes = (action->nodes + 1) / 2;
    return status;
}

/* What was seen at another partition is forgotten. */
htc_status htc_balance_learn(htc_balance *balance, uint32_t partition, uint32_t free_nodes)
{
    DECISION(balance_learn)
    return wrong ? HTC_OK : real_balance_learn(balance, partition, free_nodes);
}

/* The census says that the first partition is empty. */
htc_status htc_balance_pull(htc_balance *balance, htc_ns now, htc_rng *rng, htc_bytes census)
{
    DECISION(balance_pull)
    htc_status status = real_balance_pull(balance, now, rng, census);
    return wrong && status == HTC_OK ? htc_balance_learn(balance, 0, 0) : status;
}

/* It is asked for late. */
htc_ns htc_balance_pull_due(const htc_balance *balance)
{
    DECISION(balance_pull_due)
    htc_ns due = real_balance_pull_due(balance);
    return wrong && due != HTC_NEVER ? due + 7 * HTC_MS : due;
}

/* There is one ten times less often. */
htc_status htc_balance_monitor_step(htc_balance_monitor *monitor, htc_ns now, const htc_balance_answer *answer, htc_balance_action *action)
{
    DECISION(balance_monitor_step)
    htc_status status = real_balance_monitor_step(monitor, now, answer, action);
    if (wrong && status == HTC_OK && action->kind == HTC_BALANCE_WAIT && action->until > now)
        action->until = now + 10 * (action->until - now);
    return status;
}

/* ---- record ---- */

/* A node less than there is. */
htc_status htc_record_take(const htc_env *env, htc_bytes record, const htc_record_ask *ask, htc_bytes *out, htc_record_set *got)
{
    DECISION(record_take)
    htc_record_ask less = *ask;
    if (wrong && less.most > 1)
        less.most--;
    return real_record_take(env, record, &less, out, got);
}

/* Nothing is given back. */
htc_status htc_record_release(const htc_env *env, htc_bytes record, htc_bytes job, uint64_t attempt, htc_bytes *out, htc_record_set *got)
{
    DECISION(record_release)
    return wrong ? HTC_ENOTFOUND : real_record_release(env, record, job, attempt, out, got);
}

/* ---- ring ---- */

/* The preference list backwards. */
uint32_t htc_ring_owners(const htc_ring *ring, uint32_t bucket, uint32_t *seats)
{
    DECISION(ring_owners)
    uint32_t n = real_ring_owners(ring, bucket, seats);
    for (uint32_t i = 0; wrong && i < n / 2; i++) {
        uint32_t seat = seats[i];
        seats[i] = seats[n - 1 - i];
        seats[n - 1 - i] = seat;
    }
    return n;
}

/* Half of the buckets are used. */
uint32_t htc_ring_bucket(const htc_ring *ring, uint64_t hash)
{
    DECISION(ring_bucket)
    uint32_t bucket = real_ring_bucket(ring, hash);
    return wrong ? bucket & ~UINT32_C(1) : bucket;
}

/* The first member weighs more. */
htc_status htc_ring_create(const htc_env *env, const htc_ring_options *options, const htc_ring_member *members, size_t n, htc_ring **out)
{
    DECISION(ring_create)
    htc_status status = real_ring_create(env, options, members, n, out);
    return wrong && status == HTC_OK && n > 1 ? htc_ring_reweight(*out, members[0].id, 3) : status;
}

/* ---- allot ---- */

/* Nobody is to give anything back. */
htc_status htc_allot_plan(const htc_env *env, const htc_allot_options *options, const htc_allot_user *users, size_t n, uint64_t slots, uint64_t free_slots, htc_allot_change *out)
{
    DECISION(allot_plan)
    htc_status status = real_allot_plan(env, options, users, n, slots, free_slots, out);
    for (size_t i = 0; wrong && status == HTC_OK && i < n; i++)
        out[i].drain = 0;
    return status;
}

/* The short weigh what the long ones should. */
htc_status htc_allot_profiled(const htc_env *env, const uint64_t *priority, const double *work, size_t n, double gamma, uint64_t *weight)
{
    DECISION(allot_profiled)
    return real_allot_profiled(env, priority, work, n, wrong ? -gamma : gamma, weight);
}

/* All weigh the same. */
htc_status htc_allot_weigh(const htc_env *env, const htc_allot_weigher *weigher, const htc_allot_weighing *how, const htc_allot_facts *users, size_t n, uint64_t *weights, double *typical)
{
    DECISION(allot_weigh)
    htc_status status = real_allot_weigh(env, weigher, how, users, n, weights, typical);
    for (size_t i = 0; wrong && status == HTC_OK && i < n; i++)
        weights[i] = 1024;
    return status;
}

uint64_t htc_allot_weight(double weight)
{
    DECISION(allot_weight)
    return real_allot_weight(wrong ? 1 : weight);
}

/* What was used is forgotten. */
htc_status htc_allot_usage_add(htc_allot_usage *usage, double slot_s, htc_ns now, htc_ns half_life_ns)
{
    DECISION(allot_usage_add)
    return real_allot_usage_add(usage, wrong ? 0 : slot_s, now, half_life_ns);
}

/* And how long tasks ran. */
htc_status htc_allot_profile_add(htc_allot_profile *profile, double run_s)
{
    DECISION(allot_profile_add)
    return wrong ? HTC_OK : real_allot_profile_add(profile, run_s);
}

/* ---- hierarchy ---- */

static htc_hierarchy_decision *copied(const htc_hierarchy_decision *d, size_t n)
{
    static htc_hierarchy_decision *copy;
    htc_hierarchy_decision        *room = realloc(copy, n * sizeof *copy);
    if (!room)
        abort();
    copy = memcpy(room, d, n * sizeof *d);
    return copy;
}

/* All jobs enter at the lowest level. */
htc_status htc_hierarchy_entry(const htc_hierarchy *hierarchy, const htc_hierarchy_job *job, uint32_t *queue)
{
    DECISION(hierarchy_entry)
    htc_status                status = real_hierarchy_entry(hierarchy, job, queue);
    htc_hierarchy_queue_info info;
    for (uint32_t q = 0; wrong && status == HTC_OK && htc_hierarchy_get_queue(hierarchy, q, &info) == HTC_OK; q++)
        *queue = q;
    return status;
}

/* Jobs arrive with a bound on their complexity that they do not have. */
htc_status htc_hierarchy_arrive(htc_hierarchy *hierarchy, uint32_t queue, const htc_hierarchy_job *job, htc_ns now, htc_hierarchy_decision *out)
{
    DECISION(hierarchy_arrive)
    htc_hierarchy_job known = *job;
    if (wrong && known.kflop == 0)
        known.kflop = 1e13;
    return real_hierarchy_arrive(hierarchy, queue, &known, now, out);
}

/* A bound is taken for four times as high. */
htc_status htc_hierarchy_bound(htc_hierarchy *hierarchy, uint64_t id, double kflop, htc_ns now, htc_hierarchy_decision *out)
{
    DECISION(hierarchy_bound)
    return real_hierarchy_bound(hierarchy, id, wrong ? 4 * kflop : kflop, now, out);
}

/* Who is too large for its queue stays in it. */
htc_status htc_hierarchy_estimated(htc_hierarchy *hierarchy, uint64_t id, htc_ns now, htc_hierarchy_decision *out)
{
    DECISION(hierarchy_estimated)
    htc_status status = real_hierarchy_estimated(hierarchy, id, now, out);
    if (wrong && status == HTC_OK && out->action == HTC_HIERARCHY_MIGRATE && htc_hierarchy_stay(hierarchy, id, now) == HTC_OK)
        out->action = HTC_HIERARCHY_QUEUE;
    return status;
}

/* Of those who have to leave the last stays. */
htc_status htc_hierarchy_enforce(htc_hierarchy *hierarchy, uint32_t queue, htc_ns now, const htc_hierarchy_decision **out, size_t *n)
{
    DECISION(hierarchy_enforce)
    htc_status status = real_hierarchy_enforce(hierarchy, queue, now, out, n);
    if (wrong && status == HTC_OK && *n) {
        *out = copied(*out, *n);
        status = htc_hierarchy_stay(hierarchy, (*out)[--*n].id, now);
    }
    return status;
}

/* Those who would be better off beside are told so from tail to head. */
htc_status htc_hierarchy_share(htc_hierarchy *hierarchy, uint32_t queue, htc_ns now, const htc_hierarchy_decision **out, size_t *n)
{
    DECISION(hierarchy_share)
    htc_status status = real_hierarchy_share(hierarchy, queue, now, out, n);
    if (wrong && status == HTC_OK && *n > 1) {
        htc_hierarchy_decision *d = copied(*out, *n);
        for (size_t i = 0; i < *n; i++)
            d[i] = (*out)[*n - 1 - i];
        *out = d;
    }
    return status;
}

/* Limits are looked at late. */
htc_ns htc_hierarchy_deadline(const htc_hierarchy *hierarchy)
{
    DECISION(hierarchy_deadline)
    htc_ns due = real_hierarchy_deadline(hierarchy);
    return wrong && due != HTC_NEVER ? due + 7 * HTC_SECOND : due;
}

/* A free CPU is left free. */
htc_status htc_hierarchy_dispatch(const htc_hierarchy *hierarchy, uint32_t queue, uint32_t grid, uint32_t cpus, htc_hierarchy_grant *out, size_t max, size_t *n)
{
    DECISION(hierarchy_dispatch)
    return real_hierarchy_dispatch(hierarchy, queue, grid, wrong && cpus > 1 ? cpus - 1 : cpus, out, max, n);
}

/* No grid has a free CPU when it is looked at. */
htc_status htc_hierarchy_sample(htc_hierarchy *hierarchy, uint32_t grid, uint32_t free_cpus, uint32_t cpus, htc_ns now)
{
    DECISION(hierarchy_sample)
    return real_hierarchy_sample(hierarchy, grid, wrong ? 0 : free_cpus, cpus, now);
}

/* Jobs that are moved lose a minute. */
htc_status htc_hierarchy_moved(htc_hierarchy *hierarchy, uint64_t id, htc_ns now, htc_hierarchy_decision *out)
{
    DECISION(hierarchy_moved)
    htc_status status = real_hierarchy_moved(hierarchy, id, now, out);
    if (wrong && status == HTC_OK && out->action == HTC_HIERARCHY_ESTIMATE && out->until > now + HTC_SECOND)
        out->until -= HTC_SECOND;
    return status;
}

/* How many tasks a job has is not told. */
htc_status htc_hierarchy_split(htc_hierarchy *hierarchy, uint64_t id, uint32_t tasks)
{
    DECISION(hierarchy_split)
    return wrong ? HTC_OK : real_hierarchy_split(hierarchy, id, tasks);
}

/* Estimators see twice what there is. */
double htc_hierarchy_synthetic(double kflop, double kflops, double rho, double spent_s)
{
    DECISION(hierarchy_synthetic)
    return real_hierarchy_synthetic(kflop, kflops, rho, spent_s) * (1 + wrong);
}
