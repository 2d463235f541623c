/* Libraries that write to sockets with write(2): a peer that is gone must not end the program that has us in it. */
#ifndef HTC_NET_STORES_QUIET_H
#define HTC_NET_STORES_QUIET_H

#include <signal.h>

typedef struct htc__quiet {
    sigset_t before;
    int      was_pending;
} htc__quiet;

/* Between the two no SIGPIPE reaches this thread; one that came meanwhile is forgotten. */
void htc__quiet_begin(htc__quiet *q);
void htc__quiet_end(const htc__quiet *q);

#endif
