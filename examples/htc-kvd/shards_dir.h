/* DIR/shards: into how many shards this directory was divided, and whether they are the whole store. */
#ifndef HTC_EXAMPLES_SHARDS_DIR_H
#define HTC_EXAMPLES_SHARDS_DIR_H

#include "member_private.h"

typedef struct shards_dir {
    uint32_t count; /* 0: it was not */
    uint32_t alone; /* 1: the whole store; 0: shards of one of several members' processes */
} shards_dir;

htc_status shards_dir_read(const member *m, shards_dir *dir);
htc_status shards_dir_write(const member *m, const shards_dir *dir);
/* The state directory of the nth, from 1. */
htc_status shards_dir_open(const member *m, uint32_t nth, htc_state **out);

#endif
