/* The head of a request in HTTP/1.x. */
#ifndef HTC_NET_HTTP_REQUEST_H
#define HTC_NET_HTTP_REQUEST_H

#include "htcsched/bytes.h"

typedef struct htc__http_request {
    htc_bytes method, path; /* lent from the bytes, as all that follows; the path without its query */
    htc_bytes query;        /* behind the '?'; empty: none */
    htc_bytes fields;       /* the lines of the fields */
    size_t    length;       /* of the whole head */
    int       plain;        /* 1: HTTP/1.0, which knows no chunks */
} htc__http_request;

/* 0: more is to come; 200: it is whole; else the status to refuse it with: 400 it is no request, 505 of another version. */
int htc__http_request_read(htc_bytes bytes, htc__http_request *request);

/* How many fields have this name, in whatever case; *value: the last one's, without blanks around it. Cost: O(length of the head). */
size_t htc__http_request_field(const htc__http_request *request, const char *name, htc_bytes *value);
/* The value of "name=" in a query, as it stands there: nothing is decoded. 1; 0: it is not there, or more than once. */
int htc__http_request_argument(htc_bytes query, const char *name, htc_bytes *value);

#endif
