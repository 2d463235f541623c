/* The reservation for tasks of several slots that have waited for long (reservation.h): its rules against slow models of them, what they bound in a
 * world of slots, and gateways where tasks of one slot would fill everything for ever. Row 25 of the specification's section 7: a gang begins. */
#include "gateway_gang_hand.h"

#include "roles/gateway/reservation.h"

/* ---- the rules ---- */

/* Whoever is before all others. */
static int is_before_all(const reservation_wait *w, size_t n, size_t i, htc_ns now, htc_ns wait_ns)
{
    for (size_t k = 0; k < n; k++)
        if (w[k].could && now >= w[k].since + wait_ns && (w[k].since < w[i].since || (w[k].since == w[i].since && w[k].job < w[i].job)))
            return 0;
    return w[i].could && now >= w[i].since + wait_ns;
}

Test(reservation, the_one_that_waits_longest_has_it_until_it_begins)
{
    for (uint64_t seed = 1; seed <= 4000; seed++) {
        htc_rng          rng = { seed };
        reservation_wait w[6];
        size_t           n = htc_rng_below(&rng, 7), expected = n;
        for (size_t i = 0; i < n; i++)
            w[i] = (reservation_wait){ .job = i + 1, .since = 1 + htc_rng_below(&rng, 5), .could = htc_rng_below(&rng, 3) != 0 };
        uint64_t holder = htc_rng_below(&rng, 8);
        htc_ns   now = 5 + htc_rng_below(&rng, 10), wait_ns = htc_rng_below(&rng, 10);
        for (size_t i = 0; i < n; i++)
            if (is_before_all(w, n, i, now, wait_ns))
                expected = i;
        for (size_t i = 0; i < n; i++)
            if (w[i].job == holder && w[i].could)
                expected = i;
        cr_assert(eq(sz, htc__reservation_next(w, n, holder, now, wait_ns), expected), "seed %llu", (unsigned long long)seed);
    }
}

Test(reservation, the_site_lacks_fewest_slots)
{
    for (uint64_t seed = 1; seed <= 4000; seed++) {
        htc_rng          rng = { seed };
        reservation_site s[5];
        size_t           n = htc_rng_below(&rng, 6);
        uint32_t         slots = 1 + (uint32_t)htc_rng_below(&rng, 6);
        for (size_t i = 0; i < n; i++)
            s[i] = (reservation_site){ .most = (uint32_t)htc_rng_below(&rng, 8), .now = (uint32_t)htc_rng_below(&rng, 8) };
        size_t at = htc__reservation_site(s, n, slots);
        for (size_t i = 0; i < n; i++) {
            if (s[i].most < slots)
                continue;
            cr_assert(at < n && s[at].most >= slots, "seed %llu: there is one", (unsigned long long)seed);
            uint32_t mine = s[at].now < slots ? slots - s[at].now : 0, its = s[i].now < slots ? slots - s[i].now : 0;
            cr_assert(mine < its || (mine == its && (s[at].now > s[i].now || (s[at].now == s[i].now && at <= i))), "seed %llu", (unsigned long long)seed);
        }
        for (size_t i = 0; at == n && i < n; i++)
            cr_assert(s[i].most < slots);
    }
}

/* ---- the bound: users with tasks of several slots beside endless ones of one slot, in steps of virtual time ---- */

#define MODEL_SITES 3
#define MODEL_SLOTS 6
#define MODEL_USERS 4

typedef struct model {
    htc_rng          rng;
    uint32_t         slots[MODEL_SITES];
    htc_ns           ends[MODEL_SITES][MODEL_SLOTS]; /* of the task in that slot; 0: none */
    reservation_wait waits[MODEL_USERS];             /* since 0: that user has none just now */
    uint32_t         width[MODEL_USERS];
    htc_ns           ready[MODEL_USERS]; /* when the model had the first one */
} model;

/* Slots of a site that nothing is in. */
static uint32_t model_free(const model *m, size_t at)
{
    uint32_t n = 0;
    for (uint32_t k = 0; k < m->slots[at]; k++)
        n += m->ends[at][k] == 0;
    return n;
}

static void model_fill(model *m, size_t at, uint32_t n, htc_ns until)
{
    for (uint32_t k = 0; n && k < m->slots[at]; k++)
        if (m->ends[at][k] == 0) {
            m->ends[at][k] = until;
            n--;
        }
}

/* Without the reservation the tasks of one slot, which take each slot as it falls free, keep the others waiting for ever. */
static htc_ns longest_wait(uint64_t seed, htc_ns span, htc_ns wait_ns, int reserves)
{
    model  m = { .rng = { seed } };
    htc_ns longest = 0;
    size_t holds_at = MODEL_SITES, holder = MODEL_USERS;
    for (size_t i = 0; i < MODEL_SITES; i++)
        m.slots[i] = 1 + (uint32_t)htc_rng_below(&m.rng, MODEL_SLOTS);
    for (htc_ns now = 1; now < 3000; now++) {
        for (size_t i = 0; i < MODEL_SITES; i++)
            for (uint32_t k = 0; k < m.slots[i]; k++)
                m.ends[i][k] = m.ends[i][k] > now ? m.ends[i][k] : 0;
        for (size_t u = 0; u < MODEL_USERS; u++) {
            if (m.waits[u].since == 0 && htc_rng_below(&m.rng, 20) == 0) {
                uint32_t most = 0;
                for (size_t i = 0; i < MODEL_SITES; i++)
                    most = m.slots[i] > most ? m.slots[i] : most;
                m.width[u] = 1 + (uint32_t)htc_rng_below(&m.rng, most);
                m.waits[u] = (reservation_wait){ .job = now * MODEL_USERS + u + 1, .since = now, .could = 1 };
            }
            longest = m.waits[u].since && now - m.waits[u].since > longest ? now - m.waits[u].since : longest;
        }
        reservation_wait list[MODEL_USERS];
        size_t           of[MODEL_USERS], n = 0;
        for (size_t u = 0; u < MODEL_USERS; u++)
            if (m.waits[u].since) {
                of[n] = u;
                list[n++] = m.waits[u];
            }
        size_t next = reserves ? htc__reservation_next(list, n, holder < MODEL_USERS ? m.waits[holder].job : 0, now, wait_ns) : n;
        if (next < n && of[next] != holder) {
            reservation_site sites[MODEL_SITES];
            holder = of[next];
            for (size_t i = 0; i < MODEL_SITES; i++)
                sites[i] = (reservation_site){ .most = m.slots[i], .now = model_free(&m, i) };
            holds_at = htc__reservation_site(sites, MODEL_SITES, m.width[holder]);
            cr_assert(holds_at < MODEL_SITES);
        }
        if (holder < MODEL_USERS && model_free(&m, holds_at) >= m.width[holder]) {
            model_fill(&m, holds_at, m.width[holder], now + 1 + htc_rng_below(&m.rng, span));
            m.waits[holder].since = 0;
            holder = MODEL_USERS;
            holds_at = MODEL_SITES;
        }
        for (size_t i = 0; i < MODEL_SITES; i++)
            while (i != holds_at && model_free(&m, i))
                model_fill(&m, i, 1, now + 1 + htc_rng_below(&m.rng, span));
    }
    return longest;
}

Test(reservation, every_task_begins_within_the_bound)
{
    for (uint64_t seed = 1; seed <= 300; seed++) {
        htc_rng rng = { seed ^ 77 };
        htc_ns  span = 2 + htc_rng_below(&rng, 60), wait_ns = htc_rng_below(&rng, 100);
        htc_ns  longest = longest_wait(seed, span, wait_ns, 1), bound = wait_ns + MODEL_USERS * (span + 1); /* S is a step */
        cr_assert(longest <= bound, "seed %llu: %llu, and the bound is %llu", (unsigned long long)seed, (unsigned long long)longest, (unsigned long long)bound);
    }
    cr_expect(longest_wait(1, 30, 10, 0) > 2500, "without it they wait for ever");
}

/* ---- a gateway ---- */

#define WAIT (20 * HTC_SECOND)
#define SPAN (8 * HTC_SECOND) /* of each task */

static uint32_t site_count, site_slots;

static void sites_of(htc_gateway_options *o)
{
    static htc_site_options  sites[3];
    static const char *const names[] = { "a", "b", "c" };
    for (uint32_t i = 0; i < site_count; i++)
        sites[i] = (htc_site_options){ .size = sizeof sites[0], .name = names[i], .cores = site_slots, .memory = UINT64_C(8) << 30 };
    o->sites = sites;
    o->n_sites = site_count;
    o->slots_max = 8;
    o->gang_collect_ns = 4 * HTC_SECOND; /* less than a task takes: a gang is never together in time */
    o->wide_wait_ns = WAIT;
    o->tick_ns = HTC_SECOND;
}

static void begin_wide(void)
{
    rig_begin(&r);
}

static uint32_t system_of(uint32_t count, uint32_t slots)
{
    site_count = count;
    site_slots = slots;
    rig_kill(&r);
    r.change = sites_of;
    rig_start(&r);
    begin_hands();
    hands_slots = count * slots;
    uint32_t p = operator_peer();
    cr_assert(eq(str, (char *)refusal(p, "{\"op\":\"user.add\",\"name\":\"ben\",\"password\":\"x\"}"), ""));
    return p;
}

TestSuite(gateway_wide, .init = begin_wide, .fini = end);

/* Turns of half a second until it has begun, or has not in time. */
static htc_ns begins_after(uint32_t p, uint64_t job)
{
    htc_ns from = r.now;
    while (count_of(p, job, "waiting") > 0 && r.now - from < 200 * HTC_SECOND)
        turn_all(SPAN);
    return r.now - from;
}

#define BOUND(users) (WAIT + (users) * (SPAN + 5 * HTC_SECOND)) /* an agent comes and goes within 5 s here, the tick among them */

static void why_is(uint32_t p, uint64_t job, const char *words)
{
    char text[80];
    snprintf(text, sizeof text, "{\"op\":\"why\",\"id\":%llu}", (unsigned long long)job);
    json_t *why = rig_ask(&r, p, text);
    cr_expect(strstr(json_string_value(json_object_get(why, "why")), words), "%s", json_string_value(json_object_get(why, "why")));
    json_decref(why);
}

/* All slots of the only site, more than the share: another user's tasks of one slot fill each slot as it falls free. */
Test(gateway_wide, tasks_of_others_do_not_keep_one_waiting_for_ever)
{
    uint32_t p = system_of(1, 4);
    submit(p, "ben", SWEEP(100000));
    for (int i = 0; i < 4; i++)
        turn_all(SPAN);
    uint64_t job = submit(p, "olga", WIDE(4, 4, 1));
    for (int i = 0; i < 36; i++)
        turn_all(SPAN);
    why_is(p, job, "share");
    for (int i = 0; i < 8 && count_of(p, job, "waiting"); i++)
        turn_all(SPAN);
    if (count_of(p, job, "waiting"))
        why_is(p, job, "nothing else begins");
    htc_ns more = begins_after(p, job);
    cr_expect(more + 22 * HTC_SECOND <= BOUND(1), "%.1f s", (double)more / 1e9);
    for (int i = 0; i < 200 && count_of(p, job, "done") < 1; i++)
        turn_all(SPAN);
    cr_expect(eq(int, (int)count_of(p, job, "done"), 1));
}

/* A gang of all three nodes, among tasks that are longer than a gang is collected for. */
Test(gateway_wide, a_gang_begins_among_long_tasks_of_others)
{
    uint32_t p = system_of(3, 2);
    submit(p, "ben", SWEEP(100000));
    for (int i = 0; i < 4; i++)
        turn_all(SPAN);
    uint64_t job = submit(p, "olga", WIDE(6, 2, 1));
    htc_ns   after = begins_after(p, job);
    cr_expect(after <= BOUND(1), "%.1f s", (double)after / 1e9);
}

Test(gateway_wide, a_gang_begins_among_later_tasks_of_its_own_user)
{
    uint32_t p = system_of(3, 2);
    submit(p, "olga", SWEEP(12));
    for (int i = 0; i < 4; i++)
        turn_all(SPAN);
    uint64_t job = submit(p, "olga", WIDE(6, 2, 1));
    submit(p, "olga", SWEEP(100000));
    submit(p, "ben", SWEEP(100000));
    htc_ns after = begins_after(p, job);
    cr_expect(after <= BOUND(1) + 30 * HTC_SECOND, "%.1f s", (double)after / 1e9); /* twelve tasks of olga's go first, on half of the slots */
}

/* Both users have one of all slots, and both have endless ones of one slot: each begins once the other has. */
Test(gateway_wide, two_users_have_it_in_turn)
{
    uint32_t p = system_of(2, 3);
    submit(p, "ben", SWEEP(2));
    uint64_t one = submit(p, "olga", WIDE(3, 3, 1)), two = submit(p, "ben", WIDE(6, 3, 1));
    submit(p, "ben", SWEEP(100000));
    submit(p, "olga", SWEEP(100000));
    htc_ns first = begins_after(p, one), second = first + begins_after(p, two);
    cr_expect(first <= BOUND(2) && second <= BOUND(2) + SPAN, "%.1f s, %.1f s", (double)first / 1e9, (double)second / 1e9);
}

/* While one has it, and after it has ended, everybody's tasks of one slot go on. */
Test(gateway_wide, others_go_on_when_it_has_begun)
{
    uint32_t p = system_of(2, 2);
    uint64_t small = submit(p, "ben", SWEEP(100000)), job;
    for (int i = 0; i < 4; i++)
        turn_all(SPAN);
    job = submit(p, "olga", WIDE(2, 2, 3));
    cr_assert(begins_after(p, job) < 200 * HTC_SECOND);
    long long before = count_of(p, small, "done");
    for (int i = 0; i < 60; i++)
        turn_all(SPAN);
    cr_expect(count_of(p, small, "done") > before + 4, "%lld were done", count_of(p, small, "done") - before);
}

/* It is cancelled while slots are kept for it: they are everybody's again. */
Test(gateway_wide, one_that_is_cancelled_keeps_nothing)
{
    uint32_t p = system_of(1, 4);
    uint64_t small = submit(p, "ben", SWEEP(100000)), job;
    char     text[80];
    for (int i = 0; i < 4; i++)
        turn_all(SPAN);
    job = submit(p, "olga", WIDE(4, 4, 1));
    for (int i = 0; i < 43; i++)
        turn_all(1000 * HTC_SECOND);
    snprintf(text, sizeof text, "{\"op\":\"cancel\",\"id\":%llu}", (unsigned long long)job);
    json_decref(rig_ask(&r, p, text));
    for (uint32_t i = 0; i < n_hands; i++)
        for (uint32_t k = 0; k < hands[i].n_held; k++)
            hands[i].ends[k] = r.now;
    long long before = count_of(p, small, "done");
    for (int i = 0; i < 60; i++)
        turn_all(SPAN);
    cr_expect(count_of(p, small, "done") >= before + 8, "%lld were done", count_of(p, small, "done") - before);
}
