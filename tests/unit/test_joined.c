/* A host that has joined, by hand: what it says of its agents, and when. */
#include "expect.h"

#include <string.h>

#include "core/codec.h"
#include "htcsched/calls.h"
#include "htcsched/joined.h"
#include "roles/runtime/joined_wire.h"
#include "roles/runtime/objects_wire.h"

#define GATEWAY 5u

static htc_env     env = { .size = sizeof env };
static htc_output *out;
static htc_joined *joined;
static htc_ns      now;
static int         told;

static void let_in(void *ctx)
{
    ++*(int *)ctx;
}

static void begin(void)
{
    htc_joined_options o = { .size = sizeof o, .peer = GATEWAY, .slots = 4, .cores = 8, .memory = 1 << 30, .node = "far", .data = "/srv/data",
                             .let_in = let_in, .let_in_ctx = &told };
    now = 10 * HTC_SECOND;
    cr_assert(eq(int, htc_output_create(NULL, 0, &out), HTC_OK));
    cr_assert(eq(int, htc_joined_create(&env, &o, &joined), HTC_OK));
}

static void end(void)
{
    htc_joined_ops()->destroy(joined);
    htc_output_destroy(out);
}

TestSuite(joined, .init = begin, .fini = end);

static void step(htc_input in)
{
    in.size = sizeof in;
    in.now = now;
    htc_output_clear(out);
    cr_assert(eq(int, htc_joined_ops()->step(joined, &in, out), HTC_OK));
}

static void heard(const htc_buf *b)
{
    step((htc_input){ .kind = HTC_IN_MESSAGE, .peer = GATEWAY, .body = htc_buf_bytes(b) });
}

/* The nth effect of this kind; kind 0: there is none. */
static htc_effect effect(uint32_t kind, size_t n)
{
    htc_effect e;
    for (size_t i = 0; htc_output_get(out, i, &e) == HTC_OK; i++)
        if (e.kind == kind && n-- == 0)
            return e;
    return (htc_effect){ .kind = 0 };
}

/* The newest JOINED_HELLO of the step. */
static const htc_joined_hello *said(void)
{
    static htc_joined_hello m;
    uint16_t                type;
    uint64_t                id;
    const htc_joined_hello *found = NULL;
    htc_effect              e;
    for (size_t i = 0; (e = effect(HTC_OUT_MESSAGE, i)).kind; i++) {
        htc_reader r = htc_wire_open(e.body, &type, &id);
        if (type == HTC_WIRE_JOINED_HELLO) {
            cr_assert(eq(int, htc_joined_hello_read(&r, &m), HTC_OK));
            found = &m;
        }
    }
    return found;
}

static void enter(void)
{
    htc_buf b;
    htc_buf_init(&b, NULL, 0);
    step((htc_input){ .kind = HTC_IN_OPENED, .peer = GATEWAY });
    cr_assert(said() != NULL, "it does not say who it is");
    htc_joined_welcome_write(&b, &(htc_joined_welcome){ .heartbeat_ns = HTC_SECOND, .lost_after_ns = 3 * HTC_SECOND });
    heard(&b);
    htc_buf_free(&b);
}

static void open_and_enter(void)
{
    step((htc_input){ .kind = HTC_IN_START });
    enter();
}

static void ask_launch(uint64_t agent)
{
    htc_buf b;
    htc_buf_init(&b, NULL, 0);
    htc_wire_begin(&b, HTC_WIRE_JOINED_LAUNCH, 0);
    htc_put_str(&b, "far");
    htc_put_u64(&b, agent);
    htc_put_u32(&b, 0);
    htc_put_str(&b, "olga");
    heard(&b);
    htc_buf_free(&b);
}

static void launch_answers(uint64_t agent, htc_status status)
{
    htc_buf b;
    htc_buf_init(&b, NULL, 0);
    if (status == HTC_OK) {
        htc_put_str(&b, "handle");
        htc_put_str(&b, "process 9");
    }
    step((htc_input){ .kind = HTC_IN_RESULT, .op = HTC_CALL_LAUNCH, .tag = agent, .status = status, .body = htc_buf_bytes(&b) });
    htc_buf_free(&b);
}

static void process_ends(uint64_t agent)
{
    htc_buf b;
    htc_buf_init(&b, NULL, 0);
    htc_put_u64(&b, agent);
    htc_put_str(&b, "handle");
    htc_put_str(&b, "signal 9");
    step((htc_input){ .kind = HTC_IN_EVENT, .op = HTC_EVENT_AGENT_EXIT, .body = htc_buf_bytes(&b) });
    htc_buf_free(&b);
}

Test(joined, says_what_it_has_and_beats)
{
    open_and_enter();
    cr_expect(eq(int, told, 1));
    now += HTC_SECOND;
    step((htc_input){ .kind = HTC_IN_TIMEOUT });
    const htc_joined_hello *m = said();
    cr_assert(m != NULL, "no heartbeat");
    cr_expect(eq(u32, m->slots, 4) && eq(u32, m->cores, 8) && eq(str, (char *)(uintptr_t)m->node, "far") && eq(u32, m->count, 0));
    now += 2 * HTC_SECOND; /* three since it was spoken to */
    step((htc_input){ .kind = HTC_IN_TIMEOUT });
    cr_expect(eq(u32, effect(HTC_OUT_CLOSE, 0).peer, GATEWAY), "a gateway that says nothing is not dialled again");
}

Test(joined, launches_and_tells_of_the_end)
{
    open_and_enter();
    ask_launch(7);
    htc_effect call = effect(HTC_OUT_CALL, 0);
    cr_assert(eq(u32, call.op, HTC_CALL_LAUNCH));
    ask_launch(7); /* once more: it is asked for already */
    cr_expect(eq(u32, effect(HTC_OUT_CALL, 0).kind, 0));
    launch_answers(7, HTC_OK);
    uint16_t   type;
    uint64_t   id, agent = 0;
    htc_status status = HTC_EINTERNAL;
    htc_bytes  body;
    htc_reader r = htc_wire_open(effect(HTC_OUT_MESSAGE, 0).body, &type, &id);
    cr_assert(eq(u32, type, HTC_WIRE_JOINED_LAUNCHED) && eq(int, htc_joined_launched_read(&r, &agent, &status, &body), HTC_OK));
    cr_expect(eq(u64, agent, 7) && eq(int, status, HTC_OK));
    process_ends(7);
    const htc_joined_hello *m = said();
    cr_assert(m != NULL, "the end of an agent is not told");
    cr_expect(eq(u32, m->count, 0) && eq(u64, m->launches, 2));
    /* One that cannot be launched is not listed. */
    ask_launch(8);
    launch_answers(8, HTC_ENOEXEC);
    now += HTC_SECOND;
    step((htc_input){ .kind = HTC_IN_TIMEOUT });
    cr_assert(said() != NULL);
    cr_expect(eq(u32, said()->count, 0));
}

/* Half way between the first answer that did not come and the moment at which the gateway gives it up. */
Test(joined, connects_again_before_it_is_thought_lost)
{
    open_and_enter();
    now += 2 * HTC_SECOND - 1;
    step((htc_input){ .kind = HTC_IN_TIMEOUT });
    cr_expect(eq(u32, effect(HTC_OUT_CLOSE, 0).kind, 0));
    now += 1;
    step((htc_input){ .kind = HTC_IN_TIMEOUT });
    cr_expect(eq(u32, effect(HTC_OUT_CLOSE, 0).kind, HTC_OUT_CLOSE) && eq(u32, effect(HTC_OUT_CLOSE, 0).peer, GATEWAY));
}

Test(joined, lists_its_agents_on_each_connection)
{
    open_and_enter();
    ask_launch(7);
    launch_answers(7, HTC_OK);
    step((htc_input){ .kind = HTC_IN_CLOSED, .peer = GATEWAY, .status = HTC_ECLOSED });
    step((htc_input){ .kind = HTC_IN_OPENED, .peer = GATEWAY });
    const htc_joined_hello *m = said();
    cr_assert(m != NULL);
    cr_expect(eq(u32, m->count, 1) && eq(u64, m->agents[0], 7) && eq(u64, m->launches, 0));
}

Test(joined, ends_with_its_agents)
{
    open_and_enter();
    ask_launch(7);
    launch_answers(7, HTC_OK);
    step((htc_input){ .kind = HTC_IN_EVENT, .op = HTC_EVENT_SHUTDOWN, .status = HTC_OK });
    cr_assert(said() != NULL);
    cr_expect(eq(u32, said()->leaving, 1));
    cr_expect(eq(u32, effect(HTC_OUT_STOP, 0).kind, 0) && eq(u32, effect(HTC_OUT_CALL, 0).kind, 0));
    ask_launch(9);
    cr_expect(eq(u32, effect(HTC_OUT_CALL, 0).kind, 0), "it launches while it leaves");
    step((htc_input){ .kind = HTC_IN_EVENT, .op = HTC_EVENT_SHUTDOWN, .status = HTC_OK }); /* the second: at once */
    cr_expect(eq(u32, effect(HTC_OUT_CALL, 0).op, HTC_CALL_KILL_AGENT));
    process_ends(7);
    cr_expect(eq(u32, effect(HTC_OUT_STOP, 0).kind, HTC_OUT_STOP) && eq(int, effect(HTC_OUT_STOP, 0).status, HTC_OK));
}

Test(joined, keeps_why_it_was_sent_away)
{
    htc_buf b;
    htc_buf_init(&b, NULL, 0);
    step((htc_input){ .kind = HTC_IN_START });
    step((htc_input){ .kind = HTC_IN_OPENED, .peer = GATEWAY });
    htc_joined_welcome w = { .status = HTC_ENOTFOUND, .text = "no such site" };
    htc_joined_welcome_write(&b, &w);
    heard(&b);
    cr_expect(eq(int, effect(HTC_OUT_STOP, 0).status, HTC_ENOTFOUND));
    cr_expect(eq(str, (char *)(uintptr_t)htc_joined_reason(joined), "no such site"));
    htc_buf_free(&b);
}

Test(joined, hands_on_calls_about_files_and_no_others)
{
    htc_buf    b;
    uint16_t   type;
    uint64_t   id;
    uint32_t   tag = 0;
    htc_status status = HTC_OK;
    htc_bytes  body;
    htc_buf_init(&b, NULL, 0);
    open_and_enter();
    htc_joined_call_write(&b, 3, HTC_CALL_FILE_READ, htc_bytes_of("x"));
    heard(&b);
    htc_effect call = effect(HTC_OUT_CALL, 0);
    cr_assert(eq(u32, call.op, HTC_CALL_FILE_READ));
    uint64_t asked = call.tag;
    step((htc_input){ .kind = HTC_IN_RESULT, .op = HTC_CALL_FILE_READ, .tag = asked, .status = HTC_OK, .body = htc_bytes_of("y") });
    htc_reader r = htc_wire_open(effect(HTC_OUT_MESSAGE, 0).body, &type, &id);
    cr_assert(eq(u32, type, HTC_WIRE_JOINED_ANSWER) && eq(int, htc_joined_answer_read(&r, &tag, &status, &body), HTC_OK));
    cr_expect(eq(u32, tag, 3) && eq(int, status, HTC_OK) && eq(int, htc_bytes_equal(body, htc_bytes_of("y")), 1));
    htc_joined_call_write(&b, 4, HTC_CALL_BLOB_WRITE, htc_bytes_of("x"));
    heard(&b);
    cr_expect(eq(u32, effect(HTC_OUT_CALL, 0).kind, 0), "what is no reading of files is handed on");
    /* What was asked on an earlier connection is not answered on the next. */
    step((htc_input){ .kind = HTC_IN_CLOSED, .peer = GATEWAY, .status = HTC_ECLOSED });
    step((htc_input){ .kind = HTC_IN_OPENED, .peer = GATEWAY });
    step((htc_input){ .kind = HTC_IN_RESULT, .op = HTC_CALL_FILE_READ, .tag = asked, .status = HTC_OK, .body = htc_bytes_of("y") });
    cr_expect(eq(u32, effect(HTC_OUT_MESSAGE, 0).kind, 0));
    htc_buf_free(&b);
}

/* The body of AGENT_WAITS and AGENT_EXIT. */
static void host_tells(uint32_t event, uint64_t agent, const char *text)
{
    htc_buf b;
    htc_buf_init(&b, NULL, 0);
    htc_put_u64(&b, agent);
    htc_put_str(&b, "handle");
    htc_put_str(&b, text);
    step((htc_input){ .kind = HTC_IN_EVENT, .op = event, .body = htc_buf_bytes(&b) });
    htc_buf_free(&b);
}

Test(joined, tells_what_waits_in_a_queue_and_why_it_does_not_begin)
{
    open_and_enter();
    ask_launch(7);
    launch_answers(7, HTC_OK);
    host_tells(HTC_EVENT_AGENT_WAITS, 7, "Resources");
    cr_assert(said() != NULL, "that it waits is not told");
    cr_expect(eq(u32, said()->count, 1) && eq(u32, said()->phases[0], 1));
    host_tells(HTC_EVENT_AGENT_WAITS, 7, "Priority");
    cr_expect(said() == NULL, "it waits as before");
    host_tells(HTC_EVENT_AGENT_WAITS, 7, "");
    cr_assert(said() != NULL);
    cr_expect(eq(u32, said()->phases[0], 0));
    htc_buf b;
    htc_buf_init(&b, NULL, 0);
    htc_put_u64(&b, 7);
    htc_put_str(&b, "handle");
    step((htc_input){ .kind = HTC_IN_EVENT, .op = HTC_EVENT_AGENT_EXPIRES, .body = htc_buf_bytes(&b) });
    htc_buf_free(&b);
    cr_assert(said() != NULL, "that its time ends is not told");
    cr_expect(eq(u32, said()->phases[0], HTC_JOINED_EXPIRES));
    host_tells(HTC_EVENT_AGENT_EXIT, 7, "held by somebody");
    uint16_t   type;
    uint64_t   id, agent = 0;
    htc_status status = HTC_OK;
    htc_bytes  body;
    htc_reader r = htc_wire_open(effect(HTC_OUT_MESSAGE, 0).body, &type, &id);
    cr_assert(eq(u32, type, HTC_WIRE_JOINED_LAUNCHED) && eq(int, htc_joined_launched_read(&r, &agent, &status, &body), HTC_OK));
    cr_expect(eq(u64, agent, 7) && eq(int, status, HTC_EREFUSED) && eq(int, htc_bytes_equal(body, htc_bytes_of("held by somebody")), 1));
    cr_expect(eq(u32, said()->count, 0));
}

Test(joined, lists_what_an_earlier_process_has_launched)
{
    static const uint64_t there[] = { 11, 12 };
    htc_joined_options    o = { .size = sizeof o, .peer = GATEWAY, .slots = 4, .agent_slots = 2, .agents = there, .count = 2 };
    htc_joined_ops()->destroy(joined);
    cr_assert(eq(int, htc_joined_create(&env, &o, &joined), HTC_OK));
    step((htc_input){ .kind = HTC_IN_START });
    step((htc_input){ .kind = HTC_IN_OPENED, .peer = GATEWAY });
    const htc_joined_hello *m = said();
    cr_assert(m != NULL);
    cr_expect(eq(u32, m->count, 2) && eq(u64, m->agents[1], 12) && eq(u32, m->agent_slots, 2));
    host_tells(HTC_EVENT_AGENT_EXIT, 11, "");
    cr_expect(eq(u32, said()->count, 1) && eq(u64, said()->agents[0], 12));
    o.count = 1025;
    htc_joined *other = NULL;
    cr_expect(eq(int, htc_joined_create(&env, &o, &other), HTC_EINVAL));
}

/* ---- uploads that tasks here read ---- */

/* As the gateway makes names: one for each pair of user and hash. */
static const uint8_t *named(const char *who, const uint8_t hash[32])
{
    static uint8_t name[32];
    memcpy(name, hash, 32);
    name[31] = (uint8_t)who[0];
    return name;
}

static void ask_for(uint32_t tag, const char *name, const uint8_t hash[32], uint64_t size, uint8_t spoilt)
{
    htc_buf b, body;
    htc_buf_init(&b, NULL, 0);
    htc_buf_init(&body, NULL, 0);
    htc_put_str(&body, name);
    htc_put_u8(&body, spoilt);
    htc_put_raw(&body, (htc_bytes){ named(name, hash), 32 });
    htc_put_raw(&body, (htc_bytes){ hash, 32 });
    htc_put_u64(&body, size);
    htc_joined_call_write(&b, tag, HTC_CALL_CONTENT_FETCH, htc_buf_bytes(&body));
    heard(&b);
    htc_buf_free(&body);
    htc_buf_free(&b);
}

/* The first call of that kind of the step: its tag; 0: there is none. */
static uint64_t called(uint32_t op)
{
    htc_effect e;
    for (size_t i = 0; (e = effect(HTC_OUT_CALL, i)).kind; i++)
        if (e.op == op)
            return e.tag;
    return 0;
}

static uint32_t asked_pieces(void)
{
    uint16_t   type;
    uint64_t   id;
    uint32_t   n = 0;
    htc_effect e;
    for (size_t i = 0; (e = effect(HTC_OUT_MESSAGE, i)).kind; i++) {
        (void)htc_wire_open(e.body, &type, &id);
        n += type == HTC_WIRE_OBJECT_ASK;
    }
    return n;
}

static void host_answers(uint32_t op, uint64_t tag, htc_status status, const htc_buf *body)
{
    cr_assert(ne(u64, tag, 0), "%s was not asked", htc_call_name(op));
    step((htc_input){ .kind = HTC_IN_RESULT, .op = op, .tag = tag, .status = status, .body = body ? htc_buf_bytes(body) : (htc_bytes){ 0 } });
}

static int answered(uint32_t want, htc_status status)
{
    uint16_t   type;
    uint64_t   id;
    uint32_t   tag = 0;
    htc_status is = HTC_OK;
    htc_bytes  body;
    htc_effect e;
    for (size_t i = 0; (e = effect(HTC_OUT_MESSAGE, i)).kind; i++) {
        htc_reader r = htc_wire_open(e.body, &type, &id);
        if (type == HTC_WIRE_JOINED_ANSWER && htc_joined_answer_read(&r, &tag, &is, &body) == HTC_OK && tag == want)
            return is == status;
    }
    return 0;
}

static void send_piece(const uint8_t hash[32], const char *text)
{
    htc_buf        b;
    object_message m = { .size = strlen(text), .bytes = htc_bytes_of(text) };
    memcpy(m.hash, hash, 32);
    htc_buf_init(&b, NULL, 0);
    htc__object_write(&b, HTC_WIRE_OBJECT_BYTES, &m);
    heard(&b);
    htc_buf_free(&b);
}

static void begin_with_content(void)
{
    begin();
    step((htc_input){ .kind = HTC_IN_START });
    host_answers(HTC_CALL_OBJECT_LIST, called(HTC_CALL_OBJECT_LIST), HTC_OK, NULL);
    enter();
}

TestSuite(joined_content, .init = begin_with_content, .fini = end);

/* Brings an upload of 5 bytes for a first task. */
static void bring(uint32_t tag, const uint8_t hash[32])
{
    htc_buf have;
    htc_buf_init(&have, NULL, 0);
    htc_put_u64(&have, 0);
    ask_for(tag, "ann", hash, 5, 0);
    host_answers(HTC_CALL_OBJECT_ROOM, called(HTC_CALL_OBJECT_ROOM), HTC_OK, &have);
    cr_assert(eq(u32, asked_pieces(), 1));
    send_piece(named("ann", hash), "hello");
    host_answers(HTC_CALL_OBJECT_WRITE, called(HTC_CALL_OBJECT_WRITE), HTC_OK, NULL);
    host_answers(HTC_CALL_OBJECT_FINISH, called(HTC_CALL_OBJECT_FINISH), HTC_OK, NULL);
    cr_assert(not(answered(tag, HTC_OK)), "it is said before it is the user's");
    host_answers(HTC_CALL_OBJECT_GIVE, called(HTC_CALL_OBJECT_GIVE), HTC_OK, NULL);
    cr_assert(answered(tag, HTC_OK));
    htc_buf_free(&have);
}

Test(joined_content, is_brought_once_for_a_user)
{
    uint8_t hash[32] = { 1 };
    bring(7, hash);
    ask_for(8, "ann", hash, 5, 0);
    cr_expect(eq(u64, called(HTC_CALL_OBJECT_ROOM), 0), "it is brought again");
    cr_expect(eq(u32, asked_pieces(), 0));
    uint64_t give = called(HTC_CALL_OBJECT_GIVE);
    host_answers(HTC_CALL_OBJECT_GIVE, give, HTC_OK, NULL);
    cr_expect(answered(8, HTC_OK));
}

/* The body of the first call of that kind. */
static htc_bytes body_of(uint32_t op)
{
    htc_effect e;
    for (size_t i = 0; (e = effect(HTC_OUT_CALL, i)).kind; i++)
        if (e.op == op)
            return e.body;
    return (htc_bytes){ 0 };
}

/* Neither by time nor by a second name does one learn that the other has it; what does not have the hash fails for who has put it there. */
Test(joined_content, the_same_content_of_two_users_is_brought_and_kept_twice)
{
    uint8_t hash[32] = { 1 };
    htc_buf have;
    htc_buf_init(&have, NULL, 0);
    htc_put_u64(&have, 0);
    bring(7, hash);
    ask_for(8, "ben", hash, 5, 0);
    cr_expect(eq(u64, called(HTC_CALL_OBJECT_GIVE), 0), "what was brought for ann is given to ben");
    uint64_t room = called(HTC_CALL_OBJECT_ROOM);
    host_answers(HTC_CALL_OBJECT_ROOM, room, HTC_OK, &have);
    cr_expect(eq(u32, asked_pieces(), 1), "a hit of ann's is one of ben's");
    send_piece(named("ann", hash), "wrong"); /* no answer to what was asked for him */
    cr_expect(eq(u64, called(HTC_CALL_OBJECT_WRITE), 0));
    send_piece(named("ben", hash), "wrong");
    host_answers(HTC_CALL_OBJECT_WRITE, called(HTC_CALL_OBJECT_WRITE), HTC_OK, NULL);
    htc_bytes end = body_of(HTC_CALL_OBJECT_FINISH);
    cr_assert(eq(sz, end.len, 64));
    cr_expect(memcmp(end.data, named("ben", hash), 32) == 0 && memcmp((const uint8_t *)end.data + 32, hash, 32) == 0, "another hash is compared");
    host_answers(HTC_CALL_OBJECT_FINISH, called(HTC_CALL_OBJECT_FINISH), HTC_EINPUT, NULL);
    host_answers(HTC_CALL_OBJECT_ROOM, called(HTC_CALL_OBJECT_ROOM), HTC_OK, &have);
    cr_expect(answered(8, HTC_EUNREACHABLE), "it is not told that his is another content");
    ask_for(9, "ann", hash, 5, 0);
    cr_expect(eq(u64, called(HTC_CALL_OBJECT_ROOM), 0), "hers has gone with his");
    host_answers(HTC_CALL_OBJECT_GIVE, called(HTC_CALL_OBJECT_GIVE), HTC_OK, NULL);
    cr_expect(answered(9, HTC_OK));
    htc_buf_free(&have);
}

Test(joined_content, however_many_have_asked_the_next_one_is_answered)
{
    uint8_t hash[32] = { 1 };
    bring(7, hash);
    for (uint32_t i = 8; i < 5000; i++) {
        ask_for(i, "ann", hash, 5, 0);
        host_answers(HTC_CALL_OBJECT_GIVE, called(HTC_CALL_OBJECT_GIVE), HTC_OK, NULL);
        cr_assert(answered(i, HTC_OK), "the %u-th who asks within a minute is refused", i);
    }
}

Test(joined_content, what_is_spoilt_is_brought_anew)
{
    uint8_t hash[32] = { 1 };
    bring(7, hash);
    ask_for(8, "ann", hash, 5, 1);
    host_answers(HTC_CALL_OBJECT_DROP, called(HTC_CALL_OBJECT_DROP), HTC_OK, NULL);
    cr_expect(ne(u64, called(HTC_CALL_OBJECT_ROOM), 0), "what is spoilt is used again");
}

Test(joined_content, more_than_all_that_is_kept_is_refused)
{
    uint8_t hash[32] = { 1 };
    ask_for(7, "ann", hash, (UINT64_C(1) << 30) + 1, 0);
    cr_expect(answered(7, HTC_EINPUT));
    cr_expect(eq(u64, called(HTC_CALL_OBJECT_ROOM), 0));
}

/* Cut off in the middle: nothing is begun anew, the piece is asked for on the next connection. */
Test(joined_content, a_cut_costs_what_was_on_its_way)
{
    uint8_t hash[32] = { 1 };
    htc_buf have;
    htc_buf_init(&have, NULL, 0);
    htc_put_u64(&have, 0);
    ask_for(7, "ann", hash, 5, 0);
    host_answers(HTC_CALL_OBJECT_ROOM, called(HTC_CALL_OBJECT_ROOM), HTC_OK, &have);
    cr_assert(eq(u32, asked_pieces(), 1));
    step((htc_input){ .kind = HTC_IN_CLOSED, .peer = GATEWAY, .status = HTC_ECLOSED });
    now += 5 * HTC_SECOND;
    step((htc_input){ .kind = HTC_IN_TIMEOUT });
    cr_expect(eq(u64, called(HTC_CALL_OBJECT_DROP), 0), "what has come of it is thrown away");
    enter();
    cr_expect(eq(u32, asked_pieces(), 1), "it is not asked for again");
    ask_for(8, "ann", hash, 5, 0);
    cr_expect(eq(u64, called(HTC_CALL_OBJECT_ROOM), 0), "it is begun a second time");
    send_piece(named("ann", hash), "hello");
    host_answers(HTC_CALL_OBJECT_WRITE, called(HTC_CALL_OBJECT_WRITE), HTC_OK, NULL);
    host_answers(HTC_CALL_OBJECT_FINISH, called(HTC_CALL_OBJECT_FINISH), HTC_OK, NULL);
    uint64_t gives[2] = { 0 };
    htc_effect e;
    for (size_t i = 0, n = 0; n < 2 && (e = effect(HTC_OUT_CALL, i)).kind; i++)
        if (e.op == HTC_CALL_OBJECT_GIVE)
            gives[n++] = e.tag;
    host_answers(HTC_CALL_OBJECT_GIVE, gives[0], HTC_OK, NULL);
    cr_expect(not(answered(7, HTC_OK)), "who asked on a connection that is gone is told on another");
    host_answers(HTC_CALL_OBJECT_GIVE, gives[1], HTC_OK, NULL);
    cr_expect(answered(8, HTC_OK));
    htc_buf_free(&have);
}

/* Nobody asks again: it is given up, and what came of it goes. */
Test(joined_content, what_nobody_asks_for_any_more_is_given_up)
{
    uint8_t hash[32] = { 1 };
    ask_for(7, "ann", hash, 5, 0);
    host_answers(HTC_CALL_OBJECT_ROOM, called(HTC_CALL_OBJECT_ROOM), HTC_ENOSPC, NULL); /* once more, alone */
    step((htc_input){ .kind = HTC_IN_CLOSED, .peer = GATEWAY, .status = HTC_ECLOSED });
    now += 61 * HTC_SECOND;
    step((htc_input){ .kind = HTC_IN_TIMEOUT });
    cr_expect(ne(u64, called(HTC_CALL_OBJECT_DROP), 0));
}

Test(joined_content, a_full_disk_is_told_as_the_nodes_fault)
{
    uint8_t hash[32] = { 1 };
    ask_for(7, "ann", hash, 5, 0);
    host_answers(HTC_CALL_OBJECT_ROOM, called(HTC_CALL_OBJECT_ROOM), HTC_ENOSPC, NULL);
    host_answers(HTC_CALL_OBJECT_ROOM, called(HTC_CALL_OBJECT_ROOM), HTC_ENOSPC, NULL);
    cr_expect(answered(7, HTC_ENOSPC));
}
