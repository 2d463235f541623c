/* What an owner answers, rule by rule, and what it stores before. */
#include "expect.h"

#include "alloc_fail.h"
#include "kvs/register/register.h"

#define ALL (HTC__KV_REPLY | HTC__KV_STORE_CELL)

static htc__kv_ballot ballot(uint64_t counter, uint64_t proposer)
{
    return (htc__kv_ballot){ 1, counter, proposer };
}

static int is(htc__kv_ballot a, htc__kv_ballot b)
{
    return htc__kv_ballot_compare(&a, &b) == 0;
}

typedef struct owner {
    htc__kv_cell   cell;
    htc__kv_floors floors;
    htc__kv_reply  reply;
} owner;

static unsigned prepare(owner *o, htc__kv_ballot b)
{
    htc__kv_ask ask = { .kind = HTC__KV_PREPARE, .ballot = b };
    return htc__kv_acceptor_step(&o->cell, &o->floors, &ask, &o->reply);
}

static unsigned accept(owner *o, htc__kv_ballot b, uint64_t version, int deleted, int next)
{
    htc__kv_ask ask = { .kind = HTC__KV_ACCEPT, .ballot = b, .next = (uint8_t)next };
    ask.cell = (htc__kv_cell){ .present = 1, .deleted = (uint8_t)deleted, .version = version };
    return htc__kv_acceptor_step(&o->cell, &o->floors, &ask, &o->reply);
}

static unsigned collect(owner *o, htc__kv_ballot b, uint64_t version)
{
    htc__kv_ask ask = { .kind = HTC__KV_COLLECT, .ballot = b, .cell.version = version };
    return htc__kv_acceptor_step(&o->cell, &o->floors, &ask, &o->reply);
}

Test(acceptor, ballots_compare_as_epoch_counter_proposer)
{
    const htc__kv_ballot rising[] = { { 0, 0, 0 }, { 1, 1, 9 }, { 1, 2, 1 }, { 1, 2, 2 }, { 2, 1, 1 } };
    for (size_t i = 0; i < 5; i++)
        for (size_t j = 0; j < 5; j++)
            cr_expect(eq(int, htc__kv_ballot_compare(&rising[i], &rising[j]) > 0, i > j));
}

Test(acceptor, refuses_below_what_it_promised_or_accepted)
{
    owner o = { 0 };
    cr_expect(prepare(&o, ballot(5, 1)) == ALL && !o.reply.refused);
    cr_expect(prepare(&o, ballot(4, 2)) == HTC__KV_REPLY && o.reply.refused);
    cr_expect(is(o.reply.highest, ballot(5, 1)));
    /* Equal is the same proposer, and said again: the promise stands, nothing new is stored. */
    cr_expect(prepare(&o, ballot(5, 1)) == HTC__KV_REPLY && !o.reply.refused);
    cr_expect(accept(&o, ballot(4, 2), 1, 0, 0) == HTC__KV_REPLY && o.reply.refused);
    cr_expect(accept(&o, ballot(5, 1), 1, 0, 0) == ALL && !o.reply.refused);
    /* What was accepted counts like what was promised. */
    cr_expect(prepare(&o, ballot(4, 9)) == HTC__KV_REPLY && o.reply.refused);
    cr_expect(accept(&o, ballot(6, 2), 2, 0, 0) == ALL &&
              !o.reply.refused); /* without a promise, if nobody has a higher one */
    cr_expect(accept(&o, ballot(5, 1), 1, 0, 0) == HTC__KV_REPLY && o.reply.refused);
    cr_expect(prepare(&o, ballot(7, 1)) == ALL && o.reply.cell.present && o.reply.cell.version == 2);
    cr_expect(is(o.reply.cell.accepted, ballot(6, 2)));
}

Test(acceptor, an_accept_carries_the_next_promise)
{
    owner o = { 0 };
    accept(&o, ballot(5, 2), 1, 0, 1);
    cr_expect(is(o.cell.promise, ballot(6, 2)));
    cr_expect(prepare(&o, ballot(6, 1)) == HTC__KV_REPLY && o.reply.refused);
    /* Said again it is confirmed again, also when another has been promised since. */
    prepare(&o, ballot(9, 1));
    cr_expect(accept(&o, ballot(5, 2), 1, 0, 1) == HTC__KV_REPLY && !o.reply.refused);
    cr_expect(is(o.cell.promise, ballot(9, 1)));
    cr_expect(accept(&o, ballot(6, 2), 2, 0, 1) == HTC__KV_REPLY && o.reply.refused);
}

Test(acceptor, the_version_floor)
{
    for (uint64_t version = 9; version <= 11; version++)
        for (int deleted = 0; deleted < 2; deleted++) {
            owner o = { .floors = { .version = 10 } };
            int   taken = version > 10 || (deleted && version == 10);
            o.cell = htc__kv_cell_absent(&o.floors);
            accept(&o, ballot(1, 1), version, deleted, 0);
            cr_expect(o.reply.refused == !taken && o.cell.present == taken);
            /* Only a ballot can be outbid. */
            cr_expect(htc__kv_ballot_none(&o.reply.highest) || !o.reply.refused);
            cr_expect(eq(u64, o.reply.floor, 10));
        }
    owner o = { .floors = { .version = 10 } };
    o.cell = (htc__kv_cell){ .present = 1, .version = 3 }; /* a record of its own: other keys raised the floor */
    accept(&o, ballot(1, 1), 4, 0, 0);
    cr_expect(eq(int, o.reply.refused, 0));
}

Test(acceptor, the_ballot_floor)
{
    owner o = { .floors = { .ballot = ballot(7, 7) } };
    cr_expect(prepare(&o, ballot(7, 7)) == HTC__KV_REPLY && o.reply.refused && is(o.reply.highest, ballot(7, 7)));
    cr_expect(accept(&o, ballot(7, 7), 1, 0, 0) == HTC__KV_REPLY && o.reply.refused);
    cr_expect(accept(&o, ballot(8, 1), 1, 0, 0) == ALL && !o.reply.refused);
}

Test(acceptor, collects_only_that_tombstone)
{
    owner o = { 0 };
    accept(&o, ballot(5, 1), 4, 1, 1);
    cr_expect(eq(uint, collect(&o, ballot(4, 1), 4), 0));
    cr_expect(eq(uint, collect(&o, ballot(5, 1), 3), 0));
    cr_expect(o.cell.present);
    prepare(&o, ballot(9, 3));
    cr_expect(eq(uint, collect(&o, ballot(5, 1), 4), HTC__KV_DROP_CELL | HTC__KV_STORE_FLOORS));
    cr_expect(htc__kv_cell_empty(&o.cell));
    cr_expect(eq(u64, o.floors.version, 4));
    cr_expect(is(o.floors.ballot, ballot(9, 3))); /* no promise is forgotten */
    cr_expect(o.cell.version == 4 && o.cell.forgot == 4);
    cr_expect(eq(uint, collect(&o, ballot(5, 1), 4), 0));
    /* A value is never collected. */
    accept(&o, ballot(10, 1), 5, 0, 0);
    cr_expect(eq(uint, collect(&o, ballot(10, 1), 5), 0));
}

Test(acceptor, a_promise_alone_folds_into_the_floor)
{
    owner o = { 0 };
    prepare(&o, ballot(5, 1));
    cr_expect(eq(uint, htc__kv_acceptor_fold(&o.cell, &o.floors), HTC__KV_DROP_CELL | HTC__KV_STORE_FLOORS));
    cr_expect(htc__kv_cell_empty(&o.cell) && is(o.floors.ballot, ballot(5, 1)));
    accept(&o, ballot(6, 1), 1, 0, 0);
    cr_expect(eq(uint, htc__kv_acceptor_fold(&o.cell, &o.floors), 0));
}

/* ---- a proposer on its own ---- */

typedef struct post {
    htc__kv_owners  owners;
    htc__kv_ask     ask; /* the last one; its value is not looked at */
    unsigned        sent, done, handed_over, reserved;
    htc__kv_outcome out;
    uint64_t        counter;
} post;

static void sent(void *ctx, const htc__kv_owners *owners, uint32_t mask, const htc__kv_ask *ask)
{
    post *p = ctx;
    (void)owners;
    p->ask = *ask;
    p->sent += (unsigned)__builtin_popcount(mask);
}

static void done(void *ctx, uint64_t tag, const htc__kv_outcome *out)
{
    post *p = ctx;
    (void)tag;
    p->done++;
    p->out = *out;
}

static void handed_over(void *ctx, uint64_t tag, uint64_t to, int tried)
{
    post *p = ctx;
    (void)tag;
    (void)tried;
    p->handed_over += to == p->owners.id[p->owners.first];
}

static void reserved(void *ctx, uint64_t counter)
{
    post *p = ctx;
    p->reserved++;
    p->counter = counter;
}

static htc__kv_register *proposer(const htc_env *env, post *p, uint64_t self)
{
    htc__kv_register        *reg = NULL;
    htc__kv_register_host    host = { sent, done, handed_over, reserved, p };
    htc__kv_register_options options = { .self = self, .counter = 100 };
    *p = (post){ .owners = { .epoch = 1, .n = 3, .id = { 1, 2, 3 } } };
    return htc__kv_register_create(env, &options, &host, &reg) == HTC_OK ? reg : NULL;
}

static htc_status put(htc__kv_register *reg, post *p, htc_ns now, uint64_t sequence)
{
    htc_kv_request q = { .size = sizeof q, .op = HTC_KV_PUT, .key = { "k", 1 }, .value = { "value", 5 } };
    htc__kv_stamp  stamp = { .client = 7, .sequence = sequence };
    return htc__kv_register_ask(reg, now, &p->owners, &q, &stamp, 0, HTC_NEVER, sequence);
}

/* Owners that hold nothing confirm whatever they are asked. */
static void confirm(htc__kv_register *reg, const post *p, htc_ns now, uint64_t from)
{
    htc__kv_reply reply = { .kind = p->ask.kind, .round = p->ask.round, .key = { "k", 1 } };
    htc__kv_register_reply(reg, now, from, &reply);
}

Test(proposer, no_ballot_before_its_block_is_durable)
{
    post              p;
    htc__kv_register *reg = proposer(NULL, &p, 1);
    cr_assert(reg && p.reserved == 1 && p.counter > 100);
    put(reg, &p, 0, 1);
    cr_expect(eq(uint, p.sent, 0));
    htc__kv_register_reserved(reg, 0, p.counter);
    cr_expect(p.sent == 3 && p.ask.kind == HTC__KV_PREPARE && p.ask.ballot.counter > 100);
    htc__kv_register_destroy(reg);
}

Test(proposer, one_round_trip_when_it_knows_the_key)
{
    post              p;
    htc__kv_register *reg = proposer(NULL, &p, 1);
    htc__kv_register_reserved(reg, 0, p.counter);
    put(reg, &p, 0, 1);
    confirm(reg, &p, 1, 1);
    confirm(reg, &p, 1, 1); /* an owner counts once */
    cr_expect(eq(uint, p.ask.kind, HTC__KV_PREPARE));
    confirm(reg, &p, 1, 2);
    cr_expect(p.ask.kind == HTC__KV_ACCEPT && p.ask.next && p.done == 0);
    htc__kv_ballot first = p.ask.ballot;
    put(reg, &p, 2, 2); /* one after the other, also when pipelined */
    cr_expect(is(p.ask.ballot, first));
    confirm(reg, &p, 3, 1);
    confirm(reg, &p, 3, 3);
    cr_expect(p.done == 1 && p.out.result.version == 1);
    cr_expect(p.ask.kind == HTC__KV_ACCEPT && is(p.ask.ballot, htc__kv_ballot_next(first)));
    confirm(reg, &p, 4, 2);
    confirm(reg, &p, 4, 3);
    cr_expect(p.done == 2 && p.out.result.version == 2);
    /* A read is asked of the owners, whatever is cached. */
    htc_kv_request q = { .size = sizeof q, .op = HTC_KV_GET, .key = { "k", 1 } };
    htc__kv_stamp  nobody = { 0 };
    htc__kv_register_ask(reg, 5, &p.owners, &q, &nobody, 0, HTC_NEVER, 9);
    cr_expect(p.ask.kind == HTC__KV_READ && p.done == 2);
    htc__kv_register_destroy(reg);
}

/* Deadlines are those of a timing wheel: some wakings only carry a round from one turn of it to the next. */
static void let_rounds_pass(htc__kv_register *reg, const post *p, const htc__kv_ballot *ballot)
{
    for (int i = 0; i < 64 && is(p->ask.ballot, *ballot); i++)
        htc__kv_register_timeout(reg, htc__kv_register_deadline(reg));
}

/* Silent owners may be slow; one that has refused has promised another ballot. */
Test(proposer, after_a_time_out_another_ballot_if_one_was_refused)
{
    post              p;
    htc__kv_register *reg = proposer(NULL, &p, 1);
    htc__kv_register_reserved(reg, 0, p.counter);
    put(reg, &p, 0, 1);
    confirm(reg, &p, 1, 1);
    confirm(reg, &p, 1, 2);
    htc__kv_ballot first = p.ask.ballot;
    let_rounds_pass(reg, &p, &first);
    cr_expect(p.ask.kind == HTC__KV_ACCEPT && is(p.ask.ballot, first));
    htc__kv_reply no = { .kind = HTC__KV_ACCEPT, .refused = 1, .round = p.ask.round, .key = { "k", 1 } };
    no.highest = htc__kv_ballot_next(first);
    htc__kv_register_reply(reg, 2, 1, &no);
    let_rounds_pass(reg, &p, &first);
    cr_expect(p.ask.kind == HTC__KV_PREPARE && htc__kv_ballot_compare(&p.ask.ballot, &first) > 0);
    cr_expect(eq(uint, p.done, 0));
    htc__kv_register_destroy(reg);
}

Test(proposer, after_losses_the_first_owner_gets_it)
{
    post              p;
    htc__kv_register *reg = proposer(NULL, &p, 2);
    htc__kv_register_reserved(reg, 0, p.counter);
    put(reg, &p, 0, 1);
    for (uint64_t n = 1; n < 10 && !p.handed_over; n++) {
        htc__kv_reply no = { .kind = HTC__KV_PREPARE, .refused = 1, .round = p.ask.round, .key = { "k", 1 } };
        no.highest = ballot(1000 * n, 1);
        htc__kv_register_reply(reg, n, 1, &no);
        htc__kv_register_reply(reg, n, 3, &no);
        if (!p.handed_over) {
            htc__kv_register_timeout(reg, htc__kv_register_deadline(reg));
            cr_expect(p.ask.ballot.counter > 1000 * n); /* outbid */
        }
    }
    cr_expect(eq(uint, p.handed_over, 1));
    cr_expect(htc__kv_register_deadline(reg) == HTC_NEVER);
    htc__kv_register_destroy(reg);
}

static void other_owners(void *ctx, htc_bytes key, htc__kv_owners *owners)
{
    (void)key;
    *owners = *(const htc__kv_owners *)ctx;
}

Test(proposer, a_new_epoch_starts_anew_or_hands_over)
{
    post              p;
    htc__kv_register *reg = proposer(NULL, &p, 1);
    htc__kv_register_reserved(reg, 0, p.counter);
    put(reg, &p, 0, 1);
    p.owners.epoch = 2;
    htc__kv_register_moved(reg, 1, other_owners, &p.owners);
    cr_expect(p.ask.kind == HTC__KV_PREPARE && p.ask.epoch == 2 && p.ask.ballot.epoch == 2);
    p.owners = (htc__kv_owners){ .epoch = 3, .n = 3, .id = { 4, 5, 6 } };
    htc__kv_register_moved(reg, 1, other_owners, &p.owners);
    cr_expect(eq(uint, p.handed_over, 1));
    htc__kv_register_destroy(reg);
}

Test(proposer, memory_runs_out_anywhere)
{
    ALLOC_FAIL_EVERY(f, 1000)
    {
        htc_env           env = alloc_fail_env(&f);
        post              p;
        htc__kv_register *reg = proposer(&env, &p, 1);
        if (!reg) {
            cr_expect(f.refused > 0 && f.live == 0);
            continue;
        }
        htc__kv_register_reserved(reg, 0, p.counter);
        htc_status status = put(reg, &p, 0, 1);
        cr_expect(status == HTC_OK || (status == HTC_ENOMEM && f.refused));
        if (status == HTC_OK) {
            confirm(reg, &p, 1, 1);
            confirm(reg, &p, 1, 2);
            confirm(reg, &p, 2, 1);
            confirm(reg, &p, 2, 2);
            cr_expect(p.done == 1 || f.refused); /* else it waits, and tries again */
        }
        htc__kv_register_destroy(reg);
        cr_expect(f.live == 0 && f.wrong_sizes == 0);
    }
}
