/* htc-gateway: the role of include/htcsched/gateway.h in the live host. */
#include "daemon.h"

#include "htcsched/agent_host.h"
#include "htcsched/gateway.h"
#include "htcsched/gateway_host.h"
#include "htcsched/metrics_host.h"

#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

extern char **environ;

/* Beside this program, else wherever PATH has it. */
static const char *agent_program(char *path, size_t cap)
{
    ssize_t n = readlink("/proc/self/exe", path, cap - sizeof "htc-agent");
    char   *slash = n > 0 ? memrchr(path, '/', (size_t)n) : NULL;
    strcpy(slash ? slash + 1 : path, "htc-agent");
    return slash && access(path, X_OK) == 0 ? path : "htc-agent";
}

static const char *own_name(char *buffer, size_t cap)
{
    const struct passwd *pw = getpwuid(getuid());
    if (pw && pw->pw_name[0])
        snprintf(buffer, cap, "%s", pw->pw_name);
    else
        snprintf(buffer, cap, "uid%lu", (unsigned long)getuid());
    return buffer;
}

/* --slots N: of the first site, or of "local" where none is configured. */
static htc_status set_slots(htc_daemon *d, const char *slots)
{
    htc_config_site site = { .size = sizeof site };
    char            key[160];
    htc_status      s = htc_config_site_get(d->config, 0, &site);
    if (s != HTC_OK)
        return s;
    snprintf(key, sizeof key, "site.%.64s.cores", site.name);
    return htc_config_set(d->config, key, slots, &d->error);
}

/* Hosts that join, and their agents; users on other machines. */
static htc_status listen_to_hosts(htc_daemon *d, htc_host_keys *keys)
{
    htc_host_keys_listen_options o = { .size = sizeof o, .address = htc_config_text(d->config, "server.join"), .port = 4,
                                       .accept = 1u << HTC_KEY_HOST | 1u << HTC_KEY_USER };
    return keys ? htc_host_keys_listen(keys, &o, NULL, &d->error) : HTC_OK;
}

static size_t tell_hosts(void *ctx, char *out, size_t room)
{
    return htc_host_keys_text(ctx, HTC_KEY_HOST, out, room);
}

static htc_status listen_all(htc_daemon *d, htc_host *host, htc_host_keys *keys, uint32_t apart)
{
    /* Agents of other uids come through the same door; the gateway asks each who it is. */
    int         others = htc_config_number(d->config, "server.others") != 0 || apart == HTC_APART_UID;
    const char *listen = htc_config_text(d->config, "server.listen"), *colon = strrchr(listen, ':');
    htc_status  s = htc_host_listen_unix(host, htc_state_path(d->state, HTC_STATE_GATEWAY_SOCKET), others ? 0666 : 0600,
                                         1, &d->error);
    if (s == HTC_OK)
        s = listen_to_hosts(d, keys);
    if (s != HTC_OK || !listen[0])
        return s;
    char address[64];
    snprintf(address, sizeof address, "%.*s", (int)(colon ? colon - listen : 0), listen);
    return htc_host_listen_tcp(host, address, (uint16_t)strtoul(colon ? colon + 1 : "0", NULL, 10),
                               htc_state_path(d->state, HTC_STATE_TCP_TOKEN), 2, NULL, &d->error);
}

/* The page for users. */
static htc_status listen_to_browsers(htc_daemon *d, htc_host *host)
{
    htc_host_portal_options o = { .size = sizeof o, .address = htc_config_text(d->config, "server.portal"), .port = 5,
                                  .origin = htc_config_text(d->config, "server.portal_origin") };
    return o.address[0] && strcmp(o.address, "off") != 0 ? htc_host_listen_portal(host, &o, NULL, &d->error) : HTC_OK;
}

static void show(void *ctx, htc_metrics *metrics)
{
    htc_gateway_metrics(ctx, metrics);
}

static htc_status listen_to_monitors(htc_daemon *d, htc_host *host, htc_gateway *gateway)
{
    htc_host_metrics_options o = { .size = sizeof o, .address = htc_config_text(d->config, "server.metrics"), .write = show, .ctx = gateway };
    htc_status               s = o.address[0] ? htc_host_listen_metrics(host, &o, NULL, &d->error) : HTC_OK;
    if (s == HTC_ELOCKED)
        snprintf(d->error.hint, sizeof d->error.hint, "end the other one, or set another server.metrics");
    return s;
}

/* Who may reach the socket, and what keeps the tasks of different users apart. */
static htc_status settle_people(htc_daemon *d, htc_gateway_options *o, char why[HTC_GATEWAY_HOST_WHY_MAX])
{
    uint32_t   others = htc_config_number(d->config, "server.others") != 0;
    htc_error  closed = { 0 };
    htc_status s = htc_state_share(d->state, others || geteuid() == 0, &closed);
    if (s != HTC_OK && others) {
        d->error = closed;
        return s;
    }
    o->owner_only = !others;
    o->apart = htc_gateway_host_apart(htc_state_dir(d->state), htc_config_number(d->config, "task.others_as_owner") != 0, s == HTC_OK, why);
    if (s != HTC_OK && o->apart == HTC_APART_REFUSED)
        snprintf(why, HTC_GATEWAY_HOST_WHY_MAX, "%.250s", closed.text);
    o->apart_why = why;
    return HTC_OK;
}

/* Several gateways on one store: who this one is, and where what is uploaded is kept. */
static htc_status settle_others(htc_daemon *d, htc_gateway_options *o, htc_gateway_host_options *hands, char host[65], char data_id[HTC_GATEWAY_HOST_DATA_ID])
{
    const char *shared = htc_config_text(d->config, "data.shared");
    if (gethostname(host, 64) != 0)
        host[0] = '\0';
    host[64] = '\0';
    o->name = host;
    o->data_id = data_id;
    data_id[0] = '\0';
    if (!shared[0])
        return HTC_OK;
    hands->data_dir = shared;
    return htc_gateway_host_data_id(shared, data_id, &d->error);
}

static htc_status serve(htc_daemon *d, const htc_daemon_options *o)
{
    htc_host                *host = NULL;
    htc_host_keys           *keys = NULL;
    htc_gateway_host        *hands = NULL;
    htc_gateway             *gateway = NULL;
    char                     system[32], machine[32], host_name[65], data_id[HTC_GATEWAY_HOST_DATA_ID], outputs_id[HTC_GATEWAY_HOST_DATA_ID] = "", agent[4200], name[64], token[HTC_STATE_TOKEN_LEN + 1], why[HTC_GATEWAY_HOST_WHY_MAX];
    htc_gateway_options      options = { .size = sizeof options };
    uint32_t                 connections = (uint32_t)htc_config_number(d->config, "server.connections_max");
    uint32_t                 strangers = (uint32_t)htc_config_number(d->config, "server.strangers_max");
    htc_host_options         host_options = { .size = sizeof host_options,
                                              .handle_signals = 1,
                                              .connections_max = connections,
                                              .strangers_max = strangers ? strangers : connections - connections / 4,
                                              .uid_connections_max =
                                                  (uint32_t)htc_config_number(d->config, "server.uid_connections_max") };
    htc_gateway_host_options hands_options = { .size = sizeof hands_options,
                                               .state_dir = htc_state_dir(d->state),
                                               .agent_path = agent_program(agent, sizeof agent),
                                               .config_path = o->config,
                                               .environ = (const char *const *)environ,
                                               .uploads_max = htc_config_number(d->config, "data.uploads_max"),
                                               .durable = htc_config_durability(d->config) == HTC_DURABLE_SYNC };
    htc_status               s = settle_people(d, &options, why);
    hands_options.apart = options.apart;
    hands_options.mail_command = htc_config_text(d->config, "server.mail_command");
    options.mail = hands_options.mail_command[0] != '\0';
    if (s == HTC_OK)
        s = settle_others(d, &options, &hands_options, host_name, data_id);
    if (s == HTC_OK)
        s = htc_host_create(&d->env, &host_options, &host);
    if (s == HTC_OK)
        s = htc_gateway_host_create(&d->env, host, &hands_options, &hands, &d->error);
    if (s == HTC_OK && strcmp(htc_config_text(d->config, "data.output"), "shared") == 0)
        s = htc_gateway_host_outputs(hands, &options.outputs, outputs_id, &d->error);
    options.outputs_id = outputs_id;
    if (s == HTC_OK)
        s = htc_host_dial_unix(host, htc_state_path(d->state, HTC_STATE_STORE_SOCKET), 3, &options.store_peer,
                               &d->error);
    if (s == HTC_OK && htc_config_text(d->config, "server.join")[0])
        s = htc_daemon_keys(d, host, 1, &keys);
    htc_agent_host_machine(system, machine);
    options.system = system;
    options.machine = machine;
    options.hosts = keys ? tell_hosts : NULL;
    options.hosts_ctx = keys;
    if (s == HTC_OK)
        s = htc_config_gateway(d->config, &options);
    if (s == HTC_OK) {
        htc_host_random(&options.store_client_id, sizeof options.store_client_id);
        options.owner_uid = getuid();
        options.owner_name = own_name(name, sizeof name);
        options.operator_token = token;
        s = htc_state_operator(d->state, token, &d->error);
        if (s == HTC_OK)
            s = htc_gateway_create(&d->env, &options, &gateway);
        explicit_bzero(token, sizeof token);
    }
    if (s == HTC_OK)
        s = listen_all(d, host, keys, options.apart);
    if (s == HTC_OK)
        s = listen_to_browsers(d, host);
    if (s == HTC_OK)
        s = listen_to_monitors(d, host, gateway);
    if (s == HTC_OK)
        s = htc_host_run(host, htc_gateway_ops(), gateway);
    htc_host_destroy(host);
    htc_gateway_host_destroy(hands);
    htc_gateway_ops()->destroy(gateway);
    return s;
}

int main(int argc, char **argv)
{
    htc_daemon         d = { .name = "htc-gateway" };
    htc_daemon_options o = { 0 };
    htc_status         s = htc_daemon_parse(&d, argc, argv, "dcs", &o);
    if (s == HTC_OK)
        s = htc_daemon_open(&d, &o, "gateway");
    if (s == HTC_OK && o.slots)
        s = set_slots(&d, o.slots);
    if (s == HTC_OK)
        s = htc_daemon_check_policies(&d);
    if (s == HTC_OK)
        s = serve(&d, &o);
    return htc_daemon_close(&d, s);
}
