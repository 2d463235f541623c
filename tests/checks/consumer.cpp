// The same from C++: the headers bind, the symbols are found.
#include <cstdio>
#include <htcsched/allot.h>

int main()
{
    htc_allot_user users[2] = {};
    users[0].weight = users[1].weight = 1;
    users[0].queued = users[1].queued = 100;
    users[1].id = 1;
    htc_allot_share shares[2];
    htc_status      status = htc_allot(nullptr, nullptr, users, 2, 10, shares);
    std::printf("C++: %s, RA = %d and %d\n", htc_strerror(status), int(shares[0].ra), int(shares[1].ra));
    return status == HTC_OK && shares[0].ra == 5 && shares[1].ra == 5 ? 0 : 1;
}
