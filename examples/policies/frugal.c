/* A steal policy for large groups. A thief asks few others (the logarithm of all, not the square root), and a victim gives a third of its tasks,
 * not half: fewer messages, and fewer tasks that move twice. In return a thief waits no longer than at first until it has failed four times. */
#include <htcsched/policy_file.h>
#include <htcsched/steal.h>

HTC_POLICY_FILE;

#define PATIENCE 4

static htc_status choose(void *ctx, const htc_steal_view *view, htc_rng *rng, uint32_t cap, uint32_t *out, uint32_t *count)
{
    uint32_t few = htc_steal_neighbours(HTC_STEAL_LOG2, view->n);
    (void)ctx;
    *count = few < cap ? few : cap;
    return htc_steal_pick(rng, view->n, view->self, *count, out);
}

static htc_ns wait(void *ctx, const htc_steal_view *view)
{
    htc_ns span = view->options->poll_ns;
    (void)ctx;
    for (uint32_t i = PATIENCE; i < view->failures && span <= view->options->poll_ns_max / 2; i++)
        span *= 2;
    return span;
}

/* At least one: a third of one would be none for ever. */
static uint64_t amount(void *ctx, const htc_steal_options *options, uint64_t waiting, uint64_t idle)
{
    (void)ctx;
    (void)options;
    return idle ? waiting / 3 : (waiting + 2) / 3;
}

static const htc_steal_policy frugal = { .size = sizeof frugal, .name = "frugal", .choose = choose, .wait = wait, .amount = amount };

htc_status htc_policy_register(htc_registry *registry)
{
    return htc_steal_register(registry, &frugal);
}
