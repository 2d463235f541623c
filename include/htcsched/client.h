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

typedef struct htc_client htc_client;

typedef struct htc_client_options {
    size_t      size;       /* sizeof(htc_client_options) */
    const char *path;       /* Unix socket, of any length; or NULL for TCP */
    uint16_t    tcp_port;   /* on 127.0.0.1 */
    const char *token_path; /* TCP: the state directory's token file */
    htc_ns      timeout_ns; /* for connecting and saying hello; 0: 10 s */
    const char *user;       /* who uploads and downloads; NULL or "": who the peer's credentials say */
    const char *token;      /* from login; NULL or "": none */
} htc_client_options;

/** Connect and say hello as a user. Strings are copied. Gives it: htc_client_close.
 *  HTC_EUNREACHABLE (the sentence names the socket), HTC_EDENIED, HTC_EVERSION. */
HTC_API htc_status htc_client_open(const htc_env *env, const htc_client_options *options, htc_client **out,
                                   htc_error *error);
HTC_API void       htc_client_close(htc_client *client);
/** Change who uploads and downloads (after a login). */
HTC_API htc_status htc_client_identify(htc_client *client, const char *user, const char *token);

/** Send one JSON request and wait for its answer (also an error object: HTC_OK is returned, the answer says so).
 *  @param[in]  timeout_ns  HTC_NEVER: for ever. HTC_ETIMEDOUT afterwards; a late answer is then dropped.
 *  @param[out] answer      one JSON object; lent until the next call; a zero byte follows. */
HTC_API htc_status htc_client_request(htc_client *client, const char *json, htc_ns timeout_ns, const char **answer,
                                      htc_error *error);

/** Read fd to its end, hash it, and send it unless the gateway has this content already.
 *  @param[in]  fd    a seekable file.
 *  @param[out] hash  BLAKE2b-256 of the content. */
HTC_API htc_status htc_client_upload(htc_client *client, int fd, uint8_t hash[32], htc_error *error);

/** Write one stored output to fd, from its present position.
 *  @param[in]  attempt  0: the committed one, else the newest.
 *  @param[out] size, hash  of what was written; may be NULL. */
HTC_API htc_status htc_client_download(htc_client *client, uint64_t job, uint64_t task, uint32_t attempt,
                                       const char *name, int fd, uint64_t *size, uint8_t hash[32], htc_error *error);

/** BLAKE2b-256 of a file from its beginning; and of bytes. 64 hex digits and an end for people and URIs. */
HTC_API htc_status htc_content_hash_fd(int fd, uint8_t hash[32], uint64_t *size);
HTC_API void       htc_content_hash(htc_bytes bytes, uint8_t hash[32]);
HTC_API void       htc_content_hex(const uint8_t hash[32], char hex[65]);
/** HTC_EINVAL if hex is not 64 hex digits. */
HTC_API htc_status htc_content_unhex(const char *hex, uint8_t hash[32]);

#ifdef __cplusplus
}
#endif
#endif
