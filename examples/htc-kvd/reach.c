#include "reach.h"

#include <inttypes.h>
#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "htcsched/codec.h"

/* Keys begin with the user's number (HTC_FLOW_USER, as eight hexadecimal digits): those of flows, and of who works at them. */
static void add_user(htc_kv_reach *reach, uint32_t number)
{
    static const char kinds[] = { 'f', 'w' };
    for (size_t i = 0; i < sizeof kinds && reach->count < HTC_KV_REACH_MAX; i++)
        snprintf(reach->prefix[reach->count++], sizeof reach->prefix[0], "%c/%08" PRIx32, kinds[i], number);
}

/* NAME, or NAME:UID of a user who has no account on this machine. The owner's number is 0. */
static void add_named(htc_kv_reach *reach, const char *text)
{
    const struct passwd *own = getpwuid(getuid());
    const char          *colon = strchr(text, ':');
    char                 name[64];
    snprintf(name, sizeof name, "%.*s", colon ? (int)(colon - text) : (int)strlen(text), text);
    if (own && strcmp(own->pw_name, name) == 0) {
        add_user(reach, 0);
        return;
    }
    const struct passwd *account = colon ? NULL : getpwnam(name);
    if (colon && colon[1])
        add_user(reach, (uint32_t)strtoul(colon + 1, NULL, 10));
    else if (account)
        add_user(reach, account->pw_uid);
}

static void add_host(const htc_config *config, const char *name, htc_kv_reach *reach)
{
    for (size_t i = 0; i < htc_config_sites(config); i++) {
        htc_config_site site = { .size = sizeof site };
        if (htc_config_site_get(config, i, &site) != HTC_OK || !site.users || strcmp(site.name, name) != 0)
            continue;
        if (!site.users[0])
            add_user(reach, 0);
        for (size_t k = 0; site.users[k]; k++)
            add_named(reach, site.users[k]);
    }
}

static htc_status add_local(htc_bytes opened, htc_kv_reach *reach)
{
    htc_peer_info who = { 0 };
    htc_reader    r = htc_reader_of(opened);
    who.transport = htc_get_u32(&r);
    who.uid = htc_get_u32(&r);
    if (r.status != HTC_OK || who.transport != HTC_TRANSPORT_UNIX || who.uid == UINT32_MAX)
        return HTC_EMPTY;
    reach->all = who.uid == geteuid() || who.uid == 0;
    if (reach->all)
        return HTC_OK;
    add_user(reach, who.uid);
    snprintf(reach->prefix[reach->count++], sizeof reach->prefix[0], "g/flow/%08" PRIx32, who.uid);
    return HTC_OK;
}

htc_status reach_of(void *ctx, htc_bytes opened, htc_kv_reach *reach)
{
    const htc_daemon *d = ctx;
    htc_peer_identity key;
    htc_status        secure = htc_peer_identity_read(opened, &key);
    if (secure == HTC_OK && key.role == HTC_KEY_HOST)
        add_host(d->config, key.name, reach);
    else if (secure == HTC_EMPTY)
        secure = add_local(opened, reach);
    return secure == HTC_EMPTY ? HTC_EDENIED : secure;
}
