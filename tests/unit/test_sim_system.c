/* A system in virtual time: the same seed is the same run, wrong use is refused, and a run without memory ends and gives all back. */
#include "expect.h"

#include "alloc_fail.h"
#include "htcsched/sim_system.h"

static htc_sim_system_report run_with(const htc_env *env, htc_sim_system_options o, htc_status *status)
{
    htc_sim_system_report r = { .size = sizeof r };
    o.size = sizeof o;
    *status = htc_sim_system_run(env, &o, &r);
    return r;
}

static htc_sim_system_report run(const htc_env *env, uint64_t seed, htc_status *status)
{
    return run_with(env, (htc_sim_system_options){ .seed = seed }, status);
}

Test(sim_system, runs_a_seed_the_same_way_again)
{
    uint64_t tasks = 0, crashes = 0;
    for (uint64_t seed = 1; seed <= 8; seed++) {
        htc_status            status, again;
        htc_sim_system_report a = run(NULL, seed, &status), b = run(NULL, seed, &again);
        cr_assert(eq(int, status, HTC_OK) && eq(int, again, HTC_OK));
        cr_expect(eq(u32, a.failed, 0), "%s", a.text);
        cr_expect(eq(u64, a.hash, b.hash) && eq(u64, a.events, b.events));
        cr_expect(seed % 4 || eq(u32, a.crashes, 0), "a seed that 4 divides has no faults");
        tasks += a.tasks;
        crashes += a.crashes;
    }
    cr_expect(tasks > 50 && crashes > 4);
}

Test(sim_system, refuses_wrong_use)
{
    htc_sim_system_report  r = { .size = sizeof r };
    htc_sim_system_options o = { .size = sizeof o, .seed = 4 };
    cr_expect(eq(int, htc_sim_system_run(NULL, &o, NULL), HTC_EINVAL));
    o.size = 1;
    cr_expect(eq(int, htc_sim_system_run(NULL, &o, &r), HTC_EINVAL));
    o.size = sizeof o;
    o.members = 3; /* for two gateways alone, */
    cr_expect(eq(int, htc_sim_system_run(NULL, &o, &r), HTC_EINVAL));
    o.gateways = 2;
    o.members = 2; /* and not two */
    cr_expect(eq(int, htc_sim_system_run(NULL, &o, &r), HTC_EINVAL));
    o.members = 3;
    o.flows = 1;
    cr_expect(eq(int, htc_sim_system_run(NULL, &o, &r), HTC_EINVAL));
    r.size = 0;
    cr_expect(eq(int, htc_sim_system_run(NULL, &(htc_sim_system_options){ .size = sizeof o, .seed = 4 }, &r), HTC_EINVAL));
}

/* The memory of the world and that of the machines in it are one: whoever is refused, it ends without a fault of its own. */
static void end_without_memory(htc_sim_system_options o)
{
    size_t ended = 0;
    for (int once = 0; once < 2; once++)
        for (size_t n = 1, refused = 1; refused; n += 1 + n / (o.members ? 2 : once ? 3 : 12)) {
            alloc_fail f = alloc_fail_at(n);
            htc_status status;
            f.once = once;
            htc_env env = alloc_fail_env(&f);
            htc_sim_system_report r = run_with(&env, o, &status);
            cr_expect(status == HTC_ENOMEM || (status == HTC_OK && !r.failed), "allocation %zu: %s, %s", n, htc_status_name(status), r.text);
            cr_expect(eq(sz, f.live, 0), "allocation %zu", n);
            cr_expect(eq(sz, f.wrong_sizes, 0), "allocation %zu", n);
            refused = f.refused;
            ended += status == HTC_ENOMEM;
        }
    cr_expect(ended > 20, "only %zu runs have noticed", ended);
}

Test(sim_system, ends_without_memory)
{
    end_without_memory((htc_sim_system_options){ .seed = 3 });
}

Test(sim_system, ends_without_memory_for_flows)
{
    end_without_memory((htc_sim_system_options){ .seed = 3, .flows = 1 });
}

Test(sim_system, ends_without_memory_for_members)
{
    end_without_memory((htc_sim_system_options){ .seed = 3, .gateways = 2, .members = 3 });
}
