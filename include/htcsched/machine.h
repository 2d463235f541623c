/**
 * @file htcsched/machine.h
 * @brief The shape of every role: a state machine that is handed what happened and answers what to do.
 *
 * A driver (the live loop, the simulated world, somebody else's program) waits until the machine's deadline or until
 * something happens, stamps the time, calls step, and carries out the effects *in order*. The machine opens no socket,
 * reads no clock and never blocks: what blocks is an effect HTC_OUT_CALL, answered later by an input HTC_IN_RESULT
 * with the same tag. Inputs may come late, twice, reordered or from strangers; each is answered or ignored.
 *
 * Threads: owner.   Allocation: an output's, through env; it keeps memory of one step for the next, up to 4 MiB.
 */
#ifndef HTCSCHED_MACHINE_H
#define HTCSCHED_MACHINE_H

#include "htcsched/bytes.h"
#include "htcsched/env.h"

#ifdef __cplusplus
extern "C" {
#endif

/** What can happen to a machine. */
typedef enum htc_input_kind {
    HTC_IN_START = 1, /**< first input, exactly once */
    HTC_IN_MESSAGE,   /**< body arrived from peer, one whole message */
    HTC_IN_TIMEOUT,   /**< the deadline has passed; a late or spurious one is harmless */
    HTC_IN_STORED,    /**< the commit with this tag is durable (status HTC_OK) or failed */
    HTC_IN_OPENED,    /**< peer is connected; body = htc_peer_info, and who it is (htc_peer_identity_read). A peer that was asked for may open again and again */
    HTC_IN_CLOSED,    /**< peer is gone; status says why */
    HTC_IN_RESULT,    /**< the call with this tag ended with status; body is its answer (op repeated) */
    HTC_IN_EVENT,     /**< op happened in the host without having been asked for; body as op says */
    HTC_IN_BYTES,     /**< body arrived from peer, a stream, cut anywhere; an empty body: peer says no more, and is to be closed
                           once it has been answered */
    HTC_IN_SENT,      /**< peer, a stream, has been sent all up to the HTC_OUT_BYTES with this tag */
    HTC_IN_TURN,      /**< the driver has handed over all that was there; only for machines with HTC_MACHINE_TURNS */
    HTC_IN_FRAMES     /**< body: whole messages that arrived from peer together, one behind the other, each behind its length (4 bytes,
                           the lowest first): the same as an HTC_IN_MESSAGE for each; only for machines with HTC_MACHINE_FRAMES */
} htc_input_kind;

/** One thing that happened. The machine borrows all of it. */
typedef struct htc_input {
    size_t     size;   /**< sizeof(htc_input) */
    htc_ns     now;    /**< the driver's clock: never runs backwards, its origin means nothing */
    htc_ns     wall;   /**< time since 1970 for what people read and for expiry dates; may jump */
    uint32_t   kind;   /**< htc_input_kind; an unknown one answers HTC_EUNSUPPORTED */
    uint32_t   peer;   /**< number of the connection; 0 = none */
    uint32_t   op;     /**< HTC_IN_RESULT and HTC_IN_EVENT */
    htc_status status; /**< HTC_IN_STORED, HTC_IN_CLOSED, HTC_IN_RESULT, HTC_IN_EVENT: how it went */
    uint64_t   tag;    /**< HTC_IN_STORED, HTC_IN_RESULT, HTC_IN_SENT: as in the effect that asked for it */
    htc_bytes  body;   /**< as kind and op say */
} htc_input;

/** Who is at the other end of a connection, as the body of HTC_IN_OPENED: its members one after the other, each as htc_put_u32 writes it. With
 *  HTC_TRANSPORT_SECURE those of htc_peer_identity follow, as htc_put_str, htc_put_u32 and htc_put_raw write them. */
typedef struct htc_peer_info {
    uint32_t transport; /**< htc_transport */
    uint32_t uid;       /**< Unix sockets: the peer's user; UINT32_MAX where there is none */
    uint32_t pid;       /**< Unix sockets: the peer's process; 0 where there is none */
    uint32_t port;      /**< the number the driver gave the listener or the outgoing connection */
} htc_peer_info;

/** What a connection runs over. */
typedef enum htc_transport {
    HTC_TRANSPORT_UNIX = 1, /**< a Unix socket: the peer's uid is known */
    HTC_TRANSPORT_TCP,      /**< TCP on this machine: the peer has shown the token */
    HTC_TRANSPORT_SIM,      /**< the simulated world */
    HTC_TRANSPORT_STREAM,   /**< TCP on this machine, not framed: nobody has shown anything yet */
    HTC_TRANSPORT_SECURE    /**< TCP from anywhere through a secure channel: htc_peer_identity_read says whose key it is */
} htc_transport;

/** Room for the name of a peer, its end included. */
#define HTC_PEER_NAME_MAX 64

/** Whose key the other end of a connection has shown. */
typedef struct htc_peer_identity {
    char     name[HTC_PEER_NAME_MAX]; /**< as it is pinned here */
    uint32_t role;                    /**< htc_key_role (htcsched/keyring.h), as it is pinned here */
    uint8_t  key[32];                 /**< its public key */
} htc_peer_identity;

/**
 * Read who has opened a connection from the body of HTC_IN_OPENED: for machines that let in some and not others.
 *
 * @param[in]  body      of the input; borrowed
 * @param[out] identity  filled; untouched on failure
 * @return HTC_OK; HTC_EMPTY: the transport is another one than HTC_TRANSPORT_SECURE; HTC_EPROTO: this is no such body; HTC_EINVAL
 *
 * Cost: O(1).   Since: 0.2
 */
HTC_API htc_status htc_peer_identity_read(htc_bytes body, htc_peer_identity *identity);

/** What a machine can ask for. */
typedef enum htc_effect_kind {
    HTC_OUT_MESSAGE = 1, /**< send body to peer; dropped if the peer is gone */
    HTC_OUT_CLOSE,       /**< close peer after what was sent; status says why */
    HTC_OUT_CALL,        /**< do op with body, answer with HTC_IN_RESULT and this tag */
    HTC_OUT_COMMIT,      /**< make body (a batch) durable; answer with HTC_IN_STORED and this tag */
    HTC_OUT_STOP,        /**< this machine has ended with status; step it no more */
    HTC_OUT_BYTES,       /**< send body to peer, a stream, as it is; dropped if the peer is gone. A tag that is not 0 asks for
                              HTC_IN_SENT; only the newest one of a peer is answered */
    HTC_OUT_HOLD,        /**< op 1: read no more from peer, a stream; what was read already may still arrive. op 0: go on */
    HTC_OUT_FRAMES,      /**< send body to peer: whole messages as in HTC_IN_FRAMES; only in answer to that */
    HTC_OUT_LEFT         /**< the last tag bytes of the HTC_IN_FRAMES in this step were not looked at, whole messages and not all: hand them
                              over again if peer is still heard, when it has read; only in answer to that */
} htc_effect_kind;

/** One thing to do. Lent by the htc_output until its next clear. */
typedef struct htc_effect {
    uint32_t   kind;   /**< htc_effect_kind */
    uint32_t   peer;   /**< HTC_OUT_MESSAGE, HTC_OUT_FRAMES, HTC_OUT_BYTES, HTC_OUT_HOLD, HTC_OUT_CLOSE: number of the connection */
    uint32_t   op;     /**< HTC_OUT_CALL: what to do; HTC_OUT_HOLD: 1 or 0 */
    htc_status status; /**< HTC_OUT_CLOSE, HTC_OUT_STOP: why */
    uint64_t   tag;    /**< HTC_OUT_CALL, HTC_OUT_COMMIT, HTC_OUT_BYTES: comes back with the answer; HTC_OUT_LEFT: bytes */
    htc_bytes  body;   /**< the message, the bytes, the argument of the call, or the batch */
} htc_effect;

/** The ordered effects of one step. */
typedef struct htc_output htc_output;

/**
 * Create an empty output.
 *
 * @param[in]  env        copied, its allocator is kept; NULL: malloc
 * @param[in]  bytes_max  how much the bodies may take at once; 0: 64 MiB
 * @param[out] out        gives the output: htc_output_destroy
 * @return HTC_OK; HTC_EINVAL if out is NULL; HTC_ENOMEM
 *
 * Cost: one allocation.   Since: 0.1
 */
HTC_API htc_status htc_output_create(const htc_env *env, size_t bytes_max, htc_output **out);

/**
 * Free an output and what it lent.
 *
 * @param[in] out  NULL is fine
 *
 * Cost: O(1).   Since: 0.1
 */
HTC_API void htc_output_destroy(htc_output *out);

/**
 * Forget all effects; memory of up to 4 MiB is kept for the next step.
 *
 * @param[in,out] out  not NULL
 *
 * Cost: O(1).   Since: 0.1
 */
HTC_API void htc_output_clear(htc_output *out);

/**
 * How many effects there are.
 *
 * @param[in] out  not NULL
 * @return their number
 *
 * Cost: O(1).   Since: 0.1
 */
HTC_API size_t htc_output_count(const htc_output *out);

/**
 * One effect.
 *
 * @param[in]  out     not NULL
 * @param[in]  i       from 0, in order
 * @param[out] effect  its body is lent until the next clear or add; untouched on failure
 * @return HTC_OK; HTC_EINVAL if there is no such effect
 *
 * Cost: O(1).   Since: 0.1
 */
HTC_API htc_status htc_output_get(const htc_output *out, size_t i, htc_effect *effect);

/**
 * Append an effect.
 *
 * @param[in,out] out     not NULL; as it was on failure
 * @param[in]     effect  copied with its body
 * @return HTC_OK; HTC_EFULL if the bodies would take more than bytes_max; HTC_ENOMEM
 *
 * Cost: O(length of the body), amortised.   Since: 0.1
 */
HTC_API htc_status htc_output_add(htc_output *out, const htc_effect *effect);

/** In htc_machine_ops.flags: the machine takes HTC_IN_TURN, and can leave until then what is cheaper for many at once: a commit, the
 *  answers to one connection.
 *
 *  The driver chooses, once. One that hands over no HTC_IN_TURN gets all effects of an input from its step, as from a machine
 *  without this flag. The first HTC_IN_TURN decides it for good: from then on a step may leave commits and answers out, and they
 *  come with the next HTC_IN_TURN. So a driver that begins with turns owes one after each input, or after each group of inputs
 *  that were ready together; a deadline that has passed is an input too (HTC_IN_TIMEOUT), and is followed by a turn as well.
 *  There is no way back but a new machine. A driver with turns hands over the first one directly after HTC_IN_START. */
#define HTC_MACHINE_TURNS 1u
/** In htc_machine_ops.flags: the machine takes HTC_IN_FRAMES too. A driver may hand over each message by itself all the same. */
#define HTC_MACHINE_FRAMES 2u

/** A role as its drivers see it; the live loop and the simulator know nothing more.
 *  A step that answers an error has broken the machine: its driver ends it, and a new one starts from the store. */
typedef struct htc_machine_ops {
    size_t size; /**< sizeof(htc_machine_ops) */
    /**
     * Take one input and answer what to do.
     *
     * @param[in,out] self  the machine
     * @param[in]     in    borrowed
     * @param[in,out] out   effects are appended; carry them out in order
     * @return HTC_OK; HTC_EUNSUPPORTED for an unknown kind of input; anything else: the machine is broken
     */
    htc_status (*step)(void *self, const htc_input *in, htc_output *out);
    /**
     * When the machine wants an HTC_IN_TIMEOUT.
     *
     * @param[in] self  the machine
     * @return a moment on the clock of `now`; HTC_NEVER: only an input can wake it
     */
    htc_ns (*deadline)(const void *self);
    /**
     * Free the machine.
     *
     * @param[in] self  NULL is fine
     */
    void (*destroy)(void *self);
    uint32_t flags; /**< HTC_MACHINE_TURNS, HTC_MACHINE_FRAMES, or 0; ops of a size without this field have none. Since: 0.2 */
} htc_machine_ops;

#ifdef __cplusplus
}
#endif
#endif
