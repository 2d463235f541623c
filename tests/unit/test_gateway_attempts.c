/* What is said of an attempt counts if the agent that holds it says it, over a connection of its own host: no other agent ends, begins or gives back a task,
 * or has its uploads brought. Two hosts with an agent each, in the test's hand. */
#include "gateway_far.h"

static uint32_t op;
static uint64_t job;
static hand     east, west;
static htc_attempt of_east, of_west;

static void sites(htc_gateway_options *o)
{
    static const htc_site_options all[] = { { .size = sizeof all[0], .name = "east", .cores = 1, .joins = 1 },
                                            { .size = sizeof all[0], .name = "west", .cores = 1, .joins = 1 } };
    o->sites = all;
    o->n_sites = 2;
    o->slots_max = 64;
}

static hand agent_of(const char *name)
{
    far_host *h = join(name, 1);
    uint32_t  slots;
    char      user[64];
    rig_pass(&r, HTC_SECOND);
    uint64_t id = asked(h, &slots, user);
    cr_assert(id != 0, "nothing was launched at %s", name);
    launched(h, id);
    hand a = register_on(id, name, 1);
    cr_assert(eq(int, welcome_of(&a), HTC_OK));
    return a;
}

static void begin_attempts(void)
{
    begin();
    rig_kill(&r);
    r.change = sites;
    rig_start(&r);
    op = operator_peer();
    job = submit(op, "olga", SWEEP(9));
    east = agent_of("east");
    west = agent_of("west");
    cr_assert(eq(u32, pull(&east, &of_east), HTC_GRANT_TASKS));
    cr_assert(eq(u32, pull(&west, &of_west), HTC_GRANT_TASKS));
    cr_assert(ne(u64, of_east.task, of_west.task));
}

TestSuite(gateway_attempts, .init = begin_attempts, .fini = end);

static void said(const hand *h, void (*write)(htc_buf *, const void *), const void *m)
{
    htc_buf b;
    htc_buf_init(&b, NULL, 0);
    write(&b, m);
    rig_say(&r, h->peer, &b);
    htc_buf_free(&b);
    rig_pass(&r, 100 * HTC_MS);
}

static void write_back(htc_buf *b, const void *m) { htc_give_back_write(b, m); }
static void write_started(htc_buf *b, const void *m) { htc_started_write(b, m); }
static void write_want(htc_buf *b, const void *m) { htc_content_want_write(b, m); }
static void write_bye(htc_buf *b, const void *m) { htc_bye_write(b, m); }

static void give_back(const hand *h, const htc_attempt *at)
{
    htc_give_back m = { .agent = h->id, .count = 1, .attempts = { *at } };
    said(h, write_back, &m);
}

/* Both tasks are as they were, and end as their own agents say. */
static void both_are_held(void)
{
    cr_expect(eq(long, (long)(count_of(op, job, "leased") + count_of(op, job, "running")), 2));
    cr_expect(eq(long, (long)(count_of(op, job, "done") + count_of(op, job, "failed")), 0));
    cr_expect(eq(int, report(&east, &of_east, HTC_OK), HTC_OK));
    cr_expect(eq(int, report(&west, &of_west, HTC_OK), HTC_OK));
    rig_pass(&r, HTC_SECOND);
    cr_expect(eq(long, (long)count_of(op, job, "done"), 2));
    books();
}

Test(gateway_attempts, nobody_ends_the_attempt_of_another)
{
    htc_attempt guessed = of_east;
    cr_expect(eq(int, report(&west, &of_east, HTC_OK), HTC_MISMATCH));
    cr_expect(eq(int, report(&west, &of_east, HTC_EEXIT), HTC_MISMATCH));
    guessed.attempt++; /* the one to come is nobody's */
    cr_expect(eq(int, report(&west, &guessed, HTC_OK), HTC_MISMATCH));
    cr_expect(eq(int, report(&east, &guessed, HTC_OK), HTC_MISMATCH));
    guessed.attempt = of_east.attempt;
    guessed.task = of_east.task > of_west.task ? of_east.task + 1 : of_west.task + 1; /* it waits */
    cr_expect(eq(int, report(&west, &guessed, HTC_OK), HTC_MISMATCH));
    both_are_held();
}

Test(gateway_attempts, nobody_speaks_in_the_name_of_another)
{
    hand forged = { .id = east.id, .peer = west.peer };
    cr_expect(eq(int, report(&forged, &of_east, HTC_OK), HTC_AGAIN), "nothing is answered");
    give_back(&forged, &of_east);
    htc_bye bye = { .agent = east.id };
    said(&forged, write_bye, &bye);
    both_are_held();
}

Test(gateway_attempts, nobody_gives_back_or_begins_what_another_holds)
{
    htc_started begun = { .agent = west.id, .attempt = of_east };
    give_back(&west, &of_east);
    said(&west, write_started, &begun);
    cr_expect(eq(long, (long)count_of(op, job, "running"), 0));
    begun.agent = east.id;
    said(&east, write_started, &begun);
    cr_expect(eq(long, (long)count_of(op, job, "running"), 1));
    both_are_held();
}

Test(gateway_attempts, nobody_has_the_uploads_of_another_brought)
{
    uint8_t          hash[32] = { 7 };
    htc_content_want m = { .agent = west.id, .attempt = of_east, .hashes = { hash, sizeof hash } };
    said(&west, write_want, &m);
    cr_expect(rig_newest(&r, west.peer, HTC_WIRE_CONTENT_HERE) == NULL, "it is answered");
    m.attempt = of_west; /* its own task reads none */
    said(&west, write_want, &m);
    const rig_message *told = rig_newest(&r, west.peer, HTC_WIRE_CONTENT_HERE);
    htc_content_here   here;
    cr_assert(told != NULL, "nothing is answered");
    htc_reader in = htc_reader_of((htc_bytes){ told->bytes, told->len });
    cr_assert(eq(int, htc_content_here_read(&in, &here), HTC_OK));
    cr_expect(eq(int, here.status, HTC_EDENIED));
    both_are_held();
}

/* A task that was given back runs again elsewhere: what held it before has no say any more. */
Test(gateway_attempts, an_attempt_that_is_over_says_nothing_of_the_next_one)
{
    htc_attempt next = { .job = 0 }, forged;
    cr_expect(eq(int, report(&west, &of_west, HTC_OK), HTC_OK));
    rig_pass(&r, HTC_SECOND);
    give_back(&east, &of_east);
    while (next.job == 0 || next.task != of_east.task) {
        cr_assert(eq(u32, pull(&west, &next), HTC_GRANT_TASKS), "the task is not given again");
        if (next.task != of_east.task)
            cr_assert(eq(int, report(&west, &next, HTC_OK), HTC_OK));
        rig_pass(&r, HTC_SECOND);
    }
    cr_expect(gt(u32, next.attempt, of_east.attempt));
    forged = next;
    cr_expect(eq(int, report(&east, &of_east, HTC_OK), HTC_MISMATCH));
    cr_expect(eq(int, report(&east, &forged, HTC_OK), HTC_MISMATCH));
    give_back(&east, &next);
    cr_expect(eq(long, (long)(count_of(op, job, "leased") + count_of(op, job, "running")), 1));
    cr_expect(eq(int, report(&west, &next, HTC_OK), HTC_OK));
    books();
}
