/* Small runs of every scale model, for checkpoints: among them what has lists, rings, queues, copies, messages, leases and parts. */
#ifndef HTC_FUZZ_SIM_RESUME_RUNS_H
#define HTC_FUZZ_SIM_RESUME_RUNS_H

#include "htcsched/allot.h"
#include "htcsched/balance.h"
#include "htcsched/registry.h"
#include "htcsched/sim_dataflow.h"
#include "htcsched/sim_fairshare.h"
#include "htcsched/sim_grids.h"
#include "htcsched/sim_jobs.h"
#include "htcsched/sim_kvs.h"
#include "htcsched/sim_manytask.h"
#include "htcsched/sim_provision.h"
#include "check.h"

#define S  HTC_SECOND
#define MS HTC_MS
#define US HTC_US

/* What a run is given, and what it answers. */
typedef struct one_run {
    const htc_env        *env;
    const htc_scale_host *host;
    const htc_scale_tape *resume, *checkpoint;
    htc_error             error;
    uint32_t              interrupted;
} one_run;

/* ---- kvs ---- */

static htc_status run_kvs(one_run *r, htc_sim_kvs_options *o)
{
    htc_sim_kvs_report report = { .size = sizeof report };
    o->size = sizeof *o;
    o->seed = 5;
    o->host = r->host;
    o->resume = r->resume;
    o->checkpoint = r->checkpoint;
    htc_status status = htc_sim_kvs_run(r->env, o, &report, &r->error);
    r->interrupted = report.interrupted;
    return status;
}

static htc_status kvs_copies(one_run *r)
{
    return run_kvs(r, &(htc_sim_kvs_options){ .model = HTC_SIM_KVS_DFC, .clients = 40, .servers = 5, .copies = 3, .consistency = HTC_SIM_KVS_EVENTUAL, .reads = 2, .writes = 2, .keys = 7,
                                              .requests = 20, .failure_ns = 20 * MS, .first_failure_ns = MS, .puts = 0.5, .messages_max = 400 });
}

static htc_status kvs_strong(one_run *r)
{
    return run_kvs(r, &(htc_sim_kvs_options){ .model = HTC_SIM_KVS_DFC, .clients = 40, .servers = 9, .copies = 3, .consistency = HTC_SIM_KVS_STRONG, .queues = HTC_SIM_KVS_PARALLEL,
                                              .placement = HTC_SIM_KVS_RING, .requests = 20, .failure_ns = 20 * MS, .first_failure_ns = MS, .puts = 0.5, .notify = HTC_SIM_KVS_LAZY,
                                              .messages_max = 400 });
}

static htc_status kvs_chord(one_run *r)
{
    return run_kvs(r, &(htc_sim_kvs_options){ .model = HTC_SIM_KVS_DCHORD, .clients = 40, .servers = 16, .copies = 2, .consistency = HTC_SIM_KVS_MAJORITY, .requests = 20,
                                              .failure_ns = 30 * MS, .first_failure_ns = MS, .puts = 0.5, .messages_max = 400 });
}

static htc_status kvs_tree(one_run *r)
{
    return run_kvs(r, &(htc_sim_kvs_options){ .model = HTC_SIM_KVS_CTREE, .clients = 2100, .requests = 3, .copies = 2, .queues = HTC_SIM_KVS_PARALLEL, .failure_ns = 400 * MS,
                                              .puts = 0.5, .messages_max = 5000 });
}

static htc_status kvs_live(one_run *r)
{
    return run_kvs(r, &(htc_sim_kvs_options){ .model = HTC_SIM_KVS_LIVE, .clients = 12, .servers = 3, .depth = 2, .programs = 4, .cores = 2, .sync_ns = 300 * US, .keys = 3, .requests = 30,
                                              .puts = 0.5 });
}

static htc_status kvs_live_many(one_run *r)
{
    return run_kvs(r, &(htc_sim_kvs_options){ .model = HTC_SIM_KVS_LIVE, .clients = 20, .servers = 5, .depth = 3, .requests = 20, .puts = 0.5 });
}

/* ---- fairshare ---- */

static htc_status run_fairshare(one_run *r, htc_sim_fairshare_options *o)
{
    static const double       weights[3] = { 1, 2, 3 };
    htc_sim_fairshare_user    users[3];
    htc_sim_fairshare_job     jobs[6];
    htc_sim_fairshare_report  report = { .size = sizeof report };
    htc_sim_fairshare_result  results[3];
    for (size_t i = 0; i < 3; i++)
        users[i] = (htc_sim_fairshare_user){ .size = sizeof *users, .weight = weights[i] };
    for (size_t i = 0; i < 6; i++)
        jobs[i] = (htc_sim_fairshare_job){ .size = sizeof *jobs, .user = (uint32_t)(i % 3), .tasks = 20 + 7 * i, .arrival = i * 5 * S, .length = { HTC_SCALE_EXPONENTIAL, 0, 10e9, 0 } };
    o->size = sizeof *o;
    o->seed = 5;
    o->users = users;
    o->n_users = 3;
    o->jobs = jobs;
    o->n_jobs = 6;
    o->sample_ns = 5 * S;
    o->host = r->host;
    o->resume = r->resume;
    o->checkpoint = r->checkpoint;
    htc_status status = htc_sim_fairshare_run(r->env, o, &report, results, &r->error);
    r->interrupted = report.interrupted;
    return status;
}

static htc_status fairshare_one(one_run *r)
{
    return run_fairshare(r, &(htc_sim_fairshare_options){ .cores = 20, .policy = HTC_ALLOT_MAXMIN, .launch_ns = S, .pull_ns = 100 * MS, .leave_ns = S, .gap_ns = 2 * S,
                                                          .records = HTC_SIM_FAIRSHARE_SERIAL, .record_ns = 10 * MS, .gamma = 0.5 });
}

static htc_status fairshare_many(one_run *r)
{
    const htc_sim_fairshare_cluster clusters[2] = {
        { .size = sizeof *clusters, .cores = 12, .speed = 2, .service_ns = 50 * MS, .batch = 3, .hold = 0.2, .hold_rate = 0.01, .life_ns = 40 * S,
          .others_gap = { HTC_SCALE_EXPONENTIAL, 0, 3e9, 0 }, .others_length = { HTC_SCALE_EXPONENTIAL, 0, 8e9, 0 }, .others = 4 },
        { .size = sizeof *clusters, .cores = 9, .life_ns = 60 * S }
    };
    return run_fairshare(r, &(htc_sim_fairshare_options){ .clusters = clusters, .n_clusters = 2, .policy = HTC_ALLOT_EQ1, .launch_ns = S, .leave_ns = S, .output_ns = 50 * MS });
}

static htc_status fairshare_direct(one_run *r)
{
    const htc_sim_fairshare_cluster clusters[2] = { { .size = sizeof *clusters, .cores = 8, .service_ns = 50 * MS, .hold = 0.1, .life_ns = 90 * S }, { .size = sizeof *clusters, .cores = 6 } };
    return run_fairshare(r, &(htc_sim_fairshare_options){ .clusters = clusters, .n_clusters = 2, .direct = 1, .leave_ns = S });
}

/* ---- jobs ---- */

static htc_status run_jobs(one_run *r, htc_sim_jobs_options *o)
{
    htc_sim_jobs_report report = { .size = sizeof report };
    o->size = sizeof *o;
    o->seed = 5;
    o->length = (htc_scale_law){ HTC_SCALE_EXPONENTIAL, 0, 50e6, 0 };
    o->host = r->host;
    o->resume = r->resume;
    o->checkpoint = r->checkpoint;
    htc_status status = htc_sim_jobs_run(r->env, o, &report, &r->error);
    r->interrupted = report.interrupted;
    return status;
}

static htc_status jobs_records(one_run *r)
{
    return run_jobs(r, &(htc_sim_jobs_options){ .nodes = 60, .partition = 10, .jobs = 200, .nodes_min = 1, .nodes_max = 25, .records = 1, .pull_ns = 5 * MS, .monitor_ns = 5 * MS, .used = 0.1 });
}

static htc_status jobs_random(one_run *r)
{
    htc_registry        *registry = NULL;
    htc_sim_jobs_options o = { .nodes = 60, .partition = 10, .jobs = 200, .nodes_min = 1, .nodes_max = 25 };
    CHECK(htc_registry_create(NULL, &registry) == HTC_OK && htc_registry_add_builtin(registry) == HTC_OK);
    CHECK(htc_balance_find(registry, "random", &o.policy) == HTC_OK);
    htc_status status = run_jobs(r, &o);
    htc_registry_destroy(registry);
    return status;
}

static htc_status jobs_central(one_run *r)
{
    return run_jobs(r, &(htc_sim_jobs_options){ .nodes = 60, .partition = 10, .jobs = 200, .nodes_min = 1, .nodes_max = 25, .central = 1 });
}

/* ---- grids ---- */

static htc_status run_grids(one_run *r, uint32_t system)
{
    htc_sim_grids_profile *p = NULL;
    htc_sim_grids_parts    part;
    htc_sim_grids_report   report = { .size = sizeof report };
    htc_sim_grids_result   queue[4], class[4];
    CHECK(htc_sim_grids_superlink(NULL, HTC_SIM_GRIDS_STREAM, &p) == HTC_OK && htc_sim_grids_profile_parts(p, &part) == HTC_OK);
    htc_sim_grids_options *o = htc_sim_grids_profile_options(p);
    o->seed = 5;
    o->system = system;
    o->stream.jobs = 40;
    o->stream.burst_gap.mean_ns = 2000e9;
    o->active_max = 64;
    o->flow_ns = 4 * S;
    o->move_ns = 30 * S;
    o->shelter_ns = 1800 * S;
    for (int g = 0; g < 3; g++) {
        part.hierarchy_grids[g].cpus = 20 + 10 * (uint32_t)g;
        part.grids[g].free_mean = g ? part.hierarchy_grids[g].cpus * 0.6 : 0;
        part.grids[g].free_cv = 0.5;
        part.grids[g].free_ns = 3600 * S;
        part.grids[g].outage_gap_ns = 20000 * S;
        part.grids[g].outage_ns = 600 * S;
        part.grids[g].evict_per_h = 0.5;
    }
    o->host = r->host;
    o->resume = r->resume;
    o->checkpoint = r->checkpoint;
    htc_status status = htc_sim_grids_run(r->env, o, &report, queue, class, &r->error);
    htc_sim_grids_profile_destroy(p);
    r->interrupted = report.interrupted;
    return status;
}

static htc_status grids_mqh(one_run *r)
{
    return run_grids(r, HTC_SIM_GRIDS_MQH);
}

static htc_status grids_fcfs(one_run *r)
{
    return run_grids(r, HTC_SIM_GRIDS_FCFS);
}

/* ---- dataflow ---- */

static htc_status run_dataflow(one_run *r, htc_sim_dataflow_options *o)
{
    htc_sim_dataflow_report report = { .size = sizeof report };
    o->size = sizeof *o;
    o->seed = 5;
    o->degree = 3;
    o->nodes = 6;
    o->cores = 2;
    o->tasks = 150;
    o->layout = HTC_SIM_DATAFLOW_RANDOM;
    o->length = (htc_scale_law){ HTC_SCALE_UNIFORM, 0, 50e6, 1 };
    o->bytes = (htc_scale_law){ HTC_SCALE_UNIFORM, 0, 5e6, 1 };
    o->bytes_per_s = 125000000;
    o->host = r->host;
    o->resume = r->resume;
    o->checkpoint = r->checkpoint;
    htc_status status = htc_sim_dataflow_run(r->env, o, &report, &r->error);
    r->interrupted = report.interrupted;
    return status;
}

static htc_status dataflow_workers(one_run *r)
{
    return run_dataflow(r, &(htc_sim_dataflow_options){ .shape = HTC_SIM_DATAFLOW_FANOUT, .links = HTC_SIM_DATAFLOW_BOTH, .cache_bytes = 20000000, .inputs = HTC_SIM_DATAFLOW_PAIRS, .files = 8,
                                                        .file_bytes = 1000000, .nudge_ns = 10 * MS });
}

static htc_status dataflow_phases(one_run *r)
{
    return run_dataflow(r, &(htc_sim_dataflow_options){ .shape = HTC_SIM_DATAFLOW_MAPREDUCE, .system = HTC_SIM_DATAFLOW_YARN, .launch_ns = S, .grant_ns = 10 * MS, .container_ns = 50 * MS });
}

static htc_status dataflow_diffusion(one_run *r)
{
    return run_dataflow(r, &(htc_sim_dataflow_options){ .shape = HTC_SIM_DATAFLOW_PIPELINE, .system = HTC_SIM_DATAFLOW_DATADIFF, .inputs = HTC_SIM_DATAFLOW_ONE_FILE, .files = 8,
                                                        .file_bytes = 1000000, .cache_bytes = 8000000, .window = 5 });
}

static htc_status dataflow_pfs(one_run *r)
{
    return run_dataflow(r, &(htc_sim_dataflow_options){ .shape = HTC_SIM_DATAFLOW_FANIN, .system = HTC_SIM_DATAFLOW_PFS });
}

static htc_status dataflow_mapreduce(one_run *r)
{
    return run_dataflow(r, &(htc_sim_dataflow_options){ .shape = HTC_SIM_DATAFLOW_MAPREDUCE, .links = HTC_SIM_DATAFLOW_SOURCE });
}

/* ---- manytask ---- */

static htc_status run_manytask(one_run *r, htc_sim_manytask_options *o)
{
    const htc_sim_manytask_group g[2] = { { .size = sizeof *g, .nodes = 30, .cores = 2 }, { .size = sizeof *g, .nodes = 10, .cores = 4, .speed = 2 } };
    htc_sim_manytask_report      report = { .size = sizeof report };
    o->size = sizeof *o;
    o->seed = 5;
    o->groups = g;
    o->n_groups = 2;
    o->tasks = 600;
    o->length = (htc_scale_law){ HTC_SCALE_UNIFORM, 0, 50e6, 1 };
    o->fanout = 4;
    o->host = r->host;
    o->resume = r->resume;
    o->checkpoint = r->checkpoint;
    htc_status status = htc_sim_manytask_run(r->env, o, &report, NULL, &r->error);
    r->interrupted = report.interrupted;
    return status;
}

static htc_status manytask_central(one_run *r)
{
    return run_manytask(r, &(htc_sim_manytask_options){ .architecture = HTC_SIM_MANYTASK_CENTRAL, .batch = 100 });
}

static htc_status manytask_stealing(one_run *r)
{
    return run_manytask(r, &(htc_sim_manytask_options){ .architecture = HTC_SIM_MANYTASK_DISTRIBUTED, .batch = 200, .nudge_ns = 5 * MS });
}

static htc_status manytask_grids(one_run *r)
{
    return run_manytask(r, &(htc_sim_manytask_options){ .architecture = HTC_SIM_MANYTASK_DISTRIBUTED, .grids = 2 });
}

static htc_status manytask_parts(one_run *r)
{
    return run_manytask(r, &(htc_sim_manytask_options){ .architecture = HTC_SIM_MANYTASK_DISTRIBUTED, .parts = 2, .nudge_ns = 5 * MS });
}

static htc_status manytask_tree(one_run *r)
{
    return run_manytask(r, &(htc_sim_manytask_options){ .architecture = HTC_SIM_MANYTASK_HIERARCHICAL });
}

static htc_status manytask_falkon(one_run *r)
{
    return run_manytask(r, &(htc_sim_manytask_options){ .architecture = HTC_SIM_MANYTASK_FALKON_TREE });
}

static htc_status manytask_sparrow(one_run *r)
{
    return run_manytask(r, &(htc_sim_manytask_options){ .architecture = HTC_SIM_MANYTASK_SPARROW, .schedulers = 3 });
}

static htc_status manytask_cloudkon(one_run *r)
{
    return run_manytask(r, &(htc_sim_manytask_options){ .architecture = HTC_SIM_MANYTASK_CLOUDKON, .servers = 4, .store_ns = MS });
}

/* ---- provision ---- */

static htc_status run_provision(one_run *r, uint32_t system, int delayed, const htc_provision_options *shared)
{
    enum { JOBS = 40, TASKS = 20 };
    static const htc_sim_provision_edge edges[] = { { 0, 1 }, { 0, 2 }, { 0, 3 }, { 1, 4 }, { 2, 4 }, { 4, 5 }, { 5, 6 }, { 5, 7 }, { 3, 8 }, { 8, 9 } };
    htc_sim_provision_job               jobs[JOBS];
    htc_ns                              length[TASKS];
    htc_sim_provision_flow              flows[2];
    const htc_provision_options         book = { .size = sizeof book, .initial = 4, .ratio = 1000000, .scan_ns = 5 * S, .unit_ns = 60 * S };
    htc_sim_provision_environment       environment[2] = { { .size = sizeof *environment, .nodes = 10, .book = &book, .jobs = jobs, .n_jobs = JOBS, .period_ns = 600 * S },
                                                           { .size = sizeof *environment, .nodes = 6, .book = &book, .flows = flows, .n_flows = 2 } };
    htc_sim_provision_options           o = { .size = sizeof o, .system = system, .setup_delay = (uint32_t)delayed, .environments = environment, .n_environments = 2, .capacity = 30,
                                              .shared = shared, .tick_ns = S, .active_max = 200, .host = r->host, .resume = r->resume, .checkpoint = r->checkpoint };
    htc_sim_provision_report            report = { .size = sizeof report };
    htc_sim_provision_result            results[2];
    for (uint64_t i = 0; i < JOBS; i++)
        jobs[i] = (htc_sim_provision_job){ .arrival = i * 9 * S, .length = (20 + i % 7 * 11) * S, .nodes = 1 + (uint32_t)i % 5 };
    for (uint64_t i = 0; i < TASKS; i++)
        length[i] = (10 + i % 5 * 20) * S;
    for (uint64_t i = 0; i < 2; i++)
        flows[i] = (htc_sim_provision_flow){ .size = sizeof *flows, .arrival = i * 50 * S, .length = length, .edges = edges, .tasks = TASKS, .n_edges = sizeof edges / sizeof *edges };
    htc_status status = htc_sim_provision_run(r->env, &o, &report, results, &r->error);
    r->interrupted = report.interrupted;
    return status;
}

static htc_status provision_dsp(one_run *r)
{
    return run_provision(r, HTC_SIM_PROVISION_DSP, 1, NULL);
}

static htc_status provision_drp(one_run *r)
{
    return run_provision(r, HTC_SIM_PROVISION_DRP, 0, NULL);
}

static htc_status provision_ssp(one_run *r)
{
    return run_provision(r, HTC_SIM_PROVISION_SSP, 0, NULL);
}

static htc_status provision_shared(one_run *r)
{
    const htc_provision_options book = { .size = sizeof book, .initial = 8, .ratio = 1000000, .scan_ns = 5 * S, .unit_ns = 60 * S };
    return run_provision(r, HTC_SIM_PROVISION_DSP, 0, &book);
}

static htc_status (*const runs[])(one_run *r) = { kvs_copies,       kvs_strong,       kvs_chord,         kvs_tree,          kvs_live,           kvs_live_many,  fairshare_one,
                                                  fairshare_many,   fairshare_direct, jobs_records,      jobs_random,       jobs_central,       grids_mqh,      grids_fcfs,
                                                  dataflow_workers, dataflow_phases,  dataflow_diffusion, dataflow_pfs,     dataflow_mapreduce, manytask_central, manytask_stealing,
                                                  manytask_grids,   manytask_parts,   manytask_tree,     manytask_falkon,   manytask_sparrow,   manytask_cloudkon, provision_dsp,
                                                  provision_drp,    provision_ssp,    provision_shared };

#endif
