/* The grid execution hierarchy: limits, who enters, who has to leave, and a naive model that agrees with all of it. */
#include "expect.h"
#include <math.h>

#include "hierarchy_fixture.h"
#include "hierarchy_model.h"
#include "property.h"

/* Equation 1 and table 2: the values of 3.1, to four digits. */
Test(hierarchy, limits_are_those_of_table_2)
{
    static const struct {
        double ce, cq, ce_cpu_s, cq_cpu_s;
    } published[] = { { 2.943e8, 5.886e8, 360, 720 },
                      { 7.442e11, 1.488e12, 960000, 1920000 },
                      { 3.118e12, 3.118e12, 4800000, 4800000 },
                      { 5.612e13, 5.612e13, 86400000, 86400000 } };
    superlink      s = superlink_2005();
    htc_hierarchy *h = open_superlink();
    for (uint32_t q = 0; q < 4; q++) {
        htc_hierarchy_queue_info i = look(h, q);
        cr_expect(fabs(i.ce_kflop / published[q].ce - 1) < 5e-4, "C_e of queue %u: %g", q, i.ce_kflop);
        cr_expect(fabs(i.cq_kflop / published[q].cq - 1) < 5e-4, "C_q of queue %u: %g", q, i.cq_kflop);
        cr_expect(fabs(i.ce_kflop / s.queues[q].kflops / published[q].ce_cpu_s - 1) < 1e-12);
        cr_expect(fabs(i.cq_kflop / s.queues[q].kflops / published[q].cq_cpu_s - 1) < 1e-12);
        cr_expect(eq(dbl, i.ce_kflop, htc_hierarchy_phi(s.queues[q].te_ns, s.queues[q].cpus, s.queues[q].kflops, 1)));
    }
    cr_expect(eq(dbl, htc_hierarchy_phi(10 * HTC_SECOND, 4, 100, 0.5), 2000));
    cr_expect(eq(dbl, htc_hierarchy_phi(10 * HTC_SECOND, 4, NAN, 0.5), 0));
    cr_expect(eq(dbl, htc_hierarchy_phi(10 * HTC_SECOND, 4, 100, -1), 0));
    cr_expect(eq(dbl, htc_hierarchy_phi(0, 4, INFINITY, 0.5), 0));
    cr_expect(eq(dbl, htc_hierarchy_phi(10 * HTC_SECOND, 4, 100, INFINITY), 0));
    htc_hierarchy_destroy(h);
}

#define BUT(reason) ((62u & ~(1u << (reason))) | HTC_HIERARCHY_NO_POLICY)

/* Figure 1, branch by branch. full: Q exceeds C_q by one; known: the job's C as it comes; bound: what its estimator says, 0: nothing.
 * C_e is 20 above and 200 below. */
Test(hierarchy, process_new_task_is_figure_1)
{
    static const struct {
        const char *what;
        uint32_t    queue;
        int         full;
        double      known, bound;
        uint32_t    policies, flags;
        uint32_t    first; /* action on arrival */
        uint32_t    last;  /* action in the end */
        uint32_t    reason;
    } table[] = {
        { "small", 0, 0, 20, 0, 0, 0, HTC_HIERARCHY_QUEUE, 0, 0 },
        { "too large, as known", 0, 0, 21, 0, 0, 0, HTC_HIERARCHY_ESTIMATE, HTC_HIERARCHY_MIGRATE, HTC_HIERARCHY_MISMATCH },
        { "the estimator knows better", 0, 0, 21, 20, 0, 0, HTC_HIERARCHY_ESTIMATE, HTC_HIERARCHY_QUEUE, 0 },
        { "the estimator knows worse", 0, 0, 21, 22, 0, 0, HTC_HIERARCHY_ESTIMATE, HTC_HIERARCHY_MIGRATE, HTC_HIERARCHY_MISMATCH },
        { "not known, estimated small", 0, 0, 0, 20, 0, 0, HTC_HIERARCHY_ESTIMATE, HTC_HIERARCHY_QUEUE, 0 },
        { "not known, estimated large", 0, 0, 0, 21, 0, 0, HTC_HIERARCHY_ESTIMATE, HTC_HIERARCHY_MIGRATE, HTC_HIERARCHY_MISMATCH },
        { "its estimator crashes", 0, 0, 0, 0, 0, 0, HTC_HIERARCHY_ESTIMATE, HTC_HIERARCHY_MIGRATE, HTC_HIERARCHY_MISMATCH },
        { "overload, small", 0, 1, 1, 0, 0, 0, HTC_HIERARCHY_MIGRATE, 0, HTC_HIERARCHY_OVERLOAD },
        { "overload comes before estimation", 0, 1, 0, 0, 0, 0, HTC_HIERARCHY_MIGRATE, 0, HTC_HIERARCHY_OVERLOAD },
        { "overload, rejects", 0, 1, 1, 0, 0, HTC_HIERARCHY_REJECTS, HTC_HIERARCHY_REJECT, 0, HTC_HIERARCHY_OVERLOAD },
        { "a queue that rejects passes a mismatch down", 0, 0, 21, 0, 0, HTC_HIERARCHY_REJECTS, HTC_HIERARCHY_ESTIMATE,
          HTC_HIERARCHY_MIGRATE, HTC_HIERARCHY_MISMATCH },
        { "no overload policy", 0, 1, 1, 0, BUT(HTC_HIERARCHY_OVERLOAD), 0, HTC_HIERARCHY_QUEUE, 0, 0 },
        { "no mismatch policy", 0, 0, 21, 0, BUT(HTC_HIERARCHY_MISMATCH), 0, HTC_HIERARCHY_ESTIMATE, HTC_HIERARCHY_QUEUE, 0 },
        { "no mismatch policy, not known", 0, 0, 0, 0, BUT(HTC_HIERARCHY_MISMATCH), 0, HTC_HIERARCHY_ESTIMATE, HTC_HIERARCHY_QUEUE, 0 },
        { "lowest, small", 1, 0, 200, 0, 0, 0, HTC_HIERARCHY_QUEUE, 0, 0 },
        { "lowest, too large", 1, 0, 201, 0, 0, 0, HTC_HIERARCHY_ESTIMATE, HTC_HIERARCHY_REJECT, HTC_HIERARCHY_MISMATCH },
        { "lowest, overload", 1, 1, 1, 0, 0, 0, HTC_HIERARCHY_REJECT, 0, HTC_HIERARCHY_OVERLOAD },
    };
    for (size_t i = 0; i < sizeof table / sizeof *table; i++) {
        htc_hierarchy_queue    spec = { .policies = table[i].policies, .flags = table[i].flags };
        htc_hierarchy         *h = open_small(spec, spec, NULL);
        uint32_t               q = table[i].queue;
        htc_hierarchy_job      before = { .size = sizeof before, .id = 1, .kflop = q ? 201 : 41 };
        htc_hierarchy_decision d;
        if (table[i].full)
            cr_assert(eq(int, htc_hierarchy_restore(h, q, &before, 0), HTC_OK));
        d = arrive(h, q, 7, table[i].known, 100);
        cr_expect(eq(u32, d.action, table[i].first), "%s", table[i].what);
        cr_expect(eq(u64, d.id, 7));
        if (d.action == HTC_HIERARCHY_ESTIMATE) {
            cr_expect(eq(u64, d.until, 100 + (q ? 6 * HTC_SECOND : 600 * HTC_MS)), "%s: alpha * T_e", table[i].what);
            cr_expect(eq(u32, d.cpus, q ? 2 : 1));
            cr_expect(eq(u64, look(h, q).estimating, 1));
            if (table[i].bound > 0)
                cr_assert(eq(int, htc_hierarchy_bound(h, 7, table[i].bound, 101, &d), HTC_OK));
            if (d.action == HTC_HIERARCHY_ESTIMATE)
                cr_assert(eq(int, htc_hierarchy_estimated(h, 7, 102, &d), HTC_OK));
            cr_expect(eq(u32, d.action, table[i].last), "%s", table[i].what);
        }
        cr_expect(eq(u32, d.reason, table[i].reason), "%s", table[i].what);
        cr_expect(eq(u32, d.to, d.action == HTC_HIERARCHY_MIGRATE ? 1 : HTC_HIERARCHY_NOWHERE), "%s", table[i].what);
        cr_expect(eq(u64, look(h, q).out[table[i].reason], table[i].reason ? 1 : 0), "%s", table[i].what);
        if (d.action == HTC_HIERARCHY_REJECT) {
            cr_expect(eq(dbl, d.limit, 200), "a rejection tells the largest C_e");
            cr_expect(eq(int, htc_hierarchy_remove(h, 7, 103), HTC_ENOTFOUND), "and the job is forgotten");
        }
        htc_hierarchy_destroy(h);
    }
}

/* Q is that of the latest scan and what was appended since: a burst cannot slip through between two scans (3.3). C_q is 40: while Q
 * is 40 a job gets in, after it none. */
Test(hierarchy, a_burst_does_not_slip_in_between_two_scans)
{
    htc_hierarchy *h = open_small(PLAIN, PLAIN, NULL);
    for (uint64_t id = 1; id <= 3; id++)
        cr_expect(eq(u32, arrive(h, 0, id, 20, id).action, HTC_HIERARCHY_QUEUE));
    cr_expect(eq(dbl, look(h, 0).load_kflop, 60));
    cr_expect(eq(u32, arrive(h, 0, 4, 1, 4).reason, HTC_HIERARCHY_OVERLOAD));
    htc_hierarchy_destroy(h);
}

/* One job of a hand-made queue: its C, how long it is here, how long it runs (0: not), and how much of its one task's C is running. */
typedef struct row {
    double c;
    double tq_s, te_s;
    double task; /* KFlop of a running task, started te_s ago; 0: none */
} row;

/* Figure 2 by hand. Above: N = 2, P = 1, T_e = 10 s, T_q = 20 s: C_e = 20, C_q = 40. */
Test(hierarchy, enforce_queue_limits_is_figure_2)
{
    enum { GO = HTC_HIERARCHY_NO_REASON, OVER = HTC_HIERARCHY_OVERDUE, JOB = HTC_HIERARCHY_JOB_POTENTIAL,
           QUEUE = HTC_HIERARCHY_QUEUE_POTENTIAL };
    static const struct {
        const char *what;
        uint32_t    policies;
        size_t      n;
        row         jobs[5];
        uint32_t    reasons[5];
        double      load;
    } table[] = {
        { "nothing", 0, 0, { { 0, 0, 0, 0 } }, { 0 }, 0 },
        { "one that fits to the last", 0, 1, { { 20, 0, 0, 0 } }, { GO }, 20 },
        { "2b, first term: phi(10 - 4) = 12", 0, 2, { { 12, 4, 4, 0 }, { 12.5, 4, 4, 0 } }, { GO, JOB }, 12 },
        { "2b, second term: phi(20 - 15) = 10", 0, 2, { { 10, 15, 0, 0 }, { 10.5, 15, 0, 0 } }, { GO, JOB }, 10 },
        { "2b sees the progress of the running task", 0, 1, { { 16, 4, 4, 16 } }, { GO }, 12 },
        { "which counts 95 % of it at most", 0, 2, { { 2, 9, 9, 2 }, { 2, 9, 9, 0 } }, { GO, GO }, 2.1 },
        { "2c: the third is too many", 0, 3, { { 20, 0, 0, 0 }, { 20, 0, 0, 0 }, { 1, 0, 0, 0 } }, { GO, GO, QUEUE }, 40 },
        { "2c: a smaller one behind still fits", 0, 4, { { 20, 0, 0, 0 }, { 18, 0, 0, 0 }, { 3, 0, 0, 0 }, { 2, 0, 0, 0 } },
          { GO, GO, QUEUE, GO }, 40 },
        { "1, by t_q", 0, 2, { { 1, 20.5, 0, 0 }, { 1, 0, 0, 0 } }, { OVER, GO }, 1 },
        { "1, by t_e", 0, 2, { { 1, 11, 10.5, 0 }, { 1, 0, 0, 0 } }, { OVER, GO }, 1 },
        { "1 is over the limit, not on it", 0, 2, { { 0, 20, 10, 0 }, { 1, 0, 0, 0 } }, { GO, GO }, 1 },
        { "who is not started has t_e = 0", 0, 2, { { 1, 15, 0, 0 }, { 1, 0, 0, 0 } }, { GO, GO }, 2 },
        { "who leaves contributes nothing", 0, 4, { { 20, 21, 0, 0 }, { 20, 12, 1, 0 }, { 20, 0, 0, 0 }, { 20, 0, 0, 0 } },
          { OVER, JOB, GO, GO }, 40 },
        { "1 before 2b before 2c", 0, 4, { { 40, 21, 0, 0 }, { 20, 0, 0, 0 }, { 20, 0, 0, 0 }, { 21, 0, 0, 0 } },
          { OVER, GO, GO, JOB }, 40 },
        { "head to tail: the early one stays", 0, 3, { { 15, 3, 0, 0 }, { 15, 2, 0, 0 }, { 15, 1, 0, 0 } }, { GO, GO, QUEUE }, 30 },
        { "all overdue, and several of them: all go", 0, 2, { { 1, 21, 0, 0 }, { 1, 21, 0, 0 } }, { OVER, OVER }, 0 },
        { "no overdue policy: 2b has them", BUT(HTC_HIERARCHY_OVERDUE), 2, { { 1, 21, 0, 0 }, { 1, 0, 0, 0 } }, { JOB, GO }, 1 },
        { "no overdue, no 2b: it stays", BUT(HTC_HIERARCHY_OVERDUE) & BUT(HTC_HIERARCHY_JOB_POTENTIAL), 2,
          { { 1, 21, 0, 0 }, { 1, 0, 0, 0 } }, { GO, GO }, 2 },
        { "no 2b", BUT(HTC_HIERARCHY_JOB_POTENTIAL), 2, { { 19, 15, 0, 0 }, { 5, 0, 0, 0 } }, { GO, GO }, 24 },
        { "no 2b: 2c has it", BUT(HTC_HIERARCHY_JOB_POTENTIAL), 1, { { 41, 15, 0, 0 } }, { QUEUE }, 0 },
        { "no 2c", BUT(HTC_HIERARCHY_QUEUE_POTENTIAL), 3, { { 20, 0, 0, 0 }, { 20, 0, 0, 0 }, { 20, 0, 0, 0 } }, { GO, GO, GO }, 60 },
        { "no policy at all", HTC_HIERARCHY_NO_POLICY, 3, { { 99, 99, 99, 0 }, { 99, 0, 0, 0 }, { 99, 0, 0, 0 } }, { GO, GO, GO }, 297 },
        { "not known counts nothing until it is overdue", 0, 3, { { 0, 21, 0, 0 }, { 0, 0, 0, 0 }, { 5, 0, 0, 0 } }, { OVER, GO, GO }, 5 },
        { "the sole one overstays, with what is left of it", 0, 1, { { 7, 21, 0, 0 } }, { GO }, 7 },
        { "but not if it will be overdue", 0, 1, { { 7, 19, 0, 0 } }, { JOB }, 0 },
    };
    for (size_t i = 0; i < sizeof table / sizeof *table; i++) {
        htc_hierarchy *h = open_small((htc_hierarchy_queue){ .policies = table[i].policies }, PLAIN, NULL);
        const htc_ns   now = 1000 * HTC_SECOND;
        size_t         n, at = 0;
        for (size_t k = 0; k < table[i].n; k++) {
            const row        *r = &table[i].jobs[k];
            htc_ns            te = (htc_ns)(r->te_s * 1e9);
            htc_hierarchy_job job = { .size = sizeof job, .id = k, .kflop = r->c, .tq_ns = (htc_ns)(r->tq_s * 1e9), .te_ns = te };
            if (r->task > 0) {
                job.tq_ns -= te;
                job.te_ns = 0;
                cr_assert(eq(int, htc_hierarchy_restore(h, 0, &job, now - te), HTC_OK));
                start(h, k, 0, 0, r->task, now - te);
            } else {
                cr_assert(eq(int, htc_hierarchy_restore(h, 0, &job, now), HTC_OK));
            }
        }
        const htc_hierarchy_decision *d = enforce(h, 0, now, &n);
        for (size_t k = 0; k < table[i].n; k++) {
            if (table[i].reasons[k] == GO)
                continue;
            cr_assert(lt(sz, at, n), "%s: job %zu stays", table[i].what, k);
            cr_expect(eq(u64, d[at].id, k), "%s", table[i].what);
            cr_expect(eq(u32, d[at].reason, table[i].reasons[k]), "%s: job %zu", table[i].what, k);
            cr_expect(eq(u32, d[at].action, HTC_HIERARCHY_MIGRATE));
            cr_expect(eq(u32, d[at++].to, 1));
        }
        cr_expect(eq(sz, n, at), "%s: %zu leave", table[i].what, n);
        cr_expect(fabs(look(h, 0).load_kflop - table[i].load) < 1e-12, "%s: Q = %g", table[i].what, look(h, 0).load_kflop);
        htc_hierarchy_destroy(h);
    }
}

/* 3.2.3 of the paper: nobody gains if the only one is sent away. It acts when another job is there at the next scan. (Where job potential
 * overdue is on it comes first, so it is off here.) */
Test(hierarchy, the_sole_job_overstays_until_another_comes)
{
    static const struct {
        uint32_t sole;
        uint32_t alone, together; /* reason of the scan, 0: it stays */
    } table[] = {
        { HTC_HIERARCHY_SOLE_OVERDUE, 0, HTC_HIERARCHY_OVERDUE },
        { HTC_HIERARCHY_SOLE_ALL, 0, HTC_HIERARCHY_OVERDUE },
        { HTC_HIERARCHY_SOLE_NONE, HTC_HIERARCHY_OVERDUE, 0 },
    };
    for (size_t i = 0; i < sizeof table / sizeof *table; i++) {
        htc_hierarchy_options         o = { .sole = table[i].sole };
        htc_hierarchy                *h = open_small((htc_hierarchy_queue){ .policies = BUT(HTC_HIERARCHY_JOB_POTENTIAL) },
                                                     PLAIN, &o);
        htc_hierarchy_job_info        info;
        const htc_hierarchy_decision *d;
        size_t                        n;
        arrive(h, 0, 1, 1, 0);
        enforce(h, 0, 20 * HTC_SECOND, &n);
        cr_expect(eq(sz, n, 0));
        d = enforce(h, 0, 21 * HTC_SECOND, &n);
        cr_expect(eq(u32, n ? d->reason : 0, table[i].alone));
        cr_assert(eq(int, htc_hierarchy_get_job(h, 1, 21 * HTC_SECOND, &info), HTC_OK));
        cr_expect(eq(u32, info.overstays, !n));
        arrive(h, 0, 2, 1, 22 * HTC_SECOND);
        d = enforce(h, 0, 23 * HTC_SECOND, &n);
        cr_expect(eq(u32, n ? d->reason : 0, table[i].together));
        htc_hierarchy_destroy(h);
    }
}

/* sole = all: the potential policies wait as well. */
Test(hierarchy, the_sole_job_may_be_spared_altogether)
{
    htc_hierarchy_options o = { .sole = HTC_HIERARCHY_SOLE_ALL };
    htc_hierarchy        *h = open_small(PLAIN, PLAIN, &o);
    size_t                n;
    arrive(h, 0, 1, 10, 0);
    enforce(h, 0, 19 * HTC_SECOND, &n);
    cr_expect(eq(sz, n, 0));
    arrive(h, 0, 2, 1, 19 * HTC_SECOND);
    cr_expect(eq(u32, enforce(h, 0, 19 * HTC_SECOND, &n)->reason, HTC_HIERARCHY_JOB_POTENTIAL));
    htc_hierarchy_destroy(h);
}

/* 3.2.2: a bound above C_e may be far above the truth. One step down, where the estimation goes on from the bound it has. */
Test(hierarchy, a_bound_too_large_moves_one_level_and_is_tightened_there)
{
    htc_hierarchy         *h = open_superlink();
    htc_hierarchy_decision d = arrive(h, 0, 1, 0, 0);
    cr_expect(eq(u64, d.until, 10800 * HTC_MS), "0.06 * 180 s: the published 11 s");
    cr_assert(eq(int, htc_hierarchy_bound(h, 1, 1e14, HTC_SECOND, &d), HTC_OK));
    cr_expect(eq(u32, d.action, HTC_HIERARCHY_ESTIMATE));
    cr_assert(eq(int, htc_hierarchy_bound(h, 1, 9e13, 11 * HTC_SECOND, &d), HTC_OK));
    cr_expect(eq(u32, d.action, HTC_HIERARCHY_MIGRATE), "above the C_e of all levels");
    cr_expect(eq(u32, d.reason, HTC_HIERARCHY_MISMATCH));
    cr_expect(eq(u32, d.to, 1));
    d = moved(h, 1, 12 * HTC_SECOND);
    cr_expect(eq(u32, d.action, HTC_HIERARCHY_ESTIMATE));
    cr_expect(eq(dbl, d.kflop, 9e13), "the bound goes along");
    cr_expect(eq(u64, d.until, 12 * HTC_SECOND + 576 * HTC_SECOND));
    cr_expect(eq(u32, d.cpus, 100));
    cr_assert(eq(int, htc_hierarchy_bound(h, 1, 9.5e13, 13 * HTC_SECOND, &d), HTC_OK));
    cr_expect(eq(dbl, d.kflop, 9e13), "a bound never rises");
    cr_expect(eq(int, htc_hierarchy_bound(h, 1, NAN, 13 * HTC_SECOND, &d), HTC_EINVAL));
    cr_expect(eq(int, htc_hierarchy_bound(h, 1, -1, 13 * HTC_SECOND, &d), HTC_EINVAL));
    cr_expect(eq(u64, look(h, 1).bad_bounds, 3));
    cr_assert(eq(int, htc_hierarchy_bound(h, 1, 7e11, 14 * HTC_SECOND, &d), HTC_OK));
    cr_expect(eq(u32, d.action, HTC_HIERARCHY_QUEUE));
    htc_hierarchy_destroy(h);
}

/* The ablations of 3.3. */
Test(hierarchy, ablations_jump_or_know_only_time)
{
    superlink              s = superlink_2005();
    htc_hierarchy         *h;
    htc_hierarchy_decision d;
    size_t                 n;
    s.options.queues = s.queues;
    s.options.migrate = HTC_HIERARCHY_DIRECT;
    cr_assert(eq(int, htc_hierarchy_create(NULL, &s.options, &h), HTC_OK));
    arrive(h, 0, 1, 1e13, 0);
    cr_assert(eq(int, htc_hierarchy_estimated(h, 1, 1, &d), HTC_OK));
    cr_expect(eq(u32, d.to, 3), "straight to the level of its bound");
    htc_hierarchy_destroy(h);

    s.options.mode = HTC_HIERARCHY_SIMPLE;
    cr_assert(eq(int, htc_hierarchy_create(NULL, &s.options, &h), HTC_OK));
    for (uint64_t id = 1; id < 100; id++)
        cr_expect(eq(u32, arrive(h, 0, id, id % 2 ? 0 : 1e13, 0).action, HTC_HIERARCHY_QUEUE));
    enforce(h, 0, 6 * MIN, &n);
    cr_expect(eq(sz, n, 0));
    cr_expect(eq(u32, enforce(h, 0, 6 * MIN + 1, &n)->reason, HTC_HIERARCHY_OVERDUE));
    cr_expect(eq(sz, n, 99));
    cr_expect(eq(int, htc_hierarchy_policy(h, 0, HTC_HIERARCHY_OVERLOAD, 1), HTC_EINVAL));
    htc_hierarchy_destroy(h);
}

/* 3.5: on the lowest level the potential policies are off, so that partial results are made, and overdue ends the job. */
Test(hierarchy, the_lowest_level_rejects_and_terminates)
{
    htc_hierarchy                *h = open_small(PLAIN, PLAIN, NULL);
    htc_hierarchy_job_info        info;
    const htc_hierarchy_decision *d;
    size_t                        n;
    arrive(h, 1, 1, 150, 0);
    arrive(h, 1, 2, 150, 0);
    start(h, 1, 0, 1, 150, 1);
    enforce(h, 1, 99 * HTC_SECOND, &n);
    cr_expect(eq(sz, n, 0), "neither potential policy is on");
    d = enforce(h, 1, 101 * HTC_SECOND, &n);
    cr_expect(eq(sz, n, 2));
    cr_expect(eq(u32, d[0].action, HTC_HIERARCHY_TERMINATE));
    cr_expect(eq(u32, d[0].state, HTC_HIERARCHY_RUNNING));
    cr_expect(eq(u32, d[1].state, HTC_HIERARCHY_QUEUED));
    cr_expect(eq(u32, d[0].to, HTC_HIERARCHY_NOWHERE));
    htc_hierarchy_decision m;
    cr_expect(eq(int, htc_hierarchy_moved(h, 1, 101 * HTC_SECOND, &m), HTC_EINVAL));
    cr_expect(eq(int, htc_hierarchy_get_job(h, 1, 0, &info), HTC_OK));
    cr_expect(eq(u32, info.state, HTC_HIERARCHY_LEAVING));
    cr_expect(eq(int, htc_hierarchy_remove(h, 1, 102 * HTC_SECOND), HTC_OK));
    cr_assert(eq(int, htc_hierarchy_policy(h, 1, HTC_HIERARCHY_JOB_POTENTIAL, 1), HTC_OK));
    cr_assert(eq(int, htc_hierarchy_stay(h, 2, 102 * HTC_SECOND), HTC_OK));
    arrive(h, 1, 3, 150, 102 * HTC_SECOND);
    d = enforce(h, 1, 130 * HTC_SECOND, &n);
    cr_expect(eq(sz, n, 2), "overdue, and with the policy on the one that will be");
    cr_expect(eq(u32, d[1].reason, HTC_HIERARCHY_JOB_POTENTIAL));
    cr_expect(eq(u32, d[1].action, HTC_HIERARCHY_TERMINATE));
    htc_hierarchy_destroy(h);
}

/* Section 6: a target that is down. The job stays, in its place and with its times; the next scan tries again. One that was refused
 * on arrival is appended, and the potential policies find it. */
Test(hierarchy, who_cannot_leave_stays_and_is_tried_again)
{
    htc_hierarchy         *h = open_small(PLAIN, PLAIN, NULL);
    htc_hierarchy_job_info info;
    uint64_t               ids[4];
    size_t                 n, cursor = 0;
    arrive(h, 0, 1, 10, 0);
    arrive(h, 0, 2, 10, 0);
    enforce(h, 0, 16 * HTC_SECOND, &n);
    cr_expect(eq(sz, n, 2));
    cr_expect(eq(dbl, look(h, 0).load_kflop, 0));
    cr_assert(eq(int, htc_hierarchy_stay(h, 1, 17 * HTC_SECOND), HTC_OK));
    cr_expect(eq(int, htc_hierarchy_stay(h, 1, 17 * HTC_SECOND), HTC_EINVAL));
    cr_assert(eq(int, htc_hierarchy_get_job(h, 1, 17 * HTC_SECOND, &info), HTC_OK));
    cr_expect(eq(u64, info.tq_ns, 17 * HTC_SECOND));
    cr_expect(eq(u64, look(h, 0).out[HTC_HIERARCHY_JOB_POTENTIAL], 1), "it was told, and it was taken back");
    enforce(h, 0, 18 * HTC_SECOND, &n);
    cr_expect(eq(sz, n, 1));

    htc_hierarchy_decision d = arrive(h, 0, 3, 500, 18 * HTC_SECOND);
    cr_assert(eq(int, htc_hierarchy_estimated(h, 3, 18 * HTC_SECOND, &d), HTC_OK));
    cr_expect(eq(u32, d.action, HTC_HIERARCHY_MIGRATE));
    cr_assert(eq(int, htc_hierarchy_stay(h, 3, 18 * HTC_SECOND), HTC_OK));
    cr_expect(eq(sz, htc_hierarchy_jobs(h, 0, &cursor, ids, 4), 3));
    cr_expect(eq(u64, ids[2], 3));
    cr_expect(eq(u32, enforce(h, 0, 18 * HTC_SECOND, &n)->reason, HTC_HIERARCHY_JOB_POTENTIAL));
    htc_hierarchy_destroy(h);
}

/* A migration resets t_q and t_e, keeps what is done, and loses what was running. */
Test(hierarchy, a_migrated_job_keeps_what_is_done)
{
    htc_hierarchy         *h = open_small(PLAIN, PLAIN, NULL);
    htc_hierarchy_job_info info;
    htc_hierarchy_decision d;
    htc_hierarchy_job      job = { .size = sizeof job, .id = 1, .kflop = 20, .tasks = 4 };
    size_t                 n;
    cr_assert(eq(int, htc_hierarchy_arrive(h, 0, &job, 0, &d), HTC_OK));
    start(h, 1, 0, 0, 5, 0);
    start(h, 1, 1, 0, 5, 2 * HTC_SECOND);
    cr_expect(eq(int, htc_hierarchy_task_done(h, 1, 0, 5 * HTC_SECOND), HTC_OK));
    cr_expect(eq(int, htc_hierarchy_task_done(h, 1, 0, 5 * HTC_SECOND), HTC_ENOTFOUND), "twice is once");
    cr_assert(eq(int, htc_hierarchy_get_job(h, 1, 5 * HTC_SECOND, &info), HTC_OK));
    cr_expect(eq(u64, info.te_ns, 5 * HTC_SECOND));
    cr_expect(eq(dbl, info.kflop, 15));
    cr_expect(eq(dbl, info.remaining, 12));
    cr_expect(eq(u32, info.tasks, 3));
    cr_expect(eq(u32, enforce(h, 0, 5 * HTC_SECOND, &n)->reason, HTC_HIERARCHY_JOB_POTENTIAL), "phi(5 s) is 10");
    d = moved(h, 1, 6 * HTC_SECOND);
    cr_expect(eq(u32, d.action, HTC_HIERARCHY_QUEUE));
    cr_assert(eq(int, htc_hierarchy_get_job(h, 1, 7 * HTC_SECOND, &info), HTC_OK));
    cr_expect(eq(u32, info.queue, 1));
    cr_expect(eq(u64, info.tq_ns, HTC_SECOND));
    cr_expect(eq(u64, info.te_ns, 0));
    cr_expect(eq(dbl, info.kflop, 15));
    cr_expect(eq(u32, info.running, 0));
    cr_expect(eq(u64, look(h, 0).lost_ns, 4 * HTC_SECOND));
    cr_expect(eq(u64, look(h, 0).busy_ns, 9 * HTC_SECOND));
    cr_expect(eq(int, htc_hierarchy_task_done(h, 1, 1, 7 * HTC_SECOND), HTC_ENOTFOUND), "removed with the migration");
    htc_hierarchy_destroy(h);
}

/* Evicted: done again from the beginning, t_e goes on, the loss is on the accounts of queue and grid. */
Test(hierarchy, an_evicted_task_is_to_be_done_again)
{
    htc_hierarchy          *h = open_small(PLAIN, PLAIN, NULL);
    htc_hierarchy_job_info  info;
    htc_hierarchy_grid_info grid;
    arrive(h, 0, 1, 20, 0);
    start(h, 1, 0, 0, 20, 0);
    cr_assert(eq(int, htc_hierarchy_get_job(h, 1, 4 * HTC_SECOND, &info), HTC_OK));
    cr_expect(eq(dbl, info.remaining, 16));
    cr_assert(eq(int, htc_hierarchy_task_lost(h, 1, 0, 4 * HTC_SECOND), HTC_OK));
    cr_assert(eq(int, htc_hierarchy_get_job(h, 1, 5 * HTC_SECOND, &info), HTC_OK));
    cr_expect(eq(dbl, info.remaining, 20));
    cr_expect(eq(u64, info.te_ns, 5 * HTC_SECOND));
    cr_expect(eq(u64, look(h, 0).lost_ns, 4 * HTC_SECOND));
    cr_assert(eq(int, htc_hierarchy_get_grid(h, 0, &grid), HTC_OK));
    cr_expect(eq(dbl, grid.lost_per_h, 900));
    htc_hierarchy_destroy(h);
}

/* 4.3 and 5: of a pool of 200 CPUs of which 100 have the memory, N is 100; who finds none goes past the level. */
Test(hierarchy, only_matching_cpus_count)
{
    static const htc_hierarchy_grid grids[] = { { .cpus = 4 }, { .cpus = 100, .memory_mb = 512 },
                                                { .cpus = 100, .memory_mb = 2048, .features = 1 } };
    static const uint32_t           top[] = { 0 }, pool[] = { 1, 2 };
    htc_hierarchy_queue             queues[] = {
        { .level = 1, .next = 1, .grids = top, .grid_count = 1, .te_ns = HTC_SECOND, .tq_ns = HTC_SECOND, .cpus = 4, .kflops = 1 },
        { .level = 2, .next = HTC_HIERARCHY_NOWHERE, .grids = pool, .grid_count = 2, .te_ns = HTC_SECOND, .tq_ns = HTC_SECOND,
                      .cpus = 200, .kflops = 1 }
    };
    htc_hierarchy_options  o = { .size = sizeof o, .grids = grids, .grid_count = 3, .queues = queues, .queue_count = 2 };
    htc_hierarchy_job      any = { .size = sizeof any, .id = 1, .kflop = 200 };
    htc_hierarchy_job      large = { .size = sizeof large, .id = 2, .kflop = 100, .memory_mb = 1024 };
    htc_hierarchy_job      huge = { .size = sizeof huge, .id = 3, .kflop = 1, .memory_mb = 4096 };
    htc_hierarchy_job      odd = { .size = sizeof odd, .id = 4, .kflop = 1, .features = 2 };
    htc_hierarchy         *h;
    htc_hierarchy_decision d;
    htc_hierarchy_grant    grants[3];
    uint32_t               queue = 9;
    size_t                 n;
    cr_assert(eq(int, htc_hierarchy_create(NULL, &o, &h), HTC_OK));
    cr_expect(eq(int, htc_hierarchy_entry(h, &any, &queue), HTC_OK));
    cr_expect(eq(u32, queue, 0));
    cr_expect(eq(int, htc_hierarchy_entry(h, &large, &queue), HTC_OK));
    cr_expect(eq(u32, queue, 1), "past the level without such a CPU");
    cr_expect(eq(int, htc_hierarchy_entry(h, &huge, &queue), HTC_ENOFIT));
    cr_expect(eq(int, htc_hierarchy_entry(h, &odd, &queue), HTC_ENOFIT));
    cr_expect(eq(int, htc_hierarchy_arrive(h, 0, &large, 0, &d), HTC_ENOFIT));
    cr_expect(eq(int, htc_hierarchy_arrive(h, 1, &any, 0, &d), HTC_OK));
    cr_expect(eq(u32, d.action, HTC_HIERARCHY_QUEUE));
    cr_expect(eq(dbl, d.limit, 200));
    cr_expect(eq(int, htc_hierarchy_arrive(h, 1, &large, 0, &d), HTC_OK));
    cr_expect(eq(u32, d.action, HTC_HIERARCHY_QUEUE));
    cr_expect(eq(dbl, d.limit, 100), "N = 100 of 200");
    large.id = 5;
    large.kflop = 101;
    cr_expect(eq(int, htc_hierarchy_policy(h, 1, HTC_HIERARCHY_OVERLOAD, 0), HTC_OK));
    cr_expect(eq(int, htc_hierarchy_arrive(h, 1, &large, 0, &d), HTC_OK));
    cr_expect(eq(u32, d.action, HTC_HIERARCHY_ESTIMATE), "one more than 100 CPUs do in a second");
    /* The first job may use the large CPUs as well, the second one nothing else. */
    cr_expect(eq(int, htc_hierarchy_dispatch(h, 1, 1, 50, grants, 3, &n), HTC_OK));
    cr_expect(eq(sz, n, 1));
    cr_expect(eq(u64, grants[0].id, 1));
    htc_hierarchy_destroy(h);
}

/* 3.2: first come, first served, each job at most N at once; a later one gets what the earlier cannot use. */
Test(hierarchy, later_jobs_get_what_earlier_ones_leave)
{
    static const htc_hierarchy_grid grid = { .cpus = 100 };
    static const uint32_t           list[] = { 0 };
    htc_hierarchy_queue             queue = { .level = 1, .next = HTC_HIERARCHY_NOWHERE, .grids = list, .grid_count = 1,
                                              .te_ns = HTC_SECOND, .tq_ns = HTC_SECOND, .cpus = 10, .kflops = 1000 };
    htc_hierarchy_options           o = { .size = sizeof o, .grids = &grid, .grid_count = 1, .queues = &queue, .queue_count = 1 };
    static const uint32_t           tasks[] = { 3, 0, 20, 5 };
    htc_hierarchy                  *h;
    htc_hierarchy_grant             g[4];
    htc_hierarchy_decision          d;
    size_t                          n;
    cr_assert(eq(int, htc_hierarchy_create(NULL, &o, &h), HTC_OK));
    for (uint64_t id = 0; id < 4; id++) {
        htc_hierarchy_job job = { .size = sizeof job, .id = id, .kflop = 10, .tasks = tasks[id] };
        cr_assert(eq(int, htc_hierarchy_arrive(h, 0, &job, 0, &d), HTC_OK));
    }
    start(h, 0, 0, 0, 0, 0);
    start(h, 0, 1, 0, 0, 0);
    cr_assert(eq(int, htc_hierarchy_dispatch(h, 0, 0, 18, g, 4, &n), HTC_OK));
    cr_expect(eq(sz, n, 3));
    cr_expect(g[0].id == 0 && g[0].cpus == 1, "one of three is left");
    cr_expect(g[1].id == 1 && g[1].cpus == 10, "not split: N");
    cr_expect(g[2].id == 2 && g[2].cpus == 7, "the rest");
    cr_assert(eq(int, htc_hierarchy_dispatch(h, 0, 0, 100, g, 4, &n), HTC_OK));
    cr_expect(n == 4 && g[2].cpus == 10 && g[3].cpus == 5);
    cr_assert(eq(int, htc_hierarchy_dispatch(h, 0, 0, 100, g, 2, &n), HTC_OK));
    cr_expect(eq(sz, n, 2));
    cr_assert(eq(int, htc_hierarchy_dispatch(h, 0, 0, 0, NULL, 0, &n), HTC_OK));
    cr_expect(eq(sz, n, 0));
    htc_hierarchy_destroy(h);
}

/* Done means 18: the front end of each queue may run 500 tasks on the pool that two queues share. */
Test(hierarchy, no_queue_runs_more_than_its_front_end_may)
{
    htc_hierarchy      *h = open_superlink();
    htc_hierarchy_grant g[2];
    size_t              n;
    arrive(h, 2, 1, 1e12, 0);
    arrive(h, 3, 2, 1e12, 0);
    arrive(h, 2, 3, 1e12, 0);
    for (uint32_t i = 0; i < 300; i++)
        start(h, 1, i, 2, 1, 0);
    cr_assert(eq(int, htc_hierarchy_dispatch(h, 2, 2, 2000, g, 2, &n), HTC_OK));
    cr_expect(n == 1 && g[0].id == 1 && g[0].cpus == 200, "500 in all, whoever they are for");
    cr_assert(eq(int, htc_hierarchy_dispatch(h, 3, 2, 2000, g, 2, &n), HTC_OK));
    cr_expect(n == 1 && g[0].id == 2 && g[0].cpus == 500, "the other queue has a front end of its own");
    for (uint32_t i = 0; i < 200; i++)
        start(h, 3, i, 2, 1, 0);
    cr_assert(eq(int, htc_hierarchy_dispatch(h, 2, 2, 2000, g, 2, &n), HTC_OK));
    cr_expect(eq(sz, n, 0));
    cr_assert(eq(int, htc_hierarchy_task_done(h, 3, 0, 1), HTC_OK));
    cr_assert(eq(int, htc_hierarchy_remove(h, 1, 1), HTC_OK));
    cr_assert(eq(int, htc_hierarchy_dispatch(h, 2, 2, 2000, g, 2, &n), HTC_OK));
    cr_expect(n == 1 && g[0].id == 3 && g[0].cpus == 301, "and gets back what ends or leaves");
    htc_hierarchy_destroy(h);
}

/* Nothing left is not the same as nothing known. A late bound used to bring the work of a finished job back, and one that had only its
 * results to combine was estimated anew one level down, and rejected there for want of a bound. */
Test(hierarchy, a_job_with_nothing_left_is_small)
{
    htc_hierarchy         *h = open_small(PLAIN, PLAIN, NULL);
    htc_hierarchy_decision d;
    htc_hierarchy_job_info info;
    arrive(h, 0, 1, 20, 0);
    start(h, 1, 0, 0, 20, 0);
    cr_assert(eq(int, htc_hierarchy_task_done(h, 1, 0, HTC_SECOND), HTC_OK));
    cr_assert(eq(int, htc_hierarchy_bound(h, 1, 15, HTC_SECOND, &d), HTC_OK));
    cr_assert(eq(int, htc_hierarchy_get_job(h, 1, HTC_SECOND, &info), HTC_OK));
    cr_expect(eq(dbl, info.kflop, 0));
    cr_expect(eq(u64, look(h, 0).bad_bounds, 1));
    cr_assert(eq(int, htc_hierarchy_send(h, 1, 1, HTC_SECOND, &d), HTC_OK));
    cr_expect(eq(u32, moved(h, 1, HTC_SECOND).action, HTC_HIERARCHY_QUEUE));
    htc_hierarchy_destroy(h);
}

/* The same for a job of which no bound was known when its last task ended. */
Test(hierarchy, a_bound_after_the_last_task_is_too_late)
{
    htc_hierarchy_queue    any = { .policies = HTC_HIERARCHY_NO_POLICY };
    htc_hierarchy         *h = open_small(any, PLAIN, NULL);
    htc_hierarchy_decision d;
    htc_hierarchy_job      job = { .size = sizeof job, .id = 1, .tasks = 1 };
    htc_hierarchy_job_info info;
    cr_assert(eq(int, htc_hierarchy_arrive(h, 0, &job, 0, &d), HTC_OK));
    cr_assert(eq(int, htc_hierarchy_estimated(h, 1, 0, &d), HTC_OK));
    cr_assert(eq(u32, d.action, HTC_HIERARCHY_QUEUE));
    start(h, 1, 0, 0, 0, 0);
    cr_assert(eq(int, htc_hierarchy_task_done(h, 1, 0, HTC_SECOND), HTC_OK));
    cr_expect(eq(int, htc_hierarchy_bound(h, 1, 15, HTC_SECOND, &d), HTC_OK));
    cr_expect(eq(dbl, d.kflop, 0));
    cr_assert(eq(int, htc_hierarchy_get_job(h, 1, HTC_SECOND, &info), HTC_OK));
    cr_expect(eq(dbl, info.kflop, 0), "nothing is left to do");
    cr_expect(eq(u64, look(h, 0).bad_bounds, 1));
    cr_assert(eq(int, htc_hierarchy_send(h, 1, 1, HTC_SECOND, &d), HTC_OK));
    cr_expect(eq(u32, moved(h, 1, HTC_SECOND).action, HTC_HIERARCHY_QUEUE), "nothing is estimated, or rejected as too complex");
    cr_assert(eq(int, htc_hierarchy_split(h, 1, 2), HTC_OK));
    cr_expect(eq(int, htc_hierarchy_bound(h, 1, 15, HTC_SECOND, &d), HTC_OK));
    cr_expect(eq(dbl, d.kflop, 15), "its new tasks may have a bound");
    htc_hierarchy_destroy(h);
}

/* Section 6: if all grids of the level are down nobody gets overdue meanwhile, if the queue says so. */
Test(hierarchy, time_may_stand_still_while_a_level_is_down)
{
    for (uint32_t freeze = 0; freeze < 2; freeze++) {
        htc_hierarchy *h = open_small((htc_hierarchy_queue){ .flags = freeze ? HTC_HIERARCHY_FREEZE : 0 }, PLAIN, NULL);
        htc_hierarchy_job_info info;
        size_t                 n;
        arrive(h, 0, 1, 1, 0);
        arrive(h, 0, 2, 1, 0);
        htc_hierarchy_sample(h, 0, HTC_HIERARCHY_UNREACHABLE, 0, 5 * HTC_SECOND);
        cr_assert(eq(int, htc_hierarchy_get_job(h, 1, 15 * HTC_SECOND, &info), HTC_OK));
        cr_expect(eq(u64, info.tq_ns, (freeze ? 5 : 15) * HTC_SECOND));
        htc_hierarchy_sample(h, 0, 2, 0, 30 * HTC_SECOND);
        cr_assert(eq(int, htc_hierarchy_get_job(h, 1, 31 * HTC_SECOND, &info), HTC_OK));
        cr_expect(eq(u64, info.tq_ns, (freeze ? 6 : 31) * HTC_SECOND));
        enforce(h, 0, 31 * HTC_SECOND, &n);
        cr_expect(eq(sz, n, freeze ? 0 : 2));
        htc_hierarchy_destroy(h);
    }
}

/* 3.9 (c): with predict phi counts the CPUs that are to be had. Half of the two are free: C_e is 10, not 20. */
Test(hierarchy, predictions_count_the_cpus_there_are)
{
    htc_hierarchy *h = open_small((htc_hierarchy_queue){ .flags = HTC_HIERARCHY_PREDICT }, PLAIN, NULL);
    htc_hierarchy_sample(h, 0, 1, 0, 0);
    cr_expect(eq(dbl, look(h, 0).ce_kflop, 10));
    cr_expect(eq(u32, arrive(h, 0, 1, 11, 0).action, HTC_HIERARCHY_ESTIMATE));
    arrive(h, 0, 2, 10, 0);
    start(h, 2, 0, 0, 10, 0);
    cr_expect(eq(dbl, look(h, 0).ce_kflop, 20), "what we hold counts as well");
    htc_hierarchy_sample(h, 0, 0, 0, 0);
    cr_expect(look(h, 0).ce_kflop > 10);
    htc_hierarchy_destroy(h);
}

/* The note of 3.1: a serial job of 300 s passes with N = 2 and is caught by 2b; with job_cpus = 1 it does not get in. */
Test(hierarchy, n_of_a_job_may_be_less_than_n_of_the_queue)
{
    htc_hierarchy *h = open_small((htc_hierarchy_queue){ .job_cpus = 1 }, PLAIN, NULL);
    size_t         n;
    cr_expect(eq(dbl, look(h, 0).ce_kflop, 10));
    cr_expect(eq(dbl, look(h, 0).cq_kflop, 40));
    cr_expect(eq(u32, arrive(h, 0, 1, 15, 0).action, HTC_HIERARCHY_ESTIMATE));
    cr_expect(eq(u32, arrive(h, 0, 2, 8, 0).action, HTC_HIERARCHY_QUEUE));
    arrive(h, 0, 3, 8, 0);
    enforce(h, 0, 12 * HTC_SECOND, &n);
    cr_expect(eq(sz, n, 0));
    cr_expect(eq(u32, enforce(h, 0, 13 * HTC_SECOND, &n)->reason, HTC_HIERARCHY_JOB_POTENTIAL), "phi(7 s) is 7");
    htc_hierarchy_destroy(h);
}

/* 3.4: on the period, max(1 s, T_e / 60) and at most 300 s, and after departures; an arrival does not cause a scan. */
Test(hierarchy, the_deadline_is_the_next_scan)
{
    htc_hierarchy *h = open_superlink();
    size_t         n;
    cr_expect(eq(u64, htc_hierarchy_deadline(h), HTC_NEVER));
    arrive(h, 0, 1, 1, 7);
    arrive(h, 3, 2, 1, 8);
    cr_expect(eq(u64, htc_hierarchy_deadline(h), 7 + 3 * HTC_SECOND));
    cr_expect(eq(u64, look(h, 3).enforce_at, 8 + 300 * HTC_SECOND));
    arrive(h, 1, 3, 1, 9);
    cr_expect(eq(u64, look(h, 1).enforce_at, 9 + 160 * HTC_SECOND));
    cr_expect(eq(u64, look(h, 1).share_at, 9 + 60 * HTC_SECOND), "another queue stands beside it");
    cr_expect(eq(u64, look(h, 0).share_at, HTC_NEVER));
    enforce(h, 0, 10, &n);
    cr_expect(eq(u64, look(h, 0).enforce_at, 10 + 3 * HTC_SECOND));
    htc_hierarchy_remove(h, 1, 11);
    cr_expect(eq(u64, htc_hierarchy_deadline(h), 11));
    enforce(h, 0, 11, &n);
    cr_expect(eq(u64, look(h, 0).enforce_at, HTC_NEVER));
    htc_hierarchy_destroy(h);
}

/* 3.4: an arrival runs figure 1 alone, the scan is linear in the queue. One that is refused was never in the queue: its going is no
 * reason to scan either, or each job that an overloaded queue turns away would cost a scan of all that wait. */
Test(hierarchy, who_is_refused_causes_no_scan)
{
    htc_hierarchy         *h = open_small(PLAIN, PLAIN, NULL);
    htc_hierarchy_decision d;
    const htc_ns           due = 7 + HTC_SECOND;
    for (uint64_t id = 1; id <= 3; id++)
        arrive(h, 0, id, 20, 7);
    for (uint64_t id = 1; id <= 11; id++)
        arrive(h, 1, 100 + id, 20, 7);
    cr_expect(eq(u32, arrive(h, 1, 4, 20, 8).action, HTC_HIERARCHY_REJECT));
    cr_expect(eq(u64, look(h, 1).enforce_at, 7 + 100 * HTC_SECOND / 60));
    cr_expect(eq(u32, arrive(h, 0, 5, 20, 8).action, HTC_HIERARCHY_MIGRATE));
    cr_expect(eq(u32, moved(h, 5, 9).action, HTC_HIERARCHY_REJECT));
    cr_expect(eq(u64, htc_hierarchy_deadline(h), due));
    cr_assert(eq(int, htc_hierarchy_send(h, 1, 1, 10, &d), HTC_OK));
    moved(h, 1, 10);
    cr_expect(eq(u64, htc_hierarchy_deadline(h), 10), "who was in it does");
    htc_hierarchy_destroy(h);
}

/* Nobody moves up, not by order either. */
Test(hierarchy, a_job_is_sent_sideways_or_down)
{
    htc_hierarchy         *h = open_superlink();
    htc_hierarchy_decision d;
    arrive(h, 1, 1, 1, 0);
    cr_expect(eq(int, htc_hierarchy_send(h, 1, 0, 0, &d), HTC_EINVAL));
    cr_expect(eq(int, htc_hierarchy_send(h, 1, 1, 0, &d), HTC_EINVAL));
    cr_assert(eq(int, htc_hierarchy_send(h, 1, 2, 0, &d), HTC_OK));
    cr_expect(eq(u32, d.reason, HTC_HIERARCHY_SENT));
    cr_expect(eq(u32, d.to, 2));
    cr_expect(eq(u32, moved(h, 1, 0).action, HTC_HIERARCHY_QUEUE));
    cr_assert(eq(int, htc_hierarchy_send(h, 1, 3, 0, &d), HTC_OK));
    cr_expect(eq(u32, moved(h, 1, 0).action, HTC_HIERARCHY_QUEUE));
    cr_expect(eq(int, htc_hierarchy_send(h, 9, 3, 0, &d), HTC_ENOTFOUND));
    htc_hierarchy_destroy(h);
}

static uint64_t from_rng(void *ctx, uint64_t n)
{
    return htc_rng_below(ctx, n);
}

/* Every operation, in any order, on any hierarchy: decisions, loads, orders, times are those of the model. */
Test(hierarchy, agrees_with_a_naive_model)
{
    PROPERTY (rng, 4000) {
        model m;
        model_open(&m, (model_source){ from_rng, &rng });
        for (int step = 0; step < 200 && !m.wrong; step++)
            model_step(&m);
        model_is_looked_at(&m);
        cr_expect(m.wrong == NULL, "%s", m.wrong ? m.wrong : "");
        HOLDS(m.wrong == NULL);
        model_close(&m);
    }
}
