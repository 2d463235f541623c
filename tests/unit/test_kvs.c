/* The store, operation by operation: what each answers, leases, pages, limits, damage, refused memory. */
#include "kvs_world.h"
#include "kvs/server/server.h"

#include "alloc_fail.h"
#include "kvs/util/table.h"

/* Every operation does what htcsched/kv.h says, in the order of the table of spec section 2. */
Test(kvs, every_operation_answers_as_promised)
{
    world         w;
    char          text[64];
    htc_kv_result r = { .size = sizeof r };
    world_open(&w, 1, 1, calm);
    r = ask(&w, 0, (htc_kv_request){ .size = sizeof(htc_kv_request), .op = HTC_KV_GET, .key = B("a") }, NULL, 0);
    cr_expect(eq(int, r.status, HTC_ENOTFOUND));
    r = ask(&w, 0, (htc_kv_request){ .size = sizeof(htc_kv_request), .op = HTC_KV_PUT, .key = B("a"), .value = B("one") }, NULL, 0);
    cr_expect(eq(int, r.status, HTC_OK));
    uint64_t v1 = r.version;
    r = ask(&w, 0, (htc_kv_request){ .size = sizeof(htc_kv_request), .op = HTC_KV_GET, .key = B("a") }, text, sizeof text);
    cr_expect(eq(str, text, "one"));
    cr_expect(eq(u64, r.version, v1));
    r = ask(&w, 0, (htc_kv_request){ .size = sizeof(htc_kv_request), .op = HTC_KV_CAS_VERSION, .key = B("a"), .version = v1 + 7, .value = B("x") },
            text, sizeof text);
    cr_expect(eq(int, r.status, HTC_MISMATCH));
    cr_expect(eq(u64, r.version, v1));
    cr_expect(eq(str, text, "one"));
    r = ask(&w, 0, (htc_kv_request){ .size = sizeof(htc_kv_request), .op = HTC_KV_CAS_VERSION, .key = B("a"), .version = v1, .value = B("two") }, NULL,
            0);
    cr_expect(eq(int, r.status, HTC_OK));
    cr_expect(r.version > v1);
    r = ask(&w, 0, (htc_kv_request){ .size = sizeof(htc_kv_request), .op = HTC_KV_CAS_VERSION, .key = B("a"), .version = 0, .value = B("x") }, NULL, 0);
    cr_expect(eq(int, r.status, HTC_MISMATCH));
    r = ask(&w, 0, (htc_kv_request){ .size = sizeof(htc_kv_request), .op = HTC_KV_CAS_VERSION, .key = B("b"), .version = 0, .value = B("x") }, NULL, 0);
    cr_expect(eq(int, r.status, HTC_OK));
    r = ask(&w, 0, (htc_kv_request){ .size = sizeof(htc_kv_request), .op = HTC_KV_CAS_VALUE, .key = B("a"), .seen = B("one"), .value = B("3") }, text,
            sizeof text);
    cr_expect(eq(int, r.status, HTC_MISMATCH));
    cr_expect(eq(str, text, "two"));
    r = ask(&w, 0, (htc_kv_request){ .size = sizeof(htc_kv_request), .op = HTC_KV_CAS_VALUE, .key = B("a"), .seen = B("two"), .value = B("3") }, NULL,
            0);
    cr_expect(eq(int, r.status, HTC_OK));
    uint64_t v3 = r.version;
    r = ask(&w, 0, (htc_kv_request){ .size = sizeof(htc_kv_request), .op = HTC_KV_APPEND, .key = B("a"), .value = B("45") }, NULL, 0);
    cr_expect(eq(i64, r.number, 3));
    r = ask(&w, 0, (htc_kv_request){ .size = sizeof(htc_kv_request), .op = HTC_KV_ADD, .key = B("a"), .delta = -5 }, NULL, 0);
    cr_expect(eq(i64, r.number, 340));
    r = ask(&w, 0, (htc_kv_request){ .size = sizeof(htc_kv_request), .op = HTC_KV_ADD, .key = B("b"), .delta = 1 }, NULL, 0);
    cr_expect(eq(int, r.status, HTC_EINVAL));
    r = ask(&w, 0, (htc_kv_request){ .size = sizeof(htc_kv_request), .op = HTC_KV_ADD, .key = B("n"), .delta = -2 }, NULL, 0);
    cr_expect(eq(i64, r.number, -2));
    r = ask(&w, 0, (htc_kv_request){ .size = sizeof(htc_kv_request), .op = HTC_KV_DELETE, .key = B("a") }, NULL, 0);
    cr_expect(eq(int, r.status, HTC_OK));
    r = ask(&w, 0, (htc_kv_request){ .size = sizeof(htc_kv_request), .op = HTC_KV_DELETE, .key = B("a") }, NULL, 0);
    cr_expect(eq(int, r.status, HTC_ENOTFOUND));
    r = ask(&w, 0, (htc_kv_request){ .size = sizeof(htc_kv_request), .op = HTC_KV_PUT, .key = B("a"), .value = B("again") }, NULL, 0);
    cr_expect(r.version > v3, "versions survive deletion");
    world_close(&w);
}

/* ---------------------------------------------------------------- leases */

static void pass(world *w, htc_ns ns)
{
    for (htc_ns until = w->now + ns; w->now < until;) {
        htc_ns d = htc_kv_server_ops()->deadline(w->server);
        if (!w->packets && w->commit_at == HTC_NEVER && d > until) {
            w->now = until;
            return;
        }
        turn(w);
    }
}

static htc_status get(world *w, const char *key)
{
    return ask(w, 0, (htc_kv_request){ .size = sizeof(htc_kv_request), .op = HTC_KV_GET, .key = B(key) }, NULL, 0).status;
}

/* A key lives as long as its lease: through renewals, not beyond its end, whole terms anew after a restart. More keys
 * than one slice of the sweep, so that it takes several batches. */
Test(kvs, keys_vanish_with_their_lease)
{
    world w;
    char  key[16];
    world_open(&w, 5, 1, calm);
    uint64_t lease = ask(&w, 0, (htc_kv_request){ .size = sizeof(htc_kv_request), .op = HTC_KV_LEASE_GRANT, .ttl = HTC_SECOND }, NULL, 0).lease;
    cr_assert(lease != 0);
    for (int i = 0; i < 600; i++) {
        snprintf(key, sizeof key, "k%03d", i);
        cr_assert(
            eq(int,
               ask(&w, 0, (htc_kv_request){ .size = sizeof(htc_kv_request), .op = HTC_KV_PUT, .key = B(key), .value = B("x"), .lease = lease }, NULL, 0)
                   .status,
               HTC_OK));
    }
    /* Bound again without a lease, this one stays. */
    ask(&w, 0, (htc_kv_request){ .size = sizeof(htc_kv_request), .op = HTC_KV_PUT, .key = B("k000"), .value = B("y") }, NULL, 0);
    pass(&w, 600 * HTC_MS);
    cr_expect(
        eq(int, ask(&w, 0, (htc_kv_request){ .size = sizeof(htc_kv_request), .op = HTC_KV_LEASE_RENEW, .lease = lease }, NULL, 0).status, HTC_OK));
    pass(&w, 900 * HTC_MS);
    cr_expect(eq(int, get(&w, "k599"), HTC_OK), "renewed 0.9 s ago");
    server_kill(&w);
    server_start(&w);
    cr_expect(eq(int, get(&w, "k599"), HTC_OK));
    pass(&w, 900 * HTC_MS);
    cr_expect(eq(int, get(&w, "k599"), HTC_OK), "the term counts anew from the restart");
    pass(&w, 200 * HTC_MS);
    cr_expect(eq(int, get(&w, "k001"), HTC_ENOTFOUND));
    cr_expect(eq(int, get(&w, "k599"), HTC_ENOTFOUND));
    cr_expect(eq(int, get(&w, "k000"), HTC_OK));
    cr_expect(eq(int, ask(&w, 0, (htc_kv_request){ .size = sizeof(htc_kv_request), .op = HTC_KV_LEASE_RENEW, .lease = lease }, NULL, 0).status,
                 HTC_ENOTFOUND));
    cr_expect(eq(int, ask(&w, 0, (htc_kv_request){ .size = sizeof(htc_kv_request), .op = HTC_KV_PUT, .key = B("z"), .lease = lease }, NULL, 0).status,
                 HTC_ENOTFOUND));
    pass(&w, HTC_SECOND);
    htc_kv_server_stats stats = { .size = sizeof stats };
    htc_kv_server_stats_get(w.server, &stats);
    cr_expect(eq(u64, stats.leases, 0), "its last key takes it along");
    cr_expect(eq(u64, stats.tombstones, 599));
    world_close(&w);
}

static uint64_t leased_key(world *w, const char *key, htc_ns ttl)
{
    uint64_t lease = ask(w, 0, (htc_kv_request){ .size = sizeof(htc_kv_request), .op = HTC_KV_LEASE_GRANT, .ttl = ttl }, NULL, 0).lease;
    cr_assert(lease != 0);
    cr_assert(ask(w, 0, (htc_kv_request){ .size = sizeof(htc_kv_request), .op = HTC_KV_PUT, .key = B(key), .value = B("x"), .lease = lease }, NULL, 0).status == HTC_OK);
    return lease;
}

/* The disk takes five seconds for a batch. Meanwhile a lease of one second is renewed, each time at once, and its key read; so it lives. */
Test(kvs, a_renewal_does_not_wait_for_the_disk)
{
    world w;
    world_open(&w, 6, 2, calm);
    uint64_t lease = leased_key(&w, "bound", HTC_SECOND);
    w.disk_ns = 5 * HTC_SECOND;
    htc_kv_request put = { .size = sizeof put, .op = HTC_KV_PUT, .key = B("slow"), .value = B("x") };
    cr_assert(htc_kv_client_submit(w.client[1], w.now, &put, 1, 1, w.out) == HTC_OK);
    carry_out(&w, 1);
    while (w.commit_at == HTC_NEVER)
        turn(&w);
    htc_ns stored_at = w.commit_at;
    for (int i = 0; i < 14; i++) {
        pass(&w, 300 * HTC_MS);
        htc_ns asked = w.now;
        cr_assert(ask(&w, 0, (htc_kv_request){ .size = sizeof(htc_kv_request), .op = HTC_KV_LEASE_RENEW, .lease = lease }, NULL, 0).status == HTC_OK);
        cr_assert(get(&w, "bound") == HTC_OK);
        cr_assert(w.now - asked < 5 * HTC_MS && w.commit_at == stored_at, "answered after %llu us", (unsigned long long)((w.now - asked) / 1000));
    }
    while (w.commit_at == stored_at)
        turn(&w);
    w.disk_ns = 0;
    pass(&w, 1100 * HTC_MS);
    cr_expect(eq(int, get(&w, "bound"), HTC_ENOTFOUND));
    cr_expect(eq(int, get(&w, "slow"), HTC_OK));
    world_close(&w);
}

/* 200 leases, one ending each 10 ms; every third is renewed on the way, and lives by its last term. More of them end together than
 * one step ends, and the sweep takes several in one batch. */
Test(kvs, many_leases_end_each_in_its_time)
{
    enum { N = 200 };
    world    w;
    char     key[16];
    uint64_t lease[N];
    htc_ns   ends[N];
    world_open(&w, 7, 1, calm);
    for (int i = 0; i < N; i++) {
        htc_ns ttl = 2 * HTC_SECOND + (htc_ns)i * 10 * HTC_MS;
        snprintf(key, sizeof key, "k%03d", i);
        lease[i] = leased_key(&w, key, ttl);
        ends[i] = w.now + ttl;
    }
    pass(&w, HTC_SECOND);
    for (int i = 0; i < N; i += 3) {
        cr_assert(ask(&w, 0, (htc_kv_request){ .size = sizeof(htc_kv_request), .op = HTC_KV_LEASE_RENEW, .lease = lease[i] }, NULL, 0).status == HTC_OK);
        ends[i] = w.now + 2 * HTC_SECOND + (htc_ns)i * 10 * HTC_MS;
    }
    for (int look = 0; look < 60; look++) {
        pass(&w, 60 * HTC_MS);
        for (int i = look % 7; i < N; i += 7) {
            snprintf(key, sizeof key, "k%03d", i);
            htc_status status = get(&w, key);
            cr_assert(status == HTC_OK || w.now + 5 * HTC_MS > ends[i], "lease %d ended early", i);
            cr_assert(status == HTC_ENOTFOUND || w.now < ends[i] + 5 * HTC_MS, "lease %d lives on", i);
        }
    }
    for (int i = 0; i < N; i++) {
        snprintf(key, sizeof key, "t%03d", i);
        leased_key(&w, key, 30 * HTC_SECOND - (w.now % HTC_SECOND));
    }
    unsigned commits = w.commits;
    pass(&w, 40 * HTC_SECOND);
    htc_kv_server_stats stats = { .size = sizeof stats };
    htc_kv_server_stats_get(w.server, &stats);
    cr_expect(eq(u64, stats.leases, 0));
    cr_expect(w.commits - commits < 3 * N, "%u batches", w.commits - commits);
    world_close(&w);
}

/* Revoked: gone at once for whoever asks after the answer, also when the sweep is interrupted by a kill. */
Test(kvs, a_revoked_lease_takes_its_keys_through_restarts)
{
    for (uint64_t seed = 1; seed <= 100; seed++) {
        world w;
        char  key[16];
        world_open(&w, seed, 1,
                   (faults){ .lose = 50, .doubled = 50, .late = 20, .cut = 10, .kill = 5, .delay = HTC_MS });
        uint64_t lease =
            ask(&w, 0, (htc_kv_request){ .size = sizeof(htc_kv_request), .op = HTC_KV_LEASE_GRANT, .ttl = 3600 * HTC_SECOND }, NULL, 0).lease;
        for (int i = 0; i < 20; i++) {
            snprintf(key, sizeof key, "k%d", i);
            ask(&w, 0, (htc_kv_request){ .size = sizeof(htc_kv_request), .op = HTC_KV_PUT, .key = B(key), .value = B("x"), .lease = lease }, NULL, 0);
        }
        htc_status status = ask(&w, 0, (htc_kv_request){ .size = sizeof(htc_kv_request), .op = HTC_KV_LEASE_REVOKE, .lease = lease }, NULL, 0).status;
        cr_expect(status == HTC_OK || status == HTC_EUNKNOWN);
        htc_kv_result r = ask(&w, 0, (htc_kv_request){ .size = sizeof(htc_kv_request), .op = HTC_KV_SCAN, .key = B("k") }, NULL, 0);
        cr_expect(eq(u32, r.items, 0), "seed %lu", seed);
        world_close(&w);
    }
}

/* ---------------------------------------------------------------- pages, multi, limits */

Test(kvs, a_scan_is_read_page_by_page_in_order)
{
    world w;
    char  key[16], cursor[HTC_KV_KEY_MAX];
    world_open(&w, 7, 1, calm);
    for (int i = 0; i < 250; i++) {
        snprintf(key, sizeof key, "p/%03d", (i * 37) % 250);
        ask(&w, 0, (htc_kv_request){ .size = sizeof(htc_kv_request), .op = HTC_KV_PUT, .key = B(key), .value = B(key) }, NULL, 0);
    }
    ask(&w, 0, (htc_kv_request){ .size = sizeof(htc_kv_request), .op = HTC_KV_PUT, .key = B("p0"), .value = B("beyond") }, NULL, 0);
    int    n = 0, pages = 0;
    size_t cursor_len = 0;
    do {
        htc_kv_result r =
            ask(&w, 0,
                (htc_kv_request){ .size = sizeof(htc_kv_request), .op = HTC_KV_SCAN, .key = B("p/"), .cursor = { cursor, cursor_len }, .limit = 100 },
                NULL, 0);
        htc_kv_item item;
        for (size_t at = 0; htc_kv_result_item(&r, &at, &item) == HTC_OK; n++) {
            snprintf(key, sizeof key, "p/%03d", n);
            cr_assert(htc_bytes_equal(item.key, B(key)) && htc_bytes_equal(item.value, B(key)));
        }
        cursor_len = r.cursor.len;
        if (cursor_len)
            memcpy(cursor, r.cursor.data, cursor_len);
        pages++;
    } while (cursor_len);
    cr_expect(eq(int, n, 250));
    cr_expect(eq(int, pages, 3));
    world_close(&w);
}

/* Big values: pages and multi answers are cut at the frame, and the client asks for the rest by itself. */
Test(kvs, sixteen_mebibytes_travel_in_pieces_that_fit)
{
    world         w;
    htc_kv_result r = { .size = sizeof r };
    char          name[4][4] = { "b0", "b1", "b2", "b3" };
    htc_bytes     big = { calloc(1, HTC_KV_VALUE_MAX), HTC_KV_VALUE_MAX };
    world_open(&w, 8, 1, calm);
    htc_kv_request q[4], g[4];
    for (int i = 0; i < 4; i++) {
        q[i] = (htc_kv_request){ .size = sizeof(htc_kv_request), .op = HTC_KV_PUT,
                                 .key = B(name[i]),
                                 .value = { big.data, big.len - 20u * 1024 * 1024 / 2 } };
        g[i] = (htc_kv_request){ .size = sizeof(htc_kv_request), .op = HTC_KV_GET, .key = B(name[i]) };
    }
    cr_assert(eq(int, htc_kv_client_submit(w.client[0], 0, q, 4, 1, w.out), HTC_OK));
    carry_out(&w, 0);
    cr_assert(eq(int, htc_kv_client_submit(w.client[0], 0, g, 4, 2, w.out), HTC_OK));
    carry_out(&w, 0);
    int of_tag[3] = { 0 };
    for (int got = 0, turns = 0; got < 8; turns++) {
        turn(&w);
        while (htc_kv_client_next(w.client[0], &r)) {
            cr_assert(eq(int, r.status, HTC_OK));
            cr_assert(r.tag == 1 || r.value.len == q[0].value.len);
            of_tag[r.tag]++;
            cr_assert(eq(u32, r.last, of_tag[r.tag] == 4));
            got++;
        }
        cr_assert(turns < 9999);
    }
    q[0].value = big;
    cr_expect(eq(int, ask(&w, 0, q[0], NULL, 0).status, HTC_OK));
    r = ask(&w, 0, (htc_kv_request){ .size = sizeof(htc_kv_request), .op = HTC_KV_SCAN, .key = B("b") }, NULL, 0);
    cr_expect(eq(u32, r.items, 1), "one item is always given");
    cr_expect(r.cursor.len == 2);
    q[1].op = HTC_KV_APPEND;
    q[1].key = B("b0");
    cr_expect(eq(int, ask(&w, 0, q[1], NULL, 0).status, HTC_ETOOBIG));
    world_close(&w);
    free((void *)big.data);
}

/* Beyond the ceiling what grows is refused, what shrinks or reads is not. */
Test(kvs, a_memory_ceiling_refuses_growth_only)
{
    world w;
    char  key[16];
    int   n = 0;
    world_open(&w, 9, 1, calm);
    server_kill(&w);
    w.options.memory_max = 100 << 10;
    server_start(&w);
    htc_status status;
    char      *kb = calloc(1, 1024);
    do {
        snprintf(key, sizeof key, "k%d", n++);
        status = ask(&w, 0, (htc_kv_request){ .size = sizeof(htc_kv_request), .op = HTC_KV_PUT, .key = B(key), .value = { kb, 1024 } }, NULL, 0).status;
    } while (status == HTC_OK);
    cr_expect(eq(int, status, HTC_EFULL));
    cr_expect(n > 60 && n < 110);
    cr_expect(eq(int, get(&w, "k0"), HTC_OK));
    cr_expect(eq(int,
                 ask(&w, 0, (htc_kv_request){ .size = sizeof(htc_kv_request), .op = HTC_KV_PUT, .key = B("k0"), .value = { kb, 10 } }, NULL, 0).status,
                 HTC_OK));
    for (int i = 1; i < 10; i++) {
        snprintf(key, sizeof key, "k%d", i);
        cr_expect(eq(int, ask(&w, 0, (htc_kv_request){ .size = sizeof(htc_kv_request), .op = HTC_KV_DELETE, .key = B(key) }, NULL, 0).status, HTC_OK));
    }
    cr_expect(eq(
        int, ask(&w, 0, (htc_kv_request){ .size = sizeof(htc_kv_request), .op = HTC_KV_PUT, .key = B("new"), .value = { kb, 1024 } }, NULL, 0).status,
        HTC_OK));
    free(kb);
    world_close(&w);
}

/* Wrong requests are refused at the client's door; strangers' bytes close the connection and change nothing. */
Test(kvs, garbage_is_answered_with_an_error_and_closed)
{
    world w;
    world_open(&w, 10, 1, calm);
    char                 long_key[HTC_KV_KEY_MAX + 1] = { 0 };
    const htc_kv_request wrong[] = {
        { .size = sizeof(htc_kv_request), .op = 0, .key = B("k") },
        { .size = sizeof(htc_kv_request), .op = 99, .key = B("k") },
        { .size = sizeof(htc_kv_request), .op = HTC_KV_GET },
        { .size = sizeof(htc_kv_request), .op = HTC_KV_GET, .key = { long_key, sizeof long_key } },
        { .size = sizeof(htc_kv_request), .op = HTC_KV_PUT, .key = B("k"), .value = { long_key, HTC_KV_VALUE_MAX + 1 } },
        { .size = sizeof(htc_kv_request), .op = HTC_KV_SCAN, .limit = 10001 },
        { .size = sizeof(htc_kv_request), .op = HTC_KV_LEASE_GRANT },
        { .size = sizeof(htc_kv_request), .op = HTC_KV_LEASE_RENEW },
    };
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++)
        cr_expect(eq(int, htc_kv_client_submit(w.client[0], 0, &wrong[i], 1, 1, w.out), HTC_EINVAL), "%zu", i);
    cr_expect(eq(sz, htc_kv_client_pending(w.client[0]), 0));

    const char *const garbage[] = { "", "x", "GET / HTTP/1.1\r\n\r\n" };
    for (uint32_t i = 0; i < 3; i++) {
        htc_input in = { .size = sizeof in, .kind = HTC_IN_OPENED, .peer = 50 + i };
        cr_assert(eq(int, htc_kv_server_ops()->step(w.server, &in, w.out), HTC_OK));
        in = (htc_input){ .size = sizeof(htc_input), .kind = HTC_IN_MESSAGE, .peer = 50 + i, .body = B(garbage[i]) };
        cr_assert(eq(int, htc_kv_server_ops()->step(w.server, &in, w.out), HTC_OK));
        htc_effect e;
        cr_assert(eq(sz, htc_output_count(w.out), 2));
        htc_output_get(w.out, 0, &e);
        uint16_t type;
        uint64_t id;
        htc_wire_open(e.body, &type, &id);
        cr_expect(eq(u16, type, HTC_WIRE_ERROR));
        htc_output_get(w.out, 1, &e);
        cr_expect(eq(u32, e.kind, HTC_OUT_CLOSE));
        cr_expect(eq(u32, e.peer, 50 + i));
        htc_output_clear(w.out);
    }
    world_close(&w);
}

/* After a failed sync nobody knows what is stored: the server says so and answers nothing more. */
Test(kvs, a_failed_sync_stops_the_server)
{
    world w;
    world_open(&w, 11, 1, calm);
    ask(&w, 0, (htc_kv_request){ .size = sizeof(htc_kv_request), .op = HTC_KV_PUT, .key = B("a"), .value = B("1") }, NULL, 0);
    htc_kv_request q = { .size = sizeof q, .op = HTC_KV_PUT, .key = B("a"), .value = B("2") };
    htc_kv_client_submit(w.client[0], w.now, &q, 1, 1, w.out);
    carry_out(&w, 0);
    w.commit_status = HTC_EIO;
    for (int i = 0; i < 50 && w.stopped == HTC_AGAIN; i++)
        turn(&w);
    cr_expect(eq(int, w.stopped, HTC_EIO));
    htc_kv_result r = { .size = sizeof r };
    cr_expect(eq(int, htc_kv_client_next(w.client[0], &r), 0));
    world_close(&w);
}

/* A record that was damaged is refused, the others are served. */
Test(kvs, a_flipped_bit_is_never_served)
{
    world w;
    char  batch[512], key[8];
    world_open(&w, 12, 1, calm);
    for (int i = 0; i < 4; i++) {
        snprintf(key, sizeof key, "a%d", i);
        ask(&w, 0, (htc_kv_request){ .size = sizeof(htc_kv_request), .op = HTC_KV_PUT, .key = B(key), .value = B("value") }, NULL, 0);
    }
    htc_bytes stored;
    cr_assert(eq(int, w.engine.ops->get(w.engine.ctx, B("ka1"), &stored), HTC_OK));
    for (size_t bit = 0; bit < stored.len * 8; bit++) {
        memcpy(batch, stored.data, stored.len);
        batch[bit / 8] ^= (char)(1 << bit % 8);
        htc_bytes payload;
        cr_assert(eq(int, htc__kv_unseal((htc_bytes){ batch, stored.len }, B("ka1"), &payload), HTC_ECORRUPT));
    }
    htc_bytes payload;
    cr_expect(eq(int, htc__kv_unseal(stored, B("ka2"), &payload), HTC_ECORRUPT), "of another key");
    htc_buf b;
    htc_buf_init(&b, NULL, 0);
    htc__kv_batch_put(&b, B("ka1"), (htc_bytes){ batch, stored.len });
    cr_assert(eq(int, w.engine.ops->apply(w.engine.ctx, htc_buf_bytes(&b)), HTC_OK));
    cr_expect(eq(int, get(&w, "a1"), HTC_ECORRUPT));
    cr_expect(eq(int, get(&w, "a2"), HTC_OK));
    htc_kv_result r = ask(&w, 0, (htc_kv_request){ .size = sizeof(htc_kv_request), .op = HTC_KV_SCAN, .key = B("a") }, NULL, 0);
    cr_expect(eq(int, r.status, HTC_ECORRUPT));
    cr_expect(eq(u32, r.items, 3));
    htc_buf_free(&b);
    world_close(&w);
}

/* Overwrite what the engine has under that name with bytes that no seal fits. */
static void damage(world *w, htc_bytes name)
{
    htc_buf b;
    htc_buf_init(&b, NULL, 0);
    htc__kv_batch_put(&b, name, B("what was here is lost"));
    cr_assert(eq(int, w->engine.ops->apply(w->engine.ctx, htc_buf_bytes(&b)), HTC_OK));
    htc_buf_free(&b);
}

/* Nobody knows whether a lease whose record is damaged had ended: its keys are refused, neither shown nor said to be gone, until it can be no
 * more. All else is served. */
Test(kvs, keys_of_a_damaged_lease_are_refused_until_it_ends)
{
    for (int revoke = 0; revoke < 2; revoke++) {
        world    w;
        world_open(&w, 18, 1, calm);
        uint64_t lease = ask(&w, 0, (htc_kv_request){ .size = sizeof(htc_kv_request), .op = HTC_KV_LEASE_GRANT, .ttl = HTC_SECOND }, NULL, 0).lease;
        ask(&w, 0, (htc_kv_request){ .size = sizeof(htc_kv_request), .op = HTC_KV_PUT, .key = B("a"), .value = B("x"), .lease = lease }, NULL, 0);
        ask(&w, 0, (htc_kv_request){ .size = sizeof(htc_kv_request), .op = HTC_KV_PUT, .key = B("b"), .value = B("x") }, NULL, 0);
        htc__kv_name name = htc__kv_name_of('l', &lease, (htc_bytes){ NULL, 0 });
        damage(&w, htc__kv_name_bytes(&name));
        server_kill(&w);
        server_start(&w);
        cr_expect(eq(int, get(&w, "a"), HTC_ECORRUPT));
        cr_expect(eq(int, get(&w, "b"), HTC_OK));
        htc_kv_request renew = { .size = sizeof renew, .op = HTC_KV_LEASE_RENEW, .lease = lease }, end = { .size = sizeof(htc_kv_request), .op = HTC_KV_LEASE_REVOKE, .lease = lease };
        cr_expect(eq(int, ask(&w, 0, renew, NULL, 0).status, HTC_ECORRUPT));
        pass(&w, 3 * HTC_SECOND);
        cr_expect(eq(int, get(&w, "a"), HTC_ECORRUPT), "not at an end that it may not have had");
        if (revoke)
            cr_expect(eq(int, ask(&w, 0, end, NULL, 0).status, HTC_OK));
        else
            pass(&w, 3600 * HTC_SECOND);
        cr_expect(eq(int, get(&w, "a"), HTC_ENOTFOUND));
        cr_expect(eq(int, ask(&w, 0, renew, NULL, 0).status, HTC_ENOTFOUND));
        world_close(&w);
    }
}

/* Nothing is connected, or nobody answers: requests end when their time is over, those that wait for others too. */
Test(kvs, requests_end_at_their_time)
{
    htc_rng               rng = { 1 };
    htc_env               env = { .size = sizeof env, .rng = &rng };
    htc_output           *out;
    htc_kv_result         r = { .size = sizeof r };
    htc_kv_client        *c;
    htc_kv_client_options o = {
        .size = sizeof o, .client_id = 1, .peer = PEER, .timeout_ns = HTC_SECOND, .inflight_max = 3
    };
    htc_kv_request q = { .size = sizeof q, .op = HTC_KV_PUT, .key = B("a") };
    cr_assert(eq(int, htc_output_create(&env, 0, &out), HTC_OK));
    cr_assert(eq(int, htc_kv_client_create(&env, &o, &c), HTC_OK));
    cr_expect(eq(u64, htc_kv_client_deadline(c), HTC_NEVER));
    for (uint64_t i = 0; i < 3; i++)
        cr_assert(eq(int, htc_kv_client_submit(c, i, &q, 1, i, out), HTC_OK));
    cr_expect(eq(int, htc_kv_client_submit(c, 3, &q, 1, 3, out), HTC_EFULL));
    cr_expect(eq(u64, htc_kv_client_deadline(c), HTC_SECOND));
    htc_input in = { .size = sizeof in, .kind = HTC_IN_TIMEOUT, .now = HTC_SECOND + 2 };
    cr_assert(eq(int, htc_kv_client_step(c, &in, out), HTC_OK));
    for (uint64_t i = 0; i < 3; i++) {
        cr_assert(eq(int, htc_kv_client_next(c, &r), 1));
        cr_expect(eq(int, r.status, HTC_ETIMEDOUT));
        cr_expect(eq(u64, r.tag, i));
        cr_expect(eq(u32, r.last, 1));
    }
    cr_expect(eq(int, htc_kv_client_next(c, &r), 0));
    cr_expect(eq(sz, htc_kv_client_pending(c), 0));
    cr_expect(eq(u64, htc_kv_client_deadline(c), HTC_NEVER));
    htc_kv_client_destroy(c);
    htc_output_destroy(out);
}

/* ---------------------------------------------------------------- memory */

/* The scenario with every allocation refused in turn. A step that runs out of memory ends its machine, as
 * htcsched/machine.h says; what was committed is there for the next one; a submit that is refused changes nothing. */
static htc_status scenario(const htc_env *env, const htc_kv_engine *engine, uint64_t *promised)
{
    htc_kv_server        *server = NULL;
    htc_kv_client        *client = NULL;
    htc_output           *to_client = NULL, *to_server = NULL;
    htc_kv_server_options so = { .size = sizeof so, .engine = *engine };
    htc_kv_client_options co = { .size = sizeof co, .client_id = 9, .peer = PEER };
    htc_effect            e;
    htc_kv_result         r = { .size = sizeof r };
    htc_status            status = htc_kv_server_create(env, &so, &server);
    htc_kv_request        q[] = {
               { .size = sizeof(htc_kv_request), .op = HTC_KV_ADD, .key = B("n"), .delta = 1 },          { .size = sizeof(htc_kv_request), .op = HTC_KV_GET, .key = B("n") },
               { .size = sizeof(htc_kv_request), .op = HTC_KV_APPEND, .key = B("a"), .value = B("xy") }, { .size = sizeof(htc_kv_request), .op = HTC_KV_SCAN },
               { .size = sizeof(htc_kv_request), .op = HTC_KV_LEASE_GRANT, .ttl = HTC_SECOND },          { .size = sizeof(htc_kv_request), .op = HTC_KV_DELETE, .key = B("a") }
    };
    if (status == HTC_OK)
        status = htc_kv_client_create(env, &co, &client);
    if (status == HTC_OK)
        status = htc_output_create(env, 0, &to_client);
    if (status == HTC_OK)
        status = htc_output_create(env, 0, &to_server);
    if (status == HTC_OK)
        status = htc_kv_server_ops()->step(server, &(htc_input){ .size = sizeof(htc_input), .kind = HTC_IN_START }, to_client);
    if (status == HTC_OK)
        status = htc_kv_server_ops()->step(server, &(htc_input){ .size = sizeof(htc_input), .kind = HTC_IN_OPENED, .peer = 1 }, to_client);
    if (status == HTC_OK)
        status = htc_kv_client_step(client, &(htc_input){ .size = sizeof(htc_input), .kind = HTC_IN_OPENED, .peer = PEER }, to_server);
    for (uint64_t i = 0; status == HTC_OK && i < 6; i++)
        status = htc_kv_client_submit(client, 0, &q[i], i == 2 ? 4 : 1, i, to_server);
    for (int turns = 0; status == HTC_OK && turns < 40; turns++) {
        for (size_t i = 0; status == HTC_OK && i < htc_output_count(to_server); i++) {
            htc_output_get(to_server, i, &e);
            status = htc_kv_server_ops()->step(
                server, &(htc_input){ .size = sizeof(htc_input), .kind = HTC_IN_MESSAGE, .peer = 1, .body = e.body }, to_client);
        }
        htc_output_clear(to_server);
        for (size_t i = 0; status == HTC_OK && i < htc_output_count(to_client); i++) {
            htc_output_get(to_client, i, &e);
            if (e.kind == HTC_OUT_MESSAGE)
                status = htc_kv_client_step(
                    client, &(htc_input){ .size = sizeof(htc_input), .kind = HTC_IN_MESSAGE, .peer = PEER, .body = e.body }, to_server);
            else if (e.kind == HTC_OUT_COMMIT) {
                uint64_t   tag = e.tag;
                htc_status stored = engine->ops->apply(engine->ctx, e.body);
                cr_assert(stored == HTC_OK || stored == HTC_ENOMEM);
                status = htc_kv_server_ops()->step(
                    server, &(htc_input){ .size = sizeof(htc_input), .kind = HTC_IN_STORED, .tag = tag, .status = stored }, to_client);
            }
        }
        htc_output_clear(to_client);
        while (status == HTC_OK && htc_kv_client_next(client, &r))
            *promised += r.op == HTC_KV_ADD && r.status == HTC_OK;
    }
    htc_kv_server_destroy(server);
    htc_kv_client_destroy(client);
    htc_output_destroy(to_client);
    htc_output_destroy(to_server);
    return status;
}

Test(kvs, every_allocation_may_be_refused)
{
    ALLOC_FAIL_EVERY(f, 5000)
    {
        htc_rng       rng = { 3 };
        htc_env       env = alloc_fail_env(&f);
        htc_kv_engine engine;
        uint64_t      promised = 0;
        env.rng = &rng;
        if (htc_kv_memory_create(&env, &engine) != HTC_OK)
            continue;
        htc_status status = scenario(&env, &engine, &promised);
        cr_assert(status == HTC_OK || status == HTC_ENOMEM, "%s", htc_status_name(status));
        if (f.refused == 0)
            cr_assert(status == HTC_OK && promised == 1);
        /* What was promised is stored. */
        htc_bytes stored;
        if (promised)
            cr_assert(eq(int, engine.ops->get(engine.ctx, B("kn"), &stored), HTC_OK));
        engine.ops->destroy(engine.ctx);
        cr_assert(eq(sz, f.live, 0), "allocation %zu: leak", f.fail_at);
        cr_assert(eq(sz, f.wrong_sizes, 0));
    }
}

/* The table against a sorted array. */
Test(kvs, the_table_is_an_ordered_map)
{
    for (uint64_t seed = 1; seed <= 50; seed++) {
        htc_rng    rng = { seed };
        htc__table t;
        int        there[300] = { 0 };
        char       key[8];
        size_t     count = 0;
        htc__table_init(&t, NULL);
        for (int i = 0; i < 2000; i++) {
            int k = (int)htc_rng_below(&rng, 300), what = (int)htc_rng_below(&rng, 3);
            snprintf(key, sizeof key, "%03d", k);
            if (what < 2) {
                htc__node *node = htc__table_make(&t, B(key), sizeof i);
                memcpy(htc__node_value(node), &i, sizeof i);
                htc__table_link(&t, node);
                count += there[k] == 0;
                there[k] = i + 1;
            } else {
                cr_assert(eq(int, htc__table_remove(&t, B(key)), there[k] != 0));
                count -= there[k] != 0;
                there[k] = 0;
            }
            k = (int)htc_rng_below(&rng, 300);
            snprintf(key, sizeof key, "%03d", k);
            htc__node *found = htc__table_find(&t, B(key)), *next = htc__table_seek(&t, B(key));
            int        value = -1;
            if (found)
                memcpy(&value, htc__node_value(found), sizeof value);
            cr_assert(eq(int, value + 1, there[k]), "seed %lu", seed);
            while (k < 300 && !there[k])
                k++;
            snprintf(key, sizeof key, "%03d", k);
            cr_assert(k == 300 ? next == NULL : htc_bytes_equal(htc__node_key(next), B(key)), "seed %lu", seed);
            cr_assert(eq(sz, t.count, count));
        }
        htc__table_free(&t);
    }
}
