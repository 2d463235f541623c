/* est_task_length: what tasks of a kind have taken, as an exact sum and as a histogram of bounded error. */
#include <string.h>

#include "core/util.h"
#include "htcsched/locality.h"

__extension__ typedef unsigned __int128 u128;

#define KINDS_MAX 65536
#define KINDS     1024

/* Below 64 each length has a counter of its own; above, each doubling has 32, so that half a counter's width is at most
 * 1/64 of the lengths it counts. */
#define PARTS    32
#define EXACT    (2 * PARTS)
#define COUNTERS (EXACT + (63 - 5) * PARTS)

typedef struct kind {
    u128      sum;
    uint64_t  id;
    uint64_t  tasks;
    uint64_t *counters; /* COUNTERS of them; NULL with HTC_LOCALITY_MEAN */
} kind;

struct htc_locality_lengths {
    const htc_env               *env;
    htc_locality_lengths_options o;
    kind                        *kinds; /* by id */
    size_t                       n, cap;
    kind                         only; /* where there is one kind alone: beside the rest of it, as most workers have no more */
};

static uint32_t counter_of(htc_ns length)
{
    if (length < EXACT)
        return (uint32_t)length;
    uint32_t top = 63 - (uint32_t)__builtin_clzll(length); /* from 6 */
    return EXACT + (top - 6) * PARTS + (uint32_t)(length >> (top - 5)) % PARTS;
}

/* The middle of the lengths that are counted here. */
static htc_ns middle_of(uint32_t counter)
{
    if (counter < EXACT)
        return counter;
    uint32_t top = 6 + (counter - EXACT) / PARTS, part = (counter - EXACT) % PARTS;
    htc_ns   width = UINT64_C(1) << (top - 5);
    return (PARTS + part) * width + (width - 1) / 2;
}

void htc_locality_lengths_options_init(htc_locality_lengths_options *options, size_t size)
{
    htc__options_init(options, size);
}

htc_status htc_locality_lengths_create(const htc_env *env, const htc_locality_lengths_options *options,
                                       htc_locality_lengths **out)
{
    htc_locality_lengths_options o = HTC_LOCALITY_LENGTHS_OPTIONS_INIT;
    if (!out)
        return HTC_EINVAL;
    htc_status status = htc__options_copy(&o, sizeof o, options, options ? options->size : 0, sizeof o.size);
    if (status != HTC_OK)
        return status;
    if (o.estimator > HTC_LOCALITY_DISTRIBUTION || o.kinds_max > KINDS_MAX || o.quantile > HTC_LOCALITY_ONE)
        return HTC_EINVAL;
    htc_locality_lengths *l = htc__alloc(env, sizeof *l);
    if (!l)
        return HTC_ENOMEM;
    l->env = env;
    l->o = o;
    l->o.kinds_max = o.kinds_max ? o.kinds_max : KINDS;
    l->o.quantile = o.quantile ? o.quantile : HTC_LOCALITY_ONE / 2;
    l->o.unknown_ns = o.unknown_ns ? o.unknown_ns : HTC_SECOND;
    l->kinds = &l->only;
    l->cap = 1;
    *out = l;
    return HTC_OK;
}

void htc_locality_lengths_destroy(htc_locality_lengths *lengths)
{
    if (!lengths)
        return;
    for (size_t i = 0; i < lengths->n; i++)
        htc__free(lengths->env, lengths->kinds[i].counters, COUNTERS * sizeof(uint64_t));
    if (lengths->kinds != &lengths->only)
        htc__free(lengths->env, lengths->kinds, lengths->cap * sizeof *lengths->kinds);
    htc__free(lengths->env, lengths, sizeof *lengths);
}

/* Where the kind is, or would be. */
static size_t place_of(const htc_locality_lengths *l, uint64_t id)
{
    size_t low = 0, high = l->n;
    while (low < high) {
        size_t mid = low + (high - low) / 2;
        if (l->kinds[mid].id < id)
            low = mid + 1;
        else
            high = mid;
    }
    return low;
}

static kind *kind_of(const htc_locality_lengths *l, uint64_t id)
{
    size_t at = place_of(l, id);
    return at < l->n && l->kinds[at].id == id ? &l->kinds[at] : NULL;
}

static htc_status room_for_one(htc_locality_lengths *l)
{
    if (l->n == l->o.kinds_max)
        return HTC_EFULL;
    if (l->n < l->cap)
        return HTC_OK;
    int    is_own = l->kinds == &l->only;
    size_t cap = is_own ? 4 : l->cap * 2;
    kind  *grown = htc__resize(l->env, is_own ? NULL : l->kinds, is_own ? 0 : l->cap * sizeof *grown, cap * sizeof *grown);
    if (!grown)
        return HTC_ENOMEM;
    if (is_own)
        grown[0] = l->only;
    l->kinds = grown;
    l->cap = cap;
    return HTC_OK;
}

/* The kinds' array first: it may stay larger than needed, counters without a kind may not. */
static htc_status add_kind(htc_locality_lengths *l, uint64_t id, kind **out)
{
    uint64_t  *counters = NULL;
    htc_status status = room_for_one(l);
    if (status != HTC_OK)
        return status;
    if (l->o.estimator != HTC_LOCALITY_MEAN && !(counters = htc__alloc(l->env, COUNTERS * sizeof *counters)))
        return HTC_ENOMEM;
    size_t at = place_of(l, id);
    memmove(&l->kinds[at + 1], &l->kinds[at], (l->n - at) * sizeof *l->kinds);
    l->kinds[at] = (kind){ .id = id, .counters = counters };
    l->n++;
    *out = &l->kinds[at];
    return HTC_OK;
}

htc_status htc_locality_learn(htc_locality_lengths *lengths, uint64_t id, htc_ns run_ns, uint64_t times)
{
    if (!lengths || times == 0)
        return HTC_EINVAL;
    kind      *k = kind_of(lengths, id);
    htc_status status = k ? HTC_OK : add_kind(lengths, id, &k);
    if (status != HTC_OK)
        return status;
    if (times > UINT64_MAX - k->tasks)
        return HTC_EFULL;
    k->tasks += times;
    k->sum += (u128)run_ns * times; /* below 2^64 * 2^64, as each length and the number of tasks are below 2^64 */
    if (k->counters)
        k->counters[counter_of(run_ns)] += times;
    return HTC_OK;
}

static htc_ns mean_of(const kind *k)
{
    u128 mean = k->sum / k->tasks, rest = k->sum % k->tasks;
    return (htc_ns)(mean + (rest >= k->tasks - rest));
}

/* The length of the rank-th task by length, from 1 to their number. */
static htc_ns at_rank(const kind *k, uint64_t rank)
{
    uint32_t at = 0;
    while (k->counters[at] < rank)
        rank -= k->counters[at++];
    return middle_of(at);
}

htc_status htc_locality_estimate(const htc_locality_lengths *lengths, uint64_t id, htc_rng *rng, htc_ns *est_ns)
{
    if (!lengths || !est_ns || (lengths->o.estimator == HTC_LOCALITY_DISTRIBUTION && !rng))
        return HTC_EINVAL;
    const kind *k = kind_of(lengths, id);
    if (!k) {
        *est_ns = lengths->o.unknown_ns;
        return HTC_AGAIN;
    }
    switch ((htc_locality_estimator)lengths->o.estimator) {
    case HTC_LOCALITY_MEAN:
        *est_ns = mean_of(k);
        break;
    case HTC_LOCALITY_QUANTILE: {
        u128 parts = (u128)k->tasks * lengths->o.quantile;
        *est_ns = at_rank(k, (uint64_t)(parts / HTC_LOCALITY_ONE) + (parts % HTC_LOCALITY_ONE != 0));
        break;
    }
    case HTC_LOCALITY_DISTRIBUTION:
        *est_ns = at_rank(k, htc_rng_below(rng, k->tasks) + 1);
        break;
    }
    return HTC_OK;
}

uint64_t htc_locality_known(const htc_locality_lengths *lengths, uint64_t id)
{
    const kind *k = lengths ? kind_of(lengths, id) : NULL;
    return k ? k->tasks : 0;
}

/* ---- a tape ---- */

/* The counters of a kind add up to its tasks. */
static htc_status move_kind(htc_locality_lengths *l, const htc_tape *tape, size_t i)
{
    kind     *k = &l->kinds[i];
    uint64_t  numbers[] = { k->id, k->tasks }, counted = 0;
    htc_status status = tape->move(tape->ctx, numbers, sizeof numbers);
    if (status == HTC_OK)
        status = tape->move(tape->ctx, &k->sum, sizeof k->sum);
    if (status == HTC_OK && k->counters)
        status = tape->move(tape->ctx, k->counters, COUNTERS * sizeof *k->counters);
    if (status != HTC_OK)
        return status;
    k->id = numbers[0];
    k->tasks = numbers[1];
    for (uint32_t c = 0; k->counters && c < COUNTERS; c++) {
        if (k->counters[c] > k->tasks - counted)
            return HTC_ECORRUPT;
        counted += k->counters[c];
    }
    int is_kind = k->tasks && (!k->counters || counted == k->tasks) && (i == 0 || l->kinds[i - 1].id < k->id) && k->sum / k->tasks <= UINT64_MAX;
    return is_kind ? HTC_OK : HTC_ECORRUPT;
}

htc_status htc_locality_lengths_tape(htc_locality_lengths *lengths, const htc_tape *tape)
{
    htc_locality_lengths *l = lengths;
    htc_status            status = l ? htc__tape_check(tape) : HTC_EINVAL;
    if (status == HTC_OK && tape->reads && l->n)
        status = HTC_EINVAL;
    if (status != HTC_OK)
        return status;
    uint64_t head[] = { sizeof *l->kinds, l->o.estimator, l->o.kinds_max, l->o.quantile, l->o.unknown_ns, l->n }, found[sizeof head / sizeof *head];
    memcpy(found, head, sizeof head);
    status = tape->move(tape->ctx, found, sizeof found);
    if (status == HTC_OK && memcmp(found, head, sizeof head - sizeof *head) != 0)
        status = HTC_EFORMAT;
    for (size_t i = 0; i < found[5] && status == HTC_OK; i++) {
        kind *k;
        if (tape->reads) /* behind those that are there: the largest id there is comes last */
            status = i < l->o.kinds_max ? add_kind(l, UINT64_MAX, &k) : HTC_ECORRUPT;
        if (status == HTC_OK)
            status = move_kind(l, tape, i);
    }
    return status;
}
