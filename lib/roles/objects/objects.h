/* The objects that a worker has, wants and hands out: what tasks made and others read.
 *
 * An object is the content of one output, known by its hash. It is here because a task made it here (then it is pinned: kept while its flow
 * runs), or because it was fetched from a worker that has it (then it is cached: kept while there is room). A task names all that it
 * reads in one want. Wants are let in one after the other, each when there is room for all of its objects, so none waits
 * for what another one holds. What is wanted by several is fetched once. It is asked for in pieces, of all workers that have it at
 * once, and is here when its hash has been found to be right.
 *
 * This is a part of a machine, not one by itself: it asks, calls and sends through its owner's runtime. The owner hands it the messages
 * OBJECT_*, says who is gone, and runs it at the end of each step. Nothing is called back but from htc__objects_run, and `made` from an
 * answer of the host.
 *
 * Bounds: the cache by bytes and by number, objects fetched at once, pieces under way for one object and for all, pieces read for others. */
#ifndef HTC_ROLES_OBJECTS_H
#define HTC_ROLES_OBJECTS_H

#include "htcsched/runtime.h"
#include "roles/runtime/agent_wire.h"
#include "roles/runtime/objects_wire.h"

#define OBJECT_INPUTS_MAX  2048 /* objects of one want */
#define OBJECT_SOURCES_MAX 16   /* workers that are asked for one object */

typedef struct htc__objects htc__objects;

typedef struct htc__objects_options {
    htc_runtime *runtime; /* the owner's; kept */
    void        *role;    /* first argument of what follows */
    uint64_t     self;    /* this worker: it is not asked */
    uint64_t     scope;   /* of the flow: nobody asks those of another one */
    /* Which connection leads to a worker; 0: none now. */
    uint32_t (*peer_of)(void *role, uint64_t worker);
    /* A want is decided. HTC_OK: all of it is here until it is released. Else the want is over, because of its object `which`: HTC_ELOST:
     * no worker has it any more, whoever made it has to make it again; HTC_ENOSPC, HTC_EIO: the node's fault. */
    void (*ready)(void *role, uint64_t want, htc_status status, uint32_t which);
    /* What htc__objects_made was told is kept (HTC_OK), or could not be. NULL: nobody wants to know. */
    void    (*made)(void *role, const uint8_t hash[32], htc_status status);
    uint64_t cache_bytes;  /* of what is not pinned; 0: 1 GiB */
    uint32_t fetches;      /* objects at once; 0: 8 */
    htc_ns   piece_ns;     /* without the piece: ask somebody else; 0: 10 s */
    htc_ns   patience_ns;  /* a worker that says nothing for so long has nothing; 0: 60 s */
} htc__objects_options;

/* An object as a task names it. It is known by its hash everywhere. Or it is kept for one user alone: then hash is a name that says whose it is, and
 * content is the hash that it has to have. */
typedef struct htc__object {
    uint8_t         hash[32];
    const uint8_t  *content; /* 32 bytes, borrowed; NULL: hash is that */
    uint64_t        size;
    const uint64_t *workers; /* who has it; borrowed; beyond OBJECT_SOURCES_MAX: passed over */
    uint32_t        n_workers;
} htc__object;

/* HTC_OK; HTC_EINVAL; HTC_ENOMEM. */
htc_status htc__objects_create(const htc_env *env, const htc__objects_options *options, htc__objects **out);
void       htc__objects_destroy(htc__objects *o); /* calls nothing back; NULL is fine */

/* In the first step: asks what is left from a life before. Nothing is wanted in vain meanwhile, it waits. */
void htc__objects_start(htc__objects *o);

/* A task has left an output here: it becomes an object, kept for as long as its job's flow runs. options.made is called when it may be told to
 * others. HTC_OK; HTC_EINVAL: its hash has another size, or a size beyond OBJECT_SIZE_MAX; HTC_ENOMEM. */
htc_status htc__objects_made(htc__objects *o, const htc_attempt *attempt, const char *name, const uint8_t hash[32], uint64_t size);
/* A flow has ended: what was made for it is cached like anything else. */
void htc__objects_unpin(htc__objects *o, uint64_t job);

/* A task is to read these; want: the caller's number, not in use. options.ready is called once, not from here. HTC_OK; HTC_EINVAL: more than
 * OBJECT_INPUTS_MAX, or a hash that has another size; HTC_EEXISTS: there is such a want; HTC_ENOMEM. After an error there is no want. */
htc_status htc__objects_want(htc__objects *o, uint64_t want, const htc__object *objects, uint32_t n);
/* The task has what it needs, or needs it no more. An unknown want is fine. spoilt 1: what was here could not be staged in, so it is
 * removed and not used again. */
void htc__objects_release(htc__objects *o, uint64_t want, int spoilt);

/* What is here under this hash is another content, as somebody says who has read it: it is removed, unless it is in use. */
void htc__objects_forget(htc__objects *o, const uint8_t hash[32]);

/* A message of a worker; r stands at its payload. What is malformed, late or was not asked for is passed over. */
void htc__objects_heard(htc__objects *o, uint32_t peer, uint16_t type, htc_reader *r);
/* A connection is gone: what was asked there is asked again. */
void htc__objects_closed(htc__objects *o, uint32_t peer);
/* A worker is dead: it has nothing. */
void htc__objects_worker_gone(htc__objects *o, uint64_t worker);

/* At the end of each step, and when the deadline has passed. */
void   htc__objects_run(htc__objects *o, htc_ns now);
htc_ns htc__objects_deadline(const htc__objects *o);

typedef struct htc__objects_figures {
    uint64_t made;                   /* kept, of tasks that ran here */
    uint64_t fetched, fetched_bytes; /* objects that came and were right */
    uint64_t asked, served;          /* pieces asked for; pieces sent to others */
    uint64_t wrong, lost, evicted;   /* objects */
    uint64_t cached_bytes;           /* now: of what is not pinned, with what is on its way */
    uint32_t here, fetching, waiting; /* now: objects, objects, wants that are not let in */
} htc__objects_figures;
void htc__objects_look(const htc__objects *o, htc__objects_figures *f); /* goes through all of them */
int  htc__objects_waits(const htc__objects *o); /* a want is not let in: there is no room. O(1) */
/* Is all of it here? */
int htc__objects_has(const htc__objects *o, const uint8_t hash[32]);

#endif
