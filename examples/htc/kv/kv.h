/* What the files of `htc kv` share: the command's words, the store it speaks to. */
#ifndef HTC_EXAMPLES_KV_H
#define HTC_EXAMPLES_KV_H

#include "../htc.h"
#include "htcsched/kv_backup.h"
#include "htcsched/kv_store.h"
#include "htcsched/store.h"

#define KV_CLUSTER_MAX 16 /* members of a local cluster */

/* The subcommands. */
enum {
    KV_GET,
    KV_PUT,
    KV_DELETE,
    KV_APPEND,
    KV_ADD,
    KV_CAS,
    KV_SCAN,
    KV_WATCH,
    KV_BACKUP,
    KV_RESTORE,
    KV_FSCK,
    KV_DUMP,
    KV_MEMBERS,
    KV_JOIN,
    KV_LEAVE,
    KV_REPLACE,
    KV_REBALANCE,
    KV_UNDO,
    KV_RATE,
    KV_CLUSTER,
    KV_COMMANDS
};

typedef struct kv_call {
    cli        *c;
    htc_store  *store;
    char       *places; /* where it was opened; to be freed */
    words       w; /* behind the subcommand */
    const char *address, *key, *ring, *server, *password, *file, *seen; /* password: a file */
    double      timeout;        /* in seconds; -1: not given */
    int64_t     version, limit; /* -1: not given */
    double      ttl;            /* put, in seconds; -1: not given */
    uint32_t    replace, values, leased; /* leased: restore */
    uint32_t    without_spaces;          /* backup */
    const char *space, *context; /* --namespace; --context of a get there */
    uint32_t    reconcile;
    const char *engine, *durability; /* cluster */
    int64_t     members, base_port, shards; /* -1: not given */
    double      patience;                   /* in seconds; -1: not given */
    uint32_t    stop;
    uint32_t    buckets; /* members */
    const char *own_dir; /* fsck, dump: --dir; NULL: not given */
    const char *prefix;  /* watch */
    int64_t     count, from; /* watch; -1: not given */
    uint32_t    no_wait; /* join, leave, replace, rebalance, undo */
    int64_t     weight;  /* rebalance; -1: not given */
} kv_call;

const char *kv_name(uint32_t which);
/* Reads the options of one subcommand, and refuses those of the others; which KV_COMMANDS: --help of all of them. As opt_parse. */
htc_status kv_parse(kv_call *k, const command *cmd, uint32_t which, int argc, char **argv);
/* How a store at this address is reached: with whose keys, and how patiently. */
htc_store_options kv_reached(const kv_call *k, const char *address);
/* Opens the store at the places behind the first one, of several local ones. HTC_ENOTFOUND: there is no other. */
htc_status kv_turn_to_next(kv_call *k);
/* One request; a failure becomes the status and cli.error. HTC_MISMATCH is an answer. */
htc_status kv_ask(kv_call *k, const htc_kv_request *request, htc_kv_result *result);
/* The command line's word as a key: 1 to HTC_KV_KEY_MAX bytes. */
htc_status kv_key(kv_call *k, const char *word, htc_bytes *key);
/* {"key": ..., "value": ..., "version": ...}; what is no UTF-8 is in "key_hex", "value_hex". value NULL: none. */
json_t *kv_json(htc_bytes key, const htc_bytes *value, uint64_t version);

/* Under its name as text where it is text, else in hexadecimal under NAME_hex. */
void kv_put_bytes(json_t *o, const char *name, htc_bytes bytes);
/* get, put and delete with --namespace; value: of the put. */
htc_status kv_space_get(kv_call *k, htc_bytes key);
htc_status kv_space_change(kv_call *k, uint32_t op, htc_bytes key, htc_bytes value);

/* The next value of a key that a backup has in a namespace; first: of its key. *keep: the key is there already and stays as it is, set
 * by the first value for the others. */
htc_status kv_space_restore(kv_call *k, htc_bytes space, htc_bytes key, htc_bytes value, int first, int *keep);

/* A backup that is written to a file item by item; bytes is to be freed. Each answers 1, or 0 with errno. */
typedef struct kv_writer {
    FILE                *f;
    htc_kv_backup_counts counts;
    htc_buf              bytes;
} kv_writer;

/* A new file for what a store holds: for nobody else to read. NULL with errno: it exists, or cannot be made. */
FILE *kv_create(const char *path);

int kv_writer_begin(kv_writer *w, FILE *f);
int kv_writer_put(kv_writer *w, const htc_kv_backup_item *item);
int kv_writer_end(kv_writer *w);

/* All that eventual namespaces hold. *ok: as of kv_writer_put. */
htc_status kv_backup_spaces(kv_call *k, kv_writer *w, int *ok);

htc_status kv_backup(kv_call *k);
htc_status kv_restore(kv_call *k);
htc_status kv_fsck(kv_call *k);
htc_status kv_dump(kv_call *k);
htc_status kv_members(kv_call *k);
htc_status kv_watch(kv_call *k);
htc_status kv_join(kv_call *k);
htc_status kv_leave(kv_call *k);
htc_status kv_replace(kv_call *k);
htc_status kv_rebalance(kv_call *k);
htc_status kv_undo(kv_call *k);
htc_status kv_rate(kv_call *k);
htc_status kv_cluster(kv_call *k); /* k->store is not used */

#endif
