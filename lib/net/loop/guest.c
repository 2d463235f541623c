#include "net/loop/guest.h"

static void deliver(htc_host *host, uint32_t peer, uint32_t kind, htc_status status, htc_bytes body)
{
    htc__host_deliver(host, &(htc_input){ .size = sizeof(htc_input), .kind = kind, .peer = peer, .status = status, .body = body });
}

htc_status htc__guest_open(htc_host *host, htc__guest *guest, const htc_peer_info *info)
{
    htc_buf body;
    if (host->stopped || !host->running || host->peer_next == UINT32_MAX)
        return HTC_ECLOSED;
    htc_buf_init(&body, host->env, 256);
    htc_peer_info_write(&body, info);
    htc_status status = body.status;
    if (status == HTC_OK) {
        guest->host = host;
        guest->peer = ++host->peer_next;
        guest->next = host->guests;
        host->guests = guest;
        deliver(host, guest->peer, HTC_IN_OPENED, HTC_OK, htc_buf_bytes(&body));
    }
    htc_buf_free(&body);
    return status;
}

void htc__guest_say(htc__guest *guest, htc_bytes message)
{
    if (guest->peer)
        deliver(guest->host, guest->peer, HTC_IN_MESSAGE, HTC_OK, message);
}

static void forget(htc__guest *guest)
{
    htc__guest **at = &guest->host->guests;
    while (*at && *at != guest)
        at = &(*at)->next;
    if (*at)
        *at = guest->next;
    guest->peer = 0;
    guest->next = NULL;
}

void htc__guest_close(htc__guest *guest)
{
    uint32_t peer = guest->peer;
    if (!peer)
        return;
    forget(guest);
    deliver(guest->host, peer, HTC_IN_CLOSED, HTC_ECLOSED, (htc_bytes){ NULL, 0 });
}

/* Whole messages, each behind its length. */
static void hear_frames(htc__guest *guest, htc_bytes frames)
{
    htc_reader r = htc_reader_of(frames);
    while (guest->peer && htc_reader_left(&r) >= 4) {
        uint32_t len = htc_get_u32(&r);
        if (len > htc_reader_left(&r))
            return;
        htc_bytes message = { r.p, len };
        htc_get_raw(&r, len);
        guest->hear(guest->ctx, message);
    }
}

int htc__guest_effect(htc_host *host, const htc_effect *e)
{
    htc__guest *guest = host->guests;
    while (guest && guest->peer != e->peer)
        guest = guest->next;
    if (!guest)
        return 0;
    if (e->kind == HTC_OUT_MESSAGE) {
        guest->hear(guest->ctx, e->body);
    } else if (e->kind == HTC_OUT_FRAMES) {
        hear_frames(guest, e->body);
    } else if (e->kind == HTC_OUT_CLOSE) {
        forget(guest);
        deliver(host, e->peer, HTC_IN_CLOSED, e->status, (htc_bytes){ NULL, 0 });
        guest->gone(guest->ctx, e->status);
    }
    return 1;
}
