/* htc-kvd --shards: several members of one store in this process, each on a thread of its own with its own host, loop, engine and
 * directory, and nothing shared between them.
 *
 *     front, this thread: signals, the page for monitors, and whoever comes to --resp or DIR/kvd.sock, who is dealt to the shards in turn
 *     shard N, a thread:  DIR/shard-N, its part of the keys, its socket for the other members
 *
 * What one has to tell another goes through htc_host_post. */
#ifndef HTC_EXAMPLES_SHARDS_H
#define HTC_EXAMPLES_SHARDS_H

#include "member_private.h"

/* Refused if m->d->state is the directory of another number of shards. */
htc_status shards_check(member *m);
/* Draw an id for each into their directories, once, and print them as --member takes them. HTC_AGAIN: done. */
htc_status shards_draw(member *m);
/* Until they end. so: of each. */
htc_status shards_serve(member *m, htc_kv_store_options *so);

#endif
