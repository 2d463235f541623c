/* Damaged records are renewed from the other owners: lib/kvs/migrate/repair.c, migrate/lost_bucket.c. Whole members, as in test_kvs_cluster.c, whose engines lose what
 * they had under some names. */
#include "alloc_fail.h"
#include "cluster_world.h"
#include "kvs/storage/batch.h"
#include "kvs/migrate/buckets.h"
#include "kvs/migrate/bucket_migration.h"
#include "kvs/cell/record.h"

static const faults calm = { 0 };
static const faults bad = { .lose = 30, .doubled = 30, .late = 20, .crash = 200, .split = 120, .cut = 300 };

static world w;

static htc__kv_cluster *cluster_of(int n)
{
    return w.node[n].server ? w.node[n].server->cluster : NULL;
}

static htc__kv_repair_counts counts_of(int n)
{
    htc__kv_repair_counts counts;
    htc__kv_repair_counted(w.node[n].server, &counts);
    return counts;
}

/* Overwrite what the engine has under that name with bytes that no seal fits. The member is down. */
static void damage(int n, char kind, htc_bytes key)
{
    htc__kv_name name = htc__kv_name_of(kind, NULL, key);
    htc_buf      b;
    HOLDS(w.node[n].server == NULL);
    htc_buf_init(&b, NULL, 0);
    htc__kv_batch_put(&b, htc__kv_name_bytes(&name), htc_bytes_of("what was here is lost"));
    HOLDS(w.node[n].engine.ops->apply(w.node[n].engine.ctx, htc_buf_bytes(&b)) == HTC_OK);
    htc_buf_free(&b);
}

/* What it remembers of a bucket (o), or the floors of one (v), are lost. */
static void damage_bucket(int n, char kind, uint32_t bucket)
{
    uint64_t     number = bucket;
    htc__kv_name name = htc__kv_name_of(kind, &number, (htc_bytes){ NULL, 0 });
    damage(n, kind, (htc_bytes){ name.data + 1, name.len - 1 });
}

/* What it remembers of a bucket is that. The member is down. */
static void remember(int n, uint32_t bucket, const htc__kv_bucket_state *hold)
{
    uint64_t     number = bucket;
    htc__kv_name name = htc__kv_name_of('o', &number, (htc_bytes){ NULL, 0 });
    htc_buf      b, value;
    HOLDS(w.node[n].server == NULL);
    htc_buf_init(&b, NULL, 0);
    htc_buf_init(&value, NULL, 0);
    htc__kv_bucket_state_write(&value, hold);
    htc__kv_seal(&value, htc__kv_name_bytes(&name), 0);
    htc__kv_batch_put(&b, htc__kv_name_bytes(&name), htc_buf_bytes(&value));
    HOLDS(w.node[n].engine.ops->apply(w.node[n].engine.ctx, htc_buf_bytes(&b)) == HTC_OK);
    htc_buf_free(&b);
    htc_buf_free(&value);
}

static void damage_all(int n)
{
    for (int k = 0; k < KEYS; k++)
        damage(n, 'k', name_of(&w, w.key[k]));
}

static htc_status held(int n, htc_bytes key, htc_bytes *bytes)
{
    htc__kv_name name = htc__kv_name_of('k', NULL, key);
    return htc__kv_read(w.node[n].server, htc__kv_name_bytes(&name), bytes);
}

static htc_status asked(htc_bytes key)
{
    return ask_one(&w, 0, &(htc_kv_request){ .size = sizeof(htc_kv_request), .op = HTC_KV_GET, .key = key }).status;
}

/* Nobody says what it is, nor that it is not there. The last that is asked. */
static int is_refused(htc_bytes key)
{
    htc_kv_result  r = { .size = sizeof r, .status = HTC_ETIMEDOUT };
    htc_kv_request q = { .size = sizeof q, .op = HTC_KV_GET, .key = key };
    w.user[0].by_hand = 1;
    HOLDS(htc_kv_client_submit(w.user[0].client, w.now, &q, 1, 7, w.out) == HTC_OK);
    carry_out(&w, NODES);
    run_until(&w, w.now + 10 * HTC_SECOND);
    return htc_kv_client_next(w.user[0].client, &r) == 0 || r.status == HTC_ETIMEDOUT || r.status == HTC_ECORRUPT;
}

/* What this member holds of each key others hold too: it can be read, and is what they have. */
static void holds_what_others_hold(int n, int other)
{
    for (int k = 0; k < KEYS; k++) {
        htc_bytes bytes = { NULL, 0 }, theirs = { NULL, 0 };
        HOLDS(held(n, name_of(&w, w.key[k]), &bytes) == HTC_OK);
        htc__kv_cell mine, its;
        HOLDS(htc__kv_cell_read(bytes, NULL, &mine) == HTC_OK);
        HOLDS(held(other, name_of(&w, w.key[k]), &theirs) == HTC_OK && htc__kv_cell_read(theirs, NULL, &its) == HTC_OK);
        HOLDS(mine.present && mine.version == its.version && htc_bytes_equal(mine.value, its.value));
    }
}

static void settle(htc_ns span)
{
    run_until(&w, w.now + span);
}

static void fill(void)
{
    for (int k = 0; k < KEYS; k++) {
        htc_kv_request q = { .size = sizeof q, .op = HTC_KV_ADD, .key = name_of(&w, w.key[0]), .delta = k + 1 };
        if (k > 0)
            q = (htc_kv_request){ .size = sizeof(htc_kv_request), .op = HTC_KV_PUT, .key = name_of(&w, w.key[k]), .value = htc_bytes_of("here") };
        HOLDS(ask_one(&w, 0, &q).status == HTC_OK);
    }
    settle(HTC_SECOND);
}

static void crash_and_damage(int n)
{
    crash(&w, n, HTC_NEVER);
    damage_all(n);
    w.node[n].down_until = w.now + HTC_MS;
    settle(10 * HTC_MS);
}

/* One owner's copy of each key is damaged: it is named, renewed, and nothing of it is left. */
Test(kvs_repair, damaged_records_are_renewed)
{
    PROPERTY(rng, 20)
    {
        open_world(&w, rng.state, 3, calm);
        fill();
        crash_and_damage(0);
        settle(HTC_SECOND);
        htc__kv_repair_counts counts = counts_of(0);
        cr_assert(counts.damaged == 0 && counts.renewed >= 1 && counts.given_up == 0, "seed %llu: %llu damaged, %llu renewed",
                  (unsigned long long)property_seed, (unsigned long long)counts.damaged, (unsigned long long)counts.renewed);
        HOLDS(cluster_of(0)->map->after == NULL);
        holds_what_others_hold(0, 1);
        crash(&w, 1, HTC_NEVER); /* now that copy is needed */
        settle(HTC_SECOND);
        for (int k = 0; k < KEYS; k++)
            HOLDS(asked(name_of(&w, w.key[k])) == HTC_OK);
        crash(&w, 0, HTC_MS); /* and the next life finds no damage */
        settle(2 * HTC_SECOND);
        HOLDS(counts_of(0).damaged == 0 && counts_of(0).renewed == 0);
        close_world(&w);
    }
}

/* Clients ask while one member's records rot again and again, and whatever else goes wrong does: what they are told fits. */
Test(kvs_repair, every_history_is_linearizable)
{
    uint64_t renewed = 0;
    PROPERTY(rng, 30)
    {
        int rotten = (int)htc_rng_below(&rng, 3);
        open_world(&w, rng.state, htc_rng_below(&rng, 3) ? 3 : 4, bad);
        for (int i = 0; i < 4; i++) {
            run(&w, w.asked + 25, w.now + 20 * HTC_SECOND);
            if (w.node[rotten].server)
                renewed += counts_of(rotten).renewed;
            if (w.node[rotten].server)
                crash(&w, rotten, HTC_NEVER);
            w.node[rotten].down_until = HTC_NEVER;
            damage_all(rotten);
            w.node[rotten].down_until = w.now + HTC_MS;
        }
        w.no_faults = 1;
        run(&w, w.asked + 10, w.now + 60 * HTC_SECOND);
        HOLDS(w.answered == w.asked);
        settle(60 * HTC_SECOND);
        htc__kv_repair_counts counts = counts_of(rotten);
        renewed += counts.renewed;
        cr_assert(counts.damaged == 0, "seed %llu: %llu buckets are damaged still", (unsigned long long)property_seed,
                  (unsigned long long)counts.damaged);
        judge(&w);
        close_world(&w);
    }
    cr_assert(renewed >= property_times(30), "%llu renewed", (unsigned long long)renewed);
}

/* Two copies of one key are lost: nobody can say what it was, and nobody does; other keys are served, and it is tried again, but seldom. */
Test(kvs_repair, what_a_majority_has_lost_stays_refused)
{
    PROPERTY(rng, 6)
    {
        open_world(&w, rng.state, 3, calm);
        fill();
        htc_bytes lost = name_of(&w, w.key[1]);
        for (int n = 0; n < 2; n++) {
            crash(&w, n, HTC_NEVER);
            damage(n, 'k', lost);
            w.node[n].down_until = w.now + HTC_MS;
        }
        settle(60 * HTC_SECOND);
        uint64_t tries = counts_of(0).given_up + counts_of(1).given_up + counts_of(2).given_up;
        cr_assert(tries >= 2 && tries <= 20, "seed %llu: tried %llu times", (unsigned long long)property_seed, (unsigned long long)tries);
        HOLDS(counts_of(0).damaged + counts_of(1).damaged == 2 && cluster_of(0)->map->after == NULL);
        HOLDS(asked(name_of(&w, w.key[0])) == HTC_OK && asked(name_of(&w, w.key[2])) == HTC_OK);
        HOLDS(is_refused(lost));
        close_world(&w);
    }
}

/* Of two owners both have what was acknowledged. */
Test(kvs_repair, one_of_two_is_enough)
{
    PROPERTY(rng, 10)
    {
        open_world(&w, rng.state, 2, calm);
        fill();
        crash_and_damage(1);
        settle(2 * HTC_SECOND);
        HOLDS(counts_of(1).damaged == 0 && counts_of(1).renewed >= 1);
        holds_what_others_hold(1, 0);
        close_world(&w);
    }
}

/* ---- what a member remembers of a bucket ---- */

static uint32_t buckets_of_keys(uint32_t bucket[KEYS])
{
    for (int k = 0; k < KEYS; k++)
        bucket[k] = htc__kv_cluster_bucket(cluster_of(0), name_of(&w, w.key[k]));
    return cluster_of(0)->buckets;
}

static void crash_and_forget(int n)
{
    uint32_t bucket[KEYS], all = buckets_of_keys(bucket);
    crash(&w, n, HTC_NEVER);
    for (uint32_t b = 0; b < all; b++)
        damage_bucket(n, 'o', b);
    w.node[n].down_until = w.now + HTC_MS;
    settle(10 * HTC_MS);
}

/* A member starts though it cannot read what it remembers of its buckets; it serves none before it was renewed, and then all of them. */
static void forgets_and_is_renewed(int members, uint64_t seed)
{
    open_world(&w, seed, members, calm);
    fill();
    crash_and_forget(0);
    HOLDS(w.node[0].server != NULL && counts_of(0).damaged == cluster_of(0)->buckets);
    for (uint32_t b = 0; b < cluster_of(0)->buckets; b++)
        HOLDS(htc__kv_cluster_serves(w.node[0].server, b, cluster_of(0)->route[b].epoch) == 0);
    settle(2 * HTC_SECOND);
    HOLDS(counts_of(0).damaged == 0 && counts_of(0).renewed == cluster_of(0)->buckets && cluster_of(0)->map->after == NULL);
    holds_what_others_hold(0, 1);
    if (members > 2)
        crash(&w, 1, HTC_NEVER); /* now that copy is needed */
    settle(HTC_SECOND);
    for (int k = 0; k < KEYS; k++)
        HOLDS(asked(name_of(&w, w.key[k])) == HTC_OK);
    crash(&w, 0, HTC_MS); /* and the next life finds no damage */
    settle(2 * HTC_SECOND);
    HOLDS(counts_of(0).damaged == 0 && counts_of(0).renewed == 0);
    close_world(&w);
}

Test(kvs_repair, a_member_that_forgot_its_buckets_is_renewed)
{
    PROPERTY(rng, 10)
        forgets_and_is_renewed(htc_rng_below(&rng, 2) ? 3 : 2, rng.state);
}

/* What was final at two of three is at one that remembers, and at one that does not: with the third one, that was away, these are a
 * majority, and nobody answers before it was renewed by both that remember. */
static int is_kept(uint64_t seed)
{
    open_world(&w, seed, 3, calm);
    fill();
    htc_bytes key = name_of(&w, w.key[1]);
    crash(&w, 2, HTC_NEVER);
    settle(HTC_SECOND);
    HOLDS(ask_one(&w, 0, &(htc_kv_request){ .size = sizeof(htc_kv_request), .op = HTC_KV_PUT, .key = key, .value = htc_bytes_of("newer") }).status == HTC_OK);
    crash(&w, 1, HTC_NEVER);
    crash_and_forget(0);
    w.node[2].down_until = w.now;
    settle(5 * HTC_SECOND);
    int kept = is_refused(key);
    w.node[1].down_until = w.now;
    settle(20 * HTC_SECOND);
    htc_kv_result r = ask_one(&w, 0, &(htc_kv_request){ .size = sizeof(htc_kv_request), .op = HTC_KV_GET, .key = key });
    kept = kept && r.status == HTC_OK && htc_bytes_equal(r.value, htc_bytes_of("newer")) && counts_of(0).damaged == 0;
    close_world(&w);
    return kept;
}

Test(kvs_repair, what_was_final_is_not_forgotten)
{
    PROPERTY(rng, 10)
        HOLDS(is_kept(rng.state));
    int lost = 0;
    htc__broken_set(htc__broken_find("lost_is_late"), 1); /* and that one rule is what it takes */
    PROPERTY_ALL(rng, 5)
        lost += !is_kept(rng.state);
    htc__broken_set(htc__broken_find("lost_is_late"), 0);
    cr_assert(lost > 0 || getenv("HTC_TEST_SEED"), "it was not noticed");
}

/* Two of three have forgotten: nobody can say what was final, and nobody does. */
Test(kvs_repair, what_a_majority_has_forgotten_stays_refused)
{
    open_world(&w, 9, 3, calm);
    fill();
    uint32_t bucket[KEYS];
    buckets_of_keys(bucket);
    for (int n = 0; n < 2; n++) {
        crash(&w, n, HTC_NEVER);
        damage_bucket(n, 'o', bucket[1]);
        w.node[n].down_until = w.now + HTC_MS;
    }
    settle(30 * HTC_SECOND);
    HOLDS(counts_of(0).damaged + counts_of(1).damaged == 2);
    HOLDS(is_refused(name_of(&w, w.key[1])));
    HOLDS(bucket[0] == bucket[1] || asked(name_of(&w, w.key[0])) == HTC_OK);
    close_world(&w);
}

/* Which epoch of the map it has answered in: the others renew it. */
Test(kvs_repair, who_forgot_the_map_is_renewed)
{
    PROPERTY(rng, 10)
    {
        open_world(&w, rng.state, 3, calm);
        fill();
        crash_and_damage(0); /* so that the map has been written */
        settle(2 * HTC_SECOND);
        uint64_t epoch = cluster_of(0)->map->own_epoch;
        crash(&w, 2, HTC_NEVER);
        damage_bucket(2, 'o', HTC__KV_OWN_BUCKET);
        w.node[2].down_until = w.now + HTC_MS;
        settle(20 * HTC_MS);
        HOLDS(htc__kv_cluster_serves(w.node[2].server, HTC__KV_OWN_BUCKET, epoch) == 0);
        settle(2 * HTC_SECOND);
        HOLDS(counts_of(2).damaged == 0 && cluster_of(2)->map->own_epoch == epoch + 1);
        HOLDS(htc__kv_cluster_serves(w.node[2].server, HTC__KV_OWN_BUCKET, epoch + 1));
        close_world(&w);
    }
}

/* The map has had more epochs than buckets have had moves: nobody takes its number for that of a move that the map does not know. */
Test(kvs_repair, who_forgot_everything_is_renewed)
{
    PROPERTY(rng, 10)
    {
        open_world(&w, rng.state, 3, calm);
        fill();
        uint32_t all = cluster_of(0)->buckets;
        crash(&w, 2, HTC_NEVER);
        for (uint32_t b = 0; b < all; b++)
            damage_bucket(2, 'o', b);
        damage_bucket(2, 'o', HTC__KV_OWN_BUCKET);
        w.node[2].down_until = w.now + HTC_MS;
        settle(5 * HTC_SECOND);
        HOLDS(cluster_of(2)->map->own_epoch == 2);
        HOLDS(counts_of(2).damaged == 0 && counts_of(2).renewed == all + 1);
        holds_what_others_hold(2, 1);
        close_world(&w);
    }
}

/* Floors of a bucket are damaged at one of two: the other one has all that was collected. */
Test(kvs_repair, floors_are_renewed)
{
    PROPERTY(rng, 10)
    {
        open_world(&w, rng.state, htc_rng_below(&rng, 2) ? 3 : 2, calm);
        w.tombstones = 1;
        for (int n = 0; n < w.nodes; n++)
            crash(&w, n, HTC_MS);
        settle(HTC_SECOND);
        fill();
        uint64_t version = 0;
        for (int k = 0; k < KEYS; k++)
            version = ask_one(&w, 0, &(htc_kv_request){ .size = sizeof(htc_kv_request), .op = HTC_KV_DELETE, .key = name_of(&w, w.key[k]) }).version;
        settle(5 * HTC_SECOND);
        uint32_t bucket[KEYS];
        buckets_of_keys(bucket);
        HOLDS(htc__kv_acceptors_floors(w.node[1].server) > 0);
        crash(&w, 1, HTC_NEVER);
        for (int k = 0; k < KEYS; k++)
            damage_bucket(1, 'v', bucket[k]);
        w.node[1].down_until = w.now + HTC_MS;
        settle(HTC_SECOND);
        htc_kv_result r = { .size = sizeof r };
        for (int k = 0; k < KEYS; k++)
            r = ask_one(&w, 0, &(htc_kv_request){ .size = sizeof(htc_kv_request), .op = HTC_KV_PUT, .key = name_of(&w, w.key[k]), .value = htc_bytes_of("again") });
        HOLDS(r.status == HTC_OK && r.version > version);
        settle(20 * HTC_SECOND);
        HOLDS(counts_of(1).damaged == 0 && counts_of(1).renewed >= 1);
        holds_what_others_hold(1, 0);
        close_world(&w);
    }
}

/* Clients ask while one member forgets its buckets, and has rotten records too, again and again; whatever else goes wrong does. 1: what they were told
 * fits. */
static int fits(void)
{
    htc_history_verdict linear, rising;
    HOLDS(htc_history_linear(w.history, NULL, &linear) == HTC_OK && htc_history_rising(w.history, NULL, &rising) == HTC_OK);
    return linear.answer == HTC_HISTORY_HOLDS && rising.answer == HTC_HISTORY_HOLDS;
}

static int forgets_again_and_again(uint64_t seed, htc_rng *rng)
{
    int rotten = (int)htc_rng_below(rng, 3), members = (int)htc_rng_below(rng, 3);
    open_world(&w, seed, members == 0 ? 2 : members == 1 ? 4 : 3, bad);
    rotten = members == 0 ? rotten % 2 : rotten;
    uint32_t all = 0;
    for (int i = 0; i < 6; i++) {
        run(&w, w.asked + 20, w.now + 20 * HTC_SECOND);
        for (int n = 0; n < w.nodes && !all; n++)
            all = cluster_of(n) ? cluster_of(n)->buckets : 0;
        if (w.node[rotten].server)
            crash(&w, rotten, HTC_NEVER);
        w.node[rotten].down_until = HTC_NEVER;
        for (uint32_t b = 0; b < all; b++)
            if (htc_rng_below(rng, 3))
                damage_bucket(rotten, 'o', b);
        w.node[rotten].down_until = w.now + HTC_MS;
    }
    w.no_faults = 1;
    run(&w, w.asked + 10, w.now + 120 * HTC_SECOND);
    settle(60 * HTC_SECOND);
    int all_is_well = w.answered == w.asked && counts_of(rotten).damaged == 0 && fits();
    close_world(&w);
    return all_is_well;
}

Test(kvs_repair, every_history_with_forgotten_buckets_is_linearizable)
{
    PROPERTY(rng, 15)
        HOLDS(forgets_again_and_again(rng.state, &rng));
}

/* What has arrived of a bucket is damaged before it takes the place of what there was: it is copied. */
Test(kvs_repair, what_has_arrived_may_be_damaged)
{
    int damaged = 0;
    PROPERTY_ALL(rng, 10)
    {
        open_world(&w, rng.state, 3, calm);
        fill();
        htc_bytes key = name_of(&w, w.key[1]);
        uint32_t  bucket = htc__kv_cluster_bucket(cluster_of(0), key);
        crash_and_damage(0);
        for (htc_ns until = w.now + 2 * HTC_SECOND; w.now < until && !cluster_of(0)->hold[bucket].complete;)
            turn(&w);
        uint64_t number = cluster_of(0)->hold[bucket].arriving, area = htc__kv_area_id(bucket, number);
        for (htc_ns until = w.now + 2 * HTC_SECOND; w.now < until && cluster_of(0)->route[bucket].image != number;)
            turn(&w);
        crash(&w, 0, HTC_NEVER); /* the map names it; what it does about that may not be stored yet */
        htc__kv_name name = htc__kv_name_of('i', &area, key);
        htc_bytes    value;
        damaged += w.node[0].engine.ops->get(w.node[0].engine.ctx, htc__kv_name_bytes(&name), &value) == HTC_OK;
        damage(0, 'i', (htc_bytes){ name.data + 1, name.len - 1 });
        w.node[0].down_until = w.now + HTC_MS;
        settle(20 * HTC_SECOND);
        HOLDS(w.node[0].server != NULL && counts_of(0).damaged == 0);
        holds_what_others_hold(0, 1);
        close_world(&w);
    }
    cr_assert(damaged >= 3 || getenv("HTC_TEST_SEED"), "%d times", damaged);
}

/* An owner is late when its bucket is sealed, and the third one is lost: whoever moves the bucket needs what the late one copies of the sealed one. */
Test(kvs_repair, who_is_late_copies_from_one_that_is_sealed)
{
    htc_bytes bytes;
    open_world(&w, 3, 3, calm);
    fill();
    htc_bytes key = name_of(&w, w.key[1]);
    uint32_t  bucket = htc__kv_cluster_bucket(cluster_of(0), key);
    uint64_t  epoch = cluster_of(0)->route[bucket].epoch;
    crash(&w, 1, HTC_NEVER);
    crash(&w, 2, HTC_NEVER);
    htc__kv_bucket_state sealed = cluster_of(0)->hold[bucket], none = { 0 };
    unsigned     duties = htc__kv_bucket_state_seal(&sealed, epoch);
    HOLDS(duties == (HTC__KV_BUCKET_YES | HTC__KV_BUCKET_STORE));
    crash(&w, 0, HTC_NEVER);
    remember(0, bucket, &sealed);
    remember(2, bucket, &none);
    w.node[0].down_until = w.node[2].down_until = w.now;
    settle(2 * HTC_SECOND);
    HOLDS(htc__kv_cluster_serves(w.node[0].server, bucket, epoch) == 0 && htc__kv_cluster_serves(w.node[2].server, bucket, epoch));
    HOLDS(cluster_of(2)->counts.copied == 1 && held(2, key, &bytes) == HTC_OK);
    close_world(&w);
}

/* One that has no other owner is named, and left as it is. */
Test(kvs_repair, who_is_alone_asks_nobody)
{
    open_world(&w, 5, 1, calm);
    fill();
    crash_and_damage(0);
    settle(10 * HTC_SECOND);
    if (cluster_of(0)) { /* else it is kept by a member that has no others at all */
        cr_expect(counts_of(0).damaged >= 1 && counts_of(0).renewed == 0 && cluster_of(0)->map->after == NULL);
        cr_expect(is_refused(name_of(&w, w.key[0])));
    }
    close_world(&w);
}

/* The map's own record. */
Test(kvs_repair, the_map_itself_is_renewed)
{
    PROPERTY(rng, 10)
    {
        open_world(&w, rng.state, 3, calm);
        fill();
        crash_and_damage(0); /* so that the map has been written */
        settle(2 * HTC_SECOND);
        HOLDS(cluster_of(0)->map_version > 0);
        uint64_t  epoch = cluster_of(0)->map->own_epoch;
        htc_bytes bytes;
        crash(&w, 2, HTC_NEVER);
        damage(2, 'k', htc__kv_map_key());
        w.node[2].down_until = w.now + HTC_MS;
        settle(2 * HTC_SECOND);
        HOLDS(counts_of(2).damaged == 0 && counts_of(2).renewed == 1);
        HOLDS(cluster_of(2)->map->own_epoch == epoch + 1 && cluster_of(2)->map->own_next.n == 0);
        HOLDS(held(2, htc__kv_map_key(), &bytes) == HTC_OK);
        close_world(&w);
    }
}

/* Whoever has begun it dies: the others bring it to its end, or give it up, and keys are served. */
Test(kvs_repair, who_asked_may_die)
{
    PROPERTY(rng, 20)
    {
        open_world(&w, rng.state, 3, calm);
        fill();
        crash_and_damage(0);
        for (htc_ns until = w.now + 2 * HTC_SECOND; w.now < until && !(cluster_of(1)->map->after);)
            turn(&w);
        HOLDS(cluster_of(1)->map->kind == HTC__KV_RENEW && cluster_of(1)->map->leaver == w.members[0].id);
        settle(htc_rng_below(&rng, 3 * HTC_MS));
        if (w.node[0].server)
            crash(&w, 0, HTC_NEVER);
        settle(20 * HTC_SECOND);
        HOLDS(cluster_of(1)->map->after == NULL && cluster_of(2)->map->after == NULL);
        for (int k = 0; k < KEYS; k++)
            HOLDS(asked(name_of(&w, w.key[k])) == HTC_OK);
        w.node[0].down_until = w.now;
        settle(20 * HTC_SECOND);
        HOLDS(counts_of(0).damaged == 0);
        holds_what_others_hold(0, 1);
        close_world(&w);
    }
}

/* Items of that kind that are on their way between these two are lost: they become such as nobody knows. */
static void lose_items(int from, int to, uint8_t kind)
{
    for (packet *p = w.packets; p; p = p->next) {
        uint16_t   type;
        uint64_t   id;
        uint8_t    is;
        htc_bytes  item;
        htc_reader r = htc_wire_open((htc_bytes){ p->data, p->len }, &type, &id);
        if (p->from != from || p->to != to || type != HTC_WIRE_KV_MEMBERS)
            continue;
        (void)htc_get_u64(&r), (void)htc_get_u64(&r);
        for (const uint8_t *at = r.p; htc__kv_members_next(&r, &is, &item); at = r.p)
            if (is == kind)
                p->data[at - p->data] = 0xff;
    }
}

static int sealed(int n)
{
    return htc__kv_buckets_sealed(w.node[n].server);
}

/* Nobody but who has begun it has heard what it is, and that one dies: whoever is sealed asks for the map. */
static void dies_untold(uint64_t seed, int to_one)
{
    open_world(&w, seed, 3, calm);
    fill();
    crash_and_damage(0);
    for (htc_ns until = w.now + 2 * HTC_SECOND; w.now < until && !(sealed(2) && (to_one || sealed(1)));) {
        turn(&w);
        lose_items(0, 1, HTC__KV_ITEM_MAP);
        lose_items(0, 2, HTC__KV_ITEM_MAP);
        if (to_one) { /* it has no part in the map's change, and the other one none in what follows */
            lose_items(0, 2, HTC__KV_ITEM_ASK);
            lose_items(0, 1, HTC__KV_ITEM_SEAL);
        }
    }
    HOLDS(sealed(2) && sealed(1) == !to_one);
    HOLDS(cluster_of(1)->map_version == 0 && cluster_of(2)->map_version == 0);
    crash(&w, 0, HTC_NEVER);
    if (to_one) {
        settle(5 * HTC_MS); /* until what it has sealed is stored */
        crash(&w, 2, HTC_MS);
    }
    settle(20 * HTC_SECOND);
    HOLDS(cluster_of(1)->map_version && cluster_of(1)->map->after == NULL && cluster_of(2)->map->after == NULL);
    for (int k = 0; k < KEYS; k++)
        HOLDS(asked(name_of(&w, w.key[k])) == HTC_OK);
    close_world(&w);
}

Test(kvs_repair, who_asked_may_die_untold)
{
    PROPERTY(rng, 20)
    {
        dies_untold(rng.state, 0);
        dies_untold(rng.state, 1);
    }
}

/* ---- of each key as many as meet every majority have to say what they hold ---- */

typedef struct heard {
    unsigned seals, installs, activated;
    uint64_t version; /* of the key in what was installed */
} heard;

static void hear_seal(void *ctx, uint64_t to, uint32_t bucket, uint64_t epoch, htc_bytes after)
{
    (void)to, (void)bucket, (void)epoch, (void)after;
    ((heard *)ctx)->seals++;
}

static void hear_install(void *ctx, uint64_t to, uint32_t bucket, uint64_t number, uint32_t page, int last,
                         const htc__kv_floors *floors, htc_bytes entries)
{
    heard       *h = ctx;
    htc_reader   r = htc_reader_of(entries);
    htc_bytes    key, bytes;
    htc__kv_cell cell;
    (void)to, (void)bucket, (void)number, (void)page, (void)last, (void)floors;
    h->installs++;
    while (htc__kv_entry_read(&r, &key, &bytes, &cell)) {
        cr_assert(cell.present);
        h->version = cell.version;
    }
}

static void hear_activate(void *ctx, uint64_t number)
{
    (void)number;
    ((heard *)ctx)->activated++;
}

/* What an owner shows of the key: of that version; 0: damaged. */
static htc_status show(htc__kv_migration *m, uint64_t from, uint64_t version)
{
    htc__kv_floors floors = { 0 };
    htc__kv_cell   cell = { .present = 1, .version = version, .value = htc_bytes_of("v") };
    htc_buf        b;
    htc_buf_init(&b, NULL, 0);
    cell.accepted = cell.promise = (htc__kv_ballot){ .epoch = 1, .counter = version, .proposer = 1 };
    if (version) {
        htc__kv_entry_write(&b, htc_bytes_of("key"), &cell);
    } else {
        htc_put_bytes(&b, htc_bytes_of("key"));
        htc_put_bytes(&b, (htc_bytes){ NULL, 0 });
    }
    htc_status status = htc__kv_migration_shown(m, 0, from, (htc_bytes){ NULL, 0 }, &floors, htc_buf_bytes(&b), 1);
    htc_buf_free(&b);
    return status;
}

static htc_status show_nothing(htc__kv_migration *m, uint64_t from)
{
    htc__kv_floors floors = { 0 };
    return htc__kv_migration_shown(m, 0, from, (htc_bytes){ NULL, 0 }, &floors, (htc_bytes){ NULL, 0 }, 1);
}

static htc__kv_migration *mover_of(uint32_t owners, heard *h)
{
    htc__kv_migration_options o = { 0 };
    htc__kv_migration_host    host = { hear_seal, hear_install, hear_activate, h };
    htc__kv_map_move      move = { .bucket = 1, .epoch = 1, .mover = 2, .from_n = owners, .to_n = owners };
    htc__kv_migration        *m = NULL;
    *h = (heard){ 0 };
    for (uint32_t i = 0; i < owners; i++)
        move.from[i] = move.to[i] = i + 1;
    cr_assert(htc__kv_migration_create(NULL, &o, &host, &move, 2, 0, &m) == HTC_OK);
    return m;
}

Test(kvs_repair, a_damaged_record_is_no_answer)
{
    heard          h;
    htc__kv_migration *m = mover_of(3, &h);
    cr_expect(show(m, 1, 0) == HTC_OK);
    cr_expect(show(m, 2, 4) == HTC_OK && h.installs == 0); /* the third may have a newer one that is final */
    cr_expect(show(m, 3, 5) == HTC_OK && h.installs == 3 && h.version == 5);
    htc__kv_migration_destroy(m);
    m = mover_of(3, &h);
    cr_expect(show(m, 1, 0) == HTC_OK && show(m, 2, 0) == HTC_OK && h.installs == 0);
    cr_expect(show(m, 3, 5) == HTC_ECORRUPT && h.installs == 0); /* another majority may have had a newer one */
    htc__kv_migration_destroy(m);
    m = mover_of(2, &h);
    cr_expect(show(m, 1, 0) == HTC_OK && show(m, 2, 5) == HTC_OK && h.installs == 2 && h.version == 5);
    htc__kv_migration_destroy(m);
    m = mover_of(4, &h);
    cr_expect(show(m, 1, 0) == HTC_OK && show(m, 2, 4) == HTC_OK && show(m, 3, 0) == HTC_OK && h.installs == 0);
    cr_expect(show(m, 4, 5) == HTC_OK && h.installs == 4 && h.version == 5); /* two of four meet every three */
    htc__kv_migration_destroy(m);
}

/* An owner that has lost what it remembers is sealed like the others, and says nothing. */
Test(kvs_repair, a_lost_owner_is_no_answer)
{
    heard          h;
    htc__kv_migration *m = mover_of(3, &h);
    cr_expect(htc__kv_migration_lost(m, 0, 1) == HTC_OK && show(m, 2, 4) == HTC_OK && h.installs == 0); /* the third may have a newer one that is final */
    cr_expect(htc__kv_migration_lost(m, 0, 1) == HTC_OK && htc__kv_migration_lost(m, 0, 9) == HTC_OK && h.installs == 0);
    cr_expect(show(m, 3, 5) == HTC_OK && h.installs == 3 && h.version == 5);
    htc__kv_migration_destroy(m);
    m = mover_of(3, &h);
    cr_expect(htc__kv_migration_lost(m, 0, 1) == HTC_OK && htc__kv_migration_lost(m, 0, 2) == HTC_OK && h.installs == 0);
    cr_expect(show(m, 3, 5) == HTC_ECORRUPT && h.installs == 0);
    htc__kv_migration_destroy(m);
    m = mover_of(2, &h);
    cr_expect(show(m, 2, 5) == HTC_OK && h.installs == 0); /* the other one is not sealed yet */
    cr_expect(htc__kv_migration_lost(m, 0, 1) == HTC_OK && h.installs == 2 && h.version == 5);
    htc__kv_migration_destroy(m);
    m = mover_of(4, &h);
    cr_expect(htc__kv_migration_lost(m, 0, 1) == HTC_OK && show(m, 2, 4) == HTC_OK && h.installs == 0);
    cr_expect(show(m, 4, 5) == HTC_OK && h.installs == 4 && h.version == 5); /* two of four meet every three */
    htc__kv_migration_destroy(m);
    for (int broken = 0; broken < 2; broken++) { /* it was written while this one was away */
        htc__broken_set(htc__broken_find("lost_counted"), broken);
        m = mover_of(3, &h);
        cr_expect(htc__kv_migration_lost(m, 0, 1) == HTC_OK && show_nothing(m, 2) == HTC_OK && h.installs == (broken ? 3 : 0));
        htc__kv_migration_destroy(m);
    }
    htc__broken_set(htc__broken_find("lost_counted"), 0);
}

/* What stands in the way is named as what it is. */
Test(kvs_repair, why_it_was_given_up_is_said)
{
    cr_expect(strstr(htc__kv_repair_why(HTC_EFULL), "larger") != NULL);
    cr_expect(strstr(htc__kv_repair_why(HTC_ECORRUPT), "have lost the same key") != NULL);
    cr_expect(strstr(htc__kv_repair_why(HTC_ETIMEDOUT), "too few") != NULL);
}

Test(kvs_repair, memory_runs_out_anywhere)
{
    ALLOC_FAIL_EVERY(f, 200)
    {
        htc_env               env = alloc_fail_env(&f);
        heard                 h = { 0 };
        htc__kv_migration_options o = { 0 };
        htc__kv_migration_host    host = { hear_seal, hear_install, hear_activate, &h };
        htc__kv_map_move      move = { .bucket = 1, .epoch = 1, .mover = 2, .from_n = 3, .to_n = 3, .from = { 1, 2, 3 }, .to = { 1, 2, 3 } };
        htc__kv_migration        *m = NULL;
        htc_status            status = htc__kv_migration_create(&env, &o, &host, &move, 2, 0, &m);
        for (uint64_t from = 1; status == HTC_OK && from <= 3; from++)
            status = show(m, from, from - 1);
        cr_expect(status == HTC_OK || (status == HTC_ENOMEM && f.refused));
        htc__kv_migration_destroy(m);
        cr_expect(f.live == 0 && f.wrong_sizes == 0);
    }
}
