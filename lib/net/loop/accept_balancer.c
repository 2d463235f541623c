/* Connections that one host accepts and another one serves: each host in its own thread, and a socket belongs to one of them at a
 * time. */
#include <stdlib.h>
#include <unistd.h>

#include "net/loop/host_private.h"

/* On its way. By malloc: it is made in one thread and freed in another. */
struct htc__dealt {
    htc_host     *host;
    htc__dealt   *next;
    int           fd, stream;
    htc_peer_info info;
    char          refusal[]; /* "": none */
};

static void enter(htc__dealt *d)
{
    htc_host *h = d->host;
    if (h->incoming >= h->options.connections_max) {
        htc__log(h->env, HTC_LOG_WARN, "%u connections are open -> refuse one more", h->incoming);
        htc__no_room(d->fd, d->stream, d->refusal[0] ? d->refusal : NULL);
    } else {
        htc_status status =
            d->stream ? htc__stream_accept(h, d->fd, &d->info) : htc__conn_accept(h, d->fd, &d->info, 0, NULL);
        if (status != HTC_OK)
            htc__log(h->env, HTC_LOG_WARN, "a connection: %s -> turn it away", htc_strerror(status));
    }
    free(d);
}

/* In the thread of the host that gets it. */
static void arrive(void *ctx)
{
    htc__dealt *d = ctx;
    htc_host   *h = d->host;
    if (h->stopped) {
        close(d->fd);
        free(d);
    } else if (!h->closed_doors) {
        enter(d);
    } else if (h->outside_count >= h->options.connections_max) {
        htc__no_room(d->fd, d->stream, d->refusal[0] ? d->refusal : NULL);
        free(d);
    } else {
        d->next = NULL;
        *h->outside_last = d;
        h->outside_last = &d->next;
        h->outside_count++;
    }
}

void htc__accept_balancer(htc_host *h, int fd, const htc_peer_info *info, int stream, const char *refusal)
{
    size_t      len = refusal ? strlen(refusal) : 0;
    htc__dealt *d = malloc(sizeof *d + len + 1);
    htc_host   *to = h->dealt_to[h->dealt_next++ % h->dealt_count];
    if (d) {
        *d = (htc__dealt){ .host = to, .fd = fd, .stream = stream, .info = *info };
        memcpy(d->refusal, refusal ? refusal : "", len + 1);
        if (htc_host_post(to, arrive, d) == HTC_OK)
            return;
    }
    htc__log(h->env, HTC_LOG_WARN, "a connection: out of memory -> turn it away");
    free(d);
    close(fd);
}

htc_status htc_host_deal(htc_host *host, htc_host *const *to, size_t count)
{
    if (!host || !to || count == 0 || host->running || host->dealt_to)
        return HTC_EINVAL;
    host->dealt_to = htc__alloc(host->env, count * sizeof(htc_host *));
    if (!host->dealt_to)
        return HTC_ENOMEM;
    memcpy(host->dealt_to, to, count * sizeof(htc_host *));
    host->dealt_count = count;
    return HTC_OK;
}

static htc__dealt *take(htc_host *h)
{
    htc__dealt *d = h->outside;
    if (!d)
        return NULL;
    if (!(h->outside = d->next))
        h->outside_last = &h->outside;
    h->outside_count--;
    return d;
}

void htc__accept_balancer_doors_open(htc_host *h)
{
    for (htc__dealt *d; !h->closed_doors && (d = take(h));)
        enter(d);
}

void htc__accept_balancer_free(htc_host *h)
{
    for (htc__dealt *d; (d = take(h));) {
        close(d->fd);
        free(d);
    }
    htc__free(h->env, h->dealt_to, h->dealt_count * sizeof(htc_host *));
    h->dealt_to = NULL;
    h->dealt_count = 0;
}
