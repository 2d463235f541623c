/* The clean environment of a task: what the system promises, what the task asked for, nothing else. */
#include <inttypes.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "net/exec/exec_private.h"

#define ENTRIES_MAX 4096

typedef struct entries {
    char **list;
    size_t count;
    int    failed;
} entries;

/* Take over an entry; a later one replaces an earlier one of the same name. */
static void put(entries *e, char *entry)
{
    if (!entry || e->count + 1 >= ENTRIES_MAX) {
        free(entry);
        e->failed = 1;
        return;
    }
    size_t name = strcspn(entry, "=") + 1;
    for (size_t i = 0; i < e->count; i++)
        if (strncmp(e->list[i], entry, name) == 0) {
            free(e->list[i]);
            e->list[i] = entry;
            return;
        }
    e->list[e->count++] = entry;
}

static void __attribute__((format(printf, 2, 3))) add(entries *e, const char *format, ...)
{
    char   *entry = NULL;
    va_list args;
    va_start(args, format);
    int n = vasprintf(&entry, format, args);
    va_end(args);
    put(e, n < 0 ? NULL : entry);
}

static void add_slurm(entries *e, const htc__run *r)
{
    add(e, "SLURM_ARRAY_JOB_ID=%" PRIu64, r->attempt.job);
    add(e, "SLURM_ARRAY_TASK_ID=%" PRIu64, r->attempt.task);
    add(e, "SLURM_ARRAY_TASK_COUNT=%" PRIu64, r->count);
    add(e, "SLURM_ARRAY_TASK_MIN=0");
    add(e, "SLURM_ARRAY_TASK_MAX=%" PRIu64, r->count ? r->count - 1 : 0);
    add(e, "SLURM_ARRAY_TASK_STEP=1");
    add(e, "SLURM_JOB_ID=%" PRIu64, r->attempt.job);
    add(e, "SLURM_JOBID=%" PRIu64, r->attempt.job);
    add(e, "SLURM_RESTART_COUNT=%" PRIu32, r->attempt.attempt ? r->attempt.attempt - 1 : 0);
    add(e, "SLURM_CPUS_PER_TASK=%" PRIu32, r->task->limits.cores ? r->task->limits.cores : 1);
    add(e, "SLURMD_NODENAME=%s", r->agent->node);
}

static void add_sge(entries *e, const htc__run *r)
{
    add(e, "SGE_TASK_ID=%" PRIu64, r->attempt.task + 1);
    add(e, "SGE_TASK_FIRST=1");
    add(e, "SGE_TASK_LAST=%" PRIu64, r->count);
    add(e, "SGE_TASK_STEPSIZE=1");
    add(e, "JOB_ID=%" PRIu64, r->attempt.job);
    add(e, "NSLOTS=%" PRIu32, r->task->limits.cores ? r->task->limits.cores : 1);
}

/* Names that start with HTC_ are the system's word and not the task's to change, but those that tell of an array or of another job. */
static int is_ours(const char *entry)
{
    return strncmp(entry, "HTC_", 4) == 0 && strncmp(entry, "HTC_ARRAY_INDEX=", 16) != 0 && strncmp(entry, "HTC_JOB_", 8) != 0;
}

static void add_ours(entries *e, const htc__run *r, htc_ns wall_now)
{
    add(e, "HTC_USER=%s", r->user);
    if (!r->process) { /* the process is for many tasks */
        add(e, "HTC_METAJOB_ID=%" PRIu64, r->attempt.job);
        add(e, "HTC_TASK_INDEX=%" PRIu64, r->attempt.task);
        add(e, "HTC_TASK_COUNT=%" PRIu64, r->count);
        add(e, "HTC_TASK_ATTEMPT=%" PRIu32, r->attempt.attempt);
    }
    add(e, "HTC_AGENT_ID=%" PRIu64, r->agent->agent);
    add(e, "HTC_SITE=%s", r->agent->site);
    put(e, strdup(r->scratch_entry));
    add(e, "HTC_OUTPUT_DIR=%s", r->out);
    add(e, "HTC_SWEEP=%s", r->task->values_json ? r->task->values_json : "{}");
    add(e, "HTC_CORES=%" PRIu32, htc__run_slots(r) * htc__run_nodes(r));
    if (htc__run_slots(r) > 1 || r->task->nodes)
        add(e, "HTC_NODEFILE=%s/nodes", r->dir);
    if (r->task->nodes) {
        add(e, "HTC_GANG_NODES=%" PRIu32, htc__run_nodes(r));
        add(e, "HTC_GANG_MEMBER=%" PRIu32, r->task->member);
    }
    if (r->door)
        add(e, "HTC_GANG=%s/gang", r->dir);
    if (r->mark)
        put(e, strdup(r->mark));
    if (r->task->container)
        add(e, "HTC_CONTAINER=%s", r->task->container);
    if (r->task->devices)
        add(e, "HTC_GPUS=%s", r->task->devices);
    if (r->task->limits.wall)
        add(e, "HTC_WALL_DEADLINE=%" PRIu64, (wall_now + r->task->limits.wall) / HTC_SECOND);
}

char **htc__child_env(const htc__run *r, htc_ns wall_now)
{
    const htc_agent_host *a = r->agent;
    entries               e = { calloc(ENTRIES_MAX, sizeof *e.list), 0, 0 };
    if (!e.list)
        return NULL;
    add(&e, "HOME=%s", a->confine ? r->scratch : a->home); /* a confined task does not see the owner's */
    add(&e, "PATH=%s", a->path);
    add(&e, "TMPDIR=%s", r->scratch);
    for (char **p = a->env_pass; *p; p++)
        put(&e, strdup(*p));
    if (r->compat == HTC_COMPAT_SLURM)
        add_slurm(&e, r);
    if (r->compat == HTC_COMPAT_SGE)
        add_sge(&e, r);
    if (r->door) { /* mpirun of MPICH and of what descends from it */
        add(&e, "HYDRA_BOOTSTRAP=ssh");
        add(&e, "HYDRA_BOOTSTRAP_EXEC=%s", a->gang);
        add(&e, "HYDRA_HOST_FILE=%s/nodes", r->dir);
    }
    if (r->task->devices)
        add(&e, "CUDA_VISIBLE_DEVICES=%s", r->task->devices);
    for (const char *const *p = r->task->env; p && *p; p++)
        if (!is_ours(*p) && strchr(*p, '=') && **p != '=')
            put(&e, strdup(*p));
    add_ours(&e, r, wall_now);
    if (e.failed) {
        htc__strings_free(e.list);
        return NULL;
    }
    return e.list;
}

void htc__strings_free(char **list)
{
    for (size_t i = 0; list && list[i]; i++)
        free(list[i]);
    free(list);
}
