/* The cluster map as a value: who the members are, who owns which bucket, and the change that is under way.
 *
 * The map is one strong register. Each function here is one step of it: read the map, apply a step, write it back by
 * compare-and-swap; whoever loses reads again. A change of membership (join, leave, replace, another weight) goes batch
 * after batch of buckets, each by a mover with a number that is never used twice:
 *
 *     begin ──▶ take ──▶ (seal, read, install: kvs/map/bucket_state.h, kvs/migrate/migration_batch.h) ──▶ activate ──▶ ... next batch ... ──▶ done
 *                 │ anyone, with the next number            │
 *                 └──────── roll back: what has moved goes back the same way ◀──┘
 *
 * The number of the mover whose image is activated is the bucket's new epoch: ballots and messages carry it, so all that was
 * said before is older. Rolled back, the old owners go on under a new epoch too, with the image they have.
 *
 * Buckets are also renewed, where an owner has lost what it had promised and accepted of some keys (migrate/repair.c): then they go from
 * their owners to the same ones, by the same steps, and all that was promised before counts for nothing any more. Rolled back, that is over.
 *
 * A batch is some buckets that follow each other, and one step moves all of them or none. Each has an image of its own, by that number
 * and the bucket. Whoever takes over says how many it takes: what the one before had begun beyond that goes on with its
 * old owners under a new epoch, as if it had been rolled back.
 *
 * Only the table before a change is stored: the one after it is computed, everywhere alike (htcsched/ring.h). A bucket whose owners
 * only change their order has nothing to move and is never sealed. */
#ifndef HTC_KVS_MAP_H
#define HTC_KVS_MAP_H

#include "core/codec.h"
#include "htcsched/ring.h"
#include "kvs/wire/limits.h"

#define HTC__KV_MAP_FORMAT     2
#define HTC__KV_MAP_NAMESPACES 64
#define HTC__KV_MAP_NAME       32
#define HTC__KV_MAP_RENEWED    64 /* buckets in one change */
#define HTC__KV_MAP_NUMBERS    (UINT64_MAX >> (HTC__KV_MAP_BITS + 1)) /* a number and a bucket are one word (migrate/buckets.c) */

typedef enum htc__kv_change_kind {
    HTC__KV_STAY,
    HTC__KV_JOIN,
    HTC__KV_LEAVE,
    HTC__KV_REPLACE,
    HTC__KV_REWEIGHT,
    HTC__KV_BACK, /* a wish alone: what is under way is rolled back */
    HTC__KV_RATE, /* a wish alone: how many buckets move in a minute */
    HTC__KV_RENEW /* some buckets get a new epoch and an image that all their owners take */
} htc__kv_change_kind;

typedef struct htc__kv_map_member {
    uint64_t id; /* drawn into a fresh directory, never configured */
    uint64_t process, domain;
    uint32_t weight;
    char     address[HTC__KV_MAP_ADDRESS];
} htc__kv_map_member;

typedef enum htc__kv_map_durability { HTC__KV_MEMORY, HTC__KV_SYNC, HTC__KV_INTERVAL } htc__kv_map_durability;

typedef struct htc__kv_map_namespace {
    char     name[HTC__KV_MAP_NAME];
    uint8_t  eventual, durability; /* htc__kv_map_durability */
    uint32_t n, r, w;              /* the first n of a bucket's owners; r and w only where it is eventual */
    htc_ns   interval;             /* HTC__KV_INTERVAL */
} htc__kv_map_namespace;

typedef struct htc__kv_map_bucket {
    uint64_t epoch; /* its owners last changed, or went on, with this number */
    uint64_t image; /* the number of the image that counts; 0: the empty one of the beginning */
} htc__kv_map_bucket;

typedef struct htc__kv_map_own {
    uint32_t n;
    uint64_t id[HTC_RING_OWNERS_MAX];
} htc__kv_map_own;

typedef struct htc__kv_map {
    const htc_env         *env;
    uint64_t               seed;    /* of places (kvs/util/place.h) */
    uint64_t               numbers; /* the last mover number and epoch given out; only grows */
    htc_ring              *before;  /* the table; of buckets from `moved` on while there is a change */
    htc_ring              *after;   /* of buckets below `moved`; NULL: no change is under way */
    uint8_t                kind;    /* htc__kv_change_kind */
    uint8_t                back;    /* rolled back: what has moved goes back */
    uint64_t               leaver;  /* LEAVE, REPLACE, REWEIGHT: whom it is about; RENEW: who has asked for it */
    htc__kv_map_member     comer;   /* JOIN, REPLACE; REWEIGHT: only the weight */
    uint32_t               moved;   /* the border */
    uint64_t               mover;   /* at work on the batch that is next; 0: nobody yet */
    uint32_t               until;   /* that batch is what changes hands between the border and here; without a mover: the border */
    uint32_t               renewed; /* RENEW: so many, in ascending order */
    uint32_t               renew[HTC__KV_MAP_RENEWED];
    uint32_t               rate;    /* buckets a minute that movers may move; 0: as they can */
    uint32_t               members, namespaces;
    htc__kv_map_member    *member;
    size_t                 member_room;
    htc__kv_map_namespace *space;
    htc__kv_map_bucket    *bucket;
    uint64_t               own_epoch;     /* of the map itself */
    htc__kv_map_own        own, own_next; /* next.n 0: it stays where it is */
} htc__kv_map;

/* What is to be moved now. */
typedef struct htc__kv_map_move {
    uint32_t bucket;
    uint64_t epoch, image; /* of the old owners */
    uint64_t mover;        /* 0: take it first */
    uint32_t from_n, to_n;
    uint64_t from[HTC_RING_OWNERS_MAX], to[HTC_RING_OWNERS_MAX];
} htc__kv_map_move;

/* A store of these members, which keep the map too; the same whatever order they are named in. HTC_OK; HTC_EINVAL; HTC_EEXISTS;
 * HTC_ENOMEM. */
htc_status htc__kv_map_create(const htc_env *env, uint64_t seed, uint32_t bits, uint32_t owners,
                              const htc__kv_map_member *members, uint32_t count, htc__kv_map **out);
void       htc__kv_map_destroy(htc__kv_map *map);

void htc__kv_map_encode(htc_buf *b, const htc__kv_map *map);
/* HTC_EPROTO, HTC_EVERSION, HTC_ENOMEM. */
htc_status htc__kv_map_decode(const htc_env *env, htc_bytes bytes, htc__kv_map **out);

const htc__kv_map_member *htc__kv_map_find(const htc__kv_map *map, uint64_t id);
/* The owners of a bucket as it is now, in order; how many. */
uint32_t htc__kv_map_owners(const htc__kv_map *map, uint32_t bucket, uint64_t *ids);
/* How far the change that is under way has come, in buckets; 0 of 0: there is none. */
void htc__kv_map_progress(const htc__kv_map *map, uint32_t *moved, uint32_t *of);
/* 1 and the move that is next; 0: nothing moves. */
int htc__kv_map_next(const htc__kv_map *map, htc__kv_map_move *move);
/* 1 and the first move of the mover's batch in a bucket from `from` on; 0: there is none. */
int htc__kv_map_batch(const htc__kv_map *map, uint32_t from, htc__kv_map_move *move);

/* The steps. All answer HTC_EBUSY while a change is under way (begin) or while the map itself moves; HTC_ENOMEM; the map is as it
 * was on failure. Changes go one at a time. */
htc_status htc__kv_map_begin_join(htc__kv_map              *map,
                                  const htc__kv_map_member *member); /* HTC_EINVAL, HTC_EEXISTS, HTC_EFULL */
htc_status htc__kv_map_begin_leave(htc__kv_map *map, uint64_t id);   /* HTC_ENOTFOUND, HTC_EINVAL */
htc_status htc__kv_map_begin_replace(htc__kv_map *map, uint64_t id, const htc__kv_map_member *with);
htc_status htc__kv_map_begin_reweight(htc__kv_map *map, uint64_t id, uint32_t weight);
/* That member has asked for it. HTC_ENOTFOUND; HTC_EINVAL: these are no buckets in ascending order, or too many. */
htc_status htc__kv_map_begin_renew(htc__kv_map *map, uint64_t id, const uint32_t *buckets, uint32_t count);
/* Become the mover of the next buckets, `most` (at least 1) or as many as are left, or take over from one that is dead or slow.
 * HTC_ENOTFOUND: nothing moves. */
htc_status htc__kv_map_take(htc__kv_map *map, uint32_t most, uint64_t *number);
/* The images of that number count from now on; the next batch has no mover yet. HTC_MISMATCH: another has taken over. */
htc_status htc__kv_map_activate(htc__kv_map *map, uint64_t number);
/* The old owners of the batch go on under a new epoch, and what has moved goes back; of RENEW what is renewed stays so. HTC_MISMATCH. */
htc_status htc__kv_map_roll_back(htc__kv_map *map, uint64_t number);
htc_status htc__kv_map_add_namespace(htc__kv_map                 *map,
                                     const htc__kv_map_namespace *space); /* HTC_EEXISTS, HTC_EFULL, HTC_EINVAL */

/* The map's own owners. Once next owners are named, no other step is taken: naming the same again is. When so many of the old
 * ones are sealed that every majority of them has one (migrate/bucket_migration.c) and a majority of the next holds the value, these serve it in a new epoch (settle), and the sealed ones answer with
 * who they are. */
/* Who should keep the map: those that do, without one member (0: with all), and others until they are as many as keep a bucket. */
void       htc__kv_map_wanted(const htc__kv_map *map, uint64_t without, htc__kv_map_own *own);
htc_status htc__kv_map_name_next(htc__kv_map *map, const htc__kv_map_own *next);
htc_status htc__kv_map_settle(htc__kv_map *map);

#endif
