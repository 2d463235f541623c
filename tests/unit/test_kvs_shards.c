/* Members that are shards of one process: what one loses all lose, so that a second copy there is of no use. The world is that of
 * test_kvs_cluster.c. One seed, one history. */
#define NODES 6
#include "cluster_world.h"
#include "kvs/replica/cluster_private.h"
#include "kvs/eventual/eventual.h"

static world w;

/* Owners of each bucket: as many as asked for or as there are processes, and no two in one process. */
static void owners_of(uint32_t processes, uint32_t shards, uint32_t owners)
{
    htc_rng               rng = { 5 };
    htc_env               env = { .size = sizeof env, .rng = &rng };
    htc_kv_member         members[16];
    htc_kv_server_options o = { .size = sizeof o, .self = 1, .members = members, .owners = owners, .bits = 9 };
    htc_kv_server        *server;
    htc_kv_engine         engine;
    HOLDS(htc_kv_memory_create(NULL, &engine) == HTC_OK);
    o.engine = engine;
    o.member_count = processes * shards;
    for (uint32_t i = 0; i < o.member_count; i++)
        members[i] = (htc_kv_member){ .id = i + 1, .peer = i + 100, .process = i / shards + 1 };
    HOLDS(htc_kv_server_create(&env, &o, &server) == HTC_OK);
    for (uint32_t b = 0; b < 512; b++) {
        uint64_t ids[HTC_RING_OWNERS_MAX];
        uint32_t n = htc__kv_map_owners(server->cluster->map, b, ids), seen = 0;
        cr_assert(n == (owners < processes ? owners : processes), "%u processes of %u: %u owners", processes, shards, n);
        for (uint32_t i = 0; i < n; i++) {
            uint32_t bit = UINT32_C(1) << (ids[i] - 1) / shards;
            cr_assert(eq(u32, seen & bit, 0), "%u processes of %u: two owners in one", processes, shards);
            seen |= bit;
        }
    }
    htc_kv_server_destroy(server);
    engine.ops->destroy(engine.ctx);
}

Test(kvs_shards, owners_are_in_different_processes)
{
    for (uint32_t processes = 1; processes <= 4; processes++)
        for (uint32_t shards = 1; shards <= 4; shards++)
            for (uint32_t owners = 1; owners <= 3; owners++)
                owners_of(processes, shards, owners);
}

/* What an eventual namespace waits for can come: there are no more owners than processes. */
Test(kvs_shards, a_namespace_waits_for_no_more_owners_than_there_are)
{
    htc_rng               rng = { 5 };
    htc_env               env = { .size = sizeof env, .rng = &rng };
    htc_kv_namespace      named = { .size = sizeof named, .name = htc_bytes_of("all"), .n = 3, .r = 1, .w = 3 };
    htc_kv_member         members[4];
    htc_kv_server_options o = { .size = sizeof o, .self = 1, .members = members, .member_count = 4 };
    htc_kv_server        *server;
    htc_kv_engine         engine;
    HOLDS(htc_kv_memory_create(NULL, &engine) == HTC_OK);
    o.engine = engine;
    o.namespaces = &named;
    o.namespace_count = 1;
    for (uint32_t processes = 1; processes <= 4; processes++) {
        for (uint32_t i = 0; i < 4; i++)
            members[i] = (htc_kv_member){ .id = i + 1, .peer = i + 100, .process = i % processes + 1 };
        HOLDS(htc_kv_server_create(&env, &o, &server) == HTC_OK);
        const htc__kv_space *space = htc__kv_space_of(server, named.name);
        uint32_t             n = processes < 3 ? processes : 3;
        cr_assert(space && space->n == 3);
        uint64_t       ids[HTC_RING_OWNERS_MAX];
        htc__kv_quorum q = htc__kv_space_quorum(space, htc__kv_map_owners(server->cluster->map, 0, ids));
        cr_assert(q.n == n && q.w == n && q.r == 1, "%u processes", processes);
        htc_kv_server_destroy(server);
    }
    engine.ops->destroy(engine.ctx);
}

/* In memory: for those that begin and end together, and for nobody else. */
Test(kvs_shards, only_a_process_that_is_alone_may_forget)
{
    htc_rng               rng = { 5 };
    htc_env               env = { .size = sizeof env, .rng = &rng };
    htc_kv_member         members[2] = { { .id = 1, .peer = 2, .process = 1 }, { .id = 2, .peer = 3, .process = 1 } };
    htc_kv_server_options o = { .size = sizeof o, .self = 1, .members = members, .member_count = 2 };
    htc_kv_server        *server = NULL;
    HOLDS(htc_kv_server_create(&env, &o, &server) == HTC_OK);
    htc_kv_server_destroy(server);
    members[1].process = 2;
    cr_expect(htc_kv_server_create(&env, &o, &server) == HTC_EINVAL);
    members[0].process = members[1].process = 0;
    cr_expect(htc_kv_server_create(&env, &o, &server) == HTC_EINVAL);
}

/* One process: each key is in one place, and whoever is asked finds it there, through crashes and lost messages too. */
Test(kvs_shards, a_process_alone_keeps_each_key_once)
{
    static const faults bad = { .lose = 30, .doubled = 30, .late = 20, .crash = 400, .split = 150, .cut = 300 };
    PROPERTY(rng, 60)
    {
        open_shards(&w, rng.state, 4, 4, bad);
        run(&w, 60, w.now + 60 * HTC_SECOND);
        w.no_faults = 1;
        run(&w, 80, w.now + 60 * HTC_SECOND);
        HOLDS(w.asked == 80 && w.answered == 80);
        judge(&w);
        close_world(&w);
    }
}

/* One copy of each key: a page waits until all shards have shown theirs, also one that is away for a moment. */
Test(kvs_shards, a_scan_of_a_process_alone_shows_every_key_once)
{
    enum { KEPT = 200 };
    static uint8_t      there[KEPT];
    static const faults calm = { 0 };
    open_shards(&w, 1, 4, 4, calm);
    for (int i = 0; i < KEPT; i++) {
        char name[16];
        snprintf(name, sizeof name, "k%04d", i);
        htc_kv_request q = { .size = sizeof q, .op = HTC_KV_PUT, .key = htc_bytes_of(name), .value = htc_bytes_of(name) };
        HOLDS(ask_one(&w, i % CLIENTS, &q).status == HTC_OK);
        there[i] = 1;
    }
    scan_all(&w, 0, 7, there, KEPT);
    crash(&w, 3, 100 * HTC_MS);
    run_until(&w, w.now + 2 * HTC_SECOND);
    scan_all(&w, 1, 50, there, KEPT);
    close_world(&w);
}

/* Three processes of two shards: any of them may be gone, both its shards at once, and every key is answered for. */
Test(kvs_shards, a_process_of_three_may_be_gone)
{
    static const faults calm = { 0 };
    PROPERTY(rng, 20)
    {
        open_shards(&w, rng.state, 6, 2, calm);
        run(&w, 20, w.now + 20 * HTC_SECOND);
        HOLDS(w.done == 20);
        int gone = (int)htc_rng_below(&rng, 3);
        crash(&w, 2 * gone, HTC_NEVER);
        crash(&w, 2 * gone + 1, HTC_NEVER);
        run(&w, 60, w.now + 60 * HTC_SECOND);
        HOLDS(w.answered == 60 && w.done >= 54); /* those on their way in the crash, and behind them, may not be known */
        w.node[2 * gone].down_until = w.node[2 * gone + 1].down_until = w.now;
        run(&w, 80, w.now + 60 * HTC_SECOND);
        HOLDS(w.answered == 80);
        judge(&w);
        close_world(&w);
    }
}
