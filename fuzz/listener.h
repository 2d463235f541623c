/* A machine behind a host that is sent bytes: it counts what it is handed, holds it to what a host promises (one connection, whole messages,
 * none longer than who sends it may), and greets each message if it is to. */
#ifndef HTC_FUZZ_LISTENER_H
#define HTC_FUZZ_LISTENER_H

#include "check.h"
#include "net/loop/host_private.h"

typedef struct listener {
    htc_host *host;
    int       welcomes, open;
    size_t    taken;                       /* bytes of messages, with their lengths */
    int (*knows)(const htc_input *opened); /* who may be shown to the machine; NULL: anybody */
} listener;

static htc_status listener_step(void *self, const htc_input *in, htc_output *out)
{
    listener *w = self;
    if (in->kind == HTC_IN_OPENED)
        CHECK(!w->open++ && (!w->knows || w->knows(in)));
    if (in->kind == HTC_IN_CLOSED)
        CHECK(--w->open == 0);
    if (in->kind == HTC_IN_MESSAGE) {
        htc_buf b;
        CHECK(w->open && in->body.len >= 10 && in->body.len <= (w->welcomes ? HTC_WIRE_MESSAGE_MAX : HTC_HOST_STRANGER_MAX));
        w->taken += 4 + in->body.len;
        htc_buf_init(&b, NULL, 0);
        htc_wire_welcome(&b, 0, HTC_WIRE_VERSION);
        if (w->welcomes)
            htc_output_add(out, &(htc_effect){ .kind = HTC_OUT_MESSAGE, .peer = in->peer, .body = htc_buf_bytes(&b) });
        htc_buf_free(&b);
    }
    return HTC_OK;
}

static htc_ns listener_deadline(const void *self)
{
    (void)self;
    return HTC_NEVER;
}

static const htc_machine_ops listener_ops = { sizeof listener_ops, listener_step, listener_deadline, NULL, 0 };

#endif
