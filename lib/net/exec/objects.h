/* Objects on the disk, for HTC_CALL_OBJECT_*: one file each in a directory that is this user's alone, named by its hash. What is on its way
 * lies beside it as HASH.part, written from its beginning on without a gap, so that its length says how far it has come.
 *
 * What is asked of one object is done in that order, on one worker thread at a time; several objects at once. The hash of one that is
 * fetched is taken of the pieces as they are written, so it is known when the last one is.
 *
 * Threads: owner (the host's), but htc__objects_host_fd. */
#ifndef HTC_NET_EXEC_OBJECTS_H
#define HTC_NET_EXEC_OBJECTS_H

#include "htcsched/host.h"
#include "net/exec/outputs_at.h"

typedef struct htc__objects_host htc__objects_host;

/* dir: the objects of each user lie below it in a directory named by the uid, 0700; made if it is not there. data_dir: where outputs
 * are. HTC_OK; HTC_EDENIED: it is another user's; HTC_EIO and others of the file system; HTC_ENOMEM. */
htc_status htc__objects_host_open(htc_host *host, const char *dir, const char *data_dir, int durable, htc__objects_host **out, htc_error *error);
/* After the host. NULL is fine. */
void       htc__objects_host_close(htc__objects_host *h);
/* Outputs that are not in data_dir are looked for there too. at: kept. */
void htc__objects_host_outputs_at(htc__objects_host *h, htc__outputs_at *at);
/* HTC_CALL_OBJECT_GIVE makes second names of objects in data_dir/given/USER. Those of a life before go. */
void       htc__objects_host_gives(htc__objects_host *h);
int        htc__objects_host_is_call(uint32_t number);
htc_status htc__objects_host_call(htc__objects_host *h, uint32_t number, uint64_t tag, htc_bytes body);
/* A descriptor of a whole object, for reading; -1 and errno. Any thread. */
int        htc__objects_host_fd(const htc__objects_host *h, const uint8_t hash[32]);

#endif
