/* Reads what a log left on the disk, from the superblocks to the end of the last frame, and judges it. A state machine over disk
 * requests: the member recovers with it, fsck and dump look with it.
 *
 * Where no valid frame follows the last good one, the log ends there: what stands behind was being written when the power went. The frames
 * that can be read behind it say how far the log was durable when they were written: if that covers the missing frame, it was
 * acknowledged once, and the log is damaged (HTC_ECORRUPT, with file and offset), not cut. So does the superblock, which also says which
 * segment was begun last and how long it was made: that one is there. */
#ifndef HTC_KVS_LOG_READ_H
#define HTC_KVS_LOG_READ_H

#include "kvs/storage/log_format.h"

/* Each request has another tag: the lowest bits are the caller's. */
#define HTC__LOG_TAG_STEP 256

typedef struct htc__log_sink {
    /* A record, in the order of the log; value.data NULL: lost. Anything but HTC_OK ends the reading with it. */
    htc_status (*record)(void *ctx, const htc__log_record *r);
    /* What is wrong, where. Said also of what does not end the reading: HTC_OK where nothing is lost by it. May be NULL. */
    void (*problem)(void *ctx, htc_status status, const char *file, uint64_t offset, const char *text);
    void *ctx;
    /* A record whose value is damaged, before it is given as one that is lost: whether that matters is known when all is read. NULL: it is
     * said as a problem. */
    htc_status (*damaged)(void *ctx, const htc__log_record *r, const char *file, uint64_t offset);
} htc__log_sink;

typedef struct htc__log_file {
    uint64_t number, length;
    uint64_t first_sequence; /* of what was read; 0: nothing */
} htc__log_file;

typedef struct htc__log_reader {
    htc_env        env;
    htc__log_sink  sink;
    int            lenient; /* 1: after damage go on with the next frame that can be read (fsck, and who can repair it) */
    int            salvage; /* 1: without any superblock too (fsck) */
    uint64_t       tag;     /* of its last request */
    uint32_t       state, op;
    char           name[HTC__LOG_NAME]; /* the file that is read */
    htc_status     super_status[2];
    int            super_there[2];
    htc__log_super supers[2], super; /* the one that counts */
    int            fresh;            /* there was no log: nothing was ever kept here */
    htc__log_file *files;            /* segments by number */
    size_t         files_count, files_cap;
    size_t         at_file; /* the segment that is read */
    htc_buf        window;  /* its bytes from window_at on */
    uint64_t       window_at;
    htc_buf        held;                  /* a frame with damaged values, until it is known whether it was durable */
    htc__log_frame held_frame, held_last; /* and the one before it */
    int            holding;
    uint64_t       held_file, held_offset; /* index, offset */
    /* The last good frame. */
    htc__log_frame last;
    uint64_t       end_file, end_offset; /* index of the segment, where its frames end */
    uint64_t       evidence;             /* the highest `synced` seen behind a hole */
    int            resumes;              /* a later frame was seen there: */
    uint64_t       resume_file, resume_offset;
    htc__log_frame resume;
    uint64_t       damaged; /* records lost, places of damage */
    uint64_t       holes;   /* of these: places where frames are lost, and nobody knows what was in them */
    uint64_t       frames;
} htc__log_reader;

void htc__log_reader_init(htc__log_reader *r, const htc_env *env, const htc__log_sink *sink, uint64_t tag);
void htc__log_reader_free(htc__log_reader *r);
/* Ask for the first piece. */
htc_status htc__log_reader_start(htc__log_reader *r, htc_output *out);
/* An answer. HTC_AGAIN: the next is asked for; HTC_OK: all is read; else the end. */
htc_status htc__log_reader_answer(htc__log_reader *r, htc_status status, htc_bytes body, htc_output *out);

#endif
