#include "net/loop/http_answer.h"

#include <errno.h>
#include <sys/socket.h>

const char *htc__http_reason(int status)
{
    static const struct {
        int         status;
        const char *text;
    } all[] = { { 200, "OK" }, { 400, "Bad Request" }, { 401, "Unauthorized" }, { 403, "Forbidden" }, { 404, "Not Found" },
                { 405, "Method Not Allowed" }, { 408, "Request Timeout" }, { 411, "Length Required" }, { 413, "Content Too Large" },
                { 415, "Unsupported Media Type" }, { 421, "Misdirected Request" }, { 431, "Request Header Fields Too Large" },
                { 503, "Service Unavailable" }, { 505, "HTTP Version Not Supported" } };
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        if (all[i].status == status)
            return all[i].text;
    return "Internal Server Error";
}

htc__http_push_end htc__http_push(int fd, htc_bytes out, size_t *sent, struct event *write)
{
    while (*sent < out.len) {
        ssize_t n = send(fd, (const char *)out.data + *sent, out.len - *sent, MSG_NOSIGNAL);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK))
            return event_add(write, NULL) == 0 ? HTC__HTTP_WAITS : HTC__HTTP_BROKEN;
        if (n < 0)
            return HTC__HTTP_BROKEN;
        *sent += (size_t)n;
    }
    return HTC__HTTP_ALL;
}
