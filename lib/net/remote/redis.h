/* What the files of the Redis adapter share:
 *
 *   redis.c       the connection: dialled, greeted, written, read, given up
 *   redis_ask.c   what a request asks of Redis, and what its replies mean */
#ifndef HTC_NET_STORES_REDIS_H
#define HTC_NET_STORES_REDIS_H

#include <hiredis/hiredis.h>

#include "net/remote/window.h"

#define PREFIX_MAX 64
#define SHA_LEN    40

enum { SWAP_SCRIPT, PAGE_SCRIPT, RENEW_SCRIPT, SCRIPTS };
extern const char *const htc__redis_scripts[SCRIPTS];

typedef struct owed {
    htc__ask *ask; /* NULL: nobody waits for it */
} owed;

typedef struct redis {
    htc_env       env;
    htc__window   window;
    redisContext *context; /* NULL: no connection */
    char          sha[SCRIPTS][SHA_LEN + 1];
    owed         *fifo; /* of asks whose command was sent, in order */
    size_t        fifo_first, fifo_count, fifo_cap;
    htc_ns        redial, pause;
    uint64_t      dials; /* connections made so far */
    char         *host, *path, *password;
    uint16_t      port;
    uint32_t      durable; /* it has to keep what it has answered */
    char          prefix[PREFIX_MAX + 1];
    htc_buf       scratch, record;
} redis;

/* Send the first command of an ask; what cannot be done is answered at once. */
htc_status htc__redis_begin(redis *r, htc__ask *ask);
/* The next reply is ask's (NULL: nobody waits for it). HTC_AGAIN: the connection has to begin anew. */
htc_status htc__redis_take(redis *r, htc__ask *ask, const redisReply *reply);
/* What an error says. */
htc_status htc__redis_meaning(const char *text);

static inline int is_text(const redisReply *reply)
{
    return reply->type == REDIS_REPLY_STRING || reply->type == REDIS_REPLY_STATUS;
}

static inline int is_array(const redisReply *reply, size_t least)
{
    return reply->type == REDIS_REPLY_ARRAY && reply->elements >= least;
}

#endif
