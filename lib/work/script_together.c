/* What several options of a script say together: cores on how many nodes, memory, GPUs, what else sites count, and when mail is sent. */
#include <stdio.h>
#include <string.h>

#include "work/script_private.h"

#define COUNT_MAX 1000000 /* of one thing that is counted */

/* ---- what is counted ---- */

static htc_status number_of(htc__script *s, const char *text, uint64_t *count)
{
    if (!htc__script_number(text, count) || *count > COUNT_MAX)
        return htc__script_refuse(s, HTC_EUSAGE, "'%.60s' is no number of things, up to %d", text, COUNT_MAX);
    return HTC_OK;
}

static int is_name(const char *name)
{
    size_t n = strlen(name);
    return n >= 1 && n <= HTC_RESOURCE_NAME_MAX && name[0] >= 'a' && name[0] <= 'z' && strspn(name, "abcdefghijklmnopqrstuvwxyz0123456789_.-") == n;
}

htc_status htc__script_count(htc__script *s, char from, const char *name, const char *count)
{
    uint64_t   n = 1;
    htc_status status = count ? number_of(s, count, &n) : HTC_OK;
    if (status != HTC_OK || n == 0)
        return status;
    if (!is_name(name))
        return htc__script_refuse(s, HTC_EUNSUPPORTED, "'%.60s' is no name of what sites count: lower-case letters, digits, _ . and -, a letter first", name);
    for (uint32_t i = 0; i < s->n_counted; i++) {
        if (strcmp(s->counted[i].name, name) != 0)
            continue;
        if (from == 'l' && s->counted[i].from == 'l') { /* of two -l the later one holds */
            s->counted[i].count = n;
            s->counted[i].line = s->line;
            return HTC_OK;
        }
        return htc__script_refuse(s, HTC_EUSAGE, "%s stands there twice", name);
    }
    if (s->n_counted == HTC__SCRIPT_COUNTED_MAX)
        return htc__script_refuse(s, HTC_ETOOBIG, "more than %d things are counted", HTC__SCRIPT_COUNTED_MAX);
    htc__script_counted *c = &s->counted[s->n_counted++];
    *c = (htc__script_counted){ .from = (uint8_t)from, .count = n, .line = s->line };
    memcpy(c->name, name, strlen(name) + 1);
    return HTC_OK;
}

void htc__script_uncount(htc__script *s, char from)
{
    uint32_t kept = 0;
    for (uint32_t i = 0; i < s->n_counted; i++)
        if (s->counted[i].from != (uint8_t)from)
            s->counted[kept++] = s->counted[i];
    s->n_counted = kept;
}

htc_status htc__script_gpus(htc__script *s, uint32_t way, const char *count)
{
    s->gpus[way].line = s->line;
    return number_of(s, count, &s->gpus[way].count);
}

/* ---- what it comes to ---- */

typedef struct sums {
    uint64_t tasks, cores, nodes, gpus;
} sums;

static int is_slurm(const htc__script *s)
{
    return s->dialect == HTC_SCRIPT_SLURM;
}

static htc_status tell_number(htc__script *s, const char *option, uint64_t n, const char *unit, const char *note)
{
    snprintf(s->made, sizeof s->made, "%llu%s", (unsigned long long)n, unit);
    return htc__script_tell(s, option, s->made, note);
}

static htc_status contradiction(htc__script *s, uint32_t line)
{
    s->line = line;
    snprintf(s->said, sizeof s->said, "--gpus, --gpus-per-node, --gpus-per-task, --gres");
    return htc__script_refuse(s, HTC_EUSAGE, "they ask for different numbers of GPUs");
}

/* All ways to say it have to say the same. */
static htc_status sum_gpus(htc__script *s, sums *t)
{
    const uint64_t times[HTC__SCRIPT_GPUS_WAYS] = { 1, t->nodes, t->tasks, is_slurm(s) ? t->nodes : t->cores };
    for (uint32_t way = 0; way < HTC__SCRIPT_GPUS_WAYS; way++) {
        uint64_t all = s->gpus[way].count * times[way];
        if (all && t->gpus && all != t->gpus)
            return contradiction(s, s->gpus[way].line);
        t->gpus = all ? all : t->gpus;
    }
    return HTC_OK;
}

/* As sbatch(1) has it: without -n each node has --ntasks-per-node tasks, or one; with it --ntasks-per-node is the most that a node has. */
static htc_status sum_tasks(htc__script *s, sums *t)
{
    uint64_t each = s->ntasks_per_node ? s->ntasks_per_node : 1;
    t->nodes = s->nodes ? s->nodes : 1;
    t->tasks = s->ntasks ? s->ntasks : t->nodes * each;
    if (s->ntasks && s->ntasks_per_node && !s->nodes)
        t->nodes = (s->ntasks + each - 1) / each;
    s->line = s->cores_line;
    snprintf(s->said, sizeof s->said, is_slurm(s) ? "--nodes, --ntasks, --ntasks-per-node" : "-pe");
    if (t->nodes > HTC_TASK_NODES_MAX)
        return htc__script_refuse(s, HTC_ETOOBIG, "a task has at most %d nodes", HTC_TASK_NODES_MAX);
    if (t->tasks > 65535)
        return htc__script_refuse(s, HTC_ETOOBIG, "more than 65535 cores");
    if (t->nodes > 1 && t->tasks % t->nodes)
        return htc__script_refuse(s, HTC_EUNSUPPORTED, "%llu tasks on %llu nodes: here each node of a task has the same number of cores",
                                  (unsigned long long)t->tasks, (unsigned long long)t->nodes);
    if (s->ntasks_per_node && t->tasks / t->nodes > s->ntasks_per_node)
        return htc__script_refuse(s, HTC_EUSAGE, "%llu tasks on %llu nodes are more than %llu on a node", (unsigned long long)t->tasks,
                                  (unsigned long long)t->nodes, (unsigned long long)s->ntasks_per_node);
    return HTC_OK;
}

static htc_status tell_cores(htc__script *s, sums *t)
{
    uint64_t cpus = s->cpus ? s->cpus : 1;
    if (s->cpus && s->cpus_per_gpu)
        return htc__script_refuse(s, HTC_EUSAGE, "--cpus-per-task and --cpus-per-gpu exclude each other");
    if (s->cpus_per_gpu && !t->gpus)
        return htc__script_refuse(s, HTC_EUSAGE, "--cpus-per-gpu, and no GPU");
    t->cores = s->cpus_per_gpu ? s->cpus_per_gpu * t->gpus : t->tasks * cpus;
    t->cores = t->cores < t->tasks ? t->tasks : t->cores;
    if (!s->ntasks && !s->cpus && !s->nodes && !s->ntasks_per_node && !s->cpus_per_gpu)
        return HTC_OK;
    s->line = s->cores_line;
    snprintf(s->said, sizeof s->said, is_slurm(s) ? "--ntasks, --cpus-per-task" : "-pe");
    if (t->cores > 65535)
        return htc__script_refuse(s, HTC_ETOOBIG, "more than 65535 cores");
    htc_status status = tell_number(s, "cores", t->cores, "", NULL);
    if (status != HTC_OK || t->nodes == 1)
        return status;
    snprintf(s->said, sizeof s->said, "--nodes");
    return tell_number(s, "node-cores", t->cores / t->nodes, "", NULL);
}

/* Of a node, as --mem in Slurm; Grid Engine counts it for each slot. */
static htc_status tell_memory(htc__script *s, const sums *t)
{
    uint64_t each = s->memory ? s->memory : s->memory_per_gpu ? s->memory_per_gpu : s->memory_per_core;
    uint64_t times = s->memory ? 1 : s->memory_per_gpu ? t->gpus / t->nodes : t->cores / t->nodes;
    if (!each)
        return HTC_OK;
    s->line = s->memory_line;
    snprintf(s->said, sizeof s->said, !is_slurm(s) ? "-l h_vmem" : s->memory ? "--mem" : s->memory_per_gpu ? "--mem-per-gpu" : "--mem-per-cpu");
    if (times == 0)
        return htc__script_refuse(s, HTC_EUSAGE, "there is no GPU");
    if (each > (UINT64_C(1) << 60) / times)
        return htc__script_refuse(s, HTC_ETOOBIG, "no node has so much memory");
    return tell_number(s, "mem", each * times, "B", NULL);
}

static htc_status tell_gpus(htc__script *s, const sums *t)
{
    uint32_t way = 0;
    if (!t->gpus)
        return HTC_OK;
    while (!s->gpus[way].count)
        way++;
    s->line = s->gpus[way].line;
    snprintf(s->said, sizeof s->said, !is_slurm(s) ? "-l gpu" : way == HTC__SCRIPT_GPUS_GRES ? "--gres" : way == HTC__SCRIPT_GPUS_NODE ? "--gpus-per-node" : way == HTC__SCRIPT_GPUS_TASK ? "--gpus-per-task" : "--gpus");
    if (t->gpus % t->nodes)
        return htc__script_refuse(s, HTC_EUNSUPPORTED, "%llu GPU%s on %llu nodes: here each node of a task has the same number of GPUs",
                                  (unsigned long long)t->gpus, htc__plural(t->gpus), (unsigned long long)t->nodes);
    return tell_number(s, "gpus", t->gpus / t->nodes, "", !is_slurm(s) && t->cores > 1 ? "Grid Engine counts it for each slot: this times those of -pe" : NULL);
}

/* Slurm counts licences for a job, and what --gres names for each node; Grid Engine all for each slot. */
static htc_status tell_counted(htc__script *s, const sums *t)
{
    htc_status status = HTC_OK;
    for (uint32_t i = 0; status == HTC_OK && i < s->n_counted; i++) {
        const htc__script_counted *c = &s->counted[i];
        uint64_t                   times = is_slurm(s) ? 1 : t->cores;
        s->line = c->line;
        snprintf(s->said, sizeof s->said, "%s %s", c->from == 'L' ? "--licenses" : c->from == 'g' ? "--gres" : "-l", c->name);
        if (t->nodes > 1 && c->from == 'L')
            return htc__script_refuse(s, HTC_EUNSUPPORTED, "Slurm counts licences once for a job, and here each node of a task takes its own");
        snprintf(s->made, sizeof s->made, "%s=%llu", c->name, (unsigned long long)(c->count * times));
        status = htc__script_tell(s, "res", s->made, times > 1 ? "Grid Engine counts it for each slot: this times those of -pe" : NULL);
    }
    return status;
}

htc_status htc__script_finish(htc__script *s)
{
    sums       t = { 0, 0, 0, 0 };
    uint32_t   line = s->line;
    htc_status status = sum_tasks(s, &t);
    t.cores = t.tasks * (s->cpus ? s->cpus : 1);
    if (status == HTC_OK)
        status = sum_gpus(s, &t);
    if (status == HTC_OK)
        status = tell_cores(s, &t);
    if (status == HTC_OK)
        status = tell_memory(s, &t);
    if (status == HTC_OK)
        status = tell_gpus(s, &t);
    if (status == HTC_OK)
        status = tell_counted(s, &t);
    if (status != HTC_OK)
        return status;
    s->line = line;
    if ((s->mail_said || s->mail_to) && !s->mail_end)
        status = htc__script_tell(s, "mail-on", s->mail_fail ? "fail" : "none", NULL); /* both systems send none unless asked when */
    return status;
}
