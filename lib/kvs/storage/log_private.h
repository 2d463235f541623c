/* What the files of the log share. */
#ifndef HTC_KVS_LOG_PRIVATE_H
#define HTC_KVS_LOG_PRIVATE_H

#include "kvs/storage/cells_heap.h"
#include "kvs/storage/log.h"

/* Requests that can be on their way, at most one of each. */
typedef enum log_call { LOG_READ = 0, LOG_WRITE, LOG_SYNC, LOG_SUPER, LOG_CREATE, LOG_REMOVE, LOG_CALLS } log_call;

typedef enum log_state {
    LOG_NEW = 0, /* not started */
    LOG_READING,
    LOG_MAKING,   /* an empty directory gets its superblocks */
    LOG_CLEARING, /* segments that are not of the log are removed */
    LOG_SYNCING,  /* what was read is made durable, before it is said to be */
    LOG_OPENING,  /* the new epoch is written */
    LOG_SPARING,  /* the first segment of this epoch is made */
    LOG_READY,
    LOG_ENDED
} log_state;

typedef struct log_segment {
    uint64_t number, first_sequence;
} log_segment;

typedef struct log_marks {
    uint64_t bits[1024]; /* places with a change, by their lowest 16 bits */
} log_marks;

/* In front of the payload there is room for the head, a segment's own frame and the head of the request. */
#define LOG_FRONT (HTC_DISK_HEAD_MAX + HTC__LOG_SECTOR + HTC__LOG_HEAD)

typedef struct htc__wal {
    htc_env          env;
    htc__log_options options;
    htc__heap        heap;
    htc__log_reader  reader;
    log_state        state;
    int              making; /* LOG_MAKING: superblocks made */
    htc_ns           now;
    uint64_t         calls; /* made so far */
    uint64_t         tags[LOG_CALLS];

    /* The superblock: as it was found, as it is to be, as it is on its way (to both files, one after the other). */
    htc__log_super found, super, super_flying;
    int            super_dirty, super_which;
    int            lost; /* htc__log_has_lost */
    int            damaged; /* htc__log_is_damaged; what follows is of that: */
    int            repaired; /* htc__log_repaired was said */
    uint64_t       found_last; /* the last segment that was found */
    int            super_older;  /* the one that is written first */
    int            super_synced; /* opening: what was asked to be made durable so far */
    uint64_t       super_first, super_last; /* first and last of what is stored */
    uint64_t       area_set, area_writing, area_stored;

    log_segment *segments; /* of the log, by number; the last is in use */
    size_t       segments_count, segments_cap;
    uint64_t     offset, length; /* of the one in use: where the next frame goes, and how long it is */
    uint64_t     next_number;
    uint64_t     spare;        /* made and empty; 0: none */
    htc_ns       spare_at;     /* when to try again */
    htc_status   spare_status; /* of the last try */
    uint64_t    *reserve;      /* made and empty as well, behind it: log_reserve.c */
    size_t       reserve_n, reserve_cap;
    int          set_aside; /* it has been enough: before, after an opening, nobody waits for it */
    int          full;      /* that the disk is, was said */

    uint64_t sequence; /* of the last frame */
    uint64_t last_sum;
    uint64_t written, synced, syncing; /* sequences */
    htc_ns   sync_at;

    htc_buf   frame; /* LOG_FRONT bytes, then the open batch */
    uint32_t  frame_count;
    uint64_t  batch, batch_flying, batch_stored; /* the open one, the one on its way (0: none) */
    uint64_t  flying;                            /* sequence on its way */
    int       held_back;                         /* a batch waits until the next segment may be begun */
    int       ending;                            /* log_end: nothing more is written */
    log_marks marks_open, marks_flying;

    /* The copy of the table to the end of the log. */
    int      copying;
    uint64_t copy_from, copy_mark; /* place (its top), segment */
    uint64_t copy_done;            /* sequence with the last piece; 0: not yet */
    htc_ns   copy_at;
    uint64_t checkpoints;
} htc__wal;

htc_status htc__wal_fail(htc__wal *l, htc_status status, const char *file, const char *text);
/* Ask for something; HTC_OK or why not. */
htc_status htc__wal_ask(htc__wal *l, log_call call, const htc_disk_request *q, htc_output *out);

htc_status htc__wal_open_start(htc__wal *l, htc_output *out);
htc_status htc__wal_open_answer(htc__wal *l, log_call call, htc_status status, htc_bytes body, htc_output *out);
htc_status htc__wal_super_write(htc__wal *l, htc_output *out);
/* HTC_AGAIN: the other copy is on its way. */
htc_status htc__wal_super_answer(htc__wal *l, htc_status status, htc_output *out);
htc_status htc__wal_segment_add(htc__wal *l, uint64_t number, uint64_t first_sequence);

/* Copy a piece of the table into the open frame, if it is time; write it out even if there is no change. */
void       htc__wal_copy_piece(htc__wal *l);
htc_status htc__wal_copy_step(htc__wal *l, htc_output *out);
uint64_t   htc__wal_room(const htc__wal *l);

/* log_reserve.c */
int        htc__wal_wants_segment(const htc__wal *l); /* one more is to be made */
htc_status htc__wal_segment_ask(htc__wal *l, htc_output *out);
htc_status htc__wal_segment_made(htc__wal *l, uint64_t number);
void       htc__wal_spare_used(htc__wal *l); /* the log goes on in it: the next one is the spare */
htc_status htc__wal_may_grow(const htc__wal *l, uint64_t bytes); /* HTC_OK; HTC_EBUSY: room is being set aside; HTC_ENOSPC */
uint64_t   htc__wal_piece_bytes(const htc__wal *l); /* of the table, copied with a batch */
int        htc__wal_is_scarce(const htc__wal *l); /* the disk has no room for what is to be set aside */
int        htc__wal_copy_frees(const htc__wal *l); /* a copy has room, and leaves more of it */
uint64_t   htc__wal_table_bytes(const htc__wal *l); /* as a copy */
void       htc__wal_say_full(htc__wal *l, htc_status status); /* after each try to make one */

#endif
