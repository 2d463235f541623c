/* How a program of a user finds the gateway that serves, beyond this machine. All addresses are tried at once, each through a secure channel, and
 * the first gateway that says that it serves is taken. One that waits for another names that one, which is tried too. */
#ifndef HTC_NET_CLIENT_WAY_H
#define HTC_NET_CLIENT_WAY_H

#include "core/codec.h"
#include "net/loop/address.h"
#include "net/loop/sealed.h"

#define HTC__WAYS_MAX 8 /* addresses, those that gateways name included */

typedef struct htc__way_options {
    const char    *addresses; /* HOST:PORT, with commas between */
    const char    *key_path, *ring_path, *server; /* as htc_store_options has them */
    const uint8_t *once; /* NULL, or a one-time secret: then only the keys are exchanged, and nothing is asked */
    uint32_t       role; /* of one's own key, over there; 0: HTC_KEY_USER */
    htc_ns         timeout_ns; /* for all of it */
} htc__way_options;

/* A connection to a gateway that serves: its greeting is over. */
typedef struct htc__way {
    int          fd;
    htc__sealed *sealed;
    htc_buf      in; /* opened, and not taken yet */
    uint64_t     id; /* of the last request */
    char         address[HTC__HOST_NAME_MAX + 8];
} htc__way;

/* Gives *out: htc__way_end. HTC_EUNREACHABLE, HTC_ETIMEDOUT, HTC_EDENIED and the like: error names each address and what was said there, as far as
 * there is room. HTC_EINVAL: no addresses, or more than HTC__WAYS_MAX. Blocks, also for names. */
htc_status htc__way_find(const htc_env *env, const htc__way_options *options, htc__way *out, htc_error *error);
void       htc__way_end(htc__way *way); /* all of it 0 but the fd, which is -1, is fine */

#endif
