/* What htc-transfer is asked for on its standard input, and what it prints when it has done it. Between programs of one version on one machine. */
#ifndef HTC_ROLES_TRANSFER_WIRE_H
#define HTC_ROLES_TRANSFER_WIRE_H

#include "htcsched/codec.h"

#define HTC__TRANSFER_VERSION 1u
#define HTC__TRANSFER_ANSWER_MAX 2048

typedef struct transfer_request {
    uint32_t  parent; /* pid of who asks: it ends with that */
    htc_bytes dir;    /* where the files are */
    uint64_t  bytes_max;
    htc_ns    connect, stall;
    htc_bytes ca, proxy; /* empty: none */
    htc_bytes netrc;     /* users and passwords by host; empty: none */
    size_t    count;     /* of transfers */
    htc_reader rest;     /* at the first: htc__transfer_one */
} transfer_request;

enum {
    TRANSFER_DOWN,  /* the file comes from the URL */
    TRANSFER_UP,    /* it goes there, and replaces what is there */
    TRANSFER_UP_NEW /* it goes there if nothing is there; no server of FTP can be told so */
};

typedef struct transfer_one {
    uint8_t   up; /* TRANSFER_DOWN, ... */
    htc_bytes url, name; /* name: of the file in dir */
} transfer_one;

/* One after the other: the head, then each transfer. */
void htc__transfer_request_write(htc_buf *b, const transfer_request *r);
void htc__transfer_one_write(htc_buf *b, const transfer_one *one);
/* What is lent is so from the bytes. HTC_EVERSION, HTC_EPROTO. */
htc_status htc__transfer_request_read(htc_bytes bytes, transfer_request *r);
htc_status htc__transfer_one_read(transfer_request *r, transfer_one *one);

/* The answer: HTC_OK, or why not with a sentence. */
void       htc__transfer_answer_write(htc_buf *b, htc_status status, const char *text);
htc_status htc__transfer_answer_read(htc_bytes bytes, htc_status *status, char *text, size_t room);

#endif
