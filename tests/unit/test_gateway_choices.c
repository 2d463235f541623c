/* The gateway's decisions that need nothing of it: what is admitted, which nodes are set aside, where a task fits and an agent starts. */
#include "expect.h"

#include <stdio.h>
#include <string.h>

#include "htcsched/kv.h"
#include "property.h"
#include "roles/gateway/admission.h"
#include "roles/gateway/logins.h"
#include "roles/gateway/node_health.h"
#include "roles/gateway/site_choice.h"

#pragma GCC diagnostic ignored "-Wmissing-field-initializers" /* what a row does not name is nothing */

TestSuite(gateway_choices);

/* ---------------------------------------------------------------- admission */

Test(gateway_choices, requests_are_bounded_for_each_and_for_all)
{
    static const struct {
        admission now;
        int       owner, admitted;
    } rows[] = {
        { { 0, 0, 0, 0 }, 0, 1 },
        { { 63, 63, 63, 63 }, 0, 1 },
        { { 64, 64, 64, 64 }, 0, 0 }, /* of one connection */
        { { 64, 64, 64, 0 }, 1, 0 },
        { { 255, 1, 255, 255 }, 0, 1 },
        { { 256, 1, 256, 256 }, 0, 0 }, /* of one uid */
        { { 256, 1, 256, 0 }, 1, 1 },
        { { 3071, 1, 1, 3071 }, 0, 1 },
        { { 3072, 1, 1, 3072 }, 0, 0 }, /* of all others: the owner has room left */
        { { 3072, 1, 1, 3072 }, 1, 1 },
        { { 4095, 1, 1024, 3071 }, 1, 1 },
        { { 4096, 1, 1024, 3072 }, 1, 0 }, /* of all */
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        cr_expect(htc__admission_of_request(&rows[i].now, rows[i].owner) == rows[i].admitted, "row %zu", i);
    cr_expect(htc__admission_of_login(3) && !htc__admission_of_login(4));
}

Test(gateway_choices, specifications_are_bounded_by_what_is_under_way)
{
    static const struct {
        size_t     bytes, under_way;
        htc_status status;
    } rows[] = {
        { 0, 0, HTC_OK },
        { HTC_KV_VALUE_MAX, 0, HTC_OK },
        { HTC_KV_VALUE_MAX + 1, 0, HTC_ETOOBIG },
        { HTC_KV_VALUE_MAX + 1, SIZE_MAX, HTC_ETOOBIG },
        { HTC_KV_VALUE_MAX, ADMISSION_SPEC_BYTES - HTC_KV_VALUE_MAX, HTC_OK },
        { HTC_KV_VALUE_MAX, ADMISSION_SPEC_BYTES - HTC_KV_VALUE_MAX + 1, HTC_EBUSY },
        { 1, ADMISSION_SPEC_BYTES, HTC_EBUSY },
        { 0, ADMISSION_SPEC_BYTES, HTC_OK },
        { 0, ADMISSION_SPEC_BYTES + 1, HTC_EBUSY },
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        cr_expect(htc__admission_of_spec(rows[i].bytes, rows[i].under_way) == rows[i].status, "row %zu", i);
}

Test(gateway_choices, a_document_that_is_only_looked_at_is_small)
{
    cr_expect(htc__admission_of_look(ADMISSION_LOOK_BYTES, 0) == HTC_OK);
    cr_expect(htc__admission_of_look(ADMISSION_LOOK_BYTES + 1, 0) == HTC_ETOOBIG);
    cr_expect(htc__admission_of_look(ADMISSION_LOOK_BYTES, ADMISSION_SPEC_BYTES - ADMISSION_LOOK_BYTES) == HTC_OK);
    cr_expect(htc__admission_of_look(ADMISSION_LOOK_BYTES, ADMISSION_SPEC_BYTES - ADMISSION_LOOK_BYTES + 1) == HTC_EBUSY);
}

/* ---------------------------------------------------------------- logins */

enum { HERE = 1000, FAR = -1 };

static void *add(logins *all, int *login, const char *name, htc_ns now)
{
    return htc__logins_add(all, login, (uint32_t)FAR, name, now);
}

static void fail(logins *all, const char *name, int times, htc_ns *now)
{
    int login;
    for (int i = 0; i < times; i++) {
        cr_assert(add(all, &login, name, *now) == NULL && htc__logins_next(all, *now) == &login);
        htc__logins_looked_at(all, &login, LOGIN_WRONG, *now);
        *now = htc__logins_deadline(all);
        cr_assert(htc__logins_due(all, *now) == &login);
    }
}

Test(gateway_choices, one_login_of_a_name_is_looked_at_and_two_of_all)
{
    static logins all;
    int           a[3], b, c;
    for (int i = 0; i < 3; i++)
        cr_expect(add(&all, &a[i], "ann", 0) == NULL);
    cr_expect(add(&all, &b, "bob", 0) == NULL && add(&all, &c, "cyd", 0) == NULL);
    cr_expect(htc__logins_next(&all, 0) == &a[2], "the newest of the name whose turn it is");
    cr_expect(htc__logins_next(&all, 0) == &b);
    cr_expect(htc__logins_next(&all, 0) == NULL && htc__logins_deadline(&all) == HTC_NEVER, "two are looked at");
    htc__logins_looked_at(&all, &b, LOGIN_RIGHT, 1);
    cr_expect(htc__logins_next(&all, 1) == &c, "ann has her turn");
    htc__logins_looked_at(&all, &a[2], LOGIN_WRONG, 1);
    cr_expect(htc__logins_next(&all, 1) == NULL && htc__logins_due(&all, 1) == NULL);
    cr_expect(htc__logins_deadline(&all) == 1 + LOGIN_PAUSE);
    cr_expect(htc__logins_leave(&all, &c) == 0 && htc__logins_leave(&all, &a[1]) == 1 && htc__logins_leave(&all, &a[1]) == 0);
    cr_expect(htc__logins_due(&all, 1 + LOGIN_PAUSE) == &a[2]);
    cr_expect(htc__logins_next(&all, 1 + LOGIN_PAUSE) == &a[0]);
    htc__logins_looked_at(&all, &a[0], LOGIN_UNKNOWN, 1 + LOGIN_PAUSE);
    htc__logins_looked_at(&all, &c, LOGIN_RIGHT, 1 + LOGIN_PAUSE);
    cr_expect(all.n == 0 && all.hashed == 0);
}

Test(gateway_choices, a_full_queue_of_logins_refuses_those_that_are_paused)
{
    static logins all;
    static int    guesses[LOGINS_MAX], more[LOGINS_OF_NAME];
    char          name[16];
    int           user, other;
    htc_ns        now = 1;
    fail(&all, "ann", 3, &now);
    for (uint32_t i = 0; i < LOGINS_OF_NAME; i++)
        cr_expect(add(&all, &more[i], "ann", now) == NULL);
    cr_expect(add(&all, &other, "ann", now) == &more[0], "of a full name the oldest goes");
    while (all.n < LOGINS_MAX) {
        snprintf(name, sizeof name, "x%u", all.n);
        cr_expect(add(&all, &guesses[all.n], name, now) == NULL);
    }
    cr_expect(add(&all, &user, "bob", now) == &user, "nobody is paused: all are before it, and are looked at soon");
    cr_assert(htc__logins_next(&all, now) == &other);
    htc__logins_looked_at(&all, &other, LOGIN_WRONG, now);
    cr_expect(add(&all, &user, "bob", now) == &more[1], "now ann is");
    cr_expect(htc__logins_add(&all, &more[1], HERE, "ann", now) == &more[2], "by another way she is not");
    cr_expect(all.n == LOGINS_MAX);
}

Test(gateway_choices, guesses_of_many_names_do_not_make_the_failures_of_one_forgotten)
{
    static logins all;
    char          name[16];
    int           login;
    htc_ns        now = 1;
    fail(&all, "ann", 4, &now);
    for (uint32_t i = 0; i < 2 * LOGIN_NAMES; i++) {
        snprintf(name, sizeof name, "x%u", i);
        fail(&all, name, 1, &now);
    }
    htc_ns begun = now;
    fail(&all, "ann", 1, &now);
    cr_expect(now - begun == 16 * LOGIN_PAUSE, "%llu", (unsigned long long)(now - begun));
    fail(&all, "ann", 20, &now);
    begun = now;
    fail(&all, "ann", 1, &now);
    cr_expect(now - begun == LOGIN_PAUSE_MAX);
    now += LOGIN_FORGET;
    begun = now;
    fail(&all, "ann", 1, &now);
    cr_expect(now - begun == LOGIN_PAUSE, "after a while they are forgotten");
    cr_assert(add(&all, &login, "ann", now) == NULL && htc__logins_next(&all, now) == &login);
    htc__logins_looked_at(&all, &login, LOGIN_RIGHT, now);
    begun = now;
    fail(&all, "ann", 1, &now);
    cr_expect(now - begun == LOGIN_PAUSE, "and by a right one");
}

/* ---------------------------------------------------------------- nodes */

enum { NODES = 3, USERS = 5 };
#define FAST HTC_SECOND

static node_news fails(nodes *all, const char *node, const char *user, htc_ns now)
{
    node_news news;
    uint32_t  users;
    cr_assert(htc__nodes_ended(all, NULL, node, user, HTC_EEXIT, FAST, now, &news, &users) == HTC_OK);
    cr_expect((news == NODE_SET_ASIDE) == (users >= NODE_USERS));
    return news;
}

/* HTCaaS 6: Tasks of several users fail on one node. */
Test(gateway_choices, a_node_that_fails_three_users_is_set_aside_for_ten_minutes)
{
    nodes     all = { 0 };
    htc_ns    until;
    node_news news;
    uint32_t  users;
    char      user[] = "a";
    cr_assert(htc__nodes_seen(&all, NULL, "n1") == HTC_OK && htc__nodes_seen(&all, NULL, "n1") == HTC_OK && all.count == 1);
    for (; user[0] <= 'c'; user[0]++)
        for (int i = 1; i <= 5; i++)
            cr_expect(fails(&all, "n1", user, 0) == (i == 5 ? NODE_FAILS_USER : NODE_SAME), "the only node there is");
    cr_expect(!htc__nodes_aside(&all, "n1", 0, &until) && until == 0 && !htc__nodes_aside(&all, "n2", 0, &until));
    cr_assert(htc__nodes_seen(&all, NULL, "n2") == HTC_OK);
    cr_expect(fails(&all, "n1", "c", HTC_SECOND) == NODE_SET_ASIDE, "there is another one now");
    cr_expect(htc__nodes_aside(&all, "n1", HTC_SECOND, &until) && until == 601 * HTC_SECOND && !htc__nodes_aside(&all, "n1", until, &until));
    cr_expect(fails(&all, "n1", "c", 2 * HTC_SECOND) == NODE_SAME, "it is aside already");
    cr_assert(htc__nodes_ended(&all, NULL, "n1", "a", HTC_OK, FAST, 3 * HTC_SECOND, &news, &users) == HTC_OK && news == NODE_SAME);
    cr_expect(fails(&all, "n1", "c", 700 * HTC_SECOND) == NODE_SAME, "it works for one of the three");
    htc__nodes_free(&all, NULL);
    cr_expect(!all.table && all.count == 0);
}

/* Against counts in plain arrays. */
Test(gateway_choices, nodes_agree_with_arrays)
{
    PROPERTY(rng, 400)
    {
        nodes    all = { 0 };
        uint32_t row[NODES][USERS] = { 0 }, known = 0;
        htc_ns   aside[NODES] = { 0 }, now = 0, until;
        uint8_t  seen[NODES] = { 0 };
        for (int step = 0; step < 300; step++) {
            uint32_t   n = (uint32_t)htc_rng_below(&rng, NODES), u = (uint32_t)htc_rng_below(&rng, USERS), failing = 0, users;
            char       node[] = { 'n', (char)('0' + n), 0 }, user[] = { 'u', (char)('0' + u), 0 };
            htc_status how = htc_rng_below(&rng, 12) == 0 ? HTC_OK : htc_rng_below(&rng, 10) == 0 ? HTC_ELOST : HTC_EEXIT;
            htc_ns     ran = htc_rng_below(&rng, 3 * HTC_SECOND);
            node_news  news, want = NODE_SAME;
            now += htc_rng_below(&rng, 30 * HTC_SECOND);
            if (how == HTC_OK)
                row[n][u] = 0;
            if (how == HTC_EEXIT && ran <= HEALTH_FAST) {
                known += !seen[n];
                seen[n] = 1;
                row[n][u]++;
                for (int i = 0; i < USERS; i++)
                    failing += row[n][i] >= HEALTH_LIMIT;
                want = row[n][u] == HEALTH_LIMIT ? NODE_FAILS_USER : NODE_SAME;
                if (row[n][u] >= HEALTH_LIMIT && failing >= NODE_USERS && known > 1 && aside[n] <= now) {
                    want = NODE_SET_ASIDE;
                    aside[n] = now + NODE_ASIDE;
                }
            }
            HOLDS(htc__nodes_ended(&all, NULL, node, user, how, ran, now, &news, &users) == HTC_OK && news == want);
            HOLDS(htc__nodes_aside(&all, node, now, &until) == (aside[n] > now) && until == aside[n] && all.count == known);
        }
        htc__nodes_free(&all, NULL);
    }
}

/* ---------------------------------------------------------------- sites */

Test(gateway_choices, a_task_fits_where_some_node_has_what_it_asks_for)
{
    static const site_nodes sites[] = { { "small", 4ull << 30, 4, 1, .node = "s1" }, { "large", 64ull << 30, 16, 12, .node = "l1" }, { "any", 0, 8, 8, .node = "a1" } };
    static char               names[] = "small", other[] = "nowhere";
    static const machine_wish small = { .hosts = names }, nowhere = { .hosts = other };
    static const struct {
        site_wish   wish;
        size_t      n;
        double      wall_max_s;
        const char *why; /* NULL: it fits */
    } rows[] = {
        { { NULL, 0, 0, 0 }, 3, 0, NULL },
        { { NULL, 0, 1, 1e9 }, 3, 0, NULL },
        { { NULL, 0, 1, 3601 }, 3, 3600, "asks for a wall time of 3601 s, and the sites allow 3600 s" },
        { { NULL, 0, 1, 3600 }, 3, 3600, NULL },
        { { &nowhere, 0, 1, 0 }, 3, 0, "asks for host nowhere, and no site is that" },
        { { &small, 4ull << 30, 1, 0 }, 3, 0, NULL },
        { { &small, 5ull << 30, 1, 0 }, 3, 0, "asks for 5.0 GiB of memory, and the largest node has 4.0 GiB" },
        { { NULL, 65ull << 30, 1, 0 }, 2, 0, "asks for 65.0 GiB of memory, and the largest node has 64.0 GiB" },
        { { NULL, 65ull << 30, 1, 0 }, 3, 0, NULL }, /* where memory is not counted */
        { { NULL, 0, 17, 0 }, 3, 0, "asks for 17 cores, and the largest node has 16" },
        { { NULL, 0, 13, 0 }, 3, 0, "asks for 13 cores, and an agent has 12 slots at most" },
        { { &small, 0, 2, 0 }, 3, 0, "asks for 2 cores, and an agent has 1 slot at most" },
        { { NULL, 0, 12, 0 }, 3, 0, NULL },
        { { NULL, 0, 1, 0 }, 0, 0, "can run nowhere: there is no site" },
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        char       why[200] = "";
        htc_status status = htc__site_fits(&rows[i].wish, sites, rows[i].n, rows[i].wall_max_s, why, sizeof why);
        cr_expect(status == (rows[i].why ? HTC_ENOFIT : HTC_OK) && strcmp(why, rows[i].why ? rows[i].why : "") == 0, "row %zu: %s", i, why);
    }
}

Test(gateway_choices, slots_are_wanted_where_tasks_would_fill_them)
{
    static const struct {
        site_now now;
        uint64_t wanted;
    } rows[] = {
        { { 1, 1, 1, 0 }, 1 }, { { 0, 1, 1, 0 }, 0 }, { { 1, 0, 1, 0 }, 0 }, { { 1, 1, 0, 0 }, 0 }, { { 1, 1, 2, 2 }, 0 }, { { 1, 1, 3, 2 }, 1 },
        { { 9, 1, 7, 2 }, 5 }, { { 4, 1, 7, 2 }, 4 }, { { 4, 1, 2, 7 }, 0 },
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        cr_expect(htc__site_wants_slots(&rows[i].now) == rows[i].wanted, "row %zu", i);
}

/* ---- which site gets the next agent ---- */

#define SITES 6

/* As it is told in words: at once or not, then speed, inputs and free slots, or the wait for its speed and inputs. */
static int comes_before(const site_rank *a, const site_rank *b)
{
    htc_ns   slow = 10 * HTC_SECOND, x = a->start_ns > a->waits_ns ? a->start_ns : a->waits_ns, y = b->start_ns > b->waits_ns ? b->start_ns : b->waits_ns;
    if (x < slow && y < slow)
        return a->speed > b->speed || (a->speed == b->speed && (a->there > b->there || (a->there == b->there && a->free > b->free)));
    if (x >= slow && y >= slow)
        return (double)x / a->speed < (double)y / b->speed || ((double)x / a->speed == (double)y / b->speed && a->there > b->there);
    return x < slow;
}

Test(gateway_choices, the_best_site_comes_first_and_equal_ones_stay)
{
    PROPERTY (rng, 2000) {
        site_rank sites[SITES];
        uint32_t  order[SITES], seen = 0, n = 1 + (uint32_t)htc_rng_below(&rng, SITES);
        for (uint32_t i = 0; i < n; i++)
            sites[i] = (site_rank){ .speed = 1 + (double)htc_rng_below(&rng, 2), .free = (uint32_t)htc_rng_below(&rng, 3),
                                    .start_ns = htc_rng_below(&rng, 3) * 8 * HTC_SECOND, .waits_ns = htc_rng_below(&rng, 3) * 8 * HTC_SECOND,
                                    .there = htc_rng_below(&rng, 2) << 20 };
        htc__site_order(sites, n, order);
        for (uint32_t k = 0; k < n; k++) {
            HOLDS(order[k] < n);
            seen |= 1u << order[k];
            for (uint32_t later = k + 1; later < n; later++) {
                HOLDS(!comes_before(&sites[order[later]], &sites[order[k]]));
                if (!comes_before(&sites[order[k]], &sites[order[later]]))
                    HOLDS(order[k] < order[later]);
            }
        }
        HOLDS(seen == (1u << n) - 1);
    }
}

Test(gateway_choices, inputs_that_are_there_decide_between_equally_fast_sites)
{
    static const struct {
        site_rank sites[2];
        uint32_t  first;
    } rows[] = {
        { { { .speed = 1, .free = 9 }, { .speed = 1, .free = 1, .there = 1 } }, 1 },
        { { { .speed = 1, .free = 1, .there = 5 }, { .speed = 1, .free = 9, .there = 4 } }, 0 },
        { { { .speed = 1, .free = 1, .there = 5 }, { .speed = 1, .free = 9, .there = 5 } }, 1 },
        { { { .speed = 1, .free = 1, .there = UINT64_MAX }, { .speed = 2, .free = 1 } }, 1 },
        { { { .speed = 1, .free = 1, .there = 5, .start_ns = 20 * HTC_SECOND }, { .speed = 1, .free = 1 } }, 1 },
        { { { .speed = 1, .free = 1, .start_ns = 20 * HTC_SECOND }, { .speed = 2, .free = 1, .there = 1, .waits_ns = 40 * HTC_SECOND } }, 1 },
        { { { .speed = 1, .free = 1, .start_ns = 20 * HTC_SECOND }, { .speed = 2, .free = 1, .there = 1, .waits_ns = 41 * HTC_SECOND } }, 0 },
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        uint32_t order[2];
        htc__site_order(rows[i].sites, 2, order);
        cr_expect(order[0] == rows[i].first, "row %zu", i);
    }
}
