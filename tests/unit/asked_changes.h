/* Changes of the members that a client asks for, and what becomes of them. Included behind moving_world.h. */
#ifndef HTC_TESTS_ASKED_CHANGES_H
#define HTC_TESTS_ASKED_CHANGES_H

#include "htcsched/kv_members.h"

static inline void wait_for(int (*what)(int n), int n, const char *text)
{
    htc_ns until = w.now + 60 * HTC_SECOND;
    while (!what(n)) {
        cr_assert(w.now < until, "seed %llu: %s of %d never came", (unsigned long long)property_seed, text, n);
        turn(&w);
    }
}

static inline int has_left(int n)
{
    return w.node[n].left;
}

static inline htc_status change(uint32_t kind, int n, uint32_t weight)
{
    htc_kv_request q = { .size = sizeof q, .op = HTC_KV_CHANGE, .limit = kind, .version = n < 0 ? 0 : w.members[n].id, .delta = weight };
    htc_kv_result  r = ask_one(&w, 0, &q);
    cr_assert(r.status == HTC_OK ? r.value.len == 0 : r.value.len > 0, "seed %llu: a refusal has a reason", (unsigned long long)property_seed);
    return r.status;
}

static inline int at_rest(int n)
{
    return !under_way() && all_know() && (n < 0 || !listed(n));
}

static inline void give_up_now(void)
{
    htc_status status;
    while (moving() && (status = change(HTC_KV_CHANGE_BACK, -1, 0)) == HTC_EBUSY)
        run_until(&w, w.now + HTC_MS);
}

#endif
