/* The atomic operations of the deque, so thin that the same algorithm compiles as C11 for use and as C++ against a
 * checker. HTC__DEQUE_ATOMICS names a header that defines the same names otherwise: tests/model/deque_relacy.hpp is
 * one. */
#ifndef HTC_SCHED_DEQUE_ATOMICS_H
#define HTC_SCHED_DEQUE_ATOMICS_H

#include <stdint.h>

#ifdef HTC__DEQUE_ATOMICS
#include HTC__DEQUE_ATOMICS
#else

#include <stdalign.h>
#include <stdatomic.h>

/* A checked build: the checker defines this function, which is called before each access to shared memory, and slots
 * are plain. A slot is read and written only by who owns what is in it; nothing but the orders below keeps it so, and
 * ThreadSanitizer reports a race where one of them is too weak. */
#ifdef HTC__DEQUE_CHECKED
void          htc__deque_step(void);
#define DEQUE_STEP()      htc__deque_step()
typedef void *deque_slot;
#define SLOT_GET(slot)    (DEQUE_STEP(), *(slot))
#define SLOT_SET(slot, v) (DEQUE_STEP(), *(slot) = (v))
#else
#define DEQUE_STEP()      ((void)0)
typedef _Atomic(void *) deque_slot;
#define SLOT_GET(slot)    atomic_load_explicit(slot, memory_order_relaxed)
#define SLOT_SET(slot, v) atomic_store_explicit(slot, v, memory_order_relaxed)
#endif

#define ATOMIC(type)            _Atomic(type)
#define ORDER_(order)           memory_order_##order
#define ORDER(order)            ORDER_(order)
#define ATOMIC_INIT(p, v)       atomic_init(p, v)
#define ATOMIC_GET(p, order)    (DEQUE_STEP(), atomic_load_explicit(p, ORDER(order)))
#define ATOMIC_SET(p, v, order) (DEQUE_STEP(), atomic_store_explicit(p, v, ORDER(order)))
#define ATOMIC_ADD(p, v, order) (DEQUE_STEP(), atomic_fetch_add_explicit(p, v, ORDER(order)))
/* 1 if *p was *was and is now v; else *was is what it was. */
#define ATOMIC_CAS(p, was, v, order)                                                                                   \
    (DEQUE_STEP(), atomic_compare_exchange_strong_explicit(p, was, v, ORDER(order), memory_order_relaxed))

/* Two lines: processors fetch them in pairs. */
#define DEQUE_BLOCK_BYTES    128
#define DEQUE_BLOCK          alignas(DEQUE_BLOCK_BYTES)
#define DEQUE_COLD           __attribute__((noinline, cold, unused))
#define DEQUE_LIKELY(x)      __builtin_expect(!!(x), 1)
/* Eight slots are a line. */
#define DEQUE_PREFETCH(slot) __builtin_prefetch((const void *)(slot))
#define DEQUE_PREFETCH_MAX   64
/* How often the owner looks whether a thief has done copying before it takes other slots. */
#define DEQUE_PATIENCE       64
#if defined(__x86_64__) || defined(__i386__)
#define DEQUE_PAUSE() __builtin_ia32_pause()
#elif defined(__aarch64__)
#define DEQUE_PAUSE() __asm__ volatile("yield")
#else
#define DEQUE_PAUSE() ((void)0)
#endif

#endif /* HTC__DEQUE_ATOMICS */

/* Every order that is not relaxed, and what it pairs with. tests/model/deque_relacy.cpp and tests/race/deque_mutants.sh
 * weaken each in turn to relaxed; both notice every one of them.
 *
 * Slots, bottom, asked and the first look at the word are relaxed: they are hints, or ordered by what stands here. So
 * are reclaim and flip: they use nothing that another thread wrote but the word itself, and being read-modify-writes
 * they do not end the release sequence of the publications before them. */

/* The owner's items are in their slots before the word says so. */
#ifndef DEQUE_PUBLISH
#define DEQUE_PUBLISH release
#endif

/* Pairs with every publication before it in the order of the word: all changes of the word are read-modify-writes. */
#ifndef DEQUE_CLAIM
#define DEQUE_CLAIM acquire
#endif

/* A larger ring has its items before anybody finds it. The claim does not order this: it may be of items that were
 * published before the growth, and yet meet the new ring. */
#ifndef DEQUE_RING_SET
#define DEQUE_RING_SET release
#endif
#ifndef DEQUE_RING_GET
#define DEQUE_RING_GET acquire
#endif

/* A thief has read its slots before it says so, and the owner has heard of all of them before it writes there. Thieves
 * add, so that each stands in the release sequence of those before. */
#ifndef DEQUE_COPIED
#define DEQUE_COPIED release
#endif
#ifndef DEQUE_COLLECT
#define DEQUE_COLLECT acquire
#endif

#endif
