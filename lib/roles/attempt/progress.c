#include "roles/attempt/progress.h"

int htc__progress_is_idle(task_progress *p, htc_ns limit, htc_ns now, uint64_t number)
{
    int first = p->since == 0;
    if (limit == 0)
        return 0;
    if (first || number != p->seen) {
        p->seen = number;
        p->since = now;
        return 0;
    }
    if (now - p->since < limit)
        return 0;
    p->since = now;
    return 1;
}

uint64_t htc__progress_mix(uint64_t number, uint64_t seen)
{
    uint64_t x = (number ^ seen) + UINT64_C(0x9e3779b97f4a7c15);
    x = (x ^ x >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    x = (x ^ x >> 27) * UINT64_C(0x94d049bb133111eb);
    return x ^ x >> 31;
}
