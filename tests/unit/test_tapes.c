/* States that go through a tape: what is read goes on as what was written does. */
#include "property.h"
#include "reel.h"

#include "htcsched/balance.h"
#include "htcsched/dag.h"
#include "htcsched/fit.h"
#include "htcsched/hierarchy.h"
#include "htcsched/locality.h"
#include "htcsched/provision.h"
#include "htcsched/registry.h"

static reel     film;
static htc_tape writes = { .size = sizeof writes, .move = reel_write, .ctx = &film }, reads = { .size = sizeof reads, .reads = 1, .move = reel_read, .ctx = &film };

static const htc_tape *to(void)
{
    film.len = film.at = 0;
    return &writes;
}

/* ---- fit ---- */

static void play(htc_rng *rng, htc_fit *fit, htc_ns *now, uint64_t *next, uint64_t *told)
{
    static uint64_t running[4096];
    static size_t   n;
    n = *next ? n : 0;
    for (int i = 0; i < 40; i++) {
        htc_fit_job job = { .id = ++*next, .nodes = 1 + (uint32_t)htc_rng_below(rng, 30), .estimate = 1 + htc_rng_below(rng, 1000), .priority = (uint32_t)htc_rng_below(rng, 3) };
        *now += htc_rng_below(rng, 100);
        if (htc_fit_submit(fit, *now, &job) != HTC_OK)
            return;
        while (htc_fit_next(fit, *now, &job) == HTC_OK) {
            *told = *told * 31 + job.id;
            running[n++] = job.id;
        }
        for (size_t k = 0; k < n;)
            if (htc_rng_below(rng, 6) == 0) {
                cr_assert(eq(int, htc_fit_end(fit, *now, running[k]), HTC_OK));
                running[k] = running[--n];
            } else {
                k++;
            }
    }
}

/* Both halves with one fit; the second half again, with another one that has read its state. */
Test(tapes, a_fit_goes_on)
{
    static const char *const names[] = { "easy", "fcfs", "first_fit", "conservative" };
    htc_registry            *registry = NULL;
    cr_assert(htc_registry_create(NULL, &registry) == HTC_OK && htc_registry_add_builtin(registry) == HTC_OK);
    PROPERTY (rng, 200) {
        htc_fit_options o = HTC_FIT_OPTIONS_INIT;
        htc_fit        *fit = NULL, *other = NULL;
        uint64_t        seed = htc_rng_next(&rng), told[2] = { 0 };
        o.nodes = 32;
        cr_assert(eq(int, htc_fit_find(registry, names[htc_rng_below(&rng, 4)], &o.policy), HTC_OK));
        for (int half = 0; half < 2; half++) { /* 0: one fit plays all; 1: it is written and read in the middle */
            htc_rng  dice = { seed };
            htc_ns   now = 0;
            uint64_t next = 0;
            cr_assert(eq(int, htc_fit_create(NULL, &o, &fit), HTC_OK));
            play(&dice, fit, &now, &next, &told[half]);
            if (half) {
                cr_assert(eq(int, htc_fit_tape(fit, to()), HTC_OK));
                cr_assert(eq(int, htc_fit_create(NULL, &o, &other), HTC_OK));
                cr_assert(eq(int, htc_fit_tape(other, &reads), HTC_OK));
                htc_fit_destroy(fit);
                fit = other;
            }
            play(&dice, fit, &now, &next, &told[half]);
            htc_fit_destroy(fit);
        }
        HOLDS(told[0] == told[1] && told[0]);
    }
    htc_fit_options o = HTC_FIT_OPTIONS_INIT;
    htc_fit        *fit = NULL, *other = NULL;
    cr_assert(eq(int, htc_fit_create(NULL, &o, &fit), HTC_OK));
    o.jobs_max = 7;
    cr_assert(eq(int, htc_fit_create(NULL, &o, &other), HTC_OK));
    cr_expect(eq(int, htc_fit_tape(fit, to()), HTC_OK) && eq(int, htc_fit_tape(other, &reads), HTC_EFORMAT));
    cr_expect(eq(int, htc_fit_tape(fit, NULL), HTC_EINVAL) && eq(int, htc_fit_tape(NULL, &reads), HTC_EINVAL));
    htc_fit_destroy(fit);
    htc_fit_destroy(other);
    htc_registry_destroy(registry);
}

/* ---- balance ---- */

#define PARTS 12

/* A request after the other, until each has its nodes or has begun anew five times. */
static uint64_t seek(htc_balance *b, htc_balance_request *r, htc_rng *rng, uint32_t *free, uint64_t steps)
{
    htc_balance_action a = { 0 };
    htc_balance_answer got = HTC_BALANCE_ANSWER_INIT;
    uint64_t           told = 0;
    (void)b;
    for (htc_ns now = 0; steps-- && a.kind != HTC_BALANCE_DONE;) {
        cr_assert(eq(int, htc_balance_step(r, now, rng, &got, &a), HTC_OK));
        told = told * 31 + a.kind * 1000 + a.partition;
        if (a.kind == HTC_BALANCE_WAIT)
            now = a.until;
        got.taken = a.kind != HTC_BALANCE_TAKE ? 0 : a.nodes < free[a.partition] ? a.nodes : free[a.partition];
        got.free = a.kind == HTC_BALANCE_TAKE ? free[a.partition] -= got.taken : HTC_BALANCE_UNKNOWN;
    }
    return told;
}

Test(tapes, a_controller_and_its_request_go_on)
{
    htc_registry *registry = NULL;
    cr_assert(htc_registry_create(NULL, &registry) == HTC_OK && htc_registry_add_builtin(registry) == HTC_OK);
    PROPERTY (rng, 300) {
        htc_balance_options  o = HTC_BALANCE_OPTIONS_INIT;
        htc_balance_monitor *m = NULL, *m2 = NULL;
        uint32_t             near[3] = { 2, 3, 7 }, free[2][PARTS];
        uint64_t             seed = htc_rng_next(&rng), told[2] = { 0 }, steps = 1 + htc_rng_below(&rng, 20);
        cr_assert(eq(int, htc_balance_find(registry, htc_rng_below(&rng, 2) ? "random" : "monitored", &o.policy), HTC_OK));
        o.partitions = PARTS;
        o.own = 5;
        o.near = near;
        o.near_count = (uint32_t)htc_rng_below(&rng, 2) * 3;
        for (int i = 0; i < PARTS; i++)
            free[0][i] = free[1][i] = (uint32_t)htc_rng_below(&rng, 200);
        for (int half = 0; half < 2; half++) {
            htc_balance         *b = NULL, *b2 = NULL;
            htc_balance_request *r = NULL, *r2 = NULL;
            htc_rng              dice = { seed };
            htc_balance_action   a = { 0 };
            cr_assert(eq(int, htc_balance_monitor_create(NULL, PARTS, 0, &m), HTC_OK));
            for (uint32_t i = 0; a.kind != HTC_BALANCE_PUBLISH; i++) {
                cr_assert(eq(int, htc_balance_monitor_step(m, 0, &(htc_balance_answer){ .free = a.kind ? free[half][a.partition] : 0 }, &a), HTC_OK));
                if (half && i == steps % PARTS) { /* the monitor in the middle of its round */
                    cr_assert(eq(int, htc_balance_monitor_tape(m, to()), HTC_OK) && eq(int, htc_balance_monitor_create(NULL, PARTS, 0, &m2), HTC_OK));
                    cr_assert(eq(int, htc_balance_monitor_tape(m2, &reads), HTC_OK));
                    htc_balance_monitor_destroy(m);
                    m = m2;
                }
            }
            cr_assert(eq(int, htc_balance_create(NULL, &o, &b), HTC_OK) && eq(int, htc_balance_begin(b, 900, &r), HTC_OK));
            if (o.policy->pull)
                cr_assert(eq(int, htc_balance_pull(b, 0, &dice, a.body), HTC_OK));
            htc_balance_monitor_destroy(m);
            told[half] = seek(b, r, &dice, free[half], steps);
            if (half) {
                cr_assert(eq(int, htc_balance_tape(b, to()), HTC_OK) && eq(int, htc_balance_create(NULL, &o, &b2), HTC_OK));
                cr_assert(eq(int, htc_balance_tape(b2, &reads), HTC_OK));
                cr_assert(eq(int, htc_balance_request_tape(r, to()), HTC_OK) && eq(int, htc_balance_begin(b2, 1, &r2), HTC_OK));
                cr_assert(eq(int, htc_balance_request_tape(r2, &reads), HTC_OK));
                htc_balance_end(r);
                htc_balance_destroy(b);
                b = b2;
                r = r2;
            }
            told[half] += 7 * seek(b, r, &dice, free[half], 200);
            htc_balance_end(r);
            htc_balance_destroy(b);
        }
        HOLDS(told[0] == told[1] && memcmp(free[0], free[1], sizeof free[0]) == 0);
    }
    htc_balance_options o = HTC_BALANCE_OPTIONS_INIT;
    htc_balance        *b = NULL, *b2 = NULL;
    o.partitions = 3;
    cr_assert(eq(int, htc_balance_create(NULL, &o, &b), HTC_OK));
    o.partitions = 4;
    cr_assert(eq(int, htc_balance_create(NULL, &o, &b2), HTC_OK));
    cr_expect(eq(int, htc_balance_tape(b, to()), HTC_OK) && eq(int, htc_balance_tape(b2, &reads), HTC_EFORMAT));
    cr_expect(eq(int, htc_balance_tape(b, NULL), HTC_EINVAL) && eq(int, htc_balance_tape(NULL, &reads), HTC_EINVAL));
    cr_expect(eq(int, htc_balance_request_tape(NULL, &reads), HTC_EINVAL) && eq(int, htc_balance_monitor_tape(NULL, &reads), HTC_EINVAL));
    htc_balance_destroy(b);
    htc_balance_destroy(b2);
    htc_registry_destroy(registry);
    free(film.data);
}

/* ---- hierarchy: test_sim_grids.c has runs that go on ---- */

Test(tapes, a_hierarchy_of_other_options_is_refused)
{
    static const uint32_t zero = 0;
    htc_hierarchy_grid    grid = { .cpus = 4 };
    htc_hierarchy_queue   queue = { .level = 1, .next = HTC_HIERARCHY_NOWHERE, .grids = &zero, .grid_count = 1, .te_ns = HTC_SECOND, .tq_ns = HTC_SECOND, .cpus = 4, .kflops = 10 };
    htc_hierarchy_options o = { .size = sizeof o, .grids = &grid, .grid_count = 1, .queues = &queue, .queue_count = 1 };
    htc_hierarchy        *h = NULL, *other = NULL;
    htc_tape              wrong = reads;
    cr_assert(eq(int, htc_hierarchy_create(NULL, &o, &h), HTC_OK));
    o.tasks_max = 9;
    cr_assert(eq(int, htc_hierarchy_create(NULL, &o, &other), HTC_OK));
    cr_expect(eq(int, htc_hierarchy_tape(h, to()), HTC_OK) && eq(int, htc_hierarchy_tape(other, &reads), HTC_EFORMAT));
    film.at = 0;
    cr_expect(eq(int, htc_hierarchy_tape(h, &reads), HTC_OK));
    wrong.move = NULL;
    cr_expect(eq(int, htc_hierarchy_tape(h, &wrong), HTC_EINVAL) && eq(int, htc_hierarchy_tape(h, NULL), HTC_EINVAL) && eq(int, htc_hierarchy_tape(NULL, &reads), HTC_EINVAL));
    wrong = reads;
    wrong.size--;
    cr_expect(eq(int, htc_hierarchy_tape(h, &wrong), HTC_EINVAL));
    htc_hierarchy_destroy(h);
    htc_hierarchy_destroy(other);
    free(film.data);
}

/* ---- books of leases, graphs, what localities have learned: with a byte changed they are refused, or can still be used ---- */

static void damage(htc_rng *rng)
{
    film.data[htc_rng_below(rng, film.len)] ^= (unsigned char)(1 + htc_rng_below(rng, 255));
    film.at = 0;
}

static uint64_t lease_and_return(htc_rng *rng, htc_provision *p, htc_ns *now, int steps)
{
    uint64_t            told = 0;
    htc_provision_usage u = { 0 };
    for (int i = 0; i < steps && htc_provision_usage_at(p, *now, &u) == HTC_OK; i++) {
        uint64_t             waits = htc_rng_below(rng, 3) ? 0 : 1 + htc_rng_below(rng, 90);
        htc_provision_demand d = { .waiting_jobs = waits > 0, .waiting_nodes = waits, .waiting_largest = waits, .running_nodes = htc_rng_below(rng, u.owned + 1) };
        htc_provision_order  order = { 0 };
        htc_ns               due = htc_provision_deadline(p);
        *now = due > *now && due != HTC_NEVER ? due : *now;
        if (htc_provision_scan(p, *now, &d, &order) == HTC_OK)
            (void)htc_provision_granted(p, *now, htc_rng_below(rng, order.nodes + 1));
        (void)htc_provision_check(p, *now, &d, &order);
        (void)htc_provision_usage_at(p, *now, &u);
        told = told * 31 + order.nodes + u.node_units + u.node_seconds + u.owned + u.rejected_in_row;
    }
    return told;
}

Test(tapes, a_book_of_leases_goes_on)
{
    PROPERTY (rng, 300) {
        htc_provision_options o = HTC_PROVISION_OPTIONS_INIT;
        uint64_t              seed = htc_rng_next(&rng), told[2] = { 0 };
        int                   steps = 1 + (int)htc_rng_below(&rng, 80);
        o.unit_ns = 600 * HTC_SECOND;
        o.policy = htc_provision_policy_of((uint32_t)htc_rng_below(&rng, 2));
        for (int half = 0; half < 2; half++) {
            htc_provision *p = NULL, *other = NULL;
            htc_rng        dice = { seed };
            htc_ns         now = 0;
            cr_assert(eq(int, htc_provision_create(NULL, &o, 0, &p), HTC_OK));
            told[half] = lease_and_return(&dice, p, &now, steps);
            if (half) {
                cr_assert(eq(int, htc_provision_tape(p, to()), HTC_OK) && eq(int, htc_provision_create(NULL, &o, 0, &other), HTC_OK));
                cr_assert(eq(int, htc_provision_tape(other, &reads), HTC_OK));
                htc_provision_destroy(p);
                p = other;
            }
            told[half] += 7 * lease_and_return(&dice, p, &now, 80);
            htc_provision_destroy(p);
        }
        HOLDS(told[0] == told[1] && told[0]);
        for (int i = 0; i < 20; i++) {
            htc_provision *p = NULL;
            htc_rng        dice = { seed };
            htc_ns         now = 100 * 3600 * HTC_SECOND;
            cr_assert(eq(int, htc_provision_create(NULL, &o, 0, &p), HTC_OK));
            damage(&rng);
            if (htc_provision_tape(p, &reads) == HTC_OK)
                (void)lease_and_return(&dice, p, &now, 20);
            htc_provision_destroy(p);
        }
    }
    htc_provision_options o = HTC_PROVISION_OPTIONS_INIT;
    htc_provision        *p = NULL, *other = NULL;
    cr_assert(eq(int, htc_provision_create(NULL, &o, 0, &p), HTC_OK));
    o.initial = 7;
    cr_assert(eq(int, htc_provision_create(NULL, &o, 0, &other), HTC_OK));
    cr_expect(eq(int, htc_provision_tape(p, to()), HTC_OK) && eq(int, htc_provision_tape(other, &reads), HTC_EFORMAT));
    cr_expect(eq(int, htc_provision_tape(p, NULL), HTC_EINVAL) && eq(int, htc_provision_tape(NULL, &reads), HTC_EINVAL));
    htc_provision_destroy(p);
    htc_provision_destroy(other);
    free(film.data);
    film = (reel){ 0 };
}

#define KNOTS 60

/* Tasks and edges come while others run, end and are cancelled. */
static uint64_t grow_and_run(htc_rng *rng, htc_dag *d, int steps)
{
    uint64_t told = 0;
    for (int i = 0; i < steps; i++) {
        uint32_t a = (uint32_t)htc_rng_below(rng, KNOTS), b = (uint32_t)htc_rng_below(rng, KNOTS), task = 0;
        if (htc_rng_below(rng, 3))
            (void)htc_dag_add_edge(d, a < b ? a : b, a < b ? b : a);
        else
            (void)htc_dag_add_task(d, a);
        if (htc_rng_below(rng, 4) == 0 && htc_dag_take(d, &task) == HTC_OK)
            told = told * 31 + task + 1;
        if (htc_rng_below(rng, 3) == 0)
            told = told * 31 + (htc_dag_done(d, b) == HTC_OK);
        if (htc_rng_below(rng, 40) == 0)
            (void)htc_dag_cancel(d, a, NULL, NULL);
        if (htc_rng_below(rng, 30) == 0 && htc_dag_edges(d, &task) == HTC_OK)
            told = told * 31 + task;
    }
    for (uint32_t task; htc_dag_take(d, &task) == HTC_OK;) {
        told = told * 31 + task + 1;
        (void)htc_dag_done(d, task);
    }
    return told;
}

static htc_dag *open_dag(uint32_t tasks_max)
{
    htc_dag_options o = HTC_DAG_OPTIONS_INIT;
    htc_dag        *d = NULL;
    o.tasks_max = tasks_max;
    cr_assert(eq(int, htc_dag_create(NULL, &o, &d), HTC_OK));
    return d;
}

Test(tapes, a_graph_goes_on)
{
    PROPERTY (rng, 300) {
        uint64_t seed = htc_rng_next(&rng), told[2] = { 0 };
        int      steps = 1 + (int)htc_rng_below(&rng, 200);
        for (int half = 0; half < 2; half++) {
            htc_dag *d = open_dag(KNOTS), *other = NULL;
            htc_rng  dice = { seed };
            for (int i = 0; i < steps; i++)
                told[half] += (uint64_t)htc_dag_add_edge(d, (uint32_t)htc_rng_below(&dice, KNOTS / 2), KNOTS / 2 + (uint32_t)htc_rng_below(&dice, KNOTS / 2));
            told[half] += grow_and_run(&dice, d, steps);
            if (half) {
                cr_assert(eq(int, htc_dag_tape(d, to()), HTC_OK));
                other = open_dag(KNOTS);
                cr_assert(eq(int, htc_dag_tape(other, &reads), HTC_OK), "seed %llu", (unsigned long long)property_seed);
                cr_assert(eq(int, htc_dag_tape(other, &reads), HTC_EINVAL)); /* it has tasks */
                htc_dag_destroy(d);
                d = other;
            }
            told[half] += 7 * grow_and_run(&dice, d, 300);
            htc_dag_destroy(d);
        }
        HOLDS(told[0] == told[1]);
        for (int i = 0; i < 20; i++) {
            htc_dag *d = open_dag(KNOTS);
            htc_rng  dice = { seed };
            damage(&rng);
            if (htc_dag_tape(d, &reads) == HTC_OK)
                (void)grow_and_run(&dice, d, 50);
            htc_dag_destroy(d);
        }
    }
    htc_dag *d = open_dag(KNOTS), *other = open_dag(KNOTS + 1);
    cr_expect(eq(int, htc_dag_tape(d, to()), HTC_OK) && eq(int, htc_dag_tape(other, &reads), HTC_EFORMAT));
    cr_expect(eq(int, htc_dag_tape(d, NULL), HTC_EINVAL) && eq(int, htc_dag_tape(NULL, &reads), HTC_EINVAL));
    htc_dag_destroy(d);
    htc_dag_destroy(other);
    free(film.data);
    film = (reel){ 0 };
}

static uint64_t learn(htc_rng *rng, htc_locality *l, htc_locality_lengths *lengths, htc_ns *now, int steps)
{
    uint64_t told = 0, move = 0;
    htc_ns   est = 0;
    for (int i = 0; i < steps; i++) {
        uint64_t bytes = htc_rng_below(rng, 1000000);
        *now += htc_rng_below(rng, 4 * HTC_SECOND);
        (void)htc_locality_finished(l, *now, bytes, bytes / (1 + htc_rng_below(rng, 3)));
        (void)htc_locality_learn(lengths, htc_rng_below(rng, 5), htc_rng_below(rng, HTC_SECOND), 1 + htc_rng_below(rng, 3));
        (void)htc_locality_progress(l, htc_rng_below(rng, 90), 100);
        if (htc_locality_move(l, *now, htc_rng_below(rng, 30), &move) == HTC_OK)
            told = told * 31 + move;
        if (htc_rng_below(rng, 3) == 0)
            told = told * 31 + (uint64_t)htc_locality_steal_failed(l);
        (void)htc_locality_estimate(lengths, htc_rng_below(rng, 6), rng, &est);
        told = told * 31 + htc_locality_tt(l) + est;
    }
    return told;
}

static void open_locality(const htc_locality_options *o, const htc_locality_lengths_options *lo, htc_locality **l, htc_locality_lengths **lengths)
{
    cr_assert(eq(int, htc_locality_create(NULL, o, l), HTC_OK) && eq(int, htc_locality_lengths_create(NULL, lo, lengths), HTC_OK));
}

static void close_locality(htc_locality *l, htc_locality_lengths *lengths)
{
    htc_locality_destroy(l);
    htc_locality_lengths_destroy(lengths);
}

Test(tapes, a_locality_goes_on)
{
    PROPERTY (rng, 200) {
        htc_locality_options         o = HTC_LOCALITY_OPTIONS_INIT;
        htc_locality_lengths_options lo = HTC_LOCALITY_LENGTHS_OPTIONS_INIT;
        htc_locality                *l = NULL, *l2 = NULL;
        htc_locality_lengths        *lengths = NULL, *lengths2 = NULL;
        uint64_t                     seed = htc_rng_next(&rng), told[2] = { 0 };
        int                          steps = (int)htc_rng_below(&rng, 60);
        o.tt_rule = (uint32_t)htc_rng_below(&rng, 3);
        lo.estimator = (uint32_t)htc_rng_below(&rng, 3);
        for (int half = 0; half < 2; half++) {
            htc_rng dice = { seed };
            htc_ns  now = 0;
            open_locality(&o, &lo, &l, &lengths);
            told[half] = learn(&dice, l, lengths, &now, steps);
            if (half) {
                cr_assert(eq(int, htc_locality_tape(l, to()), HTC_OK) && eq(int, htc_locality_lengths_tape(lengths, &writes), HTC_OK));
                open_locality(&o, &lo, &l2, &lengths2);
                cr_assert(eq(int, htc_locality_tape(l2, &reads), HTC_OK) && eq(int, htc_locality_lengths_tape(lengths2, &reads), HTC_OK));
                close_locality(l, lengths);
                l = l2;
                lengths = lengths2;
            }
            told[half] += 7 * learn(&dice, l, lengths, &now, 60);
            close_locality(l, lengths);
        }
        HOLDS(told[0] == told[1] && told[0]);
        for (int i = 0; i < 20; i++) {
            htc_rng dice = { seed };
            htc_ns  now = 0;
            damage(&rng);
            open_locality(&o, &lo, &l, &lengths);
            if (htc_locality_tape(l, &reads) == HTC_OK && htc_locality_lengths_tape(lengths, &reads) == HTC_OK)
                (void)learn(&dice, l, lengths, &now, 20);
            close_locality(l, lengths);
        }
    }
    htc_locality_options         o = HTC_LOCALITY_OPTIONS_INIT;
    htc_locality_lengths_options lo = HTC_LOCALITY_LENGTHS_OPTIONS_INIT;
    htc_locality                *l = NULL, *l2 = NULL;
    htc_locality_lengths        *lengths = NULL, *lengths2 = NULL;
    open_locality(&o, &lo, &l, &lengths);
    o.self = 1;
    lo.kinds_max = 9;
    open_locality(&o, &lo, &l2, &lengths2);
    cr_expect(eq(int, htc_locality_tape(l, to()), HTC_OK) && eq(int, htc_locality_tape(l2, &reads), HTC_EFORMAT));
    cr_expect(eq(int, htc_locality_lengths_tape(lengths, to()), HTC_OK) && eq(int, htc_locality_lengths_tape(lengths2, &reads), HTC_EFORMAT));
    cr_expect(eq(int, htc_locality_tape(l, NULL), HTC_EINVAL) && eq(int, htc_locality_tape(NULL, &reads), HTC_EINVAL));
    cr_expect(eq(int, htc_locality_lengths_tape(lengths, NULL), HTC_EINVAL) && eq(int, htc_locality_lengths_tape(NULL, &reads), HTC_EINVAL));
    close_locality(l, lengths);
    close_locality(l2, lengths2);
    free(film.data);
    film = (reel){ 0 };
}
