/* A member that was away takes what others have accepted meanwhile: lib/kvs/migrate/catchup.c. Whole members, as in test_kvs_cluster.c. */
#include "alloc_fail.h"
#include "cluster_world.h"
#include "kvs/replica/cluster_private.h"

#define MANY 1500 /* keys: more than one look takes */

static const faults calm = { 0 };

static world w;

static htc__kv_catchup_counts counts_of(int n)
{
    htc__kv_catchup_counts counts;
    htc__kv_catchup_counted(w.node[n].server, &counts);
    return counts;
}

static char *name_at(int i)
{
    static char text[16];
    snprintf(text, sizeof text, "k%05d", i);
    return text;
}

static void put_at(int i, const char *value)
{
    htc_kv_request q = { .size = sizeof q, .op = HTC_KV_PUT, .key = htc_bytes_of(name_at(i)), .value = htc_bytes_of(value) };
    HOLDS(ask_one(&w, 0, &q).status == HTC_OK);
}

static htc_status held(int n, htc_bytes key, htc__kv_cell *cell)
{
    htc__kv_name name = htc__kv_name_of('k', NULL, key);
    htc_bytes    bytes;
    htc_status   status = htc__kv_read(w.node[n].server, htc__kv_name_bytes(&name), &bytes);
    return status == HTC_OK ? htc__kv_cell_read(bytes, NULL, cell) : status;
}

/* How many of the keys both hold alike. */
static int alike(int n, int other, int keys)
{
    int count = 0;
    for (int i = 0; i < keys; i++) {
        htc__kv_cell mine = { 0 }, theirs = { 0 };
        htc_bytes    key = htc_bytes_of(name_at(i));
        if (held(other, key, &theirs) != HTC_OK)
            continue;
        htc_buf copy; /* the next look ends what this one was lent */
        htc_buf_init(&copy, NULL, 0);
        htc_put_raw(&copy, theirs.value);
        theirs.value = htc_buf_bytes(&copy);
        count += held(n, key, &mine) == HTC_OK && htc__kv_cell_same(&mine, &theirs);
        htc_buf_free(&copy);
    }
    return count;
}

static int caught_up(int n)
{
    return w.node[n].server && counts_of(n).left == 0;
}

static void wait_until_caught_up(int n)
{
    htc_ns until = w.now + 60 * HTC_SECOND;
    run_until(&w, w.now + HTC_SECOND);
    while (!caught_up(n)) {
        cr_assert(w.now < until, "seed %llu: it does not catch up", (unsigned long long)property_seed);
        turn(&w);
    }
}

/* Away while keys are written, overwritten and deleted: back, it has what the others have of keys that nobody touches, and no more than what
 * differs was sent. */
static void away_and_back(uint64_t seed, int little_room)
{
    open_world(&w, seed, 3, calm);
    w.narrow = little_room;
    w.tombstones = 100000;
    for (int n = 0; n < 3; n++) {
        crash(&w, n, HTC_NEVER);
        start(&w, n);
    }
    for (int i = 0; i < 2 * MANY / 3; i++)
        put_at(i, "first");
    run_until(&w, w.now + HTC_SECOND);
    crash(&w, 2, HTC_NEVER);
    for (int i = MANY / 3; i < MANY / 2; i++)
        put_at(i, "second");
    for (int i = 2 * MANY / 3; i < MANY; i++)
        put_at(i, "new");
    for (int i = 0; i < 50; i++)
        HOLDS(ask_one(&w, 0, &(htc_kv_request){ .size = sizeof(htc_kv_request), .op = HTC_KV_DELETE, .key = htc_bytes_of(name_at(i)) }).status == HTC_OK);
    int changed = MANY / 2 - MANY / 3 + MANY - 2 * MANY / 3 + 50;
    w.node[2].down_until = w.now;
    turn(&w);
    HOLDS(w.node[2].server != NULL && alike(2, 0, MANY) < MANY - changed + 10);
    wait_until_caught_up(2);
    run_until(&w, w.now + HTC_SECOND);
    htc__kv_catchup_counts counts = counts_of(2);
    cr_assert(alike(2, 0, MANY) == MANY, "seed %llu: %d of %d", (unsigned long long)property_seed, alike(2, 0, MANY), MANY);
    HOLDS(counts.taken >= (uint64_t)changed && counts.taken <= (uint64_t)changed + 10 && counts.rounds == 2);
    HOLDS(counts.compared >= 2 * (uint64_t)(MANY - changed) && (little_room || counts_of(0).given <= (uint64_t)changed + 200));
    crash(&w, 2, HTC_MS); /* nothing differs: nothing is sent */
    uint64_t given = counts_of(0).given + counts_of(1).given;
    run_until(&w, w.now + HTC_SECOND);
    wait_until_caught_up(2);
    HOLDS(counts_of(2).taken == 0 && counts_of(0).given + counts_of(1).given == given && counts_of(2).rounds == 2);
    close_world(&w);
}

Test(kvs_catch, who_was_away_has_what_changed)
{
    PROPERTY(rng, 4)
    {
        away_and_back(rng.state, 0);
    }
}

/* A record that there is no room for is asked for again. */
Test(kvs_catch, records_wait_for_room)
{
    PROPERTY(rng, 4)
    {
        away_and_back(rng.state, 1);
    }
    cr_assert(narrow_refused > 0, "%llu", (unsigned long long)narrow_refused);
}

/* ---- a record is taken as an accept that comes late ---- */

static void say_record(int n, int from, htc_bytes key, const htc__kv_cell *cell, uint64_t epoch)
{
    htc_buf b;
    htc_buf_init(&b, NULL, 0);
    htc_put_varint(&b, epoch);
    htc_put_bytes(&b, key);
    htc__kv_cell_write(&b, cell);
    htc__kv_components_hear(w.node[n].server, w.members[from].id, HTC__KV_ITEM_RECORD, htc_buf_bytes(&b));
    htc_buf_free(&b);
}

static void say_ask(int n, int from, const htc__kv_ask *ask)
{
    htc_buf b;
    htc_buf_init(&b, NULL, 0);
    htc__kv_ask_write(&b, ask);
    htc__kv_components_hear(w.node[n].server, w.members[from].id, HTC__KV_ITEM_ASK, htc_buf_bytes(&b));
    htc_buf_free(&b);
}

static htc__kv_cell cell_of(uint64_t counter, const char *value)
{
    htc__kv_cell cell = { .present = 1, .version = counter, .value = htc_bytes_of(value) };
    cell.accepted = cell.promise = (htc__kv_ballot){ .epoch = 1, .counter = counter, .proposer = w.members[1].id };
    return cell;
}

Test(kvs_catch, a_record_is_an_accept_that_comes_late)
{
    htc_bytes    key = htc_bytes_of("key"), other = htc_bytes_of("other");
    htc__kv_cell cell = { 0 }, five, six;
    open_world(&w, 3, 3, calm);
    run_until(&w, w.now + HTC_SECOND);
    htc__kv_cluster *c = w.node[0].server->cluster;
    five = cell_of(1000005, "five");
    six = cell_of(1000006, "six");
    say_record(0, 1, key, &five, 2); /* another epoch than the bucket's */
    cr_expect(held(0, key, &cell) == HTC_ENOTFOUND);
    say_record(0, 1, key, &five, 1);
    cr_expect(held(0, key, &cell) == HTC_OK && htc__kv_cell_same(&cell, &five) && counts_of(0).taken == 1);
    say_record(0, 1, key, &five, 1); /* it has it */
    cr_expect(counts_of(0).taken == 1);
    /* Promised to somebody: what is below it is not taken any more. */
    htc__kv_ask prepare = { .kind = HTC__KV_PREPARE, .round = 1, .epoch = 1, .key = key };
    prepare.ballot = (htc__kv_ballot){ .epoch = 1, .counter = 1000009, .proposer = w.members[2].id };
    say_ask(0, 2, &prepare);
    say_record(0, 1, key, &six, 1);
    cr_expect(held(0, key, &cell) == HTC_OK && htc__kv_cell_same(&cell, &five) && counts_of(0).taken == 1);
    cr_expect(htc__kv_ballot_compare(&cell.promise, &prepare.ballot) == 0);
    /* Collected: what lies at or below the floors does not come back. */
    uint32_t       bucket = htc__kv_cluster_bucket(c, other);
    htc__kv_floors floors = { .version = 1000006, .ballot = five.accepted };
    cr_assert(htc__kv_cluster_floors_put(w.node[0].server, bucket, &floors) == HTC_OK);
    say_record(0, 1, other, &six, 1); /* above the ballot, not above the version */
    cr_expect(held(0, other, &cell) == HTC_ENOTFOUND);
    floors = (htc__kv_floors){ .version = 5, .ballot = six.accepted };
    cr_assert(htc__kv_cluster_floors_put(w.node[0].server, bucket, &floors) == HTC_OK);
    say_record(0, 1, other, &six, 1); /* above the version, not above the ballot */
    cr_expect(held(0, other, &cell) == HTC_ENOTFOUND && counts_of(0).taken == 1);
    htc__kv_cell seven = cell_of(1000007, "seven");
    say_record(0, 1, other, &seven, 1);
    cr_expect(held(0, other, &cell) == HTC_OK && htc__kv_cell_same(&cell, &seven) && counts_of(0).taken == 2);
    close_world(&w);
}

/* Among very many any bytes some are a record. */
static int is_record(uint8_t kind, htc_bytes item)
{
    htc_reader   r = htc_reader_of(item);
    htc__kv_cell cell;
    uint64_t     epoch = htc_get_varint(&r);
    htc_bytes    key = htc_get_bytes(&r), rest = htc_get_raw(&r, htc_reader_left(&r));
    return kind == HTC__KV_ITEM_RECORD && r.status == HTC_OK && epoch == 1 && key.len > 0 && htc__kv_cell_read(rest, NULL, &cell) == HTC_OK;
}

/* Whatever is said: nothing is taken that is no record, and nobody ends. */
Test(kvs_catch, any_bytes_are_survived)
{
    open_world(&w, 4, 3, calm);
    for (int i = 0; i < 20; i++)
        put_at(i, "value");
    run_until(&w, w.now + HTC_SECOND);
    PROPERTY(rng, 2000)
    {
        uint8_t  bytes[400];
        size_t   len = htc_rng_below(&rng, sizeof bytes);
        uint64_t taken = counts_of(0).taken;
        for (size_t i = 0; i < len; i++)
            bytes[i] = (uint8_t)(htc_rng_below(&rng, 2) ? htc_rng_below(&rng, 8) : htc_rng_below(&rng, 256));
        uint8_t kind = (uint8_t)(HTC__KV_ITEM_CATCH + htc_rng_below(&rng, 5));
        htc__kv_components_hear(w.node[0].server, w.members[1].id, kind, (htc_bytes){ bytes, len });
        HOLDS(w.node[0].server->broken == HTC_OK);
        HOLDS(counts_of(0).taken == taken || is_record(kind, (htc_bytes){ bytes, len }));
    }
    run_until(&w, w.now + HTC_SECOND);
    cr_expect(eq(int, alike(0, 1, 20), 20));
    close_world(&w);
}
