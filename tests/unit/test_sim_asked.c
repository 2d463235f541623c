/* A policy of one's own that answers what is not allowed: the run ends, and says whose answer it was, what it was, and what is allowed. */
#include "expect.h"

#include "htcsched/sim_dataflow.h"
#include "htcsched/sim_jobs.h"
#include "htcsched/sim_manytask.h"
#include "htcsched/sim_provision.h"

static void says(htc_status status, const htc_error *e, const char *name, const char *what)
{
    cr_expect(status < 0 && e->status == status);
    cr_expect(strstr(e->text, name) && strstr(e->text, what), "%s", e->text);
    cr_expect(eq(str, e->hint, "mend the policy, or choose another one"));
}

/* ---- steal ---- */

static htc_status beyond(void *ctx, const htc_steal_view *view, htc_rng *rng, uint32_t cap, uint32_t *out, uint32_t *count)
{
    (void)rng;
    (void)cap;
    *count = 1;
    out[0] = ctx ? view->self : view->n + 7;
    return HTC_OK;
}

static htc_status too_many(void *ctx, const htc_steal_view *view, htc_rng *rng, uint32_t cap, uint32_t *out, uint32_t *count)
{
    (void)ctx;
    (void)view;
    (void)rng;
    (void)out;
    *count = cap + 2;
    return HTC_OK;
}

static htc_status fails_to_choose(void *ctx, const htc_steal_view *view, htc_rng *rng, uint32_t cap, uint32_t *out, uint32_t *count)
{
    (void)ctx;
    (void)view;
    (void)rng;
    (void)cap;
    (void)out;
    (void)count;
    return HTC_ETIMEDOUT;
}

static htc_status steals(const htc_steal_policy *policy, htc_error *e)
{
    htc_steal_options        steal = HTC_STEAL_OPTIONS_INIT;
    htc_sim_manytask_group   group = { .size = sizeof group, .nodes = 20, .cores = 1 };
    htc_sim_manytask_options o = { .size = sizeof o, .architecture = HTC_SIM_MANYTASK_DISTRIBUTED, .groups = &group, .n_groups = 1, .tasks = 30, .length.mean_ns = 1e9, .steal = &steal };
    htc_sim_manytask_report  r = { .size = sizeof r };
    steal.policy = policy;
    return htc_sim_manytask_run(NULL, &o, &r, NULL, e);
}

static htc_status steals_with_data(const htc_steal_policy *policy, htc_error *e)
{
    htc_steal_options        steal = HTC_STEAL_OPTIONS_INIT;
    htc_sim_dataflow_options o = { .size = sizeof o, .nodes = 20, .cores = 1, .tasks = 30, .length.mean_ns = 1e9, .steal = &steal };
    htc_sim_dataflow_report  r = { .size = sizeof r };
    steal.policy = policy;
    return htc_sim_dataflow_run(NULL, &o, &r, e);
}

Test(sim_asked, a_thief_asks_nobody_that_there_is)
{
    int              self = 1;
    htc_steal_policy far = { .size = sizeof far, .name = "far", .choose = beyond }, me = { .size = sizeof me, .name = "me", .ctx = &self, .choose = beyond };
    htc_steal_policy many = { .size = sizeof many, .name = "many", .choose = too_many }, fails = { .size = sizeof fails, .choose = fails_to_choose };
    htc_error        e = { 0 };
    says(steals(&far, &e), &e, "the steal policy \"far\" answers worker 27 to worker ", "workers are 0 to 19, and nobody asks itself");
    says(steals(&me, &e), &e, "the steal policy \"me\" answers worker ", "nobody asks itself");
    says(steals(&many, &e), &e, "the steal policy \"many\" answers 21 workers to ask", "at most 19 can be");
    says(steals(&fails, &e), &e, "the steal policy \"without a name\" answers with an error", "timed out");
    says(steals_with_data(&far, &e), &e, "the steal policy \"far\" answers worker 27", "workers are 0 to 19");
}

/* ---- locality ---- */

static htc_status place_at(void *ctx, const htc_locality_view *view, const htc_locality_task *task, htc_locality_place *out)
{
    (void)view;
    (void)task;
    *out = *(htc_locality_place *)ctx;
    return HTC_OK;
}

Test(sim_asked, a_task_is_placed_nowhere)
{
    htc_locality_place       place = { .queue = HTC_LOCALITY_PUSH, .worker = 20 };
    htc_locality_policy      odd = { .size = sizeof odd, .name = "odd", .ctx = &place, .place = place_at };
    htc_locality_options     locality = HTC_LOCALITY_OPTIONS_INIT;
    htc_sim_dataflow_options o = { .size = sizeof o, .nodes = 20, .cores = 1, .tasks = 30, .length.mean_ns = 1e9, .locality = &locality };
    htc_sim_dataflow_report  r = { .size = sizeof r };
    htc_error                e = { 0 };
    locality.policy = &odd;
    says(htc_sim_dataflow_run(NULL, &o, &r, &e), &e, "the locality policy \"odd\" answers that a task is pushed to worker 20", "workers are 0 to 19");
    place.queue = 9;
    says(htc_sim_dataflow_run(NULL, &o, &r, &e), &e, "the locality policy \"odd\" answers queue 9", "0 to 2");
}

/* ---- balance, and the order of jobs ---- */

static htc_status pick_beyond(void *state, const htc_balance_view *view, htc_rng *rng, uint32_t *partition)
{
    (void)state;
    (void)rng;
    *partition = view->partitions;
    return HTC_OK;
}

static htc_status choose_nobody(void *ctx, const htc_fit *fit, htc_ns now, uint64_t *id)
{
    htc_fit_job job;
    (void)ctx;
    *id = 4711;
    return htc_fit_candidate(fit, now, NULL, &job);
}

Test(sim_asked, a_job_gets_nodes_of_no_partition)
{
    htc_balance_policy   beyond_all = { .size = sizeof beyond_all, .name = "beyond", .tries = 3, .pick = pick_beyond };
    htc_fit_policy       nobody = { .size = sizeof nobody, .name = "nobody", .promise = HTC_FIT_PROMISE_NOTHING, .choose = choose_nobody };
    htc_sim_jobs_options o = { .size = sizeof o, .nodes = 64, .partition = 16, .jobs = 50, .nodes_min = 20, .nodes_max = 30, .length.mean_ns = 1e9, .policy = &beyond_all };
    htc_sim_jobs_report  r = { .size = sizeof r };
    htc_error            e = { 0 };
    says(htc_sim_jobs_run(NULL, &o, &r, &e), &e, "the balance policy \"beyond\" answers partition 4", "partitions are 0 to 3");
    o.policy = NULL;
    o.central = 1;
    o.fit = &nobody;
    says(htc_sim_jobs_run(NULL, &o, &r, &e), &e, "the order policy \"nobody\" answers job 4711", "may not start now");
}

/* ---- leased nodes ---- */

static htc_status grant_more(void *ctx, const htc_env *env, uint64_t free_nodes, const htc_provision_request *requests, size_t n, uint64_t *granted)
{
    (void)env;
    for (size_t i = 0; i < n; i++)
        granted[i] = ctx || requests[i].initial ? requests[i].nodes + (ctx != NULL) : free_nodes + 1;
    return HTC_OK;
}

Test(sim_asked, more_nodes_are_granted_than_there_are)
{
    int                           more = 1;
    htc_provision_granter         generous = { .size = sizeof generous, .name = "generous", .grant = grant_more }, excess = { .size = sizeof excess, .name = "excess", .ctx = &more, .grant = grant_more };
    htc_fit_policy                nobody = { .size = sizeof nobody, .name = "nobody", .promise = HTC_FIT_PROMISE_NOTHING, .choose = choose_nobody };
    htc_sim_provision_job         jobs[] = { { .arrival = 0, .length = 9000 * HTC_SECOND, .nodes = 200 } };
    htc_provision_options         book = HTC_PROVISION_OPTIONS_INIT;
    htc_sim_provision_environment lab = { .size = sizeof lab, .name = "lab", .nodes = 40, .jobs = jobs, .n_jobs = 1, .book = &book };
    htc_sim_provision_options     o = { .size = sizeof o, .environments = &lab, .n_environments = 1, .capacity = 240, .granter = &generous };
    htc_sim_provision_report      r = { .size = sizeof r };
    htc_error                     e = { 0 };
    says(htc_sim_provision_run(NULL, &o, &r, NULL, &e), &e, "the grant policy \"generous\" answers 201 nodes", "a request for 160");
    o.granter = &excess;
    says(htc_sim_provision_run(NULL, &o, &r, NULL, &e), &e, "the grant policy \"excess\" answers 41 nodes", "a request for 40");
    o.granter = NULL;
    lab.fit = &nobody;
    jobs[0].nodes = 20;
    says(htc_sim_provision_run(NULL, &o, &r, NULL, &e), &e, "the order policy \"nobody\" answers job 4711", "may not start now");
}
