/* What all models look at in a checkpoint that they have read. */
#include "sim/models/checked.h"

#include <stdio.h>
#include <string.h>

htc_status htc__checked_open(checked_lists *l, const htc_env *env, const void *first_next, size_t each, uint64_t n)
{
    *l = (checked_lists){ .env = env, .next = first_next, .each = each, .n = n, .seen = htc__alloc(env, n + !n) };
    return l->seen ? HTC_OK : HTC_ENOMEM;
}

int htc__checked_take(checked_lists *l, uint32_t i)
{
    if (i >= l->n || l->seen[i])
        return 0;
    l->seen[i] = 1;
    l->found++;
    return 1;
}

int htc__checked_list(checked_lists *l, uint32_t first, uint32_t *last, uint64_t *count)
{
    uint32_t end = CHECKED_NONE;
    uint64_t n = 0;
    for (uint32_t i = first, next; i != CHECKED_NONE; i = next) {
        if (!htc__checked_take(l, i))
            return 0;
        memcpy(&next, l->next + i * l->each, sizeof next);
        end = i;
        n++;
    }
    if (last)
        *last = end;
    if (count)
        *count = n;
    return 1;
}

void htc__checked_close(checked_lists *l)
{
    if (l->seen)
        htc__free(l->env, l->seen, l->n + !l->n);
    l->seen = NULL;
}

htc_status htc__checked_engine(htc_scale *scale, const htc_scale_tape *tape, uint8_t **events)
{
    run       *r = scale->run;
    htc_status status = htc_scale_move(scale, tape);
    *events = NULL;
    if (status != HTC_OK || !tape->reads)
        return status;
    *events = htc__alloc(&r->env, r->options.ids);
    if (!*events)
        return HTC_ENOMEM;
    for (uint32_t i = 0; i < r->parts; i++)
        htc__ladder_count_ids(r->part[i].queue, *events);
    return HTC_OK;
}

void htc__checked_forget(htc_scale *scale, uint8_t *events)
{
    if (events)
        htc__free(&scale->run->env, events, scale->run->options.ids);
}

htc_status htc__checked_error(const htc_scale *scale, htc_error *error, htc_status status)
{
    const char *part = scale ? scale->run->cannot_be : NULL;
    if (status == HTC_ECORRUPT)
        htc__error(error, status, "the checkpoint is damaged: %s%s", part ? part : "its numbers", part ? " are in a state that cannot be" : " cannot be");
    else if (status == HTC_EIO)
        htc__error(error, status, "the checkpoint ends too early");
    else if (status == HTC_ENOMEM)
        htc__error(error, status, "no memory for what the checkpoint has");
    else
        htc__error(error, status, "the checkpoint is not of this experiment");
    if (error && status == HTC_ECORRUPT)
        snprintf(error->hint, sizeof error->hint, "run the experiment again");
    return status;
}
