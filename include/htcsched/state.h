/**
 * @file htcsched/state.h
 * @brief The state directory: where everything of one system lives, who holds it, and which format it has.
 *
 * Threads: owner.   Allocation: through env.
 */
#ifndef HTCSCHED_STATE_H
#define HTCSCHED_STATE_H

#include "htcsched/env.h"

#ifdef __cplusplus
extern "C" {
#endif

/** The format that this library reads and writes. */
#define HTC_STATE_FORMAT 1

/** An open state directory. */
typedef struct htc_state htc_state;

/**
 * Choose a directory: the first candidate that says anything.
 *
 * Usual are `--dir`, then $HTC_DIR, then "./htc-state"; the caller reads them, the library reads no environment.
 *
 * @param[in] candidates  borrowed; "" says nothing, NULL ends the list
 * @return one of them; NULL if none says anything
 *
 * Cost: O(candidates).   Since: 0.1
 */
HTC_API const char *htc_state_find(const char *const *candidates);

/**
 * Open a state directory.
 *
 * @param[in]  env     kept; NULL: malloc
 * @param[in]  dir     copied
 * @param[in]  create  1: make it (mode 0700) and its directories if there is nothing yet
 * @param[out] out     gives the state: htc_state_close; untouched on failure
 * @param[out] error   why; NULL is fine
 * @return HTC_OK; HTC_EINVAL; HTC_ENOTFOUND if there is no state; HTC_EFORMAT for another version (error names both);
 *         HTC_EDENIED if it is not ours, others may write there, or it may not be made; HTC_EIO; HTC_ENOSPC; HTC_ENOMEM
 *
 * Cost: some file system calls.   Since: 0.1
 */
HTC_API htc_status htc_state_open(const htc_env *env, const char *dir, uint32_t create, htc_state **out,
                                  htc_error *error);
/**
 * Close a state, and give its lock back.
 *
 * @param[in] state  NULL is fine
 *
 * Cost: one file system call.   Since: 0.1
 */
HTC_API void htc_state_close(htc_state *state);

/**
 * Hold the directory until the state is closed, as one `htc up` does. The lock does not pass on to children.
 *
 * @param[in,out] state  open
 * @param[out]    error  why; NULL is fine
 * @return HTC_OK; HTC_ELOCKED if another process holds it (error names its pid); HTC_EIO
 *
 * Cost: some file system calls.   Since: 0.1
 */
HTC_API htc_status htc_state_lock(htc_state *state, htc_error *error);
/**
 * Who holds the directory now?
 *
 * @param[in] state  open
 * @return a pid; 0 if nobody does
 *
 * Cost: one file system call.   Since: 0.1
 */
HTC_API uint32_t htc_state_holder(const htc_state *state);

/**
 * The directory's absolute path.
 *
 * @param[in] state  open
 * @return lends the path as long as the state is open
 *
 * Cost: O(1).   Since: 0.1
 */
HTC_API const char *htc_state_dir(const htc_state *state);

/** What lies in a state directory. */
typedef enum htc_state_place {
    HTC_STATE_GATEWAY_SOCKET = 1, /**< gateway.sock */
    HTC_STATE_STORE_SOCKET,       /**< kvd.sock */
    HTC_STATE_TCP_TOKEN,          /**< tcp-token */
    HTC_STATE_STORE,              /**< store/ */
    HTC_STATE_DATA,               /**< data/ */
    HTC_STATE_SLOTS,              /**< slots/ */
    HTC_STATE_LOG,                /**< log/ */
    HTC_STATE_RUN,                /**< run/: pid files */
    HTC_STATE_CONFIG,             /**< htc.ini */
    HTC_STATE_OPERATOR,           /**< operator: the token that gives an operator's rights, for its owner alone to read */
    HTC_STATE_KEY,                /**< key: the system's own key file (htcsched/keys.h), where hosts join. Since: 0.2 */
    HTC_STATE_RING,               /**< ring: the public keys of the hosts that may. Since: 0.2 */
    HTC_STATE_ONCE                /**< once: one-time secrets that are open. Since: 0.2 */
} htc_state_place;
/**
 * The absolute path of a place.
 *
 * @param[in] state  open
 * @param[in] place  htc_state_place
 * @return lends the path as long as the state is open; NULL for an unknown place
 *
 * Cost: O(1).   Since: 0.1
 */
HTC_API const char *htc_state_path(const htc_state *state, uint32_t place);

/** Hex digits of a token. */
#define HTC_STATE_TOKEN_LEN 64

/**
 * The token that gives an operator's rights. It is made, mode 0600, if there is none.
 *
 * @param[in]  state  open
 * @param[out] token  64 hex digits and a zero; to be forgotten (explicit_bzero) after use
 * @param[out] error  why; NULL is fine
 * @return HTC_OK; HTC_EDENIED if the file is not such a token, or others can read it; HTC_EIO; HTC_ENOSPC
 *
 * Cost: some file system calls.   Since: 0.2
 */
HTC_API htc_status htc_state_operator(const htc_state *state, char token[HTC_STATE_TOKEN_LEN + 1], htc_error *error);

/**
 * Let other users of the machine pass through the directory to its socket, or not any more. They cannot list it, and
 * everything else in it stays its owner's.
 *
 * @param[in,out] state   open
 * @param[in]     others  1: the directory gets mode o+x, g+x; 0: one of mode 0711 becomes 0700, another one stays
 * @param[out]    error   why; NULL is fine
 * @return HTC_OK; HTC_EDENIED if others cannot enter a directory on the way (error names it), or the mode cannot be
 *         changed; HTC_EIO; HTC_ENOMEM
 *
 * Cost: a file system call for each directory on the way.   Since: 0.2
 */
HTC_API htc_status htc_state_share(htc_state *state, uint32_t others, htc_error *error);

/**
 * Write a small file as a whole: under a temporary name beside it, synced, then renamed.
 *
 * @param[in]  path     absolute
 * @param[in]  content  borrowed
 * @param[in]  mode     of the file, as 0600
 * @param[out] error    why; NULL is fine
 * @return HTC_OK; HTC_EIO; HTC_ENOSPC; HTC_ENOMEM. On failure the old file is as it was
 *
 * Cost: some file system calls.   Since: 0.1
 */
HTC_API htc_status htc_state_write_file(const char *path, htc_bytes content, uint32_t mode, htc_error *error);

#ifdef __cplusplus
}
#endif
#endif
