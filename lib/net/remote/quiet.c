#include "net/remote/quiet.h"

#include <pthread.h>
#include <time.h>

void htc__quiet_begin(htc__quiet *q)
{
    sigset_t pipe, pending;
    sigemptyset(&pipe);
    sigaddset(&pipe, SIGPIPE);
    sigpending(&pending);
    q->was_pending = sigismember(&pending, SIGPIPE);
    pthread_sigmask(SIG_BLOCK, &pipe, &q->before);
}

void htc__quiet_end(const htc__quiet *q)
{
    sigset_t              pipe;
    const struct timespec now = { 0, 0 };
    sigemptyset(&pipe);
    sigaddset(&pipe, SIGPIPE);
    while (!q->was_pending && sigtimedwait(&pipe, NULL, &now) >= 0) {
    }
    pthread_sigmask(SIG_SETMASK, &q->before, NULL);
}
