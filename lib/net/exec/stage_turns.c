/* Turns to stage: of all agents with one uid whose slots lie in one directory, so many stage at once as there are turns. A turn is a lock on one byte
 * of slots/stages.UID, and ends with whoever has it. Each staging opens the file anew, because locks of one open file are no bar to each other. */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "net/exec/exec_private.h"
#include "net/files/files.h"

/* Beside the slots. */
static void turns_path(const char *slot_dir, uid_t uid, char path[PATH_MAX])
{
    const char *slash = strrchr(slot_dir, '/');
    snprintf(path, PATH_MAX, "%.*s/stages.%u", slash ? (int)(slash - slot_dir) : 1, slash ? slash == slot_dir ? "" : slot_dir : ".", (unsigned)uid);
}

static int open_turns(const char *path)
{
    return open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK, 0600);
}

int htc__turns_make(const char *slot_dir, uid_t uid, gid_t gid)
{
    char path[PATH_MAX];
    turns_path(slot_dir, uid, path);
    int fd = open_turns(path), result = fd < 0 || fchown(fd, uid, gid) != 0 ? -1 : 0, why = errno;
    if (fd >= 0)
        close(fd);
    errno = why;
    return result;
}

int htc__turn_take(const htc_agent_host *a, uint64_t number)
{
    char path[PATH_MAX];
    if (!a->stages_max)
        return HTC__TURN_FREE;
    turns_path(a->slot_dir, geteuid(), path);
    int fd = open_turns(path);
    for (uint32_t i = 0; fd >= 0 && i < a->stages_max; i++) {
        struct flock one = { .l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = (off_t)((number + a->agent * 61 + i) % a->stages_max), .l_len = 1 };
        if (fcntl(fd, F_OFD_SETLK, &one) == 0)
            return fd;
        if (errno != EAGAIN && errno != EACCES) { /* no locks here: then there is no limit */
            close(fd);
            return HTC__TURN_FREE;
        }
    }
    if (fd >= 0)
        close(fd);
    return fd >= 0 ? HTC__TURN_NONE : HTC__TURN_FREE;
}

void htc__turn_give(int turn)
{
    if (turn >= 0)
        close(turn);
}
