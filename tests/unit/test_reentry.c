/* A function of the caller's that calls back into what is calling it: refused, and what called it ends as if nothing had
 * been tried. (fit, steal and provision: test_fit_order.c, test_steal_thief.c, test_provision.c.) */
#include "expect.h"

#include "balance_hand.h"
#include "htcsched/dag.h"
#include "htcsched/locality.h"

/* ---- balance ---- */

typedef struct looker {
    htc_balance         *balance;
    htc_balance_request *request;
    int                  asked, changed; /* calls that were not refused */
} looker;

static looker here;

static void meddle_with_balance(looker *l)
{
    htc_rng              rng = { 1 };
    htc_balance_action   action;
    htc_balance_answer   answer = HTC_BALANCE_ANSWER_INIT;
    htc_balance_request *another;
    l->asked++;
    l->changed += htc_balance_learn(l->balance, 0, 1) != HTC_EINVAL;
    l->changed += htc_balance_pull(l->balance, 0, &rng, (htc_bytes){ "", 0 }) != HTC_EINVAL;
    l->changed += htc_balance_begin(l->balance, 1, &another) != HTC_EINVAL;
    l->changed += htc_balance_step(l->request, 0, &rng, &answer, &action) != HTC_EINVAL;
    htc_balance_end(l->request);
    htc_balance_destroy(l->balance);
}

static htc_status open_here(void *ctx, const htc_env *env, const htc_balance_options *options, void **state)
{
    (void)ctx;
    (void)env;
    (void)options;
    *state = &here;
    return HTC_OK;
}

static void close_here(void *state)
{
    cr_expect(state == &here);
}

static htc_status pick_meddling(void *state, const htc_balance_view *view, htc_rng *rng, uint32_t *partition)
{
    (void)view;
    (void)rng;
    meddle_with_balance(state);
    *partition = 1;
    return HTC_OK;
}

static void learn_meddling(void *state, uint32_t partition, uint32_t free)
{
    (void)partition;
    (void)free;
    meddle_with_balance(state);
}

static htc_status pull_meddling(void *state, const uint32_t *free, uint32_t n, htc_rng *rng)
{
    (void)free;
    (void)n;
    (void)rng;
    meddle_with_balance(state);
    return HTC_OK;
}

Test(reentry, a_policy_of_balance_changes_nothing_while_it_is_asked)
{
    static const htc_balance_policy policy = { .size = sizeof policy,
                                               .name = "meddling",
                                               .tries = 3,
                                               .open = open_here,
                                               .close = close_here,
                                               .pick = pick_meddling,
                                               .learn = learn_meddling,
                                               .pull = pull_meddling };
    static const uint32_t           free[] = { 4, 4 };
    htc_balance_options             o = options_of(2, HTC_BALANCE_NONE);
    htc_rng                         rng = { 2 };
    htc_balance_action              action;
    htc_balance_answer              answer = { .taken = 3, .free = 1 };
    o.policy = &policy;
    here = (looker){ .balance = open_balance(&o) };
    cr_assert(eq(int, htc_balance_begin(here.balance, 3, &here.request), HTC_OK));
    give_census(here.balance, free, 2);
    cr_assert(eq(int, htc_balance_step(here.request, 0, &rng, NULL, &action), HTC_OK));
    cr_expect(action.kind == HTC_BALANCE_TAKE && action.partition == 1 && action.nodes == 3);
    cr_assert(eq(int, htc_balance_step(here.request, 0, &rng, &answer, &action), HTC_OK));
    cr_expect(eq(u32, action.kind, HTC_BALANCE_DONE));
    cr_expect(here.asked == 3 && here.changed == 0, "%d asked, %d changed", here.asked, here.changed);
    htc_balance_end(here.request);
    htc_balance_destroy(here.balance);
}

/* ---- locality ---- */

typedef struct placer {
    htc_locality *worker;
    int           asked, changed;
} placer;

static void meddle_with_worker(placer *p)
{
    const htc_locality_policy *builtin = htc_locality_builtin(HTC_LOCALITY_MLB), *better;
    htc_locality_task          task = { NULL, 0, 1 };
    htc_locality_place         place;
    uint64_t                   move;
    p->asked++;
    p->changed += htc_locality_place_task(p->worker, &task, &place) != HTC_EINVAL;
    p->changed += htc_locality_move(p->worker, 0, 4, &move) != HTC_EINVAL;
    p->changed += htc_locality_finished(p->worker, 0, 1, 1) != HTC_EINVAL;
    p->changed += htc_locality_steal_failed(p->worker) != HTC_EINVAL;
    p->changed += htc_locality_progress(p->worker, 1, 1) != HTC_EINVAL;
    p->changed += htc_locality_switch(p->worker, builtin) != HTC_EINVAL;
    p->changed += htc_locality_advise(p->worker, 0, &better) != HTC_EINVAL;
    htc_locality_destroy(p->worker);
}

static htc_status place_meddling(void *ctx, const htc_locality_view *view, const htc_locality_task *task,
                                 htc_locality_place *out)
{
    (void)view;
    (void)task;
    meddle_with_worker(ctx);
    out->queue = HTC_LOCALITY_LOCAL;
    return HTC_OK;
}

static uint64_t move_meddling(void *ctx, const htc_locality_view *view)
{
    meddle_with_worker(ctx);
    return view->waiting / 2;
}

Test(reentry, a_policy_of_locality_changes_nothing_while_it_is_asked)
{
    placer                    p = { .asked = 0 };
    const htc_locality_policy policy = { sizeof policy, NULL, &p, HTC_LOCALITY_FLDS, place_meddling, move_meddling };
    htc_locality_options      o = { .size = sizeof o, .policy = &policy };
    htc_locality_task         task = { NULL, 0, 1 };
    htc_locality_place        place;
    uint64_t                  move;
    cr_assert(eq(int, htc_locality_create(NULL, &o, &p.worker), HTC_OK));
    cr_assert(eq(int, htc_locality_place_task(p.worker, &task, &place), HTC_OK));
    cr_expect(eq(u32, place.queue, HTC_LOCALITY_LOCAL));
    cr_assert(eq(int, htc_locality_move(p.worker, 0, 8, &move), HTC_OK));
    cr_expect(eq(u64, move, 4));
    cr_expect(p.asked == 2 && p.changed == 0, "%d asked, %d changed", p.asked, p.changed);
    cr_expect(htc_locality_in_force(p.worker) == &policy);
    htc_locality_destroy(p.worker);
}

/* ---- dag ---- */

#define TASKS 4

typedef struct grower {
    htc_dag *dag;
    int      asked, changed, blind;
} grower;

static void meddle_with_dag(grower *g, int in_order)
{
    static const htc_ns length[TASKS + 1] = { 1, 1, 1, 1, 1 };
    htc_dag_model       model = { .size = sizeof model, .tasks = TASKS + 1, .exec_ns = length };
    const uint32_t     *children;
    uint32_t            task = 0, n = 0;
    htc_ns              bound;
    htc_status          reading = in_order ? HTC_OK : HTC_EINVAL;
    g->asked++;
    g->changed += htc_dag_add_task(g->dag, 1000) != HTC_EINVAL;
    g->changed += htc_dag_add_edge(g->dag, 1, 1000) != HTC_EINVAL;
    g->changed += htc_dag_check(g->dag, 0, NULL, &n) != HTC_EINVAL;
    g->changed += htc_dag_take(g->dag, &task) != HTC_EINVAL;
    g->changed += htc_dag_put_back(g->dag, 0) != HTC_EINVAL;
    g->changed += htc_dag_done(g->dag, 0) != HTC_EINVAL;
    g->changed += htc_dag_cancel(g->dag, 3, NULL, NULL) != HTC_EINVAL;
    g->changed += htc_dag_bound(g->dag, &model, NULL, &bound) != HTC_EINVAL;
    g->changed += htc_dag_critical_path(g->dag, TASKS + 1, length, 0, NULL, NULL, &n, &bound) != HTC_EINVAL;
    g->blind += htc_dag_children(g->dag, 0, &children, &n) != reading;
    g->blind += htc_dag_edges(g->dag, &n) != reading || htc_dag_waits(g->dag, 1, &n) != reading;
    htc_dag_destroy(g->dag);
}

static uint64_t between_meddling(void *ctx, uint32_t u, uint32_t v)
{
    (void)u;
    (void)v;
    meddle_with_dag(ctx, 1);
    return HTC_SECOND;
}

static void cancelled_meddling(void *ctx, uint32_t task, uint32_t was)
{
    (void)task;
    (void)was;
    meddle_with_dag(ctx, 0);
}

Test(reentry, a_graph_is_not_changed_by_what_it_calls)
{
    static const htc_ns   length[TASKS] = { 10, 20, 30, 40 };
    static const uint64_t bytes[TASKS] = { 5, 5, 5, 5 };
    grower                g = { .asked = 0 };
    htc_dag_model         model = { .size = sizeof model, .tasks = TASKS, .exec_ns = length, .bytes = bytes };
    htc_ns                bound;
    model.between = between_meddling;
    model.ctx = &g;
    cr_assert(eq(int, htc_dag_create(NULL, NULL, &g.dag), HTC_OK));
    for (uint32_t t = 0; t < TASKS; t++)
        cr_assert(eq(int, htc_dag_add_task(g.dag, t), HTC_OK));
    for (uint32_t t = 1; t < TASKS; t++)
        cr_assert(eq(int, htc_dag_add_edge(g.dag, t - 1, t), HTC_OK));
    cr_assert(eq(int, htc_dag_bound(g.dag, &model, NULL, &bound), HTC_OK));
    cr_expect(eq(u64, bound, 100), "a chain runs where it began");
    cr_assert(eq(int, htc_dag_add_edge(g.dag, 0, 2), HTC_OK));
    int asked = g.asked;
    cr_assert(eq(int, htc_dag_cancel(g.dag, 0, cancelled_meddling, &g), HTC_OK));
    cr_expect(asked > 0 && g.asked == asked + TASKS, "%d, then %d", asked, g.asked);
    cr_expect(g.changed == 0 && g.blind == 0, "%d changed, %d blind", g.changed, g.blind);
    for (uint32_t t = 0; t < TASKS; t++)
        cr_expect(eq(u32, htc_dag_state_of(g.dag, t), HTC_DAG_CANCELLED));
    htc_dag_destroy(g.dag);
}
