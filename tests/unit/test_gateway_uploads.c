/* Uploads that tasks read at sites beyond the gateway's machine: which of them a host may read, and of whom. Site far serves the owner, site shared
 * ada too. */
#include "gateway_far.h"

#include "htcsched/client.h"
#include "htcsched/metrics.h"
#include "roles/runtime/objects_wire.h"

static const char *const shared_users[] = { "olga", "ada", NULL };

static void sites(htc_gateway_options *o)
{
    static const htc_site_options all[] = { { .size = sizeof all[0], .name = "local", .cores = 1, .memory = UINT64_C(8) << 30, .speed = 2 }, /* it gets the first agent */
                                            { .size = sizeof all[0], .name = "far", .cores = 8, .joins = 1 },
                                            { .size = sizeof all[0], .name = "shared", .cores = 8, .joins = 1, .users = shared_users } };
    o->sites = all;
    o->n_sites = 3;
    o->slots_max = 64;
    o->heartbeat_ns = HTC_SECOND;
    o->lost_after_ns = 3 * HTC_SECOND;
    o->store_join = "10.0.0.1:7421";
}

static void begin_far(void)
{
    begin();
    rig_kill(&r);
    r.change = sites;
    rig_start(&r);
}

TestSuite(gateway_uploads, .init = begin_far, .fini = end);

static void want(const hand *a, const htc_attempt *at, const uint8_t hash[32])
{
    htc_buf b;
    htc_buf_init(&b, NULL, 0);
    htc_content_want_write(&b, &(htc_content_want){ .agent = a->id, .attempt = *at, .hashes = { hash, 32 } });
    rig_say(&r, a->peer, &b);
    htc_buf_free(&b);
    rig_pass(&r, 100 * HTC_MS);
}

static int here(const hand *a, htc_content_here *m)
{
    const rig_message *found = rig_newest(&r, a->peer, HTC_WIRE_CONTENT_HERE);
    htc_reader         in = htc_reader_of((htc_bytes){ found ? found->bytes : NULL, found ? found->len : 0 });
    return found && htc_content_here_read(&in, m) == HTC_OK;
}

/* Tasks that read uploads: two of olga's, of which she has one, and one under a hash that ada has put something under too. */
static const char *reading_document(void)
{
    static const uint8_t hashes[][2] = { { 1, 7 }, { 2, 7 } };
    static char          text[4000];
    size_t               n = (size_t)snprintf(text, sizeof text, "%s", SWEEP(9));
    char                *at = strstr(text, "</jsdl:JobDescription>"), rest[2000];
    cr_assert(at && n < sizeof text);
    snprintf(rest, sizeof rest, "%s", at);
    n = (size_t)(at - text);
    for (size_t i = 0; i < 2; i++) {
        uint8_t hash[32] = { hashes[i][0], hashes[i][1] };
        char    hex[65];
        htc_content_hex(hash, hex);
        n += (size_t)snprintf(text + n, sizeof text - n, "<jsdl:DataStaging><jsdl:FileName>in%zu</jsdl:FileName><jsdl:CreationFlag>overwrite</jsdl:CreationFlag>"
                              "<jsdl:Source><jsdl:URI>htc:%s</jsdl:URI></jsdl:Source></jsdl:DataStaging>", i, hex);
    }
    snprintf(text + n, sizeof text - n, "%s", rest);
    return text;
}

static uint64_t reading_job(const char *user)
{
    uint64_t id = submit(operator_peer(), user, reading_document());
    rig_pass(&r, HTC_SECOND);
    return id;
}

/* Of olga's, one task at a time. */
static void reading_alone(void)
{
    json_t *rq = json_pack("{s:s,s:s,s:i}", "op", "submit", "jsdl", reading_document(), "max_running", 1);
    char   *text = json_dumps(rq, 0);
    json_decref(rig_ask(&r, operator_peer(), text));
    free(text);
    json_decref(rq);
    rig_pass(&r, HTC_SECOND);
}

/* The newest CONTENT_FETCH: whose, and the name and hash of its one upload. 0: there is none. */
static int fetch_asked(const far_host *h, uint32_t *tag, char user[64], uint8_t name[32], uint8_t hash[32])
{
    const rig_message *said = rig_newest(&r, h->peer, HTC_WIRE_JOINED_CALL);
    uint32_t           op = 0;
    htc_bytes          body;
    htc_reader         in = htc_reader_of((htc_bytes){ said ? said->bytes : NULL, said ? said->len : 0 });
    if (!said || htc_joined_call_read(&in, tag, &op, &body) != HTC_OK || op != HTC_CALL_CONTENT_FETCH)
        return 0;
    in = htc_reader_of(body);
    htc_get_str(&in, user, 64);
    cr_expect(eq(u32, htc_get_u8(&in), 0));
    htc_bytes pair = htc_get_raw(&in, 64);
    cr_assert(pair.data && htc_get_u64(&in) == 5 && htc_reader_done(&in) == HTC_OK);
    memcpy(name, pair.data, 32);
    memcpy(hash, (const uint8_t *)pair.data + 32, 32);
    return 1;
}

static char piece_text[8];

/* OBJECT_ASK for the first bytes; the status of OBJECT_NONE, HTC_OK for OBJECT_BYTES. */
static htc_status piece_of(const far_host *h, const uint8_t hash[32], uint32_t len)
{
    htc_buf        b;
    object_message m = { .len = len };
    memcpy(m.hash, hash, 32);
    htc_buf_init(&b, NULL, 0);
    htc__object_write(&b, HTC_WIRE_OBJECT_ASK, &m);
    size_t none = rig_count(&r, h->peer, HTC_WIRE_OBJECT_NONE);
    rig_say(&r, h->peer, &b);
    htc_buf_free(&b);
    rig_pass(&r, 100 * HTC_MS);
    int                no = rig_count(&r, h->peer, HTC_WIRE_OBJECT_NONE) > none;
    const rig_message *found = rig_newest(&r, h->peer, no ? HTC_WIRE_OBJECT_NONE : HTC_WIRE_OBJECT_BYTES);
    htc_reader         in = htc_reader_of((htc_bytes){ found ? found->bytes : NULL, found ? found->len : 0 });
    cr_assert(found && htc__object_read(&in, no ? HTC_WIRE_OBJECT_NONE : HTC_WIRE_OBJECT_BYTES, &m) == HTC_OK, "no answer");
    cr_expect(memcmp(m.hash, hash, 32) == 0, "another one is answered");
    snprintf(piece_text, sizeof piece_text, "%.*s", no ? 0 : (int)m.bytes.len, no ? "" : (const char *)m.bytes.data);
    return no ? m.status : HTC_OK;
}

Test(gateway_uploads, a_host_reads_what_tasks_at_its_site_want_and_nothing_else)
{
    static const uint8_t mine[32] = { 1, 7 }, other[32] = { 1, 8 }, bens[32] = { 2, 7 };
    far_host            *h = join("far", 3);
    uint32_t             slots = 0, tag = 0;
    char                 user[64];
    uint8_t              name[32], hash[32];
    htc_content_here     m;
    reading_job("olga");
    uint64_t agent = asked(h, &slots, user);
    cr_assert(agent != 0, "nothing was launched");
    launched(h, agent);
    hand        a = register_on(agent, "far", 3);
    htc_attempt at;
    cr_assert(eq(u32, pull(&a, &at), HTC_GRANT_TASKS));
    cr_expect(ne(int, piece_of(h, mine, 5), HTC_OK), "a host reads what nobody has asked for");
    want(&a, &at, bens); /* another user's: the hash alone is nothing */
    cr_assert(here(&a, &m));
    cr_expect(eq(int, m.status, HTC_ENOTFOUND));
    cr_expect(ne(int, piece_of(h, bens, 5), HTC_OK));
    want(&a, &at, mine);
    cr_assert(fetch_asked(h, &tag, user, name, hash), "the host is not asked");
    cr_expect(eq(str, user, "olga"));
    cr_expect(memcmp(hash, mine, 32) == 0);
    cr_expect(eq(int, piece_of(h, name, 5), HTC_OK));
    r.disk_fails = 1; /* asking again would not help */
    cr_expect(eq(int, piece_of(h, name, 5), HTC_EIO));
    r.disk_fails = 0;
    cr_expect(ne(int, piece_of(h, mine, 5), HTC_OK), "by its hash");
    cr_expect(ne(int, piece_of(h, other, 5), HTC_OK), "what no task has asked for");
    size_t calls = rig_count(&r, h->peer, HTC_WIRE_JOINED_CALL);
    want(&a, &at, mine); /* said again while it is on its way */
    cr_expect(eq(sz, rig_count(&r, h->peer, HTC_WIRE_JOINED_CALL), calls));
    htc_buf b;
    htc_buf_init(&b, NULL, 0);
    htc_joined_answer_write(&b, tag, HTC_OK, (htc_bytes){ 0 });
    rig_say(&r, h->peer, &b);
    htc_buf_free(&b);
    cr_assert(here(&a, &m));
    cr_expect(eq(int, m.status, HTC_OK));
    /* Another connection of that host reads nothing before a task asks again. */
    far_host *again = join("far", 3);
    cr_expect(eq(int, piece_of(again, name, 5), HTC_EBUSY));
}

/* A task that speaks for its agent gets at no upload of its own user's that it was not given, and none is looked for. */
Test(gateway_uploads, an_agent_that_asks_for_what_its_task_does_not_read_is_refused_and_counted)
{
    static const uint8_t both[2][32] = { { 1, 7 }, { 1, 8 } };
    far_host            *h = join("far", 3);
    uint32_t             slots = 0;
    char                 user[64];
    htc_content_here     m;
    reading_job("olga");
    uint64_t agent = asked(h, &slots, user);
    launched(h, agent);
    hand        a = register_on(agent, "far", 3);
    htc_attempt at;
    cr_assert(eq(u32, pull(&a, &at), HTC_GRANT_TASKS));
    uint32_t touches = r.calls[HTC_CALL_CONTENT_TOUCH];
    want(&a, &at, both[1]);
    cr_assert(here(&a, &m));
    cr_expect(eq(int, m.status, HTC_EDENIED));
    htc_buf b;
    htc_buf_init(&b, NULL, 0);
    htc_content_want_write(&b, &(htc_content_want){ .agent = a.id, .attempt = at, .hashes = { both, sizeof both } });
    rig_say(&r, a.peer, &b); /* among such that it does */
    htc_buf_free(&b);
    rig_pass(&r, 100 * HTC_MS);
    cr_expect(eq(u32, r.calls[HTC_CALL_CONTENT_TOUCH], touches), "it is looked for");
    htc_metrics *page;
    htc_bytes    text;
    cr_assert(eq(int, htc_metrics_create(NULL, 64 << 10, &page), HTC_OK));
    htc_gateway_metrics(r.gateway, page);
    cr_assert(eq(int, htc_metrics_end(page, &text), HTC_OK));
    cr_expect(memmem(text.data, text.len, "htc_gateway_uploads_refused_total 2\n", 36) != NULL);
    htc_metrics_destroy(page);
    books();
}

/* ada has something else under the hash of olga's upload: each is sent her own, whoever asked last. */
Test(gateway_uploads, what_one_puts_under_the_hash_of_another_is_read_for_that_one_alone)
{
    static const uint8_t hash[32] = { 1, 7 };
    static const char   *users[] = { "olga", "ada" }, *texts[] = { "hello", "howdy" };
    uint8_t              names[2][32], is[32];
    uint32_t             slots = 0, tag = 0;
    char                 user[64];
    json_decref(rig_ask(&r, operator_peer(), "{\"op\":\"user.add\",\"name\":\"ada\",\"password\":\"secret12\"}"));
    json_decref(rig_ask(&r, operator_peer(), "{\"op\":\"site.drain\",\"site\":\"local\"}"));
    reading_job(users[0]);
    reading_job(users[1]);
    far_host *h = join("shared", 2);
    h->m.agent_slots = 1;
    say_hello(h);
    rig_pass(&r, HTC_SECOND);
    uint64_t last = asked(h, &slots, user);
    cr_assert(last > 1, "no agents");
    for (uint64_t id = last - 1; id <= last; id++) {
        launched(h, id);
        hand        a = register_on(id, "shared", 1);
        htc_attempt at;
        cr_assert(eq(u32, pull(&a, &at), HTC_GRANT_TASKS));
        want(&a, &at, hash);
        uint8_t name[32];
        cr_assert(fetch_asked(h, &tag, user, name, is), "the host is not asked");
        cr_expect(memcmp(is, hash, 32) == 0);
        memcpy(names[strcmp(user, users[1]) == 0], name, 32);
    }
    cr_expect(memcmp(names[0], names[1], 32) != 0);
    for (size_t i = 0; i < 2; i++) {
        cr_expect(eq(int, piece_of(h, names[i], 5), HTC_OK));
        cr_expect(eq(str, piece_text, (char *)(uintptr_t)texts[i]), "%s is sent another's", users[i]);
    }
}

static far_host *join_wide(const char *name, uint32_t slots)
{
    far_host *h = join(name, slots);
    h->m.agent_slots = 1; /* more slots are another agent */
    say_hello(h);
    return h;
}

/* Both sites are equally fast, and the other one has more free slots. */
Test(gateway_uploads, the_next_agent_begins_where_its_inputs_are)
{
    static const uint8_t mine[32] = { 1, 7 };
    uint32_t             slots = 0, tag = 0;
    char                 user[64];
    uint8_t              name[32], hash[32];
    htc_attempt          at;
    htc_buf              b;
    json_decref(rig_ask(&r, operator_peer(), "{\"op\":\"site.drain\",\"site\":\"local\"}"));
    far_host *near = join_wide("shared", 4);
    reading_alone();
    uint64_t agent = asked(near, &slots, user);
    cr_assert(agent != 0, "nothing was launched");
    launched(near, agent);
    hand a = register_on(agent, "shared", 1);
    cr_assert(eq(u32, pull(&a, &at), HTC_GRANT_TASKS));
    want(&a, &at, mine);
    cr_assert(fetch_asked(near, &tag, user, name, hash), "the host is not asked");
    htc_buf_init(&b, NULL, 0);
    htc_joined_answer_write(&b, tag, HTC_OK, (htc_bytes){ 0 });
    rig_say(&r, near->peer, &b);
    htc_buf_free(&b);
    far_host *other = join_wide("far", 8);
    reading_alone();
    cr_expect(ne(u64, asked(near, &slots, user), agent), "it begins where nothing of its input is");
    cr_expect(eq(u64, asked(other, &slots, user), 0));
    books();
}
