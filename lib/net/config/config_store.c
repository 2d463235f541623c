/* A state in another store outlives this machine: what would be lost with it, or what only it could go on with, is refused. */
#include "net/config/config_store.h"

#include <string.h>

#include "core/util.h"

/* Members of one store of ours, or a store of others. */
static int is_known(const char *list)
{
    if (strncmp(list, "redis://", 8) == 0 || strncmp(list, "redis+unix:", 11) == 0 || strncmp(list, "etcd://", 7) == 0)
        return list[strcspn(list, ":") + 1] != 0;
    while (strncmp(list, "tcp://", 6) == 0 || strncmp(list, "unix:", 5) == 0) {
        list += strcspn(list, ",");
        if (!*list++)
            return 1;
    }
    return 0;
}

htc_status htc__config_check_store(const htc_config *c, htc_error *error)
{
    if (!htc_config_text(c, "db.store")[0])
        return htc_config_text(c, "data.shared")[0]
                       ? htc__error(error, HTC_ECONFIG, "data.shared is for db.store, where several gateways go on with one state")
                       : HTC_OK;
    if (!is_known(htc_config_text(c, "db.store")))
        return htc__error(error, HTC_ECONFIG, "db.store names members of one store of htc-kvd, each tcp://[NAME@]HOST:PORT or unix:PATH, or a store of others: etcd://HOST:PORT,HOST:PORT/PREFIX, redis://HOST:PORT/PREFIX or redis+unix:PATH");
    if (htc_config_text(c, "db.join")[0])
        return htc__error(error, HTC_ECONFIG, "db.join does not go with db.store: hosts that join would reach all that is in that store");
    if (!htc_config_text(c, "server.join")[0])
        return htc__error(error, HTC_ECONFIG, "db.store needs server.join, where hosts that join reach this machine");
    for (size_t i = 0; i < htc_config_sites(c); i++) {
        htc_config_site s = { .size = sizeof s };
        if (htc_config_site_get(c, i, &s) == HTC_OK && strcmp(s.adapter, "join") != 0)
            return htc__error(error, HTC_ECONFIG,
                              "site.%s.adapter: with db.store it is join: another gateway could not end or watch what this machine starts "
                              "(htc-agent --join makes this machine a site as well)",
                              s.name);
    }
    return HTC_OK;
}

void htc__config_store_options(const htc_config *c, htc_gateway_options *o)
{
    int elsewhere = htc_config_text(c, "db.store")[0] != '\0';
    o->lease_ns = elsewhere ? htc_config_ns(c, "server.lease_s") : 0;
    o->address = htc_config_text(c, "server.join");
    o->uploads_refused = elsewhere && !htc_config_text(c, "data.shared")[0];
}
