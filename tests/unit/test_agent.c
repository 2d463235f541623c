/* The agent against a gateway and a host that the test plays: each scenario is asserted as the trace of all it did. */
#include "expect.h"
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "core/util.h"
#include "htcsched/agent.h"
#include "htcsched/work.h"
#include "htcsched/calls.h"
#include "roles/agent/agent_private.h"
#include "roles/runtime/agent_wire.h"

#define GATEWAY 5
#define MS      HTC_MS

static htc_rng     rng;
static htc_env     env;
static htc_agent  *agent;
static htc_output *out;
static htc_buf     body;
static htc_ns      now;
static htc_status  step_status;
static char        trace[1 << 16];
static size_t      trace_len;
static int         stopped;
/* What the host knows of runs: asked for and not answered, cleaned. */
static uint32_t running, running_max, cleaned[4096], staged[4096];
static struct {
    uint64_t run;
    uint32_t op;
} owed[4096];
static uint32_t owed_count;
static uint32_t slots, held; /* as the host was told last; as the gateway was */

static void say(const char *format, ...)
{
    va_list args;
    va_start(args, format);
    int n = vsnprintf(trace + trace_len, sizeof trace - trace_len, format, args);
    va_end(args);
    trace_len += (size_t)n < sizeof trace - trace_len ? (size_t)n : 0;
}

static void say_attempt(const htc_attempt *a)
{
    say(" %llu.%llu/%u", (unsigned long long)a->job, (unsigned long long)a->task, (unsigned)a->attempt);
}

static void say_held(const htc_held_list *list)
{
    static const char letters[] = "?wirsR"; /* waiting, in, running, staging out, Reporting */
    for (uint32_t i = 0; i < list->count; i++) {
        say_attempt(&list->held[i].attempt);
        say("%c", letters[list->held[i].state]);
    }
}

static void say_message(htc_bytes message)
{
    static union {
        htc_agent_hello hello;
        htc_heartbeat   beat;
        htc_pull        pull;
        htc_started     started;
        htc_task_result result;
        htc_give_back   back;
        htc_bye         bye;
        htc_slots_held  held;
        htc_content_want want;
        htc_agent_outputs outputs;
    } m;
    uint16_t   type;
    uint64_t   id;
    htc_reader r = htc_wire_open(message, &type, &id);
    say("send %s", htc_wire_name(type));
    switch (type) {
    case HTC_WIRE_AGENT_HELLO:
        cr_assert(eq(int, htc_agent_hello_read(&r, &m.hello), HTC_OK));
        cr_expect(m.hello.agent == 77 && strcmp(m.hello.node, "n1") == 0 && m.hello.memory == 1000 &&
                  m.hello.cores == 4);
        say(" grant %llu", (unsigned long long)m.hello.last_grant);
        say_held(&m.hello.held);
        break;
    case HTC_WIRE_HEARTBEAT:
        cr_assert(eq(int, htc_heartbeat_read(&r, &m.beat), HTC_OK));
        say(" %llu grant %llu", (unsigned long long)m.beat.seq, (unsigned long long)m.beat.last_grant);
        say_held(&m.beat.held);
        break;
    case HTC_WIRE_PULL:
        cr_assert(eq(int, htc_pull_read(&r, &m.pull), HTC_OK));
        say(" %llu want %u", (unsigned long long)m.pull.seq, (unsigned)m.pull.want);
        break;
    case HTC_WIRE_STARTED:
        cr_assert(eq(int, htc_started_read(&r, &m.started), HTC_OK));
        say_attempt(&m.started.attempt);
        break;
    case HTC_WIRE_TASK_RESULT:
        cr_assert(eq(int, htc_task_result_read(&r, &m.result), HTC_OK));
        say_attempt(&m.result.attempt);
        say(" %s (%s)", htc_status_name(m.result.outcome.status), m.result.outcome.reason);
        if (m.result.outcome.outputs.files)
            say(" files %llu", (unsigned long long)m.result.outcome.outputs.files);
        cr_expect(eq(str, m.result.outcome.node, "n1"));
        break;
    case HTC_WIRE_GIVE_BACK:
        cr_assert(eq(int, htc_give_back_read(&r, &m.back), HTC_OK));
        for (uint32_t i = 0; i < m.back.count; i++)
            say_attempt(&m.back.attempts[i]);
        break;
    case HTC_WIRE_SLOTS_HELD:
        cr_assert(eq(int, htc_slots_held_read(&r, &m.held), HTC_OK));
        held = m.held.slots;
        say(" %llu: %u", (unsigned long long)m.held.seq, (unsigned)m.held.slots);
        break;
    case HTC_WIRE_CONTENT_WANT:
        cr_assert(eq(int, htc_content_want_read(&r, &m.want), HTC_OK));
        say_attempt(&m.want.attempt);
        say(" %zu%s", m.want.hashes.len / 32, m.want.spoilt ? " spoilt" : "");
        break;
    case HTC_WIRE_AGENT_OUTPUTS:
        cr_assert(eq(int, htc_agent_outputs_read(&r, &m.outputs), HTC_OK));
        say(" %s (%s)", htc_status_name(m.outputs.status), m.outputs.text);
        break;
    case HTC_WIRE_BYE:
        cr_assert(eq(int, htc_bye_read(&r, &m.bye), HTC_OK));
        say(" %s (%s)", htc_status_name(m.bye.status), m.bye.reason);
        break;
    }
}

static void say_call(const htc_effect *e)
{
    htc_reader r = htc_reader_of(e->body);
    if (e->op == HTC_CALL_SLOTS) {
        slots = htc_get_u32(&r);
        say("call SLOTS %u", (unsigned)slots);
        return;
    }
    if (e->op == HTC_CALL_OUTPUTS_AT) {
        char dir[100], id[65];
        htc_get_str(&r, dir, sizeof dir);
        htc_get_str(&r, id, sizeof id);
        say("call OUTPUTS_AT %s %s", dir, id);
        return;
    }
    uint64_t run = htc_get_u64(&r);
    cr_assert(eq(u64, run, e->tag));
    say("call %s %llu", htc_call_name(e->op), (unsigned long long)run);
    if (e->op == HTC_CALL_RUN && ++running > running_max)
        running_max = running;
    if (e->op != HTC_CALL_SIGNAL && e->op != HTC_CALL_CLEAN) {
        cr_assert(owed_count < 4096 && run < 4096);
        owed[owed_count].run = run;
        owed[owed_count++].op = e->op;
        staged[run] = 1;
    }
    if (e->op == HTC_CALL_SIGNAL) {
        uint32_t number = htc_get_u32(&r);
        say(" %u %s", (unsigned)number, htc_status_name((htc_status)(int32_t)htc_get_u32(&r)));
    }
    if (e->op == HTC_CALL_CLEAN) {
        cr_assert(run < sizeof cleaned / sizeof cleaned[0]);
        cleaned[run]++;
        say("%s", htc_get_u8(&r) ? " drop" : "");
    }
}

static void step(htc_input in)
{
    htc_effect e;
    in.now = now;
    htc_output_clear(out);
    step_status = htc_agent_ops()->step(agent, &in, out);
    for (size_t i = 0; htc_output_get(out, i, &e) == HTC_OK; i++) {
        say("[%6llu] ", (unsigned long long)(now / MS));
        cr_assert(stopped == 0, "an effect after the stop");
        if (e.kind == HTC_OUT_MESSAGE) {
            cr_assert(eq(u32, e.peer, GATEWAY));
            say_message(e.body);
        } else if (e.kind == HTC_OUT_CALL) {
            say_call(&e);
        } else if (e.kind == HTC_OUT_CLOSE) {
            cr_assert(eq(u32, e.peer, GATEWAY));
            say("close %s", htc_status_name(e.status));
        } else if (e.kind == HTC_OUT_STOP) {
            say("stop %s", htc_status_name(e.status));
            stopped = 1;
        }
        say("\n");
    }
}

/* Time passes: every deadline up to then is kept. */
static void wait_until(htc_ns then)
{
    for (int i = 0; i < 10000; i++) {
        htc_ns at = htc_agent_ops()->deadline(agent);
        if (at > then) {
            now = then;
            return;
        }
        now = at > now ? at : now;
        step((htc_input){ .size = sizeof(htc_input), .kind = HTC_IN_TIMEOUT });
    }
    cr_assert(0, "the deadline does not move on");
}

static void expect(const char *text)
{
    cr_expect(strcmp(trace, text) == 0, "expected:\n%s\nhappened:\n%s", text, trace);
    trace_len = 0;
    trace[0] = '\0';
}

static void forget(void)
{
    trace_len = 0;
    trace[0] = '\0';
}

static void hear(void)
{
    cr_assert(eq(int, body.status, HTC_OK));
    step((htc_input){ .size = sizeof(htc_input), .kind = HTC_IN_MESSAGE, .peer = GATEWAY, .body = htc_buf_bytes(&body) });
}

static void hear_welcome(htc_status status)
{
    htc_agent_welcome_write(&body, &(htc_agent_welcome){ status, 10 * HTC_SECOND, 30 * HTC_SECOND, "", "", "" });
    hear();
}

static void hear_slots(uint64_t seq, uint32_t n)
{
    htc_slots_write(&body, &(htc_slots){ seq, n });
    hear();
}

static uint32_t cores = 1; /* of each task */

static htc_bytes a_task(htc_ns wall)
{
    htc_task task = {
        .index = 7, .executable = "/bin/true", .values_json = "{}", .limits = { .wall = wall, .cores = cores }
    };
    htc_bytes bytes = { 0 };
    cr_assert(eq(int, htc_task_to_bytes(NULL, &task, &bytes), HTC_OK));
    return bytes;
}

/* Grants the tasks 1.first, 1.first+1, … as first attempts. */
static void hear_tasks(uint64_t seq, uint64_t grant, uint64_t first, uint32_t count, htc_ns wall)
{
    static htc_grant m;
    htc_bytes        task = a_task(wall);
    m = (htc_grant){ .seq = seq, .grant = grant, .kind = HTC_GRANT_TASKS, .count = count };
    for (uint32_t i = 0; i < count; i++)
        m.tasks[i] = (htc_granted){ .attempt = { 1, first + i, 1 }, .count = 100, .user = "ada", .task = task };
    htc_grant_write(&body, &m);
    htc_work_free(NULL, task);
    hear();
}

static void hear_grant(uint64_t seq, htc_grant_kind kind, htc_ns retry_ns)
{
    static htc_grant m;
    m = (htc_grant){ .seq = seq, .kind = kind, .retry_ns = retry_ns };
    htc_grant_write(&body, &m);
    hear();
}

static void hear_verdict(uint64_t task, htc_status status)
{
    htc_task_verdict_write(&body, &(htc_task_verdict){ { 1, task, 1 }, status });
    hear();
}

static void hear_answer(uint64_t seq, uint32_t flags, int revoke, int cancel)
{
    static htc_heartbeat_answer m;
    m = (htc_heartbeat_answer){ .seq = seq, .flags = flags };
    if (revoke >= 0)
        m.revoke[m.revoked++] = (htc_attempt){ 1, (uint64_t)revoke, 1 };
    if (cancel >= 0)
        m.cancel[m.cancelled++] = (htc_attempt){ 1, (uint64_t)cancel, 1 };
    htc_heartbeat_answer_write(&body, &m);
    hear();
}

static void result(uint32_t op, uint64_t run, htc_status status, htc_bytes bytes)
{
    if (op == HTC_CALL_RUN)
        running--;
    step((htc_input){ .size = sizeof(htc_input), .kind = HTC_IN_RESULT, .op = op, .tag = run, .status = status, .body = bytes });
}

static void event(uint32_t op, uint64_t run)
{
    htc_buf_clear(&body);
    htc_put_u64(&body, run);
    step((htc_input){ .size = sizeof(htc_input), .kind = HTC_IN_EVENT, .op = op, .body = htc_buf_bytes(&body) });
}

static htc_ns ran_for; /* a task; short ones are begun ahead, and told together */

static void ends(uint64_t run, htc_status status, int32_t code, uint32_t signal)
{
    htc_outcome o = { .status = status, .exit_code = code, .signal = signal, .started = 1, .ended = 1 + ran_for };
    if (status != HTC_OK)
        o.stderr_tail = htc_bytes_of("it went wrong");
    htc_buf_clear(&body);
    htc_outcome_write(&body, &o);
    result(HTC_CALL_RUN, run, HTC_OK, htc_buf_bytes(&body));
}

static void stored(uint64_t run)
{
    htc_stored stored = { .outputs = { .files = 1, .bytes = 3 } };
    htc_buf_clear(&body);
    htc_stored_write(&body, &stored);
    result(HTC_CALL_STAGE_OUT, run, HTC_OK, htc_buf_bytes(&body));
}

static void create(htc_agent_options o)
{
    o.size = sizeof o;
    o.agent = 77;
    o.peer = GATEWAY;
    o.node = "n1";
    o.memory = 1000;
    o.cores = 4;
    rng = (htc_rng){ 1 };
    env = (htc_env){ .size = sizeof env, .rng = &rng };
    now = 1000 * HTC_SECOND; /* its origin means nothing */
    running = running_max = 0;
    ran_for = 10 * HTC_SECOND;
    stopped = 0;
    owed_count = 0;
    memset(cleaned, 0, sizeof cleaned);
    memset(staged, 0, sizeof staged);
    htc_buf_init(&body, NULL, 0);
    cr_assert(eq(int, htc_output_create(NULL, 0, &out), HTC_OK));
    cr_assert(eq(int, htc_agent_create(&env, &o, &agent), HTC_OK));
    step((htc_input){ .size = sizeof(htc_input), .kind = HTC_IN_START });
    now = 1000 * HTC_SECOND;
}

static void open_connection(void)
{
    step((htc_input){ .size = sizeof(htc_input), .kind = HTC_IN_OPENED, .peer = GATEWAY });
}

/* Registered, with the first pull on its way. */
static void create_serving(htc_agent_options o)
{
    create(o);
    open_connection();
    hear_welcome(HTC_OK);
    hear_answer(1, 0, -1, -1);
    forget();
}

/* Runs tasks 1.0 … at once, of the wall limit given. */
static void create_running(htc_agent_options o, uint32_t count, htc_ns wall)
{
    create_serving(o);
    hear_tasks(1, 1, 0, count, wall);
    for (uint64_t run = 1; run <= (o.slots ? o.slots : 1); run++) {
        result(HTC_CALL_STAGE_IN, run, HTC_OK, htc_bytes_of(NULL));
        event(HTC_EVENT_STARTED, run);
    }
    forget();
}

static void destroy(void)
{
    htc_agent_ops()->destroy(agent);
    agent = NULL;
    htc_output_destroy(out);
    htc_buf_free(&body);
}

TestSuite(agent, .fini = destroy);

/* The whole life: register, pull, stage, run, store, report; the next pull leaves with the report, not after its
 * verdict. */
Test(agent, runs_a_task_and_leaves_an_empty_queue)
{
    create((htc_agent_options){ 0 });
    open_connection();
    hear_welcome(HTC_OK);
    hear_tasks(1, 1, 7, 1, 0);
    result(HTC_CALL_STAGE_IN, 1, HTC_OK, htc_bytes_of(NULL));
    event(HTC_EVENT_STARTED, 1);
    now += 2000 * MS;
    ends(1, HTC_OK, 0, 0);
    stored(1);
    hear_grant(2, HTC_GRANT_EXIT, 0);
    hear_verdict(7, HTC_OK);
    expect("[1000000] send HELLO\n"
           "[1000000] send AGENT_HELLO grant 0\n"
           "[1000000] send HEARTBEAT 1 grant 0\n"
           "[1000000] send PULL 1 want 128\n"
           "[1000000] call STAGE_IN 1\n"
           "[1000000] call RUN 1\n"
           "[1000000] send STARTED 1.7/1\n"
           "[1002000] call STAGE_OUT 1\n"
           "[1002000] send TASK_RESULT 1.7/1 HTC_OK () files 1\n"
           "[1002000] send PULL 2 want 127\n"
           "[1002000] call CLEAN 1\n"
           "[1002000] send BYE HTC_OK (the queue is empty)\n"
           "[1002000] stop HTC_OK\n");
    cr_expect(eq(u64, htc_agent_ops()->deadline(agent), HTC_NEVER));
}

/* A grant that comes twice, or again after a heartbeat, is one grant. An answered pull is not repeated, a lost one is.
 */
Test(agent, takes_a_repeated_grant_once)
{
    create_serving((htc_agent_options){ 0 });
    wait_until(now + 3000 * MS);
    expect("[1001000] send PULL 1 want 128\n"
           "[1003000] send PULL 1 want 128\n");
    hear_tasks(0, 1, 0, 1, 0);
    hear_tasks(1, 1, 0, 1, 0);
    hear_tasks(1, 1, 0, 1, 0);
    hear_tasks(9, 1, 5, 1, 0);
    expect("[1003000] call STAGE_IN 1\n");
    wait_until(now + 5000 * MS);
    expect("");
}

Test(agent, waits_as_told_and_pulls_when_nudged)
{
    create_serving((htc_agent_options){ 0 });
    hear_grant(1, HTC_GRANT_WAIT, 400 * MS);
    wait_until(now + 500 * MS);
    expect("[1000400] send PULL 2 want 128\n");
    hear_grant(2, HTC_GRANT_WAIT, 1000 * HTC_SECOND);
    htc_nudge_write(&body);
    hear();
    expect("[1000500] send PULL 3 want 128\n");
    /* A nudge that overtakes the answer "wait" counts: there is work now. */
    htc_nudge_write(&body);
    hear();
    hear_grant(3, HTC_GRANT_WAIT, 1000 * HTC_SECOND);
    expect("[1000500] send PULL 4 want 128\n");
}

/* What waits may wait for the very task that the agent holds. */
Test(agent, asks_again_when_the_last_that_it_held_is_settled)
{
    create_serving((htc_agent_options){ .slots = 2 });
    hear_tasks(1, 1, 0, 1, 0);
    result(HTC_CALL_STAGE_IN, 1, HTC_OK, htc_bytes_of(NULL));
    hear_grant(2, HTC_GRANT_WAIT, 1000 * HTC_SECOND);
    ends(1, HTC_OK, 0, 0);
    stored(1);
    expect("[1000000] call STAGE_IN 1\n"
           "[1000000] send PULL 2 want 127\n"
           "[1000000] call RUN 1\n"
           "[1000000] call STAGE_OUT 1\n"
           "[1000000] send TASK_RESULT 1.0/1 HTC_OK () files 1\n");
    hear_verdict(0, HTC_OK);
    expect("[1000000] call CLEAN 1\n"
           "[1000000] send PULL 3 want 128\n");
    hear_grant(3, HTC_GRANT_WAIT, 1000 * HTC_SECOND); /* it holds nothing: that is for another reason */
    wait_until(now + 500 * MS);
    expect("");
}

/* Prefetched tasks run one after another without a pull; the slots bound what runs at once. */
Test(agent, works_through_prefetched_tasks)
{
    create_serving((htc_agent_options){ .slots = 2 });
    hear_tasks(1, 1, 0, 3, 0);
    result(HTC_CALL_STAGE_IN, 1, HTC_OK, htc_bytes_of(NULL));
    result(HTC_CALL_STAGE_IN, 2, HTC_OK, htc_bytes_of(NULL));
    ends(2, HTC_EEXIT, 3, 0);
    stored(2);
    expect("[1000000] call STAGE_IN 1\n"
           "[1000000] call STAGE_IN 2\n"
           "[1000000] call RUN 1\n"
           "[1000000] call RUN 2\n"
           "[1000000] call STAGE_OUT 2\n"
           "[1000000] send TASK_RESULT 1.1/1 HTC_EEXIT (exit code 3) files 1\n"
           "[1000000] call STAGE_IN 3\n");
    ends(1, HTC_ESIGNAL, 0, 11);
    stored(1);
    expect("[1000000] call STAGE_OUT 1\n"
           "[1000000] send TASK_RESULT 1.0/1 HTC_ESIGNAL (killed by signal 11 (SEGV)) files 1\n"
           "[1000000] send PULL 2 want 125\n");
}

/* Both are repeated, with growing pauses, until the verdict; a discarded attempt's outputs go. */
Test(agent, repeats_a_result_until_the_verdict)
{
    create_running((htc_agent_options){ 0 }, 1, 0);
    ends(1, HTC_OK, 0, 0);
    stored(1);
    hear_grant(2, HTC_GRANT_WAIT, 1000 * HTC_SECOND);
    wait_until(now + 8000 * MS);
    hear_verdict(0, HTC_MISMATCH);
    expect("[1000000] call STAGE_OUT 1\n"
           "[1000000] send TASK_RESULT 1.0/1 HTC_OK () files 1\n"
           "[1000000] send PULL 2 want 127\n"
           "[1001000] send TASK_RESULT 1.0/1 HTC_OK () files 1\n"
           "[1003000] send TASK_RESULT 1.0/1 HTC_OK () files 1\n"
           "[1007000] send TASK_RESULT 1.0/1 HTC_OK () files 1\n"
           "[1008000] call CLEAN 1 drop\n"
           "[1008000] send PULL 3 want 128\n");
}

/* HTCaaS 6: A task runs beyond its wall-time limit. */
Test(agent, ends_a_task_at_its_wall_time_limit)
{
    create_running((htc_agent_options){ 0 }, 1, 3600 * MS);
    wait_until(now + 10000 * MS);
    hear_answer(2, 0, -1, -1);
    wait_until(now + 10000 * MS);
    ends(1, HTC_ESIGNAL, 0, 9);
    stored(1);
    expect("[1003600] call SIGNAL 1 15 HTC_EWALLTIME\n"
           "[1010000] send HEARTBEAT 2 grant 1 1.0/1r\n"
           "[1013600] call SIGNAL 1 9 HTC_EWALLTIME\n"
           "[1020000] send HEARTBEAT 3 grant 1 1.0/1r\n"
           "[1020000] call STAGE_OUT 1\n"
           "[1020000] send TASK_RESULT 1.0/1 HTC_EWALLTIME (wall-time limit of 3.600 s reached) files 1\n"
           "[1020000] send PULL 2 want 127\n");
}

/* A process that ends well before the signal reaches it has ended well: the host's answer decides. */
Test(agent, cancels_what_runs_and_what_waits)
{
    create_running((htc_agent_options){ .slots = 2 }, 4, 0);
    hear_answer(1, 0, -1, 3); /* an old answer is ignored */
    for (uint64_t i = 0; i < 3; i++) {
        htc_cancel_write(&body, &(htc_attempt){ 1, i, 1 });
        hear();
    }
    htc_cancel_write(&body, &(htc_attempt){ 1, 0, 2 });
    hear();
    ends(1, HTC_EEXIT, 143, 0);
    ends(2, HTC_OK, 0, 0);
    stored(1);
    stored(2);
    expect("[1000000] call SIGNAL 1 15 HTC_ECANCELLED\n"
           "[1000000] call SIGNAL 2 15 HTC_ECANCELLED\n"
           "[1000000] send TASK_RESULT 1.2/1 HTC_ECANCELLED (cancelled before it started)\n"
           "[1000000] call STAGE_OUT 1\n"
           "[1000000] call TAKE_BACK 1\n"
           "[1000000] call STAGE_OUT 2\n"
           "[1000000] call TAKE_BACK 2\n"
           "[1000000] send TASK_RESULT 1.0/1 HTC_ECANCELLED (cancelled) files 1\n"
           "[1000000] call STAGE_IN 4\n"
           "[1000000] send TASK_RESULT 1.1/1 HTC_OK () files 1\n"
           "[1000000] send PULL 2 want 124\n");
}

/* A revoked attempt is killed and dropped; but one that is reported waits for its verdict: the revocation may be older
 * than the commit, and its outputs would be lost. */
Test(agent, drops_revoked_attempts_but_not_reported_ones)
{
    create_running((htc_agent_options){ .slots = 2 }, 3, 0);
    ends(2, HTC_OK, 0, 0);
    stored(2);
    wait_until(now + 500 * MS);
    forget();
    wait_until(1010000 * MS);
    forget();
    hear_answer(2, 0, 0, -1);
    ends(1, HTC_EKILLED, 0, 9);
    expect("[1010000] call SIGNAL 1 9 HTC_EKILLED\n"
           "[1010000] call CLEAN 1 drop\n"
           "[1010000] send HEARTBEAT 3 grant 1 1.1/1R 1.2/1i\n" /* so the gateway knows that it has ended */
           "[1010000] send PULL 2 want 126\n");
    wait_until(1020000 * MS);
    forget();
    hear_answer(4, 0, 1, -1);
    expect("");
    hear_verdict(1, HTC_OK);
    expect("[1020000] call CLEAN 2\n");
}

/* What has not begun goes back at once, repeated like a result; what runs is finished. */
Test(agent, drains_after_the_current_task)
{
    create_running((htc_agent_options){ 0 }, 2, 0);
    htc_drain_write(&body, 1);
    hear();
    hear();
    wait_until(now + 1000 * MS);
    hear_verdict(1, HTC_OK);
    ends(1, HTC_OK, 0, 0);
    stored(1);
    hear_verdict(0, HTC_OK);
    expect("[1000000] send GIVE_BACK 1.1/1\n"
           "[1001000] send GIVE_BACK 1.1/1\n"
           "[1001000] call STAGE_OUT 1\n"
           "[1001000] send TASK_RESULT 1.0/1 HTC_OK () files 1\n"
           "[1001000] call CLEAN 1\n"
           "[1001000] send BYE HTC_OK (drained)\n"
           "[1001000] stop HTC_OK\n");
}

/* A drain that is no longer owed is called off by a message, or by the flags of the next heartbeat's answer. */
Test(agent, serves_on_when_the_drain_is_called_off)
{
    create_running((htc_agent_options){ 0 }, 1, 0);
    htc_drain_write(&body, 1);
    hear();
    wait_until(1010000 * MS);
    hear_answer(2, 0, -1, -1);
    ends(1, HTC_OK, 0, 0);
    stored(1);
    expect("[1010000] send HEARTBEAT 2 grant 1 1.0/1r\n"
           "[1010000] call STAGE_OUT 1\n"
           "[1010000] send TASK_RESULT 1.0/1 HTC_OK () files 1\n"
           "[1010000] send PULL 2 want 127\n");
}

/* The word of the agent's own host is not called off by the gateway. */
Test(agent, a_signal_to_the_agent_drains_it_for_good)
{
    create_running((htc_agent_options){ 0 }, 1, 0);
    step((htc_input){ .size = sizeof(htc_input), .kind = HTC_IN_EVENT, .op = HTC_EVENT_SHUTDOWN, .status = HTC_OK });
    wait_until(1010000 * MS);
    hear_answer(2, 0, -1, -1);
    ends(1, HTC_OK, 0, 0);
    stored(1);
    hear_verdict(0, HTC_OK);
    expect("[1010000] send HEARTBEAT 2 grant 1 1.0/1r\n"
           "[1010000] call STAGE_OUT 1\n"
           "[1010000] send TASK_RESULT 1.0/1 HTC_OK () files 1\n"
           "[1010000] call CLEAN 1\n"
           "[1010000] send BYE HTC_OK (drained)\n"
           "[1010000] stop HTC_OK\n");
}

/* With fewer slots what runs goes on, what waits is given back, and the gateway is told of each slot as its task ends. */
Test(agent, fewer_slots_end_nothing)
{
    create_running((htc_agent_options){ .slots = 3 }, 5, 0);
    hear_slots(1, 1);
    expect("[1000000] call SLOTS 1\n"
           "[1000000] send SLOTS_HELD 1: 3\n"
           "[1000000] send GIVE_BACK 1.3/1 1.4/1\n");
    hear_verdict(3, HTC_OK);
    hear_verdict(4, HTC_OK);
    ends(2, HTC_OK, 0, 0);
    stored(2);
    expect("[1000000] call STAGE_OUT 2\n"
           "[1000000] send TASK_RESULT 1.1/1 HTC_OK () files 1\n"
           "[1000000] send SLOTS_HELD 1: 2\n");
    hear_verdict(1, HTC_OK);
    ends(1, HTC_OK, 0, 0);
    stored(1);
    hear_verdict(0, HTC_OK);
    expect("[1000000] call CLEAN 2\n"
           "[1000000] call STAGE_OUT 1\n"
           "[1000000] send TASK_RESULT 1.0/1 HTC_OK () files 1\n"
           "[1000000] send SLOTS_HELD 1: 1\n"
           "[1000000] call CLEAN 1\n");
    ends(3, HTC_OK, 0, 0);
    stored(3);
    expect("[1000000] call STAGE_OUT 3\n"
           "[1000000] send TASK_RESULT 1.2/1 HTC_OK () files 1\n"
           "[1000000] send PULL 2 want 127\n");
}

/* More slots are filled at once. An older word changes nothing, and the answer says which is the newest. */
Test(agent, more_slots_are_filled)
{
    create_running((htc_agent_options){ .slots = 1 }, 1, 0);
    hear_slots(7, 2);
    expect("[1000000] call SLOTS 2\n"
           "[1000000] send SLOTS_HELD 7: 2\n"
           "[1000000] send PULL 2 want 127\n");
    hear_slots(6, 1);
    expect("[1000000] send SLOTS_HELD 7: 2\n");
    hear_slots(7, 2);
    expect("[1000000] send SLOTS_HELD 7: 2\n");
    hear_slots(7, 1); /* of another gateway, to which 7 is new */
    expect("[1000000] send SLOTS_HELD 8: 2\n");
    hear_tasks(2, 2, 1, 2, 0);
    expect("[1000000] call STAGE_IN 2\n");
}

/* A task of two cores waits for two slots, and none that came after it passes it. */
Test(agent, a_wide_task_waits_for_its_slots)
{
    create_running((htc_agent_options){ .slots = 2 }, 1, 0);
    cores = 2;
    hear_tasks(2, 2, 10, 1, 0);
    cores = 1;
    hear_tasks(0, 3, 11, 1, 0);
    expect("");
    ends(1, HTC_OK, 0, 0);
    stored(1);
    expect("[1000000] call STAGE_OUT 1\n"
           "[1000000] send TASK_RESULT 1.0/1 HTC_OK () files 1\n"
           "[1000000] call STAGE_IN 2\n");
    hear_slots(1, 1);
    forget();
    result(HTC_CALL_STAGE_IN, 2, HTC_OK, htc_bytes_of(NULL));
    event(HTC_EVENT_STARTED, 2);
    ends(2, HTC_OK, 0, 0);
    stored(2);
    expect("[1000000] call RUN 2\n"
           "[1000000] send STARTED 1.10/1\n"
           "[1000000] call STAGE_OUT 2\n"
           "[1000000] send TASK_RESULT 1.10/1 HTC_OK () files 1\n"
           "[1000000] send SLOTS_HELD 1: 1\n"
           "[1000000] send PULL 3 want 125\n");
}

/* SLOTS passes a grant on its way: what no longer fits is given back, or it would wait for ever. */
Test(agent, a_task_that_is_too_wide_is_given_back)
{
    create_serving((htc_agent_options){ .slots = 2 });
    hear_slots(1, 1);
    forget();
    cores = 2;
    hear_tasks(1, 1, 0, 1, 0);
    cores = 1;
    expect("[1000000] send PULL 2 want 127\n"
           "[1000000] send GIVE_BACK 1.0/1\n");
}

/* Told to stop, it kills and gives all back uncharged; what had ended by itself is still reported. */
Test(agent, stops_at_once_and_gives_everything_back)
{
    create_running((htc_agent_options){ .slots = 2 }, 3, 0);
    htc_stop_write(&body);
    hear();
    ends(1, HTC_EKILLED, 0, 9);
    ends(2, HTC_OK, 0, 0);
    stored(2);
    hear_verdict(2, HTC_OK);
    hear_verdict(0, HTC_OK);
    hear_verdict(1, HTC_OK);
    expect("[1000000] call SIGNAL 2 9 HTC_EKILLED\n"
           "[1000000] call SIGNAL 1 9 HTC_EKILLED\n"
           "[1000000] send GIVE_BACK 1.2/1\n"
           "[1000000] send GIVE_BACK 1.0/1\n"
           "[1000000] call STAGE_OUT 2\n"
           "[1000000] call TAKE_BACK 2\n"
           "[1000000] send TASK_RESULT 1.1/1 HTC_OK () files 1\n"
           "[1000000] call CLEAN 1 drop\n"
           "[1000000] call CLEAN 2\n"
           "[1000000] send BYE HTC_OK (told to stop)\n"
           "[1000000] stop HTC_OK\n");
}

/* Without a gateway the task runs on and its result is kept; all that waits is said again at the next connection. */
Test(agent, keeps_results_while_the_gateway_is_away)
{
    create_running((htc_agent_options){ 0 }, 1, 0);
    step((htc_input){ .size = sizeof(htc_input), .kind = HTC_IN_CLOSED, .peer = GATEWAY, .status = HTC_ECLOSED });
    ends(1, HTC_OK, 0, 0);
    stored(1);
    expect("[1000000] call STAGE_OUT 1\n");
    wait_until(now + 3600 * HTC_SECOND);
    expect("");
    open_connection();
    hear_welcome(HTC_OK);
    expect("[4600000] send HELLO\n"
           "[4600000] send AGENT_HELLO grant 1 1.0/1R\n"
           "[4600000] send TASK_RESULT 1.0/1 HTC_OK () files 1\n"
           "[4600000] send HEARTBEAT 2 grant 1 1.0/1R\n"
           "[4600000] send PULL 2 want 127\n");
    step((htc_input){ .size = sizeof(htc_input), .kind = HTC_IN_CLOSED, .peer = GATEWAY, .status = HTC_ECLOSED });
    open_connection();
    hear_welcome(HTC_OK);
    hear_verdict(0, HTC_OK);
    step((htc_input){ .size = sizeof(htc_input), .kind = HTC_IN_CLOSED, .peer = GATEWAY, .status = HTC_ECLOSED });
    forget();
    wait_until(now + 3600 * HTC_SECOND);
    expect("[4660000] stop HTC_EUNREACHABLE\n");
}

/* It slept for longer than the gateway waits. Nothing new may begin before both know where they stand. */
Test(agent, registers_again_after_it_was_stalled)
{
    create_running((htc_agent_options){ 0 }, 2, 0);
    now += 60 * HTC_SECOND;
    ends(1, HTC_OK, 0, 0);
    stored(1);
    expect("[1060000] send AGENT_HELLO grant 1 1.0/1r 1.1/1w\n"
           "[1060000] call STAGE_OUT 1\n");
    hear_welcome(HTC_OK);
    expect("[1060000] send TASK_RESULT 1.0/1 HTC_OK () files 1\n"
           "[1060000] send HEARTBEAT 2 grant 1 1.0/1R 1.1/1w\n");
    hear_answer(2, 0, 1, -1);
    expect("[1060000] send HEARTBEAT 3 grant 1 1.0/1R\n"
           "[1060000] send PULL 2 want 127\n");
}

/* A gateway that takes connections and says nothing: one connection after another, each early enough to be heard on before this agent is thought lost. */
Test(agent, connects_again_when_the_gateway_is_silent)
{
    create_running((htc_agent_options){ 0 }, 1, 0);
    wait_until(now + 21 * HTC_SECOND);
    expect("[1010000] send HEARTBEAT 2 grant 1 1.0/1r\n"
           "[1020000] close HTC_ETIMEDOUT\n");
    step((htc_input){ .size = sizeof(htc_input), .kind = HTC_IN_CLOSED, .peer = GATEWAY, .status = HTC_ETIMEDOUT });
    open_connection();
    forget();
    wait_until(now + 20 * HTC_SECOND);
    expect("[1022000] send AGENT_HELLO grant 1 1.0/1r\n"
           "[1024000] send AGENT_HELLO grant 1 1.0/1r\n"
           "[1028000] send AGENT_HELLO grant 1 1.0/1r\n"
           "[1036000] send AGENT_HELLO grant 1 1.0/1r\n"
           "[1041000] close HTC_ETIMEDOUT\n");
}

/* One that only waits for tasks of flows is silent for long, and hears nothing meanwhile. Its next beat is asked with time for the answer, also where
 * it does not rest any more. */
Test(agent, keeps_its_connection_when_its_rest_ends)
{
    create_running((htc_agent_options){ 0 }, 1, 0);
    hear_grant(2, HTC_GRANT_WAIT, 1000 * HTC_SECOND);
    forget();
    agent->beat_gap = 60 * HTC_SECOND; /* as its last beat has said */
    agent->beat_at = now + 60 * HTC_SECOND;
    wait_until(now + 65 * HTC_SECOND);
    expect("[1060000] send HEARTBEAT 2 grant 1 1.0/1r\n");
    hear_answer(2, 0, -1, -1);
    wait_until(now + 16 * HTC_SECOND);
    expect("[1070000] send HEARTBEAT 3 grant 1 1.0/1r\n"
           "[1080000] send HEARTBEAT 4 grant 1 1.0/1r\n");
    wait_until(now + 5 * HTC_SECOND);
    expect("[1085000] close HTC_ETIMEDOUT\n");
}

/* Written off: what was never reported is dropped, what was may be committed and keeps its outputs. */
Test(agent, ends_all_when_the_gateway_does_not_know_it)
{
    create_running((htc_agent_options){ .slots = 2 }, 3, 0);
    ends(1, HTC_OK, 0, 0);
    stored(1);
    step((htc_input){ .size = sizeof(htc_input), .kind = HTC_IN_CLOSED, .peer = GATEWAY, .status = HTC_ECLOSED });
    open_connection();
    forget();
    hear_welcome(HTC_ENOTFOUND);
    ends(2, HTC_EKILLED, 0, 9);
    result(HTC_CALL_STAGE_IN, 3, HTC_OK, htc_bytes_of(NULL));
    expect("[1000000] call TAKE_BACK 3\n"
           "[1000000] call SIGNAL 2 9 HTC_EKILLED\n"
           "[1000000] call CLEAN 1\n"
           "[1000000] call CLEAN 2 drop\n"
           "[1000000] call CLEAN 3 drop\n"
           "[1000000] send BYE HTC_ENOTFOUND (the gateway does not know this agent)\n"
           "[1000000] stop HTC_ENOTFOUND\n");
}

Test(agent, gives_a_task_back_when_the_node_is_full)
{
    create_serving((htc_agent_options){ 0 });
    hear_tasks(1, 1, 0, 2, 0);
    forget();
    result(HTC_CALL_STAGE_IN, 1, HTC_ENOSPC, htc_bytes_of("slots/0/scratch"));
    hear_verdict(0, HTC_OK);
    hear_verdict(1, HTC_OK);
    expect("[1000000] send GIVE_BACK 1.0/1 1.1/1\n"
           "[1000000] call CLEAN 1 drop\n"
           "[1000000] send BYE HTC_ENOSPC (staging in: the disk is full: slots/0/scratch)\n"
           "[1000000] stop HTC_ENOSPC\n");
}

/* A missing input fails at once; what may pass is tried again, three times. */
Test(agent, retries_only_passing_troubles_of_staging)
{
    create_serving((htc_agent_options){ 0 });
    hear_tasks(1, 1, 0, 2, 0);
    result(HTC_CALL_STAGE_IN, 1, HTC_EINPUT, htc_bytes_of("a.pdbqt is not there"));
    expect("[1000000] call STAGE_IN 1\n"
           "[1000000] send TASK_RESULT 1.0/1 HTC_ESTAGEIN (a.pdbqt is not there)\n"
           "[1000000] call STAGE_IN 2\n");
    hear_verdict(0, HTC_OK);
    forget();
    for (int i = 0; i < 4; i++) {
        result(HTC_CALL_STAGE_IN, 2, HTC_ETIMEDOUT, htc_bytes_of("server is slow"));
        if (i < 3)
            wait_until(now + (HTC_SECOND << i));
    }
    expect("[1001000] call STAGE_IN 2\n"
           "[1003000] call STAGE_IN 2\n"
           "[1007000] call STAGE_IN 2\n"
           "[1007000] send TASK_RESULT 1.1/1 HTC_ESTAGEIN (server is slow)\n"
           "[1007000] send PULL 2 want 127\n");
}

/* HTCaaS 6: A task or an agent is suspended, or a task does nothing for `monitor.stall_s`. */
Test(agent, a_suspended_task_is_ended_to_run_again)
{
    create_running((htc_agent_options){ 0 }, 1, 0);
    event(HTC_EVENT_TASK_STOPPED, 1);
    ends(1, HTC_EKILLED, 0, 9);
    expect("[1000000] call SIGNAL 1 9 HTC_EKILLED\n"
           "[1000000] send TASK_RESULT 1.0/1 HTC_ESTOPPED (its process was stopped by a signal such as SIGSTOP, and ended)\n"
           "[1000000] send PULL 2 want 127\n");
}

Test(agent, an_idle_task_is_ended_to_run_again)
{
    create_running((htc_agent_options){ 0 }, 1, 0);
    htc_buf_clear(&body);
    htc_put_u64(&body, 1);
    step((htc_input){ .size = sizeof(htc_input), .kind = HTC_IN_EVENT, .op = HTC_EVENT_TASK_STOPPED, .status = HTC_ETIMEDOUT, .body = htc_buf_bytes(&body) });
    ends(1, HTC_EKILLED, 0, 9);
    expect("[1000000] call SIGNAL 1 9 HTC_EKILLED\n"
           "[1000000] send TASK_RESULT 1.0/1 HTC_ESTOPPED (it used no CPU time and wrote nothing for monitor.stall_s, and was ended to run again)\n"
           "[1000000] send PULL 2 want 127\n");
}

/* What it hears while it asks is not overtaken by the answer: it asks again. */
Test(agent, leaves_on_an_empty_queue_unless_nudged)
{
    create_serving((htc_agent_options){ 0 });
    htc_nudge_write(&body);
    hear();
    hear_grant(1, HTC_GRANT_EXIT, 0);
    hear_grant(2, HTC_GRANT_EXIT, 0);
    expect("[1000000] send PULL 2 want 128\n"
           "[1000000] send BYE HTC_OK (the queue is empty)\n"
           "[1000000] stop HTC_OK\n");
}

/* A task that came from a broken gateway, or from another version, fails alone. */
Test(agent, refuses_a_task_that_it_cannot_read)
{
    static htc_grant m;
    create_serving((htc_agent_options){ 0 });
    m = (htc_grant){ .seq = 1, .grant = 1, .kind = HTC_GRANT_TASKS, .count = 1 };
    m.tasks[0] = (htc_granted){ .attempt = { 1, 0, 1 }, .count = 1, .user = "ada", .task = htc_bytes_of("?") };
    htc_grant_write(&body, &m);
    hear();
    cr_expect(strstr(trace, "send TASK_RESULT 1.0/1 HTC_EREFUSED (the task cannot be read: ") != NULL, "%s", trace);
}

/* --- any order of anything --- */

static void answer_one(uint32_t i)
{
    static const htc_status failures[] = { HTC_OK, HTC_OK, HTC_OK, HTC_EINPUT, HTC_ETIMEDOUT, HTC_ENOSPC };
    uint64_t                run = owed[i].run;
    uint32_t                op = owed[i].op;
    owed[i] = owed[--owed_count];
    htc_status status = failures[htc_rng_below(&rng, htc_rng_below(&rng, 20) ? 5 : 6)];
    if (op == HTC_CALL_RUN)
        ends(run, htc_rng_below(&rng, 3) ? HTC_OK : HTC_EKILLED, 0, 9);
    else if (op == HTC_CALL_STAGE_OUT && status == HTC_OK)
        stored(run);
    else
        result(op, run, status, htc_bytes_of("why not"));
}

#define SLOTS_MOST 4u

static void random_input(uint64_t *grant, uint64_t *seq, uint64_t *next)
{
    uint64_t task = *next ? htc_rng_below(&rng, *next) : 0;
    switch (htc_rng_below(&rng, 20)) {
    case 0:
    case 1:
    case 2:
        if (owed_count)
            answer_one((uint32_t)htc_rng_below(&rng, owed_count));
        break;
    case 3:
        if (*next < 2000) {
            uint32_t n = (uint32_t)htc_rng_below(&rng, 6);
            hear_tasks(htc_rng_below(&rng, ++*seq + 1), ++*grant, *next, n, htc_rng_below(&rng, 2) * 3 * HTC_SECOND);
            *next += n;
        }
        break;
    case 4:
        hear_tasks(*seq, *grant ? *grant : 1, task, 1, 0);
        break;
    case 5:
        hear_grant(htc_rng_below(&rng, *seq + 2), HTC_GRANT_WAIT, htc_rng_below(&rng, HTC_SECOND));
        break;
    case 6:
        hear_verdict(task, htc_rng_below(&rng, 2) ? HTC_OK : HTC_MISMATCH);
        break;
    case 7:
        hear_answer(htc_rng_below(&rng, 40), htc_rng_below(&rng, 8) == 0, (int)task, (int)task + 1);
        break;
    case 8:
        htc_cancel_write(&body, &(htc_attempt){ 1, task, 1 });
        hear();
        break;
    case 9:
        htc_drain_write(&body, (int)htc_rng_below(&rng, 2));
        hear();
        break;
    case 10:
        hear_welcome(HTC_OK);
        break;
    case 11:
        step((htc_input){ .size = sizeof(htc_input), .kind = HTC_IN_CLOSED, .peer = GATEWAY, .status = HTC_ECLOSED });
        break;
    case 12:
    case 13:
        open_connection();
        hear_welcome(HTC_OK);
        break;
    case 14:
        htc_nudge_write(&body);
        hear();
        break;
    case 15:
        event(HTC_EVENT_STARTED, htc_rng_below(&rng, 20));
        break;
    case 16:
        if (htc_rng_below(&rng, 20) == 0)
            event(HTC_EVENT_TASK_STOPPED, htc_rng_below(&rng, 20));
        break;
    case 17:
        hear_slots(1 + htc_rng_below(&rng, 300), 1 + (uint32_t)htc_rng_below(&rng, SLOTS_MOST));
        break;
    default:
        wait_until(now + htc_rng_below(&rng, 10 * HTC_SECOND));
        break;
    }
}

/* Whatever comes in whatever order: never more runs than slots that the gateway was told to be held, no step fails, and when the gateway then takes all
 * back, the agent leaves and every directory that was made has been removed exactly once. */
Test(agent, survives_any_order_of_anything)
{
    for (uint64_t seed = 1; seed <= 300; seed++) {
        uint64_t grant = 0, seq = 0, next = 0;
        create((htc_agent_options){ .slots = 1 + (uint32_t)(seed % 3) });
        rng = (htc_rng){ seed };
        ran_for = seed % 2 ? 10 * HTC_SECOND : HTC_MS;
        uint32_t most = SLOTS_MOST * (seed % 2 ? 1 : 9); /* the host keeps those that come ahead of a slot waiting */
        held = 1 + (uint32_t)(seed % 3);
        for (int i = 0; i < 300 && !stopped; i++) {
            forget();
            random_input(&grant, &seq, &next);
            cr_assert(eq(int, step_status, HTC_OK), "seed %llu", (unsigned long long)seed);
            cr_assert(seed % 2 == 0 || running <= held, "seed %llu: %u run, and %u slots are held", (unsigned long long)seed, running, held);
            cr_assert(running_max <= most, "seed %llu: %u ran at once", (unsigned long long)seed, running_max);
        }
        for (int i = 0; i < 10000 && !stopped; i++) {
            if (i < 9990)
                forget();
            if (i == 0)
                step((htc_input){ .size = sizeof(htc_input), .kind = HTC_IN_EVENT, .op = HTC_EVENT_SHUTDOWN, .status = HTC_OK });
            else if (i == 1)
                open_connection();
            else if (i == 2)
                hear_welcome(HTC_OK);
            else if (owed_count)
                answer_one(0);
            else if (i % 2)
                wait_until(now + HTC_SECOND);
            else
                for (uint64_t task = 0; task <= next && !stopped; task++)
                    hear_verdict(task, HTC_OK);
        }
        cr_assert(stopped, "seed %llu: it does not leave\n%s", (unsigned long long)seed, trace);
        for (uint64_t run = 0; run < 4096; run++)
            cr_assert(cleaned[run] == staged[run], "seed %llu: run %llu cleaned %u times", (unsigned long long)seed,
                      (unsigned long long)run, (unsigned)cleaned[run]);
        if (seed < 300)
            destroy();
    }
}

/* ---- short tasks ---- */

/* The next ones are begun ahead of the slot, more are asked for before the last has begun, and results are told together. */
Test(agent, works_ahead_of_its_slot_when_tasks_are_short)
{
    create_running((htc_agent_options){ 0 }, 8, 0);
    ran_for = HTC_MS;
    ends(1, HTC_OK, 0, 0);
    stored(1);
    expect("[1000000] call STAGE_OUT 1\n"
           "[1000000] call STAGE_IN 2\n"
           "[1000000] call STAGE_IN 3\n"
           "[1000000] call STAGE_IN 4\n"
           "[1000000] call STAGE_IN 5\n"
           "[1000000] call STAGE_IN 6\n"
           "[1000000] call STAGE_IN 7\n"
           "[1000000] call STAGE_IN 8\n");
    forget();
    for (uint64_t run = 2; run <= 4; run++)
        result(HTC_CALL_STAGE_IN, run, HTC_OK, htc_bytes_of(NULL));
    now += 2 * MS;
    ends(2, HTC_OK, 0, 0);
    stored(2);
    wait_until(now + 8 * MS);
    expect("[1000000] call RUN 2\n"
           "[1000000] call RUN 3\n"
           "[1000000] call RUN 4\n"
           "[1000002] call STAGE_OUT 2\n"
           "[1000010] send TASK_RESULT 1.1/1 HTC_OK () files 1\n"
           "[1000010] send TASK_RESULT 1.0/1 HTC_OK () files 1\n");
}

/* One that does not begin soon is for somebody else: the task before it is not as short as those before were. */
Test(agent, gives_back_what_does_not_begin_soon)
{
    create_running((htc_agent_options){ 0 }, 3, 0);
    ran_for = HTC_MS;
    ends(1, HTC_OK, 0, 0);
    stored(1);
    for (uint64_t run = 2; run <= 3; run++)
        result(HTC_CALL_STAGE_IN, run, HTC_OK, htc_bytes_of(NULL));
    event(HTC_EVENT_STARTED, 2);
    forget();
    wait_until(now + 250 * MS);
    expect("[1000010] send TASK_RESULT 1.0/1 HTC_OK () files 1\n"
           "[1000200] call TAKE_BACK 3\n");
    forget();
    result(HTC_CALL_RUN, 3, HTC_AGAIN, htc_bytes_of("not begun"));
    expect("[1000250] send GIVE_BACK 1.2/1\n");
}

/* A drain takes them back at once; a node without room is left. */
Test(agent, takes_back_at_a_drain_and_leaves_a_node_that_cannot_start)
{
    create_running((htc_agent_options){ 0 }, 3, 0);
    ran_for = HTC_MS;
    ends(1, HTC_OK, 0, 0);
    stored(1);
    for (uint64_t run = 2; run <= 3; run++)
        result(HTC_CALL_STAGE_IN, run, HTC_OK, htc_bytes_of(NULL));
    event(HTC_EVENT_STARTED, 2);
    forget();
    htc_drain_write(&body, 1);
    hear();
    cr_expect(strstr(trace, "call TAKE_BACK 3") && !strstr(trace, "call TAKE_BACK 2"), "%s", trace);
    result(HTC_CALL_RUN, 3, HTC_ENOSPC, htc_bytes_of("no place"));
    cr_expect(strstr(trace, "send GIVE_BACK 1.2/1") != NULL, "%s", trace);
}

/* ---- uploads that are not at its site ---- */

static void hear_task_of_uploads(void)
{
    static htc_grant m;
    static htc_stage in[3] = { { "a", "htc:0101010101010101010101010101010101010101010101010101010101010101", HTC_STAGE_OVERWRITE },
                               { "b", "htc:0202020202020202020202020202020202020202020202020202020202020202", HTC_STAGE_OVERWRITE },
                               { "c", "htc:0101010101010101010101010101010101010101010101010101010101010101", HTC_STAGE_OVERWRITE } };
    htc_task         task = { .executable = "/bin/true", .values_json = "{}", .in = in, .n_in = 3, .limits = { .cores = 1 } };
    htc_bytes        bytes;
    cr_assert(eq(int, htc_task_to_bytes(NULL, &task, &bytes), HTC_OK));
    m = (htc_grant){ .seq = 1, .grant = 1, .kind = HTC_GRANT_TASKS, .count = 1, .tasks = { { .attempt = { 1, 0, 1 }, .count = 100, .user = "ada", .task = bytes } } };
    htc_grant_write(&body, &m);
    htc_work_free(NULL, bytes);
    hear();
}

static void hear_here(htc_status status, const char *text)
{
    htc_content_here m = { .attempt = { 1, 0, 1 }, .status = status };
    snprintf(m.text, sizeof m.text, "%s", text);
    htc_content_here_write(&body, &m);
    hear();
}

Test(agent, asks_for_uploads_that_are_not_at_its_site)
{
    create_serving((htc_agent_options){ .brings = 1 });
    hear_task_of_uploads();
    forget();
    result(HTC_CALL_STAGE_IN, 1, HTC_ENOTFOUND, htc_bytes_of("no such file"));
    wait_until(now + 3 * HTC_SECOND); /* it says so again until it is answered */
    hear_here(HTC_OK, "");
    hear_here(HTC_OK, ""); /* late */
    result(HTC_CALL_STAGE_IN, 1, HTC_ECORRUPT, htc_bytes_of("another hash"));
    hear_here(HTC_OK, "");
    result(HTC_CALL_STAGE_IN, 1, HTC_OK, htc_bytes_of(NULL));
    expect("[1000000] send CONTENT_WANT 1.0/1 2\n"
           "[1001000] send CONTENT_WANT 1.0/1 2\n"
           "[1003000] send CONTENT_WANT 1.0/1 2\n"
           "[1003000] call STAGE_IN 1\n"
           "[1003000] send CONTENT_WANT 1.0/1 2 spoilt\n"
           "[1003000] call STAGE_IN 1\n"
           "[1003000] call RUN 1\n");
}

Test(agent, fails_a_task_whose_upload_is_nowhere)
{
    create_serving((htc_agent_options){ .brings = 1 });
    hear_task_of_uploads();
    forget();
    result(HTC_CALL_STAGE_IN, 1, HTC_ENOTFOUND, htc_bytes_of("no such file"));
    hear_here(HTC_ENOTFOUND, "upload it again");
    expect("[1000000] send CONTENT_WANT 1.0/1 2\n"
           "[1000000] send TASK_RESULT 1.0/1 HTC_ESTAGEIN (upload it again)\n"
           "[1000000] send PULL 2 want 127\n");
}

/* Where all uploads are nothing is asked for. */
Test(agent, fails_at_once_where_nothing_is_brought)
{
    create_serving((htc_agent_options){ 0 });
    hear_task_of_uploads();
    forget();
    result(HTC_CALL_STAGE_IN, 1, HTC_ENOTFOUND, htc_bytes_of("no such file"));
    expect("[1000000] send TASK_RESULT 1.0/1 HTC_ESTAGEIN (no such file)\n"
           "[1000000] send PULL 2 want 127\n");
}

Test(agent, gives_a_task_back_whose_upload_does_not_come)
{
    create_serving((htc_agent_options){ .brings = 1 });
    hear_task_of_uploads();
    result(HTC_CALL_STAGE_IN, 1, HTC_ENOTFOUND, htc_bytes_of("no such file"));
    for (int i = 0; i < 12; i++) {
        wait_until(now + 5 * HTC_SECOND);
        hear_answer((uint64_t)i + 2, 0, -1, -1);
    }
    forget();
    wait_until(now + 10 * HTC_SECOND);
    cr_expect(strstr(trace, "send GIVE_BACK 1.0/1") != NULL, "%s", trace);
}

Test(agent, cancels_at_once_what_waits_for_an_upload)
{
    create_serving((htc_agent_options){ .brings = 1 });
    hear_task_of_uploads();
    result(HTC_CALL_STAGE_IN, 1, HTC_ENOTFOUND, htc_bytes_of("no such file"));
    forget();
    htc_cancel_write(&body, &(htc_attempt){ 1, 0, 1 });
    hear();
    cr_expect(strstr(trace, "HTC_ECANCELLED") != NULL, "%s", trace);
    hear_here(HTC_OK, "");
    cr_expect(strstr(trace, "call STAGE_IN") == NULL, "%s", trace);
}

static void hear_offer(const char *dir)
{
    htc_agent_welcome m = { HTC_OK, 10 * HTC_SECOND, 30 * HTC_SECOND, "", "", "" };
    snprintf(m.outputs, sizeof m.outputs, "%s", dir);
    snprintf(m.outputs_id, sizeof m.outputs_id, "1d");
    htc_agent_welcome_write(&body, &m);
    hear();
}

static void found(htc_status status, const char *text)
{
    result(HTC_CALL_OUTPUTS_AT, 0, status, htc_bytes_of(text));
}

/* Where outputs go is found out for each word of the gateway, and it is told. */
Test(agent, outputs_go_where_the_gateway_says_if_the_host_sees_it)
{
    create((htc_agent_options){ .shares = 1 });
    open_connection();
    forget();
    hear_offer("/srv/data");
    found(HTC_ENOTFOUND, "no mount");
    expect("[1000000] call OUTPUTS_AT /srv/data 1d\n"
           "[1000000] send HEARTBEAT 1 grant 0\n"
           "[1000000] send PULL 1 want 128\n"
           "[1000000] send AGENT_OUTPUTS HTC_ENOTFOUND (no mount)\n");
    hear_grant(1, HTC_GRANT_WAIT, 1000 * HTC_SECOND);
    wait_until(now + 9000 * MS);
    forget();
    for (int i = 1; i <= 3; i++) { /* the host is asked again, and what is not new is not told */
        hear_answer((uint64_t)i, 0, -1, -1);
        wait_until(now + 10000 * MS);
    }
    cr_expect(strstr(trace, "call OUTPUTS_AT") != NULL, "not asked again: %s", trace);
    found(HTC_ENOTFOUND, "no mount");
    cr_expect(strstr(trace, "send AGENT_OUTPUTS") == NULL, "told twice: %s", trace);
    forget();
    for (int i = 4; i <= 7; i++) {
        hear_answer((uint64_t)i, 0, -1, -1);
        wait_until(now + 10000 * MS);
    }
    cr_expect(strstr(trace, "call OUTPUTS_AT") != NULL, "not asked again: %s", trace);
    forget();
    found(HTC_OK, "");
    cr_expect(strstr(trace, "send AGENT_OUTPUTS HTC_OK ()\n") != NULL, "%s", trace);
}

Test(agent, a_host_that_does_not_share_says_so_and_one_with_a_path_of_its_own_uses_that)
{
    create((htc_agent_options){ 0 });
    open_connection();
    forget();
    hear_offer("/srv/data");
    cr_expect(strstr(trace, "AGENT_OUTPUTS HTC_EUNSUPPORTED (data.output is local") != NULL && !strstr(trace, "OUTPUTS_AT"), "%s", trace);
    htc_agent_ops()->destroy(agent);
    htc_output_destroy(out);
    htc_buf_free(&body);
    create((htc_agent_options){ .shares = 1, .outputs = "/mnt/head" });
    open_connection();
    forget();
    hear_offer("/srv/data");
    cr_expect(strstr(trace, "call OUTPUTS_AT /mnt/head 1d\n") != NULL, "%s", trace);
    found(HTC_OK, "");
    step((htc_input){ .size = sizeof(htc_input), .kind = HTC_IN_CLOSED, .peer = GATEWAY, .status = HTC_ECLOSED });
    open_connection();
    forget();
    hear_welcome(HTC_OK); /* a gateway that wants them no more */
    cr_expect(strstr(trace, "call OUTPUTS_AT  \n") != NULL, "%s", trace);
}
