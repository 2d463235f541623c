/* The face of Redis' clients: bytes of RESP in, bytes out, in the order of the requests whatever the order of the
 * backend's answers. What it needs of the backend is that changes and reads of one key, asked for one after another, take
 * effect in that order. */
#ifndef HTC_KVS_RESP_H
#define HTC_KVS_RESP_H

#include "htcsched/machine.h"
#include "kvs/cell/face.h"

typedef struct htc__resp htc__resp;

/* Every field's zero is its default. */
typedef struct htc__resp_options {
    uint32_t  connections_max; /* 0: 65536 */
    uint32_t  pending_max; /* requests of a connection that wait for the backend; 0: 4096. Beyond it is not read from */
    size_t    output_max;  /* bytes of answers of a connection that make it wait; 0: 1 MiB */
    size_t    output_all;  /* of all connections, until they have left: beyond it long values are not read; 0: 96 MiB */
    size_t    request_max; /* of one request; 0: 64 MiB */
    size_t    input_max;   /* of the unfinished requests and transactions of all connections: beyond it who holds most for longest is ended; 0: 256 MiB */
    htc_bytes password;    /* none: everybody may ask; copied, at most 512 bytes */
    uint32_t  flush;       /* 1: FLUSHALL and FLUSHDB are allowed */
    size_t     value_max;  /* no value is longer; 0: HTC_KV_VALUE_MAX */
    const char *engine;    /* for INFO; kept; NULL: memory */
    uint32_t  durability;  /* for INFO and CONFIG GET, htc_kv_durability; 0: nothing outlives the process */
} htc__resp_options;

typedef struct htc__resp_stats {
    uint64_t connections, received, commands, refused;
    uint64_t unfinished;    /* ended for holding much of a request, or of a transaction, for long */
    uint64_t sent, input;   /* bytes */
    uint64_t hits, misses;  /* of GET and MGET */
} htc__resp_stats;

htc_status htc__resp_create(const htc_env *env, const htc__resp_options *options, htc__kv_backend backend,
                            htc__resp **out);
void       htc__resp_destroy(htc__resp *f); /* NULL is fine */

/* When the store began: for INFO. */
void htc__resp_start(htc__resp *f, htc_ns now);

/* 1: the connection with this number is one of its. */
int htc__resp_owns(const htc__resp *f, uint32_t peer);
/* HTC_IN_OPENED, HTC_IN_CLOSED, HTC_IN_BYTES and HTC_IN_SENT of its connections. HTC_OK, or the machine is broken. */
htc_status htc__resp_input(htc__resp *f, const htc_input *in, htc_output *out);
/* At the end of each step, or of a turn: what was answered leaves, who waited goes on. */
htc_status htc__resp_flush(htc__resp *f, htc_ns now, htc_ns wall, htc_output *out);
/* 1: flush has more to do, at once. */
int  htc__resp_more(const htc__resp *f);
void htc__resp_stats_get(const htc__resp *f, htc__resp_stats *stats);

#endif
