#include "net/store/direct.h"

#include <errno.h>
#include <sys/uio.h>

int htc__direct_write(int fd, const void *data, size_t n, uint64_t offset)
{
    struct iovec all = { (void *)(uintptr_t)data, n };
    ssize_t      done;
    while ((done = pwritev2(fd, &all, 1, (off_t)offset, RWF_DSYNC)) < 0 && errno == EINTR)
        ;
    return done < 0 ? errno : (size_t)done == n ? 0 : EIO;
}

int htc__direct_is_never(int error)
{
    return error == EINVAL || error == EOPNOTSUPP || error == ENOSYS;
}

int htc__direct_is_no_way(int error)
{
    return htc__direct_is_never(error) || error == EAGAIN || error == ENOSPC || error == EDQUOT || error == ENOMEM;
}
