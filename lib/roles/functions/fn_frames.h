/* What an executor and a helper process of functions say to each other. Frames go over a socket that keeps their bounds, one a message:
 *
 *   HELLO    u32 version, u32 threads                                       with two descriptors: the shared memory, the eventfd
 *   OPEN     u32 span, u8 kind, str function, str argument, str object      with the object's descriptor, or none: then it is opened by name
 *   PORTION  u32 span, u32 portion, u64 from, u32 n, u8 with input, n times bytes
 *   STOP     u32 span, u8 cancelled: nothing further is begun
 *   CLOSE    u32 span: no more of it
 *   OPENED   u32 span, status, str reason                                   the only one of the helper's
 *
 * Records go through a ring of shared memory for each thread, and say what became of a portion's numbers. The user's code can write there, and
 * into the socket: both readers believe nothing. */
#ifndef HTC_ROLES_FN_FRAMES_H
#define HTC_ROLES_FN_FRAMES_H

#include "htcsched/codec.h"

#define HTC__FN_VERSION 1
#define HTC__FN_FRAME_MAX ((size_t)64 << 10)
#define HTC__FN_SPANS_MAX 64           /* at once in one helper */
#define HTC__FN_PORTIONS_MAX 256       /* likewise */
#define HTC__FN_PORTION_TASKS (1u << 20) /* of one portion at most */
#define HTC__FN_INPUT_MAX 4096
#define HTC__FN_OUTPUT_MAX (128 << 10)
#define HTC__FN_REASON_MAX 256

typedef enum htc__fn_kind { FN_HELLO = 1, FN_OPEN, FN_PORTION, FN_STOP, FN_CLOSE, FN_OPENED } htc__fn_kind;

typedef struct htc__fn_frame {
    uint32_t   kind; /* htc__fn_kind */
    uint32_t   span; /* below HTC__FN_SPANS_MAX */
    uint32_t   version, threads;
    uint32_t   task_kind;
    char       function[256], argument[1024], object[4096];
    uint32_t   portion; /* below HTC__FN_PORTIONS_MAX */
    uint64_t   from;
    uint32_t   n;
    uint32_t   with_input, cancelled;
    htc_bytes  input; /* lent: n times bytes, checked */
    htc_status status;
    char       reason[HTC__FN_REASON_MAX];
} htc__fn_frame;

void       htc__fn_frame_write(htc_buf *b, const htc__fn_frame *f);
htc_status htc__fn_frame_read(htc_bytes bytes, htc__fn_frame *out); /* HTC_OK, HTC_EPROTO */

typedef enum htc__fn_record_kind {
    FN_ENDED = 1, /* offset to offset + count have ended: those without a record of their own are done */
    FN_SKIPPED,   /* they were not begun, and will not be */
    FN_OUTPUT,    /* offset is done, and has left bytes (count 1) */
    FN_FAILED     /* offset has failed: status, and why in bytes (count 1) */
} htc__fn_record_kind;

/* As it lies in the ring, followed by its bytes, which are filled up to a multiple of 8. */
typedef struct htc__fn_record {
    uint32_t kind, portion, offset, count;
    int32_t  status;
    uint32_t bytes;
} htc__fn_record;

#define HTC__FN_RECORD_MAX (sizeof(htc__fn_record) + HTC__FN_OUTPUT_MAX)

size_t htc__fn_record_size(const htc__fn_record *r); /* in the ring, with its bytes */
/* The next one of whole records. HTC_OK; HTC_EMPTY: there is none; HTC_EPROTO. */
htc_status htc__fn_record_next(htc_bytes *rest, htc__fn_record *out, htc_bytes *bytes);

#endif
