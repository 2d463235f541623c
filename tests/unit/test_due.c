/* What is due when (lib/sim/scenarios/due.h): beside an array that is looked through. */
#include "alloc_fail.h"
#include "property.h"
#include "sim/scenarios/due.h"

#define IDS 40

typedef struct naive {
    htc_ns   at[IDS];
    uint64_t order[IDS]; /* 0: it has no moment */
    uint64_t sets;
} naive;

static htc_ns first_of(const naive *n, uint32_t *id)
{
    htc_ns at = HTC_NEVER;
    for (uint32_t i = 0; i < IDS; i++)
        if (n->order[i] && (at == HTC_NEVER || n->at[i] < at || (n->at[i] == at && n->order[i] < n->order[*id]))) {
            at = n->at[i];
            *id = i;
        }
    return at;
}

Test(due, agrees_with_an_array)
{
    PROPERTY (rng, 500) {
        due   d = { .n = 0 };
        naive n = { .sets = 0 };
        for (int step = 0; step < 300; step++) {
            uint32_t id = (uint32_t)htc_rng_below(&rng, IDS), first = IDS, expected = IDS;
            if (htc_rng_below(&rng, 3)) {
                n.at[id] = htc_rng_below(&rng, 20);
                n.order[id] = ++n.sets;
                HOLDS(htc__due_set(&d, id, n.at[id]) == HTC_OK);
            } else {
                n.order[id] = 0;
                htc__due_clear(&d, id);
            }
            htc_ns at = first_of(&n, &expected);
            HOLDS(htc__due_first(&d, &first) == at && first == expected);
        }
        htc__due_free(&d);
        HOLDS(htc__due_first(&d, NULL) == HTC_NEVER);
    }
}

Test(due, refused_memory_changes_nothing)
{
    ALLOC_FAIL_EVERY (f, 20) {
        htc_env  env = alloc_fail_env(&f);
        due      d = { .env = &env };
        uint32_t id = 0;
        for (uint32_t i = 0; i < 100; i++) {
            htc_status status = htc__due_set(&d, i, 100 + i);
            cr_expect(status == HTC_OK || status == HTC_ENOMEM);
            if (status != HTC_OK)
                break;
            cr_expect(eq(u64, htc__due_first(&d, &id), 100));
            cr_expect(eq(u32, id, 0));
        }
        htc__due_free(&d);
        cr_expect(eq(sz, f.live, 0) && eq(sz, f.wrong_sizes, 0));
    }
}
