/* What tasks read and make: a worker by hand whose flow has files. */
#include "expect.h"

#include <string.h>

#include "property.h"
#include "worker_rig.h"

TestSuite(worker_data);

enum { TASKS = 5 };

typedef struct scene {
    rig        r;
    htc_buf    bytes;
    graph_task first; /* record of task 0, in bytes */
    flow       header;
} scene;

static void begin(scene *s, int done)
{
    rig_open(&s->r, 3);
    htc_buf_init(&s->bytes, NULL, 0);
    rig_put_files(&s->r, TASKS, done);
}

static void start(scene *s)
{
    htc_worker_options o = rig_options();
    rig_start(&s->r, &o, NULL);
}

static void look_again(scene *s)
{
    cr_assert(rig_get_task(&s->r, 0, &s->bytes, &s->first) && rig_get_header(&s->r, &s->header));
}

static htc_worker_figures figures(const scene *s)
{
    htc_worker_figures f = { .size = sizeof f };
    cr_assert(htc_worker_look(s->r.worker, &f) == HTC_OK);
    return f;
}

static void end(scene *s)
{
    htc_buf_free(&s->bytes);
    rig_close(&s->r);
}

/* The record of task 0, changed. */
static void claimed_by(scene *s, uint64_t worker, uint64_t epoch)
{
    look_again(s);
    s->first.redo_worker = worker;
    s->first.redo_epoch = epoch;
    rig_put_task(&s->r, 0, &s->first);
}

static void expect_ended_well(scene *s)
{
    look_again(s);
    cr_expect(s->r.ended && s->r.status == HTC_OK && s->header.state == FLOW_ENDED && s->header.counts.done == TASKS);
}

Test(worker_data, what_is_made_is_known_to_who_reads_it)
{
    scene        s;
    graph_object made, known;
    htc_buf      second;
    graph_task   t;
    begin(&s, 0);
    start(&s);
    rig_pass(&s.r, HTC_SECOND);
    expect_ended_well(&s);
    cr_expect(figures(&s).made == TASKS && figures(&s).remade == 0);
    cr_expect(s.first.moved == 0);
    htc_buf_init(&second, NULL, 0);
    cr_assert(rig_get_task(&s.r, 1, &second, &t));
    cr_assert(htc__graph_made(&s.first, htc_bytes_of("out"), &made) == HTC_OK && htc__graph_known(&t, 0, &known) == HTC_OK);
    cr_expect(made.worker == 1 && known.worker == 1 && made.size == 5 && known.size == 5 && memcmp(made.hash, known.hash, 32) == 0 && t.data == 5);
    htc_buf_free(&second);
    end(&s);
}

/* Once, and the outcome stays that of the first run. */
Test(worker_data, what_is_lost_is_made_again)
{
    scene s;
    begin(&s, 1);
    start(&s);
    rig_pass(&s.r, HTC_SECOND);
    expect_ended_well(&s);
    cr_expect(figures(&s).remade == 1 && s.r.asked[HTC_CALL_RUN] == TASKS);
    cr_expect(s.first.made_by == 1 && s.first.redo_worker == 0 && s.first.outcome.worker == RIG_MAKER && s.first.state == GRAPH_DONE);
    end(&s);
}

/* Of a dead worker, or of a life before of this one: anybody's. */
Test(worker_data, a_claim_of_the_dead_is_anybodys)
{
    static const uint64_t who[] = { RIG_MAKER, 1 };
    for (size_t i = 0; i < 2; i++) {
        scene s;
        begin(&s, 1);
        claimed_by(&s, who[i], 12345);
        start(&s);
        rig_pass(&s.r, HTC_SECOND);
        expect_ended_well(&s);
        cr_expect(figures(&s).remade == 1);
        end(&s);
    }
}

/* It is reminded, and not hurried. */
Test(worker_data, what_another_makes_again_is_waited_for)
{
    scene s;
    begin(&s, 1);
    claimed_by(&s, 2, 9);
    rig_other_worker(&s.r, 2, 9);
    start(&s);
    rig_pass(&s.r, 20 * HTC_SECOND);
    look_again(&s);
    cr_expect(s.first.redo_worker == 2 && figures(&s).remade == 0 && s.r.asked[HTC_CALL_RUN] == 0);
    cr_expect(rig_heard(&s.r, HTC_WIRE_WORKER_REDO) && rig_heard(&s.r, HTC_WIRE_WORKER_REDO)->m.note == 0);
    claimed_by(&s, 0, 0); /* it gives up */
    rig_pass(&s.r, 40 * HTC_SECOND);
    expect_ended_well(&s);
    cr_expect(figures(&s).remade == 1);
    end(&s);
}

/* The answer to its claim never came, and whoever needed it does not any more. */
Test(worker_data, a_claim_that_is_not_remembered_is_given_back)
{
    scene    s;
    uint32_t other;
    begin(&s, 0);
    s.r.left = 1;
    rig_other_worker(&s.r, 2, 9);
    start(&s);
    other = 10 + s.r.last_peer;
    rig_pass(&s.r, HTC_SECOND);
    flow_key      k = htc__flow_key_worker(RIG_FLOW, 1);
    htc_kv_result result = { 0 };
    flow_worker   self;
    cr_assert(rig_ask(&s.r, &(htc_kv_request){ .size = sizeof(htc_kv_request), .op = HTC_KV_GET, .key = htc__flow_key_bytes(&k) }, &result) == HTC_OK);
    cr_assert(htc__flow_worker_read(result.value, &self) == HTC_OK);
    look_again(&s);
    s.first.state = GRAPH_DONE;
    s.first.made_by = 2;
    uint8_t made[GRAPH_MADE_BYTES] = { 1 };
    s.first.made = (htc_bytes){ made, sizeof made };
    rig_put_task(&s.r, 0, &s.first);
    claimed_by(&s, 1, self.epoch);
    rig_say(&s.r, other, HTC_WIRE_WORKER_REDO, (worker_message){ .note = 0 });
    rig_pass(&s.r, HTC_SECOND);
    look_again(&s);
    cr_expect(s.first.redo_worker == 0 && figures(&s).remade == 0);
    rig_say(&s.r, other, HTC_WIRE_WORKER_REDO, (worker_message){ .note = TASKS }); /* there is no such task */
    rig_pass(&s.r, HTC_SECOND);
    cr_expect(!s.r.ended);
    end(&s);
}

/* It cannot be made again: who reads it fails, and says so. */
Test(worker_data, what_cannot_be_made_again_fails_who_reads_it)
{
    scene    s;
    uint32_t seen = 0, runs = 0;
    begin(&s, 1);
    s.r.left = 1;
    start(&s);
    while (seen < s.r.n_calls && runs < 10) {
        htc_effect e = s.r.calls[seen++ % RIG_KEPT];
        htc_stored stored = { 0 };
        htc_buf    b;
        htc_buf_init(&b, NULL, 0);
        htc_stored_write(&b, &stored);
        if (e.op == HTC_CALL_STAGE_IN)
            rig_answer(&s.r, &e, HTC_OK, htc_bytes_of(NULL));
        else if (e.op == HTC_CALL_STAGE_OUT)
            rig_answer(&s.r, &e, HTC_OK, htc_buf_bytes(&b));
        else if (e.op == HTC_CALL_RUN) {
            runs++;
            rig_ends(&s.r, &e, HTC_EEXIT);
        }
        htc_buf_free(&b);
        rig_pass(&s.r, HTC_SECOND);
    }
    look_again(&s);
    cr_expect(s.r.ended && s.header.state == FLOW_ENDED && s.header.counts.done == 1 && s.header.counts.failed == 1 && s.header.counts.cancelled == TASKS - 2);
    cr_expect(runs == 3 && s.first.redo_worker == 0 && s.first.state == GRAPH_DONE);
    htc_buf    second;
    graph_task t;
    htc_buf_init(&second, NULL, 0);
    cr_assert(rig_get_task(&s.r, 1, &second, &t));
    cr_expect(t.state == GRAPH_FAILED && strstr(t.outcome.reason, "could not be made again"), "%s", t.outcome.reason);
    htc_buf_free(&second);
    end(&s);
}

/* A task that reads what another makes and does not wait for it. */
Test(worker_data, who_does_not_wait_for_what_it_reads_is_told)
{
    scene      s;
    graph_task t;
    htc_buf    reads, last;
    begin(&s, 0);
    htc_buf_init(&reads, NULL, 0);
    htc_buf_init(&last, NULL, 0);
    cr_assert(rig_get_task(&s.r, 0, &last, &t));
    htc_put_u64(&reads, TASKS - 1);
    htc_put_str(&reads, "out");
    t.reads = htc_buf_bytes(&reads);
    rig_put_task(&s.r, 0, &t);
    start(&s);
    rig_pass(&s.r, HTC_SECOND);
    look_again(&s);
    cr_expect(s.first.state == GRAPH_FAILED && strstr(s.first.outcome.reason, "does not wait for it"), "%s", s.first.outcome.reason);
    htc_buf_free(&reads);
    htc_buf_free(&last);
    end(&s);
}

/* It is cancelled, and moments later, while that is being stored, what it reads is there: it does not begin any more. */
Test(worker_data, inputs_of_a_task_that_was_cancelled_meanwhile_begin_nothing)
{
    uint32_t cancelled = 0;
    for (uint32_t moments = 0; moments < 24; moments++) {
        scene      s;
        graph_task t;
        htc_buf    second;
        begin(&s, 1);
        s.r.held = 1;
        rig_other_worker(&s.r, RIG_MAKER, 5);
        start(&s);
        for (int i = 0; i < 100 && !s.r.asked[HTC_CALL_OBJECT_ROOM]; i++)
            rig_pass(&s.r, HTC_MS);
        htc_effect room = s.r.calls[(s.r.n_calls - 1) % RIG_KEPT];
        cr_assert(room.op == HTC_CALL_OBJECT_ROOM && s.r.asked[HTC_CALL_OBJECT_ROOM] == 1);
        s.r.held = 0;
        look_again(&s);
        s.header.marks[s.header.n_marks++] = (ledger_span){ 1, 2 };
        rig_write_header(&s.r, &s.header);
        for (uint32_t i = 0; i < moments; i++)
            (void)rig_one(&s.r);
        rig_answer(&s.r, &room, HTC_EEXISTS, htc_bytes_of(NULL));
        rig_pass(&s.r, HTC_SECOND);
        look_again(&s);
        htc_buf_init(&second, NULL, 0);
        cr_assert(rig_get_task(&s.r, 1, &second, &t));
        cr_expect(s.r.ended && s.r.status == HTC_OK && s.header.state == FLOW_ENDED, "after %u inputs", (unsigned)moments);
        cr_expect(s.header.counts.done + s.header.counts.cancelled == TASKS, "after %u inputs", (unsigned)moments);
        cancelled += t.state == GRAPH_CANCELLED && s.r.asked[HTC_CALL_STAGE_IN] == 0;
        htc_buf_free(&second);
        end(&s);
    }
    cr_expect(cancelled > 0, "it always began before it was cancelled");
}

/* Its slot is somebody else's when what it reads is there: it waits for another one. */
Test(worker_data, inputs_without_a_slot_begin_nothing)
{
    scene s;
    begin(&s, 1);
    s.r.held = 1;
    rig_other_worker(&s.r, RIG_MAKER, 5);
    start(&s);
    for (int i = 0; i < 100 && !s.r.asked[HTC_CALL_OBJECT_ROOM]; i++)
        rig_pass(&s.r, HTC_MS);
    htc_effect room = s.r.calls[(s.r.n_calls - 1) % RIG_KEPT];
    cr_assert(room.op == HTC_CALL_OBJECT_ROOM);
    s.r.held = 0;
    htc_worker_slots(s.r.worker, 0);
    rig_answer(&s.r, &room, HTC_EEXISTS, htc_bytes_of(NULL));
    rig_pass(&s.r, HTC_SECOND);
    cr_expect(s.r.asked[HTC_CALL_STAGE_IN] == 0 && figures(&s).running == 0);
    s.r.here = 1; /* what has come stays */
    htc_worker_slots(s.r.worker, 1);
    rig_pass(&s.r, HTC_SECOND);
    expect_ended_well(&s);
    end(&s);
}
