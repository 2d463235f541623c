/* A server with a log over a disk in memory: what was acknowledged is there after a power cut and after a kill, nothing that was refused
 * is, changes that find no room in a batch wait in their order, and a full disk refuses changes while reads go on. */
#include "expect.h"
#include <stdio.h>
#include <string.h>

#include "alloc_fail.h"
#include "htcsched/kv_server.h"
#include "htcsched/kv_store.h"
#include "core/codec.h"
#include "core/wire.h"
#include "log_disk.h"
#include "openmetrics.h"
#include "property.h"

#define KEYS  12
#define BURST 40
#define PEER  1

#define RESP_PORT 7

/* What a key may hold: after a crash one of several. */
typedef struct kept {
    uint8_t *data; /* NULL: absent */
    size_t   len;
} kept;

typedef struct change {
    int      key, answered;
    uint32_t op;
    kept     value;
} change;

typedef struct rig {
    htc_rng        rng;
    htc_env        env;
    log_disk       disk;
    uint32_t       durability;
    uint64_t       segment;
    htc_kv_server *server;
    htc_kv_client *client;
    htc_output    *to_server, *to_client;
    htc_ns         now;
    htc_status     stopped; /* HTC_AGAIN: runs */
    int            ready;
    size_t         refused, problems;
    size_t         cuts, torn_supers; /* the power went; which may have torn the superblock that was being written */
    uint64_t       self; /* not 0: of several members, though it is the only one */
    const char    *boot;
    uint64_t       big; /* one of so many values is a large one */
    kept           keys[KEYS];
} rig;

static const char *name(int key)
{
    static char text[8];
    snprintf(text, sizeof text, "k%d", key);
    return text;
}

static void on_problem(void *ctx, htc_status status, const char *file, uint64_t offset, const char *text)
{
    rig *r = ctx;
    (void)status, (void)offset, (void)text;
    if (strncmp(file, "super.", 6) == 0 && r->torn_supers < r->cuts)
        r->torn_supers++;
    else
        r->problems++;
}

/* Effects of the server: the disk's requests are kept, the rest is carried out. */
static void server_input(rig *r, htc_input in)
{
    htc_effect e;
    in.now = in.wall = r->now;
    if (r->stopped != HTC_AGAIN)
        return;
    htc_status status = htc_kv_server_ops()->step(r->server, &in, r->to_client);
    HOLDS(status == HTC_OK);
    for (size_t i = 0; htc_output_get(r->to_client, i, &e) == HTC_OK; i++) {
        if (e.kind == HTC_OUT_CALL && e.op == HTC_KV_SERVER_READY) {
            r->ready = 1;
        } else if (e.kind == HTC_OUT_CALL) {
            log_disk_request *w = &r->disk.waiting[r->disk.waiting_count++];
            cr_assert(r->disk.waiting_count <= LOG_DISK_WAITING);
            *w = (log_disk_request){ e.op, e.tag, malloc(e.body.len), e.body.len };
            memcpy(w->body, e.body.data, e.body.len);
        } else if (e.kind == HTC_OUT_STOP) {
            r->stopped = e.status;
        } else if (e.kind == HTC_OUT_MESSAGE) {
            htc_input to = { .size = sizeof to, .kind = HTC_IN_MESSAGE, .now = r->now, .peer = PEER, .body = e.body };
            cr_assert(eq(int, htc_kv_client_step(r->client, &to, r->to_server), HTC_OK));
        }
    }
    htc_output_clear(r->to_client);
}

static void answer_at(rig *r, size_t which)
{
    log_disk_request w = log_disk_pick(&r->disk, which);
    htc_status       status = log_disk_do(&r->disk, (htc_bytes){ w.body, w.len });
    uint8_t         *body = malloc(r->disk.answer_len + 1);
    size_t           len = status == HTC_OK ? r->disk.answer_len : 0;
    if (len)
        memcpy(body, r->disk.answer, len);
    server_input(r, (htc_input){ .size = sizeof(htc_input), .kind = HTC_IN_RESULT, .op = w.op, .tag = w.tag, .status = status, .body = { body, len } });
    free(body);
    free(w.body);
}

static void answer_one(rig *r)
{
    answer_at(r, htc_rng_below(&r->rng, r->disk.waiting_count));
}

static void deliver(rig *r)
{
    htc_effect  e;
    htc_output *mine = r->to_server;
    cr_assert(eq(int, htc_output_create(NULL, 0, &r->to_server), HTC_OK));
    for (size_t i = 0; htc_output_get(mine, i, &e) == HTC_OK; i++)
        if (e.kind == HTC_OUT_MESSAGE)
            server_input(r, (htc_input){ .size = sizeof(htc_input), .kind = HTC_IN_MESSAGE, .peer = PEER, .body = e.body });
    htc_output_destroy(mine);
}

/* Something that can happen now: a message arrives, the disk answers, time passes. */
static void happen(rig *r)
{
    int messages = htc_output_count(r->to_server) > 0;
    if (messages && (!r->disk.waiting_count || htc_rng_below(&r->rng, 2))) {
        deliver(r);
    } else if (r->disk.waiting_count) {
        answer_one(r);
    } else {
        htc_ns at = htc_kv_server_ops()->deadline(r->server);
        r->now = at == HTC_NEVER || at > r->now + 10 * HTC_MS ? r->now + 10 * HTC_MS : at > r->now ? at : r->now + 1;
        server_input(r, (htc_input){ .size = sizeof(htc_input), .kind = HTC_IN_TIMEOUT });
        htc_input tick = { .size = sizeof tick, .kind = HTC_IN_TIMEOUT, .now = r->now };
        cr_assert(eq(int, htc_kv_client_step(r->client, &tick, r->to_server), HTC_OK));
    }
}

static void start(rig *r)
{
    htc_kv_member         self = { .id = r->self };
    htc_kv_server_options so = { .size = sizeof so,
                                 .self = r->self,
                                 .members = &self,
                                 .member_count = r->self != 0,
                                 .log_durability = r->durability,
                                 .log_interval_ns = 20 * HTC_MS,
                                 .log_segment_bytes = r->segment,
                                 .log_boot = htc_bytes_of(r->boot),
                                 .resp_port = RESP_PORT,
                                 .log_problem = on_problem,
                                 .log_problem_ctx = r };
    htc_kv_client_options co = { .size = sizeof co, .client_id = htc_rng_next(&r->rng), .peer = PEER };
    r->stopped = HTC_AGAIN;
    r->ready = 0;
    cr_assert(eq(int, htc_kv_server_create(&r->env, &so, &r->server), HTC_OK));
    cr_assert(eq(int, htc_kv_client_create(&r->env, &co, &r->client), HTC_OK));
    htc_output_clear(r->to_server);
    server_input(r, (htc_input){ .size = sizeof(htc_input), .kind = HTC_IN_START });
    while (!r->ready && r->stopped == HTC_AGAIN && r->disk.waiting_count)
        answer_one(r);
    if (r->stopped != HTC_AGAIN)
        return;
    HOLDS(r->ready || !r->durability);
    server_input(r, (htc_input){ .size = sizeof(htc_input), .kind = HTC_IN_OPENED, .peer = PEER });
    htc_input opened = { .size = sizeof opened, .kind = HTC_IN_OPENED, .now = r->now, .peer = PEER };
    cr_assert(eq(int, htc_kv_client_step(r->client, &opened, r->to_server), HTC_OK));
}

static void end(rig *r)
{
    htc_kv_client_destroy(r->client);
    htc_kv_server_destroy(r->server);
}

static void rig_init(rig *r, uint64_t seed, uint32_t durability, uint64_t segment)
{
    memset(r, 0, sizeof *r);
    r->rng = (htc_rng){ seed };
    r->env = (htc_env){ .size = sizeof r->env, .rng = &r->rng };
    r->disk.room = 64 << 20;
    r->big = 20;
    r->durability = durability;
    r->boot = "this start";
    r->segment = segment;
    r->now = HTC_SECOND;
    cr_assert(eq(int, htc_output_create(NULL, 0, &r->to_server), HTC_OK));
    cr_assert(eq(int, htc_output_create(NULL, 0, &r->to_client), HTC_OK));
}

static void rig_free(rig *r)
{
    end(r);
    log_disk_free(&r->disk);
    htc_output_destroy(r->to_server);
    htc_output_destroy(r->to_client);
    for (int i = 0; i < KEYS; i++)
        free(r->keys[i].data);
}

/* ---------------------------------------------------------------- the model */

static kept copy_of(const kept *k)
{
    kept to = { k->data ? malloc(k->len + 1) : NULL, k->len };
    if (k->data)
        memcpy(to.data, k->data, k->len);
    return to;
}

static void apply(kept *k, const change *c)
{
    size_t before = c->op == HTC_KV_APPEND && k->data ? k->len : 0;
    if (c->op == HTC_KV_DELETE) {
        free(k->data);
        *k = (kept){ NULL, 0 };
        return;
    }
    k->data = realloc(k->data, before + c->value.len + 1);
    memcpy(k->data + before, c->value.data, c->value.len);
    k->len = before + c->value.len;
}

static int same(const kept *k, const htc_kv_result *got)
{
    if (!k->data)
        return got->status == HTC_ENOTFOUND;
    return got->status == HTC_OK && got->value.len == k->len && memcmp(got->value.data, k->data, k->len) == 0;
}

static htc_kv_result ask(rig *r, htc_kv_request q)
{
    htc_kv_result got = { .size = sizeof got, .status = HTC_EINTERNAL };
    cr_assert(eq(int, htc_kv_client_submit(r->client, r->now, &q, 1, 0, r->to_server), HTC_OK));
    for (int i = 0; !htc_kv_client_next(r->client, &got); i++) {
        HOLDS(i < 100000 && r->stopped == HTC_AGAIN);
        happen(r);
    }
    return got;
}

static void check_keys(rig *r)
{
    for (int i = 0; i < KEYS; i++) {
        htc_kv_result got = ask(r, (htc_kv_request){ .size = sizeof(htc_kv_request), .op = HTC_KV_GET, .key = htc_bytes_of(name(i)) });
        HOLDS(same(&r->keys[i], &got));
    }
    size_t there = 0;
    for (int i = 0; i < KEYS; i++)
        there += r->keys[i].data != NULL;
    htc_kv_result got = ask(r, (htc_kv_request){ .size = sizeof(htc_kv_request), .op = HTC_KV_COUNT });
    HOLDS(got.status == HTC_OK && got.number == (int64_t)there);
}

static change draw(rig *r)
{
    static const uint32_t ops[] = { HTC_KV_PUT, HTC_KV_PUT, HTC_KV_APPEND, HTC_KV_DELETE };
    change                c = { .key = (int)htc_rng_below(&r->rng, KEYS), .op = ops[htc_rng_below(&r->rng, 4)] };
    int                   small = c.op == HTC_KV_APPEND || htc_rng_below(&r->rng, r->big);
    c.value.len = htc_rng_below(&r->rng, small ? 200 : r->segment / 3);
    c.value.data = malloc(c.value.len + 1);
    for (size_t i = 0; i < c.value.len; i++)
        c.value.data[i] = (uint8_t)htc_rng_next(&r->rng);
    return c;
}

/* After a crash each key holds what its acknowledged changes made, or any number of the later ones besides. */
static void resolve(rig *r, const change *changes, int n)
{
    for (int key = 0; key < KEYS; key++) {
        htc_kv_result got = ask(r, (htc_kv_request){ .size = sizeof(htc_kv_request), .op = HTC_KV_GET, .key = htc_bytes_of(name(key)) });
        kept          now = copy_of(&r->keys[key]);
        int           last = -1, found = -1;
        for (int i = 0; i < n; i++)
            if (changes[i].key == key && changes[i].answered)
                last = i;
        for (int i = -1; i < n; i++) {
            if (i >= 0 && changes[i].key != key)
                continue;
            if (i >= 0)
                apply(&now, &changes[i]);
            if (i >= last && found < 0 && same(&now, &got)) {
                found = 1;
                free(r->keys[key].data);
                r->keys[key] = copy_of(&now);
            }
        }
        free(now.data);
        HOLDS(found == 1);
    }
}

/* Many changes at once; in crash of a hundred cases everything stops before all are answered. */
static void burst(rig *r, unsigned crash)
{
    change changes[BURST];
    int    n = 1 + (int)htc_rng_below(&r->rng, BURST), answered = 0;
    for (int i = 0; i < n; i++) {
        changes[i] = draw(r);
        htc_kv_request q = { .size = sizeof q, .op = changes[i].op,
                             .key = htc_bytes_of(name(changes[i].key)),
                             .value = { changes[i].value.data, changes[i].op == HTC_KV_DELETE ? 0 : changes[i].value.len } };
        cr_assert(eq(int, htc_kv_client_submit(r->client, r->now, &q, 1, (uint64_t)i, r->to_server), HTC_OK));
    }
    uint64_t until = htc_rng_below(&r->rng, 100) < crash ? htc_rng_below(&r->rng, 60) : UINT64_MAX;
    for (uint64_t turn = 0; answered < n && turn < until; turn++) {
        htc_kv_result got = { .size = sizeof got };
        HOLDS(turn < 200000 && r->stopped == HTC_AGAIN);
        happen(r);
        while (htc_kv_client_next(r->client, &got)) {
            change *c = &changes[got.tag];
            HOLDS(got.status == HTC_OK || (got.status == HTC_ENOTFOUND && c->op == HTC_KV_DELETE));
            answered++;
            c->answered = 1;
        }
    }
    if (answered == n) {
        for (int i = 0; i < n; i++)
            apply(&r->keys[changes[i].key], &changes[i]);
    } else {
        end(r);
        if (r->durability == HTC_KV_SYNC && htc_rng_below(&r->rng, 2)) {
            log_disk_cut(&r->disk, &r->rng);
            r->cuts++;
        } else
            log_disk_kill(&r->disk, &r->rng);
        start(r);
        HOLDS(r->stopped == HTC_AGAIN);
        resolve(r, changes, n);
    }
    for (int i = 0; i < n; i++)
        free(changes[i].value.data);
}

static void crashes(uint64_t seed)
{
    static const uint32_t how[] = { HTC_KV_SYNC, HTC_KV_SYNC, HTC_KV_INTERVAL, HTC_KV_MEMORY };
    static rig            r;
    rig_init(&r, seed, how[seed % 4], (uint64_t)32768 << seed % 3);
    start(&r);
    for (int i = 0; i < 30; i++) {
        burst(&r, 30);
        if (i % 5 == 0)
            check_keys(&r);
    }
    check_keys(&r);
    HOLDS(r.problems == 0);
    rig_free(&r);
}

Test(kvs_log, what_was_acknowledged_survives_every_stop)
{
    PROPERTY (rng, 60)
        crashes(htc_rng_next(&rng));
}

/* The disk takes no more segments: changes are refused and change nothing, what there is can be read, small changes may still find
 * room, and with room again all goes on. */
static size_t full_disk(uint64_t seed)
{
    static rig r;
    rig_init(&r, seed, HTC_KV_SYNC, 32768);
    r.disk.room = 4 * 32768 + 2 * HTC_DISK_SECTOR;
    r.big = 2;
    start(&r);
    for (int i = 0; i < 150; i++) {
        change         c = draw(&r);
        htc_kv_request q = { .size = sizeof q, .op = c.op,
                             .key = htc_bytes_of(name(c.key)),
                             .value = { c.value.data, c.op == HTC_KV_DELETE ? 0 : c.value.len } };
        htc_kv_result  got = ask(&r, q);
        HOLDS(got.status == HTC_OK || got.status == HTC_ENOSPC || (got.status == HTC_ENOTFOUND && c.op == HTC_KV_DELETE));
        HOLDS(got.status != HTC_ENOSPC || c.op != HTC_KV_DELETE); /* it gives room back */
        if (got.status == HTC_OK)
            apply(&r.keys[c.key], &c);
        r.refused += got.status == HTC_ENOSPC;
        free(c.value.data);
        if (i % 25 == 0)
            check_keys(&r);
        if (i == 120)
            r.disk.room += 4 << 20;
        if (i == 120)
            r.now += 2 * HTC_SECOND; /* it looks again after a second */
        if (i > 125)
            HOLDS(got.status != HTC_ENOSPC);
    }
    check_keys(&r);
    end(&r);
    log_disk_cut(&r.disk, &r.rng);
    start(&r);
    check_keys(&r);
    size_t refused = r.refused;
    rig_free(&r);
    return refused;
}

Test(kvs_log, a_full_disk_refuses_changes_and_reads_go_on)
{
    size_t refused = 0;
    PROPERTY (rng, 40)
        refused += full_disk(htc_rng_next(&rng));
    cr_expect(refused > 100, "%zu changes found the disk full", refused);
}

/* All that can happen in no time while no new file is made. */
static void go_on_without_files(rig *r)
{
    for (size_t i = 0; i < r->disk.waiting_count || htc_output_count(r->to_server);) {
        if (htc_output_count(r->to_server))
            deliver(r);
        else if (r->disk.waiting[i].op == HTC_DISK_CREATE)
            i++;
        else
            answer_at(r, i), i = 0;
    }
}

static void put_next(rig *r, uint64_t tag)
{
    static const char value[6000];
    char              key[16];
    snprintf(key, sizeof key, "fill%d", (int)tag);
    htc_kv_request q = { .size = sizeof q, .op = HTC_KV_PUT, .key = htc_bytes_of(key), .value = { value, sizeof value } };
    cr_assert(eq(int, htc_kv_client_submit(r->client, r->now, &q, 1, tag, r->to_server), HTC_OK));
    go_on_without_files(r);
}

static void check_counts(const rig *r, uint64_t puts, uint64_t gets)
{
    static om    t;
    htc_metrics *m;
    htc_bytes    text;
    cr_assert(eq(int, htc_metrics_create(NULL, 64 << 10, &m), HTC_OK));
    htc_kv_server_metrics(r->server, m);
    cr_assert(eq(int, htc_metrics_end(m, &text), HTC_OK));
    cr_assert(om_read(&t, text), "line %zu: %s", t.line, t.wrong);
    htc_metrics_destroy(m);
    for (size_t i = 0; i < t.count; i++)
        if (strcmp(t.samples[i].name, "htc_kv_operations_total") == 0)
            cr_expect(strtoull(t.samples[i].number, NULL, 10) <= puts + gets + 1, "%s %s", t.samples[i].id,
                      t.samples[i].number);
    cr_expect(eq(u64, om_number(&t, "htc_kv_operations_total{operation=\"put\",outcome=\"ok\"}"), puts));
    cr_expect(eq(u64, om_number(&t, "htc_kv_operations_total{operation=\"get\",outcome=\"ok\"}"), gets));
    om_free(&t);
}

/* While no new segment is made, a change finds no room, and all that is asked after it waits behind it: whether or not a lease, which
 * waits for nobody, is renewed in between. */
static void behind_a_delayed_change(int renew)
{
    static rig    r;
    htc_kv_result got = { .size = sizeof got };
    uint64_t      puts = 0, answered = 0, gets = 0, counts = 0;
    rig_init(&r, 3, HTC_KV_SYNC, 32768);
    start(&r);
    uint64_t lease = ask(&r, (htc_kv_request){ .size = sizeof(htc_kv_request), .op = HTC_KV_LEASE_GRANT, .ttl = 3600 * HTC_SECOND }).lease;
    for (; puts == answered; puts++) {
        cr_assert(puts < 50, "there is always room");
        put_next(&r, puts);
        while (htc_kv_client_next(r.client, &got))
            answered += got.status == HTC_OK;
    }
    /* In one message, so that nothing is tried again between the renewal and what comes after it. */
    htc_kv_request later[] = { { .size = sizeof(htc_kv_request), .op = HTC_KV_LEASE_RENEW, .lease = lease },
                               { .size = sizeof(htc_kv_request), .op = HTC_KV_GET, .key = htc_bytes_of("fill0") },
                               { .size = sizeof(htc_kv_request), .op = HTC_KV_COUNT } };
    cr_assert(eq(int, htc_kv_client_submit(r.client, r.now, later + !renew, 2 + (size_t)renew, 1000, r.to_server), HTC_OK));
    go_on_without_files(&r);
    while (htc_kv_client_next(r.client, &got))
        cr_expect(got.op == HTC_KV_LEASE_RENEW, "%u came behind a change that waits", got.op);
    check_counts(&r, answered, 0);
    for (int i = 0; answered + gets + counts < puts + 2; i++) {
        cr_assert(i < 1000, "%d puts, %d gets, %d counts", (int)answered, (int)gets, (int)counts);
        happen(&r);
        while (htc_kv_client_next(r.client, &got)) {
            cr_expect(got.status == HTC_OK, "%u: %s", got.op, htc_strerror(got.status));
            answered += got.op == HTC_KV_PUT;
            gets += got.op == HTC_KV_GET && got.value.len == 6000;
            counts += got.op == HTC_KV_COUNT && got.number == (int64_t)puts;
        }
    }
    cr_expect(eq(u64, answered, puts));
    check_counts(&r, puts, 1);
    rig_free(&r);
}

Test(kvs_log, what_comes_behind_a_delayed_change_waits)
{
    behind_a_delayed_change(0);
    behind_a_delayed_change(1);
}

/* A write or sync that fails ends the server, with what was not acknowledged unacknowledged; the next start has all that was. */
Test(kvs_log, a_failed_write_ends_the_server)
{
    PROPERTY (rng, 60) {
        static rig r;
        rig_init(&r, htc_rng_next(&rng), HTC_KV_SYNC + (uint32_t)htc_rng_below(&rng, 2), 32768);
        start(&r);
        for (int i = 0; i < 3; i++)
            burst(&r, 0);
        r.disk.fail_at = r.disk.done + 1 + htc_rng_below(&rng, 20);
        r.disk.fail_with = HTC_EIO;
        change changes[400];
        int    n = 0;
        for (; r.stopped == HTC_AGAIN && n < 400; n++) {
            changes[n] = draw(&r);
            changes[n].op = HTC_KV_PUT;
            htc_kv_request q = { .size = sizeof q, .op = HTC_KV_PUT,
                                 .key = htc_bytes_of(name(changes[n].key)),
                                 .value = { changes[n].value.data, changes[n].value.len } };
            htc_kv_result  got = { .size = sizeof got };
            HOLDS(htc_kv_client_submit(r.client, r.now, &q, 1, (uint64_t)n, r.to_server) == HTC_OK);
            for (int i = 0; i < 200 && r.stopped == HTC_AGAIN && !changes[n].answered; i++) {
                happen(&r);
                while (htc_kv_client_next(r.client, &got))
                    changes[got.tag].answered = got.status == HTC_OK;
            }
        }
        HOLDS(r.stopped == HTC_EIO && r.problems == 1);
        end(&r);
        r.disk.fail_at = 0;
        log_disk_kill(&r.disk, &r.rng);
        start(&r);
        HOLDS(r.stopped == HTC_AGAIN);
        resolve(&r, changes, n);
        for (int i = 0; i < n; i++)
            free(changes[i].value.data);
        rig_free(&r);
    }
}

/* Keys in the order of places, in pages, while other keys come and go: who is there all the time is shown once, nobody twice, and a page
 * is about as long as it was asked for. In memory and over the log. */
Test(kvs_log, pages_in_the_order_of_places)
{
    PROPERTY (rng, 40) {
        static rig r;
        int        shown[600] = { 0 }, keys = 1 + (int)htc_rng_below(&rng, 600), pages = 0;
        rig_init(&r, htc_rng_next(&rng), (uint32_t)htc_rng_below(&rng, 2) * HTC_KV_SYNC, 32768);
        start(&r);
        for (int i = 0; i < keys; i++) {
            char text[16];
            snprintf(text, sizeof text, "p%d", i);
            htc_kv_request q = { .size = sizeof q, .op = HTC_KV_PUT, .key = htc_bytes_of(text), .value = { text, strlen(text) } };
            HOLDS(ask(&r, q).status == HTC_OK);
        }
        uint8_t        cursor[8];
        htc_kv_request q = { .size = sizeof q, .op = HTC_KV_SCAN, .flags = HTC_KV_PLACES, .limit = 1 + (uint32_t)htc_rng_below(&rng, 50) };
        do {
            htc_kv_result got = ask(&r, q);
            htc_kv_item   item;
            HOLDS(got.status == HTC_OK && (got.cursor.len == 8 || got.cursor.len == 0) && got.items <= q.limit + 2);
            HOLDS(got.items >= q.limit || got.cursor.len == 0);
            size_t at = 0;
            for (uint32_t i = 0; i < got.items; i++) {
                HOLDS(htc_kv_result_item(&got, &at, &item) == HTC_OK);
                if (((const char *)item.key.data)[0] == 'p') {
                    HOLDS(htc_bytes_equal(item.key, item.value));
                    char text[16];
                    snprintf(text, sizeof text, "%.*s", (int)item.key.len, (const char *)item.key.data);
                    shown[atoi(text + 1)]++;
                }
            }
            if (got.cursor.len)
                memcpy(cursor, got.cursor.data, 8);
            q.cursor = (htc_bytes){ cursor, got.cursor.len };
            pages++;
            change c = draw(&r);
            ask(&r, (htc_kv_request){ .size = sizeof(htc_kv_request), .op = c.op,
                                      .key = htc_bytes_of(name(c.key)),
                                      .value = { c.value.data, c.op == HTC_KV_DELETE ? 0 : c.value.len } });
            free(c.value.data);
        } while (q.cursor.len);
        for (int i = 0; i < keys; i++)
            HOLDS(shown[i] == 1);
        HOLDS(pages >= keys / ((int)q.limit + 2));
        rig_free(&r);
    }
}

/* One of several members would break its promises if it came back after a power failure without what it had answered for. */
Test(kvs_log, a_member_that_may_have_lost_something_does_not_come_back)
{
    for (uint32_t durability = HTC_KV_SYNC; durability <= HTC_KV_MEMORY; durability++) {
        static rig r;
        rig_init(&r, 5, durability, 32768);
        r.self = 77;
        for (int i = 0; i < 2; i++) {
            start(&r);
            cr_assert(eq(int, r.stopped, HTC_AGAIN), "the same start of the machine");
            HOLDS(ask(&r, (htc_kv_request){ .size = sizeof(htc_kv_request), .op = HTC_KV_ADD, .key = htc_bytes_of("n"), .delta = 1 }).status == HTC_OK);
            end(&r);
            log_disk_kill(&r.disk, &r.rng);
        }
        r.boot = "the next start";
        start(&r);
        cr_expect(eq(int, r.stopped, durability == HTC_KV_SYNC ? HTC_AGAIN : HTC_ECORRUPT), "durability %u", durability);
        end(&r);
        log_disk_kill(&r.disk, &r.rng);
        start(&r);
        cr_expect(eq(int, r.stopped, durability == HTC_KV_SYNC ? HTC_AGAIN : HTC_ECORRUPT), "again, durability %u", durability);
        rig_free(&r);
    }
}

/* It is judged by how it ran, not by how it is asked to run now. */
Test(kvs_log, what_was_lost_depends_on_how_it_last_ran)
{
    for (uint32_t ran = HTC_KV_SYNC; ran <= HTC_KV_MEMORY; ran++)
        for (uint32_t asked = HTC_KV_SYNC; asked <= HTC_KV_MEMORY; asked++) {
            static rig r;
            rig_init(&r, 5, HTC_KV_MEMORY, 32768);
            r.self = 77;
            start(&r);
            cr_assert(eq(int, r.stopped, HTC_AGAIN));
            end(&r);
            log_disk_kill(&r.disk, &r.rng);
            r.durability = ran; /* in the same start of the machine: opening has synced whatever there was */
            start(&r);
            cr_assert(eq(int, r.stopped, HTC_AGAIN));
            end(&r);
            log_disk_kill(&r.disk, &r.rng);
            r.durability = asked;
            for (int again = 0; again < 2; again++) {
                r.boot = again ? "and one more" : "the next start";
                htc_status expected = ran == HTC_KV_SYNC && !(again && asked != HTC_KV_SYNC) ? HTC_AGAIN : HTC_ECORRUPT;
                start(&r);
                cr_expect(eq(int, r.stopped, expected), "ran %u, asked %u, %d", ran, asked, again);
                if (!again) {
                    end(&r);
                    log_disk_kill(&r.disk, &r.rng);
                }
            }
            rig_free(&r);
        }
}

/* Who comes before the log has been read is to come again; an end that is asked for then is an end. */
Test(kvs_log, nobody_is_served_before_all_is_read)
{
    static rig r;
    htc_effect e;
    rig_init(&r, 7, HTC_KV_SYNC, 32768);
    htc_kv_server_options so = { .size = sizeof so, .log_durability = HTC_KV_SYNC };
    htc_kv_client_options co = { .size = sizeof co, .client_id = 1, .peer = PEER };
    r.stopped = HTC_AGAIN;
    cr_assert(eq(int, htc_kv_server_create(&r.env, &so, &r.server), HTC_OK));
    cr_assert(eq(int, htc_kv_client_create(&r.env, &co, &r.client), HTC_OK));
    server_input(&r, (htc_input){ .size = sizeof(htc_input), .kind = HTC_IN_START });
    htc_input opened = { .size = sizeof opened, .kind = HTC_IN_OPENED, .peer = PEER };
    cr_assert(eq(int, htc_kv_server_ops()->step(r.server, &opened, r.to_client), HTC_OK));
    cr_assert(eq(sz, htc_output_count(r.to_client), 1));
    cr_assert(eq(int, htc_output_get(r.to_client, 0, &e), HTC_OK));
    cr_expect(e.kind == HTC_OUT_CLOSE && e.peer == PEER && e.status == HTC_EBUSY);
    htc_output_clear(r.to_client);
    server_input(&r, (htc_input){ .size = sizeof(htc_input), .kind = HTC_IN_EVENT, .op = HTC_KV_SERVER_SHUTDOWN });
    cr_expect(eq(int, r.stopped, HTC_OK));
    rig_free(&r);
}

static void settle_disk(rig *r)
{
    while (r->disk.waiting_count)
        answer_at(r, 0);
}

/* Of a change that waits for the disk nothing is kept but where its answer goes, in memory that the batch before has used: to take a
 * piece for each, with a copy of what was asked, was a sixth of all that a durable SET cost. */
Test(kvs_log, a_durable_change_takes_no_memory_of_its_own)
{
    enum { TOGETHER = 64, ROUNDS = 8 };
    static rig r;
    alloc_fail f = alloc_fail_at(0);
    char       asked[TOGETHER * 64];
    size_t     len = 0, before = 0;
    htc_buf    info;
    rig_init(&r, 11, HTC_KV_SYNC, 1 << 20);
    r.env.alloc = alloc_fail_env(&f).alloc;
    start(&r);
    htc_buf_init(&info, NULL, 0);
    htc_peer_info_write(&info, &(htc_peer_info){ .port = RESP_PORT });
    server_input(&r, (htc_input){ .size = sizeof(htc_input), .kind = HTC_IN_OPENED, .peer = PEER + 1, .body = htc_buf_bytes(&info) });
    for (int i = 0; i < TOGETHER; i++)
        len += (size_t)snprintf(asked + len, sizeof asked - len, "*3\r\n$3\r\nSET\r\n$3\r\nk%02d\r\n$5\r\nvalue\r\n", i);
    for (int round = 0; round < ROUNDS; round++) {
        before = round == ROUNDS / 2 ? f.calls : before;
        server_input(&r, (htc_input){ .size = sizeof(htc_input), .kind = HTC_IN_BYTES, .peer = PEER + 1, .body = { asked, len } });
        settle_disk(&r);
    }
    cr_expect(f.calls - before < TOGETHER, "%zu allocations for %d changes", f.calls - before, TOGETHER * ROUNDS / 2);
    htc_buf_free(&info);
    rig_free(&r);
    cr_expect(f.live == 0 && f.wrong_sizes == 0, "%zu pieces of memory are left", f.live);
}
