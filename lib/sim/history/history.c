/* Operations, keys and clocks, and the fingerprints of values. */
#include "sim/history/history_private.h"

#include <string.h>

#include "core/util.h"

#define OPS_MAX   (UINT32_C(1) << 24)
#define KEYS_MAX  (UINT32_C(1) << 22)
#define BYTES_MAX ((size_t)256 << 20)
#define KEY_MAX   65535

/* ---------------------------------------------------------------- values */

/* Bytes are the digits of a number to a fixed base, modulo a Mersenne prime; a byte counts one more than it is, or leading zeros
 * would be nothing. */
#define PRIME ((UINT64_C(1) << 61) - 1)
#define BASE  UINT64_C(0x0f4b2ad1c3e58697)

static uint64_t reduce(uint64_t x)
{
    x = (x & PRIME) + (x >> 61);
    return x >= PRIME ? x - PRIME : x;
}

static uint64_t times(uint64_t a, uint64_t b)
{
    __extension__ typedef unsigned __int128 wide;
    wide                                    product = (wide)a * b;
    return reduce((uint64_t)(product & PRIME) + (uint64_t)(product >> 61));
}

static uint64_t base_power(uint64_t n)
{
    uint64_t result = 1, base = BASE;
    for (; n; n >>= 1, base = times(base, base))
        if (n & 1)
            result = times(result, base);
    return result;
}

/* As the store writes numbers: no blank, no plus, no leading zero. */
static int64_t number_of(const uint8_t *p, size_t n)
{
    int      minus = n > 0 && p[0] == '-';
    uint64_t v = 0;
    if (n == (size_t)minus || n > 20 || (p[minus] == '0' && n > 1))
        return HTC_HISTORY_NO_NUMBER;
    for (size_t i = (size_t)minus; i < n; i++) {
        if (p[i] < '0' || p[i] > '9' || v > (UINT64_C(1) << 63) / 10)
            return HTC_HISTORY_NO_NUMBER;
        v = v * 10 + (p[i] - '0');
    }
    /* The smallest number of all stands for none. */
    if (v > INT64_MAX)
        return HTC_HISTORY_NO_NUMBER;
    return minus ? -(int64_t)v : (int64_t)v;
}

htc_history_value htc_history_value_of(htc_bytes bytes)
{
    const uint8_t *p = bytes.data;
    uint64_t       hash = 0;
    for (size_t i = 0; i < bytes.len; i++)
        hash = reduce(times(hash, BASE) + p[i] + 1);
    return (htc_history_value){ hash, bytes.len, p ? number_of(p, bytes.len) : HTC_HISTORY_NO_NUMBER };
}

htc_history_value htc_history_value_join(htc_history_value a, htc_history_value b)
{
    if (htc__history_absent(a))
        a = (htc_history_value){ 0, 0, HTC_HISTORY_NO_NUMBER };
    return (htc_history_value){ reduce(times(a.hash, base_power(b.length)) + b.hash), a.length + b.length,
                                HTC_HISTORY_NO_NUMBER };
}

uint64_t htc__history_shrink(uint64_t length)
{
    return base_power(PRIME - 1 - length % (PRIME - 1)); /* the inverse, by Fermat */
}

htc_history_value htc__history_cut(htc_history_value whole, htc_history_value tail, uint64_t shrink)
{
    uint64_t hash = times(reduce(whole.hash + PRIME - reduce(tail.hash)), shrink);
    return (htc_history_value){ hash, whole.length - tail.length, HTC_HISTORY_NO_NUMBER };
}

int htc__history_absent(htc_history_value v)
{
    return v.length == HTC_HISTORY_ABSENT;
}

int htc__history_same(htc_history_value a, htc_history_value b)
{
    return a.length == b.length && (htc__history_absent(a) || a.hash == b.hash);
}

/* ---------------------------------------------------------------- the history */

htc_status htc_history_create(const htc_env *env, const htc_history_options *options, htc_history **out)
{
    htc_history_options o = { .size = sizeof o };
    if (!out)
        return HTC_EINVAL;
    *out = NULL;
    htc_status status =
        options ? htc__options_copy(&o, sizeof o, options, options->size, offsetof(htc_history_options, bytes_max))
                : HTC_OK;
    if (status != HTC_OK)
        return status;
    o.ops_max = o.ops_max ? o.ops_max : OPS_MAX;
    o.keys_max = o.keys_max ? o.keys_max : KEYS_MAX;
    o.bytes_max = o.bytes_max ? o.bytes_max : BYTES_MAX;
    htc_history *h = htc__alloc(env, sizeof *h);
    if (!h)
        return HTC_ENOMEM;
    h->options = o;
    if (env)
        h->env = *env;
    *out = h;
    return HTC_OK;
}

void htc_history_destroy(htc_history *h)
{
    if (!h)
        return;
    htc_env env = h->env;
    htc__free(&env, h->ops, h->ops_cap * sizeof *h->ops);
    htc__free(&env, h->keys, h->keys_cap * sizeof *h->keys);
    htc__free(&env, h->clocks, h->clocks_cap * sizeof *h->clocks);
    htc__free(&env, h->table, h->table_cap * sizeof *h->table);
    htc__free(&env, h->arena, h->arena_cap);
    htc__free(&env, h, sizeof *h);
}

int htc__history_room(const htc_env *env, void *array, size_t *cap, size_t needed, size_t size)
{
    void *old;
    memcpy(&old, array, sizeof old);
    if (needed <= *cap)
        return 1;
    size_t more = *cap < 16 ? 16 : *cap + *cap / 2;
    if (more < needed)
        more = needed;
    void *bigger = htc__resize(env, old, *cap * size, more * size);
    if (!bigger)
        return 0;
    memcpy(array, &bigger, sizeof bigger);
    *cap = more;
    return 1;
}

/* ---- keys ---- */

htc_bytes htc_history_key_bytes(const htc_history *h, uint32_t key)
{
    if (!h || key >= h->keys_count)
        return (htc_bytes){ NULL, 0 };
    return (htc_bytes){ h->arena + h->keys[key].at, h->keys[key].n };
}

uint32_t htc_history_keys(const htc_history *h)
{
    return h ? h->keys_count : 0;
}

static size_t slot_of(const htc_history *h, htc_bytes key)
{
    size_t slot = (size_t)htc_hash64(key, 0) & (h->table_cap - 1);
    while (h->table[slot] && !htc_bytes_equal(htc_history_key_bytes(h, h->table[slot] - 1), key))
        slot = (slot + 1) & (h->table_cap - 1);
    return slot;
}

static int widen(htc_history *h)
{
    size_t    cap = h->table_cap ? h->table_cap * 2 : 64, old_cap = h->table_cap;
    uint32_t *table = htc__alloc(&h->env, cap * sizeof *table), *old = h->table;
    if (!table)
        return 0;
    h->table = table;
    h->table_cap = cap;
    for (uint32_t k = 0; k < h->keys_count; k++)
        table[slot_of(h, htc_history_key_bytes(h, k))] = k + 1;
    htc__free(&h->env, old, old_cap * sizeof *old);
    return 1;
}

htc_status htc_history_key(htc_history *h, htc_bytes key, uint32_t *out)
{
    if (!h || !out || key.len > KEY_MAX || (key.len && !key.data))
        return HTC_EINVAL;
    if (h->table_cap) {
        size_t slot = slot_of(h, key);
        if (h->table[slot]) {
            *out = h->table[slot] - 1;
            return HTC_OK;
        }
    }
    if (h->keys_count >= h->options.keys_max || key.len > h->options.bytes_max - h->arena_len)
        return HTC_EFULL;
    if (((size_t)h->keys_count + 1) * 2 > h->table_cap && !widen(h))
        return HTC_ENOMEM;
    if (!htc__history_room(&h->env, &h->keys, &h->keys_cap, (size_t)h->keys_count + 1, sizeof *h->keys) ||
        !htc__history_room(&h->env, &h->arena, &h->arena_cap, h->arena_len + key.len + 1, 1))
        return HTC_ENOMEM;
    if (key.len)
        memcpy(h->arena + h->arena_len, key.data, key.len);
    h->table[slot_of(h, key)] = h->keys_count + 1;
    h->keys[h->keys_count] = (history_run){ h->arena_len, (uint32_t)key.len };
    h->arena_len += key.len;
    *out = h->keys_count++;
    return HTC_OK;
}

/* ---- clocks ---- */

htc_status htc_history_clock(htc_history *h, const htc_history_tick *ticks, size_t n, uint32_t *out)
{
    size_t len = n * sizeof *ticks;
    if (!h || !out || n > HTC_HISTORY_CLOCK_MAX || (n && !ticks))
        return HTC_EINVAL;
    for (size_t i = 0; i < n; i++) {
        for (size_t j = 0; j < i; j++)
            if (ticks[i].member == ticks[j].member)
                return HTC_EINVAL;
        if (ticks[i].counter == 0)
            return HTC_EINVAL;
    }
    if (n == 0) {
        *out = 0;
        return HTC_OK;
    }
    if (len > h->options.bytes_max - h->arena_len || h->clocks_count == UINT32_MAX - 1)
        return HTC_EFULL;
    if (!htc__history_room(&h->env, &h->clocks, &h->clocks_cap, (size_t)h->clocks_count + 1, sizeof *h->clocks) ||
        !htc__history_room(&h->env, &h->arena, &h->arena_cap, h->arena_len + len, 1))
        return HTC_ENOMEM;
    memcpy(h->arena + h->arena_len, ticks, len);
    h->clocks[h->clocks_count] = (history_run){ h->arena_len, (uint32_t)n };
    h->arena_len += len;
    *out = ++h->clocks_count;
    return HTC_OK;
}

int htc__history_tick_at(const htc_history *h, uint32_t clock, uint32_t i, htc_history_tick *out)
{
    if (clock == 0 || i >= h->clocks[clock - 1].n)
        return 0;
    memcpy(out, h->arena + h->clocks[clock - 1].at + i * sizeof *out, sizeof *out);
    return 1;
}

uint64_t htc__history_tick(const htc_history *h, uint32_t clock, uint64_t member)
{
    htc_history_tick t;
    for (uint32_t i = 0; htc__history_tick_at(h, clock, i, &t); i++)
        if (t.member == member)
            return t.counter;
    return 0;
}

/* ---- operations ---- */

/* A get that found nothing, and one that found something, say so in both places. */
static int agrees(const htc_history_op *op)
{
    if (op->kind == HTC_HISTORY_GET && op->outcome == HTC_HISTORY_DONE)
        return !htc__history_absent(op->observed);
    if ((op->kind == HTC_HISTORY_GET || op->kind == HTC_HISTORY_DELETE) && op->outcome == HTC_HISTORY_MISSED)
        return op->observed.length >= HTC_HISTORY_UNSAID;
    return 1;
}

static int sound(const htc_history *h, const htc_history_op *op)
{
    /* The state of a copy counts on from a version it was told. */
    if (op->version > UINT64_MAX / 2 || (op->kind == HTC_HISTORY_CAS_VERSION && op->expected > UINT64_MAX / 2))
        return 0;
    return agrees(op) && op->kind >= HTC_HISTORY_GET && op->kind <= HTC_HISTORY_CURRENT &&
           op->outcome <= HTC_HISTORY_REFUSED && op->key < h->keys_count && op->clock <= h->clocks_count &&
           !(op->flags & ~HTC_HISTORY_FINAL) && op->invoked <= op->returned &&
           (op->outcome == HTC_HISTORY_UNKNOWN || op->returned != HTC_NEVER);
}

htc_status htc_history_add(htc_history *h, const htc_history_op *op, size_t *index)
{
    if (!h || !op || !sound(h, op))
        return HTC_EINVAL;
    if (h->count >= h->options.ops_max)
        return HTC_EFULL;
    if (!htc__history_room(&h->env, &h->ops, &h->ops_cap, h->count + 1, sizeof *h->ops))
        return HTC_ENOMEM;
    if (index)
        *index = h->count;
    h->ops[h->count++] = *op;
    return HTC_OK;
}

htc_status htc_history_answer(htc_history *h, size_t index, const htc_history_op *answer)
{
    if (!h || !answer || index >= h->count || h->ops[index].outcome != HTC_HISTORY_UNKNOWN)
        return HTC_EINVAL;
    htc_history_op op = h->ops[index];
    op.outcome = answer->outcome;
    op.returned = answer->returned;
    op.version = answer->version;
    op.number = answer->number;
    op.observed = answer->observed;
    if (op.kind == HTC_HISTORY_WRITE)
        op.expected = answer->expected;
    if (!sound(h, &op))
        return HTC_EINVAL;
    h->ops[index] = op;
    return HTC_OK;
}

size_t htc_history_count(const htc_history *h)
{
    return h ? h->count : 0;
}

const htc_history_op *htc_history_at(const htc_history *h, size_t index)
{
    return h && index < h->count ? &h->ops[index] : NULL;
}
