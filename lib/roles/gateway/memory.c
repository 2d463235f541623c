#include "roles/gateway/memory.h"

#include <assert.h>

uint64_t htc__memory_free(const memory *m)
{
    return m->reserved < m->total ? m->total - m->reserved : 0;
}

int htc__memory_fits(const memory *m, uint64_t job, uint64_t more)
{
    uint64_t free_bytes = htc__memory_free(m), kept = m->kept_for && m->kept_for != job ? m->kept : 0;
    if (m->total == 0 || more == 0)
        return 1;
    return free_bytes >= kept && more <= free_bytes - kept;
}

void htc__memory_change(memory *m, uint64_t before, uint64_t after)
{
    assert(m->reserved >= before);
    m->reserved = m->reserved - before + after;
}

void htc__memory_keep(memory *m, uint64_t job, uint64_t need)
{
    assert(need <= m->total || job == 0);
    m->kept_for = job;
    m->kept = job ? need : 0;
}

int htc__memory_longer(const memory_wait *a, const memory_wait *b)
{
    if (a->job == 0 || b->job == 0)
        return a->job != 0;
    return a->since != b->since ? a->since < b->since : a->job < b->job;
}
