#include "watch.h"

#include <inttypes.h>
#include <malloc.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#define LARGE    ((size_t)32 << 20)
#define HEAP_PAD (64 << 20) /* the heap grows by so much */

#define CHECKPOINT_NS  (600 * HTC_SECOND)
#define FOR_CHECKPOINT 2

static volatile int  own;
static volatile int *stopped = &own; /* 1: by a signal. In memory of all processes once they share it */

static void on_signal(int number)
{
    (void)number;
    *stopped = 1;
}

int watch_stopped(void)
{
    return *stopped == 1;
}

void watch_go_on(void)
{
    if (*stopped == FOR_CHECKPOINT)
        *stopped = 0;
}

void watch_share(void)
{
    if (stopped != &own)
        return;
    volatile int *shared = mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (shared == MAP_FAILED)
        return;
    *shared = own;
    stopped = shared;
    if (own) /* a signal came in between */
        *shared = own;
}

static htc_ns now(void *ctx)
{
    struct timespec t;
    (void)ctx;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (htc_ns)t.tv_sec * HTC_SECOND + (htc_ns)t.tv_nsec;
}

double watch_seconds(void)
{
    return (double)now(NULL) / 1e9;
}

static void release(void *p, size_t size)
{
    if (p && size >= LARGE)
        munmap(p, size);
    else
        free(p);
}

/* The heap is asked for in huge pages as it grows: the queues of 65,536 nodes are a gigabyte of small blocks. */
static void *resize_small(void *p, size_t size)
{
    static atomic_uintptr_t asked; /* up to here; two threads may ask for the same */
    void                   *got = realloc(p, size);
    uintptr_t               end = (uintptr_t)sbrk(0), from = atomic_load_explicit(&asked, memory_order_relaxed);
    if (got && end > from) {
        atomic_store_explicit(&asked, end, memory_order_relaxed);
        if (from)
            madvise((void *)from, end - from, MADV_HUGEPAGE);
    }
    return got;
}

/* Large blocks in huge pages where the system has them: a queue of a gigabyte is a third faster in them. */
static void *resize(void *ctx, void *p, size_t old_size, size_t new_size)
{
    int was_large = p && old_size >= LARGE, is_large = new_size >= LARGE;
    (void)ctx;
    if (new_size == 0) {
        release(p, old_size);
        return NULL;
    }
    if (!was_large && !is_large)
        return resize_small(p, new_size);
    void *fresh = !is_large ? malloc(new_size) :
                  was_large ? mremap(p, old_size, new_size, MREMAP_MAYMOVE) :
                              mmap(NULL, new_size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (!fresh || fresh == MAP_FAILED)
        return NULL;
    if (is_large)
        madvise(fresh, new_size, MADV_HUGEPAGE);
    if (p && !(was_large && is_large)) {
        memcpy(fresh, p, old_size < new_size ? old_size : new_size);
        release(p, old_size);
    }
    return fresh;
}

static void span_text(double s, char *out, size_t room)
{
    if (s < 100)
        snprintf(out, room, "%.0f s", s);
    else if (s < 6000)
        snprintf(out, room, "%.0f min", s / 60);
    else
        snprintf(out, room, "%.1f h", s / 3600);
}

#define MUCH (UINT64_C(256) << 20)

void watch_needs(watch *w, uint64_t bytes)
{
    if (w->quiet || w->needs_said || bytes < MUCH || (w->host.memory_max && bytes > w->host.memory_max)) /* what is too much is refused */
        return;
    w->needs_said = 1;
    fprintf(stderr, "htc-sim: the run needs up to %.1f GiB of memory\n", (double)bytes / 1073741824);
}

void watch_say(watch *w, uint64_t done, uint64_t all, double rate, double left, double spent)
{
    char text[32] = "";
    int  terminal = isatty(STDERR_FILENO);
    if (w->quiet || spent < 2 || (w->said > 0 && spent - w->said < (terminal ? 0.5 : 10)))
        return;
    w->said = spent;
    fprintf(stderr, "%s%" PRIu64 " of %" PRIu64 " %s", terminal ? "\r" : "", done, all, w->what);
    if (rate > 0) { /* else nothing is known of what is left */
        span_text(left, text, sizeof text);
        fprintf(stderr, ", %.3g a second, %s left", rate, text);
    }
    fputs(terminal ? "   " : "\n", stderr);
    w->open = terminal;
}

static void progress(void *ctx, const htc_scale_progress *p)
{
    const watch *w = ctx;
    if (w->checkpoints && p->spent > CHECKPOINT_NS && !*stopped)
        *stopped = FOR_CHECKPOINT;
    watch_say(ctx, p->done, p->total, p->rate, (double)p->left / 1e9, (double)p->spent / 1e9);
}

void watch_open(watch *w, uint64_t memory_max, int quiet)
{
    struct sigaction action = { .sa_handler = on_signal, .sa_flags = (int)SA_RESETHAND }; /* the second time it ends at once */
    long             pages = sysconf(_SC_PHYS_PAGES), page = sysconf(_SC_PAGESIZE);
    if (!memory_max && pages > 0 && page > 0)
        memory_max = (uint64_t)pages * (uint64_t)page / 4 * 3;
    *w = (watch){ .what = "tasks", .quiet = quiet, .alloc = { resize, NULL }, .env = { .size = sizeof w->env } };
    w->env.alloc = &w->alloc;
    mallopt(M_TOP_PAD, HEAP_PAD);
    mallopt(M_MMAP_THRESHOLD, (int)LARGE);
    w->host = (htc_scale_host){ .size = sizeof w->host, .memory_max = memory_max, .stop = stopped, .clock = now, .progress = progress, .ctx = w,
                                .progress_ns = 500 * HTC_MS };
    sigaction(SIGINT, &action, NULL);
    sigaction(SIGTERM, &action, NULL);
}

static void parallel(void *ctx, uint32_t n, void (*work)(void *arg, uint32_t i), void *arg)
{
    threads_do(((watch *)ctx)->threads, n, work, arg);
}

void watch_threads(watch *w, uint32_t n)
{
    long here = sysconf(_SC_NPROCESSORS_ONLN);
    w->threads = threads_open(n ? n : here > 0 ? (uint32_t)here : 1);
    w->host.parallel = w->threads ? parallel : NULL;
}

void watch_threads_end(watch *w)
{
    threads_close(w->threads);
    w->threads = NULL;
    w->host.parallel = NULL;
}

void watch_close(watch *w)
{
    if (w->open)
        fputc('\n', stderr);
    w->open = 0;
    w->said = 0;
}
