#include "sim/scenarios/counted.h"

#include "core/util.h"

static void *resize(void *ctx, void *p, size_t old_size, size_t new_size)
{
    counted *c = ctx;
    void    *answer = NULL;
    if (new_size > old_size && c->max && new_size - old_size > c->max - c->bytes) {
        c->too_big = 1;
        return NULL;
    }
    if (new_size == 0)
        htc__free(c->base, p, old_size);
    else
        answer = p ? htc__resize_raw(c->base, p, old_size, new_size) : htc__alloc_raw(c->base, new_size);
    if (new_size && !answer)
        return NULL;
    c->bytes = c->bytes - old_size + new_size;
    c->peak = c->bytes > c->peak ? c->bytes : c->peak;
    return answer;
}

void htc__counted_open(counted *c, const htc_env *base, uint64_t max)
{
    *c = (counted){ .base = base, .max = max, .alloc = { resize, c } };
    c->env = (htc_env){ .size = sizeof c->env, .alloc = &c->alloc };
}
