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

#define HTC_STATE_FORMAT 1

typedef struct htc_state htc_state;

/** The first candidate that is neither NULL nor "" (`--dir`, then $HTC_DIR, then "./htc-state": the caller reads them,
 *  the library reads no environment). NULL at the end of the list. */
HTC_API const char *htc_state_find(const char *const *candidates);

/** Open dir. create 1: make it (0700) and its directories if there is nothing yet. Gives it: htc_state_close.
 *  HTC_ENOTFOUND (no state there), HTC_EFORMAT (another version: both numbers), HTC_EDENIED (not ours, or open to others). */
HTC_API htc_status htc_state_open(const htc_env *env, const char *dir, uint32_t create, htc_state **out,
                                  htc_error *error);
/** Also gives the lock back. */
HTC_API void htc_state_close(htc_state *state);

/** Hold the directory, as one `htc up` does until it is closed; HTC_ELOCKED naming the holder's pid.
 *  The lock does not pass on to children. */
HTC_API htc_status htc_state_lock(htc_state *state, htc_error *error);
/** The pid of the process that holds the directory now; 0 if none does. */
HTC_API uint32_t htc_state_holder(const htc_state *state);

/** The absolute path of dir; lent. */
HTC_API const char *htc_state_dir(const htc_state *state);

typedef enum htc_state_place {
    HTC_STATE_GATEWAY_SOCKET = 1, /* gateway.sock */
    HTC_STATE_STORE_SOCKET,       /* kvd.sock */
    HTC_STATE_TCP_TOKEN,          /* tcp-token */
    HTC_STATE_STORE,              /* store/ */
    HTC_STATE_DATA,               /* data/ */
    HTC_STATE_SLOTS,              /* slots/ */
    HTC_STATE_LOG,                /* log/ */
    HTC_STATE_RUN,                /* run/: pid files */
    HTC_STATE_CONFIG              /* htc.ini */
} htc_state_place;
/** The absolute path of a place; lent as long as the state is open. NULL for an unknown one. */
HTC_API const char *htc_state_path(const htc_state *state, uint32_t place);

/** Write a small file of this directory as a whole: temporary name, then rename. path is absolute. */
HTC_API htc_status htc_state_write_file(const char *path, htc_bytes content, uint32_t mode, htc_error *error);

#ifdef __cplusplus
}
#endif
#endif
