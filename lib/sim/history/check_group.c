/* Operations key by key, and in order. */
#include "sim/history/history_private.h"

#include <string.h>

#include "core/util.h"

htc_status htc__history_group(const htc_history *h, history_groups *g)
{
    *g = (history_groups){ .env = &h->env, .n = h->count, .keys = h->keys_count };
    g->first = htc__alloc(g->env, (g->keys + 2) * sizeof *g->first);
    g->ops = htc__alloc(g->env, (g->n + 1) * sizeof *g->ops);
    if (!g->first || !g->ops) {
        htc__history_ungroup(g);
        return HTC_ENOMEM;
    }
    for (size_t i = 0; i < g->n; i++)
        g->first[h->ops[i].key + 2]++;
    for (size_t k = 2; k < g->keys + 2; k++)
        g->first[k] += g->first[k - 1];
    for (size_t i = 0; i < g->n; i++)
        g->ops[g->first[h->ops[i].key + 1]++] = (uint32_t)i;
    return HTC_OK;
}

void htc__history_ungroup(history_groups *g)
{
    htc__free(g->env, g->first, g->first ? (g->keys + 2) * sizeof *g->first : 0);
    htc__free(g->env, g->ops, g->ops ? (g->n + 1) * sizeof *g->ops : 0);
    g->first = NULL;
    g->ops = NULL;
}

static int before(const history_rank *a, const history_rank *b)
{
    return a->major != b->major ? a->major < b->major : a->minor < b->minor;
}

static void merge(const history_rank *from, history_rank *to, size_t left, size_t middle, size_t right)
{
    size_t i = left, j = middle;
    for (size_t k = left; k < right; k++)
        to[k] = i < middle && (j >= right || !before(&from[j], &from[i])) ? from[i++] : from[j++];
}

void htc__history_sort(history_rank *ranks, history_rank *scratch, size_t n)
{
    history_rank *from = ranks, *to = scratch;
    for (size_t i = 1; i < n; i++)
        if (before(&ranks[i], &ranks[i - 1]))
            goto unsorted;
    return;
unsorted:
    for (size_t width = 1; width < n; width *= 2) {
        for (size_t left = 0; left < n; left += 2 * width) {
            size_t middle = n - left < width ? n : left + width, right = n - left < 2 * width ? n : left + 2 * width;
            merge(from, to, left, middle, right);
        }
        history_rank *swap = from;
        from = to;
        to = swap;
    }
    if (from != ranks)
        memcpy(ranks, from, n * sizeof *ranks);
}

static htc_ns end_of(const htc_history *h)
{
    htc_ns end = 0;
    for (size_t i = 0; i < h->count; i++) {
        htc_ns at = h->ops[i].returned == HTC_NEVER ? h->ops[i].invoked : h->ops[i].returned;
        end = at > end ? at : end;
    }
    return end;
}

htc_status htc__history_each_key(const htc_history *h, const htc_history_rules *rules, htc_history_verdict *v,
                                 htc_status (*judge)(const history_key *k))
{
    htc_history_rules   r;
    history_groups      g;
    htc_history_verdict undecided = { .answer = 0 };
    if (!h || !v)
        return HTC_EINVAL;
    htc_ns end = end_of(h);
    htc__history_holds(v);
    htc_status status = htc__history_rules(rules, &r);
    if (status != HTC_OK || (status = htc__history_group(h, &g)) != HTC_OK)
        return status;
    for (uint32_t key = 0; key < g.keys && status == HTC_OK && v->answer != HTC_HISTORY_BROKEN; key++) {
        history_key k = { h, &r, v, g.ops + g.first[key], g.first[key + 1] - g.first[key], end, key };
        status = judge(&k);
        if (v->answer == HTC_HISTORY_UNDECIDED && !undecided.answer)
            undecided = *v;
    }
    if (undecided.answer && v->answer != HTC_HISTORY_BROKEN) {
        undecided.checked = v->checked;
        *v = undecided;
    }
    htc__history_ungroup(&g);
    return status;
}
