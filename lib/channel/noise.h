/* The Noise Protocol Framework, revision 34, as far as the secure channel needs it: the handshakes XX, IK and XXpsk3 with
 * 25519, ChaChaPoly and SHA256. Only deterministic calls of libsodium: keys, ephemeral ones too, and the secret are handed in.
 *
 * A handshake is started, then written and read in turns until it is done, then split into one cipher for each direction.
 * The first failure of a handshake is its end: every secret in it is wiped, and what is asked of it afterwards is HTC_EPROTO.
 * A cipher that could not open what it was given is as it was: its owner ends the channel. */
#ifndef HTC_CHANNEL_NOISE_H
#define HTC_CHANNEL_NOISE_H

#include "htcsched/bytes.h"

#define HTC__NOISE_KEY         32    /* bytes of a key, public or secret, of a shared secret and of a hash */
#define HTC__NOISE_TAG         16    /* what sealing adds */
#define HTC__NOISE_MESSAGE_MAX 65535 /* the longest message, its tags included */

/* One direction once the handshake is done; within it, its own encryption. */
typedef struct htc__noise_cipher {
    uint8_t  key[HTC__NOISE_KEY];
    uint64_t n; /* of the next message; 2^64 - 1 is never used for one */
    int      keyed;
} htc__noise_cipher;

/* Seal text_len bytes of text into out, text_len + 16 bytes, which may be where text is. HTC_ETOOBIG beyond a message's length,
 * HTC_EFULL when the numbers are used up: the key is too. */
htc_status htc__noise_seal(htc__noise_cipher *c, htc_bytes ad, const uint8_t *text, size_t text_len, uint8_t *out);
/* Open len bytes into out, len - 16 bytes, which may be where sealed is. HTC_EPROTO if it was not sealed so, HTC_EFULL as above. */
htc_status htc__noise_open(htc__noise_cipher *c, htc_bytes ad, const uint8_t *sealed, size_t len, uint8_t *out);
/* REKEY: the next key follows from this one and cannot lead back. The count goes on. */
void htc__noise_rekey(htc__noise_cipher *c);

typedef enum htc__noise_pattern {
    HTC__NOISE_XX = 1, /* -> e   <- e, ee, s, es   -> s, se */
    HTC__NOISE_IK,     /* <- s   ...   -> e, es, s, ss   <- e, ee, se */
    HTC__NOISE_XXPSK3  /* -> e   <- e, ee, s, es   -> s, se, psk */
} htc__noise_pattern;

/* What a side brings along. */
typedef struct htc__noise_keys {
    const uint8_t *own;        /* static secret key */
    const uint8_t *ephemeral;  /* secret key, never used before and never again */
    const uint8_t *peer;       /* IK's initiator: the responder's static public key; else NULL */
    const uint8_t *psk;        /* XXPSK3: the shared secret; else NULL */
    const uint8_t *own_public; /* of own, where it is known already; NULL: it is worked out */
} htc__noise_keys;

typedef struct htc__noise {
    const uint8_t    *tokens; /* of the pattern; NULL: failed, or never started */
    uint8_t           psk_mode;
    uint8_t           initiator;
    uint8_t           at;       /* number of the next message */
    uint8_t           messages; /* how many there are */
    htc__noise_cipher cipher;
    uint8_t           chain[HTC__NOISE_KEY];
    uint8_t           hash[HTC__NOISE_KEY]; /* of all that was said so far */
    uint8_t           own[HTC__NOISE_KEY], own_public[HTC__NOISE_KEY];
    uint8_t           ephemeral[HTC__NOISE_KEY], ephemeral_public[HTC__NOISE_KEY];
    uint8_t           peer[HTC__NOISE_KEY]; /* static, once it is known */
    uint8_t           peer_ephemeral[HTC__NOISE_KEY];
    uint8_t           psk[HTC__NOISE_KEY];
} htc__noise;

/* The public key of a secret one. */
void htc__noise_public(const uint8_t *secret, uint8_t *out);

/* Begin; the prologue has to be the same on both sides. HTC_EUNSUPPORTED: an unknown pattern; HTC_EINVAL: a key is missing or
 * there is one too many; HTC_EPROTO: the peer's key is none. */
htc_status htc__noise_start(htc__noise *h, uint32_t pattern, int initiator, htc_bytes prologue,
                            const htc__noise_keys *keys);
/* Bytes that the next message needs beside its payload; 0 if there is none. */
size_t htc__noise_overhead(const htc__noise *h);
/* Our message with a payload into out, which has room for overhead and payload. HTC_EINVAL when it is not our turn. */
htc_status htc__noise_write(htc__noise *h, htc_bytes payload, uint8_t *out);
/* The peer's message; its payload, message.len - overhead bytes, into out. HTC_EINVAL when it is not the peer's turn,
 * HTC_ETOOBIG, HTC_EPROTO: truncated, changed, sealed with other keys, or with a key in it that is none. */
htc_status htc__noise_read(htc__noise *h, htc_bytes message, uint8_t *out);
int        htc__noise_done(const htc__noise *h);
/* After the last message: the ciphers, wiped here; hash and peer stay. HTC_EINVAL before. */
htc_status htc__noise_split(htc__noise *h, htc__noise_cipher *send, htc__noise_cipher *receive);
/* Forget everything. */
void htc__noise_wipe(htc__noise *h);

#endif
