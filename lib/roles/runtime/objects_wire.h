/* What workers say to each other about objects: pieces are asked for and sent, named by the content's hash. Each message may be lost,
 * doubled or late. Who knows a hash may have the content. */
#ifndef HTC_ROLES_OBJECTS_WIRE_H
#define HTC_ROLES_OBJECTS_WIRE_H

#include "core/wire.h"

#define OBJECT_PIECE_MAX (256u << 10) /* bytes of one piece */
#define OBJECT_SIZE_MAX  (UINT64_C(1) << 46)
/* Bytes of the payload of OBJECT_BYTES in front of the piece, at most; that payload is the body of HTC_CALL_OBJECT_WRITE too. */
#define OBJECT_HEAD_MAX (32 + 8 + 8 + 10)

/* One struct for all; core/wire.h says which has what. */
typedef struct object_message {
    uint8_t    hash[32];
    uint64_t   offset;
    uint64_t   size;   /* BYTES */
    uint32_t   len;    /* ASK: 1 to OBJECT_PIECE_MAX */
    uint64_t   scope;  /* ASK: the flow: where several workers share a host, the one of that flow answers */
    htc_status status; /* NONE: an error. HTC_EBUSY: ask again later */
    htc_bytes  bytes;  /* BYTES: borrowed from the message; within size */
} object_message;

void htc__object_write(htc_buf *b, uint16_t type, const object_message *m);
/* r stands at the payload of a message of this type. HTC_EPROTO; what is refused has not touched m. */
htc_status htc__object_read(htc_reader *r, uint16_t type, object_message *m);

#endif
