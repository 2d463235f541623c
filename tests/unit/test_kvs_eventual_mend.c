/* Damaged records of eventual keys are taken from the other owners: lib/kvs/eventual/recovery.c. Whole members, whose engines lose what they had under some
 * names. Until then the member says nothing of the key: reads and puts want enough others. Then it has all that was acknowledged, and none of
 * its numbers comes twice. */
#define NODES 9
#include "eventual_world.h"
#include "htcsched/kv_members.h"
#include "kvs/storage/batch.h"
#include "moving_world.h"

#define SOON  (20 * HTC_MS)
#define NEVER (HTC_NEVER / 4)
#define MANY  40

static const faults bad = { .lose = 30, .doubled = 30, .late = 20, .crash = 200, .split = 120, .cut = 300 };

/* Overwrite what the engine has of the key with bytes that no seal fits. The member is down. */
static void damage_of(int n, const char *space, const char *key)
{
    char         full[64];
    size_t       len = (size_t)snprintf(full, sizeof full, "%s%c%s", space, 0, key);
    htc__kv_name name = htc__kv_name_of('n', NULL, (htc_bytes){ full, len });
    htc_buf      b;
    HOLDS(w.node[n].server == NULL);
    htc_buf_init(&b, NULL, 0);
    htc__kv_batch_put(&b, htc__kv_name_bytes(&name), htc_bytes_of("what was here is lost"));
    HOLDS(w.node[n].engine.ops->apply(w.node[n].engine.ctx, htc_buf_bytes(&b)) == HTC_OK);
    htc_buf_free(&b);
}

static void damage(int n, const char *key)
{
    damage_of(n, SPACE, key);
}

static const htc__kv_eventual *eventual_of(int n)
{
    return w.node[n].server && w.node[n].server->cluster ? w.node[n].server->cluster->eventual : NULL;
}

/* How many records of that member, which is up, cannot be read. */
static size_t damaged(int n)
{
    HOLDS(eventual_of(n) != NULL);
    return eventual_of(n)->damaged.count;
}

static void wait_for(htc_ns span)
{
    run_until(&w, w.now + span);
}

static const char *numbered(char *name, int i)
{
    snprintf(name, 8, "k%d", i);
    return name;
}

static void submit(int u, htc_kv_request q)
{
    w.user[u].by_hand = 1;
    HOLDS(htc_kv_client_submit(w.user[u].client, w.now, &q, 1, 7, w.out) == HTC_OK);
    carry_out(&w, NODES + u);
}

/* As if another program were there. */
static void new_client(int u)
{
    static uint64_t       fresh = 1000000;
    htc_kv_client_options o = { .size = sizeof o, .client_id = ++fresh, .peer = STORE, .retry_ns = 60 * HTC_MS };
    for (int n = 0; n < NODES; n++) {
        hang_up(&w, NODES + u, n);
        hang_up(&w, NODES + CLIENTS + u, n);
        w.user[u].called[n] = -1;
    }
    htc_kv_client_destroy(w.user[u].client);
    w.user[u].store = -1;
    HOLDS(htc_kv_client_create(&w.env, &o, &w.user[u].client) == HTC_OK);
}

/* ---------------------------------------------------------------- repaired */

Test(kvs_eventual_mend, damaged_records_are_replaced)
{
    char name[8];
    PROPERTY(rng, 10)
    {
        open_space(rng.state, 3, calm, NEVER, NEVER);
        for (int i = 0; i < MANY; i++)
            HOLDS(ask_now(i % CLIENTS, request(HTC_KV_PUT, numbered(name, i), "v")).status == HTC_OK);
        HOLDS(ask_now(0, request(HTC_KV_DELETE, "k3", "")).status == HTC_OK);
        wait_for(HTC_SECOND);
        crash(&w, 0, HTC_NEVER);
        for (int i = 0; i < MANY; i++)
            damage(0, numbered(name, i));
        damage(0, "never"); /* nobody else has heard of that */
        start(&w, 0);
        HOLDS(damaged(0) == MANY + 1);
        wait_for(2 * HTC_SECOND);
        HOLDS(damaged(0) == 0 && !held(0, "never"));
        HOLDS(counted("htc_kv_eventual_damaged") == 0 && counted("htc_kv_eventual_repaired_total") == MANY + 1);
        crash(&w, 1, HTC_NEVER); /* now that copy is needed */
        for (int i = 0; i < MANY; i++) {
            htc_kv_result r = ask_now(0, request(HTC_KV_GET, numbered(name, i), ""));
            HOLDS(r.status == HTC_OK && r.items == 1 && held(0, name) && set.values == 1u + (i == 3));
        }
        crash(&w, 0, HTC_MS); /* and the next life finds no damage */
        wait_for(HTC_SECOND);
        HOLDS(damaged(0) == 0 && eventual_of(0)->counts.repaired == 0);
        close_world(&w);
    }
}

/* One owner's word is enough there, so all others have to answer. */
Test(kvs_eventual_mend, with_w_one_all_others_have_to_answer)
{
    open_space(1, 3, calm, NEVER, NEVER);
    htc_kv_request q = request(HTC_KV_PUT, "k", "v");
    q.space = htc_bytes_of("other");
    HOLDS(ask_now(0, q).status == HTC_OK);
    wait_for(HTC_SECOND);
    crash(&w, 0, HTC_NEVER);
    crash(&w, 1, HTC_NEVER);
    damage_of(0, "other", "k");
    start(&w, 0);
    wait_for(10 * HTC_SECOND);
    HOLDS(damaged(0) == 1);
    start(&w, 1);
    wait_for(5 * HTC_SECOND);
    HOLDS(damaged(0) == 0);
    close_world(&w);
}

/* ---------------------------------------------------------------- refused until then */

/* Two of three have a change, and the record of one of these is damaged: with the third one alone it is not repaired, and reads and puts want
 * another owner. 1: so it is. */
static int waits_for_enough(uint64_t seed)
{
    htc_kv_result r = { .size = sizeof r };
    int           fine = 1;
    open_space(seed, 3, calm, NEVER, NEVER);
    HOLDS(ask_now(0, request(HTC_KV_PUT, "k", "old")).status == HTC_OK);
    wait_for(HTC_SECOND);
    crash(&w, 1, HTC_NEVER);
    HOLDS(ask_now(0, request(HTC_KV_PUT, "k", "new")).status == HTC_OK);
    wait_for(HTC_SECOND / 10);
    crash(&w, 0, HTC_NEVER);
    crash(&w, 2, HTC_NEVER);
    damage(0, "k");
    start(&w, 0);
    start(&w, 1);
    wait_for(10 * HTC_SECOND);
    fine &= damaged(0) == 1;
    submit(0, request(HTC_KV_GET, "k", ""));
    submit(1, request(HTC_KV_PUT, "k", "more"));
    wait_for(5 * HTC_SECOND);
    fine &= htc_kv_client_next(w.user[0].client, &r) == 0 || r.status == HTC_ETIMEDOUT;
    fine &= htc_kv_client_next(w.user[1].client, &r) == 0 || r.status == HTC_ETIMEDOUT || r.status == HTC_ECORRUPT;
    if (fine) {
        start(&w, 2);
        wait_for(5 * HTC_SECOND);
        HOLDS(damaged(0) == 0);
        new_client(2);
        r = ask_now(2, request(HTC_KV_GET, "k", ""));
        HOLDS(r.status == HTC_OK && r.items >= 2);
    }
    close_world(&w);
    return fine;
}

Test(kvs_eventual_mend, it_waits_until_enough_have_answered)
{
    PROPERTY(rng, 6)
    HOLDS(waits_for_enough(rng.state));
}

Test(kvs_eventual_mend, what_too_many_have_lost_stays_refused)
{
    htc_kv_result r = { .size = sizeof r };
    open_space(1, 3, calm, SOON, NEVER);
    HOLDS(ask_now(0, request(HTC_KV_PUT, "k", "v")).status == HTC_OK);
    HOLDS(ask_now(0, request(HTC_KV_PUT, "other", "v")).status == HTC_OK);
    wait_for(HTC_SECOND);
    for (int n = 0; n < 2; n++) {
        crash(&w, n, HTC_NEVER);
        damage(n, "k");
    }
    start(&w, 0);
    start(&w, 1);
    wait_for(20 * HTC_SECOND);
    HOLDS(damaged(0) == 1 && damaged(1) == 1);
    HOLDS(ask_now(0, request(HTC_KV_GET, "other", "")).status == HTC_OK);
    submit(1, request(HTC_KV_GET, "k", ""));
    wait_for(10 * HTC_SECOND);
    HOLDS(htc_kv_client_next(w.user[1].client, &r) == 0 || r.status == HTC_ETIMEDOUT);
    close_world(&w);
}

Test(kvs_eventual_mend, what_nobody_else_has_stays_refused)
{
    open_space(1, 1, calm, SOON, NEVER);
    HOLDS(ask_now(0, request(HTC_KV_PUT, "k", "v")).status == HTC_OK);
    HOLDS(ask_now(0, request(HTC_KV_PUT, "other", "v")).status == HTC_OK);
    crash(&w, 0, HTC_NEVER);
    damage(0, "k");
    start(&w, 0);
    wait_for(10 * HTC_SECOND);
    HOLDS(damaged(0) == 1);
    HOLDS(ask_now(0, request(HTC_KV_GET, "k", "")).status == HTC_ECORRUPT);
    HOLDS(ask_now(1, request(HTC_KV_PUT, "k", "w")).status == HTC_ECORRUPT);
    HOLDS(ask_now(2, request(HTC_KV_GET, "other", "")).status == HTC_OK);
    close_world(&w);
}

/* ---------------------------------------------------------------- numbers */

/* Member 0 alone stores a put; the value's dot: 1 if it is there. */
static int put_alone(const char *value, uint64_t *member, uint64_t *counter)
{
    for (int n = 1; n < 3; n++)
        if (w.node[n].server)
            crash(&w, n, HTC_NEVER);
    new_client(0);
    submit(0, request(HTC_KV_PUT, "k", value));
    wait_for(HTC_SECOND);
    new_client(0);
    HOLDS(held(0, "k"));
    for (uint32_t l = 0; l < set.lines; l++)
        for (uint32_t i = 0; i < set.line[l].count; i++)
            if (htc_bytes_equal(set.value[set.line[l].first + i].value, htc_bytes_of(value))) {
                *member = set.line[l].member;
                *counter = set.line[l].counter - i;
                return 1;
            }
    return 0;
}

/* What it has told nobody is lost with its record, and what comes next has other numbers. 1: so it is. */
static int numbers_are_new(uint64_t seed)
{
    uint64_t member[8] = { 0 }, counter[8] = { 0 };
    int      fine = 1;
    open_space(seed, 3, calm, NEVER, NEVER);
    HOLDS(ask_now(0, request(HTC_KV_PUT, "k", "first")).status == HTC_OK);
    wait_for(HTC_SECOND);
    for (int i = 0; i < 8; i++) {
        char value[16];
        snprintf(value, sizeof value, "alone %d", i);
        HOLDS(put_alone(value, &member[i], &counter[i]));
        for (int j = 0; j < i; j++)
            fine &= member[i] != member[j] || counter[i] > counter[j];
        crash(&w, 0, HTC_NEVER);
        damage(0, "k");
        for (int n = 0; n < 3; n++)
            start(&w, n);
        if (i % 2) { /* while it is repaired */
            wait_for(htc_rng_below(&w.rng, 500 * HTC_MS));
            crash(&w, 0, HTC_MS);
        }
        wait_for(3 * HTC_SECOND);
        HOLDS(damaged(0) == 0);
    }
    close_world(&w);
    return fine;
}

Test(kvs_eventual_mend, no_number_comes_twice)
{
    PROPERTY(rng, 4)
    HOLDS(numbers_are_new(rng.state));
}

/* ---------------------------------------------------------------- while all else goes wrong */

/* One member's records rot again and again. 1: all that was acknowledged was read, and is there in the end. */
static int through_faults(uint64_t seed, uint64_t *repaired)
{
    open_space_of(seed, 3 + 2 * (seed % 3 == 0), bad, seed % 2 ? SOON : NEVER, NEVER, 2);
    int rotten = (int)htc_rng_below(&w.rng, 3);
    int owned[KEYS];
    for (int k = 0; k < KEYS; k++)
        owned[k] = owns(rotten, names[k]);
    reads_judged = corrupt_at_times = 1;
    for (int i = 0; i < 4; i++) {
        live(w.asked + 25, w.now + 20 * HTC_SECOND);
        if (w.node[rotten].server) {
            *repaired += eventual_of(rotten)->counts.repaired;
            crash(&w, rotten, HTC_NEVER);
        }
        w.node[rotten].down_until = HTC_NEVER;
        for (int k = 0; k < KEYS; k++)
            if (owned[k])
                damage(rotten, names[k]);
        w.node[rotten].down_until = w.now + HTC_MS;
    }
    live(w.asked + 10, w.now + 20 * HTC_SECOND);
    heal(10 * HTC_SECOND);
    *repaired += eventual_of(rotten)->counts.repaired;
    int fine = damaged(rotten) == 0;
    for (int k = 0; k < KEYS; k++)
        ask_now(0, request(HTC_KV_GET, names[k], ""));
    wait_for(5 * HTC_SECOND);
    fine &= stale_reads == 0 && judged().answer == HTC_HISTORY_HOLDS;
    corrupt_at_times = 0;
    close_world(&w);
    return fine;
}

Test(kvs_eventual_mend, nothing_acknowledged_is_lost)
{
    uint64_t repaired = 0, runs = 0;
    PROPERTY(rng, 20)
    {
        runs++;
        cr_assert(through_faults(rng.state, &repaired), "seed %llu: %d stale", (unsigned long long)property_seed, stale_reads);
    }
    cr_assert(repaired >= 2 * runs, "%llu repaired", (unsigned long long)repaired);
}

/* ---------------------------------------------------------------- owners change meanwhile */

/* The bucket of a damaged record goes to others, or gets another epoch: the record is dropped, or repaired by those who own it then. */
Test(kvs_eventual_mend, owners_may_change_meanwhile)
{
    char name[8];
    int  moved = 0;
    PROPERTY(rng, 4)
    {
        open_space_growing(rng.state, 5, 3, calm, SOON, NEVER, 2);
        for (int i = 0; i < MANY; i++)
            HOLDS(ask_now(0, request(HTC_KV_PUT, numbered(name, i), "v")).status == HTC_OK);
        wait_for(HTC_SECOND);
        crash(&w, 0, HTC_NEVER);
        for (int i = 0; i < MANY; i++)
            damage(0, numbered(name, i));
        for (int n = 3; n < 5; n++) {
            start(&w, n);
            wait_for(htc_rng_below(&w.rng, HTC_SECOND));
            if (n == 3)
                start(&w, 0);
            while (!has_come(NULL, n))
                turn(&w);
            w.node[n].outside = 0;
        }
        wait_for(20 * HTC_SECOND);
        HOLDS(counted("htc_kv_eventual_damaged") == 0);
        for (int i = 0; i < MANY; i++) {
            numbered(name, i);
            for (int n = 0; n < 5; n++)
                cr_assert(held(n, name) == owns(n, name), "seed %llu: %s of %d: %d %d", (unsigned long long)property_seed, name, n, held(n, name), owns(n, name));
            moved += !owns(0, name);
            HOLDS(ask_now(1, request(HTC_KV_GET, name, "")).status == HTC_OK);
        }
        close_world(&w);
    }
    HOLDS(moved > 0);
}

/* ---------------------------------------------------------------- what is left out is noticed */

Test(kvs_eventual_mend, a_broken_rule_is_noticed)
{
    static const struct {
        const char *rule;
        int (*fine)(uint64_t seed);
    } rules[] = { { "mended_by_few", waits_for_enough }, { "floor_not_raised", numbers_are_new } };
    for (size_t i = 0; i < sizeof rules / sizeof *rules; i++) {
        uint64_t seed = 1;
        htc__broken_set(htc__broken_find(rules[i].rule), 1);
        while (seed < 20 && rules[i].fine(seed))
            seed++;
        htc__broken_set(htc__broken_find(rules[i].rule), 0);
        cr_assert(seed < 20, "nobody notices %s", rules[i].rule);
        fprintf(stderr, "%s: seed %llu\n", rules[i].rule, (unsigned long long)seed);
    }
}
