/* Registers under random schedules: what they promise holds, and each rule that is left out is noticed. */
#include "alloc_fail.h"
#include "property.h"
#include "register_world.h"

static setting some_setting(htc_rng *rng)
{
    return (setting){ .owners = htc_rng_below(rng, 3) ? 3 : 5,
                      .proposers = 2 + (uint32_t)htc_rng_below(rng, 2),
                      .lose = 10 + (unsigned)htc_rng_below(rng, 80),
                      .doubled = (unsigned)htc_rng_below(rng, 80),
                      .kill = (unsigned)htc_rng_below(rng, 150),
                      .collect = (unsigned)htc_rng_below(rng, 300),
                      .wipe = 500,
                      .once = htc_rng_below(rng, 2) ? 0 : (unsigned)htc_rng_below(rng, 500),
                      .number_of_requests = 50,
                      .block = 2 + htc_rng_below(rng, 30) };
}

Test(register, is_linearizable, .timeout = 900)
{
    unsigned handed_over = 0, unknown = 0, collected = 0, answered = 0, requests = 0;
    PROPERTY(rng, 2000)
    {
        setting     s = some_setting(&rng);
        world      *w = world_run(htc_rng_next(&rng), &s);
        const char *wrong = verdict(w);
        HOLDS(wrong == NULL && "linearizable");
        handed_over += w->handed_over;
        unknown += w->unknown;
        collected += w->collected;
        answered += w->answered;
        requests += (unsigned)w->requests;
        world_free(w);
    }
    if (getenv("HTC_TEST_SEED"))
        return;
    /* The schedules reach what they are for. */
    cr_expect(handed_over > property_times(20) && unknown > property_times(20) && collected > property_times(20) && answered > requests / 2,
              "%u handed over, %u unknown, %u collected, %u of %u answered", handed_over, unknown, collected, answered,
              requests);
}

static void is_noticed(const char *rule)
{
    for (uint64_t seed = 1; seed <= 1000; seed++) {
        htc_rng rng = { seed };
        setting s = some_setting(&rng);
        htc__broken_set(htc__broken_find(rule), 1);
        world *w = world_run(htc_rng_next(&rng), &s);
        htc__broken_set(htc__broken_find(rule), 0);
        const char *wrong = verdict(w);
        world_free(w);
        if (wrong) {
            fprintf(stderr, "%s: seed %u: %s\n", rule, (unsigned)seed, wrong);
            return;
        }
    }
    cr_assert(0, "nobody notices that %s", rule);
}

#define NOTICED(rule)                                                                                                  \
    Test(register_without, rule, .timeout = 250)                                                                       \
    {                                                                                                                  \
        is_noticed(#rule);                                                                                             \
    }

NOTICED(promise_unchecked)
NOTICED(ballot_reused)
NOTICED(read_not_written_back)
NOTICED(wiped_same_name)
NOTICED(sequence_forgotten)
NOTICED(ack_before_sync)
NOTICED(floor_not_raised)
NOTICED(old_term_accepted)

/* ---- one proposer by hand: three owners, of whom one never answers ---- */

typedef struct hand {
    htc__kv_register *reg;
    htc__kv_owners    owners;
    htc__kv_cell      cell[3];
    htc__kv_floors    floors[3];
    uint8_t           bytes[3][256];
    htc_ns            now;
    int               present; /* owners that answer */
    packet           *asked;
    htc_status        status[64]; /* of each tag; HTC_AGAIN: not answered yet */
    uint64_t          reserve;
} hand;

static void hand_send(void *ctx, const htc__kv_owners *owners, uint32_t mask, const htc__kv_ask *ask)
{
    hand    *h = ctx;
    packet **at = &h->asked;
    htc_buf  b;
    htc_buf_init(&b, NULL, 0);
    htc__kv_ask_write(&b, ask);
    while (*at)
        at = &(*at)->next;
    for (uint32_t i = 0; i < owners->n; i++)
        if (mask >> i & 1) {
            *at = packet_of(ASK, htc_buf_bytes(&b));
            (*at)->to = i;
            at = &(*at)->next;
        }
    htc_buf_free(&b);
}

static void hand_done(void *ctx, uint64_t tag, const htc__kv_outcome *out)
{
    ((hand *)ctx)->status[tag] = out->result.status;
}

static void hand_over(void *ctx, uint64_t tag, uint64_t to, int tried)
{
    (void)ctx, (void)tag, (void)to, (void)tried;
    cr_assert(0, "handed over");
}

static void hand_reserve(void *ctx, uint64_t counter)
{
    ((hand *)ctx)->reserve = counter;
}

static void hand_answer_one(hand *h)
{
    htc__kv_ask   ask;
    htc__kv_reply reply;
    packet       *p = h->asked;
    h->asked = p->next;
    if ((int)p->to < h->present) {
        htc_buf b;
        htc_buf_init(&b, NULL, 0);
        cr_assert(htc__kv_ask_read((htc_bytes){ p->data, p->len }, 0, &ask) == HTC_OK);
        unsigned duties = htc__kv_acceptor_step(&h->cell[p->to], &h->floors[p->to], &ask, &reply);
        htc__kv_cell_write(&b, &h->cell[p->to]); /* its own bytes, as a disk would keep them */
        if (duties & HTC__KV_REPLY) /* which borrows what was held before */
            htc__kv_register_reply(h->reg, h->now, p->to + 1, &reply);
        memcpy(h->bytes[p->to], b.data, b.len);
        if (!(duties & HTC__KV_DROP_CELL))
            htc__kv_cell_read((htc_bytes){ h->bytes[p->to], b.len }, &h->floors[p->to], &h->cell[p->to]);
        htc_buf_free(&b);
    }
    free(p);
}

/* All that is asked of owners, and whatever that leads to, while no time passes. */
static void hand_answer(hand *h)
{
    while (h->asked)
        hand_answer_one(h);
}

static void hand_ask(hand *h, uint64_t tag, uint32_t op)
{
    htc_kv_request q = { .size = sizeof q, .op = op, .key = htc_bytes_of("k"), .value = htc_bytes_of(op == HTC_KV_PUT ? "v" : "") };
    htc__kv_stamp  stamp = { .client = 9, .sequence = tag + 1, .fresh = 1 };
    h->status[tag] = HTC_AGAIN;
    cr_assert(htc__kv_register_ask(h->reg, h->now, &h->owners, &q, &stamp, 0, HTC_NEVER, tag) == HTC_OK);
}

static void hand_open(hand *h)
{
    htc__kv_register_options o = { .self = 1, .seed = 1, .retry_ns = 20 * HTC_MS };
    htc__kv_register_host    host = { hand_send, hand_done, hand_over, hand_reserve, h };
    *h = (hand){ .owners = { .epoch = 1, .n = 3, .id = { 1, 2, 3 } }, .now = HTC_SECOND, .present = 3 };
    cr_assert(htc__kv_register_create(NULL, &o, &host, &h->reg) == HTC_OK);
    htc__kv_register_reserved(h->reg, h->now, h->reserve);
    hand_ask(h, 0, HTC_KV_PUT);
    hand_answer(h);
    hand_ask(h, 1, HTC_KV_DELETE);
    hand_answer(h);
    cr_assert(h->status[0] == HTC_OK && h->status[1] == HTC_OK);
}

static htc_status hand_collect(hand *h, uint64_t tag)
{
    h->status[tag] = HTC_AGAIN;
    return htc__kv_register_collect(h->reg, h->now, &h->owners, htc_bytes_of("k"), tag);
}

static void hand_close(hand *h)
{
    hand_answer(h);
    htc__kv_register_destroy(h->reg);
}

Test(register_collection, needs_every_owner_and_then_leaves_the_floor)
{
    hand h;
    hand_open(&h);
    cr_expect(hand_collect(&h, 2) == HTC_OK);
    hand_answer(&h);
    cr_expect(h.status[2] == HTC_OK && !h.cell[0].present && !h.cell[2].present && h.floors[1].version > 0);
    hand_close(&h);
}

/* Owners with much to do answer late: whoever said it again meanwhile would make that more. */
Test(register_patience, what_is_answered_late_is_said_once)
{
    hand           h;
    const uint64_t requests = 40, late = 300 * HTC_MS; /* fifteen times as late as what is said again at once */
    hand_open(&h);
    uint64_t before = htc__kv_register_counted(h.reg)->said_again;
    for (uint64_t i = 0; i < requests; i++) {
        htc_ns until = h.now + late;
        hand_ask(&h, 2 + i, HTC_KV_PUT);
        for (htc_ns at; (at = htc__kv_register_deadline(h.reg)) < until;) {
            h.now = at > h.now ? at : h.now + HTC_MS;
            htc__kv_register_timeout(h.reg, h.now);
        }
        h.now = until;
        hand_answer(&h);
        cr_assert(h.status[2 + i] == HTC_OK, "request %lu", i);
    }
    uint64_t again = htc__kv_register_counted(h.reg)->said_again - before;
    cr_expect(again <= 60, "%lu messages were said again for %lu requests", again, requests);
    hand_close(&h);
}

/* An owner that is gone for good must not be waited for by anybody who can do without it. */
Test(register_collection, is_in_nobodys_way)
{
    hand h;
    hand_open(&h);
    h.present = 2;
    cr_expect(hand_collect(&h, 2) == HTC_OK);
    hand_answer(&h);
    cr_expect(h.status[2] == HTC_AGAIN); /* it waits for the third */
    hand_ask(&h, 3, HTC_KV_GET);
    cr_expect(hand_collect(&h, 4) == HTC_EBUSY); /* nor behind anybody */
    hand_answer(&h);
    cr_expect(h.status[2] == HTC_EBUSY && h.status[3] == HTC_ENOTFOUND, "%s, %s", htc_status_name(h.status[2]),
              htc_status_name(h.status[3]));
    hand_close(&h);
}

/* The same while a collection writes back what it found different: that is seen through, to a majority. */
Test(register_collection, writes_back_and_yields)
{
    hand h;
    hand_open(&h);
    h.present = 2;
    hand_ask(&h, 2, HTC_KV_PUT);
    hand_answer(&h);
    hand_ask(&h, 3, HTC_KV_DELETE);
    hand_answer(&h);
    cr_assert(h.status[3] == HTC_OK);
    h.present = 3; /* the third shows an older tombstone, and is gone again before it accepts the newer one */
    cr_expect(hand_collect(&h, 4) == HTC_OK);
    uint64_t accepts = htc__kv_register_counted(h.reg)->accepts;
    while (htc__kv_register_counted(h.reg)->accepts == accepts)
        hand_answer_one(&h);
    h.present = 2;
    hand_ask(&h, 5, HTC_KV_GET);
    cr_expect(h.status[4] == HTC_AGAIN);
    hand_answer(&h);
    cr_expect(h.status[4] == HTC_EBUSY && h.status[5] == HTC_ENOTFOUND, "%s, %s", htc_status_name(h.status[4]),
              htc_status_name(h.status[5]));
    hand_close(&h);
}

/* Who missed the word that all had confirmed is not left with its tombstone for ever. */
Test(register_collection, reaches_who_was_not_told)
{
    hand h;
    hand_open(&h);
    cr_expect(hand_collect(&h, 2) == HTC_OK);
    while (h.status[2] == HTC_AGAIN)
        hand_answer_one(&h);
    h.present = 2;
    hand_answer(&h);
    cr_assert(!h.cell[0].present && !h.cell[1].present && h.cell[2].present);
    h.present = 3;
    cr_expect(hand_collect(&h, 3) == HTC_OK);
    hand_answer(&h);
    cr_expect(h.status[3] == HTC_OK && !h.cell[2].present, "%s", htc_status_name(h.status[3]));
    cr_expect(hand_collect(&h, 4) == HTC_OK);
    hand_answer(&h);
    cr_expect(h.status[4] == HTC_ENOTFOUND);
    hand_close(&h);
}

/* ---- rounds that take long ---- */

static void hand_wait(hand *h, htc_ns span)
{
    for (htc_ns until = h->now + span, at; (at = htc__kv_register_deadline(h->reg)) <= until;) {
        h->now = at;
        htc__kv_register_timeout(h->reg, at);
        hand_answer(h);
    }
}

/* Nobody has anything against it: another ballot would be stored no sooner than this one. */
Test(register_rounds, what_nobody_has_refused_goes_on)
{
    hand h;
    hand_open(&h);
    uint64_t before = htc__kv_register_counted(h.reg)->prepares;
    h.present = 1;
    hand_ask(&h, 2, HTC_KV_PUT);
    hand_answer(&h);
    hand_wait(&h, 5 * HTC_SECOND);
    cr_expect(h.status[2] == HTC_AGAIN && htc__kv_register_counted(h.reg)->said_again > 300);
    h.present = 2;
    hand_wait(&h, 50 * HTC_MS);
    cr_expect(h.status[2] == HTC_OK && htc__kv_register_counted(h.reg)->prepares == before);
    hand_close(&h);
}

/* One has promised more to somebody, another one is gone: only a higher ballot finds a majority. */
Test(register_rounds, what_one_has_refused_is_begun_anew)
{
    hand h;
    hand_open(&h);
    uint64_t before = htc__kv_register_counted(h.reg)->prepares;
    h.present = 2;
    h.cell[1].promise = (htc__kv_ballot){ 1, h.cell[1].promise.counter + 1000, 2 };
    hand_ask(&h, 2, HTC_KV_PUT);
    hand_answer(&h);
    hand_wait(&h, 50 * HTC_MS);
    cr_expect(h.status[2] == HTC_AGAIN && htc__kv_register_counted(h.reg)->prepares == before);
    hand_wait(&h, 50 * HTC_MS);
    cr_expect(h.status[2] == HTC_OK && htc__kv_register_counted(h.reg)->prepares == before + 1);
    hand_close(&h);
}

/* ---- a compare-and-swap that some owners have taken ---- */

/* By a client that repeats itself, or by nobody (client 0). */
static void hand_swap(hand *h, uint64_t tag, uint32_t op, uint64_t by, uint64_t version)
{
    htc_kv_request q = { .size = sizeof q, .op = op, .key = htc_bytes_of("k"), .value = htc_bytes_of("mine"), .version = version,
                         .seen = htc_bytes_of(op == HTC_KV_CAS_VALUE ? "v" : "") };
    htc__kv_stamp  stamp = { .client = by, .sequence = by ? tag + 1 : 0, .fresh = 1 };
    h->status[tag] = HTC_AGAIN;
    cr_assert(htc__kv_register_ask(h->reg, h->now, &h->owners, &q, &stamp, 0, HTC_NEVER, tag) == HTC_OK);
}

/* The second owner proposes a put, and all hold what came of it. */
static void hand_other_puts(hand *h, uint64_t tag)
{
    htc__kv_register        *mine = h->reg;
    htc__kv_register_options o = { .self = 2, .seed = 2, .retry_ns = 20 * HTC_MS };
    htc__kv_register_host    host = { hand_send, hand_done, hand_over, hand_reserve, h };
    cr_assert(htc__kv_register_create(NULL, &o, &host, &h->reg) == HTC_OK);
    htc__kv_register_reserved(h->reg, h->now, h->reserve);
    htc_kv_request q = { .size = sizeof q, .op = HTC_KV_PUT, .key = htc_bytes_of("k"), .value = htc_bytes_of("theirs") };
    htc__kv_stamp  stamp = { .client = 10, .sequence = 1, .fresh = 1 };
    cr_assert(htc__kv_register_ask(h->reg, h->now, &h->owners, &q, &stamp, 0, HTC_NEVER, tag) == HTC_OK);
    hand_answer(h);
    hand_wait(h, HTC_SECOND);
    cr_assert(h->status[tag] == HTC_OK);
    htc__kv_register_destroy(h->reg);
    h->reg = mine;
}

/* The first owner has it; the second has promised more to somebody and refuses, the third is away. 1: another proposer makes its change on top of
 * that one before it is asked for again. */
static htc_status swapped(uint32_t op, uint64_t by, int overtaken)
{
    hand h;
    hand_open(&h);
    hand_ask(&h, 2, HTC_KV_PUT);
    hand_answer(&h);
    uint64_t version = h.cell[0].version;
    h.present = 2;
    h.cell[1].promise = (htc__kv_ballot){ 1, h.cell[1].promise.counter + 1000, 2 };
    hand_swap(&h, 3, op, by, version);
    hand_answer(&h);
    cr_assert(h.status[3] == HTC_AGAIN && htc_bytes_equal(h.cell[0].value, htc_bytes_of("mine")));
    cr_assert(htc_bytes_equal(h.cell[1].value, htc_bytes_of("v")) && htc_bytes_equal(h.cell[2].value, htc_bytes_of("v")));
    if (overtaken)
        hand_other_puts(&h, 4);
    hand_wait(&h, 5 * HTC_SECOND);
    htc_status status = h.status[3];
    cr_expect(overtaken || htc_bytes_equal(h.cell[1].value, htc_bytes_of("mine")), "it is made");
    hand_close(&h);
    return status;
}

/* It meets its own value when it is begun anew, and does not take that for somebody else's. */
Test(register_rounds, a_swap_that_some_have_taken_is_no_mismatch_to_itself)
{
    static const uint32_t ops[] = { HTC_KV_CAS_VERSION, HTC_KV_CAS_VALUE };
    for (int i = 0; i < 2; i++) {
        cr_expect_eq(swapped(ops[i], 9, 0), HTC_OK);
        cr_expect_eq(swapped(ops[i], 0, 0), HTC_OK);
        cr_expect_eq(swapped(ops[i], 9, 1), HTC_OK, "it stands in the list of changes of the cell above it");
        cr_expect_eq(swapped(ops[i], 0, 1), HTC_EUNKNOWN, "it is noted nowhere");
    }
}

/* ---- long values ---- */

typedef struct told {
    uint32_t sent; /* to how many owners */
    uint64_t reserve;
} told;

static void count_sent(void *ctx, const htc__kv_owners *owners, uint32_t mask, const htc__kv_ask *ask)
{
    told *t = ctx;
    (void)owners;
    (void)ask;
    t->sent += (uint32_t)__builtin_popcount(mask);
}

static void no_outcome(void *ctx, uint64_t tag, const htc__kv_outcome *outcome)
{
    (void)ctx;
    (void)tag;
    cr_expect_eq(outcome->result.status, HTC_OK, "nobody has answered");
}

static void no_other(void *ctx, uint64_t tag, uint64_t to, int tried)
{
    (void)ctx;
    (void)tag;
    (void)to;
    (void)tried;
}

static void note_reserve(void *ctx, uint64_t counter)
{
    ((told *)ctx)->reserve = counter;
}

/* How often it is said in so much time while nobody answers; len: of the value. */
static uint32_t said_in(htc_ns time, size_t len)
{
    told                     t = { .sent = 0 };
    htc__kv_register        *reg = NULL;
    htc__kv_register_options o = { .self = 1 };
    htc__kv_register_host    host = { count_sent, no_outcome, no_other, note_reserve, &t };
    htc__kv_owners           owners = { .epoch = 1, .n = 3, .id = { 1, 2, 3 } };
    htc__kv_stamp            stamp = { .client = 7, .sequence = 1, .fresh = 1 };
    uint8_t                 *value = calloc(1, len + 1);
    htc_kv_request           q = { .size = sizeof q, .op = HTC_KV_PUT, .key = htc_bytes_of("k"), .value = { value, len } };
    cr_assert(value && htc__kv_register_create(NULL, &o, &host, &reg) == HTC_OK);
    htc__kv_register_reserved(reg, 1, t.reserve);
    cr_assert(htc__kv_register_ask(reg, 1, &owners, &q, &stamp, 0, HTC_NEVER, 1) == HTC_OK);
    for (htc_ns at; (at = htc__kv_register_deadline(reg)) < time;)
        htc__kv_register_timeout(reg, at);
    htc__kv_register_destroy(reg);
    free(value);
    return t.sent;
}

Test(register, is_patient_with_long_values)
{
    cr_expect_eq(said_in(10 * HTC_MS, 16), 3, "once to each");
    cr_expect_gt(said_in(2 * HTC_SECOND, 16), 30, "a short one is said again soon");
    cr_expect_eq(said_in(2 * HTC_SECOND, HTC_KV_VALUE_MAX), 3, "a long one is on its way meanwhile");
    cr_expect_gt(said_in(10 * HTC_SECOND, HTC_KV_VALUE_MAX), 6, "and lost in the end");
}
