/* What monitors are told of agents: each outcome is one of a few, and no agent makes a sum absurd. */
#include "expect.h"

#include "roles/gateway/agent_figures.h"

static htc_outcome of(htc_status status, htc_ns ran)
{
    return (htc_outcome){ .status = status, .started = HTC_SECOND, .ended = HTC_SECOND + ran };
}

Test(agent_figures, every_status_is_one_end)
{
    static const struct {
        htc_status  status;
        figures_end end;
    } rows[] = { { HTC_OK, FIGURES_DONE }, { HTC_EEXIT, FIGURES_FAILED }, { HTC_ESIGNAL, FIGURES_FAILED }, { HTC_EOOM, FIGURES_LIMIT }, { HTC_EWALLTIME, FIGURES_LIMIT },
                 { HTC_ESTAGEIN, FIGURES_STAGING }, { HTC_ESTAGEOUT, FIGURES_STAGING }, { HTC_EINPUT, FIGURES_STAGING }, { HTC_ENOEXEC, FIGURES_REFUSED },
                 { HTC_ECANCELLED, FIGURES_CANCELLED }, { HTC_ESTOPPED, FIGURES_STOPPED }, { HTC_ELOST, FIGURES_LOST }, { HTC_ECORRUPT, FIGURES_OTHER } };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        agent_figures f = { .run = 0 };
        htc_outcome   o = of(rows[i].status, HTC_SECOND);
        htc__figures_add(&f, &o, 1);
        cr_expect(eq(u64, f.ended[rows[i].end], 1), "%s", htc_status_name(rows[i].status));
        cr_expect(htc__figures_names[rows[i].end] != NULL);
    }
}

Test(agent_figures, sums_are_bounded_by_what_an_attempt_can_have)
{
    agent_figures f = { .run = 0 };
    htc_outcome   o = of(HTC_OK, 2 * HTC_SECOND);
    o.cpu_ns = UINT64_MAX;
    o.outputs.files = o.outputs.bytes = UINT64_MAX;
    htc__figures_add(&f, &o, 4);
    cr_expect(eq(u64, f.cpu, 8 * HTC_SECOND) && eq(u64, f.run, 2 * HTC_SECOND));
    cr_expect(f.output_bytes <= UINT64_C(1) << 50 && f.output_files <= 100000000);
    o = of(HTC_OK, 10 * HTC_SECOND); /* a bound is inclusive */
    htc__figures_add(&f, &o, 4);
    o = (htc_outcome){ .status = HTC_EREFUSED }; /* never ran */
    htc__figures_add(&f, &o, 4);
    o = of(HTC_OK, 100000 * HTC_SECOND);
    htc__figures_add(&f, &o, 4);
    cr_expect(eq(u64, f.durations[2], 2) && eq(u64, f.durations[FIGURES_BOUNDS], 1) && eq(u64, f.ended[FIGURES_DONE], 3));
}
