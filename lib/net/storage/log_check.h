/* Reads all of a log that can be read, for fsck and dump: every problem is named with file and offset, and behind it the reading goes on.
 * Nothing is changed. */
#ifndef HTC_NET_LOG_CHECK_H
#define HTC_NET_LOG_CHECK_H

#include "htcsched/disk_host.h"
#include "kvs/storage/log_read.h"

typedef struct htc__log_found {
    uint64_t segments, frames, damaged;
    uint64_t end_segment, end_offset; /* where the frames end */
    uint64_t member, epoch, sequence; /* the last of each */
} htc__log_found;

/* found may be NULL. HTC_OK: no damage; HTC_ECORRUPT: there is some; HTC_ENOTFOUND: no log; else the end of the reading, or what
 * sink->record answered. */
htc_status htc__log_check(htc_disk_dir *dir, const htc__log_sink *sink, htc__log_found *found);

#endif
