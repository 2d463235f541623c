/* Requests on their way to a store that is not ours: copied, the changes of one key one after another, answers in hand.
 *
 * An ask is one request from its submission to its answer. It may start when no older open one touches the same key; a scan,
 * or the end of a lease, waits for all older ones and is waited for. A change is worked out by kvs/cell/change.h on the record
 * that the other store holds, by the adapter. */
#ifndef HTC_NET_STORES_WINDOW_H
#define HTC_NET_STORES_WINDOW_H

#include "core/codec.h"
#include "kvs/cell/change.h"
#include "net/remote/stores.h"

typedef struct htc__ask htc__ask;

struct htc__ask {
    htc__ask      *next;
    htc_kv_request request; /* its bytes stand behind this struct */
    htc_kv_result  result;
    htc__kv_stamp  stamp;
    uint64_t       tag, hash, submission;
    htc_ns         give_up;
    uint32_t       index, started;
    uint32_t       state;  /* the adapter's; 0 when it starts, and when it starts again */
    uint32_t       unsure; /* it was under way when the connection broke: it may have been done */
    uint64_t       number; /* the adapter's */
    uint32_t       tries;  /* the adapter's */
    htc_buf        held;   /* the record as the other store gave it: what the compare-and-swap expects */
    htc_buf        coming; /* value of the result, should the compare-and-swap succeed */
    htc_buf        answer;
    size_t         size;
};

typedef struct htc__window {
    htc_env   env;
    uint64_t  client, sequence;
    uint64_t  clock; /* the newest version seen */
    uint32_t  started, started_max;
    htc_ns    timeout_ns;
    size_t    bytes;
    uint64_t  submissions;
    htc__ask *open; /* oldest first */
    htc__ask *done, *lent;
} htc__window;

void htc__window_init(htc__window *w, const htc_env *env, uint32_t started_max, htc_ns timeout_ns);
void htc__window_free(htc__window *w);

htc_status htc__window_submit(htc__window *w, const htc_kv_request *requests, size_t n, uint64_t tag);
/* The oldest ask that may start now, marked as started; NULL: none. */
htc__ask *htc__window_start(htc__window *w);
/* Status, numbers and bytes of the result are copied; it is no longer open. */
htc_status htc__window_answer(htc__window *w, htc__ask *ask, const htc_kv_result *result);
/* Nobody knows how far the started ones came: they start again, as repetitions. */
void htc__window_restart(htc__window *w);
/* Answer HTC_ETIMEDOUT to what has waited too long. 1: one of them had been started. */
int    htc__window_expire(htc__window *w, htc_ns now);
htc_ns htc__window_deadline(const htc__window *w);
int    htc__window_next(htc__window *w, htc_kv_result *result);

#endif
