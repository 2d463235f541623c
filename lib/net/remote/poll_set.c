#include "net/remote/poll_set.h"

#include <errno.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

htc_status htc__poll_set_open(htc__poll_set *set)
{
    set->fd = epoll_create1(EPOLL_CLOEXEC);
    return set->fd < 0 ? HTC_ENOMEM : HTC_OK;
}

void htc__poll_set_close(htc__poll_set *set)
{
    if (set->fd >= 0)
        close(set->fd);
    set->fd = -1;
}

static const htc__poll_socket *find(const htc__poll_socket *sockets, uint32_t n, int fd)
{
    for (uint32_t i = 0; i < n; i++) {
        if (sockets[i].fd == fd)
            return &sockets[i];
    }
    return NULL;
}

static htc_status watch(const htc__poll_set *set, const htc__poll_socket *socket)
{
    struct epoll_event e = { .events = socket->events, .data.fd = socket->fd };
    if (epoll_ctl(set->fd, EPOLL_CTL_MOD, socket->fd, &e) == 0)
        return HTC_OK;
    return errno == ENOENT && epoll_ctl(set->fd, EPOLL_CTL_ADD, socket->fd, &e) == 0 ? HTC_OK : HTC_ENOMEM;
}

htc_status htc__poll_set_become(htc__poll_set *set, const htc__poll_socket *sockets, uint32_t n, uint64_t dials)
{
    int anew = dials == 0 || dials != set->dials;
    for (uint32_t i = 0; i < set->count; i++) {
        if (!find(sockets, n, set->in[i].fd))
            (void)epoll_ctl(set->fd, EPOLL_CTL_DEL, set->in[i].fd, NULL); /* mostly it is closed, and gone already */
    }
    for (uint32_t i = 0; i < n; i++) {
        const htc__poll_socket *was = anew ? NULL : find(set->in, set->count, sockets[i].fd);
        if ((!was || was->events != sockets[i].events) && watch(set, &sockets[i]) != HTC_OK)
            return HTC_ENOMEM;
    }
    memcpy(set->in, sockets, n * sizeof *sockets);
    set->count = n;
    set->dials = dials;
    return HTC_OK;
}
