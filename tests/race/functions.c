/* The threads of a helper of functions, and an executor that reads their rings while they write: each number is called exactly once, with its own
 * input, and told once; a span that is stopped is told to its end; threads without a slot do nothing, and slots come and go. HTC_TEST_FULL in the environment: ten times as many. */
#include "race.h"

#include <limits.h>
#include <linux/futex.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <sys/syscall.h>

#include "core/codec.h"
#include "net/functions/fn_pool.h"
#include "roles/functions/fn_frames.h"
#include "roles/functions/span_book.h"

enum { N = 40000, PORTION = 3000, THREADS_MAX = 4 };

static atomic_uint calls[N], at_work, most_at_work;

static int count(htc_fn_task *task)
{
    unsigned char want = (unsigned char)(task->number * 3);
    unsigned      beside = atomic_fetch_add(&at_work, 1) + 1, most = atomic_load(&most_at_work);
    while (beside > most && !atomic_compare_exchange_weak(&most_at_work, &most, beside))
        ;
    atomic_fetch_add_explicit(&calls[task->number], 1, memory_order_relaxed);
    atomic_fetch_sub(&at_work, 1);
    if (task->in_bytes && (task->in_bytes != 1 || *(const unsigned char *)task->in != want))
        return task->fail(task, "another's input");
    return task->number % 5 == 0 ? task->append(task, &task->number, sizeof task->number) : task->number % 1001 == 1;
}

static void nobody(void *ctx)
{
    (void)ctx;
}

static void gone(void)
{
    race_check(0, "a thread is gone");
}

typedef struct told {
    htc__span_book *book;
    uint32_t        tails[THREADS_MAX];
    uint64_t        outputs;
    uint8_t         line[HTC__FN_RING];
} told;

static void read_ring(told *t, htc__fn_shared *shared, uint32_t thread)
{
    htc__fn_thread *from = &shared->thread[thread];
    uint32_t        tail = t->tails[thread], n = atomic_load_explicit(&from->head, memory_order_acquire) - tail;
    htc_bytes       rest = { t->line, n }, bytes;
    htc__fn_record  r;
    race_check(n <= HTC__FN_RING, "%u bytes in a ring", n);
    for (uint32_t i = 0; i < n; i++)
        t->line[i] = from->ring[(tail + i) % HTC__FN_RING];
    t->tails[thread] = tail + n;
    atomic_store_explicit(&from->tail, tail + n, memory_order_release);
    htc_status status;
    while ((status = htc__fn_record_next(&rest, &r, &bytes)) == HTC_OK) {
        uint64_t number = 0;
        switch (r.kind) {
        case FN_ENDED: status = htc__span_book_ended(t->book, r.portion, r.offset, r.count); break;
        case FN_SKIPPED: status = htc__span_book_skipped(t->book, r.portion, r.offset, r.count); break;
        case FN_FAILED: status = htc__span_book_failed(t->book, r.portion, r.offset); break;
        default:
            memcpy(&number, bytes.data, sizeof number);
            race_check(bytes.len == sizeof number && number == htc__span_book_number(t->book, r.portion, r.offset), "another's output");
            t->outputs++;
            status = htc__span_book_output(t->book, r.portion, r.offset);
        }
        race_check(status == HTC_OK, "a record of kind %u: %d", r.kind, (int)status);
    }
    race_check(status == HTC_EMPTY, "what is no record");
}

static void put(htc__fn_pool *pool, htc__fn_span *span, const htc__span_portion *p, int with_input)
{
    htc_buf in;
    htc_buf_init(&in, NULL, 0);
    for (uint32_t i = 0; with_input && i < p->n; i++) {
        uint8_t byte = (uint8_t)((p->from + i) * 3);
        htc_put_bytes(&in, (htc_bytes){ &byte, 1 });
    }
    uint8_t *copy = with_input ? malloc(in.len) : NULL;
    if (copy)
        memcpy(copy, in.data, in.len);
    race_check(htc__fn_pool_put(pool, span, p->index, p->from, p->n, copy, in.len) == HTC_OK, "a portion");
    htc_buf_free(&in);
}

static void set_slots(htc__fn_shared *shared, uint32_t slots)
{
    atomic_store(&shared->slots, slots);
    syscall(SYS_futex, &shared->slots, FUTEX_WAKE, INT_MAX, NULL, NULL, 0);
}

/* stop_at: done, when the span is stopped; N: it is not. slots: of the threads may work; 0: it changes all the time. */
static void play(uint32_t threads, int with_input, uint64_t stop_at, uint32_t slots)
{
    htc_rng         rng = { threads };
    htc__fn_shared *shared = mmap(NULL, htc__fn_shared_size(threads), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    htc__fn_span    span = { .fn = count, .argument = "" };
    htc__fn_pool   *pool;
    told           *t = calloc(1, sizeof *t);
    uint64_t        once = 0;
    race_check(shared != MAP_FAILED && t, "memory");
    for (uint32_t i = 0; i < N; i++)
        atomic_store(&calls[i], 0);
    race_check(htc__span_book_create(NULL, 0, N, &t->book) == HTC_OK, "a book");
    set_slots(shared, slots ? slots : threads);
    atomic_store(&most_at_work, 0);
    race_check(htc__fn_pool_create(shared, threads, nobody, gone, NULL, &pool) == HTC_OK, "a pool");
    for (int stopped = 0; !htc__span_book_over(t->book) || htc__span_book_out(t->book);) {
        htc__span_portion p;
        while (!stopped && htc__span_book_next(t->book, PORTION, &p) == HTC_OK)
            put(pool, &span, &p, with_input);
        if (!stopped && htc__span_book_done(t->book) >= stop_at) {
            stopped = 1;
            atomic_store(&span.stop, 1);
        }
        for (uint32_t i = 0; i < threads; i++)
            read_ring(t, shared, i);
        if (!slots)
            set_slots(shared, 1 + (uint32_t)htc_rng_below(&rng, threads));
        if (stopped && !htc__span_book_out(t->book))
            break;
    }
    race_check(!slots || atomic_load(&most_at_work) <= slots, "%u at a time, in %u slots", atomic_load(&most_at_work), slots);
    htc__fn_pool_destroy(pool);
    for (uint32_t i = 0; i < N; i++) {
        race_check(atomic_load(&calls[i]) <= 1, "%u was called %u times", i, atomic_load(&calls[i]));
        once += atomic_load(&calls[i]);
    }
    race_check(once == htc__span_book_done(t->book) + htc__span_book_failures(t->book), "all that was called is told");
    race_check(stop_at < N || (once == N && t->outputs == N / 5), "all of it, and %llu outputs", (unsigned long long)t->outputs);
    htc__span_book_destroy(t->book);
    free(t);
    munmap(shared, htc__fn_shared_size(threads));
}

int main(void)
{
    int rounds = getenv("HTC_TEST_FULL") ? 20 : 2;
    for (int i = 0; i < rounds; i++)
        for (uint32_t threads = 1; threads <= THREADS_MAX; threads++) {
            play(threads, 0, N, threads);
            play(threads, 1, N, threads);
            play(threads, 0, N, 1);
            play(threads, 1, N, 0);
            play(threads, 0, 1000 * threads, 0);
        }
    race_said("each number is called once and told once, by 1 to 4 threads");
    return 0;
}
