/* Uploads that tasks of this site read: brought from the gateway once, kept while there is room, given to those who may read them.
 *
 * A part of the machine of a host that has joined. What is asked for together is brought together (roles/objects): all of it is here at once, or
 * it is said why not. Each that is here is given to the user whose task wants it, as an upload of that user's at this site (HTC_CALL_OBJECT_GIVE);
 * whoever knows a hash has nothing by it. What two users have is brought and kept twice, under a name for each that the gateway says: neither learns of the
 * other by a hit or a second link, and what one of them has put under the other's hash is that one's trouble alone.
 *
 * Bounds: the cache by bytes; what is brought at once; what is asked for at once (HTC_EBUSY beyond). */
#ifndef HTC_ROLES_JOINED_CONTENT_H
#define HTC_ROLES_JOINED_CONTENT_H

#include "htcsched/runtime.h"

typedef struct joined_content joined_content;

typedef struct joined_content_options {
    void    *role; /* first argument of answer */
    /* The answer to htc__joined_content_fetch, once. */
    void   (*answer)(void *role, uint32_t connection, uint32_t tag, htc_status status, htc_bytes body);
    uint32_t peer;        /* of the gateway */
    uint64_t cache_bytes; /* 0: 1 GiB */
    uint32_t fetches;     /* at once; 0: 8 */
} joined_content_options;

/* HTC_OK; HTC_ENOMEM. runtime: kept. */
htc_status htc__joined_content_create(const htc_env *env, htc_runtime *runtime, const joined_content_options *options, joined_content **out);
void       htc__joined_content_destroy(joined_content *c); /* calls nothing back; NULL is fine */
void       htc__joined_content_start(joined_content *c);   /* in the first step */
/* The body of HTC_CALL_CONTENT_FETCH. */
void       htc__joined_content_fetch(joined_content *c, uint32_t connection, uint32_t tag, htc_bytes body);
/* OBJECT_BYTES, OBJECT_NONE of the gateway; r stands at the payload. */
void       htc__joined_content_heard(joined_content *c, uint16_t type, htc_reader *r);
void       htc__joined_content_closed(joined_content *c);
/* At the end of each step, and when the deadline has passed. in: the gateway may be asked. */
void       htc__joined_content_run(joined_content *c, htc_ns now, int in);
htc_ns     htc__joined_content_deadline(const joined_content *c);

#endif
