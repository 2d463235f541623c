/* How staging pauses where storage is used by too many: rules by hand, and over random courses the same as a model that keeps all that has
 * happened. */
#include "expect.h"

#include "roles/attempt/io_pace.h"

#define S HTC_SECOND
#define MS HTC_MS

Test(io_pace, doubles_to_a_bound_and_shrinks_to_nothing)
{
    io_pace p = { 0 };
    htc_ns  now = S, pause = IO_PACE_FIRST;
    cr_expect(eq(u64, htc__io_pace_from(&p, now, 7), now), "nothing has happened");
    for (int i = 0; i < 20; i++) {
        htc_ns at = htc__io_pace_trouble(&p, now, 0, 9);
        cr_expect(eq(u64, p.pause, pause) && eq(u64, p.until, now + pause));
        cr_expect(at >= p.until && at <= p.until + pause / 4, "try %d", i);
        now = p.until;
        pause = pause * 2 < IO_PACE_MOST ? pause * 2 : IO_PACE_MOST;
    }
    cr_expect(eq(u64, p.pause, IO_PACE_MOST));
    int n = 0;
    for (; p.pause && n < 64; n++)
        htc__io_pace_success(&p);
    cr_expect(eq(int, n, 10), "30 s are 50 ms doubled nine times and cut: %d", n);
    htc__io_pace_success(&p);
    cr_expect(eq(u64, p.pause, 0) && eq(u64, htc__io_pace_from(&p, now, 7), now));
}

Test(io_pace, counts_trouble_of_one_pause_once)
{
    io_pace p = { .first = 10 * MS };
    for (uint64_t i = 0; i < 64; i++) { /* all that was under way when the first met it */
        htc_ns at = htc__io_pace_trouble(&p, S + i * MS / 8, 0, i);
        cr_expect(at >= p.until && at >= S + i * MS / 8 + 10 * MS);
    }
    cr_expect(eq(u64, p.pause, 10 * MS) && eq(u64, p.until, S + 10 * MS));
    cr_expect(htc__io_pace_from(&p, S, 3) >= p.until, "what had no trouble waits as well");
    (void)htc__io_pace_trouble(&p, p.until, 0, 1);
    cr_expect(eq(u64, p.pause, 20 * MS));
}

/* One that fails each time waits longer and longer, though all beside it goes well. */
Test(io_pace, one_that_alone_has_trouble_is_tried_less_often)
{
    io_pace p = { .first = 10 * MS };
    htc_ns  now = S, last = 0;
    for (uint32_t tries = 0; tries < 8; tries++) {
        htc_ns at = htc__io_pace_trouble(&p, now, tries, 0);
        cr_expect(at - now >= (10 * MS << tries) && at - now > last);
        last = at - now;
        now = at;
        for (int i = 0; i < 10; i++)
            htc__io_pace_success(&p);
    }
}

Test(io_pace, those_that_wait_for_one_moment_come_back_apart)
{
    io_pace  p = { .first = S };
    uint32_t at[4] = { 0 };
    (void)htc__io_pace_trouble(&p, S, 0, 0);
    for (uint64_t i = 0; i < 400; i++)
        at[(htc__io_pace_from(&p, S, i) - p.until) * 16 / S]++; /* quarters of a quarter */
    for (int i = 0; i < 4; i++)
        cr_expect(at[i] > 60, "%u of 400 in quarter %d", at[i], i);
    for (uint32_t n = 0; n < 9; n++) {
        htc_ns turn = htc__io_pace_turn(&p, 0, n, 5), span = n < 5 ? S << n : IO_PACE_MOST;
        cr_expect(turn >= (span < IO_PACE_MOST ? span : IO_PACE_MOST) && turn <= span + span / 4, "turn %u", n);
    }
    io_pace before = p;
    (void)htc__io_pace_turn(&p, 0, 3, 5);
    cr_expect(p.pause == before.pause && p.until == before.until, "a turn that others have is no trouble");
}

Test(io_pace, is_for_what_overloaded_storage_says)
{
    static const htc_status trouble[] = { HTC_ENOSPC, HTC_EIO, HTC_ETIMEDOUT }, none[] = { HTC_OK, HTC_ENOTFOUND, HTC_EBUSY, HTC_EPATH, HTC_AGAIN, HTC_ESTAGEOUT };
    for (size_t i = 0; i < sizeof trouble / sizeof *trouble; i++)
        cr_expect(htc__io_pace_is_trouble(trouble[i]));
    for (size_t i = 0; i < sizeof none / sizeof *none; i++)
        cr_expect(!htc__io_pace_is_trouble(none[i]));
}

/* The model: the pause is the first one times two to the power of a level; what ends a pause is kept as a time. */
Test(io_pace, agrees_with_a_model)
{
    htc_rng seeds = { 5 };
    for (int walk = 0; walk < 2000; walk++) {
        htc_rng  rng = { htc_rng_next(&seeds) };
        io_pace  p = { .first = (1 + htc_rng_below(&rng, 40)) * MS };
        htc_ns   now = 0, until = 0, pause = 0;
        for (int i = 0; i < 100; i++) {
            uint64_t salt = htc_rng_next(&rng);
            now += htc_rng_below(&rng, 3) ? htc_rng_below(&rng, 100 * MS) : htc_rng_below(&rng, 60 * S);
            if (htc_rng_below(&rng, 3)) {
                uint32_t tries = (uint32_t)htc_rng_below(&rng, 12);
                htc_ns   own = p.first;
                for (uint32_t k = 0; k < tries; k++)
                    own = own * 2 < IO_PACE_MOST ? own * 2 : IO_PACE_MOST;
                if (now >= until) {
                    pause = pause == 0 ? p.first : pause * 2 > IO_PACE_MOST ? IO_PACE_MOST : pause * 2;
                    until = now + pause;
                }
                htc_ns least = now + (own > pause ? own : pause);
                least = least > until ? least : until;
                htc_ns at = htc__io_pace_trouble(&p, now, tries, salt);
                cr_assert(at >= least && at - least <= pause / 4, "walk %d step %d", walk, i);
            } else {
                htc__io_pace_success(&p);
                pause = pause / 2 < p.first ? 0 : pause / 2;
            }
            cr_assert(eq(u64, p.pause, pause) && eq(u64, p.until, until), "walk %d step %d", walk, i);
            htc_ns from = htc__io_pace_from(&p, now, salt);
            cr_assert(now >= until ? from == now : from >= until && from - until <= pause / 4);
        }
    }
}

Test(io_pace, never_is_never)
{
    io_pace p = { 0 };
    cr_expect(eq(u64, htc__io_pace_trouble(&p, HTC_NEVER - 1, 0, 1), HTC_NEVER));
    cr_expect(eq(u64, htc__io_pace_turn(&p, HTC_NEVER - 1, 0, 1), HTC_NEVER));
}
