/* The client's inside: requests travel in parts (one message each); a part is queued, sent, answered.
 *
 *   client.c        transmission and repetition, answers
 *   client_link.c   connections and their sessions
 *   client_owners.c who has which key; the connection that a part leaves by
 *   client_queue.c  who waits for whom: the changes of a key one after another
 *   client_watch.c  watches: what is asked for, what was told */
#ifndef HTC_KVS_CLIENT_H
#define HTC_KVS_CLIENT_H

#include "core/wire.h"
#include "htcsched/kv.h"
#include "kvs/wire/kv_wire.h"
#include "kvs/util/latency_estimate.h"
#include "kvs/util/table.h"

typedef struct htc__kv_part htc__kv_part;
typedef struct htc__kv_wait htc__kv_wait;

/* One operation in the table of keys: a change until it is answered, a read only while it waits. */
struct htc__kv_wait {
    htc__kv_wait *next;
    htc__kv_part *part;
    uint64_t      hash;
    int           change;
};

typedef struct htc__kv_submission {
    uint64_t tag;
    size_t   left; /* operations not answered to the user */
} htc__kv_submission;

enum { HTC__KV_PART_WAITS = 1, HTC__KV_PART_READY, HTC__KV_PART_SENT, HTC__KV_PART_ANSWERED };

typedef struct htc__kv_list_of_parts {
    htc__kv_part *first, *last;
} htc__kv_list_of_parts;

struct htc__kv_part {
    htc__kv_part       *prev, *next;
    htc__kv_submission *submission;
    htc__kv_wait       *waits; /* one for each operation with a key */
    uint64_t            order; /* of submission: a part waits only for lower ones */
    uint64_t            sequence, since, serial;
    htc_ns              due, pause, give_up;
    htc_ns              left_at; /* the newest transmission */
    uint32_t            state, sends;
    uint32_t            count, first; /* operations; how many are answered already */
    uint32_t            sent_first;   /* the first operation of the newest transmission */
    uint32_t            link;         /* that by which it left */
    uint8_t             placed, put_off; /* it has a place; it was answered "a little later" */
    uint64_t            place;        /* of its first key; kvs/util/place.h */
    uint32_t           *index;        /* of each operation in the submission */
    uint32_t            wait_count;
    uint32_t            scans, revokes;
    uint32_t            held; /* operations that are neither told to the user nor sent anew in another part */
    uint32_t            anew; /* how often it was */
    size_t              ops_len, ops_at; /* bytes of the operations; where the unanswered ones begin */
    uint8_t            *ops;
};

typedef struct htc__kv_answers {
    struct htc__kv_answers *next;
    htc__kv_part           *part;        /* removed with the last answer if it is done */
    htc_status              status;      /* not HTC_OK: every operation is answered with it, there are no bytes */
    uint32_t                repeated;    /* the part had been sent more than once */
    uint32_t                first, told; /* operation of the part that the first answer is for; answers handed out */
    size_t                  count, at, len, ops_at;
    uint8_t                 bytes[];
} htc__kv_answers;

/* A key of a watched prefix. */
typedef struct htc__kv_known {
    struct htc__kv_known *older, *newer; /* deleted ones */
    const htc__node      *node;          /* that holds this */
    uint64_t              version;
    uint32_t              deleted;
} htc__kv_known;

typedef struct htc__kv_watched {
    struct htc__kv_watched *next;
    uint64_t                id, tag;
    uint64_t                version; /* key: what the user holds */
    uint64_t                first_in; /* the first message of this session that says it; 0: none yet */
    uint32_t                heard, ended; /* of this session; it is to be ended, and nothing is told of it */
    uint32_t                prefix, start_over, begun; /* to be said; CURRENT was told once */
    htc_status              why; /* not HTC_OK: it ends with that */
    htc__table              known; /* prefix: by key: htc__kv_known */
    htc__kv_known          *oldest, *newest;
    size_t                  graves, key_len;
    uint8_t                 key[];
} htc__kv_watched;

/* A message of events. */
typedef struct htc__kv_told {
    struct htc__kv_told *next;
    uint64_t             number;
    size_t               at, len;
    uint8_t              bytes[];
} htc__kv_told;

typedef struct htc__kv_watched_all {
    htc__kv_watched *first, **last;
    uint64_t         last_id;
    size_t           count, unsaid;   /* without those that are being ended; to be said for the first time in this session */
    size_t           unheard;         /* said, and not heard yet as far as is known: all of them are in each message */
    uint64_t         serial;          /* of our newest message */
    uint64_t         received, taken; /* the newest message of events that came, that was looked at; of this session */
    uint32_t         asked;           /* it waits for events */
    htc_ns           due, pause;
    htc__kv_told    *told, *lent;
    size_t           told_count;
} htc__kv_watched_all;

/* A connection. The first is home: the one that the user named; the others are to members, and opened when something is for them. */
typedef struct htc__kv_link {
    uint32_t peer;
    uint8_t  connected, welcomed;
    uint8_t  knows;        /* whoever is there can say who has which key */
    uint64_t session;      /* 0: not named yet */
    uint64_t serial_first; /* of this connection */
    uint64_t member;       /* who is there, as it says; 0: it does not */
    uint64_t called;       /* whom it was opened for; 0: it is not in use */
    htc__kv_latency pace;     /* how long whoever is there takes to answer */
    uint32_t misses;       /* so often in a row it was silent; until then others are asked */
    htc_ns   silent_until;
    htc_ns   greet_due, greet_pause;
} htc__kv_link;

#define HTC__KV_HOME      0u
#define HTC__KV_NO_LINK   UINT32_MAX
/* Owners of a bucket that a client remembers. */
#define HTC__KV_OWNERS_KEPT 3

/* A member, as the map names it. */
typedef struct htc__kv_at {
    uint64_t id;       /* 0: this place is free */
    uint32_t link;     /* to it; HTC__KV_NO_LINK */
    uint32_t astray;   /* somebody else answers at its address */
    size_t   len;
    char    *address;
} htc__kv_at;

typedef struct htc__kv_owners_known {
    uint64_t    have, seed; /* have 0: nothing is known */
    uint32_t    bits;
    uint16_t  (*owner)[HTC__KV_OWNERS_KEPT]; /* by bucket: places in at, counted from 1 */
    htc__kv_at *at;
    uint32_t    count, room; /* of at */
    uint32_t    wanted, asked;
    uint64_t    id;  /* of the question */
    htc_ns      due; /* when it may be asked, or is asked again */
    htc_ns      pause;
} htc__kv_owners_known;

/* What the store has refused with, in a row: one line says it, and others that it goes on, at intervals that grow. */
typedef struct htc__kv_refusals {
    htc_status why;
    htc_ns     said, gap; /* the last line; gap: the next not before it is over, 0: nothing is refused */
    uint32_t   unsaid;    /* since then */
} htc__kv_refusals;

struct htc_kv_client {
    htc_env               env;
    htc_kv_client_options options;
    uint16_t              speaks; /* the highest version that it announces */
    htc__kv_link         *links;
    uint32_t              link_count, sessions; /* sessions: links that have one */
    uint64_t              serial;   /* the last one used */
    uint64_t              sequence; /* the next */
    uint64_t              order;
    uint64_t              clock; /* the newest durable version that a server told */
    htc_ns                next_due;
    htc__kv_owners_known  owners;

    htc__kv_list_of_parts waiting, ready, sent;
    htc__kv_passed_on     passed_on; /* by serial, and the link that it left by: what left once more */
    size_t                pending, bytes;
    size_t                wide;     /* not 0: something may wait for more than its keys */
    size_t                revoking; /* pending ends of leases */
    htc__kv_wait        **slots;
    size_t                slot_count;

    htc__kv_answers *answers, **answers_last, *lent;
    htc_buf          message;

    htc__kv_watched_all watched;
    htc__kv_refusals    refusals;
};

void htc__kv_parts_add(htc__kv_list_of_parts *list, htc__kv_part *part);
void htc__kv_parts_remove(htc__kv_list_of_parts *list, htc__kv_part *part);

/* Enter the part into the table of keys and decide whether it waits. */
void htc__kv_queue_enter(htc_kv_client *c, htc__kv_part *part);
/* The part is answered or given up: whoever waited only for it becomes ready. */
void htc__kv_queue_leave(htc_kv_client *c, htc__kv_part *part);

/* client.c */
htc_status htc__kv_client_send(htc_kv_client *c, const htc__kv_link *link, htc_output *out); /* what stands in c->message */
void       htc__kv_client_send_again(htc_kv_client *c, uint32_t link); /* what left by it is to leave once more */

/* client_link.c */
/* Announce this number instead of the highest one, before any connection is there. Only the simulator asks for it: programs of two
 * versions beside each other. */
void           htc__kv_client_speak(htc_kv_client *c, uint16_t version);
htc_status     htc__kv_links_make(htc_kv_client *c);
void           htc__kv_links_free(htc_kv_client *c);
htc__kv_link  *htc__kv_link_of(htc_kv_client *c, uint32_t peer); /* NULL: it is none of the client's */
htc_status     htc__kv_link_opened(htc_kv_client *c, htc__kv_link *link, htc_ns now, htc_output *out);
void           htc__kv_link_closed(htc_kv_client *c, htc__kv_link *link);
htc_status     htc__kv_link_welcomed(htc_kv_client *c, htc__kv_link *link, htc_reader r, htc_ns now, htc_output *out);
void           htc__kv_refused(htc_kv_client *c, htc_status why, htc_ns now); /* the store has said so and ends the connection */
void           htc__kv_heard(htc_kv_client *c);                               /* it has answered */
void           htc__kv_link_session(htc_kv_client *c, htc__kv_link *link, uint64_t session);
void           htc__kv_link_missed(htc_kv_client *c, htc__kv_link *link, htc_ns now);
htc_ns         htc__kv_link_patience(const htc_kv_client *c, const htc__kv_link *link, htc_ns now); /* so long it is not silent */
htc_status     htc__kv_links_timeout(htc_kv_client *c, htc_ns now, htc_output *out);
htc_ns         htc__kv_links_deadline(const htc_kv_client *c);
static inline int htc__kv_link_silent(const htc__kv_link *link, htc_ns now)
{
    return now < link->silent_until;
}

/* client_owners.c */
void       htc__kv_owners_init(htc_kv_client *c);
void       htc__kv_owners_free(htc_kv_client *c);
/* Who is to be asked for the key of this request, as a number: 0: whoever is there, else another one for each owner. */
uint32_t   htc__kv_owners_group(const htc_kv_client *c, const htc_kv_request *request);
/* The link that a part leaves by. NULL: there is none now. May ask the driver for one. */
htc__kv_link *htc__kv_owners_route(htc_kv_client *c, htc__kv_part *part, htc_ns now, htc_output *out);
void       htc__kv_owners_wanted(htc_kv_client *c, htc_ns now); /* what is known may be out of date */
void       htc__kv_owners_told(htc_kv_client *c, uint64_t id, htc_reader r, htc_ns now, htc_output *out);
void       htc__kv_owners_astray(htc_kv_client *c, htc__kv_link *link); /* it is not whom it was opened for */
htc_status htc__kv_owners_send(htc_kv_client *c, htc_ns now, htc_output *out); /* the question, if it is due */
htc_ns     htc__kv_owners_deadline(const htc_kv_client *c);

/* client_watch.c */
void       htc__kv_watched_init(htc_kv_client *c);
void       htc__kv_watched_free(htc_kv_client *c);
void       htc__kv_watched_session(htc_kv_client *c); /* there is another one, or none */
void       htc__kv_watched_events(htc_kv_client *c, uint64_t number, htc_reader r);
htc_status htc__kv_watched_send(htc_kv_client *c, htc_ns now, htc_output *out); /* what is due */
void       htc__kv_watched_along(htc_kv_client *c, htc_ns now, htc_output *out); /* what will be due, with what has just left */
htc_ns     htc__kv_watched_deadline(const htc_kv_client *c);

/* Is there an answer for htc_kv_client_next or, as far as can be seen from outside, an event for htc_kv_client_event? */
int htc__kv_client_tells(const htc_kv_client *c);

#endif
