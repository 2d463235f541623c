/* htc-agent: the role of include/htcsched/agent.h in the live host. The gateway's host starts it; people need not. With --join people start it,
 * on another machine: join.c. */
#include "daemon.h"
#include "join.h"

#include "htcsched/agent.h"
#include "htcsched/agent_host.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

extern char **environ;

/* What an agent before this one left in the slot is ended first, by root where root starts agents: it may be another user's. */
static htc_status take_slot(htc_daemon *d, const htc_daemon_options *o, const char *slot, int *lock)
{
    char       home[HTC_AGENT_HOST_HOME_MAX];
    uint32_t   ended = 0;
    htc_status s = htc_agent_host_recover(&d->env, slot, lock, &ended, &d->error);
    if (s == HTC_OK && o->become)
        s = htc_agent_host_become(slot, o->uid, o->gid, home, &d->error);
    if (s == HTC_OK && o->become && o->uid != 0 && setenv("HOME", home, 1) != 0)
        s = HTC_ENOMEM;
    return s;
}

/* On this machine by its socket. On one that has joined through a secure channel. */
static htc_status dial_gateway(htc_daemon *d, htc_host *host, const htc_daemon_options *o, htc_host_keys *keys, uint32_t *peer)
{
    htc_host_keys_dial_options to = { .size = sizeof to, .address = o->gateway, .name = o->server, .port = 1 };
    return o->gateway ? htc_host_keys_dial(keys, &to, peer, &d->error)
                      : htc_host_dial_unix(host, htc_state_path(d->state, HTC_STATE_GATEWAY_SOCKET), 1, peer, &d->error);
}

/* Where hosts join, agents of this machine are reached by those too. Not those of other users: the key is the system's. */
static htc_status take_keys(htc_daemon *d, const htc_daemon_options *o, htc_host *host, htc_host_keys **keys)
{
    htc_host_keys_options ko = { .size = sizeof ko, .key_path = o->key, .ring_path = o->ring, .role = HTC_KEY_HOST, .look_ns = HTC_SECOND };
    if (o->gateway)
        return htc_host_keys_open(host, &ko, keys, &d->error);
    if (!htc_config_text(d->config, "server.join")[0] || access(htc_state_path(d->state, HTC_STATE_KEY), R_OK) != 0)
        return HTC_OK;
    return htc_daemon_keys(d, host, 0, keys);
}

/* A door for the other workers of a flow, wherever they are. */
static htc_status open_to_all(htc_daemon *d, const htc_daemon_options *o, htc_host_keys *keys, char work[300])
{
    const char *join = htc_config_text(d->config, "server.join"), *site = o->gateway ? o->site : "", *host = o->at ? o->at : join;
    size_t      len = o->at ? strlen(o->at) : (size_t)(strrchr(join, ':') - join);
    char        at[300];
    uint16_t    port = 0;
    int         bare = o->at && strchr(o->at, ':') && o->at[0] != '['; /* an IPv6 address */
    htc_host_keys_listen_options listen = { .size = sizeof listen, .address = at, .port = 2, .accept = 1u << HTC_KEY_HOST | 1u << HTC_KEY_MEMBER };
    snprintf(at, sizeof at, "%s%.*s%s:0", bare ? "[" : "", (int)len, host, bare ? "]" : "");
    htc_status s = htc_host_keys_listen(keys, &listen, &port, &d->error);
    at[strlen(at) - 2] = '\0';
    if (s == HTC_OK && snprintf(work, 300, "tcp://%s%s%s:%u", site, site[0] ? "@" : "", at, port) >= 255)
        s = HTC_ETOOBIG;
    return s;
}

/* Flows: where the store is, and a door for the other workers. An agent of a user who may not reach the store works at no flow. */
static htc_status open_to_workers(htc_daemon *d, const htc_daemon_options *o, htc_host *host, htc_host_keys *keys, const char *slot, char store[300],
                                  char work[300], htc_agent_options *options)
{
    const char *kvd = htc_state_path(d->state, HTC_STATE_STORE_SOCKET);
    options->address = work;
    if (o->gateway) /* which says where the store is */
        return open_to_all(d, o, keys, work);
    options->address = NULL;
    if (o->confine) /* its tasks are another user's, and it has the owner's uid: the store would let it reach all */
        return HTC_OK;
    if (access(kvd, R_OK | W_OK) != 0 || strlen(kvd) > 240 || strlen(slot) > 240)
        return HTC_OK;
    snprintf(store, 300, "unix:%s", kvd);
    options->store = store;
    options->address = work;
    if (keys)
        return open_to_all(d, o, keys, work);
    snprintf(work, 300, "unix:%s/work.sock", slot);
    return htc_host_listen_unix(host, work + 5, 0600, 2, &d->error);
}

/* Where objects lie: beside the slot, which is emptied for each user; of one user alone, though others' tasks may run by the same uid. An agent
 * that root has started for another uid can make nothing beside its slot: they lie in it, and end with it. */
static void find_objects(const htc_daemon_options *o, const char *slot, char *path, size_t room)
{
    size_t fine = o->user ? strspn(o->user, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_-") : 0;
    if (o->become && o->uid != 0)
        snprintf(path, room, "%s/objects", slot);
    else if (o->confine && fine && !o->user[fine])
        snprintf(path, room, "%s.objects.%s", slot, o->user);
    else
        snprintf(path, room, "%s.objects", slot);
}

/* htc-fn, which runs function tasks, htc-gang, and htc-transfer, which fetches inputs, stand beside this program. NULL: there is none. */
static const char *find_beside(const char *name, char *path, size_t room)
{
    ssize_t n = readlink("/proc/self/exe", path, room);
    char   *slash = n > 0 && (size_t)n < room ? memrchr(path, '/', (size_t)n) : NULL;
    if (!slash || (size_t)(slash - path) + strlen(name) + 2 > room)
        return NULL;
    strcpy(slash + 1, name);
    return access(path, X_OK) == 0 ? path : NULL;
}

/* What runs containers at its site. */
static const char *find_container(const htc_daemon *d, const char *site)
{
    htc_config_site s = { .size = sizeof s };
    for (size_t i = 0; i < htc_config_sites(d->config); i++)
        if (htc_config_site_get(d->config, i, &s) == HTC_OK && strcmp(s.name, site) == 0)
            return s.container;
    return "auto";
}

static htc_status serve(htc_daemon *d, const htc_daemon_options *o)
{
    htc_host       *host = NULL;
    htc_host_keys  *keys = NULL;
    htc_agent_host *hands = NULL;
    htc_agent      *agent = NULL;
    htc_registry   *policies = NULL;
    char            slot[4400], node[64], system[32], machine[32], store[300], work[300], functions[4096], gang[4096], transfer[4096], objects[4600];
    uint32_t        slots = o->slots ? (uint32_t)strtoul(o->slots, NULL, 10) : 1;
    const char     *pass[257] = { NULL }, *seen[257] = { NULL };
    for (size_t i = 0; i < 256 && (pass[i] = htc_config_item(d->config, "task.env_pass", i)); i++)
        ;
    for (size_t i = 0; i < 256 && (seen[i] = htc_config_item(d->config, "task.confined_paths", i)); i++)
        ;
    htc_agent_options      options = { .size = sizeof options,
                                       .agent = o->agent,
                                       .slots = slots,
                                       .node = node,
                                       .system = system,
                                       .machine = machine,
                                       .kill_after_ns = htc_config_ns(d->config, "agent.kill_after_s"),
                                       .orphan_after_ns = htc_config_ns(d->config, "agent.orphan_after_s"),
                                       .cache_bytes = htc_config_number(d->config, "data.cache_max"),
                                       .brings = o->gateway != NULL,
                                       .shares = o->gateway && strcmp(htc_config_text(d->config, "data.output"), "shared") == 0,
                                       .outputs = htc_config_text(d->config, "data.output_dir"),
                                       .stage_retry = (uint32_t)htc_config_number(d->config, "data.stage_retry"),
                                       .io_backoff_ns = htc_config_ns(d->config, "data.io_backoff_ms") };
    htc_host_options       host_options = { .size = sizeof host_options, .handle_signals = 1 };
    htc_agent_host_options hands_options = { .size = sizeof hands_options,
                                             .slot_dir = slot,
                                             .data_dir = htc_state_path(d->state, HTC_STATE_DATA),
                                             .agent = o->agent,
                                             .node = node,
                                             .site = o->site,
                                             .env_pass = pass,
                                             .environ = (const char *const *)environ,
                                             .confine = o->confine,
                                             .container = find_container(d, o->site),
                                             .confined_paths = seen,
                                             .slots = slots,
                                             .slots_max = (uint32_t)htc_config_number(d->config, "agent.slots_max"),
                                             .functions = find_beside("htc-fn", functions, sizeof functions),
                                             .gang = find_beside("htc-gang", gang, sizeof gang),
                                             .objects_dir = objects,
                                             .transfer = find_beside("htc-transfer", transfer, sizeof transfer),
                                             .url_max = htc_config_number(d->config, "data.url_max"),
                                             .url_connect = htc_config_ns(d->config, "data.url_connect_s"),
                                             .url_stall = htc_config_ns(d->config, "data.url_stall_s"),
                                             .url_ca = htc_config_text(d->config, "data.url_ca"),
                                             .url_proxy = htc_config_text(d->config, "data.url_proxy"),
                                             .stall = htc_config_ns(d->config, "monitor.stall_s"),
                                             .link_min = htc_config_number(d->config, "data.link_min"),
                                             .stages_max = (uint32_t)htc_config_number(d->config, "data.max_concurrent_stage"),
                                             .durable = htc_config_durability(d->config) == HTC_DURABLE_SYNC };
    snprintf(slot, sizeof slot, "%s/%s.%u", htc_state_path(d->state, HTC_STATE_SLOTS), o->site, o->slot);
    find_objects(o, slot, objects, sizeof objects);
    htc_agent_host_node(&options.memory, &options.cores, node);
    htc_agent_host_machine(system, machine);
    int        lock = -1; /* goes to the executor, or with this process */
    htc_status s = take_slot(d, o, slot, &lock);
    hands_options.lock = &lock;
    hands_options.environ = (const char *const *)environ; /* HOME is in it now */
    if (s == HTC_OK)
        s = htc_host_create(&d->env, &host_options, &host);
    if (s == HTC_OK)
        s = take_keys(d, o, host, &keys);
    hands_options.keys = keys;
    hands_options.own_places = o->gateway != NULL;
    if (s == HTC_OK)
        s = htc_agent_host_create(&d->env, host, &hands_options, &hands, &d->error);
    if (s == HTC_OK)
        s = dial_gateway(d, host, o, keys, &options.peer);
    if (s == HTC_OK)
        s = open_to_workers(d, o, host, keys, slot, store, work, &options);
    if (s == HTC_OK)
        s = htc_config_policies(d->config, &policies, &d->error);
    options.policies = policies;
    if (s == HTC_OK)
        s = htc_agent_create(&d->env, &options, &agent);
    if (s == HTC_OK)
        s = htc_host_run(host, htc_agent_ops(), agent);
    htc_host_destroy(host);
    htc_agent_host_destroy(hands);
    htc_agent_ops()->destroy(agent);
    htc_registry_destroy(policies);
    return s;
}

int main(int argc, char **argv)
{
    htc_daemon         d = { .name = "htc-agent" };
    htc_daemon_options o = { 0 };
    char               at[JOIN_ADDRESS_MAX];
    htc_status         s = htc_daemon_parse(&d, argc, argv, "dcansuiUGCJgkrNABpR", &o);
    if (s == HTC_OK && o.join) {
        o.create = 1;
        s = join_check(&d, &o);
    } else if (s == HTC_OK && !o.agent) {
        snprintf(d.error.text, sizeof d.error.text, "--agent is missing: the gateway starts agents, people need not, but for --join");
        s = HTC_EUSAGE;
    } else if (s == HTC_OK && o.gateway && !(o.key && o.ring)) {
        snprintf(d.error.text, sizeof d.error.text, "--gateway needs --key and --ring: htc-agent --join starts such agents");
        s = HTC_EUSAGE;
    } else if (s == HTC_OK && o.gateway && !o.at) {
        s = join_own_address(&d, o.gateway, "--gateway", at);
        o.at = at;
    }
    if (s == HTC_OK && o.batch && !o.join) {
        snprintf(d.error.text, sizeof d.error.text, "--batch goes with --join");
        s = HTC_EUSAGE;
    }
    if (s == HTC_OK && (o.gpus || o.n_res) && !o.join) {
        snprintf(d.error.text, sizeof d.error.text, "--gpus and --res go with --join: of the gateway's machine its configuration says them");
        s = HTC_EUSAGE;
    }
    if (!o.site && !o.join)
        o.site = "local";
    char log[160];
    snprintf(log, sizeof log, "agent-%.127s.%u", o.site ? o.site : "", o.slot); /* one agent a slot: nobody else writes there */
    if (o.join)
        snprintf(log, sizeof log, "joined");
    if (s == HTC_OK)
        s = htc_daemon_open(&d, &o, log);
    if (s == HTC_OK)
        s = o.join ? join_serve(&d, &o) : serve(&d, &o);
    return htc_daemon_close(&d, s);
}
