/* Eventual namespaces of a store of several members: a key is held by N owners as siblings (siblings.h), which any of them may change
 * by itself, and which are merged wherever they meet.
 *
 *     a face asks ──▶ this member is an owner: it coordinates ──▶ STORE, FETCH to the others ──▶ W have it, R have answered
 *                 └─▶ it is none: PASS to one of them, PASSED back; to the next one after a while
 *
 * A put: the owner advances its own line in the key's clock and stores that; only then does it leave for the others, so that no number of
 * a line is ever used twice. It is answered when W owners have it, this one among them, and said again to those that have not, until
 * they have it, or it is noted for whom it is (eventual/hinted_handoff.c). A get is answered when R owners have answered, and mends
 * those that turn out to lack something. What both miss is found by comparing hash trees (eventual/anti_entropy.c).
 *
 *   eventual/coordinator.c          requests, from when they are asked until they are answered
 *   eventual/replica.c    what this owner holds: reading, merging, and the index by which buckets are compared
 *   eventual/hinted_handoff.c    changes that an owner lacks which was away
 *   eventual/anti_entropy.c  owners compare what they hold, bucket after bucket
 *   eventual/deletion_gc.c  deletions are forgotten
 *   eventual/migration.c     buckets move, and their eventual keys with them
 *   eventual/orphan_handoff.c    records that this member holds and owns no more
 *   eventual/recovery.c     records that are damaged
 *   eventual_wire.h     what they say to each other
 *
 * All that is said of a key names its bucket's epoch, and an owner does it only while it serves the bucket in that one (kvs/map/bucket_state.h): who is
 * sealed acknowledges nothing more. A request that meets another epoch is begun anew with the owners of that.
 *
 * Records (kvs/storage/schema.h): n KEY: u8 format, siblings; h MEMBER KEY, no value; q: u8 format, varint: every number of this member's lines
 * in what it has forgotten is at most this one. KEY: name of the namespace, a zero byte, the user's key. */
#ifndef HTC_KVS_EVENTUAL_H
#define HTC_KVS_EVENTUAL_H

#include "kvs/replica/cluster_private.h"
#include "kvs/peer/eventual_wire.h"
#include "kvs/migrate/bucket_migration.h"
#include "kvs/cell/siblings.h"

#define HTC__KV_EVENTUAL_FORMAT HTC__SCHEMA_SIBLINGS_FORMAT /* of siblings, and of the floor */
#define HTC__KV_SPACES_MAX      64

typedef struct htc__kv_space {
    uint8_t  len;
    uint8_t  name[HTC_KV_SPACE_MAX];
    uint32_t n, r, w;
} htc__kv_space;

/* Of a bucket with so many owners: n of these hold a key, r answer a read, w a change. */
typedef struct htc__kv_quorum {
    uint32_t n, r, w;
} htc__kv_quorum;

/* A request, or something that this member does by itself, while it waits for other owners. */
typedef struct htc__kv_seeking {
    htc__wheel_entry    entry; /* first: the wheel knows nothing else */
    uint64_t            tag;
    const htc__kv_face *face;       /* NULL: passed on by another member, or of nobody */
    uint64_t            conn, slot; /* of the face; else the member and its tag; conn 0: nobody waits */
    htc__kv_stamp       stamp;
    htc_kv_request      q;   /* its bytes are in bytes */
    htc_bytes           key; /* of the cell */
    uint8_t             answered, passed, collects, leaves, mends;
    uint8_t             stored;    /* a put: it has its number */
    uint8_t             client;    /* one has asked for it here */
    size_t              flies;     /* then: so many bytes that are in work for it */
    uint8_t             parked;    /* it waits for its bucket to be served here */
    uint32_t            bucket;
    uint64_t            epoch;     /* of the bucket, whose owners these are */
    uint32_t            n, need;   /* owners; how many have to answer */
    uint32_t            has, said; /* a bit for each: it has it, it has answered */
    uint32_t            attempt;
    uint64_t            owner[HTC_RING_OWNERS_MAX], digest[HTC_RING_OWNERS_MAX]; /* digest: of what it has answered */
    uint64_t            target;                                                  /* who coordinates, if passed */
    uint64_t            counter, serial; /* of the put's dot; of the hint that is handed over */
    htc_ns              arrived, pause, until;
    htc_buf             state; /* a get: what is known so far; a put: its context */
    uint8_t            *bytes;
    size_t              size;
} htc__kv_seeking;

/* Of a record that cannot be read; of no other. */
#define HTC__KV_DAMAGED 2

/* What is known of a record without looking at it; by bucket, leaf and key. */
typedef struct htc__kv_indexed {
    uint64_t digest;
    htc_ns   since; /* it holds nothing but deletions; HTC_NEVER: it does */
    uint32_t rests; /* all its owners that are heard have it, and they are too few: not offered again while that is hearings */
    uint8_t  going; /* it is being handed over to its owners */
    uint8_t  in_vain; /* one of them was heard, and has not answered: perhaps it is sealed */
} htc__kv_indexed;

typedef struct htc__kv_index_name {
    size_t  len;
    uint8_t data[5 + HTC_KV_KEY_MAX];
} htc__kv_index_name;

/* For monitors. */
typedef struct htc__kv_eventual_counts {
    uint64_t handed_over, left_out; /* hints */
    uint64_t mended, compared, copied, forgotten, conflicts;
    uint64_t repaired; /* damaged records */
    uint64_t left; /* records that went to their owners, this member being none any more */
} htc__kv_eventual_counts;

typedef struct htc__kv_eventual {
    htc__kv_space           space[HTC__KV_SPACES_MAX];
    uint32_t                spaces;
    htc__table              seeking; /* by tag */
    htc__wheel              wheel;
    size_t                  held_bytes; /* by what waits */
    uint64_t                last_tag, last_serial;
    uint64_t                floor; /* see cell q */
    htc__table              index; /* by htc__kv_index_name: htc__kv_indexed */
    htc__table              hints; /* by member and key: eventual/hinted_handoff.c */
    htc_ns                  hints_at;
    uint32_t                handing_over;
    uint32_t                next_bucket; /* that is compared, or the first behind it that something is held of */
    uint32_t                hurried;     /* so many are compared without the full pause */
    htc_ns                  compare_at;
    uint64_t                deleted; /* records that hold nothing but deletions */
    uint32_t                collecting;
    htc_ns                  collect_at;
    htc__kv_index_name      looked_at; /* eventual/deletion_gc.c; empty: it begins anew */
    htc__kv_migration_eventual  mover;
    uint64_t                settled;     /* as htc__kv_peer.settled, of this member */
    uint64_t                leaving_map; /* the version of the map by which it looks for records of others, plus one */
    uint32_t                leaving_at;  /* the bucket that it looks at next */
    int                     unsettled;   /* it has found some in this round */
    uint32_t                leaving;     /* records that are being handed over */
    uint64_t                others, others_seen; /* records that only others own, in the last round, and in this one so far: offered or resting */
    uint32_t                hearings;    /* one more with each map, and when an owner is heard again that one of them lacked */
    htc_ns                  leave_at, leave_pause, settled_said_at;
    htc__table              damaged;      /* records that cannot be read: eventual/recovery.c */
    uint64_t                floor_loaded; /* above all numbers in those that could not when the member started; 0: there were none */
    uint32_t                mending;      /* of them that the other owners are asked for */
    uint32_t                damaged_said;
    htc__kv_index_name      mend_next; /* that is looked at; empty: the first */
    htc_ns                  mend_at;
    htc__kv_eventual_counts counts;
    htc__siblings           a, b, c; /* what is worked with: they are large */
    htc_buf                 bytes, other;
} htc__kv_eventual;

/* ---- what replica/ and migrate/ call ---- */

/* As htc__kv_backend.ask, of a request that names a namespace. */
int        htc__kv_eventual_ask(htc_kv_server *s, const htc_kv_request *q, const htc__kv_stamp *stamp,
                                const htc__kv_face *face, uint64_t conn, uint64_t slot, htc_kv_result *result);
/* Of HTC_KV_COUNT, and of HTC_KV_SCAN, with HTC_KV_EVENTUAL: what this member holds. */
void       htc__kv_eventual_count(htc_kv_server *s, htc_kv_result *result);
void       htc__kv_eventual_list(htc_kv_server *s, const htc_kv_request *q, htc_kv_result *result);
/* A member that is let in gets its first map. It may hold records all the same: of an earlier life that ended before its map was stored. */
htc_status htc__kv_eventual_map_known(htc_kv_server *s);
htc_status htc__kv_eventual_undone(htc_kv_server *s);                        /* what was staged is gone */
void       htc__kv_eventual_metrics(const htc_kv_server *s, htc_metrics *m); /* eventual/metrics.c */

/* ---- between these files ---- */

/* eventual/coordinator.c. The one place that knows where namespaces come from. NULL: there is none of that name. */
const htc__kv_space *htc__kv_space_of(const htc_kv_server *s, htc_bytes name);
/* With m owners of a bucket, fewer than the namespace wants: as large a part of them, rounded up. So R + W > N stays true. */
htc__kv_quorum htc__kv_space_quorum(const htc__kv_space *space, uint32_t m);
/* Which n of the owners of a bucket hold a namespace's keys: these, whatever order they are named in, as long as they are the same. */
void htc__kv_space_pick(uint32_t n, uint32_t bucket, const uint64_t *ids, uint32_t m, uint64_t *owner);
/* Does this member answer for the keys of that bucket now? */
int htc__kv_space_serves(htc_kv_server *s, uint32_t bucket);
/* The owners of a key (of a cell) by its namespace; how many, 0: there is no such namespace here. *mine: this member's place, or n. */
uint32_t         htc__kv_space_owners(const htc_kv_server *s, htc_bytes key, uint64_t *owner, uint32_t *mine);
htc__kv_seeking *htc__kv_seeking_make(htc_kv_server *s, const htc_kv_request *q, htc_bytes key); /* NULL: no memory */
htc__kv_seeking *htc__kv_seeking_find(const htc_kv_server *s, uint64_t tag);
void             htc__kv_seeking_end(htc_kv_server *s, htc__kv_seeking *x);
int              htc__kv_seeking_late(const htc_kv_server *s, const htc__kv_seeking *x); /* its owners are those of a past epoch */
/* What it knows knows that state too. HTC_EPROTO, HTC_EFULL, HTC_ENOMEM. */
htc_status htc__kv_seeking_learn(htc_kv_server *s, htc__kv_seeking *x, htc_bytes state);
/* An item to another owner; late: once what is staged now is stored. */
void htc__kv_copy_say(htc_kv_server *s, uint64_t to, uint8_t kind, const htc__kv_copy *copy, int late);

/* eventual/replica.c. state: bytes as in the cell without the format; lent until the next read or stage. */
htc_status htc__kv_backlog_state(htc_kv_server *s, htc_bytes key, htc_bytes *state); /* HTC_ENOTFOUND; HTC_ECORRUPT */
/* 0 for no bytes. */
uint64_t   htc__kv_state_digest(htc_bytes state);
htc_status htc__kv_eventual_hold(htc_kv_server *s, htc_bytes key, const htc__siblings *siblings); /* stage it, and the index */
htc_status htc__kv_forget(htc_kv_server *s, htc_bytes key);
/* What is held, or what comes in, is to know all that the other does. HTC_EFULL, HTC_EPROTO: it stays as it was. */
htc_status htc__kv_take_in(htc_kv_server *s, htc_bytes key, htc_bytes state);
/* Say what is held of the key to that member, once it is stored. */
void htc__kv_say_state(htc_kv_server *s, uint64_t to, uint64_t tag, htc_bytes key);
/* This member owns the key, and serves it in the epoch that is named. Whoever is behind is told. */
int  htc__kv_eventual_answers(htc_kv_server *s, uint64_t from, const htc__kv_copy *copy);
void htc__kv_on_fetch(htc_kv_server *s, uint64_t from, const htc__kv_copy *copy);
void htc__kv_on_store(htc_kv_server *s, uint64_t from, const htc__kv_copy *copy);
/* The place of a record in the index. */
void       htc__kv_index_name_of(const htc_kv_server *s, htc_bytes key, htc__kv_index_name *name);
htc_status htc__kv_index_load(htc_kv_server *s);
/* The floor that is raised in memory, into the open batch. HTC_EBUSY, HTC_ENOSPC: there is no room. */
htc_status htc__kv_eventual_floor_keep(htc_kv_server *s);
htc__node *htc__kv_index_seek(const htc_kv_server *s, uint32_t bucket); /* the first record of that bucket or of one behind it */
/* A damaged record goes; or that takes its place, if it is anything. HTC_EBUSY: not now. */
htc_status htc__kv_lose(htc_kv_server *s, htc_bytes key);
htc_status htc__kv_recovered(htc_kv_server *s, htc_bytes key, htc_bytes state);

static inline htc_bytes htc__kv_index_bytes(const htc__kv_index_name *name)
{
    return (htc_bytes){ name->data, name->len };
}

static inline uint32_t htc__kv_index_bucket(const htc__node *record)
{
    const uint8_t *at = htc__node_key(record).data;
    return (uint32_t)at[0] << 24 | (uint32_t)at[1] << 16 | (uint32_t)at[2] << 8 | at[3];
}

static inline htc_bytes htc__kv_index_key(const htc__node *record)
{
    htc_bytes name = htc__node_key(record);
    return (htc_bytes){ (const uint8_t *)name.data + 5, name.len - 5 };
}

#endif
