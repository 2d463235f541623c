/* The secure channel of a connection to a member: native.c carries the bytes. */
#ifndef HTC_NET_SEALED_H
#define HTC_NET_SEALED_H

#include "core/codec.h"
#include "htcsched/channel.h"
#include "htcsched/store.h"

typedef struct htc__sealed htc__sealed;

/* Read the keys that the options name. Gives *out. */
htc_status htc__sealed_open(const htc_env *env, const htc_store_options *options, htc__sealed **out, htc_error *error);
void       htc__sealed_close(htc__sealed *s); /* NULL is fine */

/* A connection is there: begin a handshake on it. It is gone: forget it. */
htc_status htc__sealed_begin(htc__sealed *s);
void       htc__sealed_end(htc__sealed *s);

/* Bytes that came: what they carried is added to in. HTC_OK; HTC_ECLOSED, also where the peer has said all; HTC_EDENIED and the
 * like: htc__sealed_reason. *opened becomes 1 when the handshake is done. */
htc_status htc__sealed_take(htc__sealed *s, htc_bytes bytes, htc_buf *in, int *opened);
/* Take what is to be sent over from out, as much as there is room for. */
htc_status htc__sealed_give(htc__sealed *s, htc_buf *out);
/* What is to be written to the socket now; so much of it was. */
htc_bytes htc__sealed_output(htc__sealed *s);
void      htc__sealed_sent(htc__sealed *s, size_t n);
/* The same, with a last record that says that nothing follows. */
htc_bytes htc__sealed_last(htc__sealed *s);
/* When the handshake has taken too long; HTC_NEVER. */
htc_ns htc__sealed_deadline(const htc__sealed *s);

const char *htc__sealed_reason(const htc__sealed *s); /* why the last handshake failed; "" */
const char *htc__sealed_given(const htc__sealed *s);  /* the name that an enrolment gave; "" */

#endif
