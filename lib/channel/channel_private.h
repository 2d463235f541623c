/* A channel's inside. Files: channel.c (life, and what its owner asks), shake.c (handshake frames), record.c (sealed records).
 *
 *     caller:    ANSWER -> OPEN                   XX and IK: HELLO is out, the answer's key is known; a RETRY begins anew with XX
 *                ANSWER -> PROOF -> OPEN          XXpsk3: FINISH is out, the server's first record has to open
 *     answerer:  HELLO -> FINISH -> OPEN          XX
 *                HELLO -> PROOF -> OPEN           IK: the caller's first record has to open
 *                HELLO -> FINISH -> PROOF -> OPEN XXpsk3: the same
 *     any:       -> FAILED
 *
 * A frame is a length of two bytes, little-endian, and so many bytes. */
#ifndef HTC_CHANNEL_PRIVATE_H
#define HTC_CHANNEL_PRIVATE_H

#include "channel/gate.h"
#include "channel/keyring.h"
#include "channel/noise.h"

#define HTC__FRAME_HEAD      2
#define HTC__FRAME_SHAKE_MAX 256                                    /* of a handshake frame, without its head */
#define HTC__RECORD_MORE     (HTC__FRAME_HEAD + 1 + HTC__NOISE_TAG) /* what a record is longer than what it carries */

_Static_assert(HTC_CHANNEL_RECORD_MAX + 1 + HTC__NOISE_TAG == HTC__NOISE_MESSAGE_MAX,
               "a full record is a full message");

enum { HTC__CHANNEL_VERSION = 1 };

/* First byte of a handshake frame. */
enum htc__frame {
    HTC__FRAME_HELLO = 1, /* 15 bytes more of a header, the first Noise message, a cookie if the header says so */
    HTC__FRAME_ANSWER,    /* the second Noise message */
    HTC__FRAME_FINISH,    /* the third */
    HTC__FRAME_RETRY,     /* nothing: the key that IK asked for is not ours (any more), come with XX */
    HTC__FRAME_COOKIE,    /* 16 bytes: too many callers, come back with this */
    HTC__FRAME_REFUSED    /* a byte, htc__refusal */
};

enum htc__refusal {
    HTC__REFUSED_DENIED = 1,
    HTC__REFUSED_VERSION,
    HTC__REFUSED_BUSY,
    HTC__REFUSED_SECRET,
    HTC__REFUSED_PROTOCOL,
    HTC__REFUSED_LATE
};

/* HELLO's header; all of it is in the prologue. */
enum {
    HTC__HELLO_MAGIC = 1, /* 3 bytes */
    HTC__HELLO_VERSION = 4,
    HTC__HELLO_PATTERN = 5, /* htc__noise_pattern */
    HTC__HELLO_ROLE = 6,    /* htc_key_role of the caller */
    HTC__HELLO_FLAGS = 7,
    HTC__HELLO_HINT = 8, /* 8 bytes: IK: which of the server's keys; XXpsk3: which secret; XX: zeros */
    HTC__HELLO_HEAD = 16
};
enum { HTC__HELLO_RETRIED = 1, HTC__HELLO_COOKIE = 2 };

/* First byte of what a record seals. */
enum {
    HTC__RECORD_CLOSE = 1, /* the last of this direction; then nothing, or a byte htc__refusal */
    HTC__RECORD_REKEY = 2, /* the next record has the next key */
    HTC__RECORD_NEXT = 4,  /* 32 bytes: the sender's next public key */
    HTC__RECORD_PROOF = 8 /* first record of its direction where one is due; from the server of an enrolment with a byte
                              htc_key_role and the name it gives, else with nothing */
};

typedef enum htc__channel_state {
    HTC__CHANNEL_HELLO = 1,
    HTC__CHANNEL_ANSWER,
    HTC__CHANNEL_FINISH,
    HTC__CHANNEL_PROOF,
    HTC__CHANNEL_IS_OPEN,
    HTC__CHANNEL_FAILED
} htc__channel_state;

/* Bytes that are wiped before they go. */
typedef struct htc__store {
    uint8_t *data;
    size_t   len, cap;
} htc__store;

struct htc_channel {
    htc_env     env;
    uint32_t    state;
    htc_status  status; /* of FAILED */
    const char *reason;

    uint32_t       side, role, accept, peer_role, pattern;
    uint8_t        retried, only_xx, in_gate, has_cookie, has_secret, secret_taken, pinned;
    uint8_t        we_closed, peer_closed, opening;
    htc_identity  *identity;
    htc_keyring   *ring;
    htc_enrolment *enrolment;
    htc_gate      *gate;
    htc_ns         deadline;
    uint64_t       ring_epoch; /* when the peer was last looked up */

    htc__noise        noise; /* hash and peer stay after the handshake */
    htc__noise_cipher send, receive;
    uint8_t           random[HTC_CHANNEL_RANDOM];
    uint8_t           secret[HTC_KEY_BYTES];
    uint8_t           secret_hint[HTC__KEY_HINT];
    uint8_t           cookie[HTC_CHANNEL_COOKIE];
    uint8_t           source[HTC_CHANNEL_SOURCE_MAX];
    size_t            source_len;
    char              wanted[HTC_KEY_NAME_MAX + 1];    /* caller: who has to answer; "": anybody of peer_role */
    char              peer_name[HTC_KEY_NAME_MAX + 1]; /* who did */
    char              own_name[HTC_KEY_NAME_MAX + 1];  /* what an enrolment calls us */
    uint32_t          peer_is;                         /* its role */

    htc__store in;      /* the frame that is coming in */
    size_t     in_need; /* its length with its head; 0: not known yet */
    int        in_done; /* it has been dealt with */
    htc__store out;     /* frames; from out_at on not sent yet */
    size_t     out_at;
    size_t     record_at; /* where the record that is being filled begins, in out; SIZE_MAX: none */
    size_t     queue_max;
    uint64_t   rekey_bytes, bytes; /* sealed under this key */
    uint32_t   rekey_records, records;
};

/* Fail for good; secrets are wiped. Frames that are complete still go out. */
htc_status htc__channel_fail(htc_channel *c, htc_status status, const char *reason);
/* Room for n more bytes behind out.len: HTC_EFULL, HTC_ENOMEM, and all is as it was. */
htc_status htc__channel_room(htc_channel *c, size_t n);
htc_status htc__store_grow(const htc_env *env, htc__store *s, size_t cap);

/* shake.c: begin as a caller, with pattern; a whole handshake frame from the peer. */
htc_status htc__channel_hello(htc_channel *c, uint32_t pattern);
htc_status htc__channel_shake(htc_channel *c, htc_ns now, const uint8_t *frame, size_t len);
/* Tell the peer why, then fail. What is said so is proven by nothing: it only helps who looks for the fault. */
htc_status htc__channel_refuse(htc_channel *c, uint8_t why, htc_status status, const char *reason);
/* The handshake has proven all it has to: event HTC_CHANNEL_OPEN is due. */
void htc__channel_opened(htc_channel *c);
/* Enrolment is proven: pin the peer. */
htc_status htc__channel_pin(htc_channel *c);

/* record.c. Append bytes to the record that is being filled, sealing those that are full; the room is there. */
void htc__record_append(htc_channel *c, const uint8_t *bytes, size_t len);
/* Seal the record that is being filled, if there is one. */
void htc__record_finish(htc_channel *c);
/* One record of its own; the room is there. */
void htc__record_put(htc_channel *c, uint8_t flags, const void *bytes, size_t len);
/* Open a whole record, in place. */
htc_status htc__record_take(htc_channel *c, uint8_t *sealed, size_t len, htc_channel_event *event);

#endif
