/* Rules that are judged by sorting: the verdicts are those of a reading that looks at everything for each operation. */
#include "expect.h"

#include <string.h>

#include "htcsched/history.h"
#include "property.h"

#define TTL      1000
#define TAKEOVER 100

static const htc_history_op init = HTC_HISTORY_OP_INIT;

static uint64_t below(htc_rng *rng, uint64_t n)
{
    return htc_rng_below(rng, n);
}

/* ---- leases ---- */

static htc_ns later(htc_ns a, htc_ns b)
{
    return a > HTC_NEVER - b ? HTC_NEVER : a + b;
}

/* Until nothing more is added: each time without a majority that had begun by then. */
static htc_ns stretched(const htc_history *h, htc_ns until, htc_ns span)
{
    for (int again = 1; again;) {
        again = 0;
        for (size_t i = 0; i < htc_history_count(h); i++) {
            const htc_history_op *o = htc_history_at(h, i);
            if (o->kind != HTC_HISTORY_DOWN || o->invoked > until || later(o->returned, span) <= until)
                continue;
            until = later(o->returned, span);
            again = 1;
        }
    }
    return until;
}

/* One lease, asked one at a time: is it seen alive later than it may be? */
static int outlives(const htc_history *h)
{
    htc_ns until = 0;
    int    granted = 0;
    for (size_t i = 0; i < htc_history_count(h); i++) {
        const htc_history_op *o = htc_history_at(h, i);
        if (o->kind == HTC_HISTORY_DOWN)
            continue;
        if (granted && o->kind != HTC_HISTORY_GRANT && o->outcome == HTC_HISTORY_DONE && o->invoked > until)
            return 1;
        htc_ns longer = stretched(h, later(o->returned, TTL + TAKEOVER), TTL + TAKEOVER);
        if (o->kind != HTC_HISTORY_LOOK && (!granted || (o->invoked <= until && longer > until)))
            until = longer;
        granted |= o->kind == HTC_HISTORY_GRANT;
    }
    return 0;
}

static void add_lease(htc_rng *rng, htc_history *h, uint32_t key)
{
    htc_ns         now = 1 + below(rng, 500), step = 1 + below(rng, 3000), gap = 1 + below(rng, 4000);
    htc_ns         grain = below(rng, 2) ? 1 : 100; /* moments that fall together */
    htc_history_op o = init;
    for (uint64_t i = 0, n = 1 + below(rng, 12); i < n; i++) {
        o.kind = i == 0 ? HTC_HISTORY_GRANT : below(rng, 3) ? HTC_HISTORY_RENEW : HTC_HISTORY_LOOK;
        o.key = key;
        o.expected = i == 0 ? TTL : 0;
        o.invoked = now;
        o.returned = now + below(rng, 50);
        o.outcome = i == 0 || below(rng, 4) ? HTC_HISTORY_DONE : HTC_HISTORY_UNKNOWN;
        if (o.outcome == HTC_HISTORY_UNKNOWN && below(rng, 2))
            o.returned = HTC_NEVER;
        now += 51 + below(rng, step);
        HOLDS(htc_history_add(h, &o, NULL) == HTC_OK);
    }
    for (uint64_t i = 0, n = below(rng, 12); i < n; i++) { /* they overlap, and come in any order */
        o = init;
        o.kind = HTC_HISTORY_DOWN;
        o.outcome = below(rng, 20) ? HTC_HISTORY_DONE : HTC_HISTORY_UNKNOWN; /* it has not ended */
        o.key = key;
        o.invoked = below(rng, n * gap) / grain * grain;
        o.returned = o.outcome == HTC_HISTORY_DONE ? o.invoked + below(rng, 1 + below(rng, gap)) / grain * grain : HTC_NEVER;
        HOLDS(htc_history_add(h, &o, NULL) == HTC_OK);
    }
}

Test(history_slow, leases)
{
    static const htc_history_rules rules = { .size = sizeof rules, .takeover_ns = TAKEOVER };
    size_t                         answers[4] = { 0 };
    PROPERTY (rng, 20000) {
        htc_history        *h = NULL;
        htc_history_verdict v;
        uint32_t            key = 0;
        HOLDS(htc_history_create(NULL, NULL, &h) == HTC_OK);
        HOLDS(htc_history_key(h, htc_bytes_of("l"), &key) == HTC_OK);
        add_lease(&rng, h, key);
        HOLDS(htc_history_leased(h, &rules, &v) == HTC_OK);
        HOLDS(v.answer == (outlives(h) ? HTC_HISTORY_BROKEN : HTC_HISTORY_HOLDS));
        answers[v.answer]++;
        htc_history_destroy(h);
    }
    cr_expect(answers[HTC_HISTORY_HOLDS] > 100 && answers[HTC_HISTORY_BROKEN] > 100, "%zu hold, %zu are broken",
              answers[HTC_HISTORY_HOLDS], answers[HTC_HISTORY_BROKEN]);
}

/* ---- copies ---- */

static int is_value(const htc_history_op *o)
{
    return o->outcome == HTC_HISTORY_DONE;
}

static int same(const htc_history_op *a, const htc_history_op *b)
{
    return a->expected == b->expected && a->version == b->version && a->observed.length == b->observed.length &&
           a->observed.hash == b->observed.hash;
}

/* The first value, and the first of a copy that does not hold it. 1: there is one. */
static int differ(const htc_history *h, size_t *value, size_t *copy)
{
    size_t n = htc_history_count(h);
    for (*value = 0; *value < n; ++*value)
        for (*copy = 0; *copy < n && is_value(htc_history_at(h, *value)); ++*copy) {
            int held = 0;
            for (size_t k = 0; k < n && !held; k++)
                held = is_value(htc_history_at(h, k)) && same(htc_history_at(h, k), htc_history_at(h, *value)) &&
                       htc_history_at(h, k)->process == htc_history_at(h, *copy)->process;
            if (!held)
                return 1;
        }
    return 0;
}

static void add_copies(htc_rng *rng, htc_history *h, uint32_t key)
{
    static const char *const texts[] = { "x", "y", "longer" };
    uint64_t                 copies = 1 + below(rng, 4), siblings = below(rng, 5), dots = 1 + below(rng, 3);
    htc_history_op           all[32];
    size_t                   n = 0;
    for (uint64_t s = 0; s < siblings; s++) {
        htc_history_op o = init;
        o.kind = HTC_HISTORY_SIBLING;
        o.flags = HTC_HISTORY_FINAL;
        o.outcome = HTC_HISTORY_DONE;
        o.key = key;
        o.returned = 0;
        o.expected = 1 + below(rng, dots);
        o.version = 1 + below(rng, dots);
        o.observed = htc_history_value_of(htc_bytes_of(texts[below(rng, 3)]));
        for (o.process = 1; o.process <= copies; o.process++)
            all[n++] = o;
    }
    for (uint64_t k = below(rng, 3); n && k > 0; k--) { /* one more of a copy, or another in its place, or nothing */
        htc_history_op  like = all[below(rng, n)];
        htc_history_op *o = &all[below(rng, 2) ? below(rng, n) : n++];
        *o = like;
        o->process = 1 + below(rng, copies);
        if (below(rng, 3) == 0)
            o->observed = htc_history_value_of(htc_bytes_of(texts[below(rng, 3)]));
    }
    if (n == 0 || below(rng, 8) == 0) {
        all[n] = init;
        all[n].kind = HTC_HISTORY_SIBLING;
        all[n].flags = HTC_HISTORY_FINAL;
        all[n].outcome = HTC_HISTORY_MISSED;
        all[n].key = key;
        all[n].returned = 0;
        all[n++].process = 1 + below(rng, copies + 1);
    }
    for (; n > 0; n--) {
        size_t i = below(rng, n);
        HOLDS(htc_history_add(h, &all[i], NULL) == HTC_OK);
        all[i] = all[n - 1];
    }
}

Test(history_slow, copies)
{
    size_t answers[2] = { 0 };
    PROPERTY (rng, 20000) {
        htc_history        *h = NULL;
        htc_history_verdict v;
        uint32_t            key = 0;
        size_t              value, copy;
        HOLDS(htc_history_create(NULL, NULL, &h) == HTC_OK);
        HOLDS(htc_history_key(h, htc_bytes_of("e"), &key) == HTC_OK);
        add_copies(&rng, h, key);
        HOLDS(htc_history_converged(h, NULL, &v) == HTC_OK);
        int found = v.answer == HTC_HISTORY_BROKEN && strstr(v.text, "did not converge");
        HOLDS(found == differ(h, &value, &copy));
        HOLDS(!found || (v.involved == 2 && v.ops[0] == value && v.ops[1] == copy));
        answers[found]++;
        htc_history_destroy(h);
    }
    cr_expect(answers[0] > 100 && answers[1] > 100, "%zu agree, %zu do not", answers[0], answers[1]);
}
