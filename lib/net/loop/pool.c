/* A few threads for what blocks. Results come back to the loop through an eventfd, and so does what other threads have for it. */
#include <assert.h>
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "net/loop/host_private.h"

#define WAITING_MAX 65536
#define THREADS_MAX 64

typedef struct job {
    void (*work)(void *);
    void (*done)(void *);
    void       *ctx;
    struct job *next;
} job;

typedef struct job_list {
    job   *first, **last;
    size_t count;
} job_list;

struct htc__pool {
    htc_host       *host;
    pthread_mutex_t lock;
    pthread_cond_t  more;
    job_list        waiting;           /* under lock */
    uint32_t        idle;              /* under lock */
    int             ending;            /* under lock */
    /* Without the lock: the loop, woken by a thread that wants the lock for its next piece, would only meet it there. The newest
     * first; pushed with release, taken whole with acquire, so that what work wrote is seen by done. */
    _Atomic(job *) finished;
    pthread_t       threads[THREADS_MAX];
    uint32_t        threads_count, threads_max;
    int             wake_fd;
    struct event   *wake;
};

static void list_init(job_list *l)
{
    l->first = NULL;
    l->last = &l->first;
    l->count = 0;
}

static void list_push(job_list *l, job *j)
{
    j->next = NULL;
    *l->last = j;
    l->last = &j->next;
    l->count++;
}

static job *list_pop(job_list *l)
{
    job *j = l->first;
    if (!j)
        return NULL;
    l->first = j->next;
    if (!l->first)
        l->last = &l->first;
    l->count--;
    assert((l->count == 0) == !l->first);
    return j;
}

/* For the loop, from any thread. */
static void finish(htc__pool *p, job *j)
{
    job *before = atomic_load_explicit(&p->finished, memory_order_relaxed);
    do
        j->next = before;
    while (!atomic_compare_exchange_weak_explicit(&p->finished, &before, j, memory_order_release, memory_order_relaxed));
    /* The loop takes all there are, so one word is enough. */
    uint64_t one = 1;
    if (!before && write(p->wake_fd, &one, sizeof one) < 0) {
        /* Only a full counter refuses, and then the loop is awake anyway. */
    }
}

static void *worker(void *arg)
{
    htc__pool *p = arg;
    pthread_mutex_lock(&p->lock);
    for (;;) {
        job *j = list_pop(&p->waiting);
        if (!j) {
            if (p->ending)
                break;
            p->idle++;
            pthread_cond_wait(&p->more, &p->lock);
            p->idle--;
            continue;
        }
        pthread_mutex_unlock(&p->lock);
        j->work(j->ctx);
        finish(p, j);
        pthread_mutex_lock(&p->lock);
    }
    pthread_mutex_unlock(&p->lock);
    return NULL;
}

static void call_done(htc__pool *p)
{
    job *newest;
    while ((newest = atomic_exchange_explicit(&p->finished, NULL, memory_order_acquire)) != NULL) {
        job *first = NULL;
        for (job *j = newest, *next; j; j = next) {
            next = j->next;
            j->next = first;
            first = j;
        }
        for (job *j = first, *next; j; j = next) {
            next = j->next;
            if (j->done)
                j->done(j->ctx);
            free(j);
        }
    }
}

static void on_wake(evutil_socket_t fd, short what, void *arg)
{
    uint64_t n;
    (void)what;
    if (read(fd, &n, sizeof n) < 0 && errno != EAGAIN)
        return;
    call_done(arg);
}

htc_status htc__pool_create(htc_host *host, uint32_t threads, htc__pool **out)
{
    htc__pool *p = calloc(1, sizeof *p);
    if (!p)
        return HTC_ENOMEM;
    p->host = host;
    p->threads_max = threads > THREADS_MAX ? THREADS_MAX : threads;
    list_init(&p->waiting);
    atomic_init(&p->finished, NULL);
    p->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    p->wake = p->wake_fd < 0 ? NULL : event_new(host->base, p->wake_fd, EV_READ | EV_PERSIST, on_wake, p);
    if (!p->wake || event_add(p->wake, NULL) != 0) {
        if (p->wake)
            event_free(p->wake);
        if (p->wake_fd >= 0)
            close(p->wake_fd);
        free(p);
        return HTC_ENOMEM;
    }
    pthread_mutex_init(&p->lock, NULL);
    pthread_cond_init(&p->more, NULL);
    *out = p;
    return HTC_OK;
}

/* Signals are the loop's: a worker thread takes none. */
static int start_thread(htc__pool *p)
{
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    int error = pthread_create(&p->threads[p->threads_count], NULL, worker, p);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (error == 0)
        p->threads_count++;
    return error;
}

htc_status htc__pool_add(htc__pool *p, void (*work)(void *), void (*done)(void *), void *ctx)
{
    job *j = calloc(1, sizeof *j);
    if (!j)
        return HTC_ENOMEM;
    *j = (job){ work, done, ctx, NULL };
    pthread_mutex_lock(&p->lock);
    assert(p->idle <= p->threads_count); /* else a piece would wait for a thread that there is not */
    htc_status status = p->waiting.count >= WAITING_MAX ? HTC_EBUSY : HTC_OK;
    if (status == HTC_OK && p->waiting.count >= p->idle && p->threads_count < p->threads_max && start_thread(p) != 0 &&
        p->threads_count == 0)
        status = HTC_EBUSY;
    if (status == HTC_OK)
        list_push(&p->waiting, j);
    pthread_mutex_unlock(&p->lock);
    if (status == HTC_OK)
        pthread_cond_signal(&p->more);
    else
        free(j);
    return status;
}

htc_status htc__pool_post(htc__pool *p, void (*fn)(void *), void *ctx)
{
    job *j = calloc(1, sizeof *j);
    if (!j)
        return HTC_ENOMEM;
    *j = (job){ NULL, fn, ctx, NULL };
    finish(p, j);
    return HTC_OK;
}

void htc__pool_destroy(htc__pool *p)
{
    if (!p)
        return;
    /* A done may ask for more work, which starts threads again: go on until there was none. (An empty list does not say so:
     * the last piece may be in the hands of a thread.) */
    do {
        pthread_mutex_lock(&p->lock);
        p->ending = 1;
        pthread_cond_broadcast(&p->more);
        pthread_mutex_unlock(&p->lock);
        for (uint32_t i = 0; i < p->threads_count; i++)
            pthread_join(p->threads[i], NULL);
        p->threads_count = 0;
        p->ending = 0;
        call_done(p);
    } while (p->threads_count > 0);
    assert(!p->waiting.first && p->idle == 0); /* every piece has been done, and told */
    event_free(p->wake);
    close(p->wake_fd);
    pthread_mutex_destroy(&p->lock);
    pthread_cond_destroy(&p->more);
    free(p);
}
