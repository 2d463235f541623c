/* The effects of one step: a table of what to do, and their bodies in one buffer. */
#include <string.h>

#include "core/codec.h"
#include "core/util.h"
#include "htcsched/machine.h"

#define KEPT ((size_t)4 << 20) /* of the memory of one step, for the next */

typedef struct entry {
    htc_effect effect; /* body.data is set when it is lent */
    size_t     at;     /* where the body begins in bodies */
} entry;

struct htc_output {
    htc_env env;
    htc_buf bodies;
    entry  *entries;
    size_t  count, cap;
};

htc_status htc_output_create(const htc_env *env, size_t bytes_max, htc_output **out)
{
    if (!out)
        return HTC_EINVAL;
    htc_output *o = htc__alloc(env, sizeof *o);
    if (!o)
        return HTC_ENOMEM;
    if (env)
        o->env = *env;
    htc_buf_init(&o->bodies, env, bytes_max);
    *out = o;
    return HTC_OK;
}

void htc_output_destroy(htc_output *o)
{
    if (!o)
        return;
    htc_env env = o->env;
    htc_buf_free(&o->bodies);
    htc__free(&env, o->entries, o->cap * sizeof *o->entries);
    htc__free(&env, o, sizeof *o);
}

void htc_output_clear(htc_output *o)
{
    o->count = 0;
    if (o->bodies.cap > KEPT)
        htc_buf_free(&o->bodies);
    htc_buf_clear(&o->bodies);
}

size_t htc_output_count(const htc_output *o)
{
    return o->count;
}

htc_status htc_output_get(const htc_output *o, size_t i, htc_effect *effect)
{
    if (i >= o->count)
        return HTC_EINVAL;
    *effect = o->entries[i].effect;
    effect->body.data = effect->body.len ? o->bodies.data + o->entries[i].at : NULL;
    return HTC_OK;
}

htc_status htc_output_add(htc_output *o, const htc_effect *effect)
{
    if (o->count == o->cap) {
        size_t cap = o->cap ? o->cap * 2 : 16;
        entry *entries = htc__resize(&o->env, o->entries, o->cap * sizeof *entries, cap * sizeof *entries);
        if (!entries)
            return HTC_ENOMEM;
        o->entries = entries;
        o->cap = cap;
    }
    size_t at = o->bodies.len;
    htc_put_raw(&o->bodies, effect->body);
    if (o->bodies.status != HTC_OK) {
        htc_status status = o->bodies.status;
        o->bodies.status = HTC_OK;
        return status;
    }
    o->entries[o->count++] = (entry){ *effect, at };
    return HTC_OK;
}
