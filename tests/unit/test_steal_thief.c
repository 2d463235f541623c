/* Thieves and their policies: against the loop of Algorithm 2, against what their names promise, and in a small world
 * where all tasks begin at one worker. */
#include "expect.h"
#include <stddef.h>
#include <string.h>

#include "alloc_fail.h"
#include "htcsched/steal.h"
#include "property.h"
#include "steal_choice.h"

#define COUNT(a) (sizeof(a) / sizeof *(a))

/* ---- when again ---- */

static htc_steal_thief thief_of(uint32_t n, uint32_t self)
{
    htc_steal_thief t;
    cr_assert(eq(int, htc_steal_start(n, self, 0, &t), HTC_OK));
    return t;
}

/* A round at its due time that brings nothing; answers the wait that follows, in ms. */
static uint64_t fail_once(htc_steal_thief *t, const htc_steal_options *o, htc_rng *rng)
{
    uint32_t out[64], n;
    htc_ns   now = htc_steal_due(t);
    cr_assert(eq(int, htc_steal_ask(t, o, now, rng, 64, out, &n), HTC_OK));
    cr_assert(eq(int, htc_steal_settle(t, o, now, HTC_STEAL_NOBODY, 0), HTC_OK));
    return htc_steal_due(t) == HTC_NEVER ? UINT64_MAX : (htc_steal_due(t) - now) / HTC_MS;
}

/* Algorithm 2 with its defaults: 1 ms, 2 ms, ... 32.768 s; 65.536 s would be above 50 s. */
Test(steal_thief, waits_double_up_to_the_ceiling)
{
    htc_steal_thief t = thief_of(100, 3);
    htc_rng         rng = { 5 };
    for (int i = 0; i < 16; i++)
        cr_expect(eq(u64, fail_once(&t, NULL, &rng), UINT64_C(1) << i));
    cr_expect(eq(u64, fail_once(&t, NULL, &rng), UINT64_MAX), "at rest");
}

/* In a published implementation a thief that had reached the ceiling never stole again, even when work arrived later.
 */
Test(steal_thief, a_thief_at_the_ceiling_steals_again_after_a_nudge)
{
    htc_steal_options o = HTC_STEAL_OPTIONS_INIT;
    htc_steal_thief   t = thief_of(100, 3);
    htc_rng           rng = { 6 };
    uint32_t          out[64], n;
    o.poll_ns = HTC_MS;
    o.poll_ns_max = 3 * HTC_MS;
    cr_expect(eq(u64, fail_once(&t, &o, &rng), 1));
    cr_expect(eq(u64, fail_once(&t, &o, &rng), 2));
    cr_expect(eq(u64, fail_once(&t, &o, &rng), UINT64_MAX));
    cr_expect(eq(int, htc_steal_ask(&t, &o, HTC_NEVER, &rng, 64, out, &n), HTC_AGAIN));
    htc_steal_nudge(&t, HTC_SECOND);
    cr_expect(eq(u64, htc_steal_due(&t), HTC_SECOND));
    cr_expect(eq(u64, fail_once(&t, &o, &rng), 1), "from the first wait on");
    htc_steal_nudge(NULL, 0);
}

Test(steal_thief, a_nudge_during_a_round_is_not_lost)
{
    htc_steal_thief t = thief_of(100, 3);
    htc_rng         rng = { 7 };
    uint32_t        out[64], n;
    fail_once(&t, NULL, &rng);
    fail_once(&t, NULL, &rng);
    cr_assert(eq(int, htc_steal_ask(&t, NULL, 5 * HTC_MS, &rng, 64, out, &n), HTC_OK));
    htc_steal_nudge(&t, 5 * HTC_MS);
    cr_expect(eq(u64, htc_steal_due(&t), HTC_NEVER), "one round at a time");
    cr_assert(eq(int, htc_steal_settle(&t, NULL, 6 * HTC_MS, HTC_STEAL_NOBODY, 0), HTC_OK));
    cr_expect(eq(u64, htc_steal_due(&t), 6 * HTC_MS));
    cr_expect(eq(u64, fail_once(&t, NULL, &rng), 1));
}

Test(steal_thief, a_thief_may_go_on_at_the_ceiling)
{
    static const uint64_t waits[] = { 1, 2, 3, 3, 3 };
    htc_steal_options     o = HTC_STEAL_OPTIONS_INIT;
    htc_steal_thief       t = thief_of(100, 3);
    htc_rng               rng = { 8 };
    o.poll_ns_max = 3 * HTC_MS;
    o.at_ceiling = HTC_STEAL_GO_ON;
    for (size_t i = 0; i < COUNT(waits); i++)
        cr_expect(eq(u64, fail_once(&t, &o, &rng), waits[i]), "wait %zu", i);
}

Test(steal_thief, success_begins_the_waits_anew)
{
    htc_steal_thief t = thief_of(100, 3);
    htc_rng         rng = { 9 };
    uint32_t        out[64], n;
    fail_once(&t, NULL, &rng);
    fail_once(&t, NULL, &rng);
    cr_assert(eq(int, htc_steal_ask(&t, NULL, HTC_SECOND, &rng, 64, out, &n), HTC_OK));
    cr_assert(eq(int, htc_steal_settle(&t, NULL, HTC_SECOND, out[0], 4), HTC_OK));
    cr_expect(eq(u64, htc_steal_due(&t), HTC_SECOND));
    cr_expect(eq(u64, fail_once(&t, NULL, &rng), 1));
}

/* A thief that polls one neighbour after another waits k round trips. Here one call names all of them, and a second one
 * before the answers are in gets none. */
Test(steal_thief, a_round_asks_everybody_at_once)
{
    htc_steal_thief t = thief_of(1024, 3);
    htc_rng         rng = { 10 };
    uint32_t        out[64], n = 0;
    cr_assert(eq(int, htc_steal_ask(&t, NULL, 0, &rng, 64, out, &n), HTC_OK));
    cr_expect(eq(u32, n, 32));
    cr_expect(eq(int, htc_steal_ask(&t, NULL, HTC_SECOND, &rng, 64, out, &n), HTC_AGAIN));
    cr_expect(eq(u64, htc_steal_due(&t), HTC_NEVER));
}

/* Alone, or with a policy that names nobody: at rest until the group changes or somebody nudges. */
Test(steal_thief, a_thief_alone_asks_nobody)
{
    htc_steal_thief t = thief_of(1, 0);
    htc_rng         rng = { 11 };
    uint32_t        out[4], n = 77;
    cr_expect(eq(int, htc_steal_ask(&t, NULL, 0, &rng, 4, out, &n), HTC_AGAIN));
    cr_expect(eq(u32, n, 77));
    cr_expect(eq(u64, htc_steal_due(&t), HTC_NEVER));
}

/* Any calls in any order against Algorithm 2 written down: poll doubles, above the ceiling nothing until a nudge. */
Test(steal_thief, a_thief_agrees_with_the_loop_of_the_paper)
{
    PROPERTY(rng, 3000)
    {
        htc_steal_options o = HTC_STEAL_OPTIONS_INIT;
        htc_steal_thief   t;
        uint64_t          now = htc_rng_below(&rng, 1000), due = now, poll, first, ceiling;
        int               asking = 0, nudged = 0;
        first = poll = o.poll_ns = 1 + htc_rng_below(&rng, 10);
        ceiling = o.poll_ns_max = 1 + htc_rng_below(&rng, 200);
        o.at_ceiling = (uint32_t)htc_rng_below(&rng, 2);
        HOLDS(htc_steal_start(10, 4, now, &t) == HTC_OK);
        for (int step = 0; step < 60; step++) {
            uint32_t out[9], n;
            uint64_t got;
            now += htc_rng_below(&rng, 3) ? htc_rng_below(&rng, 20) : htc_rng_below(&rng, 400);
            switch (htc_rng_below(&rng, 8)) {
            case 0:
                htc_steal_nudge(&t, now);
                if (asking)
                    nudged = 1;
                else {
                    due = now;
                    poll = first;
                }
                break;
            case 1:
            case 2:
            case 3:
                HOLDS(htc_steal_ask(&t, &o, now, &rng, 9, out, &n) ==
                      (asking || due > now || due == HTC_NEVER ? HTC_AGAIN : HTC_OK));
                asking |= due <= now;
                break;
            default:
                got = htc_rng_below(&rng, 8) ? 0 : 3;
                HOLDS(htc_steal_settle(&t, &o, now, got ? 5 : HTC_STEAL_NOBODY, got) == (asking ? HTC_OK : HTC_EINVAL));
                if (!asking)
                    break;
                if (got || nudged) {
                    due = now;
                    poll = first;
                } else {
                    due = poll <= ceiling ? now + poll : o.at_ceiling ? now + ceiling : HTC_NEVER;
                    poll *= 2;
                }
                asking = nudged = 0;
            }
            HOLDS(htc_steal_due(&t) == (asking ? HTC_NEVER : due));
        }
    }
}

/* The clock is anybody's, also near its end: no moment wraps. */
Test(steal_thief, waits_near_the_end_of_time_do_not_wrap)
{
    htc_steal_thief t;
    htc_rng         rng = { 12 };
    uint32_t        out[64], n;
    cr_assert(eq(int, htc_steal_start(8, 0, HTC_NEVER - 5, &t), HTC_OK));
    cr_assert(eq(int, htc_steal_ask(&t, NULL, HTC_NEVER - 5, &rng, 64, out, &n), HTC_OK));
    cr_assert(eq(int, htc_steal_settle(&t, NULL, HTC_NEVER - 5, HTC_STEAL_NOBODY, 0), HTC_OK));
    cr_expect(eq(u64, htc_steal_due(&t), HTC_NEVER));
}

/* ---- policies ---- */

static htc_registry *all_policies(void)
{
    htc_registry *r;
    cr_assert(eq(int, htc_registry_create(NULL, &r), HTC_OK));
    cr_assert(eq(int, htc_registry_add_builtin(r), HTC_OK));
    return r;
}

static const htc_steal_policy *policy_of(const htc_registry *r, const char *name)
{
    const htc_steal_policy *p = NULL;
    cr_assert(eq(int, htc_steal_find(r, name, &p), HTC_OK), "%s", name);
    cr_expect(strcmp(p->name, name) == 0);
    return p;
}

/* How many each asks in a group of 1024, and that options may change it or not. The meshes of 32 x 32 and 11 x 10 x 10
 * are asked far from their ends: 40 points are within 4 hops, 12 within 2; 62 within 3, 6 within 1. */
Test(steal_thief, policies_are_found_by_name_and_ask_as_many_as_they_say)
{
    static const struct {
        const char *name;
        uint32_t    self, as_it_is, told_five;
    } rows[] = {
        { "random", 0, 32, 5 },
        { "one", 1, 1, 1 },
        { "two", 2, 2, 2 },
        { "log2", 3, 10, 10 },
        { "sqrt", 4, 32, 32 },
        { "static", 5, 32, 5 },
        { "near", 6, 31, 5 },
        { "mesh-2d", 16 * 32 + 16, 40, 12 },
        { "mesh-3d", 5 + 11 * (5 + 10 * 5), 62, 6 },
    };
    htc_registry *r = all_policies();
    size_t        listed = 0;
    while (htc_registry_name(r, HTC_REGISTRY_STEAL, listed))
        listed++;
    cr_expect(eq(sz, listed, COUNT(rows)));
    for (size_t i = 0; i < COUNT(rows); i++) {
        htc_steal_options o = HTC_STEAL_OPTIONS_INIT;
        htc_rng           rng = { 13 };
        uint32_t          out[1024], n;
        o.policy = policy_of(r, rows[i].name);
        for (int told = 0; told < 2; told++) {
            htc_steal_thief t = thief_of(1024, rows[i].self);
            o.neighbours = told ? 5 : 0;
            cr_assert(eq(int, htc_steal_ask(&t, &o, 0, &rng, 1024, out, &n), HTC_OK));
            cr_expect(eq(u32, n, told ? rows[i].told_five : rows[i].as_it_is), "%s", rows[i].name);
        }
    }
    htc_registry_destroy(r);
}

/* Whatever the group, the room and the settings: distinct others, no more than there is room for. */
Test(steal_thief, every_policy_names_distinct_others)
{
    htc_registry *r = all_policies();
    PROPERTY(rng, 3000)
    {
        htc_steal_options o = HTC_STEAL_OPTIONS_INIT;
        uint32_t          n = 2 + (uint32_t)htc_rng_below(&rng, htc_rng_below(&rng, 2) ? 20 : 1000);
        uint32_t self = (uint32_t)htc_rng_below(&rng, n), cap = 1 + (uint32_t)htc_rng_below(&rng, 64), out[64], count;
        o.neighbours = (uint32_t)htc_rng_below(&rng, 3) ? 0 : (uint32_t)htc_rng_below(&rng, 2000);
        o.degree = (uint32_t)htc_rng_below(&rng, HTC_STEAL_HALF + 1);
        o.near_workers = (uint32_t)htc_rng_below(&rng, 3) ? 0 : (uint32_t)htc_rng_below(&rng, 50);
        o.hops = (uint32_t)htc_rng_below(&rng, 6);
        o.shape.wrap = (uint32_t)htc_rng_below(&rng, 2);
        for (size_t i = 0; htc_registry_name(r, HTC_REGISTRY_STEAL, i); i++) {
            htc_steal_thief t;
            HOLDS(htc_steal_find(r, htc_registry_name(r, HTC_REGISTRY_STEAL, i), &o.policy) == HTC_OK);
            HOLDS(htc_steal_start(n, self, 0, &t) == HTC_OK);
            t.failures = (uint32_t)htc_rng_below(&rng, 4);
            HOLDS(htc_steal_ask(&t, &o, 0, &rng, cap, out, &count) == HTC_OK);
            HOLDS(count > 0 && count <= cap);
            HOLDS(are_distinct_others(out, count, n, self));
        }
    }
    htc_registry_destroy(r);
}

/* Near before distant: groups of 4, then 16, then all 64, with no wait between; from then on waits as usual. */
Test(steal_thief, near_workers_are_robbed_before_distant_ones)
{
    static const uint32_t begin[] = { 40, 32, 0, 0, 0 }, end[] = { 44, 48, 64, 64, 64 };
    static const uint64_t wait_ms[] = { 0, 0, 1, 2, 4 };
    htc_registry         *r = all_policies();
    htc_steal_options     o = HTC_STEAL_OPTIONS_INIT;
    o.policy = policy_of(r, "near");
    o.near_workers = 4;
    for (uint64_t seed = 0; seed < 200; seed++) {
        htc_steal_thief t = thief_of(64, 41);
        htc_rng         rng = { seed };
        for (size_t round = 0; round < COUNT(begin); round++) {
            uint32_t out[64], n;
            htc_ns   now = htc_steal_due(&t);
            cr_assert(eq(int, htc_steal_ask(&t, &o, now, &rng, 64, out, &n), HTC_OK));
            cr_expect(eq(u32, n, round == 0 ? 3 : 8));
            for (uint32_t i = 0; i < n; i++)
                cr_expect(out[i] >= begin[round] && out[i] < end[round], "round %zu asks %u", round, out[i]);
            cr_assert(eq(int, htc_steal_settle(&t, &o, now, HTC_STEAL_NOBODY, 0), HTC_OK));
            cr_expect(eq(u64, htc_steal_due(&t) - now, wait_ms[round] * HTC_MS), "round %zu", round);
        }
    }
    htc_registry_destroy(r);
}

/* ---- a policy of one's own ---- */

typedef struct always {
    uint32_t   whom[3], count;
    htc_status status;
} always;

static htc_status ask_always(void *ctx, const htc_steal_view *view, htc_rng *rng, uint32_t cap, uint32_t *out,
                             uint32_t *count)
{
    const always *a = ctx;
    (void)rng;
    for (uint32_t i = 0; i < a->count && i < cap; i++)
        out[i] = a->whom[i];
    *count = a->count;
    return view->n > 3 ? a->status : HTC_EUNSUPPORTED;
}

static htc_ns wait_a_second(void *ctx, const htc_steal_view *view)
{
    (void)ctx;
    return view->failures * HTC_SECOND + view->options->poll_ns;
}

static uint64_t give_all_and_more(void *ctx, const htc_steal_options *options, uint64_t waiting, uint64_t idle)
{
    (void)ctx;
    (void)idle;
    return options->amount == HTC_STEAL_HALF ? waiting + 1 : 0;
}

Test(steal_thief, a_policy_of_ones_own_is_chosen_by_name)
{
    static always           two_and_one = { { 2, 1 }, 2, HTC_OK };
    static htc_steal_policy mine = { .size = sizeof mine,
                                     .name = "mine",
                                     .ctx = &two_and_one,
                                     .choose = ask_always,
                                     .wait = wait_a_second,
                                     .amount = give_all_and_more };
    htc_registry           *r = all_policies();
    htc_steal_options       o = HTC_STEAL_OPTIONS_INIT;
    htc_steal_thief         t = thief_of(5, 3);
    htc_rng                 rng = { 14 };
    uint32_t                out[4], n;
    uint64_t                amount;
    cr_assert(eq(int, htc_steal_register(r, &mine), HTC_OK));
    cr_expect(eq(int, htc_steal_register(r, &mine), HTC_EEXISTS));
    o.policy = policy_of(r, "mine");
    cr_assert(eq(int, htc_steal_ask(&t, &o, 0, &rng, 4, out, &n), HTC_OK));
    cr_expect(n == 2 && out[0] == 2 && out[1] == 1);
    cr_assert(eq(int, htc_steal_settle(&t, &o, 0, HTC_STEAL_NOBODY, 0), HTC_OK));
    cr_expect(eq(u64, htc_steal_due(&t), HTC_SECOND + HTC_MS), "defaults are filled in");
    cr_expect(eq(int, htc_steal_give(&o, 7, 0, &amount), HTC_OK));
    cr_expect(eq(u64, amount, 7), "no more than there are");
    htc_registry_destroy(r);
}

/* What a policy learns, and what it tries with the thief it decides about. */
typedef struct learner {
    htc_steal_thief        *thief;
    const htc_steal_policy *self;
    uint64_t                got[5];
    uint32_t                told, failures, victim;
    int                     reentered; /* calls of the same thief that were not refused */
} learner;

static void try_again(learner *l)
{
    htc_steal_options o = { .size = sizeof o, .policy = l->self };
    htc_rng           rng = { 16 };
    uint32_t          out[4], n;
    l->reentered += htc_steal_ask(l->thief, &o, 0, &rng, 4, out, &n) != HTC_EINVAL;
    l->reentered += htc_steal_settle(l->thief, &o, 0, HTC_STEAL_NOBODY, 0) != HTC_EINVAL;
    htc_steal_nudge(l->thief, 0);
}

/* The best victim so far. */
static htc_status ask_the_best(void *ctx, const htc_steal_view *view, htc_rng *rng, uint32_t cap, uint32_t *out,
                               uint32_t *count)
{
    learner *l = ctx;
    (void)rng;
    try_again(l);
    *out = 0;
    *count = cap > 0;
    for (uint32_t i = 1; i < view->n; i++)
        if (i != view->self && l->got[i] > l->got[*out])
            *out = i;
    return HTC_OK;
}

static htc_ns wait_as_learnt(void *ctx, const htc_steal_view *view)
{
    learner *l = ctx;
    try_again(l);
    return l->told * HTC_SECOND + view->failures;
}

static void learn(void *ctx, const htc_steal_view *view, uint32_t victim, uint64_t got)
{
    learner *l = ctx;
    try_again(l);
    l->told++;
    l->failures = view->failures;
    l->victim = victim;
    if (victim != HTC_STEAL_NOBODY)
        l->got[victim] += got;
}

Test(steal_thief, a_policy_learns_what_a_round_brought_and_from_whom)
{
    htc_steal_thief   t = thief_of(5, 3);
    learner           l = { .thief = &t };
    htc_steal_policy  p = { sizeof p, "learner", &l, ask_the_best, wait_as_learnt, NULL, learn };
    htc_steal_options o = { .size = sizeof o, .policy = &p };
    htc_rng           rng = { 15 };
    uint32_t          out[4], n;
    l.self = &p;
    cr_assert(eq(int, htc_steal_ask(&t, &o, 0, &rng, 4, out, &n), HTC_OK));
    cr_expect(eq(int, htc_steal_settle(&t, &o, 0, 3, 1), HTC_EINVAL), "nobody robs itself");
    cr_expect(eq(int, htc_steal_settle(&t, &o, 0, 5, 1), HTC_EINVAL), "no such worker");
    cr_expect(eq(int, htc_steal_settle(&t, &o, 0, HTC_STEAL_NOBODY, 1), HTC_EINVAL), "tasks come from somebody");
    cr_expect(eq(u32, l.told, 0));
    cr_assert(eq(int, htc_steal_settle(&t, &o, 0, 4, 6), HTC_OK));
    cr_expect(l.told == 1 && l.victim == 4 && l.failures == 0);
    cr_assert(eq(int, htc_steal_ask(&t, &o, 0, &rng, 4, out, &n), HTC_OK));
    cr_expect(n == 1 && out[0] == 4);
    cr_assert(eq(int, htc_steal_settle(&t, &o, 0, HTC_STEAL_NOBODY, 0), HTC_OK));
    cr_expect(l.told == 2 && l.victim == HTC_STEAL_NOBODY && l.failures == 1);
    cr_expect(eq(u64, htc_steal_due(&t), 2 * HTC_SECOND + 1), "told before it is asked how long to wait");
    cr_expect(eq(int, l.reentered, 0));
}

/* A policy that was built before settled was there is one that does not learn. */
Test(steal_thief, a_policy_of_an_older_header_is_taken)
{
    always            one = { { 2 }, 1, HTC_OK };
    htc_steal_policy  p = { offsetof(htc_steal_policy, settled), "older", &one, ask_always, NULL, NULL, NULL };
    htc_steal_options o = { .size = sizeof o, .policy = &p };
    htc_steal_thief   t = thief_of(5, 3);
    htc_rng           rng = { 15 };
    uint32_t          out[4], n;
    cr_assert(eq(int, htc_steal_ask(&t, &o, 0, &rng, 4, out, &n), HTC_OK));
    cr_expect(eq(int, htc_steal_settle(&t, &o, 0, 2, 0), HTC_OK));
}

/* What a policy answers is checked before a question goes to nobody; the thief is as it was. */
Test(steal_thief, a_policy_that_answers_nonsense_is_refused)
{
    static struct {
        always     answer;
        uint32_t   n;
        htc_status status;
    } rows[] = {
        { { { 5 }, 1, HTC_OK }, 5, HTC_EINVAL },                                               /* no such worker */
        { { { 3 }, 1, HTC_OK }, 5, HTC_EINVAL },                                               /* itself */
        { { { 0, 1, 2 }, 3, HTC_OK }, 5, HTC_EINVAL },                                         /* no room: cap is 2 */
        { { { 0 }, 1, HTC_EIO }, 5, HTC_EIO },                                                 /* its own error */
        { { { 0 }, 1, HTC_AGAIN }, 5, HTC_EINVAL },                                            /* to have nobody is a count of 0 */
        { { { 0 }, 1, HTC_OK }, 4, HTC_OK },           { { { 0 }, 0, HTC_OK }, 5, HTC_AGAIN }, /* nobody */
    };
    for (size_t i = 0; i < COUNT(rows); i++) {
        htc_steal_policy  p = { .size = sizeof p, .name = "p", .ctx = &rows[i].answer, .choose = ask_always };
        htc_steal_options o = HTC_STEAL_OPTIONS_INIT;
        htc_steal_thief   t = thief_of(rows[i].n, 3), before = t;
        htc_rng           rng = { 15 };
        uint32_t          out[2], n = 77;
        o.policy = &p;
        cr_expect(eq(int, htc_steal_ask(&t, &o, 0, &rng, 2, out, &n), rows[i].status), "row %zu", i);
        if (rows[i].status < 0)
            cr_expect(n == 77 && t.due_ns == before.due_ns && t.round == before.round);
    }
}

/* ---- wrong use ---- */

Test(steal_thief, refuses_a_thief_that_is_none)
{
    htc_steal_thief   t = thief_of(4, 1), none = { .n = 4, .self = 4 };
    htc_steal_options o = HTC_STEAL_OPTIONS_INIT;
    htc_rng           rng = { 17 };
    uint32_t          out[4], n;
    uint64_t          amount;
    cr_expect(eq(int, htc_steal_start(0, 0, 0, &t), HTC_EINVAL));
    cr_expect(eq(int, htc_steal_start(4, 4, 0, &t), HTC_EINVAL));
    cr_expect(eq(int, htc_steal_start(4, 0, 0, NULL), HTC_EINVAL));
    cr_expect(eq(u64, htc_steal_due(NULL), HTC_NEVER));
    cr_expect(eq(int, htc_steal_settle(&t, NULL, 0, 2, 1), HTC_EINVAL), "no round is under way");
    cr_expect(eq(int, htc_steal_settle(NULL, NULL, 0, 2, 1), HTC_EINVAL));
    cr_expect(eq(int, htc_steal_ask(NULL, NULL, 0, &rng, 4, out, &n), HTC_EINVAL));
    cr_expect(eq(int, htc_steal_ask(&none, NULL, 0, &rng, 4, out, &n), HTC_EINVAL));
    cr_expect(eq(int, htc_steal_ask(&t, NULL, 0, NULL, 4, out, &n), HTC_EINVAL));
    cr_expect(eq(int, htc_steal_ask(&t, NULL, 0, &rng, 0, out, &n), HTC_EINVAL));
    cr_expect(eq(int, htc_steal_ask(&t, NULL, 0, &rng, 4, NULL, &n), HTC_EINVAL));
    cr_expect(eq(int, htc_steal_ask(&t, NULL, 0, &rng, 4, out, NULL), HTC_EINVAL));
    htc_steal_policy        no_choose = { .size = sizeof no_choose, .name = "p" };
    htc_steal_policy        no_size = { .name = "p", .choose = ask_always };
    const htc_steal_options bad[] = {
        { .size = 0 },
        { .size = sizeof o, .at_ceiling = 2 },
        { .size = sizeof o, .degree = 6 },
        { .size = sizeof o, .amount = 6 },
        { .size = sizeof o, .shape = { .wrap = 2 } },
        { .size = sizeof o, .policy = &no_choose },
        { .size = sizeof o, .policy = &no_size },
    };
    for (size_t i = 0; i < COUNT(bad); i++) {
        cr_expect(eq(int, htc_steal_ask(&t, &bad[i], 0, &rng, 4, out, &n), HTC_EINVAL), "options %zu", i);
        cr_expect(eq(int, htc_steal_give(&bad[i], 1, 0, &amount), HTC_EINVAL), "options %zu", i);
    }
    htc_registry *r = all_policies();
    o.policy = policy_of(r, "mesh-2d");
    o.shape = (htc_steal_shape){ 2, 2, 2, 0 };
    cr_expect(eq(int, htc_steal_ask(&t, &o, 0, &rng, 4, out, &n), HTC_EINVAL), "three dimensions");
    o.shape = (htc_steal_shape){ 3, 1, 1, 0 };
    cr_expect(eq(int, htc_steal_ask(&t, &o, 0, &rng, 4, out, &n), HTC_EINVAL), "fewer points than workers");
    htc_registry_destroy(r);
}

Test(steal_thief, options_of_another_age_are_told_apart)
{
    struct {
        htc_steal_options known;
        uint64_t          more;
    } newer = { .known = HTC_STEAL_OPTIONS_INIT };
    htc_steal_options older = HTC_STEAL_OPTIONS_INIT, filled;
    uint64_t          amount;
    newer.known.size = sizeof newer;
    cr_expect(eq(int, htc_steal_give(&newer.known, 4, 0, &amount), HTC_OK));
    newer.more = 1;
    cr_expect(eq(int, htc_steal_give(&newer.known, 4, 0, &amount), HTC_EABI));
    older.size = offsetof(htc_steal_options, amount);
    older.amount = 99; /* beyond what it says it has */
    cr_expect(eq(int, htc_steal_give(&older, 4, 0, &amount), HTC_OK));
    memset(&filled, 0xff, sizeof filled);
    htc_steal_options_init(&filled, sizeof filled);
    htc_steal_options_init(NULL, 8);
    cr_expect(filled.size == sizeof filled && !filled.policy && filled.shape.wrap == 0);
}

Test(steal_thief, registers_only_what_is_a_policy)
{
    htc_registry    *r = all_policies();
    htc_steal_policy p = { .size = sizeof p, .name = "p", .choose = ask_always }, q = p;
    struct {
        htc_steal_policy known;
        void            *more;
    } newer = { .known = { .size = sizeof newer, .name = "newer", .choose = ask_always }, .more = &p };
    const htc_steal_policy *found = NULL;
    cr_expect(eq(int, htc_steal_register(r, NULL), HTC_EINVAL));
    cr_expect(eq(int, htc_steal_register(NULL, &p), HTC_EINVAL));
    q.size = 8;
    cr_expect(eq(int, htc_steal_register(r, &q), HTC_EINVAL));
    q = p;
    q.choose = NULL;
    cr_expect(eq(int, htc_steal_register(r, &q), HTC_EINVAL));
    q = p;
    q.name = NULL;
    cr_expect(eq(int, htc_steal_register(r, &q), HTC_EINVAL));
    q.name = "Not A Name";
    cr_expect(eq(int, htc_steal_register(r, &q), HTC_EINVAL));
    q.name = "sqrt";
    cr_expect(eq(int, htc_steal_register(r, &q), HTC_EEXISTS));
    cr_expect(eq(int, htc_steal_register(r, &newer.known), HTC_EABI));
    cr_expect(eq(int, htc_steal_find(r, "p", &found), HTC_ENOTFOUND));
    cr_expect(eq(int, htc_steal_find(r, "p", NULL), HTC_EINVAL));
    cr_expect(eq(int, htc_steal_find(r, NULL, &found), HTC_EINVAL));
    cr_expect(found == NULL, "untouched on failure");
    htc_registry_destroy(r);
}

static void register_with(alloc_fail *f)
{
    htc_steal_policy p = { .size = sizeof p, .name = "p", .choose = ask_always };
    htc_env          env = alloc_fail_env(f);
    htc_registry    *r = NULL;
    if (htc_registry_create(&env, &r) == HTC_OK) {
        const htc_steal_policy *found;
        htc_status              status = htc_steal_register(r, &p);
        cr_expect(status == HTC_OK || (status == HTC_ENOMEM && f->refused));
        cr_expect(eq(int, htc_steal_find(r, "p", &found), status == HTC_OK ? HTC_OK : HTC_ENOTFOUND));
        cr_expect(htc_steal_register(r, &p) != HTC_OK || f->once, "taken, or without memory still");
    }
    htc_registry_destroy(r);
    cr_expect(eq(sz, f->live, 0));
    cr_expect(eq(sz, f->wrong_sizes, 0));
}

Test(steal_thief, a_registry_without_memory_stays_as_it_was)
{
    ALLOC_FAIL_EVERY(f, 100)
    register_with(&f);
    ALLOC_FAIL_ONCE(f, 100)
    register_with(&f);
}

/* ---- a world ---- */

#define WORKERS 64
#define TASKS   640
#define STEPS   4000

/* One slot each, a task takes ten steps of 1 ms. A round: questions in one step, answers and the robbery in the next;
 * with it the tasks travel, and arrive a step later or not at all. Until then they are the victim's. */
typedef struct worker {
    htc_steal_thief thief;
    htc_rng         rng;
    uint64_t        waiting, ran, in_transit; /* in_transit: of mine, on the way to a thief */
    int             busy;                     /* steps left of the running task */
    int             phase;                    /* 0: no round, 1: asked, 2: tasks on their way */
    uint32_t        whom[WORKERS], asked, victim;
    uint64_t        loot;
} worker;

static void robbery(worker *all, worker *me)
{
    uint64_t load[WORKERS];
    me->loot = 0;
    for (uint32_t i = 0; i < me->asked; i++)
        load[i] = all[me->whom[i]].waiting;
    if (htc_steal_victim(load, me->asked, &me->victim) != HTC_OK)
        return;
    worker *victim = &all[me->victim = me->whom[me->victim]];
    htc_steal_give(NULL, victim->waiting, victim->busy == 0, &me->loot);
    victim->waiting -= me->loot;
    victim->in_transit += me->loot;
}

static void one_step(worker *all, worker *me, uint64_t step, uint64_t lost_of_eight)
{
    if (me->busy > 0 && --me->busy == 0)
        me->ran++;
    if (me->phase == 2) {
        int arrives = htc_rng_below(&me->rng, 8) >= lost_of_eight;
        all[me->victim].in_transit -= me->loot;
        (arrives ? me : &all[me->victim])->waiting += me->loot;
        uint32_t from = me->loot ? me->victim : HTC_STEAL_NOBODY;
        cr_assert(eq(int, htc_steal_settle(&me->thief, NULL, step * HTC_MS, from, arrives ? me->loot : 0), HTC_OK));
        me->phase = 0;
    } else if (me->phase == 1) {
        robbery(all, me);
        me->phase = 2;
    }
    if (me->busy == 0 && me->waiting > 0) {
        me->waiting--;
        me->busy = 10;
    } else if (me->busy == 0 && me->phase == 0)
        me->phase = htc_steal_ask(&me->thief, NULL, step * HTC_MS, &me->rng, WORKERS, me->whom, &me->asked) == HTC_OK;
}

/* All tasks at one worker, one transfer in eight lost: every task runs once. The work itself takes 640 * 10 / 64 = 100 steps. Everybody had
 * some, but for one now and then (12 of 20,000 seeds have one) whose seven first rounds brought nothing: the next wait is longer than what is left. */
Test(steal_thief, tasks_spread_from_one_worker_and_none_is_lost)
{
    uint64_t had_none = 0, cases = 0;
    PROPERTY(rng, 50)
    {
        worker   all[WORKERS] = { 0 };
        uint64_t ran = 0, step = 0, lost_of_eight = htc_rng_below(&rng, 2);
        for (uint32_t w = 0; w < WORKERS; w++) {
            HOLDS(htc_steal_start(WORKERS, w, 0, &all[w].thief) == HTC_OK);
            all[w].rng = (htc_rng){ htc_rng_next(&rng) };
        }
        all[0].waiting = TASKS;
        for (; ran < TASKS && step < STEPS; step++) {
            uint64_t left = 0;
            for (uint32_t w = 0; w < WORKERS; w++)
                one_step(all, &all[w], step, lost_of_eight);
            ran = 0;
            for (uint32_t w = 0; w < WORKERS; w++) {
                ran += all[w].ran;
                left += all[w].waiting + all[w].in_transit + (all[w].busy > 0);
            }
            HOLDS(ran + left == TASKS);
        }
        HOLDS(ran == TASKS);
        for (uint32_t w = 0; w < WORKERS; w++) {
            HOLDS(all[w].ran > 0 || (all[w].thief.failures >= 7 && all[w].thief.due_ns > step * HTC_MS));
            had_none += all[w].ran == 0;
        }
        cases++;
        HOLDS(step < 300);
    }
    cr_expect(had_none <= 1 + cases / 200, "%lu of %lu times somebody had none", had_none, cases);
}
