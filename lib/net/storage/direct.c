#include "net/storage/direct.h"

#include <errno.h>
#include <linux/magic.h>
#include <sys/uio.h>
#include <sys/vfs.h>

#ifndef XFS_SUPER_MAGIC
#define XFS_SUPER_MAGIC 0x58465342
#endif

int htc__direct_is_kept(int fd)
{
    struct statfs s;
    if (fstatfs(fd, &s) != 0)
        return 0;
    switch ((unsigned long)s.f_type) {
    case EXT4_SUPER_MAGIC: /* of all three */
    case XFS_SUPER_MAGIC:
    case BTRFS_SUPER_MAGIC:
    case F2FS_SUPER_MAGIC:
        return 1;
    default:
        return 0;
    }
}

int htc__direct_write(int fd, const void *data, size_t n, uint64_t offset)
{
    struct iovec all = { (void *)(uintptr_t)data, n };
    ssize_t      done;
    while ((done = pwritev2(fd, &all, 1, (off_t)offset, RWF_DSYNC)) < 0 && errno == EINTR)
        ;
    return done < 0 ? errno : (size_t)done == n ? 0 : EAGAIN;
}

int htc__direct_is_never(int error)
{
    return error == EINVAL || error == EOPNOTSUPP || error == ENOSYS || error == EPERM || error == EACCES;
}

int htc__direct_is_no_way(int error)
{
    return htc__direct_is_never(error) || error == EAGAIN || error == ENOSPC || error == EDQUOT || error == ENOMEM;
}
