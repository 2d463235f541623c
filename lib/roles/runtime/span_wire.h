/* The body and the answer of HTC_CALL_RUN_SPAN (htcsched/calls.h). */
#ifndef HTC_ROLES_SPAN_WIRE_H
#define HTC_ROLES_SPAN_WIRE_H

#include "htcsched/codec.h"

#define HTC__SPAN_INPUT_MAX 4096
#define HTC__SPAN_OUTPUT_MAX (128 << 10)
#define HTC__SPAN_FAILED_MAX 1024
#define HTC__SPAN_OUTPUTS_MAX ((size_t)4 << 20) /* bytes of all, each with 16 more */
#define HTC__SPAN_REASON_MAX 256

typedef struct htc__span_request {
    uint64_t  run, from, to;
    char      user[64];
    htc_bytes task;   /* lent */
    uint64_t  inputs; /* 0, or to - from */
    htc_bytes input;  /* lent: inputs times bytes, checked */
} htc__span_request;

typedef struct htc__span_failure {
    uint64_t   number;
    htc_status status;
    char       reason[HTC__SPAN_REASON_MAX];
} htc__span_failure;

/* As it is written; lists are lent, and read by the functions below. */
typedef struct htc__span_answer {
    htc_status why;
    char       reason[HTC__SPAN_REASON_MAX];
    htc_ns     begin, end;
    uint64_t   done, failed, ranges, outputs; /* how many */
    htc_bytes  failed_list, range_list, output_list;
} htc__span_answer;

void       htc__span_request_write(htc_buf *b, const htc__span_request *r);
htc_status htc__span_request_read(htc_bytes body, htc__span_request *out); /* HTC_OK, HTC_EPROTO */

void htc__span_put_failure(htc_buf *list, const htc__span_failure *f);
void htc__span_put_range(htc_buf *list, uint64_t from, uint64_t to);
void htc__span_put_output(htc_buf *list, uint64_t number, htc_bytes bytes);

void       htc__span_answer_write(htc_buf *b, const htc__span_answer *a);
htc_status htc__span_answer_read(htc_bytes body, htc__span_answer *out); /* HTC_OK, HTC_EPROTO; all lists are checked */
/* One of a checked list; the reader stands behind it afterwards. */
void      htc__span_get_failure(htc_reader *list, htc__span_failure *out);
void      htc__span_get_range(htc_reader *list, uint64_t *from, uint64_t *to);
htc_bytes htc__span_get_output(htc_reader *list, uint64_t *number);

#endif
