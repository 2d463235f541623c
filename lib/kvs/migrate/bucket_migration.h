/* Who moves one bucket: seals a majority of its old owners (of the map: as many as meet every one), reads each after its own seal,
 * installs what counts at a majority of the new ones under its number, and has the map activate that number.
 *
 * A mover keeps nothing: it may die anywhere, and the next one begins anew with the next number. Two at work at once do no harm:
 * the map activates one. */
#ifndef HTC_KVS_MOVER_H
#define HTC_KVS_MOVER_H

#include "kvs/cell/cell.h"
#include "kvs/map/map.h"

typedef struct htc__kv_migration htc__kv_migration;

/* Messages it sends; the answers are handed back below. None of these calls the mover. */
typedef struct htc__kv_migration_host {
    /* Seal `epoch` of the bucket, then show what is held behind the key `after` (empty: from the beginning), in the order of
     * htc_bytes_compare. */
    void (*seal)(void *ctx, uint64_t to, uint32_t bucket, uint64_t epoch, htc_bytes after);
    /* floors belong to the image; they come with each page. */
    void (*install)(void *ctx, uint64_t to, uint32_t bucket, uint64_t number, uint32_t page, int last,
                    const htc__kv_floors *floors, htc_bytes entries);
    /* A majority holds it: htc__kv_map_activate by compare-and-swap. Said once. */
    void (*activate)(void *ctx, uint64_t number);
    void *ctx;
} htc__kv_migration_host;

/* Of a store with eventual keys. What is read of them is what owners have each merged, so the image of a bucket has all that its old owners
 * showed, and whoever takes it merges it into what it has: no one's word is above another one's. These keys are shown and installed behind
 * the others. */
typedef struct htc__kv_migration_eventual {
    void (*seal)(void *ctx, uint64_t to, uint32_t bucket, uint64_t epoch, htc_bytes after); /* in whatever order the owner shows them */
    void (*install)(void *ctx, uint64_t to, uint32_t bucket, uint64_t number, uint32_t page, int last,
                    const htc__kv_floors *floors, htc_bytes entries);
    /* 1: these of the old owners (a bit for each: it has shown all, and has no damaged record) are enough of every namespace, or the others
     * are not heard. */
    int (*enough)(void *ctx, const htc__kv_map_move *move, uint32_t shown);
    void  *ctx;
    htc_ns patience_ns; /* a majority having shown all, others are waited for no longer than this */
} htc__kv_migration_eventual;

typedef struct htc__kv_migration_options {
    htc_ns retry_ns;  /* 0: 200 ms */
    size_t bytes_max; /* of what is read of one bucket; 0: 256 MiB */
    size_t page_max;  /* bytes of entries in a page to install; 0: 256 KiB */
    const htc__kv_migration_eventual *eventual; /* NULL: there are no such keys; it outlives the mover */
} htc__kv_migration_options;

htc_status htc__kv_migration_create(const htc_env *env, const htc__kv_migration_options *options,
                                const htc__kv_migration_host *host, const htc__kv_map_move *move, uint64_t number,
                                htc_ns now, htc__kv_migration **out);
void       htc__kv_migration_destroy(htc__kv_migration *mover);

/* What an old owner, sealed, holds behind `after`: entries as below; last: there is nothing behind them. HTC_OK; HTC_EPROTO;
 * HTC_ECORRUPT: all have answered, and so many have damaged records of one key that nobody can say what it was; this, HTC_EFULL beyond
 * bytes_max and HTC_ENOMEM: this mover is of no use any more. */
htc_status htc__kv_migration_shown(htc__kv_migration *mover, htc_ns now, uint64_t from, htc_bytes after,
                               const htc__kv_floors *floors, htc_bytes entries, int last);
/* That old owner is sealed, and has lost what it held: it is one of the majority that nothing more can be final without, and what the others
 * hold counts if they are as many as meet every majority. As above. */
htc_status htc__kv_migration_lost(htc__kv_migration *mover, htc_ns now, uint64_t from);
/* The same of eventual keys: entries are {bytes key, bytes state}, without a state where the record is damaged. */
htc_status htc__kv_migration_shown_eventual(htc__kv_migration *mover, htc_ns now, uint64_t from, htc_bytes after, htc_bytes entries, int last);
/* A new owner has the first `pages` pages of the image of this mover's number. */
void   htc__kv_migration_installed(htc__kv_migration *mover, htc_ns now, uint64_t from, uint64_t number, uint32_t pages);
htc_status htc__kv_migration_timeout(htc__kv_migration *mover, htc_ns now); /* as shown */
htc_ns htc__kv_migration_deadline(const htc__kv_migration *mover);

/* Entries: {bytes key, bytes cell}, one after the other. An empty cell: whoever shows it has a damaged record of that key; read as one that
 * is not present. */
void htc__kv_entry_write(htc_buf *b, htc_bytes key, const htc__kv_cell *cell);
/* 0 at the end, or with r->status for what is none. *bytes: of the cell. */
int htc__kv_entry_read(htc_reader *r, htc_bytes *key, htc_bytes *bytes, htc__kv_cell *cell);
/* The same of an eventual key: its state, as in its cell behind the format. */
int htc__kv_eventual_entry_read(htc_reader *r, htc_bytes *key, htc_bytes *state);

#endif
