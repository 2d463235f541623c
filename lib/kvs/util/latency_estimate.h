/* How long somebody takes to answer: whoever is there and only slow is waited for by that, and not asked behind another's back.
 *
 * It is the longest of late, not a mean: answers that no disk was needed for lie between those that it was, and one that is waited for too
 * long costs less than one that is asked for twice. It counts half after HTC__KV_PACE_HALF times the time that nobody is slow in.
 *
 * Also what was given to one, and then to another: the answer of the first says, when it comes, how long would have been enough. */
#ifndef HTC_KVS_PACE_H
#define HTC_KVS_PACE_H

#include "htcsched/bytes.h"

#define HTC__KV_PACE_HALF 16u
#define HTC__KV_PASSED    64u

typedef struct htc__kv_latency {
    htc_ns longest, at; /* the answer that took longest, and when it came */
} htc__kv_latency;

typedef struct htc__kv_passed {
    uint64_t what, who;
    htc_ns   given;
} htc__kv_passed;

/* The newest ones; it only has to hold some of those that are answered late. */
typedef struct htc__kv_passed_on {
    htc__kv_passed one[HTC__KV_PASSED];
    uint32_t       next;
} htc__kv_passed_on;

/* usual: nobody is slow who answers in that time. */
static inline htc_ns htc__kv_latency_longest(const htc__kv_latency *p, htc_ns now, htc_ns usual)
{
    htc_ns halves = (now - p->at) / (HTC__KV_PACE_HALF * usual);
    return halves < 64 ? p->longest >> halves : 0;
}

static inline void htc__kv_latency_answered(htc__kv_latency *p, htc_ns now, htc_ns given, htc_ns usual)
{
    if (now - given >= htc__kv_latency_longest(p, now, usual))
        *p = (htc__kv_latency){ now - given, now };
}

static inline void htc__kv_passed_note(htc__kv_passed_on *on, uint64_t what, uint64_t who, htc_ns given)
{
    on->one[on->next++ % HTC__KV_PASSED] = (htc__kv_passed){ what, who, given };
}

/* The late answer of `who` to that. NULL: it is not known. */
static inline const htc__kv_passed *htc__kv_passed_find(const htc__kv_passed_on *on, uint64_t what, uint64_t who)
{
    for (uint32_t i = 0; i < HTC__KV_PASSED; i++)
        if (on->one[i].what == what && on->one[i].who == who && on->one[i].given)
            return &on->one[i];
    return NULL;
}

#endif
