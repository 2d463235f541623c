/**
 * @file htcsched/keys.h
 * @brief Keys in files, and random bytes: what a secure channel needs of the system.
 *
 * A key file holds one to HTC_IDENTITY_MAX secret keys as text (htcsched/keyring.h), one a line, the one in use first; `#` begins
 * a comment. It belongs to who reads it, only its owner can read it (0600), and it is a plain file, no link; anything else is
 * refused before a byte of it is used. A ring file may be read by all, but changed only by its owner, who is who reads it or
 * root. Files are written under another name, synced, and put in place at once: a reader sees the old or the new one.
 *
 * A file of one-time secrets is 0600 as well. It holds a line for each secret that is open, `ROLE NAME EXPIRES SECRET`, EXPIRES in
 * seconds since 1970: whoever shows the secret until then is pinned under that name and role, once.
 *
 * Threads: any. htc_keys_change_ring, htc_keys_once_add and htc_keys_once_drop wait for each other (a lock on PATH.lock); of other
 * calls with the same path at the same time one wins.   Allocation: by malloc while a file is read or written.
 */
#ifndef HTCSCHED_KEYS_H
#define HTCSCHED_KEYS_H

#include "htcsched/keyring.h"

#ifdef __cplusplus
extern "C" {
#endif

/**
 * Random bytes of the system, good enough for keys.
 *
 * @param[out] out  n bytes
 * @param[in]  n    how many
 * @return HTC_OK; HTC_EINVAL; HTC_EINTERNAL: the system has none
 *
 * Cost: a system call.   Since: 0.2
 */
HTC_API htc_status htc_keys_random(void *out, size_t n);

/**
 * Make a key file with one new key, if there is no file yet.
 *
 * @param[in]  path    of the file, in a directory that exists
 * @param[out] public_key  HTC_KEY_BYTES of the new key; untouched on failure; may be NULL
 * @param[out] error   why not; may be NULL
 * @return HTC_OK; HTC_EINVAL; HTC_EEXISTS: there is a file, and it is as it was; HTC_ENOSPC; HTC_EIO; HTC_EINTERNAL
 *
 * Cost: some system calls and two syncs.   Since: 0.2
 */
HTC_API htc_status htc_keys_create(const char *path, uint8_t *public_key, htc_error *error);

/**
 * Read a key file.
 *
 * @param[in]  path     of the file
 * @param[out] secrets  room for HTC_IDENTITY_MAX keys of HTC_KEY_BYTES, as htc_identity_create wants them; wipe them soon;
 *                      zeros on failure
 * @param[out] n        how many there are; untouched on failure
 * @param[out] error    why not, with the line; may be NULL
 * @return HTC_OK; HTC_EINVAL; HTC_ENOTFOUND; HTC_EDENIED: somebody else's, or others may read it, or it is no plain file;
 *         HTC_ECONFIG with the line; HTC_EIO
 *
 * Cost: some system calls.   Since: 0.2
 */
HTC_API htc_status htc_keys_read(const char *path, uint8_t *secrets, size_t *n, htc_error *error);

/**
 * Write a key file, or replace it: to go to the next key put it in front of the present one.
 *
 * @param[in]  path     of the file
 * @param[in]  secrets  n keys of HTC_KEY_BYTES; borrowed
 * @param[in]  n        1 to HTC_IDENTITY_MAX
 * @param[out] error    why not; may be NULL
 * @return HTC_OK; HTC_EINVAL; HTC_ENOSPC; HTC_EIO; HTC_EINTERNAL. The old file is as it was
 *
 * Cost: some system calls and two syncs.   Since: 0.2
 */
HTC_API htc_status htc_keys_write(const char *path, const uint8_t *secrets, size_t n, htc_error *error);

/**
 * Replace all that is in a ring by what a file says.
 *
 * @param[in]     path   of the file, at most 16 MiB
 * @param[in,out] ring   as it was on failure
 * @param[out]    error  why not, with line and column; may be NULL
 * @return HTC_OK; HTC_EINVAL; HTC_ENOTFOUND; HTC_EDENIED: somebody else's, or others may change it, or it is no plain file;
 *         HTC_ETOOBIG; HTC_EIO; as htc_keyring_load
 *
 * Cost: O(bytes).   Since: 0.2
 */
HTC_API htc_status htc_keys_load_ring(const char *path, htc_keyring *ring, htc_error *error);

/**
 * Write a ring to a file, or replace it.
 *
 * @param[in]  path   of the file
 * @param[in]  ring   borrowed
 * @param[out] error  why not; may be NULL
 * @return HTC_OK; HTC_EINVAL; HTC_ENOSPC; HTC_EIO; HTC_EINTERNAL; HTC_ENOMEM. The old file is as it was
 *
 * Cost: O(keys), and two syncs.   Since: 0.2
 */
HTC_API htc_status htc_keys_save_ring(const char *path, const htc_keyring *ring, htc_error *error);

/**
 * Changes a ring for htc_keys_change_ring.
 *
 * @param[in]     ctx   as given
 * @param[in,out] ring  what the file says; borrowed until the function returns
 * @return HTC_OK: write it; HTC_EMPTY: there is nothing to write; anything else: the file stays as it was
 */
typedef htc_status (*htc_keys_change_fn)(void *ctx, htc_keyring *ring);

/**
 * Read a ring file, change it, write it, and nobody else does so in between. A file that is not there is an empty ring.
 *
 * @param[in]  path    of the file
 * @param[in]  change  what to change
 * @param[in]  ctx     handed to change
 * @param[out] error   why not, if it was not change that refused; may be NULL
 * @return HTC_OK, also after HTC_EMPTY; what change refused with; as htc_keys_load_ring and htc_keys_save_ring
 *
 * Cost: O(keys), and two syncs; waits for others.   Since: 0.2
 */
HTC_API htc_status htc_keys_change_ring(const char *path, htc_keys_change_fn change, void *ctx, htc_error *error);

/**
 * Draw a one-time secret and add it to a file of such secrets, made with mode 0600 if it is not there. What has expired goes.
 *
 * @param[in]  path     of the file
 * @param[in]  name     who is to be pinned; an open secret of this name and role is replaced
 * @param[in]  role     htc_key_role of who is to be pinned
 * @param[in]  expires  a moment on the clock of htc_input.wall, later than now; whole seconds count
 * @param[out] secret   HTC_KEY_BYTES; untouched on failure
 * @param[out] error    why not; may be NULL
 * @return HTC_OK; HTC_EINVAL; HTC_EDENIED, HTC_ECONFIG for the file that is there; HTC_EFULL: 4096 are open; HTC_ENOSPC; HTC_EIO;
 *         HTC_EINTERNAL; HTC_ENOMEM
 *
 * Cost: O(secrets), and two syncs; waits for others.   Since: 0.2
 */
HTC_API htc_status htc_keys_once_add(const char *path, const char *name, uint32_t role, htc_ns expires, uint8_t *secret,
                                     htc_error *error);

/**
 * Remove the open secrets of a name from a file, as when one of them was used.
 *
 * @param[in]  path   of the file
 * @param[in]  name   whose
 * @param[in]  role   htc_key_role; 0: any
 * @param[out] n      how many there were; may be NULL
 * @param[out] error  why not; may be NULL
 * @return HTC_OK, also if there was none, or no file; as htc_keys_once_add
 *
 * Cost: O(secrets), and two syncs; waits for others.   Since: 0.2
 */
HTC_API htc_status htc_keys_once_drop(const char *path, const char *name, uint32_t role, size_t *n, htc_error *error);

/**
 * Open all secrets of a file that have not expired, and no others: an enrolment on its way with one that is still there goes on.
 *
 * @param[in]     path       of the file; one that is not there holds none
 * @param[in,out] enrolment  as it was on failure, but for HTC_EFULL
 * @param[in]     now        the moment, on the clock of the channels
 * @param[in]     wall       the same, on the clock of htc_input.wall
 * @param[out]    error      why not, with the line; may be NULL
 * @return HTC_OK; HTC_EINVAL; HTC_EDENIED: others may read it; HTC_ECONFIG with the line; HTC_EFULL; HTC_EIO; HTC_ENOMEM
 *
 * Cost: O(secrets^2).   Since: 0.2
 */
HTC_API htc_status htc_keys_once_load(const char *path, htc_enrolment *enrolment, htc_ns now, htc_ns wall,
                                      htc_error *error);

/** Where to enrol, and as whom. */
typedef struct htc_keys_join_options {
    size_t         size;       /**< sizeof(htc_keys_join_options) */
    const char    *address;    /**< "HOST:PORT" of a gateway (its server.join) or of a store (db.join, or a member's --listen) */
    const char    *key_path;   /**< of one's own key file */
    const char    *ring_path;  /**< the server's key is pinned there; made if it is not there */
    const char    *server;     /**< under this name, as a member's */
    const uint8_t *secret;     /**< HTC_KEY_BYTES: the one-time secret */
    uint32_t       role;       /**< htc_key_role that the secret was drawn for; 0: HTC_KEY_USER */
    htc_ns         timeout_ns; /**< 0: 10 s */
} htc_keys_join_options;

/**
 * Show a one-time secret over there: each side pins the other's key, that side under the name for which the secret was drawn.
 *
 * @param[in]  options  borrowed
 * @param[out] error    why not; may be NULL
 * @return HTC_OK: both are pinned; HTC_EINVAL; HTC_EDENIED: the secret is not known there, or not any more, or the ring has another key under
 *         that name; HTC_EUNREACHABLE; HTC_ETIMEDOUT; as htc_keys_read and htc_keys_change_ring; HTC_ENOMEM
 *
 * Cost: a handshake, and two syncs. Blocks.   Since: 0.2
 */
HTC_API htc_status htc_keys_join(const htc_keys_join_options *options, htc_error *error);

#ifdef __cplusplus
}
#endif
#endif
