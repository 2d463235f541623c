/**
 * @file htcsched/access.h
 * @brief How a program of a user comes to a gateway: where it is, with which key, as which user and with which token. What `htc` and DRMAA use.
 *
 * The system is that of the first of these that says something: options.gateway, options.dir, env_gateway, env_dir, the directory `./htc-state` if it is
 * there, `client.gateway` in the user's configuration; and `./htc-state` if nothing does. The user's configuration is `htcsched/htc.ini` in config_home,
 * else in `.config` below home; `client.key`, `client.ring` and `client.server` there say with which key a gateway on another machine is
 * reached, by default the files `key` and `ring` beside it.
 *
 * Logins, each a file with a token, lie in the state directory for who owns it, else in state_home (`.local/state` below home), by the system.
 *
 * Threads: owner.   Allocation: by malloc.
 */
#ifndef HTCSCHED_ACCESS_H
#define HTCSCHED_ACCESS_H

#include "htcsched/client.h"

#ifdef __cplusplus
extern "C" {
#endif

/** A way to a gateway. */
typedef struct htc_access htc_access;

/** What the user, and the user's environment, say. NULL and "" say nothing. */
typedef struct htc_access_options {
    size_t      size;         /**< sizeof(htc_access_options) */
    const char *dir;          /**< a state directory on this machine */
    const char *gateway;      /**< gateways on other machines, as htc_client_options has it; not beside dir */
    const char *env_dir;      /**< $HTC_DIR */
    const char *env_gateway;  /**< $HTC_GATEWAY */
    const char *home;         /**< $HOME; an absolute path, or it says nothing */
    const char *config_home;  /**< $XDG_CONFIG_HOME, likewise */
    const char *state_home;   /**< $XDG_STATE_HOME, likewise */
} htc_access_options;

/** What htc_access_text tells. */
typedef enum htc_access_what {
    HTC_ACCESS_GATEWAY = 1, /**< addresses; NULL: the gateway is on this machine */
    HTC_ACCESS_DIR,         /**< the state directory; NULL with a gateway */
    HTC_ACCESS_SOCKET,      /**< the gateway's socket there; NULL with a gateway */
    HTC_ACCESS_KEY,         /**< one's own key file; NULL without a gateway */
    HTC_ACCESS_RING,        /**< the ring with the gateways' keys; NULL without a gateway */
    HTC_ACCESS_SERVER,      /**< whose key they have to show; NULL: any member's in the ring */
    HTC_ACCESS_LOGINS,      /**< where logins lie; NULL: there is no home */
    HTC_ACCESS_USER,        /**< who is acted for; NULL: who the gateway says */
    HTC_ACCESS_TOKEN        /**< to be sent; NULL: none */
} htc_access_what;

/**
 * Find out which system is meant.
 *
 * @param[in]  options  borrowed; strings are copied
 * @param[out] out      gives the way: htc_access_close; untouched on failure
 * @param[out] error    why; NULL is fine
 * @return HTC_OK, also if nobody is there; HTC_EINVAL; HTC_EUSAGE: both dir and gateway; HTC_ECONFIG: the user's configuration cannot be
 *         read; HTC_ENOTFOUND: there is no home where the key could lie; HTC_ENOMEM
 *
 * Cost: reads a small file at most.   Since: 0.2
 */
HTC_API htc_status htc_access_open(const htc_access_options *options, htc_access **out, htc_error *error);

/**
 * Forget it. Its token is wiped.
 *
 * @param[in] access  NULL is fine
 *
 * Cost: O(1).   Since: 0.2
 */
HTC_API void htc_access_close(htc_access *access);

/**
 * Find the token to send: that of the file, else that of user's login. Without a user it is who logged in last, but for who owns the state directory.
 * The token in the file `operator` of the state directory, which its owner alone can read, is taken where there is no other.
 *
 * @param[in,out] access      what it was told before is forgotten
 * @param[in]     user        copied; NULL: nobody is named
 * @param[in]     token_file  borrowed; NULL: a login's. An empty one has no token
 * @param[out]    error       why; NULL is fine
 * @return HTC_OK, also if there is no token; HTC_EINVAL: user cannot be a name; HTC_EINPUT: the file cannot be read; HTC_ENOMEM
 *
 * Cost: reads a small file or two.   Since: 0.2
 */
HTC_API htc_status htc_access_login(htc_access *access, const char *user, const char *token_file, htc_error *error);

/**
 * What is known.
 *
 * @param[in] access  borrowed
 * @param[in] what    htc_access_what
 * @return text, lent until the next call that changes access; NULL: there is none
 *
 * Cost: O(1).   Since: 0.2
 */
HTC_API const char *htc_access_text(const htc_access *access, uint32_t what);

/**
 * Connect, as the user and with the token that htc_access_login found.
 *
 * @param[in]  access      borrowed; a connection does not need it any more
 * @param[in]  timeout_ns  as htc_client_options has it
 * @param[out] out         gives the client: htc_client_close; untouched on failure
 * @param[out] error       why; NULL is fine
 * @return as htc_client_open
 *
 * Cost: as htc_client_open.   Since: 0.2
 */
HTC_API htc_status htc_access_client(const htc_access *access, htc_ns timeout_ns, htc_client **out, htc_error *error);

#ifdef __cplusplus
}
#endif
#endif
