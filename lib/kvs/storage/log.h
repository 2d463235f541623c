/* Cells in memory with a log behind them: a table, and segments of fixed length that are only appended to.
 *
 * A batch is one frame, written and synced by one request. Reading it all again gives the table; so that this stays short,
 * the table is copied to the end of the log bit by bit, with the batches, whenever the log has grown to a multiple of
 * it (no fork, no second file format), and then the segments before are removed. A spare segment is always made ahead: what
 * the segment in use and the spare have no room for is refused (HTC_ENOSPC, or HTC_EBUSY while the spare is being made)
 * before anything is changed. A failed write or sync is the end (HTC_EIO). */
#ifndef HTC_KVS_LOG_H
#define HTC_KVS_LOG_H

#include "kvs/storage/cells.h"
#include "kvs/storage/log_read.h"

typedef enum htc__log_durability {
    HTC__LOG_SYNC = 1, /* stored = synced */
    HTC__LOG_INTERVAL, /* stored = written; synced at most interval_ns later */
    HTC__LOG_UNSYNCED  /* stored = written; synced when a segment is full */
} htc__log_durability;

typedef struct htc__log_options {
    uint32_t durability;
    htc_ns   interval_ns;   /* 0: 100 ms */
    uint64_t segment_bytes; /* 0: 64 MiB; a multiple of 512, at least 8 KiB */
    uint32_t ratio;         /* the log is copied when it is longer than this many times the table; 2 or more; 0: 3 */
    uint64_t member, seed;  /* for a directory in which there is nothing yet */
    uint8_t  boot[HTC__LOG_BOOT];
    int      guarded; /* 1: what htc__log_has_lost once said of a directory it says for ever */
    int      others;  /* 1: others have what is lost, so a log that has lost frames is opened: see htc__log_is_damaged */
    size_t   memory_max; /* bytes of the table; 0: none */
    int      ordered;    /* for scans */
    /* What was found damaged, and why the member ends. May be NULL. */
    void (*problem)(void *ctx, htc_status status, const char *file, uint64_t offset, const char *text);
    void *problem_ctx;
} htc__log_options;

/* HTC_OK; HTC_EINVAL, HTC_ENOMEM. */
htc_status htc__log_create(const htc_env *env, const htc__log_options *options, htc__cells *cells);

/* What the superblock said when it was opened (its boot id is the one before this). Valid once ready. */
const htc__log_super *htc__log_super_of(const htc__cells *cells);
/* Was it last open without syncing each change, and has the machine started anew since? Valid once ready. */
int htc__log_has_lost(const htc__cells *cells);
/* Frames that had been durable are lost, and this member knows neither what it had stored with them nor what it had promised. It is so in each
 * life, until one has said htc__log_repaired, and all that is kept has been written anew behind that. Valid once ready. */
int htc__log_is_damaged(const htc__cells *cells);
/* From the batch that is open now on the cells say what is not known any more. */
void htc__log_repaired(const htc__cells *cells);
/* The server's own bytes, as last set. */
const uint8_t *htc__log_area(const htc__cells *cells);
/* Set them; *ticket is stored when htc__log_area_stored has reached it. */
htc_status htc__log_area_set(const htc__cells *cells, const uint8_t area[HTC__LOG_AREA], htc_output *out,
                             uint64_t *ticket);
uint64_t   htc__log_area_stored(const htc__cells *cells);

typedef struct htc__log_figures {
    uint64_t segments, sequence, epoch, checkpoints, lost;
    int      copying, spare;
} htc__log_figures;
void htc__log_look(const htc__cells *cells, htc__log_figures *f);

#endif
