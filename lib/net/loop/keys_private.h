/* What the files that read and write keys share: keys.c (key files, ring files), keys_once.c (changes, one-time secrets). */
#ifndef HTC_NET_KEYS_PRIVATE_H
#define HTC_NET_KEYS_PRIVATE_H

#define HTC__SECRETS_MAX 4096 /* in a file */

#include "htcsched/keys.h"
#include "net/files/files.h"

/* Put a file in place at once, synced. anew: there must be none of this name; else it is replaced. */
htc_status htc__keys_put(const char *path, int anew, mode_t mode, const char *bytes, size_t len, htc_error *error);
/* Opened, and who may do what with it is as it should be. -1: refused, and *status says why. */
int htc__keys_open(const char *path, mode_t forbidden, int root_may_own, const char *what, htc_status *status,
                   htc_error *error);
/* Up to room bytes; more of them is HTC_ETOOBIG. */
htc_status htc__keys_take(int fd, char *out, size_t room, size_t *len, const char *path, htc_error *error);
/* Both, and memory for it; gives text (free). */
htc_status htc__keys_text(const char *path, mode_t forbidden, int root_may_own, const char *what, char **text,
                          size_t *len, htc_error *error);
/* One-time secrets of a file: what is dropped stays in the room behind the count. */
typedef struct htc__secrets {
    struct htc__secret *at;
    size_t              count, room;
} htc__secrets;

/* Those that have not expired by this moment; a file that is not there holds none. Changes nothing but s. */
htc_status htc__secrets_load(const char *path, htc_ns wall, htc__secrets *s, htc_error *error);
/* Open these, and no others. HTC_EFULL: only some; one for as many as a file can hold has room for all, always. */
htc_status htc__secrets_open(const htc__secrets *s, htc_enrolment *enrolment, htc_ns now, htc_ns wall,
                             const char *path, htc_error *error);
/* And wipe them. */
void htc__secrets_free(htc__secrets *s);

htc_status htc__keys_at_line(htc_error *error, const char *path, uint32_t line, const char *text);

#endif
