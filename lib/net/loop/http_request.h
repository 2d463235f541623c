/* The head of a request in HTTP/1.x, as far as somebody needs it who shows one page and reads no body. */
#ifndef HTC_NET_HTTP_REQUEST_H
#define HTC_NET_HTTP_REQUEST_H

#include "htcsched/bytes.h"

typedef struct htc__http_request {
    htc_bytes method, path; /* lent from the bytes; the path without its query */
} htc__http_request;

/* 0: more is to come; 200: it is whole; else the status to refuse it with: 400 it is no request, 505 of another version. */
int htc__http_request_read(htc_bytes bytes, htc__http_request *request);

#endif
