#include "net/loop/admit.h"

#include <unistd.h>

#define SAY_EVERY HTC_SECOND

htc__admission htc__admit(const htc__crowd *c, int stranger, int uid_known)
{
    if (c->all >= c->all_max)
        return HTC_ADMIT_FULL;
    if (!stranger)
        return HTC_ADMIT;
    if (uid_known && c->of_uid_max && c->of_uid >= c->of_uid_max)
        return HTC_ADMIT_UID_FULL;
    return c->strangers_max && c->strangers >= c->strangers_max ? HTC_ADMIT_STRANGERS_FULL : HTC_ADMIT;
}

/* Everybody but who runs this host and the processes that its program started. */
static int is_stranger(const htc_host *h, const htc_peer_info *info)
{
    if (info->transport == HTC_TRANSPORT_UNIX && info->uid == geteuid())
        return 0;
    return !(info->pid && h->is_known && h->is_known(h->known_ctx, info->pid));
}

static void refuse(htc_host *h, const htc_peer_info *info, const htc__crowd *c, htc__admission why)
{
    static const char *const words[] = { "", "all places are taken", "strangers have all of theirs", "it has all of its places" };
    htc_ns                   now = htc_host_now();
    h->refused_untold++;
    if (h->refused_at && now - h->refused_at < SAY_EVERY && h->refused_uid == info->uid)
        return;
    htc__log_with(h->env, HTC_LOG_WARN,
                  HTC__FIELDS(HTC__NUMBER("uid", info->uid), HTC__NUMBER("connections", c->of_uid), HTC__NUMBER("refused", h->refused_untold)),
                  "uid %u comes with %u connections of its own and %u in all open: %s -> refuse (%u since the last line)", info->uid, c->of_uid,
                  c->all, words[why], h->refused_untold);
    h->refused_at = now;
    h->refused_uid = info->uid;
    h->refused_untold = 0;
}

int htc__host_admits(htc_host *h, const htc_peer_info *info, int *stranger)
{
    htc__crowd c = { .all = h->incoming, .all_max = h->options.connections_max, .strangers_max = h->options.strangers_max,
                     .of_uid_max = h->options.uid_connections_max };
    *stranger = is_stranger(h, info);
    for (size_t i = 0; *stranger && i < h->conns_count; i++)
        if (h->conns[i]->stranger) {
            c.strangers++;
            c.of_uid += h->conns[i]->info.uid == info->uid;
        }
    htc__admission why = htc__admit(&c, *stranger, info->uid != UINT32_MAX);
    if (why != HTC_ADMIT)
        refuse(h, info, &c, why);
    return why == HTC_ADMIT;
}
