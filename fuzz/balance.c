/* Two things in one input, by its first byte.
 *
 * 0: the rest is a census, from anybody. It is refused, or its counts are what a request is led by.
 *
 * Else: the container fuzzer. The rest are changes of a tree of free counts, and a plain array goes along. */
#include "htcsched/balance.h"
#include "check.h"
#include "core/codec.h"

#define PARTITIONS 16u

/* Without other requests each partition is tried once, best fit first, until all that the census promised is taken. */
static void check_census(htc_bytes census)
{
    htc_balance_options  o = HTC_BALANCE_OPTIONS_INIT;
    htc_balance         *b = NULL;
    htc_balance_request *r = NULL;
    htc_balance_action   a;
    htc_balance_answer   answer = { 0, 0 };
    htc_rng              rng = { census.len };
    uint32_t             tried = 0;
    o.partitions = PARTITIONS;
    o.own = HTC_BALANCE_NONE;
    CHECK(htc_balance_create(NULL, &o, &b) == HTC_OK);
    htc_status status = htc_balance_pull(b, 0, &rng, census);
    CHECK(status == HTC_OK || status == HTC_ECORRUPT || status == HTC_EVERSION);
    CHECK(htc_balance_begin(b, UINT64_C(1) << 40, &r) == HTC_OK);
    for (;;) {
        CHECK(htc_balance_step(r, 0, &rng, &answer, &a) == HTC_OK);
        if (a.kind != HTC_BALANCE_TAKE)
            break;
        CHECK(status == HTC_OK && a.partition < PARTITIONS && !(tried >> a.partition & 1));
        tried |= UINT32_C(1) << a.partition;
        answer.taken = 1;
    }
    if (tried) { /* nobody waits with nodes held */
        CHECK(a.kind == HTC_BALANCE_RELEASE);
        CHECK(htc_balance_step(r, 0, &rng, NULL, &a) == HTC_OK);
    }
    CHECK(a.kind == HTC_BALANCE_WAIT);
    htc_balance_end(r);
    htc_balance_destroy(b);
}

typedef struct entry {
    uint32_t free; /* HTC_BALANCE_UNKNOWN: not in the tree */
    uint32_t since;
} entry;

static int better(const entry *a, const entry *b, uint64_t need)
{
    if ((a->free >= need) != (b->free >= need))
        return a->free >= need;
    if (a->free != b->free)
        return (a->free < b->free) == (a->free >= need);
    return a->since < b->since;
}

static void check_best(const htc_balance_tree *t, const entry *m, uint64_t need)
{
    const entry *best = NULL;
    uint32_t     p = PARTITIONS, free = 0;
    for (uint32_t i = 0; i < PARTITIONS; i++)
        if (m[i].free != HTC_BALANCE_UNKNOWN && m[i].free > 0 && (!best || better(&m[i], best, need)))
            best = &m[i];
    CHECK(htc_balance_tree_best(t, need, &p, &free) == (best ? HTC_OK : HTC_AGAIN));
    CHECK(!best || (&m[p] == best && free == best->free));
}

/* Counts close to each other, and around every power of two up to 2^most. */
static uint32_t read_count(htc_reader *r, uint32_t most)
{
    uint8_t  byte = htc_get_u8(r);
    uint32_t power = byte % (most + 1), count = (UINT32_C(1) << power) + (byte >> 5) - 4;
    return power < 3 ? byte >> 5 : count > HTC_BALANCE_FREE_MAX ? HTC_BALANCE_FREE_MAX : count;
}

static void check_changes(htc_reader *r, uint32_t most)
{
    htc_balance_tree *t = NULL;
    entry             m[PARTITIONS];
    uint32_t          inside = 0;
    CHECK(htc_balance_tree_create(NULL, PARTITIONS, &t) == HTC_OK);
    for (uint32_t i = 0; i < PARTITIONS; i++)
        m[i] = (entry){ HTC_BALANCE_UNKNOWN, 0 };
    for (uint32_t step = 1; step < 200 && htc_reader_left(r) > 0; step++) {
        uint8_t  op = htc_get_u8(r);
        uint32_t p = op % PARTITIONS;
        if (op < 160) {
            uint32_t free = read_count(r, most);
            CHECK(htc_balance_tree_set(t, p, free) == HTC_OK);
            if (m[p].free != free)
                m[p] = (entry){ free, step };
        } else if (op < 250) {
            CHECK(htc_balance_tree_remove(t, p) == (m[p].free == HTC_BALANCE_UNKNOWN ? HTC_ENOTFOUND : HTC_OK));
            m[p].free = HTC_BALANCE_UNKNOWN;
        } else {
            htc_balance_tree_clear(t);
            for (uint32_t i = 0; i < PARTITIONS; i++)
                m[i].free = HTC_BALANCE_UNKNOWN;
        }
        check_best(t, m, 1 + (uint64_t)read_count(r, most));
    }
    for (uint32_t i = 0; i < PARTITIONS; i++)
        inside += m[i].free != HTC_BALANCE_UNKNOWN;
    CHECK(htc_balance_tree_count(t) == inside);
    htc_balance_tree_destroy(t);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    htc_reader r = htc_reader_of((htc_bytes){ data, size });
    uint8_t    first = htc_get_u8(&r);
    if (first)
        check_changes(&r, first < 0xf0 ? 13 : 20); /* the largest counts cost megabytes */
    else if (size > 0)
        check_census((htc_bytes){ data + 1, size - 1 });
    return 0;
}
