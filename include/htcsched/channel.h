/**
 * @file htcsched/channel.h
 * @brief A secure channel between machines: bytes of a stream connection in, sealed records out, and back.
 *
 * Noise (revision 34) with 25519, ChaChaPoly and SHA256, from libsodium's primitives; doc/protocol.md describes every byte. The
 * channel opens no socket, reads no clock and draws no random number: its caller carries the bytes, says the moment and hands in
 * fresh random bytes. The owner's loop is
 *
 *     bytes came:   while ((status = htc_channel_read(c, now, &in, &event)) == HTC_OK && event.kind) …
 *     to say:       htc_channel_write(c, …) as often as wanted in a turn
 *     once a turn:  htc_channel_output(c, &out), write them to the socket, htc_channel_sent(c, written)
 *     stream ended: htc_channel_end(c)
 *     after an error: what htc_channel_output lends may still be sent (it tells the peer why); then close.
 *
 * **Who is who.** Both sides have static keys that the other has pinned in its htc_keyring. HTC_CHANNEL_OPEN is the first event,
 * and it names the peer: nothing of what the peer asks is handed over before, and a handshake message never carries anything
 * (it could be replayed). Whoever is not pinned, is revoked, has another role than it says or is not the one that was called
 * fails with HTC_EDENIED; a revoked key ends a channel that is open, too.
 *
 * **How it begins.** Who knows the key of whom it calls uses IK: one round trip, and the caller's identity is sealed to that key.
 * If the server has that key no more, it says so and the caller goes on with XX on the same connection: the server shows its
 * key, which must be one of those pinned under its name (see htcsched/keyring.h about rotation). The server's answer to IK
 * could be drawn by a replayed message: so the server says HTC_CHANNEL_OPEN after the caller's first record, which could not.
 *
 * **Enrolment.** A caller that nobody has pinned yet comes with a one-time secret of 256 bits (XXpsk3), which an operator opened
 * in the server's htc_enrolment under the caller's name and role. Each side shows its static key in the handshake; the caller
 * pins the server's only when the server's first record opens (so the server knew the secret), and answers with a record of
 * its own; the server pins the caller's key and burns the secret when that opens. A line that breaks in between has used up
 * nothing: the caller may try again with the same key until the secret expires. After HTC_CHANNEL_OPEN with `pinned` save the ring.
 *
 * **Sealing by batch.** What is written in a turn lies in one buffer and is sealed in place when htc_channel_output is called, in
 * as few records as it fits into (HTC_CHANNEL_RECORD_MAX bytes each, 19 more on the wire); there is no padding. After
 * rekey_records records or rekey_bytes bytes the sender goes to the next key (Noise's REKEY) and its last record under the old
 * one says so. Records are numbered by the cipher: one that was changed, lost, repeated or moved does not open, and the channel
 * fails with HTC_EPROTO. The last record of a direction says that it is: a stream that ends without is HTC_ECLOSED.
 *
 * **What strangers cost.** A channel that is not open holds less than 4 KiB and believes no length above 256. An htc_gate
 * limits handshakes in flight and the rate of each source before anything is multiplied on the curve; above its first limit only
 * a caller that shows a cookie, got from an earlier answer to the same address, is let in.
 *
 * After a failure the secrets are wiped, every call answers the same status, and htc_channel_reason says what was wrong.
 *
 * libsodium picks its fast code when it is initialised, which htc_keys_random and htc_host_create do: before the first channel.
 *
 * Threads: owner; channels that share an identity, a ring, an enrolment or a gate belong to one thread.   Allocation: through
 * env; up to 64 KiB for a record that comes in, and queue_max.
 */
#ifndef HTCSCHED_CHANNEL_H
#define HTCSCHED_CHANNEL_H

#include "htcsched/keyring.h"

#ifdef __cplusplus
extern "C" {
#endif

/** The most bytes that one record carries. */
#define HTC_CHANNEL_RECORD_MAX 65518
/** Fresh random bytes that a channel needs. */
#define HTC_CHANNEL_RANDOM 64
/** Bytes of a cookie. */
#define HTC_CHANNEL_COOKIE 16
/** The longest source address that a gate tells apart. */
#define HTC_CHANNEL_SOURCE_MAX 32

/** What keeps strangers cheap; shared by the channels that answer at one listener. */
typedef struct htc_gate htc_gate;

/** How a gate works; every field's zero is its default but for secret. */
typedef struct htc_gate_options {
    size_t   size;         /**< sizeof(htc_gate_options) */
    uint32_t inflight_max; /**< handshakes at once; 0: 256 */
    uint32_t inflight_free; /**< of them, as many without a cookie; 0: half of inflight_max. UINT32_MAX: no cookies */
    uint32_t rate;         /**< handshakes a second from one source, in the long run; 0: 16 */
    uint32_t burst;        /**< and at once; 0: 64 */
    uint32_t sources;      /**< sources remembered at a time, rounded up to a power of two; 0: 4096, at most 2^20 */
    uint8_t  secret[32];   /**< random, for cookies, not all zeros; see htc_gate_turn */
} htc_gate_options;

/** What a gate has done. */
typedef struct htc_gate_counts {
    uint64_t admitted;     /**< handshakes that were let in */
    uint64_t busy;         /**< refused: inflight_max */
    uint64_t cookies;      /**< sent away with a cookie */
    uint64_t rate_limited; /**< refused: the source's rate */
    uint32_t inflight;     /**< handshakes now */
} htc_gate_counts;

/**
 * Create a gate.
 *
 * @param[in]  env      copied, its allocator is kept; NULL: malloc
 * @param[in]  options  borrowed
 * @param[out] out      gives the gate: htc_gate_destroy, after all channels that keep it
 * @return HTC_OK; HTC_EINVAL, also for a secret of zeros; HTC_EABI; HTC_ENOMEM
 *
 * Cost: O(sources), 24 bytes each.   Since: 0.2
 */
HTC_API htc_status htc_gate_create(const htc_env *env, const htc_gate_options *options, htc_gate **out);

/**
 * Free a gate.
 *
 * @param[in] gate  NULL is fine
 *
 * Cost: O(1).   Since: 0.2
 */
HTC_API void htc_gate_destroy(htc_gate *gate);

/**
 * Make cookies with another secret from now on; those of the last one are good until the next turn. Every two minutes, say.
 *
 * @param[in,out] gate    not NULL
 * @param[in]     secret  32 random bytes; copied
 *
 * Cost: O(1).   Since: 0.2
 */
HTC_API void htc_gate_turn(htc_gate *gate, const uint8_t *secret);

/**
 * What a gate has done so far.
 *
 * @param[in]  gate    not NULL
 * @param[out] counts  filled
 *
 * Cost: O(1).   Since: 0.2
 */
HTC_API void htc_gate_count(const htc_gate *gate, htc_gate_counts *counts);

/** Which end of the connection. */
typedef enum htc_channel_side {
    HTC_CHANNEL_CALLER = 1, /**< connected to somebody, and speaks first */
    HTC_CHANNEL_ANSWERER    /**< accepted a connection */
} htc_channel_side;

/** How a channel works. All that is kept outlives the channel. */
typedef struct htc_channel_options {
    size_t        size;     /**< sizeof(htc_channel_options) */
    uint32_t      side;     /**< htc_channel_side */
    uint32_t      role;     /**< caller: htc_key_role that one's own key is pinned with at the other end */
    htc_identity *identity; /**< one's own key pairs; kept */
    htc_keyring  *ring;     /**< whom one knows; kept */
    const char   *peer;     /**< caller: the name that has to answer; copied. NULL: anybody pinned with peer_role */
    uint32_t      peer_role; /**< caller: htc_key_role of who has to answer; 0: HTC_KEY_MEMBER */
    uint32_t      accept;    /**< answerer: roles let in, a bit 1 << htc_key_role each; 0: all */
    const uint8_t *secret;   /**< caller: a one-time secret, HTC_KEY_BYTES: enrol, and pin who answers as peer. NULL: no */
    htc_enrolment *enrolment; /**< answerer: the secrets that are open; kept. NULL: nobody is enrolled here */
    htc_gate      *gate;      /**< answerer: kept. NULL: no limit */
    htc_bytes      source;    /**< answerer with a gate: where the caller is, at most HTC_CHANNEL_SOURCE_MAX bytes: the address, of
                                   IPv6 the part that one customer has; copied */
    const uint8_t *cookie;    /**< caller: HTC_CHANNEL_COOKIE bytes from htc_channel_cookie, if the last try gave one; else NULL */
    uint8_t        random[HTC_CHANNEL_RANDOM]; /**< from the system's source of randomness, used for this channel alone */
    htc_ns         handshake_ns;  /**< give up after this; 0: 10 s */
    size_t         queue_max;     /**< bytes that may wait to go out, sealed; 0: 16 MiB */
    uint64_t       rekey_bytes;   /**< next key after sealing so many; 0: 2^30 */
    uint32_t       rekey_records; /**< or so many records; 0: 65536 */
    uint32_t       only_xx;       /**< caller, 1: never IK, so that one's identity stays secret even if the peer's key leaks */
} htc_channel_options;

/** One end of a connection. */
typedef struct htc_channel htc_channel;

/** What came of the bytes that came in. */
typedef enum htc_channel_event_kind {
    HTC_CHANNEL_MORE = 0, /**< nothing: all bytes are taken, more are needed */
    HTC_CHANNEL_OPEN,     /**< the peer is who it says: htc_channel_peer; writing is possible from now on */
    HTC_CHANNEL_DATA,     /**< bytes, in the order they were written */
    HTC_CHANNEL_NEXT_KEY, /**< bytes: a public key that the peer will use next: pin it as HTC_KEY_NEXT */
    HTC_CHANNEL_CLOSED    /**< the peer has said all; its stream ends here */
} htc_channel_event_kind;

/** One such thing. */
typedef struct htc_channel_event {
    uint32_t  kind;   /**< htc_channel_event_kind */
    uint32_t  pinned; /**< HTC_CHANNEL_OPEN: 1: the ring has a new key; save it */
    htc_bytes bytes;  /**< lent by htc_channel_read, and until when is said there. HTC_CHANNEL_OPEN of a caller that was enrolled: the name
                           it has been given */
} htc_channel_event;

/** Who is at the other end. */
typedef struct htc_channel_peer_info {
    const char    *name; /**< as pinned; lent as long as the channel lives */
    uint32_t       role; /**< htc_key_role */
    const uint8_t *key;  /**< HTC_KEY_BYTES, public; lent as long as the channel lives */
    const uint8_t *hash; /**< HTC_KEY_BYTES: of the whole handshake, the same at both ends and in no other channel; lent */
} htc_channel_peer_info;

/**
 * Begin a channel. A caller's first bytes wait in htc_channel_output.
 *
 * @param[in]  env      copied, its allocator is kept; NULL: malloc
 * @param[in]  options  borrowed
 * @param[in]  now      the moment, on the clock of all the channel's calls
 * @param[out] out      gives the channel: htc_channel_destroy
 * @return HTC_OK; HTC_EINVAL, also for random bytes that are all zero; HTC_EABI; HTC_ENOTFOUND: no key is pinned for peer;
 *         HTC_EPROTO: what is pinned for peer is no key; HTC_ENOMEM
 *
 * Cost: two allocations; a caller multiplies once to three times on the curve.   Since: 0.2
 */
HTC_API htc_status htc_channel_create(const htc_env *env, const htc_channel_options *options, htc_ns now,
                                      htc_channel **out);

/**
 * Wipe and free a channel.
 *
 * @param[in] channel  NULL is fine
 *
 * Cost: O(bytes held).   Since: 0.2
 */
HTC_API void htc_channel_destroy(htc_channel *channel);

/**
 * Take bytes of the stream until something comes of them.
 *
 * @param[in,out] channel  borrowed
 * @param[in]     now      the moment
 * @param[in,out] in       borrowed; moved past what was taken. May be empty: to look whether the peer was revoked
 * @param[out]    event    one event, HTC_CHANNEL_MORE if there is none; what it points to is lent until the next call of
 *                          a function that takes the channel and is not const
 * @return HTC_OK: call again until event is HTC_CHANNEL_MORE; HTC_ENOMEM: nothing is lost, call again; HTC_EINVAL. Anything else,
 *         for good: HTC_EPROTO: what came is not what the peer sealed, or not this protocol; HTC_EDENIED: the peer is not pinned, or
 *         does not let us in; HTC_EVERSION; HTC_EBUSY: the peer has too many callers: try again, see htc_channel_cookie;
 *         HTC_ECLOSED, HTC_ETIMEDOUT
 *
 * Cost: O(bytes); a handshake message three to four multiplications on the curve.   Since: 0.2
 */
HTC_API htc_status htc_channel_read(htc_channel *channel, htc_ns now, htc_bytes *in, htc_channel_event *event);

/**
 * Have bytes sealed with what else is written in this turn.
 *
 * @param[in,out] channel  as it was on HTC_EFULL and HTC_ENOMEM
 * @param[in]     bytes    copied
 * @return HTC_OK; HTC_EINVAL: not open, or closed by this side; HTC_EFULL: queue_max; HTC_ENOMEM; or why the channel has failed
 *
 * Cost: O(bytes), amortised.   Since: 0.2
 */
HTC_API htc_status htc_channel_write(htc_channel *channel, htc_bytes bytes);

/**
 * Tell the peer, on an open channel, which public key this side will use next.
 *
 * @param[in,out] channel  as it was on HTC_EFULL and HTC_ENOMEM
 * @param[in]     key      HTC_KEY_BYTES, public; copied
 * @return as htc_channel_write
 *
 * Cost: O(1).   Since: 0.2
 */
HTC_API htc_status htc_channel_announce(htc_channel *channel, const uint8_t *key);

/**
 * Say that nothing more will be written. What was, still goes out, and reading goes on until the peer closes too.
 *
 * @param[in,out] channel  as it was on HTC_EFULL and HTC_ENOMEM
 * @return HTC_OK, also if it was closed before; HTC_EINVAL: not open; HTC_EFULL; HTC_ENOMEM; or why the channel has failed
 *
 * Cost: O(1).   Since: 0.2
 */
HTC_API htc_status htc_channel_close(htc_channel *channel);

/**
 * Seal what was written and lend all that waits to go out.
 *
 * @param[in,out] channel  borrowed
 * @param[out]    bytes    lent until the next call of a function that takes the channel and is not const, htc_channel_sent
 *                         among them; after a failure what tells the peer why, or nothing
 * @return HTC_OK; HTC_EINVAL; or why the channel has failed
 *
 * Cost: O(bytes written).   Since: 0.2
 */
HTC_API htc_status htc_channel_output(htc_channel *channel, htc_bytes *bytes);

/**
 * So many of the lent bytes have gone out.
 *
 * @param[in,out] channel  not NULL
 * @param[in]     n        at most as many as htc_channel_output has lent
 *
 * Cost: O(1), amortised.   Since: 0.2
 */
HTC_API void htc_channel_sent(htc_channel *channel, size_t n);

/**
 * How much waits to go out.
 *
 * @param[in] channel  not NULL
 * @return bytes, those that are not sealed yet among them
 *
 * Cost: O(1).   Since: 0.2
 */
HTC_API size_t htc_channel_waiting(const htc_channel *channel);

/**
 * The stream has ended.
 *
 * @param[in,out] channel  borrowed
 * @return HTC_OK: the peer had said all; HTC_ECLOSED: it had not, something may be cut off; HTC_EINVAL; or why the channel has failed
 *
 * Cost: O(1).   Since: 0.2
 */
HTC_API htc_status htc_channel_end(htc_channel *channel);

/**
 * When the channel wants htc_channel_timeout.
 *
 * @param[in] channel  borrowed
 * @return a moment; HTC_NEVER once it is open
 *
 * Cost: O(1).   Since: 0.2
 */
HTC_API htc_ns htc_channel_deadline(const htc_channel *channel);

/**
 * The moment of htc_channel_deadline may have come.
 *
 * @param[in,out] channel  borrowed
 * @param[in]     now      the moment
 * @return HTC_OK; HTC_ETIMEDOUT: the handshake took too long; HTC_EINVAL; or why the channel has failed
 *
 * Cost: O(1).   Since: 0.2
 */
HTC_API htc_status htc_channel_timeout(htc_channel *channel, htc_ns now);

/**
 * Who is at the other end.
 *
 * @param[in]  channel  borrowed
 * @param[out] peer     lent as long as the channel lives; untouched on failure
 * @return HTC_OK; HTC_EINVAL; HTC_EMPTY before HTC_CHANNEL_OPEN
 *
 * Cost: O(1).   Since: 0.2
 */
HTC_API htc_status htc_channel_peer(const htc_channel *channel, htc_channel_peer_info *peer);

/**
 * The cookie that the answerer gave with HTC_EBUSY, for the next try.
 *
 * @param[in]  channel  borrowed
 * @param[out] out      HTC_CHANNEL_COOKIE bytes; untouched if there is none
 * @return 1: there was one; 0: there was none
 *
 * Cost: O(1).   Since: 0.2
 */
HTC_API int htc_channel_cookie(const htc_channel *channel, uint8_t *out);

/**
 * Why the channel has failed.
 *
 * @param[in] channel  borrowed
 * @return lends a constant, one sentence; "" if it has not
 *
 * Cost: O(1).   Since: 0.2
 */
HTC_API const char *htc_channel_reason(const htc_channel *channel);

#ifdef __cplusplus
}
#endif
#endif
