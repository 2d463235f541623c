/* Where ready tasks wait: a worker by hand whose tasks read files of known sizes, at known workers. */
#include "expect.h"

#include <string.h>

#include "htcsched/locality.h"
#include "worker_rig.h"

TestSuite(worker_places);

enum { TASKS = 4, OTHER = 2 };

typedef struct scene {
    rig        r;
    htc_buf    bytes;
    graph_task t;
    uint32_t   peer; /* of OTHER */
} scene;

/* A task that waits for nothing and reads one file of that size; 0: none. */
static void put_task(scene *s, uint64_t id, uint64_t size, uint64_t worker)
{
    htc_task   task = { .executable = "/bin/true", .values_json = "{}", .limits = { .cores = 1 } };
    uint8_t    known[GRAPH_KNOWN_BYTES] = { 0 };
    htc_bytes  bytes;
    htc_buf    reads;
    graph_task t = { .state = GRAPH_OPEN, .kind = htc_bytes_of("kind") };
    htc_buf_init(&reads, NULL, 0);
    cr_assert(htc_task_to_bytes(NULL, &task, &bytes) == HTC_OK);
    if (size) {
        htc_put_u64(&reads, 100 + id);
        htc_put_str(&reads, "file");
        known[4] = (uint8_t)(id + 1); /* its hash */
        htc__le64_put(known + 36, size);
        htc__le64_put(known + 44, worker);
        t.known = (htc_bytes){ known, sizeof known };
        t.data = size;
    }
    t.reads = htc_buf_bytes(&reads);
    t.makes = (htc_bytes){ "\3out", 4 };
    t.task = bytes;
    rig_put_task(&s->r, id, &t);
    htc_work_free(NULL, bytes);
    htc_buf_free(&reads);
}

/* Sizes of the tasks' files, all at this worker. A network on which a byte takes a second: data binds. */
static void begin(scene *s, uint32_t rule, const uint64_t sizes[TASKS])
{
    ledger l;
    rig_open(&s->r, 3);
    htc_buf_init(&s->bytes, NULL, 0);
    s->r.here = 1;
    s->r.places = (flow_places){ .rule = (uint8_t)rule, .bytes_per_s = 1 };
    htc__ledger_init(&l, (ledger_span){ 0, TASKS });
    rig_put_ledger(&s->r, 0, &l);
    for (uint64_t id = 0; id < TASKS; id++)
        put_task(s, id, sizes[id], 1);
    rig_put_header_of(&s->r, FLOW_BUILDING, FLOW_GRAPH, TASKS, 1);
}

/* Another worker, which owns ledger 1; it has those tasks. */
static void put_other(scene *s, ledger_span live)
{
    ledger l;
    htc__ledger_init(&l, live);
    htc__ledger_take(&l, OTHER, 9);
    rig_put_ledger(&s->r, 1, &l);
}

static void start_of(scene *s, uint64_t tasks)
{
    htc_worker_options o = rig_options();
    o.slots = 1;
    rig_start(&s->r, &o, NULL);
    rig_pass(&s->r, HTC_MS); /* it is one of the group, and has called the other */
    rig_put_header_of(&s->r, FLOW_RUNNING, FLOW_GRAPH, tasks, 1);
    rig_pass(&s->r, HTC_MS);
}

static void start(scene *s)
{
    start_of(s, TASKS);
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

/* Attempts are numbered as they begin. */
static uint32_t begun(scene *s, uint64_t id)
{
    cr_assert(rig_get_task(&s->r, id, &s->bytes, &s->t));
    return s->t.outcome.attempt & 0xffff;
}

Test(worker_places, most_data_begins_first)
{
    static const uint64_t sizes[TASKS] = { 10, 30, 0, 20 };
    static const uint32_t rules[] = { HTC_LOCALITY_MLB, HTC_LOCALITY_MDL, HTC_LOCALITY_RLDS, HTC_LOCALITY_FLDS };
    for (size_t i = 0; i < 4; i++) {
        scene s;
        begin(&s, rules[i], sizes);
        start(&s);
        rig_pass(&s.r, HTC_SECOND);
        cr_assert(s.r.ended && s.r.status == HTC_OK);
        cr_expect(begun(&s, 1) < begun(&s, 3) && begun(&s, 3) < begun(&s, 0) && begun(&s, 0) < begun(&s, 2), "rule %u", rules[i]);
        end(&s);
    }
}

/* What is local goes before what is anybody's, however much that reads. */
Test(worker_places, local_goes_before_shared)
{
    static const uint64_t sizes[TASKS] = { 0, 0, 0, 1 };
    scene s;
    begin(&s, HTC_LOCALITY_MDL, sizes);
    start(&s);
    rig_pass(&s.r, HTC_SECOND);
    cr_assert(s.r.ended && s.r.status == HTC_OK);
    cr_expect(begun(&s, 3) < begun(&s, 0));
    end(&s);
}

static void steal(scene *s, uint32_t rule, ledger *victim)
{
    static const uint64_t sizes[TASKS] = { 40, 10, 30, 20 };
    begin(s, rule, sizes);
    put_other(s, (ledger_span){ 0, 0 });
    s->r.left = 1; /* the first to begin stays running */
    rig_other_worker(&s->r, OTHER, 9);
    start(s);
    s->peer = 10 + s->r.last_peer;
    rig_pass(&s->r, HTC_MS);
    rig_say(&s->r, s->peer, HTC_WIRE_WORKER_STEAL, (worker_message){ .seq = 5, .to = 1 });
    rig_pass(&s->r, 10 * HTC_MS);
    cr_assert(rig_get_ledger(&s->r, 0, victim));
}

/* Half of the three that wait, rounded up: those with least. */
Test(worker_places, a_thief_gets_least_data)
{
    scene  s;
    ledger victim;
    steal(&s, HTC_LOCALITY_MLB, &victim);
    cr_assert(victim.n_out == 1 && victim.out[0].ledger == 1);
    cr_expect(htc__ledger_note_tasks(&victim.out[0]) == 2 && victim.out[0].n == 2 && victim.out[0].ids[0].from == 1 && victim.out[0].ids[1].from == 3);
    cr_expect(figures(&s).given == 2 && figures(&s).pushed == 0);
    end(&s);
}

Test(worker_places, what_is_local_is_not_stolen)
{
    scene  s;
    ledger victim;
    steal(&s, HTC_LOCALITY_MDL, &victim);
    cr_expect(victim.n_out == 0 && figures(&s).local == 3 && figures(&s).ready == 3);
    /* by another policy it is anybody's */
    s.r.places.rule = HTC_LOCALITY_MLB;
    rig_put_header_of(&s.r, FLOW_RUNNING, FLOW_GRAPH, TASKS, 1);
    rig_pass(&s.r, HTC_MS);
    cr_expect(figures(&s).local == 0 && figures(&s).ready == 3);
    rig_say(&s.r, s.peer, HTC_WIRE_WORKER_STEAL, (worker_message){ .seq = 6, .to = 1 });
    rig_pass(&s.r, 10 * HTC_MS);
    cr_assert(rig_get_ledger(&s.r, 0, &victim));
    cr_expect(victim.n_out == 1 && figures(&s).given == 2);
    end(&s);
}

Test(worker_places, a_task_goes_to_its_data)
{
    static const uint64_t sizes[TASKS] = { 0, 0, 0, 0 };
    scene  s;
    ledger victim;
    begin(&s, HTC_LOCALITY_MDL, sizes);
    put_task(&s, 3, 50, OTHER);
    put_other(&s, (ledger_span){ 0, 0 });
    s.r.left = 1;
    rig_other_worker(&s.r, OTHER, 9);
    start(&s);
    rig_pass(&s.r, 20 * HTC_MS);
    cr_assert(rig_get_ledger(&s.r, 0, &victim) && victim.n_out == 1);
    cr_expect(victim.out[0].ledger == 1 && victim.out[0].n == 1 && victim.out[0].ids[0].from == 3);
    const rig_said *said = rig_heard(&s.r, HTC_WIRE_WORKER_NOTE);
    cr_assert(said && said->m.seq == 1 && said->m.to == 1);
    cr_expect(figures(&s).pushed == 1 && figures(&s).given == 0);
    end(&s);
}

/* Neither what was pushed nor what was stolen travels again, though its data is elsewhere. */
Test(worker_places, a_task_travels_once)
{
    for (uint64_t pushed = 0; pushed < 2; pushed++) {
        static const uint64_t sizes[TASKS] = { 0, 0, 0, 0 };
        scene    s;
        ledger   l;
        uint64_t note = 0;
        begin(&s, HTC_LOCALITY_MDL, sizes);
        put_task(&s, 3, 50, OTHER);
        htc__ledger_init(&l, (ledger_span){ 0, 3 });
        rig_put_ledger(&s.r, 0, &l);
        htc__ledger_init(&l, (ledger_span){ 3, 4 });
        htc__ledger_take(&l, OTHER, 9);
        cr_assert(htc__ledger_give(&l, &(ledger_span){ 3, 4 }, 1, 0, &note) == HTC_OK);
        rig_put_ledger(&s.r, 1, &l);
        s.r.left = 1;
        rig_other_worker(&s.r, OTHER, 9);
        start(&s);
        rig_say(&s.r, 10 + s.r.last_peer, HTC_WIRE_WORKER_NOTE, (worker_message){ .from = 1, .note = note, .to = 0, .seq = pushed });
        rig_pass(&s.r, 20 * HTC_MS);
        cr_assert(rig_get_ledger(&s.r, 0, &l));
        cr_expect(htc__ids_has(&l.live, (ledger_span){ 3, 4 }) && l.n_out == 0 && figures(&s).pushed == 0);
        cr_expect(figures(&s).stolen == !pushed && figures(&s).local == pushed, "%lu stolen, %lu local", figures(&s).stolen, figures(&s).local);
        end(&s);
    }
}

/* A ledger with more tasks than GRAPH_LIVE could be read by nobody, and the flow would not end. */
Test(worker_places, more_than_a_ledger_may_have_stays_in_its_note)
{
    static const uint64_t sizes[TASKS] = { 0, 0, 0, 0 };
    for (uint64_t more = 0; more < 2; more++) {
        enum { MOST = 65536 }; /* GRAPH_LIVE */
        uint64_t tasks = MOST + more, note = 0;
        scene    s;
        ledger   l;
        begin(&s, HTC_LOCALITY_MDL, sizes);
        rig_put_header_of(&s.r, FLOW_BUILDING, FLOW_GRAPH, tasks, 1);
        htc__ledger_init(&l, (ledger_span){ TASKS, tasks });
        htc__ledger_take(&l, OTHER, 9);
        cr_assert(htc__ledger_give(&l, &(ledger_span){ TASKS, tasks }, 1, 0, &note) == HTC_OK);
        rig_put_ledger(&s.r, 1, &l);
        s.r.left = 1;
        rig_other_worker(&s.r, OTHER, 9);
        start_of(&s, tasks);
        rig_say(&s.r, 10 + s.r.last_peer, HTC_WIRE_WORKER_NOTE, (worker_message){ .from = 1, .note = note, .to = 0 });
        rig_pass(&s.r, 20 * HTC_MS);
        cr_assert(rig_get_ledger(&s.r, 0, &l));
        cr_expect(htc__ids_count(&l.live) == (more ? TASKS : tasks) && htc__ledger_accepted(&l, 1, note) == !more, "%llu tasks more than it may have: it has %llu",
                  (unsigned long long)more, (unsigned long long)htc__ids_count(&l.live));
        end(&s);
    }
}
