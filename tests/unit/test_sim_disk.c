/* The simulated disk: what htcsched/disk.h promises holds over thousands of power failures, and what it does not promise
 * happens. */
#include "alloc_fail.h"
#include "htcsched/sim_disk.h"
#include "sim_probe.h"

#define FILE_LEN 16384
#define TAGS     512

/* A machine that asks for what the test pushes at it, and writes down the answers. */
typedef struct client {
    htc_sim_node    *node;
    htc_sim_disk    *disk;
    htc_sim         *sim;
    htc_status       status[TAGS]; /* of the request with this tag; HTC_AGAIN: not answered */
    htc_buf          answer;       /* of the last read or list */
    uint64_t         tags, answered;
    htc_disk_request ask;
} client;

static htc_status step(void *self, const htc_input *in, htc_output *out)
{
    client *c = self;
    if (in->kind == HTC_IN_EVENT)
        return htc_output_add(
            out, &(htc_effect){ .kind = HTC_OUT_CALL, .op = in->op, .tag = (uint64_t)in->status, .body = in->body });
    if (in->kind == HTC_IN_RESULT) {
        cr_assert(c->status[in->tag % TAGS] == HTC_AGAIN, "answered twice");
        c->status[in->tag % TAGS] = in->status;
        c->answered++;
        htc_buf_clear(&c->answer);
        htc_put_raw(&c->answer, in->body);
    }
    return HTC_OK;
}

static htc_ns deadline(const void *self)
{
    (void)self;
    return HTC_NEVER;
}

static htc_status boot(void *ctx, htc_sim_node *node)
{
    static const htc_machine_ops ops = { sizeof ops, step, deadline, NULL, 0 };
    return htc_sim_install(node, &ops, ctx);
}

static htc_status call(void *ctx, htc_sim_node *node, const htc_effect *effect)
{
    return htc_sim_disk_call(((client *)ctx)->disk, node, effect);
}

static const htc_sim_host host = { .size = sizeof host, .boot = boot, .call = call };

static void client_open(client *c, const htc_env *env, uint64_t seed)
{
    *c = (client){ 0 };
    htc_buf_init(&c->answer, NULL, 0);
    cr_assert(htc_sim_create(env, &(htc_sim_options){ .size = sizeof(htc_sim_options), .seed = seed }, &c->sim) ==
              HTC_OK);
    cr_assert(htc_sim_disk_create(c->sim, NULL, &c->disk) == HTC_OK);
    htc_sim_add(c->sim,
                &(htc_sim_node_options){ .size = sizeof(htc_sim_node_options), .name = "n", .host = &host, .ctx = c },
                &c->node);
    htc_sim_boot(c->node);
    htc_sim_run(c->sim, HTC_MS);
}

static void client_close(client *c)
{
    htc_sim_destroy(c->sim);
    htc_sim_disk_destroy(c->disk);
    htc_buf_free(&c->answer);
}

/* Asks, and answers with the tag; the status comes later. */
static uint64_t ask(client *c, const htc_disk_request *q)
{
    static uint8_t room[70000];
    uint64_t       tag = c->tags++;
    size_t         n = htc_disk_encode(q, room, sizeof room);
    cr_assert(n > 0 && n <= sizeof room && tag < TAGS);
    c->status[tag] = HTC_AGAIN;
    htc_sim_event(c->node, 0, q->op, (htc_status)tag, (htc_bytes){ room, n });
    return tag;
}

static htc_status done(client *c, const htc_disk_request *q)
{
    uint64_t tag = ask(c, q);
    for (int i = 0; i < 100 && c->status[tag] == HTC_AGAIN; i++)
        htc_sim_run(c->sim, 10 * HTC_MS);
    cr_assert(c->status[tag] != HTC_AGAIN, "no answer");
    return c->status[tag];
}

static htc_bytes B(const char *s)
{
    return htc_bytes_of(s);
}

#define REQUEST(...) (&(htc_disk_request){ __VA_ARGS__ })

static htc_status make(client *c, const char *name)
{
    return done(c, REQUEST(.op = HTC_DISK_CREATE, .name = B(name), .length = FILE_LEN));
}

static htc_status put(client *c, const char *name, uint64_t offset, const char *text, uint32_t sync)
{
    return done(c, REQUEST(.op = HTC_DISK_WRITE, .name = B(name), .offset = offset, .data = B(text), .sync = sync));
}

static int holds(client *c, const char *name, uint64_t offset, const char *text)
{
    return done(c, REQUEST(.op = HTC_DISK_READ, .name = B(name), .offset = offset, .length = strlen(text))) == HTC_OK &&
           htc_bytes_equal(htc_buf_bytes(&c->answer), B(text));
}

static void cut_power(client *c)
{
    htc_sim_crash(c->node);
    htc_sim_disk_crash(c->disk, 1);
    htc_sim_boot(c->node);
    htc_sim_run(c->sim, HTC_MS);
}

Test(sim_disk, does_what_is_asked)
{
    client        c;
    htc_disk_file file;
    size_t        at = 0;
    client_open(&c, NULL, 1);
    cr_expect(make(&c, "b") == HTC_OK && make(&c, "a") == HTC_OK && make(&c, "a") == HTC_EEXISTS);
    cr_expect(put(&c, "a", 5, "hello", 0) == HTC_OK && holds(&c, "a", 5, "hello"));
    cr_expect(put(&c, "a", FILE_LEN - 2, "hello", 0) == HTC_EINVAL && put(&c, "none", 0, "x", 0) == HTC_ENOTFOUND);
    cr_expect(done(&c, REQUEST(.op = HTC_DISK_READ, .name = B("a"), .offset = FILE_LEN - 3, .length = 100)) == HTC_OK &&
              c.answer.len == 3);
    cr_expect(done(&c, REQUEST(.op = HTC_DISK_RENAME, .name = B("a"), .to = B("b"))) == HTC_OK &&
              holds(&c, "b", 5, "hello"));
    cr_expect(done(&c, REQUEST(.op = HTC_DISK_LIST)) == HTC_OK);
    cr_expect(htc_disk_file_next(htc_buf_bytes(&c.answer), &at, &file) == 1 && htc_bytes_equal(file.name, B("b")) &&
              file.length == FILE_LEN && htc_disk_file_next(htc_buf_bytes(&c.answer), &at, &file) == 0);
    cr_expect(done(&c, REQUEST(.op = HTC_DISK_REMOVE, .name = B("b"))) == HTC_OK &&
              done(&c, REQUEST(.op = HTC_DISK_SYNC, .name = B("b"))) == HTC_ENOTFOUND);
    client_close(&c);
}

Test(sim_disk, a_kill_loses_nothing_and_a_power_failure_what_was_not_synced)
{
    client             c;
    htc_sim_disk_stats stats;
    client_open(&c, NULL, 1);
    make(&c, "a");
    put(&c, "a", 0, "synced", 1);
    for (int i = 1; i < 30; i++)
        put(&c, "a", (uint64_t)i * 512, "not", 0);
    htc_sim_crash(c.node);
    htc_sim_disk_crash(c.disk, 0);
    htc_sim_boot(c.node);
    for (int i = 1; i < 30; i++)
        cr_expect(holds(&c, "a", (uint64_t)i * 512, "not"), "a kill leaves the page cache alone");
    cut_power(&c);
    int kept = 0;
    for (int i = 1; i < 30; i++)
        kept += holds(&c, "a", (uint64_t)i * 512, "not");
    htc_sim_disk_stats_get(c.disk, &stats);
    cr_expect(holds(&c, "a", 0, "synced") && kept < 29, "%d kept", kept);
    cr_expect(stats.sectors_lost > 0 && stats.sectors_torn > 0 &&
              stats.sectors_kept + stats.sectors_lost + stats.sectors_torn == 29);
    client_close(&c);
}

/* ---- the promise, against a slow model ---- */

#define SECTORS_ (FILE_LEN / HTC_DISK_SECTOR)

/* What a sector may hold after a power failure: any version from the one that is surely durable to the newest. Versions are
 * written as a counter that fills the sector; torn ones are none of them and allowed only where not all is synced. */
typedef struct model {
    uint32_t newest[SECTORS_]; /* asked for */
    uint32_t answered[SECTORS_];
    uint32_t durable[SECTORS_]; /* promised */
} model;

static void fill(uint8_t *sector, uint32_t version)
{
    for (size_t i = 0; i < HTC_DISK_SECTOR; i += sizeof version)
        memcpy(sector + i, &version, sizeof version);
}

static void check_sectors(client *c, model *m)
{
    for (unsigned s = 0; s < SECTORS_; s++) {
        uint8_t  sector[HTC_DISK_SECTOR], whole[HTC_DISK_SECTOR];
        uint32_t version;
        HOLDS(htc_sim_disk_peek(c->disk, B("f"), s * HTC_DISK_SECTOR, sector, sizeof sector) == HTC_OK);
        memcpy(&version, sector, sizeof version);
        fill(whole, version);
        if (m->durable[s] == m->newest[s])
            HOLDS(version == m->newest[s] && memcmp(sector, whole, sizeof whole) == 0);
        else if (memcmp(sector, whole, sizeof whole) == 0)
            HOLDS(version <= m->newest[s]);
        fill(sector, m->newest[s]); /* begin anew from something known */
    }
}

/* Writes, syncs and power failures at random. A version older than the durable one never comes back. */
Test(sim_disk, what_was_synced_is_there_and_nothing_else_is_promised)
{
    size_t torn = 0, old = 0, kept = 0;
    PROPERTY(rng, 1500)
    {
        client   c;
        model    m = { 0 };
        uint64_t tag[64], sync_tag = TAGS;
        uint32_t what[64], version = 0, at_sync[SECTORS_];
        unsigned n = 0;
        client_open(&c, NULL, rng.state);
        make(&c, "f");
        for (int turn = 0; turn < 30; turn++) {
            uint8_t  sector[HTC_DISK_SECTOR];
            unsigned s = (unsigned)htc_rng_below(&rng, 6), busy = 0;
            for (unsigned i = 0; i < n; i++) /* two writes of one sector at once have no order */
                busy |= c.status[tag[i]] == HTC_AGAIN && what[i] == s;
            if (!busy && htc_rng_below(&rng, 3)) {
                fill(sector, ++version);
                m.newest[s] = version;
                what[n] = s;
                tag[n++] = ask(&c, REQUEST(.op = HTC_DISK_WRITE, .name = B("f"), .offset = s * HTC_DISK_SECTOR,
                                           .data = { sector, sizeof sector }));
            } else if (sync_tag == TAGS) {
                memcpy(at_sync, m.answered, sizeof at_sync);
                sync_tag = ask(&c, REQUEST(.op = HTC_DISK_SYNC, .name = B("f")));
            }
            htc_sim_run(c.sim, htc_rng_below(&rng, HTC_MS));
            for (unsigned i = 0; i < n; i++)
                if (what[i] < SECTORS_ && c.status[tag[i]] == HTC_OK) {
                    m.answered[what[i]] = m.newest[what[i]];
                    what[i] = SECTORS_;
                }
            if (sync_tag < TAGS && c.status[sync_tag] == HTC_OK) {
                for (unsigned i = 0; i < SECTORS_; i++)
                    m.durable[i] = at_sync[i] > m.durable[i] ? at_sync[i] : m.durable[i];
                sync_tag = TAGS;
            }
        }
        htc_sim_crash(c.node);
        htc_sim_disk_crash(c.disk, 1);
        check_sectors(&c, &m);
        for (unsigned s = 0; s < 6; s++) {
            uint8_t  sector[HTC_DISK_SECTOR], whole[HTC_DISK_SECTOR];
            uint32_t got;
            htc_sim_disk_peek(c.disk, B("f"), s * HTC_DISK_SECTOR, sector, sizeof sector);
            memcpy(&got, sector, sizeof got);
            fill(whole, got);
            int is_whole = memcmp(sector, whole, sizeof whole) == 0;
            if (is_whole)
                HOLDS(got >= m.durable[s]);
            torn += !is_whole;
            old += is_whole && got < m.newest[s];
            kept += is_whole && got == m.newest[s];
        }
        client_close(&c);
    }
    cr_expect(torn > 100 && old > 100 && kept > 100, "torn %zu, old %zu, kept %zu", torn, old, kept);
}

/* Names outlive a power failure once they are answered; a request on its way is done or not. */
Test(sim_disk, directory_entries_last_when_answered)
{
    size_t there = 0, away = 0, all = property_behind(500, 0) - property_first();
    PROPERTY_ALL(rng, 500)
    {
        client  c;
        uint8_t byte;
        client_open(&c, NULL, rng.state);
        HOLDS(make(&c, "a") == HTC_OK && put(&c, "a", 0, "x", 1) == HTC_OK);
        HOLDS(done(&c, REQUEST(.op = HTC_DISK_RENAME, .name = B("a"), .to = B("b"))) == HTC_OK);
        ask(&c, REQUEST(.op = HTC_DISK_CREATE, .name = B("c"), .length = FILE_LEN));
        ask(&c, REQUEST(.op = HTC_DISK_REMOVE, .name = B("b")));
        htc_sim_run(c.sim, 50 * HTC_US);
        HOLDS(c.status[c.tags - 1] == HTC_AGAIN);
        htc_sim_crash(c.node);
        htc_sim_disk_crash(c.disk, 1);
        HOLDS(htc_sim_disk_peek(c.disk, B("a"), 0, &byte, 1) == HTC_ENOTFOUND);
        htc_status b = htc_sim_disk_peek(c.disk, B("b"), 0, &byte, 1);
        HOLDS(b == HTC_ENOTFOUND || byte == 'x');
        away += b == HTC_ENOTFOUND;
        there += htc_sim_disk_peek(c.disk, B("c"), 0, &byte, 1) == HTC_OK;
        client_close(&c);
    }
    cr_expect(getenv("HTC_TEST_SEED") || (there > all * 3 / 10 && there < all * 7 / 10 && away > all * 3 / 10 && away < all * 7 / 10), "made %zu, removed %zu of %zu", there,
              away, all);
}

/* ---- each fault ---- */

static void set(client *c, htc_sim_disk_faults f)
{
    f.size = sizeof f;
    cr_assert(htc_sim_disk_set_faults(c->disk, &f) == HTC_OK);
}

Test(sim_disk, requests_fail_as_often_as_they_are_to)
{
    client c;
    int    reads = 0, writes = 0;
    client_open(&c, NULL, 3);
    make(&c, "a");
    set(&c, (htc_sim_disk_faults){ .read_eio_ppm = 500000, .write_eio_ppm = 500000 });
    for (int i = 0; i < 40; i++) {
        writes += put(&c, "a", 0, "data", 0) == HTC_EIO;
        reads += done(&c, REQUEST(.op = HTC_DISK_READ, .name = B("a"), .length = 4)) == HTC_EIO;
    }
    cr_expect(reads > 5 && reads < 35 && writes > 5 && writes < 35, "%d and %d of 40", reads, writes);
    htc_sim_disk_set_faults(c.disk, NULL);
    cr_expect(put(&c, "a", 0, "data", 1) == HTC_OK && holds(&c, "a", 0, "data"), "a failed write is no failed sync");
    client_close(&c);
}

Test(sim_disk, a_failed_sync_ends_all_changes_or_lies)
{
    client c;
    client_open(&c, NULL, 3);
    make(&c, "a");
    put(&c, "a", 0, "one", 0);
    set(&c, (htc_sim_disk_faults){ .sync_eio_ppm = 1000000 });
    cr_expect(done(&c, REQUEST(.op = HTC_DISK_SYNC, .name = B("a"))) == HTC_EIO);
    htc_sim_disk_set_faults(c.disk, NULL);
    cr_expect(put(&c, "a", 512, "two", 0) == HTC_EIO &&
              done(&c, REQUEST(.op = HTC_DISK_SYNC, .name = B("a"))) == HTC_EIO);
    cr_expect(holds(&c, "a", 0, "one"), "it looks clean");
    cut_power(&c);
    cr_expect(!holds(&c, "a", 0, "one") && put(&c, "a", 0, "one", 1) == HTC_OK, "a new start may write again");
    /* as file systems do: the next sync says all is well, and it is not */
    put(&c, "a", 1024, "lie", 0);
    set(&c, (htc_sim_disk_faults){ .sync_eio_ppm = 1000000, .sync_lies = 1 });
    cr_expect(done(&c, REQUEST(.op = HTC_DISK_SYNC, .name = B("a"))) == HTC_EIO);
    set(&c, (htc_sim_disk_faults){ .sync_lies = 1 });
    cr_expect(done(&c, REQUEST(.op = HTC_DISK_SYNC, .name = B("a"))) == HTC_OK && holds(&c, "a", 1024, "lie"));
    cut_power(&c);
    cr_expect(!holds(&c, "a", 1024, "lie") && holds(&c, "a", 0, "one"));
    client_close(&c);
}

Test(sim_disk, lasting_damage_is_only_where_it_is_allowed)
{
    client             c;
    htc_sim_disk_stats stats;
    char               text[513];
    memset(text, 'x', 512);
    text[512] = '\0';
    client_open(&c, NULL, 3);
    make(&c, "a");
    for (int i = 0; i < 20; i++)
        cr_expect(put(&c, "a", 0, text, 1) == HTC_OK && holds(&c, "a", 0, text));
    htc_sim_disk_stats_get(c.disk, &stats);
    cr_expect(stats.flipped == 0 && stats.lost == 0 && stats.misdirected == 0 && stats.eio == 0 && stats.writes == 20);
    set(&c, (htc_sim_disk_faults){ .flip_ppm = 1000000 });
    put(&c, "a", 0, text, 1);
    cr_expect(!holds(&c, "a", 0, text));
    set(&c, (htc_sim_disk_faults){ .lose_ppm = 1000000 });
    put(&c, "a", 512, text, 1);
    cr_expect(holds(&c, "a", 512, text), "seen until the power fails");
    set(&c, (htc_sim_disk_faults){ .misdirect_ppm = 1000000 });
    put(&c, "a", 2048, text, 1);
    cr_expect(!holds(&c, "a", 2048, text));
    htc_sim_disk_set_faults(c.disk, NULL);
    cut_power(&c);
    cr_expect(!holds(&c, "a", 512, text), "lost, though synced");
    htc_sim_disk_stats_get(c.disk, &stats);
    cr_expect(stats.flipped == 1 && stats.lost == 1 && stats.misdirected == 1);
    put(&c, "a", 4096, "y", 1);
    htc_sim_disk_flip(c.disk, B("a"), 4096, 1);
    cr_expect(holds(&c, "a", 4096, "x"));
    client_close(&c);
}

Test(sim_disk, full_slow_and_wiped)
{
    client c;
    client_open(&c, NULL, 3);
    make(&c, "a");
    htc_sim_disk_full(c.disk, HTC_SECOND);
    cr_expect(put(&c, "a", 0, "x", 0) == HTC_ENOSPC && make(&c, "b") == HTC_ENOSPC);
    htc_sim_run(c.sim, HTC_SECOND);
    cr_expect(put(&c, "a", 0, "x", 1) == HTC_OK);
    htc_sim_disk_full(c.disk, HTC_NEVER);
    htc_sim_run(c.sim, 3600 * HTC_SECOND);
    cr_expect(eq(int, put(&c, "a", 0, "x", 0), HTC_ENOSPC));
    htc_sim_disk_full(c.disk, 0);
    cr_expect(eq(int, put(&c, "a", 0, "x", 1), HTC_OK));
    cr_expect(done(&c, REQUEST(.op = HTC_DISK_CREATE, .name = B("big"), .length = HTC_DISK_FILE_MAX)) == HTC_ENOSPC,
              "no room");
    set(&c, (htc_sim_disk_faults){ .slow_ppm = 1000000, .slow_ns = 900 * HTC_MS });
    htc_ns before = htc_sim_now(c.sim);
    for (int i = 0; i < 5; i++)
        put(&c, "a", 0, "x", 0);
    cr_expect(htc_sim_now(c.sim) - before > HTC_SECOND);
    htc_sim_crash(c.node);
    htc_sim_disk_crash(c.disk, 0);
    htc_sim_disk_wipe(c.disk);
    htc_sim_boot(c.node);
    cr_expect(done(&c, REQUEST(.op = HTC_DISK_LIST)) == HTC_OK && c.answer.len == 0);
    client_close(&c);
}

Test(sim_disk, refused_memory_is_an_error_and_nothing_leaks)
{
    ALLOC_FAIL_EVERY(f, 1000)
    {
        htc_env       env = alloc_fail_env(&f);
        htc_sim      *sim = NULL;
        htc_sim_disk *disk = NULL;
        client        c = { 0 };
        htc_sim_create(&env, NULL, &sim);
        htc_buf_init(&c.answer, NULL, 0);
        if (sim && htc_sim_disk_create(sim, NULL, &disk) == HTC_OK) {
            uint8_t room[1024];
            c.disk = disk;
            htc_sim_add(
                sim,
                &(htc_sim_node_options){ .size = sizeof(htc_sim_node_options), .name = "n", .host = &host, .ctx = &c },
                &c.node);
            htc_sim_boot(c.node);
            for (uint32_t i = 0; i < 3; i++) {
                htc_disk_request q = { .op = i ? HTC_DISK_WRITE : HTC_DISK_CREATE,
                                       .name = B("f"),
                                       .length = i ? 0 : 9000,
                                       .offset = i * 4000,
                                       .data = B(i ? "text" : "") };
                size_t           n = htc_disk_encode(&q, room, sizeof room);
                c.status[i] = HTC_AGAIN;
                htc_sim_event(c.node, 0, q.op, (htc_status)i, (htc_bytes){ room, n });
                htc_sim_run(sim, 10 * HTC_MS);
            }
            if (c.node)
                htc_sim_crash(c.node);
            htc_sim_disk_crash(disk, 1);
            cr_assert(htc_sim_status(sim) == (f.refused ? HTC_ENOMEM : HTC_OK), "refusal %zu", f.fail_at);
        }
        htc_sim_destroy(sim);
        htc_sim_disk_destroy(disk);
        htc_buf_free(&c.answer);
        cr_assert(f.live == 0 && f.wrong_sizes == 0, "refusal %zu: %zu pieces are left", f.fail_at, f.live);
    }
}
