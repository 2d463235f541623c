/* The memory that a helper of functions shares with its executor: what each thread is at, and what it has to tell. It outlives the helper, so
 * nothing that was finished is lost with it. Any code of the user can write here: the executor takes it for a claim. */
#ifndef HTC_NET_FN_SHARED_H
#define HTC_NET_FN_SHARED_H

#include <stdatomic.h>
#include <stdint.h>

#define HTC__FN_THREADS_MAX 128u
#define HTC__FN_RING (256u << 10)

typedef enum htc__fn_how {
    FN_HOW_SIGNAL = 1, /* a signal that the thread itself has raised */
    FN_HOW_EXIT,       /* exit() */
    FN_HOW_THREAD_EXIT, /* pthread_exit() */
    FN_HOW_HELPER       /* the helper itself, which cannot go on; no task is guilty of that */
} htc__fn_how;

typedef struct htc__fn_thread {
    /* A range of a portion: those from `from` to before `at` have ended, `at` is under way. where is set last and cleared first. */
    _Alignas(128) _Atomic uint32_t where; /* portion + 1; 0: none */
    _Atomic uint32_t from, at;
    _Atomic uint64_t begun; /* tasks and ranges so far: as long as it is the same, so is all above */
    /* Records (fn_frames.h). Counters run free. */
    _Alignas(128) _Atomic uint32_t head; /* by the thread, behind whole records */
    _Alignas(128) _Atomic uint32_t tail; /* by the executor */
    _Alignas(128) uint8_t ring[HTC__FN_RING];
} htc__fn_thread;

typedef struct htc__fn_shared {
    _Alignas(128) _Atomic uint32_t told; /* the executor is, and has not looked since */
    _Atomic uint32_t loading;            /* span + 1, while its object is loaded */
    _Atomic uint32_t guilty;             /* thread + 1: whose task ends the process */
    _Atomic uint32_t how;                /* htc__fn_how */
    _Alignas(128) _Atomic uint32_t slots; /* by the executor: so many threads, the first ones, may work now; what the others sleep on */
    htc__fn_thread   thread[];
} htc__fn_shared;

static inline size_t htc__fn_shared_size(uint32_t threads)
{
    return sizeof(htc__fn_shared) + threads * sizeof(htc__fn_thread);
}

#endif
