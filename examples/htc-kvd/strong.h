/* htc-kvd --namespace NAME=strong: a store of its own in each of the processes that keep the store, with its own copies, engine and durability.
 *
 *     htc-kvd --dir D --engine log --namespace cache=strong:engine=memory --namespace jobs=strong:durability=interval
 *     htc kv --dir D --namespace cache put k v
 *
 * Its member in a process is a thread with a host, an engine and a socket, as a shard is (shards.h), in DIR/space-NAME. Where that is, and who
 * it is, follows from the process' own place and id, so that all processes agree by being given the same words: the id is a hash of the name and of
 * the process' id, the socket is DIR/space-NAME/kvd.sock, and over secure channels the Kth namespace is at PORT+K. */
#ifndef HTC_EXAMPLES_STRONG_H
#define HTC_EXAMPLES_STRONG_H

#include "member_private.h"

/* Refused: what cannot be together. */
htc_status strong_check(const member *m);
/* The Kth namespace's member x of a front: its options, its directory, who it is and who the others are. */
htc_status strong_begin(member *x, member *front, uint32_t k);
/* DIR/space-NAME/kvd.sock for DIR/kvd.sock. 0: too long. */
int strong_path(const char *socket, const char *name, char *out, size_t cap);

#endif
