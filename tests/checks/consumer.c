/* A researcher's ten lines: divide slots, with nothing else running. */
#include <htcsched/allot.h>
#include <stdio.h>

int main(void)
{
    htc_allot_user  users[2] = { { .weight = 3, .queued = 4, .id = 1 }, { .weight = 1, .queued = 100, .id = 2 } };
    htc_allot_share shares[2];
    htc_status      status = htc_allot(NULL, NULL, users, 2, 10, shares);
    printf("C: %s, RA = %d and %d\n", htc_strerror(status), (int)shares[0].ra, (int)shares[1].ra);
    return status == HTC_OK && shares[0].ra == 4 && shares[1].ra == 6 ? 0 : 1;
}
