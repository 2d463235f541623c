/* Cores by user over time: bounded, and every core second stays counted. */
#include "expect.h"

#include <stdio.h>
#include <string.h>

#include "roles/gateway/share_history.h"

static share_history h;

static double area(void)
{
    double sum = 0;
    for (uint32_t k = 0; k <= HISTORY_USERS; k++)
        for (uint32_t i = 0; i < h.points; i++)
            sum += (double)h.lines[k].cores[i];
    return sum * (double)h.step / 1e9;
}

static const history_line *line(const char *name)
{
    for (uint32_t k = 0; k < HISTORY_USERS; k++)
        if (strcmp(h.lines[k].name, name) == 0)
            return &h.lines[k];
    return NULL;
}

Test(share_history, keeps_all_the_time_the_coarser_the_longer)
{
    htc_ns at = 7 * HTC_SECOND;
    htc__history_begin(&h, at);
    cr_expect(not(htc__history_due(&h, at + HTC_SECOND - 1)));
    for (uint32_t s = 1; s <= 5000; s++) {
        if (!htc__history_due(&h, at + s * HTC_SECOND))
            continue;
        htc__history_user(&h, "ann", 4);
        htc__history_pass(&h, at + s * HTC_SECOND);
    }
    double held = (double)h.points * (double)h.step / 1e9 * 4;
    cr_expect(h.points >= HISTORY_POINTS / 2 && h.points <= HISTORY_POINTS);
    cr_expect(eq(u64, h.step, 16 * HTC_SECOND));
    cr_expect(held <= 20000 && held > 20000 - 4 * 32, "%g", held);
    cr_expect(area() == held, "%g is not %g", area(), held);
}

Test(share_history, a_long_silence_is_one_call)
{
    htc__history_begin(&h, 0);
    htc__history_user(&h, "ann", 2);
    htc__history_pass(&h, 100000 * HTC_SECOND);
    cr_expect(h.points <= HISTORY_POINTS && not(htc__history_due(&h, 100000 * HTC_SECOND)));
    cr_expect((double)line("ann")->cores[0] == 2.0 && (double)line("ann")->cores[h.points - 1] == 2.0);
    htc__history_pass(&h, 100000 * HTC_SECOND + 2 * h.step);
    cr_expect((double)line("ann")->cores[h.points - 1] == 0.0, "who is not named has none");
}

Test(share_history, more_users_than_lines_are_summed_up)
{
    char name[16];
    htc__history_begin(&h, 0);
    for (uint32_t u = 0; u < 40; u++) { /* one after the other; the later the more */
        snprintf(name, sizeof name, "u%u", u);
        htc__history_user(&h, name, u + 1);
        htc__history_pass(&h, (u + 1) * HTC_SECOND);
    }
    double all = 0;
    for (uint32_t u = 0; u < 40; u++)
        all += u + 1;
    cr_expect(area() == all, "%g of %g", area(), all);
    cr_expect(line("u39") && line("u26") && !line("u1") && h.lines[HISTORY_USERS].sum > 0);
    /* Those that have cores at once and are more than lines: the later ones are among the others. */
    htc__history_begin(&h, 0);
    for (uint32_t s = 1; s <= 2; s++) {
        for (uint32_t u = 0; u < 20; u++) {
            snprintf(name, sizeof name, "u%u", u);
            htc__history_user(&h, name, 1);
        }
        htc__history_pass(&h, s * HTC_SECOND);
    }
    cr_expect(line("u0") && line("u14") && !line("u15"));
    cr_expect((double)h.lines[HISTORY_USERS].cores[1] == 5.0);
}
