/* A checkpoint has told of tasks that there was no time for: the run that goes on from it is told to be wrong. */
#include "reel.h"

#include "htcsched/sim_grids.h"
#include "sim/models/grids.h"
#include "sim/models/provision.h"

#define S HTC_SECOND

/* ---- provisioning ---- */

/* The jobs ran on more nodes than there ever were. */
static htc_status read_one_node(void *ctx, void *data, size_t n)
{
    const size_t from = offsetof(prov, pass_wanted);
    htc_status   status = reel_read(ctx, data, n);
    if (status == HTC_OK && n == sizeof(prov) - from)
        ((prov *)(void *)((char *)data - from))->peak = 1;
    return status;
}

Test(sim_makespan, is_no_less_than_the_work_of_all_nodes)
{
    reel                          film = { 0 };
    htc_scale_tape                resume = { .size = sizeof resume, .reads = 1, .move = read_one_node, .ctx = &film };
    htc_scale_tape                checkpoint = { .size = sizeof checkpoint, .move = reel_write, .ctx = &film };
    htc_scale_host                host = { .size = sizeof host, .stop_after = 5 };
    htc_sim_provision_job         job[10];
    htc_sim_provision_environment environment = { .size = sizeof environment, .nodes = 4, .jobs = job, .n_jobs = 10 };
    htc_sim_provision_options     o = { .size = sizeof o, .system = HTC_SIM_PROVISION_DCS, .environments = &environment, .n_environments = 1,
                                        .tick_ns = S, .active_max = 20, .host = &host, .checkpoint = &checkpoint };
    htc_sim_provision_report      r = { .size = sizeof r };
    htc_error                     e = { 0 };
    for (int i = 0; i < 10; i++)
        job[i] = (htc_sim_provision_job){ .length = 10 * S, .nodes = 2 };
    cr_assert(eq(int, htc_sim_provision_run(NULL, &o, &r, NULL, &e), HTC_OK) && r.interrupted, "%s", e.text);
    host.stop_after = 0;
    o.resume = &resume;
    cr_assert(eq(int, htc_sim_provision_run(NULL, &o, &r, NULL, &e), HTC_OK) && !r.interrupted, "%s", e.text);
    cr_expect(strstr(r.scale.wrong, "a makespan of 50 ticks, where jobs ran for 200 node ticks on at most 1 node") != NULL, "%s", r.scale.wrong);
    free(film.data);
}

/* ---- several grids ---- */

static htc_status read_a_long_task(void *ctx, void *data, size_t n)
{
    const size_t from = offsetof(grids, free_job);
    htc_status   status = reel_read(ctx, data, n);
    if (status == HTC_OK && n == sizeof(grids) - from)
        ((grids *)(void *)((char *)data - from))->longest = UINT32_MAX;
    return status;
}

Test(sim_makespan, is_no_less_than_the_longest_task_of_a_grid)
{
    htc_sim_grids_profile *p = NULL;
    reel                   film = { 0 };
    htc_scale_tape         resume = { .size = sizeof resume, .reads = 1, .move = read_a_long_task, .ctx = &film };
    htc_scale_tape         checkpoint = { .size = sizeof checkpoint, .move = reel_write, .ctx = &film };
    htc_scale_host         host = { .size = sizeof host, .stop_after = 5000 };
    htc_sim_grids_report   r = { .size = sizeof r };
    cr_assert(eq(int, htc_sim_grids_superlink(NULL, HTC_SIM_GRIDS_STREAM, &p), HTC_OK));
    htc_sim_grids_options *o = htc_sim_grids_profile_options(p);
    o->stream.jobs = 60;
    o->host = &host;
    o->checkpoint = &checkpoint;
    cr_assert(eq(int, htc_sim_grids_run(NULL, o, &r, NULL, NULL, NULL), HTC_OK) && r.interrupted);
    host.stop_after = 0;
    o->resume = &resume;
    cr_assert(eq(int, htc_sim_grids_run(NULL, o, &r, NULL, NULL, NULL), HTC_OK) && !r.interrupted);
    cr_expect(strstr(r.scale.wrong, "ticks, where one task has 4294967295") != NULL, "%s", r.scale.wrong);
    free(film.data);
    htc_sim_grids_profile_destroy(p);
}
