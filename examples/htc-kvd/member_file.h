/* DIR/member, which says who the member of a directory is and how it last ran: read and written by htc-kvd, read by htc kv cluster. */
#ifndef HTC_EXAMPLES_MEMBER_FILE_H
#define HTC_EXAMPLES_MEMBER_FILE_H

#include "htcsched/host.h"

typedef struct member_file {
    uint64_t id;
    char     durability[16], boot[HTC_HOST_BOOT_MAX]; /* of its last run; "": it has promised nothing yet */
    int      left;                                    /* it is no member of its store any more */
} member_file;

/* dir: the member's state directory. HTC_ENOTFOUND: nobody has drawn one; HTC_EINPUT: it cannot be read; HTC_EFORMAT. */
htc_status member_file_read(const char *dir, member_file *who);
htc_status member_file_write(const char *dir, const member_file *who, htc_error *error);

#endif
