/* A host that has joined, by hand: what it says of its agents, and when. */
#include "expect.h"

#include <string.h>

#include "core/codec.h"
#include "htcsched/calls.h"
#include "htcsched/joined.h"
#include "roles/runtime/joined_wire.h"

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

static void open_and_enter(void)
{
    htc_buf b;
    htc_buf_init(&b, NULL, 0);
    step((htc_input){ .kind = HTC_IN_START });
    step((htc_input){ .kind = HTC_IN_OPENED, .peer = GATEWAY });
    cr_assert(said() != NULL, "it does not say who it is");
    htc_joined_welcome_write(&b, &(htc_joined_welcome){ .heartbeat_ns = HTC_SECOND, .lost_after_ns = 3 * HTC_SECOND });
    heard(&b);
    htc_buf_free(&b);
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
