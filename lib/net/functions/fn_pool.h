/* The threads of a helper. A portion comes as ranges of numbers into the pool's own deque; threads take half of what is there, and of what
 * others have. One that works while another is idle gives away half of its range. What came of it goes to the thread's ring. */
#ifndef HTC_NET_FN_POOL_H
#define HTC_NET_FN_POOL_H

#include "htcsched/status.h"
#include "htcsched/task_fn.h"
#include "net/functions/fn_shared.h"

typedef struct htc__fn_pool htc__fn_pool;

/* What the portions of a span have in common. Kept by those that are not over. */
typedef struct htc__fn_span {
    htc_task_fn      fn;
    const char      *argument;
    _Atomic uint32_t stop; /* 1: begin nothing further; 2: and it is cancelled */
} htc__fn_span;

/* shared: kept, all zero but for slots. tell is called by any thread when the executor should look; gone by one that a function has ended with
 * pthread_exit(). HTC_OK, HTC_ENOMEM, HTC_EREFUSED (no thread). */
htc_status htc__fn_pool_create(htc__fn_shared *shared, uint32_t threads, void (*tell)(void *ctx), void (*gone)(void), void *ctx, htc__fn_pool **out);
/* Waits for what is under way. */
void htc__fn_pool_destroy(htc__fn_pool *pool);

/* One thread only. input: n times bytes (codec), of input_bytes, checked; malloc'd, and taken also if this fails; NULL: none. HTC_EPROTO: the
 * portion of that number is not over. HTC_ENOMEM. */
htc_status htc__fn_pool_put(htc__fn_pool *pool, htc__fn_span *span, uint32_t portion, uint64_t from, uint32_t n, uint8_t *input, size_t input_bytes);

/* Of the calling thread: its number + 1; 0: it is none of the pool's. For a signal handler. */
uint32_t htc__fn_pool_self(void);

/* The system's own functions, by name; NULL: there is none. */
htc_task_fn htc__fn_builtin(const char *name);
/* NULL: the builtin can do something with the argument; else what it wants. */
const char *htc__fn_builtin_wants(const char *name, const char *argument);

#endif
