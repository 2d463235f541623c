/* The messages of gateway and agent: what is written is read, and nothing that a stranger sends leaves its bounds. */
#include "expect.h"
#include <stdio.h>
#include <string.h>

#include "core/util.h"
#include "htcsched/calls.h"
#include "roles/runtime/agent_wire.h"

static htc_buf b;

static void open_buf(void)
{
    htc_buf_init(&b, NULL, 0);
}

static void close_buf(void)
{
    htc_buf_free(&b);
}

static htc_reader payload(uint16_t expected)
{
    uint16_t   type;
    uint64_t   id;
    htc_reader r = htc_wire_open(htc_buf_bytes(&b), &type, &id);
    cr_assert(eq(int, b.status, HTC_OK));
    cr_assert(eq(u16, type, expected));
    cr_assert(eq(u64, id, 0));
    return r;
}

static htc_attempt some_attempt(htc_rng *rng)
{
    return (htc_attempt){ htc_rng_next(rng) >> htc_rng_below(rng, 64), htc_rng_next(rng) >> htc_rng_below(rng, 64),
                          (uint32_t)(htc_rng_next(rng) >> 32) };
}

static int same_attempt(const htc_attempt *x, const htc_attempt *y)
{
    return x->job == y->job && x->task == y->task && x->attempt == y->attempt;
}

static void some_held(htc_rng *rng, htc_held_list *list)
{
    list->count = (uint32_t)htc_rng_below(rng, HTC_AGENT_HELD_MAX + 1);
    for (uint32_t i = 0; i < list->count; i++)
        list->held[i] = (htc_held){ some_attempt(rng), (uint8_t)(1 + htc_rng_below(rng, HTC_HELD_REPORTING)) };
}

static int same_held(const htc_held_list *x, const htc_held_list *y)
{
    int same = x->count == y->count;
    for (uint32_t i = 0; same && i < x->count; i++)
        same = same_attempt(&x->held[i].attempt, &y->held[i].attempt) && x->held[i].state == y->held[i].state;
    return same;
}

TestSuite(agent_wire, .init = open_buf, .fini = close_buf);

/* Registration and heartbeat carry the same list; 200 random ones of every length. */
Test(agent_wire, hello_and_heartbeat_read_back)
{
    htc_rng rng = { 1 };
    for (int i = 0; i < 200; i++) {
        htc_agent_hello hello = { .agent = htc_rng_next(&rng),
                                  .node = "node-7.example",
                                  .slots = 3,
                                  .memory = 1 << 30,
                                  .cores = 16,
                                  .seq = 9,
                                  .last_grant = htc_rng_next(&rng) },
                        hello2;
        some_held(&rng, &hello.held);
        htc_agent_hello_write(&b, &hello);
        htc_reader r = payload(HTC_WIRE_AGENT_HELLO);
        cr_assert(eq(int, htc_agent_hello_read(&r, &hello2), HTC_OK));
        cr_assert(hello2.agent == hello.agent && strcmp(hello2.node, hello.node) == 0 && hello2.slots == 3 &&
                  hello2.memory == 1 << 30 && hello2.cores == 16 && hello2.seq == 9 &&
                  hello2.last_grant == hello.last_grant && same_held(&hello2.held, &hello.held));
        htc_heartbeat beat = { .agent = 5, .seq = UINT64_MAX, .last_grant = 6, .next = 7 * HTC_SECOND, .held = hello.held }, beat2;
        htc_heartbeat_write(&b, &beat);
        r = payload(HTC_WIRE_HEARTBEAT);
        cr_assert(eq(int, htc_heartbeat_read(&r, &beat2), HTC_OK));
        cr_assert(beat2.agent == 5 && beat2.seq == UINT64_MAX && beat2.last_grant == 6 && beat2.next == 7 * HTC_SECOND &&
                  same_held(&beat2.held, &beat.held));
    }
}

Test(agent_wire, answers_of_the_gateway_read_back)
{
    htc_rng              rng = { 2 };
    htc_heartbeat_answer answer = { .seq = 3, .flags = HTC_AGENT_STOP, .revoked = HTC_AGENT_HELD_MAX, .cancelled = 1 },
                         a2;
    for (uint32_t i = 0; i < HTC_AGENT_HELD_MAX; i++)
        answer.revoke[i] = answer.cancel[i] = some_attempt(&rng);
    htc_heartbeat_answer_write(&b, &answer);
    htc_reader r = payload(HTC_WIRE_HEARTBEAT_ANSWER);
    cr_assert(eq(int, htc_heartbeat_answer_read(&r, &a2), HTC_OK));
    cr_expect(a2.seq == 3 && a2.flags == HTC_AGENT_STOP && a2.revoked == HTC_AGENT_HELD_MAX && a2.cancelled == 1);
    cr_expect(same_attempt(&a2.revoke[127], &answer.revoke[127]) && same_attempt(&a2.cancel[0], &answer.cancel[0]));

    htc_agent_welcome welcome = { HTC_ENOTFOUND, 10 * HTC_SECOND, 30 * HTC_SECOND, "tcp://10.0.0.1:7421", "", "" }, w2;
    htc_agent_welcome_write(&b, &welcome);
    r = payload(HTC_WIRE_AGENT_WELCOME);
    cr_assert(eq(int, htc_agent_welcome_read(&r, &w2), HTC_OK));
    cr_expect(w2.status == HTC_ENOTFOUND && w2.heartbeat_ns == 10 * HTC_SECOND && w2.lost_after_ns == 30 * HTC_SECOND);

    snprintf(welcome.outputs, sizeof welcome.outputs, "/srv/head/data");
    snprintf(welcome.outputs_id, sizeof welcome.outputs_id, "%064d", 7);
    welcome.store[0] = '\0';
    htc_agent_welcome_write(&b, &welcome);
    r = payload(HTC_WIRE_AGENT_WELCOME);
    cr_assert(eq(int, htc_agent_welcome_read(&r, &w2), HTC_OK));
    cr_expect(!w2.store[0] && strcmp(w2.outputs, welcome.outputs) == 0 && strcmp(w2.outputs_id, welcome.outputs_id) == 0);
    snprintf(welcome.outputs, sizeof welcome.outputs, "srv/head/data");
    htc_agent_welcome_write(&b, &welcome);
    r = payload(HTC_WIRE_AGENT_WELCOME);
    cr_expect(eq(int, htc_agent_welcome_read(&r, &w2), HTC_EPROTO), "a path that is relative");

    htc_task_verdict verdict = { some_attempt(&rng), HTC_MISMATCH }, v2;
    htc_task_verdict_write(&b, &verdict);
    r = payload(HTC_WIRE_TASK_VERDICT);
    cr_assert(eq(int, htc_task_verdict_read(&r, &v2), HTC_OK));
    cr_expect(same_attempt(&v2.attempt, &verdict.attempt) && v2.status == HTC_MISMATCH);
}

Test(agent_wire, grants_read_back)
{
    static htc_grant grant, g2;
    htc_rng          rng = { 3 };
    grant = (htc_grant){ .seq = 4, .grant = 7, .kind = HTC_GRANT_TASKS, .count = HTC_AGENT_HELD_MAX };
    for (uint32_t i = 0; i < grant.count; i++) {
        htc_granted *t = &grant.tasks[i];
        t->attempt = some_attempt(&rng);
        t->count = htc_rng_next(&rng);
        t->compat = i % 3;
        t->signal = i % 2 ? 1 + i % 64 : 0;
        t->signal_s = i % 2 ? 1 + i * 500 : 0;
        snprintf(t->user, sizeof t->user, "user%u", (unsigned)i);
        t->task = (htc_bytes){ "how to dock a ligand", i % 20 };
    }
    htc_grant_write(&b, &grant);
    htc_reader r = payload(HTC_WIRE_GRANT);
    cr_assert(eq(int, htc_grant_read(&r, &g2), HTC_OK));
    cr_assert(g2.seq == 4 && g2.grant == 7 && g2.count == grant.count);
    for (uint32_t i = 0; i < grant.count; i++) {
        cr_expect(same_attempt(&g2.tasks[i].attempt, &grant.tasks[i].attempt));
        cr_expect(g2.tasks[i].count == grant.tasks[i].count && g2.tasks[i].compat == i % 3);
        cr_expect(g2.tasks[i].signal == grant.tasks[i].signal && g2.tasks[i].signal_s == grant.tasks[i].signal_s);
        cr_expect(eq(str, g2.tasks[i].user, grant.tasks[i].user));
        cr_expect(htc_bytes_equal(g2.tasks[i].task, grant.tasks[i].task));
    }
    /* A signal that there is not, and a time that is none. */
    for (int i = 0; i < 2; i++) {
        grant.count = 1;
        grant.tasks[0].signal = i ? 65 : 10;
        grant.tasks[0].signal_s = i ? 5 : 65536;
        htc_grant_write(&b, &grant);
        r = payload(HTC_WIRE_GRANT);
        cr_expect(eq(int, htc_grant_read(&r, &g2), HTC_EPROTO));
    }
    /* Only a grant of tasks is numbered. */
    grant = (htc_grant){ .seq = 5, .kind = HTC_GRANT_WAIT, .retry_ns = HTC_SECOND };
    htc_grant_write(&b, &grant);
    r = payload(HTC_WIRE_GRANT);
    cr_expect(eq(int, htc_grant_read(&r, &g2), HTC_OK));
    cr_expect(g2.kind == HTC_GRANT_WAIT && g2.retry_ns == HTC_SECOND && g2.count == 0);
    grant.grant = 1;
    htc_grant_write(&b, &grant);
    r = payload(HTC_WIRE_GRANT);
    cr_expect(eq(int, htc_grant_read(&r, &g2), HTC_EPROTO));
}

Test(agent_wire, small_messages_of_the_agent_read_back)
{
    htc_rng  rng = { 4 };
    htc_pull pull = { 1, 2, 3, 4 }, p2;
    htc_pull_write(&b, &pull);
    htc_reader r = payload(HTC_WIRE_PULL);
    cr_assert(eq(int, htc_pull_read(&r, &p2), HTC_OK));
    cr_expect(p2.agent == 1 && p2.seq == 2 && p2.want == 3 && p2.last_grant == 4);

    htc_started started = { 8, some_attempt(&rng) }, s2;
    htc_started_write(&b, &started);
    r = payload(HTC_WIRE_STARTED);
    cr_assert(eq(int, htc_started_read(&r, &s2), HTC_OK));
    cr_expect(s2.agent == 8 && same_attempt(&s2.attempt, &started.attempt));

    htc_give_back back = { .agent = 9, .count = 2, .attempts = { some_attempt(&rng), some_attempt(&rng) } }, b2;
    htc_give_back_write(&b, &back);
    r = payload(HTC_WIRE_GIVE_BACK);
    cr_assert(eq(int, htc_give_back_read(&r, &b2), HTC_OK));
    cr_expect(b2.agent == 9 && b2.count == 2 && same_attempt(&b2.attempts[1], &back.attempts[1]));

    htc_bye bye = { 10, HTC_ENOSPC, "no space left in the scratch directory" }, y2;
    htc_bye_write(&b, &bye);
    r = payload(HTC_WIRE_BYE);
    cr_assert(eq(int, htc_bye_read(&r, &y2), HTC_OK));
    cr_expect(y2.agent == 10 && y2.status == HTC_ENOSPC && strcmp(y2.reason, bye.reason) == 0);

    int on = 0;
    htc_drain_write(&b, 1);
    r = payload(HTC_WIRE_DRAIN);
    cr_expect(htc_drain_read(&r, &on) == HTC_OK && on == 1);
    htc_cancel_write(&b, &started.attempt);
    r = payload(HTC_WIRE_CANCEL);
    cr_expect(htc_cancel_read(&r, &s2.attempt) == HTC_OK && same_attempt(&s2.attempt, &started.attempt));
    htc_slots      slots;
    htc_slots_held filled;
    htc_slots_write(&b, &(htc_slots){ 9, 64 });
    r = payload(HTC_WIRE_SLOTS);
    cr_expect(htc_slots_read(&r, &slots) == HTC_OK && slots.seq == 9 && slots.slots == 64);
    htc_slots_write(&b, &(htc_slots){ 9, 0 }); /* none at all is DRAIN */
    r = payload(HTC_WIRE_SLOTS);
    cr_expect(htc_slots_read(&r, &slots) == HTC_EPROTO);
    htc_slots_held_write(&b, &(htc_slots_held){ 11, 9, 65 });
    r = payload(HTC_WIRE_SLOTS_HELD);
    cr_expect(htc_slots_held_read(&r, &filled) == HTC_OK && filled.agent == 11 && filled.seq == 9 && filled.slots == 65);
    htc_stop_write(&b);
    r = payload(HTC_WIRE_STOP);
    cr_expect(eq(sz, htc_reader_left(&r), 0));
    htc_nudge_write(&b);
    r = payload(HTC_WIRE_NUDGE);
    cr_expect(eq(sz, htc_reader_left(&r), 0));
}

static htc_task_result some_result(void)
{
    htc_task_result result = { .agent = 11, .attempt = { 3, 7, 2 } };
    result.outcome = (htc_outcome){ .status = HTC_ESIGNAL,
                                    .exit_code = -1,
                                    .signal = 11,
                                    .cpu_ns = 12,
                                    .memory_peak = 13,
                                    .started = 14,
                                    .ended = 15,
                                    .node = "n1",
                                    .reason = "killed by signal 11 (SEGV)",
                                    .stderr_tail = htc_bytes_of("oops"),
                                    .final = 1,
                                    .outputs = { 999999, 3, 4, 5, UINT64_C(1) << 40, 300, { 1, 2, 3 } } };
    return result;
}

static int same_outputs(const htc_outputs *a, const htc_outputs *c)
{
    return a->files == c->files && a->dirs == c->dirs && a->links == c->links && a->errors == c->errors && a->bytes == c->bytes &&
           a->manifest_bytes == c->manifest_bytes && memcmp(a->manifest, c->manifest, 32) == 0;
}

Test(agent_wire, results_read_back)
{
    htc_task_result result = some_result(), r2;
    htc_task_result_write(&b, &result);
    htc_reader r = payload(HTC_WIRE_TASK_RESULT);
    cr_assert(eq(int, htc_task_result_read(&r, &r2), HTC_OK));
    cr_expect(r2.agent == 11 && same_attempt(&r2.attempt, &result.attempt));
    cr_expect(r2.outcome.status == HTC_ESIGNAL && r2.outcome.exit_code == -1 && r2.outcome.signal == 11);
    cr_expect(r2.outcome.cpu_ns == 12 && r2.outcome.memory_peak == 13 && r2.outcome.started == 14 &&
              r2.outcome.ended == 15);
    cr_expect(eq(str, r2.outcome.node, "n1"));
    cr_expect(eq(str, r2.outcome.reason, "killed by signal 11 (SEGV)"));
    cr_expect(htc_bytes_equal(r2.outcome.stderr_tail, htc_bytes_of("oops")));
    cr_expect(eq(u8, r2.outcome.final, 1));
    cr_expect(same_outputs(&r2.outcome.outputs, &result.outcome.outputs));
}

/* What the executor answers when it has staged out, with a manifest and without one. */
Test(agent_wire, what_was_stored_reads_back)
{
    htc_stored stored[] = { { HTC_ESTAGEOUT, 1, "an output is not stored: x", { 1, 2, 3, 4, 5, 6, { 7 } } }, { .status = HTC_OK } }, s2;
    for (size_t i = 0; i < 2; i++) {
        htc_buf_clear(&b);
        htc_stored_write(&b, &stored[i]);
        htc_reader r = htc_reader_of(htc_buf_bytes(&b));
        cr_assert(eq(int, htc_stored_read(&r, &s2), HTC_OK));
        cr_expect(s2.status == stored[i].status && s2.final == stored[i].final && strcmp(s2.reason, stored[i].reason) == 0);
        cr_expect(same_outputs(&s2.outputs, &stored[i].outputs));
    }
}

/* A list that is longer than its places, or than the bytes that came, is refused before anything is written. */
Test(agent_wire, counts_are_checked_against_places_and_bytes)
{
    static htc_give_back back;
    const uint64_t       counts[] = { HTC_AGENT_HELD_MAX + 1, 1000, UINT32_MAX, UINT64_MAX };
    for (size_t i = 0; i < sizeof counts / sizeof counts[0]; i++) {
        htc_buf_clear(&b);
        htc_put_u64(&b, 1);
        htc_put_varint(&b, counts[i]);
        for (int j = 0; j < 4000; j++)
            htc_put_u8(&b, 1);
        htc_reader r = htc_reader_of(htc_buf_bytes(&b));
        cr_expect(eq(int, htc_give_back_read(&r, &back), HTC_EPROTO));
    }
    back = (htc_give_back){ .count = HTC_AGENT_HELD_MAX + 1 };
    htc_give_back_write(&b, &back);
    cr_expect(eq(int, b.status, HTC_EFULL));
}

/* Every shorter piece of a result is refused; so is one with a byte more. */
Test(agent_wire, cut_results_are_refused)
{
    htc_task_result result = some_result(), r2;
    htc_task_result_write(&b, &result);
    htc_put_u8(&b, 0);
    htc_bytes all = htc_buf_bytes(&b);
    for (size_t n = 10; n <= all.len; n++) {
        uint16_t   type;
        uint64_t   id;
        htc_reader r = htc_wire_open((htc_bytes){ all.data, n }, &type, &id);
        cr_assert(eq(int, htc_task_result_read(&r, &r2), n == all.len - 1 ? HTC_OK : HTC_EPROTO), "%zu of %zu bytes", n, all.len);
    }
}

Test(agent_wire, calls_and_events_have_names)
{
    cr_expect(eq(str, (char *)htc_call_name(HTC_CALL_STAGE_OUT), "STAGE_OUT"));
    cr_expect(eq(str, (char *)htc_call_name(HTC_EVENT_SHUTDOWN), "SHUTDOWN"));
    cr_expect(eq(str, (char *)htc_call_name(9999), "?"));
}
