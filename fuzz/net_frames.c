/* Bytes from a stranger on a socket: whatever they are, they are cut into whole messages of the lengths they announced,
 * or the connection is closed. The first byte says whether the machine welcomes, and whether a token is wanted first.
 */
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "listener.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const char token[] = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef";
    int               pair[2];
    listener          w = { .knows = NULL };
    uint8_t           drain[4096];
    if (size < 1 || size > 60000 || htc_host_create(NULL, NULL, &w.host) != HTC_OK)
        return 0;
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, pair) != 0)
        abort();
    w.welcomes = data[0] & 1;
    /* What htc_host_run does, with the loop in our hands. */
    w.host->ops = &listener_ops;
    w.host->machine = &w;
    w.host->running = 1;
    htc_peer_info info = { .transport = data[0] & 2 ? HTC_TRANSPORT_TCP : HTC_TRANSPORT_UNIX };
    if (htc__conn_accept(w.host, pair[0], &info, data[0] >> 1 & 1, data[0] & 2 ? token : NULL) != HTC_OK)
        abort();
    for (size_t at = 1; at < size;) {
        size_t  piece = size - at < (size_t)(data[0] >> 2) * 64 + 1 ? size - at : (size_t)(data[0] >> 2) * 64 + 1;
        ssize_t n = send(pair[1], data + at, piece, MSG_NOSIGNAL);
        if (n <= 0)
            break; /* it closed */
        at += (size_t)n;
        event_base_loop(w.host->base, EVLOOP_NONBLOCK);
        while (recv(pair[1], drain, sizeof drain, 0) > 0)
            ;
    }
    close(pair[1]);
    event_base_loop(w.host->base, EVLOOP_NONBLOCK);
    event_base_loop(w.host->base, EVLOOP_NONBLOCK);
    if (w.taken > size)
        abort();
    htc_host_destroy(w.host);
    return 0;
}
