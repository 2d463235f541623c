/* Requests of RESP, versions 2 and 3, and inline commands, out of bytes that come in any pieces. */
#ifndef HTC_KVS_RESP_PARSE_H
#define HTC_KVS_RESP_PARSE_H

#include "core/codec.h"

#define HTC__RESP_ARGS_MAX   (1u << 20)
#define HTC__RESP_INLINE_MAX ((size_t)64 << 10)

typedef struct htc__resp_limits {
    uint32_t args_max;  /* 1 to HTC__RESP_ARGS_MAX */
    size_t   bulk_max;  /* of one argument */
    size_t   bytes_max; /* of a whole request */
} htc__resp_limits;

typedef struct htc__resp_place {
    uint32_t at, len; /* from the base of the request */
} htc__resp_place;

/* A request while it is being read. Zeroed, then htc__resp_request_init. */
typedef struct htc__resp_request {
    htc_env          env;
    htc__resp_place *args;
    size_t           cap;
    uint32_t         argc, got; /* announced, read */
    size_t           at;        /* read so far, from the request's first byte; its length once it is whole */
    uint32_t         begun, by_line;
    htc_buf          text;  /* of an inline command */
    const char      *wrong; /* after -1: what */
} htc__resp_request;

void htc__resp_request_init(htc__resp_request *r, const htc_env *env);
void htc__resp_request_free(htc__resp_request *r);
void htc__resp_request_clear(htc__resp_request *r); /* the next one begins; memory is kept */

/* One argument more; 1, or -2: memory was refused. */
int htc__resp_request_add(htc__resp_request *r, size_t at, size_t len);

/* Go on reading the request that begins at p, of which n bytes are there by now, those seen before included.
 * 1: it is whole (argc may be 0: nothing was asked), 0: more bytes are needed, -1: it is broken, -2: memory was refused. */
int htc__resp_parse(htc__resp_request *r, const htc__resp_limits *limits, const uint8_t *p, size_t n);

/* What nearly every request is: an array of a few strings of less than 1000 bytes, all there. */
#define HTC__RESP_FEW 8
typedef struct htc__resp_few {
    uint32_t        argc;
    htc__resp_place args[HTC__RESP_FEW]; /* from the request's first byte */
} htc__resp_few;
/* How many bytes it is long; 0: it is none of these, or not whole: htc__resp_parse has to look. limits: those of whoever has
 * shown the password, which no such request reaches but in all its bytes. */
size_t htc__resp_parse_few(htc__resp_few *few, const htc__resp_limits *limits, const uint8_t *p, size_t n);

/* An argument of a whole request that begins at p. The words of an inline command have no text at all where all of them are empty. */
static inline htc_bytes htc__resp_arg_of(const htc__resp_request *r, const uint8_t *p, uint32_t i)
{
    const uint8_t *text = r->by_line ? r->text.data : p;
    return (htc_bytes){ text ? text + r->args[i].at : NULL, r->args[i].len };
}

/* A decimal number, as Redis takes it: an optional minus, no leading zeros, nothing else. 1 and the number, or 0. */
int htc__resp_number(htc_bytes text, int64_t *number);

#endif
