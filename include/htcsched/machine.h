/**
 * @file htcsched/machine.h
 * @brief The shape of every role: a state machine that is handed what happened and answers what to do.
 *
 * A driver (the live loop, the simulated world, somebody else's program) waits until the machine's deadline or until
 * something happens, stamps the time, calls step, and carries out the effects *in order*. The machine opens no socket,
 * reads no clock and never blocks: what blocks is an effect HTC_OUT_CALL, answered later by an input HTC_IN_RESULT
 * with the same tag. Inputs may come late, twice, reordered or from strangers; each is answered or ignored.
 *
 * Threads: owner.
 */
#ifndef HTCSCHED_MACHINE_H
#define HTCSCHED_MACHINE_H

#include "htcsched/bytes.h"
#include "htcsched/env.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef enum htc_input_kind {
    HTC_IN_START = 1, /* first input, exactly once */
    HTC_IN_MESSAGE,   /* body arrived from peer, one whole message */
    HTC_IN_TIMEOUT,   /* the deadline has passed; a late or spurious one is harmless */
    HTC_IN_STORED,    /* the commit with this tag is durable (status HTC_OK) or failed */
    HTC_IN_OPENED,    /* peer is connected; body = htc_peer_info. A peer that was asked for may open again and again */
    HTC_IN_CLOSED,    /* peer is gone; status says why */
    HTC_IN_RESULT,    /* the call with this tag ended with status; body is its answer (op repeated) */
    HTC_IN_EVENT      /* op happened in the host without having been asked for; body as op says */
} htc_input_kind;

/** One thing that happened. The machine borrows all of it. */
typedef struct htc_input {
    htc_ns     now;    /* the driver's clock: never runs backwards, its origin means nothing */
    htc_ns     wall;   /* time since 1970 for what people read and for expiry dates; may jump */
    uint32_t   kind;   /* htc_input_kind; an unknown one answers HTC_EUNSUPPORTED */
    uint32_t   peer;   /* number of the connection; 0 = none */
    uint32_t   op;     /* HTC_IN_RESULT and HTC_IN_EVENT */
    htc_status status;
    uint64_t   tag;
    htc_bytes  body;
} htc_input;

/** Who is at the other end of a connection, as the body of HTC_IN_OPENED. */
typedef struct htc_peer_info {
    uint32_t transport; /* htc_transport */
    uint32_t uid;       /* Unix sockets: the peer's user; UINT32_MAX where there is none */
    uint32_t pid;       /* Unix sockets: the peer's process; 0 where there is none */
    uint32_t port;      /* the number the driver gave the listener or the outgoing connection */
} htc_peer_info;

typedef enum htc_transport { HTC_TRANSPORT_UNIX = 1, HTC_TRANSPORT_TCP, HTC_TRANSPORT_SIM } htc_transport;

typedef enum htc_effect_kind {
    HTC_OUT_MESSAGE = 1, /* send body to peer; dropped if the peer is gone */
    HTC_OUT_CLOSE,       /* close peer after what was sent; status says why */
    HTC_OUT_CALL,        /* do op with body, answer with HTC_IN_RESULT and this tag */
    HTC_OUT_COMMIT,      /* make body (a batch) durable; answer with HTC_IN_STORED and this tag */
    HTC_OUT_STOP         /* this machine has ended with status; step it no more */
} htc_effect_kind;

/** One thing to do. Lent by the htc_output until its next clear. */
typedef struct htc_effect {
    uint32_t   kind; /* htc_effect_kind */
    uint32_t   peer;
    uint32_t   op;
    htc_status status;
    uint64_t   tag;
    htc_bytes  body;
} htc_effect;

/** The ordered effects of one step. */
typedef struct htc_output htc_output;

/** Create an empty output; bytes_max bounds what it may hold at once (0: 64 MiB). Gives it: htc_output_destroy. */
HTC_API htc_status htc_output_create(const htc_env *env, size_t bytes_max, htc_output **out);
HTC_API void       htc_output_destroy(htc_output *out);
/** Forget all effects; the memory is kept for the next step. */
HTC_API void htc_output_clear(htc_output *out);
/** How many effects there are. */
HTC_API size_t htc_output_count(const htc_output *out);
/** Effect i in order; lent until the next clear or add. HTC_EINVAL if there is no such effect. */
HTC_API htc_status htc_output_get(const htc_output *out, size_t i, htc_effect *effect);
/** Append an effect; its body is copied. HTC_EFULL beyond the bound, HTC_ENOMEM; then the output is as it was. */
HTC_API htc_status htc_output_add(htc_output *out, const htc_effect *effect);

/** A role as its drivers see it; the live loop and the simulator know nothing more.
 *  A step that answers an error has broken the machine: its driver ends it, and a new one starts from the store. */
typedef struct htc_machine_ops {
    size_t size;
    htc_status (*step)(void *self, const htc_input *in, htc_output *out);
    htc_ns (*deadline)(const void *self); /* on the clock of `now`; HTC_NEVER: only an input can wake it */
    void (*destroy)(void *self);          /* NULL is fine */
} htc_machine_ops;

#ifdef __cplusplus
}
#endif
#endif
