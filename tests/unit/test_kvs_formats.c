/* Members that hold the same state in bytes of different formats: as after an upgrade, where some records have been changed since and others
 * not. Whole members, as in test_kvs_cluster.c, whose engines have cells of the format before. */
#include "cell_before.h"
#include "cluster_world.h"
#include "kvs/storage/batch.h"
#include "kvs/replica/cluster_private.h"

static const faults calm = { 0 };
static const faults bad = { .lose = 30, .doubled = 30, .late = 20, .crash = 200, .split = 120, .cut = 300 };

static world w;

static void stored(int n, htc_bytes key, htc__kv_name *name, htc_bytes *bytes)
{
    *name = htc__kv_name_of('k', NULL, key);
    HOLDS(w.node[n].engine.ops->get(w.node[n].engine.ctx, htc__kv_name_bytes(name), bytes) == HTC_OK);
    HOLDS(htc__kv_unseal(*bytes, htc__kv_name_bytes(name), bytes) == HTC_OK);
}

static int format_of(int n, htc_bytes key)
{
    htc__kv_name name;
    htc_bytes    bytes;
    stored(n, key, &name, &bytes);
    return *(const uint8_t *)bytes.data;
}

/* What this member's disk has of the key is from a build before. The member is down. */
static void make_old(int n, htc_bytes key)
{
    htc__kv_name name;
    htc__kv_cell cell;
    htc_bytes    bytes;
    htc_buf      b, value;
    stored(n, key, &name, &bytes);
    HOLDS(htc__kv_cell_read(bytes, NULL, &cell) == HTC_OK);
    htc_buf_init(&b, NULL, 0);
    htc_buf_init(&value, NULL, 0);
    cell_before(&value, &cell);
    htc__kv_seal(&value, htc__kv_name_bytes(&name), 0);
    htc__kv_batch_put(&b, htc__kv_name_bytes(&name), htc_buf_bytes(&value));
    HOLDS(w.node[n].engine.ops->apply(w.node[n].engine.ctx, htc_buf_bytes(&b)) == HTC_OK);
    htc_buf_free(&b);
    htc_buf_free(&value);
}

static htc__kv_register_counts rounds(void)
{
    htc__kv_register_counts sum = { 0 };
    for (int n = 0; n < 3; n++) {
        if (!w.node[n].server)
            continue;
        const htc__kv_register_counts *counts = htc__kv_register_counted(w.node[n].server->cluster->reg);
        sum.reads += counts->reads;
        sum.prepares += counts->prepares;
        sum.accepts += counts->accepts;
    }
    return sum;
}

static uint64_t sent_to_catch_up(void)
{
    uint64_t given = 0;
    for (int n = 0; n < 3; n++) {
        htc__kv_catchup_counts counts;
        htc__kv_catchup_counted(w.node[n].server, &counts);
        given += counts.given + counts.taken;
    }
    return given;
}

static htc_bytes key_at(int k)
{
    return name_of(&w, w.key[k]);
}

static void change_all(const char *value)
{
    for (int k = 0; k < KEYS; k++)
        for (int u = 0; u < CLIENTS; u++)
            HOLDS(ask_one(&w, u, &(htc_kv_request){ .size = sizeof(htc_kv_request), .op = HTC_KV_PUT, .key = key_at(k), .value = htc_bytes_of(value) })
                      .status == HTC_OK);
    run_until(&w, w.now + HTC_SECOND);
}

/* One or two of three members have all of it, or some, in the old format. */
static int open_mixed(htc_rng *rng)
{
    int olds = 0, both = (int)htc_rng_below(rng, 2);
    open_world(&w, rng->state, 3, calm);
    change_all("here");
    for (int n = 0; n <= both; n++) {
        crash(&w, n, HTC_NEVER);
        for (int k = 0; k < KEYS; k++)
            if (htc_rng_below(rng, 4)) {
                make_old(n, key_at(k));
                olds++;
            }
        w.node[n].down_until = w.now + HTC_MS;
        run_until(&w, w.now + 2 * HTC_SECOND);
    }
    return olds;
}

static void nobody_differs(void)
{
    htc__kv_register_counts before = rounds();
    for (int k = 0; k < KEYS; k++)
        for (int u = 0; u < CLIENTS; u++)
            HOLDS(ask_one(&w, u, &(htc_kv_request){ .size = sizeof(htc_kv_request), .op = HTC_KV_GET, .key = key_at(k) }).status == HTC_OK);
    htc__kv_register_counts after = rounds();
    HOLDS(after.prepares == before.prepares && after.accepts == before.accepts &&
          after.reads == before.reads + KEYS * CLIENTS);
    htc_kv_result r = ask_one(&w, 0, &(htc_kv_request){ .size = sizeof(htc_kv_request), .op = HTC_KV_COUNT });
    HOLDS(r.status == HTC_OK && r.number == KEYS && rounds().reads == after.reads);
}

/* One state is one state, also where two of three are heard: a read of it is one round and writes nothing back, lists of owners agree,
 * nothing is sent to catch up. */
Test(kvs_formats, the_same_state_differs_for_nobody)
{
    int olds = 0;
    PROPERTY(rng, 20)
    {
        olds += open_mixed(&rng);
        nobody_differs();
        HOLDS(sent_to_catch_up() == 0);
        crash(&w, 2, HTC_NEVER);
        run_until(&w, w.now + HTC_SECOND);
        nobody_differs();
        close_world(&w);
    }
    cr_assert(olds > 0);
}

/* A change is stored in the form of today by all of them, and what was there before it is found in lists of either form. */
Test(kvs_formats, what_is_changed_is_of_the_newest)
{
    PROPERTY(rng, 20)
    {
        int olds = open_mixed(&rng), seen = 0;
        for (int n = 0; n < 3; n++)
            for (int k = 0; k < KEYS; k++)
                seen += format_of(n, key_at(k)) == 2;
        HOLDS(seen == olds);
        change_all("there");
        for (int n = 0; n < 3; n++)
            for (int k = 0; k < KEYS; k++) {
                htc__kv_name name;
                htc__kv_cell cell;
                htc_bytes    bytes;
                stored(n, key_at(k), &name, &bytes);
                HOLDS(format_of(n, key_at(k)) == 3 && htc__kv_cell_read(bytes, NULL, &cell) == HTC_OK);
                HOLDS(cell.count == CLIENTS && cell.forgot == 0 && htc_bytes_equal(cell.value, htc_bytes_of("there")));
            }
        close_world(&w);
    }
}

/* An image of a bucket is written anew, whatever its owners hold: a damaged record is renewed from old ones, and the bucket of today's form. */
Test(kvs_formats, an_image_is_of_the_newest)
{
    PROPERTY(rng, 10)
    {
        open_world(&w, rng.state, 3, calm);
        change_all("here");
        for (int n = 0; n < 3; n++)
            crash(&w, n, HTC_NEVER);
        make_old(0, key_at(0));
        make_old(1, key_at(0));
        htc__kv_name name = htc__kv_name_of('k', NULL, key_at(0));
        htc_buf      b;
        htc_buf_init(&b, NULL, 0);
        htc__kv_batch_put(&b, htc__kv_name_bytes(&name), htc_bytes_of("what was here is lost"));
        HOLDS(w.node[2].engine.ops->apply(w.node[2].engine.ctx, htc_buf_bytes(&b)) == HTC_OK);
        htc_buf_free(&b);
        for (int n = 0; n < 3; n++)
            w.node[n].down_until = w.now + HTC_MS;
        run_until(&w, w.now + 3 * HTC_SECOND);
        for (int n = 0; n < 3; n++) {
            htc_bytes    bytes;
            htc__kv_cell cell;
            stored(n, key_at(0), &name, &bytes);
            HOLDS(format_of(n, key_at(0)) == 3 && htc__kv_cell_read(bytes, NULL, &cell) == HTC_OK &&
                  cell.count == CLIENTS);
        }
        close_world(&w);
    }
}

/* Clients ask while a member comes back with old records again and again, and whatever else goes wrong does. */
Test(kvs_formats, every_history_is_linearizable)
{
    PROPERTY(rng, 30)
    {
        open_world(&w, rng.state, 3, bad);
        for (int i = 0; i < 6; i++) {
            int n = (int)htc_rng_below(&rng, 3);
            run(&w, w.asked + 25, w.now + 20 * HTC_SECOND);
            if (w.node[n].server)
                crash(&w, n, HTC_NEVER);
            for (int k = 0; k < KEYS; k++) {
                htc__kv_name name = htc__kv_name_of('k', NULL, key_at(k));
                htc_bytes    bytes;
                if (w.node[n].engine.ops->get(w.node[n].engine.ctx, htc__kv_name_bytes(&name), &bytes) == HTC_OK)
                    make_old(n, key_at(k));
            }
            w.node[n].down_until = w.now + HTC_MS;
        }
        w.no_faults = 1;
        run(&w, w.asked + 10, w.now + 60 * HTC_SECOND);
        HOLDS(w.answered == w.asked);
        judge(&w);
        close_world(&w);
    }
}
