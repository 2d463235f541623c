/* htc-kvd: the store of include/htcsched/kv_store.h in the live host. */
#include "member.h"

#include <stdio.h>
#include <unistd.h>

#include "htcsched/kv_store.h"
#include "htcsched/metrics_host.h"
#include "htcsched/version.h"
#include "identity.h"
#include "reach.h"

static uint32_t durability(const htc_config *config)
{
    switch (htc_config_durability(config)) {
    case HTC_DURABLE_MEMORY:
        return HTC_KV_MEMORY;
    case HTC_DURABLE_INTERVAL:
        return HTC_KV_INTERVAL;
    default:
        return HTC_KV_SYNC;
    }
}

static void show(void *ctx, htc_metrics *metrics)
{
    htc_metrics_family(metrics, HTC_METRIC_INFO, "htc_kv_member", "", "Which program this is, and how it keeps records.");
    htc_metrics_value(metrics, (htc_metric_label[]){ { "engine", htc_bytes_of("lmdb") }, { "version", htc_bytes_of(HTC_VERSION) } }, 2, 1);
    htc_kv_server_metrics(htc_kv_store_server(ctx), metrics);
}

static htc_status listen_metrics(htc_daemon *d, htc_host *host, htc_kv_store *store)
{
    htc_host_metrics_options o = { .size = sizeof o, .address = htc_config_text(d->config, "db.metrics"), .write = show, .ctx = store };
    htc_status               s = o.address[0] ? htc_host_listen_metrics(host, &o, NULL, &d->error) : HTC_OK;
    if (s == HTC_ELOCKED && !d->error.hint[0])
        snprintf(d->error.hint, sizeof d->error.hint, "end the other one, or set another db.metrics");
    return s;
}

/* Hosts that join come here for the flows that their agents work at. */
static htc_status listen_to_hosts(htc_daemon *d, htc_host *host)
{
    const char                  *join = htc_config_text(d->config, "db.join");
    htc_host_keys               *keys = NULL;
    htc_host_keys_listen_options o = { .size = sizeof o, .address = join, .port = 2, .accept = 1u << HTC_KEY_HOST };
    htc_status                   s = join[0] ? htc_daemon_keys(d, host, 1, &keys) : HTC_OK;
    return s == HTC_OK && join[0] ? htc_host_keys_listen(keys, &o, NULL, &d->error) : s;
}

static htc_status serve(htc_daemon *d)
{
    htc_host            *host = NULL;
    htc_kv_store        *store = NULL;
    htc_host_options     host_options = { .size = sizeof host_options, .handle_signals = 1,
                                             .uid_connections_max = (uint32_t)htc_config_number(d->config, "server.uid_connections_max") };
    htc_kv_server_options server = { .size = sizeof server, .admit = reach_of, .admit_ctx = d };
    htc_kv_store_options options = { .size = sizeof options,
                                     .dir = htc_state_path(d->state, HTC_STATE_STORE),
                                     .durability = durability(d->config),
                                     .server = &server,
                                     .interval_ns = htc_config_ns(d->config, "db.sync_ms") };
    int                  others = geteuid() == 0; /* whose tasks have uids of their own, and who reach their flows alone (reach_of) */
    uint64_t             id;
    htc_status           s = identity_may_be_in(d, htc_state_dir(d->state));
    if (s != HTC_OK)
        return s;
    s = identity_read(d, &id);
    if (s == HTC_OK) {
        snprintf(d->error.where, sizeof d->error.where, "%s", htc_state_dir(d->state));
        snprintf(d->error.text, sizeof d->error.text, "this is the directory of one of several members");
        snprintf(d->error.hint, sizeof d->error.hint, "htc-kvd --engine ENGINE --member ... for each of them");
        return HTC_EUSAGE;
    }
    if (s != HTC_ENOTFOUND)
        return s;
    s = htc_kv_store_open(&d->env, &options, &store, &d->error);
    if (s == HTC_OK)
        s = htc_host_create(&d->env, &host_options, &host);
    if (s == HTC_OK)
        s = htc_host_listen_unix(host, htc_state_path(d->state, HTC_STATE_STORE_SOCKET), others ? 0666 : 0600, 1, &d->error);
    if (s == HTC_OK)
        s = listen_metrics(d, host, store);
    if (s == HTC_OK)
        s = listen_to_hosts(d, host);
    if (s == HTC_OK) {
        htc_kv_store_attach(store, host);
        s = htc_host_run(host, htc_kv_server_ops(), htc_kv_store_server(store));
    }
    htc_host_destroy(host);
    htc_kv_store_close(store);
    return s;
}

int main(int argc, char **argv)
{
    htc_daemon         d = { .name = "htc-kvd" };
    htc_daemon_options o = { 0 };
    if (member_wanted(argc, argv))
        return htc_daemon_close(&d, member_main(&d, argc, argv));
    htc_status s = htc_daemon_parse(&d, argc, argv, "dc", &o);
    if (s == HTC_OK)
        s = htc_daemon_open(&d, &o, "kvd");
    if (s == HTC_OK)
        s = serve(&d);
    return htc_daemon_close(&d, s);
}
