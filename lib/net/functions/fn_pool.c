/* The order in which a thread writes is what the executor relies on when the process is dead. A record of a task comes before `at` goes past it.
 * The thread leaves a range, and lets go of the portion, before the range's record: as soon as the executor has read that, the portion's number
 * may be another one's. If the process dies between the two, tasks of the range that left nothing are run again. `begun` is counted before any of it changes: who reads the
 * same count before and after has read of one task. */
#include "net/functions/fn_pool.h"

#include <assert.h>
#include <limits.h>
#include <linux/futex.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "core/codec.h"
#include "htcsched/deque.h"
#include "htcsched/env.h"
#include "roles/functions/fn_frames.h"

#define PIECES 16          /* of a portion, for each thread */
#define LOOKS 200          /* for work, before a thread sleeps */
#define NAP_FIRST 20000    /* for room in the ring, ns */
#define NAP_LAST 1000000
#define SIGNAL_STACK (64 << 10)
#define SLOW (20 * HTC_US) /* a task of the last ranges: then taking each from the deque costs next to nothing */
#define SLOW_FOR 64        /* ranges */
#define OUT_FIRST 4096     /* bytes of output that a thread has room for at first */

/* An item of a deque is a range: portion, offset, count. */
#define COUNT_BITS 21
_Static_assert(sizeof(htc__fn_record) + HTC_TASK_FN_OUTPUT_MAX <= HTC__FN_RING, "an output fits into the ring");
_Static_assert(sizeof(void *) >= 8, "a range is 50 bits");
_Static_assert(HTC__FN_PORTION_TASKS < 1u << COUNT_BITS, "a count fits");

typedef struct range {
    uint32_t portion, offset, count;
} range;

typedef struct portion {
    htc__fn_span    *span;
    uint64_t         from;
    uint8_t         *input;
    size_t           input_bytes;
    uint32_t        *input_at; /* of each task, in input */
    _Atomic uint32_t left; /* numbers that threads still look at */
} portion;

typedef struct worker {
    htc__fn_pool   *pool;
    uint32_t        number;
    pthread_t       thread;
    htc_deque      *deque;
    htc__fn_thread *shared;
    uint64_t        begun;
    uint32_t        slow; /* ranges for which tasks are taken to be slow */
    /* the task under way */
    htc_fn_task     task;
    htc__fn_span   *span;
    int             failed;
    htc_status      status;
    uint32_t        out_bytes, out_cap;
    uint8_t        *out; /* grows as it is needed */
    char            reason[HTC_TASK_FN_REASON_MAX];
} worker;

struct htc__fn_pool {
    htc__fn_shared  *shared;
    uint32_t         n_workers, n_started;
    worker          *workers;
    htc_deque       *inbox; /* whose owner is the thread that puts */
    void (*tell)(void *ctx);
    void (*gone)(void);
    void            *ctx;
    _Alignas(128) _Atomic uint32_t idle; /* threads that look for work or sleep: read before each task */
    _Alignas(128) _Atomic uint32_t news; /* grows with each range that others may take: what idle threads sleep on */
    _Atomic uint32_t end;
    portion          portions[HTC__FN_PORTIONS_MAX];
};

static _Thread_local uint32_t self;

uint32_t htc__fn_pool_self(void)
{
    return self;
}

static void *pack(range r)
{
    return (void *)(((uintptr_t)r.portion << (2 * COUNT_BITS)) | ((uintptr_t)r.offset << COUNT_BITS) | r.count);
}

static range unpack(void *item)
{
    uintptr_t       bits = (uintptr_t)item;
    const uintptr_t mask = ((uintptr_t)1 << COUNT_BITS) - 1;
    return (range){ (uint32_t)(bits >> (2 * COUNT_BITS)), (uint32_t)(bits >> COUNT_BITS & mask), (uint32_t)(bits & mask) };
}

static void nap(long *ns)
{
    struct timespec t = { 0, *ns };
    nanosleep(&t, NULL);
    *ns = *ns * 2 > NAP_LAST ? NAP_LAST : *ns * 2;
}

/* ---- what is told ---- */

static void copy_in(htc__fn_thread *t, uint32_t at, const void *bytes, size_t n)
{
    uint32_t place = at % HTC__FN_RING;
    size_t   first = n < HTC__FN_RING - place ? n : HTC__FN_RING - place;
    memcpy(t->ring + place, bytes, first);
    memcpy(t->ring, (const uint8_t *)bytes + first, n - first);
}

static void record(worker *w, const htc__fn_record *r, const void *bytes)
{
    htc__fn_thread *t = w->shared;
    uint32_t        size = (uint32_t)htc__fn_record_size(r), head = atomic_load_explicit(&t->head, memory_order_relaxed), used;
    long            pause = NAP_FIRST;
    while ((used = head - atomic_load_explicit(&t->tail, memory_order_acquire)) > HTC__FN_RING - size) {
        w->pool->tell(w->pool->ctx);
        nap(&pause); /* the executor reads as fast as it can: it has to have read for this thread to go on */
    }
    copy_in(t, head, r, sizeof *r);
    if (r->bytes)
        copy_in(t, head + (uint32_t)sizeof *r, bytes, r->bytes);
    atomic_store_explicit(&t->head, head + size, memory_order_release);
    if (r->kind != FN_OUTPUT || used > HTC__FN_RING / 2)
        w->pool->tell(w->pool->ctx);
}

/* ---- one task ---- */

static worker *worker_of(const htc_fn_task *task)
{
    return (worker *)((uintptr_t)task - offsetof(worker, task));
}

/* Room for so many bytes of output. */
static int reserve(worker *w, size_t n)
{
    uint32_t cap = w->out_cap ? w->out_cap : OUT_FIRST;
    while (cap < n)
        cap *= 2;
    uint8_t *more = cap == w->out_cap ? w->out : realloc(w->out, cap);
    if (!more)
        return 0;
    w->out = more;
    w->out_cap = cap;
    return 1;
}

static int on_append(htc_fn_task *task, const void *bytes, size_t n)
{
    worker *w = worker_of(task);
    if (n > HTC_TASK_FN_OUTPUT_MAX - w->out_bytes) {
        if (!w->failed)
            w->status = HTC_ETOOBIG;
        return task->fail(task, "the output is longer than 131072 bytes");
    }
    if (n > w->out_cap - w->out_bytes && !reserve(w, w->out_bytes + n))
        return task->fail(task, "there is no memory for the output");
    if (n)
        memcpy(w->out + w->out_bytes, bytes, n);
    w->out_bytes += (uint32_t)n;
    return 0;
}

static int on_fail(htc_fn_task *task, const char *reason)
{
    worker *w = worker_of(task);
    if (!w->failed) {
        w->failed = 1;
        size_t n = reason ? strnlen(reason, sizeof w->reason - 1) : 0;
        if (n)
            memcpy(w->reason, reason, n);
        w->reason[n] = '\0';
    }
    return -1;
}

static int on_cancelled(const htc_fn_task *task)
{
    return atomic_load_explicit(&worker_of(task)->span->stop, memory_order_relaxed) == 2;
}

static void say_exit_code(worker *w, int code)
{
    static const char text[] = "the function returned ";
    char              digits[16];
    unsigned          value = code < 0 ? 0u - (unsigned)code : (unsigned)code;
    size_t            n = sizeof digits, at = sizeof text - 1;
    do
        digits[--n] = (char)('0' + value % 10);
    while ((value /= 10) != 0);
    if (code < 0)
        digits[--n] = '-';
    memcpy(w->reason, text, at);
    memcpy(w->reason + at, digits + n, sizeof digits - n);
    w->reason[at + sizeof digits - n] = '\0';
}

/* It has failed, or left something. */
static void report(worker *w, uint32_t number, uint32_t offset, int code)
{
    htc__fn_record r = { .kind = FN_OUTPUT, .portion = number, .offset = offset, .count = 1, .bytes = w->out_bytes };
    if (code && !w->failed) {
        w->failed = 1;
        say_exit_code(w, code);
    }
    if (w->failed) {
        r.kind = FN_FAILED;
        r.status = w->status != HTC_OK ? w->status : HTC_EEXIT;
        r.bytes = (uint32_t)strlen(w->reason);
    }
    record(w, &r, w->failed ? (const void *)w->reason : w->out);
    w->out_bytes = 0;
    w->failed = 0;
    w->status = HTC_OK;
}

static void set_input(worker *w, const portion *p, uint32_t offset)
{
    htc_reader r = htc_reader_of((htc_bytes){ p->input + p->input_at[offset], p->input_bytes - p->input_at[offset] });
    htc_bytes  in = htc_get_bytes(&r);
    w->task.in = in.data;
    w->task.in_bytes = in.len;
}

/* ---- ranges ---- */

static void call_idle(htc__fn_pool *pool)
{
    atomic_fetch_add(&pool->news, 1);
    if (atomic_load(&pool->idle))
        syscall(SYS_futex, &pool->news, FUTEX_WAKE_PRIVATE, INT_MAX, NULL, NULL, 0);
}

/* Whoever has nothing to do finds nothing here: the upper half is for them. Where the deque takes no more, the range stays whole. */
static uint32_t give_half(worker *w, uint32_t number, uint32_t i, uint32_t end)
{
    uint32_t middle = i + (end - i + 1) / 2;
    if (middle >= end || htc_deque_size_public(w->deque) != 0 || htc_deque_push(w->deque, pack((range){ number, middle, end - middle })) != HTC_OK)
        return end;
    htc_deque_expose(w->deque);
    call_idle(w->pool);
    return middle;
}

/* Slow tasks: all but the first are where others can take them while it runs, in two halves, of which the nearer one is taken back next. */
static uint32_t leave_one(worker *w, uint32_t number, uint32_t i, uint32_t end)
{
    uint32_t middle = give_half(w, number, i, end);
    if (middle - i > 1 && htc_deque_push(w->deque, pack((range){ number, i + 1, middle - i - 1 })) == HTC_OK) {
        htc_deque_expose(w->deque);
        call_idle(w->pool);
        middle = i + 1;
    }
    return middle;
}

static htc_ns now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (htc_ns)t.tv_sec * HTC_SECOND + (htc_ns)t.tv_nsec;
}

/* It has a slot. */
static int may_work(const worker *w)
{
    return w->number < atomic_load_explicit(&w->pool->shared->slots, memory_order_relaxed);
}

/* It has lost its slot: what is left is for the others. */
static uint32_t give_all(worker *w, uint32_t number, uint32_t i, uint32_t end)
{
    if (htc_deque_push(w->deque, pack((range){ number, i, end - i })) != HTC_OK)
        return end;
    htc_deque_expose(w->deque);
    call_idle(w->pool);
    return i;
}

static void run(worker *w, range r)
{
    htc__fn_thread *t = w->shared;
    portion        *p = &w->pool->portions[r.portion];
    htc__fn_span   *span = p->span;
    htc_task_fn     fn = span->fn;
    uint32_t        i = r.offset, end = r.offset + r.count;
    atomic_store_explicit(&t->begun, ++w->begun, memory_order_release);
    atomic_store_explicit(&t->from, i, memory_order_release);
    atomic_store_explicit(&t->at, i, memory_order_release);
    atomic_store_explicit(&t->where, r.portion + 1, memory_order_release);
    w->span = span;
    w->task.argument = span->argument;
    w->task.in = NULL;
    w->task.in_bytes = 0;
    if (end - i > 1)
        end = w->slow ? leave_one(w, r.portion, i, end) : give_half(w, r.portion, i, end); /* the first task may take long */
    htc_ns began = now();
    for (; i < end && !atomic_load_explicit(&span->stop, memory_order_relaxed); i++) {
        if (!may_work(w) && (end = give_all(w, r.portion, i, end)) == i)
            break;
        if (end - i > 1 && atomic_load_explicit(&w->pool->idle, memory_order_relaxed))
            end = give_half(w, r.portion, i, end);
        atomic_store_explicit(&t->begun, ++w->begun, memory_order_release);
        atomic_store_explicit(&t->at, i, memory_order_release);
        w->task.number = p->from + i;
        if (p->input)
            set_input(w, p, i);
        int code = fn(&w->task);
        if (code || w->failed || w->out_bytes)
            report(w, r.portion, i, code);
    }
    if (now() - began > SLOW * (i - r.offset))
        w->slow = SLOW_FOR;
    else if (w->slow)
        w->slow--;
    atomic_store_explicit(&t->where, 0, memory_order_release);
    atomic_fetch_sub_explicit(&p->left, end - r.offset, memory_order_release);
    if (i > r.offset)
        record(w, &(htc__fn_record){ .kind = FN_ENDED, .portion = r.portion, .offset = r.offset, .count = i - r.offset }, NULL);
    if (i < end)
        record(w, &(htc__fn_record){ .kind = FN_SKIPPED, .portion = r.portion, .offset = i, .count = end - i }, NULL);
}

/* Half of what somebody has. 1: there is something in the own deque now, or may be with another try. */
static int steal(worker *w)
{
    htc__fn_pool *pool = w->pool;
    int           again = 0;
    size_t        taken = 0;
    for (uint32_t i = 0; i <= pool->n_workers; i++) {
        uint32_t   n = (w->number + i) % (pool->n_workers + 1);
        htc_deque *victim = n == pool->n_workers ? pool->inbox : pool->workers[n].deque;
        if (n == w->number)
            continue;
        htc_status status = htc_deque_steal_half(victim, w->deque, SIZE_MAX, &taken);
        if (status == HTC_OK) {
            if (taken > 1) {
                htc_deque_expose(w->deque); /* a range may take long: the others are for whoever comes meanwhile */
                call_idle(pool);
            }
            return 1;
        }
        again |= status == HTC_AGAIN;
    }
    return again;
}

/* Until it has a slot again, or all is over. What is in its deque the others have meanwhile. */
static void wait_for_slot(worker *w)
{
    _Atomic uint32_t *slots = &w->pool->shared->slots;
    for (uint32_t now; w->number >= (now = atomic_load(slots)) && !atomic_load(&w->pool->end);)
        syscall(SYS_futex, slots, FUTEX_WAIT, now, NULL, NULL, 0);
}

/* Until there may be something. 0: it is over. */
static int wait_for_work(worker *w)
{
    htc__fn_pool *pool = w->pool;
    int           found = 0;
    wait_for_slot(w);
    if (htc_deque_size(w->deque))
        return !atomic_load(&pool->end);
    atomic_fetch_add(&pool->idle, 1);
    for (int looks = 0; !found && may_work(w) && !atomic_load(&pool->end); looks++) {
        uint32_t news = atomic_load(&pool->news);
        found = steal(w);
        if (!found && looks >= LOOKS)
            syscall(SYS_futex, &pool->news, FUTEX_WAIT_PRIVATE, news, NULL, NULL, 0);
    }
    atomic_fetch_sub(&pool->idle, 1);
    return !atomic_load(&pool->end);
}

static void gone(void *arg)
{
    const worker *w = arg;
    w->pool->gone();
}

static void work_on(worker *w)
{
    void *item;
    do {
        while (may_work(w) && htc_deque_pop(w->deque, &item) == HTC_OK)
            run(w, unpack(item));
    } while (wait_for_work(w));
}

/* With a stack of its own for the handler of a signal: the usual one may be what has overflowed. */
static void *work(void *arg)
{
    worker *w = arg;
    stack_t other = { .ss_sp = malloc(SIGNAL_STACK), .ss_size = SIGNAL_STACK }, none = { .ss_flags = SS_DISABLE };
    if (other.ss_sp)
        sigaltstack(&other, NULL);
    self = w->number + 1;
    pthread_cleanup_push(gone, w);
    work_on(w);
    pthread_cleanup_pop(0);
    self = 0;
    sigaltstack(&none, NULL);
    free(other.ss_sp);
    return NULL;
}

/* ---- the pool ---- */

static void free_input(portion *p)
{
    free(p->input);
    free(p->input_at);
    p->input = NULL;
    p->input_at = NULL;
}

/* Where each input begins. 0: out of memory. */
static int index_input(portion *p, uint8_t *input, size_t bytes, uint32_t n)
{
    htc_reader r = htc_reader_of((htc_bytes){ input, bytes });
    p->input_at = malloc(n * sizeof *p->input_at);
    if (!p->input_at)
        return 0;
    for (uint32_t i = 0; i < n; i++) {
        p->input_at[i] = (uint32_t)(bytes - htc_reader_left(&r));
        (void)htc_get_bytes(&r);
    }
    p->input = input;
    p->input_bytes = bytes;
    return 1;
}

htc_status htc__fn_pool_put(htc__fn_pool *pool, htc__fn_span *span, uint32_t number, uint64_t from, uint32_t n, uint8_t *input, size_t input_bytes)
{
    portion *p = &pool->portions[number];
    uint32_t pieces = pool->n_workers * PIECES < n ? pool->n_workers * PIECES : n;
    assert(number < HTC__FN_PORTIONS_MAX && n > 0 && n <= HTC__FN_PORTION_TASKS);
    if (atomic_load_explicit(&p->left, memory_order_acquire)) {
        free(input);
        return HTC_EPROTO;
    }
    free_input(p);
    if (input && !index_input(p, input, input_bytes, n)) {
        free(input);
        return HTC_ENOMEM;
    }
    p->span = span;
    p->from = from;
    atomic_store_explicit(&p->left, n, memory_order_relaxed);
    /* The lowest numbers on top, where thieves begin. */
    for (uint32_t i = 0; i < pieces; i++) {
        uint32_t   begin = (uint32_t)((uint64_t)n * i / pieces), end = (uint32_t)((uint64_t)n * (i + 1) / pieces);
        htc_status status = HTC_AGAIN;
        long       pause = NAP_FIRST;
        while ((status = htc_deque_push(pool->inbox, pack((range){ number, begin, end - begin }))) == HTC_AGAIN || status == HTC_EFULL) {
            htc_deque_expose(pool->inbox);
            call_idle(pool);
            nap(&pause); /* a thief is in the middle of a copy, or all are behind: it is their turn */
        }
        if (status != HTC_OK)
            return status;
    }
    htc_deque_expose(pool->inbox);
    call_idle(pool);
    return HTC_OK;
}

void htc__fn_pool_destroy(htc__fn_pool *pool)
{
    if (!pool)
        return;
    atomic_store(&pool->end, 1);
    atomic_fetch_add(&pool->news, 1);
    atomic_store(&pool->shared->slots, pool->n_workers);
    syscall(SYS_futex, &pool->news, FUTEX_WAKE_PRIVATE, INT_MAX, NULL, NULL, 0);
    syscall(SYS_futex, &pool->shared->slots, FUTEX_WAKE, INT_MAX, NULL, NULL, 0);
    for (uint32_t i = 0; i < pool->n_started; i++)
        pthread_join(pool->workers[i].thread, NULL);
    for (uint32_t i = 0; pool->workers && i < pool->n_workers; i++) {
        htc_deque_destroy(pool->workers[i].deque);
        free(pool->workers[i].out);
    }
    htc_deque_destroy(pool->inbox);
    for (uint32_t i = 0; i < HTC__FN_PORTIONS_MAX; i++)
        free_input(&pool->portions[i]);
    free(pool->workers);
    free(pool);
}

htc_status htc__fn_pool_create(htc__fn_shared *shared, uint32_t threads, void (*tell)(void *ctx), void (*gone_fn)(void), void *ctx,
                               htc__fn_pool **out)
{
    htc__fn_pool *pool = NULL;
    assert(threads > 0 && threads <= HTC__FN_THREADS_MAX);
    if (posix_memalign((void **)&pool, 128, sizeof *pool) != 0)
        return HTC_ENOMEM;
    memset(pool, 0, sizeof *pool);
    pool->shared = shared;
    pool->tell = tell;
    pool->gone = gone_fn;
    pool->ctx = ctx;
    pool->n_workers = threads;
    pool->workers = calloc(threads, sizeof *pool->workers);
    htc_status status = pool->workers ? htc_deque_create(NULL, NULL, &pool->inbox) : HTC_ENOMEM;
    for (uint32_t i = 0; status == HTC_OK && i < threads; i++) {
        worker *w = &pool->workers[i];
        w->pool = pool;
        w->number = i;
        w->slow = 1; /* until it is known */
        w->shared = &shared->thread[i];
        w->task = (htc_fn_task){ .size = sizeof w->task, .append = on_append, .fail = on_fail, .cancelled = on_cancelled };
        status = htc_deque_create(NULL, NULL, &w->deque);
    }
    for (uint32_t i = 0; status == HTC_OK && i < threads; i++) {
        if (pthread_create(&pool->workers[i].thread, NULL, work, &pool->workers[i]) != 0)
            status = HTC_EREFUSED;
        else
            pool->n_started++;
    }
    if (status != HTC_OK) {
        htc__fn_pool_destroy(pool);
        return status;
    }
    *out = pool;
    return HTC_OK;
}
