/* What waits to go out on all incoming connections is bounded together. Who takes it is waited for. Where there is too much of it in all, those
 * are ended who have taken nothing for a while, whoever holds most for longest first; never who comes and wants something. */
#include <assert.h>
#include <malloc.h>

#include "net/loop/host_private.h"

#define LOOK_EACH (100 * HTC_MS)
#define STALLED   HTC_SECOND
#define TIMES     4 /* the bound; so much is never held, whoever takes it */
#define FLOOD      ((size_t)32 << 20) /* so much has waited, or is free: it is given back */
#define FLOOD_OVER ((size_t)1 << 20)  /* when no more than this waits */

static int may_end(const htc__conn *c)
{
    return !c->dialled && c->counted > 0 && c->state != CONN_DEAD;
}

/* Bytes, times how long they lie there. */
static double weight(const htc__conn *c, htc_ns now)
{
    return (double)c->counted * (double)(now - c->took_at + HTC_MS);
}

/* NULL: nobody has taken nothing for so long. */
static htc__conn *holder(const htc_host *host, htc_ns now, htc_ns stalled)
{
    htc__conn *most = NULL;
    for (size_t i = 0; i < host->conns_count; i++) {
        htc__conn *c = host->conns[i];
        if (may_end(c) && now - c->took_at >= stalled && (!most || weight(c, now) > weight(most, now)))
            most = c;
    }
    return most;
}

static void end_holders(htc_host *h, size_t most, htc_ns stalled)
{
    htc_ns     now = htc_host_now();
    htc__conn *c;
    while (h->waiting_all > most && (c = holder(h, now, stalled)) != NULL) {
        htc__log_with(h->env, HTC_LOG_WARN, HTC__FIELDS(HTC__NUMBER("peer", c->peer), HTC__NUMBER("bytes", c->counted)),
                      "peer %u: of %zu bytes that wait for all it holds %zu, and has taken none for %u ms -> close", c->peer,
                      h->waiting_all, c->counted, (unsigned)((now - c->took_at) / HTC_MS));
        htc__conn_drop(c, HTC_EFULL);
    }
}

/* What is free lies between what stays, and the allocator would keep it for ever. */
static void give_back(void)
{
#ifdef __GLIBC__
    if (mallinfo2().fordblks > FLOOD)
        malloc_trim(0);
#endif
}

static void on_look(evutil_socket_t fd, short what, void *arg)
{
    htc_host      *h = arg;
    struct timeval again = htc__timeval(LOOK_EACH);
    (void)fd, (void)what;
    if (h->waiting_all > h->options.output_bytes_all)
        end_holders(h, h->options.output_bytes_all / 2, STALLED);
    if (h->waiting_all > FLOOD_OVER) {
        event_add(h->look, &again);
        return;
    }
    h->flood = 0;
    give_back();
}

void htc__output_flooded(htc_host *h)
{
    struct timeval soon = htc__timeval(LOOK_EACH);
    if (h->flood)
        return;
    if (!h->look)
        h->look = evtimer_new(h->base, on_look, h);
    h->flood = h->look && event_add(h->look, &soon) == 0;
}

void htc__output_note(htc__conn *c, size_t waiting)
{
    htc_host *h = c->host;
    if (c->dialled || waiting == c->counted)
        return;
    if (waiting < c->counted || c->counted == 0)
        c->took_at = htc_host_now();
    assert(h->waiting_all >= c->counted);
    h->waiting_all = h->waiting_all - c->counted + waiting;
    c->counted = waiting;
    if (h->waiting_all > FLOOD || h->waiting_all > h->options.output_bytes_all)
        htc__output_flooded(h);
}

void htc__output_settle(htc_host *host)
{
    if (host->waiting_all / TIMES > host->options.output_bytes_all)
        end_holders(host, TIMES * host->options.output_bytes_all, 0);
}
