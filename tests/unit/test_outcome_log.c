#include <string.h>

#include "expect.h"
#include "htcsched/env.h"
#include "roles/worker/graph_task.h"
#include "roles/worker/ledger.h"

/* Numbers of all lengths, so that differences go both ways and round the end of what a number holds. */
static uint64_t any(htc_rng *rng)
{
    return htc_rng_next(rng) >> htc_rng_below(rng, 64);
}

static bag_outcome draw(htc_rng *rng, const bag_outcome *last)
{
    bag_outcome o = { .from = htc_rng_below(rng, 3) ? last->to : any(rng) / 2, .worker = htc_rng_below(rng, 4) ? last->worker : any(rng),
                      .attempt = htc_rng_below(rng, 3) ? last->attempt + 1 : (uint32_t)any(rng), .how = (uint8_t)(GRAPH_DONE + htc_rng_below(rng, 3)) };
    o.from = o.from > UINT64_MAX / 2 ? 0 : o.from;
    o.to = o.from + 1 + (htc_rng_below(rng, 3) ? 0 : any(rng) / 4);
    if (htc_rng_below(rng, 4)) {
        o.ended_us = 1 + any(rng) / 2;
        o.began_us = any(rng);
    }
    if (htc_rng_below(rng, 4) == 0) {
        o.status = (int32_t)any(rng);
        o.exit_code = (uint32_t)any(rng);
        o.signal = (uint32_t)any(rng);
    }
    return o;
}

/* Whatever was added is read, in its order, until there is no room; and through a ledger's record, and a block. */
Test(outcome_log, entries_come_back)
{
    for (uint64_t seed = 1; seed <= 200; seed++) {
        htc_rng            rng = { seed };
        ledger             l, again;
        static bag_outcome all[OUTCOME_LOG_MAX];
        bag_outcome        o = { 0 };
        uint32_t           n = 0, i = 0;
        htc_buf            b;
        htc_bytes          entries;
        uint64_t           before;
        htc__ledger_init(&l, (ledger_span){ 0, 10 });
        for (;; n++) {
            outcome_log whole = l.log;
            all[n] = draw(&rng, &l.log.last);
            if (htc__outcome_log_add(&l.log, &all[n]) == HTC_OK)
                continue;
            cr_assert(l.log.len + OUTCOME_BYTES > OUTCOME_LOG_MAX, "there is room");
            cr_assert(memcmp(&whole, &l.log, sizeof whole) == 0);
            break;
        }
        l.log.block = 7;
        htc_buf_init(&b, NULL, 0);
        htc__ledger_write(&b, &l);
        cr_assert(eq(int, htc__ledger_read(htc_buf_bytes(&b), &again), HTC_OK));
        cr_assert(eq(u64, again.log.block, 7));
        htc_reader r = htc_reader_of((htc_bytes){ again.log.bytes, again.log.len });
        for (; htc_reader_left(&r); i++) {
            htc__outcome_get(&r, &o);
            cr_assert(eq(int, r.status, HTC_OK));
            cr_assert(o.from == all[i].from && o.to == all[i].to && o.worker == all[i].worker && o.attempt == all[i].attempt && o.how == all[i].how &&
                          o.began_us == (all[i].ended_us ? all[i].began_us : 0) && o.ended_us == all[i].ended_us && o.status == all[i].status &&
                          o.exit_code == all[i].exit_code && o.signal == all[i].signal,
                      "seed %lu: entry %u is read as something else", seed, i);
        }
        cr_assert(eq(u32, i, n));
        cr_assert(memcmp(&o.to, &again.log.last.to, sizeof o.to) == 0 && o.clock_us == again.log.last.clock_us, "what comes next is written against something else");
        htc__outcome_block_write(&b, &l.log);
        cr_assert(eq(int, htc__outcome_block_read(htc_buf_bytes(&b), &before, &entries), HTC_OK));
        cr_assert(before == 7 && entries.len == l.log.len && memcmp(entries.data, l.log.bytes, entries.len) == 0);
        htc__outcome_log_cut(&l.log, 9);
        cr_assert(l.log.block == 9 && l.log.len == 0 && l.log.last.to == 0);
        htc__outcome_block_write(&b, &l.log);
        cr_assert(eq(int, htc__outcome_block_read(htc_buf_bytes(&b), &before, &entries), HTC_ECORRUPT), "a block without entries");
        htc_buf_free(&b);
    }
}

/* A worker that runs one command after the other, of some seconds each, writes less than 16 bytes a task. */
Test(outcome_log, an_entry_is_short)
{
    htc_rng     rng = { 1 };
    outcome_log log = { 0 };
    uint64_t    now_us = UINT64_C(1790000000000000), n = 0;
    for (;; n++) {
        uint64_t ran_us = htc_rng_below(&rng, 10000000);
        now_us += 1 + htc_rng_below(&rng, ran_us + 1);
        bag_outcome o = { .from = n, .to = n + 1, .worker = 123456, .attempt = (uint32_t)(0x12340000 + n), .how = GRAPH_DONE, .began_us = now_us - ran_us, .ended_us = now_us };
        if (htc__outcome_log_add(&log, &o) != HTC_OK)
            break;
    }
    cr_assert(n >= OUTCOME_LOG_MAX / 11, "%lu entries in %u bytes", n, log.len);
}
