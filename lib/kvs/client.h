/* The client's inside: requests travel in parts (one message each); a part is queued, sent, answered.
 *
 *   client.c        connection, session, transmission and repetition, answers
 *   client_queue.c  who waits for whom: the changes of a key one after another */
#ifndef HTC_KVS_CLIENT_H
#define HTC_KVS_CLIENT_H

#include "htcsched/kv.h"
#include "kvs/kv_wire.h"

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
    uint32_t            state, sends;
    uint32_t            index;        /* of its first operation in the submission */
    uint32_t            count, first; /* operations; how many are answered already */
    uint32_t            sent_first;   /* the first operation of the newest transmission */
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

struct htc_kv_client {
    htc_env               env;
    htc_kv_client_options options;
    int                   connected; /* the peer is there */
    int                   welcomed;
    uint64_t              session;      /* 0: not named yet */
    uint64_t              serial;       /* the last one used */
    uint64_t              serial_first; /* of this connection */
    uint64_t              sequence;     /* the next */
    uint64_t              order;
    uint64_t              clock; /* the newest durable version the server told */
    htc_ns                next_due, greet_due, greet_pause;

    htc__kv_list_of_parts waiting, ready, sent;
    size_t                pending, bytes;
    size_t                wide;     /* not 0: something may wait for more than its keys */
    size_t                revoking; /* pending ends of leases */
    htc__kv_wait        **slots;
    size_t                slot_count;

    htc__kv_answers *answers, **answers_last, *lent;
    htc_buf          message;
};

void htc__kv_parts_add(htc__kv_list_of_parts *list, htc__kv_part *part);
void htc__kv_parts_remove(htc__kv_list_of_parts *list, htc__kv_part *part);

/* Enter the part into the table of keys and decide whether it waits. */
void htc__kv_queue_enter(htc_kv_client *c, htc__kv_part *part);
/* The part is answered or given up: whoever waited only for it becomes ready. */
void htc__kv_queue_leave(htc_kv_client *c, htc__kv_part *part);

#endif
