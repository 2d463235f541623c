#include "join.h"

#include <netdb.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "htcsched/agent_host.h"
#include "htcsched/gateway.h"
#include "htcsched/gateway_host.h"
#include "htcsched/joined.h"
#include "htcsched/keys.h"

extern char **environ;

#define PATIENCE (4 * HTC_SECOND)
#define COUNTED 16 /* of --gpus and --res */

typedef struct joining {
    htc_daemon               *d;
    const htc_daemon_options *o;
    htc_host                 *host;
    uint32_t                  slots, cores, in, said; /* cores: of one job */
    htc_status                refused; /* for good */
    htc_ns                    denied_at, denied_last; /* since when no key was taken, and the last time that none was; 0: one was */
    char                      agent[4200], at[JOIN_ADDRESS_MAX], why[HTC_GATEWAY_HOST_WHY_MAX];
    int                       ssh;
    htc_gateway_host_emu      emu;
    htc_gateway_host_batch    batch; /* system NULL: agents are processes of this machine */
} joining;

static htc_status wrong(htc_daemon *d, htc_status status, const char *hint, const char *text)
{
    snprintf(d->error.text, sizeof d->error.text, "%s", text);
    snprintf(d->error.hint, sizeof d->error.hint, "%.159s", hint);
    return status;
}

htc_status join_check(htc_daemon *d, const htc_daemon_options *o)
{
    char *end = NULL;
    if (!o->key || !o->ring)
        return wrong(d, HTC_EUSAGE, "htc keys join makes both, with the secret that htc keys enrol prints on the gateway's machine",
                     "--join needs --key FILE and --ring FILE: beyond this machine nothing goes without keys");
    if (o->agent || o->gateway)
        return wrong(d, HTC_EUSAGE, "htc-agent --help lists the options", "--join does not go with --agent and --gateway: the agents are started by it");
    if (o->slots && (strtoul(o->slots, &end, 10) == 0 || *end || strtoul(o->slots, NULL, 10) > 1024))
        return wrong(d, HTC_EUSAGE, "take 1 to 1024", "--slots is no number of slots");
    return HTC_OK;
}

htc_status join_own_address(htc_daemon *d, const char *gateway, const char *option, char at[JOIN_ADDRESS_MAX])
{
    char             host[256], text[80];
    char             first[300], *from = first;
    snprintf(first, sizeof first, "%.*s", (int)strcspn(gateway, ","), gateway); /* the way to one of several is the way to all */
    const char      *colon = strrchr(first, ':');
    size_t           len = colon ? (size_t)(colon - from) : 0;
    struct addrinfo  hints = { .ai_socktype = SOCK_DGRAM }, *list = NULL;
    struct sockaddr_storage own;
    socklen_t        own_len = sizeof own;
    if (len > 1 && from[0] == '[' && from[len - 1] == ']') {
        from++;
        len -= 2;
    }
    snprintf(text, sizeof text, "%s wants HOST:PORT", option);
    if (!colon || len == 0 || len >= sizeof host)
        return wrong(d, HTC_EUSAGE, "it is server.join of the system", text);
    memcpy(host, from, len);
    host[len] = '\0';
    int fd = getaddrinfo(host, colon + 1, &hints, &list) == 0 ? socket(list->ai_family, SOCK_DGRAM | SOCK_CLOEXEC, 0) : -1;
    int ok = fd >= 0 && connect(fd, list->ai_addr, list->ai_addrlen) == 0 && getsockname(fd, (struct sockaddr *)&own, &own_len) == 0 &&
             getnameinfo((struct sockaddr *)&own, own_len, at, JOIN_ADDRESS_MAX, NULL, 0, NI_NUMERICHOST) == 0;
    if (fd >= 0)
        close(fd);
    if (list)
        freeaddrinfo(list);
    return ok ? HTC_OK : wrong(d, HTC_EUNREACHABLE, "--at HOST says where other hosts reach this one", "no way leads from here to the gateway's machine");
}

/* In the loop's thread. Who is not known there, or does not know who answers, does not come to be by trying again; but a key that was pinned just
 * now is read a moment later. */
static void refused(void *ctx, htc_status why, const char *reason)
{
    joining *j = ctx;
    htc_ns   now = htc_host_now();
    if (why == HTC_EDENIED && (!j->denied_at || now - j->denied_last > PATIENCE))
        j->denied_at = now;
    if (why == HTC_EDENIED)
        j->denied_last = now;
    if (why == HTC_EDENIED && now - j->denied_at >= PATIENCE) {
        char hint[200];
        snprintf(hint, sizeof hint, "on the gateway's machine: htc keys enrol NAME --role host --once DIR/once; here: htc keys join with what it prints, and a new --key if this one was revoked");
        j->refused = wrong(j->d, HTC_EDENIED, hint, reason);
        snprintf(j->d->error.where, sizeof j->d->error.where, "%.120s", j->o->join);
        htc_host_stop(j->host, HTC_EDENIED);
    } else if (why != HTC_EDENIED && !j->said && !j->in && !j->o->site) { /* started by the system, it says nothing that is in its log */
        j->said = 1;
        fprintf(stderr, "htc-agent: %s: %s: it is tried again\n", j->o->join, reason);
    }
}

static void let_in(void *ctx)
{
    joining *j = ctx;
    j->in = 1;
    if (j->o->site)
        return;
    if (j->ssh)
        printf("joined %s with %u slot%s; agents go to the hosts of %s\n", j->o->join, j->slots, j->slots == 1 ? "" : "s", j->batch.hosts);
    else if (j->batch.system)
        printf("joined %s with %u slot%s; agents are jobs of %s\n", j->o->join, j->slots, j->slots == 1 ? "" : "s", j->batch.system);
    else
        printf("joined %s with %u slot%s; other hosts reach this one at %s\n", j->o->join, j->slots, j->slots == 1 ? "" : "s", j->at);
    fflush(stdout);
}

/* The gateway's word counts for hosts: those that it does not name are forgotten. Its own key, a member's, is not its to change. */
static htc_status take_hosts(void *ctx, htc_keyring *ring)
{
    htc_keyring      *told = ctx;
    htc_keyring_entry e, known;
    htc_status        status = HTC_OK;
    for (size_t i = 0; htc_keyring_at(ring, i, &e) == HTC_OK;) {
        uint8_t key[HTC_KEY_BYTES];
        memcpy(key, e.key, sizeof key);
        if (e.role == HTC_KEY_HOST && htc_keyring_find(told, key, &known) != HTC_OK)
            (void)htc_keyring_forget(ring, key);
        else
            i++;
    }
    for (size_t i = 0; status == HTC_OK && htc_keyring_at(told, i, &e) == HTC_OK; i++)
        if (e.role == HTC_KEY_HOST && e.state == HTC_KEY_REVOKED)
            status = htc_keyring_find(ring, e.key, &known) == HTC_OK ? htc_keyring_revoke(ring, e.key) : HTC_OK;
        else if (e.role == HTC_KEY_HOST)
            status = htc_keyring_set(ring, e.name, e.role, e.state, e.key);
    return status;
}

/* In a step: agents of this host hear of it from the file. */
static htc_status keep_hosts(void *ctx, htc_bytes text)
{
    joining     *j = ctx;
    htc_keyring *told = NULL;
    htc_error    error = { .status = 0 };
    htc_status   status = htc_keyring_create(NULL, 0, &told);
    if (status == HTC_OK)
        status = htc_keyring_load(told, text, "the gateway's keys of hosts", &error);
    if (status == HTC_OK)
        status = htc_keys_change_ring(j->o->ring, take_hosts, told, &error);
    htc_keyring_destroy(told);
    if (status != HTC_OK && j->d->env.log) {
        char line[400];
        snprintf(line, sizeof line, "the keys of other hosts cannot be kept: %.250s -> agents here do not reach theirs", error.text);
        j->d->env.log->write(j->d->env.log->ctx, HTC_LOG_WARN, line);
    }
    return status;
}

/* Agents are this program again. */
static const char *own_program(joining *j)
{
    ssize_t n = readlink("/proc/self/exe", j->agent, sizeof j->agent - 1);
    if (n <= 0)
        return "htc-agent";
    j->agent[n] = '\0';
    return j->agent;
}

/* What its jobs are, as the configuration says: [batch], or with --site what the system's own configuration says of that site. */
static htc_status take_batch(joining *j)
{
    htc_config_batch c = { .size = sizeof c };
    htc_status       s = htc_config_batch_get(j->d->config, j->o->site, &c);
    if (s == HTC_ENOTFOUND)
        return wrong(j->d, HTC_EUSAGE, "it is for sites with adapter = slurm, sge, ssh or emu", "--site names no site whose agents are jobs");
    if (s != HTC_OK)
        return s;
    const char *system = j->o->batch ? j->o->batch : c.system;
    if (strcmp(system, "none") == 0)
        return HTC_OK;
    j->ssh = strcmp(system, "ssh") == 0;
    if (!j->o->slots && !c.slots && !j->ssh)
        return wrong(j->d, HTC_EUSAGE, "it is how many cores the jobs take at most, all together", "--batch needs --slots N");
    j->slots = j->o->slots ? j->slots : j->ssh ? 0 : c.slots;
    j->cores = c.cores;
    j->emu = (htc_gateway_host_emu){ .size = sizeof j->emu, .clusters = c.emu_clusters, .by_queue = c.emu_by_queue, .service_ns = c.emu_service_ns, .hold = c.emu_hold,
                                     .hold_rate = c.emu_hold_rate, .fail = c.emu_fail, .seed = c.emu_seed };
    j->batch = (htc_gateway_host_batch){ .size = sizeof j->batch, .system = system, .words = c.options, .hosts = c.hosts[0] ? c.hosts : NULL, .credentials = c.credentials, .cores = c.cores,
                                         .steps = c.steps, .submits_per_s = c.submits_per_s, .time_ns = c.time_ns, .drain_ns = c.drain_ns, .period_ns = c.period_ns,
                                         .running_max = c.running_max, .queued_max = c.queued_max, .emu_cores = j->slots, .emu = &j->emu, .jobcomp = c.jobcomp };
    return HTC_OK;
}

/* --gpus and --res. Names are put in place in names. */
static htc_status take_resources(joining *j, htc_resource list[COUNTED], char names[COUNTED][HTC_RESOURCE_NAME_MAX + 1], size_t *n)
{
    *n = 0;
    if (j->o->gpus > 64 || (j->o->gpus && j->batch.system))
        return wrong(j->d, HTC_EUSAGE, "GPUs of a batch system's nodes are that system's to give: batch.options", "--gpus takes 1 to 64, of a host whose agents run on it");
    if (j->o->gpus)
        list[(*n)++] = (htc_resource){ HTC_RESOURCE_GPU, (uint32_t)j->o->gpus };
    for (size_t i = 0; i < j->o->n_res; i++) {
        const char   *word = j->o->res[i], *equals = strchr(word, '=');
        size_t        len = equals ? (size_t)(equals - word) : 0;
        char         *end = NULL;
        unsigned long count = equals ? strtoul(equals + 1, &end, 10) : 0;
        if (len == 0 || len > HTC_RESOURCE_NAME_MAX || strspn(word, "abcdefghijklmnopqrstuvwxyz0123456789_.-") != len || word[0] < 'a' || word[0] > 'z' ||
            *end || count < 1 || count > 1000000 || strncmp(word, "gpu=", 4) == 0)
            return wrong(j->d, HTC_EUSAGE, "lower-case letters, digits, _ . and -, a letter first; N from 1 to 1000000", "--res wants NAME=N");
        memcpy(names[*n], word, len);
        names[*n][len] = '\0';
        for (size_t k = 0; k < *n; k++)
            if (strcmp(list[k].name, names[*n]) == 0)
                return wrong(j->d, HTC_EUSAGE, "", "--res names one resource twice");
        list[*n] = (htc_resource){ names[*n], (uint32_t)count };
        ++*n;
    }
    return HTC_OK;
}

static htc_status run(joining *j, htc_gateway_host **hands, htc_joined **joined)
{
    htc_daemon           *d = j->d;
    char                  node[64], system[32], machine[32], key[4096], ring[4096], cache[4200];
    htc_joined_options    options = { .size = sizeof options, .node = node, .system = system, .machine = machine, .data = htc_state_path(d->state, HTC_STATE_DATA), .let_in = let_in, .let_in_ctx = j,
                                    .keys = keep_hosts, .keys_ctx = j };
    htc_host_options      host_options = { .size = sizeof host_options, .handle_signals = 1 };
    htc_host_keys        *keys = NULL;
    htc_host_keys_options ko = { .size = sizeof ko, .key_path = j->o->key, .ring_path = j->o->ring, .role = HTC_KEY_HOST, .look_ns = HTC_SECOND };
    htc_host_keys_dial_options to = { .size = sizeof to, .address = j->o->join, .name = j->o->server, .refused = refused, .refused_ctx = j };
    const char           *args[12] = { "--gateway", j->o->join, "--key", key, "--ring", ring };
    size_t                n = 6;
    htc_gateway_host_options hands_options = { .size = sizeof hands_options, .state_dir = htc_state_dir(d->state), .agent_path = own_program(j),
                                               .config_path = j->o->config, .environ = (const char *const *)environ, .agent_args = args, .objects_dir = cache };
    htc_agent_host_node(&options.memory, &options.cores, node);
    htc_agent_host_machine(system, machine);
    j->slots = j->o->slots ? (uint32_t)strtoul(j->o->slots, NULL, 10) : options.cores;
    htc_status s = take_batch(j);
    options.slots = j->slots;
    htc_resource counted[COUNTED];
    char         names[COUNTED][HTC_RESOURCE_NAME_MAX + 1];
    if (s == HTC_OK)
        s = take_resources(j, counted, names, &options.n_resources);
    options.resources = counted;
    if (j->batch.system) { /* nodes are other machines than this */
        options.cores = options.agent_slots = j->cores;
        options.memory = 0;
    }
    if (s == HTC_OK && j->o->at)
        snprintf(j->at, sizeof j->at, "%s", j->o->at);
    else if (s == HTC_OK)
        s = join_own_address(d, j->o->join, "--join", j->at);
    if (!j->batch.system) { /* a node finds out where it is */
        args[n++] = "--at";
        args[n++] = j->at;
    }
    if (j->o->server) {
        args[n++] = "--server";
        args[n++] = j->o->server;
    }
    snprintf(cache, sizeof cache, "%.4000s/cache", htc_state_path(d->state, HTC_STATE_DATA));
    hands_options.batch = j->batch.system ? &j->batch : NULL;
    if (s == HTC_OK && (!realpath(j->o->key, key) || !realpath(j->o->ring, ring)))
        s = wrong(d, HTC_EINPUT, "htc keys join makes both", "the files of --key and --ring have to be there");
    hands_options.apart = htc_gateway_host_apart(htc_state_dir(d->state), htc_config_number(d->config, "task.others_as_owner") != 0, geteuid() == 0, j->why);
    if (s == HTC_OK)
        s = htc_host_create(&d->env, &host_options, &j->host);
    if (s == HTC_OK)
        s = htc_gateway_host_create(&d->env, j->host, &hands_options, hands, &d->error);
    if (s == HTC_OK && j->ssh && (!j->o->slots || j->slots == 0 || j->slots > j->batch.slots))
        options.slots = j->slots = j->batch.slots;
    if (s == HTC_OK)
        s = htc_host_keys_open(j->host, &ko, &keys, &d->error);
    if (s == HTC_OK)
        s = htc_host_keys_dial(keys, &to, &options.peer, &d->error);
    options.cache_bytes = htc_config_number(d->config, "data.cache_max");
    options.fetches = (uint32_t)htc_config_number(d->config, "data.max_concurrent_stage");
    options.agents = j->batch.agents;
    options.count = j->batch.count;
    if (s == HTC_OK)
        s = htc_joined_create(&d->env, &options, joined);
    if (s == HTC_OK)
        s = htc_host_run(j->host, htc_joined_ops(), *joined);
    return s;
}

htc_status join_serve(htc_daemon *d, const htc_daemon_options *o)
{
    joining           j = { .d = d, .o = o };
    htc_gateway_host *hands = NULL;
    htc_joined       *joined = NULL;
    htc_status        s = htc_state_lock(d->state, &d->error);
    if (s == HTC_ELOCKED)
        snprintf(d->error.hint, sizeof d->error.hint, "give each host that joins, and each system, a directory of its own: --dir DIR");
    if (s == HTC_OK)
        s = htc_daemon_check_policies(d);
    if (s == HTC_OK)
        s = run(&j, &hands, &joined);
    if (s != HTC_OK && joined && htc_joined_reason(joined)[0])
        snprintf(d->error.text, sizeof d->error.text, "%.250s", htc_joined_reason(joined));
    htc_host_destroy(j.host);
    htc_gateway_host_destroy(hands);
    htc_joined_ops()->destroy(joined);
    return j.refused != HTC_OK ? j.refused : s;
}
