/* What a member stores: bytes under a name. The first byte of a name says what a record is; this is the one place that says which there are.
 *
 *   in a store of one member         in a store of several
 *   k KEY       the cell of a key                the same
 *   m           clock, floor, keys               its format alone
 *   t VERSION   the key of a tombstone           t KEY: it is a tombstone
 *   e KEY       the key has an end (ttl)         the same
 *   l LEASE     a lease                          (cells of their own: replica/lease.c)
 *   b LEASE KEY the key is bound to the lease    the same
 *                                    c           who this member is, and how far its numbers are reserved
 *                                    p           the map
 *                                    v BUCKET    the floors of a bucket
 *                                    o BUCKET    what is remembered of a bucket
 *                                    g           the buckets that it has held from the store's beginning
 *                                    i AREA KEY  what has arrived of a bucket, and does not count yet
 *                                    j AREA      its floors
 *                                    y AREA KEY  what is being copied of a bucket
 *                                    n KEY       the siblings of an eventual key
 *                                    h MEMBER KEY that member lacks something of the eventual key
 *                                    q           the floor of this member's eventual numbers
 *
 * VERSION, LEASE, BUCKET, AREA and MEMBER are eight bytes, the high one first. An area is a bucket and a number (kvs/migrate/buckets.h). An
 * engine has one record more of its own: f, its format (net/storage/lmdb.c). */
#ifndef HTC_KVS_SCHEMA_H
#define HTC_KVS_SCHEMA_H

#include <string.h>

#include "htcsched/bytes.h"
#include "htcsched/kv_engine.h"

#define HTC__SCHEMA_CELL      'k'
#define HTC__SCHEMA_META      'm'
#define HTC__SCHEMA_TOMBSTONE 't'
#define HTC__SCHEMA_END       'e'
#define HTC__SCHEMA_LEASE     'l'
#define HTC__SCHEMA_BOUND     'b'
#define HTC__SCHEMA_IDENTITY  'c'
#define HTC__SCHEMA_MAP       'p'
#define HTC__SCHEMA_FLOORS    'v'
#define HTC__SCHEMA_BUCKET    'o'
#define HTC__SCHEMA_FIRST     'g'
#define HTC__SCHEMA_ARRIVED   'i'
#define HTC__SCHEMA_ARRIVED_FLOORS 'j'
#define HTC__SCHEMA_COPIED    'y'
#define HTC__SCHEMA_SIBLINGS  'n'
#define HTC__SCHEMA_HINT      'h'
#define HTC__SCHEMA_EVENTUAL  'q'
#define HTC__SCHEMA_FORMAT    'f'

/* Of the record of siblings: its first byte. */
#define HTC__SCHEMA_SIBLINGS_FORMAT 1

typedef struct htc__kv_name {
    size_t  len;
    uint8_t data[HTC_KV_ENGINE_KEY_MAX];
} htc__kv_name;

/* number: eight bytes behind the first one; NULL: none. */
htc__kv_name htc__kv_name_of(char kind, const uint64_t *number, htc_bytes key);
uint64_t     htc__kv_name_number(htc_bytes name); /* the eight bytes after the first; 0 if they are not there */

/* Of a user's key. Its bytes are not cleared: they are many, and few are used. */
static inline void htc__kv_name_key(htc__kv_name *name, htc_bytes key)
{
    name->len = 1 + key.len;
    name->data[0] = HTC__SCHEMA_CELL;
    if (key.len)
        memcpy(name->data + 1, key.data, key.len);
}

static inline htc_bytes htc__kv_name_bytes(const htc__kv_name *name)
{
    return (htc_bytes){ name->data, name->len };
}

static inline int htc__schema_is(htc_bytes name, char kind)
{
    return name.len > 0 && *(const char *)name.data == kind;
}

/* The name that is this byte alone: of a record that there is once, or where those of a kind begin. */
static inline htc_bytes htc__schema_name(char kind)
{
    return (htc_bytes){ &"abcdefghijklmnopqrstuvwxyz"[kind - 'a'], 1 };
}

#endif
