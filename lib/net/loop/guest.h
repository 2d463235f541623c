/* Peers of the machine that are part of this program: what comes by another protocol than frames (lib/net/portal) speaks through one. The machine
 * sees a peer that opens, says whole messages and closes, and cannot tell that no socket is there. Threads: the loop's. */
#ifndef HTC_NET_GUEST_H
#define HTC_NET_GUEST_H

#include "net/loop/host_private.h"

typedef struct htc__guest htc__guest;
struct htc__guest {
    /* Set before it is opened. Both may come while the machine steps, also from within open and say; in them a guest may speak or close, which
     * then waits for the end of the step. */
    void (*hear)(void *ctx, htc_bytes message); /* one message, lent for the call */
    void (*gone)(void *ctx, htc_status why);    /* the machine has closed it: it is not open any more */
    void      *ctx;
    uint32_t   peer; /* 0: not open */
    htc_host  *host;
    htc__guest *next;
};

/* The machine is told who it is. HTC_OK; HTC_ENOMEM; HTC_ECLOSED: there are no more numbers, or the host does not run. */
htc_status htc__guest_open(htc_host *host, htc__guest *guest, const htc_peer_info *info);
void       htc__guest_say(htc__guest *guest, htc_bytes message); /* one that is not open says nothing */
void       htc__guest_close(htc__guest *guest);                  /* neither function is called any more; one that is not open is fine */
/* For host.c: 1 if the effect was for a guest, who has heard it. */
int htc__guest_effect(htc_host *host, const htc_effect *effect);

#endif
