/* What a log looks like on the disk: doc/protocol.md, "On disk", says it byte by byte. Pure: bytes in, bytes out.
 *
 * Everything is written in whole sectors and begins at one, so that no write touches a sector that was acknowledged. */
#ifndef HTC_KVS_LOG_FORMAT_H
#define HTC_KVS_LOG_FORMAT_H

#include "core/codec.h"
#include "htcsched/disk.h"

#define HTC__LOG_FORMAT 2
#define HTC__LOG_SECTOR ((size_t)HTC_DISK_SECTOR)
#define HTC__LOG_BOOT   40 /* bytes of a boot id */
#define HTC__LOG_AREA   64 /* bytes that are the server's own */

/* ---- superblock: one sector, in two files ---- */

typedef struct htc__log_super {
    uint64_t generation;     /* the higher one counts */
    uint64_t member, seed;   /* of the member, of the store's places */
    uint64_t epoch;          /* of the last opening */
    uint64_t first;          /* the segment that reading begins with */
    uint64_t first_sequence; /* of that segment's own frame */
    uint8_t  boot[HTC__LOG_BOOT]; /* of the last opening, and so is this: */
    uint32_t durability;          /* htc__log_durability; 0: of a time when it was not written down */
    uint64_t durable;             /* this sequence and all below were durable when this was written */
    uint64_t last, last_length;   /* the segment that was begun last, and how long it was made; 0: none */
    uint32_t flags;
    uint8_t  area[HTC__LOG_AREA];
} htc__log_super;

enum {
    HTC__LOG_CLEAN = 1,  /* it was ended: nothing was written behind `durable` */
    HTC__LOG_DAMAGED = 2 /* frames that had been durable are lost, and not all of what they were about is repaired yet */
};

void htc__log_super_write(const htc__log_super *s, uint8_t out[HTC_DISK_SECTOR]);
/* HTC_OK; HTC_ENOTFOUND: only zeros; HTC_ECORRUPT; HTC_EFORMAT: of another format, which is *format. */
htc_status htc__log_super_read(htc_bytes bytes, htc__log_super *s, uint32_t *format);

/* ---- frames ---- */

enum { HTC__LOG_SEGMENT = 1, HTC__LOG_BATCH = 2 };

#define HTC__LOG_HEAD ((size_t)64)

typedef struct htc__log_frame {
    uint32_t type;
    uint32_t length; /* of the payload, without the zeros up to the next sector */
    uint32_t count;  /* of its records */
    uint64_t epoch, sequence;
    uint64_t synced;   /* this sequence and all below were durable when it was written */
    uint64_t previous; /* sum of the frame before it */
    uint64_t payload;  /* checksum */
    uint64_t sum;      /* of the head, and through it of everything */
} htc__log_frame;

/* Write the head in front of length bytes of payload, and set f->payload and f->sum. */
void htc__log_frame_seal(uint8_t *at, htc__log_frame *f, uint64_t member);
/* 1: these HTC__LOG_HEAD bytes are the head of a frame of this member's. */
int htc__log_frame_read(const uint8_t *at, uint64_t member, htc__log_frame *f);
/* 1: its payload is what was written. */
int htc__log_frame_whole(const htc__log_frame *f, htc_bytes payload);
/* Sectors it takes, in bytes. */
static inline uint64_t htc__log_frame_size(uint64_t length)
{
    return (HTC__LOG_HEAD + length + HTC__LOG_SECTOR - 1) / HTC__LOG_SECTOR * HTC__LOG_SECTOR;
}

/* The payload of a segment's own frame, its first. */
typedef struct htc__log_segment {
    uint64_t number;
    uint64_t before, before_end; /* the segment before it, and where that ended; 0: there is none */
    uint64_t length;             /* of its file */
    uint64_t member;             /* with which its frames can be read where no superblock can be */
} htc__log_segment;

#define HTC__LOG_SEGMENT_PAYLOAD ((size_t)40)

void htc__log_segment_write(const htc__log_segment *s, uint8_t out[HTC__LOG_SEGMENT_PAYLOAD]);
void htc__log_segment_read(const uint8_t in[HTC__LOG_SEGMENT_PAYLOAD], htc__log_segment *s);

/* ---- records of a batch ---- */

enum { HTC__LOG_PUT = 0, HTC__LOG_DROP = 1, HTC__LOG_LOST = 2 };

#define HTC__LOG_RECORD_HEAD ((size_t)18)

typedef struct htc__log_record {
    uint32_t  kind;
    htc_bytes key, value;
    int       damaged; /* the value is not what was written; key and lengths are */
} htc__log_record;

static inline size_t htc__log_record_size(htc_bytes key, htc_bytes value)
{
    return HTC__LOG_RECORD_HEAD + key.len + value.len;
}

/* b->status says whether it was. */
void htc__log_record_put(htc_buf *b, uint32_t kind, htc_bytes key, htc_bytes value);
/* 1: *r is the next one; 0: the end; -1: what stands here is no record. */
int htc__log_record_next(htc_bytes payload, size_t *at, htc__log_record *r);

/* ---- names of files ---- */

#define HTC__LOG_NAME 24 /* bytes of a name with its end */

void htc__log_super_name(int which, char out[HTC__LOG_NAME]);
void htc__log_segment_name(uint64_t number, char out[HTC__LOG_NAME]);
/* The number of a segment by its name; 0: that is no segment. */
uint64_t htc__log_segment_number(htc_bytes name);

#endif
