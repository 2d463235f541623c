/* What every answer in HTTP/1.x needs: the words of a status, and bytes on their way to a socket that does not block. */
#ifndef HTC_NET_HTTP_ANSWER_H
#define HTC_NET_HTTP_ANSWER_H

#include <event2/event.h>

#include "htcsched/bytes.h"

typedef enum htc__http_push_end {
    HTC__HTTP_ALL = 1, /* all has gone */
    HTC__HTTP_WAITS,   /* the event of the caller is added: it comes when more can go */
    HTC__HTTP_BROKEN   /* nobody reads any more */
} htc__http_push_end;

/* "Not Found" of 404; of a status that no page of this library sends "Internal Server Error". Any thread. Cost: O(1). */
const char *htc__http_reason(int status);

/* Send out from *sent on, which is where it goes on the next time. write: an event of fd for EV_WRITE, not persistent, borrowed. The loop's
 * thread. Cost: O(bytes that go). */
htc__http_push_end htc__http_push(int fd, htc_bytes out, size_t *sent, struct event *write);

#endif
