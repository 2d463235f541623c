/* Leases, and keys with a ttl, that two owners write under one version, of which one becomes final. Who proposes and who hears whom is arranged here, so
 * that each case is the same interleaving. */
#define NODES 3
#include "cluster_world.h"
#include "kvs/storage/batch.h"
#include "kvs/replica/cluster_private.h"
#include "kvs/util/digest.h"
#include "kvs/cell/record.h"

#define TTL (200 * HTC_MS)

static const faults calm = { 0 };
static world        w;

/* Nothing that one of them says, or has said and is on its way, is heard by the other. */
static void cut(int a, int b)
{
    w.apart[a][b] = w.apart[b][a] = 1;
}

static void mend(int a, int b)
{
    w.apart[a][b] = w.apart[b][a] = 0;
}

/* That one, and no other, is what the user is connected to. */
static void connect_to(int u, int n)
{
    if (w.user[u].store >= 0)
        hang_up(&w, NODES + u, w.user[u].store);
    w.user[u].store = n;
    call(&w, NODES + u, n);
}

static int node_of(uint64_t id)
{
    int n = 0;
    while (w.members[n].id != id)
        n++;
    return n;
}

static void submit(int u, const htc_kv_request *q)
{
    w.user[u].by_hand = 1;
    HOLDS(htc_kv_client_submit(w.user[u].client, w.now, q, 1, 7, w.out) == HTC_OK);
    carry_out(&w, NODES + u);
}

static htc_kv_result answer_of(int u)
{
    htc_kv_result r = { .size = sizeof r };
    for (int turns = 0; !htc_kv_client_next(w.user[u].client, &r); turns++) {
        HOLDS(turns < 100000);
        turn(&w);
    }
    w.user[u].by_hand = 0;
    return r;
}

/* Records of leases that a member holds, final or not. */
static size_t records_at(int n)
{
    return htc__kv_leases_count(w.node[n].server);
}

static void until_records_at(int n)
{
    for (int turns = 0; records_at(n) == 0; turns++) {
        HOLDS(turns < 100000);
        turn(&w);
    }
}

/* Members in the order in which they own the lease that the world's first user is granted first. */
typedef struct its_owners {
    int               first, second, third;
    uint64_t          id; /* of the lease */
    htc__kv_lease_key key;
    htc__kv_name      name; /* of its record */
} its_owners;

static its_owners open_for_lease(uint64_t seed)
{
    its_owners o;
    uint32_t   bucket;
    open_world(&w, seed & ~UINT64_C(3), 3, calm); /* clients that leave it to members who is asked */
    run_until(&w, w.now + 100 * HTC_MS);
    uint64_t words[2] = { (seed & ~UINT64_C(3)) * 100 + 1, 1 };
    o.id = htc__digest_words(words, 2, 0) | 1;
    htc_bytes      key = htc__kv_lease_key_of(&o.key, o.id);
    htc__kv_owners owners = htc__kv_cluster_owners(w.node[0].server, key, &bucket);
    o.first = node_of(owners.id[0]);
    o.second = node_of(owners.id[1]);
    o.third = node_of(owners.id[2]);
    o.name = htc__kv_name_of('k', NULL, key);
    connect_to(0, o.first);
    return o;
}

/* A member goes down, and what it has stored of the lease is what another owner had proposed, before or (terms: 1) as the next term: it names that
 * one. */
static void crash_with_record_of(int n, const htc__kv_name *name, uint64_t keeper, uint64_t terms)
{
    htc__kv_lease_record record;
    htc__kv_cell         cell;
    htc_bytes            bytes;
    htc_buf              value, sealed, b;
    htc_buf_init(&value, NULL, 0);
    htc_buf_init(&sealed, NULL, 0);
    htc_buf_init(&b, NULL, 0);
    HOLDS(htc__kv_read(w.node[n].server, htc__kv_name_bytes(name), &bytes) == HTC_OK);
    HOLDS(htc__kv_cell_read(bytes, NULL, &cell) == HTC_OK && htc__kv_lease_record_read(cell.value, &record) == HTC_OK);
    record.keeper = keeper;
    htc__kv_lease_record_write(&value, &record);
    cell.value = htc_buf_bytes(&value);
    cell.version += terms; /* what is final was written back since */
    cell.accepted.counter--;
    htc__kv_cell_write(&sealed, &cell);
    htc__kv_seal(&sealed, htc__kv_name_bytes(name), 0);
    htc__kv_batch_put(&b, htc__kv_name_bytes(name), htc_buf_bytes(&sealed));
    crash(&w, n, HTC_MS);
    HOLDS(w.node[n].engine.ops->apply(w.node[n].engine.ctx, htc_buf_bytes(&b)) == HTC_OK);
    htc_buf_free(&value);
    htc_buf_free(&sealed);
    htc_buf_free(&b);
}

static void no_records_after(htc_ns span)
{
    run_until(&w, w.now + span);
    for (int n = 0; n < NODES; n++)
        cr_assert(!w.node[n].server || records_at(n) == 0, "seed %llu: a lease is there long after its end", (unsigned long long)property_seed);
}

/* The keeper is lost, and the owner that comes first after it has never heard of the lease: who has lets it end. */
Test(kvs_lease, a_lease_ends_that_the_first_owner_does_not_know)
{
    PROPERTY(rng, 8)
    {
        its_owners o = open_for_lease(rng.state);
        cut(o.second, o.first);
        cut(o.second, o.third);
        submit(0, &(htc_kv_request){ .size = sizeof(htc_kv_request), .op = HTC_KV_LEASE_GRANT, .ttl = TTL });
        HOLDS(answer_of(0).status == HTC_OK);
        until_records_at(o.third);
        run_until(&w, w.now + 5 * HTC_MS); /* and it is stored */
        crash(&w, o.first, HTC_NEVER);
        mend(o.second, o.third);
        HOLDS(records_at(o.second) == 0 && records_at(o.third) == 1);
        connect_to(0, o.second);
        no_records_after(5 * HTC_SECOND);
        close_world(&w);
    }
}

static void ends_with_record_of_another(uint64_t seed, uint64_t terms)
{
    its_owners o = open_for_lease(seed);
    submit(0, &(htc_kv_request){ .size = sizeof(htc_kv_request), .op = HTC_KV_LEASE_GRANT, .ttl = TTL });
    HOLDS(answer_of(0).status == HTC_OK);
    until_records_at(o.second);
    until_records_at(o.third);
    run_until(&w, w.now + 5 * HTC_MS);
    crash_with_record_of(o.first, &o.name, w.members[o.second].id, terms);
    run_until(&w, w.now + 2 * HTC_MS);
    HOLDS(w.node[o.first].server && records_at(o.first) == 1);
    connect_to(0, o.first);
    no_records_after(2 * TTL); /* each reminder may meet the owners in an order that mends it: one has to do */
    close_world(&w);
}

/* The keeper itself holds what another owner wrote, which names that one, and the others hold what is final: under the same number, or as the next
 * term, which that one died over. */
Test(kvs_lease, a_lease_ends_whose_keeper_holds_anothers_record)
{
    PROPERTY(rng, 8)
    ends_with_record_of_another(rng.state, 0);
}

Test(kvs_lease, a_lease_ends_whose_keeper_holds_a_term_that_never_became_final)
{
    PROPERTY(rng, 8)
    ends_with_record_of_another(rng.state, 1);
}

/* A grant is asked of two owners. The second has written its record, which nobody else has, when the first one's, of the same number, is
 * made final; then it hears that the grant is done. It is not the lease's keeper, and must not count its time: a lease that is renewed
 * would end with the ttl of the one that is not. */
Test(kvs_lease, a_grant_that_two_owners_wrote_has_one_keeper)
{
    int met = 0;
    PROPERTY(rng, 8)
    {
        its_owners o = open_for_lease(rng.state);
        int        first = o.first, second = o.second, third = o.third;
        uint64_t   id = o.id;
        cut(first, second);
        cut(first, third);
        run_until(&w, w.now + 100 * HTC_MS); /* the first is taken for gone */
        submit(0, &(htc_kv_request){ .size = sizeof(htc_kv_request), .op = HTC_KV_LEASE_GRANT, .ttl = TTL });
        run_until(&w, w.now + 30 * HTC_MS);
        HOLDS(records_at(first) == 0);
        connect_to(0, second);
        until_records_at(second);
        htc_ns began = w.now;
        HOLDS(records_at(third) == 0);
        cut(second, third);
        mend(first, third);
        until_records_at(first);
        until_records_at(third);
        mend(first, second);
        mend(second, third);
        htc_kv_result lease = answer_of(0);
        HOLDS(lease.status == HTC_OK && lease.lease == id);
        met += w.now < began + 20 * HTC_MS; /* later it may have written the next term, and keep the lease */
        for (htc_ns until = w.now + 3 * TTL; w.now < until; run_until(&w, w.now + TTL / 5))
            cr_assert(ask_one(&w, 0, &(htc_kv_request){ .size = sizeof(htc_kv_request), .op = HTC_KV_LEASE_RENEW, .lease = id }).status == HTC_OK,
                      "seed %llu: a lease that is renewed has ended", (unsigned long long)property_seed);
        close_world(&w);
    }
    HOLDS(met > 0 || getenv("HTC_TEST_SEED"));
}

/* A ttl is set anew by an owner that is lost before anybody else has heard of it, and, half a ttl later, by another one, under the same version.
 * The first comes back, with what it had stored, and goes on to count that; it must not end what the other has set. */
Test(kvs_lease, a_ttl_that_two_owners_set_ends_as_the_one_that_counts)
{
    PROPERTY(rng, 8)
    {
        uint32_t       bucket;
        htc_kv_request touch = { .size = sizeof touch, .op = HTC_KV_PUT, .key = htc_bytes_of("key"), .ttl = TTL }, put = touch;
        put.value = touch.key;
        touch.flags = HTC_KV_TOUCH;
        open_world(&w, rng.state & ~UINT64_C(3), 3, calm);
        run_until(&w, w.now + 100 * HTC_MS);
        htc__kv_owners owners = htc__kv_cluster_owners(w.node[0].server, put.key, &bucket);
        int first = node_of(owners.id[0]), second = node_of(owners.id[1]), third = node_of(owners.id[2]);
        connect_to(0, first);
        connect_to(1, second);
        uint64_t version = ask_one(&w, 0, &put).version;
        HOLDS(version > 0);
        run_until(&w, w.now + 20 * HTC_MS); /* all owners have it */
        cut(first, second);
        cut(first, third);
        submit(0, &touch);
        run_until(&w, w.now + 10 * HTC_MS);
        HOLDS(w.node[first].commit_at == HTC_NEVER); /* it is stored there */
        hang_up(&w, NODES + 0, first);
        w.user[0].store = -1;
        w.user[0].again = HTC_NEVER;
        crash(&w, first, 10 * HTC_MS);
        run_until(&w, w.now + TTL / 2);
        htc_ns        sent = w.now;
        htc_kv_result set = ask_one(&w, 1, &touch);
        HOLDS(set.status == HTC_OK && set.version == version + 1);
        mend(first, second);
        mend(first, third);
        run_until(&w, sent + TTL - TTL / 20);
        cr_assert(ask_one(&w, 1, &(htc_kv_request){ .size = sizeof(htc_kv_request), .op = HTC_KV_GET, .key = put.key }).status == HTC_OK,
                  "seed %llu: a key has ended before the ttl that was set last", (unsigned long long)property_seed);
        run_until(&w, sent + 2 * TTL);
        HOLDS(ask_one(&w, 1, &(htc_kv_request){ .size = sizeof(htc_kv_request), .op = HTC_KV_GET, .key = put.key }).status == HTC_ENOTFOUND);
        close_world(&w);
    }
}
