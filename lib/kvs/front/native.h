/* The face of the store's own clients: KV_REQUEST in, KV_ANSWER out (kv_wire.h), sessions and serials; KV_WATCH and KV_EVENTS are
 * handed to watch.h. A proxy sends the requests of its clients together, as a KV_PACK.
 *
 * All operations of a request are asked for at once; the answer leaves when the last of them is there, in pieces where it
 * would be longer than a message. What is asked beyond the bounds of a connection is answered "send again". */
#ifndef HTC_KVS_NATIVE_H
#define HTC_KVS_NATIVE_H

#include "htcsched/kv_server.h"
#include "kvs/cell/face.h"
#include "kvs/wire/kv_wire.h"
#include "kvs/util/slot_map.h"
#include "kvs/util/table.h"
#include "kvs/front/watch.h"

typedef struct htc__kv_native_message htc__kv_native_message;

typedef struct htc__kv_native {
    htc_env         env;
    htc__kv_backend backend;
    htc__kv_face    face; /* what the backend answers to */
    uint32_t        connections_max, inflight_max;
    size_t          output_max;
    uint32_t        admits; /* who is connected is asked for what it may reach: nobody else is heard */
    uint16_t        speaks; /* the highest version that is spoken; 0: HTC_WIRE_VERSION */
    htc__kv_watches watches; /* its bounds are to be filled too */

    htc__table              conns;    /* by peer */
    htc__slot_map           messages; /* those not answered entirely */
    htc__kv_native_message *ready, **ready_last;
    htc_buf                 body;
    size_t                  piece;     /* where the piece that is being written begins in body, its frame's length before it */
    uint32_t                gathering; /* answers stay in body behind each other, as frames */
    size_t                  gathered;  /* bytes that were handed over so */
    uint64_t                clock;    /* the newest durable version: the host keeps it up to date */
    uint32_t                stopping; /* nothing is executed any more */
    htc_status              broken;   /* memory was refused while an answer was taken */
    uint64_t                received, pushed_back;
    uint64_t                packs, packed; /* messages of proxies with several requests; the requests in them, which received counts too */
    uint64_t                sent_until;    /* what is asked for once so many bytes were sent is to be asked for again */
    uint64_t                sent, heard; /* bytes; heard: of HTC_IN_FRAMES alone */
} htc__kv_native;

/* Fill env, backend and the bounds first. */
void htc__kv_native_init(htc__kv_native *n);
void htc__kv_native_free(htc__kv_native *n);

htc_status htc__kv_native_opened(htc__kv_native *n, uint32_t peer, htc_output *out);
/* After it was opened: it may reach no more than that. Copied. */
htc_status htc__kv_native_confine(htc__kv_native *n, uint32_t peer, const htc_kv_reach *reach);
void       htc__kv_native_closed(htc__kv_native *n, uint32_t peer);
htc_status htc__kv_native_input(htc__kv_native *n, const htc_input *in, htc_output *out);  /* HTC_IN_MESSAGE */
htc_status htc__kv_native_frames(htc__kv_native *n, const htc_input *in, htc_output *out); /* HTC_IN_FRAMES */
/* Send what is ready, as far as one step has room for it; the rest leaves in the next one. */
htc_status htc__kv_native_flush(htc__kv_native *n, htc_output *out);
/* The same of what is told to watchers: behind all else, which it must not take the room of. */
htc_status htc__kv_native_tell(htc__kv_native *n, htc_ns now, htc_output *out);

#endif
