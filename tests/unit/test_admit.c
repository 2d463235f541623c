/* Who may come in while places are few. */
#include "expect.h"

#include "net/loop/admit.h"

Test(admit, strangers_never_fill_the_places_of_the_owner_and_the_agents)
{
    static const struct {
        htc__crowd     crowd;
        int            stranger, uid_known;
        htc__admission right;
    } rows[] = {
        { { 0, 100, 0, 75, 0, 10 }, 1, 1, HTC_ADMIT },
        { { 10, 100, 10, 75, 10, 10 }, 1, 1, HTC_ADMIT_UID_FULL }, /* one uid has all of its own */
        { { 10, 100, 10, 75, 0, 10 }, 1, 1, HTC_ADMIT },           /* and the next one comes in */
        { { 75, 100, 75, 75, 0, 10 }, 1, 1, HTC_ADMIT_STRANGERS_FULL },
        { { 75, 100, 75, 75, 75, 10 }, 0, 1, HTC_ADMIT },          /* the owner, and an agent of whatever uid */
        { { 99, 100, 75, 75, 0, 10 }, 0, 1, HTC_ADMIT },
        { { 100, 100, 75, 75, 0, 10 }, 0, 1, HTC_ADMIT_FULL },
        { { 50, 100, 50, 75, 50, 10 }, 1, 0, HTC_ADMIT },          /* over TCP nobody knows the uid */
        { { 75, 100, 75, 75, 75, 10 }, 1, 0, HTC_ADMIT_STRANGERS_FULL },
        { { 99, 100, 99, 0, 99, 0 }, 1, 1, HTC_ADMIT },            /* no limit was set */
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        cr_expect(eq(int, (int)htc__admit(&rows[i].crowd, rows[i].stranger, rows[i].uid_known), (int)rows[i].right), "row %zu", i);
}
