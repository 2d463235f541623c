/* What migrate/buckets.c, migrate/snapshot_send.c, migrate/snapshot_install.c and migrate/backfill.c share: what is being done about the buckets of this member. */
#ifndef HTC_KVS_CLUSTER_HOLD_H
#define HTC_KVS_CLUSTER_HOLD_H

#include "kvs/replica/cluster_private.h"

/* Keys of other buckets that are passed over at once. In simulation so few that others are heard in the middle of every pass. */
#ifdef HTC_FAULTS
#define HTC__KV_SLICE_LOOK 3
#else
#define HTC__KV_SLICE_LOOK 20000
#endif
#define HTC__KV_JOB_PARTS  1024  /* buckets whose content changes places at once */
#define HTC__KV_COPIES     64    /* that are copied at once */

enum { HTC__KV_TAKE_UP = 1, HTC__KV_COPY = 2, HTC__KV_GO = 4 }; /* what is to be done about a bucket */

/* Where content is that does not count yet: 'i', 'y' (migrate/buckets.c), of one bucket. */
typedef struct htc__kv_area {
    char     kind; /* 0: none */
    uint64_t id;
} htc__kv_area;

/* One of the buckets whose content changes places now. */
typedef struct htc__kv_part {
    uint32_t       bucket;
    htc__kv_area   area;   /* where the new content is; none: the bucket goes */
    uint64_t       epoch;  /* y: that was copied */
    htc__kv_floors floors; /* y: of what was copied */
} htc__kv_part;

typedef enum htc__kv_phase { HTC__KV_OLD_KEYS, HTC__KV_NEW_KEYS, HTC__KV_LAST_STEP } htc__kv_phase;

typedef struct htc__kv_job {
    uint32_t      count, at; /* no parts: there is none */
    htc__kv_phase phase;
    htc__kv_name  from;
    htc__kv_part *parts;
    uint16_t     *part_of; /* by bucket: which it is, plus one */
} htc__kv_job;

/* A bucket that is being copied. */
typedef struct htc__kv_copying {
    int            busy, whole; /* whole: it waits to change places */
    uint8_t        eventual;    /* all other keys have come */
    uint32_t       bucket, asked; /* asked: owners so far */
    uint64_t       epoch;
    htc__kv_floors floors;
    size_t         after_len; /* the last key that came */
    uint8_t        after[HTC_KV_KEY_MAX];
    htc_ns         again_at;
} htc__kv_copying;

typedef struct htc__kv_bucket_states {
    uint8_t        *todo;        /* by bucket */
    uint32_t        moves, late; /* so many have something to move, something to copy */
    uint32_t        next, next_late;
    htc__kv_area   *sweeps; /* that nobody will name any more */
    size_t          sweep_count, sweep_room;
    htc__kv_area    sweep; /* the one that is being emptied */
    htc__kv_name    sweep_from;
    htc__kv_job     job;
    htc__kv_copying copies[HTC__KV_COPIES];
    uint32_t        copying;
    struct htc__kv_shows *shows; /* migrate/snapshot_send.c */
    htc_ns          at;    /* not before: there was no room */
    htc_buf         first; /* of g: u8 format, u8 whether the map, bits of buckets */
} htc__kv_bucket_states;

/* migrate/buckets.c */
uint64_t   htc__kv_area_id(uint32_t bucket, uint64_t number);
void       htc__kv_buckets_todo(htc_kv_server *s, uint32_t bucket, uint8_t now);
void       htc__kv_buckets_touch(htc_kv_server *s, uint32_t bucket); /* what is said rests on what is remembered of it */
htc_status htc__kv_buckets_stage(htc_kv_server *s, uint32_t bucket);
int        htc__kv_buckets_room(const htc_kv_server *s, size_t key, size_t value);
/* Can what was asked for be shown, by what is remembered of that bucket now? */
int        htc__kv_buckets_may_show(const htc_kv_server *s, const htc__kv_seal_ask *ask, int copy);
/* Is each of these entries a key of that bucket, and is there room for all of them? */
int        htc__kv_buckets_may_take(const htc_kv_server *s, uint32_t bucket, htc_bytes entries);
htc_status htc__kv_buckets_stage_entries(htc_kv_server *s, htc__kv_area area, htc_bytes entries);

/* migrate/snapshot_install.c */
int        htc__kv_snapshot_install_busy(const htc_kv_server *s, uint32_t bucket); /* its content changes places, or is about to */
void       htc__kv_snapshot_install_sweep(htc_kv_server *s, char kind, uint64_t id);
htc_status htc__kv_snapshot_install_step(htc_kv_server *s); /* some keys; HTC_AGAIN: nothing is to be done, HTC_EBUSY: later, there is no room */
int        htc__kv_snapshot_install_waits(const htc_kv_server *s);

/* migrate/backfill.c */
void   htc__kv_late_tick(htc_kv_server *s);
htc_ns htc__kv_late_deadline(const htc_kv_server *s);

/* migrate/driver.c. A mover's words; what no memory is found for is as if it had been lost. */
void htc__kv_say_seal(htc_kv_server *s, uint64_t to, const htc__kv_seal_ask *ask);
void htc__kv_say_install(htc_kv_server *s, uint64_t to, const htc__kv_page *page);

/* migrate/snapshot_send.c */
htc_status htc__kv_snapshot_send_make(htc_kv_server *s);
void       htc__kv_snapshot_send_free(htc_kv_server *s);
/* As an item of that kind, to that member, when it has been gathered. Also those that are asked for again. */
void htc__kv_snapshot_send_ask(htc_kv_server *s, uint64_t to, const htc__kv_seal_ask *ask, uint8_t kind);
void htc__kv_snapshot_send_map(htc_kv_server *s, uint64_t to, const htc__kv_seal_ask *ask); /* the map itself, which is sealed */
void htc__kv_snapshot_send_tick(htc_kv_server *s);
int  htc__kv_snapshot_send_wait(const htc_kv_server *s);
void htc__kv_snapshot_send_undone(htc_kv_server *s);

#endif
