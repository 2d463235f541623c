/* The sockets of a store as one descriptor that another program's loop can watch: an epoll set, kept as the sockets are. */
#ifndef HTC_NET_STORES_POLL_SET_H
#define HTC_NET_STORES_POLL_SET_H

#include <stdint.h>

#include "htcsched/status.h"

#define HTC__POLL_SET_MAX 16

typedef struct htc__poll_socket {
    int      fd;
    uint32_t events; /* EPOLLIN, EPOLLOUT */
} htc__poll_socket;

typedef struct htc__poll_set {
    int              fd; /* -1: nobody has asked for it */
    uint32_t         count;
    uint64_t         dials;
    htc__poll_socket in[HTC__POLL_SET_MAX];
} htc__poll_set;

htc_status htc__poll_set_open(htc__poll_set *set);
void       htc__poll_set_close(htc__poll_set *set);
/* Watch these n from now on. dials grows with each socket that was made, for a number of a closed one comes back; 0: it is not
 * known, and all are set anew. A closed socket has left the set by itself. HTC_ENOMEM. */
htc_status htc__poll_set_become(htc__poll_set *set, const htc__poll_socket *sockets, uint32_t n, uint64_t dials);

#endif
