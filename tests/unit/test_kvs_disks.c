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
        htc_kv_result lease = ask_one(&w, 0, &(htc_kv_request){ .op = HTC_KV_LEASE_GRANT, .ttl = HTC_SECOND });
        HOLDS(lease.status == HTC_OK);
        uint64_t id = lease.lease;
        run_until(&w, w.now + 500 * HTC_MS);
        for (int n = 0; n < 3; n++)
            crash(&w, n, HTC_MS); /* whoever keeps it has to begin anew */
        run_until(&w, w.now + 6 * HTC_SECOND);
        HOLDS(ask_one(&w, 1, &(htc_kv_request){ .op = HTC_KV_LEASE_RENEW, .lease = id }).status == HTC_ENOTFOUND);
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
        htc_kv_result lease = ask_one(&w, 0, &(htc_kv_request){ .op = HTC_KV_LEASE_GRANT, .ttl = HTC_SECOND });
        HOLDS(lease.status == HTC_OK);
        htc_kv_request renew = { .op = HTC_KV_LEASE_RENEW, .lease = lease.lease }, get = { .op = HTC_KV_GET, .key = htc_bytes_of("bound") };
        htc_kv_request put = { .op = HTC_KV_PUT, .key = htc_bytes_of("bound"), .value = htc_bytes_of("x"), .lease = lease.lease };
        HOLDS(ask_one(&w, 0, &put).status == HTC_OK);
        run_until(&w, w.now + 100 * HTC_MS); /* all of it is stored */
        HOLDS(disks_at_work() == 0);
        w.commit_ns = 5 * HTC_SECOND;
        htc_kv_request slow = { .op = HTC_KV_PUT, .key = htc_bytes_of("slow"), .value = htc_bytes_of("x") };
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
        htc_kv_request put = { .op = HTC_KV_PUT, .key = htc_bytes_of("one"), .value = htc_bytes_of("v") };
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
    htc_kv_request  q = { .op = HTC_KV_ADD, .key = htc_bytes_of(key), .delta = delta };
    htc__kv_errand *r = htc__kv_errand_own(w.node[n].server, &q, face, 0, 0, w.now + HTC_SECOND);
    HOLDS(r != NULL);
    htc__kv_errand_route(w.node[n].server, r);
    node_input(&w, n, (htc_input){ .kind = HTC_IN_TIMEOUT });
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
    htc_kv_result before = { .status = HTC_AGAIN }, after = before;
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
