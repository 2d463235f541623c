/* The atomic layer of lib/sched/deque/deque_atomics.h in terms of relacy: every access is a step of its scheduler, every load
 * may answer any value that the memory model of C11 allows, and slots are plain variables, on which it reports races.
 * The orders are variables, so that one program weakens each in turn. */
#ifndef HTC_TESTS_DEQUE_RELACY_HPP
#define HTC_TESTS_DEQUE_RELACY_HPP

#include <relacy/relacy.hpp>

static const rl::memory_order order_relaxed = rl::mo_relaxed;
static rl::memory_order order_publish = rl::mo_release, order_claim = rl::mo_acquire, order_ring_set = rl::mo_release,
                        order_ring_get = rl::mo_acquire, order_copied = rl::mo_release, order_collect = rl::mo_acquire;

#define DEQUE_PUBLISH  publish
#define DEQUE_CLAIM    claim
#define DEQUE_RING_SET ring_set
#define DEQUE_RING_GET ring_get
#define DEQUE_COPIED   copied
#define DEQUE_COLLECT  collect

#define ATOMIC(type)            rl::atomic<type>
#define ORDER_(order)           order_##order
#define ORDER(order)            ORDER_(order)
#define ATOMIC_INIT(p, v)       (p)->store((v), rl::mo_relaxed, RL_INFO)
#define ATOMIC_GET(p, order)    (p)->load(ORDER(order), RL_INFO)
#define ATOMIC_SET(p, v, order) (p)->store((v), ORDER(order), RL_INFO)
#define ATOMIC_ADD(p, v, order) (p)->fetch_add((v), ORDER(order), RL_INFO)
#define ATOMIC_CAS(p, was, v, order)                                                                                   \
    (p)->compare_exchange_strong(*(was), (v), ORDER(order), RL_INFO, rl::mo_relaxed, RL_INFO)

typedef rl::var<void *> deque_slot;
#define SLOT_GET(slot)    (*(slot))(RL_INFO).load()
#define SLOT_SET(slot, v) (*(slot))(RL_INFO).store(v)

#define DEQUE_BLOCK
#define DEQUE_COLD           __attribute__((unused))
#define DEQUE_LIKELY(x)      (x)
#define DEQUE_PREFETCH(slot) ((void)(slot))
#define DEQUE_PREFETCH_MAX   64
#define DEQUE_PATIENCE       2
#define DEQUE_PAUSE()        ((void)0)

#endif
