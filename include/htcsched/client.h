/**
 * @file htcsched/client.h
 * @brief A small blocking client of the gateway, for programs such as htc: requests in JSON, files up, files down.
 *
 * Threads: owner.   Allocation: through env.
 */
#ifndef HTCSCHED_CLIENT_H
#define HTCSCHED_CLIENT_H

#include "htcsched/env.h"

#ifdef __cplusplus
extern "C" {
#endif

/** A connection to a gateway. */
typedef struct htc_client htc_client;

/** Whom to talk to, and as whom. */
typedef struct htc_client_options {
    size_t      size;       /**< sizeof(htc_client_options) */
    const char *path;       /**< Unix socket, of any length; or NULL for TCP */
    uint16_t    tcp_port;   /**< on 127.0.0.1 */
    const char *token_path; /**< TCP, required there: the state directory's token file */
    htc_ns      timeout_ns; /**< for connecting and saying hello; 0: 10 s */
    const char *user;       /**< who uploads and downloads; NULL or "": who the peer's credentials say */
    const char *token;      /**< from login; NULL or "": none */
    const char *gateway;    /**< without a path: "HOST:PORT", the gateway's server.join on any machine, reached through a secure channel; or
                                 several with commas between, at most 8, of gateways on one state: the one that serves is found. Since: 0.2 */
    const char *key_path;   /**< of one's own key file (htcsched/keys.h): with gateway. Since: 0.2 */
    const char *ring_path;  /**< of the ring with the gateways' keys. Since: 0.2 */
    const char *server;     /**< whose key they have to show: a name in the ring, or without a ring the public key itself; NULL: any member's in the ring. Since: 0.2 */
} htc_client_options;

/**
 * Connect and say hello as a user.
 *
 * With gateway all addresses are tried at once, and those that a waiting gateway names. The first gateway that says that it serves is taken.
 * The key of a user (HTC_KEY_USER) is as good as a login of the user of that name; with any other a token is needed. When the connection is lost,
 * another call finds who serves then.
 *
 * @param[in]  env      kept; NULL: malloc
 * @param[in]  options  borrowed; strings are copied
 * @param[out] out      gives the client: htc_client_close; untouched on failure
 * @param[out] error    why, naming the socket, or each address and what was said there; NULL is fine
 * @return HTC_OK; HTC_EINVAL; HTC_EUNREACHABLE if nobody answers, or whoever does waits; HTC_EDENIED, also if a key is not known, here or there; HTC_ETIMEDOUT; HTC_EVERSION; HTC_EPROTO; what
 *         the gateway refused with; HTC_ENOMEM
 *
 * Cost: a round trip.   Since: 0.1
 */
HTC_API htc_status htc_client_open(const htc_env *env, const htc_client_options *options, htc_client **out,
                                   htc_error *error);

/**
 * Hang up.
 *
 * @param[in] client  NULL is fine
 *
 * Cost: O(1).   Since: 0.1
 */
HTC_API void htc_client_close(htc_client *client);

/**
 * Change who uploads and downloads, as after a login.
 *
 * @param[in,out] client  open; as it was on failure
 * @param[in]     user    copied; NULL: who the peer's credentials say
 * @param[in]     token   copied; NULL: none
 * @return HTC_OK; HTC_ENOMEM
 *
 * Cost: O(length).   Since: 0.1
 */
HTC_API htc_status htc_client_identify(htc_client *client, const char *user, const char *token);

/**
 * Send one JSON request and wait for its answer.
 *
 * An error object is an answer too: HTC_OK is returned, and the answer says so. doc/api.md lists the requests.
 *
 * @param[in,out] client      open
 * @param[in]     json        one object; borrowed
 * @param[in]     timeout_ns  HTC_NEVER: for ever
 * @param[out]    answer      lends one JSON object with a zero byte behind it, until the next call of any function with this client;
 *                            untouched on failure
 * @param[out]    error       why; NULL is fine
 * @return HTC_OK; HTC_EINVAL; HTC_ETIMEDOUT, and a late answer is dropped; HTC_EUNREACHABLE if the connection is lost;
 *         HTC_ETOOBIG; HTC_EPROTO; HTC_ENOMEM
 *
 * Cost: a round trip.   Since: 0.1
 */
HTC_API htc_status htc_client_request(htc_client *client, const char *json, htc_ns timeout_ns, const char **answer,
                                      htc_error *error);

/**
 * Hash a file, and send it unless the gateway has this content already.
 *
 * @param[in,out] client  open
 * @param[in]     fd      a seekable file; borrowed; its position does not matter and does not move
 * @param[out]    hash    BLAKE2b-256 of the content
 * @param[out]    error   why; NULL is fine
 * @return HTC_OK; HTC_EINVAL; HTC_EINPUT if the file cannot be read or changed meanwhile; as htc_client_request; what the
 *         gateway refused with
 *
 * Cost: reads the file once or twice, sends it at most once.   Since: 0.1
 */
HTC_API htc_status htc_client_upload(htc_client *client, int fd, uint8_t hash[32], htc_error *error);

/**
 * Write one stored output to a file, from its present position.
 *
 * @param[in,out] client   open
 * @param[in]     job      number of the job
 * @param[in]     task     index of the task
 * @param[in]     attempt  0: the committed one, else the newest
 * @param[in]     name     of the output, in the result set; borrowed
 * @param[in]     fd       written to; borrowed
 * @param[out]    size     bytes written; NULL is fine
 * @param[out]    hash     BLAKE2b-256 of them; NULL is fine
 * @param[out]    error    why; NULL is fine
 * @return HTC_OK; HTC_EINVAL; HTC_ENOTFOUND; HTC_ENOSPC or HTC_EIO of fd; as htc_client_request; what the gateway refused with
 *
 * Cost: a round trip for each MiB.   Since: 0.1
 */
HTC_API htc_status htc_client_download(htc_client *client, uint64_t job, uint64_t task, uint32_t attempt,
                                       const char *name, int fd, uint64_t *size, uint8_t hash[32], htc_error *error);

/** Outputs that can be asked for ahead at once. */
#define HTC_CLIENT_AHEAD_MAX 16

/**
 * Ask for the beginning of a stored output that is to be downloaded soon, and do not wait for the answer: many small outputs then
 * take a fraction of a round trip each. What comes, 1 MiB at most, is kept until htc_client_download or htc_client_read of the same
 * output takes it, or the client is closed. Beyond HTC_CLIENT_AHEAD_MAX at once nothing is asked.
 *
 * @param[in,out] client   open
 * @param[in]     job      number of the job
 * @param[in]     task     index of the task
 * @param[in]     attempt  as it will be named then
 * @param[in]     name     of the output, in the result set; copied
 * @param[out]    error    why; NULL is fine
 * @return HTC_OK, also where nothing is asked; HTC_EINVAL; HTC_ENOMEM; HTC_EUNREACHABLE; HTC_ETIMEDOUT
 *
 * Cost: sends a message.   Since: 0.2
 */
HTC_API htc_status htc_client_ahead(htc_client *client, uint64_t job, uint64_t task, uint32_t attempt, const char *name,
                                    htc_error *error);

/**
 * Read a piece of a stored output, or of what a running task has written to "stdout" or "stderr" so far.
 *
 * @param[in,out] client   open
 * @param[in]     job      number of the job
 * @param[in]     task     index of the task
 * @param[in]     attempt  0: the committed one, else the newest
 * @param[in]     name     of the output, in the result set; borrowed
 * @param[in]     offset   of the first byte wanted; at most the size of the output
 * @param[out]    bytes    lends what there is from there on, 1 MiB at most, until the next call of any function with this client;
 *                         untouched on failure
 * @param[out]    size     of the whole output at this moment; NULL is fine
 * @param[out]    error    why; NULL is fine
 * @return HTC_OK; HTC_EINVAL; HTC_ENOTFOUND; as htc_client_request; what the gateway refused with
 *
 * Cost: a round trip.   Since: 0.1
 */
HTC_API htc_status htc_client_read(htc_client *client, uint64_t job, uint64_t task, uint32_t attempt, const char *name,
                                   uint64_t offset, htc_bytes *bytes, uint64_t *size, htc_error *error);

/**
 * BLAKE2b-256 of a file from its beginning.
 *
 * @param[in]  fd    seekable; borrowed; its position does not move
 * @param[out] hash  untouched on failure
 * @param[out] size  bytes; untouched on failure; NULL is fine
 * @return HTC_OK; HTC_EIO
 *
 * Cost: O(size).   Since: 0.1
 */
HTC_API htc_status htc_content_hash_fd(int fd, uint8_t hash[32], uint64_t *size);

/**
 * BLAKE2b-256 of bytes.
 *
 * @param[in]  bytes  borrowed
 * @param[out] hash   32 bytes
 *
 * Cost: O(length).   Since: 0.1
 */
HTC_API void htc_content_hash(htc_bytes bytes, uint8_t hash[32]);

/**
 * A hash as people and URIs write it.
 *
 * @param[in]  hash  borrowed
 * @param[out] hex   64 hex digits and an end
 *
 * Cost: O(1).   Since: 0.1
 */
HTC_API void htc_content_hex(const uint8_t hash[32], char hex[65]);

/**
 * Back from hex digits.
 *
 * @param[in]  hex   borrowed
 * @param[out] hash  untouched on failure
 * @return HTC_OK; HTC_EINVAL if hex is not 64 hex digits
 *
 * Cost: O(1).   Since: 0.1
 */
HTC_API htc_status htc_content_unhex(const char *hex, uint8_t hash[32]);

/**
 * Which upload a URI names: htc:HASH a file, htc:HASH/ a directory that htc_content_tree has written.
 *
 * @param[in]  uri   borrowed
 * @param[out] hash  untouched on failure
 * @param[out] tree  1: a directory; NULL is fine
 * @return HTC_OK; HTC_EINVAL if it names no upload
 *
 * Cost: O(1).   Since: 0.2
 */
HTC_API htc_status htc_content_of_uri(const char *uri, uint8_t hash[32], int *tree);

/**
 * Write a directory as one content, for htc_client_upload: the same files make the same content. Of a file it has the name, the bytes and whether it may be
 * executed; symbolic links stay links, and empty directories are kept.
 *
 * @param[in]  dir    path, borrowed
 * @param[in]  out    open for writing; borrowed
 * @param[out] error  why, with the name below dir; NULL is fine
 * @return HTC_OK; HTC_EPATH: a symbolic link leads out of the directory; HTC_EINPUT: something cannot be read, changes meanwhile, or is neither a file, a directory
 *         nor a link; HTC_ETOOBIG: more than a million entries; HTC_ENOSPC; HTC_EIO; HTC_ENOMEM
 *
 * Cost: reads all files once.   Since: 0.2
 */
HTC_API htc_status htc_content_tree(const char *dir, int out, htc_error *error);

#ifdef __cplusplus
}
#endif
#endif
