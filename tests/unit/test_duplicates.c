/* What a header wants to differ: the same thing named twice is refused. */
#include <string.h>

#include "expect.h"
#include "htcsched/htcsched.h"

/* Make it with the pair of that number the same; 0: with all of them different. */
typedef htc_status make_fn(int same);

static htc_rng rng = { 1 };
static htc_env env;

#define SAME(number, first, second) (same == (number) ? (first) : (second))

static htc_status make_server(int same)
{
    htc_kv_server        *server = NULL;
    htc_kv_engine         engine = { 0 };
    htc_kv_member         members[3] = { { .id = 11 }, { .id = 12, .peer = 2 }, { .id = SAME(1, 12, 13), .peer = SAME(2, 2, 3) } };
    htc_kv_namespace      spaces[2] = { { .size = sizeof *spaces, .name = htc_bytes_of("a") }, { .size = sizeof *spaces, .name = htc_bytes_of(SAME(3, "a", "b")) } };
    htc_kv_server_options o = { .size = sizeof o, .self = 11, .members = members, .member_count = 3,
                                .namespaces = spaces, .namespace_count = 2 };
    cr_assert(htc_kv_memory_create(&env, &engine) == HTC_OK);
    o.engine = engine;
    htc_status status = htc_kv_server_create(&env, &o, &server);
    htc_kv_server_destroy(server);
    engine.ops->destroy(engine.ctx);
    return status;
}

static htc_status make_ring(int same)
{
    htc_ring        *ring = NULL;
    htc_ring_options o = { .size = sizeof o };
    htc_ring_member  members[2] = { { .id = 1, .weight = 1 }, { .id = SAME(1, 1, 2), .weight = 1 } };
    htc_status       status = htc_ring_create(&env, &o, members, 2, &ring);
    htc_ring_destroy(ring);
    return status;
}

static htc_status make_balance(int same)
{
    htc_balance        *balance = NULL;
    uint32_t            near[2] = { 1, SAME(1, 1, 2) };
    htc_balance_options o = { .size = sizeof o, .partitions = 4, .own = 0, .near = near, .near_count = 2 };
    htc_status          status = htc_balance_create(&env, &o, &balance);
    htc_balance_destroy(balance);
    return status;
}

static htc_status make_hierarchy(int same)
{
    htc_hierarchy        *hierarchy = NULL;
    htc_hierarchy_grid    grids[2] = { { .cpus = 1 }, { .cpus = 1 } };
    uint32_t              of[2] = { 0, SAME(1, 0, 1) };
    htc_hierarchy_queue   queue = { .level = 1, .next = HTC_HIERARCHY_NOWHERE, .grids = of, .grid_count = 2, .te_ns = HTC_SECOND,
                                    .tq_ns = HTC_SECOND, .cpus = 1, .kflops = 1 };
    htc_hierarchy_options o = { .size = sizeof o, .grids = grids, .grid_count = 2, .queues = &queue, .queue_count = 1 };
    htc_status            status = htc_hierarchy_create(&env, &o, &hierarchy);
    htc_hierarchy_destroy(hierarchy);
    return status;
}

static htc_status make_gateway(int same)
{
    htc_gateway        *gateway = NULL;
    htc_site_options    sites[2] = { { .size = sizeof *sites, .name = "here", .cores = 2 }, { .size = sizeof *sites, .name = SAME(1, "here", "there"), .cores = 2 } };
    htc_gateway_options o = { .size = sizeof o, .store_peer = 1, .store_client_id = 9, .owner_name = "olga", .sites = sites, .n_sites = 2 };
    htc_status          status = htc_gateway_create(&env, &o, &gateway);
    if (status == HTC_OK)
        htc_gateway_ops()->destroy(gateway);
    return status;
}

static htc_status make_names(int same)
{
    htc_record_names *names = NULL;
    htc_status        status = htc_record_names_parse(&env, htc_bytes_of(same ? "n[1-3],n2" : "n[1-3],n4"), 0, &names, NULL);
    htc_record_names_destroy(names);
    return status;
}

/* Neither is made, but they are told of users and requests all at once. In any order: behind 300 others, before them, or among them. */
static htc_status divide(int same)
{
    static htc_allot_user   users[303];
    static htc_allot_share  shares[303];
    static htc_allot_change changes[303];
    for (size_t i = 0; i < 303; i++)
        users[i] = (htc_allot_user){ .id = (i * 0x9e3779b97f4a7c15) ^ 5, .weight = 1, .queued = 1 };
    users[302].id = SAME(1, users[301].id, 7);
    users[0].id = SAME(2, users[302].id, users[0].id);
    users[150].id = SAME(3, users[151].id, users[150].id);
    htc_status status = htc_allot(&env, NULL, users, 303, 10, shares);
    cr_expect(htc_allot_plan(&env, NULL, users, 303, 10, 10, changes) == status, "a plan is as a division");
    return status;
}

static htc_status grant(int same)
{
    htc_provision_request requests[3] = { { .id = 9, .nodes = 1 }, { .id = 4, .nodes = 1 }, { .id = SAME(1, 9, 5), .nodes = 1 } };
    uint64_t              granted[3];
    return htc_provision_grant(&env, NULL, 2, requests, 3, granted);
}

static const struct {
    const char *what;
    make_fn    *make;
    int         pairs;
    htc_status  refused;
} table[] = {
    { "a server: ids of members, their peers, names of namespaces", make_server, 3, HTC_EINVAL },
    { "a ring: ids of members", make_ring, 1, HTC_EEXISTS },
    { "a balance: near partitions", make_balance, 1, HTC_EINVAL },
    { "a hierarchy: grids of a queue", make_hierarchy, 1, HTC_EINVAL },
    { "a gateway: names of sites", make_gateway, 1, HTC_EINVAL },
    { "names of nodes", make_names, 1, HTC_EEXISTS },
    { "users who divide slots", divide, 3, HTC_EINVAL },
    { "requests for nodes", grant, 1, HTC_EINVAL },
};

Test(duplicates, what_has_to_differ_is_looked_at)
{
    env = (htc_env){ .size = sizeof env, .rng = &rng };
    for (size_t i = 0; i < sizeof table / sizeof *table; i++) {
        htc_status differ = table[i].make(0);
        cr_expect(differ == HTC_OK, "%s: all different: %s", table[i].what, htc_status_name(differ));
        for (int pair = 1; pair <= table[i].pairs; pair++) {
            htc_status status = table[i].make(pair);
            cr_expect(status == table[i].refused, "%s: pair %d is the same: %s", table[i].what, pair, htc_status_name(status));
        }
    }
}
