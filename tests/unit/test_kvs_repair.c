/* Damaged records are renewed from the other owners: lib/kvs/cluster_repair.c. Whole members, as in test_kvs_cluster.c, whose engines lose what
 * they had under some names. */
#include "alloc_fail.h"
#include "cluster_world.h"
#include "kvs/batch.h"
#include "kvs/cluster_private.h"
#include "kvs/mover.h"
#include "kvs/record.h"

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

/* What it remembers of a bucket is that. The member is down. */
static void remember(int n, uint32_t bucket, const htc__kv_hold *hold)
{
    uint64_t     number = bucket;
    htc__kv_name name = htc__kv_name_of('o', &number, (htc_bytes){ NULL, 0 });
    htc_buf      b, value;
    HOLDS(w.node[n].server == NULL);
    htc_buf_init(&b, NULL, 0);
    htc_buf_init(&value, NULL, 0);
    htc__kv_hold_write(&value, hold);
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
    return ask_one(&w, 0, &(htc_kv_request){ .op = HTC_KV_GET, .key = key }).status;
}

/* Nobody says what it is, nor that it is not there. The last that is asked. */
static int is_refused(htc_bytes key)
{
    htc_kv_result  r = { .status = HTC_ETIMEDOUT };
    htc_kv_request q = { .op = HTC_KV_GET, .key = key };
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
        htc_kv_request q = { .op = HTC_KV_ADD, .key = name_of(&w, w.key[0]), .delta = k + 1 };
        if (k > 0)
            q = (htc_kv_request){ .op = HTC_KV_PUT, .key = name_of(&w, w.key[k]), .value = htc_bytes_of("here") };
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
    cr_assert(renewed >= 30, "%llu renewed", (unsigned long long)renewed);
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
    htc__kv_hold sealed = cluster_of(0)->hold[bucket], none = { 0 };
    unsigned     duties = htc__kv_hold_seal(&sealed, epoch);
    HOLDS(duties == (HTC__KV_HOLD_YES | HTC__KV_HOLD_STORE));
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
static htc_status show(htc__kv_mover *m, uint64_t from, uint64_t version)
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
    htc_status status = htc__kv_mover_shown(m, 0, from, (htc_bytes){ NULL, 0 }, &floors, htc_buf_bytes(&b), 1);
    htc_buf_free(&b);
    return status;
}

static htc__kv_mover *mover_of(uint32_t owners, heard *h)
{
    htc__kv_mover_options o = { 0 };
    htc__kv_mover_host    host = { hear_seal, hear_install, hear_activate, h };
    htc__kv_map_move      move = { .bucket = 1, .epoch = 1, .mover = 2, .from_n = owners, .to_n = owners };
    htc__kv_mover        *m = NULL;
    *h = (heard){ 0 };
    for (uint32_t i = 0; i < owners; i++)
        move.from[i] = move.to[i] = i + 1;
    cr_assert(htc__kv_mover_create(NULL, &o, &host, &move, 2, 0, &m) == HTC_OK);
    return m;
}

Test(kvs_repair, a_damaged_record_is_no_answer)
{
    heard          h;
    htc__kv_mover *m = mover_of(3, &h);
    cr_expect(show(m, 1, 0) == HTC_OK);
    cr_expect(show(m, 2, 4) == HTC_OK && h.installs == 0); /* the third may have a newer one that is final */
    cr_expect(show(m, 3, 5) == HTC_OK && h.installs == 3 && h.version == 5);
    htc__kv_mover_destroy(m);
    m = mover_of(3, &h);
    cr_expect(show(m, 1, 0) == HTC_OK && show(m, 2, 0) == HTC_OK && h.installs == 0);
    cr_expect(show(m, 3, 5) == HTC_ECORRUPT && h.installs == 0); /* another majority may have had a newer one */
    htc__kv_mover_destroy(m);
    m = mover_of(2, &h);
    cr_expect(show(m, 1, 0) == HTC_OK && show(m, 2, 5) == HTC_OK && h.installs == 2 && h.version == 5);
    htc__kv_mover_destroy(m);
    m = mover_of(4, &h);
    cr_expect(show(m, 1, 0) == HTC_OK && show(m, 2, 4) == HTC_OK && show(m, 3, 0) == HTC_OK && h.installs == 0);
    cr_expect(show(m, 4, 5) == HTC_OK && h.installs == 4 && h.version == 5); /* two of four meet every three */
    htc__kv_mover_destroy(m);
}

Test(kvs_repair, memory_runs_out_anywhere)
{
    ALLOC_FAIL_EVERY(f, 200)
    {
        htc_env               env = alloc_fail_env(&f);
        heard                 h = { 0 };
        htc__kv_mover_options o = { 0 };
        htc__kv_mover_host    host = { hear_seal, hear_install, hear_activate, &h };
        htc__kv_map_move      move = { .bucket = 1, .epoch = 1, .mover = 2, .from_n = 3, .to_n = 3, .from = { 1, 2, 3 }, .to = { 1, 2, 3 } };
        htc__kv_mover        *m = NULL;
        htc_status            status = htc__kv_mover_create(&env, &o, &host, &move, 2, 0, &m);
        for (uint64_t from = 1; status == HTC_OK && from <= 3; from++)
            status = show(m, from, from - 1);
        cr_expect(status == HTC_OK || (status == HTC_ENOMEM && f.refused));
        htc__kv_mover_destroy(m);
        cr_expect(f.live == 0 && f.wrong_sizes == 0);
    }
}
