/* [site.NAME]: which keys there are, and what a site comes to. */
#include <math.h>
#include <sched.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "core/util.h"
#include "net/config/config_private.h"
#include "net/config/config_store.h"
#include "net/files/proc.h"

static const config_key site_keys[] = {
    { "adapter", CHOICE, "fork", "fork|join|slurm|sge|ssh|emu", 0, 0 },
    { "cores", NUMBER, "0", "0 (what the other sites leave; adapter fork alone: else 64) to 100000", 0, 100000 },
    { "node_cores", NUMBER, "0", "0 (cores) to 100000", 0, 100000 },
    { "memory", SIZE, "0", "0 (what there is) to 1024T", 0, 1125899906842624.0 },
    { "task_memory", SIZE, "0", "0 (memory divided by cores) to memory", 0, 1125899906842624.0 },
    { "users", LIST, "", "not of adapter fork: names of the users that the host serves, separated by commas; empty: the owner alone", 0, 0 },
    { "speed", REAL, "1", "0.01 to 1000", 0.01, 1000 },
    { "org", TEXT, "", "empty or a label", 0, 0 },
    { "type", TEXT, "", "empty or a label", 0, 0 },
    { "os", TEXT, "", "empty or a label", 0, 0 },
    { "container", CHOICE, "auto", "auto|apptainer|podman|bwrap|off", 0, 0 },
    { "gpus", NUMBER, "0", "0 (none, or what the host that joins says) to 64", 0, 64 },
    { "dir", TEXT, "", "empty (sites/NAME in the state directory) or an absolute path that the site's nodes see", 0, 0 },
    { "options", TEXT, "", "more words for the command that submits", 0, 0 },
    { "hosts", TEXT, "", "empty or the file of a list of hosts", 0, 0 },
    { "credentials", TEXT, "", "empty or a file that only its owner can read", 0, 0 },
    { "agent_cores", NUMBER, "1", "1 to 64", 1, 64 },
    { "batch_steps", NUMBER, "64", "1 to 1024", 1, 1024 },
    { "max_submit_per_s", NUMBER, "50", "1 to 50", 1, 50 },
    { "time_s", SECONDS, "0", "0 (what the batch system gives) to 31536000 seconds", 0, 31536000 },
    { "drain_s", SECONDS, "0", "0 (a tenth of time_s) to 31536000 seconds", 0, 31536000 },
    { "period_s", SECONDS, "6", "0.1 to 3600 seconds", 0.1, 3600 },
    { "running_max", NUMBER, "0", "0 (any) to 100000", 0, 100000 },
    { "queued_max", NUMBER, "0", "0 (any) to 100000", 0, 100000 },
    { "jobcomp", TEXT, "", "empty (none is read) or the absolute path of the file of JobCompLoc", 0, 0 },
};
static const char *const adapters[] = { "fork", "join", "slurm", "sge", "ssh", "emu" };

/* Adapters that are asked for, and cannot be had. */
static const struct {
    const char *name, *instead;
} others[] = {
    { "pbs", "there is none for PBS: adapter = emu stands for it in tests, adapter = ssh or htc-agent --join on its nodes works without it" },
    { "loadl", "there is none for LoadLeveler: adapter = emu stands for it in tests" },
    { "ctld", "our controllers cannot have agents as jobs yet: take adapter = fork for this machine, or slurm, sge, ssh, emu" },
};
#define JOIN_CORES 64 /* that a host may join with, where nothing is said */

static double site_real(const site *s, size_t key)
{
    double v = 0;
    htc__config_value(&site_keys[key], s && s->values[key] ? s->values[key] : site_keys[key].fallback, &v);
    return v;
}

static const char *site_text(const site *s, size_t key)
{
    return s && s->values[key] ? s->values[key] : site_keys[key].fallback;
}

static uint64_t site_number(const site *s, size_t key)
{
    return (uint64_t)site_real(s, key);
}

static site *site_named(htc_config *c, const char *name, size_t len)
{
    for (size_t i = 0; i < c->sites_count; i++)
        if (strlen(c->sites[i].name) == len && memcmp(c->sites[i].name, name, len) == 0)
            return &c->sites[i];
    if (c->sites_count == SITES_MAX)
        return NULL;
    char *copy = htc__alloc(c->env, len + 1);
    if (!copy)
        return NULL;
    memcpy(copy, name, len);
    c->sites[c->sites_count].name = copy;
    return &c->sites[c->sites_count++];
}

/* site.NAME.res.RESOURCE = N */
static const config_key resource_key = { "res", NUMBER, "0", "0 to 1000000", 0, 1000000 };

static int resource_is_fine(const char *name)
{
    size_t n = strspn(name, "abcdefghijklmnopqrstuvwxyz0123456789_.-");
    return n > 0 && n <= HTC_RESOURCE_NAME_MAX && !name[n] && name[0] >= 'a' && name[0] <= 'z' && strcmp(name, HTC_RESOURCE_GPU) != 0;
}

static htc_status keep_resource(htc_config *c, site *s, const char *key, const char *name, double number, htc_error *error)
{
    size_t i = 0, named = 0;
    for (; i < s->n_resources && strcmp(s->resources[i].name, name) != 0; i++)
        named += strcmp(s->resources[i].name, HTC_RESOURCE_GPU) != 0;
    if (i == s->n_resources && named == RESOURCES_MAX && strcmp(name, HTC_RESOURCE_GPU) != 0)
        return htc__error(error, HTC_ECONFIG, "%.80s: a site counts %d resources at most, and its GPUs", key, RESOURCES_MAX);
    if (i == s->n_resources) {
        char *copy = htc__strdup(c->env, name);
        if (!copy)
            return htc__error(error, HTC_ENOMEM, "out of memory");
        s->resources[s->n_resources++].name = copy;
    }
    s->resources[i].count = (uint32_t)number;
    return HTC_OK;
}

static htc_status set_resource(htc_config *c, site *s, const char *key, const char *name, const char *value, htc_error *error)
{
    double number;
    if (!resource_is_fine(name))
        return htc__error(error, HTC_ECONFIG, "%.80s: a resource is lower-case letters, digits, _ . and -, a letter first, 31 at most; GPUs are site.NAME.gpus", key);
    return htc__config_value(&resource_key, value, &number) != 0 ? htc__config_bad_value(&resource_key, key, value, error) : keep_resource(c, s, key, name, number, error);
}

htc_status htc__config_set_site(htc_config *c, const char *key, const char *value, htc_error *error)
{
    const char *name = key + strlen("site."), *last = strrchr(name, '.'), *counted = strstr(name, ".res.");
    last = counted ? counted : last;
    size_t      len = last ? (size_t)(last - name) : 0;
    double      number;
    if (len == 0 || len > 63 || strspn(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-") < len)
        return htc__error(error, HTC_ECONFIG, "%.80s: a site is [site.NAME] with letters, digits, _ and -", key);
    if (counted) {
        site *s = site_named(c, name, len);
        return s ? set_resource(c, s, key, counted + strlen(".res."), value, error) : htc__error(error, HTC_ECONFIG, "more than %d sites, or out of memory", SITES_MAX);
    }
    for (size_t i = 0; i < SITE_KEYS; i++) {
        if (strcmp(site_keys[i].name, last + 1) != 0)
            continue;
        for (size_t o = 0; i == SITE_ADAPTER && o < sizeof others / sizeof *others; o++)
            if (strcmp(others[o].name, value) == 0)
                return htc__error(error, HTC_ECONFIG, "%s = %s: %s", key, value, others[o].instead);
        if (htc__config_value(&site_keys[i], value, &number) != 0)
            return htc__config_bad_value(&site_keys[i], key, value, error);
        if ((i == SITE_DIR || i == SITE_JOBCOMP) && value[0] && value[0] != '/')
            return htc__config_bad_value(&site_keys[i], key, value, error);
        site *s = site_named(c, name, len);
        if (!s)
            return htc__error(error, HTC_ECONFIG, "more than %d sites, or out of memory", SITES_MAX);
        if (i == SITE_USERS && htc__config_list_set(c->env, &s->users, value) != HTC_OK)
            return htc__error(error, HTC_ECONFIG, "%.80s: more than %d words, or out of memory", key, LIST_MAX);
        if (i == SITE_GPUS && keep_resource(c, s, key, HTC_RESOURCE_GPU, number, error) != HTC_OK)
            return HTC_ENOMEM;
        return htc__config_keep(c->env, &s->values[i], value, error);
    }
    (void)htc__error(error, HTC_ECONFIG, "unknown key %.80s", key);
    if (error)
        snprintf(error->hint, sizeof error->hint, "a site has adapter, cores, node_cores, memory, task_memory, users, speed, container, gpus, res.NAME, and more: man htc.ini");
    return HTC_ECONFIG;
}

static int adapter_of(const site *s)
{
    return s && s->values[SITE_ADAPTER] ? htc__config_choice(site_keys[SITE_ADAPTER].allowed, s->values[SITE_ADAPTER]) : ADAPTER_FORK;
}

/* Its agents are launched by somebody who joins. */
static int is_joined(const site *s)
{
    return adapter_of(s) != ADAPTER_FORK;
}


/* What one key alone cannot say. */
htc_status htc__config_check_sites(const htc_config *c, htc_error *error)
{
    for (size_t i = 0; i < c->sites_count; i++) {
        htc_config_site s = { .size = sizeof s };
        htc_config_site_get(c, i, &s);
        if (s.task_memory > s.memory && s.memory)
            return htc__error(error, HTC_ECONFIG, "site.%s.task_memory: a task would reserve %llu bytes, and the site has %llu", s.name,
                              (unsigned long long)s.task_memory, (unsigned long long)s.memory);
        int joins = is_joined(&c->sites[i]);
        if (joins && !htc_config_text(c, "db.store")[0] && (!htc_config_text(c, "server.join")[0] || !htc_config_text(c, "db.join")[0]))
            return htc__error(error, HTC_ECONFIG, "site.%s.adapter = %s needs server.join and db.join, where its host reaches this machine", s.name, s.adapter);
        if (!joins && c->sites[i].users.count)
            return htc__error(error, HTC_ECONFIG, "site.%s.users is not for adapter = fork", s.name);
        if (adapter_of(&c->sites[i]) >= ADAPTER_BATCH && site_number(&c->sites[i], SITE_GPUS))
            return htc__error(error, HTC_ECONFIG, "site.%s.gpus: the GPUs of a batch system's nodes are that system's to give: ask for them by options", s.name);
        if (strcmp(s.adapter, "ssh") == 0 && !site_text(&c->sites[i], SITE_HOSTS)[0])
            return htc__error(error, HTC_ECONFIG, "site.%s.adapter = ssh needs site.%s.hosts, the file of a list of hosts", s.name, s.name);
        for (size_t k = SITE_DIR; k < SITE_KEYS && adapter_of(&c->sites[i]) < ADAPTER_BATCH; k++)
            if (c->sites[i].values[k])
                return htc__error(error, HTC_ECONFIG, "site.%s.%s is for adapter = slurm, sge, ssh or emu: on the host of a site that joins it stands in [batch]", s.name,
                                  site_keys[k].name);
    }
    return htc__config_check_store(c, error);
}

/* --- sites --- */

static uint32_t machine_cores(void)
{
    cpu_set_t set;
    int       n = sched_getaffinity(0, sizeof set, &set) == 0 ? CPU_COUNT(&set) : 1;
    return n > 0 ? (uint32_t)n : 1;
}

size_t htc_config_sites(const htc_config *c)
{
    return c->sites_count ? c->sites_count : 1;
}

/* All sites but those that hosts join are this machine: those that name no slots divide what the others leave of it, the first ones one more; at least 1. */
static uint32_t site_cores(const htc_config *c, const site *s)
{
    uint32_t cores = (uint32_t)site_number(s, SITE_CORES), machine = machine_cores(), left = machine > 4 ? machine : 4;
    uint32_t unnamed = 0, at = 0;
    if (cores || is_joined(s))
        return cores ? cores : JOIN_CORES;
    for (size_t i = 0; s && i < c->sites_count; i++) {
        if (is_joined(&c->sites[i]))
            continue;
        uint32_t named = (uint32_t)site_number(&c->sites[i], SITE_CORES);
        left -= named < left ? named : left;
        at = &c->sites[i] == s ? unnamed : at;
        unnamed += named == 0;
    }
    cores = s ? left / unnamed + (at < left % unnamed) : left;
    return cores ? cores : 1;
}

/* All sites but those that hosts join are this machine: those that name no memory divide what the others leave, by their slots. */
static uint64_t unnamed_memory(const htc_config *c, const site *s, uint32_t cores)
{
    uint64_t left = htc__machine_memory(), all_cores = 0;
    for (size_t i = 0; s && i < c->sites_count; i++) {
        if (is_joined(&c->sites[i]))
            continue;
        uint64_t named = site_number(&c->sites[i], SITE_MEMORY);
        all_cores += named ? 0 : site_cores(c, &c->sites[i]);
        left -= named < left ? named : left;
    }
    return all_cores > cores ? left / all_cores * cores : left;
}

static const char *const no_users[] = { NULL };

htc_status htc_config_site_get(const htc_config *c, size_t i, htc_config_site *site_out)
{
    if (!c || !site_out || i >= htc_config_sites(c))
        return HTC_EINVAL;
    const site *s = c->sites_count ? &c->sites[i] : NULL;
    htc_config_site  known = { .size = sizeof known }, *out = &known;
    out->name = s ? s->name : "local";
    int joins = is_joined(s);
    out->adapter = adapters[adapter_of(s)];
    if (joins)
        out->users = s->users.items ? s->users.items : no_users;
    out->cores = site_cores(c, s);
    out->node_cores = (uint32_t)site_number(s, SITE_NODE_CORES);
    if (!out->node_cores)
        out->node_cores = out->cores;
    out->memory = site_number(s, SITE_MEMORY);
    if (!out->memory && !joins)
        out->memory = unnamed_memory(c, s, out->cores);
    out->task_memory = site_number(s, SITE_TASK_MEMORY);
    if (!out->task_memory)
        out->task_memory = out->memory / out->cores;
    out->speed = site_real(s, SITE_SPEED);
    out->org = site_text(s, SITE_ORG);
    out->type = site_text(s, SITE_TYPE);
    out->os = site_text(s, SITE_OS);
    out->broker = adapter_of(s) >= ADAPTER_BATCH;
    out->container = s && s->values[SITE_CONTAINER] ? s->values[SITE_CONTAINER] : site_keys[SITE_CONTAINER].fallback;
    out->resources = s ? s->resources : NULL;
    out->n_resources = s ? s->n_resources : 0;
    return htc__options_give(site_out, out, sizeof *out, offsetof(htc_config_site, users));
}

static htc_ns site_ns(const site *s, size_t key)
{
    return (htc_ns)llround(site_real(s, key) * 1e9);
}

htc_status htc_config_batch_get(const htc_config *c, const char *name, htc_config_batch *batch_out)
{
    htc_config_batch known = { .size = sizeof known }, *out = &known;
    const site      *s = NULL;
    if (!c || !batch_out)
        return HTC_EINVAL;
    for (size_t i = 0; name && i < c->sites_count; i++)
        s = strcmp(c->sites[i].name, name) == 0 ? &c->sites[i] : s;
    if (name && adapter_of(s) < ADAPTER_BATCH)
        return HTC_ENOTFOUND;
    if (s)
        *out = (htc_config_batch){ .size = sizeof known, .system = adapters[adapter_of(s)], .options = site_text(s, SITE_OPTIONS), .hosts = site_text(s, SITE_HOSTS), .credentials = site_text(s, SITE_CREDENTIALS),
                                   .dir = site_text(s, SITE_DIR), .slots = site_cores(c, s), .cores = (uint32_t)site_number(s, SITE_AGENT_CORES),
                                   .steps = (uint32_t)site_number(s, SITE_STEPS), .submits_per_s = (uint32_t)site_number(s, SITE_SUBMITS),
                                   .running_max = (uint32_t)site_number(s, SITE_RUNNING_MAX), .queued_max = (uint32_t)site_number(s, SITE_QUEUED_MAX),
                                   .time_ns = site_ns(s, SITE_TIME), .drain_ns = site_ns(s, SITE_DRAIN), .period_ns = site_ns(s, SITE_PERIOD), .jobcomp = site_text(s, SITE_JOBCOMP) };
    else
        *out = (htc_config_batch){ .size = sizeof known, .system = htc_config_text(c, "batch.system"), .options = htc_config_text(c, "batch.options"),
                                   .hosts = htc_config_text(c, "batch.hosts"), .credentials = htc_config_text(c, "batch.credentials"), .dir = "", .cores = (uint32_t)htc_config_number(c, "batch.cores"),
                                   .steps = (uint32_t)htc_config_number(c, "batch.steps"), .submits_per_s = (uint32_t)htc_config_number(c, "batch.submits_per_s"),
                                   .running_max = (uint32_t)htc_config_number(c, "batch.running_max"), .queued_max = (uint32_t)htc_config_number(c, "batch.queued_max"),
                                   .time_ns = htc_config_ns(c, "batch.time_s"), .drain_ns = htc_config_ns(c, "batch.drain_s"),
                                   .period_ns = htc_config_ns(c, "batch.period_s"), .jobcomp = htc_config_text(c, "batch.jobcomp") };
    out->emu_by_queue = strcmp(htc_config_text(c, "emu.cluster_metric"), "queue") == 0;
    out->emu_clusters = *htc_config_list(c, "emu.clusters") ? htc_config_list(c, "emu.clusters") : NULL;
    out->emu_service_ns = htc_config_ns(c, "emu.service_s");
    out->emu_hold = htc__config_real(c, "emu.hold");
    out->emu_hold_rate = htc__config_real(c, "emu.hold_rate");
    out->emu_fail = htc__config_real(c, "emu.fail");
    out->emu_seed = htc_config_number(c, "emu.seed");
    return htc__options_give(batch_out, out, sizeof *out, sizeof *out);
}

htc_status htc_config_gateway(htc_config *c, htc_gateway_options *o)
{
    size_t n = htc_config_sites(c);
    htc__free(c->env, c->gateway_sites, c->gateway_sites_count * sizeof *c->gateway_sites);
    c->gateway_sites_count = 0;
    c->gateway_sites = htc__alloc(c->env, n * sizeof *c->gateway_sites);
    if (!c->gateway_sites)
        return HTC_ENOMEM;
    c->gateway_sites_count = n;
    for (size_t i = 0; i < n; i++) {
        htc_config_site s = { .size = sizeof s };
        htc_config_site_get(c, i, &s);
        c->gateway_sites[i] = (htc_site_options){ .size = sizeof(htc_site_options), .name = s.name, .cores = s.cores, .memory = s.memory, .node_cores = s.node_cores,
                                                   .task_memory = s.task_memory, .joins = s.users != NULL, .users = s.users, .speed = s.speed, .org = s.org, .type = s.type, .os = s.os,
                                                   .resources = s.resources, .n_resources = s.n_resources };
    }
    o->sites = c->gateway_sites;
    o->n_sites = n;
    o->store_join = htc_config_text(c, "db.join");
    htc__config_store_options(c, o);
    o->policy = htc_config_text(c, "fair.policy");
    o->fair_users = htc_config_list(c, "fair.users");
    o->weight_profiled = strcmp(htc_config_text(c, "fair.weight"), "profiled") == 0;
    o->gamma = htc__config_real(c, "fair.gamma");
    o->half_life_ns = htc_config_ns(c, "fair.half_life");
    o->quota_core_ns = (uint64_t)(htc__config_real(c, "quota.core_hours") * 3.6e12);
    o->quota_bytes = htc_config_number(c, "quota.bytes");
    o->quota_tasks = htc_config_number(c, "quota.tasks");
    o->quota_processes = htc_config_number(c, "quota.processes");
    o->not_durable = htc_config_durability(c) == HTC_DURABLE_MEMORY && !htc_config_text(c, "db.store")[0];
    o->tick_ns = htc_config_ns(c, "fair.tick_s");
    o->gang_collect_ns = htc_config_ns(c, "gang.collect_s");
    o->heartbeat_ns = htc_config_ns(c, "agent.heartbeat_s");
    o->lost_after_ns = htc_config_ns(c, "agent.lost_after_s");
    o->launch_timeout_ns = htc_config_ns(c, "agent.launch_timeout_s");
    o->relaunch_backoff_ns = htc_config_ns(c, "agent.relaunch_backoff_s");
    o->max_relaunch = (uint32_t)htc_config_number(c, "agent.max_relaunch");
    o->max_attempts = (uint32_t)htc_config_number(c, "task.max_attempts");
    o->max_lost = (uint32_t)htc_config_number(c, "task.max_lost");
    o->retry_backoff_ns = htc_config_ns(c, "task.retry_backoff_s");
    o->retry_backoff_max_ns = htc_config_ns(c, "task.retry_backoff_max_s");
    o->tasks_max = htc_config_number(c, "split.max_tasks");
    o->token_life_ns = htc_config_ns(c, "server.token_life_s");
    o->idle_ns = htc_config_ns(c, "server.idle_s");
    o->usage_keep_ns = htc_config_ns(c, "db.usage_keep_s");
    o->content_grace_ns = htc_config_ns(c, "data.content_grace_s");
    o->slots_max = (uint32_t)htc_config_number(c, "agent.slots_max");
    o->prefetch_max = (uint32_t)htc_config_number(c, "agent.prefetch");
    uint64_t min_agents = htc_config_number(c, "fair.min_agents");
    o->min_agents = min_agents ? (uint32_t)min_agents : UINT32_MAX;
    o->task_wall_max_ns = htc_config_ns(c, "task.wall_max_s");
    o->wide_wait_ns = htc_config_ns(c, "task.wide_wait_s");
    o->memory_wait_ns = htc_config_ns(c, "task.memory_wait_s");
    return HTC_OK;
}
