/* Members whose disks take long: what waits for them, and what does not. One program, one seed, one history, as in test_kvs_cluster.c. */
#define NODES 4
#include "cluster_world.h"

static const faults calm = { 0 };
static world        w;

#include "moving_world.h"

/* A term takes its keeper as long as its disk does: it writes one, and not one behind the other for ever. */
Test(kvs_disks, a_lease_over_slow_disks_ends)
{
    PROPERTY(rng, 8)
    {
        open_world(&w, rng.state, 3, calm);
        w.commit_ns = (15 + 15 * (property_seed % 4)) * HTC_MS;
        htc_kv_result lease = ask_one(&w, 0, &(htc_kv_request){ .size = sizeof(htc_kv_request), .op = HTC_KV_LEASE_GRANT, .ttl = HTC_SECOND });
        HOLDS(lease.status == HTC_OK);
        uint64_t id = lease.lease;
        run_until(&w, w.now + 500 * HTC_MS);
        for (int n = 0; n < 3; n++)
            crash(&w, n, HTC_MS); /* whoever keeps it has to begin anew */
        run_until(&w, w.now + 6 * HTC_SECOND);
        HOLDS(ask_one(&w, 1, &(htc_kv_request){ .size = sizeof(htc_kv_request), .op = HTC_KV_LEASE_RENEW, .lease = id }).status == HTC_ENOTFOUND);
        close_world(&w);
    }
}

static int disks_at_work(void)
{
    int n = 0;
    for (int i = 0; i < w.nodes; i++)
        n += w.node[i].commit_at != HTC_NEVER;
    return n;
}

/* All three disks take five seconds for a batch. Meanwhile a lease of one second is renewed, whichever member is asked, each time within a few
 * round trips, and the key that is bound to it is read; so it lives. Nobody takes a member with such a disk for one that is gone. */
Test(kvs_disks, renewals_are_answered_while_all_disks_stall)
{
    PROPERTY(rng, 8)
    {
        open_world(&w, rng.state, 3, calm);
        htc_kv_result lease = ask_one(&w, 0, &(htc_kv_request){ .size = sizeof(htc_kv_request), .op = HTC_KV_LEASE_GRANT, .ttl = HTC_SECOND });
        HOLDS(lease.status == HTC_OK);
        htc_kv_request renew = { .size = sizeof renew, .op = HTC_KV_LEASE_RENEW, .lease = lease.lease }, get = { .size = sizeof(htc_kv_request), .op = HTC_KV_GET, .key = htc_bytes_of("bound") };
        htc_kv_request put = { .size = sizeof put, .op = HTC_KV_PUT, .key = htc_bytes_of("bound"), .value = htc_bytes_of("x"), .lease = lease.lease };
        HOLDS(ask_one(&w, 0, &put).status == HTC_OK);
        run_until(&w, w.now + 100 * HTC_MS); /* all of it is stored */
        HOLDS(disks_at_work() == 0);
        w.commit_ns = 5 * HTC_SECOND;
        htc_kv_request slow = { .size = sizeof slow, .op = HTC_KV_PUT, .key = htc_bytes_of("slow"), .value = htc_bytes_of("x") };
        w.user[2].by_hand = 1;
        HOLDS(htc_kv_client_submit(w.user[2].client, w.now, &slow, 1, 7, w.out) == HTC_OK);
        carry_out(&w, NODES + 2);
        for (int turns = 0; disks_at_work() < 3; turns++) {
            HOLDS(turns < 100000);
            turn(&w);
        }
        htc_ns stored_at[3], ends = HTC_NEVER;
        for (int i = 0; i < 3; i++) {
            stored_at[i] = w.node[i].commit_at;
            ends = stored_at[i] < ends ? stored_at[i] : ends;
        }
        int renewed = 0;
        for (; w.now + 400 * HTC_MS < ends; renewed++) {
            run_until(&w, w.now + 300 * HTC_MS);
            htc_ns asked = w.now;
            HOLDS(ask_one(&w, renewed % 2, &renew).status == HTC_OK);
            HOLDS(ask_one(&w, renewed % 2, &get).status == HTC_OK);
            cr_assert(w.now - asked < 20 * HTC_MS, "seed %llu: answered after %llu us", (unsigned long long)property_seed,
                      (unsigned long long)((w.now - asked) / 1000));
            for (int i = 0; i < 3; i++)
                HOLDS(w.node[i].commit_at == stored_at[i]);
        }
        HOLDS(renewed >= 12);
        w.commit_ns = 0;
        run_until(&w, ends + 6 * HTC_SECOND);
        HOLDS(ask_one(&w, 0, &renew).status == HTC_ENOTFOUND && ask_one(&w, 1, &get).status == HTC_ENOTFOUND);
        close_world(&w);
    }
}

/* Each write takes longer than a member may be silent for. Who moves the buckets is seldom the one that proposes changes of the map, and waits
 * for that one: it is slow, not gone. Given up, each such change would be a new number for the same bucket, and hardly one would be moved. */
Test(kvs_disks, a_member_joins_over_slow_disks)
{
    uint64_t forwarded = 0;
    PROPERTY_ALL (rng, 6)
    {
        open_growing(&w, rng.state, 4, 3, 1, calm);
        w.commit_ns = (60 + 20 * (property_seed % 2)) * HTC_MS;
        run(&w, 5, w.now + 20 * HTC_SECOND);
        start(&w, 3);
        for (htc_ns until = w.now + 12 * HTC_SECOND; !has_come(NULL, 3); turn(&w))
            cr_assert(w.now < until, "seed %llu: it does not end", (unsigned long long)property_seed);
        for (int n = 0; n < 4; n++)
            forwarded += cluster_of(n)->counts.forwarded;
        close_world(&w);
    }
    cr_expect(forwarded > 20, "%llu requests were given to others", (unsigned long long)forwarded);
}

static uint64_t ballots_drawn(void)
{
    uint64_t all = 0;
    for (int n = 0; n < w.nodes; n++)
        all += htc__kv_register_counted(cluster_of(n)->reg)->prepares;
    return all;
}

/* With the times that a member has by itself a change takes one write to disks that need longer than a round, and longer than it takes to
 * say everything again: no other ballot is begun while the first is being stored. */
Test(kvs_disks, a_change_takes_one_write_however_long)
{
    default_times = 1;
    PROPERTY(rng, 8)
    {
        htc_kv_request put = { .size = sizeof put, .op = HTC_KV_PUT, .key = htc_bytes_of("one"), .value = htc_bytes_of("v") };
        open_world(&w, rng.state, 3, calm);
        HOLDS(ask_one(&w, 0, &put).status == HTC_OK);
        run_until(&w, w.now + HTC_SECOND);
        uint64_t before = ballots_drawn();
        w.commit_ns = 300 * HTC_MS;
        for (int i = 0; i < 20; i++) {
            htc_ns asked = w.now;
            HOLDS(ask_one(&w, 0, &put).status == HTC_OK);
            cr_assert(w.now - asked < 320 * HTC_MS, "seed %llu: after %llu ms", (unsigned long long)property_seed,
                      (unsigned long long)((w.now - asked) / HTC_MS));
        }
        HOLDS(ballots_drawn() == before);
        close_world(&w);
    }
}

static void keep_result(void *ctx, uint64_t conn, uint64_t slot, const htc_kv_result *result)
{
    htc_kv_result *kept = ctx;
    (void)conn;
    (void)slot;
    *kept = *result;
    kept->value = (htc_bytes){ NULL, 0 };
}

/* What member n asks of the owner that proposes for that key. */
static void ask_owner(int n, const char *key, int64_t delta, const htc__kv_face *face)
{
    htc_kv_request  q = { .size = sizeof q, .op = HTC_KV_ADD, .key = htc_bytes_of(key), .delta = delta };
    htc__kv_pending *r = htc__kv_pending_own(w.node[n].server, &q, face, 0, 0, w.now + HTC_SECOND);
    HOLDS(r != NULL);
    htc__kv_pending_route(w.node[n].server, r);
    node_input(&w, n, (htc_input){ .size = sizeof(htc_input), .kind = HTC_IN_TIMEOUT });
}

/* A key that is proposed for by another member than that one, under a name of its own. */
static void key_of_another(int n, int from, char *name, size_t size)
{
    uint64_t owner = w.members[(n + 1) % 3].id;
    for (int i = from;; i++) {
        uint32_t bucket;
        snprintf(name, size, "x%d", i);
        htc__kv_owners owners = htc__kv_cluster_owners(w.node[n].server, htc_bytes_of(name), &bucket);
        if (owners.id[owners.first] == owner)
            return;
    }
}

/* A member asks another one, dies, and asks that one something else in its next life, when its disk still has the first to store. 1: each
 * answer is taken for what it answers. */
static int answers_are_for_one_life(uint64_t seed)
{
    htc_kv_result before = { .size = sizeof before, .status = HTC_AGAIN }, after = before;
    htc__kv_face  of_before = { .answer = keep_result, .ctx = &before }, of_after = { .answer = keep_result, .ctx = &after };
    char          one[16], two[16];
    open_world(&w, seed, 3, calm);
    run_until(&w, w.now + HTC_SECOND);
    int n = (int)(seed % 3);
    key_of_another(n, 0, one, sizeof one);
    key_of_another(n, 1000, two, sizeof two);
    crash(&w, n, HTC_MS);
    run_until(&w, w.now + 100 * HTC_MS);
    w.commit_ns = 300 * HTC_MS;
    ask_owner(n, one, 1, &of_before);
    while (disks_at_work() < 3)
        turn(&w);
    w.commit_ns = 0;
    crash(&w, n, HTC_MS);
    run_until(&w, w.now + 100 * HTC_MS);
    HOLDS(disks_at_work() == 2 && before.status == HTC_AGAIN);
    ask_owner(n, two, 5, &of_after);
    run_until(&w, w.now + HTC_SECOND);
    int right = before.status == HTC_AGAIN && after.status == HTC_OK && after.number == 5;
    close_world(&w);
    return right;
}

Test(kvs_disks, an_answer_is_for_the_life_that_asked)
{
    PROPERTY(rng, 20)
        HOLDS(answers_are_for_one_life(rng.state));
    uint64_t seed = 1;
    htc__broken_set(htc__broken_find("tag_reused"), 1);
    while (seed <= 20 && answers_are_for_one_life(seed))
        seed++;
    htc__broken_set(htc__broken_find("tag_reused"), 0);
    cr_expect(seed <= 20, "tag_reused was not noticed");
}

/* ---------------------------------------------------------------- many at once */

#define ASKERS 8 /* of each client, or at each member */

/* Who adds to keys again and again, each one change after the other: several of each client, or clients that have no numbers of their own, as
 * Redis' are, at each member. */
typedef struct crowd {
    int    at_members, keys;
    int    left[3][ASKERS], busy[3][ASKERS];
    int    done, unknown, failed;
} crowd;

static void note_answer(crowd *all, int u, int i, htc_status status)
{
    all->busy[u][i] = 0;
    all->done += status == HTC_OK;
    all->unknown += status == HTC_EUNKNOWN;
    all->failed += status != HTC_OK && status != HTC_EUNKNOWN;
}

static void answered_at_member(void *ctx, uint64_t conn, uint64_t slot, const htc_kv_result *result)
{
    note_answer(ctx, (int)conn, (int)slot, result->status);
}

static void asks(crowd *all, const htc__kv_face *face, int u, int i)
{
    char key[16];
    snprintf(key, sizeof key, "c%d", (u * ASKERS + i) % all->keys);
    htc_kv_request q = { .size = sizeof q, .op = HTC_KV_ADD, .key = htc_bytes_of(key), .delta = 1 };
    all->busy[u][i] = 1;
    all->left[u][i]--;
    if (!all->at_members) {
        HOLDS(htc_kv_client_submit(w.user[u].client, w.now, &q, 1, (uint64_t)i, w.out) == HTC_OK);
        carry_out(&w, NODES + u);
        return;
    }
    htc_kv_result result = { .size = sizeof result };
    htc__kv_stamp nobody = { .fresh = 1 };
    HOLDS(!htc__kv_cluster_ask(w.node[u].server, &q, &nobody, face, (uint64_t)u, (uint64_t)i, &result));
    node_input(&w, u, (htc_input){ .size = sizeof(htc_input), .kind = HTC_IN_TIMEOUT });
}

static int go_on_asking(crowd *all, const htc__kv_face *face, int askers)
{
    htc_kv_result r = { .size = sizeof r };
    int           going = 0;
    for (int u = 0; u < 3; u++) {
        while (htc_kv_client_next(w.user[u].client, &r))
            note_answer(all, u, (int)r.tag, r.status);
        for (int i = 0; i < askers; i++) {
            if (!all->busy[u][i] && all->left[u][i] > 0)
                asks(all, face, u, i);
            going |= all->busy[u][i];
        }
    }
    return going;
}

/* So many askers of each, so many times, of so many keys. */
static void ask_all(crowd *all, int at_members, int askers, int times, int keys)
{
    htc__kv_face face = { .answer = answered_at_member, .ctx = all };
    *all = (crowd){ .at_members = at_members, .keys = keys };
    for (int u = 0; u < 3; u++) {
        w.user[u].by_hand = 1;
        for (int i = 0; i < askers; i++)
            all->left[u][i] = times;
    }
    while (go_on_asking(all, &face, askers))
        turn(&w);
}

static uint64_t passed_on(void)
{
    uint64_t all = 0;
    for (int n = 0; n < w.nodes; n++)
        all += cluster_of(n)->counts.passed_on;
    return all;
}

/* Three members that have all that a member has by itself, are connected, and know who has what. */
static void open_with_default_times(uint64_t seed, int nodes)
{
    htc_kv_request put = { .size = sizeof put, .op = HTC_KV_PUT, .key = htc_bytes_of("one"), .value = htc_bytes_of("v") };
    default_times = 1;
    open_world(&w, seed, nodes, calm);
    for (int u = 0; u < 3; u++)
        HOLDS(ask_one(&w, u, &put).status == HTC_OK);
    run_until(&w, w.now + HTC_SECOND);
}

/* All disks become slow at once, and nothing else is wrong: whoever proposes goes on doing so. A change takes a write, and what is being
 * written or was asked before of the same key first; the first of a key is two. Nobody is told that it is not known what became of it. */
Test(kvs_disks, who_is_slow_is_waited_for)
{
    static const int of[][3] = { { 1, 1, 3 }, { 1, 64, 2 }, { 4, 64, 2 }, { 2, 16, 4 } }; /* askers, keys, writes for each change */
    crowd            all;
    PROPERTY_ALL (rng, 16)
    {
        int    at_members = property_seed % 2, times = 12;
        htc_ns write = property_seed / 2 % 2 ? HTC_SECOND : 300 * HTC_MS;
        const int *how = of[property_seed / 4 % 4];
        open_with_default_times(rng.state, 3);
        uint64_t drawn = ballots_drawn();
        htc_ns   begun = w.now;
        w.commit_ns = write;
        ask_all(&all, at_members, how[0], times, how[1]);
        cr_expect(all.done == 3 * how[0] * times, "seed %llu: %d done, %d unknown, %d failed", (unsigned long long)property_seed, all.done,
                  all.unknown, all.failed);
        cr_expect(passed_on() == 0, "seed %llu: %llu passed on", (unsigned long long)property_seed, (unsigned long long)passed_on());
        cr_expect(ballots_drawn() - drawn <= (uint64_t)(how[1] < 3 * how[0] ? how[1] : 3 * how[0]), "seed %llu: %llu ballots",
                  (unsigned long long)property_seed, (unsigned long long)(ballots_drawn() - drawn));
        cr_expect(w.now - begun < (htc_ns)(how[2] * times + 4) * write, "seed %llu: %llu ms", (unsigned long long)property_seed,
                  (unsigned long long)((w.now - begun) / HTC_MS));
        close_world(&w);
    }
}

/* The member that is none of the key's owners, and the number of the one that proposes for it; of four. */
static int stranger_to(const char *key, int *proposer)
{
    uint32_t       bucket;
    htc__kv_owners owners = htc__kv_cluster_owners(w.node[0].server, htc_bytes_of(key), &bucket);
    int            stranger = 6; /* 0 + 1 + 2 + 3 */
    for (int n = 0; n < 4; n++)
        for (uint32_t i = 0; i < owners.n; i++)
            if (w.members[n].id == owners.id[i]) {
                stranger -= n;
                *proposer = i == 0 ? n : *proposer;
            }
    return stranger;
}

/* A client without numbers of its own asks that member. */
static void ask_member(int n, const htc__kv_face *face, htc_kv_result *result)
{
    htc_kv_request q = { .size = sizeof q, .op = HTC_KV_ADD, .key = htc_bytes_of("left"), .delta = 7 };
    htc__kv_stamp  nobody = { .fresh = 1 };
    HOLDS(!htc__kv_cluster_ask(w.node[n].server, &q, &nobody, face, 0, 0, result));
    result->status = HTC_AGAIN;
    node_input(&w, n, (htc_input){ .size = sizeof(htc_input), .kind = HTC_IN_TIMEOUT });
}

/* That member hears one other, and is heard by it alone. */
static void leave_with(int n, int other)
{
    for (int i = 0; i < w.nodes; i++)
        w.apart[n][i] = w.apart[i][n] = i != n && i != other;
    run_until(&w, w.now + 2 * HTC_SECOND);
}

/* It is heard, and reaches no other owner: nothing that it is asked for it can do. Another one is asked, not at once, and in time: later where it
 * was slow before. */
Test(kvs_disks, an_owner_that_does_nothing_is_left)
{
    PROPERTY(rng, 8)
    {
        htc_kv_result result = { .size = sizeof result };
        htc__kv_face  face = { .answer = keep_result, .ctx = &result };
        int           proposer = 0, slow = property_seed % 2;
        open_with_default_times(rng.state, 4);
        int from = stranger_to("left", &proposer);
        for (int i = 0; i < 2; i++, w.commit_ns = slow ? 3800 * HTC_MS : 0) {
            ask_member(from, &face, &result);
            run_until(&w, w.now + 9 * HTC_SECOND);
            HOLDS(result.status == HTC_OK);
        }
        w.commit_ns = 0;
        leave_with(proposer, from);
        htc_ns asked = w.now, left = slow ? 7500 * HTC_MS : 6 * HTC_SECOND;
        ask_member(from, &face, &result);
        run_until(&w, asked + left - HTC_MS);
        HOLDS(result.status == HTC_AGAIN && passed_on() == 0);
        run_until(&w, asked + left + 100 * HTC_MS);
        HOLDS(result.status == HTC_OK && result.number == 21 && passed_on() == 1);
        /* The next one does not wait for it as long, until it has done something again. */
        ask_member(from, &face, &result);
        run_until(&w, w.now + HTC_SECOND + 100 * HTC_MS);
        HOLDS(result.status == HTC_OK && result.number == 28 && passed_on() == 2);
        memset(w.apart, 0, sizeof w.apart);
        run_until(&w, w.now + 2 * HTC_SECOND);
        ask_member(from, &face, &result);
        run_until(&w, w.now + 9 * HTC_SECOND);
        HOLDS(result.status == HTC_OK && result.number == 35 && passed_on() == 2);
        w.commit_ns = 2500 * HTC_MS;
        ask_member(from, &face, &result);
        run_until(&w, w.now + 9 * HTC_SECOND);
        HOLDS(result.status == HTC_OK && result.number == 42 && passed_on() == 2);
        close_world(&w);
    }
}

/* The third waits for two others of that key for longer than an owner would have that does nothing. */
Test(kvs_disks, an_owner_that_goes_on_is_not_left)
{
    PROPERTY(rng, 8)
    {
        htc_kv_result result[3] = { { .size = sizeof(htc_kv_result) } };
        htc__kv_face  face[3];
        int           proposer = 0;
        open_with_default_times(rng.state, 4);
        int from = stranger_to("left", &proposer);
        for (int i = 0; i < 3; i++)
            face[i] = (htc__kv_face){ .answer = keep_result, .ctx = &result[i] };
        ask_member(from, &face[0], &result[0]);
        run_until(&w, w.now + HTC_SECOND);
        w.commit_ns = 2600 * HTC_MS;
        for (int i = 0; i < 3; i++)
            ask_member(from, &face[i], &result[i]);
        run_until(&w, w.now + 7600 * HTC_MS);
        HOLDS(result[1].status == HTC_OK && result[2].status == HTC_AGAIN);
        run_until(&w, w.now + 300 * HTC_MS);
        HOLDS(result[2].status == HTC_OK && result[2].number == 28 && passed_on() == 0);
        close_world(&w);
    }
}

/* What was on its way by a connection that broke may be lost, the request or its answer, though there is another at once. */
Test(kvs_disks, an_owner_whose_connection_broke_is_left)
{
    PROPERTY(rng, 8)
    {
        htc_kv_result result = { .size = sizeof result };
        htc__kv_face  face = { .answer = keep_result, .ctx = &result };
        int           proposer = 0;
        open_with_default_times(rng.state, 4);
        int from = stranger_to("left", &proposer);
        w.commit_ns = 3 * HTC_SECOND;
        htc_ns asked = w.now;
        ask_member(from, &face, &result);
        run_until(&w, asked + 500 * HTC_MS);
        HOLDS(passed_on() == 0);
        if (property_seed % 2)
            hang_up(&w, from, proposer);
        else
            hang_up(&w, proposer, from);
        run_until(&w, asked + 2100 * HTC_MS);
        cr_expect(passed_on() == 1, "seed %llu", (unsigned long long)property_seed);
        while (result.status == HTC_AGAIN)
            turn(&w);
        HOLDS(result.status == HTC_OK && result.number == 7);
        close_world(&w);
    }
}
